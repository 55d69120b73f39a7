"""Stores behind a client: fsspec's file systems, web servers, obstore, and the stores of zarr-python.

The first store of a kind imports its client.
"""

"""Stores behind a client: fsspec's file systems, web servers, obstore, and the stores of zarr-python.

Every client is imported when the first store of its kind is opened.
"""

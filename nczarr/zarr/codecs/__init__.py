"""Zarr codecs: arrays to arrays, arrays to bytes, bytes to bytes, and the chain of them that a chunk passes."""

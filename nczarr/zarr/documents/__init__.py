"""Zarr metadata documents: parse v2, v3 and 2019-draft JSON into the engine's metadata, and write it."""

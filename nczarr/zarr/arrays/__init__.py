"""Zarr arrays: select, plan, fetch and decode chunks; encode and store them."""

"""Zarr hierarchies: find, open, create and change nodes in a store, in each layout."""

"""The Zarr Object Model of ZEP 6: trees of nodes as JSON, validated and transformed."""

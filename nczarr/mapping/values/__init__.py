"""Encode netCDF values as Zarr elements, JSON values and codecs.

Each form is exact both ways: an :class:`Encoding` between the model's values and those of an array, JSON for
attributes, types and single values (``docs/spec/nczarr-v3.md``), codecs for netCDF's filters. Nothing here knows
groups or documents.
"""

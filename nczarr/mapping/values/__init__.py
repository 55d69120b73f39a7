"""Encode netCDF values as Zarr elements, as JSON and as bytes, and netCDF filters as codecs.

Each form is exactly reversible: an :class:`Encoding` converts between the values of a variable and of its array
(``encodings``); JSON represents attributes, types and single values (``attributes``, ``declarations``,
``scalars``; see ``docs/spec/nczarr-v3.md``); codecs represent filters (``filters``). The package knows neither groups
nor documents.
"""

"""Show an open dataset as the classes of netCDF4-python: Dataset, Group, Dimension, Variable, and the user types.

Each holds a node and the session of the editable core (``netcdf4.edit``) and says what they hold in that library's
words; values go through ``netcdf4.values``.
"""

"""Name the variables that xarray without nczarr reads otherwise from a Zarr store than from the netCDF file."""

from __future__ import annotations

from collections.abc import Iterator

from nczarr.model import CHAR, FLOAT, Dataset, Variable


def read_otherwise(dataset: Dataset) -> Iterator[str]:
    """Yield the variables for which no form of a store makes xarray's engine ``zarr`` read the values of the file.

    Examples
    --------
    >>> from nczarr import cdl
    >>> text = 'netcdf d {variables: char c; c:_FillValue = "x"; short t; t:scale_factor = 1.f;}'
    >>> list(read_otherwise(cdl.loads(text)))
    ['/c without missing values', '/t as double']
    """
    for fqn, variable in dataset.all_variables.items():
        # xarray refuses a dataset with a character as fill value, in whatever form.
        if variable.type == CHAR and "_FillValue" in variable.attribute:
            yield f"{fqn} without missing values"
        elif _is_float_in_file(variable):
            yield f"{fqn} as double"


def _is_float_in_file(variable: Variable) -> bool:
    """Return whether xarray unpacks a variable of a file to float: the type of the factor decides, which JSON drops."""
    packing = [variable.attribute.get(name) for name in ("scale_factor", "add_offset")]
    given = [attribute.type for attribute in packing if attribute is not None]
    if packing[0] is None or any(type_ != FLOAT for type_ in given):
        return False
    dtype = variable.type.dtype
    # With an offset, xarray unpacks integers of 32 bits to double in any case.
    return dtype.kind == "f" or (dtype.kind in "iu" and (len(given) == 1 or dtype.itemsize != 4))

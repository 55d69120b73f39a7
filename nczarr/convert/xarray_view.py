"""Name what xarray without nczarr reads otherwise from a Zarr store than from the netCDF file."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nczarr.model import CHAR, FLOAT, STRING, Attribute, Dataset, Group, Variable


def read_otherwise(dataset: Dataset) -> Iterator[str]:
    """Yield the parts for which no form of a store makes xarray's engine ``zarr`` read what it reads from the file.

    These are variables, and attributes with numbers that JSON does not have.

    Examples
    --------
    >>> from nczarr import cdl
    >>> text = 'netcdf d {variables: char c; c:_FillValue = "x"; short t; t:scale_factor = 1.f;}'
    >>> list(read_otherwise(cdl.loads(text)))
    ['/c without missing values', '/t as double']
    """
    for fqn, group in dataset.all_groups.items():
        yield from _read_as_text(fqn, group)
    for fqn, variable in dataset.all_variables.items():
        # xarray refuses a dataset with a text as fill value, in whatever form.
        if variable.type in (CHAR, STRING) and "_FillValue" in variable.attribute:
            yield f"{fqn} without missing values"
        elif _is_float_in_file(variable):
            yield f"{fqn} as double"
        yield from _read_as_text(fqn, variable)


def _read_as_text(fqn: str, node: Group | Variable) -> Iterator[str]:
    """Yield the attributes of a node with numbers that its document has as texts, such as ``"NaN"``."""
    for attribute in node.attributes:
        # The fill value has a form of its own, and a missing value that is NaN changes no value.
        if attribute.name != "_FillValue" and not _is_finite(attribute):
            yield f"{fqn}@{attribute.name} as text"


def _is_finite(attribute: Attribute) -> bool:
    values = attribute.values
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return True
    return attribute.name == "missing_value" and bool(np.isnan(values).all())


def _is_float_in_file(variable: Variable) -> bool:
    """Return whether xarray unpacks a variable of a file to float: the type of the factor decides, which JSON drops."""
    packing = [variable.attribute.get(name) for name in ("scale_factor", "add_offset")]
    given = [attribute.type for attribute in packing if attribute is not None]
    if packing[0] is None or any(type_ != FLOAT for type_ in given):
        return False
    dtype = variable.type.dtype
    # With an offset, xarray unpacks integers of 32 bits to double in any case.
    return dtype.kind == "f" or (dtype.kind in "iu" and (len(given) == 1 or dtype.itemsize != 4))

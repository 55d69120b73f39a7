"""Find the value of elements that were never written: ``_FillValue``, or netCDF's default."""

from __future__ import annotations

from typing import Any

import numpy as np

from nczarr.model import PrimitiveType, Variable, default_fill


def fill_value_of(variable: Variable) -> Any:
    """Return the value of elements that were never written.

    Examples
    --------
    >>> from nczarr.model import SHORT, Attribute
    >>> int(fill_value_of(Variable("v", SHORT, attributes=(Attribute.of("_FillValue", -1, SHORT),))))
    -1
    """
    own = own_fill_value(variable)
    return default_fill(variable.type) if own is None else own


def own_fill_value(variable: Variable) -> Any:
    """Return the value of ``_FillValue`` as one of the variable's type; None if there is none that fits.

    Examples
    --------
    >>> from nczarr.model import SHORT, Attribute
    >>> own_fill_value(Variable("v", SHORT, attributes=(Attribute.of("_FillValue", 0.5),)))
    """
    fill = variable.attribute.get("_FillValue")
    if fill is None or not len(fill.values):
        return None
    if fill.type == variable.type:
        return fill.values[0]
    both = (fill.type, variable.type)
    if all(isinstance(t, PrimitiveType) and t.dtype.kind in "iuf" for t in both):
        with np.errstate(all="ignore"):
            cast = fill.values[:1].astype(variable.type.dtype)
            back = cast.astype(fill.type.dtype)
        if back.tobytes() == fill.values[:1].tobytes():
            return cast[0]
    return None

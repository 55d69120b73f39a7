"""Determine fill values: ``_FillValue``, or netCDF's defaults."""

from __future__ import annotations

from typing import Any

import numpy as np

from nczarr.model.nodes import Variable
from nczarr.model.sources import ArraySource, RepeatedSource
from nczarr.model.types import CompoundType, EnumType, OpaqueType, PrimitiveType, Type, VlenType

#: netCDF's default fill values by CDL type name.
DEFAULT_FILL: dict[str, Any] = {
    "char": b"\0",
    "byte": -127,
    "ubyte": 255,
    "short": -32767,
    "ushort": 65535,
    "int": -2147483647,
    "uint": 4294967295,
    "int64": -9223372036854775806,
    "uint64": 18446744073709551614,
    "float": 9.969209968386869e36,
    "double": 9.969209968386869e36,
    "string": "",
}


def default_fill(type_: Type) -> Any:
    """Return the fill value of a type, for variables without ``_FillValue``.

    Returns
    -------
    numpy scalar, str or ndarray
        Of the type's dtype. An enum has the default of its base type. Opaque and compound values are zeros, with
        empty strings and sequences; the defaults of a compound type's fields are not used. A vlen is empty.

    Examples
    --------
    >>> from nczarr.model.types import SHORT, UBYTE
    >>> int(default_fill(SHORT)), int(default_fill(EnumType("/e", UBYTE, (("good", 0),))))
    (-32767, 255)
    """
    if isinstance(type_, VlenType):
        return np.empty(0, type_.base.dtype)
    if isinstance(type_, CompoundType):
        record = np.zeros((), type_.dtype)
        for f in type_.fields:
            if f.type.dtype.hasobject:
                value = default_fill(f.type)
                for index in np.ndindex(f.shape):
                    record[f.name][index] = value
        return record[()]
    if isinstance(type_, OpaqueType):
        return np.zeros((), type_.dtype)[()]
    if isinstance(type_, EnumType):
        return default_fill(type_.base)
    value = DEFAULT_FILL[type_.name]
    return value if type_.dtype == object else type_.dtype.type(value)


def fill_value_of(variable: Variable) -> Any:
    """Return the value of unwritten elements: :func:`own_fill_value`, or :func:`default_fill`.

    Examples
    --------
    >>> from nczarr.model import SHORT, Attribute, Variable
    >>> int(fill_value_of(Variable("v", SHORT, attributes=(Attribute.of("_FillValue", -1, SHORT),))))
    -1
    """
    own = own_fill_value(variable)
    return default_fill(variable.type) if own is None else own


def source_of(variable: Variable, shape: tuple[int, ...]) -> ArraySource:
    """Return the data of a variable, or its fill value everywhere if it has no data.

    Examples
    --------
    >>> from nczarr.model import SHORT
    >>> source_of(Variable("v", SHORT, (2,)), (2,)).read((slice(0, 2),)).tolist()
    [-32767, -32767]
    """
    if variable.data is not None:
        return variable.data
    return RepeatedSource(fill_value_of(variable), shape, variable.type.dtype)


def own_fill_value(variable: Variable) -> Any:
    """Return the value of ``_FillValue`` in the variable's type; None if it is absent or does not fit the type.

    Examples
    --------
    >>> from nczarr.model import SHORT, Attribute, Variable
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

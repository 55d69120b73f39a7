"""Values: netCDF's default fill values, and comparison to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np

from nczarr.model.types import CompoundType, EnumType, OpaqueType, Type, VlenType

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
    """The value of an element that was never written, where no ``_FillValue`` is set.

    Returns
    -------
    numpy scalar, str or ndarray
        Of the type's dtype. An enum has the default of its base type; an opaque or a compound is zeros (its
        fields' own defaults do not count), with empty text and sequences; a vlen is empty.

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
                if f.shape:
                    for index in np.ndindex(f.shape):
                        record[f.name][index] = value
                elif isinstance(f.type, CompoundType):
                    record[f.name] = value
                else:
                    record[f.name] = None
                    record[f.name][()] = value
        return record[()]
    if isinstance(type_, OpaqueType):
        return np.zeros((), type_.dtype)[()]
    if isinstance(type_, EnumType):
        return default_fill(type_.base)
    value = DEFAULT_FILL[type_.name]
    return value if type_.dtype == object else type_.dtype.type(value)


def same_values(a: Any, b: Any, *, nan_payloads: bool = True) -> bool:
    """True if two values of one dtype are the same to the bit (NaN payloads, -0.0), sequences inside included.

    Parameters
    ----------
    a, b : array_like or str
    nan_payloads : bool
        False: every NaN is the same.

    Examples
    --------
    >>> same_values(np.float64(np.nan), np.float64(np.nan)), same_values(np.float64(0.0), np.float64(-0.0))
    (True, False)
    """
    if isinstance(a, str) or isinstance(b, str) or a is None or b is None:
        return type(a) is type(b) and bool(a == b)
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not a.dtype.hasobject and (nan_payloads or (a.dtype.names is None and a.dtype.kind != "f")):
        return bool(a.tobytes() == b.tobytes())
    if a.dtype.names:
        return all(same_values(a[name], b[name], nan_payloads=nan_payloads) for name in a.dtype.names)
    if a.dtype.kind == "f":
        nan = np.isnan(a)
        return bool((nan == np.isnan(b)).all()) and same_values(np.where(nan, 0, a), np.where(nan, 0, b))
    pairs = zip(a.ravel(), b.ravel(), strict=True)
    return all(same_values(x, y, nan_payloads=nan_payloads) for x, y in pairs)

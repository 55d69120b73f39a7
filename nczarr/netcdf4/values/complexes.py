"""Show compounds of a real and an imaginary part as complex numbers, where a program asks for that.

The compounds are those of the library nc-complex, which netCDF4-python uses: two floats, named with an ``r`` and an
``i`` at the beginning.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ma

from nczarr.model import DOUBLE, FLOAT, CompoundType, Field, Type, join_fqn
from nczarr.netcdf4.edit import GroupNode, TypeNode
from nczarr.netcdf4.errors import NetCDFTypeError

_NAMES = {8: ("_PFNC_FLOAT_COMPLEX_TYPE", FLOAT), 16: ("_PFNC_DOUBLE_COMPLEX_TYPE", DOUBLE)}


def complex_dtype(type_: Type) -> np.dtype | None:
    """The dtype of the complex numbers that a type holds; None if it holds something else.

    Examples
    --------
    >>> complex_dtype(CompoundType("/z", (Field("re", FLOAT), Field("im", FLOAT))))
    dtype('complex64')
    >>> complex_dtype(DOUBLE), complex_dtype(CompoundType("/p", (Field("x", FLOAT), Field("y", FLOAT))))
    (None, None)
    """
    if not isinstance(type_, CompoundType) or [f.name[:1].lower() for f in type_.fields] != ["r", "i"]:
        return None
    real, imaginary = type_.fields
    if real.type != imaginary.type or real.shape or imaginary.shape or real.type not in (FLOAT, DOUBLE):
        return None
    return np.dtype(f"c{2 * real.type.dtype.itemsize}")


def complex_type(group: GroupNode, dtype: np.dtype) -> TypeNode:
    """The compound for complex numbers that a group, or one above it, has; it is declared if there is none.

    Raises
    ------
    NetCDFTypeError
        If netCDF has no floats of this size.
    """
    if dtype.itemsize not in _NAMES:
        raise NetCDFTypeError(f"netCDF has no floats for {dtype}", hint="complex64 or complex128")
    name, part = _NAMES[dtype.itemsize]
    for scope in group.ancestors():
        for node in scope.types:
            if node.type.name == name and complex_dtype(node.type) == dtype:
                return node
    return group.add_type(CompoundType(join_fqn(group.fqn, name), (Field("r", part), Field("i", part))))


def shown_complex(data: Any, dtype: np.dtype) -> Any:
    """Records of the model as complex numbers; a scalar as a scalar."""
    shown = np.ascontiguousarray(data).reshape(np.shape(data)).view(dtype)
    return shown if isinstance(data, np.ndarray) else shown[()]


def complex_records(data: Any, dtype: np.dtype, type_: Type) -> np.ndarray:
    """Numbers as records of the model.

    Raises
    ------
    NetCDFTypeError
        If the data are no numbers.
    """
    values = np.asarray(ma.getdata(data))
    if values.dtype == object:
        values = np.array(values.tolist())
    if values.dtype.kind not in "biufc":
        raise NetCDFTypeError(f"complex numbers are needed, not {values.dtype}")
    return np.ascontiguousarray(values, dtype).reshape(values.shape).view(type_.dtype)

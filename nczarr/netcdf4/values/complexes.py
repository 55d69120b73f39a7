"""Show compounds or pairs of a real and an imaginary part as complex numbers, where a program asks for that.

Both are those of the library nc-complex, which netCDF4-python uses: compounds of two floats, named with an ``r`` and an
``i`` at the beginning; and floats whose last dimension has one of three names and the size 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ma

from nczarr.model import DOUBLE, FLOAT, CompoundType, Field, Type, join_fqn
from nczarr.netcdf4.errors import NetCDFRuntimeError, NetCDFTypeError
from nczarr.session import DimensionNode, GroupNode, TypeNode, VariableNode

_NAMES = {8: ("_PFNC_FLOAT_COMPLEX_TYPE", FLOAT), 16: ("_PFNC_DOUBLE_COMPLEX_TYPE", DOUBLE)}
#: What a new dimension of real and imaginary parts is called.
PAIR = "_pfnc_complex"
_PAIRS = (PAIR, "complex", "ri")


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
    name, part = _parts(dtype)
    with group.state.lock:  # or another thread declares it between the two
        for scope in group.ancestors():
            for node in scope.types:
                if node.type.name == name and complex_dtype(node.type) == dtype:
                    return node
        return group.add_type(CompoundType(join_fqn(group.fqn, name), (Field("r", part), Field("i", part))))


def _parts(dtype: np.dtype) -> tuple[str, Type]:
    if dtype.itemsize not in _NAMES:
        raise NetCDFTypeError(f"netCDF has no floats for {dtype}", hint="complex64 or complex128")
    return _NAMES[dtype.itemsize]


def part_type(dtype: np.dtype) -> Type:
    """The type of a real part; errors as :func:`complex_type`."""
    return _parts(dtype)[1]


def pair_dimension(group: GroupNode) -> DimensionNode | None:
    """The dimension for a real and an imaginary part that a group, or one above it, has; None: it is to be made.

    Raises
    ------
    NetCDFRuntimeError
        If there is one of that name, which has another size.
    """
    found = group.find_dimension(PAIR)
    if found is None:
        return None
    if found.size != 2 or found.unlimited:
        raise NetCDFRuntimeError(f"the dimension {PAIR!r} is not one of pairs: its size is {found.size}")
    return found


def pair_dtype(node: VariableNode) -> np.dtype | None:
    """The dtype of the complex numbers that a variable holds as pairs; None if it holds something else."""
    if node.type not in (FLOAT, DOUBLE) or not node.dimensions:
        return None
    last = node.dimensions[-1]
    if last.name not in _PAIRS or last.size != 2 or last.unlimited:
        return None
    return np.dtype(f"c{2 * node.type.dtype.itemsize}")


def shown_complex(data: Any, dtype: np.dtype) -> Any:
    """Records of the model as complex numbers; a scalar as a scalar."""
    shown = np.ascontiguousarray(data).reshape(np.shape(data)).view(dtype)
    return shown if isinstance(data, np.ndarray) else shown[()]


def complex_values(data: Any, dtype: np.dtype) -> np.ndarray:
    """Numbers as complex numbers, one after the other in memory; what is masked stays so.

    Raises
    ------
    NetCDFTypeError
        If the data are no numbers.
    """
    values = np.asanyarray(data)
    if values.dtype == object:
        values = np.array(ma.getdata(values).tolist())
    if values.dtype.kind not in "biufc":
        raise NetCDFTypeError(f"complex numbers are needed, not {values.dtype}")
    plain = np.ascontiguousarray(ma.getdata(values), dtype).reshape(values.shape)
    return ma.array(plain, mask=ma.getmaskarray(values)) if ma.isMA(values) else plain

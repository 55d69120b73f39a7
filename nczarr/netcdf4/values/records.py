"""Lay compounds out in memory, and find the type that belongs to a structured dtype.

In the model a compound is packed; a program sees it aligned as a C compiler would lay it out. Text of fixed
length inside it is an array of characters in one form, and bytes (``SN``) in the other, the view.
"""

from __future__ import annotations

import numpy as np

from nczarr import model
from nczarr.model import CHAR, Field, Type
from nczarr.netcdf4.errors import NetCDFValueError
from nczarr.session import GroupNode


def aligned_dtype(type_: Type) -> np.dtype:
    """The dtype in which the interface shows values of a type: compounds aligned, all else as in the model.

    Examples
    --------
    >>> pair = model.CompoundType("/p", (Field("a", model.BYTE), Field("b", model.DOUBLE)))
    >>> aligned_dtype(pair).itemsize, pair.dtype.itemsize
    (16, 9)
    """
    if not isinstance(type_, model.CompoundType):
        return type_.dtype
    return np.dtype([(f.name, aligned_dtype(f.type), f.shape) for f in type_.fields], align=True)


def view_dtype(type_: Type) -> np.dtype:
    """As :func:`aligned_dtype`, with one-dimensional arrays of characters as bytes of fixed length.

    Examples
    --------
    >>> view_dtype(model.CompoundType("/p", (Field("name", CHAR, (8,)),)))
    dtype([('name', 'S8')], align=True)
    """
    if not isinstance(type_, model.CompoundType):
        return type_.dtype
    return np.dtype([_view_field(f) for f in type_.fields], align=True)


def _view_field(field: Field) -> tuple[str, np.dtype, tuple[int, ...]]:
    if field.type == CHAR and len(field.shape) == 1:
        return field.name, np.dtype(f"S{field.shape[0]}"), ()
    return field.name, view_dtype(field.type), field.shape


def _same_fields(dtype: np.dtype, other: np.dtype) -> bool:
    """True if two structured dtypes have the same names and formats; offsets may differ."""
    if dtype.names != other.names or dtype.names is None:
        return False
    for name in dtype.names:
        a, b = dtype[name], other[name]
        if a.shape != b.shape:
            return False
        a, b = a.base, b.base
        if not (_same_fields(a, b) if a.names and b.names else a.newbyteorder("=") == b.newbyteorder("=")):
            return False
    return True


def shown_records(data: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Records in another dtype of the same fields; arrays of characters become bytes where `dtype` says so."""
    result = np.empty(data.shape, dtype)
    for name in dtype.names or ():
        source, target = data[name], dtype[name].base
        if target.kind == "S" and source.ndim > data.ndim and target.itemsize == source.shape[-1]:
            result[name] = np.ascontiguousarray(source).view(target)[..., 0]
        elif target.names is not None:
            result[name] = shown_records(source, target)
        else:
            result[name] = source
    return result


def model_records(data: np.ndarray, type_: model.CompoundType) -> np.ndarray:
    """Records as the model has them: packed, text as arrays of characters."""
    result = np.empty(data.shape, type_.dtype)
    for f in type_.fields:
        source = data[f.name]
        if f.type == CHAR and len(f.shape) == 1 and source.ndim == data.ndim:
            text = np.ascontiguousarray(source.astype(f"S{f.shape[0]}"))
            result[f.name] = text.reshape(-1).view("S1").reshape(*data.shape, f.shape[0])
        elif isinstance(f.type, model.CompoundType):
            result[f.name] = model_records(source, f.type)
        else:
            result[f.name] = source
    return result


def find_compound(group: GroupNode, dtype: np.dtype) -> model.CompoundType:
    """Find the compound type with these fields in a group, then upwards.

    Raises
    ------
    NetCDFValueError
        If there is none.
    """
    for node in (node for scope in group.ancestors() for node in scope.types):
        found = node.type
        if isinstance(found, model.CompoundType) and (
            _same_fields(dtype, aligned_dtype(found)) or _same_fields(dtype, view_dtype(found))
        ):
            return found
    raise NetCDFValueError("cannot find compound type in this group or parent groups", hint=str(dtype))

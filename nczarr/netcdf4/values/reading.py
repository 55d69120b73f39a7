"""Read a variable: select, mask, unpack, and join characters, depending on its settings."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy import ma

from nczarr import model
from nczarr.netcdf4.errors import NetCDFIndexError
from nczarr.netcdf4.values.attributes import lookup_in
from nczarr.netcdf4.values.characters import chartostring
from nczarr.netcdf4.values.indexing import Index, parse_selection, reordered
from nczarr.netcdf4.values.masking import (
    Missing,
    Packing,
    as_unsigned,
    can_fuse,
    mask_and_unpack,
    mask_missing,
    packing_of,
)
from nczarr.netcdf4.values.types import Settings, shown_complex, shown_records
from nczarr.session import Session, VariableNode


def read(session: Session, node: VariableNode, settings: Settings, elem: object) -> Any:
    """Return ``variable[elem]``.

    Returns
    -------
    MaskedArray, ndarray, numpy scalar, str, or ``numpy.ma.masked``
        Depending on the settings.
    """
    session.check_open()
    shape = node.shape
    if settings.paired:
        return _pairs(session, node, settings, elem, shape)
    index = parse_selection(elem, shape)
    data = read_stored(session, node, index, shape)
    if settings.complex is not None:
        return shown_complex(data, settings.complex)
    data = _shown(node, settings, data)
    if isinstance(node.type, model.CompoundType):
        return _text_fields(data, settings)
    if not isinstance(data, np.ndarray | np.generic):
        return data  # a string
    return _decoded(node, settings, data, index, shape)


def read_stored(session: Session, node: VariableNode, index: Index, shape: tuple[int, ...]) -> Any:
    """Return the stored values in the model's form; a scalar if all indices are integers."""
    if not shape:
        if 0 in index.counts:
            raise NetCDFIndexError("the selection of a scalar is empty", fqn=node.fqn)
        value = session.read(node, ())
        whole = not isinstance(index.axes[0], int) and value.dtype != object
        return value if whole else value[()]
    if 0 in index.counts:
        return np.empty(index.shape, node.type.dtype)
    plain, orders = index.divided()
    block = reordered(session.read(node, plain), orders)
    return block[tuple([0 if isinstance(axis, int) else slice(None) for axis in index.axes])]


def _pairs(
    session: Session, node: VariableNode, settings: Settings, elem: object, shape: tuple[int, ...]
) -> Any:
    """Return pairs along the last dimension as complex numbers."""
    assert settings.complex is not None
    index = parse_selection(elem, shape[:-1])
    pairs = read_stored(session, node, Index((*index.axes, range(2)) if shape[1:] else (range(2),)), shape)
    numbers = shown_complex(pairs, settings.complex)[..., 0]
    if not shape[1:] and not isinstance(index.axes[0], int):
        numbers = np.asarray(numbers)
    return _decoded(node, settings, numbers, index, shape[:-1])


def _shown(node: VariableNode, settings: Settings, data: Any) -> Any:
    """Convert values from the model's form to the program's: byte order, alignment, encoding of text."""
    if node.type == model.STRING:
        encoding = lookup_in(node)("_Encoding")
        return _recoded(data, encoding) if isinstance(encoding, str) else data
    dtype = settings.dtype
    if not isinstance(data, np.ndarray | np.generic) or data.dtype == object:
        return data
    if not data.ndim and dtype.names is None:
        return data  # a single value has the machine's byte order
    exact = data.dtype == dtype and data.dtype.isalignedstruct == dtype.isalignedstruct
    return data if exact else data.astype(dtype)


def _recoded(data: Any, encoding: str) -> Any:
    if encoding.lower().replace("_", "-") in ("utf-8", "utf8", "ascii"):
        return data
    if isinstance(data, str):
        return data.encode("utf-8", "surrogateescape").decode(encoding)
    result = np.empty(data.shape, object)
    result[...] = np.array([_recoded(text, encoding) for text in data.flat], object).reshape(data.shape)
    return result


def _decoded(node: VariableNode, settings: Settings, data: Any, index: Index, shape: tuple[int, ...]) -> Any:
    lookup = lookup_in(node)
    scale, type_ = settings.scale, node.type
    primitive = isinstance(type_, model.PrimitiveType) and type_ != model.STRING
    packing = Packing() if type_ == model.CHAR else packing_of(lookup)
    if scale and not packing.valid:
        warnings.warn("invalid scale_factor or add_offset attribute, no unpacking done...", stacklevel=4)
    if scale:
        data = as_unsigned(data, lookup)
    missing = None
    if settings.mask and (primitive or isinstance(type_, model.EnumType)):
        unsigned = scale and data.dtype.kind == "u" and settings.dtype.kind == "i"
        missing = Missing.of(settings.dtype, lookup, unsigned=unsigned, no_fill=node.storage.no_fill)
    if scale and packing.valid and primitive and can_fuse(data, missing, packing):
        return mask_and_unpack(data, missing, packing, always_mask=settings.always_mask)
    if missing is not None:
        data = mask_missing(data, missing, always_mask=settings.always_mask)
    numeric_vlen = isinstance(type_, model.VlenType) and type_.base.dtype.kind in "iuf"
    if scale and packing.valid and (primitive or numeric_vlen):
        data = packing.unpack(data)
    if type_ == model.CHAR and settings.chartostring:
        data = _joined(data, lookup("_Encoding"), index, shape)
    return data


def _joined(data: np.ndarray, encoding: str | None, index: Index, shape: tuple[int, ...]) -> np.ndarray:
    """Return characters as text, if the selection has the whole last axis."""
    if encoding is None or not shape or data.ndim == 0:
        return data
    last = index.axes[-1]
    if not isinstance(last, range) or len(last) != shape[-1] or not len(last):
        return data
    return chartostring(np.asarray(ma.filled(data)), encoding=encoding)


def _text_fields(data: np.ndarray, settings: Settings) -> np.ndarray:
    """Return records with text in place of characters."""
    view = settings.view
    assert view is not None
    if not settings.chartostring or data.dtype == view:
        return data
    if not view.hasobject:
        return data.view(view)
    scalar = not isinstance(data, np.ndarray)
    result = shown_records(np.asarray(data), view)
    return result[()] if scalar else result

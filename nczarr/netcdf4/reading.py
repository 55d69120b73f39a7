"""Reading a variable: selection, stored values, mask, scale, text."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ma

from nczarr import model
from nczarr.netcdf4.char_arrays import chartostring
from nczarr.netcdf4.indexing import Selection, parse_selection
from nczarr.netcdf4.masking import as_unsigned, mask_values, packing_of

if TYPE_CHECKING:
    from nczarr.netcdf4.variable import Variable


def read(variable: Variable, elem: Any) -> Any:
    """What ``variable[elem]`` is.

    Parameters
    ----------
    variable : Variable
    elem : object
        What stands in brackets.

    Returns
    -------
    MaskedArray, ndarray, numpy scalar, str, or ``numpy.ma.masked``
        As the variable's settings ask for.
    """
    variable._nc_session.check_open()
    shape = variable._nc_shape
    selection = parse_selection(elem, shape)
    data = _interface_form(variable, _stored(variable, selection, shape))
    if isinstance(variable._nc_type, model.CompoundType):
        return _text_fields(data, variable)
    if not isinstance(data, np.ndarray | np.generic):
        return data  # a text
    return _decoded(variable, data, selection, shape)


def _stored(variable: Variable, selection: Selection, shape: tuple[int, ...]) -> Any:
    """The selected values as they are stored, in the model's form; a scalar where all indices are integers."""
    handle = variable._nc_session.values(variable)
    if not shape:
        value = handle.read_orthogonal(())
        whole = not isinstance(selection.axes[0], int) and value.dtype != object
        return value if whole else value[()]
    if 0 in selection.counts:
        return np.empty(selection.shape, variable._nc_type.dtype)
    plain, then = selection.reading()
    block = handle.read_orthogonal(plain)
    for axis, index in enumerate(then):
        if isinstance(index, np.ndarray):
            block = np.take(block, index, axis)
        elif index is not None:
            block = np.flip(block, axis)
    return block[tuple(0 if isinstance(axis, int) else slice(None) for axis in selection.axes)]


def _interface_form(variable: Variable, data: Any) -> Any:
    """The model's form of values to the interface's: byte order, alignment, encoding of text."""
    type_ = variable._nc_type
    if type_ == model.STRING:
        encoding = variable._nc_lookup("_Encoding")
        return _recoded(data, encoding) if isinstance(encoding, str) else data
    dtype = variable._nc_dtype
    if not isinstance(data, np.ndarray | np.generic) or data.dtype == object:
        return data
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


def _decoded(variable: Variable, data: Any, selection: Selection, shape: tuple[int, ...]) -> Any:
    lookup = variable._nc_lookup
    scale, type_ = variable.scale, variable._nc_type
    primitive = isinstance(type_, model.PrimitiveType) and type_ != model.STRING
    packing = packing_of(lookup)
    if scale and not packing.valid:
        warnings.warn("invalid scale_factor or add_offset attribute, no unpacking done...", stacklevel=4)
    if variable.mask and (primitive or isinstance(type_, model.EnumType)):
        data = mask_values(
            data,
            variable._nc_dtype,
            lookup,
            scale=scale,
            no_fill=variable._nc_storage.no_fill,
            always_mask=variable.always_mask,
        )
    elif scale:
        data = as_unsigned(data, lookup)
    numeric_vlen = isinstance(type_, model.VlenType) and type_.base.dtype.kind in "iuf"
    if scale and packing.valid and (primitive or numeric_vlen):
        data = packing.unpack(data)
    if type_ == model.CHAR and variable.chartostring:
        data = _joined(data, lookup("_Encoding"), selection, shape)
    return data


def _joined(data: Any, encoding: Any, selection: Selection, shape: tuple[int, ...]) -> Any:
    """Characters as text, if the last axis was read as a whole."""
    if encoding is None or not shape or data.ndim == 0:
        return data
    last = selection.axes[-1]
    if not isinstance(last, range) or len(last) != shape[-1] or not len(last):
        return data
    return chartostring(np.asarray(ma.filled(data)), encoding=encoding)


def _text_fields(data: Any, variable: Variable) -> Any:
    """Characters inside records as text."""
    view = variable._nc_datatype.dtype_view
    if not variable.chartostring or data.dtype == view:
        return data
    if not view.hasobject:
        return data.view(view)
    scalar = not isinstance(data, np.ndarray)
    result = _copied(np.asarray(data), view)
    return result[()] if scalar else result


def _copied(data: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Records to another dtype of the same fields; views are not possible where objects are inside."""
    result = np.empty(data.shape, dtype)
    for name in dtype.names or ():
        source, target = data[name], dtype[name].base
        if target.kind == "S" and source.ndim > data.ndim and target.itemsize == source.shape[-1]:
            result[name] = np.ascontiguousarray(source).view(target)[..., 0]
        elif target.names is not None:
            result[name] = _copied(source, target)
        else:
            result[name] = source
    return result

"""Writing to a variable: text, shape, packing, fill, growth."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ma

from nczarr import model
from nczarr.netcdf4.char_arrays import stringtochar
from nczarr.netcdf4.errors import NetCDFIndexError, NetCDFRuntimeError, NetCDFTypeError, NetCDFValueError
from nczarr.netcdf4.indexing import Selection, parse_selection
from nczarr.netcdf4.masking import fill_masked, packing_of
from nczarr.netcdf4.quantize import quantize, round_to_digit

if TYPE_CHECKING:
    from nczarr.netcdf4.variable import Variable

_ONLY_INTEGERS = "data can only be assigned to VLEN variables using integer indices"


def write(variable: Variable, elem: Any, data: Any) -> None:
    """Do ``variable[elem] = data``.

    Parameters
    ----------
    variable : Variable
    elem : object
        What stands in brackets.
    data : array-like
        Is not changed.

    Raises
    ------
    NetCDFReadOnlyError
        If the dataset is open for reading only.
    NetCDFIndexError, NetCDFValueError, NetCDFTypeError, NetCDFRuntimeError
        If the indices, the shape or the values do not fit; nothing is written then.
    """
    variable._nc_session.check_writable()
    elem, values = _as_array(variable, elem, data)
    dims = variable._nc_dims
    shape = variable._nc_shape
    selection = parse_selection(
        elem, shape, growable=[d._nc_unlimited for d in dims], data_shape=values.shape
    )
    values = _conform(values, selection.counts)
    if not values.size:
        return
    stored = _stored_form(variable, values)
    _grow(variable, selection)
    if not shape:
        variable._nc_session.write(variable, (), stored.reshape(()))
        return
    plain, before = selection.writing()
    for axis, index in enumerate(before):
        if isinstance(index, np.ndarray):
            stored = np.take(stored, index, axis)
        elif index is not None:
            stored = np.flip(stored, axis)
    variable._nc_session.write(variable, plain, stored)


def _grow(variable: Variable, selection: Selection) -> None:
    """Make unlimited dimensions as long as the selection needs them."""
    pairs = list(zip(variable._nc_dims, selection.extent, strict=False))
    if any(extent > d._nc_size and not d._nc_unlimited for d, extent in pairs):
        raise NetCDFRuntimeError("NetCDF: Index exceeds dimension bound", fqn=variable._nc_fqn)
    for dimension, extent in pairs:
        if dimension._nc_unlimited and extent > dimension._nc_size:
            with variable._nc_session.lock:
                dimension._nc_size = max(dimension._nc_size, extent)
                dimension._nc_group._nc_touch()


def _as_array(variable: Variable, elem: Any, data: Any) -> tuple[Any, np.ndarray]:
    """The data as an array (masked or not) that has the variable's kind; numbers keep their own type."""
    type_ = variable._nc_type
    if type_ == model.STRING:
        return _texts(variable, elem, data)
    if isinstance(type_, model.VlenType):
        return _sequences(variable, elem, data)
    if type_ == model.CHAR and variable.chartostring:
        data = _split_text(variable, data)
    elif isinstance(type_, model.CompoundType):
        data = _records(variable, data)
    if not isinstance(data, np.ndarray | np.generic):
        packed = bool(packing_of(variable._nc_lookup)) and variable.scale
        wanted = np.dtype(np.float64) if packed and type_.dtype.kind in "iuf" else variable._nc_dtype
        try:
            data = np.array(data, wanted)
        except (ValueError, TypeError) as error:
            kind = NetCDFValueError if isinstance(error, ValueError) else NetCDFTypeError
            raise kind(f"the data cannot be turned into {wanted}: {error}", fqn=variable._nc_fqn) from error
    if isinstance(type_, model.EnumType):
        _check_members(variable, type_, data)
    return elem, data if isinstance(data, np.ndarray) else np.asarray(data)


def _split_text(variable: Variable, data: Any) -> Any:
    encoding = variable._nc_lookup("_Encoding")
    if encoding is None or not variable._nc_dims:
        return data
    length = variable._nc_shape[-1]
    if isinstance(data, str | bytes):
        data = np.asarray(data, dtype=f"{'S' if encoding == 'ascii' else 'U'}{length}")
    dtype = getattr(data, "dtype", None)
    if dtype is not None and dtype.kind in "SU" and dtype.itemsize > 1:
        data = np.asarray(data)
        return stringtochar(data.reshape(-1), encoding=encoding, n_strlen=length).reshape(*data.shape, length)
    return data


def _records(variable: Variable, data: Any) -> Any:
    """Records with text fields as records with fields of characters."""
    own, view = variable._nc_dtype, variable._nc_datatype.dtype_view
    if not isinstance(data, np.ndarray | np.generic) or data.dtype.names is None:
        if own == view or view.hasobject:
            return data
        data = np.array(data, view)
    if data.dtype.names != own.names:
        raise NetCDFTypeError(f"the data have the fields {data.dtype.names}", fqn=variable._nc_fqn)
    holds_text = any(data.dtype[n] == view[n] != own[n] for n in own.names or ())
    if own != view and not view.hasobject and holds_text:
        return np.asarray(data).astype(view).view(own)
    return data


def _check_members(variable: Variable, type_: model.EnumType, data: Any) -> None:
    values = data.filled() if ma.isMA(data) else data
    if not bool(np.isin(values, [value for _, value in type_.members]).all()):
        raise NetCDFValueError("trying to assign illegal value to Enum variable", fqn=variable._nc_fqn)


def _texts(variable: Variable, elem: Any, data: Any) -> tuple[Any, np.ndarray]:
    if not isinstance(data, np.ndarray):
        return _single(variable, elem, data)
    if data.dtype.kind in "SU":
        if ma.isMA(data):
            raise NetCDFTypeError("masked arrays cannot be assigned by VLEN str slices", fqn=variable._nc_fqn)
        return elem, data.astype(object)
    if data.dtype != object:
        raise NetCDFTypeError(
            "only numpy string, unicode or object arrays can be assigned to VLEN str var slices",
            fqn=variable._nc_fqn,
        )
    return elem, np.asarray(data)


def _sequences(variable: Variable, elem: Any, data: Any) -> tuple[Any, np.ndarray]:
    if isinstance(data, np.ndarray) and data.dtype == object:
        return elem, np.asarray(data)
    base = variable._nc_type.base  # type: ignore[attr-defined]
    if base.dtype.kind in "iuf":
        array = np.asarray(data)
        if variable.scale:
            array = np.asarray(packing_of(variable._nc_lookup).pack(array, base.dtype)).astype(base.dtype)
        data = array
    return _single(variable, elem, data)


def _single(variable: Variable, elem: Any, data: Any) -> tuple[Any, np.ndarray]:
    """One value of variable length, which needs an integer for each axis."""
    ndim = len(variable._nc_dims)
    if not ndim and (elem is Ellipsis or elem == ()):
        elem = 0
    indices = elem if isinstance(elem, tuple) else (elem,)
    if any(not _is_integer(i) for i in indices) or (not isinstance(elem, tuple) and ndim > 1):
        raise NetCDFIndexError(_ONLY_INTEGERS, fqn=variable._nc_fqn)
    if len(indices) != max(ndim, 1):
        raise NetCDFIndexError("Illegal index", fqn=variable._nc_fqn)
    boxed = np.empty((), object)
    boxed[()] = data
    return elem, boxed


def _is_integer(index: Any) -> bool:
    try:
        operator.index(index)
    except TypeError:
        return False
    return True


def _conform(values: np.ndarray, counts: tuple[int, ...]) -> np.ndarray:
    """Bring data to the shape of the selection: same size by reshaping, otherwise by broadcasting."""
    if values.shape == counts:
        return values
    if values.shape == ():
        return _broadcast(values, counts)
    if values.ndim == len(counts) == 1 and 0 not in counts:
        raise NetCDFIndexError("size of data array does not conform to slice")
    if values.size == np.prod(counts, dtype=object):
        return values.reshape(counts)
    try:
        return _broadcast(values, counts)
    except ValueError as error:
        raise NetCDFValueError(
            f"data of the shape {values.shape} do not fit the selection {counts}"
        ) from error


def _broadcast(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if not ma.isMA(values):
        return np.broadcast_to(values, shape)
    data = np.broadcast_to(ma.getdata(values), shape)
    return ma.masked_array(data, np.broadcast_to(ma.getmaskarray(values), shape))


def _stored_form(variable: Variable, values: np.ndarray) -> np.ndarray:
    """The interface's form of values to the model's: rounded, packed, filled, cast."""
    type_ = variable._nc_type
    target = type_.dtype
    if type_ == model.STRING:
        return _map_objects(values, lambda text: _text(variable, text))
    if isinstance(type_, model.VlenType):
        return _map_objects(values, lambda sequence: _sequence(variable, sequence))
    if isinstance(type_, model.PrimitiveType):
        if variable._nc_lsd is not None:
            values = round_to_digit(values, variable._nc_lsd)
        if variable.scale:
            values = packing_of(variable._nc_lookup).pack(values, target)
            values = fill_masked(_cast(variable, values, target), target, variable._nc_lookup)
    values = _cast(variable, np.asarray(ma.getdata(values)), target)
    if variable._nc_quantization is not None and target.kind == "f":
        values = quantize(values, *variable._nc_quantization, variable._nc_fill_scalar())
    return values


def _cast(variable: Variable, values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if values.dtype == dtype:
        return values
    try:
        return values.astype(dtype)
    except (ValueError, TypeError) as error:
        kind = NetCDFValueError if isinstance(error, ValueError) else NetCDFTypeError
        raise kind(f"{values.dtype} cannot be turned into {dtype}: {error}", fqn=variable._nc_fqn) from error


def _map_objects(values: np.ndarray, convert: Any) -> np.ndarray:
    result = np.empty(values.shape, object)
    flat = result.reshape(-1)
    for i, value in enumerate(values.flat):
        flat[i] = convert(value)
    return result


def _text(variable: Variable, text: Any) -> str:
    if isinstance(text, bytes):
        return text.decode("utf-8", "surrogateescape")
    if not isinstance(text, str):
        raise NetCDFTypeError(f"a text is needed, not {type(text).__name__}", fqn=variable._nc_fqn)
    encoding = variable._nc_lookup("_Encoding")
    if isinstance(encoding, str) and not text.isascii():
        return text.encode(encoding).decode("utf-8", "surrogateescape")
    return str(text)


def _sequence(variable: Variable, sequence: Any) -> np.ndarray:
    base = variable._nc_type.base  # type: ignore[attr-defined]
    array = np.asarray(sequence, object) if base.dtype == object else np.asarray(sequence)
    if base.dtype.kind in "iufS" and array.dtype.newbyteorder("=") != base.dtype:
        raise NetCDFTypeError(
            f"wrong data type in object array: should be {base.dtype}, got {array.dtype}",
            fqn=variable._nc_fqn,
        )
    return array.astype(base.dtype).reshape(-1)

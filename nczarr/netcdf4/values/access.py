"""Read and write the values of a variable, depending on its settings.

Reading selects, masks, unpacks, and joins characters. Writing splits text, adapts the shape, rounds, packs, fills, and
grows dimensions.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nczarr import errors, model
from nczarr.netcdf4.errors import translating
from nczarr.netcdf4.values import numbers
from nczarr.netcdf4.values.attributes import lookup_in
from nczarr.netcdf4.values.changes import warn_of_changes
from nczarr.netcdf4.values.characters import RAW, chartostring, stringtochar
from nczarr.netcdf4.values.indexing import Index, axis_integer, parse_selection, reordered
from nczarr.netcdf4.values.numbers import Missing, Packing, fill_masked, packing_of
from nczarr.netcdf4.values.types import Settings, complex_values, converted_records, shown_complex
from nczarr.session import Session, VariableNode
from nczarr.system.warning import warn

_ONLY_INTEGERS = "data can only be assigned to VLEN variables using integer indices"


def read(session: Session, node: VariableNode, settings: Settings, elem: object) -> Any:
    """Return ``variable[elem]``.

    Returns
    -------
    MaskedArray, ndarray, numpy scalar, str, or ``numpy.ma.masked``
        Depending on the settings.
    """
    session.rules.check_open()
    shape = node.shape
    if settings.paired:
        return _pairs(session, node, settings, elem, shape)
    index = parse_selection(elem, shape)
    return present(node, settings, read_stored(session, node, index, shape), index, shape)


def present(node: VariableNode, settings: Settings, data: Any, index: Index, shape: tuple[int, ...]) -> Any:
    """Convert stored values of a selection to those that the program sees: masked, unpacked, joined to text.

    Parameters
    ----------
    shape : tuple of int
        The shape of the variable.
    """
    if settings.complex is not None and not settings.paired:
        return shown_complex(data, settings.complex)
    if settings.complex is not None:
        return _decoded(node, settings, shown_complex(data, settings.complex)[..., 0], index, shape)
    data = _shown(node, settings, data)
    if node.type.kind == "compound":
        return _text_fields(data, settings)
    if not isinstance(data, np.ndarray | np.generic):
        return data  # a string
    return _decoded(node, settings, data, index, shape)


def read_stored(session: Session, node: VariableNode, index: Index, shape: tuple[int, ...]) -> Any:
    """Return the stored values in the model's form; a scalar if all indices are integers."""
    if not shape:
        if 0 in index.counts:
            raise errors.SelectionError("the selection of a scalar is empty", fqn=node.fqn)
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
    # numpy says that an aligned and a packed dtype are equal.
    exact = data.dtype == dtype and data.dtype.isalignedstruct == dtype.isalignedstruct
    return data if exact else data.astype(dtype)


def _recoded(data: Any, encoding: str) -> Any:
    # These are the encodings of the model: no character changes.
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
    primitive = type_.is_atomic and type_ != model.STRING
    packing = packing_of(lookup)
    if scale and not packing.valid:
        # netCDF4-python warns with these words.
        warn("invalid scale_factor or add_offset attribute, no unpacking done...")
    # netCDF4-python unpacks numbers only.
    if type_ == model.CHAR:
        packing = Packing()
    if scale:
        data = numbers.as_unsigned(data, lookup)
    missing = None
    if settings.mask and (primitive or type_.kind == "enum"):
        unsigned = scale and data.dtype.kind == "u" and settings.dtype.kind == "i"
        missing = Missing.of(settings.dtype, lookup, unsigned=unsigned, no_fill=node.storage.no_fill)
    if scale and packing.valid and primitive and numbers.can_fuse(data, missing, packing):
        return numbers.mask_and_unpack(data, missing, packing, always_mask=settings.always_mask)
    if missing is not None:
        data = numbers.mask_missing(data, missing, always_mask=settings.always_mask)
    numeric_vlen = isinstance(type_, model.VlenType) and type_.base.dtype.kind in "iuf"
    if scale and packing.valid and (primitive or numeric_vlen):
        data = packing.unpack(data)
    if type_ == model.CHAR and settings.chartostring:
        data = _joined(data, lookup("_Encoding"), index, shape)
    return data


def _joined(data: np.ndarray, encoding: str | None, index: Index, shape: tuple[int, ...]) -> np.ndarray:
    """Return characters as text, if the selection has the whole last axis."""
    # netCDF4-python joins characters only where the whole last axis is read.
    if encoding is None or not shape or data.ndim == 0:
        return data
    last = index.axes[-1]
    # Some of the characters of a text are no text.
    if not isinstance(last, range) or len(last) != shape[-1] or not len(last):
        return data
    return chartostring(np.asarray(np.ma.filled(data)), encoding=encoding)


def _text_fields(data: np.ndarray, settings: Settings) -> np.ndarray:
    """Return records with text in place of characters."""
    view = settings.view
    assert view is not None
    if not settings.chartostring or data.dtype == view:
        return data
    if not view.hasobject:
        return data.view(view)
    scalar = not isinstance(data, np.ndarray)
    result = converted_records(np.asarray(data), view)
    return result[()] if scalar else result


def write(session: Session, node: VariableNode, settings: Settings, elem: object, data: object) -> None:
    """Execute ``variable[elem] = data`` without a change of `data`.

    Raises
    ------
    ReadOnlyError
        If the dataset is read-only.
    SelectionError, ArgumentError, ArgumentTypeError, EditError
        If the indices, the shape or the values do not fit. Nothing is written then.
    """
    session.rules.check_open()
    elem, values = _as_array(node, settings, elem, data)
    dimensions = node.dimensions[:-1] if settings.paired else node.dimensions
    shape = tuple([d.size for d in dimensions])
    if type(elem) is int and shape and values.shape == shape[1:] and not settings.paired:
        _write_step(session, node, settings, elem, values)
        return
    growable = [d.unlimited for d in dimensions]
    index = parse_selection(elem, shape, growable=growable, data_shape=values.shape)
    # Data of the same size in another shape would fill the variable in another order.
    if shape and values.ndim and values.shape != shape and _is_whole(elem) and not any(growable):
        _check_fits(node, values, shape)
    nothing = values.ndim == 1 == len(index.axes) and not values.size and not isinstance(index.axes[0], int)
    values = values if nothing else _conform(values, index.counts)
    if not values.size:
        # numpy warned of a cast from complex numbers to real ones.
        if not settings.paired:
            _model_values(node, settings, values)  # raises for values of another kind
        return  # an empty write is valid in a read-only dataset
    session.rules.check_writable()
    if settings.paired:
        if settings.scale:
            values = packing_of(lookup_in(node)).pack(values, node.type.dtype)
            values = fill_masked(values, settings.dtype, lookup_in(node))
        values = np.asarray(np.ma.getdata(values), settings.dtype)
        values = np.ascontiguousarray(values).reshape(*values.shape, 1).view(node.type.dtype)
        index = Index((*index.axes, range(2)) if shape else (range(2),))
        values, shape = values.reshape(index.counts), node.shape
    stored = _model_values(node, settings, values)
    # The cast made other values: netCDF4-python is silent, and nczarr says it once for each variable.
    if stored is not values:
        warn_of_changes(session, node, settings, index, values, stored)
    _grow(node, index.extent)
    plain, orders = index.divided(writing=True)
    stored = reordered(stored, orders)
    session.write(node, plain if shape else (), stored if shape else stored.reshape(()))


def _write_step(
    session: Session, node: VariableNode, settings: Settings, elem: int, values: np.ndarray
) -> None:
    """Write one whole step, as most loops do, without the cost of parsing a general index."""
    place = axis_integer(elem, node.dimensions[0].size, writing=True)
    if not values.size:
        return
    session.rules.check_writable()
    step = values.reshape(1, *values.shape)
    stored = _model_values(node, settings, step)
    if stored is not step:
        index = Index((place, *map(range, values.shape)))
        warn_of_changes(session, node, settings, index, step, stored)
    _grow(node, (place + 1,))
    session.write(node, (slice(place, place + 1, 1), *[slice(0, n, 1) for n in values.shape]), stored)


def _grow(node: VariableNode, extent: tuple[int, ...]) -> None:
    """Grow unlimited dimensions to the extent of a selection."""
    short = [(d, n) for d, n in zip(node.dimensions, extent, strict=False) if n > d.size]
    # netCDF-C refuses it with these words.
    if any(not d.unlimited for d, _ in short):
        raise errors.EditError("NetCDF: Index exceeds dimension bound", fqn=node.fqn)
    for dimension, size in short:
        dimension.grow(size)


def _as_array(
    node: VariableNode, settings: Settings, elem: object, data: object
) -> tuple[object, np.ndarray]:
    """Return the index and the data as an array of the variable's kind; numbers keep their dtype."""
    type_ = node.type
    if type_ == model.STRING:
        return _texts(node, elem, data)
    if type_.kind == "vlen":
        return _sequences(node, settings, elem, data)
    if type_ == model.CHAR and settings.chartostring:
        data = _split_text(node, settings, data)
    elif settings.complex is not None:
        values = complex_values(np.asanyarray(data), settings.complex)
        return elem, values if settings.paired else np.asarray(values).view(type_.dtype)
    elif type_.kind == "compound":
        data = _records(node, settings, data)
    if not isinstance(data, np.ndarray | np.generic):
        # netCDF4-python makes floats of a list first, if it packs them.
        packed = bool(packing_of(lookup_in(node))) and settings.scale
        dtype = np.dtype(np.float64) if packed and type_.dtype.kind in "iuf" else settings.dtype
        with translating("the data cannot be turned into {}", dtype, fqn=node.fqn):
            cast = np.array(data, dtype)  # refuses NaN and numbers out of range
            own = np.asarray(data) if dtype.kind in "iu" and type(data) is not int else cast
            # Fractions are cut below, where a warning names the first.
            data = own if own.dtype.kind == "f" else cast
    if isinstance(type_, model.EnumType):
        _check_members(node, type_, data)
    return elem, data if isinstance(data, np.ndarray) else np.asarray(data)


def _split_text(node: VariableNode, settings: Settings, data: object) -> object:
    """Split text into the characters of a variable with an ``_Encoding``. Return other data unchanged.

    Raises
    ------
    ArgumentError
        If a text exceeds the last dimension.
    TextError, TextError
        If the encoding lacks a character, or bytes are invalid in it.
    """
    encoding = lookup_in(node)("_Encoding")
    if encoding is None or not node.dimensions:
        return data
    texts = _text_array(data)
    if texts is None:
        if (not np.ma.isMA(data) and np.asarray(data).dtype.kind not in "SUO") or data is None:
            raise errors.ArgumentTypeError(f"text is needed, not {type(data).__name__}", fqn=node.fqn)
        return data
    length = node.shape[-1]
    # Bytes have no encoding to convert from.
    if encoding in RAW and texts.dtype.kind == "U":
        encoding = "utf-8"
    flat = texts.reshape(-1)
    with translating("the text cannot be stored as {!r}", encoding, fqn=node.fqn):
        # Bytes that are no text in the encoding were stored, and no read of the variable worked from then
        # on.
        if texts.dtype.kind == "S" and encoding not in RAW:
            for text in flat.tolist():  # raises for bytes that are invalid in the encoding
                text.ljust(length, b"\0").decode(encoding)
        chars = stringtochar(flat, encoding=encoding, n_strlen=max(length, texts.dtype.itemsize))
        if chars.dtype.kind == "U":
            chars = chars.astype("S1")
    rest = np.ascontiguousarray(chars[:, length:]).view(np.uint8)
    # netCDF-C and numpy would cut the text in silence.
    if rest.any():
        longest = flat[int(rest.any(axis=1).argmax())]
        raise errors.ArgumentError(
            f"the text {longest[:40]!r} needs more than the {length} bytes of the last dimension",
            fqn=node.fqn,
        )
    # One text is one step, not as many steps as characters.
    outer = texts.shape or ((1,) if len(node.dimensions) > 1 else ())
    return chars[:, :length].reshape(*outer, length)


def _text_array(data: object) -> np.ndarray | None:
    """Return data as an array of text; None for characters and other data."""
    if isinstance(data, str | bytes):
        return np.asarray(data)
    if isinstance(data, np.ndarray | np.generic) and data.dtype.kind in "SU":
        return np.asanyarray(data) if data.dtype.itemsize > 1 else None
    if isinstance(data, list | tuple):
        objects = np.array(data, object)
    elif isinstance(data, np.ndarray) and data.dtype == object:
        objects = np.asarray(data)
    else:
        return None
    texts = objects.reshape(-1).tolist()
    for kind in (str, bytes):
        if all(isinstance(text, kind) for text in texts) and any(len(text) > 1 for text in texts):
            return np.array(texts, kind).reshape(objects.shape)
    return None


def _records(node: VariableNode, settings: Settings, data: Any) -> Any:
    """Convert text fields of records to fields of characters."""
    own, view = settings.dtype, settings.view
    assert view is not None
    if not isinstance(data, np.ndarray | np.generic) or data.dtype.names is None:
        if own == view or view.hasobject:
            return data
        data = np.array(data, view)
    if data.dtype.names != own.names:  # like numpy, by position
        with translating("the fields {} are not those of {}", data.dtype.names, own.names, fqn=node.fqn):
            data = data.astype(own if view.hasobject else view)
    holds_text = any(data.dtype[n] == view[n] != own[n] for n in own.names or ())
    if own != view and not view.hasobject and holds_text:
        return np.asarray(data).astype(view).view(own)
    return data


def _check_members(node: VariableNode, type_: model.EnumType, data: np.ndarray | np.generic) -> None:
    values = data.filled() if np.ma.isMA(data) else data
    # ncdump ends at such a value in the middle of a line.
    if not type_.are_members(values).all():
        raise errors.ArgumentError("trying to assign illegal value to Enum variable", fqn=node.fqn)


def _texts(node: VariableNode, elem: object, data: object) -> tuple[object, np.ndarray]:
    if not isinstance(data, np.ndarray):
        return _single(node, elem, data)
    if data.dtype.kind in "SU":
        # netCDF4-python refuses it with these words.
        if np.ma.isMA(data):
            raise errors.ArgumentTypeError(
                "masked arrays cannot be assigned by VLEN str slices", fqn=node.fqn
            )
        return elem, data.astype(object)
    if data.dtype != object:
        raise errors.ArgumentTypeError(
            "only numpy string, unicode or object arrays can be assigned to VLEN str var slices", fqn=node.fqn
        )
    return elem, np.asarray(data)


def _sequences(
    node: VariableNode, settings: Settings, elem: object, data: object
) -> tuple[object, np.ndarray]:
    if isinstance(data, np.ndarray) and data.dtype == object:
        return elem, np.asarray(data)
    base = node.type.base  # type: ignore[attr-defined]
    if base.dtype.kind in "iuf":
        array = np.asanyarray(data)
        if settings.scale:
            lookup = lookup_in(node)
            with translating("the sequence cannot be turned into {}", base.name, fqn=node.fqn):
                array = fill_masked(
                    packing_of(lookup).pack(array, base.dtype).astype(base.dtype), base.dtype, lookup
                )
        data = np.asarray(array)
    return _single(node, elem, data)


def _single(node: VariableNode, elem: object, data: object) -> tuple[object, np.ndarray]:
    """Return a single value of variable length; each axis requires an integer index."""
    ndim = len(node.dimensions)
    if not ndim and (elem is Ellipsis or (isinstance(elem, tuple) and not elem)):
        elem = 0
    indices = elem if isinstance(elem, tuple) else (elem,)
    # A sequence or a text has no shape of its own, so that only one place can take it.
    if set(map(type, indices)) != {int}:
        whole = [isinstance(i, float | np.floating) and float(i).is_integer() for i in indices]
        indices = tuple([int(i) if w else i for i, w in zip(indices, whole, strict=True)])
        elem = indices if isinstance(elem, tuple) else indices[0]
        try:
            list(map(operator.index, indices))
        except TypeError:
            raise errors.SelectionError(_ONLY_INTEGERS, fqn=node.fqn) from None
    # netCDF4-python takes single values of variable length only.
    if not isinstance(elem, tuple) and ndim > 1:
        raise errors.SelectionError(_ONLY_INTEGERS, fqn=node.fqn)
    if len(indices) != max(ndim, 1):
        raise errors.SelectionError("Illegal index", fqn=node.fqn)
    boxed = np.empty((), object)
    boxed[()] = data
    return elem, boxed


def _is_whole(elem: object) -> bool:
    """Return True if the index has only full slices and an ellipsis."""
    items = elem if isinstance(elem, tuple) else (elem,)
    return all(item is Ellipsis or (isinstance(item, slice) and item == slice(None)) for item in items)


def _check_fits(node: VariableNode, values: np.ndarray, shape: tuple[int, ...]) -> None:
    """Raise if data for all values of a variable have another shape, even of the same size."""
    try:
        np.broadcast_shapes(values.shape, shape)
    except ValueError as error:
        raise errors.ArgumentError(
            f"data of the shape {values.shape} do not fit the shape {shape}", fqn=node.fqn
        ) from error


def _conform(values: np.ndarray, counts: tuple[int, ...]) -> np.ndarray:
    """Adapt data to the shape of the selection: reshape data of the same size, broadcast others."""
    if values.shape == counts:
        return values
    if values.shape == ():
        return values.reshape(counts) if math.prod(counts) == 1 else _broadcast(values, counts)
    # netCDF4-python refuses it with these words.
    if values.ndim == len(counts) == 1 and 0 not in counts:
        raise errors.SelectionError("size of data array does not conform to slice")
    # netCDF4-python reshapes data of the same size.
    if values.size == math.prod(counts):
        return values.reshape(counts)
    try:
        return _broadcast(values, counts)
    except ValueError as error:
        raise errors.ArgumentError(
            f"data of the shape {values.shape} do not fit the selection {counts}"
        ) from error


def _broadcast(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if not np.ma.isMA(values):
        return np.broadcast_to(values, shape)
    data = np.broadcast_to(np.ma.getdata(values), shape)
    return np.ma.masked_array(data, np.broadcast_to(np.ma.getmaskarray(values), shape))


def _model_values(node: VariableNode, settings: Settings, values: np.ndarray) -> np.ndarray:
    """Convert values from the interface's form to the model's: round, pack, fill, cast."""
    type_ = node.type
    target = type_.dtype
    if type_ == model.STRING:
        return _as_texts(node, values)
    if isinstance(type_, model.VlenType):
        sequences = _as_sequences(node, values, type_)
        _check_texts(node, sequences, type_)
        return sequences
    if type_.is_atomic:
        if _is_plain(node, settings, values):
            return values
        # netCDF4-python rounds before it packs.
        if settings.digit is not None:
            values = _rounded(node, values, settings.digit)
        if settings.scale:
            lookup = lookup_in(node)
            packing = Packing() if type_ == model.CHAR else packing_of(lookup)
            if numbers.can_pack_in_blocks(values, target, packing):
                values = numbers.pack_in_blocks(values, target, packing, lookup)
            else:
                values = fill_masked(_cast(node, packing.pack(values, target), target), target, lookup)
    values = _cast(node, np.asarray(np.ma.getdata(values)), target)
    if type_.kind == "compound" and target.hasobject:
        _check_texts(node, values, type_)
    if settings.quantization is not None and target.kind == "f":
        attribute = node.attributes.get("_FillValue")
        fill: Any = model.default_fill(type_) if attribute is None else attribute.values[0]
        fill = np.asarray(fill).astype(target)[()]
        values = numbers.quantize(values, *settings.quantization, fill)
    return values


def _is_plain(node: VariableNode, settings: Settings, values: np.ndarray) -> bool:
    """Return True if values are stored unchanged."""
    return (
        type(values) is np.ndarray
        and values.dtype == node.type.dtype
        and settings.digit is None
        and settings.quantization is None
        and not (settings.scale and ("scale_factor" in node.attributes or "add_offset" in node.attributes))
    )


def _rounded(node: VariableNode, values: np.ndarray, digit: float) -> np.ndarray:
    try:
        return numbers.round_to_digit(values, digit)
    except TypeError as error:
        raise errors.ArgumentTypeError(
            f"least_significant_digit rounds numbers, and these are {values.dtype}", fqn=node.fqn
        ) from error
    except (ValueError, OverflowError) as error:
        raise errors.RangeError(f"least_significant_digit is {digit}: {error}", fqn=node.fqn) from error


def _cast(node: VariableNode, values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if values.dtype == dtype:
        return values
    # numpy would store the counts of the array's own unit.
    if values.dtype.kind in "mM":
        raise errors.ArgumentError(
            f"{values.dtype} cannot be turned into {dtype}",
            fqn=node.fqn,
            hint="date2num makes numbers of times",
        )
    with translating("{} cannot be turned into {}", values.dtype, dtype, fqn=node.fqn):
        return values.astype(dtype)


def _map_objects(values: np.ndarray, convert: Callable[[Any], object]) -> np.ndarray:
    # An assignment of sequences of equal length would be one of numbers.
    return np.fromiter(map(convert, values.ravel()), object, values.size).reshape(values.shape)


def _as_texts(node: VariableNode, values: np.ndarray) -> np.ndarray:
    if values.size > 1 and set(map(type, values.ravel())) == {str}:
        text = "".join(values.ravel())
        if text.isascii() or not isinstance(lookup_in(node)("_Encoding"), str):
            # All at once: the name of the variable for an error took longer than the check of a text.
            with suppress(errors.NCZarrError):  # below, the error names the text
                node.tree.rules.check_text(text)
                return values.copy()
    return _map_objects(values, partial(_text, node))


def _text(node: VariableNode, text: Any) -> str:
    encoded = isinstance(text, bytes)
    if encoded:
        text = text.decode("utf-8", "surrogateescape")
    if not isinstance(text, str):
        raise errors.ArgumentTypeError(f"the value must be a string, not {type(text).__name__}", fqn=node.fqn)
    if text.isascii() or encoded:
        node.tree.rules.check_text(text, node.fqn)
        return str(text)
    encoding = lookup_in(node)("_Encoding")
    if isinstance(encoding, str):
        with translating("the text cannot be stored as {!r}", encoding, fqn=node.fqn):
            text = text.encode(encoding).decode("utf-8", "surrogateescape")
    node.tree.rules.check_text(text, node.fqn)
    return str(text)


def _check_texts(node: VariableNode, values: np.ndarray, type_: model.Type) -> None:
    """Check every string inside compounds and sequences; errors as :meth:`EditRules.check_text`."""
    if type_ == model.STRING:
        for text in values.reshape(-1):
            if isinstance(text, str):
                node.tree.rules.check_text(text, node.fqn)
    elif isinstance(type_, model.VlenType) and type_.base.dtype.hasobject:
        for sequence in values.reshape(-1):
            if sequence is not None:
                _check_texts(node, np.asarray(sequence, type_.base.dtype), type_.base)
    elif isinstance(type_, model.CompoundType):
        for field in type_.fields:
            if field.type.dtype.hasobject:
                _check_texts(node, values[field.name], field.type)


def _as_sequences(node: VariableNode, values: np.ndarray, type_: model.VlenType) -> np.ndarray:
    base, dtype = type_.base, type_.base.dtype

    def convert(sequence: ArrayLike) -> np.ndarray:
        array = np.asarray(sequence, object) if base.dtype == object else np.asarray(sequence)
        # In netCDF4-python, elements of a sequence must have its dtype exactly.
        if dtype.kind in "iufS" and array.dtype.newbyteorder("=") != dtype:
            raise errors.ArgumentTypeError(
                f"wrong data type in object array: should be {dtype}, got {array.dtype}", fqn=node.fqn
            )
        return array.astype(dtype).reshape(-1)

    with translating("the sequence cannot be turned into {}", base.name, fqn=node.fqn):
        return _map_objects(values, np.ndarray.copy if type_.holds_vectors(values) else convert)

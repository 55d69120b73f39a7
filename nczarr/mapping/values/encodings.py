"""Encode the values of each netCDF type as elements of a Zarr array, and decode them.

========================  ==========================================================  ========================
netCDF type               Zarr data type                                              class
========================  ==========================================================  ========================
integers, floats, enum    the same number type                                        :class:`PlainEncoding`
char                      ``null_terminated_bytes`` of length 1                       :class:`PlainEncoding`
char, on request          ``uint8``                                                   :class:`ViewEncoding`
string                    ``string``                                                  :class:`PlainEncoding`
opaque                    ``uint8`` with one more dimension                           :class:`ViewEncoding`
compound {r, i} of floats ``complex64``, ``complex128``                               :class:`ViewEncoding`
compound of fixed size    ``uint8`` with one more dimension: little-endian, packed    :class:`ViewEncoding`
the same, on request      ``struct``, a nested struct for a field with dimensions     :class:`ViewEncoding`
everything else           ``bytes``: the packed form                                  :class:`PackedEncoding`
========================  ==========================================================  ========================

Zarr has data types for which netCDF has only a wider type. A variable that comes from such an array keeps the data type
(:attr:`nczarr.model.Storage.data_type`):

========================  ==========================================================  ========================
byte                      ``bool``                                                    :class:`TruthEncoding`
float                     ``float16``                                                 :class:`CastEncoding`
========================  ==========================================================  ========================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field, replace
from typing import ClassVar

import numpy as np

from nczarr import model
from nczarr.dataclass import dataclass
from nczarr.errors import LossError, MetadataError, NCZarrError, UnsupportedError
from nczarr.mapping.values.scalars import Scalar, packer, unpacker
from nczarr.model import CHAR, STRING, CompoundType, Type
from nczarr.zarr import DataType, data_type_for
from nczarr.zarr.types import StructField, StructType

#: Maximum number of elements of a ``struct``: each is a field in the Zarr document. Larger compounds are packed.
MAX_STRUCT_FIELDS = 512


@dataclass(frozen=True)
class Encoding:
    """How an array stores the values of a variable.

    Parameters
    ----------
    type : Type
        The netCDF type.
    data_type : DataType
        The Zarr data type of the array.
    inner_shape : tuple of int
        Lengths of the dimensions that the array has after those of the variable.
    """

    type: Type
    data_type: DataType
    inner_shape: tuple[int, ...] = ()

    #: True if the values of the array are the values of the variable, without conversion.
    is_identity = False
    #: True if :meth:`encode` refuses some values of the type.
    limited = False
    #: The Zarr data type that another array of the variable keeps; None where the type of the variable determines it.
    kept_type: ClassVar[str | None] = None

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the variable's values."""
        return self.type.dtype

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Convert values of the variable to values of the array, inner dimensions included."""
        raise NotImplementedError

    def decode(self, raw: np.ndarray) -> np.ndarray:
        """Convert values of the array to values of the variable; the exact inverse of :meth:`encode`."""
        raise NotImplementedError

    def encode_fill(self, value: Scalar) -> Scalar:
        """Convert a fill value of the variable to one of the array."""
        one = np.empty((), self.dtype)
        one[()] = value
        return self.encode(one)[()]

    def can_fill(self, value: Scalar) -> bool:
        """Return whether the fill value of the array can represent a fill value of the variable."""
        try:
            self.encode_fill(value)
        except NCZarrError:
            return False
        return True


@dataclass(frozen=True)
class PlainEncoding(Encoding):
    """The values of the array are the values of the variable."""

    is_identity = True

    def encode(self, values: np.ndarray) -> np.ndarray:
        return values

    def decode(self, raw: np.ndarray) -> np.ndarray:
        return raw

    def encode_fill(self, value: Scalar) -> Scalar:
        return value

    def can_fill(self, value: Scalar) -> bool:
        try:
            if isinstance(value, str):
                value.encode("utf-8")
        except UnicodeEncodeError:
            return False
        return True


@dataclass(frozen=True)
class ViewEncoding(Encoding):
    """The same bytes under another dtype, perhaps with one more dimension.

    Examples
    --------
    >>> from nczarr.model import OpaqueType
    >>> e = encoding_for_writing(OpaqueType("/o", 2))
    >>> e.encode(np.array([b"ab", b"cd"], "V2"))
    array([[ 97,  98],
           [ 99, 100]], dtype=uint8)
    """

    @property
    def _stored(self) -> np.dtype:
        # No codec swaps bytes that have a dimension of their own: they are always little-endian.
        return self.dtype.newbyteorder("<") if self.inner_shape else self.dtype

    def encode(self, values: np.ndarray) -> np.ndarray:
        values = np.ascontiguousarray(values, self._stored).reshape(np.shape(values))
        if self.inner_shape:
            flat = np.frombuffer(values.tobytes(), np.uint8) if not values.ndim else values.view(np.uint8)
            return flat.reshape(values.shape + self.inner_shape)
        return values.view(self.data_type.dtype)

    def decode(self, raw: np.ndarray) -> np.ndarray:
        if self.inner_shape:
            shape = raw.shape[: raw.ndim - len(self.inner_shape)]
            stored = np.ascontiguousarray(raw).reshape(-1).view(self._stored).reshape(shape)
            return stored.astype(self.dtype, copy=False)
        return raw.view(self.dtype)

    def encode_fill(self, value: Scalar) -> Scalar:
        if self.inner_shape:
            return np.asarray(value, self._stored).tobytes()[0]
        return super().encode_fill(value)

    def can_fill(self, value: Scalar) -> bool:
        raw = np.asarray(value, self._stored).tobytes()
        return not self.inner_shape or raw == raw[:1] * len(raw)


@dataclass(frozen=True)
class PackedEncoding(Encoding):
    """Each value is one ``bytes`` object in the packed form.

    Examples
    --------
    >>> from nczarr.model import SHORT, VlenType
    >>> e = encoding_for_writing(VlenType("/v", SHORT))
    >>> one = np.empty(1, object); one[0] = np.array([7], "i2")
    >>> e.encode(one), e.decode(e.encode(one))[0]
    (array([b'\\x07\\x00'], dtype=object), array([7], dtype=int16))
    """

    def encode(self, values: np.ndarray) -> np.ndarray:
        pack = packer(self.type)
        if isinstance(self.type, model.VlenType) and self.type.base.is_fixed_size:
            dtype = self.type.base.dtype
            if dtype == dtype.newbyteorder("<") and self.type.holds_vectors(values):
                pack = np.ndarray.tobytes  # as the packer does, which takes three times as long
        return _converted(values, pack, np.dtype(object))

    def decode(self, raw: np.ndarray) -> np.ndarray:
        return _converted(raw, unpacker(self.type), self.dtype)


def _converted(values: np.ndarray, convert: Callable[[Scalar], Scalar], dtype: np.dtype) -> np.ndarray:
    """Return an array of the results of a function for each value."""
    if dtype.hasobject and dtype.names is None:
        return np.fromiter(map(convert, values.reshape(-1)), object, values.size).reshape(values.shape)
    out = np.empty(values.shape, dtype)
    flat = out.reshape(-1)
    for i, value in enumerate(values.reshape(-1)):
        flat[i] = convert(value)
    return out


def encoding_for_writing(
    type_: Type, fill: Scalar = None, *, char: str = "bytes", compound: str = "bytes"
) -> Encoding:
    """Choose the encoding of a type; `char` and `compound` are options of :class:`WriteOptions`.

    Compounds of a real and an imaginary part are complex numbers, for which every Zarr reader has a type.

    The packed form replaces bytes along a dimension if the fill value is not one repeated byte, because a Zarr fill
    value cannot represent it. It also replaces strings if the fill value is not UTF-8.

    Examples
    --------
    >>> from nczarr.model import INT, VlenType
    >>> [encoding_for_writing(t).data_type.name for t in (INT, CHAR, STRING, VlenType("/v", INT))]
    ['int32', 'null_terminated_bytes', 'string', 'bytes']
    """
    if type_ == CHAR:
        if char == "uint8":
            return ViewEncoding(type_, data_type_for("uint8"))
        return PlainEncoding(type_, data_type_for("S1"))
    # JSON has no lone surrogates, so such a fill value needs bytes.
    if type_ == STRING:
        text = PlainEncoding(type_, data_type_for("string"))
        return text if text.can_fill(fill) else PackedEncoding(type_, data_type_for("bytes"))
    if type_.value_type.is_atomic:
        return PlainEncoding(type_, data_type_for(type_.dtype))
    # Complex numbers became bytes on the way from Zarr to Zarr.
    if compound == "bytes" and (numbers := complex_dtype(type_)) is not None:
        return ViewEncoding(type_, data_type_for(numbers))
    # Zarr has no type of opaque bytes that all readers know: a dimension of uint8 opens everywhere.
    if type_.kind == "opaque" or (_is_fixed_compound(type_) and compound == "bytes"):
        rows = ViewEncoding(type_, data_type_for("uint8"), (type_.dtype.itemsize,))
        if rows.can_fill(model.default_fill(type_) if fill is None else fill):
            return rows
    elif isinstance(type_, CompoundType) and type_.is_fixed_size and _leaves(type_) <= MAX_STRUCT_FIELDS:
        return ViewEncoding(type_, struct_type(type_))
    return PackedEncoding(type_, data_type_for("bytes"))


def complex_dtype(type_: Type) -> np.dtype | None:
    """Return the dtype of complex numbers for a compound of the floats ``r`` and ``i``; None for other types.

    Examples
    --------
    >>> from nczarr.model import DOUBLE, FLOAT, Field
    >>> complex_dtype(CompoundType("/z", (Field("r", FLOAT), Field("i", FLOAT))))
    dtype('complex64')
    >>> complex_dtype(DOUBLE), complex_dtype(CompoundType("/p", (Field("rain", FLOAT), Field("ice", FLOAT))))
    (None, None)
    """
    for numbers, part in (("complex64", model.FLOAT), ("complex128", model.DOUBLE)):
        if isinstance(type_, CompoundType) and type_.fields == (
            model.Field("r", part),
            model.Field("i", part),
        ):
            return np.dtype(numbers)
    return None


def kept_encoding(type_: Type, data_type: str | None, fill: Scalar) -> Encoding | None:
    """Return the encoding in the data type of a variable's source; None without one, or if it lacks the fill value.

    Examples
    --------
    >>> from nczarr.model import FLOAT
    >>> kept_encoding(FLOAT, "float16", None).data_type.name, kept_encoding(FLOAT, "float16", 1e20)
    ('float16', None)
    """
    class_ = _kept_class(type_, data_type)
    encoding = None if class_ is None else class_(type_, data_type_for(str(data_type)))
    return None if encoding is None or not (fill is None or encoding.can_fill(fill)) else encoding


def without_data_types(dataset: model.Dataset) -> tuple[model.Dataset, tuple[str, ...]]:
    """Return a dataset for a form that has netCDF's types only, and a sentence for each data type that it loses.

    A byte with the attribute ``dtype = "bool"`` is what xarray makes of truth values in such a form, and no loss.

    Examples
    --------
    >>> half = model.Variable("v", model.FLOAT, storage=model.Storage(data_type="float16"))
    >>> without_data_types(model.Dataset("d", variables=(half,)))[1]
    ('/v: the Zarr data type float16; the values are stored as float',)
    """
    found = {fqn: v for fqn, v in dataset.all_variables.items() if v.storage.data_type is not None}
    if not found:
        return dataset, ()
    losses = [
        f"{fqn}: the Zarr data type {v.storage.data_type}; the values are stored as {v.type.name}"
        for fqn, v in found.items()
        if v.storage.data_type != TruthEncoding.kept_type
    ]

    def variable(fqn: str, old: model.Variable) -> model.Variable:
        return replace(old, storage=replace(old.storage, data_type=None)) if fqn in found else old

    return model.rewrite(dataset, variable=variable), tuple(losses)


def _kept_class(type_: Type, data_type: str | None) -> type[Encoding] | None:
    narrow: tuple[tuple[Type, type[Encoding]], ...] = (
        (model.BYTE, TruthEncoding),
        (model.FLOAT, CastEncoding),
    )
    found = (class_ for wide, class_ in narrow if type_ == wide and data_type == class_.kept_type)
    return next(found, None)


def _is_fixed_compound(type_: Type) -> bool:
    return type_.kind == "compound" and type_.is_fixed_size


def _leaves(type_: Type) -> int:
    if not isinstance(type_, CompoundType):
        return 1
    return sum(_leaves(f.type) * math.prod(f.shape[:-1] if f.type == CHAR else f.shape) for f in type_.fields)


def struct_type(type_: CompoundType) -> StructType:
    """Return the Zarr ``struct`` of a compound: the same bytes; fields with dimensions become nested structs.

    Examples
    --------
    >>> from nczarr.model import SHORT, Field
    >>> struct_type(CompoundType("/c", (Field("a", SHORT, (2,)), Field("b", CHAR, (8,))))).to_json()[
    ...     "configuration"]["fields"][0]["data_type"]["configuration"]
    {'fields': [{'name': '0', 'data_type': 'int16'}, {'name': '1', 'data_type': 'int16'}]}
    """
    fields = tuple(StructField(f.name, _field_type(f.type, f.shape)) for f in type_.fields)
    return StructType.checked("struct", fields)


def _field_type(type_: Type, shape: tuple[int, ...]) -> DataType:
    if type_ == CHAR and len(shape) == 1:
        return data_type_for(f"S{shape[0]}")
    if shape:
        element = _field_type(type_, shape[1:])
        return StructType.checked("struct", tuple(StructField(str(i), element) for i in range(shape[0])))
    if isinstance(type_, CompoundType):
        return struct_type(type_)
    return data_type_for(type_.dtype)


def simple_type(data_type: DataType) -> Type | None:
    """Return the atomic type that a Zarr data type stands for without NCZarr's keys; None if there is none.

    Examples
    --------
    >>> from nczarr.zarr.types import data_type_for
    >>> simple_type(data_type_for("int16")), simple_type(data_type_for("complex64"))
    (SHORT, None)
    """
    if data_type.name == "string":
        return STRING
    if data_type.dtype.hasobject or data_type.dtype.kind not in "iufS":
        return None
    return model.primitive_for_dtype(data_type.dtype)


def encoding_for_reading(type_: Type, data_type: DataType) -> Encoding:
    """Return the encoding of an array of a data type that stores values of `type_`.

    Raises
    ------
    MetadataError
        Arrays of the data type cannot store values of the type.

    Examples
    --------
    >>> encoding_for_reading(CHAR, data_type_for("uint8")).data_type.name
    'uint8'
    """
    dtype = data_type.dtype
    # Some versions of zarr-python write the second name.
    if data_type.name in ("bytes", "variable_length_bytes"):
        if type_ == STRING or not type_.value_type.is_atomic:
            return PackedEncoding(type_, data_type)
    elif data_type.name == "string":
        if type_ == STRING:
            return PlainEncoding(type_, data_type)
    elif type_.dtype == dtype and type_.kind != "compound":
        return PlainEncoding(type_, data_type)
    elif (kept := _kept_class(type_, data_type.name)) is not None:
        return kept(type_, data_type)
    elif data_type.name == "uint8" and (type_.kind == "opaque" or _is_fixed_compound(type_)):
        return ViewEncoding(type_, data_type, (type_.dtype.itemsize,))
    elif (type_ == CHAR and dtype.kind in "uiS" and dtype.itemsize == 1) or (
        # Other programs name nested fields and rows of bytes in other ways; their bytes are the same.
        _is_fixed_compound(type_) and _leaf_codes(type_.dtype) == _leaf_codes(dtype)
    ):
        return ViewEncoding(type_, data_type)
    raise MetadataError(f"the data type {data_type.name!r} cannot store values of the type {type_.name!r}")


def _leaf_codes(dtype: np.dtype) -> list[str]:
    """Return the kinds and sizes of all numbers in a packed dtype, in order; a row of bytes counts as one."""
    codes: list[str] = []

    def walk(dt: np.dtype) -> None:
        if dt.subdtype is not None:
            base, shape = dt.subdtype
            for _ in range(math.prod(shape)):
                walk(base)
        elif dt.names is not None:
            for name in dt.names:
                walk(dt[name])
        elif dt.kind in "SV":
            if codes and codes[-1].startswith("bytes "):
                codes[-1] = f"bytes {int(codes[-1][6:]) + dt.itemsize}"
            else:
                codes.append(f"bytes {dt.itemsize}")
        elif dt.kind == "c":
            codes.extend([f"f{dt.itemsize // 2}"] * 2)
        else:
            codes.append(f"{dt.kind}{dt.itemsize}")

    walk(dtype)
    return codes


@dataclass(frozen=True)
class CastEncoding(Encoding):
    """Numbers for which netCDF has a wider type only."""

    limited = True
    kept_type: ClassVar[str | None] = "float16"

    def encode(self, values: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            raw = values.astype(self.data_type.dtype)
        # A number that becomes an infinity cannot be read back.
        if (np.isinf(raw) & np.isfinite(values)).any():
            raise UnsupportedError(
                f"a value is out of range for {self.data_type.name}, the array's data type"
            )
        return raw

    def can_fill(self, value: Scalar) -> bool:
        one = np.asarray(value, self.dtype)
        with np.errstate(over="ignore"):
            return model.same_values(self.decode(one.astype(self.data_type.dtype)), one, nan_payloads=False)

    def decode(self, raw: np.ndarray) -> np.ndarray:
        return raw.astype(self.dtype)


@dataclass(frozen=True)
class TruthEncoding(ViewEncoding):
    """Truth values as 0 and 1."""

    limited = True
    kept_type: ClassVar[str | None] = "bool"

    def encode(self, values: np.ndarray) -> np.ndarray:
        # numpy reads any other byte as true.
        if (values.view(np.uint8) > 1).any():
            raise UnsupportedError("a value is neither 0 nor 1, and the array stores truth values only")
        return super().encode(values)

    def can_fill(self, value: Scalar) -> bool:
        return bool(value in (0, 1))


@dataclass(frozen=True)
class TimeEncoding(Encoding):
    """Times as whole numbers of the unit `step`, which divides the unit of the array."""

    step: str = "s"
    limited = True

    def encode(self, values: np.ndarray) -> np.ndarray:
        dtype = self.data_type.dtype
        whole = np.ascontiguousarray(values, np.int64)
        raw = self._converted(whole.view(f"{dtype.kind}8[{self.step}]"), dtype)
        # numpy cuts times to coarser units in silence.
        if (self.decode(raw) != whole).any():
            raise UnsupportedError(f"a time is not a multiple of the unit of the array, which has {dtype}")
        return raw

    def decode(self, raw: np.ndarray) -> np.ndarray:
        counted = self._converted(raw, np.dtype(f"{raw.dtype.kind}8[{self.step}]"))
        # Some versions of numpy wrap values around that are too large.
        if (self._converted(counted, raw.dtype).view(np.int64) != raw.view(np.int64)).any():
            raise self._too_large(raw.dtype)
        return counted.view(np.int64)

    def _converted(self, times: np.ndarray, dtype: np.dtype) -> np.ndarray:
        try:
            return times.astype(dtype)
        except OverflowError:
            raise self._too_large(self.data_type.dtype) from None

    def _too_large(self, dtype: np.dtype) -> UnsupportedError:
        return UnsupportedError(f"a time of {dtype} is too large for a number of units of {self.step!r}")


@dataclass(frozen=True)
class TextEncoding(Encoding):
    """Text of a fixed number of characters or bytes."""

    limited = True

    def encode(self, values: np.ndarray) -> np.ndarray:
        dtype = self.data_type.dtype
        texts = [v or "" for v in values.reshape(-1)]
        items: list[str] | list[bytes] = texts
        limit = dtype.itemsize // 4
        if dtype.kind == "S":
            items = [t.encode("utf-8", "surrogateescape") for t in texts]
            limit = dtype.itemsize
        for item in items:
            # numpy cuts NULs off the end of fixed texts.
            if item[-1:] in ("\0", b"\0"):
                raise UnsupportedError(
                    f"the text {item!r} ends with NUL, which the array cannot distinguish from padding"
                )
            # numpy would cut the text in silence.
            if len(item) > limit:
                raise UnsupportedError(f"the text {item!r} is longer than {limit}, the limit of the array")
        return np.array(items, dtype).reshape(values.shape)

    def decode(self, raw: np.ndarray) -> np.ndarray:
        if raw.dtype.kind == "U":
            _check_characters(raw)
        out = np.empty(raw.shape, object)
        flat = out.reshape(-1)
        for i, value in enumerate(raw.reshape(-1).tolist()):
            flat[i] = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
        return out


def _check_characters(raw: np.ndarray) -> None:
    """Refuse numbers that are not characters, which numpy accepts but writers of text do not."""
    codes = np.ascontiguousarray(raw).reshape(-1).view(np.uint32)
    # U+DC80 to U+DCFF stand for bytes that are not UTF-8.
    wrong = codes[(codes > 0x10FFFF) | ((codes & ~np.uint32(0x7FF)) == 0xD800)]
    wrong = wrong[(wrong < 0xDC80) | (wrong > 0xDCFF)]
    if wrong.size:
        raise UnsupportedError(f"a text contains {wrong[0]:#x}, which is not a character")


@dataclass(frozen=True)
class FixedTextEncoding(TextEncoding):
    """Strings in elements of a fixed number of bytes, as netcdf-c stores them in NCZarr v2.

    Examples
    --------
    >>> e = FixedTextEncoding(STRING, data_type_for("S4"))
    >>> e.decode(e.encode(np.array(["ab", "é"], object))).tolist()
    ['ab', 'é']
    """

    def encode(self, values: np.ndarray) -> np.ndarray:
        size = self.data_type.dtype.itemsize
        items = []
        for value in values.reshape(-1):
            raw = (value or "").encode("utf-8", "surrogateescape")
            # netCDF-C stores strings in a fixed number of bytes, and cuts longer ones at 128.
            if len(raw) > size or b"\0" in raw:
                raise LossError(
                    f"the text {value[:20]!r}… has {len(raw)} bytes; this layout stores {size}, without NUL",
                    hint="write the dataset as nczarr-v3",
                )
            items.append(raw)
        return np.array(items, self.data_type.dtype).reshape(values.shape)


@dataclass(frozen=True)
class ScalarEncoding(Encoding):
    """A scalar as an array of one element, as in NCZarr v2; `inner` is the encoding of the element.

    Examples
    --------
    >>> from nczarr.model import INT
    >>> e = ScalarEncoding(INT, data_type_for("int32"), (1,), PlainEncoding(INT, data_type_for("int32")))
    >>> e.encode(np.array(5, "i4")), int(e.decode(np.array([5], "i4"))[()])
    (array([5], dtype=int32), 5)
    """

    inner: Encoding = field(default=PlainEncoding(STRING, data_type_for("string")))

    @property
    def limited(self) -> bool:  # type: ignore[override]
        return self.inner.limited

    def encode(self, values: np.ndarray) -> np.ndarray:
        return self.inner.encode(np.asarray(values, self.dtype).reshape(1))

    def decode(self, raw: np.ndarray) -> np.ndarray:
        values = self.inner.decode(raw)
        return values.reshape(values.shape[:-1])

    def encode_fill(self, value: Scalar) -> Scalar:
        return self.inner.encode_fill(value)

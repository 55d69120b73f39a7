"""Convert types and values between HDF5 and the model.

HDF5 passes a string as a pointer, and a sequence as a length and a pointer, at any depth inside a compound.
h5py converts the simple cases only. This module therefore reads and writes values in the file's own type,
without conversion by HDF5 (which also preserves every bit of a float), and converts them to the model's form
along a :class:`MemoryLayout`.
"""

from __future__ import annotations

import ctypes
import sys
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import field
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING

import numpy as np

from nczarr import model
from nczarr.dataclass import dataclass
from nczarr.errors import LossError, NetCDFFileError, UnsupportedError, error_context
from nczarr.model.types import NullText
from nczarr.netcdf.bytes.file import bytes_of, text_of
from nczarr.netcdf.hdf5.library import call, hdf5, read_text

if TYPE_CHECKING:
    from h5py._objects import ObjectID
    from h5py.h5t import TypeID

#: The attribute of a committed type with the names of the types inside; see :func:`bases_to_record`.
BASES = b"_nczarr_bases"
_POINTER = np.dtype(f"u{ctypes.sizeof(ctypes.c_void_p)}")
_SEQUENCE = np.dtype([("length", f"u{ctypes.sizeof(ctypes.c_size_t)}"), ("data", _POINTER)])


@dataclass(frozen=True)
class MemoryLayout(ABC):
    """The layout of one value in memory. `dtype` has pointers as unsigned integers."""

    dtype: np.dtype

    @property
    def has_pointers(self) -> bool:
        """True if HDF5 allocates memory for values of the layout."""
        return False

    @property
    def has_fixed_text(self) -> bool:
        """True if strings of the layout have a maximum length."""
        return False

    @property
    def is_raw(self) -> bool:
        """True if values are readable without HDF5: their bytes in the file are those in memory."""
        return not self.has_pointers

    @abstractmethod
    def decode(self, raw: np.ndarray, type_: model.Type) -> np.ndarray:
        """Copy a buffer of `dtype` that HDF5 filled into values of the model."""

    @abstractmethod
    def encode(self, values: np.ndarray, type_: model.Type, keep: list[object]) -> np.ndarray:
        """Encode values of the model into a buffer for HDF5. The inverse of :meth:`decode`.

        The method appends the targets of the pointers to `keep`. The contiguous buffer is valid as long as that list
        is.

        Raises
        ------
        UnsupportedError
            If a string contains a NUL, or is too long for strings of fixed size.
        """


@dataclass(frozen=True)
class Plain(MemoryLayout):
    """A value without pointers, which numpy can read directly in any byte order."""

    def decode(self, raw: np.ndarray, type_: model.Type) -> np.ndarray:
        # A copy: the buffer is HDF5's, and gets the values of the next read.
        return raw.astype(type_.dtype)

    def encode(self, values: np.ndarray, type_: model.Type, keep: list[object]) -> np.ndarray:
        return np.ascontiguousarray(values, self.dtype).reshape(values.shape)


@dataclass(frozen=True)
class Converted(Plain):
    """A number whose form in the file netCDF lacks: HDF5 converts it to the next larger type."""

    @property
    def is_raw(self) -> bool:
        return False


@dataclass(frozen=True)
class FixedText(MemoryLayout):
    """A string of fixed size. The netCDF library never writes them; other programs do.

    Attributes
    ----------
    room : int
        Maximum number of bytes of text.
    pad : bytes
        The byte that fills the rest.
    """

    room: int
    pad: bytes = b"\0"

    @property
    def has_fixed_text(self) -> bool:
        return True

    def decode(self, raw: np.ndarray, type_: model.Type) -> np.ndarray:
        out = np.empty(raw.shape, type_.dtype)
        size, data = self.dtype.itemsize, raw.tobytes()
        # HDF5 pads a shorter text with NULs.
        texts = (data[i : i + size].split(b"\0", 1)[0] for i in range(0, len(data), size))
        out.reshape(-1)[:] = [text_of(text) for text in texts]
        return out

    def encode(self, values: np.ndarray, type_: model.Type, keep: list[object]) -> np.ndarray:
        out = np.zeros(values.shape, self.dtype)
        out.reshape(-1)[:] = [self._bytes(text or "") for text in values.reshape(-1)]
        return out

    def _bytes(self, text: str) -> bytes:
        data = _text_bytes(text)
        # numpy would cut the text in silence.
        if len(data) > self.room:
            raise UnsupportedError(
                f"the text {text[:40]!r} has {len(data)} bytes, and the file's strings have at most {self.room}"
            )
        return data.ljust(self.dtype.itemsize, self.pad)


@dataclass(frozen=True)
class Text(MemoryLayout):
    """A pointer to a string that ends with a NUL."""

    dtype: np.dtype = _POINTER

    @property
    def has_pointers(self) -> bool:
        return True

    def decode(self, raw: np.ndarray, type_: model.Type) -> np.ndarray:
        out = np.empty(raw.shape, type_.dtype)
        addresses = raw.reshape(-1).tolist()
        # ncdump prints NIL for a null pointer, and "" for an empty text.
        out.reshape(-1)[:] = [text_of(ctypes.string_at(at)) if at else NullText() for at in addresses]
        return out

    def encode(self, values: np.ndarray, type_: model.Type, keep: list[object]) -> np.ndarray:
        texts = values.reshape(-1).tolist()
        joined = np.frombuffer(bytes_of("".join([f"{text or ''}\0" for text in texts])), np.uint8)
        ends = np.flatnonzero(joined == 0)
        if len(ends) != len(texts):
            for text in texts:
                _text_bytes(text or "")  # raises for the text with a NUL
        # HDF5 reads this memory later, when the values are written. A buffer for each text took most of the time.
        keep.append(joined)
        out = np.zeros(len(texts), self.dtype)
        out[:1], out[1:] = 0, ends[:-1] + 1
        out += np.uint64(joined.ctypes.data)
        # A null pointer stays one, as with ncgen.
        if set(map(type, texts)) != {str}:
            out[[isinstance(text, NullText | None) for text in texts]] = 0
        return out.reshape(values.shape)


@dataclass(frozen=True)
class Sequence(MemoryLayout):
    """A length, and a pointer to that many values of `base`."""

    dtype: np.dtype = _SEQUENCE
    base: MemoryLayout = field(kw_only=True)

    @property
    def has_pointers(self) -> bool:
        return True

    @property
    def has_fixed_text(self) -> bool:
        return self.base.has_fixed_text

    def decode(self, raw: np.ndarray, type_: model.Type) -> np.ndarray:
        assert isinstance(type_, model.VlenType)
        size, found = self.base.dtype.itemsize, raw.reshape(-1).tolist()
        # A sequence without elements may have no address.
        parts = [ctypes.string_at(address, length * size) if address else b"" for length, address in found]
        items = self.base.decode(np.frombuffer(b"".join(parts), self.base.dtype), type_.base)
        ends = list(accumulate([len(part) // size for part in parts], initial=0))
        vectors = (items[start:end] for start, end in pairwise(ends))
        return np.fromiter(vectors, object, len(parts)).reshape(raw.shape)

    def encode(self, values: np.ndarray, type_: model.Type, keep: list[object]) -> np.ndarray:
        assert isinstance(type_, model.VlenType)
        base = type_.base
        out = np.zeros(values.shape, self.dtype)
        vectors = [_as_vector(() if inside is None else inside, base) for inside in values.reshape(-1)]
        lengths = np.fromiter(map(len, vectors), np.int64, len(vectors))
        if lengths.any():
            data = self.base.encode(np.concatenate(vectors, dtype=base.dtype), base, keep)
            # HDF5 reads this memory later, when the values are written.
            keep.append(data)
            starts = (np.cumsum(lengths) - lengths) * data.itemsize + data.ctypes.data
            length, address = out.dtype.names
            out.reshape(-1)[length] = lengths
            out.reshape(-1)[address] = np.where(lengths, starts, 0)
        return out


@dataclass(frozen=True)
class Record(MemoryLayout):
    """A compound with pointers inside: one layout for each field of `dtype`."""

    fields: tuple[MemoryLayout, ...]

    @property
    def has_pointers(self) -> bool:
        return any(field.has_pointers for field in self.fields)

    @property
    def has_fixed_text(self) -> bool:
        return any(field.has_fixed_text for field in self.fields)

    def decode(self, raw: np.ndarray, type_: model.Type) -> np.ndarray:
        assert isinstance(type_, model.CompoundType)
        out = np.empty(raw.shape, type_.dtype)
        for member, part in zip(type_.fields, self.fields, strict=True):
            out[member.name] = part.decode(raw[member.name], member.type)
        return out

    def encode(self, values: np.ndarray, type_: model.Type, keep: list[object]) -> np.ndarray:
        assert isinstance(type_, model.CompoundType)
        out = np.zeros(values.shape, self.dtype)
        for member, part in zip(type_.fields, self.fields, strict=True):
            out[member.name] = part.encode(values[member.name], member.type, keep)
        return out


def _text_bytes(text: str) -> bytes:
    data = bytes_of(text)
    # HDF5's strings end at the first NUL: the rest would be lost.
    if b"\0" in data:
        raise UnsupportedError(f"netCDF-4 cannot store a string with a NUL inside: {text!r}")
    return data


def _as_vector(items: Collection[object], type_: model.Type) -> np.ndarray:
    if isinstance(items, np.ndarray) and items.dtype == type_.dtype and items.ndim == 1:
        return items
    vector = np.empty(len(items), type_.dtype)
    for i, item in enumerate(items):
        vector[i] = item
    return vector


def address_of(object_id: ObjectID) -> tuple[int, int]:
    """Return the identity of an object of a file."""
    # A link may lead into another file, where the same address is another object.
    info = hdf5().h5o.get_info(object_id)
    return info.fileno, info.addr


class NoTypeError(NetCDFFileError):
    """A type of HDF5 that netCDF lacks."""


@dataclass
class KnownTypes:
    """The named types of a file, and the conversion of any HDF5 type to the model's.

    netCDF does not store the name of a variable's type. The type is the first equal named type, parents
    before children, as the netCDF library searches. A type without an equal named type (other programs write
    such types) gets a name in its group: ``unnamed_enum_1`` and so on.

    Attributes
    ----------
    taken : set of str
        FQNs that are in use.
    unnamed : dict of list of UserType
        The types that got a generated name, by group.
    """

    taken: set[str] = field(default_factory=set)
    unnamed: dict[str, list[model.UserType]] = field(default_factory=dict)
    _may_name: bool = False

    #: The reasons for which named types are left out, by FQN.
    unknown: dict[str, str] = field(default_factory=dict)
    by_address: dict[tuple[int, int], model.UserType] = field(default_factory=dict)
    by_group: dict[str, list[tuple[TypeID, model.UserType]]] = field(default_factory=dict)

    def declare(self, found: list[tuple[str, str, TypeID]]) -> dict[str, model.UserType]:
        """Add the named types of a file.

        `found` has the group, FQN and HDF5 type of each, in any order, since a type may contain one that
        comes later. The result omits types that only rename a built-in type of netCDF.

        Raises
        ------
        NetCDFFileError
            If a type contains one that netCDF lacks.
        """
        made: dict[str, model.UserType] = {}
        while found:
            waiting = []
            for group, fqn, type_id in found:
                try:
                    with error_context(fqn=fqn):
                        new = self._make(type_id, fqn, group, made)
                except NetCDFFileError as error:
                    failure = error
                    waiting.append((group, fqn, type_id))
                    continue
                if new is not None:
                    made[fqn] = new
                    self.by_address[address_of(type_id)] = new
                    self.by_group.setdefault(group, []).append((type_id, new))
            # Types may use later ones; a pass that adds none will never add one.
            if len(waiting) == len(found):
                # One such type refused the whole file, which netCDF4-python opens.
                if self._may_name and isinstance(failure, NoTypeError):
                    self.unknown = {fqn: failure.message for _, fqn, _ in waiting}
                    return made
                # Before all named types are known, a named one inside another type would get a second name.
                if self._may_name:
                    raise failure
                self._may_name = True
            found = waiting
        self._may_name = True
        return made

    def find(self, type_id: TypeID, group: str) -> tuple[model.Type, MemoryLayout]:
        """Return the model's type and the layout of an HDF5 type that is used in a group.

        Raises
        ------
        NetCDFFileError
            If netCDF has no such type. The caller adds path and FQN.
        """
        h5t = hdf5().h5t
        kind = type_id.get_class()
        if kind in (h5t.INTEGER, h5t.FLOAT):
            try:
                layout = Plain(_number_dtype(type_id))
            except NoTypeError:
                layout = Converted(_number_dtype(memory_type(type_id)))
            dtype = layout.dtype
            primitive = model.primitive_for_dtype(dtype)
            if primitive is None:
                # netCDF4-python opens files with such types, so the object alone is left out.
                raise NoTypeError(f"netCDF has no type for HDF5's {dtype}")
            return primitive, layout
        if kind == h5t.STRING:
            # As netCDF-C, which reads a fixed string of one byte as char.
            text = model.STRING if type_id.is_variable_str() or type_id.get_size() > 1 else model.CHAR
            return text, layout_of(type_id, text)
        if kind in (h5t.ENUM, h5t.OPAQUE, h5t.COMPOUND, h5t.VLEN):
            named = self._named(type_id)
            # h5py and other programs use types without a name, which netCDF lacks.
            if named is None and self._may_name:
                named = self._name_it(type_id, group)
            if named is None:
                raise NetCDFFileError(f"its type, {_KINDS[kind]}, is not one of the file's named types")
            return named, layout_of(type_id, named)
        raise NoTypeError(f"netCDF has no type for HDF5's class {_KINDS.get(kind, kind)}")

    def _named(self, type_id: TypeID) -> model.UserType | None:
        if type_id.committed() and (known := self.by_address.get(address_of(type_id))):
            return known
        named = chain.from_iterable(self.by_group.values())
        return next((made for other, made in named if type_id.equal(other)), None)

    def _name_it(self, type_id: TypeID, group: str) -> model.UserType | None:
        number = 1
        kind = _KINDS[type_id.get_class()].split()[-1]
        while (fqn := model.join_fqn(group, f"unnamed_{kind}_{number}")) in self.taken:
            number += 1
        self.taken.add(fqn)
        made = self._make(type_id, fqn, group, {})
        if made is not None:
            self.by_group.setdefault(group, []).append((type_id, made))
            self.unnamed.setdefault(group, []).append(made)
        return made

    def _make(
        self, type_id: TypeID, fqn: str, group: str, made: dict[str, model.UserType]
    ) -> model.UserType | None:
        h5t = hdf5().h5t
        kind = type_id.get_class()
        if kind == h5t.ENUM:
            base, _ = self.find(type_id.get_super(), group)
            assert isinstance(base, model.PrimitiveType)
            dtype = _number_dtype(type_id.get_super())
            members, value = [], np.zeros((), dtype)
            for i in range(type_id.get_nmembers()):
                call("H5Tget_member_value", type_id, i, value)
                members.append((text_of(type_id.get_member_name(i)), int(value)))
            return model.EnumType(fqn, base, tuple(members))
        if kind == h5t.OPAQUE:
            return model.OpaqueType(fqn, type_id.get_size())
        bases = ((type_id.committed() and read_text(type_id, BASES)) or "").split("\n")

        def inside(base_id: TypeID, index: int) -> model.Type:
            recorded = bases[index] if index < len(bases) else ""
            # The base may come later in the file: `declare` tries again.
            if recorded and recorded not in made:
                raise NetCDFFileError(f"its base {recorded!r} is not one of the file's named types")
            found, layout = self.find(base_id, group)
            if isinstance(layout, Converted):
                _number_dtype(base_id)  # raises: HDF5 converts numbers outside of other types only
            is_recorded = recorded and _definition(made[recorded]) == _definition(found)
            return made[recorded] if is_recorded else found

        if kind == h5t.VLEN:
            return model.VlenType(fqn, inside(type_id.get_super(), 0))
        if kind == h5t.COMPOUND:
            fields = []
            for i in range(type_id.get_nmembers()):
                base_id, shape = _array_base(type_id.get_member_type(i))
                fields.append(model.Field(text_of(type_id.get_member_name(i)), inside(base_id, i), shape))
            return model.CompoundType(fqn, tuple(fields))
        return None


_KINDS = {
    0: "an integer", 1: "a float", 2: "a time", 3: "a string", 4: "a bit field", 5: "an opaque", 6: "a compound",
    7: "a reference", 8: "an enum", 9: "a variable-length sequence", 10: "an array", 11: "a complex number",
}  # fmt: skip


def bases_to_record(type_: model.UserType, declared: Collection[model.UserType]) -> str | None:
    """Return the names of the types inside a type, if HDF5 cannot distinguish these types; otherwise None.

    HDF5 stores no names for types inside a type, so two declared types of one definition are equal to it. An
    attribute of the named type, which the netCDF library ignores, preserves the names.
    """
    inside = model.parts_of(type_)
    if not any(d.fqn != b.fqn and _definition(d) == _definition(b) for b in inside for d in declared):
        return None
    return "\n".join([t.fqn if isinstance(t, model.UserType) else "" for t in type_.inner_types])


def _definition(type_: model.Type) -> object:
    """Return a type without its name and those of the types inside it, for a comparison."""
    match type_:
        case model.CompoundType(fields=fields):
            return [(field.name, field.shape, _definition(field.type)) for field in fields]
        case model.VlenType(base=base):
            return "vlen", _definition(base)
        case model.EnumType():
            return type_.base, dict(type_.members)
        case model.OpaqueType(size=size):
            return size
    return type_


def memory_type(type_id: TypeID) -> TypeID:
    """Return the HDF5 type of values in memory.

    That is the type in the file, but for numbers whose form netCDF lacks, such as integers of 24 bits: as in the
    netCDF library, their type is the next larger one, to which HDF5 converts them.
    """
    h5t = hdf5().h5t
    kind, size = type_id.get_class(), type_id.get_size()
    if kind not in (h5t.INTEGER, h5t.FLOAT):
        return type_id
    try:
        _number_dtype(type_id)
    except NoTypeError:
        # As for netCDF-C, HDF5 converts integers of 24 bits and floats of 16 to the next larger type.
        bits = type_id.get_precision() if kind == h5t.INTEGER else 32 if size <= 2 else 8 * size
        name = "f" if kind == h5t.FLOAT else "u" if type_id.get_sign() == h5t.SGN_NONE else "i"
        for more in (n for n in (8, 16, 32, 64) if n >= bits):
            found = model.primitive_for_dtype(np.dtype(f"{name}{more // 8}"))
            assert found is not None
            return make_type(found, {}, "big" if type_id.get_order() == h5t.ORDER_BE else "little")
    return type_id


def _number_dtype(type_id: TypeID) -> np.dtype:
    h5t = hdf5().h5t
    kind = type_id.get_class()
    order = "<" if type_id.get_order() in (h5t.ORDER_LE, h5t.ORDER_NONE) else ">"
    size = type_id.get_size()
    if kind == h5t.FLOAT:
        standards = (h5t.IEEE_F32LE, h5t.IEEE_F32BE, h5t.IEEE_F64LE, h5t.IEEE_F64BE)
        # A float of the same size may have other exponents.
        if any(type_id.equal(standard) for standard in standards):
            return np.dtype(f"{order}f{size}")
        raise NoTypeError(f"netCDF has no type for a float of {size} bytes of this form")
    if size not in (1, 2, 4, 8) or type_id.get_precision() != 8 * size:
        raise NoTypeError(f"netCDF has no integer type of {type_id.get_precision()} bits in {size} bytes")
    return np.dtype(f"{order}{'u' if type_id.get_sign() == h5t.SGN_NONE else 'i'}{size}")


def _array_base(type_id: TypeID) -> tuple[TypeID, tuple[int, ...]]:
    shape: tuple[int, ...] = ()
    while type_id.get_class() == hdf5().h5t.ARRAY:
        shape += tuple(type_id.get_array_dims())
        type_id = type_id.get_super()
    return type_id, shape


def make_type(type_: model.Type, committed: Mapping[str, TypeID], endian: str = "native") -> TypeID:
    """Return the HDF5 type of a type of the model: the committed one if it exists."""
    if isinstance(type_, model.UserType):
        return committed.get(type_.fqn) or build_type(type_, committed)
    assert isinstance(type_, model.PrimitiveType)
    h5t = hdf5().h5t
    if type_ in (model.CHAR, model.STRING):
        made = h5t.C_S1.copy()
        made.set_size(1 if type_ == model.CHAR else h5t.VARIABLE)
        made.set_strpad(h5t.STR_NULLTERM)
        if type_ == model.STRING:
            # As netCDF-C writes them.
            made.set_cset(h5t.CSET_UTF8)
        return made
    order = "BE" if endian == "big" or (endian == "native" and sys.byteorder == "big") else "LE"
    kind = "IEEE_F" if type_.is_float else f"STD_{type_.dtype.kind.upper()}"
    return getattr(h5t, f"{kind}{8 * type_.dtype.itemsize}{order}")


def build_type(type_: model.UserType, committed: Mapping[str, TypeID]) -> TypeID:
    """Return a new HDF5 type that is not committed yet, from the `committed` types inside it, by FQN.

    Raises
    ------
    LossError
        If two members of an enum have equal values, which HDF5 cannot represent.
    """
    h5t = hdf5().h5t
    match type_:
        case model.EnumType():
            made = h5t.enum_create(make_type(type_.base, committed))
            # HDF5 refuses a second name for a value.
            if len({value for _, value in type_.members}) != len(type_.members):
                message = "netCDF-4 files cannot store an enum with two names for one value"
                raise LossError(message, fqn=type_.fqn)
            for name, value in type_.members:
                call("H5Tenum_insert", made, bytes_of(name), np.array(value, type_.dtype))
            return made
        case model.OpaqueType():
            made = h5t.create(h5t.OPAQUE, type_.size)
            made.set_tag(b"")
            return made
        case model.VlenType(base=base):
            return h5t.vlen_create(make_type(base, committed))
    assert isinstance(type_, model.CompoundType)
    offset, alignment, parts = 0, _alignment(type_), []
    for f in type_.fields:
        part, here = make_type(f.type, committed), _alignment(f.type)
        offset = -(-offset // here) * here
        parts.append((f.name, offset, h5t.array_create(part, f.shape) if f.shape else part))
        offset += parts[-1][2].get_size()
    made = h5t.create(h5t.COMPOUND, -(-offset // alignment) * alignment)
    for name, start, part in parts:
        made.insert(bytes_of(name), start, part)
    return made


def layout_of(type_id: TypeID, type_: model.Type) -> MemoryLayout:
    """Return the memory layout of an HDF5 type whose type in the model is `type_`."""
    h5t = hdf5().h5t
    if type_ == model.STRING:
        if type_id.is_variable_str():
            return Text()
        size, padding = type_id.get_size(), type_id.get_strpad()
        pad = b" " if padding == h5t.STR_SPACEPAD else b"\0"
        # A terminated text has one byte less than its type.
        return FixedText(np.dtype(f"S{size}"), size - (padding == h5t.STR_NULLTERM), pad)
    match type_:
        case model.CHAR | model.OpaqueType():
            return Plain(type_.dtype)
        case model.EnumType():
            return Plain(_number_dtype(type_id.get_super()))
        case model.VlenType(base=base):
            return Sequence(base=layout_of(type_id.get_super(), base))
        case model.CompoundType():
            return _record_layout(type_id, type_)
    return Plain(_number_dtype(type_id))


def _record_layout(type_id: TypeID, type_: model.CompoundType) -> MemoryLayout:
    members = [_array_base(type_id.get_member_type(i))[0] for i in range(len(type_.fields))]
    parts = [layout_of(base, f.type) for base, f in zip(members, type_.fields, strict=True)]
    dtype = np.dtype(
        {
            "names": [f.name for f in type_.fields],
            "formats": [(p.dtype, f.shape) for p, f in zip(parts, type_.fields, strict=True)],
            "offsets": [type_id.get_member_offset(i) for i in range(len(parts))],
            "itemsize": type_id.get_size(),
        }
    )
    return Plain(dtype) if all(isinstance(p, Plain) for p in parts) else Record(dtype, tuple(parts))


def _alignment(type_: model.Type) -> int:
    """Return the alignment that a C compiler gives, so that netCDF programs see the expected struct."""
    match type_:
        case model.CompoundType(fields=fields):
            return max(_alignment(f.type) for f in fields)
        case model.OpaqueType():
            return 1
    return 8 if type_.dtype == object else type_.dtype.itemsize

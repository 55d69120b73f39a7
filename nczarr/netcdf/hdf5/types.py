"""Convert types between HDF5 and the model."""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from nczarr import model
from nczarr.errors import LossError, NetCDFFileError, error_context
from nczarr.netcdf.bytes.file import bytes_of, text_of
from nczarr.netcdf.hdf5.library import hdf5, insert_member, member_value, read_text
from nczarr.netcdf.hdf5.memory import Converted, FixedText, MemoryLayout, Plain, Record, Sequence, Text

if TYPE_CHECKING:
    from h5py._objects import ObjectID
    from h5py.h5t import TypeID

#: The attribute of a committed type with the names of the types inside; see :func:`bases_to_record`.
BASES = b"_nczarr_bases"


def address_of(object_id: ObjectID) -> tuple[int, int]:
    """Return the identity of an object of a file."""
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
        The FQNs in use.
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
            if len(waiting) == len(found):
                if self._may_name and isinstance(failure, NoTypeError):
                    self.unknown = {fqn: failure.message for _, fqn, _ in waiting}
                    return made
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
            memory = memory_type(type_id)
            dtype = _number_dtype(memory)
            primitive = model.primitive_for_dtype(dtype)
            if primitive is None:
                raise NoTypeError(f"netCDF has no type for HDF5's {dtype}")
            return primitive, (Plain if memory is type_id else Converted)(dtype)
        if kind == h5t.STRING:
            text = model.STRING if type_id.is_variable_str() or type_id.get_size() > 1 else model.CHAR
            return text, layout_of(type_id, text)
        if kind in (h5t.ENUM, h5t.OPAQUE, h5t.COMPOUND, h5t.VLEN):
            named = self._named(type_id, group)
            if named is None and self._may_name:
                named = self._name_it(type_id, group)
            if named is None:
                raise NetCDFFileError(f"its type, {_KINDS[kind]}, is not one of the file's named types")
            return named, layout_of(type_id, named)
        raise NoTypeError(f"netCDF has no type for HDF5's class {_KINDS.get(kind, kind)}")

    def _named(self, type_id: TypeID, group: str) -> model.UserType | None:
        if type_id.committed() and (known := self.by_address.get(address_of(type_id))):
            return known
        for named in self.by_group.values():
            for other, made in named:
                if type_id.equal(other):
                    return made
        return None

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
            members = [
                (text_of(type_id.get_member_name(i)), member_value(type_id, i, dtype))
                for i in range(type_id.get_nmembers())
            ]
            return model.EnumType(fqn, base, tuple(members))
        if kind == h5t.OPAQUE:
            return model.OpaqueType(fqn, type_id.get_size())
        bases = ((type_id.committed() and read_text(type_id, BASES)) or "").split("\n")

        def inside(base_id: TypeID, index: int) -> model.Type:
            recorded = bases[index] if index < len(bases) else ""
            if recorded and recorded not in made:
                raise NetCDFFileError(f"its base {recorded!r} is not one of the file's named types")
            found, layout = self.find(base_id, group)
            if isinstance(layout, Converted):
                _number_dtype(base_id)  # raises: HDF5 converts numbers outside of other types only
            return made[recorded] if recorded and _alike(made[recorded], found) else found

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
    bases = [f.type for f in type_.fields] if isinstance(type_, model.CompoundType) else []
    if isinstance(type_, model.VlenType):
        bases = [type_.base]
    if not any(
        isinstance(base, model.UserType) and any(d.fqn != base.fqn and _alike(d, base) for d in declared)
        for base in bases
    ):
        return None
    return "\n".join([base.fqn if isinstance(base, model.UserType) else "" for base in bases])


def _alike(a: model.Type, b: model.Type) -> bool:
    """Return True if two types differ in their names only."""
    if isinstance(a, model.CompoundType) and isinstance(b, model.CompoundType):
        return len(a.fields) == len(b.fields) and all(
            f.name == g.name and f.shape == g.shape and _alike(f.type, g.type)
            for f, g in zip(a.fields, b.fields, strict=True)
        )
    if isinstance(a, model.VlenType) and isinstance(b, model.VlenType):
        return _alike(a.base, b.base)
    if isinstance(a, model.EnumType) and isinstance(b, model.EnumType):
        return a.base == b.base and dict(a.members) == dict(b.members)
    if isinstance(a, model.OpaqueType) and isinstance(b, model.OpaqueType):
        return a.size == b.size
    return a == b


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
        bits = type_id.get_precision() if kind == h5t.INTEGER else 32 if size <= 2 else 8 * size
        name = "f" if kind == h5t.FLOAT else "u" if type_id.get_sign() == h5t.SGN_NONE else "i"
        for more in (n for n in (8, 16, 32, 64) if n >= bits):
            found = model.primitive_for_dtype(np.dtype(f"{name}{more // 8}"))
            assert found is not None
            return _primitive(found, "big" if type_id.get_order() == h5t.ORDER_BE else "little")
    return type_id


def _number_dtype(type_id: TypeID) -> np.dtype:
    h5t = hdf5().h5t
    kind = type_id.get_class()
    order = "<" if type_id.get_order() in (h5t.ORDER_LE, h5t.ORDER_NONE) else ">"
    size = type_id.get_size()
    if kind == h5t.FLOAT:
        standards = (h5t.IEEE_F32LE, h5t.IEEE_F32BE, h5t.IEEE_F64LE, h5t.IEEE_F64BE)
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


class TypeWriter:
    """Converts the model's types to HDF5's. Named types are committed once and reused."""

    def __init__(self) -> None:
        self.committed: dict[str, TypeID] = {}

    def make(self, type_: model.Type, endian: str = "native") -> TypeID:
        """Return the HDF5 type of a type of the model: the committed one if it exists."""
        if isinstance(type_, model.UserType):
            return self.committed.get(type_.fqn) or self.build(type_)
        assert isinstance(type_, model.PrimitiveType)
        return _primitive(type_, endian)

    def build(self, type_: model.UserType) -> TypeID:
        """Return a new HDF5 type that is not committed yet.

        Raises
        ------
        LossError
            If two members of an enum have equal values, which HDF5 cannot represent.
        """
        h5t = hdf5().h5t
        if isinstance(type_, model.EnumType):
            made = h5t.enum_create(_primitive(type_.base, "native"))
            if len({value for _, value in type_.members}) != len(type_.members):
                raise LossError(
                    "netCDF-4 files cannot store an enum with two names for one value", fqn=type_.fqn
                )
            for name, value in type_.members:
                insert_member(made, bytes_of(name), value, type_.dtype)
            return made
        if isinstance(type_, model.OpaqueType):
            made = h5t.create(h5t.OPAQUE, type_.size)
            made.set_tag(b"")
            return made
        if isinstance(type_, model.VlenType):
            return h5t.vlen_create(self.make(type_.base))
        assert isinstance(type_, model.CompoundType)
        offset, alignment, parts = 0, 1, []
        for f in type_.fields:
            part = self.make(f.type)
            here = _alignment(f.type)
            alignment = max(alignment, here)
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
        return FixedText(np.dtype(f"S{size}"), size - (padding == h5t.STR_NULLTERM), pad)
    if type_ == model.CHAR or isinstance(type_, model.OpaqueType):
        return Plain(type_.dtype)
    if isinstance(type_, model.EnumType):
        return Plain(_number_dtype(type_id.get_super()))
    if isinstance(type_, model.VlenType):
        return Sequence(base=layout_of(type_id.get_super(), type_.base))
    if not isinstance(type_, model.CompoundType):
        return Plain(_number_dtype(type_id))
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


def _primitive(type_: model.PrimitiveType, endian: str) -> TypeID:
    h5t = hdf5().h5t
    if type_ in (model.CHAR, model.STRING):
        made = h5t.C_S1.copy()
        made.set_size(1 if type_ == model.CHAR else h5t.VARIABLE)
        made.set_strpad(h5t.STR_NULLTERM)
        if type_ == model.STRING:
            made.set_cset(h5t.CSET_UTF8)
        return made
    order = "BE" if endian == "big" or (endian == "native" and sys.byteorder == "big") else "LE"
    bits = 8 * type_.dtype.itemsize
    if type_.is_float:
        return getattr(h5t, f"IEEE_F{bits}{order}")
    return getattr(h5t, f"STD_{type_.dtype.kind.upper()}{bits}{order}")


def _alignment(type_: model.Type) -> int:
    """Return the alignment that a C compiler gives, so that netCDF programs see the expected struct."""
    if isinstance(type_, model.CompoundType):
        return max(_alignment(f.type) for f in type_.fields)
    if isinstance(type_, model.OpaqueType):
        return 1
    return 8 if type_.dtype == object else type_.dtype.itemsize

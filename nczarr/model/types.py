"""Define the types of the netCDF enhanced data model, and their representation in memory.

Implements the section *Types* of the netCDF Zarr data model, with the extensions of netCDF-4. The attribute
:attr:`~Type.dtype` of a type is the numpy dtype of its values in memory, always in native byte order:

=================  ==================================================================================
type               values in memory
=================  ==================================================================================
integers, floats   the numpy type of the same name
char               ``S1``: one byte
string             object: ``str`` (bytes that are not UTF-8 become surrogate escapes)
enum               its base integer type
opaque(n)          ``V<n>``
compound           a packed structured dtype; array fields are sub-arrays; string and vlen fields are objects
vlen               object: one-dimensional arrays of the base type
=================  ==================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from nczarr.dataclass import dataclass
from nczarr.lazy import cached_property
from nczarr.model.names import is_unicode, split_fqn
from nczarr.rooms import Door

if TYPE_CHECKING:
    from nczarr import display
    from nczarr.model import describe
else:
    describe, display = Door("nczarr.model.describe"), Door("nczarr.display")


class Type:
    """A type of the model.

    Examples
    --------
    >>> INT.name, INT.is_fixed_size, VlenType("/row", INT).is_fixed_size
    ('int', True, False)
    """

    name: str
    #: numpy dtype of the values in memory.
    dtype: np.dtype
    #: ``"atomic"``, or the class of a user-defined type: ``"enum"``, ``"opaque"``, ``"compound"``, ``"vlen"``.
    kind: ClassVar[str] = ""
    #: True for the twelve atomic types. A constant, because each read and write asks.
    is_atomic: ClassVar[bool] = False

    @property
    def is_fixed_size(self) -> bool:
        """True if all values have the same number of bytes: the type contains no string and no vlen."""
        return not self.dtype.hasobject

    @property
    def is_classic(self) -> bool:
        """True for the six types of the classic formats."""
        return isinstance(self, PrimitiveType) and self.number <= DOUBLE.number

    @property
    def is_user_defined(self) -> bool:
        """True for enum, opaque, compound and vlen."""
        return False

    @property
    def is_integer(self) -> bool:
        """True for the eight integer types."""
        return False

    @property
    def is_float(self) -> bool:
        """True for float and double."""
        return False

    @property
    def is_number(self) -> bool:
        """True for the integer types, float and double; an enum has numbers in memory, but its values are names."""
        return self.is_integer or self.is_float

    @property
    def is_nested(self) -> bool:
        """True if a value contains values of other types: for compound and vlen."""
        return False

    @property
    def value_type(self) -> Type:
        """The type of the values in memory: the base of an enum, and otherwise the type itself."""
        return self

    @property
    def inner_types(self) -> list[Type]:
        """The types that the type uses directly: the base of an enum or a vlen, and the types of fields."""
        return []

    def _repr_html_(self) -> str:
        return display.show_type(describe.describe_type(self))


@dataclass(frozen=True, eq=False)
class PrimitiveType(Type):
    """One of netCDF's twelve atomic types. The constants (``INT``, ``STRING``, …) are the only instances.

    Parameters
    ----------
    name : str
        CDL's name: ``char byte ubyte short ushort int uint int64 uint64 float double string``.
    zarr_name : str
        The name in NCZarr metadata on Zarr v3: ``char``, ``string``, ``int8`` … ``float64``.
    code : str
        numpy's type code.
    number : int
        The number of the type in classic files and in netCDF's C interface.
    fill : scalar
        netCDF's default fill value.

    Examples
    --------
    >>> SHORT.name, SHORT.zarr_name, SHORT.dtype, SHORT.number, SHORT.fill
    ('short', 'int16', dtype('int16'), 3, -32767)
    """

    name: str
    zarr_name: str
    code: str
    number: int
    fill: Any
    kind: ClassVar[str] = "atomic"
    is_atomic: ClassVar[bool] = True

    def __reduce__(self) -> str:
        return repr(self)  # copying and unpickling return the constant

    @cached_property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        return np.dtype(self.code)

    @property
    def is_integer(self) -> bool:
        return self.dtype.kind in "iu"

    @property
    def is_float(self) -> bool:
        return self.dtype.kind == "f"

    def __repr__(self) -> str:
        return self.name.upper()


class NullText(str):
    """The empty text of a null pointer in a netCDF-4 file, which ncdump prints as ``NIL``.

    Examples
    --------
    >>> NullText() == ""
    True
    """

    __slots__ = ()


CHAR = PrimitiveType("char", "char", "S1", 2, b"\0")
BYTE = PrimitiveType("byte", "int8", "i1", 1, -127)
UBYTE = PrimitiveType("ubyte", "uint8", "u1", 7, 255)
SHORT = PrimitiveType("short", "int16", "i2", 3, -32767)
USHORT = PrimitiveType("ushort", "uint16", "u2", 8, 65535)
INT = PrimitiveType("int", "int32", "i4", 4, -2147483647)
UINT = PrimitiveType("uint", "uint32", "u4", 9, 4294967295)
INT64 = PrimitiveType("int64", "int64", "i8", 10, -9223372036854775806)
UINT64 = PrimitiveType("uint64", "uint64", "u8", 11, 18446744073709551614)
FLOAT = PrimitiveType("float", "float32", "f4", 5, 9.969209968386869e36)
DOUBLE = PrimitiveType("double", "float64", "f8", 6, 9.969209968386869e36)
STRING = PrimitiveType("string", "string", "O", 12, "")

#: The atomic types by CDL name, in netCDF's order.
PRIMITIVES: dict[str, PrimitiveType] = {
    t.name: t for t in (CHAR, BYTE, UBYTE, SHORT, USHORT, INT, UINT, INT64, UINT64, FLOAT, DOUBLE, STRING)
}
_BY_CODE = {t.dtype.str.lstrip("<>|=")[:2]: t for t in PRIMITIVES.values() if t is not STRING}


def primitive_for_dtype(dtype: np.dtype | str | type) -> PrimitiveType | None:
    """Return the atomic type of a numpy dtype of any byte order; None if there is none.

    Examples
    --------
    >>> primitive_for_dtype(">f4")
    FLOAT
    >>> primitive_for_dtype("complex64")
    """
    dtype = np.dtype(dtype)
    # The byte order belongs to the storage, not to the type.
    return _BY_CODE.get(f"{dtype.kind}{dtype.itemsize}")


@dataclass(frozen=True)
class UserType(Type):
    """Base class of the user-defined types; `fqn` is the fully qualified name.

    Examples
    --------
    >>> OpaqueType("/g/blob", 5).name, OpaqueType("/g/blob", 5).is_user_defined
    ('blob', True)
    """

    fqn: str

    @property
    def name(self) -> str:  # type: ignore[override]
        """The simple name."""
        return split_fqn(self.fqn)[1]

    @property
    def is_user_defined(self) -> bool:
        return True


_U = TypeVar("_U", bound=UserType)


@dataclass(frozen=True)
class EnumType(UserType):
    """An enumeration: names for values of an integer type.

    Parameters
    ----------
    fqn : str
        Fully qualified name.
    base : PrimitiveType
        One of the eight integer types.
    members : tuple of (str, int)
        Names and values in declared order; several names may have the same value.

    Examples
    --------
    >>> EnumType("/cloud", BYTE, (("clear", 0), ("stratus", 1))).dtype
    dtype('int8')
    """

    base: PrimitiveType
    members: tuple[tuple[str, int], ...]
    kind: ClassVar[str] = "enum"

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        return self.base.dtype

    @property
    def value_type(self) -> PrimitiveType:
        return self.base

    @property
    def inner_types(self) -> list[Type]:
        return [self.base]

    def are_members(self, values: np.ndarray | np.generic) -> np.ndarray:
        """Return where values are those of members: ncdump ends at any other, in the middle of a line."""
        return np.isin(values, [value for _, value in self.members])


@dataclass(frozen=True)
class OpaqueType(UserType):
    """An opaque type: values are `size` bytes (at least 1).

    Examples
    --------
    >>> OpaqueType("/blob", 5).dtype
    dtype('V5')
    """

    size: int
    kind: ClassVar[str] = "opaque"

    @cached_property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        return np.dtype((np.void, self.size))


@dataclass(frozen=True)
class VlenType(UserType):
    """A variable-length type: values are sequences of any length with elements of the type `base`.

    Examples
    --------
    >>> VlenType("/row", INT).base.name
    'int'
    """

    base: Type
    kind: ClassVar[str] = "vlen"

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        return np.dtype("O")

    @property
    def is_nested(self) -> bool:
        return True

    @property
    def inner_types(self) -> list[Type]:
        return [self.base]

    def holds_vectors(self, values: np.ndarray) -> bool:
        """Return True if all values are one-dimensional arrays of the base's dtype, as :attr:`dtype` has them.

        Examples
        --------
        >>> rows = np.empty(2, object)
        >>> rows[:] = [np.arange(2, dtype="i4"), np.arange(3, dtype="i4")]
        >>> VlenType("row", INT).holds_vectors(rows), VlenType("row", DOUBLE).holds_vectors(rows)
        (True, False)
        """
        # Asked of each sequence in turn, it takes as long as the copy of a short one.
        return (
            set(map(type, values.flat)) == {np.ndarray}
            and set(map(attrgetter("dtype"), values.flat)) == {self.base.dtype}
            and set(map(attrgetter("ndim"), values.flat)) == {1}
        )


@dataclass(frozen=True)
class Field:
    """A field of a compound type: a name, a type and a fixed shape (empty for a single value).

    Examples
    --------
    >>> Field("corners", FLOAT, (2, 3)).shape
    (2, 3)
    """

    name: str
    type: Type
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class CompoundType(UserType):
    """A record of one or more named fields, like a C struct.

    Examples
    --------
    >>> CompoundType("/point", (Field("x", FLOAT), Field("corners", INT, (2,)))).dtype
    dtype([('x', '<f4'), ('corners', '<i4', (2,))])
    """

    fields: tuple[Field, ...]
    kind: ClassVar[str] = "compound"

    @cached_property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        return np.dtype([(f.name, f.type.dtype, f.shape) for f in self.fields])

    @property
    def is_nested(self) -> bool:
        return True

    @property
    def inner_types(self) -> list[Type]:
        return [field.type for field in self.fields]


@dataclass(frozen=True)
class TypeReference(Type):
    """An unresolved reference to a type: a simple name or an FQN, as written in the source.

    `place` is the location of the reference, for messages. :func:`nczarr.model.resolve` replaces references by types.

    Examples
    --------
    >>> TypeReference("cloud").name
    'cloud'
    """

    text: str
    place: str = ""

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.text


AnyType = TypeVar("AnyType", bound="Type")


def requalified(type_: AnyType, fqn_of: Callable[[str], str]) -> AnyType:
    """Return a type with new fully qualified names of it and its parts.

    Examples
    --------
    >>> requalified(VlenType("/row", OpaqueType("/blob", 4)), lambda fqn: f"/g{fqn}").base.fqn
    '/g/blob'
    """
    if not isinstance(type_, UserType):
        return type_
    return replace(map_parts(type_, lambda part: requalified(part, fqn_of)), fqn=fqn_of(type_.fqn))


def walk_types(type_: Type) -> Iterator[Type]:
    """Yield `type_` and all types that it contains, innermost first.

    Examples
    --------
    >>> [t.name for t in walk_types(VlenType("/v", INT))]
    ['int', 'v']
    """
    for part in type_.inner_types:
        yield from walk_types(part)
    yield type_


def misfit(values: np.ndarray, type_: Type) -> str | None:
    """Return the reason why an array does not hold values of a type in its form in memory; None if it does.

    Examples
    --------
    >>> misfit(np.array([1.5]), INT)
    'have the dtype float64; the type int needs int32'
    >>> misfit(np.array([1], object), STRING)
    'contain 1, which is not text'
    """
    dtype = type_.dtype
    if values.dtype != dtype:
        return f"have the dtype {values.dtype}; the type {type_.name} needs {dtype}"
    if not dtype.hasobject:
        return None
    if isinstance(type_, CompoundType):
        inside = (misfit(values[f.name], f.type) for f in type_.fields if f.type.dtype.hasobject)
        return next((wrong for wrong in inside if wrong is not None), None)
    for value in values.flat:
        if isinstance(type_, VlenType):
            if not isinstance(value, np.ndarray) or value.ndim != 1:
                return f"contain {type(value).__name__}, and not only arrays of one dimension"
            wrong = misfit(value, type_.base)
            if wrong is not None:
                return f"contain sequences that {wrong}"
        # None as text was lost on every way.
        elif not (isinstance(value, str) and is_unicode(value)):
            return f"contain {value!r}, which is not text"
    return None


def parts_of(type_: Type) -> list[UserType]:
    """Return the user-defined types that a type uses directly.

    Examples
    --------
    >>> inner = VlenType("/inner", INT)
    >>> [part.fqn for part in parts_of(VlenType("/outer", inner))], parts_of(inner)
    (['/inner'], [])
    """
    return [part for part in type_.inner_types if isinstance(part, UserType)]


def map_parts(type_: _U, change: Callable[[Type], Type]) -> _U:
    """Return a user-defined type with the types that it uses directly replaced; the base of an enum stays.

    Examples
    --------
    >>> map_parts(VlenType("/v", INT), lambda part: DOUBLE).base
    DOUBLE
    """
    if isinstance(type_, VlenType):
        return replace(type_, base=change(type_.base))
    if isinstance(type_, CompoundType):
        return replace(type_, fields=tuple([replace(f, type=change(f.type)) for f in type_.fields]))
    return type_


def names_inside(type_: Type) -> list[str]:
    """Return the names of the members of an enum, or of the fields of a compound.

    Examples
    --------
    >>> names_inside(EnumType("/sky", BYTE, (("clear", 0),))), names_inside(INT)
    (['clear'], [])
    """
    if isinstance(type_, EnumType):
        return [name for name, _ in type_.members]
    return [field.name for field in type_.fields] if isinstance(type_, CompoundType) else []


def ordered_types(types: Iterable[UserType]) -> list[UserType]:
    """Sort the types of a group so that each type follows the types that it uses, otherwise in declared order.

    Examples
    --------
    >>> inner = VlenType("/inner", INT)
    >>> [t.name for t in ordered_types([VlenType("/outer", inner), inner])]
    ['inner', 'outer']
    """
    own = {type_.fqn: type_ for type_ in types}
    ordered: list[UserType] = []
    seen: set[str] = set()

    def visit(type_: UserType) -> None:
        if type_.fqn not in seen:
            seen.add(type_.fqn)
            for inside in parts_of(type_):
                visit(inside)
            if type_.fqn in own:
                ordered.append(own[type_.fqn])

    for type_ in own.values():
        visit(type_)
    return ordered


#: netCDF's default fill values by CDL type name.
DEFAULT_FILL: dict[str, Any] = {name: t.fill for name, t in PRIMITIVES.items()}


def default_fill(type_: Type) -> Any:
    """Return the fill value of a type, for variables without ``_FillValue``.

    Returns
    -------
    numpy scalar, str or ndarray
        Of the type's dtype. An enum has the default of its base type. Opaque and compound values are zeros, with
        empty strings and sequences; the defaults of a compound type's fields are not used. A vlen is empty.

    Examples
    --------
    >>> int(default_fill(SHORT)), int(default_fill(EnumType("/e", UBYTE, (("good", 0),))))
    (-32767, 255)
    """
    match type_:
        case VlenType(base=base):
            return np.empty(0, base.dtype)
        case CompoundType(fields=fields):
            record = np.zeros((), type_.dtype)
            # numpy fills such a field with the number 0, which is neither text nor a sequence.
            for f in fields:
                if f.type.dtype.hasobject:
                    value = default_fill(f.type)
                    for index in np.ndindex(f.shape):
                        record[f.name][index] = value
            return record[()]
        case OpaqueType():
            return np.zeros((), type_.dtype)[()]
        case EnumType(base=base):
            return default_fill(base)
    value = DEFAULT_FILL[type_.name]
    return value if type_.dtype == object else type_.dtype.type(value)

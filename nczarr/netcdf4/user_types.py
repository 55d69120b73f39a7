"""User-defined types of a dataset that is open, and how their values look in memory.

In the model a compound is packed; here it is aligned as a C compiler would lay it out, as netCDF4-python
shows it. Text of fixed length inside a compound is an array of characters in :attr:`CompoundType.dtype` and
bytes (``SN``) in :attr:`CompoundType.dtype_view`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from nczarr import model
from nczarr.model import CHAR, Field, Type, UserType, join_fqn
from nczarr.model.types import primitive_for_dtype
from nczarr.netcdf4.constants import CLASSIC_FORMATS
from nczarr.netcdf4.dimension import checked_name
from nczarr.netcdf4.errors import (
    NetCDFKeyError,
    NetCDFRuntimeError,
    NetCDFTypeError,
    NetCDFValueError,
    NotPicklableError,
)

if TYPE_CHECKING:
    from nczarr.netcdf4.dataset import Dataset


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


def find_compound(group: Any, dtype: np.dtype) -> model.CompoundType:
    """Find the compound type with these fields in a group, then upwards.

    Raises
    ------
    NetCDFValueError
        If there is none.
    """
    scope = group
    while scope is not None:
        for candidate in scope.cmptypes.values():
            if _same_fields(dtype, candidate.dtype) or _same_fields(dtype, candidate.dtype_view):
                found: model.CompoundType = candidate._nc_model
                return found
        scope = scope.parent
    raise NetCDFValueError("cannot find compound type in this group or parent groups", hint=str(dtype))


class _UserType:
    """What the user types have in common: a name, a dtype, and the type of the model."""

    __slots__ = ("__weakref__", "_nc_model", "dtype", "name")

    name: str | None
    dtype: Any
    _nc_model: Type

    def __reduce__(self) -> Any:
        raise NotPicklableError(f"{type(self).__name__} is not picklable")

    def _nc_declare(self, group: Dataset, type_: UserType) -> None:
        session = group._nc_session
        session.check_writable()
        if session.data_model in CLASSIC_FORMATS:
            raise NetCDFRuntimeError(
                f"NetCDF: Attempting netcdf-4 operation on strict nc3 netcdf-4 file: the type {type_.name!r}"
            )
        if any(t._nc_model.name == type_.name for t in group._nc_types):
            raise NetCDFRuntimeError(f"NetCDF: String match to name in use: {type_.fqn!r}")
        self._nc_bind(type_)
        group._nc_add_type(self)
        group._nc_touch()

    def _nc_bind(self, type_: Type) -> None:
        self._nc_model = type_
        self.name = type_.name
        self.dtype = aligned_dtype(type_)


class CompoundType(_UserType):
    """A record of named fields; made by :meth:`Dataset.createCompoundType`.

    Parameters
    ----------
    grp : Dataset or Group
    dt : dtype-like
        A structured dtype; ``SN`` fields become arrays of characters. A nested record must have a type already.
    dtype_name : str

    Attributes
    ----------
    dtype : numpy.dtype
        Aligned.
    dtype_view : numpy.dtype
        The same with text fields as ``SN``.
    name : str

    Raises
    ------
    NetCDFTypeError
        For an array of nested records.
    NetCDFValueError
        For a field that netCDF has no type for, or a nested record without a type.
    """

    __slots__ = ("dtype_view",)

    dtype_view: np.dtype

    def __init__(self, grp: Dataset, dt: Any, dtype_name: str) -> None:
        dtype = np.dtype(dt)
        if dtype.names is None:
            raise NetCDFTypeError(f"a compound type needs a structured dtype, not {dtype}")
        name = checked_name(dtype_name, "type")
        fields = tuple(_field(grp, n, dtype[n]) for n in dtype.names)
        self._nc_declare(grp, model.CompoundType(join_fqn(grp._nc_fqn, name), fields))

    def _nc_bind(self, type_: Type) -> None:
        super()._nc_bind(type_)
        self.dtype_view = view_dtype(type_)

    def __repr__(self) -> str:
        return f"<class 'nczarr.CompoundType'>: name = '{self.name}', numpy dtype = {self.dtype}"


def _field(group: Dataset, name: str, dtype: np.dtype) -> Field:
    base, shape = dtype.base, dtype.shape
    if base.names is not None:
        if shape:
            raise NetCDFTypeError("nested structured dtype arrays not supported", hint=f"field {name!r}")
        return Field(name, find_compound(group, base))
    if base.kind == "S" and base.itemsize > 1 and not shape:
        return Field(name, CHAR, (base.itemsize,))
    type_ = primitive_for_dtype(base)
    if type_ is None:
        raise NetCDFValueError(f"Unsupported compound type element: field {name!r} of {base}")
    return Field(name, type_, shape)


class VLType(_UserType):
    """A sequence of any length; made by :meth:`Dataset.createVLType`.

    Parameters
    ----------
    grp : Dataset or Group
    dt : dtype-like or str
        Type of the elements; ``str`` means text, which needs no name.
    dtype_name : str or None

    Attributes
    ----------
    dtype : numpy.dtype or str
    name : str or None

    Raises
    ------
    NetCDFKeyError
        If the elements cannot be of this type.
    """

    __slots__ = ()

    def __init__(self, grp: Dataset, dt: Any, dtype_name: str | None) -> None:
        if dt is str:
            self._nc_bind(model.STRING)
            return
        try:
            base = primitive_for_dtype(dt)
        except TypeError as error:
            raise NetCDFKeyError(f"unsupported datatype specified for VLEN: {error}") from error
        if base is None:
            raise NetCDFKeyError(f"unsupported datatype specified for VLEN: {np.dtype(dt)}")
        name = checked_name(dtype_name, "type")
        self._nc_declare(grp, model.VlenType(join_fqn(grp._nc_fqn, name), base))

    def _nc_bind(self, type_: Type) -> None:
        self._nc_model = type_
        if isinstance(type_, model.VlenType):
            self.name = type_.name
            self.dtype = str if type_.base == model.STRING else aligned_dtype(type_.base)
        else:
            self.name = None
            self.dtype = str

    def __repr__(self) -> str:
        if self.name is None:
            return "\"<class 'nczarr.VLType'>\": string type"
        return f"\"<class 'nczarr.VLType'>\": name = '{self.name}', numpy dtype = {self.dtype}"


class EnumType(_UserType):
    """Names for integers; made by :meth:`Dataset.createEnumType`.

    Parameters
    ----------
    grp : Dataset or Group
    dt : dtype-like
        One of the eight integer types.
    dtype_name : str
    enum_dict : mapping of str to int
        Members in order.

    Raises
    ------
    NetCDFKeyError
        If the type is not an integer type.
    """

    __slots__ = ("enum_dict",)

    enum_dict: dict[str, int]

    def __init__(self, grp: Dataset, dt: Any, dtype_name: str, enum_dict: Mapping[str, int]) -> None:
        base = primitive_for_dtype(dt)
        if base is None or not base.is_integer:
            raise NetCDFKeyError(f"unsupported datatype specified for ENUM (must be integer): {np.dtype(dt)}")
        members = tuple((str(key), int(np.array(value, base.dtype))) for key, value in enum_dict.items())
        name = checked_name(dtype_name, "type")
        self._nc_declare(grp, model.EnumType(join_fqn(grp._nc_fqn, name), base, members))

    def _nc_bind(self, type_: Type) -> None:
        super()._nc_bind(type_)
        assert isinstance(type_, model.EnumType)
        self.enum_dict = dict(type_.members)

    def __repr__(self) -> str:
        return (
            f"\"<class 'nczarr.EnumType'>\": name = '{self.name}', numpy dtype = {self.dtype}, "
            f"fields/values ={self.enum_dict}"
        )


class OpaqueType(_UserType):
    """A blob of fixed length, which netCDF4-python does not know; read from a dataset only.

    Attributes
    ----------
    dtype : numpy.dtype
        ``V<n>``.
    name : str
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"\"<class 'nczarr.OpaqueType'>\": name = '{self.name}', numpy dtype = {self.dtype}"


def bind_type(type_: Type) -> _UserType:
    """The interface's object for a type of the model (a user type, or string)."""
    kinds: tuple[tuple[type[Type], type[_UserType]], ...] = (
        (model.CompoundType, CompoundType),
        (model.EnumType, EnumType),
        (model.OpaqueType, OpaqueType),
    )
    cls = next((c for m, c in kinds if isinstance(type_, m)), VLType)
    bound = cls.__new__(cls)
    bound._nc_bind(type_)
    return bound

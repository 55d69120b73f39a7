"""Define the classes of dimensions and of user-defined types: compounds, sequences, enums, opaque blobs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import DTypeLike

from nczarr import model
from nczarr.errors import (
    ArgumentError,
    ArgumentTypeError,
    EditError,
    NodeAttributeError,
    UnknownNameError,
    UnsupportedError,
    also,
)
from nczarr.netcdf4.base import member, reference_to
from nczarr.netcdf4.errors import translating
from nczarr.netcdf4.paths import name_of
from nczarr.netcdf4.values.types import find_compound, shown_dtype, view_dtype
from nczarr.rooms import Door
from nczarr.session import DimensionNode, GroupNode, Session, TypeNode, checked_name, kept_name
from nczarr.text import visible

if TYPE_CHECKING:
    from nczarr import display
    from nczarr.model import describe
else:
    describe, display = Door("nczarr.model.describe"), Door("nczarr.display")


class UserDefinedType:
    """A user-defined type: its name, and its dtype in memory."""

    __slots__ = ("__weakref__", "_nc_node", "dtype", "name")

    #: The kind of the type in the text of a variable.
    _nc_kind: ClassVar[str]
    name: str | None
    dtype: Any
    #: None for strings.
    _nc_node: TypeNode | None

    # As in netCDF4-python, a type belongs to its dataset.
    def __reduce__(self) -> NoReturn:
        raise also(UnsupportedError, NotImplementedError)(f"{type(self).__name__} is not picklable")

    def __repr__(self) -> str:
        kind, name = type(self).__name__, visible(str(self.name))
        return f"\"<class 'nczarr.{kind}'>\": name = '{name}', numpy dtype = {self.dtype}"

    def _repr_html_(self) -> str | None:
        return (
            None if self._nc_node is None else display.show_type(describe.describe_type(self._nc_node.type))
        )

    def _nc_declare(self, group: GroupNode, name: object, make: Callable[[str], model.UserType]) -> None:
        node = group.add_type(make(model.join_fqn(group.fqn, checked_name(name_of(name, "type"), "type"))))
        self._nc_bind(node, node.type)
        node.view = self

    def _nc_bind(self, node: TypeNode | None, type_: model.Type) -> None:
        self._nc_node = node
        self.name = None if node is None else type_.name
        self.dtype = shown_dtype(type_, model.Storage())


class CompoundType(UserDefinedType):
    """A record of named fields, created by :meth:`Dataset.createCompoundType`.

    Parameters
    ----------
    grp : Dataset or Group
    dt : dtype-like
        A structured dtype; ``SN`` fields become arrays of characters. A nested record requires an existing type.
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
    ArgumentTypeError
        For an array of nested records.
    ArgumentError
        For a field without a netCDF type, or a nested record without a type.
    EditError
        If there are no fields, or a field has no elements or an invalid name.

    Examples
    --------
    >>> from nczarr import Dataset
    >>> with Dataset("d.zarr", "w", diskless=True) as ds:
    ...     point = ds.createCompoundType([("x", "f4"), ("n", "i2")], "point")
    ...     v = ds.createVariable("v", point, ())
    ...     v[...] = (1.5, 7)
    ...     point.name, v[...].tolist()
    ('point', (1.5, 7))
    """

    __slots__ = ("dtype_view",)
    _nc_kind = "compound"

    dtype_view: np.dtype

    def __init__(self, grp: Any, dt: DTypeLike, dtype_name: str) -> None:
        dtype: np.dtype = np.dtype(dt)
        group, names = grp._nc_node, dtype.names
        if names is None:
            raise ArgumentTypeError(f"a compound type needs a structured dtype, not {dtype}")

        def make(fqn: str) -> model.UserType:
            return model.CompoundType(fqn, tuple(_field(group, name, dtype[name]) for name in names))

        self._nc_declare(group, dtype_name, make)

    def _nc_bind(self, node: TypeNode | None, type_: model.Type) -> None:
        super()._nc_bind(node, type_)
        self.dtype_view = view_dtype(type_)

    def __repr__(self) -> str:
        return super().__repr__().replace('"', "", 2)


def _field(group: GroupNode, name: str, dtype: np.dtype) -> model.Field:
    base, shape = dtype.base, dtype.shape
    if base.names is not None:
        # netCDF4-python refuses it with these words.
        if shape:
            raise ArgumentTypeError("nested structured dtype arrays not supported", hint=f"field {name!r}")
        # HDF5 has no compound without fields, and refused it when the file was closed.
        if not base.names:
            raise EditError(f"NetCDF: Invalid argument: the field {name!r} has no fields")
        return model.Field(name, find_compound(group, base))
    # In netCDF, text in a compound is an array of chars.
    if base.kind == "S" and base.itemsize != 1 and not shape:
        return model.Field(name, model.CHAR, (base.itemsize,))
    type_ = model.primitive_for_dtype(base)
    if type_ is None:
        kind = ArgumentTypeError if base.kind == "V" else ArgumentError
        raise kind(f"Unsupported compound type element: field {name!r} of {base}")
    return model.Field(name, type_, shape)


class VLType(UserDefinedType):
    """A sequence of any length, created by :meth:`Dataset.createVLType`.

    Parameters
    ----------
    grp : Dataset or Group
    dt : dtype-like or str
        Type of the elements; ``str`` means strings, without a name.
    dtype_name : str or None

    Attributes
    ----------
    dtype : numpy.dtype or str
    name : str or None

    Raises
    ------
    UnknownNameError
        If the type cannot be that of elements.

    Examples
    --------
    >>> from nczarr import Dataset
    >>> with Dataset("d.zarr", "w", diskless=True) as ds:
    ...     row = ds.createVLType("i4", "row")
    ...     v = ds.createVariable("v", row, ())
    ...     v[...] = np.array([1, 2, 3], "i4")
    ...     v[...].tolist()
    [1, 2, 3]
    """

    __slots__ = ()
    _nc_kind = "vlen"

    def __init__(self, grp: Any, dt: Any, dtype_name: str | None) -> None:
        if dt is str:
            self._nc_bind(None, model.STRING)
            return
        with translating("unsupported datatype specified for VLEN"):
            base = model.primitive_for_dtype(dt)
        # netCDF4-python raises a KeyError.
        if base is None:
            raise UnknownNameError(f"unsupported datatype specified for VLEN: {np.dtype(dt)}")
        self._nc_declare(grp._nc_node, dtype_name, lambda fqn: model.VlenType(fqn, base))

    def __repr__(self) -> str:
        if self.name is None:
            return "\"<class 'nczarr.VLType'>\": string type"
        return super().__repr__()


class EnumType(UserDefinedType):
    """Names of integers, created by :meth:`Dataset.createEnumType`.

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
    UnknownNameError
        If the type is not an integer type.
    EditError
        If there are no members, a name is invalid, or two members have the same value.
    ArgumentTypeError, ArgumentError, RangeError
        If a name is not a string, or a value is not of the type.

    Examples
    --------
    >>> from nczarr import Dataset
    >>> with Dataset("d.zarr", "w", diskless=True) as ds:
    ...     cloud = ds.createEnumType("u1", "cloud", {"clear": 0, "stratus": 1})
    ...     cloud.enum_dict
    {'clear': 0, 'stratus': 1}
    """

    __slots__ = ("enum_dict",)
    _nc_kind = "enum"

    enum_dict: dict[str, int]

    def __init__(self, grp: Any, dt: Any, dtype_name: str, enum_dict: Mapping[str, int]) -> None:
        with translating("unsupported datatype specified for ENUM"):
            base = model.primitive_for_dtype(dt)
        # netCDF4-python raises a KeyError.
        if base is None or not base.is_integer:
            raise UnknownNameError(
                f"unsupported datatype specified for ENUM (must be integer): {np.dtype(dt)}"
            )
        if not isinstance(enum_dict, Mapping):
            raise ArgumentTypeError(f"the members are a mapping of names to values, not {enum_dict!r}")
        members = tuple([(_member_name(key), _member_value(key, v, base)) for key, v in enum_dict.items()])
        self._nc_declare(grp._nc_node, dtype_name, lambda fqn: model.EnumType(fqn, base, members))

    def _nc_bind(self, node: TypeNode | None, type_: model.Type) -> None:
        super()._nc_bind(node, type_)
        assert isinstance(type_, model.EnumType)
        self.enum_dict = dict(type_.members)

    def __repr__(self) -> str:
        return f"{super().__repr__()}, fields/values ={self.enum_dict}"


def _member_name(key: object) -> str:
    if not isinstance(key, str | bytes):
        raise ArgumentTypeError(f"the name of a member is text, not {key!r}")
    return key if isinstance(key, str) else kept_name(key)


def _member_value(key: object, value: object, base: model.PrimitiveType) -> int:
    with translating("the value {!r} of the member {!r} is no {}", value, key, base.name):
        member = int(np.array(value, base.dtype))
    # numpy cuts fractions in silence.
    if isinstance(value, float | np.floating) and value != member:
        raise ArgumentError(f"the value {value!r} of the member {key!r} is no whole number")
    return member


class OpaqueType(UserDefinedType):
    """A blob of fixed length. netCDF4-python lacks the class; datasets are its only source.

    Attributes
    ----------
    dtype : numpy.dtype
        ``V<n>``.
    name : str

    Examples
    --------
    >>> from nczarr import Dataset, cdl
    >>> with Dataset(cdl.loads("netcdf d {types: opaque(2) blob; variables: blob v; data: v = 0x0aff;}")) as ds:
    ...     ds["v"].datatype.dtype, ds["v"][...].tobytes()
    (dtype('V2'), b'\\n\\xff')
    """

    __slots__ = ()
    _nc_kind = "opaque"


def shown_type(node: TypeNode) -> UserDefinedType:
    """Return the object of a type, always the same."""
    # Two threads would make two objects of one type.
    with node.group.tree.lock:
        if node.view is None:
            of_model: dict[type[model.Type], type[UserDefinedType]] = {model.CompoundType: CompoundType}
            of_model |= {model.EnumType: EnumType, model.OpaqueType: OpaqueType}
            cls = of_model.get(type(node.type), VLType)
            shown = cls.__new__(cls)
            shown._nc_bind(node, node.type)
            node.view = shown
        assert isinstance(node.view, UserDefinedType)
        return node.view


def text_type() -> VLType:
    """Return the object of the type of strings."""
    shown = VLType.__new__(VLType)
    shown._nc_bind(None, model.STRING)
    return shown


class Dimension:
    """A named dimension, created by :meth:`Dataset.createDimension`.

    Parameters
    ----------
    grp : Dataset or Group
        The group of the dimension.
    name : str
    size : int, optional
        None or 0: unlimited.

    Raises
    ------
    EditError
        If the name is in use or invalid, the size exceeds the data model's limit, or the dataset is read-only.
    RangeError
        If the size is negative, or has more than 63 bits.
    ArgumentTypeError
        If the size is not a number.

    Examples
    --------
    >>> from nczarr import Dataset
    >>> with Dataset("d.zarr", "w", diskless=True) as ds:
    ...     time = ds.createDimension("time", None)
    ...     len(time), time.isunlimited()
    (0, True)
    """

    __slots__ = ("__weakref__", "_nc_group", "_nc_node", "_nc_session")

    _nc_group: Any
    _nc_node: DimensionNode
    _nc_session: Session

    def __init__(self, grp: Any, name: str, size: int | None = None) -> None:
        session = grp._nc_session
        if isinstance(size, str | bytes):
            raise ArgumentTypeError(f"the size of the dimension {name!r} is a number, not {size!r}")
        with translating("the size of the dimension {!r} is a number, not {!r}", name, size):
            length = 0 if size is None else operator.index(int(size))
        with session.tree.lock:
            shown = grp.dimensions
            node = grp._nc_node.add_dimension(name_of(name, "dimension"), length, unlimited=length == 0)
            self._nc_bind(grp, node)
            shown[node.name] = self

    @classmethod
    def _nc_of(cls, group: Any, node: DimensionNode) -> Dimension:
        dimension = cls.__new__(cls)
        dimension._nc_bind(group, node)
        return dimension

    def _nc_bind(self, group: Any, node: DimensionNode) -> None:
        self._nc_session = group._nc_session
        self._nc_group = reference_to(group)
        self._nc_node = node

    def __setattr__(self, name: str, value: object) -> None:
        # netCDF4-python raises these words.
        if not name.startswith("_nc_"):
            raise NodeAttributeError(f"{name} cannot be altered")
        object.__setattr__(self, name, value)

    @property
    def name(self) -> str:
        """The name."""
        self._nc_session.rules.check_open()
        return self._nc_node.name

    _name = name

    @property
    def size(self) -> int:
        """Current size."""
        return len(self)

    def __len__(self) -> int:
        self._nc_session.rules.check_open()
        return self._nc_node.size

    def group(self) -> Any:
        """Return the group of the dimension."""
        return self._nc_group

    def isunlimited(self) -> bool:
        """Return True if the dimension can grow."""
        self._nc_session.rules.check_open()
        return self._nc_node.unlimited

    def _repr_html_(self) -> str | None:
        return (
            display.show_dimension(describe.describe_dimension(self._nc_node))
            if self._nc_session.is_open
            else None
        )

    def __repr__(self) -> str:
        try:
            self._nc_session.rules.check_open()
        # A debugger or a notebook shows objects of closed datasets, too.
        except (EditError, ReferenceError):
            return "Dimension object no longer valid"
        kind = " (unlimited)" if self._nc_node.unlimited else ""
        name = visible(self._nc_node.name)
        return f"\"<class 'nczarr.Dimension'>\"{kind}: name = '{name}', size = {self._nc_node.size}"

    def __reduce__(self) -> tuple[object, ...]:
        return member, (self._nc_group, "dimensions", self._nc_node.name)


def shown_dimension(group: Any, node: DimensionNode) -> Dimension:
    """Return the object of a dimension, seen from a group of its dataset."""
    top = group
    while top is not None:
        if top._nc_node is node.group:
            return top.dimensions[node.name]
        group, top = top, top.parent
    for name in model.parse_fqn(node.group.fqn):  # in another branch: from the root down
        group = group.groups[name]
    return group.dimensions[node.name]

"""Define the base class of datasets, groups and variables: netCDF attributes, lookup by name, HTML."""

from __future__ import annotations

import weakref
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

from nczarr.errors import EditError, NodeAttributeError, ReadOnlyError, StoreError, UnknownNameError, also
from nczarr.model import Attribute
from nczarr.netcdf4.compatibility import CLASSIC_FORMATS, MODEL_OF_FORMAT
from nczarr.netcdf4.values.attributes import attribute_value, make_attribute
from nczarr.rooms import Door
from nczarr.session import GroupNode, Session, VariableNode, kept_name
from nczarr.session.errors import check_unicode
from nczarr.text import did_you_mean

if TYPE_CHECKING:
    from typing import Self

    from nczarr.netcdf4 import html
else:
    html = Door("nczarr.netcdf4.html")

_RESERVED = """
    _grpid _grp _varid groups dimensions variables dtype data_model disk_format _nunlimdim path parent ndim mask scale
    cmptypes vltypes enumtypes _isprimitive file_format _isvlen _isenum _iscompound _cmptype _vltype _enumtype name
    __orthogoral_indexing__ keepweakref _has_lsd always_mask _buffer chartostring _use_get_vars _ncstring_attrs__
    auto_complex opaquetypes
"""
#: Names of Python attributes, which cannot be set as netCDF attributes.
RESERVED = frozenset(_RESERVED.split())


class AttributeOwner:
    """The base class of datasets, groups and variables, which have netCDF attributes.

    The netCDF attributes are also Python attributes of the object. A name that the class defines, or that begins and
    ends with two underscores, can be set and deleted as a Python attribute, and is read by :meth:`getncattr`.
    """

    __slots__ = ("_nc_ncstring", "_nc_node", "_nc_session")

    def __new__(cls, *args: object, **kwargs: object) -> Self:  # subclasses may pass any arguments
        return super().__new__(cls)

    _nc_node: GroupNode | VariableNode
    _nc_session: Session
    _nc_ncstring: bool

    def ncattrs(self) -> list[str]:
        """Names of the netCDF attributes, in order."""
        return list(self._nc_open_attributes())

    def getncattr(self, name: str, encoding: str = "utf-8") -> Any:
        """Return the value of a netCDF attribute, also if the class defines its name.

        Parameters
        ----------
        name : str
        encoding : str
            Encoding of text.

        Raises
        ------
        NodeAttributeError
            If there is no such attribute.
        """
        self._nc_open_attributes()
        attribute = self._nc_node.attribute(_attribute_name(name))
        if attribute is None:
            check_unicode(name, "the name of an attribute", self._nc_node.fqn)
            raise NodeAttributeError(
                f"NetCDF: Attribute not found: {name!r}",
                fqn=self._nc_node.fqn,
                hint=did_you_mean(name, self._nc_node.attributes),
            )
        return attribute_value(attribute, encoding)

    def setncattr(self, name: str, value: object) -> None:
        """Set a netCDF attribute, also if the class defines its name.

        Parameters
        ----------
        name : str
        value : object
            Text, a number, a sequence of them, or an array with one dimension at most.

        Raises
        ------
        ArgumentTypeError, ArgumentError, NodeAttributeError, StoreError
            As :func:`make_attribute`; also if the dataset is read-only.
        """
        self._nc_set_attribute(name, value, as_string=self._nc_ncstring)

    def setncattr_string(self, name: str, value: object) -> None:
        """Set a netCDF attribute; text is stored as netCDF strings, even ASCII text.

        Parameters
        ----------
        name : str
        value : object

        Raises
        ------
        StoreError
            If the data model has no strings.
        """
        # netCDF4-python raises an OSError, for which its own tests look.
        if data_model_of(self._nc_session) in CLASSIC_FORMATS:
            raise StoreError("file format does not support NC_STRING attributes", fqn=self._nc_node.fqn)
        self._nc_set_attribute(name, value, as_string=True)

    def setncatts(self, attdict: Mapping[str, object]) -> None:
        """Set netCDF attributes; see :meth:`setncattr`.

        Parameters
        ----------
        attdict : mapping of str to object
            Values by name.
        """
        for name, value in attdict.items():
            self._nc_set_attribute(name, value)

    def delncattr(self, name: str) -> None:
        """Delete a netCDF attribute.

        Parameters
        ----------
        name : str

        Raises
        ------
        EditError
            If there is no such attribute, or the dataset is read-only.
        """
        self._nc_node.delete_attribute(name)

    def renameAttribute(self, oldname: str, newname: str) -> None:
        """Rename a netCDF attribute in its place.

        Parameters
        ----------
        oldname, newname : str

        Raises
        ------
        EditError
            If `oldname` does not exist, `newname` exists, or the dataset is read-only.
        """
        self._nc_node.rename_attribute(oldname, newname)

    def _nc_open_attributes(self) -> dict[str, Attribute]:
        # netCDF4-python raises an AttributeError for attributes of a closed dataset, and a RuntimeError
        # otherwise.
        if not self._nc_session.is_open:
            raise NodeAttributeError("NetCDF: Not a valid ID: the dataset is closed")
        return self._nc_node.attributes

    def _nc_check_settable(self) -> None:
        rules = self._nc_session.rules
        rules.check_open()
        if not rules.writable:
            raise also(ReadOnlyError, AttributeError)("NetCDF: Write to read only", fqn=self._nc_node.fqn)

    def _nc_set_attribute(self, name: str, value: object, *, as_string: bool = False) -> None:
        session, node = self._nc_session, self._nc_node
        self._nc_check_settable()
        name = _attribute_name(name)
        group = node if isinstance(node, GroupNode) else node.group
        node.set_attribute(
            make_attribute(name, value, group=group, data_model=data_model_of(session), as_string=as_string)
        )

    @property
    def _ncstring_attrs__(self) -> bool:
        return self._nc_ncstring

    def __dir__(self) -> list[str]:
        node = getattr(self, "_nc_node", None)  # None before opening
        attributes = node.attributes if node else ()
        return sorted({*super().__dir__(), *filter(str.isidentifier, attributes)})

    def __getattr__(self, name: str) -> Any:
        if name == "_nc_session":  # also in finalizers of subclasses
            raise also(NodeAttributeError, RuntimeError)("NetCDF: Not a valid ID: the dataset was not opened")
        # copy, pickle and numpy ask each object for such names.
        if (name.startswith("__") and name.endswith("__")) or (
            name.startswith("_nc_") and hasattr(type(self), name)
        ):
            raise NodeAttributeError(f"{type(self).__name__} has no attribute {name!r}")
        attribute = self._nc_open_attributes().get(name) or self._nc_node.attribute(name)
        if attribute is None:
            # No hint: programs often try missing names. Python itself adds a hint where it displays the error.
            error = NodeAttributeError(f"NetCDF: Attribute not found: {name!r}", fqn=self._nc_node.fqn)
            error.name, error.obj = name, self
            raise error
        return attribute_value(attribute)

    def __setattr__(self, name: str, value: object) -> None:
        if name.startswith("_nc_") and hasattr(type(self), name):
            object.__setattr__(self, name, value)
            return
        if name in RESERVED:
            self._nc_session.rules.check_open()
            raise _reserved(name, "rebind. Use setncattr")
        self.setncattr(name, value)

    def __delattr__(self, name: str) -> None:
        if name in RESERVED:
            raise _reserved(name, "delete. Use delncattr")
        self.delncattr(name)

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[object, ...]:
        return self.__reduce__()

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        return {name: attribute_value(a) for name, a in list(self._nc_open_attributes().items())}


def _reserved(name: str, doing: str) -> NodeAttributeError:
    return NodeAttributeError(f"'{name}' is one of the reserved attributes, cannot {doing} instead.")


def _attribute_name(name: str) -> str:
    """Return the name of an attribute in netCDF's Unicode form; an invalid one is an :class:`AttributeError`."""
    try:
        return kept_name(name)
    # netCDF4-python raises an AttributeError for a name such as a/b.
    except EditError as error:
        raise NodeAttributeError(error.message, hint=error.hint) from error


def member(group: Any, kind: str, name: str) -> Any:
    """Return an unpickled object of a group."""
    return getattr(group, kind)[name]


def data_model_of(session: Session) -> str:
    """``NETCDF4``, ``NETCDF4_CLASSIC``, ``NETCDF3_CLASSIC``, …"""
    return MODEL_OF_FORMAT.get(session.rules.format, "NETCDF4")


def reference_to(group: Any) -> Any:
    """Return the reference of an object to its group: weak if the dataset was opened with `keepweakref`."""
    weak = group.keepweakref and not isinstance(group, weakref.ProxyType)
    return weakref.proxy(group) if weak else group


T = TypeVar("T")


class Named(dict[str, T]):
    """Objects by name. A missing name is an error with a hint (a :class:`KeyError`).

    An iteration yields the objects of its beginning: another thread may add more meanwhile.

    Examples
    --------
    >>> Named("variable", {"temp": 1})["tmp"]
    Traceback (most recent call last):
    nczarr.errors.UnknownNameError: there is no variable 'tmp' (did you mean 'temp'?)
    """

    __slots__ = ("kind",)

    def __init__(self, kind: str, content: dict[str, T]) -> None:
        super().__init__(content)
        self.kind = kind

    def _repr_html_(self) -> str | None:
        found: list[Any] = list(self.values())
        if self.kind not in ("variable", "group") or not found or not found[0]._nc_session.is_open:
            return None  # a notebook shows the text
        return html.html_of_members(found[0]._nc_session, [each._nc_node for each in found])

    def __missing__(self, name: object) -> T:
        raise UnknownNameError(f"there is no {self.kind} {name!r}", hint=did_you_mean(name, self))

    def __iter__(self) -> Iterator[str]:
        # Making a list of a dictionary's own view is atomic, also in builds without the interpreter lock.
        return iter(list(super().keys()))

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        """Return a view of the names."""
        return _Keys(self)

    def values(self) -> ValuesView[T]:  # type: ignore[override]
        """Return a view of the objects."""
        return _Values(self)

    def items(self) -> ItemsView[str, T]:  # type: ignore[override]
        """Return a view of names and objects."""
        return _Items(self)

    def __reduce__(self) -> tuple[object, ...]:
        return Named, (self.kind, dict(self))


class _View:
    """A view as of a dictionary. An iteration yields the content of its beginning."""

    __slots__ = ()

    def __reversed__(self: Iterable[T]) -> Iterator[T]:
        return reversed(list(self))

    def __repr__(self: Iterable[object]) -> str:
        return f"dict{type(self).__name__.lower()}({list(self)})"


class _Keys(_View, KeysView[str]):
    """The names of a :class:`Named`."""

    __slots__ = ()


class _Values(_View, ValuesView[T]):
    """The objects of a :class:`Named`."""

    __slots__ = ()
    _mapping: Named[T]

    def __iter__(self) -> Iterator[T]:
        return iter(list(dict.values(self._mapping)))

    def __contains__(self, value: object) -> bool:
        return value in list(self)


class _Items(_View, ItemsView[str, T]):
    """The names and objects of a :class:`Named`."""

    __slots__ = ()
    _mapping: Named[T]

    def __iter__(self) -> Iterator[tuple[str, T]]:
        return iter(list(dict.items(self._mapping)))

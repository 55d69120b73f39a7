"""Give objects netCDF attributes: the base class of datasets, groups and variables."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nczarr.model import Attribute
from nczarr.netcdf4.classes.named import meant
from nczarr.netcdf4.compatibility import CLASSIC_FORMATS, MODEL_OF_FORMAT
from nczarr.netcdf4.errors import (
    NetCDFAttributeError,
    NetCDFOSError,
    NetCDFReadOnlyAttributeError,
)
from nczarr.netcdf4.values.attributes import attribute_value, make_attribute
from nczarr.session import GroupNode, Session, VariableNode

if TYPE_CHECKING:
    from typing import Self

#: Names that are Python's: setting them as an attribute is refused.
RESERVED = frozenset(
    (
        "_grpid",
        "_grp",
        "_varid",
        "groups",
        "dimensions",
        "variables",
        "dtype",
        "data_model",
        "disk_format",
        "_nunlimdim",
        "path",
        "parent",
        "ndim",
        "mask",
        "scale",
        "cmptypes",
        "vltypes",
        "enumtypes",
        "_isprimitive",
        "file_format",
        "_isvlen",
        "_isenum",
        "_iscompound",
        "_cmptype",
        "_vltype",
        "_enumtype",
        "name",
        "__orthogoral_indexing__",
        "keepweakref",
        "_has_lsd",
        "always_mask",
        "_buffer",
        "chartostring",
        "_use_get_vars",
        "_ncstring_attrs__",
        "auto_complex",
        "opaquetypes",
    )
)


class AttributeOwner:
    """What has netCDF attributes: datasets, groups and variables.

    A name that is not one of Python's own is a netCDF attribute: it can be read, set and deleted as an
    attribute of the object. One that Python has already, or that begins and ends with two underscores, can be
    set and deleted so, and is read by :meth:`getncattr`.
    """

    __slots__ = ("_nc_ncstring", "_nc_node", "_nc_session")

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:  # subclasses may hand everything on
        return super().__new__(cls)

    _nc_node: GroupNode | VariableNode
    _nc_session: Session
    _nc_ncstring: bool

    def ncattrs(self) -> list[str]:
        """Names of the netCDF attributes, in order."""
        return list(self._nc_open_attributes())

    def getncattr(self, name: str, encoding: str = "utf-8") -> Any:
        """Value of a netCDF attribute; also for names that Python objects have themselves.

        Parameters
        ----------
        name : str
        encoding : str
            How text is decoded.

        Raises
        ------
        NetCDFAttributeError
            If there is none of this name.
        """
        self._nc_open_attributes()
        attribute = self._nc_node.attribute(name)
        if attribute is None:
            raise NetCDFAttributeError(
                f"NetCDF: Attribute not found: {name!r}",
                fqn=self._nc_node.fqn,
                hint=meant(name, self._nc_node.attributes),
            )
        return attribute_value(attribute, encoding)

    def setncattr(self, name: str, value: Any) -> None:
        """Set a netCDF attribute; also with names that Python objects have themselves.

        Raises
        ------
        NetCDFTypeError, NetCDFValueError, NetCDFAttributeError, NetCDFOSError
            As :func:`make_attribute`; also if the dataset is read-only.
        """
        self._nc_set_attribute(name, value, as_string=self._nc_ncstring)

    def setncattr_string(self, name: str, value: Any) -> None:
        """Set a netCDF attribute; text is stored as netCDF strings, even ASCII text."""
        if data_model_of(self._nc_session) in CLASSIC_FORMATS:
            raise NetCDFOSError("file format does not support NC_STRING attributes", fqn=self._nc_node.fqn)
        self._nc_set_attribute(name, value, as_string=True)

    def setncatts(self, attdict: Mapping[str, Any]) -> None:
        """Set netCDF attributes from a mapping of names to values."""
        for name, value in attdict.items():
            self._nc_set_attribute(name, value)

    def delncattr(self, name: str) -> None:
        """Delete a netCDF attribute.

        Raises
        ------
        NetCDFRuntimeError
            If there is none of this name, or the dataset is read-only.
        """
        self._nc_open_attributes()
        self._nc_node.delete_attribute(name)

    def renameAttribute(self, oldname: str, newname: str) -> None:
        """Rename a netCDF attribute; it keeps its place.

        Raises
        ------
        NetCDFRuntimeError
            If there is no `oldname`, if there is a `newname`, or if the dataset is read-only.
        """
        self._nc_open_attributes()
        self._nc_node.rename_attribute(oldname, newname)

    def _nc_open_attributes(self) -> dict[str, Attribute]:
        if not self._nc_session.is_open:
            raise NetCDFAttributeError("NetCDF: Not a valid ID: the dataset is closed")
        return self._nc_node.attributes

    def _nc_set_attribute(self, name: str, value: Any, *, as_string: bool = False) -> None:
        session, node = self._nc_session, self._nc_node
        session.check_open()
        if not session.writable:
            raise NetCDFReadOnlyAttributeError("NetCDF: Write to read only", fqn=node.fqn)
        group = node if isinstance(node, GroupNode) else node.group
        node.set_attribute(
            make_attribute(name, value, group=group, data_model=data_model_of(session), as_string=as_string)
        )

    @property
    def _ncstring_attrs__(self) -> bool:
        return self._nc_ncstring

    def __getattr__(self, name: str) -> Any:
        if (name.startswith("__") and name.endswith("__")) or (
            name.startswith("_nc_") and hasattr(type(self), name)
        ):
            raise NetCDFAttributeError(f"{type(self).__name__} has no attribute {name!r}")
        attribute = self._nc_open_attributes().get(name)
        if attribute is None:
            attribute = self._nc_node.attribute(name)
        if attribute is None:
            # No hint: programs ask for what may be missing. Python makes one where the error is shown.
            error = NetCDFAttributeError(f"NetCDF: Attribute not found: {name!r}", fqn=self._nc_node.fqn)
            error.name, error.obj = name, self
            raise error
        return attribute_value(attribute)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_nc_") and hasattr(type(self), name):
            object.__setattr__(self, name, value)
            return
        if name in RESERVED:
            raise NetCDFAttributeError(
                f"'{name}' is one of the reserved attributes, cannot rebind. Use setncattr instead."
            )
        self.setncattr(name, value)

    def __delattr__(self, name: str) -> None:
        if name in RESERVED:
            raise NetCDFAttributeError(
                f"'{name}' is one of the reserved attributes, cannot delete. Use delncattr instead."
            )
        self.delncattr(name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        return {name: attribute_value(a) for name, a in list(self._nc_open_attributes().items())}


def data_model_of(session: Session) -> str:
    """``NETCDF4``, ``NETCDF4_CLASSIC``, ``NETCDF3_CLASSIC``, …"""
    return MODEL_OF_FORMAT.get(session.format, "NETCDF4")


def session_of(owner: Any) -> Session:
    """The session that a dataset, group, variable or dimension belongs to."""
    session: Session = owner._nc_session
    return session


def reference_to(group: Any) -> Any:
    """What an object inside a group holds of it: a weak reference if the dataset was opened so."""
    weak = group.keepweakref and not isinstance(group, weakref.ProxyType)
    return weakref.proxy(group) if weak else group


def node_of(owner: Any) -> Any:
    """The node that a dataset, group, variable or dimension shows."""
    return owner._nc_node

"""Attributes: between Python values and the model, and the methods of whatever owns attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from nczarr.model import CHAR, STRING, Attribute, CompoundType, normalize_name
from nczarr.model.types import primitive_for_dtype
from nczarr.netcdf4.constants import CLASSIC_FORMATS, SUPPORTED_TYPES
from nczarr.netcdf4.errors import (
    NetCDFAttributeError,
    NetCDFOSError,
    NetCDFReadOnlyAttributeError,
    NetCDFRuntimeError,
    NetCDFTypeError,
    NetCDFValueError,
    NotPicklableError,
)

if TYPE_CHECKING:
    from nczarr.netcdf4.session import Session

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
        "__orthogonal_indexing__",
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


def attribute_value(attribute: Attribute, encoding: str = "utf-8") -> Any:
    """The Python value of an attribute.

    Parameters
    ----------
    attribute : Attribute
    encoding : str
        How text is decoded; what cannot be decoded is replaced.

    Returns
    -------
    str, list of str, numpy scalar, or ndarray
        One value as a scalar, several (or none) as an array of the attribute's dtype.

    Examples
    --------
    >>> attribute_value(Attribute.of("units", "K")), attribute_value(Attribute.of("n", 3))
    ('K', np.int64(3))
    """
    values = attribute.values
    if attribute.type == CHAR:
        raw = values.tobytes()
        if attribute.name == "_FillValue":  # a fill value is a byte, not text
            return raw
        return raw.decode(encoding, "replace").replace("\0", "")
    if attribute.type == STRING:
        texts = [_recode(text, encoding) for text in values]
        return texts[0] if len(texts) == 1 else texts
    if isinstance(attribute.type, CompoundType):
        from nczarr.netcdf4.user_types import view_dtype

        values = values.astype(view_dtype(attribute.type))
    return values[0] if len(values) == 1 else values.copy()


def _recode(text: str, encoding: str) -> str:
    if encoding == "utf-8" and text.isascii():
        return text.replace("\0", "")
    raw = text.encode("utf-8", "surrogateescape")
    return raw.decode(encoding, "replace").replace("\0", "")


def make_attribute(
    name: str, value: Any, *, group: Any, data_model: str = "NETCDF4", as_string: bool = False
) -> Attribute:
    """Make the attribute that netCDF4-python would write for a Python value.

    Parameters
    ----------
    name : str
    value
        Text, bytes, a number, or a one-dimensional sequence of one kind of these.
    group : Group
        Where types of structured values are looked for.
    data_model : str
        The classic models have no string attributes and no 64-bit integers.
    as_string : bool
        Write text as netCDF strings, even ASCII text.

    Raises
    ------
    NetCDFTypeError
        If netCDF has no type for the value.
    NetCDFValueError
        If the value has more than one dimension.
    NetCDFAttributeError
        If the name is not legal.
    NetCDFOSError
        If a classic model is asked to hold several strings.

    Examples
    --------
    >>> make_attribute("a", [1.5, 2], group=None).type
    DOUBLE
    """
    name = _checked_name(name)
    try:
        array = np.array(value)
    except ValueError as error:
        raise NetCDFValueError(f"the value of the attribute {name!r} is not a vector: {error}") from error
    if array.ndim > 1:
        raise NetCDFValueError(
            f"the attribute {name!r} has {array.ndim} dimensions", hint="at most one is possible"
        )
    classic = data_model in CLASSIC_FORMATS
    if array.dtype.kind in "SU":
        return _text(name, array, classic=classic, as_string=as_string)
    if array.dtype.kind == "V" and array.dtype.names:
        from nczarr.netcdf4.user_types import find_compound

        model_type = find_compound(group, array.dtype)
        return Attribute(name, model_type, np.atleast_1d(array).astype(model_type.dtype))
    code = array.dtype.str[1:]
    if code not in SUPPORTED_TYPES:
        raise NetCDFTypeError(
            f"illegal data type for attribute {name!r}, must be one of {', '.join(SUPPORTED_TYPES)}, got {code}"
        )
    if code == "i8" and classic and data_model != "NETCDF3_64BIT_DATA":
        array = array.astype("i4")
    type_ = primitive_for_dtype(array.dtype)
    assert type_ is not None
    return Attribute(name, type_, np.atleast_1d(array).astype(type_.dtype))


def _checked_name(name: str) -> str:
    name = normalize_name(name if isinstance(name, str) else str(name, "utf-8"))
    if not name or "/" in name or any(c < " " or c == "\x7f" for c in name):
        raise NetCDFAttributeError(f"{name!r} cannot be the name of an attribute")
    return name


def _text(name: str, array: np.ndarray, *, classic: bool, as_string: bool) -> Attribute:
    texts = [
        t.decode("utf-8", "surrogateescape") if isinstance(t, bytes) else t for t in array.ravel().tolist()
    ]
    if len(texts) > 1:
        if classic:
            raise NetCDFOSError(f"the attribute {name!r} has several strings; only NETCDF4 has room for them")
        return Attribute.of(name, texts, STRING)
    text = "".join(texts)
    wants_string = as_string or (array.dtype.kind == "U" and not text.isascii())
    if wants_string and not classic:
        return Attribute.of(name, text, STRING)
    return Attribute.of(name, text, CHAR)


class AttributeOwner:
    """What has netCDF attributes: datasets, groups and variables.

    A name that is not one of Python's own is a netCDF attribute: it can be read, set and deleted as an
    attribute of the object.
    """

    __slots__ = ()

    _nc_attributes: dict[str, Attribute]
    _nc_session: Session

    def _nc_touch(self) -> None:
        """Note that this node differs from what is stored."""
        raise NotImplementedError

    def _nc_type_scope(self) -> Any:
        """The group in which names of types are looked for."""
        raise NotImplementedError

    @property
    def _nc_fqn(self) -> str:
        raise NotImplementedError

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
        attributes = self._nc_open_attributes()
        attribute = attributes.get(name) or attributes.get(normalize_name(name))
        if attribute is None:
            raise NetCDFAttributeError(f"NetCDF: Attribute not found: {name!r}", fqn=self._nc_fqn)
        return attribute_value(attribute, encoding)

    def setncattr(self, name: str, value: Any) -> None:
        """Set a netCDF attribute; also with names that Python objects have themselves.

        Raises
        ------
        NetCDFTypeError, NetCDFValueError, NetCDFAttributeError, NetCDFOSError
            As :func:`make_attribute`; also if the dataset is read-only.
        """
        self._nc_set_attribute(name, value, as_string=self._ncstring_attrs__)

    def setncattr_string(self, name: str, value: Any) -> None:
        """Set a netCDF attribute; text is stored as netCDF strings, even ASCII text."""
        if self._nc_session.data_model in CLASSIC_FORMATS:
            raise NetCDFOSError("file format does not support NC_STRING attributes", fqn=self._nc_fqn)
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
        attributes = self._nc_open_attributes()
        self._nc_session.check_writable()
        if name not in attributes:
            raise NetCDFRuntimeError(f"NetCDF: Attribute not found: {name!r}", fqn=self._nc_fqn)
        del attributes[name]
        self._nc_touch()

    def renameAttribute(self, oldname: str, newname: str) -> None:
        """Rename a netCDF attribute; it keeps its place.

        Raises
        ------
        NetCDFRuntimeError
            If there is no `oldname`, if there is a `newname`, or if the dataset is read-only.
        """
        attributes = self._nc_open_attributes()
        self._nc_session.check_writable()
        newname = _checked_name(newname)
        if oldname not in attributes:
            raise NetCDFRuntimeError(f"NetCDF: Attribute not found: {oldname!r}", fqn=self._nc_fqn)
        if newname in attributes:
            raise NetCDFRuntimeError(f"NetCDF: String match to name in use: {newname!r}", fqn=self._nc_fqn)
        renamed = {
            newname if key == oldname else key: Attribute(newname, a.type, a.values) if key == oldname else a
            for key, a in attributes.items()
        }
        attributes.clear()
        attributes.update(renamed)
        self._nc_touch()

    def _nc_open_attributes(self) -> dict[str, Attribute]:
        if not self._nc_session.is_open:
            raise NetCDFAttributeError("NetCDF: Not a valid ID: the dataset is closed")
        return self._nc_attributes

    def _nc_set_attribute(self, name: str, value: Any, *, as_string: bool = False) -> None:
        self._nc_session.check_open()
        attributes = self._nc_attributes
        if not self._nc_session.writable:
            raise NetCDFReadOnlyAttributeError("NetCDF: Write to read only", fqn=self._nc_fqn)
        attribute = make_attribute(
            name,
            value,
            group=self._nc_type_scope(),
            data_model=self._nc_session.data_model,
            as_string=as_string,
        )
        attributes[attribute.name] = attribute
        self._nc_touch()

    @property
    def _ncstring_attrs__(self) -> bool:
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_nc_") or (name.startswith("__") and name.endswith("__")):
            raise NetCDFAttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return self.getncattr(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_nc_"):
            object.__setattr__(self, name, value)
            return
        if name in RESERVED or (name.startswith("__") and name.endswith("__")):
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

    def __reduce__(self) -> Any:
        raise NotPicklableError(f"{type(self).__name__} is not picklable")

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        return {name: attribute_value(a) for name, a in self._nc_open_attributes().items()}

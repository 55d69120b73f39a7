"""Find what NCZarr on Zarr v2 says, in all the versions that netcdf-c has written.

====================  ========================================================  ===============================
written by            where NCZarr's keys are                                   what is odd
====================  ========================================================  ===============================
4.8.0                 files ``.nczarr``, ``.nczgroup``, ``.nczvar``,            types are numbers as text;
                      ``.nczattr``                                              values of attributes are lists
4.8.1, 4.9.0          upper-case keys in ``.zgroup``, ``.zarray``, ``.zattrs``  char is ``<U1``, one byte each
4.9.1, 4.9.2          the same in lower case                                    char is ``>S1``
4.9.3 and later       all in ``.zattrs``, with longer words                     —
====================  ========================================================  ===============================

Up to 4.9.2 a big-endian variable was stored in native order under a ``>`` type. :func:`find_version` tells which
version a hierarchy is in, and a :class:`Version` reads the keys of a node into one form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nczarr.errors import MetadataError
from nczarr.mapping.values.json import check_unicode, show
from nczarr.model import (
    BYTE,
    CHAR,
    DOUBLE,
    FLOAT,
    INT,
    INT64,
    SHORT,
    STRING,
    UBYTE,
    UINT,
    UINT64,
    USHORT,
    PrimitiveType,
    primitive_for_dtype,
)
from nczarr.zarr import ArrayMetadata, GroupMetadata, Hierarchy
from nczarr.zarr.documents.json import parse_object

#: Sizes of dimensions have fewer digits than this.
_MOST_DIGITS = 20

#: The name that netcdf-c gives to the dimension of a scalar in ``_ARRAY_DIMENSIONS``.
SCALAR = "_scalar_"
#: The dimension that netcdf-c makes for an anonymous one of this size.
ANONYMOUS = "_Anonymous_Dim_"
#: Attributes of the files that are not attributes of the model.
HIDDEN_NAMES = frozenset({"_ARRAY_DIMENSIONS", "_NCProperties"})
HIDDEN_PREFIXES = ("_nczarr_", "_NCZARR_")

#: netCDF's numbers of the atomic types.
_NUMBERS = {
    "1": BYTE,
    "2": CHAR,
    "3": SHORT,
    "4": INT,
    "5": FLOAT,
    "6": DOUBLE,
    "7": UBYTE,
    "8": USHORT,
    "9": UINT,
    "10": INT64,
    "11": UINT64,
    "12": STRING,
}


@dataclass(frozen=True)
class GroupInfo:
    """What NCZarr says of a group: dimensions (size, unlimited), node names of arrays and of groups."""

    dimensions: Mapping[str, tuple[int, bool]] = field(default_factory=dict)
    arrays: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class ArrayInfo:
    """What NCZarr says of an array: FQNs of its dimensions (None: nothing is said), and if it is a scalar."""

    references: tuple[str, ...] | None = None
    scalar: bool = False


class Version:
    """One version: where the keys are, and what they are called.

    Parameters
    ----------
    name : str
    native_order : bool
        True if a big-endian type lies, and chunks are in the order of the machine (in effect little-endian).
    """

    def __init__(self, name: str, *, native_order: bool) -> None:
        self.name = name
        self.native_order = native_order

    def _find(self, metadata: ArrayMetadata | GroupMetadata, key: str) -> Any:
        for place in (metadata.attributes, metadata.extra):
            for spelling in (key, key.upper()):
                if spelling in place:
                    return place[spelling]
        return None

    def group(self, hierarchy: Hierarchy, path: str) -> GroupInfo | None:
        """What is said of the group at `path`; None if nothing is."""
        return _group_info(self._find(hierarchy.nodes[path], "_nczarr_group"))

    def array(self, hierarchy: Hierarchy, path: str) -> ArrayInfo:
        """What is said of the array at `path`."""
        return _array_info(self._find(hierarchy.nodes[path], "_nczarr_array"))

    def attribute_types(self, hierarchy: Hierarchy, path: str) -> Mapping[str, str]:
        """The type of each attribute of a node, as it is spelled."""
        return _attribute_types(self._find(hierarchy.nodes[path], "_nczarr_attr"))


class SideFiles(Version):
    """The version of 4.8.0: keys are files beside the documents."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        super().__init__("4.8.0", native_order=True)
        wanted = []
        for path in hierarchy.nodes:
            prefix = f"{path}/" if path else ""
            kind = ".nczvar" if hierarchy.is_array(path) else ".nczgroup"
            wanted += [prefix + kind, prefix + ".nczattr"]
        found = zip(wanted, hierarchy.store.get_many(wanted), strict=True)
        self._files = {key: parse_object(data, key) for key, data in found if data is not None}

    def _file(self, path: str, name: str) -> Any:
        return self._files.get(f"{path}/{name}" if path else name)

    def group(self, hierarchy: Hierarchy, path: str) -> GroupInfo | None:
        return _group_info(self._file(path, ".nczgroup"))

    def array(self, hierarchy: Hierarchy, path: str) -> ArrayInfo:
        return _array_info(self._file(path, ".nczvar"))

    def attribute_types(self, hierarchy: Hierarchy, path: str) -> Mapping[str, str]:
        return _attribute_types(self._file(path, ".nczattr"))


def find_version(hierarchy: Hierarchy) -> Version | None:
    """Tell which version a v2 hierarchy is in; None if it is no NCZarr.

    Only the root is looked at, and one more file where consolidated metadata do not rule it out.
    """
    root = hierarchy.nodes[""]
    if "_nczarr_superblock" in root.attributes:
        return Version("4.9.3", native_order=False)
    if "_nczarr_superblock" in root.extra:
        return Version("4.9.2", native_order=True)
    if "_NCZARR_SUPERBLOCK" in root.extra:
        return Version("4.8.1", native_order=True)
    if not hierarchy.consolidated and hierarchy.store.get(".nczarr") is not None:
        return SideFiles(hierarchy)
    return None


def attribute_type(spelled: str) -> PrimitiveType | None:
    """The type that a spelling stands for; None for JSON (``|J0``).

    Raises
    ------
    MetadataError
        If it is not known.

    Examples
    --------
    >>> [attribute_type(t) for t in (">S1", "<U1", "|S128", "<f4", "6")]
    [CHAR, CHAR, STRING, FLOAT, DOUBLE]
    """
    if spelled in _NUMBERS:
        return _NUMBERS[spelled]
    if spelled.startswith("|J"):
        return None
    if spelled in (">S1", "<U1", ">U1", "char"):
        return CHAR
    if spelled[1:2] in ("S", "U") and spelled[2:].isascii() and spelled[2:].isdigit():
        return STRING
    try:
        found = primitive_for_dtype(spelled)
    except (TypeError, ValueError, SyntaxError):  # numpy reads lists, numbers and tuples in it too
        found = None
    if found is None:
        raise MetadataError(f"_nczarr_attr.types: {show(spelled)} is not a type that is known")
    return found


def _object(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise MetadataError(f"{what}: {show(value)} is not an object")
    return value


def _names(value: Any, what: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
        raise MetadataError(f"{what}: {show(value)} is not a list of names")
    return tuple(value)


def _size(value: Any, what: str) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < _MOST_DIGITS:
        value = int(value)
    if type(value) is not int or value < 0:
        raise MetadataError(f"{what}: {show(value)} is not a size")
    return value


def _group_info(value: Any) -> GroupInfo | None:
    if value is None:
        return None
    info = _object(value, "_nczarr_group")
    dimensions = {}
    declared = info.get("dimensions", info.get("dims", {}))
    for name, size in _object(declared, "_nczarr_group.dimensions").items():
        what = f"_nczarr_group.dimensions.{name}"
        check_unicode(name, "_nczarr_group.dimensions")
        if isinstance(size, dict):
            dimensions[name] = (_size(size.get("size"), what), bool(size.get("unlimited")))
        else:
            dimensions[name] = (_size(size, what), False)
    return GroupInfo(
        dimensions,
        _names(info.get("arrays", info.get("vars", [])), "_nczarr_group.arrays"),
        _names(info.get("groups", []), "_nczarr_group.groups"),
    )


def _array_info(value: Any) -> ArrayInfo:
    if value is None:
        return ArrayInfo()
    info = _object(value, "_nczarr_array")
    references = info.get("dimension_references", info.get("dimrefs"))
    scalar = bool(info.get("scalar")) or info.get("storage") == "scalar"
    if references is None:
        return ArrayInfo(None, scalar)
    # Up to 4.9.2 the only sign of a scalar is that it has no dimensions.
    listed = _names(references, "_nczarr_array.dimension_references")
    return ArrayInfo(listed, scalar or not listed)


def _attribute_types(value: Any) -> Mapping[str, str]:
    if value is None:
        return {}
    types = _object(_object(value, "_nczarr_attr").get("types", {}), "_nczarr_attr.types")
    for name, spelled in types.items():
        if not isinstance(spelled, str):
            raise MetadataError(f"_nczarr_attr.types.{name}: {show(spelled)} is not text")
    return types

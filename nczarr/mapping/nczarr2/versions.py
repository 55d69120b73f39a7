"""Find NCZarr's keys on Zarr v2 in all versions that netcdf-c has written.

====================  ========================================================  ===============================
written by            place of NCZarr's keys                                    particularities
====================  ========================================================  ===============================
4.8.0                 files ``.nczarr``, ``.nczgroup``, ``.nczvar``,            types are numbers as text;
                      ``.nczattr``                                              values of attributes are lists
4.8.1, 4.9.0          upper-case keys in ``.zgroup``, ``.zarray``, ``.zattrs``  char is ``<U1``, one byte each
4.9.1, 4.9.2          the same in lower case                                    char is ``>S1``
4.9.3 and later       all in ``.zattrs``, with longer words                     —
====================  ========================================================  ===============================

Up to 4.9.2 big-endian variables were stored in native order under a ``>`` type. :func:`find_version` returns the
version of a hierarchy, and a :class:`Version` reads the keys of a node into one form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nczarr import model
from nczarr.errors import MetadataError
from nczarr.mapping.values.scalars import JSONObject, check_unicode, show
from nczarr.model import CHAR, STRING, PrimitiveType
from nczarr.zarr import Hierarchy
from nczarr.zarr.documents.json import parse_object

#: Sizes of dimensions have fewer digits than this.
_MOST_DIGITS = 20

#: netcdf-c's name for the dimension of a scalar in ``_ARRAY_DIMENSIONS``.
SCALAR = "_scalar_"
#: Prefix of the dimensions that netcdf-c creates for anonymous ones, before their size.
ANONYMOUS = "_Anonymous_Dim_"
#: Attributes of the documents that are not attributes of the model.
HIDDEN_NAMES = frozenset({"_ARRAY_DIMENSIONS", "_NCProperties"})
HIDDEN_PREFIXES = ("_nczarr_", "_NCZARR_")

#: The atomic types in the order of their netCDF numbers, which begin with 1.
_TYPES = [
    "byte",
    "char",
    "short",
    "int",
    "float",
    "double",
    "ubyte",
    "ushort",
    "uint",
    "int64",
    "uint64",
    "string",
]
_NUMBERS = {str(i): model.PRIMITIVES[name] for i, name in enumerate(_TYPES, 1)}


@dataclass(frozen=True)
class GroupInfo:
    """NCZarr's description of a group: dimensions (size, unlimited), node names of arrays and of groups."""

    dimensions: Mapping[str, tuple[int, bool]] = field(default_factory=dict)
    arrays: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class ArrayInfo:
    """NCZarr's description of an array: FQNs of its dimensions (None: unknown), and whether it is a scalar."""

    references: tuple[str, ...] | None = None
    scalar: bool = False


class Version:
    """One version: reads the keys of nodes.

    Parameters
    ----------
    name : str
    native_order : bool
        True if chunks of a big-endian type are in the order of the machine (in effect little-endian).
    """

    def __init__(self, name: str, *, native_order: bool) -> None:
        self.name = name
        self.native_order = native_order

    def _find(self, hierarchy: Hierarchy, path: str, key: str) -> object:
        metadata = hierarchy.nodes[path]
        for place in (metadata.attributes, metadata.extra):
            for spelling in (key, key.upper()):
                if spelling in place:
                    return place[spelling]
        return None

    def group(self, hierarchy: Hierarchy, path: str) -> GroupInfo | None:
        """Return the description of the group at `path`; None if there is none."""
        return _group_info(self._find(hierarchy, path, "_nczarr_group"))

    def array(self, hierarchy: Hierarchy, path: str) -> ArrayInfo:
        """Return the description of the array at `path`."""
        return _array_info(self._find(hierarchy, path, "_nczarr_array"))

    def attribute_types(self, hierarchy: Hierarchy, path: str) -> Mapping[str, str]:
        """Return the type of each attribute of a node, as spelled in the document."""
        return _attribute_types(self._find(hierarchy, path, "_nczarr_attr"))


_SIDE_FILES = {"_nczarr_group": ".nczgroup", "_nczarr_array": ".nczvar", "_nczarr_attr": ".nczattr"}


class SideFiles(Version):
    """The version of 4.8.0: keys are files beside the documents."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        super().__init__("4.8.0", native_order=True)
        keys = []
        for path in hierarchy.nodes:
            prefix = f"{path}/" if path else ""
            kind = ".nczvar" if hierarchy.is_array(path) else ".nczgroup"
            keys += [prefix + kind, prefix + ".nczattr"]
        found = zip(keys, hierarchy.store.get_many(keys), strict=True)
        self._files = {key: parse_object(data, key) for key, data in found if data is not None}

    def _find(self, hierarchy: Hierarchy, path: str, key: str) -> object:
        name = _SIDE_FILES[key]
        return self._files.get(f"{path}/{name}" if path else name)


def find_version(hierarchy: Hierarchy) -> Version | None:
    """Return the version of a v2 hierarchy; None if it is not NCZarr.

    Only the document of the root is required, and one more file unless consolidated metadata exclude it.
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
    """Return the type of a spelling; None for JSON (``|J0``).

    Raises
    ------
    MetadataError
        The type is unknown.

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
        found = model.primitive_for_dtype(spelled)
    except (TypeError, ValueError, SyntaxError):  # numpy also parses lists, numbers and tuples
        found = None
    if found is None:
        raise MetadataError(f"_nczarr_attr.types: {show(spelled)} is not a supported type")
    return found


def _object(value: object, what: str) -> JSONObject:
    if not isinstance(value, dict):
        raise MetadataError(f"{what}: {show(value)} is not an object")
    return value


def _names(value: object, what: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
        raise MetadataError(f"{what}: {show(value)} is not a list of names")
    return tuple(value)


def _size(value: object, what: str) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < _MOST_DIGITS:
        value = int(value)
    if type(value) is not int or value < 0:
        raise MetadataError(f"{what}: {show(value)} is not a size")
    return value


def _group_info(value: object) -> GroupInfo | None:
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


def _array_info(value: object) -> ArrayInfo:
    if value is None:
        return ArrayInfo()
    info = _object(value, "_nczarr_array")
    references = info.get("dimension_references", info.get("dimrefs"))
    scalar = bool(info.get("scalar")) or info.get("storage") == "scalar"
    if references is None:
        return ArrayInfo(None, scalar)
    # Up to 4.9.2 a scalar is recognizable only by its lack of dimensions.
    listed = _names(references, "_nczarr_array.dimension_references")
    return ArrayInfo(listed, scalar or not listed)


def _attribute_types(value: object) -> Mapping[str, str]:
    if value is None:
        return {}
    types = _object(_object(value, "_nczarr_attr").get("types", {}), "_nczarr_attr.types")
    for name, spelled in types.items():
        if not isinstance(spelled, str):
            raise MetadataError(f"_nczarr_attr.types.{name}: {show(spelled)} is not text")
    return types

"""Describe the structure of a hierarchy as a tree of nodes without data: the Zarr Object Model (ZEP 6).

A node has the properties of its Zarr version and its attributes; a group also has members. Models exist for versions 2
and 3. A model in JSON is one object; a flattened model has the form of consolidated metadata.

======================  ===========================================================
:func:`parse_zom`       JSON → model (``to_json`` is the inverse)
:func:`from_hierarchy`  hierarchy → model
:func:`to_hierarchy`    model → new hierarchy
:func:`flatten`         model → documents by path (:func:`unflatten` is the inverse)
======================  ===========================================================

:mod:`nczarr.zarr.zom.tools` compares models, matches patterns, and converts version 2 to 3;
:mod:`nczarr.zarr.zom.tools` has the JSON schemas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from nczarr.errors import MetadataError, UnsupportedError, error_context
from nczarr.stores import Store
from nczarr.zarr.codecs.base import ArrayArrayCodec, ArrayBytesCodec, find_codec
from nczarr.zarr.documents import v2 as documents_v2
from nczarr.zarr.documents import v3 as documents_v3
from nczarr.zarr.documents.v2_encoding import parse_v2_dtype
from nczarr.zarr.hierarchy.hierarchy import Hierarchy
from nczarr.zarr.hierarchy.opening import create_hierarchy
from nczarr.zarr.limits import LIMITS
from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata
from nczarr.zarr.names import check_name, check_path
from nczarr.zarr.types import Json, JsonMapping, JsonObject, checked_object, show


@dataclass(frozen=True)
class ZomArray:
    """An array of the model.

    Parameters
    ----------
    zarr_format : {2, 3}
    properties : dict
        All other properties of the array's document, as JSON.
    attributes : dict

    Examples
    --------
    >>> ZomArray(2, {"shape": [4], "dtype": "<i4"}).to_json()
    {'zarr_format': 2, 'shape': [4], 'dtype': '<i4', 'attributes': {}}
    """

    zarr_format: Literal[2, 3]
    properties: JsonObject = field(default_factory=dict)
    attributes: JsonObject = field(default_factory=dict)

    def to_json(self) -> JsonObject:
        """Return the array as JSON."""
        return node_document(self)


@dataclass(frozen=True)
class ZomGroup:
    """A group of the model.

    Parameters
    ----------
    zarr_format : {2, 3}
    properties : dict
        All other properties of the group's document, as JSON.
    attributes : dict
    members : dict
        Arrays and groups by name.

    Examples
    --------
    >>> ZomGroup(3, members={"g": ZomGroup(3)}).to_json()["members"]
    {'g': {'zarr_format': 3, 'node_type': 'group', 'attributes': {}, 'members': {}}}
    """

    zarr_format: Literal[2, 3]
    properties: JsonObject = field(default_factory=dict)
    attributes: JsonObject = field(default_factory=dict)
    members: dict[str, ZomArray | ZomGroup] = field(default_factory=dict)

    def to_json(self) -> JsonObject:
        """Return the group and its descendants as JSON.

        A property of the Zarr group with the name ``members`` becomes ``_members``, with further underscores until
        the name is unique (ZEP 6).
        """
        name = "_members"
        while name in self.properties:
            name = "_" + name
        document = {name if key == "members" else key: value for key, value in node_document(self).items()}
        return {**document, "members": {key: member.to_json() for key, member in self.members.items()}}

    def walk(self, path: str = "") -> Iterator[tuple[str, ZomArray | ZomGroup]]:
        """Yield this group and its descendants with their paths, parents first.

        Examples
        --------
        >>> [path for path, _ in ZomGroup(3, members={"g": ZomGroup(3, members={"v": ZomArray(3)})}).walk()]
        ['', 'g', 'g/v']
        """
        stack: list[tuple[str, ZomArray | ZomGroup]] = [(path, self)]
        while stack:
            here, node = stack.pop()
            yield here, node
            if isinstance(node, ZomGroup):
                below = [
                    (f"{here}/{name}" if here else name, member) for name, member in node.members.items()
                ]
                stack.extend(reversed(below))


ZomNode = ZomArray | ZomGroup


def node_document(node: ZomNode) -> JsonObject:
    """Return one node as JSON, without its members."""
    head: JsonObject = {"zarr_format": node.zarr_format}
    if node.zarr_format == 3:
        head["node_type"] = "array" if isinstance(node, ZomArray) else "group"
    return {**head, **node.properties, "attributes": node.attributes}


def parse_zom(value: object, *, key: str = "") -> ZomNode:
    """Parse a model from JSON.

    A renamed property ``members`` gets its name back: it is the last one of an unbroken sequence ``_members``,
    ``__members``, …

    Parameters
    ----------
    value : JSON
    key : str
        The location of `value` in a larger document, for messages.

    Raises
    ------
    MetadataError
        If the value is not a model: wrong types, mixed versions, an invalid name, or groups nested too deep.

    Examples
    --------
    >>> parse_zom({"zarr_format": 3, "node_type": "group", "members": {}})
    ZomGroup(zarr_format=3, properties={}, attributes={}, members={})
    """
    return _parse(value, key, None, 0)


def _parse(value: object, key: str, version: int | None, depth: int) -> ZomNode:
    where = key or "the model"
    if depth > LIMITS.model_depth:
        raise MetadataError(f"{where[:60]}…: groups are nested deeper than {LIMITS.model_depth}")
    if not isinstance(value, Mapping):
        raise MetadataError(f"{where}: {show(value)} is not an object")
    zarr_format = value.get("zarr_format", version or 3)
    if type(zarr_format) is not int or zarr_format not in (2, 3):
        raise MetadataError(f"{where}: zarr_format: {show(zarr_format)} is not 2 or 3")
    if version is not None and zarr_format != version:
        raise MetadataError(f"{where}: zarr_format: {zarr_format} inside a model of version {version}")
    attributes = checked_object(value.get("attributes", {}), f"{where}: attributes")
    kind = value.get("node_type", "group" if "members" in value else "array") if zarr_format == 3 else None
    if kind not in (None, "array", "group"):
        raise MetadataError(f'{where}: node_type: {show(kind)} is not "array" or "group"')
    if kind is None:
        kind = "group" if "members" in value or "shape" not in value else "array"
    names = ("zarr_format", "attributes", *(["node_type"] if zarr_format == 3 else []))
    properties = {name: item for name, item in value.items() if name not in names}
    typed: Literal[2, 3] = 2 if zarr_format == 2 else 3
    if kind == "array":
        return ZomArray(typed, properties, attributes)
    members = properties.pop("members", {})
    if not isinstance(members, Mapping):
        raise MetadataError(f"{where}: members: {show(members)} is not an object")
    children: dict[str, ZomNode] = {}
    for name, item in members.items():
        problem = (
            check_name(name, layout=f"v{typed}") if isinstance(name, str) else f"{name!r} is not a string"
        )
        if problem:
            raise MetadataError(f"{where}: members: {problem}")
        inside = f"members[{name!r}]"
        children[name] = _parse(item, f"{key}.{inside}" if key else inside, typed, depth + 1)
    return ZomGroup(typed, _own_members(properties), attributes, children)


def _own_members(properties: JsonObject) -> JsonObject:
    """Restore the name ``members`` of a renamed property: the last one of ``_members``, ``__members``, …"""
    longest = "members"
    while f"_{longest}" in properties:
        longest = f"_{longest}"
    return {"members" if name == longest else name: item for name, item in properties.items()}


def from_hierarchy(hierarchy: Hierarchy, path: str = "") -> ZomNode:
    """Return the model of a hierarchy, or of the node at a path with its descendants.

    Raises
    ------
    UnsupportedError
        If the hierarchy has the layout of a draft: ZEP 6 defines the model only for versions 2 and 3.
    MetadataError
        If groups are nested too deep.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> hierarchy = create_hierarchy(MemoryStore(), attributes={"title": "x"})
    >>> hierarchy.put_group("g", GroupMetadata())
    >>> from_hierarchy(hierarchy)
    ZomGroup(zarr_format=3, properties={}, attributes={'title': 'x'}, members={'g': ZomGroup(...)})
    """
    if hierarchy.layout not in ("v3", "v2"):
        raise UnsupportedError(
            f"there is no object model for the layout {hierarchy.layout}",
            path=hierarchy.store.url,
            hint="copy the dataset to v3 or v2 first",
        )
    if path not in hierarchy.nodes:
        raise MetadataError(f"no node {path!r}", path=hierarchy.store.url)
    documents = {}
    for node in hierarchy.nodes:
        if not path or node == path or node.startswith(path + "/"):
            relative = node[len(path) :].lstrip("/") if path else node
            documents[relative] = _document(hierarchy, node)
    return unflatten(documents)


def _document(hierarchy: Hierarchy, path: str) -> JsonObject:
    """Return a single document for a node; for version 2 it includes the attributes."""
    documents = hierarchy.nodes.documents(path)
    if hierarchy.layout == "v3":
        return next(iter(documents.values()), {"zarr_format": 3, "node_type": "group"})
    main: JsonObject = {"zarr_format": 2}
    for key, document in documents.items():
        name = key.rpartition("/")[2]
        if name == ".zattrs":
            main = {**main, "attributes": document}
        elif name == (".zarray" if hierarchy.is_array(path) else ".zgroup"):
            main = {**main, **document}
    main["zarr_format"] = 2  # a damaged document may have another value
    return main


def flatten(zom: ZomNode) -> dict[str, JsonObject]:
    """Return the documents of a model's nodes by path, parents first.

    For version 3, the result without the root has the form of consolidated metadata.

    Examples
    --------
    >>> list(flatten(ZomGroup(3, members={"g": ZomGroup(3)})))
    ['', 'g']
    """
    nodes = zom.walk() if isinstance(zom, ZomGroup) else [("", zom)]
    return {path: node_document(node) for path, node in nodes}


def unflatten(documents: Mapping[str, JsonMapping]) -> ZomNode:
    """Return the model of nodes from their documents by path; the inverse of `flatten`.

    Missing parent groups are added without attributes.

    Raises
    ------
    MetadataError
        If a path is invalid or leads through an array, or the root is missing.

    Examples
    --------
    >>> flat = {"": {"zarr_format": 3, "node_type": "group"}, "v": {"zarr_format": 3, "node_type": "array"}}
    >>> unflatten(flat).members["v"]
    ZomArray(zarr_format=3, properties={}, attributes={})
    """
    if "" not in documents:
        raise MetadataError("the documents have no root")
    made: dict[str, ZomNode] = {}
    for path, document in documents.items():
        version: Literal[2, 3] = 2 if document.get("zarr_format") == 2 else 3
        drop = ("zarr_format", "node_type", "attributes", "consolidated_metadata")
        properties = {k: v for k, v in document.items() if k not in drop}
        attributes = document.get("attributes", {})
        is_array = document.get("node_type") == "array" if version == 3 else "shape" in document
        implied = made.get(path)
        if isinstance(implied, ZomGroup):
            if is_array:
                raise MetadataError(f"the array {path!r} has nodes inside; only groups have members")
            group = ZomGroup(version, properties, attributes, implied.members)
            made[path] = group
            parent = made.get(path.rpartition("/")[0])
            if path and isinstance(parent, ZomGroup):
                parent.members[path.rpartition("/")[2]] = group
            continue
        kind: type[ZomNode] = ZomArray if is_array else ZomGroup
        made[path] = node = kind(version, properties, attributes)
        _attach(made, path, node, version)
    return made[""]


def _attach(made: dict[str, ZomNode], path: str, node: ZomNode, version: Literal[2, 3]) -> None:
    check_path(path, writing=False, layout=f"v{version}")
    if path.count("/") > LIMITS.model_depth:
        raise MetadataError(f"{path[:60]!r}…: groups are nested deeper than {LIMITS.model_depth}")
    while path:
        parent_path, _, name = path.rpartition("/")
        parent = made.get(parent_path)
        if isinstance(parent, ZomArray):
            raise MetadataError(f"{path!r} is inside the array {parent_path!r}")
        if parent is not None:
            parent.members[name] = node
            return
        parent = made[parent_path] = ZomGroup(version, members={name: node})
        path, node = parent_path, parent


def node_metadata(node: ZomNode, place: str = "") -> ArrayMetadata | GroupMetadata:
    """Return the metadata of a node of the model.

    Raises
    ------
    MetadataError
        If the node violates its specification; the message has the location.

    Examples
    --------
    >>> node_metadata(ZomGroup(3, attributes={"title": "x"})).attributes
    {'title': 'x'}
    """
    if node.zarr_format == 3:
        with error_context(place):
            document = node_document(replace(node, properties=_in_v3_spelling(node.properties)))
        return documents_v3.parse_node(document, place)
    document = {"zarr_format": 2, **node.properties}
    if isinstance(node, ZomArray):
        return documents_v2.parse_array(document, node.attributes, place)
    return documents_v2.parse_group(document, node.attributes, place)


def _in_v3_spelling(properties: JsonMapping) -> JsonObject:
    """Return properties in the spelling of v3 documents.

    ZEP 6 writes null for a missing configuration and for missing transformers. Its example has numpy's name of a data
    type (``|u1``), a codec in capitals, and no array-to-bytes codec.
    """
    result = {
        key: _without_null(value)
        for key, value in properties.items()
        if key != "storage_transformers" or value is not None
    }
    codecs = result.get("codecs")
    if isinstance(codecs, list):
        result["codecs"] = codecs = [_known_spelling(codec) for codec in codecs]
    data_type = result.get("data_type")
    if isinstance(data_type, str) and data_type[:1] in ("|", "<", ">"):
        parsed, endian = parse_v2_dtype(data_type, "data_type")
        result["data_type"] = parsed.to_json()
        if isinstance(codecs, list) and not any(_is_a(codec, ArrayBytesCodec) for codec in codecs):
            at = next((i for i, codec in enumerate(codecs) if not _is_a(codec, ArrayArrayCodec)), len(codecs))
            codecs.insert(at, {"name": "bytes", **({"configuration": {"endian": endian}} if endian else {})})
    return result


def _without_null(value: object) -> Json:
    if isinstance(value, list):
        return [_without_null(item) for item in value]
    if isinstance(value, Mapping) and "name" in value:
        return {
            k: _without_null(item) for k, item in value.items() if k != "configuration" or item is not None
        }
    if isinstance(value, Mapping):  # a configuration, which may contain codecs (sharding)
        return {key: _without_null(item) for key, item in value.items()}
    return value


def _is_a(codec: Json, kind: type) -> bool:
    """Return True if a codec in a document has a class of the given kind."""
    name = codec.get("name") if isinstance(codec, Mapping) else codec
    found = find_codec(name) if isinstance(name, str) else None
    return found is not None and isinstance(found[1], type) and issubclass(found[1], kind)


def _known_spelling(codec: Json) -> Json:
    name = codec.get("name") if isinstance(codec, Mapping) else codec
    if not isinstance(name, str) or find_codec(name) is not None or find_codec(name.lower()) is None:
        return codec
    return {**codec, "name": name.lower()} if isinstance(codec, Mapping) else name.lower()


def to_hierarchy(store: Store, zom: ZomNode) -> Hierarchy:
    """Create the hierarchy of a model; arrays have their fill values.

    All nodes are checked before the first write; the root's document is written last.

    Raises
    ------
    MetadataError
        If a node violates its specification.
    ReadOnlyError
        If the store is read-only.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> list(to_hierarchy(MemoryStore(), ZomGroup(3, members={"g": ZomGroup(3)})).nodes)
    ['', 'g']
    """
    nodes = dict(zom.walk()) if isinstance(zom, ZomGroup) else {"": zom}
    items = [(path, node_metadata(node, path or "the root")) for path, node in nodes.items()]
    hierarchy = create_hierarchy(store, layout="v3" if zom.zarr_format == 3 else "v2", hidden=True)
    hierarchy.put_many(items)
    hierarchy.publish()
    return hierarchy

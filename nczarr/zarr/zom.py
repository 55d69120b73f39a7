"""Describe the structure of a hierarchy as a tree of nodes without data: the Zarr Object Model (ZEP 6).

A node has the properties of its Zarr version and its attributes; a group also has members. Models exist for versions 2
and 3. A model in JSON is one object; a flattened model has the form of consolidated metadata.

======================  ===========================================================
:func:`parse_zom`       JSON → model (``to_json`` is the inverse)
:func:`from_hierarchy`  hierarchy → model
:func:`to_hierarchy`    model → new hierarchy
:func:`flatten`         model → documents by path (:func:`unflatten` is the inverse)
======================  ===========================================================

Other functions compare models, match them with patterns, validate them, and convert version 2 to version 3. The JSON
schemas are those of ZEP 6, corrected where they contradict its text: ``compressor`` and ``filters`` may be null; the
misspelt ``attributess`` is ``attributes``; the version is ``zarr_format`` in both; data types and codecs may have a
configuration, a bare name or ``must_understand``; dimension names may be null; version 3 allows keys that a reader may
ignore.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import ClassVar, Literal

from nczarr.errors import MetadataError, NCZarrError, UnsupportedError, error_context
from nczarr.json_values import (
    Json,
    JsonMapping,
    JsonObject,
    as_list,
    as_object,
    as_text,
    checked_object,
    only_texts,
    show,
)
from nczarr.stores import Store
from nczarr.text import missing_package
from nczarr.zarr.codecs.base import ArrayArrayCodec, ArrayBytesCodec, find_codec
from nczarr.zarr.documents import v2 as documents_v2
from nczarr.zarr.documents import v3 as documents_v3
from nczarr.zarr.documents.json import different_keys, same_json
from nczarr.zarr.documents.v2 import parse_v2_dtype
from nczarr.zarr.hierarchy.hierarchy import Hierarchy
from nczarr.zarr.hierarchy.opening import create_hierarchy
from nczarr.zarr.limits import LIMITS
from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata
from nczarr.zarr.names import check_name, check_path, split_path


@dataclass(frozen=True)
class _ModelNode:
    """A node of the model."""

    zarr_format: Literal[2, 3]
    properties: JsonObject = field(default_factory=dict)
    attributes: JsonObject = field(default_factory=dict)


@dataclass(frozen=True)
class ZomArray(_ModelNode):
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

    kind: ClassVar[Literal["array"]] = "array"

    def to_json(self) -> JsonObject:
        """Return the array as JSON."""
        return _node_document(self)

    def walk(self, path: str = "") -> Iterator[tuple[str, ZomArray | ZomGroup]]:
        """Yield this array with its path: an array has no members."""
        yield path, self


@dataclass(frozen=True)
class ZomGroup(_ModelNode):
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

    members: dict[str, ZomArray | ZomGroup] = field(default_factory=dict)
    kind: ClassVar[Literal["group"]] = "group"

    def to_json(self) -> JsonObject:
        """Return the group and its descendants as JSON.

        A property of the Zarr group with the name ``members`` becomes ``_members``, with further underscores until
        the name is unique (ZEP 6). Names of this form that are longer than the new one get an underscore, so that
        none is mistaken for it.
        """
        taken = "members"
        while taken in self.properties:
            taken = f"_{taken}"

        def renamed(key: str) -> str:
            return taken if key == "members" else f"_{key}" if _is_longer(key, taken) else key

        document = {renamed(key): value for key, value in _node_document(self).items()}
        return {**document, "members": {key: member.to_json() for key, member in self.members.items()}}

    def walk(self, path: str = "") -> Iterator[tuple[str, ZomArray | ZomGroup]]:
        """Yield this group and its descendants with their paths, parents first.

        Examples
        --------
        >>> [path for path, _ in ZomGroup(3, members={"g": ZomGroup(3, members={"v": ZomArray(3)})}).walk()]
        ['', 'g', 'g/v']
        """
        yield path, self
        for name, member in self.members.items():
            yield from member.walk(f"{path}/{name}" if path else name)


ZomNode = ZomArray | ZomGroup


def _node_document(node: ZomNode) -> JsonObject:
    """Return one node as JSON, without its members."""
    head: JsonObject = {"zarr_format": node.zarr_format}
    if node.zarr_format == 3:
        head["node_type"] = node.kind
    return {**head, **node.properties, "attributes": node.attributes}


def parse_zom(value: object, *, key: str = "") -> ZomNode:
    """Parse a model from JSON.

    A renamed property ``members`` gets its name back: it is the last one of an unbroken sequence ``_members``,
    ``__members``, … Longer names of this form lose an underscore.

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
    # A hostile model ends Python's stack.
    if depth > LIMITS.model_depth:
        raise MetadataError(f"{where[:60]}…: groups are nested deeper than {LIMITS.model_depth}")
    given = checked_object(value, where)
    zarr_format = given.get("zarr_format", version or 3)
    # For Python, the number 2.0 is equal to 2.
    if type(zarr_format) is not int or zarr_format not in (2, 3):
        raise MetadataError(f"{where}: zarr_format: {show(zarr_format)} is not 2 or 3")
    if version is not None and zarr_format != version:
        raise MetadataError(f"{where}: zarr_format: {zarr_format} inside a model of version {version}")
    attributes = checked_object(given.get("attributes", {}), f"{where}: attributes")
    kind = given.get("node_type", "group" if "members" in given else "array") if zarr_format == 3 else None
    if kind not in (None, "array", "group"):
        raise MetadataError(f'{where}: node_type: {show(kind)} is not "array" or "group"')
    if kind is None:
        # Version 2 has no node type: an array has a shape.
        kind = "group" if "members" in given or "shape" not in given else "array"
    names = ("zarr_format", "attributes", *(["node_type"] if zarr_format == 3 else []))
    properties = {name: item for name, item in given.items() if name not in names}
    typed: Literal[2, 3] = 2 if zarr_format == 2 else 3
    if kind == "array":
        return ZomArray(typed, properties, attributes)
    members = checked_object(properties.pop("members", {}), f"{where}: members")
    children: dict[str, ZomNode] = {}
    for name, item in members.items():
        # A model made by a program may have any key; JSON has only texts.
        problem = (
            check_name(name, layout=f"v{typed}") if isinstance(name, str) else f"{name!r} is not a string"
        )
        if problem:
            raise MetadataError(f"{where}: members: {problem}")
        inside = f"members[{name!r}]"
        children[name] = _parse(item, f"{key}.{inside}" if key else inside, typed, depth + 1)
    return ZomGroup(typed, _own_members(properties), attributes, children)


def _own_members(properties: JsonObject) -> JsonObject:
    """Reverse the names of :meth:`ZomGroup.to_json`."""
    taken = "members"
    while f"_{taken}" in properties:
        taken = f"_{taken}"

    def own(key: str) -> str:
        return "members" if key == taken else key[1:] if _is_longer(key, taken) else key

    return {own(key): value for key, value in properties.items()}


def _is_longer(key: str, name: str) -> bool:
    """Return whether a key is ``_members`` with any number of underscores, and more of them than `name`."""
    return len(key) > len(name) and key.lstrip("_") == "members"


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
    return {path: _node_document(node) for path, node in zom.walk()}


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
    for path in sorted(documents, key=lambda path: len(split_path(path))):  # parents before children
        document = documents[path]
        version: Literal[2, 3] = 2 if document.get("zarr_format") == 2 else 3
        drop = ("zarr_format", "node_type", "attributes", "consolidated_metadata")
        properties = {k: v for k, v in document.items() if k not in drop}
        is_array = document.get("node_type") == "array" if version == 3 else "shape" in document
        check_path(path, writing=False, layout=f"v{version}")
        # Each level is a level of Python's stack in all functions of models.
        if path.count("/") > LIMITS.model_depth:
            raise MetadataError(f"{path[:60]!r}…: groups are nested deeper than {LIMITS.model_depth}")
        kind: type[ZomNode] = ZomArray if is_array else ZomGroup
        made[path] = node = kind(version, properties, document.get("attributes", {}))
        # Writers of Zarr v2 and of the drafts need no document for a group with members.
        while path:
            above, _, name = path.rpartition("/")
            parent = made.get(above)
            if parent is not None:
                # Below an array are its chunks: no reader looks for nodes there.
                if parent.kind == "array":
                    raise MetadataError(f"{path!r} is inside the array {above!r}; only groups have members")
                parent.members[name] = node
                break
            path, node = above, ZomGroup(version, members={name: node})
            made[path] = node
    return made[""]


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
            document = _node_document(replace(node, properties=_in_v3_spelling(node.properties)))
        return documents_v3.parse_node(document, place)
    document = {"zarr_format": 2, **node.properties}
    if node.kind == "array":
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
    codecs: Json = result.get("codecs")
    is_list = isinstance(codecs, list)
    if is_list:
        result["codecs"] = codecs = [_known_spelling(codec) for codec in codecs]
    data_type = as_text(result.get("data_type"))
    if data_type.startswith(("|", "<", ">")):
        parsed, endian = parse_v2_dtype(data_type, "data_type")
        result["data_type"] = parsed.to_json()
        if is_list and not any(_is_a(codec, ArrayBytesCodec) for codec in codecs):
            at = next((i for i, codec in enumerate(codecs) if not _is_a(codec, ArrayArrayCodec)), len(codecs))
            codecs.insert(at, {"name": "bytes", **({"configuration": {"endian": endian}} if endian else {})})
    return result


def _without_null(value: object) -> Json:
    if isinstance(value, list):
        return [_without_null(item) for item in value]
    if isinstance(value, Mapping):  # a codec, or a configuration that contains codecs (sharding)
        drops = "configuration" if "name" in value else None
        return {k: _without_null(item) for k, item in value.items() if k != drops or item is not None}
    return value


def _name_of(codec: Json) -> str:
    """Return the name of a codec in a document: an object, or a bare name (Zarr 3.1)."""
    return as_text(codec) or as_text(as_object(codec).get("name"))


def _is_a(codec: Json, kind: type) -> bool:
    """Return True if a codec in a document has a class of the given kind."""
    found = find_codec(_name_of(codec))
    return found is not None and isinstance(found[1], type) and issubclass(found[1], kind)


def _known_spelling(codec: Json) -> Json:
    name = _name_of(codec)
    if find_codec(name) is not None or find_codec(name.lower()) is None:
        return codec
    return name.lower() if as_text(codec) else {**codec, "name": name.lower()}


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
    items = [(path, node_metadata(node, path or "the root")) for path, node in zom.walk()]
    hierarchy = create_hierarchy(store, layout="v3" if zom.zarr_format == 3 else "v2", hidden=True)
    hierarchy.put_many(items)
    hierarchy.publish()
    return hierarchy


ANY = "*"


def canonical_zom(zom: ZomNode) -> ZomNode:
    """Return a model with canonical nodes: full instead of short-hand names, and explicit defaults.

    Nodes that nczarr cannot parse stay unchanged.

    Examples
    --------
    >>> short = ZomArray(2, {"shape": [4], "chunks": [2], "dtype": "<i4", "filters": []})
    >>> canonical_zom(short).properties["dimension_separator"], canonical_zom(short).properties["filters"]
    ('.', None)
    """
    result = replace(zom, properties=dict(_properties(zom)))
    if result.kind == "array":
        return result
    members = {name: canonical_zom(member) for name, member in result.members.items()}
    return replace(result, members=members)


def _properties(node: ZomNode) -> JsonMapping:
    if node.zarr_format == 2:
        if node.kind == "group":
            return node.properties
        result = {"dimension_separator": ".", **node.properties}
        # Writers of version 2 write no filters as null, as a list or as an object.
        if result.get("filters") in ([], {}):
            result["filters"] = None
        return result
    try:
        return _own_properties(documents_v3.node_document(node_metadata(node)))
    # A comparison of two models also takes nodes with codecs that nczarr lacks.
    except NCZarrError:
        return node.properties


def _own_properties(document: JsonObject) -> JsonObject:
    return {k: v for k, v in document.items() if k not in ("zarr_format", "node_type", "attributes")}


def zom_differences(a: ZomNode, b: ZomNode) -> Iterator[str]:
    """Yield the differences between the structures of two models; the order of members and keys is ignored.

    Yields
    ------
    str
        A message for each difference, with the path of the node.

    Examples
    --------
    >>> a = ZomGroup(3, members={"v": ZomGroup(3)}, attributes={"t": 1})
    >>> list(zom_differences(a, ZomGroup(3, members={"w": ZomGroup(3)})))
    ['/: attributes differ: t', '/v: only in the first', '/w: only in the second']
    """
    stack: list[tuple[str, ZomNode, ZomNode]] = [("/", a, b)]
    while stack:
        path, one, two = stack.pop()
        if one.kind != two.kind:
            a_kind, b_kind = ("an array" if n.kind == "array" else "a group" for n in (one, two))
            yield f"{path}: {a_kind} and {b_kind}"
            continue
        if one.zarr_format != two.zarr_format:
            yield f"{path}: version {one.zarr_format} and version {two.zarr_format}"
            continue
        if keys := different_keys(_properties(one), _properties(two)):
            yield f"{path}: properties differ: {', '.join(keys)}"
        if keys := different_keys(one.attributes, two.attributes):
            yield f"{path}: attributes differ: {', '.join(keys)}"
        if one.kind == "group" and two.kind == "group":
            base = path.rstrip("/")
            for left, right, which in ((one, two, "first"), (two, one, "second")):
                alone = [name for name in left.members if name not in right.members]
                yield from (f"{base}/{name}: only in the {which}" for name in alone)
            both = [name for name in one.members if name in two.members]
            stack.extend((f"{base}/{name}", one.members[name], two.members[name]) for name in reversed(both))


def same_structure(a: ZomNode, b: ZomNode) -> bool:
    """Return True if two models describe the same structure; the data of their hierarchies may differ.

    Examples
    --------
    >>> same_structure(ZomGroup(3), ZomGroup(3)), same_structure(ZomGroup(3), ZomGroup(2))
    (True, False)
    """
    return next(zom_differences(a, b), None) is None


def match_zom(zom: ZomNode, pattern: JsonMapping) -> list[str]:
    """Compare a model with a pattern.

    A pattern is a partial model in JSON:

    * the model may have further properties, object keys and group members;
    * ``"*"`` as a value matches every value; lists must have the same length;
    * ``"*"`` as the name of a member is the pattern for all members without their own pattern.

    Returns
    -------
    list of str
        A message for each mismatch; empty if the model matches.

    Examples
    --------
    >>> zom = ZomGroup(3, members={"v": ZomArray(3, {"shape": [3, 4], "data_type": "int8"})})
    >>> match_zom(zom, {"members": {"v": {"node_type": "array", "shape": ["*", 4]}}})
    []
    >>> match_zom(zom, {"members": {"*": {"data_type": "int16"}, "w": {}}})
    ["members['w']: missing", "members['v'].data_type: 'int8', not 'int16'"]
    """
    problems: list[str] = []
    _match_node(zom, pattern, "", problems)
    return problems


def _match_node(node: ZomNode, pattern: Json, key: str, problems: list[str]) -> None:
    if pattern == ANY:
        return
    given = checked_object(pattern, key or "the pattern")
    dot = f"{key}." if key else ""
    own = {k: v for k, v in given.items() if k != "members"}
    _match(own, _node_document(node), key, problems)
    members = given.get("members")
    if members is None or members == ANY:
        return
    members = checked_object(members, f"{dot}members")
    if node.kind == "array":
        problems.append(f"{dot}members: an array has no members")
        return
    for name in members:
        if name != ANY and name not in node.members:
            problems.append(f"{dot}members[{name!r}]: missing")
    for name, member in node.members.items():
        if name in members or ANY in members:
            _match_node(member, members.get(name, members.get(ANY)), f"{dot}members[{name!r}]", problems)


def _match(pattern: Json, value: object, key: str, problems: list[str]) -> None:
    if as_text(pattern) == ANY:
        return
    if isinstance(pattern, Mapping) and isinstance(value, Mapping):
        for name, part in pattern.items():
            where = f"{key}.{name}" if key else name
            if name in value:
                _match(part, value[name], where, problems)
            else:
                problems.append(f"{where}: missing")
    elif isinstance(pattern, list) and isinstance(value, list) and len(pattern) == len(value):
        for i, (part, item) in enumerate(zip(pattern, value, strict=True)):
            _match(part, item, f"{key}[{i}]", problems)
    elif not same_json(pattern, value):
        problems.append(f"{key}: {show(value)}, not {show(pattern)}")


def zom_to_v3(zom: ZomNode) -> ZomNode:
    """Convert a version 2 model to version 3.

    Arrays keep the v2 chunk keys and the encoding of chunks, so the stored chunks stay valid. ``_ARRAY_DIMENSIONS``
    becomes ``dimension_names``, and an undefined fill value becomes zero. Keys of ``.zarray`` and ``.zgroup`` outside
    the specification become attributes.

    Raises
    ------
    MetadataError
        If an array is invalid.
    UnsupportedError
        If v3 cannot represent a part of the model.

    Examples
    --------
    >>> v2 = ZomArray(2, {"shape": [4], "chunks": [2], "dtype": ">i2", "compressor": None, "fill_value": None,
    ...                   "order": "C", "filters": None}, {"_ARRAY_DIMENSIONS": ["x"]})
    >>> v3 = zom_to_v3(v2)
    >>> v3.properties["codecs"], v3.properties["fill_value"], v3.properties["dimension_names"], v3.attributes
    ([{'name': 'bytes', 'configuration': {'endian': 'big'}}], 0, ['x'], {})
    """
    return _to_v3(zom, "")


def _to_v3(node: ZomNode, path: str) -> ZomNode:
    if node.zarr_format == 3:
        return node
    metadata = node_metadata(node, path or "the root")
    attributes = {
        **metadata.attributes,
        **{k: v for k, v in metadata.extra.items() if k not in metadata.attributes},
    }
    if node.kind == "group":
        members = {
            name: _to_v3(member, f"{path}/{name}" if path else name) for name, member in node.members.items()
        }
        return ZomGroup(3, {}, attributes, members)
    assert metadata.is_array
    names = only_texts(attributes.get("_ARRAY_DIMENSIONS"))
    dimension_names = None
    # xarray's names of the dimensions; a list of another length is an attribute of its own.
    if names is not None and len(names) == metadata.ndim:
        dimension_names = tuple(names)
        del attributes["_ARRAY_DIMENSIONS"]
    with error_context(path):
        changes = {"fill_value": metadata.fill, "dimension_names": dimension_names, "extra": {}}
        document = documents_v3.node_document(replace(metadata, attributes=attributes, **changes))
    return ZomArray(3, _own_properties(document), attributes)


#: The largest number of listed problems.
MAX_PROBLEMS = 100


@cache
def _schema(zarr_format: int) -> JsonObject:
    text = files("nczarr.zarr").joinpath(f"zom_v{zarr_format}.json").read_text("utf-8")
    result: JsonObject = json.loads(text)
    return result


def zom_schema(zarr_format: Literal[2, 3]) -> JsonObject:
    """Return the JSON schema (draft 2020-12) of the object model of a Zarr version.

    Examples
    --------
    >>> zom_schema(3)["title"]
    'Zarr Object Model, version 3'
    """
    # A copy: the caller may change it.
    return json.loads(json.dumps(_schema(zarr_format)))


def _is_deeper(value: object, levels: int) -> bool:
    below = as_object(value).values() or as_list(value)
    return levels < 1 or any(_is_deeper(item, levels - 1) for item in below)


def schema_problems(value: object, zarr_format: Literal[2, 3] | None = None) -> list[str]:
    """Validate a model in JSON against its schema.

    Parameters
    ----------
    value : JSON
    zarr_format : {2, 3}, optional
        The version of the schema; by default the ``zarr_format`` of the value.

    Returns
    -------
    list of str
        A message with the location for each problem; empty if the value is valid.

    Raises
    ------
    UnsupportedError
        If the package jsonschema is not installed.

    Examples
    --------
    >>> schema_problems({"zarr_format": 3, "node_type": "group", "attributes": {}, "members": {}})
    []
    >>> schema_problems({"zarr_format": 3, "node_type": "group", "members": {}})
    ["$: 'attributes' is a required property"]
    """
    try:
        from jsonschema import Draft202012Validator
    except ImportError:
        raise UnsupportedError(
            "validation requires the package jsonschema", hint=missing_package("jsonschema", "schema")
        ) from None
    if zarr_format is None:
        zarr_format = 2 if as_object(value).get("zarr_format") == 2 else 3
    # jsonschema recurses into each level.
    if _is_deeper(value, LIMITS.document_depth):
        return [f"$: nested deeper than {LIMITS.document_depth} levels"]
    problems = []
    for error in Draft202012Validator(_schema(zarr_format)).iter_errors(value):
        message = error.message if len(error.message) <= 200 else error.message[:199] + "…"
        problems.append(f"{error.json_path}: {message}")
        # A hostile model has a problem in each of its nodes.
        if len(problems) == MAX_PROBLEMS:
            problems.append("and more")
            break
    return problems


def validate_zom(value: object, zarr_format: Literal[2, 3] | None = None) -> None:
    """Validate a model in JSON; see `schema_problems`.

    Raises
    ------
    MetadataError
        If the model is invalid; the message has all problems.

    Examples
    --------
    >>> validate_zom({"zarr_format": 2, "attributes": {}, "members": {}})
    """
    problems = schema_problems(value, zarr_format)
    if problems:
        raise MetadataError("the object model is invalid: " + "; ".join(problems))

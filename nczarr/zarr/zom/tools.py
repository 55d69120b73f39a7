"""Compare models, match them with patterns, validate them, and convert version 2 to version 3.

The JSON schemas are those of ZEP 6, corrected where they contradict its text: ``compressor`` and ``filters`` may be
null; the misspelt ``attributess`` is ``attributes``; the version is ``zarr_format`` in both; data types and codecs may
have a configuration, a bare name or ``must_understand``; dimension names may be null; version 3 allows keys that a
reader may ignore.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Literal

from nczarr.errors import MetadataError, NCZarrError, UnsupportedError, error_context
from nczarr.zarr.documents import v3 as documents_v3
from nczarr.zarr.limits import LIMITS
from nczarr.zarr.metadata import ArrayMetadata
from nczarr.zarr.types import Json, JsonMapping, JsonObject, show
from nczarr.zarr.zom.model import ZomArray, ZomGroup, ZomNode, node_document, node_metadata

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
    if isinstance(result, ZomGroup):
        members = {name: canonical_zom(member) for name, member in result.members.items()}
        return replace(result, members=members)
    return result


def _properties(node: ZomNode) -> JsonMapping:
    if node.zarr_format == 2:
        defaults: JsonObject = {"dimension_separator": "."} if isinstance(node, ZomArray) else {}
        result = {**defaults, **node.properties}
        if isinstance(node, ZomArray) and result.get("filters") in ([], {}):
            result["filters"] = None
        return result
    try:
        return _own_properties(documents_v3.node_document(node_metadata(node)))
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
        if type(one) is not type(two):
            yield f"{path}: {_kind(one)} and {_kind(two)}"
            continue
        if one.zarr_format != two.zarr_format:
            yield f"{path}: version {one.zarr_format} and version {two.zarr_format}"
            continue
        if keys := _different(_properties(one), _properties(two)):
            yield f"{path}: properties differ: {', '.join(keys)}"
        if keys := _different(one.attributes, two.attributes):
            yield f"{path}: attributes differ: {', '.join(keys)}"
        if isinstance(one, ZomGroup) and isinstance(two, ZomGroup):
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


def _kind(node: ZomNode) -> str:
    return "an array" if isinstance(node, ZomArray) else "a group"


def _different(one: JsonMapping, two: JsonMapping) -> list[str]:
    keys = dict.fromkeys([*one, *two])
    return [key for key in keys if key not in one or key not in two or not _same(one[key], two[key])]


def _same(a: Json, b: Json) -> bool:
    """Compare JSON values; NaN is equal to NaN, and true differs from 1."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    return bool(a == b) or (a != a and b != b)


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
    if not isinstance(pattern, Mapping):
        raise MetadataError(f"{key or 'the pattern'}: {show(pattern)} is not an object")
    dot = f"{key}." if key else ""
    own = {k: v for k, v in pattern.items() if k != "members"}
    _match(own, node_document(node), key, problems)
    members = pattern.get("members")
    if members is None or members == ANY:
        return
    if not isinstance(members, Mapping):
        raise MetadataError(f"{dot}members: {show(members)} is not an object")
    if not isinstance(node, ZomGroup):
        problems.append(f"{dot}members: an array has no members")
        return
    for name in members:
        if name != ANY and name not in node.members:
            problems.append(f"{dot}members[{name!r}]: missing")
    for name, member in node.members.items():
        if name in members or ANY in members:
            _match_node(member, members.get(name, members.get(ANY)), f"{dot}members[{name!r}]", problems)


def _match(pattern: Json, value: object, key: str, problems: list[str]) -> None:
    if pattern == ANY and isinstance(pattern, str):
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
    elif not _same(pattern, value):
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
    if isinstance(node, ZomGroup):
        members = {
            name: _to_v3(member, f"{path}/{name}" if path else name) for name, member in node.members.items()
        }
        return ZomGroup(3, {}, attributes, members)
    assert isinstance(metadata, ArrayMetadata)
    names = attributes.get("_ARRAY_DIMENSIONS")
    dimension_names = None
    if (
        isinstance(names, list)
        and len(names) == metadata.ndim
        and all(isinstance(name, str) for name in names)
    ):
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
    text = files("nczarr.zarr.zom").joinpath(f"zom_v{zarr_format}.json").read_text("utf-8")
    result: JsonObject = json.loads(text)
    return result


def zom_schema(zarr_format: Literal[2, 3]) -> JsonObject:
    """Return the JSON schema (draft 2020-12) of the object model of a Zarr version.

    Examples
    --------
    >>> zom_schema(3)["title"]
    'Zarr Object Model, version 3'
    """
    return json.loads(json.dumps(_schema(zarr_format)))


def _depth(value: object) -> int:
    deepest, stack = 0, [(value, 1)]
    while stack:
        item, depth = stack.pop()
        deepest = max(deepest, depth)
        if depth > LIMITS.document_depth:
            break
        if isinstance(item, dict):
            stack.extend((below, depth + 1) for below in item.values())
        elif isinstance(item, list):
            stack.extend((below, depth + 1) for below in item)
    return deepest


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
            "validation requires the package jsonschema", hint="pip install jsonschema"
        ) from None
    if zarr_format is None:
        version = value.get("zarr_format") if isinstance(value, dict) else None
        zarr_format = 2 if version == 2 and version is not True else 3
    if _depth(value) > LIMITS.document_depth:
        return [f"$: nested deeper than {LIMITS.document_depth} levels"]
    problems = []
    for error in Draft202012Validator(_schema(zarr_format)).iter_errors(value):
        message = error.message if len(error.message) <= 200 else error.message[:199] + "…"
        problems.append(f"{error.json_path}: {message}")
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

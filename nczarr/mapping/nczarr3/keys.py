"""Find NCZarr's keys in the documents of Zarr v3, and the dataset and the group that they describe.

Groups have the keys as attributes, which xarray hides there. Arrays have them as the configuration of a top-level
object, because xarray shows every attribute of an array. Version 3.0 used attributes for both
(``docs/spec/nczarr-v3.md``, *Carriers*).

Programs and users copy nodes between datasets: an array from another dataset brings a copy of that dataset's records,
and a single group looks like a dataset. Therefore each group and each array names its dataset, and each group its FQN
(``docs/spec/nczarr-v3-recovery.md``, *Identity*).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Literal

from nczarr.dataclass import dataclass
from nczarr.errors import MetadataError, ModelError, UnsupportedError
from nczarr.json_values import (
    JsonObject,
    as_list,
    as_object,
    as_text,
    bad,
    checked_object,
    checked_text,
    member,
    show,
    texts_in,
)
from nczarr.mapping.dialect import Metadata, array_at
from nczarr.mapping.values.attributes import ATTR_KEY
from nczarr.model import Dataset, parse_fqn
from nczarr.system.environment import read_json
from nczarr.zarr import ArrayMetadata, GroupMetadata, Hierarchy
from nczarr.zarr.documents.extensions import Extension, register_extension

SUPERBLOCK_KEY = "_nczarr_superblock"
GROUP_KEY = "_nczarr_group"
ARRAY_KEY = "_nczarr_array"
#: A copy of the groups' records, as text in arrays: other programs replace all attributes of a group at once.
COPY_KEY = "_nczarr_copy"
CONVENTION_KEY = "zarr_conventions"
#: The name of the top-level object, and of the entry in ZEP 10's list.
EXTENSION_NAME = "nczarr"

VERSION = "3.2.0"
#: The member that identifies the dataset: of the superblock, of a group's record, of an array's configuration.
DATASET = "dataset"
#: The member of a group's record with the group's own FQN.
FQN = "fqn"
#: The member of the superblock that distinguishes this convention from others with the same keys.
MARK = "convention"
#: The member of the superblock that says where the keys of arrays are, if they are not in the object; its only value.
ARRAY_CARRIER, IN_ATTRIBUTES = "arrays", "attributes"
NZ = "NZ-1.0"
#: The entry of NZ-1.0 in every node of a dataset that agrees with it.
NZ_CONVENTION: Mapping[str, str] = {
    "schema_url": "https://raw.githubusercontent.com/zarr-conventions/nz/refs/tags/v1/schema.json",
    "spec_url": "https://github.com/zarr-conventions/nz/blob/v1/README.md",
    "uuid": "d0a980b5-c644-4dcc-85a1-283799a58f40",
    "name": NZ,
    "description": "Structural interoperability layer for scientific array conventions on Zarr v3",
}
CONVENTION: Mapping[str, str] = {
    "uuid": "4058cf9a-85c0-4aeb-a3e4-72f486c51814",
    "name": "nczarr",
    "description": "The netCDF-4 data model on Zarr v3",
}

_GROUP_KEYS = frozenset((SUPERBLOCK_KEY, GROUP_KEY, ATTR_KEY))
_ARRAY_KEYS = frozenset((ARRAY_KEY, ATTR_KEY, COPY_KEY))
#: Members of netCDF-C's draft for Zarr v3 that this convention does not have.
_DRAFT_OF_NETCDF_C = {GROUP_KEY: ("subgroups",), ARRAY_KEY: ("type_alias", "nczarr_type")}
_ATTRIBUTES_OF_NETCDF_C = "_nczarr_attrs"


# --- keys


class _Understood(Extension):
    """Declares to the engine that a node may require its reader to understand this convention."""

    name = EXTENSION_NAME


register_extension(_Understood())


def has_object(metadata: ArrayMetadata) -> bool:
    """Return whether an array contains NCZarr's keys in the form of version 3.1 or later."""
    return EXTENSION_NAME in metadata.extra or any(e.name == EXTENSION_NAME for e in metadata.extensions)


def array_keys(metadata: ArrayMetadata) -> tuple[JsonObject, list[str]]:
    """Return NCZarr's valid keys of an array, and descriptions of the invalid keys.

    The top-level object takes precedence over ZEP 10's list, and both over attributes.

    Examples
    --------
    >>> from nczarr.zarr.types import data_type_for
    >>> from nczarr.zarr.grids import RegularGrid
    >>> array_keys(ArrayMetadata((), data_type_for("int8"), RegularGrid(()), extra={"nczarr": {"configuration": 1}}))
    ({}, ['nczarr.configuration: 1 is not an object'])
    """
    wrong: list[str] = []
    found = _first_of((*_configurations(metadata, wrong), metadata.attributes), _ARRAY_KEYS)
    for key, value in list(found.items()):
        try:
            checked_text(value, key, "text") if key == COPY_KEY else checked_object(value, key)
        except MetadataError as error:
            wrong.append(error.message)
            del found[key]
    return found, wrong


def group_keys(metadata: GroupMetadata) -> tuple[JsonObject, list[str]]:
    """Return NCZarr's valid keys of a group, and descriptions of the invalid keys.

    Attributes take precedence over the top-level object, and both over ZEP 10's list.

    Examples
    --------
    >>> group_keys(GroupMetadata({"_nczarr_group": {"groups": ["g"]}, "title": "x"}))
    ({'_nczarr_group': {'groups': ['g']}}, [])
    """
    wrong: list[str] = []
    found = _first_of((metadata.attributes, *_configurations(metadata, wrong)), _GROUP_KEYS)
    for key, value in list(found.items()):
        try:
            checked_object(value, f"attributes.{key}")
        except MetadataError as error:
            wrong.append(error.message)
            del found[key]
    return _with_own_annotations(found), wrong


def _with_own_annotations(keys: JsonObject) -> JsonObject:
    """Return the keys of a group with the annotations of its record: under NZ-1.0 the attribute has only numbers."""
    own = member(keys, GROUP_KEY).get(ATTR_KEY)
    return {**keys, ATTR_KEY: own} if isinstance(own, dict) else keys


def _first_of(carriers: Sequence[JsonObject], keys: frozenset[str]) -> JsonObject:
    """Return the keys that carriers contain; the first carrier of a key takes precedence."""
    return {k: c[k] for c in reversed(carriers) for k in keys if k in c}


def _configurations(metadata: Metadata, wrong: list[str] | None = None) -> list[JsonObject]:
    """Return the configurations of the top-level object and of ZEP 10's list, and describe the unreadable ones."""
    if not metadata.extra and not metadata.extensions:
        return []
    objects = [metadata.extra[EXTENSION_NAME]] if EXTENSION_NAME in metadata.extra else []
    found = [as_object(o).get("configuration") for o in objects]
    found += [e.configuration for e in metadata.extensions if e.name == EXTENSION_NAME]
    readable = []
    for configuration in found:
        where = f"{EXTENSION_NAME}.configuration"
        try:
            given = checked_object(configuration, where)
            version = given.get("version", VERSION)
            # Another version may give these keys another meaning.
            if not is_known_version(version):
                raise bad(f"{where}.version: {show(version)} is not a version 3")
            readable.append(given)
        except MetadataError as error:
            if wrong is not None:
                wrong.append(error.message)
    return readable


def is_known_version(version: object) -> bool:
    """Return whether a value is a version 3.

    Examples
    --------
    >>> is_known_version("3.1.0"), is_known_version("4.0.0"), is_known_version(3)
    (True, False, False)
    """
    return as_text(version).partition(".")[0] == "3"


def is_earlier(version: object) -> bool:
    """Return whether a version of the superblock is one before 3.2, whose nodes name no dataset.

    Examples
    --------
    >>> [is_earlier(v) for v in ("3.0.0", "3.1.9", "3.2.0", "3.10.0", None)]
    [True, True, False, False, False]
    """
    return isinstance(version, str) and version.split(".")[:2] in (["3"], ["3", "0"], ["3", "1"])


def first_object(metadata: ArrayMetadata) -> tuple[JsonObject, str]:
    """Return the configuration of the object that counts, and what is wrong with the object; empty: nothing.

    Examples
    --------
    >>> from nczarr.zarr.types import data_type_for
    >>> from nczarr.zarr.grids import RegularGrid
    >>> extra = {"nczarr": {"name": "nczarr", "must_understand": True, "configuration": {"version": "3.2.0"}}}
    >>> first_object(ArrayMetadata((), data_type_for("int8"), RegularGrid(()), extra=extra))
    ({'version': '3.2.0'}, 'has must_understand true, not false: zarr-python refuses the array')
    """
    if EXTENSION_NAME in metadata.extra:
        entry = as_object(metadata.extra[EXTENSION_NAME])
        name, must = entry.get("name"), entry.get("must_understand")
        configuration = as_object(entry.get("configuration"))
    else:
        own = next(e for e in metadata.extensions if e.name == EXTENSION_NAME)
        name, must, configuration = own.name, own.must_understand, dict(own.configuration)
    if must is not False:
        return configuration, f"has must_understand {show(must)}, not false: zarr-python refuses the array"
    if name != EXTENSION_NAME:
        return configuration, f"has the name {show(name)}"
    return configuration, "" if "version" in configuration else "has no version in its configuration"


# --- copies


def _records(text: str) -> Iterator[tuple[str, JsonObject]]:
    """Yield the groups' records in a copy with their FQNs, without damaged records."""
    with suppress(ValueError):
        records = read_json(text)
        for fqn, record in as_object(records).items():
            # A damaged record is as good as none: the next copy may be whole.
            if isinstance(record, dict):
                own = {k: v for k, v in record.items() if k in _GROUP_KEYS and isinstance(v, dict)}
                yield fqn, _with_own_annotations(own)


@dataclass(frozen=True)
class RecordCopy:
    """A copy of the record of a group in an array.

    Attributes
    ----------
    holder : str
        The path of the array.
    dataset : str or None
        The dataset of the group; None if it is unknown, as in version 3.1.
    fqn : str
    record : dict
    """

    holder: str
    dataset: str | None
    fqn: str
    record: JsonObject

    @property
    def listed(self) -> list[str]:
        """The node names of the arrays in the record."""
        return texts_in(member(self.record, GROUP_KEY).get("arrays"))

    @property
    def is_in_place(self) -> bool:
        """True if the holder is the first array of the record, where the writer puts the copy."""
        return self.listed[:1] == [self.holder.rpartition("/")[2]]


def find_copies(hierarchy: Hierarchy, keys: Mapping[str, JsonObject]) -> Iterator[RecordCopy]:
    """Yield all copies of records in the order of the paths of the arrays.

    Parameters
    ----------
    hierarchy : Hierarchy
    keys : mapping
        NCZarr's keys of each array, by path.
    """
    for path in sorted((p for p, own in keys.items() if COPY_KEY in own), key=lambda path: path.split("/")):
        for fqn, record in _records(keys[path][COPY_KEY]):
            yield RecordCopy(
                path, _dataset_of_record(record) or dataset_of(hierarchy.nodes[path]), fqn, record
            )


# --- identity


@dataclass(frozen=True)
class Home:
    """The dataset to which a hierarchy belongs, as a whole or as a group.

    Attributes
    ----------
    dataset : str or None
        Its identity; None if it is unknown, as before version 3.2.
    fqn : str or None
        The FQN of the group at the root of the hierarchy; None if it is unknown.
    copy : RecordCopy or None
        The copy of the record of this group, if its own keys are missing.
    unclear : bool
        True if several records may belong to this group; all of them are ignored.
    """

    dataset: str | None
    fqn: str | None = "/"
    copy: RecordCopy | None = None
    unclear: bool = False

    @property
    def is_part(self) -> bool:
        """True if the hierarchy is a group of a dataset, not the dataset."""
        return self.fqn != "/"

    def has(self, metadata: Metadata) -> bool:
        """Return False if a node declares that it belongs to another dataset."""
        return self.dataset is None or dataset_of(metadata) in (None, self.dataset)


def dataset_of(metadata: Metadata) -> str | None:
    """Return the identity of the dataset that a node declares; None if it declares none.

    Examples
    --------
    >>> dataset_of(GroupMetadata({"_nczarr_group": {"fqn": "/g", "dataset": "5f"}}))
    '5f'
    """
    if not metadata.is_array:
        return _dataset_of_record(group_keys(metadata)[0])
    named = [c[DATASET] for c in _configurations(metadata) if DATASET in c]
    return (as_text(named[0]) or None) if named else None


def _dataset_of_record(record: JsonObject) -> str | None:
    named = (member(record, key).get(DATASET) for key in (SUPERBLOCK_KEY, GROUP_KEY))
    return next(filter(None, map(as_text, named)), None)


def new_identity(dataset: Dataset, content: object) -> str:
    """Return the identity of a new dataset.

    The identity of a dataset with variables depends on its name and metadata only, so that equal copies have equal
    bytes. A dataset without variables will be filled later, so it gets a random identity.

    Parameters
    ----------
    dataset : Dataset
    content
        JSON that describes the metadata.

    Examples
    --------
    >>> len(new_identity(Dataset("d"), {})), new_identity(Dataset("d"), {}) == new_identity(Dataset("d"), {})
    (32, False)
    """
    from hashlib import sha256  # not for a reader
    from uuid import uuid4

    if not dataset.all_variables:
        return uuid4().hex
    text = json.dumps([dataset.name, content], sort_keys=True, default=str)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def find_home(hierarchy: Hierarchy, unknown: Mapping[str, str]) -> Home | None:
    """Return the dataset to which a hierarchy belongs; None if it is not NCZarr.

    Parameters
    ----------
    hierarchy : Hierarchy
    unknown : mapping
        The nodes that cannot be opened, as keys.

    Raises
    ------
    UnsupportedError
        The keys are those of netCDF-C's draft for Zarr v3.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> from nczarr.zarr import create_hierarchy
    >>> record = {"fqn": "/ocean", "dataset": "5f"}
    >>> find_home(create_hierarchy(MemoryStore(), attributes={"_nczarr_group": record}), {})
    Home(dataset='5f', fqn='/ocean', copy=None, unclear=False)
    """
    root = hierarchy.nodes[""]
    if root.is_array:
        return None
    keys, wrong = group_keys(root)
    if SUPERBLOCK_KEY in root.attributes or SUPERBLOCK_KEY in keys:
        superblock = member(keys, SUPERBLOCK_KEY)
        _refuse_draft_of_netcdf_c(hierarchy, root, superblock, unknown)
        return Home(as_text(superblock.get(DATASET)) or _only_dataset(hierarchy, unknown))
    record = member(keys, GROUP_KEY)
    fqn = as_text(record.get(FQN))
    if is_reference(fqn):
        return Home(as_text(record.get(DATASET)) or None, fqn)
    found = _found_by_arrays(hierarchy, unknown)
    if GROUP_KEY not in keys:
        return found or (Home(None) if wrong else None)
    if found is not None and found.copy is not None:
        return Home(found.dataset, found.copy.fqn)
    # Before version 3.2 every root had a superblock, and no group had its FQN.
    return Home(None, None)


def is_reference(item: object) -> bool:
    """Return whether a value is an FQN below the root, or the size of an anonymous dimension.

    Examples
    --------
    >>> [is_reference(x) for x in ("/x", 3, "x", "/", -1, True)]
    [True, True, False, False, False, False]
    """
    if type(item) is int:
        return item >= 0
    return _is_fqn(as_text(item))


@lru_cache(maxsize=4096)
def _is_fqn(item: str) -> bool:
    try:
        return item not in ("", "/") and parse_fqn(item) is not None
    except ModelError:
        return False


def _arrays(hierarchy: Hierarchy, unknown: Mapping[str, str]) -> dict[str, ArrayMetadata]:
    """Return the arrays of a hierarchy that can be opened."""
    paths = [path for path in hierarchy.nodes if path not in unknown and hierarchy.is_array(path)]
    return {path: array_at(hierarchy.nodes, path) for path in paths}


def _found_by_arrays(hierarchy: Hierarchy, unknown: Mapping[str, str]) -> Home | None:
    """Return the dataset of a root without keys: of a copy whose nodes exist, or of most arrays."""
    arrays = _arrays(hierarchy, unknown)
    # Version 3.0, without copies, has its keys in the attributes; they mean nothing without those of the root.
    keys = {
        p: array_keys(m)[0] if m.extra or m.extensions or COPY_KEY in m.attributes else {}
        for p, m in arrays.items()
    }
    if not any(keys.values()):
        return None
    copies = list(find_copies(hierarchy, keys))
    candidates = [c for c in copies if "/" not in c.holder and c.is_in_place]
    in_place = {c.dataset for c in candidates}
    candidates += [c for c in copies if c.fqn == "/" and c.dataset not in in_place]
    seen: dict[str, RecordCopy] = {}
    for copy in candidates:  # equal records count once
        seen.setdefault(json.dumps([copy.dataset, copy.fqn, copy.record], sort_keys=True), copy)
    presence = [(c, _nodes_at_root(c, hierarchy, arrays)) for c in seen.values()]
    at_home = [c for c, nodes in presence if nodes != "few"]
    if len(at_home) > 1:
        at_home = [c for c, nodes in presence if nodes == "all"] or at_home
    if len(at_home) == 1:
        copy = at_home[0]
        return Home(copy.dataset, copy.fqn, copy)
    if at_home:
        return Home(None, unclear=True)
    named = [dataset_of(metadata) for path, metadata in arrays.items() if keys[path]]
    most = [d for d in dict.fromkeys(named) if 2 * named.count(d) > len(arrays)]
    return Home(most[0]) if most else None


def _nodes_at_root(
    copy: RecordCopy, hierarchy: Hierarchy, arrays: Mapping[str, ArrayMetadata]
) -> Literal["all", "most", "few"]:
    """Return how many of the nodes that a record lists are at the root of a hierarchy.

    "most" also means: at least as many as there are other nodes.
    """
    listed = [*copy.listed, *as_list(member(copy.record, GROUP_KEY).get("groups"))]
    members = 0
    for name in listed:
        if as_text(name) in hierarchy.nodes and name:
            metadata = arrays.get(name)
            members += metadata is None or dataset_of(metadata) in (None, copy.dataset)
    others = sum("/" not in path for path in hierarchy.nodes if path) - members
    missing = len(listed) - members
    if (listed and missing >= members) or members < others:
        return "few"
    return "most" if missing else "all"


def _only_dataset(hierarchy: Hierarchy, unknown: Mapping[str, str]) -> str | None:
    """Return the dataset that most arrays name, if it is the only one: nczarr before 3.2 has rewritten the root."""
    named = [dataset_of(metadata) for metadata in _arrays(hierarchy, unknown).values()]
    datasets = {d for d in named if d is not None}
    return datasets.pop() if len(datasets) == 1 and 2 * named.count(None) <= len(named) else None


def _refuse_draft_of_netcdf_c(
    hierarchy: Hierarchy, root: GroupMetadata, superblock: JsonObject, unknown: Mapping[str, str]
) -> None:
    """Refuse the keys of netCDF-C's draft, which have the same names and another meaning."""
    conventions = as_list(root.attributes.get(CONVENTION_KEY))
    declared = any(as_object(c).get("uuid") == CONVENTION["uuid"] for c in conventions)
    # The version proves nothing: netCDF-C may count on from 3.0.0, and then `char` would be read as `ubyte` and the
    # unlimited dimension as a fixed one. The draft has no member that names the dataset.
    if superblock.get(MARK) == CONVENTION["uuid"] or declared or as_text(superblock.get(DATASET)):
        return
    is_first = as_text(superblock.get("version")).startswith("3.0")
    signs = [f"{SUPERBLOCK_KEY}.format"] if type(superblock.get("format")) is int else []
    for path in hierarchy.nodes:
        if path not in unknown:
            signs += _signs_of_netcdf_c(hierarchy.nodes[path].attributes, is_first=is_first)
    if signs:
        raise UnsupportedError(
            f"the keys are those of netCDF-C's draft of NCZarr for Zarr v3, not of this convention: {signs[0]}",
            path=hierarchy.store.place("zarr.json"),
            hint="read the arrays with a Zarr library; nczarr supports netCDF-C's NCZarr on Zarr v2 only",
        )


def _signs_of_netcdf_c(attributes: JsonObject, *, is_first: bool) -> list[str]:
    """Return the members of a node's attributes that exist in netCDF-C's draft only.

    Parameters
    ----------
    is_first : bool
        The version is 3.0, in which this convention has an object of dimensions, and a list is the draft's.
    """
    signs = [_ATTRIBUTES_OF_NETCDF_C] if _ATTRIBUTES_OF_NETCDF_C in attributes else []
    for key, members in _DRAFT_OF_NETCDF_C.items():
        signs += [f"{key}.{name}" for name in members if name in member(attributes, key)]
    dimensions = member(attributes, GROUP_KEY).get("dimensions")
    # Only at version 3.0 did this convention have an object in this place.
    if isinstance(dimensions, list) and is_first:
        signs.append(f"{GROUP_KEY}.dimensions is a list")
    entries = [*as_object(dimensions).values(), *as_list(dimensions)]
    if any(type(as_object(d).get("unlimited")) is int for d in entries):
        signs.append(f"{GROUP_KEY}.dimensions has unlimited as a number")
    return signs

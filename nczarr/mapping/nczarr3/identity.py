"""Tell which dataset the nodes of a hierarchy belong to, and which group of it the root is.

Other programs and people copy nodes about: an array from another dataset brings a copy of the records of that dataset,
and a group by itself looks like a dataset. So each group and each array names the dataset that it was written in, and
each group its FQN (``docs/spec/nczarr-v3.md``, *Identity*).
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nczarr.errors import ModelError, UnsupportedError
from nczarr.mapping.nczarr3.keys import (
    ARRAY_KEY,
    CONVENTION,
    CONVENTION_KEY,
    COPY_KEY,
    DATASET,
    EXTENSION_NAME,
    FQN,
    GROUP_KEY,
    MARK,
    SUPERBLOCK_KEY,
    array_keys,
    copies_of,
    group_keys,
)
from nczarr.model import Dataset, parse_fqn
from nczarr.zarr import ArrayMetadata, GroupMetadata, Hierarchy

#: Members of netCDF-C's draft for Zarr v3 that this convention does not have.
_DRAFT_OF_NETCDF_C = {GROUP_KEY: ("subgroups",), ARRAY_KEY: ("type_alias", "nczarr_type")}
_ATTRIBUTES_OF_NETCDF_C = "_nczarr_attrs"


@dataclass(frozen=True)
class Copy:
    """A copy of the record of a group, as an array holds it.

    Attributes
    ----------
    holder : str
        The path of the array.
    dataset : str or None
        The dataset of the group; None if nothing names it, as in version 3.1.
    fqn : str
    record : dict
    """

    holder: str
    dataset: str | None
    fqn: str
    record: dict[str, Any]

    @property
    def listed(self) -> list[str]:
        """The node names of the arrays in the record."""
        names = self.record.get(GROUP_KEY, {}).get("arrays")
        return [n for n in names if isinstance(n, str)] if isinstance(names, list) else []

    @property
    def is_in_place(self) -> bool:
        """True if the holder is the first array of the record, where a writer puts the copy."""
        return self.listed[:1] == [self.holder.rpartition("/")[2]]


@dataclass(frozen=True)
class Home:
    """The dataset that a hierarchy is, or is a group of.

    Attributes
    ----------
    dataset : str or None
        Its identity; None if nothing names it, as before version 3.2.
    fqn : str or None
        The FQN of the group at the root of the hierarchy; None for a group whose FQN is not known.
    copy : Copy or None
        The copy that stands for the record of this group, if its keys are gone.
    unclear : bool
        True if several records may be that of this group: none counts.
    """

    dataset: str | None
    fqn: str | None = "/"
    copy: Copy | None = None
    unclear: bool = False

    @property
    def is_part(self) -> bool:
        """True if the hierarchy is a group of a dataset, not the dataset."""
        return self.fqn != "/"

    def has(self, metadata: ArrayMetadata | GroupMetadata) -> bool:
        """False if a node says that it belongs to another dataset."""
        return self.dataset is None or dataset_of(metadata) in (None, self.dataset)


def dataset_of(metadata: ArrayMetadata | GroupMetadata) -> str | None:
    """Return the identity of the dataset that a node names as its own; None if it names none.

    Examples
    --------
    >>> dataset_of(GroupMetadata({"_nczarr_group": {"fqn": "/g", "dataset": "5f"}}))
    '5f'
    """
    if isinstance(metadata, GroupMetadata):
        return _dataset_of_record(group_keys(metadata)[0])
    own = metadata.extra.get(EXTENSION_NAME)
    configuration = own.get("configuration") if isinstance(own, dict) else None
    return _text(configuration.get(DATASET)) if isinstance(configuration, dict) else None


def new_identity(dataset: Dataset, content: Any) -> str:
    """Return the identity of a new dataset.

    That of a dataset with variables follows from its name and metadata, so that the same copy gives the same bytes.
    One without variables is still to be filled: it gets a random identity.

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
    if not dataset.all_variables:
        return uuid.uuid4().hex
    text = json.dumps([dataset.name, content], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def find_copies(hierarchy: Hierarchy, keys: Mapping[str, Mapping[str, Any]]) -> Iterator[Copy]:
    """Yield all copies of records in the order of the arrays.

    Parameters
    ----------
    hierarchy : Hierarchy
    keys : mapping
        NCZarr's keys of each array, by path.
    """
    for path, own in keys.items():
        if COPY_KEY in own:
            for fqn, record in copies_of(own[COPY_KEY]).items():
                metadata = hierarchy.nodes[path]
                yield Copy(path, _dataset_of_record(record) or dataset_of(metadata), fqn, record)


def find_home(hierarchy: Hierarchy, unknown: Mapping[str, str]) -> Home | None:
    """Return the dataset that a hierarchy is, or is a group of; None if it is not NCZarr.

    Parameters
    ----------
    hierarchy : Hierarchy
    unknown : mapping
        The nodes that cannot be opened, as keys.

    Raises
    ------
    UnsupportedError
        If the keys are those of netCDF-C's draft for Zarr v3.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> from nczarr.zarr import create_hierarchy
    >>> record = {"fqn": "/ocean", "dataset": "5f"}
    >>> find_home(create_hierarchy(MemoryStore(), attributes={"_nczarr_group": record}), {})
    Home(dataset='5f', fqn='/ocean', copy=None, unclear=False)
    """
    root = hierarchy.nodes[""]
    if not isinstance(root, GroupMetadata):
        return None
    keys, wrong = group_keys(root)
    if SUPERBLOCK_KEY in root.attributes or SUPERBLOCK_KEY in keys:
        superblock = keys.get(SUPERBLOCK_KEY, {})
        _refuse_draft_of_netcdf_c(hierarchy, root, superblock, unknown)
        return Home(_text(superblock.get(DATASET)) or _only_dataset(hierarchy, unknown))
    record = keys.get(GROUP_KEY, {})
    fqn = record.get(FQN)
    if _is_fqn(fqn):
        return Home(_text(record.get(DATASET)), fqn)
    found = _found_by_arrays(hierarchy, unknown)
    if GROUP_KEY not in keys:
        return found or (Home(None) if wrong else None)
    if found is not None and found.copy is not None:
        return Home(found.dataset, found.copy.fqn)
    # Before version 3.2 every root had a superblock, and no group its FQN.
    return Home(None, None)


def _found_by_arrays(hierarchy: Hierarchy, unknown: Mapping[str, str]) -> Home | None:
    """The dataset of a hierarchy whose root says nothing: that of a copy whose nodes are there, or of most arrays."""
    arrays: dict[str, ArrayMetadata] = {}
    for path in hierarchy.nodes:
        if path not in unknown and hierarchy.is_array(path):
            metadata = hierarchy.nodes[path]
            assert isinstance(metadata, ArrayMetadata)
            arrays[path] = metadata
    # Version 3.0 has its keys among the attributes, which show nothing without those of the root.
    keys = {p: array_keys(m)[0] if m.extra or m.extensions else {} for p, m in arrays.items()}
    if not any(keys.values()):
        return None
    copies = list(find_copies(hierarchy, keys))
    candidates = [c for c in copies if "/" not in c.holder and c.is_in_place]
    in_place = {c.dataset for c in candidates}
    candidates += [c for c in copies if c.fqn == "/" and c.dataset not in in_place]
    seen: dict[str, Copy] = {}
    for copy in candidates:  # the same record counts once
        seen.setdefault(json.dumps([copy.dataset, copy.fqn, copy.record], sort_keys=True), copy)
    at_home = [(c, whole) for c in seen.values() if (whole := _is_at_home(c, hierarchy, arrays)) is not None]
    if len(at_home) > 1:
        at_home = [pair for pair in at_home if pair[1]] or at_home
    if len(at_home) == 1:
        copy = at_home[0][0]
        return Home(copy.dataset, copy.fqn, copy)
    if at_home:
        return Home(None, unclear=True)
    told = {path: dataset_of(metadata) for path, metadata in arrays.items() if keys[path]}
    most = [d for d in dict.fromkeys(told.values()) if 2 * list(told.values()).count(d) > len(arrays)]
    return Home(most[0]) if most else None


def _is_at_home(copy: Copy, hierarchy: Hierarchy, arrays: Mapping[str, ArrayMetadata]) -> bool | None:
    """Tell whether the root of a hierarchy is the group of a record: True if all nodes that it lists are there.

    False if some are not, but most are, and they are not fewer than the nodes that it does not list. None if not.
    """
    info = copy.record.get(GROUP_KEY, {})
    groups = info.get("groups")
    listed = [*copy.listed, *(groups if isinstance(groups, list) else ())]
    members = 0
    for name in listed:
        if isinstance(name, str) and name in hierarchy.nodes:
            metadata = arrays.get(name)
            members += metadata is None or dataset_of(metadata) in (None, copy.dataset)
    others = sum("/" not in path for path in hierarchy.nodes if path) - members
    missing = len(listed) - members
    if (listed and missing >= members) or members < others:
        return None
    return missing == 0


def _only_dataset(hierarchy: Hierarchy, unknown: Mapping[str, str]) -> str | None:
    """The dataset that most arrays name, if they name no other: nczarr before 3.2 has written the root since."""
    told = [
        dataset_of(hierarchy.nodes[path])
        for path in hierarchy.nodes
        if path not in unknown and hierarchy.is_array(path)
    ]
    named = {d for d in told if d is not None}
    return named.pop() if len(named) == 1 and 2 * told.count(None) <= len(told) else None


def _refuse_draft_of_netcdf_c(
    hierarchy: Hierarchy, root: GroupMetadata, superblock: Mapping[str, Any], unknown: Mapping[str, str]
) -> None:
    """Refuse the keys of netCDF-C's draft, which have the same names and another meaning.

    Raises
    ------
    UnsupportedError
    """
    version = superblock.get("version")
    conventions = root.attributes.get(CONVENTION_KEY)
    declared = isinstance(conventions, list) and any(
        isinstance(c, dict) and c.get("uuid") == CONVENTION["uuid"] for c in conventions
    )
    if superblock.get(MARK) == CONVENTION["uuid"] or declared:
        return
    if not (isinstance(version, str) and version.startswith("3.0")):
        return
    signs = [f"{SUPERBLOCK_KEY}.format"] if type(superblock.get("format")) is int else []
    for path in hierarchy.nodes:
        if path not in unknown:
            signs += _signs_of_netcdf_c(hierarchy.nodes[path].attributes)
    if signs:
        raise UnsupportedError(
            f"the keys are those of netCDF-C's draft of NCZarr for Zarr v3, not of this convention: {signs[0]}",
            path=hierarchy.store.place("zarr.json"),
            hint="a Zarr library reads its arrays; netCDF-C's own NCZarr on Zarr v2 is read here",
        )


def _signs_of_netcdf_c(attributes: Mapping[str, Any]) -> list[str]:
    """What the attributes of a node have that only netCDF-C's draft has."""
    signs = [_ATTRIBUTES_OF_NETCDF_C] if _ATTRIBUTES_OF_NETCDF_C in attributes else []
    for key, members in _DRAFT_OF_NETCDF_C.items():
        info = attributes.get(key)
        if isinstance(info, dict):
            signs += [f"{key}.{member}" for member in members if member in info]
    record = attributes.get(GROUP_KEY)
    dimensions = record.get("dimensions") if isinstance(record, dict) else None
    if isinstance(dimensions, list):  # version 3.0 of this convention has an object
        signs.append(f"{GROUP_KEY}.dimensions is a list")
    elif isinstance(dimensions, dict) and any(
        isinstance(d, dict) and type(d.get("unlimited")) is int for d in dimensions.values()
    ):
        signs.append(f"{GROUP_KEY}.dimensions has unlimited as a number")
    return signs


def _dataset_of_record(record: Mapping[str, Any]) -> str | None:
    return _text(record.get(SUPERBLOCK_KEY, {}).get(DATASET)) or _text(record.get(GROUP_KEY, {}).get(DATASET))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _is_fqn(value: Any) -> bool:
    """True for the FQN of a group below the root."""
    if not isinstance(value, str) or value == "/":
        return False
    try:
        return bool(parse_fqn(value))
    except ModelError:
        return False

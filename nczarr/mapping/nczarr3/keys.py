"""Find NCZarr's keys in the documents of Zarr v3 (``docs/spec/nczarr-v3.md``, *Carriers*).

Groups have them as attributes, which xarray hides there. Arrays have them as the configuration of a top-level
object, as xarray shows every attribute of an array. Version 3.0 had attributes on both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nczarr.mapping.values.attributes import ATTR_KEY
from nczarr.mapping.values.json import show
from nczarr.system.environment import read_json
from nczarr.zarr import ArrayMetadata, GroupMetadata

SUPERBLOCK_KEY = "_nczarr_superblock"
GROUP_KEY = "_nczarr_group"
ARRAY_KEY = "_nczarr_array"
#: The groups' records once more, as text in arrays: other programs replace all attributes of a group at once.
COPY_KEY = "_nczarr_copy"
CONVENTION_KEY = "zarr_conventions"
#: The name of the top-level object, and of the entry in ZEP 10's list.
EXTENSION_NAME = "nczarr"

VERSION = "3.2.0"
#: The member that names the dataset: of the superblock, of a group's record, of an array's configuration.
DATASET = "dataset"
#: The member of a group's record that has the group's own FQN.
FQN = "fqn"
#: The member of the superblock that tells this convention from others with the same keys.
MARK = "convention"
NZUG = "NZUG-1.0"
CONVENTION: Mapping[str, str] = {
    "uuid": "4058cf9a-85c0-4aeb-a3e4-72f486c51814",
    "name": "nczarr",
    "description": "The netCDF-4 data model on Zarr v3",
}

_GROUP_KEYS = frozenset((SUPERBLOCK_KEY, GROUP_KEY, ATTR_KEY))
_ARRAY_KEYS = frozenset((ARRAY_KEY, ATTR_KEY, COPY_KEY))


def has_object(metadata: ArrayMetadata) -> bool:
    """True if an array carries NCZarr's keys as version 3.1 does."""
    return EXTENSION_NAME in metadata.extra


def array_keys(metadata: ArrayMetadata) -> tuple[dict[str, Any], list[str]]:
    """Return NCZarr's keys of an array, and what is wrong with them; a key that is wrong is left out.

    The top-level object wins over ZEP 10's list, and both over attributes.

    Examples
    --------
    >>> from nczarr.zarr.types.registry import data_type_for
    >>> from nczarr.zarr.grids import RegularGrid
    >>> array_keys(ArrayMetadata((), data_type_for("int8"), RegularGrid(()), extra={"nczarr": {"configuration": 1}}))
    ({}, ['nczarr.configuration: 1 is not an object'])
    """
    wrong: list[str] = []
    found = _of_attributes(metadata, _ARRAY_KEYS)
    if metadata.extensions:
        found.update(_of_extensions(metadata, _ARRAY_KEYS))
    if metadata.extra:
        found.update(_of_object(metadata, _ARRAY_KEYS, wrong))
    for key in [k for k, v in found.items() if not isinstance(v, str if k == COPY_KEY else dict)]:
        wrong.append(f"{key}: {show(found.pop(key))} is not {'text' if key == COPY_KEY else 'an object'}")
    return found, wrong


def group_keys(metadata: GroupMetadata) -> tuple[dict[str, Any], list[str]]:
    """Return NCZarr's keys of a group, and what is wrong with them; attributes win.

    Examples
    --------
    >>> group_keys(GroupMetadata({"_nczarr_group": {"groups": ["g"]}, "title": "x"}))
    ({'_nczarr_group': {'groups': ['g']}}, [])
    """
    wrong: list[str] = []
    found = _of_object(metadata, _GROUP_KEYS, wrong)
    found.update(_of_extensions(metadata, _GROUP_KEYS))
    found.update(_of_attributes(metadata, _GROUP_KEYS))
    for key in [k for k, v in found.items() if not isinstance(v, dict)]:
        wrong.append(f"attributes.{key}: {show(found.pop(key))} is not an object")
    return found, wrong


def _of_attributes(metadata: ArrayMetadata | GroupMetadata, keys: frozenset[str]) -> dict[str, Any]:
    attributes = metadata.attributes
    return {k: attributes[k] for k in keys if k in attributes} if not keys.isdisjoint(attributes) else {}


def _of_extensions(metadata: ArrayMetadata | GroupMetadata, keys: frozenset[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for extension in metadata.extensions:
        if extension.name == EXTENSION_NAME:
            found.update({k: v for k, v in extension.configuration.items() if k in keys})
    return found


def _of_object(
    metadata: ArrayMetadata | GroupMetadata, keys: frozenset[str], wrong: list[str]
) -> dict[str, Any]:
    own = metadata.extra.get(EXTENSION_NAME)
    if own is None:
        return {}
    configuration = own.get("configuration") if isinstance(own, dict) else None
    if not isinstance(configuration, dict):
        wrong.append(f"{EXTENSION_NAME}.configuration: {show(configuration)} is not an object")
        return {}
    version = configuration.get("version", VERSION)
    if not is_known_version(version):
        wrong.append(f"{EXTENSION_NAME}.configuration.version: {show(version)} is not a version 3")
        return {}
    return {k: v for k, v in configuration.items() if k in keys}


def is_known_version(version: Any) -> bool:
    """True for a version 3.

    Examples
    --------
    >>> is_known_version("3.1.0"), is_known_version("4.0.0"), is_known_version(3)
    (True, False, False)
    """
    return isinstance(version, str) and version.partition(".")[0] == "3"


def copies_of(text: str) -> dict[str, dict[str, Any]]:
    """Return the groups' records in a copy, by FQN; those that are damaged are left out.

    Examples
    --------
    >>> copies_of('{"/g": {"_nczarr_group": {"arrays": ["v"]}}}'), copies_of("{")
    ({'/g': {'_nczarr_group': {'arrays': ['v']}}}, {})
    """
    try:
        records = read_json(text)
    except ValueError:
        return {}
    if not isinstance(records, dict):
        return {}
    return {
        fqn: {k: v for k, v in record.items() if k in _GROUP_KEYS and isinstance(v, dict)}
        for fqn, record in records.items()
        if isinstance(record, dict)
    }

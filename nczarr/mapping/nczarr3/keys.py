"""The vocabulary of NCZarr on Zarr v3, shared by its reader and its writer (``docs/spec/nczarr-v3.md``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nczarr.errors import MetadataError
from nczarr.mapping.nczarr3.attributes import ATTR_KEY
from nczarr.mapping.values.json import show
from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata

SUPERBLOCK_KEY = "_nczarr_superblock"
GROUP_KEY = "_nczarr_group"
ARRAY_KEY = "_nczarr_array"
CONVENTION_KEY = "zarr_conventions"
#: The name of the extension object, and of the entry in ZEP 10's list.
EXTENSION_NAME = "nczarr"

VERSION = "3.0.0"
NZUG = "NZUG-1.0"
CONVENTION: Mapping[str, str] = {
    "uuid": "4058cf9a-85c0-4aeb-a3e4-72f486c51814",
    "name": "nczarr",
    "description": "The netCDF-4 data model on Zarr v3",
}

_KEYS = (SUPERBLOCK_KEY, GROUP_KEY, ARRAY_KEY, ATTR_KEY)


def nczarr_keys(metadata: ArrayMetadata | GroupMetadata) -> dict[str, Any]:
    """Return NCZarr's keys of a node, wherever they stand.

    They are attributes; the configuration of the extension ``nczarr``, in ZEP 10's list or as a key of its own,
    holds them too in some files. Attributes win.

    Raises
    ------
    MetadataError
        If one of them is not an object.

    Examples
    --------
    >>> nczarr_keys(GroupMetadata({"_nczarr_group": {"groups": ["g"]}, "title": "x"}))
    {'_nczarr_group': {'groups': ['g']}}
    """
    found: dict[str, Any] = {}
    for extension in metadata.extensions:
        if extension.name == EXTENSION_NAME:
            found.update({k: v for k, v in extension.configuration.items() if k in _KEYS})
    own = metadata.extra.get(EXTENSION_NAME)
    if isinstance(own, dict) and isinstance(own.get("configuration"), dict):
        found.update({k: v for k, v in own["configuration"].items() if k in _KEYS})
    found.update({k: v for k, v in metadata.attributes.items() if k in _KEYS})
    for key, value in found.items():
        if not isinstance(value, dict):
            raise MetadataError(f"attributes.{key}: {show(value)} is not an object")
    return found

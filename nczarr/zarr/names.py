"""Check the names and paths of nodes by the rules of Zarr v3, v2 and the 2019 draft.

A path is the names of a node and its ancestors with ``/`` between them; the root's path is empty.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from nczarr.errors import ZarrNameError

_DRAFT = re.compile(r"[A-Za-z0-9\-_.]+")
_PERIODS = re.compile(r"\.+")
#: A path that needs no closer look.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]*(?:/[A-Za-z0-9][A-Za-z0-9_.\-]*)*")
_RESERVED = ("zarr.json",)
_RESERVED_V2 = (".zarray", ".zgroup", ".zattrs", ".zmetadata")


def check_name(name: str, *, writing: bool = True, layout: str = "v3") -> str | None:
    """Say why `name` cannot be the name of a node; None if it can.

    Parameters
    ----------
    writing : bool
        False: tolerate what other writers produce, names that begin with ``__``.
    layout : str
        ``v3``, ``v2``, ``draft-2019`` or ``experimental-v3``.

    Examples
    --------
    >>> check_name("sea surface")
    >>> check_name("..")
    "the name '..' is only periods"
    >>> check_name("__x")
    "the name '__x' begins with '__', which Zarr reserves"
    """
    if layout == "draft-2019" and writing:
        return check_draft_name(name)
    if not name:
        return "the name is empty"
    if "/" in name:
        return f"the name {name!r} has a '/'"
    if "\0" in name or any("\ud800" <= c <= "\udfff" for c in name):
        return f"the name {name!r} has a character that no store can hold"
    if _PERIODS.fullmatch(name):
        return f"the name {name!r} is only periods"
    if layout == "v3":
        if name in _RESERVED:
            return f"the name {name!r} is the name of a metadata document"
        if writing and name.startswith("__"):
            return f"the name {name!r} begins with '__', which Zarr reserves"
    if layout == "v2" and name in _RESERVED_V2:
        return f"the name {name!r} is the name of a metadata document"
    return None


def check_draft_name(name: str) -> str | None:
    """Say why `name` cannot be the name of a node in the 2019 draft; None if it can.

    Examples
    --------
    >>> check_draft_name("sea surface")
    "the name 'sea surface' has characters other than A-Z a-z 0-9 - _ ."
    """
    if not name:
        return "the name is empty"
    if not _DRAFT.fullmatch(name):
        return f"the name {name!r} has characters other than A-Z a-z 0-9 - _ ."
    if _PERIODS.fullmatch(name):
        return f"the name {name!r} is only periods"
    if len(name) > 255:
        return f"the name {name[:20]!r}… is longer than 255 characters"
    return None


def split_path(path: str) -> list[str]:
    """Return the names in a path.

    Examples
    --------
    >>> split_path("g/v"), split_path("")
    (['g', 'v'], [])
    """
    return path.split("/") if path else []


def parent_path(path: str) -> str:
    """Return the path of the parent of a node.

    Examples
    --------
    >>> parent_path("g/v"), parent_path("v")
    ('g', '')
    """
    return path.rpartition("/")[0]


def check_path(path: str, *, writing: bool = True, layout: str = "v3", document: str | None = None) -> str:
    """Return a path if all its names are legal.

    Raises
    ------
    ZarrNameError
        If one is not.

    Examples
    --------
    >>> check_path("g/../v")
    Traceback (most recent call last):
    nczarr.errors.ZarrNameError: 'g/../v' is not a path: the name '..' is only periods
    """
    if _PLAIN_PATH.fullmatch(path) and layout in ("v3", "v2") and "zarr.json" not in path:
        return path
    for name in split_path(path):
        if problem := check_name(name, writing=writing, layout=layout):
            raise ZarrNameError(f"{path!r} is not a path: {problem}", path=document)
    return path


def check_siblings(path: str, folded: Mapping[str, str]) -> None:
    """Refuse a new node that differs from a sibling, or an ancestor's sibling, only in case (2019 draft).

    Parameters
    ----------
    path : str
        The path of the new node.
    folded : mapping
        All paths that exist, by their lower-case form.

    Raises
    ------
    ZarrNameError

    Examples
    --------
    >>> check_siblings("g/Temp", {"g": "g", "g/temp": "g/temp"})
    Traceback (most recent call last):
    nczarr.errors.ZarrNameError: the path 'g/Temp' differs from 'g/temp' only in case (the 2019 draft forbids that)
    """
    names = split_path(path)
    for i in range(1, len(names) + 1):
        part = "/".join(names[:i])
        other = folded.get(part.lower(), part)
        if other != part:
            raise ZarrNameError(
                f"the path {part!r} differs from {other!r} only in case",
                hint="the 2019 draft forbids that",
            )


def check_paths(paths: Collection[str], *, document: str) -> None:
    """Check the paths of nodes of version 3 that were read, as :func:`check_path` does, all at once.

    Raises
    ------
    ZarrNameError
        If one is not a path.

    Examples
    --------
    >>> check_paths(["g", "g/v", "__w"], document="zarr.json")
    """
    together = "/".join(paths)  # plain only if each one is
    if not _PLAIN_PATH.fullmatch(together) or "zarr.json" in together:
        for path in paths:
            check_path(path, writing=False, document=document)

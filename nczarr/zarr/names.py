"""Check the names and paths of nodes by the rules of Zarr v3, v2 and the 2019 draft.

A path consists of the names of a node's ancestors and of the node, joined by ``/``; the root's path is empty.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import accumulate

from nczarr.errors import MetadataError
from nczarr.lazy import pattern

_DRAFT = pattern(r"[A-Za-z0-9\-_.]+")
_PERIODS = pattern(r"\.+")
#: Paths that are valid without further checks.
_PLAIN_PATH = pattern(r"[A-Za-z0-9][A-Za-z0-9_.\-]*(?:/[A-Za-z0-9][A-Za-z0-9_.\-]*)*")
_RESERVED = {"v3": ("zarr.json",), "v2": (".zarray", ".zgroup", ".zattrs", ".zmetadata")}


def check_name(name: str, *, writing: bool = True, layout: str = "v3") -> str | None:
    """Return the reason why `name` is not a valid name of a node; None if it is valid.

    Parameters
    ----------
    writing : bool
        False: also accept names of other writers that begin with ``__``.
    layout : str
        ``v3``, ``v2``, ``draft-2019`` or ``experimental-v3``.

    Examples
    --------
    >>> check_name("sea surface")
    >>> check_name("..")
    "the name '..' consists only of periods"
    >>> check_name("__x")
    "the name '__x' begins with '__', which Zarr reserves"
    >>> check_name("sea surface", layout="draft-2019")
    "the name 'sea surface' contains characters other than A-Z a-z 0-9 - _ ."
    """
    if not name:
        return "the name is empty"
    if layout == "draft-2019" and writing and not _DRAFT.fullmatch(name):
        return f"the name {name!r} contains characters other than A-Z a-z 0-9 - _ ."
    if layout == "draft-2019" and writing and len(name) > 255:
        return f"the name {name[:20]!r}… is longer than 255 characters"
    if "/" in name:
        return f"the name {name!r} contains '/'"
    # A path ends at a NUL, and UTF-8 has no half of a surrogate pair.
    if "\0" in name or any("\ud800" <= c <= "\udfff" for c in name):
        return f"the name {name!r} contains a character that no store supports"
    # '..' is the directory above.
    if _PERIODS.fullmatch(name):
        return f"the name {name!r} consists only of periods"
    if name in _RESERVED.get(layout, ()):
        return f"the name {name!r} is the name of a metadata document"
    if layout == "v3" and writing and name.startswith("__"):
        return f"the name {name!r} begins with '__', which Zarr reserves"
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
    """Return a path if all its names are valid.

    Raises
    ------
    MetadataError
        If a name is invalid.

    Examples
    --------
    >>> check_path("g/../v")
    Traceback (most recent call last):
    nczarr.errors.MetadataError: 'g/../v' is not a valid path: the name '..' consists only of periods
    """
    if _PLAIN_PATH.fullmatch(path) and layout in ("v3", "v2") and "zarr.json" not in path:
        return path
    for name in split_path(path):
        if problem := check_name(name, writing=writing, layout=layout):
            raise MetadataError(f"{path!r} is not a valid path: {problem}", path=document)
    return path


def check_siblings(path: str, folded: Mapping[str, str]) -> None:
    """Check that no sibling of a new node or of its ancestors differs only in case (2019 draft).

    Parameters
    ----------
    path : str
        The path of the new node.
    folded : mapping
        All existing paths by their lower-case form.

    Raises
    ------
    MetadataError
        If such a sibling exists.

    Examples
    --------
    >>> check_siblings("g/Temp", {"g": "g", "g/temp": "g/temp"})
    Traceback (most recent call last):
    nczarr.errors.MetadataError: the path 'g/Temp' differs from 'g/temp' only in case (the 2019 draft forbids this)
    """
    for part in accumulate(split_path(path), "{}/{}".format):
        other = folded.get(part.lower(), part)
        if other != part:
            raise MetadataError(
                f"the path {part!r} differs from {other!r} only in case", hint="the 2019 draft forbids this"
            )


def check_paths(paths: Collection[str], *, document: str) -> None:
    """Check many paths of existing version 3 nodes at once; see :func:`check_path`.

    Raises
    ------
    MetadataError
        If a path is invalid.

    Examples
    --------
    >>> check_paths(["g", "g/v", "__w"], document="zarr.json")
    """
    together = "/".join(paths)  # matches only if every path matches
    if not _PLAIN_PATH.fullmatch(together) or "zarr.json" in together:
        for path in paths:
            check_path(path, writing=False, document=document)

"""Compare the nodes in consolidated metadata with the names that a store lists, exactly by name.

Consolidated metadata are a copy: a folder that another program removes, renames or loses stays in it, and all chunks of
such an array would read as fill values. A directory, a zip file and a store in memory know all their names, so the
comparison costs no request. A directory also shows which documents are newer than the copy.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from unicodedata import normalize

from nczarr.errors import StoreError
from nczarr.stores import LocalStore, Store
from nczarr.system.failures import system_error
from nczarr.zarr.hierarchy.layouts import Found, Layout, RawNode, join_key
from nczarr.zarr.names import parent_path

#: The errors of a system call on a path that does not exist.
_NOT_THERE = (FileNotFoundError, NotADirectoryError)


@dataclass(frozen=True)
class Survey:
    """The result of a comparison, each part as paths of nodes.

    Attributes
    ----------
    missing : dict
        Nodes in the copy of which the store lists nothing, True for arrays; parents come before children.
    outdated : tuple of str
        Nodes whose documents are newer than the copy, removed, or not in it.
    """

    missing: dict[str, bool]
    outdated: tuple[str, ...] = ()


def knows_names(store: Store) -> bool:
    """Return whether a store tells all its names without a request, so that a survey is possible."""
    return store.is_local or store.lists_free


def survey(layout: Layout, found: Found) -> Found:
    """Return the nodes of consolidated metadata without those that are missing, which are named.

    The result is unchanged if a listing of the store would cost requests, or promises nothing.

    Raises
    ------
    StoreError
        If the directory cannot be read.
    """
    store = layout.store
    if not knows_names(store):
        return found
    if isinstance(store, LocalStore):
        seen = _survey_files(store, layout, found.nodes)
    else:
        seen = _survey_keys(store, layout, found.nodes)
    nodes = found.nodes
    if seen.missing:
        nodes = {path: node for path, node in nodes.items() if path not in seen.missing}
    return replace(found, nodes=nodes, missing=seen.missing, outdated=seen.outdated)


def _survey_keys(store: Store, layout: Layout, nodes: dict[str, RawNode]) -> Survey:
    lost = [path for path, node in nodes.items() if path and node.consolidated]
    for name in layout.defining_names:
        there = store.exist_many([f"{path}/{name}" for path in lost])
        lost = [path for path, is_there in zip(lost, there, strict=True) if not is_there]
    return Survey({path: nodes[path].is_array for path in _without_keys(store.list(), lost)} if lost else {})


def _without_keys(keys: Iterable[str], paths: Collection[str]) -> Iterable[str]:
    """Return the paths below which there is no key; all keys are read once.

    Some programs write consolidated metadata only: then chunks show that an array exists.
    """
    empty = dict.fromkeys(paths)
    for key in keys:
        for folder in accumulate(key.split("/")[:-1], "{}/{}".format):
            empty.pop(folder, None)
    return empty


def _survey_files(store: LocalStore, layout: Layout, nodes: dict[str, RawNode]) -> Survey:
    root = str(store.root)
    try:
        copied = os.stat(f"{root}/{layout.copies_key}").st_mtime_ns
    except OSError as error:
        raise system_error("read", store.place(layout.copies_key), error) from error
    children: dict[str, list[str]] = {"": []}
    for path, node in nodes.items():
        if path:
            children[parent_path(path)].append(path)
        if not node.is_array:
            children.setdefault(path, [])
    missing: dict[str, bool] = {}
    outdated: list[str] = []
    # The root of version 2 is written together with the copy; other versions have the copy in the root.
    if layout.copies_key not in layout.document_names and _newest(root, layout) > copied:
        outdated.append("")
    for group, below in children.items():
        if group in missing:
            missing.update({path: nodes[path].is_array for path in below})
            continue
        try:
            listed = _list_folder(store, group)
        except PermissionError:
            # The folder exists, and reading its values reports the error. The rest of the dataset stays readable.
            continue
        for path in below:
            name = path.rpartition("/")[2]
            try:
                if not _is_listed(name, listed):
                    missing[path] = nodes[path].is_array
                elif _newest(f"{root}/{path}", layout) > copied:
                    outdated.append(path)
            except _NOT_THERE:
                if _is_empty(store, path):
                    missing[path] = nodes[path].is_array
                elif nodes[path].consolidated:
                    outdated.append(path)
            except PermissionError:
                continue
            except OSError as error:
                raise system_error("read", store.place(path), error) from error
        known = {path.rpartition("/")[2] for path in below}
        for name in listed.keys() - known:
            path = join_key(group, name)
            documents = [] if name.startswith(".") else layout.defining_names
            if any(os.path.exists(f"{root}/{path}/{document}") for document in documents):
                outdated.append(path)
    return Survey(missing, tuple(outdated))


def _list_folder(store: LocalStore, group: str) -> dict[str, os.DirEntry[str]]:
    """Return the entries of a group's folder by name; none if it has disappeared."""
    try:
        with os.scandir(f"{store.root}/{group}") as entries:
            return {entry.name: entry for entry in entries}
    except _NOT_THERE:
        return {}
    except PermissionError:
        raise
    except OSError as error:
        raise system_error("list", store.place(group), error) from error


def _is_empty(store: LocalStore, path: str) -> bool:
    """Return whether there is no file below a path; what cannot be listed is not known to be missing."""
    try:
        return next(iter(store.list(path)), None) is None
    except StoreError:  # for example a link to a disk that is not mounted: reading the values reports it
        return False


def _is_listed(name: str, listed: Collection[str]) -> bool:
    """Return whether a folder lists a name.

    A file system that ignores case answers for `t` with the file `T`, so only the listing tells them apart. HFS+ lists
    each name in Unicode's form NFD and finds it in any form; elsewhere a file of another form is not found later.
    """
    return name in listed or (
        not name.isascii() and normalize("NFD", name) in (normalize("NFD", other) for other in listed)
    )


def _newest(folder: str, layout: Layout) -> int:
    """Return the time of a node's newest document; raise FileNotFoundError if it has none that defines a node."""
    first, *others = layout.document_names
    if not others:
        return os.stat(f"{folder}/{first}").st_mtime_ns
    times = []
    for name in layout.document_names:
        with suppress(FileNotFoundError):
            times.append(os.stat(f"{folder}/{name}").st_mtime_ns)
        if name != first and not times:
            raise FileNotFoundError(folder)
    return max(times)

"""Compare the nodes in consolidated metadata with the names that a store lists, exactly by name.

Consolidated metadata are a copy: a folder that another program removes, renames or loses stays in it, and all chunks of
such an array would read as fill values. A directory, a zip file and a store in memory know all their names, so the
comparison costs no request. A directory also shows which documents are newer than the copy. That costs a system call
for each, five times as much as the names, so only who uses the documents asks for it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate
from unicodedata import normalize

from nczarr.stores import LocalStore, Store
from nczarr.system.failures import system_error
from nczarr.zarr.hierarchy.layouts import Found, Layout, RawNode, join_key

#: The errors of a system call on a path that does not exist.
_NOT_THERE = (FileNotFoundError, NotADirectoryError)


def survey(layout: Layout, found: Found) -> Found:
    """Return the nodes of consolidated metadata without those of which the store has no name; these are named.

    The result is unchanged if a listing of the store would cost requests, or promises nothing.

    Raises
    ------
    StoreError
        If the directory cannot be read.
    """
    store, nodes = layout.store, found.nodes
    if isinstance(store, LocalStore):
        missing: Collection[str] = list(_without_folder(store, nodes))
    elif store.lists_free:
        missing = _without_key(store, layout, nodes)
    else:
        return found
    if not missing:
        return found
    rest = {path: node for path, node in nodes.items() if path not in set(missing)}
    return replace(found, nodes=rest, missing={path: nodes[path].is_array for path in missing})


def outdated_nodes(layout: Layout, nodes: Mapping[str, RawNode]) -> Iterator[str]:
    """Yield the nodes of a directory whose documents are newer than its consolidated metadata, removed, or new.

    Raises
    ------
    StoreError
        If the directory cannot be read.
    """
    store = layout.store
    if not isinstance(store, LocalStore):
        return
    root = str(store.root)
    try:
        copied = os.stat(f"{root}/{layout.copies_key}").st_mtime_ns
    except OSError as error:
        raise system_error("read", store.place(layout.copies_key), error) from error
    # The root of version 2 is written together with the copy; other versions have the copy in the root.
    if layout.copies_key not in layout.document_names and _newest(root, layout) > copied:
        yield ""
    only = layout.document_names[0] if len(layout.document_names) == 1 else None
    for group, members in _members(nodes).items():
        for path in members.values():
            try:  # a call of `_newest` for each node would take as long as the system's answer
                if (
                    os.stat(f"{root}/{path}/{only}").st_mtime_ns
                    if only
                    else _newest(f"{root}/{path}", layout)
                ) > copied:
                    yield path
            except _NOT_THERE:
                if nodes[path].consolidated:
                    yield path
            except PermissionError:
                continue  # reading the values reports it, and the rest of the dataset stays readable
            except OSError as error:
                # Any error of the system was taken for a dataset without changes.
                raise system_error("read", store.place(path), error) from error
        for name in _list_folder(store, group) or ():
            if name not in members and not name.startswith("."):
                folder = f"{root}/{join_key(group, name)}"
                # A folder that was emptied is still listed.
                if any(os.path.exists(f"{folder}/{document}") for document in layout.defining_names):
                    yield join_key(group, name)


def _without_key(store: Store, layout: Layout, nodes: Mapping[str, RawNode]) -> Collection[str]:
    """Return the nodes without a document or a key below them; all keys are read once.

    Some programs write consolidated metadata only: then chunks show that an array exists.
    """
    lost = [path for path, node in nodes.items() if path and node.consolidated]
    for name in layout.defining_names:
        there = store.exist_many([f"{path}/{name}" for path in lost])
        lost = [path for path, is_there in zip(lost, there, strict=True) if not is_there]
    empty = dict.fromkeys(lost)
    for key in store.list() if lost else ():
        for folder in accumulate(key.split("/")[:-1], "{}/{}".format):
            empty.pop(folder, None)
    return empty


def _without_folder(store: LocalStore, nodes: Mapping[str, RawNode]) -> Iterator[str]:
    """Yield the nodes that the folder of their group does not list; parents come before children."""
    missing: set[str] = set()
    for group, members in _members(nodes).items():
        if not members:
            continue
        listed = set[str]() if group in missing else _list_folder(store, group)
        if listed is None:  # it exists, and reading its values reports the error; the rest stays readable
            continue
        if listed.issuperset(members):
            continue
        lost = [path for name, path in members.items() if not _is_listed(name, listed)]
        missing.update(lost)
        yield from lost


def _members(nodes: Mapping[str, RawNode]) -> dict[str, dict[str, str]]:
    """Return the paths of the members of each group by their names; parents come before children."""
    if "/" not in "".join(nodes):  # most hierarchies
        below = dict(zip(nodes, nodes, strict=True))
        below.pop("", None)
        return {"": below, **{path: {} for path in below if not nodes[path].is_array}}
    members: dict[str, dict[str, str]] = {"": {}}
    for path, node in nodes.items():
        if path:
            group, _, name = path.rpartition("/")
            members[group][name] = path
            if not node.is_array:
                members[path] = {}
    return members


def _list_folder(store: LocalStore, group: str) -> set[str] | None:
    """Return the names in a group's folder; none if it has disappeared, None if it cannot be listed."""
    try:
        return set(os.listdir(f"{store.root}/{group}"))
    except _NOT_THERE:
        return set()
    # A folder that cannot be listed tells nothing: its nodes count as present.
    except PermissionError:
        return None
    except OSError as error:
        raise system_error("list", store.place(group), error) from error


def _is_listed(name: str, listed: Collection[str]) -> bool:
    """Return whether a folder lists a name, perhaps in another form of Unicode.

    A file system that ignores case answers for `t` with the file `T`, so only the listing tells them apart. HFS+ lists
    each name in Unicode's form NFD and finds it in any form; elsewhere a file of another form is not found later.
    """
    if name in listed or name.isascii():
        return name in listed
    return normalize("NFD", name) in (normalize("NFD", other) for other in listed)


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

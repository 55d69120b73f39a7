"""Move arrays to other places, so that what was interrupted can be gone on with.

An array is copied, chunks first, before the one at its old place goes. Where one array moves to the place of another
that moves too (two variables exchange their names), a kill in between would leave names that stand for the wrong
values. So what is to be done is written down first, in the *journal*, and after each step how far it is; who opens
the dataset for writing next, ``nczarr repair`` or ``nczarr clean`` does the rest.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from nczarr.errors import MetadataError, NCZarrError, StoreError
from nczarr.mapping.rewriting.changed import Metadata, is_same, put_changed
from nczarr.stores import Store
from nczarr.system.atomic import is_writing, new_writer
from nczarr.system.environment import read_json
from nczarr.zarr import ArrayMetadata, Hierarchy, open_hierarchy
from nczarr.zarr.names import check_path

#: The journal; how many of its steps are done; and who has taken it over from whom.
JOURNAL = ".nczarr-moving"
_DONE = ".nczarr-moving-done"
_TAKEN = ".nczarr-moving-by-"
#: The name of an array on its way.
ASIDE = "_nc-moving-"
#: Values that are moved in one batch.
_BATCH = 64

#: The writer of a journal whose work ended with an error.
_NOBODY = "nobody"

Step = tuple[str, str]


@dataclass(frozen=True)
class Journal:
    """What is to be done.

    Attributes
    ----------
    writer : str
        Who does it; see :func:`nczarr.system.atomic.is_writing`.
    steps : tuple of (str, str)
        From where to where arrays are copied, one after the other.
    nodes : tuple of (str, bool, dict)
        The path of each node that is written then, whether it is an array, and its documents by key.
    gone : tuple of str
        Paths of nodes that are removed last.
    """

    writer: str
    steps: tuple[Step, ...]
    nodes: tuple[tuple[str, bool, dict[str, Any]], ...]
    gone: tuple[str, ...]

    @classmethod
    def read(cls, store: Store) -> Journal | None:
        """Return the journal of a store, None if there is none.

        Raises
        ------
        MetadataError
            If it is damaged.
        """
        data = store.get(JOURNAL) if store.takes_any_key else None
        if data is None:
            return None
        try:
            said = read_json(data)
            steps = tuple((str(here), str(there)) for here, there in said["steps"])
            gone = tuple(map(str, said["gone"]))
            nodes = tuple(
                (str(path), bool(array), dict(documents)) for path, array, documents in said["nodes"]
            )
            for path in (*gone, *(path for step in steps for path in step)):
                if not path:
                    raise ValueError("the root does not move")
            for path in (*gone, *(node[0] for node in nodes), *(path for step in steps for path in step)):
                check_path(path, writing=False)
            return cls(str(said["writer"]), steps, nodes, gone)
        except (ValueError, LookupError, TypeError, AttributeError, NCZarrError) as error:
            raise MetadataError(
                f"the journal of a renaming is damaged: {error}",
                path=store.place(JOURNAL),
                hint="copy what can be read, or remove this key and look at the names",
            ) from None

    def write(self, store: Store) -> None:
        """Make it known; nothing of it is done yet."""
        store.delete(_DONE)
        store.set(JOURNAL, self._data)

    @property
    def _data(self) -> bytes:
        return json.dumps(asdict(self)).encode("utf-8", "surrogatepass")

    def done(self, store: Store) -> int:
        """How many steps are done."""
        data = store.get(_DONE)
        return int(data) if data is not None and data.isdigit() else 0

    def give_up(self, store: Store) -> None:
        """Say after an error that this process is not at it any more."""
        with suppress(NCZarrError):
            store.set(JOURNAL, replace(self, writer=_NOBODY)._data)

    def remove(self, store: Store) -> None:
        """Forget it, when all is done."""
        store.delete(JOURNAL)
        forget_moves(store)


# --- moving


def plan_steps(moves: Sequence[Step]) -> tuple[list[Step], bool]:
    """Return in which order arrays are copied, and whether one takes the place of another that moves too.

    Examples
    --------
    >>> plan_steps([("a", "z")])
    ([('a', 'z')], False)
    >>> plan_steps([("a", "b"), ("b", "c")])
    ([('b', 'c'), ('a', 'b')], True)
    >>> plan_steps([("a", "b"), ("b", "a")])
    ([('a', '_nc-moving-1'), ('b', 'a'), ('_nc-moving-1', 'b')], True)
    """
    pending = list(moves)
    steps: list[Step] = []
    number = 0
    taken = _Paths(here for here, _ in moves)
    entangled = any(taken.touch(there) for _, there in moves)
    while pending:
        taken = _Paths(here for here, _ in pending)
        free = [step for step in pending if not taken.touch(step[1])]
        if free:
            steps += free
            pending = [step for step in pending if taken.touch(step[1])]
            continue
        number += 1
        here, there = pending[0]
        steps.append((here, f"{ASIDE}{number}"))
        pending[0] = (f"{ASIDE}{number}", there)
    return steps, entangled


class _Paths:
    """Some paths, and what is above them."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = set(paths)
        self._above = {above for path in self._paths for above in _above(path)}

    def touch(self, path: str) -> bool:
        """True if a path is one of them, above one or below one."""
        return path in self._paths or path in self._above or any(a in self._paths for a in _above(path))


def _above(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def touch(a: str, b: str) -> bool:
    """True if two paths are the same, or one is above the other."""
    return a == b or a.startswith(f"{b}/") or b.startswith(f"{a}/")


def move(
    hierarchy: Hierarchy,
    moves: Sequence[Step],
    nodes: Mapping[str, Metadata],
    gone: Iterable[str],
) -> Journal | None:
    """Copy arrays, chunks and all, to their new places; the old ones are still there, where nothing took their place.

    Parameters
    ----------
    hierarchy : Hierarchy
    moves : sequence of (str, str)
        From where to where.
    nodes : mapping
        All nodes as the caller writes them afterwards.
    gone : iterable of str
        What the caller removes then.

    Returns
    -------
    Journal or None
        To be removed when the caller is done; None if no step can be mistaken for another.
    """
    steps, entangled = plan_steps(moves)
    journal = None
    if entangled and not hierarchy.hidden and _needs_journal(hierarchy.store):
        targets = {there for _, there in steps}
        written = tuple(
            (path, isinstance(node, ArrayMetadata), hierarchy.make_documents(path, node))
            for path, node in nodes.items()
            if path in targets or not is_same(hierarchy.nodes.get(path), node)
        )
        journal = Journal(new_writer(), tuple(steps), written, tuple(gone))
        journal.write(hierarchy.store)
    try:
        _copy_arrays(hierarchy, steps, 0, journal)
    except BaseException:
        if journal is not None:
            journal.give_up(hierarchy.store)
        raise
    return journal


def _needs_journal(store: Store) -> bool:
    """False for stores that change in one step, or not at all."""
    return store.takes_any_key and not store.is_one_file


def _copy_arrays(hierarchy: Hierarchy, steps: Sequence[Step], done: int, journal: Journal | None) -> None:
    for number, (here, there) in enumerate(steps[done:], done + 1):
        _copy_array(hierarchy, here, there)
        if journal is not None:
            hierarchy.store.set(_DONE, str(number).encode())


def _copy_array(hierarchy: Hierarchy, here: str, there: str) -> None:
    """Copy an array: its chunks first, so that nobody finds it without them."""
    metadata = hierarchy.nodes[here]
    assert isinstance(metadata, ArrayMetadata)
    for path in (*_above(there), there):
        if path in hierarchy.nodes and (path == there or hierarchy.is_array(path)):
            hierarchy.delete(path)  # it has moved before
    old, new = hierarchy.chunk_prefix(here), hierarchy.chunk_prefix(there)
    hierarchy.store.delete_prefix(new.rstrip("/"))  # what an interrupted change may have left
    array = hierarchy.array(here)
    # A listing names what belongs to the array besides its chunks, and need not name all of these.
    chunks = () if hierarchy.store.lists_all else map(array.chunk_key, array.initialized_chunks())
    _copy(hierarchy.store, old, new, set(hierarchy.nodes.documents(here)), chunks)
    hierarchy.put_array(there, metadata)


def _copy(store: Store, old: str, new: str, documents: set[str], chunks: Iterable[str]) -> None:
    listed = (key for key in store.list(old.rstrip("/")) if key not in documents)
    keys = list(dict.fromkeys([*listed, *chunks]))
    for start in range(0, len(keys), _BATCH):
        batch = keys[start : start + _BATCH]
        values = store.get_many(batch)
        store.set_many(
            (new + key[len(old) :], value)
            for key, value in zip(batch, values, strict=True)
            if value is not None
        )


# --- what was interrupted


def refuse_interrupted(store: Store) -> None:
    """Raise an error if arrays of a dataset are between two names, for a reader who cannot finish that.

    Raises
    ------
    StoreError
    """
    journal = Journal.read(store)
    if journal is None:
        return
    if _is_at_it(_owner(store, journal)):
        raise StoreError("variables are getting other names just now", path=store.url, hint="try again")
    raise StoreError(
        "variables were getting other names, which was interrupted; no value is lost",
        path=store.url,
        hint="nczarr clean, or opening the dataset for writing, finishes it",
    )


def finish_moves(store: Store, *, force: bool = False) -> bool:
    """Do the rest of what the journal says; False if there is no journal. `force`: a writer elsewhere counts as dead.

    Raises
    ------
    StoreError
        If another process is at it, or may be.
    """
    journal = Journal.read(store)
    if journal is None:
        return False
    claim = _claim(store, journal, force)
    try:
        if Journal.read(store) is None:  # somebody else has just finished it
            store.delete(claim)
            return False
        _finish(store, journal)
    except BaseException:
        with suppress(NCZarrError):
            store.delete(claim)
        raise
    journal.remove(store)
    return True


def forget_moves(store: Store) -> None:
    """Remove what was written beside a journal that is done."""
    if store.takes_any_key and store.get(JOURNAL) is None:
        for key in [key for key in store.list_dir()[0] if key.startswith(f"{JOURNAL}-")]:
            store.delete(key)


def _finish(store: Store, journal: Journal) -> None:
    hierarchy = open_hierarchy(store, consolidated=False, mode="r+")
    done = journal.done(store)
    there = set(hierarchy.nodes)
    for source, target in journal.steps[done:]:
        if source not in there:
            raise MetadataError(
                f"{source!r} was getting another name, which was interrupted, and is not there any more",
                path=store.url,
                hint=f"copy what can be read, or remove the key {JOURNAL} and look at the names",
            )
        there.add(target)
    _copy_arrays(hierarchy, journal.steps, done, journal)
    put_changed(
        hierarchy,
        {
            path: hierarchy.parse_documents(path, documents, is_array=array)
            for path, array, documents in journal.nodes
        },
    )
    gone = [path for path in journal.gone if path in hierarchy.nodes]
    if gone:
        hierarchy.delete_many(gone)
    hierarchy.sync()
    for path in journal.gone:  # documents go before chunks
        if not any(touch(path, node) for node in hierarchy.nodes if node):
            store.delete_prefix(hierarchy.chunk_prefix(path).rstrip("/"))


def _owner(store: Store, journal: Journal) -> str:
    """Return the writer of a journal, or the last one that has taken it over; damaged keys may name a circle."""
    writer = journal.writer
    seen: set[str] = set()
    while writer not in seen and (data := store.get(_TAKEN + writer)) is not None:
        seen.add(writer)
        writer = data.decode("ascii", "replace")
    return writer


def _is_at_it(writer: str) -> bool | None:
    return False if writer == _NOBODY else is_writing(writer)


def _claim(store: Store, journal: Journal, force: bool) -> str:
    """Take it over from a writer who is dead; of several at once, one may. Returns the key that says so."""
    writer = _owner(store, journal)
    alive = _is_at_it(writer)
    if alive is None and not force:
        raise StoreError(
            "variables were getting other names, perhaps by a process on another machine that still is at it",
            path=store.url,
            hint="if none is, nczarr clean --force finishes it",
        )
    if alive or not store.set_if_absent(_TAKEN + writer, new_writer().encode()):
        raise StoreError("variables are getting other names: another process is at it", path=store.url)
    return _TAKEN + writer

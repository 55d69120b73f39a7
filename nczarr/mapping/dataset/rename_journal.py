"""Move arrays to other places, so that an interrupted move can be finished.

An array is copied, chunks first, before the original is removed. If an array moves to the place of another array that
also moves (two variables exchange their names), a kill in between would leave names with wrong values. Therefore the
*journal* records all steps before the first, and the number of finished steps after each. The next writer of the
dataset, ``nczarr repair`` or ``nczarr clean`` finishes the journal.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace

from nczarr.dataclass import dataclass
from nczarr.errors import MetadataError, NCZarrError, StoreError
from nczarr.json_values import JsonObject
from nczarr.mapping.dataset.changes import takeovers
from nczarr.mapping.dataset.documents import is_same, put_changed
from nczarr.mapping.dialect import Metadata, array_at
from nczarr.stores import Store
from nczarr.stores.base import batched
from nczarr.system.atomic import WriterState, new_writer, writer_state
from nczarr.system.environment import read_json
from nczarr.system.logs import logger_of
from nczarr.zarr import Hierarchy, open_hierarchy
from nczarr.zarr.names import check_path

#: The keys of the journal, of the number of finished steps, and of writers that have taken it over from others.
JOURNAL = ".nczarr-moving"
_DONE = ".nczarr-moving-done"
_TAKEN = ".nczarr-moving-by-"
#: Prefix of the temporary name of an array.
ASIDE = "_nc-moving-"
#: Number of values that are copied in one batch.
_BATCH = 64

#: The writer of a journal after an error.
_NO_WRITER = "nobody"  # codespell:ignore

Step = tuple[str, str]


@dataclass(frozen=True)
class Journal:
    """The recorded steps of a move.

    Attributes
    ----------
    writer : str
        The moving process; see :func:`nczarr.system.atomic.writer_state`.
    steps : tuple of (str, str)
        Source and target of each copied array, in order.
    nodes : tuple of (str, bool, dict)
        The path of each node that is written then, whether it is an array, and its documents by key.
    gone : tuple of str
        Paths of nodes that are removed last.
    """

    writer: str
    steps: tuple[Step, ...]
    nodes: tuple[tuple[str, bool, dict[str, JsonObject]], ...]
    gone: tuple[str, ...]

    @classmethod
    def read(cls, store: Store) -> Journal | None:
        """Return the journal of a store, None if there is none; raise MetadataError if it is damaged."""
        data = store.get(JOURNAL) if store.takes_any_key else None
        if data is None:
            return None
        try:
            content = read_json(data)
            steps = tuple((str(here), str(there)) for here, there in content["steps"])
            gone = tuple(map(str, content["gone"]))
            nodes = tuple(
                (str(path), bool(array), dict(documents)) for path, array, documents in content["nodes"]
            )
            moved = [*gone, *(path for step in steps for path in step)]
            if not all(moved):
                raise ValueError("the root cannot move")
            for path in (*moved, *(node[0] for node in nodes)):
                check_path(path, writing=False)
            return cls(str(content["writer"]), steps, nodes, gone)
        except (ValueError, LookupError, TypeError, AttributeError, NCZarrError) as error:
            raise MetadataError(
                f"the journal of a rename is damaged: {error}",
                path=store.place(JOURNAL),
                hint="copy the readable data, or remove this key and check the names",
            ) from None

    def write(self, store: Store) -> None:
        """Write the journal before the first step."""
        store.delete(_DONE)
        store.set(JOURNAL, self.data)

    @property
    def data(self) -> bytes:
        """The value of the key."""
        return json.dumps(asdict(self)).encode("utf-8", "surrogatepass")

    def done(self, store: Store) -> int:
        """Return the number of finished steps."""
        data = store.get(_DONE)
        return int(data) if data is not None and data.isdigit() else 0

    def remove(self, store: Store) -> None:
        """Remove the journal after the last step."""
        store.delete(JOURNAL)
        forget_moves(store)

    def owner(self, store: Store) -> str:
        """Return the writer of the journal, or the last writer that has taken it over."""
        return next(reversed(takeovers(store, _TAKEN, self.writer).values()), self.writer)


# --- moving


def plan_steps(moves: Sequence[Step]) -> tuple[list[Step], bool]:
    """Return the order of copies, and whether an array takes the place of another that also moves.

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
    taken = Paths(here for here, _ in moves)
    entangled = any(taken.touch(there) for _, there in moves)
    while pending:
        taken = Paths(here for here, _ in pending)
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


class Paths:
    """A set of paths, for fast comparison."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = set(paths)
        self._above = {above for path in self._paths for above in _above(path)}

    def touch(self, path: str) -> bool:
        """Return whether a path is one of them, above one or below one."""
        return path in self._paths or path in self._above or any(a in self._paths for a in _above(path))


def _above(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


@contextmanager
def moving(
    hierarchy: Hierarchy, moves: Sequence[Step], nodes: Mapping[str, Metadata], gone: Iterable[str]
) -> Iterator[None]:
    """Copy arrays with their chunks to new places; originals remain unless another array took their place.

    In the block, the caller writes the nodes and removes the paths; then a journal, if the steps need one, is removed.

    Parameters
    ----------
    hierarchy : Hierarchy
    moves : sequence of (str, str)
        Source and target of each array.
    nodes : mapping
        All nodes as the caller writes them.
    gone : iterable of str
        The paths that the caller removes.
    """
    steps, entangled = plan_steps(moves)
    store, journal = hierarchy.store, None
    # Stores that change in one step, or do not change at all, need no journal.
    if entangled and not hierarchy.hidden and store.takes_any_key and not store.is_one_file:
        targets = {there for _, there in steps}
        written = tuple(
            (path, node.is_array, hierarchy.make_documents(path, node))
            for path, node in nodes.items()
            if path in targets or not is_same(hierarchy.nodes.get(path), node)
        )
        journal = Journal(new_writer(), tuple(steps), written, tuple(gone))
        journal.write(store)
    try:
        _copy_arrays(hierarchy, steps, 0, journal)
        yield
        if journal is not None:
            journal.remove(store)
    except BaseException:
        if journal is not None:
            with suppress(NCZarrError):  # this process has stopped
                store.set(JOURNAL, replace(journal, writer=_NO_WRITER).data)
        raise


def _copy_arrays(hierarchy: Hierarchy, steps: Sequence[Step], done: int, journal: Journal | None) -> None:
    for number, (here, there) in enumerate(steps[done:], done + 1):
        _copy_array(hierarchy, here, there)
        if journal is not None:
            hierarchy.store.set(_DONE, str(number).encode())


def _copy_array(hierarchy: Hierarchy, here: str, there: str) -> None:
    """Copy an array: its chunks first, so that readers never find it without them."""
    metadata = array_at(hierarchy.nodes, here)
    for path in (*_above(there), there):
        if path in hierarchy.nodes and (path == there or hierarchy.is_array(path)):
            hierarchy.delete(path)  # it has moved before
    store = hierarchy.store
    old, new = hierarchy.chunk_prefix(here), hierarchy.chunk_prefix(there)
    store.delete_prefix(new.rstrip("/"))  # remains of an interrupted change
    array = hierarchy.array(here)
    # A listing contains the array's other keys besides its chunks, but may omit some chunks.
    chunks = () if store.lists_all else map(array.chunk_key, array.initialized_chunks())
    documents = set(hierarchy.nodes.documents(here))
    listed = (key for key in store.list(old.rstrip("/")) if key not in documents)
    for keys in batched(dict.fromkeys([*listed, *chunks]), _BATCH):
        values = zip(keys, store.get_many(keys), strict=True)
        store.set_many((new + key[len(old) :], value) for key, value in values if value is not None)
    hierarchy.put_array(there, metadata)


# --- interrupted moves


def refuse_interrupted(store: Store) -> None:
    """Raise StoreError for a reader if arrays of a dataset are between two names."""
    journal = Journal.read(store)
    if journal is None:
        return
    if _state_of(journal.owner(store)) is WriterState.ALIVE:
        raise StoreError("a rename of variables is in progress", path=store.url, hint="try again")
    raise StoreError(
        "a rename of variables was interrupted; no value is lost",
        path=store.url,
        hint="nczarr clean, or opening the dataset for writing, finishes it",
    )


def finish_moves(store: Store, *, force: bool = False, top: Collection[str] | None = None) -> bool:
    """Finish the journal; return False if there is none. `force`: assume that writers on other machines are dead.

    `top` are the keys at the top of the store, if they are known: a journal that is not among them is not asked for.

    Raises
    ------
    StoreError
        Another process is, or may be, working on it.
    """
    journal = Journal.read(store) if top is None or JOURNAL in top else None
    if journal is None:
        return False
    claim = _claim(store, journal, force)
    try:
        if Journal.read(store) is None:  # another process has just finished it
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
    """Remove the other keys of a finished journal."""
    if store.takes_any_key and store.get(JOURNAL) is None:
        for key in [key for key in store.list_dir()[0] if key.startswith(f"{JOURNAL}-")]:
            store.delete(key)


def _finish(store: Store, journal: Journal) -> None:
    logger_of(__name__).info("%s: finishing an interrupted rename", store.url)
    hierarchy = open_hierarchy(store, consolidated=False, mode="r+")
    done = journal.done(store)
    existing = set(hierarchy.nodes)
    for source, target in journal.steps[done:]:
        if source not in existing:
            raise MetadataError(
                f"a rename of {source!r} was interrupted, and the array is missing",
                path=store.url,
                hint=f"copy the readable data, or remove the key {JOURNAL} and check the names",
            )
        existing.add(target)
    _copy_arrays(hierarchy, journal.steps, done, journal)
    parse = hierarchy.parse_documents
    put_changed(hierarchy, {path: parse(path, documents, is_array=a) for path, a, documents in journal.nodes})
    gone = [path for path in journal.gone if path in hierarchy.nodes]
    if gone:
        hierarchy.delete_many(gone)
    hierarchy.sync()
    for path in journal.gone:  # documents are removed before chunks
        if not Paths(hierarchy.nodes).touch(path):
            store.delete_prefix(hierarchy.chunk_prefix(path).rstrip("/"))


def _state_of(writer: str) -> WriterState:
    return WriterState.ENDED if writer == _NO_WRITER else writer_state(writer)


def _claim(store: Store, journal: Journal, force: bool) -> str:
    """Take a journal over from a dead writer, and return the key of the claim; one of several processes succeeds."""
    writer = journal.owner(store)
    state = _state_of(writer)
    if state is WriterState.UNKNOWN and not force:
        raise StoreError(
            "a process on another machine was renaming variables, and may be active",
            path=store.url,
            hint="if it was stopped, nczarr clean --force finishes the rename",
        )
    if state is WriterState.ALIVE or not store.set_if_absent(_TAKEN + writer, new_writer().encode()):
        raise StoreError("another process is renaming variables", path=store.url)
    return _TAKEN + writer

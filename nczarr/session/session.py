"""Keep one open dataset: bring what changed in the tree to the store, and move values.

The tree of nodes is changed at will. The store sees a frozen model of it only when it must: before values of a
new variable are read, when too many of them wait, on sync and on close. Growth of a dimension goes to the array
that is written at once, and to all others with the next model.

Nothing is lost between threads: every change has a number, a flush stores the tree as it was at some number, and
only what was changed up to that number counts as stored then. While the store changes its arrays, nobody reads
or writes values (:class:`Gate`); while the store is waited for, the tree can be changed.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from nczarr import model
from nczarr.errors import NCZarrError, PartlyStoredError
from nczarr.session.backend import Stored, StoredArray
from nczarr.session.chunk_cache import ChunkCache, weight_of
from nczarr.session.errors import STORE_ERRORS, ArgumentError, EditError, Failures, remove_parts, store_parts
from nczarr.session.tree import DimensionNode, GroupNode, State, VariableNode, freeze, thaw
from nczarr.system.finalizing import closed
from nczarr.system.locks import FileLock, Rank, make_lock


class Gate:
    """A lock that many threads share while they pass, and that one thread has alone while it is closed.

    Each thread passes with a lock of its own; the thread that closes the gate holds another one, and waits for those
    who pass. Only ``with`` statements on locks of Python take and release them: an interrupt never comes between such
    a lock and its ``with``, so it cannot leave one held. A thread that passes must not pass again, nor close the gate.

    Examples
    --------
    >>> gate = Gate()
    >>> with gate.passing():
    ...     gate.lets_in
    True
    >>> with gate.closing:
    ...     gate.close()
    ...     "the store is changed"
    'the store is changed'
    """

    def __init__(self) -> None:
        #: The thread that has closed the gate holds it.
        self.closing = make_lock(Rank.GATE)
        #: The thread that closed the gate last, 0 if another thread has seen since that it is open.
        self._owner = 0
        #: The lock of this thread, which lives as long as the thread.
        self._of_thread = threading.local()
        #: The locks of all threads that have passed.
        self._passing: list[weakref.ref[threading.RLock]] = []

    def passing(self) -> threading.RLock:
        """Return the lock with which this thread passes, if :attr:`lets_in` says so while it is held."""
        lock: threading.RLock | None = getattr(self._of_thread, "lock", None)
        if lock is None:
            lock = make_lock(Rank.PASS)
            with self.closing:  # the thread that closes the gate knows all locks
                self._passing = [
                    *(known for known in self._passing if known() is not None),
                    weakref.ref(lock),
                ]
            self._of_thread.lock = lock
        return lock

    @property
    def lets_in(self) -> bool:
        """True if no other thread has closed the gate; otherwise this thread lets go of its lock, and waits."""
        return self._owner in (0, threading.get_ident())

    def wait(self) -> None:
        """Wait until no thread has closed the gate."""
        with self.closing:
            self._owner = 0

    def close(self) -> None:
        """Wait until no thread passes; the gate stays closed as long as this thread holds :attr:`closing`.

        Raises
        ------
        EditError
            If this thread passes: a signal handler came in between.
        """
        me = threading.get_ident()
        own = getattr(self._of_thread, "lock", None)
        if own is not None and own._is_owned():
            raise EditError(
                "this thread reads or writes values now, and cannot store or close the dataset meanwhile",
                hint="a signal handler may raise an exception, and leave the rest to the program",
            )
        self._owner = me
        for known in self._passing:
            lock = known()
            if lock is not None:
                with lock:
                    pass


#: Values of new variables that are held back, at most.
_WAITING_BYTES = 64 << 20
#: So many writes to a variable wait.
_FEW_WRITES = 16


class Session(State):
    """A dataset that is open.

    Parameters
    ----------
    stored : Stored
    name : str
        As the program gave it.
    writable : bool

    Attributes
    ----------
    root : GroupNode
        The tree.

    Examples
    --------
    >>> from nczarr.mapping import create_dataset
    >>> from nczarr.model import INT, Dataset, Storage
    >>> session = Session(create_dataset({}, Dataset("d")), name="d", writable=True)
    >>> x = session.root.add_dimension("x", 3, unlimited=False)
    >>> v = session.root.add_variable("v", INT, (x,), Storage(), {})
    >>> session.write(v, (slice(0, 2, 1),), np.array([1, 2], "i4"))
    >>> session.read(v, (slice(0, 3, 1),)).tolist()
    [1, 2, -2147483647]
    >>> session.close()
    """

    def __init__(self, stored: Stored, *, name: str, writable: bool) -> None:
        super().__init__(name, writable=writable, format=stored.dataset.format)
        self.stored = stored
        self.disk_format: str = getattr(stored, "disk_format", "ZARR")
        self.one_name_space = getattr(stored, "one_name_space", False)
        self.types_first = getattr(stored, "types_first", False)
        self.strings_end_at_nul = getattr(stored, "strings_end_at_nul", False)
        self.renamed_last = getattr(stored, "renamed_last", False)
        self.reserved_names = getattr(stored, "reserved_names", frozenset())
        self.strings_outside_chunks = getattr(stored, "strings_outside_chunks", False)
        self.limited = getattr(stored, "limited", frozenset())
        #: Unwritten elements of new variables are filled.
        self.fill = True
        #: What is to be done after closing; its result is what close returns.
        self.at_close: Callable[[], memoryview | None] | None = None
        self.root = GroupNode(self, None, "/")
        thaw(self.root, stored.dataset)
        #: The store says what the tree said then.
        self._stored_generation = self.generation
        #: Variables that were stored then.
        self._stored_count = 0
        #: What has grown since; None until this session has stored the tree for the first time.
        self._growth: Growth | None = None
        self._gate = Gate()
        self.cache = ChunkCache(self._stored_values, self._values, self.lock)
        #: What keeps other writers away until the dataset is closed.
        self.locks: Sequence[FileLock] = ()
        self._waiting: deque[tuple[VariableNode, Any, np.ndarray]] = deque()
        self._waiting_for: set[VariableNode] = set()
        self._waiting_bytes = 0

    # -- structure

    def check_model(self, dataset: model.Dataset) -> None:
        try:
            self.stored.check_model(dataset)
        except NCZarrError as error:
            raise EditError(
                f"NetCDF: Invalid argument: {error.message}", fqn=error.fqn, hint=error.hint
            ) from error

    def flush(self) -> None:
        """Write what differs in the metadata, and the values that wait for it.

        Raises
        ------
        NCZarrError, OSError
            If something cannot be stored; all else is stored then, and the rest is tried again next time.
        """
        self.check_open()
        if self.generation == self._stored_generation and not self._waiting:
            return
        with self._gate.closing:
            self._gate.close()
            self.check_open()
            failures = Failures()
            self._flush_structure(failures)
            failures.raise_all(self.name)

    def _flush_structure(self, failures: Failures) -> None:
        """Write the metadata, then the values that wait for them; the gate is closed."""
        if self.generation == self._stored_generation and not self._waiting:
            return
        self._store_changes(failures)
        left: deque[tuple[VariableNode, Any, np.ndarray]] = deque()
        refused: set[VariableNode] = set()
        while self._waiting:
            node, selection, values = self._waiting[0]
            if node not in refused and node.stored_as is not None:
                try:
                    self.cache.write(node, selection, values)
                except STORE_ERRORS as error:  # later values of the variable wait behind these
                    failures.add(node.fqn, error)
                    refused.add(node)
            if node in refused or node.stored_as is None:
                left.append(self._waiting.popleft())
            else:
                self._waiting_bytes -= _weight(values)
                self._waiting.popleft()
        self._waiting = left
        self._waiting_for = {node for node, _, _ in left}

    def _flush_all(self, failures: Failures) -> None:
        """Write everything: values come before the sizes that claim them; the gate is closed."""
        self.cache.recover()
        stored = self.cache.flush(failures)
        if failures.found and not stored and self._growth is not None and self._growth.is_all:
            return  # no step was written: nothing may claim one
        self._flush_structure(failures)
        self.cache.flush(failures)

    def _store_changes(self, failures: Failures) -> None:
        try:
            if self._store_growth():
                return
        except STORE_ERRORS as error:
            failures.whole = error
            return
        with self.lock:
            generation = self.generation
            if generation == self._stored_generation:
                return
            nodes = [(node, node.fqn) for node in self.root.walk_variables()]
            for node, fqn in nodes:
                if node.stored_as is not None and node.stored_as != fqn:
                    # Data of the stored dataset say which variable this was.
                    node.source = self.stored.data(node.stored_as)
                    node.frozen = None
                if node.stored_as is not None:
                    self._values(node)  # what is going to grow has nothing behind its shape
            old = self.stored.dataset
            frozen = freeze(self.root, old.name, self.format)
            before = [node.frozen for node, _ in nodes]
            growth = Growth(self.root)
        refusal: Exception | None = None
        try:
            self.stored.update(frozen)
        except PartlyStoredError as error:
            refusal = error
            failures.add("", error)
        except STORE_ERRORS as error:
            refusal = error
            store_parts(self.stored.update, old, frozen, error, failures)
        after = self.stored.dataset.all_variables
        with self.lock:
            for (node, fqn), was in zip(nodes, before, strict=True):
                if refusal is not None and fqn not in after:
                    node.source = None if node.stored_as is None else self.stored.data(node.stored_as)
                    continue
                node.source = self.stored.data(fqn)
                node.stored_as = fqn
                if node.frozen is was and was is not None and refusal is None:
                    node.frozen = _kept(was, after[fqn]) or node.frozen
            if refusal is None:
                self._stored_generation = generation
                self._stored_count = len(nodes)
                self._growth = growth

    def _store_growth(self) -> bool:
        """Store the lengths of dimensions if nothing else has changed; False if something has."""
        with self.lock:
            growth, generation = self._growth, self.generation
            if growth is None or not growth.is_all or generation == self._stored_generation:
                return False
            lengths = growth.grown()
            for node in growth.variables(lengths):
                self._values(node)
        if not self.stored.lengthen({str(d.ref): size for d, size in lengths.items()}):
            return False
        with self.lock:
            growth.note(lengths)
            self._stored_generation = generation
        return True

    # -- values

    def read(self, node: VariableNode, selection: Any) -> np.ndarray:
        """Read orthogonally: slices or increasing positions, one for each axis."""
        while True:
            with self._gate.passing():
                if passes := self._gate.lets_in:
                    self.check_open()
                    if self._has(node):
                        source = self._values(node)
                        if node.blocks:
                            return self.cache.read(node, source, selection)
                        return source.read_orthogonal(selection)
            self._flush_for(node) if passes else self._gate.wait()

    def write(self, node: VariableNode, selection: Any, values: np.ndarray) -> None:
        """Write values in the model's form.

        Those of a variable that is not stored yet wait, up to a bound, until the metadata have to be written
        anyway: so a program that makes and fills one variable after the other does not rewrite the metadata
        each time.
        """
        while True:
            with self._gate.passing():
                if passes := self._gate.lets_in:
                    self.check_writable()
                    if self._has(node):
                        self._check_values(node, values)
                        self.cache.write(node, selection, values)
                        return
                    # Only an array that is stored knows which texts it has room for.
                    waits = not values.dtype.hasobject or "type" not in self.limited
                    with self.lock:
                        weight = _weight(values)
                        # A loop over one variable need not wait; one over many must not store each for itself.
                        few = len(self._waiting) < max(
                            _FEW_WRITES * max(len(self._waiting_for), 1), self._stored_count
                        )
                        if waits and few and self._waiting_bytes + weight <= _WAITING_BYTES:
                            self._waiting.append((node, selection, values.copy()))
                            self._waiting_for.add(node)
                            self._waiting_bytes += weight
                            return
            self._flush_for(node) if passes else self._gate.wait()

    def _flush_for(self, node: VariableNode) -> None:
        """Flush; an error of other variables waits for the next one, if this one is stored."""
        try:
            self.flush()
        except STORE_ERRORS:
            if not self._has(node):
                raise

    def _check_values(self, node: VariableNode, values: np.ndarray) -> None:
        """Raise :class:`ArgumentError` for values that the stored array has no place for."""
        source = self._stored_values(node)
        if source.limited:
            try:
                source.check(values)
            except NCZarrError as error:
                raise ArgumentError(error.message, fqn=node.fqn, hint=error.hint) from error

    def _has(self, node: VariableNode) -> bool:
        """True if the store has a variable, and no values wait for it; the gate is passed."""
        return node.stored_as is not None and not (self._waiting_for and node in self._waiting_for)

    def chunk_shape(self, node: VariableNode) -> tuple[int, ...] | None:
        """The blocks in which the store keeps a variable, if it has any."""
        while True:
            with self._gate.passing():
                if self._gate.lets_in:
                    self.check_open()
                    if node.stored_as is None:
                        return None
                    return getattr(self._values(node), "chunk_shape", None)
            self._gate.wait()

    def _stored_values(self, node: VariableNode) -> StoredArray:
        """The stored values of a variable; the gate is passed or closed."""
        source = node.source
        if source is None:
            assert node.stored_as is not None
            source = node.source = self.stored.data(node.stored_as)
        return source

    def _values(self, node: VariableNode) -> StoredArray:
        """The stored values of a variable, in its current shape; the gate is passed or closed."""
        source = self._stored_values(node)
        if self.writable and source.shape != node.shape:
            with self.lock:
                if source.shape != node.shape:
                    if not node.tail_cleared:
                        axes = tuple(i for i, d in enumerate(node.dimensions) if d.unlimited)
                        source.clear_outside(axes)
                        node.tail_cleared = True
                    source.grow(node.shape)
        return source

    # -- the end

    @property
    def is_unstored(self) -> bool:
        """True if the store does not have all yet."""
        changed = self.generation != self._stored_generation or bool(self._waiting) or self.cache.is_dirty
        return changed and self.is_open and self.writable and not self.is_inherited

    @contextmanager
    def _durable(self, durable: bool | None) -> Iterator[None]:
        """Wait for the disk, or do not, for a while; None: as the dataset was opened."""
        before = self.stored.durable
        if durable is not None and durable != before:
            self.stored.durable = durable
        try:
            yield
        finally:
            if self.is_open and self.stored.durable != before:
                self.stored.durable = before

    def sync(self, *, durable: bool | None = None) -> None:
        """Write all that is not stored yet. `durable`: whether the disk has it then; None: as it was opened."""
        self.check_open()
        if self.writable:
            with self._gate.closing, self._durable(durable):
                self._gate.close()
                failures = Failures()
                self._flush_all(failures)
                if failures.whole is None:
                    try:
                        self.stored.publish()
                        self.stored.sync()
                    except STORE_ERRORS as error:
                        if not failures.found:
                            raise
                        next(iter(failures.found.values())).add_note(str(error))  # what came first says why
                failures.raise_all(self.name)

    def close_dropped(self) -> None:
        """Close a dataset whose program has dropped it, or ends."""
        if self.is_open:
            self.close(dropped=True)

    def close(self, *, dropped: bool = False, durable: bool | None = None) -> memoryview | None:
        """Sync, and close; the tree can be looked at no more. `dropped`: because the last reference went.

        `durable`: as for :meth:`sync`.
        """
        if self.is_open and self.is_inherited:  # all of it belongs to the parent
            self.is_open, self.dropped = False, dropped
            return None
        self.check_open()
        with self._gate.closing:
            self._gate.close()
            self.check_open()
            failures = Failures()
            if durable is not None:
                self.stored.durable = durable
            try:
                try:
                    if self.writable:
                        self._flush_all(failures)
                finally:
                    self.is_open = False
                    self.cache.clear()
                    self.dropped = dropped
                    if dropped and not failures.is_empty:  # no caller learns of it: its readers have to
                        self.stored.leave_unfinished(failures.describe())
                    else:
                        self._close_stored(failures)
                failures.raise_all(self.name)
                return self.at_close() if self.at_close is not None else None
            finally:
                for lock in self.locks:
                    lock.release()
                closed(self)

    def _close_stored(self, failures: Failures) -> None:
        """Close the store: a new dataset without the variables and groups whose documents it refuses."""
        while True:
            try:
                self.stored.close()
                return
            except STORE_ERRORS as error:
                refused: dict[str, Exception] = getattr(self.stored, "refused", dict)()
                if not refused:
                    raise
                try:
                    remove_parts(self.stored.update, self.stored.dataset, refused, failures)
                except STORE_ERRORS:
                    raise error from None


def _weight(values: np.ndarray) -> int:
    return weight_of(values.dtype, values.size)


def _kept(frozen: model.Variable, bound: model.Variable) -> model.Variable | None:
    """The store's own object for a variable, if it says the same: the next update sees that nothing changed."""
    same = (
        bound.attributes is frozen.attributes
        and bound.type is frozen.type
        and bound.dimensions == frozen.dimensions
        and bound.storage is frozen.storage
    )
    return bound if same else None


class Growth:
    """The lengths of unlimited dimensions as they were stored last. The tree's lock is held where it is used.

    Parameters
    ----------
    root : GroupNode
        The tree, as it is being stored.
    """

    def __init__(self, root: GroupNode) -> None:
        self._root = root
        self._structure = root.state.structure
        self._lengths = {d: d.size for g in root.walk() for d in g.dimensions.values() if d.unlimited}
        self._variables: dict[DimensionNode, list[VariableNode]] | None = None

    @property
    def is_all(self) -> bool:
        """True if nothing else has changed."""
        return self._root.state.structure == self._structure

    def grown(self) -> dict[DimensionNode, int]:
        """The dimensions that are longer now, and how long they are."""
        return {d: d.size for d, size in self._lengths.items() if d.size != size}

    def variables(self, dimensions: Iterable[DimensionNode]) -> dict[VariableNode, None]:
        """The variables that have any of some dimensions, each once."""
        if self._variables is None:
            self._variables = {d: [] for d in self._lengths}
            for node in self._root.walk_variables():
                for d in node.dimensions:
                    if d in self._variables:
                        self._variables[d].append(node)
        return dict.fromkeys(node for d in dimensions for node in self._variables[d])

    def note(self, lengths: dict[DimensionNode, int]) -> None:
        """Take lengths for stored."""
        self._lengths.update(lengths)

"""Keep an open dataset: store the changes of its tree, and read and write values.

The program changes the tree of nodes at any time. The store gets a frozen model of it only where necessary: before
values of a new variable are read, when too many writes are pending, on sync and on close. A write to an array grows
the array at once; the other arrays of a longer dimension grow with the next model.

Threads lose no change: each change has a number, a flush stores the tree of one number, and only the changes up to
that number count as stored. While the store changes its arrays, a :class:`Gate` keeps readers and writers of values
out. While a thread waits for the store, other threads may change the tree.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace

import numpy as np

from nczarr import model
from nczarr.errors import ArgumentError, EditError, NCZarrError, PartlyStoredError
from nczarr.model.nodes import IngestedSource, JoinRecord
from nczarr.model.parts import Addition, without
from nczarr.model.sources import OrthogonalIndex
from nczarr.session.backend import Stored, StoredArray
from nczarr.session.chunk_cache import ChunkCache, weight_of
from nczarr.session.errors import STORE_ERRORS, Failures, store_parts
from nczarr.session.new_chunks import choose_chunks
from nczarr.session.rules import EditRules
from nczarr.session.tree import DimensionNode, EditedTree, GroupNode, VariableNode, freeze, thaw
from nczarr.system.finalizing import closed
from nczarr.system.locks import Rank, Releasable, make_lock
from nczarr.system.logs import logger_of


class Gate:
    """A lock that many threads share while they pass, and that one thread holds alone while the gate is closed.

    Each thread passes with a lock of its own. The thread that closes the gate holds another lock, and waits for the
    threads that pass. Only ``with`` statements on Python's locks take and release them: an interrupt never comes
    between such a lock and its ``with`` statement, so it leaves no lock held. A thread that passes must not pass
    again, nor close the gate.

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
        #: Held by the thread that closes the gate.
        self.closing = make_lock(Rank.GATE)
        #: The thread that closed the gate last; 0 after another thread has found the gate open.
        self._owner = 0
        #: The lock of each thread, which lives as long as the thread.
        self._of_thread = threading.local()
        #: The locks of all threads that have passed.
        self._passing: list[weakref.ref[threading.RLock]] = []

    def passing(self) -> threading.RLock:
        """Return the lock with which this thread passes, if :attr:`lets_in` is true while the lock is held."""
        lock: threading.RLock | None = getattr(self._of_thread, "lock", None)
        if lock is None:
            lock = make_lock(Rank.PASS)
            with self.closing:  # the thread that closes the gate must know all locks
                alive = [known for known in self._passing if known() is not None]
                self._passing = [*alive, weakref.ref(lock)]
            self._of_thread.lock = lock
        return lock

    @property
    def lets_in(self) -> bool:
        """True if no other thread has closed the gate. Otherwise this thread releases its lock, and waits."""
        return self._owner in (0, threading.get_ident())

    def wait(self) -> None:
        """Wait until no thread has closed the gate."""
        with self.closing:
            self._owner = 0

    def close(self) -> None:
        """Wait until no thread passes. The gate stays closed as long as this thread holds :attr:`closing`.

        Raises
        ------
        EditError
            If this thread itself passes, and a signal handler has interrupted it.
        """
        me = threading.get_ident()
        # A signal handler runs in the thread that it interrupts: waiting for the thread's own lock would never end,
        # and a re-entrant lock would let it change the arrays below a read.
        own = getattr(self._of_thread, "lock", None)
        if own is not None and own._is_owned():
            raise EditError(
                "this thread reads or writes values now, and cannot store or close the dataset meanwhile",
                hint="a signal handler may raise an exception, and leave the rest to the program",
            )
        # Before the locks are taken: a thread that passes from now on sees it, and waits.
        self._owner = me
        for known in self._passing:
            lock = known()
            if lock is not None:
                with lock:
                    pass


#: Limit of the pending values of new variables.
_PENDING_BYTES = 64 << 20
#: Limit of the pending writes to each variable.
_FEW_WRITES = 16


class Session:
    """An open dataset.

    Parameters
    ----------
    stored : Stored
    name : str
        The name in error messages.
    writable : bool
    shared : bool
        True if other processes may write values at the same time.
    locks : sequence
        Locks against other writers, until the dataset is closed.

    Attributes
    ----------
    rules : EditRules
        Which changes are allowed.
    tree : EditedTree
        The nodes, with their lock and the counters of their changes.
    root : GroupNode
        The root of the tree.
    cache : ChunkCache
        The chunks in memory.

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

    def __init__(
        self,
        stored: Stored,
        *,
        name: str,
        writable: bool,
        shared: bool = False,
        locks: Sequence[Releasable] = (),
    ) -> None:
        self.rules = _rules_of(stored, name, writable=writable, shared=shared)
        self.tree = EditedTree(self.rules)
        self.root = self.tree.root
        thaw(self.root, stored.dataset)
        self.stored = stored
        #: The record of the sources, which is stored behind the lengths.
        self.sources = stored.dataset.sources
        #: The record of the join, which is stored with the lengths.
        self.joined = stored.dataset.joined
        #: Both records in the store.
        self._stored_records = _records_of(stored.dataset)
        #: True if the program sees compounds of two floats as complex numbers.
        self.auto_complex = False
        #: The variables whose changed values a program knows of.
        self.warned = set[str]()
        #: Unwritten elements of new variables are filled.
        self.fill = True
        #: Called after closing; :meth:`close` returns its result.
        self.at_close: Callable[[], memoryview | None] | None = None
        #: The generation of the tree in the store.
        self._stored_generation = self.tree.generation
        #: The number of variables in the store since the last flush.
        self._stored_count = 0
        #: The structure of the tree in the store, and its unlimited dimensions.
        self._stored_structure = self.tree.structure
        self._unlimited = _unlimited(self.root)
        self._gate = Gate()
        self.cache = ChunkCache(shared=shared, parallel_requests=stored.parallel_requests)
        self.locks = locks
        #: Excludes other writers of a new dataset as soon as they can see it.
        self.at_publish: Callable[[], Releasable] | None = None
        #: Opens the dataset for reading as it is stored now: for a reader, and where nothing excludes other writers.
        self.reopen: Callable[[], Stored] | None = None
        #: The values of new variables that wait for the next flush.
        self._pending: dict[VariableNode, deque[tuple[OrthogonalIndex, np.ndarray]]] = {}
        self._pending_count = self._pending_bytes = 0

    @property
    def name(self) -> str:
        """The name in error messages."""
        return self.rules.name

    @property
    def writable(self) -> bool:
        """True if the dataset was opened for writing."""
        return self.rules.writable

    @property
    def is_open(self) -> bool:
        """True until the dataset is closed."""
        return self.rules.is_open

    # -- structure

    def trial(self) -> EditedTree:
        """Return a tree like that of the store, with its rules, for changes that are only tried."""
        tree = EditedTree(_rules_of(self.stored, self.name, writable=True, shared=self.rules.shared))
        thaw(tree.root, self.stored.dataset)
        return tree

    def flush(self) -> None:
        """Write the differences of the metadata, and the values that wait for them.

        Raises
        ------
        NCZarrError, OSError
            If a part cannot be stored. The other parts are stored then, and the next flush tries again.
        """
        self.rules.check_open()
        # Without the gate, which makes readers wait though nothing is to be stored.
        if self._is_stored and not self._pending:
            return
        with self._gate.closing:
            self._gate.close()
            self.rules.check_open()
            failures = Failures()
            self._flush_structure(failures)
            failures.raise_all(self.rules.name)

    @property
    def _is_stored(self) -> bool:
        """True if the store has this tree, and these records of the sources and the join."""
        return self.tree.generation == self._stored_generation and self._is_recorded

    @property
    def _is_recorded(self) -> bool:
        """True if the store has these records of the sources and the join."""
        # The model is not asked: after a growth, each sync would make another one.
        return (self.sources, self.joined) == self._stored_records

    @property
    def _only_grows(self) -> bool:
        """True if the tree differs from the stored one in nothing but lengths."""
        return self.tree.structure == self._stored_structure

    def _flush_structure(self, failures: Failures) -> list[VariableNode]:
        """Write the metadata, then the pending values to the cache; the gate is closed.

        Returns
        -------
        list of VariableNode
            The variables whose values have waited.
        """
        # Documents first: the pending values have no array before.
        self._store_changes(failures)
        waited = list(self._pending)
        for node, waiting in list(self._pending.items()):
            try:
                # In the order of the program: a later value may replace an earlier one.
                while waiting and node.stored_as is not None:
                    selection, values = waiting[0]
                    self.cache.write(node, selection, values)
                    waiting.popleft()
                    self._pending_count -= 1
                    self._pending_bytes -= _weight(values)
            except STORE_ERRORS as error:  # later values of the variable stay behind these
                failures.add(node.fqn, error)
            if not waiting:
                del self._pending[node]
        return waited

    def _flush_all(self, failures: Failures) -> None:
        """Write everything, values before the lengths that claim them; the gate is closed."""
        self._check_alone()
        # Ctrl-C may have left a count too high, and no thread passes now.
        self.cache.recover()
        if self.stored.parallel_requests > 1:
            # The arrays learn their lengths first: those that are too short are then extended at the same time, where
            # each write would wait for a request of its own.
            for block in self.cache.changed:
                self._values(block.variable.node)
            self.stored.make_room()
        stored = self.cache.flush(failures)
        if failures.found and not stored and self._only_grows:
            return  # no step was written, so no length may claim one
        waited = self._flush_structure(failures)
        if waited:  # only now does the store have these variables
            self.cache.flush(failures, waited)

    def store(self) -> None:
        """Write all values, then the metadata, without publishing or syncing the store.

        Raises
        ------
        NCZarrError, OSError
            If a value cannot be stored; the metadata are unchanged then. If the metadata cannot be stored.
        """
        self.rules.check_open()
        with self._gate.closing:
            self._gate.close()
            self._check_alone()
            failures = Failures()
            self.cache.flush(failures)
            if failures.is_empty:
                self._flush_structure(failures)
            failures.raise_all(self.rules.name)

    def extend(self, dimension: DimensionNode, size: int) -> None:
        """Make a dimension at least `size` long, for a caller that then writes all new values.

        The new values replace those that an aborted writer left behind the shape, so nothing removes them before.
        """
        with self.tree.lock:
            dimension.grow(size)
            for node in self.root.walk_variables():
                if dimension in node.dimensions and node.stored_as is not None:
                    self._stored_values(node).trust_tail()

    def _store_changes(self, failures: Failures) -> None:
        try:
            if self._store_growth() and self._is_stored:
                return
        except STORE_ERRORS as error:
            failures.whole = error
            return
        self._check_alone_to_grow()
        with self.tree.lock:
            if self._is_stored:
                return
            self._choose_chunks()
            generation, structure = self.tree.generation, self.tree.structure
            nodes = [(node, node.fqn) for node in self.root.walk_variables()]
            for node, fqn in nodes:
                if node.stored_as is not None and node.stored_as != fqn:
                    # The data identify the variable in the stored dataset.
                    node.source = self.stored.data(node.stored_as)
                    node.frozen = None
                if node.stored_as is not None:
                    self._values(node)
            old = self.stored.dataset
            frozen = freeze(self.root, old.name, self.rules.format)
            frozen = replace(frozen, sources=self.sources, joined=self.joined)
            # Other threads may change nodes while the store works: only a node with the same frozen form is as
            # stored.
            before = [node.frozen for node, _ in nodes]
            unlimited = _unlimited(self.root)
        refusal: Exception | None = None
        try:
            self.stored.update(frozen)
        except PartlyStoredError as error:
            refusal = error
            failures.add("", error)
        except STORE_ERRORS as error:
            refusal = error
            # The store has refused all. Halves are tried, so that one refused document does not keep the others
            # out.
            store_parts(self.stored.update, old, frozen, error, failures)
        after = self.stored.dataset.all_variables
        with self.tree.lock:
            for (node, fqn), was in zip(nodes, before, strict=True):
                # Refused: the program still has the variable, and the next flush tries again.
                if refusal is not None and fqn not in after:
                    node.source = None if node.stored_as is None else self.stored.data(node.stored_as)
                    continue
                node.source = self.stored.data(fqn)
                node.stored_as = fqn
                if node.frozen is was and was is not None and refusal is None and _is_kept(was, after[fqn]):
                    node.frozen = after[fqn]
            if refusal is None:
                self._stored_generation = generation
                self._stored_records = _records_of(frozen)
                self._stored_count = len(nodes)
                self._stored_structure, self._unlimited = structure, unlimited

    def choose_chunks(self) -> None:
        """Choose the chunks of new variables that have none. They stay, and set the lengths for later variables."""
        with self.tree.lock:
            self._choose_chunks()

    def _choose_chunks(self) -> None:
        if self.stored.disk_format == "ZARR" and self.rules.writable:
            choose_chunks(self.root)

    def _store_growth(self) -> bool:
        """Store the lengths of dimensions if nothing else has changed. Return False otherwise."""
        with self.tree.lock:
            generation = self.tree.generation
            if not self._only_grows or generation == self._stored_generation or not self._is_recorded:
                return False
            lengths = {str(d.ref): d.size for d in self._unlimited}
        lengths = {fqn: size for fqn, size in lengths.items() if self.stored.length(fqn) != size}
        if not self.stored.lengthen(lengths):
            return False
        with self.tree.lock:
            self._stored_generation = generation
        return True

    # -- values

    def read(self, node: VariableNode, selection: OrthogonalIndex, *, keep: bool = False) -> np.ndarray:
        """Read a selection. `keep`: a single chunk stays in memory, for a write to a part of it that follows."""
        while True:
            with self._gate.passing():
                if passes := self._gate.lets_in:
                    self.rules.check_open()
                    if self._has(node):
                        source = self._values(node)
                        if keep:
                            self.cache.keep(node, selection)
                        if self.cache.holds(node):
                            return self.cache.read(node, source, selection)
                        return source.read_orthogonal(selection)
            self._flush_for(node) if passes else self._gate.wait()

    def read_points(self, node: VariableNode, axes: OrthogonalIndex) -> np.ndarray | None:
        """Read elements at single points; None if they have to be read by :meth:`read`, in boxes around them."""
        with self._gate.passing():
            if not self._gate.lets_in or not self._has(node) or self.cache.holds(node):
                return None
            self.rules.check_open()
            return self._values(node).read_points(axes)

    def write(self, node: VariableNode, selection: OrthogonalIndex, values: np.ndarray) -> None:
        """Write values in the model's form.

        Values of a variable that is not in the store are pending, up to a bound, until the next flush. So a program
        that creates and fills one variable after the other does not rewrite the metadata each time.
        """
        while True:
            with self._gate.passing():
                if passes := self._gate.lets_in:
                    self.rules.check_writable()
                    if self._has(node):
                        self._check_values(node, values)
                        # Before the cache takes the values: the array may be longer than the documents say, by
                        # another writer.
                        self._check_alone_to_grow(node)
                        self.cache.write(node, selection, values)
                        return
                    # Only a stored array knows which strings fit.
                    may_wait = not values.dtype.hasobject or "type" not in self.rules.restrictions.limited
                    with self.tree.lock:
                        weight = _weight(values)
                        # A loop over one variable may flush; a loop over many variables must not flush for each.
                        most = max(_FEW_WRITES * max(len(self._pending), 1), self._stored_count)
                        few = self._pending_count < most
                        if may_wait and few and self._pending_bytes + weight <= _PENDING_BYTES:
                            # A copy: programs reuse the array of a step for the next one.
                            self._pending.setdefault(node, deque()).append((selection, values.copy()))
                            self._pending_count += 1
                            self._pending_bytes += weight
                            return
            self._flush_for(node) if passes else self._gate.wait()

    def _flush_for(self, node: VariableNode) -> None:
        """Flush. If this variable is stored, errors of other variables are left to the next flush."""
        try:
            self.flush()
        except STORE_ERRORS:
            # The error belongs to another variable, and its next flush raises it again. Raising it here would make
            # a read fail whose values are there.
            if not self._has(node):
                raise

    def _check_values(self, node: VariableNode, values: np.ndarray) -> None:
        """Raise :class:`ArgumentError` for values that the stored array cannot hold."""
        source = self._stored_values(node)
        if source.limited:
            try:
                source.check(values)
            except NCZarrError as error:
                raise ArgumentError(error.message, fqn=node.fqn, hint=error.hint) from error

    def _has(self, node: VariableNode) -> bool:
        """True if the store has a variable, and none of its values are pending; the thread passes the gate."""
        return node.stored_as is not None and node not in self._pending

    def has_values(self, node: VariableNode) -> bool:
        """True if values of a variable are stored, or are to be stored."""
        return node.stored_as is not None or node in self._pending

    def limit_cache(self, node: VariableNode, size: int) -> None:
        """Limit the bytes of a variable's chunks in memory, to less than the bytes of all."""
        self.cache.variable(node).bytes = size

    def chunk_shape(self, node: VariableNode) -> tuple[int, ...] | None:
        """Return the chunk shape of a variable in the store; None if the store does not have it."""
        self.rules.check_open()
        # By the stored name: a rename that is not flushed has another one in the tree.
        return None if node.stored_as is None else self.stored.data(node.stored_as).chunk_shape

    def exclude_others(self, places: Iterable[tuple[VariableNode, Sequence[slice]]]) -> None:
        """Exclude the writers that would undo a write to these places, before its first byte.

        Whole chunks exclude no writer.

        Raises
        ------
        LockedError
            If such a writer has the dataset open.
        """
        before = self.stored.before_part
        if before is not None and not all(self._has_whole_chunks(node, place) for node, place in places):
            before()

    def _has_whole_chunks(self, node: VariableNode, place: Sequence[slice]) -> bool:
        """Return whether no other writer could change a chunk of a region."""
        for dimension, part, length in zip(node.dimensions, place, self.chunk_shape(node) or (), strict=True):
            # The last chunk of a dimension that grows belongs to the next append, too.
            is_end = part.stop == dimension.size and not dimension.unlimited
            if part.start % length or not (part.stop % length == 0 or is_end):
                return False
        return True

    def _stored_values(self, node: VariableNode) -> StoredArray:
        """Return the stored array of a variable; the thread passes the gate or has closed it."""
        source = node.source
        if source is None:
            assert node.stored_as is not None
            source = node.source = self.stored.data(node.stored_as)
        return source

    def _values(self, node: VariableNode) -> StoredArray:
        """Return the stored array of a variable, grown to its current shape; the gate as above."""
        source = self._stored_values(node)
        return node.grown() if self.rules.writable else source

    def _check_alone_to_grow(self, *nodes: VariableNode) -> None:
        """Call :meth:`_check_alone` before the growth of some or all variables removes values behind their arrays.

        They may be those of another writer.
        """
        if self.reopen is None:
            return
        found = nodes or [node for node in self.root.walk_variables() if node.stored_as is not None]
        # Only then, because each check opens the dataset once more.
        if any(self._values(node).may_have_tail for node in found):
            self._check_alone()

    # -- the end

    @property
    def is_unstored(self) -> bool:
        """True if the store does not have all changes."""
        changed = (
            self.tree.generation != self._stored_generation or bool(self._pending) or bool(self.cache.dirty)
        )
        return changed and self.rules.is_open and self.rules.writable and not self.rules.is_inherited

    @contextmanager
    def _durable(self, durable: bool | None) -> Iterator[None]:
        """Set whether the store waits for the disk within the block; None: as the dataset was opened."""
        before = self.stored.durable
        if durable is not None:
            self.stored.durable = durable
        try:
            yield
        finally:
            if self.rules.is_open and durable is not None:
                self.stored.durable = before

    @contextmanager
    def _together(self) -> Iterator[None]:
        """Let values and lengths wait for the disk together; the gate is closed. After an error all are changed again.

        Other changes of the structure may read values that wait.
        """
        if self._pending or not self._only_grows:
            yield
            return
        changed = self.cache.changed
        try:
            with self.stored.together():
                yield
        # Also at an interrupt: the cache counts its chunks as stored, and the disk may have none of them.
        except BaseException:
            self.cache.change_again(changed)
            raise

    def sync(self, *, durable: bool | None = None) -> None:
        """Write all changes; a reader sees the changes of other programs.

        `durable`: whether to wait for the disk; None: as the dataset was opened.
        """
        self.rules.check_open()
        if not self.rules.writable:
            self._refresh()
        else:
            with self._gate.closing, self._durable(durable):
                self._gate.close()
                failures = Failures()
                try:
                    with self._together():
                        self._flush_all(failures)
                        if failures.whole is None:
                            self.stored.publish()
                            if self.at_publish is not None:
                                self.locks = [*self.locks, self.at_publish()]
                                self.at_publish = None
                            self.stored.sync()
                            logger_of(__name__).debug("%s: synchronized", self.rules.name)
                except STORE_ERRORS as error:
                    if not failures.found:
                        raise
                    # The first error tells the cause.
                    # A variable that cannot be stored often makes publishing fail as well: raising the last error
                    # would hide which one it was.
                    next(iter(failures.found.values())).add_note(str(error))
                failures.raise_all(self.rules.name)

    def _refresh(self) -> None:
        """Adopt the lengths and the values that are stored now.

        Raises
        ------
        EditError
            If a variable was added, removed or redefined. Nothing changes then.
        """
        if self.reopen is None:
            return
        other = self.reopen()  # the new one, then the old one: closed in any case
        try:
            with self._gate.closing:
                self._gate.close()
                with self.tree.lock:
                    # Nodes of a program keep their identity, so only lengths may differ. Half an adopted dataset
                    # would mix two states.
                    self._check_unchanged(other.dataset, lengths=False)
                    for group in self.root.walk():
                        for d in group.dimensions.values():
                            d.size = other.dataset.dimension_at(str(d.ref)).size
                    for node in self.root.walk_variables():
                        # The arrays of the new hierarchy, whose lengths are those read now.
                        node.source = node.frozen = None
                    self.stored, other = other, self.stored
                    self._stored_records = _records_of(self.stored.dataset)
        finally:
            other.close()

    def _check_unchanged(self, now: model.Dataset, *, lengths: bool) -> None:
        """Raise EditError if the variables, or also the lengths, differ from those in the store at the last look."""

        def form(dataset: model.Dataset) -> dict[str, tuple[object, ...]]:
            return {
                fqn: (v.type, v.dimensions, dataset.shape_of(v) if lengths else None)
                for fqn, v in dataset.all_variables.items()
            }

        before, after = form(self.stored.dataset), form(now)
        for fqn in dict.fromkeys([*before, *after]):
            if before.get(fqn) != after.get(fqn):
                raise EditError(
                    "another program has added, removed or changed the variable since the dataset was opened",
                    path=self.rules.name,
                    fqn=fqn,
                    hint="open the dataset again, and repeat the changes",
                )

    def _check_alone(self) -> None:
        """Raise EditError if nothing excludes other writers, and one has stored other variables or lengths."""
        if self.rules.writable and self.reopen is not None:
            with closing(self.reopen()) as other:
                self._check_unchanged(other.dataset, lengths=True)

    def close_dropped(self) -> None:
        """Close a dataset without references, or at exit."""
        if self.rules.is_open:
            self.close(dropped=True)

    def close(self, *, dropped: bool = False, durable: bool | None = None) -> memoryview | None:
        """Sync and close.

        `dropped`: the dataset has no references. `durable`: as for :meth:`sync`.
        """
        # A forked child shares files and locks with its parent: a flush here would write the same chunks twice.
        if self.rules.is_open and self.rules.is_inherited:  # all of it belongs to the parent
            self.rules.is_open, self.rules.dropped = False, dropped
            return None
        self.rules.check_open()
        with self._gate.closing:
            self._gate.close()
            self.rules.check_open()
            failures = Failures()
            if durable is not None:
                self.stored.durable = durable
            try:
                with self._together():
                    try:
                        if self.rules.writable:
                            self._flush_all(failures)
                    finally:
                        # Also after an error: the locks are released below, so nothing may be written any more.
                        self.rules.is_open = False
                        self.cache.clear()
                        self.rules.dropped = dropped
                        # No caller gets the error of a dropped dataset, so the store keeps its mark of an
                        # unfinished one.
                        if dropped and not failures.is_empty:  # no caller gets the error, so readers must
                            self.stored.leave_unfinished(failures.describe())
                        else:
                            self._close_stored(failures)
                failures.raise_all(self.rules.name)
                return self.at_close() if self.at_close is not None else None
            finally:
                # Last, in any case: another program waits for them, or is refused until this process ends.
                for lock in self.locks:
                    lock.release()
                closed(self)

    def _close_stored(self, failures: Failures) -> None:
        """Close the store. Remove variables and groups of a new dataset whose documents the store refuses."""
        while True:
            try:
                self.stored.close()
                return
            except STORE_ERRORS as error:
                refused = self.stored.refused()
                if not refused:
                    raise
                new = self.stored.dataset
                parts = [Addition(kind, fqn) for fqn in refused for kind in ("variable", "group")]
                try:
                    self.stored.update(without(new, model.Dataset(new.name), parts))
                except STORE_ERRORS:
                    # Without the refused parts it fails as well: the first error is the cause.
                    raise error from None
                for fqn, reason in refused.items():
                    failures.add(fqn, reason)


def _records_of(dataset: model.Dataset) -> tuple[tuple[IngestedSource, ...], JoinRecord]:
    """Return the record of the sources, and that of the join."""
    return dataset.sources, dataset.joined


def _rules_of(stored: Stored, name: str, *, writable: bool, shared: bool) -> EditRules:
    return EditRules(
        name,
        writable=writable,
        shared=shared,
        format=stored.dataset.format,
        restrictions=stored.restrictions,
        check_stored=stored.check_model,
    )


def _weight(values: np.ndarray) -> int:
    return weight_of(values.dtype, values.size)


def _unlimited(root: GroupNode) -> list[DimensionNode]:
    """Return the dimensions that can grow; the caller holds the tree's lock."""
    return [d for group in root.walk() for d in group.dimensions.values() if d.unlimited]


def _is_kept(frozen: model.Variable, bound: model.Variable) -> bool:
    """Return True if the store's own object is the unchanged variable; by that object, the next update skips it."""
    same = bound.attributes is frozen.attributes and bound.type is frozen.type
    return same and bound.dimensions == frozen.dimensions and bound.storage is frozen.storage

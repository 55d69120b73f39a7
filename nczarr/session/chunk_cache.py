"""Cache decoded chunks of a dataset, and write changed chunks to the store.

A write of a single value to the store costs a read, a change and a write of a whole chunk. The cache changes the
chunk in memory instead, and stores it when all its values are written, when the cache is full, when a reader needs
more than this chunk, and on sync and close. Full-chunk writes bypass the cache.

Threads: each chunk has a lock. While one thread writes to a variable past the cache, all writers of the variable
bypass the cache, and the engine locks each stored chunk. So a chunk in memory is never older than the stored chunk.
"""

from __future__ import annotations

import itertools
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from nczarr.model import STRING
from nczarr.model.sources import OrthogonalIndex
from nczarr.session.backend import StoredArray
from nczarr.session.errors import STORE_ERRORS, Failures
from nczarr.session.tree import VariableNode
from nczarr.system.environment import limit
from nczarr.system.locks import Rank, make_lock, while_held
from nczarr.zarr.chunks.plan import ChunkDimProjection, each_axis, plan_axis
from nczarr.zarr.chunks.selection import DimensionSelection
from nczarr.zarr.pool import run, run_while_quick

#: Chunk numbers along each axis of a variable.
ChunkNumbers = Sequence[Sequence[int]]

#: Estimated bytes of one object.
OBJECT_BYTES = 256
#: Larger multiples of the cache's bound are never kept as a chunk.
_OVERSIZE = 8
#: Multiple of the cache's bound that chunks of growing variables may take in addition.
_MOST_GROWING = 8
#: A write to parts of more chunks than this bypasses the cache.
_MOST_PARTS = 4096
#: Limit of the set of stored chunks of a new variable.
#: A loop over a million steps needed 150 MB for it.
_MOST_STORED_CHUNKS = 1 << 17
#: Smaller chunks stay in memory when they are complete, and are stored together.
_SMALL = 32 << 10
#: Bytes of chunks that are stored together.
_TOGETHER = 4 << 20
_NO_END = 1 << 62


def default_bytes() -> int:
    """Return the bytes of a dataset's cache: the environment variable ``NCZARR_CACHE``, or 64 MiB."""
    return limit("NCZARR_CACHE")


def weight_of(dtype: np.dtype, count: int) -> int:
    """Return the estimated bytes of `count` values."""
    return count * (OBJECT_BYTES if dtype.hasobject else dtype.itemsize)


class BlockLayout(NamedTuple):
    """The blocks in which the cache keeps the values of a variable."""

    source: StoredArray
    shape: tuple[int, ...]
    #: Bytes of one block.
    weight: int
    #: True if a chunk consists of several blocks, which are stored together.
    is_divided: bool


class CachedVariable:
    """A variable whose values pass through the cache: its blocks in memory, and its known chunks in the store."""

    def __init__(self, node: VariableNode) -> None:
        self.node = node
        #: The blocks of the stored array; None before the first write.
        self.layout: BlockLayout | None = None
        #: Number of its blocks in memory.
        self.blocks = 0
        #: Number of threads that write past them; after an interrupt, it may be too high.
        self.write_through_count = 0
        #: The chunks in the store, so that a new one is not read before a part is written; None if there may be others.
        self.stored_chunks: set[tuple[int, ...]] | None = set() if node.is_new else None
        #: Limit of the bytes of its blocks, if less than that of the dataset.
        self.bytes: int | None = None

    @property
    def source(self) -> StoredArray:
        """The stored array."""
        source = self.node.source
        assert source is not None
        return source

    @property
    def is_divided(self) -> bool:
        """True if its chunks consist of several blocks."""
        return self.layout is not None and self.layout.is_divided

    def note(self, chunks: Iterable[tuple[int, ...]]) -> None:
        """Note that chunks are stored; the caller holds the cache's lock."""
        if self.stored_chunks is not None:
            self.stored_chunks.update(chunks)
            if len(self.stored_chunks) > _MOST_STORED_CHUNKS:
                self.stored_chunks = None


class CachedChunk:
    """One decoded chunk."""

    def __init__(self, variable: CachedVariable, index: tuple[int, ...], weight: int) -> None:
        self.variable = variable
        self.index = index
        self.weight = weight
        self.lock = make_lock(Rank.BLOCK)
        #: None until the chunk is loaded.
        self.values: np.ndarray | None = None
        #: True for the elements written since the last store, where other processes may write the others.
        self.mask: np.ndarray | None = None
        #: Number of elements written since the last store.
        self.written = 0
        #: Their range along the first axis.
        self.first, self.stop = _NO_END, 0
        #: True if the block is no longer in the cache.
        self.evicted = False


class _Item(NamedTuple):
    """The part of a selection in one chunk."""

    chunk: tuple[int, ...]
    #: The place in the chunk, and in the values; None: all values.
    inner: OrthogonalIndex
    outer: tuple[slice, ...] | None
    #: True if it is the whole chunk.
    covers: bool


class ChunkCache:
    """The decoded chunks of one dataset in memory.

    Parameters
    ----------
    shared : bool
        True if other processes may write values at the same time: only written elements are stored then.
    parallel_requests : int
        The number of requests to a server that wait at the same time; 1 without a server.

    Attributes
    ----------
    reserves : bool
        The last chunk of each growing variable adds its size to the limit, up to eight times the bound: a loop that
        appends a step to each variable would otherwise store and load every chunk again in each step.
    """

    def __init__(self, *, shared: bool = False, parallel_requests: int = 1) -> None:
        self._shared = shared
        self.parallel_requests = parallel_requests
        #: Limit of the bytes of all chunks.
        self.bound = default_bytes()
        #: Guards the table of chunks; held for a moment, never during input and output.
        self._lock = make_lock(Rank.SESSION)
        self._variables: dict[VariableNode, CachedVariable] = {}
        self._blocks: OrderedDict[tuple[int, tuple[int, ...]], CachedChunk] = OrderedDict()
        #: Bytes of the chunks in memory.
        self.weight = 0
        self.reserves = True
        #: Bytes of one chunk of each growing variable.
        self._growing: dict[CachedVariable, int] = {}
        self._reserved = 0
        #: The number of threads that are about to use a chunk; after an interrupt, it may be too high.
        self._pins: Counter[CachedChunk] = Counter()
        #: Variables with writes past the cache since :meth:`recover`.
        self._written_through: set[CachedVariable] = set()
        #: The changed chunks, which a sync stores.
        self.dirty: dict[CachedChunk, None] = {}

    @property
    def limit(self) -> int:
        """Limit of :attr:`weight`."""
        return self.bound + min(self._reserved, self.bound * _MOST_GROWING)

    def variable(self, node: VariableNode) -> CachedVariable:
        """Return the state of a variable in the cache."""
        known = self._variables.get(node)
        return self._variables.setdefault(node, CachedVariable(node)) if known is None else known

    def holds(self, node: VariableNode) -> bool:
        """True if chunks of a variable are in memory."""
        known = self._variables.get(node)
        return known is not None and known.blocks > 0

    def _reserve(self, variable: CachedVariable, weight: int) -> None:
        """Reserve memory for the last chunk of a variable that grows."""
        dimensions = variable.node.dimensions
        if self.reserves and dimensions and dimensions[0].unlimited:
            with self._lock:
                # The difference: a variable that was redefined has another chunk.
                self._reserved += weight - self._growing.get(variable, 0)
                self._growing[variable] = weight

    @property
    def changed(self) -> list[CachedChunk]:
        """The changed chunks."""
        with self._lock:
            return list(self.dirty)

    def change_again(self, blocks: Iterable[CachedChunk]) -> None:
        """Count chunks as changed that the store has lost after :meth:`flush`."""
        with self._lock:
            for block in blocks:
                # An evicted chunk has left the memory: the store alone had its values.
                if not block.evicted and block.values is not None:
                    self.dirty[block] = None
                    block.first, block.stop = 0, len(block.values)

    def _layout(self, variable: CachedVariable) -> BlockLayout:
        """Return the blocks of a variable, and reserve memory for them at first."""
        source, layout = variable.source, variable.layout
        if layout is None or layout.source is not source:
            shape = source.block_shape
            weight, is_divided = weight_of(source.dtype, prod(shape)), shape != source.chunk_shape
            variable.layout = layout = BlockLayout(source, shape, weight, is_divided)
            self._reserve(variable, weight)
        return layout

    # -- writing

    def write(self, node: VariableNode, selection: OrthogonalIndex, values: np.ndarray) -> None:
        """Write values to a selection of a variable."""
        variable = self.variable(node)
        layout = self._layout(variable)
        _, chunk, weight, is_divided = layout
        # A scalar has one value, and a chunk of several bounds would drop all others from memory.
        if not chunk or weight > self._limit(variable) * _OVERSIZE:
            self._write_through(variable, selection, values)
            return
        item = _only_item(selection, chunk, _sizes(node))
        if item is None:
            self._write_chunks(variable, layout, selection, values)
        # Small whole chunks stay in memory: several of them are stored by one write.
        elif (weight >= _SMALL and item.covers and not is_divided) or self._change(
            variable, layout, [item], values
        ):
            self._write_through(variable, selection, values, [[i] for i in item.chunk])

    def _write_chunks(
        self, variable: CachedVariable, layout: BlockLayout, selection: OrthogonalIndex, values: np.ndarray
    ) -> None:
        """Write to several chunks: whole chunks at once to the store, parts of chunks to memory."""
        source, chunk, weight, is_divided = layout
        sizes = _sizes(variable.node)
        parts = _parts(selection, chunk, sizes)
        numbers, count = _numbers(parts), prod(map(len, parts))
        stored = _parts(selection, source.chunk_shape, sizes) if is_divided else parts
        # Stored chunks, where the cache has parts of them: whole blocks of a chunk that is not whole would be read
        # first.
        if count and all(p.covers for axis in stored for p in axis):
            self._write_through(variable, selection, values, numbers)
            return
        whole = [] if is_divided else [[p for p in axis if p.covers] for axis in parts]
        partial = count - (prod(map(len, whole)) if whole else 0)
        # More parts than fit: each would be loaded, and evicted by the next.
        if partial > _MOST_PARTS or (partial > 1 and partial * weight > self._limit(variable)):
            self._write_through(variable, selection, values, numbers)
            return
        if partial < count:
            # From the first whole chunk to the last: positions may leave out chunks or parts of them between.
            outer = tuple([slice(axis[0].out.start, axis[-1].out.stop) for axis in whole])
            between = [range(axis[0].chunk, axis[-1].chunk + 1) for axis in whole]
            self._write_through(variable, tuple(map(_picked, selection, outer)), values[outer], between)
        items = [_item(along) for along in itertools.product(*parts)]
        for item in self._change(variable, layout, [i for i in items if is_divided or not i.covers], values):
            assert item.outer is not None
            place = tuple(map(_picked, selection, item.outer))
            self._write_through(variable, place, values[item.outer], [[i] for i in item.chunk])

    def _limit(self, variable: CachedVariable) -> int:
        return self.bound if variable.bytes is None else min(self.bound, variable.bytes)

    def _change(
        self, variable: CachedVariable, layout: BlockLayout, items: list[_Item], values: np.ndarray
    ) -> list[_Item]:
        """Write to parts of chunks in memory. Return the items that must be written past the cache now."""
        source, shape, weight, is_divided = layout
        while items:
            blocks = self._pin(variable, items, weight)
            if blocks is None:
                break
            again = []
            try:
                # The caller's order is the order of the locks: never two at a time.
                for block, item in zip(blocks, items, strict=True):
                    with block.lock:
                        if block.evicted:
                            again.append(item)
                            continue
                        chunk = block.values
                        if chunk is None:
                            chunk = (
                                source.filled(shape)
                                if item.covers
                                else self._loaded(variable, source, block.index)
                            )
                            block.values = chunk
                        piece = values if item.outer is None else values[item.outer]
                        chunk[item.inner] = piece
                        if self._shared:
                            # Other processes write the other elements: only these are stored.
                            if block.mask is None:
                                block.mask = np.zeros(chunk.shape, bool)
                            block.mask[item.inner] = True
                        if block not in self.dirty:
                            with self._lock:
                                self.dirty[block] = None
                        block.written += piece.size
                        rows = item.inner[0]
                        if not isinstance(rows, slice):
                            rows = slice(int(rows.flat[0]), int(rows.flat[-1]) + 1)
                        block.first = min(block.first, rows.start)
                        block.stop = max(block.stop, rows.stop)
                        # By counting: a chunk whose elements a program writes twice is only stored earlier.
                        if block.written >= chunk.size and weight >= _SMALL and not is_divided:
                            self._store([block])
            finally:
                self._unpin(blocks)
            items = again
        # After the pins are gone: a pinned chunk cannot go.
        if self.weight > self.limit or variable.bytes is not None:
            self._shrink(variable)
        return items

    def _pin(self, variable: CachedVariable, items: list[_Item], weight: int) -> list[CachedChunk] | None:
        """Pin the chunks of some items in memory. Return None while another thread writes past the cache."""
        key = id(variable)
        found = []
        with self._lock:
            # Another thread writes this variable past the cache: a chunk that is loaded now would be older than the
            # stored one.
            if variable.write_through_count:
                return None
            for item in items:
                block = self._blocks.get((key, item.chunk))
                # An interrupt came between the mark and the removal.
                if block is not None and block.evicted:
                    self._drop(block)
                    block = None
                if block is None:
                    block = self._blocks[key, item.chunk] = CachedChunk(variable, item.chunk, weight)
                    self.weight += weight
                    variable.blocks += 1
                else:
                    self._blocks.move_to_end((key, item.chunk))
                self._pins[block] += 1
                found.append(block)
        return found

    def _unpin(self, blocks: Iterable[CachedChunk]) -> None:
        with self._lock:
            for block in blocks:
                self._pins[block] -= 1
                if self._pins[block] <= 0:
                    del self._pins[block]

    def _loaded(self, variable: CachedVariable, source: StoredArray, index: tuple[int, ...]) -> np.ndarray:
        """Return a chunk as it is stored, with fill values in the rest."""
        chunk = source.block_shape
        known = variable.stored_chunks
        # A new variable has only the chunks of this session: no request for one that cannot exist.
        if known is not None and index not in known:
            return source.filled(chunk)
        region = _region(index, chunk, source.shape)
        # A grown array whose document is not longer yet.
        if any(s.start >= s.stop for s in region):  # outside of the current shape
            return source.filled(chunk)
        stored = source.read(region)
        if stored.shape == chunk:
            return stored
        values = source.filled(chunk)
        values[tuple([slice(0, n) for n in stored.shape])] = stored
        return values

    def _store(self, blocks: list[CachedChunk]) -> None:
        """Store changed chunks of one variable, adjacent along the first axis; the caller holds their locks."""
        blocks = [block for block in blocks if block in self.dirty and block.values is not None]
        if not blocks:
            return
        variable = blocks[0].variable
        source = variable.node.grown()
        if self._shared:
            for block in blocks:
                _write_own(source, block)
        # A file has room for each record: writing the whole chunk would write records that this flush has not
        # changed.
        elif len(blocks) == 1 and source.in_place:
            _write_changed(source, blocks[0])
        elif len(blocks) == 1 or variable.is_divided:
            source.write_blocks({block.index: block.values for block in blocks if block.values is not None})
        else:
            regions = [_region(block.index, source.chunk_shape, source.shape) for block in blocks]
            values = [block.values for block in blocks if block.values is not None]
            pieces = [v[_inside(region)] for v, region in zip(values, regions, strict=True)]
            first = slice(regions[0][0].start, regions[-1][0].stop, 1)
            source.write((first, *regions[0][1:]), np.concatenate(pieces))
        with self._lock:
            variable.note([block.index for block in blocks])  # first, in case of an interrupt
            for block in blocks:
                self.dirty.pop(block, None)
                block.written = 0
                block.first, block.stop = _NO_END, 0
                if block.mask is not None:  # its other elements may be out of date
                    self._drop(block)

    def _write_through(
        self,
        variable: CachedVariable,
        selection: OrthogonalIndex,
        values: np.ndarray,
        numbers: ChunkNumbers | None = None,
    ) -> None:
        """Write to the store. First write the chunks in memory that the selection touches, and evict them.

        `numbers` are the numbers of the chunks along each axis; None: possibly all.
        """
        with self._lock:
            # Counted before the chunks are looked for: a chunk that another thread loads in between would not be
            # among them.
            variable.write_through_count += 1
            self._written_through.add(variable)
            touched = self._within(variable, numbers) if variable.blocks else []
            if variable.stored_chunks is not None:
                # Unknown which chunks exist now: from here on, each is looked for in the store.
                if numbers is None or prod(map(len, numbers)) > _MOST_PARTS:
                    variable.stored_chunks = None
                else:
                    variable.note(itertools.product(*numbers))
        try:
            for block in touched:
                with block.lock:
                    if block.evicted:
                        continue
                    self._store([block])
                    with self._lock:  # after it is stored: other writers past the cache must wait for it
                        self._drop(block)
            source = variable.node.grown()
            single = numbers is not None and all(len(axis) == 1 for axis in numbers)
            if numbers is not None and single and values.shape == source.block_shape:
                source.write_blocks({tuple([axis[0] for axis in numbers]): values})
            else:
                source.write(selection, values)
        finally:
            with self._lock:
                variable.write_through_count -= 1

    # -- reading

    def read(self, node: VariableNode, source: StoredArray, selection: OrthogonalIndex) -> np.ndarray:
        """Read a selection of a variable that has chunks in memory.

        `source` is its stored array, in the current shape of the variable.
        """
        variable, parts = self.variable(node), _parts(selection, source.block_shape, source.shape)
        # A caller may change nested values in place, so they are never taken from the cache.
        plain = not source.dtype.hasobject or node.type == STRING
        if plain and all(len(axis) == 1 for axis in parts):
            key = id(variable), tuple([axis[0].chunk for axis in parts])
            with self._lock:
                block = self._blocks.get(key)
                if block is not None:
                    self._blocks.move_to_end(key)
                    self._pins[block] += 1
            if block is not None:
                try:
                    with block.lock:
                        if block.values is not None and not block.evicted:
                            return block.values[each_axis([axis[0].inner for axis in parts])].copy()
                finally:
                    self._unpin([block])
        with self._lock:
            # A read of several chunks comes from the store, which decodes them in parallel; changed ones go there
            # first.
            changed = [block for block in self._within(variable, _numbers(parts)) if block in self.dirty]
        if changed:
            self._store_all(changed)
        return source.read_orthogonal(selection)

    def keep(self, node: VariableNode, selection: OrthogonalIndex) -> None:
        """Load the chunk that contains a selection, for a write to it that follows, if it fits."""
        variable = self.variable(node)
        layout = self._layout(variable)
        item = _only_item(selection, layout.shape, _sizes(node)) if layout.shape else None
        if item is None or layout.weight > self._limit(variable):
            return
        for block in self._pin(variable, [item], layout.weight) or ():
            try:
                with block.lock:
                    if block.values is None and not block.evicted:
                        block.values = self._loaded(variable, layout.source, block.index)
            finally:
                self._unpin([block])

    def _within(self, variable: CachedVariable, numbers: ChunkNumbers | None) -> list[CachedChunk]:
        """Return the chunks in memory with these numbers along each axis; the cache's lock is held."""
        blocks, key = self._blocks, id(variable)
        if numbers is not None and prod(map(len, numbers)) <= variable.blocks:
            return [blocks[key, index] for index in itertools.product(*numbers) if (key, index) in blocks]
        # Fewer chunks in memory than the selection has: go through those.
        own = [block for block in blocks.values() if block.variable is variable]
        if numbers is None:
            return own
        axes = [axis if isinstance(axis, range) else set(axis) for axis in numbers]
        return [b for b in own if all(i in axis for i, axis in zip(b.index, axes, strict=True))]

    # -- making room

    def _drop(self, block: CachedChunk) -> None:
        """Remove a chunk; the caller holds the cache's lock."""
        block.evicted = True  # first: after an interrupt, the next lookup removes it
        if self._blocks.pop((id(block.variable), block.index), None) is not None:
            self.weight -= block.weight
            block.variable.blocks -= 1

    def _shrink(self, variable: CachedVariable) -> None:
        """Store and evict the least recently used chunks until the bounds hold. One chunk may stay."""
        with self._lock:
            blocks = self._select_evictions(variable)
            for block in blocks:
                self._pins[block] += 1
        try:
            self._store_all(blocks)
            for block in blocks:
                # Without the chunk's lock: a thread that reads or writes its values has pinned it, too.
                with self._lock:
                    if self._pins[block] == 1 and block not in self.dirty and not block.evicted:
                        self._drop(block)
        finally:
            self._unpin(blocks)

    def _select_evictions(self, variable: CachedVariable) -> list[CachedChunk]:
        """Return chunks to evict: several at a time, so that small chunks are stored together."""
        chosen: list[CachedChunk] = []
        if self.weight > self.limit:
            # Down to three quarters: a loop at the limit would otherwise evict one chunk in each step, and store
            # each alone.
            left, target = self.weight, self.limit * 3 // 4
            for block in itertools.islice(self._blocks.values(), len(self._blocks) - 1):
                if left <= target:
                    break
                if not self._pins[block]:
                    chosen.append(block)
                    left -= block.weight
            return chosen
        limit = variable.bytes
        if limit is not None and variable.blocks:
            own = [block for block in self._blocks.values() if block.variable is variable]
            left = sum(block.weight for block in own)
            # The last used chunk stays, unless the program wants none: the next write goes there.
            for block in own if not limit else own[:-1]:
                if left > limit and not self._pins[block]:
                    chosen.append(block)
                    left -= block.weight
        return chosen

    # -- as a whole

    def recover(self) -> None:
        """Correct counts that an interrupt left too high, while no thread reads or writes."""
        with self._lock:
            for variable in self._written_through:
                # A count that an interrupt left too high would keep all writers of the variable past the cache.
                variable.write_through_count = 0
            self._written_through.clear()
            self._pins.clear()

    def flush(self, failures: Failures, nodes: Collection[VariableNode] | None = None) -> bool:
        """Store the changed chunks of all variables, or of some; they stay in memory.

        Chunks that cannot be stored stay changed.

        Returns
        -------
        bool
            True if a chunk was stored.
        """
        changed = [block for block in self.changed if nodes is None or block.variable.node in nodes]
        if changed:
            self._store_all(changed, failures)
        return any(block not in self.dirty for block in changed)

    def _store_all(self, blocks: list[CachedChunk], failures: Failures | None = None) -> None:
        """Store the changed ones of some chunks. Adjacent small chunks are stored together.

        `failures` collects the errors; without it, the first error is raised.
        """

        def store(together: list[CachedChunk]) -> None:
            # One order of the locks everywhere.
            while_held([block.lock for block in together], lambda: store_held(together))

        def store_held(together: list[CachedChunk]) -> None:
            for row in _rows([block for block in together if block in self.dirty]):
                store_each(row)

        def store_each(row: list[CachedChunk]) -> None:
            try:
                self._store(row)
            except STORE_ERRORS as error:
                if failures is None:
                    raise
                # One refused chunk must not keep its neighbours out of the store.
                if len(row) == 1:
                    failures.add(row[0].variable.node.fqn, error)
                    return
                for block in row:
                    store_each([block])

        changed = [block for block in blocks if block in self.dirty]
        runs = list(_rows(sorted(changed, key=lambda b: (id(b.variable), b.index[1:], b.index[0]))))
        if len(runs) == 1:
            store(runs[0])
        # A server answers while others are under way; the processors do not matter.
        elif self.parallel_requests > 1:
            run(store, runs, self.parallel_requests)
        elif runs:
            # Steps that are added to a file cost little, however large the chunks are.
            heavy = [b for b in changed if not (b.variable.is_divided or b.variable.source.in_place)]
            light = sum(b.weight for b in heavy) <= _SMALL * len(runs)
            (run_while_quick if light else run)(store, runs, None)

    def clear(self) -> None:
        """Discard all chunks, stored or not."""
        with self._lock:
            for block in self._blocks.values():
                # Threads that still hold a chunk see that it has left.
                block.variable.blocks = 0
                block.evicted = True
            self._blocks.clear()
            self._pins.clear()
            self.dirty.clear()
            self.weight = 0


def _write_changed(source: StoredArray, block: CachedChunk) -> None:
    """Write only the changed records of a chunk, which a file may hold far apart."""
    assert block.values is not None
    rows, *rest = _region(block.index, source.chunk_shape, source.shape)
    changed = slice(rows.start + block.first, min(rows.start + block.stop, rows.stop), 1)
    rows = slice(block.first, changed.stop - rows.start)
    source.write((changed, *rest), block.values[(rows, *_inside(rest))])


def _write_own(source: StoredArray, block: CachedChunk) -> None:
    """Write only the elements of a chunk that this process has changed."""
    assert block.values is not None
    assert block.mask is not None
    region = _region(block.index, source.block_shape, source.shape)
    mask = block.mask[_inside(region)]
    # All elements are ours: nothing has to be read and merged.
    if mask.all():
        source.write_blocks({block.index: block.values})
        return
    for places in _boxes(mask):
        target = tuple([place + s.start for place, s in zip(places, region, strict=True)])
        source.write(target, block.values[np.ix_(*places)])


def _boxes(mask: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield positions along the axes whose combinations are the true elements.

    Examples
    --------
    >>> for rows, columns in _boxes(np.array([[1, 1], [0, 0], [1, 1], [0, 1]], bool)):
    ...     rows.tolist(), columns.tolist()
    ([0, 2], [0, 1])
    ([3], [1])
    """
    rows = mask.reshape(len(mask), -1)
    whole = rows.all(axis=1)
    if whole.any():
        yield np.flatnonzero(whole), *(np.arange(n) for n in mask.shape[1:])
    for row in np.flatnonzero(rows.any(axis=1) & ~whole):
        for rest in _boxes(mask[row]):
            yield np.array([row]), *rest


def _rows(blocks: list[CachedChunk]) -> Iterator[list[CachedChunk]]:
    """Divide sorted chunks into runs that are stored together.

    The chunks of a run are adjacent along the first axis and have a limited number of bytes, or are all parts of the
    divided chunks of a variable.
    """
    row = blocks[:1]
    for block in blocks[1:]:
        last = row[-1]
        follows = block.index == (last.index[0] + 1, *last.index[1:])
        follows = follows and (len(row) + 1) * block.weight <= _TOGETHER
        if block.variable is last.variable and (follows or block.variable.is_divided):
            row.append(block)
        else:
            yield row
            row = [block]
    if row:
        yield row


def _item(parts: tuple[ChunkDimProjection, ...]) -> _Item:
    """Return the part of a selection in the chunk at the intersection of parts along all axes."""
    chunk, out, inner, _, covers, _ = zip(*parts, strict=True)
    return _Item(chunk, each_axis(inner), out, all(covers))


def _only_item(selection: OrthogonalIndex, chunk: tuple[int, ...], sizes: list[int]) -> _Item | None:
    """Return the item of slices that lie in a single chunk, as in most loops; None for other selections."""
    index, inner, covers = [], [], True
    for selector, length, size in zip(selection, chunk, sizes, strict=True):
        # The common case alone: positions and steps take the general way.
        if type(selector) is not slice or selector.step != 1:
            return None
        number, first = divmod(selector.start, length)
        stop = first + selector.stop - selector.start
        if not first < stop <= length:
            return None
        covers = covers and first == 0 and (stop == length or selector.stop == size)
        index.append(number)
        inner.append(slice(first, stop, 1))
    return _Item(tuple(index), tuple(inner), None, covers)


def _parts(
    selection: OrthogonalIndex, chunk: tuple[int, ...], sizes: Sequence[int]
) -> list[list[ChunkDimProjection]]:
    """Divide a selection at the chunk borders along each axis."""
    result = []
    for selector, length, size in zip(selection, chunk, sizes, strict=True):
        if not isinstance(selector, slice):
            result.append(plan_axis(DimensionSelection(0, len(selector), indices=selector), size, length))
            continue
        # A long list of parts would stay in memory with the table.
        few = selector.stop - selector.start <= _MOST_PARTS * length
        cut = _cut if few else _cut.__wrapped__
        result.append(cut(selector.start, selector.stop, selector.step or 1, length, size))
    return result


@lru_cache(maxsize=1024)  # a loop over steps divides all axes but the first alike
def _cut(start: int, stop: int, step: int, chunk: int, size: int) -> list[ChunkDimProjection]:
    return plan_axis(DimensionSelection(start, len(range(start, stop, step)), step), size, chunk)


def _sizes(node: VariableNode) -> list[int]:
    """Return the lengths of the axes. The last chunk of an unlimited one is never whole: later writes add to it."""
    return [_NO_END if d.unlimited else d.size for d in node.dimensions]


def _numbers(parts: list[list[ChunkDimProjection]]) -> ChunkNumbers:
    return [[p.chunk for p in axis] for axis in parts]


def _picked(selector: slice | np.ndarray, out: slice) -> slice | np.ndarray:
    """Return the part of a selector for a range of its values."""
    if not isinstance(selector, slice):
        return selector[out]
    step = selector.step or 1
    return slice(selector.start + out.start * step, selector.start + (out.stop - 1) * step + 1, step)


def _region(index: tuple[int, ...], chunk: tuple[int, ...], shape: tuple[int, ...]) -> tuple[slice, ...]:
    """Return the region of the array in a chunk."""
    return tuple([slice(i * c, min((i + 1) * c, n), 1) for i, c, n in zip(index, chunk, shape, strict=True)])


def _inside(region: Iterable[slice]) -> tuple[slice, ...]:
    """Return the place of a region of the array in its chunk."""
    return tuple([slice(0, s.stop - s.start) for s in region])

"""Keep decoded chunks of a dataset within a bound, and write changed ones back when they have to be.

A value that is written alone would cost the reading, changing and writing of a whole chunk. Here it changes a
chunk in memory, which is written when all of it was written, when it has to make room, when a reader needs more
than this chunk, and on sync and close. Whole chunks pass by.

Threads: each chunk has a lock of its own. While somebody writes past the cache, other writers of the variable go
past it, too, where the engine guards each chunk; so a chunk in memory is never older than the stored one.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from math import prod
from typing import Any, NamedTuple

import numpy as np

from nczarr.model import STRING
from nczarr.session.backend import StoredArray
from nczarr.session.errors import STORE_ERRORS, Failures
from nczarr.session.tree import VariableNode
from nczarr.system.environment import limit
from nczarr.system.locks import Rank, make_lock, while_held
from nczarr.zarr.chunks.plan import each_axis
from nczarr.zarr.pool import run, run_while_quick

#: What one object is taken to need.
OBJECT_BYTES = 256
#: A chunk may be this many times larger than the cache; larger ones are never kept.
_OVERSIZE = 8
#: A write that touches more chunks than this in parts goes past the cache.
_MOST_PARTS = 4096
#: Of a new variable it is known which chunks the store has got, as long as they are no more than this.
_MOST_STORED_CHUNKS = 1 << 17


def default_bytes() -> int:
    """Bytes of a dataset's cache: the environment variable ``NCZARR_CACHE``, otherwise 64 MiB."""
    return limit("NCZARR_CACHE")


def weight_of(dtype: np.dtype, count: int) -> int:
    """Bytes that so many values are taken to need."""
    return count * (OBJECT_BYTES if dtype.hasobject else dtype.itemsize)


#: Smaller chunks are kept even when they are whole, and written together.
_SMALL = 32 << 10
#: Bytes that are written together.
_TOGETHER = 4 << 20
_NO_END = 1 << 62


class Block:
    """One decoded chunk."""

    __slots__ = (
        "dirty",
        "evicted",
        "first",
        "index",
        "lock",
        "node",
        "pins",
        "stop",
        "values",
        "weight",
        "written",
    )

    def __init__(self, node: VariableNode, index: tuple[int, ...], weight: int) -> None:
        self.node = node
        self.index = index
        self.weight = weight
        self.lock = make_lock(Rank.BLOCK)
        #: None until it is loaded.
        self.values: np.ndarray | None = None
        self.dirty = False
        #: Elements written since it was stored.
        self.written = 0
        #: Where along the first axis they are.
        self.first, self.stop = _NO_END, 0
        #: It is in the cache no more: look for another one.
        self.evicted = False
        #: Threads that are about to use it.
        self.pins = 0


class _Part(NamedTuple):
    """What a selection takes from the chunks at one place along one dimension."""

    chunk: int
    inner: Any
    outer: Any
    covers: bool


class _Item(NamedTuple):
    """What a selection takes from one chunk: the chunk, the place in it and in the values (None: all), if all of it.

    The parts along the axes are there where the selection takes something from several chunks.
    """

    chunk: tuple[int, ...]
    inner: Any
    outer: Any
    covers: bool
    parts: tuple[_Part, ...]


class ChunkCache:
    """The chunks of one dataset that are in memory.

    Parameters
    ----------
    source, grown : callable
        Give a variable's stored values: as they are, and after they have got its current shape.
    lock : RLock
        The session's lock, which guards the table of chunks.
    bound : int, optional
        Bytes that all chunks together may need; default: :func:`default_bytes`.
    """

    def __init__(
        self,
        source: Callable[[VariableNode], StoredArray],
        grown: Callable[[VariableNode], StoredArray],
        lock: threading.RLock,
        bound: int | None = None,
    ) -> None:
        self.bound = default_bytes() if bound is None else bound
        self._source = source
        self._grown = grown
        self._lock = lock
        self._blocks: OrderedDict[tuple[int, tuple[int, ...]], Block] = OrderedDict()
        self._weight = 0
        #: Variables that were written to past the cache since :meth:`recover`.
        self._written_through: set[VariableNode] = set()
        #: The changed ones: a sync does not look at the others.
        self._dirty: dict[Block, None] = {}

    @property
    def weight(self) -> int:
        """Bytes that are kept."""
        return self._weight

    @property
    def is_dirty(self) -> bool:
        """True if some chunks are not written yet."""
        return bool(self._dirty)

    # -- writing

    def write(self, node: VariableNode, selection: Any, values: np.ndarray) -> None:
        """Write values to slices or increasing positions, one for each axis of the variable."""
        source = self._source(node)
        if node.layout is None or node.layout[0] is not source:
            shape = source.chunk_shape
            node.layout = source, shape, weight_of(source.dtype, prod(shape))
        _, chunk, weight = node.layout
        limit = self._limit(node)
        if not chunk or weight > limit * _OVERSIZE:
            self._write_through(node, selection, values)
            return
        # A chunk at the end of a dimension that grows is not whole: more of it will come.
        sizes = [_NO_END if d.unlimited else d.size for d in node.dimensions]
        item = _only_item(selection, chunk, sizes)
        if item is not None:
            if (weight >= _SMALL and item.covers) or self._change(node, source, [item], values, weight):
                parts = [_parts(s, c, n) for s, c, n in zip(selection, chunk, sizes, strict=True)]
                self._write_through(node, selection, values, parts)
            return
        first = _parts(selection[0], chunk[0], sizes[0])
        rest, pieces, whole_rest = self._rest(node, selection[1:], chunk[1:], sizes[1:])
        parts = [first, *rest]
        count = len(first) * len(pieces)
        whole = [[p for p in axis if p.covers] for axis in parts] if whole_rest else []
        partial = count - (prod(map(len, whole)) if whole else 0)
        if partial > _MOST_PARTS or (partial > 1 and partial * weight > limit):
            self._write_through(node, selection, values, parts)
            return
        if partial < count:
            box = tuple([_joined(axis, c) for axis, c in zip(whole, chunk, strict=True)])
            inside = tuple([slice(axis[0].outer.start, axis[-1].outer.stop) for axis in whole])
            self._write_through(node, box, values[inside], whole)
        if partial:
            items = [_item((p, *piece)) for p in first for piece in pieces]
            left = self._change(node, source, [i for i in items if not i.covers], values, weight)
            for item in left:
                self._write_through(
                    node, _outside(item.parts, chunk), values[item.outer], [[p] for p in item.parts]
                )

    def _limit(self, node: VariableNode) -> int:
        return self.bound if node.cache_bytes is None else min(self.bound, node.cache_bytes)

    def _rest(
        self, node: VariableNode, selection: Any, chunk: tuple[int, ...], sizes: list[int]
    ) -> tuple[list[list[_Part]], list[tuple[_Part, ...]], bool]:
        """Cut the axes but the first; in a loop over steps they stay what they are.

        What each of them has, the combinations of these, and whether some chunk is covered along all of them.
        """
        for selector in selection:
            if type(selector) is not slice:
                plain = False
                break
        else:
            plain = True
            cut = node.cut  # once: another thread may put that of its own selection there
            if cut is not None and cut[0] == (selection, chunk, sizes):
                return cut[1]
        parts = [_parts(s, c, n) for s, c, n in zip(selection, chunk, sizes, strict=True)]
        covered = all(any(p.covers for p in axis) for axis in parts)
        made = parts, list(itertools.product(*parts)), covered
        if plain and len(made[1]) <= _MOST_PARTS:
            node.cut = (selection, chunk, sizes), made
        return made

    def _change(
        self, node: VariableNode, source: StoredArray, items: list[_Item], values: np.ndarray, weight: int
    ) -> list[_Item]:
        """Write to parts of chunks in memory; return those that have to go past the cache now."""
        while items:
            blocks = self._pin(node, items, weight)
            if blocks is None:
                break
            again = []
            try:
                for block, item in zip(blocks, items, strict=True):
                    with block.lock:
                        if block.evicted:
                            again.append(item)
                            continue
                        held = block.values
                        if held is None:
                            block.values = held = (
                                source.filled(source.chunk_shape)
                                if item.covers
                                else self._loaded(node, source, block.index)
                            )
                        piece = values if item.outer is None else values[item.outer]
                        held[item.inner] = piece
                        if not block.dirty:
                            with self._lock:
                                self._dirty[block] = None
                                block.dirty = True
                        block.written += piece.size
                        rows = item.inner[0]
                        is_slice = type(rows) is slice
                        block.first = min(block.first, rows.start if is_slice else int(rows.flat[0]))
                        block.stop = max(block.stop, rows.stop if is_slice else int(rows.flat[-1]) + 1)
                        if block.written >= held.size and weight >= _SMALL:
                            self._store([block])
            finally:
                with self._lock:
                    for block in blocks:
                        block.pins -= 1
            items = again
        if self._weight > self.bound or node.cache_bytes is not None:
            self._shrink(node)
        return items

    def _pin(self, node: VariableNode, items: list[_Item], weight: int) -> list[Block] | None:
        """The chunks of some items, which stay in memory until they are let go of; None if they must not be there."""
        key = id(node)
        found = []
        with self._lock:
            if node.write_through_count:
                return None
            for item in items:
                block = self._blocks.get((key, item.chunk))
                if block is not None and block.evicted:
                    self._drop(block)
                    block = None
                if block is None:
                    block = self._blocks[key, item.chunk] = Block(node, item.chunk, weight)
                    self._weight += weight
                    node.blocks += 1
                else:
                    self._blocks.move_to_end((key, item.chunk))
                block.pins += 1
                found.append(block)
        return found

    def _unpin(self, block: Block) -> None:
        with self._lock:
            block.pins -= 1

    def _loaded(self, node: VariableNode, source: StoredArray, index: tuple[int, ...]) -> np.ndarray:
        """A chunk as it is stored; fill where nothing is."""
        chunk = source.chunk_shape
        stored = node.stored_chunks
        if stored is not None and index not in stored:
            return source.filled(chunk)
        region = _region(index, chunk, source.shape)
        if any(s.start >= s.stop for s in region):  # it comes with growth
            return source.filled(chunk)
        held = source.read(region)
        if held.shape == chunk:
            return held
        values = source.filled(chunk)
        values[tuple([slice(0, n) for n in held.shape])] = held
        return values

    def _store(self, blocks: list[Block]) -> None:
        """Write changed chunks of one variable, one behind the other along the first axis; their locks are held."""
        blocks = [block for block in blocks if block.dirty and block.values is not None]
        if not blocks:
            return
        node = blocks[0].node
        source = self._grown(node)
        if len(blocks) == 1 and source.in_place:
            _write_changed(source, blocks[0])
        elif len(blocks) == 1:
            source.write_chunk(blocks[0].index, blocks[0].values)  # type: ignore[arg-type]
        else:
            regions = [_region(block.index, source.chunk_shape, source.shape) for block in blocks]
            pieces = [
                block.values[tuple([slice(0, s.stop - s.start) for s in region])]  # type: ignore[index]
                for block, region in zip(blocks, regions, strict=True)
            ]
            first = slice(regions[0][0].start, regions[-1][0].stop, 1)
            source.write((first, *regions[0][1:]), np.concatenate(pieces))
        with self._lock:
            _note(node, [block.index for block in blocks])  # first: an interrupt may come
            for block in blocks:
                block.dirty = False
                self._dirty.pop(block, None)
                block.written = 0
                block.first, block.stop = _NO_END, 0

    def _write_through(
        self,
        node: VariableNode,
        selection: Any,
        values: np.ndarray,
        parts: list[list[_Part]] | None = None,
    ) -> None:
        """Write to the store; chunks in memory that are concerned are written before, and forgotten."""
        with self._lock:
            node.write_through_count += 1
            self._written_through.add(node)
            concerned = self._within(node, parts) if node.blocks else []
            if node.stored_chunks is not None:
                if parts is None or prod(map(len, parts)) > _MOST_PARTS:
                    node.stored_chunks = None
                else:
                    _note(node, itertools.product(*[[p.chunk for p in axis] for axis in parts]))
        try:
            for block in concerned:
                with block.lock:
                    if block.evicted:
                        continue
                    self._store([block])
                    with self._lock:  # not before it is stored: others who pass by have to wait for it, too
                        self._drop(block)
            source = self._grown(node)
            if parts is not None and values.shape == source.chunk_shape and _is_one(parts):
                source.write_chunk(tuple([axis[0].chunk for axis in parts]), values)
            else:
                source.write(selection, values)
        finally:
            with self._lock:
                node.write_through_count -= 1

    # -- reading

    def read(self, node: VariableNode, source: StoredArray, selection: Any) -> np.ndarray:
        """Read slices or increasing positions, one for each axis of a variable that has chunks in memory.

        `source` are its stored values, in its current shape.
        """
        parts = [_parts(s, c, n) for s, c, n in zip(selection, source.chunk_shape, source.shape, strict=True)]
        # The parts of nested values might be changed by whoever gets them.
        plain = not source.dtype.hasobject or node.type == STRING
        if plain and all(len(axis) == 1 for axis in parts):
            block = self._held(node, tuple([axis[0].chunk for axis in parts]))
            if block is not None:
                try:
                    with block.lock:
                        if block.values is not None and not block.evicted:
                            return block.values[each_axis([axis[0].inner for axis in parts])].copy()
                finally:
                    self._unpin(block)
        with self._lock:
            concerned = [block for block in self._within(node, parts) if block.dirty]
        if concerned:
            self._store_all(concerned)
        return source.read_orthogonal(selection)

    def _held(self, node: VariableNode, index: tuple[int, ...]) -> Block | None:
        with self._lock:
            block = self._blocks.get((id(node), index))
            if block is not None:
                self._blocks.move_to_end((id(node), index))
                block.pins += 1
            return block

    def _within(self, node: VariableNode, parts: list[list[_Part]] | None) -> list[Block]:
        """The chunks of a variable that are in memory, and in the parts; the cache's lock is held."""
        blocks, key = self._blocks, id(node)
        if parts is not None and prod(map(len, parts)) <= node.blocks:
            keys = [(key, index) for index in itertools.product(*[[p.chunk for p in axis] for axis in parts])]
            return [blocks[k] for k in keys if k in blocks]
        own = [block for block in blocks.values() if block.node is node]
        if parts is None:
            return own
        wanted = [{p.chunk for p in axis} for axis in parts]
        return [b for b in own if all(i in axis for i, axis in zip(b.index, wanted, strict=True))]

    # -- making room

    def _drop(self, block: Block) -> None:
        """Take a chunk out; the cache's lock is held."""
        block.evicted = True  # first: after an interrupt it is taken out when it is looked for
        if self._blocks.pop((id(block.node), block.index), None) is not None:
            self._weight -= block.weight
            block.node.blocks -= 1

    def _shrink(self, node: VariableNode) -> None:
        """Write and forget what was not used for longest, until the bounds hold; one chunk may stay."""
        with self._lock:
            blocks = self._select_evictions(node)
            for block in blocks:
                block.pins += 1
        try:
            self._store_all(blocks)
            for block in blocks:
                with block.lock, self._lock:
                    if block.pins == 1 and not block.dirty and not block.evicted:
                        self._drop(block)
        finally:
            for block in blocks:
                self._unpin(block)

    def _select_evictions(self, node: VariableNode) -> list[Block]:
        """What has to go: some at a time, so that small chunks are written together."""
        chosen: list[Block] = []
        if self._weight > self.bound:
            left, target = self._weight, self.bound * 3 // 4
            for block in itertools.islice(self._blocks.values(), len(self._blocks) - 1):
                if left <= target:
                    break
                if not block.pins:
                    chosen.append(block)
                    left -= block.weight
            return chosen
        limit = node.cache_bytes
        if limit is not None and node.blocks:
            own = [block for block in self._blocks.values() if block.node is node]
            left = sum(block.weight for block in own)
            for block in own if not limit else own[:-1]:
                if left > limit and not block.pins:
                    chosen.append(block)
                    left -= block.weight
        return chosen

    # -- as a whole

    def recover(self) -> None:
        """Correct the counts that an interrupt may have left too high; no thread reads or writes."""
        with self._lock:
            for node in self._written_through:
                node.write_through_count = 0
            self._written_through.clear()
            for block in self._blocks.values():
                block.pins = 0

    def flush(self, failures: Failures) -> bool:
        """Write all changed chunks; they stay in memory. Chunks that cannot be written stay changed.

        Returns
        -------
        bool
            True if a chunk was written.
        """
        with self._lock:
            changed = list(self._dirty)
        if changed:
            self._store_all(changed, failures)
        return any(not block.dirty for block in changed)

    def _store_all(self, blocks: list[Block], failures: Failures | None = None) -> None:
        """Write those of some chunks that were changed; small ones that lie behind each other, together.

        `failures` gets the errors; without it the first one is raised.
        """

        def store(together: list[Block]) -> None:
            while_held(
                [block.lock for block in together], lambda: store_held(together)
            )  # one order everywhere

        def store_held(together: list[Block]) -> None:
            for row in _rows([block for block in together if block.dirty], _TOGETHER):
                if failures is None:
                    self._store(row)
                else:
                    store_each(row, failures)

        def store_each(row: list[Block], failures: Failures) -> None:
            try:
                self._store(row)
            except STORE_ERRORS as error:
                if len(row) == 1:
                    failures.add(row[0].node.fqn, error)
                    return
                for block in row:
                    store_each([block], failures)

        changed = [block for block in blocks if block.dirty]
        if len(changed) == 1:
            store(changed)
            return
        runs = list(_rows(sorted(changed, key=lambda b: (id(b.node), b.index[1:], b.index[0])), _TOGETHER))
        if len(runs) == 1:
            store(runs[0])
        elif runs:
            light = sum(block.weight for block in changed) <= _SMALL * len(runs)
            share = run_while_quick if light else run
            share(store, runs, None)

    def clear(self) -> None:
        """Forget everything, written or not."""
        with self._lock:
            for block in self._blocks.values():
                block.node.blocks = 0
                block.evicted = True
            self._blocks.clear()
            self._dirty.clear()
            self._weight = 0


def _note(node: VariableNode, chunks: Iterable[tuple[int, ...]]) -> None:
    """Note that the store gets chunks of a variable; the cache's lock is held."""
    if node.stored_chunks is not None:
        node.stored_chunks.update(chunks)
        if len(node.stored_chunks) > _MOST_STORED_CHUNKS:
            node.stored_chunks = None


def _write_changed(source: StoredArray, block: Block) -> None:
    """Write what was changed in a chunk: the rest of it may be far apart in the file."""
    assert block.values is not None
    rows, *rest = _region(block.index, source.chunk_shape, source.shape)
    changed = slice(rows.start + block.first, min(rows.start + block.stop, rows.stop), 1)
    inner = tuple([slice(0, s.stop - s.start) for s in rest])
    source.write((changed, *rest), block.values[(slice(block.first, changed.stop - rows.start), *inner)])


def _rows(blocks: list[Block], most: int) -> Iterator[list[Block]]:
    """Cut sorted chunks where one is not the next of the other along the first axis, or they become too many."""
    row: list[Block] = []
    weight = 0
    for block in blocks:
        index = block.index
        follows = (
            bool(row)
            and block.node is row[-1].node
            and index[0] == row[-1].index[0] + 1
            and index[1:] == row[-1].index[1:]
        )
        if row and (not follows or weight + block.weight > most):
            yield row
            row, weight = [], 0
        row.append(block)
        weight += block.weight
    if row:
        yield row


def _parts(selector: slice | np.ndarray, chunk: int, size: int) -> list[_Part]:
    """Cut the selection along one dimension at the chunks."""
    if isinstance(selector, slice):
        start, step = selector.start, selector.step or 1
        count = len(range(start, selector.stop, step))
        last = start + (count - 1) * step
        first = start // chunk
        if count and first == last // chunk:
            low = first * chunk
            covers = step == 1 and start == low and last + 1 == min(low + chunk, size)
            return [_Part(first, slice(start - low, last - low + 1, step), slice(0, count), covers)]
        result, done = [], 0
        while done < count:
            at = start + done * step
            low = at // chunk * chunk
            here = min((min(low + chunk, last + 1) - 1 - at) // step + 1, count - done)
            end = at + (here - 1) * step + 1
            covers = step == 1 and at == low and end == min(low + chunk, size)
            result.append(
                _Part(low // chunk, slice(at - low, end - low, step), slice(done, done + here), covers)
            )
            done += here
        return result
    numbers = selector // chunk
    edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(selector)]
    return [
        _Part(int(numbers[a]), selector[a:b] - int(numbers[a]) * chunk, slice(a, b), False)
        for a, b in itertools.pairwise(edges)
        if b > a
    ]


def _item(parts: tuple[_Part, ...]) -> _Item:
    """What a selection takes from the chunk where its parts along all axes meet."""
    chunk, inner, outer, covers = zip(*parts, strict=True)
    return _Item(chunk, each_axis(inner), each_axis(outer), all(covers), parts)


def _only_item(selection: Any, chunk: tuple[int, ...], sizes: list[int]) -> _Item | None:
    """What slices take from the only chunk in which they lie, as a step of most loops does; None if they do not."""
    index, inner, covers = [], [], True
    for selector, length, size in zip(selection, chunk, sizes, strict=True):
        if type(selector) is not slice or selector.step != 1:
            return None
        number, first = divmod(selector.start, length)
        stop = first + selector.stop - selector.start
        if not first < stop <= length:
            return None
        covers = covers and first == 0 and (stop == length or selector.stop == size)
        index.append(number)
        inner.append(slice(first, stop, 1))
    return _Item(tuple(index), tuple(inner), None, covers, ())


def _is_one(parts: list[list[_Part]]) -> bool:
    """True if a selection is one chunk, all of it."""
    return all(len(axis) == 1 and axis[0].covers for axis in parts)


def _joined(parts: list[_Part], chunk: int) -> slice:
    """The stretch of the array that whole chunks, one behind the other, take."""
    first, last = parts[0], parts[-1]
    start = first.chunk * chunk
    return slice(start, start + last.outer.stop - first.outer.start, 1)


def _outside(parts: Iterable[_Part], chunk: tuple[int, ...]) -> tuple[Any, ...]:
    """Where parts of one chunk are in the array."""
    result: list[Any] = []
    for part, length in zip(parts, chunk, strict=True):
        low = part.chunk * length
        inner = part.inner
        if isinstance(inner, slice):
            result.append(slice(inner.start + low, inner.stop + low, inner.step))
        else:
            result.append(inner + low)
    return tuple(result)


def _region(index: tuple[int, ...], chunk: tuple[int, ...], shape: tuple[int, ...]) -> tuple[slice, ...]:
    """The part of the array that a chunk holds."""
    return tuple([slice(i * c, min((i + 1) * c, n), 1) for i, c, n in zip(index, chunk, shape, strict=True)])

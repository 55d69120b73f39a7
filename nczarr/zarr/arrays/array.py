"""Read and write regions of a Zarr array, and change its shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from nczarr.errors import ReadOnlyError, SelectionError, UnsupportedError
from nczarr.stores import LocalStore, Store
from nczarr.stores.base import batched
from nczarr.zarr.chunks import (
    Chunks,
    Selection,
    chunk_count,
    forget_chunks,
    normalize,
    plan,
    read_from_files,
    read_from_store,
    steps,
    supported,
    write_to_files,
    write_to_store,
    write_whole,
)
from nczarr.zarr.codecs import Buffer
from nczarr.zarr.limits import LIMITS
from nczarr.zarr.metadata import ArrayMetadata

#: Chunks for which a store is asked at once.
_ASKED = 1024


def grid_places(grid: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the places of a grid in C order, without holding them.

    Examples
    --------
    >>> list(grid_places((2, 2))), list(grid_places(()))
    ([(0, 0), (0, 1), (1, 0), (1, 1)], [()])
    """
    if not grid:
        yield ()
        return
    for above in grid_places(grid[:-1]):
        yield from ((*above, number) for number in range(grid[-1]))


class Array:
    """An array of a hierarchy. All methods may be called from several threads at once.

    Parameters
    ----------
    store : Store
    prefix : str
        Where the array's chunks are: the part of their keys before ``c/0/0``.
    metadata : ArrayMetadata
    path : str, optional
        The path of the node, for messages, where it is not `prefix` (the drafts).
    save : callable, optional
        Writes changed metadata (:meth:`resize`); without it the array cannot be resized.
    confirm : callable, optional
        Raises an error if the array is not there any more, or is another one; asked when a chunk is missing.
    current : callable, optional
        Raises an error if another dataset is in the store by now; asked at each reading and writing.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> from nczarr.zarr.types import data_type_for
    >>> from nczarr.zarr.grids import RegularGrid
    >>> metadata = ArrayMetadata((4, 6), data_type_for("int32"), RegularGrid((2, 3)), fill_value=np.int32(-1))
    >>> array = Array(MemoryStore(), "v", metadata)
    >>> array.write((0, slice(0, 4)), [1, 2, 3, 4])
    >>> array.read(0).tolist()
    [1, 2, 3, 4, -1, -1]
    >>> array.nchunks, array.nchunks_initialized()
    (4, 2)
    """

    def __init__(
        self,
        store: Store,
        prefix: str,
        metadata: ArrayMetadata,
        *,
        path: str | None = None,
        save: Callable[[ArrayMetadata], None] | None = None,
        confirm: Callable[[], None] | None = None,
        current: Callable[[], None] | None = None,
    ) -> None:
        path = prefix.strip("/") if path is None else path
        self._chunks = Chunks(store, prefix.rstrip("/") + "/" if prefix else "", metadata, path)
        self._save = save
        self._confirm = confirm
        self._current = current
        self._has_files = type(store) is LocalStore and supported()

    # --- what it is

    @property
    def store(self) -> Store:
        """The store that holds the array."""
        return self._chunks.store

    @property
    def path(self) -> str:
        """The path of the node."""
        return self._chunks.path

    @property
    def prefix(self) -> str:
        """The part of the chunks' keys before ``c/0/0``."""
        return self._chunks.prefix

    @property
    def owner(self) -> int:
        """A number that no other array of this process has."""
        return self._chunks.owner

    @property
    def metadata(self) -> ArrayMetadata:
        """What the array's document says."""
        return self._chunks.metadata

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each dimension."""
        return self.metadata.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.metadata.shape)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of values in memory, in native byte order."""
        return self.metadata.data_type.dtype

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        """The shape in which the array is best written: of a chunk, or of a shard."""
        return self.metadata.chunk_grid.chunk_shape

    @property
    def inner_chunk_shape(self) -> tuple[int, ...]:
        """The shape in which the array can be read: of a chunk, or of a chunk inside a shard."""
        return self._chunks.inner_shape

    @property
    def grid_shape(self) -> tuple[int, ...]:
        """The number of chunks (of shards) along each dimension."""
        return self.metadata.chunk_grid.grid_shape(self.metadata.shape)

    @property
    def nchunks(self) -> int:
        """The number of chunks (of shards), stored or not."""
        return prod(self.grid_shape)

    def __repr__(self) -> str:
        return f"<Array {'/' + self.path!r} shape={self.shape} dtype={self.dtype} chunks={self.chunk_shape}>"

    def _repr_html_(self) -> str:
        from nczarr.display import show_array
        from nczarr.zarr.describe import describe_array

        return show_array(describe_array(self))

    def chunk_key(self, index: tuple[int, ...]) -> str:
        """Return the key under which the chunk at a place of the grid is stored."""
        return self._chunks.key(index)

    def chunk_region(self, index: tuple[int, ...]) -> tuple[slice, ...]:
        """Return the part of the array that a chunk holds."""
        return self._chunks.region(index)

    # --- reading and writing

    def read(self, selection: Any = ..., out: np.ndarray | None = None) -> np.ndarray:
        """Read a selection.

        Parameters
        ----------
        selection : int, slice, ellipsis, sequence of int or bool, or a tuple of these; or Selection
            Orthogonal: each item selects along its own dimension. A :class:`Selection` is not looked at again.
        out : ndarray, optional
            An array of the selection's shape and of :attr:`dtype` that receives the values.

        Returns
        -------
        ndarray
            `out`, or a new array of :attr:`dtype`; a dimension at which an integer stands is left out.

        Raises
        ------
        SelectionError
            The selection does not fit the array, or `out` does not fit the selection.
        ChunkError
            A chunk is damaged; the error names its key, the array and the region.
        """
        chosen = normalize(selection, self.shape)
        shape = chosen.shape
        if out is None:
            out = self._empty(shape)
        elif out.shape != shape or out.dtype != self.dtype:
            raise SelectionError(
                f"out has shape {out.shape} and dtype {out.dtype}; {shape} and {self.dtype} are needed",
                **self._where(),
            )
        elif not out.flags.writeable:
            raise SelectionError("out is read-only", **self._where())
        if 0 not in shape:
            target = chosen.expand(out)
            read = read_from_files if self._has_files else read_from_store
            metadata, missed = self._chunks.metadata, self._chunks.missed
            for part, where in self._steps(chosen):
                parts = plan(part, metadata.chunk_grid, metadata.shape)
                read(self._chunks, parts, target[where])
            if self._confirm is not None and self._chunks.missed is not missed:
                self._confirm()  # the fill of an array that has gone is no answer
            if self._current is not None:
                self._current()  # values of another dataset are no answer
        return out

    def close(self) -> None:
        """Forget the decoded chunks that are kept; the array can still be used."""
        forget_chunks({self._chunks.owner})

    def _steps(self, chosen: Selection) -> Iterable[tuple[Selection, tuple[Any, ...]]]:
        grid, shape = self.metadata.chunk_grid, self.metadata.shape
        if prod(chosen.shape) <= LIMITS.plan_chunks:  # no more chunks than elements
            return [(chosen, (Ellipsis,))]
        if chunk_count(chosen, grid, shape) <= LIMITS.plan_chunks:
            return [(chosen, (Ellipsis,))]
        return steps(chosen, grid, shape, LIMITS.plan_chunks)

    def _where(self) -> dict[str, str]:
        return {"path": self.store.url, "fqn": self._chunks.fqn}

    def _empty(self, shape: tuple[int, ...]) -> np.ndarray:
        try:
            return np.empty(shape, self.dtype)
        except (MemoryError, ValueError) as error:
            raise UnsupportedError(
                f"a result of shape {shape} and dtype {self.dtype} does not fit into memory",
                **self._where(),
                hint="read it in parts",
            ) from error

    def write(self, selection: Any, values: Any) -> None:
        """Write a selection.

        Whole chunks are replaced; other chunks are read, changed and replaced, which is safe among the threads
        of this process, but not among several processes.

        Parameters
        ----------
        selection
            As for :meth:`read`.
        values : array_like
            Broadcast to the selection's shape, and converted to :attr:`dtype` where no value changes.

        Raises
        ------
        SelectionError
            The selection does not fit the array, or `values` do not fit the selection.
        UnsupportedError
            A value cannot be converted.
        ReadOnlyError
            The store is open for reading only.
        """
        self._check_writable()
        chosen = normalize(selection, self.shape)
        source = self._convert(values)
        try:
            if source.shape != chosen.shape:
                source = np.broadcast_to(source, chosen.shape)
        except ValueError:
            raise SelectionError(
                f"values of shape {source.shape} do not fit the selection's shape {chosen.shape}",
                **self._where(),
            ) from None
        if 0 not in chosen.shape:
            if self._current is not None:
                self._current()
            source = chosen.expand(source)
            write = write_to_files if self._has_files else write_to_store
            for part, where in self._steps(chosen):
                parts = plan(part, self.metadata.chunk_grid, self.metadata.shape)
                write(self._chunks, parts, source[where])

    def write_chunk(self, index: tuple[int, ...], values: np.ndarray) -> None:
        """Write one chunk (shard) as a whole: what lies outside of the shape, at its end, is written too.

        Parameters
        ----------
        index : tuple of int
            Its place in the grid.
        values : ndarray
            Of :attr:`chunk_shape` and :attr:`dtype`.

        Raises
        ------
        SelectionError
            The values are of another shape or dtype, or the chunks are not of one shape.
        ReadOnlyError
            The store is open for reading only.
        """
        self._check_writable()
        if not self.takes_chunk(values):
            raise SelectionError(
                f"values of shape {values.shape} and dtype {values.dtype} are no chunk", **self._where()
            )
        write_whole(self._chunks, index, values)

    def takes_chunk(self, values: np.ndarray) -> bool:
        """True if values can be written with :meth:`write_chunk`."""
        metadata = self._chunks.metadata
        grid = metadata.chunk_grid
        return (
            values.dtype == metadata.data_type.dtype
            and grid.is_regular
            and not metadata.extensions
            and values.shape == grid.chunk_shape
        )

    def _check_writable(self) -> None:
        if not self.store.writable:
            raise ReadOnlyError("the store is open for reading only", **self._where())

    def _convert(self, values: Any) -> np.ndarray:
        dtype = self.dtype
        try:
            if dtype.kind not in "biufc" and not isinstance(values, np.ndarray | np.generic):
                return np.asarray(values, dtype)
            source = np.asarray(values)
            if source.dtype == dtype:
                return source
            if source.dtype.newbyteorder("=") == dtype or np.can_cast(source.dtype, dtype, "safe"):
                return source.astype(dtype)
            if dtype.kind in "biufc" and source.dtype.kind not in "biufcO":
                raise ValueError(f"values of {source.dtype} are no numbers")
            if source.dtype.hasobject and None in source.ravel().tolist():
                raise ValueError("None is not a value")
            with np.errstate(all="ignore"):
                result = source.astype(dtype)
            narrowed = dtype.kind in "fc" and np.can_cast(source.dtype, dtype, "same_kind")
            if not narrowed and not dtype.hasobject:
                same = result == source
                if dtype.kind in "mM" and source.dtype.kind == dtype.kind:
                    same |= np.isnat(result) & np.isnat(source)
                if not np.all(same):
                    raise ValueError("a value would change")
            return result
        except (TypeError, ValueError, OverflowError) as error:
            raise UnsupportedError(
                f"the values cannot be stored as {dtype}: {error}", **self._where()
            ) from error

    # --- chunks as a whole

    def stored_chunks(self, indices: Sequence[tuple[int, ...]]) -> Sequence[Buffer | None]:
        """Return the stored bytes of chunks (shards) at places of the grid, None for each that is missing."""
        return self._chunks.stored(indices)

    def initialized_chunks(self) -> list[tuple[int, ...]]:
        """Return the places in the grid of all chunks (shards) that are stored, sorted.

        Costs one listing; or a question for each chunk of the grid, where listings do not name every key.
        """
        return sorted(self.existing(self.possible_chunks()))

    def possible_chunks(self) -> Iterable[tuple[int, ...]]:
        """Return the places in the grid where a chunk (shard) may be stored; no chunk is stored at any other.

        Costs one listing; where listings do not name every key, these are all places of the grid.
        """
        if self.store.lists_all:
            return sorted(self._listed(self.grid_shape))
        return grid_places(self.grid_shape)

    def existing(self, places: Iterable[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
        """Yield those of the :meth:`possible_chunks` that are stored.

        The store is asked for each, in batches, where its listings do not name every key.
        """
        if self.store.lists_all:
            yield from places
            return
        for batch in batched(places, _ASKED):
            there = self.store.exist_many([self.chunk_key(index) for index in batch])
            yield from (index for index, yes in zip(batch, there, strict=True) if yes)

    def _listed(self, grid: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Return the places in a grid of the chunks that a listing names."""
        keys = self.store.list(self.prefix.removesuffix("/"))
        return self.metadata.chunk_key_encoding.indices(keys, grid, skip=len(self.prefix))

    def _stored(self) -> list[tuple[int, ...]]:
        """Return the places of all chunks that are stored, also outside of the shape.

        Where listings do not name every key, chunks outside of the shape are known only if a listing names them.
        """
        listed = self._listed((1 << 62,) * self.ndim) if self.store.listable else []
        if self.store.lists_all:
            return listed
        return list(dict.fromkeys([*listed, *self.initialized_chunks()]))

    def nchunks_initialized(self) -> int:
        """Return how many chunks (shards) are stored; costs what :meth:`initialized_chunks` does."""
        return len(self.initialized_chunks())

    def erase(self) -> None:
        """Remove all chunks, so that every element has the fill value again; those outside of the shape, too."""
        self._check_writable()
        self.store.delete_many([self.chunk_key(index) for index in self._stored()])

    def grow(self, shape: tuple[int, ...]) -> None:
        """Make the array longer in memory only, so that values can be written before a document claims them.

        The document follows when the hierarchy puts the array's metadata again, or with :meth:`resize`.

        Raises
        ------
        SelectionError
            Another number of dimensions, or a length that is smaller than before.
        """
        self._check_writable()
        shape = tuple(map(int, shape))
        if len(shape) != self.ndim or any(n < old for n, old in zip(shape, self.shape, strict=True)):
            raise SelectionError(f"{self.shape} cannot grow to {shape}", **self._where())
        self._chunks.metadata = replace(self.metadata, shape=shape)

    def resize(self, shape: tuple[int, ...]) -> None:
        """Change the lengths of the dimensions.

        Elements that leave the array are gone: chunks outside are removed, and in chunks across the new edge
        they are replaced by the fill value, so that they do not come back when the array grows again.

        Raises
        ------
        SelectionError
            Another number of dimensions, or a negative length.
        UnsupportedError
            The chunks of a rectilinear grid do not reach so far.
        """
        self._check_writable()
        if self._save is None:
            raise ReadOnlyError("this array cannot be resized", **self._where())
        shape = tuple(map(int, shape))
        if len(shape) != self.ndim or min(shape, default=0) < 0:
            raise SelectionError(f"{shape} is not a shape for {self.ndim} dimensions", **self._where())
        new = replace(self.metadata, shape=shape)
        try:
            grid = new.chunk_grid.grid_shape(shape)
        except SelectionError as error:
            raise UnsupportedError(error.message, **self._where()) from error
        outside = []
        if any(n < old for n, old in zip(shape, self.metadata.shape, strict=True)):
            for index in self.initialized_chunks():
                if all(i < n for i, n in zip(index, grid, strict=True)):
                    self._blank_beyond(shape, index)
                else:
                    outside.append(index)
        self._save(new)
        self._chunks.metadata = new
        for index in outside:
            self.store.delete(self.chunk_key(index))

    def clear_outside(self, axes: Sequence[int]) -> None:
        """Remove what is stored behind the shape along some axes, before the array grows there.

        A writer that died leaves it, whose values came before the size that claims them. Costs what
        :meth:`initialized_chunks` does; where listings do not name every key, whole chunks outside of the shape are
        known only if a listing names them.
        """
        self._check_writable()
        grid = self.metadata.chunk_grid
        if not grid.is_regular or not axes:
            return
        inside, chunk = self.grid_shape, grid.chunk_shape
        rest = []
        for index in self._stored():
            if any(index[axis] >= inside[axis] for axis in axes):
                self.store.delete(self.chunk_key(index))
            elif any((index[axis] + 1) * chunk[axis] > self.shape[axis] for axis in axes):
                rest.append(index)
        if rest:
            whole = tuple([n * c for n, c in zip(inside, chunk, strict=True)])
            wide = Array(self.store, self.prefix, replace(self.metadata, shape=whole), path=self.path)
            cut = tuple([n if axis in axes else whole[axis] for axis, n in enumerate(self.shape)])
            for index in rest:
                wide._blank_beyond(cut, index)

    def _blank_beyond(self, shape: tuple[int, ...], index: tuple[int, ...]) -> None:
        """Put the fill value into the part of a stored chunk that lies outside a new shape."""
        region = self.chunk_region(index)
        for axis, (part, size) in enumerate(zip(region, shape, strict=True)):
            if part.start < size < part.stop:
                cut = [*region[:axis], slice(size, part.stop), *region[axis + 1 :]]
                fill = np.empty((), self.dtype)
                fill[()] = self.metadata.fill
                held = self.read(tuple(cut))
                if self.dtype.hasobject or held.tobytes() != np.broadcast_to(fill, held.shape).tobytes():
                    self.write(tuple(cut), fill)

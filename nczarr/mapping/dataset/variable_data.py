"""Read and write the values of one variable of a stored dataset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import numpy as np

from nczarr.errors import SelectionError, error_context
from nczarr.mapping.dialect import Binding
from nczarr.model import Region
from nczarr.model.lengths import Extents, Length, accept, shape_of
from nczarr.model.sources import handed
from nczarr.zarr import Array, Selection
from nczarr.zarr.chunks.array import Tail
from nczarr.zarr.chunks.selection import normalize


class Arrays(Protocol):
    """The arrays of a hierarchy."""

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Protects the structure: an array is extended once."""

    def claimed(self, path: str) -> int | None:
        """Return the length of the first axis in the document of an array; None if it is not known."""

    def array(self, path: str) -> Array:
        """Return the array at a path."""


class Owner(Protocol):
    """The stored dataset of a variable."""

    #: Paths of arrays with new values.
    written: set[str]

    @property
    def hierarchy(self) -> Arrays:
        """The arrays of the dataset."""


class VariableData:
    """The values of a variable, read and written in place; an :class:`nczarr.model.ArraySource`.

    The shape is that of the variable: the accepted lengths of its dimensions. The array may be shorter: its part behind
    the end has fill values, and the next write makes it as long.

    Parameters
    ----------
    owner : StoredDataset
    fqn : str
    binding : Binding
    extents : tuple of Length or int
        The lengths of the dimensions, which the stored dataset owns.
    tail : Tail
        What is known of values behind the end of the array.

    Examples
    --------
    >>> from nczarr.mapping import create_dataset
    >>> from nczarr.model import INT, Dataset, Dimension, Variable
    >>> from nczarr.stores import MemoryStore
    >>> d = Dataset("d", dimensions=(Dimension("x", 3),), variables=(Variable("v", INT, ("/x",)),))
    >>> v = create_dataset(MemoryStore(), d).data("/v")
    >>> v.write(slice(0, 2), np.array([7, 8], "i4"))
    >>> v.read_orthogonal([0, 2]).tolist()
    [7, -2147483647]
    """

    __slots__ = ("__weakref__", "binding", "dtype", "encoding", "extents", "fqn", "owner", "path", "tail")

    def __init__(
        self, owner: Owner, fqn: str, binding: Binding, extents: Extents, tail: Tail = Tail.UNKNOWN
    ) -> None:
        self.owner = owner
        self.fqn = fqn
        self.binding = binding
        self.path = binding.path
        self.encoding = binding.encoding
        self.dtype = binding.encoding.dtype
        self.extents = extents
        self.tail = tail

    def __repr__(self) -> str:
        return f"<VariableData {self.fqn} {self.shape} {self.dtype}>"

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the variable's dimensions."""
        return shape_of(self.extents)

    @property
    def array(self) -> Array:
        """The Zarr array."""
        return self.owner.hierarchy.array(self.path)

    @property
    def in_place(self) -> bool:
        """True if steps behind the stored length cost no more than their own bytes."""
        array = self.array
        # An extension may turn a row into other bytes.
        return array.rows_in_place and not array.metadata.extensions

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """The shape of the array, which another program may have made longer than the dimensions."""
        return tuple(self.array.shape)[: len(self.extents)]

    @property
    def limited(self) -> bool:
        """True if the encoding refuses some values of the type."""
        return self.encoding.limited

    def check(self, values: np.ndarray) -> None:
        """Raise the error of :meth:`write` for values that cannot be stored, without writing."""
        with error_context(fqn=self.fqn):
            self.encoding.encode(values)

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        """The best shape of blocks for writing: the shape of the chunks, or of the shards."""
        return tuple(self.array.chunk_shape)[: len(self.extents)]

    @property
    def block_shape(self) -> tuple[int, ...]:
        """The shape of the blocks of a cache: of the inner chunks, if shards grow in place, or of the chunks."""
        array = self.array
        return tuple(array.inner_chunk_shape if self._grows else array.chunk_shape)[: len(self.extents)]

    @property
    def _grows(self) -> bool:
        """True if inner chunks are added to a shard at the cost of their own bytes."""
        array = self.array
        # Extensions change shapes, and chunks of nested values may be cut.
        return (
            array.shards_grow
            and not array.metadata.extensions
            and tuple(array.inner_chunk_shape[len(self.extents) :]) == tuple(self.encoding.inner_shape)
        )

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        """Read a region; see :meth:`nczarr.model.ArraySource.read`."""
        selection = (*region, *(slice(None),) * len(self.encoding.inner_shape))
        with error_context(fqn=self.fqn):
            if self.is_short:
                values = self._read_short(region)
            elif self.encoding.is_identity:
                return self.array.read(selection, out)
            else:
                values = self.encoding.decode(self.array.read(selection))
        # Values that are decoded have their own memory; a caller's buffer gets a copy.
        return handed(values, out)

    def read_orthogonal(self, selection: object) -> np.ndarray:
        """Read with one index for each dimension: an integer, a slice of any step, integers, or a mask.

        Parameters
        ----------
        selection
            As in square brackets; each index applies to its own dimension.

        Returns
        -------
        ndarray
            Of :attr:`dtype`, without the dimensions of integers.

        Raises
        ------
        SelectionError
            The selection does not fit the shape.
        """
        encoding = self.encoding
        with error_context(fqn=self.fqn):
            array = self.array
            shape = self.shape
            # Compared first: each read asks, and most arrays have the length of their dimensions.
            if array.shape != shape and self.is_short:
                return self._read_short(selection)
            raw = array.read(normalize(selection, shape).followed_by(encoding.inner_shape))
            return raw if encoding.is_identity else encoding.decode(np.asarray(raw))

    def read_points(self, axes: Sequence[slice | np.ndarray]) -> np.ndarray | None:
        """Read elements at single points; see :meth:`nczarr.zarr.Array.read_points`. None: read boxes instead."""
        encoding = self.encoding
        with error_context(fqn=self.fqn):
            array = self.array
            if array.shape != self.shape and self.is_short:
                return None
            raw = array.read_points([*axes, *[slice(0, size, 1) for size in encoding.inner_shape]])
            return raw if raw is None or encoding.is_identity else encoding.decode(raw)

    def write(self, selection: object, values: object) -> None:
        """Write values to a selection, as in :meth:`read_orthogonal`.

        Parameters
        ----------
        selection
        values : ndarray
            Values in memory form; their shape broadcasts to that of the selection. Sequences and strings are object
            arrays, without dimensions for a single value.

        Raises
        ------
        SelectionError, ReadOnlyError
        """
        if not isinstance(values, np.ndarray):
            values = np.asarray(values, self.dtype)
        with self._writing():
            if not self.encoding.is_identity:
                values = self.encoding.encode(values.astype(self.dtype, copy=False))
            # Chunks behind it belong to no document: a dead writer may have left them, and they must not be merged.
            claimed = self.owner.hierarchy.claimed(self.path)
            self.array.write(self._chosen(selection), values, claimed=claimed)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with error_context(fqn=self.fqn):
            # The array first: a chunk outside its shape would be no part of it.
            self.extend()
            try:
                yield
            finally:  # a concurrent record of chunks may lack these
                self.owner.written.add(self.path)

    def write_blocks(self, blocks: Mapping[tuple[int, ...], np.ndarray]) -> None:
        """Write values of :attr:`block_shape` to blocks, given by their places in the grid.

        Values beyond the end of the array must be fill values.
        """
        if self._grows:
            rest = (0,) * len(self.encoding.inner_shape)
            with self._writing():
                self.array.write_blocks({(*i, *rest): self.encoding.encode(v) for i, v in blocks.items()})
            return
        for index, values in blocks.items():
            self.write_chunk(index, values)

    def write_chunk(self, index: tuple[int, ...], values: np.ndarray) -> None:
        """Write values of :attr:`chunk_shape` to a chunk, given by its place in the grid.

        Values beyond the end of the array must be fill values.
        """
        array, encoding = self.array, self.encoding
        # By the present shape of the variable, which the array may not have yet.
        cut = zip(index, values.shape, self.shape, strict=True)
        region = tuple([slice(i * c, min((i + 1) * c, n)) for i, c, n in cut])
        inside = values[tuple([slice(0, s.stop - s.start) for s in region])]
        # Of a shard at the edge, only the inner chunks inside the array are stored.
        if array.inner_chunk_shape == array.chunk_shape or inside.shape == values.shape:
            with self._writing():
                raw = encoding.encode(values)
                # A write of whole bytes needs no chunk of before; others merge.
                if array.takes_chunk(raw):
                    array.write_chunk((*index, *(0,) * len(encoding.inner_shape)), raw)
                    return
        self.write(region, inside)

    def grow(self, shape: tuple[int, ...]) -> None:
        """Accept values in a larger shape, for this and all variables of its dimensions.

        The next :meth:`StoredDataset.lengthen` or :meth:`StoredDataset.update` stores the lengths.
        """
        self._full_shape(shape)
        accept(self.extents, shape)

    def _full_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        if len(shape) != len(self.extents):
            raise SelectionError(
                f"the shape {shape} does not have {len(self.extents)} dimensions", fqn=self.fqn
            )
        return (*shape, *self.encoding.inner_shape)

    def filled(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return fill values of a shape, as in unwritten regions."""
        array = self.array
        raw = np.empty(shape + self.encoding.inner_shape, array.dtype)
        raw.fill(array.metadata.fill)
        return self.encoding.decode(raw)

    @property
    def is_short(self) -> bool:
        """True if the array is shorter than its dimensions: it has not grown yet, or another program left it so."""
        shape = self.shape  # read this first: another thread that extends both begins with the array
        stored = self.array.shape
        return stored != shape and any(n < size for n, size in zip(stored, shape, strict=False))

    def extend(self) -> None:
        """Extend an array that is shorter than its dimensions."""
        if not self.is_short:
            return
        with self.owner.hierarchy.lock:
            # Check again: a second thread would remove values that the first has written.
            if self.is_short:
                self.extend_alone()

    def extend_alone(self) -> None:
        """Extend an array as :meth:`extend` does, while no other thread reads or writes its values.

        The document claims the length of the dimension at once if the dataset claims it; otherwise the next
        :meth:`StoredDataset.lengthen` or :meth:`StoredDataset.update` writes it.
        """
        # Asked once: each row of a loop with `sync()` comes here for all variables of the dimension.
        stored = self.stored_shape
        claims = [e.stored if isinstance(e, Length) else e for e in self.extents]
        # Another program may have made the array longer.
        claimed = tuple(map(max, claims, stored))
        if claimed != stored:
            # Another program has shortened the array along any axis, and may have left values behind its end.
            with error_context(fqn=self.fqn):
                self.tail = self.array.clear_outside(range(len(self.extents)))
                self.array.resize(self._full_shape(claimed))
        shape = tuple(map(max, self.shape, claimed))
        # Values first, then the document with the length (`StoredModel`).
        if shape != claimed:
            if not self.array.store.takes_any_key:
                # Icechunk refuses chunks outside the stored shape, and its commit shows both at once.
                self.array.resize(self._full_shape(shape))
                return
            with error_context(fqn=self.fqn):
                # Steps of a killed writer would appear as values of this one (tests/netcdf4/test_silent_losses.py).
                self._clear_tail(shape)
            self.array.grow(self._full_shape(shape))

    def _clear_tail(self, shape: tuple[int, ...]) -> None:
        """Remove the values of dead writers behind the end of the array, before it grows to a shape."""
        # A request of a listing for each step would be the largest part of an append.
        if self.tail is Tail.CLEAR:
            return
        axes = [axis for axis, extent in enumerate(self.extents) if isinstance(extent, Length)]
        # A program that grows it again may do so often: the second time clears all.
        near = self._full_shape(shape) if self.tail is Tail.UNKNOWN else None
        self.tail = self.array.clear_outside(axes, near)

    @property
    def may_have_tail(self) -> bool:
        """True if the next write removes values of an aborted writer behind the end of the array."""
        return self.tail is not Tail.CLEAR and self.is_short

    def trust_tail(self) -> None:
        """Keep values behind the shape: the caller writes all of them before a length claims them."""
        self.tail = Tail.CLEAR

    def _chosen(self, selection: object) -> Selection:
        """Return a selection of the variable's dimensions, extended to the dimensions of the array."""
        return normalize(selection, self.shape).followed_by(self.encoding.inner_shape)

    def _read_short(self, selection: object) -> np.ndarray:
        """Read the stored values, and fill values beyond the end of the array."""
        chosen = normalize(selection, self.shape)
        places = [axis.places for axis in chosen.axes]
        inside = [np.flatnonzero(p < n) for p, n in zip(places, self.array.shape, strict=False)]
        # A shorter array is legal: another program, or a killed one, has left it so.
        out = self.filled(chosen.shape)
        if all(map(len, inside)):
            stored = Selection.of([p[i] for p, i in zip(places, inside, strict=True)])
            values = self.array.read(stored.followed_by(self.encoding.inner_shape))
            chosen.expand(out)[np.ix_(*inside)] = self.encoding.decode(values)
        return out

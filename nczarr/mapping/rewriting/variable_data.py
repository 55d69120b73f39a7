"""Read and write the values of one variable of a stored dataset."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np

from nczarr.errors import SelectionError, error_context
from nczarr.mapping.dialect import Binding
from nczarr.model import Region
from nczarr.zarr import Array, Selection
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


def extend_with_fill(array: Array, shape: tuple[int, ...]) -> None:
    """Make an array longer, so that the new part contains fill values.

    Another program may have shortened the array and left values beyond its edge.
    """
    old, chunks = array.shape, array.chunk_shape
    array.grow(shape)
    for index in array.initialized_chunks():
        if any(i * c >= n for i, c, n in zip(index, chunks, old, strict=True)):
            array.store.delete(array.chunk_key(index))
    fill = np.empty((), array.dtype)
    fill[()] = array.metadata.fill
    for axis, (before, after) in enumerate(zip(old, shape, strict=True)):
        edge = min(-(-before // chunks[axis]) * chunks[axis], after)
        if before < edge:
            rest = [slice(0, n) for n in old]
            rest[axis] = slice(before, edge)
            array.write(tuple(rest), fill)
    array.resize(shape)


class VariableData:
    """The values of a variable, read and written in place; an :class:`nczarr.model.ArraySource`.

    The shape is that of the variable: the current sizes of its dimensions.

    Parameters
    ----------
    owner : StoredDataset
    fqn : str
    binding : Binding
    shape : tuple of int

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

    def __init__(self, owner: Owner, fqn: str, binding: Binding, shape: tuple[int, ...]) -> None:
        self._owner = owner
        self.fqn = fqn
        self._binding = binding
        self._shape = shape

    def __repr__(self) -> str:
        return f"<VariableData {self.fqn} {self._shape} {self.dtype}>"

    @property
    def path(self) -> str:
        """The path of the array."""
        return self._binding.path

    @property
    def owner(self) -> Owner:
        """The stored dataset that the data belong to."""
        return self._owner

    @property
    def binding(self) -> Binding:
        """The place and the encoding of the values."""
        return self._binding

    @property
    def array(self) -> Array:
        """The Zarr array."""
        return self._owner.hierarchy.array(self._binding.path)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the variable's dimensions."""
        return self._shape

    @property
    def in_place(self) -> bool:
        """True if steps behind the stored length cost no more than their own bytes."""
        array = self.array
        return array.rows_in_place and not array.metadata.extensions

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """The shape of the array, which another program may have made longer than the dimensions."""
        return tuple(self.array.shape)[: len(self._shape)]

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the variable's type."""
        return self._binding.encoding.dtype

    @property
    def limited(self) -> bool:
        """True if the encoding refuses some values of the type."""
        return self._binding.encoding.limited

    def check(self, values: np.ndarray) -> None:
        """Raise the error of :meth:`write` for values that cannot be stored, without writing."""
        with error_context(fqn=self.fqn):
            self._binding.encoding.encode(values)

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        """The best shape of blocks for writing: the shape of the chunks, or of the shards."""
        return tuple(self.array.chunk_shape)[: len(self._shape)]

    @property
    def block_shape(self) -> tuple[int, ...]:
        """The shape of the blocks of a cache: of the inner chunks, if shards grow in place, or of the chunks."""
        array = self.array
        return tuple(array.inner_chunk_shape if self._grows else array.chunk_shape)[: len(self._shape)]

    @property
    def _grows(self) -> bool:
        """True if inner chunks are added to a shard at the cost of their own bytes."""
        array = self.array
        inner = self._binding.encoding.inner_shape
        # Extensions change shapes, and chunks of nested values may be cut.
        return (
            array.shards_grow
            and not array.metadata.extensions
            and tuple(array.inner_chunk_shape[len(self._shape) :]) == tuple(inner)
        )

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        """Read a region; see :meth:`nczarr.model.ArraySource.read`."""
        encoding = self._binding.encoding
        selection = (*region, *(slice(None),) * len(encoding.inner_shape))
        with error_context(fqn=self.fqn):
            if self.is_short:
                values = self._read_short(region)
            elif encoding.is_identity:
                return self.array.read(selection, out)
            else:
                values = encoding.decode(self.array.read(selection))
        if out is None:
            return values
        out[...] = values
        return out

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
        encoding = self._binding.encoding
        with error_context(fqn=self.fqn):
            array = self.array
            if array.shape != self._shape and self.is_short:
                return self._read_short(selection)
            raw = array.read(self._chosen(selection))
            return raw if encoding.is_identity else encoding.decode(np.asarray(raw))

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
        encoding = self._binding.encoding
        if not isinstance(values, np.ndarray):
            values = np.asarray(values, self.dtype)
        with error_context(fqn=self.fqn):
            self.extend()
            if not encoding.is_identity:
                if values.dtype != self.dtype:
                    values = values.astype(self.dtype)
                values = encoding.encode(values)
            claimed = self._owner.hierarchy.claimed(self.path)
            try:
                self.array.write(self._chosen(selection), values, claimed=claimed)
            finally:  # a concurrent record of chunks may lack these
                self._owner.written.add(self._binding.path)

    def write_chunk(self, index: tuple[int, ...], values: np.ndarray) -> None:
        """Write values of :attr:`chunk_shape` to a chunk, given by its place in the grid.

        Values beyond the end of the array must be fill values.
        """
        encoding, array = self._binding.encoding, self.array
        with error_context(fqn=self.fqn):
            self.extend()
            raw = values if encoding.is_identity else encoding.encode(values)
            # Of a shard at the edge, only the inner chunks inside the array are stored.
            inside = array.inner_chunk_shape == array.chunk_shape or all(
                (i + 1) * c <= n for i, c, n in zip(index, values.shape, self._shape, strict=True)
            )
            if inside and array.takes_chunk(raw):
                try:
                    array.write_chunk((*index, *(0,) * len(encoding.inner_shape)), raw)
                finally:
                    self._owner.written.add(self._binding.path)
                return
        region = [
            slice(i * c, min((i + 1) * c, n))
            for i, c, n in zip(index, values.shape, self._shape, strict=True)
        ]
        self.write(tuple(region), values[tuple([slice(0, s.stop - s.start) for s in region])])

    def write_blocks(self, blocks: Mapping[tuple[int, ...], np.ndarray]) -> None:
        """Write values of :attr:`block_shape` to blocks, given by their places in the grid.

        Values beyond the end of the array must be fill values.
        """
        if not self._grows:
            for index, values in blocks.items():
                self.write_chunk(index, values)
            return
        encoding, array = self._binding.encoding, self.array
        rest = (0,) * len(encoding.inner_shape)
        with error_context(fqn=self.fqn):
            self.extend()
            raw = {
                (*index, *rest): values if encoding.is_identity else encoding.encode(values)
                for index, values in blocks.items()
            }
            try:
                array.write_blocks(raw)
            finally:
                self._owner.written.add(self._binding.path)

    def grow(self, shape: tuple[int, ...]) -> None:
        """Make the array longer in memory, for writing; the next :meth:`StoredDataset.update` writes its document."""
        full = self._full_shape(shape)
        # Another program may have made the array longer.
        self.array.grow((*map(max, shape, self.stored_shape), *full[len(shape) :]))
        self._shape = tuple(shape)

    def _full_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        if len(shape) != len(self._shape):
            raise SelectionError(
                f"the shape {shape} does not have {len(self._shape)} dimensions", fqn=self.fqn
            )
        return (*shape, *self._binding.encoding.inner_shape)

    def filled(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return fill values of a shape, as in unwritten regions."""
        encoding, array = self._binding.encoding, self.array
        raw = np.empty(shape + encoding.inner_shape, array.dtype)
        raw.fill(array.metadata.fill)
        return raw if encoding.is_identity else encoding.decode(raw)

    def clear_outside(self, axes: tuple[int, ...]) -> None:
        """Remove the values of dead writers beyond the end of the array, before the axes grow."""
        with error_context(fqn=self.fqn):
            self.array.clear_outside(axes)

    def resize(self, shape: tuple[int, ...]) -> None:
        """Change the shape of the array: values outside are lost, new values are fill values.

        The sizes of dimensions do not change: :meth:`StoredDataset.update` changes both.
        """
        self.array.resize(self._full_shape(shape))
        self._shape = tuple(shape)

    @property
    def is_short(self) -> bool:
        """True if the array is shorter than an unlimited dimension, as other programs leave it; the rest is fill."""
        shape = self._shape  # read this first: another thread that extends both begins with the array
        stored = self.array.shape
        return stored != shape and any(n < size for n, size in zip(stored, shape, strict=False))

    def extend(self) -> None:
        """Extend an array that is shorter than its dimensions."""
        if not self.is_short:
            return
        with self._owner.hierarchy.lock:
            # Check again: a second thread would remove values that the first has written.
            if self.is_short:
                inner = self._binding.encoding.inner_shape
                extend_with_fill(self.array, (*map(max, self.array.shape, self._shape), *inner))

    def _chosen(self, selection: object) -> Selection:
        """Return a selection of the variable's dimensions, extended to the dimensions of the array."""
        return normalize(selection, self._shape).followed_by(self._binding.encoding.inner_shape)

    def _read_short(self, selection: object) -> np.ndarray:
        """Read the stored values, and fill values beyond the end of the array."""
        encoding = self._binding.encoding
        chosen = normalize(selection, self._shape)
        places = [axis.places for axis in chosen.axes]
        inside = [np.flatnonzero(p < n) for p, n in zip(places, self.array.shape, strict=False)]
        raw_fill = np.empty(encoding.inner_shape, self.array.dtype)
        raw_fill[...] = self.array.metadata.fill
        fill = encoding.decode(raw_fill)[()]
        out = np.empty(chosen.shape, self.dtype)
        if out.dtype.hasobject:
            for index in np.ndindex(*out.shape):
                out[index] = fill
        else:
            out[...] = fill
        if all(map(len, inside)):
            stored = Selection.of([p[i] for p, i in zip(places, inside, strict=True)])
            values = self.array.read(stored.followed_by(encoding.inner_shape))
            chosen.expand(out)[np.ix_(*inside)] = values if encoding.is_identity else encoding.decode(values)
        return out

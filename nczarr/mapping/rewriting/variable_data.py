"""Read and write the values of one variable of a stored dataset."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from nczarr.errors import SelectionError, error_context
from nczarr.mapping.dialect import Binding
from nczarr.model import Region
from nczarr.zarr import Array, Hierarchy, Selection
from nczarr.zarr.chunks.selection import normalize


class Owner(Protocol):
    """What a variable's data belong to."""

    hierarchy: Hierarchy
    #: Paths of arrays that were written to.
    written: set[str]


def extend_with_fill(array: Array, shape: tuple[int, ...]) -> None:
    """Make an array longer so that all that is new reads as fill.

    A program that made it shorter before may have left values beyond its edge.
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
        What has the hierarchy.
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

    #: A chunk is encoded and stored as a whole.
    in_place = False

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
        """Where the values are and how they are held."""
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
    def stored_shape(self) -> tuple[int, ...]:
        """The shape of the array, which another program may have made longer than the dimensions."""
        return tuple(self.array.shape)[: len(self._shape)]

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the variable's type."""
        return self._binding.encoding.dtype

    @property
    def limited(self) -> bool:
        """True if not each value of the type can be stored."""
        return self._binding.encoding.limited

    def check(self, values: np.ndarray) -> None:
        """Raise what :meth:`write` would raise for values that cannot be stored, and write nothing."""
        with error_context(fqn=self.fqn):
            self._binding.encoding.encode(values)

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        """Shape of the blocks in which values are best written: those of the chunks, or of the shards."""
        return tuple(self.array.chunk_shape)[: len(self._shape)]

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

    def read_orthogonal(self, selection: Any) -> np.ndarray:
        """Read with one index for each dimension: an integer, a slice of any step, integers, or a mask.

        Parameters
        ----------
        selection
            As behind square brackets; each index acts on its own dimension.

        Returns
        -------
        ndarray
            Of :attr:`dtype`; a dimension with an integer is gone.

        Raises
        ------
        SelectionError
            If the selection does not fit the shape.
        """
        encoding = self._binding.encoding
        with error_context(fqn=self.fqn):
            array = self.array
            if array.shape != self._shape and self.is_short:
                return self._read_short(selection)
            raw = array.read(self._chosen(selection))
            return raw if encoding.is_identity else encoding.decode(np.asarray(raw))

    def write(self, selection: Any, values: Any) -> None:
        """Write values to a selection, as in :meth:`read_orthogonal`.

        Parameters
        ----------
        selection
        values : ndarray
            In memory form, of the selection's shape or one that broadcasts to it. For sequences and strings an
            object array, without dimensions for a single value.

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
            try:
                self.array.write(self._chosen(selection), values)
            finally:  # a record that is made meanwhile may not have them
                self._owner.written.add(self._binding.path)

    def write_chunk(self, index: tuple[int, ...], values: np.ndarray) -> None:
        """Write values of :attr:`chunk_shape` to a chunk, given by its place in the grid.

        What lies behind the shape, at its end, has to be fill.
        """
        encoding, array = self._binding.encoding, self.array
        with error_context(fqn=self.fqn):
            self.extend()
            raw = values if encoding.is_identity else encoding.encode(values)
            if array.takes_chunk(raw):
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

    def grow(self, shape: tuple[int, ...]) -> None:
        """Make the array longer in memory only: values can be written there, and its document follows with the
        next :meth:`StoredDataset.update` that says the same size.
        """
        if len(shape) != len(self._shape):
            raise SelectionError(f"the shape {shape} has not {len(self._shape)} dimensions", fqn=self.fqn)
        longest = map(max, shape, self.stored_shape)  # another program may have made the array longer
        self.array.grow((*longest, *self._binding.encoding.inner_shape))
        self._shape = tuple(shape)

    def filled(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return values of a shape as they are where nothing was written."""
        encoding, array = self._binding.encoding, self.array
        raw = np.empty(shape + encoding.inner_shape, array.dtype)
        raw.fill(array.metadata.fill)
        return raw if encoding.is_identity else encoding.decode(raw)

    def clear_outside(self, axes: tuple[int, ...]) -> None:
        """Remove what a writer that died left behind the shape, along axes that are about to grow."""
        with error_context(fqn=self.fqn):
            self.array.clear_outside(axes)

    def resize(self, shape: tuple[int, ...]) -> None:
        """Give the array another shape; values that fall outside are lost, new ones are fill.

        The sizes of dimensions are not changed: :meth:`StoredDataset.update` does both.
        """
        if len(shape) != len(self._shape):
            raise SelectionError(f"the shape {shape} has not {len(self._shape)} dimensions", fqn=self.fqn)
        self.array.resize((*shape, *self._binding.encoding.inner_shape))
        self._shape = tuple(shape)

    @property
    def is_short(self) -> bool:
        """True if another program left the array shorter than an unlimited dimension; the rest reads as fill."""
        shape = self._shape  # first: another thread that makes both longer begins with the array
        there = self.array.shape
        if there == shape:
            return False
        return any(n < size for n, size in zip(there, shape, strict=False))

    def extend(self) -> None:
        """Make an array that is shorter than its dimensions as long as they are."""
        if not self.is_short:
            return
        with self._owner.hierarchy.lock:
            # Again: of two threads that come here one would remove what the other has written already.
            if self.is_short:
                inner = self._binding.encoding.inner_shape
                extend_with_fill(self.array, (*map(max, self.array.shape, self._shape), *inner))

    def _chosen(self, selection: Any) -> Selection:
        """The selection, which speaks of the variable's dimensions, with those of the array behind them."""
        return normalize(selection, self._shape).followed_by(self._binding.encoding.inner_shape)

    def _read_short(self, selection: Any) -> np.ndarray:
        """Read what the array has, and fill where it has nothing."""
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
            there = Selection.of([p[i] for p, i in zip(places, inside, strict=True)])
            values = self.array.read(there.followed_by(encoding.inner_shape))
            chosen.expand(out)[np.ix_(*inside)] = values if encoding.is_identity else encoding.decode(values)
        return out

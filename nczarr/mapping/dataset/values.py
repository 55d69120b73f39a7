"""The values of one variable of a stored dataset: :class:`VariableData`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from nczarr.errors import NCZarrError, SelectionError
from nczarr.mapping.layout import Binding
from nczarr.model import Region

if TYPE_CHECKING:
    from nczarr.zarr.arrays.array import Array
    from nczarr.zarr.hierarchy.hierarchy import Hierarchy


class Owner(Protocol):
    """What a variable's data belong to."""

    hierarchy: Hierarchy


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
    def chunk_shape(self) -> tuple[int, ...]:
        """Shape of the blocks in which values are best written: those of the chunks, or of the shards."""
        return tuple(self.array.chunk_shape)[: len(self._shape)]

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        """Read a region; see :meth:`nczarr.model.ArraySource.read`."""
        encoding = self._binding.encoding
        selection = (*region, *(slice(None),) * len(encoding.inner_shape))
        try:
            if encoding.is_identity:
                return self.array.read(selection, out)
            values = encoding.decode(self.array.read(selection))
        except NCZarrError as error:
            raise self._placed(error) from error.__cause__
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
        try:
            raw = self.array.read(self._complete(selection))
            return raw if encoding.is_identity else encoding.decode(np.asarray(raw))
        except NCZarrError as error:
            raise self._placed(error) from error.__cause__

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
        try:
            if not encoding.is_identity:
                if values.dtype != self.dtype:
                    values = values.astype(self.dtype)
                values = encoding.encode(values)
            self.array.write(self._complete(selection), values)
        except NCZarrError as error:
            raise self._placed(error) from error.__cause__

    def grow(self, shape: tuple[int, ...]) -> None:
        """Make the array longer in memory only: values can be written there, and its document follows with the
        next :meth:`StoredDataset.update` that says the same size.
        """
        if len(shape) != len(self._shape):
            raise SelectionError(f"the shape {shape} has not {len(self._shape)} dimensions", fqn=self.fqn)
        self.array.grow((*shape, *self._binding.encoding.inner_shape))
        self._shape = tuple(shape)

    def filled(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return values of a shape as they are where nothing was written."""
        encoding, array = self._binding.encoding, self.array
        raw = np.empty(shape + encoding.inner_shape, array.dtype)
        raw.fill(array.metadata.fill)
        return raw if encoding.is_identity else encoding.decode(raw)

    def clear_outside(self, axes: tuple[int, ...]) -> None:
        """Remove what a writer that died left behind the shape, along axes that are about to grow."""
        try:
            self.array.clear_outside(axes)
        except NCZarrError as error:
            raise self._placed(error) from error.__cause__

    def resize(self, shape: tuple[int, ...]) -> None:
        """Give the array another shape; values that fall outside are lost, new ones are fill.

        The sizes of dimensions are not changed: :meth:`StoredDataset.update` does both.
        """
        if len(shape) != len(self._shape):
            raise SelectionError(f"the shape {shape} has not {len(self._shape)} dimensions", fqn=self.fqn)
        self.array.resize((*shape, *self._binding.encoding.inner_shape))
        self._shape = tuple(shape)

    def _complete(self, selection: Any) -> tuple[Any, ...]:
        """The selection with one index for each of the variable's dimensions, and those of the array."""
        items = selection if isinstance(selection, tuple) else (selection,)
        dots = [i for i, item in enumerate(items) if item is Ellipsis]
        if len(dots) > 1:
            raise SelectionError("a selection can have one ellipsis only", fqn=self.fqn)
        missing = len(self._shape) - (len(items) - len(dots))
        if missing < 0:
            raise SelectionError(
                f"{len(items) - len(dots)} indices for {len(self._shape)} dimensions", fqn=self.fqn
            )
        at = dots[0] if dots else len(items)
        tail = items[at + 1 :] if dots else ()
        inner = (slice(None),) * len(self._binding.encoding.inner_shape)
        full = (*items[:at], *(slice(None),) * missing, *tail)
        return (*self._clip(full), *inner)

    def _clip(self, full: tuple[Any, ...]) -> tuple[Any, ...]:
        """Where the array is longer than its dimension (an unfinished append), count from the dimension."""
        actual = self.array.shape
        clipped = []
        for item, size, length in zip(full, self._shape, actual, strict=False):
            try:
                clipped.append(item if size == length else np.arange(size)[item])
            except (IndexError, TypeError, ValueError) as error:
                raise SelectionError(f"{item!r} does not fit a dimension of {size}: {error}") from None
        return tuple(clipped)

    def _placed(self, error: NCZarrError) -> NCZarrError:
        if error.fqn is None:
            error.fqn = self.fqn
        return error

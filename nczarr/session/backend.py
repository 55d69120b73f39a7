"""Name what a session asks of a stored dataset, and read from what is no store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from nczarr import model
from nczarr.model import ArraySource
from nczarr.session.errors import NotWritableError


class StoredArray(ArraySource, Protocol):
    """Values of one stored variable that can be read orthogonally, and written."""

    @property
    def in_place(self) -> bool:
        """True if a part of a block can be written at no more cost than its own bytes."""

    @property
    def limited(self) -> bool:
        """True if not each value of the type can be stored."""

    def check(self, values: np.ndarray) -> None:
        """Raise what :meth:`write` would raise for values that cannot be stored, and write nothing."""

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        """Shape of the blocks in which they are best written."""

    def filled(self, shape: tuple[int, ...]) -> np.ndarray:
        """Values of a shape as they are where nothing was written."""

    def read_orthogonal(self, selection: Any) -> np.ndarray:
        """Read: slices or increasing positions, one for each axis."""

    def write(self, selection: Any, values: np.ndarray) -> None:
        """Write values of the selection's shape."""

    def write_chunk(self, index: tuple[int, ...], values: np.ndarray) -> None:
        """Write values of :attr:`chunk_shape` to the block at a place in the grid; behind the shape they are fill."""

    def grow(self, shape: tuple[int, ...]) -> None:
        """Accept values in a larger shape; what is stored says so with the next update."""

    def clear_outside(self, axes: tuple[int, ...]) -> None:
        """Remove what a writer that died left behind the shape, along axes that are about to grow."""


@runtime_checkable
class Stored(Protocol):
    """A stored dataset, as :func:`nczarr.mapping.open_dataset` gives it.

    Whatever has these methods can be edited: a Zarr hierarchy, or a file of another kind.
    """

    #: False: :meth:`sync`, :meth:`publish` and :meth:`close` do not wait until the disk has everything.
    durable: bool | None

    @property
    def dataset(self) -> model.Dataset:
        """The model, with the data of its variables."""

    def data(self, fqn: str) -> StoredArray:
        """The values of a variable."""

    def check_model(self, dataset: model.Dataset) -> None:
        """Raise what :meth:`update` would raise for the parts of a dataset, and change nothing."""

    def update(self, dataset: model.Dataset) -> None:
        """Write what differs in the metadata; values move with variables whose data are those of :meth:`data`."""

    def lengthen(self, sizes: Mapping[str, int]) -> bool:
        """Write the new lengths of unlimited dimensions, given by FQN, whose values have grown; all else is as the
        last update left it. False, and nothing is done, if this takes an update.
        """

    def publish(self) -> None:
        """Make a new dataset visible."""

    def sync(self) -> None:
        """Write all that is buffered."""

    def close(self) -> None:
        """Sync, and let go."""

    def leave_unfinished(self, reason: str) -> None:
        """Close a dataset whose last flush failed: readers must not take it for complete."""


class SourceOnly:
    """A model dataset with readable sources (a netCDF file, parsed CDL, …) as a stored dataset, read-only.

    `owner` is closed together with it.
    """

    durable: bool | None = None

    def __init__(self, dataset: model.Dataset, owner: Any = None) -> None:
        self.dataset = dataset
        self._owner = owner

    def data(self, fqn: str) -> StoredArray:
        """The values of a variable; fill values if the model has none."""
        variable = self.dataset.variable_at(fqn)
        return _Readable(model.source_of(variable, self.dataset.shape(variable)))

    def check_model(self, dataset: model.Dataset) -> None:
        raise NotWritableError("NetCDF: Write to read only", path=dataset.name)

    def update(self, dataset: model.Dataset) -> None:
        raise NotWritableError("NetCDF: Write to read only", path=dataset.name)

    def lengthen(self, sizes: Mapping[str, int]) -> bool:
        return False

    def publish(self) -> None:
        """Nothing to do."""

    def sync(self) -> None:
        """Nothing to do."""

    def leave_unfinished(self, reason: str) -> None:
        self.close()

    def close(self) -> None:
        """Close the file behind it."""
        if self._owner is not None:
            self._owner.close()


class _Readable:
    """Orthogonal reading on top of a source that reads regions."""

    in_place = False
    limited = False

    def __init__(self, source: ArraySource) -> None:
        self._source = source

    @property
    def shape(self) -> tuple[int, ...]:
        return self._source.shape

    @property
    def dtype(self) -> np.dtype:
        return self._source.dtype

    def read(self, region: model.Region, out: np.ndarray | None = None) -> np.ndarray:
        return self._source.read(region, out)

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        return self._source.shape

    def filled(self, shape: tuple[int, ...]) -> np.ndarray:
        raise NotWritableError("NetCDF: Write to read only")

    def read_orthogonal(self, selection: tuple[slice | np.ndarray, ...]) -> np.ndarray:
        region = tuple(s if isinstance(s, slice) else slice(int(s[0]), int(s[-1]) + 1, 1) for s in selection)
        block = self._source.read(region)
        for axis, s in enumerate(selection):
            if not isinstance(s, slice):
                block = np.take(block, s - s[0], axis)
        return block

    def check(self, values: np.ndarray) -> None:
        raise NotWritableError("NetCDF: Write to read only")

    def write(self, selection: Any, values: np.ndarray) -> None:
        raise NotWritableError("NetCDF: Write to read only")

    def write_chunk(self, index: tuple[int, ...], values: np.ndarray) -> None:
        raise NotWritableError("NetCDF: Write to read only")

    def grow(self, shape: tuple[int, ...]) -> None:
        raise NotWritableError("NetCDF: Write to read only")

    def clear_outside(self, axes: tuple[int, ...]) -> None:
        raise NotWritableError("NetCDF: Write to read only")

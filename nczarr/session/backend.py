"""Define the protocol of a stored dataset that a session edits, and adapt readable sources to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import NoReturn, Protocol, runtime_checkable

import numpy as np

from nczarr import model
from nczarr.errors import ReadOnlyError
from nczarr.model.parts import Restrictions
from nczarr.model.sources import OrthogonalIndex
from nczarr.system.finalizing import Closable


class StoredArray(model.ArraySource, Protocol):
    """Values of one stored variable, for orthogonal reading and for writing."""

    @property
    def in_place(self) -> bool:
        """True if writing a part of a chunk costs no more than its own bytes."""

    @property
    def limited(self) -> bool:
        """True if the array cannot store all values of its type."""

    def check(self, values: np.ndarray) -> None:
        """Raise the errors of :meth:`write` for values that cannot be stored, without a change."""

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        """Shape of the blocks that are written most efficiently."""

    @property
    def block_shape(self) -> tuple[int, ...]:
        """Shape of the blocks that a cache keeps: of the chunks, or of the parts that a chunk consists of."""

    def filled(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return fill values as in unwritten regions."""

    def read_orthogonal(self, selection: OrthogonalIndex) -> np.ndarray:
        """Read a selection."""

    def read_points(self, axes: OrthogonalIndex) -> np.ndarray | None:
        """Read elements at single points: positions of several axes together, which are the first axis of the result.

        Return None if they have to be read in boxes around the points.
        """

    def write(self, selection: OrthogonalIndex, values: np.ndarray) -> None:
        """Write values of the selection's shape."""

    def write_blocks(self, blocks: Mapping[tuple[int, ...], np.ndarray]) -> None:
        """Write whole blocks, given by their places in the grid. Their values outside the shape are fill values."""

    def grow(self, shape: tuple[int, ...]) -> None:
        """Accept values in a larger shape, without input or output. The next update stores the lengths."""

    @property
    def may_have_tail(self) -> bool:
        """True if the next write or update first removes values that an aborted writer has left behind the shape."""

    def trust_tail(self) -> None:
        """Remove none: the caller writes all values behind the shape."""


@runtime_checkable
class Stored(Protocol):
    """A stored dataset: a Zarr hierarchy, or a file of another format."""

    #: False if :meth:`sync`, :meth:`publish` and :meth:`close` do not wait for the disk.
    durable: bool

    @property
    def parallel_requests(self) -> int:
        """The number of requests to a server that wait at the same time; 1 without a server."""

    @property
    def before_part(self) -> Callable[[], None] | None:
        """Excludes the writers that would undo the change of a part of a chunk, where no lock does."""

    @property
    def dataset(self) -> model.Dataset:
        """The model, with the data of its variables."""

    @property
    def disk_format(self) -> str:
        """``ZARR``, ``HDF5`` or ``NETCDF3``."""

    @property
    def restrictions(self) -> Restrictions:
        """The parts of the model that the dataset cannot hold."""

    def data(self, fqn: str) -> StoredArray:
        """Return the values of a variable."""

    def check_model(self, dataset: model.Dataset) -> None:
        """Raise the errors of :meth:`update` for the parts of a dataset, without a change."""

    def update(self, dataset: model.Dataset) -> None:
        """Write the differences of the metadata. A variable with data of :meth:`data` keeps its values."""

    def length(self, fqn: str) -> int:
        """Return the stored length of an unlimited dimension."""

    def make_room(self) -> None:
        """Prepare the arrays for the values that they accept, with many requests at the same time."""

    def lengthen(self, sizes: Mapping[str, int]) -> bool:
        """Write new lengths of unlimited dimensions, by FQN.

        Return False, without a change, if this requires an update.
        """

    def refused(self) -> Mapping[str, Exception]:
        """Return the variables and groups of an unpublished dataset that the store refuses, by FQN."""

    def publish(self) -> None:
        """Make a new dataset visible."""

    def sync(self) -> None:
        """Write all pending changes."""

    def together(self) -> AbstractContextManager[None]:
        """Return a block at whose end all written values are in their places. No thread reads them meanwhile."""

    def close(self) -> None:
        """Sync and close."""

    def leave_unfinished(self, reason: str) -> None:
        """Close a dataset whose last flush failed. Readers must not take it for complete."""


def _refuse(*arguments: object, **named: object) -> NoReturn:
    raise ReadOnlyError("NetCDF: Write to read only")


class SourceOnly:
    """A dataset with readable sources (a netCDF file, parsed CDL, …) as a read-only stored dataset.

    Parameters
    ----------
    dataset : Dataset
    owner : object with a method ``close``, optional
        Closed together with the dataset.
    disk_format : str
    """

    durable = True
    parallel_requests = 1
    before_part = None
    restrictions = Restrictions()

    def __init__(
        self, dataset: model.Dataset, owner: Closable | None = None, disk_format: str = "ZARR"
    ) -> None:
        self.dataset = dataset
        self.disk_format = disk_format
        self._owner = owner

    def data(self, fqn: str) -> StoredArray:
        """Return the values of a variable: fill values if the model has none."""
        variable = self.dataset.variable_at(fqn)
        return _Readable(model.source_of(variable, self.dataset.shape_of(variable)))

    def length(self, fqn: str) -> int:
        return self.dataset.dimension_at(fqn).size

    def lengthen(self, sizes: Mapping[str, int]) -> bool:
        return False

    def refused(self) -> Mapping[str, Exception]:
        return {}

    def together(self) -> AbstractContextManager[None]:
        return nullcontext()

    def close(self, reason: str = "") -> None:
        """Close the owner."""
        if self._owner is not None:
            self._owner.close()

    leave_unfinished = close
    check_model = update = _refuse

    def sync(self) -> None:
        """Do nothing."""

    publish = make_room = sync


class _Readable:
    """Orthogonal reading of a source that reads regions."""

    in_place = False
    limited = False
    may_have_tail = False

    def __init__(self, source: model.ArraySource) -> None:
        self.dtype, self.read = source.dtype, source.read
        self.shape = self.chunk_shape = self.block_shape = source.shape

    def read_orthogonal(self, selection: OrthogonalIndex) -> np.ndarray:
        # A source reads regions only.
        region = tuple(s if isinstance(s, slice) else slice(int(s[0]), int(s[-1]) + 1, 1) for s in selection)
        block = self.read(region)
        for axis, s in enumerate(selection):
            if not isinstance(s, slice):
                block = np.take(block, s - s[0], axis)
        return block

    def read_points(self, axes: OrthogonalIndex) -> None:
        """Return None: sources read regions."""

    filled = check = write = write_blocks = grow = trust_tail = _refuse

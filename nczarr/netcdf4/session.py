"""One open dataset: what is stored, what has changed since, and when the difference is written.

The interface keeps its own tree, which a program changes at will. The store sees a frozen model of it only when
it must: before values of a new variable are touched, on sync and on close. Growth of a dimension goes to the
array that is written at once, and to all others with the next difference.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from nczarr import model
from nczarr.model import ArraySource
from nczarr.netcdf4.constants import CLASSIC_FORMATS, MODEL_OF_FORMAT
from nczarr.netcdf4.errors import NetCDFReadOnlyError, NetCDFReferenceError, NetCDFRuntimeError

if TYPE_CHECKING:
    from nczarr.netcdf4.dataset import Dataset
    from nczarr.netcdf4.variable import Variable

#: Values of new variables that are held back, at most; and what one object is taken to need.
_WAITING_BYTES = 64 << 20
_OBJECT_BYTES = 256


class StoredArray(ArraySource, Protocol):
    """Values of one stored variable that can be read orthogonally, and written."""

    def read_orthogonal(self, selection: Any) -> np.ndarray:
        """Read: slices or increasing positions, one for each axis."""

    def write(self, selection: Any, values: np.ndarray) -> None:
        """Write values of the selection's shape."""

    def grow(self, shape: tuple[int, ...]) -> None:
        """Accept values in a larger shape; what is stored says so with the next update."""


@runtime_checkable
class Stored(Protocol):
    """A stored dataset, as :func:`nczarr.mapping.open_dataset` gives it."""

    dataset: model.Dataset

    def data(self, fqn: str) -> StoredArray:
        """The values of a variable."""

    def update(self, dataset: model.Dataset) -> None:
        """Write what differs in the metadata."""

    def publish(self) -> None:
        """Make a new dataset visible."""

    def sync(self) -> None:
        """Write all that is buffered."""

    def close(self) -> None:
        """Sync, and let go."""


class SourceOnly:
    """A model dataset with readable sources (a netCDF file, parsed CDL, …) as a stored dataset, read-only.

    Parameters
    ----------
    dataset : model.Dataset
    owner : object, optional
        What has to be closed together with it.
    """

    def __init__(self, dataset: model.Dataset, owner: Any = None) -> None:
        self.dataset = dataset
        self._owner = owner

    def data(self, fqn: str) -> StoredArray:
        """The values of a variable; fill values if the model has none."""
        variable = self.dataset.variable_at(fqn)
        source = variable.data
        if source is None:
            fill = variable.attribute.get("_FillValue")
            value = model.default_fill(variable.type) if fill is None else fill.values[0]
            source = model.RepeatedSource(value, self.dataset.shape(variable), variable.type.dtype)
        return _Readable(source)

    def update(self, dataset: model.Dataset) -> None:
        raise NetCDFReadOnlyError("NetCDF: Write to read only", path=dataset.name)

    def publish(self) -> None:
        """Nothing to do."""

    def sync(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Close the file behind it."""
        if self._owner is not None:
            self._owner.close()


class _Readable:
    """Orthogonal reading on top of a source that reads regions."""

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

    def read_orthogonal(self, selection: tuple[slice | np.ndarray, ...]) -> np.ndarray:
        region = tuple(s if isinstance(s, slice) else slice(int(s[0]), int(s[-1]) + 1, 1) for s in selection)
        block = self._source.read(region)
        for axis, s in enumerate(selection):
            if not isinstance(s, slice):
                block = np.take(block, s - s[0], axis)
        return block

    def write(self, selection: Any, values: np.ndarray) -> None:
        raise NetCDFReadOnlyError("NetCDF: Write to read only")

    def grow(self, shape: tuple[int, ...]) -> None:
        raise NetCDFReadOnlyError("NetCDF: Write to read only")


class Session:
    """State that all objects of one open dataset share.

    Parameters
    ----------
    stored : Stored
    name : str
        As the program gave it.
    writable : bool
    data_model : str, optional
        For a new dataset; otherwise the stored dataset says.
    """

    def __init__(self, stored: Stored, *, name: str, writable: bool, data_model: str | None = None) -> None:
        self.stored = stored
        self.name = name
        self.writable = writable
        self.data_model = data_model or MODEL_OF_FORMAT.get(stored.dataset.format, "NETCDF4")
        self.is_open = True
        self.disk_format = "ZARR"
        self.chunk_cache: tuple[int, int, float] = (0, 0, 0.0)
        #: What is to be done after closing; its result is what close returns.
        self.at_close: Callable[[], memoryview | None] | None = None
        self.fill = True
        self.lock = threading.RLock()
        self.generation = 0
        self._root: weakref.ref[Dataset] | None = None
        self._dirty = False
        self._new: list[Variable] = []
        self._waiting: deque[tuple[Variable, Any, np.ndarray]] = deque()
        self._waiting_bytes = 0

    def bind(self, root: Dataset) -> None:
        """Remember the root of the tree, weakly: dropping the dataset may close it."""
        self._root = weakref.ref(root)

    @property
    def root(self) -> Dataset:
        """The root of the tree."""
        root = self._root() if self._root is not None else None
        if root is None:
            raise NetCDFReferenceError("weakly-referenced object no longer exists", path=self.name)
        return root

    def check_open(self) -> None:
        """Raise :class:`NetCDFRuntimeError` if the dataset is closed."""
        if not self.is_open:
            raise NetCDFRuntimeError("NetCDF: Not a valid ID: the dataset is closed", path=self.name)

    def check_writable(self) -> None:
        """Raise :class:`NetCDFReadOnlyError` if the dataset is open for reading only."""
        self.check_open()
        if not self.writable:
            raise NetCDFReadOnlyError("NetCDF: Write to read only", path=self.name)

    def check_room_for_unlimited(self, group: Dataset) -> None:
        """The classic models have one unlimited dimension at most."""
        if self.data_model in CLASSIC_FORMATS and any(d._nc_unlimited for d in group.dimensions.values()):
            raise NetCDFRuntimeError("NetCDF: NC_UNLIMITED size already in use", path=self.name)

    def changed(self, new: Variable | None = None) -> None:
        """Note that the tree differs from what is stored."""
        self._dirty = True
        if new is not None:
            self._new.append(new)

    def flush(self, root: Dataset | None = None) -> None:
        """Write what differs in the metadata, and the values that wait for it.

        `root` is for a dataset that is being dropped: no weak reference leads to it any more.
        """
        self.check_open()
        with self.lock:
            if not self._dirty and not self._waiting:
                return
            self.stored.update((self.root if root is None else root)._nc_freeze_dataset())
            self._dirty = False
            self.generation += 1
            for variable in self._new:
                variable._nc_stored = True
            self._new.clear()
            while self._waiting:  # what fails goes on waiting, with all behind it
                variable, selection, values = self._waiting[0]
                self.values(variable).write(selection, values)
                self._waiting.popleft()
            self._waiting_bytes = 0

    def write(self, variable: Variable, selection: Any, values: np.ndarray) -> None:
        """Write values in the model's form.

        Those of a variable that is not stored yet wait, up to a bound, until the metadata have to be written
        anyway: so a program that makes and fills one variable after the other does not rewrite the metadata
        each time.
        """
        with self.lock:
            if not variable._nc_stored:
                size = values.size * (_OBJECT_BYTES if values.dtype.hasobject else values.itemsize)
                if self._waiting_bytes + size <= _WAITING_BYTES:
                    self._waiting.append((variable, selection, values.copy()))
                    self._waiting_bytes += size
                    return
        self.values(variable).write(selection, values)

    def values(self, variable: Variable) -> StoredArray:
        """The stored values of a variable, in its current shape."""
        self.check_open()
        with self.lock:
            if not variable._nc_stored:
                self.flush()
            handle = variable._nc_handle
            if handle is None or variable._nc_generation != self.generation:
                handle = self.stored.data(variable._nc_fqn)
                variable._nc_handle, variable._nc_generation = handle, self.generation
            shape = variable._nc_shape
            if handle.shape != shape and self.writable:
                handle.grow(shape)
        return handle

    def sync(self) -> None:
        """Write all that is not stored yet."""
        self.check_open()
        if self.writable:
            with self.lock:
                self.flush()
                self.stored.publish()
                self.stored.sync()

    def close(self, root: Dataset) -> memoryview | None:
        """Sync, and close; the tree can be looked at no more."""
        self.check_open()
        with self.lock:
            try:
                if self.writable:
                    self.flush(root)
            finally:
                self.is_open = False
                self.stored.close()
            return self.at_close() if self.at_close is not None else None

    def moved(self, pairs: Sequence[tuple[Variable, str]]) -> None:
        """Move stored values to where the tree, which is renamed already, has them.

        Parameters
        ----------
        pairs : sequence of (Variable, str)
            The variables concerned, and their fully qualified names before.
        """
        with self.lock:
            for variable, name in pairs:
                # Data that belong to the stored dataset say which variable this was.
                variable._nc_frozen = variable._nc_freeze().with_data(self.stored.data(name))
            try:
                self.stored.update(self.root._nc_freeze_dataset())
            finally:
                self.root._nc_thaw_all()
            self._dirty = False
            self.generation += 1

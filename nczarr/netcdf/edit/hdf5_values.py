"""Read and write the values of one variable of an editable netCDF-4 file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nczarr.errors import NetCDFFileError, UnsupportedError, error_context
from nczarr.lazy import cached_property
from nczarr.model import regions
from nczarr.netcdf.edit.editor import Axes, EditedValues, block_shape
from nczarr.netcdf.hdf5.library import hdf5, hdf5_errors
from nczarr.netcdf.hdf5.source import HDF5Source, fill_with
from nczarr.netcdf.hdf5.types import Converted, encode, has_fixed_text, has_pointers


@dataclass(eq=False)
class HDF5Values(HDF5Source, EditedValues):
    """The values of a variable, for reading and writing.

    Attributes
    ----------
    group, link : str, bytes
        The FQN of the variable's group, and the name of its link there.
    touched : bool
        True if the dataset was created or written to; values that HDF5 cannot read must not stay in it.
    """

    group: str
    link: bytes
    touched: bool = False

    def __post_init__(self) -> None:
        #: True if the values are strings or sequences.
        self.pointers = has_pointers(self.layout)
        self.limited = has_fixed_text(self.layout) or isinstance(self.layout, Converted)

    @cached_property
    def chunk_shape(self) -> tuple[int, ...]:
        """Return the chunk shape, or a block shape if the dataset has no chunks."""
        with hdf5().phil, hdf5_errors(self.file.path, self.fqn):
            chunk = self.file.opened(self.path).chunk
        return chunk or block_shape(self.shape, (1,) * len(self.shape), self.layout.dtype.itemsize)

    def filled(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return an array of the unwritten value."""
        values = np.empty(shape, self.dtype)
        fill_with(values, self.fill)
        return values

    def check(self, values: np.ndarray) -> None:
        """Raise :class:`UnsupportedError` for a text longer than the file's strings, and for converted numbers."""
        if isinstance(self.layout, Converted):
            raise UnsupportedError(
                "the file stores numbers of a form that netCDF lacks; they are only readable",
                hint="copy the dataset, which stores them in their netCDF type",
            )
        encode(self.layout, values, self.type, [])

    def _read(self, axes: Axes) -> np.ndarray:
        return self.read(tuple([slice(a.start, a.stop, a.step) for a in axes]))

    def _write(self, axes: Axes, values: np.ndarray) -> None:
        if not values.size:
            return
        keep: list[object] = []
        file = self.file
        with error_context(file.path, fqn=self.fqn):
            raw = np.ascontiguousarray(encode(self.layout, values, self.type, keep)).reshape(values.shape)
        with hdf5().phil, hdf5_errors(file.path, self.fqn, "the values cannot be written"):
            file.check()
            opened = file.opened(self.path)
            needed = tuple([max(n, a[-1] + 1) for n, a in zip(self.stored, axes, strict=True)])
            if needed != self.stored:
                if any(n > most for n, most in zip(needed, self.shape, strict=True)):
                    raise NetCDFFileError(f"the index {needed} is outside the shape {self.shape}")
                opened.id.set_extent(needed)
                self.stored = needed
            origin = None
            if opened.chunk is not None and not opened.filters and not self.pointers:
                origin = _chunk_at(axes, opened.chunk)
            if origin is not None:
                opened.id.write_direct_chunk(origin, raw, 0)
            else:
                opened.write(axes, raw)
            self.touched = True
            file.check()

    def extend(self, shape: tuple[int, ...]) -> None:
        """Extend the HDF5 dataset to the length of its dimensions. The caller holds the lock."""
        if shape != self.stored:
            self.file.dataset(self.path).set_extent(shape)
            self.stored = shape

    def complete(self) -> None:
        """Write unwritten chunks of strings or sequences, which HDF5 cannot read otherwise."""
        with hdf5().phil, hdf5_errors(self.file.path, self.fqn, "the values cannot be written"):
            opened = self.file.opened(self.path)
            if not opened.lacks_chunks():
                return
            assert opened.chunk is not None
            for region in regions(opened.id.shape, opened.chunk):
                origin = tuple(s.start for s in region)
                if opened.id.get_chunk_info_by_coord(origin).byte_offset is None:
                    shape = tuple(s.stop - s.start for s in region)
                    self._write(tuple(range(s.start, s.stop) for s in region), self.filled(shape))


def _chunk_at(axes: Axes, chunk: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the origin of the chunk that ranges cover exactly, or None if they cover no whole chunk."""
    for axis, length in zip(axes, chunk, strict=True):
        if len(axis) != length or axis.start % length or (axis.step != 1 and length != 1):
            return None
    return tuple([axis.start for axis in axes])

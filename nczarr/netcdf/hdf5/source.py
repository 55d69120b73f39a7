"""Read the values of variables of a netCDF-4 file, region by region."""

from __future__ import annotations

import ctypes
import math
import os
import weakref
from collections import OrderedDict
from dataclasses import field
from itertools import product
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from nczarr.dataclass import dataclass
from nczarr.errors import NetCDFFileError, error_context
from nczarr.lazy import cached_property
from nczarr.model import Filter, Region, Type
from nczarr.model.lengths import Extents, shape_of
from nczarr.model.sources import handed
from nczarr.netcdf.bytes.file import FilePlaces, Ranges, bytes_of, cut_at_chunks
from nczarr.netcdf.bytes.guarded import GuardedFile
from nczarr.netcdf.hdf5 import chunks
from nczarr.netcdf.hdf5.library import available_filter, call, hdf5, hdf5_errors, reclaim
from nczarr.netcdf.hdf5.tree import FOLLOW
from nczarr.netcdf.hdf5.types import MemoryLayout, memory_type
from nczarr.system.environment import is_on
from nczarr.system.finalizing import close_dropped, close_with
from nczarr.system.forks import Origin

if TYPE_CHECKING:
    from h5py import h5d, h5f, h5p, h5s, h5t

_OPEN_DATASETS = 8
_CACHE_LIMIT = 32 << 20
#: HDF5's default size of the chunk cache of a dataset, in bytes.
OWN_CACHE = 1 << 20


#: The open files and their numbers of users, by HDF5's file number.
_opened: dict[int, tuple[h5f.FileID, int]] = {}


def _shared(file: h5f.FileID) -> tuple[h5f.FileID, int]:
    """Return the first handle of a file in place of a new one, and HDF5's number of the file. Needs the lock.

    A second handle shares HDF5's state of the datasets. In that state, the fill value of strings belongs to
    the first handle that read it: after that handle closes, HDF5 reads freed memory or another file's. All
    users, editors included, therefore share one handle.
    """
    number = ctypes.c_ulong()
    call("H5Fget_fileno", file, ctypes.byref(number))
    first, users = _opened.get(number.value, (file, 0))
    _opened[number.value] = first, users + 1
    if first is not file:
        file.close()
    return first, number.value


class _FileOpening:
    """One opening of a file."""

    is_unstored = False

    def __init__(self, name: str, number: int, disk: GuardedFile | None) -> None:
        self.name, self._number, self._disk = name, number, disk
        self._is_open = True

    def close_dropped(self) -> None:
        """Release this use of the file, once. The last release closes the file and its open objects."""
        api = hdf5()
        with api.phil:
            if not self._is_open:
                return
            self._is_open = False
            try:
                self._release(api)
            finally:
                if self._disk is not None:
                    self._disk.close()

    def _release(self, api: Any) -> None:
        file, users = _opened.pop(self._number)
        if users > 1:
            _opened[self._number] = file, users - 1
            return
        # An object that an exception still references would keep the file open.
        for found in api.h5f.get_obj_ids(file, ~api.h5f.OBJ_FILE & api.h5f.OBJ_ALL | api.h5f.OBJ_LOCAL):
            while found.valid:
                api.h5i.dec_ref(found)
        file.close()


@dataclass(eq=False)
class OpenDataset:
    """An open dataset, its constant creation properties and its decoded chunks. The caller holds the lock."""

    id: h5d.DatasetID
    #: The recently used chunks that HDF5 cannot decode.
    decoded: OrderedDict[tuple[int, ...], np.ndarray] = field(default_factory=OrderedDict)

    @cached_property
    def plist(self) -> h5p.PropDCID:
        """The creation property list."""
        return self.id.get_create_plist()

    @cached_property
    def type_id(self) -> h5t.TypeID:
        """The type of values in memory: the type in the file, unless HDF5 converts them."""
        return memory_type(self.id.get_type())

    @cached_property
    def filters(self) -> tuple[Filter, ...]:
        """The filters, in the order of encoding."""
        return tuple(Filter(*self.plist.get_filter(i)[::2]) for i in range(self.plist.get_nfilters()))

    @cached_property
    def chunk(self) -> tuple[int, ...] | None:
        """The chunk shape; None for another layout."""
        chunked = self.plist.get_layout() == hdf5().h5d.CHUNKED
        return tuple(self.plist.get_chunk()) if chunked else None

    @cached_property
    def is_ours(self) -> bool:
        """True if :mod:`nczarr.netcdf.hdf5.chunks` encodes and decodes the chunks, not HDF5."""
        return self.chunk is not None and chunks.is_ours(self.filters)

    @cached_property
    def places(self) -> chunks.ChunkPlaces:
        """The locations of the chunks in a file that does not change."""
        return chunks.ChunkPlaces(self.id)

    def lacks_chunks(self) -> bool:
        """Return True if any chunk was never written."""
        if self.chunk is None:
            return False
        sizes = zip(self.id.shape, self.chunk, strict=True)
        return bool(self.id.get_num_chunks() < math.prod(-(-n // c) for n, c in sizes))

    def read(self, axes: tuple[range, ...], dtype: np.dtype) -> np.ndarray:
        """Read values without pointers, in the file's own form."""
        if not self.is_ours:
            return self.read_by_hdf5(axes, dtype)
        assert self.chunk is not None
        raw = np.empty([len(axis) for axis in axes], dtype)
        for origin, place, inside in cut_at_chunks(axes, self.chunk):
            chunk = self.decoded.get(origin)
            if chunk is None:
                chunk = self.decoded[origin] = self._decoded_chunk(origin, dtype)
            self.decoded.move_to_end(origin)
            # The last chunk stays, however large: rows of one chunk would decode it again for
            # each.
            while len(self.decoded) > 1 and len(self.decoded) * chunk.nbytes > _CACHE_LIMIT:
                self.decoded.popitem(last=False)
            raw[place] = chunk[_part_of_chunk(origin, inside)]
        return raw

    def read_by_hdf5(self, axes: tuple[range, ...], dtype: np.dtype) -> np.ndarray:
        """Read values through HDF5. Elements that are neither written nor filled are zero."""
        filled = self.plist.fill_value_defined() == hdf5().h5d.FILL_VALUE_USER_DEFINED
        # Without a fill value, HDF5 leaves the memory as it is: each read gave other values.
        raw = (np.empty if filled else np.zeros)([len(axis) for axis in axes], dtype)
        # No object may be freed inside this call: h5py has a callback for freed objects, and an
        # interrupt that is raised there would be lost.
        memory, chosen = hyperslab(self.id, axes)
        self.id.read(memory, chosen, raw, self.type_id)
        return raw

    def write(self, axes: tuple[range, ...], raw: np.ndarray) -> None:
        """Write values in the file's own form."""
        if not self.is_ours:
            call("H5Dwrite", self.id, self.type_id, *hyperslab(self.id, axes), 0, raw)
            return
        assert self.chunk is not None
        self.decoded.clear()
        for origin, place, inside in cut_at_chunks(axes, self.chunk):
            whole = all(
                a.step == 1 and a.start == o and a.stop == min(o + c, n)
                for a, o, c, n in zip(inside, origin, self.chunk, self.id.shape, strict=True)
            )
            # The part behind the dataset's edge must equal unwritten values when the dataset grows.
            chunk = self._unwritten_chunk(raw.dtype) if whole else self._decoded_chunk(origin, raw.dtype)
            chunk[_part_of_chunk(origin, inside)] = raw[place]
            encoded = chunks.encode_chunk(chunk, self.filters, raw.dtype.itemsize)
            self.id.write_direct_chunk(origin, encoded, 0)

    def _decoded_chunk(self, origin: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Return a chunk with filters that HDF5 lacks, in the file's type, or its fill value if unwritten."""
        assert self.chunk is not None
        if self.id.get_chunk_info_by_coord(origin).byte_offset is None:
            found = self._unwritten_chunk(dtype)
            sizes = zip(origin, self.chunk, self.id.shape, strict=True)
            inside = tuple(range(o, min(o + c, n)) for o, c, n in sizes)
            # An unwritten chunk has no filters.
            found[_part_of_chunk(origin, inside)] = self.read_by_hdf5(inside, dtype)
            return found
        mask, data = self.id.read_direct_chunk(origin)
        size = math.prod(self.chunk) * dtype.itemsize
        decoded = chunks.decode_chunk(data, self.filters, mask, dtype.itemsize, size)
        return decoded.view(dtype).reshape(self.chunk).copy()

    def _unwritten_chunk(self, dtype: np.dtype) -> np.ndarray:
        """Return an unwritten chunk, in the file's own type."""
        assert self.chunk is not None
        fill = np.zeros((), dtype)
        if self.plist.fill_value_defined() != hdf5().h5d.FILL_VALUE_UNDEFINED:
            call("H5Pget_fill_value", self.plist, self.type_id, fill)
        return np.full(self.chunk, fill)


@dataclass
class HDF5File:
    """An HDF5 file, open for reading, and its recently used datasets. The caller that makes one holds the lock.

    Few datasets stay open, because HDF5 has a cache of decoded chunks for each.
    """

    path: str
    #: None once the file is closed.
    id: h5f.FileID
    #: The file object behind the handle, unless HDF5 opened the path. It is closed with the file.
    disk: GuardedFile | None = None
    #: Number of datasets that stay open.
    kept: int = _OPEN_DATASETS
    _datasets: OrderedDict[bytes, OpenDataset] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        self.id, number = _shared(self.id)
        self._close = _FileOpening(self.path, number, self.disk)
        self._origin = Origin()

    @classmethod
    def open(cls, path: str, file: BinaryIO | None = None, ranges: Ranges | None = None) -> HDF5File:
        """Open a file by path or through a file object. :class:`NetCDFFileError` if HDF5 refuses it.

        A file that an editor of this process has open is read through that editor. A forked child ignores its
        parent's editors.

        `ranges` are the bytes of the file, for reads without the file object.
        """
        close_dropped()
        api = hdf5()
        with hdf5().phil, hdf5_errors(path, doing="HDF5 cannot open the file"):
            edited = _edited.get(_identity(path)) if file is None else None
            if edited is not None and edited.id is not None and edited._origin.is_here:
                assert edited.disk is not None
                opened = cls(path, edited.id, edited.disk.share())  # the last user closes the handle
            else:
                # Plain access, as h5py.File has it: HDF5 refuses a file that is open with other settings.
                access = api.h5p.create(api.h5p.FILE_ACCESS)
                if file is not None:
                    access.set_fileobj_driver(api.h5fd.fileobj_driver, file)
                opened = cls(path, api.h5f.open(bytes_of(path), api.h5f.ACC_RDONLY, access))
            close_with(opened, opened._close)
            # A user block shifts all offsets of the file.
            if ranges is not None and not opened.id.get_create_plist().get_userblock():
                opened.ranges = ranges
            return opened

    def read_here(self, path: str) -> None:
        """Let readers of a path, in this process, read this edited file, with its unsaved changes."""
        _edited[_identity(path)] = self

    @cached_property
    def ranges(self) -> Ranges | None:
        """The file's byte ranges, or None if they are not readable without HDF5. The caller holds the lock."""
        return chunks.ranges_of(self.id)

    def check(self) -> None:
        """Raise the error of a write that HDF5 made, if any."""
        if self.disk is not None:
            self.disk.check(self.path)

    def dataset(self, link: bytes) -> h5d.DatasetID:
        """Return the open dataset of a path as h5py's object. The caller holds the lock."""
        return self.opened(link).id

    def opened(self, link: bytes) -> OpenDataset:
        """Return the open dataset of a path. The caller holds the lock."""
        if self.id is None:
            raise NetCDFFileError("the file is closed", path=self.path)
        found = self._datasets.get(link) or self._open_dataset(link)
        self.keep(link, found)
        return found

    def keep(self, link: bytes, dataset: OpenDataset) -> None:
        """Add a dataset to the recently used ones, which stay open. The caller holds the lock."""
        self._datasets[link] = dataset
        self._datasets.move_to_end(link)
        while len(self._datasets) > self.kept:
            self._datasets.popitem(last=False)

    def _open_dataset(self, link: bytes) -> OpenDataset:
        api = hdf5()
        found = OpenDataset(api.h5d.open(self.id, link))
        # A hostile file would show any file that its reader may read.
        if not is_on("NCZARR_EXTERNAL_FILES"):
            _refuse_external(found.plist)
        if found.chunk is not None and not found.is_ours:
            # HDF5's own error does not name the filter.
            for filter_ in found.filters:
                if not available_filter(filter_.id):
                    raise NetCDFFileError(
                        f"the installed HDF5 has no filter {chunks.describe_filter(filter_.id)}",
                        hint="install hdf5plugin, which provides many filters",
                    )
            chunk = math.prod(found.chunk) * found.type_id.get_size()
            # HDF5's default cache may be smaller than one chunk. Each read would then decode the chunk again.
            if chunk > OWN_CACHE:
                access = api.h5p.create(api.h5p.DATASET_ACCESS)
                access.set_chunk_cache(521, max(chunk, min(4 * chunk, _CACHE_LIMIT)), 1.0)
                found.id = api.h5d.open(self.id, link, access)
        return found

    def forget(self) -> None:
        """Close the datasets. The caller holds the lock."""
        self._datasets.clear()

    def close(self) -> None:
        """Close the file. Its sources are no longer readable."""
        with hdf5().phil:
            ranges = self.__dict__.pop("ranges", None)  # concurrent readers keep their reference
            if ranges is not None:
                ranges.close()
            self._datasets.clear()
            if self.id is not None:
                self.id = None
                self._close.close_dropped()


#: The files that editors of this process have open, by device and number.
_edited: weakref.WeakValueDictionary[tuple[int, int], HDF5File] = weakref.WeakValueDictionary()


def _identity(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


@dataclass(eq=False)
class HDF5Source:
    """An :class:`~nczarr.model.ArraySource` on a dataset of an HDF5 file.

    `stored` is the dataset's extent. Along an unlimited dimension, it may be less than the length of the dimension, one
    of `extents`; the remaining elements have the value `fill`.
    """

    file: HDF5File
    fqn: str
    path: bytes
    type: Type
    layout: MemoryLayout
    extents: Extents
    stored: tuple[int, ...]
    fill: object

    @property
    def dtype(self) -> np.dtype:
        return self.type.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the variable's dimensions."""
        return shape_of(self.extents)

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        """Read a region; see :meth:`nczarr.model.ArraySource.read`."""
        requested = [range(s.start, s.stop, s.step or 1) for s in region]
        shape = tuple(len(axis) for axis in requested)
        inside = tuple(
            range(axis.start, min(axis.stop, size), axis.step)
            for axis, size in zip(requested, self.stored, strict=True)
        )
        part = tuple(len(axis) for axis in inside)
        if part == shape:
            return handed(self._stored(inside, part), out)
        if out is None:
            out = np.empty(shape, self.dtype)
        fill_with(out, self.fill)
        if 0 not in part:
            out[tuple(slice(n) for n in part)] = self._stored(inside, part)
        return out

    def _stored(self, axes: tuple[range, ...], shape: tuple[int, ...]) -> np.ndarray:
        if 0 in shape:
            return np.empty(shape, self.dtype)
        raw = self._beside_hdf5(axes, shape)
        if raw is None:
            with hdf5().phil, hdf5_errors(self.file.path, self.fqn, "the values cannot be read"):
                opened = self.file.opened(self.path)
                # Chunks of strings have references into heaps that only HDF5 reads.
                if opened.is_ours and not self.layout.is_raw:
                    raise NetCDFFileError("only HDF5 can read these values, and it lacks their filters")
                if self.layout.has_pointers:
                    return self._with_pointers(opened, axes, shape)
                raw = opened.read(axes, self.layout.dtype)
        return raw if raw.dtype == self.dtype else self.layout.decode(raw, self.type)

    def _beside_hdf5(self, axes: tuple[range, ...], shape: tuple[int, ...]) -> np.ndarray | None:
        """Read whole chunks without HDF5's lock. Return None if that is impossible or not faster."""
        requested = math.prod(shape) * self.layout.dtype.itemsize
        least = chunks.SMALLEST_WHOLE if shape == self.stored else chunks.SMALLEST
        # Below this size, HDF5's own way is faster.
        if requested < least or not self.layout.is_raw:
            return None
        with hdf5().phil, hdf5_errors(self.file.path, self.fqn, "the values cannot be read"):
            opened = self.file.opened(self.path)
            chunk, filters = opened.chunk, opened.filters
            file = self.file.ranges if chunk is not None and chunks.is_known(filters) else None
            if chunk is None or file is None:
                return None
            touched = math.prod(
                c * (axis[-1] // c - axis[0] // c + 1) for axis, c in zip(axes, chunk, strict=True)
            )
            # Small parts of many chunks are faster through HDF5, which keeps decoded chunks.
            if touched * self.layout.dtype.itemsize > 2 * requested:
                return None
            out, stored = np.empty(shape, self.layout.dtype), []
            for origin, place, inside in cut_at_chunks(axes, chunk):
                found = opened.places[origin]
                if found is None:  # HDF5 knows the fill value
                    out[place] = opened.read_by_hdf5(inside, out.dtype)
                else:
                    stored.append(chunks.StoredChunk(*found, place, _part_of_chunk(origin, inside)))
        with error_context(self.file.path, fqn=self.fqn):
            chunks.read_chunks(file, stored, filters, chunk, out)
        return out

    def stored_size(self) -> tuple[int, int | None, int | None]:
        """Return the stored bytes, and of chunks how many are stored, of how many."""
        with hdf5().phil, hdf5_errors(self.file.path, self.fqn):
            opened = self.file.opened(self.path)
            size = int(opened.id.get_storage_size())
            if opened.chunk is None:
                return size, None, None
            count = math.prod(-(-n // c) for n, c in zip(self.stored, opened.chunk, strict=True))
            return size, int(opened.id.get_num_chunks()), count

    def chunk_places(self) -> FilePlaces | None:
        """Return the locations of the chunks, or None if the values need more than their bytes."""
        # References have no fill value behind the end of the dataset.
        if not self.layout.is_raw or self.shape != self.stored:
            return None
        with hdf5().phil, hdf5_errors(self.file.path, self.fqn, "the chunks cannot be found"):
            opened, file = self.file.opened(self.path), self.file.ranges
            if file is None:
                return None
            shape, filters, places, skipped = opened.chunk, opened.filters, {}, False
            if shape is not None:
                for index in product(*(range(-(-n // c)) for n, c in zip(self.stored, shape, strict=True))):
                    place = opened.places[tuple(i * c for i, c in zip(index, shape, strict=True))]
                    if place is not None:
                        places[index] = place[:2]
                        skipped |= place[2] != 0
            else:
                contiguous = opened.plist.get_layout() == hdf5().h5d.CONTIGUOUS
                offset = opened.id.get_offset() if contiguous else None
                if offset is None:
                    return None
                shape, places = self.shape, {(0,) * len(self.shape): (offset, opened.id.get_storage_size())}
            is_big = (
                self.layout.dtype == self.layout.dtype.newbyteorder(">") and self.layout.dtype.itemsize > 1
            )
            return FilePlaces(file, self.file.path, shape, filters, is_big, places, skipped)

    def _with_pointers(
        self, opened: OpenDataset, axes: tuple[range, ...], shape: tuple[int, ...]
    ) -> np.ndarray:
        """Read strings or sequences. From an unwritten chunk, HDF5 cannot read them."""
        if opened.lacks_chunks():
            assert opened.chunk is not None
            out = np.empty(shape, self.dtype)
            fill_with(out, self.fill)
            for origin, place, inside in cut_at_chunks(axes, opened.chunk):
                if opened.id.get_chunk_info_by_coord(origin).byte_offset is not None:
                    out[place] = self._read_pointers(opened, inside)
            return out
        return self._read_pointers(opened, axes)

    def _read_pointers(self, opened: OpenDataset, axes: tuple[range, ...]) -> np.ndarray:
        raw = np.empty([len(axis) for axis in axes], self.layout.dtype)
        call("H5Dread", opened.id, opened.type_id, *hyperslab(opened.id, axes), 0, raw)
        try:
            return self.layout.decode(raw, self.type)
        finally:
            reclaim(opened.type_id, raw)


def _refuse_external(plist: h5p.PropDCID) -> None:
    """Refuse values in other files: external storage and virtual datasets."""
    h5d = hdf5().h5d
    names: list[str] = []
    # A virtual dataset names files on its own, which a hostile file uses to read others.
    if plist.get_layout() == h5d.VIRTUAL:
        sources = {plist.get_virtual_filename(i) for i in range(plist.get_virtual_count())}
        # "." is the file itself, so such a virtual dataset leads nowhere else.
        names = sorted(sources - {"."})
    elif plist.get_layout() == h5d.CONTIGUOUS:
        names = [os.fsdecode(plist.get_external(i)[0]) for i in range(plist.get_external_count())]
    if names:
        raise NetCDFFileError(f"the values are in another file, {names[0]!r}", hint=FOLLOW)


def _part_of_chunk(origin: tuple[int, ...], inside: tuple[range, ...]) -> tuple[slice, ...]:
    """Return the index in a chunk of the ranges that a selection has inside it."""
    return tuple([slice(a[0] - o, a[-1] - o + 1, a.step) for a, o in zip(inside, origin, strict=True)])


def fill_with(out: np.ndarray, value: object) -> None:
    """Set every element, including elements that are arrays or records with arrays."""
    # numpy would spread the elements of one sequence over the array.
    if not out.dtype.hasobject:
        out[...] = value
        return
    for index in np.ndindex(out.shape):
        out[index] = value


def hyperslab(dataset: h5d.DatasetID, axes: tuple[range, ...]) -> tuple[h5s.SpaceID, h5s.SpaceID]:
    """Return HDF5's dataspaces for a selection of a dataset: in memory and in the file."""
    h5s = hdf5().h5s
    if not axes:
        return h5s.ALL, h5s.ALL
    shape = tuple(len(axis) for axis in axes)
    chosen = dataset.get_space()
    chosen.select_hyperslab(tuple(axis.start for axis in axes), shape, tuple(axis.step for axis in axes))
    return h5s.create_simple(shape), chosen

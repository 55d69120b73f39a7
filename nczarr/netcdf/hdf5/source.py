"""Read the values of variables of a netCDF-4 file, region by region."""

from __future__ import annotations

import math
import os
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, BinaryIO, Protocol

import numpy as np

from nczarr.errors import NetCDFFileError, error_context
from nczarr.lazy import cached_property
from nczarr.model import Filter, Region, Type
from nczarr.model.sources import handed
from nczarr.netcdf.bytes.file import bytes_of
from nczarr.netcdf.bytes.guarded import GuardedFile
from nczarr.netcdf.bytes.ranges import FilePlaces, Ranges, cut_at_chunks
from nczarr.netcdf.hdf5.chunks import (
    SMALLEST,
    SMALLEST_WHOLE,
    ChunkPlaces,
    StoredChunk,
    StoredChunks,
    decode_chunk,
    describe_filter,
    encode_chunk,
    is_known,
    is_ours,
    ranges_of,
    read_chunks,
)
from nczarr.netcdf.hdf5.library import (
    available_filter,
    file_number,
    get_fill_value,
    hdf5,
    hdf5_errors,
    read_dataset,
    reclaim,
    write_dataset,
)
from nczarr.netcdf.hdf5.memory import MemoryLayout, decode, has_pointers, is_raw
from nczarr.netcdf.hdf5.tree import FOLLOW
from nczarr.netcdf.hdf5.types import memory_type
from nczarr.system.environment import is_on
from nczarr.system.finalizing import close_dropped, close_with
from nczarr.system.forks import Origin

if TYPE_CHECKING:
    from h5py import h5d, h5f, h5p, h5s, h5t

_OPEN_DATASETS = 8
_CACHE_LIMIT = 32 << 20
#: HDF5's default size of the chunk cache of a dataset, in bytes.
OWN_CACHE = 1 << 20


#: The files open for reading and their numbers of users, by HDF5's file number.
_opened: dict[int, tuple[h5f.FileID, int]] = {}


def _shared(file: h5f.FileID) -> tuple[h5f.FileID, int]:
    """Return the first handle of a file in place of a new one, and its number. The caller holds the lock.

    A second handle shares HDF5's state of the datasets. In that state, the fill value of strings belongs to
    the first handle that read it: after that handle closes, HDF5 reads freed memory or another file's. All
    users therefore share one handle.
    """
    number = file_number(file)
    first, users = _opened.get(number, (file, 0))
    _opened[number] = first, users + 1
    if first is not file:
        file.close()
    return first, number


def _close_for_one(number: int) -> None:
    """Release one use of a file. The last release closes the file and its open objects."""
    api = hdf5()
    with api.phil:
        file, users = _opened.pop(number)
        if users > 1:
            _opened[number] = file, users - 1
            return
        for found in api.h5f.get_obj_ids(file, ~api.h5f.OBJ_FILE & api.h5f.OBJ_ALL | api.h5f.OBJ_LOCAL):
            while found.valid:
                api.h5i.dec_ref(found)
        file.close()


class _Opened:
    """One opening of a file."""

    is_unstored = False

    def __init__(self, name: str, number: int) -> None:
        self.name, self._number = name, number
        self._is_open = True

    def close_dropped(self) -> None:
        """Close it, once."""
        with hdf5().phil:
            if self._is_open:
                self._is_open = False
                _close_for_one(self._number)


@dataclass(eq=False)
class OpenDataset:
    """An open dataset and its constant creation properties. The caller holds the lock."""

    id: h5d.DatasetID

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
        return self.chunk is not None and is_ours(self.filters)

    def lacks_chunks(self) -> bool:
        """Return True if any chunk was never written."""
        if self.chunk is None:
            return False
        sizes = zip(self.id.shape, self.chunk, strict=True)
        return bool(self.id.get_num_chunks() < math.prod(-(-n // c) for n, c in sizes))

    def write(self, axes: tuple[range, ...], raw: np.ndarray) -> None:
        """Write values in the file's own form."""
        if not self.is_ours:
            write_dataset(self.id, self.type_id, *hyperslab(self.id, axes), raw)
            return
        assert self.chunk is not None
        for origin, place, inside in cut_at_chunks(axes, self.chunk):
            whole = all(
                a.step == 1 and a.start == o and a.stop == min(o + c, n)
                for a, o, c, n in zip(inside, origin, self.chunk, self.id.shape, strict=True)
            )
            if whole:  # the part behind the dataset's edge must equal unwritten values when the dataset grows
                chunk = self._unwritten_chunk(raw.dtype)
            else:
                chunk = self.decoded_chunk(origin, raw.dtype).copy()
            chunk[_part_of_chunk(origin, inside)] = raw[place]
            self.id.write_direct_chunk(origin, encode_chunk(chunk, self.filters, raw.dtype.itemsize), 0)

    def decoded_chunk(self, origin: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Return a chunk with filters that HDF5 lacks, in the file's type, or its fill value if unwritten."""
        assert self.chunk is not None
        if self.id.get_chunk_info_by_coord(origin).byte_offset is None:
            found = self._unwritten_chunk(dtype)
            inside = tuple(
                range(o, min(o + c, n)) for o, c, n in zip(origin, self.chunk, self.id.shape, strict=True)
            )
            part = _buffer(self.plist, [len(axis) for axis in inside], dtype)
            self.id.read(*hyperslab(self.id, inside), part, self.type_id)  # an unwritten chunk has no filters
            found[tuple(slice(n) for n in part.shape)] = part
            return found
        mask, data = self.id.read_direct_chunk(origin)
        size = math.prod(self.chunk) * dtype.itemsize
        decoded = decode_chunk(data, self.filters, mask, dtype.itemsize, size)
        return decoded.view(dtype).reshape(self.chunk)

    def _unwritten_chunk(self, dtype: np.dtype) -> np.ndarray:
        """Return an unwritten chunk, in the file's own type."""
        assert self.chunk is not None
        fill = np.zeros((), dtype)
        if self.plist.fill_value_defined() != hdf5().h5d.FILL_VALUE_UNDEFINED:
            get_fill_value(self.plist, self.type_id, fill)
        return np.full(self.chunk, fill)


@dataclass
class HDF5File:
    """An HDF5 file, open for reading, and its recently used datasets.

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
    _decoded: OrderedDict[tuple[bytes, tuple[int, ...]], np.ndarray] = field(default_factory=OrderedDict)
    _places: OrderedDict[bytes, ChunkPlaces] = field(default_factory=OrderedDict)
    #: Closes a file that is open for reading, also when the object is garbage-collected.
    _close: _Opened | None = None
    _raw: Ranges | None = None
    _asked: bool = False

    @classmethod
    def open(cls, path: str, file: BinaryIO | None = None, ranges: Ranges | None = None) -> HDF5File:
        """Open a file by path or through a file object. :class:`NetCDFFileError` if HDF5 refuses it.

        `ranges` are the bytes of the file, for reads without the file object.
        """
        close_dropped()
        api = hdf5()
        with hdf5().phil, hdf5_errors(path, doing="HDF5 cannot open the file"):
            # Plain access, as h5py.File has it: HDF5 refuses a file that is open with other settings.
            access = api.h5p.create(api.h5p.FILE_ACCESS)
            if file is not None:
                access.set_fileobj_driver(api.h5fd.fileobj_driver, file)
            found = api.h5f.open(bytes_of(path), api.h5f.ACC_RDONLY, access)
            shared, number = _shared(found)
            opened = cls(path, shared)
            opened._close = _Opened(path, number)
            close_with(opened, opened._close)
            if ranges is not None and not shared.get_create_plist().get_userblock():
                opened._raw, opened._asked = ranges, True
            return opened

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
        found = self._datasets.get(link)
        if found is None:
            found = self._datasets[link] = self._open_dataset(link)
        self._datasets.move_to_end(link)
        while len(self._datasets) > self.kept:
            self._datasets.popitem(last=False)
        return found

    def keep(self, link: bytes, dataset: OpenDataset) -> None:
        """Add a new dataset to the open ones. The caller holds the lock."""
        self._datasets[link] = dataset
        if len(self._datasets) > self.kept:
            self._datasets.popitem(last=False)

    def _open_dataset(self, link: bytes) -> OpenDataset:
        api = hdf5()
        found = OpenDataset(api.h5d.open(self.id, link))
        if not is_on("NCZARR_EXTERNAL_FILES"):
            _refuse_external(found.plist)
        if found.chunk is not None and not found.is_ours:
            for filter_ in found.filters:
                if not available_filter(filter_.id):
                    raise NetCDFFileError(
                        f"the installed HDF5 has no filter {describe_filter(filter_.id)}",
                        hint="install hdf5plugin, which provides many filters",
                    )
            chunk = math.prod(found.chunk) * found.type_id.get_size()
            # HDF5's default cache may be smaller than one chunk. Each read would then decode the chunk again.
            if chunk > OWN_CACHE:
                access = api.h5p.create(api.h5p.DATASET_ACCESS)
                access.set_chunk_cache(521, max(chunk, min(4 * chunk, _CACHE_LIMIT)), 1.0)
                found.id = api.h5d.open(self.id, link, access)
        return found

    def chunk(self, link: bytes, origin: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Return a chunk that HDF5 cannot decode, as an array. The caller holds the lock."""
        found = self._decoded.get((link, origin))
        if found is None:
            found = self._decoded[link, origin] = self.opened(link).decoded_chunk(origin, dtype)
        self._decoded.move_to_end((link, origin))
        while len(self._decoded) > 1 and sum(a.nbytes for a in self._decoded.values()) > _CACHE_LIMIT:
            self._decoded.popitem(last=False)
        return found

    def raw_file(self) -> Ranges | None:
        """Return the file's byte ranges, or None if they are not readable without HDF5.

        The caller holds the lock.
        """
        if not self._asked:
            self._asked = True
            self._raw = ranges_of(self.id, hdf5().h5fd.SEC2)
        return self._raw

    def places(self, link: bytes, dataset: h5d.DatasetID) -> ChunkPlaces:
        """Return the locations of a dataset's chunks. The caller holds the lock."""
        found = self._places.pop(link, None)
        if found is None:
            found = ChunkPlaces(dataset)
        self._places[link] = found
        while len(self._places) > _OPEN_DATASETS:
            self._places.popitem(last=False)
        return found

    def forget(self, link: bytes | None = None) -> None:
        """Drop the decoded chunks of a dataset; without `link`, drop all and close the datasets.

        Needs the lock.
        """
        if link is None:
            self._datasets.clear()
            self._decoded.clear()
        elif self._decoded:
            for key in [key for key in self._decoded if key[0] == link]:
                del self._decoded[key]

    def close(self) -> None:
        """Close the file. Its sources are no longer readable."""
        with hdf5().phil:
            self._places.clear()
            if self._raw is not None:
                self._raw.close()
            self._raw = None  # concurrent readers keep their reference
            self._datasets.clear()
            self._decoded.clear()
            if self.id is not None:
                (self._close.close_dropped if self._close is not None else self.id.close)()
                self.id = None
                if self.disk is not None:
                    self.disk.close()


class Editor(Protocol):
    """An editor of a file."""

    origin: Origin

    def reopened(self) -> HDF5File:
        """Return a reader of the same file, with unsaved changes."""


#: The editors of this process, by device and number of the file. An opened file is read through its editor.
_editors: weakref.WeakValueDictionary[tuple[int, int], Editor] = weakref.WeakValueDictionary()


def remember_editor(path: str, editor: Editor) -> None:
    """Register the editor of a file."""
    found = os.stat(path)
    _editors[found.st_dev, found.st_ino] = editor


def forget_editor(editor: Editor) -> None:
    """Remove an editor from the registry."""
    for key in [key for key, known in list(_editors.items()) if known is editor]:
        _editors.pop(key, None)


def editor_of(path: str) -> Editor | None:
    """Return the editor of a file in this process, or None. A forked child ignores its parent's editors."""
    if not _editors:
        return None
    try:
        found = os.stat(path)
    except OSError:
        return None
    editor = _editors.get((found.st_dev, found.st_ino))
    return editor if editor is not None and editor.origin.is_here else None


@dataclass(eq=False)
class HDF5Source:
    """An :class:`~nczarr.model.ArraySource` on a dataset of an HDF5 file.

    `stored` is the dataset's extent. Along an unlimited dimension, it may be less than `shape`; the remaining
    elements have the value `fill`.
    """

    file: HDF5File
    fqn: str
    path: bytes
    type: Type
    layout: MemoryLayout
    shape: tuple[int, ...]
    stored: tuple[int, ...]
    fill: object

    @property
    def dtype(self) -> np.dtype:
        return self.type.dtype

    @property
    def _is_big(self) -> bool:
        dtype = self.layout.dtype
        return dtype == dtype.newbyteorder(">") and dtype.itemsize > 1

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
        if raw is not None:
            return raw if raw.dtype == self.dtype else decode(self.layout, raw, self.type)
        with hdf5().phil, hdf5_errors(self.file.path, self.fqn, "the values cannot be read"):
            opened = self.file.opened(self.path)
            if opened.is_ours:
                raw = self._decoded_here(opened, axes, shape)
            elif not has_pointers(self.layout):
                raw = _buffer(opened.plist, shape, self.layout.dtype)
                # No object may be freed inside this call: h5py has a callback for freed objects, and an
                # interrupt that is raised there would be lost.
                memory, chosen = hyperslab(opened.id, axes)
                opened.id.read(memory, chosen, raw, opened.type_id)
            elif opened.lacks_chunks():
                return self._by_chunk(opened, axes, shape)
            else:
                return self._with_pointers(opened, axes, shape)
        return raw if raw.dtype == self.dtype else decode(self.layout, raw, self.type)

    def _beside_hdf5(self, axes: tuple[range, ...], shape: tuple[int, ...]) -> np.ndarray | None:
        """Read whole chunks without HDF5's lock. Return None if that is impossible or not faster."""
        requested = math.prod(shape) * self.layout.dtype.itemsize
        if requested < (SMALLEST_WHOLE if shape == self.stored else SMALLEST) or not is_raw(self.layout):
            return None
        with hdf5().phil, hdf5_errors(self.file.path, self.fqn, "the values cannot be read"):
            opened = self.file.opened(self.path)
            dataset, chunk, filters = opened.id, opened.chunk, opened.filters
            if chunk is None or not is_known(filters):
                return None
            file = self.file.raw_file()
            touched = math.prod(
                c * (axis[-1] // c - axis[0] // c + 1) for axis, c in zip(axes, chunk, strict=True)
            )
            if file is None or touched * self.layout.dtype.itemsize > 2 * requested:
                return None
            places = self.file.places(self.path, dataset)
            stored, missing = [], []
            for origin, place, inside in cut_at_chunks(axes, chunk):
                found = places[origin]
                if found is None:
                    missing.append((place, inside))
                    continue
                stored.append(StoredChunk(*found, place, _part_of_chunk(origin, inside)))
            out = np.empty(shape, self.layout.dtype)
            for place, inside in missing:  # HDF5 knows the fill value
                part = _buffer(opened.plist, [len(axis) for axis in inside], out.dtype)
                memory, chosen = hyperslab(dataset, inside)
                dataset.read(memory, chosen, part, opened.type_id)
                out[place] = part
        with error_context(self.file.path, fqn=self.fqn):
            read_chunks(file, stored, filters, chunk, out)
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
        if not is_raw(self.layout) or self.layout.dtype.kind not in "iuf" or self.shape != self.stored:
            return None
        with hdf5().phil, hdf5_errors(self.file.path, self.fqn, "the chunks cannot be found"):
            opened = self.file.opened(self.path)
            if self.file.raw_file() is None:
                return None
            if opened.chunk is not None:
                shape, filters, places = opened.chunk, opened.filters, self._unmasked_places(opened)
                if places is None:
                    raise NetCDFFileError(
                        "a chunk's filter mask is not zero; a reference cannot express that"
                    )
            else:
                contiguous = opened.plist.get_layout() == hdf5().h5d.CONTIGUOUS
                offset = opened.id.get_offset() if contiguous else None
                if offset is None:
                    return None
                places = {(0,) * len(self.shape): (offset, opened.id.get_storage_size())}
                shape, filters = self.shape, ()
            return FilePlaces(shape, filters, self._is_big, places, self.read)

    def stored_chunks(self) -> StoredChunks | None:
        """The chunks as they are in the file; None where some was never written, or left out a filter."""
        with hdf5().phil, hdf5_errors(self.file.path, self.fqn, "the chunks cannot be found"):
            opened = self.file.opened(self.path)
            file = self.file.raw_file()
            if opened.chunk is None or file is None or not is_raw(self.layout) or opened.lacks_chunks():
                return None
            found = self._unmasked_places(opened)
        if found is None:
            return None
        return StoredChunks(file, self.file.path, opened.chunk, self.stored, self._is_big, found)

    def _unmasked_places(self, opened: OpenDataset) -> dict[tuple[int, ...], tuple[int, int]] | None:
        """Return offset and size of the written chunks by their position in the grid.

        The result is None if a chunk left out a filter.
        """
        assert opened.chunk is not None
        places = self.file.places(self.path, opened.id)
        found = {}
        for index in product(*(range(-(-n // c)) for n, c in zip(self.stored, opened.chunk, strict=True))):
            place = places[tuple(i * c for i, c in zip(index, opened.chunk, strict=True))]
            if place is not None:
                if place[2]:
                    return None
                found[index] = place[:2]
        return found

    def _decoded_here(
        self, opened: OpenDataset, axes: tuple[range, ...], shape: tuple[int, ...]
    ) -> np.ndarray:
        """Read values chunk by chunk through filters that HDF5 itself lacks."""
        if not is_raw(self.layout):
            raise NetCDFFileError("only HDF5 can read these values, and it lacks their filters")
        raw = np.empty(shape, self.layout.dtype)
        assert opened.chunk is not None
        for origin, place, inside in cut_at_chunks(axes, opened.chunk):
            raw[place] = self.file.chunk(self.path, origin, raw.dtype)[_part_of_chunk(origin, inside)]
        return raw

    def _with_pointers(
        self, opened: OpenDataset, axes: tuple[range, ...], shape: tuple[int, ...]
    ) -> np.ndarray:
        raw = np.empty(shape, self.layout.dtype)
        memory, chosen = hyperslab(opened.id, axes)
        read_dataset(opened.id, opened.type_id, memory, chosen, raw)
        try:
            return decode(self.layout, raw, self.type)
        finally:
            reclaim(opened.type_id, raw)

    def _by_chunk(self, opened: OpenDataset, axes: tuple[range, ...], shape: tuple[int, ...]) -> np.ndarray:
        """Read values chunk by chunk, since HDF5 cannot read strings or sequences from an unwritten chunk."""
        out = np.empty(shape, self.dtype)
        fill_with(out, self.fill)
        assert opened.chunk is not None
        for origin, place, inside in cut_at_chunks(axes, opened.chunk):
            if opened.id.get_chunk_info_by_coord(origin).byte_offset is not None:
                count = tuple(len(axis) for axis in inside)
                out[place] = self._with_pointers(opened, inside, count)
        return out


def _buffer(plist: h5p.PropDCID, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """Return a read buffer. It has zeros if HDF5 leaves elements that are neither written nor filled."""
    filled = plist.fill_value_defined() == hdf5().h5d.FILL_VALUE_USER_DEFINED
    return np.empty(shape, dtype) if filled else np.zeros(shape, dtype)


def _refuse_external(plist: h5p.PropDCID) -> None:
    """Refuse values in other files: external storage and virtual datasets."""
    h5d = hdf5().h5d
    names: list[str] = []
    if plist.get_layout() == h5d.VIRTUAL:
        sources = {plist.get_virtual_filename(i) for i in range(plist.get_virtual_count())}
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

"""Add inner chunks to the file of a shard in place, and read the index of a shard that grows.

The file has the index, then the inner chunks in the order of writing, then a copy of the index. New inner chunks and a
copy of the new index follow the bytes in use. When the disk has them, the new index replaces the one at the start. So
the bytes to which an index refers never change, and at each moment the index at the start or the copy is whole.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

import numpy as np

from nczarr.errors import CodecError
from nczarr.system.durability import WriteOrder, sync_descriptor
from nczarr.zarr.chunks.read_files import read_exactly, read_index
from nczarr.zarr.codecs.base import Buffer, as_bytes_array
from nczarr.zarr.codecs.sharding import MISSING, ShardingCodec

#: Bytes of replaced inner chunks that are never worth writing the shard as a whole.
_LITTLE_WASTE = 256 << 10
#: Errors of files that are written as a whole instead: missing ones, symbolic links, files without write permission.
_NOT_IN_PLACE = frozenset({
    errno.EACCES, errno.EPERM, errno.ELOOP, errno.EMLINK, errno.EROFS, errno.ETXTBSY, errno.ENOENT, errno.EISDIR,
    errno.ENXIO,
})  # fmt: skip
_OPEN = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class GrowingShard:
    """The file of a shard that gets more inner chunks in place. The caller keeps other writers away.

    Parameters
    ----------
    codec : ShardingCodec
    path : str
        The path of the file.
    descriptor : int
        The file, open for reading and writing; the caller closes it.
    order : WriteOrder or None
        None: the system chooses the order of writing to the disk.

    Raises
    ------
    CodecError
        If the index is damaged.
    """

    def __init__(self, codec: ShardingCodec, path: str, descriptor: int, order: WriteOrder | None) -> None:
        self._codec, self._path, self._file, self._order = codec, path, descriptor, order
        self.index = read_index(codec, descriptor)

    @property
    def _waits(self) -> bool:
        return self._order is not None and not self._order.is_new(self._path)

    def inner(self, number: int) -> np.ndarray | None:
        """Return the stored bytes of an inner chunk; None if it is missing."""
        if not self.index.present[number]:
            return None
        data = np.empty(int(self.index.lengths[number]), np.uint8)
        read_exactly(self._file, data, int(self.index.offsets[number]))
        return data

    def add(self, pieces: Mapping[int, Buffer]) -> bool:
        """Add or replace encoded inner chunks by number. First restore an index that is damaged at the start.

        Returns
        -------
        bool
            False, without a change of any value, if the shard should be written as a whole: most of its bytes would
            belong to replaced inner chunks, or another program has replaced the file.

        Raises
        ------
        OSError
            If a write fails. The earlier inner chunks stay.
        """
        end = self._end()
        if not pieces:
            return True
        parts = [as_bytes_array(piece) for piece in pieces.values()]
        lengths = np.array([part.nbytes for part in parts], np.uint64)
        entries = self.index.entries()
        entries[list(pieces), 0] = np.uint64(end) + np.cumsum(lengths, dtype=np.uint64) - lengths
        entries[list(pieces), 1] = lengths
        index = self._codec.encode_index(entries)
        in_use = int(entries[entries[:, 0] != MISSING, 1].sum())
        waste = end + int(lengths.sum()) - self._codec.index_size - in_use
        # Replaced inner chunks stay in the file: without a bound, a loop over one step fills the disk.
        if waste > max(in_use, _LITTLE_WASTE):
            return False
        try:
            write_at(self._file, np.concatenate([*parts, index]), end)
        except OSError:
            with suppress(OSError):  # a full disk: the index at the start is whole, and needs no copy
                os.ftruncate(self._file, end)
            raise
        if self._order is not None and self._waits:
            put = partial(_put_later, os.dup(self._file), self._path, index, self._order)
            if _has_name(self._file, self._path) and self._order.defer(self._path, self._path, put):
                return True
            put(False)
        self._sync()
        _put_index(self._file, index)
        self._sync()
        return _has_name(self._file, self._path)

    def _sync(self) -> None:
        if self._waits:
            sync_descriptor(self._file, only_data=True)

    def _end(self) -> int:
        """Return the end of the bytes in use. A damaged index at the start gets the content of the copy."""
        size, length = os.fstat(self._file).st_size, self._codec.index_size
        first, last = np.empty(length, np.uint8), np.empty(length, np.uint8)
        read_exactly(self._file, first, 0)
        if size >= 2 * length:
            read_exactly(self._file, last, size - length)
            if (first == last).all():
                return size - length
        try:
            self._codec.parse_index(first, size)
        except CodecError:
            write_at(self._file, last, 0)
            self._sync()
        return size


def _put_index(descriptor: int, index: np.ndarray) -> None:
    write_at(descriptor, index, 0)
    # A reader recognises a changed file by its time. The time that the system sets may be equal for two changes in
    # quick succession.
    now = time.time_ns()
    with suppress(OSError):
        os.utime(descriptor, ns=(now, now))


def _put_later(descriptor: int, path: str, index: np.ndarray, order: WriteOrder, wanted: bool) -> None:
    try:
        if wanted:
            _put_index(descriptor, index)
            order.note_changed(path)
            # The new index would go into a file that no reader opens any more.
            if not _has_name(descriptor, path):
                raise OSError(errno.ESTALE, "another program has replaced the shard")
    finally:
        os.close(descriptor)


def _has_name(descriptor: int, path: str) -> bool:
    """True if an open file still has its path."""
    try:
        status = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    own = os.fstat(descriptor)
    return (status.st_dev, status.st_ino) == (own.st_dev, own.st_ino)


def open_in_place(path: str) -> int | None:
    """Open a file for reading and writing; None if there is none, or it must be replaced as a whole.

    A file with several hard links may belong to a snapshot, so it is replaced.
    """
    try:
        descriptor = os.open(path, _OPEN)
    except OSError as error:
        if error.errno in _NOT_IN_PLACE:
            return None
        raise
    status = os.fstat(descriptor)
    # A copy by hard links, as rsync makes, would change with it.
    if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
        return descriptor
    os.close(descriptor)
    return None


def write_at(descriptor: int, data: np.ndarray, offset: int) -> None:
    """Write contiguous bytes at an offset of a file."""
    done = 0
    while done < data.nbytes:
        done += os.pwrite(descriptor, data[done:].data if done else data.data, offset + done)

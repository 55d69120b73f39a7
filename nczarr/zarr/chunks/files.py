"""Read chunks from local files without extra copies, and without locks during system calls.

The operating system copies bytes directly into the result: whole chunks, or only the necessary bytes of an
uncompressed chunk. Files are opened relative to the array's directory, which saves the resolution of the path.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import mul

import numpy as np

from nczarr.errors import CodecError, StoreError
from nczarr.stores.local import READ, refuse_dangling, refuse_special, system_error
from nczarr.zarr.codecs.base import Buffer, scratch
from nczarr.zarr.codecs.chain import Chain

#: The size of a buffered read, which fits into the processor's cache.
PIECE = 1024 << 10
#: Reading this many unnecessary bytes costs as much as another system call.
GAP = 96 << 10
#: The operating system scatters rows of at least this many bytes (``preadv``).
ROW = 2 << 10
#: Stored chunks may exceed the bound of the codecs by this, for example by skippable frames or empty gzip members.
SLACK = 16 << 20
#: The largest number of buffers in one system call.
MAX_BUFFERS = 1024


def supported() -> bool:
    """Return True if the system can open files relative to a directory and read into several buffers (not Windows)."""
    return hasattr(os, "preadv") and os.open in os.supports_dir_fd


class Directory:
    """An open directory; a missing directory has no files.

    Parameters
    ----------
    path : str
        The path of the directory.
    place : callable
        Returns the location of a file for messages.
    few : bool
        True: the caller opens only a few files, so the directory is not opened.
    """

    def __init__(self, path: str, place: Callable[[str], str], few: bool = False) -> None:
        self.path = path.rstrip("/") + "/"
        self.place = place
        self.descriptor: int | None = None
        self._start = self.path if few else ""
        if few:
            return
        try:
            self.descriptor = os.open(path, READ | getattr(os, "O_DIRECTORY", 0))
        except FileNotFoundError:
            refuse_dangling(path.rstrip("/"), place(""))
        except OSError as error:
            raise system_error("open", place(""), error) from error

    def __enter__(self) -> Directory:
        return self

    def __exit__(self, *_: object) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)

    def _open(self, name: str) -> int | None:
        """Return the descriptor of a file opened for reading; None if it does not exist."""
        if self.descriptor is None and not self._start:
            return None
        try:
            return os.open(self._start + name, READ, dir_fd=self.descriptor)
        except FileNotFoundError:
            refuse_dangling(self._start + name, self.place(name), self.descriptor)
            return None

    def open(self, name: str) -> tuple[int, os.stat_result] | None:
        """Return the file descriptor and the status of a file opened for reading; None if it does not exist."""
        try:
            descriptor = self._open(name)
        except StoreError:  # a dangling link
            raise
        except OSError as error:
            raise system_error("read", self.place(name), error) from error
        if descriptor is None:
            return None
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            refuse_special(status, self.place(name))
        return descriptor, status

    def read_into(self, name: str, buffer: Buffer) -> int:
        """Read a file from its beginning until `buffer` (contiguous bytes) is full.

        Returns
        -------
        int
            The number of bytes, -1 if the file does not exist.

        Raises
        ------
        OSError
            If the file cannot be read.
        """
        descriptor = self._open(name)
        if descriptor is None:
            return -1
        try:
            return os.preadv(descriptor, [buffer], 0)
        finally:
            os.close(descriptor)

    def read_stretch(self, name: str, buffer: Buffer, start: int, size: int) -> bool:
        """Fill `buffer` (contiguous bytes) from offset `start` of a file; False unless the file has `size` bytes.

        Raises
        ------
        OSError
            If the file cannot be read.
        """
        descriptor = self._open(name)
        if descriptor is None:
            return False
        try:
            # A read of two bytes at the end returns only one: cheaper than fstat.
            end = os.pread(descriptor, 2, size - 1)
            return len(end) == 1 and os.preadv(descriptor, [buffer], start) == buffer.nbytes
        finally:
            os.close(descriptor)


def read_exactly(descriptor: int, buffer: Buffer, offset: int) -> None:
    """Fill `buffer` (contiguous bytes) from an offset of a file.

    Raises
    ------
    CodecError
        If the file is too short.
    """
    size = buffer.nbytes
    done = os.preadv(descriptor, [buffer], offset)
    while done < size:
        more = os.preadv(descriptor, [buffer[done:]], offset + done)
        if more <= 0:
            raise CodecError(
                f"the stored chunk ends after {offset + done} bytes, but {offset + size} are needed",
                hint="the file is incomplete; restore it from a copy",
            )
        done += more


def longest(chain: Chain) -> int:
    """Return an upper bound on the size of a stored chunk, with a margin for data of other writers."""
    return 2 * chain.encoded_bound + SLACK


def read_file(descriptor: int, size: int, limit: int) -> np.ndarray:
    """Return all bytes of a file, in the thread's scratch buffer.

    Raises
    ------
    CodecError
        If the file has more than `limit` bytes (a huge sparse file is easy to write), or ends too early.
    """
    if size > limit:
        raise CodecError(f"the stored chunk has {size} bytes; a chunk of this array has at most {limit}")
    buffer = scratch("file", size)[:size]
    if size:
        read_exactly(descriptor, buffer, 0)
    return buffer


def read_box(
    descriptor: int,
    target: np.ndarray,
    slices: Sequence[slice],
    shape: Sequence[int],
    stored: np.dtype,
    base: int = 0,
) -> None:
    """Read a part of an uncompressed chunk.

    Parameters
    ----------
    target : ndarray
        Receives the elements; any strides, dimensions in stored order.
    slices : sequence of slice
        The part of the chunk: start, stop, and a step of at least 1.
    shape : sequence of int
        The shape of the chunk.
    stored : numpy.dtype
        The dtype of the stored elements.
    base : int
        The offset of the chunk in the file.
    """
    distances = list(accumulate(reversed(shape[1:]), mul, initial=stored.itemsize))
    steps = []
    # Leading dimensions of length 1 only change the offset.
    first = 0
    leading = True
    for part, distance, count in zip(slices, reversed(distances), target.shape):
        base += part.start * distance
        if leading and count == 1:
            first += 1
        else:
            leading = False
            steps.append(part.step * distance)
    if first:
        target = target[(0,) * first + (Ellipsis,)]
    _read_steps(descriptor, target, steps, stored, base)


def _read_steps(descriptor: int, target: np.ndarray, steps: list[int], stored: np.dtype, base: int) -> None:
    """Read elements with the strides `steps` in the file, the first one at offset `base`."""
    if _dense(target, steps, stored):
        if target.flags.c_contiguous:
            read_exactly(descriptor, target.reshape(-1).view(np.uint8), base)
            return
        if _scatter(descriptor, target, base):
            return
    if target.ndim == 0:
        _read_span(descriptor, target, steps, stored, base)
        return
    row_span = _span(target.shape[1:], steps[1:], stored.itemsize)
    together = PIECE // steps[0] if steps[0] - row_span <= GAP else 0
    if together >= 1 or (row_span <= PIECE and steps[0] - row_span <= GAP):
        together = max(together, 1)
        for row in range(0, target.shape[0], together):
            _read_span(descriptor, target[row : row + together], steps, stored, base + row * steps[0])
    else:
        for row in range(target.shape[0]):
            _read_steps(descriptor, target[row, ...], steps[1:], stored, base + row * steps[0])


def _dense(target: np.ndarray, steps: list[int], stored: np.dtype) -> bool:
    """Return True if the elements in the file have the layout of a contiguous array of the target's dtype."""
    distance = stored.itemsize
    for length, step in zip(reversed(target.shape), reversed(steps), strict=True):
        if step != distance and length != 1:
            return False
        distance *= length
    return stored == target.dtype


def _span(shape: Sequence[int], steps: Sequence[int], itemsize: int) -> int:
    """Return the number of bytes from the first to the last element."""
    return itemsize + sum([(n - 1) * step for n, step in zip(shape, steps, strict=True)])


def _read_span(
    descriptor: int, target: np.ndarray, steps: Sequence[int], stored: np.dtype, base: int
) -> None:
    length = _span(target.shape, steps, stored.itemsize)
    buffer = scratch("box", length)[:length]
    read_exactly(descriptor, buffer, base)
    view: np.ndarray = np.ndarray(target.shape, stored, buffer, 0, tuple(steps))
    np.copyto(target, view)


def _scatter(descriptor: int, target: np.ndarray, base: int) -> bool:
    """Read consecutive bytes into the contiguous rows of `target`; return False if the rows are too short."""
    row_dims = target.ndim
    length = target.itemsize
    while row_dims and target.strides[row_dims - 1] == length:
        row_dims -= 1
        length *= target.shape[row_dims]
    if length < ROW or row_dims == 0:
        return False
    try:
        rows = target.view()
        rows.shape = (-1, length // target.itemsize) if row_dims == 1 else (*target.shape[:row_dims], -1)
    except AttributeError:
        return False
    for index in np.ndindex(rows.shape[: row_dims - 1]):
        lines = list(rows[index].view(np.uint8))
        for start in range(0, len(lines), MAX_BUFFERS):
            some = lines[start : start + MAX_BUFFERS]
            size = len(some) * length
            done = os.preadv(descriptor, some, base)
            if done != size:  # rare: the file is too short, or the system read only a part
                for i, line in enumerate(some):
                    read_exactly(descriptor, line, base + i * length)
            base += size
    return True

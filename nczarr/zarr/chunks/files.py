"""Read chunks from local files: no copy more than needed, and no lock held while the system works.

Bytes go from the system's cache straight to where they belong: a whole chunk into the result, a part of an
uncompressed chunk as no more bytes than are needed. Files are opened relative to the array's directory, which
spares the system the walk along the path.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nczarr.errors import CodecError, StoreError
from nczarr.formats import special_kind
from nczarr.stores.local import HINTS, refuse_dangling
from nczarr.zarr.codecs import Chain, scratch

#: A pipe in the place of a file is opened at once, and then refused.
_READ = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)

#: A piece that fits the processor's cache: it is read, and copied to its place before the next one.
PIECE = 1024 << 10
#: Reading this many bytes that nobody wants costs as much as another system call.
GAP = 96 << 10
#: Rows of at least this many bytes are scattered by the system itself.
ROW = 2 << 10
#: Stored chunks may be longer by this than the codecs make them: skippable frames, members that are empty.
SLACK = 16 << 20
#: The system takes no more buffers than this in one call.
MAX_BUFFERS = 1024


def supported() -> bool:
    """True if the system can open files relative to a directory, and read into several buffers (not Windows)."""
    return hasattr(os, "preadv") and os.open in os.supports_dir_fd


class Directory:
    """An open directory; a missing one has no files.

    Parameters
    ----------
    path : str
        Its path.
    place : callable
        Gives the name of a file in messages.
    few : bool
        Only a few files are opened: then it costs less not to open the directory itself.
    """

    def __init__(self, path: str, place: Callable[[str], str], few: bool = False) -> None:
        self.place = place
        self.descriptor: int | None = None
        self._start = path.rstrip("/") + "/" if few else ""
        if few:
            return
        try:
            self.descriptor = os.open(path, _READ | getattr(os, "O_DIRECTORY", 0))
        except FileNotFoundError:
            refuse_dangling(path.rstrip("/"), place(""))
        except OSError as error:
            raise StoreError(
                f"cannot open: {error.strerror}", path=place(""), hint=HINTS.get(error.errno or 0)
            ) from error

    def __enter__(self) -> Directory:
        return self

    def __exit__(self, *_: object) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)

    def open(self, name: str) -> tuple[int, os.stat_result] | None:
        """Return a file descriptor for reading and what the file is, None if there is no such file."""
        if self.descriptor is None and not self._start:
            return None
        try:
            descriptor = os.open(self._start + name, _READ, dir_fd=self.descriptor)
        except FileNotFoundError:
            refuse_dangling(self._start + name, self.place(name), self.descriptor)
            return None
        except OSError as error:
            raise StoreError(
                f"cannot read: {error.strerror}", path=self.place(name), hint=HINTS.get(error.errno or 0)
            ) from error
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            return descriptor, status
        os.close(descriptor)
        kind = "directory" if stat.S_ISDIR(status.st_mode) else special_kind(status.st_mode)
        raise StoreError(f"cannot read: this is a {kind}, not a file", path=self.place(name))

    def read_into(self, name: str, buffer: Any) -> int:
        """Read a file from its beginning until `buffer` (contiguous bytes) is full.

        Returns
        -------
        int
            How many bytes came, -1 if there is no such file.

        Raises
        ------
        OSError
            The file cannot be read.
        """
        if self.descriptor is None and not self._start:
            return -1
        try:
            descriptor = os.open(self._start + name, _READ, dir_fd=self.descriptor)
        except FileNotFoundError:
            refuse_dangling(self._start + name, self.place(name), self.descriptor)
            return -1
        try:
            return os.preadv(descriptor, [buffer], 0)
        finally:
            os.close(descriptor)

    def read_stretch(self, name: str, buffer: Any, start: int, size: int) -> bool:
        """Fill `buffer` (contiguous bytes) from `start` of a file on; False unless the file has `size` bytes.

        Raises
        ------
        OSError
            The file cannot be read.
        """
        if self.descriptor is None and not self._start:
            return False
        try:
            descriptor = os.open(self._start + name, _READ, dir_fd=self.descriptor)
        except FileNotFoundError:
            return False
        try:
            # Of two bytes the second one is not there: cheaper than to ask what the file is.
            end = os.pread(descriptor, 2, size - 1)
            return len(end) == 1 and os.preadv(descriptor, [buffer], start) == buffer.nbytes
        finally:
            os.close(descriptor)


def read_exactly(descriptor: int, buffer: Any, offset: int) -> None:
    """Fill `buffer` (contiguous bytes) from a place of a file.

    Raises
    ------
    CodecError
        The file ends before.
    """
    wanted = buffer.nbytes
    done = os.preadv(descriptor, [buffer], offset)
    while done < wanted:
        more = os.preadv(descriptor, [buffer[done:]], offset + done)
        if more <= 0:
            raise CodecError(
                f"the stored chunk ends after {offset + done} bytes, {offset + wanted} are needed"
            )
        done += more


def longest(chain: Chain) -> int:
    """Return how many bytes a stored chunk has at most, with room for what other writers put around the data."""
    return 2 * chain.encoded_bound + SLACK


def read_file(descriptor: int, size: int, limit: int) -> np.ndarray:
    """Return all bytes of a file, in a buffer that the thread reuses.

    Raises
    ------
    CodecError
        The file has more than `limit` bytes (a sparse one costs its writer nothing), or ends too early.
    """
    if size > limit:
        raise CodecError(f"the stored chunk has {size} bytes, no chunk of this array has more than {limit}")
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
        Receives the elements; any strides, dimensions in the order in which they are stored.
    slices : sequence of slice
        The part of the chunk: start, stop, and a step of at least 1.
    shape : sequence of int
        The shape of the chunk.
    stored : numpy.dtype
        The stored elements.
    base : int
        Where the chunk begins in the file.
    """
    distances = []
    distance = stored.itemsize
    for length in reversed(shape):
        distances.append(distance)
        distance *= length
    distances.reverse()
    steps = []
    # Leading dimensions of length 1 only move the place.
    first = 0
    leading = True
    for part, distance, count in zip(slices, distances, target.shape, strict=True):
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
    """Read elements that lie `steps` bytes apart along each dimension, the first of them at `base`."""
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
    """True if the elements lie in the file as they would in a contiguous array of the target's dtype."""
    distance = stored.itemsize
    for length, step in zip(reversed(target.shape), reversed(steps), strict=True):
        if step != distance and length != 1:
            return False
        distance *= length
    return stored == target.dtype


def _span(shape: Sequence[int], steps: Sequence[int], itemsize: int) -> int:
    """The number of bytes from the first to the last element."""
    return itemsize + sum([(n - 1) * step for n, step in zip(shape, steps, strict=True)])


def _read_span(
    descriptor: int, target: np.ndarray, steps: Sequence[int], stored: np.dtype, base: int
) -> None:
    length = _span(target.shape, steps, stored.itemsize)
    buffer = scratch("box", length)[:length]
    read_exactly(descriptor, buffer, base)
    view: Any = np.ndarray(target.shape, stored, buffer, 0, tuple(steps))
    np.copyto(target, view)


def _scatter(descriptor: int, target: np.ndarray, base: int) -> bool:
    """Read consecutive bytes into the contiguous rows of `target`, if these are long enough."""
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
            wanted = len(some) * length
            done = os.preadv(descriptor, some, base)
            if done != wanted:  # rare: the file is short, or the system took less than all
                for i, line in enumerate(some):
                    read_exactly(descriptor, line, base + i * length)
            base += wanted
    return True

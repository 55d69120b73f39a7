"""Read and write files at positions, without the file's own position, which threads and forked processes share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from nczarr.system.locks import TABLES

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

if hasattr(os, "pread"):
    pread, pwrite = os.pread, os.pwrite
else:  # Windows

    def pread(descriptor: int, length: int, offset: int, /) -> bytes:
        with TABLES:
            os.lseek(descriptor, offset, os.SEEK_SET)
            return os.read(descriptor, length)

    def pwrite(descriptor: int, data: ReadableBuffer, offset: int, /) -> int:
        with TABLES:
            os.lseek(descriptor, offset, os.SEEK_SET)
            return os.write(descriptor, data)


def read_at(descriptor: int, start: int, length: int) -> bytes:
    """Return bytes of an open file; fewer if the file ends before.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryFile() as file:
    ...     pwrite(file.fileno(), b"abcdef", 0)
    ...     read_at(file.fileno(), 2, 3)
    6
    b'cde'
    """
    data = pread(descriptor, length, start)
    if len(data) == length:
        return data
    # Linux reads at most 2 GiB at once; a file that shrinks meanwhile ends the loop.
    parts = [data]
    done = len(data)
    while data and done < length:
        data = pread(descriptor, length - done, start + done)
        parts.append(data)
        done += len(data)
    return b"".join(parts)

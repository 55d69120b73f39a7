"""Compress with ``zstd`` (RFC 8878), and read the decoded size from its frames."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from nczarr.errors import CodecError
from nczarr.zarr.codecs import base
from nczarr.zarr.codecs.base import Buffer, BytesBytesCodec, ChunkSpec, as_bytes_array, register_codec
from nczarr.zarr.plugins import optional_module
from nczarr.zarr.types.base import JsonMapping


@functools.cache
def _zstandard() -> Any:
    """Return the `zstandard` package if it can compress many pieces with one context; else None."""
    found = optional_module("zstandard")
    return found if found and "multi_compress_to_buffer" in found.backend_features else None


#: Contexts of higher levels are not reused: they take much memory, and their creation takes little of the time.
KEPT_LEVEL = 6

_local = threading.local()


def _compressor(zstandard: Any, level: int, checksum: bool) -> Any:
    """Return the compressor of this thread, which reuses its context."""
    kept = _local.__dict__
    name = f"{level} {checksum}"
    compressor = kept.get(name)
    if compressor is None:
        compressor = zstandard.ZstdCompressor(level=level, write_checksum=checksum)
        if level <= KEPT_LEVEL:
            kept[name] = compressor
    return compressor


@register_codec("zstd", "numcodecs.zstd")
class ZstdCodec(BytesBytesCodec):
    """``zstd`` and ``numcodecs.zstd``."""

    def __init__(self, name: str, configuration: JsonMapping, spec: ChunkSpec) -> None:
        from numcodecs import zstd

        base.check_keys(name, configuration, "level", "checksum")
        self.name = name
        self.level = base.configured_int(name, configuration, "level", 0, -131072, 22)
        self.checksum = bool(configuration.get("checksum", False))
        self._compress = zstd.compress
        self._decompress = zstd.decompress

    def encode(self, data: Buffer) -> Buffer:
        fast = _zstandard()
        if fast is None:
            return self._compress(data, self.level, self.checksum)
        return _compressor(fast, self.level, self.checksum).compress(as_bytes_array(data))

    def encode_joined(self, data: np.ndarray, count: int) -> Sequence[Buffer]:
        fast = _zstandard()
        if fast is None or count == 1:
            return super().encode_joined(data, count)
        compressor = _compressor(fast, self.level, self.checksum)
        pieces: Sequence[Buffer] = compressor.multi_compress_to_buffer(list(data.reshape(count, -1)))
        return pieces

    def decode(self, data: Buffer, size: int | None, limit: int, out: np.ndarray | None = None) -> Buffer:
        # The library rejects a target that is smaller than the content of all frames, or larger than a frame of
        # unknown size. So a first frame with the expected content size needs no further check.
        if size is None or frame_header(data)[1] != size:
            exact, most = content_size(data)
            if size is not None and exact is not None:
                base.check_size(self.name, exact, size, size)
            if size is None:
                base.check_size(self.name, most, None, limit)
                return base.deliver(self.name, self._decompress(data), size, limit, out)
        return self._decompress(data, np.empty(size, np.uint8) if out is None else out)

    def decode_start(self, data: np.ndarray, size: int, out: np.ndarray) -> bool:
        fast = _zstandard()
        if fast is None or frame_header(data)[1] != size or has_checksum(data):
            return False
        # All blocks must exist, although only the first ones are decoded.
        if content_size(data) != (size, size):
            return False
        view = out.data
        done = 0
        try:
            with fast.ZstdDecompressor().stream_reader(data) as stream:
                while done < view.nbytes and (count := stream.readinto(view[done:])):
                    done += count
        except fast.ZstdError:
            return False
        return done == view.nbytes

    def decode_joined(self, data: np.ndarray, bounds: Sequence[tuple[int, int]], out: np.ndarray) -> bool:
        # Concatenated frames are valid zstd data (RFC 8878, section 3). One call needs one context instead of one
        # for each frame: a quarter of the time for frames of 64 KiB.
        size = out.nbytes // len(bounds)
        is_contiguous = all(before[1] == after[0] for before, after in pairwise(bounds))
        if not is_contiguous or not _all_frames(data, bounds, size):
            return False
        try:
            self._decompress(data[bounds[0][0] : bounds[-1][1]], out)
        except Exception:  # the caller decodes them one by one and names the damaged one
            return False
        return True


def _all_frames(data: np.ndarray, bounds: Sequence[tuple[int, int]], size: int) -> bool:
    """Return True if each piece begins with a zstd frame of `size` decoded bytes.

    Then the concatenation decodes to exactly `size` bytes for each piece only if every piece is valid.
    """
    view = data.data
    first = bounds[0][0]
    end, stated = frame_header(view, first)
    if stated != size:
        return False
    # Frames of one content size from one compressor have the same header.
    head = bytes(view[first:end])
    return all(
        stop - start >= len(head)
        and (view[start : start + len(head)] == head or frame_header(view, start)[1] == size)
        for start, stop in bounds
    )


# --- frame headers (RFC 8878, section 3.1)

_MAGIC = b"\x28\xb5\x2f\xfd"
#: The largest decoded size of a block.
_BLOCK = 128 << 10


def frame_header(data: Buffer, start: int = 0) -> tuple[int, int | None]:
    """Return the offset of a frame's first block, and its content size (None if the header omits it).

    The offset is -1 if no frame begins at `start`.

    Examples
    --------
    >>> frame_header(bytes.fromhex("28b52ffd2003190000616263"))
    (6, 3)
    """
    head = bytes(memoryview(data)[start : start + 18])
    if len(head) < 6 or head[:4] != _MAGIC:
        return -1, None
    descriptor = head[4]
    single = descriptor >> 5 & 1
    at = 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3]
    width = (single, 2, 4, 8)[descriptor >> 6]
    if width == 0:
        return start + at, None
    value = int.from_bytes(head[at : at + width], "little")
    return start + at + width, value + 256 if width == 2 else value


def has_checksum(data: Buffer) -> bool:
    """Return True if the first frame of `data` ends with a checksum of its content.

    Examples
    --------
    >>> has_checksum(bytes.fromhex("28b52ffd2003190000616263"))
    False
    """
    return bool(data[4] >> 2 & 1)


def content_size(data: Buffer) -> tuple[int | None, int]:
    """Return the decoded size of all frames (None if a header omits it), and an upper bound on it.

    Raises
    ------
    CodecError
        If the data are not zstd, or are incomplete.

    Examples
    --------
    >>> content_size(bytes.fromhex("28b52ffd2003190000616263"))
    (3, 3)
    """
    view = memoryview(data)
    view = view if view.format == "B" and view.ndim == 1 else view.cast("B")
    total: int | None = 0
    most = 0
    position = 0
    while position < view.nbytes:
        if bytes(view[position + 1 : position + 4]) == b"\x2a\x4d\x18" and view[position] >> 4 == 5:
            # A skippable frame.
            position += 8 + int.from_bytes(view[position + 4 : position + 8], "little")
            continue
        blocks, stated = frame_header(view, position)
        if blocks < 0:
            raise CodecError(f"the data are damaged: no zstd frame begins at byte {position}")
        checksum = has_checksum(view[position:])
        position, bound = _skip_blocks(view, blocks)
        position += 4 * checksum
        if stated is None:
            total = None
        elif total is not None:
            total += stated
        most += bound if stated is None else stated
    if position != view.nbytes:
        raise CodecError("the data are damaged: the last zstd frame is incomplete")
    return total, most


def _skip_blocks(view: memoryview, position: int) -> tuple[int, int]:
    """Return the end of a frame's blocks, and an upper bound on their decoded size."""
    bound = 0
    while True:
        header = int.from_bytes(view[position : position + 3], "little")
        if position + 3 > view.nbytes:
            raise CodecError("the data are damaged: a zstd frame is incomplete")
        kind, size = header >> 1 & 3, header >> 3
        # A raw block stores `size` bytes; an RLE block stores one byte that decodes to `size` bytes.
        bound += _BLOCK if kind == 2 else size
        position += 3 + (1 if kind == 1 else size)
        if header & 1:
            return position, bound

"""Compress with ``zstd`` (RFC 8878), and tell from its frames how much comes out."""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from nczarr.errors import CodecError
from nczarr.zarr.codecs.base import (
    Buffer,
    BytesBytesCodec,
    ChunkSpec,
    as_bytes_array,
    check_keys,
    configured_int,
    deliver,
    register_codec,
    too_large,
    wrong_size,
)


@functools.cache
def _zstandard() -> Any:
    """The `zstandard` package, if it is there and can compress many pieces with one context; else None."""
    try:
        import zstandard
    except ImportError:
        return None
    return zstandard if "multi_compress_to_buffer" in zstandard.backend_features else None


#: Contexts of higher levels are not kept: they take much memory, and little of the time.
KEPT_LEVEL = 6

_local = threading.local()


def _compressor(zstandard: Any, level: int, checksum: bool) -> Any:
    """A compressor of this thread, whose context is used again and again."""
    if level > KEPT_LEVEL:
        return zstandard.ZstdCompressor(level=level, write_checksum=checksum)
    kept: dict[Any, Any] = _local.__dict__
    compressor = kept.get((level, checksum))
    if compressor is None:
        compressor = kept[level, checksum] = zstandard.ZstdCompressor(level=level, write_checksum=checksum)
    return compressor


@register_codec("zstd", "numcodecs.zstd")
class ZstdCodec(BytesBytesCodec):
    """``zstd`` and ``numcodecs.zstd``."""

    def __init__(self, name: str, configuration: Mapping[str, Any], spec: ChunkSpec) -> None:
        from numcodecs import zstd

        check_keys(name, configuration, "level", "checksum")
        self.name = name
        self.level = configured_int(name, configuration, "level", 0, -131072, 22)
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
        # The library refuses a target that is smaller than all frames together, and one that is larger than
        # a frame of unknown size. So where one frame says what is wanted, nothing more needs to be looked at.
        if size is None or frame_header(data)[1] != size:
            exact, most = content_size(data)
            if size is not None and exact is not None and exact != size:
                raise wrong_size(self.name, exact, size)
            if size is None:
                if most > limit:
                    raise too_large(self.name, limit)
                return deliver(self.name, self._decompress(data), size, limit, out)
        return self._decompress(data, np.empty(size, np.uint8) if out is None else out)

    def decode_start(self, data: np.ndarray, size: int, out: np.ndarray) -> bool:
        fast = _zstandard()
        if fast is None or frame_header(data)[1] != size or has_checksum(data):
            return False
        # All blocks have to be there, though only the first ones are decoded.
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
        # Frames that follow each other are data like one frame (RFC 8878, section 3). Decoded together they need
        # one context of the library instead of one each, which is a quarter of the time with 64 KiB.
        size = out.nbytes // len(bounds)
        if not _neighbours(bounds) or not _all_frames(data, bounds, size):
            return False
        try:
            self._decompress(data[bounds[0][0] : bounds[-1][1]], out)
        except Exception:  # one by one they tell which of them is damaged
            return False
        return True


def _neighbours(bounds: Sequence[tuple[int, int]]) -> bool:
    return all(before[1] == after[0] for before, after in pairwise(bounds))


def _all_frames(data: np.ndarray, bounds: Sequence[tuple[int, int]], size: int) -> bool:
    """True if a zstd frame of `size` bytes begins each piece.

    Then the library cannot make exactly `size` bytes for each piece from all of them together, unless each piece
    gives its own.
    """
    view = data.data
    first = bounds[0][0]
    end, stated = frame_header(view, first)
    if stated != size:
        return False
    # Frames of one size have the same header, if one program made them.
    head = bytes(view[first:end])
    return all(
        stop - start >= len(head)
        and (view[start : start + len(head)] == head or frame_header(view, start)[1] == size)
        for start, stop in bounds
    )


# --- what the frames say (RFC 8878, section 3.1)

_MAGIC = b"\x28\xb5\x2f\xfd"
#: No block gives more than this.
_BLOCK = 128 << 10


def frame_header(data: Any, start: int = 0) -> tuple[int, int | None]:
    """Return where the blocks of a frame begin, and its content size, None if it does not say.

    The place is -1 if there is no frame at `start`.

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


def has_checksum(data: Any) -> bool:
    """True if the frame at the beginning of `data` ends with a checksum of its content.

    Examples
    --------
    >>> has_checksum(bytes.fromhex("28b52ffd2003190000616263"))
    False
    """
    return bool(data[4] >> 2 & 1)


def content_size(data: Any) -> tuple[int | None, int]:
    """Return how many bytes come out of all frames, None if one does not say; and a number that it never exceeds.

    Raises
    ------
    CodecError
        The data are not zstd, or incomplete.

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
            # A frame to be skipped.
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
    """Return the end of a frame's blocks, and a bound on what comes out of them."""
    bound = 0
    while True:
        header = int.from_bytes(view[position : position + 3], "little")
        if position + 3 > view.nbytes:
            raise CodecError("the data are damaged: a zstd frame is incomplete")
        kind, size = header >> 1 & 3, header >> 3
        # Raw blocks have `size` bytes, repeated ones a single byte that stands for `size`.
        bound += _BLOCK if kind == 2 else size
        position += 3 + (1 if kind == 1 else size)
        if header & 1:
            return position, bound

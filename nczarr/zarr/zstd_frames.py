"""How much comes out of zstd data, found out before anything is decompressed (RFC 8878, section 3.1)."""

from __future__ import annotations

from typing import Any

from nczarr.errors import CodecError

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

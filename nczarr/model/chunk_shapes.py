"""Choose default shapes of chunks and shards."""

from __future__ import annotations

import math
from collections.abc import Sequence

#: Target size of a chunk in bytes. A variable of at most twice this size is one chunk.
TARGET = 2 << 20
#: Target size in bytes of the chunks of a variable whose unlimited dimension is empty.
_GROWING_TARGET = 512 << 10
#: Maximum length of such a chunk along each empty unlimited dimension.
_GROWING_STEPS = 4096

#: Target size of a shard in bytes.
SHARD = 64 << 20
#: Maximum number of chunks of a shard along each empty unlimited dimension.
_GROWING_CHUNKS = 1024
#: Maximum number of chunks in a shard, whose index has 16 bytes for each and is written with every chunk.
_MOST_CHUNKS = 1 << 20
#: Limit of the search for lengths of chunks that divide a shard.
_MOST_TRIED = 1 << 16

#: netCDF-C's DEFAULT_CHUNK_SIZE, and its DEFAULT_1D_UNLIM_SIZE.
_NETCDF_C_BYTES = 16 << 20
_NETCDF_C_LONE_BYTES = 4096


def default_chunks(
    shape: Sequence[int],
    unlimited: Sequence[bool],
    itemsize: int,
    *,
    target: int = TARGET,
    growing_steps: int = _GROWING_STEPS,
) -> tuple[int, ...]:
    """Choose a chunk shape.

    A variable of at most 4 MiB is one chunk. A larger variable is divided evenly along its leading dimensions
    into chunks of about 2 MiB. If an unlimited dimension is empty, the chunks have about 512 KiB and at most 4,096
    steps along that dimension. This size is a compromise: larger chunks mean fewer objects, smaller chunks mean
    that appending one step rewrites fewer bytes.

    Parameters
    ----------
    shape : sequence of int
    unlimited : sequence of bool
        True for each unlimited dimension.
    itemsize : int
        Approximate size of one value in bytes.
    target : int
        Target size of a chunk in bytes; a chunk may have twice this size. netCDF files use a smaller target,
        because their readers have a chunk cache of a few MiB.
    growing_steps : int
        Maximum length of a chunk along an empty unlimited dimension. netCDF files use 1 if the variable has other
        dimensions, because they always store whole chunks.

    Examples
    --------
    >>> default_chunks((100, 200), (False, False), 4)
    (100, 200)
    >>> default_chunks((1000, 721, 1440), (False, False, False), 4)
    (1, 721, 1440)
    >>> default_chunks((0, 100, 100), (True, False, False), 4), default_chunks((0,), (True,), 8)
    ((14, 100, 100), (4096,))
    """
    empty = [n == 0 and u for n, u in zip(shape, unlimited, strict=True)]
    chunks = [growing_steps if e else max(n, 1) for n, e in zip(shape, empty, strict=True)]
    # Divide the empty unlimited dimensions first, then the leading dimensions. One step may exceed the target.
    growing = [a for a, e in enumerate(empty) if e]
    fixed = [a for a, e in enumerate(empty) if not e]
    for axes, most in ((growing, _GROWING_TARGET), (fixed, target)):
        for axis in axes:
            size = math.prod(chunks) * itemsize
            if size <= 2 * most:
                break
            pieces = min(chunks[axis], -(-size // most))
            chunks[axis] = -(-chunks[axis] // pieces)
    return tuple(chunks)


def default_shards(
    shape: Sequence[int],
    unlimited: Sequence[bool],
    chunks: tuple[int, ...],
    itemsize: int,
    *,
    target: int = SHARD,
) -> tuple[int, ...] | None:
    """Choose a shard shape; None if one chunk is enough, because it has the whole variable or the target size.

    A shard has at most 64 MiB of decoded values. It extends over whole dimensions, from the last to the first one.
    If an unlimited dimension is empty, the shard extends over it last, with at most 1,024 chunks along it: a growing
    variable fills one object after the other.

    Parameters
    ----------
    shape : sequence of int
    unlimited : sequence of bool
        True for each unlimited dimension.
    chunks : tuple of int
        The chunk shape.
    itemsize : int
        Approximate size of one value in bytes.
    target : int
        Maximum size of a shard in bytes, unless one chunk is larger.

    Examples
    --------
    >>> default_shards((1000, 721, 1440), (False, False, False), (1, 721, 1440), 4)
    (16, 721, 1440)
    >>> default_shards((0, 100, 100), (True, False, False), (14, 100, 100), 4)
    (1666, 100, 100)
    >>> print(default_shards((100, 200), (False, False), (100, 200), 4))
    None
    """
    axes = list(zip(shape, unlimited, chunks, strict=True))
    counts = [_GROWING_CHUNKS if u and n == 0 else -(-n // c) for n, u, c in axes]
    shards = list(chunks)
    for axis in sorted(range(len(shards)), key=lambda a: (axes[a][1] and axes[a][0] == 0, -a)):
        inside = math.prod(s // c for s, c in zip(shards, chunks, strict=True))
        fitting = min(target // (math.prod(shards) * itemsize), _MOST_CHUNKS // inside)
        shards[axis] *= max(1, min(counts[axis], fitting))
    return None if tuple(shards) == chunks else tuple(shards)


def misfit(shards: Sequence[int], chunks: Sequence[int]) -> str | None:
    """Return what is wrong with a shard shape; None if it contains whole chunks, and not too many for its index.

    Examples
    --------
    >>> misfit((9,), (2,)), misfit((10,), (2,))
    ('the shards (9,) do not contain whole chunks of (2,)', None)
    """
    if any(s % c for s, c in zip(shards, chunks, strict=True)):
        return f"the shards {tuple(shards)} do not contain whole chunks of {tuple(chunks)}"
    count = math.prod(s // c for s, c in zip(shards, chunks, strict=True))
    # A length that was too large by mistake ended in a MemoryError at the first write.
    if count > _MOST_CHUNKS:
        return f"{count:,} chunks in a shard are too many for its index: at most {_MOST_CHUNKS:,}"
    return None


def chunks_in_shards(shards: Sequence[int], chunks: Sequence[int]) -> tuple[int, ...]:
    """Return the chunk shape nearest to `chunks` whose lengths divide those of the shards.

    Examples
    --------
    >>> chunks_in_shards((100, 90, 7), (14, 100, 7))
    (10, 90, 7)
    """
    return tuple([_divisor(shard, chunk) for shard, chunk in zip(shards, chunks, strict=True)])


def _divisor(whole: int, wish: int) -> int:
    if whole % wish == 0:
        return wish
    small = [n for n in range(1, min(math.isqrt(whole), _MOST_TRIED) + 1) if whole % n == 0]
    return min((*small, *(whole // n for n in small)), key=lambda n: max(n, wish) / min(n, wish))


def netcdf_c_chunks(shape: Sequence[int], unlimited: Sequence[bool], itemsize: int) -> tuple[int, ...]:
    """Return the default chunk shape of netCDF-C.

    A chunk has one record along unlimited dimensions if there are fixed dimensions too, 4 KiB along a single
    unlimited dimension, and 16 MiB of the fixed dimensions. This shape suits object stores badly. netCDF4-python's
    interface documents it and programs query it, so it is separate from :func:`default_chunks`.

    Examples
    --------
    >>> netcdf_c_chunks((0, 721, 1440), (True, False, False), 4), netcdf_c_chunks((0,), (True,), 8)
    ((1, 721, 1440), (512,))
    """
    fixed = [n for n, grows in zip(shape, unlimited, strict=True) if not grows]
    if not fixed:
        whole = _NETCDF_C_LONE_BYTES if len(shape) == 1 else _NETCDF_C_BYTES
        side = whole // itemsize if len(shape) == 1 else int((whole / itemsize) ** (1 / len(shape)))
        return (max(side, 1),) * len(shape)
    # netCDF-C distributes the factor evenly over the fixed dimensions.
    total = math.prod(float(n) for n in fixed)
    factor = (_NETCDF_C_BYTES / (max(total, 1) * itemsize)) ** (1 / len(fixed))
    chunks = []
    for size, grows in zip(shape, unlimited, strict=True):
        chunk = 1 if grows else max(min(int(factor * size - 0.5), size), 1)
        pieces = 0 if grows else -(-size // chunk)
        if pieces:  # distribute the overhang over the chunks
            chunk -= (pieces * chunk - size) // pieces
        chunks.append(max(chunk, 1))
    return tuple(chunks)

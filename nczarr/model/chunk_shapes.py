"""Choose chunk shapes where none is asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence

#: A variable of at most twice as many bytes is one chunk; chunks of a larger one have about as many.
TARGET = 8 << 20
#: The same for a variable that will grow, and is empty yet …
_GROWING_TARGET = 1 << 20
#: … and at most this many steps along each unlimited dimension.
_GROWING_STEPS = 512

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

    A variable of at most 16 MiB is one chunk. A larger one is cut along its leading dimensions, evenly, into
    chunks of about 8 MiB. A variable that has no values yet, because an unlimited dimension is still empty, gets
    chunks of about 1 MiB with at most 512 steps along that dimension: enough that there are few of them, and few
    enough that adding one step rewrites little.

    Parameters
    ----------
    shape : sequence of int
    unlimited : sequence of bool
        Which dimensions are unlimited.
    itemsize : int
        Bytes of one value, about.
    target : int
        Half of what may be one chunk. A netCDF file takes less, because the programs that read it keep chunks in
        a cache of a few MiB.
    growing_steps : int
        Steps along an unlimited dimension that is empty. A netCDF file takes one if there are other dimensions,
        because it holds chunks whole, however few of their steps are used.

    Examples
    --------
    >>> default_chunks((100, 200), (False, False), 4)
    (100, 200)
    >>> default_chunks((1000, 721, 1440), (False, False, False), 4)
    (3, 721, 1440)
    >>> default_chunks((0, 721, 1440), (True, False, False), 4), default_chunks((0,), (True,), 8)
    ((1, 721, 1440), (512,))
    """
    empty = [n == 0 and u for n, u in zip(shape, unlimited, strict=True)]
    chunks = [growing_steps if e else max(n, 1) for n, e in zip(shape, empty, strict=True)]
    # What grows is cut first, then the leading dimensions; one whole step may be larger than its target.
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


def netcdf_c_chunks(shape: Sequence[int], unlimited: Sequence[bool], itemsize: int) -> tuple[int, ...]:
    """The chunk shape that netCDF-C chooses where none is asked for.

    One record for unlimited dimensions beside fixed ones, 4 KiB for a lone unlimited dimension, and as much of
    the fixed dimensions as makes 16 MiB. It is not a good shape for a store of objects, but the one that a variable
    made through netCDF4-python's interface is documented to have, and that programs ask for: so it is kept apart
    from :func:`default_chunks`.

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
    # netCDF-C takes the n-th root over all dimensions that are not yet decided.
    total = math.prod(float(n) for n in fixed)
    factor = (_NETCDF_C_BYTES / (max(total, 1) * itemsize)) ** (1 / len(fixed))
    chunks = []
    for size, grows in zip(shape, unlimited, strict=True):
        chunk = 1 if grows else max(min(int(factor * size - 0.5), size), 1)
        pieces = 0 if grows else -(-size // chunk)
        if pieces:  # spread the overhang over the chunks
            chunk -= (pieces * chunk - size) // pieces
        chunks.append(max(chunk, 1))
    return tuple(chunks)

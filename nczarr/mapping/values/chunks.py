"""Chunk shapes for variables that ask for none (``docs/spec/nczarr-v3.md``, *Chunks*)."""

from __future__ import annotations

import math
from collections.abc import Sequence

#: A variable of at most twice as many bytes is one chunk; chunks of a larger one have about as many.
TARGET = 8 << 20
#: The same for a variable that will grow, and is empty yet …
GROWING_TARGET = 1 << 20
#: … and at most this many steps along each unlimited dimension.
GROWING_STEPS = 512


def default_chunks(shape: Sequence[int], unlimited: Sequence[bool], itemsize: int) -> tuple[int, ...]:
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
    chunks = [GROWING_STEPS if e else max(n, 1) for n, e in zip(shape, empty, strict=True)]
    # What grows is cut first, then the leading dimensions; one whole step may be larger than its target.
    growing = [a for a, e in enumerate(empty) if e]
    fixed = [a for a, e in enumerate(empty) if not e]
    for axes, target in ((growing, GROWING_TARGET), (fixed, TARGET)):
        for axis in axes:
            size = math.prod(chunks) * itemsize
            if size <= 2 * target:
                break
            pieces = min(chunks[axis], -(-size // target))
            chunks[axis] = -(-chunks[axis] // pieces)
    return tuple(chunks)

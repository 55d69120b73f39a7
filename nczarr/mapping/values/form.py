"""Choose how the array of a variable is stored: chunks, shards, codecs (``docs/spec/nczarr-v3.md``, *Chunks*)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nczarr.errors import UnsupportedError
from nczarr.mapping.options import WriteOptions
from nczarr.mapping.values.encodings import Encoding
from nczarr.mapping.values.filters import codecs_for
from nczarr.model import Storage
from nczarr.zarr import NamedConfig, RegularGrid

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


def stored_form(
    fqn: str, storage: Storage, chunks: tuple[int, ...], encoding: Encoding, options: WriteOptions
) -> tuple[RegularGrid, tuple[NamedConfig, ...]]:
    """Return the grid and the codecs of the array of a variable; inner dimensions are added to both.

    Parameters
    ----------
    chunks : tuple of int
        The chunk shape where `options` say nothing of this variable.

    Raises
    ------
    UnsupportedError
        If the shards do not hold whole chunks.

    Examples
    --------
    >>> from nczarr.mapping.options import ArrayShape
    >>> from nczarr.mapping.values.encodings import encoding_for_writing
    >>> from nczarr.model import INT
    >>> options = WriteOptions(arrays={"/v": ArrayShape((10,), (100,))})
    >>> grid, codecs = stored_form("/v", Storage(), (5,), encoding_for_writing(INT), options)
    >>> grid.chunk_shape, codecs[0].name, codecs[0].configuration["chunk_shape"]
    ((100,), 'sharding_indexed', [10])
    """
    shape = options.arrays.get(fqn)
    if shape is not None and shape.chunks is not None:
        chunks = shape.chunks
    if shape is not None and shape.codecs is not None and shape.data_type == encoding.data_type:
        codecs = shape.codecs
    else:
        codecs = codecs_for(storage, encoding, options, scalar=not chunks)
    inner = encoding.inner_shape
    if shape is None or shape.shards is None or not chunks:
        return RegularGrid(chunks + inner), codecs
    if len(shape.shards) != len(chunks) or any(s % c for s, c in zip(shape.shards, chunks, strict=True)):
        raise UnsupportedError(f"shards of {shape.shards} do not hold whole chunks of {chunks}", fqn=fqn)
    sharding = NamedConfig(
        "sharding_indexed",
        {
            "chunk_shape": list(chunks + inner),
            "codecs": [codec.to_json() for codec in codecs],
            "index_codecs": [
                NamedConfig("bytes", {"endian": "little"}).to_json(),
                NamedConfig("crc32c").to_json(),
            ],
            "index_location": "end",
        },
    )
    return RegularGrid(shape.shards + inner), (sharding,)

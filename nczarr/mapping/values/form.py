"""Put together how the array of a variable is stored: chunks, shards, codecs (``docs/spec/nczarr-v3.md``, *Chunks*)."""

from __future__ import annotations

from nczarr.errors import UnsupportedError
from nczarr.mapping.options import WriteOptions
from nczarr.mapping.values.encodings import Encoding
from nczarr.mapping.values.filters import codecs_for
from nczarr.model import Storage
from nczarr.zarr import NamedConfig, RegularGrid


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

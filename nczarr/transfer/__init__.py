"""Move the values of a model from sources to a sink: cut into blocks, with bounded memory and writes side by side.

It knows the model alone, and no format: whoever has lazy data and a :class:`~nczarr.model.DatasetSink` can use it.
"""

from nczarr.transfer.blocks import (
    BLOCK_BYTES,
    MEMORY,
    Block,
    Work,
    block_shape,
    blocks_of,
    data_bytes,
    value_bytes,
)
from nczarr.transfer.moving import transfer
from nczarr.transfer.progress import NoProgress, PartOfProgress, Progress

__all__ = [
    "BLOCK_BYTES",
    "MEMORY",
    "Block",
    "NoProgress",
    "PartOfProgress",
    "Progress",
    "Work",
    "block_shape",
    "blocks_of",
    "data_bytes",
    "transfer",
    "value_bytes",
]

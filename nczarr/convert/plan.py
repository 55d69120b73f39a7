"""Say what a copy would write: variables, chunks, shards, codecs, objects, bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from nczarr.convert.endpoints import create_sink
from nczarr.formats import Kind
from nczarr.mapping import StoredDataset
from nczarr.model import Dataset, describe_type
from nczarr.stores import MemoryStore
from nczarr.transfer import value_bytes


@dataclass(frozen=True)
class PlannedVariable:
    """How one variable would be written.

    Attributes
    ----------
    objects : int
        Stored objects: chunks, or shards where there are some.
    bytes : int
        Of the values, before compression; 64 for each text or sequence.
    """

    fqn: str
    type: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None
    codecs: tuple[str, ...]
    objects: int
    bytes: int

    def to_json(self) -> dict[str, Any]:
        """Return the plan as a JSON object."""
        return asdict(self)

    def __str__(self) -> str:
        shards = f" in shards of {_shape(self.shards)}" if self.shards else ""
        codecs = " ".join(self.codecs) or "no filter"
        return (
            f"{self.fqn}: {self.type} {_shape(self.shape)}, chunks of {_shape(self.chunks)}{shards}, {codecs}, "
            f"{self.objects} objects, {self.bytes} bytes"
        )


def _shape(shape: tuple[int, ...] | None) -> str:
    return "×".join(map(str, shape)) if shape else "one value"


def planned(dataset: Dataset, target: Kind, options: Mapping[str, Any]) -> Iterator[PlannedVariable]:
    """Yield how each variable would be written; everything but the values is made, in memory."""
    if target != "zarr":
        for fqn, variable in dataset.all_variables.items():
            shape = dataset.shape(variable)
            storage = variable.storage
            chunks = storage.chunk_shape or shape if storage.layout == "chunked" else shape
            yield PlannedVariable(
                fqn,
                describe_type(variable.type),
                shape,
                tuple(chunks),
                None,
                tuple(str(f.id) for f in storage.filters) if target == "netcdf" else (),
                1,
                math.prod(shape) * value_bytes(variable.type.dtype),
            )
        return
    sink = create_sink(MemoryStore(), dataset, **options)
    assert isinstance(sink, StoredDataset)
    try:
        for fqn, variable in sink.dataset.all_variables.items():
            array = sink.data(fqn).array
            rank = len(variable.dimensions)
            codecs = array.metadata.codecs
            is_sharded = bool(codecs) and codecs[0].name == "sharding_indexed"
            if is_sharded:
                names = [str(c["name"]) for c in codecs[0].configuration["codecs"]]
            else:
                names = [c.name for c in codecs]
            yield PlannedVariable(
                fqn,
                describe_type(variable.type),
                sink.dataset.shape(variable),
                tuple(array.inner_chunk_shape)[:rank],
                tuple(array.chunk_shape)[:rank] if is_sharded else None,
                tuple(names),
                array.nchunks,
                math.prod(sink.dataset.shape(variable)) * value_bytes(variable.type.dtype),
            )
    finally:
        sink.abort()

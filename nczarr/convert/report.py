"""Report the plan of a copy, and its results: for the closing line, and as JSON."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from nczarr.convert.endpoints import create_sink
from nczarr.convert.storage import StoredObjects, array_form, stored_bytes, stored_objects
from nczarr.formats import Kind
from nczarr.mapping import StoredDataset
from nczarr.model import Dataset, describe_type
from nczarr.stores import MemoryStore
from nczarr.transfer import value_bytes


@dataclass(frozen=True)
class PlannedVariable:
    """The planned storage of one variable.

    Attributes
    ----------
    objects : int
        Number of stored objects: chunks, or shards.
    bytes : int
        Size of the values before compression; 64 for each string or sequence.
    """

    fqn: str
    type: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None
    codecs: tuple[str, ...]
    objects: int
    bytes: int

    def to_json(self) -> dict[str, object]:
        """Return the plan as a JSON object."""
        return asdict(self)

    def __str__(self) -> str:
        shards = f" in shards of {_shape(self.shards)}" if self.shards else ""
        codecs = " ".join(self.codecs) or "no filter"
        return (
            f"{self.fqn}: {self.type} {_shape(self.shape)}, chunks of {_shape(self.chunks)}{shards}, {codecs}, "
            f"{self.objects} objects, {self.bytes} bytes"
        )


def _shape(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) if shape else "one value"


def planned_variables(
    dataset: Dataset, target: Kind, options: Mapping[str, Any]
) -> Iterator[PlannedVariable]:
    """Yield the planned storage of each variable; for Zarr, create the metadata in memory to find it out."""
    stored = create_sink(MemoryStore(), dataset, **options) if target == "zarr" else None
    assert isinstance(stored, StoredDataset | None)
    try:
        dataset = dataset if stored is None else stored.dataset
        for fqn, variable in dataset.all_variables.items():
            shape, storage = dataset.shape(variable), variable.storage
            if stored is not None:
                chunks, shards, found = array_form(stored.data(fqn))
                codecs, objects = tuple(c.name for c in found), stored.data(fqn).array.nchunks
            else:
                chunks = (storage.layout == "chunked" and storage.chunk_shape) or shape
                shards, objects = None, 1
                codecs = tuple(str(f.id) for f in storage.filters) if target == "netcdf" else ()
            size = math.prod(shape) * value_bytes(variable.type.dtype)
            kind = describe_type(variable.type)
            yield PlannedVariable(fqn, kind, shape, tuple(chunks), shards, codecs, objects, size)
    finally:
        if stored is not None:
            stored.abort()


@dataclass
class Report:
    """The results of a copy.

    Attributes
    ----------
    sources : int
        Number of sources.
    bytes_in, bytes_out : int or None
        Stored bytes of local sources and of the target; None if one is not local.
    bytes_of_values : int
        Size of the values before compression.
    seconds : float
    variables : list of PlannedVariable
        With ``dry_run``: the planned storage of each variable.
    losses : list of str
        Parts of the sources that the output cannot represent.
    allow : list of str
        With ``virtual``: the directories to allow when the references are read, as they are not beside them.
    finished_before : int
        With ``resume``: number of copies that an earlier command had completed, and that were compared with their
        sources.
    objects_out : StoredObjects or None
        The files of the targets; None if one is not local.

    Examples
    --------
    >>> from nczarr import copy
    >>> from nczarr.model import Dataset
    >>> report = Report()
    >>> copy(Dataset("d"), {}, report=report)
    ()
    >>> report.sources
    1
    """

    sources: int = 0
    bytes_in: int | None = 0
    bytes_out: int | None = 0
    bytes_of_values: int = 0
    variables: list[PlannedVariable] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    allow: list[str] = field(default_factory=list)
    finished_before: int = 0
    objects_out: StoredObjects | None = field(default_factory=lambda: StoredObjects(()))
    _start: float = field(default_factory=time.monotonic, repr=False)

    @property
    def planned_objects(self) -> tuple[int, int]:
        """With ``dry_run``: the number of objects of all variables, and their median size before compression."""
        sizes = sorted((v.bytes // max(v.objects, 1), v.objects) for v in self.variables if v.objects)
        count = sum(objects for _, objects in sizes)
        before = 0
        for size, objects in sizes:
            before += objects
            if 2 * before >= count:
                return count, size
        return 0, 0

    @property
    def seconds(self) -> float:
        """Seconds since the report was created."""
        return time.monotonic() - self._start

    def add(self, sources: Sequence[object], target: object, values: int) -> None:
        """Add a complete copy."""
        self.sources += len(sources)
        self.bytes_of_values += values
        sizes = [stored_bytes(source) for source in sources]
        out = stored_objects(target)
        known = self.bytes_in is not None and None not in sizes
        self.bytes_in = (self.bytes_in or 0) + sum(s or 0 for s in sizes) if known else None
        self.bytes_out = None if out is None or self.bytes_out is None else self.bytes_out + out.bytes
        if out is None or self.objects_out is None:
            self.objects_out = None
        else:
            self.objects_out = StoredObjects((*self.objects_out.sizes, *out.sizes))

    def to_json(self) -> dict[str, object]:
        """Return the report as a JSON object."""
        return {
            "sources": self.sources,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "bytes_of_values": self.bytes_of_values,
            **({} if self.objects_out is None else self.objects_out.to_json()),
            "seconds": round(self.seconds, 3),
            "variables": [v.to_json() for v in self.variables],
            "losses": self.losses,
            "allow": self.allow,
            "finished_before": self.finished_before,
        }

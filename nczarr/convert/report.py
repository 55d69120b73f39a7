"""Describe how variables are stored, and report the plan and the results of a copy."""

from __future__ import annotations

import math
import os
import posixpath
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, field
from itertools import groupby, islice, product
from typing import Any

import numpy as np

from nczarr.compression import NamedConfig, codec_name, filter_name
from nczarr.convert.verify.digests import bands
from nczarr.dataclass import dataclass
from nczarr.display import format_bytes
from nczarr.errors import error_context, suppress_reason
from nczarr.formats import files_below, local_path
from nczarr.mapping import VariableData
from nczarr.model import Dataset, Variable, describe_type
from nczarr.model.common_chunks import REQUESTED, WHOLE, ChunkLength
from nczarr.model.coordinates import MOST_PREVIEWED, preview
from nczarr.options import named, verb_named
from nczarr.stores import LocalStore, Store
from nczarr.transfer import value_bytes
from nczarr.zarr import Array, inner_codecs
from nczarr.zarr.chunk_keys import find_prefix

#: More objects than this are many if their median is below the small size.
_MANY_OBJECTS, _SMALL_OBJECT = 1000, 64 << 10
_LARGE_OBJECT = 256 << 20
#: Leading bits of the size of an object that its class keeps, and keys of a listing that are counted together.
_SIZE_BITS, _LISTED = 10, 1000

_Shape = tuple[int, ...]
_Number = int | float


@dataclass(frozen=True)
class _Form:
    """The form of one variable."""

    fqn: str
    type: str
    shape: _Shape
    chunks: _Shape | None
    shards: _Shape | None
    codecs: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        """Return the storage as a JSON object."""
        return asdict(self)


@dataclass(frozen=True)
class VariableStorage(_Form):
    """The storage of one variable; None for unknown properties, and for those that are expensive to compute.

    `values` is a preview: the first values and the last one.
    """

    value_bytes: int
    stored_bytes: int | None
    objects_stored: int | None
    objects: int | None
    minimum: _Number | None = None
    maximum: _Number | None = None
    missing: int | None = None
    values: str = ""

    @property
    def ratio(self) -> float | None:
        """The compression ratio: size of the values by size of the stored chunks."""
        return self.value_bytes / self.stored_bytes if self.stored_bytes else None

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "ratio": self.ratio}


def variable_storage(
    dataset: Dataset, *, stats: bool = False, near: bool = True
) -> Iterator[VariableStorage]:
    """Yield the storage of each variable; with `stats`, read all values for minimum, maximum and missing values.

    Unless the data are `near`, on a disk, previews show only coordinates of the root group with small chunks.
    """
    counts = _counted(
        {f: v.data.array for f, v in dataset.all_variables.items() if isinstance(v.data, VariableData)}
    )
    # Behind a server, each preview is a request.
    most = MOST_PREVIEWED if near else _SMALL_OBJECT
    for fqn, variable in dataset.all_variables.items():
        form, sizes = _stored(fqn, variable, counts)
        shape, kind, text = dataset.shape_of(variable), describe_type(variable.type), ""
        size = math.prod(shape) * value_bytes(variable.type.dtype)
        limits = _limits(variable, shape) if stats else (None, None, None)
        if variable.data is not None and (near or variable.dimensions == (f"/{variable.name}",)):
            text = preview(variable, variable.data, form[0], most)
        yield VariableStorage(fqn, kind, shape, *form, size, *sizes, *limits, text)


def array_form(data: VariableData) -> tuple[_Shape, _Shape | None, tuple[NamedConfig, ...]]:
    """Return the chunk shape, the shard shape (None without shards) and the codecs of the chunks of a Zarr array.

    The shapes have the dimensions of the variable, without further dimensions of the array.
    """
    array, rank = data.array, len(data.shape)
    chunks, codecs = tuple(array.inner_chunk_shape)[:rank], array.metadata.codecs
    if len(codecs) != 1 or codecs[0].name != "sharding_indexed":
        return chunks, None, codecs
    with error_context(array.store.url, fqn=data.fqn):
        return chunks, tuple(array.chunk_shape)[:rank], inner_codecs(codecs[0])


def _stored(
    fqn: str, variable: Variable, counts: Mapping[str, tuple[int | None, int | None]]
) -> tuple[tuple[_Shape | None, _Shape | None, tuple[str, ...]], tuple[int | None, int | None, int | None]]:
    """Return chunks, shards, codecs; and the size of the stored chunks, their number, and the number of all chunks."""
    data = variable.data
    if not isinstance(data, VariableData):
        filters = tuple(filter_name(f.id) for f in variable.storage.filters)
        ask = getattr(data, "stored_size", None)
        return (variable.storage.chunk_shape, None, filters), (None, None, None) if ask is None else ask()
    chunks, shards, codecs = array_form(data)
    return (chunks, shards, tuple(codec_name(c) for c in codecs)), (*counts[fqn], data.array.nchunks)


def _counted(arrays: Mapping[str, Array]) -> dict[str, tuple[int | None, int | None]]:
    """Return the size of the stored chunks of each array, and their number; None where a store does not tell them.

    One listing serves all arrays, and none of its keys is kept: 10⁸ of them would take 31 GB.
    """
    found: dict[str, tuple[int | None, int | None]] = dict.fromkeys(arrays, (None, None))
    # A listing for each variable took a request for each.
    for store in {id(a.store): a.store for a in arrays.values()}.values():
        own = {fqn: array for fqn, array in arrays.items() if array.store is store}
        # Without a listing, each chunk of the grid would be a request.
        if not store.lists_all:
            continue
        with suppress_reason("refused"):
            # A disk tells the size of a file at once; other stores without sizes in their listings need a request each.
            tells_sizes = store.lists_sizes or isinstance(store, LocalStore)
            counts = _count_chunks(store, own, tells_sizes)
            found |= {f: (size if tells_sizes else None, count) for f, (count, size) in counts.items()}
    return found


def _count_chunks(store: Store, arrays: Mapping[str, Array], tells_sizes: bool) -> dict[str, tuple[int, int]]:
    """Return the number of the stored chunks of each array of a store, and their size."""
    prefixes = {array.prefix: fqn for fqn, array in arrays.items()}
    above = posixpath.commonpath(list(prefixes))
    # One listing for all arrays; those of others below the same group are skipped.
    keys = store.sizes(above) if tells_sizes else ((key, 0) for key in store.list(above))

    counts = dict.fromkeys(arrays, (0, 0))
    while batch := list(islice(keys, _LISTED)):
        for prefix, group in groupby(batch, lambda pair: find_prefix(pair[0], prefixes)):
            if prefix is None:
                continue
            fqn, sizes = prefixes[prefix], dict(group)
            array = arrays[fqn]
            # The documents of an array are small, and not counted; a key outside the grid is no chunk.
            encoding, skip = array.metadata.chunk_key_encoding, len(array.prefix)
            indices = encoding.indices(sizes, array.grid_shape, skip=skip)
            count, total = counts[fqn]
            added = sum(sizes[array.chunk_key(index)] for index in indices)
            counts[fqn] = count + len(indices), total + added
    return counts


def _limits(variable: Variable, shape: _Shape) -> tuple[_Number | None, _Number | None, int | None]:
    data = variable.data
    if data is None or data.dtype.kind not in "iuf":
        return None, None, None
    attributes = [a for n in ("_FillValue", "missing_value") if (a := variable.attribute.get(n))]
    fills = [value for a in attributes if a.values.dtype.kind in "iuf" for value in a.values.tolist()]
    limits: list[_Number] = []
    missing = 0
    for region in bands(shape, data.dtype.itemsize, variable.storage.chunk_shape):
        values = data.read(region).reshape(-1)
        valid = ~np.isnan(values) if values.dtype.kind == "f" else np.ones(values.shape, bool)
        for fill in fills:
            valid &= values != fill
        missing += values.size - int(valid.sum())
        if (seen := values[valid]).size:
            limits += [seen.min().item(), seen.max().item()]
    return min(limits, default=None), max(limits, default=None), missing


@dataclass(frozen=True)
class StoredObjects:
    """The number and the sizes of the objects of a store: the files of a directory, or one file.

    Attributes
    ----------
    classes : mapping
        The number and the size of the objects by their size in three digits, so that 10⁸ of them take little memory.

    Examples
    --------
    >>> StoredObjects.of((10, 2000, 4000)).median
    2000
    >>> StoredObjects.of((4096,) * 5000).hint
    "many small objects: nczarr.copy(…, shards='auto') packs them"
    """

    classes: Mapping[int, tuple[int, int]]

    @classmethod
    def of(cls, sizes: Iterable[int]) -> StoredObjects:
        """Return objects of these sizes in bytes."""
        found: dict[int, tuple[int, int]] = {}
        for size in sizes:
            lost = max(0, size.bit_length() - _SIZE_BITS)
            count, total = found.get(size >> lost << lost, (0, 0))
            found[size >> lost << lost] = count + 1, total + size
        return cls(found)

    def __add__(self, other: StoredObjects) -> StoredObjects:
        """Return the objects of both."""
        found = dict(self.classes)
        for size, (count, total) in other.classes.items():
            mine = found.get(size, (0, 0))
            found[size] = mine[0] + count, mine[1] + total
        return StoredObjects(found)

    @property
    def count(self) -> int:
        """The number of objects."""
        return sum(count for count, _ in self.classes.values())

    @property
    def bytes(self) -> int:
        """The size of all objects."""
        return sum(total for _, total in self.classes.values())

    @property
    def median(self) -> int:
        """The median size of an object, in three digits; 0 without objects."""
        behind = self.count // 2
        for _, (count, total) in sorted(self.classes.items()):
            if behind < count:
                return total // count
            behind -= count
        return 0

    @property
    def hint(self) -> str | None:
        """Advice about too many objects, or about objects that are too large for object stores."""
        if self.count > _MANY_OBJECTS and self.median < _SMALL_OBJECT:
            return f"many small objects: {verb_named('copy', named('shards', 'auto'))} packs them"
        if self.count > 1 and self.median > _LARGE_OBJECT:
            return f"large objects: {verb_named('copy', named('chunks', 'auto'))} divides them"
        return None

    def __str__(self) -> str:
        """Return the number of objects and their median size; empty for a single file."""
        return f"{self.count} objects, median {format_bytes(self.median)}" if self.count > 1 else ""

    def to_json(self) -> dict[str, int]:
        """Return the number of objects and their median size."""
        return {"objects": self.count, "median_object_bytes": self.median}


def stored_objects(target: object) -> StoredObjects | None:
    """Return the objects of a local file or directory; None for everything else."""
    path = None if isinstance(target, Dataset) else local_path(target)
    if path is None or not os.path.lexists(path):
        return None
    # A walk of its own failed at a dangling link.
    files = files_below(os.fspath(path)) if path.is_dir() else [("", path.stat())]
    return StoredObjects.of(status.st_size for _, status in files)


# --- copies


@dataclass(frozen=True)
class PlannedVariable(_Form):
    """The planned storage of one variable.

    Attributes
    ----------
    objects : int
        Number of stored objects: chunks, or shards.
    bytes : int
        Size of the values before compression; 64 for each string or sequence.
    choices : dict
        The values of the options of :func:`nczarr.copy` that make this storage.
    """

    objects: int
    bytes: int
    choices: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        shards = f" in shards of {_shape(self.shards)}" if self.shards else ""
        codecs = " ".join(self.codecs) or "no filter"
        return (
            f"{self.fqn}: {self.type} {_shape(self.shape)}, chunks of {_shape(self.chunks)}{shards}, {codecs}, "
            f"{self.objects} objects, {self.bytes} bytes"
        )


def _shape(shape: _Shape | None) -> str:
    return "×".join(map(str, shape)) if shape else "one value"


@dataclass(frozen=True)
class AppendedSteps:
    """The steps that an append has added, or has written over.

    Parameters
    ----------
    dimension : str
        FQN.
    steps : int
    first, last : str or None
        The first step and the last one, times as dates; None without a coordinate.
    length : int
        The length of the dimension now.
    variables, of : int
        Number of variables that have got values of the sources, and of those that have the dimension, both without the
        coordinate and its bounds.

    Examples
    --------
    >>> print(AppendedSteps("/time", 4, "2026-10-31 00:00", "2026-10-31 18:00", 124, 3, 3))
    4 steps, 2026-10-31 00:00 to 18:00, length 124, 3 of 3 variables
    """

    dimension: str
    steps: int
    first: str | None
    last: str | None
    length: int
    variables: int
    of: int

    def __str__(self) -> str:
        parts = [f"{self.steps} step{'s' * (self.steps != 1)}"]
        if self.first is not None and self.last is not None:
            day, _, hour = self.last.partition(" ")
            last = hour if hour and self.first.startswith(f"{day} ") else self.last
            parts.append(self.first if self.steps == 1 else f"{self.first} to {last}")
        return ", ".join(
            [*parts, f"length {self.length}", f"{self.variables} of {self.of} variable{'s' * (self.of != 1)}"]
        )


def planned_variable(
    fqn: str, variable: Variable, shape: _Shape, data: object, objects: int
) -> PlannedVariable:
    """Return what an append has written of a variable: values of this shape, in the form of the stored ones."""
    chunks, shards, codecs = variable.storage.chunk_shape, None, tuple[str, ...]()
    if isinstance(data, VariableData):
        chunks, shards, found = array_form(data)
        codecs = tuple(codec_name(c) for c in found)
    elif variable.storage.filters:
        codecs = tuple(filter_name(f.id) for f in variable.storage.filters)
    size = math.prod(shape) * value_bytes(variable.type.dtype)
    return PlannedVariable(fqn, describe_type(variable.type), shape, chunks, shards, codecs, objects, size)


def written_objects(data: object, axis: int, first: int, last: int) -> tuple[int, int | None]:
    """Return the number of objects with steps of a variable, and their size; None for a size that is not known.

    The objects of an append are few beside those of the archive, which are not listed.
    """
    if not isinstance(data, VariableData) or not data.array.metadata.chunk_grid.is_regular:
        return 1, None
    array = data.array
    length = array.chunk_shape[axis]
    grid = [range(n) for n in array.grid_shape]
    grid[axis] = range(first // length, -(-last // length))
    count = math.prod(map(len, grid))
    # The size of each object would be a request.
    if not isinstance(array.store, LocalStore):
        return count, None
    size = 0
    for index in product(*grid):
        with suppress(FileNotFoundError):  # a chunk of fill values only
            size += os.stat(os.path.join(array.store.root, array.chunk_key(index))).st_size
    return count, size


@dataclass
class Report:
    """The results of a copy.

    Attributes
    ----------
    sources : int
        Number of sources.
    bytes_in, bytes_out : int or None
        Stored bytes of local sources and of the target, of an append only those that it has written; None if one is not
        local.
    bytes_of_values : int
        Size of the values before compression.
    seconds : float
    variables : list of PlannedVariable
        With ``dry_run``: the planned storage of each variable. Of an append: what it has written of each variable.
    appended : list of AppendedSteps
        Of an append: the steps.
    losses : list of str
        Parts of the sources that the output cannot represent.
    allow : list of str
        With ``virtual``: the directories to allow when the references are read, as they are not beside them.
    finished_before : int
        With ``resume``: number of copies that an earlier command had completed, and that were compared with their
        sources.
    skipped : int
        With ``append``: number of sources that the dataset contains already, as its record says.
    objects_out : StoredObjects or None
        The files of the targets; None if one is not local.
    chunks : list of ChunkLength
        The chunk lengths along the dimensions of Zarr arrays, and the reasons for them.
    read_otherwise : list of str
        The variables and attributes that xarray without nczarr reads otherwise from Zarr than from the netCDF file.

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
    skipped: int = 0
    appended: list[AppendedSteps] = field(default_factory=list)
    objects_out: StoredObjects | None = field(default_factory=lambda: StoredObjects({}))
    chunks: list[ChunkLength] = field(default_factory=list)
    read_otherwise: list[str] = field(default_factory=list)
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
    def chosen_chunks(self) -> str:
        """The chosen chunk lengths that divide their dimension, with the reasons; empty without any."""
        return "; ".join(dict.fromkeys(str(c) for c in self.chunks if c.reason not in (WHOLE, REQUESTED)))

    @property
    def seconds(self) -> float:
        """Seconds since the report was created."""
        return time.monotonic() - self._start

    def add(self, sources: Sequence[object], target: object, values: int) -> None:
        """Add a complete copy.

        Parameters
        ----------
        sources : sequence of object
        target : object
        values : int
            Bytes of the values.
        """
        self.sources += len(sources)
        self.bytes_of_values += values
        for stored in map(stored_objects, sources):
            total = self.bytes_in
            self.bytes_in = None if stored is None or total is None else total + stored.bytes
        out = stored_objects(target)
        if out is None or self.objects_out is None:
            self.bytes_out = self.objects_out = None
        else:
            self.objects_out = self.objects_out + out
            self.bytes_out = self.objects_out.bytes

    def add_steps(
        self,
        sources: Sequence[object],
        appended: Sequence[AppendedSteps],
        written: Sequence[PlannedVariable],
        stored: int | None,
    ) -> None:
        """Add a complete append.

        Parameters
        ----------
        sources : sequence of object
        appended : sequence of AppendedSteps
        written : sequence of PlannedVariable
            What was written of each variable.
        stored : int or None
            The stored size of that.
        """
        before = self.bytes_out
        self.add(sources, None, sum(v.bytes for v in written))
        self.bytes_out = None if stored is None or before is None else before + stored
        self.appended += appended
        self.variables += written

    def to_json(self) -> dict[str, object]:
        """Return the report as a JSON object."""
        return {
            **{n: getattr(self, n) for n in ("sources", "bytes_in", "bytes_out", "bytes_of_values")},
            **({} if self.objects_out is None else self.objects_out.to_json()),
            "seconds": round(self.seconds, 3),
            "variables": [v.to_json() for v in self.variables],
            "chunks": [c.to_json() for c in self.chunks],
            "losses": self.losses,
            "allow": self.allow,
            "finished_before": self.finished_before,
            "skipped": self.skipped,
            "appended": [asdict(steps) for steps in self.appended],
        }

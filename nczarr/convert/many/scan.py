"""Read the headers of many sources once, in parallel, and keep them in a scan file for later commands.

A header has the documents of an NCZarr dataset with the same model, the values of small variables, and the places of
all chunks. A scan file is a Parquet file with a row for each source.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate, count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nczarr import mapping
from nczarr.convert.endpoints import expand_sources, name_of, open_source, raise_all
from nczarr.errors import DatasetExistsError, NCZarrError, StoreError, UnsupportedError, error_context
from nczarr.formats import Kind, kind_of_source, local_path, state_of_file
from nczarr.model import STRING, Dataset, Filter, Storage, Variable, rewrite
from nczarr.stores import MemoryStore
from nczarr.system.atomic import Output
from nczarr.system.failures import writing
from nczarr.targets import allowing
from nczarr.text import missing_package
from nczarr.transfer import NoProgress, Progress, data_bytes, reporting

if TYPE_CHECKING:
    from nczarr.convert.engine import Engine
    from nczarr.netcdf.bytes.file import FilePlaces

#: Maximum size in bytes of the values of a variable that a header contains.
SMALL = 64 << 10
#: Number of sources of one task, and of a group of rows, which is in memory as a whole.
_BATCH, _GROUP = 16, 256
_MARK, _VERSION = b"nczarr_scan", b"1"
_AGAIN = "the same nczarr scan again reads what has changed"
_ANEW = "remove the scan file, and scan again"
_LISTED = 20


@dataclass(frozen=True)
class ScanRow:
    """A row of a scan file.

    Attributes
    ----------
    size, modified : int or None
        Size and modification time in nanoseconds of a local file.
    lost : str
        The parts of the source that nczarr cannot read, and the variables without data, as JSON.
    document : bytes
        The root document of the model, with consolidated metadata.
    values : list of dict
        Values of small variables.
    chunks : list of dict
        Places of chunks in the file: rows of index, offset and size, by variable.
    """

    source: str
    kind: str
    name: str
    size: int | None
    modified: int | None
    lost: str
    document: bytes
    values: Sequence[Mapping[str, Any]]
    chunks: Sequence[Mapping[str, Any]]

    @classmethod
    def read(cls, source: str, options: Mapping[str, object] | None) -> ScanRow:
        """Open a source, and read its header."""
        size, modified = state_of_file(source) or (None, None)
        with open_source(source, storage_options=options, fresh=True) as dataset:
            store = MemoryStore()
            empty = rewrite(dataset, variable=lambda fqn, v: v.with_data(None))
            kind = kind_of_source(source)
            how = mapping.WriteOptions(compression="source" if kind == "zarr" else "none")
            mapping.create_dataset(store, empty, how).commit()
            values, chunks, unbound = [], [], []
            for fqn, variable in dataset.all_variables.items():
                if variable.data is None:
                    unbound.append(fqn)
                elif (data := _small_values(dataset, fqn, variable)) is not None:
                    values.append({"fqn": fqn, "data": data})
                ask = getattr(variable.data, "chunk_places", None)
                if (places := None if ask is None else ask()) is not None:
                    chunks.append({"fqn": fqn, **_packed(places)})
            lost = json.dumps([dataset.left_out, dataset.gone, unbound])
            document = store.get("zarr.json") or b""
            return cls(source, kind, dataset.name, size, modified, lost, document, values, chunks)

    def model(self) -> tuple[Dataset, dict[str, np.ndarray]]:
        """Return the model, whose data have a shape but no values, and the values of small variables."""
        store = MemoryStore()
        store.set("zarr.json", self.document)
        store.lists_free = False  # it has the root's document alone, and the other nodes would be missing
        with _undamaged(self.source), mapping.open_dataset(store, consolidated=True) as stored:
            left_out, gone, unbound = json.loads(self.lost)
            dataset = replace(stored.dataset, name=self.name, left_out=tuple(left_out), gone=tuple(gone))
            dataset = rewrite(dataset, variable=lambda fqn, v: v.with_data(None) if fqn in unbound else v)
            # A join from a scan file took the header's lack of codecs for a request, and compressed nothing.
            if self.kind != "zarr":  # the codecs are those of the header, not of the file
                dataset = rewrite(
                    dataset, variable=lambda fqn, v: replace(v, storage=_without_arrays(v.storage))
                )
            known = {}
            for fqn, data in ((value["fqn"], value["data"]) for value in self.values):
                variable = dataset.all_variables[fqn]
                values = np.empty(dataset.shape_of(variable), variable.type.dtype)
                is_text = variable.type is STRING
                values.reshape(-1)[:] = json.loads(data) if is_text else np.frombuffer(data, values.dtype)
                known[fqn] = values
            return dataset, known

    def places(self, fqn: str) -> FilePlaces | None:
        """Return the places of the chunks of a variable in the file; None if its values are not stored in chunks."""
        from nczarr.netcdf.bytes.file import FilePlaces

        about = next((row for row in self.chunks if row["fqn"] == fqn), None)
        if about is None:
            return None
        with _undamaged(self.source):
            shape, filters, big_endian, skipped = json.loads(about["about"])
            rows = np.frombuffer(about["places"], "<i8").reshape(-1, len(shape) + 2)
        places = zip(map(tuple, rows[:, :-2].tolist()), map(tuple, rows[:, -2:].tolist()), strict=True)
        return FilePlaces(
            None,
            self.source,
            tuple(shape),
            tuple(Filter(number, tuple(parameters)) for number, parameters in filters),
            big_endian,
            dict(places),
            skipped,
        )


def _without_arrays(storage: Storage) -> Storage:
    """Return the storage of a variable without what only an array of Zarr has."""
    return replace(storage, codecs=None, array_chunks=None, shard_index=None, chunk_keys=None)


@contextmanager
def _undamaged(path: str) -> Iterator[None]:
    """Name the place of a damaged scan file."""
    try:
        yield
    except (ValueError, OSError, LookupError, TypeError) as error:  # pyarrow's errors are also these
        raise StoreError(f"the scan file is damaged: {error}", path=path, hint=_ANEW) from error


def _small_values(dataset: Dataset, fqn: str, variable: Variable) -> bytes | None:
    """Return the values of a variable that joining may compare; None for all others."""
    data = variable.data
    assert data is not None
    grows = fqn not in dataset.all_dimensions and any(map(dataset.is_unlimited, variable.dimensions))
    # A scan of a thousand files would have their values in memory.
    if grows or data_bytes(data) > SMALL or (data.dtype.hasobject and variable.type is not STRING):
        return None
    values = data.read(tuple(slice(0, n, 1) for n in data.shape))
    return json.dumps(values.reshape(-1).tolist()).encode() if data.dtype.hasobject else values.tobytes()


def _packed(places: FilePlaces) -> dict[str, Any]:
    filters = [(f.id, list(f.parameters)) for f in places.filters]
    about = json.dumps([places.shape, filters, places.big_endian, places.skipped])
    rows = np.array([(*index, *place) for index, place in places.places.items()], "<i8")
    return {"about": about, "places": rows.tobytes()}


def read_headers(
    sources: Iterable[str], options: Mapping[str, object] | None, engine: Engine | None
) -> Generator[ScanRow | NCZarrError]:
    """Yield the headers of sources, or their errors, in order; with an engine, its workers read them."""
    sources = list(sources)
    batches = [sources[i : i + _BATCH] for i in range(0, len(sources), _BATCH)]
    if engine is None:
        for batch in batches:
            yield from _read_batch(0, batch, options)
        return
    calls = ((number, batch, options) for number, batch in enumerate(batches))
    early: dict[int, list[ScanRow | NCZarrError]] = {}
    following = count()
    number = next(following)
    with closing(engine.run(_read_batch, calls)) as finished:
        for call, future in finished:
            early[call[0]] = engine.result(future, path=call[1][0])
            while number in early:
                yield from early.pop(number)
                number = next(following)


def _read_batch(
    number: int, sources: Sequence[str], options: Mapping[str, object] | None
) -> list[ScanRow | NCZarrError]:
    found: list[ScanRow | NCZarrError] = []
    for source in sources:
        try:
            with error_context(source):
                found.append(ScanRow.read(source, options))
        except NCZarrError as error:
            found.append(error)
    return found


class ScanFile:
    """A scan file that is read, some rows at a time."""

    def __init__(self, path: str) -> None:
        self.path = path
        parquet = _parquet(path)
        try:
            # A place with a flipped bit would lead to other bytes of a file.
            self._file = parquet.ParquetFile(path, page_checksum_verification=True)
            mark = (self._file.schema_arrow.metadata or {}).get(_MARK)
            # Any Parquet file has rows. This mark tells a scan file.
            if mark != _VERSION:
                raise ValueError("it has another version" if mark else "nczarr scan writes such files")
            rows = self._file.read(["source", "kind", "size", "modified"]).to_pydict()
        except (ValueError, OSError, KeyError) as error:  # pyarrow's errors are also these
            raise UnsupportedError(f"this is not a scan file: {error}", path=path) from error
        self.sources: list[str] = rows["source"]
        self.kinds: list[Kind] = rows["kind"]
        states = zip(rows["size"], rows["modified"], strict=True)
        self.states = [None if size is None else (size, modified) for size, modified in states]
        groups = range(self._file.metadata.num_row_groups)
        self._ends = list(accumulate(self._file.metadata.row_group(i).num_rows for i in groups))
        self._group, self._rows = -1, list[ScanRow]()

    def header(self, number: int) -> ScanRow:
        """Return a row."""
        group = bisect_right(self._ends, number)
        with _undamaged(self.path):
            if group != self._group:
                self._rows = [ScanRow(**row) for row in self._file.read_row_group(group).to_pylist()]
                self._group = group
            return self._rows[number - self._ends[group]]


class Scanned(str):
    """The name of a source that a scan file describes; a plain string in other processes."""

    __slots__ = ("number", "scan")
    scan: ScanFile
    number: int

    @classmethod
    def of(cls, scan: ScanFile, number: int) -> Scanned:
        """Return the name of a row."""
        found = cls(scan.sources[number])
        found.scan, found.number = scan, number
        return found

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


def with_scans(sources: Iterable[object]) -> list[object]:
    """Return sources with those of scan files in their place.

    Raises
    ------
    NCZarrError
        If files have changed since they were scanned.
    """
    found: list[object] = []
    for source in sources:
        path = local_path(source) if isinstance(source, str | os.PathLike) else None
        if path is None or path.suffix.lower() != ".parquet" or not path.is_file():
            found.append(source)
            continue
        scan = ScanFile(str(path))
        pairs = zip(scan.sources, scan.states, strict=True)
        # The places of chunks in a file that has changed lead to other bytes.
        changed = [name for name, state in pairs if state is not None and state_of_file(name) != state]
        if changed:
            more = f"\n  and {len(changed) - _LISTED} more" if len(changed) > _LISTED else ""
            raise NCZarrError(
                "files have changed since they were scanned:\n  " + "\n  ".join(changed[:_LISTED]) + more,
                path=str(path),
                hint=_AGAIN,
            )
        found += [Scanned.of(scan, number) for number in range(len(scan.sources))]
    return found


def kinds_of(sources: Iterable[object]) -> set[Kind]:
    """Return the formats of sources; a scan file tells them."""
    return {
        s.scan.kinds[s.number] if isinstance(s, Scanned) else kind_of_source(s)
        for s in sources
        if not isinstance(s, Dataset)
    }


def _parquet(path: str) -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise UnsupportedError(
            "scan files need pyarrow", path=path, hint=missing_package("pyarrow", "virtual")
        ) from None
    return parquet


def scan(
    sources: object,
    target: str | os.PathLike[str],
    *,
    source_options: Mapping[str, object] | None = None,
    allow: str | Sequence[str] = (),
    workers: int | None = None,
    executor: object = None,
    dask: object = None,
    progress: Progress | None = None,
) -> tuple[int, int]:
    """Read the headers of sources, and write them to a scan file, which stands for the sources in :func:`nczarr.copy`.

    Each source is opened once. If the scan file exists, only sources that are new or have changed are opened.

    Parameters
    ----------
    sources : str, path or sequence
        Names of netCDF files and Zarr hierarchies, and patterns such as ``in/*.nc``.
    target : str or path
        The scan file, ``NAME.parquet``.
    source_options : mapping, optional
        Options of the file systems of URLs.
    allow : str or sequence of str
        As for :func:`nczarr.copy`.
    workers : int, optional
        Number of processes of `executor` or `dask`; default: the number of processors, at most 8.
    executor, dask
        Who opens the sources, as for :func:`nczarr.copy`; default: this process.
    progress : Progress, optional
        Receives the sizes of the files.

    Returns
    -------
    (int, int)
        The number of sources in the file, and of those that were opened.

    Raises
    ------
    NCZarrError
        If sources cannot be read; the notes name all of them. The scan file stays as it was.

    Examples
    --------
    >>> import os, tempfile, nczarr
    >>> from nczarr.model import Dataset
    >>> folder = tempfile.mkdtemp()
    >>> _ = nczarr.copy(Dataset("a"), os.path.join(folder, "a.nc"))
    >>> scan(os.path.join(folder, "*.nc"), os.path.join(folder, "scan.parquet"))
    (1, 1)
    """
    from nczarr.convert.engine import open_engine

    path, where = Path(target), allowing(source_options, allow)
    if path.suffix.lower() != ".parquet":
        raise UnsupportedError("the name of a scan file ends in .parquet", path=str(path))
    names = [_absolute(source) for source in expand_sources(sources, where)]
    old: dict[str, int] = {}
    if path.exists():
        try:
            before = ScanFile(str(path))
        except UnsupportedError as error:
            # A table of the user under this name is never lost.
            raise DatasetExistsError(
                "this is something else than a scan file, and never overwritten", path=str(path)
            ) from error
        pairs = enumerate(zip(before.sources, before.states, strict=True))
        # A source behind a URL has no state to compare, and is read again.
        old = {name: i for i, (name, state) in pairs if state is not None and state_of_file(name) == state}
    new = [name for name in names if name not in old]
    errors: list[NCZarrError] = []
    sizes = {name: (state_of_file(name) or (1, 0))[0] for name in new}
    progress = progress or NoProgress()
    with (
        open_engine(executor, dask, workers or min(8, os.cpu_count() or 1), 1 << 30) as engine,
        reporting(progress, sum(sizes.values())),
        closing(read_headers(new, where, engine)) as fresh,
    ):

        def headers() -> Iterator[ScanRow]:
            for name in names:
                header = next(fresh) if name in sizes else before.header(old[name])
                if name in sizes:
                    progress.advance(sizes[name], name)
                if isinstance(header, NCZarrError):
                    errors.append(header)
                else:
                    yield header

        _write(path, headers(), errors)
    return len(names), len(new)


def _absolute(source: object) -> str:
    if not isinstance(source, str | os.PathLike):
        raise UnsupportedError("only sources with a name can be scanned", path=name_of(source))
    path = local_path(source)
    return str(source) if path is None else os.path.abspath(path)


def _write(path: Path, headers: Iterator[ScanRow], errors: list[NCZarrError]) -> None:
    parquet = _parquet(str(path))
    import pyarrow

    def structs(*columns: tuple[str, Any]) -> Any:
        return pyarrow.list_(pyarrow.struct(columns))

    text, number, data = pyarrow.string(), pyarrow.int64(), pyarrow.binary()
    columns = [("source", text), ("kind", text), ("name", text), ("size", number), ("modified", number)]
    columns += [("lost", text), ("document", data), ("values", structs(("fqn", text), ("data", data)))]
    columns += [("chunks", structs(("fqn", text), ("about", text), ("places", data)))]
    schema = pyarrow.schema(columns, metadata={_MARK: _VERSION})
    # An interrupted scan must not damage the file of an earlier one.
    output = Output(path)
    try:
        with (
            writing(str(path)),
            output.open() as content,
            parquet.ParquetWriter(content, schema, compression="zstd", write_page_checksum=True) as file,
        ):
            while rows := [vars(header) for header in islice(headers, _GROUP)]:
                file.write_table(pyarrow.Table.from_pylist(rows, schema))
        raise_all(errors)
        with writing(str(path)):
            output.commit()
    finally:
        output.discard()

"""Write datasets whose values stay in netCDF files: references to their chunks, in kerchunk's forms and in Icechunk.

The metadata documents are those of a copy. Each chunk is a reference: a file, an offset and a size. Values of chunks
are never read. The forms of kerchunk have the documents of Zarr v3 with the whole model, and those of v2 for readers
that know no other version (kerchunk's own engine for xarray). Both name the same chunks by the keys of v2.
"""

from __future__ import annotations

import base64
import json
import math
import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np

from nczarr.compression import FILTERS, NamedConfig, exact_codecs
from nczarr.convert.endpoints import name_of, overwriting
from nczarr.convert.many.joining import JoinedSource, StackedSource
from nczarr.convert.many.models import FilePart
from nczarr.errors import DatasetExistsError, NCZarrError, StoreError, UnsupportedError, error_context
from nczarr.formats import is_icechunk, is_references, local_path, state_of_file
from nczarr.mapping import StoredDataset, VariableData, WriteOptions, create_dataset, documents_v2
from nczarr.model import ArraySource, Dataset, Filter, Variable, rewrite
from nczarr.options import named
from nczarr.stores.reach import place_of
from nczarr.stores.referred import STATES, ReferenceStore
from nczarr.stores.remote.icechunk_forks import is_session_store
from nczarr.system.atomic import (
    create_directory,
    partial_path,
    refuse_unremovable,
    replace_directory,
    text_output,
)
from nczarr.system.durability import sync_folder_of, sync_tree
from nczarr.system.environment import limit, read_json
from nczarr.system.failures import writing
from nczarr.system.logs import logger_of
from nczarr.text import missing_package
from nczarr.transfer import data_bytes

if TYPE_CHECKING:
    from icechunk import IcechunkStore

#: The place of a chunk: path or URL of the file, offset, size.
Place = tuple[str, int, int]
#: Variables of at most this size in bytes are stored beside the references.
_INLINE = 4 << 10


class _NoGridError(UnsupportedError):
    """The chunks of several files are not those of one array."""


@dataclass(frozen=True)
class ReferredChunks:
    """The chunks of a variable in files.

    Attributes
    ----------
    shape : tuple of int
        The shape of a chunk.
    filters : tuple of Filter
        The filters, in the order of their application.
    places : mapping
        By the chunk's position in the grid. Chunks that were never written are absent.
    unwritten : tuple of ndarray
        A value of an absent chunk, from each file that has some.
    """

    shape: tuple[int, ...]
    filters: tuple[Filter, ...]
    big_endian: bool
    places: Mapping[tuple[int, ...], Place]
    unwritten: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class References:
    """A dataset, and references to the chunks of its larger variables.

    Attributes
    ----------
    dataset : Dataset
        Variables with references have the chunks and the codecs of the files, and no data.
    chunks : dict
        The references by FQN of the variable.
    """

    dataset: Dataset
    chunks: dict[str, ReferredChunks]

    @property
    def urls(self) -> list[str]:
        """Paths and URLs of all files, sorted."""
        return sorted({url for found in self.chunks.values() for url, _, _ in found.places.values()})

    def write_inline(self, stored: StoredDataset) -> None:
        """Write the values without references."""
        for fqn, variable in self.dataset.all_variables.items():
            if variable.data is not None and 0 not in variable.data.shape:
                region = tuple(slice(0, n, 1) for n in variable.data.shape)
                stored.write(fqn, region, variable.data.read(region))

    def places(self, stored: StoredDataset) -> Iterator[tuple[str, tuple[int, ...], Place]]:
        """Yield the path of the array, the position in the grid, and the place of each chunk.

        Raises
        ------
        UnsupportedError
            If absent chunks have another value in the files than the fill value of the array.
        """
        for fqn, found in self.chunks.items():
            array = stored.data(fqn).array
            fill = np.asarray(array.metadata.fill, array.dtype)
            # Readers take a chunk that is not there from the array's fill value.
            if any(value.tobytes() != fill.tobytes() for value in found.unwritten):
                raise UnsupportedError(
                    "chunks that were never written have another value than _FillValue", fqn=fqn
                )
            for index, place in found.places.items():
                yield array.path, index, place


def find_references(dataset: Dataset, source: object) -> References:
    """Find the chunks of all variables; `source` is the file, or the first of several.

    Raises
    ------
    UnsupportedError
        If a filter has no codec, a large variable has no chunks in a file, or the chunks of joined files do not form
        one grid.
    """
    chunks: dict[str, ReferredChunks] = {}
    stored: dict[str, Variable] = {}
    for fqn, variable in dataset.all_variables.items():
        with error_context(name_of(source), fqn=fqn):
            found = _chunks_of_variable(variable, source)
        if found is not None:
            chunks[fqn] = found
            dtype = variable.type.dtype
            endian = {"endian": "big" if found.big_endian else "little"}
            first = NamedConfig("bytes", endian) if dtype.itemsize > 1 else NamedConfig("bytes")
            codecs = (first, *(exact_codecs(found.filters, dtype.itemsize) or ()))
            storage = replace(variable.storage, array_chunks=found.shape, codecs=codecs)
            stored[fqn] = replace(variable, storage=storage, data=None)
    return References(rewrite(dataset, variable=lambda fqn, v: stored.get(fqn, v)), chunks)


def _chunks_of_variable(variable: Variable, source: object) -> ReferredChunks | None:
    data = variable.data
    # A request for a few bytes costs more than the bytes in the document.
    if data is None or data_bytes(data) <= _INLINE:
        return None
    # In a file, texts and sequences are pointers into a heap, which no codec follows.
    is_fixed = variable.type.value_type.is_atomic and variable.type.dtype.kind not in "OS"
    size, most = data_bytes(data), limit("NCZARR_MAX_INLINE_BYTES")
    cure = (
        f"NCZARR_MAX_INLINE_BYTES={size} stores these values beside the references; {named('exclude')} omits the "
        f"variable; a copy without {named('virtual')} has all values"
    )
    try:
        alone = _referred(variable) if is_fixed and is_references(source) else None
        found = alone or _chunks(data, source) if is_fixed else None
    # A time in chunks of 512 makes no grid over files of other lengths.
    except _NoGridError as error:
        if size <= most:
            logger_of(__name__).info("%s: %s; its values are stored beside", variable.name, error.message)
            return None
        error.hint = cure
        raise
    if found is None and size > most:
        raise UnsupportedError(
            f"the files do not store these {size} bytes in chunks, so that references are not possible",
            hint=cure,
        )
    return found


def _chunks(data: ArraySource, source: object) -> ReferredChunks | None:
    """Return the chunks of a source; None if its values are not stored in a file as they are."""
    if isinstance(data, StackedSource):
        inner = _chunks(data.inner, source)
        if inner is None:
            return None
        places = {(0, *index): place for index, place in inner.places.items()}
        return replace(inner, shape=(1, *inner.shape), places=places)
    if isinstance(data, JoinedSource):
        return _joined(data, source)
    if isinstance(data, FilePart):
        source = data.source
        if is_references(source):
            return _referred(data.stored)
    ask = getattr(data, "chunk_places", None)
    found = None if ask is None else ask()
    if found is None:
        return None
    if found.skipped:
        raise UnsupportedError("a chunk's filter mask is not zero; a reference cannot express that")
    unknown = [f.id for f in found.filters if exact_codecs([f], 1) is None]
    if unknown:
        raise UnsupportedError(f"the filter {unknown[0]} has no codec, so that references are not possible")
    path = local_path(source)
    url = str(source) if path is None else str(path.resolve())
    grid = [range(-(-n // c)) for n, c in zip(data.shape, found.shape, strict=True)]
    unwritten: tuple[np.ndarray, ...] = ()
    # HDF5 leaves out chunks of fill values, whose value a reader takes from the array.
    if len(found.places) != math.prod(map(len, grid)):
        missing = next(index for index in product(*grid) if index not in found.places)
        corner = tuple(slice(i * c, i * c + 1, 1) for i, c in zip(missing, found.shape, strict=True))
        unwritten = (np.asarray(data.read(corner)),)
    places = {index: (url, *place) for index, place in found.places.items()}
    return ReferredChunks(found.shape, found.filters, found.big_endian, places, unwritten)


def _referred(variable: Variable) -> ReferredChunks | None:
    """Return the chunks that other references name; None if these have some values themselves, or in another form."""
    data = variable.data
    if not isinstance(data, VariableData):
        return None
    array, store, filters = data.array, data.array.store, variable.storage.filters
    if not isinstance(store, ReferenceStore):
        return None
    first, *rest = array.metadata.codecs
    if first.name != "bytes" or tuple(rest) != tuple(exact_codecs(filters, array.dtype.itemsize) or ()):
        return None
    if not data.encoding.is_identity or not array.metadata.chunk_grid.is_regular:
        return None
    places: dict[tuple[int, ...], Place] = {}
    unwritten: tuple[np.ndarray, ...] = ()
    for index in product(*map(range, array.grid_shape)):
        found = store.located(array.chunk_key(index))
        if found is None:
            corner = tuple(slice(i * c, i * c + 1, 1) for i, c in zip(index, array.chunk_shape, strict=True))
            unwritten = unwritten or (np.asarray(data.read(corner)),)
        elif isinstance(found, bytes) or found[2] is None:
            return None
        else:
            places[index] = found[0], found[1], found[2]
    return ReferredChunks(
        array.chunk_shape, filters, first.configuration.get("endian") == "big", places, unwritten
    )


def _decoding(found: ReferredChunks) -> object:
    """Return all that a reader needs to decode the chunks: deflate and zstd need no level, shuffle the type alone."""
    known = (Filter.DEFLATE, Filter.ZSTD, Filter.SHUFFLE)
    filters = [(f.id, () if f.id in known else f.parameters) for f in found.filters]
    return found.shape, filters, found.big_endian


def _filters(found: ReferredChunks) -> str:
    names = [FILTERS[f.id].name if f.id in FILTERS else f"filter {f.id}" for f in found.filters]
    return f"{' and '.join(names) or 'no filter'} ({'big' if found.big_endian else 'little'} endian)"


def _joined(data: JoinedSource, source: object) -> ReferredChunks | None:
    places: dict[tuple[int, ...], Place] = {}
    unwritten: list[np.ndarray] = []
    first: ReferredChunks | None = None
    start = 0
    for number, part in enumerate(data.parts):
        where = getattr(part, "source", source)
        found = _chunks(part, where)
        if found is None:
            return None
        first = first or found
        step, length = first.shape[data.axis], part.shape[data.axis]
        with error_context(str(where)):
            if _decoding(found) != _decoding(first):
                raise _NoGridError(
                    f"the chunks are of {found.shape} with {_filters(found)}, in the first file of {first.shape} with "
                    f"{_filters(first)}; one array cannot have both"
                )
            if length % step and number < len(data.parts) - 1:
                raise _NoGridError(
                    f"{length} steps do not fill whole chunks of {step}, so that no references can follow"
                )
        for index, place in found.places.items():
            along = index[data.axis] + start // step
            places[(*index[: data.axis], along, *index[data.axis + 1 :])] = place
        unwritten += found.unwritten
        start += length
    return None if first is None else replace(first, places=places, unwritten=tuple(unwritten))


# --- writing

#: The key of the states of the files in both forms of kerchunk; other readers ignore it.
FILES = "nczarr_files"
#: Number of references of one variable in one Parquet file: fsspec's default.
RECORD = 10_000
#: A row of a Parquet file: the place of a chunk (path or URL, offset, size), or its bytes; the state of a local file.
Row = tuple[str | None, int, int, bytes | None, int, int]
_NOTHING: Row = (None, 0, 0, None, 0, 0)
#: A reference: the path of the array, the key of the chunk, and its place.
_Reference = tuple[str, str, Place]


def write_virtual(
    dataset: Dataset,
    source: object,
    target: object,
    unchanged: Callable[[], None],
    *,
    overwrite: bool = False,
) -> tuple[str, ...]:
    """Write references to the chunks of a dataset of netCDF files.

    Values without chunks in the files (strings, sequences, small variables) are stored beside the references.

    Parameters
    ----------
    source
        The file, or the first of several.
    target
        ``NAME.json``, ``NAME.parquet``, ``NAME.icechunk``, or the store of an Icechunk session.
    unchanged : callable
        Raises an error if a file has changed since it was opened.

    Returns
    -------
    tuple of str
        The directories to allow when the references are read, as they are not beside them.

    Raises
    ------
    UnsupportedError
        If the target has another form, a filter has no codec, or a large variable has no chunks in a file.
    DatasetExistsError
        If the target exists and `overwrite` is false, or if it is not a target of the same form.
    """
    if is_session_store(target):
        found = find_references(dataset, source)
        unchanged()
        _write_session(found, target)
        return ()
    path = local_path(target)
    write = None if path is None else _WRITERS.get(path.suffix.lower())
    if path is None or write is None:
        raise UnsupportedError(
            f"{named('virtual')}: references are written to NAME.json, NAME.parquet or NAME.icechunk",
            path=str(target),
            hint="Zarr itself has no references: readers would see fill values",
        )
    if path.exists():
        if not overwrite:
            raise DatasetExistsError("the target exists already", path=str(path), hint=overwriting())
        if path.is_dir() and not (is_references(path) or is_icechunk(path)):
            raise DatasetExistsError(
                "this directory has no references, so it is never overwritten", path=str(path)
            )
        if path.is_dir() == (write is _write_json):
            raise DatasetExistsError("this is not a target of the same form", path=str(path))
    if not path.absolute().parent.is_dir():
        raise StoreError("the directory for the references does not exist", path=str(path))
    found = find_references(dataset, source)
    # In a file that has changed meanwhile, the places lead to other bytes.
    unchanged()
    write(found, path)
    beside = place_of(os.path.dirname(os.path.realpath(path)))
    places = {place_of(url) for url in found.urls}
    return tuple(sorted({place.folder for place in places if not place.is_within(beside)}))


@contextmanager
def _new_directory(path: Path) -> Iterator[Path]:
    """Yield a temporary path for a directory that replaces `path` when it is complete."""
    partial = partial_path(path)
    try:
        with writing(str(path)):
            if path.is_dir():
                # An exchanged directory that cannot be removed would stay beside the new one.
                refuse_unremovable(path)
            create_directory(partial, path)
            yield partial
            if path.exists():
                replace_directory(partial, path, lambda: sync_tree(partial))
            else:
                # A rename may reach the disk before the bytes of the files.
                sync_tree(partial)
                os.rename(partial, path)
                sync_folder_of(path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


# --- kerchunk


def _write_json(found: References, path: Path) -> None:
    kept, chunks, _ = _contents(found)
    refs: dict[str, object] = {key: _text(value) for key, value in kept.items()}
    refs |= {key: list(place) for _, key, place in chunks}
    with text_output(path) as file:
        json.dump({"version": 1, "refs": refs, FILES: _states(found)}, file)


def _write_parquet(found: References, path: Path) -> None:
    """Write a directory as fsspec's ``LazyReferenceMapper`` reads it: documents in one file, references in many."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UnsupportedError(
            "references in Parquet files need pyarrow",
            path=str(path),
            hint=missing_package("pyarrow", "virtual"),
        ) from None
    columns = ("path", pyarrow.string()), ("offset", pyarrow.int64()), ("size", pyarrow.int64())
    states = [(name, pyarrow.int64()) for name in STATES]
    schema = pyarrow.schema([*columns, ("raw", pyarrow.binary()), *states])
    kept, chunks, grids = _contents(found)
    rows = _rows(kept, chunks, grids, _states(found))
    document = {
        "metadata": {key: read_json(value) for key, value in kept.items() if _is_document(key)},
        "record_size": RECORD,
        "protocols": sorted({url.partition("://")[0] if "://" in url else "file" for url in found.urls}),
        # The states are in the rows: this document is read at each opening, and a million files have 73 MB of them.
        FILES: {},
    }
    with _new_directory(path) as partial:
        (partial / ".zmetadata").write_text(json.dumps(document), "utf-8")
        for array, grid in grids.items():
            for record in range(-(-math.prod(grid) // RECORD)):
                folder = partial / array
                folder.mkdir(parents=True, exist_ok=True)
                written = rows.get((array, record), {})
                size = min(RECORD, math.prod(grid) - record * RECORD)
                table = zip(*(written.get(i, _NOTHING) for i in range(size)), strict=True)
                parquet.write_table(
                    pyarrow.table([list(column) for column in table], schema=schema),
                    folder / f"refs.{record}.parq",
                    compression="zstd",
                    use_dictionary=["path", *STATES],
                    # Without statistics, fastparquet reads the numbers as floats, because some might be missing.
                    write_statistics=["offset", "size", *STATES],
                )


def _rows(
    kept: dict[str, bytes],
    chunks: Iterable[_Reference],
    grids: dict[str, tuple[int, ...]],
    states: Mapping[str, tuple[int, int]],
) -> dict[tuple[str, int], dict[int, Row]]:
    """Return the rows by array and number of the Parquet file, and by number in the file."""
    rows: dict[tuple[str, int], dict[int, Row]] = defaultdict(dict)

    def put(array: str, key: str, row: Row) -> None:
        index = [int(part) for part in key.rpartition("/")[2].split(".")]
        number = 0
        for i, n in zip(index, grids[array] or (1,), strict=True):
            number = number * n + i
        rows[array, number // RECORD][number % RECORD] = row

    for array, key, place in chunks:
        put(array, key, (*place, None, *states.get(place[0], (0, 0))))
    for key, value in kept.items():
        if not _is_document(key):
            put(key.rpartition("/")[0], key, (None, 0, 0, bytes(value), 0, 0))
    return rows


def _contents(found: References) -> tuple[dict[str, bytes], list[_Reference], dict[str, tuple[int, ...]]]:
    """Return documents and inline values by key, the references, and the grid of each array."""
    kept: dict[str, bytes] = {}
    # The engine of kerchunk reads documents of Zarr v2 only, whose keys have dots.
    with create_dataset(kept, found.dataset, WriteOptions(chunk_keys="v2")) as stored:
        found.write_inline(stored)
        grids = {v.array.path: v.array.grid_shape for v in map(stored.data, stored.dataset.all_variables)}
        chunks = [
            (path, stored.hierarchy.array(path).chunk_key(index), place)
            for path, index, place in found.places(stored)
        ]
        older = documents_v2(stored)
    return kept | {key: json.dumps(value).encode() for key, value in older.items()}, chunks, grids


def _states(found: References) -> dict[str, tuple[int, int]]:
    """Return size and modification time of each local file, because uncompressed bytes do not show a change."""
    return {url: state for url in found.urls if (state := state_of_file(url)) is not None}


def _is_document(key: str) -> bool:
    return key.rpartition("/")[2] in ("zarr.json", ".zgroup", ".zarray", ".zattrs")


def _text(value: bytes) -> str:
    value = bytes(value)
    # A value that begins so would be decoded as base64 by readers.
    if value.isascii() and not value.startswith(b"base64:"):
        return value.decode("ascii")
    return "base64:" + base64.b64encode(value).decode("ascii")


# --- Icechunk


def _write_repository(found: References, path: Path) -> None:
    """Write a new repository with one commit.

    Its configuration names the directories of the files; readers allow them (``authorize_virtual_chunk_access``).
    """
    try:
        import icechunk
    except ImportError:
        raise UnsupportedError("this needs icechunk", path=str(path), hint="pip install icechunk") from None
    config = icechunk.RepositoryConfig.default()
    for folder in sorted({_container(url) for url in found.urls}):
        store = icechunk.local_filesystem_store(folder)
        config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(f"file://{folder}", store))
    with _new_directory(path) as partial:
        try:
            storage = icechunk.local_filesystem_storage(str(partial))
            repository = icechunk.Repository.create(storage, config)
            repository.save_config()
            session = repository.writable_session("main")
            _write_session(found, session.store)
            session.commit("nczarr copy --virtual")
        except icechunk.IcechunkError as error:
            raise StoreError(f"cannot write: {error}", path=str(path)) from error


def _write_session(found: References, store: IcechunkStore) -> None:
    """Write into the store of a session, which the caller commits."""
    from icechunk import VirtualChunkSpec

    with create_dataset(store, found.dataset, WriteOptions()) as stored:
        found.write_inline(stored)
        chunks = list(found.places(stored))
    changed = {url: _changed(url) for url in found.urls}
    specs = defaultdict(list)
    for path, index, (url, offset, size) in chunks:
        location = url if "://" in url else f"file://{quote(url)}"
        specs[path].append(VirtualChunkSpec(list(index), location, offset, size, None, changed[url]))
    for path, of_array in specs.items():
        try:
            refused = store.set_virtual_refs(f"/{path}", of_array, validate_containers=True)
        except Exception as error:
            raise NCZarrError(f"Icechunk refuses the references: {error}", path=f"/{path}") from error
        if refused:
            index = tuple(refused[0])
            raise UnsupportedError(
                "the Icechunk repository has no virtual chunk container for this file",
                path=next(s.location for s in of_array if tuple(s.index) == index),
                hint="RepositoryConfig.set_virtual_chunk_container",
            )


def _container(url: str) -> str:
    """Return the directory of a file, ending in a slash."""
    if "://" in url:
        raise UnsupportedError(
            "a new Icechunk repository refers to local files only",
            path=url,
            hint="create the repository with a container for them, and use the store of a session",
        )
    folder = os.path.dirname(url)
    if quote(folder) != folder:
        raise UnsupportedError(
            "Icechunk finds no files in a folder whose name URLs escape, for example with a blank or an accent",
            path=url,
            hint="NAME.json and NAME.parquet can refer to them",
        )
    return f"{folder}/"


def _changed(url: str) -> datetime | None:
    """Return the modification time of a local file, rounded up: Icechunk refuses chunks of files that are younger."""
    if "://" in url:
        return None
    return datetime.fromtimestamp(int(os.stat(url).st_mtime) + 1, UTC)


_WRITERS: dict[str, Callable[[References, Path], None]] = {
    ".json": _write_json,
    ".parquet": _write_parquet,
    # The suffix of kerchunk's examples.
    ".parq": _write_parquet,
    ".icechunk": _write_repository,
}

"""Continue interrupted copies, and recognise completed ones and the sources that a dataset contains already.

The unfinished dataset contains a record of the finished blocks, until it is complete. A block counts as finished only
if its stored values have the recorded checksum; if the source may have changed, the values of the source too.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Literal

import numpy as np

from nczarr.convert.endpoints import TargetFormat, name_of, sink_of
from nczarr.convert.verify.digests import canonical_bytes, header_digest
from nczarr.errors import DatasetNotFoundError, NCZarrError, StoreError, UnsupportedError
from nczarr.formats import files_below, kind_of_source, local_path
from nczarr.mapping import StoredDataset, open_dataset
from nczarr.mapping.dataset.destination import RECORD as MANIFEST
from nczarr.mapping.dataset.destination import UNFINISHED, is_zarr, record_keys, remove_record
from nczarr.model import Dataset, Region, Type
from nczarr.model.nodes import IngestedSource
from nczarr.options import named, verb_named
from nczarr.stores import LocalStore, MemoryStore, Store, open_store
from nczarr.system.atomic import remove_partial_values
from nczarr.system.environment import read_json
from nczarr.system.locks import Rank, make_lock
from nczarr.system.logs import logger_of
from nczarr.targets import fsspec_options
from nczarr.transfer import Block

NO_RECORD = "only a Zarr dataset of the layout nczarr-v3 has a place for the record"
#: Number of files that are read at the same time.
_TOGETHER = 8
#: Size of a part of the record, in bytes.
_PART = 1 << 20
#: Seconds between two writes of the record to a store that cannot append.
_SECONDS = 5.0
#: Properties of a file, in the words of file systems behind URLs, that change with its content.
_TAGS = (
    "etag", "last-modified", "lastmodified", "last_modified", "mtime", "updated", "created", "generation"
)  # fmt: skip


@dataclass(frozen=True)
class SourceFingerprint:
    """Identifies the copy of certain sources with certain options.

    Attributes
    ----------
    copy : str
        Hash of sources and options; of the metadata; and of sizes and modification times of local files.
    touched : str
        Hash of the inode change times of local files, which programs cannot set, and of the tags of remote files.
        Empty if a source has neither. If it differs, the sources may have changed although `copy` is equal.
    """

    copy: str
    touched: str


def fingerprint_of(
    dataset: Dataset, sources: Sequence[object], how: str, options: Mapping[str, object] | None
) -> SourceFingerprint:
    """Compute the fingerprint of the copy of a dataset with the copy options `how` and storage options `options`."""
    identity = hashlib.sha256(f"{header_digest(dataset)}\n{how}\n".encode("utf-8", "surrogateescape"))
    touched: list[str | None] = []
    for source in sources:
        path = None if isinstance(source, Dataset) else local_path(source)
        name = "memory" if isinstance(source, Dataset) else str(path.resolve() if path else source)
        identity.update(name.encode("utf-8", "surrogateescape"))
        files: list[tuple[str, os.stat_result]] = []
        if path is not None and path.is_file():
            files = [("", path.stat())]
        elif path is not None and path.is_dir():
            files = sorted(files_below(os.fspath(path)), key=itemgetter(0))
        else:
            touched.append(_tags(source, options) if path is None and isinstance(source, str) else None)
        for inside, status in files:
            line = f"{inside} {status.st_size} {status.st_mtime_ns}\n"
            identity.update(line.encode("utf-8", "surrogateescape"))
            # Programs set mtime, as rsync does. None sets ctime.
            touched.append(f"{status.st_ino} {status.st_ctime_ns}")
    # Without tags, nothing proves that a source is unchanged: its values are compared.
    if None in touched:
        return SourceFingerprint(identity.hexdigest(), "")
    tags = "\n".join(map(str, touched)).encode("utf-8", "surrogateescape")
    return SourceFingerprint(identity.hexdigest(), hashlib.sha256(tags).hexdigest())


def _tags(url: str, options: Mapping[str, object] | None) -> str | None:
    """Return the tags of the files behind a URL; None if a file has no tags, or the server lists no files."""
    from nczarr.stores.remote.fsspec_store import file_system

    try:
        fs, root = file_system(url, fsspec_options(url, options))
        # fsspec's listings of an earlier command would hide a change.
        fs.invalidate_cache()
        if kind_of_source(url) == "netcdf":
            found = {root: fs.info(root)}
        elif "http" in fs.protocol:  # the links of a page are not a listing
            return None
        else:
            found = fs.find(root, detail=True)
    except (NCZarrError, OSError, ValueError, NotImplementedError):
        return None
    lines = []
    for path, about in sorted(found.items()):
        tags = sorted(f"{key} {about[key]}" for key in about if key.lower() in _TAGS and about[key])
        if not tags:
            return None
        lines.append(f"{path} {about.get('size')} {tags}")
    return "\n".join(lines) or None


def _record_of(options: Mapping[str, object] | None, source: object) -> IngestedSource:
    """Return name, size and digest of a file; of other sources a text that changes with their content."""
    path = None if isinstance(source, Dataset) else local_path(source)
    if path is None or not path.is_file():
        if not isinstance(source, str | os.PathLike):
            return IngestedSource(name_of(source))
        found = fingerprint_of(Dataset("source"), [source], "", options)
        return IngestedSource(
            name_of(source), version=(found.touched if path is None else found.copy) or None
        )
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return IngestedSource(os.path.normpath(path), os.fstat(file.fileno()).st_size, digest)
    except OSError as error:
        raise StoreError(f"cannot read: {error.strerror}", path=str(path)) from error


def records_of(paths: Sequence[object], options: Mapping[str, object] | None) -> list[IngestedSource]:
    """Return the records of sources, without their steps."""
    with ThreadPoolExecutor(_TOGETHER, thread_name_prefix="nczarr-sources") as pool:
        return list(pool.map(partial(_record_of, options), paths))


def with_steps(
    records: Sequence[IngestedSource], paths: Sequence[object], joined: Dataset, first: int = 0
) -> tuple[IngestedSource, ...]:
    """Return the records of sources with their steps in the joined dataset, whose first step has the index `first`."""
    known = {source.name: source.steps for source in joined.sources}
    steps = [known.get(name_of(path)) for path in paths]
    return tuple(
        replace(record, steps=own and (own[0] + first, own[1] + first))
        for record, own in zip(records, steps, strict=True)
    )


def not_ingested(
    records: Sequence[IngestedSource], known: Sequence[IngestedSource], *, replace_steps: bool
) -> list[tuple[int, tuple[int, int] | None]]:
    """Return the numbers of the sources that a dataset does not contain, with the steps that an append has begun.

    Raises
    ------
    UnsupportedError
        If a source has the name of an ingested one, and other content.
    """
    by_name = {source.name: source for source in known}
    found: list[tuple[int, tuple[int, int] | None]] = []
    for number, record in enumerate(records):
        old = by_name.get(record.name)
        # A corrected file would be skipped in silence, or its steps appended twice.
        if old is not None and old.differs(record) and not replace_steps:
            raise UnsupportedError(
                "the dataset contains another version of this source",
                path=record.name,
                hint=f"{verb_named('append')} with {named('replace', True)} writes its steps anew; "
                f"{verb_named('join')} with {named('overwrite', True)} makes a new dataset",
            )
        if old is None or not old.is_same(record):
            found.append((number, old.steps if old is not None and old.is_begun(record) else None))
    return found


def losses_if_complete(
    target: object, dataset: Dataset, form: TargetFormat, storage_options: Mapping[str, object] | None
) -> tuple[str, ...] | None:
    """Return the losses of the layout if the target is a complete dataset of the same structure; else None.

    The arrays of the target are stored as a copy with the same options would store them. The caller compares
    attributes and values, to find out whether the target is a copy of the same source.
    """
    try:
        store = open_store(target, "r", storage_options)
    except DatasetNotFoundError:
        return None
    with store:
        if store.exists(UNFINISHED) or not is_zarr(store):
            return None
        memory = MemoryStore()
        planned = sink_of(memory, dataset, form)
        planned.commit()
        # Parse the planned documents too: some layouts have other words for the requested codecs.
        with (
            open_dataset(memory, consolidated=False) as expected,
            open_dataset(store, consolidated=False) as stored,
        ):
            variables = expected.dataset.all_variables
            if expected.layout != stored.layout or variables.keys() - stored.dataset.all_variables.keys():
                return None
            stored_as = attrgetter("shape", "chunk_grid", "data_type", "codecs")
            pairs = (
                [stored_as(side.data(fqn).array.metadata) for side in (expected, stored)] for fqn in variables
            )
            return None if any(a != b for a, b in pairs) else getattr(planned, "losses", ())


def checksum(values: np.ndarray, type_: Type) -> int:
    """Return a checksum of values."""
    if not values.dtype.hasobject:
        return zlib.crc32(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)
    return zlib.crc32(canonical_bytes(values, type_))


class Manifest:
    """The record of the finished blocks of an unfinished copy, one line of JSON each after a first line.

    It has several parts of bounded size: each process begins a part, and stores that cannot append get the whole last
    part again.
    """

    def __init__(self, store: Store, fingerprint: SourceFingerprint) -> None:
        self._store = store
        first = {"nczarr-blocks": 1, "fingerprint": fingerprint.copy, "touched": fingerprint.touched}
        self._first = json.dumps(first)
        self._lock = make_lock(Rank.OWNER)
        self._file: int | None = None
        self._number = len(record_keys(store))
        self._begin()

    @classmethod
    def load(cls, store: Store, fingerprint: SourceFingerprint) -> Iterator[tuple[str, Region, int, bool]]:
        """Yield the finished blocks: FQN, region, checksum, and whether the sources are certainly unchanged since.

        Raises
        ------
        UnsupportedError
            If the record has another fingerprint.
        """
        for key in record_keys(store):
            lines = (store.get(key) or b"").decode("utf-8", "surrogateescape").split("\n")
            with suppress(ValueError, KeyError, TypeError):  # a kill truncated the last line
                first = read_json(lines[0])
                if first["fingerprint"] != fingerprint.copy:
                    raise UnsupportedError(
                        "the unfinished copy has another source or other options, or its source has changed",
                        path=store.url,
                        hint=f"{named('overwrite', True)} starts a new copy",
                    )
                unchanged = bool(fingerprint.touched) and first.get("touched") == fingerprint.touched
                for line in lines[1:]:
                    fqn, starts, stops, crc = read_json(line)
                    region = tuple(slice(a, b, 1) for a, b in zip(starts, stops, strict=True))
                    yield fqn, region, crc, unchanged

    def _begin(self) -> None:
        """Begin a part."""
        self.close()
        self._key = f"{MANIFEST}.{self._number}" if self._number else MANIFEST
        self._number += 1
        self._lines, self._size = [self._first], 0
        self._flush()
        # A file takes one more line in one write. An object is written as a whole each time, so less
        # often.
        if isinstance(self._store, LocalStore):
            self._file = os.open(os.path.join(self._store.root, self._key), os.O_WRONLY | os.O_APPEND)

    def add(self, fqn: str, region: Region, crc: int) -> None:
        """Record a written block."""
        line = json.dumps([fqn, [s.start for s in region], [s.stop for s in region], crc])
        with self._lock:
            self._size += len(line)
            if self._file is not None:
                os.write(self._file, f"{line}\n".encode("utf-8", "surrogateescape"))
            else:
                self._lines.append(line)
                if self._size > _PART or time.monotonic() - self._written > _SECONDS:
                    self._flush()
            if self._size > _PART:
                self._begin()

    def _flush(self) -> None:
        self._store.set(self._key, ("\n".join(self._lines) + "\n").encode("utf-8", "surrogateescape"))
        self._written = time.monotonic()

    def keep(self) -> None:
        """Write pending lines, and close."""
        with self._lock:
            if self._file is None:
                self._flush()
        self.close()

    def remove(self) -> None:
        """Delete the record, because the copy is complete or removed."""
        self.close()
        remove_record(self._store)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def state_of_target(
    target: object, fingerprint: SourceFingerprint, options: Mapping[str, object] | None
) -> Literal["resumable", "unknown"] | None:
    """Return ``resumable`` if the target is an unfinished copy with this fingerprint, ``unknown`` if it has no record.

    Returns
    -------
    str or None
        None if the target is not an unfinished dataset.

    Raises
    ------
    UnsupportedError
        If it is an unfinished copy with another fingerprint.
    """
    try:
        with open_store(target, "r", options) as store:
            if not store.exists(UNFINISHED):
                return None
            if not store.exists(MANIFEST):
                return "unknown"
            next(Manifest.load(store, fingerprint), None)
            return "resumable"
    except DatasetNotFoundError:
        return None


class Recording:
    """A sink that records each written block, and skips the finished blocks of an earlier run."""

    concurrent = True

    def __init__(self, stored: StoredDataset, source: Dataset, fingerprint: SourceFingerprint) -> None:
        self.stored = stored
        self._types = {fqn: v.type for fqn, v in stored.dataset.all_variables.items()}
        store = stored.store
        # A kill leaves temporary files of chunks.
        if isinstance(store, LocalStore):
            remove_partial_values(Path(store.root))
        self._finished = _verified(stored, Manifest.load(store, fingerprint), source)
        kept = sum(int(grid.sum()) for grid in self._finished.values())
        logger_of(__name__).info("%s: %d blocks of an earlier run are kept", store.url, kept)
        self.manifest = Manifest(store, fingerprint)

    def remaining(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Yield the blocks that are not finished."""
        for fqn, region, data in blocks:
            found = self._finished.get(fqn)
            if found is None or not found[_cells(region, self.write_shape(fqn))].all():
                yield fqn, region, data

    def write_shape(self, fqn: str) -> tuple[int, ...]:
        return self.stored.write_shape(fqn)

    def write(self, fqn: str, region: Region, values: np.ndarray) -> None:
        crc = checksum(values, self._types[fqn])
        self.stored.write(fqn, region, values)
        self.manifest.add(fqn, region, crc)

    def commit(self) -> None:
        """Complete the dataset.

        The record is deleted last: if the process is killed before, the next run has nothing left to copy.
        """
        self.stored.publish()
        self.manifest.remove()
        self.stored.commit()

    def abort(self) -> None:
        """Remove everything written."""
        self.manifest.close()
        self.stored.abort()


def _cells(region: Region, shape: tuple[int, ...]) -> tuple[slice, ...]:
    """Return the cells of a region in the grid of the blocks of a sink."""
    return tuple(slice(s.start // n, -(-s.stop // n)) for s, n in zip(region, shape, strict=True))


def _verified(
    stored: StoredDataset, listed: Iterable[tuple[str, Region, int, bool]], source: Dataset
) -> dict[str, np.ndarray]:
    """Return by FQN which cells of the grid of blocks are finished: their stored values have the recorded checksum.

    If the sources may have changed, their values must have it, too.
    """
    verified: dict[str, np.ndarray] = {}
    for fqn, region, crc, unchanged in listed:
        variable = stored.dataset.all_variables.get(fqn)
        if variable is None:
            continue
        shape, blocks = stored.dataset.shape_of(variable), stored.write_shape(fqn)
        axes = list(zip(region, shape, blocks, strict=True))
        # The record may have blocks of another size. Half a block is not finished.
        if any(s.start % block or (s.stop % block and s.stop != n) for s, n, block in axes):
            continue
        data = None if unchanged else source.all_variables[fqn].data
        try:
            # The record may be on the disk before the values are: a loss of power keeps writes in any
            # order.
            if checksum(stored.data(fqn).read(region), variable.type) != crc:
                continue
        except NCZarrError:
            continue
        if data is None or checksum(data.read(region), variable.type) == crc:
            grid = [-(-n // block) for _, n, block in axes]
            verified.setdefault(fqn, np.zeros(grid, bool))[_cells(region, blocks)] = True
    return verified

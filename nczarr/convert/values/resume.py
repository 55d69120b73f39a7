"""Record the finished blocks of a copy, so that one that was killed can go on.

The record stands in the unfinished dataset and goes when that is complete. A block in it is believed only after its
values were read again and have the checksum that was noted.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from nczarr.atomic import remove_partial_values
from nczarr.convert.verify import canonical_bytes, header_digest
from nczarr.errors import DatasetNotFoundError, NCZarrError, StoreError, UnsupportedError
from nczarr.formats import local_path
from nczarr.mapping import StoredDataset
from nczarr.mapping.guarding import RECORD as MANIFEST
from nczarr.mapping.guarding import UNFINISHED
from nczarr.model import Dataset, Region, Type
from nczarr.stores import LocalStore, Store, open_store
from nczarr.transfer import Block, Progress

#: Blocks by FQN and start: the region, and the checksum of its values.
Blocks = dict[tuple[str, tuple[int, ...]], tuple[Region, int]]
#: How often the record of a store that cannot append is written.
_SECONDS = 5.0


def fingerprint(dataset: Dataset, sources: Sequence[Any], how: str) -> str:
    """Return what tells a source, and what is made of it, from others.

    Files, and those in a directory, are known by size and time of change, everything by its metadata.
    """
    made = hashlib.sha256(f"{header_digest(dataset)}\n{how}\n".encode("utf-8", "surrogateescape"))
    for source in sources:
        path = None if isinstance(source, Dataset) else local_path(source)
        name = "memory" if isinstance(source, Dataset) else str(path.resolve() if path else source)
        made.update(name.encode("utf-8", "surrogateescape"))
        if path is not None and path.is_file():
            status = path.stat()
            made.update(f" {status.st_size} {status.st_mtime_ns}".encode())
        elif path is not None and path.is_dir():
            for line in sorted(_files_below(os.fspath(path), "")):
                made.update(line.encode("utf-8", "surrogateescape"))
    return made.hexdigest()


def _files_below(folder: str, inside: str) -> Iterator[str]:
    """A line for each file below a directory."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = f"{inside}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    yield from _files_below(entry.path, name)
                    continue
                try:
                    status = entry.stat()
                except FileNotFoundError:  # a link to nothing, or removed just now
                    continue
                yield f"{name} {status.st_size} {status.st_mtime_ns}\n"
    except OSError as error:
        raise StoreError(f"cannot list: {error.strerror}", path=folder) from error


def checksum(values: np.ndarray, type_: Type) -> int:
    """Return a checksum of values."""
    if not values.dtype.hasobject:
        return zlib.crc32(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)
    return zlib.crc32(canonical_bytes(values, type_))


class Manifest:
    """The finished blocks of an unfinished copy into a store."""

    def __init__(self, store: Store, mark: str) -> None:
        self._store = store
        self._lines = [json.dumps({"nczarr-blocks": 1, "fingerprint": mark})]
        self._lock = threading.Lock()
        self._file: int | None = None
        self._written = 0.0
        self._path = os.path.join(store.root, MANIFEST) if isinstance(store, LocalStore) else None

    @classmethod
    def load(cls, store: Store, mark: str) -> Blocks:
        """Return the finished blocks of a store, by FQN and start: their regions and checksums.

        Raises
        ------
        UnsupportedError
            If they are those of another copy.
        """
        text = store.get(MANIFEST)
        if text is None:
            return {}
        found: Blocks = {}
        lines = text.decode("utf-8", "surrogateescape").split("\n")
        try:
            if json.loads(lines[0])["fingerprint"] != mark:
                raise UnsupportedError(
                    "the unfinished copy is of another source, or of one that has changed, or has other options",
                    path=store.url,
                    hint="--overwrite starts anew",
                )
            for line in lines[1:]:
                fqn, starts, stops, crc = json.loads(line)
                region = tuple(slice(a, b, 1) for a, b in zip(starts, stops, strict=True))
                found[fqn, tuple(starts)] = region, crc
        except (ValueError, KeyError, TypeError):
            pass  # the last line was cut off by the kill
        return found

    def begin(self, kept: Blocks) -> None:
        """Start the record, with blocks that are kept from an earlier copy."""
        for (fqn, _), (region, crc) in kept.items():
            self._lines.append(_line(fqn, region, crc))
        self._flush()
        if self._path is not None:
            self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND)

    def add(self, fqn: str, region: Region, crc: int) -> None:
        """Record a block that is written."""
        line = _line(fqn, region, crc)
        with self._lock:
            if self._file is not None:
                os.write(self._file, f"{line}\n".encode("utf-8", "surrogateescape"))
                return
            self._lines.append(line)
            if time.monotonic() - self._written > _SECONDS:
                self._flush()

    def _flush(self) -> None:
        self._store.set(MANIFEST, ("\n".join(self._lines) + "\n").encode("utf-8", "surrogateescape"))
        self._written = time.monotonic()

    def keep(self) -> None:
        """Write what is not written yet, and close."""
        with self._lock:
            if self._file is None:
                self._flush()
        self.close()

    def remove(self) -> None:
        """Remove the record: the copy is complete, or all of it goes."""
        self.close()
        self._store.delete(MANIFEST)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _line(fqn: str, region: Region, crc: int) -> str:
    return json.dumps([fqn, [s.start for s in region], [s.stop for s in region], crc])


def state(target: Any, mark: str, options: Mapping[str, Any] | None) -> Literal["known", "unknown"] | None:
    """Say whether the unfinished dataset at a target is the one that a copy makes; None if there is none.

    Raises
    ------
    UnsupportedError
        If it is another one.
    """
    try:
        with open_store(target, "r", dict(options) if options else None) as store:
            if not store.exists(UNFINISHED):
                return None
            return "known" if store.exists(MANIFEST) and Manifest.load(store, mark) is not None else "unknown"
    except DatasetNotFoundError:
        return None


class Recording:
    """A sink that records each block that it has written, and knows those of an earlier copy."""

    concurrent = True

    def __init__(self, stored: StoredDataset, mark: str) -> None:
        self.stored = stored
        self._types = {fqn: v.type for fqn, v in stored.dataset.all_variables.items()}
        store = stored.store
        if isinstance(store, LocalStore):  # what a killed writer left half-written
            remove_partial_values(Path(store.root))
        self._finished = _believed(stored, Manifest.load(store, mark))
        self.manifest = Manifest(store, mark)
        self.manifest.begin(self._finished)

    def remaining(self, blocks: Iterable[Block], progress: Progress) -> Iterator[Block]:
        """Yield the blocks that are not finished."""
        for fqn, region, data in blocks:
            found = self._finished.get((fqn, tuple(s.start for s in region)))
            if found is None or found[0] != region:
                yield fqn, region, data

    def write_shape(self, fqn: str) -> tuple[int, ...]:
        return self.stored.write_shape(fqn)

    def write(self, fqn: str, region: Region, values: np.ndarray) -> None:
        crc = checksum(values, self._types[fqn])
        self.stored.write(fqn, region, values)
        self.manifest.add(fqn, region, crc)

    def note(self, fqn: str, region: Region, crc: int) -> None:
        """Record a block that another process has written."""
        self.manifest.add(fqn, region, crc)

    def commit(self) -> None:
        """Make the dataset complete.

        The record goes last: whoever is killed before that goes on, and has nothing to do again.
        """
        self.stored.publish()
        self.manifest.remove()
        self.stored.commit()

    def abort(self) -> None:
        """Remove all that was written."""
        self.manifest.close()
        self.stored.abort()


def _believed(stored: StoredDataset, listed: Blocks) -> Blocks:
    """The listed blocks whose values are really there."""
    kept: Blocks = {}
    for (fqn, start), (region, crc) in listed.items():
        if fqn not in stored.dataset.all_variables:
            continue
        try:
            values = stored.data(fqn).read(region)
        except NCZarrError:
            continue
        if checksum(values, stored.dataset.all_variables[fqn].type) == crc:
            kept[fqn, start] = region, crc
    return kept

"""Record the finished blocks of a copy, so that one that was killed can go on.

The record stands in the unfinished dataset and goes when that is complete. A block in it is believed only after its
values were read again and have the checksum that was noted, and those of a source that may have changed, too.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from nczarr.convert.values.marks import Mark
from nczarr.convert.verify.digests import canonical_bytes
from nczarr.errors import DatasetNotFoundError, NCZarrError, UnsupportedError
from nczarr.mapping import StoredDataset
from nczarr.mapping.guarding.destination import RECORD as MANIFEST
from nczarr.mapping.guarding.destination import UNFINISHED
from nczarr.model import Dataset, Region, Type
from nczarr.stores import LocalStore, Store, open_store
from nczarr.system.atomic import remove_partial_values
from nczarr.system.environment import read_json
from nczarr.system.locks import Rank, make_lock
from nczarr.transfer import Block, Progress

#: Blocks by FQN and start: the region, and the checksum of its values.
Blocks = dict[tuple[str, tuple[int, ...]], tuple[Region, int]]
#: How often the record of a store that cannot append is written.
_SECONDS = 5.0


def checksum(values: np.ndarray, type_: Type) -> int:
    """Return a checksum of values."""
    if not values.dtype.hasobject:
        return zlib.crc32(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)
    return zlib.crc32(canonical_bytes(values, type_))


class Manifest:
    """The finished blocks of an unfinished copy into a store."""

    def __init__(self, store: Store, mark: Mark) -> None:
        self._store = store
        first = {"nczarr-blocks": 1, "fingerprint": mark.copy, "touched": mark.touched}
        self._lines = [json.dumps(first)]
        self._lock = make_lock(Rank.OWNER)
        self._file: int | None = None
        self._written = 0.0
        self._path = os.path.join(store.root, MANIFEST) if isinstance(store, LocalStore) else None

    @classmethod
    def load(cls, store: Store, mark: Mark) -> tuple[Blocks, bool]:
        """Return the finished blocks of a store, by FQN and start, and whether the source is certainly as it was.

        Raises
        ------
        UnsupportedError
            If they are those of another copy.
        """
        text = store.get(MANIFEST)
        if text is None:
            return {}, True
        found: Blocks = {}
        same = False
        lines = text.decode("utf-8", "surrogateescape").split("\n")
        try:
            first = read_json(lines[0])
            if first["fingerprint"] != mark.copy:
                raise UnsupportedError(
                    "the unfinished copy is of another source, or of one that has changed, or has other options",
                    path=store.url,
                    hint="--overwrite starts anew",
                )
            same = bool(mark.touched) and first.get("touched") == mark.touched
            for line in lines[1:]:
                fqn, starts, stops, crc = read_json(line)
                region = tuple(slice(a, b, 1) for a, b in zip(starts, stops, strict=True))
                found[fqn, tuple(starts)] = region, crc
        except (ValueError, KeyError, TypeError):
            pass  # the last line was cut off by the kill
        return found, same

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


def state(target: Any, mark: Mark, options: Mapping[str, Any] | None) -> Literal["known", "unknown"] | None:
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
            if not store.exists(MANIFEST):
                return "unknown"
            Manifest.load(store, mark)
            return "known"
    except DatasetNotFoundError:
        return None


class Recording:
    """A sink that records each block that it has written, and knows those of an earlier copy."""

    concurrent = True

    def __init__(self, stored: StoredDataset, source: Dataset, mark: Mark) -> None:
        self.stored = stored
        self._types = {fqn: v.type for fqn, v in stored.dataset.all_variables.items()}
        store = stored.store
        if isinstance(store, LocalStore):  # what a killed writer left half-written
            remove_partial_values(Path(store.root))
        listed, same = Manifest.load(store, mark)
        self._finished = _believed(stored, listed, None if same else source)
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


def _believed(stored: StoredDataset, listed: Blocks, source: Dataset | None) -> Blocks:
    """The listed blocks whose values are really there, and still those of the source, if one is given."""
    kept: Blocks = {}
    for (fqn, start), (region, crc) in listed.items():
        if fqn not in stored.dataset.all_variables:
            continue
        type_ = stored.dataset.all_variables[fqn].type
        given = None if source is None else source.all_variables[fqn].data
        try:
            if checksum(stored.data(fqn).read(region), type_) != crc:
                continue
        except NCZarrError:
            continue
        if given is None or checksum(given.read(region), type_) == crc:
            kept[fqn, start] = region, crc
    return kept

"""Record the sources of a dataset, and recognise those that it contains already."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from nczarr.convert.endpoints import name_of
from nczarr.convert.values.resume import fingerprint_of
from nczarr.errors import StoreError, UnsupportedError
from nczarr.formats import local_path
from nczarr.model import Dataset
from nczarr.model.nodes import IngestedSource

NO_RECORD = "--record-sources: only a Zarr dataset of the layout nczarr-v3 has a place for the record"
#: Number of files that are read at the same time.
_TOGETHER = 8


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
        same = None if old is None else old.is_same(record)
        if same is False and not replace_steps:
            raise UnsupportedError(
                "the dataset contains another version of this source",
                path=record.name,
                hint="--append --replace writes its steps anew; copy --overwrite makes a new dataset",
            )
        if not same:
            found.append((number, old.steps if old is not None and old.is_begun(record) else None))
    return found

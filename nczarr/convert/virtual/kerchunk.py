"""Write references in kerchunk's two forms: one JSON file, or a directory of Parquet files.

Both have the documents of Zarr v3 with the whole model, and those of v2 for readers that know no other (kerchunk's own
engine for xarray). The two name the same chunks: the keys are v2's.
"""

from __future__ import annotations

import base64
import json
import math
import os
import shutil
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from nczarr.convert.virtual.places import Place
from nczarr.convert.virtual.references import Virtual
from nczarr.errors import StoreError, UnsupportedError
from nczarr.formats import state_of_file
from nczarr.mapping import create_dataset, documents_v2
from nczarr.system.atomic import partial_path, replace_directory, text_output
from nczarr.system.durability import sync_folder_of, sync_tree
from nczarr.system.environment import read_json

#: Where both forms say what the files were when they were referred to; others pass over it.
FILES = "nczarr_files"
#: References of one variable that are in one Parquet file.
RECORD = 10_000
#: Of one chunk: the path or URL of the file with its bytes, their offset and number; or the bytes themselves.
Row = tuple[str | None, int, int, bytes | None]
_NOTHING: Row = (None, 0, 0, None)


def write_json(found: Virtual, path: Path) -> None:
    """Write ``refs.json``."""
    kept, chunks, _ = _contents(found)
    refs: dict[str, Any] = {key: _text(value) for key, value in kept.items()}
    refs |= {key: list(place) for _, key, place in chunks}
    with text_output(path) as file:
        json.dump({"version": 1, "refs": refs, FILES: _states(chunks)}, file)


def write_parquet(found: Virtual, path: Path) -> None:
    """Write a directory as fsspec's ``LazyReferenceMapper`` reads it: documents in one file, chunks in many.

    Raises
    ------
    UnsupportedError
        If no package for Parquet is installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UnsupportedError(
            "references in Parquet files need pyarrow", path=str(path), hint="pip install pyarrow"
        ) from None
    fields = {
        "path": pyarrow.string(),
        "offset": pyarrow.int64(),
        "size": pyarrow.int64(),
        "raw": pyarrow.binary(),
    }
    schema = pyarrow.schema(list(fields.items()))
    kept, chunks, grids = _contents(found)
    documents = {key: read_json(value) for key, value in kept.items() if _is_document(key)}
    rows = _rows(kept, chunks, grids)
    protocols = sorted({url.partition("://")[0] if "://" in url else "file" for _, _, (url, _, _) in chunks})
    partial = partial_path(path)
    try:
        partial.mkdir()
        document = {
            "metadata": documents,
            "record_size": RECORD,
            "protocols": protocols,
            FILES: _states(chunks),
        }
        (partial / ".zmetadata").write_text(json.dumps(document), "utf-8")
        for array, grid in grids.items():
            for record in range(-(-math.prod(grid) // RECORD)):
                folder = partial / array
                folder.mkdir(parents=True, exist_ok=True)
                there = rows.get((array, record), {})
                size = min(RECORD, math.prod(grid) - record * RECORD)
                columns = zip(*(there.get(i, _NOTHING) for i in range(size)), strict=True)
                parquet.write_table(
                    pyarrow.table([list(column) for column in columns], schema=schema),
                    folder / f"refs.{record}.parq",
                    compression="zstd",
                    use_dictionary=["path"],
                    # Without these fastparquet takes numbers for floats, as some might be missing.
                    write_statistics=["offset", "size"],
                )
        if path.exists():
            replace_directory(partial, path)
        else:
            sync_tree(partial)
            os.rename(partial, path)
            sync_folder_of(path)
    except OSError as error:
        raise StoreError(f"cannot write: {error.strerror}", path=str(path)) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _rows(
    kept: dict[str, bytes], chunks: list[tuple[str, str, Any]], grids: dict[str, tuple[int, ...]]
) -> dict[tuple[str, int], dict[int, Row]]:
    """The row of each chunk by its number in a record, and the records by array and their number."""
    rows: dict[tuple[str, int], dict[int, Row]] = defaultdict(dict)

    def put(array: str, key: str, row: Row) -> None:
        index = [int(part) for part in key.rpartition("/")[2].split(".")]
        number = 0
        for i, n in zip(index, grids[array] or (1,), strict=True):
            number = number * n + i
        rows[array, number // RECORD][number % RECORD] = row

    for array, key, (url, offset, size) in chunks:
        put(array, key, (url, offset, size, None))
    for key, value in kept.items():
        if not _is_document(key):
            put(key.rpartition("/")[0], key, (None, 0, 0, bytes(value)))
    return rows


def _contents(
    found: Virtual,
) -> tuple[dict[str, bytes], list[tuple[str, str, Place]], dict[str, tuple[int, ...]]]:
    """Documents and values by key; the array, key and place of each chunk elsewhere; the grids of arrays."""
    kept: dict[str, bytes] = {}
    with create_dataset(kept, found.dataset, replace(found.options, chunk_keys="v2")) as stored:
        found.inline(stored)
        grids = {v.array.path: v.array.grid_shape for v in map(stored.data, stored.dataset.all_variables)}
        chunks = [
            (path, stored.hierarchy.array(path).chunk_key(index), place)
            for path, index, place in found.chunks(stored)
        ]
        older = documents_v2(stored)
    return kept | {key: json.dumps(value).encode() for key, value in older.items()}, chunks, grids


def _states(chunks: Iterable[tuple[str, str, Place]]) -> dict[str, tuple[int, int]]:
    """The size and time of change of each local file: bytes that nobody encoded do not show that they are others."""
    states = {url: state_of_file(url) for url in sorted({url for _, _, (url, _, _) in chunks})}
    return {url: state for url, state in states.items() if state is not None}


def _is_document(key: str) -> bool:
    return key.rpartition("/")[2] in ("zarr.json", ".zgroup", ".zarray", ".zattrs")


def _text(value: bytes) -> str:
    try:
        text = bytes(value).decode("ascii")
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(value).decode("ascii")
    return text if not text.startswith("base64:") else "base64:" + base64.b64encode(value).decode("ascii")

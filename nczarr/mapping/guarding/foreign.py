"""Find what is in the directory of a dataset and is no part of it, before the directory is replaced."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from nczarr.atomic import is_partial

_DOCUMENTS = frozenset({"zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata"})
#: Chunks of an array, or directories of them.
_CHUNKS = re.compile(r"c|(c\.)?\d+(\.\d+)*")
_STANDARD_KEYS = ("default", "v2")


def foreign_entry(root: Path) -> Path | None:
    """Return a file or directory that belongs to no node of a dataset; None if there is none.

    Directories of chunks are not looked into, nor the two trees of a dataset of the drafts, documents and chunks.
    """
    trees = {root / "meta", root / "data"} if _is_draft(root) else set()
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        is_array, pattern = _kind(folder)
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda e: e.name):
                name = entry.name
                if name in _DOCUMENTS or name.startswith((".nczarr", ".ncz")) or is_partial(name):
                    continue
                if folder / name in trees or (is_array and (pattern is None or pattern.fullmatch(name))):
                    continue
                if is_array or not entry.is_dir():
                    return folder / name
                waiting.append(folder / name)
    return None


def _is_draft(root: Path) -> bool:
    """Whether the document of the root is the bootstrap document of a draft, which says no kind of node."""
    try:
        document = json.loads((root / "zarr.json").read_bytes())
        return "node_type" not in document and isinstance(document["zarr_format"], str)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _kind(folder: Path) -> tuple[bool, re.Pattern[str] | None]:
    """Whether a directory is that of an array, and what chunks are called there; None if they may have any name."""
    if (folder / ".zarray").exists():
        return True, _CHUNKS
    try:
        document = json.loads((folder / "zarr.json").read_bytes())
        keys = document.get("chunk_key_encoding", {})
        name = keys if isinstance(keys, str) else keys.get("name")
        return document.get("node_type") == "array", _CHUNKS if name in _STANDARD_KEYS else None
    except (OSError, ValueError, AttributeError):
        return False, _CHUNKS

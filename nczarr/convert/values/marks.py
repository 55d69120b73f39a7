"""Tell the copy of a dataset from other copies, and whether its sources may have changed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from nczarr.convert.verify.digests import header_digest
from nczarr.errors import NCZarrError, StoreError
from nczarr.formats import kind_of_source, local_path
from nczarr.model import Dataset
from nczarr.targets import client_options

#: By which file systems behind URLs tell that a file is another one now.
_TAGS = (
    "etag",
    "last-modified",
    "lastmodified",
    "last_modified",
    "mtime",
    "updated",
    "created",
    "generation",
)


@dataclass(frozen=True)
class Mark:
    """What tells a copy from others.

    Attributes
    ----------
    copy : str
        Of another copy this is another one: of other sources or options, or with other metadata, sizes or times of
        change of local files.
    touched : str
        Differs where the sources may have changed all the same: by when the system last saw local files touched,
        which nobody can set back, and by the tags of others. Empty where nothing tells it.
    """

    copy: str
    touched: str


def mark_of(dataset: Dataset, sources: Sequence[Any], how: str, options: Mapping[str, Any] | None) -> Mark:
    """Return what tells the copy of a dataset from others.

    Parameters
    ----------
    options : mapping, optional
        For fsspec.
    """
    made = hashlib.sha256(f"{header_digest(dataset)}\n{how}\n".encode("utf-8", "surrogateescape"))
    touched: list[str | None] = []
    for source in sources:
        path = None if isinstance(source, Dataset) else local_path(source)
        name = "memory" if isinstance(source, Dataset) else str(path.resolve() if path else source)
        made.update(name.encode("utf-8", "surrogateescape"))
        files: list[tuple[str, os.stat_result]] = []
        if path is None:
            touched.append(_tags(source, options) if isinstance(source, str) else None)
        elif path.is_file():
            files = [("", path.stat())]
        elif path.is_dir():
            files = sorted(_files_below(os.fspath(path), ""), key=itemgetter(0))
        else:
            touched.append(None)
        for inside, status in files:
            line = f"{inside} {status.st_size} {status.st_mtime_ns}\n"
            made.update(line.encode("utf-8", "surrogateescape"))
            touched.append(f"{status.st_ino} {status.st_ctime_ns}")
    if None in touched:
        return Mark(made.hexdigest(), "")
    tags = "\n".join(map(str, touched)).encode("utf-8", "surrogateescape")
    return Mark(made.hexdigest(), hashlib.sha256(tags).hexdigest())


def _files_below(folder: str, inside: str) -> Iterator[tuple[str, os.stat_result]]:
    """The files below a directory."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = f"{inside}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    yield from _files_below(entry.path, name)
                    continue
                try:
                    yield name, entry.stat()
                except FileNotFoundError:  # a link to nothing, or removed just now
                    continue
    except OSError as error:
        raise StoreError(f"cannot list: {error.strerror}", path=folder) from error


def _tags(url: str, options: Mapping[str, Any] | None) -> str | None:
    """What a file system says of the files behind a URL; None if it has no tags, or cannot list a directory."""
    from nczarr.stores.remote.fsspec_store import file_system

    try:
        fs, root = file_system(url, client_options(options))
        fs.invalidate_cache()
        if kind_of_source(url) == "netcdf":
            found = {root: fs.info(root)}
        elif "http" in fs.protocol:  # what a page lists is not what is there
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

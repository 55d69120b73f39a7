"""Write references as virtual chunks of an Icechunk repository: a new one, or a session that the caller commits."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nczarr.convert.virtual.references import Virtual
from nczarr.errors import NCZarrError, StoreError, UnsupportedError
from nczarr.mapping import create_dataset
from nczarr.system.atomic import partial_path, replace_directory
from nczarr.system.durability import sync_folder_of, sync_tree


def is_session_store(target: Any) -> bool:
    """True for the store of an Icechunk session."""
    return type(target).__module__.startswith("icechunk") and hasattr(target, "set_virtual_refs")


def write_repository(found: Virtual, path: Path) -> None:
    """Write a new repository with one commit.

    Its configuration names the directories of the files; whoever opens it allows them
    (``authorize_virtual_chunk_access``).

    Raises
    ------
    UnsupportedError
        If icechunk is not installed, or a file is not on a local disk.
    """
    try:
        import icechunk
    except ImportError:
        raise UnsupportedError("this needs icechunk", path=str(path), hint="pip install icechunk") from None
    config = icechunk.RepositoryConfig.default()
    for prefix in sorted({_prefix(url) for v in found.places.values() for url, _, _ in v.places.values()}):
        folder = prefix.removeprefix("file://")
        config.set_virtual_chunk_container(
            icechunk.VirtualChunkContainer(prefix, icechunk.local_filesystem_store(folder))
        )
    partial = partial_path(path)
    try:
        repository = icechunk.Repository.create(icechunk.local_filesystem_storage(str(partial)), config)
        repository.save_config()
        session = repository.writable_session("main")
        write_session(found, session.store)
        session.commit("nczarr copy --virtual")
        if path.exists():
            replace_directory(partial, path)
        else:
            sync_tree(partial)
            os.rename(partial, path)
            sync_folder_of(path)
    except (OSError, icechunk.IcechunkError) as error:
        raise StoreError(f"cannot write: {error}", path=str(path)) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def write_session(found: Virtual, store: Any) -> None:
    """Write into the store of a session, which the caller commits.

    Raises
    ------
    UnsupportedError
        If the repository's configuration has no container for a file.
    """
    from icechunk import VirtualChunkSpec

    with create_dataset(store, found.dataset, found.options) as stored:
        found.inline(stored)
        chunks = list(found.chunks(stored))
    changed: dict[str, datetime | None] = {}
    specs = defaultdict(list)
    for path, index, (url, offset, size) in chunks:
        if url not in changed:
            changed[url] = _changed(url)
        location = url if "://" in url else f"file://{quote(url)}"
        specs[path].append(VirtualChunkSpec(list(index), location, offset, size, None, changed[url]))
    for path, wanted in specs.items():
        try:
            refused = store.set_virtual_refs(f"/{path}", wanted, validate_containers=True)
        except Exception as error:
            raise NCZarrError(f"Icechunk refuses the references: {error}", path=f"/{path}") from error
        if refused:
            index = tuple(refused[0])
            where = next(s.location for s in wanted if tuple(s.index) == index)
            raise UnsupportedError(
                "the Icechunk repository has no virtual chunk container for this file",
                path=where,
                hint="RepositoryConfig.set_virtual_chunk_container",
            )


def _prefix(url: str) -> str:
    if "://" in url:
        raise UnsupportedError(
            "a new Icechunk repository refers to local files only",
            path=url,
            hint="make the repository with a container for them, and give the store of a session",
        )
    folder = os.path.dirname(url)
    if quote(folder) != folder:
        raise UnsupportedError(
            "Icechunk finds no files in a folder of which URLs escape a letter, such as a blank or an accent",
            path=url,
            hint="NAME.json and NAME.parquet can refer to them",
        )
    return f"file://{folder}/"


def _changed(url: str) -> datetime | None:
    """When a local file was changed, to the second above: Icechunk refuses chunks of a file that is younger."""
    if "://" in url:
        return None
    return datetime.fromtimestamp(int(os.stat(url).st_mtime) + 1, UTC)

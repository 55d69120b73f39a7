"""Open what refers to values in other files: kerchunk's references, and Icechunk repositories."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from nczarr.errors import MetadataError, UnsupportedError, placed
from nczarr.formats import state_of_file


def open_references(path: Path, options: dict[str, Any] | None) -> Any:
    """Return a mapping of keys to the bytes that references stand for.

    Parameters
    ----------
    options : dict, optional
        For the file system behind the references.

    Raises
    ------
    MetadataError
        If they cannot be read, or a file has changed since.
    UnsupportedError
        If they are in Parquet files, and no package for these is installed.
    """
    import fsspec

    with placed(str(path)):
        try:
            if path.is_dir():
                _need_parquet()
                said = json.loads((path / ".zmetadata").read_text("utf-8"))
                protocols = said.get("protocols") if isinstance(said, dict) else None
                fo: Any = str(path)
            else:
                said = json.loads(path.read_text("utf-8"))
                references = said["refs"]
                protocols = list({_protocol(v[0]) for v in references.values() if isinstance(v, list)})
                fo = {"version": 1, "refs": references}
            _refuse_changed(said)
            # Only without file systems of its own would it look at every reference for its protocol.
            systems = {p: fsspec.filesystem(p, **(options or {})) for p in protocols or () if p != "file"}
            local = fsspec.filesystem("file")
            # An old instance would not see that the file is another one now.
            fs = fsspec.filesystem(
                "reference",
                fo=fo,
                fs={**systems, "file": local, None: local} if protocols is not None else None,
                skip_instance_cache=True,
            )
            if path.is_dir():
                _read_with_pyarrow(fs.references)
            return fs.get_mapper("")
        except (ValueError, LookupError, TypeError, AttributeError, ImportError) as error:
            raise MetadataError(f"these are no references that can be read: {error}") from error


def _refuse_changed(said: Any) -> None:
    """Refuse files that have changed, where the references say what they were."""
    for url, state in said.get("nczarr_files", {}).items():
        now = state_of_file(Path(url))
        if now is not None and now != tuple(state):  # one that is missing is an error where it is read
            raise MetadataError(
                "the file has changed since it was referred to",
                path=url,
                hint="nczarr copy --virtual --overwrite makes the references anew",
            )


def _protocol(url: str) -> str:
    return url.partition("://")[0] if "://" in url else "file"


def _need_parquet() -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise UnsupportedError(
            "references in Parquet files need pyarrow", hint="pip install pyarrow"
        ) from None


def _read_with_pyarrow(references: Any) -> None:
    """Let fsspec's mapper of references read its files with pyarrow.

    By itself it goes through pandas and fastparquet, and with pandas 3 and pyarrow a chunk that is not there has NaN
    for its URL.
    """
    from pyarrow import BufferReader, parquet

    references.setup()

    def columns(field: str, record: int) -> dict[str, list[Any]]:
        data = references.fs.cat_file(references.url.format(field=field, record=record))
        return dict(parquet.read_table(BufferReader(data)).to_pydict())

    references.open_refs = lru_cache(references.cache_size)(columns)


def open_repository(path: Path) -> Any:
    """Return the store of the newest snapshot of an Icechunk repository; files on this machine may be referred to.

    Raises
    ------
    MetadataError
        If it cannot be read.
    UnsupportedError
        If icechunk is not installed.
    """
    try:
        import icechunk
    except ImportError:
        raise UnsupportedError("this needs icechunk", path=str(path), hint="pip install icechunk") from None
    with placed(str(path)):
        try:
            storage = icechunk.local_filesystem_storage(str(path))
            config = icechunk.Repository.fetch_config(storage)
            containers = (config.virtual_chunk_containers if config is not None else None) or {}
            allowed = dict.fromkeys(prefix for prefix in containers if prefix.startswith("file://"))
            repository = icechunk.Repository.open(storage, authorize_virtual_chunk_access=allowed)
            return repository.readonly_session("main").store
        except icechunk.IcechunkError as error:
            raise MetadataError(f"Icechunk cannot open it: {error}") from error

"""Open the store of a path, URL or object."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nczarr.errors import DatasetNotFoundError, ReadOnlyError, StoreError
from nczarr.formats import describe_file, is_icechunk, is_references, is_zip, special_kind
from nczarr.options import verb_named, virtual_again
from nczarr.rooms import Door
from nczarr.stores.base import Store
from nczarr.stores.local import LocalStore
from nczarr.system.failures import system_error
from nczarr.system.logs import logger_of
from nczarr.targets import StorageOptions, Target, allowed, client_options, parse_target

if TYPE_CHECKING:
    from nczarr.stores import reach, referred, remote
else:
    reach, referred = Door("nczarr.stores.reach"), Door("nczarr.stores.referred")
    remote = Door("nczarr.stores.remote")

Mode = Literal["r", "r+", "w"]

#: Protocols that fsspec only reads.
_READ_ONLY = frozenset(
    {"reference", "zip", "tar", "libarchive", "github", "git", "data", "blockcache", "filecache"}
)
#: Words of a fragment, and the names of S3 clients for them.
_S3_SETTINGS = {"aws.profile": "profile", "aws.region": "region_name", "endpoint_url": "endpoint_url"}


def open_store(target: Any, mode: Mode = "r", storage_options: Mapping[str, Any] | None = None) -> Store:
    """Open the store of a path, URL or object.

    Parameters
    ----------
    target : path, str or object
        * a path, or a ``file://`` URL: a directory, or a zip file (recognised by its first bytes; a new one by the
          suffix ``.zip``);
        * ``http://`` and ``https://``; ``s3://`` (through obstore, else s3fs); any other URL of fsspec, also a chain
          (``simplecache::https://…``); a URL that ends in ``.zip`` is a zip file;
        * each with netcdf-c's fragment, such as ``#mode=nczarr,zip``;
        * a mapping from keys to bytes, an fsspec ``FSMap``, a zarr-python 3 store, an obstore store, a
          :class:`Store`.
    mode : {"r", "r+", "w"}
        ``"r"``: read. ``"r+"``: read and write an existing store. ``"w"``: read and write, and create the directory
        or zip file if it is missing. Opening never deletes anything.
    storage_options : dict, optional
        Options of the file system behind a URL. ``allow`` is a list of paths and URLs: references to other files
        (kerchunk's, and an Icechunk repository's virtual chunks) may name files in their own folder and below these
        prefixes. All other options go to the host of the URL that is opened, or of local references to the remote
        host that is allowed.

    Returns
    -------
    Store

    Raises
    ------
    DatasetNotFoundError
        If the local directory or zip file does not exist. (A remote store is opened without a request.)
    ReadOnlyError
        If the mode requests writing, and the target can only be read.
    StoreError
        If the target cannot be opened.

    Examples
    --------
    >>> store = open_store({"zarr.json": b"{}"})
    >>> store.get("zarr.json")
    b'{}'
    """
    if mode not in ("r", "r+", "w"):
        raise StoreError(f"mode must be 'r', 'r+' or 'w', not {mode!r}")
    if isinstance(target, (str, os.PathLike)):
        options = client_options(storage_options)
        store = _open_target(parse_target(target), mode, options, allowed(storage_options))
        logger_of(__name__).debug("%s: opened as %s, mode %s", store.url, type(store).__name__, mode)
        return store
    store = _open_object(target, mode)
    if mode != "r" and not store.writable:
        raise ReadOnlyError("the store is for reading only", path=store.url)
    return store


def _open_object(target: Any, mode: Mode) -> Store:
    writable = mode != "r"
    if isinstance(target, Store):
        return target
    # By its name: a look at the class would import the package.
    if type(target).__module__.partition(".")[0] == "obstore":
        return remote.ObstoreStore(target, writable=writable)
    if _is_zarr_store(target):
        return remote.ZarrStore(target, writable=writable)
    if type(target).__name__ == "FSMap" and hasattr(target, "fs"):
        return _fsspec(target.fs, str(target.root), None, mode)
    if isinstance(target, Mapping):
        from nczarr.stores.memory import MappingStore

        return MappingStore(target, writable=writable)
    raise DatasetNotFoundError(f"{type(target).__name__} is not a path, a URL or a store")


def _is_zarr_store(target: object) -> bool:
    """Return whether an object has the methods of a zarr-python 3 store."""
    names = ("get", "set", "delete", "list_prefix", "list_dir", "supports_writes", "supports_listing")
    return not isinstance(target, type) and all(hasattr(target, name) for name in names)


def _open_target(target: Target, mode: Mode, options: StorageOptions, allow: list[str]) -> Store:
    if target.protocol == "file":
        if mode != "w" and (referring := _open_referring(target.location, mode, options, allow)) is not None:
            return referring
        return _open_local(target, mode)
    if target.protocol == "reference":
        return _open_reference_url(target.location, mode, options, allow)
    if not _is_zip(target):
        return _open_remote(target.location, target, mode, options)
    if mode != "r":
        raise ReadOnlyError("a zip file behind a URL is for reading only", path=target.location)
    from nczarr.stores.zip import ZipStore

    address, mark, query = target.location.partition("?")
    folder, _, name = address.rstrip("/").rpartition("/")
    return ZipStore((_open_remote(folder + mark + query, target, mode, options), name))


def _is_zip(target: Target) -> bool:
    if target.protocol == "zip":  # a chain of fsspec, which names a folder inside the file
        return False
    return "zip" in target.modes or target.location.partition("?")[0].rstrip("/").lower().endswith(".zip")


# --- local


def _open_referring(path: str, mode: Mode, options: StorageOptions, allow: list[str]) -> Store | None:
    """Open references or an Icechunk repository; return None for any other path."""
    if os.path.exists(f"{path}/zarr.json"):  # the usual case
        return None
    references = is_references(path)
    if not references and not is_icechunk(path):
        return None
    if mode != "r":
        raise ReadOnlyError(
            f"nczarr only reads {'references to other files' if references else 'Icechunk repositories'}",
            path=path,
            hint=f"change the files, and create it again: {verb_named('copy', virtual_again())}",
        )
    if not references:
        beside = os.path.dirname(os.path.realpath(path))
        store = referred.open_repository(Path(path), reach.Reach(beside, allow, options, _open_folder))
        store.url = path
        return store
    folder, name = (path, None) if os.path.isdir(path) else os.path.split(os.path.abspath(path))
    return referred.open_references(
        LocalStore(folder), name, path, allow=allow, options=options, open_folder=_open_folder
    )


def _open_folder(url: str, options: StorageOptions) -> Store:
    """Open the folder of a file in references."""
    target = parse_target(url)
    return _open_remote(target.location, target, "r", options)


def _open_reference_url(url: str, mode: Mode, options: StorageOptions, allow: list[str]) -> Store:
    """Open fsspec's ``reference://``: the option ``fo`` contains the references, or their location."""
    from nczarr.stores.memory import MemoryStore

    if mode != "r":
        raise ReadOnlyError("nczarr only reads references to other files", path=url)
    chained = url.partition("::")[2]
    given = dict(options)
    found = chained or given.pop("fo", None)
    for other in ("remote_protocol", "remote_options", "target_protocol", "target_options"):
        more = given.pop(other, None)
        given |= more if isinstance(more, dict) else {}
    folder: Store
    name: str | None = None
    if isinstance(found, dict):
        folder, name, where = MemoryStore(url=""), "refs.json", url
        folder.set(name, json.dumps(found).encode())
    elif isinstance(found, str | os.PathLike):
        target = parse_target(found)
        if target.protocol == "file":
            store = _open_referring(target.location, mode, given, allow)
            if store is None:
                raise DatasetNotFoundError("this is not a set of references", path=target.location)
            return store
        where = target.location.rstrip("/")
        if where.endswith(".json"):
            where, _, name = where.rpartition("/")
        folder = _open_remote(where, target, "r", given)
    else:
        raise StoreError("storage_options['fo'] must be the references or their location", path=url)
    return referred.open_references(folder, name, where, allow=allow, options=given, open_folder=_open_folder)


def _open_local(target: Target, mode: Mode) -> Store:
    path = target.location
    if not path or "\0" in path:
        raise StoreError(f"{path!r} is not a path")
    if os.path.isdir(path):
        if "zip" in target.modes:
            raise StoreError("a directory, not a zip file", path=path)
        return LocalStore(path, mode)
    if not os.path.exists(path):
        if mode == "w" and _is_zip(target):
            from nczarr.stores.zip import ZipStore

            return ZipStore(path, mode)
        store = LocalStore(os.path.realpath(path), mode)  # it may be a link without a target
        store.url = path
        return store
    try:
        kind = special_kind(os.stat(path).st_mode)
        if kind:
            raise DatasetNotFoundError(f"this is a {kind}, not a Zarr directory or zip file", path=path)
        with open(path, "rb") as file:
            start = file.read(8)
    except DatasetNotFoundError:
        raise
    except OSError as error:
        raise system_error("read", path, error) from error
    if is_zip(start):
        from nczarr.stores.zip import ZipStore

        return ZipStore(path, mode)
    raise DatasetNotFoundError(f"this is {describe_file(start)}, not a Zarr directory or zip file", path=path)


# --- remote


def _open_remote(url: str, target: Target, mode: Mode, options: StorageOptions) -> Store:
    writable = mode != "r"
    if target.protocol in ("http", "https"):
        if writable:
            raise ReadOnlyError("a web server is for reading only", path=url)
        return remote.HTTPStore(url, remote.file_system(url, options)[0])
    if target.protocol in ("s3", "s3a"):
        settings = {
            name: target.fragment[word] for word, name in _S3_SETTINGS.items() if word in target.fragment
        }
        return remote.open_s3(url, writable=writable, storage_options={**settings, **options})
    if writable and target.protocol in _READ_ONLY:
        raise ReadOnlyError(f"{target.protocol} is for reading only", path=url)
    return _fsspec(*remote.file_system(url, options), url, mode)


def _fsspec(fs: Any, root: str, url: str | None, mode: Mode) -> Store:
    from fsspec.implementations.local import LocalFileSystem

    if isinstance(fs, LocalFileSystem):
        # LocalStore is faster, and its writes are atomic.
        return LocalStore(root, mode)
    if type(fs).__name__ == "HTTPFileSystem":  # its module needs aiohttp
        return remote.HTTPStore(root, fs)
    return remote.FsspecStore(fs, root, url=url, writable=mode != "r")

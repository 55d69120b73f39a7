"""Open or create the target of ``Dataset(...)`` as a session, and lock other writers out."""

from __future__ import annotations

import codecs
import gc
import io
import operator
import os
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nczarr import model, netcdf
from nczarr.errors import (
    DatasetExistsError,
    DatasetNotFoundError,
    NCZarrError,
    StoreError,
    WrittenElsewhereError,
)
from nczarr.formats import STORAGES, is_netcdf, is_references, is_zip, kind_of_source, local_path, storage_of
from nczarr.netcdf.bytes.file import MemoryFile
from nczarr.netcdf4 import errors
from nczarr.netcdf4.compatibility import DATA_MODELS, FORMAT_OF_MODEL
from nczarr.netcdf4.compatibility import storage as storage_rule
from nczarr.session import Session, SourceOnly, Stored
from nczarr.stores import LocalStore, Store, open_store
from nczarr.system.atomic import Output
from nczarr.system.environment import is_on
from nczarr.system.finalizing import close_dropped
from nczarr.system.locks import FileLock

if TYPE_CHECKING:
    from nczarr.mapping import WriteOptions
    from nczarr.mapping.guarding.changes import WriterMark

#: Number of keys that one request reads.
_BATCH = 256
_MODES = {"r": "r", "rs": "r", "w": "w", "ws": "w", "x": "x"}
_MODES.update(dict.fromkeys(("a", "as", "r+", "r+s"), "r+"))
_SHARED_HINT = "close it there; or open it with shared=True, here and there, to write different chunks"
_FILE_HINT = "close it there; netCDF4-python and other readers of HDF5 lock a file, too"
#: Formats of files that are not HDF5.
_CLASSIC_FILES = ("classic", "64-bit offset", "cdf5")


def open_session(
    target: Any,
    mode: str,
    *,
    clobber: bool,
    format: str,
    diskless: bool,
    persist: bool,
    memory: Any,
    parallel: bool,
    storage_options: dict[str, Any] | None,
    options: WriteOptions | None,
    shared: bool = False,
    storage: str | None = None,
    isolated: bool | None = None,
) -> Session:
    """Open or create; see :class:`nczarr.netcdf4.Dataset` for the arguments."""
    close_dropped()
    if isinstance(mode, bytes) or not np.iterable(mode):
        raise errors.NetCDFTypeError(f"mode is text, not {type(mode).__name__}")
    if not isinstance(mode, str) or mode not in _MODES:
        raise errors.NetCDFValueError(f"mode must be 'w', 'x', 'r', 'a' or 'r+', got '{mode}'")
    if parallel:
        raise errors.NetCDFValueError("parallel mode requires MPI enabled netcdf-c", hint="Zarr needs no MPI")
    if storage is not None and storage not in STORAGES:
        raise errors.NetCDFValueError(f"storage must be one of {', '.join(STORAGES)}, got {storage!r}")
    mode, exclusive = _MODES[mode], _MODES[mode] == "x"
    data_model = _data_model(format, mode, target)
    if exclusive:
        mode, clobber = "w", False
    opening = _Opening(
        os.fsdecode(target) if isinstance(target, bytes) else target,
        _name(target), mode, data_model, clobber, options, storage_options, shared, isolated
    )  # fmt: skip
    opening.check_name()
    if memory is not None:
        _check_memory("x" if exclusive else mode, memory)
    try:
        as_file = (
            storage_of(opening.target, storage, in_memory=memory is not None, rule=storage_rule()) == "netcdf"
        )
        if memory is not None and mode == "w":
            return opening.new_file_in_memory() if as_file else opening.new_archive_in_memory()
        if memory is not None:
            return opening.from_memory(bytes(memory))
        return opening.given() or opening.session(as_file=as_file, diskless=diskless, persist=persist)
    except (NCZarrError, OSError) as error:
        errors.raise_as_netcdf4(
            error, opening.target if memory is None else None, opening.name, mode, clobber=clobber
        )


def open_to_read(target: Any, storage_options: dict[str, Any] | None = None) -> Session:
    """Open any target for reading."""
    close_dropped()
    opening = _Opening(
        os.fsdecode(target) if isinstance(target, bytes) else target,
        _name(target),
        storage_options=storage_options,
    )
    try:
        return opening.given() or opening.existing()
    except (NCZarrError, OSError) as error:
        errors.raise_as_netcdf4(error, opening.target, opening.name, "r")


def _data_model(format: str, mode: str, target: object) -> str:
    """Return the data model of a new dataset. An existing dataset ignores the format, as in netCDF4-python."""
    path = local_path(target)
    exists = mode == "r" or (mode == "r+" and path is not None and os.path.exists(path))
    if format not in DATA_MODELS and not exists:
        raise errors.NetCDFValueError(
            f"unrecognized format requested: {format!r}", hint=", ".join(DATA_MODELS)
        )
    return DATA_MODELS.get(format, "NETCDF4")


def _check_memory(mode: str, memory: object) -> None:
    """Refuse the arguments that netCDF4-python refuses: a reader needs bytes, a new dataset a number."""
    if mode not in ("r", "w"):
        raise errors.NetCDFValueError("if memory kwarg specified, mode must be 'r' or 'w'")
    try:
        if mode == "w":
            size = operator.index(memory)  # type: ignore[arg-type]
            if not 0 <= size < 1 << 64:
                raise errors.NetCDFOverflowError(f"memory is a number of bytes, not {size}")
        else:
            memoryview(memory).release()  # type: ignore[arg-type]
    except TypeError as error:
        kind = "a number of bytes to write" if mode == "w" else "bytes to read"
        raise errors.NetCDFTypeError(f"memory must be {kind}, got {type(memory).__name__}") from error


def check_encoding(encoding: object) -> None:
    """Refuse an encoding of names that Python lacks."""
    if encoding is not None:
        with errors.translating("the names of files cannot be encoded"):
            codecs.lookup(encoding)  # type: ignore[arg-type]


def _name(target: object) -> str:
    if isinstance(target, str | bytes | os.PathLike):
        return os.fsdecode(target)
    for attribute in ("url", "path", "name"):
        value = getattr(target, attribute, None)
        if isinstance(value, str):
            return value
    return "memory"


def _lock(path: object, *, shared: bool = False, hint: str = _FILE_HINT) -> FileLock:
    """Lock other writers out of a local file or directory.

    Raises
    ------
    NetCDFLockedError
        If another writer has the lock.
    """
    try:
        return FileLock(str(path), shared=shared)
    except BlockingIOError:
        gc.collect()  # a dataset without references may hold the lock, HDF5's reader of a file too
        close_dropped()
    try:
        return FileLock(str(path), shared=shared)
    except BlockingIOError as error:
        raise errors.NetCDFLockedError(
            "the dataset is open for writing, here or in another process", path=str(path), hint=hint
        ) from error


def _mark(store: Store) -> WriterMark:
    """Mark a dataset in a remote store as open for writing.

    Raises
    ------
    NetCDFLockedError
        If another writer has marked it.
    """
    from nczarr.mapping.guarding.changes import WriterMark

    try:
        return WriterMark(store)
    except WrittenElsewhereError:
        gc.collect()  # a dataset without references may have set the mark
        close_dropped()
    try:
        return WriterMark(store)
    except WrittenElsewhereError as error:
        hint = error.hint if error.hint and "clean" in error.hint else _SHARED_HINT
        raise errors.NetCDFLockedError(error.message, path=error.path, hint=hint) from error


@contextmanager
def _locks() -> Iterator[list[Any]]:
    """Collect locks in a list, and release them after an error."""
    locks: list[FileLock] = []
    try:
        yield locks
    except BaseException:
        for lock in locks:
            lock.release()
        raise


@dataclass(frozen=True)
class _Opening:
    """A target with the arguments of ``Dataset(...)``; see there."""

    target: Any
    name: str
    mode: str = "r"
    data_model: str = "NETCDF4"
    clobber: bool = False
    options: WriteOptions | None = None
    storage_options: dict[str, Any] | None = None
    shared: bool = False
    isolated: bool | None = None

    @property
    def path(self) -> Path | None:
        return local_path(self.target)

    @property
    def is_marked(self) -> bool:
        """True if a mark in the store excludes other writers: behind a URL, no lock does."""
        remote = isinstance(self.target, str) and self.path is None
        return remote and not self.shared and not self.target.startswith("memory:")

    def check_name(self) -> None:
        """Refuse a path with a NUL, which the system would cut."""
        if isinstance(self.target, str | os.PathLike) and "\0" in self.name:
            if self.mode == "r":
                raise DatasetNotFoundError("there is no such file: a path has no NUL", path=self.name)
            raise errors.NetCDFValueError("a path has no NUL", path=self.name)

    def given(self) -> Session | None:
        """Return a session on a target that is a dataset; None for other targets."""
        stored = SourceOnly(self.target) if isinstance(self.target, model.Dataset) else self.target
        if not isinstance(stored, Stored):
            return None
        return Session(stored, name=self.name, writable=self.mode != "r")

    def session(self, *, as_file: bool, diskless: bool, persist: bool) -> Session:
        """Open or create the dataset; a new one as a netCDF file if `as_file`."""
        if self.mode == "r":
            return self.existing()
        path = self.path
        if as_file if self.mode == "w" or path is None or not path.exists() else is_netcdf(path):
            path = self._checked_file()
            if diskless:
                return self.diskless_file(path, persist=persist)
            return self.new_file(path) if self.mode == "w" or not path.exists() else self.edited_file(path)
        if diskless:
            return self.diskless(persist=persist)
        return self.new() if self.mode == "w" else self.existing()

    # -- Zarr hierarchies

    def new(self) -> Session:
        """Create a Zarr hierarchy."""
        from nczarr.mapping import WriteOptions, create_dataset

        stem = os.path.splitext(os.path.basename(self.name.rstrip("/")))[0] or "dataset"
        empty = model.Dataset(stem, format=FORMAT_OF_MODEL[self.data_model])
        target, path = self.target, self.path
        with _locks() as locks:
            if path is not None:
                locks.append(_lock(path, hint=_SHARED_HINT))
                if self.clobber and path.is_file() and not path.stat().st_size:
                    # An empty file that reserves a name is replaced by a file: a zip file.
                    path.unlink()
                    target = f"file://{path.absolute()}#mode=nczarr,zip"
            stored = create_dataset(
                target,
                empty,
                self.options or WriteOptions(compress=False),
                overwrite=self.clobber,
                storage_options=self.storage_options,
            )
            session = Session(stored, name=self.name, writable=True, locks=locks)
            root = str(stored.store.root) if isinstance(stored.store, LocalStore) else None
            if root is not None and not any(
                lock.is_on(root) for lock in locks
            ):  # the path may be an empty directory
                locks.append(_lock(root, hint=_SHARED_HINT))
            if self.is_marked and stored.store.takes_any_key:
                session.at_publish = lambda: _mark(stored.store)
        return session

    def existing(self) -> Session:
        """Open an existing dataset. Create it in the mode ``r+`` if there is none."""
        path, writable = self.path, self.mode != "r"
        if path is not None and path.is_file():
            if is_netcdf(path):
                return self._read_file(path)
            if not is_zip(_first_bytes(path)) and not is_references(path):
                raise errors.NetCDFOSError("NetCDF: Unknown file format", path=self.name)
        if (
            path is None
            and not writable
            and isinstance(self.target, str)
            and kind_of_source(self.target) == "netcdf"
        ):
            remote = netcdf.open_remote(self.target, self.storage_options)
            return _reading(remote.dataset, remote, self.target)
        from nczarr.mapping import WriteOptions, open_dataset
        from nczarr.mapping.guarding.changes import WriterMark

        with _locks() as locks:
            if path is not None and writable:
                locks.append(_lock(path, shared=self.shared, hint=_SHARED_HINT))
            target = self.target
            if writable and self.is_marked:  # before the documents are read, which another writer may change
                target = open_store(target, "r+", self.storage_options)
                if target.takes_any_key:
                    locks.append(_mark(target))
            again = partial(
                open_dataset,
                storage_options=self.storage_options,
                options=self.options or WriteOptions(compress=False),
            )
            try:
                stored = again(target, "r+" if writable else "r")
            except DatasetNotFoundError:
                if not writable:
                    raise
                while locks:
                    locks.pop().release()
                return replace(self, clobber=False).new()
            session = Session(stored, name=self.name, writable=writable, locks=locks)
        unguarded = any(isinstance(lock, WriterMark) and not lock.excludes for lock in locks)
        if unguarded if writable else not isinstance(self.target, Store):
            session.reopen = partial(again, self.target)
        session.shared = self.shared and writable
        if session.shared and isinstance(stored.store, LocalStore):
            stored.store.shared = True
        return session

    def diskless(self, *, persist: bool) -> Session:
        """Edit a Zarr hierarchy, or a new one, in memory; with `persist`, write it on close."""

        from nczarr.mapping.guarding.destination import open_destination

        clobber = self.clobber or self.mode == "r+"
        path = self.path
        with _locks() as locks:
            if persist and path is not None:
                locks.append(_lock(path, hint=_SHARED_HINT))
            if persist and isinstance(self.target, str | os.PathLike):
                # Refuse a target that cannot be replaced now, not after all values are written.
                open_destination(self.target, overwrite=clobber, storage_options=self.storage_options).abort()
            keys = self._load_keys() if self.mode == "r+" else {}
            memory = replace(self, target=keys, clobber=True, storage_options=None, shared=False)
            session = memory.existing() if keys else memory.new()
        session.locks = locks
        if persist:

            def write_out() -> None:
                """Write the whole dataset. An existing dataset stays until the new one is complete."""
                output = open_destination(
                    self.target, overwrite=clobber, storage_options=self.storage_options
                )
                try:
                    output.prepare()
                    output.store.set_many((key, keys[key]) for key in keys if "/" in key)
                    output.settle()
                    output.store.set_many((key, keys[key]) for key in list(keys) if "/" not in key)
                    output.confirm()
                    output.finish()
                except BaseException:
                    output.abort()
                    raise
                output.store.close()

            session.at_close = write_out
        return session

    def _load_keys(self) -> dict[str, bytes]:
        """Return all keys of an existing hierarchy; an empty dictionary if there is none."""
        found: dict[str, bytes] = {}
        try:
            with open_store(self.target, "r", storage_options=self.storage_options) as store:
                if not store.lists_all:
                    raise errors.NetCDFUnsupportedError(
                        "the store does not list all its keys, so it cannot be loaded into memory as a whole",
                        path=store.url,
                        hint="open it without diskless",
                    )
                keys = list(store.list())
                for start in range(0, len(keys), _BATCH):
                    batch = keys[start : start + _BATCH]
                    values = store.get_many(batch)
                    found.update((k, bytes(v)) for k, v in zip(batch, values, strict=True) if v is not None)
        except DatasetNotFoundError:
            return {}
        return found

    def new_archive_in_memory(self) -> Session:
        """Create a Zarr hierarchy in memory; closing the session returns it as a zip archive."""
        keys: dict[str, bytes] = {}
        session = replace(self, target=keys, clobber=True, storage_options=None).new()

        def archive() -> memoryview:
            buffer = io.BytesIO()
            with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as written:
                for key, value in keys.items():
                    written.writestr(key, value)
            return buffer.getbuffer()

        session.at_close = archive
        return session

    def from_memory(self, content: bytes) -> Session:
        """Read a zip archive of a Zarr hierarchy, or a netCDF file."""
        if not is_zip(content[:8]):
            return self._read_file_in_memory(content)
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                keys = {entry: archive.read(entry) for entry in archive.namelist() if not entry.endswith("/")}
        except zipfile.BadZipFile as error:
            raise errors.NetCDFOSError(
                f"memory does not hold a zip archive of a Zarr hierarchy: {error}", path=self.name
            ) from error
        return replace(self, target=keys, storage_options=None).existing()

    # -- netCDF files

    def _checked_file(self) -> Path:
        """Return the path of a netCDF file for writing, or refuse arguments that it does not support."""
        if self.path is None:
            raise errors.NetCDFUnsupportedError(
                "a netCDF file behind a URL can be read, not written",
                path=self.name,
                hint="write it here and copy it there, or ask for storage='zarr'",
            )
        if self.options is not None or self.shared:
            raise errors.NetCDFValueError(
                f"a netCDF file has no {'options' if self.options is not None else 'shared writing'} of Zarr",
                path=self.name,
                hint="ask for storage='zarr'",
            )
        if self.isolated:
            raise errors.NetCDFValueError(
                "a netCDF file is read in a child process, not written", path=self.name, hint='use mode="r"'
            )
        return self.path

    def _empty(self, path: str | Path) -> model.Dataset:
        return model.Dataset(Path(path).stem or "dataset", format=FORMAT_OF_MODEL[self.data_model])

    def _read_file(self, path: Path) -> Session:
        """Read a netCDF file, in a child process if the argument or the environment requires this."""
        isolated = is_on("NCZARR_ISOLATED") if self.isolated is None else self.isolated
        opened = netcdf.open_isolated(path) if isolated else netcdf.open_dataset(path)
        return _reading(opened.dataset, opened, self.name)

    def _read_file_in_memory(self, content: bytes) -> Session:
        """Read a netCDF file in memory from a temporary file, which the libraries require."""
        folder = tempfile.TemporaryDirectory(prefix="nczarr-")
        try:
            path = Path(folder.name) / "memory.nc"
            path.write_bytes(content)
            if not is_netcdf(path):
                raise errors.NetCDFOSError(
                    "memory holds neither a zip archive of a Zarr hierarchy nor a netCDF file", path=self.name
                )
            session = replace(self, isolated=None)._read_file(path)
        except BaseException:
            folder.cleanup()
            raise
        session.at_close = folder.cleanup
        return session

    def new_file(self, path: Path) -> Session:
        """Create a netCDF file."""
        exists = path.exists()
        with _locks() as locks:
            if exists:
                locks.append(_lock(path))
            edited = netcdf.create_file(path, self._empty(path), overwrite=self.clobber)
            session = Session(edited, name=self.name, writable=True, locks=locks)
            if not exists or edited.place != edited.path:
                locks.append(_lock(edited.place))
        return session

    def edited_file(self, path: Path) -> Session:
        """Open a netCDF file for editing in place."""
        if not os.access(path, os.W_OK):
            raise errors.NetCDFOSError("the file cannot be written: Permission denied", path=self.name)
        with _locks() as locks:
            locks.append(_lock(path))
            return Session(netcdf.open_file(path), name=self.name, writable=True, locks=locks)

    def new_file_in_memory(self) -> Session:
        """Create a netCDF file in memory; closing the session returns its bytes."""
        content = MemoryFile()
        edited = netcdf.create_file(self.name, self._empty(self.name), content=content)
        session = Session(edited, name=self.name, writable=True)
        session.at_close = lambda: memoryview(content.content)
        return session

    def diskless_file(self, path: Path, *, persist: bool) -> Session:
        """Edit a netCDF file, or a new one, in memory; with `persist`, write it on close."""
        exists = path.exists()
        if path.is_dir() or (exists and not self.clobber and self.mode != "r+"):
            raise DatasetExistsError("the file exists", path=self.name)
        if persist and not os.access(path.absolute().parent, os.W_OK):
            raise errors.NetCDFOSError(
                "the file cannot be written: its folder does not exist, or is not writable", path=self.name
            )
        with _locks() as locks:
            if exists and persist:
                locks.append(_lock(path))
            if self.mode == "r+" and exists:
                content = MemoryFile(path.read_bytes())
                edited = netcdf.open_file(path, content=content)
            else:
                content = MemoryFile()
                edited = netcdf.create_file(self.name, self._empty(self.name), content=content)
            session = Session(edited, name=self.name, writable=True, locks=locks)
        if persist:

            def write_out() -> None:
                output = Output(path)
                try:
                    output.path.write_bytes(content.content)
                    output.commit()
                except OSError as error:
                    raise errors.NetCDFOSError(
                        f"the file cannot be written: {error.strerror}", path=self.name
                    ) from error
                finally:
                    output.discard()

            session.at_close = write_out
        return session


def _reading(dataset: model.Dataset, owner: Any, name: str) -> Session:
    disk_format = "NETCDF3" if dataset.format in _CLASSIC_FILES else "HDF5"
    return Session(SourceOnly(dataset, owner, disk_format), name=name, writable=False)


def _first_bytes(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(8)
    except OSError as error:
        raise StoreError(f"cannot read: {error.strerror}", path=str(path)) from error

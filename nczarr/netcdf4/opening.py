"""Open or create the target of ``Dataset(...)`` as a session, and lock other writers out."""

from __future__ import annotations

import gc
import io
import operator
import os
import tempfile
import zipfile
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from nczarr import model
from nczarr.errors import DatasetExistsError, DatasetNotFoundError, NCZarrError, StoreError
from nczarr.formats import STORAGES, is_netcdf, is_references, is_zip, kind_of_source, local_path, storage_of
from nczarr.netcdf import create_file, open_dataset, open_file, open_isolated, open_remote
from nczarr.netcdf.bytes.file import MemoryFile
from nczarr.netcdf4.compatibility import DATA_MODELS, FORMAT_OF_MODEL
from nczarr.netcdf4.errors import (
    NetCDFLockedError,
    NetCDFOSError,
    NetCDFTypeError,
    NetCDFUnsupportedError,
    NetCDFValueError,
    raise_as_netcdf4,
)
from nczarr.session import Session, SourceOnly, Stored
from nczarr.stores import LocalStore, open_store
from nczarr.system.atomic import Output
from nczarr.system.environment import is_on
from nczarr.system.finalizing import close_dropped
from nczarr.system.locks import FileLock

_HINT = "close it there; or open it with shared=True, here and there, to write different chunks"


class WriterLock(FileLock):
    """A :class:`~nczarr.system.locks.FileLock` whose errors are those of the interface.

    Raises
    ------
    NetCDFLockedError
        If it is taken.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lock = WriterLock(folder)
    ...     lock.release()
    """

    def __init__(self, path: str, *, shared: bool = False, hint: str = _HINT) -> None:
        try:
            super().__init__(path, shared=shared)
            return
        except BlockingIOError:
            gc.collect()  # a dataset that the program has dropped may hold it, HDF5's reader of a file, too
            close_dropped()
        try:
            super().__init__(path, shared=shared)
        except BlockingIOError as error:
            raise NetCDFLockedError(
                "the dataset is open for writing, here or in another process",
                path=path,
                hint=hint,
            ) from error


_FILE_HINT = "close it there; netCDF4-python and other readers of HDF5 lock a file, too"
#: Formats of files that are not HDF5.
_CLASSIC_FILES = ("classic", "64-bit offset", "cdf5")


def create_netcdf(path: Path, name: str, data_model: str, *, clobber: bool) -> Session:
    """Make a netCDF file and open it for writing."""
    empty = model.Dataset(path.stem or "dataset", format=FORMAT_OF_MODEL[data_model])
    there = path.exists()
    locks = [WriterLock(str(path), hint=_FILE_HINT)] if there else []
    try:
        edited = create_file(path, empty, overwrite=clobber)
        session = Session(edited, name=name, writable=True)
        session.locks = locks
        if not there or edited.place != edited.path:
            locks.append(WriterLock(edited.place, hint=_FILE_HINT))
    except BaseException:
        for lock in locks:
            lock.release()
        raise
    return session


def open_netcdf(path: Path, name: str, *, writable: bool, isolated: bool | None = None) -> Session:
    """Open a netCDF file; for reading in a child process if it is asked for, by the caller or by the setting."""
    if not writable:
        apart = is_on("NCZARR_ISOLATED") if isolated is None else isolated
        opened = open_isolated(path) if apart else open_dataset(path)
        return _reading(opened.dataset, opened, name)
    if not os.access(path, os.W_OK):
        raise NetCDFOSError("the file cannot be written: Permission denied", path=name)
    lock = WriterLock(str(path), hint=_FILE_HINT)
    try:
        session = Session(open_file(path), name=name, writable=True)
    except BaseException:
        lock.release()
        raise
    session.locks = [lock]
    return session


def open_remote_netcdf(url: str, storage_options: dict[str, Any] | None) -> Session:
    """Open a netCDF file behind a URL for reading."""
    opened = open_remote(url, storage_options)
    return _reading(opened.dataset, opened, url)


def _reading(dataset: model.Dataset, owner: Any, name: str) -> Session:
    disk_format = "NETCDF3" if dataset.format in _CLASSIC_FILES else "HDF5"
    return Session(SourceOnly(dataset, owner, disk_format), name=name, writable=False)


def netcdf_in_memory(name: str, data_model: str) -> Session:
    """Make a netCDF file in memory; closing the session returns its bytes."""
    held = MemoryFile()
    session = _new_in_memory(held, name, data_model)
    session.at_close = lambda: memoryview(held.content)
    return session


def _new_in_memory(held: MemoryFile, name: str, data_model: str) -> Session:
    empty = model.Dataset(Path(name).stem or "dataset", format=FORMAT_OF_MODEL[data_model])
    return Session(create_file(name, empty, content=held), name=name, writable=True)


def diskless_netcdf(
    path: Path, name: str, mode: str, data_model: str, *, clobber: bool, persist: bool
) -> Session:
    """Edit a netCDF file, or a new one, in memory; with `persist`, write it when the session is closed."""
    clobber = clobber or mode == "r+"
    there = path.exists()
    if path.is_dir() or (there and not clobber):
        raise DatasetExistsError("the file exists", path=name)
    if persist and not os.access(path.absolute().parent, os.W_OK):
        raise NetCDFOSError(
            "the file cannot be written: its folder is not there, or cannot be written to", path=name
        )
    locks = [WriterLock(str(path), hint=_FILE_HINT)] if there and persist else []
    try:
        if mode == "r+" and there:
            held = MemoryFile(path.read_bytes())
            session = Session(open_file(path, content=held), name=name, writable=True)
        else:
            held = MemoryFile()
            session = _new_in_memory(held, name, data_model)
    except BaseException:
        for lock in locks:
            lock.release()
        raise
    session.locks = locks
    if persist:

        def write_out() -> None:
            output = Output(path)
            try:
                output.path.write_bytes(held.content)
                output.commit()
            except OSError as error:
                raise NetCDFOSError(f"the file cannot be written: {error.strerror}", path=name) from error
            finally:
                output.discard()

        session.at_close = write_out
    return session


def read_from_memory(name: str, content: bytes) -> Session:
    """Read a netCDF file whose bytes are in memory: from a temporary file, for the libraries that need one."""
    folder = tempfile.TemporaryDirectory(prefix="nczarr-")
    try:
        path = Path(folder.name) / "memory.nc"
        path.write_bytes(content)
        if not is_netcdf(path):
            raise NetCDFOSError(
                "memory holds neither a zip archive of a Zarr hierarchy nor a netCDF file", path=name
            )
        session = open_netcdf(path, name, writable=False)
    except BaseException:
        folder.cleanup()
        raise
    session.at_close = folder.cleanup
    return session


#: Keys that are read at a time.
_BATCH = 256
_MODES = {"r": "r", "rs": "r", "w": "w", "ws": "w", "x": "x", "xs": "x"}
_MODES.update(dict.fromkeys(("a", "as", "r+", "r+s"), "r+"))


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
    options: Any,
    shared: bool = False,
    storage: str | None = None,
    isolated: bool | None = None,
) -> Session:
    """Open or create; see :class:`nczarr.netcdf4.Dataset` for the arguments."""
    close_dropped()
    _check_arguments(mode, parallel, storage)
    wanted, data_model = _MODES[mode], _data_model(format, _MODES[mode], target)
    if wanted == "x":
        wanted, clobber = "w", False
    name = _name(target)
    if isinstance(target, bytes):
        target = os.fsdecode(target)
    _check_name(target, name, wanted)
    if memory is not None:
        _check_memory(mode, memory)
    try:
        as_file = storage_of(target, storage, in_memory=memory is not None) == "netcdf"
        if memory is not None:
            if wanted == "w" and as_file:
                return netcdf_in_memory(name, data_model)
            return _in_memory(name, wanted, memory, data_model, options)
        given = _given(target, name, writable=wanted != "r")
        if given is not None:
            return given
        if wanted == "r":
            return _existing(target, name, "r", data_model, options, storage_options, isolated=isolated)
        path = local_path(target)
        if as_file if wanted == "w" or path is None or not path.exists() else is_netcdf(path):
            _check_editable(path, name, options, shared, isolated)
            assert path is not None
            if diskless:
                return diskless_netcdf(path, name, wanted, data_model, clobber=clobber, persist=persist)
            if wanted == "w" or not path.exists():
                return create_netcdf(path, name, data_model, clobber=clobber)
            return open_netcdf(path, name, writable=True)
        if diskless:
            return _diskless(target, name, wanted, data_model, clobber, persist, options, storage_options)
        if wanted == "w":
            return _create(target, name, data_model, clobber, options, storage_options)
        return _existing(target, name, wanted, data_model, options, storage_options, shared=shared)
    except (NCZarrError, OSError) as error:
        raise_as_netcdf4(error, target if memory is None else None, name, wanted, clobber=clobber)


def _data_model(format: str, wanted: str, target: Any) -> str:
    """The data model of what may be made; the format is ignored where something is there, as by netCDF4-python."""
    path = local_path(target)
    there = wanted == "r" or (wanted == "r+" and path is not None and os.path.exists(path))
    if format not in DATA_MODELS and not there:
        raise NetCDFValueError(f"unrecognized format requested: {format!r}", hint=", ".join(DATA_MODELS))
    return DATA_MODELS.get(format, "NETCDF4")


def _check_arguments(mode: str, parallel: bool, storage: str | None) -> None:
    if mode not in _MODES:
        raise NetCDFValueError(f"mode must be 'w', 'x', 'r', 'a' or 'r+', got '{mode}'")
    if parallel:
        raise NetCDFValueError("parallel mode requires MPI enabled netcdf-c", hint="Zarr needs no MPI")
    if storage is not None and storage not in STORAGES:
        raise NetCDFValueError(f"storage must be one of {', '.join(STORAGES)}, got {storage!r}")


def _check_name(target: Any, name: str, mode: str) -> None:
    """Refuse a path that no file can have; the system would take it for another one."""
    if isinstance(target, str | os.PathLike) and "\0" in name:
        if mode == "r":
            raise DatasetNotFoundError("there is no such file: a path has no NUL", path=name)
        raise NetCDFValueError("a path has no NUL", path=name)


def _check_memory(mode: str, memory: Any) -> None:
    """Refuse what netCDF4-python refuses, too: bytes are read, and a new dataset wants no more than a size."""
    wanted = _MODES[mode]
    if wanted not in ("r", "w"):
        raise NetCDFValueError("if memory kwarg specified, mode must be 'r' or 'w'")
    try:
        if wanted == "w":
            operator.index(memory)
        else:
            memoryview(memory).release()
    except TypeError as error:
        what = "a number of bytes to write" if wanted == "w" else "bytes to read"
        raise NetCDFTypeError(f"memory must be {what}, got {type(memory).__name__}") from error


def _check_editable(path: Path | None, name: str, options: Any, shared: bool, isolated: bool | None) -> None:
    """Refuse what cannot be asked of a netCDF file that is written."""
    if path is None:
        raise NetCDFUnsupportedError(
            "a netCDF file behind a URL can be read, not written",
            path=name,
            hint="write it here and copy it there, or ask for storage='zarr'",
        )
    if options is not None or shared:
        raise NetCDFValueError(
            f"a netCDF file has no {'options' if options is not None else 'shared writing'} of Zarr",
            path=name,
            hint="ask for storage='zarr'",
        )
    if isolated:
        raise NetCDFValueError(
            "a netCDF file is read in a child process, not written", path=name, hint='use mode="r"'
        )


def open_to_read(target: Any, storage_options: dict[str, Any] | None = None) -> Session:
    """Open whatever holds a dataset, to read it."""
    close_dropped()
    name = _name(target)
    if isinstance(target, bytes):
        target = os.fsdecode(target)
    try:
        given = _given(target, name, writable=False)
        return given or _existing(target, name, "r", "NETCDF4", None, storage_options)
    except (NCZarrError, OSError) as error:
        raise_as_netcdf4(error, target, name, "r")


def _given(target: Any, name: str, *, writable: bool) -> Session | None:
    """A session on what is a dataset already."""
    if isinstance(target, model.Dataset):
        target = SourceOnly(target)
    return Session(target, name=name, writable=writable) if isinstance(target, Stored) else None


def _name(target: Any) -> str:
    if isinstance(target, str | bytes | os.PathLike):
        return os.fsdecode(target)
    for attribute in ("url", "path", "name"):
        value = getattr(target, attribute, None)
        if isinstance(value, str):
            return value
    return "memory"


def _create(
    target: Any,
    name: str,
    data_model: str,
    clobber: bool,
    options: Any,
    storage_options: dict[str, Any] | None,
) -> Session:
    from nczarr.mapping import WriteOptions, create_dataset

    stem = os.path.splitext(os.path.basename(name.rstrip("/")))[0] or "dataset"
    empty = model.Dataset(stem, format=FORMAT_OF_MODEL[data_model])
    path = local_path(target)
    locks = [WriterLock(str(path))] if path is not None else []
    if path is not None and clobber and path.is_file() and not path.stat().st_size:
        # A file that somebody made to have its name stays a file: a zip file.
        path.unlink()
        target = f"file://{path.absolute()}#mode=nczarr,zip"
    try:
        stored = create_dataset(
            target,
            empty,
            options or WriteOptions(compress=False),
            overwrite=clobber,
            storage_options=storage_options,
        )
        session = Session(stored, name=name, writable=True)
        session.locks = locks
        root = str(stored.store.root) if isinstance(stored.store, LocalStore) else None
        if root is not None and not any(lock.is_on(root) for lock in locks):  # an empty directory is, already
            locks.append(WriterLock(root))
    except BaseException:
        _release(locks)
        raise
    return session


def _release(locks: list[WriterLock]) -> None:
    for lock in locks:
        lock.release()


def _existing(
    target: Any,
    name: str,
    mode: str,
    data_model: str,
    options: Any,
    storage_options: dict[str, Any] | None,
    *,
    shared: bool = False,
    isolated: bool | None = None,
) -> Session:
    path = local_path(target)
    if path is not None and path.is_file():
        if is_netcdf(path):
            return open_netcdf(path, name, writable=False, isolated=isolated)
        if not is_zip(_first_bytes(path)) and not is_references(path):
            raise NetCDFOSError("NetCDF: Unknown file format", path=name)
    if path is None and mode == "r" and isinstance(target, str) and kind_of_source(target) == "netcdf":
        return open_remote_netcdf(target, storage_options)
    from nczarr.mapping import WriteOptions, open_dataset

    locks = [WriterLock(str(path), shared=shared)] if path is not None and mode != "r" else []
    try:
        stored: Stored = open_dataset(
            target,
            "r" if mode == "r" else "r+",
            storage_options=storage_options,
            options=options or WriteOptions(compress=False),
        )
        session = Session(stored, name=name, writable=mode != "r")
        session.locks = locks
        session.shared = shared and mode != "r"
        return session
    except DatasetNotFoundError:
        _release(locks)
        if mode == "r":
            raise
        return _create(target, name, data_model, False, options, storage_options)
    except BaseException:
        _release(locks)
        raise


def _first_bytes(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(8)
    except OSError as error:
        raise StoreError(f"cannot read: {error.strerror}", path=str(path)) from error


def _diskless(
    target: Any,
    name: str,
    mode: str,
    data_model: str,
    clobber: bool,
    persist: bool,
    options: Any,
    storage_options: dict[str, Any] | None,
) -> Session:
    from nczarr.mapping.guarding.destination import Destination

    clobber = clobber or mode == "r+"
    path = local_path(target)
    locks = [WriterLock(str(path))] if persist and path is not None else []
    try:
        if persist and isinstance(target, str | os.PathLike):
            # What may not be replaced is refused now, and not when all the values are there.
            Destination(target, overwrite=clobber, storage_options=storage_options).abort()
        held: dict[str, bytes] = {}
        if mode == "r+":
            _load_keys(target, held, storage_options)
        if held:
            session = _existing(held, name, mode, data_model, options, None)
        else:
            session = _create(held, name, data_model, True, options, None)
    except BaseException:
        _release(locks)
        raise
    session.locks = locks
    if persist:

        def write_out() -> None:
            _copy_keys(held, target, clobber, storage_options)

        session.at_close = write_out
    return session


def _load_keys(target: Any, held: MutableMapping[str, bytes], storage_options: dict[str, Any] | None) -> None:
    """Take what is there into memory; nothing if there is nothing."""
    try:
        with open_store(target, "r", storage_options=storage_options) as store:
            if not store.lists_all:
                raise NetCDFUnsupportedError(
                    "the store does not list all its keys, so it cannot be taken into memory as a whole",
                    path=store.url,
                    hint="open it without diskless",
                )
            keys = list(store.list())
            for start in range(0, len(keys), _BATCH):
                batch = keys[start : start + _BATCH]
                values = store.get_many(batch)
                held.update((k, bytes(v)) for k, v in zip(batch, values, strict=True) if v is not None)
    except DatasetNotFoundError:
        held.clear()


def _copy_keys(
    held: MutableMapping[str, bytes], target: Any, clobber: bool, storage_options: dict[str, Any] | None
) -> None:
    """Write a whole dataset: what is there stays until the new one is complete."""
    from nczarr.mapping.guarding.destination import Destination

    destination = Destination(target, overwrite=clobber, storage_options=storage_options)
    try:
        destination.prepare()
        last = [key for key in held if "/" not in key]
        destination.store.set_many((key, held[key]) for key in held if "/" in key)
        destination.settle()
        destination.store.set_many((key, held[key]) for key in last)
        destination.confirm()
        destination.finish()
    except BaseException:
        destination.abort()
        raise
    destination.store.close()


def _in_memory(name: str, mode: str, memory: Any, data_model: str, options: Any) -> Session:
    if mode == "w":
        held: dict[str, bytes] = {}
        session = _create(held, name, data_model, True, options, None)

        def archive() -> memoryview:
            buffer = io.BytesIO()
            with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as written:
                for key, value in held.items():
                    written.writestr(key, value)
            return buffer.getbuffer()

        session.at_close = archive
        return session
    content = bytes(memory)
    if not is_zip(content[:8]):
        return read_from_memory(name, content)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as read:
            held = {entry: read.read(entry) for entry in read.namelist() if not entry.endswith("/")}
    except zipfile.BadZipFile as error:
        raise NetCDFOSError(
            f"memory does not hold a zip archive of a Zarr hierarchy: {error}", path=name
        ) from error
    return _existing(held, name, "r", data_model, options, None)

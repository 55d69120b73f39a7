"""Open and create netCDF files as sessions: for reading, for editing in place, and in memory."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from nczarr import model
from nczarr.errors import DatasetExistsError
from nczarr.formats import is_netcdf
from nczarr.netcdf import create_file, open_dataset, open_file, open_isolated, open_remote
from nczarr.netcdf.bytes.file import MemoryFile
from nczarr.netcdf4.compatibility import FORMAT_OF_MODEL
from nczarr.netcdf4.errors import NetCDFOSError
from nczarr.netcdf4.opening.lock import WriterLock
from nczarr.session import Session, SourceOnly
from nczarr.system.atomic import Output
from nczarr.system.environment import reads_isolated

_HINT = "close it there; netCDF4-python and other readers of HDF5 lock a file, too"
#: Formats of files that are not HDF5.
_CLASSIC_FILES = ("classic", "64-bit offset", "cdf5")


def create_netcdf(path: Path, name: str, data_model: str, *, clobber: bool) -> Session:
    """Make a netCDF file and open it for writing."""
    empty = model.Dataset(path.stem or "dataset", format=FORMAT_OF_MODEL[data_model])
    there = path.exists()
    locks = [WriterLock(str(path), hint=_HINT)] if there else []
    try:
        edited = create_file(path, empty, overwrite=clobber)
        session = Session(edited, name=name, writable=True)
        session.locks = locks
        if not there or edited.place != edited.path:
            locks.append(WriterLock(edited.place, hint=_HINT))
    except BaseException:
        for lock in locks:
            lock.release()
        raise
    return session


def open_netcdf(path: Path, name: str, *, writable: bool, isolated: bool | None = None) -> Session:
    """Open a netCDF file; for reading in a child process if it is asked for, by the caller or by the setting."""
    if not writable:
        apart = reads_isolated() if isolated is None else isolated
        opened = open_isolated(path) if apart else open_dataset(path)
        return _reading(opened.dataset, opened, name)
    if not os.access(path, os.W_OK):
        raise NetCDFOSError("the file cannot be written: Permission denied", path=name)
    lock = WriterLock(str(path), hint=_HINT)
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
    session = Session(SourceOnly(dataset, owner), name=name, writable=False)
    session.disk_format = "NETCDF3" if dataset.format in _CLASSIC_FILES else "HDF5"
    return session


def netcdf_in_memory(name: str, data_model: str) -> Session:
    """Make a netCDF file in memory; closing the session returns its bytes."""
    held = MemoryFile()
    session = _in_memory(held, name, data_model)
    session.at_close = lambda: memoryview(held.content)
    return session


def _in_memory(held: MemoryFile, name: str, data_model: str) -> Session:
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
    locks = [WriterLock(str(path), hint=_HINT)] if there and persist else []
    try:
        if mode == "r+" and there:
            held = MemoryFile(path.read_bytes())
            session = Session(open_file(path, content=held), name=name, writable=True)
        else:
            held = MemoryFile()
            session = _in_memory(held, name, data_model)
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

"""Open or create the target of ``Dataset(...)`` as a session, and lock other writers out."""

from __future__ import annotations

import codecs
import errno
import gc
import io
import operator
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from nczarr import errors, formats, model
from nczarr.dataclass import dataclass
from nczarr.errors import (
    DatasetExistsError,
    DatasetNotFoundError,
    LockedError,
    NCZarrError,
    ReadOnlyError,
    StoreError,
    UnsupportedError,
)
from nczarr.netcdf4.compatibility import DATA_MODELS, FORMAT_OF_MODEL
from nczarr.netcdf4.compatibility import storage as storage_rule
from nczarr.netcdf4.errors import translating
from nczarr.rooms import Door
from nczarr.session import Session, SourceOnly, Stored
from nczarr.stores import LocalStore, Store, open_store
from nczarr.stores.base import batched
from nczarr.system.atomic import Output
from nczarr.system.environment import is_on
from nczarr.system.failures import is_unreached
from nczarr.system.finalizing import close_dropped
from nczarr.system.locks import FileLock, Releasable, in_time
from nczarr.targets import parse_target

if TYPE_CHECKING:
    from nczarr import netcdf
    from nczarr.mapping import WriteOptions
    from nczarr.zarr import Hierarchy
else:
    netcdf = Door("nczarr.netcdf")

Lock = TypeVar("Lock", bound=Releasable)
#: Number of keys that one request reads.
_BATCH = 256
_MODES = {"r": "r", "rs": "r", "w": "w", "ws": "w", "x": "x"}
_MODES.update(dict.fromkeys(("a", "as", "r+", "r+s"), "r+"))
_SHARED_HINT = "close it there; or open it with shared=True, here and there, to write different chunks"
_FILE_HINT = (
    "close it there, with its readers here; netCDF4-python and other readers of HDF5 lock a file, too"
)

# netCDF-C's numbers of errors.
_NC_ENOTNC = -51
_NC_EIO = -68
_NC_EHDFERR = -101

_NO_ACCESS = (errno.EACCES, errno.EPERM, errno.EROFS)
#: Errors of creating a file, which netCDF4-python raises as a missing permission.
_NO_PLACE = (
    *_NO_ACCESS, errno.EEXIST, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR
)  # fmt: skip


def check_encoding(encoding: object) -> None:
    """Refuse an encoding of names that Python lacks."""
    if encoding is not None:
        with translating("the names of files cannot be encoded"):
            codecs.lookup(encoding)  # type: ignore[arg-type]


def _exclusive(take: Callable[[], Lock], path: object, hint: str) -> Lock:
    """Lock other writers out of a dataset.

    Raises
    ------
    LockedError
        If another writer has it open.
    """
    try:
        return take()
    except (BlockingIOError, LockedError):
        gc.collect()  # a dataset without references may have the lock, HDF5's reader of a file too
        close_dropped()
    try:
        return take()
    except BlockingIOError as error:
        message = f"the dataset is {error.strerror}, here or in another process"
        raise errors.LockedError(message, path=str(path), hint=hint) from error
    except LockedError as error:
        # The mark of a program that was stopped: only its own hint tells how to remove it.
        hint = error.hint if error.hint and "clean" in error.hint else hint
        raise errors.LockedError(error.message, path=error.path, hint=hint) from error


def _lock(path: object, *, shared: bool = False, hint: str = _FILE_HINT) -> FileLock:
    """Lock other writers out of a local file or directory."""
    return _exclusive(lambda: FileLock(str(path), shared=shared), path, hint)


def _without_readers(path: Path) -> FileLock:
    """Lock a netCDF file that no reader of this process shares with an earlier writer."""
    # HDF5 would give these readers wrong values after a change through another handle.
    if netcdf.has_readers(str(path)):
        raise BlockingIOError(errno.EWOULDBLOCK, "open for reading", str(path))
    return FileLock(str(path))


def _mark(store: Store) -> Releasable:
    """Mark a dataset in a remote store as open for writing."""
    from nczarr.mapping.dataset.changes import WriterMark

    return _exclusive(lambda: WriterMark(store), store.url, _SHARED_HINT)


@contextmanager
def _locks() -> Iterator[list[Any]]:
    """Collect locks in a list, and release them after an error."""
    locks: list[Releasable] = []
    try:
        yield locks
    except BaseException:
        for lock in locks:
            lock.release()
        raise


@dataclass(frozen=True)
class Opening:
    """A target with the arguments of :class:`nczarr.netcdf4.Dataset`; see there."""

    target: Any
    mode: str = "r"
    clobber: bool = True
    format: str = "NETCDF4"
    diskless: bool = False
    persist: bool = False
    memory: Any = None
    parallel: bool = False
    storage_options: dict[str, Any] | None = None
    options: WriteOptions | None = None
    shared: bool = False
    storage: str | None = None
    isolated: bool | None = None
    wait: float = 0.0
    #: False: the mode ``r+`` creates no dataset where there is none.
    create: bool = True
    #: Called with plain Zarr before its documents are read; see :func:`nczarr.mapping.open_dataset`.
    on_plain: Callable[[Hierarchy], object] | None = None

    def open(self) -> Session:
        """Open or create the dataset."""
        close_dropped()
        mode, target, memory = self.mode, self.target, self.memory
        if isinstance(mode, bytes) or not np.iterable(mode):
            raise errors.ArgumentTypeError(f"mode is text, not {type(mode).__name__}")
        if not isinstance(mode, str) or mode not in _MODES:
            raise errors.ArgumentError(f"mode must be 'w', 'x', 'r', 'a' or 'r+', got '{mode}'")
        # netCDF4-python raises a ValueError where its library has no MPI.
        if self.parallel:
            raise errors.ArgumentError(
                "parallel mode requires MPI enabled netcdf-c", hint="Zarr needs no MPI"
            )
        if self.storage is not None and self.storage not in formats.STORAGES:
            raise errors.ArgumentError(
                f"storage must be one of {', '.join(formats.STORAGES)}, got {self.storage!r}"
            )
        mode = _MODES[mode]
        path = formats.local_path(target)
        # An existing dataset ignores the format, as in netCDF4-python.
        exists = mode == "r" or (mode == "r+" and path is not None and os.path.exists(path))
        if self.format not in DATA_MODELS and not exists:
            raise errors.ArgumentError(
                f"unrecognized format requested: {self.format!r}", hint=", ".join(DATA_MODELS)
            )
        opening = replace(
            self,
            target=os.fsdecode(target) if isinstance(target, bytes) else target,
            mode="w" if mode == "x" else mode,
            clobber=self.clobber and mode != "x",
        )
        opening._check_name()
        if memory is not None:
            _check_memory(mode, memory)
        try:
            return opening._open() if self.wait == 0 else in_time(opening._open, self.wait)
        except (NCZarrError, OSError) as error:
            # These are mistakes of the call, which netCDF4-python raises unchanged.
            if isinstance(error, ValueError | TypeError):
                raise
            told = opening._as_netcdf4(error)
            if told is error:
                raise
            raise told from error

    def _open(self) -> Session:
        in_memory = self.memory is not None
        kind = formats.storage_of(self.target, self.storage, in_memory=in_memory, rule=storage_rule())
        as_file = kind == "netcdf"
        if in_memory and self.mode == "w":
            return self._new_file_in_memory() if as_file else self._new_archive_in_memory()
        if in_memory:
            return self._from_memory(bytes(self.memory))
        stored = SourceOnly(self.target) if isinstance(self.target, model.Dataset) else self.target
        if isinstance(stored, Stored):
            return self._session(stored)
        if self.mode == "r":
            return self._existing()
        path = self.path
        if not self.create and path is not None and not path.exists():
            raise DatasetNotFoundError("there is no such file or directory", path=self.name)
        if as_file if self.mode == "w" or path is None or not path.exists() else formats.is_netcdf(path):
            path = self._checked_file()
            if self.diskless:
                return self._diskless_file(path)
            return self._new_file(path) if self.mode == "w" or not path.exists() else self._edited_file(path)
        if self.diskless:
            return self._diskless()
        return self._new() if self.mode == "w" else self._existing()

    def _session(self, stored: Stored, locks: Sequence[Releasable] = (), *, shared: bool = False) -> Session:
        return Session(stored, name=self.name, writable=self.mode != "r", shared=shared, locks=locks)

    @property
    def path(self) -> Path | None:
        """The path of a local target."""
        return formats.local_path(self.target)

    @property
    def place(self) -> Path | None:
        """The path of a local target, also of a URL with a fragment of netCDF-C: its lock excludes writers."""
        if self.path is not None or not isinstance(self.target, str):
            return self.path
        found = parse_target(self.target)
        return Path(found.location) if found.protocol == "file" else None

    @property
    def name(self) -> str:
        """The name in error messages."""
        if isinstance(self.target, str | os.PathLike):
            return os.fsdecode(self.target)
        names = (getattr(self.target, attribute, None) for attribute in ("url", "path", "name"))
        return next((name for name in names if isinstance(name, str)), "memory")

    @property
    def is_marked(self) -> bool:
        """True if a mark in the store excludes other writers: behind a URL, no lock does."""
        remote = isinstance(self.target, str) and self.place is None
        return remote and not self.target.startswith("memory:")

    def _check_name(self) -> None:
        """Refuse a path with a NUL, which the system would cut."""
        if isinstance(self.target, str | os.PathLike) and "\0" in self.name:
            if self.mode == "r":
                raise DatasetNotFoundError("there is no such file: a path has no NUL", path=self.name)
            raise errors.ArgumentError("a path has no NUL", path=self.name)

    def _empty(self, name: str) -> model.Dataset:
        data_model = DATA_MODELS.get(self.format, "NETCDF4")
        return model.Dataset(name or "dataset", format=FORMAT_OF_MODEL[data_model])

    # -- Zarr hierarchies

    def _new(self) -> Session:
        """Create a Zarr hierarchy."""
        from nczarr.mapping import WriteOptions, create_dataset

        target, path, place = self.target, self.path, self.place
        with _locks() as locks:
            if place is not None:
                locks.append(_lock(place, hint=_SHARED_HINT))
                if path is not None and self.clobber and path.is_file() and not path.stat().st_size:
                    # An empty file that reserves a name is replaced by a file: a zip file.
                    path.unlink()
                    target = f"file://{path.absolute()}#mode=nczarr,zip"
            empty = self._empty(os.path.splitext(os.path.basename(self.name.rstrip("/")))[0])
            options = self.options or WriteOptions(compression="source")
            stored = create_dataset(
                target, empty, options, overwrite=self.clobber, storage_options=self.storage_options
            )
            session = self._session(stored, locks)
            root = str(stored.store.root) if isinstance(stored.store, LocalStore) else None
            # The path may be an empty directory.
            if root is not None and not any(lock.is_on(root) for lock in locks):
                locks.append(_lock(root, hint=_SHARED_HINT))
            if self.is_marked and not self.shared and stored.store.takes_any_key:
                session.at_publish = lambda: _mark(stored.store)
        return session

    def _existing(self) -> Session:
        """Open an existing dataset. Create it in the mode ``r+`` if there is none."""
        path = self.path
        if path is None:
            is_url = self.mode == "r" and isinstance(self.target, str)
            if is_url and formats.kind_of_source(self.target) == "netcdf":
                return self._reading(netcdf.open_remote(self.target, self.storage_options))
        elif path.is_file():
            if formats.is_netcdf(path):
                return self._read_file(path)
            # netCDF4-python raises this error for any other file.
            if not formats.is_zip(_first_bytes(path)) and not formats.is_references(path):
                raise errors.StoreError("NetCDF: Unknown file format", path=self.name)
        return self._hierarchy()

    def _hierarchy(self) -> Session:
        """Open an existing Zarr hierarchy. Create it in the mode ``r+`` if there is none."""
        target, place, writable = self.target, self.place, self.mode != "r"
        from nczarr.mapping import WriteOptions, open_dataset
        from nczarr.mapping.dataset.beside import PartsMark
        from nczarr.mapping.dataset.changes import WriterMark

        with _locks() as locks:
            if place is not None and writable:
                locks.append(_lock(place, shared=self.shared, hint=_SHARED_HINT))
            if writable and self.is_marked:  # before the documents are read, which another writer may change
                target = open_store(target, "r+", self.storage_options)
                if target.takes_any_key:
                    locks.append(PartsMark(target) if self.shared else _mark(target))
            options = self.options or WriteOptions(compression="source")
            again = partial(open_dataset, storage_options=self.storage_options, options=options)
            top = next((lock.keys for lock in locks if isinstance(lock, WriterMark)), None)
            try:
                stored = again(target, "r+" if writable else "r", on_plain=self.on_plain, top=top)
            except DatasetNotFoundError:
                if not (writable and self.create):
                    raise
                # The new session takes the same locks, which exclude this one as well.
                while locks:
                    locks.pop().release()
                return replace(self, clobber=False)._new()
            session = self._session(stored, locks, shared=self.shared and writable)
        # Without conditional writes, a warning was all: one writer stored the old length of another.
        unguarded = any(isinstance(lock, WriterMark) and not lock.excludes for lock in locks)
        if unguarded if writable else not isinstance(self.target, Store):
            session.reopen = partial(again, self.target)
        # Processes that share a directory take turns at a chunk.
        if session.rules.shared:
            stored.store.is_shared = True
        return session

    def _diskless(self) -> Session:
        """Edit a Zarr hierarchy, or a new one, in memory; with `persist`, write it on close."""
        from nczarr.mapping.dataset.destination import open_destination

        clobber = self.clobber or self.mode == "r+"
        destination = partial(
            open_destination, self.target, overwrite=clobber, storage_options=self.storage_options
        )
        with _locks() as locks:
            if self.persist and self.path is not None:
                locks.append(_lock(self.path, hint=_SHARED_HINT))
            if self.persist and isinstance(self.target, str | os.PathLike):
                # Refuse a target that cannot be replaced now, not after all values are written.
                destination().abort()
            keys = self._load_keys() if self.mode == "r+" else {}
            memory = replace(self, target=keys, clobber=True, storage_options=None, shared=False)
            session = memory._existing() if keys else memory._new()
        session.locks = locks
        if self.persist:

            def write_out() -> None:
                """Write the whole dataset. An existing dataset stays until the new one is complete."""
                output = destination()
                try:
                    output.prepare()
                    # The root's documents are last: until then, there is no dataset.
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
                # A key that is not listed would be lost when the whole dataset is written anew.
                if not store.lists_all:
                    raise errors.also(errors.UnsupportedError, OSError)(
                        "the store does not list all its keys, so it cannot be loaded into memory as a whole",
                        path=store.url,
                        hint="open it without diskless",
                    )
                for keys in batched(store.list(), _BATCH):
                    values = store.get_many(keys)
                    found.update((k, bytes(v)) for k, v in zip(keys, values, strict=True) if v is not None)
        except DatasetNotFoundError:
            return {}
        return found

    def _new_archive_in_memory(self) -> Session:
        """Create a Zarr hierarchy in memory; closing the session returns it as a zip archive."""
        keys: dict[str, bytes] = {}
        session = replace(self, target=keys, clobber=True, storage_options=None)._new()

        def archive() -> memoryview:
            import zipfile

            buffer = io.BytesIO()
            with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as written:
                for key, value in keys.items():
                    written.writestr(key, value)
            # A view of the buffer raises BufferError if the collector finalizes the buffer first.
            return memoryview(buffer.getvalue())

        session.at_close = archive
        return session

    def _from_memory(self, content: bytes) -> Session:
        """Read a zip archive of a Zarr hierarchy, or a netCDF file."""
        import zipfile

        from nczarr.stores.zip import member_name

        if not formats.is_zip(content[:8]):
            return self._read_file_in_memory(content)
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                members = [entry for entry in archive.infolist() if not entry.is_dir()]
                keys = {member_name(entry): archive.read(entry) for entry in members}
        except zipfile.BadZipFile as error:
            raise errors.StoreError(
                f"memory does not hold a zip archive of a Zarr hierarchy: {error}", path=self.name
            ) from error
        return replace(self, target=keys, storage_options=None)._existing()

    # -- netCDF files

    def _checked_file(self) -> Path:
        """Return the path of a netCDF file for writing, or refuse arguments that it does not support."""
        if self.path is None:
            raise errors.also(errors.UnsupportedError, OSError)(
                "a netCDF file behind a URL can be read, not written",
                path=self.name,
                hint="write it here and copy it there, or ask for storage='zarr'",
            )
        # Options that a file does not have would be ignored without a word.
        if self.options is not None or self.shared:
            raise errors.ArgumentError(
                f"a netCDF file has no {'options' if self.options is not None else 'shared writing'} of Zarr",
                path=self.name,
                hint="ask for storage='zarr'",
            )
        if self.isolated:
            raise errors.ArgumentError(
                "a netCDF file is read in a child process, not written", path=self.name, hint='use mode="r"'
            )
        return self.path

    def _read_file(self, path: Path) -> Session:
        """Read a netCDF file, in a child process if the argument or the environment requires this."""
        isolated = is_on("NCZARR_ISOLATED") if self.isolated is None else self.isolated
        return self._reading(netcdf.open_isolated(path) if isolated else netcdf.open_dataset(path))

    def _reading(self, opened: Any) -> Session:
        disk_format = "NETCDF3" if opened.dataset.format in formats.CLASSIC.values() else "HDF5"
        return self._session(SourceOnly(opened.dataset, opened, disk_format))

    def _read_file_in_memory(self, content: bytes) -> Session:
        """Read a netCDF file in memory from a temporary file, which the libraries require."""
        import tempfile

        folder = tempfile.TemporaryDirectory(prefix="nczarr-")
        try:
            path = Path(folder.name) / "memory.nc"
            path.write_bytes(content)
            if not formats.is_netcdf(path):
                raise errors.StoreError(
                    "memory holds neither a zip archive of a Zarr hierarchy nor a netCDF file", path=self.name
                )
            session = replace(self, isolated=None)._read_file(path)
        except BaseException:
            folder.cleanup()
            raise
        session.at_close = folder.cleanup
        return session

    def _new_file(self, path: Path) -> Session:
        """Create a netCDF file."""
        exists = path.exists()
        with _locks() as locks:
            if exists:
                locks.append(_lock(path))
            edited = netcdf.create_file(path, self._empty(path.stem), overwrite=self.clobber)
            session = self._session(edited, locks)
            if not exists or edited.place != edited.path:
                locks.append(_lock(edited.place))
        return session

    def _edited_file(self, path: Path) -> Session:
        """Open a netCDF file for editing in place."""
        if not os.access(path, os.W_OK):
            raise errors.StoreError("the file cannot be written: Permission denied", path=self.name)
        with _locks() as locks:
            locks.append(_exclusive(lambda: _without_readers(path), path, _FILE_HINT))
            return self._session(netcdf.open_file(path), locks)

    def _new_file_in_memory(self) -> Session:
        """Create a netCDF file in memory; closing the session returns its bytes."""
        content = netcdf.MemoryFile()
        session = self._session(self._created_in(content))
        session.at_close = lambda: memoryview(content.content)
        return session

    def _created_in(self, content: netcdf.MemoryFile) -> Stored:
        return netcdf.create_file(self.name, self._empty(Path(self.name).stem), content=content)

    def _diskless_file(self, path: Path) -> Session:
        """Edit a netCDF file, or a new one, in memory; with `persist`, write it on close."""
        exists = path.exists()
        if path.is_dir() or (exists and not self.clobber and self.mode != "r+"):
            raise DatasetExistsError("the file exists", path=self.name)
        # Refused now, and not after all values are written.
        if self.persist and not os.access(path.absolute().parent, os.W_OK):
            raise errors.StoreError(
                "the file cannot be written: its folder does not exist, or is not writable", path=self.name
            )
        with _locks() as locks:
            if exists and self.persist:
                locks.append(_lock(path))
            edits = self.mode == "r+" and exists
            content = netcdf.MemoryFile(path.read_bytes()) if edits else netcdf.MemoryFile()
            edited = netcdf.open_file(path, content=content) if edits else self._created_in(content)
            session = self._session(edited, locks)
        if self.persist:

            def write_out() -> None:
                output = Output(path)
                try:
                    with output.open() as file:
                        file.write(content.content)
                    output.commit()
                except OSError as error:
                    raise errors.StoreError(
                        f"the file cannot be written: {error.strerror}", path=self.name
                    ) from error
                finally:
                    output.discard()

            session.at_close = write_out
        return session

    # -- errors

    def _as_netcdf4(self, error: NCZarrError | OSError) -> OSError:
        """Return an error of opening as netCDF4-python raises it: an :class:`OSError` with ``errno`` and ``filename``.

        If a dataset cannot be created, it is a :class:`PermissionError`.
        """
        number = self._system_number(error)
        kind = self._kind(error, number)
        if kind is None and not isinstance(error, OSError):
            kind = errors.StoreError
        told: BaseException = error
        if kind is not None:
            known = error if isinstance(error, NCZarrError) else NCZarrError(error.strerror or str(error))
            told = kind(known.message, path=known.path or self.name, hint=known.hint)
        assert isinstance(told, OSError)
        # Programs for netCDF4-python look at the number and the file name of the error.
        if told.errno is None or isinstance(told, NotADirectoryError):
            told.errno = self._number(error, number)
        if told is not error or told.filename is None:
            told.filename = self.name
        return told

    def _kind(self, error: NCZarrError | OSError, number: int | None) -> Callable[..., NCZarrError] | None:
        """Return the class of netCDF4-python's error; None if the error already is of it."""
        if isinstance(error, DatasetExistsError):
            if error.hint and "overwrite" in error.hint:
                error.hint = 'mode "w" replaces it'
                return None
            return errors.also(errors.DatasetExistsError, PermissionError) if self.clobber else None
        if isinstance(error, PermissionError) and isinstance(error, NCZarrError):
            return None
        if isinstance(error, ReadOnlyError) or number in (_NO_PLACE if self.mode != "r" else _NO_ACCESS):
            return errors.NotAllowedError
        if number in (errno.EAGAIN, errno.EWOULDBLOCK):
            return errors.LockedError
        if number == errno.ENOTDIR:
            return errors.also(errors.DatasetNotFoundError, NotADirectoryError)
        if isinstance(error, DatasetNotFoundError) and number not in (None, errno.ENOENT):
            return errors.StoreError
        if isinstance(error, UnsupportedError) and not isinstance(error, OSError):
            return errors.also(errors.UnsupportedError, OSError)
        return None if isinstance(error, NCZarrError) else errors.StoreError

    @property
    def _local(self) -> Path | None:
        return None if self.memory is not None else self.path

    def _system_number(self, error: BaseException) -> int | None:
        """Return the system's error number, from the error, its causes, or a look at the path."""
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, OSError) and not isinstance(cause, DatasetNotFoundError) and cause.errno:
                return cause.errno if cause.errno > 0 else None
            cause = cause.__cause__
        path = self._local
        if path is None or (isinstance(error, OSError) and error.errno and error.errno < 0):
            return None
        try:
            # The dot requires that the parent is a directory.
            os.stat(path if self.mode == "r" else f"{path.absolute().parent}/.")
        except OSError as refused:
            return refused.errno
        except ValueError:  # a NUL in it
            return errno.ENOENT
        return None

    def _number(self, error: BaseException, number: int | None) -> int:
        number = _NC_EIO if is_unreached(error) else number
        if number is not None:
            return number
        try:
            is_hdf5 = self._local is not None and formats.netcdf_format(str(self._local)) == "hdf5"
        except NCZarrError:
            is_hdf5 = False
        return _NC_EHDFERR if is_hdf5 else _NC_ENOTNC


def _check_memory(mode: str, memory: object) -> None:
    """Refuse the arguments that netCDF4-python refuses: a reader needs bytes, a new dataset a number."""
    if mode not in ("r", "w"):
        raise errors.ArgumentError("if memory kwarg specified, mode must be 'r' or 'w'")
    try:
        if mode == "w":
            # Bytes are no beginning of a new dataset: they were left out.
            size = operator.index(memory)  # type: ignore[arg-type]
            if not 0 <= size < 1 << 64:
                raise errors.RangeError(f"memory is a number of bytes, not {size}")
        else:
            memoryview(memory).release()  # type: ignore[arg-type]
    except TypeError as error:
        kind = "a number of bytes to write" if mode == "w" else "bytes to read"
        raise errors.ArgumentTypeError(f"memory must be {kind}, got {type(memory).__name__}") from error


def _first_bytes(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(8)
    except OSError as error:
        raise StoreError(f"cannot read: {error.strerror}", path=str(path)) from error

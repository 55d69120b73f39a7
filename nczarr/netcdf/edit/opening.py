"""Open and create netCDF files for editing, on disk or in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nczarr.errors import DatasetExistsError, NetCDFFileError
from nczarr.formats import netcdf_format
from nczarr.model import Dataset
from nczarr.netcdf.bytes.file import ByteFile, DiskFile, MemoryFile, file_errors
from nczarr.netcdf.classic import FORMATS
from nczarr.netcdf.edit.classic_file import EditedClassic
from nczarr.netcdf.edit.editor import EditedFile
from nczarr.options import named
from nczarr.system.atomic import Output
from nczarr.system.locks import FileLock


def create_file(
    path: str | os.PathLike[str],
    dataset: Dataset,
    *,
    overwrite: bool = False,
    content: ByteFile | None = None,
) -> EditedFile:
    """Create a netCDF file for editing.

    A non-empty file at `path` stays until the new one is published or closed. If there is none, the new file
    appears under its name at once.

    Parameters
    ----------
    path : path-like
    dataset : Dataset
        The initial content. Its ``format`` is the format of the file.
    overwrite : bool
        Replace an existing file.
    content : ByteFile, optional
        The destination of the bytes, in place of the disk.

    Raises
    ------
    DatasetExistsError
        If the file exists and `overwrite` is false, or the target is a directory.
    NetCDFFileError
        If the file cannot be written.
    UnsupportedError
        If h5py is required and not installed.

    Examples
    --------
    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "a.nc")
    >>> file = create_file(path, Dataset("a", format="netCDF-4"))
    >>> file.dataset.format, file.disk_format
    ('netCDF-4', 'HDF5')
    >>> file.close()
    """
    path = os.fspath(path)
    if content is not None:
        return edited_file(path, content, dataset)
    check_target(path, overwrite)
    output = None
    with file_errors(path):
        # The old file stays until the new one is complete.
        # An empty file only reserves the name.
        if os.path.exists(path) and os.path.getsize(path):
            output = Output(path)
            content = DiskFile(str(output.path), "x", output.create())
        else:
            content = DiskFile(path, "w")
    return edited_file(path, content, dataset, output)


def check_target(path: str, overwrite: bool) -> None:
    """Refuse a directory, an existing file without `overwrite`, and a path without its directory."""
    if os.path.isdir(path):
        raise DatasetExistsError("this is a directory; a file cannot take its place", path=path)
    if os.path.exists(path) and not overwrite:
        raise DatasetExistsError("the file exists", path=path, hint=f"{named('overwrite', True)} replaces it")
    if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        hint = "create it, or give a path in another folder"
        raise NetCDFFileError("the folder for the file does not exist", path=path, hint=hint)


def open_file(path: str | os.PathLike[str], *, content: MemoryFile | None = None) -> EditedFile:
    """Open a netCDF file of any format for editing.

    Parameters
    ----------
    path : path-like
    content : MemoryFile, optional
        The bytes of a file in memory. `path` is then for error messages only.

    Raises
    ------
    DatasetNotFoundError
        If the file does not exist.
    NetCDFFileError
        If the file is not a netCDF file, is damaged, or is not writable.
    UnsupportedError
        If the file is HDF5 and h5py is not installed.

    Examples
    --------
    >>> import tempfile
    >>> import nczarr
    >>> from nczarr.model import Dataset
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "a.nc")
    >>> with nczarr.netcdf.create_dataset(path, Dataset("a")) as sink:
    ...     sink.commit()
    >>> file = open_file(path)
    >>> list(file.dataset.all_groups)
    ['/']
    >>> file.close()
    >>> folder.cleanup()
    """
    path = os.fspath(path)
    format_ = netcdf_format(path)
    with file_errors(path):
        opened: ByteFile = DiskFile(path, "r+") if content is None else content
    return edited_file(path, opened, format_=format_)


@contextmanager
def edit_records(path: str | os.PathLike[str]) -> Iterator[EditedClassic]:
    """Open a classic file exclusively to append records. After an error, uncounted records are removed.

    Raises
    ------
    NetCDFFileError
        If the file is not writable, or is open for writing elsewhere.
    """
    path = os.fspath(path)
    with _alone(path):
        file = open_file(path)
        assert isinstance(file, EditedClassic)
        try:
            yield file
        except BaseException:
            # A later append would count what this one has written only in part.
            file.take_back_records()
            raise
        finally:
            file.close()


@contextmanager
def edit_copy(path: str | os.PathLike[str]) -> Iterator[EditedFile]:
    """Open a copy of a file for changes. At the end it replaces the file; after an error it is removed.

    Readers, with HDF5's locks or without, see the old content until the replacement, and also after a kill.
    Other writers of the file are locked out. If two processes change copies of one file, the second one
    raises an error.

    Raises
    ------
    NetCDFFileError
        If the file is readable but cannot be changed.
    NetCDFFileError
        If the file cannot be copied, or is open for writing elsewhere.
    """
    path = os.fspath(path)
    # Readers keep the old file, which a new one replaces.
    with _alone(path, beside_readers=True):
        output = Output(path)
        before = _state(output.target)
        try:
            with file_errors(path, "copied"):
                output.copy_target()
                content = DiskFile(str(output.path), "r+")
            file = edited_file(path, content, None, output, format_=netcdf_format(path))
            try:
                yield file
            except BaseException:
                file.abandon()
                raise
            # The copy would undo the changes of the other process.
            if _state(output.target) != before:
                file.abandon()
                raise NetCDFFileError(
                    "another process changed the file during this change", path=path, reason="temporary"
                )
            file.close()
        finally:
            output.discard()


def _state(path: Path) -> tuple[int, ...] | None:
    with suppress(FileNotFoundError):
        status = path.stat()
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
    return None


@contextmanager
def _alone(path: str, *, beside_readers: bool = False) -> Iterator[None]:
    """Lock other writers out. HDF5's readers take a lock, too."""
    try:
        lock = FileLock(path, shared=beside_readers)
    except BlockingIOError as error:
        raise NetCDFFileError(
            f"the file is {error.strerror}, here or in another process",
            path=path,
            hint="close it there",
            reason="temporary",
        ) from error
    try:
        yield
    finally:
        lock.release()


def edited_file(
    path: str,
    content: ByteFile,
    dataset: Dataset | None = None,
    output: Output | None = None,
    *,
    format_: str | None = None,
) -> EditedFile:
    """Return the editor of bytes: of a new file with the content `dataset`, or of a file that has `format_`.

    After an error or an interrupt, the file of `output` is removed.
    """
    try:
        if (format_ != "hdf5") if dataset is None else (dataset.format in FORMATS):
            return EditedClassic(path, content, dataset, output=output)
        from nczarr.netcdf.edit.hdf5_file import EditedHDF5

        return EditedHDF5(path, content, dataset, output=output)
    except BaseException:
        if output is not None:
            output.discard()
        raise

"""Open and create netCDF files of every format, and read the attributes that the netCDF library hides.

A file that an editor of this process has open is read through that editor.
"""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nczarr import model
from nczarr.dataclass import dataclass
from nczarr.errors import UnsupportedError
from nczarr.formats import CLASSIC, netcdf_format
from nczarr.model.anonymous import name_anonymous
from nczarr.netcdf.classic import ClassicFile, read_classic
from nczarr.options import named
from nczarr.system.finalizing import Closable

if TYPE_CHECKING:
    from nczarr.netcdf.hdf5.source import HDF5File
    from nczarr.netcdf.sink import FileSink


@dataclass
class OpenFile:
    """A netCDF file that is open for reading; also a context manager.

    Attributes
    ----------
    path : str
    dataset : Dataset
        The model. Its variables read their data from the file on access.

    Examples
    --------
    >>> import os, tempfile
    >>> from nczarr.model import Dataset
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "a.nc")
    >>> from nczarr.netcdf import create_dataset, open_dataset
    >>> with create_dataset(path, Dataset("a", format="classic")) as sink:
    ...     sink.commit()
    >>> with open_dataset(path) as file:
    ...     file.dataset.name
    'a'
    >>> folder.cleanup()
    """

    path: str
    dataset: model.Dataset
    _file: Closable = field(repr=False)

    def close(self) -> None:
        """Close the file. Its variables' data are no longer readable. A second call has no effect."""
        self._file.close()

    def __enter__(self) -> OpenFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def open_dataset(path: str | os.PathLike[str]) -> OpenFile:
    """Open a netCDF file of any format: CDF-1, CDF-2, CDF-5, netCDF-4, or an HDF5 file.

    It serves programs that need the file beside its model; :func:`nczarr.open` reads any format.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    OpenFile
        Its ``dataset`` has every object of the file, in order. Values are read on access, from any thread.

    Raises
    ------
    DatasetNotFoundError
        If the file does not exist.
    NetCDFFileError
        If the file is not a netCDF file, is damaged, or has an object that netCDF cannot represent.
    UnsupportedError
        If the file is HDF5 and h5py is not installed.

    Examples
    --------
    >>> from nczarr.model import Attribute, Dataset
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.nc"
    >>> create_dataset(path, Dataset("a", attributes=(Attribute.of("title", "T"),), format="classic")).commit()
    >>> with open_dataset(path) as file:
    ...     file.dataset.attribute["title"].text
    'T'
    """
    path = os.fspath(path)
    name = Path(path).stem
    format_ = netcdf_format(path)
    file: HDF5File | ClassicFile
    if format_ == "hdf5":
        from nczarr.netcdf.hdf5.reader import read_hdf5
        from nczarr.netcdf.hdf5.source import HDF5File

        file = HDF5File.open(path)
    else:
        file = ClassicFile.open(path)
    try:
        dataset = read_classic(file, name) if isinstance(file, ClassicFile) else read_hdf5(file, name)
        return OpenFile(path, dataset, file)
    # HDF5 keeps a lock on an open file, and the caller has no object to close.
    except BaseException:
        file.close()
        raise


def create_dataset(
    path: str | os.PathLike[str],
    dataset: model.Dataset,
    *,
    overwrite: bool = False,
    format: str | None = None,
) -> FileSink:
    """Create a netCDF file: write all metadata at once, and accept values region by region through the sink.

    Parameters
    ----------
    path : path-like
    dataset : Dataset
        Only the shapes of its variables are used, not their data. Anonymous dimensions get the names that the
        netCDF library gives them: ``phony_dim_0`` …
    overwrite : bool
        Replace an existing file once the new file is complete.
    format : str, optional
        ``netCDF-4``, ``netCDF-4 classic model``, ``classic``, ``64-bit offset`` or ``cdf5``. The default is
        the dataset's ``format``, or else ``netCDF-4``.

    Returns
    -------
    FileSink
        Call its ``commit`` after the last write. Until then, only a temporary file exists beside the target.

    Raises
    ------
    DatasetExistsError
        If the file exists and `overwrite` is false, or the target is a directory.
    LossError
        If the format cannot represent the dataset. The message names the object.
    ModelError
        If the dataset breaks a rule of the model.
    UnsupportedError
        If the format is unknown, a filter is not available, or h5py is required and not installed.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> from nczarr.model import INT, Dataset, Dimension, Variable
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.nc"
    >>> ds = Dataset("a", dimensions=(Dimension("x", 3),), variables=(Variable("v", INT, ("/x",)),))
    >>> with create_dataset(path, ds) as sink:
    ...     sink.write("/v", (slice(0, 2),), np.array([1, 2], "i4"))
    ...     sink.commit()
    >>> with open_dataset(path) as file:
    ...     print(file.dataset.variable_at("/v").data.read((slice(0, 3),)).tolist())
    [1, 2, -2147483647]
    """
    from nczarr.netcdf.sink import FileSink

    path = os.fspath(path)
    return FileSink(path, writable(path, dataset, format), overwrite)


def writable(path: str, dataset: model.Dataset, format: str | None) -> model.Dataset:
    """Return a dataset as :func:`create_dataset` writes it, or raise the errors that need no file."""
    format = format or dataset.format or "netCDF-4"
    dataset = name_anonymous(model.resolve(dataset))
    for fqn, wrong in model.names_no_file_has(dataset):
        raise UnsupportedError(
            f"a netCDF file cannot store this name: {wrong}",
            path=path,
            fqn=fqn if len(fqn) < 80 else f"{fqn[:80]}…",
            hint=f"{named('rename')} gives it another name",
        )
    if format not in (*CLASSIC.values(), "netCDF-4", "netCDF-4 classic model"):
        raise UnsupportedError(
            f"there is no netCDF format {format!r}",
            path=path,
            hint="one of netCDF-4, netCDF-4 classic model, classic, 64-bit offset, cdf5",
        )
    return replace(dataset, format=format)


#: The netCDF library takes a file with this number of its internal attributes for its own.
_ENOUGH_BOOKS = 2


def provenance(path: str | os.PathLike[str]) -> tuple[model.Attribute, ...]:
    """Return the attributes that the netCDF library hides. They describe the file, not the dataset.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    tuple of Attribute
        ``_NCProperties`` (if present), ``_SuperblockVersion`` and ``_IsNetcdf4``. Empty for a classic file.

    Raises
    ------
    DatasetNotFoundError
        If the file does not exist.
    NetCDFFileError
        If the file is not a netCDF file, or is damaged.
    UnsupportedError
        If the file is HDF5 and h5py is not installed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from nczarr.model import Dataset
    >>> from nczarr.netcdf import create_dataset
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.nc"
    >>> create_dataset(path, Dataset("a")).commit()
    >>> [a.name for a in provenance(path)]
    ['_NCProperties', '_SuperblockVersion', '_IsNetcdf4']
    """
    path = os.fspath(path)
    if netcdf_format(path) != "hdf5":
        return ()
    from nczarr.netcdf.hdf5.library import hdf5, hdf5_errors, read_text
    from nczarr.netcdf.hdf5.source import HDF5File
    from nczarr.netcdf.hdf5.tree import SCALE_BOOKS, VARIABLE_BOOKS, collect

    with closing(HDF5File.open(path)) as file, hdf5().phil, hdf5_errors(path):
        root = collect(file.id, path)
        exists = hdf5().h5a.exists
        version = int(file.id.get_create_plist().get_version()[0])
        books = sum(
            exists(dataset, name)
            for group in root.walk()
            for *_, dataset in group.datasets
            for name in SCALE_BOOKS | VARIABLE_BOOKS
        )
        found = exists(root.id, b"_nc3_strict") or books >= _ENOUGH_BOOKS
        text = read_text(root.id, b"_NCProperties")
    written = () if text is None else (model.Attribute.of("_NCProperties", text),)
    return (
        *written,
        model.Attribute.of("_SuperblockVersion", np.int32(version)),
        model.Attribute.of("_IsNetcdf4", np.int32(found)),
    )

"""Read the attributes that the netCDF library hides: the writing program and the HDF5 format version."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from nczarr.formats import netcdf_format
from nczarr.model import Attribute

_ENOUGH = 2


def provenance(path: str | os.PathLike[str]) -> tuple[Attribute, ...]:
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
    from nczarr.netcdf.hdf5.library import hdf5, hdf5_errors
    from nczarr.netcdf.hdf5.source import HDF5File
    from nczarr.netcdf.hdf5.tree import collect

    file = HDF5File.open(path)
    try:
        with hdf5().phil, hdf5_errors(path):
            root = collect(file.id, path)
            version = int(file.id.get_create_plist().get_version()[0])
            strict = hdf5().h5a.exists(root.id, b"_nc3_strict")
            found = strict or _book_count(root) >= _ENOUGH
            text = _text(root.id, b"_NCProperties")
    finally:
        file.close()
    written = () if text is None else (Attribute.of("_NCProperties", text),)
    return (
        *written,
        Attribute.of("_SuperblockVersion", np.int32(version)),
        Attribute.of("_IsNetcdf4", np.int32(found)),
    )


def _book_count(root: Any) -> int:
    """Count the netCDF-4 bookkeeping attributes of the datasets; the library requires at least two."""
    from nczarr.netcdf.hdf5.library import hdf5
    from nczarr.netcdf.hdf5.tree import SCALE_BOOKS, VARIABLE_BOOKS

    books = SCALE_BOOKS | VARIABLE_BOOKS
    exists = hdf5().h5a.exists
    return sum(
        exists(dataset, name) for group in root.walk() for _, dataset in group.datasets for name in books
    )


def _text(owner: Any, name: bytes) -> str | None:
    from nczarr.netcdf.hdf5.library import hdf5, read_attribute

    api = hdf5()
    if not api.h5a.exists(owner, name):
        return None
    attribute = api.h5a.open(owner, name)
    kind = attribute.get_type()
    if kind.get_class() != api.h5t.STRING or kind.is_variable_str():
        return None
    raw = np.zeros(kind.get_size(), "S1")
    read_attribute(attribute, kind, raw)
    return raw.tobytes().split(b"\0")[0].decode("utf-8", "surrogateescape")

"""Tell what a target or source is: a netCDF file, CDL text or a Zarr hierarchy.

Names and first bytes are known here, and nothing of how any format is read.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import IO, Any, Literal

from nczarr.errors import DatasetNotFoundError, NetCDFFileError
from nczarr.targets import check_slashes, parse_target

#: What a dataset is kept in.
Kind = Literal["zarr", "netcdf", "cdl"]

#: What the netCDF4-compatible interface can keep a dataset in.
STORAGES = ("zarr", "netcdf")
NETCDF_SUFFIXES = frozenset({".nc", ".nc3", ".nc4", ".cdf", ".netcdf", ".h5", ".hdf5", ".he5"})
CDL_SUFFIXES = frozenset({".cdl"})

#: The classic formats by the number behind ``CDF``.
CLASSIC = {1: "classic", 2: "64-bit offset", 5: "cdf5"}
_HDF5 = b"\x89HDF\r\n\x1a\n"
_ZIP = (b"PK\3\4", b"PK\5\6")  # with and without members
# What cannot be read from any place, or does not end: opening some of these waits for ever.
_SPECIAL = {
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}
# What else a file may be, by its first bytes.
_OTHERS = (
    (_HDF5, "an HDF5 (netCDF-4) file"),
    (b"CDF\1", "a netCDF-3 file"),
    (b"CDF\2", "a netCDF-3 file"),
    (b"CDF\5", "a netCDF-3 file"),
    (b"\x0e\x03\x13\x01", "an HDF4 file"),
    (b"\x1f\x8b", "a gzip file"),
    (b"GRIB", "a GRIB file"),
    (b"{", "a text file, perhaps JSON"),
)


def local_path(target: Any) -> Path | None:
    """Return the local path that a target names; None for a URL with another scheme and for objects.

    Raises
    ------
    StoreError
        If a slash of a URL is missing; see :func:`nczarr.targets.check_slashes`.

    Examples
    --------
    >>> local_path("file:///data/a.nc") == Path("/data/a.nc"), local_path("s3://bucket/a.zarr")
    (True, None)
    >>> local_path("run#42.nc") == Path("run#42.nc"), local_path("run42#mode=nczarr,file")
    (True, None)
    """
    if isinstance(target, str | os.PathLike):
        check_slashes(os.fspath(target))
    if isinstance(target, os.PathLike):
        return Path(target)
    if isinstance(target, str):
        if "://" not in target and "::" not in target and "#" not in target:
            return Path(os.path.expanduser(target))
        if "::" not in target and ("://" not in target or target.lower().startswith("file://")):
            found = parse_target(target)
            return None if found.fragment else Path(found.location)
    return None


def kind_of_target(target: Any) -> Kind:
    """Tell from a target's name what will be written: ``.nc`` a netCDF file, ``.cdl`` text, all else Zarr.

    Examples
    --------
    >>> kind_of_target("a.nc"), kind_of_target("s3://b/run42.zarr"), kind_of_target("a.cdl")
    ('netcdf', 'zarr', 'cdl')
    >>> kind_of_target("s3://b/run42.nc"), kind_of_target("s3://b/run42.nc#mode=nczarr,s3")
    ('netcdf', 'zarr')
    """
    path = local_path(target)
    suffix = path.suffix.lower() if path is not None else _remote_suffix(target)
    if suffix in NETCDF_SUFFIXES:
        return "netcdf"
    return "cdl" if path is not None and suffix in CDL_SUFFIXES else "zarr"


def storage_of(target: Any, storage: str | None = None, *, in_memory: bool = False) -> str:
    """Tell what a new dataset of the netCDF4-compatible interface is kept in: a netCDF file, or Zarr.

    This is the rule: what is asked for; otherwise a netCDF file for names with one of :data:`NETCDF_SUFFIXES`, and
    Zarr for all others. What is there already is opened as what it is. In memory (``memory=``), where a name says
    little, it is a netCDF file unless the name ends in ``.zarr`` or ``.zip``.

    Examples
    --------
    >>> storage_of("a.nc"), storage_of("a.zarr"), storage_of("a.nc", "zarr")
    ('netcdf', 'zarr', 'zarr')
    >>> storage_of("a", in_memory=True), storage_of("a.zip", in_memory=True)
    ('netcdf', 'zarr')
    """
    if storage is None and in_memory:
        return "zarr" if str(target).lower().endswith((".zarr", ".zip")) else "netcdf"
    return storage or ("netcdf" if kind_of_target(target) == "netcdf" else "zarr")


def kind_of_source(source: Any) -> Kind:
    """Tell from a source's content, and for text from its name, what it is.

    Raises
    ------
    DatasetNotFoundError
        If a local path does not exist.
    """
    path = local_path(source)
    if path is None:
        return "netcdf" if _remote_suffix(source) in NETCDF_SUFFIXES else "zarr"
    if path.is_dir():
        return "zarr"
    if not path.exists():
        raise DatasetNotFoundError("there is no such file or directory", path=str(source))
    if is_netcdf(path):
        return "netcdf"
    suffix = path.suffix.lower()
    if suffix in CDL_SUFFIXES:
        return "cdl"
    # A file with netCDF's suffix that does not begin like one is for the netCDF edge to refuse.
    return "netcdf" if suffix in NETCDF_SUFFIXES else "zarr"


def state_of_file(source: Any) -> tuple[int, int] | None:
    """Return size and time of change of a local file; None for everything else."""
    path = local_path(source)
    try:
        status = None if path is None else path.stat()
    except OSError:
        return None
    return None if status is None or path is None or path.is_dir() else (status.st_size, status.st_mtime_ns)


def _remote_suffix(target: Any) -> str:
    """The suffix of a URL; a URL with netcdf-c's fragment says what it is, and a chained one is for fsspec."""
    if not isinstance(target, str) or "://" not in target or "#" in target or "::" in target:
        return ""
    return os.path.splitext(target.partition("?")[0])[1].lower()


def is_netcdf(path: str | os.PathLike[str]) -> bool:
    """True if a file begins as a netCDF file (or any HDF5 file) does; it may still be damaged.

    Examples
    --------
    >>> is_netcdf("no-such-file.nc")
    False
    """
    try:
        netcdf_format(os.fspath(path))
    except (DatasetNotFoundError, NetCDFFileError):
        return False
    return True


def netcdf_format(path: str) -> str:
    """Return ``hdf5``, or the name of the classic format in which a file is.

    Raises
    ------
    DatasetNotFoundError
        If there is no such file.
    NetCDFFileError
        If it cannot be read, or begins like something else.
    """
    try:
        if os.path.isdir(path):
            raise NetCDFFileError("this is a directory, not a netCDF file", path=path)
        if (kind := special_kind(os.stat(path).st_mode)) is not None:
            raise NetCDFFileError(f"this is a {kind}, not a netCDF file", path=path)
        with open(path, "rb") as file:
            return format_of(file, path)
    except FileNotFoundError:
        raise DatasetNotFoundError("there is no such file", path=path) from None
    except NetCDFFileError:
        raise
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise NetCDFFileError(f"the file cannot be read: {reason}", path=path) from error


def format_of(file: IO[bytes], path: str) -> str:
    """Return the format of an open file, as :func:`netcdf_format`; `path` is for messages."""
    file.seek(0)
    start = file.read(8)
    if start[:3] == b"CDF" and len(start) > 3 and start[3] in CLASSIC:
        return CLASSIC[start[3]]
    size = file.seek(0, os.SEEK_END)
    offset = 0
    while offset + len(_HDF5) <= size:  # HDF5 may start after a user block of 512, 1024, … bytes
        file.seek(offset)
        if file.read(8) == _HDF5:
            return "hdf5"
        offset = offset * 2 or 512
    raise NetCDFFileError(_not_netcdf(start, size), path=path)


def _not_netcdf(start: bytes, size: int) -> str:
    if not size:
        return "the file is empty"
    if start[:3] == b"CDF" and size > 3:
        return f"not a netCDF file: it begins with 'CDF', but netCDF has no format number {start[3]}"
    if start[:4] == b"\x0e\x03\x13\x01":
        return "not a netCDF file: this is HDF4"
    if is_zip(start):
        return "not a netCDF file: this is a zip archive"
    return f"not a netCDF file: it begins with {start!r}, not with 'CDF' or HDF5's signature"


def special_kind(mode: int) -> str | None:
    """Name what is no regular file and no directory, by ``st_mode``: opening it may wait for ever.

    Examples
    --------
    >>> special_kind(os.stat(os.devnull).st_mode), special_kind(os.stat(os.curdir).st_mode)
    ('device', None)
    """
    return _SPECIAL.get(stat.S_IFMT(mode))


def is_zip(start: bytes) -> bool:
    """True if a file with these first bytes is a zip archive.

    Examples
    --------
    >>> is_zip(b"PK\\3\\4..."), is_zip(b"CDF\\1")
    (True, False)
    """
    return start.startswith(_ZIP)


def describe_file(start: bytes) -> str:
    """Name the kind of a file by its first bytes, for messages.

    Examples
    --------
    >>> describe_file(b"CDF\\1"), describe_file(b"hello")
    ('a netCDF-3 file', 'a file')
    """
    return next((kind for magic, kind in _OTHERS if start.startswith(magic)), "a file")


def is_references(source: Any) -> bool:
    """True for kerchunk's references: a local JSON file that begins as they do, or a directory of Parquet files.

    Examples
    --------
    >>> is_references("data.zarr")
    False
    """
    path = local_path(source)
    if path is None:
        return False
    if path.is_dir():
        path = path / ".zmetadata"
        if not path.is_file():
            return False
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4096))
            return b'"record_size"' in file.read()
    if path.suffix.lower() != ".json" or not path.is_file():
        return False
    with path.open("rb") as file:
        return b'"refs"' in file.read(4096)


def is_icechunk(source: Any) -> bool:
    """True for a local directory that is an Icechunk repository.

    Examples
    --------
    >>> is_icechunk("data.zarr")
    False
    """
    path = local_path(source)
    if path is None or not (path / "snapshots").is_dir():
        return False
    return (path / "refs").is_dir() or (path / "repo").is_file()  # formats 1 and 2

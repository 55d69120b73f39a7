"""Detect the format of a source or target from its name and first bytes: netCDF file, CDL text or Zarr hierarchy."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Literal

from nczarr.errors import DatasetNotFoundError, NetCDFFileError, StoreError
from nczarr.system.environment import limit, read_json
from nczarr.targets import check_slashes, parse_target

#: Formats of datasets.
Kind = Literal["zarr", "netcdf", "cdl"]

#: Formats that the netCDF4-compatible interface can write.
STORAGES = ("zarr", "netcdf")
NETCDF_SUFFIXES = frozenset({".nc", ".nc3", ".nc4", ".cdf", ".netcdf", ".h5", ".hdf5", ".he5"})
CDL_SUFFIXES = frozenset({".cdl"})

#: The classic formats by the version number after ``CDF``.
CLASSIC = {1: "classic", 2: "64-bit offset", 5: "cdf5"}
_HDF5 = b"\x89HDF\r\n\x1a\n"
_ZIP = (b"PK\3\4", b"PK\5\6")  # with and without members
# Special files. Most cannot seek, some have no end, and opening some blocks forever.
_SPECIAL = {
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}
# File types by their first bytes.
_OTHERS = (
    (_HDF5, "an HDF5 (netCDF-4) file"),
    (b"CDF\1", "a netCDF-3 file"),
    (b"CDF\2", "a netCDF-3 file"),
    (b"CDF\5", "a netCDF-3 file"),
    (b"\x0e\x03\x13\x01", "an HDF4 file"),
    (b"\x1f\x8b", "a gzip file"),
    (b"GRIB", "a GRIB file"),
    (b"BUFR", "a BUFR file"),
    (b"BZh", "a bzip2 file"),
    (b"II*\0", "a TIFF file"),
    (b"version ", "a text file, perhaps a pointer of Git LFS"),
    (b"<", "a text file, perhaps a web page with the message of a server"),
    (b"{", "a text file, perhaps JSON"),
)
_UNKNOWN = "a file"


def local_path(target: Any) -> Path | None:
    """Return the path of a local target; None for a remote URL and for an object that is not a path.

    Raises
    ------
    StoreError
        If a URL lacks a slash; see :func:`nczarr.targets.check_slashes`.

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


class FileName(str):
    """The name of a netCDF file, whatever its suffix: a call that writes files has no other format.

    Examples
    --------
    >>> kind_of_target(FileName("wrfout_d01_2005-08-28_12:00:00"))
    'netcdf'
    """


def kind_of_target(target: Any) -> Kind:
    """Return the output format for a target name: netCDF for ``.nc``, CDL for ``.cdl``, otherwise Zarr.

    Parameters
    ----------
    target : str, path or store
        A store has the format Zarr.

    Returns
    -------
    {'netcdf', 'zarr', 'cdl'}

    Examples
    --------
    >>> kind_of_target("a.nc"), kind_of_target("s3://b/run42.zarr"), kind_of_target("a.cdl")
    ('netcdf', 'zarr', 'cdl')
    >>> kind_of_target("s3://b/run42.nc"), kind_of_target("s3://b/run42.nc#mode=nczarr,s3")
    ('netcdf', 'zarr')
    """
    if isinstance(target, FileName):
        return "netcdf"
    path = local_path(target)
    suffix = path.suffix.lower() if path is not None else _remote_suffix(target)
    if suffix in NETCDF_SUFFIXES:
        return "netcdf"
    return "cdl" if path is not None and suffix in CDL_SUFFIXES else "zarr"


def storage_of(
    target: Any, storage: str | None = None, *, in_memory: bool = False, rule: str = "auto"
) -> str:
    """Return the format of a new dataset of the netCDF4-compatible interface: ``netcdf`` or ``zarr``.

    An explicit `storage` takes precedence. Otherwise names with one of :data:`NETCDF_SUFFIXES` are netCDF files, and
    all others are Zarr. A dataset in memory (``memory=``) is a netCDF file unless its name ends in ``.zarr`` or
    ``.zip``. Existing datasets are opened in their own format.

    With the `rule` ``netcdf``, all local names are netCDF files, but ``.zarr``, ``.zip``, and those of existing
    directories. With ``zarr``, all names are Zarr.

    Examples
    --------
    >>> storage_of("a.nc"), storage_of("a.zarr"), storage_of("a.nc", "zarr")
    ('netcdf', 'zarr', 'zarr')
    >>> storage_of("a", in_memory=True), storage_of("a.zip", in_memory=True)
    ('netcdf', 'zarr')
    >>> storage_of("wrfout_d01", rule="netcdf"), storage_of("a.zarr", rule="netcdf"), storage_of("a.nc", rule="zarr")
    ('netcdf', 'zarr', 'zarr')
    """
    if storage is None and in_memory:
        return "zarr" if str(target).lower().endswith((".zarr", ".zip")) else "netcdf"
    if storage is None and rule == "netcdf" and isinstance(target, str | os.PathLike):
        path = None if "://" in os.fspath(target) else local_path(target)
        if path is not None and path.suffix.lower() not in (".zarr", ".zip") and not path.is_dir():
            return "netcdf"
    if storage is None and rule == "zarr":
        return "zarr"
    return storage or ("netcdf" if kind_of_target(target) == "netcdf" else "zarr")


def kind_of_source(source: Any) -> Kind:
    """Return the format of a source, from its content or, for CDL and remote sources, its name.

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
    # The netCDF reader refuses a file that has a netCDF suffix but no netCDF signature.
    return "netcdf" if suffix in NETCDF_SUFFIXES else "zarr"


def state_of_file(source: Any) -> tuple[int, int] | None:
    """Return the size and modification time of a local file; None for anything else."""
    path = local_path(source)
    try:
        status = None if path is None else path.stat()
    except OSError:
        return None
    return None if status is None or path is None or path.is_dir() else (status.st_size, status.st_mtime_ns)


def files_below(folder: str, inside: str = "") -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files below a directory, with their paths inside it.

    Raises
    ------
    StoreError
        If a directory cannot be listed.
    """
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = f"{inside}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    yield from files_below(entry.path, name)
                    continue
                try:
                    yield name, entry.stat()
                except FileNotFoundError:  # a dangling link, or a file that was just removed
                    continue
    except OSError as error:
        raise StoreError(f"cannot list: {error.strerror}", path=folder) from error


def _remote_suffix(target: Any) -> str:
    """Return the suffix of a URL; empty for URLs with a netCDF-C fragment (it has the format) and chained URLs."""
    if not isinstance(target, str) or "://" not in target or "#" in target or "::" in target:
        return ""
    return os.path.splitext(target.partition("?")[0])[1].lower()


def is_netcdf(path: str | os.PathLike[str]) -> bool:
    """Return True if a file has the signature of a netCDF or HDF5 file; the file may still be damaged.

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
    """Return the format of a netCDF file: ``hdf5``, or the name of a classic format.

    Raises
    ------
    DatasetNotFoundError
        If the file does not exist.
    NetCDFFileError
        If the file cannot be read, or has no netCDF signature.
    """
    try:
        if os.path.isdir(path):
            raise NetCDFFileError("this is a directory, not a netCDF file", path=path)
        # To open a pipe without a writer waits for ever.
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
    """Return the format of an open file like :func:`netcdf_format`; `path` is used in messages."""
    file.seek(0)
    start = file.read(8)
    if start[:3] == b"CDF" and len(start) > 3 and start[3] in CLASSIC:
        return CLASSIC[start[3]]
    size = file.seek(0, os.SEEK_END)
    offset = 0
    while offset + len(_HDF5) <= size:  # an HDF5 file may begin with a user block of 512, 1024, … bytes
        file.seek(offset)
        if file.read(8) == _HDF5:
            return "hdf5"
        offset = offset * 2 or 512
    if not size:
        raise incomplete_file("the file is empty", path)
    raise NetCDFFileError(_not_netcdf(start, size), path=path)


def incomplete_file(message: str, path: str | None = None, fqn: str | None = None) -> NetCDFFileError:
    """Return the error of a netCDF file that ends too early: a writer, a copy or a download may complete it.

    Examples
    --------
    >>> incomplete_file("the file is empty", "a.nc").reason
    'temporary'
    """
    hint = "if a program still writes it, try again when it is complete; if none does, fetch the file anew"
    return NetCDFFileError(message, path=path, fqn=fqn, hint=hint, reason="temporary")


def _not_netcdf(start: bytes, size: int) -> str:
    if start[:3] == b"CDF" and size > 3:
        return f"not a netCDF file: it begins with 'CDF', but netCDF has no format number {start[3]}"
    kind = "a zip archive" if is_zip(start) else describe_file(start)
    if kind != _UNKNOWN:
        return f"not a netCDF file: this is {kind}"
    return f"not a netCDF file: it begins with {start!r}, not with 'CDF' or HDF5's signature"


def special_kind(mode: int) -> str | None:
    """Return the kind of a special file from its ``st_mode``; None for regular files and directories.

    Opening a special file may block forever.

    Examples
    --------
    >>> special_kind(os.stat(os.devnull).st_mode), special_kind(os.stat(os.curdir).st_mode)
    ('device', None)
    """
    return _SPECIAL.get(stat.S_IFMT(mode))


def is_zip(start: bytes) -> bool:
    """Return True if a file with these first bytes is a zip archive.

    Examples
    --------
    >>> is_zip(b"PK\\3\\4..."), is_zip(b"CDF\\1")
    (True, False)
    """
    return start.startswith(_ZIP)


def describe_file(start: bytes) -> str:
    """Describe the type of a file from its first bytes, for messages.

    Examples
    --------
    >>> describe_file(b"CDF\\1"), describe_file(b"hello")
    ('a netCDF-3 file', 'a file')
    """
    return next((kind for magic, kind in _OTHERS if start.startswith(magic)), _UNKNOWN)


def is_references(source: Any) -> bool:
    """Return True if a local source has kerchunk references: a JSON file or a directory of Parquet files.

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
        status = path.stat()
        return _has_records(str(path), status.st_size, status.st_mtime_ns)
    if path.suffix.lower() != ".json" or not path.is_file():
        return False
    with path.open("rb") as file:
        return b'"refs"' in file.read(4096)


@lru_cache(maxsize=16)
def _has_records(path: str, size: int, modified: int) -> bool:
    """Return True if consolidated metadata of this size and time are those of references in Parquet files."""
    if size > limit("NCZARR_MAX_DOCUMENT_BYTES"):
        return False
    data = Path(path).read_bytes()
    # The documents of arrays and the list of files may be on either side, and an attribute may have the same name.
    if b'"record_size"' not in data:
        return False
    try:
        document = read_json(data)
    except ValueError:
        return False
    return isinstance(document, dict) and isinstance(document.get("record_size"), int)


def is_icechunk(source: Any) -> bool:
    """Return True if a local directory is an Icechunk repository.

    Examples
    --------
    >>> is_icechunk("data.zarr")
    False
    """
    path = local_path(source)
    if path is None or not (path / "snapshots").is_dir():
        return False
    return (path / "refs").is_dir() or (path / "repo").is_file()  # formats 1 and 2

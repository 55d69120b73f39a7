"""Open and create netCDF files behind URLs, through fsspec: S3, HTTP, GCS, memory and others."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nczarr import errors
from nczarr.formats import format_of
from nczarr.model import Dataset
from nczarr.netcdf.bytes.file import Ranges
from nczarr.netcdf.classic import ClassicFile, read_classic
from nczarr.netcdf.datasets import OpenFile, writable
from nczarr.netcdf.sink import FileSink
from nczarr.options import named
from nczarr.system.failures import in_time, is_unreached, lacks_bucket, reason_of
from nczarr.system.locks import Rank, make_lock
from nczarr.system.redirects import http_client
from nczarr.targets import fsspec_options
from nczarr.text import missing_package

_BLOCK = 4 << 20


class _RemoteFile:
    """The bytes behind a file object; a lock serialises its reads."""

    def __init__(self, file: Any, size: int, ranges: Ranges | None) -> None:
        self.size = size
        self._lock = make_lock(Rank.STORE)
        self._file, self._ranges = file, ranges

    def read(self, offset: int, size: int) -> bytes | memoryview:
        # Small reads come from fsspec's blocks. A large one goes out as concurrent requests,
        # without the lock.
        if self._ranges is not None and size >= _BLOCK // 4:
            return self._ranges.read(offset, min(size, self.size - offset))
        with self._lock:
            self._file.seek(offset)
            return bytes(self._file.read(size))

    def close(self) -> None:
        self._file.close()
        if self._ranges is not None:
            self._ranges.close()


def open_remote(url: str, options: Mapping[str, Any] | None = None, ranges: Ranges | None = None) -> OpenFile:
    """Open a netCDF file behind a URL. Reads fetch its blocks on demand.

    Parameters
    ----------
    ranges : Ranges, optional
        Byte ranges of the same file. Large values are fetched through them, in concurrent requests and
        without HDF5.

    Raises
    ------
    DatasetNotFoundError, NetCDFFileError, UnsupportedError, StoreError
        As :func:`nczarr.netcdf.open_dataset`, and if the URL is unreachable.

    Examples
    --------
    >>> from nczarr.model import Dataset
    >>> sink = RemoteSink("memory://a.nc", Dataset("a", format="classic"), overwrite=True)
    >>> sink.commit()
    >>> with open_remote("memory://a.nc") as file:
    ...     file.dataset.name
    'a'
    """
    fs, path = _file_system(url, options)
    _reach(fs, path, url)
    name = Path(path.partition("?")[0] if "://" in path else path).stem
    try:
        file = fs.open(path, "rb", block_size=_BLOCK, cache_type="blockcache")
        size = file.seek(0, 2)
    except Exception as error:
        # s3fs says FileNotFoundError also for a missing bucket and for a server that does not
        # answer.
        if isinstance(error, FileNotFoundError) and not (lacks_bucket(error) or is_unreached(error)):
            raise errors.DatasetNotFoundError("there is no such file", path=url) from None
        reason, hint = reason_of(error)
        raise errors.NetCDFFileError(f"the file cannot be read: {reason}", path=url, hint=hint) from error
    try:
        # The ranges come from another client than HDF5's bytes. They are used only where both see
        # the same file.
        if ranges is not None and not _is_same(file, ranges, size):
            ranges = None
        if format_of(file, url) == "hdf5":
            from nczarr.netcdf.hdf5.reader import read_hdf5
            from nczarr.netcdf.hdf5.source import HDF5File

            opened = HDF5File.open(url, file, ranges)
            return OpenFile(url, read_hdf5(opened, name), opened)
        classic = ClassicFile(url, _RemoteFile(file, size, ranges))
        return OpenFile(url, read_classic(classic, name), classic)
    except BaseException:
        file.close()
        raise


def _is_same(file: Any, ranges: Ranges, size: int) -> bool:
    """Return True if the ranges belong to the same file: the first and the last bytes match."""
    for offset in (0, max(0, size - 8)):
        file.seek(offset)
        data = file.read(min(8, size))
        try:
            if bytes(ranges.read(offset, len(data))) != bytes(data):
                return False
        except errors.NCZarrError:
            return False
    return True


class RemoteSink(FileSink):
    """A netCDF file that is written locally and uploaded to a URL when it is complete.

    Examples
    --------
    >>> from nczarr.model import Dataset
    >>> sink = RemoteSink("memory://a.nc", Dataset("a", format="classic"), overwrite=True)
    >>> sink.commit()
    >>> with open_remote("memory://a.nc") as file:
    ...     file.dataset.name
    'a'
    """

    def __init__(
        self,
        url: str,
        dataset: Dataset,
        *,
        overwrite: bool = False,
        format: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if url.lower().startswith(("http://", "https://")):
            raise errors.ReadOnlyError("HTTP URLs are read-only", path=url)
        self._url = url
        self._fs, self._path = _file_system(url, options)
        # A server that says nothing was taken for a missing file, after minutes.
        _reach(self._fs, self._path, url)
        if not overwrite and self._fs.exists(self._path):
            raise errors.DatasetExistsError(
                "the file exists", path=url, hint=f"{named('overwrite', True)} replaces it"
            )
        self._folder = tempfile.TemporaryDirectory(prefix="nczarr-", ignore_cleanup_errors=True)
        self._local = Path(self._folder.name) / (Path(self._path).name or "data.nc")
        try:
            super().__init__(str(self._local), writable(str(self._local), dataset, format), False)
        except BaseException:
            self._folder.cleanup()
            raise
        # The local file ends with the upload: no loss of power needs it.
        self.durable = False

    def commit(self) -> None:
        """Complete the file and upload it to its URL."""
        try:
            super().commit()
            self._fs.put_file(str(self._local), self._path)
        except errors.NCZarrError:
            raise
        except Exception as error:
            raise errors.StoreError(
                f"cannot write: {type(error).__name__}: {error}", path=self._url
            ) from error
        finally:
            self._folder.cleanup()

    def abort(self) -> None:
        """Remove the local file. Nothing was uploaded."""
        super().abort()
        self._folder.cleanup()


def _reach(fs: Any, path: str, url: str) -> None:
    """Wait for a first answer of the server. A session with a web server has limits of its own."""
    if not getattr(fs, "async_impl", False) or url.lower().startswith(("http://", "https://")):
        return
    from fsspec.asyn import sync

    async def ask() -> None:
        await in_time(fs._info(path), fs, url)

    try:
        # Without a limit, a server that says nothing held the caller for minutes.
        sync(fs.loop, ask)
    except errors.StoreError:
        raise
    except Exception:
        return  # the next request reports the error


def _file_system(url: str, options: Mapping[str, Any] | None) -> tuple[Any, str]:
    from fsspec.core import url_to_fs

    try:
        # The options that choose an S3 client are nczarr's own: s3fs answered them with a
        # traceback.
        plain = fsspec_options(url, options)
        # The time limit of requests holds for each client that nczarr makes.
        if url.lower().startswith(("http://", "https://")):
            plain = {"get_client": http_client, **plain}
        return url_to_fs(url, **plain)
    except ImportError as error:
        s3 = url.startswith("s3")
        hint = missing_package("s3fs", "s3") if s3 else missing_package("aiohttp", "http")
        raise errors.UnsupportedError(f"cannot open: {error}", path=url, hint=hint) from error
    except Exception as error:
        raise errors.StoreError(f"cannot open: {reason_of(error)[0]}", path=url) from error

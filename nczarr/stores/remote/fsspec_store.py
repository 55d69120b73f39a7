"""Keep keys and values below any fsspec path: s3, gs, sftp, reference://, simplecache::…, an FSMap."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nczarr.errors import DatasetNotFoundError, NCZarrError, StoreError, suppress_reason
from nczarr.stores.base import (
    Buffer,
    Names,
    Request,
    Store,
    Values,
    check_key,
    clip,
    start_of,
    url_above,
)
from nczarr.stores.remote.concurrent import FileSystem, FileSystemStore, T
from nczarr.system.failures import in_time
from nczarr.system.redirects import http_client
from nczarr.text import missing_package

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

#: Protocols of file systems whose listings name every file: file systems proper, archives, object stores.
_COMPLETE = frozenset(
    {
        "abfs", "abfss", "adl", "az", "file", "gcs", "gs", "hdfs", "libarchive", "local", "memory", "oci", "oss",
        "s3", "s3a", "sftp", "smb", "ssh", "tar", "webhdfs", "zip",
    }
)  # fmt: skip
#: Protocols of file systems whose ``mode="create"`` is a conditional write on the server.
_CONDITIONAL = frozenset({"abfs", "abfss", "az", "gcs", "gs", "s3", "s3a"})
#: Protocols of file systems that show the files of another one.
_AROUND = frozenset({"blockcache", "cached", "dir", "filecache", "simplecache"})


def lists_all(fs: FileSystem) -> bool:
    """Return whether the listings of an fsspec file system name every file.

    Examples
    --------
    >>> import fsspec
    >>> lists_all(fsspec.filesystem("memory")), lists_all(fsspec.filesystem("reference", fo={}))
    (True, False)
    """
    inner = getattr(fs, "fs", None)
    if inner is not None and _protocols(fs) & _AROUND:
        return lists_all(inner)
    return bool(_protocols(fs) & _COMPLETE)


def _protocols(fs: FileSystem) -> set[str]:
    return {fs.protocol} if isinstance(fs.protocol, str) else set(fs.protocol)


class FsspecStore(FileSystemStore):
    """The files below a path of an fsspec file system.

    Batches on an asynchronous file system (s3fs, gcsfs, adlfs, …) are concurrent; other file systems get one call of
    ``cat_ranges``, which for ``reference://`` joins adjacent pieces.

    Parameters
    ----------
    fs : fsspec.AbstractFileSystem
    root : str
        A path of the file system, without protocol.
    url : str, optional
        For messages.
    writable : bool

    Examples
    --------
    >>> import fsspec
    >>> store = FsspecStore(fsspec.filesystem("memory"), "/example-store", writable=True)
    >>> store.set("v/c/0", b"abcdef")
    >>> store.get_many(["v/c/0", "v/c/1"]), store.list_dir("v")
    ([b'abcdef', None], ([], ['c']))
    >>> store.delete_prefix("")
    """

    def __init__(self, fs: FileSystem, root: str, *, url: str | None = None, writable: bool = False) -> None:
        from fsspec import AbstractFileSystem
        from fsspec.asyn import AsyncFileSystem
        from fsspec.implementations.memory import MemoryFileSystem
        from fsspec.implementations.reference import ReferenceFileSystem

        self._fs = fs
        self._root = root.rstrip("/") + "/" if root.strip("/") else root
        self.url = url or str(fs.unstrip_protocol(root))
        self.writable = writable
        self.lists_all = lists_all(fs)
        self.has_conditions = bool(_CONDITIONAL & _protocols(fs))
        self._reference = isinstance(fs, ReferenceFileSystem)
        self._in_memory = isinstance(fs, MemoryFileSystem)
        self._async = isinstance(fs, AsyncFileSystem) and bool(fs.async_impl) and not self._reference
        #: True if one listing has all keys, as in object stores.
        if isinstance(fs, AsyncFileSystem):
            self._flat = self._reference or type(fs)._find is not AsyncFileSystem._find
        else:
            self._flat = getattr(fs.find, "__func__", None) is not AbstractFileSystem.find
        self.removes_many = self._async and bool({"s3", "s3a"} & _protocols(fs))
        self.lists_by_folder = self._async and self.lists_all
        self.lists_sizes = self._flat
        self._has_answered = not self._async
        if self._async and fs.asynchronous:
            raise StoreError(
                "the file system belongs to a running event loop", path=self.url, hint="asynchronous=False"
            )

    def parent(self) -> tuple[Store, str] | None:
        above, _, name = self._root.strip("/").rpartition("/")
        if not name or self._reference:
            return None
        above = f"/{above}" if self._root.startswith("/") else above
        return FsspecStore(self._fs, above, url=url_above(self.url)), name

    def _path(self, key: str) -> str:
        return self._root + key

    def _loop(self) -> AbstractEventLoop | None:
        return self.fs.loop if self._async else None

    def _peek(self, key: str) -> bytes | None:
        if not self._in_memory:
            return None
        found = self._fs.store.get(self._path(key))
        return None if found is None else found.getvalue()

    def _look(self) -> Any:
        return Store._look(self) if self._in_memory else super()._look()

    def _compare(self, held: Any) -> None:
        Store._compare(self, held) if self._in_memory else super()._compare(held)

    def announce_replacement(self) -> None:
        # Readers of file systems without a server see no times.
        super().announce_replacement() if self._async else Store.announce_replacement(self)

    # --- one value, asynchronous file systems

    async def _answer(self, request: Awaitable[T]) -> T:
        """Await a request that reads; the first one has a timeout."""
        if self._has_answered:
            return await request
        found = await in_time(request, self._fs, self.url)
        self._has_answered = True
        return found

    async def _change(self, method: str, key: str, *arguments: object, **options: str) -> None:
        """Call a method of the file system that changes the value of a key."""
        if not self._async:
            getattr(self.fs, method)(self._path(key), *arguments, **options)
            return
        if not self._has_answered:
            # A short request first, so that the timeout does not limit a long write. A refusal is an answer, too.
            with suppress_reason("refused"):
                await self._safe_size(key)
        await getattr(self.fs, f"_{method}")(self._path(key), *arguments, **options)

    async def _fetch(self, key: str, start: int, length: int | None) -> bytes | None:
        path = self._path(key)
        if start == 0 and length is None:
            return await self._answer(self.fs._cat_file(path))
        end = start + length if start >= 0 and length is not None else None
        try:
            return await self._answer(self.fs._cat_file(path, start=start, end=end))
        except NotImplementedError:
            # Some file systems need both ends of a range.
            value = await self._answer(self.fs._cat_file(path))
            return value[slice(*clip(len(value), start, length))]

    async def _fetch_bounded(self, key: str, most: int) -> bytes | None:
        value = await self._fetch(key, 0, most + 1)
        self._check_bound(key, len(value or b""), most)
        return value

    async def _size(self, key: str) -> int | None:
        path = self._path(key)
        # A cached listing may be older than the file.
        self.fs.invalidate_cache(path)
        if self._reference and not self._is_referred(key):
            return None
        try:
            info = await self._answer(self.fs._info(path)) if self._async else self.fs.info(path)
        except FileNotFoundError as error:
            if self._reference:
                raise StoreError(f"there is no such file: {error}", path=self.place(key)) from error
            raise
        return None if info["type"] == "directory" else int(info["size"])

    async def _put(self, key: str, data: memoryview) -> None:
        value = data.obj if isinstance(data.obj, bytes) and len(data.obj) == len(data) else bytes(data)
        await self._pipe(key, value)

    async def _pipe(self, key: str, value: bytes, **options: str) -> None:
        try:
            await self._change("pipe_file", key, value, **options)
        except FileNotFoundError:
            if self._async:
                raise
            # The file system has real directories.
            self.fs.makedirs(self._path(key).rpartition("/")[0], exist_ok=True)
            self.fs.pipe_file(self._path(key), value, **options)

    async def _put_new(self, key: str, data: memoryview) -> bool:
        if not self.has_conditions and await self._safe_size(key) is not None:
            return False
        try:
            await self._pipe(key, bytes(data), mode="create")
        except FileExistsError:
            return False
        except (TypeError, ValueError, NotImplementedError):  # the file system lacks the mode
            self.has_conditions = False
            return await super()._put_new(key, data)
        except OSError as error:
            # The number alone may be a part of the key.
            if "PreconditionFailed" in f"{error} {error.__cause__}" or "(412)" in str(error):
                return False
            raise
        return True

    async def _copy(self, source: str, target: str) -> None:
        try:
            await self._change("cp_file", source, self._path(target))
        except (NotImplementedError, FileNotFoundError):
            # The second error also if the directory of the target is missing.
            value = await self._fetch(source, 0, None) if self._async else self.get(source)
            if value is None:
                raise FileNotFoundError(source) from None
            await self._put(target, memoryview(value))

    async def _remove(self, key: str) -> None:
        await self._change("rm_file", key)

    async def _remove_many(self, keys: Sequence[str]) -> None:
        # The method of s3fs reports no errors.
        bucket, _, _ = self.fs.split_path(self._root)
        objects = [{"Key": self.fs.split_path(self._path(key))[1]} for key in keys]
        wanted = {"Objects": objects, "Quiet": True}
        answer = await self.fs._call_s3("delete_objects", Bucket=bucket, Delete=wanted)
        for error in answer.get("Errors", ()):
            raise OSError(f"An error occurred ({error.get('Code')}) when deleting {error.get('Key')}")

    def unfinished_uploads(self, *, remove: bool) -> int:
        """Return the number of values on S3 whose upload in parts has begun and not ended; optionally remove them.

        One answer has at most 1,000.
        """
        bucket, key, _ = self.fs.split_path(self._root)
        with self._explained("list", ""):
            answer = self.fs.call_s3("list_multipart_uploads", Bucket=bucket, Prefix=start_of(key))
            found = [{name: item[name] for name in ("Key", "UploadId")} for item in answer.get("Uploads", ())]
            for upload in found if remove else ():
                self.fs.call_s3("abort_multipart_upload", Bucket=bucket, **upload)
        return len(found)

    # --- other file systems

    def get_bounded(self, keys: Sequence[str], most: int) -> Sequence[Buffer | None]:
        return super().get_bounded(keys, most) if self._async else self.get_many(keys)

    def get_ranges(self, requests: Sequence[Request]) -> Values:
        if self._async:
            return super().get_ranges(requests)
        if not requests:
            return []
        # Not every file system counts from the end: such parts are cut from the whole value.
        parts: list[tuple[str, int | None, int | None]] = []
        for key, start, length in requests:
            whole = start < 0 or length == 0
            begin = None if whole or (start == 0 and length is None) else start
            end = None if whole or length is None else start + length
            parts.append((self._path(check_key(key)), begin, end))
        paths, begins, ends = map(list, zip(*parts))
        try:
            if not self._reference:
                found = self.fs.cat_ranges(paths, begins, ends, on_error="return")
            elif any(part[1:] != (None, None) for part in parts):
                found = [self._cat_one(*part) for part in parts]
            else:
                by_path = self.fs.cat(paths, on_error="return")
                if isinstance(by_path, bytes):
                    by_path = {paths[0]: by_path}
                found = [by_path.get(path, FileNotFoundError(path)) for path in paths]
        except Exception:
            # Caching file systems fetch all files first, and fail at the first that is missing.
            found = [self._cat_one(*part) for part in parts]
        return [self._checked(value, *request) for value, request in zip(found, requests, strict=True)]

    def _cat_one(self, path: str, start: int | None, end: int | None) -> bytes | Exception:
        try:
            return bytes(self.fs.cat_file(path, start, end))
        except Exception as error:
            return error

    def _is_referred(self, key: str) -> bool:
        """Return whether a key has a reference; the file of the reference may be missing."""
        try:
            self.fs.references[self._path(key).lstrip("/")]
        except KeyError:
            return False
        except Exception as error:
            self._fail("read", key, error)
        return True

    def _checked(self, value: bytes | Exception, key: str, start: int, length: int | None) -> bytes | None:
        if isinstance(value, NCZarrError):
            raise value
        if isinstance(value, Exception):
            if self._is_missing(value) if not self._reference else not self._is_referred(key):
                return None
            if (start or length is not None) and self._is_range_error(value):
                size = self.size(key)
                if size is None or size == 0 or start >= size:
                    return None if size is None else b""
            self._fail("read", key, value)
        return bytes(value[slice(*clip(len(value), start, length))] if start < 0 or length == 0 else value)

    # --- listing

    def list(self, prefix: str = "") -> Iterator[str]:
        if not self._flat:
            # fsspec's walk treats folders that cannot be listed as empty.
            yield from self._walk(prefix)
            return
        below = self._path(start_of(prefix))
        skip = len(self._root)
        for path in sorted(self._listing(prefix, "find", below)):
            if path.startswith(below) and not path.endswith("/"):
                yield path[skip:]

    def sizes(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        if not self._flat:
            yield from super().sizes(prefix)
            return
        below = self._path(start_of(prefix))
        found = dict(self._listing(prefix, "find", below, detail=True))
        for path in sorted(found):
            if path.startswith(below) and not path.endswith("/"):
                yield path[len(self._root) :], int(found[path].get("size") or 0)

    def list_dir(self, prefix: str = "") -> Names:
        below = self._path(start_of(prefix))
        names: set[str] = set()
        prefixes: set[str] = set()
        for entry in self._listing(prefix, "ls", below, detail=True):
            name = entry["name"]
            # The listing of a file is the file itself; a folder marker has an empty name here.
            if name.startswith(below) and name.rstrip("/") != below.rstrip("/"):
                name = name[len(below) :]
                if entry["type"] == "directory" or name.endswith("/"):
                    prefixes.add(name.rstrip("/"))
                else:
                    names.add(name)
        return sorted(names), sorted(prefixes)

    def _listing(self, prefix: str, method: str, below: str, **options: Any) -> Any:
        path = below.rstrip("/") or below
        with self._explained("list", prefix, may_be_missing=True):
            # A cached listing may be older than another writer's changes.
            self.fs.invalidate_cache(below.rstrip("/"))
            if not self._async:
                return getattr(self.fs, method)(path, **options)
            return self._run(self._asked, getattr(self.fs, f"_{method}"), path, options)
        # The context has suppressed the error of a missing folder.
        return []

    async def _asked(self, ask: Callable[..., Awaitable[T]], path: str, options: dict[str, object]) -> T:
        return await self._answer(ask(path, **options))


def file_system(url: str, options: Mapping[str, object]) -> tuple[FileSystem, str]:
    """Return the file system of a URL, and the path in it."""
    from fsspec.core import url_to_fs

    try:
        if url.lower().startswith(("http://", "https://")):
            options = {"get_client": http_client, **options}
        fs, root = url_to_fs(url, **options)
    except ImportError as error:
        raise NCZarrError(f"cannot open: {error}", path=url, hint=_extra(url)) from error
    except FileNotFoundError as error:
        raise DatasetNotFoundError(f"cannot open: {error}", path=url) from error
    except Exception as error:
        raise StoreError(f"cannot open: {type(error).__name__}: {error}", path=url) from error
    return fs, root


def _extra(url: str) -> str | None:
    if "s3://" in url:
        return missing_package("obstore s3fs", "s3")
    return missing_package("aiohttp tenacity", "http") if "http" in url else None

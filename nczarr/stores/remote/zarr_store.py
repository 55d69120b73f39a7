"""Use a zarr-python 3 store as a store: Icechunk, obstore's ObjectStore, or any other of that interface."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

from nczarr.errors import NCZarrError, NotAllowedError
from nczarr.stores.base import Answers, Names, Store, check_key, check_prefix, start_of
from nczarr.stores.local import LocalStore
from nczarr.stores.remote.concurrent import ConcurrentStore, Results, T
from nczarr.stores.remote.fsspec_store import lists_all
from nczarr.text import missing_package

#: Messages of Icechunk for a key that is not one of Zarr's, and (format 2) for a prefix without a node.
_NO_KEY = ("invalid zarr key", "Only prefixes pointing to a group or array")


def _lists_all(store: Any) -> bool:
    """Return whether a zarr-python store promises that its listings name every key."""
    if type(store).__module__.startswith("icechunk"):
        return True
    from zarr import storage

    # A subclass may list differently.
    kind = type(store)
    if kind is storage.FsspecStore:
        return lists_all(store.fs)
    if kind is storage.ObjectStore:
        return type(store.store).__name__ != "HTTPStore"
    if kind in (storage.WrapperStore, storage.LoggingStore):
        return _lists_all(store._store)
    return kind in (storage.LocalStore, storage.MemoryStore, storage.ZipStore)


class ZarrStore(ConcurrentStore):
    """The keys of a zarr-python 3 store.

    zarr-python's own stores of directories, memory, zip files and object stores promise complete listings, and so
    does Icechunk; a store of another class does not.

    Parameters
    ----------
    store : zarr.abc.store.Store
        Any object with that interface.
    writable : bool
        False refuses changes, even if the store takes them.

    Examples
    --------
    >>> from zarr.storage import MemoryStore
    >>> store = ZarrStore(MemoryStore())
    >>> store.set("v/c/0", b"abcdef")
    >>> store.get_many(["v/c/0", "v/c/1"]), store.get_range("v/c/0", -2)
    ([b'abcdef', None], b'ef')
    """

    def __init__(self, store: Any, *, writable: bool = True) -> None:
        try:
            from zarr.core.buffer import default_buffer_prototype
        except ImportError as error:
            raise NCZarrError(
                "zarr-python 3 is needed to use its stores", hint=missing_package("zarr", "xarray")
            ) from error
        self.store = store
        self.url = str(store)
        self.writable = writable and store.supports_writes and not getattr(store, "read_only", False)
        self.listable = bool(store.supports_listing)
        self.lists_all = self.listable and _lists_all(store)
        self.takes_any_key = not type(store).__module__.startswith("icechunk")
        self.keeps_consolidated = bool(getattr(store, "supports_consolidated_metadata", True))
        self._prototype = default_buffer_prototype()

    def parent(self) -> tuple[Store, str] | None:
        from zarr import storage

        kind = type(self.store)
        if kind is storage.LocalStore:
            return LocalStore(self.store.root).parent()
        if kind is not storage.FsspecStore:
            return None
        above, _, name = self.store.path.rstrip("/").rpartition("/")
        if not name:
            return None
        folder = storage.FsspecStore(self.store.fs, read_only=True, path=above or "/")
        return ZarrStore(folder, writable=False), name

    def _run(self, function: Callable[..., Awaitable[T]], *arguments: object) -> T:
        # Clients that zarr-python has used belong to its event loop.
        from zarr.core.sync import sync

        result: T = sync(function(*arguments))
        return result

    #: The error for values in other files, if these may not be read.
    not_allowed: NotAllowedError | None = None

    def _fail(self, what: str, key: str, error: BaseException) -> NoReturn:
        if self.not_allowed is not None and "authorize" in str(error):
            raise self.not_allowed from error
        super()._fail(what, key, error)

    def _is_missing(self, error: BaseException) -> bool:
        # Icechunk has only keys of Zarr, and raises an error for any other.
        return any(words in str(error) for words in _NO_KEY) or super()._is_missing(error)

    async def _fetch(self, key: str, start: int, length: int | None) -> bytes | None:
        from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest

        part: Any = None
        if start < 0:
            part = SuffixByteRequest(-start)
        elif length is not None:
            part = RangeByteRequest(start, start + length)
        elif start:
            part = OffsetByteRequest(start)
        value = await self.store.get(key, self._prototype, part)
        if start < 0 and value is not None and len(value) < -start:
            # zarr-python's MemoryStore (3.1.6) returns too few bytes if the value is shorter than the suffix.
            value = await self.store.get(key, self._prototype)
        return None if value is None else value.to_bytes()

    async def _size(self, key: str) -> int | None:
        try:
            return int(await self.store.getsize(key))
        except Exception:  # stores raise many errors for a missing key
            if await self.store.exists(key):
                raise
            return None

    async def _put(self, key: str, data: memoryview) -> None:
        await self.store.set(key, self._prototype.buffer.from_bytes(bytes(data)))

    async def _remove(self, key: str) -> None:
        await self.store.delete(key)

    async def _collect(self, method: Callable[[str], AsyncIterator[str]], prefix: str) -> Results[str]:
        # Some stores send the request at the call, which therefore belongs into the event loop.
        return [key async for key in method(prefix)]

    def list(self, prefix: str = "") -> Iterator[str]:
        below = start_of(prefix)
        keys: Iterable[str] = ()
        with self._explained("list", prefix, may_be_missing=True):
            keys = self._run(self._collect, self.store.list_prefix, below)
        return iter(sorted(key for key in keys if key.startswith(below)))

    def list_dir(self, prefix: str = "") -> Names:
        prefix = check_prefix(prefix)
        found: Iterable[str] = ()
        with self._explained("list", prefix, may_be_missing=True):
            found = self._run(self._collect, self.store.list_dir, prefix)
        # The interface does not distinguish keys from prefixes: one batch of requests does.
        entries = sorted({name.rstrip("/") for name in found} - {""})
        is_key = self._batch(self._exists, [(start_of(prefix) + name,) for name in entries])
        keys = [name for name, yes in zip(entries, is_key, strict=True) if yes]
        return keys, [name for name, yes in zip(entries, is_key, strict=True) if not yes]

    async def _exists(self, key: str) -> bool:
        with self._explained("read", key, may_be_missing=True):
            return bool(await self.store.exists(key))
        # The context has suppressed the error of a missing value.
        return False

    def exist_many(self, keys: Sequence[str]) -> Answers:
        return self._batch(self._exists, [(check_key(key),) for key in keys])

"""Keep keys and values behind an obstore client: S3, Google Cloud Storage, Azure and others."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any, cast

from nczarr.errors import LockedError, StoreError
from nczarr.lazy import cached_property
from nczarr.stores.base import Buffer, Names, Store, as_view, check_prefix, start_of, url_above
from nczarr.stores.remote.concurrent import ConcurrentStore, Results, T
from nczarr.system.environment import limit
from nczarr.system.forks import Origin
from nczarr.system.locks import TABLES

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta, UpdateVersion
    from obstore.store import ObjectStore


#: Larger values are sent in parts of this size. Parts cost two more requests, and a killed process leaves them.
_PART = 64 << 20
#: Number of attempts to replace a value that other processes replace, too, and the pauses between them in seconds.
_EXCHANGES, _SHORTEST, _LONGEST = 60, 0.02, 1.0


class ObstoreStore(ConcurrentStore):
    """The keys below a prefix of an obstore object store.

    Parameters
    ----------
    store : obstore.store.ObjectStore
        The client.
    prefix : str
        Where the keys begin.
    url : str, optional
        For messages.
    writable : bool
    again : callable, optional
        Opens the store in another process; in a forked child, where obstore does not work, with another client.

    Examples
    --------
    >>> from obstore.store import MemoryStore
    >>> store = ObstoreStore(MemoryStore(), "run42.zarr", writable=True)
    >>> store.set("v/c/0", b"abcdef")
    >>> store.get_many(["v/c/0", "v/c/1"]), store.get_range("v/c/0", -2)
    ([b'abcdef', None], b'ef')
    """

    def __init__(
        self,
        store: ObjectStore,
        prefix: str = "",
        *,
        url: str | None = None,
        writable: bool = False,
        again: Callable[[], ConcurrentStore] | None = None,
    ) -> None:
        self._client = store
        self._again = again
        self._instead: ConcurrentStore | None = None
        self._prefix = start_of(prefix)
        self.url = url or f"{type(store).__name__}/{prefix}"
        self.writable = writable
        # A web server behind obstore does not list all keys.
        self.lists_all = self.has_conditions = type(store).__name__ != "HTTPStore"
        self.lists_by_folder = self.lists_sizes = self.lists_all
        self.removes_many = type(store).__name__ == "S3Store"
        # obstore's store in memory keeps the buffer of its caller, which may change it.
        self._keeps_buffers = type(store).__name__ == "MemoryStore"

    def readable_copy(self) -> ObjectStore | None:
        """Return a client of the folder of this store that can be pickled; None if its credentials cannot."""
        client: Any = self._client
        if type(client).__name__ != "S3Store" or client.credential_provider or not is_usable():
            return None
        copied: ObjectStore = type(client)(
            prefix=self._prefix,
            config=client.config,
            client_options=client.client_options,
            retry_config=client.retry_config,
        )
        return copied

    def parent(self) -> tuple[Store, str] | None:
        above, _, name = self._prefix.rstrip("/").rpartition("/")
        if not name:
            return None
        again = partial(_open_above, self._again) if self._again else None
        return ObstoreStore(self._client, above, url=url_above(self.url), again=again), name

    # obstore's asynchronous calls wake the event loop from threads of their own, also while Python ends, which then
    # aborts. Its blocking calls do not; Python joins the threads that wait for them before it ends. So the coroutines
    # here call the blocking functions, never wait, and run in those threads.

    def _run(self, function: Callable[..., Awaitable[T]], *arguments: object) -> T:
        return self._batch(function, [arguments])[0]

    def _batch(
        self, function: Callable[..., Awaitable[T]], requests: Sequence[tuple[object, ...]]
    ) -> Results[T]:
        if not is_usable():
            # In a forked child, each request would wait for threads that exist in the parent alone
            # (tests/stores/test_s3.py: reading goes on after a fork).
            other = self._other()
            return other._batch(getattr(other, function.__name__), requests)
        try:
            futures = [_pool().submit(_drive, function, *request) for request in requests]
        except RuntimeError:  # Python ends, and threads accept no new work
            return [_drive(function, *request) for request in requests]
        try:
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                # After an error or an interrupt, the caller gives up the buffers that running requests still send.
                future.cancel()
            wait(futures)
            raise

    def _other(self) -> ConcurrentStore:
        if self._instead is None:
            if self._again is None:
                raise StoreError(
                    "obstore does not work in a forked child of a process that has used it",
                    path=self.url,
                    hint="start processes with the method 'spawn' or 'forkserver'",
                )
            self._instead = self._again()
        return self._instead

    def __reduce__(self) -> str | tuple[object, ...]:
        # Credentials of boto cannot be pickled; the other process finds its own.
        return (self._again, ()) if self._again else super().__reduce__()

    async def _fetch(self, key: str, start: int, length: int | None) -> bytes | None:
        options: GetOptions | None = None
        if start < 0:
            options = {"range": {"suffix": -start}}
        elif length is not None:
            options = {"range": (start, start + length)}
        elif start:
            options = {"range": {"offset": start}}
        found = self._client.get(self._prefix + key, options=options)
        self._note(key, found.meta)
        return bytes(found.bytes())

    def _note(self, key: str, meta: ObjectMeta) -> None:
        self._times.note(key, meta["last_modified"])
        self.keeps_versions = self.keeps_versions or meta["version"] not in (None, "null")

    async def _fetch_bounded(self, key: str, most: int) -> Buffer | None:
        found = self._client.get(self._prefix + key)
        self._note(key, found.meta)
        self._check_bound(key, found.meta["size"], most)
        return memoryview(found.bytes())  # not copied: chunks are large

    async def _fetch_dated(self, key: str) -> tuple[bytes | None, datetime | None]:
        found = self._client.get(self._prefix + key)
        return bytes(found.bytes()), found.meta["last_modified"]

    async def _size(self, key: str) -> int | None:
        return int(self._client.head(self._prefix + key)["size"])

    async def _put(self, key: str, data: memoryview) -> None:
        # A store in memory keeps the buffer, which the caller may change.
        value = bytes(data) if self._keeps_buffers else data
        self._client.put(self._prefix + key, value, chunk_size=_PART)

    async def _put_new(self, key: str, data: memoryview) -> bool:
        from obstore.exceptions import AlreadyExistsError, NotSupportedError

        try:
            self._client.put(self._prefix + key, bytes(data), mode="create")
        except AlreadyExistsError:
            return False
        # Services without conditional writes: two writers may then both get the key, and opening warns of it.
        except (NotImplementedError, NotSupportedError):
            self.has_conditions = False
            return await super()._put_new(key, data)
        return True

    @cached_property
    def exchanges(self) -> bool:  # type: ignore[override]
        """True if the server refuses to replace a version of a value that is not there any more."""
        from obstore.exceptions import NotFoundError, NotSupportedError, PreconditionError

        if not (self.has_conditions and self.writable and is_usable()):
            return False
        # A value that does not exist has no version. A server that ignores the condition stores it.
        key = ".nczarr-probe"
        with self._explained("write", key):
            try:
                self._client.put(
                    self._prefix + key, b"", mode={"e_tag": "0", "version": "1"}, use_multipart=False
                )
            except (PreconditionError, NotFoundError, FileNotFoundError):
                return True
            except (NotImplementedError, NotSupportedError):
                return False
        self.delete(key)
        return False

    def exchange(self, key: str, change: Callable[[bytes | None], Buffer]) -> None:
        self.check_writable(key)
        for attempt in range(_EXCHANGES):
            old, version = self._run(self._safe_versioned, key)
            data = bytes(as_view(change(old)))
            done = (
                self.set_if_absent(key, data)
                if version is None
                else self._run(self._replace, key, data, version)
            )
            if done:
                return
            # Writers that met do not meet again.
            time.sleep(random.uniform(0, min(_LONGEST, _SHORTEST * 2**attempt)))
        raise LockedError("other processes replace the value all the time", path=self.place(key))

    async def _safe_versioned(self, key: str) -> tuple[bytes | None, UpdateVersion | None]:
        """Return a value and its version."""
        with self._explained("read", key, may_be_missing=True):
            found = self._client.get(self._prefix + key)
            self._note(key, found.meta)
            known = {k: v for k in ("e_tag", "version") if (v := found.meta[k]) is not None}
            return bytes(found.bytes()), cast("UpdateVersion", known)
        # The context has suppressed the error of a missing value.
        return None, None

    async def _replace(self, key: str, data: bytes, version: UpdateVersion) -> bool:
        """Replace a version of a value; return False if another process has replaced or removed it."""
        from obstore.exceptions import NotFoundError, PreconditionError

        with self._explained("write", key):
            try:
                self._client.put(self._prefix + key, data, mode=version, use_multipart=False)
            except (PreconditionError, NotFoundError, FileNotFoundError):
                return False
        return True

    async def _copy(self, source: str, target: str) -> None:
        self._client.copy(self._prefix + source, self._prefix + target)

    async def _remove(self, key: str) -> None:
        self._client.delete(self._prefix + key)

    async def _remove_many(self, keys: Sequence[str]) -> None:
        self._client.delete([self._prefix + key for key in keys])

    def list(self, prefix: str = "") -> Iterator[str]:
        return (key for key, _ in self.sizes(prefix))

    def sizes(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        prefix = check_prefix(prefix)
        if not is_usable():
            yield from self._other().sizes(prefix)
            return
        below = self._prefix + start_of(prefix)
        skip = len(self._prefix)
        # Other clients mark a folder with an empty object "g/", which obstore lists as "g". All other keys are given on
        # at once: a list of 10⁸ of them would take 31 GB.
        empty: set[str] = set()
        with self._explained("list", prefix, may_be_missing=True):
            for entries in self._client.list(below or None):
                for entry in entries:
                    if not entry["path"].startswith(below):
                        continue
                    key = entry["path"][skip:]
                    if not entry["size"]:
                        empty.add(key)
                        continue
                    yield key, entry["size"]
        for key in sorted(empty):
            if not any(self.list_dir(key)):
                yield key, 0

    def list_dir(self, prefix: str = "") -> Names:
        prefix = check_prefix(prefix)
        below = self._prefix + start_of(prefix)
        skip = len(below)
        if not is_usable():
            return self._other().list_dir(prefix)
        with self._explained("list", prefix, may_be_missing=True):
            found = self._client.list_with_delimiter(below or None)
            prefixes = {path.rstrip("/")[skip:] for path in found["common_prefixes"]} - {""}
            objects = [(entry["path"], entry["size"]) for entry in found["objects"]]
            sizes = {path[skip:]: size for path, size in objects if path.startswith(below)}
            # The marker of a folder is an empty key with the name of the folder.
            names = sorted(name for name, size in sizes.items() if name and (size or name not in prefixes))
            return names, sorted(prefixes)
        # The context has suppressed the error of a missing folder.
        return [], []


#: The threads that call obstore, and the process that used it first: its runtime does not survive a fork.
_threads: tuple[ThreadPoolExecutor, Origin] | None = None


def _pool() -> ThreadPoolExecutor:
    global _threads
    with TABLES:
        if _threads is None:
            _threads = ThreadPoolExecutor(limit("NCZARR_REQUESTS"), "nczarr-obstore"), Origin()
        return _threads[0]


def is_usable() -> bool:
    """Return whether obstore works in this process."""
    if _threads is not None:
        return _threads[1].is_here
    return (_IS_FIRST and _HERE.is_here) or _answers(os.getpid())


#: True if no other library has imported obstore, and the process that imported this module.
_IS_FIRST, _HERE = "obstore" not in sys.modules, Origin()
#: Seconds until obstore's threads do not exist. They need less than a millisecond.
_PATIENCE = 3.0


@cache
def _answers(process: int) -> bool:
    """Return whether obstore's threads exist. A forked child lacks them if any library has used obstore before.

    Each request of the child would wait for them without end.
    """
    import asyncio

    from obstore.store import MemoryStore

    async def ask() -> None:
        await asyncio.wait_for(MemoryStore().put_async("k", b""), _PATIENCE)

    with ThreadPoolExecutor(1) as pool:  # the caller's thread may have an event loop
        try:
            pool.submit(lambda: asyncio.run(ask())).result()
        except TimeoutError:
            return False
    return True


def _open_above(again: Callable[[], ConcurrentStore]) -> ConcurrentStore:
    above = again().parent()
    assert above is not None
    assert isinstance(above[0], ConcurrentStore)
    return above[0]


def _drive(function: Callable[..., Awaitable[T]], *arguments: object) -> T:
    """Run a coroutine that never waits."""
    try:
        next(iter(function(*arguments).__await__()))
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("the coroutine waits")

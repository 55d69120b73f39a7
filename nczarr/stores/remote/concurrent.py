"""Run batches of an asynchronous client as one concurrent call each."""

from __future__ import annotations

import errno
import os
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from nczarr.errors import NCZarrError, StoreError, suppress_reason
from nczarr.lazy import cached_property
from nczarr.stores.base import (
    DOCUMENTS,
    REPLACED,
    Answers,
    Buffer,
    Names,
    Request,
    Store,
    Values,
    as_view,
    batched,
    check_key,
    is_notice,
)
from nczarr.system.environment import limit
from nczarr.system.failures import lacks_bucket, may_mean_missing, reason_of
from nczarr.system.locks import TABLES
from nczarr.system.logs import logger_of
from nczarr.system.warning import warn

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

#: Maximum number and total size of values that `set_many` keeps in memory.
_BATCH_ITEMS = 256
_BATCH_BYTES = 64 << 20
#: Maximum number of keys that S3 removes with one request.
_REMOVED_ITEMS = 1000
#: Seconds that a writer waits after a notice: services count whole seconds.
WAIT = 1.1
#: Maximum difference between the clocks of a service and of this machine. S3 refuses requests beyond it.
_SKEW = timedelta(minutes=15)
#: Requests for the documents of the root.
_ROOTS = [(name, 0, None) for name in sorted(DOCUMENTS)]


FileSystem = Any
"""A file system of fsspec, which has no types."""

T = TypeVar("T")
Results = list[T]


@dataclass
class OpeningTimes:
    """The times of a dataset that was opened: of the key that was read first, and the oldest time of all."""

    key: str = ""
    written: datetime | None = None
    oldest: datetime | None = None
    confirmed: datetime | None = None


class WriteTimes:
    """The times at which the values of a store were written, as far as they were read here.

    A writer that replaces a dataset in a store that cannot rename first writes one more key, the *notice*, and then
    waits until the service gives later times. Values written up to the time of the notice belong to the old dataset,
    later ones to the new one. Object stores and web servers send the time of each value: a reader looks for the notice
    only after a value that is newer than all before. Programs that copy a dataset give its keys times in any order; so
    a notice counts only if the document that was read first has another time by then.

    Examples
    --------
    >>> times, noon = WriteTimes(), datetime(2024, 5, 1, 12, tzinfo=UTC)
    >>> times.note("zarr.json", noon)
    >>> opened = times.opened
    >>> times.unchecked() is None, times.is_doubtful(opened)
    (True, False)
    >>> times.note("v/c/0", noon + timedelta(seconds=3))
    >>> times.check(times.unchecked(), noon + timedelta(seconds=1))
    >>> times.unchecked() is None, times.is_doubtful(opened)
    (True, True)
    """

    def __init__(self) -> None:
        #: Times since the last opening of a dataset began.
        self.opened = OpeningTimes()
        self._newest: datetime | None = None
        self._checked: datetime | None = None
        self._noticed: datetime | None = None

    def note(self, key: str, written: datetime) -> None:
        """Record the time of a value."""
        with TABLES:
            opened = self.opened
            if opened.written is None:
                opened.key, opened.written = key, written
            opened.oldest = min(written, opened.oldest or written)
            if self._newest is None:
                # All others are compared with the first value, the root's document.
                self._newest = self._checked = written
            elif written > self._newest:
                self._newest = written

    def unchecked(self) -> datetime | None:
        """Return the newest time, if nothing has looked for a notice since; else None."""
        if self._newest is None or self._checked is None or self._newest <= self._checked:
            return None
        return self._newest

    def check(self, newest: datetime, noticed: datetime | None) -> None:
        """Record the time of the last notice, None if there is none, as seen after a value of the time `newest`."""
        self._noticed = noticed
        # A later replacement gets times after the current time of the service's clock.
        self._checked = max(newest, datetime.now(UTC) - _SKEW)

    def is_doubtful(self, opened: OpeningTimes) -> bool:
        """Return whether a notice came after the values of a dataset, and was not confirmed as harmless since."""
        oldest, noticed = opened.oldest, self._noticed
        if oldest is None or noticed is None or oldest > noticed:
            return False
        return opened.confirmed != self._checked

    def confirm(self, opened: OpeningTimes) -> None:
        """Record that the first document of a dataset has not changed."""
        opened.confirmed = self._checked


class ConcurrentStore(Store):
    """A store whose client is asynchronous.

    Subclasses fetch, put and remove one value, and recognise the errors that mean "there is no such key".
    """

    removes_many = False
    """True if one request removes many keys."""

    _conceals_missing = False
    """True if the server refuses to read missing keys, like S3 without the right to list the bucket."""

    _was_read = False
    """True if a key had a value."""

    @property
    def parallel_requests(self) -> int:  # type: ignore[override]
        return limit("NCZARR_REQUESTS")

    @cached_property
    def _times(self) -> WriteTimes:
        """The times of the values that were read, as far as the client knows them."""
        return WriteTimes()

    # --- the identity of the dataset

    def _look(self) -> OpeningTimes:
        self._times.opened = opened = OpeningTimes()
        return opened

    def _compare(self, opened: OpeningTimes) -> None:
        times = self._times
        newest = times.unchecked()
        if newest is not None:
            times.check(newest, self._run(self._noticed))
        if times.is_doubtful(opened):
            if self._run(self._written, opened.key) != opened.written:
                raise self._replaced_error()
            times.confirm(opened)

    def announce_replacement(self) -> None:
        super().announce_replacement()
        # Times of objects are whole seconds: a reader that opens in this second could not tell old from new.
        time.sleep(WAIT)

    async def _noticed(self) -> datetime | None:
        """Return the time of the last notice; None if the key has no notice."""
        try:
            value, written = await self._fetch_dated(REPLACED)
        except Exception:  # servers may forbid names that begin with a period
            return None
        return written if is_notice(value) else None

    async def _written(self, key: str) -> datetime | None:
        """Return the time of a value; None if the key has none any more."""
        with self._explained("read", key, may_be_missing=True):
            return (await self._fetch_dated(key))[1]
        # The context has suppressed the error of a missing value.
        return None

    async def _fetch_dated(self, key: str) -> tuple[bytes | None, datetime | None]:
        """Fetch one value and its time."""
        return None, None

    @abstractmethod
    async def _fetch(self, key: str, start: int, length: int | None) -> bytes | None:
        """Fetch one value or a part; start 0 and length None mean the whole value."""

    async def _fetch_bounded(self, key: str, most: int) -> Buffer | None:
        """Fetch one value; a value of more than `most` bytes is an error."""
        return await self._fetch(key, 0, None)

    def _check_bound(self, key: str, size: int, most: int) -> None:
        if size > most:
            raise StoreError(
                f"cannot read: the value has more than {most} bytes, the maximum for its array",
                path=self.place(key),
            )

    async def _size(self, key: str) -> int | None:
        """Return the size of one value."""
        value = await self._fetch(key, 0, None)
        return None if value is None else len(value)

    async def _put(self, key: str, data: memoryview) -> None:
        """Put one value; stores for reading only need no such method."""
        raise NotImplementedError

    async def _remove(self, key: str) -> None:
        """Remove one value; stores for reading only need no such method."""
        raise NotImplementedError

    async def _remove_many(self, keys: Sequence[str]) -> None:
        """Remove up to 1,000 values with one request; only stores that set `removes_many` need this method."""
        raise NotImplementedError

    async def _put_new(self, key: str, data: memoryview) -> bool:
        """Put one value if the key has none, with the client's conditional write if it has one."""
        if await self._safe_size(key) is not None:
            return False
        await self._put(key, data)
        return True

    async def _copy(self, source: str, target: str) -> None:
        """Copy one value."""
        value = await self._fetch(source, 0, None)
        if value is None:
            raise FileNotFoundError(source)
        await self._put(target, memoryview(value))

    def _is_missing(self, error: BaseException) -> bool:
        """Return True if an error of the client means that the key has no value."""
        missing = isinstance(error, (FileNotFoundError, IsADirectoryError, NotADirectoryError))
        return missing and not lacks_bucket(error)

    def _means_missing(self, what: str, error: BaseException) -> bool:
        """Return True if an error of a request means that the key has no value."""
        concealed = what == "read" and self._conceals_missing and may_mean_missing(error)
        return concealed or self._is_missing(error)

    def _is_range_error(self, error: BaseException) -> bool:
        """Return True if an error of the client may mean that the range is invalid."""
        text = f"{error} {error.__cause__}"
        invalid = isinstance(error, OSError) and error.errno == errno.EINVAL  # from s3fs
        return invalid or any(word in text for word in ("Range", "range", "416", "satisfiable"))

    def _loop(self) -> AbstractEventLoop | None:
        """Return the event loop of the client; None: fsspec's."""
        return None

    def _run(self, function: Callable[..., Awaitable[T]], *arguments: object) -> T:
        """Run a coroutine function to its end in the thread of the event loop."""
        from fsspec.asyn import get_loop, sync

        result: T = sync(self._loop() or get_loop(), function, *arguments)
        return result

    def _fail(self, what: str, key: str, error: BaseException) -> NoReturn:
        reason, hint = reason_of(error)
        # The keys of nczarr's own marks say nothing to a user.
        place = self.url if lacks_bucket(error) or key.startswith(".nczarr-") else self.place(key)
        refused = what in ("read", "list") and may_mean_missing(error)
        if refused and what == "list":
            self._give_up_listing()
        raise StoreError(
            f"cannot {what}: {reason}", path=place, hint=hint, reason="refused" if refused else None
        ) from error

    def _give_up_listing(self) -> None:
        """Note that the server refuses to list."""
        # A listing proves nothing from now on: each key is asked for, and no chunk counts as missing unasked.
        self.listable = self.lists_all = self.lists_by_folder = False

    # --- one request, with its errors translated

    @contextmanager
    def _explained(self, what: str, key: str, *, may_be_missing: bool = False) -> Iterator[None]:
        """Turn an error of the client into a StoreError; suppress one that means a missing value if that may be."""
        logger_of(__name__).debug("%s: %s %s", self.url, what, key)
        try:
            yield
        except NCZarrError:
            raise
        except Exception as error:
            if not (may_be_missing and self._means_missing(what, error)):
                self._fail(what, key, error)

    async def _safe_fetch(self, key: str, start: int, length: int | None) -> bytes | None:
        logger_of(__name__).debug("%s: read %s, start %s, length %s", self.url, key, start, length)
        try:
            return await self._fetch(key, start, length)
        except NCZarrError:
            raise
        except Exception as error:
            # S3 answers 403 for a missing key to a client that may not list.
            if self._means_missing("read", error):
                return None
            # S3 answers 416 for a part of an empty value, and for one that another writer has made shorter.
            if (start or length is not None) and self._is_range_error(error):
                # Clients report it in many ways; the size proves it.
                size = await self._safe_size(key)
                if size is None:
                    return None
                # Each client has its own words for a range beyond the end.
                if size == 0 or start >= size:
                    return b""
            self._fail("read", key, error)

    async def _safe_bounded(self, key: str, most: int) -> Buffer | None:
        with self._explained("read", key, may_be_missing=True):
            return await self._fetch_bounded(key, most)
        # The context has suppressed the error of a missing value.
        return None

    async def _safe_size(self, key: str) -> int | None:
        with self._explained("read", key, may_be_missing=True):
            return await self._size(key)
        # The context has suppressed the error of a missing value.
        return None

    async def _safe_put(self, key: str, data: Buffer) -> None:
        with self._explained("write", key):
            await self._put(key, as_view(data))

    async def _safe_remove(self, key: str) -> None:
        with self._explained("delete", key, may_be_missing=True):
            await self._remove(key)

    async def _safe_remove_many(self, keys: Sequence[str]) -> None:
        with self._explained("delete", keys[0]):
            await self._remove_many(keys)

    async def _safe_put_new(self, key: str, data: Buffer) -> bool:
        with self._explained("write", key):
            return await self._put_new(key, as_view(data))

    async def _safe_copy(self, source: str, target: str) -> None:
        with self._explained("copy", source):
            await self._copy(source, target)

    # --- batches

    async def _all(
        self, function: Callable[..., Awaitable[T]], requests: Sequence[tuple[object, ...]]
    ) -> Results[T]:
        import asyncio

        results: dict[int, T] = {}
        errors: list[Exception] = []
        pending = iter(enumerate(requests))

        async def work() -> None:
            for index, request in pending:
                if errors:
                    return
                try:
                    results[index] = await function(*request)
                except Exception as error:
                    errors.append(error)

        await asyncio.gather(*(work() for _ in range(min(self.parallel_requests, len(requests)))))
        if errors:
            raise errors[0]
        return [results[index] for index in range(len(requests))]

    def _batch(
        self, function: Callable[..., Awaitable[T]], requests: Sequence[tuple[object, ...]]
    ) -> Results[T]:
        return self._run(self._all, function, requests) if requests else []

    def _ask(
        self, function: Callable[..., Awaitable[T | None]], requests: Sequence[tuple[object, ...]]
    ) -> Results[T | None]:
        """Run a batch of requests to read. Without the right to list, S3 answers 403 for missing keys."""
        try:
            answers = self._batch(function, requests)
        except StoreError as error:
            if error.reason != "refused" or self._conceals_missing or self._may_list():
                raise
            self._conceals_missing = True
            answers = self._batch(function, requests)
            found = [*answers, *(() if self._was_read else self.get_ranges(_ROOTS))]
            # Nothing could be read: the credentials are wrong, and chunks are not missing, to be read as fill values.
            # (tests/stores/test_s3_server.py)
            if not self._was_read and not any(answer is not None for answer in found):
                self._conceals_missing = False
                raise
            warn(
                f"{self.url}: the server does not allow listing, and answers 403 for missing and for forbidden keys;"
                " nczarr treats all of them as missing"
            )
        self._was_read = self._was_read or any(answer is not None for answer in answers)
        return answers

    def _may_list(self) -> bool:
        with suppress_reason("refused"):
            self.list_dir()
            return True
        return False

    def get(self, key: str) -> bytes | None:
        return self.get_ranges([(key, 0, None)])[0]

    def get_many(self, keys: Sequence[str]) -> Values:
        return self.get_ranges([(key, 0, None) for key in keys])

    def get_bounded(self, keys: Sequence[str], most: int) -> Sequence[Buffer | None]:
        return self._ask(self._safe_bounded, [(check_key(key), most) for key in keys])

    def get_range(self, key: str, start: int, length: int | None = None) -> bytes | None:
        return self.get_ranges([(key, start, length)])[0]

    def get_ranges(self, requests: Sequence[Request]) -> Values:
        # HTTP has no range of zero bytes: request one byte, and return none.
        asked = [(check_key(key), start, 1 if length == 0 else length) for key, start, length in requests]
        values = self._ask(self._safe_fetch, asked)
        return [
            value[:length] if value is not None and length is not None else value
            for value, (_, _, length) in zip(values, requests, strict=True)
        ]

    def size(self, key: str) -> int | None:
        return self._ask(self._safe_size, [(check_key(key),)])[0]

    def exists(self, key: str) -> bool:
        return self.exist_many([key])[0]

    def exist_many(self, keys: Sequence[str]) -> Answers:
        sizes = self._ask(self._safe_size, [(check_key(key),) for key in keys])
        return [size is not None for size in sizes]

    def set(self, key: str, data: Buffer) -> None:
        self.check_writable(key)
        self._run(self._safe_put, check_key(key), data)

    def set_if_absent(self, key: str, data: Buffer) -> bool:
        self.check_writable(key)
        return self._run(self._safe_put_new, check_key(key), data)

    def set_many(self, items: Iterable[tuple[str, Buffer]]) -> None:
        batch: list[tuple[str, Buffer]] = []
        size = 0
        for key, data in items:
            self.check_writable(key)
            batch.append((check_key(key), data))
            size += memoryview(data).nbytes
            # The values of a whole dataset would be in memory before the first request.
            if len(batch) >= _BATCH_ITEMS or size >= _BATCH_BYTES:
                self._batch(self._safe_put, batch)
                batch, size = [], 0
        self._batch(self._safe_put, batch)

    def copy_many(self, pairs: Iterable[tuple[str, str]]) -> None:
        self.check_writable()
        for batch in batched(pairs, _BATCH_ITEMS):
            self._batch(self._safe_copy, [(check_key(source), check_key(target)) for source, target in batch])

    def list_dirs(self, prefixes: Sequence[str]) -> Sequence[Names]:
        if len(prefixes) < 2:
            return super().list_dirs(prefixes)
        # A listing is a round trip, of which a dataset of many groups needs many.
        with ThreadPoolExecutor(min(self.parallel_requests, len(prefixes))) as pool:
            return [*pool.map(self.list_dir, prefixes)]

    def delete(self, key: str) -> None:
        self.check_writable(key)
        self._run(self._safe_remove, check_key(key))

    def delete_many(self, keys: Iterable[str]) -> None:
        self.check_writable()
        remove: Callable[[Any], Awaitable[None]] = self._safe_remove
        items: Iterable[object] = map(check_key, keys)
        if self.removes_many:
            remove, items = self._safe_remove_many, batched(map(check_key, keys), _REMOVED_ITEMS)
        for batch in batched(items, _BATCH_ITEMS):
            self._batch(remove, [(item,) for item in batch])


class FileSystemStore(ConcurrentStore):
    """A store over a file system of fsspec."""

    _fs: FileSystem

    @property
    def fs(self) -> FileSystem:
        """The file system; a new one in a forked child, which has neither the event loop nor the connections."""
        fs = self._fs
        if getattr(fs, "async_impl", False) and getattr(fs, "_pid", os.getpid()) != os.getpid():
            self._fs = type(fs)(*fs.storage_args, **fs.storage_options)
        return self._fs

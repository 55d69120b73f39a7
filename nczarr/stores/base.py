"""Define the store protocol: bytes under keys.

A store maps keys, slash-separated relative paths such as ``"g/v/c/0/1"``, to values. Stores that talk to a
network override the ``*_many`` and ``*_ranges`` methods, so that one call is one concurrent batch.
"""

from __future__ import annotations

import itertools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from nczarr.errors import ReadOnlyError, StoreError
from nczarr.lazy import pattern
from nczarr.text import shown_location

if TYPE_CHECKING:
    from typing import Self

Item = TypeVar("Item")

Buffer = Any
"""Anything with the buffer protocol: bytes, memoryview, a numpy array."""

Check = Callable[[], None]
"""Raises an error if something has changed."""

Request = tuple[str, int, int | None]
"""A key, a start (negative: the last bytes) and a length (None: to the end)."""

# Inside the classes, `list` is the method.
Names = tuple[list[str], list[str]]
Values = list[bytes | None]
Answers = list[bool]

#: The key of the notice that another dataset has replaced the one that a reader may have open.
REPLACED = ".nczarr-replaced"
_NOTICE = (
    b"Another dataset took the place of the one that was here. Readers tell the two apart by this file.\n"
)
#: The names of metadata documents, in any version of Zarr.
DOCUMENTS = frozenset({"zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata", ".nczarr"})

# One search finds every illegal form: an empty, "." or ".." part (hence a leading, trailing or double slash,
# and the empty key), NUL, and lone surrogates, which no store can encode.
_ILLEGAL = pattern(r"(?:^|/)\.{0,2}(?:/|\Z)|[\0\ud800-\udfff]")


#: Number of values that `copy_many` keeps in memory if the store cannot copy.
_COPIED = 16


def batched(items: Iterable[Item], count: int) -> Iterator[list[Item]]:
    """Split items into lists of `count` and a rest.

    Examples
    --------
    >>> list(batched("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, count)):
        yield batch


def check_key(key: str) -> str:
    r"""Return `key` if it is legal.

    Raises
    ------
    StoreError
        The key is empty, absolute, ends in a slash, has an empty, ``.`` or ``..`` part, or holds NUL or a lone
        surrogate.

    Examples
    --------
    >>> check_key("g/v/c/0/1")
    'g/v/c/0/1'
    >>> check_key("../secret")
    Traceback (most recent call last):
    nczarr.errors.StoreError: '../secret' is not a legal key
    """
    if not isinstance(key, str) or _ILLEGAL.search(key):
        raise StoreError(f"{key!r} is not a legal key")
    return key


def check_prefix(prefix: str) -> str:
    """Return `prefix` without a trailing slash if it is legal: empty, or a legal key.

    Examples
    --------
    >>> check_prefix(""), check_prefix("g/"), check_prefix("g/h")
    ('', 'g', 'g/h')
    """
    if prefix == "":
        return prefix
    return check_key(prefix.removesuffix("/"))


def start_of(prefix: str) -> str:
    """Return the beginning of all keys below a legal prefix: empty, or the prefix and a slash.

    Examples
    --------
    >>> start_of(""), start_of("g/"), start_of("g/h")
    ('', 'g/', 'g/h/')
    """
    return check_prefix(prefix) + "/" if prefix else ""


def as_view(data: Buffer) -> memoryview:
    """Return the bytes of a buffer, in C order, as a flat view; copied only if it is not contiguous.

    Examples
    --------
    >>> import numpy as np
    >>> bytes(as_view(np.array([1, 2], dtype="<u2")))
    b'\\x01\\x00\\x02\\x00'
    """
    view = data if isinstance(data, memoryview) else memoryview(data)
    if view.nbytes == 0:
        return memoryview(b"")
    if not view.c_contiguous:
        view = memoryview(view.tobytes())
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")


def clip(size: int, start: int, length: int | None) -> tuple[int, int]:
    """Return start and stop of a requested range inside a value of `size` bytes.

    Examples
    --------
    >>> clip(10, 2, 3), clip(10, -4, None), clip(10, 8, 100), clip(10, 20, 1)
    ((2, 5), (6, 10), (8, 10), (10, 10))
    """
    first = max(size + start, 0) if start < 0 else min(start, size)
    last = size if length is None else min(first + length, size)
    return first, last


def new_notice() -> bytes:
    """Return a notice that differs from all others."""
    return _NOTICE + os.urandom(16).hex().encode() + b"\n"


def is_notice(value: bytes | None) -> bool:
    """Return whether a value is a notice; servers may answer with anything for a key that they do not have.

    Examples
    --------
    >>> is_notice(new_notice()), is_notice(b"<html>"), is_notice(None)
    (True, False, False)
    """
    return value is not None and value.startswith(_NOTICE)


class Store(ABC):
    """Bytes under keys.

    All methods may be called from several threads at once. A missing key is never an error: reading returns
    None, deleting does nothing. Every other failure (no permission, no connection, a full disk) is a
    :class:`~nczarr.errors.StoreError` that names the store and the key, so that "cannot be read" is never
    confused with "missing".

    Attributes
    ----------
    url : str
        The location of the store, for messages: without passwords, tokens and signatures.
    readable, writable, listable : bool
        The abilities of the store, under the names of the Zarr protocol. Every store is readable.
    lists_all : bool
        A listing names every key below its prefix, as those of a directory, a zip file and an object store do. If
        False (index pages of web servers, foreign mappings), a key that no listing names may have a value; then only
        :meth:`get`, :meth:`exists` and :meth:`exist_many` find it.
    lists_free : bool
        The names of all keys are known in memory: :meth:`exists` and :meth:`list` cost no request.
    takes_any_key : bool
        If False, the store accepts only keys of Zarr (and publishes all changes in one commit).
    lists_by_folder : bool
        Listing a prefix costs a request for each folder below it, or for each thousand keys, so a search should skip
        folders that contain only chunks. Listings of folders may lack names that begin with a period.
    lists_sizes : bool
        :meth:`sizes` costs no more than :meth:`list`.
    keeps_versions : bool
        Of a value that was read, older versions stay where it is replaced or removed.
    is_local : bool
        Each value is a file below a directory of this machine, so programs may lock, rename and sync them.
    is_one_file : bool
        All values are in one file, which appears when it is complete.
    has_conditions : bool
        Of several writers that call :meth:`set_if_absent` at once, exactly one gets True. Servers that ignore
        conditions return True to each of them.
    exchanges : bool
        :meth:`exchange` loses no change of another process. Some servers ignore conditions; asking may cost a request.
    is_shared : bool
        Other processes write values at the same time, so that a part of a chunk is changed by :meth:`exchange`.
    before_part : callable or None
        Called before the change of a part of a chunk in a shared store; it excludes the writers that would undo it.
    parallel_requests : int
        The number of requests that wait at the same time; 1 for a store that answers at once.
    keeps_consolidated : bool
        If False, consolidated metadata are useless, because the store has its own.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> store = MemoryStore()
    >>> store.set("zarr.json", b"{}")
    >>> store.get("zarr.json"), store.get("missing"), list(store.list())
    (b'{}', None, ['zarr.json'])
    """

    _shown_url: str = ""
    readable: bool = True
    writable: bool = True
    listable: bool = True
    lists_all: bool = False
    lists_free: bool = False
    is_local: bool = False
    takes_any_key: bool = True
    lists_by_folder: bool = False
    lists_sizes: bool = False
    keeps_versions: bool = False
    _held: Any = None
    is_one_file: bool = False
    has_conditions: bool = False
    exchanges: bool = False
    is_shared: bool = False
    before_part: Callable[[], None] | None = None
    parallel_requests: int = 1
    keeps_consolidated: bool = True

    @property
    def url(self) -> str:
        return self._shown_url

    @url.setter
    def url(self, url: str) -> None:
        self._shown_url = shown_location(url)

    def check_names(self, paths: Iterable[str]) -> None:  # noqa: B027 (most stores have nothing to refuse)
        """Raise :class:`StoreError` if this process encodes names of nodes differently than the store."""

    # --- reading

    @abstractmethod
    def get(self, key: str) -> bytes | None:
        """Return the value of `key`, None if there is none."""

    def get_many(self, keys: Sequence[str]) -> Values:
        """Return the values of many keys (None for each missing one), fetched in one concurrent batch."""
        return [self.get(key) for key in keys]

    def get_bounded(self, keys: Sequence[str], most: int) -> Sequence[Buffer | None]:
        """Return the values of many keys as buffers; the caller needs none that is longer than `most`.

        Stores behind a network stop reading there, and raise :class:`StoreError`.
        """
        return self.get_many(keys)

    def get_range(self, key: str, start: int, length: int | None = None) -> bytes | None:
        """Return a part of a value.

        Parameters
        ----------
        key : str
        start : int
            The first byte; if negative, the part begins that many bytes before the end.
        length : int or None
            The number of bytes; None: all up to the end. A part that exceeds the end is cut short; one that
            begins beyond it is empty.

        Returns
        -------
        bytes or None
            None if the key is missing.
        """
        value = self.get(key)
        if value is None:
            return None
        first, last = clip(len(value), start, length)
        return value[first:last]

    def get_ranges(self, requests: Sequence[Request]) -> Values:
        """Return parts of one or several keys, fetched in one concurrent batch."""
        return [self.get_range(key, start, length) for key, start, length in requests]

    def size(self, key: str) -> int | None:
        """Return the number of bytes of a value, None if the key is missing."""
        value = self.get(key)
        return None if value is None else len(value)

    def exists(self, key: str) -> bool:
        """Return whether `key` has a value."""
        return self.get_range(key, 0, 0) is not None

    def exist_many(self, keys: Sequence[str]) -> Answers:
        """Return for each of many keys whether it has a value, in one concurrent batch."""
        return [self.exists(key) for key in keys]

    # --- writing

    @abstractmethod
    def set(self, key: str, data: Buffer) -> None:
        """Set the value of `key`; readers see the old value or the new one, never a mixture."""

    def set_many(self, items: Iterable[tuple[str, Buffer]]) -> None:
        """Set many keys, concurrently if that helps, with a bounded number of values in flight."""
        for key, data in items:
            self.set(key, data)

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove `key` if it exists."""

    def set_if_absent(self, key: str, data: Buffer) -> bool:
        """Set the value of `key` if it has none; return whether this call has set it.

        If the store has conditional writes (`has_conditions`), exactly one of several concurrent writers gets True.
        """
        if self.exists(key):
            return False
        self.set(key, data)
        return True

    def exchange(self, key: str, change: Callable[[bytes | None], Buffer]) -> None:
        """Replace the value of `key` by a function of it, and again if another process has replaced it meanwhile.

        Examples
        --------
        >>> from nczarr.stores import MemoryStore
        >>> store = MemoryStore()
        >>> store.exchange("k", lambda old: b"new" if old is None else old + b"more")
        >>> store.get("k")
        b'new'
        """
        self.set(key, change(self.get(key)))

    def copy_many(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Copy values from the first key of each pair to the second, inside the store if possible.

        Raises
        ------
        StoreError
            If a source value is missing.
        """
        for batch in batched(pairs, _COPIED):
            values = self.get_many([source for source, _ in batch])
            items = []
            for (source, target), value in zip(batch, values, strict=True):
                if value is None:
                    raise StoreError("there is nothing to copy", path=self.place(source))
                items.append((target, value))
            self.set_many(items)

    def delete_many(self, keys: Iterable[str]) -> None:
        """Remove many keys, concurrently if that helps."""
        for key in keys:
            self.delete(key)

    def delete_prefix(self, prefix: str) -> None:
        """Remove all keys below `prefix` (``""``: all keys of the store)."""
        self.check_writable(prefix)
        self.delete_many(list(self.list(prefix)))

    # --- listing

    @abstractmethod
    def list(self, prefix: str = "") -> Iterator[str]:
        """Iterate over all keys below `prefix`: complete keys that begin with ``prefix + "/"``."""

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Iterate over all keys below `prefix`, under the name of the Zarr protocol; see :meth:`list`."""
        return self.list(prefix)

    def list_dir(self, prefix: str = "") -> Names:
        """Return the names directly below `prefix`: those of keys, and those that are prefixes of keys.

        Both lists are sorted. Object stores allow a name in both.
        """
        skip = len(start_of(prefix))
        return split_names(key[skip:] for key in self.list(prefix))

    def sizes(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Iterate over all keys below `prefix` with the sizes of their values in bytes.

        Stores whose listings lack the sizes ask for each.
        """
        for key in self.list(prefix):
            size = self.size(key)
            if size is not None:
                yield key, size

    def list_dirs(self, prefixes: Sequence[str]) -> Sequence[Names]:
        """Return the names directly below each of many prefixes, concurrently if that helps."""
        return [self.list_dir(prefix) for prefix in prefixes]

    def _walk(self, prefix: str) -> Iterator[str]:
        """List keys folder by folder, for stores that only list folders."""
        pending = [prefix]
        while pending:
            folder = pending.pop()
            start = start_of(folder)
            names, prefixes = self.list_dir(folder)
            yield from (start + name for name in names)
            pending.extend(start + name for name in reversed(prefixes))

    # --- the rest

    def hold(self) -> Check:
        """Remember the identity of the current dataset, if the store can determine it.

        Returns
        -------
        callable
            Raises :class:`~nczarr.errors.StoreError` after it was replaced, moved or removed.
        """
        self._held = self._look()
        return partial(self._compare, self._held)

    def check_current(self) -> None:
        """Raise an error if another dataset has replaced the one of the last :meth:`hold`.

        Raises
        ------
        StoreError
            If the dataset was replaced, moved or removed.
        """
        if self._held is not None:
            self._compare(self._held)

    def _look(self) -> Any:
        """Return an object that identifies the current dataset, for :meth:`_compare`."""
        return (self._peek(REPLACED),)

    def _compare(self, held: Any) -> None:
        if (self._peek(REPLACED),) != held:
            raise self._replaced_error()

    def _replaced_error(self) -> StoreError:
        """Return the error for a reader of a dataset that does not exist any more."""
        message = "the dataset was replaced, moved or removed since it was opened"
        return StoreError(message, path=self.url, hint="open it again")

    def announce_replacement(self) -> None:
        """Tell readers that all later writes belong to a new dataset."""
        self.set(REPLACED, new_notice())

    def _peek(self, key: str) -> bytes | None:
        """Return a value of a store in memory; None for all other stores."""
        return None

    def sync(self) -> None:  # noqa: B027
        """Make all writes outlive this process; most stores have done that when `set` returns."""

    def keep_order(self, wanted: bool = True) -> None:  # noqa: B027
        """Replace or remove nothing before earlier writes are on the disk; see :meth:`settle`.

        Only directories need an order: an object store has a value when `set` returns, and a zip file is replaced as
        a whole.
        """

    def sync_early(self, wanted: bool = True) -> None:  # noqa: B027
        """Sync the files of a new dataset in the background, so that :meth:`settle` waits for the last ones only."""

    def settle(self) -> None:  # noqa: B027
        """Wait until the disk has all writes."""

    def together(self) -> AbstractContextManager[None]:
        """Return a block in which replaced values may wait for each other; no thread reads them before its end."""
        return nullcontext()

    def close(self) -> None:  # noqa: B027
        """Write pending values, and release all files and locks. Closing twice is allowed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url!r}>"

    def place(self, key: str = "") -> str:
        """Return the location of a key, for messages.

        Examples
        --------
        >>> from nczarr.stores import MemoryStore
        >>> MemoryStore().place("zarr.json")
        'memory/zarr.json'
        """
        return f"{self.url.rstrip('/')}/{key}" if key else self.url

    def parent(self) -> tuple[Store, str] | None:
        """Return a store of the parent folder, for reading, and the name of this one in it; None if there is none.

        Examples
        --------
        >>> from nczarr.stores import LocalStore, MemoryStore
        >>> LocalStore("/tmp/ocean", "w").parent(), MemoryStore().parent()
        ((<LocalStore '/tmp'>, 'ocean'), None)
        """
        return None

    def check_writable(self, key: str = "") -> None:
        """Raise :class:`~nczarr.errors.ReadOnlyError` if the store cannot be written."""
        if not self.writable:
            raise ReadOnlyError("the store is open for reading only", path=self.place(key))


def url_above(url: str) -> str:
    """Return the URL of the parent folder, for messages; in a chain, that of the first part with a folder.

    Examples
    --------
    >>> url_above("s3://bucket/sea.zarr/ocean"), url_above("zip://ocean::sea.zip")
    ('s3://bucket/sea.zarr', 'zip://::sea.zip')
    >>> url_above("simplecache::s3://bucket/sea.zarr/ocean/")
    'simplecache::s3://bucket/sea.zarr'
    """
    head, mark, rest = url.partition("::")
    if mark and "/" not in head:
        return head + mark + url_above(rest)
    head = head.rstrip("/")
    above = head[: head.rfind("/") + 1]
    return (above if above.endswith("://") else above.rstrip("/")) + mark + rest


def split_names(keys: Iterable[str]) -> Names:
    """Split relative keys into the names of keys and the names of prefixes, both sorted.

    Examples
    --------
    >>> split_names(["zarr.json", "v/zarr.json", "v/c/0"])
    (['zarr.json'], ['v'])
    """
    names: set[str] = set()
    prefixes: set[str] = set()
    for key in keys:
        head, slash, _ = key.partition("/")
        (prefixes if slash else names).add(head)
    return sorted(names), sorted(prefixes)

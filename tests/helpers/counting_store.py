"""Count the requests to a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nczarr.stores.base import Buffer, Names, Request, Store, Values


class CountingStore(Store):
    """Forward every call to `store`, and record the calls.

    Attributes
    ----------
    calls : list of (str, int)
        The name of each call and its number of keys. A batch is one call.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> store = CountingStore(MemoryStore())
    >>> store.get_many(["a", "b"]), store.get("c")
    ([None, None], None)
    >>> store.calls
    [('get_many', 2), ('get', 1)]
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.url = store.url
        self.calls: list[tuple[str, int]] = []

    @property
    def writable(self) -> bool:  # type: ignore[override]
        return self.store.writable

    @property
    def listable(self) -> bool:  # type: ignore[override]
        return self.store.listable

    @property
    def lists_all(self) -> bool:  # type: ignore[override]
        return self.store.lists_all

    @property
    def lists_by_folder(self) -> bool:  # type: ignore[override]
        return self.store.lists_by_folder

    @property
    def requests(self) -> int:
        """Return the number of keys and listings, which is the number of a server's requests."""
        return sum(count for _, count in self.calls)

    def get(self, key: str) -> bytes | None:
        self.calls.append(("get", 1))
        return self.store.get(key)

    def get_many(self, keys: Sequence[str]) -> Values:
        self.calls.append(("get_many", len(keys)))
        return self.store.get_many(keys)

    def get_range(self, key: str, start: int, length: int | None = None) -> bytes | None:
        self.calls.append(("get_range", 1))
        return self.store.get_range(key, start, length)

    def get_ranges(self, requests: Sequence[Request]) -> Values:
        self.calls.append(("get_ranges", len(requests)))
        return self.store.get_ranges(requests)

    def size(self, key: str) -> int | None:
        self.calls.append(("size", 1))
        return self.store.size(key)

    def exists(self, key: str) -> bool:
        self.calls.append(("exists", 1))
        return self.store.exists(key)

    def set(self, key: str, data: Buffer) -> None:
        self.calls.append(("set", 1))
        self.store.set(key, data)

    def set_many(self, items: Iterable[tuple[str, Buffer]]) -> None:
        held = list(items)
        self.calls.append(("set_many", len(held)))
        self.store.set_many(held)

    def delete(self, key: str) -> None:
        self.calls.append(("delete", 1))
        self.store.delete(key)

    def delete_prefix(self, prefix: str) -> None:
        self.calls.append(("delete_prefix", 1))
        self.store.delete_prefix(prefix)

    def list(self, prefix: str = "") -> Iterator[str]:
        self.calls.append(("list", 1))
        return self.store.list(prefix)

    def list_dir(self, prefix: str = "") -> Names:
        self.calls.append(("list_dir", 1))
        return self.store.list_dir(prefix)

    def close(self) -> None:
        self.store.close()

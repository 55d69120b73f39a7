"""Keep keys and values behind an obstore client: S3, Google Cloud Storage, Azure and others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nczarr.stores.base import Names, check_prefix
from nczarr.stores.remote.concurrent import ConcurrentStore


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

    Examples
    --------
    >>> from obstore.store import MemoryStore
    >>> store = ObstoreStore(MemoryStore(), "run42.zarr", writable=True)
    >>> store.set("v/c/0", b"abcdef")
    >>> store.get_many(["v/c/0", "v/c/1"]), store.get_range("v/c/0", -2)
    ([b'abcdef', None], b'ef')
    """

    def __init__(
        self, store: Any, prefix: str = "", *, url: str | None = None, writable: bool = False
    ) -> None:
        self._client = store
        self._prefix = check_prefix(prefix) + "/" if prefix else ""
        self.url = url or f"{type(store).__name__}/{prefix}"
        self.writable = writable
        self._keeps_buffers = type(store).__name__ == "MemoryStore"

    async def _fetch(self, key: str, start: int, length: int | None) -> bytes | None:
        path = self._prefix + key
        if start >= 0 and length is not None:
            return (await self._client.get_range_async(path, start=start, length=length)).to_bytes()
        if start < 0:
            options: Any = {"range": {"suffix": -start}}
        else:
            options = {"range": {"offset": start}} if start else None
        answer = await self._client.get_async(path, options=options)
        return (await answer.bytes_async()).to_bytes()

    async def _size(self, key: str) -> int | None:
        return int((await self._client.head_async(self._prefix + key))["size"])

    async def _put(self, key: str, data: memoryview) -> None:
        # obstore takes the buffer as it is; a store in memory would keep it, and see the caller change it.
        await self._client.put_async(self._prefix + key, bytes(data) if self._keeps_buffers else data)

    async def _remove(self, key: str) -> None:
        await self._client.delete_async(self._prefix + key)

    def list(self, prefix: str = "") -> Iterator[str]:
        prefix = check_prefix(prefix)
        below = self._prefix + (f"{prefix}/" if prefix else "")
        skip = len(self._prefix)
        sizes: dict[str, int] = {}
        try:
            for entries in self._client.list(below or None):
                for entry in entries:
                    if entry["path"].startswith(below):
                        sizes[entry["path"][skip:]] = entry["size"]
        except Exception as error:
            if not self._is_missing(error):
                self._fail("list", prefix, error)
        # Other clients mark a folder with an empty object "g/", which obstore shows as "g".
        empty = {key for key, size in sizes.items() if not size}
        if empty:
            folders = {key[:end] for key in sizes for end in _slashes(key)}
            for key in empty & folders:
                del sizes[key]
        yield from sorted(sizes)

    def list_dir(self, prefix: str = "") -> Names:
        prefix = check_prefix(prefix)
        below = self._prefix + (f"{prefix}/" if prefix else "")
        skip = len(below)
        try:
            found = self._client.list_with_delimiter(below or None)
        except Exception as error:
            if self._is_missing(error):
                return [], []
            self._fail("list", prefix, error)
        prefixes = {path.rstrip("/")[skip:] for path in found["common_prefixes"]} - {""}
        sizes = {
            entry["path"][skip:]: entry["size"]
            for entry in found["objects"]
            if entry["path"].startswith(below)
        }
        names = sorted(name for name, size in sizes.items() if name and (size or name not in prefixes))
        return names, sorted(prefixes)


def _slashes(key: str) -> Iterator[int]:
    position = key.find("/")
    while position >= 0:
        yield position
        position = key.find("/", position + 1)

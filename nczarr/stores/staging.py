"""Write new content beside the content of a store, and replace the old content when the new one is complete.

Object stores cannot rename. The new values have keys of the form ``.nczarr-new-WRITER/KEY~``, which no reader of Zarr
requests. After the last of them, one write (the *mark*) completes the set; the following steps can be interrupted and
repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set

from nczarr.stores.base import Answers, Buffer, Request, Store, Values, check_key, check_prefix

STAGING = ".nczarr-new-"
#: Each new key ends so: no reader of Zarr takes a document under it for one of the dataset.
_END = "~"


class StagedStore(Store):
    """The new content of another store, under its final keys.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> store = MemoryStore()
    >>> StagedStore(store, "1f").set("v/c/0", b"new")
    >>> list(store.list())
    ['.nczarr-new-1f/v/c/0~']
    """

    def __init__(self, store: Store, writer: str) -> None:
        self.store = store
        self.writer = writer
        self.url = store.url
        self.writable = store.writable
        self.listable = store.listable
        self.lists_all = store.lists_all
        self._folder = STAGING + writer

    def _key(self, key: str) -> str:
        return f"{self._folder}/{check_key(key)}{_END}"

    def get(self, key: str) -> bytes | None:
        return self.store.get(self._key(key))

    def get_many(self, keys: Sequence[str]) -> Values:
        return self.store.get_many([self._key(key) for key in keys])

    def get_range(self, key: str, start: int, length: int | None = None) -> bytes | None:
        return self.store.get_range(self._key(key), start, length)

    def get_ranges(self, requests: Sequence[Request]) -> Values:
        return self.store.get_ranges([(self._key(key), start, length) for key, start, length in requests])

    def size(self, key: str) -> int | None:
        return self.store.size(self._key(key))

    def exists(self, key: str) -> bool:
        return self.store.exists(self._key(key))

    def exist_many(self, keys: Sequence[str]) -> Answers:
        return self.store.exist_many([self._key(key) for key in keys])

    def set(self, key: str, data: Buffer) -> None:
        self.store.set(self._key(key), data)

    def set_many(self, items: Iterable[tuple[str, Buffer]]) -> None:
        self.store.set_many((self._key(key), data) for key, data in items)

    def delete(self, key: str) -> None:
        self.store.delete(self._key(key))

    def delete_many(self, keys: Iterable[str]) -> None:
        self.store.delete_many(map(self._key, keys))

    def list(self, prefix: str = "") -> Iterator[str]:
        prefix = check_prefix(prefix)
        skip = len(self._folder) + 1
        below = f"{self._folder}/{prefix}" if prefix else self._folder
        for key in self.store.list(below):
            if key.endswith(_END):
                yield key[skip : -len(_END)]

    def close(self) -> None:
        self.store.close()

    def discard(self) -> None:
        """Remove all new values."""
        self.store.delete_prefix(self._folder)

    def put_in_place(self, new: Set[str], deciding: Sequence[str]) -> None:
        """Copy the new values to their final keys, and remove all others; may be repeated after an interruption.

        Parameters
        ----------
        new : set of str
            All keys of the new content.
        deciding : sequence of str
            The keys that make the content visible: the old ones are removed first, the new ones written last, in
            reverse order.
        """
        self.store.announce_replacement()
        # Without them, no reader opens the mixture that follows.
        self.store.delete_many(deciding)
        self.store.copy_many((self._key(key), key) for key in sorted(new - set(deciding)))
        kept = {*new, *deciding}
        self.store.delete_many(
            [key for key in self.store.list() if key not in kept and not key.startswith(".nczarr-")]
        )
        # The root's document comes last: until then, the store has no dataset.
        for key in reversed(deciding):
            if key in new:
                self.store.copy_many([(self._key(key), key)])


def staged_writers(store: Store) -> list[str]:
    """Return the writers that have, or had, new content beside that of a store."""
    _, prefixes = store.list_dir()
    return [name.removeprefix(STAGING) for name in prefixes if name.startswith(STAGING)]

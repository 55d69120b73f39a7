"""Keep keys and values in memory, or in any other mapping from keys to bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, NoReturn

from nczarr.errors import StoreError
from nczarr.stores.base import Buffer, Store, as_view, check_key, start_of
from nczarr.system.locks import TABLES


class MappingStore(Store):
    """A mapping from keys to bytes: a dict, an lmdb or redis wrapper, a version 2 store of another library.

    Only the iteration over a plain dict is known to yield every key.

    Parameters
    ----------
    mapping : Mapping[str, bytes]
    writable : bool
        False refuses changes, even if the mapping is mutable.

    Examples
    --------
    >>> data = {}
    >>> MappingStore(data).set("zarr.json", b"{}")
    >>> data
    {'zarr.json': b'{}'}
    """

    def __init__(self, mapping: Mapping[str, Any], *, writable: bool = True) -> None:
        self.mapping = mapping
        self.url = type(mapping).__name__
        self.writable = writable and isinstance(mapping, MutableMapping)
        self.lists_all = self.lists_free = self.lists_sizes = type(mapping) is dict

    def _fail(self, what: str, key: str, error: Exception) -> NoReturn:
        raise StoreError(f"cannot {what}: {type(error).__name__}: {error}", path=self.place(key)) from error

    def get(self, key: str) -> bytes | None:
        check_key(key)
        try:
            return bytes(as_view(self.mapping[key]))
        except KeyError:
            return None
        except Exception as error:
            # A mapping of the program raises errors of any class.
            self._fail("read", key, error)

    def _peek(self, key: str) -> bytes | None:
        return self.mapping.get(key) if type(self.mapping) is dict else None

    def exists(self, key: str) -> bool:
        return check_key(key) in self.mapping

    def set(self, key: str, data: Buffer) -> None:
        self.check_writable(key)
        check_key(key)
        try:
            self.mapping[key] = bytes(as_view(data))  # type: ignore[index]
        except Exception as error:
            self._fail("write", key, error)

    def delete(self, key: str) -> None:
        self.check_writable(key)
        check_key(key)
        try:
            del self.mapping[key]  # type: ignore[attr-defined]
        except KeyError:
            return
        except Exception as error:
            self._fail("delete", key, error)

    def list(self, prefix: str = "") -> Iterator[str]:
        start = start_of(prefix)
        try:
            keys = list(self.mapping)
        except Exception as error:
            self._fail("list", prefix, error)
        return iter(sorted(key for key in keys if isinstance(key, str) and key.startswith(start)))


class MemoryStore(MappingStore):
    """Keys and values in memory, for tests and for data that never leaves the process.

    Examples
    --------
    >>> store = MemoryStore()
    >>> store.set("v/c/0", b"abcdef")
    >>> store.get("v/c/0"), store.get("v/c/1"), store.get_range("v/c/0", -2)
    (b'abcdef', None, b'ef')
    >>> store.list_dir()
    ([], ['v'])
    """

    has_conditions = True

    def __init__(self, *, url: str = "memory", writable: bool = True) -> None:
        # Single operations on a dict are atomic, so reads take no lock.
        super().__init__({}, writable=writable)
        self.url = url

    def set_if_absent(self, key: str, data: Buffer) -> bool:
        with TABLES:
            if self.exists(key):
                return False
            self.set(key, data)
            return True

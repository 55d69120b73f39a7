"""Keep keys and values in memory."""

from __future__ import annotations

from collections.abc import Iterator

from nczarr.stores.base import Buffer, Store, check_key, check_prefix
from nczarr.system.locks import TABLES


class MemoryStore(Store):
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

    lists_all = True
    has_conditions = True

    def __init__(self, *, url: str = "memory", writable: bool = True) -> None:
        self.url = url
        self.writable = writable
        # Single operations on a dict are atomic, so reads take no lock.
        self._values: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self._values.get(check_key(key))

    def _peek(self, key: str) -> bytes | None:
        return self._values.get(key)

    def exists(self, key: str) -> bool:
        return check_key(key) in self._values

    def set(self, key: str, data: Buffer) -> None:
        self.check_writable(key)
        self._values[check_key(key)] = bytes(data) if isinstance(data, bytes) else memoryview(data).tobytes()

    def set_if_absent(self, key: str, data: Buffer) -> bool:
        self.check_writable(key)
        value = bytes(data)
        with TABLES:
            if check_key(key) in self._values:
                return False
            self._values[key] = value
            return True

    def delete(self, key: str) -> None:
        self.check_writable(key)
        self._values.pop(check_key(key), None)

    def list(self, prefix: str = "") -> Iterator[str]:
        prefix = check_prefix(prefix)
        start = f"{prefix}/" if prefix else ""
        return iter([key for key in sorted(self._values.copy()) if key.startswith(start)])

"""Provide a store whose process dies at its n-th change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nczarr.stores import Store


class Died(BaseException):
    """The process has died. Its later operations do not reach the store."""


class DyingStore(Store):
    """Forward `steps` changes to a store, and drop all later ones."""

    def __init__(self, store: Store, steps: int) -> None:
        self.store = store
        self.url = store.url
        self.lists_all = store.lists_all
        self.steps = steps

    def _step(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise Died

    def get(self, key: str) -> bytes | None:
        if self.steps < 0:
            raise Died
        return self.store.get(key)

    def set(self, key: str, data: object) -> None:
        self._step()
        self.store.set(key, data)

    def set_if_absent(self, key: str, data: object) -> bool:
        self._step()
        return self.store.set_if_absent(key, data)

    def delete(self, key: str) -> None:
        if self.store.exists(key):
            self._step()
        self.store.delete(key)

    def list(self, prefix: str = "") -> Iterator[str]:
        if self.steps < 0:
            raise Died
        return self.store.list(prefix)

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        return [self.get(key) for key in keys]

    def delete_many(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.delete(key)

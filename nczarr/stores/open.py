"""Opening a store: what a path, URL or object stands for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from nczarr.errors import ReadOnlyError, StoreError
from nczarr.stores.base import Store
from nczarr.stores.local import LocalStore

__all__ = ["open_store"]

Mode = Literal["r", "r+", "w"]


def open_store(target: Any, mode: Mode = "r", storage_options: dict[str, Any] | None = None) -> Store:
    """Open the store that a path, URL or object stands for."""
    if mode not in ("r", "r+", "w"):
        raise StoreError(f"mode must be 'r', 'r+' or 'w', not {mode!r}")
    if isinstance(target, Store):
        if mode != "r" and not target.writable:
            raise ReadOnlyError("the store is open for reading only", path=target.url)
        return target
    if isinstance(target, (str, os.PathLike)):
        return LocalStore(Path(target), mode)
    raise StoreError(f"{type(target).__name__} is not a path, a URL or a store")

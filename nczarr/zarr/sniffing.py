"""Finding out which layout a store holds."""

from __future__ import annotations

from collections.abc import Callable

from nczarr.stores import Store
from nczarr.zarr.layouts import Found, Layout, V3Layout

__all__ = ["LAYOUTS", "find_layout"]

LAYOUTS: dict[str, Callable[[], Layout]] = {"v3": V3Layout}


def find_layout(store: Store, layout: str | None, consolidated: bool | None) -> tuple[Layout, Found]:
    found = V3Layout()
    return found, found.discover(store, consolidated)

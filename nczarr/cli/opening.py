"""Open what commands name: options for stores, and the stored documents of a hierarchy."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Literal

from nczarr.errors import DatasetNotFoundError, NCZarrError

if TYPE_CHECKING:
    from nczarr.zarr.hierarchy import Hierarchy


def storage_options(options: argparse.Namespace) -> dict[str, Any] | None:
    """The ``--storage-option`` arguments as a mapping; values are JSON where they parse as such."""
    result: dict[str, Any] = {}
    for item in options.storage_option:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise NCZarrError(f"--storage-option {item!r} is not KEY=VALUE")
        try:
            result[key] = json.loads(value)
        except ValueError:
            result[key] = value
    return result or None


@contextmanager
def open_documents(
    source: str, mode: Literal["r", "r+"], options: dict[str, Any] | None
) -> Iterator[Hierarchy]:
    """Open a Zarr hierarchy by its stored documents, not by what was consolidated of them, where they can be listed."""
    from nczarr.mapping.guarding import refuse_unfinished, writing_alone
    from nczarr.stores import open_store
    from nczarr.zarr.hierarchy import open_hierarchy

    with (
        open_store(source, mode, options) as store,
        writing_alone(store) if mode == "r+" else nullcontext(),
    ):
        try:
            hierarchy = open_hierarchy(store, consolidated=False if store.listable else None, mode=mode)
        except DatasetNotFoundError:
            refuse_unfinished(store)
            raise
        yield hierarchy

"""Open what commands name: options for stores, and the stored documents of a hierarchy."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Literal

from nczarr.errors import DatasetNotFoundError, NCZarrError, UnsupportedError
from nczarr.limits import read_json
from nczarr.targets import allowing

if TYPE_CHECKING:
    from nczarr.zarr.hierarchy import Hierarchy

#: How ``-d`` takes a part of a dimension, for help texts.
RANGES = (
    "time=0:10:2 by index, lat=30.:60. by value, time=2020-01:2020-12-15 by date; on an axis of times four digits "
    "are a year, and with # in front an index: time=#2001:2010"
)


def storage_options(options: argparse.Namespace) -> dict[str, Any] | None:
    """The ``--storage-option`` and ``--allow`` arguments as a mapping; values are JSON where they parse as such."""
    result: dict[str, Any] = {}
    for item in options.storage_option:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise NCZarrError(f"--storage-option {item!r} is not KEY=VALUE")
        try:
            result[key] = read_json(value)
        except ValueError:
            result[key] = value
    return allowing(result or None, options.allow)


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
        if mode == "r+":
            store.keep_order()
        try:
            hierarchy = open_hierarchy(store, consolidated=False if store.listable else None, mode=mode)
        except DatasetNotFoundError:
            refuse_unfinished(store)
            raise
        yield hierarchy
        if mode == "r+":
            store.settle()


def refuse_twice(names: Sequence[str], option: str) -> None:
    """Refuse an option that is given twice for one name."""
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise UnsupportedError(f"{option} {twice}: it is there twice")


def add_dimension_option(options: Any) -> None:
    """Add ``-d``, which takes a part of a dimension, to a parser or a group of one."""
    options.add_argument(
        "-d", "--dimension", action="append", default=[], metavar="DIM=RANGE", help=f"a part: {RANGES}"
    )


def selection_of(texts: Sequence[str]) -> dict[str, Any]:
    """Return what ``-d NAME=RANGE`` selects, by name."""
    from nczarr.convert.change import parse_selection

    pairs = [parse_selection(text) for text in texts]
    refuse_twice([name for name, _ in pairs], "-d")
    return dict(pairs)

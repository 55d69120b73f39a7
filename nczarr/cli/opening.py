"""Parse the options for stores and selections, and open the metadata documents of hierarchies."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Literal

from nczarr.errors import DatasetNotFoundError, NCZarrError, UnsupportedError
from nczarr.system.environment import read_json
from nczarr.targets import allowing

if TYPE_CHECKING:
    from nczarr.zarr.hierarchy.hierarchy import Hierarchy

#: Syntax of the ranges of ``-d``, for help texts.
RANGES = (
    "time=0:10:2 by index, lat=30.:60. by value, time=2020-01:2020-12-15 by date; for a time dimension four digits "
    "are a year, and # marks an index: time=#2001:2010"
)


def storage_options(options: argparse.Namespace) -> dict[str, Any] | None:
    """Return the arguments ``--storage-option`` and ``--allow`` as a mapping; values that are valid JSON are parsed."""
    result: dict[str, Any] = {}
    for item in options.storage_option:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise NCZarrError(
                f"--storage-option {item!r} is not KEY=VALUE", hint="for example --storage-option anon=true"
            )
        try:
            result[key] = read_json(value)
        except ValueError:
            result[key] = value
    return allowing(result or None, options.allow)


@contextmanager
def open_documents(
    source: str, mode: Literal["r", "r+"], options: dict[str, Any] | None
) -> Iterator[Hierarchy]:
    """Open a Zarr hierarchy; if the store can list its keys, ignore consolidated metadata."""
    from nczarr.mapping.guarding.changes import writing_alone
    from nczarr.mapping.guarding.unfinished import refuse_unfinished
    from nczarr.stores import open_store
    from nczarr.zarr.hierarchy.opening import open_hierarchy

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
    """Refuse an option that has the same name twice."""
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise UnsupportedError(f"{option} is given twice for {twice}")


def add_dimension_option(options: Any) -> None:
    """Add the option ``-d``, which selects a range of a dimension, to a parser or an argument group."""
    options.add_argument(
        "-d",
        "--dimension",
        action="append",
        default=[],
        metavar="DIM=RANGE",
        help=f"a range of a dimension: {RANGES}",
    )


def selection_of(texts: Sequence[str]) -> dict[str, Any]:
    """Return the selections of ``-d NAME=RANGE`` by dimension name."""
    from nczarr.convert.change.selecting import parse_selection

    pairs = [parse_selection(text) for text in texts]
    refuse_twice([name for name, _ in pairs], "-d")
    return dict(pairs)

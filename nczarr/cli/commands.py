"""Run the commands of the command line; :mod:`nczarr.cli.dumping` has ``dump``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Literal

from nczarr.cli.terminal import can_draw, say
from nczarr.convert import open_source
from nczarr.errors import DatasetNotFoundError, NCZarrError, UnsupportedError

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


def run_info(options: argparse.Namespace) -> None:
    """``nczarr info``."""
    from nczarr.cli.inspection import describe_dataset, summary

    found = [describe_dataset(s, storage_options(options), stats=options.stats) for s in options.source]
    if options.json:
        print(json.dumps(found if len(found) > 1 else found[0]))
        return
    for number, one in enumerate(found):
        say(*([""] if number else []), *summary(one))


def run_tree(options: argparse.Namespace) -> None:
    """``nczarr tree``."""
    from nczarr.cli.inspection import draw_tree, tree_json

    listed = []
    for source in options.source:
        with open_source(source, storage_options=storage_options(options)) as dataset:
            if options.json:
                listed.append(tree_json(dataset))
                continue
            if len(options.source) > 1:
                say(f"{source}:")
            say(*draw_tree(dataset, lines=can_draw()))
    if options.json:
        print(json.dumps(listed if len(listed) > 1 else listed[0]))


def run_ls(options: argparse.Namespace) -> None:
    """``nczarr ls``."""
    from nczarr.cli.inspection import list_nodes, nodes_json

    listed: list[dict[str, Any]] = []
    for source in options.source:
        with open_source(source, storage_options=storage_options(options)) as dataset:
            if options.json:
                listed += nodes_json(source, dataset)
                continue
            if len(options.source) > 1:
                say(f"{source}:")
            say(*list_nodes(dataset, long=options.long))
    if options.json:
        print(json.dumps(listed))


def run_completion(options: argparse.Namespace) -> None:
    """``nczarr completion``."""
    try:
        import shtab
    except ImportError:
        raise UnsupportedError("completion needs the package shtab", hint="pip install shtab") from None
    print(shtab.complete(options.grammar(), options.shell))


def run_consolidate(options: argparse.Namespace) -> None:
    """``nczarr consolidate``."""
    from nczarr.mapping.dataset.dialects import dialect_of

    for source in options.source:
        with open_documents(source, "r+", storage_options(options)) as hierarchy:
            hierarchy.keeps_bare_numbers = dialect_of(hierarchy).is_plain
            hierarchy.consolidate()


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

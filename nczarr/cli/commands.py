"""Run the commands of the command line; :mod:`nczarr.cli.dumping` has ``dump``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from typing import Any

import nczarr
from nczarr.cli.inspection import describe_dataset, draw_tree
from nczarr.cli.progress import progress_bar
from nczarr.convert import diff, open_source
from nczarr.errors import NCZarrError


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


def _write_options(options: argparse.Namespace) -> dict[str, Any]:
    """The chosen options; what was not chosen is left to the library's defaults."""
    chosen: dict[str, Any] = {
        name: getattr(options, name)
        for name in ("layout", "codecs", "char", "compound", "format")
        if getattr(options, name) is not None
    }
    chosen |= {name: True for name in ("extensions", "nzug", "lossy") if getattr(options, name)}
    if options.no_consolidated:
        chosen["consolidated"] = False
    return chosen


def _copy(source: Any, options: argparse.Namespace, **more: Any) -> None:
    where = storage_options(options)
    losses = nczarr.copy(
        source,
        options.target,
        overwrite=options.overwrite,
        progress=progress_bar(options.quiet),
        source_options=where,
        target_options=where,
        **_write_options(options),
        **more,
    )
    for loss in losses:
        print(f"nczarr: not in {options.target}: {loss}", file=sys.stderr)


def run_copy(options: argparse.Namespace) -> None:
    """``nczarr copy``."""
    _copy(options.source, options, verify=options.verify)


def run_gen(options: argparse.Namespace) -> None:
    """``nczarr gen``."""
    from nczarr import cdl

    if options.source == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
        dataset = cdl.loads(text, path="<stdin>")
    else:
        dataset = cdl.load(options.source)
    _copy(dataset, options)


def run_info(options: argparse.Namespace) -> None:
    """``nczarr info``."""
    for line in describe_dataset(options.source, storage_options(options)):
        print(line)


def run_tree(options: argparse.Namespace) -> None:
    """``nczarr tree``."""
    with open_source(options.source, storage_options=storage_options(options)) as dataset:
        for line in draw_tree(dataset):
            print(line)


def run_diff(options: argparse.Namespace) -> int:
    """``nczarr diff``."""
    found = 0
    for difference in diff(
        options.left,
        options.right,
        data=not options.header,
        storage=options.storage,
        ignore_attributes=options.ignore,
    ):
        print(difference)
        found = 1
    return found


def run_check(options: argparse.Namespace) -> int:
    """``nczarr check``."""
    from nczarr.convert.check import check

    found = 0
    for finding in check(options.source, data=options.data, storage_options=storage_options(options)):
        print(finding)
        found = 1
    return found


def run_consolidate(options: argparse.Namespace) -> None:
    """``nczarr consolidate``."""
    with _hierarchy(options.source, "r+", storage_options(options)) as hierarchy:
        hierarchy.consolidate()


def run_zom(options: argparse.Namespace) -> None:
    """``nczarr zom``."""
    from nczarr.zarr.documents.json import dump_json
    from nczarr.zarr.zom import model as zom

    with _hierarchy(options.source, "r", storage_options(options)) as hierarchy:
        # Through our own writer first: bare NaN from old documents becomes text, as JSON needs it.
        model = json.loads(dump_json(zom.from_hierarchy(hierarchy).to_json()))
        print(json.dumps(model, indent=2, ensure_ascii=False))


class _hierarchy:
    """Opens a Zarr hierarchy for the length of a ``with``."""

    def __init__(self, source: str, mode: Any, options: Mapping[str, Any] | None) -> None:
        self._arguments = source, mode, options

    def __enter__(self) -> Any:
        from nczarr.stores import open_store
        from nczarr.zarr.hierarchy.hierarchy import open_hierarchy

        source, mode, options = self._arguments
        self._store = open_store(source, mode, dict(options) if options else None)
        # The stored documents themselves are wanted, not what was consolidated of them.
        return open_hierarchy(self._store, consolidated=False, mode=mode)

    def __exit__(self, *exc: object) -> None:
        self._store.close()

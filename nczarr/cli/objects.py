"""Run ``nczarr du`` and ``nczarr rm``: count and remove the objects of hierarchies."""

from __future__ import annotations

import argparse
import json
import sys

from nczarr.cli.options import HIERARCHY, define, option, storage_options
from nczarr.cli.terminal import say, table
from nczarr.display import format_bytes, shown_location
from nczarr.errors import NCZarrError


def define_du(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr du``."""
    option(parser, "source", HIERARCHY, nargs="+")
    option(parser, "-s --summary", "print the total of each hierarchy only")
    option(parser, "--json", "print one JSON object for each hierarchy")
    define(parser, run_du, "  nczarr du run42.zarr\n  nczarr du -s s3://bucket/run42.zarr\n", "text")


def run_du(options: argparse.Namespace) -> None:
    """Run ``nczarr du``."""
    from nczarr.mapping.dataset.objects import stored_objects

    for source in options.source:
        found = stored_objects(source, storage_options(options))
        place = shown_location(source)
        total = (sum(item.size for item in found), sum(item.objects for item in found))
        if options.json:
            arrays = [{"path": item.path, "bytes": item.size, "objects": item.objects} for item in found]
            print(json.dumps({"source": place, "bytes": total[0], "objects": total[1], "arrays": arrays}))
            continue
        rows = [] if options.summary else [(item.size, item.objects, item.path) for item in found]
        rows.append((*total, place))
        cells = [[format_bytes(size), f"{objects:,}", path] for size, objects, path in rows]
        say(*table(["size", "objects", "path"], cells, right=[0, 1]))


def define_rm(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr rm``."""
    option(parser, "target", HIERARCHY, nargs="+")
    option(parser, "-n --dry-run", "print the objects without removing them")
    option(parser, "-y --yes", "do not ask")
    option(parser, "--force", "also remove objects that do not belong to the hierarchy")
    define(parser, run_rm, "  nczarr rm s3://bucket/run42.zarr\n  nczarr rm -y old.zarr older.zarr\n")


def run_rm(options: argparse.Namespace) -> int:
    """Run ``nczarr rm``."""
    from nczarr.mapping.dataset.objects import remove, stored_objects

    kept = 0
    for target in options.target:
        found = stored_objects(target, storage_options(options))
        size, objects = sum(item.size for item in found), sum(item.objects for item in found)
        summary = f"{shown_location(target)}: {objects:,} objects, {format_bytes(size)}"
        if options.dry_run:
            say(summary)
            say(*(f"  {item.path}: {item.objects:,}" for item in found))
            continue
        if not options.yes and not _agreed(summary, target):
            kept += 1
            continue
        remove(target, storage_options=storage_options(options), force=options.force)
        say(f"{summary}, removed")
    return int(kept > 0)


def _agreed(summary: str, target: str) -> bool:
    if not sys.stdin.isatty():
        raise NCZarrError(
            "nczarr rm asks before it removes, and standard input is no terminal",
            path=target,
            hint="use --yes",
        )
    answer: str = input(f"{summary}; remove them? [y/N] ")
    return answer.strip().lower() in ("y", "yes")

"""Run ``nczarr repair``, ``nczarr consolidate`` and ``nczarr clean``."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from nczarr.cli.options import HIERARCHY, define, open_documents, option, storage_options
from nczarr.cli.terminal import say
from nczarr.display import shown_location

if TYPE_CHECKING:
    from nczarr.mapping import Finding


class FindingPrinter:
    """Prints the findings of one source, below a heading if the command has several sources."""

    def __init__(self, source: str, options: argparse.Namespace) -> None:
        self._as_json = options.json
        self._name = shown_location(source) if len(options.source) > 1 else None
        self._is_first = True

    def print(self, finding: Finding, note: str = "") -> None:
        """Print a finding, followed by a note."""
        if self._as_json:
            print(json.dumps(({"source": self._name} if self._name else {}) | finding.to_json()))
            return
        if self._is_first and self._name:
            say(f"{self._name}:")
        self._is_first = False
        say(f"{finding}{note}")


def define_repair(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr repair``."""
    option(parser, "source", HIERARCHY, nargs="+")
    option(parser, "-n --dry-run", "print the repairs without making them")
    option(parser, "--json", "print one JSON object for each finding")
    define(parser, run_repair, "  nczarr repair run42.zarr\n", "findings")


def run_repair(options: argparse.Namespace) -> int:
    """Run ``nczarr repair``."""
    from nczarr.mapping import repair

    left = 0
    done = "would be done" if options.dry_run else "done"
    for source in options.source:
        printer = FindingPrinter(source, options)
        for finding in repair(source, dry_run=options.dry_run, storage_options=storage_options(options)):
            note = f"{done}: {finding.remedy}" if finding.remedy else "nothing is done"
            printer.print(finding, f": {note}")
            left += not finding.remedy
    return int(left > 0)


def define_consolidate(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr consolidate``."""
    option(parser, "source", HIERARCHY, nargs="+")
    define(parser, run_consolidate, "  nczarr consolidate run42.zarr\n")


def run_consolidate(options: argparse.Namespace) -> None:
    """Run ``nczarr consolidate``."""
    from nczarr.errors import UnsupportedError
    from nczarr.mapping.dataset.dialects import dialect_of
    from nczarr.mapping.dataset.subgroup import refuse_group_of_dataset

    for source in options.source:
        with open_documents(source, "r+", storage_options(options)) as hierarchy:
            refuse_group_of_dataset(hierarchy.store, "consolidated")
            if not hierarchy.complete:
                raise UnsupportedError(
                    "the store cannot list all its keys, so consolidated metadata would lack nodes",
                    path=source,
                    hint="run nczarr consolidate on the machine that has the files",
                )
            hierarchy.keeps_bare_numbers = dialect_of(hierarchy).is_plain
            hierarchy.consolidate()


def define_clean(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr clean``."""
    option(parser, "targets", "a dataset (path or URL), complete or not", "target", nargs="+")
    text = (
        "also remove files that another machine may still be writing, and chunks without metadata documents"
    )
    option(parser, "--force", text)
    define(parser, run_clean, "  nczarr clean run42.zarr\n")


def run_clean(options: argparse.Namespace) -> None:
    """Run ``nczarr clean``."""
    from nczarr.mapping.dataset.maintenance import clean

    for target in options.targets:
        for line in clean(target, storage_options=storage_options(options), force=options.force):
            say(line)

"""Run ``nczarr check``, ``nczarr repair``, ``nczarr consolidate`` and ``nczarr clean``."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from nczarr.cli.opening import open_documents, storage_options
from nczarr.cli.terminal import progress_bar, say
from nczarr.display import shown_location

if TYPE_CHECKING:
    from nczarr.mapping import Finding


_SOURCE = "a Zarr hierarchy (path or URL)"


def add_check_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``nczarr check``."""
    parser.add_argument("source", nargs="*", help=_SOURCE)
    parser.add_argument("--data", action="store_true", help="also read and decode every chunk")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each finding")
    parser.add_argument(
        "--vectors",
        metavar="FOLDER",
        help="check a directory of test vectors: compare each store with its CDL, its JSON, or its expected findings",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bar")


def add_repair_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``nczarr repair``."""
    parser.add_argument("source", nargs="+", help=_SOURCE)
    parser.add_argument("-n", "--dry-run", action="store_true", help="print the repairs without making them")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each finding")


def run_check(options: argparse.Namespace) -> int:
    """Run ``nczarr check``."""
    from nczarr.convert.verify.check import check, check_vectors
    from nczarr.errors import NCZarrError

    if options.vectors is not None:
        failed = 0
        for result in check_vectors(options.vectors):
            say(result)
            failed += not result.passed
        return int(failed > 0)
    if not options.source:
        raise NCZarrError(
            "no Zarr hierarchy is given",
            hint="nczarr check HIERARCHY, or nczarr check --vectors FOLDER for test vectors",
        )
    found = 0
    for source in options.source:
        heading = _heading(source, options)
        for finding in check(
            source,
            data=options.data,
            storage_options=storage_options(options),
            progress=progress_bar(options.quiet),
        ):
            heading = _show(finding, source, options, heading)
            # An older version of the convention is reported, but is not an error.
            found += finding.code != "version-old"
    return int(found > 0)


def run_repair(options: argparse.Namespace) -> int:
    """Run ``nczarr repair``."""
    from nczarr.mapping import repair

    left = 0
    done = "would be done" if options.dry_run else "done"
    for source in options.source:
        heading = _heading(source, options)
        for finding in repair(source, dry_run=options.dry_run, storage_options=storage_options(options)):
            note = f"{done}: {finding.remedy}" if finding.remedy else "nothing is done"
            heading = _show(finding, source, options, heading, f": {note}")
            left += not finding.remedy
    return int(left > 0)


def _heading(source: str, options: argparse.Namespace) -> str | None:
    return f"{shown_location(source)}:" if len(options.source) > 1 else None


def _show(
    finding: Finding, source: str, options: argparse.Namespace, heading: str | None, note: str = ""
) -> str | None:
    """Print the heading, if any, and a finding; return the heading for the next finding."""
    if options.json:
        several = {"source": shown_location(source)} if len(options.source) > 1 else {}
        print(json.dumps(several | finding.to_json()))
        return heading
    say(*([heading] if heading else []), f"{finding}{note}")
    return None


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


def add_clean_command(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``nczarr clean``."""
    parser.add_argument(
        "targets", nargs="+", metavar="target", help="a dataset (path or URL), complete or not"
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="also remove files that another machine may still be writing, and chunks without metadata documents",
    )


def run_clean(options: argparse.Namespace) -> None:
    """Run ``nczarr clean``."""
    from nczarr.mapping.dataset.cleaning import clean

    where: dict[str, Any] | None = storage_options(options)
    for target in options.targets:
        for line in clean(target, storage_options=where, force=options.force):
            say(line)

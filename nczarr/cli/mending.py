"""Run ``nczarr check`` and ``nczarr repair``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from nczarr.cli.commands import storage_options

if TYPE_CHECKING:
    from nczarr.mapping import Finding

_SOURCE = "a Zarr hierarchy (path or URL)"


def add_check_options(parser: argparse.ArgumentParser) -> None:
    """Add what ``check`` takes."""
    parser.add_argument("source", nargs="?", help=_SOURCE)
    parser.add_argument("--data", action="store_true", help="read every chunk too")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each finding")
    parser.add_argument(
        "--vectors",
        metavar="FOLDER",
        help="compare every store in a folder of test vectors with its CDL, its JSON, or its expected findings",
    )


def add_repair_options(parser: argparse.ArgumentParser) -> None:
    """Add what ``repair`` takes."""
    parser.add_argument("source", help=_SOURCE)
    parser.add_argument("-n", "--dry-run", action="store_true", help="say what would be done, and do nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each finding")


def run_check(options: argparse.Namespace) -> int:
    """``nczarr check``."""
    from nczarr.convert.verify.check import check
    from nczarr.convert.verify.vectors import check_vectors
    from nczarr.errors import NCZarrError

    if options.vectors is not None:
        failed = 0
        for result in check_vectors(options.vectors):
            print(result)
            failed += not result.passed
        return int(failed > 0)
    if options.source is None:
        raise NCZarrError("name a Zarr hierarchy, or a folder of test vectors with --vectors")
    found = 0
    for finding in check(options.source, data=options.data, storage_options=storage_options(options)):
        _show([finding], options.json)
        # An older version is no fault.
        found += finding.code != "version-old"
    return int(found > 0)


def run_repair(options: argparse.Namespace) -> int:
    """``nczarr repair``."""
    from nczarr.mapping import repair

    found = repair(options.source, dry_run=options.dry_run, storage_options=storage_options(options))
    if options.json:
        _show(found, True)
        return int(any(not f.remedy for f in found))
    done = "would be done" if options.dry_run else "done"
    for finding in found:
        print(f"{finding}: {done}: {finding.remedy}" if finding.remedy else f"{finding}: nothing is done")
    return int(any(not f.remedy for f in found))


def _show(findings: Iterable[Finding], as_json: bool) -> None:
    for finding in findings:
        print(json.dumps(finding.to_json(), ensure_ascii=False) if as_json else finding)

"""Run ``nczarr diff`` and ``nczarr digest``."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from nczarr.cli.conversion import SOURCE
from nczarr.cli.opening import storage_options
from nczarr.cli.terminal import progress_bar, say
from nczarr.convert import ValueDifference, diff, digest
from nczarr.display import shown_location, visible

COMPARING = """\
  nczarr diff run42.nc run42.zarr               exit status 0: the datasets are equal
  nczarr diff --rtol 1e-6 --places 5 a.zarr b.zarr
  nczarr diff --json --ignore history a.nc b.zarr
"""
DIGESTING = """\
  nczarr digest run42.nc run42.zarr run42.cdl   equal datasets have equal digests
  nczarr copy --digest run42.nc run42.zarr && nczarr digest --check run42.zarr
"""


def add_diff_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``nczarr diff``."""
    parser.add_argument("left", help=SOURCE)
    parser.add_argument("right", help=SOURCE)
    parser.add_argument("--header", action="store_true", help="do not compare values")
    parser.add_argument("--storage", action="store_true", help="also compare chunks, filters and byte order")
    parser.add_argument(
        "--ignore", action="append", default=[], metavar="NAME", help="ignore attributes with this name"
    )
    parser.add_argument("--rtol", type=float, default=0.0, metavar="X", help="relative tolerance of numbers")
    parser.add_argument("--atol", type=float, default=0.0, metavar="X", help="absolute tolerance of numbers")
    parser.add_argument(
        "--places",
        type=int,
        default=1,
        metavar="N",
        help="maximum number of differing values to list for each variable (default: 1)",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bar")


def run_diff(options: argparse.Namespace) -> int:
    """Run ``nczarr diff``."""
    listed: list[dict[str, Any]] = []
    found = 0
    for difference in diff(
        options.left,
        options.right,
        data=not options.header,
        storage=options.storage,
        ignore_attributes=options.ignore,
        rtol=options.rtol,
        atol=options.atol,
        places=options.places,
        storage_options=storage_options(options),
        progress=progress_bar(options.quiet),
    ):
        found = 1
        if not options.json:
            say(difference)
        elif isinstance(difference, ValueDifference):
            listed.append(difference.to_json())
        else:
            listed.append(
                {
                    "fqn": difference.fqn,
                    "what": difference.what,
                    "left": difference.left,
                    "right": difference.right,
                }
            )
    if options.json:
        print(json.dumps(listed))
    return found


def add_digest_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``nczarr digest``."""
    parser.add_argument("source", nargs="+", help=SOURCE)
    parser.add_argument("--variables", action="store_true", help="also print a digest for each variable")
    parser.add_argument(
        "--check", action="store_true", help="compare with the stored digest (nczarr copy --digest)"
    )
    parser.add_argument("--lossy", action="store_true", help="skip unreadable parts with a warning")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bar")


def run_digest(options: argparse.Namespace) -> int:
    """Run ``nczarr digest``."""
    status = 0
    listed = []
    for source in options.source:
        made = digest(
            source,
            lossy=options.lossy,
            storage_options=storage_options(options),
            progress=progress_bar(options.quiet),
        )
        if options.check and made.stored != made.dataset:
            stored_digest = (
                "no digest is stored" if made.stored is None else f"the stored digest is {made.stored}"
            )
            print(
                visible(
                    f"nczarr: {shown_location(source)}: {stored_digest}, the digest of the values is {made.dataset}"
                ),
                file=sys.stderr,
            )
            status = 1
        stored = {"stored": made.stored} if options.check else {}
        variables = {"variables": dict(made.variables)}
        listed.append({"source": shown_location(source), "sha256": made.dataset} | stored | variables)
        if options.json:
            continue
        say(f"{made.dataset}  {shown_location(source)}")
        if options.variables:
            for fqn, one in made.variables.items():
                say(f"{one}  {shown_location(source)}:{fqn}")
    if options.json:
        print(json.dumps(listed))
    return status

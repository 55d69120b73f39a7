"""Run ``nczarr clean``: finish or remove what interrupted writers left."""

from __future__ import annotations

import argparse
from typing import Any

from nczarr.cli.commands import storage_options
from nczarr.cli.terminal import say


def add_clean_command(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``nczarr clean``."""
    parser.add_argument(
        "targets", nargs="+", metavar="target", help="a dataset (path or URL), complete or not"
    )
    parser.add_argument("--force", action="store_true", help="also what another machine may still be writing")


def run_clean(options: argparse.Namespace) -> None:
    """``nczarr clean``."""
    from nczarr.mapping.dataset.cleaning import clean

    where: dict[str, Any] | None = storage_options(options)
    for target in options.targets:
        for line in clean(target, storage_options=where, force=options.force):
            say(line)

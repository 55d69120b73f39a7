"""Run the command that changes metadata by statements: ``nczarr set``."""

from __future__ import annotations

import argparse
import json
import sys

from nczarr.cli.options import define, option, storage_options
from nczarr.cli.terminal import say
from nczarr.display import shown_location, visible
from nczarr.errors import CDLError, NCZarrError


def define_set(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr set``."""
    text = "a Zarr hierarchy (path or URL) or a netCDF file, and the statements; with -f, datasets only"
    option(parser, "words", text, "target", nargs="+")
    option(parser, "-f --file", "read the statements from a file (-: standard input)", "FILE")
    option(parser, "-n --dry-run", "print the difference as CDL, and write nothing")
    option(
        parser,
        "--wait",
        "seconds to wait while another writer has a dataset open",
        "S",
        type=float,
        default=0.0,
    )
    option(parser, "--json", "print one JSON object for each dataset")
    define(
        parser,
        run_set,
        "  nczarr set run42.zarr 'temp:units = \"K\"' 'append :history = \", units repaired\"'\n"
        "  nczarr set run42.nc 'delete temp:comment' 'rename variable /ocean/temp to sst'\n"
        "  nczarr set --dry-run -f edits.cdl *.zarr      many statements, many datasets\n",
        "cdl",
    )


def run_set(options: argparse.Namespace) -> int:
    """Run ``nczarr set``."""
    from nczarr.cdl.read.edits import EditText
    from nczarr.convert.editing import edit_by

    # With a file of statements, each word is a dataset.
    targets, given = (options.words, None) if options.file else (options.words[:1], options.words[1:])
    if given == []:
        raise NCZarrError(
            "no statement is given", hint="nczarr set TARGET 'v:units = \"K\"', or nczarr set -f FILE TARGET…"
        )
    statements = (
        EditText(_text_of(options.file), options.file) if given is None else EditText(" ;\n".join(given))
    )
    failed = 0
    for target in targets:
        name = shown_location(target)
        try:
            done = edit_by(
                statements,
                target,
                dry_run=options.dry_run,
                wait=options.wait,
                storage_options=storage_options(options),
            )
        except NCZarrError as error:
            # One dataset that cannot be changed does not keep the others from it.
            if len(targets) == 1:
                raise
            failed = 1
            told = str(error) if name in str(error) else f"{name}: {error}"
            print(f"nczarr: {visible(told, layout=True)}", file=sys.stderr)
            if options.json:
                print(json.dumps({"target": name, "error": str(error)}))
            continue
        if options.json:
            print(json.dumps({"target": name, "changes": done.changes, "difference": done.difference}))
        elif options.dry_run and done.changes:
            say(*done.difference.splitlines())
        else:
            say(f"{name}: {done}")
    return failed


def _text_of(name: str) -> str:
    try:
        if name == "-":
            return sys.stdin.read()
        # CDL keeps bytes of a text that are not UTF-8.
        with open(name, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError as error:
        raise CDLError(f"cannot be read: {error.strerror}", path=name) from None

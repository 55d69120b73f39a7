"""Define the command line parser, from which the reference documentation is generated."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import nczarr
from nczarr.cli.options import option
from nczarr.cli.parser import CommandParser, SuggestingParser

#: Commands with the option ``--isolated``. ``check`` lacks it, because it always reads netCDF files in a child process.
_READING = ("copy", "dump", "info", "tree", "ls", "diff", "digest")
#: The commands with their descriptions.
COMMANDS = {
    "copy": "Copy a dataset from any format to any other.",
    "dump": "Print a dataset as CDL text, as ncdump does.",
    "gen": "Generate a dataset from CDL text, as ncgen does.",
    "info": "Summarise a dataset and the storage of each variable.",
    "tree": "Show the groups and variables as a tree.",
    "ls": "List the full names of groups and variables.",
    "diff": "Compare two datasets; exit status 1 if they differ, 2 on an error.",
    "digest": "Print checksums of datasets and variables, independent of format and chunks.",
    "check": "Check a Zarr dataset; exit status 1 on a finding, 2 on an error.",
    "repair": "Repair the metadata of a dataset that other programs have changed.",
    "consolidate": "Rewrite the consolidated metadata.",
    "clean": "Complete or remove the output of interrupted writers.",
    "zom": "Print a Zarr Object Model (ZEP 6) as JSON, compare it, or create a hierarchy from it.",
    "validate": "Validate object models against the JSON schemas of ZEP 6; exit status 1 on a problem.",
    "doctor": "Check the installation: versions, extras, codecs, credentials, and a round trip at a target.",
    "completion": "Print the completion script of nczarr for a shell.",
    "plot": "Draw a variable as a line, an image or a map (extra: view).",
    "view": "Show a dataset in the browser (extra: view).",
}


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
    """Build the parser of ``nczarr``; if `command` is given, add the options of this command only.

    Examples
    --------
    >>> build_parser().parse_args(["copy", "a.nc", "b.zarr"]).target
    'b.zarr'
    """
    parser = SuggestingParser(
        prog="nczarr", description="Copy, print, generate, compare and check netCDF datasets on Zarr."
    )
    parser.add_argument("--version", action="version", version=f"nczarr {nczarr.__version__}")
    verbs = parser.add_subparsers(
        title="commands", dest="command", required=True, metavar="COMMAND", parser_class=CommandParser
    )
    for name, text in COMMANDS.items():
        # As in ncdump, -h of dump prints the header; its help is --help.
        verb = verbs.add_parser(
            name,
            help=text,
            description=text,
            add_help=name != "dump",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if command is None or command == name:
            _add_common_options(verb, name)
            _definition(name)(verb)
    return parser


def _add_common_options(parser: argparse.ArgumentParser, name: str) -> None:
    if name == "dump":
        option(parser, "--help", "show this help message and exit", action="help")
    settings: dict[str, Any] = {"action": "append", "default": []}
    text = "option of the file system of a URL, such as anon=true; may be repeated"
    option(parser, "--storage-option", text, "KEY=VALUE", **settings)
    text = "let references read files below this path or URL too, not only beside the references; may be repeated"
    option(parser, "--allow", text, "PREFIX", **settings)
    if name in _READING:
        text = (
            "read netCDF files in a child process, so that damaged files which crash or hang HDF5 are errors"
        )
        option(parser, "--isolated", text)


def _definition(name: str) -> Callable[[argparse.ArgumentParser], None]:
    """Return the function that defines a command, from its module; no other modules of commands are imported."""
    if name in ("copy", "gen"):
        from nczarr.cli import conversion

        return conversion.define_copy if name == "copy" else conversion.define_gen
    if name == "dump":
        from nczarr.cli import dumping

        return dumping.define_dump
    if name in ("info", "tree", "ls"):
        from nczarr.cli import inspection as i

        return {"info": i.define_info, "tree": i.define_tree, "ls": i.define_ls}[name]
    if name in ("diff", "digest", "check"):
        from nczarr.cli import checking as c

        return {"diff": c.define_diff, "digest": c.define_digest, "check": c.define_check}[name]
    if name in ("repair", "consolidate", "clean"):
        from nczarr.cli import maintenance as m

        return {"repair": m.define_repair, "consolidate": m.define_consolidate, "clean": m.define_clean}[name]
    if name in ("zom", "validate"):
        from nczarr.cli import object_model

        return object_model.define_zom if name == "zom" else object_model.define_validate
    if name in ("plot", "view"):
        from nczarr.cli import viewing

        return viewing.define_plot if name == "plot" else viewing.define_view
    if name == "completion":
        from nczarr.cli.completion import define_completion

        return lambda parser: define_completion(parser, build_parser)
    from nczarr.cli.doctor import define_doctor

    return define_doctor

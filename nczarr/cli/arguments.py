"""Define the grammar of the command line; the reference in the documentation is generated from it."""

from __future__ import annotations

import argparse
from typing import Any

import nczarr
from nczarr.cli import cleaning, commands, comparing, conversion, dumping, mending, viewing

_SOURCE = conversion.SOURCE


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of ``nczarr``.

    Examples
    --------
    >>> build_parser().parse_args(["copy", "a.nc", "b.zarr"]).target
    'b.zarr'
    """
    parser = argparse.ArgumentParser(
        prog="nczarr",
        description="netCDF datasets on Zarr: copy, print as CDL, generate from CDL, compare, check.",
    )
    parser.add_argument("--version", action="version", version=f"nczarr {nczarr.__version__}")
    verbs = parser.add_subparsers(title="commands", dest="command", required=True, metavar="COMMAND")
    _copy(verbs)
    _dump(verbs)
    _gen(verbs)
    _looks(verbs, parser)
    viewing.add_commands(verbs, _add)
    return parser


def _add(verbs: Any, name: str, run: Any, text: str, examples: str = "") -> argparse.ArgumentParser:
    # ncdump's -h is the header; help is --help here, as everywhere else too.
    parser: argparse.ArgumentParser = verbs.add_parser(
        name,
        help=text,
        description=text,
        add_help=name != "dump",
        epilog=f"examples:\n{examples}" if examples else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if name == "dump":
        parser.add_argument("--help", action="help", help="show this help message and exit")
    parser.set_defaults(run=run)
    parser.add_argument(
        "--storage-option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option for the file system of a URL, such as anon=true; may be repeated",
    )
    return parser


def _copy(verbs: Any) -> None:
    parser = _add(
        verbs, "copy", conversion.run_copy, "Copy a dataset from any format to any other.", conversion.COPYING
    )
    conversion.add_copy_options(parser)


def _gen(verbs: Any) -> None:
    parser = _add(
        verbs,
        "gen",
        conversion.run_gen,
        "Generate a dataset from CDL text, as ncgen does.",
        conversion.GENERATING,
    )
    conversion.add_gen_options(parser)


def _dump(verbs: Any) -> None:
    parser = _add(
        verbs,
        "dump",
        dumping.run_dump,
        "Print a dataset as CDL text, as ncdump does.",
        "  nczarr dump run42.zarr\n  nczarr dump -h s3://bucket/run42.zarr\n"
        "  nczarr dump -v time -i -o time.cdl run42.nc\n",
    )
    parser.add_argument("source", help=_SOURCE)
    parser.add_argument("-o", "--output", metavar="FILE", help="write to a file")
    dumping.add_dump_options(parser)


def _looks(verbs: Any, whole: argparse.ArgumentParser) -> None:
    parser = _add(
        verbs,
        "info",
        commands.run_info,
        "Say what a dataset is, and how each variable is stored.",
        "  nczarr info run42.zarr\n  nczarr info --stats run42.nc       with the least and greatest values\n"
        "  nczarr info --json s3://bucket/run42.zarr\n",
    )
    parser.add_argument("source", nargs="+", help=_SOURCE)
    parser.add_argument("--stats", action="store_true", help="read all values: least, greatest, missing")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser = _add(
        verbs,
        "tree",
        commands.run_tree,
        "Show the groups and variables as a tree.",
        "  nczarr tree run42.zarr\n  nczarr tree --json run42.nc\n",
    )
    parser.add_argument("source", nargs="+", help=_SOURCE)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser = _add(
        verbs,
        "ls",
        commands.run_ls,
        "List the full names of groups and variables.",
        "  nczarr ls run42.zarr\n  nczarr ls -l run42.zarr            with types and shapes\n",
    )
    parser.add_argument("source", nargs="+", help=_SOURCE)
    parser.add_argument("-l", "--long", action="store_true", help="types and shapes too")
    parser = _add(
        verbs,
        "diff",
        comparing.run_diff,
        "Compare two datasets; exit status 1 if they differ.",
        comparing.COMPARING,
    )
    comparing.add_diff_options(parser)
    parser = _add(
        verbs,
        "digest",
        comparing.run_digest,
        "Print checksums of datasets and variables, whatever their format and chunks.",
        comparing.DIGESTING,
    )
    comparing.add_digest_options(parser)
    parser = _add(
        verbs,
        "check",
        mending.run_check,
        "Check a Zarr dataset; exit status 1 on a finding.",
        "  nczarr check run42.zarr\n  nczarr check --data s3://bucket/run42.zarr\n",
    )
    mending.add_check_options(parser)
    parser = _add(
        verbs,
        "repair",
        mending.run_repair,
        "Mend the metadata of a dataset that other programs have changed.",
        "  nczarr repair run42.zarr\n",
    )
    mending.add_repair_options(parser)
    parser = _add(
        verbs,
        "consolidate",
        commands.run_consolidate,
        "Rewrite the consolidated metadata.",
        "  nczarr consolidate run42.zarr\n",
    )
    parser.add_argument("source", help="a Zarr hierarchy (path or URL)")
    parser = _add(
        verbs,
        "clean",
        cleaning.run_clean,
        "Finish or remove what interrupted writers left.",
        "  nczarr clean run42.zarr\n",
    )
    cleaning.add_clean_command(parser)
    parser = _add(
        verbs,
        "zom",
        commands.run_zom,
        "Print the Zarr Object Model (ZEP 6) as JSON.",
        "  nczarr zom run42.zarr\n",
    )
    parser.add_argument("source", help="a Zarr hierarchy (path or URL)")
    parser = _add(
        verbs,
        "completion",
        commands.run_completion,
        "Print the completion of this command for a shell.",
        "  nczarr completion bash > ~/.local/share/bash-completion/completions/nczarr\n"
        "  nczarr completion zsh > ~/.zfunc/_nczarr\n",
    )
    parser.add_argument("shell", choices=["bash", "zsh", "tcsh"])
    parser.set_defaults(grammar=whole)

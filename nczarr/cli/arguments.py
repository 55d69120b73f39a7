"""Define the command line parser, from which the reference documentation is generated."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import nczarr

_SOURCE = "a Zarr hierarchy (path or URL), a netCDF file, or a CDL file (.cdl)"
#: Commands with the option ``--isolated``. ``check`` lacks it, because it always reads netCDF files in a child process.
_READING = ("copy", "dump", "info", "tree", "ls", "diff", "digest")
_HIERARCHY = "a Zarr hierarchy (path or URL)"


class CommandParser(argparse.ArgumentParser):
    """A parser that accepts options between positional arguments: ``copy a.nc -c x=1 b.zarr``."""

    _mixing = False

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse arguments; arguments after ``--`` are positional."""
        if self._mixing or args is None or "--" in args:
            return super().parse_known_args(args, namespace)
        self._mixing = True  # parse_known_intermixed_args calls this method
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._mixing = False


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
    """Build the parser of ``nczarr``; if `command` is given, add the options of this command only.

    Examples
    --------
    >>> build_parser().parse_args(["copy", "a.nc", "b.zarr"]).target
    'b.zarr'
    """
    parser = argparse.ArgumentParser(
        prog="nczarr",
        description="Copy, print, generate, compare and check netCDF datasets on Zarr.",
    )
    parser.add_argument("--version", action="version", version=f"nczarr {nczarr.__version__}")
    verbs = parser.add_subparsers(
        title="commands", dest="command", required=True, metavar="COMMAND", parser_class=CommandParser
    )
    for name, (text, complete) in COMMANDS.items():
        # As in ncdump, -h of dump prints the header; its help is --help.
        verb = verbs.add_parser(
            name,
            help=text,
            description=text,
            add_help=name != "dump",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if command is None or command == name:
            _complete(verb, name, complete)
    return parser


def _complete(
    parser: argparse.ArgumentParser, name: str, complete: Callable[[argparse.ArgumentParser], tuple[Any, str]]
) -> None:
    if name == "dump":
        parser.add_argument("--help", action="help", help="show this help message and exit")
    parser.add_argument(
        "--storage-option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="option of the file system of a URL, such as anon=true; may be repeated",
    )
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="PREFIX",
        help="let references read files below this path or URL too, not only beside the references; may be repeated",
    )
    if name in _READING:
        parser.add_argument(
            "--isolated",
            action="store_true",
            help="read netCDF files in a child process, so that damaged files which crash or hang HDF5 are errors",
        )
    run, examples = complete(parser)
    parser.set_defaults(run=run)
    parser.epilog = f"examples:\n{examples}"


# Each of the following functions adds the options of one command, and returns the function that runs it and its
# examples. They import the modules of the command, so that each command imports its own modules only.


def _shown(parser: argparse.ArgumentParser, kind: str | Callable[[argparse.Namespace], str]) -> None:
    """Add the terminal options to a command; `kind` is the language of its output, for syntax highlighting."""
    parser.set_defaults(shown_as=kind)
    terminal = parser.add_argument_group("on a terminal (extra: cli)")
    terminal.add_argument(
        "--color",
        "--colour",
        choices=["auto", "always", "never"],
        default="auto",
        help="when to use colours (default: on a terminal, unless NO_COLOR is set)",
    )
    terminal.add_argument(
        "--no-pager", action="store_true", help="do not start the pager (NCZARR_PAGER, PAGER, or less)"
    )


def _copy(parser: argparse.ArgumentParser) -> tuple[Any, str]:
    from nczarr.cli import conversion

    conversion.add_copy_options(parser)
    return conversion.run_copy, conversion.COPYING


def _dump(parser: argparse.ArgumentParser) -> tuple[Any, str]:
    from nczarr.cli import dumping

    parser.add_argument("source", nargs="+", help=_SOURCE)
    parser.add_argument("-o", "--output", metavar="FILE", help="write to a file instead of standard output")
    dumping.add_dump_options(parser)
    _shown(parser, dumping.shown_as)
    return dumping.run_dump, (
        "  nczarr dump run42.zarr\n  nczarr dump -h s3://bucket/run42.zarr\n"
        "  nczarr dump -v time -i -o time.cdl run42.nc\n  nczarr dump -v temp -d time=2020-03 run42.zarr\n"
    )


def _gen(parser: argparse.ArgumentParser) -> tuple[Any, str]:
    from nczarr.cli import conversion

    conversion.add_gen_options(parser)
    return conversion.run_gen, conversion.GENERATING


def _info(parser: argparse.ArgumentParser) -> tuple[Any, str]:
    from nczarr.cli import inspection

    parser.add_argument("source", nargs="+", help=_SOURCE)
    parser.add_argument(
        "--stats", action="store_true", help="read all values, and print minimum, maximum and missing values"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    _shown(parser, "table")
    return inspection.run_info, (
        "  nczarr info run42.zarr\n  nczarr info --stats run42.nc       with minimum and maximum values\n"
        "  nczarr info --json s3://bucket/run42.zarr\n"
    )


def _tree(parser: argparse.ArgumentParser) -> tuple[Any, str]:
    from nczarr.cli import inspection

    parser.add_argument("source", nargs="+", help=_SOURCE)
    parser.add_argument("--json", action="store_true", help="print JSON")
    _shown(parser, "tree")
    return inspection.run_tree, "  nczarr tree run42.zarr\n  nczarr tree --json run42.nc\n"


def _ls(parser: argparse.ArgumentParser) -> tuple[Any, str]:
    from nczarr.cli import inspection

    parser.add_argument("source", nargs="+", help=_SOURCE)
    parser.add_argument("-l", "--long", action="store_true", help="also print types and shapes")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    _shown(parser, "names")
    return (
        inspection.run_ls,
        "  nczarr ls run42.zarr\n  nczarr ls -l run42.zarr            with types and shapes\n",
    )


def _diff(parser: argparse.ArgumentParser) -> tuple[Any, str]:
    from nczarr.cli import comparing

    comparing.add_diff_options(parser)
    _shown(parser, "differences")
    return comparing.run_diff, comparing.COMPARING


def _digest(parser: argparse.ArgumentParser) -> tuple[Any, str]:
    from nczarr.cli import comparing

    comparing.add_digest_options(parser)
    return comparing.run_digest, comparing.DIGESTING


def _check(parser: argparse.ArgumentParser) -> tuple[Any, str]:
    from nczarr.cli import maintenance

    maintenance.add_check_options(parser)
    _shown(parser, "findings")
    return maintenance.run_check, "  nczarr check run42.zarr\n  nczarr check --data s3://bucket/run42.zarr\n"


def _repair(parser: argparse.ArgumentParser) -> tuple[Any, str]:
    from nczarr.cli import maintenance

    maintenance.add_repair_options(parser)
    _shown(parser, "findings")
    return maintenance.run_repair, "  nczarr repair run42.zarr\n"


def _consolidate(parser: argparse.ArgumentParser) -> tuple[Any, str]:
    from nczarr.cli import maintenance

    parser.add_argument("source", nargs="+", help=_HIERARCHY)
    return maintenance.run_consolidate, "  nczarr consolidate run42.zarr\n"


def _clean(parser: argparse.ArgumentParser) -> tuple[Any, str]:
    from nczarr.cli import maintenance

    maintenance.add_clean_command(parser)
    return maintenance.run_clean, "  nczarr clean run42.zarr\n"


def _zom(parser: argparse.ArgumentParser) -> tuple[Any, str]:
    from nczarr.cli import object_model

    object_model.add_zom_options(parser)
    _shown(parser, lambda options: "text" if options.match or options.compare else "json")
    return object_model.run_zom, object_model.MODELLING


def _validate(parser: argparse.ArgumentParser) -> tuple[Any, str]:
    from nczarr.cli import object_model

    object_model.add_validate_options(parser)
    _shown(parser, "text")
    return object_model.run_validate, object_model.VALIDATING


def _completion(parser: argparse.ArgumentParser) -> tuple[Any, str]:
    parser.add_argument("shell", choices=["bash", "zsh", "tcsh"])
    return _run_completion, (
        "  nczarr completion bash > ~/.local/share/bash-completion/completions/nczarr\n"
        "  nczarr completion zsh > ~/.zfunc/_nczarr\n"
    )


def _run_completion(options: argparse.Namespace) -> None:
    """Run ``nczarr completion``."""
    try:
        import shtab
    except ImportError:
        from nczarr.errors import UnsupportedError

        raise UnsupportedError(
            "nczarr completion needs the package shtab", hint="pip install shtab"
        ) from None
    print(shtab.complete(build_parser(), options.shell))


def _plot(parser: argparse.ArgumentParser) -> tuple[Any, str]:
    from nczarr.cli import viewing

    viewing.add_plot_options(parser)
    return viewing.run_plot, viewing.PLOTTING


def _view(parser: argparse.ArgumentParser) -> tuple[Any, str]:
    from nczarr.cli import viewing

    viewing.add_view_options(parser)
    return viewing.run_view, viewing.VIEWING


#: The commands by name: description, and function that adds the options.
COMMANDS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], tuple[Any, str]]]] = {
    "copy": ("Copy a dataset from any format to any other.", _copy),
    "dump": ("Print a dataset as CDL text, as ncdump does.", _dump),
    "gen": ("Generate a dataset from CDL text, as ncgen does.", _gen),
    "info": ("Summarise a dataset and the storage of each variable.", _info),
    "tree": ("Show the groups and variables as a tree.", _tree),
    "ls": ("List the full names of groups and variables.", _ls),
    "diff": ("Compare two datasets; exit status 1 if they differ, 2 on an error.", _diff),
    "digest": ("Print checksums of datasets and variables, independent of format and chunks.", _digest),
    "check": ("Check a Zarr dataset; exit status 1 on a finding, 2 on an error.", _check),
    "repair": ("Repair the metadata of a dataset that other programs have changed.", _repair),
    "consolidate": ("Rewrite the consolidated metadata.", _consolidate),
    "clean": ("Complete or remove the output of interrupted writers.", _clean),
    "zom": (
        "Print a Zarr Object Model (ZEP 6) as JSON, compare it, or create a hierarchy from it.",
        _zom,
    ),
    "validate": (
        "Validate object models against the JSON schemas of ZEP 6; exit status 1 on a problem.",
        _validate,
    ),
    "completion": ("Print the completion script of nczarr for a shell.", _completion),
    "plot": ("Draw a variable as a line, an image or a map (extra: view).", _plot),
    "view": ("Show a dataset in the browser (extra: view).", _view),
}

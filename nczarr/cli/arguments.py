"""Define the command line parser, from which the reference documentation and the shell completion are generated.

Options may stand between positional arguments, and errors suggest similar names.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, NoReturn

import nczarr
from nczarr.cli.options import HelpAction, define, option
from nczarr.errors import UnsupportedError
from nczarr.options import NEW
from nczarr.text import missing_package

#: Commands with the option ``--isolated``. ``check`` lacks it, because it always reads netCDF files in a child process.
_READING = ("copy", "join", "append", "dump", "info", "tree", "ls", "diff", "digest")
#: The commands with their descriptions.
COMMANDS = {
    "copy": "Copy a dataset from any format to any other.",
    "join": "Join many sources to one dataset: along a dimension, and variables side by side.",
    "append": "Append sources to a dataset along its unlimited dimension.",
    "set": "Change attributes and names of datasets, by statements in CDL's words.",
    "scan": "Read the headers of many files once, and keep them in a scan file for join.",
    "dump": "Print a dataset as CDL text, as ncdump does.",
    "gen": "Generate a dataset from CDL text, as ncgen does.",
    "info": "Summarise a dataset and the storage of each variable.",
    "tree": "Show the groups and variables as a tree.",
    "ls": "List the full names of groups and variables.",
    "diff": "Compare two datasets; exit status 1 if they differ, 2 on an error.",
    "digest": "Print checksums of datasets and variables, independent of format and chunks.",
    "sources": "List the recorded sources of a dataset.",
    "check": "Check a Zarr dataset; exit status 1 on a finding, 2 on an error.",
    "repair": "Repair the metadata of a dataset that other programs have changed.",
    "consolidate": "Rewrite the consolidated metadata.",
    "du": "Count the objects and bytes of each array of a hierarchy.",
    "rm": "Remove a hierarchy, after a question.",
    "clean": "Complete or remove the output of interrupted writers.",
    "zom": "Print a Zarr Object Model (ZEP 6) as JSON, compare it, or create a hierarchy from it.",
    "validate": "Validate object models against the JSON schemas of ZEP 6; exit status 1 on a problem.",
    "doctor": "Check the installation: versions, extras, codecs, credentials, and a round trip at a target.",
    "completion": "Print the completion script of nczarr for a shell.",
    "plot": "Draw a variable as a line, an image or a map (extra: view).",
    "view": "Show a dataset in the browser (extra: view).",
}
#: The commands by what they are for.
GROUPS = {
    "look": ("dump", "info", "tree", "ls", "sources", "plot", "view"),
    "convert": ("copy", "join", "scan", "gen"),
    "change": ("append", "set", "repair", "consolidate", "rm", "clean"),
    "check": ("check", "diff", "digest", "doctor"),
    "expert": ("du", "zom", "validate", "completion"),
}
#: Names of other programs for what a command does.
OTHER_NAMES = {
    "cp": "nczarr copy",
    "convert": "nczarr copy",
    "nccopy": "nczarr copy",
    "mv": "nczarr copy, then nczarr rm",
    "move": "nczarr copy, then nczarr rm",
    "cat": "nczarr dump prints a dataset, nczarr join joins several",
    "ncatted": "nczarr set",
    "ncrename": "nczarr set, or nczarr copy --rename",
    "ncdump": "nczarr dump",
    "print": "nczarr dump",
    "show": "nczarr info, or nczarr dump",
    "concat": "nczarr join",
    "merge": "nczarr join --merge",
    "ncrcat": "nczarr join",
    "cmp": "nczarr diff",
    "compare": "nczarr diff",
    "ncgen": "nczarr gen",
    "delete": "nczarr rm",
    "remove": "nczarr rm",
    "list": "nczarr ls",
    "verify": "nczarr check, or nczarr diff",
    "checksum": "nczarr digest",
}


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line: the problem, a similar name, and the command that prints the help.

    The parser of a command accepts options between positional arguments: ``copy a.nc -c x=1 b.zarr``.
    """

    _mixing = False

    def format_help(self) -> str:
        """Return the help: the examples first, then the options; or the commands in groups."""
        formatter = self._get_formatter()
        formatter.add_text(self.description)
        if self._subparsers is not None:
            formatter.add_usage("nczarr COMMAND …", [], [], "usage: ")
            for title, names in GROUPS.items():
                formatter.start_section(title)
                formatter.add_arguments([a for a in _listed(self) if a.dest in names])
                formatter.end_section()
            formatter.add_text("nczarr help COMMAND, or nczarr COMMAND -h, prints the options of a command.")
            return formatter.format_help()
        formatter.add_text(self.epilog)
        rare = [action for action in self._actions if action.help is argparse.SUPPRESS]
        positional = " ".join(self._word(action) for action in self._get_positional_actions())
        formatter.add_usage(f"{self.prog} [OPTIONS] {positional}".strip(), [], [], "usage: ")
        for group in self._action_groups:
            formatter.start_section(group.title)
            formatter.add_text(group.description)
            formatter.add_arguments(group._group_actions)
            formatter.end_section()
        if rare:
            formatter.add_text(f"{self.prog} --help-all prints all options.")
        return formatter.format_help()

    def _word(self, action: argparse.Action) -> str:
        name = (action.metavar or action.dest) if isinstance(action.metavar or "", str) else action.dest
        name = str(name).upper()
        nargs = getattr(action, "save_nargs", action.nargs)  # argparse hides it while it reads the options
        return f"{name}..." if nargs in ("*", "+") else f"[{name}]" if nargs == "?" else name

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse arguments; arguments after ``--`` are positional."""
        # With an option between them, argparse takes only the first of several arguments.
        if self._mixing or self._subparsers is not None or args is None or "--" in args:
            return super().parse_known_args(args, namespace)
        self._mixing = True  # parse_known_intermixed_args calls this method
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._mixing = False

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> Any:
        """Parse arguments; the error of an unknown option comes from the parser of its command."""
        options, unknown = self.parse_known_args(args, namespace)
        # The parser above would print its own usage for an option that one command lacks.
        if unknown:
            commands = [a for a in self._actions if isinstance(a, argparse._SubParsersAction)]
            parser = commands[0].choices[options.command] if commands else self
            parser.refuse(unknown[0])
        return options

    def refuse(self, argument: str) -> NoReturn:
        """End the program: this command has no such option, or has fewer arguments."""
        name = argument.partition("=")[0]
        if advice := self._advice(name):
            self._end(f"there is no option {name}; {advice}")
        what = "there is no option" if name.startswith("-") else "one argument is too many:"
        long = [text for action in self._actions for text in action.option_strings if text.startswith("--")]
        self._end(f"{what} {shlex.quote(name)}", name, long if name.startswith("--") else ())

    def _advice(self, name: str) -> str | None:
        """Return advice about an option that another command has."""
        verb = self.prog.rpartition(" ")[2]
        if not name.startswith("--") or verb not in ("copy", "join", "append"):
            return None
        from nczarr.convert.request import moved

        return moved(verb, name[2:].replace("-", "_"))

    def error(self, message: str) -> NoReturn:
        """End the program with a message of argparse."""
        choice = re.search(r"invalid choice: (['\"])(.*?)\1 \(choose from (.*)\)", message)
        # argparse lists all commands for a wrong one, which hides the similar name.
        if choice is None:
            self._end(message)
        if message.startswith("argument COMMAND"):
            message = f"there is no command {choice[2]!r}"
            if home := OTHER_NAMES.get(choice[2]):
                self._end(f"{message}; use {home}")
        self._end(message, choice[2], [name.strip("'\"") for name in choice[3].split(", ")])

    def _end(self, message: str, name: str = "", known: Sequence[str] = ()) -> NoReturn:
        from nczarr.text import did_you_mean  # imports numpy

        hint = did_you_mean(name, known)
        usage = "--help" if self.prog.endswith(" dump") else "-h"  # -h of dump prints the header
        self.exit(2, f"{self.prog}: {message}{f'; {hint}' if hint else ''} (help: {self.prog} {usage})\n")


def _listed(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the commands of a parser, for its help."""
    found = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return list(found._get_subactions())


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
    """Build the parser of ``nczarr``; if `command` is given, add the options of this command only.

    Examples
    --------
    >>> build_parser().parse_args(["copy", "a.nc", "b.zarr"]).target
    'b.zarr'
    """
    parser = _Parser(
        prog="nczarr", description="Copy, print, generate, compare and check netCDF datasets on Zarr."
    )
    parser.add_argument("--version", action="version", version=f"nczarr {nczarr.__version__}")
    verbs = parser.add_subparsers(title="commands", dest="command", required=True, metavar="COMMAND")
    for name, text in COMMANDS.items():
        # As in ncdump, -h of dump prints the header; its help is --help.
        verb = verbs.add_parser(
            name,
            help=text,
            description=text,
            add_help=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        # Options of other commands would import their modules at each start.
        if command is None or command == name:
            _add_common_options(verb, name)
            _definition(name)(verb)
    return parser


def _add_common_options(parser: argparse.ArgumentParser, name: str) -> None:
    names = "--help" if name == "dump" else "-h --help"
    option(parser, names, "show the usual options, and exit", action=HelpAction)
    if name in NEW or name == "append":
        option(parser, "--help-all", "show all options, and exit", action=HelpAction, every=True)
    settings: dict[str, Any] = {"action": "append", "default": []}
    text = "option of the file system of a URL, such as anon=true; may be repeated"
    is_usual = name not in (*NEW, "append")
    option(parser, "--storage-option", text, "KEY=VALUE", **settings).usual = is_usual
    text = "let references read files below this path or URL too, not only beside the references; may be repeated"
    option(parser, "--allow", text, "PREFIX", **settings).usual = is_usual
    if name in _READING:
        text = (
            "read netCDF files in a child process, so that damaged files which crash or hang HDF5 are errors"
        )
        option(parser, "--isolated", text).usual = is_usual


def _definition(name: str) -> Callable[[argparse.ArgumentParser], None]:
    """Return the function that defines a command, from its module; no other modules of commands are imported."""
    module: ModuleType
    if name in ("copy", "join", "append", "scan", "gen"):
        from nczarr.cli import conversion as module
    elif name in ("dump", "info", "tree", "ls", "sources", "du"):
        from nczarr.cli import inspection as module
    elif name in ("zom", "validate"):
        from nczarr.cli import object_model as module
    elif name == "set":
        from nczarr.cli import editing as module
    elif name in ("plot", "view"):
        from nczarr.cli import viewing as module
    elif name == "doctor":
        from nczarr.cli import doctor as module
    elif name == "completion":
        return _define_completion
    else:
        from nczarr.cli import checking as module
    definition: Callable[[argparse.ArgumentParser], None] = getattr(module, f"define_{name}")
    return definition


# --- completion


def _define_completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=["bash", "zsh", "fish", "tcsh"])
    define(
        parser,
        lambda options: _run_completion(options.shell, build_parser()),
        "  nczarr completion bash > ~/.local/share/bash-completion/completions/nczarr\n"
        "  nczarr completion zsh > ~/.zfunc/_nczarr\n"
        "  nczarr completion fish > ~/.config/fish/completions/nczarr.fish\n",
    )


def _run_completion(shell: str, parser: argparse.ArgumentParser) -> None:
    if shell == "fish":  # shtab does not support it
        print(*_fish_lines(parser), sep="\n")
        return
    try:
        import shtab
    except ImportError:
        raise UnsupportedError(
            "nczarr completion needs the package shtab", hint=missing_package("shtab", "cli")
        ) from None
    print(shtab.complete(parser, shell))


def _fish_lines(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the completions of fish: the commands, and for each command its options with their choices."""
    commands = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    for choice in commands._choices_actions:
        yield f"complete -c nczarr -n __fish_use_subcommand -f -a {choice.dest} -d {_quoted(choice.help)}"
    for name, command in commands.choices.items():
        for action in command._actions:
            words = [f"complete -c nczarr -n '__fish_seen_subcommand_from {name}'"]
            for text in action.option_strings:
                words.append(f"-l {text[2:]}" if text.startswith("--") else f"-s {text[1:]}")
            if action.choices is not None:
                words.append(f"-x -a {_quoted(' '.join(action.choices))}")
            elif not action.option_strings:
                continue
            elif action.nargs != 0:
                words.append("-r")
            yield " ".join([*words, "-d", _quoted(action.help)])


def _quoted(text: str | None) -> str:
    escaped = (text or "").replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"

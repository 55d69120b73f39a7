"""Define and parse the options that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from nczarr.errors import DatasetNotFoundError, NCZarrError, UnsupportedError
from nczarr.options import RANGES, Take, named, options_of
from nczarr.system.environment import read_json
from nczarr.targets import allowing

if TYPE_CHECKING:
    from nczarr.zarr.hierarchy.hierarchy import Hierarchy

#: Descriptions of sources, for help texts.
SOURCE = "a Zarr hierarchy (path or URL), a netCDF file, or a CDL file (.cdl)"
HIERARCHY = "a Zarr hierarchy (path or URL)"


def list_names(text: str) -> tuple[str, ...]:
    """Return the names of an option, which commas separate."""
    from nczarr.model import typed  # imports numpy, which --help does not need

    return typed.list_names(text)


#: A parser or a group of its options.
Options = argparse._ActionsContainer
#: Runs a command, and returns its exit status; None: 0.
Run = Callable[[argparse.Namespace], int | None]


class HelpAction(argparse.Action):
    """Prints the help of a command: with the usual options, or with all."""

    def __init__(self, option_strings: Sequence[str], dest: str, *, help: str, every: bool = False) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help=help)
        self.every = every

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print the help and end the program."""
        for action in parser._actions:
            if not self.every and not getattr(action, "usual", True):
                action.help = argparse.SUPPRESS
        parser.print_help()
        parser.exit()


def option(
    options: Options, names: str, help: str, metavar: str | None = None, **settings: Any
) -> Any:  # fmt: skip
    """Add an option or an argument, with the names separated by spaces; an option without settings is a flag."""
    if metavar is not None:
        settings["metavar"] = metavar
    elif not settings and names.startswith("-"):
        settings["action"] = "store_true"
    return options.add_argument(*names.split(), help=help, **settings)


def define(
    parser: argparse.ArgumentParser,
    run: Run,
    examples: str,
    shown_as: str | Callable[[argparse.Namespace], str] | None = None,
) -> None:
    """Complete the parser of a command; `shown_as` is the language of its output, for syntax highlighting."""
    parser.set_defaults(run=run)
    parser.epilog = f"examples:\n{examples}"
    if shown_as is not None:
        parser.set_defaults(shown_as=shown_as)
        terminal = parser.add_argument_group("on a terminal (extra: cli)")
        when = "when to use colours (default: on a terminal, unless NO_COLOR is set)"
        option(terminal, "--color --colour", when, choices=["auto", "always", "never"], default="auto")
        option(terminal, "--no-pager", "do not start the pager (NCZARR_PAGER, PAGER, or less)")


def add_progress_options(options: Options) -> None:
    """Add the options ``-q`` and ``--progress``."""
    text = "no progress bar: --progress none"
    option(options, "-q --quiet", text, action="store_const", const="none", dest="progress", default="auto")
    text = "the progress on standard error: a bar on a terminal, nothing, or JSON lines (default: auto)"
    option(options, "--progress", text, choices=["auto", "none", "json"], default="auto")


# --- options of the dataclasses

#: The settings of argparse for the forms of options.
_SETTINGS: dict[Take, dict[str, Any]] = {
    Take.TEXT: {},
    Take.SIZE: {},
    Take.COUNT: {"type": int},
    Take.SECONDS: {"type": float},
    Take.FLAG: {"action": "store_true", "default": None},
    Take.SWITCH: {"action": argparse.BooleanOptionalAction},
    Take.OFF: {"action": "store_const", "const": False},
    Take.NAMES: {"action": "extend", "type": list_names},
    **{take: {"action": "append"} for take in (Take.PAIRS, Take.NUMBERS, Take.RANGES, Take.RULES)},
}
#: The netCDF formats of the flags of nccopy.
_FORMATS = {"3": "classic", "4": "nc4", "5": "cdf5", "6": "64-bit-offset", "7": "nc7"}


def add_derived_options(parser: argparse.ArgumentParser, verb: str, parts: Mapping[str, type]) -> None:
    """Add the options that the fields of dataclasses describe, in one group for each class.

    Parameters
    ----------
    parts : mapping
        The dataclasses by the titles of their groups.
    """
    for title, part in parts.items():
        found = [pair for pair in options_of(part, verb) if pair[1].take is not Take.OBJECT]
        group = parser.add_argument_group(title) if found else parser
        for each, described in found:
            word = each.name.replace("_", "-")
            names = described.flags or (f"--no-{word}" if described.take is Take.OFF else f"--{word}")
            settings = {"default": None, **_SETTINGS[described.take], "dest": each.name}
            if described.metavar is not None:
                settings["metavar"] = described.metavar
            if described.choices:
                settings["choices"] = described.choices
            option(group, names, described.help, **settings).usual = described.usual
            if each.name == "format" and verb != "append":
                for number, name in _FORMATS.items():
                    text, kind = f"netCDF: {name}", {"action": "store_const", "const": name}
                    option(group, f"-{number}", text, dest="format", **kind).usual = False


def given_options(options: argparse.Namespace, verb: str, parts: Mapping[str, type]) -> dict[str, Any]:
    """Return the given options as keywords of the function of a verb."""
    found: dict[str, Any] = {}
    for each, described in chain.from_iterable(options_of(part, verb) for part in parts.values()):
        value = getattr(options, each.name, None) if described.take is not Take.OBJECT else None
        if value is None:
            continue
        if described.take is Take.RANGES:
            value = selection_of(value)
        elif described.take is Take.PAIRS:
            value = pairs_in(value, named(each.name), "OLD=NEW", "/ocean/temp=t")
        elif described.take is Take.NUMBERS:
            value = dict(_number(text, named(each.name)) for text in value)
        found[each.name] = value
    return found


def _number(text: str, word: str) -> tuple[str, float]:
    from nczarr.model.typed import partition_typed  # imports numpy, which --help does not need

    name, _, number = partition_typed(text, "=", last=True)
    try:
        return name or "*", float(number)
    except ValueError:
        raise UnsupportedError(
            f"{word} {text!r} is not NAME=N", hint=f"for example {word} lat=1e-5"
        ) from None


def add_dimension_option(options: Options) -> None:
    """Add the option ``-d``, which selects a range of a dimension."""
    text = f"a range of a dimension: {RANGES}"
    option(options, "-d --dimension", text, "DIM=RANGE", action="append", default=[])


def refuse_twice(names: Sequence[str], name: str) -> None:
    """Refuse an option that is given twice for the same name."""
    twice = next((each for i, each in enumerate(names) if each in names[:i]), None)
    # argparse keeps the last one silently.
    if twice is not None:
        raise UnsupportedError(f"{name} is given twice for {twice}")


def pairs_in(texts: Sequence[str], name: str, form: str, example: str) -> dict[str, str]:
    """Return the pairs of an option ``NAME=VALUE`` that is given several times, each time with another name."""
    from nczarr.model.typed import partition_typed  # imports numpy, which --help does not need

    pairs = [partition_typed(text, "=", last=True) for text in texts]
    for text, (old, equals, new) in zip(texts, pairs, strict=True):
        if not (old and equals and new):
            raise UnsupportedError(f"{name} {text!r} is not {form}", hint=f"for example {name} {example}")
    refuse_twice([old for old, _, _ in pairs], name)
    return {old: new for old, _, new in pairs}


def selection_of(texts: Sequence[str]) -> dict[str, object]:
    """Return the selections of ``-d NAME=RANGE`` by dimension name."""
    from nczarr.convert.change.selecting import parse_selection

    pairs = [parse_selection(text) for text in texts]
    refuse_twice([name for name, _ in pairs], "-d")
    return dict(pairs)


def storage_options(options: argparse.Namespace) -> dict[str, Any] | None:
    """Return the arguments ``--storage-option`` and ``--allow`` as a mapping; values that are valid JSON are parsed."""
    result: dict[str, object] = {}
    for item in options.storage_option:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise NCZarrError(
                f"--storage-option {item!r} is not KEY=VALUE", hint="for example --storage-option anon=true"
            )
        # s3fs and obstore have options that are numbers and objects.
        try:
            result[key] = read_json(value)
        except ValueError:
            result[key] = value
    return allowing(result or None, options.allow)


@contextmanager
def open_documents(
    source: str, mode: Literal["r", "r+"], options: Mapping[str, Any] | None
) -> Iterator[Hierarchy]:
    """Open a Zarr hierarchy; if the store can list its keys, ignore consolidated metadata."""
    from nczarr.mapping.dataset.changes import writing_alone
    from nczarr.mapping.dataset.destination import refuse_unfinished
    from nczarr.stores import open_store
    from nczarr.zarr.hierarchy.opening import open_hierarchy

    with open_store(source, mode, options) as store, writing_alone(store) if mode == "r+" else nullcontext():
        if mode == "r+":
            store.keep_order()
        try:
            # Consolidated metadata may be older than the documents.
            hierarchy = open_hierarchy(store, consolidated=False if store.listable else None, mode=mode)
        # A copy that was killed leaves no root, and is no missing dataset.
        except DatasetNotFoundError:
            refuse_unfinished(store)
            raise
        yield hierarchy
        if mode == "r+":
            store.settle()

"""Describe the options of a call: each is the field of a frozen dataclass, with its words on the command line.

One description serves the keywords of Python, the options of the command line, the keys of a plan, and the messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import Field, field, fields
from enum import Enum
from typing import Any

from nczarr.dataclass import dataclass

#: The commands that take options from the dataclasses.
VERBS = ("copy", "join", "append", "gen", "scan")
#: Those that make a new dataset.
NEW = ("copy", "join", "gen")
#: The words of ranges of dimensions, for help texts.
RANGES = (
    "time=0:10:2 by index, lat=30.:60. by value, time=2020-01:2020-12-15 by date; for a time dimension four digits "
    "are a year, and # marks an index: time=#2001:2010"
)


class Take(Enum):
    """The form of the values of an option, in Python and on the command line."""

    TEXT = "text"
    COUNT = "a number: 4"
    SECONDS = "a number of seconds: 60"
    SIZE = "a number of bytes: 4MiB"
    FLAG = "true or false; a flag on the command line"
    SWITCH = "true or false; --name and --no-name"
    OFF = "true or false; --no-name only"
    NAMES = "names or patterns: a list, or a text with commas"
    PAIRS = "a mapping of texts: OLD=NEW"
    NUMBERS = "a mapping of numbers: NAME=N"
    RANGES = "a mapping of ranges: DIM=RANGE"
    RULES = "a value, or one for each pattern of variables"
    OBJECT = "a Python object, which the command line makes otherwise"


@dataclass(frozen=True)
class Option:
    """The description of an option.

    Parameters
    ----------
    help : str
        The line in the help of the command line.
    take : Take
    metavar : str, optional
        The value in the help.
    flags : str
        The names on the command line, if they are others than ``--name``.
    verbs : tuple of str
        The commands that have it.
    usual : bool
        ``-h`` shows it; ``--help-all`` shows all options.
    planned : bool
        A plan contains it.
    choices : tuple of str
        All values.
    """

    help: str
    take: Take = Take.TEXT
    metavar: str | None = None
    flags: str = ""
    verbs: tuple[str, ...] = VERBS[:3]
    usual: bool = False
    planned: bool = False
    choices: tuple[str, ...] = ()


def option(default: Any, help: str, take: Take = Take.TEXT, metavar: str | None = None, **more: Any) -> Any:
    """Return the field of an option; a callable default makes the value.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Printed:
    ...     copies: int = option(1, "number of copies", Take.COUNT, "N")
    >>> Printed(2), [option_of(f).help for f in fields(Printed)]
    (Printed(copies=2), ['number of copies'])
    """
    described = {"option": Option(help, take, metavar, **more)}
    if isinstance(default, type) or callable(default):
        return field(default_factory=default, metadata=described)
    return field(default=default, metadata=described)


def option_of(described: Field[Any]) -> Option:
    """Return the description of a field."""
    found: Option = described.metadata["option"]
    return found


def options_of(part: type, verb: str | None = None) -> Iterator[tuple[Field[Any], Option]]:
    """Yield the fields of a dataclass that are options, of one verb or of any."""
    for each in fields(part):
        found: Option | None = each.metadata.get("option")
        if found is not None and (verb is None or verb in found.verbs):
            yield each, found


# --- words of messages

#: The options whose word in messages is a short one.
_SHORT = {"variables": "-v", "only": "-V", "groups": "-g", "exclude": "-x", "select": "-d", "format": "-k"}
#: True while a command runs.
_on_command_line = False


def speak_as_command(enabled: bool) -> bool:
    """Let messages name options as on the command line, or as in Python; return the setting before."""
    global _on_command_line
    before, _on_command_line = _on_command_line, enabled
    return before


def named(name: str, value: object = None) -> str:
    """Return an option, and its value, in the words of the caller: those of Python or of the command line.

    Examples
    --------
    >>> named("chunks", "time=0"), named("exclude")
    ("chunks='time=0'", 'exclude=')
    >>> before = speak_as_command(True)
    >>> named("chunks", "time=0"), named("exclude"), named("expect_step", "6h")
    ('--chunks time=0', '-x', '--expect-step 6h')
    >>> named("allow", ["/data"])
    '--allow /data'
    >>> _ = speak_as_command(before)
    """
    if not _on_command_line:
        return f"{name}={'' if value is None else repr(value)}"
    word = _SHORT.get(name, f"--{name.replace('_', '-')}")
    if isinstance(value, Mapping):
        value = ",".join(f"{key}={one}" for key, one in value.items())
    elif isinstance(value, list):
        value = ",".join(map(str, value))
    return word if value is None or value is True else f"{word} {value}"


def verb_named(verb: str, option: str = "") -> str:
    """Return a verb, and one of its options, in the words of the caller.

    Examples
    --------
    >>> verb_named("join"), verb_named("join", named("along", "time"))
    ('nczarr.join', "nczarr.join(…, along='time')")
    """
    if _on_command_line:
        return f"nczarr {verb} … {option}" if option else f"nczarr {verb}"
    return f"nczarr.{verb}(…, {option})" if option else f"nczarr.{verb}"


def virtual_again() -> str:
    """Return the options that write references again, in the words of the caller.

    Examples
    --------
    >>> virtual_again()
    'virtual=True, overwrite=True'
    """
    both = named("virtual", True), named("overwrite", True)
    return (" " if _on_command_line else ", ").join(both)

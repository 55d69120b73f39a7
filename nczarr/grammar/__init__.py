"""Read the Lark grammars: they are beside this file when nczarr is installed, and at the top of a checkout.

The grammars are the only place of the words, characters and escapes of the language. :func:`terminals` and
:func:`words` return them without building a parser, which would be too slow for the start of a program.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

from nczarr.lazy import pattern

__all__ = ["portable", "read", "references", "terminals", "words"]

#: Before this version, Python matches possessive groups that contain choices wrongly (python/cpython#106052).
_EXACT = (3, 11, 5)
_POSSESSIVE_GROUP = pattern(r"(?<=\))([*+?]|\{[0-9]+,[0-9]*\})\+")
#: A terminal, its priority, and what it matches: the lines after the first begin with a blank.
_TERMINAL = pattern(r"^([A-Z_][A-Z0-9_]*)(?:\.\d+)?:[ ]*(.+(?:\n[ ]+\S.*)*)$", re.MULTILINE)
#: The parts of what a terminal matches: a text, a regular expression, the name of a terminal, an operator.
_PART = pattern(
    r'"(?P<text>(?:[^"\\]|\\.)*)"|/(?P<pattern>(?:[^/\\]|\\.)+)/(?P<flags>x?)|(?P<name>\w+)|[()|?*+]'
)
_UNESCAPED = {r"\\": "\\", r"\"": '"'}


def portable(pattern: str) -> str:
    r"""Return regular expressions with greedy in place of possessive groups, for a Python that matches these wrongly.

    The groups of this package have the same matches either way. Possessive groups end earlier where a text is wrong.

    Examples
    --------
    >>> portable("[ab]*+c") == "[ab]*+c"
    True
    >>> _POSSESSIVE_GROUP.sub(r"\1", "(?:[ab]*+|c){0,5}+(d)?+")
    '(?:[ab]*+|c){0,5}(d)?'
    """
    # Python before 3.11.5 matches possessive groups with choices wrongly: 1-2 was refused, and 017 was 17.
    return pattern if sys.version_info >= _EXACT else _POSSESSIVE_GROUP.sub(r"\1", pattern)


#: The loader of this module, which reads the files beside it.
_LOADER: Any = globals()["__loader__"]


@cache
def read(name: str) -> str:
    """Return the text of a grammar.

    Examples
    --------
    >>> "fqn" in read("names.lark")
    True
    """
    # Not importlib.resources, whose import takes as long as reading all grammars ten times. The loader of the module
    # reads files beside it also in an archive.
    try:
        return str(_LOADER.get_data(str(Path(__file__).with_name(name))), "utf-8")
    except OSError:  # in a checkout the grammars are beside the package
        return (_checkout() / name).read_text("utf-8")


@cache
def terminals(name: str) -> dict[str, str]:
    r"""Return the regular expression of each terminal of a grammar, composed from those that it names.

    Examples
    --------
    >>> terminals("names.lark")["COMPONENT"]
    '(?:[^\\/\\\\\\x00-\\x20\\x7f]|\\\\[\\/\\\\ ])+'
    """
    composed: dict[str, str] = {}
    for terminal in _definitions(name):
        _compose(name, terminal, composed)
    return composed


@cache
def expression(name: str, terminal: str) -> str:
    """Return the regular expression of one terminal of a grammar, without composing the others.

    Examples
    --------
    >>> expression("names.lark", "COMPONENT") == terminals("names.lark")["COMPONENT"]
    True
    """
    return _compose(name, terminal, {})


@cache
def references(name: str, terminal: str) -> tuple[str, ...]:
    """Return the terminals that a terminal names and that list texts, in the order of the grammar.

    Examples
    --------
    >>> references("cdl.lark", "NEGATIVE_INFINITY")
    ('INFINITY', 'INFINITY_FLOAT')
    """
    named = [part["name"] for part in _PART.finditer(_definitions(name)[terminal]) if part["name"]]
    return tuple([other for other in named if words(name, other)])


@cache
def words(name: str, terminal: str) -> tuple[str, ...]:
    """Return the texts that a terminal lists, also by the terminals that it names, in the order of the grammar.

    Examples
    --------
    >>> words("cdl.lark", "UNLIMITED")
    ('unlimited', 'UNLIMITED')
    """
    found: list[str] = []
    for part in _PART.finditer(_definitions(name)[terminal]):
        if part["text"] is not None:
            found.append(_plain(part["text"]))
        elif part["name"] is not None:
            found += words(name, part["name"])
    return tuple(found)


@cache
def _definitions(name: str) -> dict[str, str]:
    return {found[1]: found[2] for found in _TERMINAL.finditer(read(name))}


def _compose(name: str, terminal: str, composed: dict[str, str]) -> str:
    if terminal not in composed:
        parts = []
        for part in _PART.finditer(_definitions(name)[terminal]):
            if part["text"] is not None:
                parts.append(re.escape(_plain(part["text"])))
            elif part["name"] is not None:
                parts.append(_atom(_compose(name, part["name"], composed)))
            elif part["pattern"] is not None:
                # With the flag x, a pattern has several lines.
                pattern = re.sub(r"\n\s+", "", part["pattern"]) if part["flags"] else part["pattern"]
                parts.append(_atom(pattern))
            else:
                parts.append("(?:" if part[0] == "(" else part[0])
        composed[terminal] = "".join(parts)
    return composed[terminal]


_ATOM = pattern(r"\\.|\[(?:[^\]\\]|\\.)+\]|.", re.DOTALL)


def _atom(pattern: str) -> str:
    """Return a pattern as a whole, to which a quantifier may apply."""
    return pattern if _ATOM.fullmatch(pattern) else f"(?:{pattern})"


def _plain(text: str) -> str:
    return re.sub(r"\\.", lambda escape: _UNESCAPED[escape[0]], text) if "\\" in text else text


def _checkout() -> Path:
    return Path(__file__).parents[2] / "grammar"

"""Read the Lark grammars: they are beside this file when nczarr is installed, and at the top of a checkout."""

from __future__ import annotations

import re
import sys
from importlib.resources import files
from pathlib import Path

__all__ = ["portable", "read", "terminals"]

#: Before this version, Python matches possessive groups that contain choices wrongly (python/cpython#106052).
_EXACT = (3, 11, 5)
_TERMINAL = re.compile(r"^([A-Z_]+)(?:\.\d+)?: /(.+)/$", re.MULTILINE)
_POSSESSIVE_GROUP = re.compile(r"(?<=\))([*+?]|\{[0-9]+,[0-9]*\})\+")


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
    return pattern if sys.version_info >= _EXACT else _POSSESSIVE_GROUP.sub(r"\1", pattern)


def read(name: str) -> str:
    """Return the text of a grammar for this Python, see :func:`portable`.

    Examples
    --------
    >>> "fqn" in read("names.lark")
    True
    """
    installed = files(__name__).joinpath(name)
    return portable((installed if installed.is_file() else _checkout() / name).read_text("utf-8"))


def terminals(name: str) -> dict[str, str]:
    """Return the regular expressions of the terminals of a grammar that are one each, without building a parser.

    Examples
    --------
    >>> terminals("names.lark")["CONTROL"]
    '[\\\\x00-\\\\x1f\\\\x7f]'
    """
    return {found[1]: found[2] for found in _TERMINAL.finditer(read(name))}


def _checkout() -> Path:
    return Path(__file__).parents[2] / "grammar"

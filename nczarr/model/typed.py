r"""Parse the names that users type: paths, patterns, lists, and pairs of a name and a value.

A name is typed as an FQN (``/g\ 1/w``) or plainly (``/g 1/w``, ``w``). ``\`` before a punctuation character, a blank or
a digit makes this character a part of the name: a separator (``,`` ``:`` ``=`` ``@``), a character of patterns
(``*`` ``?`` ``[``), or one that needs no escape. Before any other character, ``\`` stands for itself. The terminals are
those of ``grammar/names.lark``; all options, plans and keywords use these functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from nczarr.grammar import terminals
from nczarr.model.names import ROOT, format_fqn, normalize_name, parse_fqn
from nczarr.model.paths import join_path
from nczarr.text import did_you_mean

_TERMINALS = terminals("names.lark")
_UNIT = re.compile(_TERMINALS["TYPED_UNIT"])
#: Characters that separate names, or mean others in patterns. In an FQN, "/", "\" and blank have escapes already.
_MARKS = re.compile(r"[,:=@*?\[]")
_GLOBS = frozenset("*?[")


def units_of(text: str) -> list[str]:
    r"""Return the characters of a typed text, each with its escape.

    Examples
    --------
    >>> units_of(r"a\,b,c")
    ['a', '\\,', 'b', ',', 'c']
    """
    return _UNIT.findall(text)


def split_typed(text: str, separator: str) -> list[str]:
    r"""Split a typed text at each separator without an escape; the parts keep their escapes.

    Examples
    --------
    >>> split_typed(r"a\,b,c", ",")
    ['a\\,b', 'c']
    """
    parts = [""]
    for unit in units_of(text):
        if unit == separator:
            parts.append("")
        else:
            parts[-1] += unit
    return parts


def partition_typed(text: str, separator: str, *, last: bool = False) -> tuple[str, str, str]:
    r"""Split a typed text at the first separator without an escape, or the last, like :meth:`str.partition`.

    Examples
    --------
    >>> partition_typed(r"a\=b=c", "="), partition_typed("a=b=0", "=", last=True), partition_typed("a", "=")
    (('a\\=b', '=', 'c'), ('a=b', '=', '0'), ('a', '', ''))
    >>> partition_typed("0", "=", last=True)
    ('', '', '0')
    """
    parts = split_typed(text, separator)
    if len(parts) == 1:
        return ("", "", text) if last else (text, "", "")
    head, tail = (parts[:-1], parts[-1:]) if last else (parts[:1], parts[1:])
    return separator.join(head), separator, separator.join(tail)


def list_names(value: str | Sequence[str]) -> tuple[str, ...]:
    r"""Return the typed names of an option as a tuple; commas separate the names of a string.

    Examples
    --------
    >>> list_names(r"a,b\,c"), list_names(["a,b"])
    (('a', 'b\\,c'), ('a,b',))
    """
    return tuple(part for part in split_typed(value, ",") if part) if isinstance(value, str) else tuple(value)


def unescape(text: str) -> str:
    r"""Return a simple name without its escapes.

    Examples
    --------
    >>> unescape(r"a\,b\ c"), unescape(r"a\b")
    ('a,b c', 'a\\b')
    """
    if "\\" not in text:
        return normalize_name(text)
    return normalize_name("".join(unit[-1] for unit in units_of(text)))


def parse_typed(text: str) -> tuple[str, ...]:
    r"""Parse a typed path into its simple names; the root has none.

    Examples
    --------
    >>> parse_typed(r"/g\ 1/w"), parse_typed("/g 1/w"), parse_typed("w"), parse_typed("/")
    (('g 1', 'w'), ('g 1', 'w'), ('w',), ())
    """
    return tuple(unescape(step) for step in split_typed(text, "/") if step)


def fqn_of_typed(text: str) -> str:
    r"""Return the FQN of a typed path from the root.

    Examples
    --------
    >>> print(fqn_of_typed("/g 1/w"), fqn_of_typed(r"g\ 1/w"), fqn_of_typed(""))
    /g\ 1/w /g\ 1/w /
    """
    return format_fqn(parse_typed(text))


def plain_path(text: str) -> str:
    r"""Return a typed path without escapes, as other programs write it; parts ``.`` are skipped.

    Examples
    --------
    >>> plain_path(r"g\ 1/./w"), plain_path("")
    ('/g 1/w', '/')
    """
    return join_path([name for name in parse_typed(text) if name != "."])


def is_simple(text: str) -> bool:
    r"""Return True for a typed name that is no path.

    Examples
    --------
    >>> is_simple("w"), is_simple("/w"), is_simple(r"a\/b")
    (True, False, True)
    """
    return "/" not in units_of(text) if "/" in text else True


def typed(fqn: str) -> str:
    r"""Return the form of an FQN that can be typed everywhere: separators and characters of patterns are escaped, too.

    Examples
    --------
    >>> print(typed(r"/g\ 1/a,b[0]"))
    /g\ 1/a\,b\[0]
    """
    return _MARKS.sub(r"\\\g<0>", fqn)


def typed_name(name: str) -> str:
    r"""Return the form of a simple name that can be typed everywhere; see :func:`typed`.

    Examples
    --------
    >>> print(typed_name("a b,c"))
    a\ b\,c
    """
    return typed(format_fqn([name]))[1:]


# --- finding nodes


def is_named(fqn: str, text: str) -> bool:
    r"""Return True if a typed name is that of a node: an FQN, a path from the root, or the simple name.

    Examples
    --------
    >>> is_named(r"/g\ 1/w", "/g 1/w"), is_named("/g/w", "w"), is_named("/g/w", "/w"), is_named("/g/h/w", "h/w")
    (True, True, False, False)
    """
    names = parse_fqn(fqn)
    return names[-1:] == parse_typed(text) if is_simple(text) else names == parse_typed(text)


def matches(fqn: str, pattern: str) -> bool:
    r"""Return True if an FQN is, or matches, a typed pattern of FQNs (with a slash) or of simple names.

    ``*`` matches any text, ``?`` a character, and ``[ab]`` one of several, as in a shell; ``*`` matches slashes, too.

    Examples
    --------
    >>> matches("/g/temp", "t*"), matches("/g/temp", "/g/*"), matches("/g/temp", "g/temp"), matches("/g/t", "/t")
    (True, True, True, False)
    >>> matches("/a[1]", r"a\[1]"), matches("/a1", r"a\[1]"), matches(r"/g\ 1/w", "/g ?/w")
    (True, False, True)
    """
    if is_named(fqn, pattern):
        return True
    at = 0 if not is_simple(pattern) else len(fqn) - len(format_fqn(parse_fqn(fqn)[-1:])) + 1
    return _compiled(pattern).fullmatch(fqn, at) is not None


def matching(pattern: str, fqns: Iterable[str]) -> list[str]:
    r"""Return the FQNs that a typed pattern means: those with exactly this name, or else those that match it.

    Examples
    --------
    >>> matching("a[1]", ["/a1", "/g/a[1]"]), matching("a[1]", ["/a1"])
    (['/g/a[1]'], ['/a1'])
    """
    fqns = list(fqns)
    # Without this, a name with characters of patterns, such as a[1], could not be given at all.
    if exact := [fqn for fqn in fqns if is_named(fqn, pattern)]:
        return exact
    return [fqn for fqn in fqns if matches(fqn, pattern)] if _GLOBS & {*units_of(pattern)} else []


def similar_name(text: str, fqns: Iterable[str]) -> str | None:
    r"""Return a hint with the name of a node that is most similar to a missing one, as it can be typed; or None.

    Examples
    --------
    >>> print(similar_name("/g 1/v", [r"/g\ 1/w"]))
    did you mean '/g\ 1/w'?
    """
    known = [typed(fqn) for fqn in fqns if fqn != ROOT]
    simple = [typed_name(parse_fqn(fqn)[-1]) for fqn in fqns if fqn != ROOT]
    return did_you_mean(text, [*known, *simple])


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    """Return a typed pattern as a regular expression for FQNs, in which escapes stand."""
    if not is_simple(pattern) and not pattern.startswith(ROOT):
        pattern = f"/{pattern}"
    return re.compile("".join(_expressions(units_of(pattern))), re.DOTALL)


def _expressions(units: list[str]) -> Iterator[str]:
    one = r"(?:\\.|[^\\])"
    at = 0
    while at < len(units):
        unit = units[at]
        at += 1
        if unit == "*":
            yield f"{one}*"
        elif unit == "?":
            yield one
        elif unit == "[" and "]" in units[at + 1 :]:
            end = units.index("]", at + 1)
            inside = [u[-1] for u in units[at:end]]
            negated = inside[0] == "!"
            chosen = "".join(c if c == "-" else re.escape(c) for c in inside[negated:])
            group = f"[{'^' * negated}{chosen}]" if chosen else "[!]"
            yield rf"(?:\\{group}|(?!\\){group})"
            at = end + 1
        elif unit == ROOT:
            yield unit
        else:
            yield re.escape(format_fqn([normalize_name(unit[-1])])[1:])

"""Read names, store the declarations of a CDL text, and look up names in them.

Names are unescaped, decoded as UTF-8 and normalised to NFC.

Dimensions and types: in the group, then upwards, the nearest first; a type that only one group of the whole tree
declares is found from everywhere. Variables: in the group only. A path names exactly one group.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from lark import Token

from nczarr.cdl.syntax.source import Problems, as_text
from nczarr.cdl.syntax.tree import Values
from nczarr.cdl.words import BLANKS
from nczarr.grammar import terminals
from nczarr.model import Attribute, Type, UserType, check_name, join_fqn, normalize_name
from nczarr.model.names import check_length

_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_COMPONENT = re.compile(f"/({terminals('names.lark')['IDENT']})")
_IDENTIFIER = re.compile(r"(?:[^\\\x00-\x20]|\\[ -~])+")


def clean_name(raw: str) -> str:
    r"""Undo CDL's escapes, decode, and normalize.

    `raw` is the text of a token: one character for each byte.

    Examples
    --------
    >>> clean_name(r"\2m\ temp")
    '2m temp'
    """
    text = _ESCAPED.sub(r"\1", str(raw)) if "\\" in raw else str(raw)
    # netCDF-C compares names in the form NFC.
    return text if text.isascii() else normalize_name(as_text(text))


def path_names(path: str) -> list[str]:
    r"""Return the names in a path of CDL, without escapes.

    Examples
    --------
    >>> path_names(r"/g/sea\ level\/raw")
    ['g', 'sea level/raw']
    """
    return [clean_name(part) for part in _COMPONENT.findall(path)]


def name_of(token: Token, problems: Problems, check: Callable[[str], str | None] = check_name) -> str:
    """Return the netCDF name of a token; report a problem if the name is illegal."""
    name = clean_name(token)
    position = token.start_pos
    try:
        name.encode()
    except UnicodeEncodeError:
        problems.add("the name is not UTF-8", position)
        return name
    wrong = check(name) or check_length(name)
    if wrong is not None:
        problems.add(wrong, position)
    return name


def split_enum_constant(token: str) -> list[tuple[str | None, str]]:
    r"""Return the readings of an enum constant: pairs of a type's name (or None) and a member's name.

    A name may contain dots, so several readings are possible. The whole text as a member's name comes first.

    Examples
    --------
    >>> split_enum_constant("/g/colour.red")
    [(None, 'colour.red'), ('colour', 'red')]
    """
    last = _COMPONENT.findall(token)[-1] if token.startswith("/") else token
    readings: list[tuple[str | None, str]] = [(None, clean_name(last))]
    for match in re.finditer(r"\.", last):
        before, after = last[: match.start()], last[match.end() :]
        # A point may be part of a name, so any of them may be the separator.
        escaped = (len(before) - len(before.rstrip("\\"))) % 2
        if before and after and not escaped:
            readings.append((clean_name(before), clean_name(after)))
    return readings


def dataset_name(header: str) -> str:
    r"""Return the dataset's name in ``netcdf NAME``.

    ncgen drops blanks and control characters and keeps backslashes. An identifier with escapes, as ncdump
    prints it, is unescaped.

    Examples
    --------
    >>> dataset_name("netcdf my\\ data "), dataset_name("netCDF a b ")
    ('my data', 'ab')
    """
    text = header[len("netcdf") :].strip(BLANKS)
    if "\\" in text and _IDENTIFIER.fullmatch(text):
        return clean_name(text)
    kept = "".join(c for c in text if c > " ")
    return as_text(kept)


@dataclass(eq=False)
class DimensionState:
    """A declared dimension, or an anonymous one; the size of an unlimited one grows with the data."""

    name: str
    fqn: str
    size: int
    unlimited: bool = False


@dataclass(eq=False)
class VariableState:
    """A declared variable with its attributes and data.

    `type` is None, and `dimensions` has None, where the declaration is wrong and a problem is recorded.
    """

    name: str
    fqn: str
    token: Token
    type: Type | None
    dimensions: tuple[DimensionState | None, ...]
    attributes: dict[str, Attribute] = field(default_factory=dict)
    special: dict[str, Any] = field(default_factory=dict)
    special_tokens: dict[str, Token] = field(default_factory=dict)
    data: Values | None = None
    data_token: Token | None = None

    @property
    def is_sound(self) -> bool:
        """True if the declaration has no problem."""
        return self.type is not None and None not in self.dimensions

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the known sizes of the dimensions."""
        return tuple(0 if d is None else d.size for d in self.dimensions)

    @property
    def unlimited(self) -> tuple[bool, ...]:
        """Tell for each dimension if it is unlimited."""
        return tuple(d is not None and d.unlimited for d in self.dimensions)


@dataclass(eq=False)
class GroupScope:
    """A group and its declarations so far, in order."""

    name: str
    fqn: str
    parent: GroupScope | None = None
    types: dict[str, UserType | None] = field(default_factory=dict)
    dimensions: dict[str, DimensionState] = field(default_factory=dict)
    variables: dict[str, VariableState] = field(default_factory=dict)
    attributes: dict[str, Attribute] = field(default_factory=dict)
    groups: dict[str, GroupScope] = field(default_factory=dict)

    @property
    def root(self) -> GroupScope:
        """The root group."""
        return self if self.parent is None else self.parent.root

    def upwards(self) -> Iterator[GroupScope]:
        """Yield this group and its ancestors, the nearest first."""
        scope: GroupScope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def walk(self) -> Iterator[GroupScope]:
        """Yield this group and its descendants, parents first."""
        pending = [self]
        while pending:
            scope = pending.pop()
            yield scope
            pending.extend(reversed(scope.groups.values()))

    def child(self, name: str) -> GroupScope:
        """Declare a group."""
        made = self.groups[name] = GroupScope(name, join_fqn(self.fqn, name), self)
        return made

    def find_dimension(self, token: Token) -> DimensionState | None:
        """Return the dimension that a name or a path refers to."""
        name, scopes = self._places_of(token)
        return next((s.dimensions[name] for s in scopes if name in s.dimensions), None)

    def find_type(self, token: Token) -> UserType | None:
        """Return the user type that a name or a path refers to; KeyError if there is none.

        The result is None if the declaration of the type is wrong.
        """
        name, scopes = self._places_of(token)
        for scope in scopes:
            # As in ncgen: the nearest group first, then the one group of all that has the name.
            if name in scope.types:
                return scope.types[name]
        everywhere = [s for s in self.root.walk() if name in s.types]
        # As ncgen, a type that one group alone declares is known everywhere.
        if len(everywhere) != 1 or token.startswith("/"):
            raise KeyError(name)
        return everywhere[0].types[name]

    def has_type(self, token: Token) -> bool:
        """Return True if a name or a path refers to a type."""
        with suppress(KeyError):
            self.find_type(token)
            return True
        return False

    def find_variable(self, token: Token) -> VariableState | None:
        """Return the variable that a name or a path refers to."""
        name, scopes = self._places_of(token)
        # In ncgen, names of variables are looked up in their own group only.
        scope = next(iter(scopes), None)
        return None if scope is None else scope.variables.get(name)

    def _places_of(self, token: Token) -> tuple[str, Iterable[GroupScope]]:
        """Return a name and the groups to look it up in: those from here upwards, or the one that a path names."""
        if not token.startswith("/"):
            return clean_name(token), self.upwards()
        *groups, name = path_names(token)
        scope: GroupScope | None = self.root
        for group in groups:
            scope = scope.groups.get(group) if scope is not None else None
        return name, () if scope is None else (scope,)

    def visible(self, what: str) -> Iterator[str]:
        """Return the visible names of ``dimensions`` or ``types``: simple names from here upwards, and paths."""
        for scope in self.upwards():
            yield from getattr(scope, what)
        for scope in self.root.walk():
            yield from (join_fqn(scope.fqn, name) for name in getattr(scope, what))

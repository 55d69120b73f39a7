"""Define the syntax tree of CDL: one class for each rule of ``grammar/cdl.lark``.

A leaf is a :class:`lark.Token`: text with a position. The tree is not interpreted here. Lark builds the nodes while it
parses: each field of a class takes one child of its rule, and a field of type tuple takes the remaining children.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypeAlias, dataclass_transform

from lark import Token, ast_utils

Value: TypeAlias = "Token | Block | Call"
UserType: TypeAlias = "Enum | Opaque | Vlen | Compound"
#: A statement of the sections types, dimensions and variables; a token is a run of plain statements.
Statement: TypeAlias = "Token | UserType | Dimension | Declaration | Attribute"


@dataclass_transform(frozen_default=True)
class _Node(ast_utils.Ast):
    """A node, which is a frozen dataclass."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)


class Values(_Node):
    """A list of values."""

    items: tuple[Value, ...]


class Block(_Node):
    """A list of values in braces."""

    brace: Token
    values: Values


class Call(_Node):
    """A function and its arguments: ``time("2000-01-01")``."""

    name: Token
    arguments: tuple[Token, ...]


class Attribute(_Node):
    """``type owner:name = values``; `words` are the zero, one or two words before the colon."""

    words: tuple[Token, ...]
    name: Token
    values: Values


class Append(_Node):
    """``append owner:name = values``."""

    attribute: Attribute


class Delete(_Node):
    """``delete owner:name``; `words` are the owner, or nothing."""

    words: tuple[Token, ...]
    name: Token


class Rename(_Node):
    """``rename owner:name to new``, or ``rename kind node to new``; `words` are all but the new name."""

    words: tuple[Token, ...]
    new: Token


class Edits(_Node):
    """The statements that change a stored dataset."""

    parts: tuple[Attribute | Append | Delete | Rename, ...]


class Member(_Node):
    """A member of an enum."""

    name: Token
    value: Token


class Enum(_Node):
    """``base enum name {members}``."""

    base: Token
    keyword: Token
    name: Token
    members: tuple[Member, ...]


class Opaque(_Node):
    """``opaque(size) name``."""

    keyword: Token
    size: Token
    name: Token


class Vlen(_Node):
    """``base(*) name``."""

    base: Token
    name: Token


class Field(_Node):
    """A field of a compound with its dimension sizes."""

    name: Token
    sizes: tuple[Token, ...]


class Fields(_Node):
    """Fields of one type."""

    type: Token
    fields: tuple[Field, ...]


class Compound(_Node):
    """``compound name {fields}``."""

    keyword: Token
    name: Token
    fields: tuple[Fields, ...]


class Dimension(_Node):
    """``name = size``."""

    name: Token
    size: Token


class Variable(_Node):
    """A variable's name and its dimensions."""

    name: Token
    dimensions: tuple[Token, ...]


class Declaration(_Node):
    """Variables of one type."""

    type: Token
    variables: tuple[Variable, ...]


class Assignment(_Node):
    """``variable = values``."""

    owner: Token
    values: Values


class Types(_Node):
    """The section ``types:``."""

    parts: tuple[UserType | Attribute, ...]


class Dimensions(_Node):
    """The section ``dimensions:``."""

    parts: tuple[Dimension | Attribute, ...]


class Variables(_Node):
    """The section ``variables:``; a token is a run of plain statements."""

    parts: tuple[Token | Declaration | Attribute, ...]


class Data(_Node):
    """The section ``data:``."""

    parts: tuple[Assignment, ...]


class Body(_Node):
    """The contents of a dataset or a group between its braces."""

    parts: tuple[Attribute | Types | Dimensions | Variables | Data | Group, ...]


class Group(_Node):
    """``group: name {body}``."""

    name: Token
    body: Body


class File(_Node):
    """``netcdf name {body}``."""

    header: Token
    body: Body


def node_maker(cls: type) -> staticmethod[[list[object]], object]:
    """Return a method for Lark's transformer that builds a node from the children of its rule."""
    children_of = fields(cls)
    rest = next((i for i, f in enumerate(children_of) if str(f.type).startswith("tuple")), None)
    if rest is None:
        return staticmethod(lambda children: cls(*children))
    after = len(children_of) - rest - 1

    def collect(children: list[object]) -> object:
        end = len(children) - after
        return cls(*children[:rest], tuple(children[rest:end]), *children[end:])

    return staticmethod(collect)

"""Define the syntax tree of CDL: one class for each rule of ``grammar/cdl.lark``.

A leaf is a :class:`lark.Token`: text with a position. The tree is not interpreted here. Lark builds the nodes while it
parses: each field of a class takes one child of its rule, and a field of type tuple takes the remaining children.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TypeAlias

from lark import Token, ast_utils

Value: TypeAlias = "Token | Block | Call"
UserType: TypeAlias = "Enum | Opaque | Vlen | Compound"
#: A statement of the sections types, dimensions and variables; a token is a run of plain statements.
Statement: TypeAlias = "Token | UserType | Dimension | Declaration | Attribute"


@dataclass(frozen=True, slots=True)
class Values(ast_utils.Ast):
    """A list of values."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Block(ast_utils.Ast):
    """A list of values in braces; `depth` counts the braces inside it, itself included."""

    brace: Token
    values: Values
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        inside = [item.depth for item in self.values.items if isinstance(item, Block)]
        object.__setattr__(self, "depth", 1 + max(inside, default=0))


@dataclass(frozen=True, slots=True)
class Call(ast_utils.Ast):
    """A function and its arguments: ``time("2000-01-01")``."""

    name: Token
    arguments: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Attribute(ast_utils.Ast):
    """``type owner:name = values``; `words` are the zero, one or two words before the colon."""

    words: tuple[Token, ...]
    name: Token
    values: Values


@dataclass(frozen=True, slots=True)
class Member(ast_utils.Ast):
    """A member of an enum."""

    name: Token
    value: Token


@dataclass(frozen=True, slots=True)
class Enum(ast_utils.Ast):
    """``base enum name {members}``."""

    base: Token
    keyword: Token
    name: Token
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Opaque(ast_utils.Ast):
    """``opaque(size) name``."""

    keyword: Token
    size: Token
    name: Token


@dataclass(frozen=True, slots=True)
class Vlen(ast_utils.Ast):
    """``base(*) name``."""

    base: Token
    name: Token


@dataclass(frozen=True, slots=True)
class Field(ast_utils.Ast):
    """A field of a compound with its dimension sizes."""

    name: Token
    sizes: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Fields(ast_utils.Ast):
    """Fields of one type."""

    type: Token
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Compound(ast_utils.Ast):
    """``compound name {fields}``."""

    keyword: Token
    name: Token
    fields: tuple[Fields, ...]


@dataclass(frozen=True, slots=True)
class Dimension(ast_utils.Ast):
    """``name = size``."""

    name: Token
    size: Token


@dataclass(frozen=True, slots=True)
class Variable(ast_utils.Ast):
    """A variable's name and its dimensions."""

    name: Token
    dimensions: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Declaration(ast_utils.Ast):
    """Variables of one type."""

    type: Token
    variables: tuple[Variable, ...]


@dataclass(frozen=True, slots=True)
class Assignment(ast_utils.Ast):
    """``variable = values``."""

    owner: Token
    values: Values


@dataclass(frozen=True, slots=True)
class Types(ast_utils.Ast):
    """The section ``types:``."""

    parts: tuple[UserType | Attribute, ...]


@dataclass(frozen=True, slots=True)
class Dimensions(ast_utils.Ast):
    """The section ``dimensions:``."""

    parts: tuple[Dimension | Attribute, ...]


@dataclass(frozen=True, slots=True)
class Variables(ast_utils.Ast):
    """The section ``variables:``; a token is a run of plain statements."""

    parts: tuple[Token | Declaration | Attribute, ...]


@dataclass(frozen=True, slots=True)
class Data(ast_utils.Ast):
    """The section ``data:``."""

    parts: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class Body(ast_utils.Ast):
    """The contents of a dataset or a group between its braces."""

    parts: tuple[Attribute | Types | Dimensions | Variables | Data | Group, ...]


@dataclass(frozen=True, slots=True)
class Group(ast_utils.Ast):
    """``group: name {body}``; `depth` counts the groups inside it, itself included."""

    name: Token
    body: Body
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        inside = [part.depth for part in self.body.parts if isinstance(part, Group)]
        object.__setattr__(self, "depth", 1 + max(inside, default=0))


@dataclass(frozen=True, slots=True)
class File(ast_utils.Ast):
    """``netcdf name {body}``."""

    header: Token
    body: Body


def node_maker(cls: type) -> staticmethod[[list[object]], object]:
    """Return a method for Lark's transformer that builds a node from the children of its rule."""
    children_of = [f for f in fields(cls) if f.init]
    rest = next((i for i, f in enumerate(children_of) if str(f.type).startswith("tuple")), None)
    if rest is None:
        return staticmethod(lambda children: cls(*children))
    after = len(children_of) - rest - 1

    def collect(children: list[object]) -> object:
        end = len(children) - after
        return cls(*children[:rest], tuple(children[rest:end]), *children[end:])

    return staticmethod(collect)

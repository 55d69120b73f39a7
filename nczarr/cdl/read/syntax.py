"""The syntax tree of CDL: one class for each rule of ``grammar/cdl.lark``.

Leaves are :class:`lark.Token`: text with a place. Nothing is interpreted here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from lark import Token

Value: TypeAlias = "Token | Block | Call"


@dataclass(frozen=True, slots=True)
class Values:
    """A list of values."""

    items: tuple[Value, ...]

    @classmethod
    def of(cls, *items: Value) -> Values:
        return cls(items)


@dataclass(frozen=True, slots=True)
class Block:
    """A list of values in braces; `depth` counts the braces inside it, itself included."""

    values: Values
    depth: int

    @classmethod
    def of(cls, values: Values) -> Block:
        inside = [item.depth for item in values.items if isinstance(item, Block)]
        return cls(values, 1 + max(inside, default=0))


@dataclass(frozen=True, slots=True)
class Call:
    """A function and its arguments: ``time("2000-01-01")``."""

    name: Token
    arguments: tuple[Token, ...]

    @classmethod
    def of(cls, name: Token, *arguments: Token) -> Call:
        return cls(name, arguments)


@dataclass(frozen=True, slots=True)
class Attribute:
    """``type owner:name = values``; `words` are the none, one or two words before the colon."""

    words: tuple[Token, ...]
    name: Token
    values: Values

    @classmethod
    def of(cls, *children: Token | Values) -> Attribute:
        *words, name, values = children
        assert isinstance(name, Token)
        assert isinstance(values, Values)
        return cls(tuple(w for w in words if isinstance(w, Token)), name, values)


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an enum."""

    name: Token
    value: Token

    @classmethod
    def of(cls, name: Token, value: Token) -> Member:
        return cls(name, value)


@dataclass(frozen=True, slots=True)
class Enum:
    """``base enum name {members}``."""

    base: Token
    name: Token
    members: tuple[Member, ...]

    @classmethod
    def of(cls, base: Token, _keyword: Token, name: Token, *members: Member) -> Enum:
        return cls(base, name, members)


@dataclass(frozen=True, slots=True)
class Opaque:
    """``opaque(size) name``."""

    name: Token
    size: Token

    @classmethod
    def of(cls, _keyword: Token, size: Token, name: Token) -> Opaque:
        return cls(name, size)


@dataclass(frozen=True, slots=True)
class Vlen:
    """``base(*) name``."""

    base: Token
    name: Token

    @classmethod
    def of(cls, base: Token, name: Token) -> Vlen:
        return cls(base, name)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a compound with its dimension sizes."""

    name: Token
    sizes: tuple[Token, ...]

    @classmethod
    def of(cls, name: Token, *sizes: Token) -> Field:
        return cls(name, sizes)


@dataclass(frozen=True, slots=True)
class Fields:
    """Fields of one type."""

    type: Token
    fields: tuple[Field, ...]

    @classmethod
    def of(cls, type_: Token, *fields: Field) -> Fields:
        return cls(type_, fields)


@dataclass(frozen=True, slots=True)
class Compound:
    """``compound name {fields}``."""

    name: Token
    fields: tuple[Fields, ...]

    @classmethod
    def of(cls, _keyword: Token, name: Token, *fields: Fields) -> Compound:
        return cls(name, fields)


@dataclass(frozen=True, slots=True)
class Dimension:
    """``name = size``."""

    name: Token
    size: Token

    @classmethod
    def of(cls, name: Token, size: Token) -> Dimension:
        return cls(name, size)


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable's name and its dimensions."""

    name: Token
    dimensions: tuple[Token, ...]

    @classmethod
    def of(cls, name: Token, *dimensions: Token) -> Variable:
        return cls(name, dimensions)


@dataclass(frozen=True, slots=True)
class Declaration:
    """Variables of one type."""

    type: Token
    variables: tuple[Variable, ...]

    @classmethod
    def of(cls, type_: Token, *variables: Variable) -> Declaration:
        return cls(type_, variables)


@dataclass(frozen=True, slots=True)
class Assignment:
    """``variable = values``."""

    owner: Token
    values: Values

    @classmethod
    def of(cls, owner: Token, values: Values) -> Assignment:
        return cls(owner, values)


@dataclass(frozen=True, slots=True)
class Types:
    """The section ``types:``."""

    parts: tuple[Enum | Opaque | Vlen | Compound | Attribute, ...]

    @classmethod
    def of(cls, *parts: Enum | Opaque | Vlen | Compound | Attribute) -> Types:
        return cls(parts)


@dataclass(frozen=True, slots=True)
class Dimensions:
    """The section ``dimensions:``."""

    parts: tuple[Dimension | Attribute, ...]

    @classmethod
    def of(cls, *parts: Dimension | Attribute) -> Dimensions:
        return cls(parts)


@dataclass(frozen=True, slots=True)
class Variables:
    """The section ``variables:``."""

    parts: tuple[Declaration | Attribute, ...]

    @classmethod
    def of(cls, *parts: Declaration | Attribute) -> Variables:
        return cls(parts)


@dataclass(frozen=True, slots=True)
class Data:
    """The section ``data:``."""

    parts: tuple[Assignment, ...]

    @classmethod
    def of(cls, *parts: Assignment) -> Data:
        return cls(parts)


@dataclass(frozen=True, slots=True)
class Body:
    """What a dataset or a group has between its braces."""

    parts: tuple[Attribute | Types | Dimensions | Variables | Data | Group, ...]

    @classmethod
    def of(cls, *parts: Attribute | Types | Dimensions | Variables | Data | Group) -> Body:
        return cls(parts)


@dataclass(frozen=True, slots=True)
class Group:
    """``group: name {body}``; `depth` counts the groups inside it, itself included."""

    name: Token
    body: Body
    depth: int

    @classmethod
    def of(cls, name: Token, body: Body) -> Group:
        inside = [part.depth for part in body.parts if isinstance(part, Group)]
        return cls(name, body, 1 + max(inside, default=0))


@dataclass(frozen=True, slots=True)
class File:
    """``netcdf name {body}``."""

    header: Token
    body: Body

    @classmethod
    def of(cls, header: Token, body: Body) -> File:
        return cls(header, body)


#: The class of each rule of the grammar.
RULES = {
    "file": File,
    "body": Body,
    "group": Group,
    "types": Types,
    "enum": Enum,
    "member": Member,
    "opaque": Opaque,
    "vlen": Vlen,
    "compound": Compound,
    "fields": Fields,
    "field": Field,
    "dimensions": Dimensions,
    "dimension": Dimension,
    "variables": Variables,
    "declaration": Declaration,
    "variable": Variable,
    "attribute": Attribute,
    "data": Data,
    "assignment": Assignment,
    "values": Values,
    "block": Block,
    "call": Call,
}

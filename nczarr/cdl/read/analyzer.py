"""Turn the syntax tree of a CDL text into a dataset of the model.

The analyzer resolves names, types constants and binds data. It collects all problems and reports them together.
"""

from __future__ import annotations

import math

import numpy as np
from lark import Token

from nczarr import model
from nczarr.cdl.read.attributes import (
    GLOBAL,
    OF_VARIABLES,
    QUANTIZE,
    AttributeReader,
    dataset_format,
    read_special,
    storage_of,
)
from nczarr.cdl.read.data import Binder
from nczarr.cdl.read.scope import DimensionState, GroupScope, VariableState, clean_name, dataset_name, name_of
from nczarr.cdl.read.values import ElementReader
from nczarr.cdl.syntax import tree
from nczarr.cdl.syntax.constants import ALIASES, ConstantError, parse_constant
from nczarr.cdl.syntax.runs import split_statements
from nczarr.cdl.syntax.source import Problems
from nczarr.display.text import did_you_mean
from nczarr.model.names import check_text
from nczarr.system.environment import limit

_SECTIONS = frozenset(["types", "dimensions", "variables", "data", "group"])
#: Attribute names that the netCDF library reserves.
_RESERVED = frozenset(
    ["_ARRAY_DIMENSIONS", "_NCProperties", "_Netcdf4Coordinates", "_Netcdf4Dimid", "_nc3_strict"]
)
_FILL_VALUE = "_FillValue"


class Analyzer:
    """Turns one syntax tree into a dataset and records the problems of the text."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._elements = ElementReader(problems)
        self._attributes = AttributeReader(problems, self._elements)
        self._binder = Binder(problems, self._elements)
        self._root = GroupScope("", "/")
        self._format: str | None = None
        self._depth: dict[str, int] = {}
        self._given: dict[tuple[str, str, str], Token] = {}
        self._deepest = limit("NCZARR_MAX_DEPTH")
        self._most_bytes = limit("NCZARR_MAX_VALUE_BYTES")

    def analyze(self, file: tree.File) -> model.Dataset:
        """Return the dataset; it is unusable if any problem was recorded."""
        name = dataset_name(file.header)
        self._body(self._root, file.body)
        del file  # each part of the tree is released once it has been read
        variables = [v for scope in self._root.walk() for v in scope.variables.values()]
        for variable in variables:
            self._binder.measure(variable)
        return model.Dataset(name, format=self._format, **self._contents(self._root))

    # Groups.

    def _body(self, scope: GroupScope, body: tree.Body) -> None:
        for part in body.parts:
            if isinstance(part, tree.Attribute):
                self._attribute(scope, part)
            elif isinstance(part, tree.Group):
                self._group(scope, part)
            elif isinstance(part, tree.Data):
                for assignment in part.parts:
                    self._assignment(scope, assignment)
            else:
                for inside in part.parts:
                    self._declaration(scope, inside)

    def _group(self, scope: GroupScope, group: tree.Group) -> None:
        if group.depth > self._deepest:
            self._problems.add(
                f"more than {self._deepest} groups inside each other",
                group.name,
                hint="the setting NCZARR_MAX_DEPTH allows more",
            )
            return
        name = name_of(group.name, self._problems)
        if name in scope.groups:
            self._problems.add(f"the group {name!r} is declared twice", group.name)
        self._body(scope.child(name), group.body)

    def _declaration(self, scope: GroupScope, part: tree.Statement) -> None:
        if isinstance(part, Token):
            for inside in split_statements(part):
                self._declaration(scope, inside)
        elif isinstance(part, tree.Attribute):
            self._attribute(scope, part)
        elif isinstance(part, tree.Dimension):
            self._dimension(scope, part)
        elif isinstance(part, tree.Declaration):
            type_ = self._type(scope, part.type)
            for variable in part.variables:
                self._variable(scope, type_, variable)
        else:
            self._user_type(scope, part)

    # Dimensions.

    def _dimension(self, scope: GroupScope, dimension: tree.Dimension) -> None:
        name = name_of(dimension.name, self._problems)
        if name in scope.dimensions:
            self._problems.add(f"the dimension {name!r} is declared twice", dimension.name)
            return
        unlimited = dimension.size.type == "UNLIMITED"
        size = 0 if unlimited else self._size(dimension.size, "dimension")
        # As in ncgen, a size of 0 declares an unlimited dimension.
        scope.dimensions[name] = DimensionState(
            name, model.join_fqn(scope.fqn, name), size, unlimited or not size
        )

    def _size(self, token: Token, what: str) -> int:
        number = self._integer(token)
        if number is not None and 0 <= number <= np.iinfo("i8").max:
            return number
        if number is not None:
            wrong = "negative" if number < 0 else "too large"
            self._problems.add(f"the size {number} of the {what} is {wrong}", token)
        return 1

    def _integer(self, token: Token) -> int | None:
        with self._problems.recording(token):
            constant = parse_constant(token)
            if constant.kind not in ("byte", "ubyte", "short", "ushort"):
                return int(constant.value)
            raise ConstantError(f"expected a plain integer, not {token}")
        return None

    # Types.

    def _type(self, scope: GroupScope, token: Token) -> model.Type | None:
        """Return the type that a token names; None and a problem if there is none."""
        if token.type == "PRIMITIVE":
            return model.PRIMITIVES[ALIASES.get(str(token), str(token))]
        try:
            return scope.find_type(token)
        except KeyError:
            name = clean_name(token)
            hint = did_you_mean(name, [*model.PRIMITIVES, *scope.visible("types")])
            self._problems.add(f"there is no type {name!r}", token, hint=hint)
            return None

    def _user_type(self, scope: GroupScope, part: tree.UserType) -> None:
        name = name_of(part.name, self._problems)
        fqn = model.join_fqn(scope.fqn, name)
        made: model.UserType | None
        if isinstance(part, tree.Enum):
            made = self._enum(scope, fqn, part)
        elif isinstance(part, tree.Opaque):
            made = self._opaque(fqn, part)
        elif isinstance(part, tree.Vlen):
            base = self._type(scope, part.base)
            made = model.VlenType(fqn, base) if base is not None else None
        else:
            made = self._compound(scope, fqn, part)
        if made is not None and not self._is_reasonable(made, part.name):
            made = None
        if name in scope.types:
            self._problems.add(f"the type {name!r} is declared twice", part.name)
        scope.types[name] = made

    def _enum(self, scope: GroupScope, fqn: str, enum: tree.Enum) -> model.EnumType | None:
        base = self._type(scope, enum.base)
        if base is not None and not (isinstance(base, model.PrimitiveType) and base.is_integer):
            self._problems.add(f"an enum needs an integer type, not {base.name}", enum.base)
            return None
        members: dict[str, int] = {}
        for member in enum.members:
            name = name_of(member.name, self._problems, check_text)
            value = self._integer(member.value)
            if name in members:
                self._problems.add(f"the member {name!r} is declared twice", member.name)
            if value is None or base is None:
                continue
            limits = np.iinfo(base.dtype)
            if not limits.min <= value <= limits.max:
                self._problems.add(f"{value} is not a value of the type {base.name}", member.value)
                value = 0  # avoids follow-up problems where the member is used
            members[name] = value
        return (
            model.EnumType(fqn, base, tuple(members.items()))
            if isinstance(base, model.PrimitiveType)
            else None
        )

    def _opaque(self, fqn: str, opaque: tree.Opaque) -> model.OpaqueType | None:
        size = self._integer(opaque.size)
        if size is not None and not 1 <= size <= self._most_bytes:
            self._problems.add(
                f"an opaque type has 1 to {self._most_bytes} bytes, not {size}",
                opaque.size,
                hint="the setting NCZARR_MAX_VALUE_BYTES allows more" if size > 1 else None,
            )
            return None
        return model.OpaqueType(fqn, size) if size is not None else None

    def _compound(self, scope: GroupScope, fqn: str, compound: tree.Compound) -> model.CompoundType | None:
        fields: dict[str, model.Field] = {}
        sound = True
        for group in compound.fields:
            type_ = self._type(scope, group.type)
            for field in group.fields:
                name = name_of(field.name, self._problems, check_text)
                if name in fields:
                    self._problems.add(f"the field {name!r} is declared twice", field.name)
                shape = tuple(self._size(size, "field") for size in field.sizes)
                if 0 in shape:
                    at = field.sizes[shape.index(0)].start_pos
                    self._problems.add(f"the field {name!r} has a dimension of size 0", at)
                    sound = False
                if type_ is None:
                    sound = False
                else:
                    fields[name] = model.Field(name, type_, shape)
        return model.CompoundType(fqn, tuple(fields.values())) if sound else None

    def _is_reasonable(self, type_: model.UserType, token: Token) -> bool:
        """Report a problem and return False for types that are nested too deeply or too large."""
        inside: list[model.Type] = []
        size = 0
        if isinstance(type_, model.CompoundType):
            inside = [f.type for f in type_.fields]
            size = sum(f.type.dtype.itemsize * math.prod(f.shape) for f in type_.fields)
        elif isinstance(type_, model.VlenType):
            inside = [type_.base]
        depths = [self._depth.get(t.fqn, 0) for t in inside if isinstance(t, model.UserType)]
        depth = self._depth[type_.fqn] = 1 + max(depths, default=0)
        if depth > self._deepest:
            self._problems.add(
                f"more than {self._deepest} types inside each other",
                token,
                hint="the setting NCZARR_MAX_DEPTH allows more",
            )
        if size > self._most_bytes:
            self._problems.add(
                f"a value of the type {type_.name!r} has {size} bytes, more than {self._most_bytes}",
                token,
                hint="the setting NCZARR_MAX_VALUE_BYTES allows more",
            )
        return depth <= self._deepest and size <= self._most_bytes

    # Variables.

    def _variable(self, scope: GroupScope, type_: model.Type | None, variable: tree.Variable) -> None:
        name = name_of(variable.name, self._problems)
        if name in scope.variables:
            self._problems.add(f"the variable {name!r} is declared twice", variable.name)
        dimensions = tuple(self._reference(scope, token) for token in variable.dimensions)
        fqn = model.join_fqn(scope.fqn, name)
        scope.variables[name] = VariableState(name, fqn, variable.name, type_, dimensions)

    def _reference(self, scope: GroupScope, token: Token) -> DimensionState | int | None:
        if token.type == "INTEGER":
            size = self._size(token, "dimension")
            if size == 0:
                self._problems.add("an anonymous dimension cannot have the size 0", token)
            return size
        found = scope.find_dimension(token)
        if found is None:
            name = clean_name(token)
            hint = did_you_mean(name, scope.visible("dimensions"))
            self._problems.add(f"there is no dimension {name!r}", token, hint=hint)
        return found

    def _assignment(self, scope: GroupScope, assignment: tree.Assignment) -> None:
        variable = scope.find_variable(assignment.owner)
        if variable is None:
            name = clean_name(assignment.owner)
            self._problems.add(
                f"there is no variable {name!r} in the group {scope.fqn!r}",
                assignment.owner,
                hint=did_you_mean(name, scope.variables),
            )
            return
        variable.data = assignment.values
        variable.data_token = assignment.owner

    # Attributes.

    def _attribute(self, scope: GroupScope, attribute: tree.Attribute) -> None:
        type_token, owner_token, variable = None, None, None
        if len(attribute.words) == 2:
            type_token, owner_token = attribute.words
        elif len(attribute.words) == 1:
            # A variable's name takes precedence over a type's.
            word = attribute.words[0]
            if word.type != "PRIMITIVE":
                variable = scope.find_variable(word)
            if variable is None and (word.type == "PRIMITIVE" or scope.has_type(word)):
                type_token = word
            else:
                owner_token = word
        if owner_token is not None and variable is None:
            variable = scope.find_variable(owner_token)
            if variable is None:
                self._no_owner(scope, owner_token)
                return
        raw = str(attribute.name)
        self._warn_of_second(variable or scope, attribute.name)
        with self._problems.recording(attribute.name):
            if raw in GLOBAL or raw in OF_VARIABLES or raw in QUANTIZE:
                self._special(scope, variable, type_token, attribute)
                return
            type_ = self._type(scope, type_token) if type_token is not None else None
            if type_token is not None and type_ is None:
                return
            name = name_of(attribute.name, self._problems, check_text)
            made = self._plain(variable, name, type_, attribute)
            if made is not None:
                (scope if variable is None else variable).attributes[name] = made

    def _warn_of_second(self, owner: GroupScope | VariableState, token: Token) -> None:
        first = self._given.setdefault((owner.fqn, owner.name, clean_name(token)), token)
        if first is not token:
            line = self._problems.source.error("", first.start_pos).line
            what = f"the attribute {clean_name(token)!r} of {owner.fqn} replaces the one in line {line}"
            self._problems.warn(what, token.start_pos)

    def _no_owner(self, scope: GroupScope, token: Token) -> None:
        name = clean_name(token)
        hint = did_you_mean(name, [*scope.variables, *scope.visible("types")])
        if name in _SECTIONS:
            hint = "the sections come in the order types, dimensions, variables, data, groups, each once"
        message = f"there is no variable {name!r} in the group {scope.fqn!r}, and no such type"
        self._problems.add(message, token, hint=hint)

    def _plain(
        self, variable: VariableState | None, name: str, type_: model.Type | None, attribute: tree.Attribute
    ) -> model.Attribute | None:
        items = attribute.values.items
        if name == _FILL_VALUE:
            if variable is None:
                raise ConstantError("_FillValue is an attribute of variables only")
            if variable.type is None:
                return None
            return self._attributes.fill_value(variable.type, attribute.name, items, declared=type_)
        if variable is not None and name in _RESERVED:
            raise ConstantError(f"the attribute name {name!r} is reserved by netCDF")
        if type_ is None:
            return self._attributes.untyped(name, items)
        return self._attributes.typed(name, type_, items)

    def _special(
        self,
        scope: GroupScope,
        variable: VariableState | None,
        type_token: Token | None,
        attribute: tree.Attribute,
    ) -> None:
        token, items = attribute.name, attribute.values.items
        name = str(token)
        if type_token is not None:
            self._problems.add(f"the special attribute {name} takes no type", type_token)
        if (variable is None) != (name in GLOBAL):
            owner = "the dataset" if name in GLOBAL else "a variable"
            raise ConstantError(f"{name} is an attribute of {owner} only")
        if variable is None:
            if name == "_Format":
                self._format = dataset_format(items)
            return
        if name in QUANTIZE:
            made = self._attributes.typed(QUANTIZE[name], model.PRIMITIVES["int"], items)
            if made is not None:
                variable.attributes[made.name] = made
            return
        variable.special[name] = read_special(name, items)
        variable.special_tokens[name] = token

    # The model.

    def _contents(self, scope: GroupScope) -> dict[str, tuple]:
        return {
            "attributes": tuple(scope.attributes.values()),
            "types": tuple(t for t in scope.types.values() if t is not None),
            "dimensions": tuple(
                model.Dimension(d.name, d.size, d.unlimited) for d in scope.dimensions.values()
            ),
            "variables": tuple(v for s in scope.variables.values() if (v := self._model(s)) is not None),
            "groups": tuple(model.Group(s.name, **self._contents(s)) for s in scope.groups.values()),
        }

    def _model(self, state: VariableState) -> model.Variable | None:
        storage = storage_of(state, self._problems)
        data = self._binder.bind(state)
        if state.type is None or data is None:
            return None
        references = tuple(d.fqn if isinstance(d, DimensionState) else d or 0 for d in state.dimensions)
        return model.Variable(
            state.name,
            state.type,
            references,
            attributes=tuple(state.attributes.values()),
            storage=storage,
            data=data,
        )

"""Load CDL: turn the syntax tree of a text into a dataset of the model.

The analyzer resolves names, types constants and binds data. It collects all problems and reports them together.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Container, Sequence
from os import PathLike, fspath
from typing import IO

import numpy as np
from lark import Token

from nczarr import model
from nczarr.cdl.read.attributes import GLOBAL, QUANTIZE, SPECIAL, AttributeReader, read_special, storage_of
from nczarr.cdl.read.data import Binder
from nczarr.cdl.read.scope import DimensionState, GroupScope, VariableState, clean_name, dataset_name, name_of
from nczarr.cdl.read.values import ElementReader, expand
from nczarr.cdl.syntax import tree
from nczarr.cdl.syntax.constants import PLAIN_INTEGERS, ConstantError, parse_constant
from nczarr.cdl.syntax.parser import parse, syntax_errors
from nczarr.cdl.syntax.runs import split_statements
from nczarr.cdl.syntax.source import ORDER, Problems, SourceText, TooManyProblems
from nczarr.cdl.words import ALIASES
from nczarr.errors import ArgumentTypeError, CDLError, ModelError
from nczarr.formats import special_kind
from nczarr.model.names import check_reach, check_text
from nczarr.system.environment import limit
from nczarr.text import did_you_mean

_SECTIONS = frozenset(["types", "dimensions", "variables", "data", "group"])
#: Attribute names that the netCDF library reserves.
#: The netCDF library refuses them: "String match to name in use".
_RESERVED = frozenset(
    ["_ARRAY_DIMENSIONS", "_NCProperties", "_Netcdf4Coordinates", "_Netcdf4Dimid", "_nc3_strict"]
)
_DEEPER = "the setting NCZARR_MAX_DEPTH allows more"
_LARGER = "the setting NCZARR_MAX_VALUE_BYTES allows more"


def load(path: str | PathLike[str] | IO[str] | IO[bytes]) -> model.Dataset:
    """Read a CDL file.

    Parameters
    ----------
    path : str, path-like or open file

    Returns
    -------
    Dataset
        Resolved, with data: values of the text in memory, the fill value elsewhere.

    Raises
    ------
    CDLError
        If the file cannot be read, or the text is wrong; with all problems in ``problems``.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     name = os.path.join(folder, "a.cdl")
    ...     with open(name, "w") as file:
    ...         _ = file.write("netcdf a { dimensions: x = 3; }")
    ...     load(name).dimensions
    (Dimension(name='x', size=3, unlimited=False),)
    """
    if not isinstance(path, str | PathLike) and hasattr(path, "read"):
        origin = getattr(path, "name", None)
        return loads(path.read(), path=origin if isinstance(origin, str) else None)
    try:
        name = fspath(path)  # type: ignore[arg-type]
    except TypeError:
        raise ArgumentTypeError(
            f"load takes a path or an open file, not {type(path).__name__}", hint="loads takes a text"
        ) from None
    # os.fspath leaves paths of bytes as they are.
    if not isinstance(name, str):
        name = os.fsdecode(name)
    return _load(_contents(name), name)


def _contents(name: str) -> str:
    """Return the bytes of a file, one character each."""
    try:
        kind = special_kind(os.stat(name).st_mode)
        if kind not in (None, "pipe"):  # a pipe is allowed, for example a shell's <(command)
            raise CDLError(f"this is a {kind}, not a CDL file", path=name)
        with open(name, "rb") as file:
            return file.read().decode("latin-1")
    except OSError as error:
        raise CDLError(f"cannot be read: {error.strerror}", path=name) from None


def loads(text: str | bytes, *, path: str | None = None) -> model.Dataset:
    """Read CDL from a text.

    Parameters
    ----------
    text : str or bytes
        Bytes are UTF-8.
    path : str, optional
        Origin of the text, for messages.

    Returns
    -------
    Dataset
        Resolved, with data: values of the text in memory, the fill value elsewhere.

    Raises
    ------
    CDLError
        If the text is wrong; with all problems in ``problems``.

    Examples
    --------
    >>> ds = loads("netcdf a { dimensions: x = 3; variables: int v(x); data: v = 1, _, 3; }")
    >>> ds.variables[0].data.read((slice(0, 3),))
    array([          1, -2147483647,           3], dtype=int32)
    >>> loads("netcdf a { dimensions: lat = 3; variables: int v(lta); }")
    Traceback (most recent call last):
    nczarr.errors.CDLError: <cdl>:1:50: there is no dimension 'lta'; did you mean 'lat'?
      netcdf a { dimensions: lat = 3; variables: int v(lta); }
                                                       ^
    """
    if isinstance(text, bytes | bytearray):
        return _load(bytes(text).decode("latin-1"), path)
    if not isinstance(text, str):
        raise ArgumentTypeError(
            f"loads takes a text, not {type(text).__name__}", hint="load takes a path or an open file"
        )
    try:
        raw = text.encode("utf-8", "surrogateescape").decode("latin-1")
    # A text with half a surrogate pair has no bytes.
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        column = error.start - text.rfind("\n", 0, error.start)
        raise CDLError("half a surrogate pair is not text", path=path, line=line, column=column) from None
    return _load(raw, path)


def _load(text: str, path: str | None) -> model.Dataset:
    # ncgen refuses these first bytes, too.
    if text[:1] in ("\xfe", "\xff", "\0"):
        raise CDLError("the text is not UTF-8", path=path, hint="is it UTF-16 or UTF-32?")
    source = SourceText(text, path)
    problems = Problems(source)
    dataset = None
    try:
        with syntax_errors(source):
            dataset = Analyzer(problems).analyze(parse(source))
    except TooManyProblems:
        pass
    # A text of a few bytes may declare values that no memory holds.
    except MemoryError:
        raise CDLError("the values need more memory than is available", path=path) from None
    problems.raise_all()
    assert dataset is not None
    try:
        return model.resolve(dataset)
    except ModelError as error:
        raise CDLError(error.message, path=path, hint=error.hint) from None


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
        for scope in self._root.walk():
            for variable in scope.variables.values():
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
        # Each group is a call inside a call: a hostile text would exhaust the stack.
        if len(list(scope.upwards())) > self._deepest:
            wrong = f"more than {self._deepest} groups inside each other"
            self._problems.add(wrong, group.name, hint=_DEEPER)
            return
        self._body(scope.child(self._new_name("group", group.name, scope.groups)), group.body)

    def _new_name(
        self,
        what: str,
        token: Token,
        known: Container[str],
        check: Callable[[str], str | None] = model.check_name,
    ) -> str:
        """Return the name that a declaration gives; report a problem if it is illegal or known."""
        name = name_of(token, self._problems, check)
        if name in known:
            self._problems.add(f"the {what} {name!r} is declared twice", token)
        return name

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
        name = self._new_name("dimension", dimension.name, scope.dimensions)
        is_empty = dimension.size.type == "EMPTY"
        has_size = not is_empty and dimension.size.type != "UNLIMITED"
        size = self._size(dimension.size, "dimension") if has_size else 0
        # As in ncgen, a size of 0 declares an unlimited dimension.
        unlimited = not (size or is_empty)
        scope.dimensions[name] = DimensionState(name, model.join_fqn(scope.fqn, name), size, unlimited)

    def _size(self, token: Token, what: str) -> int:
        number = self._integer(token)
        # ncgen takes no bare 5000000000, which ncdump prints.
        if number is None or 0 <= number <= np.iinfo("i8").max:
            return 1 if number is None else number
        wrong = "negative" if number < 0 else "too large"
        self._problems.add(f"the size {number} of the {what} is {wrong}", token)
        return 1

    def _integer(self, token: Token) -> int | None:
        with self._problems.recording(token):
            constant = parse_constant(token)
            # ncgen takes hexadecimal sizes.
            if constant.kind == "opaque":
                return int(constant.value, 16)
            if constant.kind in PLAIN_INTEGERS:
                return int(constant.value)
            raise ConstantError(f"expected a plain integer, not {token}")
        # The context has recorded the error as a problem of the text.
        return None

    # Types.

    def _type(self, scope: GroupScope, token: Token) -> model.Type | None:
        """Return the type that a token names; None and a problem if there is none."""
        if token.type == "PRIMITIVE":
            return model.PRIMITIVES[ALIASES[str(token)]]
        try:
            return scope.find_type(token)
        except KeyError:
            name = clean_name(token)
            hint = did_you_mean(name, [*model.PRIMITIVES, *scope.visible("types")])
            self._problems.add(f"there is no type {name!r}", token, hint=hint)
            return None

    def _user_type(self, scope: GroupScope, part: tree.UserType) -> None:
        name = self._new_name("type", part.name, scope.types)
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
        scope.types[name] = made if made is not None and self._is_reasonable(made, part.name) else None

    def _enum(self, scope: GroupScope, fqn: str, enum: tree.Enum) -> model.EnumType | None:
        base = self._type(scope, enum.base)
        # HDF5 has enums of integers only.
        if not isinstance(base, model.PrimitiveType) or not base.is_integer:
            if base is not None:
                self._problems.add(f"an enum needs an integer type, not {base.name}", enum.base)
            return None
        members: dict[str, int] = {}
        for member in enum.members:
            name = self._new_name("member", member.name, members, check_text)
            value = self._integer(member.value)
            if value is None:
                continue
            limits = np.iinfo(base.dtype)
            if not limits.min <= value <= limits.max:
                self._problems.add(f"{value} is not a value of the type {base.name}", member.value)
                value = 0  # avoids follow-up problems where the member is used
            members[name] = value
        return model.EnumType(fqn, base, tuple(members.items()))

    def _opaque(self, fqn: str, opaque: tree.Opaque) -> model.OpaqueType | None:
        size = self._integer(opaque.size)
        # A few bytes of text could ask for more memory than there is.
        if size is not None and not 1 <= size <= self._most_bytes:
            wrong = f"an opaque type has 1 to {self._most_bytes} bytes, not {size}"
            self._problems.add(wrong, opaque.size, hint=_LARGER if size > 1 else None)
            return None
        return model.OpaqueType(fqn, size) if size is not None else None

    def _compound(self, scope: GroupScope, fqn: str, compound: tree.Compound) -> model.CompoundType | None:
        fields: dict[str, model.Field] = {}
        sound = True
        for group in compound.fields:
            type_ = self._type(scope, group.type)
            for field in group.fields:
                name = self._new_name("field", field.name, fields, check_text)
                shape = tuple(self._size(size, "field") for size in field.sizes)
                # In ncgen, the sizes of fields are literals above 0.
                if 0 in shape:
                    at = field.sizes[shape.index(0)].start_pos
                    self._problems.add(f"the field {name!r} has a dimension of size 0", at)
                    sound = False
                if type_ is not None:
                    fields[name] = model.Field(name, type_, shape)
                sound &= type_ is not None
        return model.CompoundType(fqn, tuple(fields.values())) if sound else None

    def _is_reasonable(self, type_: model.UserType, token: Token) -> bool:
        """Report a problem and return False for types that are nested too deeply or too large."""
        size = 0
        if isinstance(type_, model.CompoundType):
            size = sum(f.type.dtype.itemsize * math.prod(f.shape) for f in type_.fields)
        depths = [self._depth.get(part.fqn, 0) for part in model.parts_of(type_)]
        depth = self._depth[type_.fqn] = 1 + max(depths, default=0)
        if depth > self._deepest:
            wrong = f"more than {self._deepest} types inside each other"
            self._problems.add(wrong, token, hint=_DEEPER)
        if size > self._most_bytes:
            wrong = f"a value of the type {type_.name!r} has {size} bytes, more than {self._most_bytes}"
            self._problems.add(wrong, token, hint=_LARGER)
        return depth <= self._deepest and size <= self._most_bytes

    # Variables.

    def _variable(self, scope: GroupScope, type_: model.Type | None, variable: tree.Variable) -> None:
        name = self._new_name("variable", variable.name, scope.variables)
        dimensions = tuple(self._reference(scope, token) for token in variable.dimensions)
        fqn = model.join_fqn(scope.fqn, name)
        scope.variables[name] = VariableState(name, fqn, variable.name, type_, dimensions)

    def _reference(self, scope: GroupScope, token: Token) -> DimensionState | None:
        # An anonymous dimension is its size: with a name for it, dump and gen were no inverses.
        if token.type == "INTEGER":
            return DimensionState("", "", self._size(token, "dimension"))
        found = scope.find_dimension(token)
        if found is None:
            name = clean_name(token)
            hint = did_you_mean(name, scope.visible("dimensions"))
            self._problems.add(f"there is no dimension {name!r}", token, hint=hint)
        # netCDF finds dimensions in the groups above only, and ncgen accepts any path.
        elif wrong := check_reach(scope.fqn, found.fqn):
            self._problems.add(wrong, token, hint="declare the dimension in a group around both")
        return found

    def _assignment(self, scope: GroupScope, assignment: tree.Assignment) -> None:
        variable = scope.find_variable(assignment.owner)
        if variable is None:
            name = clean_name(assignment.owner)
            wrong = f"there is no variable {name!r} in the group {scope.fqn!r}"
            self._problems.add(wrong, assignment.owner, hint=did_you_mean(name, scope.variables))
            return
        if variable.data is not None:  # read it, though it has no effect, for its syntax errors
            list(expand(variable.data.items))
        variable.data = assignment.values
        variable.data_token = assignment.owner

    # Attributes.

    def _attribute(self, scope: GroupScope, attribute: tree.Attribute) -> None:
        *types, owner = attribute.words or (None,)
        variable = None
        # A variable's name takes precedence over a type's.
        if owner is not None and (types or owner.type != "PRIMITIVE"):
            variable = scope.find_variable(owner)
        if owner is None or variable is not None:
            pass
        # ncgen takes a name before the colon for a variable first, against its manual.
        elif not types and (owner.type == "PRIMITIVE" or scope.has_type(owner)):
            types = [owner]
        else:
            name = clean_name(owner)
            hint = did_you_mean(name, [*scope.variables, *scope.visible("types")])
            message = f"there is no variable {name!r} in the group {scope.fqn!r}, and no such type"
            self._problems.add(message, owner, hint=ORDER if name in _SECTIONS else hint)
            return
        token = attribute.name
        self._warn_of_second(variable or scope, token)
        with self._problems.recording(token):
            # ncgen's grammar has no type before a virtual attribute.
            if token in SPECIAL:
                for type_token in types:
                    self._problems.add(f"the special attribute {token} takes no type", type_token)
                self._special(variable, token, attribute.values.items)
                return
            type_ = self._type(scope, types[0]) if types else None
            if types and type_ is None:
                return
            name = name_of(token, self._problems, check_text)
            made = self._plain(variable, name, type_, attribute)
            if made is not None:
                (scope if variable is None else variable).attributes[name] = made

    def _warn_of_second(self, owner: GroupScope | VariableState, token: Token) -> None:
        first = self._given.setdefault((owner.fqn, owner.name, clean_name(token)), token)
        if first is not token:
            line = self._problems.source.error("", first.start_pos).line
            what = f"the attribute {clean_name(token)!r} of {owner.fqn} replaces the one in line {line}"
            self._problems.warn(what, token.start_pos)

    def _plain(
        self, variable: VariableState | None, name: str, type_: model.Type | None, attribute: tree.Attribute
    ) -> model.Attribute | None:
        items = attribute.values.items
        if name == "_FillValue":
            if variable is None:
                raise ConstantError("_FillValue is an attribute of variables only")
            # The type of the variable has a problem of its own, which is told once.
            if variable.type is None:
                return None
            return self._attributes.fill_value(variable.type, attribute.name, items, declared=type_)
        # netCDF-C refuses these names as well: String match to name in use.
        if variable is not None and name in _RESERVED:
            raise ConstantError(f"the attribute name {name!r} is reserved by netCDF")
        if type_ is None:
            return self._attributes.untyped(name, items)
        return self._attributes.typed(name, type_, items)

    def _special(self, variable: VariableState | None, token: Token, items: Sequence[tree.Value]) -> None:
        name = str(token)
        # In ncgen, these are syntax errors.
        if (variable is None) != (name in GLOBAL):
            owner = "the dataset" if name in GLOBAL else "a variable"
            raise ConstantError(f"{name} is an attribute of {owner} only")
        if variable is None:
            if name == "_Format":
                self._format = read_special(name, items)
        elif name in QUANTIZE:
            made = self._attributes.typed(QUANTIZE[name], model.PRIMITIVES["int"], items)
            if made is not None:
                variable.attributes[made.name] = made
        else:
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
        references = tuple([d.fqn or d.size for d in state.dimensions if d is not None])
        attributes = tuple(state.attributes.values())
        return model.Variable(
            state.name, state.type, references, attributes=attributes, storage=storage, data=data
        )

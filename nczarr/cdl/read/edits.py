"""Read the statements that change the metadata of a stored dataset: its names and types, and CDL's values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from lark import Token

from nczarr import model
from nczarr.cdl.read.analyzer import Analyzer
from nczarr.cdl.read.attributes import SPECIAL
from nczarr.cdl.read.scope import DimensionState, GroupScope, VariableState, clean_name, name_of, path_names
from nczarr.cdl.syntax import tree
from nczarr.cdl.syntax.constants import ConstantError
from nczarr.cdl.syntax.parser import parse_edits
from nczarr.cdl.syntax.source import Problems, SourceText
from nczarr.errors import CDLError
from nczarr.model.names import check_text
from nczarr.text import did_you_mean, nearest_name

_TEXT = (model.CHAR, model.STRING)


@dataclass(frozen=True)
class Edit:
    """One change of the metadata, with names of the dataset.

    Parameters
    ----------
    kind : {'attribute', 'dimension', 'variable', 'group'}
        The part that changes.
    owner : str
        The FQN of the variable or group with the attribute, or of the group with the node.
    name : str
    new : str or Attribute or None
        The new name, or the attribute that is set; None deletes the attribute.
    position : int
        The place in the text.
    """

    kind: Literal["attribute", "dimension", "variable", "group"]
    owner: str
    name: str
    new: str | model.Attribute | None
    position: int


class EditText:
    """The statements of a text, whose syntax is right.

    Parameters
    ----------
    text : str
    path : str, optional
        Origin of the text, for messages.

    Raises
    ------
    CDLError
        If the text is no list of statements; with line and column.

    Examples
    --------
    >>> dataset = model.Dataset("a", attributes=(model.Attribute.of("title", "run"),))
    >>> statements = EditText('append :title = " 42"; delete :title')
    >>> statements.read(0, dataset).new.text, statements.read(1, dataset).new
    ('run 42', None)
    """

    def __init__(self, text: str, path: str | None = None) -> None:
        raw = text.encode("utf-8", "surrogateescape").decode("latin-1")
        self._source = SourceText(raw, path)
        self._parts = parse_edits(self._source).parts

    def __len__(self) -> int:
        return len(self._parts)

    def read(self, number: int, dataset: model.Dataset) -> Edit:
        """Return what a statement changes in a dataset, after the changes of the statements before it.

        Raises
        ------
        CDLError
            If the dataset lacks a name, or a value does not fit; with line and column.
        """
        problems = Problems(self._source)
        found = _Reader(problems, dataset).edit(self._parts[number])
        problems.raise_all()
        assert found is not None
        return found

    def error(self, edit: Edit, message: str, hint: str | None = None) -> CDLError:
        """Return an error at the place of a statement."""
        return self._source.error(message, edit.position, hint=hint)


class _Reader(Analyzer):
    """Reads a statement by the declarations of a stored dataset."""

    def __init__(self, problems: Problems, dataset: model.Dataset) -> None:
        super().__init__(problems)
        self._dataset = dataset
        self._root = _scope_of(dataset, None)

    def edit(self, part: tree.Attribute | tree.Append | tree.Delete | tree.Rename) -> Edit | None:
        """Return the change; None if a problem is recorded."""
        if isinstance(part, tree.Attribute):
            return self._set(part)
        if isinstance(part, tree.Append):
            return self._set(part.attribute, adding=True)
        if isinstance(part, tree.Delete):
            return self._of_attribute(part.words, part.name, None)
        kind, *_ = part.words
        if kind.type == "KIND":
            return self._rename_node(part)
        *words, name = part.words
        return self._of_attribute(tuple(words), name, part.new)

    # Attributes.

    def _set(self, part: tree.Attribute, *, adding: bool = False) -> Edit | None:
        words = part.words
        owner = self._find(words[-1]) if words and words[-1].type != "PRIMITIVE" else None
        if owner is None and (len(words) == 2 or (words and not self._names_type(words[0]))):
            self._add_missing(words[-1])
            return None
        types = words[:-1] if owner is not None else words
        node = self._root if owner is None else owner
        # Chunks and compression change only with all values, which a copy writes.
        if part.name in SPECIAL:
            hint = "nczarr copy changes chunks, compression and format"
            self._problems.add(
                f"{part.name} describes the storage, which stays as it is", part.name, hint=hint
            )
            return None
        if not part.values.items:
            # CDL allows it, and a variable of a shell that is not set would empty the attribute.
            hint = 'a text without characters is "", and delete removes an attribute'
            self._problems.add("a value is missing", part.name, hint=hint)
            return None
        name = name_of(part.name, self._problems, check_text)
        with self._problems.recording(part.name):
            type_ = self._type(self._root, types[0]) if types else None
            if types and type_ is None:
                return None
            made = self._plain(node if isinstance(node, VariableState) else None, name, type_, part)
            if made is not None and adding:
                made = _joined(node.attributes.get(name), made)
            if made is not None:
                return Edit("attribute", node.fqn, name, made, part.name.start_pos or 0)
        return None

    def _names_type(self, token: Token) -> bool:
        return token.type == "PRIMITIVE" or self._root.has_type(token)

    def _of_attribute(self, words: tuple[Token, ...], name: Token, new: Token | None) -> Edit | None:
        """Return the change of an existing attribute."""
        node = self._find(words[0]) if words else self._root
        if node is None:
            self._add_missing(words[0])
            return None
        known = clean_name(name)
        if known not in node.attributes:
            hint = did_you_mean(known, node.attributes)
            self._problems.add(f"{node.fqn} has no attribute {known!r}", name, hint=hint)
            return None
        to = None if new is None else name_of(new, self._problems, check_text)
        return Edit("attribute", node.fqn, known, to, name.start_pos or 0)

    # Nodes.

    def _find(self, token: Token) -> GroupScope | VariableState | None:
        """Return the variable or group that a name or a path refers to."""
        return self._root.find_variable(token) or self._find_group(token)

    def _find_group(self, token: Token) -> GroupScope | None:
        names = path_names(token) if token.startswith("/") else [clean_name(token)]
        scope: GroupScope | None = self._root
        for name in names:
            scope = None if scope is None else scope.groups.get(name)
        return scope

    def _add_missing(self, token: Token) -> None:
        names = [*self._dataset.all_variables, *self._dataset.all_groups]
        hint = _hint(token, names)
        self._problems.add(f"there is no variable or group {clean_name(token)!r}", token, hint=hint)

    def _rename_node(self, part: tree.Rename) -> Edit | None:
        kind, token = part.words
        found: DimensionState | GroupScope | VariableState | None
        if kind == "variable":
            found, names = self._root.find_variable(token), list(self._dataset.all_variables)
        elif kind == "dimension":
            found, names = self._root.find_dimension(token), list(self._dataset.all_dimensions)
        else:
            found, names = self._find_group(token), list(self._dataset.all_groups)
        if found is None:
            self._problems.add(f"there is no {kind} {clean_name(token)!r}", token, hint=_hint(token, names))
            return None
        owner, name = model.split_fqn(found.fqn)
        new = name_of(part.new, self._problems)
        return Edit(kind.value, owner, name, new, token.start_pos or 0)


def _hint(token: Token, names: list[str]) -> str | None:
    """Return a hint with the path of the node whose name is the same or the most similar."""
    fqns = {model.split_fqn(fqn)[1]: fqn for fqn in reversed(names) if fqn != "/"}
    name = (path_names(token) if token.startswith("/") else [clean_name(token)])[-1]
    near = name if name in fqns else nearest_name(name, fqns)
    return None if near is None else f"did you mean {fqns[near]}?"


def _joined(before: model.Attribute | None, added: model.Attribute) -> model.Attribute:
    """Return an attribute with more text, in the type that it has; without one before, the new one."""
    if before is None:
        return added
    # Text behind numbers would change the type of the attribute.
    if before.type not in _TEXT or added.type not in _TEXT or len(added.values) == 0:
        raise ConstantError(f"append adds text to text, and the attribute {before.name!r} is no text")
    # More text could belong to any of them.
    if before.type == model.STRING and len(before.values) != 1:
        raise ConstantError(
            f"the attribute {before.name!r} has {len(before.values)} strings", hint="set all of them"
        )
    text = _bytes_of(before) + _bytes_of(added)
    if before.type == model.CHAR:
        return model.Attribute(before.name, model.CHAR, np.frombuffer(text, "S1"))
    return model.Attribute.of(before.name, text.decode("utf-8", "surrogateescape"), model.STRING)


def _bytes_of(attribute: model.Attribute) -> bytes:
    if attribute.type == model.CHAR:
        return attribute.values.tobytes().rstrip(b"\0")  # an empty text is one NUL
    return "".join(attribute.values).encode("utf-8", "surrogateescape")


def _scope_of(group: model.Group, parent: GroupScope | None) -> GroupScope:
    """Return the declarations of a stored group as those of a text."""
    scope = GroupScope("", "/") if parent is None else parent.child(group.name)
    scope.types.update((t.name, t) for t in group.types)
    scope.attributes.update((a.name, a) for a in group.attributes)
    for dimension in group.dimensions:
        fqn = model.join_fqn(scope.fqn, dimension.name)
        scope.dimensions[dimension.name] = DimensionState(dimension.name, fqn, dimension.size)
    for variable in group.variables:
        fqn, attributes = model.join_fqn(scope.fqn, variable.name), {a.name: a for a in variable.attributes}
        scope.variables[variable.name] = VariableState(
            variable.name, fqn, Token("IDENT", ""), variable.type, (), attributes
        )
    for child in group.groups:
        _scope_of(child, scope)
    return scope

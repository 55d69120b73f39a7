"""Rename variables, dimensions, groups and attributes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np

from nczarr.convert.change.choosing import NAMING, find_variable, named_by
from nczarr.errors import UnsupportedError
from nczarr.model import (
    CHAR,
    STRING,
    Attribute,
    CompoundType,
    Dataset,
    Group,
    Type,
    UserType,
    Variable,
    VlenType,
    check_name,
    format_fqn,
    join_fqn,
    normalize_name,
    parse_fqn,
    resolve,
    split_fqn,
)
from nczarr.model.names import check_length

_G = TypeVar("_G", bound=Group)


def rename(dataset: Dataset, names: Mapping[str, str]) -> Dataset:
    """Give nodes other names; what refers to them follows.

    Parameters
    ----------
    names : mapping
        From an FQN (``/a/b``), or that of an owner with an attribute behind an ``@`` (``/a/b@units``, ``/@title``),
        to a simple name. A variable and a dimension of one FQN, a coordinate, are renamed together. Attributes that
        name variables by the CF conventions (``coordinates``, ``bounds``, ``grid_mapping``, …) say the new names.

    Raises
    ------
    UnsupportedError
        If there is nothing of the name, or the new one is taken or not legal.

    Examples
    --------
    >>> from nczarr.model import Dimension, INT, Variable
    >>> d = Dataset("d", dimensions=(Dimension("x", 2),), variables=(Variable("v", INT, ("/x",)),))
    >>> rename(d, {"/x": "lon", "/v": "w"}).variables[0].dimensions
    ('/lon',)
    """
    if not names:
        return dataset
    for old, new in names.items():
        wrong = check_name(normalize_name(new)) or check_length(normalize_name(new))
        if wrong:
            raise UnsupportedError(f"--rename {old}={new}: {wrong}")
    renamer = _Renamer(dataset, names)
    made = renamer.group("/", dataset)
    unknown = sorted(set(names) - renamer.used)
    if unknown:
        raise UnsupportedError(
            f"--rename {unknown[0]}: there is nothing of this name",
            hint="a full name: /group/variable, or /variable@attribute",
        )
    return resolve(made)


class _Renamer:
    """Gives nodes and what refers to them their new names, and notes which of these were used."""

    def __init__(self, dataset: Dataset, names: Mapping[str, str]) -> None:
        self.dataset = dataset
        self.names = names
        self.used: set[str] = set()

    def group(self, fqn: str, old: _G) -> _G:
        groups = [(join_fqn(fqn, g.name), g) for g in old.groups]
        made = replace(
            old,
            attributes=self.attributes(fqn, old.attributes),
            types=tuple(self.user_type(t) for t in old.types),
            dimensions=tuple(
                replace(d, name=self.name(join_fqn(fqn, d.name), d.name)) for d in old.dimensions
            ),
            variables=tuple(self.variable(join_fqn(fqn, v.name), v) for v in old.variables),
            groups=tuple(replace(self.group(at, g), name=self.name(at, g.name)) for at, g in groups),
        )
        _refuse_twins(fqn, made)
        return made

    def variable(self, fqn: str, old: Variable) -> Variable:
        return replace(
            old,
            name=self.name(fqn, old.name),
            type=self.type(old.type),
            dimensions=tuple(r if isinstance(r, int) else self.dimension(r) for r in old.dimensions),
            attributes=self.attributes(fqn, tuple(self.naming(fqn, a) for a in old.attributes)),
        )

    def naming(self, owner: str, old: Attribute) -> Attribute:
        """An attribute whose words are names of variables, with their new names."""
        if old.name not in NAMING or old.type not in (CHAR, STRING):
            return old
        group = split_fqn(owner)[0]

        def word(found: re.Match[str]) -> str:
            bare = named_by(found[0], old.name)
            fqn = find_variable(self.dataset, bare, group)
            if fqn is None:
                return found[0]
            new = self.dimension(fqn)
            said = new if bare.startswith("/") else format_fqn(parse_fqn(new)[-bare.count("/") - 1 :])[1:]
            # A name with a blank cannot be said in a list of words.
            return found[0] if fqn == new or " " in said else found[0].replace(bare, said)

        if old.type is STRING:
            values = np.empty(len(old.values), object)
            values[:] = [re.sub(r"[^\s\0]+", word, text) for text in old.values]
        else:
            text = re.sub(r"[^\s\0]+", word, old.values.tobytes().decode("utf-8", "surrogateescape"))
            values = np.frombuffer(text.encode("utf-8", "surrogateescape"), "S1")
        return replace(old, values=values)

    def attributes(self, owner: str, old: tuple[Attribute, ...]) -> tuple[Attribute, ...]:
        return tuple(
            replace(a, name=self.name(f"{owner}@{a.name}", a.name), type=self.type(a.type)) for a in old
        )

    def name(self, fqn: str, old: str) -> str:
        """The simple name of what has an FQN."""
        if fqn not in self.names:
            return old
        self.used.add(fqn)
        return normalize_name(self.names[fqn])

    def inside(self, fqn: str) -> str:
        """The FQN under the new names of the groups."""
        parts = parse_fqn(fqn)
        groups = [self.name(format_fqn(parts[: i + 1]), part) for i, part in enumerate(parts[:-1])]
        return format_fqn([*groups, *parts[-1:]])

    def dimension(self, fqn: str) -> str:
        """The reference to a dimension, and the FQN of a variable."""
        group, name = split_fqn(self.inside(fqn))
        return join_fqn(group, self.name(fqn, name))

    def type(self, old: Type) -> Type:
        return self.user_type(old) if isinstance(old, UserType) else old

    def user_type(self, old: UserType) -> UserType:
        fqn = self.inside(old.fqn)
        if isinstance(old, CompoundType):
            return replace(old, fqn=fqn, fields=tuple(replace(f, type=self.type(f.type)) for f in old.fields))
        if isinstance(old, VlenType):
            return replace(old, fqn=fqn, base=self.type(old.base))
        return replace(old, fqn=fqn)


def _refuse_twins(fqn: str, group: Group) -> None:
    owners = [(fqn, group.attributes), *((join_fqn(fqn, v.name), v.attributes) for v in group.variables)]
    lists = [("attribute", owner, [a.name for a in given]) for owner, given in owners]
    members = [
        *(v.name for v in group.variables),
        *(g.name for g in group.groups),
        *(t.name for t in group.types),
    ]
    lists.append(("dimension", fqn, [d.name for d in group.dimensions]))
    lists.append(("variable, group or type", fqn, members))
    for what, owner, names in lists:
        twin = next((n for i, n in enumerate(names) if n in names[:i]), None)
        if twin is not None:
            raise UnsupportedError(f"--rename: {owner} would have two of the name {twin!r}: {what}")

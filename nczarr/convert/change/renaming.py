"""Rename variables, dimensions, groups and attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from nczarr.errors import UnsupportedError
from nczarr.model import (
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

_G = TypeVar("_G", bound=Group)


def rename(dataset: Dataset, names: Mapping[str, str]) -> Dataset:
    """Give nodes other names; what refers to them follows.

    Parameters
    ----------
    names : mapping
        From an FQN (``/a/b``), or that of an owner with an attribute behind an ``@`` (``/a/b@units``, ``/@title``),
        to a simple name. A variable and a dimension of one FQN, a coordinate, are renamed together.

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
        wrong = check_name(normalize_name(new))
        if wrong:
            raise UnsupportedError(f"--rename {old}={new}: {wrong}")
    renamer = _Renamer(names)
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

    def __init__(self, names: Mapping[str, str]) -> None:
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
            attributes=self.attributes(fqn, old.attributes),
        )

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
        """The reference to a dimension."""
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

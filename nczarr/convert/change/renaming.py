"""Rename variables, dimensions, groups and attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    used: set[str] = set()
    for old, new in names.items():
        wrong = check_name(normalize_name(new))
        if wrong:
            raise UnsupportedError(f"--rename {old}={new}: {wrong}")

    def new_name(fqn: str, old: str) -> str:
        if fqn in names:
            used.add(fqn)
            return normalize_name(names[fqn])
        return old

    def moved(fqn: str) -> str:
        parts = parse_fqn(fqn)
        made = [
            new_name(format_fqn(parts[: i + 1]), part) if i < len(parts) - 1 else part
            for i, part in enumerate(parts)
        ]
        return format_fqn(made)

    def moved_last(fqn: str) -> str:
        group, name = split_fqn(moved(fqn))
        return join_fqn(group, new_name(fqn, name))

    def attributes(owner: str, given: tuple[Attribute, ...]) -> tuple[Attribute, ...]:
        made = []
        for a in given:
            key = f"{owner}@{a.name}"
            if key in names:
                used.add(key)
                a = replace(a, name=normalize_name(names[key]))
            made.append(replace(a, type=_moved_type(a.type, moved)))
        return tuple(made)

    def inside(fqn: str, old: _G) -> _G:
        groups = []
        for g in old.groups:
            at = join_fqn(fqn, g.name)
            groups.append(replace(inside(at, g), name=new_name(at, g.name)))
        made = replace(
            old,
            attributes=attributes(fqn, old.attributes),
            types=tuple(_moved_user_type(t, moved) for t in old.types),
            dimensions=tuple(
                replace(d, name=new_name(join_fqn(fqn, d.name), d.name)) for d in old.dimensions
            ),
            variables=tuple(
                replace(
                    v,
                    name=new_name(join_fqn(fqn, v.name), v.name),
                    type=_moved_type(v.type, moved),
                    dimensions=tuple(r if isinstance(r, int) else moved_last(r) for r in v.dimensions),
                    attributes=attributes(join_fqn(fqn, v.name), v.attributes),
                )
                for v in old.variables
            ),
            groups=tuple(groups),
        )
        _refuse_twins(fqn, made)
        return made

    made = inside("/", dataset)
    unknown = sorted(set(names) - used)
    if unknown:
        raise UnsupportedError(
            f"--rename {unknown[0]}: there is nothing of this name",
            hint="a full name: /group/variable, or /variable@attribute",
        )
    return resolve(made)


def _moved_type(type_: Type, moved: Callable[[str], str]) -> Type:
    return _moved_user_type(type_, moved) if isinstance(type_, UserType) else type_


def _moved_user_type(type_: UserType, moved: Callable[[str], str]) -> UserType:
    fqn = moved(type_.fqn)
    if isinstance(type_, CompoundType):
        fields = tuple(replace(f, type=_moved_type(f.type, moved)) for f in type_.fields)
        return replace(type_, fqn=fqn, fields=fields)
    if isinstance(type_, VlenType):
        return replace(type_, fqn=fqn, base=_moved_type(type_.base, moved))
    return replace(type_, fqn=fqn)


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

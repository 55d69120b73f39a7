"""Find types that are used before they are declared, and put types in an order in which none is.

The model binds references in any order. CDL and netCDF-4 files are read from the front: a group's types, its
variables, then the groups inside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nczarr.model.names import join_fqn
from nczarr.model.nodes import Dataset
from nczarr.model.types import CompoundType, Type, UserType, VlenType


def ordered_types(types: Iterable[UserType]) -> list[UserType]:
    """Return the types of a group, in declared order but each after those that it is built on.

    Examples
    --------
    >>> from nczarr.model.types import INT
    >>> inner = VlenType("/inner", INT)
    >>> [t.name for t in ordered_types([VlenType("/outer", inner), inner])]
    ['inner', 'outer']
    """
    own = {type_.fqn: type_ for type_ in types}
    ordered: list[UserType] = []
    seen: set[str] = set()

    def visit(type_: Type) -> None:
        if isinstance(type_, UserType) and type_.fqn not in seen:
            seen.add(type_.fqn)
            for inside in _inside(type_):
                visit(inside)
            if type_.fqn in own:
                ordered.append(own[type_.fqn])

    for type_ in own.values():
        visit(type_)
    return ordered


def forward_references(dataset: Dataset, *, attributes: bool = True) -> Iterator[tuple[str, UserType]]:
    """Yield the FQNs of types and variables that use a type of a group that comes later, and that type.

    With `attributes`, groups and variables whose attributes do so are found too.

    Examples
    --------
    >>> from nczarr.model import INT, Group, OpaqueType, Variable
    >>> late = OpaqueType("/g/late", 4)
    >>> dataset = Dataset("d", variables=(Variable("v", late, ()),), groups=(Group("g", types=(late,)),))
    >>> [(fqn, type_.fqn) for fqn, type_ in forward_references(dataset)]
    [('/v', '/g/late')]
    """
    declared: set[str] = set()

    def late(fqn: str, used: Iterable[Type]) -> Iterator[tuple[str, UserType]]:
        for type_ in used:
            if isinstance(type_, UserType) and type_.fqn not in declared:
                yield fqn, type_

    for fqn, group in dataset.walk():
        declared.update(type_.fqn for type_ in group.types)
        for type_ in group.types:
            yield from late(type_.fqn, _inside(type_))
        for variable in group.variables:
            used = [variable.type, *(a.type for a in variable.attributes if attributes)]
            yield from late(join_fqn(fqn, variable.name), used)
        if attributes:
            yield from late(fqn, [a.type for a in group.attributes])


def parts_of(type_: Type) -> list[UserType]:
    """Return the user-defined types that a type is built on, directly.

    Examples
    --------
    >>> from nczarr.model.types import INT
    >>> inner = VlenType("/inner", INT)
    >>> [part.fqn for part in parts_of(VlenType("/outer", inner))], parts_of(inner)
    (['/inner'], [])
    """
    return [part for part in _inside(type_) if isinstance(part, UserType)]


def _inside(type_: Type) -> list[Type]:
    if isinstance(type_, CompoundType):
        return [field.type for field in type_.fields]
    return [type_.base] if isinstance(type_, VlenType) else []

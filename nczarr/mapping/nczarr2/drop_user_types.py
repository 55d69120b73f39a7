"""Drop what a layout without user-defined types cannot hold of a model."""

from __future__ import annotations

from dataclasses import replace

from nczarr.model import Attribute, Dataset, EnumType, Group, PrimitiveType, Variable, join_fqn


def without_user_types(dataset: Dataset) -> tuple[Dataset, list[tuple[str, str]]]:
    """Return a dataset without user-defined types, and what is lost by it.

    Variables and attributes of an enum become those of its integer type; those of other types are dropped.

    Returns
    -------
    Dataset
        The same object if nothing is lost.
    list of (str, str)
        FQN and what is lost there.

    Examples
    --------
    >>> from nczarr.model import BYTE
    >>> sky = EnumType("/sky", BYTE, (("clear", 0),))
    >>> held, lost = without_user_types(Dataset("d", types=(sky,), variables=(Variable("v", sky),)))
    >>> held.variables[0].type, lost
    (BYTE, [('/sky', "the enum type 'sky'"), ('/v', "the names of the enum type 'sky'; the numbers are kept")])
    """
    losses: list[tuple[str, str]] = []

    def group(fqn: str, node: Group) -> Group:
        losses.extend((t.fqn, f"the {t.kind} type {t.name!r}") for t in node.types)
        return replace(
            node,
            types=(),
            attributes=attributes(fqn, node.attributes),
            variables=tuple(v for old in node.variables for v in variable(join_fqn(fqn, old.name), old)),
            groups=tuple(group(join_fqn(fqn, g.name), g) for g in node.groups),
        )

    def variable(fqn: str, old: Variable) -> list[Variable]:
        kept = attributes(fqn, old.attributes)
        if isinstance(old.type, PrimitiveType):
            return [replace(old, attributes=kept) if kept != old.attributes else old]
        if isinstance(old.type, EnumType):
            losses.append((fqn, f"the names of the enum type {old.type.name!r}; the numbers are kept"))
            return [replace(old, type=old.type.base, attributes=kept)]
        losses.append((fqn, f"the variable, of the user-defined type {old.type.name!r}"))
        return []

    def attributes(fqn: str, old: tuple[Attribute, ...]) -> tuple[Attribute, ...]:
        kept = []
        for a in old:
            if isinstance(a.type, PrimitiveType):
                kept.append(a)
                continue
            if isinstance(a.type, EnumType):
                kept.append(replace(a, type=a.type.base))
            losses.append((fqn, f"the type {a.type.name!r} of the attribute {a.name!r}"))
        return tuple(kept)

    held = group("/", dataset)
    assert isinstance(held, Dataset)
    return (held if losses else dataset), losses

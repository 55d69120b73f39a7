"""List the parts that a new model adds to an old one, and those that a stored form cannot hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from nczarr.dataclass import dataclass
from nczarr.model.nodes import Attribute, Dataset, Group, Variable, rewrite


@dataclass(frozen=True)
class Restrictions:
    """Restrictions of a file format or layout. An editor checks them before each change.

    Parameters
    ----------
    limited : frozenset of str
        Kinds of parts (``"attribute"``, ``"name"``, ``"type"``, ``"variable"``) of which the form cannot hold all
        that the model allows.
    one_name_space : bool
        Dimensions, variables, groups and types of a group share one name space.
    types_first : bool
        Readers go through the file group by group, and do not find types of later groups.
    names_without_slash : bool
        No name of a node contains ``/``.
    renamed_last : bool
        A rename moves a variable or group to the end of its group.
    strings_end_at_nul : bool
        Strings end at the first NUL.
    strings_outside_chunks : bool
        Chunks of strings and sequences contain references only.
    without_shards : bool
        Chunks are not put into shards.
    reserved_names : frozenset of str
        Names of attributes that the form itself uses.
    omitted : frozenset of str
        FQNs of nodes that readers leave out. Their names are in use, and their groups keep their names.

    Examples
    --------
    >>> Restrictions(one_name_space=True).types_first
    False
    """

    limited: frozenset[str] = frozenset()
    one_name_space: bool = False
    types_first: bool = False
    names_without_slash: bool = False
    renamed_last: bool = False
    strings_end_at_nul: bool = False
    strings_outside_chunks: bool = False
    without_shards: bool = False
    reserved_names: frozenset[str] = frozenset()
    omitted: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Addition:
    """One new part of a model: a type, a dimension, a group, a variable, or an attribute of a group or variable."""

    kind: str
    fqn: str
    attribute: str | None = None

    def __str__(self) -> str:
        return self.fqn if self.attribute is None else f"{self.fqn}, attribute {self.attribute!r}"


def parts_of(old: Dataset, new: Dataset) -> list[Addition]:
    """Return the parts of `new` that `old` lacks; a part follows the parts that it uses."""
    parts = [Addition("type", fqn) for fqn in new.all_types if fqn not in old.all_types]
    parts += [Addition("dimension", fqn) for fqn in new.all_dimensions if fqn not in old.all_dimensions]
    parts += [Addition("group", fqn) for fqn in new.all_groups if fqn not in old.all_groups]
    before = _owners(old)
    for fqn, owner in _owners(new).items():
        previous = before.get(fqn)
        if previous is None and isinstance(owner, Variable) and not _is_renamed(old, owner):
            parts.append(Addition("variable", fqn))
        current = {} if previous is None else previous.attribute
        parts += [
            Addition("attribute", fqn, a.name)
            for a in owner.attributes
            # netCDF-C takes _FillValue with the variable; it is no addition of its own.
            if a.name != "_FillValue" and current.get(a.name) is not a and current.get(a.name) != a
        ]
    return parts


def known_variables(new: Dataset, data: Mapping[str, object]) -> dict[str, str]:
    """Return the old FQN of each variable of the new model that exists already, by its new FQN.

    `data` has the data of the old variables, which identify them, or else their names do.
    """
    # A renamed variable keeps its values, so the object of its source tells it.
    by_id = {id(values): fqn for fqn, values in data.items()}
    found: dict[str, str] = {}
    for fqn, variable in new.all_variables.items():
        before = by_id.pop(id(variable.data), None)
        if before is not None:
            found[fqn] = before
    used = set(found.values())
    # A variable whose values were replaced has its name still.
    rest = [fqn for fqn in new.all_variables if fqn in data and fqn not in found and fqn not in used]
    return found | dict(zip(rest, rest, strict=True))


_T = TypeVar("_T")


def without(new: Dataset, old: Dataset, parts: Sequence[Addition]) -> Dataset:
    """Return `new` without some of its new parts; excluded attributes keep their values from `old`."""
    excluded = set(parts)
    before = _owners(old)

    def kept(kind: str) -> Callable[[str, _T], _T | None]:
        return lambda fqn, node: None if Addition(kind, fqn) in excluded else node

    def attribute(fqn: str, node: Attribute) -> Attribute | None:
        if Addition("attribute", fqn, node.name) not in excluded:
            return node
        return before[fqn].attribute.get(node.name) if fqn in before else None

    return rewrite(
        new,
        attribute=attribute,
        user_type=kept("type"),
        dimension=kept("dimension"),
        variable=kept("variable"),
        group=lambda fqn: Addition("group", fqn) not in excluded,
    )


def _owners(dataset: Dataset) -> dict[str, Group | Variable]:
    """Return the groups and variables of a dataset by FQN; no group shares its FQN with a variable."""
    return {**dataset.all_groups, **dataset.all_variables}


def _is_renamed(old: Dataset, variable: Variable) -> bool:
    """Return True if `old` has the variable's data under another name."""
    return variable.data is not None and any(v.data is variable.data for v in old.all_variables.values())

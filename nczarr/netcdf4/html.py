"""Show datasets, groups and variables as HTML, with the properties of their Zarr arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from nczarr.display import (
    ArrayDescription,
    Each,
    GroupDescription,
    format_bytes,
    show_array,
    show_group,
    show_members,
)
from nczarr.errors import NCZarrError
from nczarr.mapping import VariableData
from nczarr.model import CHAR, STRING
from nczarr.model.coordinates import corners
from nczarr.model.describe import describe_attribute, describe_dimension, describe_type, describe_variable
from nczarr.session import GroupNode, Session, VariableNode
from nczarr.zarr.describe import MOST_COUNTED, describe_array, describe_metadata

#: Most variables of a dataset whose total size is told.
_MOST_SUMMED = 10_000


def html_of(session: Session, node: GroupNode | VariableNode, facts: tuple[tuple[str, str], ...] = ()) -> str:
    """Return the HTML of a variable or group; with its facts, of the dataset."""
    describe = _Describer(session)
    with node.tree.lock:
        if isinstance(node, GroupNode):
            return show_group(describe.group(node, (*_total(node), *facts) if facts else ()))
        return show_array(describe.variable(node))


def html_of_members(session: Session, nodes: Sequence[GroupNode | VariableNode]) -> str:
    """Return the HTML of the variables, or of the groups, of a group."""
    describe = _Describer(session)
    groups = [node for node in nodes if isinstance(node, GroupNode)]
    variables = [node for node in nodes if isinstance(node, VariableNode)]
    with session.tree.lock:
        found = describe.members(GroupDescription("", groups=Each(groups, describe.group)), variables)
        return show_members("Groups" if groups else "Variables", found)


def _total(node: GroupNode) -> Iterator[tuple[str, str]]:
    """Yield the number of bytes that the values of all variables take in memory."""
    variables = [v for _, v in zip(range(_MOST_SUMMED + 1), node.walk_variables(), strict=False)]
    if len(variables) <= _MOST_SUMMED:
        sizes = [math.prod(d.size for d in v.dimensions) * v.type.dtype.itemsize for v in variables]
        yield "size", f"{format_bytes(sum(sizes))} in {len(sizes):,} variable{'s'[: len(sizes) != 1]}"


def _coordinates(variables: Sequence[VariableNode]) -> set[str]:
    """Return the names of the variables that are coordinates of others: by their dimension, or named by these."""
    if len(variables) > _MOST_SUMMED:
        return set()
    lists = (v.attributes.get("coordinates") for v in variables)
    texts = (a.text for a in lists if a is not None and a.type in (CHAR, STRING))
    named = {name for text in texts for name in text.split()}
    return {v.name for v in variables if v.name in named or [d.name for d in v.dimensions] == [v.name]}


class _Describer:
    """Describes the nodes of one session for one page, and counts the chunks that it has looked at."""

    def __init__(self, session: Session) -> None:
        self._session, self._left = session, MOST_COUNTED

    def group(self, node: GroupNode, facts: tuple[tuple[str, str], ...] = ()) -> GroupDescription:
        """Describe a group with its members."""
        group = GroupDescription(
            node.name,
            "Group" if node.parent is not None else "Dataset",
            Each([d for d in node.dimensions.values() if not d.anonymous], describe_dimension),
            Each([t.type for t in node.types], describe_type),
            attributes=Each(list(node.attributes.values()), describe_attribute),
            groups=Each(list(node.groups.values()), self.group),
            facts=facts,
        )
        return self.members(group, list(node.variables.values()))

    def members(self, group: GroupDescription, variables: Sequence[VariableNode]) -> GroupDescription:
        """Add variables to a group, coordinates apart from data."""
        coordinates = _coordinates(variables)
        parts = ([v for v in variables if (v.name in coordinates) == is_one] for is_one in (True, False))
        first, others = (Each(part, self.variable) for part in parts)
        return replace(group, coordinates=first, arrays=others)

    def variable(self, node: VariableNode) -> ArrayDescription:
        """Describe a variable, with the properties of its Zarr array if there is one and the store can be read."""
        session, variable = self._session, node.freeze()
        described = describe_variable(variable, {str(d.ref): d for d in node.dimensions})
        try:
            data = None if node.stored_as is None else session.stored.data(node.stored_as)
            if not isinstance(data, VariableData):
                if data is not None and not session.writable and "://" not in session.name:
                    return replace(described, values=corners(variable, data, described.chunks))
                return described
            if data.array.nchunks > self._left:  # counting its chunks would take long
                stored = describe_metadata(data.array.metadata)
            else:
                self._left -= data.array.nchunks
                stored = describe_array(data.array)
        except (NCZarrError, OSError):
            return described
        is_counted = stored.stored is not None  # so the data are near
        values = corners(variable, data, stored.chunks) if is_counted and not session.writable else ""
        rank = len(described.axes)
        return replace(
            described,
            chunks=None if stored.chunks is None else stored.chunks[:rank],
            shards=None if stored.shards is None else stored.shards[:rank],
            codecs=stored.codecs,
            stored=stored.stored,
            values=values,
            facts=tuple(fact for fact in stored.facts if fact[0] != "store"),
        )

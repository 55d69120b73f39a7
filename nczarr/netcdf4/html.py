"""Show datasets, groups and variables as HTML, with the properties of their Zarr arrays."""

from __future__ import annotations

from dataclasses import replace

from nczarr.display import ArrayDescription, Each, GroupDescription, show_array, show_group
from nczarr.errors import NCZarrError
from nczarr.mapping import VariableData
from nczarr.model.coordinates import preview
from nczarr.model.describe import describe_attribute, describe_dimension, describe_type, describe_variable
from nczarr.session import GroupNode, Session, VariableNode
from nczarr.zarr.describe import MOST_COUNTED, describe_array, describe_metadata


def html_of(session: Session, node: GroupNode | VariableNode, facts: tuple[tuple[str, str], ...] = ()) -> str:
    """Return the HTML of a variable or group; with its facts, of the dataset."""
    left = MOST_COUNTED

    def describe_group(node: GroupNode, facts: tuple[tuple[str, str], ...] = ()) -> GroupDescription:
        return GroupDescription(
            node.name,
            "Group" if node.parent is not None else "Dataset",
            Each([d for d in node.dimensions.values() if not d.anonymous], describe_dimension),
            Each([t.type for t in node.types], describe_type),
            Each(list(node.variables.values()), describe),
            Each(list(node.attributes.values()), describe_attribute),
            Each(list(node.groups.values()), describe_group),
            facts=facts,
        )

    def describe(node: VariableNode) -> ArrayDescription:
        """Describe a variable, with the properties of its Zarr array if there is one and the store can be read."""
        nonlocal left
        variable = node.freeze()
        described = describe_variable(variable, {str(d.ref): d for d in node.dimensions})
        try:
            data = None if node.stored_as is None else session.stored.data(node.stored_as)
            if not isinstance(data, VariableData):
                if data is not None and not session.writable and "://" not in session.name:
                    return replace(described, values=preview(variable, data, described.chunks))
                return described
            if data.array.nchunks > left:  # counting its chunks would take long
                stored = describe_metadata(data.array.metadata)
            else:
                left -= data.array.nchunks
                stored = describe_array(data.array)
        except (NCZarrError, OSError):
            return described
        is_counted = stored.stored is not None  # so the data are near
        values = preview(variable, data, stored.chunks) if is_counted and not session.writable else ""
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

    with node.tree.lock:
        return (
            show_group(describe_group(node, facts))
            if isinstance(node, GroupNode)
            else show_array(describe(node))
        )

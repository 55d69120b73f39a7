"""Describe datasets, groups and variables that are open for :mod:`nczarr.display`.

Works on the nodes of the tree, so that the classes that show them can use it.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from nczarr.display import ArrayDescription, Each, GroupDescription, show_array, show_group
from nczarr.errors import NCZarrError
from nczarr.model.describe import describe_attribute, describe_dimension, describe_type
from nczarr.model.describe import describe_variable as describe_model_variable
from nczarr.zarr.describe import MOST_COUNTED, describe_array


def group_html(session: Any, node: Any, facts: tuple[tuple[str, str], ...]) -> str:
    """Return the HTML of a group, or of the dataset if it is the root."""
    with node.state.lock:
        return show_group(_Describer(session).group(node, facts))


def variable_html(session: Any, node: Any) -> str:
    """Return the HTML of a variable."""
    with node.state.lock:
        return show_array(_Describer(session).variable(node))


class _Describer:
    """Describes what is looked at; chunks are counted as long as that is quick."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._left = MOST_COUNTED

    def group(self, node: Any, facts: tuple[tuple[str, str], ...] = ()) -> GroupDescription:
        return GroupDescription(
            node.name,
            "Group" if node.parent is not None else "Dataset",
            Each([d for d in node.dimensions.values() if not d.anonymous], describe_dimension),
            Each([t.type for t in node.types], describe_type),
            Each(list(node.variables.values()), self.variable),
            Each(list(node.attributes.values()), describe_attribute),
            Each(list(node.groups.values()), self.group),
            facts=facts,
        )

    def variable(self, node: Any) -> ArrayDescription:
        frozen = SimpleNamespace(
            name=node.name,
            type=node.type,
            dimensions=tuple(str(d.ref) for d in node.dimensions),
            attributes=list(node.attributes.values()),
            storage=node.storage,
            data=None,
        )
        described = describe_model_variable(frozen, {str(d.ref): d for d in node.dimensions})
        axes = tuple(
            replace(axis, name=None) if d.anonymous else axis
            for axis, d in zip(described.axes, node.dimensions)
        )
        return self._with_store(replace(described, axes=axes), node)

    def _with_store(self, described: ArrayDescription, node: Any) -> ArrayDescription:
        """Say how the array in the store is, where there is one; what cannot be found out is left out."""
        if node.stored_as is None:
            return described
        try:
            array = getattr(self._session.stored.data(node.stored_as), "array", None)
            if array is None:
                return described
            if array.nchunks > self._left:
                array = SimpleNamespace(
                    **{n: getattr(array, n) for n in ("metadata", "path", "nchunks")}, store=_NoStore
                )
            else:
                self._left -= array.nchunks
            stored = describe_array(array)
        except (NCZarrError, OSError):
            return described
        rank = len(described.axes)
        return replace(
            described,
            chunks=None if stored.chunks is None else stored.chunks[:rank],
            inner_chunks=None if stored.inner_chunks is None else stored.inner_chunks[:rank],
            codecs=stored.codecs,
            stored=stored.stored,
            facts=tuple(fact for fact in stored.facts if fact[0] != "store"),
        )


class _NoStore:
    """In the place of a store whose chunks would take long to count."""

    url = ""

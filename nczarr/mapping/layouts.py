"""The layouts that nczarr knows, in the order in which they are tried on reading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nczarr.errors import UnsupportedError
from nczarr.mapping.layout import Known, Layout, Plan, Reading
from nczarr.mapping.nczarr2.dialects import find_dialect
from nczarr.mapping.nczarr2.read import read_nczarr_v2
from nczarr.mapping.nczarr2.write import plan_nczarr_v2
from nczarr.mapping.nczarr3.read import is_nczarr_v3, read_nczarr_v3
from nczarr.mapping.nczarr3.write import plan_nczarr_v3
from nczarr.mapping.node_names import NodeNames
from nczarr.mapping.options import WriteOptions
from nczarr.mapping.plain.read import read_plain
from nczarr.mapping.plain.write import plan_plain_v3
from nczarr.mapping.plain.write_older import plan_draft_2019, plan_plain_v2
from nczarr.model import Dataset
from nczarr.zarr.hierarchy.hierarchy import Hierarchy


def _is_nczarr_v2(hierarchy: Hierarchy) -> bool:
    return not hierarchy.is_array("") and find_dialect(hierarchy) is not None


def _always(hierarchy: Hierarchy) -> bool:
    return True


@dataclass(frozen=True)
class _Layout:
    """A layout made of three functions; see :class:`nczarr.mapping.layout.Layout`."""

    name: str
    zarr_layout: str
    #: The engine's layouts in which it is found.
    found_in: frozenset[str]
    recognise: Callable[[Hierarchy], bool]
    reader: Callable[[Hierarchy, str], Reading]
    planner: Callable[[Dataset, WriteOptions, NodeNames, Known | None], Plan]

    def can_read(self, hierarchy: Hierarchy) -> bool:
        return hierarchy.layout in self.found_in and self.recognise(hierarchy)

    def read(self, hierarchy: Hierarchy, name: str) -> Reading:
        return self.reader(hierarchy, name)

    def plan(
        self, dataset: Dataset, options: WriteOptions, names: NodeNames, known: Known | None = None
    ) -> Plan:
        return self.planner(dataset, options, names, known)


_V3 = frozenset({"v3"})
_V2 = frozenset({"v2"})
_DRAFTS = frozenset({"draft-2019", "experimental-v3"})

LAYOUTS: tuple[Layout, ...] = (
    _Layout("nczarr-v3", "v3", _V3, is_nczarr_v3, read_nczarr_v3, plan_nczarr_v3),
    _Layout("nczarr-v2", "v2", _V2, _is_nczarr_v2, read_nczarr_v2, plan_nczarr_v2),
    _Layout("draft-2019", "draft-2019", _DRAFTS, is_nczarr_v3, read_nczarr_v3, plan_draft_2019),
    _Layout("zarr-v2", "v2", _V2, _always, read_plain, plan_plain_v2),
    _Layout("zarr-v3", "v3", _V3 | _DRAFTS, _always, read_plain, plan_plain_v3),
)


def layout_of(hierarchy: Hierarchy) -> Layout:
    """Return the layout that can read a hierarchy.

    Raises
    ------
    UnsupportedError
        If none can.
    """
    for layout in LAYOUTS:
        if layout.can_read(hierarchy):
            return layout
    raise UnsupportedError(
        f"nczarr has no reader for the Zarr layout {hierarchy.layout!r}", path=hierarchy.store.url
    )


def layout_named(name: str) -> Layout:
    """Return the layout with a name.

    Raises
    ------
    UnsupportedError
        If nczarr cannot write it.

    Examples
    --------
    >>> layout_named("nczarr-v3").zarr_layout
    'v3'
    """
    for layout in LAYOUTS:
        if layout.name == name:
            return layout
    raise UnsupportedError(
        f"the layout {name!r} cannot be written", hint=f"known are {', '.join(x.name for x in LAYOUTS)}"
    )

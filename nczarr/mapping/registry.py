"""The layouts that nczarr knows, in the order in which they are tried on reading."""

from __future__ import annotations

from nczarr.errors import UnsupportedError
from nczarr.mapping.layout import Known, Layout, Plan, Reading
from nczarr.mapping.nczarr_v2 import find_dialect
from nczarr.mapping.nczarr_v2_read import read_nczarr_v2
from nczarr.mapping.nczarr_v2_write import plan_nczarr_v2
from nczarr.mapping.nczarr_v3_read import is_nczarr_v3, read_nczarr_v3
from nczarr.mapping.nczarr_v3_write import plan_nczarr_v3
from nczarr.mapping.node_names import NodeNames
from nczarr.mapping.options import WriteOptions
from nczarr.mapping.plain_read import read_plain
from nczarr.mapping.plain_v3_write import plan_plain_v3
from nczarr.model import Dataset
from nczarr.zarr.hierarchy import Hierarchy

__all__ = ["LAYOUTS", "layout_named", "layout_of"]


class NCZarrV3:
    """NCZarr on Zarr v3."""

    name = "nczarr-v3"
    zarr_layout = "v3"

    def can_read(self, hierarchy: Hierarchy) -> bool:
        return is_nczarr_v3(hierarchy)

    def read(self, hierarchy: Hierarchy, name: str) -> Reading:
        return read_nczarr_v3(hierarchy, name)

    def plan(
        self, dataset: Dataset, options: WriteOptions, names: NodeNames, known: Known | None = None
    ) -> Plan:
        return plan_nczarr_v3(dataset, options, names, known)


class NCZarrV2:
    """NCZarr on Zarr v2, the form of netcdf-c: all its dialects read, that of 4.9.3 and later written."""

    name = "nczarr-v2"
    zarr_layout = "v2"

    def can_read(self, hierarchy: Hierarchy) -> bool:
        return hierarchy.layout == "v2" and not hierarchy.is_array("") and find_dialect(hierarchy) is not None

    def read(self, hierarchy: Hierarchy, name: str) -> Reading:
        return read_nczarr_v2(hierarchy, name)

    def plan(
        self, dataset: Dataset, options: WriteOptions, names: NodeNames, known: Known | None = None
    ) -> Plan:
        return plan_nczarr_v2(dataset, options, names, known)


class PlainV3:
    """Plain Zarr v3 with xarray's conventions."""

    name = "zarr-v3"
    zarr_layout = "v3"

    def can_read(self, hierarchy: Hierarchy) -> bool:
        return hierarchy.layout == "v3"

    def read(self, hierarchy: Hierarchy, name: str) -> Reading:
        return read_plain(hierarchy, name)

    def plan(
        self, dataset: Dataset, options: WriteOptions, names: NodeNames, known: Known | None = None
    ) -> Plan:
        return plan_plain_v3(dataset, options, names, known)


LAYOUTS: tuple[Layout, ...] = (NCZarrV3(), NCZarrV2(), PlainV3())


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

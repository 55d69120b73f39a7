"""Hierarchies: the groups and arrays of one store, found, read and written.

A :class:`Hierarchy` is the same for every version of Zarr; a layout says where the documents and chunks of one
version lie and how its nodes are found with the fewest requests. Which version a store holds is found out once, on
opening; metadata are parsed when they are looked up.
"""

from nczarr.zarr.hierarchy.hierarchy import Hierarchy, LayoutName, create_hierarchy, open_hierarchy
from nczarr.zarr.hierarchy.v2 import V2Layout

__all__ = ["Hierarchy", "LayoutName", "V2Layout", "create_hierarchy", "open_hierarchy"]

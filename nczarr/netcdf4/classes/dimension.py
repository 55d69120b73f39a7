"""Define the class of dimensions."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Protocol

from nczarr.display import show_dimension, visible
from nczarr.model.describe import describe_dimension
from nczarr.netcdf4.classes.base import Owner, reference_to
from nczarr.netcdf4.errors import NetCDFAttributeError, NetCDFRuntimeError, NetCDFTypeError, translating
from nczarr.session import DimensionNode, Session


class GroupLike(Owner, Protocol):
    """A dataset or group, as its dimensions see it."""

    @property
    def dimensions(self) -> dict[str, Dimension]: ...
    @property
    def groups(self) -> Mapping[str, GroupLike]: ...
    @property
    def parent(self) -> GroupLike | None: ...
    @property
    def keepweakref(self) -> bool: ...


class Dimension:
    """A named dimension, created by :meth:`Dataset.createDimension`.

    Parameters
    ----------
    grp : Dataset or Group
        The group of the dimension.
    name : str
    size : int, optional
        None or 0: unlimited.

    Raises
    ------
    NetCDFRuntimeError
        If the name is in use or invalid, the size exceeds the data model's limit, or the dataset is read-only.
    NetCDFOverflowError
        If the size is negative, or has more than 63 bits.
    NetCDFTypeError
        If the size is not a number.

    Examples
    --------
    >>> from nczarr import Dataset
    >>> with Dataset("d.zarr", "w", diskless=True) as ds:
    ...     time = ds.createDimension("time", None)
    ...     len(time), time.isunlimited()
    (0, True)
    """

    __slots__ = ("__weakref__", "_nc_group", "_nc_node", "_nc_session")

    _nc_group: GroupLike
    _nc_node: DimensionNode
    _nc_session: Session

    def __init__(self, grp: GroupLike, name: str, size: int | None = None) -> None:
        session = grp._nc_session
        if isinstance(size, str | bytes):
            raise NetCDFTypeError(f"the size of the dimension {name!r} is a number, not {size!r}")
        with translating("the size of the dimension {!r} is a number, not {!r}", name, size):
            length = 0 if size is None else operator.index(int(size))
        with session.lock:
            shown = grp.dimensions
            node = grp._nc_node.add_dimension(name, length, unlimited=length == 0)
            self._nc_bind(grp, node)
            shown[node.name] = self

    @classmethod
    def _nc_of(cls, group: GroupLike, node: DimensionNode) -> Dimension:
        dimension = cls.__new__(cls)
        dimension._nc_bind(group, node)
        return dimension

    def _nc_bind(self, group: GroupLike, node: DimensionNode) -> None:
        self._nc_session = group._nc_session
        self._nc_group = reference_to(group)
        self._nc_node = node

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_nc_"):
            raise NetCDFAttributeError(f"{name} cannot be altered")
        object.__setattr__(self, name, value)

    @property
    def name(self) -> str:
        """The name."""
        self._nc_session.check_open()
        return self._nc_node.name

    _name = name

    @property
    def size(self) -> int:
        """Current size."""
        return len(self)

    def __len__(self) -> int:
        self._nc_session.check_open()
        return self._nc_node.size

    def group(self) -> GroupLike:
        """Return the group of the dimension."""
        return self._nc_group

    def isunlimited(self) -> bool:
        """Return True if the dimension can grow."""
        self._nc_session.check_open()
        return self._nc_node.unlimited

    def _repr_html_(self) -> str | None:
        return show_dimension(describe_dimension(self._nc_node)) if self._nc_session.is_open else None

    def __repr__(self) -> str:
        try:
            self._nc_session.check_open()
        except (NetCDFRuntimeError, ReferenceError):
            return "Dimension object no longer valid"
        kind = " (unlimited)" if self._nc_node.unlimited else ""
        name = visible(self._nc_node.name)
        return f"\"<class 'nczarr.Dimension'>\"{kind}: name = '{name}', size = {self._nc_node.size}"

    def __reduce__(self) -> tuple[object, ...]:
        return _member, (self._nc_group, self._nc_node.name)


def _member(group: GroupLike, name: str) -> Dimension:
    """Return an unpickled dimension."""
    return group.dimensions[name]


def shown_dimension(group: GroupLike, node: DimensionNode) -> Dimension:
    """Return the object of a dimension, seen from a group of its dataset."""
    top: GroupLike | None = group
    while top is not None:
        if top._nc_node is node.group:
            return top.dimensions[node.name]
        group, top = top, top.parent
    for name in node.group.fqn.split("/"):  # in another branch: from the root down
        group = group.groups[name] if name else group
    return group.dimensions[node.name]

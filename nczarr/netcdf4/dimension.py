"""Dimensions of a dataset that is open."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from nczarr.model import DimensionRef, join_fqn, normalize_name
from nczarr.model.names import check_name
from nczarr.netcdf4.errors import (
    NetCDFAttributeError,
    NetCDFOverflowError,
    NetCDFReferenceError,
    NetCDFRuntimeError,
    NetCDFValueError,
    NotPicklableError,
)

if TYPE_CHECKING:
    from nczarr.netcdf4.dataset import Dataset

_LONGEST_NAME = 256


def checked_name(name: Any, what: str) -> str:
    """Return a name in the form in which netCDF keeps it, or raise :class:`NetCDFRuntimeError`.

    Examples
    --------
    >>> checked_name("lat", "dimension")
    'lat'
    """
    text = normalize_name(name.decode() if isinstance(name, bytes) else str(name))
    wrong = check_name(text)
    if wrong is None and text.startswith("."):
        wrong = f"the name {text!r} starts with a period"
    if wrong is None and len(text.encode("utf-8", "surrogateescape")) > _LONGEST_NAME:
        wrong = f"the name {text[:20]!r}… has more than {_LONGEST_NAME} bytes"
    if wrong is not None:
        raise NetCDFRuntimeError(f"NetCDF: Name contains illegal characters: {what}: {wrong}")
    return text


class Dimension:
    """A named dimension; made by :meth:`Dataset.createDimension`.

    Parameters
    ----------
    grp : Dataset or Group
        Where it belongs.
    name : str
    size : int, optional
        None or 0: unlimited.

    Raises
    ------
    NetCDFRuntimeError
        If the name is in use or not legal, or the dataset is read-only.
    NetCDFOverflowError
        If the size is negative.
    """

    __slots__ = ("__weakref__", "_nc_anonymous", "_nc_group", "_nc_name", "_nc_size", "_nc_unlimited")

    _nc_group: Dataset
    _nc_name: str
    _nc_size: int
    _nc_unlimited: bool
    _nc_anonymous: bool

    def __init__(self, grp: Dataset, name: str, size: int | None = None) -> None:
        session = grp._nc_session
        session.check_writable()
        name = checked_name(name, "dimension")
        if name in grp.dimensions:
            raise NetCDFRuntimeError(
                f"NetCDF: String match to name in use: the dimension {name!r}", fqn=grp.path
            )
        length = 0 if size is None else operator.index(int(size))
        if length < 0:
            raise NetCDFOverflowError(f"the dimension {name!r} cannot have the negative size {length}")
        if length == 0:
            session.check_room_for_unlimited(grp)
        self._nc_setup(grp, name, length, unlimited=length == 0)
        grp.dimensions[name] = self
        grp._nc_touch()

    def _nc_setup(
        self, group: Dataset, name: str, size: int, *, unlimited: bool, anonymous: bool = False
    ) -> None:
        self._nc_group = group._nc_reference()
        self._nc_name = name
        self._nc_size = size
        self._nc_unlimited = unlimited
        self._nc_anonymous = anonymous

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_nc_"):
            raise NetCDFAttributeError(f"{name} cannot be altered")
        object.__setattr__(self, name, value)

    @property
    def name(self) -> str:
        """The name."""
        return self._nc_name

    @property
    def size(self) -> int:
        """Current size."""
        return len(self)

    def __len__(self) -> int:
        self._nc_group._nc_session.check_open()
        return self._nc_size

    def group(self) -> Dataset:
        """The group that it belongs to."""
        return self._nc_group

    def isunlimited(self) -> bool:
        """True if it can grow."""
        self._nc_group._nc_session.check_open()
        return self._nc_unlimited

    @property
    def _nc_ref(self) -> DimensionRef:
        return self._nc_size if self._nc_anonymous else join_fqn(self._nc_group._nc_fqn, self._nc_name)

    def __repr__(self) -> str:
        try:
            self._nc_group._nc_session.check_open()
        except (NetCDFRuntimeError, NetCDFReferenceError, ReferenceError):
            return "Dimension object no longer valid"
        kind = " (unlimited)" if self._nc_unlimited else ""
        return f"\"<class 'nczarr.Dimension'>\"{kind}: name = '{self._nc_name}', size = {self._nc_size}"

    def __reduce__(self) -> Any:
        raise NotPicklableError("Dimension is not picklable")


def find_dimension(group: Dataset, name: str | bytes) -> Dimension:
    """Find a dimension by its simple name in a group, then upwards.

    Raises
    ------
    NetCDFValueError
        If there is none.
    """
    wanted = normalize_name(name.decode() if isinstance(name, bytes) else name)
    scope: Dataset | None = group
    while scope is not None:
        found = scope.dimensions.get(wanted)
        if found is not None:
            return found
        scope = scope.parent
    raise NetCDFValueError(f"cannot find dimension {wanted} in this group or parent groups", fqn=group.path)

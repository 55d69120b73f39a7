"""Groups of a dataset that is open."""

from __future__ import annotations

from typing import Any

from nczarr.netcdf4.dataset import Dataset
from nczarr.netcdf4.dimension import checked_name
from nczarr.netcdf4.errors import NetCDFOSError, NetCDFRuntimeError


class Group(Dataset):
    """A group; made by :meth:`Dataset.createGroup`. It has all that a dataset has, but cannot be closed.

    Parameters
    ----------
    parent : Dataset or Group
    name : str

    Raises
    ------
    NetCDFRuntimeError
        If the name is in use or not legal, or the dataset is read-only or has a classic data model.
    """

    __slots__ = ()

    def __init__(self, parent: Dataset, name: str, **kwargs: Any) -> None:
        session = parent._nc_session
        session.check_writable()
        parent._nc_check_groups_allowed()
        name = checked_name(name, "group")
        if name in parent.groups or name in parent.variables:
            raise NetCDFRuntimeError(
                f"NetCDF: String match to name in use: the group {name!r}", fqn=parent.path
            )
        self._nc_setup(session, parent, name, weak=parent._nc_weak)
        parent.groups[name] = self
        parent._nc_touch()

    def close(self) -> None:
        """Always fails: only the dataset can be closed."""
        raise NetCDFOSError("cannot close a `Group` (only applies to Dataset)")

    def __del__(self) -> None:
        pass

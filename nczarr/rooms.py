"""Tell the rooms beside the core, and open their doors at the first use.

The core is the model, its grammar, CDL, the Zarr engine with local, memory and zip stores, the mapping, the session and
the netCDF4-compatible interface. It imports no room when it is loaded; a copy of the package without rooms works, and
says which room a use needs. ``docs/architecture.md`` tells how large each is.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from nczarr.errors import UnsupportedError


class Room(NamedTuple):
    """A part of nczarr that the core works without: its purpose, its modules, and the extras that it uses."""

    purpose: str
    modules: tuple[str, ...]
    extras: tuple[str, ...] = ()


ROOMS = {
    "files": Room("netCDF files", ("netcdf",), ("netcdf",)),
    "remote": Room(
        "object stores, web servers, Icechunk and references to other files",
        ("stores.remote", "stores.referred", "stores.reach"),
        ("s3", "http"),
    ),
    "html": Room("HTML in notebooks", ("display", "model.describe", "zarr.describe", "netcdf4.html")),
    "object model": Room("the Zarr Object Model (ZEP 6)", ("zarr.zom",), ("schema",)),
    "conversion": Room("copies, comparisons and checks", ("convert",), ("dask", "virtual")),
    "xarray": Room("the engine and the accessor of xarray", ("xarray_model", "xarray"), ("xarray",)),
    "viewer": Room("pictures and the viewer in the browser", ("view",), ("view",)),
    "commands": Room("the command line", ("cli", "__main__", "cdl.highlighting"), ("cli",)),
}


def room_of(module: str) -> str | None:
    """Return the room that a module belongs to; None if it is in the core.

    Examples
    --------
    >>> room_of("nczarr.netcdf.classic"), room_of("nczarr.netcdf4.variable")
    ('files', None)
    """
    name = module.removeprefix("nczarr.")
    for room, found in ROOMS.items():
        if any(name == part or name.startswith(f"{part}.") for part in found.modules):
            return room
    return None


class Door:
    """A module of a room, which is imported when a name of it is first used.

    The core holds doors and no imports, so that it works without the rooms. A module that assigns a door imports the
    same module under ``TYPE_CHECKING``, for readers and type checkers.

    Parameters
    ----------
    module : str
        The module's full name.

    Raises
    ------
    UnsupportedError
        At a use, if this copy of nczarr lacks the room.

    Examples
    --------
    >>> Door("nczarr.display").format_bytes(1536)
    '1.5 KiB'
    """

    __slots__ = ("_module",)

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # a question of pytest or inspect, which needs no room
            raise AttributeError(name)
        try:
            return getattr(import_module(self._module), name)
        except ModuleNotFoundError as error:
            if error.name is None or not error.name.startswith("nczarr."):
                raise
            room = room_of(error.name) or error.name
            purpose = ROOMS[room].purpose if room in ROOMS else error.name
            raise UnsupportedError(
                f"this copy of nczarr lacks the room {room!r}: {purpose}", hint="install nczarr as a whole"
            ) from error

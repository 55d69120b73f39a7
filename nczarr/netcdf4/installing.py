"""Put this package in the place of netCDF4-python, for programs that cannot be edited."""

from __future__ import annotations

import sys
from types import ModuleType, TracebackType

_NAMES = {
    "netCDF4": "nczarr.netcdf4",
    "netCDF4._netCDF4": "nczarr.netcdf4",
    "netCDF4.utils": "nczarr.netcdf4.utils",
}
#: What stood in :data:`sys.modules` before; None for nothing.
_before: dict[str, ModuleType | None] = {}


class Installed:
    """What :func:`install` did; as a context manager it is undone at the end."""

    def __enter__(self) -> Installed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        uninstall()


def install() -> Installed:
    """Let ``import netCDF4`` give :mod:`nczarr.netcdf4`, in this process, until :func:`uninstall`.

    Call it before the program imports netCDF4: what it holds already stays what it is. Installing twice is no
    error.

    Examples
    --------
    >>> with install():
    ...     import netCDF4
    ...     netCDF4.Dataset.__module__
    'nczarr.netcdf4.classes.dataset'
    """
    if not _before:
        for name, ours in _NAMES.items():
            _before[name] = sys.modules.get(name)
            sys.modules[name] = sys.modules[ours]
    return Installed()


def uninstall() -> None:
    """Undo :func:`install`; without it, do nothing.

    Examples
    --------
    >>> uninstall()
    """
    for name, module in _before.items():
        if module is None:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = module
    _before.clear()

"""Put this package in the place of netCDF4-python, for programs that cannot be edited."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, TracebackType
from typing import Any

#: What stood in :data:`sys.modules` before; None for nothing.
_before: dict[str, ModuleType | None] = {}


class _StandIn(ModuleType):
    """A module with all names of :mod:`nczarr.netcdf4` and a name of its own, which programs ask for."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        ours = sys.modules["nczarr.netcdf4"]
        own = {*vars(self), "__path__", "__cached__", "__builtins__"}
        vars(self).update({key: value for key, value in vars(ours).items() if key not in own})
        self.__doc__ = ours.__doc__
        self.__package__ = "netCDF4"
        self.__spec__ = ModuleSpec(name, None, is_package="." not in name)
        if "." not in name:
            self.__path__: list[str] = []  # a package without modules but those of sys.modules

    def __getattr__(self, name: str) -> Any:
        if name == "__path__":
            raise AttributeError(name)
        return getattr(sys.modules["nczarr.netcdf4"], name)


def _modules() -> dict[str, ModuleType]:
    package, compiled = _StandIn("netCDF4"), _StandIn("netCDF4._netCDF4")
    vars(package)["_netCDF4"] = compiled
    return {
        "netCDF4": package,
        "netCDF4._netCDF4": compiled,
        "netCDF4.utils": sys.modules["nczarr.netcdf4.utils"],
    }


class Installed:
    """What :func:`install` did; as a context manager it is undone at the end."""

    def __enter__(self) -> Installed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        uninstall()


def install() -> Installed:
    """Let ``import netCDF4`` give what :mod:`nczarr.netcdf4` has, in this process, until :func:`uninstall`.

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
        for name, module in _modules().items():
            _before[name] = sys.modules.get(name)
            sys.modules[name] = module
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

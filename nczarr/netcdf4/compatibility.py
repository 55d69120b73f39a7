"""Define netCDF4-python's constants and process-wide settings, and take its place in a process."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from importlib.machinery import ModuleSpec
from numbers import Real
from types import ModuleType

import numpy as np
from numpy.typing import DTypeLike

from nczarr import model
from nczarr.errors import ArgumentError, ArgumentTypeError, EditError, RangeError
from nczarr.session import default_bytes
from nczarr.system.environment import SETTINGS, choice

#: netCDF's default fill values by numpy type code.
default_fillvals: dict[str, str | int | float] = {
    "S1": "\x00",
    **{
        t.dtype.str[1:]: model.default_fill(t).item()
        for t in model.PRIMITIVES.values()
        if t.dtype.kind in "iuf"
    },
    **dict.fromkeys(("c8", "c16"), 9.969209968386869e36),
}

#: Type codes of variables and attributes.
SUPPORTED_TYPES = ("S1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")

#: Data models by the value of ``_Format``.
MODEL_OF_FORMAT: dict[str | None, str] = {
    None: "NETCDF4",
    "netCDF-4": "NETCDF4",
    "netCDF-4 classic model": "NETCDF4_CLASSIC",
    "classic": "NETCDF3_CLASSIC",
    "64-bit offset": "NETCDF3_64BIT_OFFSET",
    "cdf5": "NETCDF3_64BIT_DATA",
}
FORMAT_OF_MODEL: dict[str, str] = {name: text for text, name in MODEL_OF_FORMAT.items() if text}

#: Data models by the argument `format`.
DATA_MODELS = {**{name: name for name in FORMAT_OF_MODEL}, "NETCDF3_64BIT": "NETCDF3_64BIT_OFFSET"}

#: Data models without groups, user types and strings.
CLASSIC_FORMATS = frozenset(FORMAT_OF_MODEL) - {"NETCDF4"}


def dtype_is_complex(dtype: DTypeLike) -> bool:
    """Return True for complex numbers of 64 or 128 bits.

    Parameters
    ----------
    dtype : dtype
        Anything that numpy takes for a dtype; False for other objects.

    Examples
    --------
    >>> dtype_is_complex("c16"), dtype_is_complex("f8")
    (True, False)
    """
    try:
        return np.dtype(dtype).str[1:] in ("c8", "c16")
    except TypeError:
        return False


_chunk_cache: tuple[int, int, float] = (default_bytes(), 4133, 0.75)
_alignment: tuple[int, int] = (1, 1)
_rc: dict[str, str] = {}


def get_chunk_cache() -> tuple[int, int, float]:
    """Return the size in bytes, the number of slots and the preemption of the chunk cache.

    Examples
    --------
    >>> len(get_chunk_cache())
    3
    """
    return _chunk_cache


def set_chunk_cache(
    size: int | None = None, nelems: int | None = None, preemption: float | None = None
) -> None:
    """Limit the bytes of decoded chunks of a dataset, for datasets opened from now on.

    Parameters
    ----------
    size : int, optional
        Bytes; None (the default) leaves a setting unchanged.
    nelems : int, optional
        Number of slots, without effect.
    preemption : float, optional
        A number from 0 to 1, without effect.

    Raises
    ------
    RangeError
        If `size` or `nelems` is negative or has more than 64 bits.
    EditError
        If `preemption` is not in 0 to 1.
    ArgumentTypeError
        If an argument is not a number.

    Examples
    --------
    >>> set_chunk_cache(32 << 20)
    >>> get_chunk_cache()[0]
    33554432
    """
    global _chunk_cache
    _chunk_cache = changed_cache(_chunk_cache, size, nelems, preemption)


def changed_cache(
    old: tuple[int, int, float], size: int | None, nelems: int | None, preemption: float | None
) -> tuple[int, int, float]:
    """Return the settings of a cache with the changes that are not None.

    Raises
    ------
    RangeError
        If `size` or `nelems` is negative or has more than 64 bits.
    EditError
        If `preemption` is not in 0 to 1.
    ArgumentTypeError
        If an argument is not a number.
    """
    for name, number in (("size", size), ("nelems", nelems), ("preemption", preemption)):
        if number is not None and not isinstance(number, Real):
            raise ArgumentTypeError(f"the {name} of a chunk cache is a number, not {number!r}")
        if number is not None and name != "preemption" and not 0 <= int(number) < 1 << 64:
            raise RangeError(f"the {name} of a chunk cache is negative, or has more than 64 bits: {number}")
    if preemption is not None and not 0 <= preemption <= 1:
        raise EditError(f"NetCDF: Invalid argument: the preemption {preemption} is not in 0 to 1")
    sizes = [before if new is None else int(new) for new, before in ((size, old[0]), (nelems, old[1]))]
    return sizes[0], sizes[1], old[2] if preemption is None else float(preemption)


def get_alignment() -> tuple[int, int]:
    """Return threshold and alignment.

    Examples
    --------
    >>> set_alignment(0, 1)
    >>> get_alignment()
    (0, 1)
    """
    return _alignment


def set_alignment(threshold: int, alignment: int) -> None:
    """Set threshold and alignment, without effect.

    Parameters
    ----------
    threshold, alignment : int
        Bytes.

    Raises
    ------
    ArgumentTypeError
        If an argument is not a number.
    RangeError
        If an argument has more than 64 bits.

    Examples
    --------
    >>> set_alignment(4096, 512)
    >>> get_alignment()
    (4096, 512)
    >>> set_alignment(0, 1)
    """
    global _alignment
    for number in (threshold, alignment):
        if not isinstance(number, Real):
            raise ArgumentTypeError(f"an alignment is a number, not {number!r}")
        if not -(1 << 63) <= int(number) < 1 << 63:
            raise RangeError(f"an alignment has no more than 64 bits: {number}")
    _alignment = (int(threshold), int(alignment))


def rc_get(key: str) -> str | None:
    """Return the value that :func:`rc_set` has set; None for an unknown key.

    Parameters
    ----------
    key : str

    Examples
    --------
    >>> rc_set("HTTP.TIMEOUT", "5")
    >>> rc_get("HTTP.TIMEOUT"), rc_get("nothing")
    ('5', None)
    """
    return _rc.get(str(key))


def rc_set(key: str, value: str) -> None:
    """Set an entry of the run-time configuration, without effect.

    Parameters
    ----------
    key, value : str

    Examples
    --------
    >>> rc_set("HTTP.TIMEOUT", "30")
    >>> rc_get("HTTP.TIMEOUT")
    '30'
    """
    _rc[str(key)] = str(value)


#: The storage that the program has chosen; None: as the environment says.
_storage: str | None = None


def storage(kind: str | None = None) -> str:
    """Set, or only return, the rule for the storage of new datasets: :class:`Dataset` without the argument `storage`.

    Parameters
    ----------
    kind : {'auto', 'netcdf', 'zarr'}, optional
        ``auto``: by the name (:func:`nczarr.formats.storage_of`). ``netcdf``: every local name is that of a netCDF
        file, but ``.zarr``, ``.zip`` and existing directories. ``zarr``: every name is that of a Zarr hierarchy. The
        default is the environment variable ``NCZARR_STORAGE``, after :func:`install` ``netcdf``, otherwise ``auto``.

    Returns
    -------
    str
        The rule.

    Raises
    ------
    ArgumentError
        For another `kind`.

    Examples
    --------
    >>> storage("netcdf")
    'netcdf'
    >>> storage("auto")
    'auto'
    """
    global _storage
    if kind is not None:
        if kind not in SETTINGS["NCZARR_STORAGE"].choices:
            raise ArgumentError(f"the storage is auto, netcdf or zarr, not {kind!r}")
        _storage = kind
    of_names = "netcdf" if _before and not os.environ.get("NCZARR_STORAGE") else choice("NCZARR_STORAGE")
    return _storage or of_names


#: The previous modules in :data:`sys.modules`; None for a missing one.
_before: dict[str, ModuleType | None] = {}


class _StandIn(ModuleType):
    """A module with another name and all names of :mod:`nczarr.netcdf4`."""

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

    def __getattr__(self, name: str) -> object:
        if name == "__path__":
            raise AttributeError(name)
        found: object = getattr(sys.modules["nczarr.netcdf4"], name)
        return found


def _modules() -> dict[str, ModuleType]:
    package, compiled = _StandIn("netCDF4"), _StandIn("netCDF4._netCDF4")
    vars(package)["_netCDF4"] = compiled
    return {
        "netCDF4": package,
        "netCDF4._netCDF4": compiled,
        "netCDF4.utils": sys.modules["nczarr.netcdf4.utils"],
    }


def install() -> ExitStack:
    """Make ``import netCDF4`` import :mod:`nczarr.netcdf4` in this process, until :func:`uninstall`.

    The result is a context manager that calls :func:`uninstall` at its end.
    Names that the program has imported before are unchanged. New datasets are netCDF files, unless their names say
    Zarr: see :func:`storage`. A second call has no effect.

    Examples
    --------
    >>> with install():
    ...     import netCDF4
    ...     netCDF4.Dataset.__module__
    'nczarr.netcdf4.dataset'
    """
    # A second install() would note these modules as those from before.
    if not _before:
        for name, module in _modules().items():
            _before[name] = sys.modules.get(name)
            sys.modules[name] = module
    stack = ExitStack()
    stack.callback(uninstall)
    return stack


def uninstall() -> None:
    """Undo :func:`install`.

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

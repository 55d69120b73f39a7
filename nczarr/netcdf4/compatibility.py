"""Define netCDF4-python's constants, feature flags and process-wide settings, and take its place in a process."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from numbers import Real
from types import ModuleType, TracebackType
from typing import Any

import numpy as np

from nczarr.netcdf4.errors import NetCDFOverflowError, NetCDFRuntimeError, NetCDFTypeError
from nczarr.session import default_bytes

#: netCDF's default fill values by numpy type code.
default_fillvals: dict[str, str | int | float] = {
    "S1": "\x00",
    "i1": -127,
    "u1": 255,
    "i2": -32767,
    "u2": 65535,
    "i4": -2147483647,
    "u4": 4294967295,
    "i8": -9223372036854775806,
    "u8": 18446744073709551614,
    "f4": 9.969209968386869e36,
    "f8": 9.969209968386869e36,
    "c8": 9.969209968386869e36,
    "c16": 9.969209968386869e36,
}

#: Type codes that variables and attributes may have.
SUPPORTED_TYPES = ("S1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")

is_native_little = sys.byteorder == "little"
is_native_big = sys.byteorder == "big"
default_encoding = "utf-8"
unicode_error = "replace"

#: Data models by the value of ``_Format``.
MODEL_OF_FORMAT: dict[str | None, str] = {
    None: "NETCDF4",
    "netCDF-4": "NETCDF4",
    "netCDF-4 classic model": "NETCDF4_CLASSIC",
    "classic": "NETCDF3_CLASSIC",
    "64-bit offset": "NETCDF3_64BIT_OFFSET",
    "cdf5": "NETCDF3_64BIT_DATA",
}
FORMAT_OF_MODEL: dict[str, str] = {model: text for text, model in MODEL_OF_FORMAT.items() if text}

#: What the `format` argument may be, and the data model that it means.
DATA_MODELS: dict[str, str] = {
    **{model: model for model in FORMAT_OF_MODEL},
    "NETCDF3_64BIT": "NETCDF3_64BIT_OFFSET",
}

#: Data models without groups, user types and strings.
CLASSIC_FORMATS = frozenset(FORMAT_OF_MODEL) - {"NETCDF4"}

#: The version of netCDF-C whose behaviour is followed; no HDF5 is involved.
__netcdf4libversion__ = "4.9.3"
__hdf5libversion__ = "1.14.0"

__has_rename_grp__ = 1
__has_nc_inq_path__ = 1
__has_nc_inq_format_extended__ = 1
__has_nc_open_mem__ = 1
__has_nc_create_mem__ = 1
__has_cdf5_format__ = 1
__has_parallel4_support__ = 0
__has_pnetcdf_support__ = 0
__has_parallel_support__ = 0
__has_quantization_support__ = 1
__has_zstandard_support__ = 1
__has_bzip2_support__ = 1
__has_blosc_support__ = 1
__has_szip_support__ = 1
__has_set_alignment__ = 1
__has_ncfilter__ = 1
__has_nc_rc_set__ = 1

NC_DISKLESS = 8
NC_PERSIST = 16384


def getlibversion() -> str:
    """The version of netCDF-C whose behaviour is followed.

    Examples
    --------
    >>> getlibversion()
    '4.9.3'
    """
    return __netcdf4libversion__


def dtype_is_complex(dtype: Any) -> bool:
    """True for complex numbers of 64 or 128 bits.

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
    """Size in bytes, number of slots and preemption of the chunk cache, as last set.

    Examples
    --------
    >>> len(get_chunk_cache())
    3
    """
    return _chunk_cache


def set_chunk_cache(
    size: int | None = None, nelems: int | None = None, preemption: float | None = None
) -> None:
    """Set the bytes that the decoded chunks of a dataset may need, for datasets that are opened from now on.

    Slots and preemption are remembered only; None leaves a setting as it is.

    Raises
    ------
    NetCDFOverflowError
        If `size` or `nelems` is negative, or has more than 64 bits.
    NetCDFRuntimeError
        If `preemption` is not in 0 to 1.
    NetCDFTypeError
        If one of them is no number.

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
    """The settings of a cache, changed by those that are not None.

    Raises
    ------
    NetCDFOverflowError
        If `size` or `nelems` is negative, or has more than 64 bits.
    NetCDFRuntimeError
        If `preemption` is not in 0 to 1.
    NetCDFTypeError
        If one of them is no number.
    """
    for name, number in (("size", size), ("nelems", nelems), ("preemption", preemption)):
        if number is not None and not isinstance(number, Real):
            raise NetCDFTypeError(f"the {name} of a chunk cache is a number, not {number!r}")
    for name, number in (("size", size), ("nelems", nelems)):
        if number is not None and not 0 <= int(number) < 1 << 64:
            raise NetCDFOverflowError(
                f"the {name} of a chunk cache is negative, or has more than 64 bits: {number}"
            )
    if preemption is not None and not 0 <= preemption <= 1:
        raise NetCDFRuntimeError(f"NetCDF: Invalid argument: the preemption {preemption} is not in 0 to 1")
    return (
        old[0] if size is None else int(size),
        old[1] if nelems is None else int(nelems),
        old[2] if preemption is None else float(preemption),
    )


def get_alignment() -> tuple[int, int]:
    """Threshold and alignment, as last set.

    Examples
    --------
    >>> set_alignment(0, 1)
    >>> get_alignment()
    (0, 1)
    """
    return _alignment


def set_alignment(threshold: int, alignment: int) -> None:
    """Remember threshold and alignment. Without effect on Zarr.

    Examples
    --------
    >>> set_alignment(4096, 512)
    >>> get_alignment()
    (4096, 512)
    >>> set_alignment(0, 1)
    """
    global _alignment
    _alignment = (int(threshold), int(alignment))


def rc_get(key: str) -> str | None:
    """The value that :func:`rc_set` set; None for an unknown key.

    Examples
    --------
    >>> rc_set("HTTP.TIMEOUT", "5")
    >>> rc_get("HTTP.TIMEOUT"), rc_get("nothing")
    ('5', None)
    """
    return _rc.get(key)


def rc_set(key: str, value: str) -> None:
    """Remember an entry of the run-time configuration. Without effect on Zarr.

    Examples
    --------
    >>> rc_set("HTTP.TIMEOUT", "30")
    >>> rc_get("HTTP.TIMEOUT")
    '30'
    """
    _rc[key] = str(value)


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

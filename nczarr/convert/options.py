"""Define the options of a copy, and parse their words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nczarr.convert.report import Report
from nczarr.errors import UnsupportedError
from nczarr.transfer import Progress

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
#: The netCDF formats by the words of nccopy.
KINDS = {
    **dict.fromkeys(("1", "nc3", "classic"), "classic"),
    **dict.fromkeys(("2", "6", "nc6", "64-bit offset", "64-bit-offset", "64bit-offset"), "64-bit offset"),
    **dict.fromkeys(("3", "nc4", "netCDF-4", "netcdf-4", "enhanced"), "netCDF-4"),
    **dict.fromkeys(
        ("4", "7", "nc7", "netCDF-4 classic model", "netCDF-4-classic-model", "enhanced-nc3"),
        "netCDF-4 classic model",
    ),
    **dict.fromkeys(("5", "nc5", "cdf5", "64-bit data", "64-bit-data"), "cdf5"),
}


@dataclass(frozen=True)
class OutputOptions:
    """How the variables of a copy are stored; the default of each option is the storage of the source.

    Parameters
    ----------
    chunks : str or mapping, optional
        Lengths by dimension (``time=1,lat=100``; -1 is the whole dimension), or ``auto``.
    chunk_bytes : int or str, optional
        Approximate size of chunks for which no length is given.
    shards : str, int or mapping, optional
        Lengths by dimension (default: the whole dimension), a number of bytes, or ``auto``. Zarr only.
    compression : str, optional
        ``zstd:3``, ``gzip:6``, ``blosc:lz4:5``, ``none``, ``source``, ``default``.
    checksum : bool
        Store a checksum for every chunk.
    quantize : str, optional
        ``[NAME,…=][MODE:]DIGITS``, with the modes of netCDF-C.
    fixed : bool
        Make all unlimited dimensions fixed.
    unlimited : sequence of str
        Make these dimensions unlimited.
    """

    chunks: str | Mapping[str, int] | None = None
    chunk_bytes: int | str | None = None
    shards: str | int | Mapping[str, int] | None = None
    compression: str | None = None
    checksum: bool = False
    quantize: str | None = None
    fixed: bool = False
    unlimited: Sequence[str] = ()

    @property
    def codec(self) -> str | None:
        """The requested codec; None for that of the source."""
        return None if self.compression == "source" else self.compression


@dataclass(frozen=True)
class Request:
    """The target and the options of a copy, apart from its sources; see :func:`nczarr.copy`.

    Parameters
    ----------
    format_options : mapping
        Options of the format of the target; see :func:`nczarr.convert.create_sink`.
    storage_options : mapping or None
        Options of the file system of the target.
    memory : int
        Maximum size of the values in memory, in bytes.
    """

    target: object
    output: OutputOptions
    format_options: Mapping[str, Any]
    storage_options: Mapping[str, object] | None
    overwrite: bool
    durable: bool | None
    resume: bool
    verify: bool
    digest: bool
    dry_run: bool
    report: Report | None
    progress: Progress
    workers: int
    memory: int
    dask: object

    def to(self, target: object) -> Request:
        """Return the request with another target."""
        return replace(self, target=target)

    @property
    def lossy(self) -> bool:
        """Omit parts that cannot be copied."""
        return bool(self.format_options.get("lossy"))

    @property
    def readings(self) -> int:
        """Number of times that all values are read: for the digest, for the copy, for the verification."""
        return 1 + self.digest + self.verify

    def refuse_with(self, option: str, *allowed: str) -> None:
        """Refuse the options that another option would ignore."""
        for name in ("dry_run", "resume", "verify", "digest", "overwrite", "dask"):
            if getattr(self, name) not in (False, None) and name not in allowed:
                raise UnsupportedError(f"{option} cannot be combined with --{name.replace('_', '-')}")


def names_of(value: str | Sequence[str]) -> tuple[str, ...]:
    """Return names as a tuple; commas separate the names of a string.

    Examples
    --------
    >>> names_of("a,b"), names_of(["a"])
    (('a', 'b'), ('a',))
    """
    return tuple(part for part in value.split(",") if part) if isinstance(value, str) else tuple(value)


def parse_kind(text: str) -> str:
    """Return the model's name for a netCDF format in the words of nccopy.

    Examples
    --------
    >>> parse_kind("nc4"), parse_kind("5")
    ('netCDF-4', 'cdf5')
    """
    if text not in KINDS:
        raise UnsupportedError(f"there is no netCDF format {text!r}", hint=f"one of {', '.join(KINDS)}")
    return KINDS[text]


def parse_bytes(value: int | str) -> int:
    """Parse a number of bytes.

    Raises
    ------
    UnsupportedError
        If it is not a number above zero.

    Examples
    --------
    >>> parse_bytes("4MiB"), parse_bytes("128 MB"), parse_bytes(1000)
    (4194304, 128000000, 1000)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(?:([kmgt])(i?b)?|b)?", str(value).strip().lower())
    if found:
        unit = found[2] or ""
        factor = _DECIMAL[unit] if found[3] == "b" else _UNITS[unit]
        size = int(float(found[1]) * factor)
        if size > 0:
            return size
    raise UnsupportedError(f"{value!r} is not a number of bytes", hint="for example 512MiB")


def parse_lengths(text: str | Mapping[str, int], option: str = "") -> dict[str, int | None]:
    """Parse lengths by dimension: ``time=1,lat=100``, or ``time/1,lat/100`` as in nccopy; ``auto`` becomes None.

    Examples
    --------
    >>> parse_lengths("time=1,/g/lat=100"), parse_lengths("time/1,/g/lat/100"), parse_lengths("lat=auto")
    ({'time': 1, '/g/lat': 100}, {'time': 1, '/g/lat': 100}, {'lat': None})
    """
    if not isinstance(text, str):
        text = ",".join(f"{name}={length}" for name, length in text.items())
    lengths: dict[str, int | None] = {}
    for item in text.split(","):
        name, mark, length = item.rpartition("=" if "=" in item else "/")
        if name and length.strip() == "auto":
            lengths[name.strip()] = None
            continue
        is_number = mark and name and re.fullmatch(r"\s*-?\d+\s*", length)
        if not is_number or int(length) < -1 or int(length) == 0:
            raise UnsupportedError(
                f"{option and option + ': '}{item!r} does not give the length along a dimension",
                hint="for example time=1,lat=100",
            )
        lengths[name.strip()] = int(length)
    return lengths

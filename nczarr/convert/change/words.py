"""Read the words of the command line: sizes, chunk lists, kinds of netCDF."""

from __future__ import annotations

import re
from collections.abc import Mapping

from nczarr.errors import UnsupportedError

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
#: nccopy's names of the formats.
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


def parse_kind(text: str) -> str:
    """Return the model's name of a netCDF format in nccopy's words.

    Examples
    --------
    >>> parse_kind("nc4"), parse_kind("5")
    ('netCDF-4', 'cdf5')
    """
    if text not in KINDS:
        raise UnsupportedError(f"there is no netCDF format {text!r}", hint=f"one of {', '.join(KINDS)}")
    return KINDS[text]


def parse_bytes(value: int | str) -> int:
    """Read a number of bytes.

    Raises
    ------
    UnsupportedError
        If it is none, or not above zero.

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
    """Read lengths by dimension: ``time=1,lat=100``, or with nccopy's slash; ``auto`` is None.

    `option` is for messages.

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
        if length.strip() == "auto" and name:
            lengths[name.strip()] = None
            continue
        if (
            not mark
            or not name
            or not re.fullmatch(r"\s*-?\d+\s*", length)
            or int(length) < -1
            or int(length) == 0
        ):
            raise UnsupportedError(
                f"{option and option + ': '}{item!r} does not say the length along a dimension",
                hint="for example time=1,lat=100",
            )
        lengths[name.strip()] = int(length)
    return lengths

"""Check and keep the options of a dump."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nczarr.errors import CDLError
from nczarr.model import Attribute

_MIN_LINE = 10
_MAX_DIGITS = 20


@dataclass(frozen=True)
class DumpOptions:
    """The options of :func:`nczarr.cdl.write.dump`; each is one of ncdump's flags.

    Parameters
    ----------
    header_only : bool
        ``-h``: no data.
    coordinates : bool
        ``-c``: data of coordinate variables only.
    variables : tuple of str
        ``-v``: data of these variables only; names, relative paths or absolute paths.
    groups : tuple of str
        ``-g``: data of these groups only; names or absolute paths.
    brief, full : {'c', 'f'} or None
        ``-b``, ``-f``: comments with the indices of each row, or of each value, counted as C or Fortran do.
    line_length : int
        ``-l``: longest line of a data section; at least 10.
    name : str or None
        ``-n``: the dataset's name in the first line; None: its own.
    float_digits, double_digits : int or None
        ``-p``: significant digits, 1 to 20. None: in the default style as many as it takes to read back the
        same value, in ncdump's style 7 and 15.
    times, iso_times : bool
        ``-t``, ``-i``: times as dates; ``iso_times`` puts a ``T`` between date and time of day. ncdump's style
        prints quoted dates, which cannot be read back; the default style prints numbers with the dates as comments.
    kind : bool
        ``-k``: only the kind of the dataset.
    special : bool
        ``-s``: the virtual attributes too (``_Storage``, ``_ChunkSizes``, ``_Format`` …).
    filters : bool
        ``-F``: with `special`, every filter in one ``_Filter``.
    hidden : tuple of Attribute
        With `special`, what the netCDF library says of a file: ``_NCProperties``, ``_SuperblockVersion``,
        ``_IsNetcdf4``.
    ncml : bool
        ``-x``: NcML instead of CDL; no data.
    location : str or None
        The location that NcML names.
    ncdump : bool
        ncdump's style, byte for byte. The default style differs only where ncdump loses something.

    Raises
    ------
    CDLError
        If an option has no sensible value.

    Examples
    --------
    >>> DumpOptions(header_only=True).line_length
    80
    """

    header_only: bool = False
    coordinates: bool = False
    variables: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    brief: Literal["c", "f"] | None = None
    full: Literal["c", "f"] | None = None
    line_length: int = 80
    name: str | None = None
    float_digits: int | None = None
    double_digits: int | None = None
    times: bool = False
    iso_times: bool = False
    kind: bool = False
    special: bool = False
    filters: bool = False
    hidden: tuple[Attribute, ...] = ()
    ncml: bool = False
    location: str | None = None
    ncdump: bool = False

    def __post_init__(self) -> None:
        for field, value in (("brief", self.brief), ("full", self.full)):
            if value not in (None, "c", "f"):
                raise CDLError(f"{field} comments count as 'c' or 'f', not {value!r}")
        if self.line_length < _MIN_LINE:
            raise CDLError(f"a line length of {self.line_length} is too small", hint=f"at least {_MIN_LINE}")
        for field, digits in (("float", self.float_digits), ("double", self.double_digits)):
            if digits is not None and not 1 <= digits <= _MAX_DIGITS:
                raise CDLError(f"{digits} significant digits of a {field}", hint=f"1 to {_MAX_DIGITS}")

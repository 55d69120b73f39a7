"""Read and write the classic netCDF formats: CDF-1, CDF-2 and CDF-5.

A classic file is a small header and plain big-endian arrays, so no library is required. ``format`` describes
the header as data, ``reader`` parses it and reads regions of the arrays, ``writer`` lays it out and writes
them.
"""

from nczarr.netcdf.classic.format import (
    FORMATS,
    ClassicDimension,
    ClassicVariable,
    Header,
    Widths,
    padded,
)
from nczarr.netcdf.classic.reader import ClassicFile, ClassicSource, is_stream, parse_header, read_classic
from nczarr.netcdf.classic.writer import (
    ClassicSink,
    check_places,
    format_header,
    header_of,
    make_header,
    refuse_losses,
)

__all__ = [
    "FORMATS",
    "ClassicDimension",
    "ClassicFile",
    "ClassicSink",
    "ClassicSource",
    "ClassicVariable",
    "Header",
    "Widths",
    "check_places",
    "format_header",
    "header_of",
    "is_stream",
    "make_header",
    "padded",
    "parse_header",
    "read_classic",
    "refuse_losses",
]

"""Offer what programs use of ``netCDF4.utils``: its three commands, and how indices become regions."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from nczarr.netcdf4.classes.dataset import Dataset
from nczarr.netcdf4.converting import copy_to_netcdf3, copy_to_netcdf4
from nczarr.netcdf4.errors import NetCDFIndexError, NetCDFValueError
from nczarr.netcdf4.values.characters import chartostring, stringtoarr, stringtochar
from nczarr.netcdf4.values.indexing import parse_selection
from nczarr.netcdf4.values.quantize import round_to_digit

# What programs import from here.
_REEXPORTED = (chartostring, stringtoarr, stringtochar)
_nc3tonc4, _nc4tonc3 = copy_to_netcdf4, copy_to_netcdf3


def _quantize(data: Any, least_significant_digit: int) -> np.ndarray:
    """Round to the power of two just below the last digit that counts."""
    return round_to_digit(np.asanyarray(data), least_significant_digit)


def _safecast(a: Any, b: Any) -> bool:
    """True if all elements of two arrays are equal, NaN to NaN: the one is the other after a safe cast."""
    one, other = np.asanyarray(a), np.asanyarray(b)
    same = one == other
    if one.dtype.kind in "fc" and other.dtype.kind in "fc":
        same = same | (np.isnan(one) & np.isnan(other))
    return bool(np.all(same))


def _StartCountStride(
    elem: Any,
    shape: Sequence[int],
    dimensions: Sequence[str] | None = None,
    grp: Any = None,
    datashape: Sequence[int] | None = None,
    put: bool = False,
    use_get_vars: bool = True,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Split a selection into regions: where each starts, its counts and strides, and its place in the data.

    Returns
    -------
    start, count, stride : ndarray of int
        One axis for each of the variable, as long as there are pieces along it; then one for their numbers.
    place : ndarray of object
        Likewise: an index of the data, -1 for an axis that an integer takes away.
    """
    sizes = tuple(shape)
    growable = None
    if put:
        names = list(dimensions or ())
        if len(names) < len(sizes):
            raise NetCDFIndexError("list index out of range")
        growable = [_find_dim(grp, name).isunlimited() for name in names[: len(sizes)]]
    data_shape = None if datashape is None else tuple(datashape)
    index = parse_selection(elem, sizes, growable=growable, data_shape=data_shape if put else None)
    pieces = [_pieces(axis, together=0 in index.counts) for axis in index.axes]
    grid = tuple(len(p) for p in pieces)
    numbers = np.empty((3, *grid, len(pieces)), int)
    place = np.empty((*grid, len(pieces)), object)
    for i, along in enumerate(pieces):
        for k, (*values, where) in enumerate(along):
            at = (slice(None),) * i + (k,) + (slice(None),) * (len(pieces) - i - 1) + (i,)
            for target, value in zip(numbers, values, strict=True):
                target[at] = value
            place[at] = where
    return numbers[0], numbers[1], numbers[2], place


def _pieces(axis: Any, *, together: bool) -> list[tuple[int, int, int, Any]]:
    """Start, count, stride and place of the pieces of one axis; a single one if nothing is selected in all."""
    if isinstance(axis, int):
        return [(axis, 1, 1, -1)]
    if isinstance(axis, range):
        return [(axis.start, len(axis), axis.step, slice(None))]
    if together:
        return [(int(axis[0]), len(axis), 1, slice(None))]
    return [(int(position), 1, 1, k) for k, position in enumerate(axis)]


def _out_array_shape(count: np.ndarray) -> tuple[int, ...]:
    """The shape of the data that regions fill, where axes that an integer takes away have the size 1."""
    return tuple(
        int(count[..., i].flat[0]) if pieces == 1 else pieces for i, pieces in enumerate(count.shape[:-1])
    )


def _find_dim(grp: Any, dimname: str) -> Any:
    """The dimension of a name in a group or above it, or :class:`ValueError`."""
    group = grp
    while group is not None:
        if dimname in group.dimensions:
            return group.dimensions[dimname]
        group = group.parent
    raise NetCDFValueError(f"cannot find dimension {dimname} in this group or parent groups")


def _walk_grps(topgrp: Any) -> Iterator[Any]:
    """Yield the groups below one, level by level, as collections."""
    yield topgrp.groups.values()
    for group in topgrp.groups.values():
        yield from _walk_grps(group)


class _Parser(argparse.ArgumentParser):
    """A command line whose help goes where its errors go, as that of netCDF4-python's programs does."""

    def print_help(self, file: Any = None) -> None:
        super().print_help(file or sys.stderr)


def ncinfo(arguments: Sequence[str] | None = None) -> None:
    """Print a dataset, one of its groups or one of its variables, as the command ``ncinfo`` does.

    Parameters
    ----------
    arguments : sequence of str, optional
        As on the command line: ``[-g GROUP] [-v VARIABLE] [-d DIMENSION] FILE``; default: :data:`sys.argv`.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "a.zarr")
    >>> with Dataset(path, "w") as ds:
    ...     x = ds.createDimension("x", 3)
    >>> ncinfo(["-d", "x", path])
    "<class 'nczarr.Dimension'>": name = 'x', size = 3
    """
    parser = _Parser(prog="ncinfo", description="Print a dataset or a part of it.")
    parser.add_argument("-g", "--group", default=None)
    parser.add_argument("-v", "--variable", default=None)
    parser.add_argument("-d", "--dimension", default=None)
    parser.add_argument("file")
    given = parser.parse_args(arguments)
    with Dataset(given.file) as ds:
        shown: Any = ds if given.group is None else ds[given.group]
        if given.variable is not None:
            shown = shown.variables[given.variable]
        elif given.dimension is not None:
            shown = shown.dimensions[given.dimension]
        print(shown)


def _add_copying(parser: argparse.ArgumentParser) -> None:
    """Add what both programs that copy take."""
    parser.add_argument("-o", dest="clobber", action="store_true", help="replace what has the target's name")
    _add_switch(parser, "quiet", False, "print nothing")
    parser.add_argument("--chunk", type=int, default=10, help="records copied at once; 0: all (default: 10)")


def _add_switch(parser: argparse.ArgumentParser, name: str, default: bool, text: str) -> None:
    parser.add_argument(
        f"--{name}", type=int, choices=(0, 1), default=int(default), help=f"{text} (default: {int(default)})"
    )


def _parse_digits(text: str) -> dict[str, int]:
    """Read ``speed=2,height=-2``."""
    return {
        name.strip(): int(digits) for name, _, digits in (item.rpartition("=") for item in text.split(","))
    }


def nc3tonc4(arguments: Sequence[str] | None = None) -> None:
    """Copy a netCDF-3 file to a netCDF-4 file, compressed and unpacked, as the command ``nc3tonc4`` does.

    Parameters
    ----------
    arguments : sequence of str, optional
        As on the command line, ``--help`` says more; default: :data:`sys.argv`.

    Examples
    --------
    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> source, target = os.path.join(folder, "3.nc"), os.path.join(folder, "4.nc")
    >>> with Dataset(source, "w", format="NETCDF3_CLASSIC") as ds:
    ...     x = ds.createDimension("x", 3)
    ...     ds.createVariable("v", "f4", ("x",))[:] = [1, 2, 3]
    >>> nc3tonc4(["--complevel=9", source, target])
    v: 3 values
    >>> with Dataset(target) as ds:
    ...     print(ds.data_model, ds["v"].filters()["complevel"])
    NETCDF4_CLASSIC 9
    """
    parser = _Parser(prog="nc3tonc4", description="Copy a netCDF-3 file to a netCDF-4 file.")
    _add_copying(parser)
    parser.add_argument("--vars", type=lambda text: text.split(","), help="names with commas; default: all")
    _add_switch(parser, "classic", True, "NETCDF4_CLASSIC as the target's model")
    _add_switch(parser, "zlib", True, "compress")
    parser.add_argument("--complevel", type=int, choices=range(1, 10), default=6, metavar="1-9")
    _add_switch(parser, "shuffle", True, "shuffle bytes before compressing")
    _add_switch(parser, "fletcher32", False, "add checksums")
    _add_switch(parser, "unpackshort", True, "make floats of packed 16-bit integers")
    parser.add_argument("--quantize", type=_parse_digits, help="decimal digits to keep: speed=2,height=-2")
    parser.add_argument("--istart", type=int, default=0, help="first record")
    parser.add_argument("--istop", type=int, default=-1, help="the record to stop before; -1: to the end")
    parser.add_argument("source")
    parser.add_argument("target")
    given = parser.parse_args(arguments)
    _nc3tonc4(
        given.source,
        given.target,
        unpackshort=bool(given.unpackshort),
        zlib=bool(given.zlib),
        complevel=given.complevel,
        shuffle=bool(given.shuffle),
        fletcher32=bool(given.fletcher32),
        clobber=given.clobber,
        lsd_dict=given.quantize,
        nchunk=given.chunk,
        quiet=bool(given.quiet),
        classic=bool(given.classic),
        vars=given.vars,
        istart=given.istart,
        istop=given.istop,
    )


def nc4tonc3(arguments: Sequence[str] | None = None) -> None:
    """Copy a netCDF-4 file of the classic model to a netCDF-3 file, as the command ``nc4tonc3`` does.

    Parameters
    ----------
    arguments : sequence of str, optional
        As on the command line: ``[-o] [--quiet=1] [--format=NETCDF3_CLASSIC] [--chunk=N] SOURCE TARGET``; default:
        :data:`sys.argv`.

    Examples
    --------
    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> source, target = os.path.join(folder, "4.nc"), os.path.join(folder, "3.nc")
    >>> with Dataset(source, "w", format="NETCDF4_CLASSIC") as ds:
    ...     x = ds.createDimension("x", 3)
    ...     ds.createVariable("v", "f4", ("x",))[:] = [1, 2, 3]
    >>> nc4tonc3([source, target])
    v: 3 values
    """
    parser = _Parser(
        prog="nc4tonc3", description="Copy a netCDF-4 file of the classic model to a netCDF-3 file."
    )
    _add_copying(parser)
    parser.add_argument(
        "--format", default="NETCDF3_64BIT", help="the target's model (default: NETCDF3_64BIT)"
    )
    parser.add_argument("source")
    parser.add_argument("target")
    given = parser.parse_args(arguments)
    _nc4tonc3(
        given.source,
        given.target,
        clobber=given.clobber,
        nchunk=given.chunk,
        quiet=bool(given.quiet),
        format=given.format,
    )

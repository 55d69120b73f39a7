"""Offer what programs use of ``netCDF4.utils``: information on a dataset, and how indices become regions."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from nczarr.netcdf4.classes import Dataset
from nczarr.netcdf4.errors import NetCDFValueError
from nczarr.netcdf4.values import chartostring, round_to_digit, stringtoarr, stringtochar

# What programs import from here.
_REEXPORTED = (chartostring, stringtoarr, stringtochar)


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
    parser = argparse.ArgumentParser(prog="ncinfo", description="Print a dataset or a part of it.")
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

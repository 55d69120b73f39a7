"""Provide ``netCDF4.utils``: the command ``ncinfo``, and the conversion of indices to regions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from nczarr.errors import SelectionError, UnsupportedError, also
from nczarr.netcdf4.dataset import Dataset, find_dimension
from nczarr.netcdf4.values.characters import chartostring, stringtoarr, stringtochar
from nczarr.netcdf4.values.indexing import AxisIndex, parse_selection
from nczarr.netcdf4.values.numbers import round_to_digit

# Names that programs import from this module. Those with an underscore have these callers:
# netCDF4-python's own tests call _StartCountStride and _out_array_shape (test_utils.py) and _quantize
# (test_compression.py), cfdm calls _safecast (netcdf_indexer), and nc-complex _find_dim.
_REEXPORTED = (chartostring, stringtoarr, stringtochar)
_find_dim = find_dimension


def _quantize(data: ArrayLike, least_significant_digit: int) -> np.ndarray:
    """Round to the power of two just below the last digit that counts."""
    return round_to_digit(np.asanyarray(data), least_significant_digit)


def _safecast(a: ArrayLike, b: ArrayLike) -> bool:
    """Return True if all elements of two arrays are equal; NaN equals NaN."""
    one, other = np.asanyarray(a), np.asanyarray(b)
    same = one == other
    if one.dtype.kind in "fc" and other.dtype.kind in "fc":
        same = same | (np.isnan(one) & np.isnan(other))
    return bool(np.all(same))


def _StartCountStride(
    elem: object,
    shape: Sequence[int],
    dimensions: Sequence[str] | None = None,
    grp: Any = None,
    datashape: Sequence[int] | None = None,
    put: bool = False,
    use_get_vars: bool = True,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Divide a selection into regions, with starts, counts, strides and places in the data.

    Returns
    -------
    start, count, stride : ndarray of int
        One axis for each axis of the variable, with the pieces along it, then an axis for their numbers.
    place : ndarray of object
        Of the same shape: an index of the data, -1 for an axis that an integer removes.
    """
    sizes = tuple(shape)
    growable = None
    if put:
        names = list(dimensions or ())
        if len(names) < len(sizes):
            raise SelectionError("list index out of range")
        growable = [find_dimension(grp, name).isunlimited() for name in names[: len(sizes)]]
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


def _pieces(axis: AxisIndex, *, together: bool) -> list[tuple[int, int, int, int | slice]]:
    """Return start, count, stride and place of the pieces of one axis; a single piece of an empty selection."""
    if isinstance(axis, int):
        return [(axis, 1, 1, -1)]
    if isinstance(axis, range):
        return [(axis.start, len(axis), axis.step, slice(None))]
    if together:
        return [(int(axis[0]), len(axis), 1, slice(None))]
    return [(int(position), 1, 1, k) for k, position in enumerate(axis)]


def _out_array_shape(count: np.ndarray) -> tuple[int, ...]:
    """Return the shape of the data of regions. Axes that an integer removes have the size 1."""
    return tuple(
        int(count[..., i].flat[0]) if pieces == 1 else pieces for i, pieces in enumerate(count.shape[:-1])
    )


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
    import argparse  # a dataset does not need it

    parser = argparse.ArgumentParser(prog="ncinfo", description="Print a dataset or a part of it.")
    parser.add_argument("-g", "--group", default=None)
    parser.add_argument("-v", "--variable", default=None)
    parser.add_argument("-d", "--dimension", default=None)
    parser.add_argument("file")
    given = parser.parse_args(arguments)
    with Dataset(given.file) as ds:
        group = ds if given.group is None else ds[given.group]
        if given.variable is not None:
            print(group.variables[given.variable])
        elif given.dimension is not None:
            print(group.dimensions[given.dimension])
        else:
            print(group)


def nc3tonc4(*arguments: object, **options: object) -> NoReturn:
    """Raise an error: ``nczarr copy`` converts between the formats."""
    raise also(UnsupportedError, OSError)(
        "nc3tonc4 and nc4tonc3 are not available",
        hint="nczarr copy --format=nc7 SOURCE TARGET (netCDF-4, classic model), or --format=classic",
    )


nc4tonc3 = _nc3tonc4 = _nc4tonc3 = nc3tonc4

"""Provide ``netCDF4.utils``: its three commands, and the conversion of indices to regions."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence, ValuesView
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from nczarr.errors import DatasetExistsError
from nczarr.formats import storage_of
from nczarr.netcdf4.classes.dataset import Dataset, Group
from nczarr.netcdf4.classes.dimension import Dimension
from nczarr.netcdf4.classes.variable import Variable
from nczarr.netcdf4.compatibility import storage
from nczarr.netcdf4.errors import NetCDFIndexError, NetCDFKeyError, NetCDFOSError, NetCDFValueError
from nczarr.netcdf4.values.characters import chartostring, stringtoarr, stringtochar
from nczarr.netcdf4.values.indexing import AxisIndex, parse_selection
from nczarr.netcdf4.values.quantize import round_to_digit
from nczarr.system.atomic import Output

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

# Names that programs import from this module.
_REEXPORTED = (chartostring, stringtoarr, stringtochar)


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
    grp: Dataset | None = None,
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


def _find_dim(grp: Dataset | None, dimname: str) -> Dimension:
    """Return the dimension with a name in a group or above it, or raise :class:`ValueError`."""
    group = grp
    while group is not None:
        if dimname in group.dimensions:
            return group.dimensions[dimname]
        group = group.parent
    raise NetCDFValueError(f"cannot find dimension {dimname} in this group or parent groups")


def _walk_grps(topgrp: Dataset) -> Iterator[ValuesView[Group]]:
    """Yield the groups below a group, level by level, as collections."""
    yield topgrp.groups.values()
    for group in topgrp.groups.values():
        yield from _walk_grps(group)


class _Parser(argparse.ArgumentParser):
    """A command line that prints its help to the standard error, as netCDF4-python's programs do."""

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
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
        group = ds if given.group is None else ds[given.group]
        if given.variable is not None:
            print(group.variables[given.variable])
        elif given.dimension is not None:
            print(group.dimensions[given.dimension])
        else:
            print(group)


def _add_copying(parser: argparse.ArgumentParser) -> None:
    """Add the options of both programs that copy."""
    parser.add_argument("-o", dest="clobber", action="store_true", help="replace an existing target")
    _add_switch(parser, "quiet", False, "print nothing")
    parser.add_argument(
        "--chunk",
        dest="nchunk",
        metavar="CHUNK",
        type=int,
        default=10,
        help="records copied at once; 0: all (default: 10)",
    )


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
    parser.add_argument(
        "--quantize",
        dest="lsd_dict",
        metavar="QUANTIZE",
        type=_parse_digits,
        help="decimal digits to keep: speed=2,height=-2",
    )
    parser.add_argument("--istart", type=int, default=0, help="first record")
    parser.add_argument("--istop", type=int, default=-1, help="the record to stop before; -1: to the end")
    parser.add_argument("filename3", metavar="source")
    parser.add_argument("filename4", metavar="target")
    given = parser.parse_args(arguments)
    _nc3tonc4(**vars(given))


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
    parser.add_argument("filename4", metavar="source")
    parser.add_argument("filename3", metavar="target")
    given = parser.parse_args(arguments)
    _nc4tonc3(**vars(given))


_PACKING = ("scale_factor", "add_offset")
#: The names of limits after multiplication by a negative factor.
_OPPOSITE = {"valid_min": "valid_max", "valid_max": "valid_min", "valid_range": "valid_range"}
#: The missing value of unpacked variables.
_UNPACKED_FILL = np.float32(1e30)


def copy_to_netcdf4(
    filename3: str | os.PathLike[str],
    filename4: str | os.PathLike[str],
    unpackshort: bool = True,
    zlib: bool = True,
    complevel: int = 6,
    shuffle: bool = True,
    fletcher32: bool = False,
    clobber: bool = False,
    lsd_dict: Mapping[str, int] | None = None,
    nchunk: int = 10,
    quiet: bool = False,
    classic: bool | int = 0,
    vars: Sequence[str] | None = None,
    istart: int = 0,
    istop: int = -1,
) -> None:
    """Copy a dataset of a classic model to one of a netCDF-4 model, compressed; 16-bit packed values are unpacked.

    Parameters
    ----------
    filename3, filename4
        Source and target. The target appears under its name when it is complete.
    unpackshort : bool
        Make float32 values of 16-bit integers that have both ``scale_factor`` and ``add_offset``.
    zlib, complevel, shuffle, fletcher32
        Filters of the target.
    clobber : bool
        Replace an existing target.
    lsd_dict : mapping of str to int, optional
        The last decimal digits to keep, by variable.
    nchunk : int
        Number of records that are copied at once; 0: all.
    quiet : bool
        Print nothing.
    classic : bool
        Make the target's model ``NETCDF4_CLASSIC``.
    vars : sequence of str, optional
        Copy these variables, and that with the name of the unlimited dimension.
    istart, istop : int
        The records to copy; -1: to the end.

    Raises
    ------
    DatasetExistsError
        If the target exists, without `clobber`.
    NetCDFKeyError
        If a variable does not exist.
    NetCDFOSError
        If the source has parts that the classic models lack.
    """
    with Dataset(filename3) as source:
        _check_classic(source)
        chosen = _chosen(source, vars)
        data_model = "NETCDF4_CLASSIC" if classic else "NETCDF4"
        with _target(filename4, data_model, clobber=clobber) as target:
            records = range(*slice(istart, None if istop == -1 else istop).indices(_record_count(source)))
            _copy_frame(source, target)
            for name in chosen:
                variable = source.variables[name]
                unpack = unpackshort and variable.dtype == "i2" and set(_PACKING) <= set(variable.ncattrs())
                new = target.createVariable(
                    name,
                    "f4" if unpack else variable.dtype,
                    variable.dimensions,
                    zlib=zlib,
                    complevel=complevel,
                    shuffle=shuffle,
                    fletcher32=fletcher32,
                    least_significant_digit=(lsd_dict or {}).get(name),
                    fill_value=_fill(variable, unpack=unpack),
                )
                new.setncatts(_unpacked_attributes(variable) if unpack else _attributes(variable))
                _copy_values(variable, new, records, nchunk, unpack=unpack)
                if not quiet:
                    print(f"{name}: {new.size} values{', unpacked' if unpack else ''}")


def copy_to_netcdf3(
    filename4: str | os.PathLike[str],
    filename3: str | os.PathLike[str],
    clobber: bool = False,
    nchunk: int = 10,
    quiet: bool = False,
    format: str = "NETCDF3_64BIT",
) -> None:
    """Copy a dataset of the model ``NETCDF4_CLASSIC`` to one of a netCDF-3 model.

    Parameters
    ----------
    filename4, filename3
        Source and target. The target appears under its name when it is complete.
    clobber : bool
        Replace an existing target.
    nchunk : int
        Number of records that are copied at once; 0: all.
    quiet : bool
        Print nothing.
    format : str
        The target's model.

    Raises
    ------
    DatasetExistsError
        If the target exists, without `clobber`.
    NetCDFOSError
        If the source is of another model.
    """
    with Dataset(filename4) as source:
        if source.data_model != "NETCDF4_CLASSIC":
            raise NetCDFOSError(
                f"the data model is {source.data_model}, not NETCDF4_CLASSIC; nczarr copy takes all",
                path=str(filename4),
            )
        with _target(filename3, format, clobber=clobber) as target:
            _copy_frame(source, target)
            for name, variable in source.variables.items():
                new = target.createVariable(
                    name,
                    variable.dtype,
                    variable.dimensions,
                    fill_value=getattr(variable, "_FillValue", None),
                )
                new.setncatts(_attributes(variable))
                _copy_values(variable, new, range(_record_count(source)), nchunk, unpack=False)
                if not quiet:
                    print(f"{name}: {new.size} values")


@contextmanager
def _target(path: str | os.PathLike[str], data_model: str, *, clobber: bool) -> Iterator[Dataset]:
    """Create a dataset that gets its name at the end of the block, if there is no error."""
    if os.path.lexists(path) and not clobber:
        raise DatasetExistsError("the target exists; clobber=True or -o replaces it", path=str(path))
    if storage_of(path, rule=storage()) == "zarr":  # a directory, which appears under its name at once
        with Dataset(path, "w", format=data_model) as target:
            yield target
        return
    output = Output(path)
    try:
        with Dataset(output.path, "w", format=data_model, storage="netcdf") as target:
            yield target
        output.commit()
    finally:
        output.discard()


def _check_classic(source: Dataset) -> None:
    types = [*source.cmptypes, *source.vltypes, *source.enumtypes, *source.opaquetypes]
    inside = [f"group {name}" for name in source.groups] + [f"type {name}" for name in types]
    inside += [f"unlimited dimension {d.name}" for d in source.dimensions.values() if d.isunlimited()][1:]
    if inside:
        raise NetCDFOSError(
            f"{inside[0]}: the classic models have no groups, no types and one unlimited dimension;"
            " nczarr copy takes all",
            path=source.filepath(),
        )


def _record_dimension(source: Dataset) -> str | None:
    return next((name for name, d in source.dimensions.items() if d.isunlimited()), None)


def _record_count(source: Dataset) -> int:
    name = _record_dimension(source)
    return 0 if name is None else len(source.dimensions[name])


def _chosen(source: Dataset, names: Sequence[str] | None) -> list[str]:
    if names is None:
        return list(source.variables)
    for name in names:
        if name not in source.variables:
            raise NetCDFKeyError(f"there is no variable {name}", path=source.filepath())
    record = _record_dimension(source)
    return list(dict.fromkeys([*names, *({record} & set(source.variables) if record else ())]))


def _copy_frame(source: Dataset, target: Dataset) -> None:
    target.setncatts({name: source.getncattr(name) for name in source.ncattrs()})
    for name, dimension in source.dimensions.items():
        target.createDimension(name, None if dimension.isunlimited() else len(dimension))


def _attributes(variable: Variable) -> dict[str, Any]:
    return {name: variable.getncattr(name) for name in variable.ncattrs() if name != "_FillValue"}


def _unpacked_attributes(variable: Variable) -> dict[str, Any]:
    """Return the attributes of a variable after unpacking, which includes limits of valid values."""
    attributes = _attributes(variable)
    unsigned = str(attributes.pop("_Unsigned", "")).lower() == "true"
    scale, offset = (attributes.pop(name) for name in _PACKING)
    unpacked: dict[str, Any] = {}
    for name in [name for name in _OPPOSITE if name in attributes]:
        limit = np.asarray(attributes.pop(name))
        if limit.dtype.kind in "iu":  # limits of another type are unpacked already
            limit = limit.astype("u2") if unsigned else limit
            limit = limit * scale + offset
            if scale < 0:
                name, limit = _OPPOSITE[name], limit[..., ::-1] if limit.ndim else limit
        unpacked[name] = limit.astype("f4")
    if "missing_value" in attributes:
        attributes["missing_value"] = _UNPACKED_FILL
    return attributes | unpacked


def _fill(variable: Variable, *, unpack: bool) -> object:
    """Return the fill value of the copy; for a variable without one, its single missing value."""
    marks = {name: variable.getncattr(name) for name in variable.ncattrs()}
    fill = marks.get("_FillValue")
    missing = np.asarray(marks.get("missing_value"))
    if fill is None and missing.size == 1 and missing.dtype == variable.dtype:
        fill = missing.reshape(())[()]
    return fill if fill is None or not unpack else _UNPACKED_FILL


def _copy_values(source: Variable, target: Variable, records: range, nchunk: int, *, unpack: bool) -> None:
    """Copy the stored or unpacked values, some records at a time."""
    for variable in (source, target):
        variable.set_auto_chartostring(False)
        variable.set_auto_maskandscale(variable is source and unpack)

    def values(index: object) -> np.ndarray:
        found = source[index]
        if not unpack:
            return found
        fill = target.get_fill_value()
        return np.ma.filled(found.astype("f4") if np.ma.isMA(found) else np.float32(found), fill)

    grows = [d.isunlimited() for d in source.get_dims()]
    if not any(grows):
        target[...] = values(...)
        return
    at_once = nchunk if nchunk > 0 else max(len(records), 1)
    axis = grows.index(True)
    for start in range(0, len(records), at_once):
        part = records[start : start + at_once]
        before = (slice(None),) * axis
        target[(*before, slice(start, start + len(part)))] = values((*before, slice(part.start, part.stop)))


_nc3tonc4, _nc4tonc3 = copy_to_netcdf4, copy_to_netcdf3

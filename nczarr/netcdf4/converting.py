"""Copy datasets from the netCDF-3 data models to netCDF-4 and back, as two programs of netCDF4-python do."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from nczarr.errors import DatasetExistsError
from nczarr.formats import storage_of
from nczarr.netcdf4.classes.dataset import Dataset
from nczarr.netcdf4.classes.variable import Variable
from nczarr.netcdf4.errors import NetCDFKeyError, NetCDFOSError
from nczarr.system.atomic import Output

_PACKING = ("scale_factor", "add_offset")
#: What limits become where a negative factor turns them round.
_OPPOSITE = {"valid_min": "valid_max", "valid_max": "valid_min", "valid_range": "valid_range"}
#: What marks missing values of variables that were packed.
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
        Source and target; the target has its name only when it is complete.
    unpackshort : bool
        Make float32 values of 16-bit integers that have both ``scale_factor`` and ``add_offset``.
    zlib, complevel, shuffle, fletcher32
        Filters of the target.
    clobber : bool
        Replace what has the target's name.
    lsd_dict : mapping of str to int, optional
        Variables, and the last decimal digits that are kept of them.
    nchunk : int
        So many records are copied at once; 0: all.
    quiet : bool
        Print nothing.
    classic : bool
        Make the target's model ``NETCDF4_CLASSIC``.
    vars : sequence of str, optional
        Copy these variables, and the one that has the unlimited dimension's name.
    istart, istop : int
        The records to copy; -1: to the end.

    Raises
    ------
    DatasetExistsError
        If the target is there, without `clobber`.
    NetCDFKeyError
        If a variable is not there.
    NetCDFOSError
        If the source has what the classic models do not know.
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
        Source and target; the target has its name only when it is complete.
    clobber : bool
        Replace what has the target's name.
    nchunk : int
        So many records are copied at once; 0: all.
    quiet : bool
        Print nothing.
    format : str
        The target's model.

    Raises
    ------
    DatasetExistsError
        If the target is there, without `clobber`.
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
    """A new dataset, which gets its name at the end of the block if nothing fails."""
    if os.path.lexists(path) and not clobber:
        raise DatasetExistsError("something is there; clobber=True or -o replaces it", path=str(path))
    if storage_of(path) == "zarr":  # a directory: there under its name at once
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
    """The attributes of a packed variable that its unpacked values have: limits are unpacked, too."""
    attributes = _attributes(variable)
    unsigned = str(attributes.pop("_Unsigned", "")).lower() == "true"
    scale, offset = (attributes.pop(name) for name in _PACKING)
    unpacked: dict[str, Any] = {}
    for name in [name for name in _OPPOSITE if name in attributes]:
        limit = np.asarray(attributes.pop(name))
        if limit.dtype.kind in "iu":  # of another type, it is of the unpacked values already
            limit = limit.astype("u2") if unsigned else limit
            limit = limit * scale + offset
            if scale < 0:
                name, limit = _OPPOSITE[name], limit[..., ::-1] if limit.ndim else limit
        unpacked[name] = limit.astype("f4")
    if "missing_value" in attributes:
        attributes["missing_value"] = _UNPACKED_FILL
    return attributes | unpacked


def _fill(variable: Variable, *, unpack: bool) -> Any:
    """The fill value of the copy: if the variable has none, its one missing value."""
    marks = {name: variable.getncattr(name) for name in variable.ncattrs()}
    fill = marks.get("_FillValue")
    missing = np.asarray(marks.get("missing_value"))
    if fill is None and missing.size == 1 and missing.dtype == variable.dtype:
        fill = missing.reshape(())[()]
    return fill if fill is None or not unpack else _UNPACKED_FILL


def _copy_values(source: Variable, target: Variable, records: range, nchunk: int, *, unpack: bool) -> None:
    """Copy what is stored, or what it means, some records at a time."""
    for variable in (source, target):
        variable.set_auto_chartostring(False)
        variable.set_auto_maskandscale(variable is source and unpack)

    def values(index: Any) -> Any:
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

"""More kinds of archives that are not clean: what differs between the daily files of real archives, and broken files.

The archives are those of :mod:`tests.helpers.dirty_archives`. A kind of content changes the variables of some files; a
kind of file changes the written files, their names, or their formats.
"""

from __future__ import annotations

import gzip
import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np

from tests.helpers.dirty_archives import (
    _FIRST,
    _LAST,
    _ODD,
    LON,
    Change,
    File,
    Kind,
    _add,
    _both,
    _drop,
    _times,
)

UNPACKED, FIRST = ({"repack": mode} for mode in ("unpacked", "first"))
FIRST_WORDS, FILL = {"join": "first"}, {"join": "fill"}
UNITS, FLIP, PROMOTE = ({"adjust": word} for word in ("units", "flip", "promote"))


def _v(**attributes: Any) -> Change:
    return _ODD(lambda f: f.change("v", **attributes))


def _units(one: str, other: str, name: str = "v") -> Change:
    return lambda f: f.change(name, units=other if f.number % 2 else one)


def _turned(file: File) -> None:
    """Longitudes of -180 to 180 in place of 0 to 360, in the order of the files."""
    file.change("lon", values=[-180.0, -150.0, -120.0])


def _same_grid_turned(file: File) -> None:
    """The same places as 0, 30 and 60 degrees, one turn further."""
    file.change("lon", values=LON + 360)


def _level(**attributes: Any) -> Change:
    def change(file: File) -> None:
        file.dims["lev"] = 2
        file.variables["lev"] = ("f4", ("lev",), [1000.0, 500.0], {"units": "hPa"} | attributes)

    return change


def _level_in(units: str, factor: float) -> Change:
    def change(file: File) -> None:
        file.change("lev", units=units, values=np.array([1000.0, 500.0]) * factor)

    return change


def _time_bounds(name: str = "time_bnds", before: float = 0.0) -> Change:
    def change(file: File) -> None:
        file.dims["nv"] = 2
        days = np.asarray(file.variables["time"][2])
        file.change("time", bounds=name)
        file.variables[name] = ("f8", ("time", "nv"), np.stack([days - before, days - before + 1], 1), {})

    return change


def _text(name: str, kind: Any, dims: tuple[str, ...], values: Any) -> Change:
    return lambda f: f.variables.update({name: (kind, dims, values, {})})


def _renamed(old: str, new: str) -> Change:
    def change(file: File) -> None:
        file.variables = {new if k == old else k: v for k, v in file.variables.items()}

    return change


def _renamed_dimension(old: str, new: str) -> Change:
    def change(file: File) -> None:
        file.dims = {new if k == old else k: n for k, n in file.dims.items()}
        file.variables = {
            new if k == old else k: (t, tuple(new if d == old else d for d in dims), values, attributes)
            for k, (t, dims, values, attributes) in file.variables.items()
        }

    return change


def _one_step(file: File) -> None:
    for name, (type_, dims, values, attributes) in file.variables.items():
        if "time" in dims:
            file.variables[name] = (type_, dims, np.asarray(values)[:1], attributes)


def _scalar_time(file: File) -> None:
    """One step without the dimension time, as each file of a day often has."""
    _one_step(file)
    for name in ("time", "v"):
        type_, dims, values, attributes = file.variables[name]
        file.variables[name] = (type_, dims[1:], np.asarray(values)[0], attributes)
    file.dims.pop("time")


def _all(value: float) -> Change:
    return lambda f: f.change("v", values=np.full((2, 4, 3), value))


CONTENT: dict[str, Kind] = {
    # units and their spelling
    "units in capitals": Kind(_units("K", "KELVIN"), (UNITS,), "units"),
    "Kelvin": Kind(_units("K", "Kelvin"), (UNITS,), "units"),
    "deg C": Kind(_units("degC", "deg_C"), (UNITS,), "units"),
    "degrees Celsius": Kind(_units("degC", "degrees_celsius"), (UNITS,), "units"),
    "percent": Kind(_units("%", "percent"), (UNITS,), "units"),
    "one": Kind(_units("1", ""), (UNITS,), "units"),
    "fraction beside percent": Kind(_units("1", "%"), (), "units"),
    "hectopascals": Kind(_units("hPa", "hectopascal"), (UNITS,), "units"),
    "mbar": Kind(_units("hPa", "mbar"), (UNITS,), "units"),
    "metres": Kind(_units("m", "metres"), (UNITS,), "units"),
    "micro sign": Kind(_units("ug m-3", "µg m-3"), (UNITS,), "units"),
    "per second": Kind(_units("kg m-2 s-1", "kg m^-2 s^-1"), (UNITS,), "units"),
    "mm/day beside kg m-2 s-1": Kind(_units("mm/day", "kg m-2 s-1"), (), "units"),
    "degrees_east": Kind(_units("degrees_east", "degreesE", "lon"), (UNITS,), "units"),
    "degrees beside degrees_north": Kind(_units("degrees_north", "degrees", "lat"), (), "units"),
    "radians": Kind(_units("degrees_north", "radians", "lat"), (), "units"),
    # times
    "seconds": Kind(_ODD(_times("seconds since 2001-01-01", lambda t: t * 86400))),
    "minutes": Kind(_ODD(_times("minutes since 2001-01-01 00:00:00", lambda t: t * 1440))),
    "epoch of Unix": Kind(_ODD(_times("seconds since 1970-01-01", lambda t: t * 86400 + 978307200))),
    "each file since its day": Kind(
        lambda f: _times(f"days since 2001-01-{1 + 2 * f.number:02}", lambda t: t - 2 * f.number)(f)
    ),
    "T and Z": Kind(_ODD(_times("days since 2001-01-01T00:00:00Z", lambda t: t))),
    "time zone": Kind(_ODD(_times("days since 2001-01-01 00:00 +02:00", lambda t: t + 2 / 24))),
    "short reference": Kind(_ODD(_times("days since 2001-1-1", lambda t: t))),
    "no calendar": Kind(_ODD(lambda f: f.change("time", drop=("calendar",)))),
    "calendar in capitals": Kind(_ODD(lambda f: f.change("time", calendar="Standard"))),
    "365_day beside noleap": Kind(
        lambda f: f.change("time", calendar="365_day" if f.number % 2 else "noleap")
    ),
    "julian": Kind(_ODD(lambda f: f.change("time", calendar="julian")), (), "calendar"),
    "months": Kind(_ODD(_times("months since 2001-01-01", lambda t: t)), (), "cannot be converted"),
    "no units of time": Kind(_ODD(lambda f: f.change("time", drop=("units",))), (), "units"),
    "dates as numbers": Kind(
        _ODD(
            lambda f: f.change(
                "time", units="day as %Y%m%d.%f", values=20010101 + np.asarray(f.variables["time"][2])
            )
        ),
        (),
        "units",
    ),
    "float time": Kind(
        _ODD(lambda f: f.change("time", type="f4")),
        (PROMOTE, UNPACKED, FIRST),
        "/time: the type is float",
    ),
    "int time": Kind(
        _ODD(lambda f: f.change("time", type="i4")),
        (PROMOTE, UNPACKED, FIRST),
        "/time: the type is int",
    ),
    "infinite time": Kind(_LAST(lambda f: f.change("time", values=[6, np.inf])), (), "missing value"),
    "rounded time": Kind(_ODD(lambda f: f.change("time", values=np.asarray(f.variables["time"][2]) + 1e-9))),
    "same day twice in a file": Kind(_LAST(lambda f: f.change("time", values=[6, 6])), (), "after"),
    "unsorted in each": Kind(
        lambda f: f.change("time", values=np.asarray(f.variables["time"][2])[::-1]), (), "after"
    ),
    "name of time": Kind(_LAST(_renamed_dimension("time", "Time")), (), "/time: the variable is missing"),
    "one step": Kind(_LAST(_one_step)),
    "step without dimension": Kind(_LAST(_scalar_time), (), "/time: the dimension is missing"),
    "time fixed in some": Kind(_ODD(lambda f: f.dims.update(time=2))),
    "fixed time in all": Kind(lambda f: f.dims.update(time=2)),
    # bounds
    "time bounds": Kind(_time_bounds()),
    "time bounds missing": Kind(
        _both(_time_bounds(), _LAST(_drop("time_bnds"))), (FILL,), "/time_bnds: the variable is missing"
    ),
    "no attribute bounds": Kind(
        _both(_time_bounds(), _LAST(lambda f: f.change("time", drop=("bounds",)))),
        (FIRST_WORDS,),
        "/time: the attribute bounds is",
    ),
    "bounds of another name": Kind(
        lambda f: _time_bounds("time_bnds" if f.number % 2 else "bounds_time")(f),
        (),
        "/bounds_time: the variable is missing",
    ),
    "bounds of the day before": Kind(lambda f: _time_bounds(before=f.number % 2)(f)),
    "bounds in other units": Kind(
        _both(
            _time_bounds(),
            _ODD(lambda f: f.change("time_bnds", values=np.asarray(f.variables["time_bnds"][2]) * 24)),
            _ODD(_times("hours since 2001-01-01", lambda t: t * 24)),
        )
    ),
    # coordinates
    "turned longitude": Kind(_ODD(_turned), (), "/lon: the values differ"),
    "one turn further": Kind(_ODD(_same_grid_turned), (), "/lon: the values differ"),
    "rounded longitude": Kind(
        _ODD(lambda f: f.change("lon", values=LON + 1e-6)),
        ({"tolerance": {"lon": 1e-3}},),
        "/lon: the values differ",
    ),
    "longitude in double": Kind(
        _ODD(lambda f: f.change("lon", type="f8")),
        (PROMOTE, UNPACKED, FIRST),
        "/lon: the type is double",
    ),
    "integer latitude": Kind(
        _ODD(lambda f: f.change("lat", type="i4")),
        (PROMOTE, UNPACKED, FIRST),
        "/lat: the type is int",
    ),
    "NaN in latitude": Kind(
        _ODD(lambda f: f.change("lat", values=[-10, 0, np.nan, 20])), (), "/lat: the values differ"
    ),
    "NaN in latitude of all": Kind(lambda f: f.change("lat", values=[-10, 0, np.nan, 20])),
    "fill of latitude": Kind(
        _ODD(lambda f: f.change("lat", _FillValue=np.float32(-999))),
        (UNPACKED, FIRST),
        "/lat: the attribute _FillValue is",
    ),
    "name of latitude": Kind(
        _ODD(_renamed_dimension("lat", "latitude")), (), "/lat: the variable is missing"
    ),
    "longitude missing": Kind(_ODD(_drop("lon")), (FILL,), "/lon: the variable is missing"),
    "no coordinates in the first": Kind(
        _FIRST(_both(_drop("lat"), _drop("lon"))), (FILL,), "/lat: the first has no such variable"
    ),
    "level in Pa": Kind(_both(_level(), _ODD(_level_in("Pa", 100))), (), "units"),
    "level in millibar": Kind(_both(_level(), _ODD(_level_in("millibar", 1))), (UNITS,), "units"),
    "levels turned": Kind(
        _both(_level(), _ODD(lambda f: f.change("lev", values=[500.0, 1000.0]))),
        (FLIP,),
        "/lev: the values differ",
    ),
    "level missing": Kind(_ODD(_level()), (FILL,), "/lev: the first has no such variable"),
    "axis": Kind(_ODD(lambda f: f.change("lat", axis="Y")), (FIRST_WORDS,), "/lat: the attribute axis is"),
    "standard_name of a coordinate": Kind(
        _ODD(lambda f: f.change("lat", standard_name="latitude")),
        (FIRST_WORDS,),
        "/lat: the attribute standard_name is",
    ),
    # names and variables
    "name of the variable": Kind(_ODD(_renamed("v", "V")), (FILL,), "/v: the variable is missing"),
    "more in the last": Kind(_LAST(_add("w")), (FILL,), "/w: the first has no such variable"),
    "integer missing": Kind(
        _ODD(_add("w", "i4", _FillValue=np.int32(-1))), (FILL,), "/w: the first has no such variable"
    ),
    "order of variables": Kind(
        _ODD(lambda f: f.variables.update(v=f.variables.pop("v"), lat=f.variables.pop("lat")))
    ),
    "empty text": Kind(_text("name", "S1", ("lat",), [b"", b"", b"", b""])),
    "string beside characters": Kind(
        lambda f: _text(
            "name",
            str if f.number % 2 else "S1",
            ("lat",),
            np.array(list("abcd"), object if f.number % 2 else "S1"),
        )(f),
        (),
        "/name: the type is string",
    ),
    "strings of each file": Kind(
        lambda f: _text("name", str, ("time",), np.array([f"é{f.number}", ""], object))(f)
    ),
    "scalar of each file": Kind(lambda f: _text("run", "i4", (), f.number)(f), (), "/run: the values differ"),
    # attributes
    "type of an attribute": Kind(
        lambda f: f.change("v", level=np.int32(2) if f.number % 2 else np.float64(2))
    ),
    "text of a number": Kind(lambda f: f.change("v", level="2" if f.number % 2 else np.int32(2))),
    "long_name": Kind(lambda f: f.change("v", long_name=f"value {f.number}")),
    "missing_value as text": Kind(
        _v(missing_value="-999"),
        (UNPACKED, FIRST),
        "/v: the attribute missing_value is",
    ),
    "valid_range beyond": Kind(
        _v(valid_range=np.array([0, 50], "f4")), (), "/v: the attribute valid_range is"
    ),
    "flag_meanings": Kind(
        lambda f: f.change("v", flag_meanings="a b" if f.number % 2 else "a c"),
        (FIRST_WORDS,),
        "/v: the attribute flag_meanings is",
    ),
    "grid_mapping": Kind(
        _both(_text("crs", "i4", (), 0), _v(grid_mapping="crs")),
        (FIRST_WORDS,),
        "/v: the attribute grid_mapping is",
    ),
    "grid mapping differs": Kind(
        _both(
            _text("crs", "i4", (), 0),
            lambda f: f.change("v", grid_mapping="crs"),
            lambda f: f.change("crs", earth_radius=6371000.0 + f.number % 2),
        ),
        (FIRST_WORDS,),
        "/crs: the attribute earth_radius is",
    ),
    "cell_measures": Kind(_v(cell_measures="area: a"), (FIRST_WORDS,), "/v: the attribute cell_measures is"),
    "coordinates": Kind(
        _both(
            _add("height", dims=(), units="m"),
            lambda f: f.change("height", values=2),
            _v(coordinates="height"),
        ),
        (FIRST_WORDS,),
        "/v: the attribute coordinates is",
    ),
    "Conventions": Kind(lambda f: f.attributes.update(Conventions="CF-1.6" if f.number % 2 else "CF-1.8")),
    "accents in an attribute": Kind(_ODD(lambda f: f.attributes.update(institution="Météo"))),
    # values
    "all missing": Kind(_LAST(_all(-999))),
    "all NaN": Kind(_LAST(_all(np.nan))),
}


@dataclass(frozen=True)
class Files:
    """One kind of files.

    Parameters
    ----------
    change : callable
        Changes the written files, and may return other paths.
    says : str
        A part of the refusal, which also names the third file; empty if the archive is joined.
    """

    change: Callable[[list[Path]], list[Path] | None]
    says: str = ""


def _third(change: Callable[[Path], Any], says: str = "") -> Files:
    return Files(lambda paths: change(paths[2]) and None, says)


def _bytes(change: Callable[[bytes], bytes]) -> Callable[[Path], Any]:
    return lambda path: path.write_bytes(change(path.read_bytes()))


def _called(name: str | bytes) -> Callable[[list[Path]], list[Path]]:
    def change(paths: list[Path]) -> list[Path]:
        new = Path(os.fsdecode(os.path.join(os.fsencode(paths[2].parent), os.fsencode(name))))
        new.parent.mkdir(exist_ok=True)
        paths[2].rename(new)
        return [*paths[:2], new, *paths[3:]]

    return change


def _as(format: str) -> Callable[[Path], Any]:
    """Write a file anew in another format of netCDF."""

    def change(path: Path) -> None:
        old = path.with_suffix(".old")
        path.rename(old)
        with netCDF4.Dataset(old) as source, netCDF4.Dataset(path, "w", format=format) as out:
            for name, dimension in source.dimensions.items():
                out.createDimension(name, None if dimension.isunlimited() else dimension.size)
            for name, v in source.variables.items():
                own = {a: v.getncattr(a) for a in v.ncattrs()}
                new = out.createVariable(name, v.dtype, v.dimensions, fill_value=own.pop("_FillValue", None))
                new.setncatts(own)
                new.set_auto_maskandscale(False)
                v.set_auto_maskandscale(False)
                new[:] = v[:]
        old.unlink()

    return change


def _replaced(make: Callable[[Path], Any]) -> Callable[[Path], Any]:
    def change(path: Path) -> None:
        path.unlink()
        make(path)

    return change


def _zipped(path: Path) -> None:
    data = path.read_bytes()
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("2.nc", data)


def _into_group(path: Path) -> None:
    import h5py

    with h5py.File(path, "r+") as file:
        group = file.create_group("data")
        for name in ("v",):
            file.move(name, f"data/{name}")
        del group


def _other_hdf5(path: Path) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        file["v"] = np.zeros((2, 4, 3))


def _linked(path: Path) -> None:
    target = path.with_name("far.nc")
    path.rename(target)
    path.symlink_to(target)


FILES_OF: dict[str, Files] = {
    "empty file": _third(lambda path: path.write_bytes(b""), "empty"),
    "first bytes only": _third(_bytes(lambda data: data[:8]), "HDF5 cannot open the file"),
    "half of HDF5": _third(_bytes(lambda data: data[: len(data) // 2]), "the file is truncated"),
    "last byte missing": _third(_bytes(lambda data: data[:-1]), "the file is truncated"),
    "bytes behind the end": _third(_bytes(lambda data: data + b"\0" * 100), ""),
    "zeros": _third(_bytes(lambda data: bytes(len(data))), "not a netCDF file"),
    "zeros behind the head": _third(
        _bytes(lambda data: data[:2000] + bytes(len(data) - 2000)), "cannot be read"
    ),
    "page of an error": _third(
        lambda path: path.write_text("<html><body>404 Not Found</body></html>"), "perhaps a web page"
    ),
    "message of an error": _third(lambda path: path.write_text('{"error": "no access"}'), "perhaps JSON"),
    "pointer of Git LFS": _third(
        lambda path: path.write_text(
            "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
        ),
        "perhaps a pointer of Git LFS",
    ),
    "gzip": _third(_bytes(gzip.compress), "this is a gzip file"),
    "zip of a file": _third(_zipped, "this is a zip archive"),
    "HDF4": _third(lambda path: path.write_bytes(b"\x0e\x03\x13\x01" + bytes(500)), "this is an HDF4 file"),
    "GRIB": _third(lambda path: path.write_bytes(b"GRIB" + bytes(500)), "this is a GRIB file"),
    "BUFR": _third(lambda path: path.write_bytes(b"BUFR" + bytes(500)), "this is a BUFR file"),
    "TIFF": _third(lambda path: path.write_bytes(b"II*\0" + bytes(500)), "this is a TIFF file"),
    "directory": _third(_replaced(Path.mkdir), "no Zarr hierarchy"),
    "missing file": _third(Path.unlink, "there is no such file"),
    "dangling link": _third(_replaced(lambda path: path.symlink_to("nowhere.nc")), "there is no such file"),
    "loop of links": _third(_replaced(lambda path: path.symlink_to(path.name)), "there is no such file"),
    "pipe": _third(_replaced(os.mkfifo), "this is a pipe"),
    "HDF5 of another program": _third(_other_hdf5, "/time: the variable is missing"),
    "variable in a group": _third(_into_group, "/v: the variable is missing"),
    "link": _third(_linked),
    "classic": _third(_as("NETCDF3_CLASSIC")),
    "classic with 64-bit offsets": _third(_as("NETCDF3_64BIT_OFFSET")),
    "CDF5": _third(_as("NETCDF3_64BIT_DATA")),
    "classic model": _third(_as("NETCDF4_CLASSIC")),
    "half of a classic file": _third(
        lambda path: (_as("NETCDF3_CLASSIC")(path), _bytes(lambda data: data[:-60])(path)),
        "the file is truncated",
    ),
    "without extension": Files(_called("2")),
    "extension nc4": Files(_called("2.nc4")),
    "extension h5": Files(_called("2.h5")),
    "extension of CDL": Files(_called("2.cdl")),
    "name that is no UTF-8": Files(_called(b"2\xff.nc")),
    "name with blanks and brackets": Files(_called("2 [a]*?.nc")),
    "name with a colon": Files(_called("2000-01-01T00:00.nc")),
    "name with a number sign": Files(_called("2#mode=bytes.nc")),
    "folder of its own": Files(_called("day 2/a.nc")),
    "file twice": Files(lambda paths: [*paths[:3], paths[2], paths[3]], "after"),
}

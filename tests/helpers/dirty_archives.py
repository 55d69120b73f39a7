"""Make small archives that are not clean: each kind changes one thing in some files of a clean archive.

An archive is a folder of four netCDF files, each with two days of a packed or unpacked variable on a grid. Each kind
names the options with which the archive can be joined; with all others, it is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np

LAT = np.array([-10.0, 0.0, 10.0, 20.0])
LON = np.array([0.0, 30.0, 60.0])
FILES = 4


@dataclass
class File:
    """One file of an archive, before it is written."""

    number: int
    dims: dict[str, int | None] = field(default_factory=lambda: {"time": None, "lat": 4, "lon": 3})
    variables: dict[str, tuple[str, tuple[str, ...], Any, dict[str, Any]]] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def clean(cls, number: int) -> File:
        """Return file `number` of the clean archive: float values with two decimals, from 0 to 100."""
        file = cls(number)
        rng = np.random.default_rng(number)
        days = np.arange(2.0) + 2 * number
        values = np.round(rng.random((2, 4, 3)) * 100, 2)
        file.variables = {
            "time": ("f8", ("time",), days, {"units": "days since 2001-01-01", "calendar": "standard"}),
            "lat": ("f4", ("lat",), LAT, {"units": "degrees_north"}),
            "lon": ("f4", ("lon",), LON, {"units": "degrees_east"}),
            "v": ("f4", ("time", "lat", "lon"), values, {"units": "K", "_FillValue": np.float32(-999)}),
        }
        return file

    def change(
        self, name: str, *, type: str | None = None, values: Any = None, dims: Any = None, drop: tuple[str, ...] = (),
        **attributes: Any,
    ) -> File:  # fmt: skip
        """Change a variable; `drop` names attributes to remove."""
        old = self.variables[name]
        kept = {k: v for k, v in old[3].items() if k not in drop}
        self.variables[name] = (
            type or old[0], dims or old[1], old[2] if values is None else values, kept | attributes
        )  # fmt: skip
        return self

    def pack(self, type: str, scale: Any, offset: Any, fill: Any, name: str = "v", **more: Any) -> File:
        """Pack a variable: its numbers are those that packing rounds to."""
        values = self.variables[name][2]
        numbers = values if scale is None else np.rint((values - offset) / scale)
        packing = {} if scale is None else {"scale_factor": scale, "add_offset": offset}
        own = {} if fill is None else {"_FillValue": np.dtype(type).type(fill)}
        return self.change(name, type=type, values=numbers, drop=("_FillValue",), **packing, **own, **more)

    def write(self, path: Path) -> None:
        """Write the file."""
        with netCDF4.Dataset(path, "w") as out:
            out.setncatts(self.attributes)
            for name, size in self.dims.items():
                out.createDimension(name, size)
            for name, (type_, dims, values, attributes) in self.variables.items():
                own = dict(attributes)
                v = out.createVariable(name, type_, dims, fill_value=own.pop("_FillValue", None))
                v.set_auto_maskandscale(False)
                v.setncatts(own)
                v[:] = np.asarray(values).astype(v.dtype)


Change = Callable[[File], object]


@dataclass(frozen=True)
class Kind:
    """One kind of dirt.

    Parameters
    ----------
    change : callable
        Changes each file.
    cures : tuple of dict
        The options of :func:`nczarr.copy` with which the archive can be joined; empty if there are none.
    says : str
        A part of the refusal without options; empty if the archive is joined without any.
    write : callable, optional
        Changes the written files.
    """

    change: Change
    cures: tuple[dict[str, Any], ...] = ()
    says: str = ""
    write: Callable[[list[Path]], object] | None = None


def _of(*numbers: int) -> Callable[[Change], Change]:
    """Return a decorator that applies a change to some files only."""

    def only(change: Change) -> Change:
        return lambda file: change(file) if file.number in numbers else None

    return only


_ODD = _of(1, 3)
_LAST = _of(3)
_FIRST = _of(0)
UNPACKED, FIRST, COMMON = ({"repack": mode} for mode in ("unpacked", "first", "common"))
PROMOTE, UNITS, ORDER, FLIP, CALENDAR = (
    {"adjust": word} for word in ("promote", "units", "order", "flip", "calendar")
)
FILL = {"join": "fill"}
EXPECT_FILL = {"join": "fill", "expect_step": "1d"}


def _two_packings(one: tuple[Any, ...], other: tuple[Any, ...]) -> Change:
    return lambda f: f.pack(*(one if f.number % 2 == 0 else other))


def _missing_value(file: File) -> None:
    values = np.array(file.variables["v"][2], copy=True)
    values[0, 0, 0] = -999 if file.number % 2 == 0 else 1e20
    file.change("v", values=values, _FillValue=np.float32(-999 if file.number % 2 == 0 else 1e20))


def _nan_beside(file: File) -> None:
    values = np.array(file.variables["v"][2], copy=True)
    values[1, 1, 1] = -999 if file.number % 2 == 0 else np.nan
    file.change("v", values=values, _FillValue=np.float32(-999 if file.number % 2 == 0 else np.nan))


def _flipped(name: str, axis: int) -> Change:
    def change(file: File) -> None:
        type_, dims, values, attributes = file.variables[name]
        file.variables[name] = (type_, dims, np.asarray(values)[::-1], attributes)
        type_, dims, values, attributes = file.variables["v"]
        file.variables["v"] = (type_, dims, np.flip(values, axis), attributes)

    return change


def _with_bounds(file: File, flip: bool | None = None) -> None:
    file.dims["nv"] = 2
    bounds = np.stack([LAT - 5, LAT + 5], 1)
    file.change("lat", bounds="lat_bnds")
    file.variables["lat_bnds"] = ("f4", ("lat", "nv"), bounds, {})
    if file.number in (1, 3) if flip is None else flip:
        _flipped("lat", 1)(file)
        file.change("lat_bnds", values=bounds[::-1, ::-1])


def _reordered(*dims: str) -> Change:
    def change(file: File) -> None:
        own = file.variables["v"][1]
        file.change("v", dims=dims, values=np.transpose(file.variables["v"][2], [own.index(d) for d in dims]))

    return change


def _shifted(by: float, at: int = 3) -> Change:
    return _of(at)(lambda f: f.change("time", values=np.asarray(f.variables["time"][2]) + by))


def _add(name: str, type_: str = "f4", dims: tuple[str, ...] = ("time", "lat"), **attributes: Any) -> Change:
    def change(file: File) -> None:
        shape = [{"time": 2, "lat": 4, "lon": 3}[d] for d in dims]
        file.variables[name] = (type_, dims, np.full(shape, file.number + 1), attributes)

    return change


def _drop(name: str) -> Change:
    return lambda f: f.variables.pop(name)


def _times(units: str, values: Callable[[np.ndarray], np.ndarray], **attributes: Any) -> Change:
    return lambda f: f.change(
        "time", units=units, values=values(np.asarray(f.variables["time"][2])), **attributes
    )


def _truncate(paths: list[Path]) -> None:
    paths[2].write_bytes(paths[2].read_bytes()[:2000])


def _empty(file: File) -> None:
    for name, (type_, dims, values, attributes) in file.variables.items():
        if "time" in dims:
            file.variables[name] = (type_, dims, np.asarray(values)[:0], attributes)


def _mask_first(file: File, fill: float) -> None:
    values = np.array(file.variables["v"][2], "f8", copy=True)
    values[0, 0, 0] = fill
    file.change("v", values=values)


def _packed_with_missing(file: File) -> None:
    scale, offset, fill = (0.01, 0.0, -32768) if file.number % 2 == 0 else (0.02, 5.0, -1)
    file.change("v", values=np.round(file.variables["v"][2] / 0.02) * 0.02 + 5 - 5)
    file.pack("i2", scale, offset, fill)
    _mask_first(file, fill)


def _unsigned(file: File) -> None:
    if file.number % 2 == 0:
        file.pack("u1", 0.5, 0.0, 255)
    else:
        numbers = np.rint(np.asarray(file.variables["v"][2]) / 0.5).astype("u1").view("i1")
        file.change(
            "v", type="i1", values=numbers, drop=("_FillValue",), scale_factor=0.5, add_offset=0.0,
            _FillValue=np.int8(-1), missing_value=np.int16(255), _Unsigned="true",
        )  # fmt: skip


def _valid_range(file: File) -> None:
    scale = 0.01 if file.number % 2 == 0 else 0.02
    file.pack("i2", scale, 0.0, -32768, valid_range=np.rint(np.array([0.0, 100.0]) / scale).astype("i2"))


def _both(*changes: Change) -> Change:
    return lambda f: [change(f) for change in changes]


#: Every kind by its name.
KINDS: dict[str, Kind] = {
    "clean": Kind(lambda f: None),
    # packing
    "scale": Kind(
        _two_packings(("i2", 0.01, 0.0, -32768), ("i2", 0.02, 0.0, -32768)),
        (UNPACKED, FIRST, COMMON),
        "scale_factor",
    ),
    "scale of float": Kind(
        _two_packings(
            ("i2", np.float32(0.01), np.float32(0), -32768), ("i2", np.float32(0.02), np.float32(0), -32768)
        ),
        (UNPACKED, FIRST, COMMON),
        "scale_factor",
    ),
    "scale as float and double": Kind(
        _two_packings(("i2", 0.01, 0.0, -32768), ("i2", np.float32(0.01), np.float32(0), -32768)),
        (UNPACKED, FIRST, COMMON),
        "scale_factor",
    ),
    "finer scale": Kind(
        _two_packings(("i2", 0.5, 0.0, -32768), ("i2", 0.01, 0.0, -32768)), (UNPACKED, COMMON), "scale_factor"
    ),
    "offset": Kind(
        _two_packings(("i2", 0.01, 0.0, -32768), ("i2", 0.01, 50.0, -32768)),
        (UNPACKED, FIRST, COMMON),
        "add_offset",
    ),
    "offset beside the grid": Kind(
        _two_packings(("i2", 0.01, 0.0, -32768), ("i2", 0.01, 0.003, -32768)),
        (UNPACKED, COMMON),
        "add_offset",
    ),
    "packing of each file": Kind(
        lambda f: f.pack("i2", 0.001 * (f.number + 2), 10.0 * f.number, -32767),
        (UNPACKED, COMMON),
        "scale_factor",
    ),
    "packed beside floats": Kind(
        _ODD(lambda f: f.pack("i2", 0.01, 0.0, -32768)), (UNPACKED, FIRST), "the type is short, not float"
    ),
    "floats beside packed": Kind(
        _of(0, 2)(lambda f: f.pack("i2", 0.01, 0.0, -32768)),
        (UNPACKED, FIRST, COMMON),
        "the type is float, not short",
    ),
    "doubles beside packed": Kind(
        lambda f: f.pack("i2", 0.01, 0.0, -32768) if f.number % 2 == 0 else f.pack("f8", None, None, -999.0),
        (UNPACKED, FIRST, COMMON),
        "the type is double, not short",
    ),
    "wider packed type": Kind(
        _two_packings(("i2", 0.01, 0.0, -32768), ("i4", 0.01, 0.0, -32768)),
        (UNPACKED, FIRST, COMMON, PROMOTE),
        "the type is int, not short",
    ),
    "narrower packed type": Kind(
        _two_packings(("i4", 0.01, 0.0, -99), ("i2", 0.01, 0.0, -99)),
        (UNPACKED, FIRST, COMMON, PROMOTE),
        "the type is short, not int",
    ),
    "range of the type": Kind(
        _two_packings(("i1", 0.5, 50.0, -128), ("i2", 0.5, 0.0, -128)),
        (UNPACKED, FIRST, COMMON),
        "the type is short",
    ),
    "values beyond the type": Kind(
        lambda f: (
            f.pack("i1", 0.5, 50.0, -128)
            if f.number % 2 == 0
            else f.change("v", values=np.asarray(f.variables["v"][2]) + 500).pack("i2", 0.5, 0.0, -128)
        ),
        (UNPACKED, COMMON),
        "the type is short",
    ),
    "fill of packed": Kind(
        _two_packings(("i2", 0.01, 0.0, -32768), ("i2", 0.01, 0.0, -1)),
        (UNPACKED, FIRST, COMMON),
        "_FillValue",
    ),
    "fill that is a value": Kind(
        _both(
            _two_packings(("i2", 0.01, 0.0, 4242), ("i2", 0.01, 0.0, -1)),
            _ODD(lambda f: _mask_first(f, 4242)),
        ),
        (UNPACKED, COMMON),
        "_FillValue",
    ),
    "packed with missing": Kind(_packed_with_missing, (UNPACKED, FIRST, COMMON), "scale_factor"),
    "fill of floats": Kind(_missing_value, (UNPACKED, FIRST, COMMON), "_FillValue"),
    "fill is NaN": Kind(_nan_beside, (UNPACKED, FIRST, COMMON), "_FillValue"),
    "NaN beside packed": Kind(
        lambda f: (
            f.pack("i2", 0.01, 0.0, -32768) if f.number % 2 == 0 else _mask_first(f, np.nan),
            _mask_first(f, -32768) if f.number % 2 == 0 else None,
        ),
        (UNPACKED, FIRST, COMMON),
        "the type is float",
    ),
    "no fill in some": Kind(
        _ODD(lambda f: f.change("v", drop=("_FillValue",))), (UNPACKED, FIRST, COMMON), "_FillValue"
    ),
    "no fill in the first": Kind(
        _FIRST(lambda f: f.change("v", drop=("_FillValue",))), (UNPACKED, FIRST, COMMON), "_FillValue"
    ),
    "missing_value": Kind(
        _ODD(lambda f: (f.change("v", missing_value=np.float32(-5)), _mask_first(f, -5))),
        (UNPACKED, FIRST, COMMON),
        "missing_value",
    ),
    "unsigned": Kind(_unsigned, (UNPACKED, FIRST, COMMON), "the type is byte, not ubyte"),
    "valid_range of packed": Kind(_valid_range, (UNPACKED, FIRST), "valid_range"),
    "valid_max": Kind(_ODD(lambda f: f.change("v", valid_max=np.float32(50))), (), "valid_max"),
    "integers and their fill": Kind(
        lambda f: f.change("v", values=np.rint(f.variables["v"][2])).pack("i4", None, None, -1 - f.number),
        (UNPACKED, FIRST, COMMON),
        "_FillValue",
    ),
    # types
    "double beside float": Kind(
        _ODD(lambda f: f.pack("f8", None, None, -999.0)), (PROMOTE, UNPACKED), "the type is double, not float"
    ),
    "float beside double": Kind(
        lambda f: f.pack("f8" if f.number % 2 == 0 else "f4", None, None, -999.0),
        (PROMOTE, UNPACKED, FIRST),
        "the type is float, not double",
    ),
    "int beside short": Kind(
        lambda f: f.change("v", values=np.rint(f.variables["v"][2])).pack(
            "i2" if f.number % 2 == 0 else "i4", None, None, -9
        ),
        (PROMOTE, UNPACKED, FIRST),
        "the type is int, not short",
    ),
    "text beside numbers": Kind(
        _ODD(lambda f: _add("w", "S1", ("lat",))(f) if f.number == 1 else _add("w", "i4", ("lat",))(f)),
        (),
        "w",
    ),
    "double coordinate": Kind(
        _ODD(lambda f: f.change("lat", type="f8")), (PROMOTE, UNPACKED, FIRST), "/lat: the type is double"
    ),
    # units
    "kelvin": Kind(_ODD(lambda f: f.change("v", units="kelvin")), (UNITS,), "units"),
    "trailing blank": Kind(_ODD(lambda f: f.change("v", units="K ")), (UNITS,), "units"),
    "slash in units": Kind(
        lambda f: f.change("v", units="m s-1" if f.number % 2 else "m/s"), (UNITS,), "units"
    ),
    "stars in units": Kind(
        lambda f: f.change("v", units="kg m**-2 s**-1" if f.number % 2 else "kg m-2 s-1"), (UNITS,), "units"
    ),
    "degrees_N": Kind(_ODD(lambda f: f.change("lat", units="degree_N")), (UNITS,), "units"),
    "Celsius": Kind(_ODD(lambda f: f.change("v", units="degC")), (), "units"),
    "hPa beside Pa": Kind(lambda f: f.change("v", units="hPa" if f.number % 2 else "Pa"), (), "units"),
    "mm beside Mm": Kind(lambda f: f.change("v", units="mm" if f.number % 2 else "Mm"), (), "units"),
    "inverse units": Kind(lambda f: f.change("v", units="m/s" if f.number % 2 else "s/m"), (), "units"),
    "no units in some": Kind(_ODD(lambda f: f.change("v", drop=("units",))), (), "units"),
    # times and calendars
    "other reference date": Kind(_ODD(_times("days since 2000-01-01", lambda t: t + 366))),
    "hours": Kind(_ODD(_times("hours since 2001-01-01", lambda t: t * 24))),
    "gregorian": Kind(_ODD(lambda f: f.change("time", calendar="gregorian"))),
    "proleptic_gregorian": Kind(
        _ODD(lambda f: f.change("time", calendar="proleptic_gregorian")), (CALENDAR,), "calendar"
    ),
    "proleptic_gregorian from year 1": Kind(
        _ODD(_times("days since 0001-01-01", lambda t: t + 730485, calendar="proleptic_gregorian")),
        (CALENDAR,),
        "calendar",
    ),
    "standard from year 1": Kind(
        lambda f: _times(
            "days since 0001-01-01",
            lambda t: t + (730485 if f.number % 2 else 730487),
            calendar="proleptic_gregorian" if f.number % 2 else "standard",
        )(f),
        (CALENDAR,),
        "calendar",
    ),
    "before 1582": Kind(
        _both(
            lambda f: f.change("time", units="days since 1500-01-01"),
            _ODD(lambda f: f.change("time", calendar="proleptic_gregorian")),
        ),
        (),
        "calendar",
    ),
    "noleap": Kind(_ODD(lambda f: f.change("time", calendar="noleap")), (), "calendar"),
    "360_day": Kind(_LAST(lambda f: f.change("time", calendar="360_day")), (), "calendar"),
    "fractions of integer times": Kind(
        lambda f: (
            f.change("time", type="i4")
            if f.number != 3
            else _times("hours since 2001-01-01", lambda t: t * 24 + 1)(f.change("time", type="i4"))
        ),
        (),
        "would be stored as 2001-01-07T00:00:00",
    ),
    "missing time": Kind(_LAST(lambda f: f.change("time", values=[6, np.nan])), (), "missing value nan"),
    "fill in time": Kind(
        _LAST(lambda f: f.change("time", values=[6, 9.969209968386869e36])), (), "missing value"
    ),
    # steps
    "missing day": Kind(_shifted(1), (EXPECT_FILL, {}), ""),
    "missing week": Kind(_shifted(7, 3), (EXPECT_FILL, {}), ""),
    "day of half": Kind(_shifted(0.5), ({},), ""),
    "repeated day": Kind(_shifted(-1), (), "after"),
    "repeated file": Kind(_shifted(-2), (), "after"),
    "overlapping files": Kind(_LAST(lambda f: f.change("time", values=[4.5, 7])), (), "after"),
    "files in disorder": Kind(_both(_shifted(2, 2), _shifted(-2, 3)), (), "after"),
    "steps in disorder": Kind(_LAST(lambda f: f.change("time", values=[7, 6])), (), "after"),
    "zero steps": Kind(_of(2)(_both(_empty)), ({"join": "fill", "expect_step": "1d"}, {}), ""),
    "zero steps in the first": Kind(_FIRST(_empty), ({},), ""),
    # missing and additional
    "variable missing": Kind(_both(_add("w"), _ODD(_drop("w"))), (FILL,), "/w: the variable is missing"),
    "variable missing in the first": Kind(_ODD(_add("w")), (FILL,), "/w: the first has no such variable"),
    "packed variable missing": Kind(
        _ODD(_add("w", "i2", scale_factor=0.1, _FillValue=np.int16(-1))), (FILL,), "/w: the first has no such"
    ),
    "bytes missing": Kind(_ODD(_add("w", "i1")), (), "/w: the first has no such variable"),
    "bytes with a fill missing": Kind(
        _ODD(_add("w", "i1", _FillValue=np.int8(-7))), (FILL,), "/w: the first"
    ),
    "text missing": Kind(_ODD(_add("w", str, ("time",))), (FILL,), "/w: the first"),
    "static variable missing": Kind(
        _ODD(lambda f: f.variables.update(w=("f4", ("lat",), LAT * 2, {}))), (FILL,), "/w: the first"
    ),
    "static variables differ": Kind(_add("w", dims=("lat",)), (), "/w: the values differ"),
    "dimension missing": Kind(
        _ODD(lambda f: (f.dims.update(z=2), f.variables.update(z=("f4", ("z",), [1, 2], {})))),
        (FILL,),
        "/z: the first",
    ),
    "coordinate missing": Kind(_LAST(_drop("lat")), (FILL,), "/lat: the variable is missing"),
    "no steps at all": Kind(
        _of(1, 2, 3)(lambda f: (f.dims.pop("time"), [f.variables.pop(name) for name in ("time", "v")])),
        (),
        "/time: the dimension is missing",
    ),
    "time missing": Kind(_LAST(_drop("time")), (), "/time: the variable is missing"),
    # grids
    "flipped latitude": Kind(_ODD(_flipped("lat", 1)), (FLIP,), "/lat: the values differ"),
    "flipped longitude": Kind(_ODD(_flipped("lon", 2)), (FLIP,), "/lon: the values differ"),
    "flipped first": Kind(_FIRST(_flipped("lat", 1)), (FLIP,), "/lat: the values differ"),
    "flipped bounds": Kind(_with_bounds, (FLIP,), "/lat: the values differ"),
    "another latitude": Kind(_ODD(lambda f: f.change("lat", values=LAT + 5)), (), "/lat: the values differ"),
    "rounded latitude": Kind(
        _ODD(lambda f: f.change("lat", values=LAT + 1e-4)),
        ({"tolerance": {"lat": 1e-3}},),
        "/lat: the values differ",
    ),
    "other size": Kind(
        _LAST(
            lambda f: (
                f.dims.update(lon=2),
                f.change("lon", values=LON[:2]),
                f.change("v", values=np.asarray(f.variables["v"][2])[..., :2]),
            )
        ),
        (),
        "/lon: the dimension has the size 2, not 3",
    ),
    "order of dimensions": Kind(_ODD(_reordered("lat", "lon", "time")), (ORDER,), "the dimensions are"),
    "order in the first": Kind(_FIRST(_reordered("time", "lon", "lat")), (ORDER,), "the dimensions are"),
    "order and direction": Kind(
        _ODD(_both(_flipped("lat", 1), _reordered("lon", "lat", "time"))),
        ({"adjust": ("order", "flip")},),
        "the dimensions are",
    ),
    "packed, flipped, reordered, kelvin": Kind(
        _both(
            _ODD(
                _both(
                    _flipped("lat", 1),
                    _reordered("lon", "lat", "time"),
                    lambda f: f.change("v", units="kelvin"),
                )
            ),
            _two_packings(("i2", 0.01, 0.0, -32768), ("i2", 0.02, 5.0, -1)),
        ),
        (
            {"adjust": "order,flip,units", "repack": "unpacked"},
            {"adjust": "order,flip,units", "repack": "common"},
        ),
        "the dimensions are",
    ),
    # attributes
    "history": Kind(lambda f: f.attributes.update(history=f"file {f.number}")),
    "cell_methods": Kind(
        lambda f: f.change("v", cell_methods=f"time: {'mean' if f.number % 2 else 'maximum'}"),
        ({"join": "first"},),
        "cell_methods",
    ),
    "standard_name": Kind(
        lambda f: f.change("v", standard_name="air_temperature" if f.number % 2 else "sea_temperature"),
        ({"join": "first"},),
        "standard_name",
    ),
    "positive": Kind(
        lambda f: f.change("lat", positive="up" if f.number % 2 else "down"), ({"join": "first"},), "positive"
    ),
    "truncated": Kind(lambda f: None, (), "", _truncate),
}


_PR = _of(2, 3)


def _height(value: float) -> Change:
    return _both(_add("height", dims=(), units="m"), lambda f: f.change("height", values=np.float32(value)))


def _hours(file: File) -> None:
    times = np.asarray(file.variables["time"][2])
    file.change("time", units="hours since 2000-12-31", values=(times + 1) * 24)


def _shorter(file: File) -> None:
    file.dims["lat"] = 3
    file.change("lat", values=LAT[:3]).change("v", values=np.asarray(file.variables["v"][2])[:, :3])


def _field(file: File) -> None:
    file.variables = {
        "lat": file.variables["lat"],
        "lon": file.variables["lon"],
        "orog": ("f4", ("lat", "lon"), np.ones((4, 3)), {}),
    }


#: Archives of two variables in two files each, which are joined and merged.
MERGES: dict[str, Kind] = {
    "clean": Kind(lambda f: None),
    "packing of each variable": Kind(_PR(lambda f: f.pack("i2", 0.01, 0.0, -32768))),
    "times in hours": Kind(_PR(_hours)),
    "fixed time": Kind(lambda f: f.dims.update(time=None if f.number < 2 else 2)),
    "history": Kind(lambda f: f.attributes.update(history=f"file {f.number}")),
    "equal height": Kind(_height(2)),
    "dates beside times": Kind(
        lambda f: f.variables.update(
            date=("i4", ("time",), 20010101 + np.asarray(f.variables["time"][2]), {"units": "1"})
        )
    ),
    "field without time": Kind(_of(3)(_field), ({"select": {"time": slice(0, 2)}},), "/time: the dimension has"),
    "variable in one file": Kind(
        _of(1)(_add("gust")), (FILL,), "/gust: the first has no such variable"
    ),
    "packing of each file": Kind(
        _PR(lambda f: f.pack("i2", 0.01 * (f.number - 1), 0.0, -32768)), (FIRST, COMMON, UNPACKED), "scale_factor"
    ),
    "other height": Kind(
        _both(_height(2), _PR(_height(10))), ({"exclude": "height"},), "/height: the values differ"
    ),
    "rounded latitude": Kind(
        _PR(lambda f: f.change("lat", values=LAT + 1e-5)), ({"tolerance": {"lat": 1e-4}},), "/lat: the values differ"
    ),
    "flipped latitude": Kind(_PR(_flipped("lat", 1)), (FLIP,), "/lat: the values differ"),
    "flipped bounds": Kind(
        lambda f: _with_bounds(f, f.number > 1), (FLIP,), "/lat: the values differ"
    ),
    "double latitude": Kind(_PR(lambda f: f.change("lat", type="f8")), (PROMOTE,), "/lat: the type is double"),
    "degree_north": Kind(_PR(lambda f: f.change("lat", units="degree_north")), (UNITS,), "units is"),
    "calendar": Kind(_PR(lambda f: f.change("time", calendar="proleptic_gregorian")), (CALENDAR,), "calendar"),
    "axis of latitude": Kind(
        _PR(lambda f: f.change("lat", axis="Y")), ({"join": "first"},), "/lat: the attribute axis is 'Y'"
    ),
    "shorter grid": Kind(
        _PR(_shorter),
        ({"select": {"lat": slice(0, 3)}},),
        "/lat: the dimension has the size 3, not 4",
    ),
    "day missing in one": Kind(_of(3)(_shifted(1)), (), "/time: the values differ"),
    "one variable in all": Kind(_PR(lambda f: f.variables.update(tas=f.variables.pop("v"))), (), "/time"),
}  # fmt: skip


def make(kind: Kind, folder: Path, *, split: bool = False) -> list[Path]:
    """Write the files of an archive; `split`: two files of the variable tas, and two of pr."""
    folder.mkdir()
    paths = []
    for number in range(FILES):
        file = File.clean(number)
        if split:
            file.change("time", values=np.arange(2.0) + 2 * (number % 2))
        kind.change(file)
        if split and "v" in file.variables:
            file.variables["tas" if number < 2 else "pr"] = file.variables.pop("v")
        paths.append(folder / f"{number}.nc")
        file.write(paths[-1])
    if kind.write is not None:
        kind.write(paths)
    return paths

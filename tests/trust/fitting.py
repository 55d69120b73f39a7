"""Write random values to random stored variables through every door: each comes back exactly, or is refused."""

from __future__ import annotations

import random
import shutil
import tempfile
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import xarray as xr
import zarr
from budget import Budget, main

import nczarr
import nczarr.xarray
from nczarr.errors import NCZarrError

TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "float32", "float64")
SCALES = (0.01, 0.1, 1.0, 2.5, 1e-3, np.float32(0.01))
OFFSETS = (0.0, 100.0, -5.5, np.float32(273.15))
FILLS = (None, None, -9, 0, 99)
WORDS = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
#: Seconds of the units that a variable which is replaced as a whole may get.
FINER = {f"{name}seconds": Fraction(1, 10**n) for name, n in (("milli", 3), ("micro", 6), ("nano", 9))}
DATES = ("1970-01-01", "2000-01-01 00:00:00", "1999-12-31 23:30:00")
#: Each door, and whether it may give the variable a new form.
DOORS = {
    "append": False, "append dask": False, "region": False, "r+": False, "a": True, "netcdf a": True,
    "copy to zarr": False, "copy to netcdf": False,
}  # fmt: skip
#: The largest rounding of times in floats, in seconds.
ROUNDING = Fraction(1, 100_000)
Attributes = dict[str, Any]


def form(chance: random.Random, *, timed: bool) -> Attributes:
    """Return the encoding of a stored variable."""
    if timed:
        units = f"{chance.choice(list(WORDS))} since {chance.choice(DATES)}"
        return {"dtype": chance.choice(("int32", "int64", "float64")), "units": units, "calendar": "standard"}
    found: Attributes = {"dtype": chance.choice(TYPES)}
    if chance.random() < 0.6:
        found["scale_factor"] = chance.choice(SCALES)
        found["add_offset"] = chance.choice(OFFSETS)
    fill = chance.choice(FILLS)
    unsigned = found["dtype"].startswith("u")
    found["_FillValue"] = (
        None if fill is None or (unsigned and fill < 0) else np.dtype(found["dtype"]).type(fill)
    )
    return found


def known(encoding: Attributes, chance: random.Random) -> np.ndarray:
    """Return values that surely fit a form, which the dataset begins with."""
    if "units" in encoding:
        since = np.datetime64(encoding["units"].partition(" since ")[2], "s")
        return (since + WORDS[encoding["units"].split()[0]] * np.arange(1, 5)).astype("M8[ns]")
    numbers = np.array([chance.randrange(1, 90) for _ in range(4)], encoding["dtype"])
    if "scale_factor" not in encoding:
        return numbers
    return numbers * np.float64(encoding["scale_factor"]) + np.float64(encoding["add_offset"])


def given(encoding: Attributes, chance: random.Random) -> np.ndarray:
    """Return values of a program, most of which nearly fit."""
    begin = known(encoding, chance)
    kind = chance.randrange(6)
    if "units" in encoding:
        begin = begin + np.timedelta64(30, "D")
        steps = (0, 1, 60, 61, 1800, 3600)[kind]
        begin[chance.randrange(4)] += np.timedelta64(steps, "s")
        if kind == 5:
            begin[chance.randrange(4)] += np.timedelta64(1, "us")
        return begin
    if kind == 0:
        return begin
    values = begin.astype("f8")
    step = float(encoding.get("scale_factor", 1))
    values[chance.randrange(4)] += (0.3 * step, 0.5, 70_000.0, -300.0 * step, np.nan)[kind - 1]
    return values.astype("f4") if chance.random() < 0.2 else values


def stored(path: Path) -> tuple[np.ndarray, Attributes]:
    """Return the numbers and the attributes, as other programs see them."""
    if path.suffix == ".nc":
        with netCDF4.Dataset(path) as ds:
            ds.set_auto_maskandscale(False)
            v = ds["v"]
            return v[:], {name: v.getncattr(name) for name in v.ncattrs()}
    raw = xr.open_zarr(path, decode_cf=False, consolidated=False)["v"]
    numbers = zarr.open_array(path / "v", mode="r")[:]
    return numbers, dict(raw.attrs)


def wrong(value: Any, number: Any, about: Attributes) -> str | None:
    """Say how a stored number differs from the value that a program gave; None if it does not. Slow and exact."""
    fill = about.get("_FillValue")
    missing = bool(number != number) or (fill is not None and bool(number == fill))
    if value != value:  # NaN, NaT
        return None if missing else "no missing value"
    if missing:
        return "a missing value"
    exact = Fraction(float(number)) if number.dtype.kind == "f" else Fraction(int(number))
    is_float, eps = number.dtype.kind == "f", 0.0
    if is_float:
        eps = float(np.finfo(number.dtype).eps)
    if isinstance(value, np.datetime64):
        word, _, date = about["units"].partition(" since ")
        since = Fraction(int(np.datetime64(date, "ns").astype("i8")), 10**9)
        here = since + exact * (WORDS | FINER)[word]
        there = Fraction(int(value.astype("M8[ns]").astype("i8")), 10**9)
        return None if abs(here - there) <= (ROUNDING if is_float else 0) else f"{float(here - there)} s"
    there = Fraction(float(value)) if np.asarray(value).dtype.kind == "f" else Fraction(int(value))
    if "scale_factor" in about or "add_offset" in about:
        scale, offset = (
            Fraction(float(about.get("scale_factor", 1))),
            Fraction(float(about.get("add_offset", 0))),
        )
        exact = exact * scale + offset
        # Half a step, and what numpy rounds on the way, in the precision of the value.
        precision = float(np.finfo(np.float32 if np.asarray(value).dtype == np.float32 else np.float64).eps)
        allowed = abs(scale) * (Fraction(1, 2) if not is_float else 0)
        allowed += Fraction(8 * max(eps, precision)) * (abs(there) + abs(offset) + abs(scale))
    else:
        allowed = Fraction(4 * eps) * abs(there)
    return None if abs(exact - there) <= allowed else f"{float(exact)}"


def write(door: str, path: Path, values: np.ndarray, encoding: Attributes, folder: Path) -> slice:
    """Write through a door; return the place of the values."""
    ds = xr.Dataset({"v": ("t", values)})
    if door.startswith("append"):
        (ds.chunk(t=4) if door.endswith("dask") else ds).nczarr.to_zarr(
            path, append_dim="t", safe_chunks=False
        )
    elif door == "region":
        ds.nczarr.to_zarr(path, region={"t": slice(0, 4)})
    elif door in ("r+", "a"):
        ds.nczarr.to_zarr(path, mode=door)
    elif door == "netcdf a":
        ds.nczarr.to_netcdf(path, mode="a")
    else:
        ds["v"].encoding = {k: v for k, v in encoding.items() if v is not None or k == "_FillValue"}
        ds.to_netcdf(folder / "day.nc", engine="netcdf4")
        nczarr.append(folder / "day.nc", path)
    return slice(4, 8) if door.startswith(("append", "copy")) else slice(0, 4)


def trial(budget: Budget) -> None:
    """Write random values to random stored variables: each comes back exactly, or nothing is written."""
    warnings.simplefilter("ignore")
    chance = budget.random
    folder = Path(tempfile.mkdtemp())
    try:
        for number in budget:
            timed, door = chance.random() < 0.4, chance.choice(list(DOORS))
            encoding = form(chance, timed=timed)
            path = folder / f"{number}{'.nc' if 'netcdf' in door else '.zarr'}"
            begin = xr.Dataset({"v": ("t", known(encoding, chance))})
            begin["v"].encoding = dict(encoding)
            make = begin.nczarr.to_netcdf if path.suffix == ".nc" else begin.nczarr.to_zarr
            make(path, unlimited_dims=["t"])
            before, about = stored(path)
            # A file of another day has a form of its own.
            other = encoding if not door.startswith("copy") else form(chance, timed=timed)
            values = given(other if door.startswith("copy") else encoding, chance)
            budget.shown = (door, encoding, other, values)
            if door.startswith("copy"):  # what stock xarray has made of them is what is given
                day = xr.Dataset({"v": ("t", values)})
                day["v"].encoding = dict(other)
                day.to_netcdf(folder / "look.nc", engine="netcdf4")
                raw = xr.open_dataset(folder / "look.nc", engine="netcdf4", decode_cf=False)["v"].load()
                expected, form_of = raw.values, dict(raw.attrs)
            try:
                place = write(door, path, values, other, folder)
            except (NCZarrError, ValueError, OverflowError) as error:
                now, _ = stored(path)
                # A task of Dask refuses its chunk after the dataset has grown: its steps have fill values.
                there = now[: len(before)] if door == "append dask" else now
                assert there.tobytes() == before.tobytes(), "a refused write has changed the values"
                assert str(error)
                budget.count("refused")
            else:
                now, about = stored(path)
                for i, one in enumerate(now[place]):
                    if door.startswith("copy"):
                        problem = _other_number(expected[i], form_of, one, about)
                    else:
                        problem = wrong(values[i], one, about)
                    assert problem is None, f"{values[i]!r} is stored as {one!r}: {problem}"
                if place.start:
                    assert now[:4].tobytes() == before.tobytes(), "the values before have changed"
                budget.count("stored exactly")
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _other_number(old: Any, before: Attributes, new: Any, after: Attributes) -> str | None:
    """Compare a number of a source with that of the target, each decoded by its own attributes."""
    if wrong(np.float64("nan"), old, before) is None:
        return wrong(np.float64("nan"), new, after)
    if "units" in before:
        word, _, date = before["units"].partition(" since ")
        seconds = Fraction(int(np.datetime64(date, "ns").astype("i8")), 10**9) + _exact(old) * WORDS[word]
        nanoseconds = round(seconds * 10**9)
        return wrong(np.datetime64(nanoseconds, "ns"), new, after)
    scale, offset = before.get("scale_factor", 1), before.get("add_offset", 0)
    return wrong(np.float64(_exact(old) * Fraction(float(scale)) + Fraction(float(offset))), new, after)


def _exact(number: Any) -> Fraction:
    return Fraction(float(number)) if number.dtype.kind == "f" else Fraction(int(number))


if __name__ == "__main__":
    main(trial)

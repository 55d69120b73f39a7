"""Read the fields of archives by name and date with netCDF4 and numpy, and compare those of a joined dataset.

Nothing here needs nczarr, so that the programs of other environments are judged by the same oracle.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cftime
import netCDF4
import numpy as np

#: A field of one day by the name of the variable and the date: values in float64, NaN where missing.
Fields = dict[tuple[str, str], np.ndarray]
Raw = dict[str, tuple[tuple[str, ...], np.ndarray, dict[str, Any]]]


def raw_of_file(path: Path) -> Raw:
    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        return {
            name: (v.dimensions, np.asarray(v[...]), {a: v.getncattr(a) for a in v.ncattrs()})
            for name, v in file.variables.items()
        }


def decoded(numbers: np.ndarray, attributes: dict[str, Any]) -> np.ndarray:
    """Decode numbers by the conventions, in float64."""
    default = netCDF4.default_fillvals.get(numbers.dtype.str[1:]) if numbers.dtype.itemsize > 1 else None
    special = [attributes.get("_FillValue", default), attributes.get("missing_value")]
    missing = np.zeros(numbers.shape, bool)
    for number in special:
        if number is not None:
            missing |= numbers == np.asarray(number).astype(numbers.dtype)
    if attributes.get("_Unsigned") == "true":
        numbers = numbers.view(f"u{numbers.dtype.itemsize}")
    values = numbers.astype("f8")
    if "scale_factor" in attributes:
        values = values * np.float64(attributes["scale_factor"])
    if "add_offset" in attributes:
        values = values + np.float64(attributes["add_offset"])
    for name, outside in (("valid_min", np.less), ("valid_max", np.greater)):
        if name in attributes:
            missing |= outside(values, attributes[name])
    values[missing] = np.nan
    return values


def fields_of(raw: Raw) -> Fields:
    """Return the fields by name and date, on ascending coordinates."""
    _, times, attributes = raw.get("time", ((), np.array([]), {}))
    calendar = attributes.get("calendar", "standard")
    dates = cftime.num2date(decoded(times, attributes), attributes["units"], calendar) if times.size else []
    found: Fields = {}
    for name, (own, numbers, more) in raw.items():
        if numbers.dtype.kind not in "iuf" or name == "time" or name.endswith("_bnds"):
            continue
        values = decoded(numbers, more)
        for axis, dim in enumerate(own):
            if dim in raw and dim != "time":
                values = np.take(values, np.argsort(decoded(*raw[dim][1:]), kind="stable"), axis)
        if "time" not in own:
            found[name, ""] = values
            continue
        if not len(dates):
            continue
        order = ["time", *sorted(d for d in own if d != "time")]
        values = values.transpose([own.index(d) for d in order])
        for date, field in zip(dates, values, strict=True):
            found[name, str(date)] = field
    return found


def wanted_of(paths: list[Path]) -> list[Fields]:
    return [fields_of(raw_of_file(path)) for path in paths]


def wrong(seen: Raw, wanted: list[Fields], options: dict[str, Any]) -> Iterator[str]:
    """Yield how a joined dataset differs from the fields of the files."""
    fields = fields_of(seen)
    limit = max(options.get("tolerance", {"": 0}).values())
    for of_file in wanted:
        for (name, date), field in of_file.items():
            if (name, date) not in fields:
                yield f"{name} of {date} is lost"
                continue
            found, attributes = fields[name, date], seen[name][2]
            numbers = seen[name][1]
            bound: Any = limit
            if "repack" in options and options["repack"] == "common" and "scale_factor" in attributes:
                bound = np.float64(attributes["scale_factor"]) * (0.5 + 1e-9)
            elif "repack" in options:
                bound = (
                    max(limit, 0.02 / 1024)
                    if numbers.dtype.kind in "iu" or options["repack"] == "first"
                    else limit
                )
                bound = bound + abs(field) * (2.0**-24 if numbers.dtype == "f4" else 2.0**-50)
                bound = np.nan_to_num(bound)
            if not np.array_equal(np.isnan(found), np.isnan(field)):
                yield f"{name} of {date}: other values are missing"
            elif (abs(found - field) > bound).any():
                yield f"{name} of {date}: {np.nanmax(abs(found - field))}"
    real = {key for of_file in wanted for key in of_file}
    for key in fields.keys() - real:
        if not np.isnan(fields[key]).all():
            yield f"{key} is in no file"

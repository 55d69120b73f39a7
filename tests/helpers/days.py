"""Write the daily files of an archive whose jobs write their regions of one dataset."""

from __future__ import annotations

import netCDF4
import numpy as np

DAYS, STEPS = 6, 4


def day(number: int, *, steps: int = STEPS) -> str:
    """Write the file of a day into the current folder, and return its name."""
    name = f"{number}.nc"
    with netCDF4.Dataset(name, "w") as file:
        file.createDimension("time")
        file.createDimension("lat", 5)
        time = file.createVariable("time", "f8", ("time",))
        time.units = "hours since 2026-10-01"
        time[:] = 24 * number + 6 * np.arange(steps)
        file.createVariable("lat", "f4", ("lat",))[:] = np.arange(5)
        temp = file.createVariable("temp", "f4", ("time", "lat"))
        temp[:] = number + np.arange(5 * steps).reshape(steps, 5) / 100
    return name

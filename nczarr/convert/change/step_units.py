"""Find the units of steps along a dimension: the steps of a source file, of a day, a month, a year."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import numpy as np

from nczarr.errors import NCZarrError
from nczarr.model import Dataset
from nczarr.model.common_chunks import StepUnit, Units
from nczarr.model.coordinates import is_time
from nczarr.model.times import LENGTHS, TimeUnits, unit_of

#: Number of steps of a coordinate that are read.
_FEW = 4096
#: Days of calendars whose months or years are equally long.
_DAYS = {"360_day": {"month": 30, "year": 360}, "noleap": {"year": 365}, "all_leap": {"year": 366}}
_ROUNDING = 1e-6


def units_of_steps(dataset: Dataset, along: str | None, sizes: Sequence[int]) -> Units:
    """Return the units of steps along the dimensions of a dataset.

    Parameters
    ----------
    along : str or None
        The FQN of the dimension along which sources are joined.
    sizes : sequence of int
        The number of steps of each source along it.

    Examples
    --------
    >>> from nczarr.model import Dimension
    >>> d = Dataset("d", dimensions=(Dimension("time", 12, True),))
    >>> units_of_steps(d, "/time", [4, 4, 4]).files["/time"], units_of_steps(d, None, ()).files["/time"]
    (StepUnit(steps=4, name='file'), StepUnit(steps=12, name='file'))
    """
    files = {
        fqn: StepUnit(d.size, "file") for fqn, d in dataset.all_dimensions.items() if d.unlimited and d.size
    }
    # The joined length is that of all files together. A file's own steps are the unit.
    if along is not None:
        files.pop(along, None)
        if sizes and len(set(sizes)) == 1 and sizes[0]:
            files[along] = StepUnit(sizes[0], "file")
    return Units(files, partial(natural_units, dataset))


def natural_units(dataset: Dataset, dimension: str) -> list[StepUnit]:
    """Return the days, months and years that have the same number of steps along a dimension.

    Examples
    --------
    >>> from nczarr.model import DOUBLE, Attribute, Dimension, MemorySource, Variable
    >>> units = Attribute.of("units", "hours since 2000-01-01")
    >>> time = Variable("time", DOUBLE, ("/time",), attributes=(units,), data=MemorySource(np.arange(4) * 6.0))
    >>> natural_units(Dataset("d", dimensions=(Dimension("time", 4),), variables=(time,)), "/time")
    [StepUnit(steps=4, name='day')]
    """
    variable = dataset.all_variables.get(dimension)
    if (
        variable is None
        or variable.data is None
        or variable.dimensions != (dimension,)
        or not is_time(variable)
    ):
        return []
    # The steps of packed numbers are not those of the times.
    if variable.type.dtype.kind not in "iuf" or {"scale_factor", "add_offset"} & variable.attribute.keys():
        return []
    with suppress(NCZarrError):  # reading the values reports it
        values = variable.data.read((slice(0, min(_FEW, variable.data.shape[0]), 1),)).astype(float)
        return _units(np.diff(values), TimeUnits.of(variable), unit_of(variable))
    return []


def _units(steps: np.ndarray, units: TimeUnits, unit: str) -> list[StepUnit]:
    if not len(steps) or not np.isfinite(steps).all() or not steps.min() > 0:
        return []
    if units.length is None:
        # A month has no fixed length, so only steps of one month each make a year.
        is_monthly = unit == "month" and bool((steps == 1).all())
        return [StepUnit(12, "year")] if is_monthly else []
    days = steps * float(units.length / LENGTHS["day"])
    # Months have 28 to 31 days: a monthly axis in days has no constant step.
    if days.min() >= 28 - _ROUNDING and days.max() <= 31 + _ROUNDING:
        return [StepUnit(12, "year")]
    if days.max() - days.min() > _ROUNDING * days.max():
        return []
    lengths = {"day": 1, **_DAYS.get(units.calendar, {})}
    counts = {name: length / days[0] for name, length in lengths.items()}
    whole = {name: round(n) for name, n in counts.items() if math.isclose(n, round(n), rel_tol=_ROUNDING)}
    return [StepUnit(n, name) for name, n in whole.items() if n > 1]

"""Find the steps that two datasets share, with any reference dates; whole microseconds are the oracle."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import netCDF4
import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import nczarr
from nczarr import cdl
from nczarr.convert.appending import AppendTask
from nczarr.convert.change.nodes import Subset
from nczarr.convert.many.joining import join
from nczarr.convert.request import Sources
from nczarr.errors import UnsupportedError
from nczarr.model import DOUBLE, FLOAT, Attribute, Dataset, Dimension, MemorySource, Variable

LENGTHS = {"days": 86_400_000_000, "hours": 3_600_000_000, "minutes": 60_000_000, "seconds": 1_000_000}
EPOCH = np.datetime64("1970-01-01", "us")


def dataset(microseconds: list[int], units: str, since: str, type_: str = "f8") -> Dataset:
    """Times since 1970 in a file's own units, each rounded once."""
    reference = int((np.datetime64(since, "us") - EPOCH).astype(int))
    numbers = np.array([(m - reference) / LENGTHS[units] for m in microseconds], type_)
    own = (Attribute.of("units", f"{units} since {since.replace('T', ' ')}"),)
    time = Variable(
        "time",
        FLOAT if type_ == "f4" else DOUBLE,
        ("/time",),
        attributes=own,
        data=MemorySource(numbers),
    )
    return Dataset("d", dimensions=(Dimension("time", len(numbers), True),), variables=(time,))


def month(path: Path, first: int, count: int, since: str, value: float) -> Path:
    """A file with steps of five hours since 2001-01-01."""
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("time", None)
        time = file.createVariable("time", "f8", ("time",))
        time.units = f"days since {since}"
        shift = (np.datetime64(since) - np.datetime64("2001-01-01")).astype(int)
        time[:] = [5 * step / 24 - shift for step in range(first, first + count)]
        file.createVariable("v", "f4", ("time",))[:] = value
    return path


DATES = st.sampled_from(["1850-01-01", "1970-01-01", "2000-02-29T12:00", "2001-02-01"])


@given(
    step=st.sampled_from([30, 1000, 1_000_000, 600_000_000, 18_000_000_000, 86_400_000_000]),
    lengths=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    gap=st.integers(-3, 2),
    units=st.tuples(*[st.sampled_from(list(LENGTHS))] * 2),
    dates=st.tuples(DATES, DATES),
    type_=st.sampled_from(["f8", "f8", "f4"]),
)
@example(18_000_000_000, (4, 4), -2, ("days", "days"), ("1850-01-01", "2001-02-01"), "f8")
@example(18_000_000_000, (1, 1), -1, ("days", "hours"), ("1850-01-01", "2001-02-01"), "f8")
def test_joined_and_appended_steps_are_those_of_whole_microseconds(
    step: int,
    lengths: tuple[int, int],
    gap: int,
    units: tuple[str, str],
    dates: tuple[str, str],
    type_: str,
) -> None:
    begin = int((np.datetime64("2001-02-03T05", "us") - EPOCH).astype(int))
    first = [begin + step * i for i in range(lengths[0])]
    second = [first[-1] + step * (1 + gap + i) for i in range(lengths[1])]
    parts = [dataset(*args, type_) for args in zip((first, second), units, dates, strict=True)]
    for part, true in zip(parts, (first, second), strict=True):
        numbers = part.variables[0].data
        assert numbers is not None
        # Times that their own type cannot tell apart are no subject of this test.
        finest = np.spacing(np.abs(numbers.read((slice(0, len(true)),))).max())
        assume(finest * LENGTHS[part.variables[0].attribute["units"].text.split()[0]] * 8 < step)
    follow = gap >= 0
    goes_on = len({np.sign(b - a) for a, b in pairwise(first + second)} - {0}) == 1 and not {*first} & {
        *second
    }
    try:
        with join(parts, "time") as made:
            assert goes_on, "repeated steps, or steps that go back, were joined"
            assert made.dimensions[0].size == sum(lengths)
    except UnsupportedError as error:
        assume("would be stored as" not in str(error))
        assert "after" in str(error)
        assert not goes_on
    common = sorted(set(first) & set(second))
    request: Any = SimpleNamespace(target="t")
    sources = Sources((parts[1],), None, Subset())
    try:
        _, at, _ = AppendTask(request, sources, False).place(parts[0], parts[1], "/time")
        assert follow
        assert at == lengths[0]
    except UnsupportedError as error:
        assert not follow
        if common:
            assert f"{len(common)} steps along /time are there already" in str(error)
    if common and second[0] in first:
        added, at, _ = AppendTask(request, sources, True).place(parts[0], parts[1], "/time")
        assert at == first.index(second[0])
        kept = [parts[0].variables[0].data, added.variables[0].data]
        old, new = (d.read((slice(0, d.shape[0], 1),)) for d in kept if d is not None)
        assert new[: len(common)].tolist() == old[at : at + len(common)].tolist()


@pytest.mark.parametrize("name", ["out.zarr", "out.nc"])
def test_repeated_times_of_another_reference_date(tmp_path: Path, name: str) -> None:
    """In the units of the first file they are 2e-14 days away from themselves."""
    one = month(tmp_path / "1.nc", 0, 40, "2001-01-01", 1)
    two = month(tmp_path / "2.nc", 36, 10, "2000-03-01", 2)
    out = tmp_path / name
    with pytest.raises(UnsupportedError, match=r"2\.nc: the coordinate /time has .* after "):
        nczarr.join([one, two], out)
    assert not out.exists()
    nczarr.copy(one, out)
    with pytest.raises(UnsupportedError, match="4 steps along /time are there already"):
        nczarr.append(two, out)
    nczarr.append(two, out, replace=True)
    with nczarr.Dataset(out) as made:
        assert made["v"][:].tolist() == [1.0] * 36 + [2.0] * 10
        np.testing.assert_allclose(made["time"][:], 5 * np.arange(46) / 24, rtol=0, atol=1e-9)
        with netCDF4.Dataset(one) as file:
            assert made["time"][:40].tolist() == file["time"][:].tolist()
    # The times of the second file stand in the dataset now, as those of its own reference date.
    again = month(tmp_path / "3.nc", 41, 3, "2001-01-01", 3)
    with pytest.raises(UnsupportedError, match="3 steps along /time are there already"):
        nczarr.append(again, out)


@pytest.mark.parametrize("name", ["out.zarr", "out.nc"])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("steps", [[2, 3], [2, 3, 4], [2, 3, 4, 6]])
def test_replaced_steps_leave_none_out(tmp_path: Path, name: str, sign: int, steps: list[int]) -> None:
    """The dataset has a step between those that are appended, or in the place of one: it would vanish."""
    text = "netcdf d {{ dimensions: t = UNLIMITED; variables: int t(t), v(t); data: t = {}; v = {}; }}"

    def rows(steps: list[int], value: int) -> Dataset:
        numbers = ", ".join(str(sign * step) for step in steps)
        return cdl.loads(text.format(numbers, ", ".join([str(value)] * len(steps))))

    out = tmp_path / name
    nczarr.copy(rows([0, 2, 4], 1), out)
    with pytest.raises(UnsupportedError, match=r"the dataset ends at -?4, and they do not follow it"):
        nczarr.append(rows(steps, 2), out, replace=True)
    with nczarr.Dataset(out) as kept:
        assert (sign * kept["t"][:]).tolist() == [0, 2, 4]
        assert kept["v"][:].tolist() == [1, 1, 1]
    nczarr.append(rows([2, 4, 5], 3), out, replace=True)
    with nczarr.Dataset(out) as made:
        assert (sign * made["t"][:]).tolist() == [0, 2, 4, 5]
        assert made["v"][:].tolist() == [1, 3, 3, 3]


def test_steps_finer_than_the_rounding_are_not_the_same(tmp_path: Path) -> None:
    """Times of a few microseconds are told apart, as the steps inside each file are as fine."""
    text = (
        "netcdf d {{ dimensions: time = UNLIMITED; variables: double time(time); "
        'time:units = "seconds since {}"; data: time = {}; }}'
    )
    first = cdl.loads(text.format("2001-01-01", "0, 1e-6, 2e-6"))
    second = cdl.loads(text.format("2001-01-01 00:00:01", "-0.999997, -0.999996"))
    nczarr.join([first, second], tmp_path / "out.zarr")
    with nczarr.Dataset(tmp_path / "out.zarr") as made:
        np.testing.assert_allclose(made["time"][:], np.arange(5) * 1e-6, rtol=0, atol=1e-9)


@pytest.mark.parametrize("type_", ["string s(s)", "char s(s, n)", "char s(s)"])
@pytest.mark.parametrize("twice", ["b", "c"])
def test_names_that_are_there_twice(tmp_path: Path, type_: str, twice: str) -> None:
    text = "netcdf d {{ dimensions: s = UNLIMITED; n = 1; variables: {}; int v(s); data: s = {}; v = {}; }}"
    names = {
        "string s(s)": '"{}", "{}"', "char s(s, n)": '"{}", "{}"', "char s(s)": '"{}{}"',
    }[type_]  # fmt: skip
    first = cdl.loads(text.format(type_, names.format("b", "a"), "1, 2"))
    second = cdl.loads(text.format(type_, names.format("c", twice), "3, 4"))
    other = cdl.loads(text.format(type_, names.format("d", "c"), "3, 4"))
    out: Any = tmp_path / "out.zarr"
    with pytest.raises(UnsupportedError, match=f"has the name '{twice}', which the dataset d in memory has"):
        nczarr.join([first, second], out, along="s")
    assert not out.exists()
    nczarr.join([first, other], out, along="s")
    with pytest.raises(UnsupportedError):
        nczarr.append(second, out)
    with nczarr.Dataset(out) as made:
        assert made["v"][:].tolist() == [1, 2, 3, 4]

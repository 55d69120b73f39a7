"""Test the forms of ``-d``: years, dates, values and indices; the dates of cftime are the oracle."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import cftime
import netCDF4
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import nczarr
from nczarr import cdl
from nczarr.cli import main
from nczarr.convert.change.selecting import YearOrIndex, find_indices, parse_range, select
from nczarr.errors import NCZarrError, UnsupportedError
from nczarr.model import DOUBLE, Attribute, Dataset, Dimension, MemorySource, Variable
from nczarr.view import plot

EXAMPLE = str(Path(__file__).parents[1] / "data" / "example.nc")


def axis(values: list[float], units: str = "", calendar: str = "") -> Dataset:
    own = [Attribute.of(n, v) for n, v in (("units", units), ("calendar", calendar)) if v]
    data = MemorySource(np.array(values, "f8"))
    time = Variable("time", DOUBLE, ("/time",), attributes=tuple(own), data=data)
    return Dataset("d", dimensions=(Dimension("time", len(values)),), variables=(time,))


def chosen(dataset: Dataset, text: str) -> list[int]:
    variable = dataset.variables[0]
    return list(find_indices("/time", dataset.dimensions[0].size, variable, parse_range(text)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3", 3),
        ("-3", -3),
        ("2001", YearOrIndex(2001)),
        ("0850", YearOrIndex(850)),
        ("20010", 20010),
        ("#2001", 2001),
        ("#-1", -1),
        ("#3:", slice(3, None)),
        ("#:3", slice(None, 3)),
        ("#1990:2000:2", slice(1990, 2000, 2)),
        ("#1990:#2000", slice(1990, 2000)),
        ("1990:2000", slice(YearOrIndex(1990), YearOrIndex(2000))),
        ("2001-06:2003", slice("2001-06", YearOrIndex(2003))),
        ("30.:60", slice(30.0, 60)),
        ("0:10:2", slice(0, 10, 2)),
    ],
)
def test_texts_are_read(text: str, expected: Any) -> None:
    found = parse_range(text)
    assert found == expected
    ends = (found.start, found.stop) if isinstance(found, slice) else (found,)
    wanted = (expected.start, expected.stop) if isinstance(expected, slice) else (expected,)
    assert list(map(type, ends)) == list(map(type, wanted))
    # A resumed copy is known by what its options look like.
    assert repr(parse_range("#2001")) != repr(parse_range("2001"))


@pytest.mark.parametrize("text", ["#", "#:x", "#1.5", "#2001-01", "", "soon", "1:2:-1", "#1:2:3:4"])
def test_texts_that_are_no_selection(text: str) -> None:
    with pytest.raises(UnsupportedError, match="not a selection"):
        parse_range(text)


@given(
    calendar=st.sampled_from(["standard", "noleap", "360_day"]),
    start=st.integers(-800, 800),
    step=st.sampled_from([1, 15, 30, 365, 400]),
    count=st.integers(1, 12),
    years=st.tuples(st.integers(1998, 2012), st.integers(0, 4)),
    form=st.sampled_from(["{0}", "{0}:{1}", "{0}:", ":{1}", "{0}-01:{1}", "{0}-03"]),
    down=st.booleans(),
)
@example("standard", 0, 1, 6, (2001, 0), "{0}", False)
@example("standard", 0, 1, 6, (1990, 10), "{0}:{1}", False)
def test_a_bare_year_is_a_year_on_an_axis_of_times(
    calendar: str, start: int, step: int, count: int, years: tuple[int, int], form: str, down: bool
) -> None:
    down = down and count > 1
    values = [float(start + step * i) for i in range(count)][:: -1 if down else 1]
    units = "days since 2003-01-01"
    first, last = years[0], years[0] + years[1]
    text = form.format(*((last, first) if down and form.count("{") == 2 else (first, last)))
    dates = [cftime.num2date(v, units, calendar) for v in values]
    low, high = form.startswith("{0}"), "{1}" in form
    if form == "{0}-03":
        expected = [i for i, d in enumerate(dates) if (d.year, d.month) == (first, 3)]
    elif ":" in form and not (low and high):
        # The end that is open is that of time, whichever way the axis goes.
        expected = [i for i, d in enumerate(dates) if (d.year >= first if low else d.year <= last)]
    else:
        end = last if high else first
        expected = [i for i, d in enumerate(dates) if first <= d.year <= end]
        if form == "{0}-01:{1}" and down:  # from January of the last year back to the first
            expected = [i for i in expected if dates[i].year < last or dates[i].month == 1 or first == last]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = chosen(axis(values, units, calendar), text)
        except UnsupportedError as error:
            assert "nothing of /time" in str(error)
            assert "/time goes from " in str(error)
            found = []
    assert found == expected


def test_a_bare_year_is_an_index_on_any_other_axis() -> None:
    heights = axis([float(i) for i in range(3000)], "m")
    assert chosen(heights, "2001") == chosen(heights, "#2001") == [2001]
    assert chosen(heights, "1990:2000") == list(range(1990, 2000))
    hours = axis([float(i) for i in range(20_000)], "hours since 2000-01-01")
    assert chosen(hours, "#2001") == [2001]
    assert chosen(hours, "2001") == list(range(8784, 8784 + 8760))
    assert chosen(hours, "12000") == [12000]
    assert chosen(hours, "0:100") == list(range(100))
    with pytest.raises(UnsupportedError, match=r"mixes an index and a value .*#0:2001"):
        chosen(hours, "0:2001")
    # A number in Python is an index, and text a year.
    assert list(find_indices("/time", 20_000, hours.variables[0], 2001)) == [2001]
    assert list(find_indices("/time", 20_000, hours.variables[0], "2001")) == list(range(8784, 17544))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("time=0:99", "-d /time=0:99 exceeds the dimension: /time has the indices 0 to 5"),
        ("time=#0:2001", "has the indices 0 to 5"),
        ("time=-9:3", "has the indices 0 to 5"),
        ("time=2019:2020-03", "has 6 values from 2020-01-16 12:00:00 to 2020-06-16"),
        ("time=2020-02:2021", "has 6 values from 2020-01-16 12:00:00 to 2020-06-16"),
        ("lat=-100.:100.", "/lat has 18 values from -85.0 to 85.0"),
        ("lat=-90.:90.", None),
        ("time=2020-01:2020-06", None),
        ("time=0:6", None),
        ("time=2:", None),
        ("time=-6:", None),
    ],
)
@pytest.mark.parametrize("command", ["copy", "dump"])
def test_a_range_that_is_cut_says_so(
    text: str, said: str | None, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.nc"
    more = ["-q", EXAMPLE, str(out)] if command == "copy" else [EXAMPLE]
    assert main([command, "-d", text, *more]) == 0
    error = capsys.readouterr().err
    assert said in error if said else error == ""
    assert error.count("warning") == bool(said)


def test_a_range_that_is_cut_says_so_in_python(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="/time has the indices 0 to 5"):
        nczarr.copy(EXAMPLE, tmp_path / "a.zarr", select={"time": slice(0, 99)})
    with nczarr.Dataset(tmp_path / "a.zarr") as made:
        assert made.dimensions["time"].size == 6


@pytest.mark.slow
def test_all_commands_take_the_same_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with netCDF4.Dataset(EXAMPLE) as file:
        dates = netCDF4.num2date(file["time"][:], file["time"].units, file["time"].calendar)
        numbers = file["time"][:].tolist()
    for text, expected in (
        ("2020", numbers),
        ("2020-03", [n for n, d in zip(numbers, dates, strict=True) if d.month == 3]),
        ("#4", [numbers[4]]),
        ("45.5", [45.5]),
    ):
        out = tmp_path / f"{text}.nc"
        assert main(["copy", "-q", "-d", f"time={text}", EXAMPLE, str(out)]) == 0
        with netCDF4.Dataset(out) as made:
            assert made["time"][:].tolist() == expected
        assert main(["dump", "-v", "time", "-d", f"time={text}", EXAMPLE]) == 0
        printed = capsys.readouterr().out.partition(" time = ")[2].partition(";")[0]
        assert [float(word) for word in printed.split(",")] == expected
        picture = plot(EXAMPLE, "/ocean/temp", at={"time": text, "depth": 0}, dpi=30)
        at = numbers.index(expected[len(expected) // 2])
        assert picture == plot(EXAMPLE, "/ocean/temp", at={"time": at, "depth": 0}, dpi=30)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1999-01", "the nearest is 2020-01-16 12:00:00; time goes from 2020-01-16 12:00:00 to 2020-06-16"),
        ("2031-07", "the nearest is 2020-06-16;"),
        ("2020-03-01", "the nearest is 2020-02-15 12:00:00;"),
        ("2001", "the nearest is 2020-01-16 12:00:00;"),
        ("#2001", "index 2001 is outside time: the dimension has the size 6"),
        ("45.6", "time has no value 45.6 (the nearest is 45.5)"),
        ("2020-01:2020-03", "is a range, but a picture shows a single position"),
        ("0:2", "is a range, but a picture shows a single position"),
        ("soon", "not a selection"),
    ],
)
def test_a_step_that_is_not_there_is_not_drawn(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "map.png"
    assert main(["plot", EXAMPLE, "/ocean/temp", "-d", f"time={text}", "-o", str(out)]) == 1
    assert said in capsys.readouterr().err
    assert not out.exists()
    if not text.startswith("#"):
        with pytest.raises(NCZarrError):
            plot(EXAMPLE, "/ocean/temp", at={"time": text})


def test_a_dimension_is_given_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["plot", EXAMPLE, "temp", "-o", str(tmp_path / "a.png")], ["dump", EXAMPLE]):
        assert main([*words, "-d", "time=1", "-d", "time=2"]) == 1
        assert "-d is given twice for time" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_names_of_places_are_drawn_by_name() -> None:
    text = (
        "netcdf d { dimensions: s = 2; x = 2; variables: string s(s); int v(s, x); "
        'data: s = "2001", "b"; v = 1, 2, 3, 4; }'
    )
    first, second = (plot(cdl.loads(text), "v", at={"s": at}, dpi=30) for at in (0, 1))
    assert plot(cdl.loads(text), "v", at={"s": "2001"}, dpi=30) == first
    assert plot(cdl.loads(text), "v", at={"s": "b"}, dpi=30) == second


def test_the_calendar_may_be_written_in_capitals() -> None:
    part = select(axis([0.0, 59.0], "days since 2001-01-01", "NoLeap"), {"time": "2001-03"})
    assert part.dimensions[0].size == 1


def test_a_range_of_python_selects_its_indices() -> None:
    dataset = axis([float(i) for i in range(10)], "m")
    for indices in (range(2, 9, 3), range(4), range(9, 10)):
        part = select(dataset, {"time": indices})
        data = part.variables[0].data
        assert data is not None
        assert data.read((slice(0, len(indices), 1),)).tolist() == [float(i) for i in indices]

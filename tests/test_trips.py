"""The main trips are straight: they enter few rooms and modules, and rooms call each other one way.

``docs/trace_trips.py`` counts them.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "docs" / "trace_trips.py"
#: At most so many rooms, pairs of rooms that call each other both ways, and modules. One more than today: a trip that
#: looks at something new should say so here. Calls back: `transfer` takes the blocks of a generator in `convert`, the
#: wait for the disk (`system`) ends with the renaming of files (`stores`), and `model` checks the sources of `netcdf`.
#: The module of the loggers is new on the ways that write, and an append waits for the disk as a copy does.
#: The dataclasses of a copy and of its format ask `options` which of their fields are options.
#: All ways ask `model.lengths`, which owns the lengths of a stored dataset; those of a session ask `session.rules`.
#: On all ways, dataclasses are compared by the methods that they share. What is compiled at its first use counts, too:
#: initialisers, and regular expressions (`lazy`), which `model` composes.
MOST = {
    "copy a.nc b.zarr": (34, 5, 97),
    'Dataset("b.zarr")': (22, 0, 66),
    "variable[1:3]": (14, 0, 31),
    "v[n] = row; sync()": (19, 3, 57),
    "gen a.cdl c.zarr": (32, 3, 99),
}


@pytest.fixture(scope="module")
def shown() -> str:
    return subprocess.run([sys.executable, str(SCRIPT)], check=True, capture_output=True, text=True).stdout


@pytest.mark.slow
@pytest.mark.parametrize("trip", MOST)
def test_trips_are_straight(shown: str, trip: str) -> None:
    counts = r" +(\d+) {}, +(\d+) crossings, (\d+) two-way\n"
    found = re.search(rf"^{re.escape(trip)}\n{counts.format('rooms')}{counts.format('modules')}", shown, re.M)
    assert found, shown
    rooms, crossings, two_way, modules = map(int, found.groups()[:4])
    most_rooms, most_two_way, most_modules = MOST[trip]
    assert 5 < rooms <= most_rooms
    assert crossings > rooms
    assert two_way <= most_two_way
    assert rooms < modules <= most_modules

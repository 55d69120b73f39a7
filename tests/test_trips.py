"""The main trips are straight: they enter few rooms, and those call each other one way (``docs/trace_trips.py``)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "docs" / "trace_trips.py"
#: At most so many rooms, and pairs of rooms that call each other both ways.
MOST = {
    "copy a.nc b.zarr": (45, 0),
    'Dataset("b.zarr")': (35, 1),  # the reader of NCZarr is asked for the types that attributes name
    "variable[1:3]": (16, 0),
    "gen a.cdl c.zarr": (50, 0),
}


@pytest.fixture(scope="module")
def shown() -> str:
    return subprocess.run([sys.executable, str(SCRIPT)], check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("trip", MOST)
def test_trips_are_straight(shown: str, trip: str) -> None:
    found = re.search(rf"^{re.escape(trip)}\n +(\d+) rooms, +(\d+) crossings, (\d+) two-way$", shown, re.M)
    assert found, shown
    rooms, crossings, two_way = map(int, found.groups())
    assert 5 < rooms <= MOST[trip][0]
    assert crossings > rooms
    assert two_way <= MOST[trip][1]

"""Compare odd calls with netCDF4-python, which judges each of them in the same process.

``NCZARR_PROGRAMS=1 pytest tests/netcdf4/test_odd_calls.py`` runs all calls; otherwise a part, another one of each file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import netCDF4
import netcdf4_odd_calls as odd
import pytest

import nczarr.netcdf4 as ours

#: One call of so many.
STEP = 1 if os.environ.get("NCZARR_PROGRAMS") else 6


@pytest.fixture(autouse=True)
def process_settings() -> Iterator[None]:
    """Restore the settings that calls change for the whole process."""
    before = [(library, library.get_chunk_cache()) for library in (netCDF4, ours)]
    alignment = ours.get_alignment()
    yield
    for library, cache in before:
        library.set_chunk_cache(*cache)
    ours.set_alignment(*alignment)


@pytest.mark.slow
@pytest.mark.parametrize("file", ["a.nc", "a.zarr"])
@pytest.mark.parametrize("group", odd.GROUPS)
def test_calls_have_the_outcome_that_netcdf4_gives(
    group: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    start = 0 if file == "a.nc" else STEP // 2
    found = odd.judge(group, odd.GROUPS[group][1][start::STEP], file, tmp_path, netCDF4, ours)
    assert not found, "\n".join(found)


def test_each_difference_has_calls() -> None:
    for group, differences in odd.DIFFERENCES.items():
        for difference in differences:
            for file in difference.files:
                calls = [c for c in odd.GROUPS[group][1] if odd.documented(group, c, file) is difference]
                assert calls, (difference.pattern, file)

"""Every row of docs/netcdf4-table.md, with both libraries."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import netCDF4
import netcdf4_table as table
import numpy as np
import pytest

import nczarr.netcdf4 as ours

ROWS = [(title, row) for title, rows in table.SECTIONS.items() for row in rows]


def run(make_log: Any, library: Any, row: table.Row, path: Path) -> list[Any]:
    path.parent.mkdir()
    log = make_log(library)
    names = {"nc": library, "np": np, "path": str(path), "log": log, "attempt": log.attempt}
    names["zarr"] = str(path.with_name("b.zarr"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(table.START + row.script, names)
        for thing in ("ds", "d"):
            if hasattr(names.get(thing), "isopen") and names[thing].isopen():
                names[thing].close()
    assert log.entries
    entries: list[Any] = log.entries
    return entries


@pytest.mark.parametrize(("title", "row"), ROWS, ids=[row.names.replace("`", "") for _, row in ROWS])
def test_row(title: str, row: table.Row, tmp_path: Path, make_log: Any) -> None:
    theirs = run(make_log, netCDF4, row, tmp_path / "theirs" / "a.nc")
    for file in ["a.nc"] if "of a netCDF file" in row.names else ["a.nc", "a.zarr"]:
        mine = run(make_log, ours, row, tmp_path / f"ours {file[2:]}" / file)
        if row.verdict == "same":
            assert mine == theirs, file
        else:
            assert mine != theirs, file
            assert row.note


def test_the_page_is_up_to_date() -> None:
    assert table.PAGE.read_text("utf-8") == table.page(), "run tests/helpers/netcdf4_table.py"

"""Write each type into each format in each mode, and compare with the table of the page about xarray."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczarr

xr = pytest.importorskip("xarray")

import nczarr.xarray  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "xarray-and-dask.md"
VALUES: dict[str, Any] = {
    "int8": np.array([1, -2, 3, 4], "i1"),
    "uint8": np.array([1, 255, 3, 4], "u1"),
    "int64": np.array([1, 2, 3, 4]),
    "int64 beyond int32": np.array([1, 2**40, 3, 4]),
    "uint64 beyond int32": np.array([1, 2**63, 3, 4], "u8"),
    "float16": np.array([1.5, 2, 3, 4], "f2"),
    "float32": np.array([1.5, np.nan, 3, 4], "f4"),
    "float64": np.array([1.5, np.nan, 3, 4]),
    "bool": np.array([True, False, True, True]),
    "complex64": np.array([1j, 2, 3, 4], "c8"),
    "complex128": np.array([1j, 2, 3, 4]),
    "text": np.array(["a", "bcd", "", "é"]),
    "text, one missing": np.array(["a", None, "b", "c"], object),
    "bytes": np.array([b"a", b"bc", b"", b"d"]),
    "datetime64": np.array(["2000-01-01", "NaT", "2000-01-02", "2000-01-03"], "M8[ns]"),
    "timedelta64": np.array([1, 2, 3, 4], "m8[s]"),
    "structured": np.array([(1, 2.0), (3, 4.0)] * 2, [("a", "i4"), ("b", "f8")]),
}


def rows() -> Iterator[tuple[str, str, str]]:
    """Yield the type, the format and the cell of each row of the table."""
    lines = PAGE.read_text("utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| values |"))
    formats = [cell.strip(" `") for cell in lines[start].strip("|").split("|")[1:]]
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            return
        name, *cells = (cell.strip(" `") for cell in line.strip("|").split("|"))
        yield from ((name, form, cell) for form, cell in zip(formats, cells, strict=True))


def writes(data: Any, folder: Path, form: str) -> Iterator[tuple[str, Any]]:
    """Write values in each mode of a format; yield the mode and the path."""
    half = data.isel(x=slice(0, 2))
    if form == "Zarr":
        data.nczarr.to_zarr(folder / "new.zarr")
        yield "new", folder / "new.zarr"
        half.nczarr.to_zarr(folder / "append.zarr")
        data.isel(x=slice(2, 4)).nczarr.to_zarr(folder / "append.zarr", append_dim="x")
        yield "append_dim", folder / "append.zarr"
        data.isel(x=[0, 1, 0, 0]).nczarr.to_zarr(folder / "region.zarr")
        data.isel(x=slice(2, 4)).nczarr.to_zarr(folder / "region.zarr", region={"x": slice(2, 4)})
        yield "region", folder / "region.zarr"
        return
    data.nczarr.to_netcdf(folder / "new.nc", format=form)
    yield "new", folder / "new.nc"
    xr.Dataset({"other": ("x", np.arange(4.0))}).nczarr.to_netcdf(folder / "add.nc", format=form)
    data.nczarr.to_netcdf(folder / "add.nc", mode="a")
    yield "a", folder / "add.nc"


def shown(data: Any, path: Path) -> str:
    """Return what comes back, in the words of the table."""
    with xr.open_dataset(path, engine="nczarr") as stored:
        back = stored["v"].load()
    given = data["v"]
    if not back.equals(given):
        return "empty text" if given.dtype == object else f"other values: {back.values}"
    if back.dtype.isalignedstruct and not given.dtype.isalignedstruct:
        return "same, aligned"
    return "same" if back.dtype == given.dtype else "objects" if back.dtype == object else str(back.dtype)


def test_the_table_has_each_type() -> None:
    assert {name for name, _, _ in rows()} == VALUES.keys()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "form", "cell"), list(rows()))
def test_a_type_comes_back_as_the_table_says_in_each_mode(
    tmp_path: Path, name: str, form: str, cell: str
) -> None:
    data = xr.Dataset({"v": ("x", VALUES[name])})
    try:
        found = {mode: shown(data, path) for mode, path in writes(data, tmp_path, form)}
    except nczarr.NCZarrError:
        found = {"new": "refused"}
    assert found == dict.fromkeys(found, cell)

"""Leave out the chunks of fill values that to_zarr makes anew, as xarray's own to_zarr does."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczarr

xr = pytest.importorskip("xarray")
pytest.importorskip("dask.array")

import nczarr.xarray  # noqa: E402

CHUNKS = {"v": {"chunks": (1, 2)}, "name": {"chunks": (1,)}}


def sea(first: int = 0) -> Any:
    """Return values beside land, and texts beside empty ones."""
    v = np.full((3, 6), np.nan)
    v[1, 2] = first + 1.0
    v[2] = -0.0
    return xr.Dataset({"v": (("time", "x"), v), "name": ("time", np.array(["", "a", ""], object))})


def chunk_names(folder: Path) -> set[str]:
    return {
        p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file() and p.suffix != ".json"
    }


@pytest.mark.parametrize(
    "options", [{}, {"write_empty_chunks": True}, {"write_empty_chunks": False}], ids=str
)
@pytest.mark.parametrize("chunked", [False, True], ids=["numpy", "dask"])
def test_the_same_chunks_are_stored_as_by_xarray(tmp_path: Path, options: Any, chunked: bool) -> None:
    ours, stock = tmp_path / "ours.zarr", tmp_path / "stock.zarr"
    data, more = [one.chunk(time=1, x=2) if chunked else one for one in (sea(), sea(5))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # texts and consolidated metadata
        data.to_zarr(stock, encoding=CHUNKS, **options)
        more.to_zarr(stock, append_dim="time", **options)
    data.nczarr.to_zarr(ours, encoding=CHUNKS, **options)
    more.nczarr.to_zarr(ours, append_dim="time", **options)
    assert chunk_names(ours) == chunk_names(stock)
    read = xr.open_dataset(ours, engine="nczarr").load()
    xr.testing.assert_identical(read, xr.concat([sea(), sea(5)], "time"))
    assert np.signbit(read.v.values[2]).all()


@pytest.mark.parametrize("target", ["directory", "memory", "zip"])
def test_fill_values_over_stored_chunks_replace_them(tmp_path: Path, target: str) -> None:
    store: Any = {"directory": tmp_path / "a.zarr", "memory": {}, "zip": tmp_path / "a.zarr.zip"}[target]
    sea().nczarr.to_zarr(store, encoding=CHUNKS)
    land = xr.full_like(sea()[["v"]], np.nan)
    land.nczarr.to_zarr(store, region={"time": slice(0, 3), "x": slice(0, 6)})
    assert np.isnan(xr.open_dataset(store, engine="nczarr").v.values).all()


def test_a_recorded_chunk_that_was_lost_is_written_again(tmp_path: Path) -> None:
    """A chunk of fill values that was left out would stay lost by the record."""
    store = tmp_path / "a.zarr"
    sea().nczarr.to_zarr(store, encoding=CHUNKS, manifest=True)
    lost = next(store.rglob("v/c/1/1"))
    lost.unlink()
    with pytest.raises(nczarr.NCZarrError, match="was written, but is missing"):
        xr.open_dataset(store, engine="nczarr").v.load()
    land = xr.full_like(sea()[["v"]], np.nan)
    land.nczarr.to_zarr(store, region={"time": slice(0, 3), "x": slice(0, 6)})
    assert np.isnan(xr.open_dataset(store, engine="nczarr").v.values).all()
    assert lost.exists()

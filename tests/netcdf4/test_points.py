"""Read variables at single points: numpy's vectorised indexing is the oracle, and each chunk is read once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr as zarr_python
from hypothesis import given, settings
from hypothesis import strategies as st

import nczarr
from nczarr.errors import NCZarrError
from nczarr.zarr.chunks import read_files

SHAPE = (5, 12, 7)
VALUES = np.arange(420, dtype="i4").reshape(SHAPE)
VALUES[2, 3, 4] = -99


def make(path: Path, **options: Any) -> Path:
    options = {"chunksizes": (2, 5, 3), **options}
    with nczarr.Dataset(path, "w") as dataset:
        for name, size in zip("txy", (None, *SHAPE[1:]), strict=True):
            dataset.createDimension(name, size)
        v = dataset.createVariable("v", "i4", ("t", "x", "y"), fill_value=-99, **options)
        v[:] = VALUES
        p = dataset.createVariable("p", "i2", ("t", "x", "y"), **options)
        p.scale_factor = 0.5
        p[:] = VALUES / 2
        dataset.createVariable("s", str, ("t", "x"), chunksizes=(2, 5))[:] = np.array(
            [[f"{t}/{x}" for x in range(12)] for t in range(5)], object
        )
        dataset.createDimension("n", 4)
        c = dataset.createVariable("c", "S1", ("x", "n"))
        c._Encoding = "utf-8"
        c[:] = np.array([f"n{x}" for x in range(12)], "S4")
        dataset.createVariable("one", "f8", ())[:] = 7
    return path


@pytest.fixture(scope="module", params=["chunked.zarr", "plain.zarr", "packed.zip", "a.nc", "contiguous.nc"])
def dataset(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    options = {"contiguous": True} if request.param == "contiguous.nc" else {}
    if request.param == "plain.zarr":
        options = {"compression": None}
    path = tmp_path_factory.mktemp("points") / request.param
    if request.param == "contiguous.nc":
        with nczarr.Dataset(path, "w") as ds:
            for name, size in zip("txy", SHAPE, strict=True):
                ds.createDimension(name, size)
            ds.createVariable("v", "i4", ("t", "x", "y"), fill_value=-99, contiguous=True)[:] = VALUES
    else:
        make(path, **options)
    with nczarr.Dataset(path) as ds:
        yield ds


def oracle(key: tuple[Any, ...]) -> np.ndarray:
    """The points first, then the slices: numpy puts the points there only if they are not adjacent."""
    points = [axis for axis, entry in enumerate(key) if not isinstance(entry, slice)]
    values = np.moveaxis(VALUES, points, range(len(points)))
    slices = tuple(entry for entry in key if isinstance(entry, slice))
    return values[tuple(np.asarray(key[axis]) for axis in points)][(..., *slices)] if slices else VALUES[key]


@st.composite
def keys(draw: st.DrawFn) -> tuple[Any, ...]:
    shape = draw(st.sampled_from([(), (1,), (4,), (0,), (3, 2), (40,)]))
    count = int(np.prod(shape, dtype=int))
    key: list[Any] = []
    for size in SHAPE:
        if draw(st.booleans()):
            positions = draw(st.lists(st.integers(-size, size - 1), min_size=count, max_size=count))
            own = draw(st.sampled_from([shape, (1,) * len(shape)])) if count else shape
            key.append(np.array(positions[: int(np.prod(own, dtype=int))], int).reshape(own))
        else:
            ends = st.none() | st.integers(-size - 1, size + 1)
            key.append(slice(draw(ends), draw(ends), draw(st.sampled_from([None, 1, 2, -1, -3]))))
    return tuple(key)


@settings(max_examples=50)
@given(key=keys())
def test_points_are_those_of_numpy(dataset: Any, key: tuple[Any, ...]) -> None:
    if all(isinstance(entry, slice) for entry in key):
        expected = VALUES[key]
    else:
        expected = oracle(key)
    found = dataset["v"].vindex[key]
    assert np.shape(found) == expected.shape
    np.testing.assert_array_equal(np.ma.filled(found, -99), expected)
    if expected.size and expected.ndim:
        np.testing.assert_array_equal(np.ma.getmaskarray(found), expected == -99)


def test_integers_masks_and_ellipses(dataset: Any) -> None:
    v = dataset["v"]
    assert v.vindex[1, 2, 3] == VALUES[1, 2, 3]
    assert np.ma.is_masked(v.vindex[2, 3, 4])
    mask = VALUES % 17 == 0
    np.testing.assert_array_equal(v.vindex[mask], VALUES[mask])
    np.testing.assert_array_equal(v.vindex[..., [0, 6]], np.moveaxis(VALUES[..., [0, 6]], 2, 0))
    np.testing.assert_array_equal(v.vindex[[0, 4]].filled(-99), VALUES[[0, 4]])


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (([0, 5], 0, 0), "the position 5 is outside of a dimension of size 5"),
        ((0, -13, 0), "the position -13"),
        (([0, 1], [0, 1, 2], 0), "shapes"),
        (([0.5], 0, 0), "no integer"),
        (("a", 0, 0), "no integer"),
        ((None, 0, 0), "no integer"),
        ((0, 0, 0, 0), "4 parts for 3 dimensions"),
        ((..., 0, ...), "two ellipses"),
        (np.ones((2, 2), bool), "mask"),
    ],
)
def test_other_indices_are_refused(dataset: Any, key: Any, said: str) -> None:
    with pytest.raises(IndexError, match=said) as caught:
        dataset["v"].vindex[key]
    assert isinstance(caught.value, NCZarrError)
    assert "/v" in str(caught.value)


def test_packed_values_text_and_scalars(tmp_path: Path) -> None:
    with nczarr.Dataset(make(tmp_path / "a.zarr")) as ds:
        t, x, y = [4, 0, 2], [11, 0, 5], [6, 0, 1]
        np.testing.assert_array_equal(ds["p"].vindex[t, x, y], VALUES[t, x, y] / 2)
        ds["p"].set_auto_maskandscale(False)
        np.testing.assert_array_equal(ds["p"].vindex[t, x, y], VALUES[t, x, y])
        assert ds["s"].vindex[t, x].tolist() == ["4/11", "0/0", "2/5"]
        assert ds["s"].vindex[3, 4] == "3/4"
        assert ds["c"].vindex[x, :].tolist() == ["n11", "n0", "n5"]
        assert ds["one"].vindex[()] == 7


def test_unsaved_values_are_seen(tmp_path: Path) -> None:
    with nczarr.Dataset(make(tmp_path / "a.zarr"), "a") as ds:
        ds["v"][5:7] = 1000 + VALUES[:2]
        np.testing.assert_array_equal(
            ds["v"].vindex[[6, 0], [3, 3], [2, 2]], [1000 + VALUES[1, 3, 2], VALUES[0, 3, 2]]
        )


def test_each_chunk_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with nczarr.Dataset(make(tmp_path / "a.zarr")) as ds:
        v, opened = ds["v"], []
        v[:]
        real = read_files.open_chunk
        monkeypatch.setattr(
            read_files, "open_chunk", lambda *arguments: opened.append(arguments[1]) or real(*arguments)
        )
        rng = np.random.default_rng(0)
        t, x, y = (rng.integers(0, n, 500) for n in SHAPE)
        np.testing.assert_array_equal(v.vindex[t, x, y].filled(-99), VALUES[t, x, y])
        chunks = {(a // 2, b // 5, c // 3) for a, b, c in zip(t, x, y, strict=True)}
        assert sorted(opened) == sorted(f"c/{a}/{b}/{c}" for a, b, c in chunks)


def test_points_of_missing_and_damaged_chunks_are_like_other_reads(tmp_path: Path) -> None:
    path = make(tmp_path / "a.zarr")
    (path / "v/c/0/0/0").unlink()
    (path / "v/c/1/1/1").write_bytes(b"no chunk")
    with nczarr.Dataset(path) as ds:
        v = ds["v"]
        assert np.ma.getmaskarray(v.vindex[[0, 4], [1, 1], [2, 2]]).tolist() == [True, False]
        with pytest.raises(nczarr.errors.ChunkError, match=r"chunk \(1, 1, 1\)") as caught:
            v.vindex[[0, 3], [1, 5], [2, 3]]
        assert "v/c/1/1/1" in str(caught.value)
    nczarr.copy(make(tmp_path / "b.zarr"), tmp_path / "c.zarr", manifest=True)
    (tmp_path / "c.zarr/v/c/0/0/0").unlink()
    with nczarr.Dataset(tmp_path / "c.zarr") as ds:
        assert ds["v"].vindex[[2, 3], [1, 5], [2, 3]].tolist() == VALUES[[2, 3], [1, 5], [2, 3]].tolist()
        with pytest.raises(nczarr.errors.StoreError, match="was written, but is missing"):
            ds["v"].vindex[[0, 3], [1, 5], [2, 3]]


def test_points_beyond_a_shorter_array_are_fill_values(tmp_path: Path) -> None:
    path = make(tmp_path / "a.zarr")
    with nczarr.Dataset(path, "a") as ds:
        ds["p"][5:8] = 1  # `v` has the length of its dimension, but its array is shorter
        assert np.ma.getmaskarray(ds["v"].vindex[[7, 4], [0, 0], [0, 0]]).tolist() == [True, False]
        assert ds["v"].vindex[[1, 7], [0, 0], :].filled(-99).tolist() == [VALUES[1, 0].tolist(), [-99] * 7]


def test_peers_agree(tmp_path: Path) -> None:
    path = make(tmp_path / "a.zarr")
    t, x, y = np.array([[4, 0], [2, 2]]), np.array([[11, 0], [5, 3]]), np.array([[6, 0], [1, 4]])
    with nczarr.Dataset(path) as ds:
        ds["v"].set_auto_mask(False)
        found = ds["v"].vindex[t, x, y]
    np.testing.assert_array_equal(found, zarr_python.open_group(path, mode="r")["v"].vindex[t, x, y])


@pytest.mark.parametrize("name", ["a.zarr", "a.nc"])
def test_xarray_reads_points_chunk_by_chunk(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path / name)
    station = [xr.DataArray(places, dims="station") for places in ([4, 0, 2, 2], [11, 0, 5, 3], [6, 0, 1, 4])]
    everything = np.ma.masked_equal(VALUES, -99)
    with xr.open_dataset(path, engine="nczarr") as ds:
        t, x, y = station
        for key, expected in [
            ({"t": t, "x": x, "y": y}, everything[t.values, x.values, y.values]),
            ({"x": x, "y": y}, everything[:, x.values, y.values]),
            ({"t": t, "y": y, "x": slice(2, 9, 3)}, everything[:, 2:9:3][t.values, :, y.values]),
        ]:
            np.testing.assert_array_equal(ds.v.isel(key).values, np.ma.filled(expected.astype("f8"), np.nan))
        np.testing.assert_array_equal(ds.s.isel(t=t, x=x).values, ["4/11", "0/0", "2/5", "2/3"])
        np.testing.assert_array_equal(
            ds.p.isel(t=t, x=x, y=y).values, VALUES[t.values, x.values, y.values] / 2
        )


def test_netcdf4_python_has_no_such_name(tmp_path: Path) -> None:
    """Were it one, ``vindex`` would have to be the same."""
    assert not hasattr(netCDF4.Variable, "vindex")

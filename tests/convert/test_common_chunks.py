"""Test that the variables of a dataset have one default chunk length along each dimension, as Dask needs it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nczarr
import nczarr.xarray  # registers the accessor
from nczarr import cdl
from nczarr.cli import main
from nczarr.convert import Report, open_source
from nczarr.model import Dataset, Variable, split_fqn


def write_day(path: Path, day: int, steps: int = 4) -> Path:
    """Write a file of an ocean model: four variables with different types and inner sizes."""
    with netCDF4.Dataset(path, "w") as ds:
        for name, size in {"time": None, "z": 8, "y": 60, "x": 80}.items():
            ds.createDimension(name, size)
        time = ds.createVariable("time", "f8", ("time",))
        time.units = "days since 2026-10-01"
        time[:] = day + np.arange(steps) / steps
        for name, code in {"temp": "i2", "salt": "f4"}.items():
            made = ds.createVariable(name, code, ("time", "z", "y", "x"), zlib=True, complevel=1)
            made[:] = np.full(made.shape, day)
        ds.createVariable("sea_level", "f4", ("time", "y", "x"))[:] = np.full((steps, 60, 80), day)
        ds.createVariable("iteration", "i4", ("time",))[:] = day * steps + np.arange(steps)
    return path


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("days")
    return [write_day(folder / f"d{day:02}.nc", day) for day in range(31)]


def lengths_of(dataset: Dataset) -> dict[str, set[int]]:
    """Return the stored chunk lengths along each dimension, without those of index coordinates."""
    found: dict[str, set[int]] = {}
    for fqn, variable in dataset.all_variables.items():
        storage = variable.storage
        if is_index(fqn, variable):
            continue
        for dimension, length in zip(variable.dimensions, storage.array_chunks or (), strict=True):
            found.setdefault(str(dimension), set()).add(length)
    return found


def is_index(fqn: str, variable: Variable) -> bool:
    names = [split_fqn(d)[1] for d in variable.dimensions if isinstance(d, str)]
    return names == [split_fqn(fqn)[1]]


def stored_lengths(target: Any) -> dict[str, set[int]]:
    with open_source(target) as dataset:
        return lengths_of(dataset)


def count_files(store: Path) -> int:
    return sum(len(files) for _, _, files in os.walk(store))


def test_dask_divides_a_joined_store_once_and_after_an_append(days: list[Path], tmp_path: Path) -> None:
    target = tmp_path / "all.zarr"
    nczarr.join(days[:30], target)
    for length in (120, 124):
        with xr.open_zarr(target) as ds:
            assert set(ds.chunks["time"][:-1]) == {24}
            assert ds.chunks["z"] == (8,)
            doubled = ds.map_blocks(lambda block: block * 2, template=ds)
            assert float(doubled["salt"][-1].mean()) == 2 * (length // 4 - 1)
            mean = ds["temp"].mean(("z", "y", "x"))
            assert mean.chunks == (ds.chunks["time"],)  # no rechunking
            np.testing.assert_array_equal(mean, np.repeat(np.arange(length // 4), 4))
        if length == 120:
            nczarr.append(days[30], target)


def test_an_append_of_a_file_writes_no_chunk_twice_beyond_the_last(days: list[Path], tmp_path: Path) -> None:
    target = tmp_path / "all.zarr"
    nczarr.join(days[:30], target)
    chunks = {p: p.stat().st_mtime_ns for p in target.glob("salt/c/*/0/0/0")}
    nczarr.append(days[30], target)
    assert {p: p.stat().st_mtime_ns for p in chunks} == chunks  # 30 files fill five chunks


def test_a_joined_store_has_few_objects(days: list[Path], tmp_path: Path) -> None:
    target = tmp_path / "all.zarr"
    nczarr.join(days[:30], target)
    # 3 of temp, 5 of salt, 1 of sea_level, iteration and time; six documents.
    assert count_files(target) <= 17
    with open_source(target) as dataset:
        storage = dataset.variable_at("/sea_level").storage
        assert (storage.array_chunks, storage.shard_shape) == ((24, 60, 80), (120, 60, 80))


def test_the_summary_says_which_lengths_are_chosen_and_why(
    days: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = [str(path) for path in days[:30]]
    assert main(["join", *sources, str(tmp_path / "a.zarr"), "--json"]) == 0
    (time, *_) = json.loads(capsys.readouterr().out)["chunks"]
    assert time == {"dimension": "/time", "length": 24, "reason": "6 files × 4 steps"}
    assert main(["join", *sources, str(tmp_path / "b.zarr"), "--dry-run"]) == 0
    assert "chunks: time: 24 = 6 files × 4 steps" in capsys.readouterr().out.splitlines()


@pytest.mark.slow
def test_shards_have_whole_files_where_chunks_have_single_steps(tmp_path: Path) -> None:
    paths = [write_day(tmp_path / f"d{day:02}.nc", day) for day in range(30)]
    for path in paths:
        with netCDF4.Dataset(path, "a") as ds:
            ds.createVariable("heat", "f8", ("time", "z", "y", "x"))[:] = np.ones((4, 8, 60, 80))
            assert ds["heat"].chunking() == [
                1,
                8,
                60,
                80,
            ]  # large enough to stay, so that single maps stay fast
    nczarr.join(paths, tmp_path / "a.zarr")
    with open_source(tmp_path / "a.zarr") as stored:
        assert lengths_of(stored)["/time"] == {1}
        shards = {fqn: v.storage.shard_shape for fqn, v in stored.all_variables.items()}
    assert {fqn for fqn, shape in shards.items() if shape} == {"/temp", "/salt", "/sea_level", "/iteration"}
    assert all(shape is None or shape[0] % 4 == 0 for shape in shards.values())


def test_small_sources_are_one_chunk_of_whole_files(days: list[Path], tmp_path: Path) -> None:
    report = Report()
    nczarr.join(days[:30], tmp_path / "a.zarr", variables=["sea_level", "iteration"], report=report)
    assert next(map(str, report.chunks)) == "time: 120 = 30 files × 4 steps"


def test_natural_units_count_where_files_have_one_step(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as ds:
        ds.createDimension("time", None)
        ds.createDimension("x", 40_000)
        ds.createVariable("time", "f8", ("time",)).units = "hours since 2000-01-01"
        ds["time"][:] = np.arange(100)
        ds.createVariable("v", "f4", ("time", "x"), zlib=True, chunksizes=(1, 40_000))[:] = np.zeros(
            (100, 40_000)
        )
    report = Report()
    nczarr.copy(tmp_path / "a.nc", tmp_path / "a.zarr", report=report)
    assert str(report.chunks[0]) == "time: 24 = 1 day × 24 steps"


def test_requested_lengths_of_one_variable_hold_for_the_others(days: list[Path], tmp_path: Path) -> None:
    nczarr.join(days[:4], tmp_path / "a.zarr", chunks={"temp": {"time": 2, "y": 30}})
    found = stored_lengths(tmp_path / "a.zarr")
    assert (found["/time"], found["/y"]) == ({2}, {30})


def test_a_request_for_a_small_variable_makes_no_huge_chunks_of_a_large_one(tmp_path: Path) -> None:
    dataset = cdl.loads(
        "netcdf d { dimensions: time = 5000; x = 40000; variables: byte v(time, x); byte s(time); }"
    )
    nczarr.copy(dataset, tmp_path / "a.zarr", chunks="s:time=-1")
    with open_source(tmp_path / "a.zarr") as stored:
        chunks = stored.variable_at("/v").storage.array_chunks
        assert chunks is not None
        assert (np.prod(chunks) <= 4 << 20, chunks[1]) == (True, 40_000)
        assert stored.variable_at("/s").storage.array_chunks == (5000,)


def test_new_variables_share_lengths_whatever_their_order(tmp_path: Path) -> None:
    shapes = {"count": ("time",), "level": ("time", "y"), "temp": ("time", "y", "x"), "area": ("y", "x")}
    found = []
    for number, names in enumerate((list(shapes), list(shapes)[::-1])):
        with nczarr.Dataset(tmp_path / f"{number}.zarr", "w") as ds:
            for name, size in {"time": None, "y": 200, "x": 300}.items():
                ds.createDimension(name, size)
            ds.createVariable("time", "f8", ("time",))
            for name in names:
                ds.createVariable(name, "f4", shapes[name])
            ds["temp"][:3] = 1
            ds["count"][:3] = 1
        found.append(stored_lengths(tmp_path / f"{number}.zarr"))
        with nczarr.Dataset(tmp_path / f"{number}.zarr") as ds:
            assert ds["temp"].chunking() == [3, 200, 300]  # 720 KB
            assert ds["count"].chunking() == [3]
            assert ds["count"].shards() == (3 * 1024,)
            assert ds["time"].chunking() == [4096]
        with xr.open_zarr(tmp_path / f"{number}.zarr", consolidated=False) as opened:
            assert opened.chunks["time"] == (3,)
    assert found[0] == found[1] == {"/time": {3}, "/y": {200}, "/x": {300}}


def test_later_variables_follow_the_stored_ones(tmp_path: Path) -> None:
    with nczarr.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("time", None)
        ds.createDimension("x", 50_000)
        first = ds.createVariable("first", "f4", ("time", "x"))
        asked = first.chunking()
        assert ds.createVariable("second", "f8", ("time", "x")).chunking() == asked
    with nczarr.Dataset(tmp_path / "a.zarr", "a") as ds:
        ds.createVariable("third", "i1", ("time", "x"))[:2] = 1
        ds.createVariable("zeros", "i1", ("time", "x"), chunksizes=(0, 10_000))
        assert ds["zeros"].chunking() == [asked[0], 10_000]
        assert ds["third"].chunking() == asked
    assert stored_lengths(tmp_path / "a.zarr")["/time"] == {asked[0]}


def test_a_group_shares_the_lengths_of_the_dimension_above(tmp_path: Path) -> None:
    text = """netcdf d { dimensions: time = 40000; x = 100;
        variables: double a(time, x); byte time(time);
        group: g { variables: byte b(time, x); short c(time); } }"""
    (tmp_path / "d.cdl").write_text(text)
    assert main(["gen", str(tmp_path / "d.cdl"), str(tmp_path / "d.zarr")]) == 0
    found = stored_lengths(tmp_path / "d.zarr")
    assert len(found["/time"]) == 1
    assert found["/time"] != {40_000}
    with xr.open_zarr(tmp_path / "d.zarr", group="g") as ds:
        assert len(ds.chunks["time"]) > 1


def test_the_accessor_shares_lengths_and_those_of_dask_arrays_come_first(tmp_path: Path) -> None:
    data = xr.Dataset({"a": (("t", "x"), np.zeros((400, 3000))), "b": ("t", np.zeros(400, "i1"))})
    data.nczarr.to_zarr(tmp_path / "a.zarr")
    assert all(len(lengths) == 1 for lengths in stored_lengths(tmp_path / "a.zarr").values())
    data["b"] = data["b"].chunk({"t": 100})
    data.nczarr.to_zarr(tmp_path / "b.zarr")
    assert stored_lengths(tmp_path / "b.zarr")["/t"] == {100}
    with xr.open_dataset(tmp_path / "b.zarr", engine="nczarr", chunks={}) as opened:
        assert opened.chunks["t"] == (100,) * 4


def test_chunks_that_can_be_copied_undecoded_stay(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as ds:
        ds.createDimension("t", 64)
        ds.createDimension("x", 20_000)
        for name, code, steps in (("a", "f8", 4), ("b", "f4", 16)):
            made = ds.createVariable(name, code, ("t", "x"), zlib=True, chunksizes=(steps, 20_000))
            made[:] = np.arange(20_000)
    nczarr.copy(tmp_path / "a.nc", tmp_path / "raw.zarr", compression="numcodecs")
    assert stored_lengths(tmp_path / "raw.zarr")["/t"] == {4, 16}
    nczarr.copy(tmp_path / "raw.zarr", tmp_path / "again.zarr")
    assert stored_lengths(tmp_path / "again.zarr")["/t"] == {4, 16}
    nczarr.copy(tmp_path / "a.nc", tmp_path / "default.zarr")
    assert stored_lengths(tmp_path / "default.zarr")["/t"] == {4}
    # Without a request, sources in Zarr are joined with one length.
    nczarr.join([tmp_path / "raw.zarr"] * 2, tmp_path / "joined.zarr", along="t")
    assert stored_lengths(tmp_path / "joined.zarr")["/t"] == {4}


TYPES = st.sampled_from(["i1", "i2", "i4", "f4", "f8"])
NAMES = ("time", "y", "x", "band")
SIZES = {"time": [1, 3, 24, 365], "y": [3, 24, 160], "x": [24, 160], "band": [1, 3, 20]}


@st.composite
def archives(
    draw: st.DrawFn,
) -> tuple[dict[str, int], list[tuple[str, tuple[str, ...], tuple[int, ...] | None]], int]:
    """Draw sizes, variables with their chunks in the source, and a number of files."""
    sizes = {name: draw(st.sampled_from(SIZES[name])) for name in NAMES}
    variables = []
    for _ in range(draw(st.integers(1, 5))):
        chosen = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
        dimensions = tuple(name for name in NAMES if name in chosen)
        chunks = None
        if draw(st.booleans()):
            chunks = tuple(draw(st.integers(1, sizes[d])) for d in dimensions)
        variables.append((draw(TYPES), dimensions, chunks))
    return sizes, variables, draw(st.integers(1, 3))


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(archives(), st.sampled_from(["nczarr-v3", "zarr-v3"]))
def test_every_dataset_has_one_length_for_each_dimension(
    tmp_path_factory: Any, drawn: Any, layout: str
) -> None:
    sizes, variables, count = drawn
    folder = tmp_path_factory.mktemp("drawn")
    with netCDF4.Dataset(folder / "a.nc", "w") as ds:
        for name, size in sizes.items():
            ds.createDimension(name, None if name == "time" else size)
        ds.createVariable("y", "f4", ("y",))[:] = np.arange(sizes["y"])
        ds.createVariable("steps", "i1", ("time",))[:] = np.zeros(
            sizes["time"]
        )  # the length; others are fill values
        for number, (code, dimensions, chunks) in enumerate(variables):
            ds.createVariable(f"v{number}", code, dimensions, chunksizes=chunks)
    target = folder / "a.zarr"
    report = Report()
    if count == 1:
        nczarr.copy(folder / "a.nc", target, layout=layout, report=report)
    else:
        nczarr.join([folder / "a.nc"] * count, target, layout=layout, report=report)
    found = stored_lengths(target)
    assert all(len(lengths) == 1 for lengths in found.values()), found
    assert {c.dimension: {c.length} for c in report.chunks} == found
    with xr.open_zarr(target, chunks={}, consolidated=False) as opened:
        assert set(opened.chunks) <= set(sizes)

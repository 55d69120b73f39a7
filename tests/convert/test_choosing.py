"""Select the variables and the storage of a copy; nccopy, netCDF4, zarr-python and xarray are the oracles."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr as zarr_python
from hypothesis import given
from hypothesis import strategies as st

import nczarr
from nczarr import cdl
from nczarr.cli import main
from nczarr.convert import open_source
from nczarr.convert.change.shaping import fitted, parse_bytes, parse_lengths
from nczarr.errors import LossError, UnsupportedError
from nczarr.mapping import open_dataset
from nczarr.model import Storage

EXAMPLE = Path(__file__).parents[1] / "data" / "example.nc"
needs_nccopy = pytest.mark.skipif(not shutil.which("nccopy"), reason="netcdf-bin is not installed")


def names(path: Path) -> list[str]:
    with open_source(path) as dataset:
        return list(dataset.all_variables)


def array(path: Path, name: str) -> Any:
    node = zarr_python.open_group(path, mode="r")[name]
    assert isinstance(node, zarr_python.Array)
    return node


# --- what


def test_variables_bring_the_coordinates_that_they_need(tmp_path: Path) -> None:
    nczarr.copy(EXAMPLE, tmp_path / "a.zarr", variables="temp")
    assert names(tmp_path / "a.zarr") == ["/time", "/lat", "/lon", "/ocean/depth", "/ocean/temp"]
    left = xr.open_dataset(EXAMPLE, group="ocean")["temp"]
    right = xr.open_dataset(tmp_path / "a.zarr", group="ocean", engine="zarr")["temp"]
    np.testing.assert_array_equal(left.values, right.values)


@needs_nccopy
def test_only_is_nccopys_capital_v(tmp_path: Path) -> None:
    subprocess.run(["nccopy", "-V", "lat,lon", EXAMPLE, tmp_path / "theirs.nc"], check=True)
    nczarr.copy(EXAMPLE, tmp_path / "ours.nc", only="/lat,/lon")
    with netCDF4.Dataset(tmp_path / "theirs.nc") as theirs, netCDF4.Dataset(tmp_path / "ours.nc") as ours:
        assert set(ours.variables) == set(theirs.variables)
        assert {d: len(x) for d, x in ours.dimensions.items()} == {
            d: len(x) for d, x in theirs.dimensions.items()
        }
        for name in ours.variables:
            np.testing.assert_array_equal(ours[name][:], theirs[name][:])


def test_groups_and_exclude(tmp_path: Path) -> None:
    nczarr.copy(EXAMPLE, tmp_path / "a.zarr", groups=["/atmosphere"], exclude=["station_*"])
    assert names(tmp_path / "a.zarr") == ["/atmosphere/slp"]
    nczarr.copy(EXAMPLE, tmp_path / "b.zarr", exclude="/ocean,/atmosphere")
    assert names(tmp_path / "b.zarr") == ["/time", "/lat", "/lon"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"variables": "tmep"},
        {"groups": "/nothing"},
        {"exclude": "*"},
        {"select": {"tiem": slice(0, 2)}},
        {"select": {"time": slice(0, 0)}},
        {"select": {"time": slice(0, 2, -1)}},
        {"select": {"time": slice(0, 2.0)}},
        {"select": {"depth": "2020-01-01"}},
        {"select": {"station": slice(0.0, 1.0)}},
        {"select": {"lat": 12.345}},
        {"select": {"lon": slice(350.0, 10.0)}},
        {"select": {"time": slice("2020-13-01", None)}},
        {"rename": {"/no": "b"}},
        {"rename": {"/lat": "a\x00b"}},
        {"rename": {"/lat": "lon"}},
        {"chunks": "tiem=2"},
        {"chunks": "time=0"},
        {"chunks": "time"},
        {"shards": {"lat": 5}, "chunks": {"lat": 2}},
        {"chunk_bytes": "many"},
        {"compression": "zip:3"},
        {"compression": "zstd:99"},
        {"quantize": "temp=3"},
        {"quantize": "salt=99"},
        {"memory": "1KiB"},
        {"unlimited": "x"},
    ],
    ids=str,
)
def test_bad_input_is_refused_before_anything_is_written(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError):
        nczarr.copy(EXAMPLE, tmp_path / "a.zarr", **wrong)
    assert list(tmp_path.iterdir()) == []


def test_netcdf_has_no_shards_and_classic_no_chunks(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="shards="):
        nczarr.copy(EXAMPLE, tmp_path / "a.nc", shards="auto")
    with pytest.raises(UnsupportedError, match="no chunks"):
        nczarr.copy(EXAMPLE, tmp_path / "a.nc", format="classic", compression="gzip:5")
    with pytest.raises(UnsupportedError, match="nczarr-v2"):
        nczarr.copy(EXAMPLE, tmp_path / "a.zarr", shards={"lat": 18}, chunks={"lat": 2}, layout="nczarr-v2",
                    variables="/lat")  # fmt: skip
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (slice(1, 5, 2), {"isel": slice(1, 5, 2)}),
        (-1, {"isel": slice(5, 6)}),
        (slice("2020-02-02", "2020-04-15"), {"sel": slice("2020-02-02", "2020-04-15")}),
        ("2020-01", {"sel": slice("2020-01", "2020-01")}),
        (slice(np.datetime64("2020-02-02"), None), {"sel": slice("2020-02-02", None)}),
    ],
)
def test_times_are_selected_as_xarray_selects_them(tmp_path: Path, ours: Any, theirs: dict[str, Any]) -> None:
    nczarr.copy(EXAMPLE, tmp_path / "a.zarr", select={"time": ours})
    original = xr.open_dataset(EXAMPLE)
    wanted = original.isel(time=theirs["isel"]) if "isel" in theirs else original.sel(time=theirs["sel"])
    with xr.open_dataset(tmp_path / "a.zarr", engine="zarr") as copied:
        np.testing.assert_array_equal(copied["time"].values, wanted["time"].values)
    with nczarr.Dataset(tmp_path / "a.zarr") as copied:
        assert copied.dimensions["time"].isunlimited()
        assert copied["/ocean/temp"].shape[0] == len(wanted["time"])


values = st.lists(st.floats(-100, 100, width=32), min_size=2, max_size=12, unique=True)


@given(values, st.booleans(), st.floats(-120, 120, width=32), st.floats(-120, 120, width=32))
def test_values_are_selected_as_by_comparison(
    coordinate: list[float], down: bool, a: float, b: float
) -> None:
    from nczarr.convert.change.selecting import select
    from nczarr.model import FLOAT, Dataset, Dimension, MemorySource, Variable

    x = np.array(sorted(coordinate, reverse=down), "f4")
    low, high = min(a, b), max(a, b)
    dataset = Dataset(
        "d",
        dimensions=(Dimension("x", len(x)),),
        variables=(Variable("x", FLOAT, ("/x",), data=MemorySource(x)),),
    )
    expected = x[(x >= np.float32(low)) & (x <= np.float32(high))]
    if not expected.size:
        with pytest.raises(UnsupportedError):
            select(dataset, {"x": slice(low, high)})
        return
    part = select(dataset, {"x": slice(low, high)}).variables[0]
    assert part.data is not None
    np.testing.assert_array_equal(part.data.read((slice(0, len(expected), 1),)), expected)


def test_rename_follows_references(tmp_path: Path) -> None:
    nczarr.copy(
        EXAMPLE,
        tmp_path / "a.nc",
        rename={"/time": "t", "/ocean": "sea", "/ocean/temp": "theta", "/ocean/temp@units": "unit"},
    )
    with netCDF4.Dataset(tmp_path / "a.nc") as copied, netCDF4.Dataset(EXAMPLE) as original:
        theta = copied["/sea/theta"]
        assert theta.dimensions[0] == "t"
        assert theta.unit == original["/ocean/temp"].units
        np.testing.assert_array_equal(theta[:], original["/ocean/temp"][:])
        assert copied["/sea/flag"].datatype.enum_dict == original["/ocean/flag"].datatype.enum_dict


def along(kind: str, attributes: str, values: str) -> Any:
    """A dataset with one coordinate."""
    return cdl.loads(
        f"netcdf d {{ dimensions: x = {values.count(',') + 1 if values else 'UNLIMITED'};"
        f" variables: {kind} x(x); {attributes} data: {f'x = {values};' if values else ''} }}"
    )


@pytest.mark.parametrize(
    ("kind", "attributes", "values", "wanted", "expected"),
    [
        # 3 × 0.1 + 5 is a little more than 5.3, and both ends are included.
        ("short", "x:scale_factor = 0.1; x:add_offset = 5.;", "1, 2, 3, 4", slice(5.1, 5.3), [1, 2, 3]),
        ("short", "x:scale_factor = 0.1; x:add_offset = 5.;", "1, 2, 3, 4", 5.3, [3]),
        ("short", "x:scale_factor = -0.1;", "1, 2, 3, 4", slice(-0.3, -0.1), [1, 2, 3]),
        # Five hours are no whole number of days, in single precision less than in double.
        (
            "float",
            'x:units = "days since 2000-01-01";',
            "0.16666667, 0.20833333, 0.25, 0.29166666",
            slice("2000-01-01T05", "2000-01-01T06"),
            [0.20833333, 0.25],
        ),
        (
            "int",
            'x:units = "days since 2000-01-01";',
            "3, 2, 1, 0",
            slice("2000-01-03", "2000-01-02"),
            [2, 1],
        ),
    ],
)
def test_values_that_stand_for_the_ends_are_in_the_range(
    tmp_path: Path, kind: str, attributes: str, values: str, wanted: Any, expected: list[float]
) -> None:
    nczarr.copy(along(kind, attributes, values), tmp_path / "a.nc", select={"x": wanted})
    with netCDF4.Dataset(tmp_path / "a.nc") as found:
        found.set_auto_maskandscale(False)
        np.testing.assert_allclose(found["x"][:], expected, rtol=1e-7)


@pytest.mark.parametrize(
    ("kind", "attributes", "values", "wanted"),
    [
        ("double", 'x:scale_factor = "many";', "1, 2", slice(1.0, 2.0)),
        ("double", "x:scale_factor = 1., 2.;", "1, 2", slice(1.0, 2.0)),
        ("double", "", "", slice(1.0, 2.0)),
        ("double", "", "", 1.0),
        ("short", "x:scale_factor = 0.1;", "", 1.0),
    ],
)
def test_coordinates_that_say_no_values_are_refused(
    tmp_path: Path, kind: str, attributes: str, values: str, wanted: Any
) -> None:
    with pytest.raises(UnsupportedError, match="-d"):
        nczarr.copy(along(kind, attributes, values), tmp_path / "a.zarr", select={"x": wanted})
    assert not (tmp_path / "a.zarr").exists()


NAMING = """netcdf d {
dimensions: lat = 1; lon = 1;
variables:
  float lat(lat); lat:bounds = "lat_bnds";
  float lat_bnds(lat);
  float lon(lon);
  int crs;
  float area(lat, lon);
  float t(lat, lon);
    t:grid_mapping = "crs: lat  lon"; t:cell_measures = "area: area"; t:long_name = "area of crs";
    string t:coordinates = "/lat lon nowhere";
group: g { variables: float u(lat, lon); u:ancillary_variables = "t v"; float v(lat, lon); }
}"""


def test_attributes_that_name_variables_follow_new_names(tmp_path: Path) -> None:
    names = {"/lat": "lon", "/lon": "lat", "/crs": "where", "/lat_bnds": "b", "/t": "temp", "/area": "cells"}
    nczarr.copy(cdl.loads(NAMING), tmp_path / "a.nc", rename={**names, "/g/v": "w", "/g": "h"})
    with netCDF4.Dataset(tmp_path / "a.nc") as found:
        assert found["lon"].bounds == "b"
        said = found["temp"]
        assert said.dimensions == ("lon", "lat")
        assert (said.grid_mapping, said.cell_measures) == ("where: lon  lat", "area: cells")
        assert (said.coordinates, said.long_name) == ("/lon lat nowhere", "area of crs")
        assert found["h/u"].ancillary_variables == "temp w"


def test_a_grid_mapping_of_the_long_form_comes_with_its_variable(tmp_path: Path) -> None:
    nczarr.copy(cdl.loads(NAMING), tmp_path / "a.zarr", variables="/t")
    assert "/crs" in names(tmp_path / "a.zarr")


# --- how


def test_chunks_shards_and_codecs_are_those_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "a.zarr"
    nczarr.copy(
        EXAMPLE,
        out,
        chunks="time=1,lat=9",
        shards={"time": 3, "lat": 18},
        compression="zstd:5",
        checksum=True,
    )
    salt, slp = array(out, "ocean/salt"), array(out, "atmosphere/slp")
    assert slp.chunks[:2] == (1, 9)
    assert slp.shards is not None
    assert slp.shards[:2] == (3, 18)
    assert (
        [c.to_dict()["name"] for c in slp.metadata.inner_codecs] == ["bytes", "zstd", "crc32c"]
        if hasattr(slp.metadata, "inner_codecs")
        else True
    )
    with netCDF4.Dataset(EXAMPLE) as original:
        original.set_auto_maskandscale(False)
        np.testing.assert_array_equal(slp[:], original["/atmosphere/slp"][:])
        np.testing.assert_array_equal(salt[:], original["/ocean/salt"][:])
    assert list(nczarr.diff(EXAMPLE, out)) == []


def test_the_default_is_zstd_and_the_filters_come_back(tmp_path: Path) -> None:
    nczarr.copy(EXAMPLE, tmp_path / "a.zarr")
    codec = array(tmp_path / "a.zarr", "ocean/temp").compressors[0].to_dict()
    assert codec["name"] == "blosc"
    assert codec["configuration"]["cname"] == "zstd"
    assert codec["configuration"]["shuffle"] == "shuffle"
    nczarr.copy(tmp_path / "a.zarr", tmp_path / "back.nc")
    assert (
        list(nczarr.diff(EXAMPLE, tmp_path / "back.nc", storage=True, ignore_attributes=["_NCProperties"]))
        == []
    )
    nczarr.copy(EXAMPLE, tmp_path / "same.zarr", compression="source")
    codec = array(tmp_path / "same.zarr", "ocean/temp").compressors[0].to_dict()
    assert codec["configuration"]["cname"] == "zlib"


@pytest.mark.parametrize("compression", ["zstd:1", "gzip:9", "blosc:lz4:5", "none"])
def test_compression_of_netcdf_output(tmp_path: Path, compression: str) -> None:
    nczarr.copy(EXAMPLE, tmp_path / "a.nc", compression=compression, checksum=True, chunks="lat=6")
    assert list(nczarr.diff(EXAMPLE, tmp_path / "a.nc")) == []
    with netCDF4.Dataset(tmp_path / "a.nc") as copied:
        temp = copied["/ocean/temp"]
        assert temp.filters()["zlib"] == compression.startswith("gzip")
        assert temp.filters()["fletcher32"]
        assert temp.chunking()[2] == 6


@needs_nccopy
def test_kind_and_fixed_are_nccopys(tmp_path: Path) -> None:
    source = EXAMPLE.with_name("classic.nc")
    subprocess.run(["nccopy", "-u", "-k", "nc4", source, tmp_path / "theirs.nc"], check=True)
    nczarr.copy(source, tmp_path / "ours.nc", fixed=True, format="nc4")
    left, right = tmp_path / "theirs.nc", tmp_path / "ours.nc"
    assert list(nczarr.diff(left, right, ignore_attributes=["_NCProperties"])) == []


def test_unlimited(tmp_path: Path) -> None:
    nczarr.copy(EXAMPLE, tmp_path / "a.nc", unlimited="lat")
    with netCDF4.Dataset(tmp_path / "a.nc") as copied:
        assert copied.dimensions["lat"].isunlimited()


def test_quantize_is_netcdf_cs(tmp_path: Path) -> None:
    data = np.random.default_rng(1).standard_normal(1000).astype("f4")
    with (
        netCDF4.Dataset(tmp_path / "plain.nc", "w") as plain,
        netCDF4.Dataset(tmp_path / "c.nc", "w") as theirs,
    ):
        for file, extra in (
            (plain, {}),
            (theirs, {"significant_digits": 3, "quantize_mode": "GranularBitRound"}),
        ):
            file.createDimension("x", 1000)
            file.createVariable("v", "f4", ("x",), **extra)[:] = data
    nczarr.copy(tmp_path / "plain.nc", tmp_path / "a.zarr", quantize="v=GranularBitRound:3")
    with netCDF4.Dataset(tmp_path / "c.nc") as theirs, nczarr.Dataset(tmp_path / "a.zarr") as ours:
        np.testing.assert_array_equal(ours["v"][:], theirs["v"][:])
        name = "_QuantizeGranularBitRoundNumberOfSignificantDigits"
        assert ours["v"].getncattr(name) == theirs["v"].getncattr(name)


def small_chunks(path: Path, shape: tuple[int, ...], chunks: tuple[int, ...]) -> np.ndarray:
    data = np.arange(math.prod(shape), dtype="f4").reshape(shape)
    with netCDF4.Dataset(path, "w") as file:
        for i, n in enumerate(shape):
            file.createDimension(f"d{i}", n)
        v = file.createVariable("v", "f4", [f"d{i}" for i in range(len(shape))], chunksizes=chunks, zlib=True)
        v[:] = data
    return data


def test_tiny_chunks_become_larger_and_come_back(tmp_path: Path) -> None:
    data = small_chunks(tmp_path / "a.nc", (64, 128, 64), (1, 16, 16))
    nczarr.copy(tmp_path / "a.nc", tmp_path / "a.zarr")
    copied = array(tmp_path / "a.zarr", "v")
    assert math.prod(copied.chunks) * 4 >= 256 << 10
    np.testing.assert_array_equal(copied[:], data)
    nczarr.copy(tmp_path / "a.zarr", tmp_path / "back.nc")
    with netCDF4.Dataset(tmp_path / "back.nc") as back:
        assert back["v"].chunking() == [1, 16, 16]


@pytest.mark.slow
def test_many_chunks_are_put_into_shards(tmp_path: Path) -> None:
    source = tmp_path / "many.zarr"
    zarr_python.create_array(
        source, name="v", shape=(20_000,), chunks=(1,), dtype="i1", dimension_names=["x"]
    )
    with netCDF4.Dataset(tmp_path / "big.nc", "w") as file:
        file.createDimension("t", 10_001)
        file.createDimension("x", 1 << 16)
        file.createVariable("v", "f4", ("t", "x"), chunksizes=(1, 1 << 16))
    nczarr.copy(tmp_path / "big.nc", tmp_path / "big.zarr", workers=1)
    copied = array(tmp_path / "big.zarr", "v")
    assert copied.chunks == (1, 1 << 16)
    assert copied.shards is not None
    assert math.prod(copied.shards) * 4 <= 64 << 20


lengths = st.integers(1, 60)


@given(st.lists(st.tuples(lengths, lengths), min_size=1, max_size=4), st.integers(64, 40_000))
def test_fitted_chunks_are_near_their_target(axes: list[tuple[int, int]], target: int) -> None:
    shape, own = tuple(a for a, _ in axes), tuple(min(a, b) for a, b in axes)
    for start in (own, None):
        chunks = fitted(shape, start, 4, target)
        size = math.prod(chunks) * 4
        assert all(1 <= c <= n for c, n in zip(chunks, shape))
        assert size <= max(target, 4)
        if start is None:
            assert size * 4 >= min(target, math.prod(shape) * 4) or math.prod(shape) * 4 <= target * 2


def test_words() -> None:
    assert parse_bytes("1.5KiB") == 1536
    assert parse_lengths({"a": 2}) == {"a": 2}
    for text in ("", "-1", "0", "4 parsecs"):
        with pytest.raises(UnsupportedError):
            parse_bytes(text)


def test_the_command_speaks_the_same_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a.zarr"
    words = [
        "-v",
        "slp",
        "-d",
        "time=0:4:2",
        "-d",
        "lat=-30.:30.",
        "-c",
        "time/1",
        "--rename",
        "/lat=y",
        "--lossy",
    ]
    assert main(["copy", *words, str(EXAMPLE), str(out)]) == 0
    slp = array(out, "atmosphere/slp")
    assert slp.metadata.dimension_names == ("time", "y", "lon")
    assert slp.chunks[0] == 1
    assert slp.shape[0] == 2
    assert main(["copy", "-d", "time=abc", str(EXAMPLE), str(tmp_path / "b.zarr")]) == 1
    assert "-d time=abc" in capsys.readouterr().err
    assert main(["copy", str(EXAMPLE), str(out)]) == 1
    assert "--overwrite" in capsys.readouterr().err


# --- what other programs appended


def test_steps_that_zarr_python_appended_are_never_dropped_in_silence(tmp_path: Path) -> None:
    """Its writes do not reach the consolidated metadata, from which a dataset is opened otherwise."""
    nczarr.copy(EXAMPLE, tmp_path / "a.zarr", only="/time")
    zarr_python.open_array(tmp_path / "a.zarr" / "time", mode="r+").append(np.array([400.5, 401.5]))
    with open_source(tmp_path / "a.zarr", fresh=True) as dataset:
        seen = dataset.shape_of(dataset.variable_at("/time"))
    if seen == (8,):  # the dimension is as long as its longest array
        nczarr.copy(tmp_path / "a.zarr", tmp_path / "b.nc", verify=True)
        with netCDF4.Dataset(tmp_path / "b.nc") as copied:
            assert copied["time"][-2:].tolist() == [400.5, 401.5]
        return
    with pytest.raises(LossError, match="extended"):
        nczarr.copy(tmp_path / "a.zarr", tmp_path / "b.nc", verify=True)
    assert main(["copy", "--verify", str(tmp_path / "a.zarr"), str(tmp_path / "b.nc")]) == 1
    assert not (tmp_path / "b.nc").exists()
    losses = nczarr.copy(tmp_path / "a.zarr", tmp_path / "b.nc", lossy=True)
    assert any("/time" in loss for loss in losses)


def test_a_fixed_dimension_that_was_made_longer_loses_nothing(tmp_path: Path) -> None:
    nczarr.copy(EXAMPLE, tmp_path / "a.zarr", only="/lat")
    zarr_python.open_array(tmp_path / "a.zarr" / "lat", mode="r+").append(np.array([91, 92], "f4"))
    if main(["copy", str(tmp_path / "a.zarr"), str(tmp_path / "b.nc")]):
        assert not (tmp_path / "b.nc").exists()
        return
    with netCDF4.Dataset(tmp_path / "b.nc") as copied:
        assert copied["lat"][-2:].tolist() == [91, 92]


# --- chunks as they are


def never(blocks: Any, *rest: Any) -> None:
    """Stands for moving values by decoding them."""
    assert not list(blocks)


def stored(path: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(path)): p.read_bytes()
        for p in sorted(path.rglob("*"))
        if p.is_file() and "/c/" in str(p.relative_to(path))
    }


def test_zarr_to_zarr_keeps_chunks_shards_and_codecs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nczarr.copy(
        EXAMPLE, tmp_path / "a.zarr", chunks="lat=6", shards={"lat": 18}, compression="zstd:7", checksum=True
    )
    monkeypatch.setattr("nczarr.transfer.transfer", never)
    nczarr.copy(tmp_path / "a.zarr", tmp_path / "b.zarr", exclude="station_name", rename={"/lat": "y"})
    left, right = stored(tmp_path / "a.zarr"), stored(tmp_path / "b.zarr")
    assert right
    assert all(
        left[key.replace("y/", "lat/", 1) if key.startswith("y/") else key] == right[key] for key in right
    )
    monkeypatch.undo()
    nczarr.copy(tmp_path / "a.zarr", tmp_path / "c.zarr", compression="gzip:3", chunks="lat=2")
    assert array(tmp_path / "c.zarr", "lat").chunks == (2,)
    nczarr.copy(tmp_path / "a.zarr", tmp_path / "d.zarr", layout="nczarr-v2", only="/lat", lossy=True)
    np.testing.assert_array_equal(array(tmp_path / "d.zarr", "lat")[:], array(tmp_path / "a.zarr", "lat")[:])
    assert list(nczarr.diff(EXAMPLE, tmp_path / "c.zarr")) == []


@pytest.mark.parametrize("options", [{}, {"fletcher32": True}, {"shuffle": False}], ids=str)
@pytest.mark.parametrize("dtype", ["<f4", ">i2", "u1"])
def test_the_bytes_of_netcdf_chunks_pass_through(tmp_path: Path, options: dict[str, Any], dtype: str) -> None:
    data = np.random.default_rng(0).integers(0, 99, (50, 70)).astype(dtype)
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("y", 50)
        file.createDimension("x", 70)
        endian = {">": "big", "<": "little"}.get(dtype[0], "native")
        file.createVariable("v", dtype, ("y", "x"), chunksizes=(16, 32), endian=endian, zlib=True, **options)[
            :
        ] = data
    out = tmp_path / "a.zarr"
    chunks = {"chunk_bytes": None, "compression": "numcodecs"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nczarr.transfer.transfer", never)
        patch.setattr("nczarr.convert.change.shaping.SMALLEST", 1)
        nczarr.copy(tmp_path / "a.nc", out, **chunks)  # type: ignore[arg-type]
    np.testing.assert_array_equal(array(out, "v")[:], data)
    assert list(nczarr.diff(tmp_path / "a.nc", out)) == []
    content = (tmp_path / "a.nc").read_bytes()
    assert all(value in content for value in stored(out).values())


@pytest.mark.parametrize("kind", ["NETCDF4", "NETCDF3_64BIT_DATA"])
def test_the_compression_of_the_source_may_be_none(tmp_path: Path, kind: str) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w", format=kind) as file:
        file.createDimension("x", 5000)
        file.createVariable("v", "i2", ("x",))[:] = np.arange(5000)
        if kind == "NETCDF4":
            file.createVariable("w", "i2", ("x",), zlib=True)[:] = np.arange(5000)
    nczarr.copy(tmp_path / "a.nc", tmp_path / "a.zarr", compression="source")
    found = json.loads((tmp_path / "a.zarr" / "v" / "zarr.json").read_text())
    assert [codec["name"] for codec in found["codecs"]] == ["bytes"]
    if kind == "NETCDF4":
        found = json.loads((tmp_path / "a.zarr" / "w" / "zarr.json").read_text())
        assert [codec["name"] for codec in found["codecs"]] != ["bytes"]
    assert (
        list(nczarr.diff(tmp_path / "a.nc", tmp_path / "a.zarr", ignore_attributes=["_NCProperties"])) == []
    )


def test_lzf_gives_way_to_what_netcdf_c_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = np.arange(100, dtype="i4")
    with h5py.File(tmp_path / "a.nc", "w", track_order=True) as file:
        file.create_dataset("v", data=values, chunks=(20,), compression="lzf", shuffle=True, fletcher32=True)
    nczarr.copy(tmp_path / "a.nc", tmp_path / "a.zarr")
    for source in ("a.nc", "a.zarr"):
        out = tmp_path / "out.nc"
        assert main(["copy", "-q", "--verify", "--overwrite", str(tmp_path / source), str(out)]) == 0
        assert "/v: the filter lzf" in capsys.readouterr().err
        with netCDF4.Dataset(out) as found:
            np.testing.assert_array_equal(found["v"][:], values)
            kept = {name for name, there in found["v"].filters().items() if there}
            assert kept == {"zlib", "shuffle", "fletcher32", "complevel"}
    for more in ({"compression": "none"}, {"compression": "gzip:1"}, {"format": "classic", "only": "v"}):
        assert nczarr.copy(tmp_path / "a.nc", out, overwrite=True, **more) == ()


def test_codecs_of_plain_zarr_give_way_to_what_every_hdf5_reads(tmp_path: Path) -> None:
    def filters(path: Path, name: str) -> list[int]:
        with h5py.File(path) as file:
            plist = file[name].id.get_create_plist()
            return [plist.get_filter(i)[0] for i in range(plist.get_nfilters())]

    values = np.arange(1000, dtype="i4")
    codecs = {
        "zstd": zarr_python.codecs.ZstdCodec(level=3, checksum=False),
        "blosc": zarr_python.codecs.BloscCodec(cname="lz4"),
        "gzip": zarr_python.codecs.GzipCodec(level=2),
    }
    xr.Dataset(dict.fromkeys([*codecs, "none"], ("x", values))).to_zarr(
        tmp_path / "a.zarr",
        zarr_format=3,
        consolidated=False,
        encoding={name: {"compressors": codecs.get(name), "chunks": (100,)} for name in [*codecs, "none"]},
    )
    out = tmp_path / "a.nc"
    nczarr.copy(tmp_path / "a.zarr", out, verify=True)
    assert {name: filters(out, name) for name in [*codecs, "none"]} == {
        "zstd": [2, 1], "blosc": [2, 1], "gzip": [1], "none": [],
    }  # fmt: skip
    with h5py.File(out) as file:
        for name in codecs:
            np.testing.assert_array_equal(file[name][:], values)
    nczarr.copy(tmp_path / "a.zarr", out, compression="source", overwrite=True)
    assert (filters(out, "zstd"), filters(out, "blosc")) == ([32015], [32001])


SHARDED = """netcdf d {
dimensions: t = unlimited; x = 6;
variables: int v(t, x); v:_ChunkSizes = 1, 3; v:_ShardSizes = 2, 6; int s;
data: v = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18; s = 3;
}"""


def storage_of(target: Path, fqn: str = "/v") -> Storage:
    with open_dataset(target) as stored:
        return stored.dataset.variable_at(fqn).storage


def test_a_copy_keeps_shards_unless_it_changes_chunks(tmp_path: Path) -> None:
    nczarr.copy(cdl.loads(SHARDED), tmp_path / "a.zarr")
    kept = (
        {"compression": "gzip:3"},
        {"checksum": True},
        {"select": {"x": slice(0, 3)}},
        {"layout": "zarr-v3"},
    )
    for number, options in enumerate(kept):
        target = tmp_path / f"{number}.zarr"
        nczarr.copy(tmp_path / "a.zarr", target, lossy=True, **options)
        assert storage_of(target).shard_shape == (2, 6), options
        assert array(target, "v").shards == (2, 6)
        assert array(target, "v").chunks == (1, 3)
    nczarr.copy(tmp_path / "a.zarr", tmp_path / "changed.zarr", chunks="x=2")
    assert storage_of(tmp_path / "changed.zarr").shard_shape is None
    nczarr.copy(tmp_path / "a.zarr", tmp_path / "a.nc")
    nczarr.copy(tmp_path / "a.nc", tmp_path / "back.zarr")
    assert storage_of(tmp_path / "back.zarr") == Storage("chunked", (1, 3), endian="little")
    assert list(nczarr.diff(tmp_path / "a.zarr", tmp_path / "a.nc")) == []


def test_storage_with_other_shards_differs(tmp_path: Path) -> None:
    nczarr.copy(cdl.loads(SHARDED), tmp_path / "a.zarr")
    nczarr.copy(tmp_path / "a.zarr", tmp_path / "b.zarr", shards={"t": 4, "x": 6})
    assert list(nczarr.diff(tmp_path / "a.zarr", tmp_path / "b.zarr")) == []
    (found,) = nczarr.diff(tmp_path / "a.zarr", tmp_path / "b.zarr", storage=True)
    assert (found.fqn, found.what) == ("/v", "storage")


def test_joined_files_keep_shards(tmp_path: Path) -> None:
    for name in ("a", "b"):
        nczarr.copy(cdl.loads(SHARDED), tmp_path / f"{name}.zarr")
    parts = [tmp_path / "a.zarr", tmp_path / "b.zarr"]
    nczarr.join(parts, tmp_path / "long.zarr", along="t")
    assert storage_of(tmp_path / "long.zarr").shard_shape == (2, 6)
    nczarr.join(parts, tmp_path / "deep.zarr", along="member")
    assert array(tmp_path / "deep.zarr", "v").shards == (1, 2, 6)
    assert (
        array(tmp_path / "deep.zarr", "v")[...].tolist() == [[[*range(1 + i, 7 + i)] for i in (0, 6, 12)]] * 2
    )


def test_automatic_shards_of_a_variable_that_is_going_to_grow(tmp_path: Path) -> None:
    empty = "netcdf d { dimensions: t = unlimited; variables: int v(t); v:_ChunkSizes = 10; }"
    nczarr.copy(cdl.loads(empty), tmp_path / "a.zarr", shards="auto")
    assert storage_of(tmp_path / "a.zarr").shard_shape == (10_240,)


@pytest.mark.parametrize("location", ["start", "end"])
def test_a_copy_keeps_the_place_of_an_index(tmp_path: Path, location: str) -> None:
    group = zarr_python.create_group(tmp_path / "a.zarr")
    how: Any = {"shape": (4,), "index_location": location}
    group.create_array("v", data=np.arange(8), chunks=(2,), shards=how, dimension_names=("x",))
    nczarr.copy(tmp_path / "a.zarr", tmp_path / "b.zarr")
    left, right = stored(tmp_path / "a.zarr"), stored(tmp_path / "b.zarr")
    # A shard with its index at the start ends with a copy of the index.
    ends = {key: value[:36] if location == "start" else b"" for key, value in left.items()}
    assert {key: value + ends[key] for key, value in left.items()} == right
    (codec,) = json.loads((tmp_path / "b.zarr" / "v" / "zarr.json").read_text())["codecs"]
    assert codec["configuration"]["index_location"] == location

"""Compare the engine of xarray with xarray's own engine on the same content in a netCDF file."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import netCDF4
import numpy as np
import pytest

import nczarr
import nczarr.netcdf4 as ours
from nczarr import cdl
from nczarr.errors import NCZarrError
from nczarr.session import Session

xr = pytest.importorskip("xarray")

from nczarr.xarray import NCZarrBackendEntrypoint  # noqa: E402


def fill(ds: Any) -> None:
    ds.title = "test"
    ds.numbers = np.array([1, 2], "i2")
    ds.createDimension("time", None)
    ds.createDimension("x", 4)
    ds.createDimension("len", 5)
    t = ds.createVariable("time", "f8", ("time",), chunksizes=(16,))
    t.units, t.calendar = "hours since 2000-01-01", "standard"
    x = ds.createVariable("x", "f4", ("x",))
    packed = ds.createVariable("packed", "i2", ("time", "x"), fill_value=-99, zlib=True, chunksizes=(2, 4))
    packed.scale_factor, packed.add_offset, packed.coordinates = 0.1, 5.0, "lat"
    lat = ds.createVariable("lat", "f8", ("x",), fill_value=np.nan)
    text = ds.createVariable("text", str, ("x",))
    chars = ds.createVariable("chars", "S1", ("x", "len"))
    plain = ds.createVariable("plain", "u1", ("time", "x"), chunksizes=(1, 4))
    scalar = ds.createVariable("scalar", "f4")
    big = ds.createVariable("big", "f4", ("x",), endian="big")
    step = ds.createVariable("step", "i4", ("x",))
    step.units = "days"
    t[:] = np.arange(3)
    x[:] = np.arange(4) / 2
    packed[:] = np.ma.masked_equal(np.arange(12).reshape(3, 4), 5)
    lat[:] = [1, np.nan, 3, 4]
    text[:] = np.array(["a", "bb", "", "Grüße"], object)
    chars[:] = netCDF4.stringtochar(np.array(["a", "bb", "", "ccccc"], "S5"))
    plain[:] = np.arange(12).reshape(3, 4)
    scalar[...] = 2.5
    big[:] = np.arange(4)
    step[:] = np.arange(4)
    g = ds.createGroup("g")
    g.note = "inner"
    g.createVariable("v", "i4", ("x",))[:] = np.arange(4)
    g.createGroup("h").createVariable("w", "f4", ("time", "x"), chunksizes=(2, 4))[:] = np.ones((3, 4))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("xarray")
    paths = str(folder / "a.nc"), str(folder / "a.zarr")
    for library, path in zip((netCDF4, ours), paths, strict=True):
        with library.Dataset(path, "w") as ds:
            fill(ds)
    return paths


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"decode_cf": False},
        {"mask_and_scale": False},
        {"decode_times": False},
        {"concat_characters": False},
        {"decode_coords": False},
        {"drop_variables": ["packed", "text"]},
        {"decode_timedelta": True},
        {"group": "g"},
        {"group": "/g/h"},
        {"chunks": {}},
    ],
    ids=str,
)
def test_datasets_are_identical(pair: tuple[str, str], options: dict[str, Any]) -> None:
    theirs = xr.open_dataset(pair[0], engine="netcdf4", **options)
    mine = xr.open_dataset(pair[1], engine=NCZarrBackendEntrypoint, **options)
    with theirs, mine:
        xr.testing.assert_identical(mine.load(), theirs.load())
        assert mine.encoding["unlimited_dims"] == theirs.encoding["unlimited_dims"]
        for name, v in theirs.variables.items():
            # The engine netcdf4 loads all strings when it opens a file.
            assert mine.variables[name].dtype == (object if v.dtype.kind == "U" else v.dtype)
            for key in (
                "_FillValue",
                "scale_factor",
                "units",
                "calendar",
                "dtype",
                "zlib",
                "chunksizes",
                "complevel",
            ):
                if name == "text" and key not in v.encoding:
                    continue  # of strings, the engine netcdf4 gives none
                expected, got = v.encoding.get(key), mine.variables[name].encoding.get(key)
                got = expected if got is str and v.dtype.kind == "U" else got
                assert got == expected or (got != got and expected != expected)


def test_trees_are_identical(pair: tuple[str, str]) -> None:
    theirs = xr.open_datatree(pair[0], engine="netcdf4")
    mine = xr.open_datatree(pair[1], engine=NCZarrBackendEntrypoint)
    with theirs, mine:
        xr.testing.assert_identical(mine.load(), theirs.load())
    part = xr.open_datatree(pair[1], engine=NCZarrBackendEntrypoint, group="g")
    with part:
        assert part["h/w"].values.sum() == 12
    groups = xr.open_groups(pair[1], engine=NCZarrBackendEntrypoint)
    assert list(groups) == ["/", "/g", "/g/h"]


@pytest.mark.parametrize(
    "key",
    [
        {"time": 0},
        {"time": -1, "x": [3, 0]},
        {"x": slice(None, None, -1)},
        {"time": [2, 0, 0], "x": [1, 1]},
        {"time": slice(1, 1)},
        {"x": xr.DataArray([0, 1], dims="p"), "time": xr.DataArray([2, 1], dims="p")},
    ],
    ids=str,
)
def test_lazy_indexing(pair: tuple[str, str], key: dict[str, Any]) -> None:
    with (
        xr.open_dataset(pair[0], engine="netcdf4") as theirs,
        xr.open_dataset(pair[1], engine=NCZarrBackendEntrypoint) as mine,
    ):
        for name in ("packed", "text", "lat"):
            used = {
                k: v
                for k, v in key.items()
                if k in theirs[name].dims and isinstance(v, xr.DataArray) is False
            }
            used = key if name == "packed" else used
            xr.testing.assert_identical(mine[name].isel(used).load(), theirs[name].isel(used).load())


def test_nothing_is_read_before_it_is_needed(pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    original = Session.read
    monkeypatch.setattr(
        Session, "read", lambda self, node, region: (reads.append(node.name), original(self, node, region))[1]
    )
    with xr.open_dataset(pair[1], engine=NCZarrBackendEntrypoint) as ds:
        assert "packed" not in reads
        ds["packed"].values  # noqa: B018
        assert "packed" in reads


def test_many_threads(pair: tuple[str, str]) -> None:
    with xr.open_dataset(pair[1], engine=NCZarrBackendEntrypoint) as ds:
        expected = ds["packed"].copy(deep=True).load().values
    with (
        xr.open_dataset(pair[1], engine=NCZarrBackendEntrypoint, cache=False) as ds,
        ThreadPoolExecutor(8) as pool,
    ):
        for values in pool.map(lambda i: ds["packed"].values, range(40)):
            np.testing.assert_array_equal(values, expected)


def test_it_can_be_sent_to_another_process(pair: tuple[str, str]) -> None:
    with xr.open_dataset(pair[1], engine=NCZarrBackendEntrypoint) as ds:
        again = pickle.loads(pickle.dumps(ds))
        xr.testing.assert_identical(again.load(), ds.load())


def test_dask_chunks_are_those_of_the_store(pair: tuple[str, str]) -> None:
    pytest.importorskip("dask")
    with xr.open_dataset(pair[1], engine=NCZarrBackendEntrypoint, chunks={}) as ds:
        assert ds["packed"].chunks == ((2, 1), (4,))
        assert float(ds["plain"].sum().compute()) == 66


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[1] / "data").glob("*.nc")), ids=lambda p: p.name
)
def test_chunks_and_encodings_of_files_are_those_of_netcdf4(path: Path) -> None:
    pytest.importorskip("dask")
    try:
        theirs = xr.open_dataset(path, engine="netcdf4", chunks={}, decode_times=False)
    except (KeyError, RuntimeError, TypeError, ValueError):
        return  # netCDF4-python or xarray cannot open it
    with theirs, xr.open_dataset(path, engine="nczarr", chunks={}, decode_times=False) as mine:
        for name, v in theirs.variables.items():
            own = mine.variables[name]
            if v.dtype.kind in "OUV":
                continue  # of strings, that engine gives no encoding
            assert own.chunks == v.chunks
            for key in v.encoding.keys() - {"source"}:
                assert repr(own.encoding[key]) == repr(v.encoding[key])


def test_sequences_are_objects(tmp_path: Path) -> None:
    """Sequences of strings and of sequences: once a ValueError for the whole dataset."""
    text = """netcdf a { types: string(*) words; int(*) row; row(*) rows; dimensions: x = 2;
    variables: words w(x); rows r(x); words one; data: w = {"a", "b"}, {}; r = {{1, 2}, {3}}, {}; one = {"c"}; }"""
    nczarr.copy(cdl.loads(text), tmp_path / "a.zarr")
    with xr.open_dataset(tmp_path / "a.zarr", engine="nczarr") as ds:
        assert [list(v) for v in ds["w"].values] == [["a", "b"], []]
        assert [[list(i) for i in v] for v in ds["r"].values] == [[[1, 2], [3]], []]
        assert list(ds["one"].values[()]) == ["c"]
        nczarr.copy(ds.load(), tmp_path / "b.zarr")
    assert list(nczarr.diff(tmp_path / "a.zarr", tmp_path / "b.zarr")) == []


def test_an_open_dataset_is_a_source(pair: tuple[str, str]) -> None:
    with ours.Dataset(pair[1]) as ds, xr.open_dataset(pair[1], engine="nczarr") as expected:
        found = xr.open_dataset(ds, engine="nczarr")
        xr.testing.assert_identical(found.load(), expected.load())
        found.close()
        assert ds.isopen()
        assert xr.open_dataset(ds, engine="nczarr", group="g")["v"].shape == (4,)


def test_missing_groups_and_datasets(pair: tuple[str, str], tmp_path: Path) -> None:
    with pytest.raises(NCZarrError, match="no group"):
        xr.open_dataset(pair[1], engine=NCZarrBackendEntrypoint, group="nope")
    with pytest.raises(FileNotFoundError):
        xr.open_dataset(tmp_path / "nope.zarr", engine=NCZarrBackendEntrypoint)


def test_only_our_stores_are_claimed(pair: tuple[str, str], tmp_path: Path) -> None:
    engine = NCZarrBackendEntrypoint()
    assert engine.guess_can_open(pair[1])
    assert engine.guess_can_open(Path(pair[1]))
    assert not engine.guess_can_open(pair[0])
    assert not engine.guess_can_open("a.zarr")
    assert not engine.guess_can_open("a.nc")
    assert not engine.guess_can_open({})
    xr.Dataset({"v": ("x", [1, 2])}).to_zarr(tmp_path / "plain.zarr")
    assert not engine.guess_can_open(tmp_path / "plain.zarr")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_plain_zarr_is_what_the_zarr_engine_gives(tmp_path: Path, zarr_format: int) -> None:
    pytest.importorskip("zarr")
    plain = xr.Dataset(
        {
            "c": ("x", np.array([1 + 2j, 3])),
            "h": ("x", np.array([1.5, 2.5], "f2"), {"nested": {"a": [1, None]}, "flag": True}),
            "b": ("x", [True, False]),
            "t": ("x", np.array(["2000-01-01", "2000-01-02"], "M8[ns]")),
            "s": ("x", np.array(["a", "bc"])),
            "i": ("x", np.array([1, 2], "i2")),
        },
        attrs={"title": "plain", "numbers": [1, 2]},
    )
    xr.DataTree.from_dict({"/": plain, "/g": plain[["i"]]}).to_zarr(
        tmp_path / "p.zarr", zarr_format=zarr_format
    )
    for group in (None, "g"):
        ours = xr.open_dataset(tmp_path / "p.zarr", engine=NCZarrBackendEntrypoint, group=group)
        theirs = xr.open_dataset(tmp_path / "p.zarr", engine="zarr", group=group)
        xr.testing.assert_identical(ours, theirs)
        assert {n: v.dtype for n, v in ours.variables.items()} == {
            n: v.dtype for n, v in theirs.variables.items()
        }
    ours = xr.open_datatree(tmp_path / "p.zarr", engine=NCZarrBackendEntrypoint)
    xr.testing.assert_identical(ours, xr.open_datatree(tmp_path / "p.zarr", engine="zarr"))


def _calls_inside(open_: Callable[[], object]) -> int:
    """Return the number of calls of functions of nczarr."""
    folder, count = str(Path(nczarr.__file__).parent), 0

    def look(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_filename.startswith(folder)

    open_()  # fills caches
    sys.setprofile(look)
    try:
        open_()
    finally:
        sys.setprofile(None)
    return count


def test_plain_zarr_is_opened_once_by_the_zarr_engine(tmp_path: Path) -> None:
    """A model of the documents, which nobody reads, takes as long as the Zarr engine does."""
    calls = []
    for number in (100, 200):
        path = tmp_path / f"{number}.zarr"
        attributes = {"units": "K", "long_name": "a text that each variable of this dataset has"}
        values = {f"v{i}": ("x", np.zeros(1, "f4"), attributes) for i in range(number)}
        xr.Dataset(values).to_zarr(path, zarr_format=3)
        calls.append(_calls_inside(lambda path=path: xr.open_dataset(path, engine=NCZarrBackendEntrypoint)))
    assert (calls[1] - calls[0]) / 100 < 6


@pytest.mark.parametrize("change", [{"fill_value": None}, {"data_type": "nix"}, {"other": {"a": 1}}])
def test_damaged_plain_zarr_is_told_with_its_place(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "p.zarr"
    xr.Dataset({"v": ("x", [1.0])}).to_zarr(path, zarr_format=3)
    root = json.loads((path / "zarr.json").read_text())
    root["consolidated_metadata"]["metadata"]["v"].update(change)
    (path / "zarr.json").write_text(json.dumps(root))
    with pytest.raises(NCZarrError, match=rf"zarr.json.*\['v'\].*{next(iter(change))}"):
        xr.open_dataset(path, engine=NCZarrBackendEntrypoint)


def test_keys_that_are_written_with_escapes_are_found(tmp_path: Path) -> None:
    """In a large root document, the documents of arrays are not parsed to find out whether they have such keys."""
    text = 'netcdf d {types: byte enum e {no = 0}; variables: e c; c:long = "%s";}' % ("a" * 200_000)
    nczarr.copy(cdl.loads(text), tmp_path / "a.zarr")
    root = json.loads((tmp_path / "a.zarr/zarr.json").read_text())
    root["attributes"] = {}
    (tmp_path / "a.zarr/zarr.json").write_text(json.dumps(root).replace("nczarr", "\\u006eczarr"))
    with nczarr.Dataset(tmp_path / "a.zarr") as dataset:
        assert list(dataset.enumtypes) == ["e"]


def test_chunks_and_shards_go_on_to_xarray_and_back(tmp_path: Path) -> None:
    """They stand in the encoding under the names of xarray's Zarr engine, which writes them again."""
    with ours.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("time", None)
        ds.createDimension("x", 4)
        ds.createVariable("v", "i4", ("time", "x"), chunksizes=(2, 4), shards=(6, 4))[:9] = 1
        ds.createVariable("plain", "i4", ("x",))[:] = 2
    with xr.open_dataset(tmp_path / "a.zarr", engine="nczarr") as found:
        assert found.v.encoding["chunks"] == (2, 4)
        assert found.v.encoding["shards"] == (6, 4)
        assert not {"chunks", "shards"} & found.plain.encoding.keys()
        found.to_zarr(tmp_path / "b.zarr", zarr_format=3, consolidated=False)
        found.to_netcdf(tmp_path / "b.nc", engine="netcdf4")
    with ours.Dataset(tmp_path / "b.zarr") as ds:
        assert ds["v"].shards() == (6, 4)
        assert ds["v"].chunking() == [2, 4]
        assert (ds["v"][:] == 1).all()
        assert ds["plain"].shards() is None
    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        assert file["v"].chunking() == [2, 4]


def test_chunks_of_a_netcdf_source_do_not_contradict_its_shards(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 20)
        file.createVariable("v", "i4", ("x",), chunksizes=(7,))[:] = np.arange(20)
        file.createVariable("w", "i4", ("x",))[:] = np.arange(20)
    copied = tmp_path / "a.zarr"
    nczarr.copy(tmp_path / "a.nc", copied, shards={"x": 28})
    with ours.Dataset(copied, "a") as ds:
        assert ds["v"].shards() == (40,)  # the chunk has the whole dimension
        assert ds["v"].chunking() == [7]
        assert ds["w"].chunking() == "contiguous"
    with xr.open_dataset(copied, engine="nczarr") as found:
        found.to_zarr(tmp_path / "b.zarr", zarr_format=3, consolidated=False)
        assert found.equals(xr.open_dataset(tmp_path / "b.zarr", engine="nczarr").load())


@pytest.mark.parametrize("name", ["a.nc", "a.zarr"])
def test_units_of_times_that_xarray_cannot_decode_name_the_variable(tmp_path: Path, name: str) -> None:
    """xarray's error has the units alone."""
    text = """netcdf d {dimensions: t = 2;
        variables: int good(t), bad(t); good:units = "days since 2000-01-01"; bad:units = "fortnights since 2000-01-01";
        data: good = 1, 2; bad = 1, 2;}"""
    path = tmp_path / name
    nczarr.copy(nczarr.cdl.loads(text), path)
    with pytest.raises(ValueError, match=r"/bad: .*'fortnights since .*drop_variables=\['bad'\]"):
        xr.open_dataset(path, engine="nczarr")
    for options in ({"decode_times": False}, {"drop_variables": ["bad"]}, {"drop_variables": "bad"}):
        with xr.open_dataset(path, engine="nczarr", **options) as opened:
            assert opened.good.shape == (2,)

"""Create, ask for, edit and copy variables with shards; other readers read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nczarr
from nczarr.errors import ArgumentError, ArgumentTypeError

zarr = pytest.importorskip("zarr")
ts = pytest.importorskip("tensorstore")


def sharding(store: Path, name: str) -> dict[str, Any]:
    (codec,) = json.loads((store / name / "zarr.json").read_text())["codecs"]
    assert codec["name"] == "sharding_indexed"
    return dict(codec["configuration"])


def read_elsewhere(store: Path, name: str) -> list[np.ndarray]:
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{store / name}/"}}
    return [
        np.asarray(zarr.open_array(str(store), path=name, mode="r")[...]),
        np.asarray(ts.open(spec, read=True).result().read().result()),
    ]


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.tuples(st.integers(1, 6), st.integers(1, 3), st.integers(1, 3), st.booleans()),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from(["u1", "i2", "f8"]),
    st.sampled_from([{}, {"zlib": True}, {"fletcher32": True}]),
)
def test_values_come_back_from_every_reader(
    tmp_path_factory: pytest.TempPathFactory,
    axes: list[tuple[int, int, int, bool]],
    code: str,
    options: dict[str, Any],
) -> None:
    store = tmp_path_factory.mktemp("shards") / "a.zarr"
    shape = tuple(n for n, _, _, _ in axes)
    chunks = tuple(min(c, n) for n, c, _, _ in axes)
    shards = tuple(c * m for c, (_, _, m, _) in zip(chunks, axes, strict=True))
    values = np.arange(np.prod(shape)).reshape(shape).astype(code)
    with nczarr.Dataset(store, "w") as ds:
        for i, (n, _, _, grows) in enumerate(axes):
            ds.createDimension(f"d{i}", None if grows else n)
        v = ds.createVariable("v", code, tuple(ds.dimensions), chunksizes=chunks, shards=shards, **options)
        v[tuple(slice(n) for n in shape)] = values
        assert v.shards() == shards
        assert v.chunking() == list(chunks)
    configuration = sharding(store, "v")
    assert configuration["chunk_shape"] == list(chunks)
    assert configuration["index_location"] == "start"
    with nczarr.Dataset(store) as ds:
        assert ds["v"].shards() == shards
        assert ds["v"].chunking() == list(chunks)
        assert ds["v"][...].tolist() == values.tolist()
    for found in read_elsewhere(store, "v"):
        assert found.tolist() == values.tolist()


@pytest.mark.parametrize(
    ("dimensions", "shards", "error", "hint"),
    [
        (("t", "x"), (4,), ArgumentError, "same length"),
        (("t", "x"), (4, 0), ArgumentError, "positive"),
        (("t", "x"), (-4, 10), ArgumentError, "positive"),
        (("t", "x"), (5, 10), ArgumentError, "whole chunks"),
        (("t", "x"), (2**40, 10), ArgumentError, "too many"),
        (("t", "x"), 4, ArgumentTypeError, "sequence"),
        (("t", "x"), "many", ArgumentTypeError, "sequence"),
        (("t", "x"), ("a", "b"), ArgumentTypeError, "whole number"),
        ((), (4,), ArgumentError, "scalar"),
        ((), (), ArgumentError, "scalar"),
    ],
)
def test_what_is_no_shard_is_refused(
    dimensions: tuple[str, ...], shards: Any, error: type[Exception], hint: str
) -> None:
    with nczarr.Dataset({}, "w") as ds:
        ds.createDimension("t", None)
        ds.createDimension("x", 10)
        with pytest.raises(error, match=hint):
            ds.createVariable("v", "i4", dimensions, chunksizes=(2, 5)[: len(dimensions)], shards=shards)
        assert not ds.variables


@pytest.mark.parametrize("shards", [(10,), "auto"])
def test_contiguous_variables_have_no_shards(shards: Any) -> None:
    with nczarr.Dataset({}, "w") as ds:
        ds.createDimension("x", 10)
        with pytest.raises(ArgumentError, match="contiguous"):
            ds.createVariable("v", "i4", ("x",), contiguous=True, shards=shards)


@pytest.mark.parametrize("shards", [(10,), "auto"])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a.nc", {}),
        ("a.nc", {"format": "NETCDF3_CLASSIC"}),
        ("a.zarr", {"format": "NETCDF3_CLASSIC"}),
        ("a.zarr", {"options": {"layout": "nczarr-v2"}}),
        ("a.zarr", {"options": {"layout": "zarr-v2"}}),
        ("a.zarr", {"options": {"layout": "draft-2019"}}),
    ],
)
def test_formats_without_shards_refuse_them(
    tmp_path: Path, name: str, options: dict[str, Any], shards: Any
) -> None:
    if "options" in options:
        options = {"options": nczarr.mapping.WriteOptions(**options["options"], lossy=True)}
    with nczarr.Dataset(tmp_path / name, "w", **options) as ds:
        ds.createDimension("x", 10)
        with pytest.raises(ArgumentError, match="this format has none"):
            ds.createVariable("v", "i4", ("x",), shards=shards)


def test_default_chunks_divide_the_shards(tmp_path: Path) -> None:
    with nczarr.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("t", None)
        ds.createDimension("x", 100)
        v = ds.createVariable("v", "f8", ("t", "x"), shards=(3000, 300))
        w = ds.createVariable("w", "f8", ("t", "x"), chunksizes=(7, 0), shards=(21, 40))
        assert v.chunking() == [600, 100]
        assert w.chunking() == [7, 40]
        w[:30] = 1.0
    assert (read_elsewhere(tmp_path / "a.zarr", "w")[1] == 1).all()


def test_automatic_shards(tmp_path: Path) -> None:
    with nczarr.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("s", None)  # the chunks of the series would hold for all along its dimension
        ds.createDimension("t", None)
        ds.createDimension("x", 100)
        ds.createDimension("large", 100_000_000)
        shards = {
            name: ds.createVariable(name, "f8", dimensions, shards="auto", chunksizes=chunks).shards()
            for name, dimensions, chunks in (
                ("series", ("s",), (24,)),
                ("maps", ("t", "x"), None),
                ("small", ("x",), None),
                ("line", ("large",), None),
                ("scalar", (), None),
            )
        }
        assert shards["series"] == (24 * 1024,)
        assert shards["maps"] is not None
        assert shards["maps"][0] % ds["maps"].chunking()[0] == 0
        assert np.prod(shards["maps"]) * 8 in range(60 << 20, (64 << 20) + 1)
        assert shards["small"] is None
        assert shards["scalar"] is None
        assert shards["line"] is not None
    with nczarr.Dataset(tmp_path / "a.zarr") as ds:
        assert {name: v.shards() for name, v in ds.variables.items()} == shards


@pytest.mark.parametrize("location", ["start", "end"])
@pytest.mark.parametrize("change", ["attribute", "rename", "dimension", "group", "values"])
def test_edits_keep_shards(tmp_path: Path, change: str, location: str) -> None:
    """Those of other programs keep the place of their index."""
    store, values = tmp_path / "a.zarr", np.arange(60).reshape(6, 10)
    group = zarr.create_group(store)
    group.create_array(
        "v",
        shape=(6, 10),
        dtype="i8",
        chunks=(2, 5),
        shards={"shape": (4, 10), "index_location": location},
        dimension_names=("t", "x"),
    )[...] = values
    with nczarr.Dataset(store, "a") as ds:
        assert ds["v"].shards() == (4, 10)
        assert ds["v"].chunking() == [2, 5]
        if change == "attribute":
            ds["v"].units = "K"
        elif change == "rename":
            ds.renameVariable("v", "w")
        elif change == "dimension":
            ds.renameDimension("t", "time")
        elif change == "group":
            ds.createGroup("g").createVariable("w", "i4")
        else:
            ds["v"][0, 0] = 100
            values[0, 0] = 100
    name = "w" if change == "rename" else "v"
    with nczarr.Dataset(store) as ds:
        assert ds[name].shards() == (4, 10)
        assert ds[name].chunking() == [2, 5]
    assert sharding(store, name)["index_location"] == location
    for found in read_elsewhere(store, name):
        assert found.tolist() == values.tolist()


def test_a_closed_dataset_tells_no_shards() -> None:
    with nczarr.Dataset({}, "w") as ds:
        v = ds.createVariable("v", "i4")
    with pytest.raises(nczarr.NCZarrError):
        v.shards()

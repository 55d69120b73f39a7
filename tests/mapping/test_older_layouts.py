"""Test the 2019 draft, and compare plain Zarr v2 with xarray."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import strategies
from hypothesis import HealthCheck, given, settings
from real_data import NETCDF_FILES, ZARR_SAMPLES

import nczarr
from nczarr import mapping
from nczarr.cli import main
from nczarr.mapping import WriteOptions
from nczarr.model import Dataset, compare
from nczarr.netcdf import open_dataset as open_netcdf
from nczarr.stores import MemoryStore

TESTS = Path(__file__).parents[1]
REAL = NETCDF_FILES + sorted((TESTS / "data").glob("*.nc"))


@pytest.mark.parametrize("nc", REAL, ids=lambda p: p.name)
def test_the_draft_holds_real_files_exactly(nc: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.zarr"
    assert nczarr.copy(nc, out, layout="draft-2019") == ()
    assert list(nczarr.diff(nc, out, storage=True)) == []


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(strategies.datasets(shards=False))
def test_the_draft_holds_every_model(dataset: Dataset) -> None:
    store = MemoryStore()
    sink = mapping.create_dataset(store, dataset, WriteOptions(layout="draft-2019"))
    for fqn, variable in dataset.all_variables.items():
        if variable.data is not None:
            region = tuple(slice(0, n, 1) for n in variable.data.shape)
            sink.write(fqn, region, variable.data.read(region))
    sink.commit()
    with mapping.open_dataset(store) as stored:
        assert stored.layout == "draft-2019"
        assert list(compare(dataset, stored.dataset, storage=True)) == []


def test_the_draft_has_its_own_documents(tmp_path: Path) -> None:
    out = tmp_path / "out.zarr"
    nczarr.copy(TESTS / "data" / "example.nc", out, layout="draft-2019")
    bootstrap = json.loads((out / "zarr.json").read_text())
    assert bootstrap["zarr_format"] == "http://purl.org/zarr/spec/protocol/core/3.0"
    document = json.loads((out / "meta" / "root" / "ocean" / "temp.array").read_text())
    assert document["data_type"] == "<i2"
    assert document["chunk_grid"]["type"] == "regular"
    assert (out / "meta" / "root.group").exists()
    assert any((out / "data" / "ocean" / "temp").iterdir())


#: Where stock xarray cannot see the same, and why.
NOT_IN_XARRAY = {
    "coordinates.nc": "a variable has one dimension twice",
    "foreign.nc": "netCDF4-python refuses the file",
    "names.nc": "names that Zarr forbids are escaped",
    "nested.nc": "types that netCDF4-python refuses",
    "user_types.nc": "types that netCDF4-python refuses",
}


@pytest.mark.parametrize("nc", [p for p in REAL if p.name not in NOT_IN_XARRAY], ids=lambda p: p.name)
def test_xarray_sees_the_same_dataset_on_plain_v2(nc: Path, tmp_path: Path) -> None:
    xr = pytest.importorskip("xarray")
    out = tmp_path / "out.zarr"
    # zarr-python has no structs inside structs on v2
    nczarr.copy(nc, out, layout="zarr-v2", compound="bytes")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options: dict[str, bool] = {}
        try:
            original = xr.open_dataset(nc, engine="netcdf4")
        except ValueError:
            options = {"decode_times": False}
            try:
                original = xr.open_dataset(nc, engine="netcdf4", **options)
            except ValueError as error:
                pytest.skip(f"xarray refuses the original: {error}")
        copied = xr.open_dataset(out, engine="zarr", zarr_format=2, **options)
        different = [
            str(name)
            for name in original.variables
            if original[name].dtype.names is None
            and original[name].dtype.kind not in "SUOT"  # text has another dtype on v2
            and not original[name].identical(
                copied[name].drop_attrs(deep=False).assign_attrs(copied[name].attrs)
            )
        ]
    assert different == []


def test_the_mask_of_xarray_on_v2_comes_back(tmp_path: Path) -> None:
    nc, out = TESTS / "data" / "primitives.nc", tmp_path / "out.zarr"
    losses = nczarr.copy(nc, out, layout="zarr-v2")
    assert not [loss for loss in losses if "_FillValue" in loss]
    for fill, array in (("never_written_fill", -5.0), ("scalar_d", None)):
        assert json.loads((out / fill / ".zarray").read_text())["fill_value"] == array
    with mapping.open_dataset(out) as stored:
        copied = stored.dataset.all_variables
        with open_netcdf(nc) as original:
            for fqn, variable in original.dataset.all_variables.items():
                assert copied[fqn].attribute.get("_FillValue") == variable.attribute.get("_FillValue"), fqn


def test_xarray_and_nczarr_mask_the_same_on_v2(tmp_path: Path) -> None:
    xr = pytest.importorskip("xarray")
    pytest.importorskip("zarr")
    x = np.arange(4)
    dataset = xr.Dataset(
        {
            "by_default": ("x", np.array([1.0, np.nan, 3.0, 4.0])),
            "float": ("x", np.array([1.5, np.nan, 3, 4], "f4"), {}, {"_FillValue": np.float32(1e20)}),
            "integer": ("x", np.array([1, 2, 3, 4], "i2"), {}, {"_FillValue": 3}),
            "packed": (
                "x",
                [0.5, np.nan, 1.5, 2],
                {},
                {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1},
            ),
            "unmasked": ("x", np.array([0, 1, 2, 3]), {}, {"_FillValue": None}),
            "real": ("x", np.array([0.0, 1, 2, 3]), {}, {"_FillValue": None}),
            "flag": ("x", np.array([True, False, True, True])),
            "text": ("x", np.array(["a", "", "é", "d"], object)),
        },
        coords={"x": x},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dataset.to_zarr(tmp_path / "x.zarr", zarr_format=2)
        nczarr.copy(tmp_path / "x.zarr", tmp_path / "copy.zarr", layout="zarr-v2")
        for path in (tmp_path / "x.zarr", tmp_path / "copy.zarr"):
            with xr.open_dataset(path, engine="zarr") as seen, nczarr.Dataset(path) as ours:
                for name in dataset.data_vars:
                    values = ours[name][...]
                    expected = seen[name].values
                    if expected.dtype == object or expected.dtype.kind == "T":
                        assert values.tolist() == expected.tolist()
                        continue
                    missing = np.ma.getmaskarray(values)
                    assert missing.tolist() == np.isnan(expected.astype("f8")).tolist(), (path.name, name)
                    assert values.data[~missing].tolist() == expected[~missing].tolist(), (path.name, name)
                hidden = {n for n in dataset.data_vars if "_FillValue" not in ours[n].ncattrs()}
                assert hidden >= {"unmasked", "real"}


def test_a_fill_value_without_the_convention_is_no_mask(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    for name, attributes in (("plain", {}), ("own", {"_ARRAY_DIMENSIONS": ["x"], "_FillValue": 7})):
        zarr.create_array(
            str(tmp_path / name), shape=(2,), dtype="i4", fill_value=0, zarr_format=2, attributes=attributes
        )
    with mapping.open_dataset(tmp_path / "plain") as stored:
        assert "_FillValue" not in stored.dataset.variables[0].attribute
    with mapping.open_dataset(tmp_path / "own") as stored:
        assert stored.dataset.variables[0].attribute["_FillValue"].values.tolist() == [7]


def test_a_plain_copy_says_what_it_dropped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for layout in ("zarr-v2", "zarr-v3"):
        out = tmp_path / layout
        assert main(["copy", "--layout", layout, str(TESTS / "data" / "example.nc"), str(out)]) == 0
        said = capsys.readouterr().err
        assert "/time: the dimension is no longer unlimited" in said
        assert "quality_t" in said
        text = " ".join(
            p.read_text() for p in out.rglob("*") if p.name in ("zarr.json", ".zattrs", ".zmetadata")
        )
        assert "_nczarr" not in text


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("zarrita_draft_v3_f66871a", "int bar("),
        ("zarr_python_2.18_experimental_v3.zarr", "int bar("),
        ("zarr_python_3.1.6_consolidated_v3.zarr", "variables:"),
        ("xarray_v3.zarr", "time:units"),
        ("hand_v3_xarray_identical.zarr", "variables:"),
    ],
)
def test_stores_of_others_are_read(name: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", str(ZARR_SAMPLES / name)]) == 0
    assert line in capsys.readouterr().out

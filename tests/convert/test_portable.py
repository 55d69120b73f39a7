"""Copy for readers of Zarr v3 that refuse members of arrays beside Zarr's: zarr-python 3.0.0 to 3.1.3, and others."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

import nczarr
from nczarr import cdl
from nczarr.convert.verify.check import canonical, check

TEXT = """netcdf d {
types: byte enum flag_t {no = 0, yes = 1};
dimensions: time = unlimited; x = 3;
variables:
  double time(time); time:units = "days since 2000-01-01";
  short t(time, x); t:_FillValue = -1s; t:scale_factor = 0.5f;
  flag_t flag(time); char c(x); string s(x);
:title = "portable";
data: time = 1, 2; t = 1, 2, 3, 4, 5, 6; flag = no, yes; c = "abc"; s = "a", "b", "c";
group: g { dimensions: y = 2; unused = 4; variables: float v(y); data: v = 1, 2; }
}"""
#: The members of an array's document that zarr-python 3.0.0 to 3.1.3 take.
MEMBERS = {
    "zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs",
    "attributes", "storage_transformers", "dimension_names",
}  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "p.zarr"
    nczarr.copy(cdl.loads(TEXT), path, portable=True)
    return path


def documents(path: Path) -> dict[str, dict[str, Any]]:
    """Return the documents of all arrays by path."""
    found = {p.parent: json.loads(p.read_text()) for p in path.rglob("zarr.json")}
    return {str(p.relative_to(path)): d for p, d in found.items() if d["node_type"] == "array"}


def test_arrays_have_only_members_and_types_that_old_readers_take(store: Path) -> None:
    for document in documents(store).values():
        assert document.keys() <= MEMBERS
        assert document["data_type"] in ("float64", "float32", "int16", "int8", "uint8", "string")


def test_the_model_is_that_of_the_source_and_has_no_finding(store: Path) -> None:
    assert list(nczarr.diff(cdl.loads(TEXT), store)) == []
    assert list(check(store)) == []


def test_the_minimal_reader_reads_it(store: Path) -> None:
    pytest.importorskip("zarr", minversion="3.1.4")
    reader = runpy.run_path(str(Path(__file__).parents[2] / "docs/spec/minimal_reader.py"))["Reader"]
    with nczarr.open(store) as dataset:
        assert json.loads(json.dumps(reader(str(store)).read())) == json.loads(json.dumps(canonical(dataset)))


def test_changes_keep_the_form(store: Path) -> None:
    with nczarr.Dataset(store, "a") as dataset:
        dataset["time"][2] = 3
        dataset["time"].long_name = "time"
        dataset.createVariable("later", "f4", ("x",))[:] = [1, 2, 3]
        dataset.createGroup("h").createVariable("w", "f4", ())
    assert len(documents(store)) == 8
    for document in documents(store).values():
        assert document.keys() <= MEMBERS
    assert list(check(store)) == []
    with nczarr.Dataset(store) as dataset:
        assert dataset["flag"].datatype.name == "flag_t"
        assert list(dataset["time"].ncattrs()) == ["units", "long_name"]


def test_an_append_of_xarray_keeps_the_model(store: Path) -> None:
    xr = pytest.importorskip("xarray")
    part = xr.open_dataset(store, engine="zarr", decode_times=False).isel(time=[0]).load()
    part.drop_vars(["c", "s"]).to_zarr(store, append_dim="time")
    root = json.loads((store / "zarr.json").read_text())
    assert "_nczarr_superblock" not in root["attributes"]
    with nczarr.Dataset(store) as dataset:
        assert dataset["flag"].datatype.name == "flag_t"
        assert dataset.dimensions["time"].isunlimited()
        assert len(dataset.dimensions["time"]) == 3
        assert list(dataset.groups) == ["g"]
        assert dataset["t"].scale_factor.dtype == "float32"


def test_new_attributes_of_an_array_cost_only_what_zarr_does_not_say_of_it(store: Path) -> None:
    zarr = pytest.importorskip("zarr")
    zarr.open_group(store)["flag"].attrs.put({"a": 1})
    zarr.consolidate_metadata(store)
    with nczarr.Dataset(store) as dataset:
        assert dataset["flag"].datatype == "int8"
        assert dataset["flag"].dimensions == ("time",)
        assert list(dataset.enumtypes) == ["flag_t"]


def test_an_attribute_with_the_name_of_a_key_stays_an_attribute(tmp_path: Path) -> None:
    source = cdl.loads('netcdf d {variables: int v; v:_nczarr_copy = "mine"; v:_nczarr_array = 1;}')
    for portable in (False, True):
        path = tmp_path / f"{portable}.zarr"
        nczarr.copy(source, path, portable=portable)
        assert list(nczarr.diff(source, path)) == []

"""A variable reaches the dimensions of its own group and of the groups around it, at every door."""

import json
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr

import nczarr
from nczarr import NCZarrError, cdl, model
from nczarr.cli.main import main
from nczarr.convert import open_source
from nczarr.convert.verify.check import check
from nczarr.errors import LossError
from nczarr.mapping import create_dataset
from nczarr.model import INT, Dataset, Dimension, Group, Variable
from nczarr.model.names import check_reach
from nczarr.netcdf import create_dataset as create_file
from nczarr.stores import MemoryStore

OUT_OF_REACH = "the dimension '/g/gx' is out of reach"


def broken(group: str = "") -> Dataset:
    """A dataset in which a variable, of the root or a sibling, has a dimension of the group g."""
    user = Variable("top", INT, ("/g/gx",))
    inside = Group("g", dimensions=(Dimension("gx", 3),))
    if not group:
        return Dataset("d", variables=(user,), groups=(inside,))
    return Dataset("d", groups=(inside, Group(group, variables=(user,))))


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store that another program has changed: /top refers to a dimension of the child group g."""
    path = tmp_path / "s.zarr"
    head = "netcdf d { dimensions: x = 3; variables: int top(x), other(x); data: top = 1, 2, 3;"
    text = f"{head} group: g {{ dimensions: gx = 3; }} }}"
    nczarr.copy(cdl.loads(text), path)
    for name in ("top/zarr.json", "zarr.json"):
        document = json.loads((path / name).read_text())
        if "consolidated_metadata" in document:
            del document["consolidated_metadata"]
        if "nczarr" in document:
            document["nczarr"]["configuration"]["_nczarr_array"]["dimension_references"] = ["/g/gx"]
        (path / name).write_text(json.dumps(document))
    return str(path)


@pytest.fixture
def file(tmp_path: Path) -> str:
    """An HDF5 file in which a dataset of the root has a scale of a group; ncdump cannot read it."""
    path = tmp_path / "s.nc"
    with h5py.File(path, "w") as file:
        scale = file.create_group("g").create_dataset("gx", data=np.arange(3.0))
        scale.make_scale("gx")
        top = file.create_dataset("top", data=np.array([1, 2, 3], "i4"))
        top.dims[0].attach_scale(scale)
    return str(path)


# --- writing


@pytest.mark.parametrize("group", ["", "h"])
def test_no_door_of_the_model_accepts_a_dimension_of_a_child_or_a_sibling(group, tmp_path):
    dataset = broken(group)
    doors = {
        "resolve": lambda: model.resolve(dataset),
        "copy to Zarr": lambda: nczarr.copy(dataset, tmp_path / "a.zarr"),
        "copy to a zip file": lambda: nczarr.copy(dataset, tmp_path / "a.zarr.zip"),
        "copy to netCDF": lambda: nczarr.copy(dataset, tmp_path / "a.nc"),
        "copy to CDL": lambda: nczarr.copy(dataset, tmp_path / "a.cdl"),
        "create_dataset on Zarr": lambda: create_dataset(MemoryStore(), dataset),
        "create_dataset of a file": lambda: create_file(tmp_path / "b.nc", dataset),
        "dump": lambda: cdl.dumps(dataset),
    }
    for use in doors.values():
        with pytest.raises(NCZarrError, match=OUT_OF_REACH):
            use()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.zarr", "a.zarr.zip", "a.nc"])
def test_a_variable_is_not_created_along_a_dimension_out_of_reach(name, tmp_path):
    with nczarr.Dataset(tmp_path / name, "w") as ds:
        g, h = ds.createGroup("g"), ds.createGroup("h")
        gx, x = g.createDimension("gx", 3), ds.createDimension("x", 3)
        for group in (ds, h):
            with pytest.raises(ValueError, match=OUT_OF_REACH) as caught:
                group.createVariable("top", "i4", (gx,))
            assert isinstance(caught.value, NCZarrError)
            assert not group.variables
        below = g.createGroup("below")
        assert below.createVariable("v", "i4", (gx, x)).shape == (3, 3)


def test_netcdf4_cannot_close_a_file_with_a_dimension_of_a_child(tmp_path):
    file = netCDF4.Dataset(tmp_path / "a.nc", "w")
    gx = file.createGroup("g").createDimension("gx", 3)
    file.createVariable("top", "i4", (gx,))
    with pytest.raises(RuntimeError, match="dimscales"):
        file.close()


def test_netcdf4_writes_but_cannot_read_a_dimension_of_a_sibling(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        gx = file.createGroup("g").createDimension("gx", 3)
        file.createGroup("h").createVariable("v", "i4", (gx,))
    with pytest.raises(AttributeError):
        netCDF4.Dataset(tmp_path / "a.nc")
    with pytest.warns(UserWarning, match=OUT_OF_REACH), open_source(tmp_path / "a.nc") as dataset:
        assert dataset.shape_of(dataset.variable_at("/h/v")) == (3,)


def test_cdl_with_a_dimension_out_of_reach_is_refused_with_its_place():
    text = "netcdf d {\ngroup: g { dimensions: gx = 3; }\ngroup: h { variables: int top(/g/gx); }\n}"
    with pytest.raises(NCZarrError, match=OUT_OF_REACH) as caught:
        cdl.loads(text)
    assert (caught.value.line, caught.value.column) == (3, 31)


def test_a_type_may_belong_to_any_group(tmp_path):
    text = (
        "netcdf d { group: g { types: byte enum e {a = 1}; } group: h { variables: /g/e v; data: v = a; } }"
    )
    for name in ("a.zarr", "a.nc"):
        nczarr.copy(cdl.loads(text), tmp_path / name)
        with nczarr.Dataset(tmp_path / name) as ds:
            assert ds["/h/v"][...] == 1
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert file["/h/v"][...] == 1


def test_a_name_that_begins_alike_is_another_group():
    assert check_reach("/ab", "/a/x") is not None
    assert check_reach(r"/a\/b", "/a/x") is not None
    assert check_reach(r"/a\\/b", r"/a\\/x") is None
    assert check_reach("/a/b", "/x") is None


# --- reading


@pytest.mark.filterwarnings("ignore:.*out of reach")
@pytest.mark.parametrize("source", ["store", "file"])
def test_a_variable_with_a_dimension_out_of_reach_is_read_with_a_dimension_of_its_own(source, request):
    path = request.getfixturevalue(source)
    with pytest.warns(UserWarning, match=OUT_OF_REACH):
        ds = nczarr.Dataset(path)
    with ds:
        assert ds["top"][:].tolist() == [1, 2, 3]
        assert ds["top"].get_dims()[0].group().path == "/"
        assert "gx" not in ds["top"].dimensions
    with xr.open_dataset(path, engine="nczarr") as opened:
        assert opened.top.values.tolist() == [1, 2, 3]
    with open_source(path) as dataset:
        again = cdl.loads(cdl.dumps(dataset))
    assert again.shape_of(again.variable_at("/top")) == (3,)


def test_check_finds_a_dimension_out_of_reach(store, capsys):
    found = [f for f in check(store) if f.severity == "error"]
    assert [(f.code, f.where) for f in found] == [("dimension-unreachable", "/top")]
    assert main(["check", store]) == 1
    assert OUT_OF_REACH in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:.*out of reach")
@pytest.mark.parametrize("source", ["store", "file"])
@pytest.mark.parametrize("target", ["t.nc", "t.zarr", "t.zarr.zip", "t.cdl"])
def test_a_copy_names_the_variable_whose_reference_it_would_lose(source, target, tmp_path, request):
    path = request.getfixturevalue(source)
    for options in ({}, {"variables": ["top"]}, {"only": ["/top"]}):
        with pytest.raises(LossError, match=f"/top: {OUT_OF_REACH}"):
            nczarr.copy(path, tmp_path / target, **options)
        assert not (tmp_path / target).exists()
    losses = nczarr.copy(path, tmp_path / target, lossy=True)
    assert losses[0].startswith(f"/top: {OUT_OF_REACH}")
    with open_source(tmp_path / target) as dataset:
        assert dataset.variable_at("/top").data.read((slice(0, 3),)).tolist() == [1, 2, 3]


@pytest.mark.filterwarnings("ignore:.*out of reach")
def test_other_variables_are_copied_without_a_word(store, tmp_path):
    assert nczarr.copy(store, tmp_path / "t.nc", only=["other"]) == ()

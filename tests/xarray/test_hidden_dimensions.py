"""A group with a variable along ``/x``, and a dimension ``x`` of its own: xarray sees two dimensions."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import nczarr
from nczarr.convert import open_source
from nczarr.model import INT, Dataset, Dimension, Group, MemorySource, Variable


def dataset_of(*local: str, root: bool = False) -> Dataset:
    """A group with /g/v along /x, of five elements, and variables along its own x, of three."""

    def variable(name: str, ref: str, size: int) -> Variable:
        return Variable(name, INT, (ref,), data=MemorySource(np.arange(size, dtype="i4")))

    inside = (variable("v", "/x", 5), *(variable(name, "/g/x", 3) for name in local))
    group = Group("g", dimensions=(Dimension("x", 3),), variables=inside)
    above = (variable("x", "/x", 5),) if root else ()
    return Dataset("d", dimensions=(Dimension("x", 5),), variables=above, groups=(group,))


@pytest.mark.parametrize("local", [(), ("w",), ("x",), ("w", "x")])
@pytest.mark.parametrize("name", ["a.zarr", "a.zarr.zip", "a.nc"])
def test_a_group_with_a_hidden_dimension_opens_as_with_the_engine_zarr(local, name, tmp_path: Path):
    dataset = dataset_of(*local)
    nczarr.copy(dataset, tmp_path / "peer.zarr")
    nczarr.copy(dataset, tmp_path / name)
    with (
        xr.open_dataset(tmp_path / "peer.zarr", engine="zarr", group="g", consolidated=False) as peer,
        xr.open_dataset(tmp_path / name, engine="nczarr", group="g") as ours,
    ):
        assert dict(ours.sizes) == dict(peer.sizes)
        assert ours.v.dims == ("x_hidden1",)
        xr.testing.assert_equal(ours.load(), peer.load())
    with xr.open_datatree(tmp_path / name, engine="nczarr") as tree:
        assert tree["g/v"].values.tolist() == [0, 1, 2, 3, 4]
    groups = xr.open_groups(tmp_path / name, engine="nczarr")
    assert groups["/g"].v.sizes == {"x_hidden1": 5}
    for one in groups.values():
        one.close()


def test_the_engine_netcdf4_cuts_the_variable(tmp_path):
    nczarr.copy(dataset_of("w"), tmp_path / "a.nc")
    with xr.open_dataset(tmp_path / "a.nc", engine="netcdf4", group="g") as peer:
        assert peer.sizes == {"x": 3}  # of v, two elements are missing


@pytest.mark.parametrize("chunks", [None, {}])
def test_a_tree_with_a_hidden_dimension_is_written_as_it_was(chunks, tmp_path):
    nczarr.copy(dataset_of("w"), tmp_path / "a.zarr")
    with xr.open_datatree(tmp_path / "a.zarr", engine="nczarr", chunks=chunks) as tree:
        tree.nczarr.to_zarr(tmp_path / "b.zarr")
        tree.nczarr.to_netcdf(tmp_path / "b.nc")
    for name in ("b.zarr", "b.nc"):
        with open_source(tmp_path / name) as dataset:
            assert dataset.variable_at("/g/v").dimensions == ("/x",)
            assert dataset.variable_at("/g/w").dimensions == ("/g/x",)


def test_a_tree_that_xarray_cannot_align_is_refused_by_xarray_with_every_engine(tmp_path):
    nczarr.copy(dataset_of("w", root=True), tmp_path / "a.zarr")
    for engine in ("zarr", "nczarr"):
        options = {"consolidated": False} if engine == "zarr" else {}
        with pytest.raises(ValueError, match="not aligned with its parents"):
            xr.open_datatree(tmp_path / "a.zarr", engine=engine, **options)
        with xr.open_dataset(tmp_path / "a.zarr", engine=engine, group="g", **options) as ds:
            assert ds.sizes == {"x": 3, "x_hidden1": 5}

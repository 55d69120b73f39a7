"""Copy sources through a function of the user."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr

import nczarr
from nczarr.cli import main
from nczarr.convert.endpoints import xarray_kind
from nczarr.errors import NCZarrError, UnsupportedError
from nczarr.model import Attribute, Dataset, Dimension, MemorySource, Variable
from nczarr.model.types import DOUBLE, INT

MODULE = """
from dataclasses import replace
from nczarr.model import Attribute

def titled(dataset):
    return replace(dataset, attributes=(*dataset.attributes, Attribute.of("title", "from a function")))
"""


def day(number: int) -> Dataset:
    t = Variable("t", INT, ("/t",), data=MemorySource(np.array([number], "i4")))
    v = Variable("v", DOUBLE, ("/t",), data=MemorySource(np.array([number / 2])))
    return Dataset("d", dimensions=(Dimension("t", 1, unlimited=True),), variables=(t, v))


@pytest.fixture
def days(tmp_path: Path) -> list[str]:
    paths = [str(tmp_path / f"{number}.nc") for number in range(4)]
    for number, path in enumerate(paths):
        nczarr.copy(day(number), path)
    return paths


class Halved:
    """Values of another array, halved when they are read."""

    def __init__(self, data: MemorySource) -> None:
        self.data, self.shape, self.dtype = data, data.shape, data.dtype

    def read(self, region: tuple[slice, ...], out: np.ndarray | None = None) -> np.ndarray:
        values = self.data.read(region) / 2
        if out is not None:
            out[...] = values
        return values


def halved(dataset: Dataset) -> Dataset:
    changed = tuple(v.with_data(Halved(v.data)) if v.name == "v" else v for v in dataset.variables)
    return replace(dataset, variables=changed)


def test_lazy_values_of_each_source_are_changed(days: list[str], tmp_path: Path) -> None:
    nczarr.copy(days[3], tmp_path / "one.zarr", preprocess=halved)
    nczarr.join(days, tmp_path / "all.zarr", along="t", preprocess=halved)
    nczarr.join(days[:2], tmp_path / "grown.zarr", along="t", preprocess=halved)
    nczarr.append(days[2:], tmp_path / "grown.zarr", preprocess=halved)
    with nczarr.Dataset(tmp_path / "one.zarr") as one:
        assert one["v"][:].tolist() == [0.75]
    for name in ("all", "grown"):
        with nczarr.Dataset(tmp_path / f"{name}.zarr") as joined:
            assert joined["v"][:].tolist() == [0, 0.25, 0.5, 0.75]
            assert joined["t"][:].tolist() == [0, 1, 2, 3]


def test_the_function_of_a_command(days: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nczarr_test_hooks.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    words = ["--along", "t", "--preprocess", "nczarr_test_hooks:titled", "--resume"]
    assert main(["join", *days, "all.zarr", *words]) == 0
    assert main(["join", *days, "all.zarr", *words]) == 0  # complete
    assert main(["join", *days, "all.zarr", *words[:2], "--resume"]) == 1  # not a copy without the function
    with nczarr.Dataset("all.zarr") as joined:
        assert joined.title == "from a function"


@pytest.mark.parametrize(
    ("hook", "message"),
    [
        ("nczarr.model", "MODULE:FUNCTION"),
        ("no_such_module:f", "no_such_module"),
        ("nczarr.model:nothing", "nothing"),
        ("nczarr.model:__all__", "no function"),
        (lambda dataset: None, "returned NoneType"),
        (lambda dataset: replace(dataset, attributes=(Attribute.of("", 1),)), "name"),
    ],
)
def test_what_is_no_function_is_refused(
    days: list[str], tmp_path: Path, hook: str | Callable[[Dataset], Dataset], message: str
) -> None:
    with pytest.raises(NCZarrError, match=re.escape(message)):
        nczarr.join(days, tmp_path / "a.zarr", along="t", preprocess=hook)
    assert not (tmp_path / "a.zarr").exists()


def test_references_hold_no_changed_values(days: list[str], tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="preprocess="):
        nczarr.join(days, tmp_path / "a.json", along="t", virtual=True, preprocess=halved)


@pytest.fixture
def packed_days(tmp_path: Path) -> list[str]:
    paths = [str(tmp_path / f"packed{number}.nc") for number in range(3)]
    for number, path in enumerate(paths):
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("time")
            file.createDimension("lat", 3)
            time = file.createVariable("time", "i4", ("time",))
            time.units = f"days since 2001-01-0{number + 1}"
            time[:] = [0]
            file.createVariable("lat", "f4", ("lat",))[:] = [10, 20, 30]
            v = file.createVariable("v", "i2", ("time", "lat"), fill_value=-1, chunksizes=(1, 3))
            v.scale_factor, v.add_offset = 0.5, 10.0
            v[:] = np.ma.masked_equal([[11, 12.5, number]], 0)
    return paths


def northern(ds: xr.Dataset) -> xr.Dataset:
    """Rename, reverse, select, and compute with decoded values."""
    ds = ds.rename(v="temp").isel(lat=slice(None, 0, -1))
    return ds.assign(twice=ds.temp * 2).assign_attrs(title="fixed")


def of_member(ds: xr.Dataset) -> xr.Dataset:
    first = int(ds.time.dt.day[0])
    return ds.isel(time=0, drop=True).expand_dims(member=[first])


@pytest.mark.parametrize(("hook", "along"), [(northern, "time"), (of_member, "member")])
@pytest.mark.parametrize("threads", [0, 1])
def test_a_function_of_xarray_does_what_xarray_does(
    packed_days: list[str], tmp_path: Path, hook: Any, along: str, threads: int
) -> None:
    with ExitStack() as stack:
        executor = stack.enter_context(ThreadPoolExecutor(1)) if threads else None
        nczarr.join(
            packed_days, tmp_path / "a.zarr", along=along, preprocess=hook, executor=executor, verify=True
        )
        options: dict[str, Any] = {"combine": "nested", "concat_dim": along, "data_vars": "all"}
        wanted = stack.enter_context(xr.open_mfdataset(packed_days, preprocess=hook, **options))
        found = stack.enter_context(xr.open_dataset(tmp_path / "a.zarr", engine="nczarr"))
        xr.testing.assert_equal(found.load(), wanted.load())
        assert found.attrs == wanted.attrs
    name = "temp" if hook is northern else "v"
    with nczarr.Dataset(tmp_path / "a.zarr") as joined:  # stored as in the files, not as decoded
        joined.set_auto_maskandscale(False)
        assert joined[name].dtype == "i2"
        assert joined[name].scale_factor == 0.5
        assert (joined[name][:] == -1).sum() == 1


def test_values_are_read_when_they_are_copied(tmp_path: Path) -> None:
    class Unread:
        shape, dtype = (4,), np.dtype("f8")

        def read(self, region: object, out: object = None) -> np.ndarray:
            raise AssertionError("values were read")

    v = Variable("v", DOUBLE, ("/x",), data=Unread())
    source = Dataset("d", dimensions=(Dimension("x", 4),), variables=(v,))

    def renamed(ds: xr.Dataset) -> xr.Dataset:
        return ds.rename(v="w").isel(x=slice(1, 3))

    lines = nczarr.copy(source, tmp_path / "a.zarr", preprocess=renamed, dry_run=True)
    assert lines[0].startswith("/w: double 2,")


def test_groups_are_a_tree(tmp_path: Path) -> None:
    def lost(ds: xr.Dataset) -> xr.Dataset:
        return ds

    def kept(tree: xr.DataTree) -> xr.DataTree:
        return tree.assign(new=xr.Variable("x", [1, 2]))

    source = Path(__file__).parents[1] / "data" / "example.nc"
    with pytest.raises(NCZarrError, match=r"has no groups.*xarray.DataTree"):
        nczarr.copy(source, tmp_path / "a.zarr", preprocess=lost)
    nczarr.copy(source, tmp_path / "a.zarr", preprocess=kept)
    with nczarr.Dataset(tmp_path / "a.zarr") as found:
        assert found["new"][:].tolist() == [1, 2]
    digests = dict(nczarr.digest(tmp_path / "a.zarr").variables)
    del digests["/new"]
    assert digests == nczarr.digest(source).variables


def test_results_that_xarray_cannot_encode_are_refused(packed_days: list[str], tmp_path: Path) -> None:
    def odd(ds: xr.Dataset) -> xr.Dataset:
        return ds.assign(odd=("lat", [1, "two", None]))

    with pytest.raises(NCZarrError, match=r"packed0\.nc"):
        nczarr.join(packed_days, tmp_path / "a.zarr", preprocess=odd)
    assert not (tmp_path / "a.zarr").exists()


def test_the_annotation_tells_what_a_function_takes() -> None:
    names: dict[str, Any] = {}
    exec(
        "def f(ds: 'xr.Dataset'): ...\ndef g(tree: 'xarray.DataTree'): ...\ndef h(ds: 'Dataset'): ...", names
    )
    assert [xarray_kind(names[name]) for name in "fgh"] == ["Dataset", "DataTree", ""]
    assert xarray_kind(northern) == xarray_kind(partial(northern)) == "Dataset"
    assert xarray_kind(halved) == xarray_kind(lambda ds: ds) == xarray_kind(len) == ""


def test_a_command_names_a_function_of_xarray(
    packed_days: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import xarray as xr\ndef f(ds: xr.Dataset): return ds.assign_attrs(title='f')\ndef g(ds): return f(ds)\n"
    (tmp_path / "nczarr_xarray_hooks.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    words = ["join", *packed_days, "all.zarr", "--along", "time", "--resume", "--preprocess"]
    for _ in range(2):
        assert main([*words, "nczarr_xarray_hooks:f"]) == 0
    assert main(["join", *packed_days, "all.zarr", "--along", "time", "--resume"]) == 1
    with nczarr.Dataset("all.zarr") as joined:
        assert joined.title == "f"
        assert joined["time"][:].tolist() == [0, 1, 2]

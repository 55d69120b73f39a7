"""Test that values that cannot be stored are refused at the call, and nothing else is lost."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import nczarr.netcdf4 as ours
from nczarr.errors import NCZarrError

_NAMES = [
    " a",
    "a ",
    "-a",
    ".a",
    "@a",
    "(a",
    "1a",
    "_a",
    "a b",
    "a/b",
    "é",
    "a-b",
    "",
    "a\x7f",
    "x" * 256,
    "x" * 257,
]
_MODELS = ["NETCDF4", "NETCDF4_CLASSIC", "NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"]


_MAKE: dict[str, Callable[[Any, str], Any]] = {
    "attribute": lambda ds, name: ds.setncattr(name, 1),
    "dimension": lambda ds, name: len(ds.createDimension(name, 1)),
    "variable": lambda ds, name: ds.createVariable(name, "i4", ()).name,
    "group": lambda ds, name: ds.createGroup(name).name,
    "type": lambda ds, name: ds.createVLType("i4", name).name,
    "attribute of a variable": lambda ds, name: ds.createVariable(f"v{len(ds.variables)}", "i4").setncattr(
        name, 1
    ),
}


@pytest.mark.parametrize("name", [1, None, 1.5, ["a"]], ids=str)
def test_names_are_text(name: Any, same: Callable[[Any], None]) -> None:
    def script(library: Any, path: str, log: Any) -> None:
        with library.Dataset(path, "w") as ds:
            ds.createDimension("x", 2)
            v = ds.createVariable("v", "i4", ("x",))
            log.attempt(lambda: ds.createDimension(name, 3).name)
            log.attempt(lambda: ds.createVLType("i4", name).name)
            log.attempt(lambda: ds.renameDimension("x", name))
            log.attempt(lambda: ds.renameVariable("v", name))
            for owner in (ds, v):
                log.attempt(lambda owner=owner: owner.getncattr(name))
                log.attempt(lambda owner=owner: owner.setncattr(name, 1))
                log.attempt(lambda owner=owner: owner.delncattr(name))
            log.attempt(lambda: ds.createVLType("bogus", "n").name)
            log.attempt(lambda: ds.createVariable("w", "i4", ("x",), chunksizes=("a",)).name)

    same(script)


@pytest.mark.parametrize(
    ("format", "kind"),
    [("NETCDF4", kind) for kind in _MAKE]
    + [("NETCDF3_CLASSIC", kind) for kind in _MAKE if kind not in ("group", "type")],
)
def test_names_are_those_of_netcdf(format: str, kind: str, same: Callable[[Any], None]) -> None:
    """A blank in front went into the file, which ncdump then refused."""

    def script(library: Any, path: str, log: Any) -> None:
        with library.Dataset(path, "w", format=format) as ds:
            for name in _NAMES:
                if kind != "group" or "/" not in name:  # a path of groups
                    log.attempt(lambda name=name: _MAKE[kind](ds, name))

    same(script)


@pytest.mark.parametrize("name", [" a", "a ", "-a", "a/b", ""])
def test_new_names_are_those_of_netcdf(name: str, same: Callable[[Any], None]) -> None:
    def script(library: Any, path: str, log: Any) -> None:
        with library.Dataset(path, "w") as ds:
            ds.setncattr("x", 1)
            ds.createDimension("y", 1)
            ds.createVariable("z", "i4")
            log.attempt(lambda: ds.renameAttribute("x", name))
            log.attempt(lambda: ds.renameDimension("y", name))
            log.attempt(lambda: ds.renameVariable("z", name))

    same(script)


def test_an_attribute_that_another_program_gave_an_odd_name_can_be_changed(tmp_path: Path) -> None:
    folder = tmp_path / "a.zarr"
    folder.mkdir()
    document = {"zarr_format": 3, "node_type": "group", "attributes": {"@context": "one", "-x": 1}}
    (folder / "zarr.json").write_text(json.dumps(document))
    with ours.Dataset(folder, "a") as ds:
        ds.setncattr("@context", "two")
        ds.renameAttribute("-x", "x")
        with pytest.raises(AttributeError, match="begins with '@'"):
            ds.setncattr("@type", "new")
    with ours.Dataset(folder) as ds:
        assert ds.ncattrs() == ["@context", "x"]
        assert ds.getncattr("@context") == "two"


def test_a_string_with_a_nul_is_refused_by_netcdf_files(tmp_path: Path) -> None:
    """It was refused when the dataset was closed, and the values of all variables were gone."""
    with ours.Dataset(tmp_path / "a.nc", "w") as ds:
        ds.createDimension("x", 3)
        ds.createVariable("v", "i4", ("x",))[:] = [1, 2, 3]
        s = ds.createVariable("s", str, ("x",))
        for value in ("a\0b", b"a\0b"):
            with pytest.raises(ValueError, match="NUL inside"):
                s[0] = value
        with pytest.raises(ValueError, match="NUL inside"):
            s[:] = np.array(["a", "b", "a\0b"], object)
        with pytest.raises(ValueError, match="NUL inside"):
            ds.setncattr_string("a", "a\0b")
        s[1] = "b"
        ds.b = "a\0b"  # characters, which may be NUL
    with ours.Dataset(tmp_path / "a.nc") as ds:
        assert ds["v"][:].tolist() == [1, 2, 3]
        assert ds["s"][:].tolist() == ["", "b", ""]
        assert ds.ncattrs() == ["b"]


@pytest.mark.parametrize("format", _MODELS)
def test_unsigned_attributes_of_classic_models(format: str, same: Callable[[Any], None]) -> None:
    """A netCDF file with one could not be closed, and lost what was written."""

    def script(library: Any, path: str, log: Any) -> None:
        with library.Dataset(path, "w", format=format) as ds:
            v = ds.createVariable("v", "i4", ())
            v[...] = 5
            for type_ in ("u1", "u2", "u4", "u8", "i8", "i1"):
                log.attempt(lambda t=type_: ds.setncattr(t, np.array([1, 2], t)))
                log.attempt(lambda t=type_: v.setncattr(t, np.array(3, t)))
        with library.Dataset(path) as ds:
            log(ds["v"][...], ds.__dict__, ds["v"].__dict__)

    same(script)


@pytest.mark.parametrize("name", ["a.nc", "a.zarr"])
@pytest.mark.parametrize("value", [2**31, -(2**40), [1, 2**63 - 1], np.array([2**40])])
def test_integers_too_large_for_a_classic_model_are_refused(value: Any, name: str, tmp_path: Path) -> None:
    """netCDF4-python stores other numbers."""
    with ours.Dataset(tmp_path / name, "w", format="NETCDF4_CLASSIC") as ds:
        with pytest.raises(OverflowError, match="does not fit into an int") as error:
            ds.a = value
        assert isinstance(error.value, NCZarrError)
        ds.b = [-(2**31), 2**31 - 1]
        assert ds.ncattrs() == ["b"]
        assert ds.b.dtype == "i4"


@pytest.mark.parametrize("name", ["a.nc", "a.zarr"])
@pytest.mark.parametrize(
    ("value", "error"),
    [
        ([1, 2], AttributeError),
        (np.zeros(0), AttributeError),
        ([[1]], AttributeError),
        (1j, TypeError),
        ({}, TypeError),
    ],
)
def test_a_fill_value_is_one_value(name: str, value: Any, error: type[Exception], tmp_path: Path) -> None:
    """The first of several was taken, and none made an attribute without values."""
    with ours.Dataset(tmp_path / name, "w") as ds:
        with pytest.raises(error) as raised:
            ds.createVariable("v", "i2", (), fill_value=value)
        assert isinstance(raised.value, NCZarrError)
        assert ds.createVariable("v", "i2", (), fill_value=np.array([7])).getncattr("_FillValue") == 7


@pytest.mark.parametrize("name", ["valid_min", "valid_max"])
def test_limits_of_several_values(name: str, same: Callable[[Any], None]) -> None:
    """Those that do not fit the values were an error of numpy's."""

    def script(library: Any, path: str, log: Any) -> None:
        with library.Dataset(path, "w") as ds:
            ds.createDimension("x", 3)
            for limits in ([1, 2, 3], [1, 2], [], [2]):
                v = ds.createVariable(f"v{len(limits)}", "i4", ("x",))
                v.setncattr(name, np.array(limits, "i4"))
                v[:] = [2, 2, 2]
                for index in (slice(None), slice(1, None), 0):
                    log.attempt(lambda v=v, index=index: v[index])

    same(script)


@pytest.mark.parametrize("name", ["a.nc", "a.zarr"])
def test_characters_are_not_packed(name: str, tmp_path: Path) -> None:
    """With scale_factor they could be neither read nor written; netCDF4-python fails, too."""
    with ours.Dataset(tmp_path / name, "w") as ds:
        ds.createDimension("x", 3)
        v = ds.createVariable("v", "S1", ("x",))
        v.setncatts({"scale_factor": 2.0, "add_offset": 1.0})
        v[:] = np.array([b"a", b"b", b"c"])
        assert v[:].tolist() == [b"a", b"b", b"c"]


def test_nothing_writes_nothing(same: Callable[[Any], None]) -> None:
    def script(library: Any, path: str, log: Any) -> None:
        with library.Dataset(path, "w") as ds:
            ds.createDimension("x", 3)
            ds.createDimension("t", None)
            for dimension in ("x", "t"):
                v = ds.createVariable(dimension * 2, "i4", (dimension,))
                v[0:2] = 1
                for index in (slice(0, 2), [0, 2], slice(1, 2), 1):
                    log.assign(v, index, np.zeros(0))

    same(script)


@pytest.mark.parametrize("name", ["a.nc", "a.zarr"])
def test_one_element_takes_one_value(name: str, tmp_path: Path) -> None:
    """netCDF4-python keeps the last of several."""
    with ours.Dataset(tmp_path / name, "w") as ds:
        ds.createDimension("x", 3)
        v = ds.createVariable("v", "i4", ("x",))
        v[:] = 0
        with pytest.raises(IndexError, match="does not conform"):
            v[1] = [7, 8]
        assert v[:].tolist() == [0, 0, 0]


@pytest.mark.filterwarnings("ignore:endian-ness")
def test_scalars_are_in_native_byte_order(same: Callable[[Any], None]) -> None:
    def script(library: Any, path: str, log: Any) -> None:
        with library.Dataset(path, "w") as ds:
            ds.createVariable("v", "f8", (), endian="big")[...] = 1
            ds.createVariable("w", "f8", (), chunksizes=(), contiguous=True)[...] = 2
        with library.Dataset(path) as ds:
            ds.set_auto_mask(False)
            log(ds["v"].dtype, ds["v"].endian(), ds["v"][...], ds["w"][...])

    same(script)


def test_a_fill_value_without_values_is_none(tmp_path: Path) -> None:
    """Files of other libraries have such: reading was an error of numpy's."""
    with h5py.File(tmp_path / "a.nc", "w") as file:
        made = file.create_dataset("v", data=np.array([1.0, 2.0]))
        made.attrs["_FillValue"] = np.zeros(0)
    with ours.Dataset(tmp_path / "a.nc") as ds:
        assert ds["v"][:].tolist() == [1, 2]


def test_positions_in_any_order_beside_a_slice_backwards(tmp_path: Path) -> None:
    with ours.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("x", 3)
        ds.createDimension("y", 4)
        v = ds.createVariable("v", "i4", ("x", "y"))
        v[:] = 0
        v[::-1, [2, 0]] = [[1, 2], [3, 4], [5, 6]]
        assert v[:].tolist() == [[6, 0, 5, 0], [4, 0, 3, 0], [2, 0, 1, 0]]


@pytest.mark.parametrize(
    ("name", "format"),
    [("a.nc", "NETCDF4"), ("a.nc", "NETCDF3_CLASSIC"), ("a.zarr", "NETCDF4"), ("a.zarr.zip", "NETCDF4")],
)
def test_closing_ends_it_even_if_it_fails(
    name: str, format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock and the file are let go of, and what was there stays."""
    path = tmp_path / name
    with ours.Dataset(path, "w", format=format) as ds:
        ds.createDimension("x", 3)
        ds.createVariable("v", "i4", ("x",))[:] = [1, 2, 3]
    ds = ours.Dataset(path, "a")

    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ds._nc_session.stored, "update", full)
    ds.createVariable("w", "i4", ("x",))[:] = 1
    for step in (ds.sync, ds.close):
        with pytest.raises(OSError, match="No space"):
            step()
    assert not ds.isopen()
    with pytest.raises(RuntimeError, match="closed"):
        ds.close()
    with ours.Dataset(path, "a") as again:  # nobody has the lock
        assert list(again.variables) == ["v"]
        again["v"][0] = 7
        assert again["v"][:].tolist() == [7, 2, 3]

"""Compare nc3tonc4 and nc4tonc3 with netCDF4-python's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import netCDF4
import netCDF4.utils
import numpy as np
import pytest

import nczarr.netcdf4 as ours
from nczarr.netcdf4 import utils


def make(path: Path, data_model: str) -> str:
    """Records of all types of the classic models, packed and plain."""
    rng = np.random.default_rng(7)
    with netCDF4.Dataset(path, "w", format=data_model) as ds:
        ds.title, ds.number = "Übersicht", np.int16(3)
        ds.createDimension("t", None)
        ds.createDimension("x", 3)
        ds.createDimension("c", 4)
        ds.createVariable("t", "f8", ("t",))[:] = np.arange(25) / 3
        packed = [("both", np.float32(0.1), np.float32(10)), ("only_scale", 0.1, None), ("whole", 2, 3)]
        for name, scale, offset in packed:
            v = ds.createVariable(name, "i2", ("t", "x"), fill_value=-999)
            v.scale_factor = scale
            if offset is not None:
                v.add_offset = offset
            v.long_name = name
            v.set_auto_maskandscale(False)
            v[:20] = rng.integers(-50, 50, (20, 3))
            v[3] = -999
        v = ds.createVariable("missing", "f4", ("t",))
        v.missing_value = np.float32(-1)
        v[:] = rng.random(25) * 100
        ds.createVariable("fixed", "f8", ("x",), fill_value=1e20)[:] = [1.5, 1e20, 3]
        ds.createVariable("scalar", "i4", ())[...] = 7
        v = ds.createVariable("text", "S1", ("x", "c"), fill_value="-")
        v[:2] = np.array([list("abcd"), list("ef--")], "S1")
        ds.createVariable("empty", "i1", ("t",))
    return str(path)


def content(path: str) -> list[Any]:
    """All that netCDF-C sees, as it is stored."""
    with netCDF4.Dataset(path) as ds:
        ds.set_auto_maskandscale(False)
        ds.set_auto_chartostring(False)
        found: list[Any] = [ds.data_model, ds.__dict__]
        found += [(d.name, len(d), d.isunlimited()) for d in ds.dimensions.values()]
        for v in ds.variables.values():
            attributes = {name: (np.asarray(value).dtype, value) for name, value in v.__dict__.items()}
            found.append((v.name, v.dtype, v.dimensions, v.filters(), attributes, v[...].tolist()))
    return [str(part) for part in found]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"unpackshort": False, "zlib": False, "classic": 1, "nchunk": 0},
        {"vars": ["missing"], "istart": 3, "istop": 9, "lsd_dict": {"missing": 1}, "nchunk": 4},
        {"complevel": 1, "shuffle": False, "fletcher32": True, "istart": 24, "nchunk": 1000},
    ],
    ids=repr,
)
@pytest.mark.parametrize("data_model", ["NETCDF3_CLASSIC", "NETCDF4_CLASSIC"])
def test_to_netcdf4_as_netcdf4_python_does(data_model: str, options: dict[str, Any], tmp_path: Path) -> None:
    source = make(tmp_path / "source.nc", data_model)
    theirs, mine = str(tmp_path / "theirs.nc"), str(tmp_path / "mine.nc")
    netCDF4.utils._nc3tonc4(source, theirs, quiet=True, **options)
    chosen = list(options["vars"]) if "vars" in options else None
    utils._nc3tonc4(source, mine, quiet=True, **(options | {"vars": chosen}))
    assert content(mine) == content(theirs)


@pytest.mark.parametrize("options", [{}, {"format": "NETCDF3_CLASSIC", "nchunk": 0}], ids=repr)
def test_to_netcdf3_as_netcdf4_python_does(options: dict[str, Any], tmp_path: Path) -> None:
    source = make(tmp_path / "source.nc", "NETCDF4_CLASSIC")
    theirs, mine = str(tmp_path / "theirs.nc"), str(tmp_path / "mine.nc")
    netCDF4.utils._nc4tonc3(source, theirs, quiet=True, **options)
    utils._nc4tonc3(source, mine, quiet=True, **options)
    assert content(mine) == content(theirs)


@pytest.mark.parametrize("scale", [0.5, -0.5])
@pytest.mark.parametrize("unsigned", [False, True])
def test_limits_are_unpacked(scale: float, unsigned: bool, tmp_path: Path) -> None:
    """The same elements are valid before and after; netCDF4-python leaves the limits of the packed values."""
    source, target = str(tmp_path / "source.nc"), str(tmp_path / "target.nc")
    with netCDF4.Dataset(source, "w", format="NETCDF3_CLASSIC") as ds:
        ds.createDimension("x", 5)
        limits = {"valid_min": np.int16(1), "valid_max": np.int16(3), "valid_range": np.array([1, 3], "i2")}
        for name, given in (("apart", ("valid_min", "valid_max")), ("together", ("valid_range",))):
            v = ds.createVariable(name, "i2", ("x",))
            v.setncatts({"scale_factor": scale, "add_offset": 10.0} | {key: limits[key] for key in given})
            if unsigned:
                v._Unsigned = "true"
            v.set_auto_maskandscale(False)
            v[:] = np.arange(5)
    utils._nc3tonc4(source, target, quiet=True)
    with netCDF4.Dataset(source) as before, netCDF4.Dataset(target) as after:
        for name in ("apart", "together"):
            assert (
                after[name][:].tolist()
                == before[name][:].tolist()
                == [None, *np.arange(1, 4) * scale + 10, None]
            )


def test_missing_values_of_both_kinds_stay_apart(tmp_path: Path) -> None:
    """netCDF4-python makes fill values of what is missing, or the other way round."""
    source, target = str(tmp_path / "source.nc"), str(tmp_path / "target.nc")
    with netCDF4.Dataset(source, "w", format="NETCDF4_CLASSIC") as ds:
        ds.createDimension("x", 3)
        v = ds.createVariable("v", "i2", ("x",), fill_value=-9)
        v.missing_value = np.int16(-5)
        v.set_auto_mask(False)
        v[:] = [-9, -5, 1]
    utils._nc4tonc3(source, target, quiet=True)
    with netCDF4.Dataset(target) as ds:
        ds.set_auto_mask(False)
        assert ds["v"][:].tolist() == [-9, -5, 1]


def test_nothing_is_replaced_or_left_behind(tmp_path: Path) -> None:
    source = make(tmp_path / "source.nc", "NETCDF3_CLASSIC")
    target = tmp_path / "target.nc"
    target.write_bytes(b"something")
    with pytest.raises(OSError, match="the target exists"):
        utils._nc3tonc4(source, target)
    with pytest.raises(KeyError, match="there is no variable nothing"):
        utils._nc3tonc4(source, target, clobber=True, vars=["nothing"])
    with pytest.raises(OSError, match="not NETCDF4_CLASSIC"):
        utils._nc4tonc3(source, target, clobber=True)
    with pytest.raises(RuntimeError, match="complevel 99"):
        utils._nc3tonc4(source, target, clobber=True, complevel=99, quiet=True)
    assert target.read_bytes() == b"something"
    assert sorted(os.listdir(tmp_path)) == ["source.nc", "target.nc"]
    utils._nc3tonc4(source, target, clobber=True, quiet=True)
    with netCDF4.Dataset(target) as ds:
        assert ds.data_model == "NETCDF4"


@pytest.mark.parametrize("inside", ["group", "type", "dimension"])
def test_what_the_classic_models_do_not_know_is_refused(inside: str, tmp_path: Path) -> None:
    source = str(tmp_path / "source.nc")
    with netCDF4.Dataset(source, "w") as ds:
        ds.createDimension("t", None)
        if inside == "group":
            ds.createGroup("g")
        elif inside == "type":
            ds.createVLType("i4", "many")
        else:
            ds.createDimension("u", None)
    with pytest.raises(OSError, match="nczarr copy takes all"):
        utils._nc3tonc4(source, tmp_path / "target.nc", quiet=True)
    assert os.listdir(tmp_path) == ["source.nc"]


def test_a_name_of_zarr_gives_zarr(tmp_path: Path) -> None:
    source = make(tmp_path / "source.nc", "NETCDF4_CLASSIC")
    utils._nc4tonc3(source, tmp_path / "target.zarr", quiet=True)
    with ours.Dataset(tmp_path / "target.zarr") as ds:
        assert (ds.data_model, ds["scalar"][...]) == ("NETCDF3_64BIT_OFFSET", 7)


@pytest.mark.parametrize("command", ["ncinfo", "nc3tonc4", "nc4tonc3"])
def test_help_and_errors_go_to_one_place(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, code in ((["--help"], 0), ([], 2), (["--chunk"], 2)):
        with pytest.raises(SystemExit) as error:
            getattr(utils, command)(arguments)
        said = capsys.readouterr()
        assert error.value.code == code
        assert f"usage: {command}" in said.err
        assert not said.out


def test_options_of_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = make(tmp_path / "source.nc", "NETCDF3_CLASSIC")
    target, back = str(tmp_path / "target.nc"), str(tmp_path / "back.nc")
    given = ["--vars=both,fixed", "--zlib=0", "--fletcher32=1", "--unpackshort=0", "--istop=5", "--chunk=0"]
    utils.nc3tonc4([*given, source, target])
    assert capsys.readouterr().out == "both: 15 values\nfixed: 3 values\nt: 5 values\n"
    with netCDF4.Dataset(target) as ds:
        assert list(ds.variables) == ["both", "fixed", "t"]
        assert ds["both"].dtype == "i2"
        assert ds["both"].filters()["fletcher32"]
    utils.nc3tonc4(["-o", "--quantize=t=1, missing=-1", "--quiet=1", source, target])
    assert capsys.readouterr().out == ""
    with netCDF4.Dataset(target) as ds:
        assert ds["t"].least_significant_digit == 1
        assert ds["missing"].least_significant_digit == -1
    utils.nc4tonc3(["--format=NETCDF3_CLASSIC", target, back])
    with netCDF4.Dataset(back) as ds:
        assert ds.data_model == "NETCDF3_CLASSIC"
    with pytest.raises(SystemExit):
        utils.nc3tonc4(["--quantize=t", source, target])

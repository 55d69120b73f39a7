"""Test names that are too long for netCDF's library: new ones are refused, stored ones are reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest

import nczarr
from nczarr import cdl
from nczarr.cli import main
from nczarr.convert.verify.check import check
from nczarr.errors import CDLError, UnsupportedError
from nczarr.mapping import check_metadata, create_dataset
from nczarr.model import (
    BYTE,
    INT,
    Attribute,
    CompoundType,
    Dataset,
    Dimension,
    EnumType,
    Field,
    Group,
    Variable,
)

LONG = "é" * 128 + "x"
#: netCDF-C itself misreads names of 256 bytes, which it accepts.
MOST = "é" * 127 + "x"
LONG_MODELS = {
    "dimension": Dataset("d", dimensions=(Dimension(LONG, 1),)),
    "variable": Dataset("d", variables=(Variable(LONG, INT),)),
    "group": Dataset("d", groups=(Group(LONG),)),
    "attribute": Dataset("d", attributes=(Attribute.of(LONG, 1),)),
    "attribute of a variable": Dataset(
        "d", variables=(Variable("v", INT, attributes=(Attribute.of(LONG, 1),)),)
    ),
    "type": Dataset("d", types=(EnumType(f"/{LONG}", BYTE, (("a", 1),)),)),
    "member": Dataset("d", types=(EnumType("/e", BYTE, ((LONG, 1),)),)),
    "field": Dataset("d", types=(CompoundType("/c", (Field(LONG, INT),)),)),
}


@pytest.mark.parametrize("model", LONG_MODELS.values(), ids=list(LONG_MODELS))
def test_no_netcdf_file_is_made_of_them(tmp_path: Path, model: Dataset) -> None:
    create_dataset(tmp_path / "s.zarr", model).close()
    stored, found = check_metadata(tmp_path / "s.zarr")
    stored.close()
    assert [f.code for f in found] == ["name-long"]
    assert "257 bytes" in found[0].what
    for name in ("t.nc", "t.cdl"):
        with pytest.raises(UnsupportedError, match="257 bytes; the maximum is 256") as caught:
            nczarr.copy(tmp_path / "s.zarr", tmp_path / name)
        assert "rename" in str(caught.value)
        assert not (tmp_path / name).exists()
    # Zarr holds them.
    assert nczarr.copy(tmp_path / "s.zarr", tmp_path / "t.zarr", verify=True) == ()


def test_the_command_reports_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    create_dataset(tmp_path / "s.zarr", LONG_MODELS["variable"]).close()
    assert main(["check", str(tmp_path / "s.zarr")]) == 1
    assert "name-long" in capsys.readouterr().out
    assert main(["copy", "-q", str(tmp_path / "s.zarr"), str(tmp_path / "t.nc")]) == 1
    assert "the maximum is 256" in capsys.readouterr().err


def test_a_netcdf_file_of_another_program_with_one_is_reported(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.nc", "w", track_order=True) as file:
        file.create_dataset(LONG, data=np.arange(3))
    assert [(f.code, f.where) for f in check(tmp_path / "a.nc")] == [("name-long", f"/{LONG}")]


def test_a_copy_may_rename_them(tmp_path: Path) -> None:
    create_dataset(tmp_path / "s.zarr", LONG_MODELS["variable"]).close()
    nczarr.copy(tmp_path / "s.zarr", tmp_path / "t.nc", rename={f"/{LONG}": "short"})
    with netCDF4.Dataset(tmp_path / "t.nc") as ds:
        assert list(ds.variables) == ["short"]
    with pytest.raises(UnsupportedError, match="257 bytes"):
        nczarr.copy(tmp_path / "t.nc", tmp_path / "u.zarr", rename={"/short": LONG})


def test_the_longest_name_is_read_by_netcdf4(tmp_path: Path) -> None:
    model = Dataset("d", dimensions=(Dimension(MOST, 2),), variables=(Variable(MOST, INT, (f"/{MOST}",)),))
    create_dataset(tmp_path / "s.zarr", model).close()
    stored, found = check_metadata(tmp_path / "s.zarr")
    stored.close()
    assert found == ()
    nczarr.copy(tmp_path / "s.zarr", tmp_path / "t.nc")
    with netCDF4.Dataset(tmp_path / "t.nc") as ds:
        assert list(ds.variables) == list(ds.dimensions) == [MOST]


MAKERS: dict[str, Any] = {
    "dimension": lambda ds: ds.createDimension(LONG, 2),
    "variable": lambda ds: ds.createVariable(LONG, "i4"),
    "group": lambda ds: ds.createGroup(LONG),
    "attribute": lambda ds: ds.setncattr(LONG, 1),
    "enum": lambda ds: ds.createEnumType("i1", LONG, {"a": 1}),
    "vlen": lambda ds: ds.createVLType("i4", LONG),
    "compound": lambda ds: ds.createCompoundType(np.dtype([("a", "i4")]), LONG),
    "renamed variable": lambda ds: ds.renameVariable("v", LONG),
    "renamed dimension": lambda ds: ds.renameDimension("x", LONG),
    "renamed group": lambda ds: ds.renameGroup("g", LONG),
    "renamed attribute": lambda ds: ds.renameAttribute("a", LONG),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=list(MAKERS))
def test_they_are_refused_as_by_netcdf4(tmp_path: Path, make: Any) -> None:
    kinds = []
    for library, name in ((netCDF4, "a.nc"), (nczarr, "b.nc"), (nczarr, "c.zarr")):
        with library.Dataset(tmp_path / name, "w") as ds:
            ds.createDimension("x", 1)
            ds.createVariable("v", "i4")
            ds.createGroup("g")
            ds.a = 1
            with pytest.raises((RuntimeError, AttributeError)) as caught:
                make(ds)
            kinds.append(RuntimeError if isinstance(caught.value, RuntimeError) else AttributeError)
    assert len(set(kinds)) == 1, kinds


def test_cdl_text_with_one_is_refused() -> None:
    with pytest.raises(CDLError, match="the maximum is 256"):
        cdl.loads(f"netcdf d {{\ndimensions:\n\t{LONG} = 2 ;\n}}\n")

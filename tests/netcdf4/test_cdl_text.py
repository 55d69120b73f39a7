"""Test `tocdl` and `fromcdl`."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest

import nczarr.netcdf4 as ours
from nczarr.errors import CDLError

CDL = """netcdf small {
dimensions:
    t = UNLIMITED ;
    x = 2 ;
variables:
    int v(t, x) ;
        v:units = "m" ;
    string s(x) ;
    :title = "from text" ;
data:
    v = 1, 2, 3, _ ;
    s = "a", "b" ;
}
"""


def fill(ds: Any) -> None:
    ds.title = "x"
    ds.accents = "ü"
    ds.setncattr_string("text", "ascii")
    ds.createDimension("x", 3)
    ds.createDimension("t")
    ds.createVariable("x", "f4", ("x",), zlib=True, complevel=3)[:] = [1, 2.5, 3]
    w = ds.createVariable("w", "u1", ("t", "x"), fill_value=3, fletcher32=True, chunksizes=(2, 3))
    w[0] = 1
    w.flags = np.array([1, 2], "u2")
    ds.createVariable("big", "i2", ("x",), fill_value=False, endian="big")[:] = 1
    ds.createVariable("s", str, ("x",))[0] = "q"
    ds.createGroup("g").createVariable("inner", "f8", ("t",), chunksizes=(8,))[:] = [0.1]


def clean(text: str) -> str:
    """Without what only an HDF5 file has to say."""
    hidden = r"^.*:(_NCProperties|_SuperblockVersion|_IsNetcdf4) = .*\n|^.*:_Endianness = \"little\" ;\n"
    return re.sub(hidden, "", text, flags=re.MULTILINE)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.skipif(shutil.which("ncdump") is None, reason="ncdump is not installed")
@pytest.mark.parametrize("options", [{}, {"coordvars": True, "data": True}, {"data": True}], ids=str)
def test_text_is_that_of_ncdump(tmp_path: Path, options: dict[str, Any]) -> None:
    texts = []
    for library, path in ((netCDF4, str(tmp_path / "a.nc")), (ours, str(tmp_path / "a.zarr"))):
        with library.Dataset(path, "w") as ds:
            fill(ds)
        with library.Dataset(path) as ds:
            texts.append(clean(ds.tocdl(**options)))
            outfile = tmp_path / f"{library.__name__}.cdl"
            assert ds.tocdl(**options, outfile=str(outfile)) is None
            assert clean(outfile.read_text()) == texts[-1]
    assert "data:" not in texts[0] or options
    assert texts[1].split() == texts[0].split()


def test_text_of_what_was_just_made() -> None:
    with ours.Dataset({}, "w") as ds:
        ds.createDimension("x", 2)
        ds.createVariable("v", "i4", ("x",))[:] = [4, 5]
        assert " v = 4, 5 ;" in (ds.tocdl(data=True) or "")


def test_coordinates_alone() -> None:
    """netCDF4-python's text has no data then, against what its manual says."""
    with ours.Dataset({}, "w") as ds:
        ds.createDimension("x", 2)
        for name in ("x", "v"):
            ds.createVariable(name, "i4", ("x",))[:] = [4, 5]
        text = ds.tocdl(coordvars=True) or ""
    assert " x = 4, 5 ;" in text
    assert " v = " not in text


def test_from_text(tmp_path: Path) -> None:
    source = tmp_path / "small.cdl"
    source.write_text(CDL)
    with ours.Dataset.fromcdl(source) as ds:
        assert ds.filepath() == str(tmp_path / "small.zarr")
        assert ds["v"][:].tolist() == [[1, 2], [3, None]]
        assert ds["s"][:].tolist() == ["a", "b"]
        assert ds.title == "from text"
        assert ds.dimensions["t"].isunlimited()
        ds["v"][2] = 7
    with pytest.raises(FileExistsError):
        ours.Dataset.fromcdl(source)
    with ours.Dataset.fromcdl(source, tmp_path / "other.zarr", mode="r", format="NETCDF4") as ds:
        assert ds["v"].shape == (2, 2)
        with pytest.raises(AttributeError):
            ds.title = "y"


def test_bad_text(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ours.Dataset.fromcdl(tmp_path / "nothing.cdl")
    source = tmp_path / "bad.cdl"
    source.write_text("netcdf bad { dimensions: x = ; }")
    with pytest.raises(CDLError):
        ours.Dataset.fromcdl(source)
    assert not (tmp_path / "bad.zarr").exists()
    with pytest.raises(ValueError, match="illegal format"):
        ours.Dataset.fromcdl(source, format="NETCDF7")

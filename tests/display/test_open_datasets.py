"""Test the text of open datasets: names, dimensions with their marks, storage."""

from __future__ import annotations

import re
from pathlib import Path

import netCDF4
import numpy as np
import pytest

import nczarr
from nczarr.mapping import open_dataset

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    nczarr.copy(DATA / "example.nc", tmp_path / "example.zarr")
    return tmp_path / "example.zarr"


def test_everything_in_a_dataset_is_named(stored: Path) -> None:
    for target in (stored, DATA / "example.nc"):
        with nczarr.Dataset(target) as ds:
            html = ds._repr_html_()
            for name in ("time", "lat", "ocean", "temp", "quality_t", "institution", "nczarr project"):
                assert name in html
            assert 'time</bdi> <span class="nz-size">6</span><span class="nz-unlimited"' in html
            assert 'lat</bdi> <span class="nz-size">18</span></span>' in html
            assert "Group" in ds["/ocean"]._repr_html_()
            assert "lat" not in ds["/ocean"].dimensions
            assert "18" in ds.dimensions["lat"]._repr_html_()
            assert "land = 3" in ds["/ocean"].enumtypes["quality_t"]._repr_html_()


def test_a_stored_variable_shows_chunks_codecs_and_ratio(stored: Path) -> None:
    with nczarr.Dataset(stored) as ds:
        html = ds["/ocean/temp"]._repr_html_()
    files = [f for f in (stored / "ocean" / "temp").rglob("*") if f.is_file() and f.name != "zarr.json"]
    size = sum(f.stat().st_size for f in files)
    assert f"{6 * 4 * 18 * 36 * 2 / size:.1f} times smaller" in html
    assert "blosc" in html
    assert "<svg" in html


def test_nothing_is_shown_of_what_is_closed(stored: Path) -> None:
    ds = nczarr.Dataset(stored)
    variable, dimension = ds.variables["time"], ds.dimensions["time"]
    ds.close()
    assert ds._repr_html_() is None
    assert variable._repr_html_() is None
    assert dimension._repr_html_() is None


def test_what_is_new_and_not_stored_yet() -> None:
    with nczarr.Dataset({}, "w") as ds:
        ds.createDimension("x", None)
        v = ds.createVariable("v", "f4", ("x",), zlib=True)
        assert "deflate" in v._repr_html_()
        assert "∞" in v._repr_html_()
        v[:] = np.arange(5)
        assert ">5<" in ds._repr_html_()


def test_print_is_still_that_of_netcdf4_python(stored: Path) -> None:
    with nczarr.Dataset(stored) as ours, netCDF4.Dataset(DATA / "example.nc") as theirs:
        assert str(ours.variables["lat"]) == str(theirs.variables["lat"]).replace("netCDF4", "nczarr")
        assert not str(ours).startswith("<div")


def test_several_files_have_no_tree_of_one(tmp_path: Path) -> None:
    paths = []
    for i in range(2):
        paths.append(str(tmp_path / f"{i}.zarr"))
        with nczarr.Dataset(paths[-1], "w", format="NETCDF4_CLASSIC") as ds:
            ds.createDimension("t", None)
            ds.createVariable("t", "i4", ("t",))[:] = [i]
    with nczarr.MFDataset(paths) as several:
        assert not callable(several._repr_html_)


def test_shards_are_shown_beside_their_chunks(tmp_path: Path) -> None:
    with nczarr.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("x", 40)
        new = ds.createVariable("v", "f4", ("x",), chunksizes=(5,), shards=(20,))
        pages = [new._repr_html_()]
    with nczarr.Dataset(tmp_path / "a.zarr") as ds:
        pages.append(ds["v"]._repr_html_())
    with open_dataset(tmp_path / "a.zarr") as stored:
        pages += [stored.dataset.variables[0]._repr_html_(), stored.hierarchy.array("v")._repr_html_()]
    for html in pages:
        assert "<th>shards</th><td><bdi>20</bdi></td>" in html
        assert "<th>chunks</th><td><bdi>5</bdi></td>" in html


def test_coordinates_stand_apart_with_a_few_values_of_each_variable(stored: Path) -> None:
    for target in (stored, DATA / "example.nc"):
        with nczarr.Dataset(target) as ds, netCDF4.Dataset(DATA / "example.nc") as peer:
            html = ds._repr_html_()
            assert html.index("Coordinates") < html.index("Variables")
            for name in ("time", "lat", "lon"):
                assert html.index("Coordinates") < html.index(f'"nz-name">{name}</bdi> <span class="nz-type"')
            values = peer["/atmosphere/slp"][:].reshape(-1)
            shown = ds["/atmosphere"].variables._repr_html_()
            found = re.search(r'"nz-name">slp<.*?"nz-values"><bdi>([^<]*)</bdi>', shown)
            assert found is not None
            ends = [float(n) for n in found[1].replace("…", "").split(",")]
            np.testing.assert_allclose(ends, [*values[:2], values[-1]], rtol=1e-5)
            groups = (peer, peer["/ocean"], peer["/atmosphere"])
            assert f"in {sum(len(group.variables) for group in groups)} variables" in html


def test_the_groups_and_the_variables_of_a_dataset_are_shown(stored: Path) -> None:
    with nczarr.Dataset(stored) as ds:
        groups, variables = ds.groups._repr_html_(), ds["/ocean"].variables._repr_html_()
        assert "temp" in groups
        assert "institution" not in groups
        assert "temp" in variables
        assert "atmosphere" not in variables
        assert ds["/ocean"].groups._repr_html_() is None
        assert ds.dimensions._repr_html_() is None
        kept = ds.variables
    assert kept._repr_html_() is None

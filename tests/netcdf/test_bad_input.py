"""Open invalid and damaged netCDF files: the result is one clear error with the path."""

from __future__ import annotations

import random
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest
from h5py import h5d, h5s, h5t

from nczarr.errors import DatasetNotFoundError, NCZarrError, NetCDFFileError
from nczarr.netcdf import is_netcdf, open_dataset
from nczarr.netcdf.hdf5.reader import LeftOutWarning


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b"hello, this is text", "not a netCDF file"),
        (b"CDF\x03" + bytes(40), "no format number 3"),
        (b"PK\x03\x04" + bytes(40), "zip archive"),
        (b"\x0e\x03\x13\x01" + bytes(40), "HDF4"),
        (b"CDF\x01", "truncated"),
        (b"\x89HDF\r\n\x1a\n", "HDF5 cannot open"),
        (b"C", "not a netCDF file"),
    ],
)
def test_not_a_netcdf_file(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "input.nc"
    path.write_bytes(content)
    with pytest.raises(NetCDFFileError, match=reason) as caught:
        open_dataset(path)
    assert str(caught.value).startswith(str(path))


def test_two_dimensions_of_a_classic_file_with_one_name(tmp_path: Path) -> None:
    """Their variables would have either length."""
    path = tmp_path / "twice.nc"
    with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("x", 3)
        file.createDimension("y", 4)
        file.createVariable("v", "i4", ("x",))
    path.write_bytes(path.read_bytes().replace(b"\1y\0\0\0", b"\1x\0\0\0", 1))
    with pytest.raises(NetCDFFileError, match=r"twice\.nc: .*two dimensions have one name"):
        open_dataset(path)


def test_missing_files_and_directories(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError, match=r"no\.nc: there is no such file"):
        open_dataset(tmp_path / "no.nc")
    with pytest.raises(NetCDFFileError, match="directory"):
        open_dataset(tmp_path)
    assert not is_netcdf(tmp_path)
    assert not is_netcdf(tmp_path / "no.nc")


def test_a_dataset_without_a_shape(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file["g/v"] = h5py.Empty("f4")
    with pytest.warns(LeftOutWarning, match=r"a\.nc: '/g/v' is left out: .*null dataspace"):
        with open_dataset(tmp_path / "a.nc") as file:
            assert not file.dataset.all_variables


def test_is_netcdf(data: Path) -> None:
    assert all(is_netcdf(path) for path in data.glob("*.nc"))
    assert not any(is_netcdf(path) for path in data.glob("*.cdl"))


def _read_all(path: Path) -> None:
    with open_dataset(path) as file:
        for variable in file.dataset.all_variables.values():
            if variable.data is not None and all(n < 10_000 for n in variable.data.shape):
                variable.data.read(tuple(slice(0, n) for n in variable.data.shape))


@pytest.mark.parametrize(
    "name", ["classic", "classic_64bit", "cdf5", "one_record", "primitives", "nested", "example"]
)
def test_truncated_files(data: Path, tmp_path: Path, name: str) -> None:
    """Wherever a file ends too early, the error says so. (The padding after the last value is no loss.)"""
    content = (data / f"{name}.nc").read_bytes()
    path = tmp_path / "cut.nc"
    rng = random.Random(name)
    for length in {
        0,
        3,
        4,
        8,
        40,
        len(content) // 2,
        len(content) - 4,
        *rng.sample(range(len(content) - 4), 12),
    }:
        path.write_bytes(content[:length])
        with pytest.raises(NetCDFFileError) as caught:
            open_dataset(path)
        assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("name", ["classic", "cdf5", "one_record", "storage", "groups", "user_types"])
def test_damaged_files_never_give_another_error(data: Path, tmp_path: Path, name: str) -> None:
    content = (data / f"{name}.nc").read_bytes()
    path = tmp_path / "damaged.nc"
    rng = random.Random(name)
    failures = 0
    for _ in range(60):
        damaged = bytearray(content)
        for _ in range(rng.choice([1, 3, 20])):
            damaged[rng.randrange(min(len(damaged), 4000))] = rng.randrange(256)
        path.write_bytes(damaged)
        try:
            _read_all(path)
        except NCZarrError as error:
            failures += 1
            assert str(error).startswith(str(path))
    assert failures


def test_a_chunk_that_does_not_decode(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "chunk.nc"
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("v", data=np.arange(100), chunks=(100,), compression="gzip")
        place = dataset.id.get_chunk_info(0)
    content = bytearray(path.read_bytes())
    content[place.byte_offset + 4 : place.byte_offset + place.size] = bytes(place.size - 4)
    path.write_bytes(content)
    with pytest.raises(NetCDFFileError, match=r"chunk\.nc: /v: the values cannot be read"):
        _read_all(path)


def test_an_attribute_of_two_dimensions_is_left_out_and_named(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file.create_group("g").attrs.create("a", np.zeros((2, 2)))
    with pytest.warns(LeftOutWarning, match=r"a\.nc: .*/g.* is left out"):
        open_dataset(tmp_path / "a.nc")


@pytest.mark.parametrize(
    ("make", "place"),
    [
        (lambda f: f.__setitem__("link", h5py.SoftLink("/nowhere")), "/link"),
        (lambda f: f.create_group("g").__setitem__("up", h5py.SoftLink("/")), "/g/up"),
    ],
)
def test_what_netcdf_has_no_place_for_is_named(tmp_path: Path, make: object, place: str) -> None:
    """Nothing is left out in silence."""
    path = tmp_path / "a.nc"
    with h5py.File(path, "w") as file:
        make(file)  # type: ignore[operator]
    with pytest.raises(NetCDFFileError) as caught:
        open_dataset(path)
    assert str(caught.value).startswith(f"{path}: {place}: ")


@pytest.mark.parametrize(
    ("make", "place"),
    [
        (
            lambda f: h5d.create(f.id, b"v", h5t.array_create(h5t.STD_I8LE, (3,)), h5s.create(h5s.SCALAR)),
            "/v",
        ),
        (lambda f: h5d.create(f.id, b"v", h5t.STD_B8LE, h5s.create(h5s.SCALAR)), "/v"),
        (lambda f: f.create_dataset("v", data=[f.ref], dtype=h5py.ref_dtype), "/v"),
        (lambda f: f.create_dataset("v", data=np.zeros(2, [("a", "f2")])), "/v"),
        (lambda f: f.__setitem__("t", np.dtype([("a", "f2")])), "/t"),
    ],
)
def test_what_netcdf_has_no_type_for_is_named(tmp_path: Path, make: object, place: str) -> None:
    """Nothing is left out in silence."""
    path = tmp_path / "a.nc"
    with h5py.File(path, "w") as file:
        make(file)  # type: ignore[operator]
    with pytest.warns(LeftOutWarning, match=f"'{place}' is left out"):
        opened = open_dataset(path)
    with opened:
        assert not opened.dataset.variables
        assert opened.dataset.left_out


def test_sizes_that_contradict_each_other(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(3)
        file["x"].make_scale("x")
        file["v"] = np.arange(4)
        file["v"].dims[0].attach_scale(file["x"])
    with pytest.raises(NetCDFFileError, match=r"/v: .*size 4 where its dimension /x has 3"):
        open_dataset(path)

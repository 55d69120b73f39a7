#!/usr/bin/env python3
"""Make the netCDF files of this folder anew: ``python tests/data/make_fixtures.py [folder]``.

The CDL texts go through Debian's ncgen. What CDL cannot say (bits of a NaN, bytes that are not UTF-8, attributes
of no value, files that another program wrote) is made with h5py and netCDF4-python.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import h5py
import netCDF4
import numpy as np

HERE = Path(__file__).parent

#: file: (CDL text, ncgen's number of the format)
FROM_CDL = {
    "primitives.nc": ("primitives.cdl", 4),
    "user_types.nc": ("user_types.cdl", 4),
    "nested.nc": ("nested.cdl", 4),
    "groups.nc": ("groups.cdl", 4),
    "storage.nc": ("storage.cdl", 4),
    "coordinates.nc": ("coordinates.cdl", 4),
    "names.nc": ("names.cdl", 4),
    "classic.nc": ("classic.cdl", 3),
    "classic_64bit.nc": ("classic.cdl", 6),
    "classic_cdf5.nc": ("classic.cdl", 5),
    "classic_model.nc": ("classic.cdl", 7),
    "cdf5.nc": ("cdf5.cdl", 5),
    "one_record.nc": ("one_record.cdl", 3),
}


def main(target: Path) -> None:
    """Make all files beside the target, then put them in their place: somebody may be reading the old ones."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target) as name:
        make(Path(name))
        for file in Path(name).iterdir():
            file.replace(target / file.name)


def make(folder: Path) -> None:
    for name, (text, number) in FROM_CDL.items():
        subprocess.run(["ncgen", f"-{number}", "-o", folder / name, HERE / text], check=True)
    bits(folder / "bits.nc")
    foreign(folder / "foreign.nc")
    with netCDF4.Dataset(folder / "empty.nc", "w"):
        pass
    example(folder / "example.nc")


def bits(path: Path) -> None:
    """NaNs with payloads, negative zeros, text that is not UTF-8, attributes without a value."""
    with netCDF4.Dataset(path, "w") as ds:
        ds.createDimension("x", 4)
        ds.createDimension("time", None)
        f = ds.createVariable("f", "f4", ("x",), fill_value=False)
        f[:] = np.array([0x7FC00001, 0xFFC12345, 0x80000000, 0x7F800001], "u4").view("f4")
        d = ds.createVariable("d", ">f8", ("x",), endian="big", fill_value=False)
        d[:] = np.array([0x7FF8000000000001, 0xFFF8DEADBEEF0000, 1 << 63, 0x7FF0000000000001], "u8").view(
            "f8"
        )
        ds.createVariable("short", "i2", ("time",), chunksizes=(4,))[:] = [1, 2]
        ds.createVariable("long", "i4", ("time", "x"), chunksizes=(2, 4))[:] = np.arange(20).reshape(5, 4)
        ds.createVariable("filled", "f4", ("time",), chunksizes=(4,), fill_value=-1.0)[:] = [0.5]
    with h5py.File(path, "r+") as file:
        x = file["f"].id
        space = h5py.h5s.create(h5py.h5s.NULL)
        for name, kind in ((b"no_text", "S1"), (b"no_double", "f8"), (b"no_int", "i4")):
            h5py.h5a.create(x, name, h5py.h5t.py_create(np.dtype(kind)), space)
        raw = np.frombuffer(b"caf\xe9 \xff\x00end\x00", "S1")
        text = h5py.h5t.C_S1.copy()
        text.set_size(raw.size)
        attribute = h5py.h5a.create(x, b"latin", text, h5py.h5s.create(h5py.h5s.SCALAR))
        attribute.write(raw, text)
        file["f"].attrs.create("strings", [b"caf\xe9", b""], dtype=h5py.string_dtype())


def foreign(path: Path) -> None:
    """An HDF5 file that no netCDF library wrote: no dimension scales, no creation order, other types of text."""
    with h5py.File(path, "w") as file:
        file["b_matrix"] = np.arange(6, dtype=">i4").reshape(2, 3)
        file["a_vector"] = np.arange(3, dtype="f8")
        file["square"] = np.ones((3, 3), "u2")
        file["scalar"] = 2.5
        file["fixed_text"] = np.array([b"abc", b"de"], "S4")
        file.create_dataset("growing", data=np.arange(4, dtype="i8"), maxshape=(None,), chunks=(8,))
        file.create_dataset("words", data=["x", "größer"], dtype=h5py.string_dtype())
        file.attrs["text"] = "variable-length text"
        file.attrs["fixed"] = np.bytes_("fixed text")
        file.attrs["list"] = np.array([b"ab", b"c"], "S2")
        file.attrs["number"] = 7
        group = file.create_group("group")
        group["inside"] = np.arange(3, dtype="i2")
        scale = group.create_dataset("level", data=np.arange(2.0))
        scale.make_scale("level")
        data = group.create_dataset("profile", data=np.zeros((2,), "f4"))
        data.dims[0].attach_scale(scale)


def example(path: Path) -> None:
    """A small ocean and atmosphere dataset, as the README uses it."""
    times, depths = 6, np.array([0.0, 10.0, 50.0, 200.0])
    lat, lon = np.arange(-85.0, 90.0, 10.0), np.arange(5.0, 360.0, 10.0)
    season = 2 * np.pi * np.arange(times) / 12
    phi, lam = np.deg2rad(lat)[:, None], np.deg2rad(lon)[None, :]
    land = np.sin(3 * lam) * np.cos(2 * phi) + 0.4 * np.sin(5 * lam + phi) > 0.75
    with netCDF4.Dataset(path, "w") as ds:
        ds.Conventions = "CF-1.11"
        ds.title = "A small ocean and its atmosphere"
        ds.institution = "nczarr project"
        ds.history = "made by tests/data/make_fixtures.py"
        ds.setncattr_string("keywords", ["ocean", "atmosphere", "example"])
        ds.createDimension("time", None)
        ds.createDimension("lat", lat.size)
        ds.createDimension("lon", lon.size)
        time = ds.createVariable("time", "f8", ("time",), chunksizes=(16,))
        time.setncatts(
            {"standard_name": "time", "units": "days since 2020-01-01", "calendar": "standard", "axis": "T"}
        )
        time[:] = [15.5, 45.5, 75.5, 106.0, 136.5, 167.0]
        for name, values, units in (("lat", lat, "degrees_north"), ("lon", lon, "degrees_east")):
            axis = ds.createVariable(name, "f4", (name,))
            axis.standard_name = {"lat": "latitude", "lon": "longitude"}[name]
            axis.units = units
            axis[:] = values

        ocean = ds.createGroup("ocean")
        ocean.comment = "on the grid of the root group, with depths of its own"
        quality = ocean.createEnumType("i1", "quality_t", {"good": 0, "suspect": 1, "bad": 2, "land": 3})
        ocean.createDimension("depth", depths.size)
        depth = ocean.createVariable("depth", "f4", ("depth",))
        depth.setncatts({"standard_name": "depth", "units": "m", "positive": "down", "axis": "Z"})
        depth[:] = depths
        temp = ocean.createVariable(
            "temp", "i2", ("time", "depth", "lat", "lon"), fill_value=-32768,
            compression="zlib", complevel=4, shuffle=True, chunksizes=(1, 4, 18, 36),
        )  # fmt: skip
        temp.setncatts({"standard_name": "sea_water_potential_temperature", "units": "degree_Celsius"})
        temp.setncatts({"scale_factor": 0.01, "add_offset": 15.0, "coordinates": "lat lon"})
        warm = 28 * np.cos(phi) ** 2 - 1 + 0 * lam
        swing = 4 * np.sin(phi) * np.cos(season)[:, None, None, None]
        values = (warm - swing) * np.exp(-depths / 300)[:, None, None]
        temp[:] = np.ma.masked_array(values, np.broadcast_to(land, values.shape))
        salt = ocean.createVariable(
            "salt", "f4", ("depth", "lat", "lon"), fill_value=np.float32(1e20),
            compression="zlib", complevel=1, shuffle=True, chunksizes=(2, 18, 36),
        )  # fmt: skip
        salt.setncatts({"standard_name": "sea_water_salinity", "units": "1"})
        values = 35 + 1.5 * np.cos(3 * phi) + 0.3 * np.sin(lam) - 0.001 * depths[:, None, None]
        salt[:] = np.ma.masked_array(values, np.broadcast_to(land, values.shape))
        flag = ocean.createVariable(
            "flag", quality, ("time", "lat", "lon"), compression="zlib", chunksizes=(3, 18, 36), fill_value=2
        )
        flag.long_name = "quality of the surface temperature"
        flag[:] = np.where(land, 3, (np.abs(lat) > 70)[:, None] * 1) + np.zeros((times, 1, 1), int)

        air = ds.createGroup("atmosphere")
        pressure = air.createVariable(
            "slp", ">f4", ("time", "lat", "lon"), endian="big", compression="zlib", chunksizes=(2, 18, 36),
        )  # fmt: skip
        pressure.setncatts({"standard_name": "air_pressure_at_mean_sea_level", "units": "hPa"})
        pressure[:] = 1013 - 8 * np.cos(3 * phi) + 3 * np.sin(2 * lam + season[:, None, None])
        air.createDimension("station", 3)
        air.createDimension("code_length", 4)
        name = air.createVariable("station_name", str, ("station",))
        name[:] = np.array(["Kerguelen", "Jan Mayen", "Île Amsterdam"], object)
        code = air.createVariable("station_code", "S1", ("station", "code_length"))
        code[:] = np.array([list("KERG"), list("JANM"), list("AMST")], "S1")
        height = air.createVariable("station_height", "i4", ("station",))
        height.units = "m"
        height[:] = [29, 10, 27]


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)

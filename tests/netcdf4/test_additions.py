"""Test the additions to netCDF4-python: pickling, hints for names, messages of closed objects, `install`."""

from __future__ import annotations

import multiprocessing
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest

import nczarr
import nczarr.netcdf4 as ours


@pytest.fixture
def path(tmp_path: Path) -> str:
    where = str(tmp_path / "a.zarr")
    with ours.Dataset(where, "w") as ds:
        ds.createDimension("time", 4)
        ds.title = "test"
        ds.createVariable("temperature", "i2", ("time",), fill_value=-1)[:] = [1, -1, 3, 4]
        ds.createGroup("ocean").createGroup("deep").createVariable("salt", "f4", ("time",))[:] = 35
    return where


def total(variable: Any, start: int, stop: int) -> int:
    return int(variable[start:stop].sum())


def test_what_is_open_for_reading_goes_to_other_processes(
    path: str, monkeypatch: Any, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with ours.Dataset("a.zarr") as ds:
        v = ds["ocean/deep/salt"]
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            monkeypatch.chdir("/")
            assert pool.starmap(total, [(v, 0, 2), (v, 2, 4)]) == [70, 70]


def test_pickling_keeps_what_belongs_together(path: str) -> None:
    with ours.Dataset(path) as ds:
        v = ds["temperature"]
        v.set_auto_mask(False)
        again, variable, group, dimension = pickle.loads(
            pickle.dumps((ds, v, ds["ocean/deep"], ds.dimensions["time"]))
        )
    assert variable[:].tolist() == [1, -1, 3, 4]
    assert variable is again["temperature"]
    assert group is again["ocean/deep"]
    assert dimension is again.dimensions["time"]
    again.close()


def test_what_is_written_is_not_pickled(path: str) -> None:
    with ours.Dataset(path, "a") as ds:
        for thing in (ds, ds["temperature"], ds["ocean"]):
            with pytest.raises(NotImplementedError, match="open for writing"):
                pickle.dumps(thing)
    with pytest.raises(NotImplementedError, match="closed"):
        pickle.dumps(ds)


def test_did_you_mean(path: str) -> None:
    with ours.Dataset(path, "a") as ds:
        for action, error in (
            (lambda: ds["temperatur"], IndexError),
            (lambda: ds.variables["temperatur"], KeyError),
            (lambda: ds["Temperature"], IndexError),
        ):
            with pytest.raises(error, match="did you mean 'temperature'"):
                action()
        with pytest.raises(KeyError, match="did you mean 'ocean'"):
            ds["ocaen/deep"]
        with pytest.raises(KeyError, match="did you mean 'time'"):
            ds.dimensions["tme"]
        with pytest.raises(ValueError, match="did you mean 'time'"):
            ds.createVariable("v", "i4", ("tim",))
        with pytest.raises(AttributeError, match="did you mean 'title'"):
            ds.getncattr("titel")
        assert ds.variables.get("temperatur") is None
        assert isinstance(ds.variables, dict)


def test_python_suggests_attributes(path: str) -> None:
    code = f"import nczarr\nnczarr.Dataset({path!r}).titel"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "Attribute not found: 'titel'" in done.stderr
    if sys.version_info >= (3, 13):  # earlier, for exactly AttributeError
        assert "title" in done.stderr


def test_closed_is_said(path: str) -> None:
    ds = ours.Dataset(path)
    v = ds["temperature"]
    ds.close()
    for action in (lambda: v[:], ds.close, ds.sync, ds.ncattrs, lambda: v.shape):
        with pytest.raises((RuntimeError, AttributeError), match="the dataset is closed"):
            action()


@pytest.mark.parametrize("format", ["NETCDF4", "NETCDF3_CLASSIC"])
def test_netcdf_files_in_memory(format: str) -> None:
    import netCDF4

    made = netCDF4.Dataset("made.nc", "w", memory=1000, format=format)
    made.createDimension("x", 3)
    made.createVariable("v", "i4", ("x",))[:] = [1, 2, 3]
    content = made.close()
    with ours.Dataset("here.nc", memory=content) as ds:
        assert ds["v"][:].tolist() == [1, 2, 3]
        assert (ds.data_model, ds.filepath()) == (format, "here.nc")
    with pytest.raises(OSError, match="neither"):
        ours.Dataset("here.nc", memory=b"something else")


def test_install(path: str) -> None:
    code = (
        "import nczarr.netcdf4\nnczarr.netcdf4.install()\nimport netCDF4\nfrom netCDF4 import Dataset, num2date\n"
        "from netCDF4.utils import ncinfo\n"
        f"assert Dataset({path!r}).title == 'test' and isinstance(netCDF4.Dataset({path!r}), nczarr.Dataset)\n"
        "from netCDF4 import *\nimport netCDF4._netCDF4, netCDF4.utils, importlib.util\n"
        "assert netCDF4.__name__ == importlib.util.find_spec('netCDF4').name == 'netCDF4'\n"
        "assert netCDF4._netCDF4.CompoundType is CompoundType is nczarr.netcdf4.CompoundType\n"
        "assert netCDF4.num2date is num2date and netCDF4._netCDF4.date2num is date2num\n"
        "try: import netCDF4.nothing\nexcept ModuleNotFoundError: pass\nelse: raise SystemExit(1)\n"
        "nczarr.netcdf4.uninstall()\nimport netCDF4\nassert netCDF4.Dataset is not nczarr.Dataset"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def test_both_names_of_the_package_have_everything() -> None:
    import netCDF4

    names = {n for n in dir(netCDF4) if n.startswith("__has_") or "libversion" in n}
    names |= set(netCDF4.__all__) | {
        "NC_DISKLESS",
        "NC_PERSIST",
        "dtype_is_complex",
        "utils",
        "rc_get",
        "rc_set",
    }
    names |= {"is_native_little", "is_native_big", "default_encoding", "unicode_error"}
    assert [name for name in sorted(names) if not hasattr(ours, name)] == []
    assert [name for name in sorted(names) if not hasattr(nczarr, name)] == []
    assert {"_Variable", "_Dimension", "__version__"} <= set(dir(ours))


def test_a_thread_for_each_variable(path: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ours.Dataset(path) as ds, ThreadPoolExecutor(8) as pool:
        sums = list(pool.map(lambda i: total(ds["ocean/deep/salt"], 0, i % 5), range(200)))
    assert sums == [35 * (i % 5) for i in range(200)]
    assert np.isscalar(sums[0])


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (np.array([1, 2], "i4"), np.array([1.0, 2.0])),
        (np.array([1, 2], "i4"), np.array([1.0, 2.5])),
        (np.array([np.nan, 2.0]), np.array([np.nan, 2.0], "f4")),
        (np.array([np.nan, 2.0]), np.array([1.0, 2.0])),
        (np.array(300), np.array(300, "i2")),
        (np.array("a"), np.array("b")),
    ],
)
def test_safe_casts_are_told_as_netcdf4_tells_them(a: np.ndarray, b: np.ndarray) -> None:
    from netCDF4.utils import _safecast as theirs

    from nczarr.netcdf4.utils import _safecast

    assert _safecast(a, b) == bool(theirs(a, b))


@pytest.mark.parametrize("name", ["traj.ncdf", "out.e", "wrfout_d01_2005-08-28_12:00:00", "plain", "a.grid"])
def test_under_install_every_name_is_a_netcdf_file(name: str, tmp_path: Path) -> None:
    with ours.install():
        assert ours.storage() == "netcdf"
        with ours.Dataset(tmp_path / name, "w") as ds:
            ds.title = "file"
    assert netCDF4.Dataset(tmp_path / name).title == "file"
    with ours.Dataset(tmp_path / f"{name}2", "w") as ds:
        assert ds.disk_format == "ZARR"


@pytest.mark.parametrize("name", ["a.zarr", "a.zip", "folder", "file:{}/b"])
def test_under_install_some_names_say_zarr(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    place = name.format(f"//{tmp_path}") if "{}" in name else tmp_path / name
    with ours.install(), ours.Dataset(place, "w") as ds:
        assert ds.disk_format == "ZARR"


def test_a_program_sets_the_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCZARR_STORAGE", "netcdf")
    (tmp_path / "a.cdl").write_text("netcdf a { :title = 1; }")
    with ours.Dataset.fromcdl(tmp_path / "a.cdl") as ds:
        assert ds.disk_format == "HDF5"
        assert ds.filepath().endswith("a.nc")
    with ours.Dataset(tmp_path / "b", "w", storage="zarr") as ds:
        assert ds.disk_format == "ZARR"
    monkeypatch.setattr("nczarr.netcdf4.compatibility._storage", None)
    assert ours.storage("zarr") == "zarr"
    with ours.Dataset(tmp_path / "b.nc", "w") as ds:
        assert ds.disk_format == "ZARR"
    with pytest.raises(ValueError, match="auto, netcdf or zarr, not 'hdf'"):
        ours.storage("hdf")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.nc", "a.zarr", "a.zip"])
@pytest.mark.parametrize("format", ["NETCDF4", "NETCDF3_CLASSIC"])
def test_a_reader_sees_what_a_writer_of_this_process_has_written(
    format: str, name: str, tmp_path: Path
) -> None:
    with ours.Dataset(tmp_path / name, "w", format=format) as writer:
        writer.createDimension("t", None)
        v = writer.createVariable("v", "i4", ("t",))
        for length in (3, 5):
            v[:] = np.arange(length)
            with ours.Dataset(tmp_path / name) as reader:
                assert reader["v"][:].tolist() == list(range(length))
            with pytest.raises(PermissionError):  # two writers destroy each other's work
                ours.Dataset(tmp_path / name, "w")
    with ours.Dataset(tmp_path / name) as reader:
        assert reader["v"].shape == (5,)


def test_an_object_that_was_not_opened_is_closed() -> None:
    """Finalizers of subclasses ask for it."""

    class Failing(ours.Dataset):
        def __init__(self) -> None:
            raise OSError("first")

    half = Failing.__new__(Failing)
    assert not half.isopen()
    assert not hasattr(half, "title")
    with pytest.raises(RuntimeError, match="was not opened"):
        half.close()


def test_keys_and_attributes_complete(path: str) -> None:
    with ours.Dataset(path) as ds:
        assert ds._ipython_key_completions_() == ["temperature", "ocean", "ocean/deep", "ocean/deep/salt"]
        assert {"title", "createVariable", "variables"} <= set(dir(ds))
        assert {"_FillValue", "shape"} <= set(dir(ds["temperature"]))
    assert "variables" in dir(ds)  # also when it is closed

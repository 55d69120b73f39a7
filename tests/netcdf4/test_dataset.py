"""Opening and closing: modes, errors, weak references, memory, other sources."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest

import nczarr.netcdf4 as ours
from nczarr import model
from nczarr.errors import DatasetExistsError, DatasetNotFoundError, NCZarrError

Same = Callable[[Callable[[Any, str, Any], None]], None]


@pytest.mark.parametrize("mode", ["r", "rs", "w", "ws", "x", "a", "as", "r+", "r+s", "q", "", "rw"])
@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("clobber", [True, False])
def test_modes(same: Same, mode: str, exists: bool, clobber: bool) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        if exists:
            with nc.Dataset(path, "w") as ds:
                ds.a = 1

        def run() -> Any:
            with nc.Dataset(path, mode, clobber=clobber) as ds:
                seen = ds.ncattrs()
                if mode[0] != "r" or mode[:2] == "r+":
                    ds.b = 2
                return seen, ds.ncattrs(), ds.isopen()

        log.attempt(run)
        if exists or mode[:1] in ("w", "x", "a") or mode[:2] == "r+":
            log.attempt(lambda: nc.Dataset(path).ncattrs())

    same(script)


@pytest.mark.parametrize("name", ["nothing.nc", "nothing.zarr"])
def test_what_is_missing_is_told_in_the_systems_words(tmp_path: Path, name: str) -> None:
    for library in (netCDF4, ours):  # satpy looks for them
        with pytest.raises(FileNotFoundError, match="No such file or directory"):
            library.Dataset(str(tmp_path / name))


def test_unknown_formats_and_features(same: Same) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        log.attempt(lambda: nc.Dataset(path, "w", format="NETCDF5"))
        log.attempt(lambda: nc.Dataset(path, "w", parallel=True))
        log.attempt(lambda: nc.Dataset(path, "a", memory=b"x"))
        with nc.Dataset(path, "w", nonsense=3) as ds:
            log(ds.data_model)

    same(script)


def test_the_format_of_what_is_there_is_ignored(same: Same) -> None:
    """Programs give ``format="netcdf4"`` for reading; only what is made needs one that is known."""

    def script(nc: Any, path: str, log: Any) -> None:
        log.attempt(lambda: nc.Dataset(path, "a", format="netcdf4"))
        nc.Dataset(path, "w", format="NETCDF4_CLASSIC").close()
        for mode in ("r", "a", "r+"):
            with nc.Dataset(path, mode, format="netcdf4") as ds:
                log(ds.data_model)
        log.attempt(lambda: nc.Dataset(path, "w", format="netcdf4"))

    same(script)


@pytest.mark.parametrize(
    "model", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA", "NETCDF4_CLASSIC", "NETCDF4"]
)
def test_sizes_of_dimensions(same: Same, model: str) -> None:
    """What the data model cannot hold was found at `close()`, when all else was lost with it."""
    sizes = [
        (1 << 31) - 4,
        (1 << 31) - 3,
        (1 << 32) - 4,
        (1 << 32) - 3,
        (1 << 32) - 1,
        1 << 32,
        1 << 64,
        "3",
        b"3",
        2.7,
    ]

    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w", format=model) as ds:
            ds.title = "kept"
            for i, size in enumerate(sizes):
                log.attempt(lambda i=i, size=size: ds.createDimension(f"d{i}", size).size)
        with nc.Dataset(path) as ds:
            log(ds.title, {name: d.size for name, d in ds.dimensions.items()})

    same(script)


def test_closed_datasets(same: Same) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        ds = nc.Dataset(path, "w")
        ds.createDimension("x", 2)
        v = ds.createVariable("v", "f4", ("x",))
        d = ds.dimensions["x"]
        ds.a = 1
        ds.close()
        log(ds.isopen())
        for action in (
            ds.close,
            ds.sync,
            lambda: v[:],
            lambda: v.__setitem__(slice(None), 1),
            lambda: v.shape,
            lambda: len(d),
            lambda: ds.a,
            lambda: setattr(ds, "a", 2),
            lambda: ds.ncattrs(),
            lambda: ds.createDimension("y", 2),
            lambda: ds.createVariable("y", "f4"),
        ):
            log.attempt(action)

    same(script)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        ours.Dataset(tmp_path / "nope.zarr")
    assert isinstance(caught.value, DatasetNotFoundError)


def test_existing_is_kept_without_clobber(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    with ours.Dataset(path, "w") as ds:
        ds.a = 1
    with pytest.raises(DatasetExistsError):
        ours.Dataset(path, "w", clobber=False)
    with ours.Dataset(path) as ds:
        assert ds.a == 1


def test_a_directory_that_is_no_dataset_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "letter.txt").write_text("dear")
    with pytest.raises(NCZarrError):
        ours.Dataset(tmp_path / "docs", "w")
    assert (tmp_path / "docs" / "letter.txt").read_text() == "dear"


def test_what_it_tells_of_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    with ours.Dataset(path, "w") as ds:
        assert (ds.filepath(), ds.filepath(encoding="utf-8")) == (str(path), str(path))
        assert (ds.disk_format, ds.data_model, ds.file_format) == ("ZARR", "NETCDF4", "NETCDF4")
        assert ds.has_zstd_filter()
        assert ds.has_szip_filter()


def test_weak_references(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    ds = ours.Dataset(path, "w", keepweakref=True)
    ds.createDimension("x", 2)
    v = ds.createVariable("v", "i4", ("x",))
    v[:] = [1, 2]
    assert v.group().path == "/"
    del ds
    with pytest.raises((ReferenceError, RuntimeError)):
        v.group().path  # noqa: B018
    with ours.Dataset(path) as again:
        assert again["v"][:].tolist() == [1, 2]


def test_a_dropped_dataset_is_there_when_it_is_opened_again(same: Same) -> None:
    """A program may drop a dataset without closing it, and the collector may come much later."""

    def script(nc: Any, path: str, log: Any) -> None:
        def write(value: int) -> None:
            ds = nc.Dataset(path, "w")
            ds.title = "written"
            ds.createDimension("x", 2)
            ds.createVariable("v", "i4", ("x",))[:] = value
            ds.createGroup("g").createVariable("w", "f8", ("x",), zlib=True)[:] = value

        gc.disable()
        try:
            write(3)
            with nc.Dataset(path) as ds:
                log(ds.title, ds["v"][:], ds["g/w"][:])
            with nc.Dataset(path, "a") as ds:
                ds["v"][0] = 4
                ds["g/w"][1] = 5
            with nc.Dataset(path) as ds:
                log(ds["v"][:], ds["g/w"][:])
        finally:
            gc.enable()
        gc.collect()
        with nc.Dataset(path) as ds:
            log(ds["v"][:], ds["g/w"][:])

    same(script)


@pytest.mark.parametrize("name", ["a.nc", "a.zarr"])
def test_a_dropped_reader_keeps_no_writer_away(tmp_path: Path, name: str) -> None:
    """netCDF4-python refuses the writer until Python's collector happens to find the reader."""

    def read() -> Any:
        return ours.Dataset(tmp_path / name).variables["v"][:]

    with ours.Dataset(tmp_path / name, "w") as ds:
        ds.createDimension("x", 2)
        ds.createVariable("v", "i4", ("x",))[:] = 1
    gc.disable()
    try:
        for mode in ("a", "w"):
            assert read().tolist() == [1, 1]
            with ours.Dataset(tmp_path / name, mode) as ds:
                ds.title = mode
    finally:
        gc.enable()


@pytest.mark.parametrize("name", ["a.nc", "a.zarr"])
def test_the_collector_leaves_a_dropped_dataset_alone_while_it_is_written(tmp_path: Path, name: str) -> None:
    def write() -> None:
        ds = ours.Dataset(tmp_path / name, "w")
        ds.createDimension("x", 2)
        for i in range(20):
            ds.createVariable(f"v{i}", "i4", ("x",))[:] = i

    kept = gc.get_threshold()
    gc.collect()
    write()
    gc.set_threshold(1, 1, 1)
    try:
        with ours.Dataset(tmp_path / name) as ds:
            assert [ds[f"v{i}"][1] for i in range(20)] == list(range(20))
        write()  # and replaced
        write()
    finally:
        gc.set_threshold(*kept)


def test_a_dropped_dataset_is_written(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"

    def work() -> None:
        ds = ours.Dataset(path, "w")
        ds.createVariable("v", "i4")[...] = 5

    work()
    gc.collect()
    with ours.Dataset(path) as ds:
        assert ds["v"][...] == 5


def test_a_program_that_forgets_to_close(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    program = f"""
        import nczarr.netcdf4 as nc
        ds = nc.Dataset({str(path)!r}, "w")
        ds.createVariable("v", "i4")[...] = 5
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)
    with ours.Dataset(path) as ds:
        assert ds["v"][...] == 5


def test_nothing_here_can_be_pickled() -> None:
    with ours.Dataset({}, "w") as ds:
        ds.createDimension("x", 1)
        things = [
            ds,
            ds.dimensions["x"],
            ds.createVariable("v", "i4", ("x",)),
            ds.createVLType("i4", "vl"),
            ds.createEnumType("i4", "e", {"a": 1}),
            ds.createCompoundType([("a", "i4")], "c"),
        ]
        for thing in things:
            with pytest.raises(NotImplementedError):
                pickle.dumps(thing)


def test_in_memory() -> None:
    ds = ours.Dataset("a.zarr", "w", memory=1000)
    ds.createDimension("t", None)
    ds.createVariable("v", "f4", ("t",))[:] = [1, 2]
    content = ds.close()
    assert content is not None
    with ours.Dataset("a.zarr", memory=content) as ds:
        assert ds["v"][:].tolist() == [1, 2]
    # The collector frees the bytes in any order; a BytesIO with a view of its buffer would refuse to go.
    assert isinstance(content.obj, bytes)
    with pytest.raises(OSError, match="zip"):
        ours.Dataset("a.zarr", memory=b"nonsense")


def test_diskless(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    for persist in (False, True):
        with ours.Dataset(path, "w", diskless=True, persist=persist) as ds:
            ds.createVariable("v", "f4")[...] = 2
            ds.createGroup("g").a = 1
            assert not path.exists()
        assert path.exists() is persist
    with ours.Dataset(path) as ds:
        assert ds["v"][...] == 2
        assert ds["g"].a == 1


def test_a_model_in_memory() -> None:
    v = model.Variable("v", model.SHORT, ("/x",), data=model.MemorySource(np.arange(4, dtype="i2")))
    empty = model.Variable("empty", model.FLOAT, ("/x",))
    loose = model.Variable("loose", model.INT, (4, "/x"), data=model.MemorySource(np.zeros((4, 4), "i4")))
    with ours.Dataset(
        model.Dataset("d", dimensions=(model.Dimension("x", 4),), variables=(v, empty, loose))
    ) as ds:
        assert ds["v"][[3, 0]].tolist() == [3, 0]
        assert ds["empty"][:].mask.all()
        assert ds["loose"].dimensions == ("_Anonymous_Dim_4", "x")
        with pytest.raises(RuntimeError, match="read only"):
            ds["v"][0] = 1


def test_a_netcdf_file(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as ds:
        ds.createDimension("t", None)
        v = ds.createVariable("v", "i2", ("t",))
        v.scale_factor = 0.5
        v[:] = [1, 2, 3]
    with ours.Dataset(path) as ds:
        assert ds["v"][::-1].tolist() == [3, 2, 1]
        assert ds.dimensions["t"].isunlimited()
        assert ds.disk_format == "HDF5"
    with ours.Dataset(path, "a") as ds:
        ds["v"][3] = 4
    with netCDF4.Dataset(path) as ds:
        assert ds["v"][:].tolist() == [1, 2, 3, 4]


def test_constants(same: Same) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        fills = dict(nc.default_fillvals)
        log(fills, nc.is_native_little, nc.is_native_big, nc.default_encoding, nc.unicode_error)
        log(
            nc.__has_rename_grp__,
            nc.__has_quantization_support__,
            nc.dtype_is_complex("c8"),
            nc.dtype_is_complex("f4"),
        )
        log(
            nc.num2date(3, "days since 2000-01-01").isoformat(),
            nc.date2num(nc.num2date(3, "days since 2000-01-01"), "days since 2000-01-01"),
        )
        log(
            nc.rc_get("nothing"),
            len(nc.get_chunk_cache()),
            issubclass(nc.NetCDF4MissingFeatureException, Exception),
        )

    same(script)


def test_date_functions_are_those_of_cftime() -> None:
    import cftime

    assert ours.num2date is cftime.num2date
    assert ours.date2index is cftime.date2index
    with pytest.raises(AttributeError):
        ours.nothing  # noqa: B018


def test_importing_is_light() -> None:
    heavy = ("cftime", "lark", "fsspec", "xarray", "netCDF4", "h5py")
    program = f"import sys, nczarr.netcdf4; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_a_chunk_cache_has_settings_that_can_be(same: Same) -> None:
    wrong: list[dict[str, Any]] = [
        {"size": -1},
        {"nelems": -1},
        {"preemption": 1.1},
        {"preemption": -0.1},
        {"size": "1"},
    ]

    def script(nc: Any, path: str, log: Any) -> None:
        before = nc.get_chunk_cache()
        try:
            with nc.Dataset(path, "w") as ds:
                ds.createDimension("x", 3)
                v = ds.createVariable("v", "f4", ("x",), chunksizes=(2,))
                v.set_var_chunk_cache(1e6, 100, 0.5)  # a number of bytes, as many write it
                for settings in wrong:
                    log.attempt(lambda settings=settings: nc.set_chunk_cache(**settings))
                    log.attempt(lambda settings=settings: v.set_var_chunk_cache(**settings))
                log(v.get_var_chunk_cache(), nc.get_chunk_cache() == before)
        finally:
            nc.set_chunk_cache(*before)

    same(script)


def test_chunk_cache_settings_are_remembered() -> None:
    before = ours.get_chunk_cache()
    try:
        ours.set_chunk_cache(size=1000, preemption=0.5)
        assert ours.get_chunk_cache() == (1000, before[1], 0.5)
        with ours.Dataset({}, "w") as ds:
            v = ds.createVariable("v", "i4", (), chunk_cache=77)
            assert v.get_var_chunk_cache() == (77, before[1], 0.5)
            v.set_var_chunk_cache(nelems=3)
            assert v.get_var_chunk_cache() == (77, 3, 0.5)
    finally:
        ours.set_chunk_cache(*before)
    ours.set_alignment(5, 6)
    assert ours.get_alignment() == (5, 6)


def test_date2index_of_a_variable(same: Same) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            ds.createDimension("t", None)
            v = ds.createVariable("t", "f8", ("t",))
            v.units, v.calendar = "hours since 2000-01-01", "standard"
            v[:] = np.arange(0, 48, 6)
            dates = nc.num2date(v[[1, 3]], v.units, v.calendar)
            log(
                [int(i) for i in nc.date2index(dates, v)],
                [int(i) for i in nc.date2index(dates, v, select="before")],
            )

    same(script)

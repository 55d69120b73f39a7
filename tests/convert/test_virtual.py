"""Read references to chunks of netCDF files with nczarr, fsspec and zarr-python, and compare with the file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr as zarr_python

import nczarr
from nczarr.cli import main
from nczarr.convert import virtual
from nczarr.errors import DatasetExistsError, LockedError, NCZarrError, UnsupportedError
from nczarr.formats import is_references
from nczarr.system.locks import FileLock

DATA = Path(__file__).parents[1] / "data"
REAL = Path(os.environ.get("NCZARR_SHARED", Path(__file__).parents[3] / "shared")) / "data" / "netcdf"
REAL = REAL if REAL.is_dir() else DATA / "selection" / "netcdf"
FILES = sorted(DATA.glob("*.nc")) + sorted(REAL.glob("*.nc"))
KINDS = ["json", "parquet", "icechunk"]
#: Files that xarray reads differently through references, and why.
OTHERWISE = {
    "coordinates.nc": "a variable with one dimension twice: on Zarr the second has another name",
    "names.nc": "names that no node of Zarr can have",
    "nested.nc": "variables that xarray cannot read in the file are bytes here",
    "ref_hdf5_compat3.nc": "compounds are bytes",
    "ref_tst_compounds2.nc": "compounds are bytes",
}
#: Files that xarray cannot open: dimensions twice on text, types of attributes, fill values as times.
UNREADABLE = {"primitives.nc", "user_types.nc", "bad-instance.nc"}
#: Files whose groups xarray refuses as one tree.
NO_TREE = {"names.nc", "groups.nc", "foreign.nc"}


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path, str], Path]:
    """Return references to a file, which several tests share."""
    folder = tmp_path_factory.mktemp("references")

    @cache
    def made(nc: Path, kind: str) -> Path:
        refs = folder / f"{nc.name}.{kind}"
        nczarr.copy(nc, refs, virtual=True)
        return refs

    return made


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nc", FILES, ids=lambda p: p.name)
def test_references_are_the_file(nc: Path, kind: str, references: Callable[[Path, str], Path]) -> None:
    assert list(nczarr.diff(nc, references(nc, kind), allow=str(nc.parent))) == []


@lru_cache(maxsize=2)
def seen_by_xarray(nc: Path) -> xr.Dataset:
    return xr.open_dataset(nc, engine="netcdf4").load()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["json", "parquet"])
@pytest.mark.parametrize("nc", [f for f in FILES if f.name not in UNREADABLE], ids=lambda p: p.name)
def test_xarray_reads_references_as_the_file(
    nc: Path, kind: str, references: Callable[[Path, str], Path]
) -> None:
    pytest.importorskip("kerchunk")
    refs = str(references(nc, kind))
    wanted = seen_by_xarray(nc)
    local = {"remote_protocol": "file"}
    by_kerchunk = xr.open_dataset(refs, engine="kerchunk", storage_options=local).load()
    by_zarr = xr.open_dataset(
        "reference://",
        engine="zarr",
        consolidated=False,
        zarr_format=3,
        backend_kwargs={"storage_options": {"fo": refs, **local}},
    ).load()
    for found in (by_kerchunk, by_zarr):
        if nc.name in OTHERWISE:
            assert not wanted.identical(found), OTHERWISE[nc.name]
        else:
            xr.testing.assert_identical(found, wanted)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["json", "parquet"])
@pytest.mark.parametrize(
    "nc", [f for f in FILES if f.name not in {*OTHERWISE, *UNREADABLE, *NO_TREE}], ids=lambda p: p.name
)
def test_xarray_reads_groups(nc: Path, kind: str, references: Callable[[Path, str], Path]) -> None:
    with netCDF4.Dataset(nc) as file:
        if not file.groups:
            return
    import fsspec
    from zarr.storage import FsspecStore

    refs = str(references(nc, kind))
    fs = fsspec.filesystem("reference", fo=refs, remote_protocol="file", asynchronous=True)
    with (
        xr.open_datatree(nc, engine="netcdf4") as wanted,
        xr.open_datatree(FsspecStore(fs, path=""), engine="zarr", consolidated=True) as found,
    ):
        xr.testing.assert_identical(found.load(), wanted.load())


def large(path: Path, kind: str) -> np.ndarray:
    data = np.random.default_rng(0).random((30, 40, 50)).astype("f4")
    with netCDF4.Dataset(path, "w", format=kind) as file:
        for name, size in (("t", None), ("y", 40), ("x", 50)):
            file.createDimension(name, size)
        options: dict[str, Any] = {"zlib": True, "chunksizes": (7, 40, 50)} if kind == "NETCDF4" else {}
        file.createVariable("v", "f4", ("t", "y", "x"), **options)[:] = data
        file.createVariable("w", "f8", ("y", "x"))[:] = data[0]
    return data


@pytest.mark.parametrize("kind", KINDS)
def test_the_interface_reads_references(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It refuses to write to them, as the stores do; the file itself can be changed."""
    path = tmp_path / "a.nc"
    with nczarr.Dataset(path, "w") as ds:
        ds.createDimension("x", 6)
        ds.createVariable("v", "f8", ("x",), chunksizes=(3,), zlib=True)[:] = np.arange(6) / 4
        ds.title = "t"
    target = tmp_path / f"refs.{kind}"
    nczarr.copy(path, target, virtual=True)
    with nczarr.Dataset(target) as ds:
        assert (ds.title, ds["v"][1:4].tolist()) == ("t", [0.25, 0.5, 0.75])
        with pytest.raises(AttributeError):
            ds.title = "other"
    with xr.open_dataset(target, engine="nczarr") as seen:
        assert seen["v"].values.tolist() == [0, 0.25, 0.5, 0.75, 1, 1.25]
    for mode in ("a", "r+"):
        with pytest.raises(PermissionError, match="nczarr only reads") as refused:
            nczarr.Dataset(target, mode)
        assert refused.value.filename == str(target)
    shown = []
    for place in (target, path):
        assert main(["dump", str(place)]) == 0
        shown.append(capsys.readouterr().out.partition("{")[2])
    assert shown[0] == shown[1] != ""
    if kind != "json":
        return
    with pytest.raises(FileExistsError):
        nczarr.Dataset(target, "w")
    target.write_text('{"refs": 5}')
    with pytest.raises(OSError, match="references cannot be read") as damaged:
        nczarr.Dataset(target)
    assert (damaged.value.errno, damaged.value.filename) == (-51, str(target))


@pytest.mark.parametrize("kind", ["NETCDF4", "NETCDF3_CLASSIC", "NETCDF3_64BIT_DATA"])
def test_values_stay_in_the_file_and_zarr_python_reads_them(tmp_path: Path, kind: str) -> None:
    data = large(tmp_path / "a.nc", kind)
    refs = tmp_path / "refs.json"
    nczarr.copy(tmp_path / "a.nc", refs, virtual=True)
    assert refs.stat().st_size < 20_000
    keys = json.loads(refs.read_text())["refs"]
    assert all(isinstance(keys[key], list) for key in keys if key[:2] in ("v/", "w/") and key[2].isdecimal())
    import fsspec
    from zarr.storage import FsspecStore

    fs = fsspec.filesystem("reference", fo=str(refs), remote_protocol="file", asynchronous=True)
    group = zarr_python.open_group(FsspecStore(fs, path=""), mode="r", zarr_format=3)
    for name, wanted in (("v", data), ("w", data[0])):
        array = group[name]
        assert isinstance(array, zarr_python.Array)
        np.testing.assert_array_equal(array[:], wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_has_changed_is_refused(tmp_path: Path, kind: str) -> None:
    """Its bytes are not encoded, so that decoding does not show the change."""
    source, refs = tmp_path / "#1.nc", tmp_path / f"refs.{kind}"
    data = large(source, "NETCDF3_64BIT_DATA")
    nczarr.copy(source, refs, virtual=True)
    assert list(nczarr.diff(source, refs)) == []
    before = source.stat()
    with netCDF4.Dataset(source, "a") as file:
        file["v"][:] = -data
    assert source.stat().st_size == before.st_size
    later = before.st_mtime_ns + 2_000_000_000  # Icechunk counts seconds
    os.utime(source, ns=(later, later))
    with pytest.raises(NCZarrError, match="changed"):
        list(nczarr.diff(source, refs))
    nczarr.copy(source, refs, virtual=True, overwrite=True)
    assert list(nczarr.diff(source, refs)) == []


def test_the_document_of_parquet_references_does_not_grow_with_the_files(tmp_path: Path) -> None:
    """It is read at each opening; the state of a file is compared when a chunk of it is read."""
    files, sizes = [step(tmp_path, number) for number in range(12)], []
    for count in (2, 12):
        refs = tmp_path / f"{count}.parquet"
        nczarr.join(files[:count], refs, virtual=True)
        sizes.append((refs / ".zmetadata").stat().st_size)
    assert sizes[1] - sizes[0] < 20, "only lengths have more digits"
    os.utime(files[3], ns=(1, 1))
    with nczarr.Dataset(tmp_path / "12.parquet") as found:
        assert found["v"][:12, 0].tolist() == [np.float32(n // 4 + n % 4 * 1000 / 7) for n in range(12)]
        with pytest.raises(NCZarrError, match=r"3\.nc.*has changed since the references were written"):
            found["v"][:]


def test_a_file_that_changes_while_it_is_referred_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "a.nc"
    large(source, "NETCDF4")
    plain = virtual.find_references

    def slow(*given: Any) -> Any:
        os.utime(source, ns=(1, 1))
        return plain(*given)

    monkeypatch.setattr(virtual, "find_references", slow)
    with pytest.raises(NCZarrError, match="has changed while"):
        nczarr.copy(source, tmp_path / "refs.json", virtual=True)
    assert [p.name for p in tmp_path.iterdir()] == ["a.nc"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["#1.nc", "a b%20.nc", "é?.nc", "o ü/a.nc"])
def test_names_that_urls_escape(tmp_path: Path, name: str, kind: str) -> None:
    source = tmp_path / name
    source.parent.mkdir(exist_ok=True)
    large(source, "NETCDF4")
    if kind == "icechunk" and "/" in name:
        with pytest.raises(UnsupportedError, match="folder"):
            nczarr.copy(source, tmp_path / "refs.icechunk", virtual=True)
        return
    nczarr.copy(source, tmp_path / f"refs.{kind}", virtual=True)
    assert list(nczarr.diff(source, tmp_path / f"refs.{kind}")) == []


@pytest.mark.parametrize("said", [[], 7, [7], "text"])
def test_odd_states_of_files_are_an_error(tmp_path: Path, said: Any) -> None:
    large(tmp_path / "a.nc", "NETCDF4")
    nczarr.copy(tmp_path / "a.nc", tmp_path / "refs.json", virtual=True)
    document = json.loads((tmp_path / "refs.json").read_text())
    document["nczarr_files"] = {str(tmp_path / "a.nc"): said} if said else said
    (tmp_path / "refs.json").write_text(json.dumps(document))
    with pytest.raises(NCZarrError):
        list(nczarr.diff(tmp_path / "a.nc", tmp_path / "refs.json"))


def test_refusals(tmp_path: Path) -> None:
    large(tmp_path / "a.nc", "NETCDF4")
    with pytest.raises(UnsupportedError, match=r"NAME\.json"):
        nczarr.copy(tmp_path / "a.nc", tmp_path / "a.zarr", virtual=True)
    with pytest.raises(UnsupportedError, match="virtual="):
        nczarr.copy(tmp_path / "a.nc", tmp_path / "a.json", virtual=True, chunks="x=1")
    (tmp_path / "a.json").write_text("mine")
    with pytest.raises(DatasetExistsError):
        nczarr.copy(tmp_path / "a.nc", tmp_path / "a.json", virtual=True)
    for kind in ("parquet", "icechunk"):
        (tmp_path / f"mine.{kind}").mkdir()
        (tmp_path / f"mine.{kind}" / "file").write_text("mine")
        with pytest.raises(DatasetExistsError, match="never overwritten"):
            nczarr.copy(tmp_path / "a.nc", tmp_path / f"mine.{kind}", virtual=True, overwrite=True)
        nczarr.copy(tmp_path / "a.nc", tmp_path / f"b.{kind}", virtual=True)
        with pytest.raises(DatasetExistsError, match="overwrite=True"):
            nczarr.copy(tmp_path / "a.nc", tmp_path / f"b.{kind}", virtual=True)
        nczarr.copy(DATA / "example.nc", tmp_path / f"b.{kind}", virtual=True, overwrite=True)
        assert list(nczarr.diff(DATA / "example.nc", tmp_path / f"b.{kind}", allow=str(DATA))) == []
    assert not list(tmp_path.glob(".*"))
    with h5py.File(tmp_path / "f.nc", "w") as file:
        file.create_dataset("v", data=np.arange(100_000), chunks=(1000,), compression="lzf")
    with pytest.raises(UnsupportedError, match="32000"):
        nczarr.copy(tmp_path / "f.nc", tmp_path / "f.json", virtual=True)
    (tmp_path / "bad.json").write_text('{"refs": 3}')
    with pytest.raises(NCZarrError, match=r"bad\.json"):
        nczarr.copy(tmp_path / "bad.json", tmp_path / "b.zarr")


# --- several files


def days(folder: Path, kind: str, apart: bool) -> list[Path]:
    """Three files with two steps each."""
    rng = np.random.default_rng(3)
    for i in range(3):
        with netCDF4.Dataset(folder / f"day{i}.nc", "w", format=kind) as file:
            for name, size in (("t", None), ("y", 30), ("x", 50)):
                file.createDimension(name, size)
            options: dict[str, Any] = {"zlib": True, "chunksizes": (1, 30, 25)} if kind == "NETCDF4" else {}
            file.createVariable("t", "f8", ("t",))[:] = [2 * i * apart, 2 * i * apart + 1]
            file.createVariable("v", "i4", ("t", "y", "x"), **options)[:] = rng.integers(0, 99, (2, 30, 50))
            file.createVariable("mask", "i4", ("y", "x"))[:] = np.arange(1500).reshape(30, 50)
    return sorted(folder.glob("day*.nc"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("along", ["t", "member"])
@pytest.mark.parametrize("form", ["NETCDF4", "NETCDF3_CLASSIC", "NETCDF3_64BIT_DATA"])
def test_joined_files(tmp_path: Path, form: str, along: str, kind: str) -> None:
    files = days(tmp_path, form, along == "t")
    refs = tmp_path / f"refs.{kind}"
    nczarr.join(files, refs, virtual=True, along=along)
    nczarr.join(files, tmp_path / "all.zarr", along=along)
    assert list(nczarr.diff(tmp_path / "all.zarr", refs)) == []
    if kind == "json":
        keys = json.loads(refs.read_text())["refs"]
        assert {Path(v[0]) for v in keys.values() if isinstance(v, list)} == set(files)


def test_files_whose_chunks_make_no_grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i, (steps, chunk, level) in enumerate([(4, 4, 1), (3, 4, 1), (4, 4, 1), (4, 4, 2), (4, 2, 1)]):
        with netCDF4.Dataset(tmp_path / f"{i}.nc", "w") as file:
            file.createDimension("t", None)
            file.createDimension("x", 1000)
            v = file.createVariable(
                "v", "f8", ("t", "x"), chunksizes=(chunk, 1000), zlib=True, complevel=level
            )
            v[:] = np.arange(steps * 1000.0).reshape(steps, 1000) + i

    def names(*numbers: int) -> list[Path]:
        return [tmp_path / f"{i}.nc" for i in numbers]

    nczarr.join(names(0, 2, 1), tmp_path / "ok.json", virtual=True, along="t")
    nczarr.join(names(0, 2, 1), tmp_path / "ok.zarr", along="t")
    assert list(nczarr.diff(tmp_path / "ok.zarr", tmp_path / "ok.json")) == []
    nczarr.join(names(0, 1, 2), tmp_path / "inline.json", virtual=True, along="t")
    nczarr.join(names(0, 1, 2), tmp_path / "inline.zarr", along="t")
    assert list(nczarr.diff(tmp_path / "inline.zarr", tmp_path / "inline.json")) == []
    monkeypatch.setenv("NCZARR_MAX_INLINE_BYTES", "50000")
    for wrong, text in ((names(0, 1, 2), r"1\.nc.*do not fill whole chunks"),
                        (names(0, 4), r"4\.nc.*chunks are of")):  # fmt: skip
        with pytest.raises(UnsupportedError, match=text):
            nczarr.join(wrong, tmp_path / "no.json", virtual=True, along="t")
        assert not (tmp_path / "no.json").exists()
    with pytest.raises(UnsupportedError, match="NCZARR_MAX_INLINE_BYTES=88000"):
        nczarr.join(names(0, 1, 2), tmp_path / "no.json", virtual=True, along="t")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_daily_files_with_the_chunks_that_netcdf_chooses(tmp_path: Path, kind: str) -> None:
    """netCDF-C gives an unlimited time chunks of 512, of which a day of eight steps fills none."""
    files = []
    for day in range(80):
        files.append(tmp_path / f"day{day:02}.nc")
        with netCDF4.Dataset(files[-1], "w") as file:
            file.createDimension("time", None)
            file.createDimension("x", 300)
            time = file.createVariable("time", "f8", ("time",))
            time.units = "hours since 2000-01-01"
            time[:] = np.arange(8.0) * 3 + 24 * day
            v = file.createVariable("v", "f4", ("time", "x"), chunksizes=(8, 300), zlib=True)
            v[:] = np.arange(2400.0).reshape(8, 300) + day
            assert time.chunking() == [512]
    refs = tmp_path / f"refs.{kind}"
    nczarr.join(files, refs, virtual=True)
    with nczarr.Dataset(refs) as found:  # more files than the last 4,096 bytes of the references name
        assert found["time"][:].tolist() == (np.arange(640.0) * 3).tolist()
        assert found["v"][-1].tolist() == (np.arange(2100.0, 2400.0) + 79).tolist()
    if kind == "parquet":
        with xr.open_dataset(str(refs), engine="nczarr") as seen:
            assert seen.sizes["time"] == 640


# --- growing


def step(folder: Path, number: int, chunk: int = 2) -> Path:
    with netCDF4.Dataset(folder / f"{number}.nc", "w") as file:
        file.createDimension("time")
        file.createDimension("x", 1000)
        time = file.createVariable("time", "f8", ("time",))
        time.units = "hours since 2026-10-01"
        time[:] = 24 * number + 6 * np.arange(4)
        file.createVariable("x", "f4", ("x",))[:] = np.arange(1000)
        v = file.createVariable("v", "f4", ("time", "x"), chunksizes=(chunk, 500), zlib=True, shuffle=True)
        v[:] = number + np.arange(4000).reshape(4, 1000) / 7
        file.createVariable("raw", ">i4", ("time", "x"), chunksizes=(chunk, 500), endian="big")[:] = number
    return folder / f"{number}.nc"


def referred(refs: Path) -> Counter[str]:
    """How many chunks of each variable are in each file, for references in JSON."""
    keys = json.loads(refs.read_text())["refs"]
    return Counter(
        f"{key.partition('/')[0]} {Path(v[0]).name}" for key, v in keys.items() if isinstance(v, list)
    )


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_references_grow_and_are_a_source(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    refs, files = tmp_path / f"refs.{kind}", [step(tmp_path, number) for number in range(4)]
    nczarr.join(files, tmp_path / "all.zarr")
    nczarr.join(files[:2], refs, virtual=True)
    nczarr.append(files[2], refs)
    assert main(["append", str(files[3]), str(refs)]) == 0
    assert list(nczarr.diff(tmp_path / "all.zarr", refs)) == []
    again = tmp_path / "again.json"
    nczarr.copy(refs, again, virtual=True)
    assert list(nczarr.diff(tmp_path / "all.zarr", again)) == []
    own = again if kind == "parquet" else refs
    assert referred(own) == Counter({f"{v} {n}.nc": 4 for v in ("v", "raw") for n in range(4)})
    # Whatever is refused leaves the references as they were.
    before = nczarr.digest(refs)
    with pytest.raises(UnsupportedError, match=r"/time has .*steps are repeated"):
        nczarr.append(files[3], refs)
    with pytest.raises(
        UnsupportedError, match=r"replace=True: references get steps behind their last one only"
    ):
        nczarr.append(files[3], refs, replace=True)
    lock = FileLock(str(refs))
    with pytest.raises(LockedError, match="another process appends to the references"):
        nczarr.append(step(tmp_path, 4), refs)
    lock.release()
    assert nczarr.digest(refs) == before
    nczarr.append(tmp_path / "4.nc", refs)
    with nczarr.Dataset(refs) as found:
        assert found["time"][:].tolist() == [6.0 * n for n in range(20)]
        assert found["raw"][:, 0].tolist() == [n // 4 for n in range(20)]


def test_steps_in_other_chunks_are_stored_beside_the_references(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refs, files = tmp_path / "refs.json", [step(tmp_path, 0), step(tmp_path, 1, 4)]
    nczarr.join(files, tmp_path / "all.zarr")
    nczarr.join(files[:1], refs, virtual=True, along="time")
    monkeypatch.setenv("NCZARR_MAX_INLINE_BYTES", "16000")
    with pytest.raises(
        UnsupportedError, match=r"1\.nc.*chunks are of \(4, 500\).*NCZARR_MAX_INLINE_BYTES=32000"
    ):
        nczarr.append(files[1], refs)
    assert referred(refs) == Counter({"v 0.nc": 4, "raw 0.nc": 4})
    monkeypatch.delenv("NCZARR_MAX_INLINE_BYTES")
    with caplog.at_level("INFO", "nczarr"):
        nczarr.append(files[1], refs)
    assert "v: the chunks are of (4, 500)" in caplog.text
    assert list(nczarr.diff(tmp_path / "all.zarr", refs)) == []
    assert referred(refs) == Counter()


def test_a_dataset_with_an_attribute_of_the_name_has_no_references(tmp_path: Path) -> None:
    (tmp_path / "a.cdl").write_text("netcdf a { :record_size = 5; }")
    nczarr.copy(tmp_path / "a.cdl", tmp_path / "a.zarr", layout="zarr-v2")
    assert b'"record_size"' in (tmp_path / "a.zarr" / ".zmetadata").read_bytes()
    assert not is_references(tmp_path / "a.zarr")
    with nczarr.Dataset(tmp_path / "a.zarr") as found:
        assert found.record_size == 5


# --- Parquet and Icechunk


def test_many_chunks_of_which_few_were_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual, "RECORD", 100)
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 300)
        file.createDimension("y", 2)
        v = file.createVariable("v", "f4", ("x", "y"), chunksizes=(2, 1), fill_value=-1.0)
        for place in (0, 99, 200, 299):
            v[place, place % 2] = place
    refs = tmp_path / "refs.parquet"
    nczarr.copy(tmp_path / "a.nc", refs, virtual=True)
    assert sorted(p.name for p in (refs / "v").iterdir()) == ["refs.0.parq", "refs.1.parq", "refs.2.parq"]
    assert list(nczarr.diff(tmp_path / "a.nc", refs)) == []
    local = {"remote_protocol": "file"}
    with xr.open_dataset(str(refs), engine="kerchunk", storage_options=local) as found:
        written = found["v"][[0, 1, 99, 200, 298, 299]]
        assert int(written.notnull().sum()) == 4


def test_icechunk_sessions(tmp_path: Path) -> None:
    icechunk = pytest.importorskip("icechunk")
    data = large(tmp_path / "a.nc", "NETCDF4")
    prefix = f"file://{tmp_path}/"
    config = icechunk.RepositoryConfig.default()
    storage = icechunk.local_filesystem_storage(str(tmp_path / "repo"))
    bare = icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path / "bare")))
    with pytest.raises(UnsupportedError, match="no virtual chunk container"):
        nczarr.copy(tmp_path / "a.nc", bare.writable_session("main").store, virtual=True)
    container = icechunk.VirtualChunkContainer(prefix, icechunk.local_filesystem_store(str(tmp_path)))
    config.set_virtual_chunk_container(container)
    repository = icechunk.Repository.create(storage, config, authorize_virtual_chunk_access={prefix: None})
    session = repository.writable_session("main")
    nczarr.copy(tmp_path / "a.nc", session.store, virtual=True)
    session.commit("references")
    group = zarr_python.open_group(repository.readonly_session("main").store, mode="r")
    array = group["v"]
    assert isinstance(array, zarr_python.Array)
    np.testing.assert_array_equal(array[:], data)
    # Icechunk detects the change of the file, and so does nczarr.
    later = (tmp_path / "a.nc").stat().st_mtime + 10
    os.utime(tmp_path / "a.nc", (later, later))
    with nczarr.Dataset(repository.readonly_session("main").store) as dataset, pytest.raises(NCZarrError):
        dataset["v"][:]


WITHOUT = """
import os
import sys

class Missing:
    def find_spec(self, name, *rest):
        if name in ("pandas", "fastparquet"):
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Missing())
import nczarr

nczarr.copy(sys.argv[1], sys.argv[2], virtual=True)
print(list(nczarr.diff(sys.argv[1], sys.argv[2], allow=os.path.dirname(sys.argv[1]))))
"""


@pytest.mark.slow
def test_parquet_needs_pyarrow_only(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT, str(FILES[0]), str(tmp_path / "refs.parquet")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr

"""Scan files: later commands open no source for what a scan has read, and notice what has changed since."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
from dirty_archives import KINDS, make

import nczarr
from nczarr.cli import main
from nczarr.convert import open_source
from nczarr.convert.many import joining
from nczarr.convert.many import scan as scanning
from nczarr.convert.many.scan import ScanFile, ScanRow
from nczarr.errors import DatasetExistsError, NCZarrError, UnsupportedError
from nczarr.model import Dataset, rewrite, same_values

pytest.importorskip("pyarrow")
DATA = Path(__file__).parents[1] / "data"
FILES = sorted(DATA.glob("*.nc"))


def daily(path: Path, day: int) -> Path:
    """A file with chunks of one step, and text along the joined dimension."""
    with netCDF4.Dataset(path, "w") as file:
        file.history = f"day {day}"
        for name, size in (("time", None), ("lat", 20), ("lon", 60)):
            file.createDimension(name, size)
        time = file.createVariable("time", "f8", ("time",))
        time.units, time[:] = f"days since 2000-01-{day + 1:02}", [0]
        file.createVariable("lat", "f4", ("lat",))[:] = np.arange(20)
        file.createVariable("name", str, ("lat",))[:] = np.array([f"row {i}" for i in range(20)], object)
        v = file.createVariable("v", "f4", ("time", "lat", "lon"), zlib=True, chunksizes=(1, 20, 60))
        v[:] = np.arange(1200).reshape(1, 20, 60) + day
    return path


@pytest.fixture
def days(tmp_path: Path) -> list[Path]:
    (tmp_path / "in").mkdir()
    return [daily(tmp_path / "in" / f"{day}.nc", day) for day in range(5)]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the sources that joining and scanning open."""
    names: list[str] = []

    def noting(plain: Any) -> Any:
        def open_it(source: Any, *arguments: Any, **keywords: Any) -> Any:
            names.append(os.path.basename(str(source)))
            return plain(source, *arguments, **keywords)

        return open_it

    monkeypatch.setattr(joining, "open_processed", noting(joining.open_processed))
    monkeypatch.setattr(scanning, "open_source", noting(scanning.open_source))
    return names


def without_data(dataset: Dataset) -> Dataset:
    return rewrite(dataset, variable=lambda fqn, v: v.with_data(None))


@pytest.mark.parametrize(
    "path", [*FILES, *sorted((DATA / "stores").glob("*.zarr"))[:4]], ids=lambda p: p.name
)
def test_a_header_is_exact(path: Path) -> None:
    """Its model, the values of its small variables, and the places of its chunks are those of the source."""
    header = ScanRow.read(str(path), None)
    found, values = header.model()
    with open_source(path, fresh=True) as dataset:
        assert without_data(found) == without_data(dataset)
        assert (found.left_out, found.gone) == (dataset.left_out, dataset.gone)
        for fqn, mine in values.items():
            data = dataset.all_variables[fqn].data
            assert data is not None
            assert same_values(mine, data.read(tuple(slice(0, n) for n in data.shape)))
            assert mine.dtype == data.dtype
        for fqn, variable in dataset.all_variables.items():
            ask = getattr(variable.data, "chunk_places", None)
            places = None if ask is None else ask()
            assert header.places(fqn) == (None if places is None else replace(places, file=None))
    assert len(FILES) > 10


@pytest.mark.parametrize("options", [{}, {"executor": "threads"}], ids=["here", "workers"])
def test_each_source_is_opened_once(
    days: list[Path], tmp_path: Path, opened: list[str], options: dict[str, Any]
) -> None:
    scan = tmp_path / "scan.parquet"
    with ThreadPoolExecutor(2) as pool:
        if options:
            options = {"executor": pool}
        assert nczarr.scan(str(tmp_path / "in" / "*.nc"), scan, **options) == (5, 5)
    names = [path.name for path in days]
    assert sorted(opened) == names
    opened.clear()
    plan = nczarr.join(scan, tmp_path / "no.zarr", dry_run=True)
    nczarr.join(scan, tmp_path / "refs.json", virtual=True)
    assert opened == []
    nczarr.join(scan, tmp_path / "a.zarr", resume=True)
    assert opened == names
    nczarr.join(days, tmp_path / "b.zarr")
    nczarr.join(days, tmp_path / "refs2.json", virtual=True)
    assert plan == nczarr.join(days, tmp_path / "no.zarr", dry_run=True)
    assert nczarr.digest(tmp_path / "a.zarr") == nczarr.digest(tmp_path / "b.zarr")
    refs = [json.loads((tmp_path / name).read_bytes())["refs"] for name in ("refs.json", "refs2.json")]
    assert refs[0]["v/0.0.0"] == refs[1]["v/0.0.0"]
    assert [len(found) for found in refs] == [len(refs[0])] * 2
    assert nczarr.digest(tmp_path / "refs.json", allow=[str(tmp_path)]) == nczarr.digest(tmp_path / "a.zarr")


def test_the_workers_of_a_copy_read_the_headers(days: list[Path], tmp_path: Path, opened: list[str]) -> None:
    with ThreadPoolExecutor(2) as pool:
        nczarr.join(days, tmp_path / "a.zarr", executor=pool)
    assert opened.count("3.nc") <= 2  # for its header, and for its values
    nczarr.join(days, tmp_path / "b.zarr")
    assert nczarr.digest(tmp_path / "a.zarr") == nczarr.digest(tmp_path / "b.zarr")


def test_what_has_changed_is_named_and_read_again(
    days: list[Path], tmp_path: Path, opened: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    scan = tmp_path / "scan.parquet"
    command = ["scan", str(tmp_path / "in" / "*.nc"), "-o", str(scan)]
    assert main(command) == 0
    with netCDF4.Dataset(days[2], "a") as file:
        file["v"][:] = 7
    os.utime(days[2], ns=(1, 1))
    daily(tmp_path / "in" / "5.nc", 5)
    assert main(["join", str(scan), str(tmp_path / "a.zarr")]) == 1
    said = capsys.readouterr().err
    assert "changed since they were scanned" in said
    assert str(days[2]) in said
    assert str(days[1]) not in said
    opened.clear()
    assert main([*command, "--progress", "json"]) == 0
    assert opened == ["2.nc", "5.nc"]
    assert "6 sources, 2 opened" in capsys.readouterr().err
    assert main(["join", "-q", str(scan), str(tmp_path / "a.zarr")]) == 0
    with nczarr.Dataset(tmp_path / "a.zarr") as found:
        assert (found["v"][2] == 7).all()
        assert found["time"][:].tolist() == [0, 1, 2, 3, 4, 5]
    days[0].unlink()
    with pytest.raises(NCZarrError, match=r"changed since they were scanned:\n.*0\.nc"):
        nczarr.join(scan, tmp_path / "b.zarr")


def test_a_file_that_changes_during_the_copy_is_refused(days: list[Path], tmp_path: Path) -> None:
    scan = tmp_path / "scan.parquet"
    nczarr.scan(days, scan)

    class Changes:
        def start(self, total: int) -> None:
            os.utime(days[4], ns=(1, 1))

        def advance(self, count: int, fqn: str) -> None: ...

        def finish(self) -> None: ...

    with pytest.raises(NCZarrError, match=r"4\.nc: the file has changed"):
        nczarr.join(scan, tmp_path / "a.zarr", progress=Changes())
    assert not (tmp_path / "a.zarr").exists()


def test_damaged_files_are_named_and_the_old_scan_stays(days: list[Path], tmp_path: Path) -> None:
    scan = tmp_path / "scan.parquet"
    nczarr.scan(days[:2], scan)
    before = scan.read_bytes()
    for number in (1, 3):
        days[number].write_bytes(days[number].read_bytes()[:700])
    with pytest.raises(NCZarrError, match=r"1\.nc") as caught:
        nczarr.scan(days, scan)
    assert "3.nc" in str(caught.value.__notes__)
    assert scan.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "scan.parquet"]


def test_what_is_no_scan_file(days: list[Path], tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    other, text = tmp_path / "other.parquet", tmp_path / "text.parquet"
    parquet.write_table(pyarrow.table({"a": [1]}), other)
    text.write_text("not Parquet")
    for path in (other, text):
        with pytest.raises(UnsupportedError, match="not a scan file"):
            nczarr.join(path, tmp_path / "a.zarr")
        with pytest.raises(DatasetExistsError, match="never overwritten"):
            nczarr.scan(days, path)
    with pytest.raises(UnsupportedError, match=r"\.parquet"):
        nczarr.scan(days, tmp_path / "scan.json")
    with pytest.raises(UnsupportedError, match="with a name"):
        nczarr.scan(Dataset("d"), tmp_path / "scan.parquet")
    assert text.read_text() == "not Parquet"
    scan = tmp_path / "scan.parquet"
    nczarr.scan(days, scan)
    table = parquet.read_table(scan)
    column = pyarrow.array([b"{}"] * 5)
    parquet.write_table(table.set_column(table.column_names.index("document"), "document", column), scan)
    with pytest.raises(NCZarrError):
        nczarr.join(scan, tmp_path / "a.zarr")
    data = bytearray(scan.read_bytes())
    nczarr.scan(days, tmp_path / "good.parquet")
    data = bytearray((tmp_path / "good.parquet").read_bytes())
    data[len(data) // 2] ^= 0xFF
    (tmp_path / "good.parquet").write_bytes(data)
    with pytest.raises(NCZarrError):
        nczarr.join(tmp_path / "good.parquet", tmp_path / "a.zarr")


def test_rows_are_read_in_groups(days: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "_GROUP", 2)
    nczarr.scan(days, tmp_path / "scan.parquet")
    scan = ScanFile(str(tmp_path / "scan.parquet"))
    for number in (4, 0, 3, 1, 2):
        assert scan.header(number).source == str(days[number])
    assert nczarr.scan(days[::-1], tmp_path / "scan.parquet") == (5, 0)
    assert ScanFile(str(tmp_path / "scan.parquet")).sources == [str(path) for path in days[::-1]]


@pytest.mark.filterwarnings("ignore:repack=")
@pytest.mark.parametrize("name", [name for name in KINDS if KINDS[name].cures][::4])
def test_a_dirty_archive_is_joined_alike(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    paths = make(kind, tmp_path / "in")
    nczarr.scan(paths, tmp_path / "scan.parquet")
    for options in ({}, kind.cures[0]):
        found = []
        for source in (paths, tmp_path / "scan.parquet"):
            store: dict[str, bytes] = {}
            try:
                nczarr.join(source, store, **options)
                found.append(str(nczarr.digest(store).dataset))
            except NCZarrError as error:
                assert not options
                found.append(str(error))
        assert found[0] == found[1]


def titled(dataset: Dataset) -> Dataset:
    from nczarr.model import Attribute

    return replace(dataset, attributes=(*dataset.attributes, Attribute.of("title", dataset.name)))


def test_a_function_for_each_file_gets_the_file(days: list[Path], tmp_path: Path) -> None:
    nczarr.scan(days, tmp_path / "scan.parquet")
    nczarr.join(tmp_path / "scan.parquet", tmp_path / "a.zarr", preprocess=titled)
    with nczarr.Dataset(tmp_path / "a.zarr") as found:
        assert found.title == "0"

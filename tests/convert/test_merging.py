"""Merge files of different variables: groups, names, selections, other targets."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest

import nczarr
from nczarr.cli import main
from nczarr.convert import Report
from nczarr.convert.many.adjusting import fitted
from nczarr.convert.values.resume import MANIFEST
from nczarr.errors import NCZarrError
from nczarr.model import INT, Attribute, Dataset, Dimension, Group, MemorySource, Variable


def month(
    path: Path, name: str, first: int, units: str = "days since 2000-01-01", *, bounds: bool = False
) -> None:
    """Write three days of a variable, numbered from a day of 2000."""
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("time")
        file.createDimension("lat", 2)
        days = np.arange(3.0) + first
        time = file.createVariable("time", "f8", ("time",))
        time.units = units
        times = netCDF4.date2num(netCDF4.num2date(days, "days since 2000-01-01"), units)
        time[:] = times
        if bounds:
            file.createDimension("nv", 2)
            time.bounds = "time_bnds"
            file.createVariable("time_bnds", "f8", ("time", "nv"))[:] = np.stack([times, times + 24], 1)
        file.createVariable("lat", "f4", ("lat",))[:] = [10, 20]
        v = file.createGroup("model").createVariable(name, "f4", ("time", "lat"))
        v[:] = days[:, None] + [0, 0.5]
        file.title = path.stem


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("tas", "pr"):
        for first in (0, 3):
            month(tmp_path / f"{name}_{first}.nc", name, first)
    return tmp_path


WANTED = (np.arange(6)[:, None] + [0, 0.5]).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("target", ["out.zarr", "out.nc", "out.json"])
def test_variables_and_steps_in_one_command(archive: Path, target: str) -> None:
    more = ["--virtual"] if target == "out.json" else ["--verify"]
    assert main(["join", "*_*.nc", target, "--along", "time", "--merge", "-q", *more]) == 0
    with nczarr.Dataset(target) as found:
        assert found["time"][:].tolist() == list(range(6))
        assert found["model/tas"][:].tolist() == found["model/pr"][:].tolist() == WANTED
        assert found.dimensions["time"].isunlimited()
        assert found.title == "pr_0"


def test_merged_months_are_appended(archive: Path) -> None:
    nczarr.join(["tas_0.nc", "pr_0.nc"], "out.zarr", along=None)
    nczarr.append(["pr_3.nc", "tas_3.nc"], "out.zarr", merge=True)
    with nczarr.Dataset("out.zarr") as found:
        assert found["model/tas"][:].tolist() == found["model/pr"][:].tolist() == WANTED
    nczarr.append(["pr_3.nc", "tas_3.nc"], "out.zarr", merge=True, replace=True)
    with pytest.raises(NCZarrError, match="3 steps along /time are there already"):
        nczarr.append(["pr_3.nc", "tas_3.nc"], "out.zarr", merge=True)


def test_bounds_of_one_file_follow_its_times(archive: Path) -> None:
    month(archive / "pr_0.nc", "pr", 0, "hours since 1999-12-31", bounds=True)
    nczarr.join(["tas_0.nc", "pr_0.nc"], "out.zarr", along=None, join="first")
    with nczarr.Dataset("out.zarr") as found:
        assert found["time"][:].tolist() == [0, 1, 2]
        assert found["time_bnds"][:].tolist() == [[0, 1], [1, 2], [2, 3]]


def test_patterns_and_ranges_reach_over_all_files(archive: Path) -> None:
    files = ["tas_0.nc", "tas_3.nc", "pr_0.nc"]
    with pytest.raises(
        NCZarrError, match=r"/time: the dimension has the size 3, not 6.*select= selects a common part"
    ):
        nczarr.join(files, "no.zarr", merge=True)
    part = {"time": slice("2000-01-02", "2000-01-03")}
    nczarr.join(files, "out.zarr", merge=True, select=part, variables="pr", rename={"/model/pr": "p"})
    with nczarr.Dataset("out.zarr") as found:
        assert found["time"][:].tolist() == [1, 2]
        assert found["model/p"][:].tolist() == WANTED[1:3]
        assert "tas" not in found["model"].variables
    with pytest.raises(NCZarrError, match="variables='snow'"):
        nczarr.join(files[::2], "no.zarr", along=None, variables="snow")
    with pytest.raises(NCZarrError, match="select='depth'"):
        nczarr.join(files, "no.zarr", merge=True, select={"depth": 0})
    with pytest.raises(NCZarrError, match="tolerance='depth'"):
        nczarr.join(files[::2], "no.zarr", along=None, tolerance={"depth": 1.0})


def test_a_file_without_the_joined_dimension_may_be_first(archive: Path) -> None:
    field = Dataset("f", dimensions=(Dimension("lat", 2),), variables=(one("area", "/lat", [7, 8]),))
    nczarr.copy(field, "area.nc")
    nczarr.join(["area.nc", "tas_0.nc", "tas_3.nc"], "out.zarr", merge=True)
    with nczarr.Dataset("out.zarr") as found:
        assert found["area"][:].tolist() == [7, 8]
        assert found["model/tas"][:].tolist() == WANTED


def one(name: str, dimension: str, values: list[int]) -> Variable:
    return Variable(name, INT, (dimension,), data=MemorySource(np.array(values, "i4")))


def test_a_dimension_that_no_variable_has_is_no_conflict() -> None:
    a = Dataset("a", dimensions=(Dimension("x", 2), Dimension("y", 3)), variables=(one("a", "/x", [1, 2]),))
    b = Dataset("b", dimensions=(Dimension("x", 9), Dimension("y", 1)), variables=(one("b", "/y", [5]),))
    for pair in ([a, b], [b, a]):
        store: dict[str, bytes] = {}
        nczarr.join(pair, store, along=None)
        with nczarr.Dataset(store) as found:
            assert found["a"][:].tolist(), found["b"][:].tolist() == ([1, 2], [5])


def test_another_kind_of_node_of_the_same_name_is_refused() -> None:
    a = Dataset("a", dimensions=(Dimension("x", 2),), variables=(one("n", "/x", [1, 2]),))
    b = Dataset("b", groups=(Group("n", attributes=(Attribute.of("title", "a group"),)),))
    with pytest.raises(NCZarrError, match=re.escape("/n: another kind of node has the name of this group")):
        nczarr.join([a, b], {}, along=None)


def test_attributes_of_all_files_are_kept() -> None:
    def file(name: str) -> Dataset:
        inside = Group("g", attributes=(Attribute.of(name, "g"),))
        v = Variable(
            "v", INT, ("/t",), attributes=(Attribute.of(name, "v"),), data=MemorySource(np.array([3], "i4"))
        )
        time = one("t", "/t", [ord(name)])
        own = (Attribute.of(name, "d"),)
        return Dataset(
            name, attributes=own, dimensions=(Dimension("t", 1),), variables=(time, v), groups=(inside,)
        )

    for options in ({"along": "t"}, {"along": None, "exclude": "t"}):
        store: dict[str, bytes] = {}
        nczarr.join([file("a"), file("b")], store, **options)
        with nczarr.Dataset(store) as found:
            for node in (found, found["v"], found["g"]):
                assert node.ncattrs() == ["a", "b"]


def test_all_conflicts_are_named(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    month(archive / "snow_3.nc", "snow", 3)
    assert main(["join", "tas_0.nc", "pr_3.nc", "snow_3.nc", "out.zarr", "--merge", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)["error"]
    assert "pr_3.nc: /time: the values differ" in str(said)
    assert not Path("out.zarr").exists()
    assert main(["join", "tas_0.nc", "pr_3.nc", "snow_3.nc", "out.zarr", "--merge"]) == 1
    err = capsys.readouterr().err
    assert "pr_3.nc: /time: the values differ" in err
    assert "snow_3.nc: /time: the values differ" in err


class Ends:
    """Interrupts after some blocks."""

    def start(self, total: int) -> None:
        self.left = 4

    def advance(self, count: int, fqn: str) -> None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt

    def finish(self) -> None: ...


def contents(folder: str) -> dict[str, bytes]:
    found = {str(p.relative_to(folder)): p.read_bytes() for p in Path(folder).rglob("*") if p.is_file()}
    found.pop("zarr.json", None)  # each dataset has an identity of its own
    return found


def test_a_merge_is_resumed(archive: Path) -> None:
    merge: dict[str, Any] = {"merge": True, "chunks": "time=1", "resume": True}
    nczarr.join("*_*.nc", "whole.zarr", **merge)
    with pytest.raises(KeyboardInterrupt):
        nczarr.join("*_*.nc", "out.zarr", progress=Ends(), workers=1, memory=64, **merge)
    blocks = [json.loads(line) for line in Path("out.zarr", MANIFEST).read_text().splitlines()[1:]]
    assert blocks
    assert not Path("out.zarr/zarr.json").exists()
    for _ in range(2):  # the second one finds a complete dataset
        nczarr.join("*_*.nc", "out.zarr", **merge)
        assert contents("out.zarr") == contents("whole.zarr")
    with pytest.raises(NCZarrError, match=r"not a copy of this source|exists already"):
        nczarr.join(["tas_0.nc", "tas_3.nc"], "out.zarr", resume=True)


@pytest.mark.slow
def test_a_scan_file_stands_for_the_files(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nczarr.join("*_*.nc", "whole.zarr", merge=True)
    assert nczarr.scan("*_*.nc", "scan.parquet") == (4, 4)
    for executor in (None, "processes"):
        target = f"{executor}.zarr"
        nczarr.join("scan.parquet", target, merge=True, executor=executor, workers=1)
        assert contents(target) == contents("whole.zarr")

    def opened(*_: Any, **__: Any) -> None:
        raise AssertionError("a file was opened")

    monkeypatch.setattr("nczarr.convert.many.joining.open_processed", opened)
    report = Report()
    nczarr.join("scan.parquet", "no.zarr", merge=True, dry_run=True, report=report)
    assert {v.fqn for v in report.variables} == {"/time", "/lat", "/model/tas", "/model/pr"}


def test_each_file_is_compared_with_its_own_names_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the time grows with the square of the number of files."""
    compared: list[int] = []

    def counting(pair: list[Dataset], *arguments: Any) -> Any:
        compared.append(len(pair[0].all_variables))
        return fitted(pair, *arguments)

    monkeypatch.setattr("nczarr.convert.many.joining.fitted", counting)
    files = [
        Dataset(
            "d",
            dimensions=(Dimension("x", 2),),
            variables=(one("x", "/x", [1, 2]), one(f"v{i}", "/x", [i, i])),
        )
        for i in range(40)
    ]
    store: dict[str, bytes] = {}
    nczarr.join([*files, files[7]], store, along=None)
    assert compared == [1] * 39 + [2]
    with nczarr.Dataset(store) as found:
        assert list(found.variables) == ["x", *[f"v{i}" for i in range(40)]]


def test_a_dimension_that_an_earlier_file_uses_is_a_conflict() -> None:
    a, b = (Dataset(n, dimensions=(Dimension("x", 2),), variables=(one(n, "/x", [1, 2]),)) for n in "ab")
    c = Dataset(
        "c", dimensions=(Dimension("x", 3), Dimension("y", 1)), variables=(one("c", "/x", [1, 2, 3]),)
    )
    with pytest.raises(NCZarrError, match="/x: the dimension has the size 3, not 2"):
        nczarr.join([a, b, c], {}, along=None)

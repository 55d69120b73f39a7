"""Record the sources of a dataset, and append only those that it does not contain."""

from __future__ import annotations

import hashlib
import itertools
import json
from contextlib import suppress
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr
from dying_store import Died, DyingStore

import nczarr
from nczarr.cli import main
from nczarr.convert import Report, open_source
from nczarr.errors import NCZarrError
from nczarr.mapping.dataset.maintenance import clean
from nczarr.model.nodes import IngestedSource
from nczarr.stores import MemoryStore


def day(name: str, first: int, value: float = 0, count: int = 2, variable: str = "v") -> str:
    with netCDF4.Dataset(name, "w") as file:
        file.createDimension("time")
        file.createVariable("time", "f8", ("time",))[:] = np.arange(first, first + count)
        file.createVariable(variable, "f4", ("time",))[:] = value + np.arange(first, first + count)
    return name


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for number in range(3):
        day(f"{number}.nc", 2 * number)


def recorded(target: str) -> dict[str, tuple[int, int] | None]:
    with open_source(target) as dataset:
        for source in dataset.sources:
            assert source.sha256 == hashlib.sha256(Path(source.name).read_bytes()).hexdigest()
            assert source.size == Path(source.name).stat().st_size
        return {source.name: source.steps for source in dataset.sources}


def test_sources_are_recorded_and_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["join", "0.nc", "1.nc", "a.zarr", "--along", "time", "--record-sources", "-q"]) == 0
    assert recorded("a.zarr") == {"0.nc": (0, 2), "1.nc": (2, 4)}
    report = Report()
    nczarr.append(["0.nc", "./1.nc", "2.nc"], "a.zarr", report=report)
    assert (report.sources, report.skipped) == (1, 2)
    assert recorded("a.zarr") == {"0.nc": (0, 2), "1.nc": (2, 4), "2.nc": (4, 6)}
    nczarr.append(["0.nc", "1.nc"], "a.zarr")
    with nczarr.Dataset("a.zarr") as found:
        assert found["v"][:].tolist() == list(range(6))
    assert main(["sources", "a.zarr"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 3
    assert out[2].startswith("2.nc  steps 4:6  ")
    assert main(["sources", "a.zarr", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[1]["steps"] == [2, 4]


def test_another_version_of_a_source_is_refused() -> None:
    nczarr.join(["0.nc", "1.nc"], "a.zarr", record_sources=True)
    day("1.nc", 2, value=100)
    with pytest.raises(
        NCZarrError, match=r"1\.nc: the dataset contains another version .*nczarr.append with replace="
    ):
        nczarr.append(["1.nc", "2.nc"], "a.zarr")
    nczarr.append(["1.nc", "2.nc"], "a.zarr", replace=True)
    assert recorded("a.zarr") == {"0.nc": (0, 2), "1.nc": (2, 4), "2.nc": (4, 6)}
    with nczarr.Dataset("a.zarr") as found:
        assert found["v"][:].tolist() == [0, 1, 102, 103, 4, 5]


def test_records_of_variables_and_gaps() -> None:
    for number in (0, 1):
        day(f"w{number}.nc", 2 * number, variable="w")
    nczarr.join(["0.nc", "w0.nc", "1.nc", "w1.nc"], "a.zarr", merge=True, record_sources=True)
    assert recorded("a.zarr") == {"0.nc": (0, 2), "1.nc": (2, 4), "w0.nc": (0, 2), "w1.nc": (2, 4)}
    nczarr.append([day("w2.nc", 4, variable="w"), "2.nc"], "a.zarr", merge=True)
    assert recorded("a.zarr")["w2.nc"] == recorded("a.zarr")["2.nc"] == (4, 6)
    nczarr.join(["0.nc", "2.nc"], "b.zarr", expect_step="1", join="fill", record_sources=True)
    assert recorded("b.zarr") == {"0.nc": (0, 2), "2.nc": (4, 6)}
    nczarr.join(["0.nc", "1.nc"], "c.zarr", select={"time": slice(1, 3)}, record_sources=True)
    assert recorded("c.zarr") == {"0.nc": None, "1.nc": None}


def test_the_record_survives_other_changes() -> None:
    wanted = {"0.nc": (0, 2), "1.nc": (2, 4)}
    for _ in range(2):
        nczarr.join(["0.nc", "1.nc"], "a.zarr", record_sources=True, resume=True)
    assert recorded("a.zarr") == wanted
    with nczarr.Dataset("a.zarr", "a") as found:
        assert found.ncattrs() == []
        found.title = "changed"
        found["v"][4] = 7
    assert main(["repair", "a.zarr"]) == 0
    assert main(["consolidate", "a.zarr"]) == 0
    assert recorded("a.zarr") == wanted
    assert main(["check", "a.zarr"]) == 0
    nczarr.join(["0.nc", "1.nc"], "a.zarr", record_sources=True, overwrite=True)
    assert recorded("a.zarr") == wanted
    nczarr.copy("a.zarr", "b.zarr")
    assert recorded("b.zarr") == {}
    nczarr.join(["0.nc", "1.nc"], "a.zarr", overwrite=True)
    assert recorded("a.zarr") == {}


def test_other_readers_see_no_record() -> None:
    nczarr.join(["0.nc", "1.nc"], "a.zarr", record_sources=True)
    nczarr.join(["0.nc", "1.nc"], "b.zarr")
    with xr.open_zarr("a.zarr") as a, xr.open_zarr("b.zarr") as b:
        assert a.identical(b)
    assert sorted(zarr.open_group("a.zarr", mode="r")) == ["time", "v"]
    assert not list(nczarr.convert.diff("a.zarr", "b.zarr"))
    assert nczarr.digest("a.zarr").dataset == nczarr.digest("b.zarr").dataset


@pytest.mark.slow
@pytest.mark.parametrize("consolidated", [True, False])
@pytest.mark.parametrize("coordinate", ["time", "none"])
def test_an_append_that_ends_early_is_neither_lost_nor_repeated(coordinate: str, consolidated: bool) -> None:
    """The record names the steps before the lengths grow, so that the next append finds them."""
    for number in range(3):
        with netCDF4.Dataset(f"{number}.nc", "w") as file:
            file.createDimension("time")
            for name in (coordinate, "v", "w"):
                file.createVariable(name, "f4", ("time",))[:] = np.arange(2) + 2 * number
    for steps in itertools.count():
        store = MemoryStore()
        nczarr.copy("0.nc", store, record_sources=True, consolidated=consolidated)
        try:
            nczarr.append(["0.nc", "1.nc"], DyingStore(store, steps))
        except Died:
            clean(store, force=True)  # the mark of the writer that has died
            nczarr.append(["0.nc", "1.nc", "2.nc"], store)
        else:
            break
        with nczarr.Dataset(store) as found:
            for name in (coordinate, "v", "w"):
                assert found[name][:].tolist() == list(range(6)), steps
        with open_source(store) as dataset:
            assert [s.steps for s in dataset.sources] == [None, (2, 4), (4, 6)]
            assert all(s.sha256 for s in dataset.sources)
    assert steps > 8


def test_steps_without_a_coordinate_are_not_guessed() -> None:
    """Another program has appended after an append that has not ended."""
    store = MemoryStore()
    for number in range(3):
        nczarr.copy(f"{number}.nc", f"{number}.zarr", only="v")
    nczarr.copy("0.zarr", store, record_sources=True)
    with suppress(Died):
        nczarr.append("1.zarr", DyingStore(store, 4))
    clean(store, force=True)
    with nczarr.Dataset(store, "a") as found:
        found["v"][2:5] = [7, 8, 9]
    with pytest.raises(
        NCZarrError, match=r"begun with the steps 2:4 along /time and has not ended.* 5 steps"
    ):
        nczarr.append("1.zarr", store)
    with nczarr.Dataset(store) as found:
        assert found["v"][:].tolist() == [0, 1, 7, 8, 9]


def test_a_store_is_a_source_too() -> None:
    nczarr.copy("0.nc", "0.zarr")
    nczarr.copy("1.nc", "1.zarr")
    nczarr.copy("0.zarr", "a.zarr", record_sources=True)
    nczarr.append(["0.zarr", "1.zarr"], "a.zarr")
    with open_source("a.zarr") as dataset:
        assert [source.name for source in dataset.sources] == ["0.zarr", "1.zarr"]
        assert all(source.version for source in dataset.sources)


def test_a_record_begins_with_an_append() -> None:
    nczarr.copy("0.nc", "a.zarr")
    nczarr.append("1.nc", "a.zarr", record_sources=True)
    assert recorded("a.zarr") == {"1.nc": (2, 4)}


@pytest.mark.parametrize("target", ["a.nc", "a.cdl", "plain.zarr", "v2.zarr"])
def test_targets_without_a_place_are_refused(target: str) -> None:
    layout = {"plain.zarr": {"layout": "zarr-v3"}, "v2.zarr": {"layout": "nczarr-v2"}}.get(target, {})
    with pytest.raises(NCZarrError, match="record_sources="):
        nczarr.copy("0.nc", target, record_sources=True, **layout)  # type: ignore[arg-type]
    assert not Path(target).exists()


def test_damaged_records_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    nczarr.copy("0.nc", "a.zarr", record_sources=True, consolidated=False)
    path = Path("a.zarr/zarr.json")
    document = json.loads(path.read_text())
    own = document["attributes"]["_nczarr_superblock"]["sources"]
    own += [3, {"name": 1}, {"name": "x", "steps": [1]}, {"name": "y", "size": "big"}]
    path.write_text(json.dumps(document))
    assert list(recorded("a.zarr")) == ["0.nc"]
    assert main(["check", "a.zarr"]) == 1
    assert "is not a source" in capsys.readouterr().out


def test_contents_are_compared() -> None:
    a = IngestedSource("a", sha256="1")
    assert a.is_same(IngestedSource("b", sha256="1"))
    assert not a.is_same(IngestedSource("a", sha256="2"))
    assert a.differs(IngestedSource("a", sha256="2"))
    assert not a.is_same(IngestedSource("a", version="1"))
    assert not a.differs(IngestedSource("a", version="1"))

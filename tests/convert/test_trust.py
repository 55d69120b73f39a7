"""Digests, comparison, the plan of a copy, and copies that were killed and go on."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import zarr as zarr_python
from hypothesis import given
from hypothesis import strategies as st

import nczarr
from nczarr.cli import main
from nczarr.convert import Report, ValueDifference, diff
from nczarr.convert.values.resume import MANIFEST
from nczarr.convert.verify.digests import bands
from nczarr.errors import NCZarrError, UnsupportedError
from nczarr.model import DOUBLE, Dataset, Dimension, MemorySource, Storage, Variable

DATA = Path(__file__).parents[1] / "data"
EXAMPLE = DATA / "example.nc"


# --- digest


@pytest.mark.parametrize("nc", sorted(DATA.glob("*.nc")), ids=lambda p: p.name)
def test_the_digest_is_that_of_the_meaning(nc: Path, tmp_path: Path) -> None:
    wanted = nczarr.digest(nc)
    nczarr.copy(nc, tmp_path / "a.zarr", chunk_bytes=512, compression="none", layout="nczarr-v3")
    nczarr.copy(tmp_path / "a.zarr", tmp_path / "a.cdl")
    assert nczarr.digest(tmp_path / "a.zarr") == wanted
    if nc.name not in ("names.nc", "bits.nc", "foreign.nc"):
        assert nczarr.digest(tmp_path / "a.cdl") == wanted


def test_the_digest_sees_every_change(tmp_path: Path) -> None:
    nczarr.copy(EXAMPLE, tmp_path / "a.zarr")
    before = nczarr.digest(tmp_path / "a.zarr")
    with nczarr.Dataset(tmp_path / "a.zarr", "a") as dataset:
        dataset["/ocean/salt"][0, 0, 0] = 1.5
    after = nczarr.digest(tmp_path / "a.zarr")
    changed = {fqn for fqn in before.variables if before.variables[fqn] != after.variables[fqn]}
    assert changed == {"/ocean/salt"}
    assert before.dataset != after.dataset
    with nczarr.Dataset(tmp_path / "a.zarr", "a") as dataset:
        dataset.title = "another"
    assert nczarr.digest(tmp_path / "a.zarr").variables == after.variables
    assert nczarr.digest(tmp_path / "a.zarr").dataset != after.dataset


def test_a_stored_digest_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["copy", "-q", "--digest", str(EXAMPLE), str(tmp_path / "a.zarr")]) == 0
    assert main(["digest", "--check", str(tmp_path / "a.zarr")]) == 0
    assert main(["digest", "--check", str(EXAMPLE)]) == 1
    with nczarr.Dataset(tmp_path / "a.zarr", "a") as dataset:
        dataset["/lat"][0] = 0
    assert main(["digest", "--check", str(tmp_path / "a.zarr")]) == 1
    assert "stored digest" in capsys.readouterr().err
    assert main(["digest", "--json", "--variables", str(EXAMPLE)]) == 0
    assert json.loads(capsys.readouterr().out)[0]["sha256"] == nczarr.digest(EXAMPLE).dataset


@given(st.lists(st.integers(0, 6), max_size=4), st.integers(1, 40), st.integers(1, 5))
def test_bands_are_in_row_major_order(shape: list[int], limit: int, chunk: int) -> None:
    array = np.arange(int(np.prod(shape, dtype=int))).reshape(shape)
    pieces = [array[region].reshape(-1) for region in bands(tuple(shape), 1, (chunk,) * len(shape), limit)]
    np.testing.assert_array_equal(np.concatenate([*pieces, []]), array.reshape(-1))


# --- diff


def one(values: np.ndarray) -> Dataset:
    data = MemorySource(values)
    return Dataset(
        "d", dimensions=(Dimension("x", len(values)),), variables=(Variable("v", DOUBLE, ("/x",), data=data),)
    )


numbers = st.floats(allow_nan=True, width=64)


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=30), st.sampled_from([0.0, 1e-9, 0.5]))
def test_diff_counts_as_numpy_does(pairs: list[tuple[float, float]], rtol: float) -> None:
    x, y = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
    found = list(diff(one(x), one(y), rtol=rtol, places=4))
    with np.errstate(all="ignore"):
        wanted = (
            (x.view("u8") != y.view("u8"))
            if not rtol
            else ~np.isclose(x, y, rtol=rtol, atol=0, equal_nan=True)
        )
    if not wanted.any():
        assert found == []
        return
    (difference,) = found
    assert isinstance(difference, ValueDifference)
    assert difference.count == wanted.sum()
    assert [p[0][0] for p in difference.places] == np.flatnonzero(wanted)[:4].tolist()
    assert difference.to_json()["count"] == difference.count


def test_diff_speaks_of_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nczarr.copy(EXAMPLE, tmp_path / "a.zarr")
    with nczarr.Dataset(tmp_path / "a.zarr", "a") as dataset:
        dataset["/lat"][2:4] = dataset["/lat"][2:4] + 0.25
    assert main(["diff", str(EXAMPLE), str(tmp_path / "a.zarr")]) == 1
    assert "2 of 18 values differ, by 0.25 at most" in capsys.readouterr().out
    assert main(["diff", "--atol", "0.3", str(EXAMPLE), str(tmp_path / "a.zarr")]) == 0
    assert main(["diff", "--json", "--places", "9", str(EXAMPLE), str(tmp_path / "a.zarr")]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert [p["index"] for p in found["places"]] == [[2], [3]]


# --- the plan


def test_the_plan_is_what_is_written(tmp_path: Path) -> None:
    options: dict[str, Any] = {"chunks": "lat=3", "shards": {"lat": 18}, "compression": "zstd:2"}
    report = Report()
    nczarr.copy(EXAMPLE, tmp_path / "a.zarr", dry_run=True, report=report, **options)
    assert list(tmp_path.iterdir()) == []
    nczarr.copy(EXAMPLE, tmp_path / "a.zarr", **options)
    group = zarr_python.open_group(tmp_path / "a.zarr", mode="r")
    for planned in report.variables:
        array = group[planned.fqn.lstrip("/")]
        assert isinstance(array, zarr_python.Array)
        assert array.chunks == planned.chunks
        assert array.shards == planned.shards
    assert {v.fqn for v in report.variables} == {f"/{a}" for a, node in group.members(max_depth=None)
                                                 if isinstance(node, zarr_python.Array)}  # fmt: skip


def test_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["copy", "--json", str(EXAMPLE), str(tmp_path / "a.zarr")]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["sources"] == 1
    assert said["bytes_in"] == EXAMPLE.stat().st_size
    assert said["bytes_out"] == sum(p.stat().st_size for p in (tmp_path / "a.zarr").rglob("*") if p.is_file())


# --- resume


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty variables, each a block of its own."""
    path = tmp_path_factory.mktemp("large") / "large.nc"
    rng = np.random.default_rng(5)
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 100_000)
        for i in range(60):
            file.createVariable(f"v{i}", "f8", ("x",), zlib=True, complevel=1)[:] = rng.random(100_000)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL")
def test_killed_copies_go_on(large: Path, tmp_path: Path) -> None:
    nczarr.copy(large, tmp_path / "whole.zarr")
    out = tmp_path / "out.zarr"
    command = [sys.executable, "-m", "nczarr", "copy", "-q", "--resume", str(large), str(out)]
    kills = finished = 0
    written: dict[str, int] = {}
    dice = random.Random(7)
    while True:
        with subprocess.Popen(command) as child:
            wait = dice.uniform(0.2, 3)
            end = time.monotonic() + wait
            while child.poll() is None and time.monotonic() < end:
                if (out / MANIFEST).exists() and (not kills or dice.random() < 0.02):
                    break
                time.sleep(0.002)
            if child.poll() is not None:
                assert child.returncode == 0
                break
            child.send_signal(signal.SIGKILL)
        kills += 1
        if not (out / MANIFEST).exists():
            continue
        listed = (out / MANIFEST).read_text().splitlines()[1:]
        with pytest.raises(NCZarrError):  # nothing is visible before it is whole
            nczarr.Dataset(out)
        for line in listed:
            try:
                fqn = json.loads(line)[0]
            except ValueError:
                continue
            stamp = (out / fqn.strip("/") / "c" / "0").stat().st_mtime_ns
            assert written.setdefault(fqn, stamp) == stamp, f"{fqn} was written twice"
        assert len(listed) >= finished
        finished = len(listed)
        if kills > 40:
            subprocess.run(command, check=True)
            break
    assert kills
    assert contents(out) == contents(tmp_path / "whole.zarr")


def unfinished(source: Any, out: Path, **options: Any) -> None:
    """Leave what a killed copy leaves: a source that stops after some blocks stands for the kill."""

    class Stop(BaseException):
        pass

    class Ends:
        def start(self, total: int) -> None:
            self.count = 0

        def advance(self, count: int, fqn: str) -> None:
            self.count += 1
            if self.count == 5:
                raise Stop

        def finish(self) -> None:
            pass

    with pytest.raises(Stop):
        nczarr.copy(source, out, resume=True, progress=Ends(), workers=1, **options)


def test_an_interrupt_keeps_what_is_finished(large: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.zarr"
    unfinished(large, out)
    assert (out / MANIFEST).exists()
    with pytest.raises(NCZarrError):
        nczarr.Dataset(out)
    with pytest.raises(NCZarrError, match="--resume"):
        nczarr.copy(large, out)
    done = [json.loads(line)[0] for line in (out / MANIFEST).read_text().splitlines()[1:]]
    stamps = {fqn: (out / fqn[1:] / "c" / "0").stat().st_mtime_ns for fqn in done}
    damaged = done[0]
    (out / damaged[1:] / "c" / "0").write_bytes(b"nonsense")
    nczarr.copy(large, out, resume=True)
    assert list(nczarr.diff(large, out)) == []
    assert not (out / MANIFEST).exists()
    for fqn, stamp in stamps.items():
        assert ((out / fqn[1:] / "c" / "0").stat().st_mtime_ns == stamp) == (fqn != damaged)


@pytest.mark.parametrize("change", ["options", "source", "touched"])
def test_another_copy_is_not_gone_on_with(large: Path, tmp_path: Path, change: str) -> None:
    out, source = tmp_path / "out.zarr", tmp_path / "source.nc"
    source.write_bytes(large.read_bytes())
    unfinished(source, out)
    before = contents(out)
    options: dict[str, Any] = {"compression": "none"} if change == "options" else {}
    if change == "touched":
        os.utime(source, ns=(1, 1))
    with pytest.raises(UnsupportedError, match="--overwrite starts anew"):
        nczarr.copy(EXAMPLE if change == "source" else source, out, resume=True, **options)
    assert contents(out) == before
    nczarr.copy(EXAMPLE, out, overwrite=True)
    assert list(nczarr.diff(EXAMPLE, out)) == []


def test_a_file_cannot_be_gone_on_with(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="--resume"):
        nczarr.copy(EXAMPLE, tmp_path / "a.nc", resume=True)
    assert list(tmp_path.iterdir()) == []


def test_memory_bound_is_kept(tmp_path: Path) -> None:
    """Blocks under way are never more than the bound, both forms of each counted."""
    alive = [0, 0]

    class Counted(MemorySource):
        def read(self, region: Any, out: Any = None) -> np.ndarray:
            values = super().read(region, out)
            alive[0] = max(alive[0], values.nbytes)
            return values

    x = np.zeros((64, 1 << 17))
    v = Variable("v", DOUBLE, ("/t", "/x"), storage=Storage("chunked", (4, 1 << 17)), data=Counted(x))
    dimensions = (Dimension("t", 64), Dimension("x", 1 << 17))
    nczarr.copy(Dataset("d", dimensions=dimensions, variables=(v,)), tmp_path / "a.zarr", memory="20MiB")
    assert alive[0] <= 10 << 20

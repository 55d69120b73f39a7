"""Limits of memory, sizes of chunks, and damaged files, each refused or kept to before anything is written."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import netCDF4
import numpy as np
import pytest

import nczarr
from nczarr.errors import NCZarrError, UnsupportedError
from nczarr.model import FLOAT, ArraySource, Dataset, Dimension, Region, Storage, Variable
from tests.convert.test_many_files import day


@dataclass(frozen=True, eq=False)
class Counting:
    """Counts how often a read decodes each chunk of an array of zeros."""

    shape: tuple[int, ...]
    chunk_shape: tuple[int, ...]
    dtype: np.dtype = field(default_factory=lambda: np.dtype("f4"))
    seen: Counter[tuple[int, ...]] = field(default_factory=Counter)

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        ranges = [
            range(s.start // c, (s.stop - 1) // c + 1) for s, c in zip(region, self.chunk_shape, strict=True)
        ]
        self.seen.update((i, j) for i in ranges[0] for j in ranges[1])
        return np.zeros([s.stop - s.start for s in region], "f4")


@pytest.mark.parametrize("chunks", [{"t": 1, "x": 1024}, {"t": 64, "x": 16}, {"t": 8, "x": 8}])
def test_little_memory_decodes_no_chunk_many_times(tmp_path: Path, chunks: dict[str, int]) -> None:
    data: ArraySource = Counting((64, 1024), (64, 64))
    sizes = (Dimension("t", 64), Dimension("x", 1024))
    v = Variable("v", FLOAT, ("/t", "/x"), storage=Storage("chunked", (64, 64)), data=data)
    of_chunk = 64 * 64 * 4
    source = Dataset("d", dimensions=sizes, variables=(v,))
    nczarr.copy(source, tmp_path / "a.zarr", chunks=chunks, memory=of_chunk * 5 // 2, workers=4)
    assert max(data.seen.values()) <= 2


def test_a_dry_run_refuses_memory_for_less_than_a_chunk(tmp_path: Path) -> None:
    source = day(tmp_path / "a.nc", 0)
    for dry_run in (True, False):
        with pytest.raises(UnsupportedError, match="memory="):
            nczarr.copy(source, tmp_path / "a.zarr", memory=1, dry_run=dry_run)
    assert not (tmp_path / "a.zarr").exists()


def test_the_size_of_chunks_holds_where_no_length_is_given(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        for name, size in (("t", 4), ("y", 100), ("x", 100)):
            file.createDimension(name, size)
        file.createVariable("v", "f8", ("t", "y", "x"))[:] = 1
    nczarr.copy(tmp_path / "a.nc", tmp_path / "a.zarr", chunks={"t": 1}, chunk_bytes=8000)
    with nczarr.Dataset(tmp_path / "a.zarr") as seen:
        assert seen["v"].chunking() == [1, 10, 100]


@pytest.mark.parametrize("bad", [np.nan, netCDF4.default_fillvals["f8"]])
@pytest.mark.parametrize("append", [False, True])
def test_a_missing_time_is_refused(tmp_path: Path, bad: float, append: bool) -> None:
    files = [day(tmp_path / f"{i}.nc", i) for i in range(3)]
    with netCDF4.Dataset(files[2], "a") as file:
        file["time"][-1] = bad
    if append:
        nczarr.join(files[:2], tmp_path / "a.zarr")
    verb, sources = (nczarr.append, files[2:]) if append else (nczarr.join, files)
    with pytest.raises(UnsupportedError, match=r"/time has the missing value .* in 1 steps") as caught:
        verb(sources, tmp_path / "a.zarr")
    assert "2.nc" in str(caught.value)


def test_fractions_name_their_file(tmp_path: Path) -> None:
    files = [day(tmp_path / f"{i}.nc", i) for i in range(3)]
    for number, path in enumerate(files):
        with netCDF4.Dataset(path, "a") as file:
            file.renameVariable("time", "old")
            t = file.createVariable("time", "i4", ("time",))
            t.units = f"{'hours' if number else 'days'} since 2020-01-01"
            t[:] = np.arange(4) + 4 * number if number == 0 else 96 + 24 * np.arange(4) + 96 * number
    with netCDF4.Dataset(files[2], "a") as file:
        file["time"][-1] += 1
    with pytest.raises(UnsupportedError, match="would be stored as") as caught:
        nczarr.join(files, tmp_path / "a.zarr", exclude="old")
    assert "2.nc" in str(caught.value)


@pytest.mark.parametrize("verb", [nczarr.copy, nczarr.join])
def test_all_damaged_files_are_named_at_once(tmp_path: Path, verb: Callable[..., object]) -> None:
    files = [day(tmp_path / f"{i}.nc", i) for i in range(4)]
    for path in (files[1], files[3]):
        path.write_bytes(path.read_bytes()[:1000])
    out = tmp_path / "out.zarr" if verb is nczarr.join else f"{tmp_path}/out/"
    with pytest.raises(NCZarrError) as caught:
        verb(files, out)
    assert "1.nc" in str(caught.value)
    assert ["3.nc" in note for note in caught.value.__notes__] == [True]


@pytest.mark.slow
def test_a_terminated_copy_says_what_becomes_of_its_output(tmp_path: Path) -> None:
    program = """
import os, signal, sys
import numpy as np
from nczarr.cli import main
from nczarr import transfer
from nczarr.convert import filling
whole = transfer.transfer
def then_end(*arguments):
    whole(*arguments)
    os.kill(os.getpid(), signal.SIGTERM)
transfer.transfer = then_end
filling._RECORDED = 0
sys.exit(main(sys.argv[1:]))
"""
    source = day(tmp_path / "a.nc", 0)
    for more, says in (([], "--resume keeps it"), (["--resume"], "the finished part is kept")):
        run = subprocess.run(
            [sys.executable, "-c", program, "copy", str(source), str(tmp_path / "a.zarr"), *more],
            capture_output=True,
            text=True,
        )
        assert run.returncode == 128 + signal.SIGTERM
        assert says in run.stderr


def test_a_netcdf_target_says_why_it_cannot_resume(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="does not show which of its values are written"):
        nczarr.copy(day(tmp_path / "a.nc", 0), tmp_path / "b.nc", resume=True)


@pytest.mark.slow
def test_the_deepest_groups_go_through_every_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCZARR_MAX_DEPTH", "200")
    inside = "".join(f"group: g{i} {{ variables: int v(x); data: v = {i}, 2; " for i in range(200))
    first = tmp_path / "a.cdl"
    first.write_text(f"netcdf a {{ dimensions: x = 2; {inside}{'}' * 201}")
    source = first
    for name in ("a.zarr", "b.nc", "c.zarr.zip", "d.cdl"):
        nczarr.copy(source, tmp_path / name)
        source = tmp_path / name
    assert list(nczarr.diff(first, source)) == []

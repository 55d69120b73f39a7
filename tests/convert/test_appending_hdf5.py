"""Append steps to netCDF-4 files: a reader sees the old dataset or the new one, also after a kill."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nczarr
from nczarr import cdl
from nczarr.errors import NCZarrError
from nczarr.system.locks import FileLock

#: A variable along time: its declaration, and what its step t has.
KINDS = {
    'double d(time, x) ; d:_DeflateLevel = 3 ; d:_Shuffle = "true" ; d:_Fletcher32 = "true" ;': "{t}.5, {t}.25",
    "short s(time) ; s:_FillValue = -1s ;": "{t}",
    "string text(time) ;": '"step {t}"',
    "char c(time, x) ;": '"a{d}"',
    "row r(time) ;": "{{{t}, {t}}}",
    "pair p(time) ;": "{{{t}, {t}.5}}",
    "colour k(time) ;": "green",
    "int chunked(x, time) ; chunked:_ChunkSizes = 2, 3 ;": None,
}
Choice = st.lists(st.sampled_from(sorted(KINDS)), unique=True, max_size=5)


def dataset(kinds: list[str], first: int, stop: int, inside: bool) -> nczarr.model.Dataset:
    """The steps from one to another; what is in a step depends on its number only."""
    steps = range(first, stop)
    variables, data = (
        ["double time(time) ;", "int fixed(x) ;"],
        [f"time = {', '.join(map(str, steps))} ;", "fixed = 7, 8 ;"],
    )
    for kind in kinds:
        name = kind.split("(")[0].split()[-1]
        said = KINDS[kind]
        if said is None:
            values = [f"{{{', '.join(str(row * 100 + t) for t in steps)}}}" for row in range(2)]
        else:
            values = [said.format(t=t, d=t % 10) for t in steps]
        variables.append(kind)
        data.append(f"{name} = {', '.join(values)} ;")
    body = f"variables: {' '.join(variables)} " + (f"data: {' '.join(data)}" if len(steps) else "")
    group = f"group: g {{ {body} }}" if inside else body
    return cdl.loads(
        "netcdf d { types: int(*) row ; compound pair { int a ; float b ; } ; byte enum colour { red = 0, green = 1 } ;"
        f" dimensions: time = UNLIMITED ; x = 2 ; {group} }}"
    )


@pytest.mark.slow
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kinds=Choice,
    lengths=st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3)),
    inside=st.booleans(),
)
def test_is_as_written_whole(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[str], lengths: tuple[int, int, int], inside: bool
) -> None:
    folder = tmp_path_factory.mktemp("steps")
    target, whole = folder / "target.nc", folder / "whole.nc"
    ends = np.cumsum(lengths).tolist()
    nczarr.copy(dataset(kinds, 0, ends[0], inside), target, format="nc4")
    for first, stop in pairwise(ends):
        nczarr.append(dataset(kinds, first, stop, inside), target)
    nczarr.copy(dataset(kinds, 0, ends[-1], inside), whole, format="nc4")
    assert list(nczarr.diff(whole, target, storage=True)) == []
    with netCDF4.Dataset(target) as theirs, netCDF4.Dataset(whole) as wanted:
        left, right = (f["g"] if inside else f for f in (theirs, wanted))
        for name in wanted["g"].variables if inside else wanted.variables:
            assert str(left[name][...]) == str(right[name][...])
    # One step of what is there and one more.
    last = ends[-1]
    more = dataset(kinds, last - 1, last + 1, inside)
    with pytest.raises(NCZarrError, match="there already") if not inside else pytest.raises(NCZarrError):
        nczarr.append(more, target, **({"replace": True} if inside else {}))
    if not inside:
        nczarr.append(more, target, replace=True)
        assert list(nczarr.diff(dataset(kinds, 0, last + 1, inside), target)) == []
    assert [p.name for p in folder.iterdir() if p.name.startswith(".")] == []


def two(folder: Path) -> tuple[Path, Path]:
    kinds = sorted(KINDS)
    nczarr.copy(dataset(kinds, 0, 3, False), folder / "target.nc", format="nc4")
    nczarr.copy(dataset(kinds, 3, 5, False), folder / "more.nc", format="nc4")
    return folder / "target.nc", folder / "more.nc"


def test_what_only_the_file_has_stays(tmp_path: Path) -> None:
    target, more = two(tmp_path)
    with h5py.File(target, "r+") as file:
        file.attrs["_NCProperties"] = np.bytes_(b"version=2,made=by hand")
        created = file["d"].id.get_create_plist().get_chunk()
    os.chmod(target, 0o640)
    reader = netCDF4.Dataset(target)
    nczarr.append(more, target)
    assert len(reader.dimensions["time"]) == 3
    assert reader["d"][:].shape == (3, 2)
    reader.close()
    assert target.stat().st_mode & 0o777 == 0o640
    with h5py.File(target) as file:
        assert file["d"].shape == (5, 2)
        assert file["d"].id.get_create_plist().get_chunk() == created
        assert file.attrs["_NCProperties"] == b"version=2,made=by hand"


@pytest.mark.parametrize("format_", ["classic", "nc4"])
def test_replacing_is_done_in_one_step(tmp_path: Path, format_: str) -> None:
    text = (
        "netcdf d {{ dimensions: time = UNLIMITED; variables: int time(time); int v(time);"
        " data: time = {}; v = {}; }}"
    )
    target = tmp_path / "a.nc"
    nczarr.copy(cdl.loads(text.format("0, 1, 2", "5, 6, 7")), target, format=format_)
    before = netCDF4.Dataset(target)
    nczarr.append(cdl.loads(text.format("1, 2, 3", "60, 70, 80")), target, replace=True)
    assert before["v"][:].tolist() == [5, 6, 7]
    before.close()
    with netCDF4.Dataset(target) as after:
        assert after["v"][:].tolist() == [5, 60, 70, 80]
        assert after.disk_format == ("NETCDF3" if format_ == "classic" else "HDF5")


def test_a_file_without_an_order_of_objects_is_written_anew(tmp_path: Path) -> None:
    target, more = tmp_path / "a.nc", tmp_path / "b.nc"
    for path, values in ((target, [0, 1]), (more, [2, 3])):
        with h5py.File(path, "w") as file:  # h5py keeps no order
            time = file.create_dataset("time", data=np.array(values, "f8"), maxshape=(None,), chunks=(4,))
            time.make_scale("time")
    nczarr.append(more, target)
    with netCDF4.Dataset(target) as found:
        assert found["time"][:].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("wrong", ["order", "type", "locked", "source"])
def test_what_does_not_fit_leaves_the_file(tmp_path: Path, wrong: str) -> None:
    target, more = two(tmp_path)
    lock = None
    if wrong == "order":
        nczarr.copy(dataset(sorted(KINDS), 0, 1, False), more, overwrite=True)
    elif wrong == "type":
        nczarr.copy(
            cdl.loads("netcdf d { dimensions: time = UNLIMITED; variables: int time(time); }"),
            more,
            overwrite=True,
        )
    elif wrong == "source":
        data = bytearray(more.read_bytes())
        data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
        more.write_bytes(data)
    else:
        lock = FileLock(str(target))
    before = target.read_bytes()
    with pytest.raises(NCZarrError):
        nczarr.append(more, target)
    if lock is not None:
        lock.release()
    assert target.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["more.nc", "target.nc"]


def test_of_two_that_append_one_is_told(tmp_path: Path) -> None:
    target, more = two(tmp_path)

    class Appends(nczarr.transfer.NoProgress):
        def start(self, total: int) -> None:
            nczarr.append(more, target)

    with pytest.raises(NCZarrError, match="another process changed the file"):
        nczarr.append(more, target, progress=Appends())
    with netCDF4.Dataset(target) as found:
        assert found["time"][:].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL")
def test_a_kill_leaves_the_old_file_or_the_new(tmp_path: Path) -> None:
    target, more = two(tmp_path)
    nczarr.copy(target, tmp_path / "whole.nc")
    nczarr.append(more, tmp_path / "whole.nc")
    old, dice = target.read_bytes(), random.Random(3)
    command = [sys.executable, "-m", "nczarr", "append", "-q", str(more), str(target)]
    start = time.monotonic()
    subprocess.run(command, check=True)
    usual = time.monotonic() - start  # of the last one that came to its end
    ends: dict[str, int] = {"old": 0, "new": 0}
    for _ in range(12):
        target.write_bytes(old)
        start = time.monotonic()
        process = subprocess.Popen(command)
        try:
            process.wait(usual * dice.uniform(0.3, 1.1))
            usual = time.monotonic() - start
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        is_old = target.read_bytes() == old
        ends["old" if is_old else "new"] += 1
        if is_old:
            nczarr.append(more, target)
        assert list(nczarr.diff(tmp_path / "whole.nc", target)) == []
        left: list[Any] = [p for p in tmp_path.iterdir() if p.name.startswith(".")]
        assert left == [] or not is_old
    assert ends["old"]


def test_an_interrupt_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, more = two(tmp_path)
    before = target.read_bytes()

    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    # While bytes are copied, while the copy is opened, while values are written, when it is to take its place.
    for where in (
        "shutil.copyfileobj",
        "nczarr.netcdf.edit.opening.edited_file",
        "nczarr.convert.appending.transfer",
        "nczarr.system.atomic.Output.commit",
    ):
        with monkeypatch.context() as patch:
            patch.setattr(where, interrupted)
            with pytest.raises(KeyboardInterrupt):
                nczarr.append(more, target)
        assert target.read_bytes() == before
        assert sorted(p.name for p in tmp_path.iterdir()) == ["more.nc", "target.nc"]
    nczarr.append(more, target)

"""Interrupt and kill copies, and name targets that would damage the source."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import programs
import pytest

import nczarr
from nczarr.errors import DatasetExistsError, LossError, NCZarrError, StoreError
from nczarr.model import DOUBLE, Dataset, Dimension, MemorySource, Storage, Variable, compare
from nczarr.system.atomic import exchange, partial_path

EXAMPLE = Path(__file__).parents[1] / "data" / "example.nc"


class Interrupted:
    """A source during whose second read somebody presses Ctrl-C; it counts the reads that came to their end."""

    def __init__(self) -> None:
        self.inner = MemorySource(np.zeros((64, 1 << 20)))
        self.shape, self.dtype = self.inner.shape, self.inner.dtype
        self.begun = self.ended = 0

    def read(self, region: Any, out: np.ndarray | None = None) -> np.ndarray:
        self.begun += 1
        if self.begun == 2:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)
        values = self.inner.read(region, out)
        self.ended += 1
        return values


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, also where a shell started the tests in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("name", ["out.zarr", "out.nc"])
def test_an_interrupt_does_not_cut_a_read_in_two(tmp_path: Path, name: str) -> None:
    """A read that is thrown out of the HDF5 library would leave its lock locked, and the copy would hang."""
    source = Interrupted()
    storage = Storage("chunked", (1, 1 << 20))
    dimensions = (Dimension("t", 64), Dimension("x", 1 << 20))
    v = Variable("v", DOUBLE, ("/t", "/x"), storage=storage, data=source)
    with pytest.raises(KeyboardInterrupt):
        nczarr.copy(Dataset("d", dimensions=dimensions, variables=(v,)), tmp_path / name)
    assert source.begun == source.ended < 16
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="no way to ask for a process")
@pytest.mark.parametrize("name", ["out.zarr", "out.nc", "out.cdl"])
def test_what_a_killed_writer_left_is_cleared(tmp_path: Path, name: str) -> None:
    target = tmp_path / name
    nczarr.copy(EXAMPLE, target)
    code = (
        "import sys; from nczarr.system.atomic import partial_path as p; f = p(sys.argv[1]);"
        "f.mkdir() if f.name.startswith('.out.zarr') else f.write_text('half')"
    )
    programs.run("-c", code, target, check=True)  # it ends without clearing up
    living = partial_path(target)
    living.write_text("this process still writes it")
    assert len(list(tmp_path.iterdir())) == 2, "the new name cleared the old one"
    programs.run("-c", code, target, check=True)
    nczarr.copy(EXAMPLE, target, overwrite=True)
    assert sorted(tmp_path.iterdir()) == sorted([living, target])
    if name != "out.cdl":
        assert list(nczarr.convert.diff(EXAMPLE, target)) == []


def test_exchange(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / f"was_{name}").touch()
    if not exchange(tmp_path / "a", tmp_path / "b"):
        pytest.skip("this system cannot exchange names")
    assert (tmp_path / "a" / "was_b").exists()
    assert (tmp_path / "b" / "was_a").exists()


def test_source_and_target_inside_each_other(tmp_path: Path) -> None:
    whole = tmp_path / "whole.zarr"
    nczarr.copy(EXAMPLE, whole)
    (tmp_path / "link").symlink_to(whole)
    nczarr.copy(EXAMPLE, whole / "part.zarr")
    for source, target in [
        (whole, tmp_path / "link"),
        (whole, whole / "inner.zarr"),
        (whole, tmp_path / "link" / "inner.nc"),
        (whole, whole / "ocean"),
        (whole / "part.zarr", whole),
        (whole, whole.as_uri()),
    ]:
        with pytest.raises(NCZarrError, match="the same, or one is inside the other"):
            nczarr.copy(source, target, overwrite=True)
    with nczarr.convert.open_source(EXAMPLE) as a, nczarr.convert.open_source(whole / "part.zarr") as b:
        assert list(compare(a, b)) == []


@pytest.mark.parametrize("target", ["", "-", os.devnull, "missing/out.nc", "missing/out.cdl", "folder.cdl"])
def test_targets_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder.cdl").mkdir()
    with pytest.raises(NCZarrError):
        nczarr.copy(EXAMPLE, target, overwrite=True)
    assert [p.name for p in tmp_path.iterdir()] == ["folder.cdl"]


@pytest.mark.skipif(os.name == "nt", reason="the home directory has another variable")
def test_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("a.zarr", "a.nc"):
        nczarr.copy(EXAMPLE, f"~/{name}")
        assert (tmp_path / name).exists()
        assert list(nczarr.convert.diff(EXAMPLE, f"~/{name}")) == []


FULL = """
import os, resource, signal, sys
import nczarr
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sys.dont_write_bytecode = True
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
try:
    nczarr.copy(sys.argv[1], sys.argv[2])
except nczarr.errors.NCZarrError as error:
    print(error, flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="files have no limit to set")
@pytest.mark.parametrize("room", [1000, 12000, 20000, 30000, 36000])
@pytest.mark.parametrize("name", ["out.nc", "out.cdl"])
def test_full_disk(tmp_path: Path, name: str, room: int) -> None:
    """One clear error, and nothing that looks complete; what HDF5 cannot write at closing counts too."""
    done = programs.run("-c", FULL, EXAMPLE, tmp_path / name, room)
    # HDF5 itself complains once more, or crashes, when the process ends: the file is gone by then.
    assert "out." in done.stdout
    assert "cannot" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["nczarr-v3", "zarr-v3", "nczarr-v2", "zarr-v2", "draft-2019"])
@pytest.mark.parametrize("place", ["notes.txt", "mine/notes.txt", "lat/notes.txt", "ocean/temp/notes.txt"])
def test_what_is_no_part_of_the_dataset_is_never_overwritten(layout: str, place: str, tmp_path: Path) -> None:
    out = tmp_path / "a.zarr"
    options: dict[str, Any] = {"layout": layout, "lossy": layout != "nczarr-v3"}
    nczarr.copy(EXAMPLE, out, **options)
    nczarr.copy(EXAMPLE, out, overwrite=True, **options)
    (out / place).parent.mkdir(exist_ok=True, parents=True)
    (out / place).write_text("precious")
    with pytest.raises(DatasetExistsError, match="not a part of the dataset"):
        nczarr.copy(EXAMPLE, out, overwrite=True, **options)
    assert (out / place).read_text() == "precious"
    (out / place).unlink()
    nczarr.copy(EXAMPLE, out, overwrite=True, **options)


def test_what_looks_like_a_draft_by_its_names(tmp_path: Path) -> None:
    """A draft without chunks is known by its root document, and two groups do not make a draft."""
    draft, groups = tmp_path / "draft.zarr", tmp_path / "groups.zarr"
    for _ in range(2):
        nczarr.copy(EXAMPLE.with_name("empty.nc"), draft, layout="draft-2019", overwrite=True)
    with nczarr.Dataset(groups, "w") as ds:
        ds.createGroup("meta")
        ds.createGroup("data")
    (groups / "notes.txt").write_text("precious")
    with pytest.raises(DatasetExistsError, match=r"notes\.txt, which is not a part of the dataset"):
        nczarr.copy(EXAMPLE, groups, overwrite=True)


def test_a_source_that_changes_meanwhile_is_not_believed(tmp_path: Path) -> None:
    source = tmp_path / "a.nc"
    source.write_bytes(EXAMPLE.read_bytes())

    class Touches:
        def start(self, total: int) -> None:
            os.utime(source, ns=(1, source.stat().st_mtime_ns + 1_000_000_000))

        def advance(self, count: int, fqn: str) -> None:
            pass

        def finish(self) -> None:
            pass

    for target in ("a.zarr", "b.nc", "a.cdl"):
        with pytest.raises(NCZarrError, match=r"a\.nc: the file has changed while it was copied"):
            nczarr.copy(source, tmp_path / target, progress=Touches())
    assert list(tmp_path.iterdir()) == [source]


class _Unplugged:
    """Ends a copy with an error after its first values."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def start(self, total: int) -> None:
        pass

    def advance(self, size: int, fqn: str) -> None:
        raise self.error

    def finish(self) -> None:
        pass


@pytest.mark.parametrize(
    ("error", "resume", "stays"),
    [
        (StoreError("the disk is unplugged"), True, True),
        (OSError("unplugged"), True, True),
        # It would occur again.
        (LossError("the format has no such type"), True, False),
        (StoreError("the disk is unplugged"), False, False),
        (OSError("unplugged"), False, False),
    ],
)
def test_what_a_failed_copy_leaves(error: Exception, resume: bool, stays: bool, tmp_path: Path) -> None:
    target = tmp_path / "b.zarr"
    chosen: dict[str, Any] = {"chunks": "time=1"}
    with pytest.raises(type(error)):
        nczarr.copy(
            EXAMPLE, target, resume=resume, progress=_Unplugged(error), memory=30_000, workers=1, **chosen
        )
    assert target.exists() == stays
    assert [path.name for path in tmp_path.iterdir()] == (["b.zarr"] if stays else [])
    if stays:
        with pytest.raises(NCZarrError):
            nczarr.Dataset(target)
    nczarr.copy(EXAMPLE, target, resume=True, verify=True, **chosen)

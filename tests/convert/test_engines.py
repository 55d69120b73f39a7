"""Copy on executors of ``concurrent.futures``: the result has the bytes of a plain copy, also when workers die."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deadly_source import deadly

import nczarr
from nczarr.cli import main
from nczarr.convert.engine import Engine, open_engine
from nczarr.errors import LostWorkersError, NCZarrError, UnsupportedError
from nczarr.mapping.dataset.destination import JOB, UNFINISHED

DATA = Path(__file__).parents[1] / "data"


def processes(workers: int) -> Executor:
    return ProcessPoolExecutor(workers, get_context("spawn"))


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    with processes(2) as pool:
        yield pool


def contents(folder: Path) -> dict[str, bytes]:
    found = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    del found["zarr.json"]  # each dataset has an identity of its own
    return found


@pytest.mark.parametrize("name", ["example.nc", "user_types.nc", "classic.nc"])
@pytest.mark.parametrize("resume", [False, True])
def test_an_executor_makes_a_plain_copy(executor: Executor, tmp_path: Path, name: str, resume: bool) -> None:
    nczarr.copy(DATA / name, tmp_path / "plain.zarr")
    nczarr.copy(DATA / name, tmp_path / "out.zarr", executor=executor, resume=resume)
    assert contents(tmp_path / "out.zarr") == contents(tmp_path / "plain.zarr")
    assert executor.submit(abs, -1).result() == 1  # it is the caller's


def test_the_command_line_starts_processes(tmp_path: Path) -> None:
    nczarr.copy(DATA / "example.nc", tmp_path / "plain.zarr")
    for i, name in enumerate(("processes", "concurrent.futures:ThreadPoolExecutor")):
        out = tmp_path / f"{i}.zarr"
        command = ["copy", "-q", "--executor", name, "--workers", "2", str(DATA / "example.nc"), str(out)]
        assert main(command) == 0
        assert contents(out) == contents(tmp_path / "plain.zarr")


def test_workers_may_die(tmp_path: Path) -> None:
    """A new executor repeats the blocks that were lost; a block that kills each worker is an error."""
    out = tmp_path / "a.zarr"
    nczarr.copy(deadly(tmp_path / "twice", 2), out, executor=processes, workers=2, memory=256)
    with nczarr.Dataset(out) as dataset:
        np.testing.assert_array_equal(dataset["v"][:], np.arange(64.0))
    assert len(os.listdir(tmp_path / "twice")) >= 2
    with pytest.raises(NCZarrError, match="died repeatedly"):
        nczarr.copy(
            deadly(tmp_path / "always", 99), tmp_path / "b.zarr", executor=processes, workers=2, memory=256
        )
    assert not (tmp_path / "b.zarr").exists()


def test_a_lost_executor_leaves_what_resume_goes_on_with(tmp_path: Path) -> None:
    out, source = tmp_path / "a.zarr", deadly(tmp_path / "once", 1)
    with pytest.raises(LostWorkersError, match="workers are lost") as caught, processes(1) as pool:
        nczarr.copy(source, out, executor=pool, memory=256, resume=True)
    assert "resume=True continues" in str(getattr(caught.value, "__notes__", ""))
    assert (out / UNFINISHED).exists()
    assert not (out / JOB).exists()
    nczarr.copy(source, out, resume=True)
    with nczarr.Dataset(out) as dataset:
        np.testing.assert_array_equal(dataset["v"][:], np.arange(64.0))
    assert not [path for path in out.rglob("*") if path.name.startswith(".nczarr-")]


class Silent(Executor):
    """Takes tasks and ends some of them."""

    def __init__(self, ending: int = 0) -> None:
        self.ending = ending

    def submit(self, task: Any, /, *arguments: Any, **keywords: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.ending -= 1
        if self.ending >= 0:
            future.set_result(task(*arguments, **keywords))
        return future


@pytest.mark.parametrize("resume", [False, True])
def test_an_executor_that_ends_no_task_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resume: bool
) -> None:
    monkeypatch.setenv("NCZARR_TASK_SECONDS", "2")
    source, out = deadly(tmp_path / "never", 0), tmp_path / "a.zarr"
    with pytest.raises(LostWorkersError, match=r"waiting for \d tasks of Silent: none .* 2 s") as caught:
        nczarr.copy(source, out, executor=Silent(3), memory=256, resume=resume)
    assert "NCZARR_TASK_SECONDS" in str(caught.value)
    assert "resume=True continues" in str(getattr(caught.value, "__notes__", ""))
    nczarr.copy(source, out, resume=True)
    with nczarr.Dataset(out) as dataset:
        np.testing.assert_array_equal(dataset["v"][:], np.arange(64.0))


def test_processes_that_hang_are_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCZARR_TASK_SECONDS", "8")
    source, out, before = deadly(tmp_path / "hung", 99, seconds=1e6), tmp_path / "a.zarr", active_children()
    with pytest.raises(LostWorkersError, match="tasks of ProcessPoolExecutor"):
        nczarr.copy(source, out, executor="processes", workers=1, memory=256)
    assert set(active_children()) <= set(before)
    assert not out.exists()


def test_workers_end_with_a_killed_copy(tmp_path: Path) -> None:
    """Otherwise they would wait for ever, and their last blocks would be written at any time."""
    code = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from nczarr.convert.engine import open_engine
if __name__ == "__main__":
    with open_engine("processes", None, 2, 1 << 20) as engine:
        found = [future.result() for _, future in engine.run(os.getpid, [(), ()])]
        print(*engine.executor._processes, flush=True)
        sys.stdin.read()
"""
    (tmp_path / "main.py").write_text(code)
    driver = subprocess.Popen(
        [sys.executable, str(tmp_path / "main.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert driver.stdout is not None
    workers = driver.stdout.readline().split()
    assert len(workers) == 2
    driver.kill()
    driver.communicate()
    while any(Path(f"/proc/{pid}/stat").exists() and not _is_zombie(pid) for pid in workers):
        time.sleep(0.02)


def _is_zombie(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


class Counting(Executor):
    """Runs each task at once, and counts those that were submitted before the results were taken."""

    def __init__(self) -> None:
        self.submitted = 0

    def submit(self, task: Any, /, *arguments: Any, **keywords: Any) -> Future[Any]:
        self.submitted += 1
        future: Future[Any] = Future()
        future.set_result(task(*arguments, **keywords))
        return future


def test_few_tasks_wait_at_the_same_time() -> None:
    """Ten million blocks of a plan are neither in the memory of the driver nor in that of a scheduler."""
    executor, seen = Counting(), 0
    engine = Engine(executor, 3, 1000)
    for seen, (call, future) in enumerate(engine.run(abs, ((-i,) for i in range(1000))), 1):
        assert future.result() == -call[0]
        assert executor.submitted - seen < 6
    assert seen == 1000
    executor.submitted, heavy = 0, 0
    for heavy, _ in enumerate(engine.run(abs, ((-i,) for i in range(10))), 1):
        assert executor.submitted - heavy < 6
    for done, _ in enumerate(engine.run(abs, ((-i,) for i in range(10)), lambda call: 600), 1):
        assert executor.submitted - heavy - done <= 0  # one that fills the memory runs alone


def test_refusals(tmp_path: Path) -> None:
    source = DATA / "example.nc"
    for executor, message in (
        (3, "neither an executor"),
        ("no.such:function", "executor='no.such:function'"),
        ("builtins:list", "neither an executor"),
    ):
        with pytest.raises(UnsupportedError, match=message):
            nczarr.copy(source, tmp_path / "a.zarr", executor=executor)
    with pytest.raises(UnsupportedError, match="only a Zarr dataset"):
        nczarr.copy(source, tmp_path / "a.nc", executor="processes")
    with pytest.raises(UnsupportedError, match="combined with dask="):
        nczarr.copy(source, tmp_path / "a.zarr", executor="processes", dask="local")
    with ThreadPoolExecutor(1) as pool, open_engine(pool, None, 1, 100) as engine:
        assert engine is not None
        assert engine.threads == 1
    assert list(tmp_path.iterdir()) == []


def loky(workers: int) -> Executor:
    """Return workers of loky, whose shutdown has other arguments than that of :mod:`concurrent.futures`."""
    from loky import get_reusable_executor

    found: Executor = get_reusable_executor(workers, reuse=False)
    return found


def test_loky_ends_well(tmp_path: Path) -> None:
    pytest.importorskip("loky")
    nczarr.copy(DATA / "example.nc", tmp_path / "plain.zarr")
    nczarr.copy(DATA / "example.nc", tmp_path / "out.zarr", executor=loky, workers=2)
    assert contents(tmp_path / "out.zarr") == contents(tmp_path / "plain.zarr")


class OtherShutdown(ThreadPoolExecutor):
    """An executor with the shutdown of loky."""

    def shutdown(self, wait: bool = True, kill_workers: bool = False) -> None:
        super().shutdown(wait)


def test_an_executor_needs_no_newer_arguments_of_shutdown(tmp_path: Path) -> None:
    nczarr.copy(DATA / "example.nc", tmp_path / "plain.zarr")
    nczarr.copy(DATA / "example.nc", tmp_path / "out.zarr", executor=OtherShutdown, workers=2)
    assert contents(tmp_path / "out.zarr") == contents(tmp_path / "plain.zarr")

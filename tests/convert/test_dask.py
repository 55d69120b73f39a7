"""Copy with a Dask cluster: the result has the bytes of a plain copy, also when workers fail."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
from deadly_source import deadly

import nczarr
from nczarr.cli import main
from nczarr.convert.values.resume import MANIFEST
from nczarr.errors import NCZarrError, UnsupportedError
from nczarr.mapping import DetachedDataset, create_dataset
from nczarr.mapping.dataset.destination import UNFINISHED
from nczarr.mapping.dataset.maintenance import clean

distributed = pytest.importorskip("distributed")

DATA = Path(__file__).parents[1] / "data"
#: Dask starts no worker again that dies before its nanny has seen it begin.
BEFORE_DEATH = 5.0


@contextmanager
def two_workers() -> Iterator[Any]:
    """Two processes; a worker that dies is started again."""
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        with distributed.Client(cluster, set_as_default=False) as client:
            yield client


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with two_workers() as client:
        yield client


@pytest.fixture
def mortal_client() -> Iterator[Any]:
    """A cluster for a test that kills workers: on a busy machine, a new worker may take long to appear.

    Dask gives up a worker that is missing 15 seconds after a death, also when that is a later death.
    """
    import dask

    with dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"}), two_workers() as client:
        yield client


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Chunks of 1 MiB, some of them larger than a block may be in the smallest memory."""
    path = tmp_path_factory.mktemp("large") / "large.nc"
    rng = np.random.default_rng(5)
    with netCDF4.Dataset(path, "w") as file:
        for name, size in (("t", None), ("y", 256), ("x", 1024)):
            file.createDimension(name, size)
        v = file.createVariable("v", "f4", ("t", "y", "x"), zlib=True, complevel=1, chunksizes=(1, 256, 1024))
        v[:] = rng.random((24, 256, 1024)).round(2)
        file.createVariable("w", str, ("y",))[:] = np.array([f"row {i}" for i in range(256)], object)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a dataset, without its identity, which each copy has of its own."""
    root = json.loads((folder / "zarr.json").read_bytes())["attributes"]
    identity = root["_nczarr_superblock"]["dataset"].encode()
    return {
        str(p.relative_to(folder)): p.read_bytes().replace(identity, b"")
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


@pytest.mark.slow
def test_local_is_a_plain_copy_to_the_bit(large: Path, tmp_path: Path) -> None:
    nczarr.copy(large, tmp_path / "plain.zarr")
    command = ["copy", "-q", "--dask", "local", "--workers", "2", str(large), str(tmp_path / "dask.zarr")]
    assert main(command) == 0
    assert contents(tmp_path / "dask.zarr") == contents(tmp_path / "plain.zarr")


def test_a_local_cluster_takes_no_port_that_others_know(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Dask's usual port for the web, which it would open to all machines, may be another cluster's."""
    nczarr.copy(DATA / "example.nc", tmp_path / "a.zarr")
    command = ["copy", "-q", "--dask", "local", "--workers", "1", str(tmp_path / "a.zarr")]
    with socket.socket() as taken:
        with suppress(OSError):  # another cluster has it now
            taken.bind(("", 8787))
            taken.listen()
        assert main([*command, str(tmp_path / "b.zarr")]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("nc", sorted(DATA.glob("*.nc")), ids=lambda p: p.name)
def test_every_kind_of_value(client: Any, nc: Path, tmp_path: Path) -> None:
    nczarr.copy(nc, tmp_path / "plain.zarr")
    nczarr.copy(nc, tmp_path / "dask.zarr", dask=client)
    assert contents(tmp_path / "dask.zarr") == contents(tmp_path / "plain.zarr")


@pytest.mark.parametrize("resume", [False, True])
def test_workers_rechunk(client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resume: bool) -> None:
    """Chunks that lie across each other go through an intermediate, in and out of which workers move them."""
    t = np.arange(512 * 1024, dtype="f4").reshape(512, 32, 32)
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        for name, size in (("t", 512), ("y", 32), ("x", 32)):
            file.createDimension(name, size)
        file.createGroup("g").createVariable("v", "f4", ("t", "y", "x"), chunksizes=(1, 32, 32))[:] = t
    options: dict[str, Any] = {"chunks": {"t": 512, "y": 4, "x": 4}, "memory": "1MiB"}
    nczarr.copy(tmp_path / "a.nc", tmp_path / "plain.zarr", **options)

    def here(*_: Any) -> None:
        raise AssertionError("values were moved by the process itself")

    monkeypatch.setattr(import_module("nczarr.convert.values.rechunk"), "transfer", here)
    with pytest.raises(AssertionError):
        nczarr.copy(tmp_path / "a.nc", tmp_path / "here.zarr", **options)
    nczarr.copy(tmp_path / "a.nc", tmp_path / "dask.zarr", dask=client, resume=resume, **options)
    assert contents(tmp_path / "dask.zarr") == contents(tmp_path / "plain.zarr")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.nc", "dask.zarr", "plain.zarr"]


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "numcodecs"},
        {"variables": "v", "select": {"t": slice(1, 20, 3)}, "rename": {"/v": "u"}},
        {"chunks": {"t": 6, "y": 128}, "shards": {"t": 12}},
        {"quantize": "v=1", "memory": "8MiB", "checksum": True},
        {"overwrite": True},
    ],
    ids=lambda o: next(iter(o)),
)
def test_with_options(client: Any, large: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    for name in ("plain", "dask"):
        out = tmp_path / f"{name}.zarr"
        if "overwrite" in options:
            nczarr.copy(DATA / "example.nc", out)
        nczarr.copy(large, out, dask=client if name == "dask" else None, **options)
    assert contents(tmp_path / "dask.zarr") == contents(tmp_path / "plain.zarr")


def test_joined_files_and_zarr_to_zarr(client: Any, large: Path, tmp_path: Path) -> None:
    for i in range(3):
        nczarr.copy(large, tmp_path / f"part{i}.nc", select={"t": slice(8 * i, 8 * i + 8)})
    nczarr.join(str(tmp_path / "part*.nc"), tmp_path / "a.zarr", along="t", dask=client)
    assert list(nczarr.diff(large, tmp_path / "a.zarr")) == []
    nczarr.copy(tmp_path / "a.zarr", tmp_path / "b.zarr", dask=client)
    # A join records how it was joined, for later appends; a copy of the result does not.
    record = '"joined":{"options":{"along":"t"}},'
    forms = [text.encode() for text in (record, record.replace('"', '\\"'))]
    joined = contents(tmp_path / "a.zarr")
    assert all(any(form in data for data in joined.values()) for form in forms)
    for form in forms:
        joined = {key: data.replace(form, b"") for key, data in joined.items()}
    assert contents(tmp_path / "b.zarr") == joined


def test_merged_files(client: Any, large: Path, tmp_path: Path) -> None:
    for name in ("v", "w"):
        nczarr.copy(large, tmp_path / f"{name}.nc", only=name)
    files = [tmp_path / "v.nc", tmp_path / "w.nc"]
    nczarr.join(files, tmp_path / "plain.zarr", along=None)
    nczarr.join(files, tmp_path / "dask.zarr", along=None, dask=client)
    assert contents(tmp_path / "dask.zarr") == contents(tmp_path / "plain.zarr")


class Ends:
    """Interrupts after some blocks."""

    def start(self, total: int) -> None:
        self.left = 5

    def advance(self, count: int, fqn: str) -> None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt

    def finish(self) -> None:
        pass


def test_an_interrupt_and_resume(client: Any, large: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"memory": "10MiB", "chunks": "t=1", "dask": client}
    out = tmp_path / "a.zarr"
    with pytest.raises(KeyboardInterrupt):
        nczarr.copy(large, out, progress=Ends(), resume=True, **options)
    lines = [json.loads(line) for line in (out / MANIFEST).read_text().splitlines()[1:]]
    stamps = {}
    for fqn, start, stop, _ in lines:
        if fqn == "/v":
            for i in range(start[0], stop[0]):
                stamps[i] = (out / "v" / "c" / str(i) / "0" / "0").stat().st_mtime_ns
    assert stamps
    nczarr.copy(large, out, resume=True, **options)
    assert list(nczarr.diff(large, out)) == []
    for i, stamp in stamps.items():
        assert (out / "v" / "c" / str(i) / "0" / "0").stat().st_mtime_ns == stamp
    with pytest.raises(KeyboardInterrupt):
        nczarr.copy(large, tmp_path / "b.zarr", progress=Ends(), **options)
    assert not (tmp_path / "b.zarr").exists()


def test_workers_may_die(mortal_client: Any, tmp_path: Path) -> None:
    out = tmp_path / "a.zarr"
    nczarr.copy(deadly(tmp_path / "twice", 2, seconds=BEFORE_DEATH), out, dask=mortal_client, memory=256)
    with nczarr.Dataset(out) as dataset:
        np.testing.assert_array_equal(dataset["v"][:], np.arange(64.0))
    with pytest.raises(NCZarrError, match="died repeatedly"):
        nczarr.copy(
            deadly(tmp_path / "always", 99, seconds=BEFORE_DEATH),
            tmp_path / "b.zarr",
            dask=mortal_client,
            memory=256,
        )
    assert not (tmp_path / "b.zarr").exists()
    assert mortal_client.submit(sum, [1, 2]).result() == 3


def test_a_scheduler_that_is_not_there(large: Path, tmp_path: Path) -> None:
    # Another process, since how long is waited for a connection is a setting of all that this one makes.
    command = [sys.executable, "-m", "nczarr", "copy", "--dask", "tcp://127.0.0.1:9", str(large), "a.zarr"]
    environment = {**os.environ, "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "1s"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no scheduler" in done.stderr
    assert not list(tmp_path.iterdir())


def test_an_adaptive_cluster_begins_without_workers(
    large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nczarr.copy(large, tmp_path / "plain.zarr")
    with distributed.LocalCluster(n_workers=0, threads_per_worker=1, dashboard_address=None) as cluster:
        with distributed.Client(cluster, set_as_default=False) as client:
            monkeypatch.setenv("NCZARR_DASK_SECONDS", "3")
            with pytest.raises(NCZarrError, match="no workers for 3 s"):
                nczarr.copy(large, tmp_path / "none.zarr", dask=client)
            assert not (tmp_path / "none.zarr").exists()
            monkeypatch.delenv("NCZARR_DASK_SECONDS")
            cluster.adapt(minimum=0, maximum=2, interval="100ms")
            with pytest.warns(UserWarning, match="has no workers; waiting"):
                nczarr.copy(large, tmp_path / "out.zarr", dask=client)
    assert list(nczarr.diff(tmp_path / "plain.zarr", tmp_path / "out.zarr")) == []


def test_refusals(client: Any, large: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UnsupportedError, match="dask="):
        nczarr.copy(large, tmp_path / "a.nc", dask=client)
    with pytest.raises(UnsupportedError, match="other processes"):
        nczarr.copy(large, {}, dask=client)
    with pytest.raises(UnsupportedError, match="other processes"):
        nczarr.copy(large, tmp_path / "a.zip", dask=client)
    with pytest.raises(UnsupportedError, match="neither"):
        nczarr.copy(large, tmp_path / "a.zarr", dask=3)
    data = bytearray(large.read_bytes())
    at = len(data) // 2
    data[at : at + 4096] = bytes(4096)
    (tmp_path / "damaged.nc").write_bytes(data)
    with pytest.raises(NCZarrError, match=r"damaged\.nc"):
        nczarr.copy(tmp_path / "damaged.nc", tmp_path / "a.zarr", dask=client)
    (tmp_path / "damaged.nc").unlink()
    assert sorted(tmp_path.iterdir()) == before


#: Values that are read slowly, by workers that import them.
SLOW = """
import time
from dataclasses import dataclass
import numpy as np
from nczarr.model import DOUBLE, Dataset, Dimension, Storage, Variable

@dataclass(frozen=True)
class Slow:
    seconds: float
    shape: tuple = (240,)

    @property
    def dtype(self):
        return np.dtype("f8")

    def read(self, region, out=None):
        time.sleep(self.seconds)
        return np.arange(region[0].start, region[0].stop, dtype="f8")

def dataset(seconds=0.0):
    v = Variable("v", DOUBLE, ("/x",), storage=Storage("chunked", (4,)), data=Slow(seconds))
    return Dataset("d", dimensions=(Dimension("x", 240),), variables=(v,))
"""
DRIVER = """
import sys, nczarr, slow
try:
    nczarr.copy(slow.dataset(0.25), "a.zarr", dask=sys.argv[1], memory=512)
except nczarr.NCZarrError as error:
    sys.exit("\\n".join([str(error), *error.__notes__]))
"""


def killed_during_a_copy(folder: Path, which: str) -> tuple[str, Path]:
    """Kill or stop the scheduler or the worker of a copy; return what the copy says, and what it leaves."""
    (folder / "slow.py").write_text(SLOW)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), str(Path(nczarr.__file__).parents[1])]),
        "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "10s",
        "NCZARR_DASK_SECONDS": "3" if which == "worker" else "20",
        "NCZARR_TASK_SECONDS": "20" if "stopped" in which else "3600",
    }

    def start(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, *arguments], cwd=folder, env=environment, text=True, stderr=subprocess.PIPE
        )
        started[len(started)] = process
        return process

    def until(there: Callable[[], object]) -> None:
        while not there():
            ended = [process.args for process in started.values() if process.poll() is not None]
            assert not ended, ended
            time.sleep(0.05)

    started: dict[int, subprocess.Popen[str]] = {}
    where = folder / "scheduler.json"
    common = ["--scheduler-file", str(where), "--no-dashboard"]
    try:
        scheduler = start(
            "-m", "distributed.cli.dask_scheduler", "--port", "0", "--host", "127.0.0.1", *common
        )
        until(lambda: where.exists() and where.read_text().rstrip().endswith("}"))
        worker = start("-m", "distributed.cli.dask_worker", "--no-nanny", "--nthreads", "3", *common)
        address = json.loads(where.read_text())["address"]
        with distributed.Client(address, set_as_default=False) as client:
            client.wait_for_workers(1)  # the copy waits for few seconds only
        driver = start("-c", DRIVER, address)
        chunks = folder / "a.zarr" / "v" / "c"
        until(lambda: chunks.is_dir() and len(os.listdir(chunks)) > 5)
        victim = scheduler if "scheduler" in which else worker
        victim.send_signal(signal.SIGSTOP if "stopped" in which else signal.SIGKILL)
        said = driver.communicate()[1]
        assert driver.returncode == 1, said
        if "stopped" in which:
            worker.kill()
        worker.communicate()
        return said, folder / "a.zarr"
    finally:
        for process in started.values():
            process.kill()
            process.wait()
            assert process.stderr is not None
            process.stderr.close()


@pytest.mark.parametrize("which", ["scheduler", "worker", "stopped scheduler", "stopped worker"])
def test_a_cluster_is_lost(which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers may go on: the target stays, unfinished, and can be gone on with, replaced and removed."""
    said, left = killed_during_a_copy(tmp_path, which)
    if "scheduler" in which:
        assert "the connection to the Dask scheduler is lost" in said
    elif which == "stopped worker":
        assert "none has ended for 20 s" in said
    else:
        assert "no worker is left; waiting 3 s" in said
        assert "had no workers for 3 s" in said
    assert "resume=True" in said
    assert "nczarr clean" in said
    assert (left / UNFINISHED).exists()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "slow", raising=False)
    dataset = import_module("slow").dataset()
    for name in ("resume", "overwrite"):
        out = tmp_path / f"{name}.zarr"
        shutil.copytree(left, out)
        nczarr.copy(dataset, out, **{name: True})
        with nczarr.Dataset(out) as ds:
            np.testing.assert_array_equal(ds["v"][:], np.arange(240.0))
        assert not (out / UNFINISHED).exists()
    assert clean(left) == [f"{left}: an unfinished dataset is removed"]
    assert not left.exists()


def test_chunks_that_workers_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Chunks without documents, written after the target was removed, are replaced and removed by those who say so."""

    def orphans() -> str:
        for key in ("v/c/0/0", "g/w/c/17"):
            (out / key).parent.mkdir(parents=True, exist_ok=True)
            (out / key).write_bytes(b"1")
        return str(out)

    out = tmp_path / "a.zarr"
    command = ["copy", "-q", str(DATA / "example.nc"), orphans()]
    for option in ([], ["--resume"]):
        assert main([*command, *option]) == 1
        assert "nczarr clean --force removes them" in capsys.readouterr().err
    assert main([*command, "--overwrite"]) == 0
    assert list(nczarr.diff(DATA / "example.nc", out)) == []
    shutil.rmtree(out)
    assert main(["clean", orphans()]) == 0
    assert "--force removes them" in capsys.readouterr().out
    assert sorted(p.name for p in out.rglob("*") if p.is_file()) == ["0", "17"]
    assert main(["clean", "--force", str(out)]) == 0
    assert not out.exists()
    orphans()
    (out / "notes.txt").write_text("not ours")
    assert main(["clean", "--force", str(out)]) == 0
    assert main([*command, "--overwrite"]) == 1
    assert sum(p.is_file() for p in out.rglob("*")) == 3


def test_the_intermediate_of_a_killed_copy_is_cleaned(tmp_path: Path) -> None:
    out = tmp_path / "a.zarr"
    nczarr.copy(DATA / "example.nc", out)
    code = "import sys; from nczarr.convert.values.rechunk import _folder; _folder(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(out)], check=True)
    (left,) = set(tmp_path.iterdir()) - {out}
    assert clean(out) == [f"{left}: removed"]
    assert list(tmp_path.iterdir()) == [out]


def test_a_late_worker_leaves_nothing(tmp_path: Path) -> None:
    """A worker that the scheduler has given up writes no block to what was removed or finished since."""
    stored = create_dataset(tmp_path / "a.zarr", deadly(tmp_path / "folder", 0))
    there = DetachedDataset.of(stored, tmp_path / "a.zarr").open()
    assert there.is_awaited()
    there.refuse_late()
    stored.commit()
    assert not there.is_awaited()
    with pytest.raises(NCZarrError, match="the copy has ended"):
        there.refuse_late()
    there.close()

"""Dropped datasets are stored outside the garbage collector, and an error of the last flush is loud."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import nczarr
from nczarr.cli import main
from nczarr.mapping import RecoveryWarning
from nczarr.stores import MemoryStore


def program(text: str, *arguments: object, status: int = 0) -> str:
    """Run a program, and return what it says on stderr."""
    command = [sys.executable, "-c", textwrap.dedent(text), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status, (done.returncode, done.stderr)
    return done.stderr


FULL = """
    import resource, signal, sys
    import numpy as np, nczarr
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    {before}
    ds = nczarr.Dataset(sys.argv[1], "w")
    ds.createDimension("x", 200_000)
    v = ds.createVariable("temperature", "f8", ("x",))
    v[1:] = np.random.default_rng(0).normal(size=199_999)
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    {drop}
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no limits of files there")
@pytest.mark.parametrize("drop", ["", "del ds, v; import gc; gc.collect()"], ids=["left open", "dropped"])
@pytest.mark.parametrize("name", ["a.zarr", "a.nc", "a.zarr.zip"])
def test_a_last_flush_that_fails_is_loud(tmp_path: Path, name: str, drop: str) -> None:
    path = tmp_path / name
    said = program(FULL.format(before="", drop=drop), path, status=120)
    assert f"the closing of the dataset {path}, which the program left open" in said
    assert "File too large" in said
    if name == "a.zarr":
        assert "/temperature" in said
    if path.exists():
        with pytest.raises(nczarr.NCZarrError, match=r"unfinished|NetCDF"):
            nczarr.Dataset(path)
    else:
        assert name == "a.zarr.zip"
    done = subprocess.run(
        [sys.executable, "-m", "nczarr", "check", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert name == "a.zarr.zip" or "unfinished" in done.stderr or "not a netCDF file" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no limits of files there")
def test_what_a_failed_dataset_was_to_replace_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    with nczarr.Dataset(path, "w") as ds:
        ds.title = "old"
    program(FULL.format(before="", drop=""), path, status=120)
    with nczarr.Dataset(path) as ds:
        assert ds.title == "old"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["asyncio_0", "nczarr_7", "Thread-1"])
def test_a_thread_of_any_name_that_outlives_the_main_one_writes(tmp_path: Path, name: str) -> None:
    said = program(
        """
        import sys, threading, time
        import nczarr
        ds = nczarr.Dataset(sys.argv[1], "w")
        ds.createDimension("x", 4)
        v = ds.createVariable("v", "i4", ("x",))

        def work():
            threading.main_thread().join()
            time.sleep(0.3)
            v[:] = 7

        threading.Thread(target=work, name=sys.argv[2]).start()
        """,
        tmp_path / "a.zarr",
        name,
    )
    assert said == ""
    with nczarr.Dataset(tmp_path / "a.zarr") as ds:
        assert ds["v"][:].tolist() == [7] * 4


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def test_a_collector_that_is_off_stays_off(tmp_path: Path, without_collector: None) -> None:
    """Also when the program turns it off while another thread opens a dataset."""
    with nczarr.Dataset(tmp_path / "a.zarr", "w") as ds:
        for i in range(50):
            ds.createVariable(f"v{i}", "i4")
    gc.enable()
    seen = []
    over = threading.Event()

    def open_often() -> None:
        while not over.is_set():
            with nczarr.Dataset(tmp_path / "a.zarr") as ds:
                assert len(ds.variables) == 50

    thread = threading.Thread(target=open_often)
    thread.start()
    for _ in range(200):
        gc.disable()
        threading.Event().wait(0.001)
        seen.append(gc.isenabled())
        gc.enable()
    over.set()
    thread.join()
    assert not any(seen)


def _dropped(path: Path) -> None:
    ds = nczarr.Dataset(path, "w")
    ds.createDimension("x", 2)
    ds.createVariable("v", "i4", ("x",))[:] = 5


def test_the_collector_only_warns_and_the_next_opening_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gc.collect()
    nczarr.Dataset({}, "w").close()
    places: list[str] = []
    real = MemoryStore.set

    def noted(self: MemoryStore, key: str, data: bytes) -> None:
        places.append(key)
        real(self, key, data)

    monkeypatch.setattr(MemoryStore, "set", noted)
    store = MemoryStore()
    _dropped(store)  # type: ignore[arg-type]
    places.clear()
    with pytest.warns(ResourceWarning, match="dropped without close"):
        gc.collect()
    assert not places
    nczarr.Dataset({}, "w").close()
    assert "v/zarr.json" in places
    with nczarr.Dataset(store) as ds:
        assert ds["v"][:].tolist() == [5, 5]


def test_del_closes_what_is_in_no_circle(tmp_path: Path) -> None:
    """Without the interpreter lock, the next opening does."""
    ds = nczarr.Dataset(tmp_path / "a.zarr", "w", keepweakref=True)
    ds.createDimension("x", 2)
    ds.createVariable("v", "i4", ("x",))[:] = 5
    with pytest.warns(ResourceWarning, match="dropped without close"):
        del ds
    at_once = getattr(sys, "_is_gil_enabled", lambda: True)()
    assert (tmp_path / "a.zarr" / "zarr.json").exists() is at_once
    nczarr.Dataset({}, "w").close()
    assert (tmp_path / "a.zarr" / "zarr.json").exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no fork there")
def test_a_worker_that_forgets_to_close_writes(tmp_path: Path) -> None:
    program(
        """
        import multiprocessing, sys
        import nczarr

        def work():
            global ds
            ds = nczarr.Dataset(sys.argv[1], "w")
            ds.createVariable("v", "i4")[...] = 5

        worker = multiprocessing.get_context("fork").Process(target=work)
        worker.start()
        worker.join()
        """,
        tmp_path / "a.zarr",
    )
    with nczarr.Dataset(tmp_path / "a.zarr") as ds:
        assert ds["v"][...] == 5


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no limits of files there")
def test_a_published_dataset_reports_the_failed_flush(tmp_path: Path) -> None:
    """Readers and `check` report values that a program lost, until `nczarr clean` removes the mark."""
    path = tmp_path / "a.zarr"
    said = program(
        """
        import resource, signal, sys
        import numpy as np
        import nczarr
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        ds = nczarr.Dataset(sys.argv[1], "w")
        ds.createDimension("x", 200_000)
        v = ds.createVariable("v", "f8", ("x",))
        ds.sync()
        v[1:] = np.random.default_rng(1).random(199_999)
        sys.dont_write_bytecode = True
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        """,
        path,
        status=120,
    )
    assert "/v" in said
    assert main(["check", str(path)]) == 1
    with pytest.warns(RecoveryWarning, match=r"values-unstored"):
        nczarr.Dataset(path).close()
    assert main(["clean", str(path)]) == 0
    assert main(["check", str(path)]) == 0

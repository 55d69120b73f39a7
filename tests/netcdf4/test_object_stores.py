"""Change datasets in object stores, alone and beside other writers."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import nczarr
from nczarr.errors import LockedError, NCZarrError
from nczarr.model import INT, Dataset, Dimension, MemorySource, Variable
from nczarr.stores import open_store
from nczarr.stores.remote.fsspec_store import FsspecStore
from nczarr.stores.remote.obstore_store import ObstoreStore

numbers = itertools.count()
pytestmark = pytest.mark.s3


@pytest.fixture(params=["obstore", "s3fs"])
def place(request: pytest.FixtureRequest, s3_server: dict[str, str]) -> tuple[str, dict[str, Any]]:
    """A dataset of three steps, and the options of its client."""
    url, options = f"s3://test/changed/{next(numbers)}.zarr", {"backend": request.param}
    nczarr.copy(steps(0, 3), url, target_options=options)
    return url, options


def steps(first: int, count: int) -> Dataset:
    t = Variable("t", INT, ("/t",), data=MemorySource(np.arange(first, first + count, dtype="i4")))
    return Dataset("d", dimensions=(Dimension("t", count, unlimited=True),), variables=(t,))


def keys_of_writers(url: str, options: dict[str, Any]) -> list[str]:
    with open_store(url, "r", options) as store:
        return [key for key in store.list() if key.startswith(".nczarr")]


def test_a_second_writer_is_refused_until_the_first_closes(place: tuple[str, dict[str, Any]]) -> None:
    url, options = place
    first = nczarr.Dataset(url, "a", storage_options=options)
    with pytest.raises(LockedError, match="open for writing"):
        nczarr.Dataset(url, "a", storage_options=options)
    with pytest.raises(NCZarrError, match="open for writing"):
        nczarr.append(steps(3, 7), url, target_options=options)
    with nczarr.Dataset(url, storage_options=options) as reader:
        assert reader["t"][:].tolist() == [0, 1, 2]
    first["t"][3] = 3
    first.close()
    nczarr.append(steps(4, 6), url, target_options=options)
    with nczarr.Dataset(url, "a", storage_options=options) as last:
        assert last["t"][:].tolist() == list(range(10))
    assert keys_of_writers(url, options) == []


def test_a_new_dataset_excludes_writers_as_soon_as_they_see_it(place: tuple[str, dict[str, Any]]) -> None:
    _, options = place
    url = f"s3://test/changed/{next(numbers)}.zarr"
    with nczarr.Dataset(url, "a", storage_options=options) as new:  # there is none
        new.createDimension("t", None)
        new.createVariable("t", "i4", ("t",))[:] = [0]
        new.sync()
        with pytest.raises(LockedError):
            nczarr.Dataset(url, "a", storage_options=options)
        new["t"][1] = 1
    with nczarr.Dataset(url, "a", storage_options=options) as again:
        assert again["t"][:].tolist() == [0, 1]
    assert keys_of_writers(url, options) == []


def test_a_dropped_dataset_does_not_exclude_its_successor(place: tuple[str, dict[str, Any]]) -> None:
    url, options = place
    dropped = nczarr.Dataset(url, "a", storage_options=options)
    dropped["t"][3] = 3
    circle: list[object] = [dropped]  # so that only the garbage collector finds it
    circle.append(circle)
    del dropped, circle
    with pytest.warns(ResourceWarning):
        again = nczarr.Dataset(url, "a", storage_options=options)
    assert again["t"][:].tolist() == [0, 1, 2, 3]
    again.close()


def test_shared_writers_set_no_mark(place: tuple[str, dict[str, Any]]) -> None:
    url, options = place
    with (
        nczarr.Dataset(url, "a", storage_options=options, shared=True),
        nczarr.Dataset(url, "a", storage_options=options, shared=True),
    ):
        assert keys_of_writers(url, options) == []


def test_credentials_for_reading_are_refused_at_once(
    place: tuple[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, options = place

    async def refuse(self: object, key: str, data: memoryview) -> bool:
        raise PermissionError("Access Denied")

    for kind in (ObstoreStore, FsspecStore):
        monkeypatch.setattr(kind, "_put_new", refuse)
    with pytest.raises(NCZarrError, match="cannot write"):
        nczarr.Dataset(url, "a", storage_options=options)


def test_a_mark_that_cannot_be_removed_is_reported(
    place: tuple[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, options = place

    async def refuse(self: object, key: str) -> None:
        raise PermissionError("Access Denied")

    writer = nczarr.Dataset(url, "a", storage_options=options)
    writer["t"][3] = 3
    for kind in (ObstoreStore, FsspecStore):
        monkeypatch.setattr(kind, "_remove", refuse)
    with pytest.warns(UserWarning, match="nczarr clean --force"):
        writer.close()
    with nczarr.Dataset(url, storage_options=options) as reader:
        assert reader["t"][:].tolist() == [0, 1, 2, 3]


CHANGES = """
import sys
import nczarr
from nczarr.errors import NCZarrError
url, backend, name = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
try:
    with nczarr.Dataset(url, "a", storage_options={"backend": backend}) as ds:
        ds.createVariable(name, "i4", ("t",))[:] = int(name[1:])
        if name == "v9":
            ds.sync()
            print("synced", flush=True)
            sys.stdin.readline()
except NCZarrError:
    sys.exit(1)
"""


def start(url: str, options: dict[str, Any], name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHANGES, url, options["backend"], name]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


@pytest.mark.slow
def test_no_variable_of_a_successful_process_is_lost(place: tuple[str, dict[str, Any]]) -> None:
    url, options = place
    processes = {name: start(url, options, name) for name in ("v1", "v2", "v3")}
    for process in processes.values():
        go(process)
    ended = {name: process.wait() for name, process in processes.items()}
    for process in processes.values():
        process.communicate()
    assert set(ended.values()) <= {0, 1}
    added = {name for name, status in ended.items() if status == 0}
    assert added
    with nczarr.Dataset(url, storage_options=options) as ds:
        assert set(ds.variables) == {"t"} | added
        for name in added:
            assert ds[name][:].tolist() == [int(name[1:])] * 3


@pytest.mark.slow
def test_a_writer_takes_over_from_a_killed_one(place: tuple[str, dict[str, Any]]) -> None:
    url, options = place
    process = start(url, options, "v9")
    go(process)
    assert process.stdout is not None
    assert process.stdout.readline() == "synced\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert keys_of_writers(url, options)
    with nczarr.Dataset(url, "a", storage_options=options) as ds:
        assert ds["v9"][:].tolist() == [9] * 3
    assert keys_of_writers(url, options) == []


def test_a_failed_close_does_not_exclude_its_own_process(
    place: tuple[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, options = place

    async def refuse(self: object, key: str, *_: object) -> None:
        raise ConnectionError("the network is down")

    writer = nczarr.Dataset(url, "a", storage_options=options)
    writer["t"][0] = 7
    with monkeypatch.context() as broken:
        for kind in (ObstoreStore, FsspecStore):
            broken.setattr(kind, "_put", refuse)
            broken.setattr(kind, "_remove", refuse)
        with (
            pytest.warns(UserWarning, match="keeps other writers out"),
            pytest.raises(NCZarrError, match="down"),
        ):
            writer.close()
    with nczarr.Dataset(url, "a", storage_options=options) as again:
        assert again["t"][:].tolist() == [0, 1, 2]
        again["t"][0] = 7
        with pytest.raises(LockedError):
            nczarr.Dataset(url, "a", storage_options=options)
    assert keys_of_writers(url, options) == []


def test_a_removed_mark_is_reported(place: tuple[str, dict[str, Any]]) -> None:
    url, options = place
    writer = nczarr.Dataset(url, "a", storage_options=options)
    with open_store(url, "r+", options) as store:
        store.delete(".nczarr-writing")
    with pytest.warns(UserWarning, match="another process has removed the marker"):
        writer.close()


def test_a_mark_of_another_machine_says_how_to_go_on(place: tuple[str, dict[str, Any]]) -> None:
    from nczarr.mapping.dataset.maintenance import clean

    url, options = place
    with open_store(url, "r+", options) as store:
        store.set(".nczarr-writing", b"00000000-1-0-0")
    with pytest.raises(LockedError, match="nczarr clean --force"):
        nczarr.Dataset(url, "a", storage_options=options)
    assert "another machine" in " ".join(clean(url, storage_options=dict(options)))
    clean(url, storage_options=dict(options), force=True)
    nczarr.Dataset(url, "a", storage_options=options).close()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("change", ["length", "variable"])
def test_without_conditional_writes_a_stale_writer_is_refused(
    place: tuple[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    url, options = place

    async def put_always(self: Any, key: str, data: memoryview) -> bool:
        await self._put(key, data)
        return True

    for kind in (ObstoreStore, FsspecStore):
        monkeypatch.setattr(kind, "_put_new", put_always)
    with pytest.warns(UserWarning, match="cannot exclude"):
        stale = nczarr.Dataset(url, "a", storage_options=options)
    stale["t"][0] = 5
    with nczarr.Dataset(url, "a", storage_options=options) as other:
        if change == "length":
            other["t"][3:10] = range(3, 10)
        else:
            other.createVariable("w", "i4", ("t",))[:] = [1, 2, 3]
    with pytest.raises(NCZarrError, match=r"another program has.*open the dataset again"):
        stale.sync()
    with pytest.raises(
        NCZarrError, match="open the dataset again"
    ):  # at the call, before anything is written
        stale["t"][3] = 33
    with pytest.raises(NCZarrError, match="open the dataset again"):
        stale.close()
    with nczarr.Dataset(url, storage_options=options) as ds:
        assert ds["t"][:].tolist() == list(range(10 if change == "length" else 3))
        assert change == "length" or ds["w"][:].tolist() == [1, 2, 3]


def test_a_reader_sees_new_steps_after_sync(place: tuple[str, dict[str, Any]]) -> None:
    url, options = place
    with nczarr.Dataset(url, storage_options=options) as reader:
        assert reader["t"][:].tolist() == [0, 1, 2]
        nczarr.append(steps(3, 2), url, target_options=options)
        reader.sync()
        assert reader.dimensions["t"].size == 5
        assert reader["t"][:].tolist() == [0, 1, 2, 3, 4]
        with nczarr.Dataset(url, "a", storage_options=options) as writer:
            writer.renameVariable("t", "u")
        with pytest.raises(NCZarrError, match="open the dataset again"):
            reader.sync()
        assert reader.dimensions["t"].size == 5


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_does_not_use_what_another_library_has_used(place: tuple[str, dict[str, Any]]) -> None:
    script = """
import os, signal, sys
from obstore.store import S3Store
import nczarr
url = sys.argv[1]
store = S3Store("test", endpoint=os.environ["AWS_ENDPOINT_URL"], client_options={"allow_http": True})
store.get(url.removeprefix("s3://test/") + "/zarr.json").bytes()
if os.fork() == 0:
    signal.alarm(60)  # what hangs, dies
    with nczarr.Dataset(url) as ds:
        os._exit(0 if ds["t"][:].tolist() == [0, 1, 2] else 1)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    assert subprocess.run([sys.executable, "-c", script, place[0]], check=False).returncode == 0


def test_statements_change_a_dataset_at_a_url_as_one_update(place: tuple[str, dict[str, Any]]) -> None:
    url, options = place
    statements = ['t:units = "days since 2000-01-01"', ':title = "t"', "rename variable t to time"]
    with (
        nczarr.Dataset(url, "a", storage_options=options),
        pytest.raises(LockedError, match="open for writing"),
    ):
        nczarr.edit(url, statements, storage_options=options)
    told = nczarr.edit(url, statements, storage_options=options, dry_run=True)
    assert keys_of_writers(url, options) == []
    assert nczarr.edit(url, statements, storage_options=options) == told
    with nczarr.Dataset(url, storage_options=options) as ds:
        assert (ds.title, ds["time"].units, ds["time"][:].tolist()) == (
            "t",
            "days since 2000-01-01",
            [0, 1, 2],
        )
    assert keys_of_writers(url, options) == []

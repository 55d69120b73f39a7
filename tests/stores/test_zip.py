"""Test zip files: differences between their writers, damage, appending."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import struct
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any, Literal

import numpy as np
import programs
import pytest
from counting_store import CountingStore

import nczarr
from nczarr.errors import DatasetNotFoundError, NCZarrError, ReadOnlyError, StoreError
from nczarr.stores import LocalStore, MemoryStore, open_store
from nczarr.stores.zip import ZipStore

FILES = {
    ".zgroup": b'{"zarr_format": 2}',
    "v/.zarray": b"{}",
    "v/0.0": bytes(range(256)) * 40,
    "g/.zgroup": b"x",
}


def make(path: Path, files: dict[str, bytes], method: int = zipfile.ZIP_STORED, top: str = "") -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for key, value in files.items():
            archive.writestr(top + key, value)
    return path


@pytest.mark.parametrize("top", ["", "run42/", "/run42/", "/"])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_with_and_without_a_top_folder(tmp_path: Path, top: str, method: int) -> None:
    with open_store(
        make(tmp_path / "x", FILES, method, top)
    ) as store:  # known by its first bytes, not its name
        assert isinstance(store, ZipStore)
        assert sorted(store.list()) == sorted(FILES)
        assert store.list_dir() == ([".zgroup"], ["g", "v"])
        assert store.get_many([*FILES, "missing"]) == [*FILES.values(), None]
        assert store.get_ranges([("v/0.0", 250, 12), ("v/0.0", -3, None), ("nix", 0, 1)]) == [
            FILES["v/0.0"][250:262],
            b"\xfd\xfe\xff",
            None,
        ]
        assert store.size("v/0.0") == len(FILES["v/0.0"])
        assert pickle.loads(pickle.dumps(store)).get("v/.zarray") == b"{}"


def test_one_folder_without_a_root_document_is_no_top_folder(tmp_path: Path) -> None:
    store = open_store(make(tmp_path / "x.zip", {"data/0.0": b"x", "data/0.1": b"y"}))
    assert sorted(store.list()) == ["data/0.0", "data/0.1"]


def test_as_netcdf_c_writes_it(tmp_path: Path) -> None:
    netCDF4 = pytest.importorskip("netCDF4")
    path = tmp_path / "c.zip"
    try:
        with netCDF4.Dataset(f"file://{path}#mode=nczarr,zip", "w") as dataset:
            dataset.createDimension("x", 3)
            dataset.createVariable("v", "i4", ("x",))[:] = [1, 2, 3]
    except OSError as error:
        pytest.skip(f"this netCDF4 cannot write zip files: {error}")
    with open_store(f"file://{path}#mode=nczarr,zip") as store:
        assert {".zgroup", "v/.zarray", "v/0"} <= set(store.list())
        assert b'"shape"' in (store.get("v/.zarray") or b"")


def test_a_file_that_appends_a_member_twice_means_the_last(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("zarr.json", b"old")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("zarr.json", b"new")
    assert open_store(tmp_path / "x.zip").get("zarr.json") == b"new"


def test_names_that_point_outside_are_no_keys(tmp_path: Path) -> None:
    store = open_store(
        make(tmp_path / "x.zip", {"../evil": b"x", "a/../../evil": b"x", "good": b"y", "d/": b""})
    )
    assert list(store.list()) == ["good"]


def test_appending_and_rewriting(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with open_store(path, "w") as store:
        store.set("zarr.json", b"1")
        store.set("v/c/0", b"abc")
        assert store.get("v/c/0") == b"abc"
        assert not path.exists()
    with open_store(path, "r+") as store:
        store.set("zarr.json", b"2")
        store.set("v/c/1", b"def")
        store.delete("v/c/0")
        assert store.get_range("v/c/1", 1, 1) == b"e"
        assert sorted(store.list()) == ["v/c/1", "zarr.json"]
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert sorted(archive.namelist()) == ["v/c/1", "zarr.json"]
        assert archive.read("zarr.json") == b"2"
    assert os.listdir(tmp_path) == ["x.zip"]


def test_appending_keeps_the_top_folder(tmp_path: Path) -> None:
    path = make(tmp_path / "x.zip", FILES, top="run42/")
    with open_store(path, "r+") as store:
        store.set("new", b"x")
    with zipfile.ZipFile(path) as archive:
        assert "run42/new" in archive.namelist()


def interrupted(path: Path, mode: Literal["r+", "w"]) -> None:
    with contextlib.suppress(KeyError), open_store(path, mode) as store:
        store.set("v/0.0", b"")
        raise KeyError


def test_an_error_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = make(tmp_path / "x.zip", FILES)
    before = path.read_bytes()
    interrupted(path, "r+")
    assert path.read_bytes() == before
    interrupted(tmp_path / "new.zip", "w")
    with open_store(tmp_path / "empty.zip", "w"):
        pass
    assert os.listdir(tmp_path) == ["x.zip"]


def test_a_store_that_is_dropped_leaves_nothing(tmp_path: Path) -> None:
    stores = [open_store(tmp_path / "x.zip", "w")]
    stores[0].set("k", b"x")
    with pytest.warns(ResourceWarning, match="not closed"):
        stores.clear()
    gc.collect()
    assert os.listdir(tmp_path) == []


def test_equal_content_gives_equal_files(tmp_path: Path) -> None:
    for name in ("a.zip", "b.zip"):
        with open_store(tmp_path / name, "w") as store:
            store.set_many(FILES.items())
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_zarr_python_reads_what_is_written(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    import numpy as np

    group = zarr.create_group({}, zarr_format=3)
    del group
    memory: dict[str, bytes] = {}
    store = zarr.storage.MemoryStore()
    zarr.create_array(store, name="v", shape=(4,), chunks=(2,), dtype="i4")[:] = [1, 2, 3, 4]
    source = open_store(store)
    with open_store(tmp_path / "x.zip", "w") as target:
        for key in source.list():
            target.set(key, source.get(key) or b"")
            memory[key] = source.get(key) or b""
    read = zarr.open_array(zarr.storage.ZipStore(tmp_path / "x.zip", mode="r"), path="v", mode="r")
    assert np.array_equal(read[:], [1, 2, 3, 4])


# --- damage


def damaged(path: Path, old: bytes, new: bytes) -> Path:
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new))
    return path


def test_a_wrong_checksum_is_noticed(tmp_path: Path) -> None:
    path = damaged(make(tmp_path / "x.zip", {"k": b"precious", "j": b"x"}), b"precious", b"precioux")
    with pytest.raises(StoreError, match=r"x\.zip/k: .*checksum"):
        open_store(path).get("k")


def test_a_member_that_claims_an_impossible_size_is_refused(tmp_path: Path) -> None:
    path = make(tmp_path / "x.zip", {"k": bytes(1000), "j": b""}, zipfile.ZIP_DEFLATED)
    size = struct.pack("<I", 1000)
    path = damaged(path, size, struct.pack("<I", 0xF0000000))
    with pytest.raises(StoreError, match="impossible size"):
        open_store(path).get("k")


@pytest.mark.parametrize("keep", [4, 30, 100, 300, -1, -30])
def test_a_truncated_file_is_refused(tmp_path: Path, keep: int) -> None:
    path = make(tmp_path / "x.zip", FILES, zipfile.ZIP_DEFLATED)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(NCZarrError):
        open_store(path).get_many(list(FILES))
    with pytest.raises(NCZarrError):
        open_store(path, "r+")
    assert os.listdir(tmp_path) == ["x.zip"]


def test_missing_and_read_only(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError):
        open_store(tmp_path / "x.zip")
    path = make(tmp_path / "x.zip", FILES)
    with pytest.raises(ReadOnlyError):
        open_store(path).set("a", b"")
    store = open_store(path)
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.get("v/0.0")


def test_in_another_store_costs_few_requests(tmp_path: Path) -> None:
    path = make(
        tmp_path / "x.zip", {"zarr.json": b"{}", **{f"v/c/{i}": bytes([i]) * 5000 for i in range(100)}}
    )
    parent = CountingStore(LocalStore(tmp_path))
    store = ZipStore((parent, "x.zip"))
    assert parent.calls == [("size", 1), ("get_ranges", 1)]
    parent.calls.clear()
    assert store.get_many([f"v/c/{i}" for i in range(100)]) == [bytes([i]) * 5000 for i in range(100)]
    assert parent.calls == [("get_ranges", 100)]
    memory = MemoryStore()
    memory.set("x.zip", path.read_bytes())
    assert ZipStore((memory, "x.zip")).get_range("v/c/7", -1, None) == b"\x07"
    with pytest.raises(DatasetNotFoundError):
        ZipStore((memory, "y.zip"))


def test_a_full_disk_is_a_store_error_and_leaves_nothing(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    script = f"""
import resource, signal, sys
sys.dont_write_bytecode = True
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, {resource.RLIM_INFINITY}))
from nczarr.errors import StoreError
from nczarr.stores import open_store
try:
    with open_store({str(tmp_path / "full.zip")!r}, "w") as store:
        store.set("a", bytes(range(256)) * 4000)
except StoreError as error:
    print("refused:", error)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert result.stdout.startswith("refused:"), result.stderr
    assert list(tmp_path.iterdir()) == []


# --- what a process leaves that dies, and what others do meanwhile


def test_what_is_synced_outlives_the_process(tmp_path: Path) -> None:
    script = """
import os, sys, nczarr
dataset = nczarr.Dataset(sys.argv[1], "w")
dataset.createDimension("x", 4)
dataset.createVariable("v", "i4", ("x",))[:] = 1
dataset.sync()
dataset["v"][:2] = 2
if sys.argv[2] == "twice":
    dataset.sync()
    dataset["v"][:] = 3
os.kill(os.getpid(), 9)
"""
    for times, expected in (("once", [1, 1, 1, 1]), ("twice", [2, 2, 1, 1])):
        path = tmp_path / f"{times}.zip"
        # Without the chunk cache, what is not synced is in a file, not in memory.
        environment = {**os.environ, "NCZARR_CACHE": "0"}
        subprocess.run([sys.executable, "-c", script, path, times], check=False, env=environment)
        with nczarr.Dataset(path) as dataset:
            assert dataset["v"][:].tolist() == expected
        left = [name for name in os.listdir(tmp_path) if name != path.name]
        assert len(left) == 1, "what was not synced"
        with nczarr.Dataset(path, "a") as dataset:
            dataset["v"][:] = 4
        assert os.listdir(tmp_path) == [path.name], "the next writer clears up"
        path.unlink()


def test_what_another_program_has_written_meanwhile_is_not_lost(tmp_path: Path) -> None:
    path = make(tmp_path / "x.zip", FILES)
    one, two = open_store(path, "r+"), open_store(path, "r+")
    one.set("one", b"1")
    two.set("two", b"2")
    one.close()
    with pytest.raises(StoreError, match="another program has changed the zip file"):
        two.close()
    assert open_store(path).get_many(["one", "two"]) == [b"1", None]
    assert os.listdir(tmp_path) == ["x.zip"]


def test_a_new_zip_goes_where_a_link_points(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "x.zip").symlink_to(tmp_path / "there" / "x.zip")
    for text in (b"1", b"2"):
        with open_store(tmp_path / "x.zip", "w") as store:
            store.set("k", text)
        assert (tmp_path / "x.zip").is_symlink()
        assert open_store(tmp_path / "there" / "x.zip").get("k") == text


# --- more damage


def test_a_directory_that_names_another_member_is_refused(tmp_path: Path) -> None:
    """Two chunks of one size and content length: only the local names tell that the directory is wrong."""
    path = make(tmp_path / "x.zip", {"v/c/0": b"aaaa", "v/c/1": b"aaaa"})
    data = bytearray(path.read_bytes())
    first, second = (data.rindex(name) for name in (b"v/c/0", b"v/c/1"))
    # The place of the local header is the last field before the name.
    data[first - 4 : first], data[second - 4 : second] = data[second - 4 : second], data[first - 4 : first]
    path.write_bytes(data)
    store = open_store(path)
    for key in ("v/c/0", "v/c/1"):
        with pytest.raises(StoreError, match="its directory names another place"):
            store.get(key)
        with pytest.raises(StoreError, match="its directory names another place"):
            store.get_range(key, 0, 2)


@pytest.mark.parametrize("kind", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_sizes_beyond_the_file_ask_for_no_memory(tmp_path: Path, kind: int) -> None:
    path = make(tmp_path / "x.zip", {"k": bytes(1000), "j": b""}, kind)
    with zipfile.ZipFile(path) as archive:
        stored = archive.getinfo("k").compress_size
    data = bytearray(path.read_bytes())
    entry = data.index(b"PK\1\2")  # the first of the directory
    assert data[entry + 46 : entry + 47] == b"k"
    assert struct.unpack_from("<II", data, entry + 20) == (stored, 1000)
    struct.pack_into("<II", data, entry + 20, 0xFFFFFFF0, 0xFFFFFFF0)
    path.write_bytes(data)
    for act in (lambda s: s.get("k"), lambda s: s.get_range("k", 5, 10)):
        with pytest.raises(StoreError, match="impossible size"):
            act(open_store(path))


def test_a_compressed_document_is_unpacked_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path / "x.zip", {"zarr.json": b" " * 100_000, "c": bytes(100_000)}, zipfile.ZIP_DEFLATED)
    assert len(open_store(path).get("zarr.json") or b"") == 100_000
    monkeypatch.setattr("nczarr.stores.zip.MAX_COMPRESSED_DOCUMENT", 99_999)
    with pytest.raises(StoreError, match="above the limit"):
        open_store(path).get("zarr.json")
    assert len(open_store(path).get("c") or b"") == 100_000
    monkeypatch.setattr("nczarr.stores.zip.MAX_COMPRESSED", 99_999)
    with pytest.raises(StoreError, match="above the limit"):
        open_store(path).get("c")


@pytest.mark.parametrize("after", [True, False])
def test_an_interrupt_while_it_is_put_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    path = tmp_path / "a.zip"
    with ZipStore(path, "w") as store:
        store.set("k", b"old")
    store = ZipStore(path, "r+")
    store.set("k", b"new")
    real = os.replace

    def interrupted(*names: Any) -> None:
        if after:
            real(*names)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.sync()
    monkeypatch.setattr(os, "replace", real)
    store.close()  # no other program has changed it
    assert [p.name for p in tmp_path.iterdir()] == ["a.zip"]
    with ZipStore(path) as again:
        assert again.get("k") == (b"new" if after else b"old")


def test_a_zip_file_that_cannot_be_written_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk: the old file stays, and nothing is beside it, even while the error is at hand."""
    resource = pytest.importorskip("resource")
    path = tmp_path / "a.zip"
    with nczarr.Dataset(path, "w") as dataset:
        dataset.createDimension("x")
        dataset.createVariable("v", "f8", ("x",), chunksizes=(1000,))[:] = np.zeros(10)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    dataset = nczarr.Dataset(path, "a")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        with pytest.raises(StoreError, match=r"cannot write: File too large$") as caught:  # noqa: PT012
            dataset["v"][0:9000] = np.random.default_rng(0).normal(size=9000)
            dataset.close()
        with contextlib.suppress(NCZarrError):
            dataset.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [p.name for p in tmp_path.iterdir()] == ["a.zip"], caught
    with nczarr.Dataset(path, "a") as again:
        assert again["v"][:].tolist() == [0] * 10


def test_a_read_only_file_is_not_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write to everything: the system is asked here as an ordinary user would."""
    path = tmp_path / "a.zip"
    with nczarr.Dataset(path, "w") as dataset:
        dataset.title = "old"

    def access(name: str, mode: int) -> bool:
        return not mode & os.W_OK or bool(os.stat(name).st_mode & 0o222)

    monkeypatch.setattr(os, "access", access)
    path.chmod(0o444)
    with pytest.raises(NCZarrError, match="read-only"):
        nczarr.Dataset(path, "a")
    with nczarr.Dataset(path) as dataset:
        assert dataset.title == "old"
    path.chmod(0o644)
    with nczarr.Dataset(path, "a") as dataset:
        dataset.title = "new"
    with nczarr.Dataset(path) as dataset:
        assert dataset.title == "new"


# --- several writers


WRITER = """
import os, sys, nczarr
try:
    ds = nczarr.Dataset(sys.argv[1], sys.argv[2])
except PermissionError as error:
    print("refused", error.errno, flush=True)
    sys.exit()
print("opened", flush=True)
ds.createDimension("x", 3)
ds.createVariable("v", "i4", ("x",))[:] = int(sys.argv[3])
sys.stdin.readline()
ds.close()
print("closed", flush=True)
"""


def writer(path: Path, mode: str, value: int) -> programs.Piped:
    return programs.Piped("-c", WRITER, path, mode, value)


def test_of_writers_that_begin_a_zip_at_once_one_may(tmp_path: Path) -> None:
    for round in range(3):
        path = tmp_path / f"{round}.zip"
        writers = [writer(path, "w", value) for value in range(4)]
        said = [one.stdout.readline().strip() for one in writers]
        assert sorted(said) == ["opened", *["refused 13"] * 3]
        assert [one.communicate("\n")[0].strip() for one in writers].count("closed") == 1
        with nczarr.Dataset(path) as dataset:
            assert dataset["v"][:].tolist() == [said.index("opened")] * 3
        assert sorted(os.listdir(tmp_path)) == [f"{n}.zip" for n in range(round + 1)]


@pytest.mark.slow
@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize("synced", [False, True])
def test_a_second_writer_of_a_zip_is_refused_at_opening(existing: bool, synced: bool, tmp_path: Path) -> None:
    """Here, in another process, and by a copy; before and after the first writer has synced."""
    path = tmp_path / "x.zip"
    if existing:
        nczarr.Dataset(path, "w").close()
    with nczarr.Dataset(path, "w") as dataset:
        dataset.createDimension("x", 2)
        values = dataset.createVariable("v", "i4", ("x",))
        if synced:
            values[:] = 1
            dataset.sync()
        for mode in ("w", "a") if synced or existing else ("w",):
            with pytest.raises(PermissionError):
                nczarr.Dataset(path, mode)
            assert writer(path, mode, 5).communicate("\n")[0] == "refused 13\n"
        (tmp_path / "a.cdl").write_text("netcdf a { dimensions: x = 2; }")
        done = programs.command("copy", "--overwrite", tmp_path / "a.cdl", path)
        (tmp_path / "a.cdl").unlink()
        assert done.returncode == 1
        assert "writ" in done.stderr
        assert "Traceback" not in done.stderr
        values[:] = 2
    with nczarr.Dataset(path) as dataset:
        assert dataset["v"][:].tolist() == [2, 2]
    nczarr.Dataset(path, "a").close()
    assert os.listdir(tmp_path) == ["x.zip"]


def test_a_zip_whose_writer_was_killed_can_be_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    first = writer(path, "w", 1)
    assert first.stdout.readline() == "opened\n"
    first.kill()
    first.wait()
    with nczarr.Dataset(path, "w") as dataset:
        dataset.title = "second"
    assert os.listdir(tmp_path) == ["x.zip"]


def test_threads_that_begin_one_zip(tmp_path: Path) -> None:
    path, opened, refused = tmp_path / "x.zip", [], []
    barrier = threading.Barrier(8)

    def begin() -> None:
        barrier.wait()
        try:
            opened.append(nczarr.Dataset(path, "w"))
        except PermissionError as error:
            refused.append(error)

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(opened), len(refused)) == (1, 7)
    opened[0].title = "the one"
    opened[0].close()
    with nczarr.Dataset(path) as dataset:
        assert dataset.title == "the one"


FORKED = """
import os, sys, nczarr
ds = nczarr.Dataset(sys.argv[1], "w")
ds.createDimension("x", 3)
v = ds.createVariable("v", "i4", ("x",))
v[0] = 1
if os.fork() == 0:
    del v
    del ds  # with it the store goes, whose files and unwritten bytes are the parent's
    sys.exit()
os.wait()
v[1:] = 2
ds.close()
"""


def test_a_forked_child_leaves_the_files_of_a_zip_alone(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", FORKED, tmp_path / "x.zip"], check=True)
    with nczarr.Dataset(tmp_path / "x.zip") as dataset:
        assert dataset["v"][:].tolist() == [1, 2, 2]


ORPHANING = """
import os, sys, time, nczarr
ds = nczarr.Dataset(sys.argv[1], "w")
if os.fork() == 0:
    os.close(1)
    os.read(0, 1)
    os._exit(0)
print("forked", flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_forked_child_does_not_keep_the_lock_of_a_dead_parent(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", ORPHANING, tmp_path / "x.zip"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdout.readline() == b"forked\n"
    parent.wait()
    nczarr.Dataset(tmp_path / "x.zip", "w").close()
    parent.communicate(b"\n")

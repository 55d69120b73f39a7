"""Test directory stores."""

from __future__ import annotations

import errno
import os
import pickle
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import nczarr
from nczarr.errors import DatasetNotFoundError, NCZarrError, StoreError
from nczarr.mapping import open_dataset
from nczarr.model import INT, Dataset, Dimension, MemorySource, Storage, Variable
from nczarr.stores import LocalStore, open_store
from nczarr.zarr import ArrayMetadata, create_hierarchy
from nczarr.zarr.grids import RegularGrid
from nczarr.zarr.types import data_type_for

V = Variable("v", INT, ("/x",))


def test_a_missing_directory_cannot_be_opened(tmp_path: Path) -> None:
    for mode in ("r", "r+"):
        with pytest.raises(DatasetNotFoundError, match="No such file or directory"):
            LocalStore(tmp_path / "missing", mode)
    with pytest.raises(FileNotFoundError):
        LocalStore(tmp_path / "missing")
    LocalStore(tmp_path / "missing", "w")
    assert not (tmp_path / "missing").exists()


def test_directories_come_and_go_with_their_keys(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "s", "w")
    store.set("a/b/c", b"x")
    assert (tmp_path / "s/a/b/c").read_bytes() == b"x"
    store.delete("a/b/c")
    assert os.listdir(tmp_path / "s") == []


def test_unfinished_files_are_never_listed_nor_reachable(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, "r+")
    (tmp_path / ".nczarr-1f-2.tmp").write_bytes(b"half")
    store.set(".nczarr", b"{}")
    assert list(store.list()) == [".nczarr"]
    assert store.list_dir() == ([".nczarr"], [])
    for act in (lambda: store.get(".nczarr-1f-2.tmp"), lambda: store.set("g/.nczarr-x.tmp", b"")):
        with pytest.raises(StoreError, match="unfinished"):
            act()


def test_nothing_is_left_when_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path, "r+")
    store.set("k", b"old")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StoreError, match=r"k: cannot write: No space left on device \(the disk is full\)"):
        store.set("k", b"new")
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["k"]
    assert store.get("k") == b"old"


def test_over_long_names(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, "r+")
    for key in ("n" * 300, "n" * 300 + "/zarr.json", "/".join(["d" * 200] * 40)):
        with pytest.raises(StoreError, match="so long a name"):
            store.set(key, b"x")
        # Who knows what another system has put there, which can hold such names.
        for read in (store.get, store.exists, lambda key: list(store.list(key))):
            with pytest.raises(StoreError, match="so long a name"):
                read(key)
        store.delete(key)
        store.delete_prefix(key)


def test_a_key_cannot_lie_below_another_key(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, "r+")
    store.set("a/b", b"x")
    with pytest.raises(StoreError, match="keys below"):
        store.set("a", b"y")
    with pytest.raises(StoreError, match="itself a key"):
        store.set("a/b/c", b"y")
    # Something is there, which may be in the place of what is looked for: not to be taken for missing.
    for read in (store.get, store.exists, store.size):
        with pytest.raises(StoreError, match="a: cannot read: this is a directory, not a file"):
            read("a")
        with pytest.raises(StoreError, match="itself a key"):
            read("a/b/c")
    assert list(store.list("a/b")) == []
    store.delete("a")
    assert list(store.list()) == ["a/b"]


def test_names_that_differ_only_in_case_where_the_file_system_does_not_tell(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, "r+", case_sensitive=False)
    store.set("g/t/zarr.json", b"1")
    store.set("g/t/zarr.json", b"2")
    store.set("g/t/c/0", b"3")
    for key in ("g/T/zarr.json", "G/x", "g/t/Zarr.json"):
        with pytest.raises(StoreError, match="upper from lower case"):
            store.set(key, b"4")
    store.delete_prefix("g/t")
    store.set("g/T/zarr.json", b"5")
    assert sorted(store.list()) == ["g/T/zarr.json"]


def test_case_matters_where_the_file_system_says_so(tmp_path: Path) -> None:
    (tmp_path / "probe").touch()
    if (tmp_path / "PROBE").exists():
        pytest.skip("this file system does not tell upper from lower case")
    store = LocalStore(tmp_path / "s", "w")
    store.set("T", b"1")
    store.set("t", b"2")
    assert (store.get("T"), store.get("t")) == (b"1", b"2")


@pytest.mark.skipif(sys.platform == "win32", reason="needs symbolic links")
def test_deleting_never_follows_a_link_out_of_the_store(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"x")
    root = tmp_path / "s"
    root.mkdir()
    (root / "g").mkdir()
    (root / "link").symlink_to(outside)
    (root / "g" / "link").symlink_to(outside)
    store = LocalStore(root, "r+")
    assert store.get("link/precious") == b"x"
    store.delete_prefix("g")
    store.delete_prefix("link")
    assert (outside / "precious").exists()
    (root / "link").symlink_to(outside)
    store.delete_prefix("")
    assert (outside / "precious").exists()
    assert os.listdir(root) == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_forbidden_is_not_missing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, "r+")
    store.set("k", b"x")
    (tmp_path / "k").chmod(0)
    with pytest.raises(StoreError, match="Permission denied"):
        store.get("k")


def test_io_errors_are_not_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path, "r+")
    store.set("k", b"x")

    def deny(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    for name, act in (
        ("open", lambda: store.get("k")),
        ("stat", lambda: store.exists("k")),
        ("scandir", lambda: list(store.list())),
        ("unlink", lambda: store.delete("k")),
    ):
        monkeypatch.setattr(os, name, deny)
        with pytest.raises(StoreError, match="Permission denied"):
            act()
        monkeypatch.undo()


def test_open_file_gives_the_bytes_in_place(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, "r+")
    store.set("v/c/0", b"abcdef")
    descriptor = store.open_file("v/c/0")
    assert descriptor is not None
    try:
        assert os.pread(descriptor, 3, 2) == b"cde"
    finally:
        os.close(descriptor)
    assert store.open_file("v/c/1") is None


def test_goes_to_another_process(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, "r+")
    store.set("k", b"x")
    assert pickle.loads(pickle.dumps(store)).get("k") == b"x"


def test_relative_paths_survive_a_change_of_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = LocalStore("s", "w")
    store.set("k", b"x")
    monkeypatch.chdir("/")
    assert store.get("k") == b"x"
    assert store.place("k") == "s/k"


def test_pipes_sockets_and_devices_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here waits for the other end of a pipe."""
    nczarr.copy(Dataset("d", dimensions=(Dimension("x", 2),), variables=(V,)), tmp_path / "a.zarr")
    store = LocalStore(tmp_path / "a.zarr")
    os.mkfifo(tmp_path / "a.zarr" / "pipe")
    (tmp_path / "a.zarr" / "v" / "c").mkdir()
    os.mkfifo(tmp_path / "a.zarr" / "v" / "c" / "0")
    with socket.socket(socket.AF_UNIX) as end:
        monkeypatch.chdir(tmp_path)  # the name of a socket is short
        end.bind("a.zarr/socket")
    for act in (store.get, store.size, store.exists):
        for name, kind in (("pipe", "pipe"), ("socket", "socket|such device")):
            with pytest.raises(StoreError, match=f"{name}: cannot read: .*{kind}"):
                act(name)
    with (
        nczarr.Dataset(tmp_path / "a.zarr") as dataset,
        pytest.raises(StoreError, match=r"v/c/0: .*this is a pipe, not a file"),
    ):
        dataset["v"][:]
    for target in (tmp_path / "a.zarr" / "pipe", "/dev/zero"):
        with pytest.raises(DatasetNotFoundError, match=r"this is a (pipe|device)"):
            open_store(target)


def test_nothing_is_changed_by_way_of_a_linked_folder(tmp_path: Path) -> None:
    for name in "ab":
        nczarr.copy(Dataset("d", dimensions=(Dimension("x", 2),), variables=(V,)), tmp_path / f"{name}.zarr")
    (tmp_path / "a.zarr" / "v").rename(tmp_path / "a.zarr" / "w")
    (tmp_path / "a.zarr" / "v").symlink_to(tmp_path / "b.zarr" / "v")
    store = LocalStore(tmp_path / "a.zarr", "r+")
    before = sorted(LocalStore(tmp_path / "b.zarr").list())
    for act in (
        lambda: store.set("v/c/0", b""),
        lambda: store.delete("v/zarr.json"),
        lambda: store.delete_prefix("v/c"),
    ):
        with pytest.raises(StoreError, match=r"this is a link to .*b\.zarr"):
            act()
    with (
        pytest.raises(StoreError, match="this is a link"),
        nczarr.Dataset(tmp_path / "a.zarr", "r+") as dataset,
    ):
        dataset["v"][:] = 7
    assert sorted(LocalStore(tmp_path / "b.zarr").list()) == before
    assert store.get("v/zarr.json") is not None
    store.delete_prefix("v")
    assert sorted(LocalStore(tmp_path / "b.zarr").list()) == before
    (tmp_path / "root.zarr").symlink_to(tmp_path / "b.zarr")  # a link to the whole store is the store
    LocalStore(tmp_path / "root.zarr", "r+").set("v/c/0", b"x")


def test_a_link_in_the_place_of_a_new_steps_folder_is_refused(tmp_path: Path) -> None:
    """The folders of other steps were made in this session, and are not looked at again."""
    (tmp_path / "outside").mkdir()
    array = create_hierarchy(LocalStore(tmp_path / "a.zarr", "w")).put_array(
        "v", ArrayMetadata((9, 4), data_type_for("int32"), RegularGrid((1, 4)), fill_value=np.int32(0))
    )
    array.write(slice(0, 3), 1)
    (tmp_path / "a.zarr" / "v" / "c" / "4").symlink_to(tmp_path / "outside")
    with pytest.raises(StoreError, match="this is a link"):
        array.write(slice(3, 6), 1)
    store = LocalStore(tmp_path / "b.zarr", "w")
    store.set("v/c/0/0", b"x")
    (tmp_path / "b.zarr" / "v" / "c" / "1").symlink_to(tmp_path / "outside")
    store.set("v/c/2/0", b"x")
    with pytest.raises(StoreError, match="this is a link"):
        store.set("v/c/1/0", b"x")
    assert not list((tmp_path / "outside").iterdir())


def test_an_interrupt_while_writing_stays_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path, "r+")
    replace = os.replace

    def late(*names: str) -> None:
        replace(*names)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", late)
    with pytest.raises(KeyboardInterrupt):
        store.set("k", b"new")
    monkeypatch.undo()
    assert store.get("k") == b"new"


def test_of_many_that_set_a_key_first_one_does(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, "r+")
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda n: store.set_if_absent("k", b"%d" % n), range(8)))
    assert sum(done) == 1
    assert store.get("k") == b"%d" % done.index(True)
    assert os.listdir(tmp_path) == ["k"]


@pytest.mark.parametrize("where", ["v/c/0", "v/c", "v"])
@pytest.mark.parametrize("chunks", [1, 40])
@pytest.mark.parametrize("codec", ["none", "zstd:1"])
def test_what_is_behind_a_link_that_leads_nowhere_is_not_taken_for_missing(
    tmp_path: Path, where: str, chunks: int, codec: str
) -> None:
    """The disk that it leads to is not mounted, or the file was not fetched."""
    data = MemorySource(np.ones(chunks * 4, "i4"))
    v = Variable("v", INT, ("/x",), storage=Storage(chunk_shape=(4,)), data=data)
    model = Dataset("d", dimensions=(Dimension("x", chunks * 4),), variables=(v,))
    path = tmp_path / "a.zarr"
    nczarr.copy(model, path, compression=codec)
    (path / where).rename(tmp_path / "elsewhere")
    (path / where).symlink_to(tmp_path / "elsewhere")
    with open_dataset(path, consolidated=True) as stored:
        assert (stored.data("/v").read((slice(0, chunks * 4),)) == 1).all()
    (tmp_path / "elsewhere").rename(tmp_path / "away")
    store = LocalStore(path)
    for ask in (store.get, store.size, store.exists):
        with pytest.raises(StoreError, match="has no target"):
            ask("v/c/0")
    with open_dataset(path, consolidated=True) as stored:
        for size in (1, chunks * 4):
            with pytest.raises(NCZarrError, match="has no target"):
                stored.data("/v").read((slice(0, size),))
    assert store.get("w/c/0") is None


@pytest.mark.skipif(not hasattr(os, "pread"), reason="files are read by place only on POSIX")
@pytest.mark.parametrize("by_system", [True, False])
def test_a_value_from_a_file(tmp_path: Path, by_system: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes(range(256)) * 40_000
    (tmp_path / "source").write_bytes(data)
    store = LocalStore(tmp_path / "store", "w")

    def refuse(*arguments: object) -> int:
        raise OSError(errno.EXDEV, "not on one file system")

    if not by_system:
        monkeypatch.setattr(os, "copy_file_range", refuse, raising=False)
    with open(tmp_path / "source", "rb") as file:
        for offset, size in ((0, len(data)), (300, 9_000_001), (len(data), 0)):
            store.set_from_file("v/c/0", file.fileno(), offset, size)
            assert store.get("v/c/0") == data[offset : offset + size]
        with pytest.raises(StoreError, match=f"truncated: it ends at byte {len(data)}"):
            store.set_from_file("v/c/0", file.fileno(), 10, len(data))
    assert store.get("v/c/0") == b""
    assert [p.name for p in (tmp_path / "store" / "v" / "c").iterdir()] == ["0"]


def test_a_directory_in_place_of_a_value_is_one_reason(tmp_path: Path) -> None:
    (tmp_path / "k").mkdir()
    with pytest.raises(StoreError) as caught:
        LocalStore(tmp_path).get("k")
    assert caught.value.message == "cannot read: this is a directory, not a file"


def test_values_before_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last value is set last. Until then, the others are no newer than its earlier value."""
    store = LocalStore(tmp_path, "r+")
    store.set("zarr.json", b"old")
    replace, seen = os.replace, []
    monkeypatch.setattr(
        os, "replace", lambda *paths: (replace(*paths), seen.append(os.path.basename(paths[1])))[0]
    )
    for order in (False, True):
        store.keep_order(order)
        before = (tmp_path / "zarr.json").stat().st_mtime_ns
        seen.clear()
        store.set_before([(f"v{i}/data", b"new") for i in range(100)], "zarr.json", b"new")
        assert seen == [*["data"] * 100, "zarr.json"]
        assert {(tmp_path / f"v{i}" / "data").stat().st_mtime_ns for i in range(100)} == {before}
        assert (tmp_path / "zarr.json").stat().st_mtime_ns >= before
        assert store.get("zarr.json") == b"new"

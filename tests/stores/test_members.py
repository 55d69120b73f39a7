"""Test the members of stores that the engine and the mapping call."""

from __future__ import annotations

from pathlib import Path

import pytest

from nczarr.errors import ReadOnlyError, StoreError
from nczarr.stores import LocalStore, MemoryStore, Store


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    made = MemoryStore() if request.param == "memory" else LocalStore(tmp_path / "s", "w")
    for key in ("zarr.json", "g/zarr.json", "g/v/c/0"):
        made.set(key, b"x")
    return made


def test_a_writable_store_says_so_and_another_refuses(store: Store, tmp_path: Path) -> None:
    store.check_writable("g/v/c/0")
    (tmp_path / "s").mkdir(exist_ok=True)
    with pytest.raises(ReadOnlyError, match="reading only"):
        LocalStore(tmp_path / "s").check_writable("g/v/c/0")


def test_many_folders_are_listed_as_one_is(store: Store) -> None:
    folders = ["", "g/", "g/v/"]
    assert list(store.list_dirs(folders)) == [store.list_dir(folder) for folder in folders]


def test_names_that_the_file_system_has_are_accepted(store: Store) -> None:
    store.check_names(["sst", "海面"])


def test_a_replaced_dataset_is_noticed(tmp_path: Path) -> None:
    store = MemoryStore()
    store.set("zarr.json", b"x")
    store.hold()
    store.check_current()
    store.announce_replacement()
    with pytest.raises(StoreError, match="was replaced"):
        store.check_current()


def test_a_folder_is_made_once_and_never_behind_a_link(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "s", "w")
    store.set("zarr.json", b"x")
    store.prepare_folder("v/c/0")
    store.prepare_folder("v/c/0")
    assert (tmp_path / "s/v/c/0").is_dir()
    store.make_folder(str(tmp_path / "s/w/c"))
    assert (tmp_path / "s/w/c").is_dir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "s/link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="link"):
        store.prepare_folder("link/c")

"""Read a variable that another program removes, renames or replaces: the result is an error, never fill."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczarr
from nczarr.errors import StoreError
from nczarr.mapping import WriteOptions, create_dataset, open_dataset
from nczarr.mapping.options import LayoutName
from nczarr.model import DOUBLE, INT, Attribute, Dataset, Dimension, Storage, Variable
from nczarr.stores import LocalStore, MemoryStore, Store
from nczarr.stores.memory import MappingStore
from nczarr.zarr.hierarchy.layouts import V3Layout

LAYOUTS: list[LayoutName] = ["nczarr-v3", "nczarr-v2", "zarr-v3", "zarr-v2", "draft-2019"]
GONE = "/v: the array was removed, renamed or replaced since the dataset was opened .open the dataset again."


def model(name: str = "v", type_: Any = INT) -> Dataset:
    variables = tuple(Variable(n, type_, ("/x",), storage=Storage(chunk_shape=(2,))) for n in (name, "w"))
    return Dataset("d", dimensions=(Dimension("x", 8, True),), variables=variables)


def write(store: Any, dataset: Dataset, options: WriteOptions, **more: Any) -> None:
    with create_dataset(store, dataset, options, **more) as sink:
        for fqn in dataset.all_variables:
            sink.write(fqn, (slice(0, 6),), np.full(6, 5, "i4"))  # the last chunk is missing


def rename(store: Any) -> None:
    with open_dataset(store, "r+") as stored:
        first, *others = stored.dataset.variables
        stored.update(replace(stored.dataset, variables=(replace(first, name="z"), *others)))


def remove(store: Any) -> None:
    with open_dataset(store, "r+") as stored:
        stored.update(replace(stored.dataset, variables=stored.dataset.variables[1:]))


def remake(store: Any) -> None:
    """Another variable of the same name."""
    with open_dataset(store, "r+") as stored:
        first, *others = stored.dataset.variables
        new = replace(first, type=DOUBLE, data=None)
        stored.update(replace(stored.dataset, variables=(new, *others)))


STORES: dict[str, Callable[[Path], Any]] = {
    "directory": lambda path: path,
    "memory": lambda path: MemoryStore(),
    "mapping": lambda path: MappingStore({}),
    "fsspec": lambda path: f"memory://{path}",
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("act", [rename, remove, remake])
@pytest.mark.parametrize("consolidated", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", STORES)
def test_a_reader_is_told(
    kind: str, layout: LayoutName, consolidated: bool, act: Callable[[Any], None], tmp_path: Path
) -> None:
    target = STORES[kind](tmp_path / "a.zarr")
    write(target, model(), WriteOptions(layout=layout, consolidated=consolidated))
    with open_dataset(target) as reader:
        fill = reader.data("/v").read((slice(6, 8),))
        assert reader.data("/v").read((slice(0, 8),)).tolist() == [5] * 6 + fill.tolist()
        act(target)
        for region in ((slice(0, 8),), (slice(7, 8),)):
            with pytest.raises(StoreError, match=GONE):
                reader.data("/v").read(region)
        assert reader.data("/w").read((slice(0, 8),)).tolist() == [5] * 6 + fill.tolist()


def test_what_grows_or_gets_attributes_goes_on_being_read(tmp_path: Path) -> None:
    write(tmp_path / "a.zarr", model(), WriteOptions())
    with nczarr.Dataset(tmp_path / "a.zarr") as reader:
        with nczarr.Dataset(tmp_path / "a.zarr", "a") as writer:
            writer["v"].units = "m"
            writer["v"][10:12] = 6
            writer.createVariable("new", "f8", ("x",))
        assert reader["v"][:].tolist() == [5] * 6 + [None, None]


def test_consolidated_metadata_alone_are_enough() -> None:
    """Other programs keep no documents beside the consolidated ones."""
    store = MemoryStore()
    write(store, model(), WriteOptions())
    store.delete("v/zarr.json")
    with open_dataset(store) as reader:
        assert reader.data("/v").read((slice(0, 8),)).tolist()[:6] == [5] * 6


@pytest.mark.parametrize("consolidated", [True, False])
def test_an_array_of_which_the_folder_is_deleted(consolidated: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    write(path, model(), WriteOptions(consolidated=consolidated))
    with open_dataset(path) as reader:
        shutil.rmtree(path / "v")
        if consolidated:
            (path / "zarr.json").unlink()
        with pytest.raises(StoreError, match=GONE):
            reader.data("/v").read((slice(0, 8),))


class Counting(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def get_many(self, keys: Any) -> Any:
        self.asked += keys
        return super().get_many(keys)


def test_chunks_that_are_there_cost_no_more() -> None:
    store: Store = Counting()
    write(store, model(), WriteOptions())
    with open_dataset(store) as reader:
        assert isinstance(store, Counting)
        reader.data("/v")
        store.asked.clear()
        reader.data("/v").read((slice(0, 6),))
        assert store.asked == ["v/c/0", "v/c/1", "v/c/2"]
        reader.data("/v").read((slice(0, 8),))
        assert store.asked[3:] == ["v/c/0", "v/c/1", "v/c/2", "v/c/3", "v/zarr.json"]


def test_documents_of_before_and_after_an_append_are_not_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that writes no consolidated metadata was here, so the documents count; and now another appends."""
    path = tmp_path / "a.zarr"
    with nczarr.Dataset(path, "w") as dataset:
        dataset.createDimension("x")
        for name in "ab":
            dataset.createVariable(name, "i4", ("x",), chunksizes=(2,))[:] = [5, 5]
    later = (path / "zarr.json").stat().st_mtime_ns + 10**9
    os.utime(path / "a/zarr.json", ns=(later, later))
    read, begun = LocalStore.get_range, []

    def get_range(store: LocalStore, key: str, start: int, length: int | None = None) -> bytes | None:
        if key == "b/zarr.json" and not begun:
            begun.append(key)
            with nczarr.Dataset(path, "a") as writer:
                writer["a"][2:4] = 5
                writer["b"][2:4] = 5
        return read(store, key, start, length)

    monkeypatch.setattr(LocalStore, "get_range", get_range)
    with nczarr.Dataset(path) as reader:
        assert begun
        assert reader["a"][:].tolist() == reader["b"][:].tolist() == [5] * 4


@pytest.mark.slow
@pytest.mark.parametrize("act", [None, rename, remove, remake])
def test_a_reader_of_many_variables_is_told(
    act: Callable[[Any], None] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Consolidated documents that were not read yet: one that is the same to the letter need not be read."""
    many = tuple(Variable(f"more{i}", INT, ("/x",)) for i in range(600))
    dataset = model()
    write(tmp_path / "a.zarr", replace(dataset, variables=dataset.variables + many), WriteOptions())
    with open_dataset(tmp_path / "a.zarr") as reader:
        assert reader.data("/v").read((slice(4, 8),)).tolist()[:2] == [5, 5]
        if act is None:
            monkeypatch.setattr(V3Layout, "fetch", lambda *given: pytest.fail("read once more"))
            assert reader.data("/v").read((slice(4, 8),)).tolist()[:2] == [5, 5]
            return
        act(tmp_path / "a.zarr")
        with pytest.raises(StoreError, match=GONE):
            reader.data("/v").read((slice(4, 8),))


class LookedAt(MemoryStore):
    """A store that is opened after each change."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[int, ...]] | None = None

    def set(self, key: str, data: Any) -> None:
        super().set(key, data)
        self._open()

    def delete(self, key: str) -> None:
        super().delete(key)
        self._open()

    def _open(self) -> None:
        if self.seen is not None:
            with open_dataset(self) as stored:
                # A reader that walks the documents may meet those of the next change on its way.
                assert stored.hierarchy.consolidated
                sizes = {(d.name, d.size) for d in stored.dataset.dimensions}
                shapes = [stored.dataset.shape_of(v)[0] for v in stored.dataset.all_variables.values()]
                self.seen.append(
                    (*shapes, *(size for _, size in sorted(sizes)), len(stored.dataset.attributes))
                )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("layout", ["nczarr-v3", "nczarr-v2", "zarr-v3"])
def test_each_look_at_a_growing_dataset_is_of_one_moment(layout: LayoutName) -> None:
    """The root was written without the copies at first: whoever opened it then mixed this change and the next."""
    store = LookedAt()
    write(store, model(), WriteOptions(layout=layout))
    with open_dataset(store, "r+") as stored:
        grown = replace(
            stored.dataset,
            dimensions=(Dimension("x", 20, True),),
            attributes=(Attribute.of("title", "longer"),),
        )
        store.seen = []
        stored.update(grown)
    assert len(store.seen) >= 3
    before, after = (8, 8, 8, 0), (20, 20, 20, 1)
    assert set(store.seen) == {before, after}
    assert store.seen.index(after) == store.seen.count(before)

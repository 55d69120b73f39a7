"""Test stored datasets: nothing half-written is visible, other data are not deleted, changes keep the rest."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import mapping_tools as tools
import numpy as np
import pytest
import strategies
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rotation import examples

from nczarr.errors import (
    DatasetExistsError,
    DatasetNotFoundError,
    ModelError,
    NCZarrError,
    ReadOnlyError,
    SelectionError,
    UnsupportedError,
)
from nczarr.mapping import (
    RecoveryWarning,
    StoredDataset,
    WriteOptions,
    create_dataset,
    open_dataset,
)
from nczarr.mapping.dataset.variable_data import VariableData
from nczarr.model import (
    DOUBLE,
    INT,
    SHORT,
    STRING,
    Attribute,
    Dataset,
    Dimension,
    Filter,
    Group,
    MemorySource,
    OpaqueType,
    Storage,
    Variable,
    compare,
)
from nczarr.stores import LocalStore, MemoryStore
from nczarr.zarr.chunks.array import Array


def simple(value: int = 1, name: str = "v") -> Dataset:
    data = MemorySource(np.full(3, value, "i4"))
    return Dataset(
        "d",
        dimensions=(Dimension("x", 3),),
        variables=(Variable(name, INT, ("/x",), data=data),),
        groups=(Group("g", variables=(Variable("w", INT, ("/x",), data=data),)),),
    )


def target_of(kind: str, folder: Path) -> Any:
    targets: dict[str, Any] = {
        "memory": MemoryStore(),
        "local": folder / "d.zarr",
        "zip": folder / "d.zip",
        "mapping": {},
    }
    return targets[kind]


# Transactions


@pytest.mark.parametrize("kind", ["memory", "local", "zip", "mapping"])
def test_nothing_is_visible_before_commit(kind: str, tmp_path: Path) -> None:
    target = target_of(kind, tmp_path)
    sink = create_dataset(target, simple())
    tools.fill(sink, simple())
    sink.sync()
    with pytest.raises(DatasetNotFoundError):
        open_dataset(target)
    sink.commit()
    assert tools.differences(simple(), target) == []
    sink.close()


@pytest.mark.parametrize("kind", ["memory", "local", "zip", "mapping"])
def test_abort_removes_all(kind: str, tmp_path: Path) -> None:
    target = target_of(kind, tmp_path)

    def write_and_fail() -> None:
        with create_dataset(target, simple()) as sink:
            tools.fill(sink, simple())
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_and_fail()
    with pytest.raises(DatasetNotFoundError):
        open_dataset(target)
    assert list(tmp_path.iterdir()) == []
    if kind == "memory":
        assert list(target.list()) == []
    if kind == "mapping":
        assert target == {}


@pytest.mark.parametrize("kind", ["memory", "local", "zip", "mapping"])
def test_a_dataset_is_replaced_only_on_request(kind: str, tmp_path: Path) -> None:
    target = target_of(kind, tmp_path)
    tools.copy(simple(1, "old"), target)
    with pytest.raises(DatasetExistsError, match="exists already"):
        create_dataset(target, simple(2))
    assert tools.differences(simple(1, "old"), target) == []
    # A model that is refused leaves what is there.
    with pytest.raises(NCZarrError):
        create_dataset(target, Dataset("d", variables=(Variable("a\udcff", INT),)), overwrite=True)
    assert tools.differences(simple(1, "old"), target) == []
    tools.copy(simple(2), target, overwrite=True)
    assert tools.differences(simple(2), target) == []
    if kind in ("local", "zip"):
        assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("kind", ["local", "zip"])
def test_what_is_replaced_stays_until_the_new_one_is_complete(kind: str, tmp_path: Path) -> None:
    target = tmp_path / ("d.zarr" if kind == "local" else "d.zip")
    tools.copy(simple(1), target)
    sink = create_dataset(target, simple(2), overwrite=True)
    tools.fill(sink, simple(2))
    assert tools.differences(simple(1), target) == []
    sink.abort()
    assert tools.differences(simple(1), target) == []
    assert [p.name for p in tmp_path.iterdir()] == [target.name]


def test_publishing_shows_a_dataset_that_is_still_written(tmp_path: Path) -> None:
    target = tmp_path / "d.zarr"
    tools.copy(simple(1), target)
    with create_dataset(target, simple(2), overwrite=True) as sink:
        sink.publish()
        assert not sink.hidden
        tools.fill(sink, simple(2))
        assert tools.differences(simple(2), target) == []
    assert tools.differences(simple(2), target) == []


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_is_not_zarr_is_never_touched(overwrite: bool, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    (tmp_path / "file.nc").write_bytes(b"CDF\x01")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "zarr.json").write_text('{"name": "not a Zarr document"}')
    before = sorted((p, p.read_bytes()) for p in tmp_path.rglob("*") if p.is_file())
    for target in (folder, tmp_path / "file.nc", tmp_path / "other", {"thesis.txt": b"years"}):
        with pytest.raises(DatasetExistsError, match="never overwritten"):
            create_dataset(target, simple(), overwrite=overwrite)
    assert sorted((p, p.read_bytes()) for p in tmp_path.rglob("*") if p.is_file()) == before


@pytest.mark.parametrize("kind", ["memory", "local", "mapping"])
def test_what_a_process_left_that_died_can_be_replaced(kind: str, tmp_path: Path) -> None:
    target = {"memory": MemoryStore(), "local": tmp_path / "d.zarr", "mapping": {}}[kind]
    dead = create_dataset(target, simple(1))
    tools.fill(dead, simple(1))
    del dead
    with pytest.raises(DatasetExistsError, match="unfinished"):
        create_dataset(target, simple(2))
    tools.copy(simple(2), target, overwrite=True)
    assert tools.differences(simple(2), target) == []
    if kind == "local":
        assert sorted(p.name for p in tmp_path.iterdir()) == ["d.zarr"]
        assert sorted(p.name for p in target.iterdir()) == ["g", "v", "zarr.json"]


def test_a_folder_of_datasets_is_not_a_dataset(tmp_path: Path) -> None:
    tools.copy(simple(), tmp_path / "a.zarr")
    with pytest.raises(DatasetExistsError, match="never overwritten"):
        create_dataset(tmp_path, simple(), overwrite=True)
    assert tools.differences(simple(), tmp_path / "a.zarr") == []


def test_an_empty_directory_is_used_and_kept_on_abort(tmp_path: Path) -> None:
    create_dataset(tmp_path, simple()).abort()
    assert list(tmp_path.iterdir()) == []
    tools.copy(simple(), tmp_path)
    assert tools.differences(simple(), tmp_path) == []


def test_unknown_layouts_and_options_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="char"):
        WriteOptions(char="utf8")  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="layout"):
        WriteOptions(layout="zarr-v9")  # type: ignore[arg-type]


# Values


def test_orthogonal_reading_and_writing_of_every_kind() -> None:
    opaque = OpaqueType("/o", 3)
    shape = (4, 5)
    numbers = np.arange(20, dtype="i4").reshape(shape)
    blobs = np.array([bytes([i]) * 3 for i in range(20)], "V3").reshape(shape)
    texts = np.array([f"t{i}" for i in range(20)], object).reshape(shape)
    dataset = Dataset(
        "d",
        types=(opaque,),
        dimensions=(Dimension("y", 4), Dimension("x", 5)),
        variables=tuple(
            Variable(n, t, ("/y", "/x"), storage=Storage("chunked", (2, 2)), data=MemorySource(a))
            for n, t, a in (("i", INT, numbers), ("o", opaque, blobs), ("s", STRING, texts))
        ),
    )
    store = MemoryStore()
    tools.copy(dataset, store)
    selections = [
        ..., 1, -1, (1, 2), (slice(None, None, 2), 3), ([0, 2], [1, 1, 4]), (..., slice(4, 1, -1)),
        (np.array([True, False, True, False]), ...), (slice(1, 1),), ([],), (2, ..., [0, 3]),
    ]  # fmt: skip
    with open_dataset(store, "r+") as stored:
        for name, values in (("/i", numbers), ("/o", blobs), ("/s", texts)):
            data = stored.data(name)
            expected = values.copy()
            for selection in selections:
                rows, columns = axes(selection, shape)
                picked = expected[np.ix_(rows.reshape(-1), columns.reshape(-1))].reshape(
                    rows.shape + columns.shape
                )
                got = data.read_orthogonal(selection)
                assert got.dtype == data.dtype
                assert got.shape == picked.shape
                assert got.tolist() == picked.tolist()
            for selection in selections:
                if isinstance(selection, tuple) and [1, 1, 4] in [
                    i for i in selection if isinstance(i, list)
                ]:
                    continue  # the same place twice
                rows, columns = axes(selection, shape)
                new = np.roll(values, 7)[np.ix_(rows.reshape(-1), columns.reshape(-1))]
                expected[np.ix_(rows.reshape(-1), columns.reshape(-1))] = new
                data.write(selection, new.reshape(rows.shape + columns.shape))
                assert data.read_orthogonal(...).tolist() == expected.tolist()
            for wrong in ((1, 2, 3), (..., 1, ...), 4, ([7],), "x"):
                with pytest.raises(SelectionError):
                    data.read_orthogonal(wrong)


def axes(selection, shape):
    """The indices along each dimension, by numpy's own rules on ranges."""
    items = selection if isinstance(selection, tuple) else (selection,)
    if Ellipsis in [i for i in items if not isinstance(i, np.ndarray | list)]:
        at = next(k for k, i in enumerate(items) if i is Ellipsis)
        items = (*items[:at], *(slice(None),) * (len(shape) - len(items) + 1), *items[at + 1 :])
    items = (*items, *(slice(None),) * (len(shape) - len(items)))
    return [
        np.arange(n)[i if not isinstance(i, list) else np.array(i, int)]
        for n, i in zip(shape, items, strict=True)
    ]


def test_reading_into_a_buffer() -> None:
    store = MemoryStore()
    dataset = Dataset(
        "d",
        dimensions=(Dimension("x", 2),),
        variables=(Variable("s", STRING, ("/x",), data=MemorySource(np.array(["a", "b"], object))),),
    )
    tools.copy(dataset, store)
    with open_dataset(store) as stored:
        out = np.empty(1, object)
        assert stored.data("/s").read((slice(1, 2),), out) is out
        assert out.tolist() == ["b"]
        with pytest.raises(ModelError, match="did you mean '/s'"):
            stored.data("/ss")


# Changes


def reopened(stored: StoredDataset) -> Dataset:
    stored.sync()
    return open_dataset(stored.store).dataset


def test_appending_grows_every_array_of_the_dimension() -> None:
    dataset = Dataset(
        "d",
        dimensions=(Dimension("t", 0, unlimited=True), Dimension("x", 2)),
        variables=(
            Variable("v", INT, ("/t", "/x")),
            Variable("w", DOUBLE, ("/t",)),
            Variable("x", INT, ("/x",)),
        ),
        groups=(Group("g", variables=(Variable("v", SHORT, ("/x", "/t", "/t")),)),),
    )
    store = MemoryStore()
    with create_dataset(store, dataset) as stored:
        for step in range(1, 4):
            grown = replace(stored.dataset, dimensions=(Dimension("t", step, True), Dimension("x", 2)))
            stored.update(grown)
            stored.write("/v", (slice(step - 1, step), slice(0, 2)), np.full((1, 2), step, "i4"))
    with open_dataset(store) as stored:
        assert stored.dataset.dimension_at("/t") == Dimension("t", 3, True)
        assert stored.data("/v").read_orthogonal(...).tolist() == [[1, 1], [2, 2], [3, 3]]
        assert stored.data("/w").shape == (3,)
        assert stored.data("/w").array.shape == (3,)
        assert stored.data("/g/v").array.shape == (2, 3, 3)
    with open_dataset(store, "r+") as stored:
        stored.update(replace(stored.dataset, dimensions=(Dimension("t", 1, True), Dimension("x", 2))))
        stored.update(replace(stored.dataset, dimensions=(Dimension("t", 2, True), Dimension("x", 2))))
        assert stored.data("/v").read_orthogonal(...).tolist() == [[1, 1], [-2147483647, -2147483647]]


def test_a_cut_append_is_readable() -> None:
    """A process that dies while it appends leaves arrays that are longer than the size that is recorded."""
    store = MemoryStore()
    data = MemorySource(np.arange(3, dtype="i4"))
    dataset = Dataset(
        "d",
        dimensions=(Dimension("t", 3, True),),
        variables=(Variable("v", INT, ("/t",), data=data), Variable("w", INT, ("/t",), data=data)),
    )
    tools.copy(dataset, store, WriteOptions(consolidated=False))
    with open_dataset(store, "r+") as stored:
        stored.data("/v").array.resize((5,))
    # The arrays count: what is there is read, and the shorter ones read as fill.
    fill = -2147483647
    with pytest.warns(RecoveryWarning, match="3 of 5 steps"):
        stored = open_dataset(store, "r+")
    with stored:
        assert stored.data("/v").read_orthogonal(...).tolist() == [0, 1, 2, fill, fill]
        assert stored.data("/w").read_orthogonal(...).tolist() == [0, 1, 2, fill, fill]
        with pytest.raises(SelectionError):
            stored.data("/w").read_orthogonal(5)
        stored.update(stored.dataset)
        assert stored.data("/w").array.shape == (5,)
    with open_dataset(store) as stored:
        assert not stored.findings
        assert stored.data("/w").read_orthogonal(...).tolist() == [0, 1, 2, fill, fill]


def test_renaming_moves_values() -> None:
    store = MemoryStore()
    tools.copy(simple(5), store)
    with open_dataset(store, "r+") as stored:
        v = stored.dataset.variable_at("/v")
        w = stored.dataset.variable_at("/g/w")
        # Swap the variables of two groups, rename a group and a dimension, all at once.
        stored.write("/g/w", (slice(0, 3),), np.array([1, 2, 3], "i4"))
        dimensions = (Dimension("y", 3),)
        changed = replace(
            stored.dataset,
            dimensions=dimensions,
            variables=(replace(w, name="v", dimensions=("/y",)),),
            groups=(Group("h", variables=(replace(v, name="w", dimensions=("/y",)),)),),
        )
        stored.update(changed)
        again = reopened(stored)
        assert list(again.all_groups) == ["/", "/h"]
        assert again.variable_at("/v").data.read((slice(0, 3),)).tolist() == [1, 2, 3]
        assert again.variable_at("/h/w").data.read((slice(0, 3),)).tolist() == [5, 5, 5]
    assert not [k for k in store.list() if k.startswith(("g/", "_nc-moving"))]


def test_an_array_can_take_the_place_of_a_group_and_the_other_way_round() -> None:
    store = MemoryStore()
    tools.copy(simple(5), store)
    with open_dataset(store, "r+") as stored:
        v, w = stored.dataset.variable_at("/v"), stored.dataset.variable_at("/g/w")
        stored.write("/g/w", (slice(0, 3),), np.array([1, 2, 3], "i4"))
        groups = (Group("v", variables=(replace(v, name="inside"),)),)
        stored.update(replace(stored.dataset, variables=(replace(w, name="g"),), groups=groups))
        again = reopened(stored)
        assert again.variable_at("/g").data.read((slice(0, 3),)).tolist() == [1, 2, 3]
        assert again.variable_at("/v/inside").data.read((slice(0, 3),)).tolist() == [5, 5, 5]


def test_attributes_types_and_nodes_come_and_go() -> None:
    store = MemoryStore()
    tools.copy(simple(5), store)
    blob = OpaqueType("/blob", 2)
    with open_dataset(store, "r+") as stored:
        v = replace(stored.dataset.variable_at("/v"), attributes=(Attribute.of("units", "K"),))
        new = Variable("o", blob, ("/x",))
        stored.update(replace(stored.dataset, types=(blob,), variables=(new, v), groups=()))
        assert stored.data("/v").read_orthogonal(0) == 5
        assert bytes(stored.data("/o").read_orthogonal(0)) == b"\0\0"
        expected = stored.dataset
        assert list(compare(expected, reopened(stored), storage=True)) == []
        stored.update(replace(stored.dataset, attributes=(Attribute.of("one", 1), Attribute.of("two", 2))))
        stored.update(replace(stored.dataset, attributes=tuple(reversed(stored.dataset.attributes))))
        assert [a.name for a in reopened(stored).attributes] == ["two", "one"]
        stored.update(replace(stored.dataset, attributes=(Attribute.of("one", -0.0),)))
        stored.update(replace(stored.dataset, attributes=(Attribute.of("one", 0.0),)))
        assert not np.signbit(reopened(stored).attribute["one"].values[0])
    assert not [k for k in store.list() if k.startswith("g/")]


def test_a_changed_type_or_chunk_shape_erases() -> None:
    store = MemoryStore()
    tools.copy(simple(5), store)
    with open_dataset(store, "r+") as stored:
        v = stored.dataset.variable_at("/v")
        stored.update(replace(stored.dataset, variables=(replace(v, storage=Storage("chunked", (2,))),)))
        assert stored.data("/v").chunk_shape == (2,)
        assert stored.data("/v").read_orthogonal(0) == -2147483647
        stored.update(replace(stored.dataset, variables=(Variable("v", DOUBLE, ("/x",)),)))
        assert stored.data("/v").dtype == np.dtype("f8")


def test_a_model_that_is_not_sound_changes_nothing() -> None:
    store = MemoryStore()
    tools.copy(simple(5), store)
    before = {k: store.get(k) for k in store.list()}
    with open_dataset(store, "r+") as stored:
        with pytest.raises(ModelError, match="no dimension"):
            stored.update(replace(stored.dataset, variables=(Variable("v", INT, ("/nowhere",)),)))
        with pytest.raises(NCZarrError):
            stored.update(replace(stored.dataset, attributes=(Attribute.of("\udcff", 1),)))
    assert {k: store.get(k) for k in store.list()} == before
    with open_dataset(store) as stored, pytest.raises(ReadOnlyError):
        stored.update(stored.dataset)


def test_nothing_changed_writes_nothing() -> None:
    store = MemoryStore()
    tools.copy(simple(5), store)
    with open_dataset(store, "r+") as stored:
        writes: list[str] = []
        real = store.set
        store.set = lambda key, data: (writes.append(key), real(key, data))[1]  # type: ignore[method-assign]
        stored.update(stored.dataset)
        stored.sync()
        assert writes == []
        stored.update(replace(stored.dataset, attributes=(Attribute.of("a", 1),)))
        assert set(writes) == {"zarr.json"}


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_model_becomes_any_other(draw: st.DataObject) -> None:
    """Changing is the same as writing anew, for metadata; values of what stays are kept."""
    made = strategies.datasets(names=strategies.wild_names(), anonymous=True, depth=1)
    first, second = draw.draw(made), draw.draw(made)
    changed, fresh = MemoryStore(), MemoryStore()
    tools.copy(first, changed)
    with open_dataset(changed, "r+") as stored:
        stored.update(second)
        tools.fill(stored, second)
    tools.copy(second, fresh)
    assert tools.differences(second, changed) == []
    documents = [
        {
            k: json.loads(s.get(k))
            for k in s.list()
            if k.rpartition("/")[2] == "zarr.json" and k != "zarr.json"
        }
        for s in (changed, fresh)
    ]
    assert documents[0].keys() == documents[1].keys()


def test_a_store_that_cannot_list_is_read_by_what_is_declared() -> None:
    store = MemoryStore()
    tools.copy(simple(5), store, WriteOptions(consolidated=False))
    store.listable = store.lists_all = False
    calls: list[int] = []
    real = store.get_many
    store.get_many = lambda keys: (calls.append(len(keys)), real(keys))[1]  # type: ignore[method-assign]
    assert tools.differences(simple(5), store) == []
    # The root, and one batch for each level below.
    assert len([n for n in calls if n]) <= 6


def test_what_belongs_to_others_stays() -> None:
    store = MemoryStore()
    tools.copy(simple(5), store, WriteOptions(consolidated=False))
    foreign = {"uuid": "77c308c7-4db2-4774-8b2d-aa37e9997db6", "name": "CF"}
    ours = {"name": "x", "must_understand": False, "configuration": {}}
    for key in ("zarr.json", "g/zarr.json", "v/zarr.json"):
        document = json.loads(store.get(key))
        document["attributes"].setdefault("zarr_conventions", []).append(foreign)
        document["other"] = ours
        store.set(key, json.dumps(document).encode())
    with open_dataset(store, "r+") as stored:
        v = replace(stored.dataset.variable_at("/v"), attributes=(Attribute.of("units", "K"),))
        g = replace(stored.dataset.groups[0], attributes=(Attribute.of("a", 1),))
        attributes = (Attribute.of("title", "x"),)
        stored.update(replace(stored.dataset, attributes=attributes, variables=(v,), groups=(g,)))
    for key in ("zarr.json", "g/zarr.json", "v/zarr.json"):
        document = json.loads(store.get(key))
        assert foreign in document["attributes"]["zarr_conventions"]
        assert document["other"] == ours
    assert json.loads(store.get("zarr.json"))["attributes"]["zarr_conventions"] == [foreign]


def test_what_xarray_cuts_and_writes_again_is_plain_zarr(tmp_path: Path) -> None:
    xr = pytest.importorskip("xarray")
    tools.copy(simple(5), tmp_path / "a.zarr")
    with xr.open_dataset(tmp_path / "a.zarr", engine="zarr") as opened:
        opened.isel(x=slice(0, 2)).to_zarr(tmp_path / "b.zarr")
    with open_dataset(tmp_path / "b.zarr") as stored:
        assert stored.layout == "zarr-v3"
        assert stored.dataset.dimensions == (Dimension("x", 2),)
        assert stored.data("/v").read_orthogonal(...).tolist() == [5, 5]


def test_foreign_additions_are_read(tmp_path: Path) -> None:
    """An array that xarray or zarr-python adds is a variable like others."""
    zarr = pytest.importorskip("zarr")
    tools.copy(simple(5), tmp_path / "d.zarr", WriteOptions(consolidated=False))
    root = zarr.open_group(tmp_path / "d.zarr")
    root.create_array("added", data=np.array([True, False, True]), dimension_names=("x",))
    root.create_array("g/z", data=np.arange(4.0), dimension_names=("z",), attributes={"units": "m"})
    with open_dataset(LocalStore(tmp_path / "d.zarr")) as stored:
        added = stored.dataset.variable_at("/added")
        assert (added.type.name, added.dimensions) == ("byte", ("/x",))
        assert stored.data("/added").read_orthogonal(...).tolist() == [1, 0, 1]
        assert stored.dataset.variable_at("/g/z").dimensions == ("/g/z",)
        assert stored.dataset.variable_at("/g/z").attribute["units"].text == "m"


@pytest.mark.parametrize(
    "selection",
    [
        (slice(None), slice(None)),
        (slice(7, 1, -2), slice(1, 3)),
        (5, slice(None)),
        (1, 2),
        ([0, 7, 3, 3], [2, 0]),
        (slice(4, 8), 0),
        (..., np.array([True, False, True])),
    ],
    ids=str,
)
@pytest.mark.parametrize("stored", [4, 8, 11])
def test_an_array_of_another_length_than_its_dimension(stored: int, selection: Any) -> None:
    """Other programs make arrays shorter or longer: what is missing is fill, what is behind the dimension unseen."""
    model = Dataset(
        "d",
        dimensions=(Dimension("t", 8, unlimited=True), Dimension("x", 3)),
        variables=(Variable("v", INT, ("/t", "/x")),),
    )
    store = MemoryStore()
    values = np.arange(24, dtype="i4").reshape(8, 3)
    with create_dataset(store, model) as sink:
        sink.data("/v").write(..., values)
        data = sink.data("/v")
        data.array.resize((stored, 3))
        values[min(stored, 8) :] = -2147483647
        rows, columns = (selection[0], selection[1])
        expected = values[...] if rows is ... else values[rows]
        if rows is ... or not isinstance(rows, int):
            expected = expected[:, columns]
        else:
            expected = expected[columns]
        found = data.read_orthogonal(selection)
        assert np.array_equal(found, expected)
        assert np.shape(found) == np.shape(expected)


def growing(store: MemoryStore) -> VariableData:
    """The values of an array of four elements, in chunks of two, whose dimension can grow."""
    model = Dataset(
        "d",
        dimensions=(Dimension("t", 4, unlimited=True),),
        variables=(Variable("v", INT, ("/t",), storage=Storage("chunked", (2,))),),
    )
    return create_dataset(store, model).data("/v")


def test_an_array_that_grows_in_another_thread_is_not_taken_for_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would be made as long as it was before: what the other thread has written behind that would be lost."""
    data = growing(MemoryStore())
    array = data.array

    class Watched:
        """The array, which another thread makes longer as soon as somebody has looked at its shape."""

        @property
        def shape(self) -> tuple[int, ...]:
            shape = array.shape
            if shape == (4,):
                array.grow((8,))
                data.grow((8,))
            return shape

        def __getattr__(self, name: str) -> Any:
            return getattr(array, name)

    monkeypatch.setattr(VariableData, "array", property(lambda self: Watched()))
    assert not data.is_short


def test_of_two_threads_one_makes_a_short_array_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other would remove what the first has written behind the old end."""
    data = growing(MemoryStore())
    data.array.resize((1,))
    both = threading.Barrier(2)
    looked = threading.local()
    is_short = VariableData.is_short.fget  # type: ignore[attr-defined]
    made: list[tuple[int, ...]] = []
    resize = Array.resize

    def short(self: VariableData) -> bool:
        found = is_short(self)
        if not hasattr(looked, "first"):
            looked.first = True
            both.wait()
        return found

    def extend(array: Array, shape: tuple[int, ...]) -> None:
        made.append(shape)
        resize(array, shape)

    monkeypatch.setattr(VariableData, "is_short", property(short))
    monkeypatch.setattr(Array, "resize", extend)
    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(data.write, slice(i, i + 2), np.array([i, i], "i4")) for i in (0, 2)]:
            future.result()
    assert made == [(4,)]
    assert data.read_orthogonal(...).tolist() == [0, 0, 2, 2]


# How values are stored


@pytest.mark.parametrize(
    ("length", "storage", "options", "codecs"),
    [
        (256, Storage(), WriteOptions(), ["bytes"]),
        (257, Storage(), WriteOptions(), ["bytes", "blosc"]),
        (1000, Storage("chunked", (10,)), WriteOptions(), ["bytes"]),
        (1000, Storage("chunked", (500,)), WriteOptions(), ["bytes", "blosc"]),
        (3, Storage(filters=(Filter(Filter.DEFLATE, (5,)),)), WriteOptions(), ["bytes", "gzip"]),
        (3, Storage(filters=(Filter(Filter.DEFLATE, (5,)),)), WriteOptions(compression="default"), ["bytes"]),
        (3, Storage(), WriteOptions(compression="zstd:3"), ["bytes", "zstd"]),
        (3, Storage(filters=(Filter(Filter.FLETCHER32),)), WriteOptions(), ["bytes", "crc32c"]),
    ],
)
def test_small_chunks_are_compressed_only_if_that_is_asked_for(
    length: int, storage: Storage, options: WriteOptions, codecs: list[str]
) -> None:
    variable = Variable("v", INT, ("/x",), storage=storage, data=MemorySource(np.arange(length, dtype="i4")))
    dataset = Dataset("d", dimensions=(Dimension("x", length),), variables=(variable,))
    store = MemoryStore()
    tools.copy(dataset, store, options)
    stored = open_dataset(store)
    assert [codec.name for codec in stored.hierarchy.array("v").metadata.codecs] == codecs
    assert list(compare(dataset, stored.dataset, storage=True)) == []


@pytest.mark.parametrize(("length", "codecs"), [(100, ["bytes", "blosc"]), (10, ["bytes"])])
def test_small_inner_chunks_of_large_shards_are_compressed_where_that_saves(
    length: int, codecs: list[str]
) -> None:
    """40 bytes with the header of blosc have 56."""
    storage = Storage("chunked", (length,), shard_shape=(1000,))
    variable = Variable("v", INT, ("/x",), data=MemorySource(np.arange(1000, dtype="i4")), storage=storage)
    dataset = Dataset("d", dimensions=(Dimension("x", 1000),), variables=(variable,))
    store = MemoryStore()
    tools.copy(dataset, store)
    (sharding,) = open_dataset(store).hierarchy.array("v").metadata.codecs
    assert [codec["name"] for codec in sharding.configuration["codecs"]] == codecs

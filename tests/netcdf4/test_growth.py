"""Count the writes of appending and syncing, and compare the documents with those of a complete write."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import programs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rotation import examples

import nczarr.netcdf4 as ours
from nczarr.cli.main import main
from nczarr.mapping import WriteOptions, open_dataset
from nczarr.mapping.dataset.stored import StoredDataset
from nczarr.mapping.nczarr3 import keys
from nczarr.model import Dataset, lengths
from nczarr.model.nodes import with_lengths
from nczarr.stores import LocalStore

VARIABLES = {
    "v": ("i4", ("t", "x")),
    "w": ("f8", ("t",)),
    "names": (str, ("t",)),
    "c": ("S1", ("x", "t")),
    "own": ("i2", ("s", "t")),
    "fixed": ("i2", ("x",)),
    "g/v": ("i4", ("t", "u")),
    "g/h/deep": ("u1", ("u", "u2")),
}
GROWING = [name for name in VARIABLES if name != "fixed"]


def make(target: Any) -> Any:
    ds = ours.Dataset(target, "w")
    ds.title = "growing"
    for name, size in (("t", None), ("x", 3), ("s", None)):
        ds.createDimension(name, size)
    g = ds.createGroup("g")
    g.createDimension("u")
    h = g.createGroup("h")
    h.createDimension("u2")
    h.level = np.int16(2)
    for name, (dtype, dimensions) in VARIABLES.items():
        ds.createVariable(name, dtype, dimensions, chunksizes=(2,) * len(dimensions))
    return ds


def grow(ds: Any, name: str, length: int) -> None:
    """Write to the last place of a variable, whose unlimited dimensions then are so long at least."""
    v = ds[name]
    at = tuple(2 if d == "x" else length - 1 for d in v.dimensions)
    v[at] = {"S": "b", "O": "text"}.get(np.dtype(v.dtype).kind if v.dtype is not str else "O", length)


def play(
    target: Any, actions: list[tuple[str, Any]], patch: pytest.MonkeyPatch, *, general: bool
) -> list[dict[str, bytes]]:
    """Do what is said; return what the store held after each sync."""
    with patch.context() as m:
        m.setattr(keys, "new_identity", lambda *content: "5f" * 16)
        if general:
            m.setattr(StoredDataset, "lengthen", lambda self, sizes: False)
        ds, held = make(target), []
        for action, value in actions:
            if action == "grow":
                grow(ds, *value)
            elif action == "attribute":
                ds["v"].setncattr("note", value)
            elif action == "variable":
                if value not in ds.variables:
                    ds.createVariable(value, "f4", ("t", "s"))
            elif action == "rename":
                if "w" in ds.variables:
                    ds.renameVariable("w", "w2")
                    ds.renameVariable("w2", "w")
            elif action == "sync":
                ds.sync()
                held.append(dict(target))
            else:
                ds.close()
                ds = ours.Dataset(target, "a")
        ds.close()
        return [*held, dict(target)]


ACTIONS = st.one_of(
    st.tuples(st.just("grow"), st.tuples(st.sampled_from(GROWING), st.integers(1, 9))),
    st.tuples(st.just("grow"), st.tuples(st.sampled_from(GROWING), st.integers(1, 9))),
    st.tuples(st.just("sync"), st.none()),
    st.tuples(st.just("sync"), st.none()),
    st.tuples(st.just("attribute"), st.text(max_size=3)),
    st.tuples(st.just("variable"), st.sampled_from(["n1", "n2"])),
    st.tuples(st.just("rename"), st.none()),
    st.tuples(st.just("reopen"), st.none()),
)


@settings(max_examples=examples(60), deadline=None)
@given(actions=st.lists(ACTIONS, min_size=3, max_size=20))
def test_the_store_is_the_same_as_if_all_were_planned_anew(actions: list[tuple[str, Any]]) -> None:
    patch = pytest.MonkeyPatch()
    short = play({}, actions, patch, general=False)
    long = play({}, actions, patch, general=True)
    for one, other in zip(short, long, strict=True):
        assert sorted(one) == sorted(other)
        assert [key for key in one if one[key] != other[key]] == []


def test_lengths_reach_the_model(tmp_path: Path) -> None:
    """Whoever asks for the model gets that of now, and a later change starts from it."""
    with make(tmp_path / "a.zarr") as ds:
        ds.sync()
        for length in (3, 5, 8):
            grow(ds, "v", length)
            grow(ds, "g/h/deep", length)
            ds.sync()
        stored = ds._nc_session.stored
        assert {fqn: d.size for fqn, d in stored.dataset.all_dimensions.items()} == {
            "/t": 8,
            "/x": 3,
            "/s": 0,
            "/g/u": 8,
            "/g/h/u2": 8,
        }
        assert stored.dataset.variable_at("/names").data.shape == (8,)
        ds.later = "yes"
    with ours.Dataset(tmp_path / "a.zarr") as ds:
        assert (ds.later, ds["v"].shape, ds["names"].shape) == ("yes", (8, 3), (8,))


class Seen(dict[str, bytes]):
    """A store that notes the documents that are written, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.documents: list[str] = []

    def __setitem__(self, key: str, value: bytes) -> None:
        if key.endswith("zarr.json"):
            self.documents.append(key)
        super().__setitem__(key, value)


def test_a_sync_writes_only_the_documents_that_say_a_length() -> None:
    store = Seen()
    with make(store) as ds:
        ds.sync()
        for length in (1, 2):
            grow(ds, "g/h/deep", length)
            grow(ds, "own", length)
            ds.sync()
        store.documents.clear()
        grow(ds, "g/h/deep", 3)
        ds.sync()
        # Arrays first, then the groups of their dimensions from within, the root last, and once.
        assert store.documents == [
            "g/v/zarr.json",
            "g/h/deep/zarr.json",
            "g/h/zarr.json",
            "g/zarr.json",
            "zarr.json",
        ]
        store.documents.clear()
        ds.sync()
        assert store.documents == []


def test_a_sync_of_longer_dimensions_makes_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new model for each step would cost time in proportion to the number of variables."""
    made: list[object] = []

    def noted(dataset: Dataset, sizes: dict[str, int]) -> Dataset:
        made.append(sizes)
        return with_lengths(dataset, sizes)

    monkeypatch.setattr(lengths, "with_lengths", noted)
    monkeypatch.setenv("NCZARR_SELF_CHECK", "0")  # it compares each model, in tests only
    with make({}) as ds:
        ds.sync()
        for length in (1, 2, 3):
            grow(ds, "own", length)
            ds.sync()
        assert made == []


@pytest.mark.parametrize(
    "options",
    [
        WriteOptions(layout="nczarr-v2", lossy=True),
        WriteOptions(layout="zarr-v3", lossy=True),
        WriteOptions(consolidated=False),
        WriteOptions(extensions=True),
        WriteOptions(manifest=True),
    ],
    ids=["nczarr-v2", "zarr-v3", "not consolidated", "extensions", "manifest"],
)
def test_other_options(tmp_path: Path, options: WriteOptions) -> None:
    path = tmp_path / "a.zarr"
    with ours.Dataset(path, "w", options=options) as ds:
        ds.createDimension("t")
        ds.createVariable("v", "i4", ("t",))
        for length in range(1, 6):
            grow(ds, "v", length)
            ds.sync()
            with ours.Dataset(path) as other:
                assert other["v"][:].tolist() == list(range(1, length + 1))
    assert main(["check", "--data", str(path)]) == 0


def growing(path: Path) -> Any:
    """A dataset whose next append is of the short kind."""
    ds = make(path)
    grow(ds, "v", 1)
    ds.sync()
    grow(ds, "v", 2)
    ds.sync()
    return ds


def test_readers_keep_the_last_sync_until_the_root_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers that look at every single write see all variables at one length."""
    path = tmp_path / "a.zarr"
    lengths: list[tuple[int, ...]] = []

    def look() -> None:
        # A Dataset would wait for the writer of this process, and store what it has.
        with open_dataset(str(path)) as stored:
            found = stored.dataset
            seen = tuple(found.shape_of(found.all_variables[n])[0] for n in ("/v", "/w", "/names", "/g/v"))
            lengths.append(seen)
            assert set(seen) == {found.dimension_at("/t").size}
            assert [f for f in stored.findings if f.severity != "note"] == []

    original = os.replace

    def replace(source: str, target: str, **options: Any) -> None:
        original(source, target, **options)
        if str(target).endswith("zarr.json"):
            with ThreadPoolExecutor(1) as pool:  # this thread holds locks of the writer
                pool.submit(look).result()

    with growing(path) as ds:
        monkeypatch.setattr(os, "replace", replace)
        for length in (3, 4):
            grow(ds, "v", length)
            grow(ds, "w", length)
            ds.sync()
        monkeypatch.undo()
    assert lengths == sorted(lengths)
    assert [seen[0] for seen in lengths].count(2) >= 4
    assert lengths[-1][0] == 4


def die_while_growing(path: Path, deadly: int) -> None:
    """In a child: append, and end without any clearing up before a document is written."""
    count = 0
    original = LocalStore._put

    def put(self: LocalStore, key: str, *arguments: Any) -> None:
        nonlocal count
        if key.endswith("zarr.json"):
            count += 1
            if count == deadly:
                os._exit(9)
        original(self, key, *arguments)

    ds = growing(path)
    LocalStore._put = put  # type: ignore[method-assign]
    grow(ds, "v", 6)
    grow(ds, "w", 6)
    ds.sync()
    os._exit(0)


@pytest.mark.slow
@pytest.mark.parametrize("deadly", range(1, 9))
def test_a_death_between_two_documents(tmp_path: Path, deadly: int) -> None:
    """What was synced is there, the rest is not; the next writer goes on, and nothing wrong comes to light."""
    path = tmp_path / "a.zarr"
    child = programs.CONTEXT.Process(target=die_while_growing, args=(path, deadly))
    child.start()
    child.join()
    documents = 7  # six arrays along t, and the root
    assert child.exitcode == (9 if deadly <= documents else 0)
    length = 2 if deadly <= documents else 6
    wanted = [1, 2, None, None, None, 6][:length]
    with ours.Dataset(path) as ds:
        assert {ds[name].shape[0] for name in ("v", "w", "names", "g/v")} == {length}
        assert ds["v"][:, 2].tolist() == wanted
    with ours.Dataset(path, "a") as ds:
        ds["names"][7] = "new"
    with ours.Dataset(path) as ds:
        assert ds["v"][:, 2].tolist() == wanted + [None] * (8 - length)
        assert ds["names"][:].tolist() == [""] * 7 + ["new"]
    main(["repair", str(path)])
    assert main(["check", "--data", str(path)]) == 0


def test_the_times_of_documents(tmp_path: Path) -> None:
    """No document is newer than the root's, which has the consolidated copies, and none is marked as changing."""
    path = tmp_path / "a.zarr"
    with growing(path) as ds:
        for length in (3, 4):
            grow(ds, "v", length)
            ds.sync()
            root = os.stat(path / "zarr.json").st_mtime_ns
            others = [os.stat(p).st_mtime_ns for p in path.rglob("zarr.json") if p.parent != path]
            assert max(others) <= root
            assert not (path / ".nczarr-writing").exists()


def test_an_append_to_a_reopened_dataset_plans_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its documents with new lengths are known; a dataset with findings is planned as a whole."""
    path = tmp_path / "a.zarr"
    with ours.Dataset(path, "w") as dataset:
        dataset.createDimension("t", None)
        dataset.createVariable("v", "i4", ("t",))
        dataset.createGroup("g").createVariable("w", "i4", ("t",))
    planned: list[object] = []
    update = StoredDataset.update
    monkeypatch.setattr(
        StoredDataset, "update", lambda self, model: (planned.append(model), update(self, model))[0]
    )
    for step in range(3):
        with ours.Dataset(path, "a") as dataset:
            dataset["v"][step] = step
            dataset["g/w"][step] = 2 * step
    assert not planned
    assert main(["check", "--data", str(path)]) == 0
    with ours.Dataset(path) as dataset:
        assert dataset["v"][:].tolist() == [0, 1, 2]
        assert dataset["g/w"][:].tolist() == [0, 2, 4]
    (path / "g" / "w" / "zarr.json").write_text(
        (path / "g" / "w" / "zarr.json").read_text().replace('"shape":[3]', '"shape":[4]')
    )
    with pytest.warns(UserWarning, match="3 of 4 steps"), ours.Dataset(path, "a") as dataset:
        dataset["v"][6] = 6
    assert planned
    with ours.Dataset(path) as dataset:
        assert dataset["g/w"][:3].tolist() == [0, 2, 4]
        assert len(dataset.dimensions["t"]) == 7

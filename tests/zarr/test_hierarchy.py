"""Hierarchies: opening, creating, changing, consolidating; what each costs; what is refused."""

from __future__ import annotations

import dataclasses
import pickle
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nczarr.errors import (
    DatasetNotFoundError,
    MetadataError,
    NCZarrError,
    ReadOnlyError,
    SelectionError,
    StoreError,
    UnsupportedError,
)
from nczarr.stores import LocalStore, MemoryStore, Store, open_store
from nczarr.zarr.chunk_keys import ChunkKeyEncoding
from nczarr.zarr.chunks.array import Array, Tail
from nczarr.zarr.documents.json import dump_json, parse_object
from nczarr.zarr.grids import RegularGrid
from nczarr.zarr.hierarchy import layouts as nodes_module
from nczarr.zarr.hierarchy.opening import create_hierarchy, open_hierarchy
from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata, NamedConfig
from nczarr.zarr.names import parent_path
from nczarr.zarr.types import data_type_for

LAYOUTS = ("v3", "v2", "draft-2019")


class Counting(Store):
    """A store that counts requests: each get, each batch and each listing is one."""

    def __init__(self, inner: Store, *, listable: bool = True) -> None:
        self.inner, self.url, self.listable = inner, "counting", listable
        self.lists_all = listable and inner.lists_all
        self.log: list[str] = []

    def get(self, key):
        self.log.append(f"get {key}")
        return self.inner.get(key)

    def get_many(self, keys):
        self.log.append(f"batch of {len(keys)}")
        return self.inner.get_many(keys)

    def set(self, key, data):
        self.inner.set(key, data)

    def delete(self, key):
        self.inner.delete(key)

    def list(self, prefix=""):
        if not self.listable:
            raise StoreError("no listing")
        self.log.append(f"list {prefix}")
        return self.inner.list(prefix)

    def list_dir(self, prefix=""):
        if not self.listable:
            raise StoreError("no listing")
        self.log.append(f"list_dir {prefix}")
        return self.inner.list_dir(prefix)


def array(layout="v3", shape=(4, 6), **changes):
    metadata = ArrayMetadata(
        shape,
        data_type_for("i4"),
        RegularGrid(tuple(min(n, 3) or 1 for n in shape)),
        ChunkKeyEncoding() if layout == "v3" else ChunkKeyEncoding("v2", "."),
        fill_value=np.int32(-1),
        codecs=(NamedConfig("bytes", {"endian": "little"}), NamedConfig("numcodecs.zlib", {"level": 1})),
    )
    return dataclasses.replace(metadata, **changes)


def sample(store, layout, **options):
    hierarchy = create_hierarchy(store, layout=layout, attributes={"title": "x"}, **options)
    hierarchy.put_many(
        [
            ("b", array(layout)),
            ("a", GroupMetadata({"n": 1})),
            ("a/v", array(layout, attributes={"units": "m"})),
            ("a/g/w", array(layout, shape=())),
        ]
    )
    return hierarchy


@pytest.fixture(params=["memory", "local"])
def store(request, tmp_path):
    if request.param == "memory":
        return MemoryStore()
    return open_store(tmp_path / "x.zarr", "w")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("consolidated", [True, False])
def test_what_is_created_is_opened(store, layout, consolidated):
    written = sample(store, layout)
    if consolidated:
        written.consolidate()
    hierarchy = open_hierarchy(store)
    assert hierarchy.layout == layout
    assert hierarchy.consolidated == (consolidated and layout != "draft-2019")
    assert dict(hierarchy.nodes) == dict(written.nodes)
    assert set(hierarchy.nodes) == {"", "a", "b", "a/v", "a/g", "a/g/w"}
    order = list(hierarchy.nodes)
    assert all(order.index(path.rpartition("/")[0]) < order.index(path) for path in order if path)
    assert sorted(hierarchy.children()) == ["a", "b"]
    assert sorted(hierarchy.children("a")) == ["a/g", "a/v"]
    assert hierarchy.is_array("a/v")
    assert not hierarchy.is_array("a")
    assert not hierarchy.is_array("no")
    if hierarchy.consolidated:
        assert order == list(written.nodes)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arrays_are_shared_and_hold_data(store, layout):
    hierarchy = sample(store, layout)
    hierarchy.array("a/v").write(..., np.arange(24).reshape(4, 6))
    hierarchy.array("a/g/w").write(..., 7)
    assert hierarchy.array("a/v") is hierarchy.array("a/v")
    again = open_hierarchy(store)
    assert again.array("a/v").read().tolist() == np.arange(24).reshape(4, 6).tolist()
    assert again.array("a/g/w").read() == 7
    assert again.array("b").read((0, 0)) == -1
    for path in ("a", "no/such"):
        with pytest.raises(DatasetNotFoundError):
            again.array(path)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_resize_is_saved(store, layout):
    hierarchy = sample(store, layout)
    v = hierarchy.array("a/v")
    v.resize((9, 6))
    assert hierarchy.array("a/v") is v
    assert hierarchy.nodes["a/v"].shape == (9, 6)
    assert open_hierarchy(store).nodes["a/v"].shape == (9, 6)


@pytest.mark.parametrize("consolidated", [True, False])
def test_lengths_are_written_as_the_arrays_have_grown(store, consolidated):
    hierarchy = sample(store, "v3")
    if consolidated:
        hierarchy.consolidate()
    v, before = hierarchy.array("a/v"), dict(hierarchy.nodes)
    v.grow((9, 6))
    assert (v.shape, hierarchy.nodes["a/v"].shape, hierarchy.claimed("a/v")) == ((9, 6), (4, 6), 4)
    hierarchy.put_lengths(["a/v"], {"a": GroupMetadata({"n": 9})})
    hierarchy.sync()
    assert (v.shape, hierarchy.nodes["a/v"].shape, hierarchy.claimed("a/v")) == ((9, 6), (9, 6), 9)
    wanted = before | {
        "a/v": dataclasses.replace(before["a/v"], shape=(9, 6)),
        "a": GroupMetadata({"n": 9}),
    }
    assert dict(hierarchy.nodes) == wanted
    for again in (open_hierarchy(store), open_hierarchy(store, consolidated=False)):
        assert dict(again.nodes) == wanted
    own = parse_object(store.get("a/v/zarr.json"), "a/v")
    assert own["shape"] == [9, 6]


def test_lengths_are_written_behind_the_arrays_and_from_within(monkeypatch):
    """A killed process leaves no group that claims more than its arrays have."""
    store = MemoryStore()
    hierarchy = sample(store, "v3")
    for path in ("a/v", "b"):
        hierarchy.array(path).grow((9, 6))
    written = []
    put = MemoryStore.set
    monkeypatch.setattr(
        MemoryStore, "set", lambda self, key, data: (written.append(key), put(self, key, data))
    )
    new = GroupMetadata({"n": 9})
    hierarchy.put_lengths(["b", "a/v"], {"": new, "a/g": new, "a": new})
    assert set(written[:2]) == {"a/v/zarr.json", "b/zarr.json"}
    assert written[2:] == ["a/g/zarr.json", "a/zarr.json", "zarr.json"]


def test_an_array_that_grows_or_not_keeps_its_own_length():
    """Its shape, grid and chunks are those of the length that was asked for, not of one step more or less."""
    v = sample(MemoryStore(), "v3").array("a/v")
    v.write(..., np.arange(24).reshape(4, 6))
    v.grow((7, 6))
    assert (v.shape, v.grid_shape, v.read((slice(None), 0)).tolist()) == (
        (7, 6),
        (3, 2),
        [0, 6, 12, 18, -1, -1, -1],
    )
    for wrong in ((6, 6), (7, 5), (7,)):
        with pytest.raises(SelectionError, match="cannot grow"):
            v.grow(wrong)
    with pytest.raises(SelectionError):
        v.read((7, 0))
    with pytest.raises(SelectionError):
        v.write((7, 0), 1)
    v.write((6, 5), 8)
    v.resize((7, 6))
    assert v.read((6, slice(None))).tolist() == [-1, -1, -1, -1, -1, 8]


@pytest.mark.parametrize("whole", [True, False])
def test_values_behind_the_end_are_cleared_up_to_the_end(whole):
    """Those inside stay, and no value behind appears when the array grows."""
    store = MemoryStore()
    v = sample(store, "v3").array("a/v")
    v.resize((9, 6))
    v.write(..., np.arange(54).reshape(9, 6))
    cut = dataclasses.replace(v.metadata, shape=(4, 6))
    v = Array(store, v.prefix, cut, path=v.path)
    assert v.clear_outside([0], None if whole else (9, 6)) in (Tail.CLEAR, Tail.NEAR)
    assert sorted(store.list("a/v/c")) == [f"a/v/c/{i}/{j}" for i in (0, 1) for j in (0, 1)]
    v.grow((9, 6))
    assert v.read()[:4].tolist() == np.arange(24).reshape(4, 6).tolist()
    assert (v.read()[4:] == -1).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_replacing_metadata_keeps_data(store, layout):
    hierarchy = sample(store, layout)
    hierarchy.array("a/v").write((0, 0), 5)
    changed = dataclasses.replace(hierarchy.nodes["a/v"], attributes={})
    hierarchy.put_array("a/v", changed)
    hierarchy.put_group("a", GroupMetadata())
    again = open_hierarchy(store)
    assert again.nodes["a/v"] == changed
    assert again.nodes["a"] == GroupMetadata()
    assert again.array("a/v").read((0, 0)) == 5


@pytest.mark.parametrize("layout", LAYOUTS)
def test_deleting(store, layout):
    hierarchy = sample(store, layout)
    hierarchy.array("a/v").write(..., 5)
    hierarchy.delete("a")
    assert set(hierarchy.nodes) == {"", "b"}
    assert set(open_hierarchy(store).nodes) == {"", "b"}
    assert not [key for key in store.list() if "/a/" in f"/{key}"]
    with pytest.raises(DatasetNotFoundError):
        hierarchy.delete("a")
    with pytest.raises(MetadataError):
        hierarchy.delete("")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_hidden_until_published(store, layout):
    hierarchy = sample(store, layout, hidden=True)
    hierarchy.put_group("", GroupMetadata({"title": "y"}))
    hierarchy.consolidate()
    with pytest.raises(DatasetNotFoundError):
        open_hierarchy(store)
    hierarchy.publish()
    again = open_hierarchy(store)
    assert again.nodes[""].attributes == {"title": "y"}
    assert dict(again.nodes) == dict(hierarchy.nodes)


@pytest.mark.parametrize("layout", ["v3", "v2"])
def test_stale_consolidated_metadata_are_found_and_mended(store, layout):
    hierarchy = sample(store, layout)
    assert hierarchy.check_consolidated() == []
    hierarchy.consolidate()
    assert hierarchy.check_consolidated() == []
    hierarchy.array("a/v").resize((5, 6))
    hierarchy.put_group("new", GroupMetadata())
    store.delete_prefix("b")
    problems = hierarchy.check_consolidated()
    assert len(problems) == 3
    assert any("a/v" in p and "differs in shape" in p for p in problems)
    assert any("new" in p and "missing" in p for p in problems)
    assert any("b" in p and "only in the consolidated copy" in p for p in problems)
    assert open_hierarchy(store).nodes["a/v"].shape == (4, 6)
    assert open_hierarchy(store, consolidated=False).nodes["a/v"].shape == (5, 6)
    hierarchy.delete("b")
    assert hierarchy.check_consolidated() == []
    assert dict(open_hierarchy(store, consolidated=True).nodes) == dict(hierarchy.nodes)


def test_a_bare_nan_in_document_and_copy_is_no_difference(store):
    node = b'{"zarr_format":3,"node_type":"group","attributes":{"missing_value":NaN}}'
    store.set("g/zarr.json", node)
    inside = b'{"kind":"inline","must_understand":false,"metadata":{"g":%b}}' % node
    store.set("zarr.json", b'{"zarr_format":3,"node_type":"group","consolidated_metadata":%b}' % inside)
    hierarchy = open_hierarchy(store)
    assert hierarchy.check_consolidated() == []
    assert not hierarchy.is_outdated("g")
    store.set("g/zarr.json", node.replace(b"NaN", b"1"))
    assert hierarchy.check_consolidated() == ["'g/zarr.json': the consolidated copy differs in attributes"]
    assert hierarchy.is_outdated("g")


@pytest.mark.parametrize("layout", ["v3", "v2"])
def test_a_change_of_the_root_does_not_lose_consolidated_metadata(store, layout):
    hierarchy = sample(store, layout)
    hierarchy.consolidate()
    hierarchy.put_group("", GroupMetadata({"title": "new"}))
    hierarchy.sync()
    assert open_hierarchy(store, consolidated=True).nodes[""].attributes == {"title": "new"}


@pytest.mark.parametrize("layout", ["v3", "v2"])
def test_consolidated_metadata_that_were_not_used_are_kept_right(store, layout):
    sample(store, layout).consolidate()
    hierarchy = open_hierarchy(store, consolidated=False, mode="r+")
    assert hierarchy.consolidated
    hierarchy.put_group("new", GroupMetadata())
    hierarchy.sync()
    assert hierarchy.check_consolidated() == []
    assert "new" in open_hierarchy(store, consolidated=True).nodes


def test_consolidated_metadata_can_be_demanded_and_declined():
    store = MemoryStore()
    sample(store, "v3")
    with pytest.raises(DatasetNotFoundError, match="consolidated"):
        open_hierarchy(store, consolidated=True)


# -- what it costs


@pytest.mark.parametrize("layout", LAYOUTS)
def test_discovery_costs_one_document_or_one_listing_and_one_batch(layout):
    inner = MemoryStore()
    hierarchy = sample(inner, layout)
    counting = Counting(inner)
    dict(open_hierarchy(counting).nodes)
    gets = [line for line in counting.log if line.startswith("get")]
    assert len(gets) <= 2
    assert [line[:5] for line in counting.log if line not in gets].count("list ") == 1
    assert sum(line.startswith("batch") for line in counting.log) <= 2
    if layout != "draft-2019":
        hierarchy.consolidate()
        counting = Counting(inner)
        dict(open_hierarchy(counting).nodes)
        assert len(counting.log) == (1 if layout == "v3" else 2)


def test_local_directories_of_arrays_are_not_listed(tmp_path, monkeypatch):
    store = open_store(tmp_path / "x.zarr", "w")
    sample(store, "v3").array("a/v").write(..., 1)
    listed = []
    list_dir = LocalStore.list_dir
    monkeypatch.setattr(LocalStore, "list_dir", lambda self, p="": listed.append(p) or list_dir(self, p))
    monkeypatch.setattr(LocalStore, "list", lambda self, p="": pytest.fail("a full listing"))
    assert "a/g/w" in open_hierarchy(store).nodes
    assert set(listed) == {"", "a", "a/g"}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_store_that_cannot_list(layout):
    inner = MemoryStore()
    sample(inner, layout)
    hierarchy = open_hierarchy(Counting(inner, listable=False))
    assert not hierarchy.complete
    assert list(hierarchy.nodes) == [""]
    assert hierarchy.load(["a/v", "no", "b"]) == ["a/v", "b"]
    assert set(hierarchy.nodes) == {"", "a", "a/v", "b"}
    assert hierarchy.array("a/v").shape == (4, 6)


def test_an_array_at_the_root():
    for layout in LAYOUTS:
        store = MemoryStore()
        hierarchy = create_hierarchy(store, layout=layout)
        hierarchy.put_array("", array(layout))
        hierarchy.array("").write((0, 0), 3)
        again = open_hierarchy(store)
        assert list(again.nodes) == [""]
        assert again.array("").read((0, 0)) == 3
        with pytest.raises(MetadataError, match="inside the array"):
            hierarchy.put_group("g", GroupMetadata())


# -- what is refused


def test_nothing_there_says_what_is_there():
    store = MemoryStore()
    with pytest.raises(DatasetNotFoundError, match="the store is empty"):
        open_hierarchy(store)
    store.set("readme.txt", b"")
    store.set("x/y", b"")
    with pytest.raises(
        DatasetNotFoundError, match=r"looked for zarr\.json.*the store contains readme\.txt, x/"
    ):
        open_hierarchy(store)
    for layout in (*LAYOUTS, "experimental-v3"):
        with pytest.raises(DatasetNotFoundError):
            open_hierarchy(store, layout=layout)
    with pytest.raises(NCZarrError, match="not a layout"):
        open_hierarchy(store, layout="v9")
    with pytest.raises(NCZarrError, match="not a layout"):
        create_hierarchy(store, layout="v9")


def test_reading_only():
    store = MemoryStore()
    sample(store, "v3")
    hierarchy = open_hierarchy(store)
    for change in (
        lambda: hierarchy.put_group("g", GroupMetadata()),
        lambda: hierarchy.delete("b"),
        hierarchy.consolidate,
        hierarchy.publish,
        lambda: hierarchy.array("b").resize((1, 1)),
    ):
        with pytest.raises(ReadOnlyError):
            change()


@pytest.mark.parametrize("path", ["..", "a/../b", "/a", "a/", "a//b", "zarr.json", "__x", "a/.", "x\0"])
def test_illegal_paths_are_refused(path):
    store = MemoryStore()
    hierarchy = create_hierarchy(store)
    before = sorted(store.list())
    with pytest.raises(MetadataError):
        hierarchy.put_group(path, GroupMetadata())
    assert sorted(store.list()) == before


@pytest.mark.parametrize("path", ["/", "/g 1", "nix", "g/nix"])
def test_no_children_are_given_of_what_is_not_there(path):
    hierarchy = create_hierarchy(MemoryStore())
    hierarchy.put_group("g 1/h", GroupMetadata())
    assert hierarchy.children("g 1") == ["g 1/h"]
    assert hierarchy.children("g 1/h") == []
    for call in (hierarchy.children, hierarchy.array):
        with pytest.raises(DatasetNotFoundError, match=re.escape(repr(path))) as caught:
            call(path)
        assert (caught.value.hint is not None) == path.startswith("/")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_kinds_do_not_change(layout):
    hierarchy = sample(MemoryStore(), layout)
    for path, metadata in [("a", array(layout)), ("b", GroupMetadata()), ("b/c", GroupMetadata())]:
        with pytest.raises(MetadataError):
            hierarchy.put_many([(path, metadata)])


def test_nothing_is_written_if_one_node_is_wrong():
    store = MemoryStore()
    hierarchy = create_hierarchy(store)
    before = sorted(store.list())
    with pytest.raises(MetadataError, match="fill_value"):
        hierarchy.put_many([("a", array()), ("b", array(fill_value=None))])
    assert sorted(store.list()) == before
    assert list(hierarchy.nodes) == [""]
    v2 = create_hierarchy(store, layout="v2")
    with pytest.raises(UnsupportedError):
        v2.put_many([("a", array())])


def test_a_damaged_node_is_an_error_of_that_node():
    store = MemoryStore()
    hierarchy = sample(store, "v3")
    document = parse_object(store.get("b/zarr.json"), "")
    store.set("b/zarr.json", dump_json({**document, "shape": [-1]}))
    for consolidate in (False, True):
        if consolidate:
            root = parse_object(store.get("zarr.json"), "")
            metadata = {"b": {**document, "shape": [-1]}, "a": {"zarr_format": 3, "node_type": "group"}}
            inline = {"kind": "inline", "must_understand": False, "metadata": metadata}
            store.set("zarr.json", dump_json({**root, "consolidated_metadata": inline}))
        hierarchy = open_hierarchy(store)
        assert hierarchy.consolidated == consolidate
        assert isinstance(hierarchy.nodes["a"], GroupMetadata)
        with pytest.raises(MetadataError, match="shape") as caught:
            _ = hierarchy.nodes["b"]
        assert "b" in caught.value.path


CONSOLIDATED = {"kind": "inline", "must_understand": False, "metadata": {}}
GROUP = {"zarr_format": 3, "node_type": "group"}


@pytest.mark.parametrize(
    "value",
    [
        3,
        [],
        {},
        {**CONSOLIDATED, "kind": "other", "must_understand": True},
        {**CONSOLIDATED, "metadata": []},
        {**CONSOLIDATED, "metadata": {"a": 3}},
        {**CONSOLIDATED, "metadata": {"": GROUP}},
        {**CONSOLIDATED, "metadata": {"../b": GROUP}},
        {**CONSOLIDATED, "metadata": {"a/../../b": GROUP}},
        {**CONSOLIDATED, "metadata": {"/b": GROUP}},
        {**CONSOLIDATED, "metadata": {"b": {}}},
        {**CONSOLIDATED, "metadata": {"b": {**GROUP, "node_type": "chunk"}}},
    ],
)
def test_damaged_consolidated_metadata(value):
    store = MemoryStore()
    store.set("zarr.json", dump_json({**GROUP, "consolidated_metadata": value}))
    with pytest.raises(MetadataError) as caught:
        dict(open_hierarchy(store).nodes)
    assert "zarr.json" in str(caught.value)
    assert "consolidated_metadata" in str(caught.value)
    assert list(open_hierarchy(store, consolidated=False).nodes) == [""]


def test_another_kind_of_consolidated_metadata_may_be_ignored():
    store = MemoryStore()
    other = {"kind": "other", "must_understand": False}
    store.set("zarr.json", dump_json({**GROUP, "consolidated_metadata": other}))
    store.set("g/zarr.json", dump_json(GROUP))
    assert list(open_hierarchy(store).nodes) == ["", "g"]


@pytest.mark.parametrize(
    "document",
    [
        {"zarr_consolidated_format": 2, "metadata": {}},
        {"metadata": {}},
        {"zarr_consolidated_format": 1, "metadata": []},
        {"zarr_consolidated_format": 1, "metadata": {"../.zgroup": {}}},
        {"zarr_consolidated_format": 1, "metadata": {".zgroup": 3}},
    ],
)
def test_damaged_zmetadata(document):
    store = MemoryStore()
    store.set(".zmetadata", dump_json(document))
    with pytest.raises(MetadataError):
        open_hierarchy(store)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"[" * 20_000, b'{"zarr_format": 4}', b'{"zarr_format": "x"}', b"{}"]
)
def test_damaged_roots(data):
    store = MemoryStore()
    store.set("zarr.json", data)
    with pytest.raises(MetadataError) as caught:
        open_hierarchy(store)
    assert "zarr.json" in caught.value.path


def test_nodes_inside_arrays_and_illegal_names_are_passed_over():
    store = MemoryStore()
    sample(store, "v3")
    store.set("b/c/zarr.json", dump_json(GROUP))
    store.set(".../zarr.json", dump_json(GROUP))
    store.set("__theirs/zarr.json", dump_json(GROUP))
    nodes = open_hierarchy(store).nodes
    assert "b/c" not in nodes
    assert "..." not in nodes
    assert "__theirs" in nodes


def test_override_is_not_written():
    store = MemoryStore()
    sample(store, "v3")
    hierarchy = open_hierarchy(store)
    hierarchy.override("b", dataclasses.replace(hierarchy.nodes["b"], shape=(1, 1)))
    assert hierarchy.array("b").shape == (1, 1)
    assert open_hierarchy(store).nodes["b"].shape == (4, 6)
    with pytest.raises(DatasetNotFoundError):
        hierarchy.override("no", GroupMetadata())


def test_many_threads_create_and_read():
    store = MemoryStore()
    hierarchy = create_hierarchy(store)
    errors = []

    def work(i):
        try:
            for j in range(20):
                hierarchy.put_array(f"g{i}/v{j}", array()).write((0, 0), i)
                assert hierarchy.array(f"g{i}/v{j}").read((0, 0)) == i
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(open_hierarchy(store).nodes) == 1 + 6 + 120


names = st.sampled_from(["a", "b", "c"])
paths = st.lists(names, min_size=1, max_size=3).map("/".join)


@given(st.lists(st.tuples(st.sampled_from(["group", "array", "delete", "sync"]), paths), max_size=12))
@settings(max_examples=80)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_history_against_a_dictionary(layout, history):
    store = MemoryStore()
    hierarchy = create_hierarchy(store, layout=layout)
    hierarchy.consolidate()
    mirror: dict[str, str] = {"": "group"}
    for n, (action, path) in enumerate(history):
        parents = ["/".join(path.split("/")[:i]) for i in range(len(path.split("/")))]
        if action == "delete":
            if path in mirror:
                hierarchy.delete(path)
                mirror = {p: k for p, k in mirror.items() if p != path and not p.startswith(path + "/")}
        elif action == "sync":
            hierarchy.sync()
        else:
            legal = mirror.get(path, action) == action and all(mirror.get(p) != "array" for p in parents)
            metadata = array(layout, attributes={"n": n}) if action == "array" else GroupMetadata({"n": n})
            if legal:
                hierarchy.put_many([(path, metadata)])
                mirror.update(dict.fromkeys(parents, "group"))
                mirror[path] = action
            else:
                with pytest.raises(MetadataError):
                    hierarchy.put_many([(path, metadata)])
    hierarchy.sync()
    again = open_hierarchy(store)
    assert {p: "array" if again.is_array(p) else "group" for p in again.nodes} == mirror
    assert dict(again.nodes) == dict(hierarchy.nodes)
    assert hierarchy.check_consolidated() == []


def test_metadata_can_be_pickled():
    metadata = array()
    assert pickle.loads(pickle.dumps(metadata)) == metadata


def test_check_names_what_breaks_the_specification(tmp_path):
    store = LocalStore(tmp_path, "w")
    create_hierarchy(store, layout="draft-2019").put_group("g", GroupMetadata())
    store.set("meta/root/g.group", b'{"attributes": {}}')
    from nczarr.convert.verify.check import check

    found = [(finding.where, finding.what) for finding in check(tmp_path)]
    assert ("/g", "extensions: missing") in found


# Several threads


def test_what_is_put_while_a_document_is_parsed_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    create_hierarchy(store).put_group("g", GroupMetadata({"a": 1}))
    h = open_hierarchy(store, mode="r+")
    parse = h._layout.parse

    def late(*args: Any) -> Any:
        found = parse(*args)
        h.put_group("g", GroupMetadata({"a": 2}))
        return found

    monkeypatch.setattr(h._layout, "parse", late)
    assert [h.nodes["g"].attributes for _ in range(2)] == [{"a": 2}] * 2


def test_a_node_that_is_put_while_the_children_are_counted_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    h = create_hierarchy(MemoryStore())
    h.put_group("a", GroupMetadata())
    putting = threading.Thread(target=h.put_group, args=("b", GroupMetadata()))

    def late(path: str) -> str:
        if not putting.ident:
            putting.start()
            putting.join(0.2)  # it waits for us, or is done
        return parent_path(path)

    monkeypatch.setattr(nodes_module, "parent_path", late)
    h.children()
    putting.join()
    assert h.children() == ["a", "b"]


def test_nodes_are_gone_through_while_others_are_put() -> None:
    h = create_hierarchy(MemoryStore())
    done = threading.Event()
    found = []

    def put() -> None:
        for i in range(300):
            h.put_group(f"g{i}", GroupMetadata())
        done.set()

    def look() -> None:
        while not done.is_set():
            found.append(len(list(h.nodes)))
            list(h.deviations())

    with ThreadPoolExecutor(3) as pool:
        for future in [pool.submit(put), pool.submit(look), pool.submit(look)]:
            future.result()
    assert set(found) <= set(range(1, 302))


@pytest.mark.parametrize("layout", ["v3", "v2", "draft-2019"])
@pytest.mark.parametrize("consolidated", [True, False])
def test_an_implicit_parent_keeps_what_another_writer_has_put_there(
    layout: Any, consolidated: bool, tmp_path: Path
) -> None:
    store = LocalStore(tmp_path / "s.zarr", "w")
    first = create_hierarchy(store, layout=layout)
    if consolidated:
        first.consolidate()
    one, two = (open_hierarchy(LocalStore(tmp_path / "s.zarr", "r+"), mode="r+") for _ in range(2))
    one.put_group("x", GroupMetadata({"title": "mine"}))
    two.put_group("x/y/z", GroupMetadata())
    two.sync()
    for reading in (None, False):
        found = open_hierarchy(store, consolidated=reading)
        assert found.nodes["x"].attributes == {"title": "mine"}
        assert list(found.nodes) == ["", "x", "x/y", "x/y/z"]
    assert two.nodes["x"].attributes == {"title": "mine"}


def test_nothing_is_created_inside_an_array_of_another_writer(tmp_path: Path) -> None:
    create_hierarchy(LocalStore(tmp_path / "s.zarr", "w"))
    one, two = (open_hierarchy(LocalStore(tmp_path / "s.zarr", "r+"), mode="r+") for _ in range(2))
    one.put_array("x", array())
    with pytest.raises(MetadataError, match="'x' is an array, which another program has created"):
        two.put_group("x/y", GroupMetadata())
    assert not (tmp_path / "s.zarr/x/y").exists()

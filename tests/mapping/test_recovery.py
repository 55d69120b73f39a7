"""Test every row of the recovery table: each change of other programs is read, reported and repaired."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Callable
from typing import Any

import mapping_tools as tools
import numpy as np
import pytest
from document_changes import changes
from hypothesis import HealthCheck, given, settings
from rotation import examples

from nczarr.errors import NCZarrError
from nczarr.mapping import RecoveryWarning, WriteOptions, check_metadata, open_dataset, repair
from nczarr.model import (
    BYTE,
    DOUBLE,
    INT,
    SHORT,
    STRING,
    Attribute,
    CompoundType,
    Dataset,
    Dimension,
    EnumType,
    Field,
    Group,
    MemorySource,
    Variable,
    VlenType,
    compare,
)
from nczarr.stores import MemoryStore

FLAG = EnumType("/ocean/flag", BYTE, (("good", 1), ("bad", 0)))
PAIR = CompoundType("/pair", (Field("a", INT), Field("b", SHORT)))
ROWS = VlenType("/land/rows", FLAG)
Documents = dict[str, Any]


def series(name: str, dimension: str, length: int, **more: Any) -> Variable:
    return Variable(name, INT, (dimension,), data=MemorySource(np.arange(length, dtype="i4")), **more)


def whole() -> Dataset:
    pairs = np.zeros(4, PAIR.dtype)
    pairs["a"] = [1, 2, 3, 4]
    return Dataset(
        "d",
        format="netCDF-4",
        attributes=(
            Attribute.of("title", "run 42"),
            Attribute.of("count", 3, SHORT),
            Attribute.of("bits", b"\xff"),
        ),
        types=(PAIR,),
        dimensions=(Dimension("t", 5, True), Dimension("x", 4), Dimension("unused", 7)),
        variables=(
            series("t", "/t", 5, attributes=(Attribute.of("z", 1, SHORT), Attribute.of("a", "b"))),
            series("v", "/t", 5),
            series("x", "/x", 4),
            Variable("pairs", PAIR, ("/x",), data=MemorySource(pairs)),
        ),
        groups=(
            Group(
                "ocean",
                attributes=(Attribute("state", FLAG, np.array([1], "i1")),),
                types=(FLAG,),
                dimensions=(Dimension("depth", 2),),
                variables=(
                    Variable("flag", FLAG, ("/t", "/ocean/depth"), data=MemorySource(np.ones((5, 2), "i1"))),
                    series("depth", "/ocean/depth", 2),
                ),
                groups=(Group("empty", dimensions=(Dimension("n", 3),)),),
            ),
            Group("land", types=(ROWS,), variables=(series("t", "/t", 5),)),
        ),
    )


def stored(options: WriteOptions | None = None) -> MemoryStore:
    store = MemoryStore()
    tools.copy(whole(), store, options or WriteOptions(consolidated=False))
    return store


def documents(store: MemoryStore) -> Documents:
    return {k: json.loads(store.get(k)) for k in store.list() if k.endswith("zarr.json")}


def put(store: MemoryStore, changed: Documents) -> None:
    for key in documents(store).keys() - changed.keys():
        store.delete_prefix(key.removesuffix("/zarr.json"))
    for key, document in changed.items():
        store.set(key, json.dumps(document).encode())


def attrs(document: Documents) -> Documents:
    result: Documents = document["attributes"]
    return result


def array_info(document: Documents) -> Documents:
    result: Documents = document["nczarr"]["configuration"]["_nczarr_array"]
    return result


def without_keys(*paths: str) -> Callable[[Documents], None]:
    def change(d: Documents) -> None:
        for path in paths:
            for key in [k for k in attrs(d[path]) if k.startswith("_nczarr")]:
                del attrs(d[path])[key]

    return change


def without_copies(d: Documents) -> None:
    for document in d.values():
        document.get("nczarr", {}).get("configuration", {}).pop("_nczarr_copy", None)


ALL_GROUPS = ("zarr.json", "ocean/zarr.json", "land/zarr.json", "ocean/empty/zarr.json")


def nothing_but_arrays(d: Documents) -> None:
    without_keys("zarr.json", "ocean/zarr.json", "land/zarr.json", "ocean/empty/zarr.json")(d)
    without_copies(d)


def moved(d: Documents) -> None:
    for key in [k for k in d if k.startswith("ocean/")]:
        d["sea" + key[5:]] = d.pop(key)


def shape(path: str, *lengths: int) -> Callable[[Documents], None]:
    def change(d: Documents) -> None:
        d[path]["shape"] = list(lengths)

    return change


def edited(path: str, name: str, value: Any) -> Callable[[Documents], None]:
    def change(d: Documents) -> None:
        attrs(d[path])[name] = value

    return change


def gone(*paths: str) -> Callable[[Documents], None]:
    def change(d: Documents) -> None:
        for path in paths:
            del d[path]

    return change


def both(*changes: Callable[[Documents], None]) -> Callable[[Documents], None]:
    def change(d: Documents) -> None:
        for one in changes:
            one(d)

    return change


def added(d: Documents) -> None:
    d["added/zarr.json"] = copy.deepcopy(d["v/zarr.json"])
    d["plain/zarr.json"] = {k: v for k, v in d["v/zarr.json"].items() if k != "nczarr"}


def info(path: str, key: str, value: Any) -> Callable[[Documents], None]:
    def change(d: Documents) -> None:
        array_info(d[path])[key] = value

    return change


def type_nowhere(d: Documents) -> None:
    del attrs(d["ocean/zarr.json"])["_nczarr_group"]["types"]
    del array_info(d["ocean/flag/zarr.json"])["types"]
    without_copies(d)


def lacking(key: str) -> Callable[[Documents], None]:
    def change(d: Documents) -> None:
        del array_info(d["v/zarr.json"])[key]

    return change


def without_version(d: Documents) -> None:
    del attrs(d["zarr.json"])["_nczarr_superblock"]["version"]


def bad_key(d: Documents) -> None:
    d["v/zarr.json"]["nczarr"]["configuration"]["_nczarr_array"] = 7


#: The change, the codes that it gives, and those that `repair` leaves.
ROWS_OF_TABLE: dict[str, tuple[Callable[[Documents], None], set[str], set[str]]] = {
    "group keys gone, copy there": (
        without_keys("zarr.json", "ocean/zarr.json", "land/zarr.json", "ocean/empty/zarr.json"),
        {"keys-removed"},
        set(),
    ),
    "keys and copy gone": (nothing_but_arrays, {"record-lost"}, set()),
    "recorded size, unlimited": (
        both(*(shape(f"{n}/zarr.json", 8) for n in ("t", "v", "land/t")), shape("ocean/flag/zarr.json", 8, 2)),
        {"size-stale"},
        set(),
    ),
    "unlimited, arrays differ": (
        both(shape("t/zarr.json", 8), shape("v/zarr.json", 6)),
        {"size-stale", "length-differs"},
        set(),
    ),
    "fixed, all agree": (both(shape("x/zarr.json", 3), shape("pairs/zarr.json", 3, 6)), {"size-stale"}, set()),
    "fixed, arrays differ": (shape("x/zarr.json", 3), {"size-conflict"}, {"size-conflict"}),
    "a listed node is gone": (gone("v/zarr.json", "land/zarr.json", "land/t/zarr.json"), {"node-missing"}, set()),
    "an unlisted node": (added, {"node-unlisted"}, set()),
    # A group that no list names comes last: behind one that uses its type.
    "a group was renamed": (
        moved,
        {"reference-moved", "node-missing", "node-unlisted", "type-forward", "fqn-wrong"},
        {"type-forward"},
    ),
    "a type is nowhere": (
        type_nowhere,
        {"type-missing", "type-damaged", "annotation-stale"},
        {"type-missing", "type-damaged"},
    ),
    "an annotated type cannot hold the value": (
        both(edited("zarr.json", "count", 1.5), edited("t/zarr.json", "z", "text")),
        {"annotation-stale"},
        set(),
    ),
    "an attribute was removed": (lambda d: attrs(d["t/zarr.json"]).pop("z"), {"annotation-stale"}, set()),  # type: ignore[dict-item]
    "rank of the key": (
        info("v/zarr.json", "dimension_references", ["/t", "/x"]),
        {"rank-mismatch"},
        {"rank-mismatch"},
    ),
    "key unreadable": (bad_key, {"key-unreadable"}, {"key-unreadable"}),
    "type that the array cannot hold": (info("v/zarr.json", "type", "/pair"), {"type-mismatch"}, {"type-mismatch"}),
    "references missing": (lacking("dimension_references"), {"references-missing"}, set()),
    "version missing": (without_version, {"version-missing"}, set()),
    "labels": (lambda d: d["v/zarr.json"].update(dimension_names=["lon"]), {"labels"}, set()),  # type: ignore[dict-item]
    "fill value": (lambda d: d["v/zarr.json"].update(fill_value=0), {"fill-value"}, {"fill-value"}),  # type: ignore[dict-item]
    "bare NaN": (edited("v/zarr.json", "limit", float("nan")), {"bare-nan"}, set()),
    "damaged record": (
        lambda d: attrs(d["zarr.json"])["_nczarr_group"]["dimensions"].append({"size": 3}),
        {"record-damaged"},
        set(),
    ),
    "enum without members": (
        lambda d: attrs(d["ocean/zarr.json"])["_nczarr_group"]["types"][0].update(members=[]),  # type: ignore[dict-item]
        {"enum-empty"},
        {"enum-empty"},
    ),
    "order twice": (
        lambda d: d["t/zarr.json"]["nczarr"]["configuration"]["_nczarr_attr"]["order"].append("a"),
        {"order-duplicate"},
        set(),
    ),
}  # fmt: skip


def values_of(store: MemoryStore) -> dict[str, Any]:
    with open_dataset(store) as opened:
        return {fqn: opened.data(fqn).read_orthogonal(...).tolist() for fqn in opened.dataset.all_variables}


@pytest.mark.parametrize("row", ROWS_OF_TABLE)
def test_rows_of_the_table(row: str) -> None:
    change, codes, left = ROWS_OF_TABLE[row]
    store = stored()
    changed = documents(store)
    change(changed)
    put(store, changed)
    opened, found = check_metadata(store)
    with opened:
        assert {f.code for f in found} == codes
        quiet = codes <= {
            "size-stale", "labels", "fill-value", "bare-nan", "enum-empty", "order-duplicate", "keys-removed",
            "annotation-stale", "node-unlisted",
        }  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("error" if quiet else "ignore", RecoveryWarning)
            open_dataset(store).close()
        if not quiet:
            with pytest.warns(RecoveryWarning, match="nczarr repair"):
                open_dataset(store).close()
        before = values_of(store)
        assert [f.code for f in repair(store, dry_run=True)] == [f.code for f in found]
        assert documents(store) == json.loads(json.dumps(changed))
        repair(store)
        assert values_of(store) == before
        again, rest = check_metadata(store)
        with again:
            assert {f.code for f in rest} == left
            assert (
                list(map(str, compare(opened.dataset, again.dataset, data=False, storage=True))) == [] or left
            )
    after = documents(store)
    repair(store)
    assert documents(store) == after


@pytest.mark.parametrize("lost", [("zarr.json",), ("ocean/zarr.json",), ALL_GROUPS])
def test_copies_restore_the_model(lost: tuple[str, ...]) -> None:
    store = stored()
    changed = documents(store)
    without_keys(*lost)(changed)
    put(store, changed)
    assert tools.differences(whole(), store) == []
    repair(store)
    assert documents(store) == documents(stored())
    assert tools.differences(whole(), store) == []


def test_without_copies_the_arrays_give_what_they_know() -> None:
    store = stored()
    changed = documents(store)
    nothing_but_arrays(changed)
    put(store, changed)
    repair(store)
    with open_dataset(store) as opened:
        dataset = opened.dataset
        assert dataset.dimension_at("/t") == Dimension("t", 5, True)
        assert set(dataset.all_types) == {"/pair", "/ocean/flag"}
        assert dataset.all_variables.keys() == whole().all_variables.keys()
        assert "unused" not in {d.name for d in dataset.dimensions}


def test_what_is_longer_decides_and_the_rest_is_fill() -> None:
    store = stored()
    changed = documents(store)
    shape("t/zarr.json", 8)(changed)
    put(store, changed)
    with pytest.warns(RecoveryWarning, match="5 of 8 steps"):
        opened = open_dataset(store, "r+")
    with opened:
        v = opened.data("/v")
        fill = -2147483647
        assert v.shape == (8,)
        assert v.read((slice(0, 8),)).tolist() == [0, 1, 2, 3, 4, fill, fill, fill]
        assert v.read((slice(6, 8),)).tolist() == [fill, fill]
        assert v.read_orthogonal([0, 7]).tolist() == [0, fill]
        assert v.read_orthogonal(-1) == fill
        assert v.read_orthogonal(slice(None, None, 4)).tolist() == [0, 4]
        assert opened.data("/ocean/flag").read_orthogonal((slice(4, 6), 0)).tolist() == [1, -127]
        v.write(7, 70)
    with open_dataset(store) as opened:
        assert opened.data("/v").read_orthogonal(...).tolist() == [0, 1, 2, 3, 4, fill, fill, 70]


def test_what_was_cut_off_does_not_come_back() -> None:
    """Other programs leave values beyond the new edge in the last chunk."""
    store = stored()
    changed = documents(store)
    shape("v/zarr.json", 3)(changed)
    put(store, changed)
    with pytest.warns(RecoveryWarning), open_dataset(store) as opened:
        assert opened.data("/v").read_orthogonal(...).tolist()[3:] == [-2147483647] * 2
    repair(store)
    with open_dataset(store) as opened:
        assert opened.data("/v").read_orthogonal(...).tolist()[3:] == [-2147483647] * 2


def test_version_3_0_is_read_and_brought_to_this_one() -> None:
    from nczarr.mapping.nczarr3.keys import CONVENTION
    from nczarr.mapping.nczarr3.write import plan_keys_in_attributes
    from nczarr.mapping.node_names import NodeNames
    from nczarr.model import resolve
    from nczarr.zarr.hierarchy.opening import create_hierarchy

    dataset, store = whole(), MemoryStore()
    tools.copy(dataset, store, WriteOptions(consolidated=False))
    plan = plan_keys_in_attributes(resolve(dataset), WriteOptions(consolidated=False), NodeNames())
    create_hierarchy(store).put_many(plan.nodes.items())
    root = json.loads(store.get("zarr.json"))
    attrs(root)["_nczarr_superblock"]["version"] = "3.0.0"
    group = attrs(root)["_nczarr_group"]
    group["dimensions"] = {"t": {"size": 5, "unlimited": True}, "x": 4, "unused": 7}
    group["types"] = {t.pop("name"): t for t in group["types"]}
    attrs(root)["zarr_conventions"] = [dict(CONVENTION)]
    store.set("zarr.json", json.dumps(root).encode())
    assert tools.differences(dataset, store) == []
    assert [f.code for f in repair(store)] == ["version-old"]
    first, second = (json.dumps(documents(s)).replace(identity(s), "5f") for s in (store, stored()))
    assert json.loads(first) == json.loads(second)
    assert repair(store) == ()


def identity(store: MemoryStore) -> str:
    named: str = attrs(json.loads(store.get("zarr.json")))["_nczarr_superblock"]["dataset"]
    return named


def test_foreign_attributes_keep_their_form() -> None:
    store = stored()
    changed = documents(store)
    foreign = {"nested": {"a": [1, None]}, "yes": True, "none": None}
    for path in ("zarr.json", "v/zarr.json"):
        attrs(changed[path]).update(foreign)
        attrs(changed[path]).pop("_nczarr_superblock", None)
    put(store, changed)
    repair(store)
    for path in ("zarr.json", "v/zarr.json"):
        assert {k: attrs(documents(store)[path])[k] for k in foreign} == foreign


GOOD = documents(stored())
FILLED = stored()


@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(changes(GOOD))
def test_nczarr_opens_or_explains_and_repair_converges(changed: Documents) -> None:
    store = MemoryStore()
    for key in FILLED.list():
        node = key.rpartition("/c/")[0] if "/c/" in key else None
        if node is not None and f"{node}/zarr.json" in changed:
            store.set(key, FILLED.get(key))
    for key, document in changed.items():
        store.set(key, json.dumps(document).encode())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecoveryWarning)
        try:
            before = values_of(store)
        except NCZarrError:
            return  # explained
        with open_dataset(store) as opened:
            plain = opened.layout != "nczarr-v3"
        if plain:
            return
        first = repair(store)
        assert values_of(store) == before, [str(f) for f in first]
        rest = repair(store)
        assert all(not f.remedy for f in rest), [str(f) for f in rest]
        # Every array that is there is read, or named.
        arrays = {k for k, d in changed.items() if d.get("node_type") == "array"}
        with open_dataset(store) as opened:
            assert len(before) + len(opened.dataset.left_out) == len(arrays)


def test_repair_ends_where_an_array_that_is_left_alone_has_the_copies() -> None:
    store = stored()
    changed = documents(store)
    changed["t/zarr.json"]["nczarr"]["configuration"]["_nczarr_array"] = None
    changed["ocean/empty/zarr.json"]["attributes"]["_nczarr_group"] = {"dimensions": None}
    put(store, changed)
    assert any(f.remedy for f in repair(store))
    assert not any(f.remedy for f in repair(store))


def test_a_damaged_type_that_only_an_array_declares_is_not_promised_a_mending() -> None:
    store = stored()
    changed = documents(store)
    without_copies(changed)
    del attrs(changed["zarr.json"])["_nczarr_group"]["types"]
    del array_info(changed["pairs/zarr.json"])["types"][0]["class"]
    put(store, changed)
    repair(store)
    left = repair(store)
    assert {"type-damaged", "type-missing"} <= {f.code for f in left}
    assert not any(f.remedy for f in left), [str(f) for f in left]


def test_wrong_values_are_never_made_up() -> None:
    """A reader that would have to guess the values says that it cannot, or reads them as they are stored."""
    store = stored()
    changed = documents(store)
    info("v/zarr.json", "type", "string")(changed)
    put(store, changed)
    with pytest.warns(RecoveryWarning, match="type-mismatch"):
        opened = open_dataset(store)
    with opened:
        assert opened.dataset.variable_at("/v").type == INT
        assert opened.data("/v").read_orthogonal(...).tolist() == [0, 1, 2, 3, 4]


def test_types_in_arrays_stand_behind_those_they_need() -> None:
    rows = VlenType("/rows", FLAG)
    vlen = Variable(
        "r", rows, (), attributes=(Attribute.of("n", [1.5], DOUBLE), Attribute.of("s", ["a"], STRING))
    )
    dataset = Dataset("d", types=(rows,), variables=(vlen,), groups=(Group("ocean", types=(FLAG,)),))
    store = MemoryStore()
    tools.copy(dataset, store)
    listed = array_info(json.loads(store.get("r/zarr.json")))["types"]
    assert [t["name"] for t in listed] == ["/ocean/flag", "/rows"]
    assert tools.differences(dataset, store) == []

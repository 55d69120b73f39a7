"""Break one constraint of the documents of a store: one function for each row of the table of constraints."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from typing import Any

Documents = dict[str, Any]
#: Changes documents so that they break its constraint; False if they have no place for it.
Mutation = Callable[[Documents, random.Random], bool]
MUTATIONS: dict[str, list[Mutation]] = {}
ENUM = {"class": "enum", "base": "int8", "members": [["one", 1]]}


def breaks(code: str) -> Callable[[Mutation], Mutation]:
    def add(mutation: Mutation) -> Mutation:
        MUTATIONS.setdefault(code, []).append(mutation)
        return mutation

    return add


# --- places


def keys_of(document: Any) -> Any:
    """The object that contains the keys of a node."""
    if document["node_type"] == "group":
        return document["attributes"]
    return document["nczarr"]["configuration"]


def groups(documents: Documents) -> list[str]:
    return [k for k, d in documents.items() if d["node_type"] == "group"]


def arrays(documents: Documents) -> list[str]:
    return [k for k, d in documents.items() if d["node_type"] == "array"]


def record(documents: Documents, key: str) -> Any:
    return keys_of(documents[key]).setdefault("_nczarr_group", {})


def info(documents: Documents, key: str) -> Any:
    return keys_of(documents[key]).setdefault("_nczarr_array", {})


def superblock(documents: Documents) -> Any:
    return documents["zarr.json"]["attributes"]["_nczarr_superblock"]


def pick(chance: random.Random, items: Any) -> Any:
    """One of the items, or None if there are none."""
    items = list(items)
    return chance.choice(items) if items else None


def with_references(documents: Documents) -> list[str]:
    return [k for k in arrays(documents) if info(documents, k).get("dimension_references")]


def numbers(documents: Documents) -> list[str]:
    names = ("int8", "int16", "int32", "int64")
    own = [k for k in arrays(documents) if documents[k]["data_type"] in names]
    return [
        k for k in own if "type" not in info(documents, k) and "_FillValue" not in documents[k]["attributes"]
    ]


def shared(documents: Documents, *, unlimited: bool) -> Iterator[tuple[str, int]]:
    """The places of dimensions in arrays that another array has, too."""
    uses: dict[str, list[tuple[str, int]]] = {}
    grown = set()
    for key in with_references(documents):
        grown.update(info(documents, key).get("unlimited", []))
        for i, reference in enumerate(info(documents, key)["dimension_references"]):
            if isinstance(reference, str):
                uses.setdefault(reference, []).append((key, i))
    for reference, places in uses.items():
        if len({key for key, _ in places}) > 1 and (reference in grown) == unlimited:
            yield places[0]


def drop(members: Any, name: str) -> None:
    del members[name]


def add_type(documents: Documents, key: str, name: str, **declaration: Any) -> None:
    record(documents, key).setdefault("types", []).append({"name": name, **declaration})


def add_group(documents: Documents, **more: Any) -> None:
    record(documents, "zarr.json").setdefault("groups", []).append("g 1")
    identity = superblock(documents)["dataset"]
    keys = {"_nczarr_group": {"fqn": "/g\\ 1", "dataset": identity, **more}}
    documents["g 1/zarr.json"] = {"zarr_format": 3, "node_type": "group", "attributes": keys}


# --- the superblock


def without(member: str, code: str) -> None:
    @breaks(code)
    def mutation(documents: Documents, chance: random.Random) -> bool:
        del superblock(documents)[member]
        return True


without("version", "version-missing")
without("convention", "convention-missing")
without("dataset", "dataset-missing")


@breaks("convention-missing")
def _convention(documents: Documents, chance: random.Random) -> bool:
    superblock(documents)["convention"] = "another"
    return True


@breaks("version-old")
def _old(documents: Documents, chance: random.Random) -> bool:
    superblock(documents)["version"] = "3.1.0"
    return True


@breaks("metadata")
def _new(documents: Documents, chance: random.Random) -> bool:
    superblock(documents)["version"] = f"{chance.randrange(4, 10)}.0.0"
    return True


# --- groups


@breaks("record-damaged")
def _record(documents: Documents, chance: random.Random) -> bool:
    own = record(documents, pick(chance, groups(documents)))
    own[chance.choice(("dimensions", "types", "arrays", "groups"))] = 7
    return True


@breaks("record-damaged")
def _source(documents: Documents, chance: random.Random) -> bool:
    superblock(documents)["sources"] = [{"name": "a"}, {"name": "a"}]
    return True


@breaks("node-missing")
def _gone(documents: Documents, chance: random.Random) -> bool:
    own = record(documents, pick(chance, groups(documents)))
    own.setdefault(chance.choice(("arrays", "groups")), []).append("gone")
    return True


@breaks("node-unlisted")
def _unlisted(documents: Documents, chance: random.Random) -> bool:
    lists = [record(documents, k).get(kind) for k in groups(documents) for kind in ("arrays", "groups")]
    found = pick(chance, filter(None, lists))
    if found is None:
        return False
    found.remove(chance.choice(found))
    return True


@breaks("dimension-unlisted")
def _undeclared(documents: Documents, chance: random.Random) -> bool:
    for key in with_references(documents):
        for reference in info(documents, key)["dimension_references"]:
            declared = record(documents, "zarr.json").get("dimensions", [])
            for dimension in declared:
                if reference == "/" + dimension["name"]:
                    declared.remove(dimension)
                    return True
    return False


@breaks("size-stale")
def _size(documents: Documents, chance: random.Random) -> bool:
    for key in with_references(documents):
        for reference in info(documents, key)["dimension_references"]:
            for dimension in record(documents, "zarr.json").get("dimensions", []):
                if reference == "/" + dimension["name"]:
                    dimension["size"] += 1
                    return True
    return False


@breaks("size-missing")
def _no_size(documents: Documents, chance: random.Random) -> bool:
    dimension = pick(
        chance, [d for k in groups(documents) for d in record(documents, k).get("dimensions", [])]
    )
    return dimension is not None and dimension.pop("size") is not None


def bad_type(code: str, name: str, **declaration: Any) -> None:
    @breaks(code)
    def mutation(documents: Documents, chance: random.Random) -> bool:
        add_type(documents, pick(chance, groups(documents)), name, **declaration)
        return True


bad_type("type-damaged", "loop 1", **{"class": "vlen", "base": "/nowhere/to/be"})
bad_type("type-damaged", "float 1", **{**ENUM, "base": "float32"})
bad_type("enum-empty", "empty 1", **{**ENUM, "members": []})
bad_type("enum-duplicate", "twice 1", **{**ENUM, "members": [["one", 1], ["one", 2]]})


@breaks("type-forward")
def _later(documents: Documents, chance: random.Random) -> bool:
    add_group(documents, types=[{"name": "flag", **ENUM}])
    add_type(documents, "zarr.json", "later 1", **{"class": "vlen", "base": "/g\\ 1/flag"})
    return True


def of_group(code: str, member: str, value: str = "") -> None:
    @breaks(code)
    def mutation(documents: Documents, chance: random.Random) -> bool:
        key = pick(chance, [k for k in groups(documents) if k != "zarr.json"])
        if key is None:
            return False
        own = record(documents, key)
        own[member] = value
        return True


of_group("fqn-wrong", "fqn")
of_group("fqn-wrong", "fqn", "/some/where")
of_group("dataset-missing", "dataset")


@breaks("keys-removed")
def _replaced(documents: Documents, chance: random.Random) -> bool:
    if not arrays(documents):
        return False
    documents["zarr.json"]["attributes"] = {"another": 1}
    return True


@breaks("record-lost")
def _lost(documents: Documents, chance: random.Random) -> bool:
    if not arrays(documents) or not any(info(documents, k) for k in arrays(documents)):
        return False
    documents["zarr.json"]["attributes"] = {"another": 1}
    for key in arrays(documents):
        keys_of(documents[key]).pop("_nczarr_copy", None)
    return True


@breaks("consolidated-stale")
def _consolidated(documents: Documents, chance: random.Random) -> bool:
    documents["zarr.json"]["consolidated_metadata"] = {
        "kind": "inline",
        "must_understand": False,
        "metadata": {},
    }
    return len(documents) > 1


# --- arrays


def of_array(code: str, places: Callable[[Documents], list[str]] = arrays) -> Callable[[Any], Any]:
    """Decorate a function of the document of one array, its `_nczarr_array`, and a random generator."""

    def add(change: Callable[[Any, Any, random.Random], object]) -> object:
        @breaks(code)
        def mutation(documents: Documents, chance: random.Random) -> bool:
            key = pick(chance, places(documents))
            return key is not None and change(documents[key], info(documents, key), chance) is not False

        return change

    return add


of_array("key-unreadable")(lambda d, i, c: keys_of(d).update(_nczarr_array=7))
of_array("key-unreadable")(lambda d, i, c: i.update(name="a\tb"))
of_array("references-missing", with_references)(lambda d, i, c: drop(i, "dimension_references"))
of_array("rank-mismatch", with_references)(lambda d, i, c: i["dimension_references"].append(1))
of_array("type-unlisted")(lambda d, i, c: i.setdefault("types", []).append({"name": "/other\\ 1", **ENUM}))
of_array("type-missing")(lambda d, i, c: i.update(type="/nowhere/to/be"))
of_array("type-mismatch", numbers)(lambda d, i, c: i.update(type="string"))
of_array("fill-value", numbers)(lambda d, i, c: d.update(fill_value=d["fill_value"] + 1))
of_array("labels", with_references)(lambda d, i, c: d.update(dimension_names=[None] * len(d["shape"])))
of_array("storage-damaged")(lambda d, i, c: i.update(storage="tape"))
of_array("bare-nan")(lambda d, i, c: d["attributes"].update(limit=math.nan))
of_array("left-out")(lambda d, i, c: d.update({"com.example.stretched": {"name": "stretched"}}))
of_array("node-foreign")(lambda d, i, c: keys_of(d).update(dataset="another"))
of_array("name-long")(lambda d, i, c: i.update(name="n" * 257))
of_array("name-not-nfc")(lambda d, i, c: i.update(name="e\u0301"))
of_array("dataset-missing")(lambda d, i, c: drop(keys_of(d), "dataset"))
of_array("object-missing")(lambda d, i, c: drop(d, "nczarr"))
of_array("object-damaged")(lambda d, i, c: drop(d["nczarr"], "name"))
of_array("object-damaged")(lambda d, i, c: d["nczarr"].update(must_understand=True))
of_array("object-damaged")(lambda d, i, c: drop(d["nczarr"], "must_understand"))
of_array("object-damaged")(lambda d, i, c: drop(keys_of(d), "version"))
of_array("unlimited-wrong")(lambda d, i, c: i.setdefault("unlimited", []).append("/no/reference"))


@of_array("reference-moved", with_references)
def _moved(document: Any, own: Any, chance: random.Random) -> bool:
    own["dimension_references"][0] = "/gone/x"
    return True


@of_array("annotation-stale")
def _annotation(document: Any, own: Any, chance: random.Random) -> bool:
    attr = keys_of(document).setdefault("_nczarr_attr", {})
    document["attributes"]["too large"] = 1e300
    attr.setdefault("types", {})["too large"] = "float32"
    return True


@of_array("order-duplicate")
def _order(document: Any, own: Any, chance: random.Random) -> bool:
    attr = keys_of(document).setdefault("_nczarr_attr", {})
    document["attributes"]["twice"] = 1
    attr.setdefault("order", []).extend(["twice", "twice"])
    return True


def growing(documents: Documents) -> list[str]:
    return [k for k in arrays(documents) if "unlimited" in info(documents, k)]


of_array("unlimited-wrong", growing)(lambda d, i, c: drop(i, "unlimited"))


@breaks("length-differs")
def _shorter(documents: Documents, chance: random.Random) -> bool:
    place = pick(chance, shared(documents, unlimited=True))
    if place is None:
        return False
    documents[place[0]]["shape"][place[1]] += 1
    return True


@breaks("size-conflict")
def _conflict(documents: Documents, chance: random.Random) -> bool:
    place = pick(chance, shared(documents, unlimited=False))
    if place is None:
        return False
    documents[place[0]]["shape"][place[1]] += 1
    return True


@breaks("name-taken")
def _taken(documents: Documents, chance: random.Random) -> bool:
    for key in groups(documents):
        nodes = record(documents, key).get("arrays", [])
        if len(nodes) > 1:
            above = key.removesuffix("zarr.json")
            for node in nodes[:2]:
                info(documents, f"{above}{node}/zarr.json")["name"] = "taken 1"
            return True
    return False


@breaks("name-missing")
def _unnamed(documents: Documents, chance: random.Random) -> bool:
    own = [info(documents, k) if k in arrays(documents) else record(documents, k) for k in documents]
    found = pick(chance, [i for i in own if "name" in i])
    return found is not None and found.pop("name") is not None


@breaks("node-name")
def _unescaped(documents: Documents, chance: random.Random) -> bool:
    for key in arrays(documents):
        if "/" not in key.removesuffix("/zarr.json"):
            listed = record(documents, "zarr.json")["arrays"]
            node = key.removesuffix("/zarr.json")
            listed[listed.index(node)] = "__unescaped"
            documents["__unescaped/zarr.json"] = documents.pop(key)
            return True
    return False


@breaks("dimension-unreachable")
def _unreachable(documents: Documents, chance: random.Random) -> bool:
    key = pick(chance, with_references(documents))
    if key is None:
        return False
    add_group(documents, dimensions=[{"name": "own", "size": 1}])
    info(documents, key)["dimension_references"][0] = "/g\\ 1/own"
    return True

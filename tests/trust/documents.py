"""Open datasets with damaged documents, of all layouts: a dataset that can be looked at, or an error of our own."""

from __future__ import annotations

import copy
import itertools
import json
import random
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from budget import Budget, main

from nczarr.cdl import dumps
from nczarr.cdl.write.options import DumpOptions
from nczarr.convert.verify.check import check
from nczarr.errors import NCZarrError
from nczarr.mapping import WriteOptions, create_dataset, open_dataset, repair
from nczarr.mapping.options import LayoutName
from nczarr.model import (
    CHAR,
    DOUBLE,
    INT,
    STRING,
    UBYTE,
    Attribute,
    CompoundType,
    Dataset,
    Dimension,
    EnumType,
    Field,
    Filter,
    Group,
    MemorySource,
    OpaqueType,
    Storage,
    Variable,
    VlenType,
    resolve,
)
from nczarr.stores import MemoryStore
from nczarr.zarr.limits import LIMITS

LAYOUTS: tuple[LayoutName, ...] = ("nczarr-v3", "nczarr-v2", "zarr-v3", "zarr-v2", "draft-2019")

#: What takes the place of a value.
ODD: list[Any] = [
    None, True, False, 0, -1, 1, 2, 1.5, 2**31, 2**63, 2**64, 10**30, -(2**63), 1e308, float("nan"), "", "x", "1", "/",
    ".", "..", "a/b", "/x", "/g/v", "\ud800", "\0", "é" * 70, "NaN", "Infinity", "0x", "0xzz", "int32", "|S1", "<f8",
    ">i4", "2i<", "r9", "r8", "string", "bytes", "blosc", "transpose", "sharding_indexed", "crc32c", "v2", "default",
    [], {}, [[]], [None], [0], [1, "0"], ["1", 0], [[1, 2]], {"": None}, {"name": "x"}, [{}], {"a": {"b": []}},
    [2**40, 2**40], [0, 0], [1] * 40, {"name": "bytes", "configuration": []}, {"name": "gzip", "configuration": "x"},
    "A" * 5000,
]  # fmt: skip
#: Keys that mean something somewhere.
KEYS = [
    "", "shape", "data_type", "dtype", "chunk_grid", "chunks", "codecs", "fill_value", "attributes", "dimension_names",
    "node_type", "zarr_format", "consolidated_metadata", "must_understand", "storage_transformers", "filters",
    "compressor", "order", "metadata", "_nczarr_superblock", "_nczarr_group", "_nczarr_array", "_nczarr_attr",
    "_nczarr_attrs", "_ARRAY_DIMENSIONS", "dimensions", "types", "groups", "arrays", "dimrefs", "dimension_references",
    "_FillValue", "name", "configuration", "nczarr_chunks", "unlimited", "size", "kind", "base", "fields",
]  # fmt: skip


def model(whole: bool) -> Dataset:
    """A dataset with a bit of everything; with user types only if a layout has them."""
    x, u = Dimension("x", 3), Dimension("u", 4, True)
    deflated = Storage(chunk_shape=(2, 2), filters=(Filter(2), Filter(1, (1,))))
    enum = EnumType("/e", UBYTE, (("A", 0), ("B", 1)))
    opaque = OpaqueType("/o", 4)
    ragged = VlenType("/l", INT)
    compound = CompoundType("/c", (Field("a", INT), Field("b", DOUBLE, (2,))))
    lists = np.empty(3, object)
    lists[:] = [np.array([1, 2], "i4"), np.array([], "i4"), np.array([3], "i4")]
    records = np.zeros(3, compound.dtype)
    text = np.array(["a", "bc", ""], object)
    variables = [
        Variable("i", INT, ("/u", "/x"), storage=deflated, attributes=(Attribute.of("_FillValue", -9, INT),),
                 data=MemorySource(np.arange(12, dtype="i4").reshape(4, 3))),
        Variable("d", DOUBLE, ("/x",), attributes=(Attribute.of("units", "m"), Attribute.of("r", [1.5, float("nan")])),
                 data=MemorySource(np.ones(3))),
        Variable("t", CHAR, ("/x",), data=MemorySource(np.array([b"a", b"b", b"c"], "S1"))),
        Variable("z", INT, data=MemorySource(np.int32(5))),
    ]  # fmt: skip
    if whole:
        variables += [
            Variable("s", STRING, ("/x",), data=MemorySource(text)),
            Variable("k", enum, ("/x",), data=MemorySource(np.zeros(3, "u1"))),
            Variable("p", opaque, ("/x",), data=MemorySource(np.zeros(3, "V4"))),
            Variable("q", ragged, ("/x",), data=MemorySource(lists)),
            Variable("c", compound, ("/x",), data=MemorySource(records)),
        ]
    inner = Group("h", variables=(Variable("v", INT, ("/g/y", "/x")),))
    group = Group("g", dimensions=(Dimension("y", 2),), groups=(inner,), attributes=(Attribute.of("n", 3),))
    return resolve(
        Dataset(
            "d",
            attributes=(Attribute.of("title", "t"), Attribute.of("names", ["a", "b"], STRING)),
            dimensions=(x, u),
            types=(enum, opaque, ragged, compound) if whole else (),
            variables=tuple(variables),
            groups=(group,),
        )
    )


def stored(layout: LayoutName, consolidated: bool, **more: Any) -> dict[str, bytes]:
    """The keys of a dataset."""
    store = MemoryStore()
    whole = layout in ("nczarr-v3", "zarr-v3")
    options = WriteOptions(layout=layout, consolidated=consolidated, lossy=True, **more)
    with create_dataset(store, model(whole), options) as sink:
        for fqn, variable in model(whole).all_variables.items():
            if variable.data is not None:
                region = tuple(slice(0, n) for n in variable.data.shape)
                sink.write(fqn, region, variable.data.read(region))
    return {key: bytes(store.get(key) or b"") for key in store.list()}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value inside a document."""
    found = [path]
    if isinstance(value, dict):
        for key, inner in value.items():
            found += places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            found += places(inner, (*path, index))
    return found


def change(document: Any, chance: random.Random) -> Any:
    """Change one thing of a document."""
    paths = places(document)
    path = chance.choice(paths)
    if not path:
        return chance.choice(ODD) if chance.random() < 0.2 else document
    document = copy.deepcopy(document)
    holder = document
    for step in path[:-1]:
        holder = holder[step]
    last = path[-1]
    act = chance.randrange(6)
    if act <= 2:
        holder[last] = chance.choice(ODD)
    elif act == 3:
        del holder[last]
    elif act == 4 and isinstance(holder, dict):
        holder[chance.choice(KEYS)] = holder[last] if chance.random() < 0.5 else chance.choice(ODD)
    elif act == 4:
        holder.insert(last, chance.choice([holder[last], chance.choice(ODD)]))
    else:
        other: Any = document
        for step in chance.choice(paths):
            other = other[step]
        holder[last] = copy.deepcopy(other)
    return document


def damage(data: bytes, chance: random.Random) -> bytes:
    """Change bytes of a document."""
    raw = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 4])):
        at = chance.randrange(len(raw) + 1)
        act = chance.randrange(4)
        if act == 0:
            raw[at : at + 1] = bytes([chance.randrange(256)])
        elif act == 1:
            del raw[at : at + chance.choice([1, 2, 10, 100])]
        elif act == 2:
            raw[at:at] = chance.choice(
                [b'"', b"{", b"}", b"[", b"]", b",", b":", b"0", b"-", b"\\u", b"\xff", b"null"]
            )
        else:
            raw[at:at] = raw[at : at + chance.randrange(40)]
    return bytes(raw)


def look(store: MemoryStore, budget: Budget, number: int) -> None:
    """Open, print, read a little of every variable; now and then check, change and mend."""
    try:
        with open_dataset(store, consolidated=False if number % 4 == 0 else None) as opened:
            budget.count("opened")
            repr(opened)
            for fqn, variable in opened.dataset.all_variables.items():
                shape = opened.dataset.shape_of(variable)
                try:
                    opened.data(fqn).read(tuple(slice(0, min(n, 2)) for n in shape))
                except NCZarrError:
                    budget.count("variables that cannot be read")
            try:
                dumps(opened.dataset, DumpOptions(header_only=True))
            except NCZarrError:
                budget.count("headers that cannot be printed")
    except NCZarrError as error:
        assert str(error)
        budget.count("errors")
    if number % 5 == 0:
        list(check(store))
    if number % 7 == 0:
        try:
            repair(store)
        except NCZarrError:
            budget.count("not to be repaired")
    elif number % 7 == 1:
        try:
            with open_dataset(store, "r+") as opened:
                new = replace(opened.dataset, attributes=(Attribute.of("n", number),))
                opened.update(new)
        except NCZarrError:
            budget.count("changes refused")


def trial(budget: Budget) -> None:
    """Damage documents."""
    warnings.simplefilter("ignore")
    LIMITS.variable_chunk_bytes = min(LIMITS.variable_chunk_bytes, 1 << 24)
    datasets = [stored(*case) for case in itertools.product(LAYOUTS, (True, False))]
    datasets += [stored("nczarr-v3", True, compound="struct"), stored("nczarr-v3", True, manifest=True)]
    chance = budget.random
    for number in budget:
        keys = dict(chance.choice(datasets))
        documents = [key for key in keys if key.rpartition("/")[2].startswith((".z", ".nc")) or "json" in key]
        for _ in range(chance.choice([1, 1, 1, 2, 3])):
            key = chance.choice(documents)
            act = chance.random()
            if act < 0.75:
                try:
                    document = json.loads(keys[key])
                except ValueError:
                    continue
                # Those that separators or numbers cannot hold are still tried, as JSON has them.
                keys[key] = json.dumps(change(document, chance)).encode("utf-8", "surrogatepass")
            elif act < 0.93:
                keys[key] = damage(keys[key], chance)
            else:
                keys[key] = keys[chance.choice(documents)]
        store = MemoryStore()
        for key, data in keys.items():
            store.set(key, data)
        budget.shown = {key: keys[key] for key in documents}
        look(store, budget, number)


if __name__ == "__main__":
    main(trial)

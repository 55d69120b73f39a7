"""Agree with NZ-1.0, the NetCDF Zarr convention, in every node; read its earlier form NZUG-1.0."""

from __future__ import annotations

import json
from typing import Any

import mapping_tools as tools
import numpy as np
import pytest
import strategies
from hypothesis import HealthCheck, given, settings

from nczarr.mapping import WriteOptions, check_metadata, open_dataset
from nczarr.model import FLOAT, SHORT, Attribute, Dataset, Dimension, Group, MemorySource, Variable
from nczarr.stores import MemoryStore

UUID = "d0a980b5-c644-4dcc-85a1-283799a58f40"
#: The types of attributes that NZ-1.0 names.
TYPES = {"bool", "complex64", "complex128", "float32", "float64"} | {
    f"{sign}int{n}" for sign in ("", "u") for n in (8, 16, 32, 64)
}


def dataset() -> Dataset:
    scale = (Attribute.of("units", "K"), Attribute.of("scale_factor", 0.1, FLOAT))
    return Dataset(
        "d",
        attributes=(
            Attribute.of("title", "t"),
            Attribute.of("conventions", "CF-1.8"),
            Attribute.of("s", ["x"]),
        ),
        dimensions=(Dimension("x", 2),),
        variables=(Variable("v", SHORT, ("/x",), attributes=scale, data=MemorySource(np.ones(2, "i2"))),),
        groups=(Group("g", attributes=(Attribute.of("conventions", "X-1"), Attribute.of("n", 7, SHORT))),),
    )


def documents_of(source: Dataset) -> tuple[MemoryStore, dict[str, Any]]:
    store = MemoryStore()
    tools.copy(source, store, WriteOptions(nz=True, consolidated=False))
    return store, {k: json.loads(store.get(k)) for k in store.list() if k.endswith("zarr.json")}


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(strategies.datasets(names=strategies.wild_names(), anonymous=True, zero_sizes=True))
def test_every_node_satisfies_the_text_and_nothing_is_lost(source: Dataset) -> None:
    store, documents = documents_of(source)
    for document in documents.values():
        attributes = document["attributes"]
        (entry,) = attributes["zarr_conventions"]
        assert (entry["uuid"], entry["name"]) == (UUID, "NZ-1.0")
        own = attributes.get("_nczarr_attr", {"types": {}})
        assert list(own) == ["types"]
        assert set(own["types"].values()) <= TYPES
        if document["node_type"] == "group":
            assert attributes["conventions"].split()[0] == "NZ-1.0"
        else:
            assert all(document["dimension_names"])
            assert len(document["dimension_names"]) == len(document["shape"])
    assert tools.differences(source, store) == []
    opened, found = check_metadata(store)
    opened.close()
    assert found == ()


def test_the_types_of_numbers_are_where_its_readers_look() -> None:
    store, documents = documents_of(dataset())
    assert documents["v/zarr.json"]["attributes"]["_nczarr_attr"] == {"types": {"scale_factor": "float32"}}
    assert documents["g/zarr.json"]["attributes"]["_nczarr_attr"] == {"types": {"n": "int16"}}
    assert "_nczarr_attr" not in documents["zarr.json"]["attributes"]
    assert documents["zarr.json"]["attributes"]["conventions"] == "NZ-1.0 CF-1.8"
    assert documents["g/zarr.json"]["attributes"]["conventions"] == "NZ-1.0 X-1"
    # A reader without this convention's keys, as that of plain Zarr is, gets them.
    for document in documents.values():
        document.pop("nczarr", None)
        for key in [k for k in document["attributes"] if k in ("_nczarr_superblock", "_nczarr_group")]:
            del document["attributes"][key]
    for key, document in documents.items():
        store.set(key, json.dumps(document).encode())
    with open_dataset(store) as stored:
        assert stored.layout == "zarr-v3"
        assert stored.dataset.variable_at("/v").attribute["scale_factor"].type == FLOAT
        assert stored.dataset.groups[0].attribute["n"].type == SHORT


@pytest.mark.parametrize("lost", [False, True])
def test_the_annotations_of_a_group_are_those_of_its_record(lost: bool) -> None:
    """Also of the copy of the record, where another program has removed the keys."""
    store, documents = documents_of(dataset())
    if lost:
        root = documents["zarr.json"]
        own = ("_nczarr_superblock", "_nczarr_group", "_nczarr_attr")
        root["attributes"] = {k: v for k, v in root["attributes"].items() if k not in own}
        store.set("zarr.json", json.dumps(root).encode())
    assert tools.differences(dataset(), store) == []

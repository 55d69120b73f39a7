"""Agree with NZ-1.0, the NetCDF Zarr convention, in every node; read its earlier form NZUG-1.0."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import mapping_tools as tools
import numpy as np
import pytest
import strategies
from hypothesis import HealthCheck, given, settings

from nczarr.mapping import WriteOptions, check_metadata, open_dataset
from nczarr.model import CHAR, FLOAT, SHORT, Attribute, Dataset, Dimension, Group, MemorySource, Variable
from nczarr.stores import MemoryStore

UUID = "d0a980b5-c644-4dcc-85a1-283799a58f40"
#: The types of attributes that NZ-1.0 names.
TYPES = {"bool", "complex64", "complex128", "float32", "float64"} | {
    f"{sign}int{n}" for sign in ("", "u") for n in (8, 16, 32, 64)
}


def rules() -> Any:
    """The rules of the proposal's JSON Schema of March 2026, in other words, and those of a plain Zarr document."""
    jsonschema = pytest.importorskip("jsonschema")
    entry = {
        "required": ["uuid"],
        "additionalProperties": False,
        "properties": {
            "uuid": {"const": UUID},
            "name": {"const": "NZ-1.0"},
            "schema_url": {"pattern": "^https://.*/zarr-conventions/nz/.*/v1/schema.json$"},
            "spec_url": {"pattern": "^https://github.com/zarr-conventions/nz/blob/v1/README.md$"},
            "description": {"type": "string"},
        },
    }
    annotations = {
        "required": ["types"],
        "additionalProperties": False,
        "properties": {"types": {"type": "object", "additionalProperties": {"enum": sorted(TYPES)}}},
    }
    attributes = {
        "required": ["zarr_conventions"],
        "properties": {
            "zarr_conventions": {"type": "array", "contains": entry},
            "_nczarr_attr": annotations,
        },
    }
    group = {
        "properties": {
            "attributes": {
                "required": ["conventions"],
                "properties": {"conventions": {"type": "string", "pattern": r"NZ-1\.0"}},
            }
        }
    }
    array = {
        "required": ["dimension_names", "shape"],
        "properties": {
            "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
            "dimension_names": {"type": "array", "items": {"type": "string", "minLength": 1}},
            "data_type": {"type": "string"},
        },
    }
    return jsonschema.Draft202012Validator(
        {
            "required": ["zarr_format", "node_type", "attributes"],
            "properties": {
                "zarr_format": {"const": 3},
                "node_type": {"enum": ["array", "group"]},
                "attributes": {"type": "object", **attributes},
            },
            "if": {"properties": {"node_type": {"const": "group"}}},
            "then": group,
            "else": array,
        }
    )


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
    tools.copy(source, store, WriteOptions(nz=True, compound="struct", consolidated=False))
    return store, {k: json.loads(store.get(k)) for k in store.list() if k.endswith("zarr.json")}


@pytest.mark.slow
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
            assert len(document["dimension_names"]) == len(document["shape"])
        assert rules().is_valid(document), list(rules().iter_errors(document))
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


def test_a_change_keeps_the_agreement_in_old_and_new_nodes() -> None:
    store, _ = documents_of(dataset())
    with open_dataset(store, "r+") as stored:
        d = stored.dataset
        new = (
            Variable("w", FLOAT, ("/x",), attributes=(Attribute.of("scale_factor", 0.5, FLOAT),)),
            Variable("c", CHAR, ("/x",)),
        )
        root = replace(d, variables=(*d.variables, *new), groups=(*d.groups, Group("h")))
        stored.update(replace(root, attributes=(*d.attributes, Attribute.of("history", "h"))))
        changed = stored.dataset
    documents = {k: json.loads(store.get(k)) for k in store.list() if k.endswith("zarr.json")}
    assert len(documents) == 6
    assert [k for k, d in documents.items() if not rules().is_valid(d)] == []
    assert documents["w/zarr.json"]["attributes"]["_nczarr_attr"] == {"types": {"scale_factor": "float32"}}
    assert tools.differences(changed, store) == []


def foreign(attributes: dict[str, Any], **more: Any) -> bytes:
    """A document in the form of the proposal's examples, by another writer."""
    declared = [
        {
            "schema_url": "https://raw.githubusercontent.com/zarr-conventions/nz/refs/tags/v1/schema.json",
            "spec_url": "https://github.com/zarr-conventions/nz/blob/v1/README.md",
            "uuid": UUID,
            "name": "NZ-1.0",
            "description": "d",
        }
    ]
    own = {"zarr_format": 3, "node_type": "group", "attributes": {"zarr_conventions": declared, **attributes}}
    if more:
        shape = more["shape"]
        own |= {
            "node_type": "array",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            **more,
        }
    assert rules().is_valid(own)
    return json.dumps(own).encode()


def test_datasets_of_another_writer_are_read_with_their_types() -> None:
    """Of each form of the proposal's examples: root groups, typed attributes, `_FillValue`, a dimension coordinate."""
    store = MemoryStore()
    store.set("zarr.json", foreign({"conventions": "NZ-1.0 CF-1.12", "title": "era"}))
    packed = {
        "scale_factor": 0.01,
        "add_offset": 273.15,
        "units": "K",
        "_nczarr_attr": {"types": {"scale_factor": "float32", "add_offset": "float32"}},
    }
    lat = {"shape": [3], "data_type": "float64", "dimension_names": ["lat"], "fill_value": "NaN"}
    store.set("lat/zarr.json", foreign({}, **lat))
    t = {"shape": [3], "data_type": "int16", "dimension_names": ["lat"], "fill_value": -9999}
    store.set("t/zarr.json", foreign(packed, **t))
    f = {"shape": [3], "data_type": "float32", "dimension_names": ["lat"], "fill_value": 0.0}
    store.set("f/zarr.json", foreign({"_FillValue": -9999.0}, **f))
    with open_dataset(store) as stored:
        d = stored.dataset
        values = stored.data("/f").read((slice(0, 3),))
    assert [(a.name, a.text) for a in d.attributes] == [("conventions", "NZ-1.0 CF-1.12"), ("title", "era")]
    assert d.variable_at("/lat").dimensions == d.variable_at("/t").dimensions == ("/lat",)
    types = {a.name: a.type for a in d.variable_at("/t").attributes}
    assert types == {"scale_factor": FLOAT, "add_offset": FLOAT, "units": CHAR}
    # The fill value of the array and the mark of missing values differ.
    assert d.variable_at("/f").attribute["_FillValue"] == Attribute.of("_FillValue", -9999.0, FLOAT)
    assert values.tolist() == [0, 0, 0]


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

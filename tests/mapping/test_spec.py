"""The pages of the specification: every example is valid, means what it says, and is what the writer writes."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import mapping_tools as tools
import numpy as np
import pytest
import strategies
from hypothesis import HealthCheck, given, settings

from nczarr.mapping import WriteOptions, open_dataset
from nczarr.mapping.node_names import escape_name
from nczarr.mapping.values.attributes import decode_attributes, encode_attributes
from nczarr.mapping.values.types import types_from_json, types_to_json
from nczarr.model import (
    DOUBLE,
    FLOAT,
    Attribute,
    CompoundType,
    Dataset,
    Dimension,
    Field,
    Variable,
)
from nczarr.stores import MemoryStore
from nczarr.zarr.documents.v3 import node_document, parse_node

PAGE = Path(__file__).parents[2] / "docs" / "spec" / "nczarr-v3.md"
TEXT = PAGE.read_text(encoding="utf-8")
EXAMPLES = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", TEXT, re.S)]


def schema() -> Any:
    jsonschema = pytest.importorskip("jsonschema")
    text = (resources.files("nczarr.mapping") / "nczarr-v3.schema.json").read_text(encoding="utf-8")
    document = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(document)
    return jsonschema.Draft202012Validator(document)


def attributes_of(example: dict[str, Any]) -> dict[str, Any]:
    return example.get("attributes", example)


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) >= 8


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: "-".join(e)[:40])
def test_examples_fit_the_schema(example: dict[str, Any]) -> None:
    assert [e.message for e in schema().iter_errors(attributes_of(example))] == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: "-".join(e)[:40])
def test_examples_are_what_is_read_and_written(example: dict[str, Any]) -> None:
    attributes = attributes_of(example)
    if "node_type" in example:
        assert node_document(parse_node(example, "example")) == example
    types: dict[str, Any] = {}
    for group_types in [attributes.get("_nczarr_group", {}).get("types", {})]:
        bound = types_from_json({"/": group_types})["/"]
        assert types_to_json(bound) == group_types
        assert list(types_to_json(bound)) == list(group_types)
        types = {t.fqn: t for t in bound}
    array = None
    if "_nczarr_array" in attributes:
        array = FLOAT if "_FillValue" in attributes else DOUBLE
    decoded = decode_attributes(attributes, attributes.get("_nczarr_attr"), types, array=array)
    plain, info = encode_attributes(decoded, array=array)
    own = {k: v for k, v in attributes.items() if not k.startswith("_nczarr") and k != "zarr_conventions"}
    assert json.dumps(plain) == json.dumps(own)
    written = attributes.get("_nczarr_attr", {})
    assert {k: v for k, v in info.items() if k != "types"} == {
        k: v for k, v in written.items() if k != "types"
    }
    assert info.get("types", {}) == written.get("types", {})


def test_the_examples_make_one_dataset() -> None:
    """The group of the page, with arrays that its children need, is read as the page says."""
    group = next(e for e in EXAMPLES if "station" in e.get("_nczarr_group", {}).get("groups", []))
    storage = next(e for e in EXAMPLES if e.get("_nczarr_array", {}).get("endian") == "big")
    store = MemoryStore()
    number = {
        "zarr_format": 3,
        "node_type": "array",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "data_type": "int32",
        "shape": [3],
        "attributes": {"_nczarr_array": {"dimension_references": ["/time"]}},
    }
    temp = {**number, "shape": [3, 4], "attributes": storage}
    temp["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": [1, 4]}}
    for key, document in (
        ("zarr.json", {"zarr_format": 3, "node_type": "group", "attributes": group}),
        ("time/zarr.json", number),
        ("temp/zarr.json", temp),
        ("station/zarr.json", {"zarr_format": 3, "node_type": "group", "attributes": {}}),
    ):
        store.set(key, json.dumps(document).encode())
    with open_dataset(store) as stored:
        dataset = stored.dataset
        assert [(d.name, d.size, d.unlimited) for d in dataset.dimensions] == [
            ("time", 3, True),
            ("x", 4, False),
        ]
        assert [v.name for v in dataset.variables] == ["time", "temp"]
        found = dataset.variable_at("/temp")
        assert found.storage.endian == "big"
        assert found.storage.chunk_shape == (1, 4)
        assert [f.id for f in found.storage.filters] == [2, 1]
        assert [g.name for g in dataset.groups] == ["station"]


def test_the_table_of_node_names_is_right() -> None:
    section = TEXT.partition("## Node names")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(.+)` \| `(.+)` \|$", section, re.M)
    assert len(rows) >= 6
    for name, node in rows:
        assert escape_name(name) == node


def test_the_convention_is_declared_as_on_the_page() -> None:
    store = MemoryStore()
    tools.copy(Dataset("d", format="netCDF-4"), store)
    assert json.loads(store.get("zarr.json"))["attributes"] == EXAMPLES[0]


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(strategies.datasets(names=strategies.wild_names(), anonymous=True, zero_sizes=True))
def test_what_is_written_fits_the_schema(dataset: Dataset) -> None:
    validator = schema()
    for options in (WriteOptions(), WriteOptions(char="uint8", compound="bytes", nzug=True)):
        store = MemoryStore()
        tools.copy(dataset, store, options)
        for key in store.list():
            if key.endswith("zarr.json"):
                document = json.loads(store.get(key))
                assert [e.message for e in validator.iter_errors(document["attributes"])] == []


def test_the_schema_refuses_what_is_wrong() -> None:
    validator = schema()
    for wrong in (
        {"_nczarr_superblock": {}},
        {"_nczarr_superblock": {"version": "2.0.0"}},
        {"_nczarr_group": {"dimensions": {"x": -1}}},
        {"_nczarr_group": {"dimensions": {"x": {"unlimited": True}}}},
        {"_nczarr_group": {"arrays": ["a/b"]}},
        {"_nczarr_group": {"types": {"t": {"class": "enum", "base": "int8"}}}},
        {"_nczarr_array": {"dimension_references": ["x"]}},
        {"_nczarr_array": {"type": "int"}},
        {"_nczarr_attr": {"types": {"a": "<f4"}}},
        {"zarr_conventions": [{"name": "x"}]},
    ):
        assert not validator.is_valid(wrong), wrong


@pytest.mark.parametrize("compound", ["struct", "bytes"])
def test_compounds_are_stored_as_the_page_says(compound: str) -> None:
    """Both rows of the table, and the fill value that the form on request cannot say."""
    rows = re.findall(r"^\| compound of fixed size(.*?) \| (.+?) \| FQN \| `(.+?)` \|$", TEXT, re.M)
    assert [(r[0], r[2]) for r in rows] == [("", "bytes"), (", on request", "bytes")]
    pair = CompoundType("/pair", (Field("a", FLOAT), Field("b", DOUBLE)))
    fill = Attribute("_FillValue", pair, np.array([(1.0, 2.0)], pair.dtype))
    dataset = Dataset(
        "d",
        types=(pair,),
        dimensions=(Dimension("x", 2),),
        variables=(Variable("v", pair, ("/x",)), Variable("w", pair, ("/x",), attributes=(fill,))),
    )
    store = MemoryStore()
    tools.copy(dataset, store, WriteOptions(compound=compound))
    document = json.loads(store.get("v/zarr.json"))
    said = {"struct": rows[0], "bytes": rows[1]}[compound]
    name = document["data_type"] if isinstance(document["data_type"], str) else document["data_type"]["name"]
    assert f"`{name}`" in said[1]
    assert document["codecs"][0]["name"] == said[2]
    assert document["attributes"]["_nczarr_array"]["type"] == "/pair"
    assert ("one more dimension" in said[1]) == (document["shape"] == [2, 12])
    assert document["dimension_names"] == (["x"] if compound == "struct" else ["x", "bytes_12"])
    assert not [e.message for e in schema().iter_errors(document["attributes"])]
    packed = json.loads(store.get("w/zarr.json"))["data_type"]
    assert packed == "bytes" if compound == "bytes" else packed["name"] == "struct"
    assert tools.differences(dataset, store) == []


def test_scalars_say_nothing_that_need_not_be_said() -> None:
    store = MemoryStore()
    tools.copy(Dataset("d", variables=(Variable("v", DOUBLE),)), store)
    assert json.loads(store.get("v/zarr.json"))["attributes"] == {}

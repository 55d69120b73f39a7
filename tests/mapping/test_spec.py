"""Validate the examples of the specification, and compare them with the writer."""

from __future__ import annotations

import json
import re
import shutil
import uuid
from contextlib import nullcontext
from importlib import resources
from pathlib import Path
from typing import Any

import mapping_tools as tools
import numpy as np
import pytest
import strategies
from hypothesis import HealthCheck, given, settings

from nczarr.mapping import WriteOptions, check_metadata
from nczarr.mapping.nczarr3.keys import CONVENTION
from nczarr.mapping.node_names import escape_name
from nczarr.mapping.values.attributes import decode_attributes, encode_attributes
from nczarr.mapping.values.declarations import TypeBinder, declarations, types_to_json
from nczarr.model import (
    DEFAULT_FILL,
    DOUBLE,
    FLOAT,
    INT,
    PRIMITIVES,
    Attribute,
    CompoundType,
    Dataset,
    Dimension,
    Field,
    MemorySource,
    UserType,
    Variable,
)
from nczarr.stores import MemoryStore
from nczarr.zarr.chunks.records import read_record
from nczarr.zarr.documents.v3 import array_document, parse_node

SPEC = Path(__file__).parents[2] / "docs" / "spec"
CORE, STORAGE, RECOVERY = (
    (SPEC / f"nczarr-v3{part}.md").read_text(encoding="utf-8") for part in ("", "-storage", "-recovery")
)
TEXT = CORE + STORAGE + RECOVERY
IDENTITY = "5f0c9a7e31d84b62a1f3c8e05d7b2946"
EXAMPLES = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", TEXT, re.S)]


def schema() -> Any:
    jsonschema = pytest.importorskip("jsonschema")
    text = (resources.files("nczarr.mapping") / "nczarr-v3.schema.json").read_text(encoding="utf-8")
    document = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(document)
    return jsonschema.Draft202012Validator(document)


def keys_of(document: dict[str, Any]) -> dict[str, Any]:
    if document["node_type"] == "array":
        keys: dict[str, Any] = document["nczarr"]["configuration"]
        return keys
    return {k: v for k, v in document["attributes"].items() if k.startswith("_nczarr")}


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) >= 3
    assert {e["node_type"] for e in EXAMPLES} == {"group", "array"}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: str(list(keys_of(e))))
def test_examples_fit_the_schema(example: dict[str, Any]) -> None:
    assert [e.message for e in schema().iter_errors(example)] == []


def bound_types(declared: list[dict[str, Any]]) -> tuple[UserType, ...]:
    binder = TypeBinder()
    fqns = [binder.declare("/", name, d) for name, d in declarations(declared).items()]
    return tuple(binder.bind(fqn) for fqn in fqns)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: str(list(keys_of(e))))
def test_examples_are_what_is_read_and_written(example: dict[str, Any]) -> None:
    keys = keys_of(example)
    if example["node_type"] == "array":
        assert array_document(parse_node(example, "example")) == example
    group_types = keys.get("_nczarr_group", {}).get("types", [])
    bound = bound_types(group_types)
    assert types_to_json(bound) == group_types
    named = keys.get("_nczarr_array", {}).get("types", [])
    short = bound_types([{**t, "name": t["name"][1:]} for t in named])
    assert types_to_json(short, full_names=True) == named
    array = DOUBLE if example["node_type"] == "array" else None
    types = {t.fqn: t for t in (*bound, *short)}
    decoded = decode_attributes(example["attributes"], keys.get("_nczarr_attr"), types, array=array)
    plain, info = encode_attributes(decoded, array=array)
    own = {k: v for k, v in example["attributes"].items() if not k.startswith("_nczarr")}
    assert json.dumps(plain) == json.dumps(own)
    assert info == keys.get("_nczarr_attr", {})


def test_the_examples_make_one_dataset() -> None:
    """The group of the page, with arrays that it lists, is read as the page says."""
    group, temp = EXAMPLES[:2]
    store = MemoryStore()
    station = {"fqn": "/station", "dataset": IDENTITY}
    time = {
        **temp,
        "shape": [3],
        "data_type": "int32",
        "fill_value": -2147483647,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3]}},
        "dimension_names": ["time"],
        "attributes": {},
        "nczarr": {
            **temp["nczarr"],
            "configuration": {
                "version": "3.2.0",
                "dataset": IDENTITY,
                "_nczarr_array": {"dimension_references": ["/time"], "unlimited": ["/time"]},
            },
        },
    }
    for key, document in (
        ("zarr.json", group),
        ("time/zarr.json", time),
        ("temp/zarr.json", temp),
        (
            "station/zarr.json",
            {"zarr_format": 3, "node_type": "group", "attributes": {"_nczarr_group": station}},
        ),
    ):
        store.set(key, json.dumps(document).encode())
    opened, found = check_metadata(store)
    assert found == ()
    with opened as stored:
        dataset = stored.dataset
        assert dataset.dimensions == (Dimension("time", 3, True), Dimension("x", 4))
        assert [t.name for t in dataset.types] == ["flag_t", "key_t", "row_t", "station_t"]
        assert [a.name for a in dataset.attributes][-2:] == ["note", "_nczarr_array"]
        assert dataset.attribute["note"].values.tobytes() == b"\xffab"
        assert [v.name for v in dataset.variables] == ["time", "temp"]
        assert dataset.variable_at("/temp").type == dataset.all_types["/flag_t"]
        assert [a.name for a in dataset.variable_at("/temp").attributes] == ["units", "long_name"]
        assert [g.name for g in dataset.groups] == ["station"]


def test_the_core_is_short() -> None:
    assert len(CORE.splitlines()) <= 250


@pytest.mark.parametrize("page", sorted(SPEC.rglob("*.md")), ids=lambda p: p.relative_to(SPEC).as_posix())
def test_every_json_of_the_pages_is_json(page: Path) -> None:
    for block in re.findall(r"```json\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
        json.loads(block)


@pytest.mark.parametrize(
    "folder",
    [
        "data-types/null_terminated_bytes",
        "data-types/raw_bytes",
        "extensions/nczarr",
        "extensions/nczarr_chunks",
    ],
)
def test_the_example_of_a_registration_fits_its_schema_and_the_engine(folder: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    page = (SPEC / "registrations" / folder / "README.md").read_text(encoding="utf-8")
    own = json.loads((SPEC / "registrations" / folder / "schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(own)
    (example,) = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", page, re.S))
    (member,) = {k: v for k, v in example.items() if k in ("data_type", "nczarr", "nczarr_chunks")}.values()
    validator = jsonschema.Draft202012Validator(own)
    assert validator.is_valid(member)
    assert not validator.is_valid({**member, "name": "another"})
    assert not validator.is_valid({**member, "configuration": {}})
    document = {**EXAMPLES[1], **example}
    assert array_document(parse_node(document, "example")) == document
    if "nczarr" in example:
        assert schema().is_valid(document)


def test_a_record_of_chunks_has_the_registered_form_and_is_read_in_its_earlier_form() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    own = json.loads(
        (SPEC / "registrations/extensions/nczarr_chunks/schema.json").read_text(encoding="utf-8")
    )
    store, dataset = (
        MemoryStore(),
        Dataset("d", variables=(Variable("v", DOUBLE, data=MemorySource(np.ones(()))),)),
    )
    tools.copy(dataset, store, WriteOptions(manifest=True, consolidated=False))
    document = json.loads(store.get("v/zarr.json"))
    (extension,) = (document[k] for k in document if k == "nczarr_chunks")
    assert jsonschema.Draft202012Validator(own).is_valid(extension)
    for form in (extension, {"must_understand": False, **extension["configuration"]}):
        read = read_record(parse_node({**document, "nczarr_chunks": form}, "v"))
        assert read is not None
        assert read.tolist() is True


def test_the_example_of_the_attributes_fits_their_schema_and_is_read() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    folder = SPEC / "registrations/attributes/nczarr"
    own = jsonschema.Draft202012Validator(json.loads((folder / "schema.json").read_text(encoding="utf-8")))
    (block,) = re.findall(r"```json\n(.*?)```", (folder / "README.md").read_text(encoding="utf-8"), re.S)
    attributes = json.loads(block)["attributes"]
    document = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    assert own.is_valid(attributes)
    assert schema().is_valid(document)
    assert not own.is_valid({**attributes, "_nczarr_superblock": {"version": "3.2.0"}})
    store = MemoryStore()
    store.set("zarr.json", json.dumps(document).encode())
    opened, found = check_metadata(store)
    with opened:
        assert opened.dataset.attribute["count"] == Attribute.of("count", 3, INT)
    assert found == ()


def test_the_lines_on_the_page_for_neighbours_read_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (SPEC / "neighbours.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"```python\n(.*?)```", page, re.S)
    monkeypatch.chdir(tmp_path)
    shutil.copy(Path(__file__).parents[1] / "data" / "example.nc", tmp_path)
    exec(compile(lines, "neighbours.md", "exec"), {})


def test_the_identifiers_of_the_version_are_those_of_their_names() -> None:
    convention = uuid.UUID(CONVENTION["uuid"])
    text = (SPEC / "governance.md").read_text(encoding="utf-8")
    for name in ("specification 3.2", "schema 3.2"):
        assert f"urn:uuid:{uuid.uuid5(convention, name)}" in text
        assert f"`{name}`" in text
    assert schema().schema["$id"] == f"urn:uuid:{uuid.uuid5(convention, 'schema 3.2')}"


@pytest.mark.parametrize("asked", [False, True])
def test_xarray_writes_a_dataset_to_netcdf_unless_it_declares_itself(asked: bool, tmp_path: Path) -> None:
    """The reason why the declaration is on request; where this fails, xarray has learnt it: declare by default."""
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("netCDF4")
    tools.copy(Dataset("d"), tmp_path / "d.zarr", WriteOptions(zarr_conventions=asked))
    with xarray.open_dataset(tmp_path / "d.zarr", engine="zarr") as ds:
        assert list(ds.attrs) == ["zarr_conventions"] * asked
        with pytest.raises(TypeError, match="zarr_conventions") if asked else nullcontext():
            ds.to_netcdf(tmp_path / "d.nc", engine="netcdf4")


def test_the_examples_of_the_convention_fit_its_schema(tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    folder = SPEC / "registrations" / "convention"
    own = json.loads((folder / "schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft7Validator.check_schema(own)
    examples = sorted((folder / "examples").glob("*.json"))
    assert len(examples) == 2
    for path in examples:
        document = json.loads(path.read_text(encoding="utf-8"))
        assert jsonschema.Draft7Validator(own).is_valid(document)
        assert schema().is_valid(document)
        store = MemoryStore()
        store.set("zarr.json", json.dumps(document).encode())
        opened, found = check_metadata(store)
        opened.close()
        assert found == ()
        del document["attributes"]["_nczarr_superblock"]["convention"]
        assert not jsonschema.Draft7Validator(own).is_valid(document)


def test_the_table_of_node_names_is_right() -> None:
    section = CORE.partition("## Node names")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(.+)` \| `(.+)` \|$", section, re.M)
    assert len(rows) >= 5
    for name, node in rows:
        assert escape_name(name) == node


def test_the_convention_is_declared_on_request_only() -> None:
    for asked in (False, True):
        store = MemoryStore()
        tools.copy(Dataset("d", format="netCDF-4"), store, WriteOptions(zarr_conventions=asked))
        attributes = json.loads(store.get("zarr.json"))["attributes"]
        block = attributes.pop("_nczarr_superblock")
        assert re.fullmatch("[0-9a-f]{32}", block.pop("dataset"))
        assert block.pop("convention") in TEXT
        assert block == {"version": "3.2.0", "format": "netCDF-4"}
        assert [c["uuid"] in TEXT for c in attributes.pop("zarr_conventions", [])] == [True] * asked
        assert attributes == {}


def test_the_table_of_default_fills_is_right() -> None:
    section = STORAGE.partition("## Fill values")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| (`.+`) \| (-?[0-9].*) \|$", section, re.M))
    said = {
        name: float(value) if "e" in value else int(value)
        for names, values in rows.items()
        for name, value in zip(re.findall(r"`(.+?)`", names), (values.split(", ") * 2)[:2], strict=True)
    }
    known = {t.zarr_name: DEFAULT_FILL[t.name] for t in PRIMITIVES.values() if t.dtype.kind in "iuf"}
    assert said == known


def test_the_table_of_recovery_and_the_constraints_name_the_same_codes() -> None:
    constraints = set(re.findall(r"^\| C\d+ \|.*\| `([a-z-]+)` \|", TEXT, re.M))
    section = RECOVERY.partition("## Recovery")[2].partition("\n## ")[0]
    assert set(re.findall(r"`([a-z]+-[a-z]+)`", section)) <= constraints


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(strategies.datasets(names=strategies.wild_names(), anonymous=True, zero_sizes=True))
def test_what_is_written_fits_the_schema(dataset: Dataset) -> None:
    validator = schema()
    for options in (WriteOptions(), WriteOptions(char="uint8", compound="bytes", nz=True)):
        store = MemoryStore()
        tools.copy(dataset, store, options)
        for key in store.list():
            if key.endswith("zarr.json"):
                document = json.loads(store.get(key))
                assert [e.message for e in validator.iter_errors(document)] == []


def test_the_schema_refuses_what_is_wrong() -> None:
    validator = schema()
    group, array = EXAMPLES[:2]
    assert validator.is_valid({**group, "attributes": {"_nczarr_group": {"more": 1}, "mine": {}}})
    for wrong in (
        {"_nczarr_superblock": {}},
        {"_nczarr_superblock": {"version": "2.0.0"}},
        {"_nczarr_group": {"dimensions": [{"name": "x", "size": -1}]}},
        {"_nczarr_group": {"dimensions": [{"name": "x", "unlimited": True}]}},
        {"_nczarr_group": {"dimensions": {"x": 1}}},
        {"_nczarr_group": {"arrays": ["a/b"]}},
        {"_nczarr_group": {"fqn": "g"}},
        {"_nczarr_group": {"dataset": 7}},
        {"_nczarr_superblock": {"version": "3.2.0", "convention": "another"}},
        {"_nczarr_group": {"types": [{"name": "t", "class": "enum", "base": "int8", "members": []}]}},
        {"_nczarr_group": {"types": [{"class": "opaque", "size": 1}]}},
        {"_nczarr_attr": {"types": {"a": "<f4"}}},
        {"zarr_conventions": [{"name": "x"}]},
    ):
        assert not validator.is_valid({**group, "attributes": wrong}), wrong
        inside = {
            "kind": "inline",
            "must_understand": False,
            "metadata": {"g": {**group, "attributes": wrong}},
        }
        assert not validator.is_valid({**group, "consolidated_metadata": inside}), wrong
    for wrong in (
        {"_nczarr_array": {"dimension_references": ["x"]}},
        {"_nczarr_array": {"type": "int"}},
        {"_nczarr_array": {"unlimited": [1]}},
        {"_nczarr_array": {"types": [{"name": "t", "class": "opaque", "size": 1}]}},
        {"_nczarr_copy": {}},
        {"version": 3},
        {"dataset": ""},
    ):
        changed = {"version": "3.2.0", **wrong}
        assert not validator.is_valid({**array, "nczarr": {**array["nczarr"], "configuration": changed}}), (
            wrong
        )


@pytest.mark.parametrize("compound", ["struct", "bytes"])
def test_compounds_are_stored_as_the_page_says(compound: str) -> None:
    """Both rows of the table, and the fill value that the form on request cannot say."""
    rows = re.findall(r"^\| compound of fixed size(.*?) \| (.+?) \| FQN \| `(.+?)` \|$", TEXT, re.M)
    assert [(r[0], r[2]) for r in rows] == [("", "bytes"), (", on request", "bytes")]
    assert WriteOptions().compound == "bytes"
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
    said = {"bytes": rows[0], "struct": rows[1]}[compound]
    name = document["data_type"] if isinstance(document["data_type"], str) else document["data_type"]["name"]
    assert f"`{name}`" in said[1]
    assert document["codecs"][0]["name"] == said[2]
    assert keys_of(document)["_nczarr_array"]["type"] == "/pair"
    assert ("one more dimension" in said[1]) == (document["shape"] == [2, 12])
    assert document["dimension_names"] == (["x"] if compound == "struct" else ["x", "bytes_12"])
    assert not [e.message for e in schema().iter_errors(document)]
    packed = json.loads(store.get("w/zarr.json"))["data_type"]
    assert packed == "bytes" if compound == "bytes" else packed["name"] == "struct"
    assert tools.differences(dataset, store) == []


def test_scalars_say_nothing_that_need_not_be_said() -> None:
    store = MemoryStore()
    tools.copy(Dataset("d", variables=(Variable("v", DOUBLE),)), store)
    document = json.loads(store.get("v/zarr.json"))
    assert document["attributes"] == {}
    assert list(keys_of(document)) == ["version", "dataset", "_nczarr_copy"]

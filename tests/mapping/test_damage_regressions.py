"""Open the damaged stores that trials found: none ends in an error of Python's own."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nczarr.errors import MetadataError, NCZarrError
from nczarr.mapping import WriteOptions, check_metadata, create_dataset, open_dataset, repair
from nczarr.model import CHAR, INT, STRING, Attribute, Dataset, Dimension, Group, Variable, VlenType
from nczarr.stores import MemoryStore
from nczarr.zarr import Array, ArrayMetadata, NamedConfig, RegularGrid, data_type_for

MODEL = Dataset(
    "d",
    attributes=(Attribute.of("title", "t"),),
    dimensions=(Dimension("x", 3),),
    variables=(Variable("v", INT, ("/x",)), Variable("t", CHAR, ("/x",))),
    groups=(Group("g", attributes=(Attribute.of("n", 3),)),),
)


def stored(layout: str, consolidated: bool) -> MemoryStore:
    store = MemoryStore()
    create_dataset(store, MODEL, WriteOptions(layout=layout, consolidated=consolidated)).close()  # type: ignore[arg-type]
    return store


def change(store: MemoryStore, key: str, *path: Any, value: Any) -> None:
    data = store.get(key)
    assert data is not None
    document = holder = json.loads(data)
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    store.set(key, json.dumps(document).encode())


@pytest.mark.parametrize("spelled", ["2i<", "\ud800", "((", "i4,", "<i99999999999999999999"])
def test_spellings_of_types_in_nczarr_v2(spelled: str) -> None:
    store = stored("nczarr-v2", False)
    change(store, ".zattrs", "_nczarr_attr", "types", "title", value=spelled)
    with pytest.raises(MetadataError, match="not a supported type"):
        open_dataset(store)


@pytest.mark.parametrize("names", [[""], ["", "g"]])
@pytest.mark.parametrize("key", [".zattrs", "g/.zattrs"])
def test_a_group_without_a_name_in_nczarr_v2(names: list[str], key: str) -> None:
    store = stored("nczarr-v2", False)
    change(store, key, "_nczarr_group", "groups", value=names)
    with pytest.raises(MetadataError, match="not a list of names"):
        open_dataset(store)


def test_half_a_surrogate_pair_as_fill_value() -> None:
    for layout in ("zarr-v2", "nczarr-v2"):
        store = stored(layout, False)
        change(store, "t/.zarray", "fill_value", value="\ud800")
        with pytest.raises(NCZarrError):
            open_dataset(store).data("/t").read((slice(0, 3),))


@pytest.mark.parametrize("key", ["/.zarray", "/.zattrs", "//.zarray"])
def test_a_key_of_consolidated_metadata_that_begins_with_a_slash(key: str) -> None:
    store = stored("zarr-v2", True)
    change(store, ".zmetadata", "metadata", key, value={"zarr_format": 2})
    with pytest.raises(NCZarrError):
        open_dataset(store)


@pytest.mark.filterwarnings("ignore::nczarr.mapping.RecoveryWarning")
@pytest.mark.parametrize("configuration", ["x", 1.5, 3, None, [1]])
def test_an_object_of_an_array_that_is_none_stays_as_it_is(configuration: Any) -> None:
    store = stored("nczarr-v3", False)
    change(store, "v/zarr.json", "nczarr", "configuration", value=configuration)
    check_metadata(store)[0].close()
    with open_dataset(store, "r+") as opened:
        opened.update(replace(opened.dataset, attributes=(Attribute.of("title", "new"),)))
    with open_dataset(store) as opened:
        assert opened.dataset.attribute["title"].text == "new"
    repair(store)
    assert {v.name for v in open_dataset(store).dataset.variables} == {"v", "t"}


@pytest.mark.parametrize(("codec", "data_type"), [("vlen-utf8", "bytes"), ("vlen-bytes", "string")])
def test_text_is_not_taken_for_bytes_nor_bytes_for_text(codec: str, data_type: str) -> None:
    store = MemoryStore()
    kind = VlenType("/l", INT) if data_type == "bytes" else STRING
    model = Dataset("d", dimensions=(Dimension("x", 2),), variables=(Variable("q", kind, ("/x",)),))
    if isinstance(kind, VlenType):
        model = replace(model, types=(kind,))
    with create_dataset(store, model, WriteOptions(consolidated=False)) as sink:
        values = np.empty(2, object)
        values[:] = [np.array([97], "i4")] * 2 if data_type == "bytes" else ["a", "b"]
        sink.write("/q", (slice(0, 2),), values)
    change(store, "q/zarr.json", "codecs", 0, value={"name": codec})
    with pytest.raises(NCZarrError, match="variable-length"), open_dataset(store) as stored:
        stored.data("/q").read((slice(0, 2),))


@pytest.mark.parametrize("dtype", ["2i<", "((", 7, None, "O"])
def test_element_types_of_sequences(dtype: Any) -> None:
    codec = NamedConfig("numcodecs.vlen-array", {"dtype": dtype})
    metadata = ArrayMetadata((2,), data_type_for("bytes"), RegularGrid((2,)), fill_value=b"", codecs=(codec,))
    store = MemoryStore()
    store.set("v/c/0", b"\2\0\0\0\1\0\0\0a\1\0\0\0b")
    with pytest.raises(NCZarrError):
        Array(store, "v", metadata).read(...)

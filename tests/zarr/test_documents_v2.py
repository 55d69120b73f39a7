"""Zarr v2 documents: round trips, netcdf-c's quirks, bad input, and zarr-python as a peer."""

from __future__ import annotations

import copy
import dataclasses
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from real_data import ZARR_SAMPLES
from rotation import examples

from nczarr.errors import MetadataError, NCZarrError, UnsupportedError
from nczarr.stores import MemoryStore, open_store
from nczarr.zarr.chunk_keys import ChunkKeyEncoding
from nczarr.zarr.documents.v2 import array_documents, group_documents, parse_array, parse_group
from nczarr.zarr.grids import RectilinearGrid, RegularGrid
from nczarr.zarr.hierarchy.opening import open_hierarchy
from nczarr.zarr.metadata import ArrayMetadata, NamedConfig
from nczarr.zarr.types import data_type_for

BASE = {
    "zarr_format": 2,
    "shape": [4, 6],
    "chunks": [2, 3],
    "dtype": "<i4",
    "compressor": {"id": "zlib", "level": 4},
    "filters": [{"id": "shuffle", "elementsize": 4}],
    "fill_value": -99,
    "order": "C",
}


def parse(**changes):
    return parse_array({**BASE, **changes}, {}, "v/.zarray")


def codecs(metadata):
    return [(codec.name, dict(codec.configuration)) for codec in metadata.codecs]


TYPES = st.sampled_from(
    [
        ("<i2", -5),
        (">f8", "NaN"),
        ("<f4", 9.969209968386869e36),
        ("|b1", True),
        ("|u1", 255),
        ("<i1", -127),  # netcdf-c's spelling
        (">S1", "*"),
        ("|S128", "YWI="),
        ("<U3", "é"),
        ("<M8[ns]", 0),
        (">m8[10s]", "NaT"),
        ("<c8", [1.0, "NaN"]),
        ("|V3", "AAEC"),
        ([["a", "<i4"], ["b", "<f8", [2]], ["c", [["x", "|S3"]]]], "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
        ("<i4", [7]),  # netcdf-c 4.8.0
        ("<f4", None),
    ]
)
FILTERS = st.sampled_from(
    [
        None,
        [],
        [{"id": "shuffle", "elementsize": 0}],
        [{"id": "shuffle", "elementsize": "0"}, {"id": "zlib", "level": "4"}],
        [{"id": "delta", "dtype": ">i4", "astype": ">i2"}, {"id": "shuffle", "elementsize": 2}],
    ]
)
COMPRESSORS = st.sampled_from(
    [
        None,
        {"id": "fletcher32"},
        {"id": "blosc", "cname": "lz4", "clevel": 4, "blocksize": 0, "shuffle": 1},
        {"id": "zstd", "level": "3"},
    ]
)


@given(
    TYPES,
    FILTERS,
    COMPRESSORS,
    st.sampled_from("CF"),
    st.booleans(),
    st.sampled_from([{}, {"_nczarr_array": {}}]),
)
def test_documents_survive_in_their_spelling(type_and_fill, filters, compressor, order, slash, extra):
    # A filter of another byte order than its values is refused.
    assume("<" not in str(type_and_fill[0]) or ">" not in str(filters))
    document = {
        **BASE,
        "dtype": type_and_fill[0],
        "fill_value": type_and_fill[1],
        "filters": filters,
        "compressor": compressor,
        "order": order,
        **extra,
    }
    if slash:
        document["dimension_separator"] = "/"
    metadata = parse_array(copy.deepcopy(document), {"units": "m"}, "v/.zarray")
    assert array_documents(metadata) == {".zarray": document, ".zattrs": {"units": "m"}}
    assert metadata.extra == extra
    # Without the original spelling the document still means the same.
    plain = array_documents(dataclasses.replace(metadata, origin=None))
    assert parse_array(plain[".zarray"], {"units": "m"}, "") == metadata


def test_spelling_goes_where_the_meaning_went():
    metadata = parse(filters=[{"id": "shuffle", "elementsize": 0}], fill_value=[-99])
    changed = dataclasses.replace(metadata, shape=(9, 9), fill_value=np.int32(1), codecs=metadata.codecs[:1])
    document = array_documents(changed)[".zarray"]
    assert document["fill_value"] == 1
    assert document["filters"] is None
    assert document["compressor"] is None
    assert document["shape"] == [9, 9]


def test_a_caller_can_choose_the_spelling_of_the_dtype():
    """NCZarr v2 has chars as ``>S1``; ``|S1`` is a string there."""
    metadata = ArrayMetadata(
        (4,),
        data_type_for("S1"),
        RegularGrid((4,)),
        ChunkKeyEncoding("v2", "."),
        fill_value=b"*",
        codecs=(NamedConfig("bytes"),),
    )
    assert array_documents(metadata)[".zarray"]["dtype"] == "|S1"
    assert array_documents(metadata)[".zarray"]["fill_value"] == "Kg=="
    chosen = array_documents(dataclasses.replace(metadata, origin={"dtype": ">S1"}))[".zarray"]
    assert (chosen["dtype"], chosen["fill_value"]) == (">S1", "*")
    assert parse_array(chosen, {}, "") == metadata


def test_order_f_becomes_a_transposition():
    assert codecs(parse(order="F", filters=None, compressor=None)) == [
        ("transpose", {"order": [1, 0]}),
        ("bytes", {"endian": "little"}),
    ]
    assert codecs(parse(order="F", shape=[4], chunks=[2], filters=None, compressor=None))[0][0] == "bytes"


def test_big_endian_goes_to_the_bytes_codec():
    metadata = parse(dtype=">f4", filters=None, compressor=None, fill_value=1.5)
    assert metadata.data_type.name == "float32"
    assert codecs(metadata) == [("bytes", {"endian": "big"})]
    assert codecs(parse(dtype="|u1", filters=None, compressor=None, fill_value=1)) == [("bytes", {})]


def test_quirks_of_netcdf_c_are_mended():
    metadata = parse(
        dtype="<f8",
        filters=[{"id": "shuffle", "elementsize": "0"}, {"id": "shuffle"}],
        compressor={"id": "zlib", "level": "4"},
    )
    assert codecs(metadata)[1:] == [
        ("numcodecs.shuffle", {"elementsize": 8}),
        ("numcodecs.shuffle", {"elementsize": 8}),
        ("numcodecs.zlib", {"level": 4}),
    ]


@pytest.mark.parametrize(
    ("attributes", "fill", "expected"),
    [({}, "bm9uZQ==", b"none"), ({"_nczarr_array": {}}, "none", b"none"), ({}, "a b", b"a b"), ({}, "", b"")],
)
def test_fill_values_of_byte_strings(attributes, fill, expected):
    """Zarr has base64, netcdf-c the text."""
    document = {**BASE, "dtype": "|S8", "fill_value": fill, "filters": None}
    metadata = parse_array(document, attributes, "")
    assert metadata.fill_value == expected
    assert array_documents(metadata)[".zarray"]["fill_value"] == fill


def test_objects_with_filters_of_variable_length():
    text = parse(dtype="|O", filters=[{"id": "vlen-utf8"}], fill_value=0)
    assert (text.data_type.name, text.fill_value) == ("string", "")
    assert codecs(text)[0] == ("vlen-utf8", {})
    raw = parse(dtype="|O", filters=[{"id": "vlen-bytes"}], fill_value=None)
    assert (raw.data_type.name, raw.fill) == ("bytes", b"")
    sequences = parse(dtype="|O", filters=[{"id": "vlen-array", "dtype": "<i4"}], fill_value=None)
    assert codecs(sequences)[0] == ("vlen-bytes", {})
    for filters in ([{"id": "pickle"}], [], None, [{"id": "zlib"}], [3]):
        with pytest.raises(NCZarrError):
            parse(dtype="|O", filters=filters)


def test_filters_on_numbers_come_before_bytes():
    metadata = parse(
        dtype=">f8",
        fill_value=0.0,
        filters=[{"id": "fixedscaleoffset", "offset": 0, "scale": 10, "dtype": ">f8", "astype": ">i2"}],
    )
    names = [name for name, _ in codecs(metadata)]
    assert names == ["numcodecs.fixedscaleoffset", "bytes", "numcodecs.zlib"]
    assert metadata.codecs[0].configuration["astype"] == np.dtype("i2").str
    assert metadata.codecs[1].configuration == {"endian": "big"}
    with pytest.raises(UnsupportedError, match="follows"):
        parse(filters=[{"id": "shuffle"}, {"id": "delta", "dtype": "<i4"}])


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"dimension_names": ("x",)}, "dimension_names"),
        ({"chunk_key_encoding": ChunkKeyEncoding("default", "/")}, "chunk_key_encoding"),
        ({"chunk_grid": RectilinearGrid(((1, 3),))}, "chunk_grid"),
        ({"codecs": (NamedConfig("sharding_indexed"),)}, "sharding_indexed"),
        ({"codecs": (NamedConfig("bytes"), NamedConfig("crc32c"))}, "crc32c"),
        ({"extensions": (NamedConfig("x", must_understand=False),)}, "extensions"),
        ({"storage_transformers": (NamedConfig("x", must_understand=False),)}, "storage_transformers"),
    ],
)
def test_what_v2_cannot_hold_is_refused(change, match):
    metadata = ArrayMetadata(
        (4,), data_type_for("i4"), RegularGrid((2,)), ChunkKeyEncoding("v2", "."), fill_value=np.int32(0)
    )
    array_documents(metadata)
    with pytest.raises(UnsupportedError, match=match):
        array_documents(dataclasses.replace(metadata, **change))
    if "extensions" in change:
        with pytest.raises(UnsupportedError):
            group_documents(
                parse_group({"zarr_format": 2}, None, "").__class__(extensions=change["extensions"])
            )


@pytest.mark.parametrize("order", [[1, 2, 0], [0, 2, 1]])
def test_only_order_f_is_a_transposition_in_v2(order):
    metadata = ArrayMetadata(
        (2, 2, 2),
        data_type_for("i4"),
        RegularGrid((2, 2, 2)),
        ChunkKeyEncoding("v2", "."),
        codecs=(NamedConfig("transpose", {"order": order}), NamedConfig("bytes", {"endian": "little"})),
    )
    with pytest.raises(UnsupportedError, match="order F"):
        array_documents(metadata)


def test_v3_codecs_have_v2_names():
    metadata = ArrayMetadata(
        (4,),
        data_type_for("i4"),
        RegularGrid((2,)),
        ChunkKeyEncoding("v2", "/"),
        codecs=(
            NamedConfig("bytes", {"endian": "big"}),
            NamedConfig(
                "blosc",
                {"cname": "zstd", "clevel": 3, "shuffle": "bitshuffle", "typesize": 4, "blocksize": 0},
            ),
        ),
    )
    document = array_documents(metadata)[".zarray"]
    assert document["dtype"] == ">i4"
    assert document["compressor"] == {
        "id": "blosc",
        "cname": "zstd",
        "clevel": 3,
        "shuffle": 2,
        "blocksize": 0,
    }
    assert document["dimension_separator"] == "/"
    assert document["fill_value"] is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
PLACES = [
    (),
    *[(key,) for key in BASE],
    ("shape", 0),
    ("chunks", 1),
    ("compressor", "id"),
    ("compressor", "level"),
    ("filters", 0),
    ("filters", 0, "id"),
    ("filters", 0, "elementsize"),
    ("dtype", 0),
    ("dtype", 0, 0),
    ("dtype", 0, 1),
    ("dtype", 0, 2),
]


@given(
    st.sampled_from(PLACES[1:]), json_values, st.booleans(), st.sampled_from(["delta", "blosc", "shuffle"])
)
@settings(max_examples=examples(400), suppress_health_check=[HealthCheck.too_slow])
def test_any_value_anywhere_is_read_or_refused(path, value, drop, codec):
    document = copy.deepcopy(BASE)
    document["filters"][0].update(id=codec, dtype="<i4")
    if path[:1] == ("dtype",) and len(path) > 1:
        document.update(dtype=[["a", "<i4", [2]]], fill_value=None)
    target = document
    for key in path[:-1]:
        target = target[key]
    if drop and isinstance(target, dict):
        del target[path[-1]]
    else:
        target[path[-1]] = value
    metadata, error = _outcome(document)
    if metadata is not None:
        assert parse_array(array_documents(metadata)[".zarray"], {}, "") == metadata
    else:
        assert error.path == "v/.zarray"


def _outcome(document):
    try:
        return parse_array(document, {}, "v/.zarray"), None
    except NCZarrError as error:
        return None, error


@pytest.mark.parametrize(
    "dtype",
    [
        "<i3",
        "|O8",
        "<f16",
        "i4,f4",
        "S",
        "|S0",
        "<M8[fortnight]",
        [],
        [["a"]],
        [["a", "<i4"], ["a", "<i4"]],
        3,
        None,
    ],
)
def test_unknown_dtypes_are_refused(dtype):
    with pytest.raises(MetadataError, match="dtype"):
        parse(dtype=dtype)


def test_records_of_mixed_byte_order_are_unsupported():
    with pytest.raises(UnsupportedError, match="byte orders"):
        parse(dtype=[["a", "<i4"], ["b", ">i4"]], fill_value=None)


@pytest.mark.parametrize(
    "name", [p.name for p in sorted(ZARR_SAMPLES.glob("nczarr_v2*")) + sorted(ZARR_SAMPLES.glob("q_*"))]
)
def test_documents_of_netcdf_c_survive(name):
    hierarchy = open_hierarchy(open_store(ZARR_SAMPLES / name))
    assert hierarchy.layout == "v2"
    arrays = 0
    for path, metadata in hierarchy.nodes.items():
        documents = {key.rpartition("/")[2]: d for key, d in hierarchy.nodes.documents(path).items()}
        if isinstance(metadata, ArrayMetadata):
            arrays += 1
            written = array_documents(metadata)
        else:
            written = group_documents(metadata)
        documents = {key: d for key, d in documents.items() if d or key != ".zattrs"}
        assert written == documents
    assert arrays


def test_samples_of_the_keys_that_netcdf_c_puts_into_zarray():
    hierarchy = open_hierarchy(open_store(ZARR_SAMPLES / "nczarr_v2_4.8.1.zarr"))
    assert "_NCZARR_SUPERBLOCK" in hierarchy.nodes[""].extra
    assert hierarchy.nodes["v"].extra["_NCZARR_ARRAY"]["dimrefs"] == ["/x"]


@given(
    st.sampled_from(
        [
            ("bool", True),
            (">i4", -3),
            ("<f8", float("nan")),
            ("complex64", 1 - 2j),
            ("S5", b"ab"),
            ("U3", "é"),
            ("M8[s]", np.datetime64(7, "s")),
            ([("a", "<i4"), ("b", "S3")], None),
        ]
    ),
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4)), max_size=3),
    st.sampled_from("CF"),
    st.sampled_from("./"),
)
@settings(max_examples=40, deadline=None)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
def test_zarr_python_writes_what_we_read_and_reads_what_we_write(type_and_fill, dims, order, separator):
    zarr = pytest.importorskip("zarr")
    numcodecs = pytest.importorskip("numcodecs")
    memory = zarr.storage.MemoryStore()
    dtype, fill = type_and_fill
    theirs = zarr.create_array(
        memory,
        shape=tuple(n for n, _ in dims),
        chunks=tuple(c for _, c in dims),
        dtype=np.dtype(dtype),
        fill_value=fill,
        zarr_format=2,
        order=order,
        compressors=numcodecs.Zlib(level=1),
        chunk_key_encoding={"name": "v2", "separator": separator},
        attributes={"units": "m"},
    )
    store = MemoryStore()
    for key, value in memory._store_dict.items():
        store.set(key, value.to_bytes())
    metadata = open_hierarchy(store).nodes[""]
    assert metadata.data_type.dtype == np.dtype(dtype).newbyteorder("=")
    assert metadata.attributes == {"units": "m"}
    assert metadata.chunk_key_encoding.separator == separator
    if fill is None:
        assert metadata.fill_value is None
    else:
        expected = np.asarray(fill, metadata.dtype)
        assert np.asarray(metadata.fill_value, metadata.dtype).tobytes() == expected.tobytes()
    written = array_documents(dataclasses.replace(metadata, origin=None))
    back = zarr.storage.MemoryStore(
        {k: zarr.core.buffer.cpu.Buffer.from_bytes(json.dumps(d).encode()) for k, d in written.items()}
    )
    again = zarr.open_array(back, mode="r")
    ours, original = again.metadata.to_dict(), theirs.metadata.to_dict()
    if len(dims) < 2:  # the order of a single dimension says nothing
        ours["order"] = original["order"]
    assert ours == original or fill != fill

"""Zarr data types: names and fill values, JSON to memory and back."""

from __future__ import annotations

import base64
import math
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from rotation import examples

from nczarr.errors import MetadataError, NCZarrError, UnsupportedError
from nczarr.stores import MemoryStore
from nczarr.zarr import ArrayMetadata, create_hierarchy
from nczarr.zarr.grids import RegularGrid
from nczarr.zarr.types import data_type_for, parse_data_type

SIMPLE = [
    "bool",
    *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)),
    *("float16", "float32", "float64", "complex64", "complex128"),
]

json_types = st.recursive(
    st.sampled_from(SIMPLE)
    | st.integers(1, 9).map(lambda n: f"r{8 * n}")
    | st.builds(
        lambda name, n: {"name": name, "configuration": {"length_bytes": 4 * n}},
        st.sampled_from(["fixed_length_utf32", "null_terminated_bytes", "raw_bytes"]),
        st.integers(1, 5),
    )
    | st.builds(
        lambda name, unit, scale: {"name": name, "configuration": {"unit": unit, "scale_factor": scale}},
        st.sampled_from(["numpy.datetime64", "numpy.timedelta64"]),
        st.sampled_from(["Y", "M", "D", "s", "ms", "us", "ns"]),
        st.integers(1, 30),
    ),
    lambda inner: st.lists(inner, min_size=1, max_size=3).map(
        lambda types: {
            "name": "struct",
            "configuration": {"fields": [{"name": f"f{i}", "data_type": t} for i, t in enumerate(types)]},
        }
    ),
    max_leaves=5,
)


@given(json_types)
def test_names_and_configurations_survive(document):
    data_type = parse_data_type(document)
    assert data_type.to_json() == document
    assert data_type.dtype.isnative or data_type.dtype.names
    assert data_type.itemsize == data_type.dtype.itemsize


@given(json_types, st.data())
@settings(max_examples=examples(200))
def test_every_value_survives_json_to_the_bit(document, data):
    data_type = parse_data_type(document)
    size = data_type.itemsize
    raw = data.draw(st.binary(min_size=size, max_size=size))
    if "bool" in str(document):
        raw = bytes(b & 1 for b in raw)
    if "utf32" in str(document):  # any bytes are not text
        raw = bytes(size)
    value = np.frombuffer(raw, data_type.dtype)[0]
    text = data_type.fill_to_json(value)
    again = data_type.fill_from_json(text)
    assert np.asarray(again, data_type.dtype).tobytes() == np.asarray(value, data_type.dtype).tobytes()
    assert data_type.fill_to_json(again) == text or text != text


@given(st.sampled_from(["string", "bytes", "variable_length_bytes"]), st.text(max_size=20))
def test_variable_values_survive(name, text):
    data_type = parse_data_type(name)
    value = text if name == "string" else text.encode("utf-8", "surrogatepass")
    assert data_type.dtype == object
    assert data_type.itemsize is None
    assert data_type.fill_from_json(data_type.fill_to_json(value)) == value


@given(st.binary(min_size=4, max_size=4))
def test_float32_fill_values_follow_the_specification(raw):
    """Against an independent reading of the section *Fill value*: numbers, three names, or big-endian hex."""
    data_type = parse_data_type("float32")
    value = np.frombuffer(raw, "<f4")[0]
    (number,) = struct.unpack("<f", raw)
    if math.isnan(number):
        bits = "0x" + raw[::-1].hex()
        expected = "NaN" if bits == "0x7fc00000" else bits
    elif math.isinf(number):
        expected = "Infinity" if number > 0 else "-Infinity"
    else:
        expected = number
    assert data_type.fill_to_json(value) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("int8", 128),
        ("int8", -129),
        ("uint64", -1),
        ("uint64", 2**64),
        ("int32", 1.0),
        ("int32", True),
        ("int32", "1"),
        ("int32", None),
        ("int32", 10**4000),
        ("bool", 0),
        ("bool", "true"),
        ("float32", "nan"),
        ("float32", "0x7fc0"),
        ("float32", "0xZZZZZZZZ"),
        ("float32", 1e39),
        ("float32", True),
        ("float64", 10**400),
        ("float16", 70000),
        ("complex64", 1.0),
        ("complex64", [1.0]),
        ("complex64", [1.0, "x"]),
        ("string", 3),
        ("bytes", "not base64!"),
        ("bytes", [256]),
        ("bytes", [1.5]),
        ("r16", [1]),
        ("r16", [1, 256]),
        ("r16", 5),
        ({"name": "null_terminated_bytes", "configuration": {"length_bytes": 1}}, "YWI="),
        ({"name": "raw_bytes", "configuration": {"length_bytes": 3}}, "YWI="),
        ({"name": "fixed_length_utf32", "configuration": {"length_bytes": 4}}, "ab"),
        ({"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}}, "1970-01-01"),
        ({"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}}, 2**63),
        ({"name": "struct", "configuration": {"fields": [{"name": "a", "data_type": "int8"}]}}, {"b": 1}),
        ({"name": "struct", "configuration": {"fields": [{"name": "a", "data_type": "int8"}]}}, {"a": 300}),
        ({"name": "struct", "configuration": {"fields": [{"name": "a", "data_type": "int8"}]}}, "AAA="),
    ],
)
def test_wrong_fill_values_are_refused(name, value):
    with pytest.raises(MetadataError):
        parse_data_type(name).fill_from_json(value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("int8", 3.7),
        ("int8", np.int64(300)),
        ("uint8", -1),
        ("int32", float("nan")),
        ("int32", None),
        ("int32", [1]),
        ("float32", 1e39),
        ("float16", 70000),
        ("float64", "x"),
        ("string", None),
        ("bytes", "x"),
        ({"name": "null_terminated_bytes", "configuration": {"length_bytes": 1}}, b"ab"),
    ],
)
def test_values_are_not_changed_to_fit(name, value):
    with pytest.raises(MetadataError):
        parse_data_type(name).fill_to_json(value)


@pytest.mark.parametrize(
    "value",
    [
        None,
        3,
        [],
        "int7",
        "float128",
        "r0",
        "r7",
        "r99999999999",
        "r08",
        {},
        {"name": 3},
        {"name": "int8", "configuration": {"a": 1}},
        {"name": "int8", "must_understand": False},
        {"name": "int8", "unknown": 1},
        {"name": "raw_bytes"},
        {"name": "raw_bytes", "configuration": []},
        {"name": "raw_bytes", "configuration": {"length_bytes": 0}},
        {"name": "raw_bytes", "configuration": {"length_bytes": -4}},
        {"name": "raw_bytes", "configuration": {"length_bytes": 2**40}},
        {"name": "raw_bytes", "configuration": {"length_bytes": True}},
        {"name": "fixed_length_utf32", "configuration": {"length_bytes": 5}},
        {"name": "numpy.datetime64", "configuration": {"unit": "fortnight", "scale_factor": 1}},
        {"name": "numpy.datetime64", "configuration": {"unit": ["s"], "scale_factor": 1}},
        {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 0}},
        {"name": "struct", "configuration": {"fields": []}},
        {"name": "struct", "configuration": {"fields": [["a"]]}},
        {"name": "struct", "configuration": {"fields": [{"name": "", "data_type": "int8"}]}},
        {"name": "struct", "configuration": {"fields": [{"name": "a", "data_type": "string"}]}},
        {"name": "struct", "configuration": {"fields": [["a", "int8"], ["a", "int8"]]}},
        {"name": "struct", "configuration": {"fields": [["a", "r17179869176"], ["b", "r17179869176"]]}},
    ],
)
def test_wrong_data_types_are_refused(value):
    with pytest.raises(MetadataError):
        parse_data_type(value)


def test_the_message_has_the_path_inside_nested_records():
    inner = {"name": "struct", "configuration": {"fields": [{"name": "x", "data_type": "int7"}]}}
    outer = {
        "name": "struct",
        "configuration": {"fields": [{"name": "a", "data_type": "int8"}, ["b", inner]]},
    }
    with pytest.raises(
        MetadataError, match=r"configuration\.fields\[1\]\.data_type.*fields\[0\]\.data_type.*int7"
    ):
        parse_data_type(outer)


def test_legacy_structured_is_read_and_kept():
    document = {"name": "structured", "configuration": {"fields": [["a", "int32"], ["b", "float64"]]}}
    data_type = parse_data_type(document)
    assert data_type.to_json() == document
    raw = struct.pack("<id", 7, 2.5)
    fill = base64.b64encode(raw).decode()
    assert data_type.fill_from_json(fill).item() == (7, 2.5)
    assert data_type.fill_to_json(data_type.fill_from_json(fill)) == fill


scalar_dtypes = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(),
    hnp.unsigned_integer_dtypes(),
    hnp.floating_dtypes(sizes=(16, 32, 64)),
    hnp.complex_number_dtypes(sizes=(64, 128)),
    hnp.byte_string_dtypes(min_len=1, max_len=5),
    hnp.unicode_string_dtypes(min_len=1, max_len=5),
    hnp.datetime64_dtypes(max_period="Y", min_period="ns"),
    st.integers(1, 4).map(lambda n: np.dtype(f"V{n}")),
)


@given(scalar_dtypes | hnp.array_dtypes(scalar_dtypes, min_size=1, max_size=3, allow_subarrays=False))
def test_every_fixed_dtype_has_a_data_type_of_the_same_bytes(dtype):
    data_type = data_type_for(dtype)
    names = dtype.names  # without the titles that numpy allows beside names
    plain = (
        np.dtype([(name, dtype[name].newbyteorder("=")) for name in names])
        if names
        else dtype.newbyteorder("=")
    )
    assert data_type.dtype == plain
    for endian in ("little", "big"):
        stored = data_type.stored_dtype(endian)
        assert stored.itemsize == dtype.itemsize
        assert data_type_for(stored) == data_type
    assert parse_data_type(data_type.to_json()) == data_type


def test_dtypes_without_a_data_type():
    with pytest.raises(UnsupportedError, match="string"):
        data_type_for(object)
    for dtype in ("S0", "g", [("a", object)], "no such thing"):
        with pytest.raises(NCZarrError):
            data_type_for(np.dtype(dtype) if isinstance(dtype, list) else dtype)


def test_array_fields_have_no_v3_form():
    data_type = data_type_for(np.dtype([("a", "<i4", (2, 2))]))
    assert data_type.dtype.itemsize == 16
    with pytest.raises(UnsupportedError, match="array fields"):
        data_type.to_json()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("int32", True),
        ("int8", False),
        ("bool", False),
        ("r64", False),
        ("complex64", True),
        ("string", False),
    ],
)
def test_which_types_need_a_byte_order(name, expected):
    assert parse_data_type(name).needs_endian is expected


@given(json_types)
@settings(max_examples=60)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
def test_zarr_python_reads_the_same_data_type(document):
    """Where zarr-python knows a type, it has the same dtype (records: zarr-python 3.1 knows only the old name)."""
    zarr_dtype = pytest.importorskip("zarr.dtype")
    data_type = parse_data_type(document)
    if (isinstance(document, str) and document.startswith("r")) or "struct" in str(document):
        return
    theirs = zarr_dtype.parse_dtype(document, zarr_format=3)
    assert theirs.to_native_dtype() == data_type.dtype
    assert theirs.to_json(zarr_format=3) == document
    fill = data_type.fill_to_json(data_type.zero())
    assert theirs.to_json_scalar(theirs.default_scalar(), zarr_format=3) is not None
    assert (
        np.asarray(theirs.from_json_scalar(fill, zarr_format=3)).tobytes()
        == np.asarray(data_type.zero()).tobytes()
    )


@pytest.mark.parametrize("dtype", ["M8", "M8[s]", "m8[s]"])
def test_not_a_time_is_written_from_any_unit(dtype: str) -> None:
    fill = np.array("NaT", dtype)[()]
    metadata = ArrayMetadata((2,), data_type_for(np.dtype(dtype)), RegularGrid((2,)), fill_value=fill)
    array = create_hierarchy(MemoryStore()).put_array("t", metadata)
    array.write(..., np.array([3, "NaT"], f"{dtype[0]}8[D]"))
    assert np.isnat(array.read()).tolist() == [False, True]
    if dtype != "M8":
        with pytest.raises(UnsupportedError, match="would change"):
            array.write(..., np.array([1, 1_500], f"{dtype[0]}8[ms]"))

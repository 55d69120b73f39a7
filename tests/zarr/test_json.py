"""JSON within bounds."""

from __future__ import annotations

import json
import math
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nczarr.errors import MetadataError
from nczarr.zarr.documents import json as json_io
from nczarr.zarr.documents.json import dump_json, parse_json, parse_object
from nczarr.zarr.limits import LIMITS

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_what_is_written_is_read(value):
    assert parse_json(dump_json(value), "d") == value


@given(values)
def test_the_standard_library_agrees(value):
    assert json.loads(dump_json(value)) == value


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("depth", [LIMITS.document_depth + 1, 10_000, 1_000_000])
def test_deep_documents_are_refused(opening, depth):
    closing = "]" if opening == "[" else "}"
    text = opening * depth + "1" + closing * depth
    with pytest.raises(MetadataError, match="deeper") as caught:
        parse_json(text.encode(), "a/zarr.json")
    assert caught.value.path == "a/zarr.json"


def test_depth_counts_structure_and_not_strings():
    text = json.dumps({"a": "[" * 1000 + '"\\', "b": [[1]]})
    assert parse_json(text.encode(), "d")["b"] == [[1]]
    nested: object = 1
    for _ in range(LIMITS.document_depth):
        nested = [nested]
    assert parse_json(dump_json(nested), "d") == nested


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"{'a': 1}",
        b"nope",
        b'{"a": 1,}',
        b"[1] 2",
        b'{"a": ' + b"1" * 5000 + b"}",
        b'"\xe9"',
    ],
)
def test_what_is_not_json_is_refused_with_its_place(data):
    with pytest.raises(MetadataError) as caught:
        parse_json(data, "a/zarr.json")
    assert caught.value.path == "a/zarr.json"


def test_duplicate_names():
    with pytest.raises(MetadataError, match="'a' occurs twice"):
        parse_json(b'{"x": {"a": 1, "b": 2, "a": 1}}', "d")
    assert parse_json(b'{"a": 1, "a": 2}', "d", lenient=True) == {"a": 2}


def test_objects_only():
    for data in (b"[]", b"3", b'"x"', b"null"):
        with pytest.raises(MetadataError, match="not a JSON object"):
            parse_object(data, "d")


def test_size_limit(monkeypatch):
    monkeypatch.setattr(LIMITS, "document_bytes", 10)
    with pytest.raises(MetadataError, match="limit"):
        parse_json(b"[" + b" " * 20 + b"]", "d")


def test_quirks_of_netcdf_c():
    document = rb"""{"a": "it\'s", "b": "back\\'slash\\\\", "c": NaN, "d": -Infinity}"""
    value = parse_json(document, "d", lenient=True)
    assert value["a"] == "it's"
    assert value["b"] == "back\\'slash\\\\"
    assert math.isnan(value["c"])
    assert value["d"] == -math.inf
    with pytest.raises(MetadataError):
        parse_json(rb'{"a": "it\'s"}', "d")


def test_writing_never_gives_bare_tokens():
    value = {
        "a": [math.nan, math.inf, -math.inf, 1.5],
        "b": np.float32("nan"),
        "c": np.array([1.0, math.inf]),
    }
    text = dump_json(value).decode()
    assert json.loads(text, parse_constant=lambda token: pytest.fail(token)) == {
        "a": ["NaN", "Infinity", "-Infinity", 1.5],
        "b": "NaN",
        "c": [1.0, "Infinity"],
    }


def test_text_is_raw_utf8_unless_it_cannot_be():
    assert dump_json("é€😀") == '"é€😀"'.encode()
    assert parse_json(dump_json("a\udcff"), "d") == "a\udcff"


def test_values_that_json_cannot_hold():
    with pytest.raises(MetadataError):
        dump_json({"a": object()})
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(MetadataError):
        dump_json(loop)


def test_large_documents_are_not_searched_for_duplicates():
    text = '{"a": 1, "b": "' + "x" * json_io.MAX_CHECKED + '", "a": 2}'
    assert parse_json(text.encode(), "d")["a"] == 2


TEXTS = [
    b"18446744073709551615", b"18446744073709551616", b"-9223372036854775808", b"-9999999999999999999",
    b"[1e400, -1e400, -0, -0.0, NaN, Infinity]", b'"\\ud800"', b'"\\u0000"', b"\xef\xbb\xbf[1]", b'{"a": 1, "a": 2}',
    b"9007199254740993", b"[9007199254740993.0, 1e-999, 5e-324]", b"1" + b"0" * 400, b'"\\udc00\\ud800"',
    b"0.12345678901234567890123", b"[" * 199 + b"]" * 199, b'"12345678901234567890"',
]  # fmt: skip


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("text", TEXTS)
def test_large_documents_by_either_library(text, fast, monkeypatch):
    monkeypatch.setattr(json_io, "MAX_CHECKED", 0)
    if not fast:
        monkeypatch.setattr(json_io, "optional_module", lambda name: None)
    # repr tells 1 from 1.0, and finds NaN equal.
    assert repr(parse_json(text, "x")) == repr(json.loads(text.decode("utf-8-sig")))


@given(values | st.integers(-(2**80), 2**80) | st.floats(), st.booleans())
@example(2**64, True)
@example([-(2**63) - 1, 2**53 + 1], False)
@example("\ud800", True)
def test_the_fast_library_agrees(value, ascii_only):
    text = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "backslashreplace")
    with mock.patch.object(json_io, "MAX_CHECKED", 0):
        assert repr(parse_json(text, "x")) == repr(json.loads(text))


@given(st.text("0123456789+-.eE", min_size=1, max_size=25))
def test_the_fast_library_agrees_on_numbers(text):
    """Both take the same numbers, and for the same values."""
    try:
        expected = repr(json.loads(text))
    except ValueError:
        expected = "refused"
    try:
        with mock.patch.object(json_io, "MAX_CHECKED", 0):
            found = repr(parse_json(text.encode(), "x"))
    except MetadataError:
        found = "refused"
    assert found == expected


@pytest.mark.parametrize("text", [b"", b"{", b"[1,]", b'"\xff"', b"[" * 300 + b"]" * 300, b"9" * 5000])
def test_faults_of_large_documents(text, monkeypatch):
    with pytest.raises(MetadataError) as small:
        parse_json(text, "x/zarr.json")
    monkeypatch.setattr(json_io, "MAX_CHECKED", 0)
    with pytest.raises(MetadataError) as large:
        parse_json(text, "x/zarr.json")
    assert str(large.value) == str(small.value)

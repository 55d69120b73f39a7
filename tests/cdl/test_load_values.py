"""Compare runs of numbers with a slow, obvious reader; test unlimited dimensions, text and missing data."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import netCDF4
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rotation import examples

from nczarr.cdl import loads
from nczarr.cdl.syntax.source import CDLWarning
from nczarr.errors import CDLError
from nczarr.model import PRIMITIVES, Filter, Storage

INTEGERS = [t.name for t in PRIMITIVES.values() if t.is_integer]


def values(text: str, name: str = "v") -> np.ndarray:
    dataset = loads("netcdf a {" + text + "}")
    variable = dataset.variable_at("/" + name)
    assert variable.data is not None
    shape = dataset.shape_of(variable)
    assert variable.data.shape == shape
    return variable.data.read(tuple(slice(0, n) for n in shape))


@pytest.mark.slow
@settings(max_examples=examples(100), deadline=None)
@given(
    st.sampled_from(INTEGERS),
    st.lists(st.none() | st.integers(-(2**63), 2**64 - 1) | st.integers(-300, 300), min_size=1, max_size=30),
    st.sampled_from([", ", ",", ",\n    ", ",\t"]),
)
def test_integer_runs_wrap_as_in_c(type_: str, numbers: list[int | None], separator: str) -> None:
    text = separator.join("_" if n is None else str(n) for n in numbers)
    found = values(
        f"dimensions: x = {len(numbers)}; variables: {type_} v(x); v:_FillValue = 7; data: v = {text};"
    )
    dtype = PRIMITIVES[type_].dtype
    bits = 8 * dtype.itemsize
    slow = []
    for n in numbers:
        wrapped = (7 if n is None else n) % (1 << bits)
        slow.append(wrapped - (1 << bits) if dtype.kind == "i" and wrapped >= 1 << (bits - 1) else wrapped)
    assert found.tolist() == slow
    assert found.dtype == dtype


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.just(None), min_size=1, max_size=30))
def test_float_runs_are_exact(numbers: list[float | None]) -> None:
    text = ", ".join("_" if n is None else repr(n) for n in numbers)
    found = values(f"dimensions: x = {len(numbers)}; variables: double v(x); data: v = {text};")
    slow = [9.969209968386869e36 if n is None else n for n in numbers]
    assert found.tobytes() == np.array(slow).tobytes()


def test_long_runs_in_several_blocks() -> None:
    numbers = np.random.default_rng(1).integers(-(10**9), 10**9, 100_000)
    text = ", ".join("_" if n % 7 == 0 else str(n) for n in numbers.tolist())
    found = values(f"dimensions: x = {len(numbers)}; variables: int v(x); data: v = {text};")
    assert found.tolist() == np.where(numbers % 7 == 0, -2147483647, numbers).tolist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1, 017, 0x1F, 3", [1, 15, 31, 3]),
        ("1, 2s, 3LL, 'a'", [1, 2, 3, 97]),
        ("1.9, -1.9, 1e2, .5", [1, -1, 100, 0]),
        ('"12", "x", 1, _', [12, 0, 1, -2147483647]),
        ("1 , 2, // comment\n 3 /* , 9 */, 4", [1, 2, 3, 4]),
        ("1, 2", [1, 2, -2147483647, -2147483647]),
        (", 1, 2, 3, 4", [1, 2, 3, 4]),
    ],
)
def test_constants_among_integers(text: str, expected: list[int]) -> None:
    assert values(f"dimensions: x = 4; variables: int v(x); data: v = {text};").tolist() == expected


def test_too_many_numbers_are_cut_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="<cdl>:1:65: 3 values for the 2 elements of 'v'"):
        found = values("dimensions: x = 2; variables: int v(x); data:     v = 1, 2, 3;")
    assert found.tolist() == [1, 2]


def test_special_floats() -> None:
    found = values(
        "dimensions: x = 6; variables: double v(x); data: v = NaN, nanf, Infinity, -Infinityf, 1e999, -0.;"
    )
    assert math.isnan(found[0])
    assert math.isnan(found[1])
    assert found[2:5].tolist() == [math.inf, -math.inf, math.inf]
    assert math.copysign(1, found[5]) == -1


@pytest.mark.parametrize(
    ("dimensions", "text", "shape", "expected"),
    [
        ("u", "1, 2, 3", (3,), [1, 2, 3]),
        ("u, x", "1, 2, 3", (2, 2), [[1, 2], [3, -127]]),
        ("x, u", "{1}, {2, 3}", (2, 2), [[1, -127], [2, 3]]),
        ("u, w", "{1, 2}, {3}, {4, 5, 6}", (3, 3), [[1, 2, -127], [3, -127, -127], [4, 5, 6]]),
        ("u, w, z", "{{1, 2}, {3}}, {{4}}", (2, 2, 2), [[[1, 2], [3, -127]], [[4, -127], [-127, -127]]]),
        ("u, x, w", "{1}, {2, 3}, {4}, {5}", (2, 2, 2), [[[1, -127], [2, 3]], [[4, -127], [5, -127]]]),
    ],
)
def test_unlimited_dimensions(dimensions: str, text: str, shape: tuple[int, ...], expected: list) -> None:
    found = values(
        f"dimensions: x = 2; u = unlimited; w = unlimited; z = 0; variables: byte v({dimensions}); data: v = {text};"
    )
    assert found.shape == shape
    assert found.tolist() == expected


@pytest.mark.parametrize(
    ("dimensions", "text", "expected"),
    [
        ("n", '"ab"', b"ab\0\0"),
        ("n", "'a', \"b\", 'c', 'd'", b"abcd"),
        ("x, n", '"ab", ""', b"ab\0\0\0\0\0\0"),
        ("x, n", '"abcdef"', b"abcdef\0\0"),
        ("x, n", '{"ab"}, {"cd"}', b"ab\0\0cd\0\0"),
        ("u, n", '"a", "bcde", "f"', b"a\0\0\0bcdef\0\0\0"),
        ("u", '"abc"', b"abc"),
        ("x, u", '{"ab"}, {"c"}', b"abc\0"),
    ],
)
def test_text(dimensions: str, text: str, expected: bytes) -> None:
    found = values(
        f"dimensions: n = 4; x = 2; u = unlimited; variables: char v({dimensions}); data: v = {text};"
    )
    assert found.tobytes() == expected


def test_lengths_come_from_all_variables() -> None:
    text = "dimensions: u = unlimited; variables: int v(u), w(u), x(u); v:_FillValue = 1; data: v = 3; w = 1, 2, 3;"
    assert values(text).tolist() == [3, 1, 1]
    assert values(text, "x").tolist() == [-2147483647] * 3


def test_where_ncgen_has_other_values() -> None:
    """As the table of differences says."""
    (attribute,) = loads("netcdf a { :a = -1b, 7s ; }").attributes
    assert (attribute.type.name, attribute.values.tolist()) == ("short", [-1, 7])
    for fill in ("'q'", '"q"'):
        text = f'dimensions: n = 3; variables: char v(n); v:_FillValue = {fill}; data: v = "d";'
        assert values(text).tobytes() == b"dqq"
    with pytest.raises(CDLError, match="three digits"):
        loads("netcdf a { :a = '\\0' ; }")


def test_special_attributes() -> None:
    dataset = loads(
        """netcdf a { dimensions: x = 8; variables: short v(x);
        v:_ChunkSizes = 4; v:_Shuffle = "true"; v:_DeflateLevel = 5; v:_Fletcher32 = 1; v:_Endianness = "big";
        v:_NoFill = "false"; v:_QuantizeBitRoundNumberOfSignificantDigits = 3; :_Format = "nc4"; }"""
    )
    variable = dataset.variables[0]
    assert isinstance(variable.storage, Storage)
    assert variable.storage.layout == "chunked"
    assert variable.storage.chunk_shape == (4,)
    assert [f.id for f in variable.storage.filters] == [2, 1, 3]
    assert variable.storage.filters[1].parameters == (5,)
    assert variable.storage.endian == "big"
    assert not variable.storage.no_fill
    assert dataset.format == "netCDF-4"
    assert [a.name for a in variable.attributes] == ["_QuantizeBitRoundNumberOfSignificantBits"]


@pytest.mark.parametrize(
    ("specials", "chunks", "shards"),
    [
        ("v:_ChunkSizes = 2, 5; v:_ShardSizes = 4, 10;", (2, 5), (4, 10)),
        ("v:_ShardSizes = 4, 10;", None, (4, 10)),
        ('v:_ChunkSizes = 2, 5; v:_ShardSizes = "auto";', (2, 5), (2048, 10)),
        ('v:_ShardSizes = "auto";', None, (1_675_264, 10)),
        ('x:_ShardSizes = "auto"; v:_Storage = "chunked";', None, None),
    ],
)
def test_shards(specials: str, chunks: tuple[int, ...] | None, shards: tuple[int, ...] | None) -> None:
    text = f"netcdf a {{ dimensions: t = unlimited; x = 10; variables: int v(t, x); int x(x); {specials} }}"
    found = loads(text).variable_at("/v").storage
    assert found == Storage("chunked", chunks, shard_shape=shards)


@pytest.mark.parametrize(
    ("specials", "problem"),
    [
        ("v:_ShardSizes = 4;", "1 shard sizes for 2 dimensions"),
        ("v:_ShardSizes = 4, 0;", "not positive"),
        ("v:_ChunkSizes = 2, 5; v:_ShardSizes = 4, 9;", "whole chunks"),
        ('v:_Storage = "contiguous"; v:_ShardSizes = 4, 8;', "no shards"),
        ('v:_ShardSizes = "large";', "plain integers"),
        ("v:_ShardSizes = 4.5, 8;", "plain integers"),
        ("s:_ShardSizes = 4;", "1 shard sizes for 0 dimensions"),
    ],
)
def test_what_is_no_shard_has_a_place(specials: str, problem: str) -> None:
    with pytest.raises(CDLError, match=problem) as error:
        loads(f"netcdf a {{ dimensions: t = 4; x = 10; variables: int v(t, x), s;\n {specials} }}")
    assert "2:" in str(error.value)


def test_parameters_of_filters_may_be_negative() -> None:
    """A negative level of zstd, as ncgen takes it: its 32 bits stand in the file."""
    text = 'dimensions: x = 4; variables: int v(x); v:_ChunkSizes = 4; v:_Filter = "32015,-5|307,9";'
    filters = loads(f"netcdf a {{ {text} }}").variables[0].storage.filters
    assert filters == (Filter(32015, ((1 << 32) - 5,)), Filter(307, (9,)))


def test_importing_does_not_import_lark() -> None:
    code = (
        "import sys, nczarr.cdl; print('lark' in sys.modules); nczarr.cdl.loads; print('lark' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False", "True"]


CHANGED = [
    ("byte", "200", -56),
    ("byte", "1, 2, -129", 127),
    ("byte", "2.7", 2),
    ("byte", '"abc"', 0),
    ("ubyte", "-1", 255),
    ("short", "70000", 4464),
    ("int", "2.7", 2),
    ("int", "3000000000", -1294967296),
    ("int", '"abc"', 0),
    ("uint", "-1", 4294967295),
    ("int64", "2.5", 2),
    ("float", "1, 1e39", np.inf),
    ("double", '"abc"', 0.0),
]


@pytest.mark.parametrize(("type_", "text", "stored"), CHANGED)
def test_a_warning_names_what_the_type_changes(type_: str, text: str, stored: float, tmp_path: Path) -> None:
    """The tool ncgen stores the same without a word."""
    count = text.count(",") + 1
    source = f"netcdf t {{ dimensions: x = {count}; variables:\n{type_} v(x);\ndata: v = {text}; }}"
    last = text.split(",")[-1].strip()
    with pytest.warns(
        CDLWarning, match=rf"<cdl>:3:\d+: {re.escape(last)} becomes .*the type is {type_}$"
    ) as found:
        values = loads(source).variables[0].data.read((slice(0, count),))
    assert len(found) == 1
    assert values[-1] == stored
    if shutil.which("ncgen"):
        (tmp_path / "t.cdl").write_text(source)
        subprocess.run(["ncgen", "-4", "-o", tmp_path / "t.nc", tmp_path / "t.cdl"], check=True)
        with netCDF4.Dataset(tmp_path / "t.nc") as ds:
            ds.set_auto_mask(False)
            assert ds["v"][-1] == stored


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("byte", "'a', 97, 97b, -128"),
        ("int", '"12", 0x7f, 2.0'),
        ("float", "0.1, 1e38, NaN, Infinity, 1e-50"),
        ("uint64", "18446744073709551615"),
    ],
)
def test_what_the_type_has_needs_no_warning(type_: str, text: str) -> None:
    count = text.count(",") + 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loads(f"netcdf t {{ dimensions: x = {count}; variables: {type_} v(x); data: v = {text}; }}")


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (
            "types: int(*) s; dimensions: x = 3; variables: s v(x); data: v = {2.7}, {3.1}, {4.5};",
            "2.7 becomes 2",
        ),
        (
            "types: compound c { int i; }; dimensions: x = 3; variables: c v(x); data: v = {2.7}, {3.1}, {4.5};",
            "2.7 becomes 2",
        ),
        (
            "types: ubyte enum e { a = 0 }; dimensions: x = 3; variables: e v(x); data: v = 7, 8, 9;",
            "7 is no member of the enum",
        ),
        ("dimensions: x = 3; variables: byte v(x); data: v = 200, 201, 202;", "200 becomes -56"),
        ("dimensions: x = 3; variables: byte v(x); byte v:a = 200, 201;", "200 becomes -56"),
    ],
)
def test_a_variable_or_an_attribute_gets_one_warning(text: str, first: str) -> None:
    """A warning for each of a million values would fill the memory, and hide the others."""
    with pytest.warns(CDLWarning, match=first) as found:
        loads(f"netcdf a {{ {text} }}")
    assert len(found) == 1


def test_each_variable_and_each_attribute_has_its_own_warning() -> None:
    text = "dimensions: x = 2; variables: int u(x); int v(x); byte u:a = 200; byte u:b = 201; "
    text += "data: u = 2.7, 1; v = 3.5, 1;"
    with pytest.warns(CDLWarning) as found:
        loads(f"netcdf a {{ {text} }}")
    assert len(found) == 4


@pytest.mark.parametrize("numbers", ["18446744073709551615, 1ll", "1ll, 18446744073709551615"])
def test_a_number_beyond_int64_makes_an_attribute_unsigned(numbers: str) -> None:
    """By the length alone both types are alike, and the number would become -1."""
    values = loads(f"netcdf t {{ :a = {numbers} ; :b = 5000000000, 1ll ; }}").attributes
    assert values[0].type.name == "uint64"
    assert sorted(values[0].values.tolist()) == [1, 2**64 - 1]
    assert values[1].type.name == "int64"


@pytest.mark.parametrize("number", ["300", "1.5"])
def test_a_number_among_characters_is_left_out_with_a_warning(number: str) -> None:
    text = f'netcdf t {{ dimensions: x = 3; variables: char c(x); data: c = "a", {number}, "b"; }}'
    with pytest.warns(
        CDLWarning, match=r"<cdl>:1:\d+: a number in the char data of 'c' is left out"
    ) as found:
        dataset = loads(text)
    assert len(found) == 1
    data = dataset.variable_at("/c").data
    assert data is not None
    assert data.read((slice(0, 3),)).tolist() == [b"a", b"b", b""]

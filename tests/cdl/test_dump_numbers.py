"""Compare runs of numbers as text with C's formats, one number at a time, and read them back to the bit."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from rotation import examples

from nczarr.cdl.write.data import ROW_END, Folder, WrappedLines
from nczarr.cdl.write.numbers import (
    Columns,
    attribute_number,
    float_columns,
    float_text,
    integer_columns,
)

_CODES = "bBhHiIqQ"


def _texts(columns: Columns) -> list[str]:
    columns[:, -1] = ord(" ")
    return columns.tobytes().translate(None, b"\0").decode().split()


def _hard_floats(dtype: type) -> np.ndarray:
    """Every order of magnitude, powers of ten and two, ties, random bits, and the numbers that are none."""
    random = np.random.default_rng(1)
    limits = np.finfo(dtype)
    tens = np.arange(np.log10(limits.tiny) + 1, np.log10(limits.max)).astype(int)
    bits = random.integers(0, 256, 4000 * np.dtype(dtype).itemsize, dtype="u1").view(dtype)
    with np.errstate(all="ignore"):
        parts = [
            10.0 ** random.uniform(tens[0], tens[-1], 4000),
            [float(f"1e{k}") for k in tens],
            np.nextafter(np.array([float(f"1e{k}") for k in tens], dtype), dtype(0)),
            2.0 ** np.arange(limits.minexp, limits.maxexp),
            random.integers(-(10**6), 10**6, 1000) + 0.5,
            random.integers(0, 10**17, 2000),
            np.round(random.normal(0, 100, 2000), 2),
            random.normal(280, 15, 2000),
            [0.0, -0.0, np.nan, np.inf, -np.inf, 9.9999999, 99999.995, 1e-4, 9.99999e-5, 123456.5, 999999.95],
        ]
        return np.concatenate([np.asarray(p, dtype) for p in parts] + [bits])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("digits", [1, 3, 7, 9, 15, 17, 20])
def test_floats_are_what_printf_says(dtype: type, digits: int) -> None:
    values = _hard_floats(dtype)
    assert _texts(float_columns(values, digits, False, 1)) == [float_text(v, digits, False) for v in values]


@pytest.mark.parametrize(("dtype", "digits"), [(np.float32, 7), (np.float64, 15)])
def test_exact_floats_read_back_to_the_bit(dtype: type, digits: int) -> None:
    values = _hard_floats(dtype)
    texts = _texts(float_columns(values, digits, True, 1))
    assert texts == [float_text(v, digits, True) for v in values]
    finite = np.isfinite(values)
    back = np.array([dtype(t) for t, f in zip(texts, finite, strict=True) if f])
    assert back.tobytes() == values[finite].tobytes()


@pytest.mark.parametrize(("dtype", "digits"), [(np.float32, 7), (np.float64, 15)])
def test_exact_floats_have_no_more_digits_than_needed(dtype: type, digits: int) -> None:
    for value in _hard_floats(dtype)[::40]:
        text = float_text(value, digits, True)
        if np.isfinite(value) and text != f"{float(value):.{digits}g}" and text != "-0.":
            used = len(text.partition("e")[0].replace(".", "").lstrip("-0"))
            assert dtype(f"{float(value):.{used - 1}g}") != value


@given(hnp.arrays(hnp.floating_dtypes(sizes=(32, 64), endianness="="), st.integers(1, 30)))
@settings(max_examples=60, deadline=None)
def test_any_array_of_floats(values: np.ndarray) -> None:
    digits = 7 if values.dtype.itemsize == 4 else 15
    for exact in (True, False):
        expected = [float_text(v, digits, exact) for v in values]
        assert _texts(float_columns(values, digits, exact, 1)) == expected


@given(st.sampled_from(_CODES).flatmap(lambda code: hnp.arrays(code, st.integers(1, 30))))
@settings(max_examples=examples(100), deadline=None)
def test_any_array_of_integers(values: np.ndarray) -> None:
    assert _texts(integer_columns(values, 1)) == [str(v) for v in values.tolist()]


@pytest.mark.parametrize("code", _CODES)
def test_ends_of_the_integer_ranges(code: str) -> None:
    limits = np.iinfo(code)
    values = np.array([limits.min, limits.max, 0, 9, 10, 99, 100], code)
    assert _texts(integer_columns(values, 1)) == [str(v) for v in values.tolist()]


def test_attribute_numbers_have_the_suffix_of_their_type() -> None:
    cases = [("byte", np.int8(-1), "-1b"), ("ubyte", np.uint8(1), "1UB"), ("int64", np.int64(5), "5LL")]
    cases += [("float", np.float32(2.5e-7), "2.5e-07f"), ("double", np.float64(-0.0), "-0.")]  # type: ignore[list-item]
    cases += [("float", np.float32("nan"), "NaNf"), ("double", np.float64("-inf"), "-Infinity")]  # type: ignore[list-item]
    for name, value, text in cases:
        assert attribute_number(value, name, 7, True) == text


@given(
    st.integers(1, 12).flatmap(
        lambda n: st.lists(st.lists(st.integers(1, 14), min_size=n, max_size=n), min_size=1, max_size=5)
    ),
    st.integers(10, 40),
    st.sampled_from([0, 2, 4, 12]),
    st.one_of(st.none(), st.integers(2, 45)),
    st.integers(1, 9),
)
@settings(max_examples=examples(300), deadline=None)
def test_runs_fold_as_single_items_do(
    sizes: list[list[int]], length: int, indent: int, position: int | None, step: int
) -> None:
    rows = [["7" * n for n in row] for row in (sizes if position is None else sizes[:1])]
    slow = io.StringIO()
    line = WrappedLines(slow, length, indent)
    line.position = 2 + indent if position is None else position
    slow.write("  " if position is None else "")
    for i, row in enumerate(rows):
        for item in row[:-1]:
            line.put(item + ", ")
        line.put(row[-1])
        for end in (",\n", "  ") if i < len(rows) - 1 else ():
            line.put(end)
    fast = io.StringIO()
    folder = Folder(fast, length, indent, position)
    items = [
        i.encode() + (ROW_END if k == len(row) - 1 else b", ") for row in rows for k, i in enumerate(row)
    ]
    while len(items) > step:
        folder.feed(b"".join(items[:step]))
        items = items[step:]
    folder.finish(b"".join(items))
    assert fast.getvalue() == slow.getvalue()

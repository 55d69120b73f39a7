"""Test the rule for chunk lengths that variables share."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczarr.model.chunk_shapes import TARGET, misfit
from nczarr.model.common_chunks import LARGEST, ChunkWish, StepUnit, Units, aligned, common_chunks

SIZES = st.dictionaries(
    st.sampled_from(["/time", "/y", "/x", "/g/z", "/band"]), st.integers(1, 20_000), min_size=2, max_size=5
)


@st.composite
def wishes(draw: st.DrawFn) -> list[ChunkWish]:
    """Draw variables on common dimensions, some of them with chunks that suit them."""
    sizes, found = draw(SIZES), dict[str, ChunkWish]()
    growing = draw(st.sets(st.sampled_from(sorted(sizes)), max_size=2))
    for number in range(draw(st.integers(1, 6))):
        dimensions = draw(st.lists(st.sampled_from(sorted(sizes)), min_size=1, max_size=4))
        shape = [0 if d in growing else sizes[d] for d in dimensions]
        itemsize = draw(st.sampled_from([1, 2, 4, 8, 64]))
        fqn = dimensions[0] if draw(st.booleans()) and len(dimensions) == 1 else f"/v{number}"
        wish = ChunkWish.of(fqn, dimensions, shape, [d in growing for d in dimensions], itemsize)
        if draw(st.booleans()):
            alone = tuple(draw(st.integers(1, n or 5000)) for n in shape)
            wish = ChunkWish(fqn, tuple(dimensions), tuple(shape), itemsize, alone, (None,) * len(shape))
        found[fqn] = wish
    return list(found.values())


@pytest.mark.slow
@given(wishes(), st.dictionaries(st.sampled_from(["/time", "/y"]), st.integers(1, 400)))
def test_each_dimension_has_one_length(found: list[ChunkWish], files: dict[str, int]) -> None:
    units = Units({d: StepUnit(n, "file") for d, n in files.items()}, lambda _: [StepUnit(24, "day")])
    common = common_chunks(found, units)
    lengths: dict[object, set[int]] = {}
    for wish in found:
        chunks = common.shapes[wish.fqn]
        assert all(c >= 1 for c in chunks)
        if wish.is_index:
            assert chunks == wish.alone
            continue
        for axis, length in zip(wish.axes, chunks, strict=True):
            lengths.setdefault(axis, set()).add(length)
        # No variable gets larger chunks than it would have alone, unless these are small.
        assert wish.bytes(chunks) <= max(wish.bytes(wish.alone), 2 * TARGET)
    assert all(len(each) == 1 for each in lengths.values())
    assert {(c.dimension, 0): {c.length} for c in common.lengths} == {
        a: n for a, n in lengths.items() if not a[1]
    }


@pytest.mark.slow
@given(wishes())
def test_shards_make_as_few_objects_as_chunks_of_ones_own(found: list[ChunkWish]) -> None:
    common = common_chunks(found)
    for wish in found:
        chunks = common.shapes[wish.fqn]
        shards = wish.shards(chunks)
        if shards is None:
            assert wish.bytes(wish.alone) <= 1.2 * wish.bytes(chunks) or 0 in wish.shape or shards == chunks
            continue
        assert misfit(shards, chunks) is None
        assert wish.bytes(shards) < wish.bytes(wish.alone) + wish.bytes(chunks)


@given(st.integers(1, 100_000), st.lists(st.integers(1, 10_000), max_size=3))
def test_a_length_has_whole_units_or_divides_one(length: int, steps: list[int]) -> None:
    found, reason = aligned(length, [StepUnit(n, f"u{n}") for n in steps])
    assert length / 2 <= found <= length
    assert (reason is None) <= (found == length)
    if reason is not None:
        assert any(found % n == 0 or n % found == 0 for n in steps)


def test_a_length_of_files_comes_before_one_of_days_of_as_many_steps() -> None:
    assert aligned(27, [StepUnit(4, "day"), StepUnit(4, "file")]) == (24, "6 files × 4 steps")


def test_lengths_that_are_given_are_left_out_where_they_make_huge_chunks() -> None:
    large = ChunkWish.of("/v", ("/t", "/x"), (5000, 40_000), (False, False), 4)
    small = ChunkWish.of("/s", ("/t",), (5000,), (False,), 4, (5000,))
    shapes = common_chunks([small, large]).shapes
    assert math.prod(shapes["/v"]) * 4 <= LARGEST
    assert shapes == {"/s": (5000,), "/v": large.alone}

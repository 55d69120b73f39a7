"""Test selections that callers normalise once and pass to an array."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczarr.errors import SelectionError
from nczarr.stores import MemoryStore
from nczarr.zarr import Array, ArrayMetadata, RegularGrid, Selection, data_type_for

SHAPE = (7, 5, 3)
VALUES = np.arange(np.prod(SHAPE), dtype="int32").reshape(SHAPE)


def array() -> Array:
    metadata = ArrayMetadata(SHAPE, data_type_for("int32"), RegularGrid((3, 2, 2)), fill_value=np.int32(0))
    result = Array(MemoryStore(), "v", metadata)
    result.write(..., VALUES)
    return result


def axis(size: int) -> st.SearchStrategy[int | range | np.ndarray]:
    place = st.integers(0, size - 1)
    ranges = st.slices(size).map(lambda s: range(*s.indices(size)))
    return place | ranges | st.lists(place, max_size=6).map(lambda places: np.array(places, np.intp))


AXES = st.tuples(*map(axis, SHAPE))


def expected(axes: tuple[int | range | np.ndarray, ...], values: np.ndarray) -> np.ndarray:
    lists = [[a] if isinstance(a, int) else list(a) for a in axes]
    kept = tuple(len(a) for a in axes if not isinstance(a, int))
    return values[np.ix_(*[np.array(item, np.intp) for item in lists])].reshape(kept)


@given(AXES)
def test_read(axes: tuple[int | range | np.ndarray, ...]) -> None:
    selection = Selection.of(axes)
    result = array().read(selection)
    np.testing.assert_array_equal(result, expected(axes, VALUES))
    assert result.shape == selection.shape


@given(AXES)
def test_write(axes: tuple[int | range | np.ndarray, ...]) -> None:
    some = array()
    selection = Selection.of(axes)
    some.write(selection, 1000)
    lists = [[a] if isinstance(a, int) else list(a) for a in axes]
    changed = VALUES.copy()
    changed[np.ix_(*[np.array(item, np.intp) for item in lists])] = 1000
    np.testing.assert_array_equal(some.read(), changed)


def test_further_dimensions() -> None:
    selection = Selection.of([2, range(4, -1, -2)]).followed_by((3,))
    np.testing.assert_array_equal(array().read(selection), VALUES[2, ::-2])


@pytest.mark.parametrize("axes", [[range(8), 0, 0], [0, np.array([1, 5]), 0], [0, 0, 3], [0, 0]])
def test_places_outside_are_refused(axes: list[int | range | np.ndarray]) -> None:
    with pytest.raises(SelectionError, match="outside the shape"):
        array().read(Selection.of(axes))

"""Node names, chunk grids and chunk keys."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczarr.errors import MetadataError, NCZarrError
from nczarr.stores import MemoryStore
from nczarr.zarr.chunk_keys import ChunkKeyEncoding, parse_chunk_key_encoding
from nczarr.zarr.grids import RectilinearGrid, RegularGrid, parse_chunk_grid, parse_shape
from nczarr.zarr.names import check_name, check_path, check_siblings

names = st.text(alphabet=st.sampled_from("a. _-/Z9é\0\udc80~"), max_size=6) | st.sampled_from(
    ["zarr.json", "..", ".", "__x", ".zarray", "...", "a..b"]
)


@given(names)
def test_v3_names_against_the_rules(name):
    legal = (
        name != ""
        and not set(name) & {"/", "\0", "\udc80"}
        and set(name) != {"."}
        and not name.startswith("__")
        and name != "zarr.json"
    )
    assert (check_name(name) is None) == legal


@given(names | st.just("a" * 255) | st.just("a" * 256))
def test_draft_names_against_a_regular_expression(name):
    legal = re.fullmatch(r"(?!\.+\Z)[-_.a-zA-Z0-9]{1,255}", name) is not None
    assert (check_name(name, layout="draft-2019") is None) == legal


@given(st.lists(names, min_size=1, max_size=3).map("/".join))
def test_no_legal_path_leaves_the_store(path):
    try:
        check_path(path, writing=False)
    except MetadataError:
        return
    store = MemoryStore()
    store.set("/".join([path, "zarr.json"]).lstrip("/"), b"{}")  # check_key agrees
    assert ".." not in path.split("/")


def test_names_of_others_are_tolerated_on_reading():
    assert check_name("__x") is not None
    assert check_name("__x", writing=False) is None


def test_draft_siblings_differ_in_more_than_case():
    existing = {"g": "g", "g/b": "g/b"}
    check_siblings("g/a", existing)
    check_siblings("g/b", existing)
    for path in ("G", "G/x", "g/B"):
        with pytest.raises(MetadataError):
            check_siblings(path, existing)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 7)), max_size=3))
def test_regular_grid_covers_the_array(dims):
    shape = tuple(n for n, _ in dims)
    grid = RegularGrid(tuple(c for _, c in dims))
    assert grid.grid_shape(shape) == tuple(len(range(0, n, c)) for n, c in dims)


@given(st.lists(st.integers(1, 5), max_size=8), st.data())
def test_rectilinear_grid_against_a_list(edges, data):
    length = data.draw(st.integers(0, sum(edges)))
    grid = RectilinearGrid((tuple(edges),))
    owner = [i for i, edge in enumerate(edges) for _ in range(edge)][:length]
    offsets = grid.offsets(0, length)
    assert grid.grid_shape((length,)) == (len(set(owner)),)
    assert [int(np.searchsorted(offsets, i, side="right")) - 1 for i in range(length)] == owner
    again = parse_chunk_grid("rectilinear", grid.to_json()["configuration"], (length,))
    assert again == grid


@pytest.mark.parametrize(
    "value",
    [None, 3, "34", [-1], [1.5], [True], [2**63], ["3"], [10**4000], [1] * 65, [1] * 1_000_000, {"0": 1}],
)
def test_wrong_shapes_are_refused(value):
    with pytest.raises(MetadataError, match="shape"):
        parse_shape(value)


def test_64_dimensions_are_the_limit():
    assert len(parse_shape([1] * 64)) == 64
    with pytest.raises(MetadataError, match="65 dimensions; numpy supports at most 64"):
        parse_shape([1] * 65)


@pytest.mark.parametrize(
    ("name", "configuration"),
    [
        ("regular", {}),
        ("regular", {"chunk_shape": [0]}),
        ("regular", {"chunk_shape": [1, 1]}),
        ("regular", {"chunk_shape": 3}),
        ("hexagonal", {"chunk_shape": [1]}),
        ("rectilinear", {"kind": "stored", "chunk_shapes": [[4]]}),
        ("rectilinear", {"chunk_shapes": [[3]]}),
        ("rectilinear", {"chunk_shapes": [[0, 4]]}),
        ("rectilinear", {"chunk_shapes": [[[1, 10**12]]]}),
        ("rectilinear", {"chunk_shapes": [[[1]]]}),
        ("rectilinear", {"chunk_shapes": [["4"]]}),
        ("rectilinear", {"chunk_shapes": "4"}),
    ],
)
def test_wrong_grids_are_refused(name, configuration):
    with pytest.raises(MetadataError, match="chunk_grid"):
        parse_chunk_grid(name, configuration, (4,))


def test_a_chunk_of_length_0_only_where_nothing_is():
    assert parse_chunk_grid("regular", {"chunk_shape": [0, 2]}, (0, 3)) == RegularGrid((1, 2))


encodings = st.builds(
    ChunkKeyEncoding, st.sampled_from(["default", "v2", "experimental"]), st.sampled_from(["/", "."])
)


@given(encodings, st.lists(st.integers(0, 10**6), max_size=4).map(tuple))
def test_chunk_keys_can_be_read_back(encoding, index):
    key = encoding.key(index)
    assert encoding.indices([key, "x", f"v/{key}"], tuple(n + 1 for n in index)) == [index]
    assert encoding.indices([f"v/{key}"], tuple(n + 1 for n in index), skip=2) == [index]
    if index:
        assert encoding.indices([key], index) == []  # outside the grid


@given(encodings, st.integers(0, 3), st.text(alphabet="c01./x-", max_size=6))
def test_only_chunk_keys_are_chunk_keys(encoding, ndim, key):
    assert all(encoding.key(index) == key for index in encoding.indices([key], (10**6,) * ndim))


def test_chunk_keys_of_a_grid_are_unique():
    for encoding in (ChunkKeyEncoding(n, s) for n in ("default", "v2") for s in ("/", ".")):
        keys = [encoding.key(index) for index in itertools.product(range(12), range(12))]
        assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("name", "configuration"), [("x", {}), ("v2", {"separator": "-"}), ("default", {"separator": 1})]
)
def test_wrong_key_encodings_are_refused(name, configuration):
    with pytest.raises(NCZarrError, match="chunk_key_encoding"):
        parse_chunk_key_encoding(name, configuration)

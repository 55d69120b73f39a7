"""Compare reading and writing by index with netCDF4-python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import netCDF4
import netCDF4.utils
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rotation import examples

import nczarr.netcdf4 as ours
from nczarr.errors import NCZarrError
from nczarr.netcdf4.values.indexing import parse_selection

Same = Callable[[Callable[[Any, str, Any], None]], None]

SHAPE = (4, 5, 6)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    """The same three-dimensional variable in both libraries, open for reading."""
    folder = tmp_path_factory.mktemp("indexing")
    opened = []
    for name, library in (("theirs.nc", netCDF4), ("ours.zarr", ours)):
        path = str(folder / name)
        with library.Dataset(path, "w") as ds:
            for dim, size in zip("xyz", SHAPE, strict=True):
                ds.createDimension(dim, size)
            ds.createVariable("v", "i4", ("x", "y", "z"))[:] = np.arange(120).reshape(SHAPE)
            ds.createVariable("s", "f8")[...] = 1.5
        opened.append(library.Dataset(path))
    yield opened[0], opened[1]
    for ds in opened:
        ds.close()


def outcome(action: Any) -> Any:
    try:
        value = action()
    except (IndexError, ValueError, TypeError, RuntimeError) as error:
        return next(
            k.__name__ for k in (ValueError, IndexError, TypeError, RuntimeError) if isinstance(error, k)
        )
    return (
        type(value).__name__,
        value.dtype.str,
        value.shape,
        np.ma.getmaskarray(value).tolist(),
        value.tolist(),
    )


def axis_index(size: int) -> st.SearchStrategy[Any]:
    inside = st.integers(-size, size - 1)
    bound = st.none() | st.integers(-size - 2, size + 2)
    return st.one_of(
        st.integers(-size - 1, size),
        st.builds(slice, bound, bound, st.none() | st.sampled_from([1, 2, 3, -1, -2])),
        st.lists(inside, min_size=1, max_size=5),
        st.lists(inside, min_size=1, max_size=4).map(lambda x: np.array(x)),
        st.lists(st.booleans(), min_size=size, max_size=size).map(lambda x: np.array(x)),
        inside.map(float),
        inside.map(lambda i: (i,)),
    )


def selections(shape: tuple[int, ...]) -> st.SearchStrategy[Any]:
    full = st.tuples(*[axis_index(n) for n in shape])

    def cut(items: tuple[Any, ...], at: int, dots: bool) -> Any:
        if dots:
            return (*items[:at], Ellipsis, *items[at + 1 :])
        return items[: at + 1]

    return st.builds(cut, full, st.integers(0, len(shape) - 1), st.booleans())


@settings(
    max_examples=examples(250), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(selection=selections(SHAPE))
def test_reading_is_as_upstream(pair: tuple[Any, Any], selection: Any) -> None:
    theirs, mine = pair
    assert outcome(lambda: mine["v"][selection]) == outcome(lambda: theirs["v"][selection])


@pytest.mark.parametrize(
    "index",
    [
        Ellipsis,
        slice(None),
        0,
        -1,
        (),
        3,
        4,
        -5,
        [0, 2],
        [3, 0, 0, -1],
        np.array([1]),
        (5,),
        ((1,),),
        ([0, 1], [2, 3, 4]),
        np.array([True, False, True, False]),
        [True, False, True, False],
        np.array([True, False]),
        np.ones((2, 2), int),
        np.ones(SHAPE, bool),
        None,
        (None, 0),
        (Ellipsis, Ellipsis),
        (0, 0, 0, 0),
        (0, 0, 0, Ellipsis),
        (0, 0, 0),
        [],
        np.array([], int),
        (np.array([], int), 7),
        (slice(0, 0), 7),
        1.0,
        0.8,
        ("-1",),
        ("a",),
        np.int16(2),
        np.uint8(2),
        np.float32(2),
        True,
        slice(10, 20),
        slice(None, None, -1),
        slice(3, 0, -2),
        (slice(None, None, 2), Ellipsis, slice(5, 1, -2)),
        (0, Ellipsis, [1, 1, 0]),
        [slice(0, 2), 1],
        slice(None, None, 0),
        {"a": 1},
        np.array(["a"]),
        np.array([0.5]),
        [4],
        [-5],
    ],
    ids=repr,
)
def test_single_selections_are_as_upstream(pair: tuple[Any, Any], index: Any) -> None:
    theirs, mine = pair
    assert outcome(lambda: mine["v"][index]) == outcome(lambda: theirs["v"][index])


@pytest.mark.parametrize("index", [Ellipsis, slice(None), (), 0, -1, slice(0, 1)], ids=repr)
@pytest.mark.parametrize("mask", [True, False])
def test_scalars_are_as_upstream(pair: tuple[Any, Any], index: Any, mask: bool) -> None:
    results = []
    for ds in pair:
        ds["s"].set_auto_mask(mask)
        results.append(outcome(lambda ds=ds: ds["s"][index]))
    assert results[0] == results[1]


@given(selection=selections(SHAPE))
@settings(max_examples=examples(300), deadline=None)
def test_plain_selections_and_what_follows_give_the_selection(selection: Any) -> None:
    """The fast path (forward slices, increasing positions) against indexing element by element."""
    array = np.arange(120).reshape(SHAPE)
    try:
        parsed = parse_selection(selection, SHAPE)
    except NCZarrError:
        return
    plain, then = parsed.divided()
    for axis in plain:
        if isinstance(axis, np.ndarray):
            assert (np.diff(axis) > 0).all()
        else:
            assert axis.step > 0
    block = array[np.ix_(*[np.arange(n)[p] for n, p in zip(SHAPE, plain, strict=True)])]
    for axis, index in enumerate(then):
        if index is not None:
            block = np.take(block, np.arange(block.shape[axis])[index], axis)
    slow = array[np.ix_(*[np.atleast_1d(np.asarray(a, int)) for a in parsed.axes])]
    assert block.tolist() == slow.tolist()


def test_unsigned_positions_are_accepted(pair: tuple[Any, Any]) -> None:
    """netCDF4-python refuses them; there is no other meaning that they could have."""
    assert pair[1]["v"][np.array([1, 2], "u1"), 0, 0].tolist() == [30, 60]


@st.composite
def writes(draw: st.DrawFn) -> tuple[list[tuple[Any, Any]], bool]:
    steps = []
    for _ in range(draw(st.integers(1, 3))):
        first = draw(
            st.one_of(
                st.integers(-3, 5),
                st.builds(
                    slice,
                    st.none() | st.integers(0, 3),
                    st.none() | st.integers(0, 6),
                    st.sampled_from([None, 1, 2]),
                ),
                st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True).map(sorted),
            )
        )
        second = draw(
            st.one_of(
                st.integers(-3, 3),
                st.just(slice(None)),
                st.sampled_from([slice(0, 2), slice(1, None), [0, 2]]),
            )
        )
        index = (first, second) if draw(st.booleans()) else first
        shapes = st.tuples(st.integers(1, 4), st.sampled_from([1, 2, 3]))
        flat = st.integers(1, 4).map(lambda n: np.arange(n))
        table = shapes.map(lambda s: np.arange(s[0] * s[1]).reshape(s))
        # netCDF4-python fails where positions meet data of fewer dimensions.
        data = draw(st.integers(0, 99) | table | (st.nothing() if isinstance(first, list) else flat))
        steps.append((index, data))
    return steps, draw(st.booleans())


@settings(
    max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(case=writes())
def test_writing_is_as_upstream(tmp_path: Path, case: tuple[list[tuple[Any, Any]], bool]) -> None:
    steps, unlimited = case
    logs = []
    for library in (netCDF4, ours):
        log: list[Any] = []
        target = str(tmp_path / "w.nc") if library is netCDF4 else {}
        with library.Dataset(target, "w") as ds:
            ds.createDimension("t", None if unlimited else 4)
            ds.createDimension("x", 3)
            v = ds.createVariable("v", "i4", ("t", "x"))
            other = ds.createVariable("other", "f4", ("t",))
            for index, data in steps:
                log.append(
                    outcome(lambda v=v, index=index, data=data: (v.__setitem__(index, data), v[...])[1])
                )
            log.append(outcome(lambda other=other: other[:]))
        logs.append(log)
    assert logs[1] == logs[0]


@settings(max_examples=examples(100), deadline=None)
@given(selection=selections(SHAPE), seed=st.integers(0, 9))
def test_writing_is_orthogonal_assignment(selection: Any, seed: int) -> None:
    """Any order, any step: against an assignment element by element, in which the last value wins."""
    try:
        axes = parse_selection(selection, SHAPE).axes
    except NCZarrError:
        return
    listed = [[int(i) for i in np.atleast_1d(np.asarray(a, int))] for a in axes]
    values = np.random.default_rng(seed).integers(0, 99, [len(axis) for axis in listed])
    expected = np.full(SHAPE, -1, "i4")
    for position in np.ndindex(values.shape):
        expected[tuple(axis[i] for axis, i in zip(listed, position, strict=True))] = values[position]
    with ours.Dataset({}, "w") as ds:
        for dim, size in zip("xyz", SHAPE, strict=True):
            ds.createDimension(dim, size)
        v = ds.createVariable("v", "i4", ("x", "y", "z"), fill_value=-1)
        v[selection] = values
        v.set_auto_mask(False)
        assert v[...].tolist() == expected.tolist()


_WHOLE = (slice(None), Ellipsis, (slice(None), Ellipsis))


@pytest.mark.parametrize(
    "data_shape", [(4, 3), (12,), (3, 4, 1), (1, 3, 4), (3, 4), (4,), (1, 12), (2,), (3, 1)]
)
def test_data_of_another_shape_do_not_replace_all_values(same: Same, data_shape: tuple[int, ...]) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            for name, size in (("x", 3), ("y", 4), ("z", 1)):
                ds.createDimension(name, size)
            for dims in ("x", "xy", "yx", "xyz", "zy"):
                v = ds.createVariable(dims, "i4", tuple(dims))
                for elem in _WHOLE:
                    v[:] = 0
                    log.assign(v, elem, np.arange(np.prod(data_shape)).reshape(data_shape) + 1)
                    log(v[:])

    same(script)


def test_slices_of_no_numbers(same: Same) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            ds.createDimension("x", 3)
            v = ds.createVariable("v", "f8", ("x",))
            v[:] = 1
            for index in (slice("a"), slice(0, 2.0), slice(None, None, 0.5)):
                log.attempt(lambda index=index: v[index])

    same(script)


def test_nothing_can_be_written_to_what_is_only_read(same: Same) -> None:
    nothing = [np.array([], int), slice(0), slice(2, 2), np.zeros(3, bool)]

    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            ds.createDimension("x", 3)
            ds.createDimension("y", 2)
            ds.createVariable("v", "f8", ("x", "y"))[:] = 1
            ds.createVariable("s", "S1", ("x",))
        with nc.Dataset(path) as ds:
            for empty in nothing:
                log.assign(ds["v"], empty, 5)
                log.assign(ds["v"], (empty, 1), 5)
                log.assign(ds["v"], empty, np.zeros((0, 2)))
                log.assign(ds["v"], (empty, 2), 5)
                log.assign(ds["s"], empty, b"a")
            for elem in (0, slice(0, 1), Ellipsis):
                log.assign(ds["v"], elem, 5)

    same(script)


@pytest.mark.parametrize(
    ("elem", "shape"),
    [
        (0, (10,)),
        (-1, (10,)),
        (slice(2, 5, 2), (10,)),
        ([2, 4, 7], (10,)),
        ([2, 3, 4], (10,)),
        (np.array([True, False, False, True, True]), (5,)),
        (np.zeros(4, bool), (4,)),
        ((0, slice(None), slice(5, 8, 2)), (5, 4, 10)),
        (([4, 6, 7], [0, 1, 3], slice(None)), (8, 4, 10)),
        ((Ellipsis, slice(1, 4)), (5, 3, 4)),
        ((1, slice(None), np.array([True, True, False, False, True])), (5, 4, 5)),
        ((slice(None, None, -1), [0, 3, 1]), (5, 4)),
        (([0, 2, 3], 1, [3, 0, 1]), (4, 4, 4)),
    ],
)
def test_regions_of_selections(elem: Any, shape: tuple[int, ...]) -> None:
    """What programs take from ``netCDF4.utils`` to read in pieces."""
    data = np.arange(np.prod(shape)).reshape(shape)
    expected = data[
        np.ix_(*[np.atleast_1d(np.arange(n)[i]) for i, n in zip(full(elem, shape), shape, strict=True)])
    ]
    for utils in (netCDF4.utils, ours.utils):
        start, count, stride, place = utils._StartCountStride(elem, shape)
        assert start.shape == count.shape == stride.shape == place.shape
        assert tuple(utils._out_array_shape(count)) == expected.shape
        result = np.full(expected.shape, -1)
        for at in np.ndindex(start.shape[:-1]):
            pairs = zip(start[at], count[at], stride[at], strict=True)
            region = np.ix_(*[s + np.arange(c) * step for s, c, step in pairs])
            target = tuple(
                [
                    slice(0, 1)
                    if isinstance(i, int) and i == -1
                    else slice(i, i + 1)
                    if isinstance(i, int | np.integer)
                    else i
                    for i in place[at]
                ]
            )
            result[target] = data[region]
        assert (result == expected).all()


def full(elem: Any, shape: tuple[int, ...]) -> list[Any]:
    """One index for each axis."""
    items = list(elem) if isinstance(elem, tuple) else [elem]
    if Ellipsis in [i for i in items if not isinstance(i, np.ndarray | list)]:
        items[0:1] = [slice(None)] * (len(shape) - len(items) + 1)
    return items


@pytest.mark.parametrize("fill", [b"", b"n/a", None])
def test_masked_text_as_characters_has_its_fill_value(fill: bytes | None) -> None:
    text = np.ma.array(["January", "February", "March"], dtype="S8", mask=[0, 1, 0], fill_value=fill)
    for length in (None, 8):
        theirs = netCDF4.stringtochar(text, n_strlen=length)
        assert ours.stringtochar(text, n_strlen=length).tolist() == theirs.tolist()


def test_regions_of_nothing_are_few() -> None:
    many = np.zeros(100, int)
    start, count, _, _ = ours.utils._StartCountStride((np.array([], int), many, many), (3, 5, 7))
    assert start.size == 3
    assert ours.utils._out_array_shape(count) == (0, 100, 100)


@pytest.mark.parametrize(
    "index", [2**63, 2**70, -(2**70), np.uint64(2**64 - 1), (0, 2**70), slice(0, 2**70)], ids=repr
)
def test_places_behind_all_numbers(index: Any, same: Same) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            ds.createDimension("t", None)
            ds.createDimension("x", 2)
            v = ds.createVariable("v", "i4", ("t", "x"))
            v[0] = 7
            log.assign(v, index, [1, 2])
            log.attempt(lambda: v[index])
            log.attempt(lambda: v[[2**70]])
        with nc.Dataset(path) as ds:
            log(ds["v"][:])

    same(script)


@pytest.mark.parametrize(
    "index", [2**63 - 1, [2**63 - 1], slice(2**63 - 1, None), slice(2**63 - 1, 2**63)], ids=repr
)
@pytest.mark.parametrize("file", ["a.nc", "a.zarr"])
def test_the_last_place_of_all_does_not_destroy_the_dataset(tmp_path: Path, index: Any, file: str) -> None:
    """A dimension of 2**63 cannot be stored, nor read (as is netCDF4-python's then)."""
    with ours.Dataset(tmp_path / file, "w") as ds:
        ds.createDimension("t", None)
        ds.createDimension("x", 2)
        v = ds.createVariable("v", "i4", ("t", "x"), chunksizes=(1, 2))
        v[0] = 7
        with pytest.raises(OverflowError, match="more than 63 bits") as error:
            v[index] = [[1, 2]]
        assert isinstance(error.value, NCZarrError)
    with ours.Dataset(tmp_path / file) as ds:
        assert ds["v"][:].tolist() == [[7, 7]]


@pytest.mark.parametrize("format", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET"])
def test_records_that_a_classic_file_cannot_count(format: str, same: Same) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w", format=format) as ds:
            ds.createDimension("t", None)
            v = ds.createVariable("v", "i1", ("t",))
            v[0] = 1
            log.assign(v, 2**32, 1)
        with nc.Dataset(path) as ds:
            log(ds["v"][:])

    same(script)


@pytest.mark.parametrize(
    "index",
    [np.ma.array([0, 1], mask=[0, 1]), np.ma.masked, (np.ma.array([True, False, True], mask=[1, 0, 0]), 0)],
    ids=["places", "one", "truth values"],
)
def test_masked_places_are_refused(index: Any, same: Same) -> None:
    """They were taken for what is under the mask."""

    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            ds.createDimension("x", 3)
            ds.createDimension("y", 2)
            v = ds.createVariable("v", "i4", ("x", "y"))
            v[:] = np.arange(6).reshape(3, 2)
            log.attempt(lambda: v[np.ma.array([0, 2])])
            if not isinstance(index, tuple):  # netCDF4 writes to truth values that are masked
                log.attempt(lambda: v[index])

    same(script)
    with ours.Dataset({}, "w") as ds:
        ds.createDimension("x", 3)
        ds.createDimension("y", 2)
        v = ds.createVariable("v", "i4", ("x", "y"))
        v[:] = 5
        for change in (lambda: v[index], lambda: v.__setitem__(index, 1)):
            with pytest.raises(IndexError, match="masked"):
                change()
        assert v[:].tolist() == [[5, 5]] * 3


def test_unsigned_positions_do_not_become_negative(tmp_path: Path) -> None:
    """2**64 - 1 was taken for -1."""
    with ours.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("x", 3)
        v = ds.createVariable("v", "i4", ("x",))
        v[:] = [1, 2, 3]
        places = np.array([0, 2**64 - 1], "u8")
        for change in (lambda: v[places], lambda: v.__setitem__(places, 0)):
            with pytest.raises(IndexError, match="exceeds dimension size"):
                change()
        assert v[:].tolist() == [1, 2, 3]


@pytest.mark.parametrize("type_", ["i4", "S1", str])
def test_a_scalar_has_no_nothing(type_: Any, same: Same) -> None:
    """The value was given for a selection that does not have it."""

    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            v = ds.createVariable("v", type_)
            v[...] = {"i4": 3, "S1": "c", str: "text"}[type_]
            for index in ([], slice(0, 0), slice(1, None), slice(2, 0), np.array([False])):
                log.attempt(lambda index=index: v[index])
            if type_ == "i4":
                log.assign(v, [-1, 0], 4)
                log.assign(v, [-1, 0], [4, 5])

    same(script)


@pytest.mark.parametrize("step", [2**31, 2**63 - 1, -(2**63)])
def test_steps_larger_than_the_variable(step: int, same: Same) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            ds.createDimension("t", None)
            v = ds.createVariable("v", "i4", ("t",))
            v[:] = [1, 2, 3]
            if step > 0:
                log(v[::step], v[1::step])
                log.assign(v, slice(2, None, step), 9)
            else:
                log(v[:])

    same(script)
    with ours.Dataset({}, "w") as ds:
        ds.createDimension("t", None)
        v = ds.createVariable("v", "i4", ("t",))
        v[:] = [1, 2, 3]
        assert v[:: step * 2**9].tolist() == [1 if step > 0 else 3]


def test_slices_of_no_numbers_are_not_written_to(same: Same) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            ds.createDimension("t", None)
            v = ds.createVariable("v", "f8", ("t",))
            v[:] = [1, 2, 3]
            for index in (slice("a"), slice(0.0, 2.0), slice(np.array([0]), np.array([2])), slice(0, 2**70)):
                log.assign(v, index, 5)
            log(v[:])

    same(script)


@pytest.mark.parametrize("dims", [(), ("x",)], ids=["scalar", "one dimension"])
@pytest.mark.parametrize(
    "index", [np.array([0.0, 1.0]), np.nan, np.inf, np.array([], bool), [0, 1], "a", None], ids=repr
)
def test_single_texts_need_integers(dims: tuple[str, ...], index: Any, same: Same) -> None:
    """Arrays and numbers that are none were errors of numpy's."""

    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            ds.createDimension("x", 3)
            v = ds.createVariable("v", str, dims)
            sequences = ds.createVariable("w", ds.createVLType("i4", "vl"), dims)
            log.attempt(lambda: v.__setitem__(index, "text"))
            log.attempt(lambda: sequences.__setitem__(index, np.array([1, 2], "i4")))

    same(script)

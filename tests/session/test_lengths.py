"""Test the lengths of a session: those of its dimensions, and of the edges of the chunks in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr

import nczarr.netcdf4 as ours
from nczarr.stores import MemoryStore


def created(target: object, *, unlimited: bool) -> ours.Dataset:
    """A variable of five values in chunks of three, and a second one that grows with it."""
    ds = ours.Dataset(target, "w")
    ds.createDimension("x", None if unlimited else 5)
    for name in "vw":
        ds.createVariable(name, "i4", ("x",), chunksizes=(3,), fill_value=-1)[:5] = np.arange(5)
    ds.sync()
    return ds


def by_zarr(path: Path, name: str = "v") -> list[int]:
    return np.asarray(zarr.open_array(path, path=name, mode="r")[...]).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("unlimited", [False, True])
def test_the_last_chunk_keeps_what_is_not_written(tmp_path: Path, unlimited: bool) -> None:
    created(tmp_path / "a.zarr", unlimited=unlimited).close()
    expected = [0, 1, 2, 3, 4]
    for place in (3, 4):
        with ours.Dataset(tmp_path / "a.zarr", "a") as ds:
            ds["v"][place] = expected[place] = 10 * place
        assert by_zarr(tmp_path / "a.zarr") == expected


@pytest.mark.parametrize("unlimited", [False, True])
def test_the_last_chunk_is_whole_up_to_the_end_of_a_dimension_that_cannot_grow(unlimited: bool) -> None:
    with created(MemoryStore(), unlimited=unlimited) as ds:
        cache, node = ds._nc_session.cache, ds["w"]._nc_node
        cache.clear()
        ds["w"][0:5] = np.arange(5)  # two chunks, the second one at the end
        assert cache.holds(node) == unlimited
        assert ds["w"][:].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("unlimited", [False, True])
def test_chunks_that_are_stored_together_end_where_the_dimension_ends(
    tmp_path: Path, unlimited: bool
) -> None:
    with created(tmp_path / "a.zarr", unlimited=unlimited) as ds:
        ds["v"][2:4] = [7, 8]
        ds["v"][4] = 9
        ds.sync()
        assert by_zarr(tmp_path / "a.zarr") == [0, 1, 7, 8, 9]


def test_a_dimension_has_the_length_that_a_write_needs(tmp_path: Path) -> None:
    with created(tmp_path / "a.zarr", unlimited=True) as ds:
        session, x = ds._nc_session, ds.dimensions["x"]._nc_node
        session.extend(x, 7)
        assert (x.size, ds["v"].shape, ds["w"].shape) == ((7), (7,), (7,))
        before = session.tree.generation
        x.grow(7)
        session.extend(x, 6)
        assert (x.size, session.tree.generation) == (7, before)
        ds["v"][7] = 7
        assert (x.size, session.stored.length("/x")) == (8, 5)
        ds.sync()
        assert (session.stored.length("/x"), session.stored.dataset.dimension_at("/x").size) == (8, 8)
    assert by_zarr(tmp_path / "a.zarr") == [0, 1, 2, 3, 4, -1, -1, 7]
    assert by_zarr(tmp_path / "a.zarr", "w") == [0, 1, 2, 3, 4, -1, -1, -1]


def test_a_reader_takes_the_length_that_another_program_has_stored(tmp_path: Path) -> None:
    with created(tmp_path / "a.zarr", unlimited=True) as writer, ours.Dataset(tmp_path / "a.zarr") as reader:
        writer["v"][5] = 5
        writer.sync()
        assert len(reader.dimensions["x"]) == 5
        reader.sync()
        assert len(reader.dimensions["x"]) == 6
        assert reader["v"][:].tolist() == [0, 1, 2, 3, 4, 5]
        assert reader["w"][5:].tolist() == [None]

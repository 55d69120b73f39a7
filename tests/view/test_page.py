"""Test the parts of the page without a browser: worker, tree, reads from shards."""

from __future__ import annotations

import queue
import threading
from pathlib import Path

import numpy as np
import pytest

import nczarr
from nczarr import cdl
from nczarr.model import Dataset, Group, Variable
from nczarr.model import types as t
from nczarr.view.opened import OpenedDataset
from nczarr.view.page.details import MOST_LISTED, list_tree
from nczarr.view.page.worker import Worker

DATA = Path(__file__).parents[1] / "data"


def test_only_the_newest_of_waiting_jobs_is_done() -> None:
    taken: queue.Queue[object] = queue.Queue()
    go_on, has_begun = threading.Event(), threading.Event()

    def first() -> int:
        has_begun.set()
        go_on.wait()
        return 0

    worker = Worker(lambda call: call(), taken.put)
    worker.ask(first, taken.put)
    has_begun.wait()
    for number in range(1, 50):
        worker.ask(lambda number=number: number, taken.put)
    go_on.set()
    assert [taken.get(), taken.get()] == [0, 49]
    # It is idle then, and takes new work; an error is handed over like a result.
    worker.ask(lambda: 1 // 0, taken.put)
    assert isinstance(taken.get(), ZeroDivisionError)
    worker.ask(lambda: "again", taken.put)
    assert taken.get() == "again"
    assert taken.empty()


def labels(items: list[dict[str, object]]) -> list[object]:
    found: list[object] = []
    for item in items:
        found += [item["label"], *labels(item.get("items", []))]  # type: ignore[arg-type]
    return found


def test_the_tree_lists_what_a_search_finds() -> None:
    with OpenedDataset(DATA / "example.nc") as opened:
        items, left_out = list_tree(opened.model)
        assert left_out == 0
        assert {"time", "ocean", "temp", "atmosphere", "slp"} <= set(labels(items))
        assert labels(list_tree(opened.model, "SALINITY")[0]) == ["ocean", "salt"]
        assert labels(list_tree(opened.model, "sea pressure")[0]) == ["atmosphere", "slp"]
        assert labels(list_tree(opened.model, "hPa")[0]) == ["atmosphere", "slp"]
        assert list_tree(opened.model, "no such thing") == ([], 0)


def test_the_tree_of_very_many_variables_is_bounded() -> None:
    variables = tuple(Variable(f"v{i}", t.FLOAT) for i in range(50_000))
    dataset = Dataset("d", variables=variables, groups=(Group("g", variables=variables),))
    items, left_out = list_tree(dataset)
    assert len(items) == MOST_LISTED + 1
    assert left_out == 100_000 - MOST_LISTED
    assert labels(list_tree(dataset, "/g/v49999")[0]) == ["g", "v49999"]


@pytest.mark.parametrize("layout", ["nczarr-v3", "nczarr-v2"])
def test_what_one_read_costs_is_known(layout: str, tmp_path: Path) -> None:
    nczarr.copy(DATA / "example.nc", tmp_path / "e.zarr", layout=layout, lossy=True)
    with OpenedDataset(tmp_path / "e.zarr") as opened:
        chunks = opened.model.variable_at("/ocean/temp").data.array.chunk_shape
        assert opened.chunk_shape("/ocean/temp") == tuple(chunks)
        assert opened.chunk_shape("/time") == (opened.model.variable_at("/time").data.array.chunk_shape[0],)


def test_of_shards_only_the_chunks_inside_are_read(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(
        tmp_path / "s.zarr", name="v", shape=(64, 64), shards=(32, 32), chunks=(8, 4), dtype="i4"
    )
    array[:] = np.arange(64 * 64).reshape(64, 64)
    with OpenedDataset(tmp_path / "s.zarr") as opened:
        assert opened.chunk_shape("/v") == (8, 4)
        assert opened.read("/v", (slice(0, 64, 32), slice(0, 64, 32))).tolist() == [[0, 32], [2048, 2080]]


def test_names_with_blanks_and_strokes_are_found() -> None:
    dataset = cdl.loads("netcdf d { group: a\\ b { variables: int v\\ w; data: v\\ w = 7; } }")
    with OpenedDataset(dataset) as opened:
        assert opened.read("/a\\ b/v\\ w", ()) == 7


def test_any_two_axes_are_chosen_by_name() -> None:
    pytest.importorskip("panel_material_ui")
    from nczarr.view.coordinates import Coordinates
    from nczarr.view.page.widgets import AxisChoice
    from nczarr.view.picture.selection import first_selection

    chosen: list[tuple[int, ...]] = []
    choice = AxisChoice(chosen.append)
    with OpenedDataset(DATA / "example.nc") as opened:
        coordinates = Coordinates(opened)
        choice.offer(first_selection(opened, coordinates, "/ocean/temp"))
        assert (choice.widget.value, chosen) == ((2, 3), [])
        for name, axes in (("depth × time", (1, 0)), ("time × lat", (0, 2)), ("time", (0,))):
            choice.widget.value = choice.widget.options[name]
            assert chosen.pop() == axes
        choice.offer(first_selection(opened, coordinates, "/time"))
        assert (choice.widget.visible, choice.widget.value, chosen) == (False, (0,), [])


def test_sliders_say_dates_and_values() -> None:
    pytest.importorskip("panel_material_ui")
    from nczarr.view.coordinates import Coordinates
    from nczarr.view.page.widgets import Sliders
    from nczarr.view.picture.selection import first_selection

    moved: list[tuple[int, int]] = []
    with OpenedDataset(DATA / "example.nc") as opened:
        coordinates = Coordinates(opened)
        sliders = Sliders(coordinates, lambda axis, index: moved.append((axis, index)), lambda: True)
        sliders.offer(first_selection(opened, coordinates, "/ocean/temp"))
        time, depth = (row[1] for row in sliders.box)
        assert (time.label, depth.label) == ("time: 2020-01-16 12:00", "depth: 0 m")
        time.value = 2
        assert time.label == "time: 2020-03-16 12:00"
        assert moved == [(0, 2)]
        sliders.clear()
        assert len(sliders.box) == 0


def test_fields_of_compounds_are_variables() -> None:
    import netCDF4

    with OpenedDataset(DATA / "user_types.nc") as opened, netCDF4.Dataset(DATA / "user_types.nc") as peer:
        names = set(opened.model.all_variables)
        assert {"/grid.x", "/cell.cloud", "/cell.vertices.flag"} <= names
        assert not {"/cell.raw", "/cell.label"} & names
        grid = peer["grid"][:]
        for field in ("x", "y", "flag"):
            np.testing.assert_array_equal(opened.read(f"/grid.{field}", ...), grid[field])
            np.testing.assert_array_equal(
                opened.read(f"/grid.{field}", (1, slice(0, 3, 2))), grid[field][1, ::2]
            )
        assert opened.shape("/cell.corners") == (2, 2, 3)
        assert opened.read("/cell.corners", (1, slice(None), 2)).tolist() == [-3.0, -6.0]
        assert opened.read("/cell.vertices.x", (slice(None), 1)).tolist() == [4.0, 6.0]
        assert opened.chunk_shape("/cell.corners") == (*opened.chunk_shape("/cell"), 2, 3)
        cell = next(i for i in list_tree(opened.model)[0] if i["label"] == "cell")
        assert [i["label"] for i in cell["items"]][:3] == ["corners", "cloud", "centre.x"]
        found = list_tree(opened.model, "corners")[0]
        assert [i["id"] for i in found] == ["/cell.corners"]


def test_a_field_has_its_part_of_the_fill_value_and_a_real_name_wins() -> None:
    text = """netcdf d { types: compound p {float x; int n;}
        dimensions: i = 3; variables: p at(i); p at:_FillValue = {-1, 7}; int at.n;
        data: at = {1, 2}, _, {-1, 3}; at.n = 5; }"""
    with OpenedDataset(cdl.loads(text)) as opened:
        assert opened.read("/at.x", ...).tolist() == [1.0, None, None]
        assert opened.read("/at.n", ...).tolist() == 5

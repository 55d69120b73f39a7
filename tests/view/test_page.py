"""Test the parts of the page without a browser: worker, tree, reads from shards."""

from __future__ import annotations

import queue
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import nczarr
from nczarr import cdl
from nczarr.model import Dataset, Group, Variable, split_fqn
from nczarr.model import types as t
from nczarr.view.opened import OpenedDataset
from nczarr.view.page.details import MOST_LISTED, list_tree
from nczarr.view.page.worker import Worker
from nczarr.view.picture.drawings import Picture

DATA = Path(__file__).parents[1] / "data"


class Calls(queue.Queue[Callable[[], None]]):
    """The changes of a page that background jobs have scheduled, run by the test in place of the server."""

    def run_until(self, is_seen: Callable[[], bool]) -> None:
        """Run each call when it comes, until a condition is true."""
        while not is_seen():
            self.get()()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """The calls of all pages of the test."""
    pytest.importorskip("panel_material_ui")
    from nczarr.view.page.viewer import Viewer

    calls = Calls()
    monkeypatch.setattr(Viewer, "_schedule", lambda self, call: calls.put(call))
    return calls


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
    from nczarr.view.page.widgets import Choices
    from nczarr.view.picture.selection import first_selection

    chosen: list[tuple[str, object]] = []
    choices = Choices(lambda name, value: chosen.append((name, value)))
    with OpenedDataset(DATA / "example.nc") as opened:
        coordinates = Coordinates(opened)
        choices.offer_axes(first_selection(coordinates, "/ocean/temp"))
        widget = choices.widgets["drawn"]
        assert widget.value == (2, 3)
        for name, axes in (("depth × time", (1, 0)), ("time × lat", (0, 2)), ("time", (0,))):
            widget.value = widget.options[name]
            assert chosen.pop() == ("drawn", axes)
        choices.offer_axes(first_selection(coordinates, "/time"))
        assert (widget.visible, widget.value) == (False, (0,))


def test_choices_that_the_program_sets_are_those_of_the_address() -> None:
    pytest.importorskip("panel_material_ui")
    from nczarr.view.page.state import Address
    from nczarr.view.page.widgets import Choices

    chosen: dict[str, object] = {}
    choices = Choices(chosen.__setitem__)
    address = Address(colours="magma", low=0.1 + 0.2, limits="step", overlay=["contours"], other="/a")
    choices.offer(address, ["/a", "/b"])
    for name, value in chosen.items():
        assert value == getattr(address, name), name
    assert {"colours", "low", "limits", "overlay", "other"} <= {*chosen}
    choices.widgets["high"].value = "7"
    assert chosen["high"] == 7.0
    choices.widgets["high"].value = "no number"
    assert chosen["high"] is None


def test_sliders_say_dates_and_values() -> None:
    pytest.importorskip("panel_material_ui")
    from nczarr.view.coordinates import Coordinates
    from nczarr.view.page.widgets import Sliders
    from nczarr.view.picture.selection import first_selection

    moved: list[tuple[int, int]] = []
    with OpenedDataset(DATA / "example.nc") as opened:
        coordinates = Coordinates(opened)
        sliders = Sliders(coordinates, lambda axis, index: moved.append((axis, index)))
        sliders.offer(first_selection(coordinates, "/ocean/temp"))
        time, depth = sliders.box
        assert (time.label, depth.label) == ("time: 2020-01-16 12:00", "depth: 0 m")
        time.value = 2
        assert time.label == "time: 2020-03-16 12:00"
        assert moved == [(0, 2)]


@pytest.mark.slow
def test_after_every_change_the_title_the_limits_and_the_files_are_those_of_the_step(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bokeh.document import Document
    from panel.io.state import set_curdoc

    from nczarr.view.page.viewer import Viewer
    from nczarr.view.picture.figures import PictureFigure

    with nczarr.Dataset(tmp_path / "steps.nc", "w") as ds:
        for name, size, units in (
            ("time", 6, "days since 2001-01-01"),
            ("lat", 4, "degrees_north"),
            ("lon", 8, "degrees_east"),
        ):
            ds.createDimension(name, size)
            axis = ds.createVariable(name, "f8", (name,))
            axis.units, axis[:] = units, 10.0 * np.arange(size)
        for name, factor in (("v", 1), ("w", 2)):
            v = ds.createVariable(name, "f8", ("time", "lat", "lon"))
            v[:] = factor * (100 * np.arange(6)[:, None, None] + np.arange(32).reshape(4, 8))
    with OpenedDataset(tmp_path / "steps.nc") as opened, set_curdoc(Document()):
        viewer = Viewer(opened)

        def shown(step: int, low: float, high: float, name: str = "v") -> None:
            """Wait for the picture of a step, and compare all that the page says about it."""
            date = f"2001-{['01-01', '01-11', '01-21', '01-31', '02-10', '02-20'][step]}"
            calls.run_until(
                lambda: (
                    bool(viewer._drawn)
                    and viewer._drawn[0][0].selection == viewer._selection
                    and not viewer._busy.visible
                )
            )
            mapper = viewer._figures[0]._mapper
            calls.run_until(lambda: (mapper.low, mapper.high) == (low, high))
            figure = viewer._figures[0]
            assert isinstance(figure, PictureFigure)
            values = opened.read(f"/{name}", step)
            assert figure.figure.title.text == f"time = {date}"
            assert figure._base.data["where"] == [f"time = {date}"]
            assert set(np.unique(figure._base.data["image"][0])) >= {values.min(), values.max()}
            rows = viewer._file("csv").getvalue().decode().splitlines()
            assert rows[1].split(",")[0] == date
            assert float(rows[1].split(",")[-1]) == values[0, 0]
            assert f"{values.mean():.7g}" in viewer._html["Statistics"].object
            assert f"{step}" in viewer._html["Python"].object

        shown(0, 0, 531)
        viewer._sliders.box[0].value = 3
        shown(3, 0, 531)
        viewer._choices.widgets["limits"].value = "step"
        shown(3, 300, 331)
        viewer._sliders.box[0].value = 5
        shown(5, 500, 531)
        viewer._choices.widgets["projection"].value = "Robinson"
        viewer._choices.widgets["low"].value = "400"
        shown(5, 400, 531)
        viewer._choices.widgets["overlay"].value = ["contours"]
        viewer._choices.widgets["other"].value = "/w"
        calls.run_until(lambda: len(viewer._figures) >= 3)
        shown(5, 400, 531)
        names = [split_fqn(f.picture.selection.fqn)[1] for f in viewer._figures]
        assert names == ["v", "w", "v − w"]
        frames: list[Picture] = []
        monkeypatch.setattr("nczarr.view.page.viewer.to_file", lambda drawn, *_: frames.extend(drawn) or b"")
        viewer._file("gif")  # its frames have the contours, too; the first four have no values in the limits
        assert [len(frame.overlay) > 0 for frame in frames] == [False] * 4 + [True] * 2
        viewer._tree._chosen("/w")
        shown(0, 0, 1062, "w")
        viewer._choices.widgets["drawn"].value = (0, 1)
        calls.run_until(lambda: viewer._drawn[0][0].selection == viewer._selection)
        assert viewer._figures[0].figure.title.text == "lon = 0°"


@pytest.mark.slow
def test_a_detail_that_arrives_late_does_not_replace_the_whole(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bokeh.document import Document
    from panel.io.state import set_curdoc

    from nczarr.view.page.viewer import Viewer
    from nczarr.view.picture.drawer import Drawer
    from nczarr.view.picture.grids import Extent

    side = 2500
    with nczarr.Dataset(tmp_path / "big.zarr", "w") as ds:
        for name, size in (("time", 2), ("y", side), ("x", side)):
            ds.createDimension(name, size)
        v = ds.createVariable("v", "i2", ("time", "y", "x"), chunksizes=(1, 500, 500))
        v[:] = np.add.outer(np.arange(side, dtype="i2"), np.arange(side, dtype="i2"))
    with OpenedDataset(tmp_path / "big.zarr") as opened, set_curdoc(Document()):
        viewer = Viewer(opened)

        def detail() -> tuple[int, ...] | None:
            images = viewer._figures[0]._detail.data["image"]
            return np.shape(images[0]) if len(images) else None

        calls.run_until(lambda: bool(viewer._figures))
        viewer._zoomed(Extent(0, 500, 0, 500))
        calls.run_until(lambda: detail() is not None)
        fine = detail()
        # The next step is seen in the same detail.
        viewer._sliders.box[0].value = 1
        calls.run_until(lambda: viewer._drawn[0][0].selection == viewer._selection)
        assert detail() is None
        calls.run_until(lambda: detail() == fine)
        # A part is still being read when the user returns to the whole.
        go_on, has_begun, is_taken, draw = (
            threading.Event(),
            threading.Event(),
            threading.Event(),
            Drawer.draw,
        )

        def wait_and_draw(*arguments: object) -> object:
            has_begun.set()
            go_on.wait()
            return draw(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(Drawer, "draw", wait_and_draw)
        viewer._zoomed(Extent(0, 2000, 0, 2400))
        has_begun.wait()
        viewer._zoomed(Extent(-9e3, 9e3, -9e3, 9e3))
        go_on.set()
        viewer._workers["detail"].ask(lambda: None, lambda nothing: is_taken.set())  # behind the part
        calls.run_until(is_taken.is_set)
        assert detail() is None


@pytest.mark.slow
@pytest.mark.parametrize("north", ["up", "down"])
def test_after_a_zoom_the_cells_of_the_detail_count(calls: Calls, tmp_path: Path, north: str) -> None:
    """The overview below it has other cells at the same point: a click would take a neighbour, up to a stride away."""
    from bokeh.document import Document
    from panel.io.state import set_curdoc

    from nczarr.view.page.viewer import Viewer
    from nczarr.view.picture.grids import Extent

    rows, columns = 2161, 4320
    lat = np.linspace(-90, 90, rows)[:: 1 if north == "up" else -1]
    lon = -180 + np.arange(columns) / 12
    with nczarr.Dataset(tmp_path / "big.zarr", "w") as ds:
        for name, values, units in (("lat", lat, "degrees_north"), ("lon", lon, "degrees_east")):
            ds.createDimension(name, values.size)
            axis = ds.createVariable(name, "f8", (name,))
            axis.units = units
            axis[:] = values
        v = ds.createVariable("v", "i4", ("lat", "lon"), chunksizes=(rows, 432))
        v[:] = np.arange(rows * columns).reshape(rows, columns)
    with OpenedDataset(tmp_path / "big.zarr") as opened, set_curdoc(Document()):
        viewer = Viewer(opened)
        calls.run_until(lambda: bool(viewer._figures))
        figure = viewer._figures[0]
        overview = set(figure._hover.renderers)
        places = [
            (1357, 1264),
            (0, 0),
            (rows - 1, columns - 1),
            (1080, 2160),
            (777, 4319),
            (2160, 1),
            (3, 2999),
        ]
        for row, column in places:
            y, x = float(lat[row]) * (1 - 1e-9), float(lon[column])  # the poles are edges
            for width in (0.09, 0.2, 20.0):
                view = Extent(x - width, x + width, y - width, y + width)
                figure.show_detail(None, viewer._colours_of(*viewer._drawn[0]))
                viewer._zoomed(view)
                calls.run_until(lambda: figure.detail is not None)
                detail = figure.detail
                assert detail.steps == (1, 1)
                # The detail covers the view, up to the edges of the first and last cells.
                seen = detail.extent
                assert seen.left <= max(view.left, lon[0] - 1 / 24) + 1e-6, (row, column, width)
                assert seen.right >= min(view.right, lon[-1] + 1 / 24) - 1e-6, (row, column, width)
                assert seen.bottom <= max(view.bottom, -90) + 1e-6, (row, column, width)
                assert seen.top >= min(view.top, 90) - 1e-6, (row, column, width)
                assert len(figure._hover.renderers) == 1 < len(overview)
                viewer._tapped(x, y)
                assert viewer._address.place == (row, column)
                grid = detail.grid
                assert detail.pixels[tuple(int(n) for n in grid.pixel_of(x, y))] == row * columns + column
                mark = figure._mark.data
                assert abs(mark["x"][0] - x) < 1 / 24 + 1e-6
                assert abs(mark["y"][0] - y) < 1 / 24 + 1e-6
                assert "overview" not in viewer._html["notes"].object
        viewer._zoomed(Extent(-999, 999, -999, 999))
        assert set(figure._hover.renderers) == overview
        assert figure.index_at(float(lon[6]), float(lat[6])) == figure.picture.grid.index_at(lon[6], lat[6])


def test_an_error_of_the_next_step_is_shown_when_it_is_chosen(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bokeh.document import Document
    from panel.io.state import set_curdoc

    from nczarr.view.page.viewer import Viewer
    from nczarr.view.picture.drawer import Drawer
    from nczarr.view.picture.selection import Hyperslab

    with nczarr.Dataset(tmp_path / "a.zarr", "w") as ds:
        for name, size in (("time", 5), ("y", 3), ("x", 4)):
            ds.createDimension(name, size)
        v = ds.createVariable("v", "f4", ("time", "y", "x"), chunksizes=(1, 3, 4), compression="zstd")
        v[:] = np.arange(5)[:, None, None]
    (tmp_path / "a.zarr/v/c/1/0/0").write_bytes(b"no zstd at all")
    has_begun, ended, draw = threading.Event(), threading.Event(), Drawer.draw

    def begin_and_draw(drawer: Drawer, selection: Hyperslab) -> object:
        if selection.at[0] == 1:
            has_begun.set()
        return draw(drawer, selection)

    monkeypatch.setattr(Drawer, "draw", begin_and_draw)
    with OpenedDataset(tmp_path / "a.zarr") as opened, set_curdoc(Document()):
        viewer = Viewer(opened)
        calls.run_until(lambda: bool(viewer._figures))
        has_begun.wait()
        viewer._workers["ahead"].ask(lambda: None, lambda nothing: ended.set())  # behind the next steps
        calls.run_until(ended.is_set)
        assert viewer._html["alert"].object == ""
        viewer._sliders.box[0].value = 1
        calls.run_until(lambda: bool(viewer._html["alert"].object))
        assert "v/c/1/0/0" in viewer._html["alert"].object
        assert viewer._figures[0].figure.title.text.endswith("0")


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
        assert opened.shape_of("/cell.corners") == (2, 2, 3)
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


@pytest.mark.parametrize(("variable", "values"), [("v", "1"), ("v(x)", "1, 2, 3")])
def test_a_dataset_in_memory_is_shown(calls: Calls, variable: str, values: str, tmp_path: Path) -> None:
    """Its values are arrays of numpy, which have no facts of a store."""
    from bokeh.document import Document
    from panel.io.state import set_curdoc

    from nczarr.view.page.viewer import Viewer

    text = f"netcdf d {{ dimensions: x = 3; variables: int {variable}; data: v = {values}; }}"
    (tmp_path / "d.cdl").write_text(text)
    for source in (cdl.loads(text), tmp_path / "d.cdl"):
        with OpenedDataset(source) as opened, set_curdoc(Document()):
            viewer = Viewer(opened)
            calls.run_until(lambda viewer=viewer: bool(viewer._drawn))
            about = viewer._html["About"].object
            assert '<bdi class="nz-name">v</bdi> <span class="nz-type">int</span>' in about


@pytest.mark.parametrize("suffix", [".zarr", ".nc"])
def test_a_dataset_that_changes_while_it_is_shown_is_shown_as_it_is_now(
    calls: Calls, tmp_path: Path, suffix: str
) -> None:
    from bokeh.document import Document
    from panel.io.state import set_curdoc

    from nczarr.view.page.viewer import Viewer

    path = tmp_path / f"run{suffix}"

    def write(steps: int, first: float) -> None:
        """Write all steps anew, as a model that was started again does: into another file, which takes the name."""
        with nczarr.Dataset(tmp_path / f"new{suffix}", "w") as ds:
            for name, size in (("time", None), ("y", 3), ("x", 4)):
                ds.createDimension(name, size)
            ds.createVariable("time", "f8", ("time",))[:] = np.arange(steps)
            ds["time"].units = "days since 2000-01-01"
            v = ds.createVariable("v", "f4", ("time", "y", "x"), chunksizes=(1, 3, 4))
            v[:] = first + np.arange(steps)[:, None, None] + np.zeros((1, 3, 4))
        if path.is_dir():
            shutil.rmtree(path)
        (tmp_path / f"new{suffix}").rename(path)

    write(3, 0.0)
    with OpenedDataset(path) as opened, set_curdoc(Document()):
        viewer = Viewer(opened)

        def shows(value: float, step: int) -> bool:
            if not viewer._figures or viewer._drawn[0][0].selection != viewer._selection:
                return False
            drawing = viewer._drawn[0][0]
            return drawing.selection.at[0] == step and float(drawing.sample.max()) == value

        calls.run_until(lambda: shows(0.0, 0))
        viewer._sliders.box[0].value = 1
        calls.run_until(lambda: shows(1.0, 1))
        write(3, 100.0)
        # The step that was shown before waits in the cache with its old values.
        viewer._sliders.box[0].value = 0
        calls.run_until(lambda: shows(100.0, 0))
        assert "has changed" in viewer._html["notes"].object
        write(5, 200.0)
        viewer._reload()
        calls.run_until(lambda: shows(200.0, 0))
        assert viewer._sliders.box[0].end == 4
        # A model that is followed: its newest step.
        write(6, 300.0)
        viewer._look()
        calls.run_until(lambda: shows(305.0, 5))
        # The last steps are gone, and none of them is played from the cache.
        write(2, 400.0)
        viewer._sliders.box[0].value = 4
        calls.run_until(lambda: shows(401.0, 1))
        assert viewer._sliders.box[0].end == 1
        # Another page, which is loaded now, begins with the present length.
        write(4, 500.0)
        again = Viewer(opened)
        calls.run_until(lambda: bool(again._figures))
        assert again._sliders.box[0].end == 3
        # The page says that the dataset is gone, and keeps its picture.
        viewer._look()
        calls.run_until(lambda: viewer._version == opened.version and shows(503.0, 3))
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
        viewer._sliders.box[0].value = 0
        calls.run_until(lambda: "is gone" in viewer._html["alert"].object)
        assert viewer._figures

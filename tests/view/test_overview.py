"""Test that a picture reads only the necessary values and chunks."""

from __future__ import annotations

import tracemalloc
from itertools import product
from math import prod
from pathlib import Path

import numpy as np
from counting_store import CountingStore
from hypothesis import given
from hypothesis import strategies as st

import nczarr
from nczarr.stores import LocalStore
from nczarr.view.opened import OpenedDataset
from nczarr.view.picture.drawer import Drawer, zoomed
from nczarr.view.picture.drawings import Picture
from nczarr.view.picture.grids import Extent
from nczarr.view.picture.selection import first_selection, plan_overview


def touched(parts: tuple[slice, ...], chunks: list[int]) -> int:
    """How many chunks hold one of the values, counted one by one."""
    return len(
        set(product(*({i // c for i in range(p.start, p.stop, p.step)} for p, c in zip(parts, chunks))))
    )


@given(
    st.lists(st.tuples(st.integers(1, 400), st.integers(1, 60)), min_size=1, max_size=2),
    st.integers(1, 50),
    st.integers(1, 2000),
)
def test_an_overview_keeps_its_limits(axes: list[tuple[int, int]], most_pixels: int, most_bytes: int) -> None:
    windows, chunks = [(0, n) for n, _ in axes], [min(c, n) for n, c in axes]
    overview = plan_overview(windows, chunks, 10, most_pixels=most_pixels, most_bytes=most_bytes)
    sizes = [len(range(p.start, p.stop, p.step)) for p in overview.parts]
    assert all(1 <= size <= most_pixels for size in sizes)
    cost = touched(overview.parts, chunks) * 10
    assert cost <= most_bytes or prod(sizes) == 1
    if not overview.coarse:  # nothing was left out that could be seen
        assert all(size >= min(most_pixels, n) // 2 for size, (n, _) in zip(sizes, axes))


def sparse(path: Path) -> None:
    """A variable of 100 GB of which one step of time is stored: 100 chunks of 1 MB."""
    with nczarr.Dataset(path, "w") as ds:
        for name, size in (("time", 1000), ("y", 5000), ("x", 5000)):
            ds.createDimension(name, size)
        v = ds.createVariable("v", "f4", ("time", "y", "x"), chunksizes=(1, 500, 500), compression="zstd")
        row = np.linspace(0, 1, 5000, dtype="f4")
        v[500] = row[:, None] + row


def test_a_slice_of_100_gigabytes_reads_its_chunks_once_and_holds_little(tmp_path: Path) -> None:
    sparse(tmp_path / "big.zarr")
    store = CountingStore(LocalStore(tmp_path / "big.zarr"))
    with OpenedDataset(store) as opened:
        assert prod(opened.shape_of("/v")) * 4 == 100_000_000_000
        drawer = Drawer(opened)
        selection = first_selection(drawer.coordinates, "/v").moved(0, 500)
        before = sum(keys for _, keys in store.calls)
        tracemalloc.start()
        picture = drawer.draw(selection)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert isinstance(picture, Picture)
        assert picture.pixels.shape == (1000, 1000)
        assert picture.steps == (5, 5)
        assert sum(keys for _, keys in store.calls) - before <= 110
        assert peak < 120e6, "more than the chunks that are decoded at a time"
        expected = opened.read("/v", (500, slice(0, 5000, 5), slice(0, 5000, 5)))
        assert (picture.pixels == expected).all()


def test_a_slice_with_too_many_chunks_is_coarse_and_says_so(tmp_path: Path) -> None:
    sparse(tmp_path / "big.zarr")
    with OpenedDataset(tmp_path / "big.zarr") as opened:
        drawer = Drawer(opened)
        selection = first_selection(drawer.coordinates, "/v").moved(0, 500)
        picture = drawer.draw(selection, most_bytes=20 * 500 * 500 * 4)
        assert isinstance(picture, Picture)
        assert touched(picture.parts, [500, 500]) <= 20
        assert "limits the chunks read" in picture.notes[0]
        windows = zoomed(picture, Extent(1000, 1400, 2000, 2500))
        assert windows is not None
        (y0, y1), (x0, x1) = windows
        assert y0 <= 2000 < 2500 <= y1 + 1
        assert x0 <= 1000 < 1400 <= x1 + 1
        detail = drawer.draw(selection, windows)
        assert detail.steps == (1, 1) or max(detail.steps) < max(picture.steps)


def test_the_statistics_are_those_of_the_shown_step() -> None:
    from nczarr.view.page.details import statistics_html

    with OpenedDataset(Path(__file__).parents[1] / "data" / "example.nc") as opened:
        drawer = Drawer(opened)
        for step in (0, 3):
            values = opened.read("/ocean/temp", (step, 0))
            drawing = drawer.draw(first_selection(drawer.coordinates, "/ocean/temp").moved(0, step))
            html = statistics_html(drawing, ())
            for number in (values.min(), values.max(), values.mean(), values.std()):
                assert f"{number:.7g}" in html
            assert f"{np.ma.count_masked(values):,}" in html

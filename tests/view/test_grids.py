"""Test that every pixel shows the value of its cell, and that a click finds the cell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczarr.view.picture.grids import Cells, Extent, Grid, globe_extent, locate_points, rectilinear, sampled
from nczarr.view.planes import Plane

numbers = st.lists(st.integers(-500, 500), min_size=1, max_size=12, unique=True).map(sorted)


@given(numbers, numbers, st.booleans(), st.booleans())
def test_pixels_of_a_rectilinear_grid_are_those_of_the_nearest_value(
    y: list[int], x: list[int], y_falls: bool, x_falls: bool
) -> None:
    rows = np.array(y[::-1] if y_falls else y, float)
    columns = np.array(x[::-1] if x_falls else x, float)
    y_cells, x_cells = Cells.of(rows), Cells.of(columns)
    assert y_cells is not None
    assert x_cells is not None
    grid = rectilinear(y_cells, x_cells, (range(rows.size), range(columns.size)))
    values = np.ma.arange(rows.size * columns.size).reshape(rows.size, columns.size)
    pixels, e = grid.pixels(values), grid.extent
    high, wide = pixels.shape
    for i in range(0, high, max(high // 7, 1)):
        for j in range(0, wide, max(wide // 7, 1)):
            at_y = e.bottom + (i + 0.5) * (e.top - e.bottom) / high
            at_x = e.left + (j + 0.5) * (e.right - e.left) / wide
            found = grid.index_at(at_x, at_y)
            assert found is not None
            assert pixels[i, j] == values[found]
            # The slow way: the value whose coordinate is nearest.
            assert abs(rows[found[0]] - at_y) <= np.abs(rows - at_y).min() + 1e-9
            assert abs(columns[found[1]] - at_x) <= np.abs(columns - at_x).min() + 1e-9


@given(numbers, st.floats(-600, 600), st.floats(0, 300), st.booleans())
def test_a_window_has_all_cells_inside(n: list[int], low: float, length: float, falls: bool) -> None:
    places = np.array(n[::-1] if falls else n, float)
    cells, row = Cells.of(places), Cells.of(np.array([0.0]))
    assert cells is not None
    assert row is not None
    grid = rectilinear(row, cells, (range(1), range(places.size)))
    shown = set(np.unique(grid.cells).tolist())  # a cell that is narrower than a pixel may have none
    inside = {i for i, place in enumerate(places) if low <= place <= low + length}
    e = grid.extent
    window = grid.window(Extent(low, low + length, e.bottom, e.top))
    assert inside & shown <= set(range(*(window or ((0, 0), (0, 0)))[1]))


def test_coordinates_out_of_order_make_no_cells() -> None:
    assert Cells.of(np.array([1.0, 3.0, 2.0])) is None
    assert Cells.of(np.array([1.0, 1.0])) is None


def test_latitudes_end_at_the_poles() -> None:
    cells = Cells.of(np.array([-90.0, 0.0, 90.0]), (-90, 90))
    assert cells is not None
    assert cells.edges.tolist() == [-90, -45, 45, 90]


def distances(lat: np.ndarray, lon: np.ndarray, at_lat: float, at_lon: float) -> np.ndarray:
    """Angles on the sphere, by the haversine."""
    a, b = np.radians(lat), np.radians(at_lat)
    d = np.radians(lon - at_lon)
    h = np.sin((a - b) / 2) ** 2 + np.cos(a) * np.cos(b) * np.sin(d / 2) ** 2
    return 2 * np.arcsin(np.sqrt(np.clip(h, 0, 1)))


def turned(
    lat: np.ndarray, lon: np.ndarray, pole: tuple[float, float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """A grid of latitudes and longitudes, turned about two axes."""
    b, a = np.meshgrid(np.radians(lon), np.radians(lat))
    points = np.stack((np.cos(a) * np.cos(b), np.cos(a) * np.sin(b), np.sin(a)), axis=-1)
    tilt, turn = np.radians(90 - pole[0]), np.radians(pole[1] + pole[2])
    about_y = np.array([[np.cos(tilt), 0, np.sin(tilt)], [0, 1, 0], [-np.sin(tilt), 0, np.cos(tilt)]])
    about_z = np.array([[np.cos(turn), -np.sin(turn), 0], [np.sin(turn), np.cos(turn), 0], [0, 0, 1]])
    x, y, z = np.moveaxis(points @ (about_z @ about_y).T, -1, 0)
    return np.degrees(np.arcsin(z)), np.degrees(np.arctan2(y, x))


def on_globe(lat: np.ndarray, lon: np.ndarray) -> Grid:
    """The grid of points on a map of longitudes and latitudes."""
    locate, margin = locate_points(lat, lon)
    return sampled(locate, tuple(map(range, lat.shape)), globe_extent(lon, lat, margin / 2), Plane(""))


@pytest.mark.parametrize("pole", [(39.25, -162.0, 0.0), (90.0, 180.0, 0.0), (10.0, 5.0, 30.0)])
def test_pixels_on_the_globe_are_those_of_the_nearest_point(pole: tuple[float, float, float]) -> None:
    lat, lon = turned(np.linspace(-20, 20, 21), np.linspace(-30, 30, 31), pole)
    grid = on_globe(lat, lon)
    values = np.ma.arange(lat.size).reshape(lat.shape)
    pixels, e = grid.pixels(values), grid.extent
    high, wide = pixels.shape
    seen = 0
    for i in range(0, high, max(high // 25, 1)):
        for j in range(0, wide, max(wide // 25, 1)):
            at_lat = e.bottom + (i + 0.5) * (e.top - e.bottom) / high
            at_lon = e.left + (j + 0.5) * (e.right - e.left) / wide
            away = distances(lat, lon, at_lat, at_lon)
            if np.ma.is_masked(pixels[i, j]):
                assert np.degrees(away.min()) > 0.9  # half of the spacing of 2 degrees, about
                continue
            seen += 1
            assert away.reshape(-1)[pixels[i, j]] <= away.min() + 1e-9
            found = grid.index_at(at_lon, at_lat)
            assert found is not None
            assert away[found] <= away.min() + 1e-9
    assert seen > 50


def test_a_grid_across_the_date_line_is_in_one_piece() -> None:
    lon, lat = np.meshgrid(np.linspace(170, 190, 21), np.linspace(-10, 10, 21))
    lon = (lon + 180) % 360 - 180
    grid = on_globe(lat, lon)
    assert 169 < grid.extent.left < 170.1
    assert 189.9 < grid.extent.right < 191
    assert np.ma.count_masked(grid.pixels(np.ma.array(lat))) < 0.1 * grid.pixels(np.ma.array(lat)).size
    assert grid.index_at(185.0, 0.0) == (10, 15)
    assert grid.window(Extent(184.8, 185.2, -0.2, 0.2)) in (((10, 11), (15, 16)), ((9, 12), (14, 17)))


def test_points_without_a_place_are_not_shown() -> None:
    lat, lon = np.meshgrid(np.linspace(0, 9, 10), np.linspace(0, 9, 10), indexing="ij")
    lat[0, 0] = np.nan
    lon[5, 5] = 1e20
    grid = on_globe(lat, np.where(lon > 1e10, np.nan, lon))
    shown = set(grid.pixels(np.ma.arange(100).reshape(10, 10)).compressed().tolist())
    assert 0 not in shown
    assert 55 not in shown
    assert {11, 44, 99} <= shown


def test_no_points_at_all() -> None:
    grid = on_globe(np.full((3, 3), np.nan), np.full((3, 3), np.nan))
    assert grid.pixels(np.ma.zeros((3, 3))).count() == 0
    assert grid.index_at(0, 0) is None
    assert grid.window(Extent(0, 1, 0, 1)) is None

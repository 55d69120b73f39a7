"""Map values on grids to the pixels of a raster, and points of the raster to indices.

A raster has pixels of equal size. On grids with unequal cells, and on curvilinear and unstructured grids, each pixel
has the value of the cell that contains it. Values are not interpolated, and pixels outside of all cells are missing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Protocol

import numpy as np

from nczarr.lazy import cached_property

#: Number of pixels along the longer side of a raster of unequal cells.
_PIXELS = 1200
_UNEVEN = 1e-3
#: Maximum distance of a pixel from its nearest point, as a multiple of the distance between neighbouring points.
_REACH = 0.75


@dataclass(frozen=True)
class Extent:
    """The edges of a raster."""

    left: float
    right: float
    bottom: float
    top: float


class Grid(Protocol):
    """The positions of the values of a sample."""

    @property
    def extent(self) -> Extent:
        """The edges of the raster."""

    def pixels(self, values: np.ma.MaskedArray) -> np.ma.MaskedArray:
        """Return the raster of a sample: rows from bottom to top."""

    def index_at(self, x: float, y: float) -> tuple[int, ...] | None:
        """Return the sample index of the cell at a point; None if there is no cell."""

    def place_of(self, index: tuple[int, ...]) -> tuple[float, float]:
        """Return the point (x, y) of a sample index."""

    def window(self, extent: Extent) -> tuple[tuple[int, int], ...] | None:
        """Return start and stop on each axis of the sample for the cells inside an extent; None if there are none."""


@dataclass(frozen=True)
class Cells:
    """Cells along one axis.

    Parameters
    ----------
    centres : ndarray
        Ascending positions of the values; the edges are half-way between them.
    order : {1, -1}
        -1 if the values are in descending order.
    limits : tuple of float, optional
        Minimum and maximum of the edges.
    """

    centres: np.ndarray
    order: int = 1
    limits: tuple[float, float] = (-np.inf, np.inf)

    @classmethod
    def of(cls, numbers: np.ndarray, limits: tuple[float, float] = (-np.inf, np.inf)) -> Cells | None:
        """Return the cells around positions; None if the positions are not strictly monotonic."""
        steps = np.diff(numbers)
        if (steps > 0).all():
            return cls(numbers, 1, limits)
        if (steps < 0).all():
            return cls(numbers[::-1], -1, limits)
        return None

    @property
    def edges(self) -> np.ndarray:
        """The edges of the cells, one more than there are cells."""
        c = self.centres
        if len(c) == 1:
            return np.clip(np.array([c[0] - 0.5, c[0] + 0.5]), *self.limits)
        middle = (c[1:] + c[:-1]) / 2
        return np.clip(
            np.concatenate(([2 * c[0] - middle[0]], middle, [2 * c[-1] - middle[-1]])), *self.limits
        )

    @property
    def is_even(self) -> bool:
        """True if all cells have the same size."""
        sizes = np.diff(self.edges)
        return bool(len(sizes) < 2 or np.ptp(sizes) <= _UNEVEN * abs(sizes).max())

    def at(self, places: np.ndarray) -> np.ndarray:
        """Return the number of the cell at each point, in the order of the values; -1 outside of all cells."""
        edges = self.edges
        found = np.searchsorted(edges, places, side="right") - 1
        inside = (found >= 0) & (found < len(self.centres))
        if self.order < 0:
            found = len(self.centres) - 1 - found
        return np.where(inside, found, -1)

    def pixel_index(self) -> np.ndarray:
        """Return the cell number of each pixel, in ascending order of positions."""
        count = len(self.centres)
        if self.is_even:
            return np.arange(count)[:: self.order]
        edges = self.edges
        smallest = np.diff(edges).min()
        resolved = (edges[-1] - edges[0]) / smallest if smallest > 0 else _PIXELS
        pixels = int(np.clip(np.ceil(resolved) * 2, min(4 * count, _PIXELS), _PIXELS))
        middle = edges[0] + (np.arange(pixels) + 0.5) * ((edges[-1] - edges[0]) / pixels)
        return self.at(middle)

    def window(self, low: float, high: float) -> tuple[int, int] | None:
        """Return start and stop of the cells between two positions; None if there are none."""
        edges = self.edges
        first = max(int(np.searchsorted(edges, low, side="right")) - 1, 0)
        last = min(int(np.searchsorted(edges, high, side="left")), len(self.centres))
        if first >= last:
            return None
        return (first, last) if self.order > 0 else (len(self.centres) - last, len(self.centres) - first)


@dataclass(frozen=True)
class RectilinearGrid:
    """A grid with two orthogonal axes: rows along `y`, columns along `x`."""

    y: Cells
    x: Cells

    @property
    def extent(self) -> Extent:
        """The edges of the raster."""
        across, up = self.x.edges, self.y.edges
        return Extent(float(across[0]), float(across[-1]), float(up[0]), float(up[-1]))

    def pixels(self, values: np.ma.MaskedArray) -> np.ma.MaskedArray:
        """The raster of a sample."""
        return values[np.ix_(self.y.pixel_index(), self.x.pixel_index())]

    def index_at(self, x: float, y: float) -> tuple[int, ...] | None:
        """Return the index of the cell at a point; None if there is no cell."""
        row, column = int(self.y.at(np.array([y]))[0]), int(self.x.at(np.array([x]))[0])
        return None if row < 0 or column < 0 else (row, column)

    def place_of(self, index: tuple[int, ...]) -> tuple[float, float]:
        """Return the centre of a cell."""
        row, column = index
        return float(self.x.centres[:: self.x.order][column]), float(self.y.centres[:: self.y.order][row])

    def window(self, extent: Extent) -> tuple[tuple[int, int], ...] | None:
        """Return start and stop of the rows and columns inside an extent; None if there are none."""
        rows, columns = self.y.window(extent.bottom, extent.top), self.x.window(extent.left, extent.right)
        return None if rows is None or columns is None else (rows, columns)


class GlobeGrid:
    """A curvilinear grid or a list of points on the globe.

    Distances are computed on the sphere, so that the date line and the poles are not edges.

    Parameters
    ----------
    latitude, longitude : ndarray
        Degrees, with one or two axes. Points with a masked coordinate are ignored.
    """

    def __init__(self, latitude: np.ndarray, longitude: np.ndarray) -> None:
        from scipy.spatial import cKDTree

        lat = np.ma.masked_invalid(np.ma.asanyarray(latitude, np.float64))
        lon = np.ma.masked_invalid(np.ma.asanyarray(longitude, np.float64))
        self.shape = lat.shape
        valid = ~(np.ma.getmaskarray(lat) | np.ma.getmaskarray(lon)) & (np.abs(lat.filled(99)) <= 90)
        self._index = np.flatnonzero(valid)
        self._lat = lat.data.reshape(-1)[self._index]
        lon_values = lon.data.reshape(-1)[self._index]
        self._west = _west_end(lon_values) - 1e-5  # _west_end rounds the longitudes
        self._lon = self._west + (lon_values - self._west) % 360
        points = _on_sphere(self._lat, self._lon)
        self._tree = cKDTree(points) if len(points) else None
        self._spacing = self._distances(points, valid)
        self.extent = self._find_extent()

    def _distances(self, points: np.ndarray, valid: np.ndarray) -> np.ndarray:
        """Return the distance from each point to its neighbours, on the unit sphere."""
        if len(points) < 2:
            return np.full(len(points), 0.02)
        if len(self.shape) == 2 and min(self.shape) > 1:
            full = np.full((*self.shape, 3), np.nan)
            full[valid] = points
            widest = np.zeros(self.shape)
            for axis in (0, 1):
                step = np.linalg.norm(np.diff(full, axis=axis), axis=-1)
                step = np.where(np.isfinite(step), step, 0)
                # Limit the distances across a seam of the grid, where adjacent indices are far apart.
                usual = np.median(step[step > 0]) if (step > 0).any() else 0
                step = np.minimum(step, 4 * usual)
                before, after = (np.insert(step, place, 0, axis) for place in (0, step.shape[axis]))
                widest = np.maximum.reduce((widest, before, after))
            return widest[valid]
        assert self._tree is not None
        near, _ = self._tree.query(points, k=min(5, len(points)))
        return np.asarray(near[:, 1:].mean(axis=1) * 1.2)

    def _find_extent(self) -> Extent:
        if not len(self._lat):
            return Extent(-180, 180, -90, 90)
        margin = float(np.degrees(np.median(self._spacing))) / 2
        left, right = float(self._lon.min()) - margin, float(self._lon.max()) + margin
        if right - left > 350:
            left = self._west if -90 <= self._west <= 180 else -180.0
            right = left + 360
        bottom, top = max(float(self._lat.min()) - margin, -90), min(float(self._lat.max()) + margin, 90)
        return Extent(left, right, bottom, top)

    def pixels(self, values: np.ma.MaskedArray) -> np.ma.MaskedArray:
        """The raster of a sample."""
        flat = np.ma.asanyarray(values).reshape(-1)
        if not len(flat):
            return np.ma.array(np.zeros(self._nearest.shape), mask=True)
        return np.ma.masked_where(self._nearest < 0, flat[np.maximum(self._nearest, 0)])

    @cached_property
    def _nearest(self) -> np.ndarray:
        """The number of the point nearest to each pixel; -1 if it is too far away."""
        e = self.extent
        wide, high = max(e.right - e.left, 1e-9), max(e.top - e.bottom, 1e-9)
        # Adapt the number of pixels to the number of points: a coarse grid does not need a fine raster.
        columns = int(np.clip(8 * np.sqrt(len(self._lat) * wide / high), 64, _PIXELS))
        rows = int(np.clip(columns * high / wide, 32, _PIXELS))
        lon = e.left + (np.arange(columns) + 0.5) * (wide / columns)
        lat = e.bottom + (np.arange(rows) + 0.5) * (high / rows)
        if self._tree is None:
            return np.full((rows, columns), -1)
        grid = _on_sphere(*np.broadcast_arrays(lat[:, None], lon[None, :]))
        distance, nearest = self._tree.query(grid.reshape(-1, 3))
        near = distance <= self._spacing[nearest] * _REACH
        return np.where(near, self._index[nearest], -1).reshape(rows, columns)

    def index_at(self, x: float, y: float) -> tuple[int, ...] | None:
        """Return the index of the grid point nearest to a point; None if it is too far away."""
        if self._tree is None:
            return None
        distance, nearest = self._tree.query(_on_sphere(np.array([y]), np.array([x])))
        if distance[0] > max(self._spacing[nearest[0]] * 2, 0.01):
            return None
        return tuple(int(i) for i in np.unravel_index(self._index[nearest[0]], self.shape))

    def place_of(self, index: tuple[int, ...]) -> tuple[float, float]:
        """Return the longitude, in the range of the map, and the latitude of a grid point."""
        found = np.flatnonzero(self._index == np.ravel_multi_index(index, self.shape))
        if not found.size:  # a grid point with masked coordinates
            return np.nan, np.nan
        lon = self.extent.left + (self._lon[found[0]] - self.extent.left) % 360
        return float(lon), float(self._lat[found[0]])

    def window(self, extent: Extent) -> tuple[tuple[int, int], ...] | None:
        """Return start and stop of the rows and columns with points inside an extent; None if there are none."""
        lon = extent.left + (self._lon - extent.left) % 360
        inside = (lon <= extent.right) & (self._lat >= extent.bottom) & (self._lat <= extent.top)
        if not inside.any():
            return None
        places = np.unravel_index(self._index[inside], self.shape)
        # Add one cell on each side, which may be partly visible.
        return tuple((max(int(p.min()) - 1, 0), min(int(p.max()) + 2, n)) for p, n in zip(places, self.shape))


def _on_sphere(latitude: np.ndarray, longitude: np.ndarray) -> np.ndarray:
    lat, lon = np.radians(latitude), np.radians(longitude)
    return np.stack((np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)), axis=-1)


def _west_end(longitude: np.ndarray) -> float:
    """Return the western edge of a map that does not cut the grid: the end of the widest gap between longitudes.

    Examples
    --------
    >>> _west_end(np.array([350.0, 355.0, 5.0, 10.0]))
    -10.0
    """
    if not len(longitude):
        return -180.0
    around = np.unique(np.round(longitude % 360, 6))
    gaps = np.diff(np.concatenate((around, [around[0] + 360])))
    widest = int(np.argmax(gaps))
    if gaps[widest] < 20:  # the grid is global
        return -180.0
    west = float(around[(widest + 1) % len(around)])
    return west - 360 if west > 180 or (west >= 180 and widest == len(around) - 1) else west


def unrotate(
    grid_latitude: np.ndarray, grid_longitude: np.ndarray, pole: tuple[float, float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the two-dimensional latitudes and longitudes of a rotated-pole grid from its axes.

    Examples
    --------
    >>> lat, lon = unrotate(np.array([0.0]), np.array([0.0]), (39.25, -162.0, 0.0))
    >>> round(float(lat[0, 0]), 6), round(float(lon[0, 0]), 6)
    (50.75, 18.0)
    """
    pole_lat, pole_lon = np.radians(pole[0]), pole[1]
    lat = np.radians(np.asarray(grid_latitude, np.float64))[:, None]
    lon = np.radians(np.asarray(grid_longitude, np.float64) + pole[2])[None, :]
    sine = np.sin(pole_lat) * np.sin(lat) + np.cos(pole_lat) * np.cos(lat) * np.cos(lon)
    east = -np.cos(lat) * np.sin(lon)
    north = np.cos(pole_lat) * np.sin(lat) - np.sin(pole_lat) * np.cos(lat) * np.cos(lon)
    true_lat = np.degrees(np.arcsin(np.clip(sine, -1, 1)))
    true_lon = pole_lon + np.degrees(np.arctan2(east, north))
    return true_lat, (true_lon + 180) % 360 - 180


@cache
def _lines() -> tuple[np.ndarray, ...]:
    text = files("nczarr.view.picture").joinpath("coastlines.json").read_text(encoding="utf-8")
    return tuple(np.array(line) for line in json.loads(text)["coordinates"])


def coastlines(extent: Extent) -> list[np.ndarray]:
    """Return the coastlines that cross an extent, as arrays of (longitude, latitude) in the extent's longitude range.

    Examples
    --------
    >>> len(coastlines(Extent(-30, -20, -5, 5)))  # the middle of the Atlantic
    0
    >>> all(line[:, 0].max() > 180 for line in coastlines(Extent(190, 300, -60, 60)))
    True
    """
    found = []
    turns = range(int(np.floor((extent.left - 180) / 360)), int(np.ceil((extent.right + 180) / 360)) + 1)
    for line in _lines():
        low, high = line.min(axis=0), line.max(axis=0)
        if high[1] < extent.bottom or low[1] > extent.top:
            continue
        for turn in turns:
            shift = 360 * turn
            if high[0] + shift >= extent.left and low[0] + shift <= extent.right:
                found.append(line + np.array([shift, 0]))
    return found

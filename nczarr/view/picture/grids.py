"""Map values on grids to the pixels of a raster, and points of the raster to indices.

A raster has pixels of equal size in the plane of a picture. On grids with unequal cells, on curvilinear and
unstructured grids, and in other projections, each pixel has the value of the cell that contains it. Values are not
interpolated, and pixels outside of all cells are missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TypeVar

import numpy as np

from nczarr.lazy import cached_property
from nczarr.view.planes import Plane

#: Number of pixels along the longer side of a raster of unequal cells.
_PIXELS = 1200
_UNEVEN = 1e-3
#: Maximum distance of a pixel from its nearest point, as a multiple of the distance between neighbouring points.
_REACH = 0.75
#: Degrees between the lines of latitude and longitude in a projection.
_GRATICULE = 15
#: Longest piece of a line that a projection does not cut: metres, or degrees on a rotated pole.
_LONGEST, _LONGEST_DEGREES = 2e6, 20.0
_N = TypeVar("_N", float, np.ndarray)
#: The flat index of the sample for points (longitude, latitude), or -1.
Locate = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Extent:
    """The edges of a raster."""

    left: float
    right: float
    bottom: float
    top: float

    @classmethod
    def around(cls, x: np.ndarray, y: np.ndarray, margin: float = 0.0) -> Extent:
        """Return the extent of the points that are finite."""
        fine = np.isfinite(x) & np.isfinite(y)
        if not fine.any():
            return cls(-1.0, 1.0, -1.0, 1.0)
        x, y = x[fine], y[fine]
        margin = margin or (1e-6 if np.ptp(x) and np.ptp(y) else 0.5)
        return cls(
            *(float(n) for n in (x.min() - margin, x.max() + margin, y.min() - margin, y.max() + margin))
        )

    def pixels(self, columns: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
        """Return x of the middle of each column, and y of the middle of each row from the bottom."""
        x = self.left + (np.arange(columns) + 0.5) * ((self.right - self.left) / columns)
        return x, self.bottom + (np.arange(rows) + 0.5) * ((self.top - self.bottom) / rows)

    def size(self, most: float = _PIXELS) -> tuple[int, int]:
        """Return columns and rows of a raster with square pixels."""
        wide, high = max(self.right - self.left, 1e-9), max(self.top - self.bottom, 1e-9)
        columns, rows = (int(np.clip(most * side / max(wide, high), 8, _PIXELS)) for side in (wide, high))
        return columns, rows


@dataclass(frozen=True, eq=False)
class Grid:
    """A raster of cells.

    Parameters
    ----------
    extent : Extent
    cells : ndarray
        Flat index into the sample for each pixel, with rows from the bottom; -1 outside of all cells.
    shape : tuple of int
        Shape of the sample.
    plane : Plane or None
        None for pictures that are not maps.
    """

    extent: Extent
    cells: np.ndarray
    shape: tuple[int, ...]
    plane: Plane | None = None

    @cached_property
    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """Longitude and latitude of each pixel of a map."""
        return (self.plane or Plane()).locate(*np.meshgrid(*self.extent.pixels(*self.cells.shape[::-1])))

    def pixels(self, values: np.ma.MaskedArray) -> np.ma.MaskedArray:
        """The raster of a sample."""
        flat = np.ma.asanyarray(values).reshape(-1)
        if not flat.size:
            return np.ma.array(np.zeros(self.cells.shape), mask=True)
        return np.ma.masked_where(self.cells < 0, flat[np.maximum(self.cells, 0)])

    def index_at(self, x: float, y: float) -> tuple[int, ...] | None:
        """Return the sample index of the cell at a point; None if there is no cell."""
        row, column = self.pixel_of(x, y)
        if not (0 <= row < self.cells.shape[0] and 0 <= column < self.cells.shape[1]):
            return None
        cell = self.cells[int(row), int(column)]
        return None if cell < 0 else tuple(int(i) for i in np.unravel_index(cell, self.shape))

    def place_of(self, index: tuple[int, ...]) -> tuple[float, float] | None:
        """Return the middle (x, y) of the pixels of a sample index; None if it has no pixels."""
        rows, columns = np.nonzero(self.cells == np.ravel_multi_index(index, self.shape))
        if not rows.size:
            return None
        x, y = self.extent.pixels(*self.cells.shape[::-1])
        return float(x[columns].mean()), float(y[rows].mean())

    def window(self, extent: Extent) -> tuple[tuple[int, int], ...] | None:
        """Return start and stop on each axis of the sample for the cells inside an extent; None if there are none."""
        rows, columns = (
            slice(max(int(np.floor(low)), 0), max(int(np.ceil(high)), 0))
            for low, high in zip(
                self.pixel_of(extent.left, extent.bottom), self.pixel_of(extent.right, extent.top)
            )
        )
        found = np.unique(self.cells[rows, columns])
        found = found[found >= 0]
        if not found.size:
            return None
        return tuple((int(i.min()), int(i.max()) + 1) for i in np.unravel_index(found, self.shape))

    def pixel_of(self, x: _N, y: _N) -> tuple[_N, _N]:
        """Return row and column of points, which may be outside."""
        e, (rows, columns) = self.extent, self.cells.shape
        return (y - e.bottom) / (e.top - e.bottom) * rows, (x - e.left) / (e.right - e.left) * columns


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
        return self.at(edges[0] + (np.arange(pixels) + 0.5) * ((edges[-1] - edges[0]) / pixels))


def rectilinear(y: Cells, x: Cells, plane: Plane | None = None) -> Grid:
    """Return the grid of two orthogonal axes: rows along `y`, columns along `x`."""
    across, up = x.edges, y.edges
    extent = Extent(float(across[0]), float(across[-1]), float(up[0]), float(up[-1]))
    shape = (len(y.centres), len(x.centres))
    return Grid(extent, y.pixel_index()[:, None] * shape[1] + x.pixel_index(), shape, plane)


def locate_on_axes(y: Cells, x: Cells, plane: Plane) -> Locate:
    """Return a function that finds the cells of two axes of a plane; longitudes recur each 360 degrees."""
    west = x.edges[0]

    def locate(longitude: np.ndarray, latitude: np.ndarray) -> np.ndarray:
        across, up = plane.project(longitude, latitude)
        rows = y.at(up)
        columns = x.at(across if plane.definition else west + (across - west) % 360)
        return np.where((rows < 0) | (columns < 0), -1, rows * len(x.centres) + columns)

    return locate


def locate_points(latitude: np.ndarray, longitude: np.ndarray) -> tuple[Locate, float]:
    """Return a function that finds the nearest of points on the globe, and the usual distance between them in degrees.

    Distances are computed on the sphere, so that the date line and the poles are not edges. The search ends at the
    distance of neighbouring points, because most pixels around a swath are far from all points.

    Parameters
    ----------
    latitude, longitude : ndarray
        Degrees, with one or two axes. Points with a masked coordinate are ignored.
    """
    from scipy.spatial import cKDTree

    valid = np.isfinite(latitude) & np.isfinite(longitude) & (np.abs(latitude) <= 90)
    index = np.flatnonzero(valid)
    points = _on_sphere(latitude[valid], longitude[valid])
    if not len(points):
        return lambda longitude, latitude: np.full(longitude.shape, -1), 1.0
    tree = cKDTree(points)
    spacing = _spacing(points, valid, tree)

    def locate(longitude: np.ndarray, latitude: np.ndarray) -> np.ndarray:
        fine = np.isfinite(longitude) & np.isfinite(latitude)
        found = np.full(fine.shape, -1)
        reach = spacing.max() * _REACH
        distance, nearest = tree.query(
            _on_sphere(latitude[fine], longitude[fine]), distance_upper_bound=reach
        )
        near = np.minimum(nearest, len(index) - 1)
        found[fine] = np.where(distance <= spacing[near] * _REACH, index[near], -1)
        return found

    return locate, float(np.degrees(np.median(spacing)))


def _spacing(points: np.ndarray, valid: np.ndarray, tree: object) -> np.ndarray:
    """Return the distance from each point to its neighbours, on the unit sphere."""
    if len(points) < 2:
        return np.full(len(points), 0.02)
    if valid.ndim == 2 and min(valid.shape) > 1:
        full = np.full((*valid.shape, 3), np.nan)
        full[valid] = points
        widest = np.zeros(valid.shape)
        for axis in (0, 1):
            step = np.linalg.norm(np.diff(full, axis=axis), axis=-1)
            step = np.where(np.isfinite(step), step, 0)
            # Limit the distances across a seam of the grid, where adjacent indices are far apart.
            usual = np.median(step[step > 0]) if (step > 0).any() else 0
            step = np.minimum(step, 4 * usual)
            before, after = (np.insert(step, place, 0, axis) for place in (0, step.shape[axis]))
            widest = np.maximum.reduce((widest, before, after))
        return widest[valid]
    near, _ = tree.query(points, k=min(5, len(points)))  # type: ignore[attr-defined]
    mean = near[:, 1:].mean(axis=1) * 1.2
    # Points of a track are shown at least as dots; single points far from all others do not cover the globe.
    usual = float(np.median(mean))
    return np.clip(mean, usual / 2, 4 * usual)


def sampled(
    locate: Locate, shape: tuple[int, ...], extent: Extent, plane: Plane, most: float = _PIXELS
) -> Grid:
    """Return the grid of a plane whose pixels `locate` finds by longitude and latitude."""
    x, y = extent.pixels(*extent.size(most))
    return Grid(extent, locate(*plane.locate(*np.meshgrid(x, y))), shape, plane)


def polygons(
    x: np.ndarray, y: np.ndarray, nodes: np.ndarray, count: int, extent: Extent, plane: Plane
) -> Grid:
    """Return the grid of the polygons of a mesh.

    Parameters
    ----------
    x, y : ndarray
        Corners of each face in the plane; NaN beyond the last corner.
    nodes : ndarray
        Node number of each corner for values on nodes: a pixel has the value of the nearest corner of its face. An
        array without elements for values on faces.
    count : int
        Number of values.
    """
    from PIL import Image, ImageDraw

    columns, rows = extent.size()
    e, turn = extent, 0.0 if plane.definition else 360.0
    across, up = (x - e.left) * (columns / (e.right - e.left)), (y - e.bottom) * (rows / (e.top - e.bottom))
    image = Image.new("I", (columns, rows), -1)
    draw = ImageDraw.Draw(image)
    corners = np.stack((across, up), axis=-1)
    wide = np.nan_to_num(np.nanmax(across, axis=1) - np.nanmin(across, axis=1), nan=np.inf)
    fine = np.isfinite(x[:, :3]).all(axis=1) & np.isfinite(y[:, :3]).all(axis=1)
    fine &= wide < columns / 2  # a face across the cut of a projection has no shape there
    turned = np.array([turn * columns / (e.right - e.left), 0.0])
    for number in np.flatnonzero(fine):
        corner = corners[number][np.isfinite(corners[number, :, 0])]
        draw.polygon((corner - 0.5).ravel().tolist(), fill=int(number))
        if turn and corner[:, 0].max() > columns:  # across the date line: the other end of the map too
            draw.polygon((corner - 0.5 - turned).ravel().tolist(), fill=int(number))
    faces = np.asarray(image)
    if nodes.size:
        px, py = np.meshgrid(*e.pixels(columns, rows))
        inside = faces >= 0
        face = faces[inside]
        away = (
            (px[inside, None] - x[face] + turn / 2) % turn - turn / 2 if turn else px[inside, None] - x[face]
        )
        nearest = np.nanargmin(away**2 + (py[inside, None] - y[face]) ** 2, axis=1)
        faces = np.full(faces.shape, -1)
        faces[inside] = nodes[face, nearest]
    return Grid(extent, faces, (count,), plane)


def _on_sphere(latitude: np.ndarray, longitude: np.ndarray) -> np.ndarray:
    lat, lon = np.radians(latitude), np.radians(longitude)
    return np.stack((np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)), axis=-1)


def globe_extent(longitude: np.ndarray, latitude: np.ndarray, margin: float = 0.0) -> Extent:
    """Return the extent of a map of longitudes and latitudes; it is cut where the data have their widest gap.

    Examples
    --------
    >>> globe_extent(np.array([350.0, 10.0]), np.array([0.0, 5.0]), 0.5)
    Extent(left=-10.5, right=10.5, bottom=-0.5, top=5.5)
    """
    fine = np.isfinite(longitude) & np.isfinite(latitude) & (np.abs(latitude) <= 90)
    if not fine.any():
        return Extent(-180, 180, -90, 90)
    longitude, latitude = longitude[fine], latitude[fine]
    west = west_end(longitude) - 1e-5  # the longitudes are rounded
    lon = west + (longitude - west) % 360
    e = Extent.around(lon, latitude, margin)
    if e.right - e.left > 350:
        left = west if -90 <= west <= 180 else -180.0
        e = Extent(left, left + 360, e.bottom, e.top)
    return Extent(round(e.left, 4), round(e.right, 4), max(e.bottom, -90.0), min(e.top, 90.0))


def west_end(longitude: np.ndarray) -> float:
    """Return the western edge of a map that does not cut the grid: the end of the widest gap between longitudes.

    Examples
    --------
    >>> west_end(np.array([350.0, 355.0, 5.0, 10.0]))
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


def projected(lines: list[np.ndarray], plane: Plane, extent: Extent) -> list[np.ndarray]:
    """Return lines of (longitude, latitude) in a projection, broken where it cuts them."""
    found = []
    longest = (
        _LONGEST if max(extent.right - extent.left, extent.top - extent.bottom) > 720 else _LONGEST_DEGREES
    )
    for line in lines:
        x, y = plane.project(line[:, 0], line[:, 1])
        cut = ~(np.hypot(np.diff(x), np.diff(y)) < longest)
        parts = np.split(np.stack((x, y), axis=-1), np.flatnonzero(cut) + 1)
        found += [part for part in parts if len(part) > 1]
    return found


def map_lines(plane: Plane, extent: Extent) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the coastlines of a map, and the lines of latitude and longitude, which only a projection has."""
    if not plane.definition:
        return coastlines(extent), []
    step, fine = _GRATICULE, np.arange(-180, 181, 1.0)
    lines = [np.stack((fine, np.full(361, float(lat))), axis=-1) for lat in range(-90 + step, 90, step)]
    lines += [np.stack((np.full(181, float(lon)), fine[90:271]), axis=-1) for lon in range(-180, 180, step)]
    return projected(list(_lines()), plane, extent), projected(lines, plane, extent)

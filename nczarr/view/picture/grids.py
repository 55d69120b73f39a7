"""Map values on grids to the pixels of a raster, and points of the raster to indices.

A raster has pixels of equal size in the plane of a picture. On grids with unequal cells, on curvilinear and
unstructured grids, and in other projections, each pixel has the value of the cell that contains it. Values are not
interpolated, and pixels outside of all cells are missing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from nczarr.lazy import cached_property
from nczarr.view.planes import Plane

if TYPE_CHECKING:
    from scipy.spatial import cKDTree

#: Number of pixels along the longer side of a raster of unequal cells.
_PIXELS = 1200
_UNEVEN = 1e-3
#: Maximum distance of a pixel from its nearest point, as a multiple of the distance between neighbouring points.
_REACH = 0.75
_N = TypeVar("_N", float, np.ndarray)
#: The flat index of the sample for points (longitude, latitude), or -1.
Locate = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Extent(NamedTuple):
    """The edges of a raster."""

    left: float
    right: float
    bottom: float
    top: float

    @classmethod
    def around(cls, x: np.ndarray, y: np.ndarray, margin: float = 0.0) -> Extent:
        """Return the extent of the points that are finite."""
        fine = np.isfinite(x) & np.isfinite(y)
        # A projection may show none of the places.
        if not fine.any():
            return cls(-1.0, 1.0, -1.0, 1.0)
        x, y = x[fine], y[fine]
        margin = margin or (1e-6 if np.ptp(x) and np.ptp(y) else 0.5)
        return cls(*(float(end) for n in (x, y) for end in (n.min() - margin, n.max() + margin)))

    def contains(self, x: float, y: float) -> bool:
        """Return whether a point is inside."""
        return self.left <= x < self.right and self.bottom <= y < self.top

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
    parts : tuple of range
        The indices on each drawn axis that the sample has.
    plane : Plane or None
        None for pictures that are not maps.
    """

    extent: Extent
    cells: np.ndarray
    parts: tuple[range, ...]
    plane: Plane | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the sample."""
        return tuple(map(len, self.parts))

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
        """Return the indices on the drawn axes of the cell at a point; None if there is no cell."""
        row, column = self.pixel_of(x, y)
        inside = 0 <= row < self.cells.shape[0] and 0 <= column < self.cells.shape[1]
        cell = self.cells[int(row), int(column)] if inside else -1
        found = zip(self.parts, np.unravel_index(max(cell, 0), self.shape))
        return None if cell < 0 else tuple(part[i] for part, i in found)

    def place_of(self, index: tuple[int, ...]) -> tuple[float, float] | None:
        """Return the middle (x, y) of the pixels nearest to indices on the drawn axes; None if there are none."""
        inside = [(i - part.start) // part.step for part, i in zip(self.parts, index)]
        if not all(0 <= i < size for i, size in zip(inside, self.shape)):
            return None
        rows, columns = np.nonzero(self.cells == np.ravel_multi_index(inside, self.shape))
        x, y = self.extent.pixels(*self.cells.shape[::-1])
        return (float(x[columns].mean()), float(y[rows].mean())) if rows.size else None

    def window(self, extent: Extent) -> tuple[tuple[int, int], ...] | None:
        """Return start and stop on each drawn axis for the cells inside an extent; None if there are none.

        One cell more on each side: a cell of an overview stands for the middle of those that it leaves out, so the
        window would end half a stride inside the extent, and so does the raster of the overview.
        """
        lows, highs = self.pixel_of(extent.left, extent.bottom), self.pixel_of(extent.right, extent.top)
        ends = zip((np.floor(lows) - 1).clip(0).astype(int), (np.ceil(highs) + 1).clip(0).astype(int))
        rows, columns = (slice(low, high) for low, high in ends)
        found = np.unique(self.cells[rows, columns])
        inside = np.unravel_index(found[found >= 0], self.shape)
        if not inside[0].size:
            return None
        return tuple(
            (max(p[i.min()] - p.step, p.start), min(p[i.max()] + 2 * p.step, p.stop))
            for p, i in zip(self.parts, inside)
        )

    def pixel_of(self, x: _N, y: _N) -> tuple[_N, _N]:
        """Return row and column of points, which may be outside."""
        e, (rows, columns) = self.extent, self.cells.shape
        return (y - e.bottom) / (e.top - e.bottom) * rows, (x - e.left) / (e.right - e.left) * columns


@dataclass(frozen=True)
class Cells:
    """Cells along one axis; the edges are half-way between the positions of the values.

    Parameters
    ----------
    edges : ndarray
        Ascending edges, one more than there are cells.
    order : {1, -1}
        -1 if the values are in descending order.
    """

    edges: np.ndarray
    order: int = 1

    @classmethod
    def of(cls, numbers: np.ndarray, limits: tuple[float, float] = (-np.inf, np.inf)) -> Cells | None:
        """Return the cells around positions, between limits; None if the positions are not strictly monotonic."""
        order = -1 if len(numbers) > 1 and numbers[1] < numbers[0] else 1
        c = numbers[::order]
        if not (np.diff(c) > 0).all():
            return None
        middle = (c[1:] + c[:-1]) / 2
        middle = middle if len(c) > 1 else np.array([c[0] - 0.5, c[0] + 0.5])
        ends = [2 * c[0] - middle[0]], [2 * c[-1] - middle[-1]]
        edges = np.concatenate((ends[0], middle, ends[1])) if len(c) > 1 else middle
        return cls(np.clip(edges, *limits), order)

    def __len__(self) -> int:
        return len(self.edges) - 1

    def at(self, places: np.ndarray) -> np.ndarray:
        """Return the number of the cell at each point, in the order of the values; -1 outside of all cells."""
        found = np.searchsorted(self.edges, places, side="right") - 1
        inside = (found >= 0) & (found < len(self))
        return np.where(inside, found if self.order > 0 else len(self) - 1 - found, -1)

    def pixel_index(self) -> np.ndarray:
        """Return the cell number of each pixel, in ascending order of positions."""
        sizes, length = np.diff(self.edges), self.edges[-1] - self.edges[0]
        if len(self) < 2 or np.ptp(sizes) <= _UNEVEN * sizes.max():
            return np.arange(len(self))[:: self.order]
        resolved = length / sizes.min() if sizes.min() > 0 else _PIXELS
        pixels = int(np.clip(np.ceil(resolved) * 2, min(4 * len(self), _PIXELS), _PIXELS))
        return self.at(self.edges[0] + (np.arange(pixels) + 0.5) * (length / pixels))


def rectilinear(y: Cells, x: Cells, parts: tuple[range, ...], plane: Plane | None = None) -> Grid:
    """Return the grid of two orthogonal axes: rows along `y`, columns along `x`."""
    extent = Extent(*(float(n) for edges in (x.edges, y.edges) for n in (edges[0], edges[-1])))
    return Grid(extent, y.pixel_index()[:, None] * len(x) + x.pixel_index(), parts, plane)


def locate_on_axes(y: Cells, x: Cells, plane: Plane) -> Locate:
    """Return a function that finds the cells of two axes of a plane; longitudes recur each 360 degrees."""
    west = x.edges[0]

    def locate(longitude: np.ndarray, latitude: np.ndarray) -> np.ndarray:
        across, up = plane.project(longitude, latitude)
        rows = y.at(up)
        columns = x.at(across if plane.definition else west + (across - west) % 360)
        return np.where((rows < 0) | (columns < 0), -1, rows * len(x) + columns)

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
    if not len(index):
        return lambda longitude, latitude: np.full(longitude.shape, -1), 1.0
    points = _on_sphere(latitude[valid], longitude[valid])
    tree = cKDTree(points)
    is_grid = min(valid.shape) > 1 < valid.ndim
    reach = _REACH * (_spacing_on_grid(points, valid) if is_grid else _spacing(points, tree))

    def locate(longitude: np.ndarray, latitude: np.ndarray) -> np.ndarray:
        fine = np.isfinite(longitude) & np.isfinite(latitude)
        found = np.full(fine.shape, -1)
        places = _on_sphere(latitude[fine], longitude[fine])
        # The bound ends the search early: pixels far from all points are empty.
        distance, nearest = tree.query(places, distance_upper_bound=reach.max())
        near = np.minimum(nearest, len(index) - 1)
        found[fine] = np.where(distance <= reach[near], index[near], -1)
        return found

    return locate, float(np.degrees(np.median(reach)) / _REACH)


def _spacing_on_grid(points: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Return the distance from each point to its neighbours on two axes, on the unit sphere."""
    full = np.full((*valid.shape, 3), np.nan)
    full[valid] = points
    widest = np.zeros(valid.shape)
    for axis in (0, 1):
        step = np.nan_to_num(np.linalg.norm(np.diff(full, axis=axis), axis=-1))
        # Limit the distances across a seam of the grid, where adjacent indices are far apart.
        step = np.minimum(step, 4 * np.median(step[step > 0])) if step.any() else step
        before, after = (np.insert(step, place, 0, axis) for place in (0, step.shape[axis]))
        widest = np.maximum.reduce((widest, before, after))
    return widest[valid]


def _spacing(points: np.ndarray, tree: cKDTree) -> np.ndarray:
    """Return the distance from each point of a track to its neighbours, on the unit sphere."""
    if len(points) < 2:
        return np.full(len(points), 0.02)
    mean = tree.query(points, k=min(5, len(points)))[0][:, 1:].mean(axis=1) * 1.2
    # Points of a track are shown at least as dots; single points far from all others do not cover the globe.
    return np.clip(mean, np.median(mean) / 2, 4 * np.median(mean))


def sampled(locate: Locate, parts: tuple[range, ...], extent: Extent, plane: Plane) -> Grid:
    """Return the grid of a plane whose pixels `locate` finds by longitude and latitude."""
    wide, high = extent.right - extent.left, extent.top - extent.bottom
    # Adapt the number of pixels to the number of values: a coarse grid does not need a fine raster.
    most = np.sqrt(np.prod([len(part) for part in parts]) * max(wide / high, high / wide)) * 8
    columns, rows = extent.size(float(np.clip(most, 600 if plane.definition else 64, 1000)))
    return Grid(extent, locate(*plane.locate(*np.meshgrid(*extent.pixels(columns, rows)))), parts, plane)


def polygons(
    x: np.ndarray, y: np.ndarray, nodes: np.ndarray, parts: tuple[range, ...], extent: Extent, plane: Plane
) -> Grid:
    """Return the grid of the polygons of a mesh.

    Parameters
    ----------
    x, y : ndarray
        Corners of each face in the plane; NaN beyond the last corner.
    nodes : ndarray
        Node number of each corner for values on nodes: a pixel has the value of the nearest corner of its face. An
        array without elements for values on faces.
    parts : tuple of range
        The indices of the values.
    """
    from PIL import Image, ImageDraw

    (columns, rows), e = extent.size(), extent
    # The map of longitudes shows a face across its end at the other end too.
    turns = (0.0,) if plane.definition else (0.0, 360.0)
    scale = np.array([columns / (e.right - e.left), rows / (e.top - e.bottom)])
    corners = np.stack((x - e.left, y - e.bottom), axis=-1) * scale - 0.5
    wide = np.ptp(np.where(np.isnan(x), x[:, :1], x), axis=1) * scale[0]
    fine = np.isfinite(corners[:, :3]).all(axis=(1, 2)) & (wide < columns / 2)  # no cut of a projection
    image = Image.new("I", (columns, rows), -1)
    draw = ImageDraw.Draw(image)
    for turn in turns:
        for number in np.flatnonzero(
            fine & (np.nanmax(corners[..., 0], axis=1) > (columns if turn else -np.inf))
        ):
            corner = corners[number][np.isfinite(corners[number, :, 0])] - (turn * scale[0], 0)
            draw.polygon(corner.ravel().tolist(), fill=int(number))
    faces = np.array(image)
    if nodes.size:
        inside = faces >= 0
        face, (px, py) = faces[inside], (n[inside][:, None] for n in np.meshgrid(*e.pixels(columns, rows)))
        away = px - x[face]
        away = away if plane.definition else (away + 180) % 360 - 180
        node = nodes[face, np.nanargmin(away**2 + (py - y[face]) ** 2, axis=1)]
        faces[inside] = np.where((node >= 0) & (node < len(parts[0])), node, -1)
    return Grid(extent, faces, parts, plane)


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
    around = np.unique(np.round(longitude[fine] % 360, 6))
    gaps = np.diff(around, append=around[0] + 360)
    after_widest = float(around[(np.argmax(gaps) + 1) % len(around)])
    west = (after_widest + 180) % 360 - 180 if gaps.max() >= 20 else -180.0  # else the grid is global
    west -= 1e-5  # the longitudes are rounded
    e = Extent.around(west + (longitude[fine] - west) % 360, latitude[fine], margin)
    left, right = (-180, 180) if e.right - e.left > 350 else (round(e.left, 4), round(e.right, 4))
    return Extent(left, right, max(e.bottom, -90.0), min(e.top, 90.0))

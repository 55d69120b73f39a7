"""Draw the lines of a map: coastlines, and lines of latitude and longitude with their numbers."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from nczarr.errors import UnsupportedError
from nczarr.system.failures import system_error
from nczarr.text import missing_package
from nczarr.view.picture.grids import Extent
from nczarr.view.planes import Plane

#: Degrees between the lines of latitude and longitude in a projection, from the finest to the coarsest.
_STEPS = (1, 2, 5, 10, 15, 30)
#: Smallest part of the side of a map between two numbers of lines.
_APART = 0.06
#: Longest piece of a line that a projection does not cut: metres, or degrees on a rotated pole.
_LONGEST, _LONGEST_DEGREES = 2e6, 20.0
#: Lines of (longitude, latitude).
Lines = tuple[np.ndarray, ...]


@cache
def world_coast() -> Lines:
    """Return the coastlines of the world at 1:110 million, of Natural Earth."""
    text = files("nczarr.view.picture").joinpath("coastlines.json").read_text(encoding="utf-8")
    return tuple(np.array(line) for line in json.loads(text)["coordinates"])


def read_coast(path: str | Path) -> Lines:
    """Return the lines of a GeoJSON file or of a shapefile, such as those of Natural Earth or GSHHG.

    Raises
    ------
    NCZarrError
        If there is no such file, it has no lines, or the reader of shapefiles is not installed.
    """
    path = Path(path)
    is_shapes = path.suffix.lower() == ".shp"
    try:
        lines = _shapes(path) if is_shapes else [*_geometries(json.loads(path.read_bytes()))]
    except OSError as error:
        raise system_error("read", str(path), error) from error
    # The reader of shapefiles raises what its parsing raises, and a file of JSON may have any form.
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, struct.error) as error:
        hint = "give a file .geojson or .shp"
        raise UnsupportedError(f"no lines can be read: {error}", path=str(path), hint=hint) from error
    found = tuple(line[:, :2] for line in lines if line.ndim == 2 and line.shape[0] > 1)
    if not found:
        raise UnsupportedError("there are no lines", path=str(path), hint="give lines or polygons of a coast")
    return found


def _shapes(path: Path) -> list[np.ndarray]:
    try:
        import shapefile
    except ImportError:
        hint = missing_package("pyshp", "view")
        raise UnsupportedError("reading a shapefile needs pyshp", path=str(path), hint=hint) from None
    path.stat()  # pyshp names a file that is not there by its stem
    try:
        with shapefile.Reader(str(path)) as reader:
            shapes = [(np.asarray(s.points, float), [*s.parts, len(s.points)]) for s in reader.iterShapes()]
    except shapefile.ShapefileException as error:
        raise ValueError(str(error)) from error
    return [points[begin:end] for points, ends in shapes for begin, end in pairwise(ends)]


def _geometries(item: Any) -> Iterator[np.ndarray]:
    """Yield the lines and the rings of an object of GeoJSON."""
    for inner in (*item.get("features", ()), *item.get("geometries", ()), item.get("geometry")):
        if inner is not None:
            yield from _geometries(inner)
    depth = {"LineString": 0, "MultiLineString": 1, "Polygon": 1, "MultiPolygon": 2}.get(item["type"])
    if depth is not None:
        yield from _lines_in(item["coordinates"], depth)


def _lines_in(parts: Any, depth: int) -> Iterator[np.ndarray]:
    if depth == 0:
        yield np.array([point[:2] for point in parts], float).reshape(-1, 2)
        return
    for part in parts:
        yield from _lines_in(part, depth - 1)


def coastlines(extent: Extent, coast: Lines | None = None) -> list[np.ndarray]:
    """Return the coastlines that cross an extent, as arrays of (longitude, latitude) in the extent's longitude range.

    Examples
    --------
    >>> len(coastlines(Extent(-30, -20, -5, 5)))  # the middle of the Atlantic
    0
    >>> all(line[:, 0].max() > 180 for line in coastlines(Extent(190, 300, -60, 60)))
    True
    """
    e = extent
    turns = range(int(np.floor((e.left - 180) / 360)), int(np.ceil((e.right + 180) / 360)) + 1)
    lines = (line + np.array([360 * turn, 0]) for line in coast or world_coast() for turn in turns)
    ends = ((line, *line.min(axis=0), *line.max(axis=0)) for line in lines)
    return [li for li, w, s, e_, n in ends if w <= e.right and e_ >= e.left and s <= e.top and n >= e.bottom]


def projected(lines: Sequence[np.ndarray], plane: Plane, extent: Extent) -> list[np.ndarray]:
    """Return lines of (longitude, latitude) in a projection, broken where it cuts them."""
    found = []
    longest = _LONGEST if extent.right - extent.left > 720 else _LONGEST_DEGREES
    for line in lines:
        x, y = plane.project(line[:, 0], line[:, 1])
        cut = ~(np.hypot(np.diff(x), np.diff(y)) < longest)
        parts = np.split(np.stack((x, y), axis=-1), np.flatnonzero(cut) + 1)
        found += [part for part in parts if len(part) > 1]
    return found


def map_lines(
    plane: Plane, extent: Extent, coast: Lines | None = None
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the coastlines of a map, and the lines of latitude and longitude, which only a projection has."""
    if not plane.definition:
        return coastlines(extent, coast), []
    graticule = [line for _, _, line in _graticule(plane, extent)]
    return projected(coast or world_coast(), plane, extent), projected(graticule, plane, extent)


def _graticule(plane: Plane, extent: Extent) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield the direction, the number and the points of each line of latitude and longitude."""
    _, lat = plane.locate(*np.meshgrid(*extent.pixels(40, 40)))
    seen = lat[np.isfinite(lat)]
    height = float(np.ptp(seen)) if seen.size else 180.0
    step = next((s for s in _STEPS if height / s <= 6), _STEPS[-1])
    fine = np.arange(-180, 180 + step / 2, min(step / 8, 1.0))
    for number in range(-90 + step, 90, step):
        yield (
            "y",
            f"{abs(number)}°{'SN'[number > 0] if number else ''}",
            np.stack((fine, np.full(fine.size, float(number))), axis=-1),
        )
    up = fine[np.abs(fine) <= 90]
    for number in range(-180, 180, step):
        name = f"{abs(number)}°{'WE'[number > 0] if number not in (0, -180) else ''}"
        yield "x", name, np.stack((np.full(up.size, float(number)), up), axis=-1)


def line_numbers(
    plane: Plane, extent: Extent
) -> tuple[tuple[tuple[float, str], ...], tuple[tuple[float, str], ...]]:
    """Return positions and numbers of lines on the axes x and y of a projection: where a line meets a side of the map.

    Lines that meet it too near to each other, as meridians at a pole, have no numbers.
    """
    e, found = extent, {"x": list[tuple[float, str]](), "y": list[tuple[float, str]]()}
    for direction, name, line in _graticule(plane, extent):
        x, y = plane.project(line[:, 0], line[:, 1])
        inside = (x >= e.left) & (x <= e.right) & (y >= e.bottom) & (y <= e.top)
        if not inside.any():
            continue
        x, y = x[inside], y[inside]
        place = float(x[np.argmin(y)] if direction == "x" else y[np.argmin(x)])
        found[direction].append((place, name))
    return _lonely(found["x"], _APART * (e.right - e.left)), _lonely(found["y"], _APART * (e.top - e.bottom))


def _lonely(numbers: list[tuple[float, str]], apart: float) -> tuple[tuple[float, str], ...]:
    """Return the numbers that no other one is near to."""
    return tuple(
        (place, name)
        for place, name in sorted(numbers)
        if sum(abs(place - other) < apart for other, _ in numbers) == 1
    )

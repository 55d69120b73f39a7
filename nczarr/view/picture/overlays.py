"""Compute what is drawn above a picture: contours of its values, and arrows of a pair of vector components."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nczarr.model.coordinates import text_of
from nczarr.view.opened import OpenedDataset, is_drawable
from nczarr.view.picture.colours import Colours
from nczarr.view.picture.drawer import Drawer
from nczarr.view.picture.drawings import Picture

#: Number of contours, and of arrows along the longer side.
_LEVELS, _ARROWS = 10, 28
_PAIRS = (("eastward", "northward"), ("x_wind", "y_wind"), ("_x_", "_y_"), ("zonal", "meridional"))
_COMPONENT = re.compile(r"u(?![a-z]{3})|.*_u(?=$|_)|.*u$", re.IGNORECASE)


def find_vector(opened: OpenedDataset, fqn: str) -> tuple[str, str] | None:
    """Return the components of a vector on the dimensions of a variable, eastward first; its own pair before others.

    Examples
    --------
    >>> from nczarr import cdl
    >>> text = "netcdf w { dimensions: x = 2; variables: float t(x); float u10(x); float v10(x); }"
    >>> find_vector(OpenedDataset(cdl.loads(text)), "/t")
    ('/u10', '/v10')
    """
    dimensions, variables = opened.variable(fqn).dimensions, opened.model.all_variables
    same = [at for at, v in variables.items() if v.dimensions == dimensions and is_drawable(v)]
    standard = {text_of(variables[at], "standard_name"): at for at in reversed(same)}
    found: list[tuple[str, str]] = []
    for at in same:
        about, name = text_of(variables[at], "standard_name"), at.rpartition("/")[2]
        others = [standard.get(about.replace(a, b)) for a, b in _PAIRS if a in about]
        if _COMPONENT.match(name):
            others.append(at[: -len(name)] + re.sub("[uU]", lambda u: chr(ord(u[0]) + 1), name, count=1))
        found += [(at, other) for other in others if other in same]
    return max(found, key=lambda pair: fqn in pair, default=None)


def with_overlay(drawer: Drawer, picture: Picture, kinds: Sequence[str], colours: Colours) -> Picture:
    """Return a picture with contours between the limits of the colours, or with arrows.

    The kinds are ``contours`` and ``vectors``.
    """
    lines, notes = list(picture.overlay), picture.notes
    if "contours" in kinds and min(picture.pixels.shape) > 1:
        levels, lines = _contours(picture, colours.low, colours.high)
        notes += (f"contours at {', '.join(f'{level:g}' for level in levels)}",) if lines else ()
    if "vectors" in kinds:
        pair = find_vector(drawer.opened, picture.selection.fqn)
        arrows = _arrows(drawer, picture, pair) if pair else []
        lines += arrows
        notes += (f"arrows of {' and '.join(pair)}" if pair and arrows else "there is no pair of components",)
    return replace(picture, overlay=tuple(lines), notes=notes)


def _contours(picture: Picture, low: float, high: float) -> tuple[list[float], list[np.ndarray]]:
    from contourpy import contour_generator
    from matplotlib.ticker import MaxNLocator

    (rows, columns), e = picture.pixels.shape, picture.extent
    down, across = (slice(None, None, max(size // 300, 1)) for size in (rows, columns))
    x, y = e.pixels(columns, rows)
    values = np.ma.masked_invalid(picture.pixels[down, across].astype(np.float64))
    found = contour_generator(x[across], y[down], values)
    levels = [float(level) for level in MaxNLocator(_LEVELS).tick_values(low, high) if low < level < high]
    return levels, [np.asarray(line) for level in levels for line in found.lines(level) if line is not None]


def _arrows(drawer: Drawer, picture: Picture, pair: tuple[str, str]) -> list[np.ndarray]:
    """Return an arrow for each of the pixels of a coarse grid: a line from tail to head, with the head's sides."""
    grid, e = picture.grid, picture.extent
    columns, rows = (min(n, _ARROWS) for n in e.size(_ARROWS)) if picture.is_map else (_ARROWS, _ARROWS // 2)
    aspect = 1.0 if picture.is_map else (e.right - e.left) / (e.top - e.bottom)
    x, y = (n.reshape(-1) for n in np.meshgrid(*e.pixels(columns, rows)))
    row, column = (np.array(n).astype(int) for n in grid.pixel_of(x, y))
    cells = grid.cells[row, column]
    read = (drawer.read(replace(picture.selection, fqn=fqn), picture.parts) for fqn in pair)
    u, v = (np.ma.filled(values.astype(float), np.nan).reshape(-1)[cells] for values in read)
    fine = (cells >= 0) & (np.hypot(u, v) > 0)
    if not fine.any():
        return []
    x, y, u, v = x[fine], y[fine], u[fine], v[fine]
    speed = np.hypot(u, v)
    if grid.plane is not None and grid.plane.definition and "x_" not in pair[0]:
        # The direction of an eastward and a northward component in the plane.
        lon, lat = grid.plane.locate(x, y)
        east = 0.01 * u / speed / np.cos(np.radians(lat)).clip(0.01)
        to_x, to_y = grid.plane.project(lon + east, lat + 0.01 * v / speed)
        along = speed / np.hypot(to_x - x, to_y - y)
        u, v = along * (to_x - x), along * (to_y - y)
    scale = 0.9 * (e.right - e.left) / columns / np.nanpercentile(speed, 98) * np.array([1.0, 1.0 / aspect])
    middle, half = np.stack((x, y), axis=-1), np.stack((u, v), axis=-1) * scale / 2
    turned = np.stack((v, -u), axis=-1) * scale
    tips, sides = middle + half, [middle + 0.4 * half + s * turned for s in (0.15, -0.15)]
    arrows = np.stack((middle - half, tips, sides[0], tips, sides[1]), axis=1)
    return [arrow for arrow in arrows if np.isfinite(arrow).all()]

"""Compute what is drawn above a picture: contours of its values, and arrows of a pair of vector components."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from nczarr.view.opened import OpenedDataset, is_drawable, text_attribute
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
    standard = {text_attribute(variables[at], "standard_name"): at for at in reversed(same)}
    found = []
    for at in same:
        name, about = at, text_attribute(variables[at], "standard_name")
        others = [standard.get(about.replace(a, b)) for a, b in _PAIRS if a in about]
        if _COMPONENT.match(variables[at].name):
            place = at.rindex("/") + 1 + re.search("u", variables[at].name, re.IGNORECASE).start()  # type: ignore[union-attr]
            other = name[:place] + chr(ord(name[place]) + 1) + name[place + 1 :]
            others.append(other if other in same else None)
        found += [(at, other) for other in others if other is not None]
    return max(found, key=lambda pair: fqn in pair, default=None)


def with_overlay(
    drawer: Drawer, picture: Picture, kinds: tuple[str, ...], low: float, high: float
) -> Picture:
    """Return a picture with contours between two values, or with arrows, by the words ``contours`` and ``vectors``."""
    lines: list[np.ndarray] = []
    notes: tuple[str, ...] = ()
    if "contours" in kinds and min(picture.pixels.shape) > 1:
        levels, lines = _contours(picture, low, high)
        notes += (f"contours at {', '.join(f'{level:g}' for level in levels)}",) if lines else ()
    if "vectors" in kinds:
        pair = find_vector(drawer.opened, picture.selection.fqn)
        arrows = [] if pair is None else _arrows(drawer, picture, pair)
        lines += arrows
        notes += (
            f"arrows of {pair[0]} and {pair[1]}"
            if pair and arrows
            else "there is no pair of components here",
        )
    return replace(picture, overlay=tuple(lines), notes=(*picture.notes, *notes))


def _contours(picture: Picture, low: float, high: float) -> tuple[list[float], list[np.ndarray]]:
    from contourpy import contour_generator
    from matplotlib.ticker import MaxNLocator

    rows, columns = picture.pixels.shape
    every = (slice(None, None, max(rows // 300, 1)), slice(None, None, max(columns // 300, 1)))
    x, y = (n[part] for n, part in zip(picture.extent.pixels(columns, rows), every[::-1]))
    values = np.ma.masked_invalid(picture.pixels[every].astype(np.float64))
    found = contour_generator(x, y, values)
    levels = [float(level) for level in MaxNLocator(_LEVELS).tick_values(low, high) if low < level < high]
    return levels, [np.asarray(line) for level in levels for line in found.lines(level) if line is not None]


def _arrows(drawer: Drawer, picture: Picture, pair: tuple[str, str]) -> list[np.ndarray]:
    """Return an arrow for each of the pixels of a coarse grid: a line from tail to head, with the head's sides."""
    grid, e = picture.grid, picture.extent
    columns, rows = e.size(_ARROWS)
    aspect = (e.right - e.left) / (e.top - e.bottom) if not picture.is_map else 1.0
    columns, rows = (min(columns, _ARROWS), min(rows, _ARROWS)) if aspect == 1 else (_ARROWS, _ARROWS // 2)
    x, y = (n.reshape(-1) for n in np.meshgrid(*e.pixels(columns, rows)))
    shape, (row, column) = grid.cells.shape, (np.array(n).astype(int) for n in grid.pixel_of(x, y))
    cells = grid.cells[np.clip(row, 0, shape[0] - 1), np.clip(column, 0, shape[1] - 1)]
    u, v = (
        np.ma.filled(
            drawer.read(replace(picture.selection, fqn=fqn), picture.parts).reshape(-1)[cells], np.nan
        )
        for fqn in pair
    )
    speed = np.hypot(u, v)
    fine = (cells >= 0) & np.isfinite(speed) & (speed > 0)
    if not fine.any():
        return []
    x, y, u, v, speed = x[fine], y[fine], u[fine], v[fine], speed[fine]
    if grid.plane is not None and grid.plane.definition and "x_" not in pair[0]:
        # The direction of an eastward and a northward component in the plane.
        lon, lat = grid.plane.locate(x, y)
        step = 0.01 / speed
        to_x, to_y = grid.plane.project(lon + u * step / np.cos(np.radians(lat)).clip(0.01), lat + v * step)
        along = np.hypot(to_x - x, to_y - y)
        u, v = speed * (to_x - x) / along, speed * (to_y - y) / along
    length = 0.9 * (e.right - e.left) / columns / np.nanpercentile(speed, 98)
    du, dv = u * length, v * length / aspect
    tips = np.stack((x + du / 2, y + dv / 2), axis=-1)
    tails = np.stack((x - du / 2, y - dv / 2), axis=-1)
    sides = [
        tips + np.stack((-0.3 * du + s * dv * aspect, -0.3 * dv - s * du / aspect), axis=-1)
        for s in (0.15, -0.15)
    ]
    arrows = np.stack((tails, tips, sides[0], tips, sides[1]), axis=1)
    return [arrow for arrow in arrows if np.isfinite(arrow).all()]

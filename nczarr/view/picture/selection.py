"""Select the part of a variable to draw: one or two axes, the strides on them, and an index on each other axis."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import NamedTuple

import numpy as np

from nczarr.convert.change.nodes import NAMING, words_of
from nczarr.convert.change.selecting import find_indices, parse_range
from nczarr.errors import UnsupportedError
from nczarr.model.coordinates import text_of
from nczarr.model.typed import typed_name, unescape
from nczarr.system.warning import warn
from nczarr.view.coordinates import FEATURES, Axis, Coordinates, Geography, role_of
from nczarr.view.opened import is_drawable
from nczarr.view.picture.grids import Cells

#: Start and stop along each drawn axis.
Windows = Sequence[tuple[int, int]]
#: Maximum number of pixels along an axis: screens show no more.
MOST_PIXELS = 1000
#: Maximum bytes of decoded chunks per picture.
MOST_BYTES = 512 << 20


@dataclass(frozen=True)
class Hyperslab:
    """The part of a variable to draw.

    Parameters
    ----------
    fqn : str
    axes : tuple of Axis
        All axes of the variable.
    drawn : tuple of int
        Numbers of the drawn axes: (), (x,) or (y, x).
    at : tuple of int
        An index for each axis; indices of drawn axes are ignored.
    geography : Geography or None
        Set if the drawn axes make a map.
    projection : str
        A name of :data:`nczarr.view.picture.grids.PROJECTIONS`; empty for the grid's own plane.
    """

    fqn: str
    axes: tuple[Axis, ...]
    drawn: tuple[int, ...]
    at: tuple[int, ...]
    geography: Geography | None = None
    projection: str = ""

    @property
    def fixed(self) -> tuple[int, ...]:
        """Numbers of the axes that are not drawn."""
        return tuple(i for i in range(len(self.axes)) if i not in self.drawn)

    def moved(self, axis: int, index: int) -> Hyperslab:
        """Return a copy with another index on an axis."""
        index = min(max(index, 0), max(self.axes[axis].size - 1, 0))
        return replace(self, at=(*self.at[:axis], index, *self.at[axis + 1 :]))

    def index(self, parts: Sequence[range]) -> tuple[int | slice, ...]:
        """Return the index to read; `parts` are the indices on the drawn axes, in the order of `drawn`."""
        drawn = {axis: slice(p.start, p.stop, p.step) for axis, p in zip(self.drawn, parts, strict=True)}
        return tuple(drawn.get(axis, at) for axis, at in enumerate(self.at))


#: Words in names of variables that qualify others.
_MINOR = re.compile(
    "bnds|bounds|quality|flag|mask|error|uncert|std|weight|count|area|_qc|(^|_)(qc|id|index)($|_)"
)
#: Number of variables whose places are looked up to choose the first one.
_MOST_CANDIDATES = 50


def first_variable(coordinates: Coordinates) -> str | None:
    """Return the variable to show first: data on a map before other data, data before coordinates and flags."""
    opened, variables = coordinates.opened, coordinates.opened.model.all_variables
    naming = (words_of(v.attribute.get(name)) for v in variables.values() for name in NAMING)
    named = {word.rstrip(":") for words in naming for word in words}

    def rank(fqn: str) -> tuple[int, ...]:
        variable, sizes = variables[fqn], sum(n > 1 for n in opened.shape_of(fqn))
        is_coordinate = role_of(variable) in ("latitude", "longitude", "time") or fqn in variable.dimensions
        is_minor = variable.name in named or _MINOR.search(variable.name.lower()) is not None
        is_minor |= bool({"flag_meanings", "cf_role"} & {*variable.attribute})
        described = any(text_of(variable, name) for name in ("standard_name", "long_name", "units"))
        return (is_drawable(variable), sizes > 0, not is_coordinate, not is_minor, min(sizes, 3), described)

    def is_map(fqn: str) -> bool:
        drawable = is_drawable(variables[fqn])
        return drawable and first_selection(coordinates, fqn).geography is not None

    best = sorted(variables, key=rank, reverse=True)[:_MOST_CANDIDATES]
    return max(best, key=lambda fqn: (*rank(fqn)[:4], is_map(fqn), *rank(fqn)[4:]), default=None)


def first_selection(coordinates: Coordinates, fqn: str) -> Hyperslab:
    """Return the default selection of a variable: a map, its last two axes, or a line, in this order.

    The first level is the one at the surface: the largest pressure of the air, or the height, depth or pressure of the
    sea nearest to zero.
    """
    axes = coordinates.axes(fqn)
    at = tuple(_surface(coordinates, axis) for axis in axes)
    if not is_drawable(coordinates.opened.variable(fqn)):
        return Hyperslab(fqn, axes, (), at)
    long = [i for i, axis in enumerate(axes) if axis.size > 1]
    wanted = FEATURES.get(coordinates.feature(fqn))
    if wanted:  # a series or a profile, not the map of the stations
        long = [i for i in long if axes[i].role == wanted] or long[-1:]
    else:
        geography = coordinates.geography(fqn)
        if geography is not None and all(axes[i].size > 1 for i in geography.axes):
            return Hyperslab(fqn, axes, geography.axes, at, geography)
    drawn = tuple(long[-2:]) if long else tuple(range(len(axes)))[-1:]
    return with_drawn(coordinates, Hyperslab(fqn, axes, drawn, at), drawn)


def _surface(coordinates: Coordinates, axis: Axis) -> int:
    numbers = coordinates.numbers(axis) if axis.role == "vertical" and 1 < axis.size < 10_000 else None
    if numbers is None:
        return 0
    # Levels in millibars or of a hybrid coordinate opened at the top.
    return int(np.argmax(numbers) if axis.largest_at_surface else np.argmin(np.abs(numbers)))


def with_drawn(coordinates: Coordinates, selection: Hyperslab, drawn: tuple[int, ...]) -> Hyperslab:
    """Return a copy with other drawn axes; the drawing is a map if the axes are geographic."""
    geography = coordinates.geography(selection.fqn)
    is_feature = len(drawn) == 1 and coordinates.feature(selection.fqn) in FEATURES
    if geography is not None and not is_feature and sorted(geography.axes) == sorted(drawn):
        return replace(selection, drawn=geography.axes, geography=geography)
    # A section stands upright, whatever the order of its axes in the file.
    roles = [selection.axes[i].role for i in drawn]
    if len(roles) == 2 and roles[1] == "vertical" != roles[0]:
        drawn = drawn[::-1]
    return replace(selection, drawn=drawn, geography=None)


def select(coordinates: Coordinates, fqn: str, positions: Mapping[str, str]) -> Hyperslab:
    """Return the default selection of a variable with given positions on dimensions.

    Parameters
    ----------
    positions : mapping of str to str
        Positions by dimension name, with the syntax of :func:`nczarr.convert.change.parse_range`: an index (negative:
        from the end), a value with a decimal point, a date such as ``2020-03``, or a name. These dimensions are not
        drawn.

    Raises
    ------
    UnsupportedError
        If the variable does not have the dimension, or the dimension does not have the position; the message names
        the nearest one.
    """
    selection = first_selection(coordinates, fqn)
    names = {axis.name: i for i, axis in enumerate(selection.axes)}
    positions = {unescape(name): text for name, text in positions.items()}
    for name, text in positions.items():
        if name not in names:
            hint = (
                f"the dimensions are {', '.join(map(typed_name, names))}"
                if names
                else "the variable has no dimensions"
            )
            raise UnsupportedError(f"there is no dimension {name!r}", fqn=fqn, hint=hint)
        index = _index(coordinates, selection.axes[names[name]], text, fqn)
        selection = selection.moved(names[name], index)
    if not {names[name] for name in positions} & {*selection.drawn}:
        return selection
    rest = [i for i, a in enumerate(selection.axes) if a.name not in positions]
    long = [i for i in rest if selection.axes[i].size > 1]
    return with_drawn(coordinates, selection, tuple(long[-2:] or (i for i in rest if i in selection.drawn)))


def _index(coordinates: Coordinates, axis: Axis, text: str, fqn: str) -> int:
    """Return the index of a position on an axis; for a period such as a month, the middle index."""
    texts = coordinates.texts(axis)
    if texts is not None and text in texts:
        return texts.index(text)
    coordinate = None if axis.coordinate is None else coordinates.opened.variable(axis.coordinate)
    position = parse_range(text, f"{axis.name}={text}")
    if isinstance(position, slice):
        problem = f"{axis.name}={text} is a range, but a picture shows a single position"
        raise UnsupportedError(problem, fqn=fqn, hint="give an index, a value or a date")
    if isinstance(position, float) and (cell := _cell_of(coordinates, axis, position)) is not None:
        return cell
    found = find_indices(axis.name, axis.size, coordinate, position)
    return found[len(found) // 2]


def _cell_of(coordinates: Coordinates, axis: Axis, value: float) -> int | None:
    """Return the cell that contains a value, and warn of its place; None if no cell does.

    A grid that was computed has its equator at -3.55e-14, and a person types 0.0.
    """
    numbers = None if axis.times is not None else coordinates.numbers(axis)
    cells = None if numbers is None or not len(numbers) else Cells.of(numbers)
    if numbers is None or cells is None:
        return None
    turns = (0.0, 360.0, -360.0) if axis.role == "longitude" else (0.0,)
    found = [(int(cells.at(np.array([value + turn]))[0]), value + turn) for turn in turns]
    cell, place = next((each for each in found if each[0] >= 0), (-1, value))
    if cell < 0:
        return None
    # A computed equator is at -3.55e-14.
    if abs(numbers[cell] - place) > 1e-6 * (cells.edges[-1] - cells.edges[0]) / len(cells):
        warn(f"{axis.name}={value:g}: the nearest cell is at {coordinates.label(axis, cell)}")
    return cell


class Overview(NamedTuple):
    """The parts of an array to read for a picture.

    Parameters
    ----------
    parts : tuple of range
        The indices on each drawn axis.
    coarse : bool
        True if the limit on bytes of chunks, not the limit on pixels, determined the strides.
    """

    parts: tuple[range, ...]
    coarse: bool = False

    @property
    def steps(self) -> tuple[int, ...]:
        """The stride on each axis."""
        return tuple(part.step for part in self.parts)

    @property
    def is_whole(self) -> bool:
        """True if all strides are 1."""
        return set(self.steps) <= {1}


def plan_overview(
    windows: Windows,
    chunks: Sequence[int],
    chunk_bytes: int,
    most_pixels: int = MOST_PIXELS,
    most_bytes: int = MOST_BYTES,
) -> Overview:
    """Choose the strides of an overview.

    Parameters
    ----------
    windows : sequence of (int, int)
        Start and stop along each drawn axis.
    chunks : sequence of int
        Chunk shape along these axes.
    chunk_bytes : int
        Size of a whole decoded chunk in bytes, including the axes that are not drawn.
    most_pixels : int
        Maximum number of pixels along an axis.
    most_bytes : int
        Maximum bytes of decoded chunks.

    Examples
    --------
    >>> plan_overview([(0, 10), (0, 5000)], [10, 100], 4000).parts
    (range(0, 10), range(0, 5000, 5))
    >>> plan_overview([(0, 10**6), (0, 10**6)], [1000, 1000], 4 << 20, most_bytes=1 << 30).coarse
    True
    """
    steps = [max(ceil((stop - start) / most_pixels), 1) for start, stop in windows]
    coarse = False
    while True:
        counts = [_count(w, c, s) for w, c, s in zip(windows, chunks, steps)]
        axis = counts.index(max(counts))
        if prod(counts) * chunk_bytes <= most_bytes or counts[axis] <= 1:
            break
        # Only strides longer than a chunk skip chunks. Increase the stride of the axis with the most chunks.
        steps[axis] = max(steps[axis], chunks[axis]) * 2
        coarse = True
    return Overview(tuple(range(*window, step) for window, step in zip(windows, steps)), coarse)


def _count(window: tuple[int, int], chunk: int, step: int) -> int:
    """Return the maximum number of chunks that a strided slice touches along an axis."""
    length = window[1] - window[0]
    return max(min(ceil(length / max(chunk, 1)) + 1, ceil(length / step)), 1)

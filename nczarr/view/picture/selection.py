"""Select the part of a variable to draw: one or two axes, and an index on each other axis."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nczarr.convert.change.selecting import find_indices, parse_range
from nczarr.errors import NCZarrError
from nczarr.view.coordinates import (
    FEATURES,
    PRESSURE,
    Axis,
    Coordinates,
    Geography,
    find_geography,
    role_of,
)
from nczarr.view.opened import OpenedDataset, is_drawable, text_attribute


class SelectionProblem(NCZarrError):
    """A selection to draw does not fit the variable."""


@dataclass(frozen=True)
class Selection:
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

    def moved(self, axis: int, index: int) -> Selection:
        """Return a copy with another index on an axis."""
        at = list(self.at)
        at[axis] = min(max(index, 0), max(self.axes[axis].size - 1, 0))
        return replace(self, at=tuple(at))

    def index(self, parts: Sequence[slice]) -> tuple[int | slice, ...]:
        """Return the index to read; `parts` are the slices of the drawn axes, in the order of `drawn`."""
        result: list[int | slice] = list(self.at)
        for axis, part in zip(self.drawn, parts, strict=True):
            result[axis] = part
        return tuple(result)


#: Words in names of variables that qualify others.
_MINOR = re.compile(
    r"bnds|bounds|quality|flag|mask|error|uncert|std|weight|count|area|_qc|(^|_)(qc|id|index)($|_)"
)
#: Attributes that name variables which describe the owner of the attribute.
_REFERRING = ("coordinates", "bounds", "ancillary_variables", "grid_mapping", "cell_measures", "climatology")
#: Number of variables whose places are looked up to choose the first one.
_MOST_CANDIDATES = 50


def first_variable(opened: OpenedDataset, coordinates: Coordinates) -> str | None:
    """Return the variable to show first: data on a map before other data, data before coordinates and flags."""
    variables = opened.model.all_variables
    named = {
        word.rstrip(":")
        for variable in variables.values()
        for name in _REFERRING
        for word in text_attribute(variable, name).split()
    }

    def rank(fqn: str) -> tuple[int, ...]:
        variable, shape = variables[fqn], opened.shape(fqn)
        is_coordinate = role_of(variable) in ("latitude", "longitude", "time") or fqn in variable.dimensions
        is_minor = variable.name in named or _MINOR.search(variable.name.lower()) is not None
        is_minor |= "flag_meanings" in variable.attribute or "cf_role" in variable.attribute
        described = any(text_attribute(variable, name) for name in ("standard_name", "long_name", "units"))
        sizes = sum(n > 1 for n in shape)
        return (is_drawable(variable), sizes > 0, not is_coordinate, not is_minor, min(sizes, 3), described)

    best = sorted(variables, key=rank, reverse=True)[:_MOST_CANDIDATES]
    return max(
        best,
        key=lambda fqn: (*rank(fqn)[:4], _is_map(opened, coordinates, fqn), *rank(fqn)[4:]),
        default=None,
    )


def _is_map(opened: OpenedDataset, coordinates: Coordinates, fqn: str) -> bool:
    return (
        is_drawable(opened.variable(fqn)) and first_selection(opened, coordinates, fqn).geography is not None
    )


def first_selection(opened: OpenedDataset, coordinates: Coordinates, fqn: str) -> Selection:
    """Return the default selection of a variable: a map, its last two axes, or a line, in this order.

    The first level is the one at the surface: the largest pressure, or the height or depth nearest to zero.
    """
    axes = coordinates.axes(fqn)
    at = tuple(_surface(coordinates, axis) for axis in axes)
    if not is_drawable(opened.variable(fqn)):
        return Selection(fqn, axes, (), at)
    long = [i for i, axis in enumerate(axes) if axis.size > 1]
    wanted = FEATURES.get(coordinates.feature(fqn))
    if wanted:  # a series or a profile, not the map of the stations
        long = [i for i in long if axes[i].role == wanted] or long[-1:]
    else:
        geography = find_geography(opened, coordinates, fqn)
        if geography is not None and all(axes[i].size > 1 for i in geography.axes):
            return Selection(fqn, axes, geography.axes, at, geography)
    drawn = tuple(long[-2:]) if long else tuple(range(len(axes)))[-1:]
    return with_drawn(opened, coordinates, Selection(fqn, axes, drawn, at), drawn)


def _surface(coordinates: Coordinates, axis: Axis) -> int:
    numbers = coordinates.numbers(axis) if axis.role == "vertical" and 1 < axis.size < 10_000 else None
    if numbers is None:
        return 0
    return int(np.argmax(numbers) if axis.units.lower() in PRESSURE else np.argmin(np.abs(numbers)))


def with_drawn(
    opened: OpenedDataset, coordinates: Coordinates, selection: Selection, drawn: tuple[int, ...]
) -> Selection:
    """Return a copy with other drawn axes; the drawing is a map if the axes are geographic."""
    geography = find_geography(opened, coordinates, selection.fqn)
    if len(drawn) == 1 and coordinates.feature(selection.fqn) in FEATURES:
        geography = None
    if geography is not None and set(geography.axes) == set(drawn) and len(geography.axes) == len(drawn):
        return replace(selection, drawn=geography.axes, geography=geography)
    if len(drawn) == 2:
        y, x = (selection.axes[i] for i in drawn)
        # By convention, time is the horizontal axis and depth the vertical axis.
        if y.role == "time" and x.role == "vertical":
            drawn = drawn[::-1]
    return replace(selection, drawn=drawn, geography=None)


def select(
    opened: OpenedDataset, coordinates: Coordinates, fqn: str, positions: Mapping[str, str]
) -> Selection:
    """Return the default selection of a variable with given positions on dimensions.

    Parameters
    ----------
    positions : mapping of str to str
        Positions by dimension name, with the syntax of :func:`nczarr.convert.change.parse_range`: an index (negative:
        from the end), a value with a decimal point, a date such as ``2020-03``, or a name. These dimensions are not
        drawn.

    Raises
    ------
    SelectionProblem
        If the variable does not have the dimension.
    UnsupportedError
        If the dimension does not have the position; the message names the nearest one.
    """
    selection = first_selection(opened, coordinates, fqn)
    names = {axis.name: i for i, axis in enumerate(selection.axes)}
    for name, text in positions.items():
        if name not in names:
            raise SelectionProblem(
                f"there is no dimension {name!r}",
                fqn=fqn,
                hint=f"the dimensions are {', '.join(names)}" if names else "the variable has no dimensions",
            )
        axis = selection.axes[names[name]]
        selection = selection.moved(names[name], _index(opened, coordinates, axis, text, fqn))
    drawn = tuple(i for i in selection.drawn if selection.axes[i].name not in positions)
    if drawn != selection.drawn:
        rest = [i for i, a in enumerate(selection.axes) if a.name not in positions and a.size > 1]
        drawn = tuple(rest[-2:]) or drawn
        selection = with_drawn(opened, coordinates, selection, drawn)
    return selection


def _index(opened: OpenedDataset, coordinates: Coordinates, axis: Axis, text: str, fqn: str) -> int:
    """Return the index of a position on an axis; for a period such as a month, the middle index."""
    texts = coordinates.texts(axis)
    if texts is not None and text in texts:
        return texts.index(text)
    coordinate = None if axis.coordinate is None else opened.variable(axis.coordinate)
    position = parse_range(text, f"{axis.name}={text}")
    if isinstance(position, slice):
        raise SelectionProblem(
            f"{axis.name}={text} is a range, but a picture shows a single position",
            fqn=fqn,
            hint="give an index, a value or a date",
        )
    found = find_indices(axis.name, axis.size, coordinate, position)
    return found[len(found) // 2]

"""Hold what is drawn: an image, a line or a table, with axes, titles and notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from nczarr.view.picture.grids import Extent, Grid
from nczarr.view.picture.selection import Selection


@dataclass(frozen=True)
class Scale:
    """An axis of a drawing.

    Parameters
    ----------
    label : str
    kind : {'number', 'date', 'named'}
        ``date``: the numbers are milliseconds since 1970. ``named``: at some numbers there are names.
    down : bool
        True: larger numbers are lower.
    names : tuple of (float, str)
        For ``named``.
    """

    label: str
    kind: Literal["number", "date", "named"] = "number"
    down: bool = False
    names: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True)
class Drawing:
    """What all drawings have in common.

    Parameters
    ----------
    title : str
    step : tuple of (str, str)
        Name and label of each axis that is not drawn.
    label : str
        What the values are, with units.
    notes : tuple of str
        What a reader has to know: strides, places that could not be used.
    selection : Selection
    parts : tuple of slice
        Which part of each drawn axis was read.
    sample : MaskedArray
        The values that were read, in the order of the drawn axes.
    """

    title: str
    step: tuple[tuple[str, str], ...]
    label: str
    notes: tuple[str, ...]
    selection: Selection
    parts: tuple[slice, ...]
    sample: np.ma.MaskedArray

    @property
    def where(self) -> str:
        """The selection on the axes that are not drawn, in words."""
        return ", ".join(f"{name} = {label}" for name, label in self.step)

    @property
    def steps(self) -> tuple[int, ...]:
        """Every how many values one was read."""
        return tuple(part.step for part in self.parts)


@dataclass(frozen=True)
class Picture(Drawing):
    """An image: a raster on two axes.

    Parameters
    ----------
    grid : Grid
    x, y : Scale
    is_map : bool
    columns : sequence of ndarray
        Coordinates of the sample for tables: for each drawn axis, or latitudes and longitudes of its shape.
    """

    grid: Grid
    x: Scale
    y: Scale
    is_map: bool = False
    columns: tuple[tuple[str, np.ndarray], ...] = ()
    pixels: np.ma.MaskedArray = field(default_factory=lambda: np.ma.array([[]]))

    @property
    def extent(self) -> Extent:
        """The edges of the raster."""
        return self.grid.extent

    def index_at(self, x: float, y: float) -> tuple[int, ...] | None:
        """The indices on the variable's drawn axes of the value at a place; None where there is none."""
        found = self.grid.index_at(x, y)
        if found is None:
            return None
        return tuple(part.start + i * part.step for part, i in zip(self.parts, found, strict=True))

    def place_of(self, index: tuple[int, ...]) -> tuple[float, float] | None:
        """The place (x, y) nearest to indices on the variable's drawn axes; None outside of what was read."""
        inside = [(i - part.start) // part.step for part, i in zip(self.parts, index)]
        if any(not 0 <= i < len(range(p.start, p.stop, p.step)) for i, p in zip(inside, self.parts)):
            return None
        return self.grid.place_of(tuple(inside))

    def window(self, extent: Extent) -> tuple[tuple[int, int], ...] | None:
        """Start and stop on the variable's drawn axes of what lies inside; None if nothing does."""
        found = self.grid.window(extent)
        if found is None:
            return None
        return tuple(
            (part.start + low * part.step, min(part.start + high * part.step, part.stop))
            for part, (low, high) in zip(self.parts, found, strict=True)
        )


@dataclass(frozen=True)
class Line(Drawing):
    """A line: values along one axis."""

    places: np.ndarray
    place_labels: Sequence[str]
    x: Scale
    columns: tuple[tuple[str, np.ndarray], ...] = ()


@dataclass(frozen=True)
class Table(Drawing):
    """Values as text: of a scalar, and of types that no picture can show."""

    rows: tuple[tuple[str, str], ...]
    left_out: int = 0

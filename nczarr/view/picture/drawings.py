"""Define the data of drawings: images, lines and tables, with axes, titles and notes; write them as CSV."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import numpy as np

from nczarr.view.picture.grids import Extent, Grid
from nczarr.view.picture.selection import Selection

#: Maximum number of curves of one line.
MOST_CURVES = 10
Columns = tuple[tuple[str, np.ndarray], ...]


@dataclass(frozen=True)
class Scale:
    """An axis of a drawing.

    Parameters
    ----------
    label : str
    kind : {'number', 'date', 'named'}
        ``date``: the numbers are milliseconds since 1970. ``named``: the ticks are names.
    down : bool
        True if larger numbers are lower.
    names : tuple of (float, str)
        Positions and names of the ticks, for ``named``.
    """

    label: str
    kind: Literal["number", "date", "named"] = "number"
    down: bool = False
    names: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True)
class Drawing:
    """Base class of drawings.

    Parameters
    ----------
    title : str
    step : tuple of (str, str)
        Name and position of each axis that is not drawn.
    label : str
        Name and units of the values.
    notes : tuple of str
        Notes for the viewer, such as strides and unusable coordinates.
    selection : Selection
    parts : tuple of slice
        The part of each drawn axis that was read.
    sample : MaskedArray
        The values read, in the order of the drawn axes.
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
        """The positions on the axes that are not drawn, as text."""
        return ", ".join(f"{name} = {label}" for name, label in self.step)

    @property
    def steps(self) -> tuple[int, ...]:
        """The stride along each drawn axis."""
        return tuple(part.step for part in self.parts)


@dataclass(frozen=True)
class Picture(Drawing):
    """An image: a raster with two axes.

    Parameters
    ----------
    grid : Grid
    x, y : Scale
    columns : tuple of (str, ndarray)
        Coordinates for the CSV output: one array per drawn axis, or latitudes and longitudes of the sample's shape.
    pixels : MaskedArray
        The raster: rows from bottom to top.
    overlay : tuple of ndarray
        Contours and arrows: lines of (x, y).
    """

    grid: Grid
    x: Scale
    y: Scale
    columns: Columns
    pixels: np.ma.MaskedArray
    overlay: tuple[np.ndarray, ...] = ()

    @property
    def is_map(self) -> bool:
        """True if the picture has a place on the globe."""
        return self.grid.plane is not None

    @property
    def extent(self) -> Extent:
        """The edges of the raster."""
        return self.grid.extent

    def index_at(self, x: float, y: float) -> tuple[int, ...] | None:
        """Return the indices on the drawn axes of the value at a point; None if no cell contains it."""
        found = self.grid.index_at(x, y)
        if found is None:
            return None
        return tuple(part.start + i * part.step for part, i in zip(self.parts, found, strict=True))

    def place_of(self, index: tuple[int, ...]) -> tuple[float, float] | None:
        """Return the point (x, y) nearest to indices on the drawn axes; None if they are outside of the read parts."""
        inside = [(i - part.start) // part.step for part, i in zip(self.parts, index)]
        if any(not 0 <= i < len(range(p.start, p.stop, p.step)) for i, p in zip(inside, self.parts)):
            return None
        return self.grid.place_of(tuple(inside))

    def window(self, extent: Extent) -> tuple[tuple[int, int], ...] | None:
        """Return start and stop on each drawn axis of the values inside an extent; None if there are none."""
        found = self.grid.window(extent)
        if found is None:
            return None
        return tuple(
            (part.start + low * part.step, min(part.start + high * part.step, part.stop))
            for part, (low, high) in zip(self.parts, found, strict=True)
        )


@dataclass(frozen=True)
class Line(Drawing):
    """A line: values along one axis. The only column has the labels of the places.

    Parameters
    ----------
    places : ndarray
    x : Scale
    columns : tuple of (str, ndarray)
    instances : tuple of (str, ndarray)
        Name and indices of the values of each station or profile, if there are several.
    """

    places: np.ndarray
    x: Scale
    columns: Columns
    instances: Columns = ()

    @property
    def curves(self) -> Columns:
        """Name and indices of the values of each curve."""
        return self.instances or (("", np.arange(len(self.places))),)


@dataclass(frozen=True)
class Table(Drawing):
    """Values as text: scalars, and values of types that cannot be drawn."""

    rows: tuple[tuple[str, str], ...]
    left_out: int = 0


def to_csv(drawing: Drawing, most: int | None = None) -> str:
    """Return the values of a drawing as CSV, one row per value with its coordinates; missing values are empty.

    With `most`, the result has only so many values.

    The first columns contain the positions on the axes that are not drawn.

    Examples
    --------
    >>> from nczarr import cdl
    >>> from nczarr.view.opened import OpenedDataset
    >>> from nczarr.view.picture.drawer import Drawer
    >>> from nczarr.view.picture.selection import first_selection
    >>> with OpenedDataset(cdl.loads("netcdf d { dimensions: x = 2; variables: int v(x); data: v = 7, _; }")) as o:
    ...     drawer = Drawer(o)
    ...     print(to_csv(drawer.draw(first_selection(o, drawer.coordinates, "/v"))))
    x,v
    0,7
    1,
    <BLANKLINE>
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if isinstance(drawing, Table):
        writer.writerow(["index", _cell(drawing.label)])
        writer.writerows(map(_cell, row) for row in drawing.rows)
    elif isinstance(drawing, Line | Picture):
        writer.writerow(
            [_cell(name) for name, _ in (*drawing.step, *drawing.columns)] + [_cell(drawing.label)]
        )
        step = [_cell(label) for _, label in drawing.step]
        arrays, sample = [values for _, values in drawing.columns], np.ma.asanyarray(drawing.sample)
        if arrays[0].shape != sample.shape:
            arrays = list(np.meshgrid(*arrays, indexing="ij"))
        for index in islice(np.ndindex(sample.shape), most):
            writer.writerow([*step, *(_cell(values[index]) for values in (*arrays, sample))])
    return out.getvalue()


def _cell(value: object) -> str:
    """Return a value as text; escape text that a spreadsheet would interpret as a formula."""
    if isinstance(value, str):
        is_formula = value[:1] in tuple("=+@\t\r") or (value[:1] == "-" and not _is_number(value))
        return "'" + value if is_formula else value
    text = str(value.item()) if isinstance(value, np.generic) and value.dtype.kind != "f" else str(value)
    return "" if value is np.ma.masked or text == "nan" else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

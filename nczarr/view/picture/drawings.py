"""Define the data of drawings: images, lines and tables, with axes, titles and notes; write them as CSV."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal, NamedTuple

import numpy as np

from nczarr.view.picture.colours import Category, palette
from nczarr.view.picture.grids import Extent, Grid
from nczarr.view.picture.map_lines import Lines, map_lines
from nczarr.view.picture.selection import Hyperslab

#: Maximum number of curves of one line.
_MOST_CURVES = 10
_LINE = "#0b7285"
#: Colour of coastlines, contours and arrows.
COAST = "#202020"
#: Colour of their edges, which tells them from dark colours.
HALO = "#ffffff"
Columns = tuple[tuple[str, np.ndarray], ...]


class Scale(NamedTuple):
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
    upright : bool
        True for levels, which a profile has as its vertical axis.
    """

    label: str
    kind: Literal["number", "date", "named"] = "number"
    down: bool = False
    names: tuple[tuple[float, str], ...] = ()
    upright: bool = False

    @classmethod
    def of_values(cls, label: str, categories: tuple[Category, ...]) -> Scale:
        """Return the axis of values, or of the names of categories."""
        names = tuple((float(i), category.name) for i, category in enumerate(categories))
        return cls(label, "named" if names else "number", names=names)


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
    selection : Hyperslab
    parts : tuple of range
        The indices on each drawn axis that were read.
    sample : MaskedArray
        The values read, in the order of the drawn axes.
    """

    title: str
    step: tuple[tuple[str, str], ...]
    label: str
    notes: tuple[str, ...]
    selection: Hyperslab
    parts: tuple[range, ...]
    sample: np.ma.MaskedArray

    @property
    def where(self) -> str:
        """The positions on the axes that are not drawn, as text."""
        return ", ".join(f"{name} = {label}" for name, label in self.step)

    @property
    def layout(self) -> tuple[object, ...]:
        """The properties that drawings in the same figure share."""
        return (type(self), replace(self.selection, at=()), self.sample.shape)

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
    coast : tuple of ndarray or None
        Coastlines of (longitude, latitude); None for those of the package.
    key : (float, str) or None
        The length of an arrow in the plane, and what it stands for.
    """

    grid: Grid
    x: Scale
    y: Scale
    columns: Columns
    pixels: np.ma.MaskedArray
    overlay: tuple[np.ndarray, ...] = ()
    coast: Lines | None = None
    key: tuple[float, str] | None = None

    @property
    def is_map(self) -> bool:
        """True if the picture has a place on the globe."""
        return self.grid.plane is not None

    @property
    def extent(self) -> Extent:
        """The edges of the raster."""
        return self.grid.extent

    def lines(self, around: Extent | None = None) -> list[tuple[str, list[np.ndarray], float]]:
        """Return colour, points and width of the lines above the raster: coastlines, graticule, contours and arrows."""
        plane = self.grid.plane
        coasts = ([], []) if plane is None else map_lines(plane, around or self.extent, self.coast)
        return [(COAST, lines, width) for lines, width in zip((*coasts, list(self.overlay)), (0.8, 0.3, 1.0))]


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
    def curves(self) -> list[tuple[str, np.ndarray, str]]:
        """Name, indices of the values, and colour of each curve."""
        if not self.instances:
            return [("", np.arange(len(self.places)), _LINE)]
        curves = zip(self.instances[:_MOST_CURVES], palette("tab10", _MOST_CURVES))
        return [(name, part, colour) for (name, part), colour in curves]


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
    ...     print(to_csv(drawer.draw(first_selection(drawer.coordinates, "/v"))))
    x,v
    0,7
    1,
    <BLANKLINE>
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if isinstance(drawing, Table):
        writer.writerows([["index", _cell(drawing.label)], *(map(_cell, row) for row in drawing.rows)])
    elif isinstance(drawing, Line | Picture):
        names = (*(name for name, _ in (*drawing.step, *drawing.columns)), drawing.label)
        writer.writerow(map(_cell, names))
        arrays, sample = [values for _, values in drawing.columns], np.ma.asanyarray(drawing.sample)
        if arrays[0].shape != sample.shape:
            arrays = list(np.meshgrid(*arrays, indexing="ij"))
        step = [label for _, label in drawing.step]
        for index in islice(np.ndindex(sample.shape), most):
            writer.writerow(map(_cell, (*step, *(values[index] for values in (*arrays, sample)))))
    return out.getvalue()


def _cell(value: object) -> str:
    """Return a value as text; escape text that a spreadsheet would interpret as a formula."""
    if isinstance(value, str):
        # A text of a file that begins with these runs in a spreadsheet.
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

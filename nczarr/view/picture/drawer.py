"""Create drawings: read the values of a selection, and arrange them on a grid, a line or a table.

Above a picture there may be lines: contours of its values, and arrows of a pair of vector components.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from math import prod

import numpy as np

from nczarr.display import format_value
from nczarr.errors import NCZarrError
from nczarr.model import CHAR, split_fqn
from nczarr.model.coordinates import text_of
from nczarr.model.stored_form import number_of
from nczarr.view.coordinates import Axis, Coordinates, Geography
from nczarr.view.opened import OpenedDataset, is_drawable, joined_characters, long_name
from nczarr.view.picture import grids
from nczarr.view.picture.colours import Colours, Range
from nczarr.view.picture.drawings import Columns, Drawing, Line, Picture, Scale, Table
from nczarr.view.picture.map_lines import Lines, line_numbers
from nczarr.view.picture.selection import MOST_BYTES, MOST_PIXELS, Hyperslab, Overview, Windows, plan_overview
from nczarr.view.planes import PROJECTIONS, Plane

#: Maximum number of points of a line, and of an unstructured grid.
_MOST_POINTS, _MOST_PLACES = 4000, 500_000
#: Maximum number of rows of a table, and of characters in a row.
_MOST_ROWS, _MOST_CHARACTERS = 200, 2000
_MOST_NAMES = 10
_KEPT_FRAMES, _KEPT_DRAWINGS = 8, 12
#: Maximum number of steps, and of bytes of decoded chunks, to read for the colour limits: at first, and in the end.
_QUICK, _REFINED = (3, 64 << 20), (96, 256 << 20)
_NOT_IN_ORDER = "the coordinate {} is not strictly monotonic; the axis shows indices"
_NO_NUMBERS = "the coordinate {} has missing or non-numeric values; the axis shows indices"
_MISSING = "all values of this step are missing (fill values, NaN, or outside of the valid range)"
_NO_PLACES = "the map shows no value: latitudes or longitudes are missing, or not in this projection"
#: Number of contours, and of arrows along the longer side.
_LEVELS, _ARROWS = 10, 28
_PAIRS = (("eastward", "northward"), ("x_wind", "y_wind"), ("_x_", "_y_"), ("zonal", "meridional"))
_COMPONENT = re.compile(r"u(?![a-z]{3})|.*_u(?=$|_)|.*u$", re.IGNORECASE)


_Values = np.ma.MaskedArray
#: The grid of a picture, its axes x and y, its coordinates, and notes.
_Frame = tuple[grids.Grid, Scale, Scale, Columns, tuple[str, ...]]


@dataclass(frozen=True)
class Spread:
    """How far the values of all steps of a picture, or of one level, reach.

    Parameters
    ----------
    range : Range
        How far the values reach.
    read, count : int
        Number of steps read, and total number of steps.
    is_whole : bool
        True if all values were read.
    is_refined : bool
        False after a quick sample.
    """

    range: Range
    read: int
    count: int
    is_whole: bool
    is_refined: bool = True

    @property
    def note(self) -> str:
        """Note for viewers that the limits come from a sample."""
        sample = f"{self.read:,} of {self.count:,} steps"
        return f"the colour limits come from a sample ({sample}); values beyond have the first or the last colour"


class Drawer:
    """Create drawings of a dataset. Recent grids are cached, because successive pictures often share a grid.

    Examples
    --------
    >>> from nczarr import cdl
    >>> from nczarr.view.picture.selection import first_selection
    >>> text = "netcdf d { dimensions: y = 2; x = 3; variables: int v(y, x); data: v = 1, 2, 3, 4, 5, 6; }"
    >>> with OpenedDataset(cdl.loads(text)) as opened:
    ...     drawer = Drawer(opened)
    ...     drawer.draw(first_selection(drawer.coordinates, "/v")).pixels.tolist()
    [[1, 2, 3], [4, 5, 6]]
    """

    def __init__(self, opened: OpenedDataset, coast: Lines | None = None) -> None:
        self.opened, self._coast = opened, coast
        self.coordinates = Coordinates(opened)
        self._spreads: dict[tuple[object, ...], Spread | None] = {}
        #: Draw a whole selection, or return a recent drawing of it; frames that come ahead of time wait here.
        self.draw_step = lru_cache(_KEPT_DRAWINGS)(self.draw)
        self._frame = lru_cache(_KEPT_FRAMES)(self._find_frame)

    def draw(self, selection: Hyperslab, windows: Windows = (), *, most_bytes: int = MOST_BYTES) -> Drawing:
        """Read a selection and create its drawing.

        Parameters
        ----------
        selection : Hyperslab
        windows : tuple of (int, int), optional
            Start and stop on each drawn axis; default: the whole axes.
        most_bytes : int
            Maximum bytes of decoded chunks to read.

        Raises
        ------
        NCZarrError
            If the values cannot be read.
        """
        fqn = selection.fqn
        if (
            not is_drawable(self.opened.variable(fqn))
            or not selection.drawn
            or 0 in self.opened.shape_of(fqn)
        ):
            return self._table(selection)
        overview = self._plan(selection, windows, most_bytes)
        sample = self.read(selection, overview.parts)
        if len(selection.drawn) == 1 and selection.geography is None:
            return self._line(selection, overview, sample)
        grid, x, y, columns, notes = self._frame(replace(selection, fqn="", at=()), overview)
        pixels = grid.pixels(sample)
        why = _MISSING if not sample.count() else _NO_PLACES if not pixels.count() else ""
        drawing = self._drawing(selection, overview, sample, why, *notes)
        return Picture(
            **vars(drawing), grid=grid, x=x, y=y, columns=columns, pixels=pixels, coast=self._coast
        )

    def spread(self, drawing: Drawing, quick: bool = False, of_level: bool = False) -> Spread | None:
        """Find how far the values of all steps of a picture reach, or those of a sample of the steps.

        A `quick` sample has at most three steps; a later call refines it. The steps `of_level` have the level of the
        drawing.

        A step is a combination of indices on the axes that are not drawn. A sample includes the first and the last
        step, and skips steps that cannot be read.

        Returns
        -------
        Spread or None
            None if there is only one step, or no step has values.
        """
        selection = drawing.selection
        kept = [i for i in selection.fixed if of_level and selection.axes[i].role == "vertical"]
        axes = tuple(i for i in selection.fixed if i not in kept)
        if not isinstance(drawing, Picture) or prod(selection.axes[i].size for i in axes) <= 1:
            return None
        key = (selection.fqn, selection.drawn, *(selection.at[i] for i in kept))
        known = self._spreads.get(key)
        if key not in self._spreads or not (quick or known is None or known.is_refined):
            found = self._find_spread(selection, axes, *(_QUICK if quick else _REFINED))
            if found is not None and known is not None:  # the quick sample has other steps
                found = replace(found, range=found.range.joined(known.range))
            self._spreads[key] = found
        return self._spreads[key]

    def _find_spread(
        self, selection: Hyperslab, axes: tuple[int, ...], steps: int, most_bytes: int
    ) -> Spread | None:
        sizes = [selection.axes[i].size for i in axes]
        count, itemsize = prod(sizes), self.opened.variable(selection.fqn).type.dtype.itemsize
        chunk = prod(max(c, 1) for c in self.opened.chunk_shape(selection.fqn)) * itemsize
        most = min(max(most_bytes // max(chunk, 1), 2), steps, count)
        overview = self._plan(selection, (), most_bytes // most)
        found, read = list[Range](), 0
        for number in range(most):
            # Distribute the steps evenly with integer arithmetic: the count may exceed the precision of a double.
            place = number * (count - 1) // max(most - 1, 1)
            for axis, size in zip(reversed(axes), reversed(sizes)):
                place, index = divmod(place, size)
                selection = selection.moved(axis, index)
            try:
                values = self.read(selection, overview.parts)
            except NCZarrError:  # an unreadable chunk is reported when its step is shown
                continue
            read += 1
            if (part := Range.of(values)) is not None:
                found.append(part)
        is_whole = read == count and overview.is_whole
        is_refined = is_whole or steps > _QUICK[0]
        return Spread(reduce(Range.joined, found), read, count, is_whole, is_refined) if found else None

    def series(self, selection: Hyperslab, axis: int, place: tuple[int, ...]) -> Line:
        """Read a line through a point of a picture, along an axis that is not drawn.

        Parameters
        ----------
        selection : Hyperslab
            The selection of the picture.
        axis : int
            Number of the axis of the line.
        place : tuple of int
            Indices of the point on the picture's axes.
        """
        for drawn, index in zip(selection.drawn, place, strict=True):
            selection = selection.moved(drawn, index)
        drawing = self.draw(Hyperslab(selection.fqn, selection.axes, (axis,), selection.at))
        assert isinstance(drawing, Line)
        return drawing

    # -- reading

    def _plan(self, selection: Hyperslab, windows: Windows, most_bytes: int) -> Overview:
        sizes = [selection.axes[i].size for i in selection.drawn]
        chunks = self.opened.chunk_shape(selection.fqn)
        itemsize = self.opened.variable(selection.fqn).type.dtype.itemsize
        most = MOST_PIXELS
        if len(sizes) == 1:
            most = _MOST_POINTS if selection.geography is None else _MOST_PLACES
        windows, here = windows or [(0, size) for size in sizes], [chunks[i] for i in selection.drawn]
        chunk = [max(min(c, size), 1) for c, size in zip(here, sizes)]
        return plan_overview(windows, chunk, prod(max(c, 1) for c in chunks) * itemsize, most, most_bytes)

    def read(self, selection: Hyperslab, parts: tuple[range, ...]) -> _Values:
        """Return the values of a selection, in the order of the drawn axes, without NaN."""
        values = self.opened.read(selection.fqn, selection.index(parts))
        if len(selection.drawn) == 2 and selection.drawn[0] > selection.drawn[1]:
            values = values.T
        return np.ma.masked_invalid(values, copy=False) if values.dtype.kind == "f" else values

    def _drawing(self, selection: Hyperslab, overview: Overview, sample: _Values, *notes: str) -> Drawing:
        """Return a drawing without its values; the step has the axes that are not drawn."""
        variable, axes = self.opened.variable(selection.fqn), selection.axes
        name, units = split_fqn(selection.fqn)[1], text_of(variable, "units")
        fixed = [(axes[i], selection.at[i]) for i in selection.fixed if axes[i].size]
        step = tuple((axis.name, self.coordinates.label(axis, at)) for axis, at in fixed)
        label = f"{name} ({units})" if units and units != "1" else name
        strides = [(axes[i].name, stride) for i, stride in zip(selection.drawn, overview.steps)]
        skips = ", ".join(f"{name} every {stride:,}" for name, stride in strides if stride > 1)
        reason = "limits the chunks read" if overview.coarse else "matches the screen resolution"
        reduced = f"overview ({skips} values, which {reason}); zoom in for more" if skips else ""
        said = tuple(note for note in (*notes[:1], reduced, *notes[1:]) if note)
        return Drawing(long_name(variable), step, label, said, selection, overview.parts, sample)

    # -- layouts

    def _line(self, selection: Hyperslab, overview: Overview, sample: _Values) -> Line:
        axis, part = selection.axes[selection.drawn[0]], overview.parts[0]
        places, scale, note = self._places(axis, part, needs_order=False)
        base = self._drawing(selection, overview, sample, "" if sample.count() else _MISSING, note)
        instances = self.coordinates.instances(selection.fqn) if overview.is_whole else ()
        columns = (self._column(axis, part),)
        return Line(**vars(base), places=places, x=scale, columns=columns, instances=instances)

    def _column(self, axis: Axis, part: range) -> tuple[str, np.ndarray]:
        """Return the name of an axis and the labels of its places."""
        texts, numbers = self.coordinates.texts(axis), self.coordinates.numbers(axis, part)
        labels = [str(i) if texts is None else texts[i] for i in part]
        if texts is None and numbers is not None:
            labels = [axis.times.label(n) if axis.times is not None else f"{n:.9g}" for n in numbers]
        return axis.name, np.array(labels, object)

    def _places(self, axis: Axis, part: range, *, needs_order: bool) -> tuple[np.ndarray, Scale, str]:
        """Return the positions along an axis, its scale and a note."""
        indices, title = np.array(part, np.float64), axis.title or axis.name
        texts, numbers = self.coordinates.texts(axis), self.coordinates.numbers(axis, part)
        every = max(len(part) // _MOST_NAMES, 1)
        if texts is not None:
            names = tuple((float(i), texts[i]) for i in part[::every])
            return indices, Scale(title, "named", names=names), ""
        if axis.coordinate is None:
            return indices, Scale(title), ""
        if numbers is None or (needs_order and grids.Cells.of(numbers) is None):
            note = _NO_NUMBERS if numbers is None else _NOT_IN_ORDER
            return indices, Scale(f"{axis.name} (index)"), note.format(axis.name)
        if axis.times is None:
            return numbers, Scale(axis.label, down=axis.down, upright=axis.role == "vertical"), ""
        milliseconds = axis.times.milliseconds(numbers)
        if milliseconds is not None:
            return milliseconds, Scale(axis.title, "date"), ""
        names = axis.times.ticks(numbers)
        return numbers, Scale(f"{axis.title} ({axis.times.calendar})", "named", names=names), ""

    def _find_frame(self, selection: Hyperslab, overview: Overview) -> _Frame:
        """Return the grid of a picture; finding nearest points is slow."""
        axes, geography = [selection.axes[i] for i in selection.drawn], selection.geography
        if geography is not None:
            find = self._on_axes if geography.kind == "axes" else self._on_places
            frame = find(geography, overview, selection.projection, axes)
            if frame is not None:
                return frame
        found = [self._places(axis, part, needs_order=True) for axis, part in zip(axes, overview.parts)]
        parts = overview.parts
        if len(found) == 1:  # places that cannot be drawn on a map
            found.insert(0, (np.zeros(1), Scale(""), ""))
        y, x = (cells for places, _, _ in found if (cells := grids.Cells.of(places)) is not None)
        columns = tuple(self._column(axis, part) for axis, part in zip(axes, overview.parts))
        (_, up, _), (_, across, _) = found
        return grids.rectilinear(y, x, parts), across, up, columns, tuple(note for _, _, note in found)

    def _on_axes(self, of: Geography, overview: Overview, projection: str, axes: list[Axis]) -> _Frame | None:
        """Return the grid of a map of two axes; None if their coordinates are not numbers, or not monotonic."""
        y, x = (self.coordinates.numbers(axis, part) for axis, part in zip(axes, overview.parts))
        if y is None or x is None:
            return None
        own, columns = Plane(of.plane), ((axes[0].name, y), (axes[1].name, x))
        limits = (-np.inf, np.inf) if own.definition else (-90.0, 90.0)
        rows = grids.Cells.of(y * of.unit, limits)
        across = grids.Cells.of(x * of.unit if own.definition else np.unwrap(x, period=360))
        if rows is None or across is None:
            return None
        if not projection or PROJECTIONS.get(projection) == own.definition:
            grid = grids.rectilinear(rows, across, overview.parts, own)
            return grid, *_scales(own, grid.extent), columns, ()
        edges = (cells.edges[np.linspace(0, len(cells), 200).astype(int)] for cells in (across, rows))
        plane, extent = _plane(projection, *own.locate(*np.meshgrid(*edges)))
        locate = grids.locate_on_axes(rows, across, own)
        grid = grids.sampled(locate, overview.parts, extent, plane)
        return grid, *_scales(plane, grid.extent), columns, ()

    def _on_places(self, of: Geography, overview: Overview, projection: str, axes: list[Axis]) -> _Frame:
        """Return the grid of a map of places: the polygons of a mesh, or the points nearest to each pixel."""
        is_mesh = of.kind == "mesh"
        parts = tuple(slice(part.start, part.stop, part.step) for part in overview.parts)
        found = (self.opened.read(fqn, ... if is_mesh else parts) for fqn in (of.latitude, of.longitude))
        lat, lon = (np.ma.filled(np.ma.asanyarray(n, np.float64), np.nan) for n in found)
        if is_mesh:
            nodes = self._faces(of.faces)
            across, up = (_corners(n, nodes) for n in (lon, lat))
            across = across[:, :1] + (across - across[:, :1] + 180) % 360 - 180  # each face is in one piece
            if not of.on_nodes:
                lat, lon = np.nanmean(up, axis=1), np.nanmean(across, axis=1)
            lat, lon = lat[parts], lon[parts]
        columns: Columns = (("latitude", lat), ("longitude", lon))
        if is_mesh and overview.is_whole:
            # After zooming, the first value that was read is not the first one of the mesh.
            seen: slice | np.ndarray = parts[0]
            if of.on_nodes:
                nodes = nodes - parts[0].start
                seen = np.flatnonzero(((nodes >= 0) & (nodes < lat.size)).any(axis=1))
            nodes, across, up = nodes[seen], across[seen], up[seen]
            plane, e = _plane(projection, across, up)
            turned = across if plane.definition else across - (across[:, :1] - e.left) // 360 * 360
            of_nodes = nodes if of.on_nodes else nodes[:0]
            grid = grids.polygons(*plane.project(turned, up), of_nodes, overview.parts, e, plane)
        else:
            locate, margin = grids.locate_points(lat, lon)
            plane, e = _plane(projection, lon, lat, margin)
            grid = grids.sampled(locate, overview.parts, e, plane)
        return grid, *_scales(plane, grid.extent), columns, ()

    def _faces(self, fqn: str) -> np.ndarray:
        """Return the nodes of each face, one row for each face, from 0; -1 for corners that a face does not have."""
        variable = self.opened.variable(fqn)
        nodes = np.ma.filled(self.opened.read(fqn, ...).astype(np.int64), -1)
        is_turned = nodes.shape[0] < nodes.shape[1] and nodes.shape[0] <= 8
        first = 1 if variable.name == "nv" else int(number_of(variable, "start_index", 0) or 0)
        return np.maximum((nodes.T if is_turned else nodes) - first, -1)

    def _table(self, selection: Hyperslab) -> Table:
        """Return the first values as text; characters are joined to strings along their last dimension."""
        shape = self.opened.shape_of(selection.fqn)
        is_text = self.opened.variable(selection.fqn).type == CHAR and bool(shape)
        limits = [slice(0, _MOST_ROWS), slice(0, _MOST_CHARACTERS)][: 1 + is_text][-len(shape) :]
        first = max(len(shape) - len(limits), 0)  # of the shown axes
        # The axis of the rows; text along a single dimension is one row.
        row = None if not shape or (is_text and len(shape) == 1) else first
        rows: list[tuple[str, str]] = []
        if prod(shape):
            index = (*selection.at[:first], *(limits if shape else ()))
            values: np.ndarray = self.opened.read(selection.fqn, index)
            if values.dtype.names:
                values = np.ma.getdata(values)  # ignore the masks of fields
            if is_text and values.dtype.kind == "S":  # otherwise the netCDF interface has joined them
                values = joined_characters(values)
            for i, value in enumerate(values.reshape(-1)[:_MOST_ROWS]):
                label = "" if row is None else self.coordinates.label(selection.axes[row], i)
                fields = list(value.tolist()) if isinstance(value, np.void) and value.dtype.names else value
                rows.append((label, "missing" if value is np.ma.masked else format_value(fields)))
        shown = replace(selection, drawn=tuple(range(first, len(shape))))
        about = vars(self._drawing(shown, Overview(()), np.ma.array([]))) | {"selection": selection}
        return Table(**about, rows=tuple(rows), left_out=(1 if row is None else shape[row]) - len(rows))


def _scales(plane: Plane, extent: grids.Extent) -> tuple[Scale, Scale]:
    """Return the axes of a map; those of a projection have the numbers of its lines of longitude and latitude."""
    if plane.definition:
        x, y = line_numbers(plane, extent)
        return Scale("", "named", names=x), Scale("", "named", names=y)
    return Scale("longitude (degrees east)"), Scale("latitude (degrees north)")


def _plane(name: str, lon: np.ndarray, lat: np.ndarray, margin: float = 0.0) -> tuple[Plane, grids.Extent]:
    """Return the plane of a projection around the middle of places, and its extent with a margin in degrees."""
    e = grids.globe_extent(lon, lat, margin / 2)
    if not PROJECTIONS.get(name):
        return Plane(), e
    middle = 0 if e.right - e.left > 350 else round((e.left + e.right) / 2)
    plane = Plane(PROJECTIONS[name].format(lon=middle, lat=round((e.bottom + e.top) / 2) or 20))
    near = np.abs(lat - {"north polar": 90, "south polar": -90}.get(name, lat)) < 75
    x, y = plane.project(np.where(near, lon, np.nan), np.where(near, lat, np.nan))
    return plane, grids.Extent.around(x, y, margin * 55_000)


def _corners(numbers: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Return the numbers of the corners of each face; NaN for corners that it does not have."""
    inside = (nodes >= 0) & (nodes < len(numbers))
    return np.where(inside, numbers[np.where(inside, nodes, 0)], np.nan)


def zoomed(picture: Picture, extent: grids.Extent) -> Windows | None:
    """Return the windows to read for an extent of a picture; None if the picture already has all values."""
    return None if {*picture.steps} <= {1} else picture.grid.window(extent)


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
        arrows, key = _arrows(drawer, picture, pair) if pair else ([], None)
        lines += arrows
        picture = replace(picture, key=key)
        length = f"; the arrow of the key is {key[1]}" if key else ""
        notes += (
            f"arrows of {' and '.join(pair)}{length}"
            if pair and arrows
            else "there is no pair of components",
        )
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


def _arrows(
    drawer: Drawer, picture: Picture, pair: tuple[str, str]
) -> tuple[list[np.ndarray], tuple[float, str] | None]:
    """Return an arrow for each of the pixels of a coarse grid, and the key of their length.

    An arrow is a line from tail to head, with the head's sides.
    """
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
        return [], None
    x, y, u, v = x[fine], y[fine], u[fine], v[fine]
    speed = np.hypot(u, v)
    if grid.plane is not None and grid.plane.definition and "x_" not in pair[0]:
        # The direction of an eastward and a northward component in the plane.
        lon, lat = grid.plane.locate(x, y)
        east = 0.01 * u / speed / np.cos(np.radians(lat)).clip(0.01)
        to_x, to_y = grid.plane.project(lon + east, lat + 0.01 * v / speed)
        along = speed / np.hypot(to_x - x, to_y - y)
        u, v = along * (to_x - x), along * (to_y - y)
    unit = 0.9 * (e.right - e.left) / columns / float(np.nanpercentile(speed, 98))
    scale = unit * np.array([1.0, 1.0 / aspect])
    middle, half = np.stack((x, y), axis=-1), np.stack((u, v), axis=-1) * scale / 2
    turned = np.stack((v, -u), axis=-1) * scale
    tips, sides = middle + half, [middle + 0.4 * half + s * turned for s in (0.15, -0.15)]
    arrows = np.stack((middle - half, tips, sides[0], tips, sides[1]), axis=1)
    found = [arrow for arrow in arrows if np.isfinite(arrow).all()]
    round_speed = float(f"{np.nanpercentile(speed, 98):.0e}")
    units = text_of(drawer.opened.variable(pair[0]), "units")
    return found, (round_speed * unit, f"{round_speed:g} {units}".rstrip())

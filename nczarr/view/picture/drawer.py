"""Create drawings: read the values of a selection, and arrange them on a grid, a line or a table."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple, TypedDict

import numpy as np

from nczarr.display import format_value
from nczarr.errors import NCZarrError
from nczarr.model import CHAR, split_fqn
from nczarr.system.locks import TABLES
from nczarr.view.coordinates import Axis, Coordinates, Geography
from nczarr.view.opened import OpenedDataset, is_drawable, long_name, number_attribute, text_attribute
from nczarr.view.picture import grids
from nczarr.view.picture.drawings import Columns, Drawing, Line, Picture, Scale, Table
from nczarr.view.picture.sampling import MOST_BYTES, Overview, plan_overview
from nczarr.view.picture.selection import Selection
from nczarr.view.planes import PROJECTIONS, Plane

#: Maximum number of points of a line.
MOST_POINTS = 4000
#: Maximum number of points of an unstructured grid.
_MOST_PLACES = 500_000
#: Maximum number of rows of a table.
_MOST_ROWS = 200
_MOST_CHARACTERS = 2000
_MOST_NAMES = 10
_KEPT_FRAMES, _KEPT_DRAWINGS = 8, 12
_QUICK_STEPS = 3
#: Maximum number of steps, and of bytes of decoded chunks, to read for the colour limits of all steps.
_MOST_STEPS = 24
_SAMPLE_BYTES = 64 << 20
_NOT_IN_ORDER = "the coordinate {} is not strictly monotonic; the axis shows indices"
_NO_NUMBERS = "the coordinate {} has missing or non-numeric values; the axis shows indices"

Windows = tuple[tuple[int, int], ...]


class _Frame(NamedTuple):
    """The grid of a picture, with its axes, notes and coordinates."""

    grid: grids.Grid
    x: Scale
    y: Scale
    notes: tuple[str, ...]
    columns: Columns


class _Words(TypedDict):
    title: str
    step: tuple[tuple[str, str], ...]
    label: str
    selection: Selection


@dataclass(frozen=True)
class Spread:
    """The minimum and maximum of all steps of a picture.

    Parameters
    ----------
    low, high : float
    read, count : int
        Number of steps read, and total number of steps.
    is_whole : bool
        True if all values were read.
    is_refined : bool
        False after a quick sample.
    """

    low: float
    high: float
    read: int
    count: int
    is_whole: bool
    is_refined: bool = True

    @property
    def note(self) -> str:
        """Note for viewers that the limits come from a sample."""
        return (
            f"the colour limits come from a sample ({self.read:,} of {self.count:,} steps); "
            "values beyond them have the first or the last colour"
        )


class Drawer:
    """Create drawings of a dataset. Recent grids are cached, because successive pictures often share a grid.

    Examples
    --------
    >>> from nczarr import cdl
    >>> from nczarr.view.picture.selection import first_selection
    >>> text = "netcdf d { dimensions: y = 2; x = 3; variables: int v(y, x); data: v = 1, 2, 3, 4, 5, 6; }"
    >>> with OpenedDataset(cdl.loads(text)) as opened:
    ...     drawer = Drawer(opened)
    ...     drawer.draw(first_selection(opened, drawer.coordinates, "/v")).pixels.tolist()
    [[1, 2, 3], [4, 5, 6]]
    """

    def __init__(self, opened: OpenedDataset) -> None:
        self.opened = opened
        self.coordinates = Coordinates(opened)
        self._frames: OrderedDict[tuple[object, ...], _Frame] = OrderedDict()
        self._drawn: OrderedDict[Selection, Drawing] = OrderedDict()
        self._spreads: dict[tuple[str, tuple[int, ...]], Spread | None] = {}

    def draw(
        self, selection: Selection, windows: Windows | None = None, *, most_bytes: int = MOST_BYTES
    ) -> Drawing:
        """Read a selection and create its drawing.

        Parameters
        ----------
        selection : Selection
        windows : tuple of (int, int), optional
            Start and stop on each drawn axis; default: the whole axes.
        most_bytes : int
            Maximum bytes of decoded chunks to read.

        Raises
        ------
        NCZarrError
            If the values cannot be read.
        """
        if not is_drawable(self.opened.variable(selection.fqn)) or not selection.drawn:
            return self._table(selection)
        overview = self._plan(selection, windows, most_bytes)
        if 0 in self.opened.shape(selection.fqn):
            return self._table(selection)
        sample = self.read(selection, overview.parts)
        if len(selection.drawn) == 1 and selection.geography is None:
            return self._line(selection, overview, sample)
        return self._picture(selection, overview, sample)

    def draw_step(self, selection: Selection) -> Drawing:
        """Return the drawing of a selection from the cache, or draw it; frames that come ahead of time wait there."""
        with TABLES:
            if selection in self._drawn:
                self._drawn.move_to_end(selection)
                return self._drawn[selection]
        drawing = self.draw(selection)
        with TABLES:
            self._drawn[selection] = drawing
            while len(self._drawn) > _KEPT_DRAWINGS:
                self._drawn.popitem(last=False)
        return drawing

    def spread(self, drawing: Drawing, quick: bool = False) -> Spread | None:
        """Find the minimum and maximum of all steps of a picture, or of a sample of the steps.

        A `quick` sample has at most three steps; a later call refines it.

        A step is a combination of indices on the axes that are not drawn. A sample includes the first and the last
        step, and skips steps that cannot be read.

        Returns
        -------
        Spread or None
            None if there is only one step, or no step has values.
        """
        selection = drawing.selection
        sizes = [selection.axes[i].size for i in selection.fixed]
        if not isinstance(drawing, Picture) or prod(sizes) <= 1:
            return None
        key = (selection.fqn, selection.drawn)
        with TABLES:
            known = self._spreads.get(key)
            if key in self._spreads and (quick or known is None or known.is_refined):
                return known
        found = self._find_spread(selection, sizes, _QUICK_STEPS if quick else _MOST_STEPS)
        if found is not None and known is not None:  # the quick sample has other steps
            found = replace(found, low=min(found.low, known.low), high=max(found.high, known.high))
        with TABLES:
            self._spreads[key] = found
        return found

    def _find_spread(self, selection: Selection, sizes: list[int], steps: int) -> Spread | None:
        count = prod(sizes)
        chunk = prod(max(c, 1) for c in self.opened.chunk_shape(selection.fqn))
        chunk *= self.opened.variable(selection.fqn).type.dtype.itemsize
        most = min(max(_SAMPLE_BYTES // max(chunk, 1), 2), steps, count)
        overview = self._plan(selection, None, _SAMPLE_BYTES // most)
        low, high, read = np.inf, -np.inf, 0
        for number in range(most):
            # Distribute the steps evenly with integer arithmetic: the count may exceed the precision of a double.
            place = number * (count - 1) // max(most - 1, 1)
            for axis, size in zip(reversed(selection.fixed), reversed(sizes)):
                place, index = divmod(place, size)
                selection = selection.moved(axis, index)
            try:
                values = self.read(selection, overview.parts)
            except NCZarrError:  # an unreadable chunk is reported when its step is shown
                continue
            read += 1
            if np.ma.count(values):
                low, high = min(low, float(values.min())), max(high, float(values.max()))
        if low > high:
            return None
        is_whole = read == count and overview.is_whole
        return Spread(low, high, read, count, is_whole, is_whole or steps > _QUICK_STEPS)

    def series(self, selection: Selection, axis: int, place: tuple[int, ...]) -> Line:
        """Read a line through a point of a picture, along an axis that is not drawn.

        Parameters
        ----------
        selection : Selection
            The selection of the picture.
        axis : int
            Number of the axis of the line.
        place : tuple of int
            Indices of the point on the picture's axes.
        """
        for drawn, index in zip(selection.drawn, place, strict=True):
            selection = selection.moved(drawn, index)
        line = Selection(selection.fqn, selection.axes, (axis,), selection.at)
        drawing = self.draw(line)
        assert isinstance(drawing, Line)
        return drawing

    # -- reading

    def _plan(self, selection: Selection, windows: Windows | None, most_bytes: int) -> Overview:
        axes = [selection.axes[i] for i in selection.drawn]
        chunks = self.opened.chunk_shape(selection.fqn)
        itemsize = self.opened.variable(selection.fqn).type.dtype.itemsize
        most = 1000
        if len(axes) == 1:
            most = MOST_POINTS if selection.geography is None else _MOST_PLACES
        return plan_overview(
            windows or tuple((0, axis.size) for axis in axes),
            [max(min(chunks[i], selection.axes[i].size), 1) for i in selection.drawn],
            prod(max(c, 1) for c in chunks) * itemsize,
            most_pixels=most,
            most_bytes=most_bytes,
        )

    def read(self, selection: Selection, parts: tuple[slice, ...]) -> np.ma.MaskedArray:
        """Return the values of a selection, in the order of the drawn axes, without NaN."""
        values = self.opened.read(selection.fqn, selection.index(parts))
        if len(selection.drawn) == 2 and selection.drawn[0] > selection.drawn[1]:
            values = values.T
        if values.dtype.kind == "f":
            values = np.ma.masked_invalid(values, copy=False)
        return values

    # -- titles and notes

    def _words(self, selection: Selection, shown: tuple[int, ...] | None = None) -> _Words:
        """Return title, label and step; the step has the axes that are not in `shown` (default: the drawn axes)."""
        shown = selection.drawn if shown is None else shown
        variable = self.opened.variable(selection.fqn)
        units = text_attribute(variable, "units")
        step = tuple(
            (axis.name, self.coordinates.label(axis, selection.at[i]))
            for i, axis in enumerate(selection.axes)
            if i not in shown and axis.size
        )
        name = split_fqn(selection.fqn)[1]
        label = f"{name} ({units})" if units and units != "1" else name
        return {"title": long_name(variable), "step": step, "label": label, "selection": selection}

    @staticmethod
    def _notes(selection: Selection, overview: Overview) -> tuple[str, ...]:
        names = [selection.axes[i].name for i in selection.drawn]
        steps = [f"{name} every {step:,}" for name, step in zip(names, overview.steps) if step > 1]
        if not steps:
            return ()
        reason = "limits the chunks read" if overview.coarse else "matches the screen resolution"
        return (f"overview ({', '.join(steps)} values, which {reason}); zoom in for more",)

    # -- layouts

    def _line(self, selection: Selection, overview: Overview, sample: np.ma.MaskedArray) -> Line:
        axis, part = selection.axes[selection.drawn[0]], overview.parts[0]
        places, scale, notes = self._places(axis, part, needs_order=False)
        return Line(
            **self._words(selection),
            notes=(*_emptiness(sample, sample), *self._notes(selection, overview), *notes),
            parts=overview.parts,
            sample=sample,
            places=places,
            x=scale,
            columns=(self._column(axis, part),),
            instances=self.coordinates.instances(selection.fqn) if overview.is_whole else (),
        )

    def _column(self, axis: Axis, part: slice) -> tuple[str, np.ndarray]:
        """Return the name of an axis and the labels of its places."""
        texts = self.coordinates.texts(axis)
        numbers = self.coordinates.numbers(axis, part)
        if texts is not None:
            labels = texts[part]
        elif numbers is None:
            labels = [str(i) for i in range(part.start, part.stop, part.step)]
        elif axis.times is not None:
            labels = [axis.times.label(n) for n in numbers]
        else:
            labels = [f"{n:.9g}" for n in numbers]
        return axis.name, np.array(labels, object)

    def _places(
        self, axis: Axis, part: slice, *, needs_order: bool
    ) -> tuple[np.ndarray, Scale, tuple[str, ...]]:
        """Return the positions along an axis, its scale and notes."""
        indices = np.arange(part.start, part.stop, part.step, dtype=np.float64)
        texts = self.coordinates.texts(axis)
        if texts is not None:
            every = max((part.stop - part.start) // _MOST_NAMES, 1)
            names = tuple((float(i), texts[i]) for i in range(part.start, part.stop, every))
            return indices, Scale(axis.title or axis.name, "named", names=names), ()
        if axis.coordinate is None:
            return indices, Scale(axis.title or axis.name), ()
        numbers = self.coordinates.numbers(axis, part)
        if numbers is None or (needs_order and grids.Cells.of(numbers) is None):
            note = _NO_NUMBERS if numbers is None else _NOT_IN_ORDER
            return indices, Scale(f"{axis.name} (index)"), (note.format(axis.name),)
        if axis.times is None:
            return numbers, Scale(axis.label, down=axis.down), ()
        milliseconds = axis.times.milliseconds(numbers)
        if milliseconds is not None:
            return milliseconds, Scale(axis.title, "date"), ()
        every = max(len(numbers) // _MOST_NAMES, 1)
        names = tuple((float(n), axis.times.label(n)) for n in numbers[::every])
        return numbers, Scale(f"{axis.title} ({axis.times.calendar})", "named", names=names), ()

    def _picture(self, selection: Selection, overview: Overview, sample: np.ma.MaskedArray) -> Picture:
        frame = self._frame(selection, overview)
        pixels = frame.grid.pixels(sample)
        return Picture(
            **self._words(selection),
            notes=(*_emptiness(sample, pixels), *self._notes(selection, overview), *frame.notes),
            parts=overview.parts,
            sample=sample,
            grid=frame.grid,
            x=frame.x,
            y=frame.y,
            columns=frame.columns,
            pixels=pixels,
        )

    def _frame(self, selection: Selection, overview: Overview) -> _Frame:
        """Return the grid of a picture from the cache, or create it: finding nearest points is slow."""
        parts = tuple((part.start, part.stop, part.step) for part in overview.parts)
        geography = selection.geography
        key = (geography or selection.fqn, selection.drawn, parts, selection.projection)
        with TABLES:
            if key in self._frames:
                self._frames.move_to_end(key)
                return self._frames[key]
        frame = None if geography is None else self._map(selection, overview, geography)
        frame = frame or self._flat(selection, overview)
        with TABLES:
            self._frames[key] = frame
            while len(self._frames) > _KEPT_FRAMES:
                self._frames.popitem(last=False)
        return frame

    def _flat(self, selection: Selection, overview: Overview) -> _Frame:
        cells, scales, columns = [], [], []
        notes: tuple[str, ...] = ()
        for number, part in zip(selection.drawn, overview.parts):
            places, scale, more = self._places(selection.axes[number], part, needs_order=True)
            found = grids.Cells.of(places)
            assert found is not None
            cells.append(found)
            scales.append(scale)
            columns.append(self._column(selection.axes[number], part))
            notes += more
        if len(cells) == 1:  # places that cannot be drawn on a map
            cells, scales = [grids.Cells(np.zeros(1)), *cells], [Scale(""), *scales]
        return _Frame(grids.rectilinear(cells[0], cells[1]), scales[1], scales[0], notes, tuple(columns))

    def _map(self, selection: Selection, overview: Overview, geography: Geography) -> _Frame | None:
        """Return the grid of a map; None if its coordinates are not numbers, or not monotonic."""
        names, parts = [selection.axes[i].name for i in selection.drawn], overview.parts
        shape = tuple(len(range(p.start, p.stop, p.step)) for p in parts)
        columns: Columns
        if geography.kind == "axes":
            axes = [selection.axes[i] for i in selection.drawn]
            y, x = (self.coordinates.numbers(axis, part) for axis, part in zip(axes, parts))
            if y is None or x is None:
                return None
            own, columns = Plane(geography.plane), ((names[0], y), (names[1], x))
            x = x * geography.unit if own.definition else np.unwrap(x, period=360)
            rows = grids.Cells.of(y * geography.unit, (-np.inf, np.inf) if own.definition else (-90.0, 90.0))
            across = grids.Cells.of(x)
            if rows is None or across is None:
                return None
            if not selection.projection or (
                selection.projection in PROJECTIONS and own == self._plane(selection)
            ):
                return _Frame(grids.rectilinear(rows, across, own), *_scales(own), (), columns)
            locate, margin = grids.locate_on_axes(rows, across, own), 0.0
            edges = [
                cells.edges[np.linspace(0, len(cells.edges) - 1, 200).astype(int)] for cells in (across, rows)
            ]
            lon, lat = own.locate(*np.meshgrid(*edges))
        else:
            whole = geography.kind == "mesh" and overview.is_whole
            if geography.kind == "mesh":
                lat, lon = (self._floats(n) for n in (geography.latitude, geography.longitude))
                nodes = self._faces(geography)
                if not whole and not geography.on_nodes:
                    lat, lon = (_corners(n, nodes).mean(axis=1) for n in (lat, lon))
                if not whole:
                    lat, lon = lat[parts], lon[parts]
            else:
                lat, lon = (self._floats(n, parts) for n in (geography.latitude, geography.longitude))
            columns = () if whole and not geography.on_nodes else (("latitude", lat), ("longitude", lon))
            if whole:
                margin = 0.0
            else:
                locate, margin = grids.locate_points(lat, lon)
        plane = self._plane(selection, lon, lat)
        if not plane.definition:
            extent = grids.globe_extent(lon, lat, margin / 2)
        else:
            near = np.abs(lat - {"north polar": 90, "south polar": -90}.get(selection.projection, lat)) < 75
            u, v = plane.project(np.where(near, lon, np.nan), np.where(near, lat, np.nan))
            extent = grids.Extent.around(u, v, margin * 55_000)
        if geography.kind == "mesh" and whole:
            turned = lon if plane.definition else extent.left + (lon - extent.left) % 360
            u, v = (_corners(n, nodes) for n in plane.project(turned, lat))
            if not plane.definition:  # each face is in one piece
                u = u[:, :1] + (u - u[:, :1] + 180) % 360 - 180
                if not geography.on_nodes:
                    columns = (("latitude", np.nanmean(v, axis=1)), ("longitude", np.nanmean(u, axis=1)))
            elif not geography.on_nodes:
                columns = ((names[0], np.arange(shape[0])),)
            grid = grids.polygons(u, v, nodes if geography.on_nodes else nodes[:0], shape[0], extent, plane)
        else:
            wide, high = extent.right - extent.left, extent.top - extent.bottom
            # Adapt the number of pixels to the number of values: a coarse grid does not need a fine raster.
            most = np.sqrt(np.prod(shape) * max(wide / high, high / wide)) * 8
            grid = grids.sampled(
                locate, shape, extent, plane, float(np.clip(most, 600 if plane.definition else 64, 1000))
            )
        return _Frame(grid, *_scales(plane), (), columns)

    @staticmethod
    def _plane(selection: Selection, lon: np.ndarray | None = None, lat: np.ndarray | None = None) -> Plane:
        """Return the plane of a selection's projection, around the middle of the places."""
        definition = PROJECTIONS.get(selection.projection, "")
        if not definition or lon is None or lat is None:
            return Plane(definition)
        e = grids.globe_extent(lon, lat)
        middle = 0 if e.right - e.left > 350 else round((e.left + e.right) / 2)
        return Plane(definition.format(lon=middle, lat=round((e.bottom + e.top) / 2) or 20))

    def _floats(self, fqn: str, parts: tuple[slice, ...] = (slice(None),)) -> np.ndarray:
        """Return coordinates, with NaN for missing ones."""
        return np.ma.filled(np.ma.asanyarray(self.opened.read(fqn, parts), np.float64), np.nan)

    def _faces(self, geography: Geography) -> np.ndarray:
        """Return the nodes of each face, one row for each face, from 0; -1 for corners that a face does not have."""
        variable = self.opened.variable(geography.faces)
        nodes = np.ma.filled(self.opened.read(geography.faces, ...).astype(np.int64), -1)
        is_turned = nodes.shape[0] < nodes.shape[1] and nodes.shape[0] <= 8
        first = 1 if variable.name == "nv" else int(number_attribute(variable, "start_index", 0))
        return np.maximum((nodes.T if is_turned else nodes) - first, -1)

    def _table(self, selection: Selection) -> Table:
        """Return the first values as text; characters are joined to strings along their last dimension."""
        shape = self.opened.shape(selection.fqn)
        is_text = self.opened.variable(selection.fqn).type == CHAR and bool(shape)
        limits = [slice(0, _MOST_ROWS)] + [slice(0, _MOST_CHARACTERS)] * is_text
        shown = min(len(limits), len(shape))
        index: tuple[int | slice, ...] = (*selection.at[: len(shape) - shown], *limits[len(limits) - shown :])
        # The axis of the rows; text along a single dimension is one row.
        row = None if not shape or (is_text and len(shape) == 1) else len(shape) - shown
        rows: list[tuple[str, str]] = []
        if prod(shape):
            values: np.ndarray = self.opened.read(selection.fqn, index)
            if values.dtype.names:
                values = np.ma.getdata(values)  # ignore the masks of fields
            if is_text and values.dtype.kind == "S":  # otherwise the netCDF interface has joined them
                values = _joined(values)
            for i, value in enumerate(values.reshape(-1)[:_MOST_ROWS]):
                label = "" if row is None else self.coordinates.label(selection.axes[row], i)
                rows.append((label, "missing" if value is np.ma.masked else format_value(_plain(value))))
        return Table(
            **self._words(selection, tuple(range(len(shape)))[len(shape) - shown :]),
            notes=(),
            parts=(),
            sample=np.ma.array([]),
            rows=tuple(rows),
            left_out=(1 if row is None else shape[row]) - len(rows),
        )


def _emptiness(sample: np.ma.MaskedArray, pixels: np.ma.MaskedArray) -> tuple[str, ...]:
    """Return a note that says why a drawing shows no value."""
    if not sample.count():
        return ("all values of this step are missing (fill values, NaN, or outside of the valid range)",)
    if not pixels.count():
        return ("the map shows no value: latitudes or longitudes are missing, or not in this projection",)
    return ()


def _scales(plane: Plane) -> tuple[Scale, Scale]:
    """Return the axes of a map; those of a projection have no numbers."""
    if plane.definition:
        return Scale("", "named"), Scale("", "named")
    return Scale("longitude (degrees east)"), Scale("latitude (degrees north)")


def _corners(numbers: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Return the numbers of the corners of each face; NaN for corners that it does not have."""
    inside = (nodes >= 0) & (nodes < len(numbers))
    return np.where(inside, numbers[np.where(inside, nodes, 0)], np.nan)


def _joined(characters: np.ndarray) -> np.ndarray:
    """Join the bytes of each row to a string, without trailing null bytes.

    Examples
    --------
    >>> _joined(np.array([[b"a", b"b"], [b"c", b""]])).tolist()
    ['ab', 'c']
    """
    rows = np.ma.filled(characters, b"").reshape(-1, characters.shape[-1])
    return np.array(
        [b"".join(c or b"\0" for c in row).rstrip(b"\0").decode("utf-8", "replace") for row in rows]
    )


def _plain(value: object) -> object:
    """Return a compound value as a list of its fields; return other values unchanged."""
    return list(value.tolist()) if isinstance(value, np.void) and value.dtype.names else value


def zoomed(picture: Picture, extent: grids.Extent) -> Windows | None:
    """Return the windows to read for an extent of a picture; None if the picture already has all values."""
    if all(step == 1 for step in picture.steps):
        return None
    return picture.window(extent)

"""Draw pictures and lines as Bokeh figures, and update their values in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from bokeh import models
from bokeh.events import RangesUpdate, Tap
from bokeh.plotting import figure

from nczarr.display import visible
from nczarr.view.picture.colours import MISSING, Colours
from nczarr.view.picture.drawings import COAST, HALO, Drawing, Line, Picture, Scale
from nczarr.view.picture.grids import Extent

_HEIGHT = 500
#: Width reserved for the colour bar. Bokeh computes the layout once, and would clip longer tick labels of later limits.
_BAR_WIDTH = 100
_TOOLS = {"tools": "pan,wheel_zoom,box_zoom,reset,save", "active_scroll": "wheel_zoom"}
_WIDE = {"sizing_mode": "stretch_width"}
_MARK = {"marker": "circle_cross", "size": 16, "line_color": "#e8590c", "line_width": 2, "fill_alpha": 0}
_DATES = {
    "hours": "%H:%M", "days": "%d %b", "months": "%b %Y", "years": "%Y", "hourmin": "%H:%M", "minutes": "%H:%M",
}  # fmt: skip
_LONGEST_LABEL = 120
_IMAGE = ("image", "where", "x", "y", "dw", "dh", "longitude", "latitude")
_NO_IMAGE: dict[str, list[object]] = {name: [] for name in _IMAGE}


def _text(text: str) -> str:
    """Return text for a label: truncated, with control characters and the formula delimiter ``$$`` escaped."""
    return visible(text[:_LONGEST_LABEL]).replace("$$", "$ $")


class PictureFigure:
    """An image or a map with its colour bar.

    Parameters
    ----------
    picture : Picture
    colours : Colours
    tapped : callable
        Called with the point of a click.
    zoomed : callable
        Called with the visible extent after it changed.
    beside : PictureFigure, optional
        A figure whose visible extent this one shares.
    """

    def __init__(
        self,
        picture: Picture,
        colours: Colours,
        tapped: Callable[[float, float], None],
        zoomed: Callable[[Extent], None],
        beside: PictureFigure | None = None,
    ) -> None:
        self.picture, e = picture, picture.extent
        self.detail: Picture | None = None
        self._base, self._detail = models.ColumnDataSource(), models.ColumnDataSource(_NO_IMAGE)
        self._mark, self._overlay = (models.ColumnDataSource({"x": [], "y": []}) for _ in range(2))
        is_projected = picture.grid.plane is not None and bool(picture.grid.plane.definition)
        self._mapper: models.ContinuousColorMapper = models.LinearColorMapper(
            palette=["#000000"], low=0, high=1, nan_color=MISSING
        )
        shape: dict[str, object] = {"height": _HEIGHT, **_WIDE}
        if picture.is_map:
            ratio = max(min((e.right - e.left) / max(e.top - e.bottom, 1e-9), 4.0), 0.5)
            # Reserve space for the axis and the colour bar beside the map, and for the title above it.
            width, high = int(_HEIGHT * ratio + 150), _HEIGHT + (70 if is_projected else 90)
            shape = {"aspect_ratio": width / high, "sizing_mode": "scale_width", "max_width": width}
        ends = (e.top, e.bottom) if picture.y.down else (e.bottom, e.top)
        ranges = (models.Range1d(e.left, e.right), models.Range1d(*ends))
        x_range, y_range = ranges if beside is None else (beside.figure.x_range, beside.figure.y_range)
        name = "picture" if beside is None else "beside"
        border = {"min_border_right": _BAR_WIDTH, "toolbar_location": "above"}
        fig = figure(x_range=x_range, y_range=y_range, name=name, **border, **_TOOLS, **shape)
        self.figure: figure = fig
        fig.grid.visible = False
        _style_axis(fig.xaxis, picture.x, slant=0.0 if picture.is_map else 0.6)
        _style_axis(fig.yaxis, picture.y)
        columns = {"x": "x", "y": "y", "dw": "dw", "dh": "dh", "color_mapper": self._mapper}
        images = [fig.image("image", source=source, **columns) for source in (self._base, self._detail)]
        if picture.is_map:
            for axis in () if is_projected else (*fig.xaxis, *fig.yaxis):
                # Degrees have marks at 30 and 60.
                axis.ticker = models.AdaptiveTicker(base=10, mantissas=[1, 2, 3, 6], desired_num_ticks=8)
        around = e if is_projected else Extent(e.left - 360, e.right + 360, -90, 90)
        halo = {"color": HALO, "line_alpha": 0.55}
        for colour, lines, thick in picture.lines(around)[:2]:
            fig.multi_line(*_columns(lines), line_width=thick + 1.6, **halo)
            fig.multi_line(*_columns(lines), color=colour, line_width=thick)
        fig.multi_line("x", "y", source=self._overlay, line_width=2.6, **halo)
        fig.multi_line("x", "y", source=self._overlay, color=COAST, line_width=1)
        fig.scatter("x", "y", source=self._mark, **_MARK)
        # The step is a column of the image source, so that an open tooltip always shows the step of its image.
        hover = [("value", "@image"), ("at", "@where")][: 2 if picture.where else 1]
        if is_projected:
            hover += [("latitude", "@latitude{0.00}"), ("longitude", "@longitude{0.00}")]
        kinds = {}
        for name, scale in () if is_projected else (("$y", picture.y), ("$x", picture.x)):
            kinds[name], form = ("datetime", "%F %H:%M") if scale.kind == "date" else ("numeral", "0.[000]")
            hover.append((_text(scale.label), f"{name}{{{form}}}"))
        self._images = images
        self._hover = models.HoverTool(tooltips=hover, renderers=images, formatters=kinds)
        fig.add_tools(self._hover)
        bar = {"width": 14, "padding": 4, "title_standoff": 8, "border_line_color": None}
        self._bar = models.ColorBar(color_mapper=self._mapper, **bar)
        fig.add_layout(self._bar, "right")
        fig.on_event(Tap, lambda event: tapped(event.x, event.y))
        fig.on_event(RangesUpdate, lambda r: zoomed(Extent(*sorted((r.x0, r.x1)), *sorted((r.y0, r.y1)))))
        self.show(picture, colours)

    def show(self, picture: Picture, colours: Colours) -> None:
        """Show the values of another picture of the same layout."""
        self.picture = picture
        self.colour(colours)
        self._base.data = _image(picture, colours)
        self._overlay.data = dict(zip(("x", "y"), _columns(picture.overlay)))
        self.show_detail(None, colours)
        _set_title(self.figure, picture)

    def show_detail(self, picture: Picture | None, colours: Colours) -> None:
        """Show a part of the picture at a higher resolution, above the picture, or remove it."""
        self.detail = picture
        self._detail.data = _NO_IMAGE if picture is None else _image(picture, colours)
        # Below a detail, the overview has other values at the same point.
        self._hover.renderers = self._images if picture is None else self._images[1:]

    def index_at(self, x: float, y: float) -> tuple[int, ...] | None:
        """Return the indices on the drawn axes of the cell that is seen at a point; None if there is none.

        Below a detail, the overview has other cells at the same point.
        """
        seen = self.detail if self.detail is not None and self.detail.extent.contains(x, y) else self.picture
        return seen.grid.index_at(x, y)

    def place_of(self, index: tuple[int, ...]) -> tuple[float, float] | None:
        """Return the point of a cell, in the detail if that has the cell; None if the picture has none."""
        found = None if self.detail is None else self.detail.grid.place_of(index)
        return found or self.picture.grid.place_of(index)

    def colour(self, colours: Colours) -> None:
        """Change the colours without changing the values."""
        kind = models.LogColorMapper if colours.is_log else models.LinearColorMapper
        if not isinstance(self._mapper, kind):
            self._mapper = kind(palette=["#000000"], low=1, high=2, nan_color=MISSING)
            for image in self._images:
                image.glyph.color_mapper = self._mapper
            self._bar.color_mapper = self._mapper
        self._mapper.update(palette=colours.palette, low=colours.low, high=colours.high)
        names = {number: _text(c.name)[:30] for number, c in enumerate(colours.categories)}
        ticker = models.LogTicker() if colours.is_log else models.BasicTicker()
        ticker = models.FixedTicker(ticks=list(names)) if names else ticker
        self._bar.update(ticker=ticker, major_label_overrides=names, title=_text(self.picture.label))

    def mark(self, x: float, y: float) -> None:
        """Mark a clicked point."""
        self._mark.data = {"x": [x], "y": [y]}


def _set_title(fig: figure, drawing: Drawing) -> None:
    """Show the step as the title of a figure.

    Change the text of the title model, not the model: Bokeh keeps drawing the first title model of a figure after it
    was replaced.
    """
    fig.title.text = _text(drawing.where)


def _columns(lines: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return x and y of each line."""
    return [line[:, 0] for line in lines], [line[:, 1] for line in lines]


def _image(picture: Picture, colours: Colours) -> dict[str, list[object]]:
    pixels, e, plane = colours.numbered(picture.pixels), picture.extent, picture.grid.plane
    values = np.ma.asanyarray(pixels, np.float64).filled(np.nan)
    # The browser gets half the bytes.
    if _fits_float32(values):
        values = values.astype(np.float32)
    edges = (e.left, e.bottom, e.right - e.left, e.top - e.bottom)
    places: tuple[object, ...] = (0, 0)
    if plane is not None and plane.definition:
        places = tuple(np.asarray(place, np.float32) for place in picture.grid.places)
    cells = (np.ascontiguousarray(values), _text(picture.where), *edges, *places)
    return {name: [cell] for name, cell in zip(_IMAGE, cells)}


def _fits_float32(values: np.ndarray) -> bool:
    """Return True if single precision distinguishes all values that have different colours."""
    present = values[np.isfinite(values)]
    most, spread = np.abs(present).max(initial=0.0), np.ptp(present) if present.size else 0.0
    return bool(most == 0 or (1e-30 < most < 1e37 and (spread == 0 or spread / most > 1e-3)))


def _style_axis(axis: models.Axis, scale: Scale, ticks: int = 8, slant: float = 0.0) -> None:
    axis.axis_label = _text(scale.label)
    axis.axis_label_text_font_style = "normal"
    if scale.kind == "date":
        axis.formatter = models.DatetimeTickFormatter(**_DATES)
        axis.ticker = models.DatetimeTicker(desired_num_ticks=ticks)
    elif scale.kind == "named":
        axis.ticker = models.FixedTicker(ticks=[n for n, _ in scale.names])
        axis.major_label_overrides = {n: _text(t)[:30] for n, t in scale.names}
        axis.major_label_orientation = slant


class LineFigure:
    """A line: a series, or a profile with its levels as vertical axis; one curve for each station of a ragged array."""

    def __init__(self, line: Line, colours: Colours, *, name: str, tall: bool = True) -> None:
        self._is_profile, self._is_down = line.x.upright, line.x.down
        upright = {"y_range": models.Range1d(1, 0) if self._is_down else models.Range1d(0, 1)}
        height = _HEIGHT - 80 if tall else 300
        self.figure = fig = figure(
            height=height,
            name=name,
            toolbar_location="above",
            **_WIDE,
            **_TOOLS,
            **(upright if self._is_profile else {}),
        )
        axes, columns = (fig.xaxis, fig.yaxis), ("place", "value")
        (place, value), (x, y) = (axes[::-1], columns[::-1]) if self._is_profile else (axes, columns)
        _style_axis(place, line.x, 8 if tall else 4, 0.0 if self._is_profile else 0.6)
        _style_axis(value, Scale.of_values(line.label, colours.categories))
        self._sources = []
        for curve, _, colour in line.curves:
            source = models.ColumnDataSource({"place": [], "value": [], "label": []})
            style = {"source": source, "color": colour}
            named = {"legend_label": _text(curve)[:30]} if line.instances else {}
            draw = partial(fig.step, mode="center") if colours.categories else fig.line
            draw(x, y, line_width=2, **style, **named)
            # More circles than that would merge into a band.
            fig.scatter(x, y, size=5, **style).visible = len(line.places) <= 400
            self._sources.append(source)
        hover = [(_text(line.x.label), "@label"), ("value", "@value")]
        fig.add_tools(models.HoverTool(tooltips=hover, mode="mouse"))
        self.show(line, colours)

    def show(self, line: Line, colours: Colours) -> None:
        """Show the values of another line of the same layout."""
        values = np.ma.asanyarray(colours.numbered(np.ma.asanyarray(line.sample)), np.float64).filled(np.nan)
        labels = np.array([_text(label) for label in line.columns[0][1]], object)
        for source, (_, part, _) in zip(self._sources, line.curves):
            source.data = {"place": line.places[part], "value": values[part], "label": labels[part]}
        if self._is_profile and len(line.places):
            low, high = float(line.places.min()), float(line.places.max())
            # One level has no distance.
            margin = (high - low) * 0.04 or 0.5
            ends = (high + margin, low - margin)[:: 1 if self._is_down else -1]
            self.figure.y_range.update(start=ends[0], end=ends[1])
        _set_title(self.figure, line)

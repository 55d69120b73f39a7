"""Draw pictures and lines as Bokeh figures, and update their values in place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from bokeh import models
from bokeh.events import RangesUpdate, Tap
from bokeh.plotting import figure

from nczarr.display import visible
from nczarr.view.picture.colours import MISSING, Category, Colours
from nczarr.view.picture.drawings import Drawing, Line, Picture, Scale
from nczarr.view.picture.grids import Extent, coastlines

_HEIGHT = 500
_LINE = "#0b7285"
_COAST = "#202020"
#: Width reserved for the colour bar. Bokeh computes the layout once, and would clip longer tick labels of later limits.
_BAR_WIDTH = 100
_TOOLS = {
    "tools": "pan,wheel_zoom,box_zoom,reset,save",
    "active_scroll": "wheel_zoom",
    "toolbar_location": "above",
}
_LONGEST_LABEL = 120
_NO_IMAGE: dict[str, list[object]] = {name: [] for name in ("image", "where", "x", "y", "dw", "dh")}


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
    """

    def __init__(
        self,
        picture: Picture,
        colours: Colours,
        tapped: Callable[[float, float], None],
        zoomed: Callable[[Extent], None],
    ) -> None:
        e = picture.extent
        self.picture = picture
        self._base, self._detail = models.ColumnDataSource(), models.ColumnDataSource(_NO_IMAGE)
        self._mark = models.ColumnDataSource({"x": [], "y": []})
        self._mapper = models.LinearColorMapper(palette=["#000000"], low=0, high=1, nan_color=MISSING)
        shape: dict[str, object] = {"height": _HEIGHT, "sizing_mode": "stretch_width"}
        if picture.is_map:
            ratio = max(min((e.right - e.left) / max(e.top - e.bottom, 1e-9), 4.0), 0.5)
            # Reserve space for the axis and the colour bar beside the map.
            width = int(max(_HEIGHT * ratio + 120, 420))
            shape = {"aspect_ratio": ratio * 0.93, "sizing_mode": "scale_width", "max_width": width}
        ends = (e.top, e.bottom) if picture.y.down else (e.bottom, e.top)
        self.figure = fig = figure(
            x_range=models.Range1d(e.left, e.right),
            y_range=models.Range1d(*ends),
            min_border_right=_BAR_WIDTH,
            name="picture",
            **_TOOLS,
            **shape,
        )
        fig.grid.visible = False
        _style_axis(fig, fig.xaxis, picture.x)
        _style_axis(fig, fig.yaxis, picture.y)
        image = {"image": "image", "x": "x", "y": "y", "dw": "dw", "dh": "dh", "color_mapper": self._mapper}
        images = [fig.image(source=source, **image) for source in (self._base, self._detail)]
        if picture.is_map:
            for axis in (*fig.xaxis, *fig.yaxis):
                axis.ticker = models.AdaptiveTicker(base=10, mantissas=[1, 2, 3, 6], desired_num_ticks=8)
            lines = coastlines(Extent(e.left - 360, e.right + 360, -90, 90))
            x, y = ([line[:, i] for line in lines] for i in (0, 1))
            fig.multi_line(x, y, color=_COAST, line_width=0.8)
        mark = {
            "marker": "circle_cross",
            "size": 16,
            "line_color": "#e8590c",
            "line_width": 2,
            "fill_alpha": 0,
        }
        fig.scatter("x", "y", source=self._mark, **mark)
        # The step is a column of the image source, so that an open tooltip always shows the step of its image.
        hover = [("value", "@image"), ("at", "@where")] if picture.where else [("value", "@image")]
        formats = {}
        for name, scale in (("y", picture.y), ("x", picture.x)):
            form = "{%F %H:%M}" if scale.kind == "date" else "{0.[000]}"
            hover.append((_text(scale.label), f"${name}{form}"))
            if scale.kind == "date":
                formats[f"${name}"] = "datetime"
        fig.add_tools(models.HoverTool(tooltips=hover, renderers=images, formatters=formats))
        bar = {"width": 14, "padding": 4, "title_standoff": 8, "border_line_color": None}
        self._bar = models.ColorBar(color_mapper=self._mapper, **bar)
        fig.add_layout(self._bar, "right")
        fig.on_event(Tap, lambda event: tapped(event.x, event.y))
        fig.on_event(
            RangesUpdate,
            lambda event: zoomed(Extent(*sorted((event.x0, event.x1)), *sorted((event.y0, event.y1)))),
        )
        self.show(picture, colours)

    def fits(self, picture: Picture) -> bool:
        """Return True if this figure can show another picture: variable and drawn axes are the same."""
        mine, other = ((p.selection.fqn, p.selection.drawn, p.is_map) for p in (self.picture, picture))
        return mine == other

    def show(self, picture: Picture, colours: Colours) -> None:
        """Show the values of another picture."""
        self.picture = picture
        self.colour(colours)
        self._base.data = _image(picture, colours)
        self.hide_detail()
        _set_title(self.figure, picture)

    def show_detail(self, picture: Picture, colours: Colours) -> None:
        """Show a part of the picture at a higher resolution, above the picture."""
        self._detail.data = _image(picture, colours)

    def hide_detail(self) -> None:
        """Remove the part at a higher resolution."""
        self._detail.data = _NO_IMAGE

    def colour(self, colours: Colours) -> None:
        """Change the colours without changing the values."""
        self._mapper.update(palette=colours.palette, low=colours.low, high=colours.high)
        names = _names(colours.categories)
        ticker = models.FixedTicker(ticks=list(names)) if names else models.BasicTicker()
        self._bar.update(ticker=ticker, major_label_overrides=names, title=_text(self.picture.label))

    def mark(self, x: float, y: float) -> None:
        """Mark a clicked point."""
        self._mark.data = {"x": [x], "y": [y]}


def _names(categories: tuple[Category, ...]) -> dict[int, str]:
    return {number: _text(category.name)[:30] for number, category in enumerate(categories)}


def _set_title(fig: figure, drawing: Drawing) -> None:
    """Show the step as the title of a figure.

    Change the text of the title model, not the model: Bokeh keeps drawing the first title model of a figure after it
    was replaced.
    """
    fig.title.text = _text(drawing.where)


def _image(picture: Picture, colours: Colours) -> dict[str, list[object]]:
    pixels, e = colours.numbered(picture.pixels), picture.extent
    values = np.ma.asanyarray(pixels, np.float64).filled(np.nan)
    if _fits_float32(values):
        values = values.astype(np.float32)
    cells = (
        np.ascontiguousarray(values),
        _text(picture.where),
        e.left,
        e.bottom,
        e.right - e.left,
        e.top - e.bottom,
    )
    return {name: [cell] for name, cell in zip(_NO_IMAGE, cells)}


def _fits_float32(values: np.ndarray) -> bool:
    """Return True if single precision distinguishes all values that have different colours."""
    present = values[np.isfinite(values)]
    if not present.size:
        return True
    low, high = float(present.min()), float(present.max())
    most = max(abs(low), abs(high))
    return most == 0 or (1e-30 < most < 1e37 and (high == low or (high - low) / most > 1e-3))


def _style_axis(fig: figure, axis: models.Axis, scale: Scale, ticks: int = 8) -> None:
    axis.axis_label = _text(scale.label)
    axis.axis_label_text_font_style = "normal"
    if scale.kind == "date":
        axis.formatter = models.DatetimeTickFormatter(
            hours="%H:%M", days="%d %b", months="%b %Y", years="%Y", hourmin="%H:%M", minutes="%H:%M"
        )
        axis.ticker = models.DatetimeTicker(desired_num_ticks=ticks)
    elif scale.kind == "named":
        axis.ticker = models.FixedTicker(ticks=[n for n, _ in scale.names])
        axis.major_label_overrides = {n: _text(t)[:30] for n, t in scale.names}
        axis.major_label_orientation = 0.6 if fig.xaxis == axis else 0.0


class LineFigure:
    """A line: a series, or a profile with depth as its vertical axis."""

    def __init__(self, line: Line, colours: Colours, *, name: str, tall: bool = True) -> None:
        self.line = line
        self._is_profile = line.x.down
        self._source = models.ColumnDataSource({"place": [], "value": [], "label": []})
        down = {"y_range": models.Range1d(1, 0)} if self._is_profile else {}
        height = _HEIGHT - 80 if tall else 300
        self.figure = fig = figure(height=height, sizing_mode="stretch_width", name=name, **_TOOLS, **down)
        place, value = (fig.yaxis, fig.xaxis) if self._is_profile else (fig.xaxis, fig.yaxis)
        _style_axis(fig, place, line.x, 8 if tall else 4)
        _style_axis(fig, value, Scale(line.label))
        x, y = ("value", "place") if self._is_profile else ("place", "value")
        style = {"source": self._source, "color": _LINE}
        if colours.categories:
            fig.step(x, y, mode="center", line_width=2, **style)
            names = _names(colours.categories)
            value.ticker, value.major_label_overrides = models.FixedTicker(ticks=list(names)), names
        else:
            fig.line(x, y, line_width=2, **style)
        fig.scatter(x, y, size=5, **style).visible = len(line.places) <= 400
        hover = [(_text(line.x.label), "@label"), ("value", "@value")]
        fig.add_tools(models.HoverTool(tooltips=hover, mode="mouse"))
        self.show(line, colours)

    def fits(self, line: Line) -> bool:
        """Return True if this figure can show another line: variable, axis and length are the same."""
        mine, other = ((li.selection.fqn, li.selection.drawn, len(li.places)) for li in (self.line, line))
        return mine == other

    def show(self, line: Line, colours: Colours) -> None:
        """Show the values of another line."""
        self.line = line
        values = np.ma.asanyarray(colours.numbered(np.ma.asanyarray(line.sample)), np.float64).filled(np.nan)
        labels = [_text(label) for label in line.columns[0][1]]
        self._source.data = {"place": line.places, "value": values, "label": labels}
        if self._is_profile and len(line.places):
            low, high = float(line.places.min()), float(line.places.max())
            margin = (high - low) * 0.04 or 0.5
            self.figure.y_range.update(start=high + margin, end=low - margin)
        _set_title(self.figure, line)

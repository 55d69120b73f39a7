"""Draw pictures and lines as Bokeh figures, and update their values in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from bokeh.events import RangesUpdate, Tap
from bokeh.models import (
    AdaptiveTicker,
    BasicTicker,
    ColorBar,
    ColumnDataSource,
    DatetimeTickFormatter,
    FixedTicker,
    HoverTool,
    LinearColorMapper,
    Range1d,
)
from bokeh.plotting import figure

from nczarr.display import visible
from nczarr.view.colours import MISSING, Colours
from nczarr.view.drawings import Drawing, Line, Picture, Scale
from nczarr.view.grids import Extent, coastlines

_HEIGHT = 500
_LINE = "#0b7285"
_COAST = "#202020"
#: Width reserved for the colour bar. Bokeh computes the layout once, and would clip longer tick labels of later limits.
_BAR_WIDTH = 100
_TOOLS = "pan,wheel_zoom,box_zoom,reset,save"
_LONGEST_LABEL = 120


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
        self._base = ColumnDataSource()
        self._detail = ColumnDataSource(_no_image())
        self._mark = ColumnDataSource({"x": [], "y": []})
        self._mapper = LinearColorMapper(palette=["#000000"], low=0, high=1, nan_color=MISSING)
        shape: dict[str, Any] = {"height": _HEIGHT, "sizing_mode": "stretch_width"}
        if picture.is_map:
            ratio = max(min((e.right - e.left) / max(e.top - e.bottom, 1e-9), 4.0), 0.5)
            # Reserve space for the axis and the colour bar beside the map.
            shape = {
                "aspect_ratio": ratio * 0.93,
                "sizing_mode": "scale_width",
                "max_width": int(max(_HEIGHT * ratio + 120, 420)),
            }
        self.figure = figure(
            x_range=Range1d(e.left, e.right),
            y_range=Range1d(e.top, e.bottom) if picture.y.down else Range1d(e.bottom, e.top),
            tools=_TOOLS,
            active_scroll="wheel_zoom",
            toolbar_location="above",
            min_border_right=_BAR_WIDTH,
            name="picture",
            **shape,
        )
        self.figure.grid.visible = False
        _style_axis(self.figure, self.figure.xaxis, picture.x)
        _style_axis(self.figure, self.figure.yaxis, picture.y)
        image = {"image": "image", "x": "x", "y": "y", "dw": "dw", "dh": "dh", "color_mapper": self._mapper}
        base = self.figure.image(source=self._base, **image)
        detail = self.figure.image(source=self._detail, **image)
        if picture.is_map:
            for axis in (*self.figure.xaxis, *self.figure.yaxis):
                axis.ticker = AdaptiveTicker(base=10, mantissas=[1, 2, 3, 6], desired_num_ticks=8)
            lines = coastlines(Extent(e.left - 360, e.right + 360, -90, 90))
            self.figure.multi_line(
                [line[:, 0] for line in lines], [line[:, 1] for line in lines], color=_COAST, line_width=0.8
            )
        self.figure.scatter(
            "x",
            "y",
            source=self._mark,
            marker="circle_cross",
            size=16,
            line_color="#e8590c",
            line_width=2,
            fill_alpha=0,
        )
        # The step is a column of the image source, so that an open tooltip always shows the step of its image.
        hover = [("value", "@image"), ("at", "@where")] if picture.where else [("value", "@image")]
        hover.append((_text(picture.y.label), _hover("y", picture.y)))
        hover.append((_text(picture.x.label), _hover("x", picture.x)))
        formats = {
            f"${name}": "datetime" for name, s in (("x", picture.x), ("y", picture.y)) if s.kind == "date"
        }
        self.figure.add_tools(HoverTool(tooltips=hover, renderers=[base, detail], formatters=formats))
        self._bar = ColorBar(
            color_mapper=self._mapper, width=14, padding=4, title_standoff=8, border_line_color=None
        )
        self.figure.add_layout(self._bar, "right")
        self.figure.on_event(Tap, lambda event: tapped(event.x, event.y))
        self.figure.on_event(
            RangesUpdate,
            lambda event: zoomed(Extent(*sorted((event.x0, event.x1)), *sorted((event.y0, event.y1)))),
        )
        self.show(picture, colours)

    def fits(self, picture: Picture) -> bool:
        """Return True if this figure can show another picture: variable and drawn axes are the same."""
        mine = self.picture
        return (mine.selection.fqn, mine.selection.drawn, mine.is_map) == (
            picture.selection.fqn,
            picture.selection.drawn,
            picture.is_map,
        )

    def show(self, picture: Picture, colours: Colours) -> None:
        """Show the values of another picture."""
        self.picture = picture
        self.colour(colours)
        self._base.data = _image(picture, colours)
        self._detail.data = _no_image()
        _set_title(self.figure, picture)

    def show_detail(self, picture: Picture, colours: Colours) -> None:
        """Show a part of the picture at a higher resolution, above the picture."""
        self._detail.data = _image(picture, colours)

    def hide_detail(self) -> None:
        """Remove the part at a higher resolution."""
        self._detail.data = _no_image()

    def colour(self, colours: Colours) -> None:
        """Change the colours without changing the values."""
        self._mapper.update(palette=colours.palette, low=colours.low, high=colours.high)
        label = _text(self.picture.label)
        if colours.categories:
            numbers = list(range(len(colours.categories)))
            names = {i: _text(c.name)[:30] for i, c in enumerate(colours.categories)}
            self._bar.update(ticker=FixedTicker(ticks=numbers), major_label_overrides=names, title=label)
        else:
            self._bar.update(ticker=BasicTicker(), major_label_overrides={}, title=label)

    def mark(self, x: float, y: float) -> None:
        """Mark a clicked point."""
        self._mark.data = {"x": [x], "y": [y]}


def _set_title(fig: Any, drawing: Drawing) -> None:
    """Show the step as the title of a figure.

    Change the text of the title model, not the model: Bokeh keeps drawing the first title model of a figure after it
    was replaced.
    """
    fig.title.text = _text(drawing.where)


def _no_image() -> dict[str, Any]:
    return {"image": [], "where": [], "x": [], "y": [], "dw": [], "dh": []}


def _image(picture: Picture, colours: Colours) -> dict[str, Any]:
    pixels, e = colours.numbered(picture.pixels), picture.extent
    values = np.ma.asanyarray(pixels, np.float64).filled(np.nan)
    if _fits_float32(values):
        values = values.astype(np.float32)
    return {
        "image": [np.ascontiguousarray(values)],
        "where": [_text(picture.where)],
        "x": [e.left],
        "y": [e.bottom],
        "dw": [e.right - e.left],
        "dh": [e.top - e.bottom],
    }


def _fits_float32(values: np.ndarray) -> bool:
    """Return True if single precision distinguishes all values that have different colours."""
    present = values[np.isfinite(values)]
    if not present.size:
        return True
    low, high = float(present.min()), float(present.max())
    most = max(abs(low), abs(high))
    return most == 0 or (1e-30 < most < 1e37 and (high == low or (high - low) / most > 1e-3))


def _hover(name: str, scale: Scale) -> str:
    return f"${name}{{%F %H:%M}}" if scale.kind == "date" else f"${name}{{0.[000]}}"


def _style_axis(fig: Any, axis: Any, scale: Scale, ticks: int = 8) -> None:
    axis.axis_label = _text(scale.label)
    axis.axis_label_text_font_style = "normal"
    if scale.kind == "date":
        axis.formatter = DatetimeTickFormatter(
            hours="%H:%M", days="%d %b", months="%b %Y", years="%Y", hourmin="%H:%M", minutes="%H:%M"
        )
        from bokeh.models import DatetimeTicker

        axis.ticker = DatetimeTicker(desired_num_ticks=ticks)
    elif scale.kind == "named":
        axis.ticker = FixedTicker(ticks=[n for n, _ in scale.names])
        axis.major_label_overrides = {n: _text(t)[:30] for n, t in scale.names}
        axis.major_label_orientation = 0.6 if fig.xaxis == axis else 0.0


class LineFigure:
    """A line: a series, or a profile with depth as its vertical axis."""

    def __init__(self, line: Line, colours: Colours, *, name: str, tall: bool = True) -> None:
        self.line = line
        self._is_profile = line.x.down
        self._source = ColumnDataSource({"place": [], "value": [], "label": []})
        down = {"y_range": Range1d(1, 0)} if self._is_profile else {}
        self.figure = figure(
            tools=_TOOLS,
            active_scroll="wheel_zoom",
            toolbar_location="above",
            height=_HEIGHT - 80 if tall else 300,
            sizing_mode="stretch_width",
            name=name,
            **down,
        )
        across, along = self.figure.xaxis, self.figure.yaxis
        place, value = (along, across) if self._is_profile else (across, along)
        _style_axis(self.figure, place, line.x, 8 if tall else 4)
        _style_axis(self.figure, value, Scale(line.label))
        x, y = ("value", "place") if self._is_profile else ("place", "value")
        if colours.categories:
            self.figure.step(x, y, source=self._source, mode="center", color=_LINE, line_width=2)
            value.ticker = FixedTicker(ticks=list(range(len(colours.categories))))
            value.major_label_overrides = {i: _text(c.name)[:30] for i, c in enumerate(colours.categories)}
        else:
            self.figure.line(x, y, source=self._source, color=_LINE, line_width=2)
        points = self.figure.scatter(x, y, source=self._source, color=_LINE, size=5)
        points.visible = len(line.places) <= 400
        self.figure.add_tools(
            HoverTool(tooltips=[(_text(line.x.label), "@label"), ("value", "@value")], mode="mouse")
        )
        self.show(line, colours)

    def fits(self, line: Line) -> bool:
        """Return True if this figure can show another line: variable, axis and length are the same."""
        mine = self.line
        return (mine.selection.fqn, mine.selection.drawn, len(mine.places)) == (
            line.selection.fqn,
            line.selection.drawn,
            len(line.places),
        )

    def show(self, line: Line, colours: Colours) -> None:
        """Show the values of another line."""
        self.line = line
        values = np.ma.asanyarray(colours.numbered(np.ma.asanyarray(line.sample)), np.float64).filled(np.nan)
        self._source.data = {
            "place": line.places,
            "value": values,
            "label": [_text(label) for label in line.columns[0][1]],
        }
        if self._is_profile and len(line.places):
            low, high = float(line.places.min()), float(line.places.max())
            margin = (high - low) * 0.04 or 0.5
            self.figure.y_range.update(start=high + margin, end=low - margin)
        _set_title(self.figure, line)

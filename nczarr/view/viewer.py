"""Build the page: a tree of variables at the left; picture, sliders, series and details at the right."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import panel as pn
import panel_material_ui as pmui

from nczarr.display import visible
from nczarr.errors import NCZarrError
from nczarr.model import split_fqn
from nczarr.view.address import Address
from nczarr.view.colours import DIVERGING, SEQUENTIAL, Colours, adjust_colours, choose_colours
from nczarr.view.details import (
    about_html,
    alert_html,
    counts_html,
    heading_html,
    list_tree,
    notes_html,
    statistics_html,
    statistics_of,
    table_html,
)
from nczarr.view.drawer import Drawer, Spread, zoomed
from nczarr.view.drawings import Drawing, Line, Picture, Table
from nczarr.view.figures import LineFigure, PictureFigure
from nczarr.view.grids import Extent
from nczarr.view.opened import OpenedDataset, is_drawable
from nczarr.view.sampling import Statistics, whole_statistics
from nczarr.view.selection import Selection, first_selection, with_drawn
from nczarr.view.widgets import AxisChoice, Sliders
from nczarr.view.worker import Worker

_AUTOMATIC = "automatic"
_ALL_STEPS, _EACH_STEP = "of all steps", "of each step"
#: Maximum number of axes for which a click shows a line.
_MOST_LINES = 2
_ACCENT, _DARK_ACCENT = "#0b7285", "#4fb3cc"


def build_page(opened: OpenedDataset) -> Any:
    """Return the page of a dataset for one browser session."""
    return Viewer(opened).page


class Viewer:
    """The page of one browser session, with its event handlers.

    Parameters
    ----------
    opened : OpenedDataset
        The dataset; all sessions share it.
    """

    def __init__(self, opened: OpenedDataset) -> None:
        self._opened = opened
        self._drawer = Drawer(opened)
        self._document = pn.state.curdoc
        self._pictures = Worker(self._schedule, self._fail)
        self._details = Worker(self._schedule, self._fail)
        self._series = Worker(self._schedule, self._fail)
        self._counting = Worker(self._schedule, self._fail)
        self._is_closed = False
        self._address = Address()
        self._selection: Selection | None = None
        self._drawing: Drawing | None = None
        self._spread: Spread | None = None
        self._colours = Colours("viridis", 0, 1)
        self._figure: PictureFigure | LineFigure | None = None
        self._is_setting = False
        self._build()
        pn.state.on_session_destroyed(self._leave)
        self._start()

    # -- the page

    def _build(self) -> None:
        self._search = pmui.TextInput(
            label="Search", placeholder="name, long name, units …", size="small", sizing_mode="stretch_width"
        )
        self._search.param.watch(lambda event: self._list(event.new), "value_input")
        self._tree = pmui.Tree(items=[], multi_select=False, sizing_mode="stretch_width")
        self._tree.param.watch(self._chosen, "value")
        self._left_out = pn.pane.HTML("", sizing_mode="stretch_width")
        self._head = pn.pane.HTML("", sizing_mode="stretch_width")
        self._alert = pn.pane.HTML("", visible=False, sizing_mode="stretch_width")
        self._picture = pn.Column(sizing_mode="stretch_width")
        self._notes = pn.pane.HTML("", sizing_mode="stretch_width")
        self._sliders = Sliders(self._drawer.coordinates, self._moved)
        self._lines = pn.Column(sizing_mode="stretch_width")
        self._settings = self._build_settings()
        self._about = pn.pane.HTML("", sizing_mode="stretch_width")
        self._statistics = pn.pane.HTML("", sizing_mode="stretch_width")
        self._whole = pn.pane.HTML("", sizing_mode="stretch_width")
        self._count = pmui.Button(label="Of the whole variable", variant="outlined", size="small")
        self._count.on_click(self._count_whole)
        statistics = pn.Row(
            pn.Column(self._statistics), pn.Column(self._count, self._whole), sizing_mode="stretch_width"
        )
        tabs = pmui.Tabs(("About", self._about), ("Statistics", statistics), sizing_mode="stretch_width")
        name = os.path.basename(self._opened.name.rstrip("/")) or self._opened.name
        self.page = pmui.Page(
            title=visible(name[:80]),
            meta_title=visible(f"{name[:80]} · nczarr"),
            sidebar=[self._search, self._tree, self._left_out],
            main=[
                pn.Column(
                    self._head,
                    self._alert,
                    self._settings,
                    self._picture,
                    self._notes,
                    self._sliders.box,
                    self._lines,
                    tabs,
                    sizing_mode="stretch_width",
                    margin=(8, 20),
                )
            ],
            sidebar_width=330,
            theme_config={
                "light": {"palette": {"primary": {"main": _ACCENT}}},
                "dark": {"palette": {"primary": {"main": _DARK_ACCENT}}},
            },
        )
        self.page.param.watch(lambda event: self._describe(), "dark_theme")

    def _build_settings(self) -> Any:
        small: dict[str, Any] = {"size": "small", "width": 150, "margin": (4, 6)}
        self._axes = AxisChoice(self._axes_chosen)
        maps = [_AUTOMATIC, *SEQUENTIAL, *DIVERGING]
        self._map = pmui.Select(label="colours", options=maps, value=_AUTOMATIC, **small)
        self._low = pmui.TextInput(label="from", placeholder=_AUTOMATIC, **{**small, "width": 110})
        self._high = pmui.TextInput(label="to", placeholder=_AUTOMATIC, **{**small, "width": 110})
        self._limits = pmui.Select(
            label="limits", options=[_ALL_STEPS, _EACH_STEP], value=_ALL_STEPS, **small
        )
        for widget in (self._map, self._low, self._high, self._limits):
            widget.param.watch(self._colours_changed, "value")
        download: dict[str, Any] = {
            "size": "small",
            "variant": "outlined",
            "color": "primary",
            "width": 110,
            "margin": (8, 6),
        }
        self._png = pmui.FileDownload(callback=self._as_png, filename="picture.png", label="PNG", **download)
        self._csv = pmui.FileDownload(callback=self._as_csv, filename="values.csv", label="CSV", **download)
        colours = (self._map, self._low, self._high, self._limits)
        widgets = (self._axes.up, self._axes.across, *colours, self._png, self._csv)
        return pn.FlexBox(*widgets, align_items="center")

    # -- background jobs

    def _schedule(self, call: Callable[[], None]) -> None:
        if not self._is_closed:
            self._document.add_next_tick_callback(lambda: self._at_once(call))

    def _at_once(self, call: Callable[[], None]) -> None:
        """Send all changes of a call to the browser in one message, so that it draws them together."""
        with pn.io.hold(self._document):
            call()

    def _leave(self, context: Any) -> None:
        self._is_closed = True
        self._sliders.stop()

    def _fail(self, error: Any) -> None:
        self._picture.loading = False
        known = isinstance(error, NCZarrError | OSError)
        text = str(error) if known else f"{type(error).__name__}: {error}"
        self._alert.param.update(object=alert_html(text), visible=True)
        if not known:
            import logging

            logging.getLogger("nczarr.view").error("drawing failed", exc_info=error)

    # -- choosing a variable

    def _start(self) -> None:
        location = pn.state.location
        address = Address.from_search(location.search if location and location.search else "")
        selection = address.selection(self._opened, self._drawer.coordinates) if address.variable else None
        if selection is None:
            first = self._first_variable()
            if first is None:
                self._list("")
                self._head.object = "<h3>This dataset has no variables.</h3>"
                self._settings.visible = False
                return
            address = Address()
            selection = first_selection(self._opened, self._drawer.coordinates, first)
        self._address = address
        self._show(selection)
        self._list("")

    def _first_variable(self) -> str | None:
        """Return the drawable variable with the most dimensions, which is probably the main variable of the dataset."""
        best: tuple[int, str] | None = None
        for fqn, variable in self._opened.model.all_variables.items():
            rank = min(len(variable.dimensions), 4) if is_drawable(variable) else -1
            if best is None or rank > best[0]:
                best = (rank, fqn)
        return best and best[1]

    def _list(self, search: str) -> None:
        items, left_out = list_tree(self._opened.model, search)
        self._is_setting = True
        try:
            self._tree.items = items
            self._tree.expanded = _all_paths(items)  # setting items collapses the tree
            path = _path_of(items, self._selection.fqn if self._selection else "")
            self._tree.active = [] if path is None else [path]
        finally:
            self._is_setting = False
        more = f"… {left_out:,} more variables; use the search" if left_out else ""
        self._left_out.object = more or ("" if items else "no matches")

    def _chosen(self, event: Any) -> None:
        if self._is_setting or not event.new:
            return
        fqn = event.new[0].get("id", "")
        if fqn not in self._opened.model.all_variables:
            return
        if self._selection is not None and self._selection.fqn == fqn:
            return
        self._address = Address(variable=fqn)
        try:
            self._show(first_selection(self._opened, self._drawer.coordinates, fqn))
        except NCZarrError as error:
            self._fail(error)

    def _show(self, selection: Selection) -> None:
        """Show a variable, and rebuild all components that depend on it."""
        self._selection = selection
        self._figure = None
        self._lines.clear()
        self._head.object = heading_html(self._opened, selection.fqn)
        self._offer(selection)
        self._is_setting = True
        try:
            self._map.value = (
                self._address.colours if self._address.colours in self._map.options else _AUTOMATIC
            )
            for widget, limit in ((self._low, self._address.low), (self._high, self._address.high)):
                widget.value = "" if limit is None else f"{limit:g}"
            self._limits.value = _EACH_STEP if self._address.per_step else _ALL_STEPS
        finally:
            self._is_setting = False
        self._whole.object = ""
        self._describe()
        self._draw()

    def _describe(self) -> None:
        if self._selection is not None:
            theme = "dark" if self.page.dark_theme else "light"
            self._about.object = about_html(self._opened, self._selection.fqn, theme)  # type: ignore[arg-type]

    # -- axes and sliders

    def _axes_chosen(self, drawn: tuple[int, ...]) -> None:
        assert self._selection is not None
        self._selection = with_drawn(self._opened, self._drawer.coordinates, self._selection, drawn)
        self._figure = None
        self._lines.clear()
        self._address.place = ()
        self._offer(self._selection)
        self._draw()

    def _offer(self, selection: Selection) -> None:
        """Update the axis selectors and sliders for a selection."""
        self._axes.offer(selection)
        if is_drawable(self._opened.variable(selection.fqn)):
            self._sliders.offer(selection)
        else:
            self._sliders.clear()

    def _moved(self, axis: int, index: int) -> None:
        if self._selection is not None:
            self._selection = self._selection.moved(axis, index)
            self._draw()

    # -- the picture

    def _draw(self) -> None:
        selection = self._selection
        assert selection is not None
        self._picture.loading = True

        def draw() -> tuple[Drawing, Spread | None]:
            drawing = self._drawer.draw(selection)
            return drawing, self._drawer.spread(drawing)

        self._pictures.ask(draw, self._take)

    def _take(self, drawn: tuple[Drawing, Spread | None]) -> None:
        """Show a completed drawing."""
        drawing, spread = drawn
        if drawing.selection is not self._selection:
            return  # the user has selected something else
        self._picture.loading = False
        self._alert.visible = False
        self._drawing, self._spread = drawing, spread
        self._colours = self._colours_of(drawing)
        self._settings_for(drawing)
        if isinstance(drawing, Table):
            self._figure = None
            self._picture[:] = [pn.pane.HTML(table_html(drawing), sizing_mode="stretch_width")]
        elif isinstance(drawing, Line):
            self._take_line(drawing)
        elif isinstance(drawing, Picture):
            self._take_picture(drawing)
        self._show_notes(drawing)
        self._show_statistics(drawing)
        self._remember()

    def _settings_for(self, drawing: Drawing) -> None:
        coloured = isinstance(drawing, Picture) and not self._colours.categories
        self._map.visible = self._low.visible = self._high.visible = coloured
        self._limits.visible = coloured and self._spread is not None
        self._png.filename = f"{_file_name(drawing)}.png"
        self._csv.filename = f"{_file_name(drawing)}.csv"

    def _colours_of(self, drawing: Drawing) -> Colours:
        """Return the colours of a drawing, with the limits of all steps or of this step, as the user chose."""
        address, spread = self._address, self._spread
        values = drawing.sample
        if spread is not None and not address.per_step:
            values = np.ma.array([spread.low, spread.high])
        chosen = choose_colours(self._opened.variable(drawing.selection.fqn), values)
        return adjust_colours(chosen, address.colours or None, address.low, address.high)

    def _show_notes(self, drawing: Drawing) -> None:
        notes, spread, address = drawing.notes, self._spread, self._address
        if (
            spread is not None
            and not spread.is_whole
            and not address.per_step
            and not self._colours.categories
        ):
            notes = (*notes, spread.note)
        self._notes.object = notes_html(notes)

    def _take_line(self, line: Line) -> None:
        if isinstance(self._figure, LineFigure) and self._figure.fits(line):
            self._figure.show(line, self._colours)
            return
        self._figure = LineFigure(line, self._colours, name="line")
        self._picture[:] = [pn.pane.Bokeh(self._figure.figure, sizing_mode="stretch_width")]

    def _take_picture(self, picture: Picture) -> None:
        if isinstance(self._figure, PictureFigure) and self._figure.fits(picture):
            self._figure.show(picture, self._colours)
        else:
            self._figure = PictureFigure(picture, self._colours, self._tapped, self._zoomed)
            self._picture[:] = [pn.pane.Bokeh(self._figure.figure, sizing_mode="stretch_width")]
        place = self._address.place
        if place and len(place) == len(picture.selection.drawn):
            at = picture.place_of(place)
            if at is not None and isinstance(self._figure, PictureFigure):
                self._figure.mark(*at)
                self._read_lines(place)

    def _zoomed(self, extent: Extent) -> None:
        """Read the visible part again at a higher resolution."""
        picture, figure = self._drawing, self._figure
        if not isinstance(picture, Picture) or not isinstance(figure, PictureFigure):
            return
        windows = zoomed(picture, extent)
        if windows is None:
            return
        whole = picture.selection.axes
        if all(w == (0, whole[i].size) for w, i in zip(windows, picture.selection.drawn)):
            figure.hide_detail()
            self._show_notes(picture)
            return

        def take(detail: Drawing) -> None:
            if self._drawing is picture and isinstance(detail, Picture):
                figure.show_detail(detail, self._colours)
                self._show_notes(detail)

        self._details.ask(lambda: self._drawer.draw(picture.selection, windows), take)

    # -- lines through a point

    def _tapped(self, x: float, y: float) -> None:
        picture, figure = self._drawing, self._figure
        if not isinstance(picture, Picture) or not isinstance(figure, PictureFigure):
            return
        place = picture.index_at(x, y)
        if place is None:
            return
        figure.mark(*(picture.place_of(place) or (x, y)))
        self._address.place = place
        self._remember()
        self._read_lines(place)

    def _read_lines(self, place: tuple[int, ...]) -> None:
        selection = self._selection
        assert selection is not None
        order = {"time": 0, "vertical": 1}
        axes = [i for i in selection.fixed if selection.axes[i].size > 1]
        axes = sorted(axes, key=lambda i: order.get(selection.axes[i].role, 2))[:_MOST_LINES]
        if not axes:
            return
        drawer = self._drawer

        def read() -> list[Line]:
            return [drawer.series(selection, axis, place) for axis in axes]

        self._series.ask(read, lambda lines: self._take_lines(selection, lines))

    def _take_lines(self, selection: Selection, lines: list[Line]) -> None:
        if self._selection is None or self._selection.fqn != selection.fqn:
            return
        figures = [
            LineFigure(
                line,
                self._colours,
                name=f"series {line.selection.axes[line.selection.drawn[0]].name}",
                tall=False,
            )
            for line in lines
        ]
        panes = [pn.pane.Bokeh(f.figure, sizing_mode="stretch_width") for f in figures]
        self._lines[:] = [pn.Row(*panes, sizing_mode="stretch_width")]

    # -- colours, statistics, files, address

    def _colours_changed(self, event: Any) -> None:
        if self._is_setting:
            return
        self._address.colours = "" if self._map.value == _AUTOMATIC else self._map.value
        self._address.low, self._address.high = _number(self._low.value), _number(self._high.value)
        self._address.per_step = self._limits.value == _EACH_STEP
        drawing = self._drawing
        if drawing is None:
            return
        self._colours = self._colours_of(drawing)

        def colour() -> None:
            if isinstance(self._figure, PictureFigure):
                self._figure.colour(self._colours)
            self._show_notes(drawing)

        self._at_once(colour)
        self._remember()

    def _show_statistics(self, drawing: Drawing) -> None:
        drawable = is_drawable(self._opened.variable(drawing.selection.fqn))
        self._count.visible = drawable
        if not drawable or isinstance(drawing, Table):
            self._statistics.object = ""
            return
        of = "the shown values" if all(s == 1 for s in drawing.steps) else "the shown overview"
        html = statistics_html(statistics_of(drawing), of, self._colours.categories)
        if self._colours.categories:
            html += counts_html(drawing.sample, self._colours.categories)
        self._statistics.object = html

    def _count_whole(self, event: Any) -> None:
        selection = self._selection
        if selection is None:
            return
        self._count.loading = True

        def go_on(part: float) -> bool:
            self._schedule(lambda: setattr(self._count, "label", f"{part:.0%} read"))
            return (
                not self._is_closed and self._selection is not None and self._selection.fqn == selection.fqn
            )

        def take(statistics: Statistics | None) -> None:
            self._count.param.update(loading=False, label="Of the whole variable")
            if statistics is not None:
                self._whole.object = statistics_html(
                    statistics, "the whole variable", self._colours.categories
                )

        self._counting.ask(lambda: whole_statistics(self._opened, selection.fqn, go_on), take)

    def _as_png(self) -> io.BytesIO:
        from nczarr.view.plotting import to_image

        assert self._drawing is not None
        return io.BytesIO(to_image(self._drawing, self._colours))

    def _as_csv(self) -> io.BytesIO:
        from nczarr.view.drawings import to_csv

        assert self._drawing is not None
        return io.BytesIO(to_csv(self._drawing).encode("utf-8", "surrogateescape"))

    def _remember(self) -> None:
        """Store the state of the page in the URL."""
        selection = self._selection
        if selection is None:
            return
        self._address.variable = selection.fqn
        self._address.at = {
            selection.axes[i].name: selection.at[i] for i in selection.fixed if selection.at[i]
        }
        first = first_selection(self._opened, self._drawer.coordinates, selection.fqn)
        changed = selection.drawn != first.drawn
        self._address.drawn = tuple(selection.axes[i].name for i in selection.drawn) if changed else ()
        if pn.state.location is not None:
            pn.state.location.search = self._address.to_search()


def _all_paths(items: list[dict[str, Any]], before: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    """Return the paths of all items with children, which are expanded initially."""
    paths: list[tuple[int, ...]] = []
    for number, item in enumerate(items):
        if item.get("items"):
            paths += [(*before, number), *_all_paths(item["items"], (*before, number))]
    return paths


def _path_of(items: list[dict[str, Any]], fqn: str, before: tuple[int, ...] = ()) -> tuple[int, ...] | None:
    """Return the path of a variable in the tree; None if it is not listed."""
    for number, item in enumerate(items):
        at = (*before, number)
        found = at if item["id"] == fqn else _path_of(item.get("items", []), fqn, at)
        if found is not None:
            return found
    return None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None


def _file_name(drawing: Drawing) -> str:
    name = split_fqn(drawing.selection.fqn)[1]
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in name)[:80] or "picture"

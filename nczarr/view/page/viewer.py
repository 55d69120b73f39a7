"""Build the page: a tree of variables at the left; picture, sliders, series and details at the right."""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Callable

import panel as pn
import panel_material_ui as pmui
from param.parameterized import Event

from nczarr.display import visible
from nczarr.errors import NCZarrError
from nczarr.model import split_fqn
from nczarr.view.opened import OpenedDataset, is_drawable
from nczarr.view.page import details
from nczarr.view.page.state import Address, State
from nczarr.view.page.widgets import AxisChoice, ColourChoice, Sliders, VariableTree
from nczarr.view.page.worker import Worker
from nczarr.view.picture.drawer import Drawer, Spread, zoomed
from nczarr.view.picture.drawings import Drawing, Line, Picture, Table, to_csv
from nczarr.view.picture.figures import LineFigure, PictureFigure
from nczarr.view.picture.grids import Extent
from nczarr.view.picture.sampling import Statistics, whole_statistics
from nczarr.view.picture.selection import Selection, first_selection, with_drawn
from nczarr.view.plotting import to_image

#: Maximum number of axes for which a click shows a line.
_MOST_LINES = 2
_ACCENT, _DARK_ACCENT = "#0b7285", "#4fb3cc"
_WIDE = {"sizing_mode": "stretch_width"}


def build_page(opened: OpenedDataset) -> pmui.Page:
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
        self._state = State()
        self._figure: PictureFigure | LineFigure | None = None
        self._document = pn.state.curdoc
        self._is_closed = False
        jobs = ("picture", "detail", "series", "count")
        self._workers = {job: Worker(self._schedule, self._fail) for job in jobs}
        self._build()
        pn.state.on_session_destroyed(self._leave)
        self._start()

    # -- the page

    def _build(self) -> None:
        self._tree = VariableTree(self._opened.model, self._chosen)
        self._axes = AxisChoice(self._axes_chosen)
        self._palette = ColourChoice(self._colours_chosen)
        self._sliders = Sliders(self._drawer.coordinates, self._moved)
        self._head, self._notes, self._about, self._statistics, self._whole = (
            pn.pane.HTML("", **_WIDE) for _ in range(5)
        )
        self._alert = pn.pane.HTML("", visible=False, **_WIDE)
        self._picture, self._lines = pn.Column(**_WIDE), pn.Column(**_WIDE)
        self._downloads = [
            pmui.FileDownload(
                callback=lambda write=write: io.BytesIO(write()),
                label=label,
                size="small",
                variant="outlined",
                color="primary",
                width=110,
                margin=(8, 6),
            )
            for label, write in (("PNG", self._png), ("CSV", self._csv))
        ]
        choices = (self._axes.up, self._axes.across, *self._palette.widgets, *self._downloads)
        self._settings = pn.FlexBox(*choices, align_items="center")
        self._count = pmui.Button(label="Of the whole variable", variant="outlined", size="small")
        self._count.on_click(self._count_whole)
        statistics = pn.Row(pn.Column(self._statistics), pn.Column(self._count, self._whole), **_WIDE)
        tabs = pmui.Tabs(("About", self._about), ("Statistics", statistics), **_WIDE)
        above = (self._head, self._alert, self._settings, self._picture, self._notes)
        below = (self._sliders.box, self._lines, tabs)
        name = os.path.basename(self._opened.name.rstrip("/")) or self._opened.name
        self.page = pmui.Page(
            title=visible(name[:80]),
            meta_title=visible(f"{name[:80]} · nczarr"),
            sidebar=self._tree.widgets,
            main=[pn.Column(*above, *below, margin=(8, 20), **_WIDE)],
            sidebar_width=330,
            theme_config={
                theme: {"palette": {"primary": {"main": colour}}}
                for theme, colour in (("light", _ACCENT), ("dark", _DARK_ACCENT))
            },
        )
        self.page.param.watch(lambda event: self._describe(), "dark_theme")

    # -- background jobs

    def _schedule(self, call: Callable[[], None]) -> None:
        if not self._is_closed:
            self._document.add_next_tick_callback(lambda: self._at_once(call))

    def _at_once(self, call: Callable[[], None]) -> None:
        """Send all changes of a call to the browser in one message, so that it draws them together."""
        with pn.io.hold(self._document):
            call()

    def _leave(self, context: object) -> None:
        self._is_closed = True
        self._sliders.stop()

    def _fail(self, error: Exception) -> None:
        self._picture.loading = False
        known = isinstance(error, NCZarrError | OSError)
        text = str(error) if known else f"{type(error).__name__}: {error}"
        self._alert.param.update(object=details.alert_html(text), visible=True)
        if not known:
            logging.getLogger("nczarr.view").error("drawing failed", exc_info=error)

    # -- choosing a variable

    def _start(self) -> None:
        location = pn.state.location
        address = Address.from_search(location.search if location and location.search else "")
        selection = address.selection(self._opened, self._drawer.coordinates) if address.variable else None
        if selection is None:
            first = self._first_variable()
            if first is None:
                self._tree.offer("")
                self._head.object = "<h3>This dataset has no variables.</h3>"
                self._settings.visible = False
                return
            address = Address()
            selection = first_selection(self._opened, self._drawer.coordinates, first)
        self._show(selection, address)
        self._tree.offer("")

    def _first_variable(self) -> str | None:
        """Return the drawable variable with the most dimensions, which is probably the main variable of the dataset."""
        variables = self._opened.model.all_variables

        def rank(fqn: str) -> int:
            return min(len(variables[fqn].dimensions), 4) if is_drawable(variables[fqn]) else -1

        return max(variables, key=rank, default=None)

    def _chosen(self, fqn: str) -> None:
        if fqn == self._state.fqn:
            return
        try:
            selection = first_selection(self._opened, self._drawer.coordinates, fqn)
            self._show(selection, Address())
        except NCZarrError as error:
            self._fail(error)

    def _show(self, selection: Selection, address: Address) -> None:
        """Show a variable, and update all components that depend on it."""
        self._state.address = address
        self._tree.selected = selection.fqn
        self._head.object = details.heading_html(self._opened, selection.fqn)
        self._whole.object = ""
        self._palette.offer(address)
        self._offer(selection)
        self._describe()
        self._draw()

    def _describe(self) -> None:
        if self._state.fqn:
            theme: details.Theme = "dark" if self.page.dark_theme else "light"
            self._about.object = details.about_html(self._opened, self._state.fqn, theme)

    # -- axes and sliders

    def _axes_chosen(self, drawn: tuple[int, ...]) -> None:
        assert self._state.selection is not None
        self._state.address.place = ()
        self._offer(with_drawn(self._opened, self._drawer.coordinates, self._state.selection, drawn))
        self._draw()

    def _offer(self, selection: Selection) -> None:
        """Select other axes: remove the figures, and update the axis selectors and sliders."""
        self._state.selection = selection
        self._figure = None
        self._lines.clear()
        self._axes.offer(selection)
        if is_drawable(self._opened.variable(selection.fqn)):
            self._sliders.offer(selection)
        else:
            self._sliders.clear()

    def _moved(self, axis: int, index: int) -> None:
        if self._state.selection is not None:
            self._state.selection = self._state.selection.moved(axis, index)
            self._draw()

    # -- the picture

    def _draw(self) -> None:
        selection = self._state.selection
        assert selection is not None
        self._picture.loading = True

        def draw() -> tuple[Drawing, Spread | None]:
            drawing = self._drawer.draw(selection)
            return drawing, self._drawer.spread(drawing)

        self._workers["picture"].ask(draw, self._take)

    def _take(self, drawn: tuple[Drawing, Spread | None]) -> None:
        """Show a completed drawing."""
        drawing, spread = drawn
        state = self._state
        if drawing.selection is not state.selection:
            return  # the user has selected something else
        self._picture.loading = False
        self._alert.visible = False
        state.drawing, state.spread = drawing, spread
        state.choose_colours(self._opened)
        is_coloured = isinstance(drawing, Picture) and not state.colours.categories
        self._palette.show(is_coloured=is_coloured, has_steps=spread is not None)
        name = split_fqn(drawing.selection.fqn)[1]
        stem = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)[:80] or "picture"
        for download in self._downloads:
            download.filename = f"{stem}.{download.label.lower()}"
        if isinstance(drawing, Table):
            self._figure = None
            self._picture[:] = [pn.pane.HTML(details.table_html(drawing), **_WIDE)]
        elif isinstance(drawing, Line):
            self._take_line(drawing)
        elif isinstance(drawing, Picture):
            self._take_picture(drawing)
        self._show_notes(drawing)
        self._show_statistics(drawing)
        self._remember()

    def _show_notes(self, drawing: Drawing) -> None:
        spread = self._state.spread
        notes = (spread.note,) if spread is not None and self._state.is_sampled else ()
        self._notes.object = details.notes_html((*drawing.notes, *notes))

    def _take_line(self, line: Line) -> None:
        if isinstance(self._figure, LineFigure) and self._figure.fits(line):
            self._figure.show(line, self._state.colours)
            return
        self._figure = LineFigure(line, self._state.colours, name="line")
        self._picture[:] = [pn.pane.Bokeh(self._figure.figure, **_WIDE)]

    def _take_picture(self, picture: Picture) -> None:
        figure = self._figure
        if isinstance(figure, PictureFigure) and figure.fits(picture):
            figure.show(picture, self._state.colours)
        else:
            figure = self._figure = PictureFigure(picture, self._state.colours, self._tapped, self._zoomed)
            self._picture[:] = [pn.pane.Bokeh(figure.figure, **_WIDE)]
        place = self._state.address.place
        if place and len(place) == len(picture.selection.drawn):
            at = picture.place_of(place)
            if at is not None:
                figure.mark(*at)
                self._read_lines(place)

    def _zoomed(self, extent: Extent) -> None:
        """Read the visible part again at a higher resolution."""
        picture, figure = self._state.drawing, self._figure
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
            if self._state.drawing is picture and isinstance(detail, Picture):
                figure.show_detail(detail, self._state.colours)
                self._show_notes(detail)

        self._workers["detail"].ask(lambda: self._drawer.draw(picture.selection, windows), take)

    # -- lines through a point

    def _tapped(self, x: float, y: float) -> None:
        picture, figure = self._state.drawing, self._figure
        if not isinstance(picture, Picture) or not isinstance(figure, PictureFigure):
            return
        place = picture.index_at(x, y)
        if place is None:
            return
        figure.mark(*(picture.place_of(place) or (x, y)))
        self._state.address.place = place
        self._remember()
        self._read_lines(place)

    def _read_lines(self, place: tuple[int, ...]) -> None:
        selection = self._state.selection
        assert selection is not None
        order = {"time": 0, "vertical": 1}
        axes = [i for i in selection.fixed if selection.axes[i].size > 1]
        axes = sorted(axes, key=lambda i: order.get(selection.axes[i].role, 2))[:_MOST_LINES]
        if not axes:
            return

        def read() -> list[Line]:
            return [self._drawer.series(selection, axis, place) for axis in axes]

        def take(lines: list[Line]) -> None:
            if self._state.fqn != selection.fqn:
                return
            panes = []
            for axis, line in zip(axes, lines):
                name = f"series {selection.axes[axis].name}"
                figure = LineFigure(line, self._state.colours, name=name, tall=False)
                panes.append(pn.pane.Bokeh(figure.figure, **_WIDE))
            self._lines[:] = [pn.Row(*panes, **_WIDE)]

        self._workers["series"].ask(read, take)

    # -- colours, statistics, files, address

    def _colours_chosen(self) -> None:
        state, drawing = self._state, self._state.drawing
        self._palette.store(state.address)
        if drawing is None:
            return
        state.choose_colours(self._opened)

        def colour() -> None:
            if isinstance(self._figure, PictureFigure):
                self._figure.colour(state.colours)
            self._show_notes(drawing)

        self._at_once(colour)
        self._remember()

    def _show_statistics(self, drawing: Drawing) -> None:
        self._count.visible = is_drawable(self._opened.variable(drawing.selection.fqn))
        is_shown = self._count.visible and not isinstance(drawing, Table)
        categories = self._state.colours.categories
        self._statistics.object = details.drawing_html(drawing, categories) if is_shown else ""

    def _count_whole(self, event: Event) -> None:
        fqn = self._state.fqn
        if not fqn:
            return
        self._count.loading = True

        def go_on(part: float) -> bool:
            self._schedule(lambda: setattr(self._count, "label", f"{part:.0%} read"))
            return not self._is_closed and self._state.fqn == fqn

        def take(statistics: Statistics | None) -> None:
            self._count.param.update(loading=False, label="Of the whole variable")
            if statistics is not None:
                categories = self._state.colours.categories
                self._whole.object = details.statistics_html(statistics, "the whole variable", categories)

        self._workers["count"].ask(lambda: whole_statistics(self._opened, fqn, go_on), take)

    def _png(self) -> bytes:
        assert self._state.drawing is not None
        return to_image(self._state.drawing, self._state.colours)

    def _csv(self) -> bytes:
        assert self._state.drawing is not None
        return to_csv(self._state.drawing).encode("utf-8", "surrogateescape")

    def _remember(self) -> None:
        """Store the state of the page in the URL."""
        if self._state.selection is not None:
            search = self._state.to_search(self._opened, self._drawer.coordinates)
            if pn.state.location is not None:
                pn.state.location.search = search

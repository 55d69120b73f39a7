"""Build the page: a tree of variables at the left; picture, sliders, series and details at the right."""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import panel as pn
import panel_material_ui as pmui

from nczarr.display import visible
from nczarr.errors import NCZarrError
from nczarr.model import split_fqn
from nczarr.view.opened import OpenedDataset, is_drawable
from nczarr.view.page import details
from nczarr.view.page.state import Address, State
from nczarr.view.page.widgets import AxisChoice, LookChoice, Sliders, VariableTree
from nczarr.view.page.worker import Worker
from nczarr.view.picture.colours import Colours, choose_colours
from nczarr.view.picture.drawer import Drawer, Spread, zoomed
from nczarr.view.picture.drawings import Drawing, Line, Picture, Table, to_csv
from nczarr.view.picture.figures import LineFigure, PictureFigure
from nczarr.view.picture.grids import Extent
from nczarr.view.picture.overlays import with_overlay
from nczarr.view.picture.selection import Selection, first_selection, first_variable, with_drawn
from nczarr.view.plotting import to_film, to_image

#: Maximum number of axes for which a click shows a line.
_MOST_LINES = 2
#: Number of steps to draw ahead of time; number of frames of a film.
_AHEAD, _MOST_FRAMES = 3, 100
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
        self._figures: list[PictureFigure] = []
        self._direction = (0, 1)
        self._document = pn.state.curdoc
        self._is_closed = False
        jobs = ("picture", "ahead", "limits", "detail", "series")
        self._workers = {job: Worker(self._schedule, self._fail) for job in jobs}
        self._build()
        pn.state.on_session_destroyed(self._leave)
        self._start()

    # -- the page

    def _build(self) -> None:
        self._tree = VariableTree(self._opened.model, self._chosen)
        self._axes = AxisChoice(self._axes_chosen)
        self._look = LookChoice(self._colours_chosen, self._look_chosen)
        self._sliders = Sliders(self._drawer.coordinates, self._moved, lambda: not self._busy.visible)
        self._head, self._notes, self._about, self._statistics, self._values, self._python = (
            pn.pane.HTML("", **_WIDE) for _ in range(6)
        )
        # Its place is kept, so that nothing moves when it appears.
        self._busy = pmui.LinearProgress(variant="indeterminate", visible=False, margin=0, **_WIDE)
        progress = pn.Column(self._busy, height=6, margin=0, **_WIDE)
        self._alert = pn.pane.HTML("", visible=False, **_WIDE)
        self._picture, self._lines = pn.Column(**_WIDE), pn.Column(**_WIDE)
        self._downloads = [
            pmui.FileDownload(
                callback=lambda write=write: io.BytesIO(write()),
                label=label,
                size="small",
                variant="outlined",
                color="primary",
                width=80,
                margin=(8, 3),
            )
            for label, write in self._writers()
        ]
        choices = (self._axes.widget, *self._look.widgets, *self._downloads)
        self._settings = pn.FlexBox(*choices, align_items="center")
        about = {
            "About": self._about,
            "Values": self._values,
            "Statistics": self._statistics,
            "Python": self._python,
        }
        tabs = pmui.Tabs(*about.items(), **_WIDE)
        above = (self._head, self._alert, self._settings, progress, self._picture, self._notes)
        below = (self._sliders.box, self._lines, tabs)
        name = os.path.basename(self._opened.name.rstrip("/")) or self._opened.name
        self.page = pmui.Page(
            title=visible(name[:80]),
            meta_title=visible(f"{name[:80]} · nczarr"),
            sidebar=self._tree.widgets,
            main=[pn.Column(*above, *below, margin=(8, 20), **_WIDE)],
            sidebar_width=330,
            sidebar_variant="auto",
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
        self._busy.visible = False
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
            first = first_variable(self._opened, self._drawer.coordinates)
            if first is None:
                self._tree.offer("")
                self._head.object = "<h3>This dataset has no variables.</h3>"
                self._settings.visible = False
                return
            address = Address()
            selection = first_selection(self._opened, self._drawer.coordinates, first)
        self._show(selection, address)
        self._tree.offer("")

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
        self._look.offer(address, self._others(selection.fqn))
        self._offer(selection)
        self._describe()
        self._draw()

    def _others(self, fqn: str) -> list[str]:
        """Return the variables that compare with a variable: those of the same shape, first those of the same name."""
        shape, name = self._opened.shape(fqn), split_fqn(fqn)[1]
        variables = self._opened.model.all_variables
        same = [
            at
            for at, v in variables.items()
            if at != fqn and is_drawable(v) and self._opened.shape(at) == shape
        ]
        return sorted(same, key=lambda at: split_fqn(at)[1] != name)[:200] if len(shape) > 1 else []

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
        self._figure, self._direction = None, (selection.fixed[0] if selection.fixed else 0, 1)
        self._lines.clear()
        self._axes.offer(selection)
        if is_drawable(self._opened.variable(selection.fqn)):
            self._sliders.offer(selection)
        else:
            self._sliders.clear()

    def _moved(self, axis: int, index: int) -> None:
        before = self._state.selection
        if before is not None:
            self._state.selection = before.moved(axis, index)
            self._direction = (axis, -1 if index == before.at[axis] - 1 else 1)
            self._draw()

    # -- the picture

    def _draw(self) -> None:
        selection, address = self._state.selection, self._state.address
        assert selection is not None
        self._busy.visible = True
        other, overlay = (
            address.other if address.other in self._others(selection.fqn) else "",
            address.overlay,
        )

        def draw() -> list[tuple[Drawing, Spread | None]]:
            drawing = self._drawer.draw_step(selection)
            drawn = [(drawing, self._drawer.spread(drawing, quick=True))]
            if isinstance(drawing, Picture) and overlay:
                values = self._state.limits_of(*drawn[0])
                low, high = (float(n) for n in (values.min(), values.max())) if values.count() else (0.0, 1.0)
                drawn = [(with_overlay(self._drawer, drawing, overlay, low, high), drawn[0][1])]
            if isinstance(drawing, Picture) and other:
                for fqn in (other, self._opened.difference(selection.fqn, other)):
                    drawing = self._drawer.draw_step(replace(selection, fqn=fqn))
                    drawn.append((drawing, self._drawer.spread(drawing, quick=True)))
            return drawn

        self._workers["picture"].ask(draw, self._take)

    def _take(self, drawn: list[tuple[Drawing, Spread | None]]) -> None:
        """Show a completed drawing, and those beside it."""
        drawing, spread = drawn[0]
        state = self._state
        if drawing.selection != state.selection:
            return  # the user has selected something else
        self._busy.visible = False
        self._alert.visible = False
        state.drawing, state.spread = drawing, spread
        state.choose_colours(self._opened)
        is_picture = isinstance(drawing, Picture)
        self._look.show(
            is_picture=is_picture,
            is_coloured=is_picture and not state.colours.categories,
            is_map=isinstance(drawing, Picture) and drawing.is_map,
            has_steps=spread is not None,
        )
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
            self._take_picture(drawing, drawn)
        self._show_notes(drawing)
        self._statistics.object = details.statistics_html(drawing, state.colours.categories)
        self._values.object = details.values_html(drawing)
        self._remember()
        self._read_on(drawing)

    def _read_on(self, drawing: Drawing) -> None:
        """Refine the limits of the colours, and draw the next steps, while the page waits for the user."""
        state, (axis, by) = self._state, self._direction

        def take(spread: Spread | None) -> None:
            if state.drawing is drawing and spread != state.spread:
                state.spread = spread
                self._colours_chosen()

        if state.spread is not None and not state.spread.is_refined:
            self._workers["limits"].ask(lambda: self._drawer.spread(drawing), take)
        if axis in drawing.selection.fixed and isinstance(drawing, Picture):
            size, at = drawing.selection.axes[axis].size, drawing.selection.at[axis]
            ahead = [drawing.selection.moved(axis, (at + by * n) % size) for n in range(1, _AHEAD + 1)]

            def draw() -> None:
                for selection in ahead:
                    if state.drawing is drawing:
                        self._drawer.draw_step(selection)

            self._workers["ahead"].ask(draw, lambda nothing: None)

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

    def _take_picture(self, picture: Picture, drawn: list[tuple[Drawing, Spread | None]]) -> None:
        pictures = [(p, self._colours_of(p, spread)) for p, spread in drawn if isinstance(p, Picture)]
        fits = len(self._figures) == len(pictures) and all(
            f.fits(p) for f, (p, _) in zip(self._figures, pictures)
        )
        if self._figure is None or not fits:
            self._figures = []
            for p, colours in pictures:
                first = self._figures[0] if self._figures else None
                self._figures.append(PictureFigure(p, colours, self._tapped, self._zoomed, first))
            self._figure = self._figures[0]
            self._picture[:] = [pn.Row(*(pn.pane.Bokeh(f.figure, **_WIDE) for f in self._figures), **_WIDE)]
        else:
            for figure, (p, colours) in zip(self._figures, pictures):
                figure.show(p, colours)
        place = self._state.address.place
        if place and len(place) == len(picture.selection.drawn):
            at = picture.place_of(place)
            if at is not None:
                self._figures[0].mark(*at)
                self._read_lines(place)

    def _colours_of(self, picture: Picture, spread: Spread | None) -> Colours:
        """Return the colours of a picture, which are those of the first picture for its variable only."""
        if picture is self._state.drawing:
            return self._state.colours
        return choose_colours(
            self._opened.variable(picture.selection.fqn), self._state.limits_of(picture, spread)
        )

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

    def _look_chosen(self) -> None:
        """Draw again with another projection, other lines, or a second variable."""
        state = self._state
        self._look.store(state.address)
        if state.selection is not None:
            state.selection = replace(state.selection, projection=state.address.projection)
            self._draw()

    def _colours_chosen(self) -> None:
        state, drawing = self._state, self._state.drawing
        self._look.store(state.address)
        if drawing is None:
            return
        state.choose_colours(self._opened)

        def colour() -> None:
            if isinstance(self._figure, PictureFigure):
                self._figure.colour(state.colours)
            self._show_notes(drawing)

        self._at_once(colour)
        self._remember()

    def _writers(self) -> list[tuple[str, Callable[[], bytes]]]:
        """Return the formats of files, with a function that returns the bytes of each."""
        images = [(name.upper(), partial(self._image, name)) for name in ("png", "svg", "pdf")]
        return [*images, ("GIF", self._film), ("CSV", self._csv)]

    def _image(self, format: str) -> bytes:
        assert self._state.drawing is not None
        return to_image(self._state.drawing, self._state.colours, format)

    def _film(self) -> bytes:
        """Return a film of the steps of the slider that moved last."""
        drawing, (axis, _) = self._state.drawing, self._direction
        assert drawing is not None
        if axis not in drawing.selection.fixed:
            return self._image("gif")
        steps = range(min(drawing.selection.axes[axis].size, _MOST_FRAMES))
        frames = (self._drawer.draw_step(drawing.selection.moved(axis, step)) for step in steps)
        return to_film(frames, self._state.colours, "gif", 80)

    def _csv(self) -> bytes:
        assert self._state.drawing is not None
        return to_csv(self._state.drawing).encode("utf-8", "surrogateescape")

    def _remember(self) -> None:
        """Store the state of the page in the URL."""
        if self._state.selection is not None:
            search = self._state.to_search(self._opened, self._drawer.coordinates)
            self._python.object = details.python_html(
                self._opened.names, self._state.selection, self._state.address
            )
            if pn.state.location is not None:
                pn.state.location.search = search

"""Build the page: a tree of variables at the left; picture, sliders, series and details at the right."""

from __future__ import annotations

import io
import logging
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import panel as pn
import panel_material_ui as pmui
from panel.io.state import set_curdoc

from nczarr.display import visible
from nczarr.errors import NCZarrError
from nczarr.model import split_fqn
from nczarr.view.opened import OpenedDataset, is_drawable
from nczarr.view.page import details
from nczarr.view.page.state import Address
from nczarr.view.page.widgets import Choices, Sliders, VariableTree
from nczarr.view.page.worker import Call, Worker
from nczarr.view.picture.colours import Colours, choose_colours
from nczarr.view.picture.drawer import Drawer, Spread, with_overlay, zoomed
from nczarr.view.picture.drawings import Drawing, Line, Picture, Table, to_csv
from nczarr.view.picture.figures import LineFigure, PictureFigure
from nczarr.view.picture.grids import Extent
from nczarr.view.picture.selection import Hyperslab, first_selection, first_variable, with_drawn
from nczarr.view.plotting import FILMS, to_file

#: Maximum number of axes for which a click shows a line.
_MOST_LINES = 2
#: Number of steps to draw ahead of time; number of frames of a film.
_AHEAD, _MOST_FRAMES = 3, 100
#: Milliseconds between two looks at a dataset that a model writes.
_FOLLOWED = 5000
_ACCENT, _DARK_ACCENT = "#0b7285", "#4fb3cc"
#: The page contains its icon: Panel 1.10 links to one that does not exist below the secret of the URL.
_LOGO = Path(__file__).with_name("logo.svg")
_WIDE = {"sizing_mode": "stretch_width"}
_SAVE: dict[str, object] = {"size": "small", "variant": "outlined", "width": 80, "margin": (8, 3)}
#: A drawing, and the minimum and maximum of all its steps.
_Drawn = list[tuple[Drawing, Spread | None]]


class Viewer:
    """The page of one browser session, with its event handlers.

    Parameters
    ----------
    opened : OpenedDataset
        The dataset; all sessions share it.

    Attributes
    ----------
    page : panel_material_ui.Page
    """

    def __init__(self, opened: OpenedDataset) -> None:
        self._opened = opened
        self._take_changes()
        self._drawer, self._version = Drawer(opened), opened.version
        self._said = ""
        self._address = Address()
        #: The part to show; the newest complete drawings are older while the next ones are made.
        self._selection: Hyperslab | None = None
        #: The part of these figures that the user has zoomed to.
        self._extent: Extent | None = None
        self._drawn: _Drawn = []
        self._figures: list[PictureFigure | LineFigure] = []
        self._layout: list[tuple[object, ...]] = []
        self._direction = (0, 1)
        self._document = pn.state.curdoc
        self._is_closed, self._looks = False, None
        jobs = ("picture", "ahead", "limits", "detail", "series", "look")
        self._workers = {job: Worker(self._schedule, self._fail) for job in jobs}
        self._build()
        pn.state.on_session_destroyed(self._leave)
        self._start()

    # -- the page

    def _build(self) -> None:
        self._tree = VariableTree(self._opened.model, self._variable_chosen)
        self._choices = Choices(self._chosen)
        self._sliders = Sliders(self._drawer.coordinates, self._moved)
        names = ("head", "notes", "alert", "About", "Values", "Statistics", "Python")
        self._html = {name: pn.pane.HTML("", **_WIDE) for name in names}
        # Its place is kept, so that nothing moves when it appears.
        self._busy = pmui.LinearProgress(variant="indeterminate", visible=False, margin=0, **_WIDE)
        progress = pn.Column(self._busy, height=6, margin=0, **_WIDE)
        self._picture, self._lines = pn.Column(**_WIDE), pn.Column(**_WIDE)
        formats = ("png", "svg", "pdf", "gif", *(["mp4"] if shutil.which("ffmpeg") else []), "csv")
        self._downloads = {
            format: pmui.FileDownload(label=format.upper(), color="primary", **_SAVE) for format in formats
        }
        for format, download in self._downloads.items():
            download.callback = partial(self._file, format)
        reload = pmui.Button(label="Reload", on_click=lambda event: self._reload(), **_SAVE)
        follow = pmui.Checkbox(label="follow", size="small", margin=(8, 3))
        follow.param.watch(lambda event: self._follow(event.new), "value")
        choices = (*self._choices.widgets.values(), *self._downloads.values(), reload, follow)
        self._settings = pn.FlexBox(*choices, align_items="center")
        tabs = pmui.Tabs(*((name, self._html[name]) for name in names[3:]), **_WIDE)
        html = self._html
        above = [html["head"], html["alert"], progress, self._picture, html["notes"], self._sliders.box]
        # On a phone, the picture is first, and the sidebar closed.
        is_phone = "Mobile" in pn.state.headers.get("User-Agent", "")
        above.insert(len(above) if is_phone else 2, self._settings)
        name = os.path.basename(self._opened.name.rstrip("/")) or self._opened.name
        accents = {"light": _ACCENT, "dark": _DARK_ACCENT}
        colours = {theme: {"palette": {"primary": {"main": colour}}} for theme, colour in accents.items()}
        titles = {"title": visible(name[:80]), "meta_title": visible(f"{name[:80]} · nczarr")}
        sidebar = {"sidebar": self._tree.widgets, "sidebar_width": 330, "sidebar_open": not is_phone}
        main = pn.Column(*above, self._lines, tabs, margin=(8, 20), **_WIDE)
        # Panel links to an icon below the secret of the URL, where there is none.
        self.page = pmui.Page(main=[main], theme_config=colours, favicon=_LOGO, **titles, **sidebar)
        self.page.param.watch(lambda event: self._describe(), "dark_theme")

    # -- background jobs

    def _schedule(self, call: Call) -> None:
        if not self._is_closed:
            self._document.add_next_tick_callback(partial(self._at_once, call))

    # With Bokeh 3.10, the browser drew the values of one step with the limits and the title of another.
    async def _at_once(self, call: Call) -> None:
        """Send all changes of a call to the browser in one message, so that it draws them together.

        Bokeh runs other functions in a thread, from which Panel sends each change alone.
        """
        with set_curdoc(self._document), pn.io.hold(self._document):
            call()

    def _leave(self, context: object) -> None:
        self._is_closed = True

    def _fail(self, error: Exception) -> None:
        self._busy.visible = False
        known = isinstance(error, NCZarrError | OSError)
        text = str(error) if known else f"{type(error).__name__}: {error}"
        self._html["alert"].object = details.alert_html(text)
        if not known:
            logging.getLogger("nczarr.view").error("drawing failed", exc_info=error)

    # -- changes of the dataset

    def _take_changes(self) -> None:
        """Open a dataset again whose documents have changed: a page that is loaded shows the dataset as it is now."""
        at = next(iter(self._opened.model.all_variables), None)
        if at is not None and self._opened.has_changed(at, 0 if self._opened.shape_of(at) else ...):
            # A page without a dataset would say less than one of its last state.
            with suppress(NCZarrError, OSError):
                self._opened.reopen()

    def _is_old(self, selections: Iterable[Hyperslab]) -> bool:
        """Return True if files of selections have changed since they were read; open the dataset again then."""
        if self._opened.version != self._version:
            return True
        if not any(map(self._has_changed, selections)):
            return False
        try:
            self._opened.reopen()
        except (NCZarrError, OSError) as error:
            raise NCZarrError(f"the dataset is gone; the page shows its last state: {error}") from error
        return True

    def _has_changed(self, selection: Hyperslab) -> bool:
        index = selection.index([range(selection.axes[i].size) for i in selection.drawn])
        coordinates = [axis.coordinate for axis in selection.axes if axis.coordinate is not None]
        is_changed = self._opened.has_changed
        return is_changed(selection.fqn, index) or any(is_changed(at, slice(None)) for at in coordinates)

    def _reload(self) -> None:
        self._workers["look"].ask(self._opened.reopen, lambda nothing: self._renew())

    def _follow(self, is_followed: bool) -> None:
        """Look for changes every few seconds, and show the newest time step."""
        if self._looks is None and is_followed:
            self._looks = pn.state.add_periodic_callback(self._look, _FOLLOWED)
        if self._looks is not None and self._looks.running != is_followed:
            (self._looks.start if is_followed else self._looks.stop)()

    def _look(self) -> None:
        shown = [drawing.selection for drawing, _ in self._drawn]

        def take(is_old: bool) -> None:
            if is_old and self._version != self._opened.version:
                self._renew(is_followed=True)

        self._workers["look"].ask(lambda: self._is_old(shown), take)

    def _renew(self, *, is_followed: bool = False) -> None:
        """Show the dataset as it is now."""
        with suppress(NCZarrError):  # the variable may be gone
            self._remember()
        self._drawer, self._version = Drawer(self._opened), self._opened.version
        coordinates, address = self._drawer.coordinates, self._address
        self._tree.renew(self._opened.model)
        self._sliders.renew(coordinates)
        selection = address.selection(coordinates)
        self._said = "The dataset has changed; this is its present state."
        if selection is None:
            self._said = f"The dataset has changed: {address.variable} is gone."
            first = first_variable(coordinates)
            if first is None:
                self._html["alert"].object = details.alert_html(self._said)
                return
            address, selection = Address(), first_selection(coordinates, first)
        times = [i for i in selection.fixed if is_followed and selection.axes[i].role == "time"]
        for axis in times:
            selection = selection.moved(axis, selection.axes[axis].size - 1)
        self._layout = []
        self._show(selection, address)

    # -- choosing a variable

    def _start(self) -> None:
        location = pn.state.location
        address = Address.from_search(location.search if location and location.search else "")
        selection = address.selection(self._drawer.coordinates) if address.variable else None
        if selection is None and (first := first_variable(self._drawer.coordinates)) is not None:
            address, selection = Address(), first_selection(self._drawer.coordinates, first)
        if selection is not None:
            self._show(selection, address)
        else:
            self._html["head"].object = "<h3>This dataset has no variables.</h3>"
            self._settings.visible = False
        self._tree.offer("")

    def _variable_chosen(self, fqn: str) -> None:
        try:
            self._show(first_selection(self._drawer.coordinates, fqn), Address())
        except NCZarrError as error:
            self._fail(error)

    def _show(self, selection: Hyperslab, address: Address) -> None:
        """Show a variable, and update all components that depend on it."""
        others = self._others(selection.fqn)
        address.other = address.other if address.other in others else ""
        self._selection, self._address, self._tree.selected = selection, address, selection.fqn
        self._html["head"].object = details.heading_html(self._opened, selection.fqn)
        self._choices.offer(address, others)
        self._offer(selection)
        self._describe()
        self._draw()

    def _others(self, fqn: str) -> list[str]:
        """Return the variables that compare with a variable: those of the same shape, first those of the same name."""
        shape, name = self._opened.shape_of(fqn), split_fqn(fqn)[1]
        others = self._opened.model.all_variables.items()
        same = [at for at, v in others if at != fqn and is_drawable(v) and self._opened.shape_of(at) == shape]
        return sorted(same, key=lambda at: split_fqn(at)[1] != name)[:200] if len(shape) > 1 else []

    def _describe(self) -> None:
        if self._selection is not None:
            theme: details.Theme = "dark" if self.page.dark_theme else "light"
            self._html["About"].object = details.about_html(self._opened, self._selection.fqn, theme)

    # -- axes, steps and colours

    def _offer(self, selection: Hyperslab) -> None:
        """Select other axes: remove the figures, and update the axis selectors and sliders."""
        self._selection, self._figures = selection, []
        self._direction = (selection.fixed[0] if selection.fixed else 0, 1)
        self._lines.clear()
        self._choices.offer_axes(selection)
        self._sliders.offer(selection)

    def _chosen(self, name: str, value: object) -> None:
        """Draw or colour again after a choice of the user."""
        selection = self._selection
        if selection is None:
            return
        if name == "drawn":
            if isinstance(value, tuple) and value != selection.drawn:
                self._address.place = ()
                self._offer(with_drawn(self._drawer.coordinates, selection, value))
                self._draw()
        elif value != getattr(self._address, name):
            setattr(self._address, name, value)
            self._selection = replace(selection, projection=self._address.projection)
            if name in Choices.OF_COLOURS:
                self._colour()
            else:
                self._draw()

    def _moved(self, axis: int, index: int) -> None:
        before = self._selection
        if before is not None and index != before.at[axis]:
            self._selection, self._said = before.moved(axis, index), ""
            self._direction = (axis, -1 if index == before.at[axis] - 1 else 1)
            self._draw()

    def _colours_of(self, drawing: Drawing, spread: Spread | None) -> Colours:
        """Return the colours of a drawing, with limits of all steps or of this step; the user's for the variable."""
        address, fqn = self._address, drawing.selection.fqn
        is_whole = spread is not None and address.limits != "step"
        values = spread.range if spread is not None and is_whole else drawing.sample
        chosen = choose_colours(self._opened.variable(fqn), values, address.reach, address.progression)
        if self._selection is None or fqn != self._selection.fqn:
            return chosen
        return chosen.adjusted(address.colours or None, address.low, address.high)

    def _colour(self) -> None:
        def colour() -> None:
            if self._figures and isinstance(self._figures[0], PictureFigure):
                self._figures[0].colour(self._colours_of(*self._drawn[0]))
            self._show_notes(self._drawn[0][0])

        if self._drawn:
            self._schedule(colour)
            self._remember()

    # -- the picture

    def _draw(self) -> None:
        selection, address = self._selection, self._address
        assert selection is not None
        self._busy.visible = True

        def draw() -> _Drawn:
            parts = [selection]
            if address.other:
                difference = self._opened.difference(selection.fqn, address.other)
                parts += [replace(selection, fqn=fqn) for fqn in (address.other, difference)]
            try:
                first, *others = [self._drawer.draw_step(part) for part in parts]
            # A step that is gone cannot be read.
            except (NCZarrError, OSError):
                if self._is_old(parts):
                    return []
                raise
            drawings = [first, *(d for d in others if isinstance(d, Picture))]
            # A drawing that was kept may be one of a step that was replaced since, or is gone.
            if self._is_old(parts):
                return []
            drawn = [(d, self._spread(d, quick=True)) for d in drawings]
            drawn[0] = (self._with_lines(first, self._colours_of(*drawn[0])), drawn[0][1])
            return drawn

        self._workers["picture"].ask(draw, self._take)

    def _spread(self, drawing: Drawing, quick: bool = False) -> Spread | None:
        return self._drawer.spread(drawing, quick, of_level=self._address.limits == "level")

    def _with_lines(self, drawing: Drawing, colours: Colours) -> Drawing:
        """Return a drawing with the contours and vectors that the user has chosen."""
        if not isinstance(drawing, Picture) or not self._address.overlay:
            return drawing
        return with_overlay(self._drawer, drawing, self._address.overlay, colours)

    def _take(self, drawn: _Drawn) -> None:
        """Show completed drawings, or the dataset as it is now where these are old."""
        if not drawn:
            if self._version != self._opened.version:
                self._renew()
            return
        drawing, spread = drawn[0]
        if drawing.selection != self._selection:
            return  # the user has selected something else
        self._busy.visible, self._html["alert"].object, self._drawn = False, "", drawn
        categories = self._colours_of(*drawn[0]).categories
        self._choices.show(drawing, is_coloured=not categories, has_steps=spread is not None)
        name = split_fqn(drawing.selection.fqn)[1]
        stem = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)[:80] or "picture"
        for format, download in self._downloads.items():
            download.filename = f"{stem}.{format}"
        if isinstance(drawing, Table):
            self._figures = []
            self._picture[:] = [pn.pane.HTML(details.table_html(drawing), **_WIDE)]
        else:
            self._show_figures(drawn)
        self._show_notes(drawing)
        self._html["Statistics"].object = details.statistics_html(drawing, categories)
        self._html["Values"].object = details.values_html(drawing)
        self._remember()
        self._read_on(drawing)

    def _show_figures(self, drawn: _Drawn) -> None:
        """Show drawings in the figures that there are, or in new ones."""
        layout = [drawing.layout for drawing, _ in drawn]
        fits, self._layout = bool(self._figures) and layout == self._layout, layout
        figures: list[PictureFigure | LineFigure] = self._figures if fits else []
        for number, (drawing, spread) in enumerate(drawn):
            colours = self._colours_of(drawing, spread)
            if fits:
                figures[number].show(drawing, colours)  # type: ignore[arg-type]
            elif isinstance(drawing, Picture):
                beside = figures[0] if figures and isinstance(figures[0], PictureFigure) else None
                figures.append(PictureFigure(drawing, colours, self._tapped, self._zoomed, beside))
            elif isinstance(drawing, Line):
                figures.append(LineFigure(drawing, colours, name="line"))
        if not fits:
            self._extent = None
            self._picture[:] = [pn.Row(*(pn.pane.Bokeh(f.figure, **_WIDE) for f in figures), **_WIDE)]
        self._figures = figures
        place, (first, _) = self._address.place, drawn[0]
        if isinstance(first, Picture) and len(place) == len(first.selection.drawn) > 0:
            self._mark(first, place)
        if self._extent is not None:
            # The whole is asked for like a part: a late part was shown above it for good.
            self._zoomed(self._extent)

    def _read_on(self, drawing: Drawing) -> None:
        """Refine the limits of the colours, and draw the next steps, while the page waits for the user."""
        (_, known), (axis, by) = self._drawn[0], self._direction

        def is_shown() -> bool:
            return self._drawn[0][0] is drawing

        def take(spread: Spread | None) -> None:
            if is_shown() and spread != known:
                self._drawn[0] = (drawing, spread)
                self._colour()

        if known is not None and not known.is_refined:
            self._workers["limits"].ask(lambda: self._spread(drawing), take)
        if axis in drawing.selection.fixed and isinstance(drawing, Picture):
            size, at = drawing.selection.axes[axis].size, drawing.selection.at[axis]
            ahead = [drawing.selection.moved(axis, (at + by * n) % size) for n in range(1, _AHEAD + 1)]

            def draw() -> None:
                # A step that cannot be drawn gives its error when the user selects it.
                with suppress(NCZarrError, OSError):
                    for selection in ahead:
                        if is_shown():
                            self._drawer.draw_step(selection)

            self._workers["ahead"].ask(draw, lambda nothing: None)

    def _show_notes(self, drawing: Drawing) -> None:
        notes: tuple[str, ...] = ()
        first, spread = self._drawn[0]
        if spread is not None and not (spread.is_whole or self._address.limits == "step"):
            notes = () if self._colours_of(first, spread).categories else (spread.note,)
        said = (self._said,) if self._said else ()
        self._html["notes"].object = details.notes_html((*said, *drawing.notes, *notes))

    def _zoomed(self, extent: Extent) -> None:
        """Read the visible part again at a higher resolution."""
        picture, figure = self._drawn[0][0], self._figures[0] if self._figures else None
        if not isinstance(picture, Picture) or not isinstance(figure, PictureFigure):
            return
        windows = zoomed(picture, extent)
        if windows is None:
            return
        axes = [picture.selection.axes[i] for i in picture.selection.drawn]
        # The whole is there already, and a detail that arrived late covered it for good.
        if all(window == (0, axis.size) for window, axis in zip(windows, axes)):
            self._extent = None
            figure.show_detail(None, self._colours_of(*self._drawn[0]))
            self._show_notes(picture)
            return
        self._extent = extent

        def take(detail: Drawing) -> None:
            # The user may have zoomed to another part, or to the whole, since.
            if self._extent is extent and self._drawn[0][0] is picture and isinstance(detail, Picture):
                figure.show_detail(detail, self._colours_of(*self._drawn[0]))
                self._show_notes(detail)

        self._workers["detail"].ask(lambda: self._drawer.draw(picture.selection, windows), take)

    # -- lines through a point

    def _tapped(self, x: float, y: float) -> None:
        figure = self._figures[0] if self._figures else None
        place = figure.index_at(x, y) if isinstance(figure, PictureFigure) else None
        if isinstance(figure, PictureFigure) and place is not None:
            self._address.place = place
            self._remember()
            self._mark(figure.picture, place)

    def _mark(self, picture: Picture, place: tuple[int, ...]) -> None:
        """Mark a place of a picture, and show the lines through it."""
        selection, figure = picture.selection, self._figures[0]
        at = figure.place_of(place) if isinstance(figure, PictureFigure) else None
        if at is None or not isinstance(figure, PictureFigure):
            return
        figure.mark(*at)
        order = {"time": 0, "vertical": 1}
        axes = [i for i in selection.fixed if selection.axes[i].size > 1]
        axes = sorted(axes, key=lambda i: order.get(selection.axes[i].role, 2))[:_MOST_LINES]

        def take(lines: list[Line]) -> None:
            now = self._selection
            # The user may have selected another variable since.
            if now is None or (now.fqn, now.drawn) != (selection.fqn, selection.drawn):
                return
            colours, panes = self._colours_of(*self._drawn[0]), []
            for axis, line in zip(axes, lines):
                series = LineFigure(line, colours, name=f"series {selection.axes[axis].name}", tall=False)
                panes.append(pn.pane.Bokeh(series.figure, **_WIDE))
            self._lines[:] = [pn.Row(*panes, **_WIDE)]

        if axes:
            read = self._drawer.series
            self._workers["series"].ask(lambda: [read(selection, axis, place) for axis in axes], take)

    # -- files and the address

    def _file(self, format: str) -> io.BytesIO:
        """Return the current view as a file; a film has the steps of the slider that moved last."""
        (drawing, spread), (axis, _) = self._drawn[0], self._direction
        if format == "csv":
            return io.BytesIO(to_csv(drawing).encode("utf-8", "surrogateescape"))
        colours, frames = self._colours_of(drawing, spread), iter([drawing])
        if format in FILMS and axis in drawing.selection.fixed:
            steps = range(min(drawing.selection.axes[axis].size, _MOST_FRAMES))
            selections = (drawing.selection.moved(axis, step) for step in steps)
            frames = (self._with_lines(self._drawer.draw_step(s), colours) for s in selections)
        return io.BytesIO(to_file(frames, colours, format, 80 if format in FILMS else 150))

    def _remember(self) -> None:
        """Store the choices and the selection in the URL."""
        selection, address = self._selection, self._address
        if selection is None:
            return
        axes, first = selection.axes, first_selection(self._drawer.coordinates, selection.fqn)
        address.variable = selection.fqn
        moved = [i for i in selection.fixed if selection.at[i] != first.at[i]]
        address.at = {axes[i].name: selection.at[i] for i in moved}
        is_first = selection.drawn == first.drawn
        address.drawn = () if is_first else tuple(axes[i].name for i in selection.drawn)
        self._html["Python"].object = details.python_html(self._opened.names, selection, address)
        if pn.state.location is not None:
            pn.state.location.search = address.to_search()

"""Provide the widgets that choose what is drawn: variables, axes, steps and colours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import panel as pn
import panel_material_ui as pmui
from param.parameterized import Event

from nczarr.display import visible
from nczarr.errors import NCZarrError
from nczarr.model import Dataset
from nczarr.view.coordinates import Axis, Coordinates
from nczarr.view.page.details import Item, list_tree
from nczarr.view.page.state import Address, parse_limit
from nczarr.view.picture.colours import DIVERGING, SEQUENTIAL
from nczarr.view.picture.selection import Selection

#: Option for the vertical axis: it shows the values, so that the drawing is a line.
VALUES = "(values)"
_AUTOMATIC = "automatic"
_ALL_STEPS, _EACH_STEP = "of all steps", "of each step"
_SMALL: dict[str, object] = {"size": "small", "width": 150, "margin": (4, 6)}
_PLAY_MILLISECONDS = 700
_LONGEST = 80


class _Chooser:
    """Base class of groups of widgets, which call a function when the user, not the program, changes a widget."""

    def __init__(self) -> None:
        self._is_setting = False

    @contextmanager
    def _setting(self) -> Iterator[None]:
        """Ignore the changes of the widgets meanwhile."""
        self._is_setting = True
        try:
            yield
        finally:
            self._is_setting = False


class VariableTree(_Chooser):
    """The tree of groups and variables, with a search field.

    Parameters
    ----------
    dataset : Dataset
    chosen : callable
        Called with the FQN of a variable.

    Attributes
    ----------
    selected : str
        FQN of the highlighted variable.
    widgets : list
        The widgets on the page.
    """

    def __init__(self, dataset: Dataset, chosen: Callable[[str], None]) -> None:
        super().__init__()
        self._dataset = dataset
        self._chosen = chosen
        self.selected = ""
        search = pmui.TextInput(
            label="Search", placeholder="name, long name, units …", size="small", sizing_mode="stretch_width"
        )
        search.param.watch(lambda event: self.offer(event.new), "value_input")
        self._tree = pmui.Tree(items=[], multi_select=False, sizing_mode="stretch_width")
        self._tree.param.watch(self._changed, "value")
        self._left_out = pn.pane.HTML("", sizing_mode="stretch_width")
        self.widgets = [search, self._tree, self._left_out]

    def offer(self, search: str) -> None:
        """List the variables that match a search."""
        items, left_out = list_tree(self._dataset, search)
        paths = list(_paths(items))
        with self._setting():
            self._tree.items = items
            self._tree.expanded = [
                path for path, item in paths if item.get("items")
            ]  # new items are collapsed
            self._tree.active = [path for path, item in paths if item["id"] == self.selected]
        more = f"… {left_out:,} more variables; use the search" if left_out else ""
        self._left_out.object = more or ("" if items else "no matches")

    def _changed(self, event: Event) -> None:
        if not self._is_setting and event.new and event.new[0].get("id") in self._dataset.all_variables:
            self._chosen(event.new[0]["id"])


def _paths(items: list[Item], before: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Item]]:
    """Yield all items with their paths in the tree."""
    for number, item in enumerate(items):
        yield (*before, number), item
        yield from _paths(item.get("items", []), (*before, number))


class AxisChoice(_Chooser):
    """Selectors of the drawn axes: one for a line, two for an image.

    Parameters
    ----------
    chosen : callable
        Called with the numbers of the axes to draw: (x,) or (y, x).

    Attributes
    ----------
    up, across : panel_material_ui.Select
        The widgets on the page.
    """

    def __init__(self, chosen: Callable[[tuple[int, ...]], None]) -> None:
        super().__init__()
        self._chosen = chosen
        self._names: list[str] = []
        self.up = pmui.Select(label="up", options=[], **_SMALL)
        self.across = pmui.Select(label="across", options=[], **_SMALL)
        for widget in (self.up, self.across):
            widget.param.watch(self._changed, "value")

    def offer(self, selection: Selection) -> None:
        """Show the axes of a selection and its drawn axes; hide the selectors if there is only one choice."""
        self._names = [axis.name for axis in selection.axes]
        names = [axis.name for i, axis in enumerate(selection.axes) if axis.size > 1 or i in selection.drawn]
        drawn = [self._names[i] for i in selection.drawn]
        with self._setting():
            self.across.param.update(options=names, value=drawn[-1] if drawn else None)
            self.up.param.update(options=[VALUES, *names], value=drawn[0] if len(drawn) == 2 else VALUES)
        self.up.visible = self.across.visible = len(names) > 1 and bool(drawn)

    def _changed(self, event: Event) -> None:
        if self._is_setting:
            return
        up, across = self.up.value, self.across.value
        if up == across:  # the same axis twice: exchange the axes
            if event.obj is self.across:
                up = event.old
            elif event.old != VALUES:
                across = event.old
            else:
                up = VALUES
        drawn = (across,) if up == VALUES else (up, across)
        self._chosen(tuple(self._names.index(name) for name in drawn))


class ColourChoice(_Chooser):
    """Selectors of the colour map and of the limits.

    Parameters
    ----------
    chosen : callable
        Called after a change.

    Attributes
    ----------
    widgets : tuple
        The widgets on the page.
    """

    def __init__(self, chosen: Callable[[], None]) -> None:
        super().__init__()
        self._chosen = chosen
        options = [_AUTOMATIC, *SEQUENTIAL, *DIVERGING]
        self._map = pmui.Select(label="colours", options=options, value=_AUTOMATIC, **_SMALL)
        self._ends = [
            pmui.TextInput(label=label, placeholder=_AUTOMATIC, **{**_SMALL, "width": 110})
            for label in ("from", "to")
        ]
        options = [_ALL_STEPS, _EACH_STEP]
        self._limits = pmui.Select(label="limits", options=options, value=_ALL_STEPS, **_SMALL)
        self.widgets = (self._map, *self._ends, self._limits)
        for widget in self.widgets:
            widget.param.watch(self._changed, "value")

    def offer(self, address: Address) -> None:
        """Show the choices in an address."""
        with self._setting():
            self._map.value = address.colours or _AUTOMATIC
            for widget, limit in zip(self._ends, (address.low, address.high)):
                widget.value = "" if limit is None else f"{limit:g}"
            self._limits.value = _EACH_STEP if address.per_step else _ALL_STEPS

    def store(self, address: Address) -> None:
        """Store the choices in an address."""
        address.colours = "" if self._map.value == _AUTOMATIC else self._map.value
        address.low, address.high = (parse_limit(widget.value) for widget in self._ends)
        address.per_step = self._limits.value == _EACH_STEP

    def show(self, *, is_coloured: bool, has_steps: bool) -> None:
        """Hide the selectors that do not apply to the drawing."""
        for widget in self.widgets:
            widget.visible = is_coloured
        self._limits.visible = is_coloured and has_steps

    def _changed(self, event: Event) -> None:
        if not self._is_setting:
            self._chosen()


class Sliders:
    """A slider with step and play buttons for each axis that is not drawn.

    Parameters
    ----------
    coordinates : Coordinates
        Source of the labels.
    moved : callable
        Called with the number of an axis and its new index.

    Attributes
    ----------
    box : panel.Column
        The widget on the page.
    """

    def __init__(self, coordinates: Coordinates, moved: Callable[[int, int], None]) -> None:
        self._coordinates = coordinates
        self._moved = moved
        self._players: list[pn.io.PeriodicCallback] = []
        self.box = pn.Column(sizing_mode="stretch_width")

    def offer(self, selection: Selection) -> None:
        """Replace the sliders by those of a selection."""
        self.stop()
        self.box[:] = [self._build(i, selection) for i in selection.fixed if selection.axes[i].size > 1]

    def clear(self) -> None:
        """Remove all sliders."""
        self.stop()
        self.box.clear()

    def stop(self) -> None:
        """Stop all running animations."""
        for player in self._players:
            player.stop()
        self._players = []

    def _build(self, number: int, selection: Selection) -> pn.Row:
        axis = selection.axes[number]
        slider = pmui.IntSlider(
            label=self._label(axis, selection.at[number]),
            start=0,
            end=axis.size - 1,
            value=selection.at[number],
            show_value=False,
            sizing_mode="stretch_width",
            max_width=620,
        )

        def moved(event: Event) -> None:
            slider.label = self._label(axis, event.new)
            self._moved(number, event.new)

        def step(by: int) -> None:
            slider.value = (slider.value + by) % axis.size

        slider.param.watch(moved, "value")
        back = pmui.IconButton(icon="chevron_left", size="small", description="previous", margin=(14, 0))
        forth = pmui.IconButton(icon="chevron_right", size="small", description="next", margin=(14, 0))
        play = pmui.Toggle(icon="play_arrow", label="", size="small", margin=(14, 6), width=44)
        back.on_click(lambda event: step(-1))
        forth.on_click(lambda event: step(1))
        player = pn.state.add_periodic_callback(lambda: step(1), period=_PLAY_MILLISECONDS, start=False)
        play.param.watch(lambda event: player.start() if event.new else player.stop(), "value")
        self._players.append(player)
        return pn.Row(back, slider, forth, play, sizing_mode="stretch_width")

    def _label(self, axis: Axis, index: int) -> str:
        try:
            label = self._coordinates.label(axis, index)
        except NCZarrError:
            label = str(index)
        return f"{visible(axis.name[:_LONGEST])}: {visible(label[:_LONGEST])}"

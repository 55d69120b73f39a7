"""Provide the widgets that choose what is drawn: variables, axes, steps and colours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import permutations

import panel as pn
import panel_material_ui as pmui
from param.parameterized import Event

from nczarr.display import visible
from nczarr.errors import NCZarrError
from nczarr.model import Dataset
from nczarr.view.coordinates import Axis, Coordinates
from nczarr.view.page.details import Item, list_tree
from nczarr.view.page.state import OVERLAYS, Address, parse_limit
from nczarr.view.picture.colours import DIVERGING, SEQUENTIAL
from nczarr.view.picture.selection import Selection
from nczarr.view.planes import PROJECTIONS

_AUTOMATIC = "automatic"
_ALL_STEPS, _EACH_STEP = "of all steps", "of each step"
_OF_GRID, _NOTHING = "of the grid", "(nothing)"
_SMALL: dict[str, object] = {"size": "small", "width": 150, "margin": (4, 6)}
#: Milliseconds for each step.
_SPEEDS = {"½×": 1400, "1×": 700, "2×": 350, "5×": 140, "10×": 70}
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
    """A selector of the drawn axes: two for a picture (such as ``depth × time``), one for a line.

    Parameters
    ----------
    chosen : callable
        Called with the numbers of the axes to draw: (x,) or (y, x).

    Attributes
    ----------
    widget : panel_material_ui.Select
        The widget on the page.
    """

    def __init__(self, chosen: Callable[[tuple[int, ...]], None]) -> None:
        super().__init__()
        self.widget = pmui.Select(label="axes: up × across", options=[], **{**_SMALL, "width": 170})
        self.widget.param.watch(lambda event: None if self._is_setting else chosen(event.new), "value")

    def offer(self, selection: Selection) -> None:
        """Show the axes of a selection and its drawn axes; hide the selector if there is only one choice."""
        long = [i for i, axis in enumerate(selection.axes) if axis.size > 1 or i in selection.drawn]
        drawn = [*permutations(long, 2), *((i,) for i in long)]
        names = [" × ".join(visible(selection.axes[i].name[:_LONGEST]) for i in axes) for axes in drawn]
        with self._setting():
            self.widget.param.update(options=dict(zip(names, drawn)), value=selection.drawn or None)
        self.widget.visible = len(long) > 1 and bool(selection.drawn)


class LookChoice(_Chooser):
    """Selectors of the colour map, the limits, the projection, the lines above the picture, and a second variable.

    Parameters
    ----------
    coloured, redrawn : callable
        Called after a change of the colours, and after other changes.

    Attributes
    ----------
    widgets : tuple
        The widgets on the page.
    """

    def __init__(self, coloured: Callable[[], None], redrawn: Callable[[], None]) -> None:
        super().__init__()
        options = [_AUTOMATIC, *SEQUENTIAL, *DIVERGING]
        self._map = pmui.Select(label="colours", options=options, value=_AUTOMATIC, **_SMALL)
        self._ends = [
            pmui.TextInput(label=label, placeholder=_AUTOMATIC, **{**_SMALL, "width": 110})
            for label in ("from", "to")
        ]
        options = [_ALL_STEPS, _EACH_STEP]
        self._limits = pmui.Select(label="limits", options=options, value=_ALL_STEPS, **_SMALL)
        options = [_OF_GRID, *PROJECTIONS]
        self._projection = pmui.Select(label="projection", options=options, value=_OF_GRID, **_SMALL)
        self._lines = pmui.CheckButtonGroup(options=list(OVERLAYS), size="small", margin=(8, 6))
        self._other = pmui.Select(label="compare with", options=[_NOTHING], value=_NOTHING, **_SMALL)
        coloured_by = (self._map, *self._ends, self._limits)
        self.widgets = (*coloured_by, self._projection, self._lines, self._other)
        for widget in self.widgets:
            call = coloured if widget in coloured_by else redrawn
            widget.param.watch(lambda event, call=call: None if self._is_setting else call(), "value")

    def offer(self, address: Address, others: list[str]) -> None:
        """Show the choices in an address; `others` are the variables that compare with its variable."""
        with self._setting():
            self._map.value = address.colours or _AUTOMATIC
            for widget, limit in zip(self._ends, (address.low, address.high)):
                widget.value = "" if limit is None else f"{limit:g}"
            self._limits.value = _EACH_STEP if address.per_step else _ALL_STEPS
            self._projection.value = address.projection or _OF_GRID
            self._lines.value = list(address.overlay)
            other = address.other if address.other in others else _NOTHING
            self._other.param.update(options=[_NOTHING, *others], value=other)

    def store(self, address: Address) -> None:
        """Store the choices in an address."""
        address.colours = "" if self._map.value == _AUTOMATIC else self._map.value
        address.low, address.high = (parse_limit(widget.value) for widget in self._ends)
        address.per_step = self._limits.value == _EACH_STEP
        address.projection = "" if self._projection.value == _OF_GRID else self._projection.value
        address.overlay = tuple(o for o in OVERLAYS if o in self._lines.value)
        address.other = "" if self._other.value == _NOTHING else self._other.value

    def show(self, *, is_picture: bool, is_coloured: bool, is_map: bool, has_steps: bool) -> None:
        """Hide the selectors that do not apply to the drawing."""
        for widget in self.widgets:
            widget.visible = is_coloured
        self._limits.visible = is_coloured and has_steps
        self._projection.visible = is_map
        self._other.visible = is_picture and len(self._other.options) > 1


class Sliders:
    """A slider with step and play buttons for each axis that is not drawn.

    Parameters
    ----------
    coordinates : Coordinates
        Source of the labels.
    moved : callable
        Called with the number of an axis and its new index.
    is_ready : callable
        Returns True if the page shows the newest step; only then an animation goes on.

    Attributes
    ----------
    box : panel.Column
        The widget on the page.
    """

    def __init__(
        self, coordinates: Coordinates, moved: Callable[[int, int], None], is_ready: Callable[[], bool]
    ) -> None:
        self._coordinates = coordinates
        self._is_ready = is_ready
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
        icon: dict[str, object] = {"size": "small", "margin": (14, 0)}
        back = pmui.IconButton(icon="chevron_left", description="previous", **icon)
        forth = pmui.IconButton(icon="chevron_right", description="next", **icon)
        play = pmui.Toggle(icon="play_arrow", label="", size="small", margin=(14, 6), width=44)
        speed = pmui.Select(label="speed", options=_SPEEDS, value=_SPEEDS["1×"], size="small", width=80)
        loop = pmui.Checkbox(label="loop", value=True, size="small", margin=(14, 6))
        back.on_click(lambda event: step(-1))
        forth.on_click(lambda event: step(1))

        def play_on() -> None:
            if not loop.value and slider.value == slider.end:
                play.value = False
            elif self._is_ready():  # each frame is seen before the next one
                step(1)

        player = pn.state.add_periodic_callback(play_on, period=speed.value, start=False)

        def changed(event: Event) -> None:
            player.stop()
            player.period = speed.value
            play.icon = "pause" if play.value else "play_arrow"
            if play.value:
                player.start()

        play.param.watch(changed, "value")
        speed.param.watch(changed, "value")
        self._players.append(player)
        return pn.Row(back, slider, forth, play, speed, loop, sizing_mode="stretch_width")

    def _label(self, axis: Axis, index: int) -> str:
        try:
            label = self._coordinates.label(axis, index)
        except NCZarrError:
            label = str(index)
        return f"{visible(axis.name[:_LONGEST])}: {visible(label[:_LONGEST])}"

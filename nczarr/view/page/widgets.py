"""Provide the widgets that choose what is drawn: variables, axes, steps and colours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import permutations

import panel as pn
import panel_material_ui as pmui
from param.parameterized import Event

from nczarr.display import visible
from nczarr.errors import NCZarrError
from nczarr.model import Dataset
from nczarr.view.coordinates import Axis, Coordinates
from nczarr.view.page.details import Item, list_tree
from nczarr.view.page.state import OVERLAYS, Address, limit_text, parse_limit
from nczarr.view.picture.colours import MAPS
from nczarr.view.picture.drawings import Drawing, Picture
from nczarr.view.picture.selection import Hyperslab
from nczarr.view.planes import PROJECTIONS

_AUTOMATIC = "automatic"
_SMALL: dict[str, object] = {"size": "small", "width": 150, "margin": (4, 6)}
_BUTTONS = ["slower", "previous", "pause", "play", "next", "faster"]
_LONGEST = 80


class VariableTree:
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
        self._dataset = dataset
        self._chosen = chosen
        self.selected = ""
        about = {"label": "Search", "placeholder": "name, long name, units …", "size": "small"}
        search = pmui.TextInput(**about, sizing_mode="stretch_width")
        search.param.watch(lambda event: self.offer(event.new), "value_input")
        self._tree = pmui.Tree(items=[], multi_select=False, sizing_mode="stretch_width")
        self._tree.param.watch(self._changed, "value")
        self._left_out = pn.pane.HTML("", sizing_mode="stretch_width")
        self.widgets = [search, self._tree, self._left_out]

    def renew(self, dataset: Dataset) -> None:
        """List the variables of the dataset as it is now."""
        self._dataset = dataset
        self.offer("")

    def offer(self, search: str) -> None:
        """List the variables that match a search."""
        items, left_out = list_tree(self._dataset, search)
        paths = list(_paths(items))
        self._tree.items = items
        self._tree.expanded = [path for path, item in paths if item.get("items")]  # new items are collapsed
        self._tree.active = [path for path, item in paths if item["id"] == self.selected]
        more = f"… {left_out:,} more variables; use the search" if left_out else ""
        self._left_out.object = more or ("" if items else "no matches")

    def _changed(self, event: Event) -> None:
        at = event.new[0].get("id", "") if event.new else ""
        # The tree reports groups, too, and its own changes.
        if at != self.selected and at in self._dataset.all_variables:
            self._chosen(at)


def _paths(items: list[Item], before: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Item]]:
    """Yield all items with their paths in the tree."""
    for number, item in enumerate(items):
        yield (*before, number), item
        yield from _paths(item.get("items", []), (*before, number))


class Choices:
    """Selectors of the axes, colours, limits, projection, lines above the picture, and a second variable.

    Parameters
    ----------
    chosen : callable
        Called with the name of a widget and its value. A value that the program sets is that of the address.

    Attributes
    ----------
    widgets : dict
        The widgets on the page, by name.
    """

    #: The widgets that change the colours only.
    OF_COLOURS = ("colours", "low", "high", "reach", "progression")

    def __init__(self, chosen: Callable[[str, object], None]) -> None:
        def select(label: str, **options: object) -> pmui.Select:
            return pmui.Select(label=label, options=options, **_SMALL)

        names = {name: name for name in MAPS}
        limit = {**_SMALL, "placeholder": _AUTOMATIC, "width": 110}
        self.widgets = {
            "drawn": select("axes: up × across"),
            "colours": select("colours", **{_AUTOMATIC: ""}, **names),
            "low": pmui.TextInput(label="from", **limit),
            "high": pmui.TextInput(label="to", **limit),
            "limits": select(
                "limits", **{"of all steps": "", "of each level": "level", "of each step": "step"}
            ),
            "reach": select("values", **{_AUTOMATIC: "", "all": "whole", "2nd to 98th percentile": "robust"}),
            "progression": select("scale", **{_AUTOMATIC: "", "linear": "linear", "logarithmic": "log"}),
            "projection": select("projection", **{"of the grid": ""}, **{name: name for name in PROJECTIONS}),
            "overlay": pmui.CheckButtonGroup(options=list(OVERLAYS), size="small", margin=(8, 6)),
            "other": select("compare with"),
        }

        def changed(name: str, event: Event) -> None:
            chosen(name, parse_limit(event.new) if name in ("low", "high") else event.new)

        for name, widget in self.widgets.items():
            widget.param.watch(partial(changed, name), "value")

    def offer(self, address: Address, others: list[str]) -> None:
        """Show the choices in an address; `others` are the variables that compare with its variable."""
        for name in ("colours", "limits", "projection", "overlay", "reach", "progression"):
            self.widgets[name].value = getattr(address, name)
        for name, limit in (("low", address.low), ("high", address.high)):
            self.widgets[name].value = limit_text(limit)
        options = {"(nothing)": "", **{other: other for other in others}}
        self.widgets["other"].param.update(options=options, value=address.other)

    def offer_axes(self, selection: Hyperslab) -> None:
        """Show the axes of a selection: two for a picture (such as ``depth × time``), one for a line."""
        long = [i for i, axis in enumerate(selection.axes) if axis.size > 1 or i in selection.drawn]
        drawn = [*permutations(long, 2), *((i,) for i in long)]
        names = [" × ".join(visible(selection.axes[i].name[:_LONGEST]) for i in axes) for axes in drawn]
        widget = self.widgets["drawn"]
        widget.param.update(options=dict(zip(names, drawn)), value=selection.drawn or None)
        widget.visible = len(long) > 1 and bool(selection.drawn)

    def show(self, drawing: Drawing, *, is_coloured: bool, has_steps: bool) -> None:
        """Hide the selectors that do not apply to the drawing."""
        is_picture = isinstance(drawing, Picture)
        shown = dict.fromkeys(self.widgets, is_picture and is_coloured)
        shown |= {"limits": shown["limits"] and has_steps, "drawn": self.widgets["drawn"].visible}
        shown["projection"] = isinstance(drawing, Picture) and drawing.is_map
        shown["other"] = is_picture and len(self.widgets["other"].options) > 1
        for name, widget in self.widgets.items():
            widget.visible = shown[name]


class Sliders:
    """A slider with buttons that play it, for each axis that is not drawn.

    Parameters
    ----------
    coordinates : Coordinates
        Source of the labels.
    moved : callable
        Called with the number of an axis and its new index.

    Attributes
    ----------
    box : panel.Column
        The widgets on the page.
    """

    def __init__(self, coordinates: Coordinates, moved: Callable[[int, int], None]) -> None:
        self._coordinates = coordinates
        self._moved = moved
        self.box = pn.Column(sizing_mode="stretch_width")

    def renew(self, coordinates: Coordinates) -> None:
        """Take the labels from coordinates as they are now."""
        self._coordinates = coordinates

    def offer(self, selection: Hyperslab) -> None:
        """Replace the sliders by those of a selection; a table has none."""
        fixed = [i for i in selection.fixed if selection.axes[i].size > 1 and selection.drawn]
        self.box[:] = [self._build(i, selection) for i in fixed]

    def _build(self, number: int, selection: Hyperslab) -> pmui.Player:
        axis, at = selection.axes[number], selection.at[number]
        loops = {"loop_policy": "loop", "visible_loop_options": ["once", "loop"]}
        ends = {"start": 0, "end": axis.size - 1, "value": at, "width": 330}
        player = pmui.Player(label=self._label(axis, at), visible_buttons=_BUTTONS, **loops, **ends)

        def moved(event: Event) -> None:
            player.label = self._label(axis, event.new)
            self._moved(number, event.new)

        player.param.watch(moved, "value")
        return player

    def _label(self, axis: Axis, index: int) -> str:
        # A damaged chunk of a coordinate is no reason for an empty page.
        try:
            label = self._coordinates.label(axis, index)
        except NCZarrError:
            label = str(index)
        return f"{visible(axis.name[:_LONGEST])}: {visible(label[:_LONGEST])}"

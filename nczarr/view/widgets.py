"""Provide the widgets that choose what is drawn: selectors of the drawn axes, and sliders for the other axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import panel as pn
import panel_material_ui as pmui

from nczarr.display import visible
from nczarr.errors import NCZarrError
from nczarr.view.coordinates import Axis, Coordinates
from nczarr.view.selection import Selection

#: Option for the vertical axis: it shows the values, so that the drawing is a line.
VALUES = "(values)"


class AxisChoice:
    """Two selectors of dimensions.

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
        self._chosen = chosen
        self._names: list[str] = []
        self._is_setting = False
        style: dict[str, Any] = {"size": "small", "width": 150, "margin": (4, 6), "options": []}
        self.up = pmui.Select(label="up", **style)
        self.across = pmui.Select(label="across", **style)
        for widget in (self.up, self.across):
            widget.param.watch(self._changed, "value")

    def offer(self, selection: Selection) -> None:
        """Show the axes of a selection and its drawn axes; hide the selectors if there is only one choice."""
        self._names = [axis.name for axis in selection.axes]
        names = [axis.name for i, axis in enumerate(selection.axes) if axis.size > 1 or i in selection.drawn]
        drawn = [self._names[i] for i in selection.drawn]
        self._is_setting = True
        try:
            self.across.param.update(options=names, value=drawn[-1] if drawn else None)
            self.up.param.update(options=[VALUES, *names], value=drawn[0] if len(drawn) == 2 else VALUES)
        finally:
            self._is_setting = False
        self.up.visible = self.across.visible = len(names) > 1 and bool(drawn)

    def _changed(self, event: Any) -> None:
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
        numbers = {name: i for i, name in enumerate(self._names)}
        self._chosen((numbers[across],) if up == VALUES else (numbers[up], numbers[across]))


_PLAY_MILLISECONDS = 700
_LONGEST = 80


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
        self._players: list[Any] = []
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

    def _build(self, number: int, selection: Selection) -> Any:
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

        def moved(event: Any) -> None:
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

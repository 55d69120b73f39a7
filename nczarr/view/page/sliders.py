"""Provide sliders that choose an index on each axis that is not drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import panel as pn
import panel_material_ui as pmui

from nczarr.display import visible
from nczarr.errors import NCZarrError
from nczarr.view.data.coordinates import Axis, Coordinates
from nczarr.view.picture.selection import Selection

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

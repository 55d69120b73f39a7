"""Provide selectors for the drawn axes: one for a line, two for an image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import panel_material_ui as pmui

from nczarr.view.picture.selection import Selection

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

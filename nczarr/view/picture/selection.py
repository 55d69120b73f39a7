"""Choose what of a variable is drawn: one or two axes, and one index on each of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nczarr.convert.change import find_indices, parse_range
from nczarr.errors import NCZarrError
from nczarr.model import EnumType, PrimitiveType, Variable
from nczarr.view.data.coordinates import Axis, Coordinates, Geography, find_geography
from nczarr.view.data.opened import OpenedDataset


class SelectionProblem(NCZarrError):
    """A selection of what to draw does not fit the variable."""


def is_drawable(variable: Variable) -> bool:
    """True if a variable has numbers or categories; text and compounds are shown as a table."""
    if isinstance(variable.type, EnumType):
        return True
    return isinstance(variable.type, PrimitiveType) and variable.type.dtype.kind in "iuf"


@dataclass(frozen=True)
class Selection:
    """What is drawn of a variable.

    Parameters
    ----------
    fqn : str
    axes : tuple of Axis
        All axes of the variable.
    drawn : tuple of int
        Numbers of the axes that are drawn: (), (x,) or (y, x).
    at : tuple of int
        An index for each axis; those of drawn axes do not count.
    geography : Geography or None
        Set if the drawn axes make a map.
    """

    fqn: str
    axes: tuple[Axis, ...]
    drawn: tuple[int, ...]
    at: tuple[int, ...]
    geography: Geography | None = None

    @property
    def fixed(self) -> tuple[int, ...]:
        """Numbers of the axes that are not drawn."""
        return tuple(i for i in range(len(self.axes)) if i not in self.drawn)

    def moved(self, axis: int, index: int) -> Selection:
        """The same with another index on an axis."""
        at = list(self.at)
        at[axis] = min(max(index, 0), max(self.axes[axis].size - 1, 0))
        return replace(self, at=tuple(at))

    def index(self, parts: Sequence[slice]) -> tuple[int | slice, ...]:
        """The index for reading, with slices for the drawn axes, in their order in `drawn`."""
        result: list[int | slice] = list(self.at)
        for axis, part in zip(self.drawn, parts, strict=True):
            result[axis] = part
        return tuple(result)


def first_selection(opened: OpenedDataset, coordinates: Coordinates, fqn: str) -> Selection:
    """What is shown of a variable at first: a map if it is one, else its last two axes, else a line."""
    axes = coordinates.axes(fqn)
    at = (0,) * len(axes)
    if not is_drawable(opened.variable(fqn)):
        return Selection(fqn, axes, (), at)
    geography = find_geography(opened, coordinates, fqn)
    if geography is not None and all(axes[i].size > 1 for i in geography.axes):
        return Selection(fqn, axes, geography.axes, at, geography)
    long = [i for i, axis in enumerate(axes) if axis.size > 1]
    drawn = tuple(long[-2:]) if long else tuple(range(len(axes)))[-1:]
    return with_drawn(opened, coordinates, Selection(fqn, axes, drawn, at), drawn)


def with_drawn(
    opened: OpenedDataset, coordinates: Coordinates, selection: Selection, drawn: tuple[int, ...]
) -> Selection:
    """The same with other axes drawn; a map if they make one."""
    geography = find_geography(opened, coordinates, selection.fqn)
    if geography is not None and set(geography.axes) == set(drawn) and len(geography.axes) == len(drawn):
        return replace(selection, drawn=geography.axes, geography=geography)
    if len(drawn) == 2:
        y, x = (selection.axes[i] for i in drawn)
        # Time runs to the right, depth goes down: where both are to choose, the eye expects this.
        if y.role == "time" and x.role == "vertical":
            drawn = drawn[::-1]
    return replace(selection, drawn=drawn, geography=None)


def select(opened: OpenedDataset, coordinates: Coordinates, fqn: str, wanted: Mapping[str, str]) -> Selection:
    """What is shown with indices or dates for dimensions by name, as on the command line.

    Parameters
    ----------
    wanted : mapping of str to str
        An index (negative: from the end), a value with a point, a date such as ``2020-03`` or a name, as
        :func:`nczarr.convert.change.parse_range` reads them. A dimension that would be drawn is not drawn then.

    Raises
    ------
    SelectionProblem
        If there is no such dimension.
    UnsupportedError
        If nothing is there; the message says what is nearest.
    """
    selection = first_selection(opened, coordinates, fqn)
    names = {axis.name: i for i, axis in enumerate(selection.axes)}
    for name, text in wanted.items():
        if name not in names:
            raise SelectionProblem(
                f"there is no dimension {name!r}", fqn=fqn, hint=f"it has {', '.join(names) or 'none'}"
            )
        axis = selection.axes[names[name]]
        selection = selection.moved(names[name], _index(opened, coordinates, axis, text, fqn))
    drawn = tuple(i for i in selection.drawn if selection.axes[i].name not in wanted)
    if drawn != selection.drawn:
        rest = [i for i, a in enumerate(selection.axes) if a.name not in wanted and a.size > 1]
        drawn = tuple(rest[-2:]) or drawn
        selection = with_drawn(opened, coordinates, selection, drawn)
    return selection


def _index(opened: OpenedDataset, coordinates: Coordinates, axis: Axis, text: str, fqn: str) -> int:
    """The index that a text means on an axis, as for a copy; of several in a period that in its middle."""
    texts = coordinates.texts(axis)
    if texts is not None and text in texts:
        return texts.index(text)
    coordinate = None if axis.coordinate is None else opened.variable(axis.coordinate)
    wanted = parse_range(text, f"{axis.name}={text}")
    if isinstance(wanted, slice):
        raise SelectionProblem(
            f"{axis.name}={text} is a range, and one step is drawn",
            fqn=fqn,
            hint="give an index, a value or a date",
        )
    found = find_indices(axis.name, axis.size, coordinate, wanted)
    return found[len(found) // 2]


def dated(axis: Axis, numbers: np.ndarray) -> np.ndarray | None:
    """Milliseconds since 1970 of an axis of time, if its calendar is that of the wall."""
    return None if axis.times is None else axis.times.milliseconds(numbers)

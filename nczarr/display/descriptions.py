"""Describe datasets as plain values for drawing.

Each class builds its own description, so that drawing depends on no other package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True)
class DimensionDescription:
    """A dimension, or an axis of an array; `name` is None for an unnamed axis, `size` is None if unknown.

    Examples
    --------
    >>> DimensionDescription("time", 12, unlimited=True).name
    'time'
    """

    name: str | None
    size: int | None
    unlimited: bool = False


@dataclass(frozen=True)
class AttributeDescription:
    """An attribute; `type` is empty where the value implies it. The value is text, numbers, an array or JSON.

    Examples
    --------
    >>> AttributeDescription("units", "K").value
    'K'
    """

    name: str
    value: object
    type: str = ""


@dataclass(frozen=True)
class TypeDescription:
    """A user-defined type: its kind, and one line of text for each member or field.

    Examples
    --------
    >>> TypeDescription("cloud", "enum", ("clear = 0", "stratus = 1")).lines[1]
    'stratus = 1'
    """

    name: str
    kind: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class ArrayDescription:
    """An array or a variable, without its values.

    Parameters
    ----------
    name : str
    type : str
    axes : tuple of DimensionDescription
    kind : str
        Heading: ``Variable`` or ``Array``.
    attributes : sequence of AttributeDescription
    chunks, shards : tuple of int, optional
        Shape of a chunk, and of the shards that contain the chunks.
    codecs : tuple of str
        Codecs that encode the stored bytes, in order.
    size : int, optional
        Bytes in memory.
    stored : int, optional
        Bytes in the store.
    facts : tuple of (str, str)
        Names and texts of other facts.

    Examples
    --------
    >>> ArrayDescription("temp", "float", (DimensionDescription("time", 12),)).axes[0].size
    12
    """

    name: str
    type: str
    axes: tuple[DimensionDescription, ...] = ()
    kind: str = "Variable"
    attributes: Sequence[AttributeDescription] = ()
    chunks: tuple[int, ...] | None = None
    shards: tuple[int, ...] | None = None
    codecs: tuple[str, ...] = ()
    size: int | None = None
    stored: int | None = None
    facts: tuple[tuple[str, str], ...] = ()

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Return the sizes of the axes if all are known."""
        sizes = tuple(axis.size for axis in self.axes if axis.size is not None)
        return sizes if len(sizes) == len(self.axes) else None


@dataclass(frozen=True)
class GroupDescription:
    """A group with its members; a sequence may be an :class:`Each`, which describes an item on access.

    Examples
    --------
    >>> GroupDescription("ocean", arrays=(ArrayDescription("temp", "float"),)).arrays[0].name
    'temp'
    """

    name: str
    kind: str = "Group"
    dimensions: Sequence[DimensionDescription] = ()
    types: Sequence[TypeDescription] = ()
    arrays: Sequence[ArrayDescription] = ()
    attributes: Sequence[AttributeDescription] = ()
    groups: Sequence[GroupDescription] = ()
    facts: tuple[tuple[str, str], ...] = ()
    arrays_title: str = "Variables"


class Each(Sequence[T], Generic[S, T]):
    """Describe the items of a sequence on access, so that only the visible part of a huge group costs time.

    Examples
    --------
    >>> described = Each([1, 2, 3], str)
    >>> len(described), described[1]
    (3, '2')
    """

    def __init__(self, items: Sequence[S], describe: Callable[[S], T]) -> None:
        self._items = items
        self._describe = describe

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int | slice) -> T | Each[S, T]:  # type: ignore[override]
        if isinstance(index, slice):
            return Each(self._items[index], self._describe)
        return self._describe(self._items[index])

    def __iter__(self) -> Iterator[T]:
        return map(self._describe, self._items)

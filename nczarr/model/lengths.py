"""Keep the lengths of a stored dataset's unlimited dimensions, from which its model and its arrays take them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import final

from nczarr.model.nodes import Dataset, with_lengths
from nczarr.system.locks import TABLES


@final
class Length:
    """The two lengths of an unlimited dimension.

    Attributes
    ----------
    stored : int
        The length that documents, or the header of a file, state.
    accepted : int
        The length up to which values may be written, before a document claims them; never less than `stored`.
    """

    __slots__ = ("accepted", "stored")

    def __init__(self, stored: int) -> None:
        self.stored = self.accepted = stored


#: A length for each axis of a variable: a number where the dimension cannot grow.
Extents = tuple[Length | int, ...]


def shape_of(extents: Extents) -> tuple[int, ...]:
    """Return the accepted shape.

    Examples
    --------
    >>> shape_of((Length(4), 2))
    (4, 2)
    """
    # Not `isinstance`, which takes twice as long: each read and write asks for the shape.
    return tuple([e.accepted if type(e) is Length else e for e in extents])


def accept(extents: Extents, shape: Sequence[int]) -> None:
    """Accept values in a larger shape. Other variables of the dimensions become longer, too.

    Examples
    --------
    >>> time = Length(4)
    >>> accept((time, 2), (6, 2))
    >>> time.stored, time.accepted
    (4, 6)
    """
    with TABLES:  # of two threads that extend a dimension, the longer one counts
        for extent, size in zip(extents, shape, strict=True):
            if isinstance(extent, Length):
                extent.accepted = max(extent.accepted, size)


class StoredModel:
    """The model of a stored dataset, and the lengths of its unlimited dimensions.

    A new model for each append would cost time in proportion to its size: the property :attr:`dataset` makes it at
    its next use.

    Examples
    --------
    >>> from nczarr.model import INT, Dataset, Dimension, Variable
    >>> v = Variable("v", INT, ("/t",))
    >>> stored = StoredModel(Dataset("d", dimensions=(Dimension("t", 4, True),), variables=(v,)))
    >>> stored.along(["/t"]), stored.length("/t")
    (['/v'], 4)
    >>> stored.note({"/t": 6})
    >>> stored.dataset.dimension_at("/t").size
    6
    """

    def __init__(self, dataset: Dataset) -> None:
        self._lengths: dict[str, Length] = {}
        self.replace(dataset)

    def replace(self, dataset: Dataset) -> None:
        """Take another model, which is stored now. The length of a dimension that stays is the same object."""
        known = self._lengths
        self._lengths = {}
        for fqn, dimension in dataset.all_dimensions.items():
            if dimension.unlimited:
                length = self._lengths[fqn] = known.get(fqn) or Length(dimension.size)
                length.stored = length.accepted = dimension.size
        self._dataset, self._is_behind = dataset, False
        self._along: dict[str, list[str]] | None = None

    @property
    def dataset(self) -> Dataset:
        """The model, with the stored lengths."""
        if self._is_behind:
            with TABLES:
                if self._is_behind:
                    self._dataset = with_lengths(
                        self._dataset, {fqn: length.stored for fqn, length in self._lengths.items()}
                    )
                    self._is_behind = False
        return self._dataset

    def length(self, fqn: str) -> int:
        """Return the stored length of an unlimited dimension."""
        return self._lengths[fqn].stored

    def extents(self, fqn: str) -> Extents:
        """Return the lengths of a variable's dimensions."""
        known, sizes = self._lengths, self._dataset.all_dimensions
        return tuple(
            [
                reference if isinstance(reference, int) else known.get(reference) or sizes[reference].size
                for reference in self._dataset.all_variables[fqn].dimensions
            ]
        )

    def accept(self, sizes: Mapping[str, int]) -> None:
        """Accept values up to lengths, by FQN."""
        for fqn, size in sizes.items():
            accept((self._lengths[fqn],), (size,))

    def note(self, sizes: Mapping[str, int]) -> None:
        """Note lengths, by FQN, as stored."""
        with TABLES:
            for fqn, size in sizes.items():
                length = self._lengths[fqn]
                length.stored, length.accepted = size, max(length.accepted, size)
            self._is_behind = self._is_behind or bool(sizes)

    def along(self, dimensions: Iterable[str]) -> list[str]:
        """Return the FQNs of the variables with one of some unlimited dimensions."""
        if self._along is None:
            self._along = {fqn: [] for fqn in self._lengths}
            for at, variable in self._dataset.all_variables.items():
                for reference in dict.fromkeys(variable.dimensions):
                    if reference in self._along:
                        self._along[str(reference)].append(at)
        return list(dict.fromkeys(at for fqn in dimensions for at in self._along[fqn]))

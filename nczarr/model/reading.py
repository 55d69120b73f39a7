"""Read values of a variable by an index, for as long as its dataset is open, and summarise a dataset as text."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from nczarr.errors import EditError, ModelError, SelectionError, UnsupportedError
from nczarr.indices import one_for_each_axis
from nczarr.text import visible

if TYPE_CHECKING:
    import numpy as np

#: The hidden member of the dataset and variables of :func:`nczarr.open` that keeps their source open.
LIFETIME = "_lifetime"
#: The FQN of a node of an open dataset, by which pickle finds it again.
PLACE = "_place"
#: Values and characters of an attribute in a summary.
_MOST_VALUES, _MOST_SHOWN = 8, 60
_INDICES = "an index has integers, slices and ...; nczarr.Dataset also takes arrays"


class Lifetime:
    """The open source of a dataset. It closes once: by the dataset, or when nothing refers to it any more.

    Parameters
    ----------
    close : callable
        Closes the source.
    path : str
        The source, for messages.
    again : (callable, tuple), optional
        How to open the source once more, in another process; None if it is an object of this one.
    """

    def __init__(
        self,
        close: Callable[[], object],
        path: str,
        again: tuple[Callable[..., object], tuple[object, ...]] | None = None,
    ) -> None:
        self._close: Callable[[], object] | None = close
        self.path = path
        self._again = again

    def reduced(self, fqn: str) -> tuple[Callable[..., object], tuple[object, ...]]:
        """Return what pickle stores of the dataset, or of one node: how to open it again."""
        if self._again is None:
            raise UnsupportedError(
                "the dataset is in an object of this process, and cannot be pickled",
                path=self.path,
                hint="open it from a path or URL",
            )
        return self._again if fqn == "/" else (_opened_node, (*self._again, fqn))

    @property
    def is_open(self) -> bool:
        return self._close is not None

    def close(self) -> None:
        """Close the source, once."""
        close, self._close = self._close, None
        if close is not None:
            close()


def _opened_node(again: Callable[..., Any], arguments: tuple[object, ...], fqn: str) -> Any:
    """Return a variable or a group of a dataset that is opened again."""
    dataset = again(*arguments)
    return dataset.all_groups.get(fqn) or dataset.variable_at(fqn)


def read_values(variable: Any, index: object) -> np.ndarray | Any:
    """Return the values of a variable at an index; see :meth:`nczarr.model.Variable.__getitem__`."""
    lifetime = variable.__dict__.get(LIFETIME)
    if lifetime is not None and not lifetime.is_open:
        raise EditError(
            f"the dataset of the variable {variable.name!r} is closed",
            path=lifetime.path,
            hint="read inside of the with block, or open the dataset again",
        )
    if variable.data is None:
        raise ModelError("the variable has no values", fqn=variable.name, hint="with_data(array) adds them")
    region, axes = _region(index, variable.data.shape, variable.name)
    return variable.data.read(region)[axes]


def _region(
    index: object, shape: tuple[int, ...], where: str
) -> tuple[tuple[slice, ...], tuple[int | slice, ...]]:
    """Return the region to read, with positive steps, and the index of the result in it."""
    parts = one_for_each_axis(index if isinstance(index, tuple) else [index], len(shape), where)
    region: list[slice] = []
    axes: list[int | slice] = []
    for part, size in zip(parts, shape, strict=True):
        if isinstance(part, slice):
            places = _places(part, size, where)
            forward = places if places.step > 0 else places[::-1]
            stop = forward[-1] + 1 if forward else 0
            region.append(slice(forward[0] if forward else 0, stop, forward.step))
            axes.append(slice(None, None, 1 if places.step > 0 else -1))
            continue
        place = _place(part, size, where)
        region.append(slice(place, place + 1, 1))
        axes.append(0)
    return tuple(region), tuple(axes)


def _places(part: slice, size: int, where: str) -> range:
    try:
        return range(size)[part]
    except (TypeError, ValueError) as error:
        raise SelectionError(f"{visible(str(part))} is no slice: {error}", fqn=where, hint=_INDICES) from None


def _place(part: object, size: int, where: str) -> int:
    try:
        # Python counts True as 1, and numpy as a mask.
        if isinstance(part, bool):
            raise TypeError
        place = operator.index(part)  # type: ignore[arg-type]
    except TypeError:
        raise SelectionError(f"{visible(repr(part))} is no index", fqn=where, hint=_INDICES) from None
    if not -size <= place < size:
        raise SelectionError(f"the index {place} is outside of the length {size}", fqn=where)
    return place % size


def summary_lines(group: Any, indent: str = "") -> Iterator[str]:
    """Yield the lines of a summary in the manner of CDL: dimensions, variables, global attributes, groups.

    Examples
    --------
    >>> from nczarr.model import Dataset, Dimension
    >>> print("\\n".join(summary_lines(Dataset("d", dimensions=(Dimension("x", 2),)))))
    d {
      dimensions: x = 2
    }
    """
    yield f"{indent}{visible(group.name)} {{"
    if group.types:
        yield f"{indent}  types: {', '.join(visible(t.name) for t in group.types)}"
    if group.dimensions:
        sizes = [
            f"{visible(d.name)} = {f'unlimited ({d.size})' if d.unlimited else d.size}"
            for d in group.dimensions
        ]
        yield f"{indent}  dimensions: {', '.join(sizes)}"
    for variable in group.variables:
        references = ", ".join(visible(str(d)).rpartition("/")[2] for d in variable.dimensions)
        texts = [visible(f"{a.name} = {_value(a)}") for a in variable.attributes]
        note = f"  // {', '.join(texts)}" if texts else ""
        yield f"{indent}  {variable.type.name} {visible(variable.name)}({references}){note}"
    for attribute in group.attributes:
        yield visible(f"{indent}  :{attribute.name} = {_value(attribute)}")
    for child in group.groups:
        yield from summary_lines(child, indent + "  ")
    yield f"{indent}}}"


def _value(attribute: Any) -> str:
    """Return the beginning of the value of an attribute."""
    is_text = attribute.values.dtype.kind == "S"
    text = repr(attribute.text) if is_text else ", ".join(map(str, attribute.values[:_MOST_VALUES]))
    is_whole = len(text) <= _MOST_SHOWN and (is_text or len(attribute.values) <= _MOST_VALUES)
    return text if is_whole else f"{text[:_MOST_SHOWN]}…"

"""Reading and writing arrays whose extensions take part in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nczarr.errors import ExtensionError
from nczarr.zarr.extensions import active_extensions
from nczarr.zarr.selection import Selection, normalize

if TYPE_CHECKING:
    from nczarr.zarr.array import Array

__all__ = ["outer_shape", "read_extended", "write_extended"]


def outer_shape(array: Array) -> tuple[int, ...]:
    """Return the shape that users see."""
    shape = array.metadata.shape
    for extension, entry in active_extensions(array.metadata.extensions):
        shape = tuple(extension.on_shape(array, shape, entry))
    return shape


def _items(chosen: Selection) -> tuple[Any, ...]:
    """The selection as hooks get it: ascending slices, integers, arrays of indices."""
    items: list[Any] = []
    for axis in chosen.axes:
        if axis.drop:
            items.append(axis.start)
        elif axis.indices is not None:
            items.append(axis.indices)
        else:
            stop = axis.start + (axis.count - 1) * axis.step + 1 if axis.count else axis.start
            items.append(slice(axis.start, stop, axis.step))
    return tuple(items)


def _ascending(chosen: Selection, values: np.ndarray) -> np.ndarray:
    flips = [slice(None, None, -1 if axis.flip else None) for axis in chosen.axes if not axis.drop]
    return values[tuple(flips)] if flips else values


def read_extended(array: Array, chosen: Selection, out: np.ndarray) -> None:
    """Read through the hooks: the selection passes from the last extension to the first, values return."""
    hooks = active_extensions(array.metadata.extensions)
    items = _items(chosen)
    for extension, entry in reversed(hooks):
        items = extension.on_read(array, items, entry)
    inner = normalize(items, array.metadata.shape)
    values = np.empty(inner.shape, array.dtype)
    array.read_stored(inner, values)
    for extension, entry in hooks:
        values = extension.on_values(array, values, entry)
    if values.shape != chosen.shape:
        raise ExtensionError(
            f"the extensions gave values of shape {values.shape}, {chosen.shape} is needed",
            path=array.store.url,
            fqn="/" + array.path,
        )
    _ascending(chosen, out)[...] = values


def write_extended(array: Array, chosen: Selection, source: np.ndarray) -> None:
    """Write through the hooks, from the last extension to the first."""
    items = _items(chosen)
    values: Any = _ascending(chosen, source)
    for extension, entry in reversed(active_extensions(array.metadata.extensions)):
        items, values = extension.on_write(array, items, values, entry)
    inner = normalize(items, array.metadata.shape)
    array.write_stored(inner, np.broadcast_to(np.asarray(values, array.dtype), inner.shape))

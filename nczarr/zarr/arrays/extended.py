"""Apply the hooks of extensions to reads and writes of an array."""

from __future__ import annotations

from typing import Any

import numpy as np

from nczarr.errors import SelectionError, UnsupportedError, error_context
from nczarr.zarr.arrays.array import Array
from nczarr.zarr.chunks.selection import Selection, normalize
from nczarr.zarr.documents.extensions import Extension, active_extensions
from nczarr.zarr.metadata import NamedConfig

_HOOKS = ("on_shape", "on_read", "on_values", "on_write")


def extend(array: Array) -> Array:
    """Return a view of an array that applies its extensions; the same array if none has hooks for data."""
    for extension, entry in active_extensions(array.metadata.extensions):
        if any(getattr(type(extension), hook) is not getattr(Extension, hook) for hook in _HOOKS):
            array = ExtendedArray(array, extension, entry)
    return array


class ExtendedArray(Array):
    """A view of an array that applies an extension; see :class:`nczarr.zarr.documents.extensions.Extension`.

    `chunk_shape` and `grid_shape` describe the chunks of the stored array.
    """

    def __init__(self, below: Array, extension: Extension, entry: NamedConfig) -> None:
        super().__init__(below.store, below.prefix, below.metadata, path=below.path)
        self.below = below
        self._extension = extension
        self._entry = entry

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each dimension, from the extension."""
        return self._extension.on_shape(self.below, self.below.shape, self._entry)

    @property
    def grid_shape(self) -> tuple[int, ...]:
        """The number of stored chunks along each dimension."""
        return self.below.grid_shape

    def chunk_region(self, index: tuple[int, ...]) -> tuple[slice, ...]:
        """Return the region of a chunk in the stored array."""
        return self.below.chunk_region(index)

    def read(self, selection: Any = ..., out: np.ndarray | None = None) -> np.ndarray:
        """Read a selection of the extended array; see :meth:`Array.read`."""
        chosen = normalize(selection, self.shape)
        if out is not None and (out.shape != chosen.shape or out.dtype != self.dtype):
            raise SelectionError(
                f"out has shape {out.shape} and dtype {out.dtype}, expected {chosen.shape} and {self.dtype}",
                fqn="/" + self.path,
            )
        if 0 in chosen.shape:
            return np.empty(chosen.shape, self.dtype) if out is None else out
        stored = self._hook("on_read", self.below, _plain(chosen))
        values = self._hook("on_values", self.below, _flip(chosen, self.below.read(stored)))
        if out is None:
            return np.asarray(values)
        out[...] = values
        return out

    def write(self, selection: Any, values: Any) -> None:
        """Write a selection of the extended array; see :meth:`Array.write`."""
        chosen = normalize(selection, self.shape)
        try:
            source = np.broadcast_to(self._convert(values), chosen.shape)
        except ValueError:
            raise SelectionError(
                f"the values do not fit the shape {chosen.shape}", fqn="/" + self.path
            ) from None
        if 0 not in chosen.shape:
            stored, source = self._hook("on_write", self.below, _plain(chosen), _flip(chosen, source))
            self.below.write(stored, source)

    def resize(self, shape: tuple[int, ...]) -> None:
        """Raise UnsupportedError: extensions have no hook for a new shape."""
        raise UnsupportedError(
            f"an array with the extension {self._entry.name!r} cannot be resized", fqn="/" + self.path
        )

    def _hook(self, name: str, *arguments: Any) -> Any:
        with error_context(fqn="/" + self.path):
            return getattr(self._extension, name)(*arguments, self._entry)


def _plain(chosen: Selection) -> tuple[Any, ...]:
    result: list[Any] = []
    for axis in chosen.axes:
        if axis.drop:
            result.append(axis.start)
        elif axis.indices is not None:
            result.append(axis.indices)
        else:
            result.append(slice(axis.start, axis.start + (axis.count - 1) * axis.step + 1, axis.step))
    return tuple(result)


def _flip(chosen: Selection, values: np.ndarray) -> np.ndarray:
    flips = tuple(slice(None, None, -1 if axis.flip else 1) for axis in chosen.axes if not axis.drop)
    return values[flips] if any(axis.flip for axis in chosen.axes) else values

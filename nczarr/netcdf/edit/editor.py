"""Share the model, the publication and the selections among the editors of all formats, and match models.

The data of a variable identify it across renames, or else its name does. The groups and dimensions of matched
variables match in turn. Objects without variables match by name, and otherwise by equal definitions.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import TypeVar

import numpy as np

from nczarr import model
from nczarr.errors import ModelError, NetCDFFileError
from nczarr.model.lengths import Extents, StoredModel, accept, shape_of
from nczarr.model.parts import Restrictions, known_variables
from nczarr.model.sources import OrthogonalIndex, handed
from nczarr.netcdf.bytes.file import ByteFile, DiskFile, file_errors
from nczarr.system.atomic import Output

_N = TypeVar("_N", model.Group, model.Dimension)
#: One range for each axis.
Axes = tuple[range, ...]
#: A single read may cover at most this multiple of the selected elements …
_WASTE = 4
#: … or have so many elements.
_SMALL = 1 << 16
#: Target size of the blocks in which values without chunks are written, in bytes.
VALUE_BLOCK = 256 << 10


class EditedValues(ABC):
    """The values of a variable of an editable file.

    Attributes
    ----------
    extents : tuple of Length or int
        The lengths of the dimensions, which the model of the file owns.
    """

    type: model.Type
    extents: Extents
    #: True if a partial block is written without reading the rest.
    in_place = False
    limited = False

    @property
    def dtype(self) -> np.dtype:
        return self.type.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the variable's dimensions."""
        return shape_of(self.extents)

    @property
    @abstractmethod
    def chunk_shape(self) -> tuple[int, ...]:
        """Return the shape of a block that is contiguous in the file."""

    @property
    def block_shape(self) -> tuple[int, ...]:
        """Return :attr:`chunk_shape`."""
        return self.chunk_shape

    @abstractmethod
    def filled(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return an array of the unwritten value."""

    @abstractmethod
    def check(self, values: np.ndarray) -> None:
        """Raise :class:`UnsupportedError` for a value that the format cannot store."""

    @abstractmethod
    def _read(self, axes: Axes) -> np.ndarray:
        """Read ranges, one for each axis."""

    @abstractmethod
    def _write(self, axes: Axes, values: np.ndarray) -> None:
        """Write to ranges, one for each axis."""

    def read(self, region: model.Region, out: np.ndarray | None = None) -> np.ndarray:
        """Read a region; see :meth:`nczarr.model.ArraySource.read`."""
        return handed(self._read(tuple(map(_axis, region))), out)

    def read_orthogonal(self, selection: OrthogonalIndex) -> np.ndarray:
        """Read slices or increasing positions, one for each axis."""
        whole: Axes = tuple(
            [_axis(s) if isinstance(s, slice) else range(int(s[0]), int(s[-1]) + 1) for s in selection]
        )
        lengths = [len(a) if isinstance(s, slice) else len(s) for s, a in zip(selection, whole, strict=True)]
        # The box around positions that are far apart has mostly values that are not selected.
        if math.prod(map(len, whole)) > max(_WASTE * math.prod(lengths), _SMALL):
            out = np.empty(lengths, self.dtype)
            for axes, place in pieces(selection):
                out[place] = self._read(axes)
            return out
        block = self._read(whole)
        for axis, s in enumerate(selection):
            if not isinstance(s, slice):
                block = np.take(block, s - s[0], axis)
        return block

    def read_points(self, axes: OrthogonalIndex) -> None:  # noqa: B027
        """Return None: files are read in boxes."""

    def write(self, selection: OrthogonalIndex, values: np.ndarray) -> None:
        """Write to slices or increasing positions, one for each axis."""
        for axes, place in pieces(selection):
            self._write(axes, values[place] if place else values)

    def write_blocks(self, blocks: Mapping[tuple[int, ...], np.ndarray]) -> None:
        """Write whole blocks. Their parts outside the shape are dropped."""
        for index, values in blocks.items():
            sizes = zip(index, self.chunk_shape, self.shape, strict=True)
            axes = tuple([range(i * c, min((i + 1) * c, n)) for i, c, n in sizes])
            self._write(axes, values[tuple([slice(0, len(axis)) for axis in axes])])

    def grow(self, shape: tuple[int, ...]) -> None:
        """Accept values in a larger shape, for this and all variables of its dimensions.

        The file grows when values are written there.
        """
        accept(self.extents, shape)

    #: The new part of a variable has fill values.
    may_have_tail = False

    def trust_tail(self) -> None:  # noqa: B027
        """Do nothing: there are no values behind the shape."""


class EditedFile(ABC):
    """A netCDF file, open for reading and writing.

    Parameters
    ----------
    path : str
        The path in error messages and for finding the file again.
    output : Output, optional
        Renames a new file when it is published. None if the file has its final name.
    content : ByteFile
        The bytes of the file.

    Examples
    --------
    >>> from nczarr.model import Dataset
    >>> from nczarr.netcdf import create_file
    >>> from nczarr.netcdf.bytes.file import MemoryFile
    >>> file = create_file("a.nc", Dataset("a", format="classic"), content=MemoryFile())
    >>> file.dataset.format, file.place
    ('classic', 'a.nc')
    >>> file.close()
    """

    #: The netCDF library's name of the disk format.
    disk_format: str
    #: The file is local.
    parallel_requests = 1
    before_part = None
    restrictions: Restrictions
    _model: StoredModel

    def __init__(self, path: str, output: Output | None, content: ByteFile) -> None:
        self.path = path
        self.content = content
        self._output = output

    @property
    def dataset(self) -> model.Dataset:
        """The model, with the data of its variables."""
        return self._model.dataset

    def length(self, fqn: str) -> int:
        """Return the stored length of an unlimited dimension."""
        return self._model.length(fqn)

    def _take_model(self, dataset: model.Dataset) -> None:
        """Take a model as that of the file, and let the variables ask it for their lengths."""
        self._model.replace(model.bind_data(dataset, self._data))
        for fqn in dataset.all_variables:
            self._data[fqn].extents = self._model.extents(fqn)

    @property
    def durable(self) -> bool:
        """False if :meth:`sync` and :meth:`close` do not wait for the disk."""
        return self.content.durable

    @durable.setter
    def durable(self, durable: bool) -> None:
        if isinstance(self.content, DiskFile):
            self.content.durable = durable
        if self._output is not None:
            self._output.durable = durable

    @property
    def place(self) -> str:
        """The current path of the bytes: a temporary name until a new file is published."""
        return self.path if self._output is None else str(self._output.path)

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """False after :meth:`close`."""

    @property
    @abstractmethod
    def _data(self) -> Mapping[str, EditedValues]:
        """The values of all variables, by FQN."""

    def data(self, fqn: str) -> EditedValues:
        """Return the values of a variable."""
        try:
            return self._data[fqn]
        except KeyError:
            raise ModelError(f"the file has no variable {fqn!r}", path=self.path) from None

    @abstractmethod
    def check_model(self, dataset: model.Dataset) -> None:
        """Raise the errors of :meth:`update` for the parts of a dataset, without a change."""

    @abstractmethod
    def update(self, dataset: model.Dataset) -> None:
        """Change the file's content to `dataset`.

        A variable with data of :meth:`data` is that existing variable.
        """

    @abstractmethod
    def lengthen(self, sizes: Mapping[str, int]) -> bool:
        """Write the lengths of unlimited dimensions, by FQN. Return False if this requires an update."""

    def make_room(self) -> None:  # noqa: B027
        """Do nothing: a file grows while values are written."""

    def refused(self) -> dict[str, Exception]:
        """Return an empty dictionary: :meth:`update` raises for parts that a file refuses."""
        return {}

    @abstractmethod
    def sync(self) -> None:
        """Write all pending changes."""

    def together(self) -> AbstractContextManager[None]:
        """Return a block without effect."""
        return nullcontext()

    def publish(self) -> None:
        """Rename a new file to its final name."""
        if self._output is not None:
            self.sync()
            output, self._output = self._output, None
            with file_errors(self.path):
                output.commit()

    def leave_unfinished(self, reason: str) -> None:
        """Close; what could not be written is not in the file."""
        self.close()

    def close(self) -> None:
        """Sync, publish and close. A new file whose completion fails is removed."""
        if not self.is_open:
            return
        try:
            with file_errors(self.path):
                self.sync()
                self._finish()
                if self._output is not None:
                    self._output.commit()
                    self._output = None
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close and remove a new file."""
        try:
            self._release()
        finally:
            output, self._output = self._output, None
            if output is not None:
                output.discard()

    def _finish(self) -> None:
        """Write the last bytes to the file, and close it."""
        self._release()

    @abstractmethod
    def _release(self) -> None:
        """Close the file in any state. It may be closed already."""

    def _check_open(self) -> None:
        if not self.is_open:
            raise NetCDFFileError("the file is closed", path=self.path)


def pieces(selection: OrthogonalIndex) -> Iterator[tuple[Axes, tuple[slice, ...]]]:
    """Yield the regular pieces of a selection, and their places in it.

    Examples
    --------
    >>> [axes for axes, _ in pieces((np.array([1, 2, 5]), slice(0, 4, 2)))]
    [(range(1, 3), range(0, 4, 2)), (range(5, 6), range(0, 4, 2))]
    """
    for found in product(*map(_runs, selection)):
        yield tuple([axis for axis, _ in found]), tuple([place for _, place in found])


def _runs(selector: slice | np.ndarray) -> list[tuple[range, slice]]:
    if isinstance(selector, slice):
        axis = _axis(selector)
        return [(axis, slice(0, len(axis)))]
    p = np.asarray(selector)
    edges = [0, *(np.flatnonzero(np.diff(p) != 1) + 1).tolist(), len(p)]
    return [(range(int(p[a]), int(p[b - 1]) + 1), slice(a, b)) for a, b in pairwise(edges) if b > a]


def _axis(part: slice) -> range:
    return range(part.start, part.stop, part.step or 1)


@dataclass
class Matches:
    """Fully qualified names in the old model by those in the new one. New objects are absent."""

    variables: dict[str, str]
    groups: dict[str, str] = field(default_factory=dict)
    dimensions: dict[str, str] = field(default_factory=dict)


def match(old: model.Dataset, new: model.Dataset, data: Mapping[str, object]) -> Matches:
    """Match two models. `data` has the data of the old variables.

    Examples
    --------
    >>> from nczarr.model import INT, Dataset, Dimension, MemorySource, Variable
    >>> import numpy as np
    >>> data = MemorySource(np.zeros(2, "i4"))
    >>> old = Dataset("d", dimensions=(Dimension("x", 2),), variables=(Variable("v", INT, ("/x",), data=data),))
    >>> new = Dataset("d", dimensions=(Dimension("y", 2),), variables=(Variable("w", INT, ("/y",), data=data),))
    >>> found = match(old, new, {"/v": data})
    >>> found.variables, found.dimensions
    ({'/w': '/v'}, {'/y': '/x'})
    """
    found = Matches(known_variables(new, data))
    _groups(found, old, new)
    _dimensions(found, old, new)
    return found


def _groups(found: Matches, old: model.Dataset, new: model.Dataset) -> None:
    known: dict[str, str] = {}
    for fqn, before in found.variables.items():
        here, there = model.parse_fqn(fqn)[:-1], model.parse_fqn(before)[:-1]
        # A variable at another depth tells nothing about the groups above it.
        if len(here) == len(there):
            for depth in range(1, len(here) + 1):
                known.setdefault(model.format_fqn(here[:depth]), model.format_fqn(there[:depth]))

    def walk(after: model.Group, before: model.Group, fqn: str, was: str) -> None:
        found.groups[fqn] = was
        rest = {group.name: group for group in before.groups}
        pairs: list[tuple[model.Group, model.Group]] = []
        left: list[model.Group] = []
        for group in after.groups:
            name = known.get(model.join_fqn(fqn, group.name))
            child = None if name is None else rest.pop(model.parse_fqn(name)[-1], None)
            if child is None:
                left.append(group)
            else:
                pairs.append((group, child))
        pairs += _rest(left, rest, lambda g: (g.attributes, g.dimensions, [t.name for t in g.types]))
        for group, child in pairs:
            walk(group, child, model.join_fqn(fqn, group.name), model.join_fqn(was, child.name))

    walk(new, old, "/", "/")


def _dimensions(found: Matches, old: model.Dataset, new: model.Dataset) -> None:
    variables = new.all_variables, old.all_variables
    known: dict[str, str] = {}
    for fqn, was in found.variables.items():
        for here, there in zip(variables[0][fqn].dimensions, variables[1][was].dimensions, strict=False):
            known.setdefault(str(here), str(there))
    found.dimensions.update(known)
    used = set(known.values())
    groups = new.all_groups, old.all_groups
    for fqn, was in found.groups.items():
        rest = {d.name: d for d in groups[1][was].dimensions if model.join_fqn(was, d.name) not in used}
        left = [d for d in groups[0][fqn].dimensions if model.join_fqn(fqn, d.name) not in known]
        for dimension, before in _rest(left, rest, lambda d: (d.size, d.unlimited)):
            found.dimensions[model.join_fqn(fqn, dimension.name)] = model.join_fqn(was, before.name)


def _rest(after: Iterable[_N], before: dict[str, _N], look: Callable[[_N], object]) -> list[tuple[_N, _N]]:
    """Return pairs with equal names, then pairs with equal definitions."""
    pairs: list[tuple[_N, _N]] = []
    left: list[_N] = []
    for node in after:
        same = before.pop(node.name, None)
        if same is None:
            left.append(node)
        else:
            pairs.append((node, same))
    for node in left:
        name = next((n for n, candidate in before.items() if look(candidate) == look(node)), None)
        if name is not None:
            pairs.append((node, before.pop(name)))
    return pairs

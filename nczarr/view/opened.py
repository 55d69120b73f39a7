"""Open a dataset of any format for viewing: its model for metadata, and the netCDF interface for values.

The fields of compound variables are separate variables, named ``point.x``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, count, islice, product
from types import EllipsisType
from typing import TypeVar

import numpy as np

from nczarr import model
from nczarr.convert import open_source
from nczarr.display import shown_location
from nczarr.errors import error_context
from nczarr.formats import local_path
from nczarr.model.coordinates import text_of
from nczarr.model.sources import handed
from nczarr.netcdf4 import Dataset
from nczarr.system.locks import Rank, make_lock

Index = int | slice | EllipsisType | tuple[int | slice, ...]
#: Maximum number of fields per compound variable.
MOST_FIELDS = 100
#: Attributes of a compound variable that apply to its fields too.
_SHARED = ("coordinates", "grid_mapping")
#: The documents of a group or an array of Zarr.
_DOCUMENTS = ("zarr.json", ".zmetadata", ".zgroup", ".zarray", ".zattrs")
#: Maximum number of chunks of a selection to look at for changes.
_MOST_FILES = 2000
#: Inode, size and time of a file; None if it is not there.
_FileState = tuple[int, int, int] | None
_G = TypeVar("_G", bound=model.Group)


class OpenedDataset(AbstractContextManager["OpenedDataset"]):
    """A dataset that is open for viewing.

    Values are masked and unpacked like in netCDF4-python. Only one thread at a time reads, because the HDF5 library is
    not thread-safe; the Zarr engine still reads the chunks of one request in parallel.

    Parameters
    ----------
    source : str, path, store or nczarr.model.Dataset
        Any source that :func:`nczarr.convert.open_source` opens, or a list of them: a group for each.
    storage_options : mapping, optional
        Options for remote stores.

    Examples
    --------
    >>> from nczarr import cdl
    >>> text = "netcdf d { dimensions: x = 3; variables: short v(x); v:scale_factor = 0.5; data: v = 1, _, 3; }"
    >>> with OpenedDataset(cdl.loads(text)) as opened:
    ...     print(opened.read("/v", slice(None)))
    [0.5 -- 1.5]
    """

    def __init__(self, source: object, storage_options: Mapping[str, object] | None = None) -> None:
        self._sources = list(source) if isinstance(source, list | tuple) else [source]
        self._options = storage_options
        self.names = [
            s.name if isinstance(s, model.Dataset) else shown_location(str(s)) for s in self._sources
        ]
        self.name = ", ".join(self.names)
        #: Grows when the dataset is opened again.
        self.version = 0
        self._differences: dict[str, tuple[str, str]] = {}
        self._lock = make_lock(Rank.OWNER)
        self._stack, self.model, self._values = self._open()
        #: The files that were read, and their states at that time.
        self._states: dict[str, _FileState] = {}

    def _open(self) -> tuple[ExitStack, model.Dataset, Dataset]:
        # A source that does not open must not leave the others open.
        with ExitStack() as stack:
            contexts = (open_source(s, storage_options=self._options) for s in self._sources)
            found = [stack.enter_context(context) for context in contexts]
            joint = with_fields(found[0] if len(found) == 1 else joined(found, self.names))
            values = Dataset(joint)
            stack.callback(values.close)
            return stack.pop_all(), joint, values

    def reopen(self) -> None:
        """Open the dataset again, as it is now.

        Raises
        ------
        NCZarrError
            If it is gone; the dataset stays as it was.
        """
        with self._lock:
            old, (self._stack, self.model, self._values) = self._stack, self._open()
            self._states, self.version = {}, self.version + 1
            old.close()

    def has_changed(self, fqn: str, index: Index) -> bool:
        """Return True if local files of a selection have changed since they were read.

        A model that runs, or another program, replaces chunks and documents while the page keeps pictures of them. Of
        remote stores nothing is known.
        """
        return any(self._state_of(path) != state for path, state in self._known(fqn, index))

    def _known(self, fqn: str, index: Index) -> list[tuple[str, _FileState]]:
        with self._lock:
            return [(path, self._states[path]) for path in self._files(fqn, index) if path in self._states]

    @staticmethod
    def _state_of(path: str) -> _FileState:
        try:
            status = os.stat(path)
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns

    def _files(self, fqn: str, index: Index) -> Iterator[str]:
        """Yield the local files that a selection is read from: netCDF files, or documents and chunks."""
        for path in filter(None, map(local_path, self._sources)):
            folder = os.fspath(path)
            yield from (os.path.join(folder, name) for name in _DOCUMENTS) if path.is_dir() else (folder,)
        array = getattr(self.variable(fqn).data, "array", None)
        root = getattr(getattr(array, "store", None), "root", None)
        if array is None or root is None:
            return
        yield from (os.path.join(root, array.prefix, name) for name in _DOCUMENTS)
        given = index if isinstance(index, tuple) else (index,)
        parts = [slice(None)] * array.ndim if Ellipsis in given else [*given, *[slice(None)] * array.ndim]
        chunks = [
            sorted({i // chunk for i in (range(*p.indices(n)) if isinstance(p, slice) else (p % max(n, 1),))})
            for p, n, chunk in zip(parts, array.shape, array.chunk_shape)
        ]
        for place in islice(product(*chunks), _MOST_FILES):
            yield os.path.join(root, array.chunk_key(place))

    def read(self, fqn: str, index: Index) -> np.ma.MaskedArray:
        """Read a selection of a variable, masked and unpacked.

        Raises
        ------
        NCZarrError
            If the values cannot be read.
        """
        if fqn in self._differences:
            one, other = self._differences[fqn]
            return self.read(one, index).astype(np.float64) - self.read(other, index)
        # Paths of the netCDF interface have no escapes, so look up name by name.
        *groups, name = model.parse_fqn(fqn)
        with self._lock, error_context(fqn=fqn):
            for path in self._files(fqn, index):
                self._states.setdefault(path, self._state_of(path))
            group = reduce(lambda group, part: group.groups[part], groups, self._values)
            return np.ma.asanyarray(group.variables[name][index])

    def variable(self, fqn: str) -> model.Variable:
        """Return the variable at an FQN; raise :class:`nczarr.errors.ModelError` if there is none."""
        if fqn not in self._differences:
            return self.model.variable_at(fqn)
        first, second = map(self.variable, self._differences[fqn])
        title = f"difference of {long_name(first)} and {long_name(second)}"
        about = [a for a in first.attributes if a.name in (*_SHARED, "units")]
        about.append(model.Attribute.of("long_name", title))
        return replace(first, name=model.split_fqn(fqn)[1], type=model.DOUBLE, attributes=tuple(about))

    def difference(self, first: str, second: str) -> str:
        """Return the FQN of a new variable: the values of the first variable minus those of the second."""
        group, name = model.split_fqn(first)
        fqn = model.join_fqn(group, f"{name} − {second.strip('/').replace('/', ' ')}")
        self._differences[fqn] = (first, second)
        return fqn

    def shape_of(self, fqn: str) -> tuple[int, ...]:
        """Return the shape of a variable."""
        return self.model.shape_of(self.variable(fqn))

    def chunk_shape(self, fqn: str) -> tuple[int, ...]:
        """Return the shape of the smallest part of a variable that can be read separately."""
        variable = self.variable(fqn)
        shape = self.model.shape_of(variable)
        if isinstance(variable.data, FieldSource):
            owner = model.join_fqn(model.split_fqn(fqn)[0], variable.data.owner)
            return (*self.chunk_shape(owner), *variable.data.sizes)
        inner = getattr(getattr(variable.data, "array", None), "inner_chunk_shape", None) or ()
        if inner and len(inner) >= len(shape):
            return tuple(inner[: len(shape)])
        if variable.storage.chunk_shape and variable.storage.layout in (None, "chunked"):
            return variable.storage.chunk_shape
        # Contiguous storage: rows along the last axis can be read separately.
        return (1,) * (len(shape) - 1) + shape[-1:]

    def close(self) -> None:
        """Close the dataset; closing it twice is allowed."""
        with self._lock:
            self._stack.close()

    def __exit__(self, *error: object) -> None:
        self.close()


def joined(datasets: Sequence[model.Dataset], locations: Sequence[str]) -> model.Dataset:
    """Return one dataset with a group for each of several, named after its location.

    Examples
    --------
    >>> from nczarr import cdl
    >>> d = cdl.loads("netcdf d { dimensions: x = 2; variables: int v(x); }")
    >>> both = joined([d, d], ["first/run.nc", "second/run.nc"])
    >>> list(both.all_variables), both.variable_at("/run.nc/v").dimensions
    (['/run.nc/v', '/run.nc-2/v'], ('/run.nc/x',))
    """
    groups: dict[str, model.Group] = {}
    for dataset, location in zip(datasets, locations):
        stem = location.rstrip("/").rpartition("/")[2] or "dataset"
        name = next(n for n in chain((stem,), (f"{stem}-{i}" for i in count(2))) if n not in groups)
        before = model.join_fqn("/", name)

        def moved(fqn: str, variable: model.Variable, before: str = before) -> model.Variable:
            refs = (before + ref if isinstance(ref, str) else ref for ref in variable.dimensions)
            return replace(variable, dimensions=tuple(refs))

        inner = model.rewrite(dataset, variable=moved)
        parts = {part: getattr(inner, part) for part in ("dimensions", "variables", "groups", "attributes")}
        groups[name] = model.Group(name, **parts)
    types = {t.name: t for dataset in reversed(datasets) for t in dataset.types}
    return model.Dataset("datasets", groups=tuple(groups.values()), types=tuple(types.values()))


def long_name(variable: model.Variable) -> str:
    """Return the description of a variable: ``long_name``, ``standard_name`` or its name, in this order."""
    standard = text_of(variable, "standard_name").replace("_", " ")
    return text_of(variable, "long_name") or standard or variable.name


def joined_characters(characters: np.ndarray) -> np.ndarray:
    """Join the bytes of each row to a string, without trailing null bytes.

    Examples
    --------
    >>> joined_characters(np.array([[b"a", b"b"], [b"c", b""]])).tolist()
    ['ab', 'c']
    """
    rows = np.ma.filled(characters, b"").reshape(-1, characters.shape[-1])
    joined = (b"".join(c or b"\0" for c in row).rstrip(b"\0") for row in rows)
    return np.array([row.decode("utf-8", "replace") for row in joined])


@dataclass(frozen=True, eq=False)
class FieldSource:
    """The values of a field of a compound variable.

    Parameters
    ----------
    inner : ArraySource
        The compound values.
    owner : str
        Name of the compound variable.
    path : tuple of str
        Name of the field, preceded by the names of the enclosing fields.
    dtype : numpy.dtype
        Type of one element.
    sizes : tuple of int
        Shape of the field.
    """

    inner: model.ArraySource
    owner: str
    path: tuple[str, ...]
    dtype: np.dtype
    sizes: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.inner.shape, *self.sizes)

    def read(self, region: model.Region, out: np.ndarray | None = None) -> np.ndarray:
        """Read a region; see :meth:`nczarr.model.ArraySource.read`."""
        outer = len(self.inner.shape)
        values = reduce(np.ndarray.__getitem__, self.path, self.inner.read(region[:outer]))
        return handed(np.array(values[(slice(None),) * outer + region[outer:]], self.dtype), out)


def with_fields(dataset: model.Dataset) -> model.Dataset:
    """Return the dataset with a variable added after each compound variable for each of its drawable fields.

    Examples
    --------
    >>> from nczarr import cdl
    >>> d = cdl.loads("netcdf d {types: compound p {float x; float y;} variables: p at; data: at = {1, 2};}")
    >>> [v.name for v in with_fields(d).variables]
    ['at', 'at.x', 'at.y']
    """

    def inside(group: _G) -> _G:
        taken = {v.name for v in group.variables}
        variables: list[model.Variable] = []
        for variable in group.variables:
            # A variable of the file may have the name of a field, such as v.x.
            variables += [variable, *(f for f in _fields(variable) if f.name not in taken)]
        return replace(group, variables=tuple(variables), groups=tuple(inside(g) for g in group.groups))

    if not any(v.type.kind == "compound" for v in dataset.all_variables.values()):
        return dataset
    return inside(dataset)


def _fields(variable: model.Variable) -> Iterator[model.Variable]:
    if not isinstance(variable.type, model.CompoundType) or variable.data is None:
        return
    attributes = tuple(a for a in variable.attributes if a.name in _SHARED)
    fill = variable.attribute.get("_FillValue")
    for number, (path, sizes, type_) in enumerate(_leaves(variable.type)):
        # The tree of the page must stay short for a compound with thousands of fields.
        if number == MOST_FIELDS:
            return
        about = attributes
        if fill is not None and not sizes and fill.type == variable.type and len(fill.values) == 1:
            value = reduce(np.ndarray.__getitem__, path, fill.values)
            about = (*attributes, model.Attribute("_FillValue", type_, np.array(value, type_.dtype)))
        chunks = variable.storage.chunk_shape
        name, dimensions = ".".join((variable.name, *path)), (*variable.dimensions, *sizes)
        storage = replace(variable.storage, chunk_shape=chunks and (*chunks, *sizes))
        data = FieldSource(variable.data, variable.name, path, type_.dtype, sizes)
        yield model.Variable(name, type_, dimensions, attributes=about, storage=storage, data=data)


def _leaves(type_: model.CompoundType) -> Iterator[tuple[tuple[str, ...], tuple[int, ...], model.Type]]:
    """Yield the path, shape and type of each field with numbers or categories, including nested fields."""
    for field in type_.fields:
        if isinstance(field.type, model.CompoundType):
            for path, sizes, leaf in _leaves(field.type):
                yield (field.name, *path), (*field.shape, *sizes), leaf
        elif is_drawable(field):
            yield (field.name,), field.shape, field.type


def is_drawable(item: model.Variable | model.Field) -> bool:
    """Return True if the values are numbers or categories; other values are shown as a table."""
    if item.type.kind == "enum":
        return True
    return item.type.is_number

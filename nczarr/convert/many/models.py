"""Keep the models of many sources in little memory: equal declarations once, and of each source what only it has.

A model of twenty variables takes 17 KiB: of a million files that is more than the memory of most machines, though
nearly all of them declare the same. The models are made again when they are asked for.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar, overload

import numpy as np

from nczarr import model
from nczarr.model import ArraySource, Attribute, Dataset, Group, MemorySource, Region, Storage, Type, Variable

if TYPE_CHECKING:
    from nczarr.netcdf.bytes.file import FilePlaces

_G = TypeVar("_G", bound=Group)


class SourceFiles(Protocol):
    """The files of sources, which are opened when values are read."""

    @property
    def sources(self) -> Sequence[object]:
        """The files, in order."""
        ...

    def read(self, number: int, fqn: str, region: Region, out: np.ndarray | None) -> np.ndarray:
        """Read values of a file."""
        ...

    def stored(self, number: int, fqn: str) -> Variable:
        """Return a variable of a file, which is open until others are."""
        ...

    def places(self, number: int, fqn: str) -> FilePlaces | None:
        """Return the places of the chunks of a variable in a file; None if its values are not stored in chunks."""
        ...


@dataclass(frozen=True, eq=False, slots=True)
class FilePart:
    """The values of a variable of one file; an :class:`~nczarr.model.ArraySource`."""

    files: SourceFiles
    number: int
    fqn: str
    shape: tuple[int, ...]
    dtype: np.dtype
    known: np.ndarray | None = None

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        if self.known is not None:
            return MemorySource(self.known).read(region, out)
        return self.files.read(self.number, self.fqn, region, out)

    @property
    def source(self) -> object:
        """The file."""
        return self.files.sources[self.number]

    @property
    def stored(self) -> Variable:
        """The variable of the file."""
        return self.files.stored(self.number, self.fqn)

    def chunk_places(self) -> FilePlaces | None:
        """Return the places of the chunks in the file."""
        return self.files.places(self.number, self.fqn)


#: The data of a variable that only one source has: its source, or the known values of a part of a file.
_Own = ArraySource | np.ndarray


@dataclass(frozen=True, eq=False)
class _Declarations:
    """The declarations of models that are equal but for their names, the attributes of their roots, and their data.

    Attributes
    ----------
    root : Dataset
        Without data, name and attributes.
    files : SourceFiles or None
        The files of the parts.
    parts : dict
        The shapes and types of the variables whose data are parts of files.
    own : tuple of str
        The variables of which each source has data of its own, or knows the values.
    """

    root: Dataset
    files: SourceFiles | None
    parts: dict[str, tuple[tuple[int, ...], np.dtype]]
    own: tuple[str, ...]

    def part(self, number: int, fqn: str, known: np.ndarray | None) -> FilePart:
        """Return the values of a variable of a file."""
        assert self.files is not None
        return FilePart(self.files, number, fqn, *self.parts[fqn], known)


@dataclass(frozen=True, eq=False, slots=True)
class _Row:
    """One source: its declarations, and what only it has."""

    common: _Declarations
    name: str
    attributes: tuple[Attribute, ...]
    number: int
    own: tuple[_Own, ...]

    def data(self, fqn: str) -> ArraySource | None:
        """Return the values of a variable; None if it has none."""
        if fqn in self.common.own:
            found = self.own[self.common.own.index(fqn)]
            return self.common.part(self.number, fqn, found) if isinstance(found, np.ndarray) else found
        return self.common.part(self.number, fqn, None) if fqn in self.common.parts else None

    def dataset(self) -> Dataset:
        """Return the model."""

        def bound(fqn: str, variable: Variable) -> Variable:
            data = self.data(fqn)
            return variable if data is None else variable.with_data(data)

        whole = model.rewrite(self.common.root, variable=bound)
        return replace(whole, name=self.name, attributes=self.attributes)


class SourceModels(Sequence[Dataset]):
    """The models of sources, in their order.

    Examples
    --------
    >>> from nczarr.model import INT, MemorySource
    >>> models = SourceModels(Dataset(n, variables=(Variable("v", INT, data=1),)) for n in ("a", "b"))
    >>> len(models), models[1].name, models[1].all_variables["/v"][...].item()
    (2, 'b', 1)
    """

    def __init__(self, datasets: Iterable[Dataset] = ()) -> None:
        self._rows: list[_Row] = []
        self._common: dict[Hashable, _Declarations] = {}
        self._attributes: dict[Hashable, Attribute] = {}
        self._variables: dict[Hashable, Variable] = {}
        for dataset in datasets:
            self.append(dataset)

    def append(self, dataset: Dataset) -> None:
        """Add the model of a source."""
        data = {fqn: v.data for fqn, v in dataset.all_variables.items() if v.data is not None}
        of_files = {fqn: each for fqn, each in data.items() if isinstance(each, FilePart)}
        first = next(iter(of_files.values()), None)
        files, number = (None, -1) if first is None else (first.files, first.number)
        # The data of other files, as of models that were merged before, keep their source.
        parts = {
            fqn: (part.shape, part.dtype)
            for fqn, part in of_files.items()
            if part.files is files and part.number == number
        }
        own = {
            fqn: source
            for fqn, each in data.items()
            if (source := of_files[fqn].known if fqn in parts else each) is not None
        }
        bare = self._bare(dataset)
        key = (_key_of(bare), id(files), tuple(parts.items()), tuple(own))
        common = self._common.get(key)
        # Equal declarations of a million sources are kept once.
        if common is None:
            common = self._common[key] = _Declarations(bare, files, parts, tuple(own))
        attributes = self._shared(dataset.attributes)
        self._rows.append(_Row(common, dataset.name, attributes, number, tuple(own.values())))

    def append_from(self, models: SourceModels, number: int) -> None:
        """Add the model of a source that other models have; both keep it once."""
        self._rows.append(models._rows[number])

    def _bare(self, dataset: Dataset) -> Dataset:
        """Return a model without name, attributes of the root and data; its equal parts are the same objects."""

        def group(old: _G) -> _G:
            return replace(
                old,
                attributes=self._shared(old.attributes),
                variables=tuple([self._variable(v) for v in old.variables]),
                groups=tuple([group(g) for g in old.groups]),
            )

        return replace(group(replace(dataset, attributes=())), name="")

    def _variable(self, old: Variable) -> Variable:
        attributes = self._shared(old.attributes)
        key = (
            old.name,
            # Equal types of two files are two objects, and their comparison walks through all parts.
            _key_of_type(old.type),
            old.dimensions,
            *map(id, attributes),
            _key_of_storage(old.storage),
        )
        found = self._variables.get(key)
        if found is None:
            found = self._variables[key] = replace(old, attributes=attributes, data=None)
        return found

    def _shared(self, attributes: tuple[Attribute, ...]) -> tuple[Attribute, ...]:
        """Return attributes, of which equal ones are the same objects."""
        return tuple(
            [
                a
                if a.type.is_user_defined
                else self._attributes.setdefault((a.name, a.type, _key_of_values(a.values)), a)
                for a in attributes
            ]
        )

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Dataset: ...

    @overload
    def __getitem__(self, index: slice) -> SourceModels: ...

    def __getitem__(self, index: int | slice) -> Dataset | SourceModels:
        if isinstance(index, slice):
            return self.of(range(len(self))[index])
        return self._rows[index].dataset()

    def __iter__(self) -> Iterator[Dataset]:
        return (row.dataset() for row in self._rows)

    def of(self, numbers: Iterable[int]) -> SourceModels:
        """Return the models of some sources."""
        found = SourceModels()
        found._rows = [self._rows[number] for number in numbers]
        return found

    def distinct(self) -> list[Dataset]:
        """Return the different declarations of the models, in order, without data and attributes of the root."""
        # A copy keeps nothing that is computed on first use.
        return [replace(common.root) for common in dict.fromkeys(row.common for row in self._rows)]

    def root_attributes(self) -> tuple[Attribute, ...]:
        """Return the attributes of all roots, each from the first source that has it."""
        found: dict[str, Attribute] = {}
        for row in self._rows:
            for attribute in row.attributes:
                found.setdefault(attribute.name, attribute)
        return tuple(found.values())

    def declarations(self, number: int, names: Collection[str] = ()) -> Hashable:
        """Return what is equal for sources with equal declarations, and equal attributes of these names of the root."""
        row = self._rows[number]
        return id(row.common), *(id(a) for a in row.attributes if a.name in names)

    def sizes(self, fqn: str) -> array[int]:
        """Return the size of a dimension in each source."""
        rows = self._rows
        # A copy, so that the declarations keep no table of their dimensions.
        found = {c: replace(c.root).dimension_at(fqn).size for c in dict.fromkeys(r.common for r in rows)}
        return array("q", [found[row.common] for row in rows])

    def column(self, fqn: str, change: Callable[[ArraySource], ArraySource] | None = None) -> SourceColumn:
        """Return the values of a variable in each source."""
        return SourceColumn(self._rows, fqn, change)


@dataclass(frozen=True, eq=False)
class SourceColumn(Sequence[ArraySource]):
    """The values of one variable in each of many sources; a source without values has fill values.

    Attributes
    ----------
    change : callable or None
        It changes the values of each source.
    """

    rows: Sequence[_Row]
    fqn: str
    change: Callable[[ArraySource], ArraySource] | None

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> ArraySource: ...

    @overload
    def __getitem__(self, index: slice) -> SourceColumn: ...

    def __getitem__(self, index: int | slice) -> ArraySource | SourceColumn:
        if isinstance(index, slice):
            return replace(self, rows=self.rows[index])
        row = self.rows[index]
        data = row.data(self.fqn)
        if data is None:
            dataset = row.dataset()
            variable = dataset.variable_at(self.fqn)
            data = model.source_of(variable, dataset.shape_of(variable))
        return data if self.change is None else self.change(data)


def _key_of(group: Group) -> Hashable:
    """Return what is equal for equal declarations; the objects of `group` live as long as the key."""
    own: Hashable = group.name
    if isinstance(group, Dataset):
        own = group.format, group.left_out, group.gone, group.sources, repr(group.joined)
    return (
        own,
        tuple(map(id, group.attributes)),
        tuple(map(_key_of_type, group.types)),
        group.dimensions,
        tuple(map(id, group.variables)),
        tuple(map(_key_of, group.groups)),
    )


def _key_of_type(type_: Type) -> Hashable:
    return repr(type_) if type_.is_user_defined else type_


def _key_of_storage(storage: Storage) -> Hashable:
    """Return what is equal for equal storage; its comparison leaves out what only arrays of Zarr have."""
    # Configurations are dictionaries, which have no hash.
    of_array = storage.codecs, storage.shard_index, storage.chunk_keys  # their configurations are no keys
    return (
        storage,
        storage.array_chunks,
        storage.data_type,
        None if of_array == (None,) * 3 else repr(of_array),
    )


def _key_of_values(values: np.ndarray) -> Hashable:
    return tuple(values.tolist()) if values.dtype.hasobject else values.tobytes()

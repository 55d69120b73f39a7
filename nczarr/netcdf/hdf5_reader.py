"""netCDF-4 files to the model: a walk over the HDF5 file that finds what netCDF's own library finds.

h5py's low-level interface reads the file, because netCDF4-python skips variables, types and attributes of
types that it does not know, and gives other attributes in another form than they are stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nczarr.errors import NCZarrError, NetCDFFileError
from nczarr.model import (
    CHAR,
    STRING,
    Attribute,
    Dataset,
    Dimension,
    DimensionRef,
    Filter,
    Group,
    PrimitiveType,
    Storage,
    Type,
    UserType,
    Variable,
    default_fill,
    join_fqn,
    normalize_name,
)
from nczarr.netcdf.hdf5_direct import read_attribute, reclaim
from nczarr.netcdf.hdf5_library import hdf5, hdf5_errors
from nczarr.netcdf.hdf5_memory import FixedText, Layout, decode, has_pointers
from nczarr.netcdf.hdf5_source import HDF5File, HDF5Source
from nczarr.netcdf.hdf5_types import KnownTypes, address_of

__all__ = ["read_hdf5"]

NO_VARIABLE = b"This is a netCDF dimension but not a netCDF variable"
NON_COORDINATE = b"_nc4_non_coord_"
#: Attributes with which netCDF-4 and HDF5's dimension scales keep their books.
ROOT_BOOKS = frozenset({b"_NCProperties", b"_nc3_strict"})
VARIABLE_BOOKS = frozenset({b"DIMENSION_LIST", b"_Netcdf4Dimid", b"_Netcdf4Coordinates"})
SCALE_BOOKS = frozenset({b"CLASS", b"NAME", b"REFERENCE_LIST"})
_SZIP_CHOICES = 4 | 32


@dataclass
class _Found:
    """A group of the file with its objects, in order."""

    fqn: str
    path: bytes
    id: Any
    datasets: list[tuple[bytes, Any]] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    groups: list[tuple[str, _Found]] = field(default_factory=list)
    #: Dimensions with netCDF's number for each; `phony` are those that only netCDF's library makes up.
    dimensions: list[tuple[int, Dimension]] = field(default_factory=list)

    def walk(self) -> Iterator[_Found]:
        yield self
        for _, group in self.groups:
            yield from group.walk()


@dataclass
class _Dimension:
    number: int
    fqn: str
    name: str
    group: _Found
    size: int
    unlimited: bool
    used: bool = False


def read_hdf5(file: HDF5File, name: str) -> Dataset:
    """Read all metadata of an open file; the variables get lazy sources.

    Raises
    ------
    NetCDFFileError
        If the file is damaged, or has something that the model has no place for; the message names it.
    """
    with hdf5_errors(file.path):
        return _Reader(file).dataset(name)


class _Reader:
    def __init__(self, file: HDF5File) -> None:
        self.file = file
        self.types = KnownTypes()
        self.named: list[tuple[str, str, Any]] = []
        self.declared: dict[str, UserType] = {}
        self.dimensions: dict[int, _Dimension] = {}
        self.scales: dict[tuple[int, int], _Dimension] = {}
        self.next_number = 0
        self.extents: dict[str, tuple[int, ...]] = {}

    def dataset(self, name: str) -> Dataset:
        api = hdf5()
        root = _Found("/", b"/", api.h5g.open(self.file.id, b"/"))
        self.collect(root, set())
        self.declared = self.placed(None, self.types.declare, self.named)
        groups = list(root.walk())
        for group in groups:
            self.find_scales(group)
        self.references(root)
        self.measure()
        made = self.group(root, "")
        strict = api.h5a.exists(root.id, b"_nc3_strict")
        return Dataset(
            name,
            attributes=made.attributes,
            types=made.types,
            dimensions=made.dimensions,
            variables=made.variables,
            groups=made.groups,
            format="netCDF-4 classic model" if strict else "netCDF-4",
        )

    # -- the walk: what there is

    def collect(self, group: _Found, above: set[tuple[int, int]]) -> None:
        api = hdf5()
        above = above | {address_of(group.id)}
        below: list[_Found] = []
        for link in _link_names(group.id):
            name = normalize_name(_text(link))
            fqn = join_fqn(group.fqn, name)
            with hdf5_errors(self.file.path, fqn):
                found = api.h5o.open(group.id, link)
                if isinstance(found, api.h5g.GroupID):
                    if address_of(found) in above:
                        raise NetCDFFileError(
                            "the group contains itself through a link", path=self.file.path, fqn=fqn
                        )
                    child = _Found(fqn, group.path.rstrip(b"/") + b"/" + link, found)
                    group.groups.append((name, child))
                    below.append(child)
                elif isinstance(found, api.h5d.DatasetID):
                    group.datasets.append((link, found))
                else:
                    group.types.append(fqn)
                    self.named.append((group.fqn, fqn, found))
        for child in below:
            self.collect(child, above)

    def placed(self, fqn: str | None, call: Any, *args: Any) -> Any:
        """Call, and add the place to an error that has none."""
        try:
            return call(*args)
        except NCZarrError as error:
            error.path = error.path or self.file.path
            error.fqn = error.fqn or fqn
            raise

    # -- dimensions

    def find_scales(self, group: _Found) -> None:
        h5ds = hdf5().h5ds
        for link, dataset in group.datasets:
            if not h5ds.is_scale(dataset) or not (shape := dataset.shape):
                continue
            number = self.books_integers(dataset, b"_Netcdf4Dimid")
            unlimited = dataset.get_space().get_simple_extent_dims(True)[0] == hdf5().h5s.UNLIMITED
            made = self.add_dimension(
                group, normalize_name(_text(link)), shape[0], unlimited, number[0] if number else None
            )
            self.scales[address_of(dataset)] = made

    def add_dimension(
        self, group: _Found, name: str, size: int, unlimited: bool, number: int | None
    ) -> _Dimension:
        if number is None or number in self.dimensions:
            number = self.next_number
        self.next_number = max(self.next_number, number + 1)
        made = _Dimension(number, join_fqn(group.fqn, name), name, group, size, unlimited)
        self.dimensions[number] = made
        return made

    def books_integers(self, dataset: Any, name: bytes) -> tuple[int, ...] | None:
        """An integer attribute of the bookkeeping."""
        if not hdf5().h5a.exists(dataset, name):
            return None
        attribute = hdf5().h5a.open(dataset, name)
        values = np.zeros(attribute.shape, np.int64)
        attribute.read(values)
        return tuple(values.reshape(-1).tolist())

    def references(self, group: _Found) -> None:
        """Find the dimensions of every variable, groups below first: so netCDF numbers those it makes up."""
        for _, child in group.groups:
            self.references(child)
        for link, dataset in group.datasets:
            name = self.variable_name(link, dataset)
            if name is None:
                continue
            fqn = join_fqn(group.fqn, name)
            with hdf5_errors(self.file.path, fqn):
                numbers = self.variable_dimensions(group, dataset)
                self.file.numbers[fqn] = numbers
                self.extents[fqn] = dataset.shape

    def variable_name(self, link: bytes, dataset: Any) -> str | None:
        """The name of the variable of a dataset; None for a dimension without a variable."""
        h5ds = hdf5().h5ds
        if h5ds.is_scale(dataset) and (h5ds.get_scale_name(dataset) or b"").startswith(NO_VARIABLE):
            return None
        return normalize_name(_text(link.removeprefix(NON_COORDINATE)))

    def variable_dimensions(self, group: _Found, dataset: Any) -> tuple[int, ...]:
        rank = dataset.rank
        numbers = self.books_integers(dataset, b"_Netcdf4Coordinates")
        if numbers is not None and len(numbers) == rank and all(n in self.dimensions for n in numbers):
            return numbers
        own = self.scales.get(address_of(dataset))
        found: list[int | None] = [own.number if own and axis == 0 else None for axis in range(rank)]
        if own is None:
            for axis in range(rank):
                scale = self.attached_scale(dataset, axis)
                found[axis] = scale.number if scale else None
        limits = dataset.get_space().get_simple_extent_dims(True) if rank else ()
        for axis, size in enumerate(dataset.shape):
            if found[axis] is None:
                found[axis] = self.phony(group, size, limits[axis] == hdf5().h5s.UNLIMITED, found)
        return tuple(n for n in found if n is not None)

    def attached_scale(self, dataset: Any, axis: int) -> _Dimension | None:
        h5ds = hdf5().h5ds
        if h5ds.get_num_scales(dataset, axis) < 1:
            return None
        seen: list[_Dimension] = []

        def look(scale: Any) -> None:
            known = self.scales.get(address_of(scale))
            if known is not None:
                seen.append(known)

        h5ds.iterate(dataset, axis, look)
        return seen[0] if seen else None

    def phony(self, group: _Found, size: int, unlimited: bool, taken: list[int | None]) -> int:
        """A dimension for an axis that has none, as netCDF's library makes them up: one for each size."""
        for known in self.dimensions.values():
            same = known.group is group and known.size == size and known.unlimited == unlimited
            if same and known.number not in taken:
                return known.number
        made = self.add_dimension(group, f"phony_dim_{self.next_number}", size, unlimited, None)
        return made.number

    def measure(self) -> None:
        """Sizes: an unlimited dimension is as long as the longest variable that uses it."""
        longest: dict[int, int] = {}
        for fqn, numbers in self.file.numbers.items():
            for number, size in zip(numbers, self.extents[fqn], strict=True):
                longest[number] = max(longest.get(number, 0), size)
        for number, dimension in self.dimensions.items():
            if dimension.unlimited and number in longest:
                dimension.size = longest[number]
        for number in sorted(self.dimensions):
            d = self.dimensions[number]
            d.group.dimensions.append((number, Dimension(d.name, d.size, d.unlimited)))

    # -- the model

    def group(self, found: _Found, name: str) -> Group:
        books = ROOT_BOOKS if found.fqn == "/" else frozenset()
        return Group(
            name,
            attributes=self.attributes(found.id, books, found.fqn, found.fqn),
            types=tuple(self.declared[fqn] for fqn in found.types if fqn in self.declared),
            dimensions=tuple(d for _, d in found.dimensions),
            variables=tuple(self.variables(found)),
            groups=tuple(self.group(child, child_name) for child_name, child in found.groups),
        )

    def variables(self, group: _Found) -> Iterator[Variable]:
        for link, dataset in group.datasets:
            name = self.variable_name(link, dataset)
            if name is not None:
                fqn = join_fqn(group.fqn, name)
                with hdf5_errors(self.file.path, fqn):
                    yield self.variable(group, link, dataset, name, fqn)

    def variable(self, group: _Found, link: bytes, dataset: Any, name: str, fqn: str) -> Variable:
        type_, layout = self.placed(fqn, self.types.find, dataset.get_type(), group.fqn)
        plist = dataset.get_create_plist()
        books = VARIABLE_BOOKS | (SCALE_BOOKS if hdf5().h5ds.is_scale(dataset) else frozenset())
        attributes = self.attributes(dataset, books, group.fqn, fqn)
        references: list[DimensionRef] = []
        shape = []
        for number, size in zip(self.file.numbers[fqn], dataset.shape, strict=True):
            dimension = self.dimensions[number]
            if not dimension.unlimited and dimension.size != size:
                raise NetCDFFileError(
                    f"the variable has the size {size} where its dimension {dimension.fqn} has {dimension.size}",
                    path=self.file.path,
                    fqn=fqn,
                )
            references.append(dimension.fqn)
            shape.append(dimension.size)
        source = HDF5Source(
            self.file,
            fqn,
            group.path.rstrip(b"/") + b"/" + link,
            type_,
            layout,
            tuple(shape),
            tuple(dataset.shape),
            _fill(type_, attributes, plist),
        )
        return Variable(
            name,
            type_,
            tuple(references),
            attributes=attributes,
            storage=_storage(plist, type_, layout),
            data=source,
        )

    def attributes(self, owner: Any, books: frozenset[bytes], group: str, fqn: str) -> tuple[Attribute, ...]:
        made = []
        for attribute in _attribute_ids(owner):
            if attribute.name not in books:
                name = normalize_name(_text(attribute.name))
                with hdf5_errors(self.file.path, fqn, f"the attribute {name!r} cannot be read"):
                    made.append(self.placed(fqn, self.attribute, attribute, name, group))
        return tuple(made)

    def attribute(self, attribute: Any, name: str, group: str) -> Attribute:
        api = hdf5()
        type_id = attribute.get_type()
        space = attribute.get_space()
        try:
            type_, layout = self.types.find(type_id, group)
        except NetCDFFileError as error:
            raise NetCDFFileError(f"the attribute {name!r} cannot be read: {error.message}") from None
        kind = space.get_simple_extent_type()
        if type_id.get_class() == api.h5t.STRING and not type_id.is_variable_str():
            scalar = kind != api.h5s.SIMPLE
            if scalar:  # text: netCDF's form of char
                raw = np.zeros(0 if kind == api.h5s.NULL else type_id.get_size(), "S1")
                if raw.size:
                    attribute.read(raw, type_id)
                return Attribute(name, CHAR, raw)
            if type_ == CHAR:
                type_ = STRING
                layout = FixedText(np.dtype("S1"))
        if kind == api.h5s.NULL:
            return Attribute(name, type_, np.empty(0, type_.dtype))
        if len(attribute.shape) > 1:
            raise NetCDFFileError(
                f"the attribute {name!r} has {len(attribute.shape)} dimensions; netCDF allows 1"
            )
        raw = np.zeros(attribute.shape or (1,), layout.dtype)
        if raw.size:
            read_attribute(attribute, type_id, raw)
        values = decode(layout, raw, type_)
        if raw.size and has_pointers(layout):
            reclaim(type_id, raw)
        return Attribute(name, type_, values)


def _link_names(group: Any) -> list[bytes]:
    """Names of the links of a group, in order of creation where the file keeps it."""
    api = hdf5()
    tracked = group.get_create_plist().get_link_creation_order() & api.h5p.CRT_ORDER_TRACKED
    names: list[bytes] = []
    if len(group):
        group.links.iterate(
            names.append,
            idx_type=api.h5.INDEX_CRT_ORDER if tracked else api.h5.INDEX_NAME,
            order=api.h5.ITER_INC,
        )
    return names


def _attribute_ids(owner: Any) -> Iterator[Any]:
    """The attributes of an object in order of creation; by name where the file has lost that order."""
    api = hdf5()
    order = api.h5.INDEX_CRT_ORDER
    for i in range(api.h5a.get_num_attrs(owner)):
        try:
            yield api.h5a.open(owner, index=i, index_type=order, order=api.h5.ITER_INC)
        except (KeyError, ValueError, RuntimeError, OSError):
            if i or order == api.h5.INDEX_NAME:
                raise
            order = api.h5.INDEX_NAME
            yield api.h5a.open(owner, index=i, index_type=order, order=api.h5.ITER_INC)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _fill(type_: Type, attributes: tuple[Attribute, ...], plist: Any) -> Any:
    """The value beyond the end of a variable that is shorter than its unlimited dimension."""
    for attribute in attributes:
        if attribute.name == "_FillValue" and attribute.type == type_ and len(attribute.values) == 1:
            return attribute.values[0]
    defined = plist.fill_value_defined() == hdf5().h5d.FILL_VALUE_USER_DEFINED
    if defined and isinstance(type_, PrimitiveType) and type_ != STRING:
        value = np.zeros((), type_.dtype)
        plist.get_fill_value(value)
        return value[()]
    return default_fill(type_)


def _storage(plist: Any, type_: Type, layout: Layout) -> Storage:
    api = hdf5()
    kinds = {api.h5d.COMPACT: "compact", api.h5d.CONTIGUOUS: "contiguous", api.h5d.CHUNKED: "chunked"}
    kind = kinds.get(plist.get_layout())
    endian = "native"
    if isinstance(type_, PrimitiveType) and type_.dtype.kind in "iuf" and layout.dtype.itemsize > 1:
        endian = "big" if layout.dtype == layout.dtype.newbyteorder(">") else "little"
    return Storage(
        layout=kind,
        chunk_shape=tuple(plist.get_chunk()) if kind == "chunked" else None,
        filters=tuple(_filter(*plist.get_filter(i)[::2]) for i in range(plist.get_nfilters())),
        endian=endian,
        # As netCDF has it: without a fill value of its own, a variable is not filled.
        no_fill=plist.fill_value_defined() != api.h5d.FILL_VALUE_USER_DEFINED,
    )


def _filter(number: int, values: tuple[int, ...]) -> Filter:
    if number in (Filter.SHUFFLE, Filter.FLETCHER32):
        return Filter(number)
    if number == Filter.SZIP:
        return Filter(number, (values[0] & _SZIP_CHOICES, values[1]))
    return Filter(number, tuple(values))

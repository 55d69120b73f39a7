"""Write netCDF-4 files from the model, through h5py's low-level interface.

netCDF4-python cannot write opaque types, sequences of compounds or compounds with strings, so the HDF5 file is
made here as netCDF's library would make it: named types, dimension scales with netCDF's numbers, creation order
kept for everything.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from nczarr.errors import LossError, UnsupportedError
from nczarr.model import (
    CHAR,
    Attribute,
    Dataset,
    Dimension,
    Filter,
    Region,
    Variable,
    default_fill,
    forward_references,
    join_fqn,
    ordered_types,
    regions,
)
from nczarr.netcdf.hdf5.direct import set_fill_value, without_plugins, write_attribute, write_dataset
from nczarr.netcdf.hdf5.filters import complete, encode_chunk, filter_name, is_ours
from nczarr.netcdf.hdf5.guarded import GuardedFile
from nczarr.netcdf.hdf5.library import available_filter, hdf5, hdf5_errors
from nczarr.netcdf.hdf5.memory import MemoryLayout, encode, has_pointers
from nczarr.netcdf.hdf5.source import (
    chunks_of,
    decoded_chunk,
    fill_with,
    filters_of,
    hyperslab,
    lacks_chunks,
)
from nczarr.netcdf.hdf5.tree import NO_VARIABLE, NON_COORDINATE, ROOT_BOOKS, SCALE_BOOKS, VARIABLE_BOOKS
from nczarr.netcdf.hdf5.types import TypeWriter, record_bases
from nczarr.netcdf.sink import FileSink

_CHUNK_BYTES = 4 << 20
#: Filters with greater numbers are plugins.
_LAST_OWN = 255
_CHUNK_LIMIT = (1 << 32) - 1


class HDF5Sink(FileSink):
    """A netCDF-4 file that is being written."""

    def __init__(self, path: str, dataset: Dataset, overwrite: bool, *, strict: bool = False) -> None:
        super().__init__(path, dataset, overwrite)
        hdf5()
        _check_names(dataset, path)
        _check_types(dataset, path)
        self._types = TypeWriter()
        self._groups: dict[str, Any] = {}
        self._datasets: dict[str, tuple[Any, Any, MemoryLayout]] = {}
        self._encoded: set[str] = set()  # variables whose chunks are encoded here, not by HDF5
        self._numbers = {fqn: i for i, fqn in enumerate(dataset.all_dimensions)}
        self._scales: dict[str, Any] = {}
        self._file: Any = None
        self._disk: GuardedFile | None = None
        try:
            with hdf5_errors(path, doing="the file cannot be written"):
                self._create(strict)
                self._check()
        except BaseException:
            self.abort()
            raise

    def _create(self, strict: bool) -> None:
        api = hdf5()
        self._disk = GuardedFile(self.temporary, "x+b")
        access = self._disk.access()
        access.set_libver_bounds(api.h5f.LIBVER_V18, api.h5f.LIBVER_V18)
        creation = api.h5p.create(api.h5p.FILE_CREATE)
        _track(creation, links=True)
        name = self.temporary.encode("utf-8", "surrogateescape")
        self._file = api.h5f.create(name, api.h5f.ACC_TRUNC, creation, access)
        root = api.h5g.open(self._file, b"/")
        self._put_text(root, b"_NCProperties", _provenance().encode())
        if strict:
            attribute = api.h5a.create(
                root, b"_nc3_strict", api.h5t.STD_I32LE, api.h5s.create(api.h5s.SCALAR)
            )
            attribute.write(np.ones((), "<i4"))
        self._groups["/"] = root
        for fqn, group in self.dataset.walk():
            for child in group.groups:
                creation = api.h5p.create(api.h5p.GROUP_CREATE)
                _track(creation, links=True)
                made = api.h5g.create(self._groups[fqn], _bytes(child.name), gcpl=creation)
                self._groups[join_fqn(fqn, child.name)] = made
        self._commit_types()
        for fqn, group in self.dataset.walk():
            for dimension in group.dimensions:
                self._put_dimension(fqn, dimension)
            for variable in group.variables:
                where = join_fqn(fqn, variable.name)
                with hdf5_errors(self.path, where, "the variable cannot be written"):
                    self._put_variable(fqn, where, variable)
        for fqn, variable in self.dataset.all_variables.items():
            with hdf5_errors(self.path, fqn, "the variable cannot be written"):
                self._attach(fqn, variable)
                self._put_attributes(self._datasets[fqn][0], fqn, variable.attributes)
        for fqn, group in self.dataset.walk():
            with hdf5_errors(self.path, fqn, "the group cannot be written"):
                self._put_attributes(self._groups[fqn], fqn, group.attributes)

    def _commit_types(self) -> None:
        """Commit the types in declared order; one that another needs first is committed before it."""
        declared = self.dataset.all_types.values()
        for group_fqn, group in self.dataset.walk():
            for type_ in ordered_types(group.types):
                with hdf5_errors(self.path, type_.fqn, "the type cannot be written"):
                    made = self._types.build(type_)
                    made.commit(self._groups[group_fqn], _bytes(type_.name))
                    record_bases(made, type_, declared)
                    self._types.committed[type_.fqn] = made

    # -- dimensions

    def _put_dimension(self, group: str, dimension: Dimension) -> None:
        """A dimension without a coordinate variable is a dataset of its own, without data."""
        fqn = join_fqn(group, dimension.name)
        if self._coordinate(fqn) is not None:
            return
        api = hdf5()
        creation = api.h5p.create(api.h5p.DATASET_CREATE)
        _track(creation)
        limit = api.h5s.UNLIMITED if dimension.unlimited else dimension.size
        if dimension.unlimited:
            creation.set_chunk((1024,))
        space = api.h5s.create_simple((dimension.size,), (limit,))
        with hdf5_errors(self.path, fqn, "the dimension cannot be written"):
            made = api.h5d.create(
                self._groups[group], _bytes(dimension.name), api.h5t.IEEE_F32BE, space, creation
            )
            api.h5ds.set_scale(made, NO_VARIABLE + b".%10d" % dimension.size)
            self._put_books(made, b"_Netcdf4Dimid", (self._numbers[fqn],), scalar=True)
            self._scales[fqn] = made

    def _coordinate(self, dimension: str) -> Variable | None:
        """The coordinate variable of a dimension: of its name, in its group, with it as the first dimension."""
        variable = self.dataset.all_variables.get(dimension)
        if variable is not None and variable.dimensions and variable.dimensions[0] == dimension:
            return variable
        return None

    def _attach(self, fqn: str, variable: Variable) -> None:
        dataset = self._datasets[fqn][0]
        if not variable.dimensions:
            return
        numbers = tuple(self._numbers[str(d)] for d in variable.dimensions)
        if self._coordinate(fqn) is None:
            for axis, dimension in enumerate(variable.dimensions):
                hdf5().h5ds.attach_scale(dataset, self._scales[str(dimension)], axis)
            self._put_books(dataset, b"_Netcdf4Coordinates", numbers)
        elif len(numbers) > 1:
            self._put_books(dataset, b"_Netcdf4Coordinates", numbers)

    # -- variables

    def _put_variable(self, group: str, fqn: str, variable: Variable) -> None:
        api = hdf5()
        type_id = self._types.make(variable.type, variable.storage.endian)
        shape = self.dataset.shape(variable)
        chunk = self._chunks(variable, shape, type_id.get_size())
        if shape:
            limits = tuple(
                api.h5s.UNLIMITED
                if self.dataset.is_unlimited(reference)
                else size or int(chunk is not None)  # HDF5 wants the limit to be at least a chunk
                for reference, size in zip(variable.dimensions, shape, strict=True)
            )
            space = api.h5s.create_simple(shape, limits)
        else:
            space = api.h5s.create(api.h5s.SCALAR)
        name = _bytes(variable.name)
        coordinate = self._coordinate(fqn) is not None
        if not coordinate and fqn in self._numbers:
            name = NON_COORDINATE + name
        layout = self._types.layout(variable.type, type_id)
        if has_pointers(layout) and is_ours(variable.storage.filters):
            # A chunk holds references only: a plugin has nothing to compress, and netCDF refuses it there.
            own = tuple(f for f in variable.storage.filters if f.id <= _LAST_OWN)
            variable = replace(variable, storage=replace(variable.storage, filters=own))
        ours = is_ours(variable.storage.filters) and chunk is not None
        with without_plugins(f.id for f in variable.storage.filters) if ours else nullcontext():
            creation = self._creation(fqn, variable, chunk, type_id, layout)
            made = api.h5d.create(self._groups[group], name, type_id, space, creation)
        if coordinate:
            api.h5ds.set_scale(made, _bytes(variable.name))
            self._put_books(made, b"_Netcdf4Dimid", (self._numbers[fqn],), scalar=True)
            self._scales[fqn] = made
        self._datasets[fqn] = (made, type_id, layout)
        if ours:
            self._encoded.add(fqn)

    def _creation(
        self, fqn: str, variable: Variable, chunk: tuple[int, ...] | None, type_id: Any, layout: MemoryLayout
    ) -> Any:
        api = hdf5()
        storage = variable.storage
        creation = api.h5p.create(api.h5p.DATASET_CREATE)
        _track(creation)
        if chunk is not None:
            creation.set_chunk(chunk)
            size = math.prod(chunk) * type_id.get_size()
            for filter_ in storage.filters:
                if is_ours(storage.filters) and filter_.id > _LAST_OWN:
                    filter_ = complete(filter_, type_id.get_size(), size)
                    creation.set_filter(filter_.id, api.h5z.FLAG_OPTIONAL, filter_.parameters)
                else:
                    self._put_filter(creation, filter_, fqn)
        elif storage.layout == "compact" and self._bytes_of(variable, type_id) < 1 << 16:
            creation.set_layout(api.h5d.COMPACT)
        if storage.no_fill:
            if not has_pointers(layout):  # HDF5 must know that pointers are none
                creation.set_fill_time(api.h5d.FILL_TIME_NEVER)
            return creation
        keep: list[Any] = []
        value = np.empty(1, variable.type.dtype)
        value[0] = fill_value(variable)
        set_fill_value(creation, type_id, encode(layout, value, variable.type, keep))
        return creation

    def _bytes_of(self, variable: Variable, type_id: Any) -> int:
        return int(type_id.get_size()) * math.prod(self.dataset.shape(variable))

    def _chunks(self, variable: Variable, shape: tuple[int, ...], itemsize: int) -> tuple[int, ...] | None:
        storage = variable.storage
        grows = [self.dataset.is_unlimited(reference) for reference in variable.dimensions]
        chunked = storage.layout == "chunked" or storage.chunk_shape is not None or storage.filters
        if not shape or not (chunked or any(grows)):
            return None
        chunk = list(storage.chunk_shape or _default_chunk(shape, grows, itemsize))
        chunk = [c if g else max(1, min(c, n)) for c, n, g in zip(chunk, shape, grows, strict=True)]
        while math.prod(chunk) * itemsize > _CHUNK_LIMIT:
            axis = chunk.index(max(chunk))
            chunk[axis] = -(-chunk[axis] // 2)
        return tuple(chunk)

    def _put_filter(self, creation: Any, filter_: Filter, fqn: str) -> None:
        if not available_filter(filter_.id):
            raise UnsupportedError(
                f"HDF5 here has no filter {filter_name(filter_.id)}",
                path=self.path,
                fqn=fqn,
                hint="install hdf5plugin, or take the filter off the variable",
            )
        if filter_.id == Filter.SHUFFLE:
            creation.set_shuffle()
        elif filter_.id == Filter.FLETCHER32:
            creation.set_fletcher32()
        elif filter_.id == Filter.SZIP:
            creation.set_szip(*filter_.parameters[:2])
        else:
            creation.set_filter(filter_.id, hdf5().h5z.FLAG_OPTIONAL, filter_.parameters)

    # -- attributes

    def _put_attributes(self, owner: Any, fqn: str, attributes: tuple[Attribute, ...]) -> None:
        for attribute in attributes:
            with hdf5_errors(self.path, fqn, f"the attribute {attribute.name!r} cannot be written"):
                self._put_attribute(owner, attribute, fqn)

    def _put_attribute(self, owner: Any, attribute: Attribute, fqn: str) -> None:
        api = hdf5()
        name = _bytes(attribute.name)
        if api.h5a.exists(owner, name):
            raise LossError("the name is one of netCDF-4's own", path=self.path, fqn=fqn)
        if attribute.type == CHAR and attribute.values.size:
            self._put_text(owner, name, attribute.values.tobytes())
            return
        type_id = self._types.make(attribute.type)
        if not attribute.values.size:
            api.h5a.create(owner, name, type_id, api.h5s.create(api.h5s.NULL))
            return
        made = api.h5a.create(owner, name, type_id, api.h5s.create_simple(attribute.values.shape))
        layout = self._types.layout(attribute.type, type_id)
        keep: list[Any] = []
        write_attribute(made, type_id, encode(layout, attribute.values, attribute.type, keep))

    def _put_text(self, owner: Any, name: bytes, text: bytes) -> None:
        api = hdf5()
        type_id = api.h5t.C_S1.copy()
        type_id.set_size(len(text))
        type_id.set_strpad(api.h5t.STR_NULLTERM)
        made = api.h5a.create(owner, name, type_id, api.h5s.create(api.h5s.SCALAR))
        made.write(np.frombuffer(text, "S1"), type_id)

    def _put_books(self, owner: Any, name: bytes, values: tuple[int, ...], *, scalar: bool = False) -> None:
        """An integer attribute of netCDF's bookkeeping."""
        api = hdf5()
        space = api.h5s.create(api.h5s.SCALAR) if scalar else api.h5s.create_simple((len(values),))
        made = api.h5a.create(owner, name, api.h5t.STD_I32LE, space)
        made.write(np.array(values[0] if scalar else values, "<i4"))

    # -- values

    def _chunk_shape(self, fqn: str, variable: Variable) -> tuple[int, ...]:
        shape = self.dataset.shape(variable)
        return self._chunks(variable, shape, self._datasets[fqn][1].get_size()) or (1,) * len(shape)

    def _write(self, fqn: str, variable: Variable, region: Region, values: np.ndarray) -> None:
        dataset, type_id, layout = self._datasets[fqn]
        keep: list[Any] = []
        raw = encode(layout, values, variable.type, keep)
        with hdf5_errors(self.path, fqn, "the values cannot be written"):
            self._check()
            if fqn in self._encoded:
                self._write_chunks(dataset, region, raw)
            else:
                memory, chosen = hyperslab(dataset, tuple(range(s.start, s.stop) for s in region))
                write_dataset(dataset, type_id, memory, chosen, raw)
            self._check()

    def _check(self) -> None:
        assert self._disk is not None
        self._disk.check(self.path)

    def _write_chunks(self, dataset: Any, region: Region, values: np.ndarray) -> None:
        """Write chunk by chunk what has filters that HDF5 itself lacks."""
        plist = dataset.get_create_plist()
        shape, filters = plist.get_chunk(), filters_of(plist)
        axes = tuple(range(s.start, s.stop) for s in region)
        for origin, place, inside in chunks_of(dataset, axes):
            whole = all(
                a.start == o and a.stop == min(o + c, n)
                for a, o, c, n in zip(inside, origin, shape, dataset.shape, strict=True)
            )
            if whole:
                chunk = np.zeros(shape, values.dtype)
            else:
                chunk = decoded_chunk(dataset, origin, values.dtype).copy()
            chunk[tuple(slice(a.start - o, a.stop - o) for a, o in zip(inside, origin, strict=True))] = (
                values[place]
            )
            dataset.write_direct_chunk(origin, encode_chunk(chunk, filters, values.dtype.itemsize), 0)

    def _finish(self) -> None:
        with hdf5_errors(self.path, doing="the file cannot be written"):
            for fqn, (dataset, _, layout) in self._datasets.items():
                if has_pointers(layout) and lacks_chunks(dataset):
                    self._fill_chunks(fqn, dataset)
            # What fails while objects are closed is not told to anybody: all must be in the file before.
            hdf5().h5f.flush(self._file, hdf5().h5f.SCOPE_GLOBAL)
            self._check()
            self._close()
            self._check()

    def _fill_chunks(self, fqn: str, dataset: Any) -> None:
        """Write the chunks of strings or sequences that nobody has: HDF5 could not read them otherwise."""
        variable = self.dataset.variable_at(fqn)
        for region in regions(dataset.shape, dataset.get_create_plist().get_chunk()):
            origin = tuple(s.start for s in region)
            if dataset.get_chunk_info_by_coord(origin).byte_offset is None:
                values = np.empty([s.stop - s.start for s in region], variable.type.dtype)
                fill_with(values, fill_value(variable))
                self._write(fqn, variable, region, values)

    def _close(self) -> None:
        with hdf5().phil:
            self._datasets.clear()
            self._scales.clear()
            self._groups.clear()
            self._types.committed.clear()
            if self._file is not None:
                self._file.close()
                self._file = None
            if self._disk is not None:
                self._disk.close()


def fill_value(variable: Variable) -> Any:
    """The value of what is never written: ``_FillValue``, or netCDF's default, or zeros for user types."""
    attribute = variable.attribute.get("_FillValue")
    if attribute is not None and attribute.type == variable.type and len(attribute.values) == 1:
        return attribute.values[0]
    return default_fill(variable.type)


def _default_chunk(shape: tuple[int, ...], grows: list[bool], itemsize: int) -> list[int]:
    """One step along each unlimited dimension, the rest whole, in chunks of a few MiB; long if there is no rest."""
    if all(grows):
        side = max(1, int((_CHUNK_BYTES // 4 // itemsize) ** (1 / len(shape))))
        return [min(side, 1024)] * len(shape)
    chunk = [1 if g else n for n, g in zip(shape, grows, strict=True)]
    while math.prod(chunk) * itemsize > _CHUNK_BYTES:
        axis = chunk.index(max(chunk))
        if chunk[axis] == 1:
            break
        chunk[axis] = -(-chunk[axis] // 2)
    return chunk


def _track(creation: Any, *, links: bool = False) -> None:
    """Keep the order in which attributes (and links) are made, and no times: equal input gives equal files."""
    h5p = hdf5().h5p
    both = h5p.CRT_ORDER_TRACKED | h5p.CRT_ORDER_INDEXED
    creation.set_attr_creation_order(both)
    if links:
        creation.set_link_creation_order(both)
    creation.set_obj_track_times(False)


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _provenance() -> str:
    try:
        own = version("nczarr")
    except PackageNotFoundError:
        own = "unknown"
    library = hdf5().version
    return f"version=2,nczarr={own},hdf5={library.hdf5_version},h5py={library.version}"


def _check_names(dataset: Dataset, path: str) -> None:
    """HDF5 has one space of names in a group, and netCDF-4 keeps its books in attributes."""
    for fqn, group in dataset.walk():
        taken: dict[str, str] = {}
        for what, name in _link_names(group):
            if taken.setdefault(name, what) != what:
                raise LossError(
                    f"netCDF-4 cannot hold a {taken[name]} and a {what} of one name",
                    path=path,
                    fqn=join_fqn(fqn, name),
                )
        reserved = {name.decode() for name in ROOT_BOOKS} if fqn == "/" else set()
        for owner, attributes, names in [
            (fqn, group.attributes, reserved),
            *((join_fqn(fqn, v.name), v.attributes, _books(v)) for v in group.variables),
        ]:
            for attribute in attributes:
                if attribute.name in names:
                    raise LossError(
                        f"netCDF-4 needs the attribute name {attribute.name!r} for itself",
                        path=path,
                        fqn=owner,
                    )


def _check_types(dataset: Dataset, path: str) -> None:
    """netCDF's library reads a file group by group, and finds no type of a group that comes later."""
    for fqn, type_ in forward_references(dataset, attributes=False):
        raise LossError(
            f"netCDF-4 cannot hold a use of the type {type_.fqn} before the group that declares it",
            path=path,
            fqn=fqn,
            hint="declare the type in the root group",
        )


def _link_names(group: Any) -> Iterator[tuple[str, str]]:
    for type_ in group.types:
        yield "type", type_.name
    for variable in group.variables:
        yield "variable", variable.name
    for child in group.groups:
        yield "group", child.name
    variables = {v.name for v in group.variables}
    for dimension in group.dimensions:
        if dimension.name not in variables:
            yield "dimension", dimension.name


def _books(variable: Variable) -> set[str]:
    return {name.decode() for name in VARIABLE_BOOKS | SCALE_BOOKS}

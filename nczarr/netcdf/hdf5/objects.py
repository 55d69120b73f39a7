"""Create the objects of a netCDF-4 file: groups, named types, dimension scales, datasets, attributes.

netCDF4-python cannot write opaque types, sequences of compounds or compounds with strings. This module
creates HDF5 objects as the netCDF library does: named types, dimension scales with netCDF's numbers, and
creation order for all objects.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from contextlib import nullcontext
from dataclasses import replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import numpy as np

from nczarr import model
from nczarr.compression import BUILT_IN, netcdf_filters
from nczarr.errors import LossError, UnsupportedError
from nczarr.lazy import cached_property
from nczarr.model.chunk_shapes import default_chunks
from nczarr.netcdf.bytes.file import bytes_of
from nczarr.netcdf.hdf5 import types
from nczarr.netcdf.hdf5.chunks import complete, describe_filter, is_ours
from nczarr.netcdf.hdf5.library import (
    available_filter,
    call,
    hdf5,
    hdf5_errors,
    make_attribute,
    without_plugins,
)
from nczarr.netcdf.hdf5.source import OpenDataset
from nczarr.netcdf.hdf5.tree import HIDDEN, NO_VARIABLE

if TYPE_CHECKING:
    from h5py import h5d, h5f, h5g, h5p, h5s, h5t
    from h5py._objects import ObjectID

#: Size limit of default chunks, and their length if all dimensions are unlimited.
_CHUNK_BYTES, _LONE_STEPS = 4 << 20, 1024
#: Number of text types in the cache.
_TEXT_TYPES = 256
#: HDF5 limits a chunk to 4 GiB.
_CHUNK_LIMIT = (1 << 32) - 1
#: Size limit of a fill value, which is in the object header.
_LARGEST_FILL = 65_000


class ObjectMaker:
    """Creates the objects of one file. The caller of its methods holds HDF5's lock.

    Attributes
    ----------
    path : str
        The path in error messages.
    committed : dict of TypeID
        The named types of the file, by FQN.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.committed: dict[str, h5t.TypeID] = {}
        #: HDF5's string types by length.
        self._texts: dict[int, h5t.TypeID] = {}

    def file(self, name: str, access: h5p.PropFAID, *, strict: bool) -> h5f.FileID:
        """Create a file with netCDF's own attributes only; `strict` selects the classic model."""
        api = hdf5()
        # As in the netCDF library: older versions of HDF5 cannot read later forms of objects.
        access.set_libver_bounds(api.h5f.LIBVER_V18, api.h5f.LIBVER_V18)
        creation = api.h5p.create(api.h5p.FILE_CREATE)
        track(creation, links=True)
        made = api.h5f.create(bytes_of(name), api.h5f.ACC_TRUNC, creation, access)
        root = api.h5g.open(made, b"/")
        self.text(root, b"_NCProperties", _provenance().encode())
        # netCDF-C knows the classic model by this attribute.
        if strict:
            self.write_internal_attribute(root, b"_nc3_strict", (1,), scalar=True)
        return made

    def group(self, parent: h5g.GroupID, name: str) -> h5g.GroupID:
        """Create a group."""
        creation = hdf5().h5p.create(hdf5().h5p.GROUP_CREATE)
        track(creation, links=True)
        return hdf5().h5g.create(parent, bytes_of(name), gcpl=creation)

    def type(self, group: h5g.GroupID, type_: model.UserType, declared: Collection[model.UserType]) -> None:
        """Commit a type. The types that it contains are committed already."""
        with hdf5().phil, hdf5_errors(self.path, type_.fqn, "the type cannot be written"):
            made = types.build_type(type_, self.committed)
            made.commit(group, bytes_of(type_.name))
            bases = types.bases_to_record(type_, declared)
            if bases is not None:
                self.text(made, types.BASES, bytes_of(bases))
            self.committed[type_.fqn] = made

    def check_type(self, type_: model.UserType) -> None:
        """Raise the errors of :meth:`type` for the type's definition, without creating anything."""
        with hdf5().phil, hdf5_errors(self.path, type_.fqn, "the type cannot be written"):
            types.build_type(type_, self.committed)

    def dimension(
        self, group: h5g.GroupID, dimension: model.Dimension, number: int, fqn: str
    ) -> h5d.DatasetID:
        """Create the scale of a dimension without a coordinate variable: a dataset without data."""
        api = hdf5()
        creation = api.h5p.create(api.h5p.DATASET_CREATE)
        track(creation)
        limit = api.h5s.UNLIMITED if dimension.unlimited else dimension.size
        # HDF5 lets only chunked datasets grow.
        if dimension.unlimited:
            creation.set_chunk((1024,))
        space = api.h5s.create_simple((dimension.size,), (limit,))
        with hdf5().phil, hdf5_errors(self.path, fqn, "the dimension cannot be written"):
            made = api.h5d.create(group, bytes_of(dimension.name), api.h5t.IEEE_F32BE, space, creation)
            api.h5ds.set_scale(made, NO_VARIABLE + b".%10d" % dimension.size)
            self.write_internal_attribute(made, b"_Netcdf4Dimid", (number,), scalar=True)
        return made

    def check(self, variable: model.Variable, dataset: model.Dataset, fqn: str) -> None:
        """Raise the errors of :meth:`variable` for a filter or a type, without creating anything."""
        variable = _with_filters(variable)
        with hdf5().phil, hdf5_errors(self.path, fqn, "the variable cannot be written"):
            type_id = types.make_type(variable.type, self.committed, variable.storage.endian)
            if type_id.get_size() > _LARGEST_FILL and not variable.storage.no_fill:
                raise UnsupportedError(
                    f"a value has {type_id.get_size()} bytes; HDF5 limits a fill value to {_LARGEST_FILL} bytes"
                )
            if math.prod(dataset.shape_of(variable)) * type_id.get_size() >= 1 << 64:
                raise UnsupportedError(
                    f"the variable's size exceeds HDF5's 64-bit byte count; the shape is {dataset.shape_of(variable)}"
                )
            layout = types.layout_of(type_id, variable.type)
            if not layout.has_pointers and not is_ours(variable.storage.filters):
                for filter_ in variable.storage.filters:
                    self._put_filter(hdf5().h5p.create(hdf5().h5p.DATASET_CREATE), filter_)

    def variable(
        self, group: h5g.GroupID, link: bytes, variable: model.Variable, dataset: model.Dataset
    ) -> OpenDataset:
        """Create the HDF5 dataset of a variable, without attributes and dimension scales.

        The caller adds the path and the FQN to errors.
        """
        variable = _with_filters(variable)
        api, storage = hdf5(), variable.storage
        type_id = types.make_type(variable.type, self.committed, storage.endian)
        layout, itemsize = types.layout_of(type_id, variable.type), type_id.get_size()
        shape = dataset.shape_of(variable)
        grows = tuple(dataset.is_unlimited(reference) for reference in variable.dimensions)
        chunk = chunk_shape(variable, shape, grows, itemsize)
        if shape:
            limits = tuple(
                api.h5s.UNLIMITED
                if unlimited
                else size or int(chunk is not None)  # HDF5 requires a limit of at least one chunk
                for unlimited, size in zip(grows, shape, strict=True)
            )
            space = api.h5s.create_simple(shape, limits)
        else:
            space = api.h5s.create(api.h5s.SCALAR)
        filters, ours = storage.filters, is_ours(storage.filters)
        if ours and layout.has_pointers:
            # A chunk contains references only: plugins gain nothing, and netCDF refuses them there.
            filters, ours = tuple(f for f in filters if f.id in BUILT_IN), False
        ours = ours and chunk is not None
        creation = api.h5p.create(api.h5p.DATASET_CREATE)
        track(creation)
        with without_plugins(f.id for f in filters) if ours else nullcontext():
            if chunk is not None:
                creation.set_chunk(chunk)
                for filter_ in filters:
                    # The checksum would cover the pointers, not their targets. Newer versions of HDF5 refuse it.
                    if filter_.id == model.Filter.FLETCHER32 and layout.has_pointers:
                        continue
                    if ours and filter_.id not in BUILT_IN:
                        filter_ = complete(filter_, itemsize, math.prod(chunk) * itemsize)
                        creation.set_filter(filter_.id, api.h5z.FLAG_OPTIONAL, filter_.parameters)
                    else:
                        self._put_filter(creation, filter_)
            # HDF5 keeps compact values in the object's header, which is limited to 64 KiB.
            elif storage.layout == "compact" and math.prod(shape) * itemsize < 1 << 16:
                creation.set_layout(api.h5d.COMPACT)
            if not storage.no_fill:
                keep: list[object] = []
                value = np.empty(1, variable.type.dtype)
                value[0] = model.fill_value_of(variable)
                call("H5Pset_fill_value", creation, type_id, layout.encode(value, variable.type, keep))
            elif not layout.has_pointers:  # HDF5 must set unwritten pointers to NULL
                creation.set_fill_time(api.h5d.FILL_TIME_NEVER)
            made = OpenDataset(api.h5d.create(group, link, type_id, space, creation))
        # HDF5 would have to be asked for these.
        made.type_id, made.chunk, made.is_ours, made.filters = type_id, chunk, ours, filters
        return made

    def _put_filter(self, creation: h5p.PropDCID, filter_: model.Filter) -> None:
        if not available_filter(filter_.id):
            raise UnsupportedError(
                f"the installed HDF5 has no filter {describe_filter(filter_.id)}",
                hint="install hdf5plugin, or remove the filter from the variable",
            )
        if filter_.id == model.Filter.SHUFFLE:
            creation.set_shuffle()
        elif filter_.id == model.Filter.FLETCHER32:
            creation.set_fletcher32()
        elif filter_.id == model.Filter.SZIP:
            creation.set_szip(*filter_.parameters[:2])
        else:
            creation.set_filter(filter_.id, hdf5().h5z.FLAG_OPTIONAL, filter_.parameters)

    def attributes(self, owner: ObjectID, attributes: Iterable[model.Attribute], fqn: str) -> None:
        """Create attributes."""
        errors = hdf5_errors(self.path, fqn)
        with errors:
            for attribute in attributes:
                errors.doing = f"the attribute {attribute.name!r} cannot be written"
                keep: list[object] = []
                name, form = bytes_of(attribute.name), self.attribute_form(attribute, keep)
                make_attribute(owner, name, *form)

    def overwrite_attribute(self, owner: ObjectID, attribute: model.Attribute, fqn: str) -> bool:
        """Write other values to an existing attribute. Return False if its type or size differs."""
        name = bytes_of(attribute.name)
        with hdf5_errors(self.path, fqn, f"the attribute {attribute.name!r} cannot be written"):
            # An empty attribute has a null dataspace, which takes no values.
            if not attribute.values.size or not hdf5().h5a.exists(owner, name):
                return False
            keep: list[object] = []
            type_id, space, raw = self.attribute_form(attribute, keep)
            current = hdf5().h5a.open(owner, name)
            # An attribute that is written again keeps its place: HDF5 orders by creation.
            same = current.shape == space.shape and type_id.equal(current.get_type())
            if same:
                call("H5Awrite", current, type_id, raw)
            return bool(same)

    def attribute_form(
        self, attribute: model.Attribute, keep: list[object]
    ) -> tuple[h5t.TypeID, h5s.SpaceID, object]:
        """Return the HDF5 type, the dataspace and the raw values of an attribute; see :func:`encode` for `keep`."""
        type_, values = attribute.type, attribute.values
        if type_ == model.CHAR and values.size:
            return self._text_type(values.size), self._scalar, values.tobytes()
        type_id = types.make_type(type_, self.committed)
        # An attribute without values is a null dataspace in netCDF-C's files.
        if not values.size:
            return type_id, hdf5().h5s.create(hdf5().h5s.NULL), None
        space = self._one if values.size == 1 else hdf5().h5s.create_simple(values.shape)
        if type_.is_atomic and type_ != model.STRING:  # most attributes: without a layout
            return type_id, space, values.astype(type_.dtype, copy=False).tobytes()
        return type_id, space, types.layout_of(type_id, type_).encode(values, type_, keep)

    def text(self, owner: ObjectID, name: bytes, text: bytes) -> None:
        """Create an attribute of characters."""
        make_attribute(owner, name, self._text_type(len(text)), self._scalar, text)

    def _text_type(self, size: int) -> h5t.TypeID:
        found = self._texts.get(size)
        if found is None:
            found = hdf5().h5t.C_S1.copy()
            found.set_size(size)
            found.set_strpad(hdf5().h5t.STR_NULLTERM)
            # Texts of very many lengths would keep as many types open.
            if len(self._texts) < _TEXT_TYPES:
                self._texts[size] = found
        return found

    @cached_property
    def _one(self) -> h5s.SpaceID:
        return hdf5().h5s.create_simple((1,))

    @cached_property
    def _scalar(self) -> h5s.SpaceID:
        return hdf5().h5s.create(hdf5().h5s.SCALAR)

    def write_internal_attribute(
        self, owner: ObjectID, name: bytes, values: tuple[int, ...], *, scalar: bool = False
    ) -> None:
        """Create an integer attribute of netCDF's bookkeeping."""
        api = hdf5()
        space = api.h5s.create(api.h5s.SCALAR) if scalar else api.h5s.create_simple((len(values),))
        make_attribute(owner, name, api.h5t.STD_I32LE, space, np.array(values, "<i4"))


def _with_filters(variable: model.Variable) -> model.Variable:
    """Return a variable with filters for its codecs; raise UnsupportedError if HDF5 has none for one of them."""
    storage = variable.storage
    # A scalar has no chunks, and so no filters.
    if storage.codecs is None or not variable.dimensions:
        return variable
    found = netcdf_filters(storage.filters, storage.codecs)
    if found.missing:
        raise UnsupportedError(
            f"HDF5 has no filter for the codec {found.missing[0]!r}", hint="zlib, or zstd, which is a plugin"
        )
    return replace(variable, storage=replace(storage, filters=found.filters, codecs=None))


def coordinate_of(dataset: model.Dataset, dimension: str) -> model.Variable | None:
    """Return the coordinate variable of a dimension, or None.

    It has the dimension's name and group, and the dimension is its first one.
    """
    variable = dataset.all_variables.get(dimension)
    if variable is not None and variable.dimensions and variable.dimensions[0] == dimension:
        return variable
    return None


def chunk_shape(
    variable: model.Variable, shape: tuple[int, ...], grows: tuple[bool, ...], itemsize: int
) -> tuple[int, ...] | None:
    """Return the chunk shape of a variable, or None for a contiguous one."""
    storage = variable.storage
    chunked = storage.layout == "chunked" or storage.chunk_shape is not None or storage.filters
    if not shape or not (chunked or any(grows)):
        return None
    chunk = list(storage.chunk_shape or ())
    if not chunk:  # choose as for an empty variable, since later writers append steps
        start = [0 if g else n for n, g in zip(shape, grows, strict=True)]
        steps = _LONE_STEPS if all(grows) else 1
        chunk = list(default_chunks(start, grows, itemsize, target=_CHUNK_BYTES // 2, growing_steps=steps))
    chunk = [c if g else max(1, min(c, n)) for c, n, g in zip(chunk, shape, grows, strict=True)]
    # A chunk shape that comes from Zarr may be larger.
    while math.prod(chunk) * itemsize > _CHUNK_LIMIT:
        axis = chunk.index(max(chunk))
        chunk[axis] = -(-chunk[axis] // 2)
    return tuple(chunk)


def track(creation: h5p.PropDCID, *, links: bool = False) -> None:
    """Track the creation order of attributes (and links) and store no times: equal input gives equal files."""
    h5p = hdf5().h5p
    both = h5p.CRT_ORDER_TRACKED | h5p.CRT_ORDER_INDEXED
    creation.set_attr_creation_order(both)
    if links:
        creation.set_link_creation_order(both)
    creation.set_obj_track_times(False)


def check_names(dataset: model.Dataset, path: str) -> None:
    """Refuse what the format cannot name, or the netCDF library cannot find.

    That are names that clash in a group's single HDF5 name space, netCDF-4's bookkeeping names, and types that are
    used before their group: the library reads a file group by group.
    """
    # The netCDF library hides such an attribute, so nothing could read it back.
    books = {name.decode() for name in HIDDEN}
    for fqn, group in dataset.walk():
        taken: dict[str, str] = {}
        links = [("type", t.name) for t in group.types] + [("variable", v.name) for v in group.variables]
        # The scale of a dimension is the variable of its name, if there is one.
        scales = {d.name for d in group.dimensions} - {v.name for v in group.variables}
        links += [("group", g.name) for g in group.groups] + [("dimension", name) for name in sorted(scales)]
        for kind, name in links:
            # Links of HDF5 share one name space.
            if taken.setdefault(name, kind) != kind:
                raise LossError(
                    f"netCDF-4 cannot store a {taken[name]} and a {kind} of the same name in one group",
                    path=path,
                    fqn=model.join_fqn(fqn, name),
                )
        named = [(model.join_fqn(fqn, v.name), a.name) for v in group.variables for a in v.attributes]
        named += [(fqn, a.name) for a in group.attributes]
        for owner, name in named:
            if name in books:
                raise LossError(f"netCDF-4 reserves the attribute name {name!r}", path=path, fqn=owner)
    for fqn, type_ in model.forward_references(dataset, attributes=False):
        raise LossError(
            f"netCDF-4 cannot store a use of the type {type_.fqn} before the group that declares it",
            path=path,
            fqn=fqn,
            hint="declare the type in the root group",
        )


@lru_cache(1)
def _provenance() -> str:
    try:
        own = version("nczarr")
    except PackageNotFoundError:
        own = "unknown"
    library = hdf5().version
    return f"version=2,nczarr={own},hdf5={library.hdf5_version},h5py={library.version}"

"""Read netCDF-4 files into the model, with the objects that the netCDF library finds in an HDF5 file.

h5py's low-level interface reads the file. netCDF4-python skips variables, types and attributes of types that
it does not know, and returns other attributes in a converted form.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nczarr import model
from nczarr.errors import NetCDFFileError
from nczarr.model.nodes import dataset_of
from nczarr.netcdf.bytes.file import text_of
from nczarr.netcdf.hdf5 import tree, types
from nczarr.netcdf.hdf5.library import call, hdf5, hdf5_errors, reclaim
from nczarr.netcdf.hdf5.source import HDF5File, HDF5Source
from nczarr.system.warning import warn

if TYPE_CHECKING:
    from h5py import h5a, h5d, h5p
    from h5py._objects import ObjectID

#: The entropy coding and the nearest neighbour coding: HDF5 adds bits of its own to the mask.
_SZIP_CHOICES = 4 | 32


class LeftOutWarning(UserWarning):
    """A part of a file is left out: netCDF has no type for it."""


def warn_of(lost: tuple[str, ...], path: str) -> None:
    """Name the parts that a file has and the model lacks, in a :class:`LeftOutWarning`."""
    warn(f"{path}: {'; '.join(lost[:3])} ({len(lost)} in all)", LeftOutWarning)


def read_hdf5(file: HDF5File, name: str) -> model.Dataset:
    """Read all metadata of an open file. The variables load their values on access.

    Raises
    ------
    NetCDFFileError
        If the file is damaged, or has an object that the model cannot represent. The message names it. Variables and
        attributes of types that netCDF lacks are left out, with a warning, and named in ``left_out``.
    """
    with hdf5().phil, hdf5_errors(file.path):
        return FoundObjects(file, name).dataset


class FoundObjects:
    """The objects of a file, and their model. The caller that makes one holds HDF5's lock.

    Attributes
    ----------
    dataset : Dataset
        The model.
    root : FoundGroup
        The groups with their objects.
    dimensions : FoundDimensions
    omitted : dict of str
        The reasons for which types, variables and attributes are left out, by FQN.
    """

    def __init__(self, file: HDF5File, name: str) -> None:
        self.file = file
        self.types = types.KnownTypes()
        self.omitted: dict[str, str] = {}
        self.root = root = tree.collect(file.id, file.path)
        named = [(group.fqn, fqn, type_id) for group in root.walk() for fqn, type_id in group.types]
        for group in root.walk():
            links = [link for link, *_ in group.datasets]
            self.types.taken.update(model.join_fqn(group.fqn, text_of(link)) for link in links)
            self.types.taken.update(child.fqn for child in group.groups)
        # Types without a name get one. It must not be that of another object.
        self.types.taken.update(fqn for _, fqn, _ in named)
        self.declared: dict[str, model.UserType] = self.types.declare(named)
        self.dimensions = tree.FoundDimensions(root, file.path)
        made = self.group(root)
        strict = hdf5().h5a.exists(root.id, b"_nc3_strict")
        self.dataset = dataset_of(made, name, "netCDF-4 classic model" if strict else "netCDF-4")
        if self.omitted or self.types.unknown or self.dimensions.unreachable:
            self.omitted.update(self.types.unknown)
            left_out = [f"{fqn!r} is left out: {reason}" for fqn, reason in self.omitted.items()]
            lost = (*left_out, *self.dimensions.unreachable)
            warn_of(lost, file.path)
            self.dataset = replace(self.dataset, left_out=lost)

    def group(self, found: tree.FoundGroup) -> model.Group:
        attributes = self.attributes(found.id, found.fqn, found.fqn)
        variables = tuple(self.variables(found))
        declared = [self.declared[fqn] for fqn, _ in found.types if fqn in self.declared]
        return model.Group(
            found.name,
            attributes=attributes,
            types=tuple(model.ordered_types((*declared, *self.types.unnamed.get(found.fqn, ())))),
            dimensions=tuple(self.dimensions.of_group.get(found.fqn, ())),
            variables=variables,
            groups=tuple(self.group(child) for child in found.groups),
        )

    def variables(self, group: tree.FoundGroup) -> Iterator[model.Variable]:
        for link, name, dataset in group.datasets:
            if name is not None:
                fqn = model.join_fqn(group.fqn, name)
                # One variable without a dataspace refused its whole file before.
                if fqn in self.dimensions.shapeless:
                    self.omitted[fqn] = self.dimensions.shapeless[fqn]
                    continue
                with hdf5().phil, hdf5_errors(self.file.path, fqn):
                    try:
                        made = self.variable(group, link, dataset, name, fqn)
                    # Files with references or bit fields were refused as a whole.
                    # netCDF4-python opens them without these variables.
                    except types.NoTypeError as error:
                        self.omitted[fqn] = error.message
                        continue
                yield made

    def variable(
        self, group: tree.FoundGroup, link: bytes, dataset: h5d.DatasetID, name: str, fqn: str
    ) -> model.Variable:
        type_, layout = self.types.find(dataset.get_type(), group.fqn)
        plist = dataset.get_create_plist()
        attributes = self.attributes(dataset, group.fqn, fqn)
        references: list[model.DimensionRef] = []
        shape = []
        for dimension, size in zip(self.dimensions.of_variable[fqn], dataset.shape, strict=True):
            if not dimension.unlimited and dimension.size != size:
                raise NetCDFFileError(
                    f"the variable has the size {size} where its dimension {dimension.fqn} has {dimension.size}"
                )
            references.append(dimension.fqn)
            shape.append(dimension.size)
        fill, stored = _fill(type_, attributes, plist), tuple(dataset.shape)
        return model.Variable(
            name,
            type_,
            tuple(references),
            attributes=attributes,
            storage=_storage(plist, type_, layout),
            data=HDF5Source(self.file, fqn, group.at(link), type_, layout, tuple(shape), stored, fill),
        )

    def attributes(self, owner: ObjectID, group: str, fqn: str) -> tuple[model.Attribute, ...]:
        made = []
        for attribute in _attribute_ids(owner):
            # The netCDF library hides these names (of PyTables, of HDF5's images), so no file takes them back.
            if attribute.name not in tree.HIDDEN:
                name = model.normalize_name(text_of(attribute.name))
                with hdf5().phil, hdf5_errors(self.file.path, fqn, f"the attribute {name!r} cannot be read"):
                    try:
                        made.append(self.attribute(attribute, name, group))
                    # The attribute is left out alone: one of two dimensions, as
                    # PyTables has it, refused its whole file.
                    except types.NoTypeError as error:
                        self.omitted[f"{fqn}@{name}"] = error.message
        return tuple(made)

    def attribute(self, attribute: h5a.AttrID, name: str, group: str) -> model.Attribute:
        api = hdf5()
        type_id = attribute.get_type()
        space = attribute.get_space()
        try:
            type_, layout = self.types.find(type_id, group)
        except types.NoTypeError:
            raise
        except NetCDFFileError as error:
            raise NetCDFFileError(f"the attribute {name!r} cannot be read: {error.message}") from None
        # The netCDF library lets HDF5 convert numbers of odd sizes to the next larger type.
        if isinstance(layout, types.Converted):
            type_id = types.memory_type(type_id)
        kind = space.get_simple_extent_type()
        if type_id.get_class() == api.h5t.STRING and not type_id.is_variable_str():
            scalar = kind != api.h5s.SIMPLE
            if scalar:  # text, which is netCDF's char
                raw = np.zeros(0 if kind == api.h5s.NULL else type_id.get_size(), "S1")
                if raw.size:
                    attribute.read(raw, type_id)
                return model.Attribute(name, model.CHAR, raw)
            if type_ == model.CHAR:
                type_ = model.STRING
                layout = types.FixedText(np.dtype("S1"), 1)
        if kind == api.h5s.NULL:
            return model.Attribute(name, type_, np.empty(0, type_.dtype))
        if len(attribute.shape) > 1:
            raise types.NoTypeError(f"it has {len(attribute.shape)} dimensions; netCDF allows 1")
        raw = np.zeros(attribute.shape or (1,), layout.dtype)
        if raw.size:
            call("H5Aread", attribute, type_id, raw)
        values = layout.decode(raw, type_)
        if raw.size and layout.has_pointers:
            reclaim(type_id, raw)
        return model.Attribute(name, type_, values)


def _attribute_ids(owner: ObjectID) -> Iterator[h5a.AttrID]:
    """Return the attributes of an object by creation order; HDF5 has some order where the file records none."""
    api = hdf5()
    for i in range(api.h5a.get_num_attrs(owner)):
        yield api.h5a.open(owner, index=i, index_type=api.h5.INDEX_CRT_ORDER, order=api.h5.ITER_INC)


def _fill(type_: model.Type, attributes: tuple[model.Attribute, ...], plist: h5p.PropDCID) -> object:
    """Return the value of elements beyond the end of a variable that is shorter than its unlimited dimension."""
    for attribute in attributes:
        if attribute.name == "_FillValue" and attribute.type == type_ and len(attribute.values) == 1:
            return attribute.values[0]
    defined = plist.fill_value_defined() == hdf5().h5d.FILL_VALUE_USER_DEFINED
    if defined and type_.value_type.is_atomic and type_ != model.STRING:
        value = np.zeros((), type_.dtype)
        plist.get_fill_value(value)
        return value[()]
    return model.default_fill(type_)


def _storage(plist: h5p.PropDCID, type_: model.Type, layout: types.MemoryLayout) -> model.Storage:
    api = hdf5()
    kinds = {api.h5d.COMPACT: "compact", api.h5d.CONTIGUOUS: "contiguous", api.h5d.CHUNKED: "chunked"}
    kind = kinds.get(plist.get_layout())
    filters = []
    for i in range(plist.get_nfilters()):
        number, parameters = plist.get_filter(i)[::2]
        # HDF5 adds parameters of its own: the size of an element to shuffle, bits to the mask of
        # szip.
        if number in (model.Filter.SHUFFLE, model.Filter.FLETCHER32):
            parameters = ()
        elif number == model.Filter.SZIP:
            parameters = (parameters[0] & _SZIP_CHOICES, parameters[1])
        filters.append(model.Filter(number, tuple(parameters)))
    endian = "native"
    if type_.is_number and layout.dtype.itemsize > 1:
        endian = "big" if layout.dtype == layout.dtype.newbyteorder(">") else "little"
    return model.Storage(
        layout=kind,
        chunk_shape=tuple(plist.get_chunk()) if kind == "chunked" else None,
        filters=tuple(filters),
        endian=endian,
        # As in netCDF, a variable whose dataset defines no fill value is in no-fill mode.
        no_fill=plist.fill_value_defined() != api.h5d.FILL_VALUE_USER_DEFINED,
    )

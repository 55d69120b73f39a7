"""Read and write the values of a netCDF-4 file, and change its objects from one model to another."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from nczarr import model
from nczarr.errors import ModelError, NCZarrError, NetCDFFileError, UnsupportedError, error_context
from nczarr.lazy import cached_property
from nczarr.model.parts import Addition, without
from nczarr.netcdf.bytes.file import bytes_of, text_of
from nczarr.netcdf.edit.editor import VALUE_BLOCK, Axes, EditedValues, Matches
from nczarr.netcdf.hdf5.library import hdf5, hdf5_errors
from nczarr.netcdf.hdf5.objects import ObjectMaker, coordinate_of
from nczarr.netcdf.hdf5.reader import FoundObjects
from nczarr.netcdf.hdf5.source import OWN_CACHE, HDF5File, HDF5Source, fill_with
from nczarr.netcdf.hdf5.tree import NON_COORDINATE, GroupObject
from nczarr.netcdf.hdf5.types import Converted, layout_of
from nczarr.transfer import block_shape

if TYPE_CHECKING:
    from h5py.h5d import DatasetID
    from h5py.h5g import GroupID
    from h5py.h5i import ObjectID

_DIMENSION_ID = b"_Netcdf4Dimid"
_COORDINATES = b"_Netcdf4Coordinates"
_SCALE = (b"CLASS", b"NAME", b"REFERENCE_LIST", _DIMENSION_ID)


Attributes: TypeAlias = tuple[model.Attribute, ...]
#: The group of a link, its name, and its new name.
Move: TypeAlias = "tuple[GroupID, bytes, bytes]"


@dataclass(eq=False)
class HDF5Values(HDF5Source, EditedValues):
    """The values of a variable, for reading and writing.

    Attributes
    ----------
    group, link : str, bytes
        The FQN of the variable's group, and the name of its link there.
    touched : bool
        True if the dataset was created or written to; values that HDF5 cannot read must not stay in it.
    """

    group: str
    link: bytes
    touched: bool = False

    def __post_init__(self) -> None:
        #: True if the values are strings or sequences.
        self.pointers = self.layout.has_pointers
        self.limited = self.layout.has_fixed_text or isinstance(self.layout, Converted)

    @cached_property
    def chunk_shape(self) -> tuple[int, ...]:
        """Return the chunk shape, or a block shape if the dataset has no chunks."""
        with hdf5().phil, hdf5_errors(self.file.path, self.fqn):
            chunk = self.file.opened(self.path).chunk
        unit = (1,) * len(self.shape)
        return chunk or block_shape(self.shape, unit, None, self.layout.dtype.itemsize, VALUE_BLOCK)

    def filled(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return an array of the unwritten value."""
        values = np.empty(shape, self.dtype)
        fill_with(values, self.fill)
        return values

    def check(self, values: np.ndarray) -> None:
        """Raise :class:`UnsupportedError` for a text longer than the file's strings, and for converted numbers."""
        # HDF5 would round the numbers to the form of the file without a word.
        if isinstance(self.layout, Converted):
            raise UnsupportedError(
                "the file stores numbers of a form that netCDF lacks; they are only readable",
                hint="copy the dataset, which stores them in their netCDF type",
            )
        self.layout.encode(values, self.type, [])

    def _read(self, axes: Axes) -> np.ndarray:
        return self.read(tuple([slice(a.start, a.stop, a.step) for a in axes]))

    def _write(self, axes: Axes, values: np.ndarray) -> None:
        if not values.size:
            return
        keep: list[object] = []
        file = self.file
        with error_context(file.path, fqn=self.fqn):
            raw = np.ascontiguousarray(self.layout.encode(values, self.type, keep)).reshape(values.shape)
        with hdf5().phil, hdf5_errors(file.path, self.fqn, "the values cannot be written"):
            file.check()
            opened = file.opened(self.path)
            needed = tuple([max(n, a[-1] + 1) for n, a in zip(self.stored, axes, strict=True)])
            if needed != self.stored:
                if any(n > most for n, most in zip(needed, self.shape, strict=True)):
                    raise NetCDFFileError(f"the index {needed} is outside the shape {self.shape}")
                opened.id.set_extent(needed)
                self.stored = needed
            origin = None
            # A whole chunk without filters needs neither HDF5's conversion nor its cache.
            if opened.chunk is not None and not opened.filters and not self.pointers:
                origin = _chunk_at(axes, opened.chunk)
            if origin is not None:
                opened.id.write_direct_chunk(origin, raw, 0)
            else:
                opened.write(axes, raw)
            self.touched = True
            file.check()

    def extend(self, shape: tuple[int, ...]) -> None:
        """Extend the HDF5 dataset to the length of its dimensions. The caller holds the lock."""
        if shape != self.stored:
            self.file.dataset(self.path).set_extent(shape)
            self.stored = shape

    def complete(self) -> None:
        """Write unwritten chunks of strings or sequences, which HDF5 cannot read otherwise."""
        with hdf5().phil, hdf5_errors(self.file.path, self.fqn, "the values cannot be written"):
            opened = self.file.opened(self.path)
            if not opened.lacks_chunks():
                return
            assert opened.chunk is not None
            for region in model.regions(opened.id.shape, opened.chunk):
                origin = tuple(s.start for s in region)
                if opened.id.get_chunk_info_by_coord(origin).byte_offset is None:
                    shape = tuple(s.stop - s.start for s in region)
                    self._write(tuple(range(s.start, s.stop) for s in region), self.filled(shape))


def _chunk_at(axes: Axes, chunk: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the origin of the chunk that ranges cover exactly, or None if they cover no whole chunk."""
    for axis, length in zip(axes, chunk, strict=True):
        if len(axis) != length or axis.start % length or (axis.step != 1 and length != 1):
            return None
    return tuple([axis.start for axis in axes])


@dataclass(eq=False)
class DimensionScale:
    """The scale of a dimension: its coordinate variable, or a dataset without data."""

    number: int
    group: str
    link: bytes
    owner: HDF5Values | None
    size: int


@dataclass
class HDF5Objects:
    """All objects of an editable file, by fully qualified name. The caller of its methods holds HDF5's lock.

    A dimension that is missing in `scales` has no scale in the file, as in files of some other programs.
    """

    file: HDF5File
    make: ObjectMaker
    groups: dict[str, GroupObject] = field(default_factory=dict)
    values: dict[str, HDF5Values] = field(default_factory=dict)
    scales: dict[str, DimensionScale] = field(default_factory=dict)
    next_number: int = 0

    def adopt(self, found: FoundObjects) -> None:
        """Create the index of an existing file's objects."""
        for group in found.root.walk():
            self.groups[group.fqn] = GroupObject(group.id, group.path)
            self.make.committed.update(group.types)
            for link, name, _ in group.datasets:
                fqn = model.join_fqn(group.fqn, name or "")
                if name is None or fqn in found.omitted:
                    continue
                source = found.dataset.variable_at(fqn).data
                assert isinstance(source, HDF5Source)
                self.values[fqn] = HDF5Values(**vars(source), group=group.fqn, link=link)
        by_path = {values.path: values for values in self.values.values()}
        self.next_number = found.dimensions.next_number
        for dimension in found.dimensions.dimensions.values():
            if dimension.link is None:
                continue
            link = dimension.link.rpartition(b"/")[2]
            owner = by_path.get(dimension.link)
            size = self.file.dataset(dimension.link).shape[0]
            self.scales[dimension.fqn] = DimensionScale(
                dimension.number, dimension.group.fqn, link, owner, size
            )

    def change(
        self, old: model.Dataset, new: model.Dataset, found: Matches
    ) -> tuple[model.Dataset, list[tuple[str, Exception]]]:
        """Change the file's content from `old` to `new`.

        Returns
        -------
        (Dataset, list of (str, Exception))
            The resulting content, which is `new` without the variables and attributes that HDF5 refused; and
            their FQNs with the reasons.

        Raises
        ------
        UnsupportedError, LossError, ModelError
            Before any change.
        """
        self._check(old, new, found)
        return _HDF5Change(self, old, new, found).all()

    def _check(self, old: model.Dataset, new: model.Dataset, found: Matches) -> None:
        # All refusals come before the first change, which HDF5 cannot take back.
        for fqn, type_ in new.all_types.items():
            if fqn not in old.all_types:
                self.make.check_type(type_)
        for fqn, variable in new.all_variables.items():
            was = found.variables.get(fqn)
            if was is None:
                self.make.check(variable, new, fqn)
                continue
            before = old.all_variables[was]
            same = type(before.type) is type(variable.type) and before.type.dtype == variable.type.dtype
            # HDF5 changes neither of an existing dataset.
            if not same or len(before.dimensions) != len(variable.dimensions):
                raise ModelError("the type and the rank of a variable cannot be changed", fqn=fqn)

    def lengthen(self, sizes: Mapping[str, int]) -> None:
        """Resize the scales of dimensions, given by FQN, to the dimensions' lengths."""
        for fqn, size in sizes.items():
            scale = self.scales.get(fqn)
            if scale is None:
                continue
            if scale.owner is not None:
                stored = scale.owner.stored
                # A smaller extent would cut off values.
                if stored[0] < size:
                    scale.owner.extend((size, *stored[1:]))
            elif scale.size < size:
                dataset = self.file.dataset(self.groups[scale.group].at(scale.link))
                dataset.set_extent((size,))
            scale.size = size


class _HDF5Change:
    """One change of a file, in the order of :meth:`all`.

    Each step finds the objects in the state that the previous step left.

    Attributes
    ----------
    values : dict
        The values of the new model's variables that exist.
    owners : dict
        The variable that is the scale of each dimension afterwards; None for a scale without data, and for a
        variable that does not exist yet.
    kept : dict
        The scales of dimensions that stay as they are, and then the new ones.
    numbers : dict
        netCDF's dimension numbers.
    detached : set
        The variables and axes that need a scale.
    """

    def __init__(self, objects: HDF5Objects, old: model.Dataset, new: model.Dataset, found: Matches) -> None:
        self.objects = objects
        self.make = objects.make
        self.file = objects.file
        self.old, self.new, self.found = old, new, found
        self.values = {fqn: objects.values[was] for fqn, was in found.variables.items()}
        self.owners: dict[str, HDF5Values | None] = {}
        self.kept: dict[str, DimensionScale] = {}
        self.numbers: dict[str, int] = {}
        self.detached: set[tuple[str, int]] = set()
        #: HDF5 datasets that this change creates, and objects that HDF5 refused.
        self.created: dict[HDF5Values, DatasetID] = {}
        self.refused: dict[Addition, Exception] = {}

    def all(self) -> tuple[model.Dataset, list[tuple[str, Exception]]]:
        for step in (
            self.change_groups,
            self.change_types,
            self.plan_scales,
            self.detach_scales,
            self.remove_objects,
            self.rename_objects,
            self.create_objects,
            self.attach_scales,
            self.index_objects,
            self.change_attributes,
        ):
            step()
        self.objects.lengthen({f: d.size for f, d in self.new.all_dimensions.items() if d.unlimited})
        return self.new, [(str(part), error) for part, error in self.refused.items()]

    # -- groups and types

    def change_groups(self) -> None:
        """Remove, rename and create groups. Their content follows."""
        objects, was_of = self.objects, self.found.groups
        before, staying = objects.groups, set(was_of.values())
        for fqn, group in before.items():
            if fqn not in staying and (parent := model.split_fqn(fqn)[0]) in staying:
                self.forget_group(fqn)
                before[parent].id.unlink(group.link)
        moves: list[Move] = []
        after = {"/": before["/"]}
        for fqn, was in was_of.items():
            if fqn != "/" and (name := model.split_fqn(fqn)[1]) != model.split_fqn(was)[1]:
                moves.append((before[model.split_fqn(was)[0]].id, before[was].link, bytes_of(name)))
        self.move(moves)
        for fqn in self.new.all_groups:
            if fqn == "/":
                continue
            (parent, name), old = model.split_fqn(fqn), was_of.get(fqn)
            if old is None:
                made, link = self.make.group(after[parent].id, name), bytes_of(name)
            else:
                made = before[old].id
                link = before[old].link if model.split_fqn(old)[1] == name else bytes_of(name)
            after[fqn] = GroupObject(made, after[parent].at(link))
        objects.groups = after
        # The open datasets are kept by their old paths.
        if moves:
            self.file.forget()
        names = {was: fqn for fqn, was in was_of.items()}
        for scale in objects.scales.values():
            scale.group = names.get(scale.group, scale.group)
        for values in objects.values.values():
            values.group = names.get(values.group, values.group)
            if values.group in after:
                values.path = after[values.group].at(values.link)

    def forget_group(self, group: str) -> None:
        """Remove the objects of a deleted group from the index."""
        # HDF5 frees the bytes of a removed dataset only when it is closed.
        self.file.forget()
        objects = self.objects
        inside = {g for g in objects.groups if g == group or g.startswith(group + "/")}
        objects.values = {fqn: v for fqn, v in objects.values.items() if v.group not in inside}
        objects.scales = {fqn: s for fqn, s in objects.scales.items() if s.group not in inside}

    def change_types(self) -> None:
        """Rename and create types."""
        committed, renamed = self.make.committed, {}
        added = []
        for fqn, group in self.new.walk():
            was = self.found.groups.get(fqn)
            # HDF5 makes a type of the committed types inside it, which therefore come first.
            for type_ in model.ordered_types(group.types):
                before = None if was is None else model.join_fqn(was, type_.name)
                if before is None or before not in self.old.all_types:
                    added.append((fqn, type_))
                elif before in committed:  # another program's type may have no name in the file
                    renamed[type_.fqn] = committed[before]
        self.make.committed = renamed
        for fqn, type_ in added:
            self.make.type(self.objects.groups[fqn].id, type_, self.new.all_types.values())

    # -- dimensions and variables

    def plan_scales(self) -> None:
        """Find the scale and the number of each dimension."""
        objects = self.objects
        for d in self.new.all_dimensions:
            coordinate = coordinate_of(self.new, d) is not None
            owner = self.owners[d] = self.values.get(d) if coordinate else None
            scale = objects.scales.get(self.found.dimensions.get(d, ""))
            # A coordinate variable is its own scale, so a new one replaces the dataset
            # without data.
            if scale is not None and scale.owner is owner and coordinate == (owner is not None):
                self.kept[d] = scale
            self.numbers[d] = objects.next_number if scale is None else scale.number
            objects.next_number = max(objects.next_number, self.numbers[d] + 1)

    def detach_scales(self) -> None:
        """Detach scales that will change, and unmark datasets that are no longer a scale."""
        h5ds, scales = hdf5().h5ds, self.objects.scales
        staying = set(self.kept.values())
        owned = {scale.owner for scale in scales.values()}
        becoming = {v for d, v in self.owners.items() if v is not None and d not in self.kept}
        for fqn, values in self.values.items():
            # HDF5 attaches nothing to a scale.
            if values in owned:
                continue
            was = self.found.variables[fqn]
            for axis, reference in enumerate(self.old.all_variables[was].dimensions):
                scale = scales.get(str(reference))
                if scale in staying and values not in becoming:
                    continue
                self.detached.add((fqn, axis))
                if scale is not None:
                    dataset, attached = self.file.dataset(values.path), self.scale_object(scale)
                    # HDF5 raises for a scale that is not attached.
                    if h5ds.is_attached(dataset, attached, axis):
                        h5ds.detach_scale(dataset, attached, axis)
        names = {values: fqn for fqn, values in self.values.items()}
        for scale in scales.values():
            owner = scale.owner
            # A dataset that stays marked as a scale would be a dimension for other programs.
            if owner is not None and owner in names and scale not in staying:
                for name in _SCALE:
                    _delete_attribute(self.file.dataset(owner.path), name)
                self.detached.update((names[owner], axis) for axis in range(len(owner.shape)))
        # A scale has no scales of its own.
        for values in becoming:
            _delete_attribute(self.file.dataset(values.path), b"DIMENSION_LIST")
        self.detached = {(fqn, axis) for fqn, axis in self.detached if self.values[fqn] not in becoming}

    def scale_object(self, scale: DimensionScale) -> DatasetID:
        """Return the HDF5 dataset of a scale."""
        if scale.owner is not None:
            return self.dataset(scale.owner)
        return self.file.dataset(self.objects.groups[scale.group].at(scale.link))

    def remove_objects(self) -> None:
        """Remove deleted variables and unused scale datasets."""
        objects = self.objects
        here, staying = set(self.values.values()), set(self.kept.values())
        links = [(v.group, v.link) for v in objects.values.values() if v not in here]
        links += [(s.group, s.link) for s in objects.scales.values() if s.owner is None and s not in staying]
        if links:
            # HDF5 frees the bytes of a removed dataset only when it is closed.
            self.file.forget()
        for group, link in links:
            if group in objects.groups:
                objects.groups[group].id.unlink(link)

    def rename_objects(self) -> None:
        """Link variables and scales under their new names."""
        groups, moves = self.objects.groups, []
        for fqn, values in self.values.items():
            link = self.link_of(fqn)
            # The file may have the name in another Unicode form, which needs no rename.
            if not _same_text(link, values.link):
                moves.append((groups[values.group].id, values.link, link))
                values.link = link
                values.path = groups[values.group].at(link)
        for d, scale in self.kept.items():
            link = bytes_of(model.split_fqn(d)[1])
            if not _same_text(link, scale.link):
                if scale.owner is None:
                    moves.append((groups[scale.group].id, scale.link, link))
                scale.link = link
        if moves:
            self.file.forget()
            self.move(moves)
            for scale in self.kept.values():
                if scale.owner is not None and any(m[2] == scale.link for m in moves):
                    dataset = self.scale_object(scale)
                    _delete_attribute(dataset, b"NAME")
                    self.make.text(dataset, b"NAME", scale.link + b"\0")

    def link_of(self, fqn: str) -> bytes:
        name = bytes_of(model.split_fqn(fqn)[1])
        foreign = fqn in self.new.all_dimensions and coordinate_of(self.new, fqn) is None
        # netCDF-C gives the prefix to a variable with the name of a dimension that it does not measure.
        return NON_COORDINATE + name if foreign else name

    def create_objects(self) -> None:
        """Create new scales and variables.

        A variable that HDF5 refuses is omitted. A dimension of its name gets a scale without data.
        """
        for fqn, group in self.new.walk():
            for dimension in group.dimensions:
                d = model.join_fqn(fqn, dimension.name)
                if d not in self.kept and coordinate_of(self.new, d) is None:
                    self.create_dimension(fqn, dimension)
            for variable in group.variables:
                name = model.join_fqn(fqn, variable.name)
                if name not in self.values:
                    # One refused variable must not keep the others from the file.
                    try:
                        self.create_variable(fqn, name, variable)
                    except NCZarrError as error:
                        self.refused[Addition("variable", name)] = error
        if self.refused:
            self.new = without(self.new, self.old, list(self.refused))
        for fqn, group in self.new.walk():
            for dimension in group.dimensions:
                d = model.join_fqn(fqn, dimension.name)
                if d in self.kept:
                    continue
                if d not in self.values:
                    self.create_dimension(fqn, dimension)
                    continue
                values, number = self.values[d], self.numbers[d]
                dataset = self.dataset(values)
                hdf5().h5ds.set_scale(dataset, values.link)
                _delete_attribute(dataset, _DIMENSION_ID)
                self.make.write_internal_attribute(dataset, _DIMENSION_ID, (number,), scalar=True)
                self.kept[d] = DimensionScale(number, values.group, values.link, values, values.shape[0])

    def create_dimension(self, group: str, dimension: model.Dimension) -> None:
        d = model.join_fqn(group, dimension.name)
        self.make.dimension(self.objects.groups[group].id, dimension, self.numbers[d], d)
        self.kept[d] = DimensionScale(self.numbers[d], group, bytes_of(dimension.name), None, dimension.size)

    def create_variable(self, group: str, fqn: str, variable: model.Variable) -> None:
        parent, link = self.objects.groups[group], self.link_of(fqn)
        with hdf5().phil, hdf5_errors(self.make.path, fqn, "the variable cannot be written"):
            made = self.make.variable(parent.id, link, variable, self.new)
        shape = self.new.shape_of(variable)
        values = HDF5Values(
            self.file,
            fqn,
            parent.at(link),
            variable.type,
            layout_of(made.type_id, variable.type),
            shape,
            shape,
            model.fill_value_of(variable),
            group,
            link,
            touched=True,
        )
        self.values[fqn] = values
        self.created[values] = made.id
        self.detached.update((fqn, axis) for axis in range(len(shape)))
        chunk_bytes = math.prod(made.chunk or ()) * values.layout.dtype.itemsize
        # A dataset that needs a larger cache is opened again with it.
        if made.chunk is None or made.is_ours or chunk_bytes <= OWN_CACHE:
            self.file.keep(values.path, made)

    def dataset(self, values: HDF5Values) -> DatasetID:
        """Return the HDF5 dataset of a variable. A new one is still open."""
        made = self.created.get(values)
        return self.file.dataset(values.path) if made is None else made

    def attach_scales(self) -> None:
        """Attach the scales of dimensions to variables, and write their dimension numbers."""
        api = hdf5()
        scaling = {scale.owner for scale in self.kept.values()}
        for fqn, axis in sorted(self.detached):
            values = self.values[fqn]
            dimensions = [str(d) for d in self.new.all_variables[fqn].dimensions]
            dataset, coordinate = self.dataset(values), values in scaling
            if not coordinate:
                api.h5ds.attach_scale(dataset, self.scale_object(self.kept[dimensions[axis]]), axis)
            several = not coordinate or len(dimensions) > 1
            if not axis and several and not api.h5a.exists(dataset, _COORDINATES):
                numbers = tuple(self.numbers[d] for d in dimensions)
                self.make.write_internal_attribute(dataset, _COORDINATES, numbers)

    def index_objects(self) -> None:
        """Store the new objects in the index of the file."""
        self.objects.values = self.values
        self.objects.scales = {d: self.kept[d] for d in self.new.all_dimensions if d in self.kept}
        for fqn, variable in self.new.all_variables.items():
            values = self.values[fqn]
            values.fqn, values.type, values.extents = fqn, variable.type, self.new.shape_of(variable)

    # -- links

    def move(self, moves: list[Move]) -> None:
        """Rename links of groups. A cycle of names is resolved through a temporary name."""
        pending, parked = list(moves), 0
        while pending:
            free = [m for m in pending if not m[0].links.exists(m[2])]
            if not free:
                group, link, name = pending[0]
                parked += 1
                aside = b"_nczarr_moving_%d" % parked
                group.links.move(link, group, aside)
                pending[0] = (group, aside, name)
                continue
            for group, link, name in free:
                group.links.move(link, group, name)
            pending = [m for m in pending if m not in free]

    # -- attributes

    def change_attributes(self) -> None:
        """Write the attributes that differ."""
        for fqn, group in self.new.all_groups.items():
            was = self.found.groups.get(fqn)
            before = () if was is None else self.old.all_groups[was].attributes
            if not _identical(before, group.attributes):
                self.replace_attributes(self.objects.groups[fqn].id, before, group.attributes, fqn)
        for fqn, variable in self.new.all_variables.items():
            was = self.found.variables.get(fqn)
            before = () if was is None else self.old.all_variables[was].attributes
            if not _identical(before, variable.attributes):
                self.replace_attributes(self.dataset(self.values[fqn]), before, variable.attributes, fqn)
        refused = [part for part in self.refused if part.kind == "attribute"]
        if refused:
            self.new = without(self.new, self.old, refused)

    def replace_attributes(self, owner: ObjectID, before: Attributes, after: Attributes, fqn: str) -> None:
        """Write changed attributes. HDF5 orders attributes by creation.

        An attribute that HDF5 refuses is omitted, or keeps its old value.
        """
        known = self.old.all_variables.keys() | self.old.all_groups.keys()
        names = {a.name for a in after}
        for attribute in before:
            if attribute.name not in names:
                _delete_named(owner, attribute.name)
        left = [a for a in before if a.name in names]
        done = 0
        for present, attribute in zip(left, after, strict=False):
            if present.name != attribute.name:
                break
            if present is not attribute and present != attribute:
                try:
                    if not self.make.overwrite_attribute(owner, attribute, fqn):
                        break
                except NCZarrError as error:
                    self.refused[Addition("attribute", fqn, attribute.name)] = error
            done += 1
        # Only a new attribute gets the last position, so all behind the first difference are made again.
        for attribute in left[done:]:
            _delete_named(owner, attribute.name)
        for attribute in after[done:]:
            try:
                self.make.attributes(owner, (attribute,), fqn)
            except NCZarrError as error:
                self.refused[Addition("attribute", fqn, attribute.name)] = error
                _delete_named(owner, attribute.name)
                if fqn in known:  # the old value stays
                    self.make.attributes(owner, [a for a in before if a.name == attribute.name], fqn)


def _identical(before: Attributes, after: Attributes) -> bool:
    return len(before) == len(after) and all(a is b for a, b in zip(before, after, strict=True))


def _delete_attribute(owner: ObjectID, name: bytes) -> None:
    if hdf5().h5a.exists(owner, name):
        hdf5().h5a.delete(owner, name)


def _delete_named(owner: ObjectID, name: str) -> None:
    """Delete an attribute by its name in the model. The stored name may have another Unicode normalization."""
    api = hdf5()
    stored = bytes_of(name)
    if not api.h5a.exists(owner, stored):
        names = [api.h5a.open(owner, index=i).name for i in range(api.h5a.get_num_attrs(owner))]
        stored = next((n for n in names if _same_text(n, stored)), stored)
    _delete_attribute(owner, stored)


def _same_text(a: bytes, b: bytes) -> bool:
    """Return True if two names are equal in netCDF's Unicode normalization (NFC)."""
    return a == b or model.normalize_name(text_of(a)) == model.normalize_name(text_of(b))

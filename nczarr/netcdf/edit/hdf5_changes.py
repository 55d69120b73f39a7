"""Change the objects of a netCDF-4 file from one model to another."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nczarr.errors import ModelError, NCZarrError
from nczarr.model import (
    CHAR,
    Attribute,
    Dataset,
    Dimension,
    Variable,
    fill_value_of,
    format_fqn,
    join_fqn,
    normalize_name,
    ordered_types,
    parse_fqn,
)
from nczarr.model.parts import Part, without
from nczarr.netcdf.edit.hdf5_values import HDF5Values, Owner
from nczarr.netcdf.edit.matching import Matches
from nczarr.netcdf.hdf5.library import hdf5, hdf5_errors, write_attribute
from nczarr.netcdf.hdf5.memory import encode
from nczarr.netcdf.hdf5.objects import ObjectMaker, VariableObject, bytes_of, coordinate_of
from nczarr.netcdf.hdf5.reader import FoundObjects
from nczarr.netcdf.hdf5.source import OWN_CACHE, HDF5Source
from nczarr.netcdf.hdf5.tree import NON_COORDINATE, text_of, variable_name

_DIMENSION_ID = b"_Netcdf4Dimid"
_COORDINATES = b"_Netcdf4Coordinates"
_SCALE = (b"CLASS", b"NAME", b"REFERENCE_LIST", _DIMENSION_ID)


@dataclass
class GroupObject:
    """A group of the file."""

    id: Any
    path: bytes

    @property
    def link(self) -> bytes:
        """The name of the group in its parent."""
        return self.path.rpartition(b"/")[2]

    def at(self, link: bytes) -> bytes:
        """Return the path of an object of the group."""
        return self.path.rstrip(b"/") + b"/" + link


@dataclass
class Scale:
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

    owner: Owner
    make: ObjectMaker
    groups: dict[str, GroupObject] = field(default_factory=dict)
    values: dict[str, HDF5Values] = field(default_factory=dict)
    scales: dict[str, Scale] = field(default_factory=dict)
    next_number: int = 0

    def adopt(self, found: FoundObjects) -> None:
        """Create the index of an existing file's objects."""
        for group in found.root.walk():
            self.groups[group.fqn] = GroupObject(group.id, group.path)
            self.make.types.committed.update(group.types)
            for link, dataset in group.datasets:
                name = variable_name(link, dataset)
                if name is None:
                    continue
                fqn = join_fqn(group.fqn, name)
                source = found.dataset.variable_at(fqn).data
                assert isinstance(source, HDF5Source)
                self.values[fqn] = HDF5Values(
                    self.owner,
                    fqn,
                    group.fqn,
                    link,
                    source.link,
                    source.type,
                    source.layout,
                    source.shape,
                    source.stored,
                    source.fill,
                )
        by_path = {values.path: values for values in self.values.values()}
        self.next_number = found.dimensions.next_number
        for dimension in found.dimensions.dimensions.values():
            if dimension.link is None:
                continue
            link = dimension.link.rpartition(b"/")[2]
            owner = by_path.get(dimension.link)
            size = self.owner.file.dataset(dimension.link).shape[0]
            self.scales[dimension.fqn] = Scale(dimension.number, dimension.group.fqn, link, owner, size)

    def change(
        self, old: Dataset, new: Dataset, found: Matches
    ) -> tuple[Dataset, list[tuple[str, Exception]]]:
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
        return _Change(self, old, new, found).all()

    def _check(self, old: Dataset, new: Dataset, found: Matches) -> None:
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
                if stored[0] < size:
                    scale.owner.extend((size, *stored[1:]))
            elif scale.size < size:
                dataset = self.owner.file.dataset(self.groups[scale.group].at(scale.link))
                dataset.set_extent((size,))
            scale.size = size


class _Change:
    """One change of a file, step by step.

    Each step finds the objects in the state that the previous step left.
    """

    def __init__(self, objects: HDF5Objects, old: Dataset, new: Dataset, found: Matches) -> None:
        self.objects = objects
        self.make = objects.make
        self.file = objects.owner.file
        self.old, self.new, self.found = old, new, found
        self.parked = 0
        #: HDF5 datasets that this change creates, by the ``id`` of their values.
        self.fresh: dict[int, Any] = {}
        #: The values of the new model's variables that exist.
        self.values: dict[str, HDF5Values] = {}
        #: The ``id`` of values that are the scale of a dimension.
        self.owned: set[int] = set()
        #: The variables and axes that need a scale.
        self.loose: set[tuple[str, int]] = set()
        #: Objects that HDF5 refused.
        self.refused: dict[Part, Exception] = {}

    def all(self) -> tuple[Dataset, list[tuple[str, Exception]]]:
        self.groups()
        self.types()
        self.dimensions_and_variables()
        self.attributes()
        self.objects.lengthen({f: d.size for f, d in self.new.all_dimensions.items() if d.unlimited})
        return self.new, [(str(part), error) for part, error in self.refused.items()]

    # -- groups and types

    def groups(self) -> None:
        """Remove, rename and create groups. Their content follows."""
        objects, staying = self.objects, set(self.found.groups.values())
        for fqn, group in objects.groups.items():
            if fqn not in staying and parent_of(fqn) in staying:
                self.forget(fqn)
                _unlink(objects.groups[parent_of(fqn)].id, group.link)
        moves = self.renamed_groups()
        self.move(moves)
        objects.groups = self.groups_after(moves)
        names = {was: fqn for fqn, was in self.found.groups.items()}
        for scale in objects.scales.values():
            scale.group = names.get(scale.group, scale.group)
        for values in objects.values.values():
            values.group = names.get(values.group, values.group)
        if moves:
            self.file.forget()
        for values in objects.values.values():
            if values.group in objects.groups:
                values.path = objects.groups[values.group].at(values.link)

    def renamed_groups(self) -> list[tuple[Any, bytes, bytes]]:
        """Return the links of groups that are renamed: the parent, the link, the name."""
        before, moves = self.objects.groups, []
        for fqn, was in self.found.groups.items():
            if fqn != "/" and parse_fqn(was)[-1] != parse_fqn(fqn)[-1]:
                moves.append((before[parent_of(was)].id, before[was].link, bytes_of(parse_fqn(fqn)[-1])))
        return moves

    def groups_after(self, moves: list[tuple[Any, bytes, bytes]]) -> dict[str, GroupObject]:
        """Return the groups of the new model, with missing ones created."""
        before = self.objects.groups
        after = {"/": before["/"]}
        renamed = {(group.id, link): name for group, link, name in moves}
        for fqn in self.new.all_groups:
            if fqn == "/":
                continue
            parent, was = after[parent_of(fqn)], self.found.groups.get(fqn)
            if was is None:
                made = self.make.group(parent.id, parse_fqn(fqn)[-1])
                after[fqn] = GroupObject(made, parent.at(bytes_of(parse_fqn(fqn)[-1])))
            else:
                link = before[was].link
                link = renamed.get((before[parent_of(was)].id.id, link), link)
                after[fqn] = GroupObject(before[was].id, parent.at(link))
        return after

    def forget(self, group: str) -> None:
        """Remove the objects of a deleted group from the index."""
        self.file.forget()
        inside = [g for g in self.objects.groups if g == group or g.startswith(group + "/")]
        for values in [v for v in self.objects.values.values() if v.group in inside]:
            del self.objects.values[values.fqn]
        for fqn in [fqn for fqn, scale in self.objects.scales.items() if scale.group in inside]:
            del self.objects.scales[fqn]

    def types(self) -> None:
        committed, renamed = self.make.types.committed, {}
        fresh = []
        declared = self.new.all_types.values()
        for fqn, group in self.new.walk():
            was = self.found.groups.get(fqn)
            for type_ in ordered_types(group.types):
                before = None if was is None else join_fqn(was, type_.name)
                if before is None or before not in self.old.all_types:
                    fresh.append((fqn, type_))
                elif before in committed:  # another program's type may have no name in the file
                    renamed[type_.fqn] = committed[before]
        self.make.types.committed = renamed
        for fqn, type_ in fresh:
            self.make.type(self.objects.groups[fqn].id, type_, declared)

    # -- dimensions and variables

    def dimensions_and_variables(self) -> None:
        objects, new = self.objects, self.new
        before = objects.scales
        self.values = {fqn: objects.values[was] for fqn, was in self.found.variables.items()}
        self.owned = {id(s.owner) for s in before.values() if s.owner is not None}
        coordinates = {d: coordinate_of(new, d) for d in new.all_dimensions}
        #: The scale of a dimension after the change: a variable, or None for a dataset without data.
        owners = {d: None if v is None else self.values.get(d) for d, v in coordinates.items()}
        fresh = {d for d, v in coordinates.items() if v is not None and owners[d] is None}
        kept: dict[str, Scale] = {}
        for d in new.all_dimensions:
            scale = before.get(self.found.dimensions.get(d, ""))
            if scale is not None and d not in fresh and scale.owner is owners[d]:
                kept[d] = scale
        self.detach(before, kept, owners)
        self.remove(before, kept)
        self.rename(kept)
        self.objects.scales = kept
        numbers: dict[str, int] = {}
        for d in new.all_dimensions:
            scale = before.get(self.found.dimensions.get(d, ""))
            numbers[d] = objects.next_number if scale is None else scale.number
            objects.next_number = max(objects.next_number, numbers[d] + 1)
        made = self.create(kept, coordinates, numbers)
        new = self.new  # without the objects that HDF5 refused
        self.attach(made, numbers)
        self.objects.values = self.values
        self.objects.scales = {d: kept[d] for d in new.all_dimensions if d in kept}
        for fqn, variable in new.all_variables.items():
            values = self.values[fqn]
            values.fqn = fqn
            values.type = variable.type
            values.shape = new.shape(variable)

    def detach(
        self, before: dict[str, Scale], kept: dict[str, Scale], owners: dict[str, HDF5Values | None]
    ) -> None:
        """Detach scales that will change, and unmark datasets that are no longer a scale."""
        staying = {id(scale) for scale in kept.values()}
        becoming = {
            id(v) for d, v in owners.items() if v is not None and (d not in kept or kept[d].owner is not v)
        }
        for fqn, was in self.found.variables.items():
            values = self.values[fqn]
            if id(values) in self.owned:
                continue
            for axis, reference in enumerate(self.old.all_variables[was].dimensions):
                scale = before.get(str(reference))
                if scale is None or id(scale) not in staying or id(values) in becoming:
                    self._loosen(fqn, axis, scale)
        self._unmark(before, staying)
        for fqn, values in self.values.items():
            if id(values) in becoming:
                _drop(self.file.dataset(values.path), b"DIMENSION_LIST")
                self.loose = {item for item in self.loose if item[0] != fqn}

    def _loosen(self, fqn: str, axis: int, scale: Scale | None) -> None:
        """Detach the scale of an axis."""
        self.loose.add((fqn, axis))
        if scale is not None:
            h5ds = hdf5().h5ds
            dataset, held = self.file.dataset(self.values[fqn].path), self.scale_object(scale)
            if h5ds.is_attached(dataset, held, axis):
                h5ds.detach_scale(dataset, held, axis)

    def _unmark(self, before: dict[str, Scale], staying: set[int]) -> None:
        """Unmark variables that are no longer a scale."""
        names = {id(values): fqn for fqn, values in self.values.items()}
        for scale in before.values():
            if scale.owner is not None and id(scale) not in staying and id(scale.owner) in names:
                dataset = self.file.dataset(scale.owner.path)
                for name in _SCALE:
                    _drop(dataset, name)
                self.owned.discard(id(scale.owner))
                self.loose.update((names[id(scale.owner)], axis) for axis in range(len(scale.owner.shape)))

    def scale_object(self, scale: Scale) -> Any:
        """Return the HDF5 dataset of a scale."""
        if scale.owner is not None:
            return self.dataset(scale.owner)
        return self.file.dataset(self.objects.groups[scale.group].at(scale.link))

    def remove(self, before: dict[str, Scale], kept: dict[str, Scale]) -> None:
        """Remove deleted variables and unused scale datasets."""
        groups = self.objects.groups
        here = set(map(id, self.values.values()))
        gone = [v for v in self.objects.values.values() if id(v) not in here]
        staying = {id(scale) for scale in kept.values()}
        links = [(v.group, v.link) for v in gone if v.group in groups]
        links += [
            (s.group, s.link)
            for s in before.values()
            if s.owner is None and id(s) not in staying and s.group in groups
        ]
        if links:
            self.file.forget()
            for group, link in links:
                _unlink(groups[group].id, link)

    def rename(self, kept: dict[str, Scale]) -> None:
        """Link variables and scales under their new names."""
        groups, moves = self.objects.groups, []
        for fqn, values in self.values.items():
            link = self.link_of(fqn)
            if link != values.link and not _same_text(link, values.link):
                moves.append((groups[values.group].id, values.link, link))
                values.link = link
                values.path = groups[values.group].at(link)
        for d, scale in kept.items():
            link = bytes_of(parse_fqn(d)[-1])
            if _same_text(link, scale.link):
                continue
            if scale.owner is None:
                moves.append((groups[scale.group].id, scale.link, link))
            scale.link = link
        if moves:
            self.file.forget()
            self.move(moves)
            for scale in kept.values():
                if scale.owner is not None and any(m[2] == scale.link for m in moves):
                    dataset = self.scale_object(scale)
                    _drop(dataset, b"NAME")
                    self.make.text(dataset, b"NAME", scale.link + b"\0")

    def link_of(self, fqn: str) -> bytes:
        name = bytes_of(parse_fqn(fqn)[-1])
        foreign = fqn in self.new.all_dimensions and coordinate_of(self.new, fqn) is None
        return NON_COORDINATE + name if foreign else name

    def create(
        self, kept: dict[str, Scale], coordinates: dict[str, Variable | None], numbers: dict[str, int]
    ) -> list[str]:
        """Create new scales and variables, and return the new variables.

        A variable that HDF5 refuses is omitted. A dimension of its name gets a scale without data.
        """
        made = []
        for fqn, group in self.new.walk():
            at = self.objects.groups[fqn]
            for dimension in group.dimensions:
                d = join_fqn(fqn, dimension.name)
                if d not in kept and coordinates[d] is None:
                    self.create_dimension(fqn, dimension, kept, numbers)
            for variable in group.variables:
                name = join_fqn(fqn, variable.name)
                if name not in self.values:
                    try:
                        self.values[name] = self.create_variable(at, fqn, name, variable)
                    except NCZarrError as error:
                        self.refused[Part("variable", name)] = error
                    else:
                        made.append(name)
        if self.refused:
            self.new = without(self.new, self.old, list(self.refused))
        for fqn, group in self.new.walk():
            for dimension in group.dimensions:
                d = join_fqn(fqn, dimension.name)
                if d in kept:
                    continue
                if d not in self.values:
                    self.create_dimension(fqn, dimension, kept, numbers)
                    continue
                values = self.values[d]
                dataset = self.dataset(values)
                hdf5().h5ds.set_scale(dataset, values.link)
                _drop(dataset, _DIMENSION_ID)
                self.make.books(dataset, _DIMENSION_ID, (numbers[d],), scalar=True)
                kept[d] = Scale(numbers[d], values.group, values.link, values, values.shape[0])
        return made

    def create_dimension(
        self, group: str, dimension: Dimension, kept: dict[str, Scale], numbers: dict[str, int]
    ) -> None:
        d = join_fqn(group, dimension.name)
        self.make.dimension(self.objects.groups[group].id, dimension, numbers[d], d)
        kept[d] = Scale(numbers[d], group, bytes_of(dimension.name), None, dimension.size)

    def create_variable(self, at: GroupObject, group: str, fqn: str, variable: Variable) -> HDF5Values:
        link = self.link_of(fqn)
        with hdf5().phil, hdf5_errors(self.make.path, fqn, "the variable cannot be written"):
            made = self.make.variable(at.id, link, variable, self.new, fqn)
        shape = self.new.shape(variable)
        values = HDF5Values(
            self.objects.owner,
            fqn,
            group,
            link,
            at.at(link),
            variable.type,
            made.layout,
            shape,
            shape,
            fill_value_of(variable),
            touched=True,
        )
        values.note(made)
        self.fresh[id(values)] = made.id
        if made.chunk is None or made.encoded or chunk_bytes(made) <= OWN_CACHE:
            self.file.keep(values.path, made.id)
        return values

    def dataset(self, values: HDF5Values) -> Any:
        """Return the HDF5 dataset of a variable. A new one is still open."""
        made = self.fresh.get(id(values))
        return self.file.dataset(values.path) if made is None else made

    def attach(self, made: list[str], numbers: dict[str, int]) -> None:
        """Attach the scales of dimensions to variables, and write their dimension numbers."""
        api, scales = hdf5(), self.objects.scales
        scaling = {id(scale.owner) for scale in scales.values() if scale.owner is not None}
        wanted = set(self.loose)
        wanted.update((fqn, i) for fqn in made for i in range(len(self.new.all_variables[fqn].dimensions)))
        for fqn, axis in sorted(wanted):
            values = self.values[fqn]
            dimensions = [str(d) for d in self.new.all_variables[fqn].dimensions]
            dataset = self.dataset(values)
            coordinate = id(values) in scaling
            if not coordinate:
                api.h5ds.attach_scale(dataset, self.scale_object(scales[dimensions[axis]]), axis)
            if (
                not axis
                and (not coordinate or len(dimensions) > 1)
                and not api.h5a.exists(dataset, _COORDINATES)
            ):
                self.make.books(dataset, _COORDINATES, tuple(numbers[d] for d in dimensions))

    # -- links

    def move(self, moves: list[tuple[Any, bytes, bytes]]) -> None:
        """Rename links of groups. A cycle of names is resolved through a temporary name."""
        pending = list(moves)
        while pending:
            free = [m for m in pending if not _exists(m[0], m[2])]
            if not free:
                group, link, name = pending[0]
                self.parked += 1
                aside = b"_nczarr_moving_%d" % self.parked
                group.links.move(link, group, aside)
                pending[0] = (group, aside, name)
                continue
            for group, link, name in free:
                group.links.move(link, group, name)
            pending = [m for m in pending if m not in free]

    # -- attributes

    def attributes(self) -> None:
        for fqn, group in self.new.all_groups.items():
            was = self.found.groups.get(fqn)
            before = () if was is None else self.old.all_groups[was].attributes
            if not _identical(before, group.attributes):
                self.change_attributes(self.objects.groups[fqn].id, before, group.attributes, fqn)
        for fqn, variable in self.new.all_variables.items():
            was = self.found.variables.get(fqn)
            before = () if was is None else self.old.all_variables[was].attributes
            if not _identical(before, variable.attributes):
                dataset = self.dataset(self.values[fqn])
                self.change_attributes(dataset, before, variable.attributes, fqn)
        refused = [part for part in self.refused if part.kind == "attribute"]
        if refused:
            self.new = without(self.new, self.old, refused)

    def change_attributes(
        self, owner: Any, before: tuple[Attribute, ...], after: tuple[Attribute, ...], fqn: str
    ) -> None:
        """Write changed attributes. HDF5 orders attributes by creation.

        An attribute that HDF5 refuses is omitted, or keeps its old value.
        """
        known = self.old.all_variables.keys() | self.old.all_groups.keys()
        names = {a.name for a in after}
        for attribute in before:
            if attribute.name not in names:
                _drop_named(owner, attribute.name)
        left = [a for a in before if a.name in names]
        done = 0
        for held, wanted in zip(left, after, strict=False):
            if held.name != wanted.name:
                break
            if held is not wanted and held != wanted:
                try:
                    if not self.overwrite(owner, wanted, fqn):
                        break
                except NCZarrError as error:
                    self.refused[Part("attribute", fqn, wanted.name)] = error
            done += 1
        for attribute in left[done:]:
            _drop_named(owner, attribute.name)
        for attribute in after[done:]:
            try:
                self.make.attributes(owner, (attribute,), fqn)
            except NCZarrError as error:
                self.refused[Part("attribute", fqn, attribute.name)] = error
                _drop_named(owner, attribute.name)
                if fqn in known:  # the old value stays
                    self.make.attributes(owner, [a for a in before if a.name == attribute.name], fqn)

    def overwrite(self, owner: Any, attribute: Attribute, fqn: str) -> bool:
        """Write other values to an attribute. Return False if its type or size differs."""
        api = hdf5()
        name = bytes_of(attribute.name)
        if not attribute.values.size or not api.h5a.exists(owner, name):
            return False
        held = api.h5a.open(owner, name)
        type_id, count = held.get_type(), attribute.values.size
        if attribute.type == CHAR:
            fixed = type_id.get_class() == api.h5t.STRING and not type_id.is_variable_str()
            if (
                not fixed
                or type_id.get_size() != count
                or held.get_space().get_simple_extent_type() == api.h5s.SIMPLE
            ):
                return False
            with (
                hdf5().phil,
                hdf5_errors(self.make.path, fqn, f"the attribute {attribute.name!r} cannot be written"),
            ):
                held.write(np.frombuffer(attribute.values.tobytes(), "S1"), type_id)
            return True
        wanted = self.make.types.make(attribute.type)
        if not type_id.equal(wanted) or held.get_space().get_simple_extent_npoints() != count:
            return False
        keep: list[Any] = []
        raw = encode(self.make.types.layout(attribute.type, wanted), attribute.values, attribute.type, keep)
        with (
            hdf5().phil,
            hdf5_errors(self.make.path, fqn, f"the attribute {attribute.name!r} cannot be written"),
        ):
            write_attribute(held, wanted, raw)
        return True


def chunk_bytes(made: VariableObject) -> int:
    """Return the size in bytes of a chunk of a chunked HDF5 dataset."""
    return math.prod(made.chunk or ()) * made.layout.dtype.itemsize


def parent_of(fqn: str) -> str:
    """Return the FQN of the parent group."""
    return format_fqn(parse_fqn(fqn)[:-1])


def _identical(before: tuple[Attribute, ...], after: tuple[Attribute, ...]) -> bool:
    return len(before) == len(after) and all(a is b for a, b in zip(before, after, strict=True))


def _exists(group: Any, link: bytes) -> bool:
    return bool(group.links.exists(link))


def _unlink(group: Any, link: bytes) -> None:
    group.unlink(link)


def _drop(owner: Any, name: bytes) -> None:
    if hdf5().h5a.exists(owner, name):
        hdf5().h5a.delete(owner, name)


def _drop_named(owner: Any, name: str) -> None:
    """Delete an attribute by its name in the model.

    The stored name may have another Unicode normalization.
    """
    wanted = bytes_of(name)
    if hdf5().h5a.exists(owner, wanted):
        hdf5().h5a.delete(owner, wanted)
        return
    for found in _names(owner):
        if _same_text(found, wanted):
            hdf5().h5a.delete(owner, found)
            return


def _names(owner: Any) -> Iterator[bytes]:
    api = hdf5()
    for i in range(api.h5a.get_num_attrs(owner)):
        yield api.h5a.open(owner, index=i).name


def _same_text(a: bytes, b: bytes) -> bool:
    """Return True if two names are equal in netCDF's Unicode normalization (NFC)."""
    return a == b or normalize_name(text_of(a)) == normalize_name(text_of(b))

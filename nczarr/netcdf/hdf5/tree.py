"""List the groups of a netCDF-4 file, their objects and dimensions, without netCDF's bookkeeping.

The dimensions are those of the file, and those that the netCDF library generates for other HDF5 files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from nczarr.dataclass import dataclass
from nczarr.errors import NetCDFFileError
from nczarr.model import Dimension, join_fqn, normalize_name
from nczarr.model.names import check_reach
from nczarr.netcdf.bytes.file import text_of
from nczarr.netcdf.hdf5.library import hdf5, hdf5_errors
from nczarr.netcdf.hdf5.types import address_of
from nczarr.system.environment import is_on, limit

if TYPE_CHECKING:
    from h5py import h5d, h5f, h5g, h5t

#: netCDF-C gives this name, with the length behind it, to a scale that is no variable.
NO_VARIABLE = b"This is a netCDF dimension but not a netCDF variable"
#: netCDF-C puts this before a variable that has a dimension's name and is not its coordinate
#: variable.
NON_COORDINATE = b"_nc4_non_coord_"
#: Bookkeeping attributes of netCDF-4 and of HDF5's dimension scales.
ROOT_BOOKS = frozenset({b"_NCProperties", b"_nc3_strict"})
VARIABLE_BOOKS = frozenset({b"DIMENSION_LIST", b"_Netcdf4Dimid", b"_Netcdf4Coordinates"})
SCALE_BOOKS = frozenset({b"CLASS", b"NAME", b"REFERENCE_LIST"})
#: The attributes that the netCDF library hides on each object, also those of HDF5's images and of PyTables, and the
#: names of attributes that it computes.
HIDDEN = ROOT_BOOKS | VARIABLE_BOOKS | SCALE_BOOKS | {b"_Format", b"_IsNetcdf4", b"_SuperblockVersion"}

#: The hint for content in other files.
FOLLOW = "if you trust the file, set NCZARR_EXTERNAL_FILES=1; a file can name any other file"


@dataclass(eq=False)
class GroupObject:
    """A group of the file, and its HDF5 path."""

    id: h5g.GroupID
    path: bytes

    @property
    def link(self) -> bytes:
        """The name of the group in its parent."""
        return self.path.rpartition(b"/")[2]

    def at(self, link: bytes) -> bytes:
        """Return the path of an object of the group."""
        return self.path.rstrip(b"/") + b"/" + link


@dataclass(eq=False)
class FoundGroup(GroupObject):
    """A group of the file with its objects, in order.

    Datasets have their link, the name of their variable (None for a dimension without one) and HDF5's dataset. Types
    are pairs of FQN and HDF5 type.
    """

    name: str
    fqn: str
    datasets: list[tuple[bytes, str | None, h5d.DatasetID]] = field(default_factory=list)
    types: list[tuple[str, h5t.TypeID]] = field(default_factory=list)
    groups: list[FoundGroup] = field(default_factory=list)

    def walk(self) -> Iterator[FoundGroup]:
        """Yield this group and all groups below it, parents first."""
        yield self
        for group in self.groups:
            yield from group.walk()


def collect(file: h5f.FileID, path: str) -> FoundGroup:
    """Walk the groups of an open HDF5 file.

    Raises
    ------
    NetCDFFileError
        If a group contains itself through a link, or an object is not readable.
    """
    root = FoundGroup(hdf5().h5g.open(file, b"/"), b"/", "", "/")
    _collect(root, path, frozenset())
    return root


def _collect(group: FoundGroup, path: str, above: frozenset[tuple[int, int]]) -> None:
    api = hdf5()
    # Without a limit, a hostile file ends Python's stack.
    if len(above) > limit("NCZARR_MAX_DEPTH"):
        raise NetCDFFileError(
            f"more than {limit('NCZARR_MAX_DEPTH')} groups inside each other",
            path=path,
            fqn=group.fqn,
            hint="set NCZARR_MAX_DEPTH to a larger number",
        )
    above = above | {address_of(group.id)}
    for link in _link_names(group.id):
        name = normalize_name(text_of(link))
        fqn = join_fqn(group.fqn, name)
        with hdf5().phil, hdf5_errors(path, fqn):
            info = group.id.links.get_info(link)
            # A hostile file would read any file of this machine.
            if info.type == api.h5l.TYPE_EXTERNAL and not is_on("NCZARR_EXTERNAL_FILES"):
                name = os.fsdecode(group.id.links.get_val(link)[0])
                raise NetCDFFileError(f"the object is in another file, {name!r}", hint=FOLLOW)
            found = api.h5o.open(group.id, link)
            if isinstance(found, api.h5g.GroupID):
                # The walk of a group that is linked below itself would never end.
                if address_of(found) in above:
                    raise NetCDFFileError("the group contains itself through a link")
                group.groups.append(FoundGroup(found, group.at(link), name, fqn))
            elif isinstance(found, api.h5d.DatasetID):
                group.datasets.append((link, _variable_name(link, found), found))
            else:
                group.types.append((fqn, found))
    for child in group.groups:
        _collect(child, path, above)


def _link_names(group: h5g.GroupID) -> list[bytes]:
    """Return the link names of a group, in order of creation if the file records it."""
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


def _variable_name(link: bytes, dataset: h5d.DatasetID) -> str | None:
    h5ds = hdf5().h5ds
    # netCDF-C gives the scale of a dimension without a coordinate variable such a name.
    if h5ds.is_scale(dataset) and (h5ds.get_scale_name(dataset) or b"").startswith(NO_VARIABLE):
        return None
    return normalize_name(text_of(link.removeprefix(NON_COORDINATE)))


@dataclass(eq=False)
class FoundDimension:
    """A dimension with netCDF's dimension number and the path of its scale; None if it is generated."""

    number: int
    fqn: str
    name: str
    group: FoundGroup
    size: int
    unlimited: bool
    link: bytes | None = None
    #: The length of the longest variable along it; None without variables.
    used: int | None = None


class FoundDimensions:
    """All dimensions of a file, and those of each variable.

    Attributes
    ----------
    of_variable : dict of tuple of FoundDimension
        The dimensions by the variable's FQN.
    of_group : dict of list of Dimension
        The dimensions by the group's FQN, in netCDF's order.
    unreachable : list of str
        A sentence for each variable with a dimension that it cannot have.
    """

    def __init__(self, root: FoundGroup, path: str) -> None:
        self.path = path
        self.dimensions: dict[int, FoundDimension] = {}
        self.scales: dict[tuple[int, int], FoundDimension] = {}
        self.next_number = 0
        self.of_variable: dict[str, tuple[FoundDimension, ...]] = {}
        self.shapeless: dict[str, str] = {}
        self.of_group: dict[str, list[Dimension]] = {}
        self.unreachable: list[str] = []
        for group in root.walk():
            self.find_scales(group)
        self.references(root)
        for _, d in sorted(self.dimensions.items()):
            # As in netCDF-C, the longest variable tells the length, not the scale.
            if d.unlimited and d.used is not None:
                d.size = d.used
            self.of_group.setdefault(d.group.fqn, []).append(Dimension(d.name, d.size, d.unlimited))

    def find_scales(self, group: FoundGroup) -> None:
        h5ds = hdf5().h5ds
        for link, _, dataset in group.datasets:
            if not h5ds.is_scale(dataset) or not (shape := dataset.shape):
                continue
            number = _integers(dataset, b"_Netcdf4Dimid")
            unlimited = dataset.get_space().get_simple_extent_dims(True)[0] == hdf5().h5s.UNLIMITED
            made = self.add_dimension(
                group, normalize_name(text_of(link)), shape[0], unlimited, number[0] if number else None
            )
            made.link = group.at(link)
            self.scales[address_of(dataset)] = made

    def add_dimension(
        self, group: FoundGroup, name: str, size: int, unlimited: bool, number: int | None
    ) -> FoundDimension:
        # Scales of other programs have no number of netCDF's.
        if number is None or number in self.dimensions:
            number = self.next_number
        self.next_number = max(self.next_number, number + 1)
        made = FoundDimension(number, join_fqn(group.fqn, name), name, group, size, unlimited)
        self.dimensions[number] = made
        return made

    def references(self, group: FoundGroup) -> None:
        """Find the dimensions of every variable, child groups first, as netCDF numbers generated dimensions."""
        for child in group.groups:
            self.references(child)
        for _, name, dataset in group.datasets:
            if name is None:
                continue
            fqn = join_fqn(group.fqn, name)
            with hdf5().phil, hdf5_errors(self.path, fqn):
                if dataset.shape is None:
                    self.shapeless[fqn] = "it has HDF5's null dataspace, without shape and values"
                    continue
                found = self.reached(group, dataset, fqn, self.variable_dimensions(group, dataset))
                self.of_variable[fqn] = found
                for dimension, size in zip(found, dataset.shape, strict=True):
                    dimension.used = max(dimension.used or 0, size)

    def variable_dimensions(self, group: FoundGroup, dataset: h5d.DatasetID) -> tuple[FoundDimension, ...]:
        rank = dataset.rank
        numbers = _integers(dataset, b"_Netcdf4Coordinates")
        if numbers is not None and len(numbers) == rank and all(n in self.dimensions for n in numbers):
            return tuple(self.dimensions[n] for n in numbers)
        own = self.scales.get(address_of(dataset))
        # HDF5 attaches no scale to a scale, so only the first axis of a coordinate variable is
        # known.
        if own is not None:
            scales = [own, *[None] * (rank - 1)]
        else:
            scales = [self.attached_scale(dataset, axis) for axis in range(rank)]
        limits = dataset.get_space().get_simple_extent_dims(True) if rank else ()
        taken = [scale for scale in scales if scale is not None]
        found = []
        for scale, size, most in zip(scales, dataset.shape, limits, strict=True):
            if scale is None:
                scale = self.phony(group, size, most == hdf5().h5s.UNLIMITED, taken)
                taken.append(scale)
            found.append(scale)
        return tuple(found)

    def reached(
        self, group: FoundGroup, dataset: h5d.DatasetID, fqn: str, found: tuple[FoundDimension, ...]
    ) -> tuple[FoundDimension, ...]:
        """Return the dimensions with generated ones for those out of reach, see :func:`check_reach`."""
        wrong = [check_reach(group.fqn, dimension.fqn) for dimension in found]
        # netCDF4-python cannot read a file whose variables reach into other groups.
        if not any(wrong):
            return found
        limits = dataset.get_space().get_simple_extent_dims(True)
        taken, result = list(found), []
        for dimension, problem, size, most in zip(found, wrong, dataset.shape, limits, strict=True):
            if problem:
                self.unreachable.append(f"{fqn}: {problem}; it is read with a generated dimension")
                dimension = self.phony(group, size, most == hdf5().h5s.UNLIMITED, taken)
                taken.append(dimension)
            result.append(dimension)
        return tuple(result)

    def attached_scale(self, dataset: h5d.DatasetID, axis: int) -> FoundDimension | None:
        h5ds, seen = hdf5().h5ds, list[FoundDimension | None]()
        if h5ds.get_num_scales(dataset, axis) > 0:
            h5ds.iterate(dataset, axis, lambda scale: seen.append(self.scales.get(address_of(scale))))
        return next(filter(None, seen), None)

    def phony(
        self, group: FoundGroup, size: int, unlimited: bool, taken: list[FoundDimension]
    ) -> FoundDimension:
        """Return a dimension for an axis without a scale: one for each size, as in the netCDF library."""
        # The library takes a size of 0 for an unlimited one, and finds no generated dimension for the next.
        for known in self.dimensions.values() if size or unlimited else ():
            if (known.group, known.size, known.unlimited) == (group, size, unlimited) and known not in taken:
                return known
        return self.add_dimension(group, f"phony_dim_{self.next_number}", size, unlimited, None)


def _integers(dataset: h5d.DatasetID, name: bytes) -> tuple[int, ...] | None:
    """Return an integer attribute of the bookkeeping."""
    if not hdf5().h5a.exists(dataset, name):
        return None
    attribute = hdf5().h5a.open(dataset, name)
    values = np.zeros(attribute.shape, np.int64)
    attribute.read(values)
    return tuple(values.reshape(-1).tolist())

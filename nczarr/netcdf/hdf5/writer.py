"""Write netCDF-4 files from the model: first all objects, then the values region by region."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nczarr.errors import LossError
from nczarr.model import (
    Dataset,
    Region,
    Variable,
    fill_value_of,
    forward_references,
    join_fqn,
    ordered_types,
    regions,
)
from nczarr.netcdf.bytes.file import DiskFile
from nczarr.netcdf.bytes.guarded import GuardedFile
from nczarr.netcdf.hdf5.library import access_to, hdf5, hdf5_errors
from nczarr.netcdf.hdf5.memory import encode, has_pointers
from nczarr.netcdf.hdf5.objects import (
    ObjectMaker,
    VariableObject,
    bytes_of,
    chunk_shape,
    coordinate_of,
)
from nczarr.netcdf.hdf5.source import OpenDataset, fill_with
from nczarr.netcdf.hdf5.tree import NON_COORDINATE, ROOT_BOOKS, SCALE_BOOKS, VARIABLE_BOOKS
from nczarr.netcdf.sink import FileSink


class HDF5Sink(FileSink):
    """Writes a netCDF-4 file."""

    def __init__(self, path: str, dataset: Dataset, overwrite: bool, *, strict: bool = False) -> None:
        super().__init__(path, dataset, overwrite)
        hdf5()
        check_names(dataset, path)
        check_types(dataset, path)
        self._make = ObjectMaker(path)
        self._groups: dict[str, Any] = {}
        self._variables: dict[str, VariableObject] = {}
        self._numbers = {fqn: i for i, fqn in enumerate(dataset.all_dimensions)}
        self._scales: dict[str, Any] = {}
        self._file: Any = None
        self._disk: GuardedFile | None = None
        try:
            with hdf5().phil, hdf5_errors(path, doing="the file cannot be written"):
                self._create(strict)
                self._check()
        except BaseException:
            self.abort()
            raise

    def _create(self, strict: bool) -> None:
        self._disk = GuardedFile(DiskFile(self.temporary, "x"))
        self._file = self._make.file(self.temporary, access_to(self._disk), strict=strict)
        self._groups["/"] = hdf5().h5g.open(self._file, b"/")
        for fqn, group in self.dataset.walk():
            for child in group.groups:
                self._groups[join_fqn(fqn, child.name)] = self._make.group(self._groups[fqn], child.name)
        declared = self.dataset.all_types.values()
        for fqn, group in self.dataset.walk():
            # Types are in declared order, except that a type's members are committed before it.
            for type_ in ordered_types(group.types):
                self._make.type(self._groups[fqn], type_, declared)
        for fqn, group in self.dataset.walk():
            for dimension in group.dimensions:
                at = join_fqn(fqn, dimension.name)
                if coordinate_of(self.dataset, at) is None:
                    number = self._numbers[at]
                    self._scales[at] = self._make.dimension(self._groups[fqn], dimension, number, at)
            for variable in group.variables:
                where = join_fqn(fqn, variable.name)
                with hdf5().phil, hdf5_errors(self.path, where, "the variable cannot be written"):
                    self._put_variable(fqn, where, variable)
        for fqn, variable in self.dataset.all_variables.items():
            with hdf5().phil, hdf5_errors(self.path, fqn, "the variable cannot be written"):
                self._attach(fqn, variable)
                self._make.attributes(self._variables[fqn].id, variable.attributes, fqn)
        for fqn, group in self.dataset.walk():
            with hdf5().phil, hdf5_errors(self.path, fqn, "the group cannot be written"):
                self._make.attributes(self._groups[fqn], group.attributes, fqn)

    def _attach(self, fqn: str, variable: Variable) -> None:
        if not variable.dimensions:
            return
        dataset = self._variables[fqn].id
        numbers = tuple(self._numbers[str(d)] for d in variable.dimensions)
        if coordinate_of(self.dataset, fqn) is None:
            for axis, dimension in enumerate(variable.dimensions):
                hdf5().h5ds.attach_scale(dataset, self._scales[str(dimension)], axis)
            self._make.books(dataset, b"_Netcdf4Coordinates", numbers)
        elif len(numbers) > 1:
            self._make.books(dataset, b"_Netcdf4Coordinates", numbers)

    def _put_variable(self, group: str, fqn: str, variable: Variable) -> None:
        name = bytes_of(variable.name)
        coordinate = coordinate_of(self.dataset, fqn) is not None
        if not coordinate and fqn in self._numbers:
            name = NON_COORDINATE + name
        made = self._make.variable(self._groups[group], name, variable, self.dataset, fqn)
        if coordinate:
            hdf5().h5ds.set_scale(made.id, name)
            self._make.books(made.id, b"_Netcdf4Dimid", (self._numbers[fqn],), scalar=True)
            self._scales[fqn] = made.id
        self._variables[fqn] = made

    # -- values

    def _chunk_shape(self, fqn: str, variable: Variable) -> tuple[int, ...]:
        shape = self.dataset.shape(variable)
        grows = tuple(self.dataset.is_unlimited(reference) for reference in variable.dimensions)
        itemsize = self._variables[fqn].type_id.get_size()
        return chunk_shape(variable, shape, grows, itemsize) or (1,) * len(shape)

    def _write(self, fqn: str, variable: Variable, region: Region, values: np.ndarray) -> None:
        made = self._variables[fqn]
        keep: list[Any] = []
        raw = encode(made.layout, values, variable.type, keep)
        with hdf5().phil, hdf5_errors(self.path, fqn, "the values cannot be written"):
            self._check()
            made.write(tuple(range(s.start, s.stop) for s in region), raw)
            self._check()

    def _check(self) -> None:
        assert self._disk is not None
        self._disk.check(self.path)

    def _finish(self) -> None:
        with hdf5().phil, hdf5_errors(self.path, doing="the file cannot be written"):
            for fqn, made in self._variables.items():
                if has_pointers(made.layout) and OpenDataset(made.id).lacks_chunks():
                    self._fill_chunks(fqn, made.id)
            # HDF5 does not report errors while objects close: everything must be in the file before.
            hdf5().h5f.flush(self._file, hdf5().h5f.SCOPE_GLOBAL)
            self._check()
            self._close()
            self._check()

    def _fill_chunks(self, fqn: str, dataset: Any) -> None:
        """Write unwritten chunks of strings or sequences, which HDF5 cannot read otherwise."""
        variable = self.dataset.variable_at(fqn)
        for region in regions(dataset.shape, dataset.get_create_plist().get_chunk()):
            origin = tuple(s.start for s in region)
            if dataset.get_chunk_info_by_coord(origin).byte_offset is None:
                values = np.empty([s.stop - s.start for s in region], variable.type.dtype)
                fill_with(values, fill_value_of(variable))
                self._write(fqn, variable, region, values)

    def _close(self) -> None:
        with hdf5().phil:
            self._variables.clear()
            self._scales.clear()
            self._groups.clear()
            self._make.types.committed.clear()
            if self._file is not None:
                self._file.close()
                self._file = None
            if self._disk is not None:
                self._disk.close()


def check_names(dataset: Dataset, path: str) -> None:
    """Refuse names that clash in a group's single HDF5 name space, and netCDF-4's bookkeeping names."""
    for fqn, group in dataset.walk():
        taken: dict[str, str] = {}
        for what, name in _link_names(group):
            if taken.setdefault(name, what) != what:
                raise LossError(
                    f"netCDF-4 cannot store a {taken[name]} and a {what} of the same name in one group",
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
                        f"netCDF-4 reserves the attribute name {attribute.name!r}",
                        path=path,
                        fqn=owner,
                    )


def check_types(dataset: Dataset, path: str) -> None:
    """Refuse types that are used before their group.

    The netCDF library reads a file group by group and would not find them.
    """
    for fqn, type_ in forward_references(dataset, attributes=False):
        raise LossError(
            f"netCDF-4 cannot store a use of the type {type_.fqn} before the group that declares it",
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

"""Keep a netCDF-4 file that is edited: its model, its values, and changes of both, in place."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from nczarr.atomic import Output
from nczarr.errors import ModelError, NCZarrError, NetCDFFileError
from nczarr.model import Dataset, Group, join_fqn
from nczarr.netcdf.byte_file import ByteFile, DiskFile
from nczarr.netcdf.classic import refuse_losses
from nczarr.netcdf.edit.hdf5_changes import HDF5Objects
from nczarr.netcdf.edit.hdf5_values import HDF5Values
from nczarr.netcdf.edit.lengths import with_lengths
from nczarr.netcdf.edit.matching import match
from nczarr.netcdf.edit.opened import forget, remember
from nczarr.netcdf.hdf5 import HDF5File, ObjectMaker, check_names, check_types, find_objects
from nczarr.netcdf.hdf5.guarded import GuardedFile
from nczarr.netcdf.hdf5.library import hdf5, hdf5_errors
from nczarr.netcdf.hdf5.tree import ROOT_BOOKS, SCALE_BOOKS, VARIABLE_BOOKS

#: Datasets of the file that are kept open.
_KEPT = 64
_STRICT = "netCDF-4 classic model"


class EditedHDF5:
    """A netCDF-4 file that is open for reading and writing.

    What was written is in the file after :meth:`sync`. Between two calls HDF5 keeps part of its own books in memory:
    if the process is killed then, the file is mostly as it was at the last call, but HDF5 does not promise it.

    Parameters
    ----------
    path : str
        For messages, and to find the file again.
    content : ByteFile
    dataset : Dataset, optional
        What a new file says. None: the file is there.
    output : Output, optional
        Gives the file its name when it is published; None if it has it.

    Raises
    ------
    NetCDFFileError
        If the file is damaged, or does not keep its objects in order, as netCDF-4 wants it for writing.
    """

    disk_format = "HDF5"
    #: In HDF5, variables, groups, types and dimensions of a group share their names.
    one_name_space = True
    reserved_names = frozenset(n.decode() for n in ROOT_BOOKS | SCALE_BOOKS | VARIABLE_BOOKS)

    def __init__(
        self, path: str, content: ByteFile, dataset: Dataset | None = None, *, output: Output | None = None
    ) -> None:
        self.path = path
        self.process = os.getpid()
        self._on_disk = isinstance(content, DiskFile)
        self._output = output
        #: Lengths that the model does not say yet.
        self._sizes: dict[str, int] = {}
        self._disk = GuardedFile(content)
        self._make = ObjectMaker(path)
        name = str(output.path) if output is not None else path
        try:
            with hdf5_errors(path, doing="HDF5 cannot open the file"):
                if dataset is None:
                    api = hdf5()
                    file = api.h5f.open(_bytes(name), api.h5f.ACC_RDWR, self._disk.access())
                else:
                    strict = dataset.format == _STRICT
                    file = self._make.file(name, self._disk.access(), strict=strict)
                self.file = HDF5File(path, file, self._disk, _KEPT)
        except BaseException:
            self._disk.close()
            self._discard()
            raise
        try:
            with hdf5_errors(path):
                found = find_objects(self.file, Path(path).stem)
                if dataset is None:
                    _check_order(found.root.id, path)
                self._objects = HDF5Objects(self, self._make)
                self._objects.adopt(found)
                self._dataset = self._bind(found.dataset)
            if dataset is not None:
                self.update(replace(dataset, name=self.dataset.name))
            self.check()
            if output is None and self._on_disk:
                remember(path, self)
        except BaseException:
            self._let_go()
            self._discard()
            raise

    def _bind(self, dataset: Dataset) -> Dataset:
        """The model with its data bound."""

        def bound(group: Group, fqn: str) -> Group:
            variables = []
            for variable in group.variables:
                values = self._objects.values[join_fqn(fqn, variable.name)]
                variables.append(variable if variable.data is values else variable.with_data(values))
            groups = tuple(bound(child, join_fqn(fqn, child.name)) for child in group.groups)
            return replace(group, variables=tuple(variables), groups=groups)

        made = bound(dataset, "/")
        assert isinstance(made, Dataset)
        return made

    @property
    def dataset(self) -> Dataset:
        """The model, with the data of its variables."""
        if self._sizes:
            self._dataset = with_lengths(self._dataset, self._sizes)
            self._sizes.clear()
        return self._dataset

    @property
    def place(self) -> str:
        """Where the bytes are now: under another name until a new file is published."""
        return self.path if self._output is None else str(self._output.path)

    def check(self) -> None:
        """Raise what went wrong while HDF5 was writing."""
        self._disk.check(self.path)

    # -- values and changes

    def data(self, fqn: str) -> HDF5Values:
        """The values of a variable."""
        try:
            return self._objects.values[fqn]
        except KeyError:
            raise ModelError(f"there is no variable {fqn!r}", path=self.path) from None

    def update(self, dataset: Dataset) -> None:
        """Make the file say what `dataset` says; a variable with data of :meth:`data` is that variable."""
        self._check_open()
        with hdf5_errors(self.path, doing="the file cannot be written"):
            self.check()
            known = {id(values): fqn for fqn, values in self._objects.values.items()}
            check_names(dataset, self.path)
            check_types(dataset, self.path)
            if dataset.format == _STRICT:
                refuse_losses(self.path, dataset, _STRICT)
            self._objects.change(self.dataset, dataset, match(self.dataset, dataset, known))
            self._dataset = self._bind(dataset)
            self.check()

    def lengthen(self, sizes: Mapping[str, int]) -> bool:
        """Write the lengths of unlimited dimensions, given by FQN."""
        self._check_open()
        with hdf5_errors(self.path, doing="the file cannot be written"):
            self.check()
            self._objects.lengthen(sizes)
            self._sizes.update(sizes)
            self.check()
        return True

    # -- the end

    def publish(self) -> None:
        """Give a new file its name."""
        if self._output is not None:
            self.sync()
            output, self._output = self._output, None
            try:
                output.commit()
            except OSError as error:
                raise NetCDFFileError(
                    f"the file cannot be written: {error.strerror}", path=self.path
                ) from error
            remember(self.path, self)

    def sync(self) -> None:
        """Write all that HDF5 holds."""
        self._check_open()
        for values in list(self._objects.values.values()):
            values.complete()
        with hdf5_errors(self.path, doing="the file cannot be written"):
            # What fails while objects are closed is not told to anybody: all must be in the file before.
            hdf5().h5f.flush(self.file.id, hdf5().h5f.SCOPE_GLOBAL)
            self.check()

    def close(self) -> None:
        """Sync, publish, and close; a new file that cannot be completed is removed."""
        if self.file.id is None:
            return
        try:
            self.sync()
            self._let_go()
            self.check()
            if self._output is not None:
                self._output.commit()
                self._output = None
        except OSError as error:
            if isinstance(error, NCZarrError):
                raise
            raise NetCDFFileError(f"the file cannot be written: {error.strerror}", path=self.path) from error
        finally:
            self._let_go()
            self._discard()

    def reopened(self) -> HDF5File:
        """The same file for a reader of this process, with what is not written yet."""
        with hdf5_errors(self.path, doing="the file cannot be opened"):
            self._check_open()
            return HDF5File(self.path, self.file.id.reopen(), self._disk.share())

    def _check_open(self) -> None:
        if self.file.id is None:
            raise NetCDFFileError("the file is closed", path=self.path)

    def _let_go(self) -> None:
        forget(self)
        with hdf5().phil:
            if hasattr(self, "_objects"):
                self._objects.groups.clear()
                for values in self._objects.values.values():
                    values.release()
            self._make.types.committed.clear()
            with suppress(NCZarrError, OSError, RuntimeError, ValueError):
                self.file.close()

    def _discard(self) -> None:
        output, self._output = self._output, None
        if output is not None:
            output.discard()


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _check_order(root: Any, path: str) -> None:
    """netCDF's library, too, does not write to a file that has no order of its objects."""
    tracked = root.get_create_plist().get_link_creation_order() & hdf5().h5p.CRT_ORDER_TRACKED
    if not tracked:
        raise NetCDFFileError(
            "the HDF5 file can be read, not changed: it does not keep the order of its objects, as netCDF-4 does",
            path=path,
            hint="copy it first, which makes a netCDF-4 file",
        )

"""Edit a netCDF-4 file in place: its model and its values."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from nczarr.errors import NCZarrError, NetCDFFileError, PartlyStoredError, UnsupportedError
from nczarr.model import Dataset
from nczarr.model.lengths import StoredModel
from nczarr.model.parts import Restrictions
from nczarr.netcdf.bytes.file import ByteFile, DiskFile, bytes_of, text_of
from nczarr.netcdf.bytes.guarded import GuardedFile
from nczarr.netcdf.classic import refuse_losses
from nczarr.netcdf.edit.editor import EditedFile, match
from nczarr.netcdf.edit.hdf5_changes import HDF5Objects, HDF5Values
from nczarr.netcdf.hdf5.library import access_to, hdf5, hdf5_errors
from nczarr.netcdf.hdf5.objects import ObjectMaker, check_names
from nczarr.netcdf.hdf5.reader import FoundObjects
from nczarr.netcdf.hdf5.source import HDF5File
from nczarr.netcdf.hdf5.tree import HIDDEN, FoundGroup
from nczarr.netcdf.hdf5.types import address_of
from nczarr.system.atomic import Output

#: Numbers of datasets that stay open, in a file that is edited and in one that is written once.
#: A new file keeps all: reopening datasets took 40 % of the time to write many small variables.
_KEPT, _ALL = 64, 1 << 20
_STRICT = "netCDF-4 classic model"
#: The scale of a dimension is a dataset of 4-byte floats, whose size HDF5 counts in 64 bits.
_LARGEST_SCALE = 1 << 62
#: HDF5's H5S_MAX_RANK.
_LARGEST_RANK = 32


class EditedHDF5(EditedFile):
    """A netCDF-4 file, open for reading and writing.

    After :meth:`sync`, all writes are in the file, and on the disk if the file is `durable`. Between two calls,
    HDF5's metadata stay pending (:class:`~nczarr.netcdf.bytes.GuardedFile`), so a killed process leaves the
    file as it was after the last call.

    Parameters
    ----------
    path : str
        The path in error messages and for finding the file again.
    content : ByteFile
    dataset : Dataset, optional
        The initial content of a new file. None for an existing file.
    output : Output, optional
        Renames a new file when it is published. None if the file has its final name.

    Raises
    ------
    NetCDFFileError
        If the file lacks the creation order that netCDF-4 requires for writing, or has an object under two
        names.
    NetCDFFileError
        If the file is damaged.
    """

    disk_format = "HDF5"
    #: A group has one name space, and a rename creates a new link, by which HDF5 orders objects. The netCDF library
    #: reads a file group by group. Strings end with a NUL, and their chunks contain references to HDF5's heaps. A
    #: filter may be unavailable; a fill value, a dimension or a variable may be too large.
    restrictions = Restrictions(
        limited=frozenset({"name", "variable"}),
        one_name_space=True,
        types_first=True,
        names_without_slash=True,
        renamed_last=True,
        strings_end_at_nul=True,
        strings_outside_chunks=True,
        without_shards=True,
        # Attributes of netCDF's bookkeeping, and those that its library computes on request.
        reserved_names=frozenset(name.decode() for name in HIDDEN),
    )

    def __init__(
        self, path: str, content: ByteFile, dataset: Dataset | None = None, *, output: Output | None = None
    ) -> None:
        super().__init__(path, output, content)
        self._on_disk = isinstance(content, DiskFile)
        # A killed process leaves no file with a temporary name, so its writes need no order.
        self._disk = GuardedFile(content, ordering=self._on_disk and output is None)
        self._make = ObjectMaker(path)
        name = str(output.path) if output is not None else path
        try:
            with hdf5().phil, hdf5_errors(path, doing="HDF5 cannot open the file"):
                if dataset is None:
                    api = hdf5()
                    file = api.h5f.open(bytes_of(name), api.h5f.ACC_RDWR, access_to(self._disk))
                else:
                    strict = dataset.format == _STRICT
                    file = self._make.file(name, access_to(self._disk), strict=strict)
                # To open datasets again took 40 % of the time to write many small variables.
                self.file = HDF5File(path, file, self._disk, _KEPT if output is None else _ALL)
        except BaseException:
            self._disk.close()
            raise
        try:
            with hdf5().phil, hdf5_errors(path):
                found = FoundObjects(self.file, Path(path).stem)
                if dataset is None:
                    _check_changeable(found.root)
                # The names of parts that are left out stay taken. A dimension that got
                # the name of such a variable never ended its change.
                if found.omitted:
                    self.restrictions = replace(type(self).restrictions, omitted=frozenset(found.omitted))
                self._objects = HDF5Objects(self.file, self._make)
                self._objects.adopt(found)
                there = found.dataset
            if dataset is not None:
                there = replace(there, format=dataset.format)
            self._model = StoredModel(there)
            self._take_model(there)
            if dataset is not None and dataset != replace(there, name=dataset.name):  # the file is not empty
                self.update(replace(dataset, name=there.name))
            self.file.check()
            if output is None and self._on_disk:
                # A reader with a handle of its own would read freed memory: the fill
                # value of strings belongs to one handle.
                self.file.read_here(path)
        except BaseException:
            self.abandon()
            raise

    # -- values and changes

    def check_model(self, dataset: Dataset) -> None:
        self._check_open()
        for dimension in dataset.dimensions:
            if dimension.size >= _LARGEST_SCALE:
                raise UnsupportedError(f"HDF5 has no dimension scale of {dimension.size} elements")
        for fqn, variable in dataset.all_variables.items():
            if len(variable.dimensions) > _LARGEST_RANK:
                raise UnsupportedError(f"HDF5 has no more than {_LARGEST_RANK} dimensions", fqn=fqn)
            self._make.check(variable, dataset, fqn)

    def update(self, dataset: Dataset) -> None:
        """Change the file's content to `dataset`.

        A variable with data of :meth:`data` is that existing variable.
        """
        self._check_open()
        with hdf5().phil, hdf5_errors(self.path, doing="the file cannot be written"):
            # HDF5 sees no failed write (`GuardedFile`) and loses count of its objects. No
            # change begins behind one.
            self.file.check()
            check_names(dataset, self.path)
            if dataset.format == _STRICT:
                refuse_losses(self.path, dataset, _STRICT)
            there, refused = self._objects.change(
                self.dataset, dataset, match(self.dataset, dataset, self._objects.values)
            )
            self._take_model(there)
            self.file.check()
            if refused:
                raise PartlyStoredError(refused, path=self.path)

    def lengthen(self, sizes: Mapping[str, int]) -> bool:
        """Write the lengths of unlimited dimensions, by FQN."""
        self._check_open()
        with hdf5().phil, hdf5_errors(self.path, doing="the file cannot be written"):
            self.file.check()
            self._objects.lengthen(sizes)
            self._model.note(sizes)
            self.file.check()
        return True

    # -- closing

    def publish(self) -> None:
        """Rename a new file to its final name."""
        new = self._output is not None
        super().publish()
        if new:
            # From now on, a killed process leaves this file under its final name.
            if self._on_disk:
                self._disk.order_writes()
            self.file.read_here(self.path)

    def sync(self) -> None:
        """Flush HDF5's pending writes."""
        self._check_open()
        # HDF5 cannot read strings from chunks that were never written.
        for values in [v for v in self._objects.values.values() if v.touched and v.pointers]:
            values.complete()
        with hdf5().phil, hdf5_errors(self.path, doing="the file cannot be written"):
            # HDF5 does not report errors while objects close: everything must be in the file before.
            hdf5().h5f.flush(self.file.id, hdf5().h5f.SCOPE_GLOBAL)
            self._disk.sync()
            self.file.check()

    @property
    def is_open(self) -> bool:
        return self.file.id is not None

    @property
    def _data(self) -> Mapping[str, HDF5Values]:
        return self._objects.values

    def _finish(self) -> None:
        super()._finish()
        self.file.check()

    def _release(self) -> None:
        with hdf5().phil:
            # A file that HDF5 cannot open is abandoned before it has objects.
            if hasattr(self, "_objects"):
                self._objects.groups.clear()
            self._make.committed.clear()
            # The error that led here must not be hidden by a second one.
            with suppress(NCZarrError, OSError, RuntimeError, ValueError):
                self.file.close()


def _check_changeable(root: FoundGroup) -> None:
    """Refuse a file that cannot be changed safely.

    Without creation order, the netCDF library does not write to it either. An object under two names would be
    changed, or get its dimensions, twice.
    """
    message = "the HDF5 file is readable but cannot be changed: "
    hint = "copy it first, which makes a netCDF-4 file"
    if not root.id.get_create_plist().get_link_creation_order() & hdf5().h5p.CRT_ORDER_TRACKED:
        raise NetCDFFileError(
            f"{message}it does not record the order of its objects", hint=hint, reason="fixed"
        )
    seen = set()
    file = address_of(root.id)[0]
    for group in root.walk():
        datasets = [(text_of(group.at(link)), dataset) for link, _, dataset in group.datasets]
        for fqn, found in [(group.fqn, group.id), *datasets]:
            address = address_of(found)
            # netCDF-C finds one of the two names only.
            if address in seen or address[0] != file:
                raise NetCDFFileError(
                    f"{message}a link leads to another name or file", fqn=fqn, hint=hint, reason="fixed"
                )
            seen.add(address)

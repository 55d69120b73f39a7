"""Edit a classic file in place: its header and its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from nczarr.errors import ModelError, NetCDFFileError
from nczarr.model import Dataset, Dimension, PrimitiveType, Variable, bind_data, fill_value_of, join_fqn
from nczarr.model.restrictions import Restrictions
from nczarr.netcdf.bytes.file import ByteFile, DiskFile, file_errors, write_all
from nczarr.netcdf.classic.header import (
    FORMATS,
    Header,
    Widths,
    check_places,
    format_header,
    header_of,
    make_header,
    padded,
    refuse_losses,
)
from nczarr.netcdf.classic.reader import is_stream, parse_header, read_classic
from nczarr.netcdf.edit.classic_values import ClassicBytes, ClassicValues
from nczarr.netcdf.edit.editor import EditedFile
from nczarr.netcdf.edit.matching import Matches, match
from nczarr.system.atomic import Output
from nczarr.system.locks import FileLock

#: The first bytes of the copy of a file while its data move. No program accepts them as a netCDF file.
_MOVING = b"CDF\0"
#: Minimum spare room behind a header that has grown, for its next growth.
_ROOM = 1024


class EditedClassic(EditedFile):
    """A classic file (CDF-1, CDF-2, CDF-5), open for reading and writing.

    The header counts a record once all variables have it, so a killed process leaves a file that states no
    more than it contains. If a larger header makes the data move, they move in a copy, which then replaces
    the file. A header that has grown once has spare room.

    Parameters
    ----------
    path : str
        The path in error messages.
    content : ByteFile
    dataset : Dataset, optional
        The initial content of a new file. None for an existing file.
    output : Output, optional
        Renames a new file when it is published. None if the file has its final name.
    """

    disk_format = "NETCDF3"
    #: A variable may exceed the format's sizes.
    restrictions = Restrictions(limited=frozenset({"variable"}), without_shards=True)

    def __init__(
        self, path: str, content: ByteFile, dataset: Dataset | None = None, *, output: Output | None = None
    ) -> None:
        super().__init__(path, output, content)
        self._open = True
        #: True while data move. It stays True if the move fails.
        self._moving = False
        #: The original file and the name of its copy, while data move in the copy.
        self._replaced: ByteFile | None = None
        self._moved: Output | None = None
        self._locks: list[FileLock] = []
        #: False if the header leaves the number of records to the file's size.
        self._counted = True
        self._values: dict[str, ClassicValues] = {}
        #: The variables in the order of the file. The model's order may differ.
        self._dimensions: list[str] = []
        self.file = ClassicBytes(path, content)
        try:
            if dataset is None:
                self.header = parse_header(self.file)
                self._counted = not is_stream(self.file)
                found = read_classic(self.file, Path(path).stem)
                for index, (fqn, variable) in enumerate(found.all_variables.items()):
                    self._values[fqn] = self._values_of(fqn, index, variable, found, fresh=False)
                self._dataset = bind_data(found, self._values)
                self._dimensions = list(found.all_dimensions)
            else:
                version = FORMATS[dataset.format or "classic"]
                self.header = Header(version, 0, (), ())
                self._write_header()
                self._dataset = Dataset(dataset.name, format=dataset.format)
                self.update(dataset)
        except BaseException:
            self.abandon()
            raise

    def _values_of(
        self, fqn: str, index: int, variable: Variable, dataset: Dataset, *, fresh: bool
    ) -> ClassicValues:
        assert isinstance(variable.type, PrimitiveType)
        shape = dataset.shape(variable)
        made = ClassicValues(
            self, fqn, index, variable.type, shape, fill_value_of(variable), not variable.storage.no_fill
        )
        if not fresh:
            made.records = self.header.records
        elif not made.is_record or self._output is not None:
            # A killed process leaves no file with a temporary name: the records may be incomplete until the end.
            grid = [-(-n // c) for n, c in zip(shape, made.chunk_shape, strict=True)]
            made.marks = np.zeros(grid, bool)
            made.records = shape[0] if made.is_record else 0
        return made

    # -- values and changes

    def check_model(self, dataset: Dataset) -> None:
        assert dataset.format is not None
        refuse_losses(self.path, dataset, dataset.format)
        make_header(dataset, self.header.version)

    def update(self, dataset: Dataset) -> None:
        """Change the file's content to `dataset`; see :class:`FileEditor`.

        Raises
        ------
        LossError, ModelError
            Before any change.
        """
        self._check_open()
        assert dataset.format is not None
        refuse_losses(self.path, dataset, dataset.format)
        found = match(self.dataset, dataset, self._values)
        ordered = self._in_order(dataset, found)
        planned = replace(header_of(ordered, self.header.version), records=self.header.records)
        planned = laid_out(self.header, planned)
        check_places(planned)
        with self.file.lock:
            records = next((d.size for d in dataset.dimensions if d.unlimited), 0)
            self._change_layout(planned, ordered, found)
            for fqn, variable in dataset.all_variables.items():
                self._values[fqn].shape = dataset.shape(variable)
            self._count(records)
        self._dataset = bind_data(dataset, self._values)
        self._dimensions = list(ordered.all_dimensions)
        self._sizes.clear()

    def _in_order(self, new: Dataset, found: Matches) -> Dataset:
        """Return the new model in the order of the file, in which existing objects keep their positions."""
        dimensions = {was: fqn for fqn, was in found.dimensions.items()}
        variables = {was: fqn for fqn, was in found.variables.items()}
        removed = [fqn for fqn in self.dataset.all_variables if fqn not in variables]
        removed += [fqn for fqn in self.dataset.all_dimensions if fqn not in dimensions]
        if removed:
            raise ModelError("an edit cannot remove parts of a classic file", path=self.path, fqn=removed[0])
        old: list[Dimension] = []
        for fqn in self._dimensions:
            dimension = self.dataset.all_dimensions[fqn]
            after = new.all_dimensions[dimensions[fqn]]
            if after.unlimited != dimension.unlimited or (
                not after.unlimited and after.size != dimension.size
            ):
                raise ModelError(
                    "a dimension of a classic file cannot have another size", path=self.path, fqn=fqn
                )
            old.append(after)
        present: list[Variable] = []
        for fqn, variable in sorted(
            self.dataset.all_variables.items(), key=lambda v: self._values[v[0]].index
        ):
            later = new.all_variables[variables[fqn]]
            if later.type != variable.type or len(later.dimensions) != len(variable.dimensions):
                raise ModelError(
                    "the type and the rank of a variable cannot be changed", path=self.path, fqn=fqn
                )
            present.append(later)
        names = {d.name for d in old}, {v.name for v in present}
        return replace(
            new,
            dimensions=(*old, *(d for d in new.dimensions if d.name not in names[0])),
            variables=(*present, *(v for v in new.variables if v.name not in names[1])),
        )

    def _change_layout(self, planned: Header, ordered: Dataset, found: Matches) -> None:
        """Write the header and move the data from the current layout to the planned one."""
        old = self.header
        values = {fqn: self._values[was] for fqn, was in found.variables.items()}
        moving = moves(old, planned) and any(old.variables)
        records = [v.records for v in self._values.values() if v.is_record]
        count = max(records, default=0)
        longest = replace(planned, records=max(count, planned.records))
        with file_errors(self.path):
            beside = self._continue_in_copy() if moving else None
        self._extend(longest.file_size)
        if moving:
            write_all(self.file.content, 0, _MOVING, self.path)
            move_data(self.file, old, planned, records)
        self.header = planned
        self._values = values
        for index, variable in enumerate(ordered.variables):
            fqn = join_fqn("/", variable.name)
            if fqn in values:
                values[fqn].fqn, values[fqn].index = fqn, index
            else:
                values[fqn] = self._values_of(fqn, index, variable, ordered, fresh=True)
        for made in values.values():
            if made.is_record:  # the records that the new header counts must exist first
                made.fill_records(planned.records)
        if moving or format_header(old) != format_header(planned):
            self._write_header()
        if beside is not None:
            self._replace_file(beside)
        self._moving = False

    def _continue_in_copy(self) -> Output | None:
        """Continue in a copy of the file while its data move. Return None for new files and files in memory.

        The file stays unchanged until the copy replaces it. In a folder without permission to create files,
        the data move in the file itself, whose first bytes then mark it as invalid.
        """
        self._moving = True
        if self._output is not None or not isinstance(self._content, DiskFile):
            return None
        output = Output(self.path)
        try:
            output.durable = self._content.durable
            output.copy_target()
            content = DiskFile(str(output.path), "r+")
        except PermissionError:
            return None
        except OSError:
            output.discard()
            self._moving = False
            raise
        content.durable = self._content.durable
        self._replaced = self._content
        self._content = self.file.content = content
        self._moved = output
        return output

    def _replace_file(self, output: Output) -> None:
        with file_errors(self.path):
            self.file.content.sync()
            # The lock of the old file does not cover the new one.
            self._locks.append(FileLock(str(output.path)))
            output.commit()
        self._moved = None
        self._close_replaced()

    def _close_replaced(self) -> None:
        """Close the replaced file, whose content is obsolete."""
        replaced, self._replaced = self._replaced, None
        if isinstance(replaced, DiskFile):
            replaced.durable = False
            replaced.close()

    def _write_header(self) -> None:
        """Write the header. Its first bytes are written last."""
        data = format_header(self.header)
        self._extend(len(data))
        self._wait_for_disk()
        write_all(self.file.content, 4, data[4:], self.path)
        write_all(self.file.content, 0, data[:4], self.path)

    def lengthen(self, sizes: Mapping[str, int]) -> bool:
        """Write the number of records."""
        self._check_open()
        with self.file.lock:
            for size in sizes.values():
                self._count(size)
        self._sizes.update(sizes)
        return True

    def take_back_records(self) -> None:
        """Extend the file to the counted records."""
        with self.file.lock:
            for values in self._values.values():
                if values.is_record:
                    values.records = self.header.records
            with suppress(OSError):  # readers ignore bytes behind the last record
                if self.header.file_size < self.file.content.size:
                    self.file.content.truncate(self.header.file_size)

    def count_in_header(self) -> None:
        """Write the number of records to a header that leaves it to the file's size, as in a stream.

        The file grows before the new records are complete.
        """
        if self._counted:
            return
        with self.file.lock:
            self._write_count()
            self._counted = True

    def _write_count(self) -> None:
        width = Widths.of(self.header.version).count
        write_all(self.file.content, 4, self.header.records.to_bytes(width, "big"), self.path)

    def _count(self, records: int) -> None:
        """Increase the number of records to those that all variables have."""
        if records <= self.header.records:
            return
        for values in self._values.values():
            if values.is_record:
                values.fill_records(records)
        counted = replace(self.header, records=records)
        self._extend(counted.file_size)
        self.header = counted
        self._wait_for_disk()
        self._write_count()

    def _wait_for_disk(self) -> None:
        """Wait until the values are on the disk, before the header counts them."""
        with file_errors(self.path):
            self.file.content.sync()

    def _extend(self, size: int) -> None:
        """Extend the file to at least this size."""
        with file_errors(self.path):
            if self.file.content.size < size:
                self.file.content.truncate(size)

    # -- closing

    def sync(self) -> None:
        """Write fill values to unwritten regions."""
        self._check_open()
        for values in self._values.values():
            values.fill_blocks()
        self._wait_for_disk()

    @property
    def is_open(self) -> bool:
        return self._open

    @property
    def _data(self) -> Mapping[str, ClassicValues]:
        return self._values

    def _release(self) -> None:
        self._open = False
        self.file.close()
        if self._moved is not None:
            self._moved.discard()
        self._close_replaced()
        for lock in self._locks:
            lock.release()

    def _check_open(self) -> None:
        super()._check_open()
        if self._moving:
            left = "the file is damaged" if self._moved is None else "the file is unchanged"
            raise NetCDFFileError(f"an earlier move of the file's data failed; {left}", path=self.path)


def laid_out(old: Header, new: Header) -> Header:
    """Return the new header with the offset of every variable.

    The first variables are those of the old header, in order. No variable moves towards the beginning.
    Variables without records precede the records, and all are in the order of the header. The netCDF library
    rejects any other layout.

    Examples
    --------
    >>> from nczarr.model import INT
    >>> from nczarr.netcdf.classic.header import ClassicDimension, ClassicVariable
    >>> x = (ClassicDimension(b"x", 5),)
    >>> old = Header(1, 0, x, (), (ClassicVariable(b"v", INT, (0,), (), 200),))
    >>> new = replace(old, variables=(*old.variables, ClassicVariable(b"w", INT, (0,), ())))
    >>> [v.begin for v in laid_out(old, new).variables]
    [200, 220]
    """
    size = len(format_header(new))
    place = size
    if old.variables:
        first = min(v.begin for v in old.variables)
        place = first if size <= first else padded(size + max(_ROOM, size // 2))
    begins = [0] * len(new.variables)
    before = [v.begin for v in old.variables]
    for record in (False, True):
        if record:
            moved = [b for v, b in zip(old.variables, before, strict=True) if old.is_record(v)]
            place = max([place, *moved[:1]])
        for i, v in enumerate(new.variables):
            if new.is_record(v) != record:
                continue
            if i < len(before) and not record:
                place = max(place, before[i])
            begins[i] = place
            place += padded(new.slab(v))
    variables = tuple(replace(v, begin=b) for v, b in zip(new.variables, begins, strict=True))
    return replace(new, variables=variables)


def moves(old: Header, new: Header) -> bool:
    """Return True if the offset of any existing data differs."""
    return any(a.begin != b.begin for a, b in zip(old.variables, new.variables, strict=False)) or (
        old.record_size != new.record_size and any(map(old.is_record, old.variables))
    )


def move_data(file: ClassicBytes, old: Header, new: Header, records: Sequence[int]) -> None:
    """Move all data from their old offsets to the new ones. `records` has the record count of each variable."""
    pairs = list(zip(old.variables, new.variables, strict=False))
    growing = [(a, b) for a, b in pairs if old.is_record(a)]
    count = max(records, default=0)
    if growing and count:
        source, target = growing[0][0].begin, growing[0][1].begin
        if old.record_size == new.record_size:
            size = min(count * old.record_size, file.content.size - source)
            if source != target:
                file.move(source, target, size)
        else:
            file.spread(source, target, count, old.record_size, new.record_size)
    for a, b in reversed([pair for pair in pairs if not old.is_record(pair[0])]):
        if a.begin != b.begin:
            file.move(a.begin, b.begin, old.slab(a))

"""Edit a classic file in place: its header and its values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from nczarr.errors import ModelError, NetCDFFileError, PartlyStoredError
from nczarr.lazy import cached_property
from nczarr.model import Dataset, PrimitiveType, Variable, fill_value_of, join_fqn, rewrite
from nczarr.model.lengths import Extents, StoredModel
from nczarr.model.parts import Restrictions
from nczarr.netcdf import classic
from nczarr.netcdf.bytes.file import ByteFile, DiskFile, cut_at_chunks, file_errors, read_all, write_all
from nczarr.netcdf.classic import Header, padded
from nczarr.netcdf.edit.editor import VALUE_BLOCK, Axes, EditedFile, EditedValues, Matches, match
from nczarr.system.atomic import Output
from nczarr.system.locks import FileLock, Rank, make_lock
from nczarr.transfer import block_shape

#: The first bytes of the copy of a file while its data move. No program accepts them as a netCDF file.
_MOVING = b"CDF\0"
#: Minimum spare room behind a header that has grown, for its next growth.
_ROOM = 1024
#: Size of one write of fill values, in bytes.
_FILL = 4 << 20
#: Above this number of runs, a write reads the whole range, changes it and writes it back, unless the gaps
#: are large.
_RUNS = 8
_SPAN = 4 << 20
#: Number of bytes in one step of a move.
_STEP = 8 << 20


@dataclass(eq=False)
class ClassicValues(EditedValues):
    """The values of a variable.

    Attributes
    ----------
    index : int
        The position of the variable in the header.
    marks : ndarray of bool, or None
        The blocks that have values or fill in the file. None means all blocks.
    records : int
        For a record variable: the number of records that have values or fill in the file.
    """

    in_place = True

    owner: EditedClassic
    fqn: str
    index: int
    type: PrimitiveType
    extents: Extents
    fill: object
    fills: bool
    marks: np.ndarray | None = None
    records: int = 0

    @property
    def variable(self) -> Variable:
        """Return the variable in the header."""
        return self.owner.header.dataset.variables[self.index]

    @cached_property
    def is_record(self) -> bool:
        """Return True if the variable has records."""
        return self.owner.header.is_record(self.variable)

    @cached_property
    def chunk_shape(self) -> tuple[int, ...]:
        """Return the shape of a block that is contiguous in the file: some records."""
        if not self.shape:
            return ()
        itemsize = self.dtype.itemsize
        if not self.is_record:
            return block_shape(self.shape, (1,) * len(self.shape), None, itemsize, VALUE_BLOCK)
        inner = block_shape(self.shape[1:], (1,) * (len(self.shape) - 1), None, itemsize, VALUE_BLOCK)
        whole = inner == self.shape[1:]
        return (max(1, VALUE_BLOCK // 4 // max(1, math.prod(inner) * itemsize)) if whole else 1, *inner)

    def check(self, values: np.ndarray) -> None:
        """Do nothing: the format can store each value of the type."""

    def filled(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return an array of the unwritten value."""
        return np.full(shape, self.fill, self.dtype)

    # -- reading

    def _read(self, axes: Axes) -> np.ndarray:
        inside = axes
        if self.is_record:
            inside = (range(axes[0].start, min(axes[0].stop, self.records), axes[0].step), *axes[1:])
        if inside == axes and (self.marks is None or self.marks.all()):
            return self._stored(axes)
        out = self.filled(tuple(map(len, axes)))
        if self.marks is None and inside[0]:
            out[: len(inside[0])] = self._stored(inside)
        elif self.marks is not None:
            for origin, place, part in cut_at_chunks(inside, self.chunk_shape):
                if self.marks[self._index(origin)]:
                    out[place] = self._stored(part)
        return out

    def _stored(self, axes: Axes) -> np.ndarray:
        header = self.owner.header
        strides, begin = header.strides(self.variable), header.begins[self.index]
        source = classic.ClassicSource(self.owner.file, self.dtype, self.shape, strides, begin)
        return source.read(tuple([slice(a.start, a.stop, a.step) for a in axes]))

    def _index(self, origin: tuple[int, ...]) -> tuple[int, ...]:
        """Return the position of a block in `marks`."""
        return tuple([o // c for o, c in zip(origin, self.chunk_shape, strict=True)])

    # -- writing

    def _write(self, axes: Axes, values: np.ndarray) -> None:
        if not values.size:
            return
        with self.owner.lock:
            if self.is_record and axes[0][-1] >= self.records:
                # Records between the last one and the new ones need fill values, as do new ones that are incomplete.
                inner = all(len(axis) == n for axis, n in zip(axes[1:], self.shape[1:], strict=True))
                self.fill_records(axes[0].start if inner and axes[0].step == 1 else axes[0][-1] + 1)
            elif self.marks is not None:
                for origin, _, part in cut_at_chunks(axes, self.chunk_shape):
                    index = self._index(origin)
                    # The bytes of an unwritten block are no fill values yet.
                    if not self.marks[index]:
                        if part != (place := self._block(index)):
                            self._fill(place)
                        self.marks[index] = True
            self._put(axes, values)
            if self.is_record:
                self.records = max(self.records, axes[0][-1] + 1)

    def _block(self, index: Sequence[int]) -> Axes:
        """Return the ranges of a block of `marks`."""
        shape = (self.records, *self.shape[1:]) if self.is_record else self.shape
        sizes = zip(index, self.chunk_shape, shape, strict=True)
        return tuple([range(i * b, min((i + 1) * b, n)) for i, b, n in sizes])

    def _fill(self, axes: Axes) -> None:
        if self.fills:
            self._put(axes, self.filled(tuple(map(len, axes))))

    def fill_records(self, count: int) -> None:
        """Ensure that the first `count` records have values or fill in the file."""
        with self.owner.lock:
            if self.records < count:
                self.fill_blocks()
                inner = self.shape[1:]
                rows = max(1, _FILL // max(1, math.prod(inner) * self.dtype.itemsize))
                for start in range(self.records, count, rows):
                    self._fill((range(start, min(start + rows, count)), *map(range, inner)))
                self.records = count

    def fill_blocks(self) -> None:
        """Ensure that all blocks have values or fill in the file."""
        with self.owner.lock:
            if self.marks is not None:
                for index in np.argwhere(~self.marks).tolist() if self.fills else ():
                    self._fill(self._block(index))
                self.marks = None

    def _put(self, axes: Axes, values: np.ndarray) -> None:
        """Write values to the file. The caller holds its lock."""
        if not values.size:
            return
        header = self.owner.header
        strides, begin = header.strides(self.variable), header.begins[self.index]
        big = np.ascontiguousarray(values, self.dtype.newbyteorder(">")).reshape(values.shape)
        offset = begin + sum(a.start * stride for a, stride in zip(axes, strides, strict=True))
        steps = tuple([a.step * stride for a, stride in zip(axes, strides, strict=True)])
        together = _together(big.shape, steps, self.dtype.itemsize)
        span = self.dtype.itemsize + sum((len(a) - 1) * step for a, step in zip(axes, steps, strict=True))
        # Each short run would be a call of the system.
        if big.nbytes // together > _RUNS and span <= max(_SPAN, 2 * big.nbytes):
            content, path = self.owner.content, self.owner.path
            current = bytearray(span)
            there = min(span, max(0, content.size - offset))
            if there:
                current[:there] = read_all(content, offset, there, path)
            np.ndarray(big.shape, big.dtype, current, 0, steps)[...] = big
            write_all(content, offset, current, path)
        else:
            self._runs(offset, big, steps)

    def _runs(self, offset: int, values: np.ndarray, steps: tuple[int, ...]) -> None:
        """Write an array run by run. A run is contiguous in the file."""
        if _together(values.shape, steps, values.itemsize) == values.nbytes:
            data = values.reshape(-1).view(np.uint8).data
            write_all(self.owner.content, offset, data, self.owner.path)
            return
        for i in range(values.shape[0]):
            self._runs(offset + i * steps[0], values[i, ...], steps[1:])

    def grow(self, shape: tuple[int, ...]) -> None:
        """Accept a larger shape."""
        # A header that leaves the count to the file's size would count unfinished records.
        if self.is_record:
            self.owner.count_in_header()
        super().grow(shape)


def _together(shape: tuple[int, ...], steps: tuple[int, ...], itemsize: int) -> int:
    """Return the size in bytes of the contiguous runs of an array with these strides."""
    size = itemsize
    for length, step in zip(shape[::-1], steps[::-1], strict=True):
        if length != 1 and step != size:
            break
        size *= length
    return size


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
    restrictions = Restrictions(
        limited=frozenset({"variable"}), names_without_slash=True, without_shards=True
    )

    def __init__(
        self, path: str, content: ByteFile, dataset: Dataset | None = None, *, output: Output | None = None
    ) -> None:
        super().__init__(path, output, content)
        #: True while data move. It stays True if the move fails.
        self._moving = False
        #: The original file and the name of its copy, while data move in the copy.
        self._replaced: ByteFile | None = None
        self._moved: Output | None = None
        self._locks: list[FileLock] = []
        self._values: dict[str, ClassicValues] = {}
        self.file = classic.ClassicFile(path, content)
        #: Held by writers.
        self.lock = make_lock(Rank.STORE)
        try:
            if dataset is None:
                self.header = classic.parse_header(self.file)
                found = classic.read_classic(self.file, Path(path).stem)
                for index, (fqn, variable) in enumerate(found.all_variables.items()):
                    self._values[fqn] = self._values_of(fqn, index, variable, found, fresh=False)
                self._model = StoredModel(found)
                self._take_model(found)
            else:
                self._model = StoredModel(Dataset(dataset.name, format=dataset.format))
                self.header = Header(classic.FORMATS[dataset.format or "classic"], self.dataset)
                self._write_header()
                self.update(dataset)
        except BaseException:
            self.abandon()
            raise

    def _values_of(
        self, fqn: str, index: int, variable: Variable, dataset: Dataset, *, fresh: bool
    ) -> ClassicValues:
        assert isinstance(variable.type, PrimitiveType)
        shape = dataset.shape_of(variable)
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
        classic.refuse_losses(self.path, dataset, dataset.format)
        empty = Header(self.header.version, Dataset(dataset.name))
        classic.check_places(laid_out(empty, replace(empty, dataset=dataset)))

    def update(self, dataset: Dataset) -> None:
        """Change the file's content to `dataset`; see :class:`FileEditor`.

        Raises
        ------
        LossError, ModelError
            Before any change.
        """
        self._check_open()
        assert dataset.format is not None
        classic.refuse_losses(self.path, dataset, dataset.format)
        found = match(self.dataset, dataset, self._values)
        ordered = self._in_order(dataset, found)
        planned = laid_out(self.header, replace(self.header, dataset=ordered))
        classic.check_places(planned)
        with self.lock:
            records = next((d.size for d in dataset.dimensions if d.unlimited), 0)
            self._change_layout(planned, ordered, found)
            # The file has the new variables now, also if their records do not fit on the disk.
            counted = min(records, self.header.records)
            self._take_model(
                rewrite(dataset, dimension=lambda _, d: replace(d, size=counted) if d.unlimited else d)
            )
            try:
                self._count(records)
            except NetCDFFileError as error:
                name = next(join_fqn("/", d.name) for d in dataset.dimensions if d.unlimited)
                raise PartlyStoredError([(name, error)], path=self.path) from error
            self._take_model(dataset)

    def _in_order(self, new: Dataset, found: Matches) -> Dataset:
        """Return the new model in the order of the file, in which existing objects keep their positions."""
        dimensions = {was: fqn for fqn, was in found.dimensions.items()}
        variables = {was: fqn for fqn, was in found.variables.items()}
        removed = [fqn for fqn in self.dataset.all_variables if fqn not in variables]
        removed += [fqn for fqn in self.dataset.all_dimensions if fqn not in dimensions]
        # netCDF-C has no call that removes them, and the data behind would move.
        if removed:
            raise ModelError("an edit cannot remove parts of a classic file", path=self.path, fqn=removed[0])
        old, present = [], []
        for fqn, before in self.header.dataset.all_dimensions.items():
            after = new.dimension_at(dimensions[fqn])
            # With another size, the data of all variables behind would move.
            if after.unlimited != before.unlimited or not (after.unlimited or after.size == before.size):
                wrong = "a dimension of a classic file cannot have another size"
                raise ModelError(wrong, path=self.path, fqn=fqn)
            old.append(after)
        for fqn, variable in self.header.dataset.all_variables.items():
            later = new.all_variables[variables[fqn]]
            if later.type != variable.type or len(later.dimensions) != len(variable.dimensions):
                wrong = "the type and the rank of a variable cannot be changed"
                raise ModelError(wrong, path=self.path, fqn=fqn)
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
        moving = moves(old, planned)
        records = [v.records for v in self._values.values() if v.is_record]
        count = max(records, default=0)
        longest = replace(planned, records=max(count, planned.records))
        with file_errors(self.path):
            beside = self._continue_in_copy() if moving else None
        self._extend(longest.file_size)
        if moving:
            write_all(self.content, 0, _MOVING, self.path)
            move_data(self.content, self.path, old, planned, records)
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
        if moving or classic.format_header(old) != classic.format_header(planned):
            self._write_header()
        # Data that moved in the file itself were damaged for good by a kill or a loss of power.
        if beside is not None:
            self._replace_file(beside)
        self._moving = False

    def _continue_in_copy(self) -> Output | None:
        """Continue in a copy of the file while its data move. Return None for new files and files in memory.

        The file stays unchanged until the copy replaces it. In a folder without permission to create files,
        the data move in the file itself, whose first bytes then mark it as invalid.
        """
        self._moving = True
        # New files and files in memory have no readers.
        if self._output is not None or not isinstance(self.content, DiskFile):
            return None
        output = Output(self.path)
        try:
            output.durable = self.content.durable
            output.copy_target()
            content = DiskFile(str(output.path), "r+")
        except PermissionError:
            return None
        except OSError:
            output.discard()
            self._moving = False
            raise
        content.durable = self.content.durable
        self._replaced = self.content
        self.content = self.file.content = content
        self._moved = output
        return output

    def _replace_file(self, output: Output) -> None:
        with file_errors(self.path):
            self.content.sync()
            # The lock of the old file does not cover the new one.
            self._locks.append(FileLock(str(output.path)))
            output.commit()
        self._moved = None
        self._close_replaced()

    def _close_replaced(self) -> None:
        """Close the replaced file, whose content is obsolete."""
        replaced, self._replaced = self._replaced, None
        if isinstance(replaced, DiskFile):
            # Its bytes are obsolete: a wait for the disk would be for nothing.
            replaced.durable = False
            replaced.close()

    def _write_header(self) -> None:
        """Write the header. Its first bytes are written last."""
        data = classic.format_header(self.header)
        self._extend(len(data))
        # The header must not refer to data that the disk does not have.
        self._wait_for_disk()
        write_all(self.content, 4, data[4:], self.path)
        write_all(self.content, 0, data[:4], self.path)

    def lengthen(self, sizes: Mapping[str, int]) -> bool:
        """Write the number of records."""
        self._check_open()
        with self.lock:
            for size in sizes.values():
                self._count(size)
        self._model.note(sizes)
        return True

    def take_back_records(self) -> None:
        """Extend the file to the counted records."""
        with self.lock:
            for values in self._values.values():
                if values.is_record:
                    values.records = self.header.records
            with suppress(OSError):  # readers ignore bytes behind the last record
                if self.header.file_size < self.content.size:
                    self.content.truncate(self.header.file_size)

    def count_in_header(self) -> None:
        """Write the number of records to a header that leaves it to the file's size, as in a stream.

        The file grows before the new records are complete.
        """
        if not self.header.counted:
            with self.lock:
                self._write_count()
                self.header = replace(self.header, counted=True)

    def _write_count(self) -> None:
        width = classic.count_size(self.header.version)
        write_all(self.content, 4, self.header.records.to_bytes(width, "big"), self.path)

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
            self.content.sync()

    def _extend(self, size: int) -> None:
        """Extend the file to at least this size."""
        with file_errors(self.path):
            if self.content.size < size:
                self.content.truncate(size)

    # -- closing

    def sync(self) -> None:
        """Write fill values to unwritten regions."""
        self._check_open()
        for values in self._values.values():
            values.fill_blocks()
        self._wait_for_disk()

    @property
    def is_open(self) -> bool:
        return self.file.is_open

    @property
    def _data(self) -> Mapping[str, ClassicValues]:
        return self._values

    def _release(self) -> None:
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
    >>> from nczarr.model import INT, Dimension
    >>> content = Dataset("d", dimensions=(Dimension("x", 5),), variables=(Variable("v", INT, ("/x",)),))
    >>> more = replace(content, variables=(*content.variables, Variable("w", INT, ("/x",))))
    >>> laid_out(Header(1, content, begins=(200,)), Header(1, more)).begins
    (200, 220)
    """
    begins = [0] * len(new.dataset.variables)
    size = place = len(classic.format_header(replace(new, begins=tuple(begins))))
    if old.begins:
        first = min(old.begins)
        place = first if size <= first else padded(size + max(_ROOM, size // 2))
    for record in (False, True):
        if record:
            before = zip(old.dataset.variables, old.begins, strict=True)
            place = max([place, *[b for v, b in before if old.is_record(v)][:1]])
        for i, v in enumerate(new.dataset.variables):
            if new.is_record(v) != record:
                continue
            if i < len(old.begins) and not record:
                place = max(place, old.begins[i])
            begins[i] = place
            place += padded(new.slab(v))
    return replace(new, begins=tuple(begins))


def moves(old: Header, new: Header) -> bool:
    """Return True if the offset of any existing data differs."""
    # A second record variable pads the records of the first.
    return old.begins != new.begins[: len(old.begins)] or (
        old.record_size != new.record_size and any(map(old.is_record, old.dataset.variables))
    )


def move_data(content: ByteFile, path: str, old: Header, new: Header, records: Sequence[int]) -> None:
    """Move all data from their old offsets to the new ones. `records` has the record count of each variable."""
    places = list(zip(old.dataset.variables, old.begins, new.begins, strict=False))
    growing = [(source, target) for v, source, target in places if old.is_record(v)]
    count, step = max(records, default=0), old.record_size
    if growing and count:
        source, target = growing[0]
        if source != target or step != new.record_size:
            _move(content, path, source, target, count, step, new.record_size)
    for v, source, target in reversed(places):
        if source != target and not old.is_record(v):
            # All variables move towards the end, so the last one goes first, and none is written over.
            _move(content, path, source, target, old.slab(v), 1, 1)


def _move(content: ByteFile, path: str, source: int, target: int, count: int, old: int, new: int) -> None:
    """Move `count` records of `old` bytes towards the end, to slots of `new` bytes, the last record first.

    The ranges may overlap. The last record of the file may lack its padding.
    """
    rows = max(1, _STEP // max(old, new, 1))
    for start in range((count - 1) // rows * rows, -1, -rows):
        n = min(rows, count - start)
        # A file may end before the padding of its last record.
        there = min(n * old, content.size - (source + start * old))
        data = bytes(read_all(content, source + start * old, there, path)).ljust(n * old, b"\0")
        moved = np.zeros((n, new), np.uint8)
        moved[:, :old] = np.frombuffer(data, np.uint8).reshape(n, old)
        write_all(content, target + start * new, moved.data, path)

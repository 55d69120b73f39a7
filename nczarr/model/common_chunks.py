"""Choose one chunk length for each dimension, which all variables of a dataset share.

Dask has one division of each dimension: ``Dataset.chunks`` and ``map_blocks`` of xarray raise an error for a dataset
whose variables are divided differently. Index coordinates are an exception, because xarray keeps them in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from nczarr.dataclass import dataclass
from nczarr.lazy import cached_property
from nczarr.model.chunk_shapes import TARGET, default_chunks, default_shards
from nczarr.model.names import split_fqn
from nczarr.model.nodes import DimensionRef

#: Limit in bytes of a chunk with lengths that other variables have set.
LARGEST = 64 << 20
#: More objects than this, by the number that a variable has with chunks of its own, are packed into shards.
_MORE_OBJECTS = 1.2
#: Assumed number of steps along an empty unlimited dimension.
_STEPS = 4096
#: The reason of a chunk length that is the size of its dimension.
WHOLE = "whole dimension"
#: The reason of a length that a program asks for.
REQUESTED = "as requested"

_Shape = tuple[int, ...]
#: A dimension, and its number among the equal dimensions of a variable.
_Axis = tuple[DimensionRef, int]


@dataclass(frozen=True)
class StepUnit:
    """A number of steps that belong together: those of a source file, a day, a month, or a year.

    Examples
    --------
    >>> str(StepUnit(4, "file")), StepUnit(4, "file").multiple(24), StepUnit(24, "day").part(6)
    ('a file of 4 steps', '6 files × 4 steps', '1/4 of a day of 24 steps')
    """

    steps: int
    name: str

    def __str__(self) -> str:
        return f"a {self.name} of {_counted(self.steps, 'step')}"

    def multiple(self, length: int) -> str:
        """Describe a length of whole units."""
        return f"{_counted(length // self.steps, self.name)} × {_counted(self.steps, 'step')}"

    def part(self, length: int) -> str:
        """Describe a length that divides the unit."""
        return f"1/{self.steps // length} of {self}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


@dataclass(frozen=True)
class ChunkLength:
    """The chunk length along a dimension, and the reason for it.

    Examples
    --------
    >>> print(ChunkLength("/time", 24, "6 files × 4 steps"))
    time: 24 = 6 files × 4 steps
    >>> print(ChunkLength("/lat", 181, "2.0 MiB of /temp"))
    lat: 181 (2.0 MiB of /temp)
    """

    dimension: str
    length: int
    reason: str

    def __str__(self) -> str:
        name = split_fqn(self.dimension)[1]
        reason = f" = {self.reason}" if "×" in self.reason else f" ({self.reason})"
        return f"{name}: {self.length}{reason}"

    def to_json(self) -> dict[str, object]:
        """Return the length as a JSON object."""
        return asdict(self)


@dataclass(frozen=True)
class ChunkWish:
    """The chunks that a variable would have if it were alone, and the lengths that it must have.

    Parameters
    ----------
    fqn : str
    dimensions : tuple of str or int
    shape : tuple of int
        0 along a dimension that is going to grow.
    itemsize : int
        Approximate size of one value in bytes.
    alone : tuple of int
        The chunk shape that suits the variable.
    given : tuple of int or None
        The lengths that are requested or stored; None along the other axes.
    reason : str
        Where the given lengths come from.
    source : tuple of int or None
        The chunk shape in the source.
    """

    fqn: str
    dimensions: tuple[DimensionRef, ...]
    shape: _Shape
    itemsize: int
    alone: _Shape
    given: tuple[int | None, ...]
    reason: str = REQUESTED
    source: _Shape | None = None

    @classmethod
    def of(
        cls,
        fqn: str,
        dimensions: Sequence[DimensionRef],
        shape: Sequence[int],
        unlimited: Sequence[bool],
        itemsize: int,
        stored: _Shape | None = None,
    ) -> ChunkWish:
        """Return the wish of a variable with the chunks that it has, or with default ones."""
        alone = stored or default_chunks(shape, unlimited, itemsize)
        given = stored or (None,) * len(alone)
        return cls(fqn, tuple(dimensions), tuple(shape), itemsize, alone, given, "as stored")

    @cached_property
    def is_index(self) -> bool:
        """True for a variable from which xarray makes an index, so that it is never divided."""
        own = self.dimensions[0]
        return (
            len(self.dimensions) == 1 and isinstance(own, str) and split_fqn(own)[1] == split_fqn(self.fqn)[1]
        )

    @cached_property
    def axes(self) -> tuple[_Axis, ...]:
        """The dimensions, each with its number among the equal ones."""
        return tuple([(d, self.dimensions[:i].count(d)) for i, d in enumerate(self.dimensions)])

    @property
    def size(self) -> int:
        """Size of the values in bytes."""
        return math.prod(n or _STEPS for n in self.shape) * self.itemsize

    def bytes(self, block: Sequence[int]) -> int:
        """Return the size of a block in bytes."""
        return math.prod(block) * self.itemsize

    def shards(self, chunks: _Shape, units: Units | None = None) -> _Shape | None:
        """Return shards as large as the chunks that suit the variable, if smaller chunks would make many objects.

        Along a dimension of source files, a shard has whole files: the next file then begins with a new shard.

        Examples
        --------
        >>> wish = ChunkWish.of("/v", ("/time",), (8760,), (False,), 8)
        >>> wish.shards((24,)), wish.shards((8000,))
        ((8760,), None)
        """
        whole, part = self.bytes(self.alone), self.bytes(chunks)
        if whole <= _MORE_OBJECTS * part:
            return None
        growing = [n == 0 for n in self.shape]
        found = default_shards(self.shape, growing, chunks, self.itemsize, target=whole + part - 1)
        files = {} if units is None else units.files
        return found and tuple(
            _whole_files(s, c, n, files.get(d) if isinstance(d, str) else None)
            for s, c, n, d in zip(found, chunks, self.shape, self.dimensions, strict=True)
        )


def _whole_files(length: int, chunk: int, size: int, file: StepUnit | None) -> int:
    """Reduce the length of a shard to whole files and whole chunks.

    Examples
    --------
    >>> _whole_files(27, 1, 120, StepUnit(4, "file")), _whole_files(120, 1, 120, StepUnit(4, "file"))
    (24, 120)
    """
    # Shards of 27 steps made each daily append of 4 steps rewrite one.
    if file is None or length >= size > 0:
        return length
    unit = math.lcm(chunk, file.steps)
    return length // unit * unit or length


@dataclass(frozen=True)
class CommonChunks:
    """The chunk shapes of variables, by FQN, and the lengths that they have in common."""

    shapes: Mapping[str, _Shape]
    lengths: tuple[ChunkLength, ...]


@dataclass(frozen=True)
class Units:
    """The units of steps along dimensions.

    Parameters
    ----------
    files : mapping
        The units of source files, by FQN of the dimension.
    natural : callable
        Returns days, months and years, for the FQN of a dimension. It may read a coordinate.
    """

    files: Mapping[str, StepUnit]
    natural: Callable[[str], Sequence[StepUnit]] = lambda fqn: ()


def common_chunks(wishes: Sequence[ChunkWish], units: Units | None = None) -> CommonChunks:
    """Choose chunk shapes with one length along each dimension, index coordinates excepted.

    Lengths that are requested or stored come first, unless another variable would have huge chunks. The largest
    variable, whose chunks cost most to read, sets the others; chunks that would then be too large for a smaller one
    are divided for all. A length along a dimension with units is reduced to whole units, or to a part of one, so that
    the next file begins with a chunk.

    Examples
    --------
    >>> shape, growing = (120, 8, 60, 80), (True, False, False, False)
    >>> dimensions = ("/time", "/z", "/y", "/x")
    >>> temp = ChunkWish("/temp", dimensions, shape, 4, (27, 8, 60, 80), (None,) * 4)
    >>> level = ChunkWish.of("/level", ("/time", "/y", "/x"), (120, 60, 80), (True, False, False), 4)
    >>> found = common_chunks([temp, level], Units({"/time": StepUnit(4, "file")}))
    >>> found.shapes, level.shards(found.shapes["/level"])
    ({'/temp': (24, 8, 60, 80), '/level': (24, 60, 80)}, (120, 60, 80))
    >>> print(found.lengths[0])
    time: 24 = 6 files × 4 steps
    """
    chosen = _Lengths(units or Units({}))
    largest_first = sorted((w for w in wishes if not w.is_index), key=lambda w: -w.size)
    for wish in largest_first:
        chosen.fix(wish)
    for wish in largest_first:
        chosen.release(wish)
    for wish in largest_first:
        chosen.add(wish)
    sizes = {axis: n for w in largest_first for axis, n in zip(w.axes, w.shape, strict=True)}
    for axis in chosen.free:
        chosen.align(axis, sizes[axis])
    shapes = {fqn: chosen.shape(wish) for fqn, wish in {w.fqn: w for w in wishes}.items()}
    used = {
        axis
        for w in largest_first
        for axis, c in zip(w.axes, shapes[w.fqn], strict=True)
        if c == chosen[axis]
    }
    lengths = [
        ChunkLength(dimension, chosen[dimension, 0], chosen.reasons[dimension, 0])
        for dimension, number in sizes
        if number == 0 and isinstance(dimension, str) and (dimension, 0) in used
    ]
    return CommonChunks(shapes, tuple(lengths))


class _Lengths(dict[_Axis, int]):
    """The lengths that are chosen until now."""

    def __init__(self, units: Units) -> None:
        super().__init__()
        self.units = units
        self.free: dict[_Axis, ChunkWish] = {}
        self.reasons: dict[_Axis, str] = {}

    def fix(self, wish: ChunkWish) -> None:
        """Set the lengths that a variable must have, where a larger one has set none."""
        for axis, length in zip(wish.axes, wish.given, strict=True):
            if length is not None and axis not in self:
                self[axis], self.reasons[axis] = length, wish.reason

    def release(self, wish: ChunkWish) -> None:
        """Leave out lengths that suit smaller variables only: with them, a chunk of this one would be huge."""
        if None in wish.given:
            lengths = [self.get(axis, own) for axis, own in zip(wish.axes, wish.alone, strict=True)]
            if wish.bytes(lengths) > max(LARGEST, wish.bytes(wish.alone)):
                for axis, given, own in zip(wish.axes, wish.given, wish.alone, strict=True):
                    if given is None and self.get(axis, own) > own:
                        del self[axis]

    def add(self, wish: ChunkWish) -> None:
        """Set the lengths that are not set yet, and divide those that make chunks of the variable too large."""
        for axis, length in zip(wish.axes, wish.alone, strict=True):
            if axis not in self:
                self[axis], self.free[axis] = length, wish
        most = max(wish.bytes(wish.alone), 2 * TARGET)
        for axis in wish.axes:
            size = wish.bytes([self[a] for a in wish.axes])
            if size <= most:
                break
            if axis in self.free:
                pieces = min(self[axis], -(-size // most))
                self[axis], self.free[axis] = -(-self[axis] // pieces), wish

    def align(self, axis: _Axis, size: int) -> None:
        """Reduce a length to whole units, and note the reason for it."""
        dimension, wish = axis[0], self.free[axis]
        size_of_chunk = wish.bytes([self[a] for a in wish.axes])
        self.reasons[axis] = f"{size_of_chunk / (1 << 20):.1f} MiB of {wish.fqn}"
        if wish.source is not None and self[axis] == wish.source[wish.axes.index(axis)]:
            self.reasons[axis] = "as in the source"
        is_whole = 0 < size <= self[axis]
        if is_whole:
            self.reasons[axis] = WHOLE
        if not isinstance(dimension, str):
            return
        file = self.units.files.get(dimension)
        if is_whole:
            if file is not None and self[axis] % file.steps == 0:
                self.reasons[axis] = file.multiple(self[axis])
            return
        if size == 0 or self[axis] == 1:
            return
        known = [*self.units.natural(dimension), *([] if file is None else [file])]
        self[axis], reason = aligned(self[axis], known)
        self.reasons[axis] = reason or self.reasons[axis]

    def shape(self, wish: ChunkWish) -> _Shape:
        """Return the chunk shape of a variable."""
        axes = list(zip(wish.axes, wish.given, wish.alone, strict=True))
        shared = tuple(self.get(axis, own) if given is None else given for axis, given, own in axes)
        is_free = wish.is_index or wish.bytes(shared) > max(LARGEST, wish.bytes(wish.alone))
        return tuple(own if given is None else given for _, given, own in axes) if is_free else shared


def aligned(length: int, units: Sequence[StepUnit]) -> tuple[int, str | None]:
    """Return the greatest length up to `length` that has whole units or divides one, and the reason.

    The longest unit counts that shortens the chunks little. No unit counts that would more than halve them.

    Examples
    --------
    >>> file, day = StepUnit(8760, "file"), StepUnit(24, "day")
    >>> aligned(27, [file, day]), aligned(5, [file, day]), aligned(100, [StepUnit(4, "file")])
    ((24, '1 day × 24 steps'), (5, '1/1752 of a file of 8760 steps'), (100, '25 files × 4 steps'))
    >>> aligned(27, [StepUnit(31, "file")])
    (27, None)
    """
    found: list[tuple[int, str]] = []
    by_steps = sorted(units, key=lambda u: u.steps)
    for unit in reversed(by_steps):
        if whole := length // unit.steps * unit.steps:
            found.append((whole, unit.multiple(whole)))
            if length <= _MORE_OBJECTS * whole:
                return found[-1]
    for unit in by_steps:
        if unit.steps > length and (part := _divisor(unit.steps, length)):
            found.append((part, unit.part(part)))
    best = max(found, key=lambda one: one[0], default=(0, ""))
    return best if 2 * best[0] >= length else (length, None)


def _divisor(steps: int, length: int) -> int:
    """Return the greatest divisor up to a length; 0 if it is less than half the length."""
    if steps < length * length:  # fewer quotients than divisors are possible
        quotients = range(-(-steps // length), 2 * steps // length + 1)
        return next((steps // q for q in quotients if steps % q == 0), 0)
    return next((n for n in range(length, length // 2, -1) if steps % n == 0), 0)

"""Choose how variables are stored: chunks, shards, compression, unlimited dimensions, rounding."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from nczarr import model
from nczarr.compression import AskedCodecs, is_configuration
from nczarr.convert.change.packing import (
    codecs_of_copy,
    describe_codecs,
    filters_asked,
    in_any_file,
    is_choice,
    names_codec,
    portable_codecs,
    refused_filters,
    replaced_filters,
    storage_in_file,
)
from nczarr.convert.change.selecting import find_dimension
from nczarr.errors import UnsupportedError, error_context
from nczarr.formats import CLASSIC, Kind
from nczarr.mapping.values.encodings import without_data_types
from nczarr.model import Dataset, Storage, Variable, rewrite
from nczarr.model.chunk_shapes import SHARD, chunks_in_shards, default_chunks, default_shards, misfit
from nczarr.model.common_chunks import LARGEST, ChunkLength, ChunkWish, CommonChunks, Units, common_chunks
from nczarr.model.sources import ChangedSource
from nczarr.model.typed import list_names, matching, partition_typed, similar_name, split_typed, units_of
from nczarr.options import NEW, Take, named, option
from nczarr.transfer import block_shape, value_bytes
from nczarr.zarr.codecs.base import requested_codecs

#: Chunks of a netCDF source keep sizes from this one to :data:`LARGEST`.
SMALLEST = 256 << 10
#: Approximate size of chunks that are chosen automatically.
_CHUNK = 4 << 20
#: Number of chunks of a variable above which it gets shards.
MANY = 10_000

#: Lengths by FQN of the dimension, where None is "auto"; or along each axis.
_Lengths = Mapping[str, int | None] | tuple[int, ...]
#: The options whose value may be limited to some variables.
BY_VARIABLE = ("chunks", "shards", "compression", "quantize")
#: The netCDF formats by the words of nccopy.
KINDS = {
    **dict.fromkeys(("1", "nc3", "classic"), "classic"),
    **dict.fromkeys(("2", "6", "nc6", "64-bit offset", "64-bit-offset", "64bit-offset"), "64-bit offset"),
    **dict.fromkeys(("3", "nc4", "netCDF-4", "netcdf-4", "enhanced"), "netCDF-4"),
    **dict.fromkeys(
        ("4", "7", "nc7", "netCDF-4 classic model", "netCDF-4-classic-model", "enhanced-nc3"),
        "netCDF-4 classic model",
    ),
    **dict.fromkeys(("5", "nc5", "cdf5", "64-bit data", "64-bit-data"), "cdf5"),
}


class Placed(str):
    """A name with its place in a file, for messages."""

    place: str | None = None

    @classmethod
    def at(cls, name: str, place: str | None) -> Placed:
        """Return a name at a place."""
        own = cls(name)
        own.place = place
        return own


@dataclass(frozen=True)
class OutputOptions:
    """How the variables of a copy are stored; the default of each option is the storage of the source.

    Parameters
    ----------
    chunks : str or mapping, optional
        Lengths by dimension (``time=1,lat=100``; -1 is the whole dimension), or ``auto``.
    chunk_bytes : int or str, optional
        Approximate size of chunks for which no length is given.
    shards : str, int or mapping, optional
        Lengths by dimension (default: the whole dimension), a number of bytes, or ``auto``. Zarr only.
    compression : str, optional
        ``zstd:3``, ``gzip:6``, ``blosc:lz4:5``, ``none``, ``source``, ``default``, or other codecs, as text.
    checksum : bool
        Store a checksum for every chunk.
    portable : bool
        Write for readers that have few codecs and data types, and refuse other members of arrays than Zarr's.
    quantize : str, optional
        ``[NAME,…=][MODE:]DIGITS``, with the modes of netCDF-C.
    fixed : bool
        Make all unlimited dimensions fixed.
    unlimited : tuple of str
        Make these dimensions unlimited.
    template : mapping
        Lengths of dimensions along which no values are stored.
    rules : mapping
        By option, and by pattern of a variable: the value instead of that above. The last pattern that matches counts.
    """

    chunks: str | Mapping[str, int] | None = option(
        None,
        "chunk lengths: time=1,lat=100 (-1: whole dimension), or auto; of some variables: temp:time=1",
        Take.RULES,
        "[NAME:]DIM=N,…",
        flags="-c --chunks",
        verbs=NEW,
        usual=True,
        planned=True,
    )
    chunk_bytes: int | str | None = option(
        None, "approximate size of a chunk: 4MiB", metavar="SIZE", verbs=NEW
    )
    shards: str | int | Mapping[str, int] | None = option(
        None,
        "Zarr: shard lengths, a size such as 128MiB, or auto",
        Take.RULES,
        "[NAME:]DIM=N,…",
        verbs=NEW,
        usual=True,
        planned=True,
    )
    compression: AskedCodecs | None = option(
        None,
        "zstd:3, gzip:6, blosc:lz4:5, none, a codec's name or JSON, or source (default from netCDF to Zarr: "
        "blosc:zstd, from plain Zarr to netCDF: deflate); of some variables: 'precip*:zstd'",
        Take.RULES,
        "[NAME:]CODEC",
        verbs=NEW,
        usual=True,
        planned=True,
    )
    checksum: bool = option(
        False,
        "store a checksum for every chunk (crc32c, fletcher32)",
        Take.FLAG,
        verbs=NEW,
        planned=True,
    )
    portable: bool = option(
        False,
        "Zarr: write for old and small readers: their codecs, char as uint8, keys of arrays as attributes",
        Take.FLAG,
        verbs=NEW,
        planned=True,
    )
    quantize: str | None = option(
        None,
        "round floats to significant digits: temp=3, BitRound:10",
        Take.RULES,
        "[NAME=]DIGITS",
        verbs=NEW,
        planned=True,
    )
    fixed: bool = option(
        False,
        "make all unlimited dimensions fixed",
        Take.FLAG,
        flags="-u --fixed",
        verbs=NEW,
        planned=True,
    )
    unlimited: tuple[str, ...] = option(
        (), "make this dimension unlimited", Take.NAMES, "DIM", verbs=NEW, planned=True
    )
    template: Mapping[str, float] = option(
        dict,
        "make this dimension so long, and store no values along it: writers of regions do (append --region)",
        Take.NUMBERS,
        "DIM=N",
        verbs=NEW,
        planned=True,
    )
    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def with_rules(self) -> OutputOptions:
        """Separate the values that are limited to variables: ``temp:time=1``, ``{"temp": {"time": 1}}``.

        Examples
        --------
        >>> how = OutputOptions(compression=["zstd:5", "precip*:none"], quantize="temp=3").with_rules()
        >>> how.compression, how.quantize, how.rules
        ('zstd:5', None, {'compression': {'precip*': 'none'}, 'quantize': {'temp': '3'}})
        """
        pairs = {name: _by_variable(name, getattr(self, name)) for name in BY_VARIABLE}
        rules = {name: own for name, (_, own) in pairs.items() if own}
        return replace(self, rules=rules, **{name: value for name, (value, _) in pairs.items()})

    def by_variable(self, dataset: Dataset) -> dict[str, OutputOptions]:
        """Return the options of the variables that a pattern matches, by FQN.

        Raises
        ------
        UnsupportedError
            If a pattern matches none.
        """
        found: dict[str, dict[str, Any]] = {}
        for name, rules in self.rules.items():
            names = dataset.all_variables
            if name == "quantize":
                # Only floats have digits to round.
                names = {fqn: v for fqn, v in names.items() if v.type.dtype.kind == "f"}
            for pattern, value in rules.items():
                chosen = matching(pattern, names)
                # A misspelled name would leave the storage as it is, without a word.
                if not chosen:
                    what = "float or double variable" if name == "quantize" else "variable"
                    raise UnsupportedError(
                        f"{named(name, str(pattern))}: there is no {what} of this name",
                        path=getattr(pattern, "place", None),
                        hint=similar_name(pattern, names),
                    )
                for fqn in chosen:
                    found.setdefault(fqn, {})[name] = value
                    rank = len(names[fqn].dimensions)
                    # A list of a compression is a chain of codecs, and its length is free.
                    if (
                        name in ("chunks", "shards")
                        and isinstance(value, list | tuple)
                        and not (
                            len(value) == rank
                            and all(isinstance(n, int) and (n > 0 or n == -1) for n in value)
                        )
                    ):
                        raise UnsupportedError(
                            f"{named(name, value)}: not the lengths along {rank} dimensions",
                            path=getattr(pattern, "place", None),
                            fqn=fqn,
                        )
        return {fqn: replace(self, **own) for fqn, own in found.items()}


class Shaped(NamedTuple):
    """A dataset as it is to be written.

    Attributes
    ----------
    dataset : Dataset
    replaced : tuple of str
        Differences of the storage from the source that were not requested, but are necessary.
    lengths : tuple of ChunkLength
        The chunk lengths of Zarr arrays along each dimension, and the reasons for them.
    """

    dataset: Dataset
    replaced: tuple[str, ...]
    lengths: tuple[ChunkLength, ...] = ()


@dataclass(frozen=True)
class Shaping:
    """The rules for storing the variables of a copy.

    Attributes
    ----------
    source, target : {'netcdf', 'zarr', 'cdl'} or None
        For a netCDF source, whose chunks and deflate suit spinning disks, the default for Zarr output is better chunks
        and compression. The codecs of a Zarr source without a netCDF format may need plugins of HDF5: netCDF output
        uses deflate instead.
    own : mapping
        The options of some variables, by FQN.
    general : tuple
        The lengths of chunks and of shards, for all variables.
    units : Units or None
        The units of steps.
    is_joined : bool
        The dataset has several sources.
    """

    dataset: Dataset
    how: OutputOptions
    source: Kind | None
    target: Kind
    layout: str
    own: Mapping[str, OutputOptions]
    general: tuple[_Lengths | str | None, ...] = (None, None)
    units: Units | None = None
    is_joined: bool = False
    replaced: list[str] = field(default_factory=list)

    @property
    def is_netcdf_to_zarr(self) -> bool:
        """True if the storage of the source suits another format."""
        return self.source == "netcdf" and self.target == "zarr"

    @property
    def is_for_zarr(self) -> bool:
        """True if the storage of the source suits Zarr, but the target is a netCDF file."""
        return self.source == "zarr" and self.target == "netcdf" and self.dataset.format is None

    def variable(self, fqn: str, variable: Variable) -> Variable:
        """Return a variable with its storage in the target."""
        # A scalar has no chunks.
        if not variable.dimensions:
            return (
                variable
                if self.target == "zarr"
                else replace(variable, storage=in_any_file(variable.storage))
            )
        sizes, (mine, lengths, shard_lengths) = _Sizes.of(self.dataset, variable), self.options_of(fqn)
        if self.target == "netcdf":
            chunks, requested = _chunks(sizes, variable, mine, lengths, self.is_netcdf_to_zarr)
            storage = variable.storage
            if requested:
                storage = replace(storage, layout="chunked", chunk_shape=chunks, array_chunks=chunks)
            variable = replace(variable, storage=storage)
            return replace(variable, storage=self.in_file(fqn, variable, sizes, mine))
        wish, requested = self.wishes[fqn]
        storage, actual = variable.storage, self.common.shapes[fqn]
        if requested:
            storage = replace(storage, layout="chunked", chunk_shape=actual)
        shards = _shards(sizes, actual, shard_lengths, self.is_netcdf_to_zarr)
        index = storage.shard_index if shards is None else None
        if shards is None and shard_lengths is None and not requested:
            shards = storage.shard_shape or wish.shards(actual, self.units)
            # Zarr requires shards of whole chunks, and the common chunks may be longer than those of the
            # source.
            if shards and self.is_joined and misfit(shards, actual):
                shards = tuple(-(-s // c) * c for s, c in zip(shards, actual, strict=True))
        storage = replace(storage, array_chunks=actual, shard_shape=shards, shard_index=index)
        return replace(variable, storage=self.in_zarr(fqn, variable, storage, sizes, mine))

    def options_of(self, fqn: str) -> tuple[OutputOptions, _Lengths | str | None, _Lengths | str | None]:
        """Return the options of a variable, and its requested lengths of chunks and of shards."""
        if fqn not in self.own:
            return self.how, self.general[0], self.general[1]
        with error_context(fqn=fqn):
            lengths, shard_lengths = _all_lengths(self.dataset, self.own[fqn])
        return self.own[fqn], lengths, shard_lengths

    @cached_property
    def common(self) -> CommonChunks:
        """The chunks of the Zarr arrays."""
        return common_chunks([wish for wish, _ in self.wishes.values()], self.units)

    @cached_property
    def unasked(self) -> CommonChunks:
        """The chunks of the Zarr arrays if none were requested."""
        return common_chunks(
            [self.wish(fqn, v, None)[0] for fqn, v in self.dataset.all_variables.items() if v.dimensions],
            self.units,
        )

    @cached_property
    def wishes(self) -> dict[str, tuple[ChunkWish, bool]]:
        """The chunks that each variable needs in Zarr, and whether they are requested."""
        found = {}
        for fqn, variable in self.dataset.all_variables.items():
            if variable.dimensions:
                found[fqn] = self.wish(fqn, variable, self.options_of(fqn)[1])
        return found

    def wish(self, fqn: str, variable: Variable, lengths: _Lengths | str | None) -> tuple[ChunkWish, bool]:
        """Return the chunks that a variable needs, and whether they are requested.

        Lengths that the variable has anyway are not: a plan has those of all variables.
        """
        sizes, mine, storage = (
            _Sizes.of(self.dataset, variable),
            self.own.get(fqn, self.how),
            variable.storage,
        )
        chunks, requested = _chunks(sizes, variable, mine, lengths, self.is_netcdf_to_zarr)
        given: Sequence[int | None] = [None] * len(sizes.shape)
        if requested:
            axes = sizes.lengths(lengths) or given
            given = [c if n else None for c, n in zip(chunks or (), axes, strict=True)]
            if isinstance(lengths, tuple) and chunks == self.unasked.shapes[fqn]:
                alone = self.wish(fqn, variable, None)[0].alone
                return ChunkWish(
                    fqn, sizes.dimensions, sizes.shape, sizes.itemsize, alone, tuple(given)
                ), False
        own = None if requested else storage.array_chunks
        alone = own or chunks or sizes.default()
        if storage.shard_shape and not (own or chunks):
            alone = given = chunks_in_shards(storage.shard_shape, alone)
        elif not requested and (own or chunks) and self.keeps_chunks(mine):
            given = alone
        wish = ChunkWish(fqn, sizes.dimensions, sizes.shape, sizes.itemsize, alone, tuple(given))
        if requested:
            return wish, True
        return replace(wish, reason="as in the source", source=own or storage.chunk_shape), False

    def keeps_chunks(self, mine: OutputOptions) -> bool:
        """True if chunks may be copied undecoded, or if the source is for Zarr: its chunks stay."""
        return mine.compression == "numcodecs" if self.is_netcdf_to_zarr else not self.is_joined

    def in_zarr(
        self, fqn: str, variable: Variable, storage: Storage, sizes: _Sizes, mine: OutputOptions
    ) -> Storage:
        """Return the storage with the codecs of a Zarr array."""
        asked, block = mine.compression, storage.array_chunks or ()
        if mine.portable and asked in (None, "source") and (codecs := portable_codecs(variable)) is not None:
            before = describe_codecs(variable.storage.codecs or ())
            self.replaced.append(
                f"{fqn}: {before}; {describe_codecs(codecs)} replaces what not all readers have"
            )
        else:
            codecs = codecs_of_copy(variable, asked, self.how.compression, block)
        self.replaced.extend(refused_filters(fqn, variable, asked))
        if self.layout == "nczarr-v2" and codecs is not None and not (asked is None or is_choice(asked)):
            # It stores filters only as codecs, and only those that netcdf-c has.
            return replace(storage, codecs=None, filters=filters_asked(str(asked), sizes.itemsize))
        return replace(storage, codecs=codecs)

    def in_file(self, fqn: str, variable: Variable, sizes: _Sizes, mine: OutputOptions) -> Storage:
        """Return the storage with the filters of a netCDF file."""
        asked, checksum, before = mine.compression, mine.checksum, variable.storage
        with error_context(fqn=fqn):
            storage = storage_in_file(variable, asked, checksum=checksum, for_zarr=self.is_for_zarr)
        if not sizes.is_object and storage.filters != before.filters:
            chunks = storage.chunk_shape or (sizes.default() if storage.filters else None)
            # HDF5 filters chunks only.
            layout = "chunked" if storage.filters else storage.layout
            storage = replace(storage, layout=layout, chunk_shape=chunks)
        self.replaced.extend(
            replaced_filters(fqn, variable, storage, asked, checksum=checksum, for_zarr=self.is_for_zarr)
        )
        return storage


def with_storage(
    dataset: Dataset,
    how: OutputOptions,
    *,
    source: Kind | None,
    target: Kind,
    format: str | None = None,
    layout: str = "nczarr-v3",
    units: Units | None = None,
    is_joined: bool = False,
) -> Shaped:
    """Return the dataset as it is to be written.

    Parameters
    ----------
    source, target : {'netcdf', 'zarr', 'cdl'}, or None for an unknown source
    format, layout : str, optional
        The netCDF format of the target, and its layout on Zarr.
    units : Units, optional
        The units of steps to which chunk lengths are reduced.
    is_joined : bool, default False
        The dataset has several sources, so that no chunk of it is copied undecoded.

    Raises
    ------
    UnsupportedError
        If an option is wrong, names no dimension, or the target format does not support it.

    Examples
    --------
    >>> from nczarr.model import DOUBLE, Dimension
    >>> d = Dataset("d", dimensions=(Dimension("x", 20),), variables=(Variable("v", DOUBLE, ("/x",)),))
    >>> how = OutputOptions(chunks="x=5")
    >>> with_storage(d, how, source="netcdf", target="zarr").dataset.variables[0].storage.chunk_shape
    (5,)
    """
    is_classic = (format or dataset.format) in CLASSIC.values()
    _refuse(how, target, format or dataset.format, is_classic)
    dataset = _as_template(_with_unlimited(dataset, how), how)
    own = how.by_variable(dataset)
    # A wrong codec is refused before a value is read.
    for one in (how, *own.values()):
        if one.compression is not None and not is_choice(one.compression):
            requested_codecs(one.compression)
    dataset = _rounded(dataset, how, own)
    widened: tuple[str, ...] = ()
    # netCDF has neither bool nor float16 nor complex numbers.
    if target != "zarr":
        dataset, widened = without_data_types(dataset)
    if target == "cdl":
        return Shaped(dataset, widened)
    general = _all_lengths(dataset, how)
    shaping = Shaping(dataset, how, source, target, layout, own, general, units, is_joined)
    variables = {fqn: shaping.variable(fqn, variable) for fqn, variable in dataset.all_variables.items()}
    replaced = () if is_classic else shaping.replaced
    lengths = shaping.common.lengths if target == "zarr" else ()
    return Shaped(rewrite(dataset, variable=variables.get), (*widened, *replaced), lengths)


def _refuse(how: OutputOptions, target: Kind, format: str | None, is_classic: bool) -> None:
    names = ("chunks", "chunk_bytes", "compression", "checksum")
    given = [named(n) for n in names if getattr(how, n) not in (None, False) or n in how.rules]
    if (how.shards is not None or "shards" in how.rules) and target != "zarr":
        raise UnsupportedError(f"{named('shards')} is for Zarr output: netCDF and CDL have no shards")
    if how.portable and target != "zarr":
        raise UnsupportedError(f"{named('portable')} is for Zarr output: netCDF and CDL have no codecs")
    if given and (target == "cdl" or (target == "netcdf" and is_classic)):
        what = "CDL text" if target == "cdl" else f"the format {format!r}"
        raise UnsupportedError(
            f"{given[0]}: {what} has no chunks", hint=f"{named('format', 'nc4')} makes a netCDF-4 file"
        )


@dataclass(frozen=True)
class _Sizes:
    dimensions: tuple[str | int, ...]
    shape: tuple[int, ...]
    unlimited: tuple[bool, ...]
    itemsize: int
    is_object: bool

    @classmethod
    def of(cls, dataset: Dataset, variable: Variable) -> _Sizes:
        return cls(
            variable.dimensions,
            dataset.shape_of(variable),
            tuple(dataset.is_unlimited(ref) for ref in variable.dimensions),
            value_bytes(variable.type.dtype),
            variable.type.dtype.hasobject,
        )

    def default(self) -> tuple[int, ...]:
        return default_chunks(self.shape, self.unlimited, self.itemsize)

    def bytes(self, block: Sequence[int]) -> int:
        return math.prod(block) * self.itemsize

    def lengths(self, given: _Lengths | str | None) -> list[int | None] | None:
        """Return the requested length along each axis: 0 for none, None for an automatic one; None for no request."""
        if isinstance(given, tuple):
            return list(given)
        if not isinstance(given, dict) or not any(ref in given for ref in self.dimensions):
            return None
        return [given.get(ref, 0) if isinstance(ref, str) else 0 for ref in self.dimensions]


def _all_lengths(dataset: Dataset, how: OutputOptions) -> tuple[_Lengths | str | None, ...]:
    """Return the requested lengths of chunks and of shards."""
    return _by_dimension(dataset, how.chunks, "chunks"), _by_dimension(dataset, how.shards, "shards")


def _by_dimension(
    dataset: Dataset,
    value: str | int | Mapping[str, int] | Sequence[int] | None,
    name: str,
) -> dict[str, int | None] | tuple[int, ...] | str | None:
    """Return lengths by FQN of the dimension, or along each axis; a string for ``auto`` and for a number of bytes."""
    if value is None or value == "auto":
        return value
    if not isinstance(value, str | int | Mapping):
        return tuple(value)
    if name == "shards" and (isinstance(value, int) or (isinstance(value, str) and value[:1].isdigit())):
        return str(parse_bytes(value))
    if isinstance(value, int):
        raise UnsupportedError(
            f"{named(name, value)}: the dimension is missing", hint="for example time=1,lat=100"
        )
    return {
        find_dimension(dataset, dimension, name): length
        for dimension, length in parse_lengths(value, name).items()
    }


def _chunks(
    sizes: _Sizes,
    variable: Variable,
    how: OutputOptions,
    lengths: _Lengths | str | None,
    netcdf_to_zarr: bool,
) -> tuple[tuple[int, ...] | None, bool]:
    """Return the chunk shape of the output, None for a default, and whether it was requested."""
    own = variable.storage.chunk_shape if variable.storage.layout in (None, "chunked") else None
    target = parse_bytes(how.chunk_bytes) if how.chunk_bytes is not None else None
    axes = sizes.lengths(lengths)
    if axes is None:
        if lengths == "auto" or target is not None:
            return fitted(sizes.shape, None, sizes.itemsize, target or _CHUNK, sizes.unlimited), True
        # Reading one day of a daily archive decoded eight, seven times as slow, where single steps were
        # joined.
        if own is None or not netcdf_to_zarr or SMALLEST <= sizes.bytes(own) <= LARGEST:
            return own, False
        return fitted(sizes.shape, own, sizes.itemsize, _CHUNK, sizes.unlimited), False
    if target is not None and isinstance(lengths, dict):  # fit the axes without a length
        axes = [
            n or None if isinstance(ref, str) else n for n, ref in zip(axes, sizes.dimensions, strict=True)
        ]
    chunks = []
    for axis, length in enumerate(axes):
        # Zarr and HDF5 have no chunk of length 0, also along an empty dimension.
        whole = max(sizes.shape[axis], 1)
        if length == 0:
            chunks.append(own[axis] if own else whole)
        elif length == -1:
            chunks.append(whole)
        else:
            # netCDF-C refuses a chunk that is longer than a fixed dimension.
            chunks.append(length or 1 if sizes.unlimited[axis] else min(length or 1, whole))
    # From the last axis on, so that rows stay whole.
    for axis in reversed([axis for axis, length in enumerate(axes) if length is None]):
        chunks[axis] = max(1, min((target or _CHUNK) // max(1, sizes.bytes(chunks)), sizes.shape[axis]))
    return tuple(chunks), True


def fitted(
    shape: tuple[int, ...],
    own: tuple[int, ...] | None,
    itemsize: int,
    target: int,
    unlimited: Sequence[bool] = (),
) -> tuple[int, ...]:
    """Return chunks of about `target` bytes that combine whole chunks of the source, or divide one.

    Examples
    --------
    >>> fitted((1000, 100, 100), (1, 10, 10), 4, 1 << 20)
    (26, 100, 100)
    >>> fitted((1000, 1000, 1000), (1000, 1000, 1000), 4, 4 << 20)
    (1, 1000, 1000)
    """
    growing = unlimited or (False,) * len(shape)
    if math.prod(shape) == 0:
        return own or default_chunks(shape, growing, itemsize)
    chunks = [max(1, min(c, n)) for c, n in zip(own or (1,) * len(shape), shape, strict=True)]
    for axis in range(len(chunks)):
        size = math.prod(chunks) * itemsize
        if size > target:
            chunks[axis] = max(1, chunks[axis] * target // size)
    result = block_shape(shape, tuple(chunks), None, itemsize, target)
    if own is None:
        return result
    # Chunks along an unlimited dimension may be longer than its current size.
    return tuple(
        max(m, o) if u and o > n else m for m, o, n, u in zip(result, own, shape, growing, strict=True)
    )


def _shards(
    sizes: _Sizes, chunks: tuple[int, ...], lengths: _Lengths | str | None, netcdf_to_zarr: bool
) -> tuple[int, ...] | None:
    axes = sizes.lengths(lengths)
    if axes is None:
        count = math.prod(-(-n // c) for n, c in zip(sizes.shape, chunks, strict=True))
        if isinstance(lengths, str) or (lengths is None and netcdf_to_zarr and count > MANY):
            target = SHARD if lengths in (None, "auto") else parse_bytes(str(lengths))
            return default_shards(sizes.shape, sizes.unlimited, chunks, sizes.itemsize, target=target)
        return None
    requested = []
    for length, ref, size, chunk in zip(axes, sizes.dimensions, sizes.shape, chunks, strict=True):
        requested.append(length if length and length > 0 else max(size, chunk))
        if length and length > 0 and length % chunk and length < size:
            raise UnsupportedError(
                f"{named('shards')}: {length} along {ref} is not a multiple of the chunk length {chunk}",
                hint=f"set {named('chunks')} too",
            )
    shards = tuple(-(-w // c) * c for w, c in zip(requested, chunks, strict=True))
    # A shard length that was too large by mistake ended in a MemoryError at the first write.
    if wrong := misfit(shards, chunks):
        raise UnsupportedError(
            f"{named('shards')}: {wrong}",
            hint=f"shorter {named('shards')} or longer {named('chunks')}",
        )
    # A shard of one chunk costs an index and saves no object.
    return None if shards == chunks else shards


def _as_template(dataset: Dataset, how: OutputOptions) -> Dataset:
    """Return the dataset with other lengths of some dimensions, and without the values along them."""
    sizes = {find_dimension(dataset, name, "template"): n for name, n in how.template.items()}
    for fqn, size in sizes.items():
        # NaN is refused by this form of the comparison, too.
        if not size >= 0 or size % 1:
            raise UnsupportedError(f"{named('template', {fqn: size})}: the length is not a whole number")
    if not sizes:
        return dataset
    return rewrite(
        dataset,
        variable=lambda fqn, v: v.with_data(None) if sizes.keys() & {*v.dimensions} else v,
        dimension=lambda fqn, d: replace(d, size=int(sizes.get(fqn, d.size))),
    )


def _with_unlimited(dataset: Dataset, how: OutputOptions) -> Dataset:
    if not (how.unlimited or how.fixed):
        return dataset
    growing = {find_dimension(dataset, name, "unlimited") for name in how.unlimited}
    if not how.fixed:
        growing |= {fqn for fqn, d in dataset.all_dimensions.items() if d.unlimited}

    def variable(fqn: str, old: Variable) -> Variable:
        # Only chunked datasets of HDF5 grow.
        if old.storage.layout in ("contiguous", "compact") and growing.intersection(old.dimensions):
            return replace(old, storage=replace(old.storage, layout="chunked", chunk_shape=None))
        return old

    return rewrite(dataset, variable=variable, dimension=lambda fqn, d: replace(d, unlimited=fqn in growing))


@dataclass(frozen=True, eq=False)
class QuantizedSource(ChangedSource):
    """Values rounded to a number of digits, as by netCDF-C."""

    digits: int
    mode: str
    fill: np.floating

    @property
    def rounding(self) -> str:
        """The value of the option ``--quantize``."""
        return f"{self.mode}:{self.digits}"

    def changed(self, values: np.ndarray) -> np.ndarray:
        """Return the rounded values."""
        from nczarr.netcdf4.values.numbers import quantize

        return quantize(values, self.digits, self.mode, self.fill)


def _rounded(dataset: Dataset, how: OutputOptions, own: Mapping[str, OutputOptions]) -> Dataset:
    """Round the float variables without those that are coordinates, and the chosen ones."""
    from nczarr.netcdf4.values.numbers import ATTRIBUTE_OF_MODE

    chosen = {fqn for fqn, one in own.items() if one.quantize != how.quantize}

    def variable(fqn: str, old: Variable) -> Variable:
        text = own.get(fqn, how).quantize
        if (
            text is None
            or old.type.dtype.kind != "f"
            or (fqn in dataset.all_dimensions and fqn not in chosen)
        ):
            return old
        digits, mode = _parse_rounding(text)
        is_single = old.type.dtype.itemsize == 4
        # The limits of netCDF-C: bits of the mantissa, or its decimal digits.
        limit = (23 if is_single else 52) if mode == "BitRound" else (7 if is_single else 15)
        if digits > limit and fqn in chosen:
            raise UnsupportedError(f"{named('quantize', text)}: the maximum for {fqn} is {limit}")
        if old.data is None:
            return old
        note = model.Attribute.of(ATTRIBUTE_OF_MODE[mode], digits, model.INT)
        data = QuantizedSource(old.data, digits, mode, old.type.dtype.type(model.fill_value_of(old)))
        return replace(old, attributes=(*old.attributes, note), data=data)

    if how.quantize is None and not chosen:
        return dataset
    if how.quantize is not None:
        _parse_rounding(how.quantize)
    return rewrite(dataset, variable=variable)


def _parse_rounding(text: str) -> tuple[int, str]:
    """Return digits and mode of ``[MODE:]DIGITS``."""
    from nczarr.netcdf4.values.numbers import ATTRIBUTE_OF_MODE

    mode, _, number = text.rpartition(":")
    modes = {name.lower(): name for name in ATTRIBUTE_OF_MODE}
    # Other than isdigit(), isdecimal() refuses digits such as ², which int() cannot read.
    if (mode and mode.lower() not in modes) or not number.isdecimal() or not 1 <= int(number) <= 52:
        raise UnsupportedError(
            f"{named('quantize', text)}: not a number of digits",
            hint="temp=3 or GranularBitRound:3; BitRound counts bits",
        )
    return int(number), modes.get(mode.lower(), "GranularBitRound")


# --- words of options


def _by_variable(word: str, value: Any) -> tuple[Any, dict[str, Any]]:
    """Return the value for all variables, and those for some, by pattern."""
    # One configuration of a codec was taken for names of variables.
    if word == "compression" and is_configuration(value):
        return value, {}
    if isinstance(value, Mapping):
        by_name = word in ("compression", "quantize")
        rules = {
            name: own
            for name, own in value.items()
            if by_name or isinstance(own, Mapping | list | tuple) or (isinstance(own, str) and own != "auto")
        }
        return {n: own for n, own in value.items() if n not in rules} or None, rules
    is_chain = isinstance(value, list | tuple) and not all(isinstance(one, str) for one in value)
    if word == "compression" and is_chain:  # codecs, not rules
        return value, {}
    general, rules = None, {}
    for text in value if isinstance(value, list | tuple) else [value]:
        names, chosen = _limited(word, text) if isinstance(text, str) else ("", text)
        if not names:
            general = chosen
        for name in list_names(names):
            rules.pop(name, None)
            rules[name] = chosen
    return general, rules


def _limited(word: str, text: str) -> tuple[str, str]:
    """Return the variables and the value of ``[NAME,…:]VALUE``; names are empty for all variables."""
    names, colon, value = partition_typed(text, ":")
    if word == "compression":
        is_limited = not names_codec(text) and names_codec(value)
    elif word == "quantize":
        from nczarr.netcdf4.values.numbers import ATTRIBUTE_OF_MODE

        limited, equals, digits = partition_typed(text, "=", last=True)
        if equals:
            return limited, digits
        is_limited = names.lower() not in map(str.lower, ATTRIBUTE_OF_MODE)
    else:
        is_limited = "=" not in units_of(names)
    return (names, value) if colon and is_limited else ("", text)


def parse_kind(text: str) -> str:
    """Return the model's name for a netCDF format in the words of nccopy.

    Examples
    --------
    >>> parse_kind("nc4"), parse_kind("5")
    ('netCDF-4', 'cdf5')
    """
    if text not in KINDS:
        raise UnsupportedError(f"there is no netCDF format {text!r}", hint=f"one of {', '.join(KINDS)}")
    return KINDS[text]


def parse_bytes(value: int | str) -> int:
    """Parse a number of bytes.

    Raises
    ------
    UnsupportedError
        If it is not a number above zero.

    Examples
    --------
    >>> parse_bytes("4MiB"), parse_bytes("128 MB"), parse_bytes(1000)
    (4194304, 128000000, 1000)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(?:([kmgt])(i?b)?|b)?", str(value).strip().lower())
    if found:
        base = 1000 if found[3] == "b" else 1024
        size = int(float(found[1]) * base ** " kmgt".index(found[2] or " "))
        if size > 0:
            return size
    raise UnsupportedError(f"{value!r} is not a number of bytes", hint="for example 512MiB")


def parse_lengths(text: str | Mapping[str, int], option_name: str = "") -> dict[str, int | None]:
    """Parse lengths by dimension: ``time=1,lat=100``, or ``time/1,lat/100`` as in nccopy; ``auto`` becomes None.

    Examples
    --------
    >>> parse_lengths("time=1,/g/lat=100"), parse_lengths("time/1,/g/lat/100"), parse_lengths("lat=auto")
    ({'time': 1, '/g/lat': 100}, {'time': 1, '/g/lat': 100}, {'lat': None})
    """
    if isinstance(text, str):
        mark = {item: "=" if "=" in units_of(item) else "/" for item in split_typed(text, ",")}
        parts = [(item, *partition_typed(item, mark[item], last=True)[::2]) for item in mark]
    else:
        parts = [(f"{name}={length}", name, str(length)) for name, length in text.items()]
    lengths: dict[str, int | None] = {}
    for item, name, length in parts:
        if name and length.strip() == "auto":
            lengths[name.strip()] = None
            continue
        is_number = name and re.fullmatch(r"\s*-?\d+\s*", length)
        if not is_number or int(length) < -1 or int(length) == 0:
            raise UnsupportedError(
                f"{option_name and named(option_name) + ': '}{item!r} does not give the length along a dimension",
                hint="for example time=1,lat=100",
            )
        lengths[name.strip()] = int(length)
    return lengths

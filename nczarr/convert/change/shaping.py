"""Choose how variables are stored, as options say it: chunks, shards, compression, unlimited dimensions, rounding."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nczarr.errors import UnsupportedError, error_context
from nczarr.filters import BLOSC_COMPRESSORS, BUILT_IN, FILTERS, LZF, OF_REFERENCES
from nczarr.formats import Kind
from nczarr.mapping import ArrayShape, VariableData
from nczarr.mapping.values.storage import parse_compression
from nczarr.model import Dataset, Filter, Storage, Variable, rewrite
from nczarr.model.chunk_shapes import default_chunks
from nczarr.transfer import block_shape, value_bytes
from nczarr.zarr import RegularGrid, inner_codecs

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
#: nccopy's names of the formats.
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


def parse_kind(text: str) -> str:
    """Return the model's name of a netCDF format in nccopy's words.

    Examples
    --------
    >>> parse_kind("nc4"), parse_kind("5")
    ('netCDF-4', 'cdf5')
    """
    if text not in KINDS:
        raise UnsupportedError(f"there is no netCDF format {text!r}", hint=f"one of {', '.join(KINDS)}")
    return KINDS[text]


def parse_bytes(value: int | str) -> int:
    """Read a number of bytes.

    Raises
    ------
    UnsupportedError
        If it is none, or not above zero.

    Examples
    --------
    >>> parse_bytes("4MiB"), parse_bytes("128 MB"), parse_bytes(1000)
    (4194304, 128000000, 1000)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(?:([kmgt])(i?b)?|b)?", str(value).strip().lower())
    if found:
        unit = found[2] or ""
        factor = _DECIMAL[unit] if found[3] == "b" else _UNITS[unit]
        size = int(float(found[1]) * factor)
        if size > 0:
            return size
    raise UnsupportedError(f"{value!r} is not a number of bytes", hint="for example 512MiB")


def parse_lengths(text: str | Mapping[str, int], option: str = "") -> dict[str, int | None]:
    """Read lengths by dimension: ``time=1,lat=100``, or with nccopy's slash; ``auto`` is None.

    `option` is for messages.

    Examples
    --------
    >>> parse_lengths("time=1,/g/lat=100"), parse_lengths("time/1,/g/lat/100"), parse_lengths("lat=auto")
    ({'time': 1, '/g/lat': 100}, {'time': 1, '/g/lat': 100}, {'lat': None})
    """
    if not isinstance(text, str):
        text = ",".join(f"{name}={length}" for name, length in text.items())
    lengths: dict[str, int | None] = {}
    for item in text.split(","):
        name, mark, length = item.rpartition("=" if "=" in item else "/")
        if length.strip() == "auto" and name:
            lengths[name.strip()] = None
            continue
        if (
            not mark
            or not name
            or not re.fullmatch(r"\s*-?\d+\s*", length)
            or int(length) < -1
            or int(length) == 0
        ):
            raise UnsupportedError(
                f"{option and option + ': '}{item!r} does not say the length along a dimension",
                hint="for example time=1,lat=100",
            )
        lengths[name.strip()] = int(length)
    return lengths


#: Chunks of a netCDF source are kept between these sizes.
SMALLEST, LARGEST = 256 << 10, 64 << 20
#: What other chunks become, about.
_CHUNK = 4 << 20
#: A variable with more chunks gets shards …
MANY = 10_000
#: … of about this size.
_SHARD = 64 << 20
#: Codecs that every reader of Zarr v3 has.
_PORTABLE = frozenset({"bytes", "vlen-utf8", "vlen-bytes", "blosc", "gzip", "zstd", "crc32c"})
#: The replacement of h5py's own filter LZF, which the netCDF library lacks.
_DEFLATE = Filter(Filter.DEFLATE, (1,))
_CLASSIC = ("classic", "64-bit offset", "cdf5")


@dataclass(frozen=True)
class Shaping:
    """How the variables of a copy are stored; what is not said follows the source.

    Parameters
    ----------
    chunks : str or mapping, optional
        Lengths by dimension (``time=1,lat=100``; -1 is all of it), or ``auto``.
    chunk_bytes : int or str, optional
        About how large chunks are where no length is said.
    shards : str, int or mapping, optional
        Lengths by dimension (all of the others), a number of bytes, or ``auto``. Zarr only.
    compression : str, optional
        ``zstd:3``, ``gzip:6``, ``blosc:lz4:5``, ``none``, ``source``, ``default``.
    checksum : bool
    quantize : str, optional
        ``[NAME,…=][MODE:]DIGITS``; the modes are netCDF-C's.
    fixed : bool
        Make all unlimited dimensions fixed.
    unlimited : sequence of str
        Make these dimensions unlimited.
    """

    chunks: str | Mapping[str, int] | None = None
    chunk_bytes: int | str | None = None
    shards: str | int | Mapping[str, int] | None = None
    compression: str | None = None
    checksum: bool = False
    quantize: str | None = None
    fixed: bool = False
    unlimited: Sequence[str] = ()


@dataclass(frozen=True)
class Shaped:
    """A dataset as it is to be written, and the options for Zarr that go with it.

    Attributes
    ----------
    replaced : tuple of str
        What is stored otherwise than the source says, though nobody asked for it: readers would not know it.
    """

    dataset: Dataset
    arrays: Mapping[str, ArrayShape] = field(default_factory=dict)
    compression: str = "source"
    replaced: tuple[str, ...] = ()


def shape(
    dataset: Dataset, how: Shaping, *, source: Kind | None, target: Kind, format: str | None = None
) -> Shaped:
    """Return the dataset as it is to be written.

    Parameters
    ----------
    source : {'netcdf', 'zarr', 'cdl'} or None
        A netCDF source has chunks for spinning disks, and deflate: by default better ones are chosen for Zarr. A Zarr
        source that says nothing of netCDF may have codecs that netCDF's readers lack: deflate takes their place.
    target : {'netcdf', 'zarr', 'cdl'}
    format : str, optional
        The netCDF format of the target.

    Raises
    ------
    UnsupportedError
        If a name means nothing, a length or a word makes no sense, or the target has no such thing.

    Examples
    --------
    >>> from nczarr.model import DOUBLE, Dimension
    >>> d = Dataset("d", dimensions=(Dimension("x", 20),), variables=(Variable("v", DOUBLE, ("/x",)),))
    >>> shape(d, Shaping(chunks="x=5"), source="netcdf", target="zarr").dataset.variables[0].storage.chunk_shape
    (5,)
    """
    _refuse(how, target, format or dataset.format)
    if how.compression not in (None, "source", "default"):
        parse_compression(str(how.compression), 4)
    dataset = _with_unlimited(dataset, how)
    if how.quantize is not None:
        from nczarr.convert.change.rounding import rounded

        dataset = rounded(dataset, how.quantize)
    if target == "cdl":
        return Shaped(dataset)
    # Where nobody spoke of netCDF, nobody chose a netCDF filter.
    portable = source == "zarr" and target == "netcdf" and dataset.format is None and how.compression is None
    lengths = _by_dimension(dataset, how.chunks, "--chunks")
    sharding = _by_dimension(dataset, how.shards, "--shards")
    better = source == "netcdf" and target == "zarr"
    arrays: dict[str, ArrayShape] = {}

    def changed(fqn: str, variable: Variable) -> Variable:
        if not variable.dimensions:
            return variable
        sizes = _Sizes.of(dataset, variable)
        chunks, chosen = _chunks(sizes, variable, how, lengths, better)
        storage = variable.storage
        if chosen:
            storage = replace(storage, layout="chunked", chunk_shape=chunks)
        if target == "netcdf":
            return replace(variable, storage=_netcdf_storage(storage, sizes, how, portable))
        kept = _stored(variable) if source == "zarr" and how.compression in (None, "source") else None
        if kept is not None and not chosen and kept.chunks is not None:
            chunks = kept.chunks
        actual = chunks or sizes.default()
        shards = _shards(sizes, actual, how, sharding, better)
        if kept is not None:
            if shards is None and sharding is None and not chosen:
                shards = kept.shards
            codecs = None if how.checksum else kept.codecs
            arrays[fqn] = ArrayShape(actual, shards, codecs, kept.data_type)
        elif shards is not None or actual != storage.chunk_shape:
            arrays[fqn] = ArrayShape(actual, shards)
        return variable if storage == variable.storage else replace(variable, storage=storage)

    variables = {fqn: changed(fqn, variable) for fqn, variable in dataset.all_variables.items()}
    made = rewrite(dataset, variable=variables.get)
    keeps_filters = target == "netcdf" and how.compression in (None, "source")
    replaced = (
        _lzf_replaced(dataset, made) if keeps_filters and (format or dataset.format) not in _CLASSIC else ()
    )
    if target == "netcdf" and (format or dataset.format) not in _CLASSIC:
        replaced += _left_off(dataset, how, portable)
    if how.checksum and target == "netcdf":
        replaced += _unchecked(made)
    return Shaped(made, arrays, how.compression or ("default" if better else "source"), replaced)


def _unchecked(dataset: Dataset) -> tuple[str, ...]:
    """A sentence for each variable whose values no checksum of HDF5 covers."""
    return tuple(
        f"{fqn}: a checksum; HDF5 keeps strings and sequences outside of the chunks that it checks"
        for fqn, variable in dataset.all_variables.items()
        if variable.type.dtype.hasobject
    )


def _left_off(dataset: Dataset, how: Shaping, portable: bool) -> tuple[str, ...]:
    """A sentence for each variable of strings or sequences with filters that were chosen and that it loses."""
    compresses = how.compression in (None, "source") and not portable
    result = []
    for fqn, variable in dataset.all_variables.items():
        left = [f.id for f in variable.storage.filters if f.id not in OF_REFERENCES]
        chosen = [n for n in left if (compresses if n != Filter.FLETCHER32 else not how.checksum)]
        if chosen and variable.type.dtype.hasobject:
            names = ", ".join(
                FILTERS[number].name if number in FILTERS else f"filter {number}" for number in chosen
            )
            result.append(f"{fqn}: {names}; netCDF files keep strings and sequences outside of the chunks")
    return tuple(result)


def _lzf_replaced(before: Dataset, after: Dataset) -> tuple[str, ...]:
    """A sentence for each variable whose filter lzf has become another one."""
    return tuple(
        f"{fqn}: the filter lzf, which netCDF-C does not read; it is deflate there"
        for fqn, variable in after.all_variables.items()
        if any(f.id == LZF for f in before.all_variables[fqn].storage.filters)
        and _DEFLATE in variable.storage.filters
    )


def _stored(variable: Variable) -> ArrayShape | None:
    """How a variable of a Zarr source is stored; None if readers of the target may not know its codecs."""
    from nczarr.convert.change.rounding import QuantizedSource
    from nczarr.convert.change.selecting import SelectedSource

    data: Any = variable.data
    while isinstance(data, SelectedSource | QuantizedSource):
        data = data.inner
    if not isinstance(data, VariableData):
        return None
    metadata, rank = data.array.metadata, len(variable.dimensions)
    codecs, shards = metadata.codecs, None
    chunks = metadata.chunk_shape if isinstance(metadata.chunk_grid, RegularGrid) else None
    if chunks is None or metadata.storage_transformers:
        return None
    if len(codecs) == 1 and codecs[0].name == "sharding_indexed":
        shards, configuration = chunks, codecs[0].configuration
        chunks = tuple(configuration["chunk_shape"])
        with error_context(data.array.store.url, fqn=data.fqn):
            codecs = inner_codecs(codecs[0])
    if not all(codec.name in _PORTABLE for codec in codecs):
        return None
    return ArrayShape(chunks[:rank], shards and shards[:rank], codecs, metadata.data_type)


def _refuse(how: Shaping, target: Kind, format: str | None) -> None:
    asked = {
        "--chunks": how.chunks,
        "--chunk-bytes": how.chunk_bytes,
        "--compression": how.compression,
        "--checksum": how.checksum or None,
    }
    given = [option for option, value in asked.items() if value is not None]
    if how.shards is not None and target != "zarr":
        raise UnsupportedError("--shards is for Zarr output: netCDF and CDL have none")
    if given and (target == "cdl" or (target == "netcdf" and format in _CLASSIC)):
        what = "CDL text" if target == "cdl" else f"the format {format!r}"
        raise UnsupportedError(f"{given[0]}: {what} has no chunks", hint="-k nc4 makes a netCDF-4 file")


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
            dataset.shape(variable),
            tuple(dataset.is_unlimited(ref) for ref in variable.dimensions),
            value_bytes(variable.type.dtype),
            variable.type.dtype.hasobject,
        )

    def default(self) -> tuple[int, ...]:
        return default_chunks(self.shape, self.unlimited, self.itemsize)

    def bytes(self, block: Sequence[int]) -> int:
        return math.prod(block) * self.itemsize


def _chunks(
    sizes: _Sizes,
    variable: Variable,
    how: Shaping,
    lengths: Mapping[str, int | None] | str | None,
    better: bool,
) -> tuple[tuple[int, ...] | None, bool]:
    """The chunk shape of the output, None for a default; and whether it is to be kept as the dataset's own."""
    own = variable.storage.chunk_shape if variable.storage.layout in (None, "chunked") else None
    target = parse_bytes(how.chunk_bytes) if how.chunk_bytes is not None else None
    if isinstance(lengths, dict) and any(ref in lengths for ref in sizes.dimensions):
        return _told(sizes, own, lengths, target), True
    if lengths == "auto" or target is not None:
        return fitted(sizes.shape, None, sizes.itemsize, target or _CHUNK, sizes.unlimited), True
    if own is None or not better:
        return own, False
    if SMALLEST <= sizes.bytes(own) <= LARGEST:
        return own, False
    return fitted(sizes.shape, own, sizes.itemsize, _CHUNK, sizes.unlimited), False


def _told(
    sizes: _Sizes, own: tuple[int, ...] | None, lengths: Mapping[str, int | None], target: int | None
) -> tuple[int, ...]:
    chunks, free = [], []
    for axis, (ref, size) in enumerate(zip(sizes.dimensions, sizes.shape, strict=True)):
        length = lengths.get(ref, 0) if isinstance(ref, str) else 0
        if length is None:
            free.append(axis)
            chunks.append(1)
        elif length:
            whole = max(size, 1)
            chunks.append(whole if length == -1 else length if sizes.unlimited[axis] else min(length, whole))
        else:
            chunks.append(own[axis] if own else max(size, 1))
    for axis in reversed(free):
        room = max(1, (target or _CHUNK) // max(1, sizes.bytes(chunks)))
        chunks[axis] = max(1, min(room, sizes.shape[axis]))
    return tuple(chunks)


def fitted(
    shape: tuple[int, ...],
    own: tuple[int, ...] | None,
    itemsize: int,
    target: int,
    unlimited: Sequence[bool] = (),
) -> tuple[int, ...]:
    """Return chunks of about `target` bytes: whole chunks of the source together, or a part of one.

    Examples
    --------
    >>> fitted((1000, 100, 100), (1, 10, 10), 4, 1 << 20)
    (26, 100, 100)
    >>> fitted((1000, 1000, 1000), (1000, 1000, 1000), 4, 4 << 20)
    (1, 1000, 1000)
    """
    if math.prod(shape) == 0:
        return own or default_chunks(shape, unlimited or (False,) * len(shape), itemsize)
    chunks = [max(1, min(c, n)) for c, n in zip(own or (1,) * len(shape), shape, strict=True)]
    for axis in range(len(chunks)):
        size = math.prod(chunks) * itemsize
        if size > target:
            chunks[axis] = max(1, chunks[axis] * target // size)
    made = block_shape(shape, tuple(chunks), None, itemsize, target)
    if own is None:
        return made
    # What grows keeps the room that its chunks had.
    growing = unlimited or (False,) * len(shape)
    return tuple(
        max(m, o) if u and o > n else m for m, o, n, u in zip(made, own, shape, growing, strict=True)
    )


def _shards(
    sizes: _Sizes,
    chunks: tuple[int, ...],
    how: Shaping,
    lengths: Mapping[str, int | None] | str | None,
    better: bool,
) -> tuple[int, ...] | None:
    count = math.prod(-(-n // c) for n, c in zip(sizes.shape, chunks, strict=True))
    wanted: Sequence[int]
    if isinstance(lengths, dict):
        if not any(ref in lengths for ref in sizes.dimensions):
            return None
        wanted = []
        for axis, (ref, size) in enumerate(zip(sizes.dimensions, sizes.shape, strict=True)):
            length = lengths.get(ref) if isinstance(ref, str) else None
            wanted.append(length if length and length > 0 else max(size, chunks[axis]))
            if length and length > 0 and length % chunks[axis] and length < size:
                raise UnsupportedError(
                    f"--shards: {length} along {ref} is no multiple of the chunk length {chunks[axis]}",
                    hint="say --chunks too",
                )
    elif isinstance(lengths, str) or (better and count > MANY):
        if count <= 1:
            return None
        limit = parse_bytes(lengths) if isinstance(lengths, str) and lengths != "auto" else _SHARD
        wanted = block_shape(sizes.shape, chunks, None, sizes.itemsize, limit)
    else:
        return None
    shards = tuple(-(-w // c) * c for w, c in zip(wanted, chunks, strict=True))
    return None if shards == chunks else shards


def _by_dimension(
    dataset: Dataset, value: str | int | Mapping[str, int] | None, option: str
) -> dict[str, int | None] | str | None:
    """Lengths by the FQN of the dimension; text for ``auto`` and for a number of bytes."""
    if value is None or value == "auto":
        return value
    if option == "--shards" and (isinstance(value, int) or (isinstance(value, str) and value[:1].isdigit())):
        return str(parse_bytes(value))
    if isinstance(value, int):
        raise UnsupportedError(f"{option} {value}: say the dimension", hint="for example time=1,lat=100")
    from nczarr.convert.change.selecting import find_dimension

    return {
        find_dimension(dataset, name, option): length for name, length in parse_lengths(value, option).items()
    }


def _netcdf_storage(storage: Storage, sizes: _Sizes, how: Shaping, portable: bool) -> Storage:
    if sizes.is_object:  # chunks hold pointers only: HDF5 checks none, and plugins have nothing to compress
        return replace(storage, filters=tuple(f for f in storage.filters if f.id in OF_REFERENCES))
    filters = tuple(_DEFLATE if f.id == LZF else f for f in storage.filters)
    if portable and any(f.id not in BUILT_IN for f in filters):
        filters = (*_filters("gzip:4", sizes.itemsize), *(f for f in filters if f.id == Filter.FLETCHER32))
    if how.compression not in (None, "source"):
        filters = _filters(str(how.compression), sizes.itemsize)
        filters += tuple(f for f in storage.filters if f.id == Filter.FLETCHER32)
    if how.checksum and all(f.id != Filter.FLETCHER32 for f in filters):
        filters += (Filter(Filter.FLETCHER32),)
    if filters == storage.filters:
        return storage
    chunks = storage.chunk_shape or (sizes.default() if filters else None)
    layout = "chunked" if filters else storage.layout
    return replace(storage, layout=layout, chunk_shape=chunks, filters=filters)


def _filters(compression: str, itemsize: int) -> tuple[Filter, ...]:
    name, _, rest = compression.partition(":")
    level = int(rest.rpartition(":")[2]) if rest.rpartition(":")[2].lstrip("-").isdigit() else None
    shuffle = (Filter(Filter.SHUFFLE),) if itemsize > 1 else ()
    if name == "none":
        return ()
    if name == "gzip":
        return (*shuffle, Filter(Filter.DEFLATE, (6 if level is None else level,)))
    if name == "blosc":
        cname = next((n for n in BLOSC_COMPRESSORS if n in rest.split(":")), "zstd")
        number = BLOSC_COMPRESSORS.index(cname)
        return (Filter(Filter.BLOSC, (0, 0, 0, 0, 5 if level is None else level, 1, number)),)
    return (*shuffle, Filter(Filter.ZSTD, ((3 if level is None else level) & 0xFFFFFFFF,)))


def _with_unlimited(dataset: Dataset, how: Shaping) -> Dataset:
    if not (how.unlimited or how.fixed):
        return dataset
    from nczarr.convert.change.selecting import find_dimension

    growing = {find_dimension(dataset, name, "--unlimited") for name in how.unlimited}

    def dimension(fqn: str, old: Any) -> Any:
        return replace(old, unlimited=fqn in growing or (old.unlimited and not how.fixed))

    made = rewrite(dataset, dimension=dimension)

    def variable(fqn: str, old: Variable) -> Variable:
        storage = old.storage
        if any(made.is_unlimited(ref) for ref in old.dimensions) and storage.layout in (
            "contiguous",
            "compact",
        ):
            return replace(old, storage=replace(storage, layout="chunked", chunk_shape=None))
        return old

    return rewrite(made, variable=variable)

"""Check the options of a dump, and list the virtual attributes of ``-s``: the storage and the kind of the dataset."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from operator import mod
from typing import Literal

from nczarr.compression import FILTERS, chosen_codecs, is_uncompressed_by_choice
from nczarr.dataclass import dataclass
from nczarr.errors import CDLError
from nczarr.model import Attribute, Dataset, Filter, Variable

_MIN_LINE = 10
_MAX_DIGITS = 20
#: Attributes of the root group that the netCDF library hides; they print with ``-s`` only.
HIDDEN = ("_NCProperties", "_SuperblockVersion", "_IsNetcdf4")

#: Filters with a special attribute of their own, in ncdump's order.
_OWN = (Filter.FLETCHER32, Filter.SHUFFLE, Filter.DEFLATE)
_NO_STORAGE = frozenset({"classic", "64-bit offset"})


@dataclass(frozen=True)
class DumpOptions:
    """The options of :func:`nczarr.cdl.write.dump`; each is one of ncdump's flags.

    Parameters
    ----------
    header_only : bool
        ``-h``: no data.
    coordinates : bool
        ``-c``: data of coordinate variables only.
    variables : tuple of str
        ``-v``: data of these variables only; names, relative paths or absolute paths.
    groups : tuple of str
        ``-g``: data of these groups only; names or absolute paths.
    brief, full : {'c', 'f'} or None
        ``-b``, ``-f``: comments with the indices of each row, or of each value, counted as C or Fortran do.
    line_length : int
        ``-l``: longest line of a data section; at least 10.
    name : str or None
        ``-n``: the dataset's name in the first line; None: its own.
    float_digits, double_digits : int or None
        ``-p``: significant digits, 1 to 20. None: in the default style as many as it takes to read back the
        same value, in ncdump's style 7 and 15.
    times, iso_times : bool
        ``-t``, ``-i``: times as dates; ``iso_times`` puts a ``T`` between date and time of day. ncdump's style
        prints quoted dates, which cannot be read back; the default style prints numbers with the dates as comments.
    kind : bool
        ``-k``: only the kind of the dataset.
    special : bool
        ``-s``: the virtual attributes too (``_Storage``, ``_ChunkSizes``, ``_Format`` …).
    filters : bool
        ``-F``: with `special`, every filter in one ``_Filter``.
    hidden : tuple of Attribute
        With `special`, what the netCDF library says of a file: ``_NCProperties``, ``_SuperblockVersion``,
        ``_IsNetcdf4``.
    ncml : bool
        ``-x``: NcML instead of CDL; no data.
    location : str or None
        The location that NcML names.
    ncdump : bool
        ncdump's style, byte for byte. The default style differs only where ncdump loses something.

    Raises
    ------
    CDLError
        If an option has no sensible value.

    Examples
    --------
    >>> DumpOptions(header_only=True).line_length
    80
    """

    header_only: bool = False
    coordinates: bool = False
    variables: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    brief: Literal["c", "f"] | None = None
    full: Literal["c", "f"] | None = None
    line_length: int = 80
    name: str | None = None
    float_digits: int | None = None
    double_digits: int | None = None
    times: bool = False
    iso_times: bool = False
    kind: bool = False
    special: bool = False
    filters: bool = False
    hidden: tuple[Attribute, ...] = ()
    ncml: bool = False
    location: str | None = None
    ncdump: bool = False

    def __post_init__(self) -> None:
        for field, value in (("brief", self.brief), ("full", self.full)):
            if value not in (None, "c", "f"):
                raise CDLError(f"{field} comments count as 'c' or 'f', not {value!r}")
        if self.line_length < _MIN_LINE:
            raise CDLError(f"a line length of {self.line_length} is too small", hint=f"at least {_MIN_LINE}")
        for field, digits in (("float", self.float_digits), ("double", self.double_digits)):
            if digits is not None and not 1 <= digits <= _MAX_DIGITS:
                raise CDLError(f"{digits} significant digits of a {field}", hint=f"1 to {_MAX_DIGITS}")


def kind_name(dataset: Dataset) -> str:
    """The kind of a dataset, as ``-k`` prints it.

    Examples
    --------
    >>> kind_name(Dataset("d")), kind_name(Dataset("d", format="classic"))
    ('netCDF-4', 'classic')
    """
    return dataset.format or "netCDF-4"


def global_specials(dataset: Dataset, options: DumpOptions) -> Iterator[tuple[str, str]]:
    """Names and values, as text, of the virtual attributes of a dataset."""
    known = {a.name: a for a in (*dataset.attributes, *options.hidden)}
    for name in HIDDEN:
        attribute = known.get(name)
        if attribute is not None and len(attribute.values):
            number = attribute.type.dtype.kind in "iu"
            text = attribute.text.rstrip("\0") if not number else ""
            yield name, str(int(attribute.values[0])) if number else f'"{text}"'
    yield "_Format", f'"{kind_name(dataset)}"'


def variable_specials(
    dataset: Dataset, variable: Variable, options: DumpOptions
) -> Iterator[tuple[str, str]]:
    """Names and values, as text, of the virtual attributes of a variable.

    Examples
    --------
    >>> from nczarr.model import INT, Storage
    >>> storage = Storage("chunked", (4,), (Filter(2), Filter(1, (6,))))
    >>> dict(variable_specials(Dataset("d"), Variable("v", INT, (8,), storage=storage), DumpOptions()))
    {'_Storage': '"chunked"', '_ChunkSizes': '4', '_Shuffle': '"true"', '_DeflateLevel': '6'}
    """
    if dataset.format in _NO_STORAGE:
        return
    storage = variable.storage
    if storage.layout:
        yield "_Storage", f'"{storage.layout}"'
        if storage.layout == "chunked" and storage.chunk_shape:
            yield "_ChunkSizes", ", ".join(map(str, storage.chunk_shape))
    shards = storage.shard_shape
    # The chunks of a netCDF source may be others than those in the shards.
    if shards and storage.layout == "chunked" and not any(map(mod, shards, storage.chunk_shape or shards)):
        yield "_ShardSizes", ", ".join(map(str, shards))
    yield from _filter_specials(variable, options)
    yield from _codec_specials(dataset, variable)
    ordered = variable.type.value_type.is_atomic and variable.type.is_fixed_size
    if ordered and variable.type.dtype.itemsize > 1 and storage.endian != "native":
        yield "_Endianness", f'"{storage.endian}"'
    if storage.no_fill:
        yield "_NoFill", '"true"'


def _filter_specials(variable: Variable, options: DumpOptions) -> Iterator[tuple[str, str]]:
    """Yield the attributes of HDF5's filters: ncdump's own for some, and one for all others."""
    filters = variable.storage.filters
    if not options.filters:
        ids = {f.id: f for f in filters}
        for number in _OWN:
            if number in ids:
                value = str(ids[number].parameters[0]) if number == Filter.DEFLATE else '"true"'
                yield FILTERS[number].special, value
        filters = tuple(f for f in filters if f.id not in _OWN)
    if filters:
        yield "_Filter", _filter_list(filters, variable)


def _codec_specials(dataset: Dataset, variable: Variable) -> Iterator[tuple[str, str]]:
    """Yield the attribute of Zarr's codecs, where they do not follow from the filters."""
    storage, dtype = variable.storage, variable.type.dtype
    codecs = chosen_codecs(storage.filters, storage.codecs)
    chunks = storage.array_chunks or storage.chunk_shape or dataset.shape_of(variable)
    nbytes = None if dtype.hasobject else math.prod(chunks) * dtype.itemsize
    # Without the empty list, a dataset that is made of the text would be compressed.
    # Text is compressed there too, but netCDF-C stores none compressed, and its tools show no filter.
    chosen = not dtype.hasobject and is_uncompressed_by_choice(
        storage.filters, storage.codecs, dtype.itemsize, nbytes
    )
    if codecs or chosen:
        text = json.dumps([codec.to_json() for codec in codecs or ()], ensure_ascii=False)
        yield (
            "_Codecs",
            json.dumps(text, ensure_ascii=False),
        )  # JSON escapes quotes and backslashes as CDL does


def _filter_list(filters: tuple[Filter, ...], variable: Variable) -> str:
    texts = []
    for filter_ in filters:
        parameters = filter_.parameters
        # HDF5 adds the size of a value to shuffle, and ncdump prints it.
        if filter_.id == Filter.SHUFFLE and not parameters:
            parameters = (variable.type.dtype.itemsize,)
        texts.append(",".join(map(str, (filter_.id, *parameters))))
    return f'"{"|".join(texts)}"'

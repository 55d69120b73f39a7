"""List the virtual attributes of ``-s``: a variable's storage, and the kind of the dataset."""

from __future__ import annotations

from collections.abc import Iterator

from nczarr.cdl.write.options import DumpOptions
from nczarr.filters import FILTERS
from nczarr.model import Dataset, EnumType, Filter, PrimitiveType, Variable

#: Attributes of the root group that the netCDF library hides; they print with ``-s`` only.
HIDDEN = ("_NCProperties", "_SuperblockVersion", "_IsNetcdf4")

#: Filters with a special attribute of their own, in ncdump's order.
_OWN = (Filter.FLETCHER32, Filter.SHUFFLE, Filter.DEFLATE)
_NO_STORAGE = frozenset({"classic", "64-bit offset"})


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
    if options.filters:
        if storage.filters:
            yield "_Filter", _filter_list(storage.filters, variable)
    else:
        ids = {f.id: f for f in storage.filters}
        for number in _OWN:
            if number in ids:
                value = str(ids[number].parameters[0]) if number == Filter.DEFLATE else '"true"'
                yield FILTERS[number].special, value
        others = tuple(f for f in storage.filters if f.id not in _OWN)
        if others:
            yield "_Filter", _filter_list(others, variable)
    ordered = isinstance(variable.type, PrimitiveType | EnumType) and variable.type.is_fixed_size
    if ordered and variable.type.dtype.itemsize > 1 and storage.endian != "native":
        yield "_Endianness", f'"{storage.endian}"'
    if storage.no_fill:
        yield "_NoFill", '"true"'


def _filter_list(filters: tuple[Filter, ...], variable: Variable) -> str:
    texts = []
    for filter_ in filters:
        parameters = filter_.parameters
        if filter_.id == Filter.SHUFFLE and not parameters:
            parameters = (variable.type.dtype.itemsize,)
        texts.append(",".join(map(str, (filter_.id, *parameters))))
    return f'"{"|".join(texts)}"'

"""Convert the types of a dataset to those of the classic formats, where every value stays the same."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np

from nczarr.errors import LossError, also
from nczarr.formats import CLASSIC
from nczarr.model import (
    BYTE,
    CHAR,
    DOUBLE,
    INT,
    INT64,
    SHORT,
    STRING,
    UBYTE,
    UINT,
    UINT64,
    USHORT,
    ArraySource,
    Attribute,
    Dataset,
    Dimension,
    PrimitiveType,
    Region,
    Variable,
    default_fill,
    fill_value_of,
    regions,
    source_of,
)
from nczarr.model.coordinates import is_time, text_of
from nczarr.model.sources import ChangedSource, handed
from nczarr.options import named
from nczarr.transfer import block_shape, value_bytes

#: The formats without strings; but for CDF-5, they have signed integers of up to 32 bits alone.
_WITHOUT_STRINGS = (*CLASSIC.values(), "netCDF-4 classic model")
#: Unsigned types, and the signed ones that store their bits; ``_Unsigned`` tells readers.
_SAME_BITS = {UBYTE: BYTE, USHORT: SHORT, UINT: INT}
_WIDE = (INT64, UINT64)
#: The number of a missing time, and the largest integer below which double has all.
_NOT_A_TIME, _EXACT = np.iinfo(np.int64).min, 1 << 53
#: The attributes of the type of a variable whose numbers are those of its values.
_OF_VALUES = (
    "_FillValue",
    "missing_value",
    "valid_min",
    "valid_max",
    "valid_range",
    "flag_values",
    "flag_masks",
)


def in_classic_types(
    dataset: Dataset, format_: str | None, existing: Collection[str] = ()
) -> tuple[Dataset, tuple[str, ...]]:
    """Return a dataset whose types a classic format has, and a sentence for each type that it had before.

    Integers of 64 bits become ``int`` if every value fits, which reading them checks, and times that do not fit or are
    missing become ``double``; unsigned ones become signed ones of the same bits with ``_Unsigned``; strings become
    characters along a dimension of the longest one, in UTF-8. Attributes become the smallest type that has their
    numbers. A first dimension of size 0 becomes unlimited, as netCDF-C makes it. All other parts that the format lacks
    stay, and the writer of the file refuses them.

    Parameters
    ----------
    existing : collection of str
        FQNs of variables that a file has already: they keep their types.

    Raises
    ------
    LossError
        If an attribute has a number or strings that the format cannot represent, or a text ends with a NUL.

    Examples
    --------
    >>> from nczarr.model import MemorySource
    >>> v = Variable("v", INT64, ("/x",), data=MemorySource(np.array([1, 2])))
    >>> changed, told = in_classic_types(Dataset("d", dimensions=(Dimension("x", 2),), variables=(v,)), "classic")
    >>> changed.variables[0].type.name, told
    ('int', ('/v: int64 is stored as int',))
    """
    format_ = format_ or dataset.format
    if format_ not in _WITHOUT_STRINGS or dataset.groups:
        return dataset, ()
    form = _ClassicForm(dataset, format_ != CLASSIC[5])
    variables = tuple(v if f"/{v.name}" in existing else form.variable(v) for v in dataset.variables)
    attributes = tuple(form.attribute("/", a) for a in dataset.attributes)
    told = tuple(
        f"/{old.name}: {old.type.name} is stored as {new.type.name}"
        for old, new in zip(dataset.variables, variables, strict=True)
        if old.type != new.type
    )
    empty = _first_empty(dataset) if format_ in CLASSIC.values() else None
    if empty is not None:
        told += (f"/{empty.name}: the dimension of size 0 is stored as unlimited",)
    dimensions = [replace(d, unlimited=True) if d is empty else d for d in dataset.dimensions]
    return replace(
        dataset,
        dimensions=(*dimensions, *form.dimensions.values()),
        variables=variables,
        attributes=attributes,
    ), told


def _first_empty(dataset: Dataset) -> Dimension | None:
    """Return a dimension of size 0 that can be the unlimited one of a classic format."""
    # A classic file has no second unlimited dimension.
    if any(d.unlimited for d in dataset.dimensions):
        return None
    for dimension in dataset.dimensions:
        # Only the first dimension of a variable may be unlimited in a classic file.
        inner = any(f"/{dimension.name}" in v.dimensions[1:] for v in dataset.variables)
        if not dimension.size and not inner:
            return dimension
    return None


class _ClassicForm:
    """The new variables, attributes and dimensions of a dataset.

    Parameters
    ----------
    is_signed : bool
        True if the format has no unsigned integers and none of 64 bits.
    """

    def __init__(self, dataset: Dataset, is_signed: bool) -> None:
        self._dataset = dataset
        self._is_signed = is_signed
        self._names = {d.name: d.size for d in dataset.dimensions if not d.unlimited}
        self._taken = {d.name for d in dataset.dimensions}
        #: The dimensions of characters that the dataset did not have, by name.
        self.dimensions: dict[str, Dimension] = {}

    def variable(self, old: Variable) -> Variable:
        """Return a variable in a type of the format."""
        fqn = f"/{old.name}"
        if old.type == STRING:
            return self._characters(fqn, old)
        new: PrimitiveType | None = None
        if self._is_signed and isinstance(old.type, PrimitiveType):
            new = INT if old.type in _WIDE else _SAME_BITS.get(old.type)
        if new is None:
            return replace(old, attributes=tuple(self.attribute(fqn, a) for a in old.attributes))
        # xarray writes dates as int64, which refused each of its datasets with a date.
        if old.type == INT64 and old.data is not None and _is_time(old) and not _fit(old.data, new):
            own = tuple(self.attribute(fqn, a) for a in old.attributes)
            return replace(old, type=DOUBLE, attributes=own, data=_DoubleSource(old.data, fqn))
        before = fill_value_of(old)
        fill = before.astype(new.dtype) if old.type in _SAME_BITS or _fits(before, new) else default_fill(new)
        fill = new.dtype.type(fill)
        attributes = [self._of_values(fqn, a, old, new, fill) for a in old.attributes]
        # An existing _Unsigned was declared twice.
        if old.type in _SAME_BITS:
            attributes = [a for a in attributes if a.name != "_Unsigned"]
            attributes.append(Attribute.of("_Unsigned", "true"))
        data = old.data
        if data is None and old.type in _SAME_BITS:  # the fill value of the signed type is another one
            data = source_of(old, self._dataset.shape_of(old))
        narrow = None if data is None else _NarrowSource(data, fqn, new, before, fill)
        return replace(old, type=new, attributes=tuple(attributes), data=narrow)

    def _of_values(
        self, fqn: str, attribute: Attribute, old: Variable, new: PrimitiveType, fill: np.generic
    ) -> Attribute:
        """Return an attribute of a variable in another type; its numbers are those of the values."""
        if attribute.name not in _OF_VALUES or attribute.type != old.type:
            return self.attribute(fqn, attribute)
        if attribute.name == "_FillValue":
            return replace(attribute, type=new, values=np.array([fill], new.dtype))
        if old.type in _SAME_BITS:
            return replace(attribute, type=new, values=attribute.values.view(new.dtype))
        if all(_fits(value, new) for value in attribute.values):
            return replace(attribute, type=new, values=attribute.values.astype(new.dtype))
        return self.attribute(fqn, attribute)

    def attribute(self, fqn: str, attribute: Attribute) -> Attribute:
        """Return an attribute in the smallest type of the format that has its numbers."""
        if attribute.type == STRING:
            if len(attribute.values) == 1:
                return Attribute.of(attribute.name, str(attribute.values[0]))
            raise _no_place(
                fqn,
                f"attribute {attribute.name!r}: the format has no lists of text",
                "a text with separators",
            )
        if not self._is_signed or attribute.type not in (*_SAME_BITS, *_WIDE):
            return attribute
        for type_ in (SHORT, INT, DOUBLE) if attribute.type not in _WIDE else (INT, DOUBLE):
            if all(_fits(value, type_) for value in attribute.values):
                return replace(attribute, type=type_, values=attribute.values.astype(type_.dtype))
        numbers = (
            f"attribute {attribute.name!r}: no type of the format has the numbers {attribute.values.tolist()}"
        )
        raise _no_place(fqn, numbers, "a number of at most 53 bits")

    def _characters(self, fqn: str, old: Variable) -> Variable:
        """Return a variable of strings as characters along one more dimension."""
        attributes = [self.attribute(fqn, a) for a in old.attributes if a.name != "_FillValue"]
        own = next((a for a in old.attributes if a.name == "_FillValue"), None)
        if own is not None and str(own.values[0]):
            raise _no_place(
                fqn, "characters cannot represent the fill value of strings", "a dataset without _FillValue"
            )
        length = 1
        for text in () if old.data is None else _texts(old.data):
            # Readers cut NULs off the end of characters.
            if text.endswith(b"\0"):
                raise _no_place(fqn, "characters cannot represent a text that ends with NUL", "another text")
            length = max(length, len(text))
        # xarray and netCDF4-python join characters by this attribute.
        if not any(a.name == "_Encoding" for a in attributes):
            attributes.append(Attribute.of("_Encoding", "utf-8"))
        name = self._dimension(length)
        data = None if old.data is None else _CharacterSource(old.data, length)
        storage = replace(
            old.storage,
            chunk_shape=old.storage.chunk_shape and (*old.storage.chunk_shape, length),
            array_chunks=old.storage.array_chunks and (*old.storage.array_chunks, length),
            shard_shape=None,
            codecs=None,
        )
        return replace(
            old,
            type=CHAR,
            dimensions=(*old.dimensions, f"/{name}"),
            attributes=tuple(attributes),
            storage=storage,
            data=data,
        )

    def _dimension(self, length: int) -> str:
        """Return the dimension of characters of a length, with the name that xarray gives it where that is free."""
        name, number = f"string{length}", 1
        while self._names.get(name, None if name in self._taken else length) != length:
            number += 1
            name = f"string{length}_{number}"
        if name not in self._names:
            self._names[name] = length
            self.dimensions[name] = Dimension(name, length)
        return name


@dataclass(frozen=True, eq=False)
class _NarrowSource(ChangedSource):
    """Integers in a narrower or signed type; a value that does not fit is an error with its place."""

    fqn: str
    type: PrimitiveType
    before: np.generic
    fill: np.generic

    @property
    def dtype(self) -> np.dtype:
        return self.type.dtype

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        values = self.inner.read(region)
        if values.dtype.itemsize == self.dtype.itemsize:
            return handed(values.view(self.dtype), out)
        is_fill = values == self.before
        limits = np.iinfo(self.dtype)
        wrong = ~is_fill & ((values < limits.min) | (values > limits.max))
        # A valid number that equals the new fill value would read as missing.
        if self.fill != self.before:
            wrong |= values == self.fill
        if wrong.any():
            at = tuple(int(axis[0]) for axis in np.nonzero(np.atleast_1d(wrong)))
            place = [s.start + n * (s.step or 1) for s, n in zip(region, at, strict=False)]
            value = np.atleast_1d(values)[at]
            why = "is the fill value there" if limits.min <= value <= limits.max else "is beyond its range"
            raise _no_place(
                self.fqn,
                f"the value {value} at {place} cannot be stored as {self.type.name}: it {why}",
                f"{named('format', 'cdf5')} and {named('format', 'nc4')} have 64-bit integers",
            )
        return handed(np.where(is_fill, self.fill, values).astype(self.dtype), out)


@dataclass(frozen=True, eq=False)
class _DoubleSource(ChangedSource):
    """Times as double, NaN where there is none; a time that double cannot represent is an error."""

    fqn: str

    @property
    def dtype(self) -> np.dtype:
        return DOUBLE.dtype

    def changed(self, values: np.ndarray) -> np.ndarray:
        times = np.where(values == _NOT_A_TIME, np.nan, values.astype("f8"))
        # double has each integer up to 2**53 only.
        wrong = (values != _NOT_A_TIME) & (np.abs(times) > _EXACT)
        if wrong.any():
            raise _no_place(
                self.fqn,
                f"the time {values[wrong].flat[0]} has more digits than double",
                "coarser units: encoding={'units': 'seconds since …'}",
            )
        return times


@dataclass(frozen=True, eq=False)
class _CharacterSource(ChangedSource):
    """Texts as characters along one more dimension."""

    length: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.inner.shape, self.length)

    @property
    def dtype(self) -> np.dtype:
        return CHAR.dtype

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        texts = self.inner.read(region[:-1])
        whole = np.array([_utf8(text) for text in texts.ravel()], f"S{self.length}")
        characters = whole.view("S1").reshape(*texts.shape, self.length)
        return handed(characters[..., region[-1]], out)


def _blocks(source: ArraySource) -> Iterator[np.ndarray]:
    """Yield the values of a source, block by block."""
    shape = source.shape
    block = block_shape(shape, (1,) * len(shape), None, value_bytes(source.dtype)) if shape else ()
    for region in regions(shape, block):
        yield source.read(region)


def _texts(source: ArraySource) -> Iterator[bytes]:
    """Yield the texts of a source in UTF-8."""
    return (_utf8(text) for values in _blocks(source) for text in values.ravel())


def _is_time(variable: Variable) -> bool:
    """Return whether the numbers of a variable are times, of which the smallest means none."""
    own = {a.name for a in variable.attributes} & {"_FillValue", "missing_value"}
    return not own and (is_time(variable) or text_of(variable, "dtype").startswith("timedelta64"))


def _fit(source: ArraySource, type_: PrimitiveType) -> bool:
    """Return whether a type has all numbers of a source."""
    limits = np.iinfo(type_.dtype)
    return all(((v >= limits.min) & (v <= limits.max)).all() for v in _blocks(source))


def _utf8(text: object) -> bytes:
    return str(text).encode("utf-8", "surrogateescape")


def _fits(value: np.generic, type_: PrimitiveType) -> bool:
    """Return whether a type has an integer."""
    if type_ == DOUBLE:
        return int(float(value)) == int(value)
    limits = np.iinfo(type_.dtype)
    return bool(limits.min <= int(value) <= limits.max)


def _no_place(fqn: str, problem: str, remedy: str) -> LossError:
    # xarray raises ValueError for numbers that it cannot cast.
    error: LossError = also(LossError, ValueError)(problem, fqn=fqn, hint=remedy)
    return error

"""Find the type, the attributes, the storage and the values of one variable of xarray.

The values are in the model's form: as stored, as far as a program has not changed them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from operator import index
from typing import Any

import numpy as np
import xarray as xr
from xarray import conventions
from xarray.backends.common import ensure_dtype_not_object
from xarray.coding.common import _ElementwiseFunctionArray
from xarray.coding.strings import CharacterArrayCoder, EncodedStringCoder, StackedBytesArray
from xarray.coding.variables import BoolTypeArray, NativeEndiannessArray
from xarray.core import indexing
from xarray.core.utils import is_duck_dask_array

from nczarr import model
from nczarr.compression import NamedConfig
from nczarr.errors import NCZarrError, UnsupportedError, also, error_context
from nczarr.lazy import cached_property
from nczarr.model import STRING, CompoundType, EnumType, Region, Storage, Type, VlenType
from nczarr.model.sources import handed, region_shape
from nczarr.model.stored_form import ChangedValue, StoredForm
from nczarr.netcdf4.values.attributes import attribute_value
from nczarr.netcdf4.values.keywords import (
    codecs_by_keyword,
    digit_attribute,
    filters_by_keywords,
    quantization_attribute,
    with_checksum,
)
from nczarr.netcdf4.values.numbers import quantization_in, quantize, round_to_digit
from nczarr.netcdf4.values.types import complex_parts, converted_records
from nczarr.system.warning import warn
from nczarr.xarray_model.read import KEPT, Kept, LazyVariable, shown_attribute
from nczarr.zarr.codecs.base import requested_codecs

_PACKING = ("_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned")
#: The keys of an encoding that change values.
_ROUNDING = ("least_significant_digit", "significant_digits", "quantize_mode")
_CODING = frozenset({*_PACKING, *_ROUNDING, "units", "calendar", "dtype", "_Encoding"})
_FLAGS = ("zlib", "szip", "zstd", "bzip2", "blosc")
_FILTERS = ("complevel", "shuffle", "fletcher32", "blosc_shuffle", "szip_coding", "szip_pixels_per_block")
#: The keys of an encoding that say how values are stored.
_CODECS = ("codecs", "filters", "serializer", "compressors", "compressor")
_PACKED = (*_FLAGS, *_FILTERS, *_CODECS, "compression")
_STORAGE = (*_PACKED, "contiguous", "chunksizes", "chunks", "shards", "endian", "chunk_key_encoding")
_ASIDE = ("coordinates", "char_dim_name", "preferred_chunks", "original_shape", "source", KEPT)
#: Wrappers of xarray's arrays: those that keep values, and those that decode them.
_KEEPING = (indexing.MemoryCachedArray, indexing.CopyOnWriteArray, NativeEndiannessArray, StackedBytesArray)
_DECODING = (_ElementwiseFunctionArray, BoolTypeArray)


# --- values


def as_stored(variable: xr.Variable, name: str, *, characters: bool = True) -> xr.Variable:
    """Encode objects and text as xarray does for netCDF files."""
    variable = ensure_dtype_not_object(variable, name=name)
    variable = EncodedStringCoder(allows_unicode=True).encode(variable, name=name)
    return CharacterArrayCoder().encode(variable, name=name) if characters else variable


def _warn_of_missing_texts(name: str, variable: xr.Variable) -> None:
    """Warn of missing values among texts, which xarray stores as empty texts; a fill value would keep them apart.

    Dask arrays of objects are looked at when xarray loads them: to find a missing text, all must be computed.
    """
    values = variable._data
    # Missing texts became empty ones without a word.
    if variable.dtype.kind != "O" or not isinstance(values, np.ndarray) or values.dtype.metadata:
        return
    count = sum(not isinstance(value, str | bytes) for value in values.flat)
    if 0 < count < values.size:
        warn(
            f"{name}: {count} missing values among texts are stored as empty texts; a text as _FillValue in the "
            "encoding keeps them missing"
        )


@dataclass(frozen=True, eq=False)
class LazySource:
    """A selection of stored values, in the model's form."""

    array: indexing.LazilyIndexedArray
    dtype: np.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        picked = self.array[indexing.BasicIndexer(region)].get_duck_array()
        return handed(np.asarray(picked, self.dtype), out)


@dataclass(frozen=True)
class Rounding:
    """How new values of a variable of floats are rounded, as its attributes note it for netCDF's libraries."""

    digit: float | None
    quantization: tuple[int, str] | None
    fill: Any

    @classmethod
    def of(cls, variable: model.Variable) -> Rounding | None:
        """Return what the attributes of a variable say."""
        if variable.type.dtype.kind != "f":
            return None
        noted = {name: attribute_value(attribute) for name, attribute in variable.attribute.items()}
        found = noted.get("least_significant_digit"), quantization_in(noted.get, variable.type.dtype)
        return (
            None
            if found == (None, None)
            else cls(*found, variable.type.dtype.type(model.fill_value_of(variable)))
        )

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Return rounded values."""
        if self.digit is not None:
            rounded = round_to_digit(values, self.digit).astype(values.dtype)
            # A rounded fill value is no fill value any more.
            values = np.where(values == self.fill, values, rounded)
        return values if self.quantization is None else quantize(values, *self.quantization, self.fill)


#: The cures for values that do not fit a new variable, and one that is stored.
_OTHER_ENCODING = (
    "give the variable another encoding, or none: drop_encoding(); unsafe=True stores the values nevertheless"
)
_STORED_FORM = (
    "change the values; write the whole variable anew with other units or another encoding, with mode='w'; "
    "nczarr.append(…, adjust=) joins files that differ; unsafe=True stores the values nevertheless"
)


@dataclass(frozen=True)
class Fit:
    """The form into which values have to fit.

    Parameters
    ----------
    stored : StoredForm
        The form of the variable.
    given : StoredForm, optional
        The program has not decoded the values: they are numbers of this form.
    is_fixed : bool
        The variable is stored already, and encodes the values; xarray encodes those of new variables.
    place, fqn : str
        The dataset and the variable, for messages.
    start : tuple of int
        Where the values begin in the variable.
    is_unsafe : bool
        Values that do not fit are stored, too.
    """

    stored: StoredForm
    given: StoredForm | None = None
    is_fixed: bool = False
    place: str | None = None
    fqn: str | None = None
    start: tuple[int, ...] = ()
    is_unsafe: bool = False

    def takes(self, values: Any) -> bool:
        """Return True for numbers, times and dates, which alone have a form."""
        return values.dtype.kind in "biufmM" or (values.dtype.kind == "O" and self.stored.time is not None)

    def encoded(self, values: np.ndarray, region: Region) -> np.ndarray:
        """Return the numbers of a stored variable for values.

        Raises
        ------
        UnsupportedError
            If a value does not come back.
        """
        with error_context(self.place, fqn=self.fqn):
            numbers, change = self.stored.fit(values, self.given)
            self._refuse(change, region, _STORED_FORM)
        return numbers

    def check(self, values: np.ndarray, numbers: np.ndarray, region: Region) -> None:
        """Refuse values of which xarray has made numbers that stand for others."""
        # The source itself checks members, among which an enum need not declare its fill value.
        form, wanted = replace(self.stored, members=None), self.stored.dtype
        if numbers.dtype.itemsize != wanted.itemsize or numbers.dtype.kind not in "iuf" or self.is_unsafe:
            return
        if values.dtype.kind == "f" and wanted.kind in "iu" and not form.is_packed:
            form = replace(form, scale=1.0)  # an encoding that asks for integers asks to round
        with error_context(fqn=self.fqn):
            self._refuse(form.change(values, numbers), region, _OTHER_ENCODING)

    def _refuse(self, change: ChangedValue | None, region: Region, hint: str) -> None:
        if change is not None and not self.is_unsafe:
            begin = tuple(s.start + n for s, n in zip(region, self.start or (0,) * len(region), strict=False))
            raise UnsupportedError(str(change.moved(begin)), hint=hint)


@dataclass(frozen=True, eq=False)
class EncodedSource:
    """Values that xarray encodes, part by part, or has encoded already; or that a stored variable encodes."""

    name: str
    variable: xr.Variable
    type: Type
    shape: tuple[int, ...]
    is_encoded: bool = False
    rounding: Rounding | None = None
    #: The fill value, which no value of an enum needs to be.
    fill: object = None
    #: The values as the program sees them, if `variable` is encoded.
    given: xr.Variable | None = None
    fit: Fit | None = None

    @property
    def dtype(self) -> np.dtype:
        return self.type.dtype

    @property
    def chunked(self) -> Any:
        """The Dask array of the values that the program sees; None without one."""
        return self.variable._data if is_duck_dask_array(self.variable._data) else None

    @property
    def chunk_shape(self) -> tuple[int, ...] | None:
        """The shape of the chunks of Dask."""
        chunks = None if self.chunked is None else tuple(max(c, default=1) for c in self.chunked.chunks)
        return None if chunks is None else chunks + self.shape[len(chunks) :]

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        return handed(self.block(_cut(self.variable, region), region), out)

    def detached(self) -> EncodedSource:
        """Return the source without values, which encodes blocks in other processes."""
        sample = self.variable[(slice(0, 0),) * self.variable.ndim].copy(deep=False)
        sample._data = np.empty(sample.shape, sample.dtype)
        return replace(self, variable=sample, given=None)

    def fitted(self, type_: Type, fit: Fit) -> EncodedSource:
        """Return the source for a stored variable, which encodes the values itself."""
        variable = self.variable if self.given is None else self.given
        if not fit.takes(variable):
            return self
        return replace(self, variable=variable, is_encoded=False, given=None, type=type_, fit=fit)

    def anew(self) -> EncodedSource:
        """Return the source without stored values, which another form would give another meaning."""
        return EncodedSource(**{f.name: getattr(self, f.name) for f in fields(EncodedSource)})

    @property
    def may_change(self) -> bool:
        """True if a stored variable may change a value."""
        if self.fit is None or self.fit.is_unsafe:
            return False
        values = np.empty(0, self.variable.dtype)
        with error_context(self.fit.place, fqn=self.fit.fqn):  # refuses values of another kind
            return not self.fit.stored.keeps(values, self.fit.given)

    def part(self, values: np.ndarray) -> xr.Variable:
        """Return values that the program sees in a region as a variable."""
        return xr.Variable(self.variable.dims, values, self.variable.attrs, self.variable.encoding)

    def block(self, part: xr.Variable, region: Region) -> np.ndarray:
        """Return the stored values of a region, which the program sees as `part`."""
        fit, seen = self.fit, part
        is_seen = fit is not None and not self.is_encoded and fit.takes(part)
        if fit is not None and is_seen and fit.is_fixed:
            numbers = fit.encoded(part.to_numpy(), region).view(self.dtype)
            return numbers if self.rounding is None else self.rounding(numbers)
        if not self.is_encoded and self.type.kind != "vlen":
            part = conventions.encode_cf_variable(part, name=self.name)
            part = as_stored(part, self.name, characters=len(self.shape) > self.variable.ndim)
        values, wanted = np.asarray(part.data), region_shape(region)
        if fit is not None and is_seen:
            fit.check(seen.to_numpy(), values, region)
        if values.shape != wanted:  # characters, shorter than their dimension
            padded = np.zeros((*wanted[:-1], self.shape[-1]), "S1")
            padded[..., : values.shape[-1]] = values
            values = padded[..., region[-1]]
        return self._in_model(values)

    def _in_model(self, values: np.ndarray) -> np.ndarray:
        """Return encoded values in the form of the model, or refuse them."""
        wanted = self.dtype
        if self.type == STRING and values.dtype.kind == "S":
            values = np.char.decode(values, "utf-8")
        if isinstance(self.type, VlenType):
            found = np.empty(values.shape, object)
            for place, sequence in np.ndenumerate(values):
                found[place] = _sequence(self.name, sequence, self.type.base)
            return found
        if self.type.kind == "compound":
            return values.view(wanted) if values.dtype.kind == "c" else converted_records(values, wanted)
        text = self.type == STRING or (wanted == "S1" and values.dtype == object)
        small = values.dtype == np.float16
        if not (text or small) and (values.dtype.kind, values.itemsize) != (wanted.kind, wanted.itemsize):
            raise UnsupportedError(
                f"the values need the type {values.dtype}, but the encoding says {wanted}",
                fqn=self.name,
                hint="remove 'dtype' (and for times 'units') from the encoding of the variable",
            )
        values = values.astype(wanted)
        if isinstance(self.type, EnumType):
            self._check_members(self.type, values)
        return values if self.rounding is None else self.rounding(values)

    def _check_members(self, type_: EnumType, values: np.ndarray) -> None:
        is_known = type_.are_members(values) | (values == self.fill)
        # ncdump ends at such a value in the middle of a line.
        if not is_known.all():
            place = tuple(int(n) for n in np.argwhere(~is_known)[0])
            raise UnsupportedError(
                f"the value {values[place]} is no member of the enum {type_.name!r}",
                fqn=self.name,
                hint=f"the members are {', '.join(f'{n} = {v}' for n, v in type_.members[:9])}",
            )


@dataclass(frozen=True, eq=False, kw_only=True)
class UntouchedSource(EncodedSource):
    """Stored values wherever the program sees what they are decoded to; elsewhere what xarray encodes."""

    stored: LazySource
    decoded: xr.Variable

    def block(self, part: xr.Variable, region: Region) -> np.ndarray:
        now = part.to_numpy()
        try:
            stored, then = self.stored.read(region), _cut(self.decoded, region).to_numpy()
        except (NCZarrError, OSError):  # the source is gone
            return super().block(part, region)
        is_same = _equal(np.asarray(then, now.dtype), now)
        if is_same.all():
            return stored
        values = super().block(part, region)
        values[is_same] = stored[is_same]
        return values


def _sequence(name: str, values: Any, base: Type) -> np.ndarray:
    """Return a sequence with elements in the form of the model, or refuse elements that would change."""
    array = np.asarray(values)
    if base.kind == "compound":
        return converted_records(array, base.dtype)
    if base.dtype.kind in "iuf" and array.dtype != base.dtype:
        cast = array.astype(base.dtype)
        # Elements of another type were written as they were, and read as others.
        if not np.array_equal(cast, array, equal_nan=array.dtype.kind == "f"):
            raise UnsupportedError(
                f"a sequence of {array.dtype} does not fit {base.name}: {values!r}", fqn=name
            )
        return cast
    return array


def kept_source(encoded: EncodedSource, values: LazyVariable, decoded: xr.Variable) -> model.ArraySource:
    """Return the values of a variable whose encoding is that of its source.

    Parameters
    ----------
    encoded : EncodedSource
        The values as the program sees them.
    values : LazyVariable
        The stored values, in the model's form.
    decoded : xarray.Variable
        The stored values as they were decoded at opening.
    """
    variable, dtype = encoded.variable, encoded.dtype
    key = _selection(variable._data, values)
    # Chunks that no program has changed are copied without decoding.
    if key is not None:
        whole = values.whole() if _is_all(key, values.shape) else None
        if whole is not None and whole.shape == encoded.shape:
            return whole
        return LazySource(indexing.LazilyIndexedArray(values, key), dtype)
    # A second look at the source costs a read, and pays only where decoding loses bits.
    if (decoded.dims, decoded.shape) != (variable.dims, variable.shape) or not _can_lose(
        decoded, encoded.type
    ):
        return encoded
    stored = LazySource(indexing.LazilyIndexedArray(values), dtype)
    return UntouchedSource(**vars(encoded), stored=stored, decoded=decoded)


def _selection(array: Any, values: LazyVariable) -> indexing.ExplicitIndexer | None:
    """Return the selection of stored values that a lazy array decodes; None for loaded and computed arrays."""
    key: indexing.ExplicitIndexer | None = None
    while not isinstance(array, LazyVariable):
        if isinstance(array, indexing.LazilyIndexedArray):
            if not _is_all(array.key, array.array.shape):
                if key is not None:
                    return None
                key = array.key
        elif not isinstance(array, (*_KEEPING, *_DECODING)):
            return None
        array = array.array
    if array.source is not values.source or (array.group, array.name) != (values.group, values.name):
        return None
    key = indexing.BasicIndexer(()) if key is None else key
    return type(key)((*key.tuple, *[slice(None)] * (len(values.shape) - len(key.tuple))))


def _is_all(key: indexing.ExplicitIndexer, shape: tuple[int, ...]) -> bool:
    pairs = zip(key.tuple, shape, strict=False)
    return all(isinstance(k, slice) and range(*k.indices(n)) == range(n) for k, n in pairs)


def _can_lose(decoded: xr.Variable, type_: Type) -> bool:
    """True if different stored values may be decoded to the same value."""
    array = decoded._data
    while not isinstance(array, LazyVariable):
        if isinstance(array, _DECODING) or not hasattr(array, "array"):
            return True
        array = array.array
    return type_ == STRING  # numpy's text has no NUL at its end


def _cut(variable: xr.Variable, region: Region) -> xr.Variable:
    """Return a region of a variable, which may lack the axis of characters."""
    return (
        variable[region[: variable.ndim]] if variable.ndim else variable
    )  # xarray makes an object of a scalar


def _equal(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return where two arrays of one dtype have the same values; all values that are not a number are one."""
    # Not-a-time differs from itself.
    if a.dtype.kind in "mM":
        return (a == b) | (np.isnat(a) & np.isnat(b))
    if a.dtype.kind == "f":
        # -0.0 and 0.0 are equal, and have different bits.
        return ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))
    # NaN among objects differs from itself.
    if a.dtype == object:
        return np.asarray((a == b) | ((a != a) & (b != b)), bool)
    return np.asarray(a == b)


# --- variables


@dataclass(frozen=True)
class VariableOrigin:
    """The origin of a variable.

    Attributes
    ----------
    header : Dataset
        The model in which `variable` is, without values.
    stored, decoded : xarray.Variable or None
        As the engine has read it, and as xarray has decoded it; None if the source is gone.
    is_here : bool
        It comes from the source of the root.
    """

    kept: Kept
    header: model.Dataset
    variable: model.Variable
    stored: Any
    decoded: Any
    is_here: bool


@dataclass
class XarrayVariable:
    """One variable of xarray, with its origin, if it has one."""

    name: str
    variable: xr.Variable
    origin: VariableOrigin | None
    #: The variable as xarray encodes it, at least without values; None if the encoding is that of the source.
    encoded: Any = None

    @cached_property
    def is_same(self) -> bool:
        """True if xarray would encode the values as the source has them."""
        if self.origin is None or self.origin.decoded is None:
            return False
        now, then = self.variable, self.origin.decoded
        text, objects = self.origin.variable.type == STRING, now.dtype == then.dtype == object
        kinds = "UO" if text else "mM" if now.dtype.kind == then.dtype.kind else ""
        if now.dtype != then.dtype and now.dtype.kind not in kinds:
            return False
        keys = _CODING & (now.encoding.keys() | then.encoding.keys()) - (
            {"dtype"} if text or objects else set()
        )
        clash = any(key in now.attrs and key not in then.attrs for key in keys)
        return not clash and all(same(now.encoding.get(k), then.encoding.get(k)) for k in keys)

    @property
    def is_divisible(self) -> bool:
        """True if each part is encoded as in the whole, so that the values need not be read now."""
        return bool(self.variable.ndim) and self.variable.dtype.kind in "iufcbV"

    @property
    def stored(self) -> Any:
        """The variable as the engine has read it; None without an origin, or if the source is gone."""
        return None if self.origin is None else self.origin.stored

    # -- dimensions

    @property
    def dims(self) -> tuple[Any, ...]:
        """The names of the dimensions, with that of characters."""
        if self.encoded is not None or self.origin is None:
            return tuple(self.encoded.dims)
        return tuple(self.variable.dims + self.origin.stored.dims[self.origin.decoded.ndim :])

    @property
    def shape(self) -> tuple[int, ...]:
        """The stored shape; characters keep the length of their dimension."""
        if self.encoded is None and self.origin is not None:
            return tuple(self.variable.shape + self.stored.shape[self.origin.decoded.ndim :])
        tail = tuple(self.encoded.shape[self.variable.ndim :])
        if tail and self.stored is not None and self.stored.dims[-1:] == self.encoded.dims[-1:]:
            tail = (max(tail[-1], self.stored.shape[-1]),)
        return tuple(self.variable.shape + tail)

    def place(self, axis: int) -> int | None:
        """Return the axis of the source for an axis, whose dimension may have a new name."""
        if self.stored is None:
            return None
        dims, names = self.dims, self.stored.dims
        if dims == names:
            return axis
        if dims.count(dims[axis]) == 1 == names.count(dims[axis]):
            return int(names.index(dims[axis]))
        renamed = len(dims) == len(names) and dims[axis] not in names and names[axis] not in dims
        return axis if renamed else None

    def reference(self, axis: int) -> model.DimensionRef | None:
        """Return the reference of the source for an axis."""
        place = self.place(axis)
        return None if place is None or self.origin is None else self.origin.variable.dimensions[place]

    # -- attributes

    def drop_coordinates(self, explicit: bool, old: set[str]) -> None:
        """Remove coordinates of the source that xarray adds to a variable whose source does not list them."""
        attrs = self.variable.attrs
        # xarray lists all coordinates that fit, so that each unchanged variable would get an attribute.
        if self.origin is not None and "coordinates" in attrs and not explicit:
            new = [c for c in attrs.pop("coordinates").split() if c not in old]
            attrs.update({"coordinates": " ".join(new)} if new else {})

    def listed(self) -> Iterator[str]:
        """Yield the coordinates that attributes of the variable name."""
        found = [self.variable.encoding.get(key) for key in conventions.CF_RELATED_DATA]
        for text in (self.variable.attrs.get("coordinates"), *found):
            yield from str(text or "").replace(":", " ").split()

    def attributes(self, type_: Type) -> dict[Any, Any]:
        """Return all attributes, as Python values; the encoding asks for those that note how floats are rounded."""
        encoding, attrs = self.variable.encoding, self.variable.attrs
        found = {
            k: v
            for k, v in (attrs if self.encoded is None else self.encoded.attrs).items()
            if v is not None or k not in _CODING
        }
        if self.encoded is not None:
            if self.origin is not None and "_FillValue" not in encoding.keys() | attrs.keys():
                found.pop("_FillValue", None)  # xarray's default for floats
        elif self.origin is not None:
            then = self.origin.decoded
            for name, attribute in self.origin.variable.attribute.items():
                if name in found or name in then.attrs:
                    continue
                if name in _CODING or name not in then.encoding:  # xarray drops fill values that do not fit
                    found[name] = shown_attribute(attribute)
                elif encoding.get(name) is not None:
                    found[name] = encoding[name]
        noted, where = list[model.Attribute](), f"(variable {self.name!r})"
        if (digits := encoding.get("significant_digits")) is not None:
            mode = encoding.get("quantize_mode") or "BitGroom"
            noted.append(quantization_attribute(type_, digits, mode, where))
        if (digit := encoding.get("least_significant_digit")) is not None:
            noted.append(digit_attribute(digit, "NETCDF4", where))
        return found | {attribute.name: attribute_value(attribute) for attribute in noted}

    # -- type and storage

    def type(self) -> Type:
        """Return the type; that of the source where it has the same values."""
        old = None if self.origin is None else self.origin.variable.type
        if self.encoded is None and old is not None:
            return old
        dtype, wanted = self.encoded.dtype, self.variable.encoding.get("dtype")
        metadata = dtype.metadata or getattr(wanted, "metadata", None) or {}
        base = model.primitive_for_dtype(dtype)
        if "enum" in metadata and base is not None and base.is_integer:
            members = tuple((str(k), int(v)) for k, v in metadata["enum"].items())
            if isinstance(old, EnumType) and (old.base, old.members) == (base, members):
                return old
            return EnumType(f"/{metadata.get('enum_name') or f'{self.name}_t'}", base, members)
        stored = None if isinstance(old, EnumType) else self.stored
        fits = stored is not None and (stored.dtype == dtype or (old == STRING and dtype.kind in "UO"))
        return old if fits and old is not None else type_of(dtype, self.name)

    def data_type(self) -> str | None:
        """Return the Zarr data type where the type does not say it: that of the source, or of the values."""
        if self.encoded is not None and self.encoded.dtype == np.float16:
            return "float16"
        if self.encoded is None:
            return None if self.origin is None else self.origin.variable.storage.data_type
        is_truth = self.variable.dtype == np.bool_ and self.encoded.attrs.get("dtype") == "bool"
        return "bool" if is_truth else None

    def storage(self, unlimited: Sequence[bool]) -> Storage:
        """Return the storage: that of the source, unless the encoding says another."""
        shape, stored = self.shape, self.stored
        if self.origin is not None and self._keeps_encoding(_STORAGE):
            storage, places = self.origin.variable.storage, [self.place(i) for i in range(len(shape))]
            if stored is not None and shape == stored.shape:
                return storage
            storage = storage.with_axes(places)
            if None in places:  # the chunks of the source say nothing of a dimension that it does not have
                storage = replace(storage, chunk_shape=None, array_chunks=None, shard_shape=None)
        else:
            storage = self._storage_by_encoding(unlimited)
        storage = replace(storage, data_type=self.data_type())
        # In netCDF, a scalar has neither chunks nor filters.
        if not shape:
            unchunked = replace(storage, layout=None, chunk_shape=None, array_chunks=None, shard_shape=None)
            return replace(unchunked, filters=())
        layout = "chunked" if any(unlimited) and storage.layout == "contiguous" else storage.layout
        if storage.shard_shape:
            return replace(storage, layout=layout)
        chunks, array_chunks = (
            _cut_chunks(lengths, shape, unlimited) for lengths in (storage.chunk_shape, storage.array_chunks)
        )
        return replace(storage, chunk_shape=chunks, array_chunks=array_chunks, layout=layout)

    def _keeps_encoding(self, keys: Iterable[str]) -> bool:
        """True if the variable comes from a source, and the encoding has the values of the source under the keys."""
        now, then = self.variable.encoding, {} if self.stored is None else self.stored.encoding
        return self.origin is not None and all(same(now.get(k), then.get(k)) for k in keys)

    def _storage_by_encoding(self, unlimited: Sequence[bool]) -> Storage:
        """Return the storage that the encoding describes, with the chunks of Dask if it names none."""
        encoding, shape = self.variable.encoding, self.shape
        then = {} if self.stored is None else self.stored.encoding
        # The engine notes `chunks` and `chunksizes`: where a program has set `chunksizes` alone, the others are old.
        is_netcdf = encoding.get("chunksizes") and same(encoding.get("chunks"), then.get("chunks"))
        if is_netcdf and not encoding.get("shards"):
            encoding = {k: v for k, v in encoding.items() if k != "chunks"}
        chunks = self.variable.chunks if is_duck_dask_array(self.variable._data) else None
        if chunks and not {"chunks", "chunksizes"} & encoding.keys() and len(chunks) == len(shape):
            encoding = {**encoding, "chunks": tuple(c[0] for c in chunks)}
        storage = _storage(self.name, encoding, shape, unlimited)
        if self.origin is not None and self._keeps_encoding(_PACKED):
            # New chunks alone leave the compression, of which an encoding cannot express all: filters by number.
            own = self.origin.variable.storage.with_axes([self.place(i) for i in range(len(shape))])
            storage = replace(storage, filters=own.filters, codecs=own.codecs)
        return storage

    # -- values

    def source(self, made: model.Variable) -> model.ArraySource:
        """Return the values: those of the source, undecoded, as far as the program has not changed them."""
        is_whole = self.encoded is not None and not self.is_divisible
        variable = (self.encoded if is_whole else self.variable).copy(deep=False)
        variable.encoding = {k: v for k, v in variable.encoding.items() if k != KEPT}
        # An attribute of the program's own variable decodes nothing there: the values are the stored numbers already.
        undecoded = {n: a for n, a in made.attribute.items() if n not in self.variable.attrs}
        form = StoredForm.of(made.type, undecoded)
        encoded = EncodedSource(
            self.name, variable, made.type, self.shape, is_whole, Rounding.of(made), model.fill_value_of(made),
            given=self.variable if is_whole else None, fit=None if form is None else Fit(form, fqn=self.name),
        )  # fmt: skip
        if self.encoded is not None or self.origin is None:
            if made.type.kind == "enum" and isinstance(variable._data, np.ndarray):
                encoded.read(tuple(slice(0, n, 1) for n in self.shape))  # refuses now, before the first byte
            return encoded
        if "_FillValue" in variable.encoding:
            variable.encoding.pop("missing_value", None)  # where they differ, xarray encodes nothing
        if variable.dtype.kind in "mM":
            variable.encoding.setdefault("dtype", self.origin.decoded.encoding["dtype"])
        kept = self.origin.kept
        values = LazyVariable(kept.store.source, kept.store.path, str(kept.name), in_model=True)
        return (
            encoded if values.dtype != made.type.dtype else kept_source(encoded, values, self.origin.decoded)
        )


def _cut_chunks(
    chunks: tuple[int, ...] | None, shape: tuple[int, ...], unlimited: Sequence[bool]
) -> tuple[int, ...] | None:
    """Return chunks that are no longer than dimensions that cannot grow: HDF5 refuses others."""
    if not chunks:
        return chunks
    return tuple(c if u else max(1, min(c, n)) for c, n, u in zip(chunks, shape, unlimited, strict=True))


def check_encoding(name: str, given: Mapping[str, Any]) -> None:
    """Raise ValueError if the encoding that a call gives for a variable has an unknown key, or is no mapping."""
    if not isinstance(given, Mapping):
        raise ValueError(f"the encoding of {name!r} must be castable to dict, got {given!r}")
    known = {*_CODING, *_STORAGE, *_ASIDE, *conventions.CF_RELATED_DATA}
    # An unknown key passed without effect, among them the digits of a quantization.
    if unknown := sorted(given.keys() - known):
        raise ValueError(
            f"unexpected encoding parameters for {name!r}: {unknown}. Valid encodings are: {sorted(known)}"
        )


@contextmanager
def naming(name: str, encoding: Mapping[str, Any], dtype: np.dtype) -> Iterator[None]:
    """Name the variable and its encoding where xarray or numpy cannot encode its values, and say neither."""
    try:
        yield
    except NCZarrError:
        raise
    except (TypeError, ValueError) as error:
        if repr(name) in str(error):
            raise
        given = {key: value for key, value in encoding.items() if key in _CODING}
        builtin = TypeError if isinstance(error, TypeError) else ValueError
        raise also(UnsupportedError, builtin)(
            f"values of {dtype} cannot be stored with the encoding {given}: {error}",
            fqn=name,
            hint="give the variable values and an encoding of one kind: drop_encoding() removes that of a source",
        ) from error


def encode(parts: Sequence[XarrayVariable]) -> None:
    """Let xarray encode variables, if possible without their values."""
    samples = {}
    for part in parts:
        variable = part.variable.copy(deep=False)
        variable.encoding = {k: v for k, v in variable.encoding.items() if k != KEPT}
        # xarray encodes whole variables, and so would load each of them.
        samples[part.name] = variable[(slice(0, 0),) * variable.ndim] if part.is_divisible else variable
    try:
        encoded, _ = conventions.cf_encoder(samples, {})
    except (TypeError, ValueError):
        for name, variable in samples.items():  # xarray does not say of which variable it speaks
            with naming(name, variable.encoding, variable.dtype):
                conventions.encode_cf_variable(variable, name=name)
        raise
    for part in parts:
        with naming(part.name, part.variable.encoding, part.variable.dtype):
            _warn_of_missing_texts(part.name, encoded[part.name])
            part.encoded = as_stored(encoded[part.name], part.name)


def same(value: object, before: object) -> bool:
    """Return True if the value of an attribute or of an encoding is as it was."""
    numbers = np.ndarray | np.generic | float
    if isinstance(value, numbers) and isinstance(before, numbers):
        return model.same_values(value, before)
    if isinstance(value, np.dtype) and isinstance(before, np.dtype):
        return value == before and value.metadata == before.metadata
    return type(value) is type(before) and bool(value == before)


def type_of(dtype: np.dtype, name: str) -> Type:
    """Return the type for a dtype; types without a name of their own have that of the variable.

    Raises
    ------
    UnsupportedError
        If netCDF has no such type.
    """
    if dtype.kind in "OUT" or (dtype.kind == "S" and dtype.itemsize > 1):
        return STRING
    if dtype.kind == "c":
        part = complex_parts(dtype)[1]
        fields = (model.Field("r", part), model.Field("i", part))
        return CompoundType(f"/_PFNC_{part.name.upper()}_COMPLEX_TYPE", fields)
    if dtype.names:
        return CompoundType(f"/{name}_t", tuple(_field(key, dtype[key], name) for key in dtype.names))
    if dtype.kind == "V":
        return model.OpaqueType(f"/opaque_{dtype.itemsize}", dtype.itemsize)
    found = model.FLOAT if dtype == np.float16 else model.primitive_for_dtype(dtype)
    if found is None:
        raise UnsupportedError(
            f"netCDF has no type for {dtype}", fqn=name, hint="give another dtype in the encoding"
        )
    return found


def _field(key: str, dtype: np.dtype, name: str) -> model.Field:
    if dtype.base.kind == "S" and dtype.base.itemsize > 1:
        return model.Field(key, model.CHAR, (*dtype.shape, dtype.base.itemsize))
    return model.Field(key, type_of(dtype.base, f"{name}_{key}"), dtype.shape)


def _storage(
    name: str, encoding: Mapping[str, Any], shape: tuple[int, ...], unlimited: Sequence[bool]
) -> Storage:
    """Return the storage that an encoding describes, under the names of xarray's netCDF and Zarr engines."""
    filters, codecs = _compression(name, encoding)
    chunks, shards = _chunks(encoding, shape, unlimited), encoding.get("shards")
    given = encoding.get("chunks") or encoding.get("chunksizes")
    if isinstance(given, tuple | list) and len(given) != len(shape) and codecs is not None:
        # An encoding of other axes: their order inside a chunk does not fit either.
        codecs = tuple(codec for codec in codecs if codec.name != "transpose")
    if chunks and shards and "chunks" in encoding and any(s % c for s, c in zip(shards, chunks, strict=True)):
        raise ValueError(f"the shards {shards} of {name!r} are not divisible by the chunks {chunks}")
    chunked = chunks or filters or codecs or shards or any(unlimited)
    dtype = encoding.get("dtype")
    big = dtype is not None and dtype is not str and np.dtype(dtype).byteorder == ">"
    return Storage(
        "chunked" if chunked else "contiguous" if encoding.get("contiguous") else None,
        tuple(map(index, chunks)) if chunks else None,
        filters,
        encoding.get("endian") or ("big" if big else "native"),
        shard_shape=tuple(map(index, shards)) if shards else None,
        codecs=codecs,
        chunk_keys=_chunk_keys(encoding),
    )


def _chunk_keys(encoding: Mapping[str, Any]) -> NamedConfig | None:
    """Return the form of the names of chunks of an encoding, in the words of Zarr's metadata."""
    given = encoding.get("chunk_key_encoding")
    return None if given is None else NamedConfig(given["name"], given.get("configuration", {}))


def _compression(
    name: str, encoding: Mapping[str, Any]
) -> tuple[tuple[model.Filter, ...], tuple[NamedConfig, ...] | None]:
    """Return the filters of an encoding, or its codecs, which leave nothing to filters."""
    given = {k: encoding[k] for k in _FILTERS if encoding.get(k) is not None}
    flags = [k for k in _FLAGS if encoding.get(k)]
    compression = encoding.get("compression") or (flags[0] if flags else None)
    if isinstance(encoding.get("blosc"), dict):  # as netCDF4-python's filters() gives it, and xarray's engine
        compression, given["blosc_shuffle"] = encoding["blosc"]["compressor"], encoding["blosc"]["shuffle"]
    filters = filters_by_keywords(compression, **given)
    with error_context(fqn=name):
        codecs = _codecs(encoding)
        if codecs is None:
            codecs = codecs_by_keyword(compression)
    if codecs is None:
        return filters, None
    return (), with_checksum(codecs) if encoding.get("fletcher32") else codecs


def _chunks(encoding: Mapping[str, Any], shape: tuple[int, ...], unlimited: Sequence[bool]) -> Any:
    """Return the lengths of the chunks of an encoding; None of those of another array, as in xarray."""
    chunks = encoding.get("chunks") or encoding.get("chunksizes")
    if isinstance(chunks, int):
        return (chunks,) * len(shape)
    # The engine netcdf4 of xarray drops chunks whose variable has another shape than at its opening.
    was_other = encoding.get("original_shape") not in (None, shape) and "chunks" not in encoding
    fits = not isinstance(chunks, str) and len(chunks or shape) == len(shape)
    return chunks if fits and (not was_other or any(unlimited)) else None


def _codecs(encoding: Mapping[str, Any]) -> tuple[NamedConfig, ...] | None:
    """Return the codecs of an encoding for xarray's Zarr engine; None if it leaves them to the filters."""
    given = {k: encoding[k] for k in _CODECS if k in encoding and not is_auto(encoding[k])}
    if "codecs" in given:
        return requested_codecs(given["codecs"] or ())
    before = requested_codecs([given.get("filters") or (), given.get("serializer") or ()])
    for key in ("compressors", "compressor"):
        if key in given:
            return (*before, *requested_codecs(given[key] or ()))
    return (*before, *requested_codecs("blosc:zstd:3")) if before else None


def is_auto(value: object) -> bool:
    """Return True if a value of an encoding leaves the choice to the library."""
    return isinstance(value, str) and value == "auto"

"""Read the values of xarray's variables in the model's form: as stored, as far as a program has not changed them."""

from __future__ import annotations

from dataclasses import dataclass, replace
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

from nczarr.errors import NCZarrError, UnsupportedError
from nczarr.labelled.read import Values
from nczarr.model import STRING, ArraySource, CompoundType, Region, Type, Variable, VlenType, fill_value_of
from nczarr.model.sources import handed, region_shape
from nczarr.netcdf4.values.attributes import attribute_value
from nczarr.netcdf4.values.numbers import quantization_in, quantize, round_to_digit
from nczarr.netcdf4.values.types import converted_records

#: Wrappers of xarray's arrays: those that keep values, and those that decode them.
_KEEPING = (indexing.MemoryCachedArray, indexing.CopyOnWriteArray, NativeEndiannessArray, StackedBytesArray)
_DECODING = (_ElementwiseFunctionArray, BoolTypeArray)


def as_stored(variable: xr.Variable, name: str, *, characters: bool = True) -> xr.Variable:
    """Encode objects and text as xarray does for netCDF files."""
    variable = ensure_dtype_not_object(variable, name=name)
    variable = EncodedStringCoder(allows_unicode=True).encode(variable, name=name)
    return CharacterArrayCoder().encode(variable, name=name) if characters else variable


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
    def of(cls, variable: Variable) -> Rounding | None:
        """Return what the attributes of a variable say."""
        if variable.type.dtype.kind != "f":
            return None
        noted = {name: attribute_value(attribute) for name, attribute in variable.attribute.items()}
        found = noted.get("least_significant_digit"), quantization_in(noted.get, variable.type.dtype)
        return (
            None if found == (None, None) else cls(*found, variable.type.dtype.type(fill_value_of(variable)))
        )

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Return rounded values."""
        if self.digit is not None:
            rounded = round_to_digit(values, self.digit).astype(values.dtype)
            values = np.where(values == self.fill, values, rounded)
        return values if self.quantization is None else quantize(values, *self.quantization, self.fill)


@dataclass(frozen=True, eq=False)
class EncodedSource:
    """Values that xarray encodes, part by part, or has encoded already."""

    name: str
    variable: xr.Variable
    type: Type
    shape: tuple[int, ...]
    is_encoded: bool = False
    rounding: Rounding | None = None

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
        return replace(self, variable=sample)

    def part(self, values: np.ndarray) -> xr.Variable:
        """Return values that the program sees in a region as a variable."""
        return xr.Variable(self.variable.dims, values, self.variable.attrs, self.variable.encoding)

    def block(self, part: xr.Variable, region: Region) -> np.ndarray:
        """Return the stored values of a region, which the program sees as `part`."""
        if not self.is_encoded and not isinstance(self.type, VlenType):
            part = conventions.encode_cf_variable(part, name=self.name)
            part = as_stored(part, self.name, characters=len(self.shape) > self.variable.ndim)
        values, wanted = np.asarray(part.data), region_shape(region)
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
        if isinstance(self.type, CompoundType):
            return (
                values.view(wanted)
                if values.dtype.kind == "c"
                else converted_records(values, self.type.dtype)
            )
        text = self.type == STRING or (wanted == "S1" and values.dtype == object)
        small = values.dtype == np.float16
        if not (text or small) and (values.dtype.kind, values.itemsize) != (wanted.kind, wanted.itemsize):
            raise UnsupportedError(
                f"the values need the type {values.dtype}, but the encoding says {wanted}",
                fqn=self.name,
                hint="remove 'dtype' (and for times 'units') from the encoding of the variable",
            )
        values = values.astype(wanted)
        return values if self.rounding is None else self.rounding(values)


@dataclass(frozen=True, eq=False)
class UntouchedSource:
    """Stored values wherever the program sees what they are decoded to; elsewhere what xarray encodes."""

    encoded: EncodedSource
    stored: LazySource
    decoded: xr.Variable

    @property
    def shape(self) -> tuple[int, ...]:
        return self.encoded.shape

    @property
    def dtype(self) -> np.dtype:
        return self.encoded.dtype

    @property
    def chunked(self) -> Any:
        return self.encoded.chunked

    @property
    def chunk_shape(self) -> tuple[int, ...] | None:
        return self.encoded.chunk_shape

    def part(self, values: np.ndarray) -> xr.Variable:
        return self.encoded.part(values)

    def detached(self) -> UntouchedSource:
        return replace(self, encoded=self.encoded.detached())

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        return handed(self.block(_cut(self.encoded.variable, region), region), out)

    def block(self, part: xr.Variable, region: Region) -> np.ndarray:
        now = part.to_numpy()
        try:
            stored, then = self.stored.read(region), _cut(self.decoded, region).to_numpy()
        except (NCZarrError, OSError):  # the source is gone
            return self.encoded.block(part, region)
        is_same = _equal(np.asarray(then, now.dtype), now)
        if is_same.all():
            return stored
        values = self.encoded.block(part, region)
        values[is_same] = stored[is_same]
        return values


def _sequence(name: str, values: Any, base: Type) -> np.ndarray:
    """Return a sequence with elements in the form of the model, or refuse elements that would change."""
    array = np.asarray(values)
    if isinstance(base, CompoundType):
        return converted_records(array, base.dtype)
    if base.dtype.kind in "iuf" and array.dtype != base.dtype:
        cast = array.astype(base.dtype)
        if not np.array_equal(cast, array, equal_nan=array.dtype.kind == "f"):
            raise UnsupportedError(
                f"a sequence of {array.dtype} does not fit {base.name}: {values!r}", fqn=name
            )
        return cast
    return array


def kept_source(encoded: EncodedSource, values: Values, decoded: xr.Variable) -> ArraySource:
    """Return the values of a variable whose encoding is that of its source.

    Parameters
    ----------
    encoded : EncodedSource
        The values as the program sees them.
    values : Values
        The stored values, in the model's form.
    decoded : xarray.Variable
        The stored values as they were decoded at opening.
    """
    variable, dtype = encoded.variable, encoded.dtype
    key = _selection(variable._data, values)
    if key is not None:
        whole = values.whole() if _is_all(key, values.shape) else None
        if whole is not None and whole.shape == encoded.shape:
            return whole
        return LazySource(indexing.LazilyIndexedArray(values, key), dtype)
    if (decoded.dims, decoded.shape) != (variable.dims, variable.shape) or not _can_lose(
        decoded, encoded.type
    ):
        return encoded
    return UntouchedSource(encoded, LazySource(indexing.LazilyIndexedArray(values), dtype), decoded)


def _selection(array: Any, values: Values) -> indexing.ExplicitIndexer | None:
    """Return the selection of stored values that a lazy array decodes; None for loaded and computed arrays."""
    key: indexing.ExplicitIndexer | None = None
    while not isinstance(array, Values):
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
    while not isinstance(array, Values):
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
    if a.dtype.kind in "mM":
        return (a == b) | (np.isnat(a) & np.isnat(b))
    if a.dtype.kind == "f":
        return ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))
    if a.dtype == object:
        return np.asarray((a == b) | ((a != a) & (b != b)), bool)
    return np.asarray(a == b)

"""Find the type, the attributes, the storage and the values of one variable of xarray."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import index
from typing import Any

import numpy as np
import xarray as xr
from xarray import conventions
from xarray.core.utils import is_duck_dask_array

from nczarr import model
from nczarr.errors import UnsupportedError
from nczarr.labelled.read import KEPT, Kept, Values
from nczarr.labelled.values import EncodedSource, Rounding, as_stored, kept_source
from nczarr.lazy import cached_property
from nczarr.mapping.values.filters import filters_of
from nczarr.model import (
    STRING,
    ArraySource,
    CompoundType,
    DimensionRef,
    EnumType,
    Field,
    OpaqueType,
    Storage,
    Type,
    primitive_for_dtype,
    same_values,
)
from nczarr.netcdf4.creation import VariableOptions
from nczarr.netcdf4.values.attributes import attribute_value
from nczarr.netcdf4.values.types import complex_parts
from nczarr.zarr import NamedConfig

_PACKING = ("_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned")
#: The keys of an encoding that change values.
_ROUNDING = ("least_significant_digit", "significant_digits", "quantize_mode")
_CODING = frozenset({*_PACKING, *_ROUNDING, "units", "calendar", "dtype", "_Encoding"})
_FLAGS = ("zlib", "szip", "zstd", "bzip2", "blosc")
_FILTERS = ("complevel", "shuffle", "fletcher32", "blosc_shuffle", "szip_coding", "szip_pixels_per_block")
#: The keys of an encoding that say how values are stored.
_STORAGE = (
    *_FLAGS,
    *_FILTERS,
    *["compression", "compressors", "filters", "contiguous", "chunksizes", "chunks", "shards", "endian"],
)
_ASIDE = ("coordinates", "char_dim_name", "preferred_chunks", "original_shape", "source", KEPT)


@dataclass(frozen=True)
class Origin:
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
class Part:
    """One variable of xarray, with its origin, if it has one."""

    name: str
    variable: xr.Variable
    origin: Origin | None
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
        chunked = is_duck_dask_array(self.variable._data)
        return bool(self.variable.ndim) and self.variable.dtype.kind in "iufcbV" and not chunked

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
        stored: Any = None if self.origin is None else self.origin.stored
        if self.encoded is None and self.origin is not None:
            return tuple(self.variable.shape + stored.shape[self.origin.decoded.ndim :])
        tail = tuple(self.encoded.shape[self.variable.ndim :])
        if (
            tail
            and self.origin is not None
            and stored is not None
            and stored.dims[-1:] == self.encoded.dims[-1:]
        ):
            tail = (max(tail[-1], stored.shape[-1]),)
        return tuple(self.variable.shape + tail)

    def place(self, axis: int) -> int | None:
        """Return the axis of the source for an axis, whose dimension may have a new name."""
        if self.origin is None or self.origin.stored is None:
            return None
        dims, names = self.dims, self.origin.stored.dims
        if dims == names:
            return axis
        if dims.count(dims[axis]) == 1 == names.count(dims[axis]):
            return int(names.index(dims[axis]))
        renamed = len(dims) == len(names) and dims[axis] not in names and names[axis] not in dims
        return axis if renamed else None

    def reference(self, axis: int) -> DimensionRef | None:
        """Return the reference of the source for an axis."""
        place = self.place(axis)
        return None if place is None or self.origin is None else self.origin.variable.dimensions[place]

    # -- attributes

    def drop_coordinates(self, explicit: bool, old: set[str]) -> None:
        """Remove coordinates of the source that xarray adds to a variable whose source does not list them."""
        attrs = self.variable.attrs
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
            k: v for k, v in (attrs if self.encoded is None else self.encoded.attrs).items() if v is not None
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
                    found[name] = attribute_value(attribute)
                elif encoding.get(name) is not None:
                    found[name] = encoding[name]
        given = {key: encoding[key] for key in _ROUNDING if encoding.get(key) is not None}
        noted = VariableOptions(f"(variable {self.name!r})", **given).attributes(type_, None, "NETCDF4")
        return found | {name: attribute_value(attribute) for name, attribute in noted.items()}

    # -- type and storage

    def type(self) -> Type:
        """Return the type; that of the source where it has the same values."""
        old = None if self.origin is None else self.origin.variable.type
        if self.encoded is None and old is not None:
            return old
        dtype, wanted = self.encoded.dtype, self.variable.encoding.get("dtype")
        metadata = dtype.metadata or getattr(wanted, "metadata", None) or {}
        base = primitive_for_dtype(dtype)
        if "enum" in metadata and base is not None and base.is_integer:
            members = tuple((str(k), int(v)) for k, v in metadata["enum"].items())
            if isinstance(old, EnumType) and (old.base, old.members) == (base, members):
                return old
            return EnumType(f"/{metadata.get('enum_name') or f'{self.name}_t'}", base, members)
        stored = None if self.origin is None or isinstance(old, EnumType) else self.origin.stored
        if (
            old is not None
            and stored is not None
            and (stored.dtype == dtype or (old == STRING and dtype.kind in "UO"))
        ):
            return old
        return type_of(dtype, self.name)

    def storage(self, unlimited: Sequence[bool]) -> Storage:
        """Return the storage: that of the source, unless the encoding says another."""
        encoding, shape = self.variable.encoding, self.shape
        stored = None if self.origin is None else self.origin.stored
        then = {} if stored is None else stored.encoding
        if self.origin is not None and all(same(encoding.get(k), then.get(k)) for k in _STORAGE):
            storage, places = self.origin.variable.storage, [self.place(i) for i in range(len(shape))]
            if stored is not None and shape == stored.shape:
                return storage
        else:
            is_netcdf = encoding.get("chunksizes") and same(encoding.get("chunks"), then.get("chunks"))
            if is_netcdf and not encoding.get("shards"):
                encoding = {k: v for k, v in encoding.items() if k != "chunks"}
            chunks = self.variable.chunks if is_duck_dask_array(self.variable._data) else None
            if chunks and not {"chunks", "chunksizes"} & encoding.keys() and len(chunks) == len(shape):
                encoding = {**encoding, "chunks": tuple(c[0] for c in chunks)}
            storage, places = _storage(self.name, encoding, shape, unlimited), list(range(len(shape)))

        def fitted(lengths: tuple[int, ...] | None) -> tuple[int, ...] | None:
            if not lengths or None in places:
                return None
            return tuple(lengths[place] for place in places if place is not None) or None

        chunks, shards = fitted(storage.chunk_shape), fitted(storage.shard_shape)
        if chunks and not shards:
            chunks = tuple(
                c if u else max(1, min(c, n)) for c, n, u in zip(chunks, shape, unlimited, strict=True)
            )
        if not shape:
            return replace(storage, layout=None, chunk_shape=None, filters=(), shard_shape=None)
        layout = "chunked" if any(unlimited) and storage.layout == "contiguous" else storage.layout
        return replace(storage, chunk_shape=chunks, shard_shape=shards, layout=layout)

    # -- values

    def source(self, made: model.Variable) -> ArraySource:
        """Return the values: those of the source, undecoded, as far as the program has not changed them."""
        is_whole = self.encoded is not None and not self.is_divisible
        variable = (self.encoded if is_whole else self.variable).copy(deep=False)
        variable.encoding = {k: v for k, v in variable.encoding.items() if k != KEPT}
        encoded = EncodedSource(self.name, variable, made.type, self.shape, is_whole, Rounding.of(made))
        if self.encoded is not None or self.origin is None:
            return encoded
        if "_FillValue" in variable.encoding:
            variable.encoding.pop("missing_value", None)  # where they differ, xarray encodes nothing
        if variable.dtype.kind in "mM":
            variable.encoding.setdefault("dtype", self.origin.decoded.encoding["dtype"])
        kept = self.origin.kept
        values = Values(kept.store.source, kept.store.path, str(kept.name), in_model=True)
        return (
            encoded if values.dtype != made.type.dtype else kept_source(encoded, values, self.origin.decoded)
        )


def check_encoding(name: str, given: Mapping[str, Any]) -> None:
    """Raise ValueError if the encoding that a call gives for a variable has an unknown key, or is no mapping."""
    if not isinstance(given, Mapping):
        raise ValueError(f"the encoding of {name!r} must be castable to dict, got {given!r}")
    known = {*_CODING, *_STORAGE, *_ASIDE, *conventions.CF_RELATED_DATA}
    if unknown := sorted(given.keys() - known):
        raise ValueError(
            f"unexpected encoding parameters for {name!r}: {unknown}. Valid encodings are: {sorted(known)}"
        )


def encode(parts: Sequence[Part]) -> None:
    """Let xarray encode variables, if possible without their values."""
    samples = {}
    for part in parts:
        variable = part.variable.copy(deep=False)
        variable.encoding = {k: v for k, v in variable.encoding.items() if k != KEPT}
        samples[part.name] = variable[(slice(0, 0),) * variable.ndim] if part.is_divisible else variable
    encoded, _ = conventions.cf_encoder(samples, {})
    for part in parts:
        part.encoded = as_stored(encoded[part.name], part.name)


def same(value: object, before: object) -> bool:
    """Return True if the value of an attribute or of an encoding is as it was."""
    numbers = np.ndarray | np.generic | float
    if isinstance(value, numbers) and isinstance(before, numbers):
        return same_values(value, before)
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
        fields = (Field("r", part), Field("i", part))
        return CompoundType(f"/_PFNC_{part.name.upper()}_COMPLEX_TYPE", fields)
    if dtype.names:
        return CompoundType(f"/{name}_t", tuple(_field(key, dtype[key], name) for key in dtype.names))
    if dtype.kind == "V":
        return OpaqueType(f"/opaque_{dtype.itemsize}", dtype.itemsize)
    found = model.FLOAT if dtype == np.float16 else primitive_for_dtype(dtype)
    if found is None:
        raise UnsupportedError(
            f"netCDF has no type for {dtype}", fqn=name, hint="give another dtype in the encoding"
        )
    return found


def _field(key: str, dtype: np.dtype, name: str) -> Field:
    if dtype.base.kind == "S" and dtype.base.itemsize > 1:
        return Field(key, model.CHAR, (*dtype.shape, dtype.base.itemsize))
    return Field(key, type_of(dtype.base, f"{name}_{key}"), dtype.shape)


def _storage(
    name: str, encoding: Mapping[str, Any], shape: tuple[int, ...], unlimited: Sequence[bool]
) -> Storage:
    """Return the storage that an encoding describes, under the names of xarray's netCDF and Zarr engines."""
    given = {k: encoding[k] for k in _FILTERS if encoding.get(k) is not None}
    flags = [k for k in _FLAGS if encoding.get(k)]
    compression = encoding.get("compression") or (flags[0] if flags else None)
    if isinstance(encoding.get("blosc"), dict):
        compression, given["blosc_shuffle"] = encoding["blosc"]["compressor"], encoding["blosc"]["shuffle"]
    filters = VariableOptions(f"(variable {name!r})", compression, **given).filters()
    codecs = encoding.get("compressors")
    if codecs is not None and not isinstance(codecs, str):
        listed = [
            c if isinstance(c, dict) else c.to_dict() for c in (codecs if np.iterable(codecs) else [codecs])
        ]
        filters = filters_of([NamedConfig(c["name"], c.get("configuration") or {}) for c in listed])
    chunks, shards = encoding.get("chunks") or encoding.get("chunksizes"), encoding.get("shards")
    was_other = encoding.get("original_shape") not in (None, shape) and "chunks" not in encoding
    chunks = (chunks,) * len(shape) if isinstance(chunks, int) else chunks
    if isinstance(chunks, str) or len(chunks or shape) != len(shape) or (was_other and not any(unlimited)):
        chunks = None  # like xarray
    if chunks and shards and "chunks" in encoding and any(s % c for s, c in zip(shards, chunks, strict=True)):
        raise ValueError(f"the shards {shards} of {name!r} are not divisible by the chunks {chunks}")
    chunked = chunks or filters or shards or any(unlimited)
    dtype = encoding.get("dtype")
    big = dtype is not None and dtype is not str and np.dtype(dtype).byteorder == ">"
    return Storage(
        "chunked" if chunked else "contiguous" if encoding.get("contiguous") else None,
        tuple(map(index, chunks)) if chunks else None,
        filters,
        encoding.get("endian") or ("big" if big else "native"),
        shard_shape=tuple(map(index, shards)) if shards else None,
    )

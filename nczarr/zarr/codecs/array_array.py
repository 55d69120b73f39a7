"""Encode arrays as other arrays: transposed, rounded, scaled, cast or packed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np

from nczarr.errors import CodecError
from nczarr.json_values import Json, JsonMapping
from nczarr.zarr.codecs import base
from nczarr.zarr.codecs.base import ArrayArrayCodec, ChunkSpec, register_codec
from nczarr.zarr.codecs.bytes_bytes import numcodecs_codec
from nczarr.zarr.types import data_type_for, parse_data_type


@register_codec("transpose")
class TransposeCodec(ArrayArrayCodec):
    """``transpose``: permutes the dimensions; accepts the orders ``C`` and ``F`` of older documents."""

    only_moves = True

    def __init__(self, name: str, configuration: JsonMapping, spec: ChunkSpec) -> None:
        base.check_keys(name, configuration, "order")
        ndim = len(spec.shape)
        order: Json = configuration.get("order")
        if order == "C":
            order = list(range(ndim))
        elif order == "F":
            order = list(range(ndim))[::-1]
        is_list = isinstance(order, list | tuple) and all(type(i) is int for i in order)
        if not is_list or sorted(order) != list(range(ndim)):
            raise base.codec_error(name, f"order {str(order)[:60]} is not a permutation of {ndim} dimensions")
        self.order: tuple[int, ...] = tuple(order)
        self.inverse: tuple[int, ...] = tuple(int(i) for i in np.argsort(self.order))

    def moved_axes(self, ndim: int) -> tuple[int, ...]:
        return self.order

    def resolve(self, spec: ChunkSpec) -> ChunkSpec:
        return ChunkSpec(tuple(spec.shape[i] for i in self.order), spec.dtype, spec.fill)

    def encode(self, chunk: np.ndarray, spec: ChunkSpec) -> np.ndarray:
        return chunk.transpose(self.order)

    def decode(self, chunk: np.ndarray, spec: ChunkSpec) -> np.ndarray:
        return chunk.transpose(self.inverse)


@register_codec("bitround", "numcodecs.bitround")
class BitroundCodec(ArrayArrayCodec):
    """``bitround`` and ``numcodecs.bitround``: keep only the leading bits of each value; decoding changes nothing."""

    def __init__(self, name: str, configuration: JsonMapping, spec: ChunkSpec) -> None:
        base.check_keys(name, configuration, "keepbits")
        self.keepbits = base.configured_int(name, configuration, "keepbits", 0, 1, 64)
        if spec.dtype.kind not in "fciuMm":
            raise base.codec_error(name, f"values of dtype {spec.dtype} cannot be rounded")

    def moved_axes(self, ndim: int) -> tuple[int, ...]:
        return tuple(range(ndim))

    def resolve(self, spec: ChunkSpec) -> ChunkSpec:
        return spec

    def encode(self, chunk: np.ndarray, spec: ChunkSpec) -> np.ndarray:
        kind, width = chunk.dtype.kind, chunk.dtype.itemsize
        if kind == "c":
            parts = np.ascontiguousarray(chunk).view(np.dtype(f"f{width // 2}"))
            return self._floats(parts).view(chunk.dtype).reshape(chunk.shape)
        if kind == "f":
            return self._floats(np.ascontiguousarray(chunk)).reshape(chunk.shape)
        return self._integers(chunk)

    def _floats(self, values: np.ndarray) -> np.ndarray:
        mantissa = np.finfo(values.dtype).nmant
        drop = mantissa - self.keepbits
        if drop <= 0:
            return values
        bits = values.view(np.dtype(f"u{values.dtype.itemsize}"))
        one = bits.dtype.type(1)
        last = bits.dtype.type(drop)
        half = bits.dtype.type((1 << (drop - 1)) - 1)
        mask = ~bits.dtype.type((1 << drop) - 1)
        rounded = (bits + ((bits >> last) & one) + half) & mask
        # Rounding the bits of a NaN could make an infinity of it.
        return np.where(np.isfinite(values), rounded, bits).view(values.dtype)

    def _integers(self, chunk: np.ndarray) -> np.ndarray:
        bits = np.ascontiguousarray(chunk).view(np.dtype(f"u{chunk.dtype.itemsize}"))
        top = np.zeros(bits.shape, np.int64)
        rest = bits.copy()
        while rest.any():
            top += rest > 0
            rest >>= rest.dtype.type(1)
        drop = np.maximum(top - self.keepbits, 0).astype(bits.dtype)
        return ((bits >> drop) << drop).view(chunk.dtype).reshape(chunk.shape)

    def decode(self, chunk: np.ndarray, spec: ChunkSpec) -> np.ndarray:
        return chunk


@register_codec("scale_offset")
class ScaleOffsetCodec(ArrayArrayCodec):
    """``scale_offset``: ``(value - offset) * scale``, in the data type of the array."""

    def __init__(self, name: str, configuration: JsonMapping, spec: ChunkSpec) -> None:
        base.check_keys(name, configuration, "offset", "scale")
        if spec.dtype.kind not in "fciu":
            raise base.codec_error(name, f"values of dtype {spec.dtype} cannot be scaled")
        data_type = data_type_for(spec.dtype)
        self.name = name
        self.offset = data_type.fill_from_json(configuration.get("offset", 0))
        self.scale = data_type.fill_from_json(configuration.get("scale", 1))
        # Decoding divides by it.
        if not self.scale:
            raise base.codec_error(name, "the scale is zero")

    def encode(self, chunk: np.ndarray, spec: ChunkSpec) -> np.ndarray:
        if spec.dtype.kind in "fc":
            with np.errstate(all="ignore"):
                return (chunk - self.offset) * self.scale
        # Python's integers cannot overflow: int64 has values beyond float64.
        values = (chunk.astype(object) - int(self.offset)) * int(self.scale)
        return self._fitting(values, spec.dtype)

    def decode(self, chunk: np.ndarray, spec: ChunkSpec) -> np.ndarray:
        if spec.dtype.kind in "fc":
            with np.errstate(all="ignore"):
                return chunk / self.scale + self.offset
        # Python integers cannot overflow.
        values = chunk.astype(object)
        # The division would round a damaged value to another one.
        if (values % int(self.scale)).any():
            raise base.codec_error(self.name, f"a stored value is not a multiple of {self.scale}")
        return self._fitting(values // int(self.scale) + int(self.offset), spec.dtype)

    def _fitting(self, values: np.ndarray, dtype: np.dtype) -> np.ndarray:
        limits = np.iinfo(dtype)
        # numpy wraps a number that does not fit.
        if values.size and not (limits.min <= values.min() and values.max() <= limits.max):
            raise base.codec_error(self.name, f"a value does not fit into {dtype}")
        return values.astype(dtype)


def _nearest_away(values: np.ndarray) -> np.ndarray:
    whole = np.trunc(values)
    return np.where(np.abs(values - whole) >= 0.5, whole + np.sign(values), whole)


@register_codec("cast_value")
class CastValueCodec(ArrayArrayCodec):
    """``cast_value``: the same values in another data type; a value that does not fit raises CodecError."""

    _ROUNDINGS: ClassVar[Mapping[str, Callable[[np.ndarray], np.ndarray]]] = {
        "nearest-even": np.rint,
        "nearest-away": _nearest_away,
        "towards-zero": np.trunc,
        "towards-positive": np.ceil,
        "towards-negative": np.floor,
    }

    def __init__(self, name: str, configuration: JsonMapping, spec: ChunkSpec) -> None:
        base.check_keys(name, configuration, "data_type", "rounding", "out_of_range")
        self.name = name
        self.target = parse_data_type(configuration.get("data_type")).dtype
        self._round = self._ROUNDINGS[
            base.configured_choice(name, configuration, "rounding", *self._ROUNDINGS)
        ]
        self.out_of_range = base.configured_choice(
            name, configuration, "out_of_range", "error", "clamp", "wrap"
        )
        for side in (spec.dtype, self.target):
            if side.kind not in "fiu":
                raise base.codec_error(name, f"values of dtype {side} cannot be cast")

    def encode(self, chunk: np.ndarray, spec: ChunkSpec) -> np.ndarray:
        return self._cast(chunk, self.target)

    def decode(self, chunk: np.ndarray, spec: ChunkSpec) -> np.ndarray:
        return self._cast(chunk, spec.dtype)

    def _cast(self, values: np.ndarray, target: np.dtype) -> np.ndarray:
        values = values.astype(values.dtype.newbyteorder("="), copy=False)
        if target.kind == "f":
            return self._to_float(values, target)
        limits = np.iinfo(target)
        if values.dtype.kind == "f":
            finite = np.isfinite(values)
            # numpy casts NaN to some integer without an error.
            if np.isnan(values).any():
                raise base.codec_error(self.name, f"NaN cannot be cast to {target}")
            values = self._round(values)
            # The largest integer may not be exact as a float; the first one beyond the range is.
            inside = finite & (values >= float(limits.min)) & (values < float(limits.max) + 1)
        else:
            finite = np.ones(values.shape, bool)
            # numpy may compare signed with unsigned integers as floats.
            wide = values.astype(object) if values.dtype.kind != target.kind else values
            inside = np.asarray((wide >= limits.min) & (wide <= limits.max), bool)
        if inside.all():
            return values.astype(target)
        if self.out_of_range == "error":
            raise base.codec_error(self.name, f"a value is outside the range of {target}")
        result = np.where(inside, values, 0).astype(target)
        outside = values[~inside]
        if self.out_of_range == "clamp":
            result[~inside] = np.where(outside > 0, limits.max, limits.min).astype(target)
            return result
        # An infinity has no remainder to wrap to.
        if not finite.all():
            raise base.codec_error(self.name, f"an infinity cannot be wrapped into {target}")
        modulus = 1 << (8 * target.itemsize)
        wrapped = [(int(v) - int(limits.min)) % modulus + int(limits.min) for v in outside.tolist()]
        result[~inside] = np.array(wrapped, target)
        return result

    def _to_float(self, values: np.ndarray, target: np.dtype) -> np.ndarray:
        with np.errstate(all="ignore"):
            result = values.astype(target)
        overflow = np.isinf(result) & np.isfinite(values.astype(np.float64, copy=False))
        if overflow.any():
            if self.out_of_range != "clamp":
                raise base.codec_error(self.name, f"a value is outside the range of {target}")
            largest = np.finfo(target).max
            result[overflow] = np.where(values[overflow] > 0, largest, -largest)
        return result


@register_codec("numcodecs.astype", "numcodecs.delta", "numcodecs.fixedscaleoffset", "numcodecs.quantize")
class NumcodecsArrayCodec(ArrayArrayCodec):
    """``numcodecs.delta``, ``fixedscaleoffset``, ``quantize`` and ``astype``: they keep the shape, not the dtype."""

    def __init__(self, name: str, configuration: JsonMapping, spec: ChunkSpec) -> None:
        configuration = dict(configuration)
        before, after = ("decode_dtype", "encode_dtype") if name.endswith("astype") else ("dtype", "astype")
        configuration.setdefault(before, spec.dtype.str)
        configuration.setdefault(after, configuration[before])
        self.name = name
        self._codec = numcodecs_codec(name, configuration)
        try:
            self.target = np.dtype(configuration[after])
            source = np.dtype(configuration[before])
        except (TypeError, ValueError, SyntaxError) as error:
            raise base.codec_error(name, str(error)) from error
        # numcodecs takes the bytes for its own dtype, without a check.
        if source.newbyteorder("=") != spec.dtype:
            raise CodecError(f"codec {name!r} is configured for {source}, but the array has {spec.dtype}")
        for option in (source, self.target):
            # zarr-python misreads such data: the meaning of the bytes depends on the writer.
            if option != option.newbyteorder("<"):
                raise CodecError(
                    f"codec {name!r} has the big-endian dtype {option.str!r}",
                    hint="use a little-endian dtype here; the codec 'bytes' sets the byte order",
                )

    def resolve(self, spec: ChunkSpec) -> ChunkSpec:
        native = self.target.newbyteorder("=")
        try:
            with np.errstate(all="ignore"):
                fill = self.encode(np.full((1,), spec.fill, spec.dtype), spec).astype(native)[0]
        except Exception:  # the fill value cannot be encoded; only shards depend on it
            fill = np.zeros((), native)[()]
        return ChunkSpec(spec.shape, native, fill)

    def encode(self, chunk: np.ndarray, spec: ChunkSpec) -> np.ndarray:
        # These filters are defined on the flattened chunk.
        flat = np.ascontiguousarray(chunk).reshape(-1)
        return np.asarray(self._codec.encode(flat)).reshape(chunk.shape)

    def decode(self, chunk: np.ndarray, spec: ChunkSpec) -> np.ndarray:
        flat = np.ascontiguousarray(chunk).astype(self.target, copy=False).reshape(-1)
        return np.asarray(self._codec.decode(flat)).view(spec.dtype).reshape(spec.shape)


@register_codec("numcodecs.packbits")
class PackedBoolCodec(ArrayArrayCodec):
    """``numcodecs.packbits``: eight booleans in a byte, highest bit first, after a byte that counts the padding."""

    def __init__(self, name: str, configuration: JsonMapping, spec: ChunkSpec) -> None:
        base.check_keys(name, configuration)
        self.name = name
        if spec.dtype != np.bool_:
            raise CodecError(f"codec {name!r} packs bool, not {spec.dtype}")

    def resolve(self, spec: ChunkSpec) -> ChunkSpec:
        return ChunkSpec((1 + -(-spec.size // 8),), np.dtype(np.uint8), np.uint8(0))

    def encode(self, chunk: np.ndarray, spec: ChunkSpec) -> np.ndarray:
        padding = np.array([-chunk.size % 8], np.uint8)
        return np.concatenate([padding, np.packbits(np.ascontiguousarray(chunk).reshape(-1))])

    def decode(self, chunk: np.ndarray, spec: ChunkSpec) -> np.ndarray:
        if int(chunk[0]) != -spec.size % 8:
            problem = f"the count of padding bits is {chunk[0]}, expected {-spec.size % 8}"
            raise base.codec_error(self.name, problem)
        bits = np.unpackbits(np.ascontiguousarray(chunk[1:]), count=spec.size)
        return bits.view(np.bool_).reshape(spec.shape)

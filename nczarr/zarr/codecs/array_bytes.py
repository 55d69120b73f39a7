"""Encode arrays as bytes: elements of fixed size, packed bits, and variable-length values."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from nczarr.errors import CodecError
from nczarr.json_values import JsonMapping
from nczarr.system.environment import read_json
from nczarr.zarr.codecs import base
from nczarr.zarr.codecs.base import ArrayBytesCodec, Buffer, ChunkSpec, as_bytes_array, register_codec
from nczarr.zarr.codecs.bytes_bytes import numcodecs_codec


@register_codec("bytes")
class BytesCodec(ArrayBytesCodec):
    """``bytes``: the elements one after another, in C order."""

    def __init__(self, name: str, configuration: JsonMapping, spec: ChunkSpec) -> None:
        dtype = spec.dtype
        base.check_keys(name, configuration, "endian")
        if dtype.hasobject:
            problem = f"codec {name!r} does not encode variable-length values"
            raise CodecError(problem, hint="use vlen-utf8 or vlen-bytes")
        endian = configuration.get("endian")
        little, big = dtype.newbyteorder("<"), dtype.newbyteorder(">")
        # zarr-python before 3.2 omits the byte order of records, and reads them as little-endian.
        if endian == "little" or (endian is None and (little == big or dtype.names)):
            self.stored: np.dtype = little
        elif endian == "big":
            self.stored = big
        # Zarr v3 has no default, and the order of the writing machine is not known.
        elif endian is None:
            raise base.codec_error(name, f"endian is missing; values of {dtype} have several bytes")
        else:
            raise base.codec_error(name, f"endian is {str(endian)[:50]!r}, not 'little' or 'big'")

    def encoded_size(self, spec: ChunkSpec) -> int:
        return spec.size * spec.dtype.itemsize

    def encode(self, chunk: np.ndarray, spec: ChunkSpec) -> Buffer:
        return as_bytes_array(np.ascontiguousarray(chunk, self.stored))

    def decode(self, data: Buffer, spec: ChunkSpec) -> np.ndarray:
        return _sized(data, spec, self.encoded_size(spec)).view(self.stored).reshape(spec.shape)


def _sized(data: Buffer, spec: ChunkSpec, expected: int) -> np.ndarray:
    """Return data as an array of bytes if they have the expected number of bytes."""
    source = as_bytes_array(data)
    if source.nbytes != expected:
        raise CodecError(f"the chunk has {source.nbytes} bytes, its shape {spec.shape} needs {expected}")
    return source


class _CountedCodec(ArrayBytesCodec):
    """A count of elements in four bytes; then, for each element, its length in four bytes and its bytes."""

    def __init__(self, name: str) -> None:
        from numcodecs import vlen

        self.name = name
        self._bytes = vlen.VLenBytes()

    def _check_lengths(self, values: Sequence[str | bytes], width: int = 1) -> None:
        # numcodecs does not check this, and writes beyond its buffer.
        if (longest := width * max(map(len, values), default=0)) > 2**31 - 1:
            raise base.codec_error(self.name, f"a value of up to {longest} bytes is too long")

    def _check_count(self, data: Buffer, spec: ChunkSpec) -> memoryview:
        view = memoryview(data)
        view = view.cast("B") if view.format != "B" or view.ndim != 1 else view
        if view.nbytes < 4:
            raise base.codec_error(self.name, f"the chunk has {view.nbytes} bytes, too few for a count")
        (count,) = struct.unpack_from("<I", view)
        # numcodecs builds as many elements as the chunk states.
        if count != spec.size:
            problem = f"the chunk has {count} elements, its shape {spec.shape} needs {spec.size}"
            raise base.codec_error(self.name, problem)
        return view


@register_codec("vlen-utf8", "numcodecs.vlen-utf8", "vlen-bytes", "numcodecs.vlen-bytes")
class VlenCodec(_CountedCodec):
    """``vlen-utf8`` and ``vlen-bytes``: variable-length text or bytes.

    Text that is not valid UTF-8 decodes to surrogate escapes, which encode to the same bytes.
    """

    def __init__(self, name: str, configuration: JsonMapping, spec: ChunkSpec) -> None:
        from numcodecs import vlen

        base.check_keys(name, configuration)
        super().__init__(name)
        is_text = name.endswith("utf8")
        self._type: type = str if is_text else bytes
        self._kind, other = ("text", "bytes") if is_text else ("bytes", "text")
        if not spec.dtype.hasobject or not isinstance(spec.fill, self._type):
            found = f"variable-length {other}" if spec.dtype.hasobject else str(spec.dtype)
            raise CodecError(f"codec {name!r} encodes variable-length {self._kind}, not {found}")
        self._fast = vlen.VLenUTF8() if is_text else self._bytes

    def encode(self, chunk: np.ndarray, spec: ChunkSpec) -> Buffer:
        values = chunk.reshape(-1).tolist()
        # numcodecs stores None and the number 0 as an empty text.
        if not all(map(self._type.__instancecheck__, values)):
            wrong = next(v for v in values if not isinstance(v, self._type))
            raise base.codec_error(
                self.name, f"{str(wrong)[:50]!r} is {type(wrong).__name__}, not {self._kind}"
            )
        # numcodecs writes beyond its buffer for a value of 2 GiB.
        if self._type is bytes:
            self._check_lengths(values)
        elif len("".join(values)) >= 2**29:  # faster than the length of each
            self._check_lengths(values, 4)
        try:
            # numcodecs rejects read-only arrays, although it does not write to them.
            return self._fast.encode(np.require(chunk, requirements=["C", "W"]).reshape(-1))
        except (UnicodeEncodeError, TypeError):  # numcodecs rejects subclasses of str and bytes, too
            try:
                items = [
                    v.encode("utf-8", "surrogateescape") if self._type is str else bytes(v) for v in values
                ]
                return self._bytes.encode(np.array(items, object))
            except UnicodeEncodeError as error:
                raise base.codec_error(self.name, f"the text cannot be encoded: {error}") from error

    def decode(self, data: Buffer, spec: ChunkSpec) -> np.ndarray:
        view = self._check_count(data, spec)
        try:
            items = self._fast.decode(view)
        # Texts of other programs that are not UTF-8 stay as they are.
        except UnicodeDecodeError:
            items = [item.decode("utf-8", "surrogateescape") for item in self._bytes.decode(view)]
        return np.asarray(items, object).reshape(spec.shape)


@register_codec("numcodecs.vlen-array")
class VlenArrayCodec(_CountedCodec):
    """``numcodecs.vlen-array``: one-dimensional arrays of variable length and of the configured dtype."""

    def __init__(self, name: str, configuration: JsonMapping, spec: ChunkSpec) -> None:
        base.check_keys(name, configuration, "dtype")
        super().__init__(name)
        try:
            self.element = np.dtype(configuration.get("dtype"))
        except (TypeError, ValueError, SyntaxError) as error:
            raise base.codec_error(name, str(error)) from error
        if not spec.dtype.hasobject or self.element.hasobject or not self.element.itemsize:
            raise CodecError(f"codec {name!r} does not encode {spec.dtype} with elements of {self.element}")

    def encode(self, chunk: np.ndarray, spec: ChunkSpec) -> Buffer:
        items = [np.asarray(() if v is None else v, self.element).tobytes() for v in chunk.reshape(-1)]
        self._check_lengths(items)
        return self._bytes.encode(np.array(items, object))

    def decode(self, data: Buffer, spec: ChunkSpec) -> np.ndarray:
        result = np.empty(spec.size, object)
        for i, item in enumerate(self._bytes.decode(self._check_count(data, spec))):
            if len(item) % self.element.itemsize:
                problem = f"element {i} has {len(item)} bytes, not a multiple of {self.element.itemsize}"
                raise base.codec_error(self.name, problem)
            result[i] = np.frombuffer(item, self.element).astype(self.element.newbyteorder("="))
        return result.reshape(spec.shape)


@register_codec("packbits")
class PackbitsCodec(ArrayBytesCodec):
    """``packbits``: a range of bits of each value, concatenated, lowest bit first."""

    def __init__(self, name: str, configuration: JsonMapping, spec: ChunkSpec) -> None:
        dtype = spec.dtype
        base.check_keys(name, configuration, "padding_encoding", "first_bit", "last_bit")
        if dtype.kind not in "biufc":
            raise base.codec_error(name, f"values of {dtype} cannot be packed")
        self.name = name
        self.components = 2 if dtype.kind == "c" else 1
        self.bits = 1 if dtype.kind == "b" else 8 * dtype.itemsize // self.components
        options = {key: value for key, value in configuration.items() if value is not None}
        self.first = base.configured_int(name, options, "first_bit", 0, 0, self.bits - 1)
        self.last = base.configured_int(name, options, "last_bit", self.bits - 1, self.first, self.bits - 1)
        self.padding = base.configured_choice(
            name, options, "padding_encoding", "none", "first_byte", "last_byte"
        )

    def _bit_count(self, spec: ChunkSpec) -> int:
        return spec.size * self.components * (self.last - self.first + 1)

    def encoded_size(self, spec: ChunkSpec) -> int:
        return -(-self._bit_count(spec) // 8) + (self.padding != "none")

    def encode(self, chunk: np.ndarray, spec: ChunkSpec) -> Buffer:
        raw = as_bytes_array(np.ascontiguousarray(chunk, spec.dtype.newbyteorder("<")))
        width = -(-self.bits // 8)
        bits = np.unpackbits(raw.reshape(-1, width), axis=1, bitorder="little")
        packed: np.ndarray = np.packbits(bits[:, self.first : self.last + 1].reshape(-1), bitorder="little")
        count = np.array([-self._bit_count(spec) % 8], np.uint8)
        if self.padding == "first_byte":
            packed = np.concatenate([count, packed])
        elif self.padding == "last_byte":
            packed = np.concatenate([packed, count])
        return packed

    def decode(self, data: Buffer, spec: ChunkSpec) -> np.ndarray:
        source = _sized(data, spec, self.encoded_size(spec))
        if self.padding != "none":
            count = source[0] if self.padding == "first_byte" else source[-1]
            padding = -self._bit_count(spec) % 8
            if int(count) != padding:
                raise base.codec_error(self.name, f"the count of padding bits is {count}, expected {padding}")
            source = source[1:] if self.padding == "first_byte" else source[:-1]
        kept: np.ndarray = np.unpackbits(source, count=self._bit_count(spec), bitorder="little")
        kept = kept.reshape(-1, self.last - self.first + 1)
        width = -(-self.bits // 8)
        bits = np.zeros((kept.shape[0], 8 * width), np.uint8)
        bits[:, self.first : self.last + 1] = kept
        if spec.dtype.kind == "i":
            bits[:, self.last + 1 :] = kept[:, -1:]
        raw: np.ndarray = np.packbits(bits, axis=1, bitorder="little")
        return raw.reshape(-1).view(spec.dtype.newbyteorder("<")).reshape(spec.shape)


@register_codec(
    "numcodecs.pcodec", "numcodecs.zfpy", "numcodecs.json2", "numcodecs.msgpack2", "numcodecs.categorize"
)
class NumcodecsSerializer(ArrayBytesCodec):
    """An array-to-bytes codec of numcodecs: ``pcodec``, ``zfpy``, ``json2``, ``msgpack2`` and others."""

    def __init__(self, name: str, configuration: JsonMapping, spec: ChunkSpec) -> None:
        self.name = name
        self._codec = numcodecs_codec(name, configuration)
        self._is_json = name == "numcodecs.json2"
        # The stream has its own dtype, for example integers after a rounding filter of numcodecs.
        self._has_bits = name in ("numcodecs.pcodec", "numcodecs.zfpy")

    def encode(self, chunk: np.ndarray, spec: ChunkSpec) -> Buffer:
        return as_bytes_array(memoryview(self._codec.encode(np.ascontiguousarray(chunk))))

    def decode(self, data: Buffer, spec: ChunkSpec) -> np.ndarray:
        if self._is_json:
            _check_json(self.name, data, spec.size)
        result = np.asarray(self._codec.decode(data))
        # Bytes of another width would become other numbers.
        if self._has_bits and result.dtype.itemsize != spec.dtype.itemsize:
            raise base.codec_error(self.name, f"the decoded dtype is {result.dtype}, expected {spec.dtype}")
        if result.dtype != object and spec.dtype != object and (self._has_bits or result.dtype.kind in "uV"):
            result = result.reshape(-1).view(np.uint8).view(spec.dtype)
        if result.size != spec.size:
            problem = f"the decoded chunk has {result.size} elements, expected {spec.size}"
            raise base.codec_error(self.name, problem)
        return result.reshape(spec.shape).astype(spec.dtype, copy=False)


def _check_json(name: str, data: Buffer, size: int) -> None:
    # The data contain their own shape: check it, so that the library allocates no more than the chunk.
    try:
        *_, shape = read_json(bytes(data))
        count = int(np.prod([int(n) for n in shape], dtype=object))
    except (ValueError, TypeError) as error:
        raise base.codec_error(name, "the chunk is not JSON in the format of the codec") from error
    if count != size:
        raise base.codec_error(name, f"the chunk has {count} elements, expected {size}")

"""Compress, checksum and shuffle bytes.

gzip, blosc, zstd and crc32c are codecs of Zarr v3. The names ``numcodecs.…`` are those that zarr-python writes for
codecs of the numcodecs library; the filters and compressors of Zarr v2 have these names here, too.
"""

from __future__ import annotations

import bz2
import functools
import lzma
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from nczarr.errors import CodecError
from nczarr.json_values import JsonMapping
from nczarr.zarr.codecs import base
from nczarr.zarr.codecs.base import Buffer, BytesBytesCodec, ChunkSpec, as_bytes_array, register_codec
from nczarr.zarr.plugins import optional_module


@register_codec("gzip", "numcodecs.gzip", "numcodecs.zlib")
class DeflateCodec(BytesBytesCodec):
    """``gzip`` and ``numcodecs.gzip`` (RFC 1952), ``numcodecs.zlib`` (RFC 1950)."""

    def __init__(self, name: str, configuration: JsonMapping, spec: ChunkSpec) -> None:
        base.check_keys(name, configuration, "level")
        self.name = name
        self.is_gzip = name.endswith("gzip")
        self.level = base.configured_int(name, configuration, "level", 5 if self.is_gzip else 1, -1, 9)
        self._bits = 31 if self.is_gzip else 15

    def encode(self, data: Buffer) -> Buffer:
        fast = optional_module("deflate")
        if fast is not None and self.level > 0:
            return (fast.gzip_compress if self.is_gzip else fast.zlib_compress)(data, self.level)
        compressor = zlib.compressobj(self.level, zlib.DEFLATED, self._bits)
        return compressor.compress(data) + compressor.flush()

    def decode(self, data: Buffer, size: int | None, limit: int, out: np.ndarray | None = None) -> Buffer:
        # DEFLATE expands at most 1,032 times: refuse larger sizes before an allocation.
        if size is not None and size > 1032 * memoryview(data).nbytes:
            raise base.codec_error(self.name, f"the compressed data are too short for {size} bytes")
        fast = optional_module("deflate")
        if fast is not None and size:
            try:
                result = (fast.gzip_decompress if self.is_gzip else fast.zlib_decompress)(data, size)
                # Of several gzip members, libdeflate decodes the first.
                if len(result) == size:
                    return base.deliver(self.name, result, size, limit, out)
            except fast.DeflateError:
                pass  # several members, or damage: zlib distinguishes them
        return base.deliver(self.name, self._inflate(data, limit if size is None else size), size, limit, out)

    def _inflate(self, data: Buffer, limit: int) -> Buffer:
        parts = []
        rest: Buffer = data
        length = 0
        while True:
            # One byte above the limit proves that the data exceed it.
            inflater = zlib.decompressobj(self._bits)
            part = inflater.decompress(rest, limit - length + 1)
            parts.append(part)
            length += len(part)
            # A bomb of a few kilobytes would fill the memory.
            if length > limit:
                raise base.too_large(self.name, limit)
            # zlib returns the part of a chunk that was cut, without an error.
            if not inflater.eof:
                raise base.codec_error(self.name, "the compressed data are incomplete")
            rest = inflater.unused_data
            # A gzip file may have several members; other trailing bytes are ignored, as by gzip.
            if not self.is_gzip or not rest.startswith(b"\x1f\x8b"):
                return parts[0] if len(parts) == 1 else b"".join(parts)


#: The decoded size, the block size and the stored size in the header.
_BLOSC_SIZES = struct.Struct("<III").unpack_from


@register_codec("blosc", "numcodecs.blosc")
class BloscCodec(BytesBytesCodec):
    """``blosc`` and ``numcodecs.blosc`` (version 1 of the format)."""

    _SHUFFLES = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}  # noqa: RUF012

    def __init__(self, name: str, configuration: JsonMapping, spec: ChunkSpec) -> None:
        from numcodecs import blosc

        base.check_keys(name, configuration, "cname", "clevel", "shuffle", "typesize", "blocksize")
        # nczarr decodes chunks in parallel; blosc's own thread pool would serialize them with a global lock.
        blosc.use_threads = False
        self.name = name
        self._blosc = blosc
        cname = configuration.get("cname", "lz4")
        if not isinstance(cname, str) or cname not in blosc.list_compressors():
            raise base.codec_error(name, f"cname {cname!r} is not a compressor of the blosc library")
        self.cname = cname.encode()
        self.level = base.configured_int(name, configuration, "clevel", 5, 0, 9)
        shuffle = configuration.get("shuffle", 1)
        if isinstance(shuffle, str):
            shuffle = self._SHUFFLES.get(shuffle, shuffle)
        self.shuffle = base.configured_int(name, {"shuffle": shuffle}, "shuffle", 1, -1, 2)
        # Zarr v2 has no typesize: use the size of an element.
        typesize = base.configured_int(name, configuration, "typesize", 0, 0, 2**31 - 1) or spec.itemsize
        self.typesize = typesize if typesize <= 255 else 1
        if self.shuffle == -1:
            self.shuffle = 2 if spec.itemsize == 1 else 1
        self.blocksize = base.configured_int(name, configuration, "blocksize", 0, 0, 2**31 - 1)

    def encode(self, data: Buffer) -> Buffer:
        source = as_bytes_array(data)
        # blosc keeps its sizes in 32 bits, with the header.
        if source.nbytes > 2**31 - 17:
            problem = f"the chunk has {source.nbytes} bytes; blosc compresses at most {2**31 - 17}"
            raise base.codec_error(self.name, problem, "use smaller chunks")
        return self._blosc.compress(
            source, self.cname, self.level, self.shuffle, self.blocksize, typesize=self.typesize
        )

    def decode(self, data: Buffer, size: int | None, limit: int, out: np.ndarray | None = None) -> Buffer:
        found = memoryview(data).nbytes
        # c-blosc does not know the length of the buffer: it trusts the header.
        if found < 16:
            raise base.codec_error(self.name, "the header is incomplete")
        stated, _, stored = _BLOSC_SIZES(data, 4)
        if stored > found or stored < 16:
            raise base.codec_error(self.name, "the compressed data are incomplete")
        base.check_size(self.name, stated, size, limit)
        target = np.empty(stated, np.uint8) if out is None else out
        return self._blosc.decompress(data, target) if stated else target


@register_codec("numcodecs.lz4")
class Lz4Codec(BytesBytesCodec):
    """``numcodecs.lz4``: the size in four bytes, then one LZ4 block."""

    def __init__(self, name: str, configuration: JsonMapping, spec: ChunkSpec) -> None:
        from numcodecs import lz4

        base.check_keys(name, configuration, "acceleration")
        self.name = name
        self.acceleration = base.configured_int(name, configuration, "acceleration", 1, -(2**31), 2**31 - 1)
        self._lz4 = lz4

    def encode(self, data: Buffer) -> Buffer:
        return self._lz4.compress(data, self.acceleration)

    def decode(self, data: Buffer, size: int | None, limit: int, out: np.ndarray | None = None) -> Buffer:
        if memoryview(data).nbytes < 5:
            raise base.codec_error(self.name, "the compressed data are incomplete")
        (stated,) = struct.unpack("<I", bytes(memoryview(data)[:4]))
        base.check_size(self.name, stated, size, limit)
        return self._lz4.decompress(data, np.empty(stated, np.uint8) if out is None else out)


@register_codec("numcodecs.bz2", "numcodecs.lzma")
class StreamCodec(BytesBytesCodec):
    """``numcodecs.bz2`` and ``numcodecs.lzma``."""

    def __init__(self, name: str, configuration: JsonMapping, spec: ChunkSpec) -> None:
        self.name = name
        self._decoder: Callable[[], Any]
        if name == "numcodecs.bz2":
            base.check_keys(name, configuration, "level")
            level = base.configured_int(name, configuration, "level", 1, 1, 9)
            self._compress: Callable[[Buffer], bytes] = functools.partial(bz2.compress, compresslevel=level)
            self._decoder = bz2.BZ2Decompressor
            return
        base.check_keys(name, configuration, "format", "check", "preset", "filters")
        form = base.configured_int(name, configuration, "format", lzma.FORMAT_XZ, 0, 3)
        if form == lzma.FORMAT_AUTO:
            raise base.codec_error(name, "format 0 is for reading only", "use 1 (xz), 2 or 3")
        options = {k: v for k, v in configuration.items() if k != "format" and v is not None}
        filters = options.get("filters") if form == lzma.FORMAT_RAW else None
        self._compress = functools.partial(lzma.compress, format=form, **options)
        self._decoder = functools.partial(lzma.LZMADecompressor, form, filters=filters)

    def encode(self, data: Buffer) -> Buffer:
        return self._compress(data)

    def decode(self, data: Buffer, size: int | None, limit: int, out: np.ndarray | None = None) -> Buffer:
        result = _bounded(self.name, self._decoder(), data, limit if size is None else size)
        return base.deliver(self.name, result, size, limit, out)


def _bounded(name: str, decoder: Any, data: Buffer, limit: int) -> bytes:
    result: bytes = decoder.decompress(data, limit + 1)
    # A bomb of a few kilobytes would fill the memory.
    if len(result) > limit:
        raise base.too_large(name, limit)
    if not decoder.eof:
        # The end marker may follow the last requested byte.
        result += decoder.decompress(b"", limit + 1 - len(result)) if not decoder.needs_input else b""
        # Decoders of streams return the part of a chunk that was cut, without an error.
        if not decoder.eof:
            raise base.codec_error(name, "the compressed data are incomplete")
    return result


# --- the checksum CRC-32C (Castagnoli)

#: Castagnoli's polynomial 0x1EDC6F41, with its bits in the reverse order.
_POLYNOMIAL = np.uint32(0x82F63B78)
_BLOCK = 4096


@functools.cache
def _position_table() -> np.ndarray:
    """Return the checksum contribution of each byte value at each distance from the end, the largest one first."""
    table = np.empty((_BLOCK, 256), np.uint32)
    first = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        first = (first >> np.uint32(1)) ^ (first & np.uint32(1)) * _POLYNOMIAL
    table[-1] = first
    for i in range(_BLOCK - 1, 0, -1):
        table[i - 1] = first[table[i] & np.uint32(0xFF)] ^ (table[i] >> np.uint32(8))
    return table


def crc32c_numpy(data: Buffer) -> int:
    """Return the CRC-32C of a buffer, computed with numpy.

    CRCs are linear: the checksum is the XOR of each byte's contribution, which depends on its value and its distance
    from the end. Table lookups and one reduction therefore process a whole block without a Python loop over bytes.
    The state before a block has the same effect as its four bytes, XORed into the first bytes of the block.

    Examples
    --------
    >>> hex(crc32c_numpy(b"123456789"))
    '0xe3069283'
    """
    values = np.frombuffer(data, np.uint8)
    state = 0xFFFFFFFF
    table, places = _position_table(), np.arange(_BLOCK)
    for start in range(0, values.size, _BLOCK):
        block = values[start : start + _BLOCK].copy()
        block[:4] ^= np.frombuffer(state.to_bytes(4, "little"), np.uint8)[: block.size]
        parts = table[places[_BLOCK - block.size :], block]
        # A block of fewer than four bytes leaves a part of the state.
        state = int(np.bitwise_xor.reduce(parts)) ^ state >> 8 * block.size
    return state ^ 0xFFFFFFFF


@functools.cache
def _crc32c() -> Callable[[Buffer], int]:
    """Return the function of google_crc32c if it is installed and compiled, else the one with numpy."""
    google = optional_module("google_crc32c")
    return google.value if google and google.implementation == "c" else crc32c_numpy


def crc32c(data: Buffer) -> int:
    """Return the CRC-32C of a contiguous buffer.

    Examples
    --------
    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    return _crc32c()(data)


@register_codec("crc32c", "numcodecs.crc32c", "numcodecs.crc32", "numcodecs.adler32")
class ChecksumCodec(BytesBytesCodec):
    """Four bytes of checksum before or after the data: ``crc32c``, ``numcodecs.crc32`` and its kin."""

    _FUNCTIONS: Mapping[str, tuple[Callable[[Buffer], int], str]] = {
        "crc32c": (crc32c, "end"),
        "numcodecs.crc32c": (crc32c, "end"),
        "numcodecs.crc32": (zlib.crc32, "start"),
        "numcodecs.adler32": (zlib.adler32, "start"),
    }

    def __init__(self, name: str, configuration: JsonMapping, spec: ChunkSpec) -> None:
        self.name = name
        self._function, usual = self._FUNCTIONS[name]
        base.check_keys(name, configuration, *(("location",) if name != "crc32c" else ()))
        location = {"location": configuration.get("location") or usual}
        self._first = base.configured_choice(name, location, "location", "start", "end") == "start"

    def encoded_size(self, size: int) -> int:
        return size + 4

    def encode(self, data: Buffer) -> Buffer:
        source = as_bytes_array(data)
        result = np.empty(source.nbytes + 4, np.uint8)
        payload, mark = (result[4:], result[:4]) if self._first else (result[:-4], result[-4:])
        payload[...] = source
        mark[...] = np.frombuffer(struct.pack("<I", self._function(payload)), np.uint8)
        return result

    def decode(self, data: Buffer, size: int | None, limit: int, out: np.ndarray | None = None) -> Buffer:
        source = as_bytes_array(data)
        if source.nbytes < 4:
            raise base.codec_error(self.name, "the data are too short for a checksum")
        payload, mark = (source[4:], source[:4]) if self._first else (source[:-4], source[-4:])
        stored = int.from_bytes(mark.tobytes(), "little")
        found = self._function(payload)
        if stored != found:
            problem = f"the data have the checksum {found:08x}, the stored one is {stored:08x}"
            raise base.codec_error(self.name, problem, "the chunk is damaged; restore it from a copy")
        return base.deliver(self.name, payload, size, limit, out)


@register_codec("numcodecs.shuffle")
class ShuffleCodec(BytesBytesCodec):
    """``numcodecs.shuffle``: the first bytes of all elements, then the second bytes, and so on.

    netcdf-c writes an ``elementsize`` of 0 for the size of an element. Bytes after the last whole element are copied
    unchanged, as in HDF5.
    """

    def __init__(self, name: str, configuration: JsonMapping, spec: ChunkSpec) -> None:
        base.check_keys(name, configuration, "elementsize")
        self.name = name
        stated = base.configured_int(name, configuration, "elementsize", 0, 0, 2**31 - 1)
        self.elementsize = stated or spec.itemsize

    def encoded_size(self, size: int) -> int:
        return size

    def _move(self, data: Buffer, out: np.ndarray | None, forward: bool) -> np.ndarray:
        source = as_bytes_array(data)
        target = np.empty(source.nbytes, np.uint8) if out is None else out
        width = self.elementsize
        whole = source.nbytes // width * width
        shape = (-1, width) if forward else (width, -1)
        if whole:
            turned = source[:whole].reshape(shape).T
            np.copyto(target[:whole].reshape(turned.shape), turned)
        target[whole:] = source[whole:]
        return target

    def encode(self, data: Buffer) -> Buffer:
        return data if self.elementsize <= 1 else self._move(data, None, True)

    def decode(self, data: Buffer, size: int | None, limit: int, out: np.ndarray | None = None) -> Buffer:
        if self.elementsize <= 1:
            return base.deliver(self.name, data, size, limit, out)
        base.check_size(self.name, memoryview(data).nbytes, size, limit)
        return self._move(data, out, False)


@register_codec(base.ANY_NUMCODECS, "numcodecs.fletcher32", "numcodecs.jenkins_lookup3")
class NumcodecsBytesCodec(BytesBytesCodec):
    """Any other bytes-to-bytes codec of numcodecs or of its registry."""

    def __init__(self, name: str, configuration: JsonMapping, spec: ChunkSpec) -> None:
        self.name = name
        self._codec = numcodecs_codec(name, configuration)

    def encoded_size(self, size: int) -> int | None:
        return size + 4 if self.name in ("numcodecs.fletcher32", "numcodecs.jenkins_lookup3") else None

    def encode(self, data: Buffer) -> Buffer:
        return as_bytes_array(np.ascontiguousarray(self._codec.encode(as_bytes_array(data))))

    def decode(self, data: Buffer, size: int | None, limit: int, out: np.ndarray | None = None) -> Buffer:
        result = self._codec.decode(as_bytes_array(data))
        return base.deliver(self.name, as_bytes_array(result), size, limit, out)


def numcodecs_codec(name: str, configuration: JsonMapping) -> Any:
    """Return the numcodecs object for ``numcodecs.<id>``.

    Raises
    ------
    CodecError
        If the codec is unknown, its library is missing, or its configuration is invalid.
    """
    import numcodecs

    identifier = name.removeprefix(base.PREFIX)
    # Unpickling runs code that the data name.
    if identifier == "pickle":
        raise CodecError("codec 'numcodecs.pickle' is refused: unpickling runs code from the data")
    try:
        return numcodecs.get_codec({**configuration, "id": identifier})
    except ImportError as error:
        raise base.codec_error(name, f"a library is missing: {error}") from error
    except Exception as error:
        raise CodecError(f"codec {name!r} is not available, or misconfigured: {error}") from error


@register_codec("zstd", "numcodecs.zstd")
class ZstdCodec(BytesBytesCodec):
    """``zstd`` and ``numcodecs.zstd``."""

    def __init__(self, name: str, configuration: JsonMapping, spec: ChunkSpec) -> None:
        from numcodecs import zstd

        base.check_keys(name, configuration, "level", "checksum")
        self.name = name
        self.level = base.configured_int(name, configuration, "level", 0, -131072, 22)
        self.checksum = bool(configuration.get("checksum", False))
        self._compress = zstd.compress
        self._decompress = zstd.decompress

    def encode(self, data: Buffer) -> Buffer:
        return self._compress(data, self.level, self.checksum)

    def decode(self, data: Buffer, size: int | None, limit: int, out: np.ndarray | None = None) -> Buffer:
        # The library rejects a target that is smaller than the content of all frames, or larger than a frame of
        # unknown size. So a first frame with the expected content size needs no further check.
        if size is None or frame_header(data)[1] != size:
            exact, most = content_size(data)
            if size is not None and exact is not None:
                base.check_size(self.name, exact, size, size)
            if size is None:
                base.check_size(self.name, most, None, limit)
                return base.deliver(self.name, self._decompress(data), size, limit, out)
        return self._decompress(data, np.empty(size, np.uint8) if out is None else out)

    def decode_start(self, data: np.ndarray, size: int, out: np.ndarray) -> bool:
        fast = optional_module("zstandard")
        # A checksum is that of the whole frame.
        if fast is None or frame_header(data)[1] != size or has_checksum(data):
            return False
        # All blocks must exist, although only the first ones are decoded.
        if content_size(data) != (size, size):
            return False
        view = out.data
        done = 0
        try:
            with fast.ZstdDecompressor().stream_reader(data) as stream:
                while done < view.nbytes and (count := stream.readinto(view[done:])):
                    done += count
        except fast.ZstdError:
            return False
        return done == view.nbytes

    def decode_joined(self, data: np.ndarray, bounds: Sequence[tuple[int, int]], out: np.ndarray) -> bool:
        # Concatenated frames are valid zstd data (RFC 8878, section 3). One call needs one context instead of one
        # for each frame: a quarter of the time for frames of 64 KiB.
        size = out.nbytes // len(bounds)
        is_contiguous = all(before[1] == after[0] for before, after in pairwise(bounds))
        # Frames of other sizes can add up to the right one, and shift the values of all that follow.
        if not is_contiguous or not _all_frames(data, bounds, size):
            return False
        try:
            self._decompress(data[bounds[0][0] : bounds[-1][1]], out)
        except Exception:  # the caller decodes them one by one and names the damaged one
            return False
        return True


def _all_frames(data: np.ndarray, bounds: Sequence[tuple[int, int]], size: int) -> bool:
    """Return True if each piece begins with a zstd frame of `size` decoded bytes.

    Then the concatenation decodes to exactly `size` bytes for each piece only if every piece is valid.
    """
    view = data.data
    first = bounds[0][0]
    end, stated = frame_header(view, first)
    if stated != size:
        return False
    # Frames of one content size from one compressor have the same header.
    head = bytes(view[first:end])
    return all(
        stop - start >= len(head)
        and (view[start : start + len(head)] == head or frame_header(view, start)[1] == size)
        for start, stop in bounds
    )


# --- frame headers (RFC 8878, section 3.1)

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
#: The largest decoded size of a block.
_ZSTD_BLOCK = 128 << 10


def frame_header(data: Buffer, start: int = 0) -> tuple[int, int | None]:
    """Return the offset of a frame's first block, and its content size (None if the header omits it).

    The offset is -1 if no frame begins at `start`.

    Examples
    --------
    >>> frame_header(bytes.fromhex("28b52ffd2003190000616263"))
    (6, 3)
    """
    head = bytes(memoryview(data)[start : start + 18])
    if len(head) < 6 or head[:4] != _ZSTD_MAGIC:
        return -1, None
    descriptor = head[4]
    single = descriptor >> 5 & 1
    at = 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3]
    width = (single, 2, 4, 8)[descriptor >> 6]
    if width == 0:
        return start + at, None
    value = int.from_bytes(head[at : at + width], "little")
    return start + at + width, value + 256 if width == 2 else value


def has_checksum(data: Buffer) -> bool:
    """Return True if the first frame of `data` ends with a checksum of its content.

    Examples
    --------
    >>> has_checksum(bytes.fromhex("28b52ffd2003190000616263"))
    False
    """
    return bool(data[4] >> 2 & 1)


def content_size(data: Buffer) -> tuple[int | None, int]:
    """Return the decoded size of all frames (None if a header omits it), and an upper bound on it.

    Raises
    ------
    CodecError
        If the data are not zstd, or are incomplete.

    Examples
    --------
    >>> content_size(bytes.fromhex("28b52ffd2003190000616263"))
    (3, 3)
    """
    view = memoryview(data)
    view = view if view.format == "B" and view.ndim == 1 else view.cast("B")
    total: int | None = 0
    most = 0
    position = 0
    while position < view.nbytes:
        if bytes(view[position + 1 : position + 4]) == b"\x2a\x4d\x18" and view[position] >> 4 == 5:
            # A skippable frame.
            position += 8 + int.from_bytes(view[position + 4 : position + 8], "little")
            continue
        blocks, stated = frame_header(view, position)
        if blocks < 0:
            raise CodecError(f"the data are damaged: no zstd frame begins at byte {position}")
        checksum = has_checksum(view[position:])
        position, bound = _skip_blocks(view, blocks)
        position += 4 * checksum
        if stated is None:
            total = None
        elif total is not None:
            total += stated
        most += bound if stated is None else stated
    if position != view.nbytes:
        raise CodecError("the data are damaged: the last zstd frame is incomplete")
    return total, most


def _skip_blocks(view: memoryview, position: int) -> tuple[int, int]:
    """Return the end of a frame's blocks, and an upper bound on their decoded size."""
    bound = 0
    while True:
        header = int.from_bytes(view[position : position + 3], "little")
        if position + 3 > view.nbytes:
            raise CodecError("the data are damaged: a zstd frame is incomplete")
        kind, size = header >> 1 & 3, header >> 3
        # A raw block stores `size` bytes; an RLE block stores one byte that decodes to `size` bytes.
        bound += _ZSTD_BLOCK if kind == 2 else size
        position += 3 + (1 if kind == 1 else size)
        if header & 1:
            return position, bound

"""Encode and decode the chunks of an array with its chain of codecs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nczarr.compression import SERIALIZERS, NamedConfig, complete
from nczarr.errors import CodecError, NCZarrError
from nczarr.zarr.codecs import base
from nczarr.zarr.codecs.base import Buffer, ChunkSpec, as_bytes_array, scratch
from nczarr.zarr.limits import LIMITS
from nczarr.zarr.metadata import ParseCache, key_of

#: Stored chunks may exceed the bound of the codecs by this, for example by skippable frames or empty gzip members.
_SLACK = 16 << 20


class _Translated:
    """Turn the errors of other packages and libraries, which raise any type, into CodecError."""

    def __init__(self, problem: str) -> None:
        self._problem = problem

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, NCZarrError):
            raise CodecError(f"{self._problem}: {error}") from error


_DAMAGED = _Translated("the data are damaged")
_NOT_ENCODED = _Translated("the values cannot be encoded")


class Chain:
    """Encodes and decodes chunks of one shape.

    Parameters
    ----------
    codecs : sequence of NamedConfig
        In order of encoding: any number of array-to-array codecs, one array-to-bytes codec (the serializer), any
        number of bytes-to-bytes codecs.
    spec : ChunkSpec
        The chunk in memory.

    Attributes
    ----------
    stored_spec : ChunkSpec
        The input chunk of the serializer.
    serializer : ArrayBytesCodec
    order : tuple of int or None
        The stored order of the dimensions, if decoding before the serializer only permutes them.
    stored_dtype : numpy.dtype or None
        The dtype of the stored elements, if the serializer is ``bytes`` and `order` is set.
    writes_rows : bool
        True if `stored_dtype` is set and encoding before the serializer only permutes the dimensions.
    is_raw : bool
        True if the stored bytes are the elements (`stored_dtype`, `order`), without compression or checksum.
    decoded_size, encoded_size : int or None
        The number of bytes of the serialized chunk, and of every stored chunk; None if it varies.
    encoded_bound : int
        An upper bound on the number of bytes of a stored chunk.

    Raises
    ------
    CodecError
        If a codec is unknown, misconfigured, or at the wrong position.

    Examples
    --------
    >>> spec = ChunkSpec((2, 2), np.dtype("int16"), np.int16(0))
    >>> chain = Chain([NamedConfig("bytes", {"endian": "big"}), NamedConfig("crc32c")], spec)
    >>> data = chain.encode(np.array([[1, 2], [3, 4]], "int16"))
    >>> chain.decode(data).tolist()
    [[1, 2], [3, 4]]
    """

    def __init__(self, codecs: Sequence[NamedConfig], spec: ChunkSpec) -> None:
        self.spec = spec
        self._arrays: list[tuple[base.ArrayArrayCodec, ChunkSpec]] = []
        self._bytes: list[base.BytesBytesCodec] = []
        serializer: base.ArrayBytesCodec | None = None
        current = spec
        for config in codecs:
            codec = build_codec(config, current)
            # Unknown, and marked by its writer as one that readers may ignore.
            if codec is None:
                continue
            if isinstance(codec, base.BytesBytesCodec):
                if serializer is None:
                    raise CodecError(
                        f"codec {config.name!r} encodes bytes, but its input is an array",
                        hint="put the codec 'bytes' before it",
                    )
                self._bytes.append(codec)
            elif serializer is not None:
                raise CodecError(
                    f"codec {config.name!r} encodes an array, but follows a codec whose output is bytes"
                )
            elif isinstance(codec, base.ArrayArrayCodec):
                self._arrays.append((codec, current))
                current = codec.resolve(current)
            else:
                serializer = codec
        if serializer is None:
            raise CodecError("no codec encodes the array as bytes", hint="add the codec 'bytes'")
        self.serializer = serializer
        self.stored_spec = current
        self.order: tuple[int, ...] | None = tuple(range(len(spec.shape)))
        for before, _ in self._arrays:
            axes = before.moved_axes(len(spec.shape))
            self.order = None if self.order is None or axes is None else tuple(self.order[i] for i in axes)
        self.stored_dtype = None if self.order is None else serializer.stored
        plain = self.stored_dtype is not None
        self.is_raw = plain and not self._bytes
        self.writes_rows = plain and all(codec.only_moves for codec, _ in self._arrays)
        self._native = plain and self.stored_dtype == spec.dtype
        self._sizes = self._measure()
        self.decoded_size = self._sizes[0][0]
        self.encoded_size, self.encoded_bound = self._sizes[-1]

    def _measure(self) -> list[tuple[int | None, int]]:
        exact = self.serializer.encoded_size(self.stored_spec)
        bound = self.serializer.encoded_bound(self.stored_spec) if exact is None else exact
        if bound is None:
            bound = LIMITS.variable_chunk_bytes
            if not self.stored_spec.dtype.hasobject:  # the library's encoding of numbers; JSON is the longest
                # A bound for damaged bytes: without one, a small file could claim any size.
                bound = max(bound, 32 * self.stored_spec.size * self.stored_spec.itemsize)
        sizes = [(exact, bound)]
        for codec in self._bytes:
            exact, limit = sizes[-1]
            most = codec.encoded_size(limit)
            if most is None:
                most = codec.encoded_bound(limit)
            sizes.append(
                (None if exact is None else codec.encoded_size(exact), limit if most is None else most)
            )
        return sizes

    @property
    def longest(self) -> int:
        """The largest size of a stored chunk: damaged or malicious files may be larger."""
        return 2 * self.encoded_bound + _SLACK

    @property
    def is_bare(self) -> bool:
        """True if the serializer is the only codec."""
        return not self._arrays and not self._bytes

    # --- decoding

    def decode(self, data: Buffer) -> np.ndarray:
        """Return the decoded chunk; it may be a read-only view of `data`, in any byte order.

        Raises
        ------
        CodecError
            If the data are damaged, or the decoded chunk has another shape.
        """
        with _DAMAGED:
            chunk = self.view(self._decode_bytes(data, None))
        # A codec of another package may decode to another shape: numpy would broadcast it.
        if chunk.shape != self.spec.shape:
            raise CodecError(f"the decoded chunk has shape {chunk.shape}, expected {self.spec.shape}")
        return chunk

    def decode_into(self, data: Buffer, out: np.ndarray) -> None:
        """Decode `data` into `out`, an array of the chunk's shape and dtype.

        The last decompressor writes directly into `out` if the stored elements have the order of `out`.
        """
        # Elements without a fixed form (text, codecs on numbers): there is nothing to decode in place.
        if self.stored_dtype is None:
            np.copyto(out, self.decode(data))
            return
        stored = out.transpose(self.order)
        if (
            not (self._bytes and stored.flags.c_contiguous and out.dtype == self.spec.dtype)
            or out.dtype.names
        ):
            np.copyto(out, self.decode_raw(data))
            return
        self._decode_bytes(data, as_bytes_array(stored))
        # In place: a copy of the chunk would cost as much as decoding it.
        if not self._native:
            stored.byteswap(inplace=True)

    def decode_raw(self, data: Buffer, target: np.ndarray | None = None) -> np.ndarray:
        """Return the decoded chunk, in any byte order; requires `stored_dtype`.

        It is a view of the buffer `target` of `decoded_size` bytes; by default, of a reusable buffer of the thread.
        """
        if not self._bytes:
            return self.view(data)
        if target is None:
            target = scratch("chunk", self.decoded_size or 0)[: self.decoded_size]
        return self.view(self._decode_bytes(data, target))

    def decode_start(self, data: Buffer, stop: int) -> np.ndarray | None:
        """Return the first `stop` bytes of the serialized chunk, in a reusable buffer of the thread.

        Return None if the codecs cannot decode a part, or if decoding all bytes is faster.
        """
        size = self.decoded_size
        # A second codec may be a checksum, which needs the whole chunk.
        if size is None or len(self._bytes) != 1 or stop > size * 3 // 4:
            return None
        out = scratch("start", stop)[:stop]
        return out if self._bytes[0].decode_start(as_bytes_array(data), size, out) else None

    def decode_row(self, data: np.ndarray, bounds: Sequence[tuple[int, int]], out: np.ndarray) -> None:
        """Decode several pieces of `data` to serialized chunks, one after another in `out`.

        Requires `stored_dtype`, and that `is_raw` is False; `out` has `decoded_size` bytes for each piece.
        """
        # One call for many small chunks: the call costs more than their bytes.
        if len(self._bytes) == 1 and self._bytes[0].decode_joined(data, bounds, out):
            return
        size = out.nbytes // len(bounds)
        for i, (start, stop) in enumerate(bounds):
            self._decode_bytes(data[start:stop], out[i * size : (i + 1) * size])

    def view(self, raw: Buffer) -> np.ndarray:
        """Return a view of serialized bytes as a chunk; requires `stored_dtype`."""
        chunk = self.serializer.decode(raw, self.stored_spec)
        for codec, spec in reversed(self._arrays):
            chunk = codec.decode(chunk, spec)
        return chunk

    def _decode_bytes(self, data: Buffer, out: np.ndarray | None) -> Buffer:
        with _DAMAGED:
            for i in range(len(self._bytes) - 1, -1, -1):
                exact, limit = self._sizes[i]
                data = self._bytes[i].decode(data, exact, limit, out if i == 0 else None)
        return data

    def in_stored_order(self, values: np.ndarray, grid: Sequence[int]) -> np.ndarray:
        """Return a view of whole chunks in serialized order: chunk after chunk, elements in stored order.

        Parameters
        ----------
        values : ndarray
            The chunks, side by side in a `grid`.
        grid : sequence of int
            The number of chunks along each dimension.
        """
        assert self.order is not None
        split = [n for pair in zip(grid, self.spec.shape, strict=True) for n in pair]
        axes = [2 * axis for axis in range(len(grid))] + [2 * axis + 1 for axis in self.order]
        return values.reshape(split).transpose(axes)

    def serialize(self, values: np.ndarray, grid: Sequence[int], out: np.ndarray) -> None:
        """Write the serialized bytes of chunks (see `in_stored_order`) into `out`; requires `writes_rows`."""
        assert self.stored_dtype is not None
        ordered = self.in_stored_order(values, grid)
        np.copyto(out.view(self.stored_dtype).reshape(ordered.shape), ordered)

    # --- encoding

    def encode(self, chunk: np.ndarray) -> Buffer:
        """Return the stored bytes of a chunk of this shape and dtype; they may be a view of it.

        Raises
        ------
        CodecError
            If a codec cannot encode these values.
        """
        with _NOT_ENCODED:
            for codec, spec in self._arrays:
                chunk = codec.encode(chunk, spec)
            data = self.serializer.encode(chunk, self.stored_spec)
            exact, limit = self._sizes[0]
            # A reader refuses what is longer, so it must not be written either.
            if exact is None and (size := memoryview(data).nbytes) > limit:
                raise CodecError(
                    f"the chunk has {size} bytes; the limit for variable-length values is {limit}",
                    hint="use smaller chunks, or set NCZARR_MAX_VARIABLE_CHUNK_BYTES for writers and readers",
                )
            for compressor in self._bytes:
                data = compressor.encode(data)
        return data

    def encode_row(self, data: np.ndarray, count: int) -> Sequence[Buffer]:
        """Return the stored bytes of `count` serialized chunks, which are contiguous in `data`.

        Requires `writes_rows`.
        """
        with _NOT_ENCODED:
            pieces: list[Buffer] = list(data.reshape(count, -1))
            for compressor in self._bytes:
                pieces = [compressor.encode(piece) for piece in pieces]
        return pieces


def build_codec(config: NamedConfig, spec: ChunkSpec) -> base.Codec | None:
    """Return the object of a codec for chunks; None for an unknown one that readers may ignore.

    Raises
    ------
    CodecError
        If the codec is unknown or misconfigured.
    """
    found = base.find_codec(config.name)
    if found is not None:
        name, factory = found
        with _Translated(f"codec {name!r}: the configuration is invalid"):
            codec = factory(name, config.configuration, spec)
        if not isinstance(codec, base.ArrayArrayCodec | base.ArrayBytesCodec | base.BytesBytesCodec):
            raise CodecError(f"codec {name!r}: {type(codec).__name__} is not a codec")
        return codec
    # The codec has said that a reader may ignore it.
    if not config.must_understand:
        return None
    raise CodecError(
        f"the codec {config.name!r} is unknown", hint=f"known codecs: {', '.join(base.known_codecs())}"
    )


def completed_chain(
    codecs: Sequence[NamedConfig], spec: ChunkSpec, serializer: NamedConfig
) -> tuple[NamedConfig, ...]:
    """Return requested codecs with the settings and the serializer that they lack, checked for a chunk.

    Raises
    ------
    CodecError
        If a codec is unknown, misconfigured, or at the wrong position.

    Examples
    --------
    >>> spec = ChunkSpec((4,), np.dtype("int16"), np.int16(0))
    >>> asked = [NamedConfig("numcodecs.delta", {"dtype": "<i2"}), NamedConfig("gzip")]
    >>> [c.name for c in completed_chain(asked, spec, NamedConfig("bytes", {"endian": "little"}))]
    ['numcodecs.delta', 'bytes', 'gzip']
    """
    result: list[NamedConfig] = []
    current, is_serialized = spec, False
    for asked in codecs:
        config = complete(serializer if asked.name in SERIALIZERS else asked, current.itemsize)
        codec = build_codec(config, current)
        if isinstance(codec, base.ArrayArrayCodec) and not is_serialized:
            current = codec.resolve(current)
        # A request names compressors only; Zarr requires the codec that makes bytes of the array.
        elif isinstance(codec, base.BytesBytesCodec) and not is_serialized:
            result.append(serializer)
            is_serialized = True
        is_serialized |= isinstance(codec, base.ArrayBytesCodec)
        result.append(config)
    if not is_serialized:
        result.append(serializer)
    Chain(result, spec)
    return tuple(result)


_chains = ParseCache[Chain]()


def chain_of(codecs: Sequence[NamedConfig], shape: tuple[int, ...], dtype: np.dtype, fill: object) -> Chain:
    """Return the chain for chunks of a shape. Arrays of numbers with equal codecs and fill values share it."""
    spec = ChunkSpec(shape, dtype, fill)
    # Other fill values have no bytes that tell them apart.
    if dtype.kind not in "biufc" or not isinstance(fill, np.generic | np.ndarray) or fill.dtype != dtype:
        return Chain(codecs, spec)
    written = [(c.name, c.configuration, c.must_understand) for c in codecs]
    key = key_of((written, dtype.str, fill.tobytes(), shape, base.CODECS.version))
    return _chains.get(key) or _chains.keep(key, Chain(codecs, spec))

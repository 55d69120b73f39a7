"""Codecs one by one: round trips, agreement with numcodecs, damaged input, decompression bombs."""

from __future__ import annotations

import bz2
import gzip
import lzma
import struct
import tracemalloc
import zlib
from typing import Any

import numcodecs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rotation import examples

from nczarr.errors import CodecError
from nczarr.zarr.codecs import bytes_bytes as checksums
from nczarr.zarr.codecs import bytes_bytes as codec_bytes
from nczarr.zarr.codecs.base import ChunkSpec, known_codecs
from nczarr.zarr.codecs.chain import Chain, chain_of
from nczarr.zarr.metadata import NamedConfig

N = NamedConfig
LITTLE = N("bytes", {"endian": "little"})


def spec(dtype: str, shape: tuple[int, ...] = (5, 7)) -> ChunkSpec:
    return ChunkSpec(shape, np.dtype(dtype), np.zeros((), dtype)[()])


def values(dtype: str, shape: tuple[int, ...] = (5, 7)) -> np.ndarray:
    rng = np.random.default_rng(3)
    if np.dtype(dtype).kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if np.dtype(dtype).kind in "fc":
        return (rng.standard_normal(shape) * 50).astype(dtype)
    return rng.integers(0, 100, shape).astype(dtype)


BYTES_CODECS = [
    N("gzip", {"level": 6}),
    N("numcodecs.gzip", {"level": 1}),
    N("numcodecs.zlib", {"level": 9}),
    N("numcodecs.zlib", {"level": "4"}),
    N("gzip", {"level": 0}),
    N("zstd", {"level": 3, "checksum": True}),
    N("zstd", {"level": -5}),
    N("numcodecs.zstd", {"level": 1}),
    *[
        N("blosc", {"cname": name, "clevel": 5, "shuffle": shuffle, "typesize": 4, "blocksize": 0})
        for name in ("lz4", "lz4hc", "blosclz", "zlib", "zstd")
        for shuffle in ("noshuffle", "shuffle", "bitshuffle")
    ],
    N("numcodecs.blosc", {"cname": "lz4", "clevel": 5, "shuffle": -1, "blocksize": 0}),
    N("numcodecs.lz4", {"acceleration": 1}),
    N("numcodecs.bz2", {"level": 1}),
    N("numcodecs.lzma", {"format": 1, "check": -1, "preset": None, "filters": None}),
    N("numcodecs.lzma", {"format": 3, "filters": [{"id": lzma.FILTER_LZMA2, "preset": 1}]}),
    N("crc32c"),
    N("numcodecs.crc32c"),
    N("numcodecs.crc32"),
    N("numcodecs.crc32", {"location": "end"}),
    N("numcodecs.adler32"),
    N("numcodecs.fletcher32"),
    N("numcodecs.jenkins_lookup3"),
    N("numcodecs.shuffle", {"elementsize": 4}),
    N("numcodecs.shuffle", {"elementsize": 0}),
    N("shuffle", {"elementsize": 3}),
    N("zlib", {"level": 1}),
]
ids = [f"{c.name}-{i}" for i, c in enumerate(BYTES_CODECS)]


@pytest.mark.parametrize("codec", BYTES_CODECS, ids=ids)
@pytest.mark.parametrize("shape", [(5, 7), (1, 1), (), (300, 40)])
def test_round_trip(codec: NamedConfig, shape: tuple[int, ...]) -> None:
    chain = Chain([LITTLE, codec], spec("float32", shape))
    chunk = values("float32", shape)
    data = bytes(memoryview(chain.encode(chunk)))
    assert chain.decode(data).tobytes() == chunk.tobytes()
    out = np.empty(shape, np.float32)
    chain.decode_into(data, out)
    assert out.tobytes() == chunk.tobytes()
    wide = np.zeros((*shape, 2), np.float32)
    chain.decode_into(data, wide[..., 0])
    assert wide[..., 0].tobytes() == chunk.tobytes()


@pytest.mark.parametrize("codec", BYTES_CODECS, ids=ids)
def test_agrees_with_numcodecs(codec: NamedConfig) -> None:
    """What we encode numcodecs decodes, and the other way round."""
    name = codec.name.removeprefix("numcodecs.")
    configuration = dict(codec.configuration)
    if name == "blosc":
        configuration.pop("typesize", None)
        shuffles = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}
        configuration["shuffle"] = shuffles.get(configuration["shuffle"], configuration["shuffle"])
    if name == "shuffle" and 35 * 4 % (configuration["elementsize"] or 4):
        pytest.skip("numcodecs shuffles whole elements only")
    if configuration.get("elementsize") == 0:
        configuration["elementsize"] = 4
    if isinstance(configuration.get("level"), str):
        configuration["level"] = int(configuration["level"])
    other = numcodecs.get_codec({"id": name, **configuration})
    chain = Chain([LITTLE, codec], spec("float32"))
    chunk = values("float32")
    theirs = bytes(memoryview(np.ascontiguousarray(np.asarray(other.encode(chunk)))))
    assert chain.decode(theirs).tobytes() == chunk.tobytes()
    ours = bytes(memoryview(chain.encode(chunk)))
    assert bytes(memoryview(np.asarray(other.decode(ours)))) == chunk.tobytes()


@pytest.mark.parametrize("codec", BYTES_CODECS, ids=ids)
def test_damage(codec: NamedConfig) -> None:
    """Truncated, changed or foreign bytes: an error of ours, or as many values as ever; never a crash."""
    chain = Chain([LITTLE, codec], spec("float32", (40, 5)))
    data = bytes(memoryview(chain.encode(values("float32", (40, 5)))))
    rng = np.random.default_rng(5)
    damaged = [data[:n] for n in (0, 1, 3, 4, 5, 12, 16, 20, len(data) // 2, len(data) - 1)]
    damaged += [rng.bytes(n) for n in (0, 1, 4, 17, 64, 800, 5000)]
    damaged += [data + b"x", data * 2]
    for _ in range(150):
        changed = bytearray(data)
        for _ in range(rng.integers(1, 4)):
            changed[rng.integers(len(changed))] ^= 1 << int(rng.integers(8))
        damaged.append(bytes(changed))
    for bad in damaged:
        out = np.empty((40, 5), np.float32)
        try:
            chain.decode_into(bad, out)
        except CodecError:
            continue
        assert out.shape == (40, 5)
    for n in (0, 3, len(data) // 2):
        with pytest.raises(CodecError):
            chain.decode(data[:n])


@pytest.mark.parametrize(
    "name",
    ["crc32c", "numcodecs.crc32", "numcodecs.adler32", "numcodecs.fletcher32", "numcodecs.jenkins_lookup3"],
)
def test_checksums_find_every_changed_bit(name: str) -> None:
    chain = Chain([LITTLE, N(name)], spec("int16", (3, 4)))
    data = bytes(memoryview(chain.encode(values("int16", (3, 4)))))
    for i in range(8 * len(data)):
        changed = bytearray(data)
        changed[i // 8] ^= 1 << (i % 8)
        with pytest.raises(CodecError):
            chain.decode(bytes(changed))


BOMB = 64 << 20


@pytest.mark.parametrize(
    ("codec", "bomb"),
    [
        (N("gzip"), lambda: gzip.compress(bytes(BOMB), 9)),
        (N("numcodecs.zlib"), lambda: zlib.compress(bytes(BOMB), 9)),
        (N("numcodecs.bz2"), lambda: bz2.compress(bytes(BOMB))),
        (N("numcodecs.lzma"), lambda: lzma.compress(bytes(BOMB), preset=0)),
        (N("zstd"), lambda: bytes(numcodecs.Zstd(1).encode(bytes(BOMB)))),
        (N("blosc"), lambda: bytes(numcodecs.Blosc("zstd").encode(bytes(BOMB)))),
        (N("numcodecs.lz4"), lambda: struct.pack("<I", 2**31 - 1) + b"\x1f\0\1\0" + b"\xff" * 1000),
    ],
    ids=["gzip", "zlib", "bz2", "lzma", "zstd", "blosc", "lz4"],
)  # fmt: skip
def test_bombs(codec: NamedConfig, bomb: Any) -> None:
    data = bomb()
    chain = Chain([LITTLE, codec], spec("float32"))
    tracemalloc.start()
    try:
        with pytest.raises(CodecError):
            chain.decode(data)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_gzip_of_several_members() -> None:
    chunk = values("float32")
    raw = chunk.tobytes()
    chain = Chain([LITTLE, N("gzip")], spec("float32"))
    assert chain.decode(gzip.compress(raw[:30]) + gzip.compress(raw[30:])).tobytes() == raw


def zstd_frame(raw: bytes) -> bytes:
    """A frame that does not state its content size, with one uncompressed block."""
    return b"\x28\xb5\x2f\xfd\x00\x38" + (len(raw) << 3 | 1).to_bytes(3, "little") + raw


def test_zstd_frames() -> None:
    """Several frames, frames to be skipped, frames of unstated size: the right length or an error."""
    raw = values("float32").tobytes()

    def packed(part: bytes) -> bytes:
        return bytes(numcodecs.Zstd(1).encode(part))

    skipped = b"\x50\x2a\x4d\x18" + struct.pack("<I", 3) + b"abc"
    good = [
        zstd_frame(raw),
        packed(raw[:40]) + packed(raw[40:]),
        zstd_frame(raw[:40]) + zstd_frame(raw[40:]),
        packed(raw) + skipped,
    ]
    chain = Chain([LITTLE, N("zstd")], spec("float32"))
    for data in good:
        assert chain.decode(data).tobytes() == raw
        for bad in (data[:-1], data + data, data + b"x", skipped):
            with pytest.raises(CodecError):
                chain.decode(bad)
    for shape in ((5, 6), (5, 8), (1, 1)):
        for data in good:
            with pytest.raises(CodecError):
                Chain([LITTLE, N("zstd")], spec("float32", shape)).decode(data)


def test_zstd_bombs_of_unknown_size() -> None:
    """Text of any length: the frame promises nothing, but its blocks bound what can come out."""
    block = ((128 << 10) << 3 | 1 << 1).to_bytes(3, "little") + b"a"  # one byte, repeated
    bomb = b"\x28\xb5\x2f\xfd\x00\x38" + block * 20000 + (1).to_bytes(3, "little")
    chain = Chain([N("vlen-utf8"), N("zstd")], ChunkSpec((2,), np.dtype(object), ""))
    with pytest.raises(CodecError, match="exceed"):
        chain.decode(bomb)


def test_deflate_without_libdeflate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec_bytes, "optional_module", lambda name: None)
    for name in ("gzip", "numcodecs.zlib"):
        test_round_trip(N(name, {"level": 5}), (5, 7))
        test_damage(N(name, {"level": 5}))


@given(st.binary(max_size=10000))
@settings(max_examples=examples(100), deadline=None)
def test_crc32c_both_ways(data: bytes) -> None:
    """The numpy implementation against one bit after another."""
    state = 0xFFFFFFFF
    for byte in data[:600]:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
    assert checksums.crc32c_numpy(data[:600]) == state ^ 0xFFFFFFFF
    google = pytest.importorskip("google_crc32c")
    assert checksums.crc32c_numpy(data) == checksums.crc32c(data) == google.value(data)


# --- from array to array


@pytest.mark.parametrize(
    ("dtype", "codec"),
    [
        ("int32", N("numcodecs.delta", {"dtype": "<i4", "astype": "<i8"})),
        ("int32", N("numcodecs.delta", {"dtype": "<i4"})),
        ("float64", N("numcodecs.fixedscaleoffset", {"offset": 0, "scale": 1, "dtype": "<f8", "astype": "<f4"})),
        ("float64", N("numcodecs.quantize", {"digits": 3, "dtype": "<f8"})),
        ("int64", N("numcodecs.astype", {"decode_dtype": "<i8", "encode_dtype": "<i2"})),
        ("float32", N("numcodecs.bitround", {"keepbits": 5})),
    ],
)  # fmt: skip
def test_filters_agree_with_numcodecs(dtype: str, codec: NamedConfig) -> None:
    chunk = values(dtype)
    other = numcodecs.get_codec({"id": codec.name.removeprefix("numcodecs."), **codec.configuration})
    theirs = np.asarray(other.encode(chunk.reshape(-1).copy()))
    chain = Chain([codec, LITTLE], spec(dtype))
    assert bytes(memoryview(chain.encode(chunk))) == theirs.tobytes()
    back = np.asarray(other.decode(theirs)).view(dtype).reshape(chunk.shape)
    assert chain.decode(theirs.tobytes()).tolist() == back.tolist()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1)])
def test_transpose(order: tuple[int, ...]) -> None:
    chunk = values("int16", (2, 3, 4))
    chain = Chain([N("transpose", {"order": list(order)}), LITTLE], spec("int16", (2, 3, 4)))
    data = bytes(memoryview(chain.encode(chunk)))
    assert data == np.ascontiguousarray(chunk.transpose(order)).tobytes()
    assert chain.decode(data).tolist() == chunk.tolist()


@pytest.mark.parametrize("keepbits", [1, 3, 10, 23])
def test_bitround_is_the_nearest(keepbits: int) -> None:
    chunk = values("float32", (50,))
    chain = Chain([N("bitround", {"keepbits": keepbits}), LITTLE], spec("float32", (50,)))
    rounded = chain.decode(chain.encode(chunk))
    mantissa, exponent = np.frexp(chunk.astype(np.float64))
    nearest = np.ldexp(np.rint(mantissa * 2.0 ** (keepbits + 1)), exponent - keepbits - 1)
    assert rounded.astype(np.float64).tolist() == nearest.tolist()


def test_bitround_of_integers() -> None:
    chunk = np.array([0, 1, 5, 0b10110111, 255], np.uint8)
    chain = Chain([N("bitround", {"keepbits": 3}), LITTLE], spec("uint8", (5,)))
    assert chain.decode(chain.encode(chunk)).tolist() == [0, 1, 5, 0b10100000, 0b11100000]


def test_scale_offset() -> None:
    chain = Chain([N("scale_offset", {"offset": 5, "scale": 0.5}), LITTLE], spec("float64", (3,)))
    chunk = np.array([5.0, 7.0, -1.0])
    data = chain.encode(chunk)
    assert np.frombuffer(data, "<f8").tolist() == [0.0, 1.0, -3.0]
    assert chain.decode(data).tolist() == chunk.tolist()
    whole = Chain([N("scale_offset", {"offset": 100, "scale": 3}), LITTLE], spec("int16", (2,)))
    assert whole.decode(whole.encode(np.array([100, 90], "i2"))).tolist() == [100, 90]
    with pytest.raises(CodecError, match="fit"):
        whole.encode(np.array([32000, 0], "i2"))
    with pytest.raises(CodecError, match="multiple"):
        whole.decode(np.array([1, 3], "<i2").tobytes())


@pytest.mark.parametrize(
    ("rounding", "expected"),
    [
        ("nearest-even", [2, 2, 4, -2]),
        ("towards-zero", [1, 2, 3, -2]),
        ("towards-positive", [2, 3, 4, -2]),
        ("towards-negative", [1, 2, 3, -3]),
        ("nearest-away", [2, 3, 4, -3]),
    ],
)
def test_cast_value_rounding(rounding: str, expected: list[int]) -> None:
    chain = Chain(
        [N("cast_value", {"data_type": "int16", "rounding": rounding}), LITTLE], spec("float64", (4,))
    )
    data = chain.encode(np.array([1.5, 2.5, 3.5, -2.5]))
    assert np.frombuffer(data, "<i2").tolist() == expected
    assert chain.decode(data).tolist() == [float(n) for n in expected]


def test_cast_value_out_of_range() -> None:
    chunk = np.array([-1.0, 300.0, np.inf, 7.0])

    def chain(**how: str) -> Chain:
        return Chain([N("cast_value", {"data_type": "uint8", **how}), LITTLE], spec("float64", (4,)))

    with pytest.raises(CodecError, match="range"):
        chain().encode(chunk)
    assert list(chain(out_of_range="clamp").encode(chunk)) == [0, 255, 255, 7]
    with pytest.raises(CodecError, match="infinity"):
        chain(out_of_range="wrap").encode(chunk)
    assert list(chain(out_of_range="wrap").encode(np.array([-1.0, 300.0, 512.0, 7.0]))) == [255, 44, 0, 7]
    with pytest.raises(CodecError, match="NaN"):
        chain(out_of_range="clamp").encode(np.array([np.nan, 0, 0, 0]))
    big = Chain([N("cast_value", {"data_type": "int64"}), LITTLE], spec("uint64", (1,)))
    with pytest.raises(CodecError, match="range"):
        big.encode(np.array([2**63], "u8"))


def test_cast_value_to_a_narrower_float() -> None:
    """A finite value does not become infinite; an infinity stays one."""
    chunk = np.array([1e300, -1e300, np.inf, 0.5])

    def chain(**how: str) -> Chain:
        return Chain([N("cast_value", {"data_type": "float32", **how}), LITTLE], spec("float64", (4,)))

    for how in ({}, {"out_of_range": "wrap"}):
        with pytest.raises(CodecError, match="outside the range of float32"):
            chain(**how).encode(chunk)
    largest = float(np.finfo("f4").max)
    encoded = chain(out_of_range="clamp").encode(chunk)
    assert np.frombuffer(encoded, "<f4").tolist() == [largest, -largest, np.inf, 0.5]
    assert np.frombuffer(chain().encode(np.array([np.inf, 1.0, 0.25, -np.inf])), "<f4").tolist() == [
        np.inf, 1.0, 0.25, -np.inf
    ]  # fmt: skip


@pytest.mark.parametrize("padding", ["none", "first_byte", "last_byte"])
@pytest.mark.parametrize(
    ("dtype", "bits"),
    [
        ("bool", {}),
        ("uint8", {"last_bit": 6}),
        ("int16", {"first_bit": 0, "last_bit": 8}),
        ("complex64", {}),
        ("float32", {"first_bit": 4}),
    ],
)
def test_packbits(dtype: str, bits: dict[str, int], padding: str) -> None:
    chunk = values(dtype, (11,))
    if dtype == "int16":
        chunk[::2] *= -1
    if dtype == "float32":
        chunk = np.round(chunk)
    chain = Chain([N("packbits", {"padding_encoding": padding, **bits})], spec(dtype, (11,)))
    data = bytes(memoryview(chain.encode(chunk)))
    assert len(data) == chain.encoded_size
    assert chain.decode(data).tolist() == chunk.tolist()
    with pytest.raises(CodecError):
        chain.decode(data[:-1])


def test_packbits_order_of_bits() -> None:
    chain = Chain([N("packbits")], spec("bool", (10,)))
    assert bytes(memoryview(chain.encode(np.array([1, 0, 0, 0, 0, 0, 0, 0, 1, 1], bool)))) == b"\x01\x03"
    other = Chain([N("numcodecs.packbits"), LITTLE], spec("bool", (10,)))
    chunk = values("bool", (10,))
    assert bytes(memoryview(other.encode(chunk))) == numcodecs.PackBits().encode(chunk).tobytes()
    assert other.decode(other.encode(chunk)).tolist() == chunk.tolist()


# --- values of any length


def objects(*items: Any) -> np.ndarray:
    result = np.empty(len(items), object)
    result[:] = items
    return result


@pytest.mark.parametrize(
    ("name", "chunk"),
    [
        ("vlen-utf8", objects("", "a", "é€", "\0x", "\udcff not UTF-8")),
        ("vlen-bytes", objects(b"", b"\0", b"ab", b"x" * 70000, b"\xff")),
    ],
)
def test_any_length(name: str, chunk: np.ndarray) -> None:
    description = ChunkSpec(chunk.shape, np.dtype(object), chunk[0])
    chain = Chain([N(name), N("zstd")], description)
    assert chain.decode(chain.encode(chunk)).tolist() == chunk.tolist()
    plain = Chain([N(name)], description)
    data = bytes(memoryview(plain.encode(chunk)))
    for n in range(0, len(data), max(1, len(data) // 50)):
        with pytest.raises(CodecError):
            plain.decode(data[:n])
    with pytest.raises(CodecError):
        plain.decode(b"\xff\xff\xff\xff" + data[4:])
    with pytest.raises(CodecError):
        plain.encode(objects(1, 2, 3, 4, 5))


def test_a_value_with_more_bytes_than_numcodecs_writes_is_refused() -> None:
    """The zero bytes take no memory; numcodecs would write beyond its buffer, and end the process."""
    chain = Chain([N("vlen-bytes")], ChunkSpec((1,), np.dtype(object), b""))
    with pytest.raises(CodecError, match="2147483648 bytes is too long"):
        chain.encode(objects(bytes(2**31)))


def test_vlen_array() -> None:
    chunk = objects(np.array([1, 2], "i4"), np.array([], "i4"))
    description = ChunkSpec((2,), np.dtype(object), None)
    chain = Chain([N("numcodecs.vlen-array", {"dtype": "<i4"})], description)
    data = bytes(memoryview(chain.encode(chunk)))
    assert data == bytes(numcodecs.VLenArray("<i4").encode(chunk))
    assert [item.tolist() for item in chain.decode(data)] == [[1, 2], []]


# --- chains as a whole


@pytest.mark.parametrize(
    ("codecs", "message"),
    [
        ([], "no codec encodes"),
        ([N("gzip")], "put the codec 'bytes'"),
        ([LITTLE, LITTLE], "follows a codec"),
        ([LITTLE, N("transpose", {"order": [1, 0]})], "follows a codec"),
        ([N("bytes")], "endian is missing"),
        ([N("numcodecs.delta", {"dtype": ">f4"}), LITTLE], "big-endian dtype"),
        ([N("numcodecs.astype", {"encode_dtype": ">f8", "decode_dtype": "<f4"}), LITTLE], "big-endian dtype"),
        ([N("bytes", {"endian": "middle"})], "middle"),
        ([N("transpose", {"order": [0, 0]}), LITTLE], "not a permutation"),
        ([LITTLE, N("nonsense")], "is unknown"),
        ([LITTLE, N("numcodecs.pickle")], "runs code"),
        ([LITTLE, N("numcodecs.nonsense")], "not available"),
        ([LITTLE, N("gzip", {"level": 10})], "level"),
        ([LITTLE, N("gzip", {"speed": 1})], "speed"),
        ([LITTLE, N("blosc", {"cname": "best"})], "best"),
        ([N("vlen-utf8")], "variable-length text"),
    ],
)
def test_wrong_chains(codecs: list[NamedConfig], message: str) -> None:
    with pytest.raises(CodecError, match=message):
        Chain(codecs, spec("float32"))


def test_codecs_that_need_not_be_understood_are_left_out() -> None:
    chain = Chain([LITTLE, N("nonsense", must_understand=False)], spec("float32"))
    assert chain.is_raw


def test_known_codecs() -> None:
    assert {"bytes", "sharding_indexed", "numcodecs.zlib"} <= set(known_codecs())


def test_equal_encodings_share_their_codecs_and_others_do_not() -> None:
    """What is written for one variable is not the encoding of another that differs in the last bit."""

    def made(level: Any = 1, shape: tuple[int, ...] = (4,), dtype: str = "<f4", fill: float = 0.0) -> Chain:
        codecs = (NamedConfig("bytes", {"endian": "little"}), NamedConfig("gzip", {"level": level}))
        return chain_of(codecs, shape, np.dtype(dtype), np.dtype(dtype).type(fill))

    first = made()
    assert made() is first
    others = [made(level=2), made(shape=(5,)), made(dtype="<f8"), made(fill=-0.0), made(fill=np.nan)]
    assert len({id(chain) for chain in (first, *others)}) == 6
    with pytest.raises(CodecError):
        made(level=True)
    assert np.signbit(made(fill=-0.0).spec.fill)
    assert not np.signbit(made().spec.fill)

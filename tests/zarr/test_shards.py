"""Shards: nested, damaged, changed in parts, and read by others."""

from __future__ import annotations

import struct
import tempfile
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczarr.errors import ChunkError, CodecError
from nczarr.stores import LocalStore, MemoryStore, Store
from nczarr.zarr.chunks.array import Array
from nczarr.zarr.codecs.base import ChunkSpec
from nczarr.zarr.codecs.chain import Chain
from nczarr.zarr.grids import RegularGrid
from nczarr.zarr.metadata import ArrayMetadata, NamedConfig
from nczarr.zarr.types import data_type_for

LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
CRC = {"name": "crc32c"}


def sharding(inner: list[int], codecs: list[Any] | None = None, **more: Any) -> NamedConfig:
    configuration = {
        "chunk_shape": inner,
        "codecs": codecs or [LITTLE],
        "index_codecs": [LITTLE, CRC],
        "index_location": "end",
        **more,
    }
    return NamedConfig("sharding_indexed", configuration)


def make(store: Store, codec: NamedConfig, shape: Any = (16, 16), shard: Any = (8, 8)) -> Array:
    metadata = ArrayMetadata(
        shape, data_type_for("int16"), RegularGrid(shard), fill_value=np.int16(-1), codecs=(codec,)
    )
    return Array(store, "v", metadata)


VALUES = np.arange(256, dtype=np.int16).reshape(16, 16)


def stores(tmp_path: Path) -> list[Store]:
    return [MemoryStore(), LocalStore(tmp_path, "r+")]


def test_layout_of_a_shard() -> None:
    """Two inner chunks and the index after them, as the specification lays them out."""
    store = MemoryStore()
    array = make(store, sharding([2], index_codecs=[LITTLE]), (4,), (4,))
    array.write(..., [1, 2, 3, 4])
    assert store.get("v/c/0") == struct.pack("<4h4Q", 1, 2, 3, 4, 0, 4, 4, 4)
    first = make(store, sharding([2], index_codecs=[LITTLE], index_location="start"), (4,), (4,))
    first.write(..., [1, 2, 3, 4])
    assert store.get("v/c/0") == struct.pack("<4Q4h", 32, 4, 36, 4, 1, 2, 3, 4)


def test_untouched_inner_chunks_stay_missing_or_as_they_are(tmp_path: Path) -> None:
    for store in stores(tmp_path):
        array = make(store, sharding([4, 4]))
        array.write((slice(0, 4), slice(0, 4)), VALUES[:4, :4])
        data = store.get("v/c/0/0")
        assert data is not None
        assert data[32:40] == b"\0" * 8  # the first inner chunk is at the beginning
        assert data[48:96] == b"\xff" * 48  # the other three are not stored
        assert array.read((0, slice(None))).tolist() == [0, 1, 2, 3] + [-1] * 12
        array.write((5, 5), 7)
        assert array.read((slice(0, 6), 5)).tolist() == [-1] * 5 + [7]
        assert array.nchunks_initialized() == 1
        assert array.inner_chunk_shape == (4, 4)
        store.delete("v/c/0/0")


def test_nested(tmp_path: Path) -> None:
    inner = sharding([2, 2], [LITTLE, {"name": "zstd", "configuration": {"level": 1}}]).to_json()
    for store in stores(tmp_path):
        array = make(store, sharding([4, 4], [inner]))
        array.write(..., VALUES)
        assert array.read().tolist() == VALUES.tolist()
        assert array.read((slice(3, 13, 3), [1, 9])).tolist() == VALUES[3:13:3][:, [1, 9]].tolist()
        array.write((slice(5, 7), slice(5, 11)), 0)
        assert array.read((6, 6)) == 0
        assert array.read((7, 6)) == VALUES[7, 6]


def test_after_other_codecs() -> None:
    """Compressed or transposed as a whole: still right, if slower."""
    for before, after in (([], [NamedConfig("gzip")]), ([NamedConfig("transpose", {"order": [1, 0]})], [])):
        metadata = ArrayMetadata(
            (16, 16),
            data_type_for("int16"),
            RegularGrid((8, 4)),
            fill_value=np.int16(-1),
            codecs=(*before, sharding([4, 2] if not before else [2, 4]), *after),
        )
        array = Array(MemoryStore(), "v", metadata)
        array.write(..., VALUES)
        array.write((3, 3), 99)
        assert array.read((slice(2, 5), 3)).tolist() == [VALUES[2, 3], 99, VALUES[4, 3]]


def entry(data: bytes, number: int, offset: int, length: int, count: int = 4) -> bytes:
    start = len(data) - 16 * count + 16 * number
    return data[:start] + struct.pack("<QQ", offset, length) + data[start + 16 :]


@pytest.mark.parametrize(
    ("offset", "length"),
    [(10**9, 32), (0, 10**9), (2**64 - 40, 39), (2**63, 2**63), (2**64 - 1, 32), (0, 2**64 - 1), (0, 31), (8, 0)],
)  # fmt: skip
def test_index_out_of_bounds(tmp_path: Path, offset: int, length: int) -> None:
    for store in stores(tmp_path):
        codec = sharding([4, 4], index_codecs=[LITTLE])
        make(store, codec, (8, 8)).write(..., VALUES[:8, :8])
        data = store.get("v/c/0/0")
        assert data is not None
        store.set("v/c/0/0", entry(data, 2, offset, length))
        for selection in (..., (5, 1)):
            with pytest.raises(ChunkError, match="inner chunk 2") as caught:
                make(store, codec, (8, 8)).read(selection)
            assert "v/c/0/0" in str(caught.value)
            assert "/v" in str(caught.value)


def test_damaged_index(tmp_path: Path) -> None:
    for store in stores(tmp_path):
        make(store, sharding([4, 4])).write(..., VALUES)
        data = store.get("v/c/1/1")
        assert data is not None
        for bad in (data[:-1], data[:20], b"", data[:-5] + b"\xff" + data[-4:], data + b"\0"):
            store.set("v/c/1/1", bad)
            with pytest.raises(ChunkError, match=r"v/c/1/1: /v: chunk \(1, 1\), region \[8:16, 8:16\]"):
                make(store, sharding([4, 4])).read((15, 15))
            assert make(store, sharding([4, 4])).read((0, 0)) == 0


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    """The remembered index of a shard belongs to one state of its file."""
    store = LocalStore(tmp_path, "r+")
    codec = sharding([4, 4], [LITTLE, {"name": "gzip", "configuration": {"level": 1}}])
    reader, writer = make(store, codec), make(store, codec)
    writer.write(..., VALUES)
    assert reader.read((3, 3)) == VALUES[3, 3]
    writer.write((slice(0, 8), slice(0, 8)), np.random.default_rng(1).integers(0, 999, (8, 8)).astype("i2"))
    assert reader.read().tolist() == make(store, codec).read().tolist()


@pytest.mark.parametrize(
    "configuration",
    [
        {"chunk_shape": [3, 4]},
        {"chunk_shape": [4]},
        {"chunk_shape": [0, 4]},
        {"chunk_shape": "x"},
        {"codecs": []},
        {"index_codecs": None},
        {"index_codecs": [LITTLE, {"name": "gzip"}]},
        {"index_location": "middle"},
        {"something": 1},
    ],
)
def test_wrong_configuration(configuration: dict[str, Any]) -> None:
    codec = NamedConfig("sharding_indexed", {**sharding([4, 4]).configuration, **configuration})
    with pytest.raises(CodecError):
        Chain([codec], ChunkSpec((8, 8), np.dtype("int16"), np.int16(0)))


def _rewritten(data: bytes, order: list[int], gaps: bool) -> bytes:
    """A shard with its inner chunks in another order, perhaps apart from each other."""
    count = len(order)
    entries = np.frombuffer(data[-16 * count :], "<u8").reshape(-1, 2).copy()
    result = bytearray()
    for number in order:
        offset, length = entries[number].tolist()
        if offset == 2**64 - 1:
            continue
        result += b"\xaa" * (3 * gaps)
        entries[number, 0] = len(result)
        result += data[offset : offset + length]
    return bytes(result) + entries.tobytes()


@given(st.data())
def test_rows_of_small_inner_chunks(data: st.DataObject) -> None:
    """Whatever the order of the inner chunks in the shard, and whichever of them are there."""
    inner = data.draw(st.sampled_from([(1,), (3,), (1, 2), (2, 3), (1, 1, 2)]))
    grid = data.draw(st.tuples(*[st.integers(1, 6)] * len(inner)))
    shard = tuple(n * m for n, m in zip(grid, inner, strict=True))
    shape = tuple(data.draw(st.integers(1, n)) for n in shard)
    codec: list[Any] = data.draw(
        st.sampled_from([[], [{"name": "zstd", "configuration": {"level": 1}}], [{"name": "crc32c"}]])
    )
    if len(inner) == 2 and data.draw(st.booleans()):
        before: list[Any] = [{"name": "transpose", "configuration": {"order": [1, 0]}}]
    else:
        before = []
    little = {"name": "bytes", "configuration": {"endian": data.draw(st.sampled_from(["little", "big"]))}}
    store = MemoryStore()
    made = sharding(list(inner), [*before, little, *codec], index_codecs=[LITTLE])
    array = make(store, made, shape, shard)
    values = np.arange(prod(shape), dtype="i2").reshape(shape)
    for index in data.draw(st.lists(st.tuples(*[st.integers(0, n - 1) for n in shape]), max_size=2)):
        box = tuple(slice(i // m * m, (i // m + 1) * m) for i, m in zip(index, inner, strict=True))
        values[box] = -1  # an inner chunk that is not stored
    array.write(..., values)
    key = array.chunk_key((0,) * len(inner))
    stored = store.get(key)
    if stored is not None:
        order = data.draw(st.one_of(st.just(list(range(prod(grid)))), st.permutations(range(prod(grid)))))
        store.set(key, _rewritten(stored, order, data.draw(st.booleans())))
    limits = [data.draw(st.tuples(st.integers(0, n), st.integers(0, n))) for n in shape]
    box = tuple(slice(*sorted(limit), data.draw(st.sampled_from([1, 1, 2]))) for limit in limits)
    np.testing.assert_array_equal(array.read(box), values[box])
    with tempfile.TemporaryDirectory() as folder:
        files = LocalStore(folder, "w")
        for name in store.list():
            files.set(name, store.get(name) or b"")
        np.testing.assert_array_equal(make(files, made, shape, shard).read(box), values[box])


def test_bounds_of_single_steps_are_decoded_in_one_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last dimension has one inner chunk: 365 pairs took 365 calls."""
    zstd = {"name": "zstd", "configuration": {"level": 1}}
    values = np.arange(730, dtype="i2").reshape(365, 2)
    calls = []
    for method in ("decode_row", "decode_raw", "decode_into", "decode"):
        real = getattr(Chain, method)
        monkeypatch.setattr(Chain, method, lambda *a, real=real, name=method: calls.append(name) or real(*a))
    for store in stores(tmp_path):
        array = make(store, sharding([1, 2], [LITTLE, zstd]), (365, 2), (365, 2))
        array.write(..., values)
        calls.clear()
        np.testing.assert_array_equal(array.read((slice(1, 364), ...)), values[1:364])
        assert calls.count("decode_row") == 1
        assert len(calls) < 5  # with the index of the shard


@given(st.data())
def test_what_is_selected_of_a_single_inner_chunk(data: st.DataObject) -> None:
    """It is read without a plan of the shard: all of it or a part, in any order and with any steps."""
    inner = data.draw(st.sampled_from([(5,), (3, 4), (2, 1, 3)]))
    grid = data.draw(st.tuples(*[st.integers(1, 3)] * len(inner)))
    shard = tuple(n * m for n, m in zip(grid, inner, strict=True))
    shape = tuple(data.draw(st.integers(n, 2 * n)) for n in shard)
    codecs: list[Any] = [
        *data.draw(
            st.sampled_from(
                [[], [{"name": "transpose", "configuration": {"order": list(range(len(inner)))[::-1]}}]]
            )
        ),
        {"name": "bytes", "configuration": {"endian": data.draw(st.sampled_from(["little", "big"]))}},
        *data.draw(st.sampled_from([[], [{"name": "gzip", "configuration": {"level": 1}}], [CRC]])),
    ]
    values = np.arange(prod(shape), dtype="i2").reshape(shape)
    place = [data.draw(st.integers(0, (n - 1) // m)) for n, m in zip(shape, inner, strict=True)]
    values[tuple(slice(i * m, (i + 1) * m) for i, m in zip(place, inner, strict=True))] += 7
    selection = []
    for i, m, n in zip(place, inner, shape, strict=True):
        low, high = i * m, min((i + 1) * m, n)
        start = data.draw(st.integers(low, high - 1))
        stop = data.draw(st.integers(start + 1, high))
        indices = st.lists(st.integers(low, high - 1), min_size=1, max_size=4)
        selection.append(
            data.draw(
                st.one_of(
                    st.just(start),
                    st.builds(slice, st.just(start), st.just(stop), st.integers(1, 3)),
                    st.just(slice(stop - 1, start - 1 if start else None, -1)),
                    indices,
                )
            )
        )
    wanted = values
    for axis in reversed(range(len(shape))):
        wanted = wanted[(slice(None),) * axis + (selection[axis],)]
    with tempfile.TemporaryDirectory() as folder:
        for store in (MemoryStore(), LocalStore(folder, "w")):
            array = make(store, sharding(list(inner), codecs), shape, shard)
            array.write(..., values)
            for _ in range(2):  # the second time with the index that was kept
                np.testing.assert_array_equal(array.read(tuple(selection)), wanted)
            array.write(tuple(slice(i * m, (i + 1) * m) for i, m in zip(place, inner, strict=True)), -1)
            assert (array.read(tuple(selection)) == -1).all()


def test_a_damaged_inner_chunk_of_a_row_is_named() -> None:
    store = MemoryStore()
    array = make(store, sharding([4], [LITTLE, CRC]), (64,), (64,))
    array.write(..., np.arange(1, 65, dtype="i2"))
    data = bytearray(store.get("v/c/0") or b"")
    data[5 * 12] ^= 1
    store.set("v/c/0", bytes(data))
    with pytest.raises(ChunkError, match="inner chunk 5"):
        array.read(...)
    np.testing.assert_array_equal(array.read(slice(24, 64)), np.arange(25, 65))

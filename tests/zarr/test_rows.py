"""Compare rows of small chunks, decoded together, with one chunk at a time."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nczarr.errors import ChunkError, StoreError
from nczarr.stores import LocalStore, MemoryStore
from nczarr.zarr.chunks import read_files, scatter
from nczarr.zarr.chunks.array import Array
from nczarr.zarr.chunks.chunks import BoundedCache
from nczarr.zarr.codecs.base import ChunkSpec
from nczarr.zarr.codecs.bytes_bytes import ZstdCodec
from nczarr.zarr.grids import RegularGrid
from nczarr.zarr.metadata import ArrayMetadata, NamedConfig
from nczarr.zarr.types import data_type_for

N = NamedConfig
BYTES = ChunkSpec((1,), np.dtype("uint8"), np.uint8(0))
LITTLE = N("bytes", {"endian": "little"})
ZSTD = N("zstd", {"level": 1, "checksum": False})
CHAINS = {
    "none": [LITTLE],
    "big-endian": [N("bytes", {"endian": "big"})],
    "zstd": [LITTLE, ZSTD],
    "zstd, checksums": [LITTLE, N("zstd", {"level": 1, "checksum": True}), N("crc32c")],
    "gzip": [LITTLE, N("gzip", {"level": 1})],
    "blosc": [LITTLE, N("blosc", {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0})],
    "transposed": [N("transpose", {"order": [1, 0]}), LITTLE, ZSTD],
    "big-endian zstd": [N("bytes", {"endian": "big"}), ZSTD],
}  # fmt: skip
INDEX = [LITTLE, N("crc32c")]


@pytest.fixture(params=[1, 3, 100], autouse=True)
def row_length(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Rows of every length, with few chunks too; with 1 each chunk is read for itself."""
    length: int = request.param
    monkeypatch.setattr(scatter, "row_length", lambda *_: length)
    return length


def make(folder: Path, chain: list[NamedConfig], shape: tuple[int, ...], chunks: tuple[int, ...]) -> Array:
    store = LocalStore(folder, "w")
    metadata = ArrayMetadata(
        shape, data_type_for("int32"), RegularGrid(chunks), fill_value=np.int32(-7), codecs=tuple(chain)
    )
    return Array(store, "v", metadata)


SELECTIONS = [
    (slice(None, None, 3), slice(None, None, 3)),
    (slice(1, None, 2), slice(2, None, 7)),
    (slice(3, 7), slice(3, 61)),
    (slice(None), slice(5, None, 8)),
    (7, slice(60, 3, -5)),
    (slice(2, 9, 6), slice(1, None, 16)),
    (slice(1, 3), slice(0, 64)),
    (slice(0, 9, 2), [3, 11, 19, 27, 28, 29]),
    (slice(5), slice(7, 9)),
    ...,
    (slice(None), slice(4, 60)),
    (slice(3, 9), slice(None)),
    (2, slice(8, None)),
    (slice(None), [9, 8]),
]


@pytest.mark.parametrize("chain", CHAINS)
def test_rows_against_numpy(chain: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = make(tmp_path, CHAINS[chain], (10, 66), (4, 8))
    values = np.random.default_rng(0).integers(0, 9, (10, 66)).astype("int32")
    array.write(..., values)
    for selection in SELECTIONS:
        np.testing.assert_array_equal(array.read(selection), values[selection])
    # As if there were too many chunks to keep them.
    monkeypatch.setattr(read_files, "CHUNKS", BoundedCache(0))
    for selection in SELECTIONS:
        np.testing.assert_array_equal(array.read(selection), values[selection])
    # Into a buffer whose elements do not lie in order.
    turned = np.zeros((66, 10), "int32")
    array.read(..., out=turned.T)
    np.testing.assert_array_equal(turned.T, values)


@pytest.mark.parametrize("chain", CHAINS)
def test_writing_gives_the_same_files_as_a_store_in_memory(chain: str, tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 9, (10, 66)).astype("int32")
    sources = [
        (..., values),
        (..., np.asfortranarray(values)),
        (..., values.astype(">i4")),
        ((slice(None), slice(None, None, -1)), values),
        ((slice(2, 9), slice(4, 60)), values[2:9, 4:60]),
        ((slice(0, 4), slice(None)), np.int32(3)),
    ]
    for number, (selection, source) in enumerate(sources):
        array = make(tmp_path / str(number), CHAINS[chain], (10, 66), (4, 8))
        memory = Array(MemoryStore(), "v", array.metadata)
        for some in (array, memory):
            some.write((slice(0, 5), slice(0, 9)), 1)
            some.write(selection, source)
        assert list(array.store.list()) == list(memory.store.list())
        for key in memory.store.list():
            if "zstd" not in chain:  # two libraries may compress in two ways
                assert bytes(array.store.get(key) or b"") == bytes(memory.store.get(key) or b"")
        np.testing.assert_array_equal(array.read(), memory.read())


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_part_of_small_chunks(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_files, "CHUNKS", BoundedCache(0))
    rank = data.draw(st.integers(1, 3))
    # A chunk of one value is a file: with three axes of 40 there would be 64,000.
    shape = tuple(data.draw(st.integers(1, 12 if rank == 3 else 40)) for _ in range(rank))
    chunks = tuple(data.draw(st.integers(1, 9)) for _ in shape)
    order = data.draw(st.permutations(range(len(shape))))
    chain = [
        N("transpose", {"order": list(order)}),
        *CHAINS[data.draw(st.sampled_from(["none", "big-endian", "zstd"]))],
    ]
    array = make(tmp_path_factory.mktemp("rows"), chain, shape, chunks)
    values = np.random.default_rng(0).integers(0, 9, shape).astype("int32")
    array.write(..., values)
    selection = tuple(
        slice(
            *sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n)))), data.draw(st.integers(1, 12))
        )
        for n in shape
    )
    np.testing.assert_array_equal(array.read(selection), values[selection])


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("level", [-5, 0, 1, 22])
def test_levels_and_checksums_of_zstd(level: int, checksum: bool) -> None:
    codec = ZstdCodec("zstd", {"level": level, "checksum": checksum}, BYTES)
    data = np.random.default_rng(0).integers(0, 3, 1000).astype(np.uint8)
    piece = codec.encode(data)
    assert codec.decode(piece, 1000, 1000).tobytes() == data.tobytes()
    assert bool(bytes(piece)[4] & 4) == checksum


def test_values_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    array = make(tmp_path, CHAINS["zstd"], (4, 64), (4, 8))
    (tmp_path / "v" / "c" / "0" / "3").mkdir(parents=True)
    with pytest.raises(StoreError, match="v/c/0/3"):
        array.write(..., 1)
    # Nothing is left of the attempt.
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(".nczarr")]


@pytest.mark.parametrize("chain", ["none", "zstd", "gzip"])
@pytest.mark.parametrize("shape", [(40,), (2, 3, 40), (1, 1, 40)])
def test_other_numbers_of_dimensions(chain: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    array = make(tmp_path, CHAINS[chain], shape, (*[1] * (len(shape) - 1), 8))
    values = np.arange(np.prod(shape), dtype="int32").reshape(shape)
    array.write(..., values)
    np.testing.assert_array_equal(array.read(), values)


@pytest.mark.parametrize("chain", ["none", "zstd", "blosc"])
def test_shards(chain: str, tmp_path: Path) -> None:
    shards = N(
        "sharding_indexed",
        {"chunk_shape": [2, 4], "codecs": CHAINS[chain], "index_codecs": INDEX, "index_location": "end"},
    )
    array = make(tmp_path, [shards], (20, 64), (10, 32))
    values = np.random.default_rng(0).integers(0, 9, (20, 64)).astype("int32")
    array.write((slice(0, 7), slice(None)), values[:7])
    values[7:] = -7
    for selection in SELECTIONS:
        np.testing.assert_array_equal(array.read(selection), values[selection])


@pytest.mark.parametrize("chain", CHAINS)
def test_missing_chunks(chain: str, tmp_path: Path) -> None:
    array = make(tmp_path, CHAINS[chain], (8, 64), (4, 8))
    values = np.arange(8 * 64, dtype="int32").reshape(8, 64)
    array.write(..., values)
    for i, j in [(0, 0), (0, 3), (1, 7)]:
        array.store.delete(array.chunk_key((i, j)))
        values[4 * i : 4 * i + 4, 8 * j : 8 * j + 8] = -7
    np.testing.assert_array_equal(array.read(), values)
    # A directory in the place of a chunk is no missing chunk.
    (tmp_path / array.chunk_key((0, 0))).mkdir()
    with pytest.raises(StoreError, match=r"c/0/0: .*this is a directory, not a file"):
        array.read()


def test_an_array_without_any_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = make(tmp_path / "store", CHAINS["none"], (1, 64), (1, 8))
    # Files of the same names where the program runs are none of its chunks.
    (tmp_path / "c" / "0").mkdir(parents=True)
    for i in range(8):
        (tmp_path / "c" / "0" / str(i)).write_bytes(bytes(32))
    monkeypatch.chdir(tmp_path)
    assert (array.read() == -7).all()
    assert (array.read((0, slice(3, None, 8))) == -7).all()


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("where", [(0, 0), (1, 3), (1, 7)])
def test_damage_is_named(chain: str, where: tuple[int, int], tmp_path: Path) -> None:
    array = make(tmp_path, CHAINS[chain], (8, 64), (4, 8))
    array.write(..., np.arange(8 * 64).reshape(8, 64))
    file = tmp_path / array.chunk_key(where)
    good = file.read_bytes()
    for bad in (b"", good[:3], good[:-1], good + b"\0" if chain in ("none", "big-endian") else good[:-9]):
        file.write_bytes(bad)
        with pytest.raises(ChunkError, match=array.chunk_key(where)):
            array.read()


def test_a_chunk_much_longer_than_its_elements(tmp_path: Path) -> None:
    """Frames that hold nothing may follow; such a chunk does not fit the place that is kept for a row."""
    array = make(tmp_path, CHAINS["zstd"], (4, 64), (4, 8))
    values = np.arange(4 * 64, dtype="int32").reshape(4, 64)
    array.write(..., values)
    file = tmp_path / array.chunk_key((0, 2))
    skipped = b"\x50\x2a\x4d\x18" + (100_000).to_bytes(4, "little") + bytes(100_000)
    file.write_bytes(skipped + file.read_bytes())
    np.testing.assert_array_equal(array.read(), values)


def test_frames_of_other_sizes_do_not_make_up_for_each_other(tmp_path: Path) -> None:
    """Together they hold as many bytes as are needed, but one too many and the other too few."""
    array = make(tmp_path, CHAINS["zstd"], (1, 64), (1, 8))
    array.write(..., np.arange(64))
    codec = ZstdCodec("zstd", {"level": 1}, BYTES)
    (tmp_path / array.chunk_key((0, 2))).write_bytes(codec.encode(bytes(48)))
    (tmp_path / array.chunk_key((0, 3))).write_bytes(codec.encode(bytes(16)))
    with pytest.raises(ChunkError, match=r"c/0/2"):
        array.read((0, slice(None, 24)))
    with pytest.raises(ChunkError, match=r"c/0/[23]"):
        array.read()


def test_joined_frames_against_frames_one_by_one() -> None:
    codec = ZstdCodec("zstd", {"level": 1}, BYTES)
    rng = np.random.default_rng(0)
    for size, count in product((1, 255, 256, 257, 70_000), (1, 2, 5)):
        chunks = [rng.integers(0, 3, size).astype(np.uint8) for _ in range(count)]
        pieces = [codec.encode(chunk) for chunk in chunks]
        ends = np.cumsum([len(piece) for piece in pieces]).tolist()
        bounds = list(zip([0, *ends[:-1]], ends, strict=True))
        out = np.zeros(size * count, np.uint8)
        assert codec.decode_joined(np.frombuffer(b"".join(pieces), np.uint8), bounds, out)
        assert (out == np.concatenate(chunks)).all()


@pytest.mark.parametrize("damage", [b"", b"\1", "directory", "missing"])
def test_a_few_elements_of_each_chunk_and_one_that_is_damaged(damage: bytes | str, tmp_path: Path) -> None:
    """Of uncompressed chunks little is read; a file of a wrong size is found all the same, at its end or beyond."""
    array = make(tmp_path, CHAINS["none"], (10, 66), (4, 8))
    values = np.random.default_rng(0).integers(0, 9, (10, 66)).astype("int32")
    array.write(..., values)
    selection = (slice(1, None, 4), slice(3, None, 8))
    np.testing.assert_array_equal(array.read(selection), values[selection])
    chunk = tmp_path / "v" / "c" / "1" / "5"
    whole = chunk.read_bytes()
    chunk.unlink()
    if damage == "missing":
        wanted = values.copy()
        wanted[4:8, 40:48] = -7
        np.testing.assert_array_equal(array.read(selection), wanted[selection])
        return
    if damage == "directory":
        chunk.mkdir()
    else:
        assert isinstance(damage, bytes)
        chunk.write_bytes(whole + damage if damage else whole[:-1])
    with pytest.raises((ChunkError, StoreError), match=r"v/c/1/5"):
        array.read(selection)

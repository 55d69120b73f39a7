"""Read damaged chunks: the error names the key, the array and the region."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from nczarr.errors import (
    ChunkError,
    CodecError,
    NCZarrError,
    ReadOnlyError,
    SelectionError,
    StoreError,
    UnsupportedError,
)
from nczarr.stores import LocalStore, MemoryStore, Store
from nczarr.zarr.chunks.array import Array
from nczarr.zarr.grids import RegularGrid
from nczarr.zarr.metadata import ArrayMetadata, NamedConfig
from nczarr.zarr.types import data_type_for

LITTLE = NamedConfig("bytes", {"endian": "little"})
BLOSC = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0}
SHUFFLE = NamedConfig("numcodecs.shuffle", {"elementsize": 4})
CHAINS = {
    "none": [LITTLE],
    "gzip": [LITTLE, NamedConfig("gzip", {"level": 1})],
    "zstd": [LITTLE, NamedConfig("zstd", {"level": 1})],
    "blosc": [LITTLE, NamedConfig("blosc", BLOSC)],
    "shuffle": [LITTLE, SHUFFLE, NamedConfig("numcodecs.zlib", {"level": 1})],
}


def make(store: Store, chain: str = "none", dtype: str = "int32") -> Array:
    metadata = ArrayMetadata(
        (6, 8), data_type_for(dtype), RegularGrid((3, 4)), fill_value=np.int32(0), codecs=tuple(CHAINS[chain])
    )
    return Array(store, "ocean/temp", metadata)


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("kind", ["memory", "local"])
def test_wrong_length(chain: str, kind: str, tmp_path: Path) -> None:
    store = MemoryStore() if kind == "memory" else LocalStore(tmp_path, "r+")
    array = make(store, chain)
    array.write(..., np.arange(48).reshape(6, 8))
    key = "ocean/temp/c/1/0"
    data = store.get(key)
    assert data is not None
    other = make(MemoryStore(), chain, "int64")
    other.write(..., 1)
    wrong = [b"", b"x", data[:-1], data[: len(data) // 2], os.urandom(len(data)), other.store.get(key)]
    if chain == "none":
        wrong[4] = data + b"x"
    for bad in wrong:
        store.set(key, bad)
        for selection in (..., (slice(3, None), 0), (4, [3, 1, 2])):
            with pytest.raises(ChunkError) as caught:
                array.read(selection)
            text = str(caught.value)
            assert key in text
            assert "/ocean/temp:" in text
            assert "region [3:6, 0:4]" in text
        assert array.read((0, slice(None))).tolist() == list(range(8))  # the others can be read
        with pytest.raises(ChunkError):
            array.write((3, 0), 5)  # needs the old chunk
        assert store.get(key) == bad
    array.write((slice(3, 6), slice(0, 4)), 7)  # needs it not
    assert (array.read((slice(3, 6), slice(0, 4))) == 7).all()


def test_unreadable_file(tmp_path: Path) -> None:
    array = make(LocalStore(tmp_path, "r+"))
    array.write(..., 1)
    (tmp_path / "ocean/temp/c/0/0").unlink()
    (tmp_path / "ocean/temp/c/0/0").mkdir()
    with pytest.raises(StoreError, match=r"ocean/temp/c/0/0: cannot read: this is a directory, not a file"):
        array.read((0, 0))
    with pytest.raises(StoreError, match=r"ocean/temp/c/0/0: cannot read: this is a directory, not a file"):
        array.write((0, 0), 5)  # needs the old chunk
    (tmp_path / "ocean/temp/c/0/1").unlink()
    (tmp_path / "ocean/temp/c/0/1").symlink_to(tmp_path / "ocean/temp/c/0/1")
    with pytest.raises(StoreError, match=r"c/0/1: .*symbolic links form a loop"):
        array.read((0, 7))


def test_selections_that_do_not_fit() -> None:
    array = make(MemoryStore())
    for bad in (
        (0, 0, 0),
        6,
        -7,
        (slice(None), 8),
        (..., ...),
        "x",
        1.5,
        None,
        True,
        [True] * 5,
        [[0]],
        [0, 6],
        np.array([0.5]),
        (slice("a", None),),
        {"x": 1},
        (slice(None, None, 0),),
        [[1, 2], [3]],
    ):
        with pytest.raises(SelectionError):
            array.read(bad)
        with pytest.raises(SelectionError):
            array.write(bad, 0)
    assert issubclass(SelectionError, IndexError)


def test_out_that_does_not_fit() -> None:
    array = make(MemoryStore())
    for out in (np.empty((6, 7), "i4"), np.empty((6, 8), "i8"), np.empty((6, 8), ">i4")):
        with pytest.raises(SelectionError, match="out has"):
            array.read(out=out)
    frozen = np.zeros((6, 8), "i4")
    frozen.flags.writeable = False
    with pytest.raises(SelectionError, match="read-only"):
        array.read(out=frozen)


def test_values_that_do_not_fit() -> None:
    array = make(MemoryStore())
    with pytest.raises(SelectionError, match="shape"):
        array.write(..., np.zeros((3, 3), "i4"))
    for bad in ("x", 1.5, 2**40, np.array([1.5]), np.array([2**40]), None, [np.nan]):
        with pytest.raises(UnsupportedError):
            array.write(..., bad)
    array.write(..., np.full((6, 8), 3.0))  # no value changes
    array.write((slice(None), 0), np.arange(6, dtype=">i8"))
    assert array.read((slice(None), slice(0, 2))).tolist() == [[i, 3] for i in range(6)]


def test_read_only_store() -> None:
    store = MemoryStore()
    make(store).write(..., 1)
    store.writable = False
    for change in (lambda a: a.write(0, 1), lambda a: a.erase(), lambda a: a.resize((1, 1))):
        with pytest.raises(ReadOnlyError):
            change(make(store))


def test_unknown_codec_is_found_when_data_are_asked_for() -> None:
    metadata = ArrayMetadata(
        (2,),
        data_type_for("i4"),
        RegularGrid((2,)),
        fill_value=np.int32(0),
        codecs=(LITTLE, NamedConfig("best")),
    )
    array = Array(MemoryStore(), "g/v", metadata)
    with pytest.raises(CodecError, match=r"memory: /g/v: the codec 'best' is unknown"):
        array.read()


def test_errors_travel_between_processes() -> None:
    store = MemoryStore()
    array = make(store)
    array.write(..., 1)
    store.set("ocean/temp/c/0/0", b"x")
    with pytest.raises(ChunkError) as caught:
        array.read()
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("chain", CHAINS)
def test_absurd_sizes(chain: str, tmp_path: Path) -> None:
    """A document can promise anything; no memory is taken for it."""
    for store in (MemoryStore(), LocalStore(tmp_path, "r+")):
        for shape, chunks in (((2**62,), (2**40,)), ((2**31, 2**31), (2**31, 2**31)), ((2**62,), (1,))):
            metadata = ArrayMetadata(
                shape,
                data_type_for("int32"),
                RegularGrid(chunks),
                fill_value=np.int32(3),
                codecs=tuple(CHAINS[chain]),
            )
            array = Array(store, "v", metadata)
            with pytest.raises(UnsupportedError, match="memory"):
                array.read()
            one = (2,) * len(shape)
            assert array.read(one) == 3
            key = array.chunk_key(tuple(2 // n for n in chunks))
            for bad in (b"", b"x" * 100, bytes(100)):
                store.set(key, bad)
                with pytest.raises(ChunkError):
                    array.read(one)
            store.delete(key)
            if chunks != (1,):
                with pytest.raises(NCZarrError):
                    array.write(one, 1)

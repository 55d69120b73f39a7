"""Count the bytes, copies and calls of reading local chunks: each short way is taken where it exists."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nczarr.stores import LocalStore
from nczarr.zarr.chunks import read_files
from nczarr.zarr.chunks.array import Array
from nczarr.zarr.chunks.chunks import BoundedCache
from nczarr.zarr.codecs.base import ChunkSpec
from nczarr.zarr.codecs.chain import Chain
from nczarr.zarr.grids import RegularGrid
from nczarr.zarr.metadata import ArrayMetadata, NamedConfig
from nczarr.zarr.types import data_type_for

BYTES = ChunkSpec((1,), np.dtype("uint8"), np.uint8(0))
PLAIN = (NamedConfig("bytes", {"endian": "little"}),)
ZSTD = (*PLAIN, NamedConfig("zstd", {"level": 1, "checksum": False}, BYTES))
VALUES = np.random.default_rng(0).integers(0, 200, (512, 512)).astype("int32")
SHAPE = (512, 512)


class Counts:
    """The bytes that are read, and the calls of some functions."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.bytes, self.reads, self.calls = 0, 0, Counter[str]()
        self._patch = patch
        for name in ("preadv", "pread"):
            self._count_bytes(name)

    def _count_bytes(self, name: str) -> None:
        real = getattr(os, name)

        def read(*arguments: Any) -> Any:
            result = real(*arguments)
            self.bytes += result if isinstance(result, int) else len(result)
            self.reads += 1
            return result

        self._patch.setattr(os, name, read)

    def watch(self, owner: Any, name: str) -> None:
        """Count the calls of a function."""
        real: Callable[..., Any] = getattr(owner, name)

        def call(*arguments: Any, **more: Any) -> Any:
            self.calls[name] += 1
            return real(*arguments, **more)

        self._patch.setattr(owner, name, call)

    def clear(self) -> None:
        self.bytes, self.reads = 0, 0
        self.calls.clear()


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    monkeypatch.setattr(read_files, "CHUNKS", BoundedCache(64 << 20))  # nothing of other tests is kept
    counts = Counts(monkeypatch)
    counts.watch(Chain, "decode_raw")
    counts.watch(read_files, "scratch")
    counts.watch(read_files._ChunkFileReader, "read")
    return counts


def make(folder: Path, codecs: Sequence[NamedConfig], chunk: tuple[int, int] = SHAPE) -> Array:
    array = Array(
        LocalStore(folder, "w"),
        "v",
        ArrayMetadata(
            SHAPE, data_type_for("int32"), RegularGrid(chunk), fill_value=np.int32(0), codecs=tuple(codecs)
        ),
    )
    array.write(..., VALUES)
    return array


def read(array: Array, selection: Any) -> None:
    np.testing.assert_array_equal(array.read(selection), VALUES[selection])


def test_only_the_necessary_bytes_of_an_uncompressed_chunk(tmp_path: Path, counts: Counts) -> None:
    array = make(tmp_path, PLAIN)
    for selection, needed in [
        ((slice(10, 20), slice(None)), 10 * 512 * 4),
        ((7, 9), 4),
        ((slice(0, 512), slice(0, 2)), 512 * 512 * 4),  # one read is cheaper than 512
    ]:
        counts.clear()
        read(array, selection)
        assert counts.bytes <= needed, selection
        assert counts.reads <= 2
    counts.clear()
    read(array, (slice(10, 20), slice(None)))
    assert not counts.calls["scratch"]  # the rows are contiguous in the result


def test_an_uncompressed_chunk_goes_directly_into_the_result(tmp_path: Path, counts: Counts) -> None:
    array = make(tmp_path, PLAIN)
    counts.clear()
    read(array, ...)
    assert counts.bytes == VALUES.nbytes
    assert not counts.calls["scratch"]


def test_the_last_decompressor_writes_into_the_result(tmp_path: Path, counts: Counts) -> None:
    array = make(tmp_path, ZSTD)
    counts.clear()
    read(array, ...)
    assert not counts.calls["decode_raw"]


@pytest.mark.parametrize("codecs", [PLAIN, ZSTD], ids=["plain", "zstd"])
def test_small_chunks_of_a_row_are_read_together(
    codecs: Sequence[NamedConfig], tmp_path: Path, counts: Counts
) -> None:
    array = make(tmp_path, codecs, (16, 16))
    counts.clear()
    read(array, ...)
    assert not counts.calls["read"]  # the way of single chunks
    assert counts.reads == 32 * 32


def test_a_few_bytes_of_each_uncompressed_chunk_in_a_row(tmp_path: Path, counts: Counts) -> None:
    array = make(tmp_path, PLAIN, (16, 16))
    counts.clear()
    read(array, (slice(3, 4), slice(None)))
    assert counts.bytes <= 32 * (16 * 4 + 2)


def test_a_decoded_chunk_is_kept_for_the_next_part(tmp_path: Path, counts: Counts) -> None:
    array = make(tmp_path, ZSTD, (256, 256))
    read(array, (slice(0, 200), slice(0, 200)))
    counts.clear()
    read(array, (slice(100, 180), slice(3, 250)))
    assert not counts.bytes
    assert not counts.calls["decode_raw"]
    assert not counts.calls["read"]  # the file is not even opened


def test_an_inner_chunk_costs_its_own_bytes_after_the_index(tmp_path: Path, counts: Counts) -> None:
    inner = {"chunk_shape": [64, 64], "codecs": [c.to_json() for c in PLAIN], "index_location": "end"}
    index = {"index_codecs": [c.to_json() for c in PLAIN]}
    array = make(tmp_path, [NamedConfig("sharding_indexed", {**inner, **index})])
    read(array, (slice(0, 64), slice(0, 64)))
    counts.clear()
    read(array, (slice(64, 128), slice(64, 128)))
    assert counts.bytes == 64 * 64 * 4
    assert not counts.calls["scratch"]

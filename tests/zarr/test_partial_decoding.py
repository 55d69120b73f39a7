"""Decode large zstd chunks partly, and find damage nevertheless."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nczarr.errors import ChunkError
from nczarr.stores import LocalStore, MemoryStore, Store
from nczarr.zarr.chunks import read_files as local_reading
from nczarr.zarr.chunks.array import Array
from nczarr.zarr.chunks.chunks import BoundedCache
from nczarr.zarr.codecs import bytes_bytes as codec_zstd
from nczarr.zarr.codecs.base import ChunkSpec
from nczarr.zarr.codecs.bytes_bytes import ZstdCodec
from nczarr.zarr.grids import RegularGrid
from nczarr.zarr.metadata import ArrayMetadata, NamedConfig
from nczarr.zarr.types import data_type_for

BYTES = ChunkSpec((1,), np.dtype("uint8"), np.uint8(0))
VALUES = np.random.default_rng(0).integers(0, 200, (512, 512)).astype("int32")
ORDERS = [[0, 1], [1, 0]]
POINTS = (slice(3, None, 256), slice(5, None, 256))


@pytest.fixture(autouse=True)
def nothing_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were many more chunks."""
    monkeypatch.setattr(local_reading, "CHUNKS", BoundedCache(0))


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each attempt to decode only the beginning succeeded."""
    answers = []
    original = ZstdCodec.decode_start

    def decode_start(self: ZstdCodec, *arguments: Any) -> bool:
        answers.append(original(self, *arguments))
        return answers[-1]

    monkeypatch.setattr(ZstdCodec, "decode_start", decode_start)
    return answers


def make(store: Store, order: list[int], endian: str = "little", checksum: bool = False) -> Array:
    codecs = (
        NamedConfig("transpose", {"order": order}),
        NamedConfig("bytes", {"endian": endian}),
        NamedConfig("zstd", {"level": 1, "checksum": checksum}, BYTES),
    )
    array = Array(
        store,
        "v",
        ArrayMetadata(
            (512, 512), data_type_for("int32"), RegularGrid((256, 256)), fill_value=np.int32(0), codecs=codecs
        ),
    )
    array.write(..., VALUES)
    return array


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("endian", ["little", "big"])
@pytest.mark.parametrize("kind", ["memory", "local"])
def test_values(kind: str, endian: str, order: list[int], tmp_path: Path, starts: list[bool]) -> None:
    array = make(MemoryStore() if kind == "memory" else LocalStore(tmp_path, "w"), order, endian)
    np.testing.assert_array_equal(array.read(POINTS), VALUES[POINTS])
    assert starts == [True] * 4
    for selection in [
        (slice(0, 100), slice(0, 100)),
        (slice(200, 300), 7),
        ([3, 1, 2], slice(None)),
        (511, 511),
    ]:
        np.testing.assert_array_equal(array.read(selection), VALUES[selection])


def test_without_the_optional_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = make(LocalStore(tmp_path, "w"), ORDERS[0])
    monkeypatch.setattr(codec_zstd, "optional_module", lambda name: None)
    np.testing.assert_array_equal(array.read(POINTS), VALUES[POINTS])


def test_a_checksum_is_looked_at(tmp_path: Path, starts: list[bool]) -> None:
    array = make(LocalStore(tmp_path, "w"), ORDERS[0], checksum=True)
    np.testing.assert_array_equal(array.read(POINTS), VALUES[POINTS])
    assert not any(starts)
    file = tmp_path / "v" / "c" / "1" / "0"
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ChunkError, match="v/c/1/0"):
        array.read(POINTS)


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut short by one": lambda data: data[:-1],
    "half": lambda data: data[: len(data) // 2],
    "something behind": lambda data: data + b"x",
    "another size": lambda data: bytes(ZstdCodec("zstd", {"level": 1}, BYTES).encode(bytes(300_000))),
    "twice": lambda data: data + data,
    "the beginning overwritten": lambda data: data[:20] + bytes(300) + data[320:],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage(damage: str, tmp_path: Path) -> None:
    array = make(LocalStore(tmp_path, "w"), ORDERS[0])
    file = tmp_path / "v" / "c" / "0" / "1"
    file.write_bytes(DAMAGE[damage](file.read_bytes()))
    with pytest.raises(ChunkError, match="v/c/0/1"):
        array.read(POINTS)

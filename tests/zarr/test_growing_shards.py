"""Shards that get more inner chunks in place: for readers beside, after a kill and after a loss of power."""

from __future__ import annotations

import errno
import itertools
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from nczarr.errors import ChunkError, StoreError
from nczarr.stores import LocalStore
from nczarr.zarr import create_hierarchy
from nczarr.zarr.chunks import shard_files
from nczarr.zarr.chunks.array import Array
from nczarr.zarr.grids import RegularGrid
from nczarr.zarr.metadata import ArrayMetadata, NamedConfig
from nczarr.zarr.types import data_type_for

pytestmark = pytest.mark.skipif(
    os.name == "nt", reason="files grow in place where the system has pread and pwrite"
)

LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
ZSTD = {"name": "zstd", "configuration": {"level": 1, "checksum": True}}
CRC = {"name": "crc32c"}
#: 20 rows of 6, in shards of 10 rows and inner chunks of 2 by 3.
SHAPE, SHARD, INNER = (20, 6), (10, 6), (2, 3)
COUNT = 10
INDEX = COUNT * 16 + 4
FILL = -1


def sharding(location: str = "start", **more: Any) -> NamedConfig:
    configuration = {"chunk_shape": INNER, "codecs": [LITTLE, ZSTD], "index_codecs": [LITTLE, CRC], **more}
    return NamedConfig("sharding_indexed", {**configuration, "index_location": location})


def metadata(codec: NamedConfig | None = None) -> ArrayMetadata:
    return ArrayMetadata(
        SHAPE,
        data_type_for("int32"),
        RegularGrid(SHARD),
        fill_value=np.int32(FILL),
        codecs=(codec or sharding(),),
    )


def make(folder: Path, codec: NamedConfig | None = None, *, ordered: bool = False) -> Array:
    store = LocalStore(folder, "w")
    store.keep_order(ordered)
    return Array(store, "v", metadata(codec))


def shard_file(folder: Path, row: int = 0) -> Path:
    return folder / "v" / "c" / str(row) / "0"


def entries(data: bytes) -> dict[int, tuple[int, int]]:
    """The index at the start of a shard, read by the letter of the specification."""
    index = data[:INDEX]
    assert struct.unpack("<I", index[-4:])[0] == google_crc32c.value(index[:-4])
    numbers = struct.unpack(f"<{2 * COUNT}Q", index[:-4])
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return {i: pair for i, pair in enumerate(pairs) if pair[0] != 2**64 - 1}


boxes = st.tuples(
    st.integers(0, 19), st.integers(1, 12), st.integers(0, 5), st.integers(1, 6), st.integers(0, 1000)
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(writes=st.lists(boxes, min_size=1, max_size=12), ordered=st.booleans())
def test_any_writes(tmp_path_factory: pytest.TempPathFactory, writes: list[Any], ordered: bool) -> None:
    """After each write, nczarr and zarr-python read the values of a numpy array."""
    folder = tmp_path_factory.mktemp("grow")
    store = LocalStore(folder, "w")
    hierarchy = create_hierarchy(store)
    hierarchy.put_array("v", metadata())
    hierarchy.close()
    array = make(folder, ordered=ordered)
    values = np.full(SHAPE, FILL, "i4")
    for row, rows, column, columns, value in writes:
        place = slice(row, min(row + rows, 20)), slice(column, min(column + columns, 6))
        new = value + np.arange(values[place].size).reshape(values[place].shape)
        array.write(place, new.astype("i4"))
        values[place] = new
        assert (array.read() == values).all()
        assert (make(folder).read() == values).all()
    peer = zarr.open_array(store=str(folder / "v"), mode="r")
    assert (peer[...] == values).all()
    for path in folder.glob("v/c/*/*"):
        data = path.read_bytes()
        parts = sorted(entries(data).values())
        assert all(a + n <= b for (a, n), (b, _) in itertools.pairwise(parts))
        assert not list(path.parent.glob(".*"))


def test_bytes_in_use_never_change(tmp_path: Path) -> None:
    """A reader with the index of a moment finds its inner chunks as long as the file keeps its name."""
    array = make(tmp_path)
    array.write((slice(0, 2), slice(0, 3)), 7)
    path = shard_file(tmp_path)
    before, inode = path.read_bytes(), path.stat().st_ino
    for value in range(50):
        array.write((slice(0, 2), slice(0, 3)), value)
        array.write((slice(2, 4), slice(0, 6)), value)
        data = path.read_bytes()
        for offset, length in entries(before).values():
            assert data[offset : offset + length] == before[offset : offset + length]
        assert path.stat().st_ino == inode
        before = data


def test_an_appended_inner_chunk_costs_its_own_bytes(tmp_path: Path) -> None:
    """Other inner chunks are not written again, and few bytes are wasted."""
    array = make(tmp_path, sharding(codecs=[LITTLE]))
    array.write((slice(0, 2), slice(0, 3)), 0)
    inode = shard_file(tmp_path).stat().st_ino
    for number in range(1, COUNT):
        row, column = divmod(number, 2)
        array.write((slice(2 * row, 2 * row + 2), slice(3 * column, 3 * column + 3)), number)
        assert shard_file(tmp_path).stat().st_ino == inode
        assert shard_file(tmp_path).stat().st_size == 2 * INDEX + (number + 1) * 24


def test_waste_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard is written as a whole when most of its bytes belong to replaced inner chunks."""
    monkeypatch.setattr(shard_files, "_LITTLE_WASTE", 100)
    array = make(tmp_path, sharding(codecs=[LITTLE]))
    array.write((slice(0, 10), slice(0, 6)), 1)
    inodes = set()
    for value in range(100):
        array.write((slice(4, 6), slice(0, 3)), value)
        inodes.add(shard_file(tmp_path).stat().st_ino)
        assert shard_file(tmp_path).stat().st_size <= 2 * INDEX + 2 * 240 + 24
        assert array.read((4, 0)) == value
        assert array.read((9, 5)) == 1
    assert 2 < len(inodes) + 1 < 30  # an inode number may come back


def test_a_reader_sees_each_change(tmp_path: Path) -> None:
    """Its cached index is never older than the file, although changes follow each other within one tick."""
    array, reader = make(tmp_path), make(tmp_path)
    array.write((slice(0, 2), slice(0, 6)), 0)
    for value in range(300):
        array.write((slice(2, 4), slice(0, 3)), value)
        assert reader.read((2, slice(0, 3))).tolist() == [value] * 3
        assert reader.read(0).tolist() == [0] * 6


def torn(data: bytes) -> bytes:
    return data[:8] + b"\1" * 16 + data[24:]


def test_a_torn_index(tmp_path: Path) -> None:
    """The copy at the end stands in for the index at the start, and the next write restores it."""
    array = make(tmp_path)
    array.write((slice(0, 2), slice(0, 6)), 1)
    array.write((slice(2, 4), slice(0, 6)), 2)
    path = shard_file(tmp_path)
    path.write_bytes(torn(path.read_bytes()))
    for reader in (array, make(tmp_path)):
        assert reader.read((slice(0, 6), 0)).tolist() == [1, 1, 2, 2, -1, -1]
    make(tmp_path).write((slice(4, 6), slice(0, 6)), 3)
    assert len(entries(path.read_bytes())) == 6
    assert array.read((slice(0, 6), 0)).tolist() == [1, 1, 2, 2, 3, 3]
    path.write_bytes(torn(path.read_bytes())[:-1])
    with pytest.raises(ChunkError, match="checksum"):
        make(tmp_path).read()
    with pytest.raises(ChunkError, match="checksum"):
        make(tmp_path).write((0, 0), 1)


def test_a_torn_index_is_found_and_restored(tmp_path: Path) -> None:
    array = make(tmp_path)
    array.write(..., 1)
    assert list(array.torn_indexes()) == []
    path = shard_file(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(torn(whole))
    assert list(array.torn_indexes()) == [(0, 0)]
    array.restore_index((0, 0))
    assert entries(path.read_bytes()) == entries(whole)
    assert list(array.torn_indexes()) == []


def test_links(tmp_path: Path) -> None:
    """A snapshot by hard links keeps its values, and the target of a symbolic link, too."""
    array = make(tmp_path)
    array.write((slice(0, 10), slice(0, 6)), 1)
    array.write((slice(10, 20), slice(0, 6)), 1)
    (tmp_path / "snapshot").mkdir()
    os.link(shard_file(tmp_path), tmp_path / "snapshot" / "0")
    shard_file(tmp_path, 1).rename(tmp_path / "snapshot" / "1")
    shard_file(tmp_path, 1).symlink_to(tmp_path / "snapshot" / "1")
    before = [(tmp_path / "snapshot" / name).read_bytes() for name in "01"]
    array.write((slice(8, 12), slice(0, 6)), 2)
    assert [(tmp_path / "snapshot" / name).read_bytes() for name in "01"] == before
    assert array.read((slice(7, 13), 0)).tolist() == [1, 2, 2, 2, 2, 1]


@pytest.mark.parametrize(
    "codec",
    [sharding("end"), sharding(index_codecs=[LITTLE])],
    ids=["index at the end", "index without checksum"],
)
def test_other_shards_are_written_as_a_whole(tmp_path: Path, codec: NamedConfig) -> None:
    array = make(tmp_path, codec)
    array.write((slice(0, 2), slice(0, 6)), 1)
    path = shard_file(tmp_path)
    kept = path.open("rb")
    array.write((slice(2, 4), slice(0, 6)), 2)
    assert os.fstat(kept.fileno()).st_nlink == 0
    kept.close()
    assert array.read((slice(0, 6), 0)).tolist() == [1, 1, 2, 2, -1, -1]


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An inner chunk that finds no room leaves the others, and no bytes."""
    array = make(tmp_path)
    array.write((slice(0, 2), slice(0, 6)), 1)
    array.write((slice(2, 4), slice(0, 6)), 2)
    size = shard_file(tmp_path).stat().st_size
    pwrite = os.pwrite

    def full(descriptor: int, data: Any, offset: int) -> int:
        if len(data) > 10:
            return pwrite(descriptor, data[:10], offset)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(StoreError, match="No space left"):
            array.write((slice(4, 6), slice(0, 6)), 3)
    assert shard_file(tmp_path).stat().st_size <= size
    for reader in (array, make(tmp_path)):
        assert reader.read((slice(0, 6), 0)).tolist() == [1, 1, 2, 2, -1, -1]
    array.write((slice(4, 6), slice(0, 6)), 3)
    assert array.read((slice(0, 6), 0)).tolist() == [1, 1, 2, 2, 3, 3]


class Disk:
    """Records what a writer does to files in place, to find what a loss of power may leave."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[tuple[int, bytes] | None] = []
        pwrite = os.pwrite

        def write(descriptor: int, data: Any, offset: int) -> int:
            self.done.append((offset, bytes(data)))
            return pwrite(descriptor, data, offset)

        def sync(descriptor: int, **_: object) -> None:
            self.done.append(None)

        monkeypatch.setattr(os, "pwrite", write)
        monkeypatch.setattr(shard_files, "sync_descriptor", sync)

    def states(self, durable: bytes) -> Iterator[tuple[bytes, int]]:
        """Each content that the disk may have after a loss of power, and the number of syncs before it."""
        content, waiting = durable, list[tuple[int, bytes]]()
        syncs = 0
        for step in [*self.done, None]:
            for pieces in itertools.product(*[self._pieces(*write) for write in waiting]):
                state = content
                for offset, data in pieces:
                    state = put(state, offset, data)
                yield state, syncs
            if step is not None:
                waiting.append(step)
                continue
            for offset, data in waiting:
                content = put(content, offset, data)
            waiting = []
            syncs += 1

    @staticmethod
    def _pieces(offset: int, data: bytes) -> list[tuple[int, bytes]]:
        """Nothing, all, the first or the last half, or a piece in the middle, where pages are written in any order."""
        third = len(data) // 3
        return [
            (offset, b""),
            (offset, data),
            (offset, data[:third]),
            (offset + 2 * third, data[2 * third :]),
            (offset + third, data[third : 2 * third]),
        ]


def put(content: bytes, offset: int, data: bytes) -> bytes:
    if not data:
        return content
    content = content.ljust(offset, b"\0")
    return content[:offset] + data + content[offset + len(data) :]


def test_loss_of_power(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In each content of the disk, the earlier inner chunks are whole; new ones are whole, or not there."""
    array = make(tmp_path / "a", ordered=True)
    array.write((slice(0, 2), slice(0, 6)), 1)
    array.store.settle()
    disk = Disk(monkeypatch)
    for number in range(3):
        path = shard_file(tmp_path / "a")
        durable = path.read_bytes()
        disk.done.clear()
        array.write((slice(2 * number + 2, 2 * number + 4), slice(0, 6)), number + 2)
        assert disk.done.count(None) == 2
        expected = [1, *range(2, number + 2)]
        after = tmp_path / f"b{number}"
        reader = make(after)
        seen = set()
        for state, syncs in disk.states(durable):
            shard_file(after).parent.mkdir(parents=True, exist_ok=True)
            shard_file(after).unlink(missing_ok=True)
            shard_file(after).write_bytes(state)
            values = reader.read((slice(0, 10, 2), 0)).tolist()
            assert values[: number + 1] == expected
            assert values[number + 1] in (FILL, number + 2)
            assert syncs < 2 or values[number + 1] == number + 2
            seen.add(values[number + 1])
            # A writer goes on from there.
            again = make(after, ordered=True)
            again.write((slice(8, 10), slice(0, 6)), 9)
            values[-1] = 9
            assert again.read((slice(0, 10, 2), 0)).tolist() == values
            assert len(entries(shard_file(after).read_bytes())) >= 2 * (number + 2)
        assert seen == {FILL, number + 2}


def test_the_disk_is_not_waited_for_while_a_file_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has nothing to lose; after a sync, it has."""
    synced: list[int] = []
    monkeypatch.setattr(shard_files, "sync_descriptor", lambda descriptor, **_: synced.append(descriptor))
    array = make(tmp_path, ordered=True)
    for row in range(0, 6, 2):
        array.write((slice(row, row + 2), slice(0, 6)), row)
    assert not synced
    array.store.settle()
    array.write((slice(6, 8), slice(0, 6)), 6)
    assert len(synced) == 2
    array.store.keep_order(False)
    array.write((slice(8, 10), slice(0, 6)), 6)
    assert len(synced) == 2


def interrupt_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the system call number `step` that changes a file raise an error as an interrupt does."""
    left = [step]

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def do(*arguments: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            return call(*arguments, **options)

        return do

    for name in ("pwrite", "utime", "ftruncate", "replace"):
        monkeypatch.setattr(os, name, counted(getattr(os, name)))


@pytest.mark.parametrize("step", range(5))
def test_an_interrupt_at_each_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    array = make(tmp_path)
    array.write((slice(0, 2), slice(0, 6)), 1)
    array.write((slice(2, 4), slice(0, 6)), 2)
    with monkeypatch.context() as patch:
        interrupt_at(step, patch)
        try:
            array.write((slice(4, 6), slice(0, 6)), 3)
            interrupted = False
        except KeyboardInterrupt:
            interrupted = True
    assert interrupted == (step < 3)
    for reader in (array, make(tmp_path)):
        assert reader.read((slice(0, 6), 0)).tolist() in ([1, 1, 2, 2, -1, -1], [1, 1, 2, 2, 3, 3])
    array.write((slice(6, 8), slice(0, 6)), 4)
    assert array.read((slice(6, 8), 0)).tolist() == [4, 4]
    assert make(tmp_path).read((slice(0, 4), 0)).tolist() == [1, 1, 2, 2]


def test_another_program_replaces_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values are never written to a file that has lost its name."""
    array = make(tmp_path)
    array.write((slice(0, 2), slice(0, 6)), 1)
    path = shard_file(tmp_path)
    pwrite = os.pwrite

    def replaced(descriptor: int, data: Any, offset: int) -> int:
        monkeypatch.setattr(os, "pwrite", pwrite)
        copy = path.with_name("copy")
        copy.write_bytes(path.read_bytes())
        copy.replace(path)
        return pwrite(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", replaced)
    array.write((slice(2, 4), slice(0, 6)), 2)
    assert array.read((slice(0, 6), 0)).tolist() == [1, 1, 2, 2, -1, -1]


def test_whole_inner_chunks(tmp_path: Path) -> None:
    """Blocks of several shards, also beyond the shape, each shard by one change of its file."""
    array = make(tmp_path)
    assert array.shards_grow
    blocks = {
        (row, column): np.full(INNER, 10 * row + column, "i4") for row in range(10) for column in range(2)
    }
    array.write_blocks(blocks)
    assert array.read((slice(0, 20, 2), slice(0, 6, 3))).tolist() == [[10 * r, 10 * r + 1] for r in range(10)]

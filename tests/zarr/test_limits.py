"""Read hostile input within bounds of memory and time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nczarr.errors import ChunkError, CodecError, MetadataError, NCZarrError, StoreError
from nczarr.stores import LocalStore, MemoryStore, Store
from nczarr.zarr import (
    LIMITS,
    Array,
    ArrayMetadata,
    GroupMetadata,
    Limits,
    NamedConfig,
    RegularGrid,
    create_hierarchy,
    data_type_for,
    open_hierarchy,
)
from nczarr.zarr.chunks.chunks import CHUNKS
from nczarr.zarr.codecs.base import ChunkSpec
from nczarr.zarr.codecs.chain import Chain
from nczarr.zarr.grids import RectilinearGrid
from nczarr.zarr.hierarchy.layouts import RawNode, with_parents

N = NamedConfig


def array(
    store: Store, shape: tuple[int, ...], chunks: Any, *codecs: NamedConfig, dtype: str = "int8"
) -> Array:
    data_type = data_type_for(dtype)
    grid = RegularGrid(chunks) if isinstance(chunks, tuple) else chunks
    metadata = ArrayMetadata(
        shape, data_type, grid, fill_value=data_type.zero(), codecs=codecs or (N("bytes"),)
    )
    return create_hierarchy(store).put_array("v", metadata)


# --- many chunks


def peak(work: Any) -> int:
    tracemalloc.start()
    work()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


@pytest.mark.parametrize("kind", ["memory", "local"])
def test_a_stride_passes_over_a_thousand_million_chunks(kind: str, tmp_path: Path) -> None:
    store = MemoryStore() if kind == "memory" else LocalStore(tmp_path, "w")
    some = array(store, (10**12,), (1,))
    some.write(slice(0, 10**12, 10**10), 5)
    assert peak(lambda: some.read(slice(0, 10**12, 10**10))) < 1 << 20
    assert some.read(slice(0, 10**12, 10**10)).tolist() == [5] * 100
    assert some.read(slice(1, 10**12, 10**10)).tolist() == [0] * 100


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "local"])
def test_a_plan_is_bounded(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "plan_chunks", 500)
    some = array(MemoryStore() if kind == "memory" else LocalStore(tmp_path, "w"), (100, 400), (1, 1))
    some.write((slice(7, 9), slice(None)), np.arange(400) % 100)
    read: list[np.ndarray] = []
    # Without steps, each of the 40,000 chunks has its place in a list.
    assert peak(lambda: read.append(some.read())) < 1 << 20
    assert read[0][7:9].tolist() == [(np.arange(400) % 100).tolist()] * 2


@pytest.mark.parametrize("limit", [1, 2, 5, 1000])
@pytest.mark.parametrize("grid", [(3, 2), RectilinearGrid(((1, 4, 2, 6), 3))])
def test_steps_against_numpy(grid: Any, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "plan_chunks", limit)
    values = np.arange(13 * 11, dtype="int16").reshape(13, 11)
    some = array(MemoryStore(), (13, 11), grid, N("bytes", {"endian": "little"}), dtype="int16")
    some.write(..., values)
    selections: list[Any] = [
        ...,
        (slice(1, 12, 2), slice(None, None, -1)),
        (slice(2, None, 5), 3),
        ([5, 1, 12, 1], slice(1, 10)),
        (slice(None, None, -4), [10, 0, 4]),
        (slice(3, 3), slice(None)),
        (12, 10),
    ]
    for selection in selections:
        np.testing.assert_array_equal(some.read(selection), values[selection])
        changed = values.copy()
        other = array(MemoryStore(), (13, 11), grid, N("bytes", {"endian": "little"}), dtype="int16")
        other.write(..., values)
        other.write(selection, 7)
        changed[selection] = 7
        np.testing.assert_array_equal(other.read(), changed)


# --- long values


@pytest.mark.slow
def test_a_bomb_of_text(tmp_path: Path) -> None:
    """Two megabytes that become two gigabytes: what comes out is bounded, and so is the memory."""
    some = array(
        LocalStore(tmp_path, "w"), (1,), (1,), N("vlen-utf8"), N("gzip", {"level": 9}), dtype="string"
    )
    some.write(..., "x")
    bomb = tmp_path / "v" / "c" / "0"
    writer = zlib.compressobj(9, wbits=31)  # of gzip
    # Behind a full flush the same bytes mean the same again; the checksum at the end is not come to.
    pieces = [writer.compress(bytes(8 << 20)) + writer.flush(zlib.Z_FULL_FLUSH) for _ in range(2)]
    bomb.write_bytes(pieces[0] + pieces[1] * 255 + writer.flush())
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (3 << 29, 3 << 29))\n"
        "from nczarr.stores import LocalStore; from nczarr.zarr import open_hierarchy\n"
        "from nczarr.errors import ChunkError\n"
        "try: open_hierarchy(LocalStore(sys.argv[1])).array('v').read()\n"
        "except ChunkError as error: print(error)"
    )
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert "exceed the chunk" in done.stdout, done.stderr
    assert "NCZARR_MAX_VARIABLE_CHUNK_BYTES" in done.stdout


def test_no_text_is_written_that_could_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "variable_chunk_bytes", 1000)
    some = array(MemoryStore(), (2,), (2,), N("vlen-utf8"), dtype="string")
    with pytest.raises(ChunkError, match="use smaller chunks"):
        some.write(..., "x" * 600)
    some.write(..., "x" * 100)
    assert some.read().tolist() == ["x" * 100] * 2


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_a_sparse_chunk_is_not_read(codec: str, tmp_path: Path) -> None:
    some = array(LocalStore(tmp_path, "w"), (4,), (4,), N("bytes"), N(codec))
    some.write(..., 1)
    os.truncate(tmp_path / "v" / "c" / "0", 3 << 40)
    for selection in (..., 0):
        with pytest.raises(ChunkError, match=r"v/c/0.*bytes"):
            some.read(selection)
    with pytest.raises(ChunkError, match=r"v/c/0.*bytes"):
        some.write(0, 2)


@pytest.mark.parametrize("key", ["zarr.json", "v/zarr.json"])
def test_a_sparse_document_is_not_read(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "document_bytes", 1 << 20)
    array(LocalStore(tmp_path, "w"), (4,), (4,))
    os.truncate(tmp_path / key, 3 << 40)
    with pytest.raises(MetadataError, match="NCZARR_MAX_DOCUMENT_BYTES"):
        open_hierarchy(LocalStore(tmp_path)).array("v")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
@pytest.mark.parametrize("count", [1, 64])
def test_a_pipe_in_the_place_of_a_chunk_is_refused(count: int, tmp_path: Path) -> None:
    array(LocalStore(tmp_path, "w"), (count,), (1,)).write(..., 1)
    chunk = tmp_path / "v" / "c" / "0"
    chunk.unlink()
    os.mkfifo(chunk)
    with pytest.raises(StoreError, match="this is a pipe, not a file"):
        open_hierarchy(LocalStore(tmp_path)).array("v").read()


# --- deep nesting


def nested(depth: int) -> list[str]:
    return ["/".join(["g"] * n) for n in range(1, depth + 1)]


def test_nesting_costs_one_look_at_each_node() -> None:
    looked: list[str] = []

    class Nodes(dict[str, RawNode]):
        def get(self, path: str, default: Any = None) -> Any:
            looked.append(path)
            return super().get(path, default)

    paths = nested(3000)
    found = with_parents(Nodes({path: RawNode(False) for path in reversed(paths)}))
    assert list(found) == ["", *paths]
    assert len(looked) < 3 * len(paths)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["v3", "v2"])
@pytest.mark.parametrize("consolidated", [True, False])
def test_deep_groups(layout: Any, consolidated: bool) -> None:
    store = MemoryStore()
    hierarchy = create_hierarchy(store, layout=layout)
    paths = nested(1000)
    hierarchy.put_many((path, GroupMetadata({"n": n})) for n, path in enumerate(paths))
    if consolidated:
        hierarchy.consolidate()
    again = open_hierarchy(store)
    assert list(again.nodes) == ["", *paths]
    assert again.nodes[paths[-1]].attributes == {"n": 999}


def test_implied_groups_above_a_node_are_created() -> None:
    hierarchy = create_hierarchy(MemoryStore())
    hierarchy.put_group("a/b/c", GroupMetadata())
    hierarchy.put_group("a/b/c/d/e", GroupMetadata())
    assert list(open_hierarchy(hierarchy.store).nodes) == ["", "a", "a/b", "a/b/c", "a/b/c/d", "a/b/c/d/e"]


def test_nodes_inside_arrays_are_left_out_and_named() -> None:
    store = MemoryStore()
    array(store, (4,), (4,))
    for path in ("v/inside", "v/x/y"):
        store.set(f"{path}/zarr.json", b'{"zarr_format":3,"node_type":"group"}')
    hierarchy = open_hierarchy(store)
    assert list(hierarchy.nodes) == ["", "v"]
    assert [path for path, _ in hierarchy.deviations()] == ["v/inside", "v/x/y"]


# --- configurations that are no configurations

SHARD = {
    "chunk_shape": [2],
    "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
}
NONSENSE: list[Any] = [[], "x", 7, None, [[]], {"": []}, [None], True]


@pytest.mark.parametrize("value", NONSENSE)
@pytest.mark.parametrize(
    "inner", ["bytes", "gzip", "blosc", "transpose", "sharding_indexed", "numcodecs.delta", "nothing"]
)
@pytest.mark.parametrize("where", ["codecs", "index_codecs"])
def test_nonsense_inside_a_shard(where: str, inner: str, value: Any) -> None:
    configuration = {**SHARD, where: [{"name": inner, "configuration": value}]}
    store = MemoryStore()
    document = {
        "zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "int32", "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
        "chunk_key_encoding": {"name": "default"},
        "codecs": [{"name": "sharding_indexed", "configuration": configuration}],
    }  # fmt: skip
    store.set("zarr.json", json.dumps(document).encode())
    with pytest.raises(NCZarrError):
        open_hierarchy(store).array("").read()


@pytest.mark.parametrize(
    "order", [["1", 0], [1.0, 0.0], [True, False], [0, 0], [0], "10", 10, {"0": 1}, [[1], [0]]]
)
def test_an_order_that_is_none(order: Any) -> None:
    codecs = [N("transpose", {"order": order}), N("bytes")]
    with pytest.raises(CodecError, match="order"):
        Chain(codecs, ChunkSpec((2, 3), np.dtype("u1"), np.uint8(0)))


# --- what is kept


def test_nothing_is_kept_of_a_closed_hierarchy(tmp_path: Path) -> None:
    array(LocalStore(tmp_path, "w"), (1000,), (500,), N("bytes"), N("gzip")).write(..., 1)
    hierarchy, other = (open_hierarchy(LocalStore(tmp_path)) for _ in range(2))
    before = len(CHUNKS)
    for each in (hierarchy, other):
        each.array("v").read(3)
        each.array("v").read(700)
    assert len(CHUNKS) == before + 4
    hierarchy.close()
    assert len(CHUNKS) == before + 2
    other.array("v").close()
    assert len(CHUNKS) == before


def test_limits_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCZARR_MAX_DOCUMENT_BYTES", "1234")
    monkeypatch.setenv("NCZARR_MAX_CACHE_BYTES", "")
    assert Limits.from_environment() == Limits(document_bytes=1234)
    monkeypatch.setenv("NCZARR_MAX_PLAN_CHUNKS", "many")
    with pytest.warns(UserWarning, match="NCZARR_MAX_PLAN_CHUNKS"):
        assert Limits.from_environment() == Limits(document_bytes=1234)


def test_the_page_names_every_limit() -> None:
    page = (Path(__file__).parents[2] / "docs" / "limits.md").read_text("utf-8")
    for name, default in vars(Limits()).items():
        line = next(line for line in page.splitlines() if f"`NCZARR_MAX_{name.upper()}`" in line)
        assert f" {default:,} " in line

"""Add a codec, a data type, a chunk grid and a chunk key encoding by entry points of a package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nczarr.errors import CodecError
from nczarr.zarr.plugins import Registry

PACKAGE = """
from dataclasses import dataclass
import numpy as np
from nczarr.zarr.chunk_keys import ChunkKeyEncoding
from nczarr.zarr.codecs.base import BytesBytesCodec
from nczarr.zarr.codecs.base import as_bytes_array, deliver
from nczarr.zarr.grids import ChunkGrid
from nczarr.zarr.types import DataType

class Mask(BytesBytesCodec):
    def __init__(self, name, configuration, spec):
        self.name, self.mask = name, np.uint8(configuration["mask"])
    def encoded_size(self, size):
        return size
    def encode(self, data):
        return as_bytes_array(data) ^ self.mask
    def decode(self, data, size, limit, out=None):
        return deliver(self.name, as_bytes_array(data) ^ self.mask, size, limit, out)

@dataclass(frozen=True)
class Percent(DataType):
    @property
    def dtype(self):
        return np.dtype("float32")
    def fill_from_json(self, value):
        return np.float32(value.removesuffix("%"))
    def fill_to_json(self, value):
        return f"{float(value):g}%"

def percent(name, configuration):
    return Percent(name)

@dataclass(frozen=True)
class Growing(ChunkGrid):
    largest: int
    @property
    def chunk_shape(self):
        return (self.largest,)
    def lengths(self, dimension, size):
        lengths = np.arange(1, self.largest + 1)
        return lengths[: int(np.searchsorted(np.cumsum(lengths), size)) + 1]
    def to_json(self):
        return {"name": "tiny.growing", "configuration": {"largest": self.largest}}

def growing(configuration, shape):
    return Growing(configuration["largest"])

@dataclass(frozen=True)
class Padded(ChunkKeyEncoding):
    name: str = "tiny.padded"
    def key(self, index):
        return "c/" + "/".join(f"{i:06}" for i in index)
    def indices(self, keys, grid, skip=0):
        found = [key[skip:].split("/")[1:] for key in keys if key.startswith("c/", skip)]
        return [tuple(map(int, parts)) for parts in found]
    def to_json(self):
        return {"name": self.name}

def padded(configuration):
    return Padded()

def broken(*arguments):
    raise RuntimeError("out of order")

nothing = 7
"""
ENTRY_POINTS = """
[nczarr.codecs]
tiny.mask = tiny_plugin:Mask
tiny.broken = tiny_plugin:broken
tiny.nothing = tiny_plugin:nothing
tiny.absent = tiny_plugin:absent
gzip = tiny_plugin:broken
[nczarr.data_types]
tiny.percent = tiny_plugin:percent
[nczarr.chunk_grids]
tiny.growing = tiny_plugin:growing
[nczarr.chunk_key_encodings]
tiny.padded = tiny_plugin:padded
"""
WRITE = """
import json, sys
import numpy as np
from nczarr.stores import LocalStore
from nczarr.zarr import open_hierarchy
store = LocalStore(sys.argv[1], "w")
document = {
    "zarr_format": 3, "node_type": "array", "shape": [8], "data_type": "tiny.percent", "fill_value": "2.5%",
    "chunk_grid": {"name": "tiny.growing", "configuration": {"largest": 4}},
    "chunk_key_encoding": {"name": "tiny.padded"},
    "codecs": [{"name": "bytes", "configuration": {"endian": "little"}},
               {"name": "tiny.mask", "configuration": {"mask": 255}}],
}
store.set("zarr.json", json.dumps(document).encode())
hierarchy = open_hierarchy(store, mode="r+")
array = hierarchy.array("")
array.write(slice(1, 8), np.arange(1, 8))
print(array.read().tolist(), array.nchunks, array.initialized_chunks(), array.chunk_region((3,)))
hierarchy.put_array("", array.metadata)
written = json.loads(store.get("zarr.json"))
assert {**document, "attributes": {}} == written, written
print(np.frombuffer(store.get("c/000001"), np.uint8).tolist())
"""
ERRORS = """
import numpy as np
from nczarr.errors import NCZarrError
from nczarr.zarr.codecs.chain import Chain
from nczarr.zarr.codecs.base import ChunkSpec
from nczarr.zarr.metadata import NamedConfig
for name in ("tiny.broken", "tiny.nothing", "tiny.absent", "tiny.unknown", "gzip"):
    codecs = [NamedConfig("bytes"), NamedConfig(name)]
    try:
        print(name, type(Chain(codecs, ChunkSpec((1,), np.dtype("u1"), 0))).__name__)
    except NCZarrError as error:
        print(name, type(error).__name__, error.message)
"""


def run(code: str, folder: Path, *arguments: str, installed: bool = True) -> subprocess.CompletedProcess[str]:
    (folder / "tiny_plugin.py").write_text(PACKAGE)
    information = folder / "tiny_plugin-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-plugin\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(ENTRY_POINTS)
    paths = [str(folder)] if installed else []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=environment, check=False
    )


def test_all_parts_of_an_array(tmp_path: Path) -> None:
    done = run(WRITE, tmp_path, str(tmp_path / "store"))
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == ("[2.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0] 4 [(1,), (2,), (3,)] (slice(6, 8, 1),)")
    values = [1.0, 2.0]
    import numpy as np

    assert second == str((np.array(values, "<f4").view(np.uint8) ^ np.uint8(255)).tolist())


def test_without_the_package(tmp_path: Path) -> None:
    done = run(WRITE, tmp_path, str(tmp_path / "store"), installed=False)
    assert "MetadataError" in done.stderr
    assert "is unknown" in done.stderr


def test_what_does_not_work_is_named(tmp_path: Path) -> None:
    done = run(ERRORS, tmp_path)
    lines = done.stdout.splitlines()
    assert (
        lines[0] == "tiny.broken CodecError codec 'tiny.broken': the configuration is invalid: out of order"
    )
    assert lines[1].startswith(
        "tiny.nothing CodecError the codec 'tiny.nothing' cannot be loaded: the object is not callable"
    )
    assert lines[2].startswith("tiny.absent CodecError the codec 'tiny.absent' cannot be loaded")
    assert lines[3].startswith("tiny.unknown CodecError the codec 'tiny.unknown' is unknown")
    assert lines[4] == "gzip Chain"  # what is built in stays


def test_a_registry_asks_for_entry_points_only_when_a_name_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    registry = Registry[int]("example.group", "number", CodecError)
    monkeypatch.setattr(
        "importlib.metadata.entry_points",
        lambda group: asked.append(group) or [],  # type: ignore[func-returns-value]
    )
    registry.register("one", 1)
    assert registry.find("one") == 1
    assert not asked
    assert registry.find("two") is None
    assert registry.find("three") is None
    assert asked == ["example.group"]

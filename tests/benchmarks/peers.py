"""The libraries that are compared, behind one small interface: create, open, write, read."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ATTRIBUTES = {f"attribute_{i}": f"value {i}" for i in range(10)}


def _v3(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": name, "configuration": configuration}


#: Codecs by the name that the tables use, as Zarr v3 documents spell them.
CODECS: dict[str, list[dict[str, Any]]] = {
    "none": [],
    "zstd": [_v3("zstd", level=1, checksum=False)],
    "blosc": [_v3("blosc", cname="lz4", clevel=5, shuffle="shuffle", typesize=4, blocksize=0)],
    "gzip": [_v3("gzip", level=1)],
}
BYTES = _v3("bytes", endian="little")


def codecs(name: str, inner: tuple[int, ...] | None = None) -> list[dict[str, Any]]:
    """Return the chain for a table's name, inside shards if `inner` is the shape of their chunks."""
    chain = [BYTES, *CODECS[name]]
    if inner is None:
        return chain
    index = [BYTES, {"name": "crc32c"}]
    return [
        _v3(
            "sharding_indexed",
            chunk_shape=list(inner),
            codecs=chain,
            index_codecs=index,
            index_location="end",
        )
    ]


class Peer:
    """One library; `open` returns (read, write), called with a selection."""

    name = ""
    zarr = True

    def create(self, path: Path, shape: Any, chunks: Any, codec: str, inner: Any = None) -> Any:
        raise NotImplementedError

    def open(self, path: Path) -> Any:
        raise NotImplementedError

    def read(self, array: Any, selection: Any) -> Any:
        return array[selection]

    def write(self, array: Any, values: np.ndarray) -> None:
        array[...] = values

    def close(self, array: Any) -> None:
        pass

    def count_chunks(self, path: Path) -> int:
        """Return how many chunks of an array are stored."""
        raise NotImplementedError

    def create_many(self, path: Path, count: int) -> None:
        raise NotImplementedError

    def list_many(self, path: Path) -> int:
        """Open a group and look at the shape and the attributes of each array."""
        raise NotImplementedError


class NczarrPeer(Peer):
    name = "nczarr"

    def create(self, path: Path, shape: Any, chunks: Any, codec: str, inner: Any = None) -> Any:
        from nczarr.stores import LocalStore
        from nczarr.zarr.grids import RegularGrid
        from nczarr.zarr.hierarchy.opening import create_hierarchy
        from nczarr.zarr.metadata import ArrayMetadata, NamedConfig
        from nczarr.zarr.types import data_type_for

        chain = tuple(NamedConfig(c["name"], c.get("configuration", {})) for c in codecs(codec, inner))
        metadata = ArrayMetadata(
            tuple(shape),
            data_type_for("float32"),
            RegularGrid(tuple(chunks)),
            fill_value=np.float32(0),
            codecs=chain,
        )
        return create_hierarchy(LocalStore(path, "w")).put_array("v", metadata)

    def open(self, path: Path) -> Any:
        from nczarr.stores import LocalStore
        from nczarr.zarr.hierarchy.opening import open_hierarchy

        return open_hierarchy(LocalStore(path)).array("v")

    def read(self, array: Any, selection: Any) -> Any:
        return array.read(selection)

    def write(self, array: Any, values: np.ndarray) -> None:
        array.write(..., values)

    def count_chunks(self, path: Path) -> int:
        return self.open(path).nchunks_initialized()

    def create_many(self, path: Path, count: int) -> None:
        from nczarr.stores import LocalStore
        from nczarr.zarr.grids import RegularGrid
        from nczarr.zarr.hierarchy.opening import create_hierarchy
        from nczarr.zarr.metadata import ArrayMetadata
        from nczarr.zarr.types import data_type_for

        hierarchy = create_hierarchy(LocalStore(path, "w"), hidden=True)
        float32 = data_type_for("float32")
        hierarchy.put_many(
            (
                f"v{i}",
                ArrayMetadata(
                    (100, 100),
                    float32,
                    RegularGrid((10, 10)),
                    fill_value=np.float32(0),
                    attributes=dict(ATTRIBUTES),
                ),
            )
            for i in range(count)
        )
        hierarchy.consolidate()
        hierarchy.publish()

    def list_many(self, path: Path) -> int:
        from nczarr.stores import LocalStore
        from nczarr.zarr.hierarchy.opening import open_hierarchy

        hierarchy = open_hierarchy(LocalStore(path))
        return sum(
            len(node.attributes) + len(getattr(node, "shape", ())) for node in hierarchy.nodes.values()
        )


class ZarrPeer(Peer):
    name = "zarr-python"
    pipeline = "zarr.core.codec_pipeline.BatchedCodecPipeline"

    def _with(self, work: Callable[[], Any]) -> Any:
        import zarr

        with zarr.config.set({"codec_pipeline.path": self.pipeline}):
            return work()

    def create(self, path: Path, shape: Any, chunks: Any, codec: str, inner: Any = None) -> Any:
        import zarr

        compressors = CODECS[codec] or None
        return self._with(
            lambda: zarr.open_group(path, mode="w", zarr_format=3).create_array(
                "v", shape=shape, chunks=inner or chunks, shards=chunks if inner else None, dtype="float32",
                compressors=compressors, fill_value=0,
            )
        )  # fmt: skip

    def open(self, path: Path) -> Any:
        import zarr

        return self._with(lambda: zarr.open_array(path / "v", mode="r"))

    def count_chunks(self, path: Path) -> int:
        return self.open(path).nchunks_initialized

    def create_many(self, path: Path, count: int) -> None:
        import zarr

        group = zarr.open_group(path, mode="w", zarr_format=3)
        for i in range(count):
            group.create_array(
                f"v{i}",
                shape=(100, 100),
                chunks=(10, 10),
                dtype="float32",
                compressors=None,
                attributes=ATTRIBUTES,
            )
        zarr.consolidate_metadata(path)

    def list_many(self, path: Path) -> int:
        import zarr

        group = zarr.open_consolidated(path)
        return sum(len(dict(array.attrs)) + len(array.shape) for _, array in group.arrays())


class ZarrsPeer(ZarrPeer):
    name = "zarr + zarrs"
    pipeline = "zarrs.ZarrsCodecPipeline"

    def __init__(self) -> None:
        import zarrs  # noqa: F401

    def count_chunks(self, path: Path) -> int:
        raise NotImplementedError("as zarr-python does it")


class TensorstorePeer(Peer):
    name = "tensorstore"

    def __init__(self) -> None:
        import tensorstore

        self._ts = tensorstore

    def _spec(self, path: Path) -> dict[str, Any]:
        return {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{path}/v/"}}

    def create(self, path: Path, shape: Any, chunks: Any, codec: str, inner: Any = None) -> Any:
        metadata = {
            "shape": list(shape),
            "data_type": "float32",
            "chunk_grid": _v3("regular", chunk_shape=list(chunks)),
            "fill_value": 0.0,
            "codecs": codecs(codec, inner),
        }
        return self._ts.open(
            {**self._spec(path), "metadata": metadata, "create": True, "delete_existing": True}
        ).result()

    def open(self, path: Path) -> Any:
        return self._ts.open(self._spec(path)).result()

    def read(self, array: Any, selection: Any) -> Any:
        return array[selection].read().result()

    def write(self, array: Any, values: np.ndarray) -> None:
        array.write(values).result()

    def count_chunks(self, path: Path) -> int:
        return sum(key.startswith(b"c/") for key in self.open(path).kvstore.list().result())


class NetCDFPeer(Peer):
    """netCDF4-python, HDF5 files; it has no shards."""

    name = "netCDF4"
    zarr = False
    _options = {  # noqa: RUF012
        "none": {},
        "zstd": {"compression": "zstd", "complevel": 1, "shuffle": False},
        "blosc": {"compression": "blosc_lz4", "complevel": 5, "blosc_shuffle": 1, "shuffle": False},
        "gzip": {"compression": "zlib", "complevel": 1, "shuffle": False},
    }

    def __init__(self) -> None:
        import netCDF4

        self._nc = netCDF4

    def create(self, path: Path, shape: Any, chunks: Any, codec: str, inner: Any = None) -> Any:
        if inner is not None:
            raise NotImplementedError
        path.mkdir(parents=True, exist_ok=True)
        dataset = self._nc.Dataset(path / "v.nc", "w")
        names = [f"d{i}" for i in range(len(shape))]
        for name, length in zip(names, shape, strict=True):
            dataset.createDimension(name, length)
        dataset.createVariable("v", "f4", names, chunksizes=chunks, fill_value=False, **self._options[codec])
        return dataset

    def open(self, path: Path) -> Any:
        dataset = self._nc.Dataset(path / "v.nc")
        dataset["v"].set_auto_maskandscale(False)
        return dataset

    def read(self, array: Any, selection: Any) -> Any:
        return array["v"][selection]

    def write(self, array: Any, values: np.ndarray) -> None:
        array["v"][...] = values
        array.close()

    def close(self, array: Any) -> None:
        if array.isopen():
            array.close()

    def create_many(self, path: Path, count: int) -> None:
        path.mkdir(parents=True)
        with self._nc.Dataset(path / "v.nc", "w") as dataset:
            dataset.createDimension("x", 100)
            dataset.createDimension("y", 100)
            for i in range(count):
                dataset.createVariable(f"v{i}", "f4", ("x", "y"), chunksizes=(10, 10)).setncatts(ATTRIBUTES)

    def list_many(self, path: Path) -> int:
        with self._nc.Dataset(path / "v.nc") as dataset:
            return sum(len(v.__dict__) + len(v.shape) for v in dataset.variables.values())


def available(names: list[str] | None = None) -> list[Peer]:
    """Return the libraries that are installed, nczarr first."""
    found: list[Peer] = []
    for kind in (NczarrPeer, ZarrPeer, ZarrsPeer, TensorstorePeer, NetCDFPeer):
        if names and kind.name not in names and kind is not NczarrPeer:
            continue
        try:
            found.append(kind())
        except ImportError as error:
            print(f"not installed, left out: {kind.name} ({error})")
    return found


def clear(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)

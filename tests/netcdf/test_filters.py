"""Test filters that are HDF5 plugins (zstd, blosc, bzip2), alone and in chains, without installed plugins."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest

from nczarr.errors import NetCDFFileError, UnsupportedError
from nczarr.model import (
    BYTE,
    INT,
    STRING,
    Dataset,
    Dimension,
    Filter,
    MemorySource,
    Storage,
    Variable,
    compare,
)
from nczarr.netcdf import create_dataset, open_dataset
from nczarr.netcdf.hdf5.chunks import decode_chunk, encode_chunk

CHAINS = {
    "zstd": {"compression": "zstd", "complevel": 3},
    "zstd_shuffle_sum": {"compression": "zstd", "complevel": 3, "shuffle": True, "fletcher32": True},
    "bzip2": {"compression": "bzip2", "complevel": 5},
    "szip": {"compression": "szip", "szip_coding": "nn", "szip_pixels_per_block": 8},
    "blosc_lz": {"compression": "blosc_lz", "complevel": 4, "blosc_shuffle": 1},
    "blosc_lz4_bits": {"compression": "blosc_lz4", "complevel": 4, "blosc_shuffle": 2},
    "blosc_zlib": {"compression": "blosc_zlib", "complevel": 4, "blosc_shuffle": 1},
    "blosc_zstd": {"compression": "blosc_zstd", "complevel": 4, "blosc_shuffle": 1},
    "quantized": {"compression": "zstd", "significant_digits": 3, "quantize_mode": "BitGroom"},
}


@pytest.fixture(scope="module")
def filtered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, np.ndarray]]:
    """A file of the netCDF library with a variable for each chain and type, and the values that the library reads."""
    path = tmp_path_factory.mktemp("filters") / "filtered.nc"
    steps = np.random.default_rng(1).standard_normal((2500, 7))
    values = np.round(np.cumsum(steps, 0), 2)
    with netCDF4.Dataset(path, "w") as ds:
        ds.createDimension("x", None)
        ds.createDimension("y", 7)
        for name, chain in CHAINS.items():
            family = str(chain["compression"]).partition("_")[0]
            if not getattr(ds, f"has_{family}_filter")():
                continue
            for dtype in ("f4",) if name == "quantized" else ("i2", "f8"):
                v = ds.createVariable(
                    f"{name}_{dtype[-2:]}", dtype, ("x", "y"), chunksizes=(1000, 4), **chain
                )
                v[:] = values.astype(dtype)
                v[5000:] = values[:10].astype(dtype)  # a gap: chunks that are never written
    with netCDF4.Dataset(path) as ds:
        ds.set_auto_maskandscale(False)
        return path, {name: v[:] for name, v in ds.variables.items()}


def test_read(filtered: tuple[Path, dict[str, np.ndarray]]) -> None:
    path, expected = filtered
    with open_dataset(path) as file:
        for name, values in expected.items():
            source = file.dataset.variable_at(f"/{name}").data
            assert source is not None
            for region in [
                tuple(slice(0, n) for n in values.shape),
                (slice(3, 4500, 7), slice(2, 7, 2)),
                (slice(5009, 5010), slice(6, 7)),
            ]:
                np.testing.assert_array_equal(source.read(region), values[region], err_msg=name)


def test_write_back(
    filtered: tuple[Path, dict[str, np.ndarray]], tmp_path: Path, copy: Callable[..., None]
) -> None:
    """The copy has the same filters, and netCDF's library reads the same values from it."""
    path, expected = filtered
    copy(path, tmp_path / "copy.nc")
    with open_dataset(path) as a, open_dataset(tmp_path / "copy.nc") as b:
        assert list(compare(a.dataset, b.dataset, storage=True)) == []
    with netCDF4.Dataset(tmp_path / "copy.nc") as ds:
        ds.set_auto_maskandscale(False)
        for name, values in expected.items():
            np.testing.assert_array_equal(ds[name][:], values, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("first", ["netCDF4", "h5py"])
def test_without_plugins_and_with_foreign_ones(
    filtered: tuple[Path, dict[str, np.ndarray]], tmp_path: Path, first: str
) -> None:
    """netCDF4-python brings plugins for its own copy of HDF5, and h5py finds them if it is imported later."""
    code = (
        f"import {first}, sys, nczarr\n"
        "nczarr.copy(sys.argv[1], sys.argv[2])\n"
        "print(list(nczarr.convert.diff(sys.argv[1], sys.argv[2], storage=True)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, filtered[0], tmp_path / "copy.nc"], capture_output=True, text=True
    )
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


def dataset(*filters: Filter) -> Dataset:
    values = np.arange(70, dtype="i4").reshape(10, 7)
    storage = Storage("chunked", (4, 3), filters)
    dims = (Dimension("x", 10), Dimension("y", 7))
    return Dataset(
        "d",
        dimensions=dims,
        variables=(Variable("v", INT, ("/x", "/y"), storage=storage, data=MemorySource(values)),),
    )


@pytest.mark.parametrize(
    "chain",
    [
        (Filter(32015, (3,)),),
        (Filter(2), Filter(1, (4,)), Filter(307, (9,)), Filter(3)),
        (Filter(3), Filter(32001, (0, 0, 0, 0, 5, 2, 1))),
    ],
)
def test_pieces_of_chunks(tmp_path: Path, chain: tuple[Filter, ...]) -> None:
    """Regions that cut chunks, in any order, and values that are never written."""
    model = dataset(*chain)
    expected = np.full((10, 7), -2147483647, "i4")
    with create_dataset(tmp_path / "a.nc", model) as sink:
        for x, y in [((0, 3), (0, 7)), ((2, 9), (1, 4)), ((9, 10), (6, 7)), ((3, 4), (2, 3))]:
            region = slice(*x), slice(*y)
            values = np.arange(100 * x[0], 100 * x[0] + 70, dtype="i4").reshape(10, 7)[region]
            expected[region] = values
            sink.write("/v", region, values)
        sink.commit()
    with open_dataset(tmp_path / "a.nc") as file:
        source = file.dataset.variable_at("/v").data
        assert source is not None
        np.testing.assert_array_equal(source.read((slice(0, 10), slice(0, 7))), expected)


@pytest.mark.parametrize("chain", [(Filter(32015, (3,)),), (Filter(32001, ()),), (Filter(307, (9,)),)])
def test_damaged_chunk(tmp_path: Path, chain: tuple[Filter, ...], write: Callable[..., None]) -> None:
    """Wherever a byte of a chunk is changed: an error that names file, variable and filter, or a value."""
    path = tmp_path / "a.nc"
    write(dataset(*chain), path)
    with h5py.File(path) as file:
        chunk = file["v"].id.get_chunk_info(0)
    good = path.read_bytes()
    failed = 0
    for place in range(chunk.byte_offset, chunk.byte_offset + chunk.size):
        path.write_bytes(good[:place] + bytes([good[place] ^ 0xFF]) + good[place + 1 :])
        with open_dataset(path) as file:
            source = file.dataset.variable_at("/v").data
            assert source is not None
            try:
                source.read((slice(0, 4), slice(0, 3)))
            except NetCDFFileError as error:
                failed += 1
                assert str(error).startswith(f"{path}: /v: ")
                assert str(chain[0].id) in str(error) or "bytes" in str(error)
    assert failed


def test_unknown_filter_is_named(tmp_path: Path, write: Callable[..., None]) -> None:
    """The error of an unknown filter has its number, not HDF5's message about a plugin folder."""
    with pytest.raises(UnsupportedError, match=r"/v: .*32013 \(zfp\).*hdf5plugin"):
        write(dataset(Filter(32013, (1,))), tmp_path / "a.nc")
    assert list(tmp_path.iterdir()) == []
    path = tmp_path / "b.nc"
    with h5py.File(path, "w") as file:
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_chunk((4,))
        creation.set_filter(32999, h5py.h5z.FLAG_OPTIONAL, (1,))
        space = h5py.h5s.create_simple((4,))
        made = h5py.h5d.create(file.id, b"v", h5py.h5t.NATIVE_INT32, space, creation)
        made.write_direct_chunk((0,), b"what", 0)
    with open_dataset(path) as opened:
        source = opened.dataset.variable_at("/v").data
        assert source is not None
        with pytest.raises(NetCDFFileError, match=r"b\.nc: /v: .*32999"):
            source.read((slice(0, 4),))


def test_plugin_filters_are_left_off_strings(tmp_path: Path) -> None:
    """A chunk of strings holds references, and a second plugin in a file of netCDF4-python's made it unreadable."""
    texts = np.empty(2, object)
    texts[:] = ["a", "é"]
    zstd = Storage("chunked", (2,), (Filter(Filter.ZSTD, (3,)),))
    dataset = Dataset(
        "d",
        dimensions=(Dimension("x", 2),),
        variables=(
            Variable("b", BYTE, ("/x",), storage=zstd, data=MemorySource(np.array([1, 0], "i1"))),
            Variable("s", STRING, ("/x",), storage=zstd, data=MemorySource(texts)),
        ),
    )
    out = tmp_path / "out.nc"
    sink = create_dataset(out, dataset)
    for variable in dataset.variables:
        sink.write(f"/{variable.name}", (slice(0, 2, 1),), variable.data.read((slice(0, 2, 1),)))
    sink.commit()
    with open_dataset(out) as opened:
        assert list(compare(dataset, opened.dataset)) == []
        assert opened.dataset.variable_at("/b").storage.filters == zstd.filters
        assert opened.dataset.variable_at("/s").storage.filters == ()
    with netCDF4.Dataset(out) as seen:
        assert seen["s"][:].tolist() == ["a", "é"]


@pytest.mark.parametrize("size", [4, 400, 40_000])
def test_chains_of_several_compressors(size: int) -> None:
    """The output of the first compressor differs in size from the chunk, and is longer for few bytes."""
    data = np.random.default_rng(size).integers(0, 20, size, np.uint8)
    filters = [
        Filter(1, (4,)),
        Filter(307, (1,)),
        Filter(32015, (1,)),
        Filter(32001, (2, 2, 4, size, 5, 1, 1)),
    ]
    sums = [(), (Filter(3),), (Filter(2), Filter(3))]
    for first, second, between in itertools.product(filters, filters, sums):
        chain = [first, *between, second]
        stored = encode_chunk(data, chain, 4)
        assert decode_chunk(stored, chain, 0, 4, size).tobytes() == data.tobytes(), chain
        without = encode_chunk(data, [*between, second], 4)
        assert decode_chunk(without, chain, 1, 4, size).tobytes() == data.tobytes(), chain


def test_what_unpacks_beyond_what_a_compressor_can_have_made_is_refused() -> None:
    bomb = encode_chunk(np.zeros(1_000_000, np.uint8), [Filter(32015, (1,))], 1)
    with pytest.raises(NetCDFFileError, match="does not state the chunk's size"):
        decode_chunk(bomb, [Filter(307, (1,)), Filter(32015, (1,))], 0, 1, 400)

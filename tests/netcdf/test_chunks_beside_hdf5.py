"""Compare chunks that are read outside HDF5's lock with HDF5, for all filters and selections."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczarr.errors import NetCDFFileError
from nczarr.netcdf import open_dataset
from nczarr.netcdf.hdf5 import chunks

SHAPE, CHUNKS = (37, 50, 41), (8, 16, 41)
VALUES = np.random.default_rng(3).integers(0, 999, SHAPE)
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "deflate": {"compression": "gzip"},
    "shuffle": {"compression": "gzip", "shuffle": True},
    "fletcher": {"compression": "gzip", "shuffle": True, "fletcher32": True},
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("chunks") / "a.nc"
    with h5py.File(path, "w") as file:
        for kind, options in KINDS.items():
            for dtype in ("<f4", ">f8", "i2", "u1"):
                made = file.create_dataset(
                    f"{kind}{dtype[-2:]}", SHAPE, dtype, chunks=CHUNKS, fillvalue=7, **options
                )
                made[:30] = VALUES[:30]  # the last chunks are never written
    return path


@pytest.mark.slow
@given(st.data())
def test_values_are_those_of_hdf5(path: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([f"{k}{d}" for k in KINDS for d in ("f4", "f8", "i2", "u1")]))
    region = []
    for size in SHAPE:
        low = data.draw(st.integers(0, size - 1))
        region.append(slice(low, data.draw(st.integers(low + 1, size)), data.draw(st.integers(1, 3))))
    with pytest.MonkeyPatch.context() as patch, open_dataset(path) as opened, h5py.File(path) as file:
        patch.setattr(chunks, "SMALLEST", 1)
        patch.setattr(chunks, "SMALLEST_WHOLE", 1)
        values = opened.dataset.variable_at(f"/{name}").data
        assert values is not None
        np.testing.assert_array_equal(values.read(tuple(region)), file[name][tuple(region)])


def test_hdf5_is_not_asked_for_whole_chunks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "SMALLEST", 1)
    monkeypatch.setattr(chunks, "SMALLEST_WHOLE", 1)
    with open_dataset(path) as opened:
        data: Any = opened.dataset.variable_at("/shufflef4").data
        assert data._beside_hdf5([range(8), range(16), range(41)], (8, 16, 41)) is not None
        assert data._beside_hdf5([range(1), range(1), range(1)], (1, 1, 1)) is None


def test_another_file_of_the_name_is_not_read(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "SMALLEST", 1)
    monkeypatch.setattr(chunks, "SMALLEST_WHOLE", 1)
    own, other = tmp_path / "a.nc", tmp_path / "b.nc"
    own.write_bytes(path.read_bytes())
    other.write_bytes(os.urandom(path.stat().st_size))
    with open_dataset(own) as opened, h5py.File(path) as file:
        os.replace(other, own)
        data = opened.dataset.variable_at("/shufflef8").data
        assert data is not None
        np.testing.assert_array_equal(data.read(tuple(slice(0, n) for n in SHAPE)), file["shufflef8"][:])


def test_a_user_block_and_damage(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "SMALLEST", 1)
    monkeypatch.setattr(chunks, "SMALLEST_WHOLE", 1)
    with h5py.File(tmp_path / "u.nc", "w", userblock_size=512) as file:
        file.create_dataset("v", data=VALUES, chunks=CHUNKS, compression="gzip")
    with open_dataset(tmp_path / "u.nc") as opened:
        data = opened.dataset.variable_at("/v").data
        assert data is not None
        np.testing.assert_array_equal(data.read(tuple(slice(0, n) for n in SHAPE)), VALUES)
    with h5py.File(tmp_path / "d.nc", "w") as file:
        made = file.create_dataset("v", data=VALUES, chunks=CHUNKS, compression="gzip")
        place = made.id.get_chunk_info(3)
    content = bytearray((tmp_path / "d.nc").read_bytes())
    content[place.byte_offset + 20 : place.byte_offset + 60] = bytes(40)
    (tmp_path / "d.nc").write_bytes(content)
    with open_dataset(tmp_path / "d.nc") as opened:
        data = opened.dataset.variable_at("/v").data
        assert data is not None
        with pytest.raises(NetCDFFileError, match=r"d\.nc: /v: a chunk is damaged"):
            data.read(tuple(slice(0, n) for n in SHAPE))


@pytest.mark.slow
def test_a_verified_copy_leaves_no_file_to_the_garbage_collector(path: Path, tmp_path: Path) -> None:
    """A warning during the collection of an object reaches no caller, so another process counts them."""
    program = "import sys, nczarr; nczarr.copy(sys.argv[1], sys.argv[2], verify=True)"
    words = [
        sys.executable,
        "-W",
        "always::ResourceWarning",
        "-c",
        program,
        str(path),
        str(tmp_path / "a.zarr"),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "unclosed file" not in done.stderr


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no list of open descriptors")
def test_the_last_reader_of_chunks_closes_the_descriptor(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "SMALLEST", 1)
    before = set(os.listdir("/proc/self/fd"))
    with open_dataset(path) as opened:
        values = opened.dataset.variable_at("/plainf4").data
        assert values is not None
        values.read((slice(0, 30), slice(0, 50), slice(0, 41)))
    del opened, values
    gc.collect()
    assert set(os.listdir("/proc/self/fd")) <= before

"""Find flipped bits and deleted chunks by checksums and manifests."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import nczarr
from nczarr.cli import main
from nczarr.errors import ChunkError, UnsupportedError
from nczarr.mapping import WriteOptions, open_dataset
from nczarr.model import DOUBLE, INT, Dataset, Dimension, MemorySource, Storage, Variable

DATA = np.arange(60, dtype="i4").reshape(6, 10)


def dataset() -> Dataset:
    storage = Storage(chunk_shape=(2, 4))
    whole = Variable("v", INT, ("/y", "/x"), storage=storage, data=MemorySource(DATA))
    scalar = Variable("s", DOUBLE, data=MemorySource(np.float64(3)))
    empty = Variable("e", INT, ("/y", "/x"), storage=storage)
    return Dataset(
        "d", dimensions=(Dimension("y", 6, True), Dimension("x", 10)), variables=(whole, scalar, empty)
    )


def check(path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    main(["check", "--data", str(path)])
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("layout", ["nczarr-v3", "zarr-v3"])
def test_deleted_chunks_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str], layout: str) -> None:
    path = tmp_path / "a.zarr"
    nczarr.copy(dataset(), path, manifest=True, layout=layout)
    assert check(path, capsys) == []
    (path / "v" / "c" / "1" / "2").unlink()
    (path / "s" / "c").unlink()
    assert sorted(line.split(" [")[0] for line in check(path, capsys)) == [
        "/s: the chunk s/c was written, but is missing",
        "/v: the chunk v/c/1/2 was written, but is missing",
    ]
    # Others open it as before.
    zarr = pytest.importorskip("zarr")
    assert zarr.open_group(path, mode="r")["v"][0, 3] == 3


def test_the_record_follows_what_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.zarr"
    nczarr.copy(dataset(), path, manifest=True)
    with nczarr.Dataset(path, "a") as opened:
        opened["v"][6:9] = 1
        opened["e"][0, 0] = 5
    assert check(path, capsys) == []
    with nczarr.Dataset(path) as opened:
        assert opened["v"][:6].tolist() == DATA.tolist()
        assert opened["v"].shape == (9, 10)
    for name in ("v/c/4/0", "e/c/0/0"):
        (path / name).unlink()
    assert len(check(path, capsys)) == 2


def test_the_record_is_kept_on_sync(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.zarr"
    nczarr.copy(dataset(), path, manifest=True)
    opened = nczarr.Dataset(path, "a")
    opened["v"][6:9] = 1
    opened.sync()
    # As a process leaves it that is killed now.
    shutil.copytree(path, tmp_path / "b.zarr")
    opened.close()
    assert check(tmp_path / "b.zarr", capsys) == []
    (tmp_path / "b.zarr" / "v" / "c" / "4" / "0").unlink()
    assert len(check(tmp_path / "b.zarr", capsys)) == 1


@pytest.mark.parametrize("written", ["v", "e"])
def test_what_was_lost_is_not_forgotten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], written: str
) -> None:
    """A chunk is deleted by somebody, then other chunks, or other variables, are written."""
    path = tmp_path / "a.zarr"
    nczarr.copy(dataset(), path, manifest=True)
    (path / "v" / "c" / "1" / "2").unlink()
    with nczarr.Dataset(path, "a") as opened:
        opened[written][0, 0] = 1
        opened[written][6:9] = 1
    assert ["v/c/1/2" in line for line in check(path, capsys)] == [True]


@pytest.mark.parametrize("change", ["shorter", "type"])
def test_what_is_removed_on_purpose_is_forgotten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: str
) -> None:
    path = tmp_path / "a.zarr"
    nczarr.copy(dataset(), path, manifest=True)
    with open_dataset(path, "r+") as stored:
        y, x = stored.dataset.dimensions
        variables = [
            v if v.name != "v" else replace(v, type=DOUBLE, data=None) for v in stored.dataset.variables
        ]
        if change == "shorter":
            new = replace(stored.dataset, dimensions=(replace(y, size=2), x))
        else:
            new = replace(stored.dataset, variables=tuple(variables))
        stored.update(new)
    with open_dataset(path, "r+") as stored:
        stored.update(replace(stored.dataset, dimensions=(replace(y, size=6), x)))
    assert check(path, capsys) == []
    left = sorted((path / "v" / "c").rglob("*/*")) if change == "shorter" else []
    for chunk in left:
        chunk.unlink()
    assert len(check(path, capsys)) == len(left)
    assert change == "type" or left


def test_without_a_record_nothing_is_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.zarr"
    nczarr.copy(dataset(), path)
    (path / "v" / "c" / "1" / "2").unlink()
    assert check(path, capsys) == []
    assert main(["copy", "-q", "--manifest", str(path), str(tmp_path / "b.zarr")]) == 0
    assert "nczarr_chunks" in (tmp_path / "b.zarr" / "v" / "zarr.json").read_text()
    with pytest.raises(UnsupportedError, match="manifest"):
        WriteOptions(layout="nczarr-v2", manifest=True)


def test_flipped_bits_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.zarr"
    nczarr.copy(dataset(), path, checksum=True)
    chunk = path / "v" / "c" / "1" / "2"
    original = chunk.read_bytes()
    for place in range(len(original)):
        for bit in (0, 5):
            damaged = bytearray(original)
            damaged[place] ^= 1 << bit
            chunk.write_bytes(damaged)
            with nczarr.mapping.open_dataset(path) as stored, pytest.raises(ChunkError):
                stored.data("/v").read((slice(2, 4), slice(8, 10)))
    assert any("v/c/1/2" in line for line in check(path, capsys))


@pytest.mark.parametrize(
    "record", [{}, {"grid": [3, 3], "written": "x"}, {"grid": [1 << 60], "written": "eJw="}, {"grid": 7}]
)
def test_a_damaged_record_is_a_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], record: object
) -> None:
    import json

    path = tmp_path / "a.zarr"
    nczarr.copy(dataset(), path, manifest=True, consolidated=False)
    document = json.loads((path / "v" / "zarr.json").read_text())
    document["nczarr_chunks"] = {"must_understand": False, **record}  # type: ignore[dict-item]
    (path / "v" / "zarr.json").write_text(json.dumps(document))
    assert any("is damaged" in line for line in check(path, capsys))

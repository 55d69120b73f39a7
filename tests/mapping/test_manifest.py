"""Find flipped bits and deleted chunks by checksums and manifests."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczarr
from nczarr.cli import main
from nczarr.errors import ChunkError, NCZarrError, StoreError, UnsupportedError
from nczarr.mapping import WriteOptions, open_dataset
from nczarr.model import DOUBLE, INT, Dataset, Dimension, MemorySource, Storage, Variable
from nczarr.stores import open_store
from nczarr.zarr import open_hierarchy

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


def read_by_xarray(target: Any, folder: Path) -> None:
    xarray = pytest.importorskip("xarray")
    with xarray.open_dataset(target, engine="nczarr") as ds:
        ds.load()


def read_by_dataset(target: Any, folder: Path) -> None:
    with nczarr.Dataset(target) as ds:
        ds["v"][:]


DOORS: dict[str, Callable[[Any, Path], object]] = {
    "copy": lambda target, folder: nczarr.copy(target, folder / "c.zarr"),
    "copy to a file": lambda target, folder: nczarr.copy(target, folder / "c.nc"),
    "copy with other chunks": lambda target, folder: nczarr.copy(target, folder / "c.zarr", chunks="x=5"),
    "digest": lambda target, folder: nczarr.digest(target),
    "diff": lambda target, folder: list(nczarr.diff(target, target)),
    "Dataset": read_by_dataset,
    "xarray": read_by_xarray,
    "engine": lambda target, folder: open_hierarchy(open_store(target)).array("v").read(),
}


@pytest.mark.parametrize("form", ["directory", "zip", "memory", "shards"])
def test_a_lost_chunk_is_an_error_at_every_door(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    """A crash, a full disk or an expired object loses a chunk, and its values would read as fill, or as 0."""
    path, more = tmp_path / "a.zarr", {"shards": "y=4,x=8"} if form == "shards" else {}
    nczarr.copy(dataset(), path, manifest=True, **more)
    key = "v/c/0/0" if form == "shards" else "v/c/1/2"
    (path / key).unlink()
    target: Any = path
    if form == "memory":
        target = {p.relative_to(path).as_posix(): p.read_bytes() for p in path.rglob("*") if p.is_file()}
    elif form == "zip":
        target = Path(shutil.make_archive(str(tmp_path / "b"), "zip", path))
    said = f"the chunk {key} was written, but is missing"
    with nczarr.open(target) as model, pytest.raises(StoreError, match=said):
        model["v"][:]
    for enter in DOORS.values():
        with pytest.raises(NCZarrError, match=said):
            enter(target, tmp_path)
        assert not (tmp_path / "c.zarr").exists()
        assert not (tmp_path / "c.nc").exists()
    if form != "memory":
        assert main(["dump", str(target)]) == 1
        assert said in capsys.readouterr().err


@pytest.mark.parametrize("more", [{}, {"shards": "y=4,x=8"}], ids=["chunks", "shards"])
@pytest.mark.parametrize("kind", ["directory", "memory"])
def test_a_part_of_a_lost_chunk_is_not_written(tmp_path: Path, kind: str, more: dict[str, Any]) -> None:
    """The rest of the chunk would become fill values, and the loss would be forgotten; the whole chunk replaces it."""
    target: Any = tmp_path / "a.zarr" if kind == "directory" else {}
    nczarr.copy(dataset(), target, manifest=True, **more)
    with open_store(target, "r+") as store:
        store.delete("v/c/0/0")
        array = open_hierarchy(store, mode="r+").array("v")
        with pytest.raises(StoreError, match="v/c/0/0 was written, but is missing"):
            array.write((0, 0), 5)
        assert not store.exists("v/c/0/0")
        array.write((slice(0, 4), slice(0, 8)), DATA[:4, :8])
        assert array.read().tolist() == DATA.tolist()


def test_an_array_that_shrinks_and_grows_has_lost_nothing(tmp_path: Path) -> None:
    nczarr.copy(dataset(), tmp_path / "a.zarr", manifest=True)
    with open_store(tmp_path / "a.zarr", "r+") as store:
        array = open_hierarchy(store, mode="r+").array("v")
        array.resize((2, 10))
        array.resize((6, 10))
        assert array.lost_chunks() == []
        fill = array.metadata.fill
        assert array.read().tolist() == [*DATA[:2].tolist(), *[[fill] * 10] * 4]
        array.erase()
        assert (array.read() == fill).all()

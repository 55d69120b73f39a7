"""netCDF files behind URLs, as sources and targets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import netCDF4
import numpy as np
import pytest

import nczarr
from nczarr.cli import main
from nczarr.errors import (
    DatasetExistsError,
    DatasetNotFoundError,
    NCZarrError,
    NetCDFFileError,
    ReadOnlyError,
)
from nczarr.netcdf import open_remote
from nczarr.netcdf.bytes.file import RemoteRanges

DATA = Path(__file__).parents[1] / "data"
FILES = [DATA / name for name in ("example.nc", "classic.nc", "cdf5.nc", "user_types.nc", "nested.nc")]


@pytest.fixture
def memory() -> Iterator[Any]:
    fs = fsspec.filesystem("memory")
    fs.makedirs("/nczarr-test", exist_ok=True)
    yield fs
    fs.rm("/nczarr-test", recursive=True)


@pytest.mark.parametrize("nc", FILES, ids=lambda p: p.name)
def test_there_and_back(nc: Path, tmp_path: Path, memory: Any) -> None:
    url = f"memory://nczarr-test/{nc.name}"
    memory.pipe_file(f"/nczarr-test/{nc.name}", nc.read_bytes())
    nczarr.copy(url, tmp_path / "a.zarr", verify=True)
    assert list(nczarr.diff(nc, tmp_path / "a.zarr")) == []
    nczarr.copy(tmp_path / "a.zarr", "memory://nczarr-test/back.nc")
    assert list(nczarr.diff(nc, "memory://nczarr-test/back.nc", ignore_attributes=["_NCProperties"])) == []
    (tmp_path / "back.nc").write_bytes(memory.cat_file("/nczarr-test/back.nc"))
    assert (
        list(nczarr.diff(nc, tmp_path / "back.nc", storage=True, ignore_attributes=["_NCProperties"])) == []
    )


def test_what_is_there_is_kept(memory: Any) -> None:
    memory.pipe_file("/nczarr-test/a.nc", b"precious")
    with pytest.raises(DatasetExistsError, match="overwrite=True"):
        nczarr.copy(FILES[0], "memory://nczarr-test/a.nc")
    with pytest.raises(NetCDFFileError, match="not a netCDF file"):
        nczarr.copy("memory://nczarr-test/a.nc", {})
    assert memory.cat_file("/nczarr-test/a.nc") == b"precious"
    nczarr.copy(FILES[0], "memory://nczarr-test/a.nc", overwrite=True)
    assert list(nczarr.diff(FILES[0], "memory://nczarr-test/a.nc", ignore_attributes=["_NCProperties"])) == []


def test_failures_say_where(memory: Any, tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError, match=r"memory://nczarr-test/no\.nc"):
        nczarr.copy("memory://nczarr-test/no.nc", tmp_path / "a.zarr")
    with pytest.raises(ReadOnlyError):
        nczarr.copy(FILES[0], "https://example.invalid/a.nc")
    memory.pipe_file("/nczarr-test/cut.nc", FILES[0].read_bytes()[:3000])
    with pytest.raises(NCZarrError, match=r"cut\.nc"):
        nczarr.copy("memory://nczarr-test/cut.nc", tmp_path / "a.zarr")
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_does_not_answer_is_no_missing_file(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/a.nc"
        with pytest.raises(NCZarrError, match="cannot be reached"):
            nczarr.copy(url, tmp_path / "a.zarr")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.http
def test_a_web_server(web_server: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (web_server.folder / "example.nc").write_bytes(FILES[0].read_bytes())
    url = f"{web_server.url}data/example.nc"
    assert main(["diff", url, str(FILES[0])]) == 0
    assert main(["ls", url]) == 0
    assert "/ocean/temp" in capsys.readouterr().out


@pytest.mark.s3
def test_an_object_store(s3_server: dict[str, str], tmp_path: Path) -> None:
    nczarr.copy(FILES[0], "s3://test/convert/a.nc")
    nczarr.copy("s3://test/convert/a.nc", tmp_path / "a.zarr")
    assert list(nczarr.diff(FILES[0], tmp_path / "a.zarr")) == []


# --- ranges of bytes beside the library


@pytest.fixture(scope="module")
def deflated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Chunks of 400 KB, values in each other's places; one chunk was never written."""
    path = tmp_path_factory.mktemp("ranges") / "deflated.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("t", 12)
        file.createDimension("x", 100_000)
        v = file.createVariable("v", "f4", ("t", "x"), zlib=True, chunksizes=(1, 100_000))
        for t in (*range(5), *range(6, 12)):
            v[t] = np.random.default_rng(t).integers(0, 9, 100_000)
        file.createVariable("w", "f8", ("t",))[:] = np.arange(12)
    return path


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many ranges were asked for at a time."""
    seen: list[int] = []
    plain = RemoteRanges.read_many

    def read_many(self: RemoteRanges, ranges: Any) -> Any:
        seen.append(len(ranges))
        return plain(self, ranges)

    monkeypatch.setattr(RemoteRanges, "read_many", read_many)
    return seen


def test_chunks_are_fetched_in_batches(
    deflated: Path, memory: Any, batches: list[int], tmp_path: Path
) -> None:
    memory.pipe_file("/nczarr-test/a.nc", deflated.read_bytes())
    nczarr.copy("memory://nczarr-test/a.nc", tmp_path / "a.zarr")
    assert max(batches) > 3
    assert sum(n for n in batches if n > 1) == 11
    assert list(nczarr.diff(deflated, tmp_path / "a.zarr")) == []
    raw = {"compression": "numcodecs"}
    nczarr.copy("memory://nczarr-test/a.nc", tmp_path / "raw.zarr", **raw)
    assert list(nczarr.diff(deflated, tmp_path / "raw.zarr")) == []
    nczarr.copy("memory://nczarr-test/a.nc", tmp_path / "refs.json", virtual=True)
    assert list(nczarr.diff(deflated, tmp_path / "refs.json", allow="memory://nczarr-test/")) == []


def test_large_values_of_classic_files_are_fetched_by_range(
    memory: Any, batches: list[int], tmp_path: Path
) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w", format="NETCDF3_64BIT_DATA") as file:
        file.createDimension("x", 600_000)
        file.createVariable("v", "f8", ("x",))[:] = np.arange(600_000)
    memory.pipe_file("/nczarr-test/a.nc", (tmp_path / "a.nc").read_bytes())
    assert list(nczarr.diff("memory://nczarr-test/a.nc", tmp_path / "a.nc")) == []
    assert len(batches) > 2


def test_ranges_of_another_file_are_not_believed(deflated: Path, memory: Any) -> None:
    data = deflated.read_bytes()
    memory.pipe_file("/nczarr-test/a.nc", data)
    asked = []

    def other(ranges: Any) -> list[bytes]:
        asked.append(len(ranges))
        return [bytes(size) for _, size in ranges]

    with open_remote("memory://nczarr-test/a.nc", None, RemoteRanges(other, lambda: None)) as file:
        v = file.dataset.variable_at("/v").data
        assert v is not None
        values = v.read((slice(0, 12), slice(0, 100_000)))
    with netCDF4.Dataset("a.nc", memory=data) as oracle:
        np.testing.assert_array_equal(values, oracle["v"][:].filled())
    assert asked == [1]


def test_a_range_that_is_cut_off(deflated: Path, memory: Any) -> None:
    data = deflated.read_bytes()
    memory.pipe_file("/nczarr-test/a.nc", data)

    def short(ranges: Any) -> list[bytes]:
        return [data[o : o + s] if s <= 8 else data[o : o + s - 1] for o, s in ranges]

    with open_remote("memory://nczarr-test/a.nc", None, RemoteRanges(short, lambda: None)) as file:
        v = file.dataset.variable_at("/v").data
        assert v is not None
        with pytest.raises(
            NetCDFFileError, match=r"a\.nc: /v: the file is truncated: it has \d+ of the \d+ bytes"
        ):
            v.read((slice(0, 12), slice(0, 100_000)))


@pytest.mark.http
def test_ranges_of_a_web_server(web_server: Any, deflated: Path, batches: list[int], tmp_path: Path) -> None:
    (web_server.folder / "my file.nc").write_bytes(deflated.read_bytes())
    nczarr.copy(f"{web_server.url}data/my%20file.nc", tmp_path / "a.zarr")
    assert list(nczarr.diff(deflated, tmp_path / "a.zarr")) == []
    assert max(batches) > 3


@pytest.mark.s3
def test_ranges_of_an_object(
    s3_server: dict[str, str], deflated: Path, batches: list[int], tmp_path: Path
) -> None:
    import s3fs

    s3fs.S3FileSystem().put_file(str(deflated), "test/convert/deflated.nc")
    nczarr.copy("s3://test/convert/deflated.nc", tmp_path / "a.zarr")
    assert list(nczarr.diff(deflated, tmp_path / "a.zarr")) == []
    assert max(batches) > 3

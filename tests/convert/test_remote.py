"""netCDF files behind URLs, as sources and targets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
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
    with pytest.raises(DatasetExistsError, match="--overwrite"):
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

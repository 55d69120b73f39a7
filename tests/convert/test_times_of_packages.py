"""A data type of another package with a dtype of times works as Zarr's own times, from the document to a join."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import nczarr
from nczarr.cli import main
from nczarr.stores import LocalStore, MemoryStore
from nczarr.zarr import ArrayMetadata, NamedConfig, RegularGrid, create_hierarchy, open_hierarchy
from nczarr.zarr.chunk_keys import ChunkKeyEncoding
from nczarr.zarr.types import DATA_TYPES, DataType, data_type_for

NAME = "example.instant"
TIMES = np.array(["2020-01-01T00:00:00", "2020-01-01T06:00:00", "2020-01-01T12:00:00"], "M8[s]")
LATER = np.array(["2020-01-01T18:00:00", "2020-01-02T00:00:00"], "M8[s]")


@dataclass(frozen=True)
class Instant(DataType):
    """Seconds, with dates as fill values in documents."""

    name: str = NAME

    @property
    def dtype(self) -> np.dtype:
        return np.dtype("M8[s]")

    def fill_from_json(self, value: object) -> np.datetime64:
        return np.datetime64("NaT" if value == "never" else str(value), "s")

    def fill_to_json(self, value: object) -> str:
        time = np.datetime64(value, "s")  # type: ignore[call-overload]
        return "never" if np.isnat(time) else str(time)


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    DATA_TYPES.register(NAME, lambda name, configuration: Instant(name))
    yield
    DATA_TYPES.unregister(NAME)


def metadata(data_type: DataType, size: int, fill: object = None) -> ArrayMetadata:
    codecs = (NamedConfig("bytes", {"endian": "little"}),)
    return ArrayMetadata(
        (size,), data_type, RegularGrid((2,)), fill_value=data_type.zero() if fill is None else fill,
        codecs=codecs, dimension_names=("time",),
    )  # fmt: skip


def create(path: Path, data_type: DataType, times: np.ndarray) -> Path:
    path.mkdir()
    hierarchy = create_hierarchy(LocalStore(path, "r+"))
    hierarchy.put_array("time", metadata(data_type, len(times))).write(..., times)
    return path


def shown(path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", out := io.StringIO())
        assert main(["dump", "-t", str(path)]) == 0
    return out.getvalue()


def read(path: Path) -> list[np.datetime64]:
    with xr.open_dataset(path, engine="nczarr") as dataset:
        return list(dataset.time.values.astype("M8[s]"))


def test_times_of_a_package_are_created_read_shown_edited_copied_and_joined_as_those_of_zarr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = create(tmp_path / "a.zarr", Instant(), TIMES)
    zarrs = create(tmp_path / "z.zarr", data_type_for("M8[s]"), TIMES)
    assert '"fill_value":"never"' in (own / "time" / "zarr.json").read_text()
    with nczarr.Dataset(own) as dataset, nczarr.Dataset(zarrs) as expected:
        assert dataset["time"].__dict__ == expected["time"].__dict__
        assert dataset["time"].units == "seconds since 1970-01-01"
        assert dataset["time"][:].tolist() == expected["time"][:].tolist() == TIMES.astype("i8").tolist()
    assert shown(own, monkeypatch) == shown(zarrs, monkeypatch).replace("netcdf z", "netcdf a")
    assert "2020-01-01 06" in shown(own, monkeypatch)
    assert read(own) == read(zarrs) == TIMES.tolist()

    for layout in ("zarr-v3", "zarr-v2", "nczarr-v3", "nczarr-v2", "draft-2019"):
        nczarr.copy(own, tmp_path / f"{layout}.zarr", layout=layout)
        assert read(tmp_path / f"{layout}.zarr") == TIMES.tolist(), layout
    nczarr.copy(own, tmp_path / "a.nc")
    with xr.open_dataset(tmp_path / "a.nc", engine="netcdf4") as peer:
        assert list(peer.time.values.astype("M8[s]")) == TIMES.tolist()

    later = create(tmp_path / "b.zarr", Instant(), LATER)
    nczarr.join([own, later], tmp_path / "joined.zarr", along="time")
    nczarr.copy(own, tmp_path / "growing.zarr", unlimited=["time"])
    nczarr.append(later, tmp_path / "growing.zarr", along="time")
    both = [*TIMES.tolist(), *LATER.tolist()]
    assert read(tmp_path / "joined.zarr") == read(tmp_path / "growing.zarr") == both

    with nczarr.Dataset(own, "r+") as dataset:
        dataset["time"][1] = np.ma.masked
    assert np.isnat(read(own)).tolist() == [False, True, False]


@pytest.mark.parametrize("layout", ["v2", "draft-2019"])
def test_documents_that_know_only_the_dtype_have_its_fill_value(layout: str) -> None:
    store = MemoryStore()
    hierarchy = create_hierarchy(store, layout=layout)  # type: ignore[arg-type]
    older = replace(
        metadata(Instant(), 3, TIMES[1]), dimension_names=None, chunk_key_encoding=ChunkKeyEncoding("v2", ".")
    )
    hierarchy.put_array("time", older).write(slice(0, 2), TIMES[:2])
    array = open_hierarchy(store).array("time")
    assert array.metadata.data_type == data_type_for("M8[s]")
    assert array.metadata.fill_value == TIMES[1]
    assert array.read(...).tolist() == TIMES[[0, 1, 1]].tolist()


def test_not_a_time_fills_what_has_no_fill_value() -> None:
    assert np.isnat(Instant().zero())
    assert Instant().zero().dtype == "M8[s]"
    assert not np.isnat(data_type_for("int64").zero().astype("M8[s]"))

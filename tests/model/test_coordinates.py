"""Test the previews of values: bounded reads, dates, and nothing where values mislead or cannot be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
from counting_store import CountingStore

import nczarr
from nczarr.cli import main
from nczarr.convert.report import variable_storage
from nczarr.mapping import open_dataset
from nczarr.model import (
    CHAR,
    DOUBLE,
    INT,
    SHORT,
    STRING,
    Attribute,
    Dataset,
    Dimension,
    MemorySource,
    Type,
    Variable,
    resolve,
)
from nczarr.model.coordinates import MOST_PREVIEWED, preview
from nczarr.stores import MemoryStore

EXAMPLE = Path(__file__).parents[1] / "data" / "example.nc"


class Watched(MemorySource):
    """Counts the values that are read."""

    count = 0

    def read(self, region: Any, out: Any = None) -> np.ndarray:
        values = super().read(region, out)
        type(self).count += values.size
        return values


def shown(type_: Type, values: Any, chunks: Any = None, **attributes: Any) -> str:
    data = Watched(np.array(values, type_.dtype))
    names = tuple(f"/{'xyz'[i]}" for i in range(len(data.shape)))
    given = tuple(Attribute.of(name, value) for name, value in attributes.items())
    return preview(Variable("x", type_, names, attributes=given), data, chunks)


def test_numbers_text_and_dates() -> None:
    assert shown(INT, 7) == "7"
    assert shown(INT, []) == ""
    assert shown(INT, [1, 2, 3, 4, 5]) == "1, 2, 3, 4, 5"
    assert shown(DOUBLE, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]) == "0.1, 0.2, … 0.6"
    assert shown(STRING, ["Île", "b" * 100]) == f"Île, {'b' * 24}"
    days = {"units": "days since 2000-02-28", "calendar": "noleap"}
    assert shown(INT, [0, 1], **days) == "2000-02-28, 2000-03-01"
    assert shown(INT, [0, 1], units="days since yesterday") == "0, 1"
    assert shown(DOUBLE, [np.nan, 1e300], units="days since 2000-01-01") == "nan, 1e+300"


def test_nothing_is_shown_that_misleads_or_is_large() -> None:
    assert shown(SHORT, [1, 2], scale_factor=0.5) == ""
    assert shown(CHAR, [b"a", b"b"]) == ""
    assert shown(INT, [[1, 2]]) == ""
    most = MOST_PREVIEWED // 4
    assert shown(INT, np.arange(most + 1), (most + 1,)) == ""
    assert shown(INT, np.arange(most + 1), (most,)) == f"0, 1, … {most}"
    Watched.count = 0
    assert shown(INT, np.arange(10**6)) == "0, 1, … 999999"
    assert Watched.count == 3


def test_info_shows_what_netcdf4_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nczarr.copy(EXAMPLE, tmp_path / "a.zarr")
    with netCDF4.Dataset(EXAMPLE) as peer:
        first, *_, last = netCDF4.num2date(peer["time"][:], peer["time"].units)
        lat = [str(value) for value in peer["lat"][:]]
    monkeypatch.setenv("COLUMNS", "200")  # one line for each variable
    for target in (EXAMPLE, tmp_path / "a.zarr"):
        assert main(["info", str(target)]) == 0
        lines = {
            line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.startswith("/")
        }
        assert lines["/lat"].endswith(f"{lat[0]}, {lat[1]}, … {lat[-1]}")
        assert lines["/time"].endswith(f"… {last.isoformat(' ').removesuffix(' 00:00:00')}")
        assert f"  {first.isoformat(' ')}, " in lines["/time"]
        with nczarr.Dataset(target) as ds:
            assert f"{lat[0]}, {lat[1]}, … {lat[-1]}" in ds._repr_html_()
            assert "Kerguelen, Jan Mayen, Île Amsterdam" in ds["/atmosphere/station_name"]._repr_html_()


def test_a_damaged_chunk_hides_only_its_preview(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nczarr.copy(EXAMPLE, tmp_path / "a.zarr", compression="zstd:1")
    (tmp_path / "a.zarr" / "lat" / "c" / "0").write_bytes(b"damaged")
    assert main(["info", str(tmp_path / "a.zarr")]) == 0
    out = capsys.readouterr().out
    assert "-85.0" not in out
    assert "5.0, 15.0, … 355.0" in out
    with nczarr.Dataset(tmp_path / "a.zarr") as ds:
        assert "-85.0" not in ds._repr_html_()
        assert "5.0, 15.0, … 355.0" in ds._repr_html_()


def test_a_dataset_that_is_open_for_writing_is_not_read(tmp_path: Path) -> None:
    with nczarr.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("x", 3)
        ds.createVariable("x", "i4", ("x",))[:] = [11, 12, 13]
        assert "11, 12, 13" not in ds._repr_html_()
    with nczarr.Dataset(tmp_path / "a.zarr") as ds:
        assert "11, 12, 13" in ds._repr_html_()


def test_a_server_sends_only_small_chunks_of_coordinates() -> None:
    size = 20_000  # one chunk of 156 KiB
    axes = {"x": 100, "long": size}
    dimensions = tuple(Dimension(name, n) for name, n in axes.items())
    variables = [
        Variable(name, DOUBLE, (f"/{name}",), data=MemorySource(np.arange(float(n))))
        for name, n in axes.items()
    ]
    other = Variable("other", DOUBLE, ("/x",), data=MemorySource(np.zeros(100)))
    inner = MemoryStore()
    nczarr.copy(
        resolve(Dataset("d", dimensions=dimensions, variables=(*variables, other))),
        inner,
        chunks=f"long={size}",
    )
    store = CountingStore(inner)
    with open_dataset(store) as stored:
        store.calls.clear()
        found = {v.fqn: v.values for v in variable_storage(stored.dataset, near=False)}
        assert found == {"/x": "0.0, 1.0, … 99.0", "/long": "", "/other": ""}
        assert sum(count for name, count in store.calls if name.startswith("get")) <= 2
    with nczarr.Dataset(store) as ds:
        store.calls.clear()
        assert "99.0" not in ds._repr_html_()
        assert not any(name.startswith("get") for name, _ in store.calls)

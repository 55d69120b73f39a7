"""Run xarray's own tests of backends over the accessor: to Zarr and to netCDF files, and read back by the engine.

All classes are here but those about the insides of one engine of xarray: data stores that are open already, h5netcdf,
scipy, pydap. ``failing_tests.toml`` lists each test that fails, with its reason; a listed test that passes fails.
"""

from __future__ import annotations

import os
import tomllib
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import pytest

xr = pytest.importorskip("xarray")
backends = pytest.importorskip("xarray.tests.test_backends")
trees = pytest.importorskip("xarray.tests.test_backends_datatree")

from xarray.backends import plugins  # noqa: E402
from xarray.tests.conftest import create_test_datatree, simple_datatree, time_unit, use_dask  # noqa: E402, F401
from xarray.tests.test_backends import tmp_store  # noqa: E402, F401
from xarray.tests.test_backends_datatree import (  # noqa: E402
    unaligned_datatree_nc,  # noqa: F401
    unaligned_datatree_zarr_factory,  # noqa: F401
)

from nczarr.xarray import NCZarrBackendEntrypoint  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

#: The reason by the name of a test that fails: ``CLASS::TEST``, or ``CLASS::TEST[CASE]``, in which ``*`` is any text.
FAILING = {
    name: f"{kind}: {entry['reason']}"
    for kind, entries in tomllib.loads(
        Path(__file__).with_name("failing_tests.toml").read_text("utf-8")
    ).items()
    for entry in entries
    for name in entry["tests"]
}


class Engine(NCZarrBackendEntrypoint):  # type: ignore[misc]
    """The engine, without the options of xarray's engine for Zarr."""

    def open_dataset(self, target: Any, **how: Any) -> Any:
        others = {
            "mode",
            "consolidated",
            "zarr_format",
            "overwrite_encoded_chunks",
            "use_zarr_fill_value_as_mask",
        }
        others |= {"chunk_store", "synchronizer", "zarr_version", "auto_complex"}
        return super().open_dataset(target, **{k: v for k, v in how.items() if k not in others})


def to_zarr(
    data: Any,
    store: Any = None,
    mode: Any = None,
    group: Any = None,
    encoding: Any = None,
    *,
    consolidated: Any = None,
    zarr_format: Any = None,
    write_empty_chunks: Any = None,
    chunkmanager_store_kwargs: Any = None,
    **how: Any,
) -> Any:
    if write_empty_chunks is not None:
        how["write_empty_chunks"] = write_empty_chunks
    return data.nczarr.to_zarr(store, mode, group, encoding, **how)


def to_netcdf(
    data: Any,
    path: Any = None,
    mode: str = "w",
    format: str | None = None,
    group: str | None = None,
    engine: str | None = None,
    encoding: Any = None,
    unlimited_dims: Any = None,
    compute: bool = True,
    write_inherited_coords: bool = False,
    **how: Any,
) -> Any:
    return data.nczarr.to_netcdf(
        path if path is None else os.fspath(path),
        mode,
        format,
        group,
        encoding=encoding,
        unlimited_dims=unlimited_dims,
        compute=compute,
        write_inherited_coords=write_inherited_coords,
    )


def reasons_of(name: str) -> list[str]:
    """Return why a test may fail, with and without its case in the name."""
    return [reason for pattern, reason in FAILING.items() if matches(name, pattern)]


def matches(name: str, pattern: str) -> bool:
    escaped = pattern.replace("[", "[[]")
    return fnmatchcase(name, escaped) or fnmatchcase(name.partition("[")[0], escaped)


@pytest.fixture(autouse=True)
def _over_the_accessor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for reason in reasons_of(_name(request.node)):
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    for kind in (xr.Dataset, xr.DataArray, xr.DataTree):
        monkeypatch.setattr(kind, "to_zarr", to_zarr)
        monkeypatch.setattr(kind, "to_netcdf", to_netcdf)
    monkeypatch.setattr(plugins, "get_backend", lambda engine: Engine())
    monkeypatch.setattr(plugins, "guess_engine", lambda target, must_support_groups=False: "nczarr")
    if request.cls is not None and issubclass(request.cls, backends.ZarrBase):
        # Tests of ZarrBase write Zarr under names of netCDF files, which the accessor refuses.
        monkeypatch.setattr(backends, "create_tmp_file", partial(backends.create_tmp_file, suffix=".zarr"))


def _name(item: pytest.Item) -> str:
    return "::".join(item.nodeid.split("::")[1:])


@pytest.fixture(params=[3])
def default_zarr_format(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def test_each_failing_test_is_one_of_xarray() -> None:
    here = {f"{c.__name__}::{t}" for c in globals().values() if isinstance(c, type) for t in dir(c)}
    names = [name.partition("[")[0] for name in FAILING]
    assert [name for name in names if not any(matches(test, name) for test in here)] == []


class TestNetCDF4Data(backends.TestNetCDF4Data):
    engine = None


class TestNetCDF4ViaDaskData(backends.TestNetCDF4ViaDaskData):
    engine = None


class TestGenericNetCDF4InMemory(backends.TestGenericNetCDF4InMemory):
    pass


class TestNetCDF3ViaNetCDF4Data(backends.TestNetCDF3ViaNetCDF4Data):
    engine = None


class TestNetCDF4ClassicViaNetCDF4Data(backends.TestNetCDF4ClassicViaNetCDF4Data):
    engine = None


class TestGenericNetCDFData(backends.TestGenericNetCDFData):
    pass


class TestZarrDictStore(backends.TestZarrDictStore):
    pass


class TestZarrWriteEmpty(backends.TestZarrWriteEmpty):
    pass


class TestZarrRegionAuto(backends.TestZarrRegionAuto):
    pass


class TestOpenMFDatasetWithDataVarsAndCoordsKw(backends.TestOpenMFDatasetWithDataVarsAndCoordsKw):
    pass


class TestDask(backends.TestDask):
    pass


class TestEncodingInvalid(backends.TestEncodingInvalid):
    pass


class TestValidateAttrs(backends.TestValidateAttrs):
    pass


class TestDataArrayToNetCDF(backends.TestDataArrayToNetCDF):
    pass


class TestDataArrayToZarr(backends.TestDataArrayToZarr):
    pass


class TestNCZarr(backends.TestNCZarr):
    pass


class TestGenericNetCDFIO(trees.TestGenericNetCDFIO):
    pass


class TestNetCDF4DatatreeIO(trees.TestNetCDF4DatatreeIO):
    pass


trees.TestZarrDatatreeIO.pytestmark = []  # both versions of Zarr


@pytest.mark.parametrize("zarr_format", [3])
class TestZarrDatatreeIO(trees.TestZarrDatatreeIO):
    pass

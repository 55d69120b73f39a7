"""Run xarray's own tests of backends over the accessor: to Zarr and to netCDF files, and read back by the engine."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

xr = pytest.importorskip("xarray")
backends = pytest.importorskip("xarray.tests.test_backends")


import nczarr.xarray  # noqa: E402, F401

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

#: Tests that do not apply, with the reason.
EXCEPTIONS = {
    "test_write_store": "needs a data store of xarray, which the accessor has not",
    "test_load_async": "needs pytest-asyncio",
    "test_roundtrip_None_variable": "netCDF has no variable without a name: TypeError",
    "test_append_write": "writes a file .nc with mode='a': to_netcdf only replaces files",
    "test_append_overwrite_values": "the same",
    "test_append_with_invalid_dim_raises": "the same",
    "test_roundtrip_timedelta_data_via_dtype": "needs a fixture of xarray's conftest",
    "test_vectorized_indexing_negative_step": "the same",
}


class Accessor:
    """The methods by which xarray's tests write and read."""

    suffix = ".zarr"
    engine = "nczarr"

    @pytest.fixture(autouse=True)
    def _applies(self, request: pytest.FixtureRequest) -> None:
        reason = EXCEPTIONS.get(request.node.originalname)
        if reason:
            pytest.skip(reason)

    def save(self, dataset: Any, path: str, **how: Any) -> Any:
        return (
            dataset.nczarr.to_netcdf(path, **how)
            if self.suffix == ".nc"
            else dataset.nczarr.to_zarr(path, **how)
        )

    @contextmanager
    def open(self, path: str, **how: Any) -> Iterator[Any]:
        with xr.open_dataset(path, engine="nczarr", **how) as ds:
            yield ds

    @contextmanager
    def create_store(self) -> Iterator[Any]:
        pytest.skip("the accessor has no data store of xarray")
        yield

    @contextmanager
    def roundtrip(
        self, data: Any, save_kwargs: Any = None, open_kwargs: Any = None, allow_cleanup_failure: bool = False
    ) -> Iterator[Any]:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, f"a{self.suffix}")
            self.save(data, path, **(save_kwargs or {}))
            with self.open(path, **(open_kwargs or {})) as ds:
                yield ds


class TestZarr(Accessor, backends.CFEncodedBase):
    pass


class TestFile(Accessor, backends.CFEncodedBase):
    suffix = ".nc"
    file_format = "NETCDF4"

"""Run xarray's own tests of backends over the accessor: to Zarr and to netCDF files, and read back by the engine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

xr = pytest.importorskip("xarray")
backends = pytest.importorskip("xarray.tests.test_backends")
trees = pytest.importorskip("xarray.tests.test_backends_datatree")

from xarray.backends import plugins  # noqa: E402
from xarray.tests.conftest import create_test_datatree, simple_datatree, time_unit, use_dask  # noqa: E402, F401
from xarray.tests.test_backends_datatree import (  # noqa: E402
    unaligned_datatree_nc,  # noqa: F401
    unaligned_datatree_zarr_factory,  # noqa: F401
)
from zarr.storage import MemoryStore  # noqa: E402

from nczarr.xarray import NCZarrBackendEntrypoint  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

_TYPES = "netCDF has no booleans: xarray keeps them as bytes, as in netCDF files"
_NAMES = "a name that ends in .zarr is no name of a file"
_CODECS = "Zarr's codecs and keys are no encodings, but options of to_zarr, or netCDF's filters"
_UNCONSOLIDATED = "metadata are always consolidated, or read without a warning"
_STORE = "needs a data store of xarray, which the accessor has not"
#: Tests that do not apply, with the reason.
EXCEPTIONS = {
    "test_write_store": _STORE,
    "test_load_async": "needs pytest-asyncio, and reads in threads",
    "test_hidden_zarr_keys": _STORE,
    "test_dimension_names": _STORE,
    "test_cache_members": _STORE,
    "test_roundtrip_None_variable": "netCDF has no variable without a name: TypeError",
    "test_refresh_from_disk": "overwrites a file that HDF5 has open; xarray skips it for netCDF4, too",
    "test_default_write_engine": "about the choice among engines",
    "test_roundtrip_boolean_dtype": _TYPES,
    "test_roundtrip_boolean_dtype_legacy_int8": "an array that is no dataset of nczarr",
    "test_compressor_encoding": _CODECS,
    "test_check_encoding_is_consistent_after_append": _CODECS,
    "test_chunk_key_encoding_v2": _CODECS,
    "test_zarr_fill_value_setting": _CODECS,
    "test_zarr_encoding": _CODECS,
    "test_zarr_fill_value_in_encoding_on_read": _CODECS,
    "test_attributes": "netCDF has no nested attributes, and keeps them as JSON text",
    "test_read_non_consolidated_warning": _UNCONSOLIDATED,
    "test_to_zarr_not_consolidated": _UNCONSOLIDATED,
    "test_append_string_length_mismatch_raises": "texts of any length are appended; for bytes see test_accessor.py",
    "test_append_with_append_dim_no_overwrite": "replaces a coordinate of all earlier steps: refused",
    "test_to_zarr_compute_false": "looks at the keys of chunks",
    "test_compute_false": "a file appears when it is complete",
    "test_write_inherited_coords_true": "the child shares the dimension of its parent, and so has its coordinate",
}
#: The same, for files only.
OF_FILES = {
    "test_write_subgroup": _NAMES,
    "test_no_redundant_dimensions": _NAMES,
    "test_to_memoryview_compute_false": "the same error with another text",
    "test_dtype_coercion_error": "unsigned numbers keep their bits; for others see tests/convert/test_classic_types.py",
    "test_append_with_invalid_dim_raises": "a ValueError with the words of to_zarr",
    "test_roundtrip_endian": "asks for NotImplementedError, and the byte order is written",
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
    write_inherited_coords: Any = False,
    chunkmanager_store_kwargs: Any = None,
    **how: Any,
) -> Any:
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
    )


@pytest.fixture(autouse=True)
def _over_the_accessor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "Files" not in request.cls.__name__:
        monkeypatch.setattr(backends, "create_tmp_file", partial(backends.create_tmp_file, suffix=".zarr"))
    for kind in (xr.Dataset, xr.DataArray, xr.DataTree):
        monkeypatch.setattr(kind, "to_zarr", to_zarr)
        monkeypatch.setattr(kind, "to_netcdf", to_netcdf)
    monkeypatch.setattr(plugins, "get_backend", lambda engine: Engine())
    monkeypatch.setattr(plugins, "guess_engine", lambda target, must_support_groups=False: "nczarr")


@pytest.fixture(params=[3])
def default_zarr_format(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def that_apply(kind: type) -> type:
    """Remove the exceptions from a class of tests."""
    for name in {**EXCEPTIONS, **(OF_FILES if "Files" in kind.__name__ else {})}:
        if hasattr(kind, name):
            setattr(kind, name, None)
    return kind


@that_apply
class TestZarr(backends.ZarrBase):
    @contextmanager
    def create_zarr_target(self) -> Iterator[Any]:
        yield MemoryStore()


@that_apply
class TestFiles(backends.NetCDF4Base):
    pass


trees.TestZarrDatatreeIO.pytestmark = []  # both versions of Zarr


@that_apply
@pytest.mark.parametrize("zarr_format", [3])
class TestTreesInZarr(trees.TestZarrDatatreeIO):
    pass


@that_apply
class TestTreesInFiles(trees.NetCDFIOBase):
    engine = None


@that_apply
class TestClassicFiles(backends.NetCDF3Only, backends.CFEncodedBase):
    engine = None
    file_format = "NETCDF3_CLASSIC"


@that_apply
class TestFilesOf64BitOffsets(backends.NetCDF3Only, backends.CFEncodedBase):
    engine = None
    file_format = "NETCDF3_64BIT"


@that_apply
class TestFilesOfTheClassicModel(backends.NetCDF3Only, backends.CFEncodedBase):
    engine = None
    file_format = "NETCDF4_CLASSIC"

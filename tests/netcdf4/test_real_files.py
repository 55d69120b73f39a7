"""Compare real netCDF files through Zarr with netCDF4-python."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
from real_data import NETCDF_FILES

import nczarr.netcdf4 as ours
from nczarr import model
from nczarr.mapping import create_dataset
from nczarr.netcdf import open_dataset as open_file

FILES = sorted((Path(__file__).parents[1] / "data").glob("*.nc")) + NETCDF_FILES


def store(path: Path) -> dict[str, bytes]:
    """The content of a netCDF file on Zarr, in memory."""
    target: dict[str, bytes] = {}
    with open_file(path) as opened:
        dataset = opened.dataset
        with create_dataset(target, dataset) as sink:
            for fqn, variable in dataset.all_variables.items():
                shape = dataset.shape_of(variable)
                if variable.data is not None and 0 not in shape:
                    for region in model.regions(shape, sink.write_shape(fqn)):
                        sink.write(fqn, region, variable.data.read(region))
    return target


def groups(group: Any) -> Iterator[Any]:
    yield group
    for child in group.groups.values():
        yield from groups(child)


def alike(a: Any, b: Any) -> bool:
    if isinstance(a, np.ma.MaskedArray) or isinstance(b, np.ma.MaskedArray):
        if a is np.ma.masked or b is np.ma.masked:
            return a is b
        same = np.array_equal(np.ma.getmaskarray(a), np.ma.getmaskarray(b))
        return same and alike(np.ma.filled(a, a.fill_value), np.ma.filled(b, a.fill_value))
    if isinstance(a, np.ndarray | np.generic) and isinstance(b, np.ndarray | np.generic):
        if a.dtype == object:
            return a.shape == b.shape and all(alike(x, y) for x, y in zip(a.flat, b.flat, strict=True))
        if a.dtype.names:
            return a.dtype.names == b.dtype.names and all(alike(a[n], b[n]) for n in a.dtype.names)
        return (
            a.dtype == b.dtype and a.shape == b.shape and np.asarray(a).tobytes() == np.asarray(b).tobytes()
        )
    return type(a) is type(b) and bool(a == b)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_everything_upstream_reads(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            theirs = netCDF4.Dataset(path)
        except OSError:
            pytest.skip("netCDF4-python cannot open it")
    with theirs, ours.Dataset(store(path)) as mine:
        assert mine.data_model == theirs.data_model
        for g in groups(theirs):
            m = mine if g.path == "/" else mine[g.path]
            assert m.ncattrs() == g.ncattrs()
            assert list(m.dimensions) == list(g.dimensions)
            assert [(len(d), d.isunlimited()) for d in m.dimensions.values()] == [
                (len(d), d.isunlimited()) for d in g.dimensions.values()
            ]
            assert set(g.groups) <= set(m.groups)
            assert [n for n in m.variables if n in g.variables] == list(g.variables)
            assert set(g.enumtypes) <= set(m.enumtypes)
            for name in g.ncattrs():
                assert_attribute(m, g, name)
            for name, v in g.variables.items():
                check(m.variables[name], v)


def assert_attribute(mine: Any, theirs: Any, name: str) -> None:
    try:
        expected = theirs.getncattr(name)
    except KeyError:  # of a type that netCDF4-python does not know
        assert name in mine.ncattrs()
        return
    assert alike(mine.getncattr(name), expected), (theirs.name, name)


def check(mine: Any, theirs: Any) -> None:
    where = (theirs.group().path, theirs.name)
    assert (mine.shape, mine.dimensions) == (theirs.shape, theirs.dimensions), where
    assert mine.ncattrs() == theirs.ncattrs(), where
    for name in theirs.ncattrs():
        assert_attribute(mine, theirs, name)
    assert (mine.chunking(), mine.filters()) == (theirs.chunking(), theirs.filters()), where
    if not isinstance(theirs.datatype, netCDF4.CompoundType):
        assert mine.dtype == theirs.dtype, where
    for scale in (True, False):
        for v in (mine, theirs):
            v.set_auto_maskandscale(scale)
        try:
            expected = theirs[...]
        except (UnicodeDecodeError, TypeError):
            continue
        assert alike(expected, mine[...]), where
        if theirs.ndim and theirs.shape[0] > 1:
            assert alike(theirs[::-2], mine[::-2]), where
            assert alike(theirs[-1], mine[-1]), where

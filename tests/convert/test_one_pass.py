"""Many files are read in one pass: each is opened once before the copy, and workers open only what they read."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest

import nczarr
from nczarr.convert.many import joining
from nczarr.errors import UnsupportedError
from nczarr.model import Dataset
from tests.convert.test_many_files import day


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each file is opened to join it."""
    found: Counter[str] = Counter()
    whole = joining.open_processed

    @contextmanager
    def counting(source: Any, *arguments: Any) -> Iterator[Dataset]:
        found[Path(source).name] += 1
        with whole(source, *arguments) as dataset:
            yield dataset

    monkeypatch.setattr(joining, "open_processed", counting)
    return found


@pytest.mark.slow
def test_a_plan_opens_each_file_once(tmp_path: Path, opened: Counter[str]) -> None:
    files = [day(tmp_path / f"{n}.nc", n, extra="w") for n in range(40)]
    nczarr.join(files, tmp_path / "a.zarr", exclude="w", dry_run=True, expect_step="6h")
    assert set(opened.values()) == {1}
    nczarr.join(files, tmp_path / "a.zarr", exclude="w")
    # A file is opened again for its values, if others were opened since.
    assert max(opened.values()) <= 3


def test_another_process_opens_the_files_that_it_reads(tmp_path: Path, opened: Counter[str]) -> None:
    files = [day(tmp_path / f"{n}.nc", n) for n in range(6)]
    with joining.join(files, "time") as joined:
        data = joined.all_variables["/v"].data
        assert data is not None
        wanted = data.read((slice(9, 11, 1), slice(0, 5, 1)))
        sent = pickle.dumps(joined)
    opened.clear()
    received = pickle.loads(sent).all_variables["/v"].data
    np.testing.assert_array_equal(received.read((slice(9, 11, 1), slice(0, 5, 1))), wanted)
    assert opened == {"2.nc": 1}


def compressed(path: Path, number: int, **options: Any) -> Path:
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("time", None)
        file.createDimension("x", 4000)
        file.createVariable("time", "i4", ("time",))[:] = [number]
        v = file.createVariable("v", "i4", ("time", "x"), chunksizes=(1, 1000), **options)
        v[:] = [np.arange(4000) + number]
    return path


def test_references_join_files_with_other_levels_of_deflate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [compressed(tmp_path / f"{n}.nc", n, zlib=True, complevel=n + 1) for n in range(4)]
    nczarr.join(files, tmp_path / "refs.json", virtual=True)
    nczarr.join(files, tmp_path / "whole.zarr")
    assert list(nczarr.diff(tmp_path / "whole.zarr", tmp_path / "refs.json")) == []
    files.append(compressed(tmp_path / "4.nc", 4, compression="zstd"))
    # Their chunks make no array: small values stand beside the references, large ones are refused.
    nczarr.join(files, tmp_path / "inline.json", virtual=True)
    nczarr.join(files, tmp_path / "all.zarr")
    assert list(nczarr.diff(tmp_path / "all.zarr", tmp_path / "inline.json")) == []
    monkeypatch.setenv("NCZARR_MAX_INLINE_BYTES", "1")
    with pytest.raises(UnsupportedError, match=r"with zstd .* with shuffle and deflate") as caught:
        nczarr.join(files, tmp_path / "refs2.json", virtual=True)
    assert "4.nc" in str(caught.value)

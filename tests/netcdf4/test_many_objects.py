"""Write many strings and sequences at once: the same values and errors as one by one, and no work for each name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczarr
from nczarr import errors
from nczarr.session.tree import VariableNode

SUFFIXES = ("zarr", "nc")


def vectors(*lengths: int, dtype: str = "i4") -> np.ndarray:
    found = np.empty(len(lengths), object)
    found[:] = [np.arange(length, dtype=dtype) + 7 for length in lengths]
    return found


def create(path: Path, values: Any, datatype: Any = str) -> nczarr.Dataset:
    dataset = nczarr.Dataset(path, "w")
    dataset.createDimension("x", len(values))
    if datatype is not str:
        datatype = dataset.createVLType(datatype, "seq")
    dataset.createVariable("v", datatype, ("x",))
    return dataset


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("kind", ["strings", "sequences"])
def test_the_name_of_a_variable_is_not_made_for_each_element(
    kind: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts, fqn = [], VariableNode.fqn
    for size in (5, 500):
        values = np.array(["ab"] * size, object) if kind == "strings" else vectors(*[2] * size)
        with create(tmp_path / f"{size}.{suffix}", values, str if kind == "strings" else "i4") as dataset:
            made: list[str] = []
            with monkeypatch.context() as patch:
                patch.setattr(
                    VariableNode, "fqn", property(lambda node, made=made: made.append("") or fqn.fget(node))
                )
                dataset["v"][:] = values
                counts.append(len(made))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_many_strings_come_back(suffix: str, tmp_path: Path) -> None:
    texts = ["", "a", "äö", "\udcff", "x" * 1000, "日本", *map(str, range(100))]
    with create(tmp_path / f"a.{suffix}", texts) as dataset:
        dataset["v"][:] = np.array(texts, object)
    with nczarr.Dataset(tmp_path / f"a.{suffix}") as dataset:
        assert dataset["v"][:].tolist() == texts


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_one_string_among_many_that_is_no_text_is_refused_by_name(suffix: str, tmp_path: Path) -> None:
    with create(tmp_path / f"a.{suffix}", "abc") as dataset:
        dataset["v"][:] = np.array(["a", "b", "c"], object)
        with pytest.raises(errors.TextError, match="/v"):
            dataset["v"][:] = np.array(["a", "\ud800", "c"], object)
        with pytest.raises(errors.ArgumentTypeError, match="/v: the value must be a string, not int"):
            dataset["v"][:] = np.array(["a", "b", 3], object)
        if suffix == "nc":
            with pytest.raises(errors.ArgumentError, match="NUL"):
                dataset["v"][:] = np.array(["a", "b\0c", "c"], object)
        assert dataset["v"][:].tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("dtype", ["i2", "f8"])
def test_many_sequences_come_back_and_stay_as_they_were(suffix: str, dtype: str, tmp_path: Path) -> None:
    values = vectors(3, 0, 1, 5, 0, *range(100), dtype=dtype)
    expected = [item.tolist() for item in values]
    with create(tmp_path / f"a.{suffix}", values, dtype) as dataset:
        dataset["v"][:] = values
        values[0][:] = 99  # a program uses its arrays again
        assert [np.asarray(item).tolist() for item in dataset["v"][:]] == expected
    with nczarr.Dataset(tmp_path / f"a.{suffix}") as dataset:
        found = dataset["v"][:]
        assert [np.asarray(item).tolist() for item in found] == expected
        assert {np.asarray(item).dtype for item in found} == {np.dtype(dtype)}


def test_netcdf4_reads_many_sequences_and_strings(tmp_path: Path) -> None:
    netCDF4 = pytest.importorskip("netCDF4")
    values = vectors(3, 0, 1, 5, 0, *range(100))
    with create(tmp_path / "a.nc", values, "i4") as dataset:
        dataset["v"][:] = values
        dataset.createVariable("s", str, ("x",))[:] = np.array([f"ä{n}" for n in range(len(values))], object)
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert [item.tolist() for item in file["v"][:]] == [item.tolist() for item in values]
        assert file["s"][:].tolist() == [f"ä{n}" for n in range(len(values))]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_sequence_of_another_type_among_many_is_refused(suffix: str, tmp_path: Path) -> None:
    values = vectors(1, 2, 3)
    values[1] = values[1].astype("i8")
    with (
        create(tmp_path / f"a.{suffix}", values, "i4") as dataset,
        pytest.raises(errors.ArgumentTypeError, match="wrong data type"),
    ):
        dataset["v"][:] = values

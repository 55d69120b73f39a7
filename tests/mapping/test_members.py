"""Test the members of stored datasets and edited files that a session calls."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nczarr.errors import NCZarrError
from nczarr.mapping import StoredDataset, create_dataset, open_dataset
from nczarr.mapping.dataset.changes import unstored_reason
from nczarr.mapping.dataset.variable_data import VariableData
from nczarr.model import INT, Attribute, Dataset, Dimension, MemorySource, Variable
from nczarr.netcdf import EditedFile, create_file
from nczarr.stores import LocalStore, MemoryStore


def series() -> Dataset:
    return Dataset("d", dimensions=[Dimension("t", 2, True)], variables=[Variable("v", INT, ("/t",))])


def values_of(stored: StoredDataset) -> VariableData:
    (variable,) = stored.dataset.variables
    assert isinstance(variable.data, VariableData)
    return variable.data


@pytest.mark.parametrize("kind", ["zarr", "netcdf"])
def test_a_model_is_checked_without_a_change(kind: str, tmp_path: Path) -> None:
    stored = (
        create_dataset(MemoryStore(), series())
        if kind == "zarr"
        else create_file(tmp_path / "a.nc", series())
    )
    before = stored.dataset
    stored.check_model(series())
    wrong = Dataset("d", variables=[Variable("w", INT, ("/nothing",))])
    with pytest.raises(NCZarrError, match="nothing"):
        stored.check_model(wrong)
    assert stored.dataset == before
    stored.close()


def test_arrays_have_room_for_the_values_that_they_accept() -> None:
    store = MemoryStore()
    stored = create_dataset(store, series())
    values = values_of(stored)
    values.grow((5,))
    assert (values.shape, values.stored_shape) == ((5,), (2,))
    stored.make_room()
    assert values.stored_shape == (5,)
    values.grow((6,))
    values.extend_alone()
    assert values.stored_shape == (6,)
    stored.close()


def test_steps_cost_their_own_bytes_in_files_alone(tmp_path: Path) -> None:
    for target, expected in ((tmp_path / "a.zarr", True), (MemoryStore(), False)):
        stored = create_dataset(target, series())
        assert values_of(stored).in_place is expected
        stored.close()


def test_values_that_an_aborted_writer_left_may_be_trusted() -> None:
    store = MemoryStore()
    create_dataset(store, series()).close()
    stored = open_dataset(store, mode="r+")
    values = values_of(stored)
    assert not values.may_have_tail
    values.grow((4,))
    assert values.may_have_tail
    values.trust_tail()
    assert not values.may_have_tail
    stored.close()


def test_a_dataset_that_could_not_be_stored_is_marked_with_the_reason(tmp_path: Path) -> None:
    create_dataset(tmp_path / "a.zarr", series()).close()
    stored = open_dataset(tmp_path / "a.zarr", mode="r+")
    stored.leave_unfinished("the disk is full")
    assert unstored_reason(LocalStore(tmp_path / "a.zarr")) == "the disk is full"


def test_a_suspended_dataset_stays_hidden() -> None:
    store = MemoryStore()
    stored = create_dataset(store, series())
    stored.suspend()
    assert store.get("zarr.json") is None
    assert list(store.list()) == [".nczarr-unfinished"]


def test_an_abandoned_file_leaves_the_one_that_it_would_replace(tmp_path: Path) -> None:
    create_file(tmp_path / "a.nc", series()).close()
    before = (tmp_path / "a.nc").read_bytes()
    file = create_file(tmp_path / "a.nc", Dataset("other"), overwrite=True)
    assert isinstance(file, EditedFile)
    assert file.is_open
    file.abandon()
    assert not file.is_open
    assert list(tmp_path.iterdir()) == [tmp_path / "a.nc"]
    assert (tmp_path / "a.nc").read_bytes() == before


def test_new_values_forget_the_type_of_their_source() -> None:
    variable = Variable("v", INT, ("t",), data=[1, 2], attributes=[Attribute("units", "m")])
    new = variable.with_new_values(MemorySource(np.array([3, 4], "i4")))
    assert new.storage.data_type is None
    assert new.attributes == variable.attributes
    assert new[...].tolist() == [3, 4]

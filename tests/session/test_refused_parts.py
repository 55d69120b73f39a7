"""Refuse some parts of a change, and see that the store gets all others."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

import nczarr
from nczarr.errors import NCZarrError, PartlyStoredError, StoreError
from nczarr.model import INT, Dataset, Variable
from nczarr.session.errors import Failures, store_parts


class PickyStore:
    """Accepts a model without some variables, and counts the attempts."""

    def __init__(self, refused: Iterable[str], *, named: bool) -> None:
        self.refused, self.named = {*refused}, named
        self.model = Dataset("d")
        self.attempts = 0

    def update(self, model: Dataset) -> None:
        self.attempts += 1
        for variable in model.variables:
            if variable.name in self.refused:
                raise StoreError("refused", fqn=f"/{variable.name}" if self.named else None)
        self.model = model


def store(names: list[str], refused: list[str], *, named: bool = False) -> tuple[PickyStore, Failures]:
    store, failures = PickyStore(refused, named=named), Failures()
    new = Dataset("d", variables=tuple(Variable(name, INT) for name in names))
    try:
        store.update(new)
    except NCZarrError as error:
        store_parts(store.update, store.model, new, error, failures)
    return store, failures


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("refused", [["v0"], ["v19"], ["v3", "v4"], ["v0", "v7", "v19"]])
def test_all_other_variables_are_stored(refused: list[str], named: bool) -> None:
    names = [f"v{number}" for number in range(20)]
    found, failures = store(names, refused, named=named)
    assert [v.name for v in found.model.variables] == [name for name in names if name not in refused]
    assert sorted(failures.found) == sorted(f"/{name}" for name in refused)
    assert failures.whole is None


def test_halves_are_tried_before_single_variables() -> None:
    """One refused variable of 64 costs a number of attempts like the logarithm of 64, not like 64."""
    found, _ = store([f"v{number}" for number in range(64)], ["v37"])
    assert found.attempts <= 2 + 2 * 6 + 1


def test_a_store_that_refuses_everything_is_asked_a_few_times() -> None:
    names = [f"v{number}" for number in range(400)]
    found, failures = store(names, names)
    assert not found.model.variables
    assert {*failures.found} == {f"/{name}" for name in names}
    assert found.attempts < 200
    with pytest.raises(PartlyStoredError):
        failures.raise_all("d.zarr")


def test_many_refusals_among_accepted_parts_do_not_end_the_attempts() -> None:
    names = [f"v{number}" for number in range(140)]
    found, failures = store(names, names[::2])
    assert [v.name for v in found.model.variables] == names[1::2]
    assert len(failures.found) == 70


def test_an_attribute_is_deleted_by_each_form_of_its_name(tmp_path: object) -> None:
    for kept, deleted in (("\u00e9t\u00e9", "e\u0301te\u0301"), ("e\u0301", "\u00e9")):
        dataset = nczarr.Dataset(f"{tmp_path}/{len(kept)}.zarr", "w")
        dataset.setncattr(kept, 1)
        dataset.delncattr(deleted)
        assert dataset.ncattrs() == []
        dataset.close()
        with nczarr.Dataset(f"{tmp_path}/{len(kept)}.zarr") as dataset:
            assert dataset.ncattrs() == []

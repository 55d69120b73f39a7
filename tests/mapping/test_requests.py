"""How much is asked of the store: opening costs a request or two, whatever the size of the dataset."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

_spec = importlib.util.spec_from_file_location("mapping_tools", Path(__file__).parent / "mapping_tools.py")
tools = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(tools)

from nczarr.mapping import WriteOptions, create_dataset, open_dataset  # noqa: E402
from nczarr.model import DOUBLE, Attribute, Dataset, Dimension, Group, Variable  # noqa: E402
from nczarr.stores import MemoryStore  # noqa: E402
from nczarr.stores.counting import CountingStore  # noqa: E402


def large(count: int = 1000) -> Dataset:
    variables = tuple(
        Variable(f"v{i}", DOUBLE, ("/t", "/x"), attributes=(Attribute.of("units", "K"),))
        for i in range(count)
    )
    return Dataset(
        "d",
        dimensions=(Dimension("t", 0, True), Dimension("x", 4)),
        variables=variables,
        groups=(Group("g", variables=variables[:10]),),
    )


@pytest.mark.parametrize("layout", ["nczarr-v3", "zarr-v3"])
def test_opening_consolidated_metadata_costs_at_most_two_requests(layout: str) -> None:
    store = MemoryStore()
    create_dataset(store, large(), WriteOptions(layout=layout)).close()
    counting = CountingStore(store)
    with open_dataset(counting) as stored:
        assert len(stored.dataset.all_variables) == 1010
    assert len(counting.calls) <= 2
    # All documents that could be there are asked for at once.
    assert counting.requests <= 8


def test_opening_without_them_costs_a_listing_and_batches() -> None:
    store = MemoryStore()
    create_dataset(store, large(), WriteOptions(consolidated=False)).close()
    counting = CountingStore(store)
    with open_dataset(counting) as stored:
        assert len(stored.dataset.all_variables) == 1010
    assert len(counting.calls) <= 4


def test_a_change_of_one_attribute_writes_one_document() -> None:
    store = MemoryStore()
    create_dataset(store, large(50)).close()
    counting = CountingStore(store)
    with open_dataset(counting, "r+") as stored:
        before = len(counting.calls)
        v7 = replace(stored.dataset.variable_at("/v7"), attributes=(Attribute.of("units", "m"),))
        variables = tuple(v7 if v.name == "v7" else v for v in stored.dataset.variables)
        stored.update(replace(stored.dataset, variables=variables))
        assert [name for name, _ in counting.calls[before:]] == ["set_many"]
        stored.data("/v7").array  # noqa: B018
    assert sum(count for name, count in counting.calls[before:] if name.startswith("set")) == 2
    with open_dataset(store) as stored:
        assert stored.dataset.variable_at("/v7").attribute["units"].text == "m"


def test_reading_one_chunk_asks_for_one_chunk() -> None:
    store = MemoryStore()
    dataset = Dataset("d", dimensions=(Dimension("x", 4),), variables=(Variable("v", DOUBLE, ("/x",)),))
    with create_dataset(store, dataset) as sink:
        sink.write("/v", (slice(0, 4),), np.arange(4.0))
    counting = CountingStore(store)
    with open_dataset(counting) as stored:
        before = counting.requests
        assert stored.data("/v").read_orthogonal(2) == 2.0
        assert counting.requests == before + 1

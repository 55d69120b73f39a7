"""Ask a store for no more than xarray's engine for Zarr does: the counts of xarray's own tests, in terms of keys.

xarray counts the calls of methods of zarr-python. Here, a mapping counts the keys that are read and written.
"""

from __future__ import annotations

import asyncio
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

xr = pytest.importorskip("xarray")
pytest.importorskip("dask.array")
cpu = pytest.importorskip("zarr.core.buffer.cpu")

import nczarr.xarray  # noqa: E402, F401


class CountedKeys(dict[str, Any]):
    """A mapping that counts the keys that are read and written; the root's document has no weight, as in xarray."""

    def __init__(self) -> None:
        super().__init__()
        self.read: Counter[str] = Counter()
        self.written: Counter[str] = Counter()

    def __getitem__(self, key: str) -> Any:
        self.read[key] += 1
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.read[key] += 1
        return super().get(key, default)

    def __setitem__(self, key: str, value: Any) -> None:
        self.written[key] += 1
        super().__setitem__(key, value)

    def counts(self) -> tuple[int, int]:
        """Return how many keys were read and written since the last call."""
        found = [
            sum(n for key, n in keys.items() if key != "zarr.json") for keys in (self.read, self.written)
        ]
        self.read.clear()
        self.written.clear()
        return found[0], found[1]


@pytest.fixture(scope="module")
def store() -> CountedKeys:
    """Return a store of four variables with two chunks and more, and their coordinates."""
    made = CountedKeys()
    values = np.arange(8 * 9, dtype="f8").reshape(8, 9)
    coordinates = {"dim1": np.arange(8), "dim2": np.arange(9) / 2}
    data = xr.Dataset({f"v{n}": (("dim1", "dim2"), values + n) for n in range(4)}, coordinates)
    data.nczarr.to_zarr(made, encoding={f"v{n}": {"chunks": (4, 3)} for n in range(4)})
    return made


def for_zarr_python(store: CountedKeys) -> CountedKeys:
    """Return the store with values as zarr-python keeps them in a mapping."""
    found = CountedKeys()
    found.update({key: cpu.Buffer.from_bytes(value) for key, value in store.items()})
    return found


def points(**places: Any) -> dict[str, Any]:
    return {name: xr.Variable("points", values) for name, values in places.items()}


SELECTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "all": ("isel", {}),
    "integer": ("isel", {"dim2": 2}),
    "label": ("sel", {"dim2": 1.0}),
    "slice": ("isel", {"dim2": slice(1, 3)}),
    "labels": ("sel", {"dim2": slice(1.0, 3.0)}),
    "outer": ("isel", {"dim2": [1, 3]}),
    "outer labels": ("sel", {"dim2": [1.0, 3.0]}),
    "points": ("isel", points(dim1=[2, 3], dim2=[1, 3])),
    "labelled points": ("sel", points(dim1=[2, 3], dim2=[1.0, 2.0])),
}


def parts(dataset: Any) -> Iterator[Any]:
    yield from (dataset, dataset["v0"], dataset["v0"].variable)


@pytest.mark.parametrize(("method", "selection"), SELECTIONS.values(), ids=list(SELECTIONS))
def test_loading_reads_no_key_twice_and_no_more_than_xarray(store: Any, method: str, selection: Any) -> None:
    """Each awaits its variables, of which the documents are not asked for again."""
    taken: dict[str, list[int]] = {}
    loaded: dict[str, list[Any]] = {}
    for engine, keys in (("zarr", for_zarr_python(store)), ("nczarr", store)):
        opened = xr.open_dataset(keys, engine=engine, chunks=None)
        taken[engine], loaded[engine] = [], []
        for part in parts(opened):
            # Variables know no labels.
            if isinstance(part, xr.Variable) and method == "sel":
                continue
            keys.counts()
            loaded[engine].append(asyncio.run(getattr(part, method)(**selection).load_async()))
            assert not any(key.endswith(".json") for key in keys.read)
            # A chunk that one part has read is in the cache for the next ones.
            assert engine == "zarr" or max(keys.read.values(), default=0) <= 1
            taken[engine].append(keys.counts()[0])
    assert all(ours <= theirs for ours, theirs in zip(taken["nczarr"], taken["zarr"], strict=True)), taken
    for ours, theirs in zip(loaded["nczarr"], loaded["zarr"], strict=True):
        ours, theirs = (one.drop_attrs() if hasattr(one, "drop_attrs") else one for one in (ours, theirs))
        xr.testing.assert_equal(ours, theirs)


def test_objects_that_load_together_read_each_variable_once(store: Any) -> None:
    """The engine `zarr` of xarray reads a variable for each object, and so does this one, never more."""
    opened = xr.open_dataset(store, engine="nczarr", chunks=None)
    store.counts()

    async def load() -> list[Any]:
        return list(await asyncio.gather(*(opened["v0"].load_async() for _ in range(5))))

    results = asyncio.run(load())
    assert store.counts()[0] <= 5 * 6
    assert all(result.identical(opened["v0"]) for result in results)


def test_appending_writes_the_keys_that_xarray_counts() -> None:
    """The numbers are those of `TestInstrumentedZarrStore` of xarray."""
    store = CountedKeys()
    original = xr.Dataset({"foo": ("x", [1])}, coords={"x": [0]})
    modified = xr.Dataset({"foo": ("x", [2])}, coords={"x": [1]})
    original.nczarr.to_zarr(store)
    assert store.counts()[1] <= 5
    for mode in ("a", "a-"):
        modified.nczarr.to_zarr(store, mode=mode, append_dim="x")
        reads, writes = store.counts()
        assert (reads <= 9, writes <= 4) == (True, True), (mode, reads, writes)
    expected = xr.concat([original, modified, modified], dim="x")
    xr.testing.assert_identical(xr.open_dataset(store, engine="nczarr").load(), expected)


def test_regions_write_the_keys_that_xarray_counts() -> None:
    store = CountedKeys()
    data = xr.Dataset({"foo": ("x", [1, 2, 3])}, coords={"x": [1, 2, 3]}).chunk()
    data.nczarr.to_zarr(store, mode="w", compute=False)
    assert store.counts()[1] <= 5
    for region in ({"x": slice(None)}, "auto"):
        data.nczarr.to_zarr(store, region=region)
        reads, writes = store.counts()
        # Explicit regions contain the coordinate, too.
        assert (reads <= 4, writes <= 2) == (True, True), (region, reads, writes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        xr.testing.assert_identical(xr.open_dataset(store, engine="nczarr").load(), data.compute())
    assert store.counts() <= (5, 0)

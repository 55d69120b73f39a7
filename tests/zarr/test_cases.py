"""Read every case of the sample collection, or fail with a clear error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from real_data import ZARR_SAMPLES

from nczarr.errors import NCZarrError
from nczarr.stores import LocalStore
from nczarr.zarr.documents.extensions import find_extension, register_extension, unregister_extension
from nczarr.zarr.hierarchy.opening import open_hierarchy

FOLDER = ZARR_SAMPLES / "zarr-v3-cases"
CASES = json.loads((FOLDER / "cases.json").read_text())

# Here the collection's expectation is wrong: the documents break the specification, and are refused.
REFUSED = {
    "ext_empty_array_on_array": "ZEP 10: the list of extensions has at least one entry",
    "fill_null": "a fill value of null is legal in version 2 only; every reader but GDAL refuses it",
}


def plain(value: Any) -> Any:
    """Values as cases.json spells them: bytes as hexadecimal text, NaN as "nan"."""
    if isinstance(value, np.ndarray):
        return [plain(item) for item in value] if value.ndim else plain(value[()])
    if isinstance(value, np.void):
        return [plain(item) for item in value] if value.dtype.names else value.tobytes().hex()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, np.datetime64):
        return str(value)
    if isinstance(value, complex | np.complexfloating):
        return str(complex(value))
    if isinstance(value, np.generic):
        value = value.item()
    return "nan" if isinstance(value, float) and np.isnan(value) else value


def read(name: str) -> Any:
    hierarchy = open_hierarchy(LocalStore(FOLDER / f"{name}.zarr"))
    for path in hierarchy.nodes:
        assert hierarchy.nodes[path] is not None  # parsed only now
    return plain(hierarchy.array("v").read())


@pytest.fixture(autouse=True)
def engine_alone() -> Iterator[None]:
    """Let the engine know no extension: the mapping, which other tests import, declares that of NCZarr."""
    known = find_extension("nczarr")
    unregister_extension("nczarr")
    yield
    if known is not None:
        register_extension(known)


@pytest.mark.parametrize("name", sorted(CASES))
def test_case(name: str) -> None:
    expected = CASES[name]["expect"]
    if expected == "FAIL" or name in REFUSED:
        with pytest.raises(NCZarrError):
            read(name)
    else:
        assert read(name) == expected

"""Refuse netCDF-C's draft for Zarr v3, whose keys have the same names and another meaning."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import nczarr
from nczarr.errors import UnsupportedError
from nczarr.mapping import open_dataset
from nczarr.stores import MemoryStore

STORES = Path(__file__).parents[1] / "data" / "stores"
Documents = dict[str, dict[str, Any]]


def appendix() -> Documents:
    """As the last appendix of its docs/nczarr.md has it."""
    return {
        "zarr.json": {
            "_nczarr_superblock": {"version": "3.0.0", "format": 3},
            "_nczarr_group": {
                "dimensions": [
                    {"name": "t", "size": 2, "unlimited": 1},
                    {"name": "x", "size": 3, "unlimited": 0},
                ],
                "arrays": ["v"],
                "subgroups": ["g"],
            },
            "_nczarr_attrs": {"attribute_types": [{"name": "n", "configuration": {"type": "int16"}}]},
            "n": 3,
        },
        "v/zarr.json": {"_nczarr_array": {"dimension_references": ["/t", "/x"], "type_alias": "char"}},
        "g/zarr.json": {"_nczarr_group": {"dimensions": [], "arrays": [], "subgroups": []}},
    }


def pull_request() -> Documents:
    """As the code of its pull request 3068 wrote the keys."""
    return {
        "zarr.json": {
            "_nczarr_superblock": {"version": "3.0.0"},
            "_nczarr_group": {
                "dimensions": {"t": {"size": 2, "unlimited": 1}, "x": 3},
                "arrays": ["v"],
                "groups": ["g"],
            },
        },
        "v/zarr.json": {"_nczarr_array": {"dimension_references": ["/t", "/x"], "nczarr_type": "char"}},
        "g/zarr.json": {},
    }


def store_of(documents: Documents) -> MemoryStore:
    store = MemoryStore()
    for key, attributes in documents.items():
        document: dict[str, Any] = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
        if key == "v/zarr.json":
            document |= {
                "node_type": "array",
                "shape": [2, 3],
                "data_type": "uint8",
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}},
                "chunk_key_encoding": {"name": "default"},
                "fill_value": 0,
                "codecs": [{"name": "bytes"}],
                "dimension_names": ["t", "x"],
            }
        store.set(key, json.dumps(document).encode())
    return store


def only(key: str, *path: str) -> Documents:
    """A store in which one member alone is of the draft."""
    whole = appendix() if path[-1] not in ("nczarr_type",) else pull_request()
    kept = pull_request()
    del kept["v/zarr.json"]["_nczarr_array"]["nczarr_type"]
    kept["zarr.json"]["_nczarr_group"]["dimensions"]["t"]["unlimited"] = True
    source: Any = whole[key]
    target: Any = kept[key]
    for step in path[:-1]:
        source, target = source[step], target.setdefault(step, {})
    target[path[-1]] = source[path[-1]]
    return kept


SIGNS = {
    "appendix": appendix(),
    "pull request": pull_request(),
    "format": only("zarr.json", "_nczarr_superblock", "format"),
    "subgroups": only("zarr.json", "_nczarr_group", "subgroups"),
    "subgroups below": only("g/zarr.json", "_nczarr_group", "subgroups"),
    "dimensions": only("zarr.json", "_nczarr_group", "dimensions"),
    "attributes": only("zarr.json", "_nczarr_attrs"),
    "alias": only("v/zarr.json", "_nczarr_array", "type_alias"),
    "type": only("v/zarr.json", "_nczarr_array", "nczarr_type"),
}


@pytest.mark.parametrize("documents", SIGNS.values(), ids=list(SIGNS))
@pytest.mark.parametrize("mode", ["r", "r+"])
def test_it_is_refused(documents: Documents, mode: Any) -> None:
    store = store_of(documents)
    before = {k: store.get(k) for k in store.list()}
    with pytest.raises(UnsupportedError, match="netCDF-C's draft of NCZarr for Zarr v3"):
        open_dataset(store, mode)
    with pytest.raises(UnsupportedError, match="netCDF-C's draft"):
        nczarr.mapping.repair(store)
    assert {k: store.get(k) for k in store.list()} == before


@pytest.mark.parametrize("version", ["3.0.1", "3.1.0", "3.2.0", "3.9.9", "4.0.0", "9.9.9", 3, None])
@pytest.mark.parametrize("documents", [appendix(), pull_request()], ids=["appendix", "pull request"])
def test_it_is_refused_at_every_version(documents: Documents, version: object) -> None:
    """A later version of the draft is no dataset of this convention: char would become ubyte."""
    documents["zarr.json"]["_nczarr_superblock"] = {"version": version}
    store = store_of(documents)
    with pytest.raises(UnsupportedError, match="netCDF-C's draft of NCZarr for Zarr v3"):
        open_dataset(store)
    with pytest.raises(UnsupportedError, match="netCDF-C's draft"):
        nczarr.Dataset(store)


def test_version_3_0_of_this_convention_is_read(tmp_path: Path) -> None:
    """With the entry of its convention, and where another program has removed that."""
    for declared in (True, False):
        store = tmp_path / f"{declared}.zarr"
        shutil.copytree(STORES / "version_3_0.zarr", store)
        if not declared:
            root = json.loads((store / "zarr.json").read_text())
            del root["attributes"]["zarr_conventions"]
            (store / "zarr.json").write_text(json.dumps(root))
        with open_dataset(store, consolidated=False) as stored:
            assert stored.findings == ()
            assert [d.unlimited for d in stored.dataset.dimensions] == [True, False]


def test_the_mark_is_what_tells(tmp_path: Path) -> None:
    """What is written now has it, so that no member is taken for one of the draft."""
    nczarr.copy(nczarr.model.Dataset("d"), tmp_path / "d.zarr")
    root = json.loads((tmp_path / "d.zarr" / "zarr.json").read_text())
    block = root["attributes"]["_nczarr_superblock"]
    assert block["convention"] == "4058cf9a-85c0-4aeb-a3e4-72f486c51814"
    block["version"], root["attributes"]["_nczarr_attrs"] = "3.0.9", 1
    (tmp_path / "d.zarr" / "zarr.json").write_text(json.dumps(root))
    open_dataset(tmp_path / "d.zarr").close()

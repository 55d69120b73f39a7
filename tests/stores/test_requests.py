"""Count the requests of opening a hierarchy of a thousand arrays."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from counting_store import CountingStore

from nczarr.stores import LocalStore, Store, open_store
from nczarr.zarr.hierarchy.opening import create_hierarchy, open_hierarchy
from nczarr.zarr.metadata import GroupMetadata
from nczarr.zarr.types import data_type_for

COUNT = 1000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    zarr = pytest.importorskip("zarr")
    root = tmp_path_factory.mktemp("requests")
    zarr.create_array(str(root / "one.zarr"), shape=(2,), chunks=(2,), dtype="f4", zarr_format=3)
    metadata = open_hierarchy(LocalStore(root / "one.zarr")).nodes[""]
    for name, consolidated in (("yes.zarr", True), ("no.zarr", False)):
        hierarchy = create_hierarchy(LocalStore(root / name, "w"))
        hierarchy.put_group("g", GroupMetadata())
        hierarchy.put_many([(f"g/v{number}", metadata) for number in range(COUNT)])
        if consolidated:
            hierarchy.consolidate()
        hierarchy.array("g/v7").write(..., np.array([1, 2], dtype="f4"))
        hierarchy.close()
    return root


def upload(folder: Path, name: str, target: Store) -> None:
    source = LocalStore(folder / name)
    target.set_many((key, source.get(key) or b"") for key in source.list())


@pytest.mark.http
def test_over_http_a_consolidated_hierarchy_costs_one_request(folder: Path, web_server: Any) -> None:
    shutil.copytree(folder / "yes.zarr", web_server.folder / "yes.zarr")
    before = len(web_server.requests())
    hierarchy = open_hierarchy(open_store(f"{web_server.url}silent/yes.zarr"))
    assert len(hierarchy.nodes) == COUNT + 2
    assert hierarchy.array("g/v7").metadata.data_type == data_type_for("f4")
    assert len(web_server.requests()) - before <= 2
    assert hierarchy.array("g/v7").read().tolist() == [1, 2]


@pytest.fixture(scope="module")
def on_s3(folder: Path, s3_server: dict[str, str]) -> str:
    """The URL of a folder on S3 with both hierarchies."""
    for name in ("yes.zarr", "no.zarr"):
        upload(folder, name, open_store(f"s3://test/requests/{name}", "w"))
    return "s3://test/requests"


@pytest.mark.slow
@pytest.mark.s3
@pytest.mark.parametrize("backend", ["obstore", "s3fs"])
def test_on_s3(on_s3: str, backend: str) -> None:
    store = CountingStore(open_store(f"{on_s3}/yes.zarr", storage_options={"backend": backend}))
    hierarchy = open_hierarchy(store)
    assert len(hierarchy.nodes) == COUNT + 2
    assert store.requests <= 2
    assert hierarchy.array("g/v7").read().tolist() == [1, 2]

    store = CountingStore(open_store(f"{on_s3}/no.zarr", storage_options={"backend": backend}))
    hierarchy = open_hierarchy(store, consolidated=False)
    assert len(hierarchy.nodes) == COUNT + 2
    # The root's document tells what it is; then the names and the documents of each level. Chunks are not listed.
    assert [name for name, _ in store.calls] == ["get", *["list_dir", "get_many"] * 2]

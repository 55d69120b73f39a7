"""Read datasets with few rights and few requests, count their objects, and remove them."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from s3_proxy import S3Proxy

import nczarr
from nczarr.cli import main
from nczarr.convert.report import variable_storage
from nczarr.errors import NCZarrError, StoreError, UnsupportedError
from nczarr.mapping.dataset.maintenance import remove, stored_objects
from nczarr.stores import open_store

numbers = itertools.count()


def fill(target: str, **options: Any) -> None:
    with nczarr.Dataset(target, "w", **options) as ds:
        ds.createDimension("t", None)
        ds.createDimension("n", 30)
        ds.createVariable("a", "i4", ("t",), chunksizes=(2,))[:4] = np.arange(4)
        ds["a"][19] = 5  # the chunks between do not exist
        names = np.array([f"s{i}" for i in range(30)], object)
        ds.createGroup("g").createVariable("names", str, ("n",), chunksizes=(1,))[:] = names


@pytest.fixture
def proxy(s3_server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> S3Proxy:
    """A server that hides missing keys from clients without the right to list, as S3 does."""
    import s3fs

    proxy = S3Proxy(s3_server["AWS_ENDPOINT_URL"])
    fs = s3fs.S3FileSystem(endpoint_url=s3_server["AWS_ENDPOINT_URL"], use_listings_cache=False)

    def rule(method: str, path: str, query: dict[str, str]) -> int | None:
        if {"list-type", "prefix"} & set(query):
            return 403
        return 403 if method in ("GET", "HEAD") and not fs.exists(path.lstrip("/")) else None

    proxy.rule = rule
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
    return proxy


@pytest.mark.slow
@pytest.mark.s3
@pytest.mark.filterwarnings("ignore:.*does not allow listing")
@pytest.mark.parametrize("backend", ["obstore", "s3fs"])
def test_without_the_right_to_list(
    s3_server: dict[str, str],
    proxy: S3Proxy,
    tmp_path: Path,
    backend: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = f"s3://test/rights/{next(numbers)}.zarr"
    options = {"backend": backend, "endpoint_url": s3_server["AWS_ENDPOINT_URL"]}
    fill(url, storage_options=options)
    reading = {"backend": backend, "endpoint_url": proxy.url}
    with nczarr.Dataset(url, storage_options=reading) as ds:
        assert ds["a"][:].filled(-1).tolist() == [0, 1, 2, 3, *[-1] * 15, 5]
    nczarr.copy(url, tmp_path / "a.zarr", source_options=reading)
    assert not list(nczarr.diff(url, tmp_path / "a.zarr", storage_options=reading))
    words = [url, "--storage-option", f"backend={backend}"]
    assert [main([command, *words]) for command in ("info", "digest", "check")] == [0, 0, 0]
    assert main(["check", "--data", *words]) == 0
    capsys.readouterr()


@pytest.mark.s3
@pytest.mark.filterwarnings("ignore:.*does not allow listing")
@pytest.mark.parametrize("backend", ["obstore", "s3fs"])
def test_appending_without_the_right_to_list(s3_server: dict[str, str], proxy: S3Proxy, backend: str) -> None:
    url = f"s3://test/rights/{next(numbers)}.zarr"
    options = {"backend": backend, "endpoint_url": s3_server["AWS_ENDPOINT_URL"]}
    fill(url, storage_options=options)
    with open_store(url, "r+", options) as store:  # a writer that was killed has left it
        store.set("a/c/10", np.array([8, 9], "<i4"))
    with nczarr.Dataset(url, "a", storage_options={"backend": backend, "endpoint_url": proxy.url}) as ds:
        ds["a"][21] = 7
    with nczarr.Dataset(url, storage_options=options) as ds:
        assert ds["a"][18:].filled(-1).tolist() == [-1, 5, -1, 7]


@pytest.mark.s3
@pytest.mark.parametrize("backend", ["obstore", "s3fs"])
def test_no_message_names_the_keys_of_marks(
    s3_server: dict[str, str], proxy: S3Proxy, backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"s3://test/rights/{next(numbers)}.zarr"
    options = {"backend": backend, "endpoint_url": s3_server["AWS_ENDPOINT_URL"]}
    fill(url, storage_options=options)
    proxy.rule = lambda method, path, query: 403 if method in ("PUT", "POST", "DELETE") else None
    reading = {"backend": backend, "endpoint_url": proxy.url}
    for mode in ("a", "w"):
        with pytest.raises(NCZarrError, match=r"\.zarr: (/a: )?cannot write: the server refuses access"):
            fill(url, storage_options=reading) if mode == "w" else nczarr.Dataset(
                url, mode, storage_options=reading
            )
    example = str(Path(__file__).parents[1] / "data" / "example.nc")
    words = ["--storage-option", f"backend={backend}"]
    for command in (
        ["rm", "-y", url],
        ["repair", url],
        ["consolidate", url],
        ["copy", example, f"{url}2"],
        ["copy", "--overwrite", example, url],
    ):
        assert main([*command, *words]) == 1
        said = capsys.readouterr().err
        assert "cannot write: the server refuses access" in said
        assert ".nczarr-" not in said


@pytest.mark.s3
def test_refused_credentials_are_no_missing_dataset(proxy: S3Proxy) -> None:
    url = f"s3://test/rights/{next(numbers)}.zarr"
    with pytest.raises(NCZarrError, match="refuses access"):
        nczarr.Dataset(url)
    proxy.rule = lambda method, path, query: 403
    with pytest.raises(NCZarrError, match="refuses access"):
        nczarr.Dataset(url)


@pytest.mark.s3
def test_one_refused_chunk_is_no_missing_chunk(s3_server: dict[str, str], proxy: S3Proxy) -> None:
    url = f"s3://test/rights/{next(numbers)}.zarr"
    fill(url, storage_options={"endpoint_url": s3_server["AWS_ENDPOINT_URL"]})
    proxy.rule = lambda method, path, query: 403 if path.endswith("/a/c/0") else None
    with nczarr.Dataset(url) as ds, pytest.raises(StoreError, match="refuses access"):
        ds["a"][:]


@pytest.mark.s3
def test_keys_with_an_empty_part(s3_server: dict[str, str]) -> None:
    url = f"s3://test/rights//{next(numbers)}.zarr"
    fill(url)
    with nczarr.Dataset(url) as ds:
        assert ds["a"][19] == 5
    with pytest.raises(NCZarrError, match="empty part"):
        nczarr.Dataset(url, storage_options={"backend": "obstore"})


@pytest.mark.s3
def test_xarray_reads_no_strings_when_it_opens(s3_server: dict[str, str]) -> None:
    xr = pytest.importorskip("xarray")
    url = f"s3://test/rights/{next(numbers)}.zarr"
    fill(url)
    proxy = S3Proxy(s3_server["AWS_ENDPOINT_URL"])
    with xr.open_dataset(url, engine="nczarr", group="g", storage_options={"endpoint_url": proxy.url}) as ds:
        assert proxy.counts.total() <= 2
        assert ds.names[3:5].values.tolist() == ["s3", "s4"]
        assert proxy.counts.total() <= 4
        assert ds.names.encoding["dtype"] is str


@pytest.mark.s3
@pytest.mark.filterwarnings("error::UserWarning:nczarr")
@pytest.mark.parametrize("backend", ["obstore", "s3fs"])
def test_du_and_rm_in_an_object_store(
    s3_server: dict[str, str], backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    url, options = f"s3://test/rights/{next(numbers)}.zarr", {"backend": backend}
    fill(url, storage_options=options)
    with open_store(url, "r", options) as store:
        expected = {key: store.size(key) for key in store.list()}
    found = {item.path: item for item in stored_objects(url, options)}
    assert {path: item.objects for path, item in found.items()} == {"/a": 3, "/g/names": 30, "(metadata)": 4}
    assert sum(item.size for item in found.values()) == sum(size or 0 for size in expected.values())
    assert main(["rm", "-n", url]) == 0
    assert stored_objects(url, options) == [*found.values()]
    remove(url, storage_options=options)
    with open_store(url, "r", options) as store:
        assert list(store.list()) == []
    capsys.readouterr()


@pytest.mark.parametrize("name", ["a.zarr", "a.zarr.zip"])
def test_rm_on_disk(tmp_path: Path, name: str) -> None:
    fill(str(tmp_path / name))
    with nczarr.Dataset(tmp_path / name, "a"), pytest.raises(NCZarrError, match="open for writing"):
        remove(tmp_path / name)
    remove(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_removal_that_was_killed_is_completed_by_clean(tmp_path: Path) -> None:
    fill(str(tmp_path / "a.zarr"))
    killed = """
import os, sys
from nczarr.mapping.dataset import maintenance
from nczarr.stores import LocalStore
LocalStore.delete_many = lambda self, keys: os._exit(9)  # the documents of the root are gone
maintenance.remove(sys.argv[1])
"""
    assert (
        subprocess.run([sys.executable, "-c", killed, str(tmp_path / "a.zarr")], check=False).returncode == 9
    )
    with pytest.raises(NCZarrError, match="unfinished"):
        nczarr.Dataset(tmp_path / "a.zarr")
    assert main(["clean", str(tmp_path / "a.zarr")]) == 0
    assert list(tmp_path.iterdir()) == []


def test_info_asks_no_size_of_a_store_that_lists_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zarr = pytest.importorskip("zarr")
    fill(str(tmp_path / "a.zarr"))
    store = open_store(zarr.storage.LocalStore(tmp_path / "a.zarr"))
    assert store.lists_all
    monkeypatch.setattr(type(store), "size", lambda *_: pytest.fail("a request for each chunk"))
    with nczarr.convert.open_source(store) as dataset:
        found = {v.fqn: (v.objects_stored, v.stored_bytes) for v in variable_storage(dataset)}
    assert found == {"/a": (3, None), "/g/names": (30, None)}


def test_rm_refuses_all_that_is_no_hierarchy_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(str(tmp_path / "a.zarr"))
    (tmp_path / "a.zarr" / "notes.txt").write_text("keep")
    with pytest.raises(UnsupportedError, match="1 objects here do not belong"):
        remove(tmp_path / "a.zarr")
    with pytest.raises(UnsupportedError, match="group /g"):
        remove(tmp_path / "a.zarr" / "g")
    with pytest.raises(NCZarrError, match="no Zarr hierarchy"):
        remove(tmp_path)
    assert main(["rm", str(tmp_path / "a.zarr")]) == 1  # standard input is no terminal
    assert "--yes" in capsys.readouterr().err
    with nczarr.Dataset(tmp_path / "a.zarr") as ds:
        assert ds["a"][19] == 5
    remove(tmp_path / "a.zarr", force=True)
    assert list(tmp_path.iterdir()) == []

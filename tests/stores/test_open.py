"""Test `open_store` with paths, URLs and objects."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from real_data import ZARR_SAMPLES

import nczarr
from nczarr.cli import main
from nczarr.convert.endpoints import expand_sources
from nczarr.errors import DatasetNotFoundError, NCZarrError, ReadOnlyError, StoreError
from nczarr.formats import local_path
from nczarr.stores import LocalStore, MemoryStore, Target, open_store, parse_target
from nczarr.stores.memory import MappingStore
from nczarr.stores.remote.fsspec_store import FsspecStore
from nczarr.stores.zip import ZipStore


@pytest.mark.parametrize(
    ("text", "location", "protocol", "fragment"),
    [
        ("out.zarr", "out.zarr", "file", {}),
        ("out.zarr#mode=nczarr,file", "out.zarr", "file", {"mode": "nczarr,file"}),
        ("a#b.zarr", "a#b.zarr", "file", {}),
        ("a#b=c", "a#b=c", "file", {}),
        ("file:///d/o.zarr#mode=nczarr,zip", "/d/o.zarr", "file", {"mode": "nczarr,zip"}),
        ("file://localhost/d/o.zarr", "/d/o.zarr", "file", {}),
        ("file://d/o.zarr#nczarr&file", "d/o.zarr", "file", {"mode": "nczarr,file"}),
        ("file:///d/o.zarr#mode=zarr&consolidated", "/d/o.zarr", "file", {"mode": "zarr,consolidated"}),
        ("s3://b/k#x", "s3://b/k#x", "s3", {}),
        ("s3://b/k.zarr#mode=nczarr,s3", "s3://b/k.zarr", "s3", {"mode": "nczarr,s3"}),
        (
            "https://s3.eu-west-1.amazonaws.com/b/k.zarr#mode=nczarr,s3&aws.profile=p",
            "s3://b/k.zarr",
            "s3",
            {"mode": "nczarr,s3", "aws.profile": "p", "aws.region": "eu-west-1"},
        ),
        ("https://b.s3.amazonaws.com/k.zarr#mode=s3", "s3://b/k.zarr", "s3", {"mode": "s3"}),
        (
            "http://127.0.0.1:9000/b/k.zarr#mode=nczarr,s3",
            "s3://b/k.zarr",
            "s3",
            {"mode": "nczarr,s3", "endpoint_url": "http://127.0.0.1:9000"},
        ),
        ("https://h/k.zarr?a=b#mode=zarr", "https://h/k.zarr?a=b", "https", {"mode": "zarr"}),
        ("simplecache::https://h/k", "simplecache::https://h/k", "simplecache", {}),
        ("C:\\data\\x.zarr", "C:\\data\\x.zarr", "file", {}),
    ],
)
def test_targets(text: str, location: str, protocol: str, fragment: dict[str, str]) -> None:
    assert parse_target(text) == Target(location, protocol, fragment)


@given(st.text(max_size=20))
@example("HTTP://")
@example("HTTP:")
def test_any_text_is_a_target_or_a_wrong_url(text: str) -> None:
    file, web = parse_target("file://" + text), parse_target("https://h/" + text)
    assert file.protocol == "file"
    try:
        path = parse_target(text)
    except StoreError as error:
        assert re.match(r"[a-z][a-z0-9]+:", text.lower()), error
        path = file
    assert all("mode" in target.fragment for target in (path, file, web) if target.fragment)
    if path is not file and not path.fragment and "://" not in text:
        assert path.location in (text, os.path.expanduser(text))
    if not web.fragment:
        assert (web.protocol, web.location) == ("https", "https://h/" + text.split("#")[0])


@pytest.mark.parametrize(
    "url",
    ["https://[::1", "https://[::1#mode=s3", "http://", "https:///x", "https://h:99999/x", "http://h:x/y"],
)
def test_addresses_that_cannot_be(url: str) -> None:
    with pytest.raises(StoreError, match="invalid URL"):
        parse_target(url)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("s3:/b/x.zarr", "s3://b/x.zarr"),
        ("s3:b/x.zarr", "s3://b/x.zarr"),
        ("S3:/b/x.nc", "S3://b/x.nc"),
        ("file:/d/x.zarr", "file:///d/x.zarr"),
        ("https:/h/x.nc#mode=bytes", "https://h/x.nc#mode=bytes"),
        ("simplecache::gs:/b/x", "simplecache::gs://b/x"),
        ("zip://in::s3:/b/x.zip", "zip://in::s3://b/x.zip"),
    ],
)
def test_a_url_without_a_slash_is_refused(text: str, url: str) -> None:
    """pathlib removes a slash, and so do people; a local directory ``s3:`` would be made."""
    for look in (parse_target, local_path, open_store, expand_sources):
        with pytest.raises(StoreError, match="URL with a missing slash") as caught:
            look(text)
        assert f"write {url} for the URL," in str(caught.value)
    assert parse_target(url).location
    assert parse_target(f"./{text}") == Target(
        f"./{text.partition('#')[0]}", "file", parse_target(url).fragment
    )


def test_no_command_makes_a_directory_of_a_url_without_a_slash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.cdl").write_text("netcdf x { dimensions: x = 2; variables: int v(x); data: v = 1, 2; }")
    for target in ("s3:/bucket/x.zarr", Path("s3://bucket/x.zarr"), "s3:/bucket/x.nc"):
        with pytest.raises(StoreError, match="slash"):
            nczarr.copy("x.cdl", target)
        for mode in ("w", "a", "x", "r"):
            with pytest.raises(StoreError, match="slash"):
                nczarr.Dataset(target, mode)
    for words in (
        ["copy", "x.cdl"],
        ["gen", "x.cdl"],
        ["tree"],
        ["check"],
        ["repair"],
        ["view", "--no-open"],
    ):
        assert main([*words, "s3:/bucket/x.zarr"]) in (1, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["x.cdl"]


def test_a_path_that_exists_is_taken_as_it_is(tmp_path: Path) -> None:
    name = tmp_path / "x#mode=zarr"
    name.mkdir()
    assert parse_target(str(name)).location == str(name)
    assert parse_target(name).location == str(name)
    spaced = tmp_path / "a b"
    spaced.mkdir()
    assert parse_target(f"file://{tmp_path}/a%20b").location == str(spaced)


def test_directories(tmp_path: Path) -> None:
    for target in (tmp_path, str(tmp_path), f"file://{tmp_path}", f"file://{tmp_path}#mode=nczarr,file"):
        store = open_store(target)
        assert isinstance(store, LocalStore)
        assert store.root == tmp_path
        assert not store.writable
    assert open_store(tmp_path, "r+").writable


def test_what_is_no_store_says_what_it_is(tmp_path: Path) -> None:
    for content, what in (
        (b"\x89HDF\r\n\x1a\n.....", "an HDF5"),
        (b"CDF\1....", "netCDF-3"),
        (b"", "a file"),
        (b"hello", "a file"),
    ):
        (tmp_path / "f").write_bytes(content)
        with pytest.raises(DatasetNotFoundError, match=what):
            open_store(tmp_path / "f")
        with pytest.raises(DatasetNotFoundError, match=what):
            open_store(tmp_path / "f", "w")
        assert (tmp_path / "f").read_bytes() == content
    with pytest.raises(DatasetNotFoundError, match="No such file"):
        open_store(tmp_path / "missing")
    with pytest.raises(StoreError, match="a directory, not a zip file"):
        open_store(f"file://{tmp_path}#mode=zip")


@pytest.mark.parametrize(
    "target", [3, None, object(), b"bytes", ["list"], "", "a\0b", "nosuchprotocol://x/y"]
)
def test_nonsense(target: object) -> None:
    with pytest.raises((StoreError, DatasetNotFoundError)):
        open_store(target)


def test_a_wrong_mode(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="mode must be"):
        open_store(tmp_path, "a")  # type: ignore[arg-type]


def test_objects() -> None:
    memory = MemoryStore()
    assert open_store(memory, "w") is memory
    with pytest.raises(ReadOnlyError):
        open_store(MemoryStore(writable=False), "r+")
    data: dict[str, bytes] = {}
    store = open_store(data, "w")
    assert isinstance(store, MappingStore)
    store.set("a", b"x")
    assert data == {"a": b"x"}
    with pytest.raises(ReadOnlyError):
        open_store(data).set("a", b"")
    from types import MappingProxyType

    with pytest.raises(ReadOnlyError):
        open_store(MappingProxyType(data), "w")


def test_errors_of_a_mapping_are_store_errors() -> None:
    class Broken(dict[str, bytes]):
        def __getitem__(self, key: str) -> bytes:
            raise ConnectionError("gone")

    with pytest.raises(StoreError, match=r"Broken/k: cannot read: ConnectionError: gone"):
        open_store(Broken()).get("k")


def test_fsspec_mappers(tmp_path: Path) -> None:
    import fsspec

    mapper = fsspec.get_mapper("memory://open-store")
    store = open_store(mapper, "w")
    assert isinstance(store, FsspecStore)
    store.set("a/b", b"x")
    assert mapper["a/b"] == b"x"
    store.delete_prefix("")
    local = open_store(fsspec.get_mapper(str(tmp_path)), "r+")
    assert isinstance(local, LocalStore)
    assert open_store(f"local://{tmp_path}").list_dir() == ([], [])


def test_forbidden_and_broken_file_systems_are_not_empty() -> None:
    from fsspec import AbstractFileSystem

    class Broken(AbstractFileSystem):
        protocol = "broken"

        def cat_file(self, path: str, start: object = None, end: object = None, **_: object) -> bytes:
            raise PermissionError("no")

        def info(self, path: str, **_: object) -> dict[str, object]:
            raise PermissionError("no")

        def ls(self, path: str, detail: bool = True, **_: object) -> list[object]:
            raise PermissionError("no")

    store = FsspecStore(Broken(), "/x", url="broken://x")
    for act in (
        lambda: store.get("k"),
        lambda: store.exists("k"),
        lambda: list(store.list()),
        lambda: store.list_dir(),
    ):
        with pytest.raises(StoreError, match=r"broken://x.*refuses access"):
            act()


def test_references(tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(bytes(range(100)))
    references = {
        "zarr.json": "{}",
        "v/c/0": [str(tmp_path / "data.bin"), 10, 20],
        "v/c/1": [str(tmp_path / "data.bin"), 30, 5],
        "w/whole": [str(tmp_path / "data.bin")],
        "v/bad": [str(tmp_path / "missing.bin"), 0, 5],
    }
    (tmp_path / "refs.json").write_text(json.dumps({"version": 1, "refs": references}))
    store = open_store(
        "reference://", storage_options={"fo": str(tmp_path / "refs.json"), "remote_protocol": "file"}
    )
    assert store.get_many(["zarr.json", "v/c/0", "nix", "v/c/1"]) == [
        b"{}",
        bytes(range(10, 30)),
        None,
        bytes(range(30, 35)),
    ]
    assert store.get("v/c/0") == bytes(range(10, 30))
    assert store.get_ranges(
        [("v/c/0", 2, 3), ("v/c/0", -2, None), ("zarr.json", 1, None), ("nix", 0, 1)]
    ) == [
        bytes([12, 13, 14]),
        bytes([28, 29]),
        b"}",
        None,
    ]
    assert store.list_dir() == (["zarr.json"], ["v", "w"])
    assert sorted(store.list("v")) == ["v/bad", "v/c/0", "v/c/1"]
    with pytest.raises(StoreError, match="v/bad"):
        store.get("v/bad")
    with pytest.raises(ReadOnlyError):
        open_store("reference://", "w", {"fo": references})


def test_a_reference_file(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = ZARR_SAMPLES / "ref_v3.json"
    store = open_store("reference://", storage_options={"fo": str(sample), "remote_protocol": "file"})
    assert json.loads(store.get("zarr.json") or b"")["node_type"] == "group"


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from fsspec.registry import known_implementations

    monkeypatch.setitem(known_implementations, "nix", {"class": "nix.Nix", "err": "install nix"})
    with pytest.raises(NCZarrError, match="install nix"):
        open_store("nix://a/b")


def test_zip_by_name_only_when_made(tmp_path: Path) -> None:
    assert isinstance(open_store(tmp_path / "a.zip", "w"), ZipStore)
    assert isinstance(open_store(f"file://{tmp_path}/b#mode=zip", "w"), ZipStore)
    assert isinstance(open_store(tmp_path / "c", "w"), LocalStore)

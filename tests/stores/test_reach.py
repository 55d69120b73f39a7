"""Test the reach of references: files beside them and allowed prefixes; credentials stay with their host."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from odd_server import OddServer, send

import nczarr
from nczarr.cli import main
from nczarr.convert.verify.check import check
from nczarr.errors import NCZarrError, NotAllowedError
from nczarr.stores import open_store
from nczarr.stores.reach import Reach, place_of

SECRET = b"-----BEGIN KEY-----secret"
ROOT = {
    "zarr.json": json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}}),
    "v/zarr.json": json.dumps(
        {
            "zarr_format": 3,
            "node_type": "array",
            "shape": [len(SECRET)],
            "data_type": "uint8",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [len(SECRET)]}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": 0,
            "codecs": [{"name": "bytes"}],
            "attributes": {},
        }
    ),
}


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A folder for references, and another one with what is none of their business."""
    for name in ("refs", "private"):
        (tmp_path / name).mkdir()
    (tmp_path / "private/key").write_bytes(SECRET)
    return tmp_path / "refs", tmp_path / "private"


def references(folder: Path, url: str, **more: Any) -> Path:
    """References whose only chunk is a whole file."""
    path = folder / "refs.json"
    path.write_text(json.dumps({"version": 1, "refs": {**ROOT, "v/c/0": [url]}, **more}))
    return path


OUTSIDE = [
    "{private}/key",
    "file://{private}/key",
    "FILE://{private}/key",
    "file://localhost{private}/key",
    "../private/key",
    "{refs}/../private/key",
    "{refs}/x/../../private/key",
    "link/key",
    "linked",
    "file://{refs}/%2e%2e/private/key",
]


@pytest.mark.parametrize("url", OUTSIDE)
def test_files_elsewhere_are_refused(folders: tuple[Path, Path], url: str, capsys: Any) -> None:
    refs, private = folders
    (refs / "link").symlink_to(private)
    (refs / "linked").symlink_to(private / "key")
    path = references(refs, url.format(refs=refs, private=private))
    out = refs / "out.zarr"
    with pytest.raises(NotAllowedError, match=rf"allow=\['{private}"):
        nczarr.copy(path, out)
    assert not out.exists()
    for reading in (
        lambda: nczarr.Dataset(path)["v"][:],
        lambda: nczarr.digest(path),
        lambda: list(nczarr.diff(path, path)),
        lambda: list(check(path, data=True)),
        lambda: xr.open_dataset(path, engine="nczarr").load(),
        lambda: nczarr.copy("reference://", out, source_options={"fo": str(path)}),
    ):
        with pytest.raises(PermissionError):
            reading()
    assert main(["copy", str(path), str(out)]) == 1
    assert f"--allow {private}" in capsys.readouterr().err
    assert main(["copy", str(path), str(out), "--allow", str(private)]) == 0
    with nczarr.Dataset(out) as ds:
        assert ds["v"][:].tobytes() == SECRET
    assert nczarr.digest(path, allow=str(private)).dataset == nczarr.digest(out).dataset
    assert list(nczarr.diff(path, out, allow=[str(private)])) == []
    assert list(check(path, data=True, allow=str(private))) == []
    with nczarr.Dataset(path, allow=str(private)) as ds:
        assert ds["v"][:].tobytes() == SECRET
    with xr.open_dataset(path, engine="nczarr", allow=str(private)) as seen:
        assert seen["v"].values.tobytes() == SECRET


@pytest.mark.parametrize(
    "url", ["key", "./key", "sub/../key", "{refs}/key", "file://{refs}/key", "{{u}}/key"]
)
def test_files_beside_the_references_are_read(folders: tuple[Path, Path], url: str) -> None:
    refs, _ = folders
    (refs / "key").write_bytes(SECRET)
    path = references(refs, url if "{{" in url else url.format(refs=refs), templates={"u": str(refs)})
    with nczarr.Dataset(path) as ds:
        assert ds["v"][:].tobytes() == SECRET


def test_an_allowed_prefix_is_no_beginning_of_a_name(folders: tuple[Path, Path]) -> None:
    refs, private = folders
    (refs.parent / "private2").mkdir()
    (refs.parent / "private2/key").write_bytes(SECRET)
    path = references(refs, str(refs.parent / "private2/key"))
    with pytest.raises(NotAllowedError):
        nczarr.digest(path, allow=str(private))


def test_what_is_no_file_is_refused(folders: tuple[Path, Path]) -> None:
    refs, _ = folders
    os.mkfifo(refs / "pipe")
    with pytest.raises(NCZarrError, match="not a file"):
        nczarr.digest(references(refs, "pipe"))


@pytest.mark.parametrize(
    ("url", "allowed", "within"),
    [
        ("https://host/data/a.nc", "https://host/data", True),
        ("https://HOST:443/data/a.nc", "https://host/data/", True),
        ("https://host/data/a.nc?x=1", "https://host/data/", True),
        ("https://host/database/a.nc", "https://host/data", False),
        ("https://host.evil/data/a.nc", "https://host/data", False),
        ("https://host@evil/data/a.nc", "https://host/data", False),
        ("https://user@host/data/a.nc", "https://host/data", False),
        ("http://host/data/a.nc", "https://host/data", False),
        ("https://host:8443/data/a.nc", "https://host/data", False),
        ("https://host/data/../key", "https://host/data", False),
        ("https://host/data/%2e%2e/key", "https://host/data", False),
        ("https://host/data/..%2fkey", "https://host/data", False),
        ("https://host/d%61ta/a.nc", "https://host/data", True),
        ("s3://bucket/data/a.nc", "s3://bucket/data", True),
        ("s3://bucket2/data/a.nc", "s3://bucket", False),
        ("simplecache::https://host/data/a.nc", "https://host/data", False),
        ("https://host/data/::file:///etc/passwd", "https://host/data", False),
        ("http://127.0.0.1/data", "https://host/data", False),
        ("http://[::1]:bad/data", "https://host/data", False),
    ],
)
def test_urls_are_compared_by_their_parts(url: str, allowed: str, within: bool, tmp_path: Path) -> None:
    reach = Reach(str(tmp_path), [allowed], {}, lambda url, options: open_store({}))
    assert reach.allows(url) is within


@given(st.lists(st.sampled_from(["a", "b", "..", ".", "", "%2e%2e", "link"]), max_size=6))
def test_no_path_leaves_its_folder(tmp_path_factory: pytest.TempPathFactory, parts: list[str]) -> None:
    """The oracle is the system: a file below the folder, after all links, or a refusal."""
    top = tmp_path_factory.getbasetemp() / "reach"
    (top / "refs/a/b").mkdir(parents=True, exist_ok=True)
    if not (top / "refs/link").is_symlink():
        (top / "refs/link").symlink_to(top)
    url = "/".join([str(top / "refs"), *parts])
    inside = Path(os.path.realpath(url)).is_relative_to(os.path.realpath(top / "refs"))
    reach = Reach(str(top / "refs"), [], {}, lambda url, options: open_store({}))
    assert reach.allows(url) is inside


# --- servers


@pytest.fixture
def servers() -> Iterator[tuple[OddServer, OddServer, list[tuple[str, dict[str, str]]]]]:
    """Two servers that give the secret at ``/data/key``; what the requests were is noted."""
    made = OddServer(), OddServer()
    asked: list[tuple[str, dict[str, str]]] = []

    def answer(name: str) -> Any:
        def told(handler: Any) -> None:
            asked.append((name, {k.lower(): v for k, v in handler.headers.items()}))
            send(handler, 200, SECRET)

        return told

    for name, server in zip("ab", made, strict=True):
        server.answers["/data/key"] = answer(name)
    yield (*made, asked)
    for server in made:
        server.stop()


HEADERS = {
    "headers": {"Authorization": "Bearer TOKEN", "X-Api-Key": "TOKEN"},
    "client_kwargs": {"headers": {"X-Session": "TOKEN"}, "cookies": {"who": "TOKEN"}},
}


def test_servers_are_asked_if_they_are_allowed(folders: tuple[Path, Path], servers: Any) -> None:
    a, _, asked = servers
    path = references(folders[0], f"{a.url}/data/key")
    with pytest.raises(NotAllowedError, match=rf"allow=\['{a.url}/data/'\]"):
        nczarr.digest(path)
    assert asked == []
    with nczarr.Dataset(path, allow=f"{a.url}/data/") as ds:
        assert ds["v"][:].tobytes() == SECRET
    assert [name for name, _ in asked] == ["a"]


def test_storage_options_go_to_the_host_they_were_given_for(folders: tuple[Path, Path], servers: Any) -> None:
    a, b, asked = servers
    path = references(folders[0], f"{a.url}/data/key")
    nczarr.digest(path, allow=a.url, storage_options=HEADERS)
    assert "TOKEN" in str(asked)
    asked.clear()
    with pytest.raises(NCZarrError, match="on several are allowed"):
        nczarr.digest(path, allow=[a.url, b.url], storage_options=HEADERS)
    assert asked == []
    by_host = {f"{b.url}/": HEADERS}
    nczarr.digest(path, allow=[a.url, b.url], storage_options=by_host)
    assert [name for name, _ in asked] == ["a"]
    assert "TOKEN" not in str(asked)
    nczarr.digest(references(folders[0], f"{b.url}/data/key"), allow=[a.url, b.url], storage_options=by_host)
    assert asked[-1][0] == "b"
    assert "TOKEN" in str(asked[-1])


@pytest.mark.slow
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_takes_no_credentials_along(servers: Any, status: int) -> None:
    a, b, asked = servers
    a.answers["/data/moved"] = lambda h: send(h, status, Location=f"{b.url}/data/key")
    a.answers["/data/near"] = lambda h: send(h, status, Location="key")
    with open_store(f"{a.url}/data", storage_options=HEADERS) as store:
        assert store.get("moved") == SECRET
        assert store.get_range("moved", 2, 3) == SECRET[2:5]
        assert store.get("near") == SECRET
    assert [name for name, _ in asked] == ["b", "b", "a"]
    assert "TOKEN" not in str(asked[:2])
    assert asked[1][1]["range"] == "bytes=2-4"
    assert "TOKEN" in str(asked[2])


def test_a_redirect_of_a_netcdf_file_takes_no_credentials_along(servers: Any, tmp_path: Path) -> None:
    a, b, asked = servers
    with netCDF4.Dataset(tmp_path / "a.nc", "w", format="NETCDF3_CLASSIC") as file:
        file.title = "t"
    content = (tmp_path / "a.nc").read_bytes()

    def answer(handler: Any) -> None:
        asked.append(("b", dict(handler.headers.items())))
        send(handler, 200, content)

    a.answers["/a.nc"] = lambda h: send(h, 302, Location=f"{b.url}/else.nc")
    b.answers["/else.nc"] = answer
    with nczarr.Dataset(f"{a.url}/a.nc", storage_options=HEADERS) as ds:
        assert ds.title == "t"
    assert asked
    assert "TOKEN" not in str(asked)


def test_references_follow_no_redirect_to_a_place_that_is_not_allowed(
    folders: tuple[Path, Path], servers: Any
) -> None:
    a, b, asked = servers
    a.answers["/data/moved"] = lambda h: send(h, 302, Location=f"{b.url}/data/key")
    path = references(folders[0], f"{a.url}/data/moved")
    with pytest.raises(NotAllowedError, match="redirects to"):
        nczarr.digest(path, allow=a.url)
    assert asked == []
    nczarr.digest(path, allow=[a.url, b.url])
    assert [name for name, _ in asked] == ["b"]


def test_a_redirect_without_end_is_an_error(servers: Any) -> None:
    a, _, _ = servers
    a.answers["/data/round"] = lambda h: send(h, 302, Location="/data/round")
    with open_store(f"{a.url}/data") as store, pytest.raises(NCZarrError):
        store.get("round")


# --- Icechunk


def repository(path: Path, prefix: str, store: Any, location: str) -> None:
    import icechunk
    import zarr

    config = icechunk.RepositoryConfig.default()
    config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(prefix, store))
    made = icechunk.Repository.create(icechunk.local_filesystem_storage(str(path)), config)
    made.save_config()
    session = made.writable_session("main")
    zarr.open_group(session.store, mode="w").create_array(
        "v", shape=(len(SECRET),), chunks=(len(SECRET),), dtype="u1", compressors=None
    )
    session.store.set_virtual_ref("v/c/0", location, offset=0, length=len(SECRET))
    session.commit("v")


def test_a_repository_does_not_choose_what_is_read(folders: tuple[Path, Path]) -> None:
    icechunk = pytest.importorskip("icechunk")
    refs, private = folders
    (refs / "data").mkdir()
    (refs / "data/link").symlink_to(private)
    (refs / "data/key").write_bytes(SECRET)
    for number, (prefix, location) in enumerate(
        [
            (f"file://{private}/", f"file://{private}/key"),
            (f"file://{refs.parent}/", f"file://{private}/key"),
            (f"file://{refs}/data/", f"file://{refs}/data/link/key"),
        ]
    ):
        path = refs / f"{number}.icechunk"
        repository(path, prefix, icechunk.local_filesystem_store(prefix.removeprefix("file://")), location)
        with nczarr.Dataset(path) as ds, pytest.raises(PermissionError, match="allow="):
            ds["v"][:]
        with pytest.raises(NotAllowedError, match=str(private)):
            nczarr.copy(path, refs / "out.zarr")
        with nczarr.Dataset(path, allow=str(refs.parent if number == 1 else private)) as ds:
            assert ds["v"][:].tobytes() == SECRET
    path = refs / "own.icechunk"
    repository(path, f"file://{refs}/data/", icechunk.local_filesystem_store("/"), f"file://{refs}/data/key")
    with nczarr.Dataset(path) as ds:
        assert ds["v"][:].tobytes() == SECRET


def test_repositories_of_both_formats_are_recognised(tmp_path: Path) -> None:
    """Format 1 has the folder ``refs``, format 2 the file ``repo``; another folder of snapshots is neither."""
    for name in ("one", "two", "none"):
        (tmp_path / name / "snapshots").mkdir(parents=True)
    (tmp_path / "one/refs").mkdir()
    (tmp_path / "two/repo").write_bytes(b"")
    assert [nczarr.formats.is_icechunk(tmp_path / n) for n in ("one", "two", "none")] == [True, True, False]
    icechunk = pytest.importorskip("icechunk")
    with pytest.raises(NCZarrError, match=f"Icechunk {icechunk.__version__} cannot open the repository"):
        nczarr.Dataset(tmp_path / "two")


@pytest.mark.parametrize("kind", ["json", "parquet", "icechunk"])
def test_our_own_references_to_files_elsewhere(folders: tuple[Path, Path], kind: str, capsys: Any) -> None:
    refs, private = folders
    if kind == "icechunk":
        pytest.importorskip("icechunk")
    with netCDF4.Dataset(private / "a.nc", "w") as file:
        file.createDimension("x", 3000)
        file.createVariable("v", "f8", ("x",), zlib=True)[:] = np.arange(3000)
    path = refs / f"r.{kind}"
    assert main(["copy", "--virtual", "-q", str(private / "a.nc"), str(path)]) == 0
    assert f"read them with --allow {private}" in capsys.readouterr().err
    assert main(["copy", "-q", str(path), str(refs / "out.nc")]) == 1
    assert f"--allow {private}" in capsys.readouterr().err
    assert main(["copy", "-q", str(path), str(refs / "out.nc"), "--allow", str(private)]) == 0
    with netCDF4.Dataset(refs / "out.nc") as file:
        np.testing.assert_array_equal(file["v"][:], np.arange(3000))
    beside = private / f"r.{kind}"
    assert main(["copy", "--virtual", "-q", str(private / "a.nc"), str(beside)]) == 0
    assert capsys.readouterr().err == ""
    assert list(nczarr.diff(private / "a.nc", beside)) == []


# --- what references say


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ('{"refs": 3}', "not an object"),
        ('{"refs": ', "cannot be read"),
        ('{"refs": {"zarr.json": 7}}', "not a reference"),
        ('{"refs": {"zarr.json": ["a", -1, 3]}}', "not a reference"),
        ('{"refs": {"zarr.json": ["a", 1]}}', "not a reference"),
        ('{"refs": {"zarr.json": [null, 1, 2]}}', "not a reference"),
        ('{"refs": {"zarr.json": ["a", 1.5, 2]}}', "not a reference"),
        ('{"refs": {"zarr.json": "base64:%%%"}}', "not valid Base64"),
        ('{"refs": {}, "gen": [{"key": "x"}]}', "computation"),
        ('{"refs": {}, "nczarr_files": []}', "not an object"),
        ('{"refs": ' + '{"a":' * 3000 + "1" + "}" * 3000 + "}", r"cannot be read|no Zarr"),
    ],
)
def test_damaged_references_are_an_error(tmp_path: Path, document: str, text: str) -> None:
    (tmp_path / "refs.json").write_text(document)
    with pytest.raises(NCZarrError, match=text):
        nczarr.Dataset(tmp_path / "refs.json")


def test_a_file_that_is_shorter_than_its_references_say(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(SECRET[:-1])
    path = references(tmp_path, "key")
    said = json.loads(path.read_text())
    said["refs"]["v/c/0"] = ["key", 0, len(SECRET)]
    path.write_text(json.dumps(said))
    with pytest.raises(NCZarrError, match="ends before"):
        nczarr.digest(path)


def test_a_file_of_parquet_references_that_is_missing(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 3000)
        file.createVariable("v", "f8", ("x",), zlib=True)[:] = np.arange(3000)
    nczarr.copy(tmp_path / "a.nc", tmp_path / "r.parquet", virtual=True)
    (tmp_path / "r.parquet/v/refs.0.parq").unlink()
    with pytest.raises(NCZarrError, match=r"refs\.0\.parq"):
        nczarr.digest(tmp_path / "r.parquet")
    with pytest.raises(NCZarrError, match=r"refs\.0\.parq"):
        nczarr.copy(tmp_path / "r.parquet", tmp_path / "out.zarr", compression="source")
    with open_store(tmp_path / "r.parquet") as store, pytest.raises(NCZarrError, match=r"refs\.0\.parq"):
        list(store.list())


def test_a_shape_without_bound_in_parquet_references(tmp_path: Path) -> None:
    """Files that are there are listed, not those that the shape asks for."""
    pytest.importorskip("pyarrow")
    (tmp_path / "r.parquet").mkdir()
    array = {
        "zarr_format": 2,
        "shape": [1 << 60],
        "chunks": [1],
        "dtype": "|u1",
        "fill_value": 0,
        "order": "C",
        "filters": None,
        "compressor": None,
    }
    documents = {".zgroup": {"zarr_format": 2}, "v/.zarray": array}
    (tmp_path / "r.parquet/.zmetadata").write_text(
        json.dumps({"metadata": documents, "record_size": 1 << 50})
    )
    with open_store(tmp_path / "r.parquet") as store:
        assert list(store.list()) == [".zgroup", "v/.zarray"]
        assert store.get_many(["v/0", f"v/{(1 << 60) - 1}", f"v/{1 << 60}"]) == [None, None, None]


def test_places_are_shown_as_they_are_compared() -> None:
    assert place_of("https://h/a/b.nc").folder == "https://h/a/"
    assert place_of("/a/b.nc").folder == os.path.realpath("/a")

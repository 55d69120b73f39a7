"""Search every message, report and output file for passwords, tokens and signatures of URLs."""

from __future__ import annotations

import json
import threading
import traceback
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import nczarr
from nczarr.cli import main
from nczarr.display import shown_location
from nczarr.errors import NCZarrError
from nczarr.stores import open_store

pytest.importorskip("aiohttp")

DATA = Path(__file__).parents[1] / "data"
SECRET = "h7Gq9.SECRET-x2"
#: How a URL can hold a secret: what stands before the host, and behind the path.
FORMS = [
    (f"user:{SECRET}@", ""),
    (f"{SECRET}@", ""),
    ("", f"?X-Amz-Signature={SECRET}&X-Amz-Expires=60"),
    ("", f"?sv=2024-01-01&sig={SECRET}"),
    ("", f"?token={SECRET}"),
    ("", f"?{SECRET}"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Zarr dataset, the same with a damaged chunk, one of version 2, and netCDF files."""
    path = tmp_path_factory.mktemp("served")
    nczarr.copy(DATA / "example.nc", path / "e.zarr")
    nczarr.copy(DATA / "example.nc", path / "damaged.zarr", compression="gzip:1")
    for chunk in (path / "damaged.zarr/ocean/temp/c").rglob("*"):
        if chunk.is_file():
            chunk.write_bytes(b"damaged")
    nczarr.copy(DATA / "example.nc", path / "e2.zarr", layout="nczarr-v2", lossy=True)
    (path / "broken.zarr").mkdir()
    (path / "broken.zarr/zarr.json").write_text("{")
    (path / "e.nc").write_bytes((DATA / "example.nc").read_bytes())
    (path / "c.nc").write_bytes((DATA / "classic.nc").read_bytes())
    (path / "broken.nc").write_bytes((DATA / "example.nc").read_bytes()[:3000])
    return path


@pytest.fixture(scope="module")
def place(folder: Path) -> Iterator[str]:
    """Host and port of a server of the folder, to which passwords and queries mean nothing."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 128  # a connection beyond the queue waits a second

    server = Server(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


NAMES = [
    "e.zarr",
    "damaged.zarr",
    "e2.zarr",
    "broken.zarr",
    "e.nc",
    "c.nc",
    "broken.nc",
    "nothing.zarr",
    "nothing.nc",
]
COMMANDS: list[list[str]] = [
    ["info", "URL"],
    ["info", "--json", "URL"],
    ["info", "URL", "URL"],
    ["dump", "URL"],
    ["dump", "-h", "--ncml", "URL"],
    ["dump", "-v", "nothing", "URL"],
    ["tree", "URL", "URL"],
    ["ls", "--json", "URL"],
    ["digest", "--variables", "URL"],
    ["digest", "--json", "--check", "URL"],
    ["diff", "URL", str(DATA / "classic.nc")],
    ["diff", "--json", str(DATA / "classic.nc"), "URL"],
    ["check", "--data", "URL"],
    ["check", "--json", "URL", "URL"],
    ["repair", "URL"],
    ["consolidate", "URL"],
    ["clean", "URL"],
    ["zom", "URL"],
    ["validate", "--json", "URL"],
    ["plot", "URL", "nothing", "-o", "OUT/p.png"],
    ["copy", "URL", "OUT/o.zarr"],
    ["copy", "--resume", "URL", "OUT/r.zarr"],
    ["copy", "-k", "classic", "URL", "OUT/o.nc"],
    ["copy", "--lossy", "URL", "OUT/o.cdl"],
    ["copy", "--digest", "--verify", "URL", "OUT/d.zarr"],
    ["join", "URL", "URL", "OUT/many.zarr", "--along", "time"],
    ["copy", str(DATA / "classic.nc"), "URL"],
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_shows_or_stores_a_secret(
    command: list[str], place: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for number, name in enumerate(NAMES, COMMANDS.index(command)):
        before, behind = FORMS[number % len(FORMS)]  # each form comes to each command with another dataset
        out = tmp_path / name
        out.mkdir()
        url = f"http://{before}{place}/{name}{behind}"
        main([word.replace("URL", url).replace("OUT", str(out)) for word in command])
        said = "".join(capfd.readouterr())
        assert SECRET not in said, (url, said)
        for file in out.rglob("*"):
            assert SECRET not in str(file)
            assert file.is_dir() or SECRET.encode() not in file.read_bytes(), (url, file)


def test_the_python_interface_shows_no_secret(place: str) -> None:
    xarray = pytest.importorskip("xarray")
    for before, behind in FORMS:
        url = f"http://{before}{place}/e.zarr{behind}"
        store = open_store(url)
        assert SECRET not in f"{store!r} {store.url} {store.place('v/c/0')}"
        with nczarr.Dataset(url) as ds:
            assert SECRET not in f"{ds!r} {ds}"
        with xarray.open_dataset(url, engine="nczarr") as found:
            assert SECRET not in str(found.encoding)
            assert all(SECRET not in str(v.encoding) for v in found.variables.values())
        with xarray.open_datatree(url, engine="nczarr") as tree:
            assert all(SECRET not in str(node.encoding) for node in tree.subtree)
        for wrong in (
            f"http://{before}{place}/nothing.zarr{behind}",
            f"http://{before}{place}/broken.zarr{behind}",
        ):
            with pytest.raises(OSError, match="zarr") as caught:
                nczarr.Dataset(wrong)
            assert SECRET not in f"{caught.value!r} {caught.value} {getattr(caught.value, 'filename', '')}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("data/run42.zarr", "data/run42.zarr"),
        ("data/a?token=b.zarr", "data/a?token=***"),
        ("C:\\data\\a.zarr", "C:\\data\\a.zarr"),
        ("s3://bucket/a@b/c=d.zarr", "s3://bucket/a@b/c=d.zarr"),
        ("s3://KEY:S/EC+RET@bucket/a.zarr", "s3://KEY:***@bucket/a.zarr"),
        ("http://host:8080/a@b.zarr", "http://host:8080/a@b.zarr"),
        ("http://u:p@w@host/a", "http://u:***@host/a"),
        ("http://TOKEN@[::1]:80/a", "http://***@[::1]:80/a"),
        ("sftp://me@host/a", "sftp://me@host/a"),
        ("sftp://me:pw@host/a", "sftp://me:***@host/a"),
        ("abfs://container@account/a", "abfs://container@account/a"),
        ("simplecache::https://h/a?sig=x#mode=zarr", "simplecache::https://h/a?sig=***#mode=zarr"),
        ("https://h/a#mode=s3&aws.secret_key=x", "https://h/a#mode=s3&aws.secret_key=***"),
        ("GET http://h/a?x=1 and http://u:p@h/b: 403", "GET http://h/a?x=*** and http://u:***@h/b: 403"),
        ("reference::file://a.json", "reference::file://a.json"),
        ("https://h/a?", "https://h/a?"),
    ],
)
def test_what_is_shown_of_a_location(text: str, shown: str) -> None:
    assert shown_location(text) == shown
    assert shown_location(shown) == shown


def test_errors_show_no_secret_however_their_place_is_set() -> None:
    url = f"https://u:{SECRET}@host/a?sig={SECRET}"
    error = NCZarrError(f"cannot open {url}", hint=f"try {url}")
    error.path = url
    try:
        raise error
    except NCZarrError:
        assert SECRET not in traceback.format_exc()
    assert SECRET not in json.dumps({**vars(error), "args": error.args})


@pytest.mark.parametrize("url", [f"s3://KEY:{SECRET}@bucket/a.zarr", f"s3://KEY:a/b{SECRET}@bucket/a.zarr"])
def test_credentials_before_a_bucket_are_refused(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["info", url]) == 1
    said = capfd.readouterr().err
    assert "more than the bucket before its path" in said
    assert SECRET not in said

"""Test a real S3 server with both clients."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczarr
from nczarr.errors import DatasetNotFoundError, NCZarrError, StoreError
from nczarr.mapping import open_dataset
from nczarr.mapping.dataset.maintenance import clean
from nczarr.model import INT, Attribute, Dataset, Dimension, MemorySource, Variable
from nczarr.stores import Store, open_store
from nczarr.stores.base import REPLACED
from nczarr.stores.remote.fsspec_store import FsspecStore
from nczarr.stores.remote.obstore_store import ObstoreStore
from nczarr.stores.remote.s3 import boto_settings, bucket_region, s3_settings
from nczarr.system.failures import reason_of
from nczarr.targets import fsspec_options

numbers = itertools.count()
EXAMPLE = Path(__file__).parents[1] / "data" / "example.nc"
ODD = ["a#b/k", "a%20b", "a b+c&d=e", "é/ü", "v[1]/*?", "x:y@z", "~", "back\\slash", "quote'\"", "a?b=c"]


@pytest.fixture(params=["obstore", "s3fs"])
def backend(request: pytest.FixtureRequest, s3_server: dict[str, str]) -> str:
    return request.param


@pytest.fixture
def store(backend: str) -> Store:
    return open_store(f"s3://test/s3/{backend}/{next(numbers)}", "w", {"backend": backend})


@pytest.mark.s3
def test_a_value_that_is_longer_than_its_array_needs_is_refused(store: Store) -> None:
    store.set("v", bytes(11))
    assert [bytes(value or b"") for value in store.get_bounded(["v"], 11)] == [bytes(11)]
    assert store.get_bounded(["w"], 10) == [None]
    with pytest.raises(StoreError, match="more than 10 bytes"):
        store.get_bounded(["v"], 10)


@pytest.mark.s3
def test_both_clients_mean_the_same_keys(s3_server: dict[str, str]) -> None:
    url = f"s3://test/same/{next(numbers)}"
    one = open_store(url, "w", {"backend": "obstore"})
    two = open_store(url, "w", {"backend": "s3fs"})
    for number, key in enumerate(ODD):
        one.set(f"one/{key}", bytes([number]))
        two.set(f"two/{key}", bytes([number]))
    for number, key in enumerate(ODD):
        assert one.get(f"two/{key}") == two.get(f"one/{key}") == bytes([number])
    assert sorted(one.list("one")) == sorted(two.list("one")) == sorted(f"one/{key}" for key in ODD)
    assert one.list_dir("two") == two.list_dir("two")
    one.delete_prefix("two")
    two.delete_prefix("one")
    assert list(one.list()) == list(two.list()) == []


@pytest.mark.slow
@pytest.mark.s3
def test_the_endpoint_of_the_environment_may_change(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of an earlier endpoint does not serve the next one."""
    url = f"s3://test/endpoints/{next(numbers)}"
    open_store(url, "w", {"backend": backend}).set("k", b"first")
    monkeypatch.setenv("NCZARR_ANSWER_SECONDS", "1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(StoreError, match=r"127\.0\.0\.1:1"):
        open_store(url, "r", {"backend": backend}).get("k")


@pytest.mark.s3
def test_the_default_client_is_obstore(s3_server: dict[str, str]) -> None:
    assert isinstance(open_store("s3://test/x"), ObstoreStore)
    assert isinstance(open_store("s3://test/x", storage_options={"backend": "s3fs"}), FsspecStore)
    # An option that obstore does not know.
    assert isinstance(open_store("s3://test/x", storage_options={"default_block_size": 5 << 20}), FsspecStore)


@pytest.mark.s3
def test_large_values(store: Store) -> None:
    value = os.urandom(9 << 20)
    store.set("big", value)
    assert store.get("big") == value
    assert store.get_ranges([("big", -5, None), ("big", 4 << 20, 3)]) == [
        value[-5:],
        value[4 << 20 : (4 << 20) + 3],
    ]


@pytest.mark.s3
def test_a_missing_bucket_and_a_wrong_key_are_errors(backend: str) -> None:
    gone = open_store("s3://no-such-bucket-here/x", "w", {"backend": backend})
    for act in (
        lambda: gone.get("zarr.json"),
        lambda: gone.get_many(["zarr.json", "b"]),
        lambda: gone.list_dir(),
        lambda: list(gone.list()),
        lambda: gone.set("zarr.json", b"x"),
    ):
        with pytest.raises(StoreError, match=r"s3://no-such-bucket-here/x: .*: there is no such bucket$"):
            act()
    wrong = open_store("s3://test/x", "w", {"backend": backend, "key": "wrong", "secret": "wrong"})
    for act in (
        lambda: wrong.get("zarr.json"),
        lambda: wrong.get_many(["zarr.json", "b"]),
        lambda: wrong.exists("zarr.json"),
        lambda: wrong.set("zarr.json", b"x"),
        lambda: list(wrong.list()),
        lambda: wrong.list_dir(),
    ):
        with pytest.raises(StoreError, match="s3://test/x"):
            act()


@pytest.mark.s3
@pytest.mark.parametrize(
    "command", ["dump", "info", "tree", "ls", "check", "copy", "zom", "clean", "digest", "into"]
)
def test_commands_say_what_is_wrong_in_one_sentence(
    command: str, backend: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from nczarr.cli import main

    def run(url: str, *options: str) -> str:
        words = {"copy": ["copy", url, str(tmp_path / "o.zarr")], "into": ["copy", str(EXAMPLE), url]}
        chosen = [
            item for option in (f"backend={backend}", *options) for item in ("--storage-option", option)
        ]
        assert main([*words.get(command, [command, url]), *chosen]) == 1
        shown = capsys.readouterr()
        said = shown.out + shown.err
        assert said.count("\n") == 1
        assert "Debug source" not in said
        assert "<Error>" not in said
        assert "Error performing" not in said
        return said

    assert "there is no such bucket" in run("s3://no-such-bucket-here/x.zarr")
    assert "refuses access" in run("s3://test/x.zarr", "key=wrong", "secret=wrong")
    assert not (tmp_path / "o.zarr").exists()


@pytest.mark.s3
def test_an_unreachable_server_is_an_error(backend: str) -> None:
    options: dict[str, Any] = {
        "backend": backend,
        "endpoint_url": "http://127.0.0.1:1",
        "key": "a",
        "secret": "b",
    }
    if backend == "obstore":
        options["retry_config"] = {"max_retries": 0}
    else:
        options["config_kwargs"] = {"retries": {"max_attempts": 1}}
    with pytest.raises(StoreError, match=r"s3://test/x/zarr\.json: cannot read"):
        open_store("s3://test/x", storage_options=options).get("zarr.json")


@pytest.mark.s3
def test_netcdf_c_form_of_the_address(s3_server: dict[str, str]) -> None:
    url = f"{s3_server['AWS_ENDPOINT_URL']}/test/netcdf-c.zarr#mode=nczarr,s3"
    store = open_store(url, "w")
    assert isinstance(store, ObstoreStore)
    store.set("zarr.json", b"{}")
    assert open_store("s3://test/netcdf-c.zarr").get("zarr.json") == b"{}"


@pytest.mark.s3
def test_listings_are_fresh(store: Store, backend: str) -> None:
    other = open_store(store.url, "w", {"backend": backend})
    assert list(store.list()) == []
    other.set("g/a", b"1")
    assert list(store.list()) == ["g/a"]
    other.set("g/b", b"1")
    assert list(store.list()) == ["g/a", "g/b"]
    assert store.list_dir("g") == (["a", "b"], [])
    other.delete("g/a")
    assert store.list_dir("g") == (["b"], [])
    assert not store.exists("g/a")


@pytest.mark.s3
def test_folder_markers_are_no_keys(store: Store, s3_server: dict[str, str]) -> None:
    import s3fs

    fs = s3fs.S3FileSystem(endpoint_url=s3_server["AWS_ENDPOINT_URL"])
    root = store.url.removeprefix("s3://")
    for name in ("", "g/"):
        fs.call_s3("put_object", Bucket="test", Key=f"{root.removeprefix('test/')}/{name}", Body=b"")
    store.set("g/k", b"x")
    assert list(store.list()) == ["g/k"]
    assert store.list_dir() == ([], ["g"])
    assert store.list_dir("g") == (["k"], [])


@pytest.mark.s3
def test_neighbours_with_the_same_beginning_stay_apart(backend: str) -> None:
    number = next(numbers)
    store = open_store(f"s3://test/near/{number}/a.zarr", "w", {"backend": backend})
    near = open_store(f"s3://test/near/{number}/a.zarr2", "w", {"backend": backend})
    near.set("k", b"near")
    store.set("v/k", b"x")
    store.set("v2/k", b"x")
    assert list(store.list()) == ["v/k", "v2/k"]
    assert list(store.list("v")) == ["v/k"]
    store.delete_prefix("v")
    store.delete_prefix("")
    assert near.get("k") == b"near"


# --- processes that end, fork and are killed


@pytest.mark.slow
@pytest.mark.s3
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_reading_goes_on_after_a_fork(backend: str) -> None:
    script = """
import os, signal, sys
from nczarr.stores import open_store
url, backend = sys.argv[1:]
store = open_store(url, "w", {"backend": backend})
store.set("k", b"abc")
if os.fork() == 0:
    signal.alarm(60)  # what hangs, dies
    fresh = open_store(url, "r") if backend == "obstore" else store
    ok = store.get("k") == fresh.get("k") == b"abc" and list(store.list()) == ["k"]
    os._exit(0 if ok else 1)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    url = f"s3://test/fork/{next(numbers)}"
    assert subprocess.run([sys.executable, "-c", script, url, backend], check=False).returncode == 0


@pytest.mark.s3
def test_an_obstore_of_the_user_refuses_to_hang_after_a_fork(s3_server: dict[str, str]) -> None:
    script = """
import os, signal, sys
from obstore.store import MemoryStore
from nczarr.errors import StoreError
from nczarr.stores import open_store
store = open_store(MemoryStore(), "w")
store.set("k", b"abc")
if os.fork() == 0:
    signal.alarm(60)
    try:
        store.get("k")
    except StoreError as error:
        os._exit(0 if "spawn" in str(error) else 1)
    os._exit(2)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.s3
def test_programs_end_with_their_own_status(backend: str) -> None:
    """obstore's asynchronous calls made Python abort at its end, in some runs."""
    target = f"s3://test/ends/{next(numbers)}"
    option = f"backend={backend}"
    command = [sys.executable, "-m", "nczarr", "copy", "-q", "--storage-option", option, str(EXAMPLE)]
    statuses = [subprocess.run([*command, f"{target}-{n}.zarr"], check=False).returncode for n in range(5)]
    assert statuses == [0] * 5


@pytest.mark.slow
@pytest.mark.s3
def test_replacing_a_dataset_by_a_process_that_is_killed(backend: str) -> None:
    target, options = f"s3://test/replaced/{next(numbers)}.zarr", {"backend": backend}
    old, new = model("old"), model("new")
    nczarr.copy(old, target, target_options=options)
    script = """
import os, sys, threading, nczarr
from nczarr.mapping import create_dataset, open_dataset
target, backend, after = sys.argv[1:]
options = {"backend": backend}
source = open_dataset(target, storage_options=options).dataset
sink = create_dataset(target, source, overwrite=True, storage_options=options)
real = type(sink.store.store).copy_many
def copy_many(self, pairs):
    if after == "switch":
        os.kill(os.getpid(), 9)
    real(self, pairs)
type(sink.store.store).copy_many = copy_many
import numpy as np
sink.write("/v", (slice(0, 4),), np.full(4, 2, "i4"))
if after == "write":
    os.kill(os.getpid(), 9)
sink.commit()
"""
    for moment in ("write", "switch"):
        done = subprocess.run([sys.executable, "-c", script, target, backend, moment], check=False)
        assert done.returncode == -9
        if moment == "write":
            assert read(target, options) == [1] * 4
            assert len(nczarr_keys(target, options)) == 1
            assert "removed" in clean(target, storage_options=options)[0]
            assert read(target, options) == [1] * 4
        else:
            with pytest.raises(DatasetNotFoundError, match="the new dataset is complete"):
                read(target, options)
            assert "in place now" in clean(target, storage_options=options)[0]
            assert read(target, options) == [2] * 4
        assert nczarr_keys(target, options) == ([] if moment == "write" else [REPLACED])
    nczarr.copy(new, target, overwrite=True, target_options=options)
    assert read(target, options) == [1] * 4


def model(title: str) -> Dataset:
    data = np.full(4, 1, "i4")
    variable = Variable("v", INT, ("/x",), data=MemorySource(data))
    attributes = (Attribute.of("title", title),)
    return Dataset("d", attributes=attributes, dimensions=(Dimension("x", 4),), variables=(variable,))


def read(target: str, options: dict[str, str]) -> list[int]:
    with open_dataset(target, storage_options=options) as stored:
        return stored.data("/v").read((slice(0, 4),)).tolist()


def nczarr_keys(target: str, options: dict[str, str]) -> list[str]:
    return [key for key in open_store(target, "r", options).list() if key.startswith(".nczarr-")]


# --- settings, without a server


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    return tmp_path


def test_options_in_both_languages() -> None:
    assert s3_settings({"anon": True}) == {"skip_signature": True}
    assert s3_settings({"key": "K", "secret": "S"}) == {"access_key_id": "K", "secret_access_key": "S"}
    assert s3_settings({"fancy": 1}) is None


def test_boto_finds_the_credentials(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("boto3")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    assert boto_settings({}, None) is None
    keys = "aws_access_key_id = {}\naws_secret_access_key = {}\n"
    (home / "credentials").write_text(f"[default]\n{keys.format('A', 'B')}[p]\n{keys.format('C', 'D')}")
    program = 'credential_process = echo \'{"Version": 1, "AccessKeyId": "E", "SecretAccessKey": "F"}\''
    profiles = f"[profile p]\nendpoint_url = http://h:9\n[profile q]\n{program}\n"
    (home / "config").write_text(f"[default]\nregion = eu-west-1\n{profiles}")

    def found(profile: str | None) -> dict[str, object]:
        settings = boto_settings({}, profile)
        assert settings is not None
        given = settings.pop("credential_provider")()
        return settings | {name: given[name] for name in ("access_key_id", "secret_access_key")}

    assert found(None) == {"access_key_id": "A", "secret_access_key": "B", "region": "eu-west-1"}
    assert found("p") == {"access_key_id": "C", "secret_access_key": "D", "endpoint": "http://h:9"}
    assert found("q") == {"access_key_id": "E", "secret_access_key": "F"}
    monkeypatch.setenv("AWS_PROFILE", "p")
    assert found(None)["access_key_id"] == "C"
    with pytest.raises(StoreError, match=r"s3://b/k: cannot find credentials: .*nobody"):
        open_store("s3://b/k", storage_options={"profile": "nobody"})


def test_bad_addresses_and_options(home: Path) -> None:
    pytest.importorskip("obstore")
    with pytest.raises(StoreError, match="no bucket"):
        open_store("s3://")
    with pytest.raises(StoreError, match="backend"):
        open_store("s3://b/k", storage_options={"backend": "carrier pigeon"})
    with pytest.raises(StoreError, match="cannot open"):
        open_store("s3://b/k", storage_options={"backend": "obstore", "nonsense": 1})


def test_without_any_client_the_extra_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nczarr.stores.remote.s3._importable", lambda name: False)
    with pytest.raises(NCZarrError, match="pip install obstore s3fs"):
        open_store("s3://b/k")


@pytest.mark.parametrize("words", ["s3fs", "obstore", "boto"])
def test_one_set_of_names_serves_each_client(words: str) -> None:
    named: dict[str, dict[str, Any]] = {
        "s3fs": {"endpoint_url": "http://h:1", "client_kwargs": {"region_name": "r"}},
        "obstore": {"endpoint": "http://h:1", "region": "r"},
        "boto": {"aws_endpoint_url": "http://h:1", "region_name": "r"},
    }
    keys = {
        "s3fs": {"key": "K", "secret": "S", "token": "T"},
        "obstore": {"access_key_id": "K", "secret_access_key": "S", "session_token": "T"},
        "boto": {"aws_access_key_id": "K", "aws_secret_access_key": "S", "aws_session_token": "T"},
    }
    options = {**named[words], **keys[words]}
    assert s3_settings(options) == {**named["obstore"], **keys["obstore"]}
    assert fsspec_options("s3://b/k", options) == {**named["s3fs"], **keys["s3fs"]}


@pytest.mark.slow
@pytest.mark.s3
@pytest.mark.parametrize("backend", ["obstore", "s3fs"])
@pytest.mark.parametrize("words", ["own", "s3fs", "obstore", "boto"])
def test_the_names_work_for_every_entrance(
    s3_server: dict[str, str], words: str, backend: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    xr = pytest.importorskip("xarray")
    place = f"s3://test/names/{next(numbers)}"
    endpoint, key = s3_server["AWS_ENDPOINT_URL"], s3_server["AWS_ACCESS_KEY_ID"]
    secret = s3_server["AWS_SECRET_ACCESS_KEY"]
    options: dict[str, Any] = {
        "own": {"endpoint": endpoint, "region": "us-east-1", "key": key, "secret": secret},
        "s3fs": {
            "key": key,
            "secret": secret,
            "client_kwargs": {"endpoint_url": endpoint, "region_name": "us-east-1"},
        },
        "obstore": {
            "aws_endpoint_url": endpoint,
            "aws_region": "us-east-1",
            "aws_access_key_id": key,
            "aws_secret_access_key": secret,
        },
        "boto": {
            "endpoint_url": endpoint,
            "region_name": "us-east-1",
            "access_key_id": key,
            "secret_access_key": secret,
        },
    }[words]
    options["backend"] = backend
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in ("a.zarr", "plain.zarr", "a.nc"):
        layout = {"layout": "zarr-v3", "lossy": True} if name == "plain.zarr" else {}
        nczarr.copy(model("t"), f"{place}/{name}", target_options=options, **layout)
        nczarr.copy(f"{place}/{name}", tmp_path / f"{name}.zarr", source_options=options)
        with nczarr.Dataset(f"{place}/{name}", storage_options=options) as ds:
            assert ds["v"][:].tolist() == [1] * 4
        with xr.open_dataset(f"{place}/{name}", engine="nczarr", storage_options=options) as ds:
            assert ds["v"].values.tolist() == [1] * 4


@pytest.mark.slow
@pytest.mark.s3
@pytest.mark.parametrize("backend", ["obstore", "s3fs"])
@pytest.mark.parametrize("source", ["container", "single sign-on"])
def test_credentials_of_containers_and_of_single_sign_on(
    s3_server: dict[str, str], home: Path, backend: str, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("boto3")
    from odd_server import OddServer, send

    server, later = OddServer(), "2099-01-01T00:00:00Z"
    key, secret = s3_server["AWS_ACCESS_KEY_ID"], s3_server["AWS_SECRET_ACCESS_KEY"]
    asked: list[str | None] = []

    def answer(handler: Any, found: dict[str, Any]) -> None:
        asked.append(handler.headers["Authorization"] or handler.headers["x-amz-sso_bearer_token"])
        send(handler, 200, json.dumps(found).encode(), Content_Type="application/json")

    of_container = {"AccessKeyId": key, "SecretAccessKey": secret, "Token": "t", "Expiration": later}
    of_role = {
        "accessKeyId": key,
        "secretAccessKey": secret,
        "sessionToken": "t",
        "expiration": 4070908800000,
    }
    server.answers["/task"] = lambda h: answer(h, of_container)
    server.answers["/federation/credentials"] = lambda h: answer(h, {"roleCredentials": of_role})
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3_server["AWS_ENDPOINT_URL"])
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    if source == "container":
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{server.url}/task")
        monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "of the task")
    else:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SSO", server.url)
        settings = {
            "start_url": "https://sso.test",
            "region": "us-east-1",
            "account_id": "1",
            "role_name": "r",
        }
        lines = [f"sso_{name} = {value}" for name, value in settings.items()]
        (home / "config").write_text("\n".join(["[default]", *lines, ""]))
        cache = home / ".aws" / "sso" / "cache"
        cache.mkdir(parents=True)
        token = {"accessToken": "of the user", "expiresAt": later, "startUrl": "https://sso.test"}
        (cache / f"{hashlib.sha1(b'https://sso.test').hexdigest()}.json").write_text(json.dumps(token))
    # botocore finds the home directory when it is imported.
    command = [sys.executable, "-m", "nczarr", "copy", str(EXAMPLE), f"s3://test/found/{next(numbers)}.zarr"]
    command += ["--storage-option", f"backend={backend}"]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        assert set(asked) == {"of the task" if source == "container" else "of the user"}
    finally:
        server.stop()


def test_the_file_of_settings_counts_beside_keys_in_the_environment(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("boto3")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "K")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "S")
    section = "[services here]\ns3 =\n  endpoint_url = http://s:2\n"
    (home / "config").write_text(f"[default]\nregion = eu-west-1\nservices = here\n{section}")
    store = open_store("s3://b/k")
    assert isinstance(store, ObstoreStore)
    assert store._client.config["region"] == "eu-west-1"
    assert store._client.config["endpoint"] == "http://s:2"
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://e:3")
    store = open_store("s3://b/k")
    assert isinstance(store, ObstoreStore)
    assert store._client.config["endpoint"] == "http://e:3"


def test_s3_tells_the_region_of_a_bucket() -> None:
    from odd_server import OddServer, send

    server = OddServer()
    try:
        server.answers["/b"] = lambda h: send(h, 403, x_amz_bucket_region="eu-north-1")
        assert bucket_region(f"{server.url}/b") == "eu-north-1"
    finally:
        server.stop()


@pytest.mark.parametrize("backend", ["obstore", "s3fs"])
def test_a_server_with_a_certificate_of_its_own(home: Path, backend: str) -> None:
    from odd_server import OddServer

    program = shutil.which("openssl")
    if program is None:
        pytest.skip("openssl is not installed")
    files = [str(home / name) for name in ("key.pem", "cert.pem")]
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1"]
    subprocess.run([program, *words, "-keyout", files[0], "-out", files[1]], check=True, capture_output=True)
    server = OddServer()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files[1], files[0])
    server._server.socket = context.wrap_socket(server._server.socket, server_side=True)
    options: dict[str, Any] = {
        "backend": backend,
        "endpoint": server.url.replace("http:", "https:"),
        "key": "K",
        "secret": "S",
        "region": "us-east-1",
    }
    if backend == "obstore":
        options["retry_config"] = {"max_retries": 0}
    else:
        options["config_kwargs"] = {"retries": {"max_attempts": 1}}
    try:
        with pytest.raises(StoreError, match=r"the certificate of the server 127\.0\.0\.1:\d+ is not valid"):
            open_store("s3://b/k", storage_options=options).get("zarr.json")
    finally:
        server.stop()


def test_an_old_token_and_another_region_are_named() -> None:
    text = "An error occurred (ExpiredToken) when calling the GetObject operation: The provided token has expired."
    assert reason_of(OSError(text))[0] == "the server refuses access (ExpiredToken)"
    for text in (
        "Generic S3 error: Received redirect without LOCATION, this normally indicates an incorrect region",
        "400: <Code>AuthorizationHeaderMalformed</Code><Message>the region 'us-east-1' is wrong; expecting 'eu-west-1'",
    ):
        reason, hint = reason_of(OSError(text))
        assert reason == "the bucket is in another region"
        assert "region" in (hint or "")


def test_a_certificate_that_is_not_valid_is_named() -> None:
    text = "GET https://h:9/b - HTTP error: error sending request Debug source: error: InvalidCertificate(Expired)"
    assert reason_of(OSError(text))[0] == "the certificate of the server h:9 is not valid here"

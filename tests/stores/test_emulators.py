"""Write and read datasets on emulators of Google Cloud Storage and of Azure, where they are installed."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczarr
from nczarr.cli import main
from nczarr.errors import LockedError, NCZarrError
from nczarr.stores import open_store

EXAMPLE = Path(__file__).parents[1] / "data" / "example.nc"
#: The public key of the account that the emulator of Azure has.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
PROGRAMS = {
    "gs": (
        "fake-gcs-server -scheme http -host 127.0.0.1 -port {port} -backend memory -public-host 127.0.0.1:{port}"
        " -external-url {url}"
    ),
    "az": "azurite-blob --blobHost 127.0.0.1 --blobPort {port} --location {folder} --skipApiVersionCheck --silent",
}


@pytest.fixture(params=["gs", "az"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The URL of a bucket, and the options of its client."""
    kind = request.param
    # gcsfs asks for the kind of bucket in a protocol that the emulator lacks.
    monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    pytest.importorskip({"gs": "gcsfs", "az": "adlfs"}[kind])
    program, *words = PROGRAMS[kind].split()
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    import fsspec

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [found, *(word.format(port=port, url=url, folder=tmp_path) for word in words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    account = f"AccountName=devstoreaccount1;AccountKey={KEY};BlobEndpoint={url}/devstoreaccount1;"
    options: dict[str, Any] = {
        "gs": {"token": "anon", "project": "p", "endpoint_url": url},
        "az": {"connection_string": f"DefaultEndpointsProtocol=http;{account}"},
    }[kind]
    try:
        while not listens(port):
            assert process.poll() is None
            time.sleep(0.1)
        fsspec.filesystem(kind, **options).mkdir("test")
        yield f"{kind}://test", options
    finally:
        process.kill()
        process.wait()


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_a_dataset_and_its_writers(place: tuple[str, dict[str, Any]]) -> None:
    url, options = f"{place[0]}/a.zarr", place[1]
    with nczarr.Dataset(url, "w", storage_options=options) as ds:
        ds.createDimension("t", None)
        ds.createVariable("t", "i4", ("t",), chunksizes=(2,))[:] = np.arange(3)
    reader = nczarr.Dataset(url, storage_options=options)
    with nczarr.Dataset(url, "a", storage_options=options) as ds:
        ds["t"][3:6] = [3, 4, 5]
        with pytest.raises(LockedError):  # by a conditional write
            nczarr.Dataset(url, "a", storage_options=options)
    assert reader["t"].shape == (3,)
    reader.sync()
    assert reader["t"][:].tolist() == list(range(6))
    reader.close()
    with open_store(url, "r", options) as store:
        assert [key for key in store.list() if key.startswith(".nczarr")] == []


def test_a_missing_bucket_is_named(place: tuple[str, dict[str, Any]]) -> None:
    url, options = place[0].replace("//test", "//absent") + "/a.zarr", place[1]
    with pytest.raises(NCZarrError, match="no such bucket"):
        nczarr.Dataset(url, storage_options=options)
    with pytest.raises(NCZarrError, match="no such bucket"):
        nczarr.Dataset(url, "w", storage_options=options)


def test_copies_and_commands(place: tuple[str, dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    xr = pytest.importorskip("xarray")
    url, options = f"{place[0]}/example.zarr", place[1]
    words = [word for name in options for word in ("--storage-option", f"{name}={options[name]}")]
    for overwrite in ([], ["--overwrite"]):
        assert main(["copy", *overwrite, str(EXAMPLE), url, *words]) == 0
        assert list(nczarr.diff(EXAMPLE, url, storage_options=options)) == []
    with xr.open_dataset(url, engine="nczarr", group="ocean", storage_options=options) as ds:
        assert ds["temp"].shape[-2:] == (18, 36)
    nczarr.copy(EXAMPLE, f"{place[0]}/example.nc", target_options=options)
    with nczarr.Dataset(f"{place[0]}/example.nc", storage_options=options) as ds:
        assert list(ds.groups) == ["ocean", "atmosphere"]
    for command in ("info", "digest", "du", "clean"):
        assert main([command, url, *words]) == 0
    assert main(["check", "--data", url, *words]) == 0
    assert main(["rm", "-y", url, *words]) == 0
    capsys.readouterr()
    with open_store(url, "r", options) as store:
        assert list(store.list()) == []

"""Count the requests of writing to an S3 server, and read what a bucket with versions keeps."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import netCDF4
import numpy as np
import pytest
from s3_proxy import S3Proxy

import nczarr
from nczarr.cli import main
from nczarr.mapping.dataset.maintenance import clean
from nczarr.model import INT, Dataset, Dimension, MemorySource, Storage, Variable
from nczarr.stores import open_store

pytestmark = pytest.mark.s3
numbers = itertools.count()


@pytest.fixture
def proxy(s3_server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> S3Proxy:
    proxy = S3Proxy(s3_server["AWS_ENDPOINT_URL"])
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
    return proxy


def dataset(chunks: int) -> Dataset:
    v = Variable(
        "v", INT, ("/x",), storage=Storage(chunk_shape=(1,)), data=MemorySource(np.arange(chunks, dtype="i4"))
    )
    return Dataset("d", dimensions=(Dimension("x", chunks),), variables=(v,))


def test_a_value_of_many_megabytes_is_one_request(proxy: S3Proxy) -> None:
    url = f"s3://test/puts/{next(numbers)}"
    value = np.arange(5 << 20, dtype="i4")
    open_store(url, "w").set("v/c/0", value)
    assert proxy.counts == {"PUT": 1}
    assert open_store(url).get("v/c/0") == value.tobytes()


@pytest.mark.slow
def test_replacing_writes_each_object_twice_and_little_else(proxy: S3Proxy) -> None:
    url = f"s3://test/puts/{next(numbers)}.zarr"
    nczarr.copy(dataset(3), url)
    counts = []
    for chunks in (3, 20):
        proxy.reset()
        nczarr.copy(dataset(chunks), url, overwrite=True)
        counts.append(dict(proxy.counts))
    few, many = counts
    assert many["PUT"] - few["PUT"] == 2 * (20 - 3)
    for name, most in (("GET", 10), ("LIST", 4), ("POST", 3)):
        assert few[name] <= most
        assert many[name] <= most
    with nczarr.Dataset(url) as ds:
        assert ds["v"][:].tolist() == list(range(20))


def day(name: str, number: int, variables: int) -> str:
    with netCDF4.Dataset(name, "w") as file:
        file.createDimension("time")
        file.createDimension("lat", 6)
        time = file.createVariable("time", "f8", ("time",))
        time.units = "hours since 2026-10-01"
        time[:] = 24 * number + 6 * np.arange(4)
        file.createVariable("lat", "f4", ("lat",))[:] = np.arange(6)
        for i in range(variables):
            file.createVariable(f"v{i}", "f4", ("time", "lat"))[:] = number
    return name


@pytest.mark.parametrize("variables", [1, 3])
def test_an_append_costs_three_requests_for_each_array_that_grows(
    proxy: S3Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: int
) -> None:
    """The rest does not depend on the length, nor on the number of variables."""
    monkeypatch.chdir(tmp_path)
    url = f"s3://test/puts/{next(numbers)}.zarr"
    nczarr.join([day("0.nc", 0, variables), day("1.nc", 1, variables)], url, chunks={"time": 4})
    for number in (2, 3, 4):
        name = day(f"{number}.nc", number, variables)
        proxy.reset()
        nczarr.append(name, url)
        asked = Counter(line.partition("?")[0].replace(url.removeprefix("s3:/"), "") for line in proxy.log)
        mark = {"PUT /.nczarr-writing": 2, "GET /.nczarr-writing": 2, "POST /test": 1}
        # Other writers and an unfinished rename are asked for by one listing, all documents by the copy in the root.
        once = ["GET /test", "GET /zarr.json", "PUT /zarr.json", "GET /lat/c/0", "GET /time/c/0"]
        growing = ["time", *(f"v{i}" for i in range(variables))]
        documents = [f"{word} /{name}/zarr.json" for word in ("GET", "PUT") for name in growing]
        chunks = [f"PUT /v{i}/c/{number}/0" for i in range(variables)]
        # The chunk of the coordinate that gets the steps is the one that has told where they go.
        if f"PUT /time/c/{number}" in asked:
            once[-1] = f"GET /time/c/{number - 1}"
            chunks.append(f"PUT /time/c/{number}")
        else:
            chunks.append("PUT /time/c/0")
        assert asked == Counter(mark) + Counter([*once, *documents, *chunks])
        assert asked.total() == 10 + 3 * len(growing)
    with nczarr.Dataset(url) as ds:
        assert ds["time"][:].tolist() == [6 * step for step in range(20)]
        assert ds["v0"][:, 0].tolist() == [float(step // 4) for step in range(20)]


def test_an_append_keeps_what_another_program_has_written_to_a_document(
    proxy: S3Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy in the root, by which an append knows the other documents, does not have it."""
    zarr = pytest.importorskip("zarr")
    monkeypatch.chdir(tmp_path)
    url = f"s3://test/puts/{next(numbers)}.zarr"
    nczarr.join([day("0.nc", 0, 1), day("1.nc", 1, 1)], url)
    options = {"endpoint_url": proxy.url}
    for name in ("v0", "lat"):
        zarr.open_array(f"{url}/{name}", mode="r+", storage_options=options).attrs["history"] = "corrected"
    nczarr.append(day("2.nc", 2, 1), url)
    for name in ("v0", "lat"):
        array = zarr.open_array(f"{url}/{name}", mode="r", storage_options=options)
        assert array.attrs["history"] == "corrected", name
    with nczarr.Dataset(url) as ds:
        assert ds["v0"].history == "corrected"
        assert ds["v0"][:, 0].tolist() == [0.0] * 4 + [1.0] * 4 + [2.0] * 4


@pytest.mark.parametrize("layout", ["zarr-v3", "zarr-v2"])
@pytest.mark.parametrize("consolidated", [True, False])
def test_xarray_opens_plain_zarr_by_its_version_only(proxy: S3Proxy, layout: str, consolidated: bool) -> None:
    xr = pytest.importorskip("xarray")
    url = f"s3://test/puts/{next(numbers)}.zarr"
    nczarr.copy(dataset(2), url, layout=layout, lossy=True, consolidated=consolidated)  # type: ignore[arg-type]
    proxy.reset()
    with xr.open_dataset(url, engine="nczarr") as ds:
        asked = [line.rpartition("/")[2] for line in proxy.log if "list-type" not in line]
        assert ds["v"].values.tolist() == [0, 1]
    # nczarr reads the documents, and then xarray's engine does.
    if layout == "zarr-v3":
        assert asked == ["zarr.json"] * (2 if consolidated else 4), asked
    else:
        assert asked.count("zarr.json") == 1, asked  # nczarr finds the version out


@pytest.fixture
def versioned(s3_server: dict[str, str]) -> Iterator[str]:
    boto3 = pytest.importorskip("boto3")
    client = boto3.client("s3", endpoint_url=s3_server["AWS_ENDPOINT_URL"])
    bucket = f"versions-{next(numbers)}"
    client.create_bucket(Bucket=bucket)
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    return f"s3://{bucket}/a.zarr"


@pytest.mark.slow
def test_a_bucket_with_versions_keeps_what_is_removed(
    versioned: str, s3_server: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    nczarr.copy(dataset(3), versioned)
    assert main(["du", versioned]) == 0
    assert "keeps older versions" in capsys.readouterr().err
    open_store(versioned, "r+").set(".nczarr-unfinished", b"-\n{}\n")
    with pytest.warns(UserWarning, match="keeps older versions"):
        assert clean(versioned, force=True)
    assert main(["rm", "-y", versioned]) == 0
    assert "keeps older versions" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["obstore", "s3fs"])
def test_clean_finds_uploads_that_were_killed(
    s3_server: dict[str, str], backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    boto3 = pytest.importorskip("boto3")
    client = boto3.client("s3", endpoint_url=s3_server["AWS_ENDPOINT_URL"])
    name, options = f"puts/{next(numbers)}.zarr", {"backend": backend}
    nczarr.copy(dataset(3), f"s3://test/{name}", target_options=options)
    for key in (f"{name}/v/c/1", f"{name}2/v/c/1"):  # the second one is of another dataset
        upload = client.create_multipart_upload(Bucket="test", Key=key)["UploadId"]
        client.upload_part(Bucket="test", Key=key, UploadId=upload, PartNumber=1, Body=b"part")

    def left() -> list[str]:
        found = client.list_multipart_uploads(Bucket="test", Prefix="puts/").get("Uploads", [])
        return [item["Key"] for item in found if item["Key"].startswith(name)]

    words = ["clean", f"s3://test/{name}", "--storage-option", f"backend={backend}"]
    assert main(words) == 0
    assert "parts of 1 values" in capsys.readouterr().out
    assert len(left()) == 2
    assert main([*words, "--force"]) == 0
    assert "are removed" in capsys.readouterr().out
    assert left() == [f"{name}2/v/c/1"]
    assert clean(f"s3://test/{name}", storage_options=options) == []
    with nczarr.Dataset(f"s3://test/{name}", storage_options=options) as ds:
        assert ds["v"][:].tolist() == [0, 1, 2]


def test_other_buckets_keep_nothing(s3_server: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    url = f"s3://test/puts/{next(numbers)}.zarr"
    nczarr.copy(dataset(3), url)
    assert main(["du", url]) == 0
    assert main(["rm", "-y", url]) == 0
    assert "versions" not in capsys.readouterr().err

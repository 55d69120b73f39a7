#!/usr/bin/env python3
"""Measure the time and memory of reading and copying a large array from an S3 server, beside other libraries.

    python tests/benchmarks/object_memory.py [--mebibytes 1024] [--rounds 3] [--only read]

nginx serves the chunks of 8 MiB as the objects of a bucket, so the server costs little. Each measurement is a process
of its own; its memory is the peak above that of the same process before. Copies are from and to the S3 server of the
tests, which takes most of their time.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import boto3
import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "s3"), str(HERE.parent / "http")]

import server  # noqa: E402
from nginx import Nginx  # noqa: E402

import nczarr  # noqa: E402

#: Begins each measured program.
START = """
import sys, time, uuid, warnings
import numpy as np
warnings.simplefilter("ignore")
endpoint, target, memory, change = *sys.argv[1:4], eval(sys.argv[4])
anonymous = {"endpoint_url": endpoint, "anon": True}
def peak():
    words = open("/proc/self/status").read().split()
    return int(words[words.index("VmHWM:") + 1]) >> 10
def measure(work):
    low, begin = peak(), time.perf_counter()
    result = work()
    print(time.perf_counter() - begin, peak() - low)
"""
NCZARR = """
import nczarr
ds = nczarr.Dataset("s3://data/a.zarr", storage_options=anonymous)
ds.set_auto_mask(False)
ds["v"][0]
measure(lambda: ds["v"][:])
"""
TENSORSTORE = """
import tensorstore as ts
store = {"driver": "s3", "bucket": "data", "endpoint": endpoint, "path": "a.zarr/v/", "aws_region": "us-east-1",
    "aws_credentials": {"type": "anonymous"}}
array = ts.open({"driver": "zarr3", "kvstore": store}).result()
array[0].read().result()
measure(lambda: array.read().result())
"""
ZARR = """
import zarr
from obstore.store import S3Store
client = S3Store("data", prefix="a.zarr", endpoint=endpoint, region="us-east-1", skip_signature=True,
    client_options={"allow_http": True})
array = zarr.open_group(zarr.storage.ObjectStore(client, read_only=True), mode="r")["v"]
array[0]
measure(lambda: array[:])
"""
COPY = """
import nczarr
def copy(name):
    nczarr.copy(f"s3://test/{name}.zarr", f"s3://test/{name}-{uuid.uuid4().hex}.zarr", memory=memory,
        source_options={"endpoint_url": target}, target_options={"endpoint_url": target}, **change)
copy("small")
measure(lambda: copy("a"))
"""
MEASURED = {
    "read: nczarr": (NCZARR, {}),
    "read: tensorstore": (TENSORSTORE, {}),
    "read: zarr-python with obstore": (ZARR, {}),
    "copy: chunks as stored": (COPY, {}),
    "copy: other codec": (COPY, {"compression": "none"}),
    "copy: other chunks": (COPY, {"chunks": {"y": 1 << 17}}),
}
#: The numbers of four bytes in a chunk.
WIDTH = 2 << 20


def write(path: Path, chunks: int) -> None:
    """Write an array of chunks of 8 MiB, which compress little."""
    values = np.random.default_rng(1).integers(0, 1 << 24, WIDTH, "i4")
    with nczarr.Dataset(path, "w") as ds:
        ds.createDimension("x", None)
        ds.createDimension("y", WIDTH)
        v = ds.createVariable("v", "i4", ("x", "y"), chunksizes=(1, WIDTH), compression="zstd")
        for number in range(chunks):
            v[number] = values ^ number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mebibytes", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", default="128MiB")
    parser.add_argument("--only", default="", help="a part of the titles")
    options = parser.parse_args()
    os.environ.pop("AWS_ENDPOINT_URL", None)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write(folder / "a.zarr", max(1, options.mebibytes >> 3))
        write(folder / "small.zarr", 1)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        (folder / "state").mkdir()
        source, target = Nginx(folder / "state", folder, port), server.new_server(folder)
        target.start()
        try:
            os.environ.update({k: v for k, v in target.settings.items() if k != "AWS_ENDPOINT_URL"})
            boto3.client("s3", endpoint_url=target.url).create_bucket(Bucket="test")
            if not options.only.startswith("read"):
                for name in ("a", "small"):
                    nczarr.copy(
                        folder / f"{name}.zarr",
                        f"s3://test/{name}.zarr",
                        target_options={"endpoint_url": target.url},
                    )
            found: dict[str, list[tuple[float, ...]]] = {}
            for _ in range(options.rounds):
                for title, (program, change) in MEASURED.items():
                    if options.only in title:
                        words = [source.url.rstrip("/"), target.url, options.memory, repr(change)]
                        command = [sys.executable, "-c", START + program, *words]
                        line = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
                        found.setdefault(title, []).append(tuple(map(float, line.split())))
            for title, figures in found.items():
                seconds, peaks = zip(*figures, strict=True)
                print(f"{title:32} {statistics.median(seconds):7.2f} s {max(peaks):7.0f} MiB")
        finally:
            source.stop()
            target.stop()


if __name__ == "__main__":
    main()

"""Copy to a real S3 server and back through a proxy that refuses, resets and delays; then look at every value.

Needs Debian's haproxy; as a script also the packages of ``tests/s3/ceph.py``. Root gets them by apt-get.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from budget import Budget, main

import nczarr
from nczarr.errors import DatasetNotFoundError, NCZarrError
from nczarr.mapping import open_dataset
from nczarr.mapping.dataset.destination import UNFINISHED
from nczarr.mapping.dataset.maintenance import clean
from nczarr.model import INT, Dataset, Dimension, MemorySource, Storage, Variable
from nczarr.stores import open_store

sys.path.insert(0, str(Path(__file__).parents[1]))

EXAMPLE = Path(__file__).parents[1] / "data" / "example.nc"
#: Kills, and processes that end by themselves, in each round.
EACH = 5
CONFIGURATION = """\
global
  maxconn 1000
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend s3
  bind 127.0.0.1:{port}
  http-request set-var(txn.r) rand(1000)
  http-request reject if {{ var(txn.r) -m int lt {resets} }}
  http-request set-var(txn.r) rand(1000)
  http-request return status 503 hdr Retry-After 1 if {{ var(txn.r) -m int lt {refused} }}
  default_backend rgw
backend rgw
  server rgw 127.0.0.1:{behind}
"""


class Proxy:
    """haproxy on loopback; per mille of requests that are reset and refused."""

    def __init__(self, folder: Path, behind: int, resets: int, refused: int) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        path = folder / f"haproxy-{port}.cfg"
        path.write_text(CONFIGURATION.format(port=port, behind=behind, resets=resets, refused=refused))
        self._process = subprocess.Popen(["haproxy", "-db", "-f", path], stderr=subprocess.DEVNULL)
        self.url = f"http://127.0.0.1:{port}"
        while self._process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.05)
        raise RuntimeError("haproxy does not come up")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


def model(n: int) -> Dataset:
    storage = Storage(chunk_shape=(10,))
    data = MemorySource(np.full(100, n, "i4"))
    variables = tuple(Variable(name, INT, ("/x",), storage=storage, data=data) for name in "ab")
    return Dataset("d", dimensions=(Dimension("x", 100),), variables=variables)


def values(target: str, options: dict[str, str]) -> set[int]:
    with open_dataset(target, storage_options=options) as stored:
        return {n for fqn in ("/a", "/b") for n in stored.data(fqn).read((slice(0, 100),)).tolist()}


WRITER = """
import sys
import nczarr
sys.path.insert(0, sys.argv[1])
from s3_faults import model
print("ready", flush=True)
nczarr.copy(model(int(sys.argv[3])), sys.argv[2], overwrite=True, target_options={"backend": sys.argv[4]})
"""


def kill(budget: Budget, backend: str, number: int) -> None:
    """Kill a process that replaces a dataset; the old or the new one is there then."""
    target, options = f"s3://test/killed-{backend}.zarr", {"backend": backend}
    nczarr.copy(model(number), target, overwrite=True, target_options=options)
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", WRITER, here, target, str(number + 1), backend]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(budget.random.uniform(0.1, 1))
    process.kill()
    process.wait()
    budget.count("kills")
    try:
        found = values(target, options)
    except DatasetNotFoundError as error:
        assert "nczarr clean" in str(error)
        budget.count("kills between the two")
        found = set()
    # From the mark on the new one counts, though the old one may still be there.
    with open_store(target, "r", options) as store:
        marked = store.get(UNFINISHED) is not None
    clean(target, storage_options=options)
    after = values(target, options)
    assert after in ({number}, {number + 1}), after
    assert not found or found == after or (marked and after == {number + 1}), (found, after, marked)


def copy_and_end(budget: Budget, source: Path, backend: str, number: int) -> None:
    """Copy in a process of its own; its exit status says that it is done."""
    option = f"backend={backend}"
    command = [sys.executable, "-m", "nczarr", "copy", "-q", "--storage-option", option, str(source)]
    status = subprocess.run([*command, f"s3://test/ended/{number}.zarr"], check=False).returncode
    assert status == 0, status
    budget.count("processes that ended with status 0")


def install_ceph() -> None:
    """Install haproxy and Ceph unless they are here, and make Ceph the server of the trial."""
    from s3.ceph import PACKAGES, PROGRAMS, install

    install((*PROGRAMS, "haproxy"), (*PACKAGES, "haproxy"))
    os.environ["NCZARR_S3_SERVER"] = "ceph"


def trial(budget: Budget) -> None:
    """New copies, replacements and reading, with both clients, through faults; and what must fail, fails."""
    from s3.server import new_server

    folder = Path(tempfile.mkdtemp(prefix="nczarr-s3-"))
    server = new_server(folder / "state")
    server.start()
    proxies = []
    try:
        os.environ.update(server.settings)
        direct = server.settings["AWS_ENDPOINT_URL"]
        behind = int(direct.rpartition(":")[2])
        import s3fs

        s3fs.S3FileSystem(endpoint_url=direct).mkdir("test")
        proxies = [Proxy(folder, behind, *rates) for rates in ((0, 100), (10, 100), (0, 500))]
        for number in budget:
            proxy = proxies[number % 3]
            target = f"s3://test/{number // 2 % 3}.zarr"
            options = {"backend": ("obstore", "s3fs")[number % 2], "endpoint_url": proxy.url}
            straight = {**options, "endpoint_url": direct}
            try:
                nczarr.copy(model(number), target, overwrite=True, target_options=options)
            except NCZarrError:
                budget.count("copies that failed, and said so")
                clean(target, storage_options=straight)
            else:
                budget.count("copies")
                assert values(target, straight) == {number}
            for more in range(EACH):
                copy_and_end(budget, EXAMPLE, options["backend"], number * EACH + more)
                kill(budget, options["backend"], 2 * (number * EACH + more))
            try:
                found = values(target, options)
            except NCZarrError:
                budget.count("readings that failed, and said so")
            else:
                budget.count("readings")
                assert len(found) == 1, found
        for wrong in ({"key": "nobody", "secret": "nothing"}, {}):
            bucket = "test" if wrong else "no-such-bucket"
            for backend in ("obstore", "s3fs"):
                options = {"backend": backend, "endpoint_url": direct, **wrong}
                try:
                    nczarr.copy(model(1), f"s3://{bucket}/x.zarr", target_options=options)
                except NCZarrError:
                    budget.count("refusals")
                else:
                    raise AssertionError("it was not refused")
    finally:
        for proxy in proxies:
            proxy.stop()
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    install_ceph()
    main(trial)

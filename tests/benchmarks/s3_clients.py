#!/usr/bin/env python3
"""Compare the two S3 clients, obstore and s3fs, on a real S3 server that the program starts itself.

    python tests/benchmarks/s3_clients.py [ROUNDS]

Prints for each workload the median time of both through `nczarr.stores.open_store`, interleaved, and their ratio.
Below one: obstore, the default of the ``s3`` extra, is the faster one.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nczarr.stores import Store, open_store

SMALL = [(f"small/{number}", os.urandom(4096)) for number in range(1000)]
LARGE = [(f"large/{number}", os.urandom(4 << 20)) for number in range(32)]
RANGES = [(key, start << 16, 1 << 16) for key, _ in LARGE for start in range(0, 64, 4)]

WORKLOADS: dict[str, Callable[[Store], Any]] = {
    "put 1,000 of 4 KiB": lambda store: store.set_many(SMALL),
    "put 32 of 4 MiB": lambda store: store.set_many(LARGE),
    "get 1,000 of 4 KiB": lambda store: store.get_many([key for key, _ in SMALL]),
    "get 32 of 4 MiB": lambda store: store.get_many([key for key, _ in LARGE]),
    "512 ranges of 64 KiB": lambda store: store.get_ranges(RANGES),
    "list 1,032 keys": lambda store: list(store.list()),
    "50 gets, one by one": lambda store: [store.get(key) for key, _ in SMALL[:50]],
}


def start_server(state: Path) -> Any:
    spec = importlib.util.spec_from_file_location("ceph", Path(__file__).parents[1] / "s3" / "ceph.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    server = module.CephServer(state)
    server.start()
    return server


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        server = start_server(Path(folder) / "state")
        try:
            os.environ.update(server.settings)
            import s3fs

            s3fs.S3FileSystem(endpoint_url=server.settings["AWS_ENDPOINT_URL"]).mkdir("bench")
            stores = {
                name: open_store(f"s3://bench/{name}", "w", {"backend": name}) for name in ("obstore", "s3fs")
            }
            for title, work in WORKLOADS.items():
                times: dict[str, list[float]] = {name: [] for name in stores}
                for turn in range(rounds + 1):
                    for name, store in stores.items():
                        begin = time.perf_counter()
                        work(store)
                        if turn:  # the first is for warming up
                            times[name].append(time.perf_counter() - begin)
                middle = {name: statistics.median(values) for name, values in times.items()}
                print(
                    f"{title:22} obstore {middle['obstore'] * 1000:7.0f} ms   s3fs {middle['s3fs'] * 1000:7.0f} ms"
                    f"   ratio {middle['obstore'] / middle['s3fs']:.2f}",
                    flush=True,
                )
        finally:
            server.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)

"""Open datasets with xarray's engines ``zarr`` and ``nczarr`` in turn, and compare their processor time and requests.

``python tests/benchmarks/xarray_opening.py [--rounds 5] [--largest 10000] [--folder DIR] [--s3]`` prints a row for each
workload, on plain Zarr and on nczarr's own form: the median milliseconds of processor time with the engine ``zarr``,
and the ratio of the engine ``nczarr`` to it. With ``--s3``, it prints the requests of each opening at the S3 server of
the tests instead.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import nczarr
from nczarr.model import DOUBLE, FLOAT, Attribute, Dataset, Dimension, Group, MemorySource, Variable

TESTS = Path(__file__).parents[1]
GROUPS, STORES = 500, 100
#: By the name of the form: the options of the copy.
FORMS: dict[str, dict[str, Any]] = {"plain Zarr": {"layout": "zarr-v3", "lossy": True}, "nczarr's own": {}}
_VALUES = np.zeros((4, 3, 5), "f4")
_ATTRIBUTES = {"units": "K", "standard_name": "air_temperature", "cell_methods": "time: mean"}


def variables(count: int, start: int = 0) -> tuple[Variable, ...]:
    """Return variables with attributes, and their coordinates."""
    found = []
    for number in range(count):
        own = {"long_name": f"variable {number}", **_ATTRIBUTES}
        attributes = [Attribute.of(name, text) for name, text in own.items()]
        attributes.append(Attribute("valid_range", FLOAT, np.array([0, 400], "f4")))
        found.append(
            Variable(
                f"v{number}",
                FLOAT,
                ("/time", "/y", "/x"),
                attributes=tuple(attributes),
                data=MemorySource(_VALUES),
            )
        )
    for name, length in (("time", 4), ("y", 3), ("x", 5)):
        values = np.arange(length, dtype="f8") + (start if name == "time" else 0)
        found.append(Variable(name, DOUBLE, (f"/{name}",), data=MemorySource(values)))
    return tuple(found)


def dataset(count: int, start: int = 0) -> Dataset:
    dimensions = (Dimension("time", 4), Dimension("y", 3), Dimension("x", 5))
    return Dataset("d", dimensions=dimensions, variables=variables(count, start))


def tree(groups: int) -> Dataset:
    """Return groups that have one variable each."""
    root = dataset(1)
    return Dataset(
        "d",
        dimensions=root.dimensions,
        variables=root.variables[1:],
        groups=tuple(Group(f"g{n:03}", variables=root.variables[:1]) for n in range(groups)),
    )


def opened(path: str, engine: str, **options: Any) -> None:
    xr.open_dataset(path, engine=engine, **options).close()


def opened_together(paths: list[str], engine: str) -> None:
    xr.open_mfdataset(paths, engine=engine, decode_times=False).close()


def opened_tree(path: str, engine: str) -> None:
    xr.open_datatree(path, engine=engine).close()


def workloads(folder: str, form: str, largest: int) -> dict[str, Callable[[str], None]]:
    """Write the datasets of a form, and return what opens them with an engine, by title."""
    copy = partial(nczarr.copy, **FORMS[form])
    place, found = f"{folder}/{form.split()[0]}", dict[str, Callable[[str], None]]()
    for count in (10, 1000, 10_000):
        if count <= largest:
            path = f"{place}-{count}.zarr"
            copy(dataset(count), path)
            found[f"{count:,} variables"] = partial(opened, path)
            if count == 1000:
                found[f"{count:,} variables, `chunks={{}}`"] = partial(opened, path, chunks={})
    stores, groups = min(STORES, largest), min(GROUPS, largest)
    paths = [f"{place}-part{n:03}.zarr" for n in range(stores)]
    for number, path in enumerate(paths):
        copy(dataset(10, 4 * number), path)
    found[f"{stores} stores by `open_mfdataset`"] = partial(opened_together, paths)
    copy(tree(groups), f"{place}-tree.zarr")
    found[f"{groups} groups by `open_datatree`"] = partial(opened_tree, f"{place}-tree.zarr")
    return found


def measured(work: Callable[[str], None], rounds: int) -> tuple[float, float]:
    """Return the median seconds of processor time of both engines, which take turns."""
    taken: dict[str, list[float]] = {"zarr": [], "nczarr": []}
    for turn in range(rounds + 1):
        for engine in sorted(taken, reverse=bool(turn % 2)):
            gc.collect()
            start = time.process_time()
            work(engine)
            if turn:  # the first one fills caches
                taken[engine].append(time.process_time() - start)
    return statistics.median(taken["zarr"]), statistics.median(taken["nczarr"])


def print_requests(largest: int) -> None:
    """Print the requests of an opening by each engine."""
    sys.path[:0] = [str(TESTS / "s3"), str(TESTS / "helpers")]
    import boto3
    import server
    from s3_proxy import S3Proxy

    running = server.S3Server()
    running.start()
    proxy = S3Proxy(running.url)
    os.environ.update({**running.settings, "AWS_ENDPOINT_URL": proxy.url})
    boto3.client("s3", endpoint_url=running.url).create_bucket(Bucket="test")
    print("| S3: requests | form | `zarr` | `nczarr` |\n|---|---|---|---|")
    for form, options in FORMS.items():
        for count in (10, min(largest, 200)):
            url = f"s3://test/{form.split()[0]}-{count}.zarr"
            nczarr.copy(dataset(count), url, **options)
            counts = []
            for engine in ("zarr", "nczarr"):
                proxy.counts.clear()
                target = {"storage_options": {"endpoint_url": proxy.url}} if engine == "zarr" else {}
                opened(url, engine, **target)
                counts.append(sum(proxy.counts.values()))
            print(f"| {count:,} variables | {form} | {counts[0]} | {counts[1]} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--largest", type=int, default=10_000)
    parser.add_argument("--s3", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.s3:
        print_requests(given.largest)
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        print("| workload | form | `zarr` (ms) | `nczarr` / `zarr` |\n|---|---|---|---|", flush=True)
        for form in FORMS:
            for title, work in workloads(folder, form, given.largest).items():
                theirs, ours = measured(work, given.rounds if "10,000" not in title else 2)
                print(f"| {title} | {form} | {theirs * 1e3:.0f} | {ours / theirs:.2f} |", flush=True)


if __name__ == "__main__":
    main()

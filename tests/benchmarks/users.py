"""Measure nczarr as users meet it: through the public doors, on a disk, in turn with the program that they would take.

    python tests/benchmarks/users.py [--quick] [--rounds 7] [--only WORD ...] [--folder DIR]

prints a row for each use: the processor time and the clock of nczarr (medians of all rounds), and the ratios to the
peer (medians of the ratios within a round, since other load of the machine changes between rounds). Processor time
has that of child processes, so commands are measured with their start. A dataset of nczarr waits for the disk where
the row does not say `durable=False`; no peer does. ``--quick`` shrinks all sizes, and shows the order of magnitude.
The folder must be on a disk: files in memory do not wait.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import netCDF4
import numpy as np

import nczarr
from nczarr.zarr.chunks.chunks import CHUNKS

#: A use of a program, which gets a new path for its output.
Use = Callable[[Path], object]


class Row(NamedTuple):
    """A use by nczarr and by a peer."""

    title: str
    peer: str
    ours: Use
    theirs: Use


#: Prepares the rows of a section in a folder, with sizes divided by a number.
Section = Callable[[Path, int], Iterator[Row]]


def library_of(path: Path) -> Any:
    """Return the library that writes a path in these rows: netCDF files of the peers end in `.nc4`."""
    return netCDF4 if path.suffix == ".nc4" else nczarr


def run(*command: object) -> None:
    """Run a command of a peer, or nczarr's command line."""
    words = [str(word) for word in command]
    if words[0] == "nczarr":
        words[:1] = [sys.executable, "-m", "nczarr"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def measured_field(steps: int, size: int = 512) -> np.ndarray:
    """Return values as instruments give them: smooth, with noise, in steps of 0.01."""
    y, x = np.mgrid[:size, :size].astype("f4") / 50
    noise = np.random.default_rng(0).standard_normal((steps, size, size)).astype("f4")
    return np.round(280 + 10 * np.sin(x) * np.cos(y) + noise, 2)


# --- values in chunks


def tensorstore_array(path: Path, shape: tuple[int, ...], chunk: tuple[int, ...], codec: str = "zstd") -> Any:
    """Create a Zarr array by tensorstore, which is told not to wait for the disk."""
    import tensorstore

    chain: list[dict[str, Any]] = [{"name": "bytes", "configuration": {"endian": "little"}}]
    if codec == "zstd":
        chain.append({"name": "zstd", "configuration": {"level": 1}})
    spec = {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": str(path)},
        "context": {"file_io_sync": False},
        "metadata": {
            "shape": shape,
            "data_type": "float32",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
            "codecs": chain,
        },
    }
    return tensorstore.open(spec, create=True).result()


def create(path: Path, values: np.ndarray, chunk: tuple[int, ...], *, durable: bool = True) -> None:
    """Write a dataset with one variable by nczarr."""
    with nczarr.Dataset(path, "w", **({} if durable else {"durable": False})) as dataset:
        names = [f"x{number}" for number in range(values.ndim)]
        for name, size in zip(names, values.shape, strict=True):
            dataset.createDimension(name, size)
        variable = dataset.createVariable("v", "f4", names, chunksizes=chunk, compression="zstd", complevel=1)
        variable[:] = values


def writing(folder: Path, shrink: int) -> Iterator[Row]:
    values = measured_field(max(2, 128 // shrink))
    for title, chunk in (("64 KiB", (1, 128, 128)), ("4 MiB", (4, 512, 512))):

        def peer(out: Path, chunk: tuple[int, ...] = chunk) -> None:
            tensorstore_array(out, values.shape, chunk).write(values).result()

        for word, durable in (("", True), (", `durable=False`", False)):
            ours = partial(create, values=values, chunk=chunk, durable=durable)
            yield Row(f"new dataset, chunks of {title}{word}", "tensorstore", ours, peer)
    tiny = np.zeros((2, 3), "f4")
    unsynced = partial(create, values=tiny, chunk=(2, 3), durable=False)
    ours = partial(create, values=tiny, chunk=(2, 3))
    yield Row("tiny new dataset", "`durable=False`", ours, unsynced)


def reading(folder: Path, shrink: int) -> Iterator[Row]:
    import tensorstore

    values = measured_field(max(8, 64 // shrink))
    index = tuple(np.random.default_rng(1).integers(0, n, 100) for n in values.shape)
    selections: dict[str, Any] = {
        "all": ...,
        "every 7th": (slice(None, None, 7),) * 3,
        "box": (slice(2, 6), slice(100, 400), slice(50, 300)),
    }
    for title, chunk in (
        ("64 KiB", (1, 128, 128)),
        ("4 MiB", (4, 512, 512)),
        ("series", (len(values), 16, 16)),
    ):
        place = folder / f"{title.replace(' ', '')}.zarr"
        create(place, values, chunk)
        array = tensorstore.open({"driver": "zarr3", "kvstore": f"file://{place}/v"}, open=True).result()
        variable = nczarr.Dataset(place)["v"]
        variable.set_auto_mask(False)

        def peer(out: Path, array: Any = array, chosen: Any = None) -> None:
            np.asarray(array[chosen].read().result())

        def ours(out: Path, variable: Any = variable, chosen: Any = None) -> None:
            CHUNKS.forget(lambda name: True)
            variable[chosen]

        if title == "series":
            chosen = (5, slice(None), slice(None))
            yield Row(
                "one map from chunks of series",
                "tensorstore",
                partial(ours, chosen=chosen),
                partial(peer, chosen=chosen),
            )
            continue
        for word, chosen in selections.items():
            yield Row(
                f"read {word}, chunks of {title}",
                "tensorstore",
                partial(ours, chosen=chosen),
                partial(peer, chosen=chosen),
            )

        def points(out: Path, variable: Any = variable) -> None:
            CHUNKS.forget(lambda name: True)
            variable.vindex[index]

        def peer_points(out: Path, array: Any = array) -> None:
            np.asarray(array.vindex[index].read().result())

        yield Row(f"100 points, chunks of {title}", "tensorstore", points, peer_points)


# --- values of variable length, and compounds


def objects(kind: str, count: int) -> np.ndarray:
    """Return strings, sequences or records."""
    if kind == "strings":
        return np.array(
            [f"station {number} äö" if number % 7 == 0 else f"station {number}" for number in range(count)],
            object,
        )
    if kind == "vlens":
        found = np.empty(count, object)
        found[:] = [np.arange(number % 9 + 1, dtype="i4") for number in range(count)]
        return found
    found = np.zeros(count, [("a", "i4"), ("b", "f8")])
    found["a"], found["b"] = np.arange(count), 0.5
    return found


def create_objects(path: Path, kind: str, values: np.ndarray) -> None:
    with library_of(path).Dataset(path, "w") as dataset:
        dataset.createDimension("x", len(values))
        datatype: Any = str
        if kind == "vlens":
            datatype = dataset.createVLType("i4", "seq")
        elif kind == "compounds":
            datatype = dataset.createCompoundType(values.dtype, "rec")
        dataset.createVariable("v", datatype, ("x",))[:] = values


def as_peer(use: Use) -> Use:
    """Give a use the path of a netCDF file that netCDF4 writes."""
    return lambda out: use(out.with_suffix(".nc4"))


def as_file(use: Use) -> Use:
    """Give a use the path of a netCDF file that nczarr writes."""
    return lambda out: use(out.with_suffix(".nc"))


def lengths(folder: Path, shrink: int) -> Iterator[Row]:
    count = 100_000 // shrink
    for kind in ("strings", "vlens", "compounds"):
        use = partial(create_objects, kind=kind, values=objects(kind, count))
        yield Row(f"{count:,} {kind} to Zarr", "netCDF4", use, as_peer(use))
        yield Row(f"{count:,} {kind} to `.nc`", "netCDF4", as_file(use), as_peer(use))
    source = folder / "vlens.nc4"
    create_objects(source, "vlens", objects("vlens", count))
    yield Row(
        f"copy {count:,} vlens, `.nc` to `.nc`",
        "nccopy",
        lambda out: run("nczarr", "copy", "-q", source, out.with_suffix(".nc")),
        lambda out: run("nccopy", source, out.with_suffix(".nc")),
    )
    create_objects(folder / "strings.zarr", "strings", objects("strings", 2 * count))
    create_objects(folder / "strings.nc4", "strings", objects("strings", 2 * count))

    def last(out: Path, path: Path) -> None:
        CHUNKS.forget(lambda name: True)
        with library_of(path).Dataset(path) as dataset:
            dataset["v"][-10:]

    yield Row(
        f"last ten of {2 * count:,} strings",
        "netCDF4",
        partial(last, path=folder / "strings.zarr"),
        partial(last, path=folder / "strings.nc4"),
    )


# --- many variables


def create_variables(path: Path, count: int) -> None:
    with library_of(path).Dataset(path, "w") as dataset:
        dataset.createDimension("time", None)
        dataset.createDimension("x", 10)
        for number in range(count):
            variable = dataset.createVariable(f"v{number}", "f4", ("time", "x"))
            variable.units = "K"
            variable[0] = np.zeros(10, "f4")


def look(out: Path, path: Path, library: Any) -> None:
    with library.Dataset(path) as dataset:
        for variable in dataset.variables.values():
            variable[0, 0]


def variables(folder: Path, shrink: int) -> Iterator[Row]:
    count = max(20, 1000 // shrink)
    use = partial(create_variables, count=count)
    yield Row(f"create {count:,} variables", "netCDF4", use, as_peer(use))
    source = folder / "many.nc4"
    create_variables(source, count // 2)
    yield Row(
        f"copy {count // 2:,} variables to Zarr",
        "nccopy",
        lambda out: run("nczarr", "copy", "-q", source, out.with_suffix(".zarr")),
        lambda out: run("nccopy", source, out.with_suffix(".nc")),
    )
    title = f"open a file of {count // 2:,} variables, one value each"
    yield Row(
        title,
        "netCDF4",
        partial(look, path=source, library=nczarr),
        partial(look, path=source, library=netCDF4),
    )
    large = np.arange(160_000 // shrink, dtype="f8")

    def attribute(out: Path) -> None:
        with library_of(out).Dataset(out, "w") as dataset:
            dataset.large = large

    yield Row(f"an attribute of {large.size:,} numbers", "netCDF4", attribute, as_peer(attribute))
    yield from syncs(folder, 400 // min(shrink, 8))


def syncs(folder: Path, count: int) -> Iterator[Row]:
    """Return the rows of an attribute, or a row of one variable, and a sync."""
    datasets = {}
    for library, path in ((nczarr, folder / "synced.zarr"), (netCDF4, folder / "synced.nc4")):
        create_variables(path, count)
        datasets[library] = library.Dataset(path, "a")
    numbers = itertools.count(1)

    def attribute(out: Path, library: Any) -> None:
        datasets[library]["v3"].units = f"K {next(numbers)}"
        datasets[library].sync()

    def step(out: Path, library: Any) -> None:
        variable = datasets[library]["v3"]
        variable[len(variable)] = np.ones(10)
        datasets[library].sync()

    for title, use in (("an attribute", attribute), ("a step of one", step)):
        title = f"{title} among {count} variables, and `sync()`"
        yield Row(title, "netCDF4", partial(use, library=nczarr), partial(use, library=netCDF4))


# --- conversions


def create_deflated(path: Path, steps: int) -> None:
    values = measured_field(steps)
    with netCDF4.Dataset(path, "w") as file:
        for name, size in zip(("time", "y", "x"), (None, *values.shape[1:]), strict=True):
            file.createDimension(name, size)
        options: Any = {"zlib": True, "complevel": 4, "chunksizes": (1, *values.shape[1:])}
        file.createVariable("v", "f4", ("time", "y", "x"), **options)[:] = values
        file.createVariable("time", "f8", ("time",), chunksizes=(512,))[:] = np.arange(steps)


def conversions(folder: Path, shrink: int) -> Iterator[Row]:
    steps = max(4, 128 // shrink)
    source, store = folder / "deflated.nc", folder / "deflated.zarr"
    create_deflated(source, steps)
    run("nczarr", "copy", "-q", source, store)
    zarr, file = (lambda out: out.with_suffix(".zarr")), (lambda out: out.with_suffix(".nc"))
    yield Row(
        "copy a deflated file to Zarr",
        "nccopy",
        lambda out: run("nczarr", "copy", "-q", source, zarr(out)),
        lambda out: run("nccopy", source, file(out)),
    )
    yield Row(
        "copy it back to netCDF",
        "nccopy",
        lambda out: run("nczarr", "copy", "-q", store, file(out)),
        lambda out: run("nccopy", source, file(out)),
    )
    small = folder / "small.nc"
    create_deflated(small, max(1, 18 // shrink))
    yield Row(
        "dump 18 MB", "ncdump", lambda out: run("nczarr", "dump", small), lambda out: run("ncdump", small)
    )
    yield Row(
        "dump -h",
        "ncdump",
        lambda out: run("nczarr", "dump", "-h", store),
        lambda out: run("ncdump", "-h", source),
    )
    parts = [folder / f"part{number:03}.nc" for number in range(max(5, 100 // shrink))]
    for number, path in enumerate(parts):
        create_deflated(path, 1)
        with netCDF4.Dataset(path, "a") as part:
            part["time"][:] = number
    if shutil.which("ncrcat"):
        yield Row(
            f"join {len(parts)} files to netCDF",
            "ncrcat",
            lambda out: run("nczarr", "join", "-q", *parts, file(out)),
            lambda out: run("ncrcat", "-O", *parts, file(out)),
        )


def xarray_uses(folder: Path, shrink: int) -> Iterator[Row]:
    import xarray as xr

    source, store = folder / "deflated.nc", folder / "deflated.zarr"
    create_deflated(source, max(4, 64 // shrink))
    run("nczarr", "copy", "-q", source, store)
    loaded = xr.load_dataset(source)
    xr.load_dataset(source, decode_times=False).to_zarr(folder / "plain.zarr", consolidated=True)

    def load(out: Path, engine: str) -> None:
        CHUNKS.forget(lambda name: True)
        xr.load_dataset(folder / "plain.zarr", engine=engine)

    yield Row(
        "xarray: load a plain store",
        "engine `zarr`",
        partial(load, engine="nczarr"),
        partial(load, engine="zarr"),
    )
    yield Row(
        "xarray: write a dataset",
        "`to_zarr`",
        lambda out: loaded.nczarr.to_zarr(out),
        lambda out: loaded.to_zarr(out),
    )


#: The sections, by the word that selects them.
SECTIONS: dict[str, Section] = {
    "write": writing,
    "read": reading,
    "objects": lengths,
    "variables": variables,
    "convert": conversions,
    "xarray": xarray_uses,
}


def processor_time() -> float:
    """Return the processor time of this process and its child processes in seconds."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def measured(use: Use, out: Path) -> tuple[float, float]:
    """Return the processor time, with that of child processes, and the clock of a use."""
    gc.collect()
    os.sync()  # or a program that waits would wait for the bytes of the one before
    before, clock = processor_time(), time.perf_counter()
    use(out)
    clock = time.perf_counter() - clock
    return processor_time() - before, clock


def compare(row: Row, folder: Path, rounds: int) -> str:
    """Return the line of a row in the table."""
    times: dict[str, list[tuple[float, float]]] = {"ours": [], "theirs": []}
    for number in range(rounds + 1):
        turns = [("ours", row.ours), ("theirs", row.theirs)]
        for who, use in turns[:: -1 if number % 2 else 1]:
            taken = measured(use, folder / f"{who}{number}")
            if number:  # the first fills caches
                times[who].append(taken)
    cells = []
    for part in range(2):
        mine, others = ([taken[part] for taken in times[who]] for who in ("ours", "theirs"))
        ratio = statistics.median(a / b for a, b in zip(mine, others, strict=True))
        cells += [f"{ratio:.2f}", f"{1000 * statistics.median(mine):.1f} ms"]
    return f"| {row.title} | {row.peer} | {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--only", nargs="*", default=[], help="sections, or words of titles")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    rounds = given.rounds or (3 if given.quick else 7)
    print("| use | peer | processor | nczarr | clock | nczarr |\n|---|---|---|---|---|---|", flush=True)
    for name, section in SECTIONS.items():
        words = [word for word in given.only if word not in SECTIONS]
        if given.only and name not in given.only and not words:
            continue
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            for number, row in enumerate(section(Path(folder), 16 if given.quick else 1)):
                if given.only and name not in given.only and not any(word in row.title for word in words):
                    continue
                place = Path(folder) / f"row{number}"
                place.mkdir()
                print(compare(row, place, rounds), flush=True)
                shutil.rmtree(place)


if __name__ == "__main__":
    main()

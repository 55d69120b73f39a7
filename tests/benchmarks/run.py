"""Measure nczarr's engine against its peers, and print the ratios as a Markdown table.

    python tests/benchmarks/run.py [W1 … W9 MEMORY] [--quick] [--rounds 5] [--cpu] [--shrink 2] [--dir PATH]
                                   [--peers A,B] [--codecs none,zstd] [--record FILE]

All libraries are measured in one run, one after another within each round, in another order each time, and the
medians are compared. A ratio is nczarr's time divided by that of the fastest peer: below 1.0 nczarr is faster;
"best" is the same of the fastest runs instead of the medians. ``--quick`` makes everything
small: it shows that the workloads run, its figures mean nothing. ``--cpu`` counts processor time (of all threads,
user and system) instead of time on the clock, for a machine that others use too; ``--shrink`` divides the sides.

W1  1 GiB float32 in chunks of 4 MiB: write and read, uncompressed, zstd, blosc (lz4, shuffle), gzip
W2  256 MiB in chunks of 64 KiB: write and read, uncompressed and zstd
W3  parts, in chunks of 4 MiB and of 64 KiB: one point of every chunk (near its beginning, and in its middle), a box
    across chunks, every seventh element
W4  shards of 16 MiB with inner chunks of 64 KiB: the whole, 1,000 inner chunks at random, and write
W5  1,000 arrays of 10 attributes: create; open and look at all of them
W6  100,000 chunks in one array: open and read one, count what is stored; a million inner chunks in a thousand shards:
    open and read one, read a band of a tenth
W7  conversion of a deflated netCDF file of 256 MiB: nczarr, nccopy and xarray as processes (see convert.py)
W8  loops that write and read in parts, against netCDF4 (see partial.py)
W9  reads as netCDF programs make them, opening included, against netCDF4 (see reads.py)
MEMORY  what reading and writing W1 needs beyond the array itself (Linux only): MiB, each in its own process
"""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import importlib.util
import itertools
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import nczarr


def beside(name: str) -> Any:
    """Import a script that is beside this one."""
    spec = importlib.util.spec_from_file_location(
        f"nczarr_benchmark_{name}", Path(__file__).with_name(f"{name}.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


peers = beside("peers")

Work = Callable[[], Any]
Row = dict[str, tuple[Work, Work | None]]

#: Removing no more files than this does not slow the next ones.
FEW_FILES = 600


def field(shape: tuple[int, ...]) -> np.ndarray:
    """A smooth field with a little noise, which compresses about as measured ones do."""
    rng = np.random.default_rng(1)
    rows = np.sin(np.arange(shape[0], dtype=np.float32) / 50)
    columns = np.cos(np.arange(shape[1], dtype=np.float32) / 70)
    values = rows[:, None] * columns[None, :] * 20
    noise = rng.integers(0, 16, shape, dtype=np.uint8)
    return np.round(values * 8).astype(np.float32) / 8 + noise * np.float32(0.125)


def settle() -> None:
    """See to it that nobody pays for what another one left behind.

    That is garbage, and many small freed blocks (netCDF4's are ten thousands), which the next allocations of that kind
    would have to sort first: as long as opening a thousand arrays takes.
    """
    gc.collect()
    _ = [bytes(600 + i % 1000) for i in range(3000)]


class Places:
    """Always a new folder to write to.

    ext4 looks for places of files that were not removed in the last minutes, which makes each new file slow: so
    many files stay until the end.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._numbers = itertools.count()
        self._last = path

    def new(self) -> Path:
        self._last = self._path.with_name(f"{self._path.name}-{next(self._numbers)}")
        return self._last

    def clear(self) -> None:
        """Remove what was written if it is few files, and wait until nothing is left to be written to the disk."""
        if sum(1 for _ in self._last.rglob("*")) < FEW_FILES:
            peers.clear(self._last)
        os.sync()


class Bench:
    """Runs rows of a table and keeps their medians."""

    def __init__(
        self,
        folder: Path,
        rounds: int,
        quick: bool,
        shrink: int,
        clock: Callable[[], float],
        names: list[str] | None,
        codecs: list[str] | None,
    ) -> None:
        self.folder = folder
        self.rounds = rounds
        self.quick = quick
        self.shrink = shrink
        self.clock = clock
        self.codecs = codecs
        self.peers = peers.available(names)
        self.ratios: dict[str, float] = {}
        self.names: list[str] = []
        self.random = random.Random(1)

    def measure(self, title: str, row: Row, result: int = 0, rounds: int | None = None) -> None:
        """Measure the works of one row, interleaved; each comes with what undoes it, which is not measured.

        `result` is the number of bytes that each work allocates for what it returns. As many are touched and freed
        before: memory that nobody used for some seconds is slow on a virtual machine, which has given it back.
        `rounds` is for works that take minutes.
        """
        times: dict[str, list[float]] = {name: [] for name in row}
        for number in range(1 + (self.rounds if rounds is None else rounds)):
            # In another order each time: what a work leaves behind, such as deleted files, slows the next.
            for name in self.random.sample(list(row), len(row)):
                work, after = row[name]
                settle()
                np.empty(result, np.uint8).fill(1)
                start = self.clock()
                work()
                elapsed = self.clock() - start
                if after is not None:
                    after()
                if number:  # the first round warms up
                    times[name].append(elapsed)
        medians = {name: statistics.median(values) for name, values in times.items()}
        best = {name: min(values) for name, values in times.items()}
        print(self.line(title, medians, best), flush=True)

    def header(self) -> str:
        return (
            f"| workload | ratio | best | {' | '.join(self.names)} |\n|---|---|---|{'---|' * len(self.names)}"
        )

    def line(self, title: str, medians: dict[str, float], best: dict[str, float]) -> str:
        ratios = []
        for figures in (medians, best):
            others = [value for name, value in figures.items() if name != "nczarr"]
            ratios.append(f"{figures['nczarr'] / min(others):.2f}" if others else "–")
            if others and figures is medians:
                self.ratios[title] = round(figures["nczarr"] / min(others), 3)
        cells = [f"{medians[n] * 1000:.1f} ms" if n in medians else "–" for n in self.names]
        return f"| {title} | {ratios[0]} | {ratios[1]} | {' | '.join(cells)} |"

    # --- workloads

    def _written(
        self, shape: Any, chunks: Any, codec: str, inner: Any, values: np.ndarray, tag: str
    ) -> dict[str, Path]:
        """Write the array once with each library that can, for reading."""
        paths = {}
        for peer in self.peers:
            path = self.folder / f"{tag}-{peer.name.replace(' ', '')}"
            peers.clear(path)
            try:
                array = peer.create(path, shape, chunks, codec, inner)
                peer.write(array, values)
            except NotImplementedError:
                continue
            except Exception as error:
                print(f"left out: {peer.name}, {codec}: {error}")
                continue
            paths[peer.name] = path
        return paths

    def _reading(self, title: str, paths: dict[str, Path], selections: list[Any], result: int = 0) -> None:
        opened = {peer.name: (peer, peer.open(paths[peer.name])) for peer in self.peers if peer.name in paths}

        def work(peer: Any, array: Any) -> None:
            for selection in selections:
                peer.read(array, selection)

        row: Row = {n: ((lambda p=p, a=a: work(p, a)), None) for n, (p, a) in opened.items()}
        self.measure(title, row, result)
        for peer, array in opened.values():
            peer.close(array)

    def _writing(
        self, title: str, shape: Any, chunks: Any, codec: str, values: np.ndarray, inner: Any = None
    ) -> None:
        row: Row = {}
        for peer in self.peers:
            places = Places(self.folder / f"{title}-{peer.name}".replace(" ", "-"))

            def work(peer: Any = peer, places: Places = places) -> None:
                peer.write(peer.create(places.new(), shape, chunks, codec, inner), values)

            try:
                work()
            except NotImplementedError:
                continue
            except Exception as error:
                print(f"left out: {peer.name}, {codec}: {error}")
                continue
            row[peer.name] = (work, places.clear)
        self.measure(title, row)

    def _large(self, codec: str) -> tuple[Any, Any, np.ndarray, dict[str, Path]]:
        side = 16384 // self.shrink
        shape, chunks = (side, side), (1024, 1024)
        values = field(shape)
        return shape, chunks, values, self._written(shape, chunks, codec, None, values, "large")

    def w1(self) -> None:
        for codec in self.codecs or ("none", "zstd", "blosc", "gzip"):
            shape, chunks, values, paths = self._large(codec)
            self._reading(f"W1 read {codec}", paths, [(slice(None), slice(None))], values.nbytes)
            for path in paths.values():
                peers.clear(path)
            self._writing(f"W1 write {codec}", shape, chunks, codec, values)

    def w2(self) -> None:
        side = 8192 // self.shrink
        shape, chunks = (side, side), (128, 128)
        values = field(shape)
        for codec in self.codecs or ("none", "zstd"):
            self._writing(f"W2 write {codec}", shape, chunks, codec, values)
            paths = self._written(shape, chunks, codec, None, values, f"small-{codec}")
            self._reading(f"W2 read {codec}", paths, [(slice(None), slice(None))], values.nbytes)

    def w3(self) -> None:
        for codec in self.codecs or ("none", "zstd", "blosc"):
            for size, tag in ((1024, "4 MiB"), (128, "64 KiB")):
                side = (16384 if size == 1024 else 8192) // self.shrink
                paths = self._written((side, side), (size, size), codec, None, field((side, side)), "parts")
                points = slice(5, None, size)
                self._reading(f"W3 points {tag} {codec}", paths, [(points, points)])
                column = (slice(size // 2, None, size), slice(size - 7, None, size))
                self._reading(f"W3 late points {tag} {codec}", paths, [column])
                box = slice(side // 8 + 3, side // 2 + 77)
                self._reading(f"W3 box {tag} {codec}", paths, [(box, box)])
                stride = slice(None, None, 7)
                self._reading(f"W3 stride 7 {tag} {codec}", paths, [(stride, stride)])
                for path in paths.values():
                    peers.clear(path)

    def w4(self) -> None:
        side = max(4096, 16384 // self.shrink)
        shape, shard, inner = (side, side), (2048, 2048), (128, 128)
        values = field(shape)
        places = np.random.default_rng(2).integers(0, side // 128, (100 if self.quick else 1000, 2)) * 128
        random = [(slice(i, i + 128), slice(j, j + 128)) for i, j in places.tolist()]
        for codec in self.codecs or ("none", "zstd"):
            paths = self._written(shape, shard, codec, inner, values, "shards")
            self._reading(f"W4 whole {codec}", paths, [(slice(None), slice(None))], values.nbytes)
            self._reading(f"W4 {len(random)} inner chunks {codec}", paths, random)
            for path in paths.values():
                peers.clear(path)
            self._writing(f"W4 write {codec}", shape, shard, codec, values, inner)

    def w5(self) -> None:
        count = 50 if self.quick else 1000
        row: Row = {}
        reading: Row = {}
        for peer in self.peers:
            path = self.folder / f"many-{peer.name.replace(' ', '')}"
            peers.clear(path)
            try:
                peer.create_many(path, count)
            except NotImplementedError:
                continue
            reading[peer.name] = ((lambda p=peer, q=path: p.list_many(q)), None)
            places = Places(self.folder / f"new-{peer.name}")
            row[peer.name] = ((lambda p=peer, q=places: p.create_many(q.new(), count)), places.clear)
        self.measure(f"W5 create {count} arrays", row)
        self.measure(f"W5 open and look at {count} arrays", reading)

    def w6(self) -> None:
        count = 1000 if self.quick else 100_000
        path = self.folder / "chunks"
        peers.clear(path)
        shape, chunks = (count * 4,), (4,)
        writer = self.peers[0]
        writer.write(writer.create(path, shape, chunks, "none"), np.arange(count * 4, dtype=np.float32))
        one = slice(count * 2, count * 2 + 4)

        def read_one(peer: Any) -> None:
            peer.read(peer.open(path), one)

        zarrs = [peer for peer in self.peers if peer.zarr]
        self.measure(
            f"W6 open, read one of {count} chunks", {p.name: ((lambda p=p: read_one(p)), None) for p in zarrs}
        )
        counting: Row = {}
        for peer in zarrs:
            try:
                found = peer.count_chunks(path)
            except NotImplementedError:
                continue
            assert found == count, (peer.name, found)
            counting[peer.name] = ((lambda p=peer: p.count_chunks(path)), None)
        # zarr-python needs more than a minute for it.
        self.measure(f"W6 count {count} chunks", counting, rounds=1)
        peers.clear(path)

        self._million()

    def _million(self) -> None:
        """As many chunks as an archive has, in few files: inner chunks of 100 elements, a thousand in a shard."""
        shards = 10 if self.quick else 1000
        shape, shard, inner = (shards * 100_000,), (100_000,), (100,)
        path = self.folder / "million"
        writer = self.peers[0]
        array = writer.create(path, shape, shard, "none", inner)
        writer.write(array, np.arange(shape[0], dtype=np.float32))
        # zarr-python needs minutes for the band.
        paths = {p.name: path for p in self.peers if p.zarr and p.name != "zarr-python"}
        middle, band = shape[0] // 2, shape[0] // 10
        one = (slice(middle, middle + 100),)
        row: Row = {
            p.name: ((lambda p=p: p.close(_read(p, paths[p.name], one))), None)
            for p in self.peers
            if p.name in paths
        }
        self.measure(f"W6 open, read one of {shards * 1000} chunks in shards", row)
        self._reading(f"W6 read {shards * 100} of them", paths, [(slice(middle, middle + band),)])
        peers.clear(path)

    # --- workloads of whole programs and of netCDF's interface

    def begin(self, names: list[str]) -> None:
        """Begin a table with other columns, if they are others."""
        if names == self.names:
            return
        self.names = names
        print(f"\n{self.header()}", flush=True)

    def w7(self) -> None:
        convert = beside("convert")
        self.begin(["nczarr", "nccopy", "xarray"])
        source, out = self.folder / "source.nc", self.folder / "converted"
        convert.deflated(source, 8 if self.quick else 256 // self.shrink**2)
        commands = {
            n: c for n, c in convert.programs("deflated", source, out, None).items() if n in self.names
        }
        column = 1 if self.clock is time.process_time else 0
        times: dict[str, list[float]] = {}
        for _ in range(min(self.rounds, 3)):
            for name, command in commands.items():
                found = convert.measure(command, out)
                if found is not None:
                    times.setdefault(name, []).append(found[column])
        medians = {name: statistics.median(values) for name, values in times.items()}
        best = {name: min(values) for name, values in times.items()}
        print(self.line("W7 deflated netCDF file to Zarr", medians, best), flush=True)
        source.unlink()
        peers.clear(out)

    def w8(self) -> None:
        partial = beside("partial")
        self.begin(["nczarr", "netCDF4"])
        for number, (name, (loop, count)) in enumerate(partial.LOOPS.items()):
            steps = max(100, count // (20 if self.quick else self.shrink))
            row: Row = {}
            for who, library in (("nczarr", partial.nczarr.netcdf4), ("netCDF4", partial.netCDF4)):
                # What an earlier loop has left there would have to be replaced.
                places = Places(self.folder / f"loop-{number}-{who}")
                row[who] = (
                    (lambda f=loop, lib=library, p=places, n=steps: f(lib, str(p.new()), n)),
                    places.clear,
                )
            self.measure(f"W8 {name}, {steps}", row, rounds=min(self.rounds, 3))

    def w9(self) -> None:
        reads = beside("reads")
        self.begin(["nczarr", "netCDF4"])
        for name, (read, source) in reads.READS.items():
            found = reads.prepared(self.folder, source, 0.05 if self.quick else 1 / self.shrink)
            row: Row = {
                who: ((lambda r=read, lib=library, p=path: reads.work(r, lib, p)), None)
                for who, (library, path) in found.items()
            }
            self.measure(f"W9 {name}", row)

    def memory(self) -> None:
        for codec in self.codecs or ("none", "zstd"):
            _, _, values, paths = self._large(codec)
            for what in ("read", "write"):
                row = {}
                for name, path in paths.items():
                    side = str(values.shape[0])
                    command = [sys.executable, __file__, "--extra-memory", name, str(path), what, codec, side]
                    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                    row[name] = float(answer.split()[-1])
                cells = [f"{row[p.name]:.0f} MiB" if p.name in row else "–" for p in self.peers]
                ratio = f"{row['nczarr'] / min(v for name, v in row.items() if name != 'nczarr'):.2f}"
                print(f"| memory, W1 {what} {codec} | {ratio} | {' | '.join(cells)} |", flush=True)
            for path in paths.values():
                peers.clear(path)


def recorded(bench: Bench, how: str) -> dict[str, Any]:
    """Return the ratios of a run, with its date, commit, versions and machine; history.py draws them."""
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    libraries = ("zarr", "zarrs", "tensorstore", "netCDF4")
    found = {name: importlib.metadata.version(name) for name in libraries if importlib.util.find_spec(name)}
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "commit": commit.stdout.strip(),
        "nczarr": nczarr.__version__,
        "versions": found,
        "machine": f"{os.cpu_count()} processors, Python {platform.python_version()}, {how}",
        "ratios": bench.ratios,
    }


def _read(peer: Any, path: Path, selection: Any) -> Any:
    array = peer.open(path)
    peer.read(array, selection)
    return array


def resident(name: str) -> float:
    """Return a figure of this process's memory, in MiB: ``VmRSS`` is now, ``VmHWM`` the peak."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name)) / 1024


def extra_memory(name: str, path: Path, what: str, codec: str, side: int) -> float:
    """Read or write the array of W1 once; return the peak of memory beyond the array, in MiB."""
    (peer,) = [peer for peer in peers.available([name]) if peer.name == name]
    if what == "read":
        array = peer.open(path)
        before = resident("VmRSS")
        result = peer.read(array, (slice(None), slice(None)))
        return resident("VmHWM") - before - result.nbytes / 2**20
    values = np.ones((side, side), np.float32)
    values += np.arange(side, dtype=np.float32)
    peers.clear(path)
    array = peer.create(path, values.shape, (1024, 1024), codec)
    before = resident("VmRSS")
    peer.write(array, values)
    return resident("VmHWM") - before


def main() -> None:
    if sys.argv[1:2] == ["--extra-memory"]:
        name, path, what, codec, side = sys.argv[2:]
        print(extra_memory(name, Path(path), what, codec, int(side)))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workloads", nargs="*", help="W1 … W9, MEMORY; W1 to W9 if none is named")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cpu", action="store_true", help="processor time instead of time on the clock")
    parser.add_argument("--shrink", type=int, default=1, help="divide the sides of the arrays")
    parser.add_argument("--dir", help="where the files go; a temporary directory if not given")
    parser.add_argument("--peers", help="names, separated by commas")
    parser.add_argument("--codecs", help="of W1 to W4 and MEMORY; names, separated by commas")
    parser.add_argument("--record", type=Path, help="append the ratios to this file, as a line of JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        names = options.peers.split(",") if options.peers else None
        codecs = options.codecs.split(",") if options.codecs else None
        rounds, shrink = (1, 8) if options.quick else (options.rounds, options.shrink)
        clock = time.process_time if options.cpu else time.perf_counter
        bench = Bench(Path(folder), rounds, options.quick, shrink, clock, names, codecs)
        what = "processor time" if options.cpu else "time"
        print(f"{os.cpu_count()} processors, medians of {bench.rounds}, {what}, in {Path(folder).parent}\n")
        for name in options.workloads or ["W2", "W5", "W6", "W1", "W3", "W4", "W7", "W8", "W9"]:
            if name not in ("W7", "W8", "W9"):
                bench.begin([peer.name for peer in bench.peers])
            getattr(bench, name.lower())()
    if options.record:
        with options.record.open("a", encoding="utf-8") as file:
            how = f"medians of {bench.rounds}, {what}, sides divided by {shrink}"
            file.write(json.dumps(recorded(bench, how)) + "\n")


if __name__ == "__main__":
    main()

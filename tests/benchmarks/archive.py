"""Measure scanning, planning and copying of archives of many small files, and stores of many chunks.

    python tests/benchmarks/archive.py [--files 1250 2500 5000 10000] [--copies N] [--chunks N] [--folder FOLDER]

Each step is a command of its own; its processor time, with that of its workers, and the peak of its memory are those
that the system counts. A file has one day of two variables on a grid of 18×36 points. With `--copies`, so many copies
of one file, each with a time of its own, are scanned and planned. With `--chunks`, a store of so many chunks is
written, killed after a part of them, resumed, and checked.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import netCDF4
import numpy as np

NCZARR = [sys.executable, "-m", "nczarr"]


def make(folder: Path, count: int) -> None:
    """Write files, of those that are not there."""
    folder.mkdir(exist_ok=True)
    for day in range(count):
        path = folder / f"day{day:06}.nc"
        if path.exists():
            continue
        with netCDF4.Dataset(path, "w") as file:
            for name, size in (("time", None), ("lat", 18), ("lon", 36)):
                file.createDimension(name, size)
            time_ = file.createVariable("time", "f8", ("time",))
            time_.units, time_[:] = "days since 2000-01-01", [day]
            file.createVariable("lat", "f4", ("lat",))[:] = np.arange(-85, 95, 10)
            file.createVariable("lon", "f4", ("lon",))[:] = np.arange(0, 360, 10)
            for name in ("temp", "slp"):
                v = file.createVariable(name, "f4", ("time", "lat", "lon"), zlib=True)
                v.units, v[:] = "1", day + np.arange(18 * 36).reshape(1, 18, 36)
            file.history = f"day {day}"


def run(name: str, *command: str, kill: Path | None = None) -> None:
    """Run a command to its end, or kill it when a file is there; print what it used."""
    expected = 0 if kill is None else -signal.SIGKILL
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen([*NCZARR, *command], stdout=out, stderr=subprocess.STDOUT)
        found = (0, 0, None)
        while not found[0]:
            if kill is not None and kill.exists():
                process.send_signal(signal.SIGKILL)
                kill = None
            found = os.wait4(process.pid, os.WNOHANG if kill else 0)
            time.sleep(0.05)
        _, status, usage = found
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        said = out.read().decode()
    if process.returncode != expected:
        sys.exit(f"{' '.join(command)}: status {process.returncode}\n{said}")
    seconds = usage.ru_utime + usage.ru_stime
    print(f"{name}: {seconds:.1f} s, {usage.ru_maxrss / 1024:.0f} MiB", flush=True)


def copy(source: Path, folder: Path, count: int) -> list[str]:
    """Write copies of a file of :func:`make`, each with its own day; return their names."""
    folder.mkdir()
    data = source.read_bytes()
    with netCDF4.Dataset("time", memory=data) as file:
        before = file["time"][0].tobytes()
    start, rest = data.split(before)
    names = [str(folder / f"day{number:06}.nc") for number in range(count)]
    for number, name in enumerate(names):
        Path(name).write_bytes(start + np.float64(number).tobytes() + rest)
    return names


def files(folder: Path, counts: list[int], copies: int) -> None:
    make(folder / "in", max(counts))
    names = sorted(map(str, (folder / "in").iterdir()))
    copied = copy(Path(names[-1]), folder / "copies", copies) if copies else []
    for count in [*counts, *([copies] if copies else [])]:
        own = names[:count] if count in counts else copied
        (folder / "list.txt").write_text("\n".join(own))
        scan, out = folder / f"{count}.parquet", folder / f"{count}.zarr"
        run(f"{count} files, scan", "scan", "--files-from", str(folder / "list.txt"), "-o", str(scan))
        print(f"  scan file: {scan.stat().st_size / 1e6:.1f} MB")
        chunks = ["-c", "time=100"]
        run("  plan", "join", str(scan), str(out), "--dry-run", *chunks)
        if count in counts:
            run("  plan without the scan file", "join", "--files-from", str(folder / "list.txt"), str(out),
                "--dry-run", *chunks)  # fmt: skip
            run("  copy", "join", "-q", str(scan), str(out), *chunks)
            shutil.rmtree(out)


def chunks(folder: Path, count: int) -> None:
    source, out = folder / "chunks.nc", folder / "chunks.zarr"
    with netCDF4.Dataset(source, "w") as file:
        file.createDimension("x", count * 8)
        file.createVariable("v", "i4", ("x",), chunksizes=(1 << 16,))[:] = np.arange(count * 8)
    # A shard of one chunk is an object: by default, so many chunks would be in few shards.
    copy = ["copy", "-q", "--resume", str(source), str(out), "-c", "x=8", "--shards", "x=8"]
    run(f"{count} chunks, killed", *copy, kill=out / "v" / "c" / str(count * 2 // 3))
    run("  resumed", *copy)
    found = sum(len(names) for _, _, names in os.walk(out / "v" / "c"))
    print(f"  {found} objects")
    run("  check", "check", str(out))
    run("  check --data", "check", "--data", str(out))
    shutil.rmtree(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, nargs="*", default=[1250, 2500, 5000, 10000])
    parser.add_argument("--copies", type=int, default=0)
    parser.add_argument("--chunks", type=int, default=0)
    parser.add_argument("--folder")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="nczarr-archive-", dir=options.folder))
    try:
        if options.files:
            files(folder, options.files, options.copies)
        if options.chunks:
            chunks(folder, options.chunks)
        print(json.dumps({"load": os.getloadavg()}))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

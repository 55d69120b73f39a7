"""How much processor time large CDL texts take, beside ncgen and ncdump in the same run.

Run it by hand: ``python tests/benchmarks/cdl_load.py [megabytes] [repeats] [case …]``. It prints medians, ratios, and
the most memory. `load` is the reading alone, without the start of Python, and its growth of memory. `gen` is the whole
program that makes a netCDF file, and `dump` the whole program that prints it as ncdump does.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np

TYPES = (
    "byte enum e {CLEAR = 0, CLOUDY = 1, OVERCAST = 2} ; int(*) row ; compound c {int a ; double b ; e k ;} ;"
)


CASES = (
    *("double", "float", "int", "int64", "float, half fill", "int64, suffix LL", "float, suffix f"),
    *("enum", "vlen", "compound", "variables"),
)


def texts(megabytes: int) -> dict[str, tuple[str, str, int]]:
    """The type and the data of each case, as text of about the given size, and the number of values."""
    random = np.random.default_rng(0)

    def joined(values: Iterable[object]) -> tuple[str, int]:
        parts = list(map(str, values))
        return ", ".join(parts), len(parts)

    integers = random.integers(-(10**6), 10**6, megabytes * 110_000).tolist()
    long = random.integers(-(2**62), 2**62, megabytes * 45_000).tolist()
    filled = random.normal(size=megabytes * 120_000).tolist()
    names = ["CLEAR", "CLOUDY", "OVERCAST"]
    few = integers[: megabytes * 30_000]
    return {
        "double": ("double", *joined((random.normal(size=megabytes * 50_000) * 100).tolist())),
        "float": ("float", *joined(f"{x:.7g}" for x in random.normal(size=megabytes * 100_000).tolist())),
        "int": ("int", *joined(integers)),
        "int64": ("int64", *joined(long)),
        "float, half fill": ("float", *joined(f"{x:.3f}" if x > 0 else "_" for x in filled)),
        "int64, suffix LL": ("int64", *joined(f"{x}LL" for x in long)),
        "float, suffix f": ("float", *joined(f"{x:.3f}f" for x in filled)),
        "enum": ("e", *joined(names[x % 3] for x in integers)),
        "vlen": ("row", *joined(f"{{{', '.join(map(str, few[i : i + x % 6]))}}}" for i, x in enumerate(few))),
        "compound": ("c", *joined(f"{{{x}, {x / 8}, {names[x % 3]}}}" for x in few)),
    }


def write(path: Path, name: str, megabytes: int) -> None:
    """Write the text of a case."""
    if name == "variables":  # with few values
        count = 50 * megabytes
        declared = "".join(f'\tdouble v{i}(x) ;\n\t\tv{i}:units = "K" ;\n' for i in range(count))
        data = "".join(f" v{i} = {i}, 2.5, 3 ;\n" for i in range(count))
        path.write_text(f"netcdf big {{\ndimensions:\n\tx = 3 ;\nvariables:\n{declared}data:\n{data}}}\n")
        return
    type_, data, count = texts(megabytes)[name]
    path.write_text(
        f"netcdf big {{\ntypes:\n\t{TYPES}\ndimensions:\n\tx = {count} ;\n"
        f"variables:\n\t{type_} v(x) ;\ndata:\n\n v = {data} ;\n}}\n"
    )


def run(*command: str | Path) -> tuple[float, float]:
    """Run a program; return its processor time in seconds, and its most memory in MiB."""
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = status
    if status:
        sys.exit(f"{command[0]} failed")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def _most_memory() -> int:
    """The most memory that this process had so far, in kB."""
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))


def child(path: str) -> None:
    """Read one file, and print the time and the growth of the memory."""
    from nczarr.cdl import loads

    loads("netcdf warm { dimensions: x = 2; variables: int v(x); data: v = 1, 2; }")
    from nczarr.cdl import load

    before = _most_memory()
    start = time.process_time()
    load(path)
    print(time.process_time() - start, (_most_memory() - before) / 1024)


def medians(found: list[tuple[float, float]]) -> tuple[float, float]:
    seconds, memory = zip(*found, strict=True)
    return statistics.median(seconds), max(memory)


def compare(name: str, path: Path, repeats: int) -> None:
    """Print the row of one text."""
    theirs, ours = path.with_name("theirs.nc"), path.with_name("ours.nc")
    nczarr = (sys.executable, "-m", "nczarr")
    taken: dict[str, list[tuple[float, float]]] = {}
    for _ in range(repeats):
        ours.unlink(missing_ok=True)
        out = subprocess.run(
            [sys.executable, __file__, "--child", str(path)], capture_output=True, text=True, check=True
        )
        seconds, memory = map(float, out.stdout.split())
        taken.setdefault("load", []).append((seconds, memory))
        for label, command in {
            "ncgen": ("ncgen", "-4", "-o", theirs, path),
            "gen": (*nczarr, "gen", path, ours),
            "ncdump": ("ncdump", theirs),
            "dump": (*nczarr, "dump", "--ncdump", theirs),
        }.items():
            taken.setdefault(label, []).append(run(*command))
    by = {label: medians(found) for label, found in taken.items()}
    parts = [f"{name:18}{path.stat().st_size / 2**20:5.0f} MB{by['ncgen'][0]:7.2f} s"]
    for label, peer in (("load", "ncgen"), ("gen", "ncgen"), ("dump", "ncdump")):
        if label == "dump":
            parts.append(f"{by['ncdump'][0]:7.2f} s")
        seconds, memory = by[label]
        parts.append(f"{seconds:7.2f} s {seconds / by[peer][0]:5.2f}{memory:5.0f} MB")
    print(*parts, flush=True)


def main(megabytes: int = 100, repeats: int = 3, *chosen: str) -> None:
    if shutil.which("ncgen") is None:
        sys.exit("ncgen is not there")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "big.cdl"
        heads = [f"{label:>8} {'ratio':>6}{'memory':>8}" for label in ("load", "gen", "dump")]
        print(f"{'case':18}{'text':>8}{'ncgen':>9}", *heads[:2], f"{'ncdump':>9}", heads[2])
        for name in chosen or CASES:
            # Linux counts the memory of a process from that of its parent, so this process stays small.
            run(sys.executable, __file__, "--write", path, name, str(megabytes))
            compare(name, path, repeats)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2])
    elif sys.argv[1:2] == ["--write"]:
        write(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    else:
        main(*map(int, sys.argv[1:3]), *sys.argv[3:])

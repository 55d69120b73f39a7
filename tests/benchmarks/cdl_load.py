"""How much processor time large CDL texts take, beside ncgen in the same run.

Run it by hand: ``python tests/benchmarks/cdl_load.py [megabytes] [repeats]``. It prints medians, the ratio, and the
most memory that reading took. Of nczarr, the time is that of `load`, without the start of Python.
"""

from __future__ import annotations

import resource
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


def write(path: Path, type_: str, data: str, count: int) -> None:
    path.write_text(
        f"netcdf big {{\ntypes:\n\t{TYPES}\ndimensions:\n\tx = {count} ;\n"
        f"variables:\n\t{type_} v(x) ;\ndata:\n\n v = {data} ;\n}}\n"
    )


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
    dataset = load(path)
    seconds = time.process_time() - start
    grown = _most_memory() - before
    data = dataset.variables[0].data
    assert data is not None
    print(seconds, grown / 1024, data.dtype.itemsize * data.shape[0] / 2**20)


def main(megabytes: int = 100, repeats: int = 3) -> None:
    if shutil.which("ncgen") is None:
        sys.exit("ncgen is not there")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "big.cdl"
        print(f"{'case':18}{'text':>8}{'nczarr':>10}{'ncgen':>10}{'ratio':>8}{'memory':>10}{'data':>8}")
        for name, (type_, data, count) in texts(megabytes).items():
            write(path, type_, data, count)
            size = path.stat().st_size / 2**20
            ours, theirs, memory, values = [], [], 0.0, 0.0
            for _ in range(repeats):
                out = subprocess.run(
                    [sys.executable, __file__, "--child", str(path)],
                    capture_output=True,
                    text=True,
                    check=True,
                )
                seconds, memory, values = map(float, out.stdout.split())
                ours.append(seconds)
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                subprocess.run(["ncgen", "-4", "-o", str(path.with_suffix(".nc")), str(path)], check=True)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                theirs.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            a, b = statistics.median(ours), statistics.median(theirs)
            print(
                f"{name:18}{size:6.0f} MB{a:8.2f} s{b:8.2f} s{b / a:7.2f}x{memory:7.0f} MB{values:5.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2])
    else:
        main(*(int(argument) for argument in sys.argv[1:]))

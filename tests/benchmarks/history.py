"""Draw the ratios of recorded runs, and write those of all classes into the landing page.

    python tests/benchmarks/run.py W5 W8 W9 --cpu --dir /dev/shm --record docs/benchmarks.jsonl
    python tests/benchmarks/history.py [docs/benchmarks.jsonl] [--draw docs/images/history.svg] [--write]

Each line of the file is a run: its date, commit, version and machine, and for each row the ratio of nczarr's median to
that of the fastest other library. The nightly job records a run, and draws all of them.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "docs" / "benchmarks.jsonl"
PAGE = ROOT / "docs" / "index.md"
MEASURED = ROOT / "docs" / "performance.md"
#: Each class of workloads in the first table of the page on performance, and a sentence on its rows.
CLASSES = {
    "W1": ("whole arrays in chunks of 4 MiB", "as fast as zarrs; gzip is faster"),
    "W2": ("whole arrays in chunks of 64 KiB", "netCDF4 is faster where its cache holds all of them"),
    "W3": (
        "parts of arrays",
        "so it is for small chunks, and tensorstore for blosc; values of large chunks are fast",
    ),
    "W4": ("arrays in shards", "as fast as zarrs; parts are faster"),
    "W5": ("a thousand arrays", "made and opened in a fraction of the time"),
    "W6": ("a million chunks", "as fast as tensorstore, or faster"),
    "W8": ("loops of programs for netCDF4", "a step with `sync()` is slower, since it writes three files"),
    "W9": ("reads of programs for netCDF4", "faster in each row"),
}
#: The rows of the history: fast and slow ones.
SHOWN = {
    "W5 create 1000 arrays": "create 1,000 arrays",
    "W5 open and look at 1000 arrays": "open 1,000 arrays, and look at all of them",
    "W9 whole, packed, masked and scaled": "open and read a packed variable, masked and scaled",
    "W9 series at one point": "open and read a series at one point",
    "W8 append rows, uncompressed": "append uncompressed rows",
    "W8 sync every step": "append a step and `sync()`",
}
MARKED = re.compile(r"(<!-- figures of docs/performance\.md -->\n).*?(<!-- end of figures -->)", re.DOTALL)

Run = dict[str, Any]


def runs(path: Path = RECORD) -> list[Run]:
    """Return the recorded runs, the oldest first."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def ratio_of(run: Run, row: str) -> float | None:
    """Return a ratio; the name of a row may go on with the number of steps."""
    return next(
        (r for name, r in run["ratios"].items() if re.fullmatch(rf"{re.escape(row)}(, \d+)?", name)), None
    )


def figures(run: Run) -> str:
    """Return the figures of a run as Markdown."""
    others = ", ".join(run["versions"])
    rows = [(text, ratio_of(run, row)) for row, text in SHOWN.items()]
    cells = [f"| {text} | {ratio:.2g} |" for text, ratio in rows if ratio is not None]
    return "\n".join(
        [
            f"Time of nczarr {run['nczarr']} divided by that of the fastest other library ({others});",
            f"`tests/benchmarks/run.py` on {run['date']}: {run['machine']}. Below 1, nczarr is faster.",
            "",
            "| work | ratio |",
            "|---|---|",
            *cells,
            "",
            "",
        ]
    )


def classes(measured: str) -> str:
    """Return the ratios of all rows in the first table of the page on performance, by class, as Markdown."""
    table = measured.partition("\n| workload | ratio |")[2].partition("\n\n")[0]
    ratios: dict[str, list[float]] = {}
    for name, ratio in re.findall(r"^\| (W\d+) [^|]* \| \**([\d.]+)\** \|", table, re.M):
        ratios.setdefault(name, []).append(float(ratio))
    all_ = [ratio for each in ratios.values() for ratio in each]
    slower, faster = sum(ratio > 1.05 for ratio in all_), sum(ratio < 0.95 for ratio in all_)
    lines = [
        "Time of nczarr divided by that of the fastest other library (zarr-python, zarrs, tensorstore, netCDF4), for",
        f"all {len(all_)} rows of one [measurement](performance.md#figures). Below 1, nczarr is faster:",
        f"in {faster} rows by more than 5 %. In {slower} rows it is slower by more than 5 %,",
        f"at worst {max(all_):.1f} times.",
        "",
        "| work | rows | fastest | median | slowest | |",
        "|---|---|---|---|---|---|",
    ]
    for name, (work, sentence) in CLASSES.items():
        own = ratios[name]
        figures_ = " | ".join(f"{value:.2f}" for value in (min(own), statistics.median(own), max(own)))
        lines.append(f"| {work} | {len(own)} | {figures_} | {sentence} |")
    return "\n".join([*lines, "", ""])


def page(text: str, measured: str) -> str:
    """Return the text of the landing page with the figures of all classes between its marks."""
    return MARKED.sub(lambda found: found[1] + classes(measured) + found[2], text)


def draw(recorded: list[Run], path: Path) -> None:
    """Draw a line for each of the shown rows, over the runs."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    matplotlib.rcParams.update({"svg.hashsalt": "nczarr", "font.size": 8, "svg.fonttype": "none"})
    figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
    for row, text in SHOWN.items():
        ratios = [ratio_of(run, row) for run in recorded]
        axes.plot(range(len(recorded)), [float("nan") if r is None else r for r in ratios], "o-", label=text)
    axes.axhline(1, color="grey", linewidth=0.8)
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xticks(range(len(recorded)), [f"{r['date']}\n{r['commit'][:8]}" for r in recorded])
    axes.set_ylabel("nczarr / fastest other library")
    figure.legend(loc="outside right upper", frameon=False)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("record", nargs="?", type=Path, default=RECORD)
    parser.add_argument("--draw", type=Path, help="draw the runs to this file")
    parser.add_argument(
        "--write", action="store_true", help="write the figures of all classes into docs/index.md"
    )
    options = parser.parse_args()
    recorded = runs(options.record)
    if options.draw:
        draw(recorded, options.draw)
    if options.write:
        PAGE.write_text(page(PAGE.read_text("utf-8"), MEASURED.read_text("utf-8")), "utf-8")
    print(figures(recorded[-1]))


if __name__ == "__main__":
    main()

"""Draw the ratios of recorded runs, and write the latest ones into the landing page.

    python tests/benchmarks/run.py W5 W8 W9 --cpu --dir /dev/shm --record docs/benchmarks.jsonl
    python tests/benchmarks/history.py [docs/benchmarks.jsonl] [--draw docs/images/history.svg] [--write]

Each line of the file is a run: its date, commit, version and machine, and for each row the ratio of nczarr's median to
that of the fastest other library. The nightly job records a run, and draws all of them.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "docs" / "benchmarks.jsonl"
PAGE = ROOT / "docs" / "index.md"
#: The rows on the landing page: fast and slow ones.
SHOWN = {
    "W5 create 1000 arrays": "create 1,000 arrays",
    "W5 open and look at 1000 arrays": "open 1,000 arrays, and look at all of them",
    "W9 whole, packed, masked and scaled": "open and read a packed variable, masked and scaled",
    "W9 series at one point": "open and read a series at one point",
    "W8 append rows, uncompressed": "append uncompressed rows",
    "W8 sync every step": "append a step and `sync()`",
}
MARKED = re.compile(r"(<!-- figures of docs/benchmarks\.jsonl -->\n).*?(<!-- end of figures -->)", re.DOTALL)

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


def page(text: str, run: Run) -> str:
    """Return the text of a page with the figures of a run between its marks."""
    return MARKED.sub(lambda found: found[1] + figures(run) + found[2], text)


def draw(recorded: list[Run], path: Path) -> None:
    """Draw a line for each row of the landing page, over the runs."""
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
    parser.add_argument("--write", action="store_true", help="write the latest figures into docs/index.md")
    options = parser.parse_args()
    recorded = runs(options.record)
    if options.draw:
        draw(recorded, options.draw)
    if options.write:
        PAGE.write_text(page(PAGE.read_text("utf-8"), recorded[-1]), "utf-8")
    print(figures(recorded[-1]))


if __name__ == "__main__":
    main()

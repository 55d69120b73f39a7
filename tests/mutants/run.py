"""Run mutants of the package by a seed, and list those that no test kills.

``python tests/mutants/run.py --seed 7 --count 200`` takes about an hour of processor time; ``--package session`` and
the paths of tests make it shorter. ``--show`` prints the mutants of a seed alone, and ``--keep FOLDER`` leaves the
copy, in which ``NCZARR_MUTANT=12 python -m pytest tests/…`` runs any tests with one mutant on.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import killing
import mutating

ROOT = Path(__file__).parents[2]
ASIDE = shutil.ignore_patterns(
    ".git", "__pycache__", "_build", "node_modules", "*.egg-info", ".*_cache", ".hypothesis"
)


def tests(copy: Path, folder: Path, phase: str, options: argparse.Namespace) -> None:
    """Run a phase in several processes."""
    processes = []
    for part in range(options.workers):
        job = killing.Job(str(folder), phase, part, options.workers, options.seconds, options.tests)
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(copy), str(copy / "tests" / "mutants")]),
            "NCZARR_MUTANTS_JOB": json.dumps(job.__dict__),
        }
        # No test of the project itself: they read the source.
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "killing",
            "-p",
            "no:cacheprovider",
            "-q",
            "--timeout=180",
        ]
        command += ["-m", "not slow", "--rotation", str(options.seed), *options.paths]
        log = (folder / f"{phase}.{part}.log").open("w")
        processes.append(subprocess.Popen(command, cwd=copy, env=environment, stdout=log, stderr=log))
    for process in processes:
        process.wait()


def table(mutants: list[mutating.Mutant], verdicts: dict[int, killing.Verdict]) -> str:
    """Make a table of the score: by package, by operator, and of all; then the survivors."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for mutant in mutants:
        verdict = verdicts[mutant.number]
        for key in (f"`{mutant.package}`", mutant.operator, "all"):
            row = counts[key]
            row[0] += 1
            row[1] += bool(verdict.killer)
            row[2] += not verdict.tests
    order = sorted(counts, key=lambda key: (key == "all", not key.startswith("`"), key))
    lines = ["| of | mutants | killed | not reached | score |", "|---|---|---|---|---|"]
    for key in order:
        number, died, away = counts[key]
        lines.append(f"| {key} | {number} | {died} | {away} | {died / number:.0%} |")
    lines += ["", "Survivors:", ""]
    for mutant in mutants:
        verdict = verdicts[mutant.number]
        if not verdict.killer:
            lines.append(
                f"- {mutant} (" + (f"{verdict.tests} tests" if verdict.tests else "not reached") + ")"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", default=[], help="tests; by default all, one case in eight")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--package", action="append", default=[], help="mutate this package of nczarr alone")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=30, help="of processor time, for each mutant")
    parser.add_argument("--tests", type=int, default=60, help="for each mutant, at most")
    parser.add_argument("--show", action="store_true", help="print the mutants, and run none")
    parser.add_argument("--keep", type=Path, help="a new folder for the copy and the results")
    options = parser.parse_args()
    sources = dict(mutating.modules(ROOT, tuple(options.package)))
    mutants = mutating.choose(sources, options.seed, options.count)
    if options.show:
        print("\n".join(map(str, mutants)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.keep or Path(temporary)).resolve()
        copy = folder / "nczarr"
        shutil.copytree(ROOT, copy, ignore=ASIDE)
        mutating.write(copy, mutants)
        (folder / "packages.json").write_text(json.dumps({m.number: m.package for m in mutants}))
        for phase in ("reach", "kill"):
            tests(copy, folder, phase, options)
        verdicts = {}
        for path in folder.glob("verdicts.*.jsonl"):
            for line in path.read_text().splitlines():
                verdict = killing.Verdict(**json.loads(line))
                verdicts[verdict.mutant] = verdict
        missing = [str(mutant) for mutant in mutants if mutant.number not in verdicts]
        if missing:
            logs = "\n".join(path.read_text()[-2000:] for path in sorted(folder.glob("*.log")))
            raise SystemExit(f"{logs}\nno verdict on {len(missing)} mutants; see the logs above")
    print(f"Seed {options.seed}, {len(mutants)} mutants\n\n{table(mutants, verdicts)}")


if __name__ == "__main__":
    main()

"""Run tests, as a plugin of pytest, that reach a mutant, with it on, in forked children, until one fails.

run.py starts pytest with this plugin twice: to note which test reaches which mutants, and to kill.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

Thing = TypeVar("Thing")


@dataclass(frozen=True)
class Job:
    """What one process of pytest does of all work: each `parts`-th file, or mutant, from `part` on."""

    folder: str
    phase: str
    part: int
    parts: int
    #: Seconds of processor time for each mutant, and a number of tests.
    seconds: float
    tests: int

    def mine(self, things: Iterable[Thing]) -> list[Thing]:
        return [thing for number, thing in enumerate(things) if number % self.parts == self.part]


@dataclass
class Result:
    """One test of one run: its processor time, the mutants that it reached, and how it failed."""

    test: str
    cpu: float = 0.0
    reached: list[int] = field(default_factory=list)
    failure: str = ""


@dataclass
class Verdict:
    """What the tests said of a mutant."""

    mutant: int
    killer: str = ""
    why: str = ""
    tests: int = 0
    cpu: float = 0.0


_failures: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _failures.append(str(report.longrepr)[-300:])


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Take the place of pytest's own loop."""
    if "NCZARR_MUTANTS_JOB" not in os.environ:
        return None
    job = Job(**json.loads(os.environ["NCZARR_MUTANTS_JOB"]))
    files: dict[str, list[pytest.Item]] = {}
    for item in session.items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    (note if job.phase == "reach" else kill)(session, job, files)
    return True


def note(session: pytest.Session, job: Job, files: dict[str, list[pytest.Item]]) -> None:
    """Run each file without a mutant, and write which test reaches which mutants."""
    with Path(job.folder, f"reached.{job.part}.jsonl").open("a", buffering=1) as out:
        for name in job.mine(sorted(files)):
            for result in in_child(session, job, files[name], -1, 1800):
                out.write(json.dumps(asdict(result)) + "\n")


def kill(session: pytest.Session, job: Job, files: dict[str, list[pytest.Item]]) -> None:
    """Switch each mutant on, and run the tests that reach it, the shortest and nearest first, until one fails."""
    packages: dict[str, str] = json.loads(Path(job.folder, "packages.json").read_text())
    items = {item.nodeid: item for each in files.values() for item in each}
    reach: dict[int, list[Result]] = {int(number): [] for number in packages}
    for path in sorted(Path(job.folder).glob("reached.*.jsonl")):
        for result in map(_result, path.read_text().splitlines()):
            if not result.failure and result.test in items:
                for number in result.reached:
                    reach[number].append(result)
    with Path(job.folder, f"verdicts.{job.part}.jsonl").open("a", buffering=1) as out:
        for number in job.mine(sorted(reach)):
            own = f"tests/{packages[str(number)]}/", f"nczarr/{packages[str(number)]}"
            chosen = choose(reach[number], own, job.seconds, job.tests)
            verdict = judge(session, job, [[items[r.test] for r in group] for group in chosen], number)
            out.write(json.dumps(asdict(verdict)) + "\n")


def choose(results: list[Result], own: tuple[str, ...], seconds: float, most: int) -> list[list[Result]]:
    """Choose tests in the order in which they run, by file: half of the package's own, half of all, within a time.

    >>> some = [Result(f"tests/{p}/a.py::{n}", cpu=n) for p in ("cdl", "zarr") for n in (1, 2, 3)]
    >>> [[result.test for result in group] for group in choose(some, ("tests/zarr/",), 9.0, 4)]
    [['tests/zarr/a.py::1', 'tests/zarr/a.py::2'], ['tests/cdl/a.py::1', 'tests/cdl/a.py::2']]
    """
    near = [r for r in results if r.test.startswith(own)]
    far = [r for r in results if not r.test.startswith(own)]
    left, groups = seconds, {}
    for these, number in ((near, max(most // 2, most - len(far))), (far, max(most // 2, most - len(near)))):
        these.sort(key=lambda r: r.cpu)
        # The shortest, and some from all of the rest, which are longer and see more.
        short, rest = these[: number // 2], these[number // 2 :]
        for result in (
            *short,
            *rest[:: max(1, len(rest) // max(1, number - len(short)))][: number - len(short)],
        ):
            if result.cpu <= left:
                left -= result.cpu
                groups.setdefault(result.test.partition("::")[0], []).append(result)
    return list(groups.values())


def judge(session: pytest.Session, job: Job, groups: list[list[pytest.Item]], number: int) -> Verdict:
    """Run groups of tests with a mutant on, each in a child; a test that fails without it too does not count."""
    verdict = Verdict(number)
    for items in groups:
        results = in_child(session, job, items, number, 60 + 20 * job.seconds)
        verdict.tests += len(results)
        verdict.cpu = round(verdict.cpu + sum(result.cpu for result in results), 2)
        failed = next((result for result in results if result.failure), None)
        if failed is not None:
            again = [item for item in items if item.nodeid == failed.test]
            if not any(result.failure for result in in_child(session, job, again, -1, 600)):
                verdict.killer, verdict.why = failed.test, failed.failure
                break
    return verdict


def _result(line: str) -> Result:
    return Result(**json.loads(line))


# -- children


def in_child(
    session: pytest.Session, job: Job, items: Sequence[pytest.Item], number: int, limit: float
) -> list[Result]:
    """Run tests in a forked child, and return their results; a child that dies, or takes too long, is a failure."""
    out = Path(job.folder, f"child.{os.getpid()}.jsonl")
    out.unlink(missing_ok=True)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            os.setpgid(0, 0)
            run(session, job, items, number, out)
        finally:
            os._exit(0)
    status, end = 0, time.monotonic() + limit
    while not status and time.monotonic() < end:
        status, _ = os.waitpid(child, os.WNOHANG)
        time.sleep(0.01)
    if not status:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    results = [_result(line) for line in out.read_text().splitlines()] if out.exists() else []
    ended = len(results) == len(items) or any(result.failure for result in results)
    if not ended and number >= 0:
        results.append(Result(items[len(results)].nodeid, failure="the process died, or took too long"))
    return results


def run(session: pytest.Session, job: Job, items: Sequence[pytest.Item], number: int, out: Path) -> None:
    """Run tests with a mutant on; stop at the first that fails."""
    import nczarr_mutants as switch

    notes = Path(job.folder, f"notes.{os.getpid()}")
    if number < 0:
        switch.NOTES = os.environ["NCZARR_MUTANTS_REACHED"] = str(notes)
    switch.ON, os.environ["NCZARR_MUTANT"] = number, str(number)
    with out.open("w", buffering=1) as lines:
        for item, following in zip(items, [*items[1:], None], strict=True):
            switch.reached.clear()
            notes.unlink(missing_ok=True)
            failed, before = len(_failures), os.times()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            result = Result(item.nodeid, round(sum(os.times()[:4]) - sum(before[:4]), 3))
            if notes.exists():
                result.reached = sorted({int(line) for line in notes.read_text().split()})
            if len(_failures) > failed:
                result.failure = _failures[-1]
            lines.write(json.dumps(asdict(result)) + "\n")
            if result.failure and number >= 0:
                break
    notes.unlink(missing_ok=True)

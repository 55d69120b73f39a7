"""Run other packages' tests with netCDF4-python and with nczarr in its place, and print what differs.

``python tests/clients/run.py [CLIENT ...] [--folder DIR]``: makes an environment for each package of ``clients.toml``,
runs its tests twice, and prints a row for each. Ends with status 1 if a test passes with netCDF4-python, does not pass
with nczarr, and is no exception that ``clients.toml`` gives a reason for. Takes from minutes to an hour.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
#: What nczarr and the running of tests need.
COMMON = ["pytest", "pytest-timeout", "numcodecs", "fsspec", "lark", "cftime", "h5py"]
NETCDF4 = "netCDF4==1.7.5.1.post1"
#: Seconds for one test: one that hangs is one that fails.
ONE_TEST = 300


@dataclass
class Client:
    """A package, its pins and its tests."""

    name: str
    version: str
    tests: list[str]
    what: str
    only: str = ""
    inside: str = ""
    source: str = ""
    beside: str = ""
    extra: list[str] = field(default_factory=list)
    exceptions: list[dict[str, str]] = field(default_factory=list)

    def reason(self, test: str) -> str | None:
        """Why a test may fail with nczarr; None if nothing is said."""
        return next((e["reason"] for e in self.exceptions if fnmatchcase(test, e["test"])), None)


def read_clients(path: Path = HERE / "clients.toml") -> dict[str, Client]:
    """The packages of a file."""
    clients = {}
    for name, entry in tomllib.loads(path.read_text(encoding="utf-8"))["client"].items():
        exceptions = entry.get("exception", [])
        clients[name] = Client(
            name,
            entry["version"],
            entry["tests"],
            entry["what"],
            only=entry.get("only", ""),
            inside=entry.get("inside", ""),
            source=entry.get("source", ""),
            beside=entry.get("beside", ""),
            extra=entry["with"],
            exceptions=exceptions,
        )
    return clients


def environment(client: Client, folder: Path) -> Path:
    """The interpreter of the package's environment, which is made if it is not there."""
    place = folder / f"{client.name}-{client.version}"
    python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    done = place / "complete"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True)
        wanted = [f"{client.name}=={client.version}", NETCDF4, *COMMON, *client.extra]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)
        if client.source:
            unpack_source(client, python)
        done.touch()
    return python


def unpack_source(client: Client, python: Path) -> None:
    """Keep the tests of a package that come with its source only."""
    folder = python.parents[1] / "source"
    with tempfile.TemporaryDirectory() as unpacked:
        # pip asks each package for its metadata, for which a compiled one wants its libraries. What pip has unpacked by
        # then is all that is needed: that it fails later is no matter.
        command = [python, "-m", "pip", "download", "--quiet", "--no-clean", "--no-deps"]
        command += ["--no-binary", ":all:", "--no-build-isolation"]
        subprocess.run(
            [*command, "--dest", unpacked, f"{client.name}=={client.version}"],
            env=os.environ | {"TMPDIR": unpacked},
            capture_output=True,
            check=False,
        )
        places = {client.source: folder} | ({client.beside: packages_of(python)} if client.beside else {})
        for wanted, place in places.items():
            found = next((path for path in Path(unpacked).rglob(wanted) if path.is_dir()), None)
            if found is None:
                raise SystemExit(f"{client.name}: its source has no folder {wanted}")
            shutil.copytree(found, place / wanted)


def packages_of(python: Path) -> Path:
    """The folder of packages of an environment."""
    where = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    return Path(subprocess.run(where, capture_output=True, text=True, check=True).stdout.strip())


def place_of_tests(client: Client, python: Path, folder: str) -> Path:
    """Where the tests have to run."""
    if client.source:
        return python.parents[1] / "source" / client.source
    return packages_of(python) / client.inside if client.inside else Path(folder)


def run_tests(client: Client, python: Path, *, stand_in: str) -> dict[str, str]:
    """The outcome of each test (passed, failed or skipped), with ``installed`` or ``plain`` nczarr, or none."""
    paths = [str(HERE / "stand_in"), str(REPOSITORY)] if stand_in else []
    settings = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "NCZARR_STANDS_IN")}
    if stand_in:
        settings |= {"PYTHONPATH": os.pathsep.join(paths), "NCZARR_STANDS_IN": stand_in}
    settings |= {"MPLBACKEND": "agg", "NO_NET": "1"}
    with tempfile.TemporaryDirectory() as folder, without_traces(python.parents[1]):
        report = Path(folder, "report.xml")
        command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", "--tb=short"]
        command += ["--continue-on-collection-errors", f"--timeout={ONE_TEST}", f"--junitxml={report}"]
        command += ["-W", "ignore", "-k", client.only] if client.only else ["-W", "ignore"]
        log = Path(folder, "log")
        with log.open("wb") as file:
            subprocess.run(
                [*command, *([] if client.source else ["--pyargs"]), *client.tests],
                cwd=place_of_tests(client, python, folder),
                env=settings,
                stdout=file,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if keep := os.environ.get("NCZARR_CLIENTS_LOGS"):
            Path(keep).mkdir(parents=True, exist_ok=True)
            name = f"{client.name}-{'nczarr' if stand_in else 'netCDF4'}.log"
            Path(keep, name).write_bytes(log.read_bytes())
        if not report.exists():
            raise SystemExit(f"{client.name}: pytest ended without a report\n{log.read_text()[-2000:]}")
        return outcomes(report)


@contextmanager
def without_traces(place: Path) -> Iterator[None]:
    """Remove at the end what tests wrote beside themselves, into the environment."""
    before = set(place.rglob("*"))
    try:
        yield
    finally:
        for path in set(place.rglob("*")) - before:
            if path.name == "__pycache__" or path.parent.name == "__pycache__":
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def outcomes(report: Path) -> dict[str, str]:
    """What a report in JUnit's form says of each test."""
    found: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        name = f"{case.get('classname')}::{case.get('name')}"
        if found.get(name) != "failed":  # a test may pass, and its clearing up fail
            found[name] = outcome
    return found


def compare(theirs: dict[str, str], ours: dict[str, str]) -> list[str]:
    """The tests that pass with netCDF4-python and not with nczarr."""
    return [test for test, outcome in theirs.items() if outcome == "passed" and ours.get(test) != "passed"]


def main(arguments: list[str] | None = None) -> int:
    clients = read_clients()
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("client", nargs="*", help=f"of {', '.join(clients)}; default: all")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir(), "nczarr-clients"))
    parser.add_argument(
        "--plain", action="store_true", help="as `import nczarr as netCDF4`, without install()"
    )
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    lines: list[str] = []
    unexpected = 0
    print(
        f"{'package':22}{'version':12}{'tests':>7}{'netCDF4':>9}{'nczarr':>9}{'known':>7}{'new':>6}",
        flush=True,
    )
    for name in options.client or clients:
        client = clients[name]
        python = environment(client, options.folder)
        theirs = run_tests(client, python, stand_in="")
        ours = run_tests(client, python, stand_in="plain" if options.plain else "installed")
        lost: Any = {test: client.reason(test) for test in compare(theirs, ours)}
        new = [test for test, reason in lost.items() if reason is None]
        unexpected += len(new)
        passed = [Counter(results.values())["passed"] for results in (theirs, ours)]
        known = len(lost) - len(new)
        counts = f"{len(theirs):7}{passed[0]:9}{passed[1]:9}{known:7}{len(new):6}"
        print(f"{name:22}{client.version:12}{counts}", flush=True)
        lines += [f"{name}: {test}: {ours.get(test, 'not collected')}" for test in new]
    print(*lines, sep="\n")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())

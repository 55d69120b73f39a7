#!/usr/bin/env python3
"""Try writers of datasets in object stores: nothing acknowledged is lost, and nothing is wrong at status 0.

    python tests/trust/object_writers.py --seconds 60

The program starts the S3 server of the tests behind a proxy that refuses requests or cuts connections. The kinds of
trials: a stale writer, three programs that add a variable each, two that append, credentials for reading, a token that
expires, a network that is cut, and a process that is killed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from budget import Budget, main

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "helpers"), str(HERE.parent / "s3")]

import nczarr  # noqa: E402
from nczarr.errors import LockedError, NCZarrError  # noqa: E402
from nczarr.model import INT, Dataset, Dimension, MemorySource, Variable  # noqa: E402

#: Changes a dataset, prints what is acknowledged, and ends with status 1 if it is refused.
PROGRAM = """
import sys, warnings
import nczarr
from nczarr.errors import NCZarrError
warnings.simplefilter("ignore")
url, what = sys.argv[1:]
try:
    with nczarr.Dataset(url, "a") as ds:
        if what.startswith("v"):
            ds.createVariable(what, "i4", ("t",))[:] = int(what[1:])
        for n in range(0 if what.startswith("v") else int(what)):
            at = len(ds["t"])
            ds["t"][at] = at
            ds.sync()
            print(at + 1, flush=True)
except NCZarrError:
    sys.exit(1)
"""


def _start(url: str, what: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, url, what]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _read(url: str) -> dict[str, list[int]]:
    with nczarr.Dataset(url) as ds:
        return {name: v[:].tolist() for name, v in ds.variables.items()}


class Trials:
    """The kinds of trials, on a server behind a proxy."""

    def __init__(self, proxy: object, seed: int) -> None:
        self.proxy = proxy
        self.random = random.Random(seed)
        self.number = 0

    def new(self) -> str:
        """Write a dataset of three steps, and return its URL."""
        self.number += 1
        url = f"s3://test/writers/{os.getpid()}-{self.number}.zarr"
        t = Variable("t", INT, ("/t",), data=MemorySource(np.arange(3, dtype="i4")))
        nczarr.copy(Dataset("d", dimensions=(Dimension("t", 3, unlimited=True),), variables=(t,)), url)
        return url

    def stale(self) -> None:
        """A writer that opened the dataset first keeps a second one out, and loses nothing."""
        url = self.new()
        first = nczarr.Dataset(url, "a")
        try:
            nczarr.Dataset(url, "a").close()
        except LockedError:
            pass
        else:
            raise AssertionError("the second writer was let in")
        first["t"][3] = 3
        first.close()
        assert _read(url)["t"] == [0, 1, 2, 3]

    def three_adders(self) -> None:
        """What a program with status 0 has added is there."""
        url = self.new()
        running = {name: _start(url, name) for name in ("v1", "v2", "v3")}
        for process in running.values():
            process.communicate()
        assert {p.returncode for p in running.values()} <= {0, 1}
        added = {name for name, p in running.items() if p.returncode == 0}
        found = _read(url)
        assert added
        assert set(found) == {"t"} | added, (set(found), added)

    def two_appenders(self) -> None:
        """The length is the sum of what the programs have acknowledged."""
        url = self.new()
        running = [_start(url, "2"), _start(url, "2")]
        lines = [process.communicate()[0].split() for process in running]
        steps = 3 + sum(map(len, lines))
        assert _read(url)["t"] == list(range(steps)), lines

    def _refusing(
        self, url: str, rule: Callable[[str, str, dict[str, str]], int | None], at_opening: bool
    ) -> None:
        """Write under a rule of the proxy: an error says what fails, and the dataset stays as it was."""
        writer = None
        try:
            if not at_opening:
                writer = nczarr.Dataset(url, "a")
            self.proxy.rule = rule  # type: ignore[attr-defined]
            writer = writer or nczarr.Dataset(url, "a")
            writer["t"][3] = 3
            writer.close()
        except NCZarrError:
            pass
        else:
            raise AssertionError("the failure was not reported")
        finally:
            self.proxy.rule = None  # type: ignore[attr-defined]
        assert _read(url)["t"][:3] == [0, 1, 2]
        with nczarr.Dataset(url, "a") as again:  # its own mark does not exclude this process
            again["t"][3] = 3
        assert _read(url)["t"] == [0, 1, 2, 3]

    def read_only(self) -> None:
        """Credentials for reading are refused when the dataset is opened."""
        self._refusing(self.new(), lambda m, p, q: 403 if m in ("PUT", "POST", "DELETE") else None, True)

    def expired(self) -> None:
        """A token expires after some requests."""
        left = [self.random.randrange(3)]

        def rule(method: str, path: str, query: dict[str, str]) -> int | None:
            left[0] -= 1
            return 403 if left[0] < 0 else None

        self._refusing(self.new(), rule, False)

    def cut(self) -> None:
        """The network is cut; no call waits longer than its limit."""
        url = self.new()
        os.environ["NCZARR_ANSWER_SECONDS"] = "6"
        try:
            self._refusing(url, lambda m, p, q: 0, False)
        finally:
            os.environ["NCZARR_ANSWER_SECONDS"] = "60"  # servers of a busy machine are slow

    def killed(self) -> None:
        """After a kill, every acknowledged step is there, and the next writer goes on."""
        url = self.new()
        process = _start(url, "1000")
        assert process.stdout is not None
        last = 3
        for _ in range(self.random.randrange(1, 4)):
            last = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        rest = process.communicate()[0].split()
        last = int(rest[-1]) if rest else last
        found = _read(url)["t"]
        assert found[:last] == list(range(last)), (found, last)
        with nczarr.Dataset(url, "a") as again:
            at = len(again["t"])
            again["t"][at] = at
        assert len(_read(url)["t"]) == at + 1


KINDS = ("stale", "three_adders", "two_appenders", "read_only", "expired", "cut", "killed")


def trial(budget: Budget) -> None:
    """Run one kind of trial after the other."""
    import boto3
    import server
    from s3_proxy import S3Proxy

    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        running = server.new_server(Path(folder))
        running.start()
        before = dict(os.environ)
        try:
            proxy = S3Proxy(running.url)
            os.environ.update(
                {**running.settings, "AWS_ENDPOINT_URL": proxy.url, "NCZARR_ANSWER_SECONDS": "60"}
            )
            boto3.client("s3", endpoint_url=running.url).create_bucket(Bucket="test")
            trials = Trials(proxy, budget.seed)
            for number in budget:
                kind = KINDS[number % len(KINDS)]
                budget.shown = kind
                getattr(trials, kind)()
                budget.count(kind)
        finally:
            os.environ.clear()
            os.environ.update(before)
            running.stop()


if __name__ == "__main__":
    main(trial)

"""Run a test of S3 again on a new server when the server ended under it: that says nothing about our code."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

running: list[Any] = []  # the server of this process, while there is one
_ended = pytest.StashKey[str]()
TRIALS = 3


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Look at the server when a test fails, before the fixtures end: it may have gone by itself."""
    report = yield
    if report.failed and running and not running[0].answers():
        item.stash[_ended] = running[0].said()
        report.sections.append(("S3 server", item.stash[_ended]))
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Begin anew, with a new server, where the old one has ended; skip the test when none lives long enough."""
    if item.get_closest_marker("s3") is None:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for _ in range(TRIALS):
        item.stash[_ended] = ""
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        if not item.stash[_ended]:
            break
        item.session._setupstate.teardown_exact(None)  # of the whole session, and so of the server
        item._initrequest()  # type: ignore[attr-defined]
    else:
        for report in reports:
            if report.failed:
                report.outcome = "skipped"
                report.longrepr = (
                    str(item.path),
                    0,
                    f"no S3 server lives long enough: {item.stash[_ended].splitlines()[0]}",
                )
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True

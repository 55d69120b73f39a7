"""Run the jobs of the page in the background, the newest first."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from nczarr.system.locks import TABLES

T = TypeVar("T")
Call = Callable[[], None]


class Worker:
    """Run one job at a time in a background thread, and pass its result to the page.

    Only the newest waiting request runs.

    Parameters
    ----------
    schedule : callable
        Schedule a function in the thread that may change the page.
    failed : callable
        Called with the exception of a failed job.

    Examples
    --------
    >>> import queue
    >>> results = queue.Queue()
    >>> worker = Worker(lambda call: call(), results.put)
    >>> worker.ask(lambda: 6 * 7, results.put)
    >>> results.get()
    42
    """

    def __init__(self, schedule: Callable[[Call], None], failed: Callable[[Exception], None]) -> None:
        self._schedule = schedule
        self._failed = failed
        self._next: tuple[Callable[[], object], Callable[..., None]] | None = None
        self._is_busy = False

    def ask(self, job: Callable[[], T], take: Callable[[T], None]) -> None:
        """Run `job`, then call `take` with its result. A job that is still waiting is discarded."""
        with TABLES:
            self._next, was_busy, self._is_busy = (job, take), self._is_busy, True
        if not was_busy:
            threading.Thread(target=self._run, name="nczarr view reads", daemon=True).start()

    def _run(self) -> None:
        while True:
            with TABLES:
                wanted, self._next = self._next, None
                self._is_busy = wanted is not None
            if wanted is None:
                return
            job, take = wanted
            try:
                call = partial(take, job())
            except Exception as error:  # the page shows all errors
                call = partial(self._failed, error)
            self._schedule(call)

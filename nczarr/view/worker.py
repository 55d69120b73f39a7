"""Run slow jobs in a background thread. Only the newest waiting request runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from nczarr.system.locks import TABLES

Job = Callable[[], Any]
Taker = Callable[[Any], None]


class Worker:
    """Run one job at a time in a background thread, and pass its result to the page.

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

    def __init__(self, schedule: Callable[[Callable[[], None]], Any], failed: Taker) -> None:
        self._schedule = schedule
        self._failed = failed
        self._next: tuple[Job, Taker] | None = None
        self._is_busy = False

    def ask(self, job: Job, take: Taker) -> None:
        """Run `job`, then call `take` with its result. A job that is still waiting is discarded."""
        with TABLES:
            self._next = (job, take)
            if self._is_busy:
                return
            self._is_busy = True
        threading.Thread(target=self._run, name="nczarr view reads", daemon=True).start()

    def _run(self) -> None:
        while True:
            with TABLES:
                if self._next is None:
                    self._is_busy = False
                    return
                (job, take), self._next = self._next, None
            try:
                result = job()
            except Exception as error:  # the page shows all errors
                self._hand_over(self._failed, error)
            else:
                self._hand_over(take, result)

    def _hand_over(self, take: Taker, result: Any) -> None:
        self._schedule(lambda: take(result))

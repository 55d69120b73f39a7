"""Do slow work beside the page: the newest request is done, and those it overtook are not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

Job = Callable[[], Any]
Taker = Callable[[Any], None]


class Worker:
    """Runs one job at a time in a thread, and hands its result to the page.

    Parameters
    ----------
    schedule : callable
        Has a function called where the page may be changed.
    failed : callable
        Takes the error of a job.

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
        self._lock = threading.Lock()
        self._next: tuple[Job, Taker] | None = None
        self._is_busy = False

    def ask(self, job: Job, take: Taker) -> None:
        """Have `job` done, and its result taken; a job that waits is dropped."""
        with self._lock:
            self._next = (job, take)
            if self._is_busy:
                return
            self._is_busy = True
        threading.Thread(target=self._run, name="nczarr view reads", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._lock:
                if self._next is None:
                    self._is_busy = False
                    return
                (job, take), self._next = self._next, None
            try:
                result = job()
            except Exception as error:  # whatever it is, the page has to say it
                self._hand_over(self._failed, error)
            else:
                self._hand_over(take, result)

    def _hand_over(self, take: Taker, result: Any) -> None:
        self._schedule(lambda: take(result))

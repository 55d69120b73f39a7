"""Check the order in which threads take locks: never one of a lower rank while they hold one of a higher rank.

:func:`install` replaces the locks of nczarr, before any is made. Locks of one rank are taken together only where the
rank says so (:data:`SEVERAL`), and then always in the same order. Each wrong order raises :class:`LockOrderError`, and
is kept in :data:`FOUND`, in case the program catches the error. A :class:`Schedule` runs threads of a test in turns.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from types import FrameType, TracebackType
from typing import Any

from nczarr.system import locks
from nczarr.system.locks import Rank

#: Ranks of which a thread holds several locks.
SEVERAL = frozenset({Rank.BLOCK, Rank.CHUNK})
FOUND: list[str] = []
_numbers = itertools.count()
_here = threading.local()


class LockOrderError(AssertionError):
    """A thread takes a lock in the wrong order."""


class CheckedLock:
    """A re-entrant lock that knows its rank."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.number = next(_numbers)
        #: The numbers of locks of the same rank that were taken after this one.
        self.followers: set[int] = set()
        self._lock = threading.RLock()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        held = held_locks()
        if held and self not in held:
            self._check(held)
        schedule = Schedule.of_this_thread()
        taken = self._lock.acquire(blocking, timeout) if schedule is None else schedule.take(self, blocking)
        if taken:
            held.append(self)
        return taken

    def _check(self, held: list[CheckedLock]) -> None:
        last = max(held, key=lambda lock: lock.rank)
        if last.rank < self.rank:
            return
        problem = f"{self.rank.name} is taken while {last.rank.name} is held"
        if last.rank == self.rank and self.rank in SEVERAL:
            same = [lock for lock in held if lock.rank == self.rank]
            for lock in same:
                lock.followers.add(self.number)
            if not any(lock.number in self.followers for lock in same):
                return
            problem = f"two locks of the rank {self.rank.name} are taken in both orders"
        FOUND.append(problem)
        raise LockOrderError(problem)

    def release(self) -> None:
        self._lock.release()
        held = held_locks()
        for position in range(len(held) - 1, -1, -1):
            if held[position] is self:
                del held[position]
                break
        if (schedule := Schedule.of_this_thread()) is not None:
            schedule.give(self)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _is_owned(self) -> bool:
        return self._lock._is_owned()  # type: ignore[attr-defined]

    def _at_fork_reinit(self) -> None:
        self._lock._at_fork_reinit()  # type: ignore[attr-defined]


class DeadlockError(AssertionError):
    """Each thread of a schedule waits for a lock of another one."""


class Schedule:
    """Threads of which one runs at a time. A seed decides where they switch: the same seed gives the same run.

    They may switch before and after each operation on a lock, at each :meth:`point` (a request to a store), and,
    with a probability, between any two instructions of some modules. A lock that is missing shows within a few seeds.

    Parameters
    ----------
    seed : int
    *files : str
        Ends of the paths of modules.
    rate : float
        The probability of a switch between two instructions of these modules.
    """

    def __init__(self, seed: int, *files: str, rate: float = 0.1) -> None:
        self._random = Random(seed)
        self._files = files
        self._rate = rate
        #: What each thread waits for while another one runs.
        self._turns: dict[int, threading.Semaphore] = {}
        #: The locks for which threads wait.
        self._wanted: dict[int, CheckedLock] = {}
        self._is_stuck = False

    @staticmethod
    def of_this_thread() -> Schedule | None:
        return getattr(_here, "schedule", None)

    @staticmethod
    def point() -> None:
        """Switch, perhaps, if a schedule runs this thread."""
        if (schedule := Schedule.of_this_thread()) is not None:
            schedule.switch()

    def run(self, works: list[Callable[[], object]]) -> None:
        """Run functions, each in a thread, to the end, and raise the first error."""
        errors: list[BaseException] = []
        threads = [
            threading.Thread(target=self._work, args=(number, work, errors))
            for number, work in enumerate(works)
        ]
        self._turns = {number: threading.Semaphore(0) for number in range(len(works))}
        for thread in threads:
            thread.start()
        self._turns[self._random.randrange(len(works))].release()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    def _work(self, number: int, work: Callable[[], object], errors: list[BaseException]) -> None:
        _here.number = number
        self._turns[number].acquire()
        _here.schedule = self
        sys.settrace(self._trace)
        try:
            work()
        except BaseException as error:
            errors.append(error)
        finally:
            sys.settrace(None)
            _here.schedule = None
            del self._turns[number]
            if self._turns:
                self._turns[self._next()].release()

    def _next(self) -> int:
        able = [number for number in self._turns if number not in self._wanted]
        if not able:
            self._is_stuck = True
            self._wanted.clear()
            able = list(self._turns)
        return self._random.choice(able)

    def switch(self) -> None:
        """Let another thread run, or go on."""
        chosen = self._next()
        if chosen != _here.number:
            self._turns[chosen].release()
            self._turns[_here.number].acquire()
        if self._is_stuck:
            raise DeadlockError(f"each thread waits for a lock of another one; this one holds {held_locks()}")

    def take(self, lock: CheckedLock, blocking: bool) -> bool:
        self.switch()
        while not lock._lock.acquire(blocking=False):
            if not blocking:
                return False
            self._wanted[_here.number] = lock
            self.switch()
        return True

    def give(self, lock: CheckedLock) -> None:
        self._wanted = {number: wanted for number, wanted in self._wanted.items() if wanted is not lock}
        if not self._is_stuck:
            self.switch()

    def _trace(self, frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        if not frame.f_code.co_filename.endswith(self._files):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and self._random.random() < self._rate:
            self.switch()
        return self._trace


def held_locks() -> list[CheckedLock]:
    """Return the locks that this thread holds, in the order in which it has taken them."""
    try:
        return _here.held
    except AttributeError:
        _here.held = []
        return _here.held


@contextmanager
def apart() -> Iterator[None]:
    """Check what a test does inside a patched function by itself, as if another program did it."""
    held, _here.held = held_locks(), []
    try:
        yield
    finally:
        _here.held = held


def install() -> None:
    """Check all locks that are made from now on, and those of the module that makes them."""
    if locks._make is CheckedLock:
        return
    locks._make = CheckedLock  # type: ignore[assignment]
    locks.TABLES = locks.make_lock(Rank.TABLE)

"""Check the order in which threads take locks: never one of a lower rank while they hold one of a higher rank.

:func:`install` replaces the locks of nczarr, before any is made. Locks of one rank are taken together only where the
rank says so (:data:`SEVERAL`), and then always in the same order. Each wrong order raises :class:`LockOrderError`, and
is kept in :data:`FOUND`, in case the program catches the error.
"""

from __future__ import annotations

import itertools
import threading
import time
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
        taken = self._lock.acquire(blocking, timeout)
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
                return

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


@contextmanager
def switching(seed: int, *files: str, rate: float = 0.03) -> Iterator[None]:
    """Let new threads pause between the instructions of some modules, at random: a lock that is missing shows soon.

    By itself, the interpreter switches threads at calls and loops only.
    """
    random = Random(seed)

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        if not frame.f_code.co_filename.endswith(files):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and random.random() < rate:
            time.sleep(1e-6)
        return trace

    threading.settrace(trace)
    try:
        yield
    finally:
        threading.settrace(None)  # type: ignore[arg-type]


def install() -> None:
    """Check all locks that are made from now on, and those of the module that makes them."""
    if locks._make is CheckedLock:
        return
    locks._make = CheckedLock  # type: ignore[assignment]
    locks.TABLES = locks.make_lock(Rank.TABLE)

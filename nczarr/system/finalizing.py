"""Close what a program drops without closing it, never inside the garbage collector.

The collector may run at any instruction of any thread, under any lock. A finalizer therefore only puts the work on a
queue. The queue is emptied at the next opening, sync or close of a dataset, and when Python ends. An object whose
last reference a program drops is closed at once, where this thread runs no code of nczarr, and so holds none of its
locks.
"""

from __future__ import annotations

import atexit
import functools
import gc
import sys
import threading
import weakref
from queue import Empty, SimpleQueue
from typing import Any, NoReturn, Protocol

from nczarr.system.forks import in_forked_child
from nczarr.system.warning import warn


class Closable(Protocol):
    """Object that is closed by its owner."""

    def close(self) -> None:
        """Release what the object holds."""


class OwnedResource(Protocol):
    """Object that a finalizer closes instead of its owner; it holds no reference to the owner."""

    @property
    def name(self) -> str:
        """The name in messages."""

    @property
    def is_unstored(self) -> bool:
        """True if closing has something to write. No lock is taken."""

    def close_dropped(self) -> None:
        """Close; do nothing if it is closed."""


#: Dropped objects that are not closed yet.
_dropped: SimpleQueue[OwnedResource] = SimpleQueue()
#: Objects that are closed when Python ends.
_at_exit: set[OwnedResource] = set()
#: The parent's queues, in a forked child: the child must not close what is in them, nor free it.
_of_parents: list[SimpleQueue[OwnedResource]] = []
#: True if an object could not be closed: the exit status says so.
_failed = False
_here = threading.local()


def _note_collection(phase: str, info: dict[str, int]) -> None:
    _here.collecting = phase == "start"


gc.callbacks.append(_note_collection)


@in_forked_child
def _leave_to_parent() -> None:
    global _dropped, _failed
    _of_parents.append(_dropped)
    _dropped = SimpleQueue()
    _failed = False
    _register.cache_clear()


def close_with(owner: Any, closable: OwnedResource, *, at_exit: bool = False) -> None:
    """Close an object after its owner has gone, and, with `at_exit`, at the latest when Python ends.

    Examples
    --------
    >>> class Owner: pass
    >>> class File:
    ...     name, is_unstored = "example", False
    ...     def close_dropped(self):
    ...         print("closed")
    >>> owner = Owner()
    >>> close_with(owner, File())
    >>> del owner
    closed
    """
    weakref.finalize(owner, _drop, closable).atexit = False
    if at_exit:
        _at_exit.add(closable)
        _register()


def closed(closable: OwnedResource) -> None:
    """Note that an object is closed: nothing is left to do when Python ends."""
    _at_exit.discard(closable)


def close_dropped() -> None:
    """Close all that was dropped. A thread calls it where it holds no lock of nczarr.

    An object that cannot be closed does not concern the caller: its error goes to :func:`sys.unraisablehook`.
    """
    while not _is_collecting():
        try:
            closable = _dropped.get_nowait()
        except Empty:
            return
        _close(closable)


def _drop(closable: OwnedResource) -> None:
    """Finalize: warn, and close where that is safe, otherwise later."""
    at_once = _may_close_here()
    if not at_once:
        _dropped.put(closable)
    try:
        if closable.is_unstored:
            text = f"the dataset {closable.name} was dropped without close(), and is stored now or later"
            warn(text, ResourceWarning)
    finally:
        if at_once:
            _close(closable)


def _is_collecting() -> bool:
    return getattr(_here, "collecting", False)


def _may_close_here() -> bool:
    """True if a program dropped the last reference, outside the collector and outside nczarr."""
    # Without the interpreter lock, a thread frees what other threads have dropped at any instruction.
    if _is_collecting() or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        name = frame.f_globals.get("__name__")
        if isinstance(name, str) and name.startswith("nczarr.") and name != __name__:
            return False
    return True


def _close(closable: OwnedResource) -> None:
    try:
        closable.close_dropped()
    except BaseException as error:
        _report(closable.name, error)
        if not isinstance(error, Exception):
            raise
    finally:
        closed(closable)


def _report(name: str, error: BaseException) -> None:
    """Give an error that no caller can catch to :func:`sys.unraisablehook`."""
    global _failed
    _failed = True
    # Python calls the hook for what a callback raises; a program cannot make the hook's arguments.
    owner: set[None] = set()
    reference = weakref.ref(owner, _Raise(name, error))
    del owner, reference


class _Raise:
    def __init__(self, name: str, error: BaseException) -> None:
        self.name, self.error = name, error

    def __call__(self, reference: object) -> NoReturn:
        raise self.error

    def __repr__(self) -> str:
        return f"the closing of the dataset {self.name}, which the program left open; not all of it is stored"


class _Failing:
    """Stand for ``sys.stderr`` while Python ends: its last flush fails, so that the exit status is 120."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def flush(self) -> NoReturn:
        self._stream.flush()
        raise OSError("a dataset could not be stored")


@functools.cache
def _register() -> None:
    atexit.register(_close_all)
    multiprocessing = sys.modules.get("multiprocessing.util")
    if multiprocessing is not None and sys.modules["multiprocessing"].parent_process() is not None:
        # A worker that was forked ends without calling the functions of atexit.
        multiprocessing.Finalize(None, _close_all, exitpriority=-100)


def _close_all() -> None:
    close_dropped()
    for closable in list(_at_exit):
        _close(closable)
    if _failed and sys.stderr is not None:
        # Python sets the status 120 if it cannot flush a standard stream; no other way leads to a status here.
        sys.stderr = _Failing(sys.stderr)

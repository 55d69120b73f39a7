"""Let many threads move values at once, and one alone change where the values are."""

from __future__ import annotations

import threading


class Gate:
    """A lock that is shared by those who pass, and exclusive for the one who closes it.

    Who waits to close it comes before who comes to pass. The thread that has closed it may close it again, or
    pass; who passes must not close it.

    Examples
    --------
    >>> gate = Gate()
    >>> with gate:
    ...     "values are read or written"
    'values are read or written'
    >>> with gate.closed():
    ...     "the store is changed"
    'the store is changed'
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._condition = threading.Condition(self._mutex)
        self._passing = 0
        self._closing = 0
        self._owner = 0
        self._depth = 0

    def __enter__(self) -> None:
        with self._mutex:
            if self._closing and self._owner != threading.get_ident():
                while self._closing:
                    self._condition.wait()
            self._passing += 1

    def __exit__(self, *error: object) -> None:
        with self._mutex:
            self._passing -= 1
            if self._closing:
                self._condition.notify_all()

    def closed(self) -> Closed:
        """Wait until nobody passes, and keep it so."""
        return Closed(self)

    def close(self) -> None:
        """Wait until nobody passes, and let nobody pass until :meth:`open`."""
        me = threading.get_ident()
        with self._mutex:
            if self._owner != me:
                self._closing += 1
                try:
                    while self._passing or self._owner:
                        self._condition.wait()
                except BaseException:
                    self._closing -= 1
                    self._condition.notify_all()
                    raise
                self._owner = me
            self._depth += 1

    def open(self) -> None:
        """Undo one :meth:`close`."""
        with self._mutex:
            self._depth -= 1
            if not self._depth:
                self._owner = 0
                self._closing -= 1
                self._condition.notify_all()


class Closed:
    """A gate that is closed as long as the context lasts."""

    __slots__ = ("_gate",)

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def __enter__(self) -> None:
        self._gate.close()

    def __exit__(self, *error: object) -> None:
        self._gate.open()

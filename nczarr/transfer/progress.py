"""Report the progress of a copy to its caller."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives the progress of a copy; the methods are called from one thread."""

    def start(self, total: int) -> None:
        """The copy begins; `total` is the number of bytes to move."""

    def advance(self, count: int, fqn: str) -> None:
        """`count` more bytes, of the variable `fqn`, are written."""

    def finish(self) -> None:
        """The copy has ended, well or not."""


class NoProgress:
    """Tells nobody."""

    def start(self, total: int) -> None:
        """Do nothing."""

    def advance(self, count: int, fqn: str) -> None:
        """Do nothing."""

    def finish(self) -> None:
        """Do nothing."""


class PartOfProgress:
    """Passes on what parts of a job report, for a job that has begun with the total of all."""

    def __init__(self, whole: Progress) -> None:
        self._whole = whole

    def start(self, total: int) -> None:
        """Do nothing: the job has begun."""

    def advance(self, count: int, fqn: str) -> None:
        """Pass it on."""
        self._whole.advance(count, fqn)

    def finish(self) -> None:
        """Do nothing: other parts follow."""

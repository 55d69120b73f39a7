"""Tell a reader that another dataset has replaced the one it opened, in a store that cannot rename.

A writer that replaces a dataset first writes one more key, the *notice*, and then waits until the service gives later
times. Values written up to the time of the notice belong to the old dataset, later ones to the new one. Object stores
and web servers send the time of each value: a reader looks for the notice only after a value that is newer than all
before. Programs that copy a dataset give its keys times in any order; so a notice counts only if the document that was
read first has another time by then.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from nczarr.errors import StoreError
from nczarr.system.locks import TABLES

#: The key of the notice.
REPLACED = ".nczarr-replaced"
_WORDS = (
    b"Another dataset took the place of the one that was here. Readers tell the two apart by this file.\n"
)

#: Seconds that a writer waits after the notice: services count whole seconds.
WAIT = 1.1
#: Maximum difference between the clocks of a service and of this machine. S3 refuses requests beyond it.
_SKEW = timedelta(minutes=15)


def new_notice() -> bytes:
    """Return a notice that differs from all others."""
    return _WORDS + os.urandom(16).hex().encode() + b"\n"


def is_notice(value: bytes | None) -> bool:
    """Return whether a value is a notice; servers may answer with anything for a key that they do not have.

    Examples
    --------
    >>> is_notice(new_notice()), is_notice(b"<html>"), is_notice(None)
    (True, False, False)
    """
    return value is not None and value.startswith(_WORDS)


def replaced_error(url: str) -> StoreError:
    """Return the error for a reader of a dataset that does not exist any more."""
    return StoreError(
        "the dataset was replaced, moved or removed since it was opened", path=url, hint="open it again"
    )


@dataclass
class Opened:
    """The times of a dataset that was opened: of the key that was read first, and the oldest time of all."""

    key: str = ""
    written: datetime | None = None
    oldest: datetime | None = None
    confirmed: datetime | None = None


class WriteTimes:
    """The times at which the values of a store were written, as far as they were read here.

    Examples
    --------
    >>> times, noon = WriteTimes(), datetime(2024, 5, 1, 12, tzinfo=UTC)
    >>> times.note("zarr.json", noon)
    >>> opened = times.opened
    >>> times.unchecked() is None, times.is_doubtful(opened)
    (True, False)
    >>> times.note("v/c/0", noon + timedelta(seconds=3))
    >>> times.check(times.unchecked(), noon + timedelta(seconds=1))
    >>> times.unchecked() is None, times.is_doubtful(opened)
    (True, True)
    """

    def __init__(self) -> None:
        #: Times since the last opening of a dataset began.
        self.opened = Opened()
        self._newest: datetime | None = None
        self._checked: datetime | None = None
        self._noticed: datetime | None = None

    def restart(self) -> Opened:
        """Begin the times of a dataset that is being opened."""
        self.opened = Opened()
        return self.opened

    def note(self, key: str, written: datetime) -> None:
        """Record the time of a value."""
        with TABLES:
            opened = self.opened
            if opened.written is None:
                opened.key, opened.written = key, written
            opened.oldest = min(written, opened.oldest or written)
            if self._newest is None:
                # All others are compared with the first value, the root's document.
                self._newest = self._checked = written
            elif written > self._newest:
                self._newest = written

    def unchecked(self) -> datetime | None:
        """Return the newest time, if nothing has looked for a notice since; else None."""
        if self._newest is None or self._checked is None or self._newest <= self._checked:
            return None
        return self._newest

    def check(self, newest: datetime, noticed: datetime | None) -> None:
        """Record the time of the last notice, None if there is none, as seen after a value of the time `newest`."""
        self._noticed = noticed
        # A later replacement gets times after the current time of the service's clock.
        self._checked = max(newest, datetime.now(UTC) - _SKEW)

    def is_doubtful(self, opened: Opened) -> bool:
        """Return whether a notice came after the values of a dataset, and was not confirmed as harmless since."""
        oldest, noticed = opened.oldest, self._noticed
        if oldest is None or noticed is None or oldest > noticed:
            return False
        return opened.confirmed != self._checked

    def confirm(self, opened: Opened) -> None:
        """Record that the first document of a dataset has not changed."""
        opened.confirmed = self._checked

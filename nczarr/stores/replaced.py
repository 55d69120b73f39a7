"""Tell a reader that another dataset has taken the place of the one it opened, in a store that cannot rename.

Whoever replaces a dataset writes one more key, the *notice*, before anything else is changed, and then waits until
the service gives later times. So whatever was written up to the time of the notice belongs to the old dataset, and
whatever was written later to the new one. Object stores and web servers say with every answer when the value was
written: a reader has to look for the notice only when it gets a value that is newer than all before. Programs that
copy a dataset from one place to another give its keys times in any order; so a notice counts only if the document that
was read first when the dataset was opened has another time by then.
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
#: How far the clock of a service may be from ours. S3 refuses requests from clocks that are further off.
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
    """Return the error for a reader whose dataset has gone."""
    return StoreError(
        "the dataset was replaced, moved or removed since it was opened", path=url, hint="open it again"
    )


@dataclass
class Opened:
    """What a reader knows of the dataset that it opened: what it read first, and the oldest of all times."""

    key: str = ""
    written: datetime | None = None
    oldest: datetime | None = None
    confirmed: datetime | None = None

    def note(self, key: str, written: datetime) -> None:
        """Note when a value was written."""
        if self.written is None:
            self.key, self.written = key, written
        if self.oldest is None or written < self.oldest:
            self.oldest = written


class Times:
    """When the values of a store were written, as far as they were read here.

    Examples
    --------
    >>> times, noon = Times(), datetime(2024, 5, 1, 12, tzinfo=UTC)
    >>> times.note("zarr.json", noon)
    >>> opened = times.opened()
    >>> times.unsettled() is None, times.doubted(opened)
    (True, False)
    >>> times.note("v/c/0", noon + timedelta(seconds=3))
    >>> times.settle(times.unsettled(), noon + timedelta(seconds=1))
    >>> times.unsettled() is None, times.doubted(opened)
    (True, True)
    """

    def __init__(self) -> None:
        self._opened = Opened()
        self._newest: datetime | None = None
        self._settled: datetime | None = None
        self._noticed: datetime | None = None

    def restart(self) -> None:
        """Note that a dataset is being opened."""
        self._opened = Opened()

    def opened(self) -> Opened:
        """Return what was read since a dataset was last being opened."""
        return self._opened

    def note(self, key: str, written: datetime) -> None:
        """Note when a value was written."""
        with TABLES:
            self._opened.note(key, written)
            if self._newest is None:
                # The first value, the root's document, is what all others are compared with.
                self._newest = self._settled = written
            elif written > self._newest:
                self._newest = written

    def unsettled(self) -> datetime | None:
        """Return the newest time, if the notice was not looked for since there is one as new; else None."""
        if self._newest is None or self._settled is None or self._newest <= self._settled:
            return None
        return self._newest

    def settle(self, newest: datetime, noticed: datetime | None) -> None:
        """Note when the last notice was written, if there is one: it was looked for after values of a time had come."""
        self._noticed = noticed
        # What will be replaced from now on gets times later than the clock of the service shows now.
        self._settled = max(newest, datetime.now(UTC) - _SKEW)

    def doubted(self, opened: Opened) -> bool:
        """Return whether the notice came after what was read of a dataset, and nobody has looked at that since."""
        oldest, noticed = opened.oldest, self._noticed
        if oldest is None or noticed is None or oldest > noticed:
            return False
        return opened.confirmed != self._settled

    def confirm(self, opened: Opened) -> None:
        """Note that the first document of a dataset is the same as ever."""
        opened.confirmed = self._settled

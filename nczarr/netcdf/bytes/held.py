"""Hold bytes back that a file shall get, and say in which order it gets them.

HDF5 writes its own books when it likes and in the order of their places. A process that is killed in between leaves a
file whose parts do not fit together. Bytes that are held back until all is known can be written so that each part
finds what it speaks of: see :meth:`HeldBytes.inside`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

#: What a version 2 header of an object begins with, and one of its continuations.
_HEADERS = (b"OHDR", b"OCHK")
#: What a heap of strings and sequences begins with.
_TEXTS = b"GCOL"


class HeldBytes:
    """Bytes at places of a file, none of them twice.

    Examples
    --------
    >>> held = HeldBytes()
    >>> held.put(0, b"abcd")
    >>> held.put(2, b"xyz")
    >>> held.inside(100), held.behind(100), held.size
    ([(0, b'abxyz')], [], 5)
    """

    def __init__(self) -> None:
        self._parts: dict[int, bytes] = {}
        self._starts: list[int] = []
        #: Bytes that are held.
        self.size = 0

    def __bool__(self) -> bool:
        return bool(self._parts)

    def put(self, place: int, data: bytes) -> None:
        """Hold bytes, in place of older ones."""
        before = self._parts.get(place)
        if before is not None and len(before) == len(data):
            self._parts[place] = data
            return
        concerned = self._within(place, place + len(data))
        if concerned:
            first = min(place, concerned[0])
            end = max(place + len(data), *(start + len(self._parts[start]) for start in concerned))
            joined = bytearray(end - first)
            for start in concerned:
                old = self.take(start)
                joined[start - first : start - first + len(old)] = old
            joined[place - first : place - first + len(data)] = data
            place, data = first, bytes(joined)
        self._parts[place] = data
        self.size += len(data)
        if self._starts and place < self._starts[-1]:
            insort(self._starts, place)
        else:
            self._starts.append(place)

    def take(self, start: int) -> bytes:
        """The bytes that begin at a place; they are held no more."""
        data = self._parts.pop(start)
        self.size -= len(data)
        del self._starts[bisect_left(self._starts, start)]
        return data

    def covers(self, place: int, size: int) -> bool:
        """True if some of the bytes are held."""
        return bool(self._parts) and bool(self._within(place, place + size))

    def lay_over(self, place: int, view: memoryview) -> None:
        """Put what is held into bytes that were read from the file."""
        for start in self._within(place, place + len(view)):
            data = self._parts[start]
            low, high = max(start, place), min(start + len(data), place + len(view))
            view[low - place : high - place] = data[low - start : high - start]

    def _within(self, low: int, high: int) -> list[int]:
        """The parts that have bytes in a range."""
        starts = self._starts
        if not starts or starts[-1] + len(self._parts[starts[-1]]) <= low or high <= starts[0]:
            return []
        first = bisect_right(starts, low) - 1
        if first < 0 or starts[first] + len(self._parts[starts[first]]) <= low:
            first += 1
        return starts[first : bisect_left(starts, high)]

    def behind(self, end: int) -> list[tuple[int, bytes]]:
        """What is behind a place; parts that lie side by side are one."""
        found: list[tuple[int, bytes]] = []
        run: list[bytes] = []
        first = stop = end
        for start in self._starts[bisect_left(self._starts, end) :]:
            if start != stop and run:
                found.append((first, b"".join(run)))
                run = []
            if not run:
                first = start
            run.append(self._parts[start])
            stop = start + len(run[-1])
        return [*found, (first, b"".join(run))] if run else found

    def inside(self, end: int) -> list[tuple[int, bytes]]:
        """What begins before a place: the superblock, indexes of chunks and values, the headers of objects.

        In this order a file that was consistent, and has got what is behind its end, stays so: the superblock says
        where the file ends, and the headers say last how much of all that there is. Of an index that is split, the
        upper node comes first: it has the lower place.
        """
        parts = [(start, self._parts[start]) for start in self._starts[: bisect_left(self._starts, end)]]
        parts.sort(key=lambda part: _rank(*part))
        return parts


def _rank(place: int, data: bytes) -> int:
    if not place:
        return 0
    if data.startswith(_TEXTS):
        return 1
    return 3 if data.startswith(_HEADERS) else 2

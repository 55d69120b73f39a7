"""Keep the pending bytes of a file, and determine the order in which they are written.

HDF5 writes its metadata at any time and in the order of file offsets. A process that is killed between two
such writes leaves a file whose parts do not match. Pending bytes are written later in an order in which each
part refers only to bytes that are in the file: see :meth:`HeldBytes.inside`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

#: The signatures of a version 2 object header and of its continuation block.
_HEADERS = (b"OHDR", b"OCHK")
#: The signature of a heap of strings and sequences.
_TEXTS = b"GCOL"


class HeldBytes:
    """Pending bytes at offsets of a file, without overlaps.

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
        #: Number of pending bytes.
        self.size = 0

    def __bool__(self) -> bool:
        return bool(self._parts)

    def put(self, place: int, data: bytes) -> None:
        """Add bytes. They replace older bytes at the same offsets."""
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
        """Remove and return the bytes that begin at an offset."""
        data = self._parts.pop(start)
        self.size -= len(data)
        del self._starts[bisect_left(self._starts, start)]
        return data

    def covers(self, place: int, size: int) -> bool:
        """Return True if any byte of the range is pending."""
        return bool(self._parts) and bool(self._within(place, place + size))

    def lay_over(self, place: int, view: memoryview) -> None:
        """Copy pending bytes over a buffer that was read from the file."""
        for start in self._within(place, place + len(view)):
            data = self._parts[start]
            low, high = max(start, place), min(start + len(data), place + len(view))
            view[low - place : high - place] = data[low - start : high - start]

    def _within(self, low: int, high: int) -> list[int]:
        """Return the parts that overlap a range."""
        starts = self._starts
        if not starts or starts[-1] + len(self._parts[starts[-1]]) <= low or high <= starts[0]:
            return []
        first = bisect_right(starts, low) - 1
        if first < 0 or starts[first] + len(self._parts[starts[first]]) <= low:
            first += 1
        return starts[first : bisect_left(starts, high)]

    def behind(self, end: int) -> list[tuple[int, bytes]]:
        """Return the parts behind an offset, with adjacent parts joined."""
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
        """Return the parts before an offset, ordered: superblock, indexes, values, object headers.

        In this order, a consistent file that has received the bytes behind its end stays consistent. The
        superblock states where the file ends. The object headers state the counts, and come last. Of a split
        index, the upper node has the lower offset and comes first.
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

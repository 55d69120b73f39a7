"""Keep the documents of nodes as text, so that consolidated metadata can be written without encoding all anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: Texts beyond this are not kept.
_MOST_BYTES = 16 << 20


class Texts:
    """The text of each document, as long as the document is the same object.

    Examples
    --------
    >>> texts, document = Texts(), {"zarr_format": 3}
    >>> texts.keep("v", document, b"{}")
    >>> texts.get("v", document, lambda: b"made"), texts.get("v", {"zarr_format": 3}, lambda: b"made")
    (b'{}', b'made')
    """

    def __init__(self) -> None:
        self._texts: dict[str, tuple[dict[str, Any], bytes]] = {}
        self._bytes = 0

    def keep(self, path: str, document: dict[str, Any], text: bytes) -> None:
        """Remember the text of a node's document."""
        before = self._texts.pop(path, None)
        if before is not None:
            self._bytes -= len(before[1])
        if self._bytes + len(text) <= _MOST_BYTES:
            self._texts[path] = document, text
            self._bytes += len(text)

    def get(self, path: str, document: dict[str, Any], make: Callable[[], bytes]) -> bytes:
        """Return the text of a node's document, made now if it is not known."""
        known = self._texts.get(path)
        if known is not None and known[0] is document:
            return known[1]
        text = make()
        self.keep(path, document, text)
        return text

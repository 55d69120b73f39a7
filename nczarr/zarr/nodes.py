"""The nodes of a hierarchy: documents by path, parsed when they are looked up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nczarr.stores import Store
from nczarr.zarr.hierarchy.layout import Layout, RawNode
from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata

Metadata = ArrayMetadata | GroupMetadata


class Nodes(Mapping[str, Metadata]):
    """The metadata of all nodes by path, parsed on first use; parents come before children."""

    def __init__(self, store: Store, layout: Layout, raw: dict[str, RawNode]) -> None:
        self._store = store
        self._layout = layout
        self._raw = raw
        self._parsed: dict[str, Metadata] = {}

    def __getitem__(self, path: str) -> Metadata:
        parsed = self._parsed.get(path)
        if parsed is None:
            # No lock: two threads may parse the same document, with equal results.
            parsed = self._layout.parse(self._raw[path], path, self._store)
            self._parsed[path] = parsed
        return parsed

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._raw))  # another thread may add nodes meanwhile

    def __len__(self) -> int:
        return len(self._raw)

    def __contains__(self, path: object) -> bool:
        return path in self._raw

    def is_array(self, path: str) -> bool:
        """True if the node is an array; its metadata are not parsed."""
        return self._raw[path].is_array

    def documents(self, path: str) -> dict[str, dict[str, Any]]:
        """Return the node's documents by key, as they are in the store; not to be changed."""
        return self._raw[path].documents

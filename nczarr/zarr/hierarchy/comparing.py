"""Compare the documents of a hierarchy with what other programs have stored since."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from nczarr.errors import DatasetNotFoundError, NCZarrError, StoreError
from nczarr.zarr.documents import consolidated
from nczarr.zarr.hierarchy.layout import Documents, Found, Layout, RawNode
from nczarr.zarr.metadata import ArrayMetadata, are_stored_alike
from nczarr.zarr.types.base import JsonObject

#: The keys that define the stored bytes of an array, in any version of Zarr.
_STORAGE = frozenset({
    "chunk_grid", "chunk_key_encoding", "chunk_memory_layout", "chunks", "codecs", "compressor", "data_type",
    "dimension_separator", "dtype", "fill_value", "filters", "node_type", "order", "storage_transformers",
    "zarr_format",
})  # fmt: skip


def confirm_array(layout: Layout, path: str, known: RawNode) -> None:
    """Check that an array still exists and still has the storage of its known document.

    Raises
    ------
    StoreError
        If another program has removed, renamed or replaced the array.
    """
    if layout.is_unchanged(path, known):
        return
    found = layout.fetch([path]).get(path)
    if found is None and known.consolidated:
        # Some programs write only the consolidated metadata, without the original documents.
        with suppress(DatasetNotFoundError):
            found = layout.discover(True).nodes.get(path)
    if found is not None and _storage_of(found) == _storage_of(known):
        return
    # zarr-python adds empty lists and tensorstore omits defaults when they rewrite a document.
    new = None if found is None else layout.parse(found, path)
    old = None if new is None else layout.parse(known, path)
    alike = isinstance(old, ArrayMetadata) and isinstance(new, ArrayMetadata) and are_stored_alike(old, new)
    if not alike:
        raise StoreError(
            "the array was removed, renamed or replaced since the dataset was opened",
            path=layout.store.url,
            fqn=f"/{path}",
            hint="open the dataset again",
        )


def _storage_of(node: RawNode) -> list[JsonObject]:
    """Return the parts of an array's documents that define its stored bytes.

    The shape and the dimension names of an array may change.
    """
    return [
        {name: value for name, value in document.items() if name in _STORAGE}
        for key, document in sorted(node.documents.items())
        if not key.endswith(".zattrs")
    ]


def consolidated_differences(layout: Layout) -> Iterator[str]:
    """Yield the differences between the stored consolidated metadata and the documents of the nodes."""
    try:
        copy = layout.discover(True)
    except DatasetNotFoundError:
        return
    actual = layout.discover(False)
    if not actual.complete:
        actual.nodes.update(layout.fetch([path for path in copy.nodes if path not in actual.nodes]))
    for path, node in actual.nodes.items():
        # Documents may be equivalent: zarr-python writes defaults into its consolidated metadata.
        with suppress(NCZarrError):
            if path in copy.nodes and layout.parse(copy.nodes[path], path) == layout.parse(node, path):
                copy.nodes[path] = node
    yield from consolidated.differences(_flat(copy), _flat(actual))


def _flat(found: Found) -> Documents:
    return {
        key: {name: value for name, value in document.items() if name != "consolidated_metadata"}
        for node in found.nodes.values()
        for key, document in node.documents.items()
    }

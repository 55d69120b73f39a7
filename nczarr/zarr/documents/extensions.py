"""Let extensions of arrays and groups (ZEP 10) take part, and find them in a registry.

A document may list extensions; each has a name, a configuration, and ``must_understand``. nczarr refuses a node
with an extension that must be understood and is not registered, passes over the others, and keeps all of them
when the document is rewritten. An extension that *is* registered takes part: when metadata are read and written,
and when data are.

A package offers extensions with entry points of the group ``nczarr.extensions``: the entry point's name is the
extension's, its object an :class:`Extension` or a class of them. They are looked up when the first name comes
along that is not registered.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from nczarr.errors import ExtensionError
from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata, NamedConfig, parse_named_configs
from nczarr.zarr.plugins import Registry
from nczarr.zarr.types import bad

Metadata = TypeVar("Metadata", ArrayMetadata, GroupMetadata)


class Extension:
    """The base class of extensions; every hook does nothing until it is overridden.

    `entry` is always the extension's own entry in the document: name and configuration.

    Examples
    --------
    >>> class Title(Extension):
    ...     name = "example.title"
    ...     def on_metadata(self, metadata, entry):
    ...         metadata.attributes.setdefault("title", entry.configuration["title"])
    ...         return metadata
    """

    #: The name in documents.
    name: str = ""

    def on_metadata(
        self, metadata: ArrayMetadata | GroupMetadata, entry: NamedConfig
    ) -> ArrayMetadata | GroupMetadata:
        """Check or change metadata that were read; raise an :class:`ExtensionError` to refuse the node.

        The shape and all that says how chunks are stored must stay; a different shape for the user comes
        from `on_shape`.
        """
        return metadata

    def on_document(
        self, metadata: ArrayMetadata | GroupMetadata, entry: NamedConfig
    ) -> ArrayMetadata | GroupMetadata:
        """Undo `on_metadata` before a document is written."""
        return metadata

    def on_shape(self, array: Any, shape: tuple[int, ...], entry: NamedConfig) -> tuple[int, ...]:
        """Return the shape that users see, given the one below."""
        return shape

    def on_read(self, array: Any, selection: tuple[Any, ...], entry: NamedConfig) -> tuple[Any, ...]:
        """Turn a selection of what users see into one of what is below.

        Parameters
        ----------
        array : Array
            The array below.
        selection : tuple
            For each dimension an int, a slice with non-negative bounds and a positive step, or a sorted or
            unsorted array of indices (int64); all within the shape that users see.
        entry : NamedConfig
        """
        return selection

    def on_values(self, array: Any, values: Any, entry: NamedConfig) -> Any:
        """Change values that were read (a numpy array, which may be changed in place)."""
        return values

    def on_write(
        self, array: Any, selection: tuple[Any, ...], values: Any, entry: NamedConfig
    ) -> tuple[tuple[Any, ...], Any]:
        """Turn a selection and values to be written into those below; the default asks `on_read`."""
        return self.on_read(array, selection, entry), values


def _extension(loaded: Any) -> Extension:
    extension = loaded() if isinstance(loaded, type) else loaded
    if not isinstance(extension, Extension):
        raise TypeError("it is not an nczarr Extension")
    return extension


EXTENSIONS = Registry[Extension]("nczarr.extensions", "extension", ExtensionError, _extension)


def register_extension(extension: Extension) -> None:
    """Make an extension known under its name, in place of another of that name.

    Raises
    ------
    ExtensionError
        If it has no name.
    """
    if not extension.name:
        raise ExtensionError("an extension without a name cannot be registered")
    EXTENSIONS.register(extension.name, extension)


def unregister_extension(name: str) -> None:
    """Forget an extension; no error if it is not known."""
    EXTENSIONS.unregister(name)


def find_extension(name: str) -> Extension | None:
    """Return the extension of this name: registered, or offered by an installed package; else None.

    Raises
    ------
    ExtensionError
        If a package offers it and it cannot be loaded.

    Examples
    --------
    >>> find_extension("example.unknown")
    """
    return EXTENSIONS.find(name)


def parse_extensions(value: Any) -> tuple[NamedConfig, ...]:
    """Return the ``extensions`` list of a document.

    Raises
    ------
    MetadataError
        If it is not a list, or empty (ZEP 10: at least one entry, or no key).
    ExtensionError
        If one that must be understood is not known.
    """
    entries = parse_named_configs(value, "extensions")
    if not entries:
        raise bad("extensions: the list is empty; a document without extensions has no such key")
    for i, entry in enumerate(entries):
        if entry.must_understand and find_extension(entry.name) is None:
            raise ExtensionError(
                f"extensions[{i}]: the extension {entry.name!r} must be understood and is not known",
                hint=f"install a package with an entry point in the group {EXTENSIONS.group!r}",
            )
    return entries


def apply_on_metadata(metadata: Metadata) -> Metadata:
    """Run the `on_metadata` hooks of a node's extensions, in their order."""
    result: Any = metadata
    for extension, entry in active_extensions(metadata.extensions):
        result = extension.on_metadata(result, entry)
    return result


def apply_on_document(metadata: Metadata) -> Metadata:
    """Run the `on_document` hooks of a node's extensions, last first."""
    result: Any = metadata
    for extension, entry in reversed(active_extensions(metadata.extensions)):
        result = extension.on_document(result, entry)
    return result


def active_extensions(entries: Iterable[NamedConfig]) -> list[tuple[Extension, NamedConfig]]:
    """Return the known extensions among a node's entries, in their order."""
    return [(found, entry) for entry in entries if (found := find_extension(entry.name)) is not None]

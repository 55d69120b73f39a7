"""Run the hooks of extensions of arrays and groups (ZEP 10), and find extensions by name.

A document may list extensions; each has a name, a configuration, and ``must_understand``. nczarr refuses a node with
an unregistered extension that must be understood, ignores other unregistered ones, and keeps all of them when it
rewrites the document. The hooks of registered extensions run when metadata or data are read or written.

A package provides extensions by entry points of the group ``nczarr.extensions``. The name of the entry point is the
name of the extension; its object is an :class:`Extension` or a subclass. The first unregistered name triggers the
search for entry points.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from nczarr.compression import NamedConfig
from nczarr.errors import MetadataError
from nczarr.json_values import bad
from nczarr.system.warning import warn
from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata, parse_named_configs
from nczarr.zarr.plugins import Registry

Metadata = TypeVar("Metadata", ArrayMetadata, GroupMetadata)


class Extension:
    """The base class of extensions, whose hooks change nothing by default.

    The `entry` of each hook is the extension's entry in the document: name and configuration.

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
        """Check or change metadata after reading; raise a :class:`MetadataError` to refuse the node.

        The hook must not change the shape or the storage of chunks; `on_shape` changes the shape for users.
        """
        return metadata

    def on_document(
        self, metadata: ArrayMetadata | GroupMetadata, entry: NamedConfig
    ) -> ArrayMetadata | GroupMetadata:
        """Reverse `on_metadata` before a document is written."""
        return metadata

    def on_shape(self, array: Any, shape: tuple[int, ...], entry: NamedConfig) -> tuple[int, ...]:
        """Return the shape for users, given the stored shape."""
        return shape

    def on_read(self, array: Any, selection: tuple[Any, ...], entry: NamedConfig) -> tuple[Any, ...]:
        """Convert a selection of the array for users to a selection of the stored array.

        Parameters
        ----------
        array : Array
            The stored array.
        selection : tuple
            For each dimension an int, a slice with non-negative bounds and a positive step, or a sorted or
            unsorted array of indices (int64); all within the shape for users.
        entry : NamedConfig
        """
        return selection

    def on_values(self, array: Any, values: Any, entry: NamedConfig) -> Any:
        """Change values after reading: a numpy array, which the hook may change in place."""
        return values

    def on_write(
        self, array: Any, selection: tuple[Any, ...], values: Any, entry: NamedConfig
    ) -> tuple[tuple[Any, ...], Any]:
        """Convert a selection and its values before writing; by default, only the selection, by `on_read`."""
        return self.on_read(array, selection, entry), values


def _extension(loaded: object) -> Extension:
    extension = loaded() if isinstance(loaded, type) else loaded
    if not isinstance(extension, Extension):
        raise TypeError("the object is not an nczarr Extension")
    return extension


EXTENSIONS = Registry[Extension]("nczarr.extensions", "extension", MetadataError, _extension)


def register_extension(extension: Extension) -> None:
    """Register an extension under its name; it replaces an earlier one of that name.

    Raises
    ------
    MetadataError
        If the extension has no name.
    """
    if not extension.name:
        raise MetadataError(
            "an extension without a name cannot be registered", hint="set its attribute `name`"
        )
    EXTENSIONS.register(extension.name, extension)


def unregister_extension(name: str) -> None:
    """Remove an extension from the registry; unknown names are ignored."""
    EXTENSIONS.unregister(name)


def find_extension(name: str) -> Extension | None:
    """Return the extension of this name, registered or from an installed package; else None.

    Raises
    ------
    MetadataError
        If a package provides the extension, but loading it fails.

    Examples
    --------
    >>> find_extension("example.unknown")
    """
    return EXTENSIONS.find(name)


def parse_extensions(value: object) -> tuple[NamedConfig, ...]:
    """Return the ``extensions`` list of a document.

    Raises
    ------
    MetadataError
        If the value is not a list, or is empty (ZEP 10: at least one entry, or no key).
    MetadataError
        If an extension that must be understood is unknown.
    """
    entries = parse_named_configs(value, "extensions")
    # ZEP 10 requires at least one entry.
    if not entries:
        raise bad("extensions: the list is empty; a document without extensions must omit the key")
    for i, entry in enumerate(entries):
        # Such an extension may give the stored bytes another meaning.
        if entry.must_understand and find_extension(entry.name) is None:
            raise MetadataError(
                f"extensions[{i}]: the extension {entry.name!r} must be understood, but is unknown",
                hint=f"install a package that provides it in the entry point group {EXTENSIONS.group!r}",
            )
    return entries


def apply_on_metadata(metadata: Metadata) -> Metadata:
    """Run the `on_metadata` hooks of a node's extensions, in document order."""
    result: Any = metadata
    for extension, entry in active_extensions(metadata.extensions):
        result = extension.on_metadata(result, entry)
    return result


def apply_on_document(metadata: Metadata) -> Metadata:
    """Run the `on_document` hooks of a node's extensions, in reverse order."""
    result: Any = metadata
    # The hooks nest: the one that has read last undoes its change first.
    for extension, entry in reversed(active_extensions(metadata.extensions)):
        result = extension.on_document(result, entry)
    return result


def active_extensions(entries: Iterable[NamedConfig]) -> list[tuple[Extension, NamedConfig]]:
    """Return the known extensions of a node, in document order.

    A package that cannot be loaded is an error only where its extension must be understood: an extension that a reader
    may ignore never takes the node with it.
    """
    active = []
    for entry in entries:
        try:
            found = find_extension(entry.name)
        except MetadataError as error:
            # A node that may be read without the extension stays, also where its package is broken.
            if entry.must_understand:
                raise
            warn(f"{error.message}; the document allows to ignore it")
            continue
        if found is not None:
            active.append((found, entry))
    return active

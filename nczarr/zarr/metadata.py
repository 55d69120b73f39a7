"""Hold the metadata of arrays and groups: one form for Zarr v3, v2 and the drafts.

Documents of every version are turned into these classes when they are read, and written from them. Version 2's
filters, compressor and order become v3 codecs on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nczarr.zarr.chunk_keys import ChunkKeyEncoding
from nczarr.zarr.grids import ChunkGrid
from nczarr.zarr.types import DataType, bad, show


@dataclass(frozen=True)
class NamedConfig:
    """A codec, storage transformer or extension as a document names it.

    Parameters
    ----------
    name : str
    configuration : mapping
        JSON values; empty if the document has none.
    must_understand : bool
        False: a reader that does not know the name may go on without it.

    Examples
    --------
    >>> NamedConfig("gzip", {"level": 1}).to_json()
    {'name': 'gzip', 'configuration': {'level': 1}}
    >>> NamedConfig("crc32c").to_json()
    {'name': 'crc32c'}
    """

    name: str
    configuration: Mapping[str, Any] = field(default_factory=dict)
    must_understand: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return the object as a v3 document has it."""
        result: dict[str, Any] = {"name": self.name}
        # zarr-python refuses its own numcodecs names without a configuration, even an empty one.
        if self.configuration or self.name.startswith("numcodecs."):
            result["configuration"] = dict(self.configuration)
        if not self.must_understand:
            result["must_understand"] = False
        return result


def parse_named_config(value: Any, key: str) -> NamedConfig:
    """Return a codec, transformer or extension from JSON: an object, or a bare name.

    Raises
    ------
    MetadataError
        With the key path.

    Examples
    --------
    >>> parse_named_config("bytes", "codecs[0]")
    NamedConfig(name='bytes', configuration={}, must_understand=True)
    """
    if isinstance(value, str):
        if not value:
            raise bad(f"{key}: the name is empty")
        return NamedConfig(value)
    if not isinstance(value, dict):
        raise bad(f"{key}: {show(value)} is not an object with a name")
    name = value.get("name")
    if not isinstance(name, str) or not name:
        raise bad(f"{key}.name: {show(name)} is not a name")
    configuration = value.get("configuration", {})
    if not isinstance(configuration, dict):
        raise bad(f"{key}.configuration: {show(configuration)} is not an object")
    must_understand = value.get("must_understand", True)
    if not isinstance(must_understand, bool):
        raise bad(f"{key}.must_understand: {show(must_understand)} is not true or false")
    known = 1 + ("configuration" in value) + ("must_understand" in value)
    if len(value) != known:
        extra = sorted(set(value) - {"name", "configuration", "must_understand"})
        raise bad(f"{key}: the keys {show(extra)} are not known")
    return NamedConfig(name, configuration, must_understand)


def parse_named_configs(value: Any, key: str) -> tuple[NamedConfig, ...]:
    """Return a list of codecs, transformers or extensions from JSON."""
    if not isinstance(value, list):
        raise bad(f"{key}: {show(value)} is not a list")
    return tuple(parse_named_config(item, f"{key}[{i}]") for i, item in enumerate(value))


def inner_codecs(shards: NamedConfig) -> tuple[NamedConfig, ...]:
    """Return the codecs of the chunks inside shards, from the codec that makes the shards.

    Raises
    ------
    MetadataError
        If the configuration has no list of codecs.

    Examples
    --------
    >>> inner_codecs(NamedConfig("sharding_indexed", {"codecs": ["bytes", {"name": "gzip"}]}))[1].name
    'gzip'
    """
    found = shards.configuration.get("codecs")
    if not isinstance(found, list | tuple) or not found:
        raise bad(f"codec {shards.name!r}: codecs is missing")
    items = enumerate(found)
    return tuple(c if isinstance(c, NamedConfig) else parse_named_config(c, f"codecs[{i}]") for i, c in items)


@dataclass(frozen=True, eq=False)
class ArrayMetadata:
    """All that a document says about an array.

    Two objects are equal if they say the same, to the bit of the fill value; `origin` does not count.

    Parameters
    ----------
    shape : tuple of int
    data_type : DataType
    chunk_grid : ChunkGrid
    chunk_key_encoding : ChunkKeyEncoding
    fill_value
        A value of the data type; None if it is not defined (only in v2 and the draft).
    codecs : tuple of NamedConfig
        From array to stored bytes, in order of encoding.
    attributes : dict
        JSON values.
    dimension_names : tuple of (str or None), optional
    storage_transformers : tuple of NamedConfig
    extensions : tuple of NamedConfig
        The ``extensions`` list (ZEP 10), in order.
    extra : dict
        Keys of the document that the specification does not define but allows to be ignored; kept on
        rewriting. In v2 documents these are all unknown keys of ``.zarray``.
    origin : mapping, optional
        Parts of a v2 or draft document in their original spelling (``dtype``, ``filters``, …). A writer of the
        same version uses a part as it is wherever it still means what the metadata say.

    Examples
    --------
    >>> from nczarr.zarr.types import data_type_for
    >>> from nczarr.zarr.grids import RegularGrid
    >>> m = ArrayMetadata((4,), data_type_for("int32"), RegularGrid((2,)), fill_value=np.int32(0),
    ...                   codecs=(NamedConfig("bytes", {"endian": "little"}),))
    >>> m.ndim, int(m.fill)
    (1, 0)
    """

    shape: tuple[int, ...]
    data_type: DataType
    chunk_grid: ChunkGrid
    chunk_key_encoding: ChunkKeyEncoding = ChunkKeyEncoding()  # noqa: RUF009 (immutable)
    fill_value: Any = None
    codecs: tuple[NamedConfig, ...] = (NamedConfig("bytes", {"endian": "little"}),)
    attributes: dict[str, Any] = field(default_factory=dict)
    dimension_names: tuple[str | None, ...] | None = None
    storage_transformers: tuple[NamedConfig, ...] = ()
    extensions: tuple[NamedConfig, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)
    origin: Mapping[str, Any] | None = field(default=None, repr=False)

    @classmethod
    def _make(cls, **fields: Any) -> ArrayMetadata:
        """Return metadata with all fields given; the initialiser of a frozen dataclass takes much longer."""
        result = object.__new__(cls)
        result.__dict__.update(fields)
        return result

    def with_attributes(
        self, attributes: dict[str, Any], extra: dict[str, Any] | None = None
    ) -> ArrayMetadata:
        """Return the same metadata with other attributes, and perhaps keys; much cheaper than `dataclasses.replace`."""
        fields = self.__dict__.copy()
        fields["attributes"] = attributes
        if extra is not None:
            fields["extra"] = extra
        result = object.__new__(type(self))
        object.__setattr__(result, "__dict__", fields)
        return result

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype:
        """The numpy dtype in memory."""
        return self.data_type.dtype

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        """The shape of a chunk as the grid has it (of a shard, if there are shards)."""
        return self.chunk_grid.chunk_shape

    @property
    def fill(self) -> Any:
        """The value of elements that are not stored: `fill_value`, or zero where that is not defined."""
        return self.data_type.zero() if self.fill_value is None else self.fill_value

    def _storage_key(self) -> tuple[Any, ...]:
        fill = None if self.fill_value is None else self.data_type.fill_to_json(self.fill_value)
        if isinstance(fill, float) and fill == 0:
            fill = str(fill)  # -0.0 is not 0.0
        return (
            self.data_type,
            self.chunk_grid,
            self.chunk_key_encoding,
            fill,
            self.codecs,
            self.storage_transformers,
        )

    def _key(self) -> tuple[Any, ...]:
        return (
            self._storage_key(),
            self.shape,
            self.attributes,
            self.dimension_names,
            self.extensions,
            self.extra,
        )

    def _repr_html_(self) -> str:
        from nczarr.display import show_array
        from nczarr.zarr.describe import describe_metadata

        return show_array(describe_metadata(self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ArrayMetadata):
            return NotImplemented
        return self is other or self._key() == other._key()

    __hash__ = None  # type: ignore[assignment]


def are_stored_alike(a: ArrayMetadata, b: ArrayMetadata) -> bool:
    """True if the same bytes mean the same: all but the shape, the attributes and the names is equal."""
    return a._storage_key() == b._storage_key()


@dataclass(frozen=True)
class GroupMetadata:
    """All that a document says about a group.

    Parameters
    ----------
    attributes : dict
        JSON values.
    extensions : tuple of NamedConfig
        The ``extensions`` list (ZEP 10).
    extra : dict
        Keys that the specification does not define but allows to be ignored; kept on rewriting.

    Examples
    --------
    >>> GroupMetadata({"title": "run 42"}).attributes["title"]
    'run 42'
    """

    attributes: dict[str, Any] = field(default_factory=dict)
    extensions: tuple[NamedConfig, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        from nczarr.display import show_group
        from nczarr.zarr.describe import describe_group

        return show_group(describe_group(self, ""))

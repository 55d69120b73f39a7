"""Define the metadata of arrays and groups, in one form for Zarr v3, v2 and the drafts.

The documents of every version are converted to these classes on reading, and from them on writing. Version 2's filters,
compressor and order become v3 codecs.
"""

from __future__ import annotations

import marshal
from dataclasses import field
from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar

import numpy as np

from nczarr.compression import NamedConfig
from nczarr.dataclass import dataclass
from nczarr.json_values import (
    Json,
    JsonMapping,
    JsonObject,
    as_text,
    bad,
    checked_flag,
    checked_list,
    checked_name,
    checked_object,
    show,
)
from nczarr.rooms import Door
from nczarr.zarr.chunk_keys import ChunkKeyEncoding
from nczarr.zarr.grids import ChunkGrid
from nczarr.zarr.types import DataType, Scalar

if TYPE_CHECKING:
    from nczarr import display
    from nczarr.zarr import describe
else:
    describe, display = Door("nczarr.zarr.describe"), Door("nczarr.display")

Made = TypeVar("Made")


def parse_named_config(value: object, key: str) -> NamedConfig:
    """Return a codec, transformer or extension from JSON: an object, or a bare name; a NamedConfig is returned as is.

    Raises
    ------
    MetadataError
        If the value is invalid; the message has the key path.

    Examples
    --------
    >>> parse_named_config("bytes", "codecs[0]")
    NamedConfig(name='bytes', configuration={}, must_understand=True)
    """
    if isinstance(value, NamedConfig):
        return value
    if as_text(value):  # Zarr 3.1 allows a bare name for an object without a configuration
        return NamedConfig(as_text(value))
    value = checked_object(value, key, "an object with a name")
    name = checked_name(value.get("name"), f"{key}.name")
    configuration = checked_object(value.get("configuration", {}), f"{key}.configuration")
    must_understand = checked_flag(value.get("must_understand", True), f"{key}.must_understand")
    extra = value.keys() - {"name", "configuration", "must_understand"}
    # An unknown key may change what the bytes mean.
    if extra:
        raise bad(f"{key}: the keys {show(sorted(extra))} are unknown")
    return NamedConfig(name, configuration, must_understand)


def parse_named_configs(value: object, key: str) -> tuple[NamedConfig, ...]:
    """Return a list of codecs, transformers or extensions from JSON."""
    return tuple(parse_named_config(item, f"{key}[{i}]") for i, item in enumerate(checked_list(value, key)))


def inner_codecs(shards: NamedConfig) -> tuple[NamedConfig, ...]:
    """Return the codecs of inner chunks from the configuration of the sharding codec.

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
        raise bad(f"codec {shards.name!r}: codecs is missing or empty")
    return parse_named_configs(list(found), "codecs")


@dataclass(frozen=True, eq=False)
class ArrayMetadata:
    """The metadata of an array.

    Two objects are equal if all fields except `origin` are equal; fill values are compared bit by bit.

    Parameters
    ----------
    shape : tuple of int
    data_type : DataType
    chunk_grid : ChunkGrid
    chunk_key_encoding : ChunkKeyEncoding
    fill_value
        A value of the data type; None if undefined (only in v2 and the draft).
    codecs : tuple of NamedConfig
        The codecs in order of encoding.
    attributes : dict
        JSON values.
    dimension_names : tuple of (str or None), optional
    storage_transformers : tuple of NamedConfig
    extensions : tuple of NamedConfig
        The ``extensions`` list (ZEP 10), in order.
    extra : dict
        Keys outside the specification that readers may ignore; kept on rewriting. In v2 documents these are all
        unknown keys of ``.zarray``.
    origin : mapping, optional
        Parts of a v2 or draft document in their original spelling (``dtype``, ``filters``, …). A writer of the same
        version reuses each part that is still equivalent to the metadata.

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
    chunk_key_encoding: ChunkKeyEncoding = ChunkKeyEncoding()
    fill_value: Scalar | None = None
    codecs: tuple[NamedConfig, ...] = (NamedConfig("bytes", {"endian": "little"}),)
    attributes: JsonObject = field(default_factory=dict)
    dimension_names: tuple[str | None, ...] | None = None
    storage_transformers: tuple[NamedConfig, ...] = ()
    extensions: tuple[NamedConfig, ...] = ()
    extra: JsonObject = field(default_factory=dict)
    origin: JsonMapping | None = field(default=None, repr=False)
    #: The kind of the node, for both classes of metadata.
    is_array: ClassVar[Literal[True]] = True

    @classmethod
    def _make(cls, **fields: object) -> ArrayMetadata:
        """Return metadata from all fields, faster than the initialiser of a frozen dataclass."""
        result = object.__new__(cls)
        result.__dict__.update(fields)
        return result

    def with_attributes(self, attributes: JsonObject, extra: JsonObject | None = None) -> ArrayMetadata:
        """Return the metadata with other attributes, and optionally `extra`, faster than `dataclasses.replace`."""
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
        """The shape of the largest chunk or shard of the grid."""
        return self.chunk_grid.chunk_shape

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
        """The shapes of the chunks and of the shards that contain them; None without shards, or for damaged ones."""
        outer = self.chunk_shape
        names = [codec.name for codec in self.codecs]
        if names != ["sharding_indexed"] or not self.chunk_grid.is_regular:
            return outer, None
        inner = self.codecs[0].configuration.get("chunk_shape")
        if not isinstance(inner, list | tuple) or len(inner) != len(outer):
            return outer, None
        if any(type(n) is not int or n < 1 or m % n for n, m in zip(inner, outer, strict=True)):
            return outer, None
        return tuple(inner), outer

    @property
    def fill(self) -> Scalar:
        """The value of elements that are not stored: `fill_value`, or zero if it is undefined."""
        return self.data_type.zero() if self.fill_value is None else self.fill_value

    def _storage_key(self) -> tuple[object, ...]:
        # The text distinguishes -0.0 from 0.0.
        fill = None if self.fill_value is None else repr(self.data_type.fill_to_json(self.fill_value))
        return (
            self.data_type,
            self.chunk_grid,
            self.chunk_key_encoding,
            fill,
            self.codecs,
            self.storage_transformers,
        )

    def _key(self) -> tuple[object, ...]:
        return (
            self._storage_key(),
            self.shape,
            self.attributes,
            self.dimension_names,
            self.extensions,
            self.extra,
        )

    def _repr_html_(self) -> str:
        return display.show_array(describe.describe_metadata(self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ArrayMetadata):
            return NotImplemented
        return self is other or self._key() == other._key()

    __hash__ = None  # type: ignore[assignment]


def are_stored_alike(a: ArrayMetadata, b: ArrayMetadata) -> bool:
    """Return True if chunks are interchangeable: all fields are equal but shape, attributes and names."""
    return a._storage_key() == b._storage_key()


@dataclass(frozen=True)
class GroupMetadata:
    """The metadata of a group.

    Parameters
    ----------
    attributes : dict
        JSON values.
    extensions : tuple of NamedConfig
        The ``extensions`` list (ZEP 10).
    extra : dict
        Keys outside the specification that readers may ignore; kept on rewriting.

    Examples
    --------
    >>> GroupMetadata({"title": "run 42"}).attributes["title"]
    'run 42'
    """

    attributes: JsonObject = field(default_factory=dict)
    extensions: tuple[NamedConfig, ...] = ()
    extra: JsonObject = field(default_factory=dict)
    is_array: ClassVar[Literal[False]] = False

    def _repr_html_(self) -> str:
        return display.show_group(describe.describe_group(self, ""))


def key_of(parts: Json) -> bytes | None:
    """Return the key of JSON values in a :class:`ParseCache`; None if they are not JSON, or nested too deep."""
    try:
        # marshal's version 2 has no references: bytes are equal if and only if values and types are.
        return marshal.dumps(parts, 2)
    except ValueError:
        return None


class ParseCache(dict[bytes | None, Made]):
    """Cache immutable objects by the JSON values they are parsed from, because many arrays have equal encodings.

    At 1,024 objects, the cache is cleared. Objects of more than 4 KiB of values are not cached.

    Examples
    --------
    >>> cache = ParseCache[tuple]()
    >>> first = cache.keep(key_of([1, 2]), (1, 2))
    >>> cache.get(key_of([1, 2])) is first, cache.get(key_of([1.0, 2]))
    (True, None)
    """

    def keep(self, key: bytes | None, made: Made) -> Made:
        """Add an object, and return it."""
        if key is not None and len(key) <= 4096:
            if len(self) >= 1024:
                self.clear()
            self[key] = made
        return made

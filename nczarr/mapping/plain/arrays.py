"""Read arrays without NCZarr's keys as netCDF variables: dimensions, types and attributes worked out.

The rules are in ``docs/spec/plain-zarr.md``. They hold for plain Zarr of any version, and for arrays that
another tool added to an NCZarr dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from nczarr.errors import MetadataError
from nczarr.mapping.dialect import Binding
from nczarr.mapping.plain.types import declared_name, special_encoding
from nczarr.mapping.values.attributes import ATTR_KEY, RESERVED, decode_attributes, infer_attribute
from nczarr.mapping.values.encodings import Encoding, PackedEncoding, encoding_for_reading, simple_type
from nczarr.mapping.values.storage import filters_of
from nczarr.mapping.values.types import find_type
from nczarr.model import (
    Attribute,
    Dimension,
    DimensionRef,
    PrimitiveType,
    Storage,
    Type,
    UserType,
    Variable,
    VlenType,
    check_name,
    format_fqn,
    join_fqn,
    parse_fqn,
    primitive_for_dtype,
)
from nczarr.zarr import ArrayMetadata, Hierarchy

#: xarray's attribute for the names of dimensions on Zarr v2.
DIMENSIONS_KEY = "_ARRAY_DIMENSIONS"


def labels_of(metadata: ArrayMetadata) -> tuple[str | None, ...]:
    """Return the labels of an array's dimensions: ``dimension_names``, else ``_ARRAY_DIMENSIONS``, else None each.

    A label that is no netCDF name is None.
    """
    labels: Sequence[object] | None = metadata.dimension_names
    if labels is None:
        listed = metadata.attributes.get(DIMENSIONS_KEY)
        if isinstance(listed, list) and len(listed) == metadata.ndim:
            labels = listed
    if labels is None:
        return (None,) * metadata.ndim
    return tuple(x if isinstance(x, str) and check_name(x) is None else None for x in labels)


def plain_attributes(
    attributes: Mapping[str, object], array: Type | None = None, reserved: frozenset[str] = RESERVED
) -> tuple[Attribute, ...]:
    """Return the attributes of a node without NCZarr's keys, their types inferred.

    Annotations (NZUG-1.0's ``_nczarr_attr``) are followed where they make sense.
    """
    info = attributes.get(ATTR_KEY)
    types = info.get("types") if isinstance(info, dict) else None
    annotated: dict[str, object] = {}
    if isinstance(types, dict):
        for name, text in types.items():
            try:
                find_type(text, {})
            except MetadataError:
                continue
            annotated[name] = text
    result: list[Attribute] = []
    for name, value in attributes.items():
        if name in reserved:
            continue
        own = {"types": {name: annotated[name]}} if name in annotated else None
        try:
            result.extend(decode_attributes({name: value}, own, {}, array=array, reserved=reserved))
        except MetadataError:
            result.append(infer_attribute(name, value))
    return tuple(result)


@dataclass
class _Group:
    """What is declared in one group."""

    dimensions: dict[str, int] = field(default_factory=dict)
    added: list[Dimension] = field(default_factory=list)
    by_label: dict[tuple[str, int], str] = field(default_factory=dict)
    preferred: dict[str, int] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)
    types: list[UserType] = field(default_factory=list)
    type_names: set[str] = field(default_factory=set)


class PlainArrays:
    """Turns arrays into variables, and declares the dimensions and types that they need.

    A label means the dimension of that name in the nearest group that has one of the same length. If there is
    none, or if the group itself has a coordinate variable for the label, the group gets a dimension of its own.
    One label with several lengths in a group becomes several dimensions: the length of the coordinate variable,
    else the first, keeps the name, each other has its length behind it (``x_5``).

    Examples
    --------
    >>> from nczarr.zarr.types.registry import data_type_for
    >>> from nczarr.zarr.grids import RegularGrid
    >>> plain = PlainArrays()
    >>> a = ArrayMetadata((3,), data_type_for("int32"), RegularGrid((3,)), fill_value=0, dimension_names=("x",))
    >>> plain.variable("/", "a", "a", a)[0].dimensions, plain.dimensions("/")
    (('/x',), (Dimension(name='x', size=3, unlimited=False),))
    """

    def __init__(self, hierarchy: Hierarchy | None = None) -> None:
        self._hierarchy = hierarchy
        self._groups: dict[str, _Group] = {}

    def _group(self, fqn: str) -> _Group:
        return self._groups.setdefault(fqn, _Group())

    # -- what exists already

    def begin_group(
        self, fqn: str, type_names: Iterable[str], dimensions: Mapping[str, Dimension] | None = None
    ) -> None:
        """Make known what a group declares by itself: names of types, and dimensions by FQN."""
        self._group(fqn).type_names.update(type_names)
        for dimension_fqn, dimension in (dimensions or {}).items():
            group = format_fqn(parse_fqn(dimension_fqn)[:-1])
            self._group(group).dimensions[dimension.name] = dimension.size

    def prefer(self, fqn: str, arrays: Sequence[tuple[str, ArrayMetadata]]) -> None:
        """Look at all arrays of a group first, so that coordinate variables decide what labels mean."""
        group = self._group(fqn)
        for name, metadata in arrays:
            labels = labels_of(metadata)
            if labels == (name,):
                group.preferred[name] = metadata.shape[0]
                group.own.add(name)
        for _, metadata in arrays:
            for label, length in zip(labels_of(metadata), metadata.shape, strict=True):
                if label is not None:
                    group.preferred.setdefault(label, length)

    # -- what was declared

    def types(self, fqn: str) -> tuple[UserType, ...]:
        """The types that arrays of a group made necessary."""
        return tuple(self._group(fqn).types)

    def dimensions(self, fqn: str) -> tuple[Dimension, ...]:
        """The dimensions that arrays of a group made necessary."""
        return tuple(self._group(fqn).added)

    # -- dimensions

    def references(
        self, group: str, name: str, metadata: ArrayMetadata, shape: tuple[int, ...]
    ) -> tuple[DimensionRef, ...]:
        """Return the dimension references of an array, by its labels."""
        labels = labels_of(metadata)[: len(shape)]
        return tuple(
            length if label is None else self._dimension(group, label, length)
            for label, length in zip(labels, shape, strict=True)
        )

    def _dimension(self, fqn: str, label: str, length: int) -> str:
        group = self._group(fqn)
        if (label, length) in group.by_label:
            return group.by_label[label, length]
        found = self._nearest(fqn, label, length)
        if found is None:
            taken = group.dimensions
            name = label
            if name in taken or group.preferred.get(label, length) != length:
                name = wanted = f"{label}_{length}"
                number = 2
                while name in taken or name in group.preferred:
                    name = f"{wanted}_{number}"
                    number += 1
            taken[name] = length
            group.added.append(Dimension(name, length))
            found = join_fqn(fqn, name)
        group.by_label[label, length] = found
        return found

    def _nearest(self, fqn: str, label: str, length: int) -> str | None:
        names = parse_fqn(fqn)
        for depth in range(len(names), -1, -1):
            at = format_fqn(names[:depth])
            declared = self._groups[at].dimensions if at in self._groups else {}
            if label in declared:
                return join_fqn(at, label) if declared[label] == length else None
            if depth == len(names) and label in self._group(fqn).own:
                return None
        return None

    # -- variables

    @staticmethod
    def simple_type(data_type: object) -> Type | None:
        """The atomic type that a Zarr data type alone stands for; None if there is none."""
        return simple_type(data_type)  # type: ignore[arg-type]

    def variable(self, group: str, path: str, name: str, metadata: ArrayMetadata) -> tuple[Variable, Binding]:
        """Return the variable for an array, without data, and its binding.

        Raises
        ------
        UnsupportedError
            If netCDF has no type for the array's.
        """
        encoding, extra = self._encoding(group, name, metadata)
        attributes = plain_attributes(metadata.attributes, encoding.type, self._reserved(metadata))
        for attribute in (*extra, *self._mask(encoding, metadata)):
            if attribute.name not in {a.name for a in attributes}:
                attributes = (*attributes, attribute)
        endian = next((c.configuration.get("endian") for c in metadata.codecs if c.name == "bytes"), None)
        storage = Storage(
            "chunked" if metadata.shape else None,
            tuple(metadata.chunk_shape) if metadata.shape else None,
            filters_of(metadata.codecs),
            "big" if endian == "big" else "native",
        )
        references = self.references(group, name, metadata, metadata.shape)
        variable = Variable(name, encoding.type, references, attributes=attributes, storage=storage)
        return variable, Binding(path, encoding)

    def _mask(self, encoding: Encoding, metadata: ArrayMetadata) -> Iterator[Attribute]:
        """In xarray's convention on v2 the fill value, where there is one, is ``_FillValue``."""
        on_v2 = self._hierarchy is not None and self._hierarchy.layout == "v2"
        if on_v2 and metadata.fill_value is not None and DIMENSIONS_KEY in metadata.attributes:
            fill = np.empty(1, metadata.data_type.dtype)
            fill[0] = metadata.fill_value
            yield Attribute("_FillValue", encoding.type, encoding.decode(fill))

    @staticmethod
    def _reserved(metadata: ArrayMetadata) -> frozenset[str]:
        return RESERVED if metadata.dimension_names is not None else RESERVED | {DIMENSIONS_KEY}

    def _encoding(self, group: str, name: str, metadata: ArrayMetadata) -> tuple[Encoding, list[Attribute]]:
        type_ = simple_type(metadata.data_type)
        if type_ is not None:
            return encoding_for_reading(type_, metadata.data_type), []
        declare = self._declarer(group)
        base = _base_of_sequences(metadata)
        if base is not None:
            made = declare(f"{base.name}_sequence_t", lambda fqn: VlenType(fqn, base))
            return PackedEncoding(made, metadata.data_type), []
        return special_encoding(metadata.data_type, declare, name)

    def _declarer(self, fqn: str) -> Callable[[str, Callable[[str], UserType]], UserType]:
        group = self._group(fqn)

        def declare(wanted: str, make: Callable[[str], UserType]) -> UserType:
            for known in group.types:
                if make(known.fqn) == known:
                    return known
            type_ = make(declared_name(fqn, wanted, group.type_names))
            group.type_names.add(type_.name)
            group.types.append(type_)
            return type_

        return declare


def _base_of_sequences(metadata: ArrayMetadata) -> PrimitiveType | None:
    """The type of the elements of numcodecs' ``vlen-array`` in version 2, whose bytes are those of a netCDF vlen."""
    filters = (metadata.origin or {}).get("filters")
    first = filters[0] if isinstance(filters, list) and filters else None
    if not isinstance(first, dict) or first.get("id") != "vlen-array":
        return None
    try:
        dtype = np.dtype(first.get("dtype"))
    except (TypeError, ValueError, SyntaxError):
        return None
    numbers = dtype.kind in "iuf" and dtype == dtype.newbyteorder("<")
    return primitive_for_dtype(dtype) if numbers else None

"""Describe nodes of the model for :mod:`nczarr.display`.

The functions accept any object with the attributes of a node. This avoids a circular import: the nodes use them too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from nczarr import display
from nczarr.compression import FILTERS, chosen_codecs, codec_name
from nczarr.model.names import split_fqn


def describe_dimension(dimension: Any) -> display.DimensionDescription:
    """Return the description of a dimension."""
    return display.DimensionDescription(dimension.name, dimension.size, dimension.unlimited)


def describe_attribute(attribute: Any) -> display.AttributeDescription:
    """Return the description of an attribute."""
    type_, values = attribute.type, attribute.values
    if type_.name == "char" and not type_.is_user_defined:
        return display.AttributeDescription(attribute.name, attribute.text, "")
    if getattr(type_, "kind", "") == "enum":
        names = {number: name for name, number in reversed(type_.members)}
        return display.AttributeDescription(
            attribute.name, ", ".join(names.get(int(v), str(v)) for v in values.reshape(-1)), type_.name
        )
    return display.AttributeDescription(attribute.name, values[0] if len(values) == 1 else values, type_.name)


def describe_type(type_: Any) -> display.TypeDescription:
    """Return the description of a type."""
    kind = getattr(type_, "kind", "") or "type"
    lines: list[str] = []
    if kind == "enum":
        lines = [f"{name} = {number}" for name, number in type_.members]
        kind = f"{type_.base.name} enum"
    elif kind == "opaque":
        kind = f"opaque({type_.size})"
    elif kind == "vlen":
        kind = f"{type_.base.name}(*)"
    elif kind == "compound":
        lines = [
            f"{field.type.name} {field.name}"
            + (f"({', '.join(map(str, field.shape))})" if field.shape else "")
            for field in type_.fields
        ]
    return display.TypeDescription(type_.name, kind, tuple(lines))


def describe_variable(variable: Any, dimensions: Mapping[str, Any]) -> display.ArrayDescription:
    """Return the description of a variable; `dimensions` maps FQNs to the dimensions of the dataset."""
    axes = tuple(map(_axis, variable.dimensions, [dimensions] * len(variable.dimensions)))
    # A variable that is shown alone has no dataset to ask.
    if any(axis.size is None for axis in axes) and variable.data is not None:
        shape = variable.data.shape
        axes = tuple(
            display.DimensionDescription(a.name, n, a.unlimited) for a, n in zip(axes, shape, strict=True)
        )
    storage = variable.storage
    size = None
    # The dtype of a text has the size of a pointer.
    if variable.type.is_fixed_size and all(axis.size is not None for axis in axes):
        size = math.prod(axis.size or 0 for axis in axes) * variable.type.dtype.itemsize
    facts = []
    if storage.layout == "contiguous" and axes:
        facts.append(("layout", "contiguous"))
    if storage.endian == "big":
        facts.append(("byte order", "big"))
    return display.ArrayDescription(
        variable.name,
        variable.type.name,
        axes,
        "Variable",
        display.Each(variable.attributes, describe_attribute),
        chunks=storage.chunk_shape if storage.layout != "contiguous" else None,
        shards=storage.shard_shape,
        codecs=_codecs(storage),
        size=size,
        facts=tuple(facts),
    )


def _axis(ref: str | int, dimensions: Mapping[str, Any]) -> display.DimensionDescription:
    if isinstance(ref, int):
        return display.DimensionDescription(None, ref)
    found = dimensions.get(ref)
    name = split_fqn(ref)[1] or ref
    return display.DimensionDescription(name, None) if found is None else describe_dimension(found)


def _codecs(storage: Any) -> tuple[str, ...]:
    chosen = chosen_codecs(storage.filters, storage.codecs)
    return tuple(map(_filter, storage.filters)) if chosen is None else tuple(map(codec_name, chosen))


def _filter(found: Any) -> str:
    name = FILTERS[found.id].name if found.id in FILTERS else f"filter {found.id}"
    return f"{name}({', '.join(map(str, found.parameters))})" if found.parameters else name


def describe_group(
    group: Any, dimensions: Mapping[str, Any], *, kind: str = "Group", facts: tuple[tuple[str, str], ...] = ()
) -> display.GroupDescription:
    """Return the description of a group and its descendants.

    `dimensions` maps FQNs to the dimensions of the dataset.
    """
    return display.GroupDescription(
        group.name,
        kind,
        display.Each(group.dimensions, describe_dimension),
        display.Each(group.types, describe_type),
        display.Each(group.variables, lambda child: describe_variable(child, dimensions)),
        display.Each(group.attributes, describe_attribute),
        display.Each(group.groups, lambda child: describe_group(child, dimensions)),
        facts=facts,
    )

"""Present the fields of compound variables as separate variables, named ``point.x``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from nczarr.model import (
    ArraySource,
    Attribute,
    CompoundType,
    Dataset,
    EnumType,
    Field,
    Group,
    PrimitiveType,
    Region,
    Type,
    Variable,
)

#: Maximum number of fields per compound variable.
MOST_FIELDS = 100
#: Attributes of a compound variable that apply to its fields too.
_SHARED = ("coordinates", "grid_mapping")
_G = TypeVar("_G", bound=Group)


@dataclass(frozen=True, eq=False)
class FieldSource:
    """The values of a field of a compound variable.

    Parameters
    ----------
    inner : ArraySource
        The compound values.
    owner : str
        Name of the compound variable.
    path : tuple of str
        Name of the field, preceded by the names of the enclosing fields.
    dtype : numpy.dtype
        Type of one element.
    sizes : tuple of int
        Shape of the field.
    """

    inner: ArraySource
    owner: str
    path: tuple[str, ...]
    dtype: np.dtype
    sizes: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.inner.shape, *self.sizes)

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        """Read a region; see :meth:`nczarr.model.ArraySource.read`."""
        outer = len(self.inner.shape)
        values = self.inner.read(region[:outer])
        for name in self.path:
            values = values[name]
        values = values[(slice(None),) * outer + region[outer:]]
        if out is None:
            return np.array(values, self.dtype)
        out[...] = values
        return out


def with_fields(dataset: Dataset) -> Dataset:
    """Return the dataset with a variable added after each compound variable for each of its drawable fields.

    Examples
    --------
    >>> from nczarr import cdl
    >>> d = cdl.loads("netcdf d {types: compound p {float x; float y;} variables: p at; data: at = {1, 2};}")
    >>> [v.name for v in with_fields(d).variables]
    ['at', 'at.x', 'at.y']
    """

    def inside(group: _G) -> _G:
        taken = {v.name for v in group.variables}
        variables: list[Variable] = []
        for variable in group.variables:
            variables += [variable, *(f for f in _fields(variable) if f.name not in taken)]
        return replace(group, variables=tuple(variables), groups=tuple(inside(g) for g in group.groups))

    if not any(isinstance(v.type, CompoundType) for v in dataset.all_variables.values()):
        return dataset
    return inside(dataset)


def _fields(variable: Variable) -> Iterator[Variable]:
    if not isinstance(variable.type, CompoundType) or variable.data is None:
        return
    attributes = tuple(a for a in variable.attributes if a.name in _SHARED)
    fill = variable.attribute.get("_FillValue")
    for number, (path, sizes, type_) in enumerate(_leaves(variable.type)):
        if number == MOST_FIELDS:
            return
        about = attributes
        if fill is not None and not sizes and fill.type == variable.type and len(fill.values) == 1:
            value = fill.values
            for name in path:
                value = value[name]
            about = (*attributes, Attribute("_FillValue", type_, np.array(value, type_.dtype)))
        chunks = variable.storage.chunk_shape
        yield Variable(
            ".".join((variable.name, *path)),
            type_,
            (*variable.dimensions, *sizes),
            attributes=about,
            storage=replace(variable.storage, chunk_shape=chunks and (*chunks, *sizes)),
            data=FieldSource(variable.data, variable.name, path, type_.dtype, sizes),
        )


def _leaves(type_: CompoundType) -> Iterator[tuple[tuple[str, ...], tuple[int, ...], Type]]:
    """Yield the path, shape and type of each field with numbers or categories, including nested fields."""
    for field in type_.fields:
        if isinstance(field.type, CompoundType):
            for path, sizes, leaf in _leaves(field.type):
                yield (field.name, *path), (*field.shape, *sizes), leaf
        elif _has_numbers(field):
            yield (field.name,), field.shape, field.type


def _has_numbers(field: Field) -> bool:
    if isinstance(field.type, EnumType):
        return True
    return isinstance(field.type, PrimitiveType) and field.type.dtype.kind in "iuf"

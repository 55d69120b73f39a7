"""Compare the models of two datasets and yield their differences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np

from nczarr.dataclass import dataclass
from nczarr.errors import ArgumentTypeError
from nczarr.model.names import join_fqn
from nczarr.model.nodes import Attribute, Dataset, Dimension, Group, Variable, same_values, source_of
from nczarr.model.sources import regions
from nczarr.model.types import CompoundType, EnumType, OpaqueType, Type, UserType, VlenType
from nczarr.text import visible

# Two variables of any size are compared in little memory.
_BLOCK_ELEMENTS = 1 << 20


@dataclass(frozen=True)
class Difference:
    """One difference: its FQN, its kind, and both sides as text.

    Examples
    --------
    >>> print(Difference("/temp", "attribute units", "K", "degC"))
    /temp: attribute units: K | degC
    """

    fqn: str
    what: str
    left: str
    right: str

    def __str__(self) -> str:
        return visible(f"{self.fqn}: {self.what}: {self.left} | {self.right}")


def compare(
    left: Dataset,
    right: Dataset,
    *,
    data: bool = True,
    storage: bool = False,
    ignore_attributes: Sequence[str] = (),
    nan_payloads: bool = True,
    order: bool = True,
) -> Iterator[Difference]:
    """Yield the differences between two datasets: groups, types, dimensions, variables, attributes, values.

    Values are compared bit by bit, one block at a time.

    Parameters
    ----------
    left, right : Dataset
    data : bool
        Also compare values.
    storage : bool
        Also compare storage hints.
    ignore_attributes : sequence of str
        Names of attributes to ignore on both sides.
    nan_payloads : bool
        If False, all NaN values are equal. Text formats such as CDL have a single NaN.
    order : bool
        If False, ignore the order of nodes and attributes.

    Examples
    --------
    >>> a = Dataset("a", attributes=(Attribute.of("n", 1),))
    >>> b = Dataset("b", attributes=(Attribute.of("n", 2),))
    >>> [str(d) for d in compare(a, b)]
    ['/: attribute n: int64 [1] | int64 [2]']
    """
    for side in (left, right):
        if not isinstance(side, Dataset):
            hint = "nczarr.diff compares paths, and nczarr.open opens them"
            raise ArgumentTypeError(f"{side!r:.60} is not a dataset of the model", hint=hint)
    comparison = _Comparison(left, right, data, storage, frozenset(ignore_attributes), nan_payloads, order)
    yield from comparison.groups("/", left, right)


_Node = TypeVar("_Node", Attribute, Dimension, Group, UserType, Variable)


@dataclass(frozen=True)
class _Comparison:
    left: Dataset
    right: Dataset
    data: bool
    storage: bool
    ignored: frozenset[str]
    nan_payloads: bool
    order: bool

    def same(self, a: object, b: object) -> bool:
        return same_values(a, b, nan_payloads=self.nan_payloads)

    def groups(self, fqn: str, a: Group, b: Group) -> Iterator[Difference]:
        yield from self.attributes(fqn, a.attributes, b.attributes)
        for t, other in _paired(a.types, b.types):
            if t != other:
                yield Difference(t.fqn, "type", describe_type(t), describe_type(other))
        yield from self.names(fqn, "types", a.types, b.types)
        yield from self.names(fqn, "dimensions", a.dimensions, b.dimensions)
        for d, dimension in _paired(a.dimensions, b.dimensions):
            if d != dimension:
                sizes = [f"{x.size}{' unlimited' * x.unlimited}" for x in (d, dimension)]
                yield Difference(join_fqn(fqn, d.name), "dimension", *sizes)
        yield from self.names(fqn, "variables", a.variables, b.variables)
        for v, variable in _paired(a.variables, b.variables):
            yield from self.variables(join_fqn(fqn, v.name), v, variable)
        yield from self.names(fqn, "groups", a.groups, b.groups)
        for g, group in _paired(a.groups, b.groups):
            yield from self.groups(join_fqn(fqn, g.name), g, group)

    def attributes(self, fqn: str, a: Sequence[Attribute], b: Sequence[Attribute]) -> Iterator[Difference]:
        a = [x for x in a if x.name not in self.ignored]
        b = [x for x in b if x.name not in self.ignored]
        yield from self.names(fqn, "attributes", a, b)
        for x, other in _paired(a, b):
            if x.type != other.type or not self.same(x.values, other.values):
                yield Difference(fqn, f"attribute {x.name}", _show(x), _show(other))

    def variables(self, fqn: str, a: Variable, b: Variable) -> Iterator[Difference]:
        if a.type != b.type:
            yield Difference(fqn, "type", describe_type(a.type), describe_type(b.type))
        if a.dimensions != b.dimensions:
            yield Difference(fqn, "dimensions", str(a.dimensions), str(b.dimensions))
        yield from self.attributes(fqn, a.attributes, b.attributes)
        if self.storage and a.storage != b.storage:
            yield Difference(fqn, "storage", str(a.storage), str(b.storage))
        # Values of two types differ everywhere, and one difference tells it.
        if not self.data or a.type != b.type:
            return
        shapes = self.left.shape_of(a), self.right.shape_of(b)
        if shapes[0] != shapes[1]:
            yield Difference(fqn, "shape", str(shapes[0]), str(shapes[1]))
            return
        yield from self.values(fqn, a, b, shapes[0])

    def values(self, fqn: str, a: Variable, b: Variable, shape: tuple[int, ...]) -> Iterator[Difference]:
        """Yield the first value that differs."""
        sources = source_of(a, shape), source_of(b, shape)
        for region in regions(shape, _block(shape, a.storage.chunk_shape)):
            sides = [source.read(region) for source in sources]
            # Only the block that differs is searched element by element.
            if self.same(*sides):
                continue
            for index in np.ndindex(sides[0].shape):
                x, y = sides[0][index], sides[1][index]
                if not self.same(x, y):
                    at = ",".join(str(s.start + i) for s, i in zip(region, index, strict=True))
                    yield Difference(fqn, f"value [{at}]", repr(x), repr(y))
                    return

    def names(self, fqn: str, what: str, a: Sequence[_Node], b: Sequence[_Node]) -> Iterator[Difference]:
        """Yield a difference if the names of the two sides differ, or their order."""
        names = [n.name for n in a], [n.name for n in b]
        same = names[0] == names[1] if self.order else sorted(names[0]) == sorted(names[1])
        if not same:
            yield Difference(fqn, what, " ".join(names[0]) or "none", " ".join(names[1]) or "none")


def _paired(a: Sequence[_Node], b: Sequence[_Node]) -> Iterator[tuple[_Node, _Node]]:
    """Yield the pairs of nodes that have the same name on both sides."""
    others = {node.name: node for node in b}
    for node in a:
        if node.name in others:
            yield node, others[node.name]


def _show(attribute: Attribute) -> str:
    values = attribute.text if attribute.type.name == "char" else attribute.values.tolist()
    return f"{attribute.type.name} {values!r}"


def describe_type(type_: Type) -> str:
    """Describe a type in one line.

    Examples
    --------
    >>> from nczarr.model.types import BYTE
    >>> describe_type(EnumType("/e", BYTE, (("a", 1),)))
    'byte enum /e {a = 1}'
    """
    match type_:
        case EnumType(fqn=fqn, base=base, members=members):
            return f"{base.name} enum {fqn} {{{', '.join(f'{name} = {value}' for name, value in members)}}}"
        case OpaqueType(fqn=fqn, size=size):
            return f"opaque({size}) {fqn}"
        case VlenType(fqn=fqn, base=base):
            return f"{describe_type(base)}(*) {fqn}"
        case CompoundType(fqn=fqn, fields=fields):
            inside = "; ".join(f"{describe_type(f.type)} {f.name}{list(f.shape) or ''}" for f in fields)
            return f"compound {fqn} {{{inside}}}"
    return type_.name


def _block(shape: tuple[int, ...], chunk: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the shape of a block of whole chunks, extended along the last axes to about a million elements."""
    block = [max(1, min(c, n)) for c, n in zip(chunk or (1,) * len(shape), shape, strict=True)]
    for axis in range(len(shape) - 1, -1, -1):
        others = math.prod(block) // block[axis]
        step = block[axis]
        block[axis] = max(step, min(max(shape[axis], 1), _BLOCK_ELEMENTS // max(others, 1) // step * step))
    return tuple(block)

"""Generate datasets of the model for Hypothesis, with cases that are difficult for writers and readers.

``datasets()`` builds resolved datasets: groups with shadowed dimension and type names, all types and nestings,
hostile names, attributes of all types, and small data of all types bound as :class:`MemorySource`.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from nczarr.model import (
    PRIMITIVES,
    Attribute,
    CompoundType,
    Dataset,
    Dimension,
    EnumType,
    Field,
    Filter,
    Group,
    MemorySource,
    OpaqueType,
    PrimitiveType,
    Storage,
    Type,
    UserType,
    Variable,
    VlenType,
    check_name,
    join_fqn,
    normalize_name,
)

__all__ = ["arrays", "attributes", "datasets", "names", "plain_names", "user_types", "values", "wild_names"]

_INTEGERS = [t for t in PRIMITIVES.values() if t.is_integer]
_HOSTILE = [
    "a b", "a  b", 'say "x"', "it's", "2m", "10", "a%b", "a\\b", "a\\ b", "a.b", "a-b+c@d", "a#b", "a{b}",
    "a;b", "a,b", "a=b", "a:b", "a(b)", "a[0]", "a?b", "a*b", "a&b|c", "a~b`c^d", "a<b>c", "x$", "a!",
    "data", "types", "variables", "group", "dimensions", "é", "Ångström", "海面水温", "температура", "שלום",
    "درجة", "🌊", "x🌡️y", "naïve", "_x", "__y", "Ω", "ﬁ", "0x1F", "1e5", "x" * 40, "CON", "zarr.json", "c", "Data",
]  # fmt: skip
_RESERVED = [
    "byte",
    "int",
    "string",
    "enum",
    "NaN",
    "unlimited",
    "NIL",
    "netcdf",
    "uint64",
    "compound",
    "real",
]


def _legal(name: str) -> bool:
    return (
        check_name(name) is None
        and name != "_"
        and normalize_name(name) == name
        and len(name.encode()) < 200
        and all(unicodedata.category(c) not in ("Cs", "Cc", "Cn", "Co") for c in name)
    )


def _starts_well(name: str) -> bool:
    # The first character that the netCDF library accepts.
    return not name[0].isascii() or name[0].isalnum() or name[0] == "_"


def plain_names() -> st.SearchStrategy[str]:
    """Return names that every tool accepts."""
    return st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True).filter(lambda n: n not in _RESERVED_ALL)


def names(*, reserved: bool = True) -> st.SearchStrategy[str]:
    """Return names that the netCDF library accepts, most of them unusual.

    Parameters
    ----------
    reserved : bool
        Also return reserved words of CDL, which ncgen cannot read.
    """
    return wild_names(reserved=reserved).filter(lambda name: _starts_well(name) and "/" not in name)


def wild_names(*, reserved: bool = True) -> st.SearchStrategy[str]:
    """Return names that the model accepts: they may also begin with punctuation or a blank."""
    listed = _HOSTILE + (_RESERVED if reserved else [])
    return st.one_of(
        st.from_regex(r"[a-z][a-z0-9_]{0,3}", fullmatch=True),
        st.sampled_from(listed),
        st.text(st.characters(exclude_categories=("Cs", "Cc", "Cn", "Co")), min_size=1, max_size=6)
        .map(normalize_name)
        .map(lambda n: n.rstrip(" ")),
    ).filter(lambda n: _legal(n) and (reserved or n not in _RESERVED_ALL))


_RESERVED_ALL = frozenset(
    re.findall(
        r"\S+",
        """char byte short int float double ubyte ushort uint int64 uint64 string real long integer ulong uinteger
        enum opaque compound struct structure unlimited UNLIMITED netcdf NETCDF netCDF NaN nan NaNf nanf Infinity
        Infinityf Inff DoubleInf FloatInf NIL nil Nil _""",
    )
)


# Values.


def values(type_: Type) -> st.SearchStrategy[Any]:
    """Return single values of a type: scalars, str, bytes; dicts for compounds; 1-D arrays for vlens."""
    if isinstance(type_, EnumType):
        return st.sampled_from([value for _, value in type_.members])
    if isinstance(type_, OpaqueType):
        return st.binary(min_size=type_.size, max_size=type_.size)
    if isinstance(type_, VlenType):
        return st.integers(0, 3).flatmap(lambda n: arrays(type_.base, (n,)))
    if isinstance(type_, CompoundType):
        return st.fixed_dictionaries(
            {f.name: arrays(f.type, f.shape) if f.shape else values(f.type) for f in type_.fields}
        )
    assert isinstance(type_, PrimitiveType)
    if type_.name == "char":
        return st.one_of(
            st.sampled_from([b"a", b" ", b"\0", b'"', b"\\", b"\n", b"\xc3"]),
            st.binary(min_size=1, max_size=1),
        )
    if type_.name == "string":
        return st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=8)
    if type_.is_integer:
        limits = np.iinfo(type_.dtype)
        return st.one_of(
            st.integers(int(limits.min), int(limits.max)),
            st.integers(max(-20, int(limits.min)), 20),
            st.sampled_from([int(limits.min), int(limits.max)]),
        )
    return st.floats(width=type_.dtype.itemsize * 8).map(lambda x: math.nan if math.isnan(x) else x)  # type: ignore[arg-type]


@st.composite
def arrays(draw: st.DrawFn, type_: Type, shape: tuple[int, ...]) -> np.ndarray:
    """Return arrays of a type in the model's memory form."""
    count = math.prod(shape)
    flat = np.empty(count, type_.dtype)
    for i in range(count):
        _put(flat, (i,), type_, draw(values(type_)))
    return flat.reshape(shape)


def _put(out: np.ndarray, index: tuple[int, ...], type_: Type, value: Any) -> None:
    if not isinstance(type_, CompoundType):
        out[index] = value if out.dtype.kind != "V" else np.frombuffer(value, out.dtype)[0]
        return
    for field in type_.fields:
        inside = out[field.name]
        if field.shape:
            for j in np.ndindex(field.shape):
                element = value[field.name][j]
                _put(inside, index + j, field.type, _loose(element, field.type))
        else:
            _put(inside, index, field.type, value[field.name])


def _loose(element: Any, type_: Type) -> Any:
    if isinstance(type_, CompoundType):
        return {f.name: _loose_field(element[f.name], f) for f in type_.fields}
    return bytes(element) if isinstance(type_, OpaqueType) else element


def _loose_field(value: Any, field: Field) -> Any:
    return value if field.shape else _loose(value, field.type)


# Types.


@st.composite
def user_types(
    draw: st.DrawFn,
    fqn: str,
    visible: tuple[Type, ...] = (),
    *,
    member_names: st.SearchStrategy[str] | None = None,
    fixed_size: bool = False,
) -> UserType:
    """Return a user-defined type named `fqn`, built on the primitives and on `visible` types."""
    inner = names() if member_names is None else member_names
    bases: list[Type] = [*PRIMITIVES.values(), *visible, *visible]
    if fixed_size:
        bases = [t for t in bases if t.is_fixed_size]
    kinds = ["enum", "opaque", "compound"] + ([] if fixed_size else ["vlen"])
    kind = draw(st.sampled_from(kinds))
    if kind == "enum":
        base = draw(st.sampled_from(_INTEGERS))
        limits = np.iinfo(base.dtype)
        labels = draw(st.lists(inner, min_size=1, max_size=4, unique=True))
        numbers = draw(
            st.lists(
                st.one_of(st.integers(0, 100), st.integers(int(limits.min), int(limits.max))),
                min_size=len(labels),
                max_size=len(labels),
                unique=True,
            )
        )
        return EnumType(fqn, base, tuple(zip(labels, numbers, strict=True)))
    if kind == "opaque":
        return OpaqueType(fqn, draw(st.integers(1, 9)))
    if kind == "vlen":
        return VlenType(fqn, draw(st.sampled_from(bases)))
    labels = draw(st.lists(inner, min_size=1, max_size=3, unique=True))
    shapes = st.sampled_from([(), (), (), (2,), (1,), (2, 3)])
    return CompoundType(fqn, tuple(Field(n, draw(st.sampled_from(bases)), draw(shapes)) for n in labels))


# Attributes, variables, groups.


@st.composite
def attributes(draw: st.DrawFn, name: str, types: tuple[Type, ...], *, empty: bool = True) -> Attribute:
    """Return an attribute of one of the types, with up to three values."""
    type_ = draw(st.sampled_from([*PRIMITIVES.values(), PRIMITIVES["char"], *types]))
    if type_.name == "char" and draw(st.booleans()):
        return Attribute.of(
            name, draw(st.text(st.characters(exclude_categories=("Cs",)), min_size=not empty, max_size=8))
        )
    return Attribute(name, type_, draw(arrays(type_, (draw(st.integers(0 if empty else 1, 3)),))))


@st.composite
def _storage(draw: st.DrawFn, type_: Type, shape: tuple[int, ...], unlimited: bool, shards: bool) -> Storage:
    chunked = bool(shape) and draw(st.booleans())
    filters: list[Filter] = []
    if chunked and draw(st.booleans()):
        if type_.is_fixed_size and draw(st.booleans()):
            filters.append(Filter(Filter.SHUFFLE))
        filters.append(Filter(Filter.DEFLATE, (draw(st.integers(1, 9)),)))
    chunks = tuple(draw(st.integers(1, max(n, 1))) for n in shape) if chunked else None
    layout = "chunked" if chunked else draw(st.sampled_from([None] if unlimited else [None, "contiguous"]))
    packed = None
    if chunks and shards and draw(st.booleans()):
        packed = tuple(c * draw(st.integers(1, 3)) for c in chunks)
    wide = isinstance(type_, PrimitiveType) and type_.name != "string" and type_.dtype.itemsize > 1
    endian = draw(st.sampled_from(["native", "native", "little", "big"])) if wide else "native"
    return Storage(layout, chunks, tuple(filters), endian, shard_shape=packed)


@st.composite
def datasets(
    draw: st.DrawFn,
    *,
    names: st.SearchStrategy[str] | None = None,
    depth: int = 2,
    types: str = "all",
    unlimited: bool = True,
    anonymous: bool = False,
    zero_sizes: bool = False,
    storage: bool = True,
    shards: bool = True,
    empty_attributes: bool = True,
    fill_values: bool = True,
) -> Dataset:
    """Return resolved datasets with data.

    Parameters
    ----------
    names : strategy of str, optional
        The names of all objects; default :func:`names`.
    depth : int
        Levels of groups below the root.
    types : {'all', 'fixed', 'none'}
        User types: all, only those without string or vlen inside, none at all.
    unlimited : bool
        Unlimited dimensions, in any position. Their lengths are those of the data.
    anonymous, zero_sizes : bool
        Anonymous dimensions; fixed dimensions of size 0. CDL and netCDF files have neither.
    storage, shards, empty_attributes, fill_values : bool
        Storage hints; among them shards; attributes of no value; ``_FillValue`` attributes.
    """
    naming = names if names is not None else globals()["names"]()
    pool = draw(st.lists(naming, min_size=12, max_size=18, unique=True))
    seen_types: list[UserType] = []
    sizes: dict[str, Dimension] = {}

    def group(fqn: str, name: str, level: int, visible: list[str]) -> Group:
        left = list(pool)

        def take(most: int) -> list[str]:
            taken = draw(st.lists(st.sampled_from(left), max_size=most, unique=True)) if left else []
            for t in taken:
                left.remove(t)
            return taken

        declared: list[UserType] = []
        for t in take(3) if types != "none" else []:
            made = draw(
                user_types(
                    join_fqn(fqn, t), tuple(seen_types), member_names=naming, fixed_size=types == "fixed"
                )
            )
            seen_types.append(made)
            declared.append(made)
        dimensions = []
        for d in take(3):
            free = unlimited and draw(st.booleans())
            size = draw(st.integers(0 if zero_sizes or free else 1, 3))
            dimensions.append(Dimension(d, size, free))
            sizes[join_fqn(fqn, d)] = dimensions[-1]
        here = [*visible, *(join_fqn(fqn, d.name) for d in dimensions)]
        coordinates = [d.name for d in dimensions]
        variables = []
        for v in take(3) + (draw(st.lists(st.sampled_from(coordinates), max_size=1)) if coordinates else []):
            variables.append(variable(v, here))
        kept = attribute_list(draw(st.lists(st.sampled_from(pool), max_size=3, unique=True)))
        groups = []
        if level < depth:
            for g in take(2):
                groups.append(group(join_fqn(fqn, g), g, level + 1, here))
        cls = Dataset if level == 0 else Group
        return cls(
            name,
            attributes=kept,
            types=tuple(declared),
            dimensions=tuple(dimensions),
            variables=tuple(variables),
            groups=tuple(groups),
        )

    def attribute_list(labels: list[str]) -> tuple[Attribute, ...]:
        return tuple(draw(attributes(n, tuple(seen_types), empty=empty_attributes)) for n in labels)

    def variable(name: str, visible: list[str]) -> Variable:
        type_ = draw(st.sampled_from([*PRIMITIVES.values(), *seen_types, *seen_types]))
        refs: list[str | int] = list(draw(st.lists(st.sampled_from(visible), max_size=3))) if visible else []
        if anonymous and draw(st.booleans()):
            refs.append(draw(st.integers(1, 3)))
        kept = attribute_list(draw(st.lists(st.sampled_from(pool), max_size=2, unique=True)))
        if fill_values and draw(st.integers(0, 3)) == 0 and not isinstance(type_, VlenType):
            kept += (Attribute("_FillValue", type_, draw(arrays(type_, (1,)))),)
        return Variable(name, type_, tuple(refs), attributes=kept)

    root = group("/", "d", 0, [])
    assert isinstance(root, Dataset)
    root = _needed_lengths(root)

    def with_data(g: Group) -> Group:
        variables = []
        for v in g.variables:
            shape = root.shape_of(v)
            free = any(root.is_unlimited(d) for d in v.dimensions)
            hints = draw(_storage(v.type, shape, free, shards)) if storage else Storage()
            data = MemorySource(draw(arrays(v.type, shape)))
            variables.append(replace(v, storage=hints, data=data))
        return replace(g, variables=tuple(variables), groups=tuple(with_data(x) for x in g.groups))

    result = with_data(root)
    assert isinstance(result, Dataset)
    return result


def _needed_lengths(root: Dataset) -> Dataset:
    """Set unlimited lengths that no element needs to zero: no text can express them."""
    while True:
        needed = {
            d
            for v in root.all_variables.values()
            if 0 not in root.shape_of(v)
            for d in v.dimensions
            if isinstance(d, str)
        }
        wrong = {f for f, d in root.all_dimensions.items() if d.unlimited and d.size and f not in needed}
        if not wrong:
            return root

        def shrink(fqn: str, g: Group, wrong: set[str] = wrong) -> Iterator[Group]:
            dimensions = tuple(
                replace(d, size=0) if join_fqn(fqn, d.name) in wrong else d for d in g.dimensions
            )
            groups = tuple(x for s in g.groups for x in shrink(join_fqn(fqn, s.name), s))
            yield replace(g, dimensions=dimensions, groups=groups)

        (made,) = shrink("/", root)
        assert isinstance(made, Dataset)
        root = made

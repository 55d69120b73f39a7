"""Resolve the references of a dataset to dimensions and types, and validate the dataset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from nczarr.errors import ModelError
from nczarr.model.names import check_length, check_name, format_fqn, join_fqn, parse_fqn
from nczarr.model.nodes import Attribute, Dataset, DimensionRef, Group, Variable
from nczarr.model.types import (
    CompoundType,
    EnumType,
    Field,
    OpaqueType,
    PrimitiveType,
    Type,
    TypeReference,
    UserType,
    VlenType,
    parts_of,
)
from nczarr.system.environment import limit


def resolve(dataset: Dataset) -> Dataset:
    """Resolve every reference of a dataset and check the rules of the model.

    Forward references are legal. A simple name of a dimension or type refers to the declaration in the same group
    or its nearest ancestor. If there is none, a type name refers to the only type of this name in the dataset. The
    result refers to dimensions by FQN, and to types by the type object.

    Parameters
    ----------
    dataset : Dataset
        Unresolved references are :class:`TypeReference` objects, and simple or fully qualified dimension names.

    Returns
    -------
    Dataset
        The validated dataset, with all references resolved.

    Raises
    ------
    ModelError
        If the dataset breaks rules; ``problems`` lists all of them.

    Examples
    --------
    >>> from nczarr.model.nodes import Dimension
    >>> from nczarr.model.types import INT
    >>> d = Dataset("d", dimensions=(Dimension("x", 3),), variables=(Variable("v", INT, ("x",)),))
    >>> resolve(d).variables[0].dimensions
    ('/x',)
    """
    _refuse_depth(dataset)
    resolver = _Resolver(dataset)
    resolved = resolver.group("/", dataset)
    if resolver.problems:
        first, *rest = resolver.problems
        more = f" (and {len(rest)} more problems)" if rest else ""
        raise ModelError(first + more, problems=tuple(resolver.problems))
    assert isinstance(resolved, Dataset)
    return resolved


def _refuse_depth(dataset: Dataset) -> None:
    depth = limit("NCZARR_MAX_DEPTH")
    level: list[Group] = [dataset]
    for _ in range(depth + 1):
        level = [child for group in level for child in group.groups]
        if not level:
            return
    raise ModelError(
        f"groups are nested more than {depth} deep", hint="set NCZARR_MAX_DEPTH to a larger number"
    )


class _Resolver:
    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self.problems: list[str] = []
        self.declared = dict(dataset.all_types)
        self.bound: dict[str, Type] = {}
        self.in_progress: list[str] = []

    def group(self, fqn: str, group: Group) -> Group:
        self.check_names(fqn, group)
        return replace(
            group,
            types=tuple(self.declaration(t.fqn) for t in group.types),
            attributes=tuple(self.attribute(fqn, fqn, a) for a in group.attributes),
            variables=tuple(self.variable(fqn, v) for v in group.variables),
            groups=tuple(self.group(join_fqn(fqn, g.name), g) for g in group.groups),
        )

    def check_names(self, fqn: str, group: Group) -> None:
        for what, nodes in (
            ("dimension", group.dimensions),
            ("type", group.types),
            ("variable", group.variables),
            ("attribute", group.attributes),
            ("group", group.groups),
        ):
            seen: set[str] = set()
            for node in nodes:
                wrong = check_name(node.name) if what != "attribute" else None
                if wrong:
                    self.problems.append(f"{fqn}: {what}: {wrong}")
                if node.name in seen:
                    self.problems.append(f"{fqn}: the {what} {node.name!r} is declared twice")
                seen.add(node.name)
        for t in group.types:
            if t.fqn != join_fqn(fqn, t.name):
                self.problems.append(
                    f"{fqn}: the type {t.fqn!r} is declared outside of the group that its name refers to"
                )
        for d in group.dimensions:
            if d.size < 0:
                self.problems.append(f"{join_fqn(fqn, d.name)}: the size {d.size} is negative")

    def variable(self, group: str, variable: Variable) -> Variable:
        fqn = join_fqn(group, variable.name)
        bound = replace(
            variable,
            type=self.type(variable.type, group, fqn),
            dimensions=tuple(self.dimension(ref, group, fqn) for ref in variable.dimensions),
            attributes=tuple(self.attribute(group, fqn, a) for a in variable.attributes),
        )
        if bound.data is not None and not self.problems:
            shape = self.dataset.shape(bound)
            if bound.data.shape != shape:
                self.problems.append(
                    f"{fqn}: the data have the shape {bound.data.shape}, but the dimensions have {shape}"
                )
        rank = len(bound.dimensions)
        for what, shape_ in (("chunk", bound.storage.chunk_shape), ("shard", bound.storage.shard_shape)):
            if shape_ is not None and (len(shape_) != rank or any(c < 1 for c in shape_)):
                self.problems.append(f"{fqn}: the {what} shape {shape_} does not fit {rank} dimensions")
        return bound

    def attribute(self, group: str, fqn: str, attribute: Attribute) -> Attribute:
        if isinstance(attribute.type, PrimitiveType):
            return attribute
        return replace(
            attribute, type=self.type(attribute.type, group, f"{fqn}: attribute {attribute.name!r}")
        )

    def dimension(self, ref: DimensionRef, group: str, where: str) -> DimensionRef:
        if isinstance(ref, int):
            if ref < 0:
                self.problems.append(f"{where}: the anonymous dimension has the negative size {ref}")
            return ref
        if ref.startswith("/"):
            if ref in self.dataset.all_dimensions:
                return ref
        else:
            found = self.dataset.find_dimension(ref, group)
            if found is not None:
                return found
        candidates = {d.name for d in self.dataset.all_dimensions.values()} | set(self.dataset.all_dimensions)
        self.problems.append(f"{where}: there is no dimension {ref!r}{_near(ref, candidates)}")
        return ref

    def type(self, type_: Type, group: str, where: str) -> Type:
        if isinstance(type_, TypeReference):
            found = self.find_type(type_.text, group)
            if found is None:
                names = {t.name for t in self.declared.values()} | set(self.declared)
                place = type_.place or where
                self.problems.append(f"{place}: there is no type {type_.text!r}{_near(type_.text, names)}")
                return type_
            return self.declaration(found)
        if isinstance(type_, UserType):
            if type_.fqn not in self.declared:
                self.problems.append(f"{where}: no group declares the type {type_.fqn!r}")
                return type_
            return self.declaration(type_.fqn)
        return type_

    def find_type(self, text: str, group: str) -> str | None:
        if text.startswith("/"):
            return text if text in self.declared else None
        names = parse_fqn(group)
        for depth in range(len(names), -1, -1):
            fqn = join_fqn(format_fqn(names[:depth]), text)
            if fqn in self.declared:
                return fqn
        everywhere = [t.fqn for t in self.declared.values() if t.name == text]
        return everywhere[0] if len(everywhere) == 1 else None

    def declaration(self, fqn: str) -> UserType:
        if fqn in self.bound:
            return self.bound[fqn]  # type: ignore[return-value]
        declared = self.declared[fqn]
        if fqn in self.in_progress:
            self.problems.append(f"{fqn}: the type contains itself")
            return declared
        self.in_progress.append(fqn)
        group = format_fqn(parse_fqn(fqn)[:-1])
        result: UserType = declared
        if isinstance(declared, VlenType):
            result = replace(declared, base=self.type(declared.base, group, fqn))
        elif isinstance(declared, CompoundType):
            result = replace(declared, fields=tuple(self.field(f, group, fqn) for f in declared.fields))
            if not declared.fields:
                self.problems.append(f"{fqn}: the compound type has no fields")
            if len({f.name for f in declared.fields}) != len(declared.fields):
                self.problems.append(f"{fqn}: the compound type has two fields with the same name")
        elif isinstance(declared, OpaqueType) and declared.size < 1:
            self.problems.append(f"{fqn}: the opaque type has the size {declared.size}; the minimum is 1")
        elif isinstance(declared, EnumType):
            self.enum(declared)
        self.in_progress.pop()
        self.bound[fqn] = result
        return result

    def field(self, field: Field, group: str, fqn: str) -> Field:
        if any(n < 1 for n in field.shape):
            self.problems.append(
                f"{fqn}: the field {field.name!r} has a dimension of size {min(field.shape)}"
            )
        return replace(field, type=self.type(field.type, group, f"{fqn}.{field.name}"))

    def enum(self, enum: EnumType) -> None:
        if not enum.base.is_integer:
            self.problems.append(f"{enum.fqn}: an enum needs an integer type, not {enum.base.name}")
            return
        import numpy as np

        limits = np.iinfo(enum.base.dtype)
        names: set[str] = set()
        for name, value in enum.members:
            if not limits.min <= value <= limits.max:
                self.problems.append(f"{enum.fqn}: the member {name} = {value} does not fit {enum.base.name}")
            if name in names:
                self.problems.append(f"{enum.fqn}: the member {name!r} is declared twice")
            names.add(name)


def _near(text: str, names: set[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(text, names, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def long_names(dataset: Dataset) -> Iterator[tuple[str, str]]:
    """Yield the FQN of each node whose name is too long for the netCDF library, with a message.

    The library's limit is 256 bytes of UTF-8. Zarr has no such limit, and longer names occur. Programs that read them
    with the library get unrelated memory as the name.

    Examples
    --------
    >>> from nczarr.model import Dataset, Dimension
    >>> [fqn[:4] for fqn, _ in long_names(Dataset("d", dimensions=(Dimension("x" * 257, 1),)))]
    ['/xxx']
    """

    def found(fqn: str, kind: str, names: Iterable[str]) -> Iterator[tuple[str, str]]:
        for name in names:
            wrong = check_length(name)
            if wrong is not None:
                yield fqn, f"{kind}: {wrong}"

    for fqn, group in dataset.all_groups.items():
        if fqn != "/":
            yield from found(fqn, "group", [group.name])
        yield from found(fqn, "attribute", [a.name for a in group.attributes])
        for dimension in group.dimensions:
            yield from found(join_fqn(fqn, dimension.name), "dimension", [dimension.name])
        for type_ in group.types:
            yield from found(type_.fqn, "type", [type_.name])
            if isinstance(type_, EnumType):
                yield from found(type_.fqn, "member", [name for name, _ in type_.members])
            elif isinstance(type_, CompoundType):
                yield from found(type_.fqn, "field", [f.name for f in type_.fields])
        for variable in group.variables:
            at = join_fqn(fqn, variable.name)
            yield from found(at, "variable", [variable.name])
            yield from found(at, "attribute", [a.name for a in variable.attributes])


def forward_references(dataset: Dataset, *, attributes: bool = True) -> Iterator[tuple[str, UserType]]:
    """Yield the FQNs of nodes that use a type which a later group declares, each with that type.

    The model resolves references in any order. Readers of CDL and netCDF-4 files proceed in declared order: the types
    of a group, its variables, then its child groups.

    Parameters
    ----------
    dataset : Dataset
    attributes : bool
        Also yield groups and variables whose attributes use such a type.

    Examples
    --------
    >>> from nczarr.model import INT, Group, OpaqueType, Variable
    >>> late = OpaqueType("/g/late", 4)
    >>> dataset = Dataset("d", variables=(Variable("v", late, ()),), groups=(Group("g", types=(late,)),))
    >>> [(fqn, type_.fqn) for fqn, type_ in forward_references(dataset)]
    [('/v', '/g/late')]
    """
    declared: set[str] = set()

    def late(fqn: str, used: Iterable[Type]) -> Iterator[tuple[str, UserType]]:
        for type_ in used:
            if isinstance(type_, UserType) and type_.fqn not in declared:
                yield fqn, type_

    for fqn, group in dataset.walk():
        declared.update(type_.fqn for type_ in group.types)
        for type_ in group.types:
            yield from late(type_.fqn, parts_of(type_))
        for variable in group.variables:
            used = [variable.type, *(a.type for a in variable.attributes if attributes)]
            yield from late(join_fqn(fqn, variable.name), used)
        if attributes:
            yield from late(fqn, [a.type for a in group.attributes])

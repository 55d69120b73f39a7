"""Resolve the references of a dataset to dimensions and types, and validate the dataset."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from nczarr.errors import ModelError
from nczarr.model.names import (
    check_file_name,
    check_length,
    check_name,
    check_reach,
    check_text,
    find_nearest,
    join_fqn,
    normalize_name,
    split_fqn,
)
from nczarr.model.nodes import Attribute, Dataset, Dimension, DimensionRef, Group, Variable
from nczarr.model.sources import ArraySource, MemorySource, RepeatedSource
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
    misfit,
    names_inside,
    parts_of,
)
from nczarr.system.environment import limit
from nczarr.text import did_you_mean

_MOST_ELEMENTS = np.iinfo("i8").max
#: Size of a value, as in the documents of NCZarr.
_MOST_BYTES = (1 << 31) - 1
#: Size of a chunk that no memory holds.
_HUGE_CHUNK = 1 << 40
#: In the place of a type with problems. It never leaves this module.
_STAND_IN: UserType = OpaqueType("/", 1)


def resolve(dataset: Dataset) -> Dataset:
    """Resolve every reference of a dataset and check the rules of the model.

    Forward references are legal. A simple name of a dimension or type refers to the declaration in the same group
    or its nearest ancestor. If there is none, a type name refers to the only type of this name in the dataset. An FQN
    may name a type of any group, but only a dimension of the same group or its ancestors. The result refers to
    dimensions by FQN, and to types by the type object.

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
    problems: list[str] = []
    _refuse_depth(dataset)
    resolved: Group = dataset
    # A name that is not text would end below in a TypeError of the FQNs.
    if _check_names("/", dataset, problems):
        resolved = _Resolver(dataset, problems).group("/", dataset)
    # All at once: a program makes the same mistake at many places.
    if problems:
        first, *rest = problems
        more = f" (and {len(rest)} more problems)" if rest else ""
        raise ModelError(first + more, problems=tuple(problems))
    assert isinstance(resolved, Dataset)
    return resolved


def _refuse_depth(dataset: Dataset) -> None:
    # Writers and readers call themselves for each level, and Python's stack is short.
    depth = limit("NCZARR_MAX_DEPTH")
    level: list[Group] = [dataset]
    for _ in range(depth + 1):
        level = [child for group in level for child in group.groups]
        if not level:
            return
    raise ModelError(
        f"groups are nested more than {depth} deep", hint="set NCZARR_MAX_DEPTH to a larger number"
    )


def _check_names(fqn: str, group: Group, problems: list[str]) -> bool:
    """Check the names in a group and its descendants; return False if one of them is not even text."""
    are_text = True
    for t in group.types:
        try:
            if t.fqn != join_fqn(fqn, t.name):
                problems.append(
                    f"{fqn}: the type {t.fqn!r} is declared outside of the group that its name refers to"
                )
        except (ModelError, AttributeError, TypeError):
            problems.append(f"{fqn}: type: {t!r} has no fully qualified name, such as '/name'")
            return False
    for at, what, names in _named(fqn, group):
        are_text &= _check_each(at, what, names, check_text if what == "attribute" else check_name, problems)
    for child in group.groups:
        are_text = are_text and _check_names(join_fqn(fqn, child.name), child, problems)
    return are_text


def _named(fqn: str, group: Group) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the place, the kind and the names of the parts of a group."""
    yield fqn, "dimension", [d.name for d in group.dimensions]
    yield fqn, "type", [t.name for t in group.types]
    yield fqn, "variable", [v.name for v in group.variables]
    yield fqn, "attribute", [a.name for a in group.attributes]
    yield fqn, "group", [g.name for g in group.groups]
    for variable in group.variables:
        if variable.attributes and isinstance(variable.name, str):
            yield join_fqn(fqn, variable.name), "attribute", [a.name for a in variable.attributes]


def _check_each(
    fqn: str, what: str, names: Sequence[str], check: Callable[[str], str | None], problems: list[str]
) -> bool:
    """Check names of one kind in one place; return False if one is not even text."""
    seen: set[str] = set()
    for name in names:
        if not isinstance(name, str):
            problems.append(f"{fqn}: {what}: the name {name!r} is not text")
            return False
        wrong = check(name)
        if wrong is not None:
            problems.append(f"{fqn}: {what}: {wrong}")
        # netCDF-C compares names in the form NFC: two forms of one name are one.
        name = normalize_name(name)
        if name in seen:
            problems.append(f"{fqn}: the {what} {name!r} is declared twice")
        seen.add(name)
    return True


def _whole(value: object) -> int | None:
    """Return a Python integer; None for other values, among them bool."""
    # Python counts True as the integer 1.
    return int(value) if isinstance(value, int | np.integer) and not isinstance(value, bool) else None


class _Resolver:
    def __init__(self, dataset: Dataset, problems: list[str]) -> None:
        self.dataset = dataset
        self.problems = problems
        self.most = limit("NCZARR_MAX_DEPTH")
        self.declared = dict(dataset.all_types)
        self.bound: dict[str, UserType] = {}
        self.depth: dict[str, int] = {}
        self.in_progress: list[str] = []
        for fqn in self.declared:
            self.declaration(fqn)
        self.sizes = {
            fqn: self.size(d.size, fqn, "size", least=0) for fqn, d in dataset.all_dimensions.items()
        }
        #: Variables are compared with their data only if all sizes and types are sound.
        self.sound = not problems

    def group(self, fqn: str, group: Group) -> Group:
        return replace(
            group,
            types=tuple([self.bound[t.fqn] for t in group.types]),
            dimensions=tuple([self.declared_dimension(fqn, d) for d in group.dimensions]),
            attributes=tuple([self.attribute(fqn, fqn, a) for a in group.attributes]),
            variables=tuple([self.variable(fqn, v) for v in group.variables]),
            groups=tuple([self.group(join_fqn(fqn, g.name), g) for g in group.groups]),
        )

    def size(
        self, value: object, where: str, what: str, *, least: int = 1, most: int = _MOST_ELEMENTS
    ) -> int:
        number = _whole(value)
        if number is not None and least <= number <= most:
            return number
        why = "is negative" if number is not None and number < 0 else f"is no integer from {least} to {most}"
        self.problems.append(f"{where}: the {what} {value!r} {why}")
        return 1

    def fixed_shape(self, value: object, where: str, what: str) -> tuple[int, ...]:
        if not isinstance(value, tuple | list):
            self.problems.append(f"{where}: the {what} {value!r} is not a tuple of integers")
            return ()
        return tuple([self.size(n, where, f"size in the {what}") for n in value])

    def grid(self, value: object, rank: int, where: str, what: str) -> tuple[int, ...] | None:
        if value is None:
            return None
        shape = self.fixed_shape(value, where, what)
        if len(shape) != rank:
            self.problems.append(f"{where}: the {what} {value} does not fit {rank} dimensions")
        return shape

    def declared_dimension(self, group: str, dimension: Dimension) -> Dimension:
        size = self.sizes[join_fqn(group, dimension.name)]
        if type(dimension.size) is int and type(dimension.unlimited) is bool:
            return dimension
        return replace(dimension, size=size, unlimited=bool(dimension.unlimited))

    def variable(self, group: str, variable: Variable) -> Variable:
        fqn = join_fqn(group, variable.name)
        problems = len(self.problems)
        type_ = self.type(variable.type, group, fqn)
        dimensions = tuple([self.dimension(ref, group, fqn) for ref in variable.dimensions])
        attributes = tuple([self.attribute(group, fqn, a) for a in variable.attributes])
        bound = variable
        # An update skips the variables that are still the stored objects.
        own = (variable.type, *variable.dimensions, *variable.attributes)
        if any(map(operator.is_not, (type_, *dimensions, *attributes), own)):
            bound = replace(variable, type=type_, dimensions=dimensions, attributes=attributes)
        storage = bound.storage
        if storage.chunk_shape is not None or storage.shard_shape is not None:
            rank = len(bound.dimensions)
            chunks = self.grid(storage.chunk_shape, rank, fqn, "chunk shape")
            shards = self.grid(storage.shard_shape, rank, fqn, "shard shape")
            bound = replace(bound, storage=replace(storage, chunk_shape=chunks, shard_shape=shards))
            # The first write of such a chunk would end in a MemoryError.
            if math.prod(chunks or ()) * bound.type.dtype.itemsize >= _HUGE_CHUNK:
                self.problems.append(
                    f"{fqn}: a chunk of shape {chunks} fits into no memory; give a smaller shape"
                )
        if bound.data is not None and self.sound and len(self.problems) == problems:
            wrong = self.misfit(bound, bound.data)
            if wrong is not None:
                self.problems.append(f"{fqn}: {wrong}")
        return bound

    def misfit(self, variable: Variable, data: ArraySource) -> str | None:
        """Return the reason why the data of a variable do not fit it; None if they do."""
        if not (hasattr(data, "read") and hasattr(data, "shape") and hasattr(data, "dtype")):
            return f"the data are no ArraySource, but of the class {type(data).__name__}; MemorySource holds an array"
        shape = tuple([ref if isinstance(ref, int) else self.sizes[ref] for ref in variable.dimensions])
        if data.shape != shape:
            return f"the data have the shape {data.shape}, but the dimensions have {shape}"
        # The elements of other sources are not known before the copy.
        inside = data.array if isinstance(data, MemorySource) else np.empty(0, data.dtype)
        if isinstance(data, RepeatedSource) and 0 not in shape:
            inside = data.read((slice(0, 1),) * len(shape))
        # A float64 source for an int was cast silently.
        wrong = misfit(inside, variable.type)
        return None if wrong is None else f"the data {wrong}"

    def attribute(self, group: str, fqn: str, attribute: Attribute) -> Attribute:
        values, problems = attribute.values, len(self.problems)
        if not isinstance(attribute.type, PrimitiveType):
            where = f"{fqn}: attribute {attribute.name!r}"
            attribute = replace(attribute, type=self.type(attribute.type, group, where))
        wrong: str | None = None
        if not isinstance(values, np.ndarray) or values.ndim != 1:
            wrong = "are not an array of one dimension"
        elif self.sound and len(self.problems) == problems:
            wrong = misfit(values, attribute.type)
        if wrong is not None:
            self.problems.append(f"{fqn}: attribute {attribute.name!r}: the values {wrong}")
        return attribute

    def dimension(self, ref: DimensionRef, group: str, where: str) -> DimensionRef:
        if not isinstance(ref, str):
            return self.size(ref, where, "anonymous dimension", least=0)
        if ref in self.sizes:
            # netCDF-C cannot close a file with a dimension of a group below, and netCDF4-python reads none of
            # a sibling.
            wrong = check_reach(group, ref)
            if wrong is not None:
                self.problems.append(f"{where}: {wrong}")
            return ref
        found = self.dataset.find_dimension(ref, group) if ref and not ref.startswith("/") else None
        if found is not None:
            return found
        candidates = {d.name for d in self.dataset.all_dimensions.values()} | set(self.sizes)
        self.problems.append(f"{where}: there is no dimension {ref!r}{_near(ref, candidates)}")
        return ref

    # Types.

    def type(self, type_: Type, group: str, where: str) -> Type:
        if isinstance(type_, PrimitiveType):
            return type_
        if isinstance(type_, TypeReference):
            found = self.find_type(type_.text, group)
            if len(found) == 1:
                return self.declaration(found[0])
            names = {t.name for t in self.declared.values()} | set(self.declared)
            why = f"there is no type {type_.text!r}{_near(type_.text, names)}"
            if found:
                why = f"several groups declare a type {type_.text!r}: {', '.join(found)}"
            self.problems.append(f"{type_.place or where}: {why}")
        elif not isinstance(type_, UserType):
            hint = "; a TypeReference names a type" if isinstance(type_, str) else ""
            self.problems.append(f"{where}: {type_!r} is not a type of the model{hint}")
        elif type_.fqn not in self.declared:
            self.problems.append(f"{where}: no group declares the type {type_.fqn!r}")
        else:
            bound, declared = self.declaration(type_.fqn), self.declared[type_.fqn]
            # Equality is costly; most types are the declared object itself.
            same = type_ is declared or type_ is bound or bound is _STAND_IN
            if not same and type_ not in (declared, bound) and self.parts(type_) != bound:
                self.problems.append(
                    f"{where}: the group declares the type {type_.fqn} differently: {declared}"
                )
            return bound
        return _STAND_IN

    def find_type(self, text: str, group: str) -> list[str]:
        """Return the FQN of the type that a reference means; those of all candidates if several are possible."""
        if text.startswith("/"):
            return [text] if text in self.declared else []
        nearest = find_nearest(text, group, self.declared)
        return [nearest] if nearest else [t.fqn for t in self.declared.values() if t.name == text]

    def declaration(self, fqn: str) -> UserType:
        if fqn in self.bound:
            return self.bound[fqn]
        problems = len(self.problems)
        if fqn in self.in_progress:
            self.problems.append(f"{fqn}: the type contains itself")
            return _STAND_IN
        self.in_progress.append(fqn)
        result = _STAND_IN
        # Beyond the limit, a long chain of types would end in a RecursionError.
        if len(self.in_progress) <= self.most:
            result = self.parts(self.declared[fqn])
            self.check_type(result)
            inside = [self.depth.get(part.fqn, 0) for part in parts_of(result)]
            self.depth[fqn] = 1 + max(inside, default=0)
        if self.depth.get(fqn, self.most + 1) > self.most:
            self.problems.append(f"{fqn}: types are nested more than {self.most} deep")
        self.in_progress.pop()
        self.bound[fqn] = result if len(self.problems) == problems else _STAND_IN
        return self.bound[fqn]

    def parts(self, type_: UserType) -> UserType:
        """Return a user-defined type with its parts resolved."""
        group = split_fqn(type_.fqn)[0]
        match type_:
            case VlenType(fqn=fqn, base=base):
                return replace(type_, base=self.type(base, group, fqn))
            case CompoundType(fqn=fqn):
                fields = []
                for f in type_.fields:
                    at = f"{fqn}.{f.name}"
                    shape = self.fixed_shape(f.shape, at, "shape of the field")
                    fields.append(Field(f.name, self.type(f.type, group, at), shape))
                return replace(type_, fields=tuple(fields))
            case OpaqueType(fqn=fqn, size=size):
                return replace(type_, size=self.size(size, fqn, "size of the opaque type", most=_MOST_BYTES))
            case EnumType():
                return replace(type_, members=self.members(type_))
        return type_

    def members(self, enum: EnumType) -> tuple[tuple[str, int], ...]:
        base, members = enum.base, enum.members
        if not isinstance(base, PrimitiveType) or not base.is_integer:
            self.problems.append(
                f"{enum.fqn}: an enum needs an integer type, not {getattr(base, 'name', base)}"
            )
            return ()
        # netCDF-C refuses an enum without members.
        if not members:
            self.problems.append(f"{enum.fqn}: the enum has no members")
        if not all(isinstance(member, tuple | list) and len(member) == 2 for member in members):
            self.problems.append(f"{enum.fqn}: the members {members!r} are not pairs of a name and a value")
            return ()
        limits = np.iinfo(base.dtype)
        _check_each(enum.fqn, "member", [name for name, _ in members], check_text, self.problems)
        for name, value in members:
            if _whole(value) is None:
                self.problems.append(f"{enum.fqn}: the member {name} = {value!r} is not an integer")
            elif not limits.min <= value <= limits.max:
                self.problems.append(f"{enum.fqn}: the member {name} = {value} does not fit {base.name}")
        return tuple([(name, _whole(value) or 0) for name, value in members])

    def check_type(self, type_: UserType) -> None:
        """Check a type whose parts are resolved."""
        fqn = type_.fqn
        if isinstance(type_, CompoundType):
            _check_each(fqn, "field", [f.name for f in type_.fields], check_text, self.problems)
            if not type_.fields:
                # HDF5 has no compound without fields.
                self.problems.append(f"{fqn}: the compound type has no fields")
            size = sum([f.type.dtype.itemsize * math.prod(f.shape) for f in type_.fields])
            if size > _MOST_BYTES:
                self.problems.append(f"{fqn}: a value has {size} bytes; the maximum is {_MOST_BYTES}")


def _near(text: str, names: set[str]) -> str:
    hint = did_you_mean(text, names)
    return f"; {hint}" if hint else ""


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
    yield from _names_that(check_length, check_length, dataset)


def names_no_file_has(dataset: Dataset) -> Iterator[tuple[str, str]]:
    """Yield the FQN of each node whose name no netCDF file can have, with a message.

    Names that are too long (see :func:`long_names`), and names of nodes that contain ``/``.

    Examples
    --------
    >>> from nczarr.model import Dataset, Dimension
    >>> [print(fqn, wrong) for fqn, wrong in names_no_file_has(Dataset("d", dimensions=(Dimension("a/b", 1),)))]
    /a\\/b dimension: the name 'a/b' contains '/', which separates groups there
    [None]
    """
    yield from _names_that(check_file_name, check_length, dataset)


def _names_that(
    node: Callable[[str], str | None], part: Callable[[str], str | None], dataset: Dataset
) -> Iterator[tuple[str, str]]:
    """Yield the place and the message of each name of a node, or of an attribute, member or field, that is refused."""
    for fqn, group in dataset.walk():
        parts = list(_named(fqn, group))
        for type_ in group.types:
            kind = "member" if isinstance(type_, EnumType) else "field"
            parts.append((type_.fqn, kind, names_inside(type_)))
        for at, what, names in parts:
            is_node = what not in ("attribute", "member", "field")
            for name in names:
                wrong = (node if is_node else part)(name)
                if wrong is not None:
                    yield join_fqn(at, name) if is_node else at, f"{what}: {wrong}"


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

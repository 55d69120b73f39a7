"""Join datasets along a dimension, one that they have or a new one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nczarr.convert.change.selecting import find_dimension
from nczarr.convert.endpoints import name_of
from nczarr.convert.many.files import Files
from nczarr.convert.many.fit import OTHER_MEANING, check_join, differences, other_meanings, refuse, same_data
from nczarr.convert.many.steps import refuse_disorder
from nczarr.convert.many.times import moved, moves
from nczarr.errors import UnsupportedError, error_context
from nczarr.model import (
    ArraySource,
    Attribute,
    Dataset,
    Dimension,
    Group,
    Region,
    Variable,
    check_name,
    join_fqn,
    rewrite,
    split_fqn,
)
from nczarr.model.sources import ChangedSource, handed, region_shape


@dataclass(frozen=True, eq=False)
class JoinedSource:
    """The values of several sources, one behind the other along an axis."""

    parts: tuple[ArraySource, ...]
    axis: int

    @property
    def shape(self) -> tuple[int, ...]:
        first = self.parts[0].shape
        total = sum(part.shape[self.axis] for part in self.parts)
        return (*first[: self.axis], total, *first[self.axis + 1 :])

    @property
    def dtype(self) -> np.dtype:
        return self.parts[0].dtype

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        """Read a region; see :meth:`nczarr.model.ArraySource.read`."""
        if out is None:
            out = np.empty(region_shape(region), self.dtype)
        along = region[self.axis]
        wanted = range(along.start, along.stop, along.step or 1)
        start = done = 0
        for part in self.parts:
            length = part.shape[self.axis]
            if done == len(wanted):
                break
            here = range(wanted[done], min(start + length, wanted.stop), wanted.step)
            if len(here):
                inside = slice(here[0] - start, here[-1] + 1 - start, wanted.step)
                place: list[Any] = [slice(None)] * out.ndim
                place[self.axis] = slice(done, done + len(here))
                chosen = (*region[: self.axis], inside, *region[self.axis + 1 :])
                out[tuple(place)] = part.read(chosen)
                done += len(here)
            start += length
        return out


@dataclass(frozen=True, eq=False)
class StackedSource(ChangedSource):
    """The values of a source with one more dimension of length one in front."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (1, *self.inner.shape)

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        """Read a region; see :meth:`nczarr.model.ArraySource.read`."""
        return handed(self.inner.read(region[1:])[None], out)


@contextmanager
def join(
    sources: Sequence[Any],
    along: str,
    *,
    attributes: str = "outer",
    storage_options: Mapping[str, Any] | None = None,
    choose: Callable[[list[Dataset]], list[Dataset]] = lambda datasets: datasets,
) -> Iterator[Dataset]:
    """Join sources into one dataset with lazy data.

    Parameters
    ----------
    sources : sequence
        As for :func:`nczarr.convert.open_source`, in order.
    along : str
        A dimension by FQN or simple name; one that no source has is made new, and every variable that is no
        coordinate gets it in front.
    attributes : {'outer', 'first', 'exact'}
        All attributes of any source, the first source's where they differ and mean the same; those of the first
        source only; or refuse where they differ.
    choose : callable
        Returns the parts of the sources that are joined.

    Yields
    ------
    Dataset
        Its data can be read until the context ends.

    Raises
    ------
    ModelError
        If the sources do not fit together: the message lists what differs.
    UnsupportedError
        If times cannot be brought to the units of the first, or the joined coordinate is not monotonic.
    """
    check_join(attributes)
    with Files(sources, storage_options) as files:
        headers = choose([files.header(number) for number in range(len(sources))])
        with error_context(name_of(sources[0])):
            fqn, is_new = _dimension(headers[0], along)
        joined = _joined(headers, sources, fqn, is_new, attributes)
        yield joined


def _dimension(first: Dataset, along: str) -> tuple[str, bool]:
    simple = split_fqn(along)[1] if "/" in along else along
    exists = along in first.all_dimensions or f"/{along}" in first.all_dimensions
    if exists or ("/" not in along and any(split_fqn(d)[1] == along for d in first.all_dimensions)):
        return find_dimension(first, along, "--concat"), False
    fqn = along if along.startswith("/") else f"/{along}"
    wrong = check_name(simple)
    if wrong or split_fqn(fqn)[0] not in first.all_groups:
        raise UnsupportedError(f"--concat {along}: {wrong or 'there is no such group'}")
    if fqn in first.all_variables and first.all_variables[fqn].dimensions:
        raise UnsupportedError(f"--concat {along}: a variable has this name and other dimensions")
    return fqn, True


def _joined(
    headers: list[Dataset], sources: Sequence[Any], along: str, is_new: bool, attributes: str
) -> Dataset:
    first = headers[0]
    growing = growing_variables(first, along, is_new)
    for fqn, variable in first.all_variables.items():
        if list(variable.dimensions).count(along) > 1:
            raise UnsupportedError(
                f"the variable has the dimension {along} twice, and joined it would have holes",
                path=name_of(sources[0]),
                fqn=fqn,
                hint="-x leaves a variable out",
            )
    refused = f"the files cannot be joined along {along}; {name_of(sources[0])} is compared with the others"
    others = list(zip(sources[1:], headers[1:], strict=True))
    found = [
        (name_of(source), text)
        for source, other in others
        for text in differences(first, other, along, exact=attributes == "exact", growing=growing)
    ]
    refuse(found, refused)
    if attributes == "outer":
        meant = [(name_of(source), text) for source, other in others for text in other_meanings(first, other)]
        refuse(meant, refused, OTHER_MEANING)
    parts = [headers[0]]
    for source, other in zip(sources[1:], headers[1:], strict=True):
        with error_context(name_of(source)):
            parts.append(in_units_of(first, other, growing))
        for fqn, variable in first.all_variables.items():
            if fqn not in growing:
                found += [
                    (name_of(source), t) for t in same_data(fqn, variable.data, other.all_variables[fqn].data)
                ]
    refuse(found, refused)
    made = _assembled(parts, along, is_new, growing, attributes == "outer")
    refuse_disorder(made, along, sources)
    return replace(
        made,
        left_out=tuple(dict.fromkeys(what for part in headers for what in part.left_out)),
        gone=tuple(dict.fromkeys(what for part in headers for what in part.gone)),
    )


def growing_variables(dataset: Dataset, along: str, is_new: bool) -> frozenset[str]:
    """Return the variables that have a dimension, or will have it."""
    if not is_new:
        return frozenset(fqn for fqn, v in dataset.all_variables.items() if along in v.dimensions)
    group = split_fqn(along)[0]
    return frozenset(
        fqn
        for fqn, v in dataset.all_variables.items()
        if (group == "/" or fqn.startswith(f"{group}/"))
        and (fqn not in dataset.all_dimensions or fqn == along)
        and not _is_bounds(dataset, fqn)
    )


def _is_bounds(dataset: Dataset, fqn: str) -> bool:
    """True for the bounds of a coordinate, which belong where it is."""
    group, name = split_fqn(fqn)
    for owner, variable in dataset.all_variables.items():
        bounds = variable.attribute.get("bounds")
        if bounds is None or bounds.type.name != "char" or bounds.text.strip("\0 ") != name:
            continue
        if split_fqn(owner)[0] == group and owner in dataset.all_dimensions:
            return True
    return False


def in_units_of(first: Dataset, other: Dataset, growing: frozenset[str]) -> Dataset:
    """Return a dataset with its times in the units of another."""
    moving = moves(first, other, growing)
    if not moving:
        return other
    return rewrite(other, variable=lambda fqn, v: moved(v, moving[fqn]) if fqn in moving else v)


def _assembled(
    parts: list[Dataset], along: str, is_new: bool, growing: frozenset[str], merge: bool
) -> Dataset:
    first = parts[0]

    def variable(fqn: str, old: Variable) -> Variable:
        if merge:
            old = replace(old, attributes=_union([p.all_variables[fqn].attributes for p in parts]))
        if fqn not in growing:
            return old
        data: list[ArraySource] = []
        for part in parts:
            found = part.all_variables[fqn].data
            assert found is not None
            data.append(StackedSource(found) if is_new else found)
        axis = 0 if is_new else old.dimensions.index(along)
        dimensions = (along, *old.dimensions) if is_new else old.dimensions
        storage = old.storage
        if is_new:
            chunks = storage.chunk_shape
            storage = replace(storage, chunk_shape=None if chunks is None else (1, *chunks))
            if storage.layout == "compact":
                storage = replace(storage, layout=None)
        return replace(old, dimensions=dimensions, storage=storage, data=JoinedSource(tuple(data), axis))

    if is_new:
        size = len(parts)
        made = _with_dimension(first, along, Dimension(split_fqn(along)[1], size))
    else:
        size = sum(part.dimension_at(along).size for part in parts)
        made = rewrite(first, dimension=lambda fqn, d: replace(d, size=size) if fqn == along else d)
    if merge:
        made = replace(made, attributes=_union([part.attributes for part in parts]))
    return rewrite(made, variable=variable)


def _with_dimension(dataset: Dataset, fqn: str, dimension: Dimension) -> Dataset:
    owner = split_fqn(fqn)[0]

    def inside(at: str, group: Any) -> Any:
        groups: tuple[Group, ...] = tuple(inside(join_fqn(at, g.name), g) for g in group.groups)
        own = (dimension, *group.dimensions) if at == owner else group.dimensions
        return replace(group, dimensions=own, groups=groups)

    made = inside("/", dataset)
    assert isinstance(made, Dataset)
    return made


def _union(lists: Sequence[tuple[Attribute, ...]]) -> tuple[Attribute, ...]:
    found: dict[str, Attribute] = {}
    for attributes in lists:
        for attribute in attributes:
            found.setdefault(attribute.name, attribute)
    return tuple(found.values())

"""Append datasets to a stored dataset or a netCDF file along an unlimited dimension."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from nczarr.convert.change.selecting import find_dimension
from nczarr.convert.endpoints import name_of
from nczarr.convert.many.adjusting import adjusted
from nczarr.convert.many.expected import cut_source
from nczarr.convert.many.fit import OTHER_MEANING, Fitting, differences, other_meanings, refuse, same_data
from nczarr.convert.many.joining import JoinedSource, growing_variables, in_units_of
from nczarr.convert.many.steps import (
    as_known,
    refuse_missing,
    refuse_repeated_names,
    steps_of,
    tolerance_between,
)
from nczarr.convert.verify.digests import ATTRIBUTE, without_digest
from nczarr.errors import UnsupportedError, error_context
from nczarr.mapping import open_dataset
from nczarr.mapping.guarding.changes import writing_alone
from nczarr.model import ArraySource, Dataset, MemorySource, Region, Variable, rewrite, source_of
from nczarr.session import DimensionNode, Session, VariableNode
from nczarr.stores import open_store
from nczarr.transfer import Progress, blocks_of, data_bytes, transfer


@dataclass(frozen=True)
class Appending:
    """Appends the steps of sources to a dataset: values behind the old length first, then the lengths.

    A reader sees the old length or the new one. Each method returns the number of bytes of the added values. It raises
    ModelError or UnsupportedError if the datasets do not fit together; nothing is written then.

    Parameters
    ----------
    opening : callable
        Opens the sources as one dataset, joined along the dimension of its argument.
    sources : sequence
        Their names.
    along : str, optional
        The dimension; the only unlimited one of the target by default.
    replace_steps : bool
        Overwrite repeated steps. By default they are refused.
    fitting : Fitting
        How sources that differ from the target are appended.
    durable : bool, optional
        False: do not wait for the disk, and do not order the writes.
    memory : int
        Maximum size of the values in memory, in bytes.
    """

    opening: Callable[[str], AbstractContextManager[Dataset]]
    sources: Sequence[object]
    along: str | None
    replace_steps: bool
    fitting: Fitting
    durable: bool | None
    progress: Progress
    memory: int

    def to_zarr(self, target: object, options: Mapping[str, object] | None, workers: int) -> int:
        """Append to a Zarr dataset. `options` are those of the file system."""
        store = open_store(target, "r+", dict(options) if options else None)
        with (
            writing_alone(store) as check,
            open_dataset(store, "r+", consolidated=False if store.listable else None) as stored,
        ):
            if stored.layout in ("zarr-v3", "zarr-v2"):
                raise UnsupportedError(
                    f"--append: plain Zarr ({stored.layout}) has no unlimited dimension",
                    path=str(target),
                    hint="copy it with --layout nczarr-v3 --unlimited DIMENSION first",
                )
            session = Session(stored, name=str(target), writable=True)
            return self._run(session, check, workers, concurrent=True)

    def to_records(self, target: Path) -> int:
        """Append to a classic netCDF file, in place.

        The new records are written behind the counted records, which readers ignore, then the number of records in
        one write. A process that is killed before leaves the old dataset with spare bytes, which the next append
        overwrites.

        Raises
        ------
        NetCDFFileError
            If the file cannot be written. It is unchanged then.
        """
        from nczarr.netcdf.edit.opening import edit_records

        with edit_records(target) as file:
            return self._run(Session(file, name=str(target), writable=True))

    def to_copy(self, target: Path) -> int:
        """Append to a copy of a netCDF file, which then replaces the file.

        No single write extends all variables of an HDF5 file, or replaces steps in a file of any format. The copy is
        bytewise, and shares the bytes on file systems that support this.

        Raises
        ------
        FixedFileError
            If the file is readable but cannot be changed.
        NetCDFFileError
            If the file cannot be written. The file is unchanged in all cases.
        """
        from nczarr.netcdf.edit.opening import edit_copy

        with edit_copy(target) as file:
            return self._run(Session(file, name=str(target), writable=True))

    def _run(
        self,
        session: Session,
        check: Callable[[], None] = lambda: None,
        workers: int = 1,
        *,
        concurrent: bool = False,
    ) -> int:
        """Write the values, call `check`, and store the lengths."""
        stored, target = session.stored, session.name
        stored.durable = self.durable
        session.cache.bound = min(session.cache.bound, self.memory)
        session.cache.reserves = False
        old = stored.dataset
        fqn = growing_dimension(old, self.along, target)
        with self.opening(fqn) as opened:
            added, first, count = prepare(
                old, opened, fqn, self.sources, target, self.replace_steps, self.fitting
            )
            growing = {
                v.fqn: v for v in session.root.walk_variables() if fqn in [d.ref for d in v.dimensions]
            }
            moved = sum(data_bytes(_data(added, at)) for at in growing)
            if count or first != old.dimension_at(fqn).size:
                dimension = session.root.dimension_at(fqn)
                session.extend(dimension, first + added.dimension_at(fqn).size)
                sink = _Shifted(session, growing, dimension, first, concurrent)
                self.progress.start(moved)
                try:
                    transfer(sink.blocks(added), sink, self.progress, workers, self.memory)
                finally:
                    self.progress.finish()
                check()
                if ATTRIBUTE in session.root.attributes:
                    session.root.delete_attribute(ATTRIBUTE)
                session.store()
            return moved


def _data(added: Dataset, fqn: str) -> ArraySource:
    variable = added.all_variables[fqn]
    return source_of(variable, added.shape(variable))


class _Shifted:
    """A sink that writes to a session, a number of steps further along one dimension."""

    def __init__(
        self,
        session: Session,
        growing: Mapping[str, VariableNode],
        dimension: DimensionNode,
        first: int,
        concurrent: bool,
    ) -> None:
        self._session, self._growing, self._first = session, growing, first
        self._axes = {fqn: node.dimensions.index(dimension) for fqn, node in growing.items()}
        self.concurrent = concurrent

    def write_shape(self, fqn: str) -> tuple[int, ...]:
        return self._session.chunk_shape(self._growing[fqn]) or ()

    def write(self, fqn: str, region: Region, values: np.ndarray) -> None:
        node, axis = self._growing[fqn], self._axes[fqn]
        shifts = [self._first if i == axis else 0 for i in range(len(region))]
        place = tuple([slice(s.start + n, s.stop + n, 1) for s, n in zip(region, shifts, strict=True)])
        self._session.write(node, place, np.asarray(values, node.type.dtype))

    def commit(self) -> None:
        """Do nothing: the session stores the lengths."""

    def abort(self) -> None:
        """Do nothing: no length has changed."""

    def blocks(self, added: Dataset) -> Iterator[tuple[str, Region, ArraySource]]:
        """Yield blocks that end at the chunk borders of the target, so that no chunk is written twice."""
        for fqn, axis in self._axes.items():
            variable, data = added.all_variables[fqn], _data(added, fqn)
            head = min(-self._first % self.write_shape(fqn)[axis], data.shape[axis])
            for low, high in ((0, head), (head, data.shape[axis])):
                if low == high:
                    continue
                part = cut_source(data, axis, low, high)
                for name, region, _ in blocks_of([(fqn, variable, part)], self):
                    place = slice(region[axis].start + low, region[axis].stop + low, 1)
                    yield name, (*region[:axis], place, *region[axis + 1 :]), data


def growing_dimension(dataset: Dataset, along: str | None, target: str) -> str:
    """Return the FQN of the dimension along which a dataset grows.

    Raises
    ------
    UnsupportedError
        If it is not unlimited, or the dataset does not have exactly one unlimited dimension.
    """
    if along is not None:
        fqn = find_dimension(dataset, along, "--concat")
        if not dataset.dimension_at(fqn).unlimited:
            raise UnsupportedError(
                f"the dimension {fqn} is not unlimited", path=target, hint="copy it with --unlimited first"
            )
        return fqn
    found = [fqn for fqn, d in dataset.all_dimensions.items() if d.unlimited]
    if len(found) != 1:
        what = f"several unlimited dimensions: {', '.join(found)}" if found else "no unlimited dimension"
        raise UnsupportedError(f"the dataset has {what}", path=target, hint="--concat says which")
    return found[0]


def prepare(
    old: Dataset,
    added: Dataset,
    along: str,
    sources: Sequence[object],
    target: object,
    replace_steps: bool,
    fitting: Fitting,
) -> tuple[Dataset, int, int]:
    """Check that the dataset of some sources fits behind another dataset.

    Returns
    -------
    (Dataset, int, int)
        The added dataset, in the units of the old one; the index of its first step in the target; the number of new
        steps.
    """
    names = [name_of(source) for source in (sources[0], sources[-1])]
    source = names[0] if len(sources) == 1 else " … ".join(names)
    growing = growing_variables(old, along, False)
    added = adjusted([old, added], [str(target), source], along, fitting, fixed=True)[1]
    exact = fitting.join == "exact"
    found = [(source, d) for d in differences(old, added, along, exact=exact, growing=growing)]
    what = f"it does not fit behind the dataset {target} along {along}"
    refuse(found, what)
    if fitting.join in ("outer", "fill"):
        refuse([(source, t) for t in other_meanings(old, added)], what, OTHER_MEANING)
    with error_context(source):
        added = in_units_of(old, added, growing)
    for fqn, variable in old.all_variables.items():
        if fqn not in growing:
            data = added.all_variables[fqn].data
            found += [(source, d) for d in same_data(fqn, variable.data, data, fitting.tolerance)]
    refuse(found, what)
    size = old.dimension_at(along).size
    with error_context(source):
        added, first = _place(old, added, along, replace_steps)
    return added, first, max(0, first + added.dimension_at(along).size - size)


def _place(old: Dataset, added: Dataset, along: str, replace_steps: bool) -> tuple[Dataset, int]:
    """Return the added dataset, with the target's own numbers for repeated steps, and the index of its first step."""
    size = old.dimension_at(along).size
    here, there = steps_of(old, along), steps_of(added, along)
    if here is None or there is None or not len(here) or not len(there):
        if replace_steps:
            raise UnsupportedError(f"--replace: {along} has no coordinate to find repeated steps by")
        return added, size
    if there.dtype.kind == "O":
        return added, _place_of_names(here, there, along, replace_steps)
    refuse_missing(added.all_variables[along], there, along, lambda step: None)
    data = [dataset.all_variables[along].data for dataset in (old, added)]
    tolerance = tolerance_between(
        old.all_variables[along], here, there, data=[d for d in data if d is not None]
    )
    known = as_known(here, there, tolerance)
    if (known != there).any():
        own = MemorySource(known.astype(there.dtype))
        added = rewrite(added, variable=lambda fqn, v: v.with_data(own) if fqn == along else v)
        there = known
    repeated = np.isin(there, here)
    down = len(here) > 1 and here[-1] < here[0]
    if repeated.any() and not replace_steps:
        raise _repeated(there[repeated], along)
    whole = np.concatenate([here[: size if not repeated.any() else _index(here, there[0])], there])
    # Differences of unsigned numbers would wrap around.
    follows = whole[1:] < whole[:-1] if down else whole[1:] > whole[:-1]
    first = len(whole) - len(there)
    fits = np.array_equal(here[first : first + len(there)], there[: max(0, size - first)])
    if not follows.all() or not fits:
        raise UnsupportedError(
            f"the steps along {along} begin at {there[0]} and end at {there[-1]}; the dataset ends at {here[-1]}, "
            "and they do not follow it",
            hint="join the files anew, in order",
        )
    return added, first


def _place_of_names(here: np.ndarray, there: np.ndarray, along: str, replace_steps: bool) -> int:
    """Return the index of the first added step if the steps are names, which have no order."""
    repeated = np.isin(there, here)
    if repeated.any() and replace_steps:
        raise UnsupportedError(f"--replace: the steps along {along} are names, which have no order")
    if repeated.any():
        raise _repeated(there[repeated], along)
    refuse_repeated_names(there, along, lambda step: "the source")
    return len(here)


def _repeated(steps: np.ndarray, along: str) -> UnsupportedError:
    return UnsupportedError(
        f"{len(steps)} steps along {along} are there already, the first is {steps[0]}",
        hint="--replace writes over them",
    )


def _index(here: np.ndarray, value: object) -> int:
    found = np.flatnonzero(here == value)
    return int(found[0]) if found.size else len(here)


def appended(
    old: Dataset,
    added: Dataset,
    along: str | None,
    sources: Sequence[object],
    target: object,
    replace_steps: bool,
    fitting: Fitting,
) -> Dataset:
    """Return a dataset with another one behind it, for formats that are written as a whole."""
    fqn = growing_dimension(old, along, str(target))
    added, first, _ = prepare(old, added, fqn, sources, target, replace_steps, fitting)
    last = first + added.dimension_at(fqn).size

    def variable(at: str, v: Variable) -> Variable:
        other = added.all_variables[at]
        if fqn not in v.dimensions or v.data is None or other.data is None:
            return v
        axis = v.dimensions.index(fqn)
        parts = [
            cut_source(v.data, axis, 0, first),
            other.data,
            cut_source(v.data, axis, last, v.data.shape[axis]),
        ]
        return v.with_data(JoinedSource(tuple(p for p in parts if p.shape[axis]) or (v.data,), axis))

    size = max(old.dimension_at(fqn).size, last)
    return rewrite(
        without_digest(old),
        variable=variable,
        dimension=lambda at, d: replace(d, size=size) if at == fqn else d,
    )

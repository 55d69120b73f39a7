"""Append datasets to a stored dataset or a netCDF file along an unlimited dimension."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from nczarr.convert.change.selecting import cut_source, find_dimension
from nczarr.convert.endpoints import TargetFormat, name_of, open_source, refuse_same_place, sink_of
from nczarr.convert.filling import FillTask
from nczarr.convert.many.adjusting import fitted
from nczarr.convert.many.joining import JoinedSource
from nczarr.convert.many.steps import (
    as_known,
    refuse_missing,
    refuse_repeated_names,
    shown_step,
    steps_of,
    tolerance_between,
)
from nczarr.convert.request import CopyRequest, Sources
from nczarr.convert.values.resume import NO_RECORD, not_ingested, records_of, with_steps
from nczarr.convert.verify.digests import ATTRIBUTE, without_digest
from nczarr.errors import UnsupportedError, error_context, suppress_reason
from nczarr.formats import kind_of_source, local_path, netcdf_format
from nczarr.mapping import open_dataset
from nczarr.mapping.dataset.changes import writing_alone
from nczarr.model import ArraySource, Dataset, MemorySource, Region, Variable, rewrite, source_of
from nczarr.model.nodes import IngestedSource
from nczarr.options import named, verb_named
from nczarr.session import DimensionNode, Session, VariableNode
from nczarr.stores import open_store
from nczarr.system.logs import logger_of
from nczarr.transfer import blocks_of, data_bytes, dataset_bytes, reporting, transfer


@dataclass(frozen=True)
class AppendTask:
    """Appends the steps of sources to a dataset: values behind the old length first, then the lengths.

    A reader sees the old length or the new one. Nothing is written if the datasets do not fit together.

    Parameters
    ----------
    replace_steps : bool
        Overwrite repeated steps. By default they are refused.
    begun : (int, int), optional
        The steps of an append of the same sources that has not ended; they are overwritten.
    """

    request: CopyRequest
    sources: Sources
    replace_steps: bool
    begun: tuple[int, int] | None = None

    def run(self) -> None:
        """Append the sources, and report the size of their values."""
        request, target = self.request, self.request.target
        refuse_same_place(self.sources.paths, target)
        kind = kind_of_source(target)
        if kind == "cdl":
            raise UnsupportedError(
                "an append to CDL text is not possible",
                path=str(target),
                hint=f"{verb_named('join')} joins files to a new one",
            )
        request.form.refuse_for(kind, request.given)
        logger_of(__name__).info("%s: appending %s", name_of(target), self.sources)
        if request.trust.record_sources and kind != "zarr":
            raise UnsupportedError(f"{named('record_sources')}: {NO_RECORD}", path=str(target))
        paths, size = self._to_zarr() if kind == "zarr" else (self.sources.paths, self._to_file())
        if request.effort.report is not None:
            request.effort.report.skipped += len(self.sources.paths) - len(paths)
            request.effort.report.add(paths, None, size)

    @contextmanager
    def _placed(self, old: Dataset) -> Iterator[tuple[str, Dataset, int]]:
        """Open the sources, joined along the dimension that grows; yield it and the results of :meth:`place`."""
        along = _growing_dimension(old, self.sources.along, str(self.request.target))
        joined = along if len(self.sources.paths) > 1 else None
        with replace(self.sources, along=joined).open_part(self.request.lossy) as added:
            yield along, *self.place(old, added, along)

    def _to_zarr(self) -> tuple[tuple[object, ...], int]:
        """Append the sources that are not recorded in the dataset; return them, and the size of the added values."""
        target, options = self.request.target, self.request.access.target_options
        store = open_store(target, "r+", options)
        with (
            writing_alone(store) as check,
            open_dataset(store, "r+", consolidated=False) as stored,
        ):
            if stored.layout in ("zarr-v3", "zarr-v2"):
                raise UnsupportedError(
                    f"plain Zarr ({stored.layout}) has no unlimited dimension to append along",
                    path=str(target),
                    hint=f"copy it with {named('layout', 'nczarr-v3')} and {named('unlimited', 'DIM')} first",
                )
            paths, records, known = self.sources.paths, list[IngestedSource](), stored.dataset.sources
            found: list[tuple[int, tuple[int, int] | None]] = [(number, None) for number in range(len(paths))]
            if known or self.request.trust.record_sources:
                if stored.layout != "nczarr-v3":
                    raise UnsupportedError(f"{named('record_sources')}: {NO_RECORD}", path=str(target))
                records = records_of(paths, self.sources.options)
                found = not_ingested(records, known, replace_steps=self.replace_steps)
            session, size = Session(stored, name=str(target), writable=True), 0
            for again in (True, False):  # first those whose append has not ended
                own = {number: steps for number, steps in found if (steps is not None) == again}
                if own:
                    begun = [n for steps in own.values() for n in steps or ()]
                    task = replace(
                        self,
                        sources=replace(self.sources, paths=tuple(paths[i] for i in own)),
                        begun=(min(begun), max(begun)) if begun else None,
                    )
                    size += task._run(session, check, [records[i] for i in own if records])
            return tuple(paths[i] for i, _ in found), size

    def _to_file(self) -> int:
        """Append to a netCDF file: in place, to a copy that then replaces the file, or to a new file.

        New records of a classic file are written behind the counted records, which readers ignore, then the number of
        records in one write. A process that is killed before leaves the old dataset with spare bytes, which the next
        append overwrites. No single write extends all variables of an HDF5 file, or replaces steps in a file of any
        format: these are written to a bytewise copy, which shares the bytes on file systems that support this. Files
        that cannot be changed are written as a whole.
        """
        from nczarr.netcdf.edit.opening import edit_copy, edit_records

        target, form = self.request.target, self.request.form
        path = local_path(target)
        if path is not None and form == TargetFormat():
            edit = edit_copy
            if not self.replace_steps and netcdf_format(str(path)) != "hdf5":
                with open_source(path) as dataset:  # appending removes a digest
                    edit = edit_copy if ATTRIBUTE in dataset.attribute else edit_records
            with suppress_reason("fixed"), edit(path) as file:
                return self._run(Session(file, name=str(path), writable=True))
        with open_source(target) as old, self._placed(old) as (fqn, added, first):
            joined = _appended(old, added, fqn, first)
            durable = self.request.trust.durable
            sink = sink_of(target, joined, form, overwrite=True, durable=durable)
            FillTask(self.request, joined, sink).run()
            return dataset_bytes(added)

    def _run(
        self,
        session: Session,
        check: Callable[[], None] = lambda: None,
        records: Sequence[IngestedSource] = (),
    ) -> int:
        """Write the values, call `check`, store lengths and records; return the size of the added values."""
        stored, request, effort = session.stored, self.request, self.request.effort
        stored.durable = request.trust.durable
        session.cache.bound = min(session.cache.bound, effort.memory)
        session.cache.reserves = False
        states = self.sources.states()
        with self._placed(stored.dataset) as (fqn, added, first):
            size = added.dimension_at(fqn).size
            growing = {
                v.fqn: v for v in session.root.walk_variables() if fqn in [d.ref for d in v.dimensions]
            }
            moved = sum(data_bytes(_data(added, at)) for at in growing)
            if size:
                if records:
                    alone = (IngestedSource(name_of(self.sources.paths[0]), steps=(0, size)),)
                    joined = (
                        added if len(records) > 1 or self.sources.merge else replace(added, sources=alone)
                    )
                    new = with_steps(records, self.sources.paths, joined, first)
                    # If this append does not end, the next one finds its steps.
                    _record(session, [replace(r, size=None, sha256=None, version=None) for r in new])
                    session.store()
                dimension = session.root.dimension_at(fqn)
                session.extend(dimension, first + size)
                # A netCDF file is written by one thread.
                sink = _Shifted(session, growing, dimension, first, stored.disk_format == "ZARR")
                with reporting(effort.progress, moved):
                    transfer(
                        sink.blocks(added),
                        sink,
                        effort.progress,
                        effort.workers,
                        effort.memory,
                    )
                check()
                self.sources.refuse_changes(states)  # before a length tells readers of the values
                if ATTRIBUTE in session.root.attributes:
                    session.root.delete_attribute(ATTRIBUTE)
                if records:
                    _record(session, new)
                session.store()
            return moved

    def place(self, old: Dataset, added: Dataset, along: str) -> tuple[Dataset, int]:
        """Check that the dataset of the sources fits behind another dataset, or in the place of steps that it has.

        Returns
        -------
        (Dataset, int)
            The added dataset, in the units of the old one; and the index of its first step in the target.
        """
        names, target = [name_of(path) for path in self.sources.paths], str(self.request.target)
        source = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
        refused = f"it does not fit behind the dataset {target} along {along}"
        fitting = self.sources.fitting
        parts, _ = fitted([old, added], [target, source], along, False, fitting, refused, fixed=True)
        with error_context(source):
            return self._step(old, parts[1], along)

    def _step(self, old: Dataset, added: Dataset, along: str) -> tuple[Dataset, int]:
        """Return the added dataset, with the target's numbers for repeated steps, and the index of its first step."""
        size = old.dimension_at(along).size
        here, there = steps_of(old, along), steps_of(added, along)
        if here is None or there is None or not len(here) or not len(there):
            if self.begun is not None:
                low, high = self.begun
                if not low <= size <= high or added.dimension_at(along).size != high - low:
                    raise UnsupportedError(
                        f"an append has begun with the steps {low}:{high} along {along} and has not ended; "
                        f"the dimension has {size} steps now, and no coordinate to find the steps by",
                        hint="append the files of that append alone, or join all files anew",
                    )
                return added, low
            if self.replace_steps:
                raise UnsupportedError(
                    f"{named('replace')}: {along} has no coordinate to find repeated steps by"
                )
            return added, size
        replace_steps = self.replace_steps or self.begun is not None
        shown = partial(shown_step, old.all_variables[along])
        are_names = there.dtype.kind == "O"
        if not are_names:
            refuse_missing(added.all_variables[along], there, along, lambda step: None)
            mine, theirs = old.all_variables[along], added.all_variables[along]
            data = [d for d in (mine.data, theirs.data) if d is not None]
            known = as_known(here, there, tolerance_between(mine, here, there, data=data))
            if (known != there).any():
                own = MemorySource(known.astype(there.dtype))
                added = rewrite(added, variable=lambda fqn, v: v.with_data(own) if fqn == along else v)
                there = known
        repeated = np.isin(there, here)
        if repeated.any() and not replace_steps:
            raise UnsupportedError(
                f"{repeated.sum()} steps along {along} are there already, "
                f"the first is {shown(there[repeated][0])}",
                hint=f"{named('replace', True)} writes over them",
            )
        if are_names:
            if repeated.any():
                raise UnsupportedError(
                    f"{named('replace')}: the steps along {along} are names, which have no order"
                )
            refuse_repeated_names(there, along, lambda step: "the source")
            return added, size
        down = len(here) > 1 and here[-1] < here[0]
        same = np.flatnonzero(here == there[0])
        whole = np.concatenate([here[: same[0] if repeated.any() and same.size else size], there])
        # Differences of unsigned numbers would wrap around.
        follows = whole[1:] < whole[:-1] if down else whole[1:] > whole[:-1]
        first = len(whole) - len(there)
        fits = np.array_equal(here[first : first + len(there)], there[: max(0, size - first)])
        if not follows.all() or not fits:
            raise UnsupportedError(
                f"the steps along {along} begin at {shown(there[0])} and end at {shown(there[-1])}; "
                f"the dataset ends at {shown(here[-1])}, and they do not follow it",
                hint="join the files anew, in order",
            )
        return added, first


def _record(session: Session, sources: Sequence[IngestedSource]) -> None:
    """Add sources to the record, in place of those with the same names."""
    session.sources = tuple({s.name: s for s in (*session.sources, *sources)}.values())


def _data(added: Dataset, fqn: str) -> ArraySource:
    variable = added.all_variables[fqn]
    return source_of(variable, added.shape_of(variable))


@dataclass
class _Shifted:
    """A sink that writes to a session, a number of steps further along one dimension."""

    session: Session
    growing: Mapping[str, VariableNode]
    dimension: DimensionNode
    first: int
    concurrent: bool

    def write_shape(self, fqn: str) -> tuple[int, ...]:
        return self.session.chunk_shape(self.growing[fqn]) or ()

    def write(self, fqn: str, region: Region, values: np.ndarray) -> None:
        node = self.growing[fqn]
        axis = node.dimensions.index(self.dimension)
        shifts = [self.first if i == axis else 0 for i in range(len(region))]
        place = tuple([slice(s.start + n, s.stop + n, 1) for s, n in zip(region, shifts, strict=True)])
        self.session.write(node, place, np.asarray(values, node.type.dtype))

    def commit(self) -> None:
        """Do nothing: the session stores the lengths."""

    def abort(self) -> None:
        """Do nothing: no length has changed."""

    def blocks(self, added: Dataset) -> Iterator[tuple[str, Region, ArraySource]]:
        """Yield blocks that end at the chunk borders of the target, so that no chunk is written twice."""
        for fqn, node in self.growing.items():
            axis = node.dimensions.index(self.dimension)
            variable, data = added.all_variables[fqn], _data(added, fqn)
            head = min(-self.first % self.write_shape(fqn)[axis], data.shape[axis])
            for low, high in ((0, head), (head, data.shape[axis])):
                if low == high:
                    continue
                part = cut_source(data, axis, low, high)
                for name, region, _ in blocks_of([(fqn, variable, part)], self):
                    place = slice(region[axis].start + low, region[axis].stop + low, 1)
                    yield name, (*region[:axis], place, *region[axis + 1 :]), data


def _growing_dimension(dataset: Dataset, along: str | None, target: str) -> str:
    """Return the FQN of the dimension along which a dataset grows.

    Raises
    ------
    UnsupportedError
        If it is not unlimited, or the dataset does not have exactly one unlimited dimension.
    """
    if along is not None:
        fqn = find_dimension(dataset, along, "along")
        if not dataset.dimension_at(fqn).unlimited:
            raise UnsupportedError(
                f"the dimension {fqn} is not unlimited",
                path=target,
                hint=f"copy it with {named('unlimited')} first",
            )
        return fqn
    found = [fqn for fqn, d in dataset.all_dimensions.items() if d.unlimited]
    if len(found) != 1:
        what = f"several unlimited dimensions: {', '.join(found)}" if found else "no unlimited dimension"
        raise UnsupportedError(f"the dataset has {what}", path=target, hint=f"{named('along')} says which")
    return found[0]


def _appended(old: Dataset, added: Dataset, along: str, first: int) -> Dataset:
    """Return a dataset with the steps of another one from the index `first` on."""
    last = first + added.dimension_at(along).size

    def variable(at: str, v: Variable) -> Variable:
        other = added.all_variables[at]
        if along not in v.dimensions or v.data is None or other.data is None:
            return v
        axis = v.dimensions.index(along)
        rest = cut_source(v.data, axis, last, v.data.shape[axis])
        parts = (cut_source(v.data, axis, 0, first), other.data, rest)
        return v.with_data(JoinedSource(tuple(p for p in parts if p.shape[axis]) or (v.data,), axis))

    size = max(old.dimension_at(along).size, last)
    return rewrite(
        without_digest(old),
        variable=variable,
        dimension=lambda at, d: replace(d, size=size) if at == along else d,
    )

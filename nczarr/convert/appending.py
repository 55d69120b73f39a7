"""Append datasets to a stored dataset or a netCDF file along an unlimited dimension."""

from __future__ import annotations

import os
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
from nczarr.convert.many.places import PlacedSteps, placed_in_region
from nczarr.convert.many.steps import (
    as_known,
    bounds_of,
    is_gap,
    known_after,
    known_of,
    refuse_missing,
    refuse_repeated_names,
    shown_step,
    steps_of,
    tolerance_between,
    with_finer_times,
)
from nczarr.convert.report import AppendedSteps, PlannedVariable, planned_variable, written_objects
from nczarr.convert.request import CopyRequest, Sources
from nczarr.convert.values.resume import NO_RECORD, not_ingested, records_of, with_steps
from nczarr.convert.verify.digests import ATTRIBUTE, bands, without_digest
from nczarr.errors import LockedError, NCZarrError, UnsupportedError, error_context, suppress_reason
from nczarr.formats import kind_of_source, local_path, netcdf_format
from nczarr.mapping import StoredDataset, open_dataset
from nczarr.mapping.dataset.beside import lets_writers_in, writing_beside
from nczarr.mapping.dataset.changes import writing_alone
from nczarr.model import ArraySource, Dataset, MemorySource, Region, Variable, rewrite, same_values, source_of
from nczarr.model.nodes import IngestedSource, KnownSteps
from nczarr.model.sources import handed
from nczarr.options import named, verb_named
from nczarr.session import DimensionNode, Session, VariableNode
from nczarr.stores import Store, open_store
from nczarr.system.locks import in_time
from nczarr.system.logs import logger_of
from nczarr.system.warning import warn
from nczarr.transfer import blocks_of, data_bytes, reporting, transfer


@dataclass(frozen=True)
class Appended:
    """The result of an append of some sources: the steps `first` to `last` along a dimension."""

    task: AppendTask
    along: str
    first: int
    last: int
    steps: AppendedSteps | None = None
    written: tuple[PlannedVariable, ...] = ()
    #: The size of the written objects, if it is known.
    stored: int | None = None


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
    records_steps : bool
        The target has a place for the record of its steps.
    """

    request: CopyRequest
    sources: Sources
    replace_steps: bool
    begun: tuple[int, int] | None = None
    records_steps: bool = False

    def run_in_time(self) -> None:
        """Append the sources; wait for other writers as long as the request says."""
        wait = self.request.access.wait
        try:
            in_time(self.run, wait)
        except LockedError as error:
            # To wait does not help if the other program was stopped: that hint names clean.
            if not (error.hint and "clean" in error.hint):
                longer = f"{named('wait', 60)} waits a minute for it"
                error.hint = longer if not wait else f"it has the dataset for longer than {wait:g} s"
            raise

    def run(self) -> None:
        """Append the sources, verify and report what was added."""
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
        if self.region and kind != "zarr":
            raise UnsupportedError(
                f"{named('region')}: only a Zarr dataset can have several writers",
                path=str(target),
                hint=f"{named('replace', True)} writes over steps of a file",
            )
        done = self._to_zarr() if kind == "zarr" else [self._to_file()]
        for added in done:
            if request.trust.verify:
                added.task.verify(added)
            logger_of(__name__).info("%s: appended %s", name_of(target), added.steps or "no steps")
        if request.effort.report is not None:
            paths = [path for added in done for path in added.task.sources.paths]
            request.effort.report.skipped += len(self.sources.paths) - len(paths)
            sizes = [added.stored for added in done]
            stored = None if None in sizes else sum(n for n in sizes if n is not None)
            request.effort.report.add_steps(
                paths,
                [added.steps for added in done if added.steps is not None],
                [variable for added in done for variable in added.written],
                stored,
            )

    def verify(self, done: Appended) -> None:
        """Read the added steps again, and compare them with the sources.

        Raises
        ------
        NCZarrError
            If a value differs.
        """
        target, along = self.request.target, done.along
        joined = along if len(self.sources.paths) > 1 else None
        where = self.request.access.target_options
        with (
            open_source(target, storage_options=where, fresh=True) as now,
            replace(self.sources, along=joined).open_part(self.request.lossy) as opened,
        ):
            added = self._fitted(now, opened, along)
            for fqn, variable in now.all_variables.items():
                if along not in variable.dimensions:
                    continue
                axis, data = variable.dimensions.index(along), _data(added, fqn)
                mine = cut_source(source_of(variable, now.shape_of(variable)), axis, done.first, done.last)
                for region in bands(data.shape, data.dtype.itemsize, variable.storage.chunk_shape):
                    theirs, here = data.read(region), mine.read(region)
                    if fqn == along and here.dtype.kind in "iuf":  # the known number of a step is kept
                        theirs = as_known(
                            here, theirs, tolerance_between(variable, here, theirs, data=(mine, data))
                        )
                    if not same_values(here, theirs):
                        raise NCZarrError(
                            f"the stored steps {done.first}:{done.last} along {along} differ from their source",
                            path=str(target),
                            fqn=fqn,
                            hint=f"{named('replace', True)} writes them again; check the disk",
                        )

    @property
    def region(self) -> Mapping[str, slice]:
        """The requested place of the steps, by the name of the dimension."""
        return self.request.combination.place

    @contextmanager
    def _placed(self, old: Dataset) -> Iterator[tuple[str, PlacedSteps]]:
        """Open the sources, joined along the dimension of the steps; yield it, and the place of their steps."""
        if self.region:
            along = find_dimension(old, next(iter(self.region)), "region")
        else:
            along = growing_dimension(old, self.sources.along, str(self.request.target))
        joined = along if len(self.sources.paths) > 1 else None
        with replace(self.sources, along=joined).open_part(self.request.lossy) as added:
            yield along, (self._in_region if self.region else self.place)(old, added, along)

    @contextmanager
    def _opened(
        self, store: Store, keys: frozenset[str] | None
    ) -> Iterator[tuple[StoredDataset, CopyRequest, Sources]]:
        """Open the target, with the request and the sources that go on with it; refine its times before on request.

        `keys` are those at the top of the store, if they are known.
        """
        # The dataset is opened again after its times have changed: its arrays and session have the old ones. It is
        # also opened again by its own documents if the consolidated copy, which costs one request, differs from a
        # document that the append is to write: it would undo the change of another program.
        is_refined, copies = False, None if store.parallel_requests > 1 else False
        while True:
            with open_dataset(store, "r+", consolidated=copies, top=keys) as stored:
                request = self.request.going_on(stored.dataset.joined.options)
                sources = self.sources.of(request)
                task = replace(self, request=request, sources=sources)
                if copies is None and stored.is_outdated:
                    copies = False
                elif is_refined or not (changed := task._finer(stored.dataset)):
                    yield stored, request, sources
                    return
                elif stored.layout != "nczarr-v3":
                    raise UnsupportedError(
                        f"{named('adjust', 'times')}: {stored.layout} cannot change units and values at once",
                        path=str(self.request.target),
                        hint=f"{verb_named('join')} makes a new dataset",
                    )
                else:
                    stored.durable, is_refined = request.trust.durable, True
                    stored.store_anew(changed)
            # The dataset has closed the store.
            store = open_store(self.request.target, "r+", self.request.access.target_options)

    def _finer(self, old: Dataset) -> dict[str, Variable]:
        """Return the times of a stored dataset, and their bounds, in the finer unit that the sources need."""
        if "times" not in self.sources.fitting.adjust:
            return {}
        along = growing_dimension(old, self.sources.along, str(self.request.target))
        joined = along if len(self.sources.paths) > 1 else None
        with replace(self.sources, along=joined).open_part(self.request.lossy) as added:
            growing = [fqn for fqn, v in old.all_variables.items() if along in v.dimensions]
            finer = with_finer_times(old, [added], growing)
        return {f: v for f, v in finer.all_variables.items() if v is not old.all_variables[f]}

    def _to_zarr(self) -> list[Appended]:
        """Write steps beside other writers if only values change; else alone, without the recorded sources."""
        target, options = self.request.target, self.request.access.target_options
        # Jobs of an array were refused at random while each of them took the dataset alone.
        if (self.region or self.replace_steps) and not self.request.trust.record_sources:
            # This way closes its store, also where it finds that it does not fit.
            store = open_store(target, "r+", options)
            if (done := self._beside_others(store)) is not None:
                return done
        store = open_store(target, "r+", options)
        with (
            writing_alone(store) as alone,
            self._opened(store, alone.keys) as (stored, request, sources),
        ):
            if stored.layout in ("zarr-v3", "zarr-v2"):
                raise UnsupportedError(
                    f"plain Zarr ({stored.layout}) has no unlimited dimension to append along",
                    path=str(target),
                    hint=f"copy it with {named('layout', 'nczarr-v3')} and {named('unlimited', 'DIM')} first",
                )
            paths, records, known = sources.paths, list[IngestedSource](), stored.dataset.sources
            found: list[tuple[int, tuple[int, int] | None]] = [(number, None) for number in range(len(paths))]
            # A dataset with a record keeps it complete, also where the option is forgotten.
            if known or self.request.trust.record_sources:
                if stored.layout != "nczarr-v3":
                    raise UnsupportedError(f"{named('record_sources')}: {NO_RECORD}", path=str(target))
                records = records_of(paths, self.sources.options)
                found = not_ingested(records, known, replace_steps=self.replace_steps)
            session, done = Session(stored, name=str(target), writable=True), list[Appended]()
            # Behind newer steps, the place of these would be taken.
            for again in (True, False):  # first those whose append has not ended
                own = {number: steps for number, steps in found if (steps is not None) == again}
                if own:
                    begun = [n for steps in own.values() for n in steps or ()]
                    task = replace(
                        self,
                        request=request,
                        sources=replace(sources, paths=tuple(paths[i] for i in own)),
                        begun=(min(begun), max(begun)) if begun else None,
                        records_steps=stored.layout == "nczarr-v3",
                    )
                    done.append(task._run(session, alone.check, [records[i] for i in own if records]))
            return done

    def _beside_others(self, store: Store) -> list[Appended] | None:
        """Write the steps while others write steps, too; None if this changes more than values of existing steps."""
        with store:
            if not lets_writers_in(store) or "times" in self.sources.fitting.adjust:
                return None
            with writing_beside(store), open_dataset(store, "r+", consolidated=False) as stored:
                old = stored.dataset
                # A digest is that of the old values, and the record of sources has one writer.
                if old.sources or ATTRIBUTE in old.attribute:  # these change, too
                    return None
                request = self.request.going_on(old.joined.options)
                task = replace(self, request=request, sources=self.sources.of(request))
                states = task.sources.states()
                with task._placed(old) as (along, (added, first, _)):
                    # Jobs that grow the dataset at once would each store their own length.
                    if first + added.dimension_at(along).size > old.dimension_at(along).size:
                        return None
                    session = Session(stored, name=str(request.target), writable=True, shared=True)
                    task._limit(session)
                    # Two jobs that change parts of one chunk would write over each other.
                    session.exclude_others(_places(session, added, along, first))
                    task._write_steps(session, along, added, first)
                    task.sources.refuse_changes(states)
                    session.store()
                    return [task._appended(old, added, along, first, stored.data)]

    def _to_file(self) -> Appended:
        """Append to a netCDF file: in place, to a copy that then replaces the file, or to a new file.

        New records of a classic file are written behind the counted records, which readers ignore, then the number of
        records in one write. A process that is killed before leaves the old dataset with spare bytes, which the next
        append overwrites. No single write extends all variables of an HDF5 file, or replaces steps in a file of any
        format: these are written to a bytewise copy, which shares the bytes on file systems that support this. Files
        that cannot be changed are written as a whole.
        """
        from nczarr.netcdf.edit.opening import edit_copy, edit_records

        target, form = self.request.target, self.request.form
        # Any option of the format asks for a file in another form.
        path = local_path(target)
        if path is not None and form == TargetFormat():
            edit = edit_copy
            in_place = not (self.replace_steps or "times" in self.sources.fitting.adjust)
            if in_place and netcdf_format(str(path)) != "hdf5":
                with open_source(path) as dataset:  # appending removes a digest
                    edit = edit_copy if ATTRIBUTE in dataset.attribute else edit_records
            before = os.path.getsize(path)
            with suppress_reason("fixed"):
                with edit(path) as file:
                    session = Session(file, name=str(path), writable=True)
                    for fqn, variable in self._finer(file.dataset).items():
                        _store_anew(session, fqn, variable)
                    done = self._run(session)
                return replace(done, stored=max(0, os.path.getsize(path) - before))
        with open_source(target) as old, self._placed(old) as (fqn, (added, first, _)):
            joined = _appended(old, added, fqn, first)
            durable = self.request.trust.durable
            sink = sink_of(target, joined, form, overwrite=True, durable=durable)
            FillTask(self.request, joined, sink).run()
            return self._appended(joined, added, fqn, first, joined.all_variables.get)

    def _run(
        self,
        session: Session,
        check: Callable[[], None] = lambda: None,
        records: Sequence[IngestedSource] = (),
    ) -> Appended:
        """Write the values, call `check`, store lengths and records."""
        self._limit(session)
        stored = session.stored
        states = self.sources.states()
        with self._placed(_kept_in(session)) as (fqn, (added, first, known)):
            size = added.dimension_at(fqn).size
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
                session.extend(session.root.dimension_at(fqn), first + size)
                self._write_steps(session, fqn, added, first)
                # Another writer may have grown the dataset since: its steps would be lost under these.
                check()
                self.sources.refuse_changes(states)  # before a length tells readers of the values
                # The digest is that of the content before.
                if ATTRIBUTE in session.root.attributes:
                    session.root.delete_attribute(ATTRIBUTE)
                if records:
                    _record(session, new)
                if self.records_steps:
                    others = {f: k for f, k in session.joined.coordinates.items() if f != fqn}
                    own = {} if known is None else {fqn: known}
                    session.joined = replace(session.joined, coordinates={**others, **own})
                session.store()
            return self._appended(stored.dataset, added, fqn, first, stored.data)

    def _limit(self, session: Session) -> None:
        """Let a session write as durably, and with as much memory, as the request says."""
        session.stored.durable = self.request.trust.durable
        session.cache.bound = min(session.cache.bound, self.request.effort.memory)
        session.cache.reserves = False

    def _write_steps(self, session: Session, along: str, added: Dataset, first: int) -> None:
        """Write the values of the steps from the index `first` on; the lengths are there already."""
        effort, growing = self.request.effort, _growing(session, along)
        # A netCDF file is written by one thread.
        concurrent = session.stored.disk_format == "ZARR"
        sink = _Shifted(session, growing, session.root.dimension_at(along), first, concurrent)
        with reporting(effort.progress, sum(data_bytes(_data(added, at)) for at in growing)):
            transfer(sink.blocks(added), sink, effort.progress, effort.workers, effort.memory)

    def _appended(
        self, now: Dataset, added: Dataset, along: str, first: int, data: Callable[[str], object]
    ) -> Appended:
        """Describe what was added to a dataset; `data` returns the stored values of a variable."""
        size = added.dimension_at(along).size
        done = Appended(self, along, first, first + size)
        growing = {f: v for f, v in now.all_variables.items() if along in v.dimensions}
        if not size:
            return replace(done, stored=0)
        coordinate = added.all_variables.get(along)
        bounds = set() if coordinate is None else {along, *bounds_of(added, along)}
        values = [fqn for fqn in growing if fqn not in bounds]
        steps = steps_of(added, along)
        ends: tuple[str | None, str | None] = (None, None)
        if steps is not None and coordinate is not None and len(steps):
            ends = shown_step(coordinate, steps[0]), shown_step(coordinate, steps[-1])
        filled = sum(added.all_variables[fqn].data is None for fqn in values)
        told = AppendedSteps(
            along, size, *ends, now.dimension_at(along).size, len(values) - filled, len(values)
        )
        done = replace(done, steps=told)
        if self.request.effort.report is None:  # the sizes of the written objects are only for a report
            return done
        written, stored = list[PlannedVariable](), 0
        is_known = True
        for fqn, variable in growing.items():
            axis = variable.dimensions.index(along)
            count, own = written_objects(data(fqn), axis, first, first + size)
            is_known &= own is not None
            stored += own or 0
            written.append(planned_variable(fqn, variable, _data(added, fqn).shape, data(fqn), count))
        return replace(done, written=tuple(written), stored=stored if is_known else None)

    def place(self, old: Dataset, added: Dataset, along: str) -> PlacedSteps:
        """Check that the dataset of the sources fits behind another dataset, or in the place of steps that it has."""
        part = self._fitted(old, added, along)
        with error_context(self._source):
            return self._step(old, part, along)

    def _in_region(self, old: Dataset, added: Dataset, along: str) -> PlacedSteps:
        """Check that the dataset of the sources fits into the requested region."""
        part = self._fitted(old, added, along)
        with error_context(self._source):
            return placed_in_region(old, part, along, self.region)

    @property
    def _source(self) -> str:
        """The name of the sources in messages."""
        names = [name_of(path) for path in self.sources.paths]
        return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"

    def _fitted(self, old: Dataset, added: Dataset, along: str) -> Dataset:
        """Return the dataset of the sources in the units of another dataset, which must fit."""
        names = [str(self.request.target), self._source]
        refused = f"it does not fit behind the dataset {names[0]} along {along}"
        parts, _ = fitted([old, added], names, along, False, self.sources.fitting, refused, fixed=True)
        return parts[1]

    def _step(self, old: Dataset, added: Dataset, along: str) -> PlacedSteps:
        """Return the added dataset, with the target's numbers for repeated steps, and the index of its first step."""
        size, there = old.dimension_at(along).size, steps_of(added, along)
        if there is not None and (behind := self._behind(old, added, along, there)) is not None:
            return behind
        here = steps_of(old, along)
        if here is None or there is None or not len(here) or not len(there):
            return self._without_coordinate(added, along, size)
        replace_steps = self.replace_steps or self.begun is not None
        shown = partial(shown_step, old.all_variables[along])
        are_names = there.dtype.kind == "O"
        if not are_names:
            # A NaN passes each comparison of the order below, since it compares as false.
            refuse_missing(added.all_variables[along], there, along, lambda step: None)
            # The same time in other units differs by its rounding: it would be a new step.
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
            return PlacedSteps(added, size)
        down = len(here) > 1 and here[-1] < here[0]
        same = np.flatnonzero(here == there[0])
        whole = np.concatenate([here[: same[0] if repeated.any() and same.size else size], there])
        # Differences of unsigned numbers would wrap around.
        follows = whole[1:] < whole[:-1] if down else whole[1:] > whole[:-1]
        first = len(whole) - len(there)
        # Without the comparison, the step 4 of 0, 2, 4 vanished where 2 and 3 were appended with replace.
        fits = np.array_equal(here[first : first + len(there)], there[: max(0, size - first)])
        if not follows.all() or not fits:
            raise UnsupportedError(
                f"the steps along {along} begin at {shown(there[0])} and end at {shown(there[-1])}; "
                f"the dataset ends at {shown(here[-1])}, and they do not follow it",
                hint="join the files anew, in order",
            )
        if first == size and (before := known_of(here)) is not None:
            self._note_gap(old, along, before, there)
        return PlacedSteps(added, first, known_of(np.concatenate([whole, here[len(whole) :]])))

    def _behind(self, old: Dataset, added: Dataset, along: str, there: np.ndarray) -> PlacedSteps | None:
        """Return the place behind the recorded steps; None if that takes all steps of the target to find out.

        Each step behind the last one is new, so that the other chunks of the target's coordinate need not be read.
        """
        recorded = _known_steps(old, along)
        longer = None if recorded is None else known_after(recorded, added.all_variables[along], there)
        if recorded is None or longer is None:
            return None
        refuse_missing(added.all_variables[along], there, along, lambda step: None)
        self._note_gap(old, along, recorded, there)
        return PlacedSteps(added, recorded.count, longer)

    def _without_coordinate(self, added: Dataset, along: str, size: int) -> PlacedSteps:
        """Return the place of steps that no coordinate names: behind the last one, or where an append has begun."""
        # After a kill, a second append stored the steps of the first one again behind them.
        if self.begun is not None:
            low, high = self.begun
            if not low <= size <= high or added.dimension_at(along).size != high - low:
                raise UnsupportedError(
                    f"an append has begun with the steps {low}:{high} along {along} and has not ended; "
                    f"the dimension has {size} steps now, and no coordinate to find the steps by",
                    hint="append the files of that append alone, or join all files anew",
                )
            return PlacedSteps(added, low)
        if self.replace_steps:
            raise UnsupportedError(f"{named('replace')}: {along} has no coordinate to find repeated steps by")
        return PlacedSteps(added, size)

    def _note_gap(self, old: Dataset, along: str, known: KnownSteps, there: np.ndarray) -> None:
        """Warn of a gap before the first step, or refuse it if the join has expected a step.

        Steps that come later cannot be inserted, so this is the last moment to wait for them.
        """
        if not is_gap(known, there):
            return
        variable = old.all_variables[along]
        ends = [shown_step(variable, variable.type.dtype.type(n)) for n in (known.last, there[0])]
        problem = f"there are no steps along {along} between {ends[0]} and {ends[1]}"
        options = old.joined.options
        if "expect_step" in options and options.get("join") != "fill":
            raise UnsupportedError(
                f"{problem}, and the dataset was joined with {named('expect_step', options['expect_step'])}",
                hint="append the missing steps first: those before the last step cannot be appended later",
            )
        warn(f"{name_of(self.request.target)}: {problem}; missing ones cannot be appended later")


def _known_steps(old: Dataset, along: str) -> KnownSteps | None:
    """Return the recorded steps of a stored dataset if it still has them, as far as its last step tells."""
    known, size = old.joined.coordinates.get(along), old.dimension_at(along).size
    variable = old.all_variables.get(along)
    # A program other than nczarr may have appended since.
    if known is None or known.count != size or variable is None or variable.data is None:
        return None
    if variable.dimensions != (along,) or variable.type.dtype.kind not in "iuf":
        return None
    # Its last step tells whether another program has changed the axis.
    last = variable.data.read((slice(size - 1, size, 1),))
    return known if last.tolist() == [known.last] else None


def _store_anew(session: Session, fqn: str, variable: Variable) -> None:
    """Give a variable of a copy of a file other values and other units; no reader sees the copy yet."""
    node = next(v for v in session.root.walk_variables() if v.fqn == fqn)
    assert variable.data is not None
    whole = tuple(slice(0, n, 1) for n in variable.data.shape)
    session.write(node, whole, variable.data.read(whole))
    if "units" in variable.attribute:
        node.set_attribute(variable.attribute["units"])
    session.store()


def _record(session: Session, sources: Sequence[IngestedSource]) -> None:
    """Add sources to the record, in place of those with the same names."""
    session.sources = tuple({s.name: s for s in (*session.sources, *sources)}.values())


def _growing(session: Session, along: str) -> dict[str, VariableNode]:
    """Return the variables with a dimension, by FQN."""
    return {v.fqn: v for v in session.root.walk_variables() if along in [d.ref for d in v.dimensions]}


def _places(
    session: Session, added: Dataset, along: str, first: int
) -> Iterator[tuple[VariableNode, list[slice]]]:
    """Yield each variable that gets steps, and the place of its steps."""
    for fqn, node in _growing(session, along).items():
        starts = [first if d.ref == along else 0 for d in node.dimensions]
        yield node, [slice(n, n + size) for n, size in zip(starts, _data(added, fqn).shape, strict=True)]


def _data(added: Dataset, fqn: str) -> ArraySource:
    variable = added.all_variables[fqn]
    return source_of(variable, added.shape_of(variable))


def _kept_in(session: Session) -> Dataset:
    """Return the stored dataset, with coordinates along unlimited dimensions whose chunks stay in memory once read.

    The append finds its place by the last chunk, and then writes to it.
    """
    nodes = {
        v.fqn: v
        for v in session.root.walk_variables()
        if [d.ref for d in v.dimensions if d.unlimited] == [v.fqn]
    }

    def kept(fqn: str, variable: Variable) -> Variable:
        node = nodes.get(fqn)
        return (
            variable
            if node is None or variable.data is None
            else variable.with_data(_KeptCoordinate(session, node))
        )

    return rewrite(session.stored.dataset, variable=kept)


@dataclass(frozen=True)
class _KeptCoordinate:
    """The values of a variable, read through a session that keeps the chunk that is read."""

    session: Session
    node: VariableNode

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(d.size for d in self.node.dimensions)

    @property
    def dtype(self) -> np.dtype:
        return self.node.type.dtype

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        return handed(self.session.read(self.node, region, keep=True), out)


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


def growing_dimension(dataset: Dataset, along: str | None, target: str) -> str:
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

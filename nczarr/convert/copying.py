"""Copy, join and append datasets, and remove the output after an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast

from nczarr.compression import AskedCodecs
from nczarr.convert import endpoints
from nczarr.convert.change.classic_types import in_classic_types
from nczarr.convert.change.nodes import Subset
from nczarr.convert.change.packing import is_choice
from nczarr.convert.change.shaping import OutputOptions, Shaped, parse_kind, with_storage
from nczarr.convert.change.step_units import units_of_steps
from nczarr.convert.endpoints import TargetFormat, expand_sources, name_of, open_source, sink_of
from nczarr.convert.filling import FillTask, refuse_memory
from nczarr.convert.many.scan import kinds_of, with_scans
from nczarr.convert.request import (
    CopyRequest,
    MoreAppendOptions,
    MoreCopyOptions,
    MoreJoinOptions,
    Names,
    Sources,
    Verb,
    refuse_unreadable,
)
from nczarr.convert.values.resume import NO_RECORD, records_of, with_steps
from nczarr.convert.verify.differences import ValueComparison
from nczarr.convert.verify.digests import ATTRIBUTE, digest_of, without_digest
from nczarr.convert.xarray_view import read_otherwise
from nczarr.errors import DatasetExistsError, LossError, NCZarrError, UnsupportedError, error_context
from nczarr.formats import Kind, is_references, kind_of_source, kind_of_target, local_path
from nczarr.mapping.options import ON_V3
from nczarr.mapping.plain.write import ORDER
from nczarr.model import Attribute, Dataset, Difference, compare
from nczarr.model.common_chunks import Units
from nczarr.model.nodes import JoinRecord
from nczarr.model.typed import is_named
from nczarr.options import named, verb_named
from nczarr.stores.remote.icechunk_forks import forked, is_session_store
from nczarr.system.logs import logger_of
from nczarr.transfer import PartOfProgress, Progress, dataset_bytes, reporting

if TYPE_CHECKING:
    from nczarr.convert.cluster import Cluster
    from nczarr.convert.engine import Engine
    from nczarr.convert.request import Copied, CopyTarget, TreeModule
    from nczarr.convert.values.resume import SourceFingerprint

#: Layouts that do not store the order of dimensions.
_UNORDERED = ("zarr-v3", "zarr-v2")


def copy(
    source: object,
    target: CopyTarget | TreeModule[Copied],
    *,
    variables: Names = (),
    exclude: Names = (),
    select: Mapping[str, object] | None = None,
    chunks: str | Sequence[str] | Mapping[str, Any] | None = None,
    shards: str | int | Sequence[str] | Mapping[str, Any] | None = None,
    compression: AskedCodecs | Mapping[str, AskedCodecs] | None = None,
    overwrite: bool = False,
    verify: bool = False,
    resume: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
    **more: Unpack[MoreCopyOptions],
) -> Copied:
    """Copy a dataset from any format that nczarr reads to any format that it writes.

    The output appears under its name only when it is complete. After an error, it is removed.

    Parameters
    ----------
    source : str, path, store, nczarr.model.Dataset, or dataset or tree of xarray
        A netCDF file, a Zarr hierarchy (path or URL), or CDL text (``.cdl``). If the target is a directory, also a list
        of sources or a pattern such as ``in/*.nc``.
    target : str, path or store
        ``.nc`` for a netCDF file, ``.cdl`` for CDL text, any other name for a Zarr hierarchy. A directory without a
        dataset, or a name that ends in ``/``, gets one Zarr hierarchy for each source, with the name of the source. The
        module ``xarray`` stands for a tree in memory, which is returned.
    variables : str or sequence of str
        Copy these variables, and their coordinates, bounds and grid mappings. Glob patterns: with a slash for FQNs
        (``/ocean/t*``), otherwise for simple names in any group. Commas separate the patterns of a string.
    exclude : str or sequence of str
        Omit these variables and groups.
    select : mapping, optional
        Parts of dimensions: ``{"time": slice(0, 10)}`` by index; ``slice(30.0, 60.0)`` by coordinate value, both ends
        included; ``slice("2020-01", "2020-06-15")`` by date.
    chunks : str, mapping, or sequence of str, optional
        Chunk lengths by dimension, ``{"time": 1}`` or ``"time=1,lat=100"``, or ``"auto"``. For some variables, by name
        or pattern: ``{"temp": {"time": 1}}``, ``"temp:time=1"``, or ``["time=10", "precip*:time=1"]``. The last pattern
        that matches counts.
    shards : str, int, mapping, or sequence of str, optional
        Shard lengths by dimension (default: the whole dimension), ``"auto"``, or an approximate number of bytes; also
        for some variables, as in `chunks`. Zarr output only.
    compression : str, mapping, object, or sequence of these, optional
        ``"zstd:3"``, ``"gzip:6"``, ``"blosc:lz4:5"``, ``"none"``; the name of any codec, as ``"lz4"``; the JSON or
        object (of zarr-python or numcodecs) of one or several; or ``"source"`` for that of the source. From Zarr to
        Zarr, the default keeps the codecs of the source; from netCDF to Zarr, it is blosc with zstd and shuffle; from
        plain Zarr to netCDF, it is shuffle and deflate, where other codecs would need a plug-in of HDF5.
        ``"numcodecs"`` stores the filters of a netCDF file with codecs that keep its bytes, and which only zarr-python
        reads. For some variables: ``{"precip*": "zstd"}``, ``"precip*:zstd"``.
    overwrite : bool, default False
        Replace an existing dataset. A directory that is not a Zarr hierarchy is never replaced.
    verify : bool, default False
        After the copy, read source and target again and compare them bit by bit.
    resume : bool, default False
        Continue an interrupted copy of the same source with the same options, or start a copy; compare a complete
        copy with the source, and keep it. After an interrupt, the finished part is kept. Zarr directories and object
        stores only.
    dry_run : bool, default False
        Write nothing; return one line for each variable with its planned storage.
    progress : Progress, optional
        Receives the progress of the copy.
    **more
        Names: `only` (copy exactly these variables), `groups` (copy these groups), `rename` (new simple names by FQN;
        ``/v@units`` is an attribute), and `preprocess`, a function, or its name ``"module:function"``, that gets the
        :class:`nczarr.model.Dataset` of each source, whose values are lazy, and returns the one to copy. If its first
        parameter has the annotation ``xarray.Dataset``, or ``xarray.DataTree`` for sources with groups, it gets and
        returns that. It is called whenever a source is opened, on a cluster in each worker, and must return the same
        each time.

        Storage: `chunk_bytes` (approximate size of chunks, ``"4MiB"``), `checksum` (crc32c in Zarr, fletcher32 in
        netCDF-4, for every chunk), `portable` (for old and small readers of Zarr v3: replace the codecs of a Zarr
        source that not all have; the result names them; the keys of arrays are attributes, and char is stored as
        uint8), `quantize` (round floats: ``"temp=3"``, ``"GranularBitRound:3"``,
        ``{"temp": "3", "precip*": "BitRound:10"}``; no other option changes values), `fixed` (make unlimited
        dimensions fixed), `unlimited` (make these dimensions unlimited), `template` (``{"time": 365}``: the final
        length of a dimension, along which no values are stored: writers of regions do that, see :func:`append`); for
        Zarr the fields of :class:`nczarr.mapping.WriteOptions` (`layout`, `char`, …); for netCDF `format`; for both
        `lossy`, which omits parts that cannot be copied and returns them.

        Trust: `durable` (by default, a copy to a local disk waits until the disk has stored the output, and removes
        the old dataset only then, so that the copy survives a power failure; False does not wait), `digest` (store
        the digest in the global attribute ``nczarr_sha256``; see :func:`nczarr.digest`), `record_sources` (record
        name, size, digest and steps of each source, on Zarr with the layout ``nczarr-v3``; ``nczarr sources`` lists
        them, and an append skips those that the dataset contains), `plan` (a file in TOML; if it exists, it contains
        all choices of the copy: what to join, rename and select, and the storage of each variable; with `dry_run`, it
        is written if it does not exist), `virtual` (write references to the chunks of netCDF files, without copying
        values; ``NAME.json`` and ``NAME.parquet`` have the forms of kerchunk, which fsspec's ``reference://`` reads;
        ``NAME.icechunk`` is an Icechunk repository; the store of an Icechunk session is also a target; reading
        references to files that are not beside them needs `allow`).

        Work: `memory` (maximum size of the values in memory, default ``"512MiB"``; on a cluster with an address, in
        that of each worker), `workers` (number of writer threads; default: the number of processors, at most 8),
        `dask` (distribute the blocks over a Dask cluster: the address of its scheduler, a client, or ``"local"`` for
        `workers` processes on this machine; all workers must be able to open source and target by their paths or
        URLs), `executor` (an executor of concurrent.futures; or a function, or its name ``"module:function"``, that
        gets `workers` and returns an executor, which is replaced when its workers die; ``"processes"`` starts
        processes on this machine), `report` (a :class:`nczarr.convert.Report` that receives the results).

        Access: `source_options`, `target_options` (options of the file systems of URLs), `allow` (paths and URLs;
        references may name files beside them, and files below these).

    Returns
    -------
    tuple of str, or xarray.DataTree
        Parts of the source that the output cannot represent. The tuple is empty except with ``lossy=True``, for plain
        Zarr, and if another codec or filter replaces one. For the module ``xarray`` the tree.

    Raises
    ------
    DatasetNotFoundError, DatasetExistsError, LossError, NCZarrError
        With the problem and its location.

    Examples
    --------
    >>> import nczarr, tempfile, os
    >>> from nczarr.convert import open_source
    >>> from nczarr.model import Attribute, Dataset
    >>> out = os.path.join(tempfile.mkdtemp(), "out.zarr")
    >>> copy(Dataset("d", attributes=(Attribute.of("title", "an example"),)), out)
    ()
    >>> with open_source(out) as dataset:
    ...     dataset.attribute["title"].text
    'an example'
    """
    given = dict(
        variables=variables, exclude=exclude, select=select, chunks=chunks, shards=shards, compression=compression,
        overwrite=overwrite, verify=verify, resume=resume, dry_run=dry_run, progress=progress, **more,
    )  # fmt: skip
    # xarray is not imported for any other target.
    if getattr(target, "__name__", None) != "xarray":
        return cast("Copied", _run("copy", source, target, given))
    store: dict[str, bytes] = {}
    losses, xarray = _run("copy", source, store, given), cast("Any", target)
    return cast("Copied", xarray.open_datatree(store, engine="nczarr") if store else losses)


def join(
    sources: object,
    target: object,
    *,
    along: str | None = "time",
    merge: bool = False,
    join: Literal["outer", "first", "exact", "fill"] = "outer",
    adjust: Names = (),
    variables: Names = (),
    exclude: Names = (),
    select: Mapping[str, object] | None = None,
    chunks: str | Sequence[str] | Mapping[str, Any] | None = None,
    shards: str | int | Sequence[str] | Mapping[str, Any] | None = None,
    compression: AskedCodecs | Mapping[str, AskedCodecs] | None = None,
    overwrite: bool = False,
    verify: bool = False,
    resume: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
    **more: Unpack[MoreJoinOptions],
) -> tuple[str, ...]:
    """Join sources to one dataset: their steps along a dimension, and their variables side by side.

    All sources are checked before anything is written; the error names the conflicts of all of them.

    Parameters
    ----------
    sources : sequence, or str
        Sources as for :func:`copy`, in order, or a pattern such as ``in/*.nc``, or a scan file of :func:`scan`.
    target : str, path or store
        As for :func:`copy`.
    along : str or None, default "time"
        The dimension along which the steps of the sources follow each other, or a new dimension of this name. Times are
        converted to the units of the first source. None only joins variables side by side.
    merge : bool, default False
        The sources have different variables: join those of the same variables first, then all side by side. Nodes
        that several sources have are the same, within `tolerance`; their attributes are joined.
    join : {'outer', 'first', 'exact', 'fill'}
        How to join attributes that differ. ``"outer"`` keeps the attributes of all sources, from the first source where
        they differ, and refuses contradictions in attributes that describe the quantity (``standard_name``,
        ``cell_methods``, ``coordinates``, all of a grid mapping, …). ``"first"`` keeps the attributes of the first
        source, or of the target. ``"exact"`` refuses every difference. ``"fill"`` is ``"outer"``, and also joins
        variables that some sources lack, with fill values there. Attributes that decode numbers (``scale_factor``,
        ``_FillValue``, ``units``, …) may not differ, except for the reference dates of times, and with `repack` and
        `adjust`.
    adjust : str or sequence of str
        Accept little differences: ``"units"`` (other words for a unit), ``"calendar"`` (``standard`` and
        ``proleptic_gregorian`` from 1582-10-15), ``"order"`` (of dimensions), ``"flip"`` (coordinates in reverse),
        ``"promote"`` (narrower types), ``"times"`` (times between whole numbers: whole hours for days).
    variables, exclude, select, chunks, shards, compression, overwrite, verify, resume, dry_run, progress
        As for :func:`copy`.
    **more
        All other options of :func:`copy`, and three of sources that differ: `repack` (join numbers with their own
        packing (``scale_factor``, ``add_offset``, ``_FillValue``, type): as floats, ``"unpacked"``; in the packing of
        the first source, ``"first"``, if no value loses precision; or in a new packing for the range of all values,
        ``"common"``; a warning states the maximum error), `tolerance` (by name or pattern of a variable without the
        joined dimension: the largest difference of its values; those of the first source are kept), `expect_step` (the
        step of the joined coordinate: ``"1d"``, ``"6h"``, ``"1mo"``, a number, or ``"auto"`` for the most frequent one;
        missing steps are refused, or filled with ``join="fill"``).

    Returns
    -------
    tuple of str
        As for :func:`copy`.

    Raises
    ------
    ModelError
        If the sources do not fit together.
    DatasetNotFoundError, DatasetExistsError, LossError, NCZarrError
        With the problem and its location.

    Examples
    --------
    >>> from nczarr import cdl
    >>> from nczarr.convert import open_source
    >>> text = "netcdf d {{ dimensions: time = 1; variables: int time(time); data: time = {}; }}"
    >>> days, store = [cdl.loads(text.format(day)) for day in (1, 2, 3)], {}
    >>> join(days, store)
    ()
    >>> with open_source(store) as dataset:
    ...     dataset.dimension_at("/time").size
    3
    """
    given = dict(
        along=along, merge=merge or along is None, join=join, adjust=adjust, variables=variables, exclude=exclude,
        select=select, chunks=chunks, shards=shards, compression=compression, overwrite=overwrite, verify=verify,
        resume=resume, dry_run=dry_run, progress=progress, **more,
    )  # fmt: skip
    return _run("join", sources, target, given)


def append(
    sources: object,
    target: object,
    *,
    along: str | None = None,
    merge: bool = False,
    replace: bool = False,
    join: Literal["outer", "first", "exact", "fill"] | None = None,
    adjust: Names = (),
    variables: Names = (),
    exclude: Names = (),
    select: Mapping[str, object] | None = None,
    progress: Progress | None = None,
    **more: Unpack[MoreAppendOptions],
) -> tuple[str, ...]:
    """Append sources to an existing dataset along its unlimited dimension.

    The dataset keeps its chunks and codecs. Readers see the old length or the new one, and an append that ends early
    leaves the old length. Steps that exist already are refused. Several processes may write steps into the existing
    length at the same time, with `region` or `replace`. The options of the :func:`join` that made the dataset
    hold, unless the call gives others: a Zarr dataset records them.

    Parameters
    ----------
    sources : object
        A source, a list of sources, or a pattern, as for :func:`join`.
    target : str, path or store
        A Zarr hierarchy or a netCDF file.
    along : str, optional
        The dimension; by default the only unlimited one.
    merge : bool, default False
        The sources have different variables of the dataset; see :func:`join`.
    replace : bool, default False
        Overwrite existing steps.
    join, adjust
        As for :func:`join`; ``"first"`` keeps the attributes of the target. By default as the dataset was joined.
        ``"times"`` stores the times of the target, and their bounds, anew in a finer unit, in one step for readers.
    variables, exclude, select, progress
        As for :func:`copy`.
    **more
        As for :func:`join`: `only`, `groups`, `rename`, `preprocess`, `repack` (``"first"``: the packing of the
        target), `tolerance`, `record_sources`, `durable`, `memory`, `workers`, `report`, `source_options`,
        `target_options`, `allow`, `lossy`, and for a netCDF file that is written anew `format`; `verify` (read the
        added steps again, and compare them with the sources); `wait`, the seconds to wait while other writers have
        the target open (default 0); and `region`, the indices that the steps get along an existing dimension of a
        Zarr dataset: ``{"time": slice(8, 16)}``. Its coordinate there is still unwritten, or the same.

    Returns
    -------
    tuple of str
        It is empty.

    Raises
    ------
    DatasetNotFoundError, NCZarrError
        With the problem and its location. The dataset is unchanged.

    Examples
    --------
    >>> import nczarr
    >>> from nczarr import cdl
    >>> from nczarr.convert import open_source
    >>> text = "netcdf d {{ dimensions: time = unlimited; variables: int time(time); data: time = {}; }}"
    >>> store = {}
    >>> nczarr.copy(cdl.loads(text.format(1)), store)
    ()
    >>> append(cdl.loads(text.format(2)), store)
    ()
    >>> with open_source(store) as dataset:
    ...     dataset.dimension_at("/time").size
    2
    """
    given = dict(
        along=along, merge=merge, replace=replace, join=join, adjust=adjust, variables=variables, exclude=exclude,
        select=select, progress=progress, **more,
    )  # fmt: skip
    return _run("append", sources, target, given)


def _run(verb: Verb, source: object, target: object, given: dict[str, Any]) -> tuple[str, ...]:
    """Make the request of a call from its keywords, and run it."""
    plan = given.pop("plan", None)
    if plan is not None:
        from nczarr.convert.plans import with_plan

        # Wrong options are refused before a plan is read or written.
        CopyRequest.of(verb, target, given | {"plan": plan})
        return with_plan(verb, given, Path(plan), partial(_run, verb, source, target))
    request = CopyRequest.of(verb, target, given)
    together = request.combination
    # The stored values have their packing already.
    if verb == "append" and request.fitting.repack not in (None, "first"):
        raise UnsupportedError("an append keeps the packing of the dataset", hint=named("repack", "first"))
    if verb == "join" and together.along is None and (request.fitting.repack or request.fitting.expect_step):
        raise UnsupportedError(
            f"{named('repack')} and {named('expect_step')} need a dimension", hint=named("along", "time")
        )
    where = request.source_options
    paths = tuple(with_scans(expand_sources(source, where)))
    if not paths:
        raise UnsupportedError("there is no source")
    sources = Sources(
        paths, where, request.subset, together.along, request.fitting, request.hook, together.merge
    )
    if verb == "append" and is_references(target):
        from nczarr.convert.growing_references import grow_references

        grow_references(request, sources, Path(str(target)), _refer)
        return ()
    if verb == "append":
        from nczarr.convert.appending import AppendTask

        # With replace, the sources may write the same steps, one after the other. Otherwise append all or none.
        steps = together.replace
        for part in sources.each() if steps and not together.merge else [sources]:
            AppendTask(request, part, steps).run_in_time()
        return ()
    if request.trust.virtual:
        return _refer(request, sources)
    if verb == "join":
        return CopyTask(request, sources).run()
    return _copy_each(request, sources)


def _copy_each(request: CopyRequest, sources: Sources) -> tuple[str, ...]:
    """Copy each source: one to the target, several into the directory."""
    targets = endpoints.targets_of(sources.paths, request.target)
    tasks = [CopyTask(request.to(to), one) for one, to in zip(sources.each(), targets, strict=True)]
    if len(tasks) == 1:
        return tasks[0].run()
    # Check all of them before the first copy.
    total = 0 if request.trust.dry_run else sum(endpoints.call_all(task.check for task in tasks))
    with reporting(request.effort.progress, request.trust.readings * total):
        return tuple(loss for task in tasks for loss in task.of_one_job().run())


@dataclass(frozen=True)
class CopyTask:
    """The copy of one dataset, which may have several sources."""

    request: CopyRequest
    sources: Sources

    def of_one_job(self) -> CopyTask:
        """Return the task as a part of a job whose progress has started."""
        return replace(
            self, request=self.request.with_effort(progress=PartOfProgress(self.request.effort.progress))
        )

    def check(self) -> int:
        """Check the options and the target without reading values; return the size of the values in bytes."""
        # A copy into its own source would read what it writes, and replace what it reads.
        endpoints.refuse_same_place(self.sources.paths, self.request.target)
        self.refuse_existing()
        with self.sources.open_part(self.request.lossy) as dataset:
            dataset, _ = self.in_types_of_target(dataset)
            self.shaped(dataset, kind_of_source(self.sources.paths[0]))
            return dataset_bytes(dataset)

    def refuse_existing(self) -> None:
        """Raise an error if the target exists, unless the copy replaces or continues it."""
        if not (self.request.trust.overwrite or self.request.trust.resume):
            endpoints.refuse_existing(self.request.target, self.request.access.target_options)

    def run(self) -> tuple[str, ...]:
        """Copy; return the losses, or the plan of a dry run."""
        request, sources = self.request, self.sources
        with self.engine() as engine, sources.open(engine=engine) as opened:
            endpoints.refuse_same_place(sources.paths, request.target)
            states = sources.states()
            first = sources.paths[0]
            kinds = kinds_of(sources.paths)
            kind = kinds.pop() if len(kinds) == 1 else None
            where = None if isinstance(first, Dataset) else str(first)
            losses = _beyond_dimensions(opened, request.lossy, where)
            with error_context(where):
                dataset = sources.part(opened)
            losses += refuse_unreadable(dataset, request.lossy, where)
            recorded = replace(dataset, sources=dataset.sources if sources.are_joined else ())
            dataset = replace(dataset, left_out=(), gone=(), sources=(), joined=JoinRecord())
            dataset = _without_old_digest(dataset, sources, request.output)
            dataset, told = self.in_types_of_target(dataset)
            losses += told
            # The chunks of the source determine the best blocks for reading it.
            source = dataset
            (dataset, replaced, lengths), form = self.shaped(source, kind, self.units(source, recorded))
            losses += replaced
            if request.effort.report is not None:
                request.effort.report.chunks += lengths
                if kind_of_target(request.target) == "zarr":
                    request.effort.report.read_otherwise += read_otherwise(dataset)
            if request.trust.dry_run:
                return self.plan(dataset, form)
            if request.trust.record_sources:
                records = records_of(sources.paths, sources.options)
                dataset = replace(dataset, sources=with_steps(records, sources.paths, recorded))
            if (
                request.verb == "join"
                and form.layout == "nczarr-v3"
                and kind_of_target(request.target) == "zarr"
            ):
                from nczarr.convert.plans import recorded_options

                # A part of the steps, or steps that were filled, are not those that the join has found in order.
                sizes = {fqn: d.size for fqn, d in dataset.all_dimensions.items()}
                known = {f: k for f, k in recorded.joined.coordinates.items() if sizes.get(f) == k.count}
                known = {} if request.output.template else known
                dataset = replace(dataset, joined=JoinRecord(recorded_options(request), known))
            readings, size = request.trust.readings, dataset_bytes(dataset)
            with reporting(request.effort.progress, readings * size) if readings > 1 else nullcontext():
                task = self.of_one_job() if readings > 1 else self
                cluster = self.cluster(engine, dataset, kind)
                # A source that changed while it was copied made a dataset of both states.
                unchanged = partial(sources.refuse_changes, states)
                losses += task.write(dataset, form, source, cluster, unchanged)
        if request.effort.report is not None:
            request.effort.report.add(sources.paths, request.target, size)
            request.effort.report.losses += losses
        return losses

    def plan(self, dataset: Dataset, form: TargetFormat) -> tuple[str, ...]:
        """Return and report the planned storage of each variable."""
        from nczarr.convert.plans import planned_variables

        self.refuse_existing()
        to = kind_of_target(self.request.target)
        plan = list(planned_variables(dataset, self.request.output, to, form))
        for v in plan if to == "zarr" else ():
            block = v.shards or v.chunks or ()
            refuse_memory(
                v.fqn, block, v.shape, dataset.variable_at(v.fqn).type.dtype, self.request.effort.memory
            )
        if self.request.effort.report is not None:
            self.request.effort.report.variables += plan
        return tuple(map(str, plan))

    def write(
        self,
        dataset: Dataset,
        form: TargetFormat,
        source: Dataset,
        cluster: Cluster | None,
        refuse_changes: Callable[[], None],
    ) -> tuple[str, ...]:
        """Write the dataset, and verify it if requested; return the losses of the format."""
        request, sources = self.request, self.sources
        target, overwrite, resume, state = request.target, request.trust.overwrite, request.trust.resume, None
        if request.trust.digest:
            own = Attribute.of(ATTRIBUTE, digest_of(dataset, request.effort.progress).dataset)
            dataset = replace(dataset, attributes=(*without_digest(dataset).attributes, own))

        @cache
        def fingerprint() -> SourceFingerprint:
            from nczarr.convert.values.resume import fingerprint_of

            hook = sources.hook and f"{sources.hook.__module__}:{getattr(sources.hook, '__qualname__', '')}"
            how = [sources.subset, sources.fitting, hook, request.output, form]
            how += [dataset.sources] if dataset.sources else []
            return fingerprint_of(dataset, sources.paths, repr(how), sources.options)

        if resume and kind_of_target(target) == "zarr":
            from nczarr.convert.values.resume import losses_if_complete, state_of_target

            if not overwrite:
                found = losses_if_complete(target, dataset, form, request.access.target_options)
                if found is not None:
                    # The source may have changed since, also where neither its time nor a tag tells.
                    if (difference := self.difference(dataset, form, found)) is not None:
                        raise DatasetExistsError(
                            f"the target is a dataset already, but not a copy of this source: {difference}",
                            path=str(target),
                            hint=endpoints.overwriting(),
                        )
                    if request.effort.report is not None:
                        request.effort.report.finished_before += 1
                    return found
            state = state_of_target(target, fingerprint(), request.access.target_options)
        how = "continuing the copy of" if state == "resumable" else "copying"
        logger_of(__name__).info("%s: %s %s", name_of(target), how, sources)
        with self._place(cluster) as place:
            sink = sink_of(
                place,
                dataset,
                form,
                # Without a record, the content of the unfinished dataset is unknown.
                overwrite=overwrite or state == "unknown",
                durable=request.trust.durable,
                storage_options=request.access.target_options,
                resume=resume and state != "unknown",
            )
            FillTask(request, dataset, sink, source, fingerprint, cluster, refuse_changes).run()
        losses = tuple(getattr(sink, "losses", ()))
        if request.trust.verify and (difference := self.difference(dataset, form, losses)) is not None:
            raise NCZarrError(f"the copy differs from its source: {difference}", path=str(target))
        return losses

    def _place(self, cluster: Cluster | None) -> AbstractContextManager[object]:
        """Return the place of the output: the target, or a fork of a session of Icechunk that workers change."""
        target = self.request.target
        if cluster is None or not is_session_store(target):
            return nullcontext(target)
        if cluster.engine.forks:  # the first request in such a worker never ended
            raise UnsupportedError(
                "the workers of this executor are copies of this process without its threads, which Icechunk needs",
                path=str(target),
                hint=f"{named('executor', 'processes')}, or an executor with multiprocessing.get_context('spawn')",
            )
        return forked(target)

    def engine(self) -> AbstractContextManager[Engine | None]:
        """Connect to the requested workers."""
        request = self.request
        if request.effort.dask is None and request.effort.executor is None:
            return nullcontext()
        option = named("executor" if request.effort.dask is None else "dask")
        if kind_of_target(request.target) != "zarr":
            raise UnsupportedError(
                f"{option}: only a Zarr dataset can have several writers", path=str(request.target)
            )
        from nczarr.convert.engine import open_engine

        return open_engine(
            request.effort.executor, request.effort.dask, request.effort.workers, request.effort.memory
        )

    def cluster(self, engine: Engine | None, dataset: Dataset, kind: Kind | None) -> Cluster | None:
        """Return the workers that run the copy."""
        if engine is None:
            return None
        from nczarr.convert.cluster import Cluster, Recipe

        # Without the joined model, each worker joined all files again.
        joined = dataset if self.sources.are_joined else None
        return Cluster(engine, Recipe(self.sources, self.request.output, kind, joined))

    def difference(self, dataset: Dataset, form: TargetFormat, losses: Sequence[str]) -> Difference | None:
        """Return the first difference between a dataset and its copy that the format does not explain."""
        request = self.request
        exact = kind_of_target(request.target) != "cdl"  # CDL text has no payloads of NaN
        with open_source(request.target, storage_options=request.access.target_options, fresh=True) as stored:
            found: Iterator[Difference] = ValueComparison(exact).datasets(
                dataset, stored, request.effort.progress
            )
            if not {*losses} - {ORDER}:  # with other losses, only values can be equal
                order = form.layout not in _UNORDERED
                nodes = compare(dataset, stored, data=False, nan_payloads=exact, order=order)
                found = chain(nodes, found)
            return next(found, None)

    def units(self, dataset: Dataset, joined: Dataset) -> Units:
        """Return the units of steps along the dimensions of a dataset; `joined` lists the steps of its sources."""
        along = self.sources.along
        found = (
            None if along is None else next((d for d in dataset.all_dimensions if is_named(d, along)), None)
        )
        ends = [s.steps for s in joined.sources if s.steps is not None]
        return units_of_steps(dataset, found, [stop - start for start, stop in ends])

    def in_types_of_target(self, dataset: Dataset) -> tuple[Dataset, tuple[str, ...]]:
        """Return the dataset in types of a classic file, if that is the target, and what has another type then."""
        if kind_of_target(self.request.target) != "netcdf":
            return dataset, ()
        given = self.request.form.format
        return in_classic_types(dataset, None if given is None else parse_kind(str(given)))

    def shaped(
        self, dataset: Dataset, kind: Kind | None, units: Units | None = None
    ) -> tuple[Shaped, TargetFormat]:
        """Return the dataset as it is written, and the format of its sink."""
        to, how, form = kind_of_target(self.request.target), self.request.output, self.request.form
        layout, is_on_v3 = form.layout, form.layout in ON_V3
        if self.request.trust.record_sources and (to != "zarr" or layout != "nczarr-v3"):
            raise UnsupportedError(f"{named('record_sources')}: {NO_RECORD}")
        own_format = None if form.format is None else parse_kind(str(form.format))
        shaped = with_storage(
            dataset,
            how,
            source=kind,
            target=to,
            format=own_format,
            layout=layout,
            units=units,
            is_joined=self.sources.are_joined,
        )
        form.refuse_for(to, self.request.given)
        form = replace(form, format=own_format)
        if to != "zarr":
            return shaped, form
        if is_choice(how.compression):
            form = replace(form, compression=str(how.compression))
        elif how.compression is None and kind == "netcdf" and is_on_v3:
            # The older layouts store the filters of a variable only as codecs.
            form = replace(form, compression="default")
        form = replace(form, checksum=how.checksum)
        # zarr-python 3.0.0 to 3.1.3 refuse arrays with a top-level object.
        if how.portable and layout == "nczarr-v3":
            form = replace(form, keys_in_attributes=True, char="uint8")
        has_shards = any(v.storage.shard_shape for v in shaped.dataset.all_variables.values())
        if has_shards and not is_on_v3 and (how.shards is not None or "shards" in how.rules):
            raise UnsupportedError(f"{named('shards')}: the layout {layout} has no shards")
        return shaped, form


def _beyond_dimensions(dataset: Dataset, lossy: bool, where: str | None) -> tuple[str, ...]:
    """Refuse or list values beyond the dimensions: some programs append to arrays only."""
    found = []
    for fqn, variable in dataset.all_variables.items():
        stored = getattr(variable.data, "stored_shape", None)
        shape = dataset.shape_of(variable)
        if stored is not None and any(n > m for n, m in zip(stored, shape, strict=True)):
            found.append(
                f"{fqn}: the array has the shape {stored}, but its dimensions have the shape {shape}; "
                "another program has extended the array"
            )
    if found and not lossy:
        raise LossError(
            f"values beyond the dimensions would be lost: {found[0]}",
            path=where,
            hint=f"{named('lossy', True)} omits them",
        )
    return tuple(found)


def _without_old_digest(dataset: Dataset, sources: Sources, how: OutputOptions) -> Dataset:
    """Remove the stored digest of a source, unless the copy has the same content."""
    same = not sources.are_joined and sources.subset == Subset() and sources.hook is None
    # The digest is that of all values in their order.
    if same and not (how.quantize or "quantize" in how.rules or how.fixed or how.unlimited or how.template):
        return dataset
    return without_digest(dataset)


def _refer(
    request: CopyRequest, sources: Sources, unchanged: Callable[[], None] = lambda: None
) -> tuple[str, ...]:
    """Write references to the chunks of netCDF files, and to those that other references name.

    `unchanged` raises an error if another process has changed the target.
    """
    from nczarr.convert.virtual import write_virtual

    target, option = request.target, named("virtual")
    if len(sources.paths) != 1 and not sources.are_joined:
        raise UnsupportedError(
            f"{option}: several sources and one target", path=str(target), hint=f"use {verb_named('join')}"
        )
    for source in sources.paths:
        if isinstance(source, Dataset) or not (is_references(source) or kinds_of([source]) == {"netcdf"}):
            raise UnsupportedError(
                f"{option}: the source is neither a netCDF file nor references", path=name_of(source)
            )
    states = sources.states()

    def same() -> None:
        sources.refuse_changes(states)
        unchanged()

    with sources.open(fresh=False) as opened:
        part = _without_old_digest(replace(sources.part(opened), sources=()), sources, request.output)
        outside = write_virtual(
            part,
            sources.paths[0],
            target,
            same,
            overwrite=request.trust.overwrite,
        )
        if request.effort.report is not None:
            added = [path for path in sources.paths if local_path(path) != local_path(target)]
            request.effort.report.allow += outside
            request.effort.report.add(added, target, dataset_bytes(part))
    return ()

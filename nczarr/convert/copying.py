"""Copy datasets: take the requested part, choose the storage, copy the values, and remove the output after an error."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial, wraps
from inspect import signature
from itertools import chain
from types import ModuleType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, Unpack, cast, overload

from nczarr.convert import endpoints
from nczarr.convert.change.nodes import Subset
from nczarr.convert.change.packing import is_choice
from nczarr.convert.change.shaping import OutputOptions, parse_kind, shape
from nczarr.convert.endpoints import create_sink, expand_sources, name_of, open_source
from nczarr.convert.filling import FillTask, refuse_memory
from nczarr.convert.many.fit import Fitting
from nczarr.convert.many.scan import kinds_of, with_scans
from nczarr.convert.report import Report
from nczarr.convert.request import Request, Sources, refuse_unreadable
from nczarr.convert.values.resume import NO_RECORD, records_of, with_steps
from nczarr.convert.verify.differences import ValueComparison
from nczarr.convert.verify.digests import ATTRIBUTE, digest_of, without_digest
from nczarr.errors import DatasetExistsError, LossError, NCZarrError, UnsupportedError, error_context
from nczarr.formats import Kind, kind_of_source, kind_of_target
from nczarr.mapping.options import ON_V3, FormatOptions
from nczarr.mapping.plain.write import ORDER
from nczarr.model import Attribute, Dataset, Difference, compare
from nczarr.model.typed import list_names
from nczarr.system.logs import logger_of
from nczarr.targets import allowing
from nczarr.transfer import MEMORY, PartOfProgress, Progress, dataset_bytes, reporting

if TYPE_CHECKING:
    from xarray import DataTree

    from nczarr.convert.cluster import Cluster
    from nczarr.convert.engine import Engine
    from nczarr.convert.values.resume import SourceFingerprint

#: Layouts that do not store the order of dimensions.
_UNORDERED = ("zarr-v3", "zarr-v2")
_P = ParamSpec("_P")


class _Copy(Protocol[_P]):
    @overload
    def __call__(
        self, source: object, target: ModuleType, *args: _P.args, **kwargs: _P.kwargs
    ) -> DataTree: ...
    @overload
    def __call__(
        self, source: object, target: object, *args: _P.args, **kwargs: _P.kwargs
    ) -> tuple[str, ...]: ...


def _or_to_xarray(function: Callable[Concatenate[object, object, _P], tuple[str, ...]]) -> _Copy[_P]:
    """Copy also to the module xarray: to a tree in memory."""

    @wraps(function)
    def run(source: object, target: object, *args: _P.args, **kwargs: _P.kwargs) -> Any:
        if getattr(target, "__name__", None) != "xarray":
            return function(source, target, *args, **kwargs)
        store: dict[str, bytes] = {}
        losses, xarray = function(source, store, *args, **kwargs), cast("Any", target)
        return xarray.open_datatree(store, engine="nczarr") if store else losses

    return run


@_or_to_xarray
def copy(
    source: object,
    target: object,
    *,
    variables: str | Sequence[str] = (),
    only: str | Sequence[str] = (),
    groups: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    select: Mapping[str, object] | None = None,
    rename: Mapping[str, str] | None = None,
    chunks: str | Sequence[str] | Mapping[str, Any] | None = None,
    chunk_bytes: int | str | None = None,
    shards: str | int | Sequence[str] | Mapping[str, Any] | None = None,
    compression: str | Sequence[str] | Mapping[str, str] | None = None,
    checksum: bool = False,
    portable: bool = False,
    quantize: str | Sequence[str] | Mapping[str, str] | None = None,
    fixed: bool = False,
    unlimited: str | Sequence[str] = (),
    concat: str | None = None,
    merge: bool = False,
    join: str = "outer",
    repack: str | None = None,
    adjust: str | Sequence[str] = (),
    tolerance: Mapping[str, float] | None = None,
    expect_step: str | None = None,
    preprocess: str | Callable[[Any], Any] | None = None,
    append: bool = False,
    replace: bool = False,
    overwrite: bool = False,
    durable: bool | None = None,
    resume: bool = False,
    verify: bool = False,
    digest: bool = False,
    record_sources: bool = False,
    virtual: bool = False,
    dry_run: bool = False,
    plan: str | os.PathLike[str] | None = None,
    report: Report | None = None,
    progress: Progress | None = None,
    source_options: Mapping[str, object] | None = None,
    target_options: Mapping[str, object] | None = None,
    allow: str | Sequence[str] = (),
    workers: int | None = None,
    memory: int | str = MEMORY,
    dask: object = None,
    executor: object = None,
    **options: Unpack[FormatOptions],
) -> tuple[str, ...]:
    """Copy a dataset from any format that nczarr reads to any format that it writes.

    The output appears under its name only when it is complete. After an error, it is removed.

    Parameters
    ----------
    source : str, path, store, nczarr.model.Dataset, or dataset or tree of xarray
        A netCDF file, a Zarr hierarchy (path or URL), or CDL text (``.cdl``). For `concat`, for `append`, and if the
        target is a directory, also a list of sources or a pattern such as ``in/*.nc``.
    target : str, path or store
        ``.nc`` for a netCDF file, ``.cdl`` for CDL text, any other name for a Zarr hierarchy. A directory without a
        dataset, or a name that ends in ``/``, gets one Zarr hierarchy for each source, with the name of the source. The
        module ``xarray`` stands for a tree in memory, which is returned.
    variables : str or sequence of str
        Copy these variables, and their coordinates, bounds and grid mappings. Glob patterns: with a slash for FQNs
        (``/ocean/t*``), otherwise for simple names in any group. Commas separate the patterns of a string.
    only : str or sequence of str
        Copy exactly these variables.
    groups : str or sequence of str
        Copy these groups.
    exclude : str or sequence of str
        Omit these variables and groups.
    select : mapping, optional
        Parts of dimensions: ``{"time": slice(0, 10)}`` by index; ``slice(30.0, 60.0)`` by coordinate value, both ends
        included; ``slice("2020-01", "2020-06-15")`` by date.
    rename : mapping, optional
        New simple names by FQN; ``/v@units`` is an attribute.
    chunks : str, mapping, or sequence of str, optional
        Chunk lengths by dimension, ``{"time": 1}`` or ``"time=1,lat=100"``, or ``"auto"``. For some variables, by name
        or pattern: ``{"temp": {"time": 1}}``, ``"temp:time=1"``, or ``["time=10", "precip*:time=1"]``. The last pattern
        that matches counts.
    chunk_bytes : int or str, optional
        Approximate size of chunks, ``"4MiB"``.
    shards : str, int, mapping, or sequence of str, optional
        Shard lengths by dimension (default: the whole dimension), ``"auto"``, or an approximate number of bytes; also
        for some variables, as in `chunks`. Zarr output only.
    compression : str, mapping, or sequence of str, optional
        ``"zstd:3"``, ``"gzip:6"``, ``"blosc:lz4:5"``, ``"none"``; the name of any codec, as ``"lz4"``, or the JSON of
        one or several; or ``"source"`` for that of the source. From Zarr to Zarr, the default keeps the codecs of the
        source; from netCDF to Zarr, it is blosc with zstd and shuffle; from plain Zarr to netCDF, it is shuffle and
        deflate, where other codecs would need a plug-in of HDF5. ``"numcodecs"`` stores the filters of a netCDF file
        with codecs that keep its bytes, and which only zarr-python reads. For some variables:
        ``{"precip*": "zstd"}``, ``"precip*:zstd"``.
    checksum : bool, default False
        Store a checksum for every chunk: crc32c in Zarr, fletcher32 in netCDF-4.
    portable : bool, default False
        Replace the codecs of a Zarr source that not every reader of Zarr v3 has; the result names them.
    quantize : str, mapping, or sequence of str, optional
        Round floats: ``"temp=3"``, ``"GranularBitRound:3"``, ``{"temp": "3", "precip*": "BitRound:10"}``. No other
        option changes values.
    fixed : bool, default False
        Make unlimited dimensions fixed.
    unlimited : str or sequence of str
        Make these dimensions unlimited.
    concat : str, optional
        Join the sources along this dimension, or along a new dimension of this name. All sources are checked before
        anything is written; times are converted to the units of the first source.
    merge : bool, default False
        Join the variables of all sources in one dataset. Nodes that several sources have are the same, within
        `tolerance`; their attributes are joined. With `concat`, sources of the same variables are joined first.
    join : {'outer', 'first', 'exact', 'fill'}
        With `concat`, `merge` and `append`, how to join attributes that differ. ``"outer"`` keeps the attributes of all
        sources, from the first source where they differ, and refuses contradictions in attributes that describe the
        quantity (``standard_name``, ``cell_methods``, ``coordinates``, all of a grid mapping, …). ``"first"`` keeps
        the attributes of the first source, or of the target. ``"exact"`` refuses every difference. ``"fill"`` is
        ``"outer"``, and also joins variables that some sources lack, with fill values there. Attributes that decode
        numbers (``scale_factor``, ``_FillValue``, ``units``, …) may not differ, except for the reference dates of
        times, and with `repack` and `adjust`.
    repack : {'unpacked', 'first', 'common'}, optional
        With `concat` and `append`, join numbers with their own packing (``scale_factor``, ``add_offset``,
        ``_FillValue``, type): as floats; in the packing of the first source, if no value loses precision; or in a new
        packing for the range of all values. A warning states the maximum error.
    adjust : str or sequence of str
        With `concat` and `append`, accept little differences: ``"units"`` (other words for a unit), ``"calendar"``
        (``standard`` and ``proleptic_gregorian`` from 1582-10-15), ``"order"`` (of dimensions), ``"flip"`` (coordinates
        in reverse), ``"promote"`` (narrower types).
    tolerance : mapping, optional
        By name or pattern of a variable without the joined dimension: the largest difference of its values. Those of
        the first source are kept.
    expect_step : str, optional
        With `concat`, the step of the joined coordinate: ``"1d"``, ``"6h"``, ``"1mo"``, a number, or ``"auto"`` for the
        most frequent one. Missing steps are refused, or filled with ``join="fill"``.
    preprocess : callable or str, optional
        A function, or its name ``"module:function"``, that gets the :class:`nczarr.model.Dataset` of each source, whose
        values are lazy, and returns the one to copy. If its first parameter has the annotation ``xarray.Dataset``, or
        ``xarray.DataTree`` for sources with groups, it gets and returns that. It is called whenever a source is opened,
        on a cluster in each worker, and must return the same each time.
    append : bool, default False
        Append the sources to the existing dataset `target`, along its unlimited dimension (or `concat`). Steps that
        exist already are refused.
    replace : bool, default False
        With `append`: overwrite existing steps.
    overwrite : bool, default False
        Replace an existing dataset. A directory that is not a Zarr hierarchy is never replaced.
    durable : bool, optional
        By default, a copy to a local disk waits until the disk has stored the output, and removes the old dataset
        only then, so that the copy survives a power failure. False does not wait for the disk.
    resume : bool, default False
        Continue an interrupted copy of the same source with the same options, or start a copy; compare a complete
        copy with the source, and keep it. After an interrupt, the finished part is kept. Zarr directories and object
        stores only.
    digest : bool, default False
        Store the digest of the dataset in the global attribute ``nczarr_sha256``; see :func:`nczarr.digest`.
    record_sources : bool, default False
        Record name, size, digest and steps of each source, on Zarr with the layout ``nczarr-v3``; ``nczarr sources``
        lists them. An append to such a dataset records its sources too, and skips those that the dataset contains.
    verify : bool, default False
        After the copy, read source and target again and compare them bit by bit.
    virtual : bool, default False
        Write references to the chunks of netCDF files, without copying values. ``NAME.json`` and ``NAME.parquet`` have
        the forms of kerchunk, which fsspec's ``reference://`` reads; ``NAME.icechunk`` is an Icechunk repository; the
        store of an Icechunk session is also a target. With `concat`, the chunks of all files form one array. Reading
        references to files that are not beside them needs `allow`.
    dry_run : bool, default False
        Write nothing; return one line for each variable with its planned storage.
    plan : str or path, optional
        A file in TOML. If it exists, it contains all choices of the copy: what to join, rename and select, and the
        storage of each variable. With `dry_run`, it is written if it does not exist.
    report : nczarr.convert.Report, optional
        Receives the results: bytes, seconds, the plan.
    progress : Progress, optional
        Receives the progress of the copy.
    source_options, target_options : mapping, optional
        Options of the file systems of URLs.
    allow : str or sequence of str
        Paths and URLs. References (kerchunk's, virtual chunks of an Icechunk repository) may name files beside them,
        and files below these.
    workers : int, optional
        Number of writer threads; default: the number of processors, at most 8.
    memory : int or str, default "512MiB"
        Maximum size of the values in memory; on a cluster with an address, in that of each worker.
    dask : str or distributed.Client, optional
        Distribute the blocks over a Dask cluster: the address of its scheduler, a client, or ``"local"`` for `workers`
        processes on this machine. All workers must be able to open source and target by their paths or URLs.
    executor : concurrent.futures.Executor, callable or str, optional
        Distribute the blocks over the workers of an executor. A function, or its name ``"module:function"``, gets
        `workers` and returns an executor, which is replaced when its workers die; ``"processes"`` starts processes on
        this machine.
    **options
        For Zarr the fields of :class:`nczarr.mapping.WriteOptions` (``layout``, ``char``, …); for netCDF
        ``format``; for both ``lossy=True``.

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
    given = locals()
    endpoints.check_options(options, signature(copy).parameters)
    if plan is not None:
        from nczarr.convert.plans import copy_with_plan

        losses: tuple[str, ...] = copy_with_plan(copy, given)
        return losses
    if workers is not None and workers < 1:
        raise UnsupportedError(f"--workers {workers}: at least one is necessary")
    if append and (expect_step or virtual):
        raise UnsupportedError(
            f"--append cannot be combined with --{'expect-step' if expect_step else 'virtual'}"
        )
    if append and repack not in (None, "first"):
        raise UnsupportedError("--append keeps the packing of the dataset", hint="--repack first")
    if replace and not append:
        raise UnsupportedError("--replace needs --append")
    fitting = Fitting(join, repack, list_names(adjust), tolerance or {}, expect_step)
    if concat is None and not append and (repack or expect_step):
        raise UnsupportedError("--repack and --expect-step need --concat or --append")
    if concat is None and not (append or merge) and (fitting.adjust or tolerance):
        raise UnsupportedError("--adjust and --tolerance need --concat, --merge or --append")
    request = Request.of(given)
    nodes = [list_names(patterns) for patterns in (variables, only, groups, exclude)]
    subset = Subset(nodes[0], nodes[1], nodes[2], nodes[3], select or {}, rename or {})
    where = allowing(source_options, allow)
    hook = endpoints.named_function(preprocess, "--preprocess") if isinstance(preprocess, str) else preprocess
    paths = tuple(with_scans(expand_sources(source, where)))
    sources = Sources(paths, where, subset, concat, fitting, hook, merge)
    if append:
        from nczarr.convert.appending import AppendTask

        # With replace, the sources may write the same steps, one after the other. Otherwise append all or none.
        for part in sources.each() if replace and not merge else [sources]:
            AppendTask(request, part, replace).run()
        return ()
    if virtual:
        if hook is not None:
            raise UnsupportedError("--virtual cannot be combined with --preprocess")
        _refer(request, sources)
        return ()
    if sources.are_joined:
        return CopyTask(request, sources).run()
    targets = endpoints.targets_of(sources.paths, target)
    tasks = [CopyTask(request.to(to), one) for one, to in zip(sources.each(), targets, strict=True)]
    if len(tasks) == 1:
        return tasks[0].run()
    # Check all of them before the first copy.
    total = 0 if dry_run else sum(endpoints.call_all(task.check for task in tasks))
    with reporting(request.progress, request.readings * total):
        return tuple(loss for task in tasks for loss in task.of_one_job().run())


@dataclass(frozen=True)
class CopyTask:
    """The copy of one dataset, which may have several sources."""

    request: Request
    sources: Sources

    def of_one_job(self) -> CopyTask:
        """Return the task as a part of a job whose progress has started."""
        return replace(self, request=replace(self.request, progress=PartOfProgress(self.request.progress)))

    def check(self) -> int:
        """Check the options and the target without reading values; return the size of the values in bytes."""
        endpoints.refuse_same_place(self.sources.paths, self.request.target)
        self.refuse_existing()
        with self.sources.open_part(self.request.lossy) as dataset:
            self.shaped(dataset, kind_of_source(self.sources.paths[0]))
            return dataset_bytes(dataset)

    def refuse_existing(self) -> None:
        """Raise an error if the target exists, unless the copy replaces or continues it."""
        if not (self.request.overwrite or self.request.resume):
            endpoints.refuse_existing(self.request.target, self.request.storage_options)

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
            dataset = replace(dataset, left_out=(), gone=(), sources=())
            dataset = _without_old_digest(dataset, sources, request.output)
            # The chunks of the source determine the best blocks for reading it.
            source = dataset
            dataset, options, replaced = self.shaped(source, kind)
            losses += replaced
            if request.dry_run:
                return self.plan(dataset, options)
            if request.record_sources:
                records = records_of(sources.paths, sources.options)
                dataset = replace(dataset, sources=with_steps(records, sources.paths, recorded))
            readings, size = request.readings, dataset_bytes(dataset)
            with reporting(request.progress, readings * size) if readings > 1 else nullcontext():
                task = self.of_one_job() if readings > 1 else self
                cluster = self.cluster(engine, dataset, kind)
                unchanged = partial(sources.refuse_changes, states)
                losses += task.write(dataset, options, source, cluster, unchanged)
        if request.report is not None:
            request.report.add(sources.paths, request.target, size)
            request.report.losses += losses
        return losses

    def plan(self, dataset: Dataset, options: Mapping[str, Any]) -> tuple[str, ...]:
        """Return and report the planned storage of each variable."""
        from nczarr.convert.plans import planned_variables

        self.refuse_existing()
        to = kind_of_target(self.request.target)
        plan = list(planned_variables(dataset, self.request.output, to, options))
        for v in plan if to == "zarr" else ():
            block = v.shards or v.chunks or ()
            refuse_memory(v.fqn, block, v.shape, dataset.variable_at(v.fqn).type.dtype, self.request.memory)
        if self.request.report is not None:
            self.request.report.variables += plan
        return tuple(map(str, plan))

    def write(
        self,
        dataset: Dataset,
        options: Mapping[str, Any],
        source: Dataset,
        cluster: Cluster | None,
        refuse_changes: Callable[[], None],
    ) -> tuple[str, ...]:
        """Write the dataset, and verify it if requested; return the losses of the format."""
        request, sources = self.request, self.sources
        target, overwrite, resume, state = request.target, request.overwrite, request.resume, None
        if request.digest:
            own = Attribute.of(ATTRIBUTE, digest_of(dataset, request.progress).dataset)
            dataset = replace(dataset, attributes=(*without_digest(dataset).attributes, own))

        @cache
        def fingerprint() -> SourceFingerprint:
            from nczarr.convert.values.resume import fingerprint_of

            hook = sources.hook and f"{sources.hook.__module__}:{getattr(sources.hook, '__qualname__', '')}"
            how = [sources.subset, sources.fitting, hook, request.output, sorted(options.items(), key=str)]
            how += [dataset.sources] if dataset.sources else []
            return fingerprint_of(dataset, sources.paths, repr(how), sources.options)

        if resume and kind_of_target(target) == "zarr":
            from nczarr.convert.values.resume import losses_if_complete, state_of_target

            if not overwrite:
                found = losses_if_complete(target, dataset, options, request.storage_options)
                if found is not None:
                    if (difference := self.difference(dataset, options, found)) is not None:
                        raise DatasetExistsError(
                            f"the target is a dataset already, but not a copy of this source: {difference}",
                            path=str(target),
                            hint=endpoints.OVERWRITE,
                        )
                    if request.report is not None:
                        request.report.finished_before += 1
                    return found
            state = state_of_target(target, fingerprint(), request.storage_options)
        how = "continuing the copy of" if state == "resumable" else "copying"
        logger_of(__name__).info("%s: %s %s", name_of(target), how, sources)
        sink = create_sink(
            target,
            dataset,
            # Without a record, the content of the unfinished dataset is unknown.
            overwrite=overwrite or state == "unknown",
            durable=request.durable,
            storage_options=request.storage_options,
            resume=resume and state != "unknown",
            **options,
        )
        FillTask(request, dataset, sink, source, fingerprint, cluster, refuse_changes).run()
        losses = tuple(getattr(sink, "losses", ()))
        if request.verify and (difference := self.difference(dataset, options, losses)) is not None:
            raise NCZarrError(f"the copy differs from its source: {difference}", path=str(target))
        return losses

    def engine(self) -> AbstractContextManager[Engine | None]:
        """Connect to the requested workers."""
        request = self.request
        if request.dask is None and request.executor is None:
            return nullcontext()
        option = "--executor" if request.dask is None else "--dask"
        if kind_of_target(request.target) != "zarr":
            raise UnsupportedError(
                f"{option}: only a Zarr dataset can have several writers", path=str(request.target)
            )
        from nczarr.convert.engine import open_engine

        return open_engine(request.executor, request.dask, request.workers, request.memory)

    def cluster(self, engine: Engine | None, dataset: Dataset, kind: Kind | None) -> Cluster | None:
        """Return the workers that run the copy."""
        if engine is None:
            return None
        from nczarr.convert.cluster import Cluster, Recipe

        joined = dataset if self.sources.are_joined else None
        return Cluster(engine, Recipe(self.sources, self.request.output, kind, joined))

    def difference(
        self, dataset: Dataset, options: Mapping[str, Any], losses: Sequence[str]
    ) -> Difference | None:
        """Return the first difference between a dataset and its copy that the format does not explain."""
        request = self.request
        exact = kind_of_target(request.target) != "cdl"  # CDL text has no payloads of NaN
        with open_source(request.target, storage_options=request.storage_options, fresh=True) as stored:
            found: Iterator[Difference] = ValueComparison(exact).datasets(dataset, stored, request.progress)
            if not {*losses} - {ORDER}:  # with other losses, only values can be equal
                order = options.get("layout") not in _UNORDERED
                nodes = compare(dataset, stored, data=False, nan_payloads=exact, order=order)
                found = chain(nodes, found)
            return next(found, None)

    def shaped(self, dataset: Dataset, kind: Kind | None) -> tuple[Dataset, dict[str, Any], tuple[str, ...]]:
        """Return the dataset as it is written, the options of its sink, and the replaced codecs and filters."""
        to, how = kind_of_target(self.request.target), self.request.output
        options = dict(self.request.format_options)
        lossy = options.pop("lossy", False)
        if self.request.record_sources and (
            to != "zarr" or options.get("layout", "nczarr-v3") != "nczarr-v3"
        ):
            raise UnsupportedError(NO_RECORD)
        if "format" in options:
            options["format"] = parse_kind(options["format"])
        layout = options.get("layout", "nczarr-v3")
        shaped, replaced = shape(
            dataset, how, source=kind, target=to, format=options.get("format"), layout=layout
        )
        if to != "netcdf" and "format" in options:
            what = "a Zarr dataset" if to == "zarr" else "CDL text"
            raise UnsupportedError(
                f"-k: {what} has no netCDF format", hint="a target NAME.nc is a netCDF file"
            )
        if to != "zarr":
            return shaped, options, replaced
        if lossy:
            options["lossy"] = lossy
        if is_choice(how.compression):
            options["compression"] = how.compression
        elif how.compression is None and kind == "netcdf" and layout in ON_V3:
            # The older layouts store the filters of a variable only as codecs.
            options["compression"] = "default"
        if how.checksum:
            options["checksum"] = True
        has_shards = any(v.storage.shard_shape for v in shaped.all_variables.values())
        if has_shards and layout not in ON_V3 and (how.shards is not None or "shards" in how.rules):
            raise UnsupportedError(f"--shards: the layout {layout} has no shards")
        return shaped, options, replaced


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
            hint="--lossy, in Python lossy=True, omits them",
        )
    return tuple(found)


def _without_old_digest(dataset: Dataset, sources: Sources, how: OutputOptions) -> Dataset:
    """Remove the stored digest of a source, unless the copy has the same content."""
    same = not sources.are_joined and sources.subset == Subset() and sources.hook is None
    if same and not (how.quantize or "quantize" in how.rules or how.fixed or how.unlimited):
        return dataset
    return without_digest(dataset)


def _refer(request: Request, sources: Sources) -> None:
    """Write references to the chunks of netCDF files."""
    from nczarr.convert.virtual import write_virtual

    target = request.target
    request.refuse_with("--virtual", "overwrite")
    if request.output != OutputOptions() or request.format_options or request.record_sources:
        raise UnsupportedError(
            "--virtual cannot be combined with --record-sources and options of the storage"
        )
    if len(sources.paths) != 1 and not sources.are_joined:
        raise UnsupportedError("--virtual: several sources need --concat or --merge", path=str(target))
    for source in sources.paths:
        if isinstance(source, Dataset) or kinds_of([source]) != {"netcdf"}:
            raise UnsupportedError("--virtual: the source is not a netCDF file", path=name_of(source))
    states = sources.states()
    with sources.open(fresh=False) as opened:
        part = _without_old_digest(replace(sources.part(opened), sources=()), sources, request.output)
        outside = write_virtual(
            part,
            sources.paths[0],
            target,
            partial(sources.refuse_changes, states),
            overwrite=request.overwrite,
        )
        if request.report is not None:
            request.report.allow += outside
            request.report.add(sources.paths, target, dataset_bytes(part))

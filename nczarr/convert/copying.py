"""Copy datasets: take the requested part, choose the storage, copy the values, and remove the output after an error."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from nczarr.convert.change.options import OutputOptions, names_of, parse_bytes, parse_kind
from nczarr.convert.change.shaping import Shaped, shape
from nczarr.convert.endpoints import (
    OVERWRITE,
    call_all,
    check_options,
    create_sink,
    expand_sources,
    is_same_place,
    name_of,
    open_source,
    refuse_existing,
    targets_of,
)
from nczarr.convert.filling import FillTask, Resources, refuse_memory
from nczarr.convert.many.fit import Fitting
from nczarr.convert.report import Report, planned_variables
from nczarr.convert.sources import Sources, Subset
from nczarr.errors import DatasetExistsError, LossError, NCZarrError, UnsupportedError, error_context
from nczarr.formats import Kind, kind_of_source, kind_of_target, local_path, netcdf_format
from nczarr.mapping import ArrayShape
from nczarr.mapping.options import ON_V3, FormatOptions
from nczarr.model import Attribute, Dataset, DatasetSink, Difference
from nczarr.targets import allowing
from nczarr.transfer import MEMORY, NoProgress, PartOfProgress, Progress, dataset_bytes, reporting

if TYPE_CHECKING:
    from nczarr.convert.cluster import Cluster
    from nczarr.convert.many.appending import Appending
    from nczarr.convert.values.resume import SourceFingerprint

#: Layouts that do not store the order of dimensions.
_UNORDERED = ("zarr-v3", "zarr-v2")


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
    chunks: str | Mapping[str, int] | None = None,
    chunk_bytes: int | str | None = None,
    shards: str | int | Mapping[str, int] | None = None,
    compression: str | None = None,
    checksum: bool = False,
    quantize: str | None = None,
    fixed: bool = False,
    unlimited: str | Sequence[str] = (),
    concat: str | None = None,
    join: str = "outer",
    repack: str | None = None,
    adjust: str | Sequence[str] = (),
    tolerance: Mapping[str, float] | None = None,
    expect_step: str | None = None,
    append: bool = False,
    replace: bool = False,
    overwrite: bool = False,
    durable: bool | None = None,
    resume: bool = False,
    verify: bool = False,
    digest: bool = False,
    virtual: bool = False,
    dry_run: bool = False,
    report: Report | None = None,
    progress: Progress | None = None,
    source_options: Mapping[str, object] | None = None,
    target_options: Mapping[str, object] | None = None,
    allow: str | Sequence[str] = (),
    workers: int | None = None,
    memory: int | str = MEMORY,
    dask: object = None,
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
        dataset, or a name that ends in ``/``, gets one Zarr hierarchy for each source, with the name of the source.
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
    chunks : str or mapping, optional
        Chunk lengths by dimension, ``{"time": 1}`` or ``"time=1,lat=100"``, or ``"auto"``.
    chunk_bytes : int or str, optional
        Approximate size of chunks, ``"4MiB"``.
    shards : str, int or mapping, optional
        Shard lengths by dimension (default: the whole dimension), ``"auto"``, or an approximate number of bytes. Zarr
        output only.
    compression : str, optional
        ``"zstd:3"``, ``"gzip:6"``, ``"blosc:lz4:5"``, ``"none"``, or ``"source"`` for that of the source. The default
        from netCDF to Zarr is blosc with zstd and shuffle; from plain Zarr to netCDF it is shuffle and deflate, where
        other codecs would need a plug-in of HDF5; otherwise it is that of the source.
    checksum : bool, default False
        Store a checksum for every chunk: crc32c in Zarr, fletcher32 in netCDF-4.
    quantize : str, optional
        Round floats: ``"temp=3"``, ``"GranularBitRound:3"``. No other option changes values.
    fixed : bool, default False
        Make unlimited dimensions fixed.
    unlimited : str or sequence of str
        Make these dimensions unlimited.
    concat : str, optional
        Join the sources along this dimension, or along a new dimension of this name. All sources are checked before
        anything is written; times are converted to the units of the first source.
    join : {'outer', 'first', 'exact', 'fill'}
        With `concat` and `append`, how to join attributes that differ. ``"outer"`` keeps the attributes of all
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
    verify : bool, default False
        After the copy, read source and target again and compare them bit by bit.
    virtual : bool, default False
        Write references to the chunks of netCDF files, without copying values. ``NAME.json`` and ``NAME.parquet`` have
        the forms of kerchunk, which fsspec's ``reference://`` reads; ``NAME.icechunk`` is an Icechunk repository; the
        store of an Icechunk session is also a target. With `concat`, the chunks of all files form one array. Reading
        references to files that are not beside them needs `allow`.
    dry_run : bool, default False
        Write nothing; return one line for each variable with its planned storage.
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
    **options
        For Zarr the fields of :class:`nczarr.mapping.WriteOptions` (``layout``, ``codecs``, ``char``, …); for netCDF
        ``format``; for both ``lossy=True``.

    Returns
    -------
    tuple of str
        Parts of the source that the output cannot represent. The tuple is empty except with ``lossy=True``, for plain
        Zarr, and if another filter replaces a filter.

    Raises
    ------
    DatasetNotFoundError, DatasetExistsError, LossError, NCZarrError
        With the problem and its location.

    Examples
    --------
    >>> import nczarr, tempfile, os
    >>> from nczarr.model import Attribute, Dataset
    >>> out = os.path.join(tempfile.mkdtemp(), "out.zarr")
    >>> copy(Dataset("d", attributes=(Attribute.of("title", "an example"),)), out)
    ()
    >>> with open_source(out) as dataset:
    ...     dataset.attribute["title"].text
    'an example'
    """
    check_options(options, signature(copy).parameters)
    if workers is not None and workers < 1:
        raise UnsupportedError(f"--workers {workers}: at least one is necessary")
    if append and expect_step:
        raise UnsupportedError("--append cannot be combined with --expect-step")
    if append and repack not in (None, "first"):
        raise UnsupportedError("--append keeps the packing of the dataset", hint="--repack first")
    if append and virtual:
        raise UnsupportedError("--append cannot be combined with --virtual")
    if replace and not append:
        raise UnsupportedError("--replace needs --append")
    fitting = Fitting(join, repack, names_of(adjust), tolerance or {}, expect_step)
    fitting.check()
    if (repack or fitting.adjust or tolerance or expect_step) and concat is None and not append:
        raise UnsupportedError("--repack, --adjust, --tolerance and --expect-step need --concat or --append")
    request = _Request(
        OutputOptions(
            chunks, chunk_bytes, shards, compression, checksum, quantize, fixed, names_of(unlimited)
        ),
        Destination(overwrite, durable, target_options, options),
        Trust(resume, verify, digest),
        Resources(
            progress or NoProgress(), workers or min(8, os.cpu_count() or 1), parse_bytes(memory), dask
        ),
        dry_run,
        report,
    )
    subset = Subset(
        names_of(variables), names_of(only), names_of(groups), names_of(exclude), select or {}, rename or {}
    )
    where = allowing(source_options, allow)
    sources = Sources(tuple(expand_sources(source, where)), where, subset, concat, fitting)
    if append:
        # With replace, the sources may write the same steps, one after the other. Otherwise append all or none.
        for part in sources.each() if replace else [sources]:
            AppendTask(request, part, target, replace).run()
        return ()
    if virtual:
        _refer(request, sources, target)
        return ()
    if concat is not None:
        return CopyTask(request, sources, target).run()
    targets = targets_of(sources.paths, target)
    tasks = [CopyTask(request, one, to) for one, to in zip(sources.each(), targets, strict=True)]
    return tasks[0].run() if len(tasks) == 1 else _copy_each(request, tasks)


@dataclass(frozen=True)
class Destination:
    """How the output is created.

    Parameters
    ----------
    storage_options : mapping or None
        Options of the file system of a URL.
    options : mapping
        Options of the format; see :func:`create_sink`.
    """

    overwrite: bool = False
    durable: bool | None = None
    storage_options: Mapping[str, object] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def lossy(self) -> bool:
        """Omit parts that cannot be copied."""
        return bool(self.options.get("lossy"))


@dataclass(frozen=True)
class Trust:
    """How a copy is secured against interrupts and errors."""

    resume: bool = False
    verify: bool = False
    digest: bool = False

    @property
    def readings(self) -> int:
        """Number of times that all values are read: for the digest, for the copy, for the verification."""
        return 1 + self.digest + self.verify


@dataclass(frozen=True)
class _Request:
    """The options of a copy, apart from its sources and its target."""

    output: OutputOptions
    destination: Destination
    trust: Trust
    resources: Resources
    dry_run: bool
    report: Report | None

    def refuse_with(self, option: str, *allowed: str) -> None:
        """Refuse the options that another option would ignore."""
        given = {
            "dry-run": self.dry_run,
            "resume": self.trust.resume,
            "verify": self.trust.verify,
            "digest": self.trust.digest,
            "overwrite": self.destination.overwrite,
            "dask": self.resources.dask is not None,
        }
        for name, is_given in given.items():
            if is_given and name not in allowed:
                raise UnsupportedError(f"{option} cannot be combined with --{name}")

    @contextmanager
    def as_one_job(self, total: int) -> Iterator[_Request]:
        """Yield the request for a part of a job of `total` bytes, whose progress is reported as one."""
        whole = self.resources.progress
        with reporting(whole, total):
            yield replace(self, resources=replace(self.resources, progress=PartOfProgress(whole)))


def _copy_each(request: _Request, tasks: Sequence[CopyTask]) -> tuple[str, ...]:
    """Copy each source to its own target; check all of them before the first copy."""
    total = 0 if request.dry_run else sum(call_all(task.check for task in tasks))
    with request.as_one_job(request.trust.readings * total) as part:
        return tuple(loss for task in tasks for loss in replace(task, request=part).run())


@dataclass(frozen=True)
class CopyTask:
    """The copy of one dataset, which may have several sources."""

    request: _Request
    sources: Sources
    target: object

    def check(self) -> int:
        """Check the options and the target without reading values; return the size of the values in bytes."""
        self.refuse_same_place()
        if not (self.request.destination.overwrite or self.request.trust.resume):
            refuse_existing(self.target, self.request.destination.storage_options)
        source = self.sources.paths[0]
        with _open_part(self.sources, self.request.destination.lossy) as dataset:
            self.shaped(dataset, kind_of_source(source))
            return dataset_bytes(dataset)

    def refuse_same_place(self) -> None:
        """Refuse to copy a source to itself."""
        if any(is_same_place(source, self.target) for source in self.sources.paths):
            raise UnsupportedError(
                "the source and the target are the same, or one is inside the other", path=str(self.target)
            )

    def run(self) -> tuple[str, ...]:
        """Copy; return the losses, or the plan of a dry run."""
        request, sources = self.request, self.sources
        destination, report = request.destination, request.report
        with sources.open() as opened:
            self.refuse_same_place()
            states = sources.states()
            first = sources.paths[0]
            kinds: set[Kind] = {kind_of_source(s) for s in sources.paths if not isinstance(s, Dataset)}
            kind = kinds.pop() if len(kinds) == 1 else None
            where = None if isinstance(first, Dataset) else str(first)
            losses = _beyond_dimensions(opened, destination.lossy, where)
            with error_context(where):
                dataset = sources.part(opened)
            losses += _unreadable(dataset, destination.lossy, where)
            dataset = _without_old_digest(replace(dataset, left_out=(), gone=()), sources, request.output)
            # The chunks of the source determine the best blocks for reading it.
            source_chunks = {fqn: v.storage.chunk_shape for fqn, v in dataset.all_variables.items()}
            shaped, options = self.shaped(dataset, kind)
            losses += shaped.replaced
            if request.dry_run:
                if not (destination.overwrite or request.trust.resume):
                    refuse_existing(self.target, destination.storage_options)
                plan = list(planned_variables(shaped.dataset, kind_of_target(self.target), options))
                for v in plan if kind_of_target(self.target) == "zarr" else ():
                    dtype = shaped.dataset.variable_at(v.fqn).type.dtype
                    refuse_memory(v.fqn, v.shards or v.chunks, v.shape, dtype, request.resources.memory)
                if report is not None:
                    report.variables += plan
                return tuple(map(str, plan))
            readings, size = request.trust.readings, dataset_bytes(shaped.dataset)
            with request.as_one_job(readings * size) if readings > 1 else nullcontext(request) as part:
                losses += replace(self, request=part).write(
                    shaped.dataset, options, source_chunks, kind, partial(sources.refuse_changes, states)
                )
        if report is not None:
            report.add(sources.paths, self.target, size)
            report.losses += losses
        return losses

    def write(
        self,
        dataset: Dataset,
        options: Mapping[str, Any],
        source_chunks: Mapping[str, tuple[int, ...] | None],
        kind: Kind | None,
        refuse_changes: Callable[[], None],
    ) -> tuple[str, ...]:
        """Write the dataset, and verify it if requested; return the losses of the format."""
        request = self.request
        if request.trust.digest:
            dataset = _with_digest(dataset, request.resources.progress)
        losses = self.losses_if_complete(dataset, options)
        if losses is not None:
            return losses

        @cache
        def fingerprint() -> SourceFingerprint:
            from nczarr.convert.values.resume import fingerprint_of

            how = repr(
                (self.sources.subset, self.sources.fitting, request.output, sorted(options.items(), key=str))
            )
            return fingerprint_of(dataset, self.sources.paths, how, self.sources.options)

        with self.cluster(dataset, kind) as cluster:
            sink = self.create(dataset, options, fingerprint)
            FillTask(
                dataset,
                sink,
                self.target,
                request.resources,
                source_chunks,
                fingerprint,
                request.trust.resume,
                cluster,
                refuse_changes,
                request.destination.storage_options,
            ).run()
        losses = tuple(getattr(sink, "losses", ()))
        if request.trust.verify:
            difference = self.difference(dataset, options, losses)
            if difference is not None:
                raise NCZarrError(f"the copy differs from its source: {difference}", path=str(self.target))
        return losses

    def create(
        self, dataset: Dataset, options: Mapping[str, Any], fingerprint: Callable[[], SourceFingerprint]
    ) -> DatasetSink:
        """Create the output, or open the output of an interrupted copy."""
        destination, resume = self.request.destination, self.request.trust.resume
        state = None
        if resume and kind_of_target(self.target) == "zarr":
            from nczarr.convert.values.resume import state_of_target

            state = state_of_target(self.target, fingerprint(), destination.storage_options)
        return create_sink(
            self.target,
            dataset,
            # Without a record, the content of the unfinished dataset is unknown.
            overwrite=destination.overwrite or state == "unknown",
            durable=destination.durable,
            storage_options=destination.storage_options,
            resume=resume and state != "unknown",
            **options,
        )

    def cluster(self, dataset: Dataset, kind: Kind | None) -> AbstractContextManager[Cluster | None]:
        """Connect to the requested Dask cluster."""
        resources = self.request.resources
        if resources.dask is None:
            return nullcontext()
        if kind_of_target(self.target) != "zarr":
            raise UnsupportedError(
                "--dask: only a Zarr dataset can have several writers", path=str(self.target)
            )
        from nczarr.convert.cluster import Recipe, cluster

        joined = None if self.sources.concat is None else dataset
        recipe = Recipe(self.sources, self.request.output, kind, "zarr", joined)
        return cluster(resources.dask, resources.workers, recipe)

    def losses_if_complete(self, dataset: Dataset, options: Mapping[str, Any]) -> tuple[str, ...] | None:
        """With ``resume``, return the losses of the target if an earlier copy has completed it; else None.

        Raises
        ------
        DatasetExistsError
            If the target is a copy of another source.
        """
        request = self.request
        if not request.trust.resume or request.destination.overwrite or kind_of_target(self.target) != "zarr":
            return None
        from nczarr.convert.values.resume import losses_if_complete

        losses = losses_if_complete(self.target, dataset, options, request.destination.storage_options)
        if losses is None:
            return None
        difference = self.difference(dataset, options, losses)
        if difference is not None:
            raise DatasetExistsError(
                f"the target is a dataset already, but not a copy of this source: {difference}",
                path=str(self.target),
                hint=OVERWRITE,
            )
        if request.report is not None:
            request.report.finished_before += 1
        return losses

    def difference(
        self, dataset: Dataset, options: Mapping[str, Any], losses: Sequence[str]
    ) -> Difference | None:
        """Return the first difference between a dataset and its copy."""
        from nczarr.convert.verify.differences import differences_of_copy

        found = differences_of_copy(
            dataset,
            self.target,
            losses=losses,
            order=options.get("layout") not in _UNORDERED,
            nan_payloads=kind_of_target(self.target) != "cdl",
            storage_options=self.request.destination.storage_options,
            progress=self.request.resources.progress,
        )
        return next(found, None)

    def shaped(self, dataset: Dataset, kind: Kind | None) -> tuple[Shaped, dict[str, Any]]:
        """Return the dataset as it is written, and the options of its sink."""
        to, how = kind_of_target(self.target), self.request.output
        options = dict(self.request.destination.options)
        lossy = options.pop("lossy", False)
        if "format" in options:
            options["format"] = parse_kind(options["format"])
        shaped = shape(dataset, how, source=kind, target=to, format=options.get("format"))
        if to != "netcdf" and "format" in options:
            what = "a Zarr dataset" if to == "zarr" else "CDL text"
            raise UnsupportedError(
                f"-k: {what} has no netCDF format", hint="a target NAME.nc is a netCDF file"
            )
        if to != "zarr":
            return shaped, options
        is_new = options.get("layout", "nczarr-v3") in ON_V3
        if lossy:
            options["lossy"] = lossy
        if how.compression or (shaped.compression != "source" and is_new):
            # The older layouts store the filters of a variable only as codecs.
            options["compression"] = shaped.compression
        if how.compression == "source" and kind == "netcdf":
            options["compress"] = False  # do not compress variables without filters
        if how.checksum:
            options["checksum"] = True
        arrays = dict(shaped.arrays)
        if not is_new:
            if how.shards is not None and any(
                v.storage.shard_shape for v in shaped.dataset.all_variables.values()
            ):
                raise UnsupportedError(f"--shards: the layout {options['layout']} has no shards")
            arrays = {fqn: ArrayShape(a.chunks) for fqn, a in arrays.items()}
        if arrays:
            options["arrays"] = arrays
        return shaped, options


@contextmanager
def _open_part(sources: Sources, lossy: bool) -> Iterator[Dataset]:
    """Open the requested part of the sources; the sources to join are cut first."""
    name = name_of(sources.paths[0])
    with sources.open(cut=True) as opened:
        with error_context(name):
            part = opened if sources.concat is not None else sources.subset.of(opened)
        _unreadable(part, lossy, name)
        yield part


def _beyond_dimensions(dataset: Dataset, lossy: bool, where: str | None) -> tuple[str, ...]:
    """Refuse or list values beyond the dimensions: some programs append to arrays only."""
    found = []
    for fqn, variable in dataset.all_variables.items():
        stored = getattr(variable.data, "stored_shape", None)
        shape = dataset.shape(variable)
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


def _unreadable(dataset: Dataset, lossy: bool, where: str | None) -> tuple[str, ...]:
    """Refuse or list the parts of a source that nczarr cannot read."""
    lost = (*dataset.left_out, *dataset.gone)
    if lost and not lossy:
        raise LossError(
            f"something that nczarr cannot read would be lost: {lost[0]}",
            path=where,
            hint="-v copies named variables; --lossy, in Python lossy=True, copies everything else",
        )
    return lost


def _with_digest(dataset: Dataset, progress: Progress) -> Dataset:
    from nczarr.convert.verify.digests import ATTRIBUTE, digest_of, without_digest

    own = Attribute.of(ATTRIBUTE, digest_of(dataset, progress).dataset)
    return replace(dataset, attributes=(*without_digest(dataset).attributes, own))


def _without_old_digest(dataset: Dataset, sources: Sources, how: OutputOptions) -> Dataset:
    """Remove the stored digest of a source, unless the copy has the same content."""
    same = sources.concat is None and sources.subset == Subset()
    if same and not (how.quantize or how.fixed or how.unlimited):
        return dataset
    from nczarr.convert.verify.digests import without_digest

    return without_digest(dataset)


def _refer(request: _Request, sources: Sources, target: object) -> None:
    """Write references to the chunks of netCDF files."""
    from nczarr.convert.virtual.write import write_virtual

    request.refuse_with("--virtual", "overwrite")
    if request.output != OutputOptions() or request.destination.options:
        raise UnsupportedError("--virtual cannot be combined with options of the storage")
    if len(sources.paths) != 1 and sources.concat is None:
        raise UnsupportedError("--virtual: several sources need --concat", path=str(target))
    for source in sources.paths:
        if isinstance(source, Dataset) or kind_of_source(source) != "netcdf":
            raise UnsupportedError("--virtual: the source is not a netCDF file", path=name_of(source))
    states = sources.states()
    with sources.open(fresh=False) as opened:
        part = _without_old_digest(sources.part(opened), sources, request.output)
        outside = write_virtual(
            part,
            sources.paths[0],
            target,
            partial(sources.refuse_changes, states),
            overwrite=request.destination.overwrite,
        )
        if request.report is not None:
            request.report.allow += outside
            request.report.add(sources.paths, target, dataset_bytes(part))


@dataclass(frozen=True)
class AppendTask:
    """Appends sources to an existing dataset."""

    request: _Request
    sources: Sources
    target: object
    replace_steps: bool

    def run(self) -> None:
        """Append the sources, and report the size of their values."""
        request, target = self.request, self.target
        CopyTask(request, self.sources, target).refuse_same_place()
        kind = kind_of_source(target)
        if kind == "cdl":
            raise UnsupportedError(
                "--append does not support CDL text",
                path=str(target),
                hint="--concat joins files to a new one",
            )
        request.refuse_with("--append")
        if request.output != OutputOptions() or (request.destination.options and kind == "zarr"):
            raise UnsupportedError(
                "--append keeps the chunks and codecs of the dataset; omit the options of the storage"
            )
        from nczarr.convert.many.appending import Appending

        resources, destination = request.resources, request.destination
        appending = Appending(
            self.opening,
            self.sources.paths,
            self.sources.concat,
            self.replace_steps,
            self.sources.fitting,
            destination.durable,
            resources.progress,
            resources.memory,
        )
        if kind == "zarr":
            size = appending.to_zarr(target, destination.storage_options, resources.workers)
        else:
            size = self.append_to_file(appending)
        if request.report is not None:
            request.report.add(self.sources.paths, None, size)

    def opening(self, fqn: str) -> AbstractContextManager[Dataset]:
        """Open the sources, joined along a dimension."""
        concat = fqn if len(self.sources.paths) > 1 else None
        return _open_part(replace(self.sources, concat=concat), self.request.destination.lossy)

    def append_to_file(self, appending: Appending) -> int:
        """Append to a netCDF file; return the size of the values in bytes."""
        from nczarr.convert.many.appending import appended, growing_dimension
        from nczarr.netcdf.edit.hdf5_file import FixedFileError

        sources, target, destination = self.sources, self.target, self.request.destination
        path = local_path(target)
        if path is not None and not destination.options:
            if not self.replace_steps and netcdf_format(str(path)) != "hdf5" and not _has_digest(path):
                return appending.to_records(path)
            with suppress(FixedFileError):
                return appending.to_copy(path)
        # Write a new file if the existing one cannot be changed.
        with (
            open_source(target) as old,
            self.opening(growing_dimension(old, sources.concat, str(target))) as added,
        ):
            joined = appended(
                old, added, sources.concat, sources.paths, target, self.replace_steps, sources.fitting
            )
            sink = create_sink(
                target, joined, overwrite=True, durable=destination.durable, **destination.options
            )
            FillTask(joined, sink, target, self.request.resources).run()
            return dataset_bytes(added)


def _has_digest(path: Path) -> bool:
    """True if a dataset has a stored digest, which appending removes."""
    from nczarr.convert.verify.digests import ATTRIBUTE

    with open_source(path) as dataset:
        return ATTRIBUTE in dataset.attribute

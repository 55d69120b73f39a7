"""Copy a dataset: choose its parts and its form, move the values, leave nothing half-done behind."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from nczarr.convert import change
from nczarr.convert.change.shaping import Shaped, Shaping, parse_bytes, parse_kind
from nczarr.convert.endpoints import (
    create_sink,
    expand_sources,
    inside_folder,
    is_folder,
    name_of,
    open_source,
    refuse_existing,
    same_place,
)
from nczarr.convert.recipe import Choice, Recipe
from nczarr.convert.report import Report
from nczarr.convert.values.rechunk import rechunk
from nczarr.errors import (
    DatasetExistsError,
    LossError,
    NCZarrError,
    StoreError,
    UnsupportedError,
    error_context,
)
from nczarr.formats import Kind, kind_of_source, kind_of_target, local_path, netcdf_format, state_of_file
from nczarr.mapping import ArrayShape, StoredDataset
from nczarr.model import Attribute, CornerSource, Dataset, DatasetSink, Difference, MemorySource
from nczarr.targets import allowing
from nczarr.transfer import (
    BLOCK_BYTES,
    MEMORY,
    Block,
    NoProgress,
    PartOfProgress,
    Progress,
    Work,
    blocks_of,
    data_bytes,
    transfer,
    value_bytes,
)

if TYPE_CHECKING:
    from nczarr.convert.cluster import Cluster
    from nczarr.convert.values.marks import Mark
    from nczarr.convert.values.resume import Recording

#: Copies of less than this are quicker made anew than gone on with.
_RECORDED = 64 << 20
#: Fewer values are written sooner than it is found out that they need not be.
_MANY_VALUES = 1 << 20
_KEPT = "what is finished is kept; the same command with --resume goes on"
_STILL_WRITING = (
    "workers may still write, so what is written stays, marked unfinished; when they have ended, the same command "
    "with --resume goes on, and nczarr clean TARGET removes it"
)
_BESIDE = (
    "the dataset that was to be replaced stays; workers may still write beside it, and nczarr clean TARGET removes "
    "that when they have ended"
)
#: Layouts that do not say in which order dimensions are.
_UNORDERED = ("zarr-v3", "zarr-v2")
_NEW_LAYOUTS = ("nczarr-v3", "zarr-v3")


def copy(
    source: Any,
    target: Any,
    *,
    variables: str | Sequence[str] = (),
    only: str | Sequence[str] = (),
    groups: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    select: Mapping[str, Any] | None = None,
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
    source_options: Mapping[str, Any] | None = None,
    target_options: Mapping[str, Any] | None = None,
    allow: str | Sequence[str] = (),
    workers: int | None = None,
    memory: int | str = MEMORY,
    dask: Any = None,
    **options: Any,
) -> tuple[str, ...]:
    """Copy a dataset from any format that nczarr reads to any that it writes.

    The output appears under its name only when it is complete; after an error nothing of it is left.

    Parameters
    ----------
    source : str, path, store or nczarr.model.Dataset
        A netCDF file, a Zarr hierarchy (path or URL), or CDL text (``.cdl``); for `concat` and `append`, and into
        a directory, also a list of them or a pattern such as ``in/*.nc``.
    target : str, path or store
        ``.nc`` makes a netCDF file, ``.cdl`` text, every other name a Zarr hierarchy. In a directory that is no
        dataset, and behind a ``/``, each source gets a Zarr hierarchy of its own name.
    variables : str or sequence of str
        Copy these variables, and the coordinates, bounds and grid mappings that they need. Glob patterns: with a
        slash of FQNs, ``/ocean/t*``, else of simple names in any group; text is cut at commas.
    only : str or sequence of str
        Copy exactly these variables.
    groups : str or sequence of str
        Copy these groups.
    exclude : str or sequence of str
        Leave out these variables and groups.
    select : mapping, optional
        Parts of dimensions: ``{"time": slice(0, 10)}`` by index, ``slice(30.0, 60.0)`` by coordinate value, both
        ends included, ``slice("2020-01", "2020-06-15")`` by date.
    rename : mapping, optional
        New simple names by FQN; ``/v@units`` is an attribute.
    chunks : str or mapping, optional
        Chunk lengths by dimension, ``{"time": 1}`` or ``"time=1,lat=100"``, or ``"auto"``.
    chunk_bytes : int or str, optional
        About how large chunks are, ``"4MiB"``.
    shards : str, int or mapping, optional
        Shard lengths by dimension (all of the others), ``"auto"``, or about how many bytes. Zarr output only.
    compression : str, optional
        ``"zstd:3"``, ``"gzip:6"``, ``"blosc:lz4:5"``, ``"none"``, or ``"source"`` for that of the source. The
        default from netCDF to Zarr is blosc with zstd and shuffle; from plain Zarr to netCDF shuffle and deflate,
        where other codecs would need a plug-in of HDF5's; else it is that of the source.
    checksum : bool, default False
        A checksum for every chunk: crc32c on Zarr, fletcher32 in netCDF-4.
    quantize : str, optional
        Round floats: ``"temp=3"``, ``"GranularBitRound:3"``. The only thing that changes values.
    fixed : bool, default False
        Make unlimited dimensions fixed.
    unlimited : str or sequence of str
        Make these dimensions unlimited.
    concat : str, optional
        Join the sources along this dimension, a new one if they have none of the name. All are checked before
        anything is written; times are brought to the units of the first.
    join : {'outer', 'first', 'exact'}
        With `concat` and `append`, attributes that differ. ``"outer"`` takes the attributes of all sources, those that
        differ from the first; attributes of meaning (``standard_name``, ``cell_methods``, ``coordinates``, all of a
        grid mapping, …) are refused where they differ. ``"first"`` takes all attributes from the first source, or
        from the target. ``"exact"`` refuses every difference. Attributes by which numbers are decoded
        (``scale_factor``, ``_FillValue``, ``units``, …) may never differ, but for the reference dates of times.
    append : bool, default False
        Append the sources to the dataset that the target is, along its unlimited dimension (or `concat`). Steps
        that it has already are refused.
    replace : bool, default False
        With `append`: write over steps that are there already.
    overwrite : bool, default False
        Replace an existing dataset. A directory that is not a Zarr hierarchy is never replaced.
    durable : bool, optional
        On local disks the copy ends when the disk has all of the output, and an old dataset is not removed before:
        a loss of power then leaves the copy. This is the default. False does not wait for the disk.
    resume : bool, default False
        Go on with a copy of the same source with the same options that was killed; begin one if there is none; where
        it is finished already, compare it with the source and leave it. After an interrupt what
        is written stays, for the next time. Zarr directories and object stores only.
    digest : bool, default False
        Store the digest of the dataset in the global attribute ``nczarr_sha256``; see :func:`nczarr.digest`.
    verify : bool, default False
        Read both sides again after the copy and compare them to the bit.
    virtual : bool, default False
        Write references to the chunks of netCDF files: the values stay in the files. ``NAME.json`` and
        ``NAME.parquet`` have kerchunk's forms, which fsspec's ``reference://`` reads; ``NAME.icechunk`` is an
        Icechunk repository, and the store of an Icechunk session is written to. With `concat` the chunks of all
        files make one array. References to files that are not beside them are read back with `allow`.
    dry_run : bool, default False
        Write nothing; return a line for each variable that says how it would be written.
    report : nczarr.convert.Report, optional
        Gets the figures: bytes, seconds, the plan.
    progress : Progress, optional
        Is told how far the copy is.
    source_options, target_options : mapping, optional
        Storage options for fsspec.
    allow : str or sequence of str
        Paths and URLs. References to other files (kerchunk's, an Icechunk repository's virtual chunks) reach what
        lies beside them, and what lies below these.
    workers : int, optional
        Writing threads; default: the number of processors, at most 8.
    memory : int or str, default "512MiB"
        Bound on the values in memory; with the address of a cluster, in that of each worker.
    dask : str or distributed.Client, optional
        Spread the blocks over a Dask cluster: the address of its scheduler, a client, or ``"local"`` for `workers`
        processes on this machine. Source and target must be paths or URLs that all workers reach.
    **options
        For Zarr the fields of :class:`nczarr.mapping.WriteOptions` (``layout``, ``codecs``, ``char``, …); for
        netCDF ``format``; ``lossy=True`` for both.

    Returns
    -------
    tuple of str
        What the output could not hold; not empty only after a copy with ``lossy=True``, to plain Zarr, or where a
        filter had to give way to another.

    Raises
    ------
    DatasetNotFoundError, DatasetExistsError, LossError, NCZarrError
        Say what is wrong, and where.

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
    what = Choice(
        listed(variables), listed(only), listed(groups), listed(exclude), select or {}, rename or {}
    )
    how = Shaping(chunks, chunk_bytes, shards, compression, checksum, quantize, fixed, listed(unlimited))
    if workers is not None and workers < 1:
        raise UnsupportedError(f"--workers {workers}: at least one is needed")
    if append and virtual:
        raise UnsupportedError("--append: --virtual does not go with it")
    if join != "outer":
        from nczarr.convert.many.fit import check_join

        check_join(join)
    if replace and not append:
        raise UnsupportedError("--replace: it goes with --append")
    job = _Job(
        what,
        how,
        progress or NoProgress(),
        workers or min(8, os.cpu_count() or 1),
        parse_bytes(memory),
        overwrite=overwrite,
        durable=durable,
        resume=resume,
        verify=verify,
        digest=digest,
        dry_run=dry_run,
        report=report,
        source_options=allowing(source_options, allow),
        target_options=target_options,
        dask=dask,
        concat=concat,
        join=join,
        options=options,
    )
    sources = expand_sources(source, job.source_options)
    if append:
        # Those that write over each other's steps follow each other; of others none is appended if one cannot be.
        for some in [[one] for one in sources] if replace else [sources]:
            job.append(some, target, concat, replace)
        return ()
    if virtual:
        job.refer(sources, target)
        return ()
    if concat is not None:
        with job.joined(sources, concat) as joined:
            return job.copy(joined, sources, target)
    targets = _targets(sources, target)
    if len(sources) > 1:
        return job.copy_each(sources, targets)
    with open_source(sources[0], storage_options=job.source_options, fresh=True) as opened:
        return job.copy(opened, sources, targets[0])


@dataclass
class _Job:
    """A copy with all its options."""

    what: Choice
    how: Shaping
    progress: Progress
    workers: int
    memory: int
    overwrite: bool
    durable: bool | None
    resume: bool
    verify: bool
    digest: bool
    dry_run: bool
    report: Report | None
    source_options: Mapping[str, Any] | None
    target_options: Mapping[str, Any] | None
    dask: Any
    concat: str | None
    join: str
    options: Mapping[str, Any]

    def copy(self, opened: Dataset, sources: Sequence[Any], target: Any) -> tuple[str, ...]:
        """Copy an open dataset."""
        for source in sources:
            _refuse_same(source, target)
        unchanged = _watched(sources)
        kinds: set[Kind] = {kind_of_source(s) for s in sources if not isinstance(s, Dataset)}
        kind = kinds.pop() if len(kinds) == 1 else None
        where = str(sources[0]) if not isinstance(sources[0], Dataset) else None
        losses = _beyond(opened, bool(self.options.get("lossy")), where)
        with error_context(where):
            dataset = self.what.of(opened, joined=self.concat is not None)
        losses += _left_out(dataset, bool(self.options.get("lossy")), where)
        dataset = self.without_old_digest(replace_fields(dataset, left_out=(), gone=()))
        # Other chunks may be asked for; those of the source say how it is best read.
        reading = {fqn: v.storage.chunk_shape for fqn, v in dataset.all_variables.items()}
        shaped, options = self.shaped(dataset, target, kind)
        dataset, losses = shaped.dataset, (*losses, *shaped.replaced)
        if self.dry_run:
            from nczarr.convert.plan import planned

            if not (self.overwrite or self.resume):
                refuse_existing(target, self.target_options)

            plan = list(planned(dataset, kind_of_target(target), options))
            if self.report is not None:
                self.report.variables += plan
            return tuple(map(str, plan))
        with self.as_one(self.readings * _bytes_of(dataset)) if self.readings > 1 else nullcontext():
            return self.write(dataset, sources, target, kind, options, reading, losses, unchanged)

    def write(
        self,
        dataset: Dataset,
        sources: Sequence[Any],
        target: Any,
        kind: Kind | None,
        options: Mapping[str, Any],
        reading: Mapping[str, Any],
        losses: Sequence[str],
        unchanged: Callable[[], None],
    ) -> tuple[str, ...]:
        """Write the dataset as it is to be, and look whether it is there."""
        if self.digest:
            dataset = _with_digest(dataset, self.progress)

        @cache
        def mark() -> Mark:
            from nczarr.convert.values.marks import mark_of

            how = repr((self.what, self.how, sorted(options.items(), key=str)))
            return mark_of(dataset, sources, how, self.source_options)

        dropped = self.finished(dataset, target, options)
        if dropped is None:
            with self.cluster(sources, target, kind) as spread:
                sink = self.create(dataset, target, options, mark)
                self.fill(dataset, sink, target, mark, reading, spread, unchanged)
            dropped = tuple(getattr(sink, "losses", ()))
            if self.verify:
                first = self.difference(dataset, target, options, dropped)
                if first is not None:
                    raise NCZarrError(f"the copy differs from its source: {first}", path=str(target))
        if self.report is not None:
            self.report.add(sources, target, _bytes_of(dataset))
            self.report.losses += [*losses, *dropped]
        return (*losses, *dropped)

    def finished(self, dataset: Dataset, target: Any, options: Mapping[str, Any]) -> tuple[str, ...] | None:
        """What the copy at the target could not hold, if an earlier copy has finished it; else None.

        Raises
        ------
        DatasetExistsError
            If it is a copy of something else.
        """
        if not self.resume or self.overwrite or kind_of_target(target) != "zarr":
            return None
        from nczarr.convert.values.earlier import finished

        losses = finished(target, dataset, options, self.target_options)
        if losses is None:
            return None
        first = self.difference(dataset, target, options, losses)
        if first is not None:
            raise DatasetExistsError(
                f"a dataset is there already, and is no copy of this source: {first}",
                path=str(target),
                hint="--overwrite, in Python overwrite=True, replaces it",
            )
        if self.report is not None:
            self.report.finished_before += 1
        return losses

    def difference(
        self, dataset: Dataset, target: Any, options: Mapping[str, Any], losses: Sequence[str]
    ) -> Difference | None:
        """Return the first difference between a dataset and its copy."""
        from nczarr.convert.verify.differences import differences_of_copy

        found = differences_of_copy(
            dataset,
            target,
            losses=losses,
            order=options.get("layout") not in _UNORDERED,
            nan_payloads=kind_of_target(target) != "cdl",
            storage_options=self.target_options,
            progress=self.progress,
        )
        return next(found, None)

    def copy_each(self, sources: Sequence[Any], targets: Sequence[Any]) -> tuple[str, ...]:
        """Copy each source to a target of its own; all are looked at before the first is copied."""
        losses: list[str] = []
        total = 0
        if not self.dry_run:
            for source, target in zip(sources, targets, strict=True):
                _refuse_same(source, target)
                if not (self.overwrite or self.resume):
                    refuse_existing(target, self.target_options)
                with self.chosen(source) as dataset:
                    self.shaped(dataset, target, kind_of_source(source))
                    total += _bytes_of(dataset)
        with self.as_one(self.readings * total):
            for source, target in zip(sources, targets, strict=True):
                with open_source(source, storage_options=self.source_options, fresh=True) as opened:
                    losses += self.copy(opened, [source], target)
        return tuple(losses)

    @property
    def readings(self) -> int:
        """How often all values are gone over: for the digest, to copy them, to verify."""
        return 1 + self.digest + self.verify

    @contextmanager
    def as_one(self, total: int) -> Iterator[None]:
        """Report what is done inside as one job of so many bytes."""
        whole, self.progress = self.progress, PartOfProgress(self.progress)
        whole.start(total)
        try:
            yield
        finally:
            self.progress = whole
            whole.finish()

    def joined(self, sources: Sequence[Any], along: str) -> AbstractContextManager[Dataset]:
        """Open sources as one dataset."""
        from nczarr.convert import many

        return many.join(
            sources,
            along,
            attributes=self.join,
            storage_options=self.source_options,
            choose=self.what.nodes_of_all,
        )

    def refer(self, sources: Sequence[Any], target: Any) -> None:
        """Write references to the values of netCDF files."""
        from nczarr.convert.virtual.write import write_virtual

        self.refuse("--virtual", "dry_run", "resume", "verify", "digest", "dask")
        if self.how != Shaping() or self.options:
            raise UnsupportedError("--virtual: no option of how it is stored goes with it")
        if len(sources) != 1 and self.concat is None:
            raise UnsupportedError("--virtual: several sources need --concat", path=str(target))
        for source in sources:
            if isinstance(source, Dataset) or kind_of_source(source) != "netcdf":
                raise UnsupportedError("--virtual: the source is no netCDF file", path=name_of(source))
        unchanged = _watched(sources)
        opening: AbstractContextManager[Dataset]
        if self.concat is None:
            opening = open_source(sources[0], storage_options=self.source_options)
        else:
            opening = self.joined(sources, self.concat)
        with opening as opened:
            chosen = self.what.of(opened, joined=self.concat is not None)
            chosen = self.without_old_digest(chosen)
            outside = write_virtual(chosen, sources[0], target, unchanged, overwrite=self.overwrite)
            if self.report is not None:
                self.report.allow += outside
                self.report.add(sources, target, _bytes_of(chosen))

    def append(self, sources: Sequence[Any], target: Any, along: str | None, replace: bool) -> None:
        """Append sources to the dataset at the target."""
        moved = self.appended(sources, target, along, replace)
        if self.report is not None:
            self.report.add(sources, None, moved)

    def appended(self, sources: Sequence[Any], target: Any, along: str | None, replace: bool) -> int:
        """Append sources; return how many bytes of values they have."""
        from nczarr.convert import many

        for source in sources:
            _refuse_same(source, target)
        if kind_of_source(target) == "cdl":
            raise UnsupportedError(
                "--append: CDL text is not appended to", path=str(target), hint="--concat joins files anew"
            )
        self.refuse("--append", "dry_run", "resume", "verify", "digest", "overwrite", "dask")
        if self.how != Shaping() or (self.options and kind_of_source(target) == "zarr"):
            raise UnsupportedError(
                "--append keeps the chunks and codecs of the dataset; leave out options of them"
            )

        @contextmanager
        def opening(fqn: str) -> Iterator[Dataset]:
            if len(sources) == 1:
                with self.chosen(sources[0]) as part:
                    yield part
                return
            with many.join(
                sources,
                fqn,
                attributes=self.join,
                storage_options=self.source_options,
                choose=self.what.parts_of_all,
            ) as joined:
                _left_out(joined, bool(self.options.get("lossy")), name_of(sources[0]))
                yield joined

        if kind_of_source(target) == "zarr":
            return many.append(
                opening,
                sources,
                target,
                along=along,
                replace_steps=replace,
                join=self.join,
                durable=self.durable,
                target_options=self.target_options,
                progress=self.progress,
                workers=self.workers,
                memory=self.memory,
            )
        path = local_path(target)
        if path is not None and not self.options:
            form: dict[str, Any] = {
                "along": along, "join": self.join, "durable": self.durable, "progress": self.progress,
                "memory": self.memory
            }  # fmt: skip
            if not replace and netcdf_format(str(path)) != "hdf5" and not _has_digest(path):
                return many.append_records(opening, sources, path, **form)
            from nczarr.netcdf.edit.hdf5_file import FixedFileError

            with suppress(FixedFileError):
                return many.append_to_copy(opening, sources, path, replace_steps=replace, **form)
        # What cannot be changed where it is, is written anew.
        with open_source(target) as old:
            with opening(many.growing_dimension(old, along, str(target))) as added:
                joined = many.appended(old, added, along, sources, target, replace, self.join)
                sink = create_sink(target, joined, overwrite=True, durable=self.durable, **self.options)
                self.fill(joined, sink, target)
                return _bytes_of(added)

    @contextmanager
    def chosen(self, source: Any) -> Iterator[Dataset]:
        """Open the chosen part of a source."""
        with open_source(source, storage_options=self.source_options, fresh=True) as opened:
            with error_context(name_of(source)):
                part = self.what.of(opened)
            _left_out(part, bool(self.options.get("lossy")), name_of(source))
            yield part

    def refuse(self, option: str, *others: str) -> None:
        """Refuse options that would do nothing beside another one."""
        for name in others:
            if getattr(self, name) not in (None, False):
                raise UnsupportedError(f"{option}: --{name.replace('_', '-')} does not go with it")

    def without_old_digest(self, dataset: Dataset) -> Dataset:
        """Leave out the digest that is stored in a source of which the copy will be another dataset."""
        how = self.how
        if self.concat is None and self.what == Choice() and not (how.quantize or how.fixed or how.unlimited):
            return dataset
        from nczarr.convert.verify.digests import without_digest

        return without_digest(dataset)

    def shaped(self, dataset: Dataset, target: Any, kind: Kind | None) -> tuple[Shaped, dict[str, Any]]:
        """Return how the dataset is written, and the options of what writes it."""
        to = kind_of_target(target)
        how, options = self.how, dict(self.options)
        lossy = options.pop("lossy", False)
        if "format" in options:
            options["format"] = parse_kind(options["format"])
        shaped = change.shape(dataset, how, source=kind, target=to, format=options.get("format"))
        if to != "netcdf" and "format" in options:
            what = "a Zarr dataset" if to == "zarr" else "CDL text"
            raise UnsupportedError(
                f"-k: {what} has no netCDF format", hint="a target NAME.nc is a netCDF file"
            )
        if to == "zarr":
            layout = options.get("layout", "nczarr-v3")
            if lossy:
                options["lossy"] = lossy
            if how.compression or (shaped.compression != "source" and layout in _NEW_LAYOUTS):
                # The older layouts know a variable's filters from its codecs alone.
                options["compression"] = shaped.compression
            if how.compression == "source" and kind == "netcdf":
                options["compress"] = False  # what has no filters stays without
            if how.checksum:
                options["checksum"] = True
            arrays = dict(shaped.arrays)
            if layout not in _NEW_LAYOUTS:
                if how.shards is not None and any(a.shards for a in arrays.values()):
                    raise UnsupportedError(f"--shards: the layout {layout} has none")
                arrays = {fqn: ArrayShape(a.chunks) for fqn, a in arrays.items()}
            if arrays:
                options["arrays"] = arrays
        return shaped, options

    def cluster(
        self, sources: Sequence[Any], target: Any, kind: Kind | None
    ) -> AbstractContextManager[Cluster | None]:
        """Connect to the Dask cluster that was asked for."""
        if self.dask is None:
            return nullcontext()
        if kind_of_target(target) != "zarr":
            raise UnsupportedError("--dask: only a Zarr dataset can have several writers", path=str(target))
        from nczarr.convert.cluster import cluster

        recipe = Recipe(
            tuple(sources), self.source_options, self.concat, self.join, self.what, self.how, kind, "zarr"
        )
        return cluster(self.dask, self.workers, recipe)

    def create(
        self, dataset: Dataset, target: Any, options: Mapping[str, Any], mark: Callable[[], Mark]
    ) -> DatasetSink:
        """Begin the output."""
        begun = None
        if self.resume and kind_of_target(target) == "zarr":
            from nczarr.convert.values.resume import state

            begun = state(target, mark(), self.target_options)
        return create_sink(
            target,
            dataset,
            # Without a record nothing tells what the unfinished dataset is.
            overwrite=self.overwrite or begun == "unknown",
            durable=self.durable,
            storage_options=self.target_options,
            resume=self.resume and begun != "unknown",
            **options,
        )

    def fill(
        self,
        dataset: Dataset,
        sink: DatasetSink,
        target: Any,
        mark: Callable[[], Mark] | None = None,
        reading: Mapping[str, Any] | None = None,
        spread: Cluster | None = None,
        unchanged: Callable[[], None] = lambda: None,
    ) -> None:
        """Move the values, and make the output visible.

        After an error nothing of it is left; after an interrupt, if it was asked for, what is finished is.
        """
        record = None
        try:
            work = _without_fill(_work(dataset, sink, reading or {}), sink)
            total = sum(data_bytes(data) for _, _, data in work)
            _refuse_memory(work, sink, self.memory)
            if (
                mark is not None
                and isinstance(sink, StoredDataset)
                and sink.resumable
                and (self.resume or total >= _RECORDED)
            ):
                from nczarr.convert.values.resume import Recording

                record = Recording(sink, dataset, mark())
            self.progress.start(total)
            if not getattr(sink, "pulls", False):
                # What is in memory has no chunks: none that could stay as they are, nor such as it is best read by.
                in_memory = all(type(data) is MemorySource for _, _, data in work)
                if isinstance(sink, StoredDataset) and not (self.resume or spread or in_memory):
                    from nczarr.convert.values.raw import copy_stored

                    work = copy_stored(work, sink, self.progress, self.workers)
                out: DatasetSink = sink if record is None else record

                def remaining(blocks: Iterable[Block]) -> Iterable[Block]:
                    return blocks if record is None else record.remaining(blocks, self.progress)

                if spread is None:
                    if not in_memory:
                        work = rechunk(work, out, target, self.progress, self.workers, self.memory, remaining)
                    limit = min(BLOCK_BYTES, self.memory // (2 * (self.workers + 1)))
                    blocks = remaining(blocks_of(work, out, limit))
                    transfer(blocks, out, self.progress, self.workers, self.memory)
                else:
                    self.spread(work, out, sink, target, spread, remaining, record)
            unchanged()
            (sink if record is None else record).commit()
        except BaseException as error:
            # What the store refused today it may take tomorrow; other errors would come again.
            writing = spread is not None and spread.may_write
            keeps = writing or (self.resume and record is not None and not _is_final(error))
            if keeps and isinstance(sink, StoredDataset) and sink.resumable:
                if record is not None:
                    with suppress(NCZarrError):
                        record.manifest.keep()
                sink.suspend()
                error.add_note(_STILL_WRITING if writing else _KEPT)
            else:
                if record is not None:
                    record.manifest.close()
                _abort(sink, error)
                if writing:
                    error.add_note(_BESIDE)
            raise
        finally:
            self.progress.finish()

    def spread(
        self,
        work: Sequence[Work],
        out: DatasetSink,
        sink: DatasetSink,
        target: Any,
        cluster: Cluster,
        remaining: Callable[[Iterable[Block]], Iterable[Block]],
        record: Recording | None,
    ) -> None:
        """Move the values on the workers of a cluster."""
        from nczarr.mapping import DetachedDataset

        assert isinstance(sink, StoredDataset)
        there = DetachedDataset.of(sink, target, self.target_options)
        note = record.note if record is not None else None

        def elsewhere(
            blocks: Iterable[Block],
            between: DetachedDataset | None,
            into: DetachedDataset | None,
            progress: Progress,
        ) -> None:
            done = note if into is None else None
            cluster.transfer(
                blocks, into or there, progress, self.memory, raw=False, done=done, between=between
            )

        # Beside a target that they reach workers reach an intermediate, too.
        shared = cluster.local or local_path(target) is not None
        work = rechunk(
            work,
            out,
            target,
            self.progress,
            cluster.threads,
            self.memory * cluster.shares,
            remaining,
            elsewhere if shared else None,
        )
        limit = min(cluster.block_limit(self.memory), BLOCK_BYTES, self.memory // (2 * (self.workers + 1)))
        blocks = remaining(blocks_of(work, out, limit))
        cluster.transfer(blocks, there, self.progress, self.memory, raw=not self.resume, done=note)


def _watched(sources: Sequence[Any]) -> Callable[[], None]:
    """Return what raises an error if one of the local files has changed since."""
    states = [None if isinstance(source, Dataset) else state_of_file(source) for source in sources]

    def unchanged() -> None:
        for source, before in zip(sources, states, strict=True):
            if before is not None and before != state_of_file(source):
                raise NCZarrError("the file has changed while it was copied", path=str(source))

    return unchanged


def _is_final(error: BaseException) -> bool:
    """True if going on with the copy would end in the same error."""
    return isinstance(error, NCZarrError) and not isinstance(error, StoreError)


def _refuse_same(source: Any, target: Any) -> None:
    if same_place(source, target):
        raise UnsupportedError(
            "the source and the target are the same, or one is inside the other", path=str(target)
        )


def _targets(sources: Sequence[Any], target: Any) -> list[Any]:
    """The target of each source: its own name in a folder, where the target is one."""
    if len(sources) > 1 and not is_folder(target):
        raise UnsupportedError(
            f"{len(sources)} sources and one target",
            path=str(target),
            hint="--concat joins them; a directory, or a name with / at its end, takes each for itself",
        )
    targets = [inside_folder(one, target) for one in sources]
    twins = {str(path) for i, path in enumerate(targets) if path in targets[:i]}
    if twins:
        raise UnsupportedError("two sources would have this name", path=min(twins))
    return targets


def listed(value: str | Sequence[str]) -> tuple[str, ...]:
    """Return names as a tuple; text is cut at commas.

    Examples
    --------
    >>> listed("a,b"), listed(["a"])
    (('a', 'b'), ('a',))
    """
    return tuple(part for part in value.split(",") if part) if isinstance(value, str) else tuple(value)


def _beyond(dataset: Dataset, lossy: bool, where: str | None) -> tuple[str, ...]:
    """Refuse, or list, what arrays hold beyond their dimensions: other programs append so."""
    found = []
    for fqn, variable in dataset.all_variables.items():
        stored = getattr(variable.data, "stored_shape", None)
        said = dataset.shape(variable)
        if stored is not None and any(n > m for n, m in zip(stored, said, strict=True)):
            found.append(
                f"{fqn}: the array has the shape {stored}, the dimensions say {said}; "
                "another program has made it longer"
            )
    if found and not lossy:
        raise LossError(
            f"values beyond the dimensions would be lost: {found[0]}",
            path=where,
            hint="--lossy, in Python lossy=True, leaves them out",
        )
    return tuple(found)


def _left_out(dataset: Dataset, lossy: bool, where: str | None) -> tuple[str, ...]:
    """Refuse, or list, what a source holds that the model has no place for, and what it lists and has not."""
    lost = (*dataset.left_out, *dataset.gone)
    if lost and not lossy:
        raise LossError(
            f"something that nczarr cannot read would be lost: {lost[0]}",
            path=where,
            hint="-v copies the variables that it names; --lossy, in Python lossy=True, all but this",
        )
    return lost


def _abort(sink: DatasetSink, error: BaseException) -> None:
    """Remove what was written; note in the error if that could not be done."""
    try:
        sink.abort()
    except NCZarrError as problem:
        error.add_note(str(problem))
    except BaseException:
        error.add_note("what was written may still be there; nczarr clean TARGET removes it")
        raise


def _bytes_of(dataset: Dataset) -> int:
    return sum(data_bytes(v.data) for v in dataset.all_variables.values() if v.data is not None)


def _with_digest(dataset: Dataset, progress: Progress) -> Dataset:
    from nczarr.convert.verify.digests import ATTRIBUTE, digest_of, without_digest

    own = Attribute.of(ATTRIBUTE, digest_of(dataset, progress).dataset)
    return replace_fields(dataset, attributes=(*without_digest(dataset).attributes, own))


def _has_digest(path: Any) -> bool:
    """True if a stored digest has to go when something is appended."""
    from nczarr.convert.verify.digests import ATTRIBUTE

    with open_source(path) as dataset:
        return ATTRIBUTE in dataset.attribute


def _work(
    dataset: Dataset, sink: DatasetSink, reading: Mapping[str, Any] = MappingProxyType({})
) -> list[Work]:
    """The variables whose values are moved, with the chunks in which they are read."""
    held = getattr(sink, "dataset", dataset).all_variables  # a lossy layout may have dropped some
    work: list[Work] = []
    for fqn, v in dataset.all_variables.items():
        if v.data is not None and fqn in held:
            data, chunks = v.data, reading.get(fqn, v.storage.chunk_shape)
            if chunks != v.storage.chunk_shape:
                v = replace_fields(v, storage=replace_fields(v.storage, chunk_shape=chunks))
            work.append((fqn, v, data))
    return work


def _without_fill(work: Sequence[Work], sink: DatasetSink) -> list[Work]:
    """Leave out what a new Zarr dataset says already: elements that CDL text leaves out have the fill value.

    The text of a large array may have few values or none, and its other chunks are neither made nor compared.
    """
    kept: list[Work] = []
    for fqn, variable, data in work:
        corner = getattr(data, "beginning_shape", None)
        if corner and isinstance(sink, StoredDataset) and _is_unwritten(sink, fqn, data):
            whole = zip(corner, sink.write_shape(fqn), data.shape, strict=True)
            corner = tuple(min(-(-end // block) * block, size) for end, block, size in whole)
            if math.prod(corner):
                kept.append((fqn, variable, CornerSource(data, corner)))
        else:
            kept.append((fqn, variable, data))
    return kept


def _is_unwritten(sink: StoredDataset, fqn: str, data: Any) -> bool:
    """True if an element that was never written reads as the value of a source outside of its corner."""
    if math.prod(data.shape) < _MANY_VALUES:
        return False
    last = tuple(slice(n - 1, n, 1) for n in data.shape)
    there, given = sink.data(fqn).read(last), data.read(last)
    if data.dtype.hasobject:
        return isinstance(there.item(), str) and there.item() == given.item()
    return bool(there.tobytes() == given.tobytes())


def _refuse_memory(work: Sequence[Work], sink: DatasetSink, memory: int) -> None:
    if getattr(sink, "pulls", False):
        return
    for fqn, _, data in work:
        block = zip(sink.write_shape(fqn), data.shape, strict=True)
        size = math.prod(min(w, n) for w, n in block) * value_bytes(data.dtype)
        if 2 * size > memory:
            raise UnsupportedError(
                f"one chunk or shard takes {size} bytes, which --memory ({memory} bytes) cannot hold twice",
                fqn=fqn,
                hint="smaller --chunks or --shards, or more --memory",
            )

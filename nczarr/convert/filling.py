"""Copy the values of a dataset into its output, and complete or remove the output."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from nczarr import transfer
from nczarr.convert.request import CopyRequest
from nczarr.convert.values.dasked import is_chunked, place_of, store_chunked
from nczarr.convert.values.raw import copy_stored
from nczarr.convert.values.rechunk import block_limit, read_shape, rechunk
from nczarr.convert.values.resume import Recording, SourceFingerprint
from nczarr.errors import LostWorkersError, NCZarrError, StoreError, UnsupportedError
from nczarr.formats import local_path
from nczarr.mapping import DetachedDataset, StoredDataset
from nczarr.model import CornerSource, Dataset, DatasetSink, MemorySource
from nczarr.options import named
from nczarr.stores.remote.icechunk_forks import merge_fork
from nczarr.transfer import Block, Progress, Work, data_bytes, value_bytes

if TYPE_CHECKING:
    from nczarr.convert.cluster import Cluster

#: Size in bytes below which a copy is not recorded: starting again takes less time than resuming.
_RECORDED = 64 << 20
#: Number of values below which writing fill values takes less time than comparing them.
_MANY_VALUES = 1 << 20
#: Notes of errors, where ``{}`` is the option that resumes.
_KEPT = "the finished part is kept; the same command with {} continues"
_REMOVED = "the finished part is removed; a copy with {} keeps it, and the same command continues"
_STILL_WRITING = (
    "workers may still write, so the output stays, marked as unfinished; when they have ended, the same command with "
    "{} continues, and nczarr clean TARGET removes the output"
)
_BESIDE = (
    "the dataset to replace stays; workers may still write beside it, and nczarr clean TARGET removes their output "
    "when they have ended"
)


def refuse_memory(
    fqn: str, block: tuple[int, ...], shape: tuple[int, ...], dtype: np.dtype, memory: int
) -> None:
    """Raise :class:`UnsupportedError` if a copy cannot hold one chunk or shard of the output twice."""
    size = math.prod(map(min, block, shape)) * value_bytes(dtype)
    # A chunk is in memory as values and encoded.
    if 2 * size > memory:
        raise UnsupportedError(
            f"one chunk or shard takes {size} bytes, which {named('memory')} ({memory} bytes) cannot hold twice",
            fqn=fqn,
            hint=f"smaller {named('chunks')} or {named('shards')}, or more {named('memory')}",
        )


@dataclass
class FillTask:
    """Copies the values of a dataset into its sink, and commits it.

    Parameters
    ----------
    source : Dataset
        The dataset with the chunks and filters of the source; by default those of `dataset`.
    fingerprint : callable, optional
        Computes the fingerprint of the copy; None: the copy cannot be resumed.
    cluster : Cluster, optional
        The cluster that copies the values.
    refuse_changes : callable
        Raises an error if a source has changed.
    """

    request: CopyRequest
    dataset: Dataset
    sink: DatasetSink
    source: Dataset | None = None
    fingerprint: Callable[[], SourceFingerprint] | None = None
    cluster: Cluster | None = None
    refuse_changes: Callable[[], None] = lambda: None
    _record: Recording | None = None

    def run(self) -> None:
        """Copy all values and commit.

        After an error, the output is removed; after an interrupt with `resume`, the finished part stays.
        """
        sink = self.sink
        try:
            work = [one for variable in self._work() if (one := self._without_fill(variable)) is not None]
            total = sum(data_bytes(data) for _, _, data in work)
            pulls = getattr(sink, "pulls", False)
            # CDL text is written value by value, and needs no block in memory.
            if not pulls:
                for fqn, _, data in work:
                    refuse_memory(
                        fqn, sink.write_shape(fqn), data.shape, data.dtype, self.request.effort.memory
                    )
            is_recorded = self.request.trust.resume or total >= _RECORDED
            if self.fingerprint and is_recorded and isinstance(sink, StoredDataset) and sink.resumable:
                self._record = Recording(sink, self.dataset, self.fingerprint())
            with transfer.reporting(self.request.effort.progress, total):
                if not pulls:
                    self._copy(work)
                # A file that grew during the copy is half old and half new in the output.
                self.refuse_changes()
                (self._record or sink).commit()
        except BaseException as error:
            self._end(error)
            raise

    def _work(self) -> list[Work]:
        """Return the variables to copy, stored as in the source."""
        stored = getattr(self.sink, "dataset", self.dataset).all_variables  # a lossy layout may omit some
        sources = (self.source or self.dataset).all_variables
        found = [(fqn, v.data) for fqn, v in self.dataset.all_variables.items() if fqn in stored]
        return [(fqn, sources[fqn], data) for fqn, data in found if data is not None]

    def _without_fill(self, one: Work) -> Work | None:
        """Omit the values that CDL text omits, if they equal the fill values of a new Zarr dataset.

        The text of a large array may have few values or none. The other chunks are neither built nor compared.
        """
        fqn, variable, data = one
        corner = getattr(data, "beginning_shape", None)
        # Only a new Zarr dataset reads as fill values where nothing is written.
        if not corner or not isinstance(self.sink, StoredDataset) or math.prod(data.shape) < _MANY_VALUES:
            return one
        last = tuple(slice(n - 1, n, 1) for n in data.shape)
        unwritten, omitted = self.sink.data(fqn).read(last), data.read(last)
        # The bytes of objects are their addresses.
        if data.dtype.hasobject:
            same = isinstance(unwritten.item(), str) and unwritten.item() == omitted.item()
        else:
            same = unwritten.tobytes() == omitted.tobytes()
        if not same:
            return one
        whole = zip(corner, self.sink.write_shape(fqn), data.shape, strict=True)
        corner = tuple(min(-(-end // block) * block, size) for end, block, size in whole)
        return (fqn, variable, CornerSource(data, corner)) if math.prod(corner) else None

    def _copy(self, work: list[Work]) -> None:
        """Copy the values undecoded where possible, through an intermediate array where better, else block by block."""
        request, workers, memory = self.request, self.request.effort.workers, self.request.effort.memory
        out: DatasetSink = self._record or self.sink
        work = self._without_chunked(work)
        if self.cluster is not None:
            self._copy_on_cluster(self.cluster, work, out)
            return
        # Values in memory have no chunks, neither to copy undecoded nor to rechunk.
        if not all(type(data) is MemorySource for _, _, data in work):
            # The record of a copy that can be resumed has checksums of values, which undecoded chunks do
            # not give.
            if isinstance(self.sink, StoredDataset) and not request.trust.resume:
                work = copy_stored(work, self.sink, request)
            work = rechunk(work, out, request, self._remaining)

        def blocks() -> Iterator[Block]:
            for fqn, variable, data in work:
                chunk = math.prod(read_shape(variable, data) or (0,)) * value_bytes(data.dtype)
                limit = min(max(transfer.BLOCK_BYTES, chunk), block_limit(chunk, workers, memory))
                yield from transfer.blocks_of([(fqn, variable, data)], out, limit)

        transfer.transfer(self._remaining(blocks()), out, request.effort.progress, workers, memory)

    def _without_chunked(self, work: list[Work]) -> list[Work]:
        """Store the Dask arrays of xarray, task by task; return the other variables."""
        chunked = [one for one in work if is_chunked(one)]
        if not chunked:
            return work
        place, elsewhere = place_of(self.sink, self.request.target, self.request.access.target_options)
        blocks = {fqn: self.sink.write_shape(fqn) for fqn, _, _ in chunked}
        store_chunked(chunked, place, blocks, elsewhere=elsewhere, concurrent=self.sink.concurrent)
        for fqn, _, data in chunked:
            self.request.effort.progress.advance(data_bytes(data), fqn)
        return [one for one in work if not is_chunked(one)]

    def _remaining(self, blocks: Iterable[Block]) -> Iterable[Block]:
        return blocks if self._record is None else self._record.remaining(blocks)

    def _copy_on_cluster(self, cluster: Cluster, work: list[Work], out: DatasetSink) -> None:
        assert isinstance(self.sink, StoredDataset)
        request = self.request
        effort = request.effort
        detached = DetachedDataset.of(self.sink, request.target, request.access.target_options, merges=True)
        merge = partial(merge_fork, self.sink.store)
        done = self._record.manifest.add if self._record is not None else None
        task_bytes = cluster.task_bytes(sum(data_bytes(data) for _, _, data in work))

        def elsewhere(
            blocks: Iterable[Block],
            between: DetachedDataset | None,
            into: DetachedDataset | None,
            progress: Progress,
        ) -> None:
            report = done if into is None else None
            cluster.transfer(
                blocks,
                into or detached,
                progress,
                task_bytes=task_bytes,
                raw=False,
                done=report,
                merge=merge,
                between=between,
            )

        # Workers that can open a local target can also open an intermediate dataset beside it.
        engine = cluster.engine
        is_shared = engine.local or local_path(request.target) is not None
        shared = request.with_effort(workers=engine.threads, memory=engine.memory)
        work = rechunk(work, out, shared, self._remaining, elsewhere if is_shared else None)
        limit = min(
            transfer.BLOCK_BYTES,
            engine.block_limit,
            block_limit(0, effort.workers, effort.memory),
        )
        blocks = self._remaining(transfer.blocks_of(work, out, limit))
        cluster.transfer(
            blocks,
            detached,
            request.effort.progress,
            task_bytes=task_bytes,
            raw=not request.trust.resume,
            done=done,
            merge=merge,
        )

    def _end(self, error: BaseException) -> None:
        """Suspend or remove the output after an error."""
        sink, record = self.sink, self._record
        may_write = self.cluster is not None and self.cluster.engine.may_write
        # A store may recover from its errors, and workers may return; other errors of nczarr would occur again.
        is_final = isinstance(error, NCZarrError) and not isinstance(error, StoreError | LostWorkersError)
        keeps = may_write or (self.request.trust.resume and record is not None and not is_final)
        if keeps and isinstance(sink, StoredDataset) and sink.resumable:
            if record is not None:
                # An error of the record must not hide that of the copy.
                with suppress(NCZarrError):
                    record.manifest.keep()
            sink.suspend()
            error.add_note((_STILL_WRITING if may_write else _KEPT).format(named("resume", True)))
            return
        if record is not None:
            record.manifest.close()
            # After an interrupt, a user may want the part that is lost now.
            if not isinstance(error, Exception) or isinstance(error, LostWorkersError):
                error.add_note(_REMOVED.format(named("resume", True)))
        try:
            sink.abort()
        # The first error says why the copy ended. A second one would hide it.
        except NCZarrError as problem:
            error.add_note(str(problem))
        except BaseException:
            error.add_note("the output may still exist; nczarr clean TARGET removes it")
            raise
        if may_write:
            error.add_note(_BESIDE)

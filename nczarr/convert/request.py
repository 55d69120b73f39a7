"""Define the request of a copy: its target, its options, and its sources, which workers open too."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from nczarr.convert.change.nodes import Subset
from nczarr.convert.change.selecting import select_in_all
from nczarr.convert.change.shaping import OutputOptions, parse_bytes
from nczarr.convert.endpoints import Hook, name_of, open_processed
from nczarr.convert.many.fit import Fitting
from nczarr.convert.report import Report
from nczarr.errors import LossError, NCZarrError, UnsupportedError, error_context
from nczarr.formats import state_of_file
from nczarr.model import Dataset
from nczarr.transfer import NoProgress, Progress

if TYPE_CHECKING:
    from nczarr.convert.engine import Engine

#: Size and modification time of each local file; None for other sources.
FileStates = tuple[tuple[int, int] | None, ...]


@dataclass(frozen=True)
class Request:
    """The target and the options of a copy, apart from its sources; see :func:`nczarr.copy`.

    Parameters
    ----------
    format_options : mapping
        Options of the format of the target; see :func:`nczarr.convert.create_sink`.
    storage_options : mapping or None
        Options of the file system of the target.
    memory : int
        Maximum size of the values in memory, in bytes.
    """

    target: object
    output: OutputOptions
    format_options: Mapping[str, Any]
    storage_options: Mapping[str, object] | None
    overwrite: bool
    durable: bool | None
    resume: bool
    verify: bool
    digest: bool
    dry_run: bool
    report: Report | None
    progress: Progress
    workers: int
    memory: int
    dask: object
    executor: object
    record_sources: bool

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Request:
        """Return the request of the arguments of :func:`nczarr.copy`, by name."""
        own = {
            **given,
            "output": OutputOptions.of(**given),
            "format_options": given["options"],
            "storage_options": given["target_options"],
            "progress": given["progress"] or NoProgress(),
            "workers": given["workers"] or min(8, os.cpu_count() or 1),
            "memory": parse_bytes(given["memory"]),
        }
        return cls(**{field.name: own[field.name] for field in fields(cls)})

    def to(self, target: object) -> Request:
        """Return the request with another target."""
        return replace(self, target=target)

    @property
    def lossy(self) -> bool:
        """Omit parts that cannot be copied."""
        return bool(self.format_options.get("lossy"))

    @property
    def readings(self) -> int:
        """Number of times that all values are read: for the digest, for the copy, for the verification."""
        return 1 + self.digest + self.verify

    def refuse_with(self, option: str, *allowed: str) -> None:
        """Refuse the options that another option would ignore."""
        for name in ("dry_run", "resume", "verify", "digest", "overwrite", "dask", "executor"):
            if getattr(self, name) not in (False, None) and name not in allowed:
                raise UnsupportedError(f"{option} cannot be combined with --{name.replace('_', '-')}")


@dataclass(frozen=True)
class Sources:
    """The sources of one dataset, and the requested part of it.

    Parameters
    ----------
    concat : str or None
        The dimension along which the sources are joined.
    merge : bool
        The sources, or those joined, have different variables of one dataset.
    fitting : Fitting
        How sources that differ are joined.
    hook : callable or None
        Changes the model of each source.
    """

    paths: tuple[object, ...]
    options: Mapping[str, object] | None
    subset: Subset
    concat: str | None = None
    fitting: Fitting = field(default_factory=Fitting)
    hook: Hook | None = None
    merge: bool = False

    @property
    def are_joined(self) -> bool:
        """The dataset may have several sources."""
        return self.concat is not None or self.merge

    def __str__(self) -> str:
        more = len(self.paths) - 1
        return f"{name_of(self.paths[0])}{f' and {more} more' if more else ''}"

    def each(self) -> list[Sources]:
        """Return each source on its own."""
        return [replace(self, paths=(path,)) for path in self.paths]

    def states(self) -> FileStates:
        """Return the current state of each local file."""
        return tuple(None if isinstance(s, Dataset) else state_of_file(s) for s in self.paths)

    def refuse_changes(self, states: FileStates) -> None:
        """Raise an error if a local file no longer has a state that :meth:`states` returned."""
        for source, before, now in zip(self.paths, states, self.states(), strict=True):
            if before is not None and before != now:
                raise NCZarrError("the file has changed while it was copied", path=str(source))

    @contextmanager
    def open(
        self, *, fresh: bool = True, cut: bool = False, engine: Engine | None = None
    ) -> Iterator[Dataset]:
        """Open the sources as one dataset; see :func:`open_source`.

        Parameters
        ----------
        cut : bool
            Take the requested part of the dimensions of each source before joining them.
        engine : Engine, optional
            Its workers read the headers of the sources to join.
        """
        if not self.are_joined:
            with open_processed(self.paths[0], self.options, self.hook, fresh=fresh) as opened:
                yield opened
            return
        from nczarr.convert.many.joining import join

        # Merging needs all names; what is excluded or not selected has no conflicts.
        early = Subset(exclude=self.subset.exclude) if self.merge else self.subset

        def chosen(datasets: Sequence[Dataset]) -> list[Dataset]:
            nodes = early.nodes_of_all(datasets)
            if not cut:
                return nodes
            return selected(nodes) if self.merge else [self.subset.cut(part) for part in nodes]

        def selected(datasets: Sequence[Dataset]) -> list[Dataset]:
            return select_in_all(datasets, self.subset.selection)

        with join(
            self.paths,
            self.concat,
            fitting=self.fitting,
            storage_options=self.options,
            choose=chosen,
            merge=(list if cut else selected) if self.merge else None,
            hook=self.hook,
            engine=engine,
        ) as joined:
            yield joined

    def part(self, opened: Dataset) -> Dataset:
        """Return the requested part of the opened dataset; joining and merging have done a part of this already."""
        subset = replace(self.subset, exclude=(), selection={}) if self.merge else self.subset
        return subset.cut(opened if self.concat is not None and not self.merge else subset.nodes(opened))

    @contextmanager
    def open_part(self, lossy: bool) -> Iterator[Dataset]:
        """Open the requested part of the sources; the sources to join are cut first."""
        name = name_of(self.paths[0])
        with self.open(cut=True) as opened:
            with error_context(name):
                part = opened if self.concat is not None and not self.merge else self.part(opened)
            refuse_unreadable(part, lossy, name)
            yield part


def refuse_unreadable(dataset: Dataset, lossy: bool, where: str | None) -> tuple[str, ...]:
    """Refuse or list the parts of a source that nczarr cannot read."""
    lost = (*dataset.left_out, *dataset.gone)
    if lost and not lossy:
        raise LossError(
            f"something that nczarr cannot read would be lost: {'; '.join(lost)}",
            path=where,
            hint="-v copies named variables; --lossy, in Python lossy=True, copies everything else",
        )
    return lost

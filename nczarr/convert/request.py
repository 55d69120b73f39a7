"""Define the request of a copy, a join or an append: dataclasses of options, made once from the call's keywords."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, TypeVar

from nczarr.convert.change.nodes import Subset
from nczarr.convert.change.selecting import parse_range, select_in_all
from nczarr.convert.change.shaping import OutputOptions, parse_bytes
from nczarr.convert.endpoints import Hook, TargetFormat, name_of, named_function, open_processed
from nczarr.convert.many.fit import Fitting
from nczarr.convert.report import Report
from nczarr.errors import LossError, NCZarrError, UnsupportedError, error_context
from nczarr.formats import state_of_file
from nczarr.mapping.options import FormatOptions
from nczarr.model import Dataset
from nczarr.model.typed import list_names
from nczarr.options import NEW, Option, Take, named, option, options_of, verb_named
from nczarr.targets import allowing
from nczarr.text import did_you_mean
from nczarr.transfer import MEMORY, NoProgress, Progress

if TYPE_CHECKING:
    import typing_extensions
    from obstore.store import ObjectStore

    from nczarr.convert.engine import Engine
    from nczarr.stores import Store

    # An overload for the module xarray would make each mistake a message of both whole signatures (4,260 characters).
    Copied = typing_extensions.TypeVar("Copied", default=tuple[str, ...], covariant=True)

    class ZarrPythonStore(Protocol):
        """The part of a store of zarr-python that a type checker compares."""

        @property
        def supports_writes(self) -> bool:
            """True if keys can be written."""

    class TreeModule(Protocol[Copied]):
        """The module xarray as a target: the copy is returned as its tree."""

        @property
        def DataTree(self) -> type[Copied]:
            """The class of the result."""

    CopyTarget = str | os.PathLike[str] | Mapping[Any, Any] | Store | ZarrPythonStore | ObjectStore

Verb = Literal["copy", "join", "append"]
Names = str | Sequence[str]
#: Size and modification time of each local file; None for other sources.
FileStates = tuple[tuple[int, int] | None, ...]
_T = TypeVar("_T")
#: One object, so that requests without a progress are equal.
_SILENT = NoProgress()


# --- the parts of a request


@dataclass(frozen=True)
class Combination:
    """How several sources make one dataset: along a dimension, side by side, or behind an existing dataset."""

    along: str | None = option(
        None,
        "the dimension along which the sources are joined, or a new dimension of this name (default: time; "
        "append: the unlimited dimension)",
        metavar="DIM",
        verbs=("join", "append"),
        usual=True,
        planned=True,
    )
    merge: bool = option(
        False,
        "join the different variables of the sources side by side, after the steps of each variable",
        Take.FLAG,
        verbs=("join", "append"),
        usual=True,
        planned=True,
    )
    replace: bool = option(False, "overwrite existing steps", Take.FLAG, verbs=("append",), usual=True)
    region: Mapping[str, object] = option(
        dict,
        "write into this part of an existing dimension, by index, beside other writers: time=8:16",
        Take.RANGES,
        "DIM=START:STOP",
        verbs=("append",),
        usual=True,
    )

    @property
    def place(self) -> Mapping[str, slice]:
        """The region.

        Raises
        ------
        UnsupportedError
            If it is not one range of indices.
        """
        found = {n: part for n, part in self.region.items() if isinstance(part, slice) and _has_indices(part)}
        if len(found) != len(self.region) or len(found) > 1:
            raise UnsupportedError(
                f"{named('region', self.region)}: not a range of indices along one dimension",
                hint=named("region", {"time": "8:16"}),
            )
        return found


def _has_indices(part: slice) -> bool:
    return part.step in (None, 1) and all(isinstance(end, int | None) for end in (part.start, part.stop))


@dataclass(frozen=True)
class Trust:
    """How a copy treats an existing target, an interrupt, a power failure, and doubts about the result."""

    overwrite: bool = option(False, "replace an existing dataset", Take.FLAG, verbs=NEW, usual=True)
    verify: bool = option(
        False,
        "read source and target again after the copy, and compare them; append: what was added",
        Take.FLAG,
        verbs=("copy", "join", "append"),
        usual=True,
    )
    resume: bool = option(
        False,
        "continue an interrupted copy, and keep the partial output of an interrupt; compare a finished copy",
        Take.FLAG,
        verbs=("copy", "join"),
        usual=True,
    )
    dry_run: bool = option(
        False, "print the plan, and write nothing", Take.FLAG, verbs=("copy", "join"), usual=True
    )
    plan: str | os.PathLike[str] | None = option(
        None,
        "take all choices from this plan (TOML); with --dry-run, write it if it does not exist",
        metavar="FILE",
        verbs=("copy", "join"),
    )
    digest: bool = option(
        False, "store the digest as the attribute nczarr_sha256", Take.FLAG, verbs=("copy", "join")
    )
    record_sources: bool = option(
        False,
        "Zarr: record name, size, digest and steps of the sources; append then skips those that are there",
        Take.FLAG,
        planned=True,
    )
    durable: bool = option(
        True,
        "sync the output to disk before the command ends, so that it survives a power failure (default: on local "
        "disks)",
        Take.SWITCH,
        verbs=("copy", "join", "append", "gen"),
    )
    virtual: bool = option(
        False,
        "write references to the chunks of netCDF files: TARGET is NAME.json, .parquet or .icechunk",
        Take.FLAG,
        verbs=("copy", "join"),
    )

    @property
    def readings(self) -> int:
        """Number of times that all values are read: for the digest, for the copy, for the verification."""
        return 1 + self.digest + self.verify


@dataclass(frozen=True)
class Effort:
    """The memory and the workers of a copy, and how it reports."""

    memory: int = option(
        MEMORY,
        "maximum size of the values in memory (default: 512MiB)",
        Take.SIZE,
        "SIZE",
        verbs=("copy", "join", "append", "gen"),
    )
    workers: int = option(
        lambda: min(8, os.cpu_count() or 1),
        "number of writer threads, or of processes (default: number of processors)",
        Take.COUNT,
        "N",
        verbs=("copy", "join", "append", "gen", "scan"),
    )
    dask: object = option(
        None,
        "distribute the work over the Dask cluster at this address; local: --workers processes on this machine",
        metavar="ADDRESS",
        verbs=("copy", "join", "gen", "scan"),
    )
    executor: object = option(
        None,
        "distribute the work over an executor of concurrent.futures, which this function returns: "
        "mpi4py.futures:MPIPoolExecutor; processes: --workers processes on this machine",
        metavar="MODULE:FUNCTION",
        verbs=("copy", "join", "gen", "scan"),
    )
    progress: Progress = option(_SILENT, "receives the progress", Take.OBJECT)
    report: Report | None = option(None, "receives the results", Take.OBJECT)


@dataclass(frozen=True)
class Access:
    """How sources and target are reached and opened."""

    source_options: Mapping[str, object] | None = option(None, "options of the sources", Take.OBJECT)
    target_options: Mapping[str, object] | None = option(None, "options of the target", Take.OBJECT)
    allow: str | Sequence[str] = option((), "places of the files of references", Take.OBJECT)
    wait: float = option(
        0,
        "wait for other writers of the target (default: 0)",
        Take.SECONDS,
        "SECONDS",
        verbs=("append",),
        usual=True,
    )
    preprocess: str | Hook | None = option(
        None,
        "a Python function that changes the model of each source: gets and returns a nczarr.model.Dataset",
        metavar="MODULE:FUNCTION",
        planned=True,
    )


#: The dataclasses of all options, by their titles in the help.
PARTS: dict[str, type] = {
    "several sources": Combination,
    "subset (patterns: /ocean/t* matches full names, t* matches names in all groups)": Subset,
    "storage": OutputOptions,
    "format of the target": TargetFormat,
    "sources that differ": Fitting,
    "trust": Trust,
    "workers and memory": Effort,
    "sources": Access,
}


@dataclass(frozen=True)
class Forbidden:
    """An option with which others are refused, and the reason."""

    option: str
    others: tuple[str, ...]
    reason: str


_STORED = tuple(each.name for part in (OutputOptions, TargetFormat) for each, _ in options_of(part))
#: The pairs of options that no call and no command takes.
FORBIDDEN = (
    Forbidden("virtual", _STORED, "references keep the chunks and codecs of the files"),
    Forbidden("virtual", ("record_sources",), "references have no place for the record"),
    Forbidden("virtual", ("preprocess",), "references give the bytes of the files"),
    Forbidden("virtual", ("dry_run", "resume", "verify", "digest"), "it copies no values"),
    Forbidden("virtual", ("dask", "executor"), "it copies no values"),
    Forbidden(
        "plan", ("virtual",), "a plan chooses chunks and codecs, and references keep those of the files"
    ),
    Forbidden("executor", ("dask",), "one of them distributes the work"),
    Forbidden("template", ("digest", "verify", "resume"), "a template has no values yet"),
    Forbidden("region", ("replace", "along"), "it names the dimension and the place of the steps"),
)


# --- keywords


class _MoreOptions(TypedDict, total=False):
    only: Names
    groups: Names
    rename: Mapping[str, str] | None
    preprocess: str | Callable[[Any], Any] | None
    record_sources: bool
    durable: bool
    memory: int | str
    workers: int | None
    report: Report | None
    source_options: Mapping[str, object] | None
    target_options: Mapping[str, object] | None
    allow: Names


class _FittingOptions(TypedDict, total=False):
    repack: Literal["unpacked", "first", "common"] | None
    tolerance: Mapping[str, float] | None


class MoreCopyOptions(_MoreOptions, FormatOptions, total=False):
    """The options of :func:`nczarr.copy` beside the usual ones."""

    chunk_bytes: int | str | None
    checksum: bool
    portable: bool
    quantize: str | Sequence[str] | Mapping[str, str] | None
    fixed: bool
    unlimited: Names
    template: Mapping[str, int]
    digest: bool
    virtual: bool
    plan: str | os.PathLike[str] | None
    dask: object
    executor: object


class MoreJoinOptions(MoreCopyOptions, _FittingOptions, total=False):
    """The options of :func:`nczarr.join` beside the usual ones."""

    expect_step: str | None


class MoreAppendOptions(_MoreOptions, _FittingOptions, total=False):
    """The options of :func:`nczarr.append` beside the usual ones."""

    region: Mapping[str, object]
    verify: bool
    lossy: bool
    format: str | int
    wait: float


#: Old keywords and options of a copy, by the call that has taken their place.
_MOVED = {
    "concat": ("join", "along"),
    "merge": ("join", "merge"),
    "append": ("append", None),
    "replace": ("append", "replace"),
}


def moved(verb: str, name: str) -> str | None:
    """Return advice about a keyword that another verb has.

    Examples
    --------
    >>> moved("copy", "concat"), moved("copy", "append"), moved("append", "chunks")
    ('use nczarr.join(…, along=)', 'use nczarr.append', None)
    """
    homes = [v for v in ("join", "append") if v != verb and name in known_options(v)]
    home, own = _MOVED.get(name, (homes[0], name) if verb == "copy" and homes else ("", None))
    if own is not None and own in known_options(verb):
        return f"it is {named(own)}"
    if not home or home == verb:
        return None
    return f"use {verb_named(home, '' if own is None else named(own))}"


def known_options(verb: str) -> dict[str, Option]:
    """Return the options of a verb by name."""
    return {each.name: found for part in PARTS.values() for each, found in options_of(part, verb)}


def _part(part: type[_T], given: Mapping[str, Any]) -> _T:
    """Return the dataclass of those keywords that are its fields; None stands for the default."""
    found: dict[str, Any] = {}
    for each, described in options_of(part):
        value = given.get(each.name)
        if value is None:
            continue
        if described.take is Take.NAMES:
            value = list_names(value)
        elif described.take is Take.SIZE:
            value = parse_bytes(value)
        elif described.take is Take.COUNT and value < 1:
            raise UnsupportedError(f"{named(each.name, value)}: at least one is necessary")
        found[each.name] = value
    return part(**found)


@dataclass(frozen=True)
class CopyRequest:
    """The target and all options of a copy, a join or an append; see :func:`nczarr.copy`."""

    verb: Verb
    target: object
    combination: Combination
    subset: Subset
    output: OutputOptions
    form: TargetFormat
    fitting: Fitting
    trust: Trust
    effort: Effort
    access: Access
    #: The names of the options that the caller has given; None and False stand for options that are not given.
    given: frozenset[str] = frozenset()

    @classmethod
    def of(cls, verb: Verb, target: object, given: Mapping[str, Any]) -> CopyRequest:
        """Return the request of a call; this is the one place where keywords become options.

        Raises
        ------
        UnsupportedError
            If the verb has no such option, or two of them exclude each other.
        """
        known = known_options(verb)
        for name in given:
            if name not in known:
                hint = moved(verb, name) or did_you_mean(name, list(known))
                raise UnsupportedError(f"{verb} has no option {name}", hint=hint)
        request = cls(
            verb,
            target,
            _part(Combination, given),
            _part(Subset, given),
            _part(OutputOptions, given).with_rules(),
            _part(TargetFormat, given),
            _part(Fitting, given),
            _part(Trust, given),
            _part(Effort, given),
            _part(Access, given),
            frozenset(name for name, value in given.items() if value is not None and value is not False),
        )
        request.refuse_pairs()
        return request

    def _part_with(self, name: str) -> Any:
        own = (self.combination, self.subset, self.output, self.form, self.fitting, self.trust, self.effort,
               self.access)  # fmt: skip
        return next(part for part in own if name in type(part).__dataclass_fields__)

    def value(self, name: str) -> Any:
        """Return the value of an option."""
        return getattr(self._part_with(name), name)

    def is_given(self, name: str) -> bool:
        """True if an option differs from its default."""
        part = self._part_with(name)
        differs = getattr(part, name) != getattr(type(part)(), name)
        return bool(differs) or (part is self.output and name in self.output.rules)

    def going_on(self, recorded: Mapping[str, object]) -> CopyRequest:
        """Return the request of an append with the recorded options of the join, where the call gives no others.

        Raises
        ------
        UnsupportedError
            If the sources were preprocessed: a dataset must not name the code that runs.
        """
        known = known_options("append")
        found = {n: v for n, v in recorded.items() if n in known and not self._is_said(n)}
        # A dataset must not name code that runs at its next append.
        if (hook := found.pop("preprocess", None)) is not None:
            raise UnsupportedError(
                f"the dataset was joined with {named('preprocess', hook)}, which a dataset does not contain",
                path=name_of(self.target),
                hint=f"append with {named('preprocess')} too",
            )
        if "repack" in found:
            found["repack"] = "first"  # the target has the packing that the join has made
        # The record is JSON, which has no slices.
        if isinstance(ranges := found.get("select"), dict):
            found["select"] = {dimension: parse_range(str(text)) for dimension, text in ranges.items()}
        changed: dict[str, Any] = {}
        for each in fields(self):
            part = getattr(self, each.name)
            names = [n for n in found if n in getattr(type(part), "__dataclass_fields__", {})]
            if names:
                parsed = _part(type(part), {n: found[n] for n in names})
                changed[each.name] = replace(part, **{n: getattr(parsed, n) for n in names})
        return replace(self, **changed)

    def _is_said(self, name: str) -> bool:
        """True if the call gives a value of an option; an empty list says nothing."""
        return name in self.given and self.value(name) not in ((), {})

    def refuse_pairs(self) -> None:
        """Refuse the pairs of options that exclude each other."""
        for pair in FORBIDDEN:
            if self.is_given(pair.option):
                for other in pair.others:
                    if self.is_given(other):
                        raise UnsupportedError(
                            f"{named(pair.option)} cannot be combined with {named(other)}: {pair.reason}"
                        )

    def to(self, target: object) -> CopyRequest:
        """Return the request with another target."""
        return replace(self, target=target)

    def with_effort(self, **changes: Any) -> CopyRequest:
        """Return the request with other workers, memory or progress."""
        return replace(self, effort=replace(self.effort, **changes))

    @property
    def lossy(self) -> bool:
        """Omit parts that cannot be copied."""
        return self.form.lossy

    @property
    def source_options(self) -> dict[str, Any] | None:
        """Options of the file systems of the sources, with the allowed places."""
        return allowing(self.access.source_options, self.access.allow)

    @property
    def hook(self) -> Hook | None:
        """The function that changes the model of each source."""
        hook = self.access.preprocess
        return named_function(hook, "preprocess") if isinstance(hook, str) else hook


# --- sources


@dataclass(frozen=True)
class Sources:
    """The sources of one dataset, and the requested part of it.

    Parameters
    ----------
    along : str or None
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
    along: str | None = None
    fitting: Fitting = field(default_factory=Fitting)
    hook: Hook | None = None
    merge: bool = False

    @property
    def are_joined(self) -> bool:
        """The dataset may have several sources."""
        return self.along is not None or self.merge

    def __str__(self) -> str:
        more = len(self.paths) - 1
        return f"{name_of(self.paths[0])}{f' and {more} more' if more else ''}"

    def of(self, request: CopyRequest) -> Sources:
        """Return the same sources, as another request wants them."""
        return replace(
            self,
            subset=request.subset,
            along=request.combination.along,
            fitting=request.fitting,
            hook=request.hook,
            merge=request.combination.merge,
        )

    def each(self) -> list[Sources]:
        """Return each source on its own."""
        return [replace(self, paths=(path,)) for path in self.paths]

    def states(self) -> FileStates:
        """Return the current state of each local file."""
        return tuple(None if isinstance(s, Dataset) else state_of_file(s) for s in self.paths)

    def refuse_changes(self, states: FileStates) -> None:
        """Raise an error if a local file no longer has a state that :meth:`states` returned."""
        for source, before, now in zip(self.paths, states, self.states(), strict=True):
            # A source that changed meanwhile made a dataset of two states.
            if before is not None and before != now:
                raise NCZarrError(
                    "the file has changed while it was copied",
                    path=str(source),
                    hint="try again when it is complete",
                    reason="temporary",
                )

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

        def chosen(datasets: Sequence[Dataset]) -> Iterable[Dataset]:
            nodes = early.nodes_of_all(datasets)
            if not cut:
                return nodes
            return selected(list(nodes)) if self.merge else map(self.subset.cut, nodes)

        def selected(datasets: Sequence[Dataset]) -> list[Dataset]:
            return select_in_all(datasets, self.subset.select)

        with join(
            self.paths,
            self.along,
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
        subset = replace(self.subset, exclude=(), select={}) if self.merge else self.subset
        return subset.cut(opened if self.along is not None and not self.merge else subset.nodes(opened))

    @contextmanager
    def open_part(self, lossy: bool) -> Iterator[Dataset]:
        """Open the requested part of the sources; the sources to join are cut first."""
        name = name_of(self.paths[0])
        with self.open(cut=True) as opened:
            with error_context(name):
                part = opened if self.along is not None and not self.merge else self.part(opened)
            refuse_unreadable(part, lossy, name)
            yield part


def refuse_unreadable(dataset: Dataset, lossy: bool, where: str | None) -> tuple[str, ...]:
    """Refuse or list the parts of a source that nczarr cannot read."""
    # Copies lost such parts without a word once.
    lost = (*dataset.left_out, *dataset.gone)
    if lost and not lossy:
        raise LossError(
            f"something that nczarr cannot read would be lost: {'; '.join(lost)}",
            path=where,
            hint=f"{named('variables')} copies named variables; {named('lossy', True)} copies everything else",
        )
    return lost

"""Join datasets along an existing or a new dimension, with few of their files open at the same time."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from nczarr import model
from nczarr.convert.change.selecting import cut_source, find_dimension, has_name
from nczarr.convert.endpoints import Hook, call_all, name_of, open_processed
from nczarr.convert.many.adjusting import fitted, growing_variables, with_fill
from nczarr.convert.many.expected import missing_steps
from nczarr.convert.many.fit import Fitting
from nczarr.convert.many.merging import families, merged, united
from nczarr.convert.many.scan import SMALL, Header, Scanned, read_headers
from nczarr.convert.many.steps import refuse_disorder
from nczarr.errors import NCZarrError, UnsupportedError, error_context
from nczarr.formats import state_of_file
from nczarr.model import ArraySource, Attribute, Dataset, Dimension, Group, MemorySource, Region, Variable
from nczarr.model.nodes import IngestedSource
from nczarr.model.sources import ChangedSource, handed, region_shape
from nczarr.system.locks import Rank, make_lock
from nczarr.transfer import data_bytes

if TYPE_CHECKING:
    from nczarr.convert.engine import Engine
    from nczarr.netcdf.bytes.file import FilePlaces

#: Maximum number of open files.
_OPEN = 24
_G = TypeVar("_G", bound=Group)


class Files:
    """The sources of a joined dataset; those used last are open."""

    def __init__(
        self, sources: Sequence[object], options: Mapping[str, object] | None = None, hook: Hook | None = None
    ) -> None:
        self.sources = list(sources)
        self._options, self._hook = options, hook
        self._lock = make_lock(Rank.OWNER)
        self._open: OrderedDict[int, tuple[AbstractContextManager[Dataset], Dataset]] = OrderedDict()
        self._states = [
            s.scan.states[s.number] if isinstance(s, Scanned) else state_of_file(s) for s in self.sources
        ]
        self._known: dict[object, np.ndarray] = {}
        self._attributes: dict[object, Attribute] = {}

    def __getstate__(self) -> dict[str, object]:
        """Return the state for another process, which opens the files that it reads."""
        return self.__dict__ | {"_lock": None, "_open": OrderedDict(), "_known": {}, "_attributes": {}}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _lock=make_lock(Rank.OWNER))

    def headers(self, along: str | None, engine: Engine | None) -> list[Dataset]:
        """Return the models of all files, which the workers of an engine read.

        Raises
        ------
        NCZarrError
            If files cannot be read; the notes name all of them.
        """
        names = [os.fspath(s) for s in self.sources if isinstance(s, str | os.PathLike)]
        names = [] if any(isinstance(s, Scanned) for s in self.sources) else names
        if engine is None or self._hook is not None or len(names) < len(self.sources):
            return call_all(partial(self._header, number, along) for number in range(len(self.sources)))
        with closing(read_headers(names, self._options, engine)) as rows:
            return call_all(partial(self._header, number, along, row) for number, row in enumerate(rows))

    def _header(self, number: int, along: str | None, row: Header | NCZarrError | None = None) -> Dataset:
        """Return the model of a file; its data open the file when they are read.

        Joining compares coordinates and variables without the joined dimension: the values of small ones are read now,
        and equal values are kept once for all files, as are equal attributes.
        """
        if isinstance(row, NCZarrError):
            raise row
        with self._lock:
            dataset, values = self._model(number) if row is None else row.model()

            def lazy(fqn: str, variable: Variable) -> Variable:
                data = variable.data
                variable = replace(variable, attributes=self._shared(variable.attributes))
                if data is None:
                    return variable
                is_compared = fqn in dataset.all_dimensions or along not in (None, *variable.dimensions)
                known = None
                has_steps = along is None or along in dataset.all_dimensions
                if is_compared and has_steps and data_bytes(data) <= SMALL:
                    if values is None:
                        known = data.read(tuple(slice(0, n, 1) for n in data.shape))
                    else:
                        known = values.get(fqn)
                    if known is not None and not known.dtype.hasobject:
                        key = known.dtype, known.shape, known.tobytes()
                        known = self._known.setdefault(key, known)
                return variable.with_data(FilePart(self, number, fqn, data.shape, data.dtype, known))

            return model.rewrite(dataset, variable=lazy)

    def _model(self, number: int) -> tuple[Dataset, dict[str, np.ndarray] | None]:
        """Return the model of a file, and the values that its row of a scan file has; None without a row."""
        source = self.sources[number]
        if isinstance(source, Scanned) and self._hook is None:
            return source.scan.header(source.number).model()
        return self._opened(number), None

    def _shared(self, attributes: tuple[Attribute, ...]) -> tuple[Attribute, ...]:
        """Return attributes, of which equal ones are the same objects."""
        return tuple(
            a
            if a.type.is_user_defined or a.values.dtype.hasobject
            else self._attributes.setdefault((a.name, a.type.name, a.values.tobytes()), a)
            for a in attributes
        )

    def dimension(self, along: str, *, merge: bool = False) -> tuple[str, bool]:
        """Return the FQN of the dimension to join along, and whether it is new; to merge, one file needs to have it."""
        first: tuple[object, Dataset] | None = None
        for number, source in enumerate(self.sources):
            with suppress(NCZarrError), self._lock:  # reading all headers names all damaged files
                opened = source, self._model(number)[0]
                is_there = any(has_name(d, along) for d in opened[1].all_dimensions)
                first = opened if first is None or is_there else first
                if is_there or not merge:
                    break
        if first is None:
            return along, True
        with error_context(name_of(first[0])):
            return _dimension(first[1], along)

    def read(self, number: int, fqn: str, region: Region, out: np.ndarray | None) -> np.ndarray:
        """Read values of a file."""
        with self._lock:
            data = self._opened(number).variable_at(fqn).data
            assert data is not None
            return data.read(region, out)

    def places(self, number: int, fqn: str) -> FilePlaces | None:
        """Return the places of the chunks of a variable in a file; None if its values are not stored in chunks."""
        with self._lock:
            source = self.sources[number]
            if isinstance(source, Scanned) and self._hook is None:
                return source.scan.header(source.number).places(fqn)
            ask = getattr(self._opened(number).variable_at(fqn).data, "chunk_places", None)
            found = None if ask is None else ask()
            return None if found is None else replace(found, file=None)  # the file may be closed soon

    def _opened(self, number: int) -> Dataset:
        found = self._open.pop(number, None)
        if found is None:
            source = self.sources[number]
            if state_of_file(source) != self._states[number]:
                raise NCZarrError("the file has changed while it was copied", path=str(source))
            context: AbstractContextManager[Dataset] = open_processed(source, self._options, self._hook)
            found = context, context.__enter__()
        self._open[number] = found
        while len(self._open) > _OPEN:
            _, (context, _) = self._open.popitem(last=False)
            context.__exit__(None, None, None)
        return found[1]

    def close(self) -> None:
        """Close all files."""
        with self._lock, ExitStack() as stack:
            for context, _ in self._open.values():
                stack.callback(context.__exit__, None, None, None)
            self._open.clear()


@dataclass(frozen=True, eq=False, slots=True)
class FilePart:
    """The values of a variable of one file; an :class:`~nczarr.model.ArraySource`."""

    files: Files
    number: int
    fqn: str
    shape: tuple[int, ...]
    dtype: np.dtype
    known: np.ndarray | None = None

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        if self.known is not None:
            return MemorySource(self.known).read(region, out)
        return self.files.read(self.number, self.fqn, region, out)

    @property
    def source(self) -> object:
        """The file."""
        return self.files.sources[self.number]

    def chunk_places(self) -> FilePlaces | None:
        """Return the places of the chunks in the file."""
        return self.files.places(self.number, self.fqn)


@dataclass(frozen=True, eq=False)
class JoinedSource:
    """The values of several sources, one after the other along an axis."""

    parts: tuple[ArraySource, ...]
    axis: int

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(part.shape[self.axis] for part in self.parts))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        first = self.parts[0].shape
        return (*first[: self.axis], self._ends[-1], *first[self.axis + 1 :])

    @property
    def dtype(self) -> np.dtype:
        return self.parts[0].dtype

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        """Read a region; see :meth:`nczarr.model.ArraySource.read`."""
        if out is None:
            out = np.empty(region_shape(region), self.dtype)
        along = region[self.axis]
        requested = range(along.start, along.stop, along.step or 1)
        done = 0
        # Blocks of many files are read one by one: look up the first file.
        number = bisect_right(self._ends, along.start)
        while done < len(requested):
            part, end = self.parts[number], self._ends[number]
            start = end - part.shape[self.axis]
            here = range(requested[done], min(end, requested.stop), requested.step)
            if len(here):
                inside = slice(here[0] - start, here[-1] + 1 - start, requested.step)
                chosen = (*region[: self.axis], inside, *region[self.axis + 1 :])
                place = (*[slice(None)] * self.axis, slice(done, done + len(here)))
                out[place] = _read(part, chosen)
                done += len(here)
            number += 1
        return out


def _read(part: ArraySource, region: Region) -> np.ndarray:
    """Read from a source; its errors name the file."""
    try:
        return part.read(region)
    except NCZarrError as error:
        while isinstance(part, ChangedSource):
            part = part.inner
        if error.path is None and isinstance(part, FilePart):
            error.path = name_of(part.source)
        raise


@dataclass(frozen=True, eq=False)
class StackedSource(ChangedSource):
    """The values of a source with an additional first dimension of length one."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (1, *self.inner.shape)

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        """Read a region; see :meth:`nczarr.model.ArraySource.read`."""
        return handed(self.inner.read(region[1:])[None], out)


@contextmanager
def join(
    sources: Sequence[object],
    along: str | None,
    *,
    fitting: Fitting | None = None,
    storage_options: Mapping[str, object] | None = None,
    choose: Callable[[list[Dataset]], list[Dataset]] = lambda datasets: datasets,
    merge: Callable[[list[Dataset]], list[Dataset]] | None = None,
    hook: Hook | None = None,
    engine: Engine | None = None,
) -> Iterator[Dataset]:
    """Join sources into one dataset with lazy data.

    Parameters
    ----------
    sources : sequence
        As for :func:`nczarr.convert.open_source`, in order.
    along : str or None
        A dimension by FQN or simple name; None only to merge. If the sources have no such dimension, it becomes the new
        first dimension of every variable that is not a coordinate.
    fitting : Fitting, optional
        How sources that differ are joined.
    choose : callable
        Returns the parts of the sources to join.
    merge : callable, optional
        Join the sources of the same variables, and merge the results: it returns the parts of them to merge.
    hook : callable, optional
        Changes the model of each source, whenever it is opened.
    engine : Engine, optional
        Its workers read the headers of the sources.

    Yields
    ------
    Dataset
        Its data are readable until the context ends.

    Raises
    ------
    ModelError
        If the sources do not fit together; the message lists the conflicts.
    UnsupportedError
        If times cannot be converted to the units of the first source, or the joined coordinate is not monotonic.
    """
    with closing(Files(sources, storage_options, hook)) as files:
        fitting = fitting or Fitting()
        fqn, is_new = (None, False) if along is None else files.dimension(along, merge=merge is not None)
        headers = choose(files.headers(fqn, engine))
        if merge is None:
            assert fqn is not None
            yield _joined(headers, sources, fqn, is_new, fitting)
            return
        fitting.refuse_unknown(headers, name_of(sources[0]))
        groups = families(headers, fqn, is_new)

        def joined(numbers: list[int]) -> Dataset:
            own = [headers[n] for n in numbers]
            if fqn is None or (len(own) == 1 and not growing_variables(own[0], fqn, is_new)):
                return replace(own[0], sources=(IngestedSource(name_of(sources[numbers[0]])),))
            return _joined(own, [sources[n] for n in numbers], fqn, is_new, fitting.of(own))

        parts = merge(call_all(partial(joined, numbers) for numbers in groups))
        names = [name_of(sources[numbers[0]]) + (" …" if len(numbers) > 1 else "") for numbers in groups]
        yield merged(parts, names, replace(fitting, repack=None))


def _dimension(first: Dataset, along: str) -> tuple[str, bool]:
    """Return the FQN of the dimension to join along, and whether it is new."""
    fqn = along if along.startswith("/") else f"/{along}"
    is_simple = "/" not in along
    if any(has_name(d, along) for d in first.all_dimensions):
        return find_dimension(first, along, "--concat"), False
    problem = model.check_name(along if is_simple else model.split_fqn(along)[1])
    if problem or model.split_fqn(fqn)[0] not in first.all_groups:
        raise UnsupportedError(f"--concat {along}: {problem or 'there is no such group'}")
    if fqn in first.all_variables and first.all_variables[fqn].dimensions:
        raise UnsupportedError(f"--concat {along}: a variable has this name and other dimensions")
    return fqn, True


def _joined(
    headers: list[Dataset], sources: Sequence[object], along: str, is_new: bool, fitting: Fitting
) -> Dataset:
    names = [name_of(source) for source in sources]
    refused = f"the files cannot be joined along {along}; {names[0]} is compared with the others"
    parts, growing = fitted(headers, names, along, is_new, fitting, refused)
    for fqn, variable in parts[0].all_variables.items():
        if list(variable.dimensions).count(along) > 1:
            raise UnsupportedError(
                f"the variable has the dimension {along} twice, so that the joined one would have gaps",
                path=names[0],
                fqn=fqn,
                hint="-x omits a variable",
            )
    gaps = missing_steps(parts, names, along, fitting) if fitting.expect_step else {}
    joined = _assembled(parts, along, is_new, growing, fitting.merges)
    refuse_disorder(joined, along, names)
    if gaps:
        joined = _with_gaps(joined, along, growing, gaps)
    ends = [0, *accumulate(1 if is_new else part.dimension_at(along).size for part in parts)]
    places = [end + sum(len(gaps[at]) for at in gaps if at < end) for end in ends[:-1]]
    pairs = zip(names, places, pairwise(ends), strict=True)
    return replace(
        joined,
        sources=tuple(IngestedSource(n, steps=(at, at + high - low)) for n, at, (low, high) in pairs),
        left_out=tuple(dict.fromkeys(what for part in headers for what in part.left_out)),
        gone=tuple(dict.fromkeys(what for part in headers for what in part.gone)),
    )


def _assembled(
    parts: list[Dataset], along: str, is_new: bool, growing: frozenset[str], merge: bool
) -> Dataset:
    def variable(fqn: str, old: Variable) -> Variable:
        if fqn not in growing:
            return old
        variables = [part.all_variables[fqn] for part in parts]
        data = [model.source_of(v, part.shape(v)) for v, part in zip(variables, parts, strict=True)]
        if not is_new:
            return old.with_data(JoinedSource(tuple(data), old.dimensions.index(along)))
        storage = old.storage
        chunks, shards = storage.chunk_shape, storage.shard_shape
        return replace(
            old,
            dimensions=(along, *old.dimensions),
            storage=replace(
                storage,
                layout=None if storage.layout == "compact" else storage.layout,
                chunk_shape=chunks and (1, *chunks),
                shard_shape=shards and (1, *shards),
            ),
            data=JoinedSource(tuple(map(StackedSource, data)), 0),
        )

    result = united(parts) if merge else parts[0]
    if is_new:
        result = _with_dimension(result, along, Dimension(model.split_fqn(along)[1], len(parts)))
    else:
        size = sum(part.dimension_at(along).size for part in parts)
        result = model.rewrite(result, dimension=lambda fqn, d: replace(d, size=size) if fqn == along else d)
    return model.rewrite(result, variable=variable)


def _with_gaps(
    joined: Dataset, along: str, growing: frozenset[str], gaps: Mapping[int, np.ndarray]
) -> Dataset:
    """Return a dataset with fill values for the steps that are missing behind some steps."""
    size = joined.dimension_at(along).size

    def variable(fqn: str, v: Variable) -> Variable:
        if fqn not in growing or (data := v.data) is None:
            return v
        v = v if fqn == along else with_fill(fqn, v)
        axis, parts = v.dimensions.index(along), list[ArraySource]()
        for low, high in pairwise([0, *(at + 1 for at in sorted(gaps)), size]):
            parts.append(cut_source(data, axis, low, high))
            if (steps := gaps.get(high - 1)) is not None:
                shape = (*data.shape[:axis], len(steps), *data.shape[axis + 1 :])
                fill = model.source_of(v.with_data(None), shape)
                parts.append(MemorySource(steps) if fqn == along else fill)
        return v.with_data(JoinedSource(tuple(parts), axis))

    total = size + sum(map(len, gaps.values()))
    return model.rewrite(
        joined, variable=variable, dimension=lambda fqn, d: replace(d, size=total) if fqn == along else d
    )


def _with_dimension(dataset: Dataset, fqn: str, dimension: Dimension) -> Dataset:
    owner = model.split_fqn(fqn)[0]

    def inside(at: str, group: _G) -> _G:
        groups = tuple(inside(model.join_fqn(at, g.name), g) for g in group.groups)
        own = (dimension, *group.dimensions) if at == owner else group.dimensions
        return replace(group, dimensions=own, groups=groups)

    return inside("/", dataset)

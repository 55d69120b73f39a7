"""Append a dataset to a stored one, or to a netCDF file, along an unlimited dimension."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from nczarr.convert.change.selecting import SelectedSource, find_dimension
from nczarr.convert.endpoints import name_of
from nczarr.convert.many.fit import OTHER_MEANING, differences, other_meanings, refuse, same_data
from nczarr.convert.many.joining import JoinedSource, growing_variables, in_units_of
from nczarr.convert.many.steps import as_known, refuse_repeated_names, steps_of, tolerance_between
from nczarr.convert.verify.digests import ATTRIBUTE, without_digest
from nczarr.errors import UnsupportedError, error_context
from nczarr.mapping import open_dataset
from nczarr.mapping.guarding.changes import writing_alone
from nczarr.model import ArraySource, Dataset, MemorySource, Region, Variable, rewrite
from nczarr.stores import open_store
from nczarr.transfer import Progress, Work, blocks_of, data_bytes, transfer


def append(
    opening: Callable[[str], AbstractContextManager[Dataset]],
    sources: Sequence[Any],
    target: Any,
    *,
    along: str | None = None,
    replace_steps: bool = False,
    join: str = "outer",
    durable: bool | None = None,
    target_options: Mapping[str, Any] | None = None,
    progress: Progress,
    workers: int,
    memory: int,
) -> int:
    """Append the steps of sources to a Zarr dataset; a reader sees the old length or the new one.

    Values are written first, where no reader looks yet, then the lengths.

    Parameters
    ----------
    opening : callable
        Opens the sources as one dataset, joined along the dimension that it is given.
    sources : sequence
        Their names.
    along : str, optional
        The dimension; the only unlimited one of the target by default.
    replace_steps : bool
        Write over steps that the target has already, where they would be refused.
    join : {'outer', 'first', 'exact'}
        Refuse attributes that mean another thing than those of the target; keep those of the target; or refuse where
        any attribute differs.
    durable : bool, optional
        False: return before the disk has everything, and keep no order.

    Returns
    -------
    int
        How many bytes the added values take.

    Raises
    ------
    ModelError, UnsupportedError
        If the two do not fit together; nothing has been written then.
    """
    options = dict(target_options) if target_options else None
    store = open_store(target, "r+", options)
    with (
        writing_alone(store) as check,
        open_dataset(store, "r+", consolidated=False if store.listable else None) as stored,
    ):
        stored.durable = durable
        if stored.layout in ("zarr-v3", "zarr-v2"):
            raise UnsupportedError(
                f"--append: plain Zarr ({stored.layout}) has no unlimited dimension",
                path=str(target),
                hint="copy it with --layout nczarr-v3 --unlimited DIMENSION first",
            )
        fqn = growing_dimension(stored.dataset, along, str(target))
        with opening(fqn) as opened:
            added, first, count = prepare(stored.dataset, opened, fqn, sources, target, replace_steps, join)
            if count or first != stored.dataset.dimension_at(fqn).size:
                size = _write(stored, added, fqn, first, True, progress, workers, memory)
                check()
                made = without_digest(stored.dataset)
                stored.update(
                    rewrite(made, dimension=lambda at, d: replace(d, size=size) if at == fqn else d)
                )
            return _growth(stored.dataset, added, fqn)


def append_records(
    opening: Callable[[str], AbstractContextManager[Dataset]],
    sources: Sequence[Any],
    target: Path,
    *,
    along: str | None = None,
    join: str = "outer",
    durable: bool | None = None,
    progress: Progress,
    memory: int,
) -> int:
    """Append the steps of sources to a classic netCDF file, in place.

    The values of the new records are written behind those that are counted, where no reader looks; last of all the
    number of records, at once. Whoever is killed before that leaves the old dataset, with some bytes behind it that
    the next records take the place of. The parameters are those of :func:`append`.

    Raises
    ------
    ModelError, UnsupportedError
        If the two do not fit together; nothing has been written then.
    NetCDFFileError
        If the file cannot be written; it is as it was.
    """
    from nczarr.netcdf.edit.opening import edit_records

    with edit_records(target) as file:
        file.durable = durable
        fqn = growing_dimension(file.dataset, along, str(target))
        with opening(fqn) as opened:
            added, first, count = prepare(file.dataset, opened, fqn, sources, target, False, join)
            if count:
                file.count_records(_write(file, added, fqn, first, False, progress, 1, memory))
            return _growth(file.dataset, added, fqn)


def append_to_copy(
    opening: Callable[[str], AbstractContextManager[Dataset]],
    sources: Sequence[Any],
    target: Path,
    *,
    along: str | None = None,
    replace_steps: bool = False,
    join: str = "outer",
    durable: bool | None = None,
    progress: Progress,
    memory: int,
) -> int:
    """Append the steps of sources to a copy of a netCDF file, which then takes the file's place.

    In HDF5 no single write makes all variables longer, nor are steps replaced at once in any format. What is there is
    copied as it is; file systems that can share bytes copy nothing. The parameters are those of :func:`append`.

    Raises
    ------
    FixedFileError
        If the file can be read, not changed.
    ModelError, UnsupportedError
        If the two do not fit together.
    NetCDFFileError
        If the file cannot be written. In all cases it is as it was.
    """
    from nczarr.netcdf.edit.opening import edit_copy

    with edit_copy(target) as file:
        file.durable = durable
        fqn = growing_dimension(file.dataset, along, str(target))
        with opening(fqn) as opened:
            added, first, _ = prepare(file.dataset, opened, fqn, sources, target, replace_steps, join)
            file.lengthen({fqn: _write(file, added, fqn, first, False, progress, 1, memory)})
            if ATTRIBUTE in file.dataset.attribute:
                file.update(without_digest(file.dataset))
            return _growth(file.dataset, added, fqn)


def _growth(old: Dataset, added: Dataset, along: str) -> int:
    """The bytes of values of what grows."""
    sources = [added.all_variables[fqn].data for fqn, v in old.all_variables.items() if along in v.dimensions]
    return sum(data_bytes(data) for data in sources if data is not None)


def growing_dimension(dataset: Dataset, along: str | None, target: str) -> str:
    """Return the dimension along which a dataset grows.

    Raises
    ------
    UnsupportedError
        If it is not unlimited, or there is none, or there are several.
    """
    if along is not None:
        fqn = find_dimension(dataset, along, "--concat")
        if not dataset.dimension_at(fqn).unlimited:
            raise UnsupportedError(
                f"the dimension {fqn} is not unlimited", path=target, hint="copy it with --unlimited first"
            )
        return fqn
    found = [fqn for fqn, d in dataset.all_dimensions.items() if d.unlimited]
    if len(found) != 1:
        what = f"several unlimited dimensions: {', '.join(found)}" if found else "no unlimited dimension"
        raise UnsupportedError(f"the dataset has {what}", path=target, hint="--concat says which")
    return found[0]


def prepare(
    old: Dataset,
    added: Dataset,
    along: str,
    sources: Sequence[Any],
    target: Any,
    replace_steps: bool,
    join: str,
) -> tuple[Dataset, int, int]:
    """Check that the dataset of some sources fits behind another one.

    Returns
    -------
    (Dataset, int, int)
        What is added, in the units of the old; the index of its first step in the target; how many steps are new.
    """
    names = [name_of(source) for source in (sources[0], sources[-1])]
    source = names[0] if len(sources) == 1 else " … ".join(names)
    growing = growing_variables(old, along, False)
    found = [(source, t) for t in differences(old, added, along, exact=join == "exact", growing=growing)]
    what = f"it does not fit behind the dataset {target} along {along}"
    refuse(found, what)
    if join == "outer":
        refuse([(source, t) for t in other_meanings(old, added)], what, OTHER_MEANING)
    with error_context(source):
        added = in_units_of(old, added, growing)
    for fqn, variable in old.all_variables.items():
        if fqn not in growing:
            found += [(source, t) for t in same_data(fqn, variable.data, added.all_variables[fqn].data)]
    refuse(found, what)
    size = old.dimension_at(along).size
    with error_context(source):
        added, first = _place(old, added, along, replace_steps)
    return added, first, max(0, first + added.dimension_at(along).size - size)


def _place(old: Dataset, added: Dataset, along: str, replace_steps: bool) -> tuple[Dataset, int]:
    """What is added, repeated steps with the target's own numbers, and the index in the target of the first step."""
    size = old.dimension_at(along).size
    here, there = steps_of(old, along), steps_of(added, along)
    if here is None or there is None or not len(here) or not len(there):
        if replace_steps:
            raise UnsupportedError(f"--replace: {along} has no coordinate to find repeated steps by")
        return added, size
    if there.dtype.kind == "O":
        return added, _place_of_names(here, there, along, replace_steps)
    data = [dataset.all_variables[along].data for dataset in (old, added)]
    tolerance = tolerance_between(
        old.all_variables[along], here, there, data=[d for d in data if d is not None]
    )
    known = as_known(here, there, tolerance)
    if (known != there).any():
        own = MemorySource(known.astype(there.dtype))
        added = rewrite(added, variable=lambda fqn, v: v.with_data(own) if fqn == along else v)
        there = known
    repeated = np.isin(there, here)
    down = len(here) > 1 and here[-1] < here[0]
    if repeated.any() and not replace_steps:
        raise _repeated(there[repeated], along)
    whole = np.concatenate([here[: size if not repeated.any() else _index(here, there[0])], there])
    # Differences of unsigned numbers would wrap around.
    follows = whole[1:] < whole[:-1] if down else whole[1:] > whole[:-1]
    first = len(whole) - len(there)
    fits = np.array_equal(here[first : first + len(there)], there[: max(0, size - first)])
    if not follows.all() or not fits:
        raise UnsupportedError(
            f"the steps along {along} begin at {there[0]} and end at {there[-1]}; the dataset ends at {here[-1]}, "
            "and they do not follow it",
            hint="join the files anew, in order",
        )
    return added, first


def _place_of_names(here: np.ndarray, there: np.ndarray, along: str, replace_steps: bool) -> int:
    """The index of the first added step, of names, which have no order."""
    repeated = np.isin(there, here)
    if repeated.any() and replace_steps:
        raise UnsupportedError(
            f"--replace: the steps along {along} are names, which do not say what follows them"
        )
    if repeated.any():
        raise _repeated(there[repeated], along)
    refuse_repeated_names(there, along, lambda step: "the source")
    return len(here)


def _repeated(steps: np.ndarray, along: str) -> UnsupportedError:
    return UnsupportedError(
        f"{len(steps)} steps along {along} are there already, the first is {steps[0]}",
        hint="--replace writes over them",
    )


def _index(here: np.ndarray, value: Any) -> int:
    found = np.flatnonzero(here == value)
    return int(found[0]) if found.size else len(here)


class _Growing(Protocol):
    """What is appended to: its values can be written where the model does not look yet."""

    @property
    def dataset(self) -> Dataset: ...

    def data(self, fqn: str) -> Any: ...


class _Shifted:
    """A sink that writes a number of steps further along one dimension."""

    def __init__(self, stored: _Growing, axes: Mapping[str, int], first: int, concurrent: bool) -> None:
        self._stored, self._axes, self._first = stored, axes, first
        self.concurrent = concurrent

    def write_shape(self, fqn: str) -> tuple[int, ...]:
        return tuple(self._stored.data(fqn).chunk_shape)

    def write(self, fqn: str, region: Region, values: np.ndarray) -> None:
        axis = self._axes[fqn]
        moved = slice(region[axis].start + self._first, region[axis].stop + self._first, 1)
        self._stored.data(fqn).write((*region[:axis], moved, *region[axis + 1 :]), values)

    def commit(self) -> None:
        """Nothing to do: the dataset is updated."""

    def abort(self) -> None:
        """Nothing to do: no length has changed."""


def _write(
    stored: _Growing,
    added: Dataset,
    along: str,
    first: int,
    concurrent: bool,
    progress: Progress,
    workers: int,
    memory: int,
) -> int:
    """Write the values of what is added; return the length that the dimension has then."""
    old = stored.dataset
    size = max(old.dimension_at(along).size, first + added.dimension_at(along).size)
    axes = {fqn: v.dimensions.index(along) for fqn, v in old.all_variables.items() if along in v.dimensions}
    work: list[Work] = []
    for fqn, axis in axes.items():
        data = added.all_variables[fqn].data
        assert data is not None
        shape = list(old.shape(old.all_variables[fqn]))
        shape[axis] = size
        values = stored.data(fqn)
        there = getattr(values, "stored_shape", values.shape)  # an array may be longer than its dimensions
        values.grow(tuple(max(n, m) for n, m in zip(shape, there, strict=True)))
        work.append((fqn, old.all_variables[fqn], data))
    progress.start(sum(data_bytes(data) for _, _, data in work))
    try:
        sink = _Shifted(stored, axes, first, concurrent)
        transfer(_aligned(work, sink, axes, first), sink, progress, workers, memory)
    finally:
        progress.finish()
    return size


def _aligned(
    work: Sequence[Work], sink: _Shifted, axes: Mapping[str, int], first: int
) -> Iterator[tuple[str, Region, Any]]:
    """Blocks that end where chunks of the target end, so that no chunk is written twice."""
    for fqn, variable, data in work:
        axis = axes[fqn]
        step = sink.write_shape(fqn)[axis]
        head = min(-first % step, data.shape[axis])
        for low, high in ((0, head), (head, data.shape[axis])):
            if low == high:
                continue
            part = SelectedSource(
                data, tuple(range(low, high) if i == axis else range(n) for i, n in enumerate(data.shape))
            )
            for name, region, _ in blocks_of([(fqn, variable, part)], sink):
                place = slice(region[axis].start + low, region[axis].stop + low, 1)
                yield name, (*region[:axis], place, *region[axis + 1 :]), data


def appended(
    old: Dataset,
    added: Dataset,
    along: str | None,
    sources: Sequence[Any],
    target: Any,
    replace_steps: bool,
    join: str,
) -> Dataset:
    """Return a dataset with another one behind it; for formats that are written as a whole."""
    fqn = growing_dimension(old, along, str(target))
    added, first, _ = prepare(old, added, fqn, sources, target, replace_steps, join)
    last = first + added.dimension_at(fqn).size

    def variable(at: str, v: Variable) -> Variable:
        other = added.all_variables[at]
        if fqn not in v.dimensions or v.data is None or other.data is None:
            return v
        axis = v.dimensions.index(fqn)
        parts = [_cut(v.data, axis, 0, first), other.data, _cut(v.data, axis, last, v.data.shape[axis])]
        return v.with_data(JoinedSource(tuple(p for p in parts if p.shape[axis]) or (v.data,), axis))

    size = max(old.dimension_at(fqn).size, last)
    return rewrite(
        without_digest(old),
        variable=variable,
        dimension=lambda at, d: replace(d, size=size) if at == fqn else d,
    )


def _cut(data: ArraySource, axis: int, low: int, high: int) -> SelectedSource:
    ranges = (range(min(low, high), high) if i == axis else range(n) for i, n in enumerate(data.shape))
    return SelectedSource(data, tuple(ranges))

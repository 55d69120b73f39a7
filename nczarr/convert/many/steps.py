"""Tell which steps of two datasets are the same: times within their rounding, all others exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from nczarr.convert.endpoints import name_of
from nczarr.convert.many.times import rounding_of
from nczarr.errors import UnsupportedError
from nczarr.model import CHAR, STRING, ArraySource, Dataset, Variable


def steps_of(dataset: Dataset, along: str) -> np.ndarray | None:
    """Return the values of the coordinate of a dimension: numbers, or names as objects; None if it has none."""
    variable = dataset.all_variables.get(along)
    if variable is None or variable.data is None or variable.dimensions[:1] != (along,):
        return None
    values = variable.data.read(tuple(slice(0, n, 1) for n in variable.data.shape))
    if variable.type is CHAR and values.ndim <= 2:
        names = np.empty(len(values), object)
        names[:] = [row.tobytes().rstrip(b"\0 ").decode("utf-8", "surrogateescape") for row in values]
        return names
    is_known = values.ndim == 1 and (values.dtype.kind in "iuf" or variable.type is STRING)
    return values if is_known else None


def tolerance_between(variable: Variable, *runs: np.ndarray, data: Sequence[ArraySource]) -> float:
    """Return how far two numbers of a coordinate may be from each other and stand for the same step.

    Whole numbers, and coordinates that are no times, are compared exactly. A time of a floating-point type is rounded
    where it is written and where it is brought to other units, now or when the dataset was made: by two units in the
    last place of the larger numbers, in the old units and in the new ones, and by what :func:`rounding_of` allows.
    The tolerance is never more than half the smallest step inside a run, so that no two steps of one become the same.

    Parameters
    ----------
    variable : Variable
        The coordinate.
    runs : ndarray
        Its numbers in each dataset.
    data : sequence of ArraySource
        The sources of the runs.
    """
    allowed = rounding_of(variable)
    if allowed is None:
        return 0.0
    reach = [_reach(d, run) for d, run in zip(data, runs, strict=True)]
    rounding = 2 * float(np.finfo(variable.type.dtype).eps) * sum(max(size) for size in reach)
    steps = [abs(step) for run in runs for step in np.diff(_wide(run)).tolist() if step and np.isfinite(step)]
    if steps:
        return min(max(allowed, rounding), min(steps) / 2)
    # Single steps do not tell how fine the times are. They are rounded where they were brought to other units.
    return rounding if any(len(size) > 1 for size in reach) else 0.0


def _wide(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float64) if values.dtype.kind == "f" else values


def _reach(data: ArraySource, values: np.ndarray) -> list[float]:
    """The largest size of numbers of a source, in its units and in those that they were brought from."""
    known = values[np.isfinite(values)]
    ends = [float(known.min()), float(known.max())] if known.size else [0.0, 0.0]
    return [max(map(abs, ends)), *_reach_before(data, ends)]


def _reach_before(data: Any, ends: list[float]) -> Iterator[float]:
    move = getattr(data, "move", None)
    if move is not None:
        before = [end - float(move.step) for end in ends]  # the old numbers times the factor
        yield max(map(abs, before))
        factor = float(move.factor)
        for size in _reach_before(data.inner, [end / factor for end in before]):
            yield size * abs(factor)
        return
    for part in getattr(data, "parts", ()):
        yield from _reach_before(part, ends)
    if hasattr(data, "inner"):
        yield from _reach_before(data.inner, ends)


def as_known(known: np.ndarray, steps: np.ndarray, tolerance: float) -> np.ndarray:
    """Return steps, those that are known ones within a tolerance as the known number.

    Examples
    --------
    >>> as_known(np.array([1.0, 2.0]), np.array([2.0000001, 3.0]), 1e-6).tolist()
    [2.0, 3.0]
    """
    if not tolerance or not len(known):
        return steps
    ordered = np.sort(known)
    at = np.searchsorted(ordered, steps)
    before, behind = ordered[np.maximum(at - 1, 0)], ordered[np.minimum(at, len(ordered) - 1)]
    nearest = np.where(abs(_wide(steps) - _wide(before)) < abs(_wide(behind) - _wide(steps)), before, behind)
    found: np.ndarray = np.where(abs(_wide(steps) - _wide(nearest)) <= tolerance, nearest, steps)
    return found


def refuse_disorder(dataset: Dataset, along: str, sources: Sequence[Any]) -> None:
    """Refuse a joined coordinate with repeated steps, or with steps that go back, and names that are there twice."""
    values = steps_of(dataset, along)
    if values is None or len(values) < 2:
        return
    variable = dataset.all_variables[along]
    assert variable.data is not None
    # Files without a step of their own say nothing.
    parts = [part for part in getattr(variable.data, "parts", ()) if part.shape[0]] or [variable.data]
    ends = np.cumsum([part.shape[0] for part in getattr(variable.data, "parts", parts)])

    def source_of(step: int) -> str:
        return name_of(sources[min(int(np.searchsorted(ends, step, "right")), len(sources) - 1)])

    if values.dtype.kind == "O":
        refuse_repeated_names(values, along, source_of)
        return
    runs = np.split(values, np.cumsum([part.shape[0] for part in parts])[:-1])
    tolerance = tolerance_between(variable, *runs, data=parts)
    # The first file says which way the coordinate goes, if it can.
    end = len(runs[0]) - 1 if len(runs[0]) > 1 else -1
    wide = _wide(values)
    down = wide[end] < wide[0]
    before, behind = (wide[1:], wide[:-1]) if down else (wide[:-1], wide[1:])
    # A sum, as whole numbers have no negative differences in unsigned types.
    wrong = np.flatnonzero(behind <= (before + tolerance if tolerance else before))
    if wrong.size:
        at = int(wrong[0]) + 1
        same = bool(values[at] != values[at - 1] and abs(wide[at] - wide[at - 1]) <= tolerance)
        raise UnsupportedError(
            f"the coordinate {along} has {values[at]} behind {values[at - 1]}"
            + (", which is the same time within its rounding" if same else ""),
            path=source_of(at),
            hint="steps are repeated, or the files are not in order",
        )


def refuse_repeated_names(names: np.ndarray, along: str, source_of: Any) -> None:
    """Refuse names of which one is there twice."""
    first: dict[str, int] = {}
    for step, name in enumerate(names.tolist()):
        before = first.setdefault(name, step)
        if before != step:
            raise UnsupportedError(
                f"the coordinate {along} has the name {name!r}, which {source_of(before)} has already",
                path=source_of(step),
                hint="leave out the file or the step that is repeated",
            )

"""Find the place of steps in a stored dataset: the part of a dimension that a call names by its indices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from nczarr.convert.many.steps import read_all, refuse_missing, shown_step, tolerance_between
from nczarr.errors import UnsupportedError
from nczarr.model import Dataset, MemorySource, fill_value_of, rewrite
from nczarr.model.nodes import KnownSteps
from nczarr.options import named


class PlacedSteps(NamedTuple):
    """The dataset of the sources in the units of the target, the index of its first step there, and all steps."""

    added: Dataset
    first: int
    known: KnownSteps | None = None


def placed_in_region(old: Dataset, added: Dataset, along: str, region: Mapping[str, slice]) -> PlacedSteps:
    """Return the place of steps that a region names, with the stored numbers for steps that are there already.

    A wrong index would silently write over the steps of another task. So the coordinate has to be unwritten there, or
    the same.

    Raises
    ------
    UnsupportedError
        If the region lies outside of the dimension, has another length than the sources, or has other steps.
    """
    size, count = old.dimension_at(along).size, added.dimension_at(along).size
    ((name, part),) = region.items()
    first, last = part.start or 0, size if part.stop is None else part.stop
    shown = named("region", {name: f"{first}:{last}"})
    if not 0 <= first <= last <= size:
        raise UnsupportedError(
            f"{shown}: the dimension has the length {size}",
            hint="a region lies inside of the existing length",
        )
    if last - first != count:
        raise UnsupportedError(f"{shown}: the region has {last - first} steps, and the sources have {count}")
    stored, given = old.all_variables.get(along), added.all_variables.get(along)
    if stored is None or stored.data is None or given is None or given.data is None or not count:
        return PlacedSteps(added, first)
    rest = tuple(slice(0, n, 1) for n in stored.data.shape[1:])
    here, there = stored.data.read((slice(first, last, 1), *rest)), read_all(given.data)
    if there.ndim == 1 and there.dtype.kind in "iuf":
        refuse_missing(given, there, along, lambda step: None)
    is_same = (here == fill_value_of(stored)) | (here != here)
    others = tuple(range(1, here.ndim))  # of the letters of a name
    is_written = ~is_same.all(axis=others)
    mine, theirs = here[is_written], there[is_written]
    if len(mine) and theirs.ndim == 1 and theirs.dtype.kind in "iuf":
        tolerance = tolerance_between(stored, mine, theirs, data=(MemorySource(mine), given.data))
        # Step by step: a region that lies one step too far has the numbers of the next steps.
        is_near = abs(mine.astype("f8") - theirs.astype("f8")) <= tolerance if tolerance else mine == theirs
        theirs = np.where(is_near, mine, theirs).astype(there.dtype)
    differing = np.flatnonzero((mine != theirs).any(axis=others))
    if differing.size:
        at = int(differing[0])
        number = first + int(np.flatnonzero(is_written)[at])
        shown_steps = [shown_step(stored, step[at]) for step in (mine, theirs)]
        raise UnsupportedError(
            f"{shown}: the dataset has {shown_steps[0]} at the index {number} along {along}, "
            f"and the source {shown_steps[1]}",
            hint=f"correct the indices; {named('replace', True)} finds the place of steps by their coordinate",
        )
    there = there.copy()
    there[is_written] = theirs
    own = MemorySource(there)
    added = rewrite(added, variable=lambda fqn, v: v.with_data(own) if fqn == along else v)
    return PlacedSteps(added, first)

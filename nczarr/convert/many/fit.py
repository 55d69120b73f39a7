"""Check that datasets fit together, and list what differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from nczarr.errors import ModelError
from nczarr.model import ArraySource, Dataset, Variable, describe_type, regions, same_values

#: Attributes without which values mean something else.
MEANING = frozenset(
    {"scale_factor", "add_offset", "_FillValue", "missing_value", "valid_min", "valid_max", "valid_range",
     "units", "calendar", "month_lengths", "leap_year", "leap_month", "_Unsigned", "_Encoding", "positive",
     "flag_values", "flag_masks", "flag_meanings"}
)  # fmt: skip
#: Two names that the conventions have for one calendar.
_SAME_CALENDAR = {"gregorian": "standard", "365_day": "noleap", "366_day": "all_leap"}
_LISTED = 20
_BLOCK = 1 << 20


def differences(
    first: Dataset, other: Dataset, along: str | None, *, exact: bool, growing: frozenset[str]
) -> Iterator[str]:
    """Yield what keeps two datasets from being parts of one; values are not read.

    Parameters
    ----------
    along : str or None
        The dimension whose size may differ.
    exact : bool
        Attributes must be the same too, all of them.
    growing : frozenset of str
        Variables that are joined: their units of time may differ.
    """
    yield from _missing(first, other)
    for fqn, dimension in first.all_dimensions.items():
        found = other.all_dimensions.get(fqn)
        if found is not None and fqn != along and found.size != dimension.size:
            yield f"{fqn}: the dimension has the size {found.size}, not {dimension.size}"
    for fqn, type_ in first.all_types.items():
        if fqn in other.all_types and other.all_types[fqn] != type_:
            yield f"{fqn}: the type is {describe_type(other.all_types[fqn])}, not {describe_type(type_)}"
    for fqn, variable in first.all_variables.items():
        if fqn in other.all_variables:
            yield from _variable(fqn, variable, other.all_variables[fqn], exact, fqn in growing)
    if exact:
        for fqn, group in first.all_groups.items():
            if fqn in other.all_groups:
                yield from _attributes(fqn, group, other.all_groups[fqn], True, False)


def _missing(first: Dataset, other: Dataset) -> Iterator[str]:
    for what, mine, theirs in (
        ("variable", first.all_variables, other.all_variables),
        ("dimension", first.all_dimensions, other.all_dimensions),
        ("type", first.all_types, other.all_types),
        ("group", first.all_groups, other.all_groups),
    ):
        for fqn in mine:
            if fqn not in theirs:
                yield f"{fqn}: the {what} is missing"
        for fqn in theirs:
            if fqn not in mine:
                yield f"{fqn}: the first has no such {what}"


def _variable(fqn: str, mine: Variable, theirs: Variable, exact: bool, growing: bool) -> Iterator[str]:
    if theirs.type != mine.type:
        yield f"{fqn}: the type is {theirs.type.name}, not {mine.type.name}"
    elif theirs.dimensions != mine.dimensions:
        yield f"{fqn}: the dimensions are {_list(theirs.dimensions)}, not {_list(mine.dimensions)}"
    else:
        yield from _attributes(fqn, mine, theirs, exact, growing)


def _list(dimensions: Sequence[Any]) -> str:
    return f"({', '.join(map(str, dimensions))})"


def _attributes(fqn: str, mine: Any, theirs: Any, exact: bool, growing: bool) -> Iterator[str]:
    names = dict.fromkeys([*mine.attribute, *theirs.attribute])
    for name in names:
        if not exact and not (isinstance(mine, Variable) and name in MEANING):
            continue
        if growing and is_time(mine) and is_time(theirs):
            same = not exact and name == "calendar" and calendar_of(mine) == calendar_of(theirs)
            if name == "units" or same:
                continue
        if mine.attribute.get(name) != theirs.attribute.get(name):
            pair = [node.attribute.get(name) for node in (theirs, mine)]
            shown = [_show(a) for a in pair]
            if shown[0] == shown[1]:
                shown = [f"{text} ({describe_type(a.type)})" for text, a in zip(shown, pair, strict=True)]
            yield f"{fqn}: the attribute {name} is {shown[0]}, not {shown[1]}"


def _show(attribute: Any) -> str:
    if attribute is None:
        return "missing"
    return repr(attribute.text) if attribute.type.name == "char" else str(attribute.values.tolist())


def is_time(variable: Variable) -> bool:
    """True if a variable has numbers in units such as ``days since 2000-01-01``."""
    units = variable.attribute.get("units")
    if units is None or variable.type.is_user_defined or variable.type.dtype.kind not in "iuf":
        return False
    return units.type.name in ("char", "string") and " since " in units.text


def calendar_of(variable: Variable) -> str:
    """Return the calendar of times under one of its names."""
    attribute = variable.attribute.get("calendar")
    is_text = attribute is not None and attribute.type.name in ("char", "string")
    name = attribute.text.strip("\0 ").lower() if attribute is not None and is_text else "standard"
    return _SAME_CALENDAR.get(name, name)


def same_data(fqn: str, mine: ArraySource | None, theirs: ArraySource | None) -> Iterator[str]:
    """Yield that values differ, if they do."""
    if mine is None or theirs is None or mine.shape != theirs.shape:
        return
    block = list(mine.shape)
    for axis in range(len(block)):
        if np.prod(block, dtype=float) > _BLOCK:
            block[axis] = max(1, int(block[axis] * _BLOCK / np.prod(block, dtype=float)))
    for region in regions(mine.shape, tuple(max(1, n) for n in block)):
        if not same_values(mine.read(region), theirs.read(region)):
            yield f"{fqn}: the values differ, and the variable is not along the joined dimension"
            return


def refuse(found: Sequence[tuple[str, str]], what: str) -> None:
    """Raise a :class:`ModelError` with all that was found: pairs of a source and a difference."""
    if not found:
        return
    lines = [f"{source}: {text}" for source, text in found[:_LISTED]]
    if len(found) > _LISTED:
        lines.append(f"and {len(found) - _LISTED} more")
    raise ModelError(f"{what}:\n  " + "\n  ".join(lines), problems=tuple(f"{s}: {t}" for s, t in found))

"""Check that datasets fit together, and list what differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from nczarr.convert.change.choosing import find_variable, named_by
from nczarr.convert.change.selecting import is_time
from nczarr.errors import ModelError, UnsupportedError
from nczarr.model import ArraySource, Dataset, Variable, describe_type, regions, same_values, split_fqn

#: Attributes by which stored numbers become values, or missing ones. No option joins files in which they differ.
DECODING = frozenset(
    {"scale_factor", "add_offset", "_FillValue", "missing_value", "valid_min", "valid_max", "valid_range",
     "units", "calendar", "month_lengths", "leap_year", "leap_month", "_Unsigned", "_Encoding"}
)  # fmt: skip
#: Attributes that say what values are of, or where they are (CF conventions, appendix A; UGRID for meshes).
MEANING = frozenset(
    {"standard_name", "computed_standard_name", "cell_methods", "units_metadata", "positive", "axis", "cf_role",
     "flag_values", "flag_masks", "flag_meanings", "bounds", "climatology", "coordinates", "ancillary_variables",
     "cell_measures", "formula_terms", "grid_mapping", "grid_mapping_name", "geometry", "geometry_type",
     "node_coordinates", "node_count", "nodes", "part_node_count", "interior_ring", "compress", "sample_dimension",
     "instance_dimension", "coordinate_interpolation", "interpolation_name", "interpolation_parameters",
     "tie_point_mapping", "bounds_tie_points", "computational_precision", "interpolation_subarea_flags",
     "mesh", "location", "location_index_set", "topology_dimension", "start_index"}
)  # fmt: skip
#: The same among the attributes of a group: CF's kind of discrete geometry, and names of variables.
MEANING_OF_GROUPS = frozenset({"featureType", "external_variables", "coordinates"})
#: Attributes for people. All others mean something in a variable without values, such as a grid mapping.
DESCRIBING = frozenset(
    {"long_name", "name", "comment", "description", "history", "title", "source", "institution", "references"}
)
#: Attributes that name such variables, and attributes that only such variables have.
_NAMES_OF_CONTAINERS = ("grid_mapping", "geometry", "mesh", "coordinate_interpolation")
_OF_CONTAINERS = ("grid_mapping_name", "geometry_type", "interpolation_name", "topology_dimension")
#: Attributes whose words have no order.
_UNORDERED = ("coordinates", "ancillary_variables", "external_variables")
#: Ways to join attributes that differ: those of all files, of the first only, or none but equal ones.
JOINS = ("outer", "first", "exact")
#: The cure where :func:`other_meanings` finds something.
OTHER_MEANING = (
    "correct the attributes in the files; -x leaves a variable out; --join first, in Python join='first', takes all "
    "attributes from the first"
)
#: Two names that the conventions have for one calendar.
_SAME_CALENDAR = {"gregorian": "standard", "365_day": "noleap", "366_day": "all_leap"}
_LISTED = 20
_BLOCK = 1 << 20


def check_join(join: str) -> None:
    """Raise :class:`UnsupportedError` for a way to join attributes that there is not."""
    if join not in JOINS:
        raise UnsupportedError(f"--join {join}: it is one of {', '.join(JOINS)}")


def differences(
    first: Dataset, other: Dataset, along: str | None, *, exact: bool, growing: frozenset[str]
) -> Iterator[str]:
    """Yield what keeps two datasets from being parts of one; values are not read. See :func:`other_meanings`, too.

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
        if not exact and not (isinstance(mine, Variable) and name in DECODING):
            continue
        if growing and is_time(mine) and is_time(theirs):
            same = not exact and name == "calendar" and calendar_of(mine) == calendar_of(theirs)
            if name == "units" or same:
                continue
        if mine.attribute.get(name) != theirs.attribute.get(name):
            yield _difference(fqn, name, mine, theirs)


def _difference(fqn: str, name: str, mine: Any, theirs: Any) -> str:
    pair = [node.attribute.get(name) for node in (theirs, mine)]
    shown = [_show(a) for a in pair]
    if shown[0] == shown[1]:
        shown = [f"{text} ({describe_type(a.type)})" for text, a in zip(shown, pair, strict=True)]
    return f"{fqn}: the attribute {name} is {shown[0]}, not {shown[1]}"


def other_meanings(first: Dataset, other: Dataset) -> Iterator[str]:
    """Yield the attributes that say another thing of the same variable or group, so that no merge is right.

    Those by which numbers are decoded are looked at by :func:`differences`.
    """
    containers = _containers(first) | _containers(other)
    for fqn, variable in first.all_variables.items():
        if (found := other.all_variables.get(fqn)) is None:
            continue
        names = dict.fromkeys([*variable.attribute, *found.attribute])
        for name in names:
            means = name not in DESCRIBING if fqn in containers else name in MEANING
            if means and name not in DECODING and not _same_meaning(name, variable, found):
                yield _difference(fqn, name, variable, found)
    for fqn, group in first.all_groups.items():
        if (there := other.all_groups.get(fqn)) is None:
            continue
        for name in sorted(MEANING_OF_GROUPS & (group.attribute.keys() | there.attribute.keys())):
            if not _same_meaning(name, group, there):
                yield _difference(fqn, name, group, there)


def _containers(dataset: Dataset) -> frozenset[str]:
    """Variables without values of their own: grid mappings, geometries, meshes, interpolations."""
    found = set()
    for fqn, variable in dataset.all_variables.items():
        if any(name in variable.attribute for name in _OF_CONTAINERS):
            found.add(fqn)
        for attribute in _NAMES_OF_CONTAINERS:
            for word in _words(variable.attribute.get(attribute)):
                named = find_variable(dataset, named_by(word, attribute), split_fqn(fqn)[0])
                # Beside it coordinates may be named: "crs: x y".
                if named and not dataset.all_variables[named].dimensions:
                    found.add(named)
    return frozenset(found)


def _words(attribute: Any) -> list[str]:
    """The words of a text, whatever type holds it; none of anything else."""
    if attribute is None or attribute.type.name not in ("char", "string"):
        return []
    return [str(word) for word in attribute.text.replace("\0", " ").split()]


def _same_meaning(name: str, mine: Any, theirs: Any) -> bool:
    pair = mine.attribute.get(name), theirs.attribute.get(name)
    if pair[0] == pair[1]:
        return True
    texts = [_words(attribute) for attribute in pair]
    if all(texts):
        return sorted(texts[0]) == sorted(texts[1]) if name in _UNORDERED else texts[0] == texts[1]
    # A number may stand as another type of number.
    numbers = [None if a is None or a.values.dtype.kind not in "iuf" else a.values.tolist() for a in pair]
    return numbers[0] is not None and numbers[0] == numbers[1]


def _show(attribute: Any) -> str:
    if attribute is None:
        return "missing"
    return repr(attribute.text) if attribute.type.name == "char" else str(attribute.values.tolist())


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


def refuse(found: Sequence[tuple[str, str]], what: str, hint: str | None = None) -> None:
    """Raise a :class:`ModelError` with all that was found: pairs of a source and a difference."""
    if not found:
        return
    lines = [f"{source}: {text}" for source, text in found[:_LISTED]]
    if len(found) > _LISTED:
        lines.append(f"and {len(found) - _LISTED} more")
    raise ModelError(
        f"{what}:\n  " + "\n  ".join(lines), problems=tuple(f"{s}: {t}" for s, t in found), hint=hint
    )

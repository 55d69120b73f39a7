"""Check whether datasets can be joined, and list the conflicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from nczarr.convert.change.nodes import named_variables, words_of
from nczarr.convert.change.selecting import is_time, text_of
from nczarr.errors import ModelError, UnsupportedError
from nczarr.model import ArraySource, Attribute, Dataset, Group, Variable, describe_type, regions, same_values

#: Attributes that determine the decoded values and the missing values. No option joins files in which they differ.
DECODING = frozenset(
    {"scale_factor", "add_offset", "_FillValue", "missing_value", "valid_min", "valid_max", "valid_range",
     "units", "calendar", "month_lengths", "leap_year", "leap_month", "_Unsigned", "_Encoding"}
)  # fmt: skip
#: Attributes that describe the quantity or its location (CF conventions, appendix A; UGRID for meshes).
MEANING = frozenset(
    {"standard_name", "computed_standard_name", "cell_methods", "units_metadata", "positive", "axis", "cf_role",
     "flag_values", "flag_masks", "flag_meanings", "bounds", "climatology", "coordinates", "ancillary_variables",
     "cell_measures", "formula_terms", "grid_mapping", "grid_mapping_name", "geometry", "geometry_type",
     "node_coordinates", "node_count", "nodes", "part_node_count", "interior_ring", "compress", "sample_dimension",
     "instance_dimension", "coordinate_interpolation", "interpolation_name", "interpolation_parameters",
     "tie_point_mapping", "bounds_tie_points", "computational_precision", "interpolation_subarea_flags",
     "mesh", "location", "location_index_set", "topology_dimension", "start_index"}
)  # fmt: skip
#: The same for attributes of groups: the type of CF's discrete geometries, and names of variables.
MEANING_OF_GROUPS = frozenset({"featureType", "external_variables", "coordinates"})
#: Attributes for people. In a variable without values, such as a grid mapping, all others have a meaning.
DESCRIBING = frozenset(
    {"long_name", "name", "comment", "description", "history", "title", "source", "institution", "references"}
)
#: Attributes that name variables without values, and attributes that only such variables have.
_NAMES_OF_CONTAINERS = ("grid_mapping", "geometry", "mesh", "coordinate_interpolation")
_OF_CONTAINERS = ("grid_mapping_name", "geometry_type", "interpolation_name", "topology_dimension")
#: Attributes whose words have no order.
_UNORDERED = ("coordinates", "ancillary_variables", "external_variables")
#: How to join attributes that differ: keep those of all files, keep those of the first file, or refuse.
JOINS = ("outer", "first", "exact")
#: Hint for the conflicts of :func:`other_meanings`.
OTHER_MEANING = (
    "correct the attributes in the files; -x omits a variable; --join first, in Python join='first', takes all "
    "attributes from the first"
)
#: Calendars with two names in the conventions.
_SAME_CALENDAR = {"gregorian": "standard", "365_day": "noleap", "366_day": "all_leap"}
_LISTED = 20
_BLOCK = 1 << 20
_Node = Variable | Group


def check_join(join: str) -> None:
    """Raise :class:`UnsupportedError` for an unknown way to join attributes."""
    if join not in JOINS:
        raise UnsupportedError(f"--join {join}: it is one of {', '.join(JOINS)}")


def differences(
    first: Dataset, other: Dataset, along: str | None, *, exact: bool, growing: frozenset[str]
) -> Iterator[str]:
    """Yield the differences between two datasets that prevent joining them, without reading values.

    Parameters
    ----------
    along : str or None
        The dimension whose size may differ.
    exact : bool
        Attributes must not differ at all.
    growing : frozenset of str
        The variables to join; their units of time may differ.
    """
    for what in ("variable", "dimension", "type", "group"):
        mine, theirs = getattr(first, f"all_{what}s"), getattr(other, f"all_{what}s")
        yield from (f"{fqn}: the {what} is missing" for fqn in mine if fqn not in theirs)
        yield from (f"{fqn}: the first has no such {what}" for fqn in theirs if fqn not in mine)
    for fqn, dimension in first.all_dimensions.items():
        size = other.all_dimensions.get(fqn, dimension).size
        if fqn != along and size != dimension.size:
            yield f"{fqn}: the dimension has the size {size}, not {dimension.size}"
    for fqn, type_ in first.all_types.items():
        if (found := other.all_types.get(fqn, type_)) != type_:
            yield f"{fqn}: the type is {describe_type(found)}, not {describe_type(type_)}"
    for fqn, a, b in _common(first, other, groups=exact):
        if isinstance(a, Variable) and isinstance(b, Variable):
            if a.type != b.type:
                yield f"{fqn}: the type is {b.type.name}, not {a.type.name}"
                continue
            if a.dimensions != b.dimensions:
                shown = [f"({', '.join(map(str, v.dimensions))})" for v in (b, a)]
                yield f"{fqn}: the dimensions are {shown[0]}, not {shown[1]}"
                continue
        for name in _attribute_names(a, b):
            if exact or (isinstance(a, Variable) and name in DECODING):
                is_free = fqn in growing and _is_unit_of_time(name, a, b, exact)
                if not is_free and a.attribute.get(name) != b.attribute.get(name):
                    yield _difference(fqn, name, a, b)


def _common(first: Dataset, other: Dataset, *, groups: bool) -> Iterator[tuple[str, _Node, _Node]]:
    """Yield the variables of both datasets, and the groups if requested."""
    for fqn, variable in first.all_variables.items():
        if fqn in other.all_variables:
            yield fqn, variable, other.all_variables[fqn]
    for fqn, group in first.all_groups.items() if groups else ():
        if fqn in other.all_groups:
            yield fqn, group, other.all_groups[fqn]


def _attribute_names(a: _Node, b: _Node) -> Iterable[str]:
    return dict.fromkeys(chain(a.attribute, b.attribute))


def _is_unit_of_time(name: str, a: _Node, b: _Node, exact: bool) -> bool:
    """True if joining converts the times of two variables, so that this attribute may differ."""
    if not (isinstance(a, Variable) and isinstance(b, Variable) and is_time(a) and is_time(b)):
        return False
    return name == "units" or (not exact and name == "calendar" and calendar_of(a) == calendar_of(b))


def _difference(fqn: str, name: str, a: _Node, b: _Node) -> str:
    pair = [node.attribute.get(name) for node in (b, a)]
    shown = [_show(attribute) for attribute in pair]
    if shown[0] == shown[1]:
        shown = [f"{text} ({describe_type(x.type)})" for text, x in zip(shown, pair, strict=True) if x]
    return f"{fqn}: the attribute {name} is {shown[0]}, not {shown[1]}"


def _show(attribute: Attribute | None) -> str:
    if attribute is None:
        return "missing"
    return repr(attribute.text) if attribute.type.name == "char" else str(attribute.values.tolist())


def other_meanings(first: Dataset, other: Dataset) -> Iterator[str]:
    """Yield the attributes with contradicting meanings, for which no merge is right.

    :func:`differences` compares the attributes in :data:`DECODING`.
    """
    containers = _containers(first) | _containers(other)
    for fqn, a, b in _common(first, other, groups=True):
        if isinstance(a, Group):
            names: Iterable[str] = sorted(MEANING_OF_GROUPS.intersection(_attribute_names(a, b)))
        elif fqn in containers:
            names = [name for name in _attribute_names(a, b) if name not in DESCRIBING | DECODING]
        else:
            names = [name for name in _attribute_names(a, b) if name in MEANING]
        for name in names:
            if not _have_same_meaning(name, a.attribute.get(name), b.attribute.get(name)):
                yield _difference(fqn, name, a, b)


def _containers(dataset: Dataset) -> frozenset[str]:
    """Return the variables without values of their own: grid mappings, geometries, meshes, interpolations."""
    found = set()
    for fqn, variable in dataset.all_variables.items():
        if any(name in variable.attribute for name in _OF_CONTAINERS):
            found.add(fqn)
        for attribute in _NAMES_OF_CONTAINERS:
            # The attribute may also name coordinates: "crs: x y".
            named = named_variables(dataset, fqn, variable.attribute.get(attribute))
            found.update(name for name in named if not dataset.all_variables[name].dimensions)
    return frozenset(found)


def _have_same_meaning(name: str, a: Attribute | None, b: Attribute | None) -> bool:
    if a == b:
        return True
    if a is None or b is None:
        return False
    texts = [words_of(attribute) for attribute in (a, b)]
    if all(texts):
        return sorted(texts[0]) == sorted(texts[1]) if name in _UNORDERED else texts[0] == texts[1]
    # Equal numbers may have different types.
    is_number = a.values.dtype.kind in "iuf" and b.values.dtype.kind in "iuf"
    return is_number and a.values.tolist() == b.values.tolist()


def calendar_of(variable: Variable) -> str:
    """Return the calendar of a time variable, by the first of its names."""
    name = text_of(variable, "calendar").lower() or "standard"
    return _SAME_CALENDAR.get(name, name)


def same_data(fqn: str, mine: ArraySource | None, theirs: ArraySource | None) -> Iterator[str]:
    """Yield a sentence if the values of a variable that is not joined differ."""
    if mine is None or theirs is None or mine.shape != theirs.shape:
        return
    block = list(mine.shape)
    for axis in range(len(block)):
        if np.prod(block, dtype=float) > _BLOCK:
            block[axis] = max(1, int(block[axis] * _BLOCK / np.prod(block, dtype=float)))
    for region in regions(mine.shape, tuple(max(1, n) for n in block)):
        if not same_values(mine.read(region), theirs.read(region)):
            yield f"{fqn}: the values differ, and the variable does not have the joined dimension"
            return


def refuse(found: Sequence[tuple[str, str]], what: str, hint: str | None = None) -> None:
    """Raise a :class:`ModelError` that lists conflicts, if there are any: pairs of a source and a difference."""
    if not found:
        return
    lines = [f"{source}: {text}" for source, text in found]
    more = [f"and {len(lines) - _LISTED} more"] if len(lines) > _LISTED else []
    text = "\n  ".join([f"{what}:", *lines[:_LISTED], *more])
    raise ModelError(text, problems=tuple(lines), hint=hint)

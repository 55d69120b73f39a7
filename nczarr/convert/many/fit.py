"""Check whether datasets can be joined, and list the conflicts, each with the option that removes it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from nczarr import model
from nczarr.convert.change.nodes import named_variables, words_of
from nczarr.convert.verify.digests import bands
from nczarr.errors import ModelError, UnsupportedError
from nczarr.model import ArraySource, Attribute, Dataset, Group, Variable, describe_type
from nczarr.model.coordinates import is_time, text_of
from nczarr.model.times import CALENDARS, calendar_of
from nczarr.model.typed import matches, typed_name
from nczarr.options import Take, named, option

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
#: How to join what differs: keep the attributes of all files, those of the first file, or refuse; ``fill`` also joins
#: variables that some files lack.
JOINS = ("outer", "first", "exact", "fill")
#: Which packing files get that have their own.
REPACKS = ("unpacked", "first", "common")
#: Differences that are removed on request: words for a unit, calendars that agree, the order of dimensions, the
#: direction of coordinates, narrower types, times between the whole numbers of the first file.
ADJUSTMENTS = ("units", "calendar", "order", "flip", "promote", "times")
#: The attributes that ``--repack`` replaces.
PACKING = frozenset({"scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned"})
#: Words for the same unit, in the conventions and in files.
_SYNONYMS = {
    word: unit
    for unit, words in {
        "K": "kelvin degk deg_k degree_k degrees_k degree_kelvin degrees_kelvin",
        "degree_Celsius": "celsius degc deg_c degree_c degrees_c degrees_celsius",
        "m": "meter metre meters metres", "s": "sec second seconds", "kg": "kilogram kilograms",
        "Pa": "pascal pascals", "hPa": "hectopascal hectopascals mbar millibar millibars", "%": "percent",
        "W": "watt watts", "J": "joule joules", "N": "newton newtons", "mol": "mole moles",
        "degree_north": "degrees_north degree_n degrees_n degreen degreesn",
        "degree_east": "degrees_east degree_e degrees_e degreee degreese",
        "degree": "degrees deg", "radian": "radians rad",
    }.items()
    for word in (unit.lower() if len(unit) > 3 else unit, *words.split())
}  # fmt: skip
_UNIT = re.compile(r"([^\W\d]+|%)([+-]?\d+)?")
#: At most so many differences, and sources of a difference, are named.
_LISTED, _NAMED = 20, 3
_Node = Variable | Group


class JoinObstacle(NamedTuple):
    """A difference that prevents joining, and the option that removes it, if there is one."""

    text: str
    cure: str | None = None


@dataclass(frozen=True)
class Fitting:
    """How files that differ are joined; see :func:`nczarr.copy`."""

    join: str = option(
        "outer",
        "outer: keep the attributes of all files, and refuse conflicts that change their meaning; first: keep the "
        "attributes of the first file; exact: refuse any difference; fill: outer, with fill values for variables and "
        "expected steps that files lack (default: outer)",
        choices=JOINS,
        verbs=("join", "append"),
        usual=True,
        planned=True,
    )
    repack: str | None = option(
        None,
        "join numbers with their own packing as floats, in the packing of the first file, or in a new one; the "
        "maximum error is printed",
        choices=REPACKS,
        verbs=("join", "append"),
        planned=True,
    )
    adjust: tuple[str, ...] = option(
        (),
        "accept words for the same unit, calendars that agree, another order of dimensions, flipped coordinates, "
        "narrower types, times in a finer unit: " + ", ".join(ADJUSTMENTS),
        Take.NAMES,
        "WORD,…",
        verbs=("join", "append"),
        usual=True,
        planned=True,
    )
    tolerance: Mapping[str, float] = option(
        dict,
        "accept values of a variable without the joined dimension that differ by at most N",
        Take.NUMBERS,
        "NAME=N",
        verbs=("join", "append"),
        planned=True,
    )
    expect_step: str | None = option(
        None,
        "name missing and repeated steps of the joined coordinate: 6h, 1d, 1mo, 1y, a number, or auto",
        metavar="STEP",
        verbs=("join",),
        planned=True,
    )

    def __post_init__(self) -> None:
        for name, words, known in (
            ("join", [self.join], JOINS),
            ("repack", [self.repack] if self.repack is not None else [], REPACKS),
            ("adjust", self.adjust, ADJUSTMENTS),
        ):
            for word in words:
                if word not in known:
                    raise UnsupportedError(f"{named(name, word)}: it is one of {', '.join(known)}")
        for name, value in self.tolerance.items():
            if not value >= 0:
                raise UnsupportedError(f"{named('tolerance', {name: value})}: not a number of at least 0")

    def of(self, datasets: Sequence[Dataset]) -> Fitting:
        """Return the same without the tolerances of variables that no dataset has."""
        if not self.tolerance:
            return self
        fqns = {fqn for dataset in datasets for fqn in dataset.all_variables}
        kept = {p: n for p, n in self.tolerance.items() if any(matches(fqn, p) for fqn in fqns)}
        return replace(self, tolerance=kept)

    def refuse_unknown(self, datasets: Sequence[Dataset], name: str) -> None:
        """Refuse tolerances of variables that no dataset has; `name` is that of the first one."""
        if unknown := self.tolerance.keys() - self.of(datasets).tolerance.keys():
            raise UnsupportedError(
                f"{named('tolerance', min(unknown))}: there is no such variable", path=name
            )

    @property
    def merges(self) -> bool:
        """The joined dataset has the attributes of all files."""
        return self.join in ("outer", "fill")


def other_meaning_cure() -> str:
    """Return the hint for the conflicts of :func:`other_meanings`."""
    return (
        f"correct the attributes in the files; {named('exclude')} omits a variable; {named('join', 'first')} takes all "
        "attributes from the first"
    )


def other_values_cure() -> str:
    """Return the hint for variables to merge that have other values."""
    return (
        f"{named('exclude')} omits a variable; {named('preprocess')}, a function, renames it in some files; "
        f"{named('along')} joins steps"
    )


def differences(
    first: Dataset,
    other: Dataset,
    along: str | None,
    *,
    exact: bool,
    growing: frozenset[str],
    fixed: bool = False,
) -> Iterator[JoinObstacle]:
    """Yield the differences between two datasets that prevent joining them, without reading values.

    Parameters
    ----------
    along : str or None
        The dimension whose size may differ; None to merge: each may have nodes of its own.
    exact : bool
        Attributes must not differ at all.
    growing : frozenset of str
        The variables to join; their units of time may differ.
    fixed : bool
        The other dataset is appended to the first: only the variables to join get values, so that it may lack all
        other nodes.
    """
    if along is not None:
        needed = growing if fixed and not exact else None
        yield from _missing_nodes(first, other, needed, fixed=fixed)
    for fqn, dimension in first.all_dimensions.items():
        size = other.all_dimensions.get(fqn, dimension).size
        if fqn != along and size != dimension.size:
            text = f"{fqn}: the dimension has the size {size}, not {dimension.size}"
            yield JoinObstacle(
                text, f"{named('select')} selects a common part of all files" if along is None else None
            )
    for fqn, type_ in first.all_types.items():
        if (found := other.all_types.get(fqn, type_)) != type_:
            yield JoinObstacle(f"{fqn}: the type is {describe_type(found)}, not {describe_type(type_)}")
    for fqn, a, b, names in _common(first, other, groups=exact):
        # The attributes of another type differ as a consequence: one sentence for a variable.
        if (obstacle := _other_array(fqn, a, b)) is not None:
            yield obstacle
            continue
        for name in names:
            if exact or (isinstance(a, Variable) and name in DECODING):
                is_free = fqn in growing and _is_unit_of_time(name, a, b, exact)
                if not is_free and a.attribute.get(name) != b.attribute.get(name):
                    yield JoinObstacle(_difference(fqn, name, a, b), _cure(name, a, b))


def _missing_nodes(
    first: Dataset, other: Dataset, needed: frozenset[str] | None, *, fixed: bool
) -> Iterator[JoinObstacle]:
    """Yield the nodes that only one of two datasets has; of the first, those that are `needed`, or all."""
    fill = named("join", "fill")
    for what in ("variable", "dimension", "type", "group"):
        mine, theirs = getattr(first, f"all_{what}s"), getattr(other, f"all_{what}s")
        for n in mine:
            if n not in theirs and (needed is None or n in needed):
                yield JoinObstacle(f"{n}: the {what} is missing", fill)
        for n in theirs:
            if n not in mine:
                cure = _omitting(what) if fixed else fill
                yield JoinObstacle(f"{n}: the first has no such {what}", cure)


def _omitting(what: str) -> str | None:
    """Return the option that omits a node which a stored dataset cannot take."""
    return named("exclude") if what in ("variable", "group") else None


def _other_array(fqn: str, a: _Node, b: _Node) -> JoinObstacle | None:
    """Return the difference of the types of two variables, or of their dimensions; None for groups."""
    if not (isinstance(a, Variable) and isinstance(b, Variable)):
        return None
    if a.type != b.type:
        packed = any(a.attribute.get(n) != b.attribute.get(n) for n in PACKING - {"_FillValue"})
        cure = _repacking() if packed else named("adjust", "promote")
        are_numbers = _has_numbers(a) and _has_numbers(b)
        return JoinObstacle(
            f"{fqn}: the type is {b.type.name}, not {a.type.name}", cure if are_numbers else None
        )
    if a.dimensions != b.dimensions:
        mine, theirs = (f"({', '.join(map(str, v.dimensions))})" for v in (a, b))
        text = f"{fqn}: the dimensions are {theirs}, not {mine}"
        return JoinObstacle(text, named("adjust", "order") if have_same_axes(a, b) else None)
    return None


def _has_numbers(variable: Variable) -> bool:
    return not variable.type.is_user_defined and variable.type.dtype.kind in "iuf"


def _repacking() -> str:
    return f"{named('repack', 'first')}, common or unpacked"


def _cure(name: str, a: _Node, b: _Node) -> str | None:
    """Return the option that removes the difference of an attribute."""
    if not (isinstance(a, Variable) and isinstance(b, Variable)):
        return None
    if name in PACKING and _has_numbers(a):
        return _repacking()
    if name == "units" and same_unit(a, b):
        return named("adjust", "units")
    calendars = {calendar_of(a), calendar_of(b)}
    return named("adjust", "calendar") if name == "calendar" and calendars == CALENDARS else None


def have_same_axes(a: Variable, b: Variable) -> bool:
    """True if two variables have the same dimensions, each once, in any order."""
    return len(a.dimensions) == len(b.dimensions) == len({*a.dimensions} & {*b.dimensions})


def unpacked_alike(a: Variable, b: Variable) -> bool:
    """True if the numbers of two variables stand for the same values."""
    return a.type == b.type and all(a.attribute.get(name) == b.attribute.get(name) for name in PACKING)


def same_unit(a: Variable, b: Variable) -> bool:
    """True if the units of two variables are words for the same unit, and not of times.

    Examples
    --------
    >>> from nczarr.model import FLOAT
    >>> a, b = (Variable("v", FLOAT, attributes=(Attribute.of("units", u),)) for u in ("m s-1", "m/s "))
    >>> same_unit(a, b)
    True
    """
    mine, theirs = text_of(a, "units"), text_of(b, "units")
    # Times are converted, which needs more than words.
    if not ("units" in a.attribute and "units" in b.attribute) or " since " in mine:
        return False
    return _factors(mine) == _factors(theirs)


def _factors(unit: str) -> object:
    """Return the units of a product with their exponents; the text itself if it has another form."""
    found: dict[str, int] = {}
    for mark, word in re.findall(r"([/ .*]*)([^/ .*]+)", unit.replace("**", "").replace("^", "")):
        parts = _UNIT.fullmatch(word)
        # "m/s/kg" is read in two ways.
        if (parts is None and word != "1") or mark.count("/") > 1:
            return unit.strip()
        if parts is not None:
            # Both characters of Unicode for the prefix micro, whose ASCII form is "u".
            spelled = re.sub("^[µμ](?=.)", "u", parts[1])
            name = _SYNONYMS.get(spelled.lower() if len(spelled) > 3 else spelled, spelled)
            found[name] = found.get(name, 0) + int(parts[2] or 1) * (-1 if "/" in mark else 1)
    return found


def _common(first: Dataset, other: Dataset, *, groups: bool) -> Iterator[tuple[str, _Node, _Node, list[str]]]:
    """Yield the variables of both datasets, and the groups if requested, with the names of their attributes."""
    nodes: list[dict[str, _Node]] = [
        {**d.all_variables, **(d.all_groups if groups else {})} for d in (first, other)
    ]
    for fqn, a in nodes[0].items():
        if (b := nodes[1].get(fqn)) is not None:
            yield fqn, a, b, list(dict.fromkeys([*a.attribute, *b.attribute]))


def _is_unit_of_time(name: str, a: _Node, b: _Node, exact: bool) -> bool:
    """True if joining converts the times of two variables, so that this attribute may differ."""
    if not (isinstance(a, Variable) and isinstance(b, Variable) and is_time(a) and is_time(b)):
        return False
    return name == "units" or (not exact and name == "calendar" and calendar_of(a) == calendar_of(b))


def _difference(fqn: str, name: str, a: _Node, b: _Node) -> str:
    pair = [node.attribute.get(name) for node in (b, a)]
    shown = [
        "missing" if x is None else repr(x.text) if x.type.name == "char" else str(x.values.tolist())
        for x in pair
    ]
    # Equal numbers of two types would read as no difference.
    if shown[0] == shown[1]:
        shown = [f"{text} ({describe_type(x.type)})" for text, x in zip(shown, pair, strict=True) if x]
    return f"{fqn}: the attribute {name} is {shown[0]}, not {shown[1]}"


def other_meanings(first: Dataset, other: Dataset) -> Iterator[str]:
    """Yield the attributes with contradicting meanings, for which no merge is right.

    :func:`differences` compares the attributes in :data:`DECODING`.
    """
    containers = _containers(first) | _containers(other)
    for fqn, a, b, names in _common(first, other, groups=True):
        if isinstance(a, Group):
            names = sorted(MEANING_OF_GROUPS.intersection(names))
        elif fqn in containers:
            names = [name for name in names if name not in DESCRIBING | DECODING]
        else:
            names = [name for name in names if name in MEANING]
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


def same_data(
    fqn: str, mine: ArraySource | None, theirs: ArraySource | None, tolerance: Mapping[str, float], where: str
) -> Iterator[JoinObstacle]:
    """Yield a sentence, which ends with `where`, if values differ by more than the tolerance of their variable."""
    if mine is None or theirs is None or mine is theirs or mine.shape != theirs.shape:
        return
    for region in bands(mine.shape, mine.dtype.itemsize, None):
        a, b = mine.read(region), theirs.read(region)
        if not are_close(fqn, a, b, tolerance):
            yield JoinObstacle(f"{fqn}: the values differ{where}", _cure_of_values(fqn, a, b))
            return


def are_close(fqn: str, a: np.ndarray, b: np.ndarray, tolerance: Mapping[str, float]) -> bool:
    """True if the values of a variable are the same, or differ by no more than its tolerance."""
    if model.same_values(a, b):
        return True
    limits = [limit for pattern, limit in tolerance.items() if matches(fqn, pattern)]
    return bool(limits) and _distance(a, b) <= max(limits)


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    """Return the largest difference of two arrays of numbers; infinite for anything else."""
    if a.dtype != b.dtype or a.dtype.kind not in "iuf" or not a.size:
        return np.inf
    # Differences of unsigned numbers would wrap around.
    wide = [x.astype(np.longdouble) for x in (a, b)]
    differ = ~((wide[0] == wide[1]) | (np.isnan(wide[0]) & np.isnan(wide[1])))
    largest = float(abs(wide[0] - wide[1])[differ].max(initial=0))
    return largest if largest == largest else np.inf


def _cure_of_values(fqn: str, a: np.ndarray, b: np.ndarray) -> str | None:
    distance = _distance(a, b)
    # Grids that are the same grid differ by a small part of their steps.
    span = float(np.ptp(a)) if distance < np.inf else 0.0
    if 0 < distance <= 1e-3 * span / max(1, len(a.reshape(-1)) - 1):
        return named("tolerance", {typed_name(model.split_fqn(fqn)[1]): float(f"{distance * 1.05:.1e}")})
    is_flipped = a.ndim == 1 and a.dtype.kind in "iuf" and _distance(a, b[::-1]) <= distance * 1e-3
    return named("adjust", "flip") if is_flipped and distance < np.inf else None


def refuse(
    found: Sequence[tuple[str, str]] | Sequence[tuple[str, JoinObstacle]], what: str, hint: str | None = None
) -> None:
    """Raise a :class:`ModelError` that lists conflicts and cures, if any: pairs of a source and a difference.

    One line names the sources of a difference: of a thousand files with another unit, a user wants to read once.
    """
    if not found:
        return
    cures = dict.fromkeys(d.cure for _, d in found if isinstance(d, JoinObstacle) and d.cure)
    hint = "; ".join([*cures, *([hint] if hint else [])]) or None
    sources: dict[str, list[str]] = {}
    for source, difference in found:
        text = difference.text if isinstance(difference, JoinObstacle) else difference
        sources.setdefault(text, []).append(source)
    lines = [f"{_together(names)}: {text}" for text, names in sources.items()]
    more = [f"and {len(lines) - _LISTED} more differences"] if len(lines) > _LISTED else []
    problems = tuple(f"{name}: {text}" for text, names in sources.items() for name in names)
    raise ModelError("\n  ".join([f"{what}:", *lines[:_LISTED], *more]), problems=problems, hint=hint)


def _together(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others.

    Examples
    --------
    >>> _together(["a.nc", "b.nc"]), _together(["a.nc", "b.nc", "c.nc", "d.nc", "e.nc"])
    ('a.nc, b.nc', 'a.nc, b.nc, c.nc and 2 more')
    """
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")

"""Adjust the models and the packed numbers of sources to each other before they are joined, as options request it.

Each adjustment removes one kind of difference that :func:`nczarr.convert.many.fit.differences` reports. Values change
when they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias, TypeVar

import cftime
import numpy as np

from nczarr import model
from nczarr.convert.change.nodes import find_variable
from nczarr.convert.many import fit
from nczarr.convert.many.fit import Fitting, JoinObstacle, differences, other_meanings, refuse
from nczarr.convert.many.models import SourceModels
from nczarr.convert.many.steps import in_units_of, read_all, steps_of, with_finer_times
from nczarr.convert.verify.digests import bands
from nczarr.errors import NCZarrError, UnsupportedError, error_context
from nczarr.model import Attribute, Dataset, Group, MemorySource, PrimitiveType, Region, Variable, split_fqn
from nczarr.model.coordinates import is_time, text_of
from nczarr.model.sources import ChangedSource, handed
from nczarr.model.stored_form import PART_OF_STEP, Conversion, ConvertedSource, StoredForm, special_numbers
from nczarr.model.times import AGREE, CALENDARS, calendar_of
from nczarr.options import named
from nczarr.system.warning import warn

_G = TypeVar("_G", bound=Group)
_D = TypeVar("_D", str, JoinObstacle)
#: A packing, a variable that has it, and its error bound in words.
Packing: TypeAlias = tuple[StoredForm, Variable, str]
#: Attributes whose numbers are packed like the values.
_PACKED = ("valid_min", "valid_max", "valid_range", "flag_values", "flag_masks")


@dataclass(frozen=True, eq=False)
class ReorderedSource(ChangedSource):
    """The values of a source with its axes in another order, some of them reversed.

    Parameters
    ----------
    axes : tuple of int
        The axis of the source for each axis.
    reversed : frozenset of int
        Axes of the result that run backwards.
    """

    axes: tuple[int, ...]
    reversed: frozenset[int] = frozenset()

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.inner.shape[axis] for axis in self.axes)

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        """Read a region; see :meth:`nczarr.model.ArraySource.read`."""
        inside = [slice(0)] * len(region)
        turned = [slice(None)] * len(region)
        for i, (part, size) in enumerate(zip(region, self.shape, strict=True)):
            if i in self.reversed:
                chosen = range(part.start, part.stop, part.step or 1)
                last = chosen[-1] if chosen else part.start - 1
                part = slice(size - 1 - last, size - part.start, part.step or 1)
                turned[i] = slice(None, None, -1)
            inside[self.axes[i]] = part
        values = self.inner.read(tuple(inside)).transpose(self.axes)[tuple(turned)]
        return handed(np.ascontiguousarray(values) if out is None else values, out)


def fitted(
    datasets: Sequence[Dataset],
    names: Sequence[str],
    along: str | None,
    is_new: bool,
    fitting: Fitting,
    refused: str,
    *,
    fixed: bool = False,
) -> tuple[SourceModels, frozenset[str]]:
    """Return the datasets as they can be joined, with times in the units of the first, and the variables to join.

    Parameters
    ----------
    names : sequence of str
        Names of the datasets, for messages.
    along : str or None
        The dimension along which they are joined; None to merge them: each may have variables of its own.
    is_new : bool
        The datasets do not have the dimension.
    refused : str
        The beginning of the message about conflicts.
    fixed : bool
        The first dataset cannot change.

    Raises
    ------
    ModelError
        If the datasets do not fit together; the message lists the conflicts.
    UnsupportedError
        If times or packed numbers cannot be converted.
    """
    found = _adjusted(datasets, names, along, fitting, fixed=fixed)
    first = found[0]
    if along is not None:
        growing = growing_variables(first, along, is_new)
    else:
        growing = frozenset[str]().union(*[d.all_variables for d in found.distinct()])
    exact = fitting.join == "exact"
    like_first = partial(differences, first, along=along, exact=exact, growing=growing, fixed=fixed)
    refuse(_of_others(found, names, like_first, () if not exact else None), refused)
    if fitting.merges:
        meanings = _of_others(found, names, partial(other_meanings, first), fit.MEANING_OF_GROUPS)
        refuse(meanings, refused, fit.other_meaning_cure())
    # The stored times of an append are refined before, in one update.
    if "times" in fitting.adjust and not fixed:
        first = with_finer_times(first, found[1:], growing)
    parts, unlike = SourceModels([first]), list[tuple[str, JoinObstacle]]()
    for number, name in enumerate(names[1:], 1):
        with error_context(name):
            other = in_units_of(first, old := found[number], growing)
        if other is old:
            parts.append_from(found, number)
        else:
            parts.append(other)
        theirs = other.all_variables
        where = "" if along is None else ", and the variable does not have the joined dimension"
        for fqn, mine in first.all_variables.items():
            if fqn in theirs and (along is None or fqn not in growing):
                pair = mine.data, theirs[fqn].data
                unlike += [(name, d) for d in fit.same_data(fqn, *pair, fitting.tolerance, where)]
    refuse(unlike, refused, fit.other_values_cure() if along is None else None)
    return parts, growing


def _of_others(
    found: SourceModels,
    names: Sequence[str],
    compared: Callable[[Dataset], Iterable[_D]],
    attributes: Collection[str] | None,
) -> list[tuple[str, _D]]:
    """Return the differences of all datasets but the first, each with the name of its dataset.

    Parameters
    ----------
    compared : callable
        It returns the differences of a dataset, which do not depend on values.
    attributes : collection of str or None
        Attributes of the root that the differences depend on; None: all. Of datasets that declare the same, one is
        compared: of a million files of an archive nearly all do.
    """
    known: dict[Hashable, list[_D]] = {}
    unlike: list[tuple[str, _D]] = []
    for number, name in enumerate(names[1:], 1):
        key = number if attributes is None else found.declarations(number, attributes)
        if key not in known:
            known[key] = list(compared(found[number]))
        unlike += [(name, difference) for difference in known[key]]
    return unlike


def growing_variables(dataset: Dataset, along: str, is_new: bool) -> frozenset[str]:
    """Return the variables that have a dimension, or will have it."""
    if not is_new:
        return frozenset(fqn for fqn, v in dataset.all_variables.items() if along in v.dimensions)
    coordinates = dataset.all_variables.keys() & dataset.all_dimensions.keys()
    # The bounds of a coordinate that all files share are equal in all of them, too.
    bounds = {(split_fqn(c)[0], text_of(dataset.all_variables[c], "bounds")) for c in coordinates}
    group = split_fqn(along)[0]
    inside = [f for f in dataset.all_variables if group == "/" or f.startswith(f"{group}/")]
    return frozenset(f for f in inside if (f not in coordinates or f == along) and split_fqn(f) not in bounds)


def _adjusted(
    datasets: Sequence[Dataset], names: Sequence[str], along: str | None, fitting: Fitting, *, fixed: bool
) -> SourceModels:
    """Return the datasets with the differences removed that the options name."""
    fitting.refuse_unknown(datasets, names[0])
    asks_nothing = fitting.join != "fill" and not fitting.adjust and not fitting.repack
    if asks_nothing and isinstance(datasets, SourceModels):
        return datasets
    found = list(datasets)
    if fitting.join == "fill" and along is not None:
        found = _completed(found, along, fixed=fixed)
    if fitting.adjust:
        for i, other in enumerate(found[1:], 1):
            with error_context(names[i]):
                found[i] = _like(found[0], other, along, fitting)
    if fitting.repack or "promote" in fitting.adjust:
        found = _repacked(found, names, fitting, fixed=fixed)
    return SourceModels(found)


# --- variables that some files lack


def _completed(datasets: list[Dataset], along: str, *, fixed: bool) -> list[Dataset]:
    """Return datasets that all have the nodes of any; variables along the joined dimension have no data there."""
    whole = datasets[0]
    for other in () if fixed else datasets[1:]:
        whole = with_nodes(whole, other)
    lacking = {fqn for d in datasets for fqn in whole.all_variables.keys() - d.all_variables.keys()}
    if fixed:
        # The join has declared the default fill value where files lacked a variable: those of an append do not.
        lacking |= {fqn for fqn, v in whole.all_variables.items() if _declares_default_fill(v)}

    def variable(own: Dataset, fqn: str, v: Variable) -> Variable:
        if fqn not in lacking or along not in v.dimensions or (fixed and own is datasets[0]):
            return v
        return with_fill(fqn, v if fqn in own.all_variables else v.with_data(None))

    def complete(own: Dataset) -> Dataset:
        # A file without the joined dimension has no number of steps to fill.
        if not lacking or (along in whole.all_dimensions and along not in own.all_dimensions):
            return own
        return model.rewrite(with_nodes(own, whole), variable=partial(variable, own))

    return [complete(own) for own in datasets]


def with_fill(fqn: str, variable: Variable) -> Variable:
    """Return a variable that declares its fill value.

    Raises
    ------
    UnsupportedError
        If its type has none by default.
    """
    if model.own_fill_value(variable) is not None or variable.type in (model.CHAR, model.STRING):
        return variable
    # Readers take no default fill value of a byte for a missing value.
    if not variable.type.is_atomic or variable.type.dtype.itemsize == 1:
        raise UnsupportedError(
            f"{named('join', 'fill')}: values are missing, and the type {variable.type.name} has no fill "
            "value by default",
            fqn=fqn,
            hint=f"add _FillValue to the files, or omit the variable with {named('exclude')}",
        )
    fill = Attribute.of("_FillValue", model.default_fill(variable.type), variable.type)
    storage = replace(variable.storage, no_fill=False)
    return replace(variable, attributes=(*variable.attributes, fill), storage=storage)


def _declares_default_fill(variable: Variable) -> bool:
    """Return True if a variable may have its fill value from :func:`with_fill`."""
    fill = model.own_fill_value(variable)
    has_default = variable.type.is_atomic and variable.type.dtype.itemsize > 1
    return fill is not None and has_default and bool(fill == model.default_fill(variable.type))


def with_nodes(group: _G, other: Group) -> _G:
    """Return a group with the nodes that only the other group has behind its own."""
    taken = {node.name for nodes in (group.variables, group.groups, group.types) for node in nodes}
    theirs = {g.name: g for g in other.groups}
    sizes = {d.name for d in group.dimensions}
    inside = tuple(with_nodes(g, theirs[g.name]) if g.name in theirs else g for g in group.groups)
    return replace(
        group,
        types=group.types + tuple(t for t in other.types if t.name not in taken),
        dimensions=group.dimensions + tuple(d for d in other.dimensions if d.name not in sizes),
        variables=group.variables + tuple(v for v in other.variables if v.name not in taken),
        groups=inside + tuple(g for g in other.groups if g.name not in taken),
    )


# --- little differences


def _like(first: Dataset, other: Dataset, along: str | None, fitting: Fitting) -> Dataset:
    """Return a dataset with the order of axes, the directions, units and calendars of another one."""
    adjust = fitting.adjust
    if "calendar" in adjust:
        other = _in_calendar(first, other)
    flipped: dict[str, frozenset[int]] = {}
    if "flip" in adjust:
        flipped = _flipped(first, other, along, fitting.tolerance)

    def variable(fqn: str, v: Variable) -> Variable:
        own = first.all_variables.get(fqn, v)
        if "units" in adjust and own is not v and fit.same_unit(own, v):
            attributes = [own.attribute["units"] if a.name == "units" else a for a in v.attributes]
            v = replace(v, attributes=tuple(attributes))
        turned = flipped.get(fqn, frozenset())
        reorder = "order" in adjust and own.dimensions != v.dimensions and fit.have_same_axes(own, v)
        if not (reorder or turned):
            return v
        dimensions = own.dimensions if reorder else v.dimensions
        axes = tuple(v.dimensions.index(ref) for ref in dimensions)
        storage = replace(v.storage.with_axes(axes), shard_shape=None)
        backwards = frozenset(axes.index(axis) for axis in turned)
        data = v.data and ReorderedSource(v.data, axes, backwards)
        return replace(v, dimensions=dimensions, storage=storage, data=data)

    return model.rewrite(other, variable=variable)


def _flipped(
    first: Dataset, other: Dataset, along: str | None, tolerance: Mapping[str, float]
) -> dict[str, frozenset[int]]:
    """Return the axes of each variable that run against those of the first dataset."""

    def runs_backwards(fqn: str) -> bool:
        """True if the coordinate of a dimension has the values of the first dataset in reverse order."""
        mine, theirs = (steps_of(dataset, fqn) for dataset in (first, other))
        if mine is None or theirs is None or mine.shape != theirs.shape or mine.dtype.kind == "O":
            return False
        is_same = fit.are_close(fqn, mine, theirs, tolerance)
        return not is_same and fit.are_close(fqn, mine, theirs[::-1], tolerance)

    dimensions = {fqn for fqn in first.all_dimensions if fqn != along and runs_backwards(fqn)}
    pairs = {  # the two bounds of a cell, where they change their places too
        find_variable(other, text_of(other.all_variables[fqn], "bounds"), split_fqn(fqn)[0])
        for fqn in dimensions
    }
    found = {}
    for fqn, v in other.all_variables.items():
        axes = frozenset(i for i, ref in enumerate(v.dimensions) if ref in dimensions)
        own = first.all_variables.get(fqn)
        if fqn in pairs and own is not None and own.data is not None and v.data is not None and axes == {0}:
            values = read_all(v.data)[::-1]
            if values.ndim == 2 and fit.are_close(fqn, read_all(own.data), values[:, ::-1], tolerance):
                axes |= {1}
        if axes:
            found[fqn] = axes
    return found


def _in_calendar(first: Dataset, other: Dataset) -> Dataset:
    """Return a dataset with times of ``standard`` or ``proleptic_gregorian`` in the calendar of the first one.

    Raises
    ------
    UnsupportedError
        If a time is before the calendars agree.
    """
    calendars: dict[str, str] = {}
    for fqn, v in other.all_variables.items():
        own = first.all_variables.get(fqn)
        if own is None or v.data is None or not (is_time(own) and is_time(v)):
            continue
        if {calendar_of(own), calendar_of(v)} == CALENDARS:
            calendars[fqn] = calendar_of(own)
            _refuse_early(fqn, v)

    def dated(v: Variable, calendar: str | None) -> Variable:
        """Return a variable whose reference date both calendars have."""
        unit = text_of(v, "units").partition(" since ")[0]
        new = {"units": Attribute.of("units", f"{unit} since 2000-01-01 00:00:00")}
        if calendar is not None:
            new["calendar"] = Attribute.of("calendar", calendar)
        kept = [a for a in v.attributes if a.name not in new]
        return replace(v, attributes=(*kept, *new.values()))

    later = model.rewrite(other, variable=lambda fqn, v: dated(v, None) if fqn in calendars else v)
    moved = in_units_of(later, other, other.all_variables)
    return model.rewrite(moved, variable=lambda fqn, v: dated(v, calendars[fqn]) if fqn in calendars else v)


def _refuse_early(fqn: str, variable: Variable) -> None:
    assert variable.data is not None
    packing = packing_of(variable)
    values = read_all(variable.data) if packing is None else packing.decoded(read_all(variable.data))
    if not values.size:
        return
    with error_context(fqn=fqn):
        try:
            first = cftime.num2date(float(values.min()), text_of(variable, "units"), calendar_of(variable))
        except (ValueError, TypeError, OverflowError) as error:
            raise UnsupportedError(f"times cannot be converted: {error}") from None
        if (first.year, first.month, first.day) < AGREE:
            raise UnsupportedError(
                f"{named('adjust', 'calendar')}: {first} is before 1582-10-15, from when the calendars agree"
            )


# --- packing


def _repacked(
    datasets: list[Dataset], names: Sequence[str], fitting: Fitting, *, fixed: bool
) -> list[Dataset]:
    changes: list[dict[str, Variable]] = [{} for _ in datasets]
    for fqn in datasets[0].all_variables:
        at = [i for i, d in enumerate(datasets) if fqn in d.all_variables]
        variables = [datasets[i].all_variables[fqn] for i in at]
        if all(fit.unpacked_alike(variables[0], v) for v in variables[1:]):
            continue
        known = [p for v in variables if (p := packing_of(v)) is not None]
        mode = fitting.repack or "promote"
        if len(known) < len(variables):
            continue
        if fitting.repack is None and (
            any((p.scale, p.offset) != (known[0].scale, known[0].offset) for p in known)
            or len({v.type for v in variables}) == 1
        ):
            continue
        # Rounded to a common scale, two steps could become one.
        if mode == "common" and (fqn in datasets[0].all_dimensions or is_time(variables[0])):
            mode = "unpacked"
        with error_context(names[0], fqn=fqn):
            new, like, bound = target_packing(mode, variables, known, fixed=fixed)
        for i, v, old in zip(at, variables, known, strict=True):
            # The first dataset is the target of an append, which has its packing.
            if fixed and i == 0:
                continue
            with error_context(names[i], fqn=fqn):
                changes[i][fqn] = _checked(v, old, new, like, mode)
        if fitting.repack:
            warn(f"{named('repack', mode)}: {fqn}: {bound}")

    pairs = zip(datasets, changes, strict=True)
    return [model.rewrite(d, variable=new.get) if new else d for d, new in pairs]


def _checked(variable: Variable, old: StoredForm, new: StoredForm, like: Variable, mode: str) -> Variable:
    """Return a repacked variable; read all of its values first, where some may not fit."""
    lossy = mode in ("unpacked", "common")
    try:
        changed = repacked(variable, old, new, like, lossy=lossy)
        # A value that does not fit is found before a byte is written.
        if not lossy and isinstance(changed.data, ConvertedSource):
            for region in bands(changed.data.shape, changed.data.dtype.itemsize, None):
                changed.data.read(region)
    except NCZarrError as error:
        error.hint = (
            error.hint
            or f"{named('repack', 'common')} finds a packing for all values, "
            f"{named('repack', 'unpacked')} stores floats"
        )
        raise
    return changed


# --- the packing of one variable


def packing_of(variable: Variable) -> StoredForm | None:
    """Return how the numbers of a variable stand for values, whatever their units are.

    Examples
    --------
    >>> from nczarr.model import SHORT
    >>> packing_of(Variable("v", SHORT, attributes=(Attribute.of("scale_factor", 0.5),))).scale
    0.5
    """
    if variable.type.is_user_defined:
        return None
    form = StoredForm.of(variable.type, variable.attribute, defaults=True)
    return form and replace(form, time=None, length=None)


def declares_missing(variable: Variable) -> bool:
    """True if an attribute of a variable names a number that stands for missing values."""
    return model.own_fill_value(variable) is not None or "missing_value" in variable.attribute


def repacked(
    variable: Variable, old: StoredForm, new: StoredForm, like: Variable, *, lossy: bool
) -> Variable:
    """Return a variable with the type and the packing of another variable."""
    attributes = [a for a in variable.attributes if a.name not in fit.PACKING]
    for i, a in enumerate(attributes):
        if a.name in _PACKED and a.type == variable.type and old != new:
            known, like_known = (replace(form, fill=0, missing=()) for form in (old, new))
            conversion = Conversion(known, like_known, is_lossless=not lossy)
            numbers = ConvertedSource(MemorySource(a.values), conversion, like.type.dtype)
            attributes[i] = Attribute.of(a.name, numbers.read((slice(0, len(a.values)),)), like.type)
    attributes += [a for a in like.attributes if a.name in fit.PACKING]
    data = variable.data
    if data is not None and not (old.is_like(new) and variable.type == like.type):
        conversion = Conversion(old, new, is_lossless=not lossy)
        variable = variable.with_new_values(ConvertedSource(data, conversion, like.type.dtype))
    return replace(variable, type=like.type, attributes=tuple(attributes))


def target_packing(
    mode: str, variables: Sequence[Variable], packings: Sequence[StoredForm], *, fixed: bool
) -> Packing:
    """Return the common packing of variables, a variable that has it, and its error bound in words.

    Parameters
    ----------
    mode : {'unpacked', 'first', 'common', 'promote'}
        Floats; the packing of the first variable; a new packing of its type for the range of all values; the widest
        type, where only types and fill values differ.
    fixed : bool
        The first variable cannot change.
    """
    if mode in ("unpacked", "common") and not any(p.is_packed for p in packings):
        mode = "promote"
    if mode == "first" or fixed:
        return _packing_of_first(variables, packings[0], fixed=fixed)
    if mode == "promote":
        return _widest_packing(variables, packings)
    return _unpacked(packings) if mode == "unpacked" else _packing_for_range(variables, packings)


def _packing_of_first(variables: Sequence[Variable], first: StoredForm, *, fixed: bool) -> Packing:
    """Return the packing of the first variable, with a fill value if only others declare missing values."""
    like, new = variables[0], first
    if model.own_fill_value(like) is None and any(map(declares_missing, variables[1:])):
        # Readers take the default fill value of a byte for a value, and a fixed variable gets no attribute: there a
        # missing value of another file is refused, not stored as a number that no reader masks.
        new = replace(new, fill=None)
        if not fixed and like.type.dtype.itemsize > 1:
            new = replace(new, fill=first.fill)
            own = Attribute.of("_FillValue", model.default_fill(like.type), like.type)
            like = replace(like, attributes=(*like.attributes, own))
    return new, like, f"no value changes by more than its rounding, or {PART_OF_STEP:.1g} of its old step"


def _widest_packing(variables: Sequence[Variable], packings: Sequence[StoredForm]) -> Packing:
    """Return the packing of the first variable in the type that holds the numbers of all."""
    first, dtype = packings[0], np.result_type(*[p.dtype for p in packings])
    declaring = [i for i, v in enumerate(variables) if declares_missing(v)] or [0]
    at = min(declaring, key=lambda i: packings[i].dtype != dtype)  # the widest, if there is one
    fill, is_declared = packings[at].fill, declares_missing(variables[at])
    if (fill is None or not is_declared) and dtype.itemsize > 1:
        fill = special_numbers(Variable("v", _type_of(dtype)))[-1]
    elif not is_declared:
        fill = None
    new = _form(dtype, first.scale, first.offset, fill, narrow=first.narrow)
    numbers = {"scale_factor": first.scale, "add_offset": first.offset}
    # The attributes themselves, since a scale_factor in float32 decodes to other values than one in float64.
    attributes = [variables[0].attribute[name] for name, number in numbers.items() if number is not None]
    return new, _variable_of(new, attributes, is_declared=is_declared), "no value changes"


def _unpacked(packings: Sequence[StoredForm]) -> Packing:
    """Return the floats that hold the values of all packings."""
    # float32 has 24 bits: all of a packing that readers decode in float32, from numbers of at most 16 bits.
    narrow = all(p.narrow and (p.dtype.kind == "f" or p.dtype.itemsize <= 2) for p in packings)
    new = _form(np.dtype("f4" if narrow else "f8"), None, None, np.nan)
    return new, _variable_of(new), f"values are decoded in float64 and stored as {new.dtype.name}"


def _packing_for_range(variables: Sequence[Variable], packings: Sequence[StoredForm]) -> Packing:
    """Return a packing in integers for the range of all values, with one number for missing ones."""
    low, high = _range(variables, packings)
    first = packings[0].dtype
    dtype = first if first.kind in "iu" and first.itemsize <= 4 else np.dtype("i2")
    limits = np.iinfo(dtype)
    fill = int(limits.max if dtype.kind == "u" else limits.min)
    scale = (high - low) / (2.0 ** (8 * dtype.itemsize) - 2) or 1.0
    # The numbers of unsigned types begin at 0, those of signed types behind the fill value.
    offset = low if dtype.kind == "u" else low - scale * (limits.min + 1)
    new = _form(dtype, scale, offset, fill)
    attributes = [Attribute.of("scale_factor", scale), Attribute.of("add_offset", offset)]
    return new, _variable_of(new, attributes), f"no value changes by more than {scale / 2:.3g}"


def _form(
    dtype: np.dtype,
    scale: float | None,
    offset: float | None,
    fill: int | float | None,
    *,
    narrow: bool = False,
) -> StoredForm:
    """Return the form of numbers whose only missing value is the fill value."""
    missing = () if fill is None else (fill,)
    return StoredForm(dtype, scale, offset, narrow or dtype == "f4", fill, missing)


def _variable_of(
    form: StoredForm, packing: Sequence[Attribute] = (), *, is_declared: bool = True
) -> Variable:
    """Return a variable of a form with the attributes of its packing, and its fill value if that is declared."""
    type_, attributes = _type_of(form.dtype), [*packing]
    if is_declared and form.fill is not None:
        attributes.append(Attribute.of("_FillValue", form.dtype.type(form.fill), type_))
    return Variable("v", type_, attributes=tuple(attributes))


def _type_of(dtype: np.dtype) -> PrimitiveType:
    type_ = model.primitive_for_dtype(dtype)
    if type_ is None:
        raise UnsupportedError("no type holds the numbers of all files")
    return type_


def _range(variables: Sequence[Variable], packings: Sequence[StoredForm]) -> tuple[float, float]:
    """Return the smallest and the largest value."""
    low, high = np.inf, -np.inf
    for variable, packing in zip(variables, packings, strict=True):
        if (data := variable.data) is None:
            continue
        for region in bands(data.shape, data.dtype.itemsize, variable.storage.chunk_shape):
            numbers = np.asarray(data.read(region)).view(packing.dtype)
            values = packing.decoded(numbers[~packing.is_missing(numbers)])
            # One NaN would make both ends of the range NaN.
            values = values[~np.isnan(values)]
            if values.size:
                low, high = min(low, float(values.min())), max(high, float(values.max()))
    # For an infinite range, the scale would be infinite, and all numbers would be 0.
    if (np.isinf(high) and high > 0) or (np.isinf(low) and low < 0):
        raise UnsupportedError(
            f"{named('repack', 'common')}: there are infinite values",
            hint=f"{named('repack', 'unpacked')} stores floats",
        )
    return (low, high) if low <= high else (0.0, 0.0)

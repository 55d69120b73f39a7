"""Name the first value that a write changes: casts are those of netCDF4-python, which says nothing of them.

Programs written for netCDF4-python rely on its casts, so they stay. A value that comes back as another one is the most
frequent silent error of all, so the first one of each variable is named in a warning.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nczarr.model import Attribute
from nczarr.netcdf4.values.indexing import Index
from nczarr.netcdf4.values.types import Settings
from nczarr.session import Session, VariableNode
from nczarr.system.warning import warn_once

#: Attributes that netCDF4-python applies to values only if a variable scales them.
_SCALING = ("scale_factor", "add_offset", "_Unsigned")


class ChangedValueWarning(UserWarning):
    """A value comes back as another one; given once for each variable of an open dataset."""


def warn_of_changes(
    session: Session,
    node: VariableNode,
    settings: Settings,
    index: Index,
    values: np.ndarray,
    stored: np.ndarray,
) -> None:
    """Warn of the first value that is stored as another one, once for each variable.

    Parameters
    ----------
    index : Index
        The selection.
    values, stored : ndarray
        The given values, and those that are written; both have the shape of the selection.
    """
    if values.dtype == stored.dtype and not settings.scale:
        return  # the hot path
    type_ = node.type
    if stored.dtype.kind not in "iuf" or values.dtype.kind not in "biuf" or not type_.is_atomic:
        return
    if settings.digit is not None or settings.quantization is not None:
        return  # the program asked for rounding
    attributes = node.attributes
    packed = settings.scale and ("scale_factor" in attributes or "add_offset" in attributes)
    if _is_kept(values, stored, attributes if packed else {}):
        return
    from nczarr.model.stored_form import StoredForm  # few writes come so far

    kept = attributes if settings.scale else {n: a for n, a in attributes.items() if n not in _SCALING}
    form = StoredForm.of(type_, kept, defaults=True)
    if form is None or node.fqn in session.warned:
        return
    # The numbers of a program are in the units of the variable, and it may give the fill value itself.
    form = replace(form, time=None, length=None, missing=(), fill=None)
    places = np.flatnonzero(~np.ma.getmaskarray(values))  # masked elements get the fill value
    change = form.change(np.ma.getdata(values).reshape(-1)[places], stored.reshape(-1)[places])
    if change is None:
        return
    inside = np.unravel_index(int(places[change.place[0]]), values.shape)
    own = zip(index.axes, inside, strict=False)
    change = change._replace(
        place=tuple([axis if isinstance(axis, int) else int(axis[number]) for axis, number in own])
    )
    text = f"{session.name}: {node.fqn}: {change.done()}; each variable has one warning"
    warn_once(session.warned, node.fqn, text, ChangedValueWarning)


def _is_kept(values: np.ndarray, stored: np.ndarray, packing: dict[str, Attribute]) -> bool:
    """Return True if a look at all values is enough to see that none changes."""
    if packing:
        return stored.dtype.kind in "iu" and _is_in_range(values, stored.dtype, packing)
    if np.can_cast(values.dtype, stored.dtype) or (stored.dtype.kind == "f" and values.dtype.kind in "iub"):
        return True
    if stored.dtype.kind == "f":
        return bool(np.isfinite(stored).all())
    return bool((values == stored).all())  # True where masked


def _is_in_range(values: np.ndarray, dtype: np.dtype, packing: dict[str, Attribute]) -> bool:
    """Return True if the smallest and the largest value fit a packed integer; NaN does not."""
    number = {"scale_factor": 1.0, "add_offset": 0.0}
    for name in number:
        if (attribute := packing.get(name)) is not None:
            if attribute.values.dtype.kind not in "iuf" or attribute.values.size != 1:
                return True  # no packing: netCDF4-python ignores it
            number[name] = float(attribute.values.flat[0])
    scale, offset = number["scale_factor"], number["add_offset"]
    if not scale:
        return True
    limits = np.iinfo(dtype)

    def fits(numbers: np.ndarray) -> bool:
        first, last = sorted((float(end) - offset) / scale for end in (numbers.min(), numbers.max()))
        return bool(limits.min <= first and last <= limits.max)

    # Numbers under a mask mostly fit as well, and to leave them out takes four times as long.
    return fits(np.ma.getdata(values)) or (np.ma.isMA(values) and (not np.ma.count(values) or fits(values)))

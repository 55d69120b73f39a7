"""Complete an index to one item for each axis: the rule of every door that takes an index.

The API, `vindex`, the model and arrays of Zarr have different items (lists, masks, single points), but an ellipsis and
a missing axis mean the same in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nczarr.errors import SelectionError, also


def one_for_each_axis(items: Sequence[Any], ndim: int, fqn: str | None = None) -> list[Any]:
    """Return an index with whole slices in place of its ellipsis, or behind its last item.

    Raises
    ------
    SelectionError
        If there are two ellipses, or more items than axes. The second is a ValueError too, as of netCDF4-python.

    Examples
    --------
    >>> one_for_each_axis((0, ..., 1), 4)
    [0, slice(None, None, None), slice(None, None, None), 1]
    >>> one_for_each_axis((0, 1), 1, "/v")
    Traceback (most recent call last):
    nczarr.errors.SelectionError: /v: the index has 2 parts for 1 dimensions
    """
    # `is`, because `==` compares an array with the ellipsis element by element.
    dots = [number for number, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise SelectionError("the index has two ellipses", fqn=fqn)
    given = len(items) - len(dots)
    if given > ndim:
        raise also(SelectionError, ValueError)(f"the index has {given} parts for {ndim} dimensions", fqn=fqn)
    at = dots[0] if dots else given
    return [*items[:at], *[slice(None)] * (ndim - given), *items[at + len(dots) :]]

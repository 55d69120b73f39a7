"""Show values of coordinates and other short variables as text: numbers, dates, names of enums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from nczarr.errors import NCZarrError
from nczarr.model.nodes import Group, Variable
from nczarr.model.sources import ArraySource, Region
from nczarr.model.types import CHAR, STRING
from nczarr.text import format_value

#: Most bytes of a chunk that a preview reads.
MOST_PREVIEWED = 1 << 20
#: Estimated bytes of a string.
_STRING_BYTES = 64
#: Most values that are not cut to the first ones and the last one, and most characters of a value.
_WHOLE, _FIRST, _LONGEST = 5, 2, 24
_Shape = tuple[int, ...]


def text_of(node: Variable | Group, name: str) -> str:
    """Return a text attribute without padding; an empty string if there is none."""
    attribute = node.attribute.get(name)
    if attribute is None or attribute.type not in (CHAR, STRING):
        return ""
    return attribute.text.strip("\0 ")


def is_time(variable: Variable) -> bool:
    """True if a variable has numbers with units such as ``days since 2000-01-01``."""
    if variable.type.is_user_defined or variable.type.dtype.kind not in "iuf":
        return False
    return " since " in text_of(variable, "units")


def date_of(variable: Variable, value: Any) -> str:
    """Return the date of a value of a time variable, or the number if it is none.

    Examples
    --------
    >>> from nczarr.model import INT, Attribute
    >>> date_of(Variable("t", INT, attributes=(Attribute.of("units", "hours since 2000-01-01"),)), 36)
    '2000-01-02 12:00:00'
    """
    import cftime

    calendar = text_of(variable, "calendar").lower() or "standard"
    try:
        date = cftime.num2date(float(value), text_of(variable, "units"), calendar)
    except (ValueError, TypeError, OverflowError, AttributeError):  # the last for NaN
        return str(value)
    return str(date.isoformat(" ")).removesuffix(" 00:00:00")


def preview(variable: Variable, data: ArraySource, chunks: _Shape | None, most: int = MOST_PREVIEWED) -> str:
    """Return the first values and the last one of a scalar, or of a variable with one dimension.

    The result is empty for other variables, for characters, user-defined types and packed values, for chunks of more
    than `most` bytes, and if the values cannot be read.

    Examples
    --------
    >>> import numpy as np
    >>> from nczarr.model import INT, MemorySource
    >>> preview(Variable("x", INT, ("/x",)), MemorySource(np.arange(100)), None)
    '0, 1, … 99'
    """
    if len(data.shape) > 1:
        return ""
    count = (data.shape or (1,))[0]
    ends = [slice(0, count)] if count <= _WHOLE else [slice(0, _FIRST), slice(count - 1, count)]
    return _shown(variable, data, chunks, most, [(end,) if data.shape else () for end in ends])


def corners(variable: Variable, data: ArraySource, chunks: _Shape | None, most: int = MOST_PREVIEWED) -> str:
    """Return the first values and the last one of a variable with any number of dimensions; see :func:`preview`.

    Examples
    --------
    >>> import numpy as np
    >>> from nczarr.model import INT, MemorySource
    >>> corners(Variable("v", INT, ("/y", "/x")), MemorySource(np.arange(12).reshape(3, 4)), None)
    '0, 1, … 11'
    """
    if len(data.shape) <= 1 or 0 in data.shape:
        return preview(variable, data, chunks, most)
    first = (*(slice(0, 1) for _ in data.shape[1:]), slice(0, min(_FIRST, data.shape[-1])))
    return _shown(variable, data, chunks, most, [first, tuple(slice(n - 1, n) for n in data.shape)])


def _shown(
    variable: Variable, data: ArraySource, chunks: _Shape | None, most: int, regions: Sequence[Region]
) -> str:
    """Return the values of some regions as text."""
    packed = {"scale_factor", "add_offset"} & variable.attribute.keys()
    if variable.type == CHAR or variable.type.is_user_defined or packed:
        return ""
    size = _STRING_BYTES if variable.type == STRING else data.dtype.itemsize
    # info and notebooks must not read a large chunk for a few values.
    if math.prod(map(min, chunks or (_WHOLE,), data.shape or (1,))) * size > most:
        return ""
    try:
        values = [data.read(region).reshape(-1) for region in regions]
    # A preview is no reason for info to fail.
    except (NCZarrError, OSError):
        return ""
    shown = date_of if is_time(variable) else lambda _, value: format_value(value)
    return ", … ".join(", ".join(shown(variable, v)[:_LONGEST] for v in part) for part in values)

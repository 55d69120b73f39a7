"""Format attribute values on one line: numbers in full, long vectors by both their ends."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

#: Longest vector that is not cut to its ends.
MOST_VALUES = 24
_ENDS = 6
_NESTED = 400


def format_value(value: object) -> str:
    """Return a value as text; only numbers and arrays are bounded in length.

    Examples
    --------
    >>> format_value(np.float32(0.1)), format_value(np.arange(100)), format_value("K")
    ('0.1', '0, 1, 2, 3, 4, 5, … 88 more …, 94, 95, 96, 97, 98, 99', 'K')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, np.ndarray):
        return _several(value.reshape(-1)) if value.ndim else format_value(value[()])
    if isinstance(value, list | tuple):
        return _several(value)
    if isinstance(value, np.void) and value.dtype.names is None:
        return "0x" + value.tobytes()[:_NESTED].hex()
    if isinstance(value, np.generic):
        return str(value)
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return repr(value)


def _several(values: Sequence[object] | np.ndarray) -> str:
    if len(values) == 0:
        return "(empty)"
    if len(values) <= MOST_VALUES:
        return ", ".join(map(_item, values))
    more = f"… {len(values) - 2 * _ENDS:,} more …"
    return ", ".join([*map(_item, values[:_ENDS]), more, *map(_item, values[-_ENDS:])])


def _item(value: object) -> str:
    if isinstance(value, list | tuple | np.ndarray):
        return f"[{format_value(value)[:_NESTED]}]"
    if isinstance(value, str):
        return json.dumps(value[:_NESTED], ensure_ascii=False)
    return format_value(value)

"""Change a model before it is written: parts of it, other names, other chunks.

Each function takes a dataset and gives another one, whose data are read through the first. Whatever does not fit
is refused here, before anything is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nczarr.lazy import lazy

if TYPE_CHECKING:
    from nczarr.convert.change.choosing import choose, find_variable, matches, named_by
    from nczarr.convert.change.renaming import rename
    from nczarr.convert.change.selecting import (
        SelectedSource,
        find_dimension,
        find_indices,
        is_time,
        parse_range,
        parse_selection,
        select,
    )
    from nczarr.convert.change.shaping import Shaped, Shaping, parse_bytes, parse_kind, shape
else:
    __getattr__ = lazy(
        __name__,
        {
            "choosing": ["choose", "find_variable", "matches", "named_by"],
            "renaming": ["rename"],
            "selecting": [
                "SelectedSource",
                "find_dimension",
                "find_indices",
                "is_time",
                "parse_range",
                "parse_selection",
                "select",
            ],
            "shaping": ["Shaped", "Shaping", "parse_bytes", "parse_kind", "shape"],
        },
    )

__all__ = [
    "SelectedSource",
    "Shaped",
    "Shaping",
    "choose",
    "find_dimension",
    "find_indices",
    "find_variable",
    "is_time",
    "matches",
    "named_by",
    "parse_bytes",
    "parse_kind",
    "parse_range",
    "parse_selection",
    "rename",
    "select",
    "shape",
]

"""Change a model before it is written: parts of it, other names, other chunks.

Each function takes a dataset and gives another one, whose data are read through the first. Whatever does not fit
is refused here, before anything is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nczarr.lazy import lazy

if TYPE_CHECKING:
    from nczarr.convert.change.choosing import choose, find_variable, matches
    from nczarr.convert.change.renaming import rename
    from nczarr.convert.change.selecting import SelectedSource, find_dimension, select
    from nczarr.convert.change.shaping import Shaped, Shaping, parse_bytes, parse_kind, shape
else:
    __getattr__ = lazy(
        __name__,
        {
            "choosing": ["choose", "find_variable", "matches"],
            "renaming": ["rename"],
            "selecting": ["SelectedSource", "find_dimension", "select"],
            "shaping": ["Shaped", "Shaping", "parse_bytes", "parse_kind", "shape"],
        },
    )

__all__ = [
    "SelectedSource",
    "Shaped",
    "Shaping",
    "choose",
    "find_dimension",
    "find_variable",
    "matches",
    "parse_bytes",
    "parse_kind",
    "rename",
    "select",
    "shape",
]

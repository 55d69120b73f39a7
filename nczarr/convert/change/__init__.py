"""Change a model before it is written: parts of it, other names, other chunks.

Each function takes a dataset and gives another one, whose data are read through the first. Whatever does not fit
is refused here, before anything is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nczarr.lazy import lazy

if TYPE_CHECKING:
    from nczarr.convert.change.choosing import choose, matches
    from nczarr.convert.change.renaming import rename
    from nczarr.convert.change.selecting import select
    from nczarr.convert.change.shaping import shape
else:
    __getattr__ = lazy(
        __name__,
        {
            "choosing": ["choose", "matches"],
            "renaming": ["rename"],
            "selecting": ["select"],
            "shaping": ["shape"],
        },
    )

__all__ = ["choose", "matches", "rename", "select", "shape"]

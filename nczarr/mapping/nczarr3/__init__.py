"""Map netCDF onto Zarr v3 with NCZarr's keys.

The documents are those of plain Zarr with NCZarr's keys (``docs/spec/nczarr-v3.md``): :func:`plan_nczarr_v3` makes them
from a model, and :func:`read_nczarr_v3` makes a model from them. Where other programs have changed the arrays, reading
follows the arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nczarr.lazy import lazy

if TYPE_CHECKING:
    from nczarr.mapping.nczarr3.keys import GROUP_KEY, SUPERBLOCK_KEY, group_keys
    from nczarr.mapping.nczarr3.read import is_nczarr_v3, read_nczarr_v3
    from nczarr.mapping.nczarr3.write import plan_draft_2019, plan_nczarr_v3
else:
    _HOMES = {
        "keys": ["GROUP_KEY", "SUPERBLOCK_KEY", "group_keys"],
        "read": ["is_nczarr_v3", "read_nczarr_v3"],
        "write": ["plan_draft_2019", "plan_nczarr_v3"],
    }
    __getattr__ = lazy(__name__, _HOMES)

__all__ = [
    "GROUP_KEY",
    "SUPERBLOCK_KEY",
    "group_keys",
    "is_nczarr_v3",
    "plan_draft_2019",
    "plan_nczarr_v3",
    "read_nczarr_v3",
]

"""Map netCDF onto plain Zarr, with xarray's conventions.

Dimensions are ``dimension_names`` (``_ARRAY_DIMENSIONS`` in version 2), attributes are plain JSON, and the rest of the
model is lost (``docs/spec/plain-zarr.md``). NCZarr adds its keys to the same documents, so both layouts use the same
planner (:func:`plan_documents`) and the same reader of arrays without keys (:class:`PlainArrays`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nczarr.lazy import lazy

if TYPE_CHECKING:
    from nczarr.mapping.plain.read import read_plain
    from nczarr.mapping.plain.write import plan_plain_v2, plan_plain_v3
else:
    __getattr__ = lazy(__name__, {"write": ["plan_plain_v2", "plan_plain_v3"], "read": ["read_plain"]})

__all__ = ["plan_plain_v2", "plan_plain_v3", "read_plain"]

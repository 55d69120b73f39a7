"""Map netCDF onto plain Zarr, with xarray's conventions.

Dimensions are ``dimension_names`` (``_ARRAY_DIMENSIONS`` in version 2), attributes are plain JSON, and what Zarr's
types cannot say is lost (``docs/spec/plain-zarr.md``). NCZarr's documents are these with more keys, so that their
planner (:func:`plan_documents`) and the reader of arrays without keys (:class:`PlainArrays`) serve both.
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

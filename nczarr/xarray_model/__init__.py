"""Turn groups into xarray's datasets, and datasets and trees of xarray into the model.

:mod:`nczarr.xarray_model.read` gives xarray what its decoding needs, and notes the origin of each variable in its
encoding. :mod:`nczarr.xarray_model.write` makes a :class:`nczarr.model.Dataset` of xarray's objects: xarray encodes
what is new, and the origin says the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nczarr.lazy import lazy

if TYPE_CHECKING:
    from nczarr.xarray_model.write import from_xarray
else:
    __getattr__ = lazy(__name__, {"write": ["from_xarray"]})

__all__ = ["from_xarray"]

"""Turn groups into xarray's labelled arrays, and datasets and trees of xarray into the model.

:mod:`nczarr.labelled.read` gives xarray what its decoding needs, and notes the origin of each variable in its encoding.
:mod:`nczarr.labelled.write` makes a :class:`nczarr.model.Dataset` of xarray's objects: xarray encodes what is new, and
the origin says the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nczarr.lazy import lazy

if TYPE_CHECKING:
    from nczarr.labelled.write import from_xarray
else:
    __getattr__ = lazy(__name__, {"write": ["from_xarray"]})

__all__ = ["from_xarray"]

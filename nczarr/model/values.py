"""Compare values to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np


def same_values(a: Any, b: Any, *, nan_payloads: bool = True) -> bool:
    """True if two values of one dtype are the same to the bit (NaN payloads, -0.0), sequences inside included.

    Parameters
    ----------
    a, b : array_like or str
    nan_payloads : bool
        False: every NaN is the same.

    Examples
    --------
    >>> same_values(np.float64(np.nan), np.float64(np.nan)), same_values(np.float64(0.0), np.float64(-0.0))
    (True, False)
    """
    if isinstance(a, str) or isinstance(b, str) or a is None or b is None:
        return type(a) is type(b) and bool(a == b)
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not a.dtype.hasobject and (nan_payloads or (a.dtype.names is None and a.dtype.kind != "f")):
        return bool(a.tobytes() == b.tobytes())
    if a.dtype.names:
        return all(same_values(a[name], b[name], nan_payloads=nan_payloads) for name in a.dtype.names)
    if a.dtype.kind == "f":
        nan = np.isnan(a)
        return bool((nan == np.isnan(b)).all()) and same_values(np.where(nan, 0, a), np.where(nan, 0, b))
    pairs = zip(a.ravel(), b.ravel(), strict=True)
    return all(same_values(x, y, nan_payloads=nan_payloads) for x, y in pairs)

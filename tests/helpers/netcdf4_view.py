"""List the differences between two datasets as netCDF4-python (netcdf-c) reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np


def differences(left: Any, right: Any, path: str = "/") -> Iterator[str]:
    """Yield the differences of two open netCDF4 datasets: dimensions, variables, attributes, exact values."""
    for kind in ("dimensions", "variables", "groups"):
        if list(getattr(left, kind)) != list(getattr(right, kind)):
            yield f"{path}: {kind}: {list(getattr(left, kind))} {list(getattr(right, kind))}"
            return
    for name, d in left.dimensions.items():
        other = right.dimensions[name]
        if (d.size, d.isunlimited()) != (other.size, other.isunlimited()):
            yield f"{path}{name}: {d} {other}"
    yield from _attributes(left, right, path)
    for name, v in left.variables.items():
        yield from _attributes(v, right[name], path + name)
        yield from _values(v, right[name], path + name)
    for name, group in left.groups.items():
        yield from differences(group, right.groups[name], f"{path}{name}/")


def _attributes(left: Any, right: Any, path: str) -> Iterator[str]:
    if left.ncattrs() != right.ncattrs():
        yield f"{path}: {left.ncattrs()} {right.ncattrs()}"
        return
    for name in left.ncattrs():
        a, b = left.getncattr(name), right.getncattr(name)
        if type(a) is not type(b) or not _same(a, b):
            yield f"{path}: {name}: {a!r} {b!r}"


def _values(left: Any, right: Any, path: str) -> Iterator[str]:
    for v in (left, right):
        v.set_auto_maskandscale(False)
    # classic files say "native" where others say "little"
    orders = {left.endian(), right.endian()} - {"native"}
    if left.dimensions != right.dimensions or len(orders) > 1:
        yield f"{path}: {left.dimensions} {left.endian()} {right.dimensions} {right.endian()}"
        return
    if not _same(left[...], right[...]):
        yield f"{path}: {left[...]!r} {right[...]!r}"


def _same(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype.newbyteorder("=") != b.dtype.newbyteorder("="):
        return False
    if a.dtype == object:
        return a.tolist() == b.tolist()
    native = a.dtype.newbyteorder("=")
    return a.astype(native).tobytes() == b.astype(native).tobytes()

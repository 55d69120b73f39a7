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
        return all(x == y if isinstance(x, str) else _same(x, y) for x, y in zip(a.flat, b.flat, strict=True))
    native = a.dtype.newbyteorder("=")
    return a.astype(native).tobytes() == b.astype(native).tobytes()


#: Builtin classes that programs catch; the first that fits is compared.
_BUILTINS = (
    FileNotFoundError,
    PermissionError,
    UnicodeEncodeError,
    UnicodeDecodeError,
    IndexError,
    KeyError,
    AttributeError,
    OverflowError,
    ReferenceError,
    TypeError,
    ValueError,
    NotImplementedError,
    RuntimeError,
    OSError,
)


def builtin_of(error: BaseException) -> type[BaseException]:
    """Return the builtin class of an error that programs catch."""
    return next((kind for kind in _BUILTINS if isinstance(error, kind)), type(error))


def plain(value: Any) -> Any:
    """Return a value as something that compares by ``==``, with its type, dtype, shape and mask."""
    if isinstance(value, np.ma.core.MaskedConstant):
        return "masked constant"
    if isinstance(value, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(value)
        data = np.where(mask, np.zeros((), value.dtype), value.data) if value.dtype != object else value.data
        return ("masked", value.dtype.str, value.shape, mask.tolist(), plain(np.asarray(data)))
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return ("objects", value.shape, [plain(v) for v in value.flat])
        if value.dtype.names:
            return ("records", value.dtype.descr, value.shape, repr(value.tolist()))
        return ("array", value.dtype.str, value.shape, repr(value.tolist()))
    if isinstance(value, np.void):
        return ("record", value.dtype.descr, repr(value.tolist()))
    if isinstance(value, np.generic):
        return ("scalar", value.dtype.str, repr(value.item()))
    if isinstance(value, list | tuple):
        return (type(value).__name__, [plain(v) for v in value])
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items()}
    return value


def content_of(ds: Any) -> dict[str, Any]:
    """Return the whole content of an open dataset, with the values as they are stored, for a comparison by ``==``."""
    content: dict[str, Any] = {}
    for group in _groups_in(ds):
        ds.set_auto_maskandscale(False)
        content[group.path] = {
            "attributes": {n: plain(group.getncattr(n)) for n in sorted(group.ncattrs())},
            "dimensions": sorted((d.name, len(d), d.isunlimited()) for d in group.dimensions.values()),
            # netCDF-C may see the type of a variable of compounds a second time, without its name.
            "types": sorted(
                f"{t.name} {t.dtype}"
                for t in (*group.cmptypes.values(), *group.vltypes.values())
                if not t.name.startswith("_Anonymous")
            ),
            "enums": {name: (str(t.dtype), t.enum_dict) for name, t in sorted(group.enumtypes.items())},
            "variables": {
                name: (
                    str(v.dtype),
                    v.dimensions,
                    v.filters(),
                    v.quantization(),
                    {n: plain(v.getncattr(n)) for n in sorted(v.ncattrs())},
                    plain(v[...]),
                )
                for name, v in sorted(group.variables.items())
            },
        }
    return content


def _groups_in(group: Any) -> Iterator[Any]:
    yield group
    for below in group.groups.values():
        yield from _groups_in(below)

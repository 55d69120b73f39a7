"""Mask and unpack large arrays in one pass: block by block, each while it is in the processor's cache, in threads.

What comes out is what :func:`~nczarr.netcdf4.values.masking.mask_missing` and
:meth:`~nczarr.netcdf4.values.masking.Packing.unpack` make of the whole array, one step after the other, with masked
values as they were stored under the mask.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy import ma

from nczarr.netcdf4.values.masking import Missing, Packing

#: Elements of a block: with its result and the masks it stays in the second cache.
BLOCK = 1 << 16
#: Arrays that are smaller are done in one step after the other.
LEAST = 1 << 16
_WORKERS = max(1, min(4, os.cpu_count() or 1))
_PER_TASK = 16


def can_fuse(data: Any, missing: Missing | None, packing: Packing) -> bool:
    """True for large numeric arrays that are unpacked, by attributes of one value each.

    To mask alone is as fast in one step after the other: the values stay where they are.
    """
    return (
        isinstance(data, np.ndarray)
        and data.size >= LEAST
        and data.dtype.kind in "iuf"
        and data.flags.c_contiguous
        and (missing is None or missing.simple)
        and all(v is None or np.size(v) == 1 for v in (packing.scale, packing.offset))
        and _changes(packing)
    )


def mask_and_unpack(data: np.ndarray, missing: Missing | None, packing: Packing, *, always_mask: bool) -> Any:
    """Mask what is missing (None: nothing), then unpack; `data` is an array that `can_fuse` takes."""
    flat = data.reshape(-1)
    out = np.empty(flat.shape, packing.unpack(flat[:0]).dtype)
    first = _first(flat.dtype, packing)
    unpack = _in_place(packing) if first == out.dtype else None
    mask: list[np.ndarray] = []
    found: set[str] = set()
    errors = {**np.geterr(), "divide": "ignore", "invalid": "ignore"}

    def mask_of(block: np.ndarray) -> np.ndarray | None:
        assert missing is not None
        total = None
        for what, test in missing.tests:
            hit = test(block)
            if hit.any():
                found.add(what)
                total = hit if total is None else np.logical_or(total, hit, out=total)
        return total

    def whole_mask() -> np.ndarray:
        if not mask:
            mask.append(np.zeros(flat.shape, bool))
        # Two threads may have made one each: all of them write to the first.
        return mask[0]

    def work(start: int) -> None:
        with np.errstate(**errors):  # type: ignore[arg-type]
            for at in range(start, min(start + BLOCK * _PER_TASK, flat.size), BLOCK):
                part = slice(at, at + BLOCK)
                block = flat[part]
                hit = mask_of(block) if missing is not None else None
                if unpack is not None:
                    unpack(block, out[part])
                else:
                    out[part] = packing.unpack(block)
                if hit is not None:
                    whole_mask()[part] = hit
                    np.copyto(out[part], block.astype(first, copy=False), where=hit, casting="unsafe")

    starts = range(0, flat.size, BLOCK * _PER_TASK)
    if len(starts) > 1 and _WORKERS > 1:
        with ThreadPoolExecutor(_WORKERS, thread_name_prefix="nczarr-mask") as pool:
            list(pool.map(work, starts))
    else:
        for start in starts:
            work(start)
    values = out.reshape(data.shape)
    if missing is None or not (mask or always_mask):
        return values
    if not mask:
        return ma.masked_array(values)
    result = ma.masked_array(values, mask=mask[0].reshape(data.shape))
    template = ma.masked_array(flat[:0], mask=mask[0][:0], fill_value=missing.shown(found))
    # An operation keeps the fill value as it is, of the stored type; the attribute would cast it.
    result._update_from(packing.unpack(template))  # type: ignore[attr-defined]
    return result


def _in_place(packing: Packing) -> Callable[[np.ndarray, np.ndarray], None]:
    """Unpacking into a part of the result, where every step gives its type."""
    scale, offset = packing.scale, packing.offset

    def unpack(block: np.ndarray, out: np.ndarray) -> None:
        if scale is None:
            np.add(block, offset, out=out)
            return
        np.multiply(block, scale, out=out)
        if offset is not None:
            np.add(out, offset, out=out)

    def cast(block: np.ndarray, out: np.ndarray) -> None:
        np.copyto(out, block, casting="unsafe")

    return cast if scale is not None and offset is not None and scale == 1.0 and offset == 0.0 else unpack


def _changes(packing: Packing) -> bool:
    scale, offset = packing.scale, packing.offset
    return (scale is not None and (offset is not None or scale != 1.0)) or (
        offset is not None and bool(np.any(offset != 0.0))
    )


def _first(dtype: np.dtype, packing: Packing) -> np.dtype:
    """The type after the first step, through which a masked value goes as well."""
    only = Packing(packing.scale, None) if packing.scale is not None else packing
    result: np.dtype = only.unpack(np.empty(0, dtype)).dtype
    return result

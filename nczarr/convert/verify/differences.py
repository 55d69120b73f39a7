"""Compare two stored datasets: what differs, how many values, by how much, where."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nczarr.convert.endpoints import name_of, open_source
from nczarr.display import visible
from nczarr.errors import UnsupportedError
from nczarr.mapping.plain.losses import ORDER
from nczarr.model import ArraySource, Dataset, Difference, Type, Variable, compare, regions, same_values
from nczarr.targets import allowing
from nczarr.transfer import BLOCK_BYTES, NoProgress, Progress, block_shape, data_bytes, value_bytes


@dataclass(frozen=True)
class ValueDifference(Difference):
    """How the values of a variable differ.

    Attributes
    ----------
    count, total : int
        How many values differ, of how many.
    largest, largest_relative : float or None
        The largest finite difference of numbers, and relative to the larger of the two; None if there is none: they
        are no numbers, or one of each two is NaN or infinite.
    places : tuple of (index, left, right)
        The first differences.

    Examples
    --------
    >>> from nczarr import cdl
    >>> text = "netcdf d {dimensions: x = 2; variables: int v(x); data: v = 1, %s;}"
    >>> found = next(diff(cdl.loads(text % 2), cdl.loads(text % 5)))
    >>> found.count, found.total, found.largest
    (1, 2, 3.0)
    """

    count: int = 0
    total: int = 0
    largest: float | None = None
    largest_relative: float | None = None
    places: tuple[tuple[tuple[int, ...], str, str], ...] = ()

    def __str__(self) -> str:
        text = f"{self.fqn}: {self.what}: {self.left} | {self.right}"
        if self.total > 1:
            text += f" ({self.count} of {self.total} values differ"
            if self.largest is not None and self.largest_relative is not None:
                text += f", by {self.largest:.6g} at most, {self.largest_relative:.3g} relative"
            text += ")"
        for index, left, right in self.places[1:]:
            text += f"\n  value [{','.join(map(str, index))}]: {left} | {right}"
        return visible(text, layout=True)

    def to_json(self) -> dict[str, Any]:
        """Return the difference as a JSON object."""
        return {
            "fqn": self.fqn,
            "what": "values",
            "count": self.count,
            "total": self.total,
            "largest": self.largest,
            "largest_relative": self.largest_relative,
            "places": [{"index": list(i), "left": a, "right": b} for i, a, b in self.places],
        }


def diff(
    left: Any,
    right: Any,
    *,
    data: bool = True,
    storage: bool = False,
    ignore_attributes: Sequence[str] = (),
    nan_payloads: bool = True,
    order: bool = True,
    rtol: float = 0.0,
    atol: float = 0.0,
    places: int = 1,
    storage_options: Mapping[str, Any] | None = None,
    allow: str | Sequence[str] = (),
    progress: Progress | None = None,
) -> Iterator[Difference]:
    """Yield the differences between two datasets of any kind.

    Parameters
    ----------
    left, right : str, path, store or Dataset
        As for :func:`open_source`.
    data : bool, default True
        Compare values too: to the bit, unless `rtol` or `atol` is given.
    storage : bool, default False
        Compare chunk shapes, filters, byte order and fill mode too.
    ignore_attributes : sequence of str
        Attributes to leave out.
    nan_payloads : bool, default True
        False: every NaN is the same.
    order : bool, default True
        False: the order of nodes and attributes is no difference.
    rtol, atol : float
        Numbers are the same if they differ by at most ``atol + rtol * abs(right)``; then NaN is NaN, and 0.0 is
        -0.0.
    places : int, default 1
        How many differing values of each variable to list.
    storage_options : mapping, optional
        For fsspec.
    allow : str or sequence of str
        Paths and URLs. References to other files (kerchunk's, an Icechunk repository's virtual chunks) reach what
        lies beside them, and what lies below these.
    progress : Progress, optional

    Yields
    ------
    Difference
        For values a :class:`ValueDifference`, one for each variable.

    Raises
    ------
    UnsupportedError
        If a tolerance is below zero, or no number; or, after the differences, if something could not be read.

    Examples
    --------
    >>> import nczarr.model as m
    >>> [str(d) for d in diff(m.Dataset("a"), m.Dataset("b", dimensions=(m.Dimension("x", 1),)))]
    ['/: dimensions: none | x']
    """
    for option, value in (("--rtol", rtol), ("--atol", atol)):
        if not value >= 0:
            raise UnsupportedError(f"{option} {value}: a tolerance is a number that is not below zero")
    progress = progress or NoProgress()
    options = allowing(storage_options, allow)
    with (
        open_source(left, storage_options=options, fresh=True) as a,
        open_source(right, storage_options=options, fresh=True) as b,
    ):
        yield from compare(
            a,
            b,
            data=False,
            storage=storage,
            ignore_attributes=ignore_attributes,
            nan_payloads=nan_payloads,
            order=order,
        )
        if data:
            comparison = _Values(nan_payloads, rtol, atol, places)
            yield from comparison.all(a, b, progress)
        for side, dataset in ((left, a), (right, b)):
            if dataset.left_out:
                raise UnsupportedError(f"not all can be compared: {dataset.left_out[0]}", path=name_of(side))


def differences_of_copy(
    dataset: Dataset,
    copy: Any,
    *,
    losses: Sequence[str] = (),
    order: bool = True,
    nan_payloads: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Iterator[Difference]:
    """Yield the differences between a dataset and its copy that the copy's format does not explain.

    Parameters
    ----------
    dataset : Dataset
        What was to be written.
    copy : str, path or store
    losses : sequence of str
        What the format could not hold. If there is anything but an order, values are compared, and the rest is not.
    order, nan_payloads : bool
        False: the format has none.
    storage_options : mapping, optional
        For fsspec.
    progress : Progress, optional
    """
    if not {*losses} - {ORDER}:
        yield from diff(
            dataset,
            copy,
            order=order,
            nan_payloads=nan_payloads,
            storage_options=storage_options,
            progress=progress,
        )
        return
    with open_source(copy, storage_options=storage_options, fresh=True) as there:
        comparison = _Values(nan_payloads, 0.0, 0.0, 1)
        yield from comparison.all(dataset, there, progress or NoProgress())


@dataclass(frozen=True)
class _Values:
    nan_payloads: bool
    rtol: float
    atol: float
    places: int

    def all(self, a: Dataset, b: Dataset, progress: Progress) -> Iterator[Difference]:
        pairs = [
            (fqn, mine, b.all_variables[fqn])
            for fqn, mine in a.all_variables.items()
            if fqn in b.all_variables
            and mine.data is not None
            and b.all_variables[fqn].data is not None
            and a.shape(mine) == b.shape(b.all_variables[fqn])
            and _comparable(mine.type, b.all_variables[fqn].type)
        ]
        progress.start(sum(data_bytes(mine.data) for _, mine, _ in pairs if mine.data is not None))
        try:
            for fqn, mine, theirs in pairs:
                yield from self.one(fqn, mine, theirs, progress)
        finally:
            progress.finish()

    def one(self, fqn: str, a: Variable, b: Variable, progress: Progress) -> Iterator[Difference]:
        assert a.data is not None
        assert b.data is not None
        count = 0
        largest: float | None = None
        relative: float | None = None
        found: list[tuple[tuple[int, ...], str, str]] = []
        for region in regions(a.data.shape, _block(a, a.data, b)):
            x, y = a.data.read(region), b.data.read(region)
            progress.advance(x.size * value_bytes(x.dtype), fqn)
            if same_values(x, y, nan_payloads=self.nan_payloads):
                continue
            differs = self.differing(x, y)
            here = int(differs.sum())
            if not here:
                continue
            count += here
            if x.dtype.kind in "iuf":
                by, part = _sizes(x[differs], y[differs])
                largest, relative = _larger(largest, by), _larger(relative, part)
            for index in np.argwhere(differs)[: max(1, self.places) - len(found)]:
                at = tuple(int(i) + s.start for i, s in zip(index, region, strict=True))
                found.append((at, repr(x[tuple(index)]), repr(y[tuple(index)])))
        if count:
            first = found[0]
            yield ValueDifference(
                fqn,
                f"value [{','.join(map(str, first[0]))}]",
                first[1],
                first[2],
                count,
                math.prod(a.data.shape),
                largest,
                relative,
                tuple(found),
            )

    def differing(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Where two arrays differ."""
        if x.dtype.kind in "iu" and (self.rtol or self.atol):
            far: np.ndarray = _distance(x, y).astype(np.longdouble) > self.atol + self.rtol * np.abs(
                y.astype(np.longdouble)
            )
            return far
        if x.dtype.kind == "f" and (self.rtol or self.atol):
            with np.errstate(all="ignore"):
                near = np.isclose(
                    x.astype("f8"), y.astype("f8"), rtol=self.rtol, atol=self.atol, equal_nan=True
                )
            return ~near
        if x.dtype.kind in "iuSf" and x.dtype.itemsize in (1, 2, 4, 8):
            bits = np.dtype(f"u{x.dtype.itemsize}")
            unequal = np.ascontiguousarray(x).reshape(x.shape).view(bits) != np.ascontiguousarray(y).reshape(
                y.shape
            ).view(bits)
            if not self.nan_payloads and x.dtype.kind == "f":
                unequal &= ~(np.isnan(x) & np.isnan(y))
            return np.asarray(unequal)
        pairs = zip(x.reshape(-1), y.reshape(-1), strict=True)
        flat = [not same_values(p, q, nan_payloads=self.nan_payloads) for p, q in pairs]
        return np.array(flat, bool).reshape(x.shape)


def _comparable(a: Type, b: Type) -> bool:
    """True if values of two types can be the same."""
    return a == b or (a.dtype == b.dtype and not a.dtype.hasobject)


def _block(a: Variable, data: ArraySource, b: Variable) -> tuple[int, ...]:
    """Blocks that hold whole chunks of both sides where they can."""
    itemsize = value_bytes(a.type.dtype)
    chunk = a.storage.chunk_shape or (1,) * len(data.shape)
    if math.prod(chunk) * itemsize > BLOCK_BYTES:
        chunk = (1,) * len(data.shape)
    return block_shape(data.shape, chunk, b.storage.chunk_shape, itemsize, BLOCK_BYTES // 2)


def _sizes(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The finite distances between numbers, and those relative to the larger ones."""
    with np.errstate(all="ignore"):
        p, q = x.astype("f8"), y.astype("f8")
        by = np.abs(p - q) if x.dtype.kind == "f" else _distance(x, y).astype("f8")
        relative = by / np.maximum(np.abs(p), np.abs(q))
    return by[np.isfinite(by)], relative[np.isfinite(relative)]


def _larger(most: float | None, values: np.ndarray) -> float | None:
    """The largest of what was seen before, if there was anything, and of values that are not below zero."""
    return most if not values.size else max(float(values.max()), most or 0.0)


def _distance(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The distances between whole numbers, exactly: they fit into the unsigned type."""
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    p, q = x.astype(unsigned), y.astype(unsigned)
    return np.where(x > y, p - q, q - p)

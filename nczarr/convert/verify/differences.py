"""Compare two stored datasets: which nodes differ, how many values, by how much, where."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nczarr.convert.endpoints import name_of, open_source
from nczarr.display import visible
from nczarr.errors import UnsupportedError
from nczarr.model import ArraySource, Dataset, Difference, Variable, compare, regions, same_values
from nczarr.options import named
from nczarr.targets import allowing
from nczarr.transfer import BLOCK_BYTES, NoProgress, Progress, block_shape, data_bytes, reporting, value_bytes


@dataclass(frozen=True)
class ValueDifference(Difference):
    """The difference of the values of a variable.

    Attributes
    ----------
    count, total : int
        Number of values that differ, and number of all values.
    largest, largest_relative : float or None
        The largest finite difference of numbers, and relative to the larger of the two; None if the values are not
        numbers, or one of each two is NaN or infinite.
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

    def to_json(self) -> dict[str, object]:
        """Return the difference as a JSON object."""
        numbers = {n: getattr(self, n) for n in ("count", "total", "largest", "largest_relative")}
        places = [{"index": list(i), "left": a, "right": b} for i, a, b in self.places]
        return {"fqn": self.fqn, "what": "values", **numbers, "places": places}


def diff(
    left: object,
    right: object,
    *,
    data: bool = True,
    storage: bool = False,
    ignore_attributes: Sequence[str] = (),
    nan_payloads: bool = True,
    order: bool = True,
    rtol: float = 0.0,
    atol: float = 0.0,
    places: int = 1,
    storage_options: Mapping[str, object] | None = None,
    allow: str | Sequence[str] = (),
    progress: Progress | None = None,
) -> Iterator[Difference]:
    """Yield the differences between two datasets of any format.

    Parameters
    ----------
    left, right : str, path, store or Dataset
        As for :func:`open_source`.
    data : bool, default True
        Also compare values: bit by bit, unless `rtol` or `atol` is given.
    storage : bool, default False
        Also compare chunk shapes, filters, byte order and fill mode.
    ignore_attributes : sequence of str
        Attributes to ignore.
    nan_payloads : bool, default True
        If False, all NaN values are equal.
    order : bool, default True
        If False, ignore the order of nodes and attributes.
    rtol, atol : float
        Numbers are equal if they differ by at most ``atol + rtol * abs(right)``. With a tolerance, NaN equals NaN, and
        0.0 equals -0.0.
    places : int, default 1
        Maximum number of differing values to list for each variable.
    storage_options : mapping, optional
        Options of the file system of a URL.
    allow : str or sequence of str
        Paths and URLs. References (kerchunk's, virtual chunks of an Icechunk repository) may name files beside them,
        and files below these.
    progress : Progress, optional
        Receives the progress of reading the values.

    Yields
    ------
    Difference
        A :class:`ValueDifference` for each variable with different values.

    Raises
    ------
    UnsupportedError
        If a tolerance is negative or NaN; or, after the differences, if a part of a dataset could not be read.

    Examples
    --------
    >>> import nczarr.model as m
    >>> [str(d) for d in diff(m.Dataset("a"), m.Dataset("b", dimensions=(m.Dimension("x", 1),)))]
    ['/: dimensions: none | x']
    """
    for option, value in (("rtol", rtol), ("atol", atol)):
        # Negated, since a NaN as tolerance would accept everything.
        if not value >= 0:
            raise UnsupportedError(f"{named(option, value)}: a tolerance must be a number of at least 0")
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
            comparison = ValueComparison(nan_payloads, rtol, atol, places)
            yield from comparison.datasets(a, b, progress or NoProgress())
        # Parts that nczarr cannot read may differ: "no difference" would be a wrong answer.
        for side, dataset in ((left, a), (right, b)):
            if dataset.left_out:
                raise UnsupportedError(
                    f"the comparison is incomplete: {dataset.left_out[0]}", path=name_of(side)
                )


@dataclass(frozen=True)
class ValueComparison:
    """Compares the values of datasets; the fields are arguments of :func:`diff`."""

    nan_payloads: bool
    rtol: float = 0.0
    atol: float = 0.0
    places: int = 1

    def datasets(self, a: Dataset, b: Dataset, progress: Progress) -> Iterator[Difference]:
        """Compare the values of all variables of the same shape and type."""
        pairs = [
            (fqn, x, y, _block(mine, x, theirs))
            for fqn, mine in a.all_variables.items()
            if (theirs := b.all_variables.get(fqn)) is not None
            and (x := mine.data) is not None
            and (y := theirs.data) is not None
            and a.shape_of(mine) == b.shape_of(theirs)
            # Values of two types can be equal if their form in memory is the same.
            and (mine.type == theirs.type or (x.dtype == y.dtype and not x.dtype.hasobject))
        ]
        with reporting(progress, sum(data_bytes(x) for _, x, _, _ in pairs)):
            for fqn, x, y, block in pairs:
                yield from self.sources(fqn, x, y, block, progress)

    def sources(
        self, fqn: str, a: ArraySource, b: ArraySource, block: tuple[int, ...], progress: Progress
    ) -> Iterator[Difference]:
        count = 0
        largest: float | None = None
        relative: float | None = None
        found: list[tuple[tuple[int, ...], str, str]] = []
        for region in regions(a.shape, block):
            x, y = a.read(region), b.read(region)
            progress.advance(x.size * value_bytes(x.dtype), fqn)
            if same_values(x, y, nan_payloads=self.nan_payloads):
                continue
            differs = self.differing(x, y)
            count += int(differs.sum())
            if x.dtype.kind in "iuf":
                with np.errstate(all="ignore"):
                    p, q = x[differs].astype("f8"), y[differs].astype("f8")
                    by = np.abs(p - q) if x.dtype.kind == "f" else _distance(x, y)[differs].astype("f8")
                    part = by / np.maximum(np.abs(p), np.abs(q))
                largest, relative = _larger(largest, by), _larger(relative, part)
            for index in np.argwhere(differs)[: max(1, self.places) - len(found)]:
                at = tuple(int(i) + s.start for i, s in zip(index, region, strict=True))
                found.append((at, repr(x[tuple(index)]), repr(y[tuple(index)])))
        if count:
            at, left, right = found[0]
            what, total = f"value [{','.join(map(str, at))}]", math.prod(a.shape)
            sizes = largest, relative
            yield ValueDifference(fqn, what, left, right, count, total, *sizes, tuple(found))

    def differing(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return a mask of the values that differ."""
        kind = x.dtype.kind
        # int64 has values that float64 rounds, so the distance is taken in integers.
        if kind in "iu" and (self.rtol or self.atol):
            tolerance = self.atol + self.rtol * np.abs(y.astype(np.longdouble))
            return np.asarray(_distance(x, y).astype(np.longdouble) > tolerance)
        if kind == "f" and (self.rtol or self.atol):
            with np.errstate(all="ignore"):
                return ~np.isclose(
                    x.astype("f8"), y.astype("f8"), rtol=self.rtol, atol=self.atol, equal_nan=True
                )
        # Bits tell 0.0 from -0.0, and one NaN from another.
        if kind in "iuSf" and x.dtype.itemsize in (1, 2, 4, 8):
            bits = np.dtype(f"u{x.dtype.itemsize}")
            p, q = (np.ascontiguousarray(v).reshape(v.shape).view(bits) for v in (x, y))
            if not self.nan_payloads and kind == "f":
                return np.asarray((p != q) & ~(np.isnan(x) & np.isnan(y)))
            return np.asarray(p != q)
        pairs = zip(x.reshape(-1), y.reshape(-1), strict=True)
        flat = [not same_values(p, q, nan_payloads=self.nan_payloads) for p, q in pairs]
        return np.array(flat, bool).reshape(x.shape)


def _block(a: Variable, data: ArraySource, b: Variable) -> tuple[int, ...]:
    """Choose blocks of whole chunks of both sides, if memory allows."""
    itemsize = value_bytes(a.type.dtype)
    chunk = a.storage.chunk_shape or (1,) * len(data.shape)
    # Whole chunks of this size, of two sides, exceed the memory.
    if math.prod(chunk) * itemsize > BLOCK_BYTES:
        chunk = (1,) * len(data.shape)
    return block_shape(data.shape, chunk, b.storage.chunk_shape, itemsize, BLOCK_BYTES // 2)


def _larger(most: float | None, values: np.ndarray) -> float | None:
    """Return the maximum of `most` and of finite values that are not negative; None if there are none."""
    values = values[np.isfinite(values)]
    return most if not values.size else max(float(values.max()), most or 0.0)


def _distance(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the differences of integers exactly, in the unsigned type."""
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    p, q = x.astype(unsigned), y.astype(unsigned)
    return np.where(x > y, p - q, q - p)

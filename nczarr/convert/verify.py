"""Compare two stored datasets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from nczarr.convert.edges import open_source
from nczarr.model import Difference, compare


def diff(
    left: Any,
    right: Any,
    *,
    data: bool = True,
    storage: bool = False,
    ignore_attributes: Sequence[str] = (),
    nan_payloads: bool = True,
) -> Iterator[Difference]:
    """Yield the differences between two datasets of any kind, values compared to the bit.

    Parameters
    ----------
    left, right : str, path, store or Dataset
        As for :func:`open_source`.
    data : bool, default True
        Compare values too.
    storage : bool, default False
        Compare chunk shapes, filters, byte order and fill mode too.
    ignore_attributes : sequence of str
        Attributes to leave out.
    nan_payloads : bool, default True
        False: every NaN is the same.

    Examples
    --------
    >>> import nczarr.model as m
    >>> [str(d) for d in diff(m.Dataset("a"), m.Dataset("b", dimensions=(m.Dimension("x", 1),)))]
    ['/: dimensions: none | x']
    """
    with open_source(left) as a, open_source(right) as b:
        yield from compare(
            a,
            b,
            data=data,
            storage=storage,
            ignore_attributes=ignore_attributes,
            nan_payloads=nan_payloads,
        )

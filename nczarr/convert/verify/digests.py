"""Digest variables and datasets: SHA-256 of their meaning, whatever the format, the chunks and the codecs.

The form that is digested is described in ``docs/convert-an-archive.md``: types, dimensions and attributes by name,
values in row-major order and little-endian, text with its length in front, every NaN the same.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nczarr.convert.endpoints import name_of, open_source
from nczarr.errors import LossError, error_context
from nczarr.model import (
    Attribute,
    CompoundType,
    Dataset,
    Region,
    Type,
    Variable,
    VlenType,
    describe_type,
    source_of,
)
from nczarr.targets import allowing
from nczarr.transfer import NoProgress, Progress, data_bytes, value_bytes

#: The global attribute in which a digest is stored; it is no part of what is digested.
ATTRIBUTE = "nczarr_sha256"
_BAND = 16 << 20


@dataclass(frozen=True)
class Digest:
    """The digests of a dataset: of the whole, and of each variable by FQN.

    Examples
    --------
    >>> from nczarr.model import Dataset
    >>> len(digest(Dataset("d")).dataset), digest(Dataset("d")) == digest(Dataset("other name"))
    (64, True)
    """

    dataset: str
    variables: Mapping[str, str]
    #: What the dataset says its digest is, if it does.
    stored: str | None = None


def without_digest(dataset: Dataset) -> Dataset:
    """Return a dataset without the digest that is stored in it."""
    if ATTRIBUTE not in dataset.attribute:
        return dataset
    return replace(dataset, attributes=tuple(a for a in dataset.attributes if a.name != ATTRIBUTE))


def digest(
    source: Any,
    *,
    lossy: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    allow: str | Sequence[str] = (),
    progress: Progress | None = None,
) -> Digest:
    """Digest a dataset of any format.

    Parameters
    ----------
    source : str, path, store or Dataset
        As for :func:`nczarr.copy`.
    lossy : bool
        Digest what can be read of a dataset of which something cannot.
    storage_options : mapping, optional
        For fsspec.
    allow : str or sequence of str
        Paths and URLs. References to other files (kerchunk's, an Icechunk repository's virtual chunks) reach what
        lies beside them, and what lies below these.
    progress : Progress, optional

    Raises
    ------
    LossError
        If something of the dataset cannot be read, so that nothing would tell whether it is still there.

    Returns
    -------
    Digest
        The same for a netCDF file, for Zarr and for CDL text that hold the same.

    Examples
    --------
    >>> from nczarr.model import Attribute, Dataset
    >>> digest(Dataset("d", attributes=(Attribute.of("title", "T"),))).dataset[:12]
    '9220a2ec7435'
    """
    options = allowing(storage_options, allow)
    with open_source(source, storage_options=options, fresh=True) as dataset:
        lost = (*dataset.left_out, *dataset.gone)
        if lost and not lossy:
            raise LossError(
                f"the digest would be of a part: {lost[0]}",
                path=name_of(source),
                hint="--lossy, in Python lossy=True, digests what can be read",
            )
        return digest_of(dataset, progress or NoProgress())


def digest_of(dataset: Dataset, progress: Progress | None = None) -> Digest:
    """Digest an open dataset."""
    progress = progress or NoProgress()
    variables: dict[str, str] = {}
    progress.start(sum(data_bytes(v.data) for v in dataset.all_variables.values() if v.data is not None))
    try:
        for fqn, variable in dataset.all_variables.items():
            with error_context(fqn=fqn):
                variables[fqn] = _variable(dataset, fqn, variable, progress)
    finally:
        progress.finish()
    whole = hashlib.sha256()
    for line in sorted([*_lines(dataset), *(f"variable {fqn} {d}" for fqn, d in variables.items())]):
        whole.update(line.encode("utf-8", "surrogateescape") + b"\n")
    stored = dataset.attribute.get(ATTRIBUTE)
    return Digest(whole.hexdigest(), variables, stored.text if stored is not None else None)


def header_digest(dataset: Dataset) -> str:
    """Digest a dataset without its values."""
    whole = hashlib.sha256()
    for line in sorted(_lines(dataset)):
        whole.update(line.encode("utf-8", "surrogateescape") + b"\n")
    for fqn, variable in dataset.all_variables.items():
        whole.update(_header(dataset, fqn, variable))
    return whole.hexdigest()


def _lines(dataset: Dataset) -> Iterator[str]:
    for fqn, group in dataset.all_groups.items():
        yield f"group {fqn} {hashlib.sha256(_attributes(group.attributes, fqn == '/')).hexdigest()}"
    for fqn, dimension in dataset.all_dimensions.items():
        yield f"dimension {fqn} {dimension.size} {'unlimited' if dimension.unlimited else 'fixed'}"
    for fqn, type_ in dataset.all_types.items():
        yield f"type {fqn} {describe_type(type_)}"


def _header(dataset: Dataset, fqn: str, variable: Variable) -> bytes:
    head = {
        "type": describe_type(variable.type),
        "dimensions": [str(d) for d in variable.dimensions],
        "shape": list(dataset.shape(variable)),
    }
    return json.dumps(head, sort_keys=True).encode() + b"\n" + _attributes(variable.attributes)


def _attributes(attributes: Iterable[Attribute], is_root: bool = False) -> bytes:
    parts = []
    for a in sorted(attributes, key=lambda a: a.name):
        if is_root and a.name == ATTRIBUTE:
            continue
        head = f"{a.name}\0{describe_type(a.type)}\0{len(a.values)}\0"
        parts.append(head.encode("utf-8", "surrogateescape") + canonical_bytes(a.values, a.type))
    return b"".join(parts)


def _variable(dataset: Dataset, fqn: str, variable: Variable, progress: Progress) -> str:
    made = hashlib.sha256(_header(dataset, fqn, variable))
    shape = dataset.shape(variable)
    source = source_of(variable, shape)
    for region in bands(shape, value_bytes(variable.type.dtype), variable.storage.chunk_shape):
        values = source.read(region)
        made.update(canonical_bytes(values, variable.type))
        progress.advance(values.size * value_bytes(values.dtype), fqn)
    return made.hexdigest()


def bands(
    shape: tuple[int, ...], itemsize: int, chunk: tuple[int, ...] | None, limit: int = _BAND
) -> Iterator[Region]:
    """Cut an array into regions that follow each other in row-major order.

    Examples
    --------
    >>> list(bands((3, 2), 1, None, limit=4))
    [(slice(0, 2, 1), slice(0, 2, 1)), (slice(2, 3, 1), slice(0, 2, 1))]
    """
    if 0 in shape:
        return
    axis = 0
    while axis < len(shape) and math.prod(shape[axis + 1 :]) * itemsize > limit:
        axis += 1
    if not shape:
        yield ()
        return
    axis = min(axis, len(shape) - 1)
    rows = max(1, limit // max(1, math.prod(shape[axis + 1 :]) * itemsize))
    if chunk is not None and rows > chunk[axis]:
        rows -= rows % chunk[axis]  # whole chunks are decoded once
    for index in np.ndindex(shape[:axis]):
        for start in range(0, shape[axis], rows):
            yield (
                *(slice(i, i + 1, 1) for i in index),
                slice(start, min(start + rows, shape[axis]), 1),
                *(slice(0, n, 1) for n in shape[axis + 1 :]),
            )


def canonical_bytes(values: np.ndarray, type_: Type) -> bytes:
    """Return values as bytes that depend on nothing but what they are.

    Examples
    --------
    >>> from nczarr.model import SHORT, STRING
    >>> canonical_bytes(np.array([1, 2], ">i2"), SHORT), canonical_bytes(np.array(["ä"], object), STRING)
    (b'\\x01\\x00\\x02\\x00', b'\\x02\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\xc3\\xa4')
    """
    if not values.dtype.hasobject:
        little = np.array(values, values.dtype.newbyteorder("<"), order="C", copy=True)
        _one_nan(little)
        return little.tobytes()
    return b"".join(_one(value, type_) for value in values.reshape(-1))


def _one_nan(values: np.ndarray) -> None:
    if values.dtype.names:
        for name in values.dtype.names:
            _one_nan(values[name])
    elif values.dtype.kind == "f":
        values[np.isnan(values)] = np.nan


def _one(value: Any, type_: Type) -> bytes:
    if isinstance(type_, CompoundType):
        made = []
        for f in type_.fields:
            inside = value[f.name]
            if f.shape or not f.type.dtype.hasobject:
                made.append(canonical_bytes(np.asarray(inside, f.type.dtype), f.type))
            else:
                made.append(_one(inside, f.type))
        return b"".join(made)
    if isinstance(type_, VlenType):
        items = np.asarray(() if value is None else value, type_.base.dtype)
        return len(items).to_bytes(8, "little") + canonical_bytes(items, type_.base)
    text = ("" if value is None else value).encode("utf-8", "surrogateescape")
    return len(text).to_bytes(8, "little") + text

"""Compute digests of variables and datasets: SHA-256 of their content, independent of format, chunks and codecs.

``docs/convert-an-archive.md`` describes the bytes of the digest: types, dimensions and attributes sorted by name,
values in row-major order and little-endian, strings after their length, all NaN values the same.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from nczarr import model
from nczarr.convert.endpoints import name_of, open_source
from nczarr.dataclass import dataclass
from nczarr.errors import LossError, error_context
from nczarr.mapping import VariableData
from nczarr.model import Attribute, Dataset, Region, Type, Variable
from nczarr.options import named
from nczarr.stores.base import batched
from nczarr.targets import allowing
from nczarr.transfer import NoProgress, Progress, data_bytes, dataset_bytes, reporting, value_bytes

#: The global attribute that stores a digest; digests do not include it.
ATTRIBUTE = "nczarr_sha256"
_BAND = 16 << 20
#: Variables up to this size, and number of those that are read concurrently.
_SMALL, _TOGETHER = 1 << 20, 16


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
    #: The digest that is stored in the dataset, if any.
    stored: str | None = None


def without_digest(dataset: Dataset) -> Dataset:
    """Return a dataset without its stored digest."""
    if ATTRIBUTE not in dataset.attribute:
        return dataset
    # A digest that contained itself could not be computed.
    return replace(dataset, attributes=tuple(a for a in dataset.attributes if a.name != ATTRIBUTE))


def digest(
    source: object,
    *,
    lossy: bool = False,
    storage_options: Mapping[str, object] | None = None,
    allow: str | Sequence[str] = (),
    progress: Progress | None = None,
) -> Digest:
    """Compute the digest of a dataset of any format.

    Parameters
    ----------
    source : str, path, store or Dataset
        As for :func:`nczarr.copy`.
    lossy : bool, default False
        If parts of the dataset cannot be read, compute the digest of the rest.
    storage_options : mapping, optional
        Options of the file system of a URL.
    allow : str or sequence of str
        Paths and URLs. References (kerchunk's, virtual chunks of an Icechunk repository) may name files beside them,
        and files below these.
    progress : Progress, optional
        Receives the progress of reading the values.

    Returns
    -------
    Digest
        Equal for netCDF files, Zarr hierarchies and CDL text of equal content.

    Raises
    ------
    LossError
        If a part of the dataset cannot be read; the digest would not show its loss.

    Examples
    --------
    >>> from nczarr.model import Attribute, Dataset
    >>> digest(Dataset("d", attributes=(Attribute.of("title", "T"),))).dataset[:12]
    '9220a2ec7435'
    """
    options = allowing(storage_options, allow)
    with open_source(source, storage_options=options, fresh=True) as dataset:
        lost = (*dataset.left_out, *dataset.gone)
        # Two datasets that differ in the unreadable part would have one digest.
        if lost and not lossy:
            raise LossError(
                f"the digest would not cover the whole dataset: {lost[0]}",
                path=name_of(source),
                hint=f"{named('lossy', True)} computes the digest of the readable part",
            )
        return digest_of(dataset, progress)


def digest_of(dataset: Dataset, progress: Progress | None = None) -> Digest:
    """Compute the digest of an open dataset."""
    progress = progress or NoProgress()
    variables: dict[str, str] = {}
    pool = ThreadPoolExecutor(_TOGETHER, thread_name_prefix="nczarr-digest")
    with reporting(progress, dataset_bytes(dataset)), pool:
        for names in batched(dataset.all_variables, 4 * _TOGETHER):
            # Many small variables of a remote store are read concurrently.
            small = {
                fqn: (pool.submit(_variable, dataset, fqn, NoProgress()), data_bytes(data))
                for fqn in names
                # Each small variable would wait for a request of its own.
                if isinstance(data := dataset.variable_at(fqn).data, VariableData)
                and not data.array.store.is_local
                and data_bytes(data) <= _SMALL
            }
            for fqn in names:
                if fqn in small:
                    future, size = small[fqn]
                    variables[fqn] = future.result()
                    progress.advance(size, fqn)
                else:
                    variables[fqn] = _variable(dataset, fqn, progress)
    whole = _whole([*_lines(dataset), *(f"variable {fqn} {d}" for fqn, d in variables.items())])
    stored = dataset.attribute.get(ATTRIBUTE)
    return Digest(whole.hexdigest(), variables, stored.text if stored is not None else None)


def header_digest(dataset: Dataset) -> str:
    """Compute the digest of a dataset without its values."""
    whole = _whole(_lines(dataset))
    for variable in dataset.all_variables.values():
        whole.update(_header(dataset, variable))
    return whole.hexdigest()


def _whole(lines: Iterable[str]) -> hashlib._Hash:
    return hashlib.sha256(b"".join(line.encode("utf-8", "surrogateescape") + b"\n" for line in sorted(lines)))


def _lines(dataset: Dataset) -> Iterator[str]:
    for fqn, group in dataset.all_groups.items():
        yield f"group {fqn} {hashlib.sha256(_attributes(group.attributes, fqn == '/')).hexdigest()}"
    for fqn, dimension in dataset.all_dimensions.items():
        yield f"dimension {fqn} {dimension.size} {'unlimited' if dimension.unlimited else 'fixed'}"
    for fqn, type_ in dataset.all_types.items():
        yield f"type {fqn} {model.describe_type(type_)}"


def _header(dataset: Dataset, variable: Variable) -> bytes:
    head = {
        "type": model.describe_type(variable.type),
        "dimensions": [str(d) for d in variable.dimensions],
        "shape": list(dataset.shape_of(variable)),
    }
    return json.dumps(head, sort_keys=True).encode() + b"\n" + _attributes(variable.attributes)


def _attributes(attributes: Iterable[Attribute], is_root: bool = False) -> bytes:
    parts = []
    for a in sorted(attributes, key=lambda a: a.name):
        # A digest cannot contain itself.
        if not (is_root and a.name == ATTRIBUTE):
            head = f"{a.name}\0{model.describe_type(a.type)}\0{len(a.values)}\0"
            parts.append(head.encode("utf-8", "surrogateescape") + canonical_bytes(a.values, a.type))
    return b"".join(parts)


def _variable(dataset: Dataset, fqn: str, progress: Progress) -> str:
    variable = dataset.variable_at(fqn)
    with error_context(fqn=fqn):
        result = hashlib.sha256(_header(dataset, variable))
        shape = dataset.shape_of(variable)
        source = model.source_of(variable, shape)
        for region in bands(shape, value_bytes(variable.type.dtype), variable.storage.chunk_shape):
            values = source.read(region)
            result.update(canonical_bytes(values, variable.type))
            progress.advance(values.size * value_bytes(values.dtype), fqn)
    return result.hexdigest()


def bands(
    shape: tuple[int, ...], itemsize: int, chunk: tuple[int, ...] | None, limit: int = _BAND
) -> Iterator[Region]:
    """Divide an array into regions of at most `limit` bytes that follow each other in row-major order.

    Examples
    --------
    >>> list(bands((3, 2), 1, None, limit=4))
    [(slice(0, 2, 1), slice(0, 2, 1)), (slice(2, 3, 1), slice(0, 2, 1))]
    """
    axis = 0
    while axis < len(shape) - 1 and math.prod(shape[axis + 1 :]) * itemsize > limit:
        axis += 1
    rows = max(1, limit // max(1, math.prod(shape[axis + 1 :]) * itemsize))
    if chunk and rows > chunk[axis]:
        rows -= rows % chunk[axis]  # decode each chunk once
    block = (*(1,) * axis, rows, *shape[axis + 1 :])[: len(shape)]
    return model.regions(shape, tuple(max(1, n) for n in block))


def canonical_bytes(values: np.ndarray, type_: Type) -> bytes:
    """Return values as bytes that depend on the values only.

    Examples
    --------
    >>> from nczarr.model import SHORT, STRING
    >>> canonical_bytes(np.array([1, 2], ">i2"), SHORT), canonical_bytes(np.array(["ä"], object), STRING)
    (b'\\x01\\x00\\x02\\x00', b'\\x02\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\xc3\\xa4')
    """
    if not values.dtype.hasobject:
        little = np.array(values, values.dtype.newbyteorder("<"), order="C", copy=True)
        _unify_nans(little)
        return little.tobytes()
    return b"".join(_object_bytes(value, type_) for value in values.reshape(-1))


def _unify_nans(values: np.ndarray) -> None:
    if values.dtype.names:
        for name in values.dtype.names:
            _unify_nans(values[name])
    elif values.dtype.kind == "f":
        # CDL text has no payloads of NaN, and a copy through it has the same digest.
        values[np.isnan(values)] = np.nan


def _object_bytes(value: np.void | np.ndarray | str | None, type_: Type) -> bytes:
    if isinstance(type_, model.CompoundType):
        assert isinstance(value, np.void)
        return b"".join(
            canonical_bytes(np.asarray(value[f.name], f.type.dtype), f.type)
            if f.shape or not f.type.dtype.hasobject
            else _object_bytes(value[f.name], f.type)
            for f in type_.fields
        )
    if isinstance(type_, model.VlenType):
        items = np.asarray(() if value is None else value, type_.base.dtype)
        return len(items).to_bytes(8, "little") + canonical_bytes(items, type_.base)
    text = str(value or "").encode("utf-8", "surrogateescape")
    return len(text).to_bytes(8, "little") + text

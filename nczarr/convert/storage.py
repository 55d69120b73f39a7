"""Look at how variables are stored: chunks, shards, codecs, stored bytes, chunks that are there."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from nczarr.convert.verify.digests import bands
from nczarr.errors import error_context
from nczarr.filters import filter_name
from nczarr.mapping import VariableData
from nczarr.model import ArraySource, Dataset, Variable, describe_type
from nczarr.stores import LocalStore
from nczarr.transfer import value_bytes
from nczarr.zarr import inner_codecs


@dataclass(frozen=True)
class VariableStorage:
    """How one variable is stored; None where that cannot be told, or costs too much to find out."""

    fqn: str
    type: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...] | None
    shards: tuple[int, ...] | None
    codecs: tuple[str, ...]
    value_bytes: int
    stored_bytes: int | None
    objects_stored: int | None
    objects: int | None
    minimum: Any = None
    maximum: Any = None
    missing: int | None = None

    @property
    def ratio(self) -> float | None:
        """How many times larger the values are than what is stored."""
        return self.value_bytes / self.stored_bytes if self.stored_bytes else None

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {**asdict(self), "ratio": self.ratio}


def look_at(dataset: Dataset, *, stats: bool = False) -> Iterator[VariableStorage]:
    """Yield how each variable is stored.

    Parameters
    ----------
    stats : bool
        Read all values for their least, their greatest, and how many are fill or NaN.
    """
    for fqn, variable in dataset.all_variables.items():
        found = _where(variable)
        shape = dataset.shape(variable)
        limits = _limits(variable, shape) if stats else (None, None, None)
        yield VariableStorage(
            fqn,
            describe_type(variable.type),
            shape,
            *found[:3],
            math.prod(shape) * value_bytes(variable.type.dtype),
            *found[3:],
            *limits,
        )


_Found = tuple[
    tuple[int, ...] | None, tuple[int, ...] | None, tuple[str, ...], int | None, int | None, int | None
]


def _where(variable: Variable) -> _Found:
    data = variable.data
    if isinstance(data, VariableData):
        return _in_zarr(variable, data)
    storage = variable.storage
    codecs = tuple(filter_name(f.id) for f in storage.filters)
    ask = getattr(data, "stored_size", None)
    size, there, count = (None, None, None) if ask is None else ask()
    return storage.chunk_shape, None, codecs, size, there, count


def _in_zarr(variable: Variable, data: VariableData) -> _Found:
    array, rank = data.array, len(variable.dimensions)
    codecs = array.metadata.codecs
    shards = None
    names = tuple(_spelt(c.name, c.configuration) for c in codecs)
    if len(codecs) == 1 and codecs[0].name == "sharding_indexed":
        shards = tuple(array.chunk_shape)[:rank]
        with error_context(array.store.url, fqn=data.fqn):
            names = tuple(_spelt(c.name, c.configuration) for c in inner_codecs(codecs[0]))
    stored: int | None = None
    there: int | None
    if isinstance(array.store, LocalStore):
        # The documents of an array are small, and not counted.
        places = [os.path.join(array.store.root, array.chunk_key(i)) for i in array.initialized_chunks()]
        stored, there = sum(os.stat(place).st_size for place in places), len(places)
    else:
        there = array.nchunks_initialized() if array.store.lists_all else None
    return tuple(array.inner_chunk_shape)[:rank], shards, names, stored, there, array.nchunks


def _spelt(name: str, configuration: Any) -> str:
    level = configuration.get("level", configuration.get("clevel"))
    inner = f":{configuration['cname']}" if "cname" in configuration else ""
    return f"{name.removeprefix('numcodecs.')}{inner}{'' if level is None else f':{level}'}"


def _limits(variable: Variable, shape: tuple[int, ...]) -> tuple[Any, Any, int | None]:
    data: ArraySource | None = variable.data
    if data is None or data.dtype.kind not in "iuf":
        return None, None, None
    fills = [
        v for n in ("_FillValue", "missing_value") if n in variable.attribute for v in _numbers(variable, n)
    ]
    low = high = None
    missing = 0
    for region in bands(shape, data.dtype.itemsize, variable.storage.chunk_shape):
        values = data.read(region).reshape(-1)
        good = ~np.isnan(values) if values.dtype.kind == "f" else np.ones(values.shape, bool)
        for fill in fills:
            good &= values != fill
        missing += values.size - int(good.sum())
        seen = values[good]
        if seen.size:
            low = seen.min().item() if low is None else min(low, seen.min().item())
            high = seen.max().item() if high is None else max(high, seen.max().item())
    return low, high, missing


def _numbers(variable: Variable, name: str) -> list[Any]:
    values = variable.attribute[name].values
    return values.tolist() if values.dtype.kind in "iuf" else []

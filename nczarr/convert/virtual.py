"""Write references to the chunks of netCDF files, in kerchunk's form: a dataset whose values stay where they are."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from nczarr.atomic import text_output
from nczarr.convert.blocks import data_bytes
from nczarr.convert.change.rewrite import rewrite
from nczarr.errors import DatasetExistsError, UnsupportedError, placed
from nczarr.formats import local_path
from nczarr.mapping import ArrayShape, StoredDataset, WriteOptions, create_dataset
from nczarr.mapping.values.filters import codecs_of_filters
from nczarr.model import Dataset, EnumType, PrimitiveType, Variable
from nczarr.zarr.metadata import NamedConfig
from nczarr.zarr.types import data_type_for

#: Variables of at most so many bytes are put into the references themselves.
_INLINE = 4 << 10


def write_references(dataset: Dataset, source: Any, target: Any, *, overwrite: bool = False) -> None:
    """Write ``refs.json`` for a dataset of a netCDF file.

    Values that have no bytes of their own in the file (text, sequences, small variables) are put into the references.

    Raises
    ------
    UnsupportedError
        If the target is not a JSON file, the source not a netCDF file, or a variable has a filter without a codec.
    DatasetExistsError
        If the file exists and `overwrite` is false.
    """
    path = local_path(target)
    if path is None or path.suffix.lower() != ".json":
        raise UnsupportedError("--virtual: references are written to NAME.json", path=str(target))
    if path.exists() and (path.is_dir() or not overwrite):
        raise DatasetExistsError(
            "the file exists", path=str(path), hint="--overwrite, in Python overwrite=True, replaces it"
        )
    here = local_path(source)
    url = str(source) if here is None else str(here.resolve())
    places: dict[str, Any] = {}
    arrays: dict[str, ArrayShape] = {}
    for fqn, variable in dataset.all_variables.items():
        with placed(str(source), fqn=fqn):
            found = _places(variable)
        if found is not None:
            places[fqn] = found
            arrays[fqn] = _shape(variable, found)
    # What the file says of its chunks is kept; the arrays have what they need.
    plain = rewrite(dataset, variable=lambda fqn, v: replace(v, data=None) if fqn in places else v)
    kept: dict[str, bytes] = {}
    options = WriteOptions(compression="source", arrays=arrays)
    with create_dataset(kept, plain, options) as stored:
        _inline(plain, stored)
        references = dict(_references(stored, places, url))
    refs = {key: _text(value) for key, value in kept.items()} | references
    with text_output(path) as file:
        json.dump({"version": 1, "refs": refs}, file)


def _places(variable: Variable) -> Any:
    data = variable.data
    ask = getattr(data, "chunk_places", None)
    fixed = isinstance(variable.type, PrimitiveType | EnumType) and not variable.type.dtype.hasobject
    if (
        data is None
        or ask is None
        or not fixed
        or variable.type.dtype.kind == "S"
        or data_bytes(data) <= _INLINE
    ):
        return None
    found = ask()
    if found is None:
        return None
    unknown = [f.id for f in found.filters if codecs_of_filters([f], 1) is None]
    if unknown:
        raise UnsupportedError(f"the filter {unknown[0]} has no codec, so its chunks cannot be referred to")
    return found


def _shape(variable: Variable, found: Any) -> ArrayShape:
    dtype = variable.type.dtype
    order = "big" if found.big_endian else "little"
    first = NamedConfig("bytes", {"endian": order}) if dtype.itemsize > 1 else NamedConfig("bytes")
    rest = codecs_of_filters(found.filters, dtype.itemsize) or []
    return ArrayShape(found.shape, None, (first, *rest), data_type_for(dtype))


def _inline(dataset: Dataset, stored: StoredDataset) -> None:
    for fqn, variable in dataset.all_variables.items():
        if variable.data is not None and 0 not in variable.data.shape:
            region = tuple(slice(0, n, 1) for n in variable.data.shape)
            stored.write(fqn, region, variable.data.read(region))


def _references(stored: StoredDataset, places: dict[str, Any], url: str) -> Iterator[tuple[str, list[Any]]]:
    for fqn, found in places.items():
        array = stored.data(fqn).array
        grid = [range(-(-n // c)) for n, c in zip(array.shape, found.shape, strict=True)]
        if len(found.places) != math.prod(len(axis) for axis in grid):
            _refuse_other_fill(fqn, found, array, grid)
        for index, (offset, size) in found.places.items():
            yield array.chunk_key(index), [url, offset, size]


def _refuse_other_fill(fqn: str, found: Any, array: Any, grid: list[range]) -> None:
    """Chunks that were never written read as the array's fill value: it must be the file's."""
    missing = next(index for index in product(*grid) if index not in found.places)
    region = tuple(
        slice(i * c, min((i + 1) * c, n), 1)
        for i, c, n in zip(missing, found.shape, array.shape, strict=True)
    )
    values = np.asarray(found.read(region))
    fill = np.full(values.shape, array.metadata.fill, values.dtype)
    if values.tobytes() != fill.tobytes():
        raise UnsupportedError("chunks that were never written have another value than _FillValue", fqn=fqn)


def _text(value: bytes) -> str:
    try:
        text = bytes(value).decode("ascii")
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(value).decode("ascii")
    return text if not text.startswith("base64:") else "base64:" + base64.b64encode(value).decode("ascii")

"""Make the documents and references of a dataset whose values stay in netCDF files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nczarr.convert.virtual.places import Place, Referred, referred
from nczarr.errors import UnsupportedError, error_context
from nczarr.mapping import ArrayShape, StoredDataset, WriteOptions
from nczarr.mapping.values.storage import codecs_of_filters
from nczarr.model import Dataset, EnumType, PrimitiveType, Variable, rewrite
from nczarr.transfer import data_bytes
from nczarr.zarr import NamedConfig, data_type_for

#: Variables of at most so many bytes are put into the references themselves …
_INLINE = 4 << 10
#: … and larger ones that have no bytes of their own in a file, up to this.
_LARGEST_INLINE = 64 << 20


@dataclass(frozen=True)
class Virtual:
    """A dataset, and where the values of its larger variables are.

    Attributes
    ----------
    dataset : Dataset
        Variables in `places` have no data.
    options : WriteOptions
        How its arrays are made, so that their chunks are those of the files.
    """

    dataset: Dataset
    options: WriteOptions
    places: dict[str, Referred]

    def inline(self, stored: StoredDataset) -> None:
        """Write the values that are in no place."""
        for fqn, variable in self.dataset.all_variables.items():
            if variable.data is not None and 0 not in variable.data.shape:
                region = tuple(slice(0, n, 1) for n in variable.data.shape)
                stored.write(fqn, region, variable.data.read(region))

    def chunks(self, stored: StoredDataset) -> Iterator[tuple[str, tuple[int, ...], Place]]:
        """Yield the array's path, the place in the grid, and the place in the files of each chunk.

        Raises
        ------
        UnsupportedError
            If chunks that were never written do not read as the array's fill value.
        """
        for fqn, found in self.places.items():
            array = stored.data(fqn).array
            fill = np.asarray(array.metadata.fill, array.dtype)
            if any(value.tobytes() != fill.tobytes() for value in found.unwritten):
                raise UnsupportedError(
                    "chunks that were never written have another value than _FillValue", fqn=fqn
                )
            for index, place in found.places.items():
                yield array.path, index, place


def virtual(dataset: Dataset, source: Any) -> Virtual:
    """Find the chunks of all variables.

    Raises
    ------
    UnsupportedError
        If a filter has no codec, or a large variable has no bytes of its own in the file.
    """
    places: dict[str, Referred] = {}
    arrays: dict[str, ArrayShape] = {}
    for fqn, variable in dataset.all_variables.items():
        with error_context(os.fspath(source), fqn=fqn):
            found = _places(variable, source)
        if found is not None:
            places[fqn] = found
            arrays[fqn] = _shape(variable, found)
    # What the files say of their chunks is kept; the arrays have what they need.
    plain = rewrite(dataset, variable=lambda fqn, v: replace(v, data=None) if fqn in places else v)
    return Virtual(plain, WriteOptions(compression="source", arrays=arrays), places)


def _places(variable: Variable, source: Any) -> Referred | None:
    data = variable.data
    if data is None or data_bytes(data) <= _INLINE:
        return None
    fixed = isinstance(variable.type, PrimitiveType | EnumType) and not variable.type.dtype.hasobject
    found = referred(data, source) if fixed and variable.type.dtype.kind != "S" else None
    if found is None and data_bytes(data) > _LARGEST_INLINE:
        raise UnsupportedError(
            f"{data_bytes(data)} bytes of values that no chunk of a file holds as they are cannot be referred to",
            hint="-x leaves the variable out; a copy without --virtual holds all values",
        )
    return found


def _shape(variable: Variable, found: Referred) -> ArrayShape:
    dtype = variable.type.dtype
    order = "big" if found.big_endian else "little"
    first = NamedConfig("bytes", {"endian": order}) if dtype.itemsize > 1 else NamedConfig("bytes")
    rest = codecs_of_filters(found.filters, dtype.itemsize) or []
    return ArrayShape(found.shape, None, (first, *rest), data_type_for(dtype))

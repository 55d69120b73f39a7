"""Write a dataset whose values stay in netCDF files, in the form that the target's name asks for."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from nczarr.convert.virtual.icechunk import is_session_store, write_repository, write_session
from nczarr.convert.virtual.kerchunk import write_json, write_parquet
from nczarr.convert.virtual.references import virtual
from nczarr.errors import DatasetExistsError, StoreError, UnsupportedError
from nczarr.formats import is_icechunk, is_references, local_path
from nczarr.model import Dataset
from nczarr.stores.reach import place_of

_WRITERS = {
    ".json": write_json,
    ".parquet": write_parquet,
    ".parq": write_parquet,
    ".icechunk": write_repository,
}


def write_virtual(
    dataset: Dataset, source: Any, target: Any, unchanged: Callable[[], None], *, overwrite: bool = False
) -> tuple[str, ...]:
    """Write references to the chunks of a dataset of netCDF files.

    Values that have no bytes of their own in the files (text, sequences, small variables) are put beside them.

    Parameters
    ----------
    source
        The file, or the first of those that the dataset was joined from.
    target
        ``NAME.json``, ``NAME.parquet``, ``NAME.icechunk``, or the store of an Icechunk session.
    unchanged : callable
        Raises an error if a file has changed since it was opened.

    Returns
    -------
    tuple of str
        What has to be allowed to read the references back: folders that are not beside them.

    Raises
    ------
    UnsupportedError
        If the target is nothing of these, a variable has a filter without a codec, or a large one no bytes of its own.
    DatasetExistsError
        If the target exists and `overwrite` is false, or it is something else.
    """
    if is_session_store(target):
        found = virtual(dataset, source)
        unchanged()
        write_session(found, target)
        return ()
    path = local_path(target)
    write = None if path is None else _WRITERS.get(path.suffix.lower())
    if path is None or write is None:
        raise UnsupportedError(
            "--virtual: references are written to NAME.json, NAME.parquet or NAME.icechunk",
            path=str(target),
            hint="Zarr itself has no references: readers would take chunks that are elsewhere for fill",
        )
    if path.exists():
        if not overwrite:
            raise DatasetExistsError(
                "it exists", path=str(path), hint="--overwrite, in Python overwrite=True, replaces it"
            )
        if path.is_dir() and not (is_references(path) or is_icechunk(path)):
            raise DatasetExistsError(
                "this directory holds no references, so it is never overwritten", path=str(path)
            )
        if path.is_dir() == (write is write_json):
            raise DatasetExistsError("it is something else, so it is never overwritten", path=str(path))
    if not path.absolute().parent.is_dir():
        raise StoreError("the folder for it does not exist", path=str(path))
    found = virtual(dataset, source)
    unchanged()
    write(found, path)
    beside = place_of(os.path.dirname(os.path.realpath(path)))
    places = {place_of(url) for v in found.places.values() for url, _, _ in v.places.values()}
    return tuple(sorted({place.folder for place in places if not place.is_within(beside)}))

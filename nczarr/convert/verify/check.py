"""Check a Zarr dataset: documents, consolidated metadata, agreement of shapes, and every chunk."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nczarr import mapping, netcdf
from nczarr.errors import NCZarrError, NotAllowedError
from nczarr.formats import kind_of_source
from nczarr.mapping import Finding
from nczarr.model import Dataset, Variable, long_names, regions
from nczarr.targets import allowing
from nczarr.transfer import NoProgress, Progress, block_shape, data_bytes, value_bytes


def check(
    source: Any,
    *,
    data: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    allow: str | Sequence[str] = (),
    progress: Progress | None = None,
) -> Iterator[Finding]:
    """Yield what is wrong with a Zarr dataset or a netCDF file.

    The documents are read themselves, not their consolidated copy; the copy is then compared with them.

    Parameters
    ----------
    source : str, path or store
        A Zarr hierarchy, or a netCDF file, which is read in a child process.
    data : bool, default False
        Read every chunk too; each one that cannot be decoded is a finding.
    storage_options : mapping, optional
        For fsspec.
    allow : str or sequence of str
        Paths and URLs. References to other files (kerchunk's, an Icechunk repository's virtual chunks) reach what
        lies beside them, and what lies below these.
    progress : Progress, optional
        Is told of the values that are read.

    Raises
    ------
    DatasetNotFoundError
        If there is no Zarr hierarchy at all.

    Examples
    --------
    >>> from nczarr import copy
    >>> from nczarr.model import Dataset
    >>> store = {}
    >>> losses = copy(Dataset("d"), store)
    >>> list(check(store, data=True))
    []
    """
    progress = progress or NoProgress()
    if kind_of_source(source) == "netcdf":
        yield from _netcdf(source, data, progress)
        return
    try:
        stored, found = mapping.check_metadata(source, storage_options=allowing(storage_options, allow))
    except FileNotFoundError:
        raise
    except NCZarrError as error:
        yield Finding("metadata", error.fqn or "/", str(error), "error")
        return
    with stored:
        yield from found
        for path, sentence in stored.hierarchy.deviations():
            yield Finding("specification", "/" + path, sentence, "warning")
        for path, sentence in mapping.missing_chunks(stored.hierarchy) if data else ():
            yield Finding("chunk-missing", "/" + path, sentence, "error")
        if data:
            yield from _all_values(stored.dataset, progress)


def _netcdf(source: Any, data: bool, progress: Progress) -> Iterator[Finding]:
    """Check a netCDF file in a child process: a damaged one may crash or hang the HDF5 library."""
    try:
        file = netcdf.open_isolated(source)
    except FileNotFoundError:
        raise
    except NCZarrError as error:
        yield Finding("metadata", error.fqn or "/", str(error), "error")
        return
    with file:
        for fqn, wrong in long_names(file.dataset):
            what = f"{wrong}; netCDF's library reads other memory in its place"
            yield Finding("name-long", fqn, what, "warning")
        if data:
            yield from _all_values(file.dataset, progress)


def _all_values(dataset: Dataset, progress: Progress) -> Iterator[Finding]:
    variables = dataset.all_variables
    progress.start(sum(data_bytes(v.data) for v in variables.values() if v.data is not None))
    try:
        for fqn, variable in variables.items():
            yield from _values(fqn, variable, progress)
    finally:
        progress.finish()


def _values(fqn: str, variable: Variable, progress: Progress) -> Iterator[Finding]:
    source = variable.data
    if source is None:
        return
    # Blocks of one chunk, so that each damaged chunk is found and named.
    chunk = variable.storage.chunk_shape or source.shape
    for region in regions(source.shape, block_shape(source.shape, chunk, None, 1, limit=1)):
        try:
            source.read(region)
        except NotAllowedError:
            raise
        except NCZarrError as error:
            yield Finding("chunk", fqn, str(error), "error")
        count = math.prod(s.stop - s.start for s in region)
        progress.advance(count * value_bytes(source.dtype), fqn)

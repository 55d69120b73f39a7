"""Check a Zarr dataset: documents, consolidated metadata, agreement of shapes, and every chunk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nczarr import mapping, netcdf
from nczarr.convert.blocks import block_shape
from nczarr.errors import NCZarrError
from nczarr.formats import kind_of_source
from nczarr.mapping import Finding
from nczarr.model import Variable, regions


def check(
    source: Any, *, data: bool = False, storage_options: Mapping[str, Any] | None = None
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

    Raises
    ------
    DatasetNotFoundError
        If there is no Zarr hierarchy at all.
    """
    if kind_of_source(source) == "netcdf":
        yield from _netcdf(source, data)
        return
    try:
        stored, found = mapping.check_metadata(source, storage_options=storage_options)
    except FileNotFoundError:
        raise
    except NCZarrError as error:
        yield Finding("metadata", error.fqn or "/", str(error), "error")
        return
    with stored:
        yield from found
        for loss in stored.losses:
            yield Finding("left-out", "/", loss, "warning")
        for path, sentence in stored.hierarchy.deviations():
            yield Finding("specification", "/" + path, sentence, "warning")
        for path, sentence in mapping.missing_chunks(stored.hierarchy) if data else ():
            yield Finding("chunk-missing", "/" + path, sentence, "error")
        for fqn, variable in stored.dataset.all_variables.items() if data else ():
            yield from _values(fqn, variable)


def _netcdf(source: Any, data: bool) -> Iterator[Finding]:
    """Check a netCDF file in a child process: a damaged one may crash or hang the HDF5 library."""
    try:
        file = netcdf.open_isolated(source)
    except FileNotFoundError:
        raise
    except NCZarrError as error:
        yield Finding("metadata", error.fqn or "/", str(error), "error")
        return
    with file:
        for fqn, variable in file.dataset.all_variables.items() if data else ():
            yield from _values(fqn, variable)


def _values(fqn: str, variable: Variable) -> Iterator[Finding]:
    source = variable.data
    if source is None:
        return
    # Blocks of one chunk, so that each damaged chunk is found and named.
    chunk = variable.storage.chunk_shape or source.shape
    for region in regions(source.shape, block_shape(source.shape, chunk, None, 1, limit=1)):
        try:
            source.read(region)
        except NCZarrError as error:
            yield Finding("chunk", fqn, str(error), "error")

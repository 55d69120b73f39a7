"""Move datasets from and to CDL text, as netCDF4-python does with ncgen and ncdump."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from nczarr.errors import DatasetExistsError, DatasetNotFoundError
from nczarr.formats import storage_of
from nczarr.netcdf4.compatibility import DATA_MODELS, FORMAT_OF_MODEL, storage
from nczarr.netcdf4.errors import NetCDFValueError, translating
from nczarr.session import Session
from nczarr.transfer import MEMORY, NoProgress, blocks_of, transfer


def from_cdl(
    cdlfilename: str | os.PathLike[str], ncfilename: str | os.PathLike[str] | None, format: str
) -> str:
    """Make a dataset from a CDL file; as ``Dataset.fromcdl`` does.

    Returns
    -------
    str
        The path of the dataset.
    """
    from nczarr import mapping, netcdf
    from nczarr.cdl import load

    source = Path(cdlfilename)
    target = (
        source.with_suffix(".nc" if storage() == "netcdf" else ".zarr")
        if ncfilename is None
        else Path(ncfilename)
    )
    if format not in DATA_MODELS:
        raise NetCDFValueError(f"illegal format requested: {format!r}", hint=", ".join(DATA_MODELS))
    if not source.exists():
        raise DatasetNotFoundError("there is no such file", path=str(source))
    if target.exists():
        raise DatasetExistsError("it exists already", path=str(target))
    dataset = replace(load(source), format=FORMAT_OF_MODEL[DATA_MODELS[format]])
    edge = netcdf if storage_of(target, rule=storage()) == "netcdf" else mapping
    with edge.create_dataset(str(target), dataset) as sink:
        data = dataset.all_variables.items()
        work = [(fqn, v, v.data) for fqn, v in data if v.data is not None and 0 not in v.data.shape]
        transfer(blocks_of(work, sink), sink, NoProgress(), 1, MEMORY)
        sink.commit()
    return str(target)


def to_cdl(
    session: Session, *, coordvars: bool, data: bool, outfile: str | os.PathLike[str] | None
) -> str | None:
    """CDL text of an open dataset; as ``Dataset.tocdl`` does."""
    from nczarr.cdl import DumpOptions, dump, dumps

    session.sync()
    with translating("the output of tocdl is a path, not {!r}", outfile):
        outfile = None if outfile is None else Path(outfile)
    options = DumpOptions(header_only=not data and not coordvars, coordinates=coordvars, special=True)
    stored = session.stored.dataset
    if outfile is None:
        return dumps(stored, options)
    with outfile.open("w", encoding="utf-8") as file:
        dump(stored, file, options)
    return None

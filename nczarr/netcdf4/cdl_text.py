"""Datasets from CDL text and to CDL text."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from nczarr import model
from nczarr.errors import DatasetExistsError, DatasetNotFoundError
from nczarr.netcdf4.constants import DATA_MODELS, FORMAT_OF_MODEL
from nczarr.netcdf4.errors import NetCDFValueError
from nczarr.netcdf4.session import Session


def from_cdl(
    cdlfilename: str | os.PathLike[str], ncfilename: str | os.PathLike[str] | None, format: str
) -> str:
    """Make a dataset from a CDL file; see :meth:`nczarr.netcdf4.Dataset.fromcdl`.

    Returns
    -------
    str
        The path of the dataset.
    """
    from nczarr.cdl import load
    from nczarr.mapping import create_dataset

    source = Path(cdlfilename)
    target = source.with_suffix(".zarr") if ncfilename is None else Path(ncfilename)
    if format not in DATA_MODELS:
        raise NetCDFValueError(f"illegal format requested: {format!r}", hint=", ".join(DATA_MODELS))
    if not source.exists():
        raise DatasetNotFoundError("there is no such file", path=str(source))
    if target.exists():
        raise DatasetExistsError("it exists already", path=str(target))
    dataset = replace(load(source), format=FORMAT_OF_MODEL[DATA_MODELS[format]])
    with create_dataset(str(target), dataset) as sink:
        for fqn, variable in dataset.all_variables.items():
            if variable.data is None or 0 in variable.data.shape:
                continue
            for region in model.regions(variable.data.shape, sink.write_shape(fqn)):
                sink.write(fqn, region, variable.data.read(region))
    return str(target)


def to_cdl(
    session: Session, *, coordvars: bool, data: bool, outfile: str | os.PathLike[str] | None
) -> str | None:
    """CDL text of an open dataset; see :meth:`nczarr.netcdf4.Dataset.tocdl`."""
    from nczarr.cdl import DumpOptions, dumps
    from nczarr.cdl.write.dump import dump

    session.sync()
    options = DumpOptions(header_only=not data and not coordvars, coordinates=coordvars, special=True)
    stored = session.stored.dataset
    if outfile is None:
        return dumps(stored, options)
    with closing(open(outfile, "w", encoding="utf-8")) as file:
        dump(stored, file, options)
    return None

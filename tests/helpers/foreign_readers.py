"""Wrap other Zarr readers as functions from a store and an array's path to its values.

A missing reader raises :class:`Absent`. A reader that refuses an array raises its own error.
"""

from __future__ import annotations

import importlib
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import gdal_multidim
import numpy as np


class Absent(Exception):
    """The reader is not installed."""


def module(name: str) -> ModuleType:
    """Import a reader's module."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Absent(f"{name} is not installed") from error


def zarr_python(store: Path, path: str) -> Any:
    """Read an array with zarr-python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return module("zarr").open_array(str(store), path=path, mode="r")[...]


def zarrs_pipeline(store: Path, path: str) -> Any:
    """Read an array with zarr-python and the codecs of zarrs."""
    module("zarrs")
    with module("zarr").config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}):
        return zarr_python(store, path)


def zarrs(store: Path, path: str) -> Any:
    """Read an array with zarrs, through zarrista."""
    zarrista = module("zarrista")
    array = zarrista.Array.open(module("zarrista.store").FilesystemStore(str(store)), f"/{path}")
    return array.retrieve_array_subset(array.subset_all).to_numpy()


def tensorstore(store: Path, path: str) -> Any:
    """Read an array with tensorstore, which requires compounds to be read field by field."""
    ts = module("tensorstore")
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{store / path}/"}}

    def read(**field: str) -> np.ndarray:
        return np.asarray(ts.open({**spec, **field}, read=True).result().read().result())

    data_type = json.loads((store / path / "zarr.json").read_text())["data_type"]
    if not isinstance(data_type, dict) or data_type["name"] != "struct":
        return read()
    fields = [f["name"] for f in data_type["configuration"]["fields"]]
    columns = [read(field=name) for name in fields]
    out = np.empty(columns[0].shape, [(n, c.dtype) for n, c in zip(fields, columns, strict=True)])
    for name, column in zip(fields, columns, strict=True):
        out[name] = column
    return out


def gdal(store: Path, path: str) -> Any:
    """Read an array with GDAL's multidimensional API."""
    try:
        gdal_multidim.library()
    except gdal_multidim.Unavailable as error:
        raise Absent(str(error)) from error
    return gdal_multidim.read(store, path)


READERS: dict[str, Callable[[Path, str], Any]] = {
    "zarr-python": zarr_python,
    "zarrs-python": zarrs_pipeline,
    "zarrs": zarrs,
    "tensorstore": tensorstore,
    "GDAL": gdal,
}

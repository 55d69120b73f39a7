"""Open anything that a copy takes as a model: the front door of the package."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from types import ModuleType
from typing import Literal

from nczarr.convert.endpoints import open_source
from nczarr.errors import ArgumentError, ArgumentTypeError, NCZarrError
from nczarr.formats import local_path
from nczarr.model import Dataset, Group, Variable, join_fqn, resolve
from nczarr.model.reading import LIFETIME, PLACE, Lifetime

_TAKES = "a path or URL, a store, a mapping, or a dataset of nczarr or xarray"


def open(
    source: object, mode: Literal["r"] = "r", *, storage_options: Mapping[str, object] | None = None
) -> Dataset:
    """Open a dataset as a model, whose values are read on demand.

    Parameters
    ----------
    source
        What :func:`nczarr.copy` takes: the path or URL of a Zarr hierarchy, a netCDF file or a CDL file, a store, a
        mapping, a dataset or tree of xarray, a dataset of the model; and a dataset of the netCDF4 interface.
    mode : {'r'}
        Read. :class:`nczarr.Dataset` also changes datasets.
    storage_options : mapping, optional
        Options of the file system of a URL.

    Returns
    -------
    nczarr.model.Dataset
        Read-only, and a context manager. ``dataset["group/variable"][index]`` reads values.

    Raises
    ------
    DatasetNotFoundError
        If there is no dataset.
    ArgumentError
        For a mode that writes.
    ArgumentTypeError
        If the source is nothing that can be opened.
    NCZarrError
        If the source cannot be read.

    See Also
    --------
    nczarr.Dataset : the class with netCDF4-python's methods, which also changes datasets.

    Examples
    --------
    >>> from nczarr.model import DOUBLE, Dimension
    >>> x = Variable("x", DOUBLE, ("x",), data=[0.5, 1, 1.5])
    >>> with open(Dataset("d", dimensions=[Dimension("x", 3)], variables=[x])) as dataset:
    ...     dataset["x"][::-1]
    array([1.5, 1. , 0.5])
    """
    # Users come from netCDF4-python, where "w" creates a file.
    if mode != "r":
        raise ArgumentError(
            f"mode={mode!r}: a model is read-only",
            hint="nczarr.Dataset(…, mode) creates and changes datasets",
        )
    if isinstance(source, Dataset):
        return resolve(source)
    source = _stored(source)
    if isinstance(source, Dataset):
        return source
    # A number or a list would fail inside of a store, with an error of Python's.
    if not _may_open(source):
        raise ArgumentTypeError(
            f"{type(source).__name__} is nothing that nczarr can open", hint=f"pass {_TAKES}"
        )
    with ExitStack() as stack:
        try:
            dataset = stack.enter_context(open_source(source, storage_options=storage_options))
        except NCZarrError:
            raise
        except (AttributeError, TypeError) as error:
            raise ArgumentTypeError(
                f"{type(source).__name__} cannot be opened: {error}", hint=f"pass {_TAKES}"
            ) from error
        # A pickled variable opens its source again by this. A source in memory has no name to open.
        again = None
        if isinstance(source, str | os.PathLike):
            path = local_path(source)
            again = _reopen, (str(source) if path is None else str(path.absolute()), storage_options)
        _keep_open(dataset, Lifetime(stack.pop_all().close, dataset.name, again))
    return dataset


def _reopen(source: str, storage_options: Mapping[str, object] | None) -> Dataset:
    return open(source, storage_options=storage_options)


def _may_open(source: object) -> bool:
    """Return whether a source is a path, or an object that is not a plain value."""
    if isinstance(source, str | os.PathLike):
        return True
    plain = (int, float, complex, bytes, bytearray, list, tuple, set, type, ModuleType, Group, Variable)
    return source is not None and not isinstance(source, plain) and not callable(source)


def _stored(source: object) -> object:
    """Return the model of a dataset of the netCDF4 interface, with its changes; other sources unchanged."""
    # The interface is not imported only to learn that the source is none of its objects.
    if not type(source).__module__.startswith("nczarr.netcdf4"):
        return source
    from nczarr import netcdf4

    if not isinstance(source, netcdf4.Dataset) or isinstance(source, netcdf4.Group):
        raise ArgumentTypeError(
            f"{type(source).__name__} is a part of a dataset", hint="pass the dataset, or its path"
        )
    session = source._nc_session
    session.rules.check_open()
    # The program's pending values are a part of its dataset.
    session.sync()
    return session.stored.dataset


def _keep_open(group: Group, lifetime: Lifetime, fqn: str = "/") -> None:
    """Let each node of a dataset keep its source open: programs may hold a variable, and drop the dataset."""
    group.__dict__.update({LIFETIME: lifetime, PLACE: fqn})
    for variable in group.variables:
        variable.__dict__.update({LIFETIME: lifetime, PLACE: join_fqn(fqn, variable.name)})
    for child in group.groups:
        _keep_open(child, lifetime, join_fqn(fqn, child.name))

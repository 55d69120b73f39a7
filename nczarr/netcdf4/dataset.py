"""Datasets: opening, closing, and the root of the tree."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import threading
import weakref
from typing import Any

from nczarr import model
from nczarr.errors import NCZarrError
from nczarr.netcdf4.constants import FORMAT_OF_MODEL
from nczarr.netcdf4.group_methods import GroupMethods
from nczarr.netcdf4.opening import open_session
from nczarr.netcdf4.tree import thaw

#: Datasets that are open for writing: what is still open when Python ends is closed then.
_OPEN: weakref.WeakSet[Dataset] = weakref.WeakSet()


class Dataset(GroupMethods):
    """A dataset with netCDF4-python's interface.

    Parameters
    ----------
    filename : str, PathLike, mapping, store, or model dataset
        A path or URL of a Zarr hierarchy, anything that :func:`nczarr.mapping.open_dataset` opens, or, for
        reading, a netCDF file or a :class:`nczarr.model.Dataset`.
    mode : {'r', 'w', 'x', 'a', 'r+'}
        Read; write a new one in place of whatever is there; write a new one where nothing is; read and write.
        A trailing ``s`` is ignored.
    clobber : bool
        False: mode ``w`` does not replace anything.
    format : str
        Data model of a new dataset: ``NETCDF4``, ``NETCDF4_CLASSIC``, ``NETCDF3_CLASSIC``,
        ``NETCDF3_64BIT_OFFSET``, ``NETCDF3_64BIT_DATA``. It is a label; storage is always Zarr.
    diskless, persist : bool
        Keep everything in memory; with `persist`, write it to `filename` on close.
    keepweakref : bool
        What is inside holds only weak references to its group: dropping the dataset closes it.
    memory : bytes-like or int, optional
        Mode ``r``: a zip archive of a Zarr hierarchy. Mode ``w``: build one in memory; :meth:`close` returns it.
    encoding : str, optional
        Accepted; names of files are Unicode.
    parallel, comm, info
        Parallel access is not available: `parallel` must be False.
    auto_complex : bool
        Not available: must be False.
    storage_options : dict, optional
        For remote stores.
    options : nczarr.mapping.WriteOptions, optional
        How a new dataset is laid out.
    **kwargs
        Ignored, as netCDF4-python does.

    Raises
    ------
    DatasetNotFoundError
        If there is nothing to read (also a :class:`FileNotFoundError`).
    DatasetExistsError
        If something is there that is not to be replaced (also a :class:`FileExistsError`).
    NetCDFValueError
        For a mode or format that does not exist, or a feature that is not available.

    Examples
    --------
    >>> import numpy as np
    >>> target = {}
    >>> with Dataset(target, "w") as ds:
    ...     ds.title = "example"
    ...     time = ds.createDimension("time", None)
    ...     v = ds.createVariable("t", "f8", ("time",))
    ...     v[:] = [0.5, 1.5]
    >>> with Dataset(target) as ds:
    ...     print(ds.title, ds["t"][1:], ds.dimensions["time"].isunlimited())
    example [1.5] True
    """

    __slots__ = ()

    def __init__(
        self,
        filename: Any,
        mode: str = "r",
        clobber: bool = True,
        format: str = "NETCDF4",
        diskless: bool = False,
        persist: bool = False,
        keepweakref: bool = False,
        memory: Any = None,
        encoding: str | None = None,
        parallel: bool = False,
        comm: Any = None,
        info: Any = None,
        auto_complex: bool = False,
        *,
        storage_options: dict[str, Any] | None = None,
        options: Any = None,
        **kwargs: Any,
    ) -> None:
        session = open_session(
            filename,
            mode,
            clobber=clobber,
            format=format,
            diskless=diskless,
            persist=persist,
            memory=memory,
            parallel=parallel,
            auto_complex=auto_complex,
            storage_options=storage_options,
            options=options,
        )
        session.bind(self)
        self._nc_setup(session, None, "/", weak=keepweakref)
        thaw(self, session.stored.dataset)
        if session.writable:
            _OPEN.add(self)
            _close_all_at_exit()

    def _nc_freeze_dataset(self) -> model.Dataset:
        """The tree as a model."""
        session = self._nc_session
        stored = session.stored.dataset
        # A dataset that says nothing of its format goes on saying nothing.
        unsaid = stored.format is None and session.data_model == "NETCDF4"
        format_ = None if unsaid else FORMAT_OF_MODEL.get(session.data_model)
        frozen = model.Dataset(stored.name, format=format_, **self._nc_content())
        self._nc_frozen = frozen
        return frozen

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> memoryview | None:
        """Write all that is not stored yet, and close.

        Returns
        -------
        memoryview or None
            The zip archive, if the dataset was made with `memory`.

        Raises
        ------
        NetCDFRuntimeError
            If it is closed already.
        """
        _OPEN.discard(self)
        return self._nc_session.close(self)

    def __del__(self) -> None:
        # Half-made objects have no session; errors at this point reach nobody.
        with contextlib.suppress(AttributeError, NCZarrError, OSError):
            if self._nc_session.is_open:
                self._nc_session.close(self)

    @staticmethod
    def fromcdl(
        cdlfilename: str | os.PathLike[str],
        ncfilename: str | os.PathLike[str] | None = None,
        mode: str = "a",
        format: str = "NETCDF4",
    ) -> Dataset:
        """Make a dataset from CDL text, and open it.

        Parameters
        ----------
        cdlfilename : path
        ncfilename : path, optional
            The dataset to make; default: `cdlfilename` with the suffix ``.zarr``.
        mode : str
            How it is opened then.
        format : str
            Its data model.

        Raises
        ------
        DatasetNotFoundError
            If there is no such CDL file.
        DatasetExistsError
            If the output exists.
        CDLError
            If the text is wrong.
        """
        from nczarr.netcdf4.cdl_text import from_cdl

        return Dataset(from_cdl(cdlfilename, ncfilename, format), mode)

    def tocdl(
        self, coordvars: bool = False, data: bool = False, outfile: str | os.PathLike[str] | None = None
    ) -> str | None:
        """The dataset as CDL text, with the special attributes (``_ChunkSizes``, …).

        Parameters
        ----------
        coordvars : bool
            With the values of coordinate variables.
        data : bool
            With all values.
        outfile : path, optional
            Write the text there, and return None.
        """
        from nczarr.netcdf4.cdl_text import to_cdl

        return to_cdl(self._nc_session, coordvars=coordvars, data=data, outfile=outfile)


def _close_all() -> None:
    for dataset in list(_OPEN):
        dataset.__del__()


@functools.cache
def _close_all_at_exit() -> None:
    """Have everything closed before Python stops the pools of threads, which plain ``atexit`` is too late for."""
    import concurrent.futures.thread  # noqa: F401  (registers first, so that it is called after us)

    register = getattr(threading, "_register_atexit", atexit.register)
    register(_close_all)

"""Load h5py when it is first needed, serialise its calls, and turn its failures into ours."""

from __future__ import annotations

import importlib
import threading
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from nczarr.errors import NCZarrError, NetCDFFileError, UnsupportedError, placed

_loading = threading.Lock()
_loaded: SimpleNamespace | None = None


def hdf5() -> Any:
    """The low-level modules of h5py, as attributes (``hdf5().h5t`` …).

    HDF5 is not safe for threads: whoever calls it holds ``hdf5().phil``, h5py's own lock, which also those hold
    who use h5py beside us.

    Raises
    ------
    UnsupportedError
        If h5py is not installed.
    """
    global _loaded
    if _loaded is not None:
        return _loaded
    with _loading:
        if _loaded is None:
            try:
                import h5py
                from h5py import h5, h5a, h5d, h5ds, h5f, h5fd, h5g, h5i, h5l, h5o, h5p, h5s, h5t, h5z
                from h5py._objects import phil
            except ImportError as error:
                raise UnsupportedError(
                    "netCDF-4 files need the package h5py",
                    hint="pip install h5py",
                ) from error
            _loaded = SimpleNamespace(
                h5=h5, h5a=h5a, h5d=h5d, h5ds=h5ds, h5f=h5f, h5fd=h5fd, h5g=h5g, h5i=h5i, h5l=h5l, h5o=h5o,
                h5p=h5p, h5s=h5s, h5t=h5t, h5z=h5z, version=h5py.version, phil=phil,
            )  # fmt: skip
        return _loaded


class hdf5_errors(placed):
    """Hold HDF5's lock, and turn what h5py raises into a :class:`NetCDFFileError` with the place."""

    __slots__ = ("doing",)

    def __init__(self, path: str, fqn: str | None = None, doing: str = "cannot be read") -> None:
        super().__init__(path, fqn=fqn)
        self.doing = doing

    def __enter__(self) -> None:
        hdf5().phil.__enter__()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        hdf5().phil.__exit__(None, None, None)
        if error is None:
            return
        if isinstance(error, NCZarrError):  # our own, some of which are OSErrors too
            super().__exit__(kind, error, trace)
        elif isinstance(error, RecursionError):
            raise NetCDFFileError(
                f"{self.doing}: groups or types are nested too deeply", path=self.path, fqn=self.fqn
            ) from None
        elif isinstance(error, OSError | RuntimeError | ValueError | KeyError | TypeError | OverflowError):
            reason = str(error).strip("'\"") or type(error).__name__
            raise NetCDFFileError(f"{self.doing}: {reason}", path=self.path, fqn=self.fqn) from error


def available_filter(number: int) -> bool:
    """True if HDF5 has the filter; the plugins of hdf5plugin are tried if that package is installed."""
    with hdf5().phil:
        if hdf5().h5z.filter_avail(number):
            return True
        with suppress(ImportError):
            importlib.import_module("hdf5plugin")  # registers its filters
        return bool(hdf5().h5z.filter_avail(number))


def access_to(file: Any) -> Any:
    """Return a list of HDF5's access properties with which a file is the one given, in Python."""
    api = hdf5()
    made = api.h5p.create(api.h5p.FILE_ACCESS)
    # Objects that an exception still holds must not keep the file open behind our back.
    made.set_fclose_degree(api.h5f.CLOSE_STRONG)
    made.set_fileobj_driver(api.h5fd.fileobj_driver, file)
    return made

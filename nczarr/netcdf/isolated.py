"""Read a netCDF file in a child process, to contain crashes and hangs of the HDF5 library.

About one damaged HDF5 file in ten thousand crashes the library, or makes it loop inside a call that no signal
interrupts. The child process opens the file and sends the model without data. The parent requests values
region by region.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from nczarr.errors import NCZarrError, NetCDFFileError
from nczarr.model import Attribute, Dataset, Region, bind_data, rewrite
from nczarr.model.sources import handed
from nczarr.netcdf.datasets import OpenFile, open_dataset, provenance
from nczarr.netcdf.hdf5.reader import warn_of
from nczarr.system.environment import limit
from nczarr.system.forks import Origin
from nczarr.system.locks import Rank, make_lock


def open_isolated(path: str | os.PathLike[str], *, seconds: int | None = None) -> OpenFile:
    """Open a netCDF file in a child process. In other respects equal to :func:`open_dataset`.

    Parameters
    ----------
    path : path-like
    seconds : int, optional
        Time limit of one request, after which the child is killed. The default is
        ``NCZARR_ISOLATED_SECONDS``, or 60.

    Raises
    ------
    NetCDFFileError
        Also, on opening and on reading values, if the child crashed or exceeded the time limit.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from nczarr.model import Dataset, Dimension
    >>> from nczarr.netcdf import create_dataset
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.nc"
    >>> create_dataset(path, Dataset("a", dimensions=(Dimension("x", 3),))).commit()
    >>> with open_isolated(path) as file:
    ...     file.dataset.dimensions
    (Dimension(name='x', size=3, unlimited=False),)
    """
    path = os.fspath(path)
    child = _Child(path, seconds or limit("NCZARR_ISOLATED_SECONDS"))
    try:
        dataset: Dataset = child.ask(_model)
        if dataset.left_out:
            warn_of(dataset.left_out, path, stacklevel=3)
        sources = {
            fqn: _IsolatedSource(child, fqn, dataset.shape(v), v.type.dtype)
            for fqn, v in dataset.all_variables.items()
        }
        return OpenFile(path, bind_data(dataset, sources), child)
    except BaseException:
        child.close()
        raise


def provenance_isolated(path: str | os.PathLike[str]) -> tuple[Attribute, ...]:
    """Return the result of :func:`nczarr.netcdf.provenance`, read in a child process.

    Raises
    ------
    NetCDFFileError
        Also if the child crashed or exceeded the time limit.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from nczarr.netcdf import create_dataset, provenance
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.nc"
    >>> create_dataset(path, Dataset("a")).commit()
    >>> provenance_isolated(path) == provenance(path)
    True
    """
    with closing(_Child(os.fspath(path), limit("NCZARR_ISOLATED_SECONDS"))) as child:
        found: tuple[Attribute, ...] = child.ask(_provenance)
        return found


@dataclass(frozen=True, eq=False)
class _IsolatedSource:
    child: _Child
    fqn: str
    shape: tuple[int, ...]
    dtype: np.dtype

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        """Read a region; see :meth:`nczarr.model.ArraySource.read`."""
        values: np.ndarray = self.child.ask(partial(_values, self.fqn, region))
        return handed(values, out)


class _Child:
    """The child process and its channel: pickled requests and answers through pipes."""

    def __init__(self, path: str, seconds: int) -> None:
        self._path = path
        self._seconds = seconds
        self._lock = make_lock(Rank.STORE)
        self._start()

    def _start(self) -> None:
        self._origin = Origin()
        # Not a fork: the child needs an HDF5 library with a state of its own.
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from nczarr.netcdf.isolated import serve; serve()", self._path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )
        self._open = True

    def ask(self, request: Callable[[OpenFile], Any]) -> Any:
        """Send a request and return the answer. An answer that is an exception is raised."""
        with self._lock:
            if not self._open:
                raise NetCDFFileError("the file is closed", path=self._path)
            if not self._origin.is_here:  # the process that runs answers the parent of this one
                self._start()
            late = threading.Event()
            watchdog = threading.Timer(self._seconds, self._stop, [late])
            watchdog.start()
            try:
                assert self._process.stdin is not None
                assert self._process.stdout is not None
                pickle.dump(request, self._process.stdin)
                self._process.stdin.flush()
                answer = pickle.load(self._process.stdout)
            except (EOFError, OSError, pickle.UnpicklingError) as error:
                code = self._end()
                if late.is_set():
                    raise NetCDFFileError(
                        f"reading took longer than {self._seconds} s and was stopped; the file may be damaged",
                        path=self._path,
                        hint="set NCZARR_ISOLATED_SECONDS to a larger number of seconds",
                    ) from error
                raise NetCDFFileError(
                    f"the process that read the file ended with the exit status {code}; the file is damaged",
                    path=self._path,
                ) from error
            finally:
                watchdog.cancel()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _stop(self, late: threading.Event) -> None:
        late.set()
        self._process.kill()

    def _end(self) -> int:
        """Terminate the child and return its exit status."""
        self._open = False
        with suppress(OSError, ValueError, subprocess.TimeoutExpired):
            self._process.communicate(timeout=1)
        self._process.kill()
        return self._process.wait()

    def close(self) -> None:
        """Terminate the child."""
        with self._lock:
            if self._open and self._origin.is_here:
                self._end()


def _model(file: OpenFile) -> Dataset:
    return rewrite(file.dataset, variable=lambda _, v: v.with_data(None))


def _provenance(file: OpenFile) -> tuple[Attribute, ...]:
    return provenance(file.path)


def _values(fqn: str, region: Region, file: OpenFile) -> np.ndarray:
    data = file.dataset.variable_at(fqn).data
    assert data is not None
    return data.read(region)


def serve() -> None:
    """Answer requests until the standard input ends. This function runs in the child."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keep the output of libraries out of the answers
    file = None
    with suppress(EOFError):
        while True:
            request = pickle.load(sys.stdin.buffer)
            try:
                file = file or open_dataset(sys.argv[1])
                answer = request(file)
            except NCZarrError as error:
                answer = error
            pickle.dump(answer, answers, pickle.HIGHEST_PROTOCOL)
            answers.flush()

"""Read a netCDF file in a child process, to contain crashes and hangs of the HDF5 library.

About one damaged HDF5 file in ten thousand crashes the library, or makes it loop inside a call that no signal
interrupts. The child process opens the file and sends the model without data. The parent requests values
region by region, and checks each answer (:mod:`nczarr.netcdf.messages`), since a hostile file may have taken the child
over.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nczarr.errors import ModelError, NCZarrError, NetCDFFileError, UnsupportedError
from nczarr.model import Attribute, Dataset, Region, Type, bind_data
from nczarr.model.sources import handed, region_shape
from nczarr.netcdf.datasets import OpenFile, open_dataset, provenance
from nczarr.netcdf.hdf5.reader import warn_of
from nczarr.netcdf.messages import (
    DamagedMessageError,
    Message,
    dataset_message,
    error_message,
    error_of,
    read_dataset,
    read_message,
    read_values,
    values_message,
    write_message,
)
from nczarr.options import named
from nczarr.system.environment import limit
from nczarr.system.forks import Origin
from nczarr.system.locks import Rank, make_lock

#: The first answer of the child: it has started, and its later end is the fault of the file.
_READY = "ready"
#: The program of the child. It gets the parent's path of modules, and the folder or archive that contains nczarr, which
#: may be the current folder.
_PROGRAM = """
import importlib.util, json, sys
from importlib.machinery import PathFinder
sys.path[:], root = json.loads(sys.argv[1])
spec = PathFinder.find_spec("nczarr", [root])
sys.modules["nczarr"] = nczarr = importlib.util.module_from_spec(spec)
spec.loader.exec_module(nczarr)
from nczarr.netcdf.isolated import serve
serve(sys.argv[2])
"""


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
        dataset = child.dataset()
        # The child's warnings end with it.
        if dataset.left_out:
            warn_of(dataset.left_out, path)
        sources = {
            fqn: _IsolatedSource(child, fqn, v.type, dataset.shape_of(v))
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
        return child.provenance()


@dataclass(frozen=True, eq=False)
class _IsolatedSource:
    child: _Child
    fqn: str
    type: Type
    shape: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype:
        return self.type.dtype

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        """Read a region; see :meth:`nczarr.model.ArraySource.read`."""
        return handed(self.child.values(self.fqn, self.type, region), out)


class _Child:
    """The child process and its channel: requests and answers are messages in pipes."""

    def __init__(self, path: str, seconds: int) -> None:
        self._path = path
        self._seconds = seconds
        self._lock = make_lock(Rank.STORE)
        self._start()

    def _start(self) -> None:
        self._origin = Origin()
        self._ready = False
        # Not a fork: the child needs an HDF5 library with a state of its own.
        self._process = subprocess.Popen(
            [*_interpreter(self._path), "-c", _PROGRAM, json.dumps(_module_path()), self._path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._open = True

    def dataset(self) -> Dataset:
        """Return the model without data."""
        answer = self._ask(["dataset"], limit("NCZARR_MAX_DOCUMENT_BYTES"))
        with _checked(self._path):
            return read_dataset(answer)

    def provenance(self) -> tuple[Attribute, ...]:
        """Return the result of :func:`nczarr.netcdf.provenance`."""
        answer = self._ask(["provenance"], limit("NCZARR_MAX_DOCUMENT_BYTES"))
        with _checked(self._path):
            return read_dataset(answer).attributes

    def values(self, fqn: str, type_: Type, region: Region) -> np.ndarray:
        """Return the values of a region of a variable."""
        shape = region_shape(region)
        most = math.prod(shape) * type_.dtype.itemsize
        if not type_.is_fixed_size:
            most = max(most, limit("NCZARR_MAX_VARIABLE_CHUNK_BYTES"))
        slices = [[s.start, s.stop, s.step] for s in region]
        answer = self._ask(["values", fqn, slices], most)
        with _checked(self._path):
            return read_values(answer, type_, shape)

    def _ask(self, request: list[object], most: int) -> Message:
        """Send a request and return the answer, of at most this number of bytes beside its JSON.

        An answer that is an error is raised.
        """
        with self._lock:
            if not self._open:
                raise NetCDFFileError("the file is closed", path=self._path)
            if not self._origin.is_here:  # the process that runs answers the parent of this one
                self._start()
            late = threading.Event()
            watchdog = threading.Timer(self._seconds, self._stop, [late])
            watchdog.start()
            try:
                answer = self._exchange(Message(request), most)
            except (EOFError, OSError) as error:
                code = self._end()
                if late.is_set():
                    raise NetCDFFileError(
                        f"reading took longer than {self._seconds} s and was stopped; the file may be damaged",
                        path=self._path,
                        hint="set NCZARR_ISOLATED_SECONDS to a larger number of seconds",
                    ) from error
                # A child that cannot start is a fault of the environment, and not of the
                # file.
                if not self._ready:
                    raise UnsupportedError(
                        f"the process that is to read the file does not start: its exit status is {code}",
                        path=self._path,
                        hint="it imports numpy and nczarr's other requirements from everywhere but the current folder",
                    ) from error
                raise NetCDFFileError(
                    f"the process that read the file ended with the exit status {code}; the file is damaged",
                    path=self._path,
                ) from error
            except DamagedMessageError as error:
                self._end()
                raise _wrong_answer(self._path, error) from error
            finally:
                watchdog.cancel()
        with _checked(self._path):
            failure = error_of(answer)
        if failure is not None:
            raise failure
        return answer

    def _exchange(self, request: Message, most: int) -> Message:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        most_json = limit("NCZARR_MAX_DOCUMENT_BYTES")
        if not self._ready:
            self._ready = read_message(self._process.stdout, most_json, 0).about == _READY
        write_message(self._process.stdin, request)
        return read_message(self._process.stdout, most_json, most)

    def _stop(self, late: threading.Event) -> None:
        late.set()
        self._process.kill()

    def _end(self) -> int:
        """Terminate the child and return its exit status."""
        self._open = False
        with suppress(OSError, ValueError, subprocess.TimeoutExpired):
            # A child that crashed tells its exit status. One that hangs is killed.
            self._process.communicate(timeout=1)
        self._process.kill()
        return self._process.wait()

    def close(self) -> None:
        """Terminate the child."""
        with self._lock:
            if self._open and self._origin.is_here:
                self._end()


def _interpreter(path: str) -> list[str]:
    """Return the command of a Python that imports nothing from the current folder."""
    # A frozen program would start itself again.
    if getattr(sys, "frozen", False) or not sys.executable:
        raise UnsupportedError(
            "this program contains Python, but cannot start it to read the file in a child process",
            path=path,
            hint=f"read it without {named('isolated', True)}, or install nczarr in a Python environment",
        )
    # Without -I, a numpy.py in the folder of the data ran in the child.
    return [sys.executable, "-I", *(["-X", "utf8"] if sys.flags.utf8_mode else [])]


def _module_path() -> tuple[list[str], str]:
    """Return the path of modules for the child, and the folder or archive with the package nczarr.

    The path has neither the current folder nor its short form, the empty text: a folder of data may contain a
    ``numpy.py``.
    """
    here = os.path.realpath(os.curdir)
    # The path may contain objects that are not text.
    given = [os.path.abspath(entry) for entry in sys.path if isinstance(entry, str) and entry]
    root = Path(__file__).absolute().parents[2]
    return [entry for entry in given if os.path.realpath(entry) != here], str(root)


@contextmanager
def _checked(path: str) -> Iterator[None]:
    """Turn the errors of an answer without the expected form into errors of the file."""
    try:
        yield
    # A file that has taken over the child answers anything.
    except (DamagedMessageError, ModelError) as error:
        raise _wrong_answer(path, error) from error


def _wrong_answer(path: str, error: Exception) -> NetCDFFileError:
    return NetCDFFileError(
        f"the process that read the file gave an answer that nczarr does not accept: {error}; the file is damaged",
        path=path,
        hint="NCZARR_MAX_VARIABLE_CHUNK_BYTES bounds the strings and sequences of an answer, "
        "NCZARR_MAX_DOCUMENT_BYTES the rest",
    )


def serve(path: str) -> None:
    """Answer requests until the standard input ends. This function runs in the child."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keep the output of libraries out of the answers
    write_message(answers, Message(_READY))
    file: OpenFile | None = None
    # The pipe ends with the parent, however that ended.
    with suppress(EOFError):
        while True:
            # The child trusts its parent. The limits protect the parent.
            request = read_message(requests, 1 << 30, 0)
            try:
                file = file or open_dataset(path)
                answer = _answer(file, *request.about)
            except NCZarrError as error:
                answer = error_message(error)
            write_message(answers, answer)


def _answer(file: OpenFile, what: str, fqn: str = "", slices: Sequence[Sequence[int]] = ()) -> Message:
    if what == "values":
        variable = file.dataset.variable_at(fqn)
        assert variable.data is not None
        return values_message(variable.data.read(tuple([slice(*s) for s in slices])), variable.type)
    return dataset_message(
        file.dataset if what == "dataset" else Dataset("", attributes=provenance(file.path))
    )

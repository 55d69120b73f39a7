"""Load h5py on first use, serialise its calls, translate its errors, and call C functions that it lacks.

h5py leaks memory on values with pointers (strings, sequences) that are read in their own type: it converts
them again and loses the first copy. It also cannot set a fill value of such a type, or get an enum value
above 2**63. For these tasks, this module calls C functions of the library that h5py has loaded.
"""

from __future__ import annotations

import ctypes
import importlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from nczarr.errors import LockedError, NCZarrError, NetCDFFileError, UnsupportedError, error_context
from nczarr.formats import incomplete_file
from nczarr.netcdf.bytes.file import text_of
from nczarr.netcdf.bytes.guarded import GuardedFile
from nczarr.text import missing_package

if TYPE_CHECKING:
    from h5py import h5p, h5s, h5t
    from h5py._objects import ObjectID


@cache
def hdf5() -> Any:
    """Return the low-level modules of h5py, as attributes (``hdf5().h5t`` …).

    HDF5 is not thread-safe: every caller holds ``hdf5().phil``, h5py's own lock, which the program's other
    uses of h5py take, too.

    Raises
    ------
    UnsupportedError
        If h5py is not installed.
    """
    try:
        import h5py
        from h5py import h5, h5a, h5d, h5ds, h5f, h5fd, h5g, h5i, h5l, h5o, h5p, h5s, h5t, h5z
        from h5py._objects import phil
    except ImportError as error:
        raise UnsupportedError(
            "netCDF-4 files need the package h5py", hint=missing_package("h5py", "netcdf")
        ) from error
    return SimpleNamespace(
        h5=h5, h5a=h5a, h5d=h5d, h5ds=h5ds, h5f=h5f, h5fd=h5fd, h5g=h5g, h5i=h5i, h5l=h5l, h5o=h5o,
        h5p=h5p, h5s=h5s, h5t=h5t, h5z=h5z, version=h5py.version, phil=phil,
    )  # fmt: skip


class hdf5_errors(error_context):
    """Turn h5py's exceptions into :class:`NetCDFFileError` with path and FQN. The caller holds HDF5's lock.

    It takes ``with hdf5().phil, hdf5_errors(path):``. An interrupt would leave a lock held that was taken here.
    """

    __slots__ = ("doing",)

    def __init__(self, path: str, fqn: str | None = None, doing: str = "cannot be read") -> None:
        super().__init__(path, fqn=fqn)
        self.doing = doing

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            return
        if isinstance(error, NCZarrError):  # errors of this package, some of which are OSErrors, too
            super().__exit__(kind, error, trace)
        # h5py calls itself for each level, and Python's stack ends.
        elif isinstance(error, RecursionError):
            raise NetCDFFileError(
                f"{self.doing}: groups or types are nested too deeply", path=self.path, fqn=self.fqn
            ) from None
        elif isinstance(error, OSError | RuntimeError | ValueError | KeyError | TypeError | OverflowError):
            raise self._told(error) from error

    def _told(self, error: Exception) -> NCZarrError:
        """Return the error in words of users: those of HDF5 do not say that a file is still written."""
        reason = str(error).strip("'\"") or type(error).__name__
        # A job that opens a file too early gets a status that tells it to try again, in place of
        # HDF5's words.
        if "unable to lock file" in reason or "already open for" in reason:
            return LockedError(
                "another program has the file open for writing",
                path=self.path,
                hint="try again when it has closed the file" + _MARKED * ("consistency flags" in reason),
            )
        if (cut := _TRUNCATED.search(reason)) is not None:
            problem = f"the file is truncated: it has {cut[1]} of {cut[2]} bytes"
            return incomplete_file(problem, self.path, self.fqn)
        return NetCDFFileError(f"{self.doing}: {reason}", path=self.path, fqn=self.fqn)


def available_filter(number: int) -> bool:
    """Return True if HDF5 has the filter, after an import of hdf5plugin if that package is installed."""
    with hdf5().phil:
        # hdf5plugin registers its filters when it is imported.
        if hdf5().h5z.filter_avail(number):
            return True
        with suppress(ImportError):
            importlib.import_module("hdf5plugin")  # registers its filters
        return bool(hdf5().h5z.filter_avail(number))


def access_to(file: GuardedFile) -> h5p.PropFAID:
    """Return HDF5's access properties for a file object in Python."""
    api = hdf5()
    made = api.h5p.create(api.h5p.FILE_ACCESS)
    # Closing the file also closes objects that an exception still references.
    made.set_fclose_degree(api.h5f.CLOSE_STRONG)
    made.set_fileobj_driver(api.h5fd.fileobj_driver, file)
    return made


#: HDF5's words for a file that ends before the byte that its superblock names.
_TRUNCATED = re.compile(r"truncated file: eof = (\d+), .*stored_eof = (\d+)")
#: The end of the hint for a mark in the file, which outlives a killed writer.
_MARKED = "; if a writer was killed, h5clear -s removes its mark"

_ID = ctypes.c_int64
_BUFFER = ctypes.c_void_p
_SIGNATURES: dict[str, tuple[type, ...]] = {
    "H5Aclose": (_ID,),
    "H5Acreate2": (_ID, ctypes.c_char_p, _ID, _ID, _ID, _ID),
    "H5Aread": (_ID, _ID, _BUFFER),
    "H5Awrite": (_ID, _ID, _BUFFER),
    "H5Dread": (_ID, _ID, _ID, _ID, _ID, _BUFFER),
    "H5Dvlen_reclaim": (_ID, _ID, _ID, _BUFFER),
    "H5Dwrite": (_ID, _ID, _ID, _ID, _ID, _BUFFER),
    "H5Fget_fileno": (_ID, _BUFFER),
    "H5PLget_loading_state": (_BUFFER,),
    "H5PLset_loading_state": (ctypes.c_uint,),
    "H5Pget_fill_value": (_ID, _ID, _BUFFER),
    "H5Pset_fill_value": (_ID, _ID, _BUFFER),
    "H5Tenum_insert": (_ID, ctypes.c_char_p, _BUFFER),
    "H5Tget_member_value": (_ID, ctypes.c_uint, _BUFFER),
}


def call(name: str, *arguments: Any) -> int:
    """Call a C function with numbers, bytes, objects of h5py and contiguous arrays. The caller holds the lock.

    HDF5 owns pointers in an array that it filled until ``H5Dvlen_reclaim``; see :func:`reclaim`.

    Raises
    ------
    OSError
        If the function fails.
    """
    result = _functions()[name](
        *[a.ctypes.data if type(a) is np.ndarray else getattr(a, "id", a) for a in arguments]
    )
    if result < 0:
        raise OSError(f"HDF5's function {name} failed")
    return result


@cache
def _functions() -> dict[str, Callable[..., int]]:
    module = Path(hdf5().h5p.__file__)
    library = module.with_name("hdf5.dll") if sys.platform == "win32" else module
    found = {}
    try:
        loaded = ctypes.CDLL(str(library))
        for name, signature in _SIGNATURES.items():
            function = getattr(loaded, name)
            function.argtypes = signature
            function.restype = _ID if name == "H5Acreate2" else ctypes.c_int
            found[name] = function
    except (OSError, AttributeError) as error:
        raise UnsupportedError(
            f"the functions of the HDF5 library that h5py uses cannot be found: {error}",
            hint="install h5py from PyPI",
        ) from error
    return found


def read_text(owner: ObjectID, name: bytes) -> str | None:
    """Return the text of an attribute, or None if there is none with a text of fixed size."""
    api = hdf5()
    if not api.h5a.exists(owner, name):
        return None
    attribute = api.h5a.open(owner, name)
    kind = attribute.get_type()
    # A file of another program may have anything under a name of the bookkeeping.
    if kind.get_class() != api.h5t.STRING or kind.is_variable_str():
        return None
    raw = np.zeros(kind.get_size(), "S1")
    call("H5Aread", attribute, kind, raw)
    return text_of(raw.tobytes().split(b"\0")[0])


def make_attribute(owner: ObjectID, name: bytes, type_id: h5t.TypeID, space: h5s.SpaceID, raw: Any) -> None:
    """Create an attribute with values in its own type: bytes, a contiguous array, or None for no values."""
    functions = _functions()  # files have thousands of attributes
    made = functions["H5Acreate2"](owner.id, name, type_id.id, space.id, 0, 0)
    data = raw.ctypes.data if isinstance(raw, np.ndarray) else raw
    try:
        if made < 0 or (data is not None and functions["H5Awrite"](made, type_id.id, data) < 0):
            raise OSError("HDF5 cannot write the attribute")
    finally:
        functions["H5Aclose"](made)


def reclaim(type_id: h5t.TypeID, values: np.ndarray) -> None:
    """Free the memory behind all pointers of an array that HDF5 filled."""
    call("H5Dvlen_reclaim", type_id, hdf5().h5s.create_simple((values.size,)), 0, values)


@contextmanager
def without_plugins(numbers: Iterable[int]) -> Iterator[None]:
    """Unregister filters that HDF5 loaded as plugins, so that it stores their numbers without calling them.

    A plugin that is built for another copy of HDF5, such as netCDF4-python's, fails when a dataset is
    created. The caller holds the lock.
    """
    h5z, before = hdf5().h5z, ctypes.c_uint()
    call("H5PLget_loading_state", ctypes.byref(before))
    call("H5PLset_loading_state", 0)
    try:
        for number in numbers:
            if h5z.filter_avail(number):
                # HDF5 refuses this while an open dataset uses the filter. Then the filter stays.
                with suppress(RuntimeError, ValueError):
                    h5z.unregister_filter(number)
        yield
    finally:
        call("H5PLset_loading_state", before.value)

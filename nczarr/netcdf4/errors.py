"""Define the errors of the interface, and convert errors of opening to them.

Each error is an NCZarrError and the builtin exception of netCDF4-python, so the ``except`` clauses of programs
written for netCDF4-python catch it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from nczarr.errors import (
    DatasetExistsError,
    DatasetNotFoundError,
    NCZarrError,
    ReadOnlyError,
    UnsupportedError,
)
from nczarr.formats import local_path, netcdf_format
from nczarr.session import (
    ArgumentError,
    ArgumentTypeError,
    BytesError,
    DroppedError,
    EditError,
    NodeAttributeError,
    NotWritableError,
    RangeError,
    TextError,
    UnknownNameError,
)
from nczarr.system.failures import is_unreached

# Errors of sessions under the names of this interface.
NetCDFRuntimeError = EditError
NetCDFReferenceError = DroppedError
NetCDFReadOnlyError = NotWritableError
NetCDFAttributeError = NodeAttributeError
NetCDFKeyError = UnknownNameError
NetCDFOverflowError = RangeError
NetCDFValueError = ArgumentError
NetCDFTypeError = ArgumentTypeError
NetCDFUnicodeError = TextError


class NetCDFNotOpenedError(NodeAttributeError, EditError):
    """Use of an object whose ``__init__`` failed (also a :class:`RuntimeError` and an :class:`AttributeError`)."""


class NetCDFIndexError(NCZarrError, IndexError):
    """An invalid index, or a missing path (also an :class:`IndexError`)."""


class NetCDFTooManyIndicesError(NetCDFIndexError, NetCDFValueError):
    """More indices than dimensions (also an :class:`IndexError` and a :class:`ValueError`)."""


class NetCDFLookupError(NCZarrError, LookupError):
    """An attribute with an encoding that Python lacks (also a :class:`LookupError`)."""


class translating:
    """Context manager that converts numpy's or Python's error of an argument to an error of this interface.

    Examples
    --------
    >>> with translating("the value {} cannot be stored", 300, fqn="/v"):
    ...     raise OverflowError("it is too large")
    Traceback (most recent call last):
    nczarr.session.errors.RangeError: /v: the value 300 cannot be stored: it is too large
    """

    __slots__ = ("fqn", "message", "parts")

    def __init__(self, message: str, *parts: object, fqn: str | None = None) -> None:
        self.message, self.parts, self.fqn = message, parts, fqn

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, NCZarrError):
            return
        message = self.message.format(*self.parts)
        if isinstance(error, UnicodeEncodeError):
            raise TextError(f"{message}: {error.reason}", cause=error, fqn=self.fqn) from error
        if isinstance(error, UnicodeDecodeError):
            raise BytesError(f"{message}: {error.reason}", cause=error, fqn=self.fqn) from error
        for builtin, ours in _ARGUMENT_ERRORS.items():
            if isinstance(error, builtin):
                raise ours(f"{message}: {error}", fqn=self.fqn) from error


_ARGUMENT_ERRORS: dict[type[Exception], type[NCZarrError]] = {
    OverflowError: NetCDFOverflowError,
    TypeError: NetCDFTypeError,
    ValueError: NetCDFValueError,
    LookupError: NetCDFLookupError,
}


class NetCDFOSError(NCZarrError, OSError):
    """An operation that the dataset does not support (also an :class:`OSError`)."""


class NetCDFPermissionError(NCZarrError, PermissionError):
    """A dataset that cannot be created or opened in a mode (also a :class:`PermissionError`)."""

    def __init__(self, message: str, **where: Any) -> None:
        super().__init__(message, **where)
        self.errno, self.filename = errno.EACCES, self.path


class NetCDFLockedError(NetCDFPermissionError):
    """Another writer has the dataset open (also a :class:`PermissionError`)."""


class NetCDFNotReplacedError(DatasetExistsError, PermissionError):
    """An existing target that no mode replaces (also a :class:`PermissionError`)."""


class NetCDFNotADirectoryError(DatasetNotFoundError, NotADirectoryError):
    """A path with a file in place of a directory (also a :class:`NotADirectoryError`)."""

    def __init__(self, message: str, **where: Any) -> None:
        super().__init__(message, **where)
        self.errno = errno.ENOTDIR


class NetCDFUnsupportedError(UnsupportedError, OSError):
    """A dataset that cannot be opened in this way (also an :class:`OSError`)."""


class NetCDFReadOnlyAttributeError(ReadOnlyError, AttributeError):
    """A change of an attribute of a read-only dataset (also an :class:`AttributeError`)."""


class NotPicklableError(NCZarrError, NotImplementedError):
    """An object that cannot be pickled (also a :class:`NotImplementedError`)."""


class NetCDF4MissingFeatureException(UnsupportedError):
    """A missing feature.

    Parameters
    ----------
    feature, version : str
        The feature, and the first version with it.
    """

    def __init__(self, feature: str, version: str) -> None:
        super().__init__(f"{feature} needs version {version} or later")
        self.feature = feature
        self.version = version


# netCDF-C's numbers of errors.
_NC_ENOTNC = -51
_NC_EIO = -68
_NC_EHDFERR = -101

_NO_ACCESS = (errno.EACCES, errno.EPERM, errno.EROFS)
#: Errors of creating a file, which netCDF4-python raises as a missing permission.
_NO_PLACE = (
    *_NO_ACCESS,
    errno.EEXIST,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOTDIR,
)


def raise_as_netcdf4(
    error: NCZarrError | OSError, target: object, name: str, mode: str, *, clobber: bool = True
) -> NoReturn:
    """Raise an error of opening as netCDF4-python does.

    The error is an :class:`OSError` with ``errno`` and ``filename``; if a dataset cannot be created, it is a
    :class:`PermissionError`. Errors of invalid arguments are unchanged.

    Parameters
    ----------
    target : object
    name : str
        The name in the message.
    mode : {"r", "r+", "w"}
    clobber : bool
        An existing dataset may be replaced.

    Examples
    --------
    >>> raise_as_netcdf4(NCZarrError("this cannot be read"), "no/a.nc", "no/a.nc", "r")
    Traceback (most recent call last):
    nczarr.netcdf4.errors.NetCDFOSError: no/a.nc: this cannot be read
    """
    if isinstance(error, ValueError | TypeError):
        raise error
    told = _Failure(local_path(target), name, mode, clobber).told(error)
    if told is error:
        raise error
    raise told from error


@dataclass(frozen=True)
class _Failure:
    """A target that could not be opened."""

    path: Path | None
    name: str
    mode: str
    clobber: bool

    def told(self, error: NCZarrError | OSError) -> OSError:
        """Return the converted error, with the number and the file name."""
        told = self._told(error)
        if not isinstance(told, OSError):
            told = self._as(NetCDFOSError, error)
        assert isinstance(told, OSError)
        if told.errno is None:
            told.errno = self._number(error)
        if told.filename is None:
            told.filename = self.name
        return told

    def _told(self, error: NCZarrError | OSError) -> NCZarrError | OSError:
        """Return the converted error."""
        if isinstance(error, DatasetExistsError):
            if error.hint and "overwrite" in error.hint:
                error.hint = 'mode "w" replaces it'
            elif self.clobber:
                return self._as(NetCDFNotReplacedError, error)
            return error
        if isinstance(error, PermissionError) and isinstance(error, NCZarrError):
            return error
        if isinstance(error, ReadOnlyError):
            return self._as(NetCDFPermissionError, error)
        number = self._system_number(error)
        if number in (errno.EAGAIN, errno.EWOULDBLOCK):
            return self._as(NetCDFLockedError, error)
        if number in (_NO_PLACE if self.mode != "r" else _NO_ACCESS):
            return self._as(NetCDFPermissionError, error)
        if number == errno.ENOTDIR:
            return self._as(NetCDFNotADirectoryError, error)
        if isinstance(error, DatasetNotFoundError) and number not in (None, errno.ENOENT):
            return self._as(NetCDFOSError, error)
        if isinstance(error, UnsupportedError):
            return error if isinstance(error, OSError) else self._as(NetCDFUnsupportedError, error)
        return error if isinstance(error, NCZarrError) else self._as(NetCDFOSError, error)

    def _as(self, kind: Callable[..., NCZarrError], error: NCZarrError | OSError) -> NCZarrError:
        if isinstance(error, NCZarrError):
            told: NCZarrError = kind(error.message, path=error.path or self.name, hint=error.hint)
        else:
            told = kind(error.strerror or str(error), path=self.name)
        if isinstance(told, OSError):
            told.filename = self.name
        return told

    def _system_number(self, error: BaseException) -> int | None:
        """Return the system's error number, from the error, its causes, or a look at the path."""
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, OSError) and not isinstance(cause, DatasetNotFoundError) and cause.errno:
                return cause.errno if cause.errno > 0 else None
            cause = cause.__cause__
        if self.path is None or (isinstance(error, OSError) and error.errno and error.errno < 0):
            return None
        try:
            # The dot requires that the parent is a directory.
            os.stat(self.path if self.mode == "r" else f"{self.path.absolute().parent}/.")
        except OSError as refused:
            return refused.errno
        except ValueError:  # a NUL in it
            return errno.ENOENT
        return None

    def _number(self, error: BaseException) -> int:
        if is_unreached(error):
            return _NC_EIO
        number = self._system_number(error)
        if number is not None:
            return number
        try:
            is_hdf5 = self.path is not None and netcdf_format(str(self.path)) == "hdf5"
        except NCZarrError:
            is_hdf5 = False
        return _NC_EHDFERR if is_hdf5 else _NC_ENOTNC

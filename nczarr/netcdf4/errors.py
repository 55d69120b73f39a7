"""Define the errors of the interface.

Each error is an NCZarrError and the builtin exception of netCDF4-python, so the ``except`` clauses of programs
written for netCDF4-python catch it.
"""

from __future__ import annotations

import errno
from typing import Any

from nczarr.errors import (
    DatasetExistsError,
    DatasetNotFoundError,
    NCZarrError,
    ReadOnlyError,
    UnsupportedError,
)
from nczarr.session import errors

# Errors of sessions under the names of this interface.
NetCDFRuntimeError = errors.EditError
NetCDFReferenceError = errors.DroppedError
NetCDFReadOnlyError = errors.NotWritableError
NetCDFAttributeError = errors.NodeAttributeError
NetCDFKeyError = errors.UnknownNameError
NetCDFOverflowError = errors.RangeError
NetCDFValueError = errors.ArgumentError
NetCDFTypeError = errors.ArgumentTypeError
NetCDFUnicodeError = errors.TextError


class NetCDFNotOpenedError(NetCDFAttributeError, NetCDFRuntimeError):
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
            raise NetCDFUnicodeError(f"{message}: {error.reason}", cause=error, fqn=self.fqn) from error
        if isinstance(error, UnicodeDecodeError):
            raise errors.BytesError(f"{message}: {error.reason}", cause=error, fqn=self.fqn) from error
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

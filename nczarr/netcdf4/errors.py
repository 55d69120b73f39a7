"""Define the errors of the interface: each is an NCZarrError and the builtin that netCDF4-python raises.

So both ``except NCZarrError`` and the ``except`` clauses of programs written for netCDF4-python catch them.
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

# What the core raises, under the names of this interface.
NetCDFRuntimeError = EditError
NetCDFReferenceError = DroppedError
NetCDFReadOnlyError = NotWritableError
NetCDFAttributeError = NodeAttributeError
NetCDFKeyError = UnknownNameError
NetCDFOverflowError = RangeError
NetCDFValueError = ArgumentError
NetCDFTypeError = ArgumentTypeError
NetCDFUnicodeError = TextError


def translated(
    error: ValueError | TypeError | OverflowError, message: str, fqn: str | None = None
) -> NCZarrError:
    """Return the error of this interface that says what numpy or Python says of an argument.

    Examples
    --------
    >>> translated(OverflowError("300 is too large"), "the fill value cannot be stored", "/v")
    RangeError('the fill value cannot be stored: 300 is too large')
    """
    if isinstance(error, UnicodeEncodeError):
        return TextError(f"{message}: {error.reason}", cause=error, fqn=fqn)
    if isinstance(error, UnicodeDecodeError):
        return BytesError(f"{message}: {error.reason}", cause=error, fqn=fqn)
    kind: type[NCZarrError] = NetCDFValueError
    if isinstance(error, OverflowError):
        kind = NetCDFOverflowError
    elif isinstance(error, TypeError):
        kind = NetCDFTypeError
    return kind(f"{message}: {error}", fqn=fqn)


class NetCDFIndexError(NCZarrError, IndexError):
    """An index does not fit, or a path names nothing (also an :class:`IndexError`)."""


class NetCDFLookupError(NCZarrError, LookupError):
    """An attribute names an encoding that Python does not know (also a :class:`LookupError`)."""


class NetCDFOSError(NCZarrError, OSError):
    """An operation that a dataset cannot do (also an :class:`OSError`)."""


class NetCDFPermissionError(NCZarrError, PermissionError):
    """A dataset cannot be made there, or not be opened so (also a :class:`PermissionError`)."""

    def __init__(self, message: str, **where: Any) -> None:
        super().__init__(message, **where)
        self.errno, self.filename = errno.EACCES, self.path


class NetCDFLockedError(NetCDFPermissionError):
    """Somebody else writes to the dataset (also a :class:`PermissionError`)."""


class NetCDFNotReplacedError(DatasetExistsError, PermissionError):
    """What is there is never replaced, whatever the mode (also a :class:`PermissionError`)."""


class NetCDFNotADirectoryError(DatasetNotFoundError, NotADirectoryError):
    """A part of the path is a file (also a :class:`NotADirectoryError`)."""

    def __init__(self, message: str, **where: Any) -> None:
        super().__init__(message, **where)
        self.errno = errno.ENOTDIR


class NetCDFUnsupportedError(UnsupportedError, OSError):
    """A dataset of this kind cannot be opened so (also an :class:`OSError`)."""


class NetCDFReadOnlyAttributeError(ReadOnlyError, AttributeError):
    """An attribute was set on a dataset that is open for reading (also an :class:`AttributeError`)."""


class NotPicklableError(NCZarrError, NotImplementedError):
    """The object belongs to an open dataset and cannot be pickled (also a :class:`NotImplementedError`)."""


class NetCDF4MissingFeatureException(UnsupportedError):
    """A feature is not there.

    Parameters
    ----------
    feature, version : str
        What is missing, and the version that would have it.
    """

    def __init__(self, feature: str, version: str) -> None:
        super().__init__(f"{feature} needs version {version} or later")
        self.feature = feature
        self.version = version

"""Translate errors of numpy and Python, so that each is an NCZarrError and the builtin exception of netCDF4-python."""

from __future__ import annotations

from collections.abc import Callable

from nczarr.errors import (
    ArgumentError,
    ArgumentTypeError,
    NCZarrError,
    RangeError,
    TextError,
    UnsupportedError,
    also,
)


class translating:
    """Context manager that converts numpy's or Python's error of an argument to an error of this interface.

    Examples
    --------
    >>> with translating("the value {} cannot be stored", 300, fqn="/v"):
    ...     raise OverflowError("it is too large")
    Traceback (most recent call last):
    nczarr.errors.RangeError: /v: the value 300 cannot be stored: it is too large
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
            raise also(TextError, UnicodeEncodeError)(
                f"{message}: {error.reason}", cause=error, fqn=self.fqn
            ) from error
        # Bytes that are no text were stored once, and no read of the variable worked from then on.
        if isinstance(error, UnicodeDecodeError):
            raise also(TextError, UnicodeDecodeError)(
                f"{message}: {error.reason}", cause=error, fqn=self.fqn
            ) from error
        for builtin, ours in _ARGUMENT_ERRORS.items():
            if isinstance(error, builtin):
                raise ours(f"{message}: {error}", fqn=self.fqn) from error


_ARGUMENT_ERRORS: dict[type[Exception], Callable[..., NCZarrError]] = {
    OverflowError: RangeError,
    TypeError: ArgumentTypeError,
    ValueError: ArgumentError,
    LookupError: also(ArgumentError, LookupError),
}


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

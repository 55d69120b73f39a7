"""Define the errors of editing: each is an NCZarrError, and the builtin that says the same in Python."""

from __future__ import annotations

from typing import Any

from nczarr.errors import NCZarrError, ReadOnlyError


class EditError(NCZarrError, RuntimeError):
    """A change that the data model does not allow, or a dataset that is closed (also a :class:`RuntimeError`)."""


class DroppedError(NCZarrError, ReferenceError):
    """The dataset was dropped; only a weak reference is left (also a :class:`ReferenceError`)."""


class NotWritableError(ReadOnlyError, RuntimeError):
    """A change was asked of a dataset that is open for reading (also a :class:`RuntimeError`)."""


class NodeAttributeError(NCZarrError, AttributeError):
    """An attribute cannot have this name, or there is none (also an :class:`AttributeError`)."""


class UnknownNameError(NCZarrError, KeyError):
    """Nothing has this name (also a :class:`KeyError`)."""


class ArgumentError(NCZarrError, ValueError):
    """An argument has a value that cannot be used (also a :class:`ValueError`)."""


class ArgumentTypeError(NCZarrError, TypeError):
    """An argument has a type that cannot be used (also a :class:`TypeError`)."""


class RangeError(NCZarrError, OverflowError):
    """A number is out of range (also an :class:`OverflowError`)."""


class TextError(NCZarrError, UnicodeEncodeError):
    """A text has half a surrogate pair, which no encoding can store (also a :class:`UnicodeEncodeError`).

    Parameters
    ----------
    cause : UnicodeEncodeError
        The text, the encoding, and the place in the text.
    """

    def __init__(self, message: str, *, cause: UnicodeEncodeError, fqn: str | None = None) -> None:
        UnicodeEncodeError.__init__(self, *cause.args)
        self.message, self.path, self.fqn, self.hint = message, None, fqn, None

    def __reduce__(self) -> tuple[Any, ...]:
        return _text_error, (self.message, self.fqn, self.args)


class BytesError(NCZarrError, UnicodeDecodeError):
    """Bytes are no text in the encoding that is said of them (also a :class:`UnicodeDecodeError`).

    Parameters
    ----------
    cause : UnicodeDecodeError
        The bytes, the encoding, and the place in the bytes.
    """

    def __init__(self, message: str, *, cause: UnicodeDecodeError, fqn: str | None = None) -> None:
        UnicodeDecodeError.__init__(self, *cause.args)
        self.message, self.path, self.fqn, self.hint = message, None, fqn, None

    def __reduce__(self) -> tuple[Any, ...]:
        return _bytes_error, (self.message, self.fqn, self.args)


def _text_error(message: str, fqn: str | None, cause: tuple[Any, ...]) -> TextError:
    return TextError(message, cause=UnicodeEncodeError(*cause), fqn=fqn)


def _bytes_error(message: str, fqn: str | None, cause: tuple[Any, ...]) -> BytesError:
    return BytesError(message, cause=UnicodeDecodeError(*cause), fqn=fqn)


def check_unicode(text: str, what: str, fqn: str | None = None) -> None:
    """Raise :class:`TextError` if a text cannot be encoded.

    Examples
    --------
    >>> check_unicode("caf\u00e9", "the attribute 'a'")
    >>> check_unicode("\\ud800", "the attribute 'a'")
    Traceback (most recent call last):
    nczarr.session.errors.TextError: the attribute 'a' has half a surrogate pair, which is no character: '\\ud800'
    """
    if text.isascii():
        return
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        message = f"{what} has half a surrogate pair, which is no character: {text[:40]!r}"
        raise TextError(message, cause=error, fqn=fqn) from None

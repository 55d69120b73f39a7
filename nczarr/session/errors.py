"""Define the errors of editing, and collect those of a flush.

Each error class is an NCZarrError and the corresponding builtin exception.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nczarr import model
from nczarr.errors import NCZarrError, PartlyStoredError, ReadOnlyError
from nczarr.model.parts import Part, parts_of, without


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


#: So many parts are refused one after the other before the rest is given up.
_MOST_REFUSED = 64

#: What a store raises.
STORE_ERRORS = (NCZarrError, OSError)


class Failures:
    """The errors of one flush, each with the name of what is not stored.

    Examples
    --------
    >>> failures = Failures()
    >>> failures.add("/a", OSError("disk full"))
    >>> failures.raise_all("d.zarr")
    Traceback (most recent call last):
    nczarr.errors.PartlyStoredError: d.zarr: not stored: /a (disk full); all other parts are stored
    """

    def __init__(self) -> None:
        self.found: dict[str, Exception] = {}
        #: Why the store as a whole could not be brought up to date.
        self.whole: Exception | None = None

    @property
    def is_empty(self) -> bool:
        """True if there is no error."""
        return self.whole is None and not self.found

    def add(self, name: str, error: Exception) -> None:
        """Note an error; the first one of each name counts."""
        if isinstance(error, PartlyStoredError):
            for part, reason in error.failures:
                self.found.setdefault(part, reason)
        else:
            self.found.setdefault(name, error)

    def describe(self) -> str:
        """Return the errors in one line; empty if there is none."""
        try:
            self.raise_all("")
        except Exception as error:
            return str(error)
        return ""

    def raise_all(self, path: str) -> None:
        """Raise the error if there is one, and one that names all if there are several."""
        if self.whole is not None:
            raise self.whole
        if not self.found:
            return
        (name, error), *more = self.found.items()
        if not more and isinstance(error, NCZarrError):
            if name.startswith("/") and error.fqn is None:
                error.fqn = name
            raise error
        raise PartlyStoredError(tuple(self.found.items()), path=path) from error


def store_parts(
    update: Callable[[model.Dataset], None],
    old: model.Dataset,
    new: model.Dataset,
    error: Exception,
    failures: Failures,
) -> None:
    """Store as much of a model as a store accepts.

    Parameters
    ----------
    update : callable
        Makes the store say what a model says, or raises.
    old, new : Dataset
        The model of the store, and the one that it refused.
    error : Exception
        The refusal.
    failures : Failures
        Gets the parts that are not stored; the refusal as a whole, where the store also refuses the model without
        any of them (a rename, a removed attribute, a disk that is full).
    """
    parts = parts_of(old, new)
    missing = dict.fromkeys(parts)

    def store(chosen: Sequence[Part]) -> Exception | None:
        left = [part for part in missing if part not in chosen]
        accepted = without(new, old, left)
        if accepted == old:
            return None
        try:
            update(accepted)
        except PartlyStoredError as refusal:
            failures.add("", refusal)
        except STORE_ERRORS as refusal:
            return refusal
        for part in chosen:
            del missing[part]
        return None

    if len(parts) == 1 and without(new, old, parts) == old:
        failures.add(str(parts[0]), error)  # the refusal is of this part
        return
    if not parts or store(()) is not None:
        failures.whole = error
        return
    named = [part for part in parts if part.fqn == getattr(error, "fqn", None)]
    queue = [[part for part in parts if part not in named], named] if named else [parts]
    refused = 0
    while queue:
        chosen = queue.pop(0)
        if not chosen:
            continue
        refusal = store(chosen)
        if refusal is None:
            refused = 0
        elif len(chosen) > 1:
            half = len(chosen) // 2
            queue[:0] = [chosen[:half], chosen[half:]]
        else:
            failures.add(str(chosen[0]), refusal)
            refused += 1
            if refused >= _MOST_REFUSED:
                for part in missing:
                    failures.add(str(part), refusal)
                return


def remove_parts(
    update: Callable[[model.Dataset], None],
    new: model.Dataset,
    refused: Mapping[str, Exception],
    failures: Failures,
) -> None:
    """Take variables and groups out of a new dataset.

    Parameters
    ----------
    update : callable
        Makes the store say what a model says, or raises.
    new : Dataset
        The model of the store.
    refused : mapping
        The reasons by FQN.
    failures : Failures
        Gets the reasons.
    """
    left = [Part(kind, fqn) for fqn in refused for kind in ("variable", "group")]
    update(without(new, model.Dataset(new.name), left))
    for fqn, reason in refused.items():
        failures.add(fqn, reason)

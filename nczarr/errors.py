"""Define the exceptions of nczarr: one tree, below :class:`NCZarrError`.

The message describes the problem, its location (file or store, fully qualified name, line and column) and, if known,
the remedy. Most classes also have a builtin base, which programs may catch instead.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from typing import Any

from nczarr.text import shown_location, visible

#: Maximum number of failures in a message.
_MOST_NAMED = 20
#: Attributes with text for users. Setting one hides the passwords and tokens of URLs in it.
_SHOWN = frozenset({"message", "path", "hint", "filename"})


class NCZarrError(Exception):
    """Base class of all nczarr errors.

    Parameters
    ----------
    message : str
        Description of the problem.
    path : str, optional
        The affected file, URL or store key.
    fqn : str, optional
        Fully qualified name of the affected node, such as ``/ocean/temp``.
    hint : str, optional
        How to solve the problem.
    reason : str, optional
        A word for programs, where one class has several causes: ``"refused"`` by a server; ``"temporary"``, which the
        command reports with exit status 75; a chunk that is ``"lost"``; a netCDF file that is ``"fixed"``.

    Examples
    --------
    >>> str(NCZarrError("not JSON", path="a.zarr/zarr.json", hint="restore the file"))
    'a.zarr/zarr.json: not JSON (restore the file)'
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        fqn: str | None = None,
        hint: str | None = None,
        reason: str | None = None,
    ) -> None:
        # A URL in a message may have a password or a signature.
        super().__init__(shown_location(message))
        self.message = message
        self.path = path
        self.fqn = fqn
        self.hint = hint
        self.reason = reason

    def __setattr__(self, name: str, value: object) -> None:
        if name in _SHOWN and isinstance(value, str):
            value = shown_location(value)
        super().__setattr__(name, value)

    def __str__(self) -> str:
        # Names of hostile files may have control characters.
        where = ": ".join(visible(part) for part in (self.path, self.fqn) if part)
        message = visible(self.message, layout=True)
        text = f"{where}: {message}" if where else message
        return f"{text} ({visible(self.hint)})" if self.hint else text

    def __reduce__(self) -> tuple[object, ...]:
        # The default implementation cannot pickle exceptions with keyword-only arguments.
        state = dict(self.__dict__)
        # The arguments of OSError are not among its attributes.
        if isinstance(self, OSError):
            state.update(errno=self.errno, filename=self.filename)
        return (_rebuild, (*_parts_of(type(self)), self.args, state))


def _rebuild(
    cls: type[NCZarrError],
    builtin: type[Exception] | None,
    args: tuple[object, ...],
    state: dict[str, object],
) -> NCZarrError:
    made: Any = also(cls, builtin) if builtin else cls
    error: NCZarrError = made.__new__(made)
    super(NCZarrError, error).__init__(*args)
    for name, value in state.items():
        setattr(error, name, value)
    return error


def also(kind: type[NCZarrError], builtin: type[Exception]) -> Callable[..., Any]:
    """Return a class of this module as a subclass of another builtin exception.

    The netCDF4 interface raises the builtin exception of netCDF4-python in each place; a class has one meaning.

    Examples
    --------
    >>> error = also(ReadOnlyError, AttributeError)("the dataset is open read-only")
    >>> isinstance(error, ReadOnlyError), isinstance(error, AttributeError), type(error).__name__
    (True, True, 'ReadOnlyError')
    """
    if (kind, builtin) not in _MADE:
        names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
        # Threads that meet here get one class: setdefault is atomic.
        _MADE.setdefault((kind, builtin), type(kind.__name__, (kind, builtin), names))
    return _MADE[kind, builtin]


_MADE: dict[tuple[type[NCZarrError], type[Exception]], Callable[..., Any]] = {}


def _parts_of(cls: type[NCZarrError]) -> tuple[type[NCZarrError], type[Exception] | None]:
    """Return the arguments of :func:`also` for its result; a class of this module alone for any other."""
    kind, *builtin = cls.__bases__
    is_made = kind.__name__ == cls.__name__ and kind.__module__ == cls.__module__
    return (kind, builtin[0]) if is_made else (cls, None)


class suppress_reason:
    """Context manager that ignores the errors with a reason.

    Examples
    --------
    >>> with suppress_reason("refused"):
    ...     raise StoreError("the server answers 403", reason="refused")
    """

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        return isinstance(error, NCZarrError) and error.reason == self.reason


class error_context:
    """Context manager that adds the path and the FQN to errors that lack them.

    Parameters
    ----------
    path : str, optional
        The affected file, URL or store key.
    fqn : str, optional
        Fully qualified name of the affected node.

    Examples
    --------
    >>> with error_context("a.zarr/zarr.json"):
    ...     raise MetadataError("not JSON")
    Traceback (most recent call last):
    nczarr.errors.MetadataError: a.zarr/zarr.json: not JSON
    """

    __slots__ = ("fqn", "path")

    def __init__(self, path: str | None = None, *, fqn: str | None = None) -> None:
        self.path = path
        self.fqn = fqn

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        # The place nearest to the error is the most exact: it stays.
        if isinstance(error, NCZarrError):
            error.path = error.path or self.path
            error.fqn = error.fqn or self.fqn


class ArgumentError(NCZarrError, ValueError):
    """An argument of a call has a value that the call does not take (also a :class:`ValueError`)."""


class ArgumentTypeError(NCZarrError, TypeError):
    """An argument has a wrong type, such as None or a number for a path (also a :class:`TypeError`)."""


class RangeError(NCZarrError, OverflowError):
    """A number does not fit into its type (also an :class:`OverflowError`)."""


class TextError(NCZarrError):
    """Text cannot be encoded, or bytes cannot be decoded (also a :class:`UnicodeError`).

    Parameters
    ----------
    cause : UnicodeError
        The value, the encoding, and the position in the value.
    """

    def __init__(self, message: str, *, cause: UnicodeError, fqn: str | None = None) -> None:
        # UnicodeError has five arguments of its own.
        super(NCZarrError, self).__init__(*cause.args)
        # Its reason is UnicodeError's.
        self.message, self.path, self.fqn, self.hint = message, None, fqn, None


class UnknownNameError(NCZarrError, KeyError):
    """A group, variable, dimension, type or other name does not exist (also a :class:`KeyError`)."""


class NodeAttributeError(NCZarrError, AttributeError):
    """An attribute does not exist, or its name is not legal (also an :class:`AttributeError`)."""


class SelectionError(NCZarrError, IndexError):
    """An index or slice does not fit the array, or a path leads to no node (also an :class:`IndexError`)."""


class EditError(NCZarrError, RuntimeError):
    """A change is not possible in this state, or the dataset is closed (also a :class:`RuntimeError`)."""


class ReadOnlyError(EditError):
    """A dataset or store that is open read-only cannot be changed."""


class ModelError(NCZarrError):
    """The dataset breaks a rule of the netCDF data model (a name, a reference, a type, a shape).

    Parameters
    ----------
    problems : sequence of str, optional
        All problems, if there is more than one.
    """

    def __init__(self, message: str, *, problems: tuple[str, ...] = (), **where: str | None) -> None:
        super().__init__(message, **where)
        self.problems = problems or (message,)


class CDLError(NCZarrError):
    """CDL text is invalid.

    Parameters
    ----------
    line, column : int, optional
        Location of the problem, counted from one.
    source : str, optional
        The affected line or a part of it. The message prints it with a caret below.
    caret : int, optional
        Column of the caret in `source`, counted from one; default: `column`.
    problems : sequence of CDLError, optional
        All problems, if there is more than one.
    """

    def __init__(
        self,
        message: str,
        *,
        line: int | None = None,
        column: int | None = None,
        source: str | None = None,
        caret: int | None = None,
        problems: tuple[CDLError, ...] = (),
        **where: str | None,
    ) -> None:
        super().__init__(message, **where)
        self.line = line
        self.column = column
        self.source = source
        self.caret = caret or column
        self._problems = problems

    @property
    def problems(self) -> tuple[CDLError, ...]:
        """All problems, including this one."""
        return self._problems or (self,)

    def _text(self) -> str:
        place = ":".join(str(p) for p in (visible(self.path or "<cdl>"), self.line, self.column) if p)
        text = f"{place}: {visible(self.message)}"
        if self.hint:
            text += f"; {visible(self.hint)}"
        if self.source is not None and self.caret:
            # A tab is one character of the text, and moves the caret by up to eight.
            shown = self.source.expandtabs(8)
            before = self.source[: self.caret - 1].expandtabs(8)
            text += f"\n  {shown}\n  {' ' * len(before)}^"
        return text

    def __str__(self) -> str:
        return "\n".join(problem._text() for problem in self.problems)


class UnsupportedError(NCZarrError):
    """The input is valid, but nczarr or the requested format does not support it."""


class LossError(UnsupportedError):
    """The output format cannot represent all of the input, and a lossy result is not enabled."""


class StoreError(NCZarrError, OSError):
    """A file or store cannot be read, written or listed, or does not support the request (also an :class:`OSError`)."""


class NotAllowedError(StoreError, PermissionError):
    """A file may not be read, written or replaced (also a :class:`PermissionError`).

    If references name a file outside of the allowed locations, the user can allow the location.
    """

    def __init__(self, message: str, **where: str | None) -> None:
        super().__init__(message, **where)
        self.errno, self.filename = errno.EACCES, self.path


class LockedError(NotAllowedError):
    """Another writer has the dataset open, or has left its mark. Its reason is ``"temporary"``."""

    def __init__(self, message: str, **where: str | None) -> None:
        super().__init__(message, **{"reason": "temporary", **where})


class PartlyStoredError(NCZarrError, OSError):
    """Some parts of a dataset could not be stored; all other parts are stored (also an :class:`OSError`).

    Parameters
    ----------
    failures : sequence of (str, Exception)
        FQN of each part that is not stored, with the reason.

    Examples
    --------
    >>> str(PartlyStoredError([("/t", OSError("disk full"))], path="a.zarr"))
    'a.zarr: not stored: /t (disk full); all other parts are stored'
    """

    def __init__(self, failures: Sequence[tuple[str, Exception]], **where: str | None) -> None:
        shown = [f"{name} ({getattr(e, 'message', None) or e})" for name, e in failures[:_MOST_NAMED]]
        # A dataset of ten thousand refused parts would fill the terminal.
        if len(failures) > _MOST_NAMED:
            shown.append(f"{len(failures) - _MOST_NAMED} more")
        super().__init__(f"not stored: {', '.join(shown)}; all other parts are stored", **where)
        self.failures = tuple(failures)
        self.errno = getattr(failures[0][1], "errno", None)


class DatasetNotFoundError(NCZarrError, FileNotFoundError):
    """The location contains no dataset that nczarr can read (also a :class:`FileNotFoundError`)."""

    def __init__(self, message: str, **where: str | None) -> None:
        super().__init__(message, **where)
        self.errno, self.filename = errno.ENOENT, self.path


class DatasetExistsError(NCZarrError, FileExistsError):
    """The output exists, and overwriting is not enabled or not safe (also a :class:`FileExistsError`)."""

    def __init__(self, message: str, **where: str | None) -> None:
        super().__init__(message, **where)
        self.errno, self.filename = errno.EEXIST, self.path


class MetadataError(NCZarrError, OSError):
    """A metadata document of Zarr is damaged, violates its specification, or needs an unknown extension.

    It is also an :class:`OSError`.
    """


class NetCDFFileError(NCZarrError, OSError):
    """A netCDF file is damaged or truncated, or a part of it cannot be read (also an :class:`OSError`)."""


class CodecError(NCZarrError):
    """A codec is unknown or misconfigured, or fails to encode or decode its input."""


class ChunkError(CodecError):
    """A chunk cannot be decoded; the message names its key, array and region."""


class LostWorkersError(NCZarrError):
    """The workers of a parallel copy are lost; the copy can be resumed."""

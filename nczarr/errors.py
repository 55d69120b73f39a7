"""Define the errors of nczarr: one base class, and a place in every message.

Every failure that a user can cause is an :class:`NCZarrError`. The message says what is wrong, where
(file or store, fully qualified name, line and column) and, where there is one, the remedy.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Any

from nczarr.display import shown_location

#: An error names so many parts.
_MOST_NAMED = 20
#: What an error says; passwords and tokens in URLs are hidden whenever one of them is set.
_SHOWN = frozenset({"message", "path", "hint", "filename"})


def _visible(text: str, *, layout: bool = False) -> str:
    """Text from files as it may be shown on a terminal."""
    # Imported late: every module imports this one, few show an error.
    from nczarr.display.text import visible

    return visible(text, layout=layout)


class NCZarrError(Exception):
    """Base class of all errors that nczarr raises on purpose.

    Parameters
    ----------
    message : str
        What is wrong.
    path : str, optional
        The file, URL or store key concerned.
    fqn : str, optional
        Fully qualified name of the node concerned, such as ``/ocean/temp``.
    hint : str, optional
        What to do about it.

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
    ) -> None:
        super().__init__(shown_location(message))
        self.message = message
        self.path = path
        self.fqn = fqn
        self.hint = hint

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _SHOWN and isinstance(value, str):
            value = shown_location(value)
        super().__setattr__(name, value)

    def __str__(self) -> str:
        where = ": ".join(_visible(part) for part in (self.path, self.fqn) if part)
        message = _visible(self.message, layout=True)
        text = f"{where}: {message}" if where else message
        return f"{text} ({_visible(self.hint)})" if self.hint else text

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions with keyword-only arguments need help to cross a process boundary.
        state = dict(self.__dict__)
        if isinstance(self, OSError):
            state.update(errno=self.errno, filename=self.filename)
        return (_rebuild, (type(self), self.message, state))


def _rebuild(cls: type[NCZarrError], message: str, state: dict[str, Any]) -> NCZarrError:
    error = cls.__new__(cls)
    Exception.__init__(error, message)
    for name, value in state.items():
        setattr(error, name, value)
    return error


class placed:
    """Add the place to errors raised inside: the path and the FQN that they do not name yet.

    Parameters
    ----------
    path : str, optional
        The file, URL or store key concerned.
    fqn : str, optional
        Fully qualified name of the node concerned.

    Examples
    --------
    >>> with placed("a.zarr/zarr.json"):
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
        if isinstance(error, NCZarrError):
            error.path = error.path or self.path
            error.fqn = error.fqn or self.fqn


class ModelError(NCZarrError):
    """The dataset breaks a rule of the netCDF data model (a name, a reference, a type, a shape).

    Parameters
    ----------
    problems : sequence of str, optional
        All problems found, when there is more than one.
    """

    def __init__(self, message: str, *, problems: tuple[str, ...] = (), **where: Any) -> None:
        super().__init__(message, **where)
        self.problems = problems or (message,)


class SelectionError(NCZarrError, IndexError):
    """A selection does not fit the array (also an :class:`IndexError`)."""


class StoreError(NCZarrError, OSError):
    """A store could not be read, written or listed, or a key is not legal (also an :class:`OSError`)."""


class NotAllowedError(StoreError, PermissionError):
    """References name a file that they may not reach; the user can allow it (also a :class:`PermissionError`)."""

    def __init__(self, message: str, **where: Any) -> None:
        super().__init__(message, **where)
        self.errno, self.filename = errno.EACCES, self.path


class PartlyStoredError(NCZarrError, OSError):
    """Some of what was to be stored is not; all else is (also an :class:`OSError`).

    Parameters
    ----------
    failures : sequence of (str, Exception)
        The FQN of what is not stored, with the reason.

    Examples
    --------
    >>> str(PartlyStoredError([("/t", OSError("disk full"))], path="a.zarr"))
    'a.zarr: not stored: /t (disk full); all else is stored'
    """

    def __init__(self, failures: Sequence[tuple[str, Exception]], **where: Any) -> None:
        shown = [f"{name} ({getattr(e, 'message', None) or e})" for name, e in failures[:_MOST_NAMED]]
        if len(failures) > _MOST_NAMED:
            shown.append(f"{len(failures) - _MOST_NAMED} more")
        super().__init__(f"not stored: {', '.join(shown)}; all else is stored", **where)
        self.failures = tuple(failures)
        self.errno = getattr(failures[0][1], "errno", None)


class DatasetNotFoundError(NCZarrError, FileNotFoundError):
    """Nothing that nczarr can read is there (also a :class:`FileNotFoundError`)."""

    def __init__(self, message: str, **where: Any) -> None:
        super().__init__(message, **where)
        self.errno, self.filename = errno.ENOENT, self.path


class DatasetExistsError(NCZarrError, FileExistsError):
    """The output exists already, and overwriting was not asked for, or would not be safe."""

    def __init__(self, message: str, **where: Any) -> None:
        super().__init__(message, **where)
        self.errno, self.filename = errno.EEXIST, self.path


class ReadOnlyError(NCZarrError):
    """A change was asked of something that is open for reading only."""


class MetadataError(NCZarrError, OSError):
    """A metadata document is damaged or breaks its specification (also an :class:`OSError`)."""


class ExtensionError(MetadataError):
    """A document asks for an extension that must be understood and is not, or has null for a fill value."""


class ZarrNameError(MetadataError):
    """A name cannot be the name of a Zarr node."""


class CodecError(NCZarrError):
    """A codec is unknown, misconfigured, or cannot encode or decode its input."""


class ChunkError(CodecError):
    """One chunk cannot be decoded; the message names its key, array and region."""


class UnsupportedError(NCZarrError):
    """The input is legal, but nczarr (or the format asked for) has no place for it."""


class LossError(UnsupportedError):
    """The output format would lose something, and a lossy result was not asked for."""


class NetCDFFileError(NCZarrError, OSError):
    """A netCDF file is damaged, truncated, or holds something that cannot be read (also an :class:`OSError`)."""


class CDLError(NCZarrError):
    """CDL text is wrong.

    Parameters
    ----------
    line, column : int, optional
        Where, both counted from one.
    source : str, optional
        The line itself, or a part of it; printed with a caret below it.
    caret : int, optional
        Where in `source` the caret is, from one; `column` if it is not given.
    problems : sequence of CDLError, optional
        All problems found, when there is more than one.
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
        **where: Any,
    ) -> None:
        super().__init__(message, **where)
        self.line = line
        self.column = column
        self.source = source
        self.caret = caret or column
        self._problems = problems

    @property
    def problems(self) -> tuple[CDLError, ...]:
        """All problems, this one included."""
        return self._problems or (self,)

    def _text(self) -> str:
        place = ":".join(str(p) for p in (_visible(self.path or "<cdl>"), self.line, self.column) if p)
        text = f"{place}: {_visible(self.message)}"
        if self.hint:
            text += f"; {_visible(self.hint)}"
        if self.source is not None and self.caret:
            shown = self.source.expandtabs(8)
            before = self.source[: self.caret - 1].expandtabs(8)
            text += f"\n  {shown}\n  {' ' * len(before)}^"
        return text

    def __str__(self) -> str:
        return "\n".join(problem._text() for problem in self.problems)

"""Define the errors of editing: each is an NCZarrError, and the builtin that says the same in Python."""

from __future__ import annotations

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

"""Define the errors of editing: each is an NCZarrError, and the builtin that says the same in Python.

They bear the names under which programs know them, which tracebacks show.
"""

from __future__ import annotations

from nczarr.errors import NCZarrError, ReadOnlyError


class NetCDFRuntimeError(NCZarrError, RuntimeError):
    """A change that the data model does not allow, or a dataset that is closed (also a :class:`RuntimeError`)."""


class NetCDFReferenceError(NCZarrError, ReferenceError):
    """The dataset was dropped; only a weak reference is left (also a :class:`ReferenceError`)."""


class NetCDFReadOnlyError(ReadOnlyError, RuntimeError):
    """A change was asked of a dataset that is open for reading (also a :class:`RuntimeError`)."""


class NetCDFAttributeError(NCZarrError, AttributeError):
    """An attribute cannot have this name, or there is none (also an :class:`AttributeError`)."""


class NetCDFKeyError(NCZarrError, KeyError):
    """Nothing has this name (also a :class:`KeyError`)."""


class NetCDFValueError(NCZarrError, ValueError):
    """An argument has a value that cannot be used (also a :class:`ValueError`)."""


class NetCDFOverflowError(NCZarrError, OverflowError):
    """A number is out of range (also an :class:`OverflowError`)."""

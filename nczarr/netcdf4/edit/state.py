"""Count changes, and say whether they are allowed: the state that all nodes of one dataset share."""

from __future__ import annotations

import threading

from nczarr.netcdf4.errors import NetCDFReadOnlyError, NetCDFReferenceError, NetCDFRuntimeError

#: The value of ``_Format`` whose data model has groups, user types and strings; None counts as this one.
_ENHANCED = "netCDF-4"


class State:
    """The lock and the clock of one tree of nodes.

    Attributes
    ----------
    lock : RLock
        Held while the tree is changed or looked at as a whole; never while a store is waited for.
    generation : int
        Grows with every change. What was stored up to some generation is not what was changed after it.
    structure : int
        Grows with every change but that of a dimension's length.
    """

    def __init__(self, name: str, *, writable: bool, format: str | None = None) -> None:
        self.name = name
        self.writable = writable
        self.format = format
        self.is_open = True
        #: True if the dataset was closed because its last reference went.
        self.dropped = False
        #: True in a forked child, which must leave the parent's data alone.
        self.inherited = False
        #: True if other processes may write values at the same time, so that the structure must not change.
        self.shared = False
        #: True if the store keeps dimensions, variables, groups and types of a group under their bare names.
        self.one_name_space = False
        #: Names of attributes that the store needs for itself.
        self.reserved_names: frozenset[str] = frozenset()
        #: True if compounds of two floats are complex numbers to the program.
        self.auto_complex = False
        self.lock = threading.RLock()
        self.generation = 0
        self.structure = 0

    @property
    def classic(self) -> bool:
        """True for the data models without groups, user types and strings."""
        return self.format is not None and self.format != _ENHANCED

    def check_open(self) -> None:
        """Raise if the dataset is closed."""
        if self.is_open:
            return
        if self.dropped:
            raise NetCDFReferenceError("weakly-referenced object no longer exists", path=self.name)
        raise NetCDFRuntimeError("NetCDF: Not a valid ID: the dataset is closed", path=self.name)

    def check_writable(self) -> None:
        """Raise if the dataset is closed, or open for reading only."""
        self.check_open()
        if not self.writable:
            raise NetCDFReadOnlyError("NetCDF: Write to read only", path=self.name)
        self.check_owner()

    def check_owner(self) -> None:
        """Raise in a forked child of the process that opened the dataset for writing."""
        if self.inherited and self.writable:
            raise NetCDFRuntimeError(
                "the dataset was opened for writing before this process was forked, and belongs to the parent",
                path=self.name,
                hint="open it here",
            )

    def check_structure(self) -> None:
        """Raise if anything but values cannot be changed."""
        self.check_writable()
        if self.shared:
            raise NetCDFRuntimeError(
                "the dataset is open for shared writing: dimensions, attributes and names cannot be changed",
                path=self.name,
                hint="make them before, and open it without shared=True",
            )

    def check_enhanced(self, what: str) -> None:
        """Raise if the data model is a classic one, which has no `what`."""
        if self.classic:
            raise NetCDFRuntimeError(
                f"NetCDF: Attempting netcdf-4 operation on strict nc3 netcdf-4 file: {what}", path=self.name
            )

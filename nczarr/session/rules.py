"""Check which changes an open dataset allows, by how it was opened, its data model and its store."""

from __future__ import annotations

from collections.abc import Callable

from nczarr import errors, model
from nczarr.errors import NCZarrError
from nczarr.model.names import check_file_name, is_unicode
from nczarr.model.nodes import LARGEST_DIMENSION
from nczarr.model.parts import Restrictions
from nczarr.session.errors import check_unicode
from nczarr.system.forks import Origin

#: The value of ``_Format`` of the data model with groups, user types and strings, which is also the default.
_ENHANCED = "netCDF-4"
_NONE = Restrictions()
_RECORDS_OF_32_BITS = frozenset(("classic", "64-bit offset"))


class EditRules:
    """The rules of one open dataset.

    Parameters
    ----------
    name : str
        The name in error messages.
    writable : bool
    shared : bool
        True if other processes may write values at the same time; then the structure must not change.
    format : str or None
        The data model, as in ``_Format``; None: the one with groups, user types and strings.
    restrictions : Restrictions
        The parts of the model that the store cannot hold.
    check_stored : callable, optional
        Raises an :class:`~nczarr.errors.NCZarrError` if the store cannot hold a dataset.

    Examples
    --------
    >>> rules = EditRules("d.nc", writable=False)
    >>> rules.check_open()
    >>> rules.check_structure()
    Traceback (most recent call last):
    nczarr.errors.ReadOnlyError: d.nc: NetCDF: Write to read only
    """

    def __init__(
        self,
        name: str,
        *,
        writable: bool,
        shared: bool = False,
        format: str | None = None,
        restrictions: Restrictions = _NONE,
        check_stored: Callable[[model.Dataset], None] = lambda _: None,
    ) -> None:
        self.name = name
        self.writable = writable
        self.shared = shared
        self.format = format
        self.restrictions = restrictions
        self._check_stored = check_stored
        self.is_open = True
        #: True if the dataset was closed because it had no references.
        self.dropped = False
        self._origin = Origin()

    @property
    def classic(self) -> bool:
        """True for the data models without groups, user types and strings."""
        return self.format is not None and self.format != _ENHANCED

    @property
    def netcdf3(self) -> bool:
        """True for the data models of netCDF-3, which know neither chunks nor filters."""
        return self.format is not None and not self.format.startswith(_ENHANCED)

    @property
    def is_inherited(self) -> bool:
        """True in a forked child of the process that opened the dataset for writing."""
        return self.writable and not self._origin.is_here

    def check_open(self) -> None:
        """Raise if the dataset is closed, or belongs to the process from which this one was forked."""
        if self.is_open:
            if self.writable and not self._origin.is_here:
                raise errors.EditError(
                    "the dataset was opened for writing before the fork, and belongs to the parent process",
                    path=self.name,
                    hint="open it again in this process",
                )
            return
        # netCDF4-python raises a ReferenceError with these words for a dataset that was dropped with
        # keepweakref.
        if self.dropped:
            raise errors.also(errors.EditError, ReferenceError)(
                "weakly-referenced object no longer exists", path=self.name
            )
        raise errors.EditError("NetCDF: Not a valid ID: the dataset is closed", path=self.name)

    def check_writable(self) -> None:
        """Raise if the dataset is closed or read-only."""
        # Without a further call: the write of one value asks three times.
        if self.is_open and self.writable and self._origin.is_here:
            return
        self.check_open()
        if not self.writable:
            raise errors.ReadOnlyError("NetCDF: Write to read only", path=self.name)

    def check_structure(self) -> None:
        """Raise if only values, or nothing, can be changed."""
        self.check_writable()
        if self.shared:
            raise errors.EditError(
                "the dataset is open for shared writing: dimensions, attributes and names cannot be changed",
                path=self.name,
                hint="make them before, and open it without shared=True",
            )

    def check_node_name(self, name: str, kind: str) -> None:
        """Raise if the store cannot hold the legal name of a dimension, variable, group or type."""
        wrong = check_file_name(name) if self.restrictions.names_without_slash else None
        if wrong is not None:
            raise errors.EditError(
                f"NetCDF: Name contains illegal characters: {kind}: {wrong}",
                path=self.name,
                hint="choose another name; NCZarr on Zarr v3 holds this one",
            )

    def check_model(self, dataset: model.Dataset) -> None:
        """Raise :class:`EditError` if the store cannot hold a dataset."""
        try:
            self._check_stored(dataset)
        except NCZarrError as error:
            message = f"NetCDF: Invalid argument: {error.message}"
            raise errors.EditError(message, fqn=error.fqn, hint=error.hint) from error

    def check_text(self, text: str, fqn: str | None = None) -> None:
        """Raise if the store cannot hold a string.

        Raises
        ------
        TextError
            If the string contains half a surrogate pair. Surrogate escapes, which represent bytes that are not
            UTF-8, are valid.
        ArgumentError
            If the string contains a NUL, and the store's strings end there.
        """
        if not is_unicode(text):
            check_unicode(text, "the string", fqn)
        # Refused when the file was closed, it took the values of all variables with it.
        if self.restrictions.strings_end_at_nul and "\0" in text:
            message = f"netCDF-4 files cannot hold a string with a NUL inside: {text[:40]!r}"
            raise errors.ArgumentError(message, path=self.name, fqn=fqn)

    def check_growth(self, name: str, size: int) -> None:
        """Raise as :meth:`check_size` if an unlimited dimension cannot have a length."""
        # Python's integers have no limit, and arrays count in 63 bits.
        if not 0 <= size < 1 << 63:
            wrong = "is negative" if size < 0 else "needs more than 63 bits"
            raise errors.RangeError(f"the dimension {name!r} cannot have the size {size}, which {wrong}")
        # CDF-1 and CDF-2 count records in 32 bits.
        if self.format in _RECORDS_OF_32_BITS and size >= 1 << 32:
            raise errors.EditError(
                f"NetCDF: Index exceeds dimension bound: the size {size} of {name!r}",
                path=self.name,
                hint="the data model counts records in 32 bits",
            )

    def check_size(self, name: str, size: int) -> None:
        """Raise if a dimension cannot have a size, before pending changes depend on it."""
        # Refused at the close, it took all other changes with it.
        self.check_growth(name, size)
        largest = LARGEST_DIMENSION.get(self.format or "", size)
        if size > largest:
            raise errors.EditError(
                f"NetCDF: Invalid dimension size: {size} of {name!r}",
                path=self.name,
                hint=f"the data model has no more than {largest}",
            )

    def check_enhanced(self, what: str) -> None:
        """Raise if the data model is a classic one, which lacks `what`."""
        if self.classic:
            message = f"NetCDF: Attempting netcdf-4 operation on strict nc3 netcdf-4 file: {what}"
            raise errors.EditError(message, path=self.name)

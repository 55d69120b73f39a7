"""Collect the errors of a flush, and store all parts that a store accepts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nczarr import model
from nczarr.errors import NCZarrError, PartlyStoredError, TextError, also
from nczarr.model.parts import Addition, parts_of, without


def check_unicode(text: str, what: str, fqn: str | None = None) -> None:
    """Raise :class:`TextError` if a string cannot be encoded.

    Examples
    --------
    >>> check_unicode("caf\u00e9", "the attribute 'a'")
    >>> check_unicode("\\ud800", "the attribute 'a'")
    Traceback (most recent call last):
    nczarr.errors.TextError: the attribute 'a' has half a surrogate pair, which is no character: '\\ud800'
    """
    if text.isascii():
        return
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        message = f"{what} has half a surrogate pair, which is no character: {text[:40]!r}"
        raise also(TextError, UnicodeEncodeError)(message, cause=error, fqn=fqn) from None


#: After this number of consecutive refusals, the other parts are not tried.
_MOST_REFUSED = 64

#: Errors of stores.
STORE_ERRORS = (NCZarrError, OSError)


class Failures:
    """The errors of one flush, by the names of the parts that are not stored.

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
        #: The error that concerns the whole store.
        self.whole: Exception | None = None

    @property
    def is_empty(self) -> bool:
        """True if there is no error."""
        return self.whole is None and not self.found

    def add(self, name: str, error: Exception) -> None:
        """Note the first error of each name."""
        if isinstance(error, PartlyStoredError):
            for part, reason in error.failures:
                self.found.setdefault(part, reason)
        else:
            self.found.setdefault(name, error)

    def describe(self) -> str:
        """Return the errors in one line; an empty string if there are none."""
        try:
            self.raise_all("")
        except Exception as error:
            return str(error)
        return ""

    def raise_all(self, path: str) -> None:
        """Raise the error, or an error that names all of several."""
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
        Writes a model to the store, or raises.
    old, new : Dataset
        The model in the store, and the refused model.
    error : Exception
        The refusal.
    failures : Failures
        Collects the parts that are not stored. If the store also refuses the model without all new parts (a rename, a
        removed attribute, a full disk), collects the refusal as an error of the whole store.
    """
    parts = parts_of(old, new)
    missing = dict.fromkeys(parts)

    def store(chosen: Sequence[Addition]) -> Exception | None:
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
        failures.add(str(parts[0]), error)  # the store refuses this part
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

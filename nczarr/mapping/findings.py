"""Name deviations of a store from its specification, and changes by other programs.

Each finding has a stable code (:mod:`nczarr.mapping.constraints`). Reading continues wherever the data
are understandable; :func:`nczarr.mapping.repair` writes the understood metadata.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, field
from unicodedata import normalize

from nczarr.dataclass import dataclass
from nczarr.errors import MetadataError
from nczarr.mapping.constraints import BESIDE, CONSTRAINTS, Severity
from nczarr.system.logs import logger_of
from nczarr.system.warning import warn
from nczarr.zarr import Hierarchy

#: The severity of each code, and the remedy that ``repair`` applies (empty: none).
RULES: dict[str, tuple[Severity, str]] = {c.code: (c.severity, c.remedy) for c in (*CONSTRAINTS, *BESIDE)}


class RecoveryWarning(UserWarning):
    """A program without support for NCZarr has changed the metadata of a store, or a part of the store is left out.

    All other data were understood.
    """


#: The codes of findings that are no damage: usual while a program writes, or after xarray's `to_zarr(mode="a")`, which
#: adds an array and replaces the root's attributes. The reading is certain, and the next writer of nczarr records it.
_HARMLESS = frozenset(("annotation-stale", "keys-removed", "node-unlisted", "size-stale", "version-old"))
#: As usual, and no reason for a warning here; but other programs read the old documents.
_USUAL = _HARMLESS | {"consolidated-stale"}


@dataclass(frozen=True)
class Finding:
    """One deviation.

    Parameters
    ----------
    code : str
        Stable name of the rule.
    where : str
        The FQN of the node, or its path.
    what : str
        A description of the deviation, and of its interpretation.
    severity : {'note', 'warning', 'error'}
        A note loses nothing; a warning is a guess, or a permanent loss; an error requires a decision by the user, so
        `repair` ignores it.
    remedy : str
        The action of `repair`; empty: none.

    Examples
    --------
    >>> print(Finding("node-missing", "/", "the array 'v' is listed but missing", remedy="update the list"))
    /: the array 'v' is listed but missing [node-missing]
    """

    code: str
    where: str
    what: str
    severity: Severity = "note"
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.what} [{self.code}]"

    @property
    def is_harmless(self) -> bool:
        """True if the finding is information and no damage: no command warns of it, and `check` ends with status 0."""
        return self.code in _HARMLESS

    def to_json(self) -> dict[str, str]:
        """Return the finding as a JSON object."""
        return {"code": self.code, "severity": self.severity, **asdict(self)}


def make_finding(code: str, where: str, what: str, severity: Severity | None = None) -> Finding:
    """Return a finding with the severity and the remedy of its code in :data:`RULES`.

    Examples
    --------
    >>> make_finding("size-stale", "/x", "the recorded size is 2, but its arrays have 3").remedy
    'update the record'
    """
    usual, remedy = RULES[code]
    return Finding(code, where, what, severity or usual, remedy)


def missing_node(where: str, path: str, is_array: bool, hierarchy: Hierarchy) -> Finding:
    """Return the finding for a node that its group or consolidated metadata list, and that is not stored.

    Parameters
    ----------
    where : str
        The FQN of the group that lists it.
    path : str
        The path where it should be.
    is_array : bool
        True for an array, False for a group.
    hierarchy : Hierarchy
        The nodes that are there: a similar name tells how this one was lost.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> from nczarr.zarr import GroupMetadata, create_hierarchy
    >>> hierarchy = create_hierarchy(MemoryStore())
    >>> hierarchy.put_group("T", GroupMetadata())
    >>> print(missing_node("/", "t", False, hierarchy))
    /: the group 't' is listed but missing: a file system that ignores case has kept only 'T' [node-missing]
    """
    above, _, name = path.rpartition("/")
    why = "it was deleted or renamed"
    there = hierarchy.children(above) if above in hierarchy.nodes else []
    for other in [child.rpartition("/")[2] for child in there]:
        if other.casefold() == name.casefold() and other != name:
            why = f"a file system that ignores case has kept only {other!r}"
        elif normalize("NFC", other) == normalize("NFC", name) and other != name:
            why = "its folder has the name in another Unicode form, as macOS writes it; rename the folder"
    return make_finding(
        "node-missing", where, f"the {_KINDS[is_array]} {name!r} is listed but missing: {why}"
    )


_KINDS = ("group", "array")


@dataclass
class Findings:
    """Collects findings, each once."""

    items: dict[Finding, None] = field(default_factory=dict)

    def add(self, code: str, where: str, what: str) -> None:
        """Add a finding with a code of :data:`RULES`."""
        self.items[make_finding(code, where, what)] = None

    def add_missing(self, where: str, path: str, is_array: bool, hierarchy: Hierarchy) -> None:
        """Add the finding of :func:`missing_node`."""
        self.items[missing_node(where, path, is_array, hierarchy)] = None

    def of_errors(self, code: str, where: str, ending: str = "") -> ErrorFinder:
        """Add a finding in place of a MetadataError in the block; its message gets an ending."""
        # A generator as the context of each variable took a tenth of the time of an opening.
        return ErrorFinder(self, code, where, ending)


class ErrorFinder:
    """Context manager of :meth:`Findings.of_errors`: a class, since each variable that is opened enters several."""

    __slots__ = ("_finding", "_findings")

    def __init__(self, findings: Findings, *finding: str) -> None:
        self._findings, self._finding = findings, finding

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, MetadataError):
            return False
        code, where, ending = self._finding
        self._findings.add(code, where, error.message + ending)
        return True


#: Findings that no repair of the metadata affects.
_NOT_REPAIRED = frozenset(("left-out", "nodes-unsure", "node-foreign", "copy-unclear", "values-unstored"))


def warn_of(findings: Sequence[Finding], place: str, *, repairable: bool = True) -> None:
    """Issue one warning for all findings of a store, unless all are usual while programs write.

    `repairable`: False if `repair` refuses the store.
    """
    for finding in findings:
        logger_of(__name__).info("%s: %s", place, finding)
    # Arrays that xarray adds are read with certainty: only info and check name them.
    if any(f.code not in _USUAL for f in findings):
        first = max(findings, key=lambda f: ("note", "warning", "error").index(f.severity))
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        advice = "; 'nczarr check' lists all findings" if repairable else ""
        if any(f.code not in _NOT_REPAIRED for f in findings) and repairable:
            advice += ", 'nczarr repair' repairs the metadata"
        warn(f"{place}: {first}{more}{advice}", RecoveryWarning)

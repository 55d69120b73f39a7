"""Name what a store says that its specification does not allow, or that another program has changed.

Each finding has a stable code (``docs/spec/nczarr-v3.md``, *Findings*). Reading goes on wherever the data can be
understood; :func:`nczarr.mapping.repair` writes down what was understood.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Severity = Literal["note", "warning", "error"]


class RecoveryWarning(UserWarning):
    """The metadata of a store were changed by a program that does not know NCZarr, or something in it is left out.

    All other data were understood.
    """


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it should be.

    Parameters
    ----------
    code : str
        Stable name of the rule.
    where : str
        The FQN of the node, or its path.
    what : str
        What was found, and what it was taken for.
    severity : {'note', 'warning', 'error'}
        A note loses nothing; a warning is a guess, or a loss that cannot be undone; an error is left to people,
        so that `repair` does not touch it.
    remedy : str
        What `repair` does about it; empty: nothing.

    Examples
    --------
    >>> print(Finding("node-missing", "/", "the array 'v' is listed and not there", remedy="update the list"))
    /: the array 'v' is listed and not there [node-missing]
    """

    code: str
    where: str
    what: str
    severity: Severity = "note"
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.what} [{self.code}]"

    def to_json(self) -> dict[str, str]:
        """Return the finding as a JSON object."""
        return {
            "code": self.code,
            "severity": self.severity,
            "where": self.where,
            "what": self.what,
            "remedy": self.remedy,
        }


@dataclass
class Findings:
    """Findings as they are made; the same one counts once."""

    items: dict[Finding, None] = field(default_factory=dict)

    def add(self, code: str, where: str, what: str, severity: Severity = "note", remedy: str = "") -> None:
        """Note a finding."""
        self.items[Finding(code, where, what, severity, remedy)] = None


#: What is found while another program, or nczarr itself, is writing: nothing is wrong then.
_GROWING = frozenset(("consolidated-stale", "size-stale", "version-old"))
#: What no repair of the metadata changes.
_NOT_REPAIRED = frozenset(("left-out", "nodes-unsure", "node-foreign", "copy-unclear", "values-unstored"))


def warn_of(findings: Sequence[Finding], place: str, *, mends: bool = True) -> None:
    """Issue one warning for all findings of a store; none for what is usual while it grows.

    `mends`: false where `repair` refuses the store.
    """
    if any(f.code not in _GROWING for f in findings):
        first = max(findings, key=lambda f: ("note", "warning", "error").index(f.severity))
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        advice = "; 'nczarr check' lists what was found" if mends else ""
        if any(f.code not in _NOT_REPAIRED for f in findings) and mends:
            advice += ", 'nczarr repair' mends it"
        warnings.warn(f"{place}: {first}{more}{advice}", RecoveryWarning, stacklevel=5)

"""Collect what a copy did, or would do: for the closing line, and for machines."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nczarr.formats import local_path
from nczarr.model import Dataset

if TYPE_CHECKING:
    from nczarr.convert.plan import PlannedVariable


@dataclass
class Report:
    """What a copy did.

    Attributes
    ----------
    sources : int
        How many were read.
    bytes_in, bytes_out : int or None
        Stored bytes of local sources and of the target; None if one is not local.
    bytes_of_values : int
        Before compression.
    seconds : float
    variables : list of PlannedVariable
        With ``dry_run``: how each would be written.
    losses : list of str
        What the output could not hold.
    allow : list of str
        With ``virtual``: what has to be allowed to read the references back, as files are not beside them.
    finished_before : int
        With ``resume``: how many copies an earlier command had finished; they were compared with their sources.

    Examples
    --------
    >>> from nczarr import copy
    >>> from nczarr.model import Dataset
    >>> report = Report()
    >>> copy(Dataset("d"), {}, report=report)
    ()
    >>> report.sources
    1
    """

    sources: int = 0
    bytes_in: int | None = 0
    bytes_out: int | None = 0
    bytes_of_values: int = 0
    variables: list[PlannedVariable] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    allow: list[str] = field(default_factory=list)
    finished_before: int = 0
    _start: float = field(default_factory=time.monotonic, repr=False)

    @property
    def seconds(self) -> float:
        """Since the report was made."""
        return time.monotonic() - self._start

    def add(self, sources: Sequence[Any], target: Any, values: int) -> None:
        """Add a copy that is complete."""
        self.sources += len(sources)
        self.bytes_of_values += values
        sizes = [stored_bytes(source) for source in sources]
        out = stored_bytes(target)
        known = self.bytes_in is not None and None not in sizes
        self.bytes_in = (self.bytes_in or 0) + sum(s or 0 for s in sizes) if known else None
        self.bytes_out = None if out is None or self.bytes_out is None else self.bytes_out + out

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return {
            "sources": self.sources,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "bytes_of_values": self.bytes_of_values,
            "seconds": round(self.seconds, 3),
            "variables": [v.to_json() for v in self.variables],
            "losses": self.losses,
            "allow": self.allow,
            "finished_before": self.finished_before,
        }


def stored_bytes(target: Any) -> int | None:
    """Return the bytes that a local file or directory takes; None for everything else."""
    path = None if isinstance(target, Dataset) else local_path(target)
    if path is None or not os.path.lexists(path):
        return None
    if not path.is_dir():
        return path.stat().st_size
    return _bytes_below(os.fspath(path))


def _bytes_below(folder: str) -> int:
    with os.scandir(folder) as entries:
        return sum(
            _bytes_below(entry.path) if entry.is_dir(follow_symlinks=False) else entry.stat().st_size
            for entry in entries
        )

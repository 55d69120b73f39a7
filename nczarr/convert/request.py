"""Define the request of a copy: its target and its options."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from nczarr.convert.change.shaping import OutputOptions, parse_bytes
from nczarr.convert.report import Report
from nczarr.errors import UnsupportedError
from nczarr.transfer import NoProgress, Progress


@dataclass(frozen=True)
class Request:
    """The target and the options of a copy, apart from its sources; see :func:`nczarr.copy`.

    Parameters
    ----------
    format_options : mapping
        Options of the format of the target; see :func:`nczarr.convert.create_sink`.
    storage_options : mapping or None
        Options of the file system of the target.
    memory : int
        Maximum size of the values in memory, in bytes.
    """

    target: object
    output: OutputOptions
    format_options: Mapping[str, Any]
    storage_options: Mapping[str, object] | None
    overwrite: bool
    durable: bool | None
    resume: bool
    verify: bool
    digest: bool
    dry_run: bool
    report: Report | None
    progress: Progress
    workers: int
    memory: int
    dask: object
    executor: object
    record_sources: bool

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Request:
        """Return the request of the arguments of :func:`nczarr.copy`, by name."""
        own = {
            **given,
            "output": OutputOptions.of(**given),
            "format_options": given["options"],
            "storage_options": given["target_options"],
            "progress": given["progress"] or NoProgress(),
            "workers": given["workers"] or min(8, os.cpu_count() or 1),
            "memory": parse_bytes(given["memory"]),
        }
        return cls(**{field.name: own[field.name] for field in fields(cls)})

    def to(self, target: object) -> Request:
        """Return the request with another target."""
        return replace(self, target=target)

    @property
    def lossy(self) -> bool:
        """Omit parts that cannot be copied."""
        return bool(self.format_options.get("lossy"))

    @property
    def readings(self) -> int:
        """Number of times that all values are read: for the digest, for the copy, for the verification."""
        return 1 + self.digest + self.verify

    def refuse_with(self, option: str, *allowed: str) -> None:
        """Refuse the options that another option would ignore."""
        for name in ("dry_run", "resume", "verify", "digest", "overwrite", "dask", "executor"):
            if getattr(self, name) not in (False, None) and name not in allowed:
                raise UnsupportedError(f"{option} cannot be combined with --{name.replace('_', '-')}")

"""Check a folder of test vectors: stores beside the CDL and the canonical JSON that they stand for.

A folder holds ``NAME.zarr`` with ``NAME.cdl`` and ``NAME.json``, or with ``NAME.findings``: the codes that a
validating reader has to print for it, one in a line.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nczarr import cdl
from nczarr.convert.endpoints import open_source
from nczarr.convert.verify.canonical import canonical
from nczarr.convert.verify.check import check
from nczarr.errors import NCZarrError, StoreError
from nczarr.mapping import RecoveryWarning
from nczarr.model import compare


@dataclass(frozen=True)
class Result:
    """How one test vector came out; empty `problems`: as it should."""

    name: str
    problems: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """True if there are no problems."""
        return not self.problems

    def __str__(self) -> str:
        return f"{self.name}: {'; '.join(self.problems) or 'ok'}"


def check_vectors(folder: Any) -> Iterator[Result]:
    """Yield how each test vector of a folder comes out.

    Raises
    ------
    StoreError
        If there are none.
    """
    stores = sorted(Path(folder).glob("*.zarr"))
    if not stores:
        raise StoreError("no test vectors (NAME.zarr) here", path=str(folder))
    for store in stores:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RecoveryWarning)
            result = Result(store.stem, tuple(_problems(store)))
        yield result


def _problems(store: Path) -> Iterator[str]:
    compared = False
    codes = store.with_suffix(".findings")
    if codes.exists():
        compared = True
        expected = set(codes.read_text(encoding="utf-8").split())
        found = {finding.code for finding in check(store)}
        if missing := expected - found:
            yield f"not found: {', '.join(sorted(missing))}"
        if more := found - expected:
            yield f"found without being there: {', '.join(sorted(more))}"
    for suffix, compare_with in ((".cdl", _cdl_differences), (".json", _json_differences)):
        other = store.with_suffix(suffix)
        if other.exists():
            compared = True
            try:
                yield from compare_with(store, other)
            except NCZarrError as error:
                yield str(error)
    if not compared:
        yield "there is nothing to compare it with"


def _cdl_differences(store: Path, text: Path) -> Iterator[str]:
    with open_source(store) as dataset:
        yield from map(str, compare(cdl.load(text), dataset, storage=False))


def _json_differences(store: Path, document: Path) -> Iterator[str]:
    with open_source(store) as dataset:
        ours = json.loads(json.dumps(canonical(dataset)))
    if ours != json.loads(document.read_text(encoding="utf-8")):
        yield f"{document.name} says otherwise"

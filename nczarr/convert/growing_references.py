"""Append netCDF files to references in JSON or Parquet files: the values stay where they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from nczarr.convert.appending import growing_dimension
from nczarr.convert.endpoints import open_source
from nczarr.convert.request import CopyRequest, Sources
from nczarr.errors import LockedError, UnsupportedError
from nczarr.options import named, verb_named, virtual_again
from nczarr.system.locks import FileLock, in_time

#: Writes references to the chunks of sources; it calls the function before it replaces older references.
Refer = Callable[[CopyRequest, Sources, Callable[[], None]], object]


def grow_references(request: CopyRequest, sources: Sources, path: Path, refer: Refer) -> None:
    """Append the steps of netCDF files to references.

    The references are written anew, and replaced in one step: a reader has the old ones or the new ones. Of two that
    append at once, the second waits as long as the request says, or is refused.

    Raises
    ------
    UnsupportedError
        If an option needs values that nczarr has written.
    LockedError
        If another process appends to the references.
    """
    for option, is_said in (
        ("region", bool(request.combination.place)),
        ("replace", request.combination.replace),
        ("record_sources", request.trust.record_sources),
        ("verify", request.trust.verify),
    ):
        if is_said:
            raise UnsupportedError(
                f"{named(option, True)}: references get steps behind their last one only",
                path=str(path),
                hint=f"{verb_named('join', virtual_again())} writes them anew",
            )
    in_time(partial(_grow, request, sources, path, refer), request.access.wait)


def _grow(request: CopyRequest, sources: Sources, path: Path, refer: Refer) -> None:
    try:
        lock = FileLock(str(path))
    except BlockingIOError as error:
        raise _locked(path) from error

    def unchanged() -> None:
        # The lock of references that another process has just replaced excludes no other one.
        if lock.held and not lock.is_on(str(path)):
            raise _locked(path)

    try:
        unchanged()
        with open_source(path, storage_options=sources.options) as old:
            along = growing_dimension(old, sources.along, str(path))
            request = request.going_on(old.joined.options)
        sources = replace(sources.of(request), paths=(path, *sources.paths), along=along)
        refer(replace(request, trust=replace(request.trust, overwrite=True)), sources, unchanged)
    finally:
        lock.release()


def _locked(path: Path) -> LockedError:
    return LockedError(
        "another process appends to the references",
        path=str(path),
        hint=f"try again; {named('wait', 60)} waits a minute for it",
    )

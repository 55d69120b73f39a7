"""Run ``nczarr doctor``: check the installation, and write and read a small dataset at a target."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import Enum
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import nczarr
from nczarr.cli.options import define, option, storage_options
from nczarr.cli.terminal import say
from nczarr.display import shown_location
from nczarr.errors import NCZarrError
from nczarr.stores import open_store
from nczarr.system.environment import SETTINGS

#: Variables and files in which the clients of object stores look for credentials.
_CREDENTIALS = (
    "AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI", "GOOGLE_APPLICATION_CREDENTIALS", "AZURE_STORAGE_CONNECTION_STRING",
    "AZURE_STORAGE_ACCOUNT_NAME", "~/.aws/credentials", "~/.aws/config",
    "~/.config/gcloud/application_default_credentials.json",
)  # fmt: skip


class CheckResult(Enum):
    """The result of a check, as it is printed; a fact, and an optional package that is missing, are neither."""

    PASSED = "ok"
    FAILED = "FAILED"
    FACT = "-"


#: The results in JSON.
_PASSED = {CheckResult.PASSED: True, CheckResult.FAILED: False, CheckResult.FACT: None}


class Check(NamedTuple):
    """One line of the report.

    Attributes
    ----------
    result : CheckResult
    """

    topic: str
    name: str
    result: CheckResult
    detail: str


def define_doctor(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr doctor``."""
    text = "a directory, or the URL of a prefix, where a small dataset is written, read and removed"
    option(parser, "target", text, nargs="?")
    option(parser, "--json", "print one JSON object for each check")
    define(parser, run_doctor, "  nczarr doctor\n  nczarr doctor s3://bucket/scratch\n", "findings")


def run_doctor(options: argparse.Namespace) -> int:
    """Run ``nczarr doctor``."""
    failed = 0
    for check in examine(options.target, storage_options(options)):
        failed += check.result is CheckResult.FAILED
        if options.json:
            shown = {
                "topic": check.topic,
                "name": check.name,
                "passed": _PASSED[check.result],
                "detail": check.detail,
            }
            print(json.dumps(shown))
        else:
            say(f"{check.topic:13} {check.result.value:7} {check.name:32} {check.detail}".rstrip())
    return int(failed > 0)


def examine(target: str | None = None, options: Mapping[str, Any] | None = None) -> Iterator[Check]:
    """Yield the checks of the installation, and of a round trip at `target`.

    Parameters
    ----------
    target : str, optional
        A directory or the URL of a prefix; a temporary directory by default.
    options : mapping, optional
        Options of the file system of a URL.

    Examples
    --------
    >>> [check.name for check in examine() if check.result is CheckResult.FAILED]
    []
    """
    yield Check("version", "nczarr", CheckResult.FACT, nczarr.__version__)
    yield Check("version", "Python", CheckResult.FACT, f"{platform.python_version()}, {platform.platform()}")
    yield from _packages()
    from nczarr.zarr.codecs.base import known_codecs

    yield Check("codecs", "Zarr v3", CheckResult.FACT, ", ".join(sorted(known_codecs())))
    yield from _credentials()
    for name in sorted({*SETTINGS, "NCZARR_PAGER"} & os.environ.keys()):
        yield Check("setting", name, CheckResult.FACT, os.environ[name])
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("zarr", "zip", "nc"):
            yield _round_trip(folder, kind, None)
    if target is not None:
        yield _round_trip(target, "zarr", options)


def _packages() -> Iterator[Check]:
    """Yield a check for each package that nczarr or one of its extras needs."""
    for text in metadata.requires("nczarr") or ():
        package, _, marker = text.partition(";")
        extra = re.search(r"extra == ['\"](.*)['\"]", marker)
        if extra is not None and extra[1] in ("all", "test", "docs"):
            continue
        name = re.split(r"[\[<>=!~ ]", package)[0]
        result = CheckResult.PASSED
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            found = "missing"
            result = CheckResult.FACT if extra else CheckResult.FAILED
        wanted = package.removeprefix(name).strip()
        yield Check(f"extra {extra[1]}" if extra else "package", name, result, f"{found} ({wanted})")


def _credentials() -> Iterator[Check]:
    for place in _CREDENTIALS:
        found = os.path.exists(os.path.expanduser(place)) if place.startswith("~") else place in os.environ
        if found:
            yield Check("credentials", place, CheckResult.FACT, "found")


def _round_trip(folder: str, kind: str, options: Mapping[str, Any] | None) -> Check:
    """Write a dataset, compare it with its source, and remove it."""
    from nczarr import cdl

    name = f"nczarr-doctor-{secrets.token_hex(4)}.{'zarr.zip' if kind == 'zip' else kind}"
    target = f"{folder.rstrip('/')}/{name}"
    source = cdl.loads(
        'netcdf d { dimensions: x = UNLIMITED ; variables: float v(x) ; v:units = "K" ; data: v = 1, 2, 3 ; }'
    )
    shown = shown_location(folder)
    if "://" not in folder and not os.path.isdir(folder):
        return Check("round trip", kind, CheckResult.FAILED, f"{shown}: there is no such directory")
    try:
        nczarr.copy(source, target, target_options=options)
        found = list(nczarr.diff(source, target, storage_options=options))
        # A dataset that stayed where deletion is refused was reported as removed.
        _remove(target, kind, options)
    except (NCZarrError, OSError) as error:
        with suppress(NCZarrError, OSError):
            _remove(target, kind, options)
        # Without h5py, all but netCDF files works.
        if kind == "nc" and "pip install" in str(error):
            return Check("round trip", kind, CheckResult.FACT, str(error))
        return Check("round trip", kind, CheckResult.FAILED, f"{shown}: {error}")
    if found:
        return Check("round trip", kind, CheckResult.FAILED, f"{shown}: {found[0]}")
    return Check("round trip", kind, CheckResult.PASSED, f"{shown}: written, equal, removed")


def _remove(target: str, kind: str, options: Mapping[str, Any] | None) -> None:
    if kind != "zarr":
        Path(target).unlink(missing_ok=True)
        return
    with open_store(target, "r+", options) as store:
        store.delete_prefix("")
    # Object stores have no directories.
    with suppress(OSError):
        os.rmdir(target)

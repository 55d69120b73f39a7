"""Bound what a file may ask of a program: nesting, memory, time, other files; settings in the environment.

===========================  ========  ==================================================================
Setting                      Default   Bounds
===========================  ========  ==================================================================
``NCZARR_MAX_DEPTH``         100       groups inside each other, and types inside each other
``NCZARR_MAX_VALUE_BYTES``   67108864  bytes of one value (of an opaque or compound type) that CDL declares
``NCZARR_ISOLATED_SECONDS``  60        seconds for one request to a child process that reads a file
``NCZARR_ANSWER_SECONDS``    30        seconds that a server may take to answer
``NCZARR_DASK_SECONDS``      300       seconds for which ``--dask`` waits for a worker while there is none
``NCZARR_ISOLATED``          unset     1: netCDF files are read in a child process
``NCZARR_EXTERNAL_FILES``    unset     1: follow an HDF5 file's references to other files
===========================  ========  ==================================================================
"""

from __future__ import annotations

import json
import os
from typing import Any, Literal

from nczarr.errors import NCZarrError

_Limit = Literal[
    "NCZARR_MAX_DEPTH",
    "NCZARR_MAX_VALUE_BYTES",
    "NCZARR_ISOLATED_SECONDS",
    "NCZARR_ANSWER_SECONDS",
    "NCZARR_DASK_SECONDS",
]
_DEFAULTS: dict[_Limit, int] = {
    "NCZARR_MAX_DEPTH": 100,
    "NCZARR_MAX_VALUE_BYTES": 64 << 20,
    "NCZARR_ISOLATED_SECONDS": 60,
    "NCZARR_ANSWER_SECONDS": 30,
    "NCZARR_DASK_SECONDS": 300,
}


def limit(name: _Limit) -> int:
    """Return a limit: what the environment says, or the default.

    Raises
    ------
    NCZarrError
        If the environment says something that is no positive integer.

    Examples
    --------
    >>> limit("NCZARR_MAX_DEPTH")
    100
    """
    text = os.environ.get(name, "").strip()
    if not text:
        return _DEFAULTS[name]
    if not text.isdecimal() or not int(text):
        raise NCZarrError(f"the setting {name} is a positive integer, not {text!r}")
    return int(text)


def may_follow_external_files() -> bool:
    """True if an HDF5 file may name other files whose content becomes its own (``NCZARR_EXTERNAL_FILES=1``).

    Examples
    --------
    >>> may_follow_external_files()
    False
    """
    return os.environ.get("NCZARR_EXTERNAL_FILES", "").strip() == "1"


def reads_isolated() -> bool:
    """True if netCDF files are to be read in a child process (``NCZARR_ISOLATED=1``, ``--isolated``).

    Examples
    --------
    >>> reads_isolated()
    False
    """
    return os.environ.get("NCZARR_ISOLATED", "").strip() == "1"


def read_json(text: str | bytes, **options: Any) -> Any:
    """Return what ``json.loads`` returns; a ValueError also for brackets nested deeper than the interpreter follows.

    Every text from a file that is no metadata document is read with this (documents: :mod:`nczarr.zarr.documents`).

    Examples
    --------
    >>> read_json("[1, 2]")
    [1, 2]
    >>> read_json("[" * 100_000)
    Traceback (most recent call last):
    ValueError: JSON nested too deeply
    """
    try:
        return json.loads(text, **options)
    except RecursionError:
        raise ValueError("JSON nested too deeply") from None

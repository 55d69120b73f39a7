"""Read the limits for untrusted files from environment variables: nesting, memory, time, external files.

===========================  ========  ==================================================================
Variable                     Default   Meaning
===========================  ========  ==================================================================
``NCZARR_MAX_DEPTH``         100       maximum nesting depth of groups, and of types
``NCZARR_MAX_VALUE_BYTES``   67108864  maximum size in bytes of an opaque or compound value in CDL
``NCZARR_ISOLATED_SECONDS``  60        timeout in seconds of a request to a child process that reads a file
``NCZARR_ANSWER_SECONDS``    30        timeout in seconds of a request to a server
``NCZARR_DASK_SECONDS``      300       timeout in seconds of ``--dask`` while the cluster has no worker
``NCZARR_ISOLATED``          unset     1: read netCDF files in a child process
``NCZARR_EXTERNAL_FILES``    unset     1: follow the references of HDF5 files to other files
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
    """Return a limit: the value of the environment variable, or the default.

    Raises
    ------
    NCZarrError
        If the value of the environment variable is not a positive integer.

    Examples
    --------
    >>> limit("NCZARR_MAX_DEPTH")
    100
    """
    text = os.environ.get(name, "").strip()
    if not text:
        return _DEFAULTS[name]
    if not text.isdecimal() or not int(text):
        raise NCZarrError(f"the environment variable {name} must be a positive integer, not {text!r}")
    return int(text)


def may_follow_external_files() -> bool:
    """Return True if references of HDF5 files to other files may be followed (``NCZARR_EXTERNAL_FILES=1``).

    Examples
    --------
    >>> may_follow_external_files()
    False
    """
    return os.environ.get("NCZARR_EXTERNAL_FILES", "").strip() == "1"


def reads_isolated() -> bool:
    """Return True if netCDF files must be read in a child process (``NCZARR_ISOLATED=1``, ``--isolated``).

    Examples
    --------
    >>> reads_isolated()
    False
    """
    return os.environ.get("NCZARR_ISOLATED", "").strip() == "1"


def read_json(text: str | bytes, **options: Any) -> Any:
    """Parse JSON like ``json.loads``, but raise ValueError instead of RecursionError for deeply nested JSON.

    Use this for all JSON from files except metadata documents, which :mod:`nczarr.zarr.documents` parses.

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

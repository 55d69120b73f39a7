"""Read the settings of nczarr from environment variables, all of which one table names.

Programs may also change the limits of the Zarr engine in ``nczarr.zarr.LIMITS``.
"""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from nczarr.errors import NCZarrError
from nczarr.system.warning import warn


class Setting(NamedTuple):
    """A setting that is a number, one of some words, or on for the value 1.

    Attributes
    ----------
    default : int
        0 for a switch, and for a number that the machine determines.
    meaning : str
    is_switch : bool
    is_strict : bool
        True if an invalid number raises an error; otherwise nczarr warns and takes the default.
    choices : tuple of str
        The values of a setting that is a word; the first is the default.
    most : int or None
        The largest legal number.
    """

    default: int
    meaning: str
    is_switch: bool = False
    is_strict: bool = False
    choices: tuple[str, ...] = ()
    most: int | None = None


#: All settings but ``NCZARR_PAGER``, which is a command.
SETTINGS = {
    "NCZARR_ANSWER_SECONDS": Setting(30, "timeout in seconds of a request to a server", is_strict=True),
    "NCZARR_CACHE": Setting(64 << 20, "size in bytes of the cache of an open dataset"),
    "NCZARR_DASK_SECONDS": Setting(
        300, "timeout in seconds of --dask while the cluster has no worker", is_strict=True
    ),
    "NCZARR_EXTERNAL_FILES": Setting(0, "follow the references of HDF5 files to other files", is_switch=True),
    "NCZARR_ISOLATED": Setting(0, "read netCDF files in a child process", is_switch=True),
    "NCZARR_ISOLATED_SECONDS": Setting(
        60, "timeout in seconds of a request to a child process that reads a file", is_strict=True
    ),
    "NCZARR_LOG": Setting(0, "level of the log that a command prints", choices=("off", "info", "debug")),
    "NCZARR_MAX_CACHE_BYTES": Setting(64 << 20, "size of the cached decoded chunks of all arrays"),
    "NCZARR_MAX_DEPTH": Setting(
        100, "nesting depth of groups, and of types; at most 200", is_strict=True, most=200
    ),
    "NCZARR_MAX_DOCUMENT_BYTES": Setting(1 << 30, "size of a metadata document"),
    "NCZARR_MAX_DOCUMENT_DEPTH": Setting(200, "nesting depth of objects and lists in a document"),
    "NCZARR_MAX_GRID_LENGTHS": Setting(1_000_000, "number of chunk lengths in a rectilinear grid"),
    "NCZARR_MAX_INLINE_BYTES": Setting(
        64 << 20,
        "size in bytes of a variable that copy --virtual stores beside the references",
        is_strict=True,
    ),
    "NCZARR_MAX_MODEL_DEPTH": Setting(90, "nesting depth of groups in a Zarr object model"),
    "NCZARR_MAX_PLAN_CHUNKS": Setting(1 << 17, "number of chunks in one step of reading or writing"),
    "NCZARR_MAX_VALUE_BYTES": Setting(
        64 << 20, "size in bytes of an opaque or compound value in CDL", is_strict=True
    ),
    "NCZARR_MAX_VARIABLE_CHUNK_BYTES": Setting(
        512 << 20, "decoded size of a chunk of variable-length values"
    ),
    "NCZARR_REQUESTS": Setting(
        64, "number of requests to a server at the same time, for one call", is_strict=True, most=1024
    ),
    "NCZARR_SELF_CHECK": Setting(
        0, "compare the lengths in all documents with the model after each change, for tests", is_switch=True
    ),
    "NCZARR_STORAGE": Setting(
        0,
        "storage of new datasets of the netCDF4-compatible interface: by the name, or always the same",
        choices=("auto", "netcdf", "zarr"),
    ),
    "NCZARR_TASK_SECONDS": Setting(
        3600, "timeout in seconds of --executor and --dask while no task ends", is_strict=True
    ),
    "NCZARR_THREADS": Setting(0, "number of threads for one call; by default 1.5 for each processor"),
}


def limit(name: str) -> int:
    """Return a number: the value of the environment variable, or the default.

    Raises
    ------
    NCZarrError
        If the setting is strict, and the value of the environment variable is not a positive integer.

    Examples
    --------
    >>> limit("NCZARR_MAX_DEPTH")
    100
    """
    setting = SETTINGS[name]
    text = os.environ.get(name, "").strip()
    if text.isdecimal() and (int(text) or not setting.is_strict):
        if setting.most is not None and int(text) > setting.most:
            raise NCZarrError(f"the environment variable {name} must be at most {setting.most}, not {text}")
        return int(text)
    if text and setting.is_strict:
        raise NCZarrError(f"the environment variable {name} must be a positive integer, not {text!r}")
    if text:
        warn(f"{name} is {text!r}, not a number; nczarr ignores it")
    return setting.default


def is_on(name: str) -> bool:
    """Return True if a switch is on: the value of the environment variable is 1.

    Examples
    --------
    >>> is_on("NCZARR_EXTERNAL_FILES")
    False
    """
    assert SETTINGS[name].is_switch
    return os.environ.get(name, "").strip() == "1"


def choice(name: str) -> str:
    """Return a word: the value of the environment variable, or the default.

    Raises
    ------
    NCZarrError
        If the value of the environment variable is none of the choices.

    Examples
    --------
    >>> choice("NCZARR_STORAGE")
    'auto'
    """
    choices = SETTINGS[name].choices
    text = os.environ.get(name, "").strip() or choices[0]
    if text not in choices:
        raise NCZarrError(
            f"the environment variable {name} must be one of {', '.join(choices)}, not {text!r}"
        )
    return text


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

"""Bound what a file may ask of a program: nesting and memory, with settings in the environment.

==========================  ========  ==================================================================
Setting                     Default   Bounds
==========================  ========  ==================================================================
``NCZARR_MAX_DEPTH``        100       groups inside each other, and types inside each other
``NCZARR_MAX_VALUE_BYTES``  67108864  bytes of one value (of an opaque or compound type) that CDL declares
==========================  ========  ==================================================================
"""

from __future__ import annotations

import os
from typing import Literal

from nczarr.errors import NCZarrError

_DEFAULTS = {"NCZARR_MAX_DEPTH": 100, "NCZARR_MAX_VALUE_BYTES": 64 << 20}


def limit(name: Literal["NCZARR_MAX_DEPTH", "NCZARR_MAX_VALUE_BYTES"]) -> int:
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

"""Check names of new nodes, in the form in which netCDF keeps them."""

from __future__ import annotations

import re
from typing import Any

from nczarr.model import check_name, normalize_name
from nczarr.netcdf4.edit.errors import EditError, NodeAttributeError

_LONGEST_NAME = 256
#: What no name of an attribute may have: the slash, and control characters.
_ILLEGAL = re.compile(r"[/\x00-\x1f\x7f]")


def checked_name(name: Any, what: str) -> str:
    """Return the name of a dimension, variable, group or type, or raise :class:`EditError`.

    Examples
    --------
    >>> checked_name("lat", "dimension")
    'lat'
    """
    text = normalize_name(name.decode() if isinstance(name, bytes) else str(name))
    wrong = check_name(text)
    if wrong is None and text.startswith("."):
        wrong = f"the name {text!r} starts with a period"
    if wrong is None and len(text.encode("utf-8", "surrogateescape")) > _LONGEST_NAME:
        wrong = f"the name {text[:20]!r}… has more than {_LONGEST_NAME} bytes"
    if wrong is not None:
        raise EditError(f"NetCDF: Name contains illegal characters: {what}: {wrong}")
    return text


def checked_attribute_name(name: str | bytes) -> str:
    """Return the name of an attribute, or raise :class:`NodeAttributeError`."""
    text = normalize_name(name if isinstance(name, str) else str(name, "utf-8"))
    if not text or _ILLEGAL.search(text):
        raise NodeAttributeError(f"{text!r} cannot be the name of an attribute")
    return text

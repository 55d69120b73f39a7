r"""Write names and paths with the escapes of CDL.

CDL escapes more than an FQN does: a leading digit, and every ASCII character with a meaning in CDL.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from nczarr.model import parse_fqn

_SPECIAL = re.compile(r"""[ !"#$%&'()*,:;<=>?\[\\\]^`{|}~]""")
_DIGITS = "0123456789"
#: No netCDF name begins with the last four, so ncdump does not escape them.
_NOT_FIRST = _DIGITS + ".+-@"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def escape_name(name: str, *, percent: bool = True) -> str:
    r"""Write a name as a CDL identifier.

    With `percent`, ``%`` and a leading ``.``, ``+``, ``-`` or ``@`` are escaped too: CDL requires that; ncdump does
    not do it.

    Examples
    --------
    >>> print(escape_name("2 m (air)"))
    \2\ m\ \(air\)
    >>> print(escape_name("a%"), escape_name("a%", percent=False))
    a\% a%
    """
    text = _SPECIAL.sub(r"\\\g<0>", name)
    if not percent:
        text = text.replace("\\%", "%")
    if _CONTROL.search(text):
        text = _CONTROL.sub(lambda c: f"\\%{ord(c[0]):02x}", text)
    return "\\" + text if text.startswith(tuple(_NOT_FIRST if percent else _DIGITS)) else text


def escape_path(components: Sequence[str], *, percent: bool = True) -> str:
    """Write simple names as an absolute path.

    Examples
    --------
    >>> print(escape_path(["g", "a b"]))
    /g/a\\ b
    """
    return "".join("/" + escape_name(name, percent=percent) for name in components)


def plain_path(fqn: str) -> str:
    """Return an FQN in the form of the netCDF tools: components without escapes.

    Examples
    --------
    >>> plain_path(r"/g\\ 1/x")
    '/g 1/x'
    """
    return "/" + "/".join(parse_fqn(fqn))

"""Format untrusted text for display (bounded, without active characters and secrets), and suggest similar names.

Names and attributes may come from untrusted files. Characters that a terminal or a browser would obey (escape
sequences, direction marks, halves of surrogate pairs) are spelled as Python escapes. Passwords, tokens and signatures
in paths and URLs are hidden.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

#: Longest text that is not cut.
LONGEST_TEXT = 1000
#: Longest name that is not cut; the limit of netCDF is 256 bytes.
LONGEST_NAME = 256
#: Longest vector that is not cut to its ends.
MOST_VALUES = 24
_ENDS = 6
_NESTED = 400

_LAYOUT = "\n\t"
# Joiners are allowed: Persian and many emoji need them.
_JOINERS = "\u200c\u200d"
_ACTING = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp", "Cn"}

HIDDEN = "***"

_URL = r"([A-Za-z][A-Za-z0-9+.-]*)://([^\s\"'<>]+)"
#: Schemes in which the text before ``@``, if it has no colon, is a name of a user or a container, not a token.
_NAMED = frozenset({"abfs", "abfss", "ftp", "hdfs", "scp", "sftp", "smb", "ssh", "wasb", "wasbs"})
_SECRET = r"(?:token|signature|secret|passw|pwd|credential|api_?-?key|access_?-?key|\bsig\b|\bkey\b)"
_SETTING = rf"(?i)([?&#,;][^=&#?\s\"']*{_SECRET}[^=&#?\s\"']*=)[^&#\s\"'<>),;]+"


def visible(text: str, *, layout: bool = False) -> str:
    """Replace active and invisible characters by their escapes.

    Parameters
    ----------
    text : str
    layout : bool, default False
        Keep line ends and tabs.

    Examples
    --------
    >>> print(visible("\\x1b[31mred"), visible("\\u202egnp.exe"), visible("a\\nb"))
    \\x1b[31mred \\u202egnp.exe a\\nb
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_spelled(c, layout) for c in text)


def _spelled(character: str, layout: bool) -> str:
    if character in _JOINERS or (layout and character in _LAYOUT):
        return character
    if unicodedata.category(character) not in _ACTING:
        return character
    return character.encode("unicode_escape").decode("ascii")


def shorten(text: str, longest: int) -> tuple[str, str]:
    """Cut a long text; return the kept part and a note on the omitted part (empty if nothing is cut).

    Examples
    --------
    >>> shorten("abcdef", 3)
    ('abc', '… 3 more characters')
    """
    if len(text) <= longest:
        return text, ""
    return text[:longest], f"… {len(text) - longest:,} more characters"


def safe_html(text: object, *, longest: int = LONGEST_TEXT, layout: bool = False) -> str:
    """Return text as HTML without markup or active characters.

    Examples
    --------
    >>> safe_html("<script>alert(1)</script>")
    '&lt;script&gt;alert(1)&lt;/script&gt;'
    """
    shown, rest = shorten(str(text), longest)
    from html import escape

    result = escape(visible(shown, layout=layout))
    return f'{result}<span class="nz-more">{rest}</span>' if rest else result


def format_bytes(count: int) -> str:
    """Return a number of bytes with a unit.

    Examples
    --------
    >>> format_bytes(1536), format_bytes(12)
    ('1.5 KiB', '12 B')
    """
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if size < 1024 or unit == "PiB":
            break
        size /= 1024
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"


def shown_location(text: str) -> str:
    """Return a path, a URL, or a message with URLs in it, without passwords, tokens and signatures.

    The password of a URL and the values of its query are hidden: any value may be a key, and the names identify a
    request. Every location in a message, a report or a document is the result of this function.

    Examples
    --------
    >>> shown_location("https://data.example/run42.zarr?X-Amz-Signature=5f3c&X-Amz-Expires=60")
    'https://data.example/run42.zarr?X-Amz-Signature=***&X-Amz-Expires=***'
    >>> shown_location("simplecache::http://user:hunter2@data.example:8080/a.nc")
    'simplecache::http://user:***@data.example:8080/a.nc'
    >>> shown_location("s3://AKIA1:a/b+c@bucket/run42.zarr"), shown_location("data/a=b?c.zarr")
    ('s3://AKIA1:***@bucket/run42.zarr', 'data/a=b?c.zarr')
    """
    if "://" in text:
        text = re.sub(_URL, _shown_url, text)
    return re.sub(_SETTING, rf"\1{HIDDEN}", text) if "=" in text else text


def _shown_url(found: re.Match[str]) -> str:
    scheme, rest = found[1], found[2]
    rest, hash_, fragment = rest.partition("#")
    rest, mark, query = rest.partition("?")
    authority, slash, path = rest.partition("/")
    # A key may contain slashes. A port has digits only.
    if "@" not in authority and "@" in path and re.search(r":(?!\d*\Z)", authority):
        authority, _, path = rest.rpartition("@")
        bucket, slash, path = path.partition("/")
        authority = f"{authority}@{bucket}"
    user, at, host = authority.rpartition("@")
    if at:
        name, colon, _ = user.partition(":")
        kept = name + colon + HIDDEN if colon else name if scheme.lower() in _NAMED else HIDDEN
        authority = f"{kept}@{host}"
    if mark:
        query = "&".join(_shown_setting(item) for item in query.split("&"))
    return f"{scheme}://{authority}{slash}{path}{mark}{query}{hash_}{fragment}"


def _shown_setting(item: str) -> str:
    name, equals, value = item.partition("=")
    return f"{name}={HIDDEN}" if equals and value else item if equals or not item else HIDDEN


def nearest_name(text: str, names: Iterable[str]) -> str | None:
    """Return the name that is most similar to a missing one, or None.

    Two letters that have changed places are the commonest mistake, and letters in the wrong case the next. difflib
    compares sequences in common, so that it takes 'time' for 'tmep'.

    Examples
    --------
    >>> nearest_name("tmep", ["time", "temp"]), nearest_name("tmp", ["time", "temp"]), nearest_name("x", ["y"])
    ('temp', 'temp', None)
    """
    from difflib import get_close_matches

    names = list(dict.fromkeys(names))
    exchanged = {
        text[:i] + text[i + 1 : i + 2] + text[i : i + 1] + text[i + 2 :] for i in range(len(text) - 1)
    }
    near = [name for name in names if name in exchanged]
    near = near or [name for name in names if name.casefold() == text.casefold()]
    return next(iter(near or get_close_matches(text, names, 1)), None)


def did_you_mean(name: object, names: Iterable[str]) -> str | None:
    """Return a hint with the name that is most similar to a missing one, or None; see :func:`nearest_name`.

    Examples
    --------
    >>> did_you_mean("tmp", ["temp", "salinity"])
    "did you mean 'temp'?"
    """
    near = nearest_name(str(name), names)
    if near is None:
        return None
    # A name with a backslash is shown as it is typed, not as Python writes it.
    shown = f"'{near}'" if near.isprintable() and "'" not in near else repr(near)
    return f"did you mean {shown}?"


def missing_package(packages: str, extra: str) -> str:
    """Return the hint of an error for missing packages: how to install them, or the extra that brings them.

    Examples
    --------
    >>> missing_package("h5py", "netcdf")
    "pip install h5py, or install nczarr with its extra 'netcdf'"
    """
    return f"pip install {packages}, or install nczarr with its extra {extra!r}"


def format_value(value: object) -> str:
    """Return a value as text; only numbers and arrays are bounded in length.

    Examples
    --------
    >>> import numpy as np
    >>> format_value(np.float32(0.1)), format_value(np.arange(100)), format_value("K")
    ('0.1', '0, 1, 2, 3, 4, 5, … 88 more …, 94, 95, 96, 97, 98, 99', 'K')
    """
    if isinstance(value, str):
        return value
    import numpy as np  # the errors import this module, and `import nczarr` shall stay fast

    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, np.ndarray):
        return _several(value.reshape(-1)) if value.ndim else format_value(value[()])
    if isinstance(value, list | tuple):
        return _several(value)
    if isinstance(value, np.void) and value.dtype.names is None:
        return "0x" + value.tobytes()[:_NESTED].hex()
    if isinstance(value, np.generic):
        return str(value)
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return repr(value)


def _several(values: Sequence[object] | np.ndarray) -> str:
    if len(values) == 0:
        return "(empty)"
    if len(values) <= MOST_VALUES:
        return ", ".join(map(_item, values))
    more = f"… {len(values) - 2 * _ENDS:,} more …"
    return ", ".join([*map(_item, values[:_ENDS]), more, *map(_item, values[-_ENDS:])])


def _item(value: object) -> str:
    import numpy as np

    if isinstance(value, list | tuple | np.ndarray):
        return f"[{format_value(value)[:_NESTED]}]"
    if isinstance(value, str):
        return json.dumps(value[:_NESTED], ensure_ascii=False)
    return format_value(value)

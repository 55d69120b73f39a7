r"""Split and join the paths of netCDF4-python and xarray, in which ``/`` separates names and ``\/`` is part of one.

These programs have no names with ``/``, and escape nothing. So ``g/v`` is a node of the group ``g``, and ``g\/v`` a
node of the name ``g/v``. A backslash stands for itself, but before ``/``: there, ``\\`` is a backslash.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence

from nczarr.lazy import pattern

#: The backslashes before a slash, and the slash; or other text.
_PART = pattern(r"(\\*)/|\\+(?!/)|[^/\\]+")
_SLASH = pattern(r"(\\*)/")


def split_path(path: str) -> list[str]:
    r"""Return the names in a path; parts that are empty, or ``.``, are skipped.

    Examples
    --------
    >>> split_path("/g/./v"), split_path(r"g/a\/b"), split_path("g/a\\b"), split_path("/")
    (['g', 'v'], ['g', 'a/b'], ['g', 'a\\b'], [])
    """
    if "\\/" not in path:
        return [part for part in path.split("/") if part not in ("", ".")]
    parts = [""]
    for found in _PART.finditer(path):
        slashes = found[1]
        if slashes is None:
            parts[-1] += found[0]
            continue
        parts[-1] += slashes[: len(slashes) // 2]
        if len(slashes) % 2:
            parts[-1] += "/"
        else:
            parts.append("")
    return [part for part in parts if part not in ("", ".")]


def join_path(names: Sequence[str]) -> str:
    r"""Return the path of names from the root.

    Examples
    --------
    >>> print(join_path(["g", "a/b"]), join_path([]))
    /g/a\/b /
    """
    inner = [re.sub(r"\\+\Z", r"\g<0>\g<0>", name) if name.endswith("\\") else name for name in names[:-1]]
    return "/" + "/".join(map(spell, [*inner, *names[-1:]]))


def spell(name: str) -> str:
    r"""Return a name as a part of a path.

    Examples
    --------
    >>> print(spell("a/b"), spell("a\\b"))
    a\/b a\b
    """
    return _SLASH.sub(r"\1\1\\/", name) if "/" in name else name


def is_spelled(text: str) -> bool:
    r"""Return True if each ``/`` of a text is part of a name.

    Examples
    --------
    >>> is_spelled(r"a\/b"), is_spelled("a/b"), is_spelled("a")
    (True, False, True)
    """
    return "/" not in text or all(len(slash[1]) % 2 for slash in _SLASH.finditer(text))


def unspell(text: str, known: Container[str] = ()) -> str:
    r"""Return the name that a part of a path spells; a known name stands for itself.

    Examples
    --------
    >>> unspell(r"a\/b"), unspell("a/b", {"a/b"}), unspell("x")
    ('a/b', 'a/b', 'x')
    """
    if "/" not in text or text in known:
        return text
    return _SLASH.sub(lambda slash: "\\" * (len(slash[1]) // 2) + "/", text)

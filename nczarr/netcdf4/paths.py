r"""Read the names and paths that programs for netCDF4-python give; see :mod:`nczarr.model.paths`."""

from __future__ import annotations

import posixpath

from nczarr.errors import EditError
from nczarr.model.paths import is_spelled, split_path, unspell
from nczarr.session import kept_name


def split_object_path(path: str) -> tuple[list[str], str]:
    r"""Return the names of the groups of a path, and the name of its object.

    Parts ``.`` and ``..`` are resolved as :func:`posixpath.normpath` does.

    Examples
    --------
    >>> split_object_path("/g/h/../v"), split_object_path(r"g/a\/b")
    ((['g'], 'v'), (['g'], 'a/b'))
    """
    if not isinstance(path, str) or "\\/" not in path:
        directory, last = posixpath.split(posixpath.normpath(path))
        return [name for name in directory.split("/") if name], last
    names: list[str] = []
    for name in split_path(path):
        if name != ".." or (names[-1:] or [".."]) == [".."]:
            names.append(name)
        else:
            names.pop()
    return names[:-1], names[-1] if names else ""


def name_of(text: object, what: str) -> str:
    r"""Return the name that a program spells, with ``/`` for ``\/``.

    Raises
    ------
    EditError
        If a ``/`` has no backslash: this is no path.

    Examples
    --------
    >>> name_of(r"a\/b", "dimension"), name_of("a\\b", "dimension")
    ('a/b', 'a\\b')
    """
    name = kept_name(text)
    if not is_spelled(name):
        raise EditError(
            f"NetCDF: Name contains illegal characters: {what}: the name {name!r} contains '/'",
            hint=r"write '\/' for a slash that is part of the name",
        )
    return unspell(name)

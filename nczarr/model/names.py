r"""Check names, and parse and format fully qualified names (FQNs).

Implements the section *Fully Qualified Names* of the netCDF Zarr data model. An FQN is ``/``, or a sequence of
components, each preceded by ``/``. Inside a component ``/``, ``\`` and blank are escaped as ``\/``, ``\\`` and
``\ ``. The patterns are the terminals of ``grammar/names.lark``.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Container, Sequence
from itertools import accumulate

from nczarr.errors import ModelError
from nczarr.grammar import expression
from nczarr.lazy import pattern

ROOT = "/"

_SPECIAL = pattern(lambda: f"({expression('names.lark', 'SPECIAL')})")
_COMPONENT = pattern(lambda: f"/({expression('names.lark', 'COMPONENT')})")
_ESCAPED = pattern(r"\\(.)")
_CONTROL = pattern(lambda: expression("names.lark", "CONTROL"))
#: ASCII characters that a new name may not begin with: all but letters, digits and underscore.
_WRONG_START = pattern(r"[\x00-/:-@\[-^`{-\x7f]")
#: Maximum length of a new name in bytes: netCDF-C's NC_MAX_NAME.
_MOST_BYTES = 256


def normalize_name(name: str) -> str:
    """Return `name` in Unicode normalization form NFC, which netCDF uses for names.

    Examples
    --------
    >>> normalize_name("e\\u0301") == "\\u00e9"
    True
    """
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def check_name(name: str) -> str | None:
    """Return the reason why a simple name is not legal; None if it is.

    A name may contain ``/``: FQNs and CDL escape it. :func:`check_file_name` tells what netCDF files refuse beside.

    Examples
    --------
    >>> check_name("sea surface/temp")
    >>> check_name("sst ")
    "the name 'sst ' ends with a blank"
    """
    # netCDF-C refuses a blank at the end.
    if name[-1:] == " ":
        return f"the name {name!r} ends with a blank"
    return check_text(name)


def check_text(name: str) -> str | None:
    """Return the reason why no attribute, field or enum member can have this name; None if one can.

    They are no nodes: those of other programs may end with a blank.

    Examples
    --------
    >>> check_text("sea surface/temp")
    >>> check_text("")
    'the name is empty'
    """
    if not name:
        return "the name is empty"
    if _CONTROL.search(name):
        return f"the name {name!r} contains a control character"
    # UTF-8, in which all formats store names, cannot encode half a pair.
    if not is_unicode(name):
        return f"the name {name!r} contains an unpaired surrogate"
    return None


def check_new_name(name: str) -> str | None:
    """Return the reason why netCDF refuses to create an object of this name; None if it does not.

    Existing objects may have names that are refused here. So may new nodes that NCZarr stores: their names may contain
    ``/``, see :func:`check_file_name`.

    Examples
    --------
    >>> check_new_name(" lat")
    "the name ' lat' begins with ' '"
    >>> check_new_name("lat")
    """
    wrong = check_name(name)
    # A name may begin with "/" where names have slashes; check_file_name refuses it for files.
    if wrong is None and name[0] != "/" and _WRONG_START.match(name):
        wrong = f"the name {name!r} begins with {name[0]!r}"
    return wrong or check_length(name)


def check_length(name: str) -> str | None:
    """Return a message if a name is too long for a new node; None if it is not.

    Examples
    --------
    >>> check_length("a" * 300)
    "the name 'aaaaaaaaaaaaaaaaaaaa'… has 300 bytes; the maximum is 256"
    """
    size = len(name.encode("utf-8", "surrogateescape"))
    if size > _MOST_BYTES:
        return f"the name {name[:20]!r}… has {size} bytes; the maximum is {_MOST_BYTES}"
    return None


def check_file_name(name: str) -> str | None:
    """Return the reason why no node of a netCDF file can have this legal name; None if one can.

    HDF5 and the netCDF library take ``/`` for the separator of groups. Names of attributes, fields and members may
    contain it.

    Examples
    --------
    >>> check_file_name("sea surface/temp")
    "the name 'sea surface/temp' contains '/', which separates groups there"
    >>> check_file_name("sst")
    """
    if "/" in name:
        return f"the name {name!r} contains '/', which separates groups there"
    return check_length(name)


def is_unicode(text: str) -> bool:
    """Return False if `text` has an unpaired surrogate, other than the surrogate escapes of bytes that are not UTF-8.

    Examples
    --------
    >>> is_unicode("\\udcff"), is_unicode("\\ud800")
    (True, False)
    """
    if text.isascii():
        return True
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def format_fqn(components: Sequence[str]) -> str:
    r"""Write a sequence of simple names as an FQN.

    Examples
    --------
    >>> print(format_fqn(["g", "a b/c"]))
    /g/a\ b\/c
    >>> format_fqn([])
    '/'
    """
    if not components:
        return ROOT
    return "".join(["/" + _SPECIAL.sub(r"\\\1", name) for name in components])


def join_fqn(group: str, name: str) -> str:
    """Return the FQN of the node `name` in the group whose FQN is `group`.

    Examples
    --------
    >>> join_fqn("/", "x"), join_fqn("/g", "x")
    ('/x', '/g/x')
    """
    # Skip escaping for plain names: a dataset may have thousands of them.
    tail = "/" + (name if name.isidentifier() else _SPECIAL.sub(r"\\\1", name))
    return tail if group == ROOT else group + tail


def parse_fqn(text: str) -> tuple[str, ...]:
    r"""Parse an FQN into its simple names, without escapes.

    Raises
    ------
    ModelError
        If `text` is not an FQN.

    Examples
    --------
    >>> parse_fqn(r"/g/a\ b\/c")
    ('g', 'a b/c')
    >>> parse_fqn("/")
    ()
    """
    if text == ROOT:
        return ()
    if not is_unicode(text):
        raise ModelError(f"the name {text!r} contains an unpaired surrogate")
    names: list[str] = []
    position = 0
    while position < len(text):
        match = _COMPONENT.match(text, position)
        if match is None:
            raise ModelError(
                f"{text!r} is not a fully qualified name: syntax error in column {position + 1}",
                hint=r"write /group/name, and '/', '\' and blank inside a name as '\/', '\\' and '\ '",
            )
        part = match.group(1)
        names.append(_ESCAPED.sub(r"\1", part) if "\\" in part else part)
        position = match.end()
    if not names:
        raise ModelError("an empty string is not a fully qualified name", hint="the root group is '/'")
    return tuple(names)


def find_nearest(name: str, group: str, declared: Container[str]) -> str | None:
    """Return the FQN of `name` in a group, or in the nearest group around it, that is declared; None if none is.

    Examples
    --------
    >>> find_nearest("x", "/g/h", {"/x", "/g/x"})
    '/g/x'
    """
    for above in reversed(list(accumulate(parse_fqn(group), join_fqn, initial=ROOT))):
        fqn = join_fqn(above, name)
        if fqn in declared:
            return fqn
    return None


def is_inside(fqn: str, group: str) -> bool:
    r"""Return True if an FQN is in a group, at any depth, or is the group itself.

    Examples
    --------
    >>> is_inside("/g/h", "/g"), is_inside("/gh", "/g"), is_inside("/x", "/")
    (True, False, True)
    """
    return group == ROOT or fqn == group or fqn.startswith(f"{group}/")


def check_reach(group: str, dimension: str) -> str | None:
    """Return the reason why a variable in a group cannot have a dimension, by FQN; None if it can.

    A variable reaches the dimensions of its own group and of the groups around it: netCDF's scope of dimensions.
    netCDF-C does not check it: it fails at closing a file with a dimension of a group below, and netCDF4-python cannot
    read one with a dimension of a sibling. Types have no such rule.

    Examples
    --------
    >>> check_reach("/g/h", "/g/x")
    >>> check_reach("/", "/g/x")
    "the dimension '/g/x' is out of reach: a variable in '/' has dimensions of its own group and of those around it"
    """
    # The netCDF library can neither close nor read a file with a dimension out of reach.
    if is_inside(group, split_fqn(dimension)[0]):
        return None
    return (
        f"the dimension {dimension!r} is out of reach: a variable in {group!r} has dimensions of its own group and "
        "of those around it"
    )


def split_fqn(text: str) -> tuple[str, str]:
    """Split an FQN into the FQN of the group and the simple name.

    Examples
    --------
    >>> split_fqn("/g/x"), split_fqn("/x")
    (('/g', 'x'), ('/', 'x'))

    Raises
    ------
    ModelError
        If `text` is not an FQN, or is the FQN of the root group.
    """
    if text.startswith("/") and text[1:].isidentifier():  # most names, ten times as fast
        return ROOT, text[1:]
    names = parse_fqn(text)
    if not names:
        raise ModelError("the root group has no name")
    return format_fqn(names[:-1]), names[-1]

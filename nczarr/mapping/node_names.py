r"""Choose names of Zarr nodes for netCDF names.

Nearly every netCDF name is also the node name. A name that Zarr forbids, or that a store cannot keep, gets an escaped
node name, and the metadata of the node contain the netCDF name (``docs/spec/nczarr-v3.md``, *Node names*). An escaped
name is ``_nc-`` and the name with each unsafe byte as ``.XX``, two upper-case hexadecimal digits. Names that begin with
``_nc-`` are escaped too, so names never collide.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterable, Mapping

from nczarr.dataclass import dataclass
from nczarr.errors import MetadataError
from nczarr.grammar import expression
from nczarr.lazy import pattern

PREFIX = "_nc-"
#: Longest name of a file or directory, in bytes, on nearly every file system.
MAX_BYTES = 255
#: In the draft of 2019 the name of a document is the node name with a suffix, ``.array`` or ``.group``.
_DRAFT_BYTES = MAX_BYTES - 6

_OF_V2 = (".zarray", ".zgroup", ".zattrs", ".zmetadata")
_OF_NETCDF_C = (".nczarr", ".nczgroup", ".nczvar", ".nczattr")
_DOCUMENTS = frozenset({"zarr.json", *_OF_V2, *_OF_NETCDF_C})
#: Zarr v3 forbids "__" at the beginning and names of periods only; netCDF allows both.
_FORBIDDEN = pattern(lambda: rf"{expression('names.lark', 'CONTROL')}|[/\\]|\A__|\A_nc-|\A\.+\Z| \Z")
_WINDOWS = pattern(r'[<>:"|?*]|[. ]\Z|\A(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(?:\.|\Z)', re.IGNORECASE)
_ESCAPE = pattern(r"\.([0-9A-F]{2})")
_ESCAPED = pattern(r"(?:[A-Za-z0-9_-]|[^\x00-\x7f]|\.[0-9A-F]{2})*")

# Characters that are not escaped. The draft of 2019 allows ASCII letters, digits, "-", "_" and "." only; without any
# safe character, no two names differ only in case.
_SAFE = pattern(r"[A-Za-z0-9_-]|[^\x00-\x7f]")
_SAFE_ASCII = pattern(r"[A-Za-z0-9_-]")
_SAFE_NONE = pattern(r"(?!)")
_DRAFT = pattern(r"[A-Za-z0-9_.-]+")


def is_forbidden(name: str) -> bool:
    """Return whether a store of Zarr v3 cannot keep a name as the name of a node, so that it is escaped.

    Examples
    --------
    >>> [is_forbidden(name) for name in ("__x", ".zarray", "_nc-a", "temp")]
    [True, True, True, False]
    """
    return name in _DOCUMENTS or _FORBIDDEN.search(name) is not None


def _encode(name: str, safe: re.Pattern[str]) -> str:
    return PREFIX + "".join(
        c if safe.match(c) else "".join(f".{b:02X}" for b in c.encode("utf-8")) for c in name
    )


def _fit(node: str, name: str, limit: int = MAX_BYTES) -> str:
    raw = node.encode("utf-8")
    if len(raw) <= limit:
        return node
    # A name that is too long becomes its beginning, for users, and a digest of the whole.
    from hashlib import sha256

    digest = sha256(f"{node}\0{name}".encode()).hexdigest()
    stem = re.sub(r"\.[0-9A-F]?\Z", "", raw[: limit - 66 - 8].decode("utf-8", "ignore"))
    return f"{stem}..{digest}"


def escape_name(name: str, *, ascii_only: bool = False, windows: bool = False) -> str:
    r"""Return the node name for a netCDF name: the name itself if it is valid.

    Parameters
    ----------
    name : str
    ascii_only : bool
        Allow only ``A-Z a-z 0-9 - _ .``, and reserve space for a suffix, as the draft of 2019 requires.
    windows : bool
        Also escape names that are invalid for files on Windows (``CON``, ``a:b``, a trailing period).

    Raises
    ------
    MetadataError
        The name is empty, or not Unicode text.

    Examples
    --------
    >>> [escape_name(n) for n in ("temp", "sea surface", "__x", "zarr.json", "..", "a\\b")]
    ['temp', 'sea surface', '_nc-__x', '_nc-zarr.2Ejson', '_nc-.2E.2E', '_nc-a.5Cb']
    """
    if not name:
        raise MetadataError("an empty name cannot be the name of a Zarr node")
    try:
        size = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        raise MetadataError(f"the name {name!r} is not Unicode text, as Zarr requires") from None
    limit = _DRAFT_BYTES if ascii_only else MAX_BYTES
    if (
        is_forbidden(name)
        or (windows and _WINDOWS.search(name))
        or (ascii_only and not _DRAFT.fullmatch(name))
        or size > limit
    ):
        return _fit(_encode(name, _SAFE_ASCII if ascii_only else _SAFE), name, limit)
    return name


def spell_out(name: str) -> str:
    """Return the escaped form of any name, in ASCII letters, digits, ``-``, ``_`` and ``.``.

    Examples
    --------
    >>> spell_out("~x")
    '_nc-.7Ex'
    """
    return _fit(_encode(name, _SAFE_ASCII), name)


def unescape_name(node: str) -> str | None:
    """Return the netCDF name of a node name; None if only the metadata contain it.

    Examples
    --------
    >>> unescape_name("temp"), unescape_name("_nc-zarr.2Ejson"), unescape_name("_nc-a.")
    ('temp', 'zarr.json', None)
    """
    if not node.startswith(PREFIX):
        return node
    text = node[len(PREFIX) :]
    if not _ESCAPED.fullmatch(text):
        return None
    raw = b"".join(
        bytes.fromhex(part) if i % 2 else part.encode("utf-8") for i, part in enumerate(_ESCAPE.split(text))
    )
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return None


def free_name(name: str, *taken: Container[str]) -> str:
    """Return a name, with the first free number from 2 as a suffix if the name is taken.

    Examples
    --------
    >>> free_name("x", {"x"}, ["x_2"]), free_name("y", {"x"})
    ('x_3', 'y')
    """
    free, number = name, 2
    while any(free in names for names in taken):
        free, number = f"{name}_{number}", number + 1
    return free


@dataclass(frozen=True)
class NodeNames:
    """Chooses the node names of the children of one group.

    Parameters
    ----------
    ascii_only, windows : bool
        As for :func:`escape_name`.
    case_insensitive : bool
        True if ``T`` and ``t`` are the same name in the store.

    Examples
    --------
    >>> NodeNames(case_insensitive=True).assign([("array", "T"), ("array", "t"), ("group", "T")])
    {('array', 'T'): 'T', ('array', 't'): '_nc-.74', ('group', 'T'): '_nc-.54'}
    """

    ascii_only: bool = False
    windows: bool = False
    case_insensitive: bool = False

    def assign(
        self, children: Iterable[tuple[str, str]], known: Mapping[tuple[str, str], str] | None = None
    ) -> dict[tuple[str, str], str]:
        """Return the node name of each child, in order.

        Parameters
        ----------
        children : iterable of (kind, name)
            The kind is ``"array"`` or ``"group"``. A variable and a group may have the same name; Zarr nodes cannot.
        known : mapping, optional
            Node names that do not change.
        """
        children = list(children)
        known = known or {}
        taken = {self._key(known[child]) for child in children if child in known}
        names: dict[tuple[str, str], str] = {}
        limit = _DRAFT_BYTES if self.ascii_only else MAX_BYTES
        for child in children:
            if child in known:
                names[child] = known[child]
                continue
            name = child[1]
            node = escape_name(name, ascii_only=self.ascii_only, windows=self.windows)
            number = 1
            while self._key(node) in taken:
                spelled = name if number == 1 else f"{name}.{number}"
                node = _fit(_encode(spelled, _SAFE_NONE), name, limit)
                number += 1
            taken.add(self._key(node))
            names[child] = node
        return names

    def _key(self, node: str) -> str:
        # HFS+ lists names in another Unicode form, and finds them in any.
        return unicodedata.normalize("NFC", node).casefold() if self.case_insensitive else node

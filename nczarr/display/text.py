"""Format untrusted text for display: bounded, and without active characters.

Names and attributes may come from untrusted files. Characters that a terminal or a browser would obey (escape
sequences, direction marks, halves of surrogate pairs) are spelled as Python escapes.
"""

from __future__ import annotations

import unicodedata

#: Longest text that is not cut.
LONGEST_TEXT = 1000
#: Longest name that is not cut; the limit of netCDF is 256 bytes.
LONGEST_NAME = 256

_LAYOUT = "\n\t"
# Joiners are allowed: Persian and many emoji need them.
_JOINERS = "\u200c\u200d"
_ACTING = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp", "Cn"}


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

"""Make any text harmless: bounded in length, without characters that act on a page or a terminal.

Names and attributes of a dataset come from strangers. What a terminal or a browser would obey rather than show
(escape sequences, marks that turn the direction of writing, halves of surrogate pairs) is spelled as in Python.
"""

from __future__ import annotations

import unicodedata

#: Longest text that is shown whole.
LONGEST_TEXT = 1000
#: Longest name that is shown whole; netCDF's own limit is 256 bytes.
LONGEST_NAME = 256

_LAYOUT = "\n\t"
# Format characters that only join or part letters: Persian and many emoji need them.
_JOINERS = "\u200c\u200d"
_ACTING = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp", "Cn"}


def visible(text: str, *, layout: bool = False) -> str:
    """Spell out the characters that act instead of being seen.

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
    """Cut a text that is too long; return what is shown, and a note on what is not (empty: nothing was cut).

    Examples
    --------
    >>> shorten("abcdef", 3)
    ('abc', '… 3 more characters')
    """
    if len(text) <= longest:
        return text, ""
    return text[:longest], f"… {len(text) - longest:,} more characters"


def safe_html(text: object, *, longest: int = LONGEST_TEXT, layout: bool = False) -> str:
    """Return any text as HTML that shows it and does nothing else.

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
    """Return a number of bytes for people.

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

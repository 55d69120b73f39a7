"""Define Pygments lexers for the output of commands."""

from __future__ import annotations

from pygments.lexer import RegexLexer, bygroups
from pygments.token import Comment, Generic, Keyword, Literal, Name, Number, Punctuation, Text, Whitespace

from nczarr.cdl.highlighting import CDLLexer


def _lexer(name: str, **states: list[tuple[object, ...]]) -> type[RegexLexer]:
    """Return a lexer class: each state is a list of pattern, token and, if the state changes, next state."""
    return type(name, (RegexLexer,), {"name": name, "tokens": states})


_SIDES = (
    Name.Variable,
    Punctuation,
    Text,
    Punctuation,
    Generic.Deleted,
    Punctuation,
    Generic.Inserted,
    Whitespace,
)
#: Lexers by kind of text; Pygments has lexers for all other kinds.
LEXERS: dict[str, type[RegexLexer]] = {
    "cdl": CDLLexer,
    # Lines, types, names and sizes; groups end with "/".
    "tree": _lexer(
        "nczarr tree",
        root=[
            (r"^[│├└─ |`-]+(?=\S)", Comment),
            (r"\n", Whitespace),
            (r"[^\n]*(?:/|:)$", Name.Namespace),
            (r"([^\s(]+)( )([^\n(]+)", bygroups(Keyword.Type, Whitespace, Name.Variable)),
            (r"\(", Punctuation, "sizes"),
            (r"[^\s(]+|.", Text),  # match words: single characters would take quadratic time
        ],
        sizes=[
            (r"\)?\n", Punctuation, "#pop"),
            (r"(\d+)(\*)", bygroups(Number, Keyword.Constant)),
            (r"\d+(?=[,)])", Number),
            (r"[^\n\d*]+|.", Text),
        ],
    ),
    # Names of groups end with "/".
    "names": _lexer(
        "nczarr ls",
        root=[
            (r"[^\n]*(?:/|:)\n", Name.Namespace),
            (
                r"(\S+)(\s+)([\dx]+|-)(\s+)(/[^\n]*\n)",
                bygroups(Keyword.Type, Whitespace, Number, Whitespace, Name.Variable),
            ),
            (r"[^\n]+|\n", Name.Variable),
        ],
    ),
    # A list of properties, then a table whose rows begin with a name and a type.
    "table": _lexer(
        "nczarr info",
        root=[
            (r"^([a-z]+:)([^\n]*\n)", bygroups(Generic.Heading, Text)),
            (r"^variable  [^\n]*\n", Generic.Heading),
            (r"^(/\S*)(\s+)(\S+)([^\n]*\n)", bygroups(Name.Variable, Whitespace, Keyword.Type, Text)),
            (r"[^\n]+|\n", Text),
        ],
    ),
    # The FQN, the kind of the difference, and both sides.
    "differences": _lexer(
        "nczarr diff",
        root=[
            (r"^(/[^\n]*?)(: )([^\n:]*)(: )([^\n]*?)( \| )([^\n]*)(\n)", bygroups(*_SIDES)),
            (r"[^\n]+|\n", Text),
        ],
    ),
    # The FQN, the message and the code of each finding.
    "findings": _lexer(
        "nczarr check",
        root=[
            (r"^(/[^\s:]*)(:)", bygroups(Name.Variable, Punctuation)),
            (r"\[[a-z0-9-]+\]", Literal.Date),
            (r"[^\n\[]+|.|\n", Text),
        ],
    ),
}

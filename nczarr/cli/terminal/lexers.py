"""Define Pygments lexers for the output of commands."""

from __future__ import annotations

from pygments.lexer import RegexLexer, bygroups
from pygments.token import Comment, Generic, Keyword, Literal, Name, Number, Punctuation, Text, Whitespace

from nczarr.cdl.highlighting import CDLLexer


class _TreeLexer(RegexLexer):
    """Lexer of ``nczarr tree``: lines, types, names and sizes; groups end with ``/``."""

    name = "nczarr tree"
    tokens = {  # noqa: RUF012
        "root": [
            (r"^[│├└─ |`-]+(?=\S)", Comment),
            (r"\n", Whitespace),
            (r"[^\n]*(?:/|:)$", Name.Namespace),
            (r"([^\s(]+)( )([^\n(]+)", bygroups(Keyword.Type, Whitespace, Name.Variable)),
            (r"\(", Punctuation, "sizes"),
            (r"[^\s(]+|.", Text),  # match words: single characters would take quadratic time
        ],
        "sizes": [
            (r"\)?\n", Punctuation, "#pop"),
            (r"(\d+)(\*)", bygroups(Number, Keyword.Constant)),
            (r"\d+(?=[,)])", Number),
            (r"[^\n\d*]+|.", Text),
        ],
    }


class _NamesLexer(RegexLexer):
    """Lexer of ``nczarr ls``; groups end with ``/``."""

    name = "nczarr ls"
    tokens = {  # noqa: RUF012
        "root": [
            (r"[^\n]*(?:/|:)\n", Name.Namespace),
            (
                r"(\S+)(\s+)([\dx]+|-)(\s+)(/[^\n]*\n)",
                bygroups(Keyword.Type, Whitespace, Number, Whitespace, Name.Variable),
            ),
            (r"[^\n]+|\n", Name.Variable),
        ]
    }


class _TableLexer(RegexLexer):
    """Lexer of ``nczarr info``: a list of properties, then a table whose rows begin with a name and a type."""

    name = "nczarr info"
    tokens = {  # noqa: RUF012
        "root": [
            (r"^([a-z]+:)([^\n]*\n)", bygroups(Generic.Heading, Text)),
            (r"^variable  [^\n]*\n", Generic.Heading),
            (r"^(/\S*)(\s+)(\S+)([^\n]*\n)", bygroups(Name.Variable, Whitespace, Keyword.Type, Text)),
            (r"[^\n]+|\n", Text),
        ]
    }


class _DifferencesLexer(RegexLexer):
    """Lexer of ``nczarr diff``: the FQN, the kind of the difference, and both sides."""

    name = "nczarr diff"
    tokens = {  # noqa: RUF012
        "root": [
            (
                r"^(/[^\n]*?)(: )([^\n:]*)(: )([^\n]*?)( \| )([^\n]*)(\n)",
                bygroups(
                    Name.Variable,
                    Punctuation,
                    Text,
                    Punctuation,
                    Generic.Deleted,
                    Punctuation,
                    Generic.Inserted,
                    Whitespace,
                ),
            ),
            (r"[^\n]+|\n", Text),
        ]
    }


class _FindingsLexer(RegexLexer):
    """Lexer of ``nczarr check`` and ``repair``: the FQN, the message and the code of each finding."""

    name = "nczarr check"
    tokens = {  # noqa: RUF012
        "root": [
            (r"^(/[^\s:]*)(:)", bygroups(Name.Variable, Punctuation)),
            (r"\[[a-z0-9-]+\]", Literal.Date),
            (r"[^\n\[]+|.|\n", Text),
        ]
    }


#: Lexers by kind of text; Pygments has lexers for all other kinds.
LEXERS = {
    "cdl": CDLLexer,
    "tree": _TreeLexer,
    "names": _NamesLexer,
    "table": _TableLexer,
    "differences": _DifferencesLexer,
    "findings": _FindingsLexer,
}

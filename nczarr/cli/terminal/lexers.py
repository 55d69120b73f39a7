"""Split what commands print into tokens for Pygments."""

from __future__ import annotations

from pygments.lexer import RegexLexer, bygroups
from pygments.token import Comment, Generic, Keyword, Literal, Name, Number, Punctuation, Text, Whitespace

from nczarr.cdl.highlighting import CDLLexer


class _TreeLexer(RegexLexer):
    """``nczarr tree``: lines, types, names, sizes; groups end with a stroke."""

    name = "nczarr tree"
    tokens = {  # noqa: RUF012
        "root": [
            (r"^[│├└─ |`-]+(?=\S)", Comment),
            (r"\n", Whitespace),
            (r"[^\n]*(?:/|:)$", Name.Namespace),
            (r"([^\s(]+)( )([^\n(]+)", bygroups(Keyword.Type, Whitespace, Name.Variable)),
            (r"\(", Punctuation, "sizes"),
            (r"[^\s(]+|.", Text),  # not character by character: each would look at all that follow
        ],
        "sizes": [
            (r"\)?\n", Punctuation, "#pop"),
            (r"(\d+)(\*)", bygroups(Number, Keyword.Constant)),
            (r"\d+(?=[,)])", Number),
            (r"[^\n\d*]+|.", Text),
        ],
    }


class _NamesLexer(RegexLexer):
    """``nczarr ls``: groups end with a stroke."""

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
    """``nczarr info``: a list of properties, then a table whose rows begin with a name and a type."""

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
    """``nczarr diff``: the place, what differs, and the two sides."""

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
    """``nczarr check`` and ``repair``: the place, the sentence, the code."""

    name = "nczarr check"
    tokens = {  # noqa: RUF012
        "root": [
            (r"^(/[^\s:]*)(:)", bygroups(Name.Variable, Punctuation)),
            (r"\[[a-z0-9-]+\]", Literal.Date),
            (r"[^\n\[]+|.|\n", Text),
        ]
    }


#: By the kinds of text that commands print; others are Pygments' own.
LEXERS = {
    "cdl": CDLLexer,
    "tree": _TreeLexer,
    "names": _NamesLexer,
    "table": _TableLexer,
    "differences": _DifferencesLexer,
    "findings": _FindingsLexer,
}

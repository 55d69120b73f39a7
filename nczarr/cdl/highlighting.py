"""Split CDL into tokens for Pygments, which colours it on terminals, in Sphinx and in notebooks.

The words, strings and names are terminals of ``grammar/cdl.lark``; their order is only as exact as colours require.
"""

from __future__ import annotations

from pygments.lexer import RegexLexer, bygroups
from pygments.token import Comment, Keyword, Name, Number, Punctuation, String, Text, Whitespace

from nczarr.grammar import portable, terminals

_CDL = terminals("cdl.lark")


def _unicode(pattern: str) -> str:
    """Return a pattern of the grammar, which reads bytes, for text."""
    return pattern.replace(r"\x80-\xff", r"\x80-\U0010ffff").replace(r"\x00-\xff", r"\x00-\U0010ffff")


def _word(*names: str) -> str:
    return _unicode("|".join([f"(?:{_CDL[name]})" for name in names]))


_NAME = _unicode(terminals("names.lark")["IDENT"])
_PATH = rf"/?(?:{_NAME}/)*{_NAME}"


class CDLLexer(RegexLexer):
    """CDL, the text form of netCDF datasets, for Pygments.

    Examples
    --------
    >>> tokens = CDLLexer().get_tokens("int v(x) ;")
    >>> [(str(kind), text) for kind, text in tokens if text.strip()][:3]
    [('Token.Keyword.Type', 'int'), ('Token.Name.Variable', 'v'), ('Token.Punctuation', '(')]
    """

    name = "CDL"
    url = "https://docs.unidata.ucar.edu/nug/current/_c_d_l.html"
    aliases = ("cdl", "netcdf-cdl")
    filenames = ("*.cdl",)
    mimetypes = ("text/x-cdl",)

    tokens = {  # noqa: RUF012
        "root": [
            (r"\s+", Whitespace),
            (_CDL["LINE_COMMENT"], Comment.Single),
            (_word("BLOCK_COMMENT"), Comment.Multiline),
            (_word("STRING"), String),
            (_word("CHARACTER"), String.Char),
            (
                # Bounded, so that a text that repeats this word is not slower than others.
                portable(r"((?i:netcdf)|group:)([ \t]+)((?:[^{\n\\]|\\.){1,1000}+)(\{)"),
                bygroups(Keyword, Whitespace, Name.Namespace, Punctuation),
            ),
            (rf"(?:{_word('TYPES', 'DIMENSIONS', 'VARIABLES', '_DATA')})(?=\s|$)", Keyword),
            (rf"({_PATH})(?=\(\*\))", Keyword.Type),
            (_word("ENUM", "OPAQUE", "COMPOUND"), Keyword),
            (
                rf"({_PATH})([ \t]+)({_NAME})(?=[ \t]*[;,(])",
                bygroups(Keyword.Type, Whitespace, Name.Variable),
            ),
            (_word("PRIMITIVE"), Keyword.Type),
            (_word("UNLIMITED", "NIL", "FILL", "SPECIAL_FLOAT", "NEGATIVE_INFINITY"), Keyword.Constant),
            # A run of numbers is one token; most data are such runs.
            (r"(?:[-+]?(?:\d|\.\d)[\w.]*(?:(?<=[eE])[-+]\d+\w*)?(?:, *|(?=[\s;}/)]|$)))+", Number),
            (
                rf"({_PATH})?(:)({_NAME})(\s*)(=)",
                bygroups(Name.Variable, Punctuation, Name.Attribute, Whitespace, Punctuation),
            ),
            (rf"({_PATH})(?=\s*(?:=|\())", Name.Variable),
            (rf"({_PATH})(\s+)(?={_NAME})", bygroups(Keyword.Type, Whitespace)),
            (_PATH, Name),
            (r"[{}();,=*:/]", Punctuation),
            (r".", Text),
        ]
    }

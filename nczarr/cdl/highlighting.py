"""Split CDL into tokens for Pygments, which colours it on terminals, in Sphinx and in notebooks.

The grammar for reading is ``grammar/cdl.lark``; this lexer is only as exact as colours require.
"""

from __future__ import annotations

from pygments.lexer import RegexLexer, bygroups
from pygments.token import Comment, Keyword, Name, Number, Punctuation, String, Text, Whitespace

from nczarr.grammar import portable

_NAME = r"(?:[^\W\d]|[^\x00-\x7f]|\\.)(?:[\w.@+\-%]|[^\x00-\x7f]|\\.)*"
_PATH = rf"/?(?:{_NAME}/)*{_NAME}"
_PRIMITIVES = (
    "char|byte|short|int|float|double|ubyte|ushort|uint|int64|uint64|string|real|long|integer|ulong|uinteger"
)
_END = r"(?![\w.@+\-%\\])"


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
            (r"//[^\n]*", Comment.Single),
            (r'"(?:[^"\\]|\\.)*"', String),
            (r"'(?:[^'\\\n]|\\.)*'", String.Char),
            (
                # Bounded, so that a text that repeats this word is not slower than others.
                portable(r"((?i:netcdf)|group:)([ \t]+)((?:[^{\n\\]|\\.){1,1000}+)(\{)"),
                bygroups(Keyword, Whitespace, Name.Namespace, Punctuation),
            ),
            (r"(?:types|dimensions|variables|data):(?=\s|$)", Keyword),
            (rf"({_PATH})(?=\(\*\))", Keyword.Type),
            (rf"(?:enum|opaque|compound|structure|struct){_END}", Keyword),
            (
                rf"({_PATH})([ \t]+)({_NAME})(?=[ \t]*[;,(])",
                bygroups(Keyword.Type, Whitespace, Name.Variable),
            ),
            (rf"(?:{_PRIMITIVES}){_END}", Keyword.Type),
            (
                rf"(?:unlimited|UNLIMITED|NIL|nil|Nil|[-+]?(?:NaN|nan|Infinity|Inf)f?|_){_END}",
                Keyword.Constant,
            ),
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

"""Read CDL text: parse, analyse and bind it into a dataset.

Lark makes a parser of the grammar (``grammar/cdl.lark``) and a syntax tree of the text; the analyzer looks up names
and gives constants their types; the binder puts the data lists into arrays. All problems of a text are collected and
reported together, each with its line and column.
"""

from nczarr.cdl.read.load import load, loads
from nczarr.cdl.read.source import CDLWarning

__all__ = ["CDLWarning", "load", "loads"]

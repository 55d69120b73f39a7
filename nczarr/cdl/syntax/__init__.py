"""Turn CDL text into a syntax tree.

The grammar is ``grammar/cdl.lark``, and the tree has one class for each of its rules. What one token of the text says
is read here too: names with their escapes, constants, and runs, long stretches of values that are single tokens. What
names mean, and which type a value gets, is asked in ``cdl.read``.
"""

from nczarr.cdl.syntax.parser import parse
from nczarr.cdl.syntax.source import CDLWarning, Problems, SourceText, TooManyProblems, as_text
from nczarr.cdl.syntax.tokens import (
    Constant,
    ConstantError,
    HardRunError,
    clean_name,
    convert,
    count_run,
    count_strings,
    dataset_name,
    is_number,
    name_of,
    opaque_bytes,
    parse_constant,
    parse_run,
    path_of,
    raw_strings,
    split_enum_constant,
    split_run,
    split_statements,
    split_strings,
    text_strings,
)
from nczarr.cdl.syntax.tree import Block, Call, Value, Values

__all__ = [
    "Block",
    "CDLWarning",
    "Call",
    "Constant",
    "ConstantError",
    "HardRunError",
    "Problems",
    "SourceText",
    "TooManyProblems",
    "Value",
    "Values",
    "as_text",
    "clean_name",
    "convert",
    "count_run",
    "count_strings",
    "dataset_name",
    "is_number",
    "name_of",
    "opaque_bytes",
    "parse",
    "parse_constant",
    "parse_run",
    "path_of",
    "raw_strings",
    "split_enum_constant",
    "split_run",
    "split_statements",
    "split_strings",
    "text_strings",
]

"""Turn CDL text into a syntax tree.

The grammar is ``grammar/cdl.lark``; the tree has one class for each of its rules. This package also reads single
tokens: names with their escapes, constants, and runs (long stretches of values in one token). ``cdl.read`` resolves
names and gives values their types.
"""

from nczarr.cdl.syntax.parser import parse
from nczarr.cdl.syntax.runs import (
    NeedsSlowPath,
    count_run,
    count_strings,
    parse_run,
    raw_strings,
    split_run,
    split_statements,
    split_strings,
    text_strings,
)
from nczarr.cdl.syntax.source import CDLWarning, Problems, SourceText, TooManyProblems, as_text
from nczarr.cdl.syntax.tokens import (
    Constant,
    ConstantError,
    clean_name,
    convert,
    dataset_name,
    is_number,
    name_of,
    opaque_bytes,
    parse_constant,
    path_of,
    split_enum_constant,
)
from nczarr.cdl.syntax.tree import Block, Call, Value, Values

__all__ = [
    "Block",
    "CDLWarning",
    "Call",
    "Constant",
    "ConstantError",
    "NeedsSlowPath",
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

"""Turn CDL text into a syntax tree.

The grammar is ``grammar/cdl.lark``; the tree has one class for each of its rules. This package also reads single
tokens: constants, and runs (long stretches of values in one token). ``cdl.read`` reads and resolves names and gives
values their types.
"""

"""Read CDL text: analyse its syntax tree and bind its values into a dataset.

``cdl.syntax`` builds the tree. The analyzer resolves names and types constants. The binder copies data lists into
arrays. All problems of a text are collected and reported together, each with its line and column.
"""

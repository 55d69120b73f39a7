"""Compare and verify datasets; nothing here writes one.

:func:`diff` compares two datasets bit by bit. :func:`digest` computes checksums of the content of a dataset that do not
depend on its format. :func:`check` lists violations of the specification.
"""

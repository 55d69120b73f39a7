"""Hold datasets against each other, against their digests, and against the specification.

:func:`diff` compares two datasets to the bit; :func:`digest` makes checksums of what they mean, whatever their format;
:func:`check` lists what is not as the specification says. Nothing here writes a dataset.
"""

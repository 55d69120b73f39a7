"""Hold datasets against each other, against their digests, and against the specification.

:func:`diff` compares two datasets to the bit; :func:`digest` makes checksums of what they mean, whatever their format;
:func:`check` lists what is not as the specification says. Nothing here writes a dataset.
"""

from nczarr.convert.verify.canonical import canonical
from nczarr.convert.verify.check import check
from nczarr.convert.verify.differences import ValueDifference, diff, differences_of_copy
from nczarr.convert.verify.digests import (
    ATTRIBUTE,
    Digest,
    bands,
    canonical_bytes,
    digest,
    digest_of,
    header_digest,
    without_digest,
)

__all__ = [
    "ATTRIBUTE",
    "Digest",
    "ValueDifference",
    "bands",
    "canonical",
    "canonical_bytes",
    "check",
    "diff",
    "differences_of_copy",
    "digest",
    "digest_of",
    "header_digest",
    "without_digest",
]

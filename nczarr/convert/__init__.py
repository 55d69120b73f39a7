"""Convert anything that nczarr reads to anything that it writes, through the model."""

from nczarr.convert.copying import copy
from nczarr.convert.edges import create_sink, open_source
from nczarr.convert.report import Report
from nczarr.convert.verify import Digest, ValueDifference, diff, digest
from nczarr.formats import Kind, kind_of_target
from nczarr.transfer import Progress

__all__ = [
    "Digest",
    "Kind",
    "Progress",
    "Report",
    "ValueDifference",
    "copy",
    "create_sink",
    "diff",
    "digest",
    "kind_of_target",
    "open_source",
]

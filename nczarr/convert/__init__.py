"""Convert datasets between all formats that nczarr reads and writes, through the model."""

from __future__ import annotations

from nczarr.convert.copying import append, copy, join
from nczarr.convert.editing import Edited, edit
from nczarr.convert.endpoints import create_sink, open_source
from nczarr.convert.many.scan import scan
from nczarr.convert.report import Report
from nczarr.convert.verify.differences import ValueDifference, diff
from nczarr.convert.verify.digests import Digest, digest
from nczarr.formats import Kind, kind_of_target
from nczarr.transfer import Progress

__all__ = [
    "Digest",
    "Edited",
    "Kind",
    "Progress",
    "Report",
    "ValueDifference",
    "append",
    "copy",
    "create_sink",
    "diff",
    "digest",
    "edit",
    "join",
    "kind_of_target",
    "open_source",
    "scan",
]

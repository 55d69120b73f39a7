"""Convert datasets between all formats that nczarr reads and writes, through the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nczarr.formats import Kind, kind_of_target
from nczarr.lazy import lazy
from nczarr.transfer import Progress

if TYPE_CHECKING:
    from nczarr.convert.copying import append, copy, join
    from nczarr.convert.editing import Edited, edit
    from nczarr.convert.endpoints import create_sink, open_source
    from nczarr.convert.many.scan import scan
    from nczarr.convert.report import Report
    from nczarr.convert.verify.differences import ValueDifference, diff
    from nczarr.convert.verify.digests import Digest, digest
else:
    __getattr__ = lazy(
        __name__,
        {
            "copying": ["append", "copy", "join"],
            "editing": ["Edited", "edit"],
            "endpoints": ["create_sink", "open_source"],
            "many.scan": ["scan"],
            "report": ["Report"],
            "verify.differences": ["ValueDifference", "diff"],
            "verify.digests": ["Digest", "digest"],
        },
    )

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

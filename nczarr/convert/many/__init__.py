"""Make one dataset of many files, and add files to a dataset.

All files are looked at before anything is written; what does not fit is listed. Few of them are open at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nczarr.lazy import lazy

if TYPE_CHECKING:
    from nczarr.convert.many.appending import (
        append,
        append_records,
        append_to_copy,
        appended,
        growing_dimension,
    )
    from nczarr.convert.many.joining import join
else:
    __getattr__ = lazy(
        __name__,
        {
            "appending": ["append", "append_records", "append_to_copy", "appended", "growing_dimension"],
            "joining": ["join"],
        },
    )

__all__ = ["append", "append_records", "append_to_copy", "appended", "growing_dimension", "join"]

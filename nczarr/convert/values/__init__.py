"""Copy values without decoding or re-cutting them more than is needed, and record what is done.

:mod:`nczarr.transfer` reads and writes them a block at a time. Before it, :func:`copy_stored` takes over chunks whose
bytes may stay as they are, and :func:`rechunk` those that one pass would decode many times. What is finished is
recorded on request (:class:`Recording`), so that a copy that was killed can go on; one that was finished before
is known again (:func:`finished`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nczarr.convert.values.rechunk import rechunk
from nczarr.lazy import lazy

if TYPE_CHECKING:
    from nczarr.convert.values.earlier import finished
    from nczarr.convert.values.marks import Mark, mark_of
    from nczarr.convert.values.raw import Twin, copy_stored, put_stored, twin_of
    from nczarr.convert.values.resume import Recording, checksum, state
else:
    __getattr__ = lazy(
        __name__,
        {
            "earlier": ["finished"],
            "marks": ["Mark", "mark_of"],
            "raw": ["Twin", "copy_stored", "put_stored", "twin_of"],
            "resume": ["Recording", "checksum", "state"],
        },
    )

__all__ = [
    "Mark",
    "Recording",
    "Twin",
    "checksum",
    "copy_stored",
    "finished",
    "mark_of",
    "put_stored",
    "rechunk",
    "state",
    "twin_of",
]

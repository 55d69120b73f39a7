"""Copy values without decoding or re-cutting them more than is needed, and record what is done.

:mod:`nczarr.transfer` reads and writes them a block at a time. Before it, :func:`copy_stored` takes over chunks whose
bytes may stay as they are, and :func:`rechunk` those that one pass would decode many times. What is finished is
recorded on request (:class:`Recording`), so that a copy that was killed can go on.
"""

from nczarr.convert.values.raw import Twin, copy_stored, put_stored, twin_of
from nczarr.convert.values.rechunk import rechunk
from nczarr.convert.values.resume import Recording, checksum, fingerprint, state

__all__ = [
    "Recording",
    "Twin",
    "checksum",
    "copy_stored",
    "fingerprint",
    "put_stored",
    "rechunk",
    "state",
    "twin_of",
]

"""Copy values without decoding or re-cutting them more than is needed, and record what is done.

:mod:`nczarr.transfer` reads and writes them a block at a time. Before it, :func:`copy_stored` takes over chunks whose
bytes may stay as they are, and :func:`rechunk` those that one pass would decode many times. What is finished is
recorded on request (:class:`Recording`), so that a copy that was killed can go on; one that was finished before
is known again (:func:`finished`).
"""

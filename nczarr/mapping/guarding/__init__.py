"""Guard a dataset in a store against half-written states, other writers, and losses.

A new dataset is hidden until it is complete, and what is foreign in its directory is not deleted
(:class:`Destination`); who changes a dataset as a whole keeps others away (:func:`writing_alone`); consolidated
metadata that are older than the documents, and chunks that have gone since they were written, are found.
"""

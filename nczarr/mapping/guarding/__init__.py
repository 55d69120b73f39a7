"""Guard a dataset in a store against partial states, concurrent writers, and losses.

A new dataset is hidden until it is complete, and foreign files in its directory are not deleted (``destination``,
``unfinished``). A writer of a whole dataset excludes other writers (:func:`writing_alone`). Consolidated metadata that
are older than the documents, and chunks that are missing, are detected (``changes``, ``manifest``).
"""

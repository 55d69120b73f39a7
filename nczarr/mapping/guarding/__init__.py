"""Guard a dataset in a store against half-written states, other writers, and losses.

A new dataset is hidden until it is complete, and what is foreign in its directory is not deleted
(:class:`Destination`); who changes a dataset as a whole keeps others away (:func:`writing_alone`); consolidated
metadata that are older than the documents, and chunks that have gone since they were written, are found.
"""

from nczarr.mapping.guarding.changes import (
    UNSTORED,
    WRITING,
    begin_changes,
    end_changes,
    mark_unstored,
    moment,
    remove_mark,
    remove_unclaimed,
    stale_nodes,
    unstored_reason,
    writer_at,
    writing_alone,
)
from nczarr.mapping.guarding.destination import (
    ORPHANS,
    RECORD,
    UNFINISHED,
    Destination,
    Mark,
    holds_orphans,
    is_zarr,
    put_in_place,
    refuse_unfinished,
    remove_unfinished,
)
from nczarr.mapping.guarding.manifest import forget_chunks, missing_chunks, record_chunks, recorded_arrays

__all__ = [
    "ORPHANS",
    "RECORD",
    "UNFINISHED",
    "UNSTORED",
    "WRITING",
    "Destination",
    "Mark",
    "begin_changes",
    "end_changes",
    "forget_chunks",
    "holds_orphans",
    "is_zarr",
    "mark_unstored",
    "missing_chunks",
    "moment",
    "put_in_place",
    "record_chunks",
    "recorded_arrays",
    "refuse_unfinished",
    "remove_mark",
    "remove_unclaimed",
    "remove_unfinished",
    "stale_nodes",
    "unstored_reason",
    "writer_at",
    "writing_alone",
]

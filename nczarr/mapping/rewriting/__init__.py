"""Change what a store holds of a dataset: values, lengths, documents, and the places of arrays.

A change is the difference of two plans, written in an order in which a reader never sees a size that the arrays do not
have (:func:`apply_update`); lengths alone have a shorter way (:func:`write_lengths`). Moves of arrays are recorded
first, so that what was interrupted is finished or taken back (:func:`finish_moves`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nczarr.lazy import lazy

if TYPE_CHECKING:
    from nczarr.mapping.rewriting.keeping import Before
    from nczarr.mapping.rewriting.lengths import write_lengths
    from nczarr.mapping.rewriting.rename_journal import ASIDE, finish_moves, refuse_interrupted
    from nczarr.mapping.rewriting.rewrite import rewrite_documents
    from nczarr.mapping.rewriting.update import apply_update
else:
    __getattr__ = lazy(
        __name__,
        {
            "rename_journal": ["ASIDE", "finish_moves", "refuse_interrupted"],
            "keeping": ["Before"],
            "update": ["apply_update"],
            "rewrite": ["rewrite_documents"],
            "lengths": ["write_lengths"],
        },
    )

__all__ = [
    "ASIDE",
    "Before",
    "apply_update",
    "finish_moves",
    "refuse_interrupted",
    "rewrite_documents",
    "write_lengths",
]

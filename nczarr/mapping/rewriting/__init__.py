"""Change the stored parts of a dataset: values, lengths, documents, and the places of arrays.

A change is the difference of two plans, written in an order in which readers never see a size that the arrays do not
have (:func:`apply_update`); lengths alone need no plan (:func:`write_lengths`). A journal records moves of arrays
before they begin, so that an interrupted move can be finished or undone (:func:`finish_moves`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nczarr.lazy import lazy

if TYPE_CHECKING:
    from nczarr.mapping.rewriting.documents import write_lengths
    from nczarr.mapping.rewriting.rename_journal import ASIDE, finish_moves, refuse_interrupted
    from nczarr.mapping.rewriting.update import Before, apply_update, rewrite_documents
else:
    _HOMES = {
        "rename_journal": ["ASIDE", "finish_moves", "refuse_interrupted"],
        "update": ["Before", "apply_update", "rewrite_documents"],
        "documents": ["write_lengths"],
    }
    __getattr__ = lazy(__name__, _HOMES)

__all__ = [
    "ASIDE",
    "Before",
    "apply_update",
    "finish_moves",
    "refuse_interrupted",
    "rewrite_documents",
    "write_lengths",
]

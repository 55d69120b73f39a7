"""Edit a dataset: a tree of nodes, and the session that stores the tree and its values.

:class:`Session` is one open dataset. :attr:`Session.root` is its tree (:class:`GroupNode`, :class:`VariableNode`,
:class:`DimensionNode`, :class:`TypeNode`), which any number of threads may change. :meth:`Session.read` and
:meth:`Session.write` transfer values in the model's form; :meth:`Session.sync` and :meth:`Session.close` store all
changes. The package follows no convention of netCDF4-python.
"""

from nczarr.session.backend import SourceOnly, Stored, StoredArray
from nczarr.session.chunk_cache import default_bytes
from nczarr.session.session import Session
from nczarr.session.tree import DimensionNode, GroupNode, TypeNode, VariableNode, checked_name, kept_name

__all__ = [
    "DimensionNode",
    "GroupNode",
    "Session",
    "SourceOnly",
    "Stored",
    "StoredArray",
    "TypeNode",
    "VariableNode",
    "checked_name",
    "default_bytes",
    "kept_name",
]

"""Edit a dataset: a plain tree of nodes, and the session that brings it and its values to a store.

:class:`Session` is one open dataset: :attr:`Session.root` is the tree (:class:`GroupNode`, :class:`VariableNode`,
:class:`DimensionNode`, :class:`TypeNode`), which a program changes at will, from any number of threads.
:meth:`Session.read` and :meth:`Session.write` move values; :meth:`Session.sync` and :meth:`Session.close` make
the store say what the tree says. Nothing here has netCDF4-python's conventions: values are those of the model.
"""

from nczarr.session.backend import SourceOnly, Stored, StoredArray
from nczarr.session.chunk_cache import default_bytes
from nczarr.session.errors import (
    ArgumentError,
    ArgumentTypeError,
    BytesError,
    DroppedError,
    EditError,
    NodeAttributeError,
    NotWritableError,
    RangeError,
    TextError,
    UnknownNameError,
    check_unicode,
)
from nczarr.session.session import Session
from nczarr.session.tree import (
    DimensionNode,
    GroupNode,
    TypeNode,
    VariableNode,
    checked_name,
    kept_name,
)

__all__ = [
    "ArgumentError",
    "ArgumentTypeError",
    "BytesError",
    "DimensionNode",
    "DroppedError",
    "EditError",
    "GroupNode",
    "NodeAttributeError",
    "NotWritableError",
    "RangeError",
    "Session",
    "SourceOnly",
    "Stored",
    "StoredArray",
    "TextError",
    "TypeNode",
    "UnknownNameError",
    "VariableNode",
    "check_unicode",
    "checked_name",
    "default_bytes",
    "kept_name",
]

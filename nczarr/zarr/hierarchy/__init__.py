"""Find, read and write the groups and arrays of one store.

A :class:`Hierarchy` has the same interface for every version of Zarr. A layout defines the keys of documents and
chunks of one version, and finds the nodes with few requests. Opening detects the version of a store; metadata are
parsed on first access.
"""

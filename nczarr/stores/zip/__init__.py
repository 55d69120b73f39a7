"""Stores in zip files, local ones and those that are keys of another store.

A :class:`ZipStore` reads any archive, and appends to one of its own without moving what is there; ``source`` is the
file or the key of another store in which the archive lies.
"""

"""Stores in zip files, local ones and those that are keys of another store."""

from nczarr.stores.zip.store import ZipStore

__all__ = ["ZipStore"]

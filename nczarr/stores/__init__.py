"""Stores: bytes under keys, wherever they are kept."""

from nczarr.stores.base import Store, SubStore, check_key
from nczarr.stores.local import LocalStore
from nczarr.stores.memory import MemoryStore
from nczarr.stores.open import open_store

__all__ = ["LocalStore", "MemoryStore", "Store", "SubStore", "check_key", "open_store"]

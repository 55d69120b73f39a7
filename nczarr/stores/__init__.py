"""Stores: bytes under keys, in directories, zip files, memory, web servers and object stores."""

from nczarr.stores.base import Store, check_key
from nczarr.stores.local import LocalStore
from nczarr.stores.memory import MemoryStore
from nczarr.stores.open import open_store
from nczarr.targets import Target, parse_target

__all__ = ["LocalStore", "MemoryStore", "Store", "Target", "check_key", "open_store", "parse_target"]

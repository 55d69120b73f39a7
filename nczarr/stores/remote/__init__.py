"""Stores behind a client: fsspec's file systems, web servers, obstore, and the stores of zarr-python.

The first store of a kind imports its client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nczarr.lazy import lazy

if TYPE_CHECKING:
    from nczarr.stores.remote.fsspec_store import FsspecStore, file_system
    from nczarr.stores.remote.http import HTTPStore
    from nczarr.stores.remote.obstore_store import ObstoreStore
    from nczarr.stores.remote.s3 import open_s3
    from nczarr.stores.remote.zarr_store import ZarrStore
else:
    __getattr__ = lazy(
        __name__,
        {
            "fsspec_store": ["FsspecStore", "file_system"],
            "http": ["HTTPStore"],
            "obstore_store": ["ObstoreStore"],
            "s3": ["open_s3"],
            "zarr_store": ["ZarrStore"],
        },
    )

__all__ = ["FsspecStore", "HTTPStore", "ObstoreStore", "ZarrStore", "file_system", "open_s3"]

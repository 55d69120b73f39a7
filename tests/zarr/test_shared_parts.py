"""Change parts of chunks beside other processes: by the exchange of a store, which is asked for only then."""

from __future__ import annotations

import numpy as np

from nczarr.stores import MemoryStore
from nczarr.zarr.chunks.array import Array
from nczarr.zarr.grids import RegularGrid
from nczarr.zarr.metadata import ArrayMetadata
from nczarr.zarr.types import data_type_for


def test_whole_chunks_ask_the_server_nothing_about_conditions() -> None:
    """The first question costs a request."""

    class Asked(MemoryStore):
        asked = 0

        @property
        def exchanges(self) -> bool:  # type: ignore[override]
            self.asked += 1
            return True

    store = Asked()
    metadata = ArrayMetadata((64, 8), data_type_for("int32"), RegularGrid((8, 8)), fill_value=np.int32(0))
    array = Array(store, "v", metadata)
    store.is_shared = True
    array.write(slice(8, 40), np.ones((32, 8), "i4"))
    assert store.asked == 0
    array.write(slice(4, 12), np.full((8, 8), 2, "i4"))
    assert store.asked > 0
    assert array.read(...)[:, 0].tolist() == [0] * 4 + [2] * 8 + [1] * 28 + [0] * 24

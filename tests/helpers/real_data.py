"""Find the real data that tests read: the full collection where it is there, else the repository's selection."""

from __future__ import annotations

import os
from pathlib import Path

TESTS = Path(__file__).parents[1]

#: What the repository itself carries; `tests/data/selection/README.md` says where each file is from.
SELECTION = TESTS / "data" / "selection"


def find() -> Path:
    """The folder that NCZARR_SHARED names, ``shared`` beside the checkout, or the selection."""
    named = os.environ.get("NCZARR_SHARED")
    if named is not None:
        return Path(named) / "data"
    beside = TESTS.parents[1] / "shared" / "data"
    return beside if (beside / "cdl-corpus").is_dir() else SELECTION


DATA = find()
NETCDF_FILES = sorted((DATA / "netcdf").glob("*.nc"))
ZARR_SAMPLES = DATA / "zarr-samples"
CDL_CORPUS = DATA / "cdl-corpus"

"""Find the real data for tests: the full collection if present, otherwise the repository's selection."""

from __future__ import annotations

import os
from pathlib import Path

TESTS = Path(__file__).parents[1]

#: The data in the repository. `tests/data/selection/README.md` states the source of each file.
SELECTION = TESTS / "data" / "selection"


def find() -> Path:
    """Return the folder of NCZARR_SHARED, ``shared`` beside the checkout, or the selection."""
    named = os.environ.get("NCZARR_SHARED")
    if named is not None:
        return Path(named) / "data"
    beside = TESTS.parents[1] / "shared" / "data"
    return beside if (beside / "cdl-corpus").is_dir() else SELECTION


DATA = find()
NETCDF_FILES = sorted((DATA / "netcdf").glob("*.nc"))
ZARR_SAMPLES = DATA / "zarr-samples"
CDL_CORPUS = DATA / "cdl-corpus"

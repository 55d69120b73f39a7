"""Write the stores that a release keeps for the tests of all later releases: ``tests/data/stores/release_VERSION``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nczarr

DATA = Path(__file__).parent
#: The forms of stores: the source, the layout, and the options of the copy.
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "example": ("example.nc", {}),
    "user_types": ("user_types.nc", {}),
    "nested": ("nested.nc", {}),
    "names": ("names.nc", {}),
    "shards": (
        "example.nc",
        {"chunks": {"time": 1}, "shards": {"time": 3}, "checksum": True, "manifest": True},
    ),
    "struct": ("user_types.nc", {"compound": "struct"}),
    "nczarr-v2": ("example.nc", {"layout": "nczarr-v2", "lossy": True}),
    "zarr-v3": ("example.nc", {"layout": "zarr-v3", "lossy": True}),
    "zarr-v2": ("example.nc", {"layout": "zarr-v2", "lossy": True}),
}


def main() -> None:
    folder = DATA / "stores" / f"release_{nczarr.__version__}"
    folder.mkdir()
    for name, (source, options) in FORMS.items():
        nczarr.copy(DATA / source, folder / f"{name}.zarr.zip", **options)


if __name__ == "__main__":
    main()

"""Test the cost of importing nczarr, and its promises."""

from __future__ import annotations

import subprocess
import sys

HEAVY = [
    "asyncio", "cftime", "dask", "fsspec", "h5py", "lark", "netCDF4", "numcodecs", "numpy", "xarray", "zarr",
]  # fmt: skip


def test_import_is_light() -> None:
    code = f"import nczarr, sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_help_is_light() -> None:
    code = "import sys; from nczarr.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass"
    code += f"\nprint([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stderr.strip() == "[]"


def test_every_public_name_is_there() -> None:
    import nczarr

    for name in nczarr.__all__:
        assert getattr(nczarr, name) is not None

"""Run the main job on one netCDF file: to Zarr v3, to CDL and through ncgen, back, and through other readers.

``python tests/helpers/main_job.py FILE.nc ...`` prints a table of the results.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nczarr
from nczarr.cli import main as command

#: Attributes that netcdf-c adds to a file.
PROVENANCE = ["_NCProperties"]
SAME = "identical"


def differences(left: Path, right: Path, **options: Any) -> str:
    """Return ``identical``, or the first differences."""
    found = [str(d) for d, _ in zip(nczarr.diff(left, right, **options), range(5))]
    return "; ".join(found) or SAME


def through_cdl(nc: Path, zarr: Path, work: Path) -> str:
    """Dump the copy, read the text with ncgen, and compare the result with the original."""
    text, again = work / "dump.cdl", work / "ncgen.nc"
    if command(["dump", str(zarr), "-o", str(text)]):
        return "nczarr dump failed"
    made = subprocess.run(
        ["ncgen", "-4", "-o", str(again), str(text)], capture_output=True, text=True, check=False
    )
    if made.returncode or made.stderr:
        return f"ncgen: {made.returncode} {made.stderr.strip()[:200]}"
    # CDL has a single NaN
    return differences(nc, again, ignore_attributes=PROVENANCE, nan_payloads=False)


def and_back(nc: Path, zarr: Path, work: Path) -> str:
    """Copy the copy back to a netCDF file and compare, including the storage."""
    back = work / "back.nc"
    nczarr.copy(zarr, back)
    return differences(nc, back, storage=True, ignore_attributes=PROVENANCE)


def as_xarray_sees_it(nc: Path, zarr: Path) -> str:
    """Compare stock xarray's view of the copy with its view of the original, all groups."""
    import xarray as xr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options: dict[str, Any] = {}
        try:
            original = xr.open_groups(nc, engine="netcdf4", **options)
        except ValueError as error:
            if "decode" not in str(error):
                return f"xarray refuses the original: {str(error)[:80]}"
            options = {"decode_times": False}
            original = xr.open_groups(nc, engine="netcdf4", **options)
        copied = xr.open_groups(zarr, engine="zarr", **options)
        if list(original) != list(copied):
            return f"groups: {list(original)} {list(copied)}"
        for path in original:
            left, right = original[path], copied[path]
            if not left.identical(right):
                bad = [str(n) for n in left.variables if n not in right or not left[n].identical(right[n])]
                return f"{path}: {', '.join(bad) or 'attributes'}"
    return SAME


def as_zarr_python_sees_it(zarr: Path) -> str:
    """Open and read every array with stock zarr-python."""
    import zarr as zarr_python

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        count = 0
        group = zarr_python.open_group(zarr, mode="r")
        for _, node in group.members(max_depth=None):
            if isinstance(node, zarr_python.Array):
                node[...]
                count += 1
    return f"{count} arrays"


def table(files: Iterable[Path]) -> Iterable[str]:
    """Return the rows of a Markdown table."""
    yield "| file | copy → dump → `ncgen -4` | copy → back | xarray | zarr-python |"
    yield "|---|---|---|---|---|"
    for nc in files:
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            zarr = work / "out.zarr"
            try:
                nczarr.copy(nc, zarr)
            except nczarr.NCZarrError as error:
                yield f"| {nc.name} | {error} | | | |"
                continue
            cells = []
            for check in (
                lambda z=zarr, n=nc, w=work: through_cdl(n, z, w),
                lambda z=zarr, n=nc, w=work: and_back(n, z, w),
                lambda z=zarr, n=nc: as_xarray_sees_it(n, z),
                lambda z=zarr: as_zarr_python_sees_it(z),
            ):
                try:
                    cells.append(check())
                except Exception as error:  # the table shows the error
                    cells.append(f"{type(error).__name__}: {str(error)[:100]}")
            yield f"| {nc.name} | {' | '.join(cells)} |"


if __name__ == "__main__":
    for row in table(Path(name) for name in sys.argv[1:]):
        print(row, flush=True)

"""The test vectors: stores that the mapping did not write are read as their CDL says."""

from __future__ import annotations

import runpy
import shutil
import subprocess
from pathlib import Path

import mapping_tools as tools
import pytest

from nczarr.stores import MemoryStore

DATA = Path(__file__).parents[1] / "data"
NAMES = sorted(p.stem for p in (DATA / "vectors").glob("*.cdl"))


def test_the_vectors_are_those_of_the_script(tmp_path: Path) -> None:
    runpy.run_path(str(DATA / "make_vectors.py"))["main"](tmp_path)
    made = {p.relative_to(tmp_path): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    kept = {
        p.relative_to(DATA / "vectors"): p.read_bytes() for p in (DATA / "vectors").rglob("*") if p.is_file()
    }
    assert made == kept
    assert len(NAMES) >= 8


@pytest.mark.parametrize("name", NAMES)
def test_a_vector_is_read_as_its_cdl_says(name: str) -> None:
    cdl = pytest.importorskip("nczarr.cdl")
    expected = cdl.load(DATA / "vectors" / f"{name}.cdl")
    assert tools.differences(expected, DATA / "vectors" / f"{name}.zarr", storage=False) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_vector_survives_writing(name: str) -> None:
    from nczarr.mapping import open_dataset

    store = MemoryStore()
    with open_dataset(DATA / "vectors" / f"{name}.zarr") as stored:
        tools.copy(stored.dataset, store)
        assert tools.differences(stored.dataset, store) == []


@pytest.mark.parametrize("name", [n for n in NAMES if n != "names"])
def test_the_cdl_is_legal(name: str, tmp_path: Path) -> None:
    """netCDF's own ncgen takes it; but not names that begin with two underscores."""
    if shutil.which("ncgen") is None:
        pytest.skip("ncgen is not installed")
    path = DATA / "vectors" / f"{name}.cdl"
    done = subprocess.run(
        ["ncgen", "-4", "-o", str(tmp_path / "out.nc"), str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
